/* cohort synth: a model with random weights, of the shape and the formats of a real one, for measuring speed. */
#include "cmd.h"
#include "cohort_tools.h"
#include "common.h"
#include "opt.h"

#include "base/pool.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char prog[] = "cohort synth";

static const struct field {
	const char *name;
	size_t at;
	bool needed; /* when the shape is given by numbers only */
} fields[] = {
	{"n_vocab", offsetof(struct cohort_synth_params, n_vocab), true},
	{"n_embd", offsetof(struct cohort_synth_params, n_embd), true},
	{"n_layer", offsetof(struct cohort_synth_params, n_layer), true},
	{"n_head", offsetof(struct cohort_synth_params, n_head), true},
	{"n_head_kv", offsetof(struct cohort_synth_params, n_head_kv), false},
	{"n_ff", offsetof(struct cohort_synth_params, n_ff), true},
	{"n_ctx", offsetof(struct cohort_synth_params, n_ctx), false},
	{"head_size", offsetof(struct cohort_synth_params, head_size), false},
	{"tied", 0, false},
	{"rope_base", 0, false},
};
enum { N_FIELDS = sizeof fields / sizeof *fields };

static void print_shapes(FILE *out)
{
	for (size_t i = 0; cohort_synth_shape_name(i); i++)
		fprintf(out, "%s%s", i ? ", " : "", cohort_synth_shape_name(i));
}

static void print_fields(FILE *out)
{
	for (size_t i = 0; i < N_FIELDS; i++)
		fprintf(out, "%s%s", i ? ", " : "", fields[i].name);
}

static int hint(void)
{
	fprintf(stderr, "Try '%s --help'.\n", prog);
	return EXIT_USAGE;
}

static int unknown_shape(const char *s, size_t n)
{
	fprintf(stderr, "%s: shape '%.*s' is not known; known: ", prog, (int)n, s);
	print_shapes(stderr);
	fputs(", or numbers: ", stderr);
	print_fields(stderr);
	fputc('\n', stderr);
	return hint();
}

/* One "key=value" of n bytes; seen: a bit for each field given. */
static int set_field(struct cohort_synth_params *p, const char *s, size_t n, unsigned *seen)
{
	const char *eq = memchr(s, '=', n);
	const size_t n_key = (size_t)(eq - s);
	char text[32] = "", *end = text;
	size_t i = 0;

	while (i < N_FIELDS && !(strlen(fields[i].name) == n_key && memcmp(fields[i].name, s, n_key) == 0))
		i++;
	if (i == N_FIELDS) {
		fprintf(stderr, "%s: '%.*s' is no number of a shape; known: ", prog, (int)n_key, s);
		print_fields(stderr);
		fputc('\n', stderr);
		return hint();
	}
	if (n - n_key - 1 < sizeof text) {
		memcpy(text, eq + 1, n - n_key - 1);
		text[n - n_key - 1] = '\0';
	}
	errno = 0;
	const bool is_float = strcmp(fields[i].name, "rope_base") == 0, is_bool = strcmp(fields[i].name, "tied") == 0;
	const double v = is_float ? strtod(text, &end) : (double)strtoull(text, &end, 10);
	if (*text < '0' || *text > '9' || *end || errno || v > (is_float ? 1e30 : is_bool ? 1 : UINT32_MAX)) {
		fprintf(stderr, "%s: %s expects %s, got '%.*s'\n", prog, fields[i].name,
				is_bool ? "0 or 1" : "a number", (int)(n - n_key - 1), eq + 1);
		return hint();
	}
	if (is_float)
		p->rope_base = (float)v;
	else if (is_bool)
		p->tied = v > 0;
	else
		*(uint32_t *)(void *)((char *)p + fields[i].at) = (uint32_t)v;
	*seen |= 1u << i;
	return 0;
}

/* NAME, or numbers, or NAME and then numbers that differ from it. */
static int set_shape(struct cohort_synth_params *p, const char *s)
{
	const size_t n_first = strcspn(s, ",");
	const bool named = !memchr(s, '=', n_first);
	unsigned seen = 0;

	if (named) {
		char name[64] = "";
		if (n_first < sizeof name) {
			memcpy(name, s, n_first);
			name[n_first] = '\0';
		}
		if (!cohort_synth_shape(p, name))
			return unknown_shape(s, n_first);
		s += n_first + (s[n_first] == ',');
	} else {
		p->n_head_kv = 0;
		p->n_ctx = 2048;
		p->rope_base = 10000.0f;
		p->tied = false;
	}
	const uint32_t was_embd = p->n_embd, was_head = p->n_head;
	while (*s) {
		const size_t n = strcspn(s, ",");
		if (!memchr(s, '=', n))
			return unknown_shape(s, n);
		const int rc = set_field(p, s, n, &seen);
		if (rc)
			return rc;
		s += n + (s[n] == ',');
	}
	for (size_t i = 0; !named && i < N_FIELDS; i++)
		if (fields[i].needed && !(seen & 1u << i)) {
			fprintf(stderr, "%s: a shape by numbers needs %s\n", prog, fields[i].name);
			return hint();
		}
	for (size_t i = 0; i < N_FIELDS; i++) {
		if (seen & 1u << i)
			continue;
		if (!named && strcmp(fields[i].name, "n_head_kv") == 0)
			p->n_head_kv = p->n_head;
		/* Heads follow the embedding unless they are said to be otherwise. */
		if (strcmp(fields[i].name, "head_size") == 0 &&
				(!named || p->n_embd != was_embd || p->n_head != was_head))
			p->head_size = 0;
	}
	if (!named || seen)
		p->name = "synth"; /* it is no longer the one of that name */
	return 0;
}

