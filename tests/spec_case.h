/* What the tests of SPEC sections 1 to 4 share: the small golden model, contexts, texts, errors by their numbers. */
#ifndef SPEC_CASE_H
#define SPEC_CASE_H

#include "model_case.h"
#include "room_case.h"

#include "base/mem.h"
#include "context/impl.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

/* llama.gguf: random weights, 2 layers, 4 heads over 2, 64 wide, positions below 256. */
enum { VOCAB = 512, EMBD = 64, POS_LIMIT = 256, BLOCK = 32 };

/* Texts that differ from one another everywhere. */
enum { N_TEXTS = 8, N_TEXT = 512 };
static cohort_token texts[N_TEXTS][N_TEXT];

static struct cohort_model *golden; /* of the whole program */

static inline struct cohort_model *model_at(const char *path)
{
	struct cohort_model *m;
	struct cohort_err err;
	char full[1024];

	snprintf(full, sizeof full, "%s%s%s", *path == '/' ? "" : env_or("COHORT_SOURCE", "."), *path == '/' ? "" : "/",
			path);
	if (cohort_model_open(full, NULL, &m, &err))
		fail_msg("%s", err.text);
	return m;
}

static inline int open_golden(void **state)
{
	(void)state;
	for (int32_t t = 0; t < N_TEXTS; t++)
		for (int32_t i = 0; i < N_TEXT; i++)
			texts[t][i] = 3 + (i * 37 + t * 101) % 500;
	golden = model_at("tests/golden/data/llama.gguf");
	return pool_block_size() != BLOCK;
}

static inline int close_golden(void **state)
{
	(void)state;
	cohort_model_free(golden);
	return 0;
}

static inline struct cohort_context_params small(void)
{
	struct cohort_context_params p;

	cohort_context_params_init(&p);
	p.n_ctx = 1024;
	p.n_blocks = pool_blocks(p.n_ctx, 0);
	p.n_batch = 64;
	p.n_ubatch = 16;
	p.n_seq_max = 16;
	p.n_threads = 1;
	return p;
}

static inline struct cohort_context *context_of(const struct cohort_model *m, struct cohort_context_params p)
{
	struct cohort_context *c;
	struct cohort_err err;

	if (cohort_context_open(m, &p, &c, &err))
		fail_msg("%s", err.text);
	return c;
}

static inline struct cohort_context *context(void)
{
	return context_of(golden, small());
}

/* ---- Statuses ---- */

#define OK(call) assert_int_equal(call, COHORT_OK)

/* Whether a decimal number stands in a text, not as a part of another. */
static inline bool mentions(const char *s, int64_t number)
{
	char digits[24];
	const size_t n = (size_t)snprintf(digits, sizeof digits, "%lld", (long long)number);

	for (const char *at = s; (at = strstr(at, digits)); at++)
		if ((at == s || at[-1] < '0' || at[-1] > '9') && (at[n] < '0' || at[n] > '9'))
			return true;
	return false;
}

static inline void check_err(const struct cohort_err *err, enum cohort_status status, const char *rule, int64_t row,
		int64_t seq, int64_t expected, int64_t got)
{
	assert_int_equal(err->status, status);
	assert_non_null(err->rule);
	assert_string_equal(err->rule, rule);
	assert_int_equal(err->row, row);
	assert_int_equal(err->seq, seq);
	assert_int_equal(err->expected, expected);
	assert_int_equal(err->got, got);
	if (row >= 0)
		assert_true(mentions(err->text, row));
	assert_null(strchr(err->text, '\n'));
}

/* An argument error whose text names the argument. */
static inline void check_arg(enum cohort_status st, const struct cohort_err *err, const char *name)
{
	assert_int_equal(st, COHORT_E_ARG);
	assert_int_equal(err->status, COHORT_E_ARG);
	assert_non_null(strstr(err->text, name));
}

/* ---- Decoding ---- */

static inline void add_row(struct cohort_batch *b, cohort_token token, cohort_pos pos, cohort_seq seq, bool output)
{
	OK(cohort_batch_add(b, token, pos, &seq, 1, output, NULL));
}

static inline struct cohort_batch new_batch(int32_t n_max, int32_t n_ids)
{
	struct cohort_batch b;

	OK(cohort_batch_init(&b, n_max, 0, n_ids, NULL));
	return b;
}

/* Tokens [from, to) of a text at the same positions of a sequence. */
static inline void say(struct cohort_context *c, cohort_seq seq, const cohort_token *tokens, int32_t from, int32_t to)
{
	struct cohort_err err;

	if (cohort_decode_many(c, tokens + from, to - from, from, seq, &err))
		fail_msg("%s", err.text);
}

