/* Failures injected into every call that decodes, in a context where everything is alive at once: forks, rows shared
 * by sequences that part, a gap, moved cells, layers of three windows with blocks released.
 *
 * For decode, many and scatter over several chunks, and each: the abort callback says yes at every count, the cache
 * has one block too few, two, ..., every allocation fails in turn, every token in turn gives numbers that are not
 * finite or is none of the vocabulary. After each failure the books have the hash they had, and the call, now let
 * through, and a row for every sequence after it give the bits of a twin context that never failed.
 *
 * Shown red by planted faults: a commit where context_decode or run_feed roll back, or in run_feed's dry pass; a
 * rollback of the first group only; a journal that forgets a table entry; held words that are not cut again; outputs
 * that outlive a failed call (last_row_breaks_a_rule, too); a scratch that is not kept from call to call (warm_calls);
 * a journal without room at open (cold_calls); names of sequences told apart by their low byte
 * (injected_batches_with_65536_sequences). */
#include "model_case.h"
#include "room_case.h"

#include "cohort_tools.h"

#include "base/mem.h"
#include "context/impl.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

enum { N_VOCAB = 50, POISON = 7, N_SEQ = 16, N_BATCH = 24, N_UBATCH = 5 };

static uint64_t n_injected; /* over the whole program */

static char *path;

/* A model of three layers in which one token's embedding is not a number. */
static int write_model(void **state)
{
	const struct shape shape = {N_VOCAB, 32, 3, 4, 2, 20, 12, 48, 20, 512, QUANT_F32, QUANT_F32, QUANT_F32,
			QUANT_F32, false, NULL, NULL, NULL};
	const float nan = NAN;
	struct cohort_gguf *g;
	struct cohort_gguf_tensor t;
	(void)state;

	path = synth_write(&shape, 3);
	if (cohort_gguf_open(path, &g, NULL) || !cohort_gguf_tensor_get(g, 0, &t) || t.ne[1] != N_VOCAB)
		return -1;
	FILE *f = fopen(path, "r+b");
	bool done = f && fseek(f, (long)(t.offset + POISON * shape.n_embd * sizeof nan), SEEK_SET) == 0 &&
			fwrite(&nan, sizeof nan, 1, f) == 1;
	cohort_gguf_free(g);
	return f && fclose(f) == 0 && done ? 0 : -1;
}

static int remove_model(void **state)
{
	(void)state;
	unlink(path);
	free(path);
	return 0;
}

struct rig {
	struct cohort_model *m;
	struct cohort_context *c;
	struct cohort_batch b;
	struct cohort_scratch *scratch; /* NULL: the context's own */
	int n_until_abort;              /* < 0: never */
	int32_t spoilt;                 /* the token of the call with this index is `with`; < 0: none */
	cohort_token with;
};

struct setting {
	enum cohort_kv_type kv;
	enum cohort_split split;
	int32_t n_blocks;
};

static bool abort_soon(void *user)
{
	struct rig *r = user;
	return r->n_until_abort >= 0 && r->n_until_abort-- == 0;
}

static void rig_open(struct rig *r, const struct setting *s)
{
	static const uint32_t windows[] = {5, 0, 12};
	struct cohort_context_params cp;
	struct cohort_err err;

	*r = (struct rig){.n_until_abort = -1, .spoilt = -1};
	if (cohort_model_open(path, NULL, &r->m, &err))
		fail_msg("%s", err.text);
	for (size_t l = 0; l < 3; l++)
		r->m->model.layers[l].window = windows[l];
	cohort_context_params_init(&cp);
	cp.n_ctx = s->n_blocks * pool_block_size();
	cp.n_blocks = pool_blocks(cp.n_ctx, 0);
	cp.n_batch = N_BATCH;
	cp.n_ubatch = N_UBATCH;
	cp.n_seq_max = N_SEQ;
	cp.n_threads = 2;
	cp.kv_type = s->kv;
	cp.split = s->split;
	cp.abort = abort_soon;
	cp.abort_user = r;
	if (cohort_context_open(r->m, &cp, &r->c, &err) || cohort_batch_init(&r->b, N_BATCH + 1, 0, 2, &err))
		fail_msg("%s", err.text);
}

static void rig_close(struct rig *r)
{
	cohort_batch_release(&r->b);
	cohort_context_free(r->c);
	cohort_model_free(r->m);
}

