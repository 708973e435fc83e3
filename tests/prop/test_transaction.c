/* A failed decode changes nothing: whatever ends it (no room, the abort callback at every layer of every ubatch, a bad
 * batch, a number that is not finite, no memory), lengths and blocks are as before and the next decode gives the bits
 * it would have given.
 *
 * Shown red by committing where cohort_decode rolls back (decode_is_aborted_everywhere,
 * decode_out_of_memory_for_coupled_rows, decode_names_the_row_that_is_no_number fail) and by leaving out half of the
 * stores that parting groups need. A warm decode is also shown to allocate nothing. test_inject.c goes through the
 * other calls, with windows, gaps and several chunks. */
#include "model_case.h"
#include "room_case.h"

#include "cohort_tools.h"

#include "base/mem.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

struct rig {
	struct cohort_model *m;
	struct cohort_context *c;
	struct cohort_batch b;
	size_t n_vocab;
	int n_until_abort; /* < 0: never */
};

static bool abort_soon(void *user)
{
	struct rig *r = user;
	return r->n_until_abort >= 0 && r->n_until_abort-- == 0;
}

static void rig_open_with(struct rig *r, int32_t n_ctx, int32_t n_ubatch)
{
	struct cohort_context_params cp;
	struct cohort_model_info info;
	struct cohort_err err;
	char path[1024];

	*r = (struct rig){.n_until_abort = -1};
	snprintf(path, sizeof path, "%s/tests/golden/data/llama.gguf", env_or("COHORT_SOURCE", "."));
	if (cohort_model_open(path, NULL, &r->m, &err))
		fail_msg("%s", err.text);
	cohort_context_params_init(&cp);
	cp.n_ctx = n_ctx;
	cp.n_blocks = pool_blocks(cp.n_ctx, 0);
	cp.n_ubatch = n_ubatch;
	cp.n_seq_max = 8;
	cp.n_threads = 2;
	cp.abort = abort_soon;
	cp.abort_user = r;
	if (cohort_context_open(r->m, &cp, &r->c, &err) || cohort_batch_init(&r->b, 512, 0, 8, &err))
		fail_msg("%s", err.text);
	cohort_model_info_get(r->m, &info);
	r->n_vocab = (size_t)info.n_vocab;
}

static void rig_open(struct rig *r, int32_t n_ctx)
{
	rig_open_with(r, n_ctx, 5);
}

static void rig_close(struct rig *r)
{
	cohort_batch_release(&r->b);
	cohort_context_free(r->c);
	cohort_model_free(r->m);
}

static void add(struct rig *r, cohort_token t, int32_t pos, const cohort_seq *seqs, int32_t n)
{
	assert_int_equal(cohort_batch_add(&r->b, t, pos, seqs, n, true, NULL), COHORT_OK);
}

/* Sequence 0 of 40 tokens, forked to 1 and 2; 2 has a tail of its own. So blocks are shared, and tails are to be
 * copied. */
static void prepare(struct rig *r)
{
	const cohort_seq zero = 0, two = 2;
	cohort_seq_clear(r->c);
	cohort_batch_reset(&r->b);
	for (int32_t i = 0; i < 40; i++)
		add(r, 3 + i, i, &zero, 1);
	assert_int_equal(cohort_decode(r->c, &r->b, NULL), COHORT_OK);
	assert_int_equal(cohort_seq_cp(r->c, 0, 1, 0, -1, NULL), COHORT_OK);
	assert_int_equal(cohort_seq_cp(r->c, 0, 2, 0, -1, NULL), COHORT_OK);
	cohort_batch_reset(&r->b);
	for (int32_t i = 40; i < 43; i++)
		add(r, 200 + i, i, &two, 1);
	assert_int_equal(cohort_decode(r->c, &r->b, NULL), COHORT_OK);
}

/* What a decode is about to do: 0 and 1 go on together for three rows and then apart, 2 alone, 3 is new. */
static void fill(struct rig *r)
{
	const cohort_seq both[] = {0, 1}, one = 1, zero = 0, two = 2, three = 3;
	cohort_batch_reset(&r->b);
	for (int32_t i = 0; i < 3; i++)
		add(r, 7 + i, 40 + i, both, 2);
	add(r, 17, 43, &zero, 1);
	add(r, 18, 43, &one, 1);
	for (int32_t i = 0; i < 4; i++)
		add(r, 27 + i, 43 + i, &two, 1);
	for (int32_t i = 0; i < 5; i++)
		add(r, 37 + i, i, &three, 1);
	add(r, 19, 44, &zero, 1);
}

struct state {
	cohort_pos min[8], max[8];
	struct cohort_usage u;
};