static bool writing(float done, void *user)
{
	const double *started = user;
	progress_bar(*started, "writing", (double)done, 1, NULL);
	return !interrupted();
}

int cmd_synth(int argc, char **argv)
{
	const char *shape = NULL, *type = NULL, *path = NULL;
	uint64_t seed = 0;
	int64_t threads = 0;
	bool pure = false;
	const struct opt opts[] = {
		{"shape", "s", OPT_STR, &shape, 0, 0,
			"smol-135m|tinyllama-1.1b|llama3.2-1b|qwen2.5-0.5b|KEY=N,...",
			"a name, numbers, or both; see above", NULL},
		{"type", "t", OPT_STR, &type, 0, 0, "TYPE", "format or mix (default: Q4_K_M); see above", NULL},
		{"output", "o", OPT_STR, &path, 0, 0, "FILE", "GGUF file to write", NULL},
		{"seed", NULL, OPT_UINT64, &seed, 0, 0, "N", "another seed, other weights (default: 0)", NULL},
		{"threads", NULL, OPT_INT, &threads, 0, 1024, "N", "0: one per CPU (default); same file", NULL},
		{"pure", NULL, OPT_FLAG, &pure, 0, 0, NULL, "no mix: the base format wherever rows allow it", NULL},
	};
	char about[1024] = "";
	size_t n = (size_t)snprintf(about, sizeof about,
			"Writes a llama model with random weights, for measuring speed. A shape has the dimensions of\n"
			"the model it is named after and no more: qwen2.5-0.5b comes without biases.\n\nShapes:");
	for (size_t i = 0; cohort_synth_shape_name(i) && n < sizeof about; i++)
		n += (size_t)snprintf(about + n, sizeof about - n, " %s", cohort_synth_shape_name(i));
	if (n < sizeof about)
		n += (size_t)snprintf(about + n, sizeof about - n,
				"\n        n_vocab=N,n_embd=N,n_layer=N,n_head=N,n_ff=N[,n_head_kv=N,n_ctx=N,\n"
				"        head_size=N,tied=0|1,rope_base=X], or a name and then what differs from it\n"
				"Types: ");
	for (size_t i = 0; cohort_mix_name(i) && n < sizeof about; i++)
		n += (size_t)snprintf(about + n, sizeof about - n, "%s%s", i == 11 ? "\n        " : " ",
				cohort_mix_name(i));
	const struct opt_prog p = {
		prog, "-s SHAPE [-t TYPE] -o FILE [options]", about,
		"  cohort synth -s smol-135m -t Q4_K_M -o smol.gguf\n"
		"  cohort synth -s tinyllama-1.1b,n_layer=2 -t Q8_0 --seed 7 -o small.gguf\n",
		opts, sizeof opts / sizeof *opts,
	};
	int rc = opt_parse(&p, argc, argv, 2, NULL, 0, NULL);
	if (rc)
		return rc - 1;
	struct cohort_synth_params sp;
	struct cohort_err err;
	double started = clock_now();

	if (!shape || !path) {
		fprintf(stderr, "%s: %s is missing\n", prog, shape ? "-output FILE" : "-shape SHAPE");
		return hint();
	}
	cohort_synth_params_init(&sp);
	if ((rc = set_shape(&sp, shape)))
		return rc;
	if (type)
		sp.type = type;
	sp.seed = seed;
	sp.pure = pure;
	sp.n_threads = (int32_t)threads;
	sp.progress = writing;
	sp.progress_user = &started;
	catch_signals();
	const enum cohort_status st = cohort_synth_write(path, &sp, &err);
	progress_end();
	if (st == COHORT_ABORTED)
		return EXIT_INTERRUPTED;
	if (st)
		fprintf(stderr, "%s: %s\n", prog, err.text);
	if (st == COHORT_E_ARG)
		return hint();
	return !st ? EXIT_OK : st == COHORT_E_IO ? EXIT_FILE : EXIT_RUN;
}