/* Tokens of a sequence by position; never the poison. */
static cohort_token token_at(int32_t salt, int32_t i)
{
	return (cohort_token)(8 + (salt * 11 + i * 5 + i * i % 13) % (N_VOCAB - 8));
}

static const cohort_token *tokens_from(int32_t salt, int32_t n)
{
	static cohort_token t[128];
	assert_true(n <= 128);
	for (int32_t i = 0; i < n; i++)
		t[i] = token_at(salt, i);
	return t;
}

/* The world: 0, forked to 1 and 2, which has a tail of its own; 3 with a gap, 5 and 6 its forks; 4 another, of which a
 * part was cut out and the rest moved; 9 empty. False: no room for it. */
static bool prepare(struct rig *r)
{
	struct cohort_context *c = r->c;

	cohort_seq_clear(c);
	return cohort_decode_many(c, tokens_from(1, 48), 48, 0, 0, NULL) == COHORT_OK &&
			cohort_seq_cp(c, 0, 1, 0, -1, NULL) == COHORT_OK &&
			cohort_seq_cp(c, 0, 2, 0, -1, NULL) == COHORT_OK &&
			cohort_decode_many(c, tokens_from(2, 3), 3, 48, 2, NULL) == COHORT_OK &&
			cohort_decode_many(c, tokens_from(3, 44), 44, 0, 3, NULL) == COHORT_OK &&
			cohort_seq_cp(c, 3, 4, 0, -1, NULL) == COHORT_OK &&
			cohort_seq_rm(c, 3, 10, 37, NULL) == COHORT_OK &&
			cohort_seq_cp(c, 3, 5, 0, -1, NULL) == COHORT_OK &&
			cohort_seq_cp(c, 3, 6, 0, -1, NULL) == COHORT_OK &&
			cohort_seq_add(c, 4, 40, -1, 3, NULL) == COHORT_OK;
}

/* ---- The calls ---- */

static cohort_token pick(const struct rig *r, int32_t index, cohort_token t)
{
	return r->spoilt == index ? r->with : t;
}

static void add(struct rig *r, int32_t salt, cohort_pos pos, cohort_seq a, cohort_seq b)
{
	const cohort_seq ids[] = {a, b};
	const int32_t at = r->b.n_tokens;
	assert_int_equal(cohort_batch_add(&r->b, pick(r, at, token_at(salt, pos)), pos, ids, b < 0 ? 1 : 2, true, NULL),
			COHORT_OK);
}

static cohort_pos next(const struct rig *r, cohort_seq seq)
{
	return cohort_seq_pos_max(r->c, seq) + 1;
}

/* 0 and 1 go on together and part, likewise 5 and 6 across their gap; 2, 3 and 4 alone; 9 is new. */
static void fill(struct rig *r)
{
	const cohort_pos p0 = next(r, 0), p3 = next(r, 3);

	cohort_batch_reset(&r->b);
	for (int32_t i = 0; i < 3; i++)
		add(r, 21, p0 + i, 0, 1);
	add(r, 22, p3, 6, 5);
	add(r, 22, p3 + 1, 6, 5);
	for (cohort_seq s = 0; s < 2; s++)
		add(r, 23 + s, p0 + 3, s, -1);
	for (cohort_seq s = 6; s >= 5; s--)
		for (int32_t i = 2; i < 4; i++)
			add(r, 25 + s, p3 + i, s, -1);
	for (cohort_seq s = 4; s >= 2; s--)
		for (int32_t i = 0; i < 2; i++)
			add(r, 31 + s, next(r, s) + i, s, -1);
	for (int32_t i = 0; i < 4; i++)
		add(r, 37, i, 9, -1);
	add(r, 38, p0 + 4, 1, -1);
}

static enum cohort_status call_decode(struct rig *r, struct cohort_err *err)
{
	fill(r);
	return cohort_decode(r->c, &r->b, err);
}

enum { N_MANY = 60 };

static enum cohort_status call_many(struct rig *r, struct cohort_err *err)
{
	cohort_token t[N_MANY];
	for (int32_t i = 0; i < N_MANY; i++)
		t[i] = pick(r, i, token_at(41, i));
	return cohort_decode_many(r->c, t, N_MANY, next(r, 0), 0, err);
}

