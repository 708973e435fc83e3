/* cohort quantize: a GGUF file written in another format. */
#include "cmd.h"
#include "cohort_tools.h"
#include "common.h"
#include "opt.h"

#include "base/pool.h"

#include <stdio.h>
#include <string.h>

static const char prog[] = "cohort quantize";

static int hint(void)
{
	fprintf(stderr, "Try '%s --help'.\n", prog);
	return EXIT_USAGE;
}

static bool working(float done, void *user)
{
	const double *started = user;
	progress_bar(*started, "quantising", (double)done, 1, NULL);
	return !interrupted();
}

static double mib(uint64_t n_bytes)
{
	return (double)n_bytes / 1048576.0;
}

struct table {
	bool errors; /* a dry run has none to show */
	bool begun;
};

/* One line per tensor. */
static void row(const struct cohort_quantize_tensor *t, void *user)
{
	struct table *a = user;
	char name[GGUF_NAME_BYTES], shape[96];
	size_t n = 0;

	progress_end();
	if (!a->begun)
		printf("%-36s %16s %6s -> %-6s %9s -> %12s%s\n", "tensor", "shape", "from", "to", "before", "after",
				a->errors ? "  rms error  max error" : "");
	a->begun = true;
	for (uint32_t d = 0; d < t->n_dims; d++)
		n += (size_t)snprintf(shape + n, sizeof shape - n, "%s%llu", d ? " x " : "",
				(unsigned long long)t->ne[d]);
	printf("%-36s %16s %6s -> %-6s %9.2f -> %8.2f MiB", gguf_name(name, t->name, t->n_name), shape, t->from, t->to,
			mib(t->bytes_before), mib(t->bytes_after));
	if (a->errors)
		printf(" %10.3e %10.3e", t->rms_error, t->max_error);
	if (t->instead_of)
		printf("  instead of %s", t->instead_of);
	putchar('\n');
}

static void print_sum(const struct cohort_quantize_result *r, bool dry_run, double seconds)
{
	printf("%llu tensor%s, %llu converted: %.1f MiB -> %.1f MiB, %.2f bits per weight",
			(unsigned long long)r->n_tensors, plural(r->n_tensors), (unsigned long long)r->n_converted,
			mib(r->bytes_before), mib(r->bytes_after),
			r->n_weights ? 8.0 * (double)r->bytes_after / (double)r->n_weights : 0.0);
	if (dry_run)
		puts(" (nothing was written)");
	else
		printf(", %.1f s\n", seconds);
	if (r->n_fallback)
		fprintf(stderr,
				"%s: note: %llu tensor%s got a larger format, as the row length is not a multiple of "
				"the block size%s\n",
				prog, (unsigned long long)r->n_fallback, plural(r->n_fallback),
				dry_run ? "" : " (--dry-run lists them)");
}

/* The input is looked at first, so that what is wrong with it and what is wrong with the output differ in exit code. */
static int check_input(const char *path)
{
	struct cohort_gguf *g = NULL;
	struct cohort_err err;

	if (cohort_gguf_open(path, &g, &err))
		return model_refused(prog, path, &err);
	cohort_gguf_free(g);
	return 0;
}

static int failed(enum cohort_status st, const struct cohort_err *err)
{
	if (st == COHORT_ABORTED)
		return EXIT_INTERRUPTED;
	const bool model = st == COHORT_E_FORMAT || st == COHORT_E_UNSUPPORTED;
	fprintf(stderr, "%s: %s%s\n", prog, model ? "cannot use the model " : "", err->text);
	if (st == COHORT_E_ARG && strstr(err->text, "requantising")) {
		fputs("-allow-requantize does it all the same; from F16 or BF16 the result would be better.\n", stderr);
		return EXIT_USAGE;
	}
	if (st == COHORT_E_ARG)
		return hint();
	return model ? EXIT_MODEL : st == COHORT_E_IO ? EXIT_FILE : EXIT_RUN;
}

