/* What tokenising costs: a text of about a megabyte, as one call, on one thread.
 *
 * What holds:
 *  1. Without --text the text is made up and always the same: prose in English and German, code, Chinese and Japanese,
 *     emoji, numbers and runs of white space in turn.
 *  2. Each round is a whole call of cohort_tokenize, its memory included. Shown are all rounds and their median. */
#include "base/map.h"
#include "base/mem.h"
#include "base/pool.h"
#include "base/rng.h"
#include "cohort.h"
#include "common.h"
#include "opt.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char prog[] = "bench_tok";

enum { ROUNDS_MAX = 1000, TEXT_BYTES = 1000000 };

/* ---- The text ---- */

static const char *const english[] = {"the", "of", "and", "batch", "sequence", "tokens", "was", "which", "people",
		"through", "language", "every", "small", "I've", "don't", "model's", "light", "morning", "question",
		"about", "running", "a", "to", "in", "understanding", "river", "they'll", "it", "before", "unlikely"};
static const char *const german[] = {"der", "und",
		"Stra\xc3\x9f"
		"e",
		"Gr\xc3\xb6\xc3\x9f"
		"e",
		"\xc3\xbc"
		"ber",
		"k\xc3\xb6nnen", "Geschwindigkeit", "nicht", "Zusammenhang",
		"au\xc3\x9f"
		"erdem",
		"Wissenschaft", "m\xc3\xb6glicherweise", "ein", "mit"};
static const char *const code[] = {"for (size_t i = 0; i < n; i++)\n", "\tif (!p)\n\t\treturn NULL;\n",
		"x->next = y;\n", "#include <stdio.h>\n", "static int add_one(int value)\n{\n", "}\n\n",
		"def main(argv):\n    ", "return 0x7fff;\n", "printf(\"%d\\n\", n_tokens);\n", "/* a comment */\n",
		"self.items[key] += 1\n        "};
static const char *const cjk[] = {"\xe7\x9a\x84", "\xe4\xb8\x80", "\xe4\xb8\xad\xe5\x9b\xbd", "\xe4\xba\xba",
		"\xe6\x97\xa5\xe6\x9c\xac\xe8\xaa\x9e", "\xe3\x81\xae", "\xe3\x81\xa7\xe3\x81\x99", "\xe3\x80\x82",
		"\xef\xbc\x8c", "\xe6\x88\x91\xe4\xbb\xac", "\xe5\xad\xa6", "\xe3\x82\xab\xe3\x82\xbf"};
static const char *const emoji[] = {"\xf0\x9f\x98\x80", "\xf0\x9f\x9a\x80 ", "\xf0\x9f\xa6\x99", "\xe2\x9c\x85 ",
		"\xf0\x9f\x91\xa8\xe2\x80\x8d\xf0\x9f\x91\xa9\xe2\x80\x8d\xf0\x9f\x91\xa7", "ok ",
		"\xe2\x9d\xa4\xef\xb8\x8f"};
static const char *const blank[] = {" ", "    ", "\n", "\t\t", "\n\n\n", "                ", "\r\n", "x"};

static const struct {
	const char *const *items;
	size_t n;
	uint32_t weight;
	bool spaced;
} kinds[] = {
		{english, sizeof english / sizeof *english, 38, true},
		{german, sizeof german / sizeof *german, 12, true},
		{code, sizeof code / sizeof *code, 20, false},
		{cjk, sizeof cjk / sizeof *cjk, 14, false},
		{emoji, sizeof emoji / sizeof *emoji, 4, false},
		{NULL, 0, 9, true},
		{blank, sizeof blank / sizeof *blank, 3, false},
};

static size_t add_item(char *out, size_t kind, struct rng *r)
{
	char number[32], word[64];
	const char *s = number;

	if (kinds[kind].items)
		s = kinds[kind].items[rng_u32(r) % kinds[kind].n];
	else
		snprintf(number, sizeof number, rng_u32(r) & 1 ? "%u" : "%u.25", rng_u32(r) >> (rng_u32(r) % 28));
	/* One word in eight is a made-up one. */
	if (kind < 2 && rng_u32(r) % 8 == 0) {
		size_t n = 3 + rng_u32(r) % 9;
		for (size_t i = 0; i < n; i++)
			word[i] = (char)('a' + rng_u32(r) % 26);
		word[n] = '\0';
		s = word;
	}
	size_t n = strlen(s);
	memcpy(out, s, n);
	if (kinds[kind].spaced)
		out[n++] = rng_u32(r) % 12 ? ' ' : '\n';
	return n;
}