static enum cohort_status call_each(struct rig *r, struct cohort_err *err)
{
	static const cohort_seq ids[] = {9, 6, 0, 3, 2, 5, 1, 4};
	struct cohort_each_item items[8];
	for (int32_t i = 0; i < 8; i++)
		items[i] = (struct cohort_each_item){pick(r, i, token_at(43, i)), next(r, ids[i]), ids[i], true};
	return cohort_decode_each(r->c, items, 8, r->scratch, err);
}

/* Three chunks: one span is longer than n_batch, the others together as well. */
static const struct {
	cohort_seq seq;
	int32_t n;
} spans[] = {{6, 9}, {0, 30}, {3, 10}, {5, 0}, {2, 12}, {9, 20}, {4, 1}};
enum { N_SPANS = 7, N_SCATTER = 82 };

static enum cohort_status call_scatter(struct rig *r, struct cohort_err *err)
{
	struct cohort_scatter_item items[N_SPANS];
	cohort_token t[N_SCATTER];
	int32_t at = 0;
	for (int32_t i = 0; i < N_SPANS; i++) {
		items[i] = (struct cohort_scatter_item){t + at, spans[i].n, next(r, spans[i].seq), spans[i].seq, true};
		for (int32_t k = 0; k < spans[i].n; k++, at++)
			t[at] = pick(r, at, token_at(45, at));
	}
	assert_int_equal(at, N_SCATTER);
	return cohort_decode_scatter(r->c, items, N_SPANS, r->scratch, err);
}

static enum cohort_status call_one(struct rig *r, struct cohort_err *err)
{
	return cohort_decode_one(r->c, pick(r, 0, 9), next(r, 3), 3, true, err);
}

struct call {
	const char *name;
	enum cohort_status (*run)(struct rig *r, struct cohort_err *err);
	int32_t n_tokens;
};

static const struct call calls[] = {
	{"decode", call_decode, 22},
	{"many", call_many, N_MANY},
	{"each", call_each, 8},
	{"scatter", call_scatter, N_SCATTER},
	{"one", call_one, 1},
};
enum { N_CALLS = 5 };

/* ---- A twin that never failed, and the comparison with it ---- */

struct outputs {
	int32_t n;
	float logits[N_BATCH][N_VOCAB];
};

static void take(const struct rig *r, struct outputs *o)
{
	memset(o, 0, sizeof *o);
	o->n = cohort_n_outputs(r->c);
	for (int32_t i = 0; i < o->n; i++)
		memcpy(o->logits[i], cohort_logits_get(r->c, i - o->n, NULL), sizeof o->logits[i]);
}

/* The call itself, then one more row of every sequence that holds something. */
struct answer {
	struct outputs call, after;
};

static void succeed(struct rig *r, const struct call *call, struct answer *a)
{
	struct cohort_each_item items[N_SEQ];
	struct cohort_err err;
	int32_t n = 0;

	r->n_until_abort = r->spoilt = -1;
	if (call->run(r, &err))
		fail_msg("%s: %s", call->name, err.text);
	take(r, &a->call);
	assert_true(a->call.n > 0);
	for (cohort_seq s = N_SEQ - 1; s >= 0; s--)
		if (next(r, s) > 0)
			items[n++] = (struct cohort_each_item){10 + s, next(r, s), s, true};
	if (cohort_decode_each(r->c, items, n, NULL, &err))
		fail_msg("after %s: %s", call->name, err.text);
	take(r, &a->after);
}

struct books {
	uint64_t hash;
	struct cohort_usage usage;
	cohort_pos min[N_SEQ], max[N_SEQ];
};

static struct books look(const struct rig *r)
{
	struct books b;
	memset(&b, 0, sizeof b);
	b.hash = memory_hash(&r->c->memory);
	cohort_usage_get(r->c, &b.usage);
	for (cohort_seq s = 0; s < N_SEQ; s++) {
		b.min[s] = cohort_seq_pos_min(r->c, s);
		b.max[s] = cohort_seq_pos_max(r->c, s);
	}
	return b;
}

/* What was asked for has happened; nothing else may have. */
static void check_books(const struct rig *r, const struct books *before)
{
	struct books now = look(r);

	n_injected++;
	assert_memory_equal(&now, before, sizeof now);
	assert_true(memory_consistent(&r->c->memory));
	assert_int_equal(cohort_n_outputs(r->c), 0);
	assert_null(cohort_logits_get(r->c, -1, NULL));
}