static int run(const char *in, const char *out, struct cohort_quantize_params qp, bool errors)
{
	struct table table = {.errors = !qp.dry_run};
	struct cohort_quantize_result r;
	struct cohort_err err;
	double started = clock_now();
	int rc = check_input(in);

	if (rc)
		return rc;
	qp.progress = working;
	qp.progress_user = &started;
	if (errors || qp.dry_run) {
		qp.report = row;
		qp.report_user = &table;
	}
	catch_signals();
	const enum cohort_status st = cohort_quantize_write(in, out, &qp, &r, &err);
	progress_end();
	if (st) {
		close_stdout(prog); /* rows of the table come before the error */
		return failed(st, &err);
	}
	print_sum(&r, qp.dry_run, clock_now() - started);
	return close_stdout(prog);
}

int cmd_quantize(int argc, char **argv)
{
	struct cohort_quantize_params qp;
	const char *operands[3] = {NULL, NULL, NULL};
	size_t n_operands = 0;
	int64_t threads = 0;
	bool errors = false;
	cohort_quantize_params_init(&qp);
	const struct opt opts[] = {
		{"threads", "t", OPT_INT, &threads, 0, 1024, "N", "0: one per CPU (default); same file", NULL},
		{"pure", NULL, OPT_FLAG, &qp.pure, 0, 0, NULL, "no mix: the base format wherever rows allow it", NULL},
		{"token-embedding-type", NULL, OPT_STR, &qp.token_embedding_type, 0, 0, "F",
				"format of the token embedding, such as Q8_0", NULL},
		{"output-tensor-type", NULL, OPT_STR, &qp.output_tensor_type, 0, 0, "F",
				"format of the output matrix", NULL},
		{"allow-requantize", NULL, OPT_FLAG, &qp.allow_requantize, 0, 0, NULL,
				"convert what is quantised already, too; this adds its error to theirs", NULL},
		{"errors", NULL, OPT_FLAG, &errors, 0, 0, NULL,
				"print the error of each tensor: rms over the weights' own rms, and largest", NULL},
		{"dry-run", NULL, OPT_FLAG, &qp.dry_run, 0, 0, NULL,
				"print what each tensor would become; OUT.gguf may be left out", NULL},
	};
	char about[1024];
	size_t n = (size_t)snprintf(about, sizeof about,
			"Writes a model in another format. Keys are copied; matrices become FORMAT, or what is usual\n"
			"for them in a mix; vectors and what is small or delicate stay as they are.\n\nFormats:");
	for (size_t i = 0; cohort_mix_name(i) && n < sizeof about; i++)
		n += (size_t)snprintf(about + n, sizeof about - n, "%s%s", i == 11 ? "\n         " : " ",
				cohort_mix_name(i));
	const struct opt_prog p = {
		prog, "[options] IN.gguf OUT.gguf FORMAT", about,
		"  cohort quantize model-f16.gguf model-q4_k_m.gguf Q4_K_M\n"
		"  cohort quantize --errors --token-embedding-type Q8_0 model-f16.gguf small.gguf Q3_K_S\n"
		"  cohort quantize --dry-run model-f16.gguf Q5_K_M\n",
		opts, sizeof opts / sizeof *opts,
	};
	const int rc = opt_parse(&p, argc, argv, 2, operands, 3, &n_operands);
	if (rc)
		return rc - 1;
	if (qp.dry_run && n_operands == 2) {
		operands[2] = operands[1];
		operands[1] = NULL;
	} else if (n_operands < 3) {
		static const char *const missing[] = {"IN.gguf", "OUT.gguf", "FORMAT"};
		fprintf(stderr, "%s: %s is missing\n", prog, missing[n_operands]);
		return hint();
	}
	qp.type = operands[2];
	qp.n_threads = (int32_t)threads;
	return run(operands[0], operands[1], qp, errors);
}