static char *make_text(size_t *n)
{
	char *text = mem_alloc(TEXT_BYTES + 256, 1);
	struct rng r;

	rng_init(&r, 11, 0);
	for (*n = 0; text && *n < TEXT_BYTES;) {
		uint32_t pick = rng_u32(&r) % 100;
		size_t kind = 0;
		while (pick >= kinds[kind].weight)
			pick -= kinds[kind++].weight;
		const size_t until = *n + 400;
		while (*n < until && *n < TEXT_BYTES)
			*n += add_item(text + *n, kind, &r);
	}
	return text;
}

/* ---- Measuring ---- */

static int by_value(const void *pa, const void *pb)
{
	const double a = *(const double *)pa, b = *(const double *)pb;
	return a < b ? -1 : a > b;
}

static int run(const struct cohort_model *m, const char *text, size_t n_bytes, size_t n_rounds)
{
	static double ms[ROUNDS_MAX];
	const size_t room = cohort_tokenize_bound(n_bytes);
	cohort_token *ids = mem_alloc(room, sizeof *ids);
	struct cohort_model_info info;
	struct cohort_err err;
	size_t n = 0;

	if (!ids)
		return out_of_memory(prog);
	cohort_model_info_get(m, &info);
	printf("%s %s, %zu bytes:", info.tokenizer, info.pretokenizer, n_bytes);
	for (size_t i = 0; i < n_rounds; i++) {
		const double from = clock_now();
		if (cohort_tokenize(m, text, n_bytes, COHORT_TOKENIZE_NO_BOS, ids, room, &n, &err)) {
			mem_free(ids);
			return fail(prog, &err);
		}
		ms[i] = 1e3 * (clock_now() - from);
		printf(" %.1f", ms[i]);
	}
	qsort(ms, n_rounds, sizeof *ms, by_value);
	const double median = ms[n_rounds / 2];
	printf(" ms\n%zu tokens, median %.1f ms, %.1f MB/s\n", n, median, (double)n_bytes / median / 1e3);
	mem_free(ids);
	return 0;
}

int main(int argc, char **argv)
{
	const char *model = NULL, *file = NULL;
	int64_t n_rounds = 7;
	char *text = NULL;
	size_t n = 0;
	const struct opt opts[] = {
			{"model", "m", OPT_STR, &model, 0, 0, "FILE",
					"GGUF file whose vocabulary to use (default: the built-in model)", NULL},
			{"text", NULL, OPT_STR, &file, 0, 0, "FILE",
					"text to encode (default: a made-up one of a megabyte)", NULL},
			{"rounds", "r", OPT_INT, &n_rounds, 1, ROUNDS_MAX, "N", "times to encode it (default: 7)",
					NULL},
	};
	const struct opt_prog op = {prog, "[options]", "Times tokenising a text, on one thread.",
			"  bench_tok -m model.gguf\n", opts, sizeof opts / sizeof *opts};
	struct cohort_model_params mp;
	struct cohort_model *m = NULL;
	struct cohort_err err;
	int rc = opt_parse(&op, argc, argv, 1, NULL, 0, NULL);

	if (rc)
		return rc - 1;
	if (!file && !(text = make_text(&n)))
		return out_of_memory(prog);
	if (file && file_read(file, (size_t)1 << 29, &text, &n, &err)) {
		fail(prog, &err);
		return EXIT_FILE;
	}
	cohort_model_params_init(&mp);
	mp.vocab_only = true;
	rc = load_model(prog, model, &mp, &m);
	if (!rc)
		rc = run(m, text, n, (size_t)n_rounds);
	cohort_model_free(m);
	mem_free(text);
	return rc ? rc : close_stdout(prog);
}