static void check_answer(struct rig *r, const struct call *call, const struct answer *want)
{
	struct answer got;
	succeed(r, call, &got);
	assert_int_equal(got.call.n, want->call.n);
	assert_int_equal(got.after.n, want->after.n);
	assert_memory_equal(&got, want, sizeof got);
}

static void twin(const struct setting *s, const struct call *call, struct answer *a)
{
	struct rig r;
	rig_open(&r, s);
	assert_true(prepare(&r));
	succeed(&r, call, a);
	rig_close(&r);
}

static const struct setting settings[] = {
	{COHORT_KV_F16, COHORT_SPLIT_SIMPLE, 40},
	{COHORT_KV_Q8_0, COHORT_SPLIT_EQUAL, 40},
};
enum { N_SETTINGS = 2 };

typedef void case_fn(const struct setting *s, const struct call *call, const struct answer *want);

static void for_each_call(case_fn *run)
{
	for (size_t i = 0; i < N_SETTINGS; i++)
		for (size_t k = 0; k < N_CALLS; k++) {
			struct answer *want = malloc(sizeof *want);
			assert_non_null(want);
			twin(&settings[i], &calls[k], want);
			run(&settings[i], &calls[k], want);
			free(want);
		}
}

/* ---- The failures ---- */

static void abort_case(const struct setting *s, const struct call *call, const struct answer *want)
{
	struct rig r;
	int n = 0;

	rig_open(&r, s);
	for (enum cohort_status st = COHORT_ABORTED; st; n++) {
		struct cohort_err err;
		assert_true(prepare(&r));
		const struct books before = look(&r);
		r.n_until_abort = n;
		st = call->run(&r, &err);
		r.n_until_abort = -1;
		if (st == COHORT_OK)
			break;
		assert_int_equal(st, COHORT_ABORTED);
		assert_int_equal(err.status, COHORT_ABORTED);
		check_books(&r, &before);
		check_answer(&r, call, want);
	}
	/* Asked before each of the three layers of each ubatch. */
	assert_true(n >= 3 * ((call->n_tokens + N_UBATCH - 1) / N_UBATCH) && n % 3 == 0);
	rig_close(&r);
}

static void injected_batches_are_aborted_everywhere(void **state)
{
	(void)state;
	for_each_call(abort_case);
}

/* The pool just holds the world, then one block more each time. */
static void room_case(const struct setting *s, const struct call *call, const struct answer *want)
{
	int n_refused = 0;
	bool fits = false;

	for (struct setting small = {s->kv, s->split, 1}; !fits; small.n_blocks++) {
		struct cohort_err err;
		struct rig r;
		rig_open(&r, &small);
		if (prepare(&r)) {
			const struct books before = look(&r);
			enum cohort_status st = call->run(&r, &err);
			fits = st == COHORT_OK;
			if (!fits) {
				assert_int_equal(st, COHORT_NO_ROOM);
				assert_true(err.expected >= 0 && err.expected < call->n_tokens);
				assert_true(err.row >= 0 && err.row < call->n_tokens);
				check_books(&r, &before);
				/* Something is let go, and there is room. */
				n_refused++;
				const bool three = call->run == call_one;
				assert_int_equal(cohort_seq_rm(r.c, three ? 4 : 3, 0, -1, NULL), COHORT_OK);
				assert_true(memory_consistent(&r.c->memory));
			}
		}
		rig_close(&r);
	}
	assert_true(n_refused > 0 || call->run == call_one);
	(void)want;
}

/* Filled up in a pool that is large enough, and emptied again: the same call then gives the twin's bits. */
static void fill_case(const struct setting *s, const struct call *call, const struct answer *want)
{
	struct setting tight = *s;
	struct rig r;
	int n_refused = 0;

	tight.n_blocks = 24;
	rig_open(&r, &tight);
	for (int32_t n = 24 * 32; n > 0; n -= 32) {
		struct cohort_err err;
		assert_true(prepare(&r));
		enum cohort_status st = COHORT_OK;
		/* n tokens of filling, less where they do not fit. */
		for (int32_t at = 0; at < n && !st; at += 16)
			st = cohort_decode_many(r.c, tokens_from(50, 16), 16, at, 12, NULL);
		const struct books before = look(&r);
		st = call->run(&r, &err);
		if (st == COHORT_OK)
			break;
		assert_int_equal(st, COHORT_NO_ROOM);
		n_refused++;
		check_books(&r, &before);
		assert_int_equal(cohort_seq_rm(r.c, 12, 0, -1, NULL), COHORT_OK);
		check_answer(&r, call, want);
	}
	assert_true(n_refused > 0 || call->run == call_one);
	rig_close(&r);
}