static struct state look(const struct rig *r)
{
	struct state s;
	memset(&s, 0, sizeof s);
	for (cohort_seq i = 0; i < 8; i++) {
		s.min[i] = cohort_seq_pos_min(r->c, i);
		s.max[i] = cohort_seq_pos_max(r->c, i);
	}
	cohort_usage_get(r->c, &s.u);
	return s;
}

/* The logits that fill()'s batch gives when nothing went wrong before. */
static float *answer(struct rig *r, size_t *n)
{
	prepare(r);
	fill(r);
	assert_int_equal(cohort_decode(r->c, &r->b, NULL), COHORT_OK);
	*n = (size_t)r->b.n_tokens * r->n_vocab;
	float *all = malloc(*n * sizeof *all);
	assert_non_null(all);
	for (int32_t i = 0; i < r->b.n_tokens; i++)
		memcpy(all + (size_t)i * r->n_vocab, cohort_logits_get(r->c, i, NULL), r->n_vocab * sizeof *all);
	return all;
}

static void check_after(struct rig *r, const struct state *before, const float *want)
{
	struct state now = look(r);
	assert_memory_equal(&now, before, sizeof now);
	r->n_until_abort = -1;
	fill(r);
	assert_int_equal(cohort_decode(r->c, &r->b, NULL), COHORT_OK);
	for (int32_t i = 0; i < r->b.n_tokens; i++)
		assert_memory_equal(cohort_logits_get(r->c, i, NULL), want + (size_t)i * r->n_vocab,
				r->n_vocab * sizeof *want);
}

/* Coupled rows that part within the batch give what separate sequences give. */
static void coupled_equals_alone(void **state)
{
	struct rig r;
	const cohort_seq five = 5;
	size_t n;
	(void)state;
	rig_open(&r, 1024);
	float *want = answer(&r, &n);
	cohort_seq_clear(r.c);
	cohort_batch_reset(&r.b);
	for (int32_t i = 0; i < 40; i++)
		add(&r, 3 + i, i, &five, 1);
	for (int32_t i = 0; i < 3; i++)
		add(&r, 7 + i, 40 + i, &five, 1);
	add(&r, 18, 43, &five, 1);
	assert_int_equal(cohort_decode(r.c, &r.b, NULL), COHORT_OK);
	for (int32_t i = 0; i < 3; i++)
		assert_memory_equal(cohort_logits_get(r.c, 40 + i, NULL), want + (size_t)i * r.n_vocab,
				r.n_vocab * sizeof *want);
	assert_memory_equal(cohort_logits_get(r.c, 43, NULL), want + 4 * r.n_vocab, r.n_vocab * sizeof *want);
	free(want);
	rig_close(&r);
}

/* Two coupled groups that part within one batch, cut into ubatches of every size: the rows common to a group go to
 * several blocks, each while its own ubatch is computed. */
static void groups_part_over_ubatches(void **state)
{
	const cohort_seq ab[] = {0, 1}, cd[] = {2, 3};
	float *want = NULL;
	(void)state;
	for (int32_t n_ubatch = 12; n_ubatch >= 1; n_ubatch--) {
		struct rig r;
		rig_open_with(&r, 1024, n_ubatch);
		for (int32_t i = 0; i < 2; i++)
			add(&r, 5 + i, i, ab, 2);
		for (int32_t i = 0; i < 2; i++)
			add(&r, 15 + i, i, cd, 2);
		for (cohort_seq s = 0; s < 4; s++)
			add(&r, 25 + s, 2, &s, 1);
		for (cohort_seq s = 0; s < 4; s++)
			add(&r, 35 + s, 3, &s, 1);
		assert_int_equal(cohort_decode(r.c, &r.b, NULL), COHORT_OK);
		const size_t n = (size_t)r.b.n_tokens * r.n_vocab;
		if (!want)
			want = malloc(n * sizeof *want);
		assert_non_null(want);
		for (int32_t i = 0; i < r.b.n_tokens; i++) {
			const float *got = cohort_logits_get(r.c, i, NULL);
			float *row = want + (size_t)i * r.n_vocab;
			if (n_ubatch == 12)
				memcpy(row, got, r.n_vocab * sizeof *row);
			assert_memory_equal(got, row, r.n_vocab * sizeof *row);
		}
		rig_close(&r);
	}
	free(want);
}

/* The head of a sequence is removed again and again: it may go on past the size of the pool. */
static void decode_past_the_size_of_the_pool(void **state)
{
	struct rig r;
	const cohort_seq zero = 0;
	(void)state;
	rig_open(&r, 2 * 32);
	for (int32_t pos = 0; pos < 200; pos++) {
		cohort_batch_reset(&r.b);
		add(&r, 3 + pos % 100, pos, &zero, 1);
		assert_int_equal(cohort_decode(r.c, &r.b, NULL), COHORT_OK);
		if (pos % 32 == 31)
			assert_int_equal(cohort_seq_rm(r.c, 0, 0, pos - 10, NULL), COHORT_OK);
	}
	assert_int_equal(cohort_seq_pos_max(r.c, 0), 199);
	rig_close(&r);
}

