/* Contexts that are saved and restored, and a look at all they remember. */
#ifndef TESTS_STATE_RIG_H
#define TESTS_STATE_RIG_H

#include "model_case.h"
#include "room_case.h"
#include "state_case.h"

#include "context/impl.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#define SPARE 7 /* the sequence that probes use */
enum { N_IDS = 8, N_VOCAB = 512 };

struct rig {
	struct cohort_model *m;
	struct cohort_context *c;
};

struct bytes {
	uint8_t *p;
	size_t n;
};

/* ---- Contexts ---- */

static inline struct cohort_context *context_of(
		struct cohort_model *m, enum cohort_kv_type type, int32_t n_ctx, int32_t n_ids)
{
	struct cohort_context_params cp;
	struct cohort_context *c;
	struct cohort_err err;

	cohort_context_params_init(&cp);
	cp.n_ctx = n_ctx;
	cp.n_blocks = pool_blocks(cp.n_ctx, 0);
	cp.n_batch = 64;
	cp.n_ubatch = n_ctx % 7 + 5; /* different contexts, different ubatches */
	cp.n_seq_max = n_ids;
	cp.n_threads = 1;
	cp.kv_type = type;
	if (cohort_context_open(m, &cp, &c, &err))
		fail_msg("%s", err.text);
	return c;
}

static inline struct cohort_model *model_of(const char *name)
{
	struct cohort_model *m;
	struct cohort_err err;
	char path[1024];

	snprintf(path, sizeof path, "%s/tests/golden/data/%s", env_or("COHORT_SOURCE", "."), name);
	if (cohort_model_open(path, NULL, &m, &err))
		fail_msg("%s", err.text);
	return m;
}

/* window > 0: of the first layer; the second sees everything. */
static inline void rig_open(struct rig *r, enum cohort_kv_type type, uint32_t window)
{
	r->m = model_of("llama.gguf");
	r->m->model.layers[0].window = window;
	r->c = context_of(r->m, type, 2048, N_IDS);
}

static inline void rig_close(struct rig *r)
{
	cohort_context_free(r->c);
	cohort_model_free(r->m);
}

/* Goes on with a sequence by n tokens that depend on salt and position. */
static inline void grow(struct cohort_context *c, cohort_seq seq, int32_t n, int32_t salt)
{
	cohort_token tokens[256];
	struct cohort_err err;
	const cohort_pos at = cohort_seq_pos_max(c, seq) + 1;

	for (int32_t i = 0; i < n; i++)
		tokens[i] = 3 + (salt * 37 + (at + i) * 11) % 500;
	if (cohort_decode_many(c, tokens, n, at, seq, &err))
		fail_msg("%s", err.text);
}

static inline void ok(enum cohort_status st, const struct cohort_err *err)
{
	if (st)
		fail_msg("%s: %s", cohort_status_name(st), err->text);
}

static inline void rm(struct cohort_context *c, cohort_seq seq, cohort_pos p0, cohort_pos p1)
{
	struct cohort_err err;
	ok(cohort_seq_rm(c, seq, p0, p1, &err), &err);
}

static inline void cp(struct cohort_context *c, cohort_seq src, cohort_seq dst)
{
	struct cohort_err err;
	ok(cohort_seq_cp(c, src, dst, 0, -1, &err), &err);
}

/* The logits that a sequence would give next; leaves everything as it was. */
static inline void probe(struct cohort_context *c, cohort_seq seq, float out[N_VOCAB])
{
	struct cohort_err err;

	cp(c, seq, SPARE);
	ok(cohort_decode_one(c, 77, cohort_seq_pos_max(c, SPARE) + 1, SPARE, true, &err), &err);
	memcpy(out, cohort_logits_get(c, -1, NULL), N_VOCAB * sizeof *out);
	rm(c, SPARE, 0, -1);
}

/* A fork that went its own way, one with a gap, one cut short, a sparse id, a block that is shared in part, and one
 * whose beginning was removed where a window had released it already. */
static inline void prepare(struct cohort_context *c)
{
	cohort_seq_clear(c);
	grow(c, 0, 70, 1);
	cp(c, 0, 1);
	cp(c, 0, 2);
	cp(c, 0, 5);
	grow(c, 2, 33, 2);
	rm(c, 1, 10, 40);
	rm(c, 5, 66, -1);
	grow(c, 1, 3, 3);
	grow(c, 6, 5, 4);
	grow(c, 4, 150, 5);
	rm(c, 4, 20, 30);
	rm(c, 4, 0, 20);
}

/* ---- States ---- */

static inline struct bytes save(struct cohort_context *c, cohort_seq seq)
{
	struct bytes b = {.n = cohort_state_size(c, seq)};
	struct cohort_err err;
	size_t n = 0;

	assert_true(b.n > 0);
	b.p = malloc(b.n);
	assert_non_null(b.p);
	ok(cohort_state_save(c, seq, b.p, b.n, &n, &err), &err);
	assert_int_equal(n, b.n);
	assert_true(state_get(b.p + n - STATE_SUM, STATE_SUM) == state_checksum(b.p, n - STATE_SUM));
	return b;
}

static inline void restore(struct cohort_context *c, cohort_seq seq, const struct bytes *b)
{
	struct cohort_err err;
	ok(cohort_state_restore(c, seq, b->p, b->n, &err), &err);
	assert_true(memory_consistent(&c->memory));
}

static inline void same_bytes(const struct bytes *a, const struct bytes *b)
{
	assert_int_equal(a->n, b->n);
	assert_memory_equal(a->p, b->p, a->n);
}

static inline struct bytes dup_of(const struct bytes *b)
{
	struct bytes d = {malloc(b->n), b->n};
	assert_non_null(d.p);
	memcpy(d.p, b->p, b->n);
	return d;
}

/* Everything a context remembers: the books and all cells that are held. */
struct look {
	uint64_t books;
	struct bytes cells;
};

static inline struct look look(struct cohort_context *c)
{
	return (struct look){memory_hash(&c->memory), save(c, COHORT_SEQ_ALL)};
}

static inline void unchanged(struct cohort_context *c, const struct look *before)
{
	struct look now = look(c);
	assert_true(now.books == before->books);
	same_bytes(&now.cells, &before->cells);
	assert_true(memory_consistent(&c->memory));
	free(now.cells.p);
}

/* As unchanged(), for loops: the books only. */
static inline void books_unchanged(struct cohort_context *c, const struct look *before)
{
	assert_true(memory_hash(&c->memory) == before->books);
}

/* A small state of several sequences with sharing and a gap, and the context it is not to change. */
static inline struct bytes small_state(struct rig *r, uint32_t window)
{
	rig_open(r, COHORT_KV_F16, window);
	grow(r->c, 0, 4, 1);
	cp(r->c, 0, 2);
	rm(r->c, 2, 1, 3);
	cp(r->c, 0, 3);
	grow(r->c, 3, 1, 2);
	return save(r->c, COHORT_SEQ_ALL);
}

static inline void check_next(struct cohort_context *c, cohort_seq seq, const float want[N_VOCAB])
{
	float got[N_VOCAB];
	probe(c, seq, got);
	assert_memory_equal(got, want, sizeof got);
}

static const enum cohort_kv_type types[] = {COHORT_KV_F16, COHORT_KV_F32, COHORT_KV_Q8_0};
static const uint32_t windows[] = {0, 40};

#endif