static void injected_batches_without_room(void **state)
{
	(void)state;
	for_each_call(room_case);
	for_each_call(fill_case);
}

/* Every allocation of the call fails in turn: in a context that has never seen such a call, and in a warm one with a
 * scratch that is new. */
static void memory_case(const struct setting *s, const struct call *call, const struct answer *want)
{
	for (int warm = 0; warm < 2; warm++) {
		enum cohort_status st = COHORT_E_MEMORY;
		for (int64_t at = 0; st; at++) {
			struct cohort_scratch scratch;
			struct answer again;
			struct cohort_err err;
			struct rig r;
			rig_open(&r, s);
			cohort_scratch_init(&scratch);
			if (warm) {
				assert_true(prepare(&r));
				succeed(&r, call, &again);
				r.scratch = &scratch;
			}
			assert_true(prepare(&r));
			const struct books before = look(&r);
			mem_fail_after(at);
			st = call->run(&r, &err);
			mem_fail_after(-1);
			if (st) {
				assert_int_equal(st, COHORT_E_MEMORY);
				assert_int_equal(err.status, COHORT_E_MEMORY);
				check_books(&r, &before);
				check_answer(&r, call, want);
			}
			cohort_scratch_release(&scratch);
			rig_close(&r);
			assert_true(at < 100);
		}
	}
}

static void injected_batches_out_of_memory_at_every_point(void **state)
{
	(void)state;
	for_each_call(memory_case);
}

/* A token in turn is one whose embedding is not a number, then one that is none. The error names the row where it can:
 * numbers that are not finite show at an output. */
static void spoilt_case(const struct setting *s, const struct call *call, const struct answer *want)
{
	struct rig r;

	rig_open(&r, s);
	for (int32_t at = 0; at < call->n_tokens; at++)
		for (int bad = 0; bad < 2; bad++) {
			struct cohort_err err;
			assert_true(prepare(&r));
			const struct books before = look(&r);
			r.spoilt = at;
			r.with = bad ? N_VOCAB + 3 : POISON;
			assert_int_equal(call->run(&r, &err), bad ? COHORT_E_BATCH : COHORT_E_NUMERIC);
			assert_string_equal(err.rule, bad ? "token" : "finite");
			if (bad)
				assert_int_equal(err.row, at);
			else
				assert_true(err.row >= at && err.row < call->n_tokens);
			check_books(&r, &before);
			if (at % 4 == bad) /* the same check each time would only take time */
				check_answer(&r, call, want);
		}
	rig_close(&r);
}

static void spoilt_rows(void **state)
{
	(void)state;
	for_each_call(spoilt_case);
}

/* Rows that break a rule at the end of a batch that is otherwise good. */
static void last_row_breaks_a_rule(void **state)
{
	static const struct {
		cohort_pos pos;
		cohort_seq a, b;
		const char *rule;
	} rows[] = {
		{-1, 9, -1, "pos-negative"}, {5, 9, -1, "pos-step"}, {3, 11, -1, "pos-start"}, {0, N_SEQ, -1, "seq-id"},
		{0, 10, 10, "seq-repeat"}, {512, 9, -1, "pos-limit"}, {52, 0, 1, "seq-sets"}, {0, 10, 9, "seq-sets"},
	};
	struct answer want;
	(void)state;
	for (size_t i = 0; i < N_SETTINGS; i++) {
		struct rig r;
		twin(&settings[i], &calls[0], &want);
		rig_open(&r, &settings[i]);
		for (size_t k = 0; k < sizeof rows / sizeof *rows; k++) {
			struct cohort_err err;
			assert_true(prepare(&r));
			const struct books before = look(&r);
			fill(&r);
			add(&r, 1, rows[k].pos, rows[k].a, rows[k].b);
			assert_int_equal(cohort_decode(r.c, &r.b, &err), COHORT_E_BATCH);
			if (strcmp(err.rule, rows[k].rule) != 0)
				fail_msg("row %zu: %s, expected %s", k, err.text, rows[k].rule);
			assert_int_equal(err.row, r.b.n_tokens - 1);
			check_books(&r, &before);
			check_answer(&r, &calls[0], &want);
		}
		rig_close(&r);
	}
}

