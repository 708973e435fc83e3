/* What sampling a token costs: chains over rows of 32,768 and 131,072 logits, one thread.
 *
 * What holds:
 *  1. Each token is timed alone; shown are the median, the mean and the 99th percentile over all of them.
 *  2. Rows are about normal, with a few large logits, as models give them; sixteen different ones take turns, so that
 *     none is in the nearest cache.
 *  3. The vocabulary is made up (words with and without a space, digits, punctuation, pieces of JSON, single bytes)
 *     unless
 *     --vocab names a GGUF file. With a grammar, a text that has ended is followed by the next.
 *  4. The first tokens of each chain are thrown away: a grammar works out its states when it meets them. */
#include "base/mem.h"
#include "base/pool.h"
#include "base/rng.h"
#include "cohort.h"
#include "common.h"
#include "opt.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char prog[] = "bench_sample";

enum { ROWS = 16, WORD_MAX = 12 };

static const char schema[] =
		"{\"type\":\"object\",\"properties\":{\"name\":{\"type\":\"string\"},\"age\":{\"type\":\"integer\","
		"\"minimum\":0,"
		"\"maximum\":150},\"email\":{\"type\":\"string\",\"maxLength\":100},\"kind\":{\"enum\":[\"person\","
		"\"company\"]},"
		"\"tags\":{\"type\":\"array\",\"items\":{\"type\":\"string\"},\"maxItems\":10},\"born\":{"
		"\"type\":\"string\","
		"\"format\":\"date\"},\"score\":{\"type\":\"number\"}},\"required\":[\"name\",\"age\",\"kind\"]}";

struct vocab {
	int32_t n;
	struct cohort_lexicon *lexicon;
	float *logits; /* [ROWS, n] */
	const struct cohort_model *model; /* or NULL: the last token ends a text */
};

/* ---- Vocabularies ---- */

static enum cohort_status make_lexicon(struct vocab *v, struct cohort_err *err)
{
	static const char *const pieces[] = {"{\"", "\":", "\": \"", "\",\"", "\"}", "\",", "\"]", "[\"", "},", "{",
			"}", "[", "]", ",", ":", "\"", "true", "false", "null", "\n", "\n  ", "  ", "\\n", "\\\"",
			"://", "20", "-0"};
	const int32_t n_pieces = (int32_t)(sizeof pieces / sizeof *pieces);
	struct cohort_lexicon_token *t = mem_zalloc((size_t)v->n, sizeof *t);
	char *text = mem_alloc((size_t)v->n, WORD_MAX);
	struct rng r;
	enum cohort_status st = COHORT_E_MEMORY;

	rng_init(&r, 7, 0);
	if (t && text) {
		for (int32_t i = 0; i < v->n; i++) {
			char *w = text + (size_t)i * WORD_MAX;
			size_t n = 1;
			if (i < 256) {
				w[0] = (char)i;
			} else if (i < 256 + n_pieces) {
				n = strlen(pieces[i - 256]);
				memcpy(w, pieces[i - 256], n);
			} else {
				const uint32_t kind = rng_u32(&r) % 100;
				n = 2 + rng_u32(&r) % (WORD_MAX - 2);
				for (size_t k = 0; k < n; k++)
					w[k] = (char)(kind < 80                     ? 'a' + rng_u32(&r) % 26
									: kind < 90 ? '0' + rng_u32(&r) % 10
										    : 0x21 + rng_u32(&r) % 94);
				if (kind < 50)
					w[0] = ' ';
			}
			t[i] = (struct cohort_lexicon_token){w, n, true, false};
		}
		t[v->n - 1] = (struct cohort_lexicon_token){"<end>", 5, false, true};
		st = cohort_lexicon_open_list(t, v->n, &v->lexicon, err);
	}
	mem_free(t);
	mem_free(text);
	return st;
}

static bool make_logits(struct vocab *v)
{
	struct rng r;

	v->logits = mem_alloc(ROWS * (size_t)v->n, sizeof *v->logits);
	rng_init(&r, 3, 1);
	for (size_t i = 0; v->logits && i < ROWS * (size_t)v->n; i++) {
		double x = -6;
		for (int k = 0; k < 12; k++)
			x += rng_f64(&r);
		v->logits[i] = (float)(2 * x + (rng_u32(&r) % 2000 == 0 ? 8 : 0));
	}
	return v->logits != NULL;
}

/* ---- Measuring ---- */

static int by_value(const void *a, const void *b)
{
	const double x = *(const double *)a, y = *(const double *)b;
	return x < y ? -1 : x > y;
}