static void decode_is_aborted_everywhere(void **state)
{
	struct rig r;
	size_t n;
	int n_tried = 0;
	(void)state;
	rig_open(&r, 1024);
	float *want = answer(&r, &n);
	for (int at = 0;; at++) {
		struct cohort_err err;
		prepare(&r);
		struct state before = look(&r);
		fill(&r);
		r.n_until_abort = at;
		enum cohort_status st = cohort_decode(r.c, &r.b, &err);
		if (st == COHORT_OK)
			break;
		assert_int_equal(st, COHORT_ABORTED);
		assert_int_equal(err.status, COHORT_ABORTED);
		assert_null(cohort_logits_get(r.c, 0, &err));
		check_after(&r, &before, want);
		n_tried++;
	}
	assert_int_equal(n_tried, 3 * 2); /* 15 rows in ubatches of 5, two layers */
	free(want);
	rig_close(&r);
}

/* A token whose embedding is not a number fails its decode alone; the row is named. */
static void decode_names_the_row_that_is_no_number(void **state)
{
	const struct shape shape = {50, 64, 2, 4, 2, 16, 16, 96, 16, 64, QUANT_F32, QUANT_F32, QUANT_F32, QUANT_F32,
			false, NULL, NULL, NULL};
	const cohort_seq zero = 0, one = 1;
	const float nan = NAN;
	struct cohort_gguf *g;
	struct cohort_gguf_tensor t;
	struct cohort_err err;
	float want[50];
	(void)state;

	char *path = synth_write(&shape, 3);
	assert_int_equal(cohort_gguf_open(path, &g, &err), COHORT_OK);
	assert_true(cohort_gguf_tensor_get(g, 0, &t) && t.ne[1] == 50);
	FILE *f = fopen(path, "r+b");
	assert_non_null(f);
	assert_int_equal(fseek(f, (long)(t.offset + 7 * 64 * sizeof nan), SEEK_SET), 0);
	assert_int_equal(fwrite(&nan, sizeof nan, 1, f), 1);
	fclose(f);
	cohort_gguf_free(g);

	for (int broken = 0; broken < 2; broken++) {
		struct rig r = {.n_until_abort = -1};
		struct cohort_context_params cp;
		cohort_context_params_init(&cp);
		cp.n_ubatch = 2;
		if (cohort_model_open(path, NULL, &r.m, &err) || cohort_context_open(r.m, &cp, &r.c, &err) ||
				cohort_batch_init(&r.b, 8, 0, 1, &err))
			fail_msg("%s", err.text);
		for (int32_t i = 0; i < 3; i++)
			add(&r, 10 + i, i, &zero, 1);
		assert_int_equal(cohort_decode(r.c, &r.b, NULL), COHORT_OK);
		struct state before = look(&r);
		if (broken) {
			cohort_batch_reset(&r.b);
			for (int32_t i = 3; i < 6; i++)
				add(&r, 20 + i, i, &zero, 1);
			add(&r, 7, 0, &one, 1);
			assert_int_equal(cohort_decode(r.c, &r.b, &err), COHORT_E_NUMERIC);
			assert_int_equal(err.row, 3);
			assert_int_equal(err.seq, 1);
			struct state now = look(&r);
			assert_memory_equal(&now, &before, sizeof now);
		}
		cohort_batch_reset(&r.b);
		add(&r, 30, 3, &zero, 1);
		assert_int_equal(cohort_decode(r.c, &r.b, NULL), COHORT_OK);
		if (broken)
			assert_memory_equal(cohort_logits_get(r.c, -1, NULL), want, sizeof want);
		else
			memcpy(want, cohort_logits_get(r.c, -1, NULL), sizeof want);
		rig_close(&r);
	}
	unlink(path);
	free(path);
}

static void decode_without_room_changes_nothing(void **state)
{
	struct rig r;
	const cohort_seq four = 4;
	size_t n;
	(void)state;
	rig_open(&r, 9 * 32);
	float *want = answer(&r, &n);
	for (int32_t extra = 100; extra < 200; extra += 9) {
		struct cohort_err err;
		prepare(&r);
		struct state before = look(&r);
		fill(&r);
		int32_t n_rows = r.b.n_tokens;
		for (int32_t i = 0; i < extra; i++)
			add(&r, 5, i, &four, 1);
		enum cohort_status st = cohort_decode(r.c, &r.b, &err);
		if (extra <= 96)
			continue;
		if (st == COHORT_OK)
			continue; /* it did fit */
		assert_int_equal(st, COHORT_NO_ROOM);
		assert_int_equal(err.seq, 4);
		assert_true(err.row >= n_rows && err.row % 32 == n_rows % 32);
		check_after(&r, &before, want);
	}
	free(want);
	rig_close(&r);
}