/* ---- What is warm allocates nothing ---- */

static void warm_calls(void **state)
{
	(void)state;
	for (size_t i = 0; i < 3; i++) {
		const struct setting s = {(enum cohort_kv_type)i, (enum cohort_split)i, 40};
		struct cohort_scratch scratch;
		struct rig r;
		rig_open(&r, &s);
		cohort_scratch_init(&scratch);
		for (int pass = 0; pass < 3; pass++) {
			for (size_t k = 0; k < N_CALLS; k++) {
				struct cohort_err err;
				assert_true(prepare(&r));
				r.scratch = pass == 1 ? NULL : &scratch;
				mem_fail_all(pass == 2);
				enum cohort_status st = calls[k].run(&r, &err);
				mem_fail_all(false);
				if (st)
					fail_msg("%s: %s", calls[k].name, err.text);
			}
			cohort_batch_reset(&r.b);
			for (int32_t n = 0; n < 12; n++)
				add(&r, 3, n / 3, 14 - n % 3, -1);
			mem_fail_all(pass == 2);
			enum cohort_status st = cohort_encode(r.c, &r.b, NULL);
			mem_fail_all(false);
			assert_int_equal(st, COHORT_OK);
		}
		cohort_scratch_release(&scratch);
		rig_close(&r);
	}
}

/* A context's first plain calls allocate nothing either. */
static void cold_calls(void **state)
{
	(void)state;
	for (size_t k = 1; k < 3; k++) { /* many would need the room of several chunks: one of them here */
		struct rig r;
		rig_open(&r, &settings[0]);
		mem_fail_all(true);
		enum cohort_status st = k == 1 ? cohort_decode_many(r.c, tokens_from(1, N_BATCH), N_BATCH, 0, 0, NULL)
					       : call_each(&r, NULL);
		mem_fail_all(false);
		assert_int_equal(st, COHORT_OK);
		rig_close(&r);
	}
}

/* ---- Thousands of sequences ---- */

static void open_wide(struct rig *r, int32_t n_seq_max, int32_t n_ctx, int32_t n_batch)
{
	struct cohort_context_params cp;
	struct cohort_err err;

	*r = (struct rig){.n_until_abort = -1, .spoilt = -1};
	cohort_context_params_init(&cp);
	cp.n_ctx = n_ctx;
	cp.n_blocks = pool_blocks(cp.n_ctx, 0);
	cp.n_batch = n_batch;
	cp.n_ubatch = 64;
	cp.n_seq_max = n_seq_max;
	cp.n_threads = 2;
	if (cohort_model_open(path, NULL, &r->m, &err))
		fail_msg("%s", err.text);
	r->m->model.layers[0].window = 5;
	if (cohort_context_open(r->m, &cp, &r->c, &err))
		fail_msg("%s", err.text);
}

static void wide_ids(int32_t n_seq_max)
{
	const cohort_seq ids[] = {n_seq_max - 1, 0, n_seq_max / 2, 255, 256, 1};
	float want[10][N_VOCAB];
	struct cohort_err err;
	struct rig r;

	open_wide(&r, n_seq_max, 1024, 64);
	for (int32_t turn = 0; turn < 7; turn++) {
		for (size_t i = 0; i < sizeof ids / sizeof *ids; i++)
			for (int32_t pos = 0; pos < 10; pos++) {
				if (cohort_decode_one(r.c, token_at(2, pos), pos, ids[i], true, &err))
					fail_msg("%s", err.text);
				const float *got = cohort_logits_get(r.c, 0, NULL);
				if (turn == 0 && i == 0)
					memcpy(want[pos], got, sizeof want[pos]);
				assert_memory_equal(got, want[pos], sizeof want[pos]);
			}
		assert_true(memory_consistent(&r.c->memory));
		if (turn < 6) {
			struct cohort_usage u;
			assert_int_equal(cohort_seq_keep(r.c, ids[turn], NULL), COHORT_OK);
			for (size_t i = 0; i < sizeof ids / sizeof *ids; i++)
				assert_int_equal(cohort_seq_pos_max(r.c, ids[i]), ids[i] == ids[turn] ? 9 : -1);
			cohort_usage_get(r.c, &u);
			assert_int_equal(u.n_seqs, 1);
		}
		cohort_seq_clear(r.c);
		for (size_t i = 0; i < sizeof ids / sizeof *ids; i++)
			assert_int_equal(cohort_seq_pos_max(r.c, ids[i]), -1);
	}
	assert_int_equal(cohort_decode_one(r.c, 9, 0, n_seq_max, true, &err), COHORT_E_BATCH);
	assert_int_equal(cohort_seq_keep(r.c, n_seq_max, NULL), COHORT_E_ARG);
	cohort_context_free(r.c);
	cohort_model_free(r.m);
}