static int measure(const struct vocab *v, const char *name, const struct cohort_sampler_params *p, size_t n_warm,
		size_t n, double limit_us)
{
	struct cohort_sampler *s = NULL;
	struct cohort_err err;
	double *us = mem_alloc(n, sizeof *us), sum = 0;
	int rc = 0;

	if (!us)
		return out_of_memory(prog);
	if (cohort_sampler_open(p, v->n, &s, &err))
		rc = fail(prog, &err);
	for (size_t i = 0; i < n_warm + n && !rc; i++) {
		cohort_token t;
		const double from = clock_now();
		const enum cohort_status st = cohort_sampler_sample(s, v->logits + i % ROWS * (size_t)v->n, &t, &err);
		const double took = 1e6 * (clock_now() - from);
		if (st)
			rc = fail(prog, &err);
		if (i >= n_warm)
			sum += us[i - n_warm] = took;
		if (!rc && p->grammar && (v->model ? cohort_token_is_eog(v->model, t) : t == v->n - 1)) {
			const uint64_t seed = i;
			cohort_sampler_reset(s);
			cohort_sampler_reseed(s, seed, 0);
		}
	}
	if (!rc) {
		qsort(us, n, sizeof *us, by_value);
		printf("  %-34s %8d %10.1f %10.1f %10.1f", name, v->n, us[n / 2], sum / (double)n, us[n * 99 / 100]);
		if (limit_us > 0)
			printf("   limit %.0f: %s", limit_us, us[n / 2] < limit_us ? "met" : "missed");
		putchar('\n');
	}
	cohort_sampler_free(s);
	mem_free(us);
	return rc;
}

static int run(struct vocab *v, size_t n)
{
	struct cohort_sampler_params p;
	struct cohort_grammar *g = NULL;
	struct cohort_err err;

	cohort_sampler_params_init(&p);
	int rc = measure(v, "default chain", &p, 100, n, v->n > 100000 ? 150 : 0);
	p.repeat_penalty = 1.1f;
	p.dry_multiplier = 0.8f;
	if (!rc)
		rc = measure(v, "default chain, penalties and DRY", &p, 100, n, 0);
	cohort_sampler_params_init(&p);
	p.top_k = 0;
	if (!rc)
		rc = measure(v, "top-p and min-p without top-k", &p, 100, n, 0);
	cohort_sampler_params_init(&p);
	p.temperature = 0;
	if (!rc)
		rc = measure(v, "greedy", &p, 100, n, 0);
	cohort_sampler_params_init(&p);
	const double from = clock_now();
	if (!rc && cohort_grammar_open_schema(v->lexicon, schema, strlen(schema), &g, &err))
		rc = fail(prog, &err);
	const double took = clock_now() - from;
	p.grammar = g;
	if (!rc)
		rc = measure(v, "default chain, JSON schema", &p, 2000, n, v->n > 100000 ? 200 : 0);
	if (!rc)
		printf("  (the schema's grammar was ready after %.1f ms)\n", 1e3 * took);
	cohort_grammar_free(g);
	return rc;
}

int main(int argc, char **argv)
{
	const char *file = NULL;
	int64_t n = 4000;
	const struct opt opts[] = {
			{"vocab", NULL, OPT_STR, &file, 0, 0, "FILE",
					"GGUF file whose vocabulary to use (default: two made-up ones)", NULL},
			{"tokens", "n", OPT_INT, &n, 100, 1000000, "N",
					"tokens to sample with each chain (default: 4000)", NULL},
	};
	const struct opt_prog op = {prog, "[options]", "Times sampling: microseconds for each token, on one thread.",
			"  bench_sample\n", opts, sizeof opts / sizeof *opts};
	int rc = opt_parse(&op, argc, argv, 1, NULL, 0, NULL);
	if (rc)
		return rc - 1;
	printf("Sampling, microseconds per token\n\n  %-34s %8s %10s %10s %10s\n", "chain", "vocab", "median", "mean",
			"99 %");
	for (int i = 0; i < (file ? 1 : 2) && !rc; i++) {
		struct vocab v = {.n = i ? 131072 : 32768};
		struct cohort_model *m = NULL;
		struct cohort_err err;
		if (file) {
			struct cohort_model_params mp;
			struct cohort_model_info info;
			cohort_model_params_init(&mp);
			mp.vocab_only = true;
			rc = load_model(prog, file, &mp, &m);
			if (!rc) {
				cohort_model_info_get(m, &info);
				v.n = info.n_vocab;
				v.model = m;
				if (cohort_lexicon_open(m, &v.lexicon, &err))
					rc = fail(prog, &err);
			}
		} else if (make_lexicon(&v, &err)) {
			rc = fail(prog, &err);
		}
		if (!rc && !make_logits(&v))
			rc = out_of_memory(prog);
		if (!rc)
			rc = run(&v, (size_t)n);
		cohort_lexicon_free(v.lexicon);
		cohort_model_free(m);
		mem_free(v.logits);
	}
	return rc ? rc : close_stdout(prog);
}
