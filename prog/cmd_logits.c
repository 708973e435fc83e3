/* cohort logits: decodes ids as one sequence and writes the logits of every position as raw float32. */
#include "cmd.h"
#include "common.h"
#include "opt.h"
#include "out.h"

#include "base/map.h"
#include "base/mem.h"
#include "base/pool.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char prog[] = "cohort logits";

/* Whitespace-separated decimal ids. */
static int read_ids(const char *file, cohort_token **out, size_t *n_out)
{
	struct cohort_err err;
	char *text = NULL;
	size_t n_bytes, n = 0, room = 0;
	cohort_token *ids = NULL;

	if (file_read(file, (size_t)1 << 30, &text, &n_bytes, &err)) {
		fail(prog, &err);
		return EXIT_FILE;
	}
	for (char *p = text;;) {
		p += strspn(p, " \t\r\n\v\f");
		if (p == text + n_bytes)
			break;
		char *end;
		errno = 0;
		long v = strtol(p, &end, 10);
		if (end == p || (*end && !strchr(" \t\r\n\v\f", *end)) || errno || v < INT32_MIN || v > INT32_MAX ||
				(*end == '\0' && end != text + n_bytes)) {
			fprintf(stderr, "%s: %s: not a token id at byte %td\n", prog, file, p - text);
			goto fail;
		}
		if (!mem_grow((void **)&ids, &room, n + 1, sizeof *ids)) {
			fprintf(stderr, "%s: out of memory\n", prog);
			goto fail;
		}
		ids[n++] = (cohort_token)v;
		p = end;
	}
	if (n == 0) {
		fprintf(stderr, "%s: %s holds no token ids\n", prog, file);
		goto fail;
	}
	mem_free(text);
	*out = ids;
	*n_out = n;
	return 0;
fail:
	mem_free(text);
	mem_free(ids);
	return EXIT_FILE;
}

/* Before anything is computed: the rows of a decode are counted from the start of its batch, these from the file's. */
static int check_ids(const struct cohort_model *m, const cohort_token *ids, size_t n)
{
	struct cohort_model_info info;

	cohort_model_info_get(m, &info);
	if (n > (size_t)info.n_ctx_train) {
		fprintf(stderr, "%s: %zu tokens are more than the %d the model was trained for\n", prog, n,
				info.n_ctx_train);
		return EXIT_RUN;
	}
	for (size_t i = 0; i < n; i++)
		if (ids[i] < 0 || ids[i] >= info.n_vocab) {
			fprintf(stderr, "%s: row %zu has token %d; the vocabulary ends at %d\n", prog, i, ids[i],
					info.n_vocab - 1);
			return EXIT_RUN;
		}
	return 0;
}

static int decode(const struct cohort_model *m, struct cohort_context *ctx, const cohort_token *ids, size_t n,
		size_t n_batch, struct out *out)
{
	struct cohort_model_info info;
	struct cohort_batch b = {0};
	struct cohort_err err;
	const cohort_seq seq = 0;
	double started = clock_now();
	int rc = 0;

	cohort_model_info_get(m, &info);
	if (cohort_batch_init(&b, (int32_t)n_batch, 0, 1, &err))
		return fail(prog, &err);
	for (size_t at = 0; at < n && !rc; at += n_batch) {
		size_t len = n - at < n_batch ? n - at : n_batch;
		cohort_batch_reset(&b);
		for (size_t i = 0; i < len && !rc; i++)
			if (cohort_batch_add(&b, ids[at + i], (cohort_pos)(at + i), &seq, 1, true, &err))
				rc = fail(prog, &err);
		if (!rc && cohort_decode(ctx, &b, &err))
			rc = fail(prog, &err);
		for (size_t i = 0; i < len && !rc; i++) {
			const float *row = cohort_logits_get(ctx, (int32_t)i, &err);
			if (row)
				out_bytes(out, row, (size_t)info.n_vocab * sizeof *row);
			rc = row ? out->rc : fail(prog, &err);
		}
		progress_bar(started, "decoding", (double)(at + len), (double)n, "tokens");
	}
	progress_end();
	cohort_batch_release(&b);
	return rc;
}

/* A regular file is there whole or not at all; what a link points to is written, not the link. */
static int decode_to(const struct cohort_model *m, struct cohort_context *ctx, const cohort_token *ids, size_t n,
		size_t n_batch, const char *path)
{
	static struct out out;
	char real[PATH_MAX];
	const int rc = out_open(&out, prog, strcmp(path, "-") != 0 && realpath(path, real) ? real : path);

	return rc ? rc : out_close(&out, decode(m, ctx, ids, n, n_batch, &out));
}