/* All fork from one prompt, whose last block is not full, and go on for two rows each. */
static void all_at_once(void)
{
	enum { N = 4096, PROMPT = 40, KINDS = 17 };
	static float want[KINDS][2][N_VOCAB];
	struct cohort_each_item *items = malloc(N * sizeof *items);
	struct cohort_err err;
	struct rig r;

	assert_non_null(items);
	open_wide(&r, N, N * 64, N);
	for (int32_t k = 0; k < KINDS; k++) {
		cohort_seq_clear(r.c);
		assert_int_equal(cohort_decode_many(r.c, tokens_from(4, PROMPT), PROMPT, 0, 3, NULL), COHORT_OK);
		for (int32_t step = 0; step < 2; step++) {
			assert_int_equal(cohort_decode_one(r.c, 10 + k, PROMPT + step, 3, true, NULL), COHORT_OK);
			memcpy(want[k][step], cohort_logits_get(r.c, 0, NULL), sizeof want[k][step]);
		}
	}
	cohort_seq_clear(r.c);
	assert_int_equal(cohort_decode_many(r.c, tokens_from(4, PROMPT), PROMPT, 0, N - 1, NULL), COHORT_OK);
	for (cohort_seq s = 0; s < N - 1; s++)
		assert_int_equal(cohort_seq_cp(r.c, N - 1, s, 0, -1, NULL), COHORT_OK);
	for (int32_t step = 0; step < 2; step++) {
		for (int32_t i = 0; i < N; i++) {
			const cohort_seq s = (i * 1365 + 7) % N; /* 1365 is odd, so each comes once */
			items[i] = (struct cohort_each_item){10 + s % KINDS, PROMPT + step, s, true};
		}
		if (cohort_decode_each(r.c, items, N, NULL, &err))
			fail_msg("%s", err.text);
		for (int32_t i = 0; i < N; i++)
			assert_memory_equal(cohort_logits_get(r.c, i, NULL), want[items[i].seq % KINDS][step],
					sizeof want[0][0]);
		assert_true(memory_consistent(&r.c->memory));
	}
	assert_int_equal(cohort_seq_keep(r.c, 2048, NULL), COHORT_OK);
	assert_int_equal(cohort_seq_pos_max(r.c, 2048), PROMPT + 1);
	assert_int_equal(cohort_seq_pos_max(r.c, 2047), -1);
	cohort_seq_clear(r.c);
	assert_true(memory_consistent(&r.c->memory));
	free(items);
	cohort_context_free(r.c);
	cohort_model_free(r.m);
}

static void injected_batches_with_65536_sequences(void **state)
{
	(void)state;
	wide_ids(4096);
	wide_ids(65536);
	all_at_once();
}

static void enough_failures(void **state)
{
	(void)state;
	print_message("# %llu failures injected\n", (unsigned long long)n_injected);
	assert_true(n_injected >= 500);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(injected_batches_are_aborted_everywhere),
		cmocka_unit_test(injected_batches_without_room),
		cmocka_unit_test(injected_batches_out_of_memory_at_every_point),
		cmocka_unit_test(spoilt_rows),
		cmocka_unit_test(last_row_breaks_a_rule),
		cmocka_unit_test(warm_calls),
		cmocka_unit_test(cold_calls),
		cmocka_unit_test(injected_batches_with_65536_sequences),
		cmocka_unit_test(enough_failures),
	};
	return cmocka_run_group_tests_name("inject", tests, write_model, remove_model);
}