static void bad_batches(void **state)
{
	struct rig r;
	const cohort_seq zero = 0, nine = 9;
	size_t n;
	(void)state;
	rig_open(&r, 1024);
	float *want = answer(&r, &n);
	for (int fault = 0; fault < 5; fault++) {
		struct cohort_err err;
		prepare(&r);
		struct state before = look(&r);
		fill(&r);
		switch (fault) {
		case 0: add(&r, 1 << 20, 45, &zero, 1); break;
		case 1: add(&r, 5, 45, &nine, 1); break;
		case 2: add(&r, 5, 46, &zero, 1); break;
		case 3: add(&r, 5, -1, &zero, 1); break;
		default: cohort_batch_reset(&r.b); break;
		}
		assert_int_equal(cohort_decode(r.c, &r.b, &err), COHORT_E_BATCH);
		assert_non_null(err.rule);
		check_after(&r, &before, want);
	}
	free(want);
	rig_close(&r);
}

/* Only what coupled rows make grow can still fail, and a plain batch allocates nothing, not even the first one. */
static void decode_out_of_memory_for_coupled_rows(void **state)
{
	const cohort_seq three = 3;
	struct rig r;
	size_t n;
	int n_failed = 0;
	(void)state;
	for (int64_t at = 0; at < 10; at++) {
		rig_open(&r, 1024);
		mem_fail_all(true);
		for (int32_t i = 0; i < 40; i++)
			add(&r, 3 + i, i, &three, 1);
		enum cohort_status st = cohort_decode(r.c, &r.b, NULL);
		mem_fail_all(false);
		assert_int_equal(st, COHORT_OK);
		float *want = answer(&r, &n);
		rig_close(&r);

		rig_open(&r, 1024);
		prepare(&r);
		struct state before = look(&r);
		fill(&r);
		mem_fail_after(at);
		st = cohort_decode(r.c, &r.b, NULL);
		mem_fail_after(-1);
		if (st != COHORT_OK) {
			n_failed++;
			assert_int_equal(st, COHORT_E_MEMORY);
			check_after(&r, &before, want);
		}
		free(want);
		rig_close(&r);
	}
	assert_true(n_failed > 0);
}

static void warm_decode_allocates_nothing(void **state)
{
	struct rig r;
	(void)state;
	rig_open(&r, 1024);
	for (int i = 0; i < 2; i++) {
		prepare(&r);
		fill(&r);
		mem_fail_all(i == 1);
		enum cohort_status st = cohort_decode(r.c, &r.b, NULL);
		mem_fail_all(false);
		assert_int_equal(st, COHORT_OK);
	}
	rig_close(&r);
}

/* Opening runs out of memory at every allocation in turn: a status, and nothing leaks (the sanitizer build looks). */
static void open_without_memory(void **state)
{
	char path[1024];
	(void)state;
	snprintf(path, sizeof path, "%s/tests/golden/data/quant-q4_k.gguf", env_or("COHORT_SOURCE", "."));
	for (int64_t at = 0;; at++) {
		struct cohort_model *m = NULL;
		struct cohort_context *c = NULL;
		struct cohort_err err;
		mem_fail_after(at);
		enum cohort_status st = cohort_model_open(path, NULL, &m, &err);
		if (st == COHORT_OK)
			st = cohort_context_open(m, NULL, &c, &err);
		mem_fail_after(-1);
		cohort_context_free(c);
		cohort_model_free(m);
		if (st == COHORT_OK) {
			assert_true(at > 10);
			break;
		}
		assert_int_equal(st, COHORT_E_MEMORY);
		assert_int_equal(err.status, COHORT_E_MEMORY);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(coupled_equals_alone),
		cmocka_unit_test(groups_part_over_ubatches),
		cmocka_unit_test(decode_past_the_size_of_the_pool),
		cmocka_unit_test(decode_is_aborted_everywhere),
		cmocka_unit_test(decode_names_the_row_that_is_no_number),
		cmocka_unit_test(decode_without_room_changes_nothing),
		cmocka_unit_test(bad_batches),
		cmocka_unit_test(decode_out_of_memory_for_coupled_rows),
		cmocka_unit_test(warm_decode_allocates_nothing),
		cmocka_unit_test(open_without_memory),
	};
	return cmocka_run_group_tests_name("transaction", tests, NULL, NULL);
}