int cmd_logits(int argc, char **argv)
{
	const char *model = NULL, *tokens = NULL, *output = NULL, *kv = "f16", *isa = NULL;
	int64_t threads = threads_default(), n_batch = 512, n_ubatch = 128;
	bool threads_given = false;
	struct load_opts load = {0};
	const struct opt opts[] = {
			{"model", "m", OPT_STR, &model, 0, 0, "FILE.gguf", "GGUF model (default: the built-in one)",
					NULL},
			{"tokens", NULL, OPT_STR, &tokens, 0, 0, "FILE",
					"token ids, separated by white space; - is standard input", NULL},
			{"output", "o", OPT_STR, &output, 0, 0, "FILE",
					"where to write n_tokens x n_vocab float32; - is standard output", NULL},
			{"kv-type", "ctk|cache-type-k", OPT_STR, &kv, 0, 0, "f16|f32|q8_0",
					"type of the cache (default: f16)", NULL},
			{"threads", "t", OPT_INT, &threads, 1, 1024, "N",
					"compute threads (default: the CPUs that it may use)", &threads_given},
			{"batch", "b|batch-size", OPT_INT, &n_batch, 1, 1 << 20, "N",
					"rows of one decode (default: 512)", NULL},
			{"ubatch", "ub|ubatch-size", OPT_INT, &n_ubatch, 1, 1 << 20, "N",
					"rows computed together (default: 128)",
					NULL},
			{"isa", NULL, OPT_STR, &isa, 0, 0, ISA_ARG,
					ISA_HELP, NULL},
			OPTS_LOAD(&load),
	};
	const struct opt_prog p = {
			prog,
			"[-m FILE] --tokens FILE -o FILE [options]",
			"Decodes token ids as one sequence and writes the logits of every position as raw\n"
			"little-endian float32. The bytes are the same whatever -threads, -batch, -ubatch and -isa.",
			"  cohort tokenize \"Once upon a time\" > ids && cohort logits --tokens ids -o logits.f32\n",
			opts,
			sizeof opts / sizeof *opts,
	};
	int rc = opt_parse(&p, argc, argv, 2, NULL, 0, NULL);
	if (rc)
		return rc - 1;
	struct cohort_model_params mp;
	struct cohort_context_params cp;
	struct cohort_model *m = NULL;
	struct cohort_context *ctx = NULL;
	struct cohort_err err;
	cohort_token *ids = NULL;
	size_t n = 0;

	cohort_model_params_init(&mp);
	cohort_context_params_init(&cp);
	if (!tokens || !output) {
		fprintf(stderr, "%s: %s is missing\nTry '%s --help'.\n", prog, tokens ? "-o FILE" : "--tokens FILE",
				prog);
		return EXIT_USAGE;
	}
	if (strcmp(kv, "f32") == 0) {
		cp.kv_type = COHORT_KV_F32;
	} else if (strcmp(kv, "q8_0") == 0) {
		cp.kv_type = COHORT_KV_Q8_0;
	} else if (strcmp(kv, "f16") != 0) {
		fprintf(stderr, "%s: cache type '%s' is not known; known: f16, f32, q8_0\nTry '%s --help'.\n", prog, kv,
				prog);
		return EXIT_USAGE;
	}
	mp.isa = isa;
	rc = load_opts_apply(prog, &load, &mp);
	if (!rc)
		rc = load_model(prog, model, &mp, &m);
	if (!rc)
		rc = read_ids(tokens, &ids, &n);
	if (!rc)
		rc = check_ids(m, ids, n);
	if (!rc) {
		catch_signals(); /* only now: reading standard input ends with the signal */
		cp.n_ctx = (int32_t)n;
		n_batch = n_batch < (int64_t)n ? n_batch : (int64_t)n;
		cp.n_batch = (int32_t)n_batch;
		cp.n_ubatch = (int32_t)n_ubatch;
		cp.n_seq_max = 1;
		cp.n_threads = thread_count(threads_given, threads);
		cp.abort = stop_asked;
		if (cohort_context_open(m, &cp, &ctx, &err))
			rc = fail(prog, &err);
	}
	if (!rc)
		rc = decode_to(m, ctx, ids, n, (size_t)n_batch, output);
	cohort_context_free(ctx);
	cohort_model_free(m);
	mem_free(ids);
	return rc;
}