static inline float *floats(const float *from, size_t n)
{
	assert_non_null(from);
	float *copy = malloc(n * sizeof *copy);
	assert_non_null(copy);
	memcpy(copy, from, n * sizeof *copy);
	return copy;
}

static inline float *keep_logits(const struct cohort_context *c, int32_t i)
{
	return floats(cohort_logits_get(c, i, NULL), c->model->model.hp.n_vocab);
}

static inline bool same_logits(const struct cohort_context *c, int32_t i, const float *want)
{
	const float *got = cohort_logits_get(c, i, NULL);
	assert_non_null(got);
	return memcmp(got, want, c->model->model.hp.n_vocab * sizeof *want) == 0;
}

/* The logits behind the first n tokens of a text, in a context of its own. */
static inline float *alone(const struct cohort_model *m, struct cohort_context_params p, const cohort_token *tokens,
		int32_t n)
{
	p.abort = NULL;
	struct cohort_context *c = context_of(m, p);
	say(c, 0, tokens, 0, n);
	float *want = keep_logits(c, -1);
	cohort_context_free(c);
	return want;
}

/* How far a is from b: sum((a - b)^2) / sum(b^2). */
static inline double distance(const float *a, const float *b, size_t n)
{
	double num = 0, den = 0;

	for (size_t i = 0; i < n; i++) {
		const double d = (double)a[i] - (double)b[i];
		num += d * d;
		den += (double)b[i] * (double)b[i];
	}
	return num / den;
}

/* What a check is told of a model that takes such rows. */
static inline struct batch_limits plain_limits(void)
{
	return (struct batch_limits){.n_vocab = VOCAB, .n_seq_max = 16, .n_rows_max = 4096, .n_embd = EMBD,
			.n_pos_row = 1, .n_pos_max = 1 << 20};
}

/* ---- Books ---- */

static inline uint64_t books(const struct cohort_context *c)
{
	assert_true(memory_consistent(&c->memory));
	return memory_hash(&c->memory);
}

static inline struct cohort_usage usage(const struct cohort_context *c)
{
	struct cohort_usage u;
	cohort_usage_get(c, &u);
	return u;
}

/* An abort callback that counts and says stop when the countdown ends. */
struct countdown {
	int n_left; /* < 0: never */
	int n_asked;
};

static inline bool count_down(void *user)
{
	struct countdown *d = user;
	d->n_asked++;
	return d->n_left >= 0 && d->n_left-- == 0;
}

/* ---- A context with a past, and whether it is as it was ---- */

/* 0 and 1 hold the same 40 cells, 2 shares 32 of them and has a tail of its own, 3 is short. */
static inline void prepare(struct cohort_context *c)
{
	cohort_seq_clear(c);
	say(c, 0, texts[0], 0, 40);
	OK(cohort_seq_cp(c, 0, 1, 0, -1, NULL));
	OK(cohort_seq_cp(c, 0, 2, 0, -1, NULL));
	OK(cohort_decode_many(c, texts[1], 3, 40, 2, NULL));
	say(c, 3, texts[2], 0, 5);
}

/* What every sequence says next; 0 and 1 coupled. */
static inline float *probe(struct cohort_context *c)
{
	struct cohort_batch b = new_batch(3, 2);
	float *all = malloc(3 * VOCAB * sizeof *all);

	assert_non_null(all);
	OK(cohort_batch_add(&b, 11, 40, (cohort_seq[]){0, 1}, 2, true, NULL));
	add_row(&b, 12, 43, 2, true);
	add_row(&b, 13, 5, 3, true);
	OK(cohort_decode(c, &b, NULL));
	for (int32_t i = 0; i < 3; i++)
		memcpy(all + i * VOCAB, cohort_logits_get(c, i, NULL), VOCAB * sizeof *all);
	cohort_batch_release(&b);
	return all;
}

static inline void as_before(struct cohort_context *c, uint64_t before, const float *want)
{
	assert_int_equal(books(c), before);
	float *got = probe(c);
	assert_memory_equal(got, want, 3 * VOCAB * sizeof *got);
	free(got);
}

static inline float *probe_untouched(void)
{
	struct cohort_context *c = context();
	prepare(c);
	float *want = probe(c);
	cohort_context_free(c);
	return want;
}

static inline struct cohort_context_params embedding_params(void)
{
	struct cohort_context_params p = small();
	p.outputs = COHORT_OUTPUT_EMBEDDINGS;
	p.output_all = true;
	return p;
}

#endif
