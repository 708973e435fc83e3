/* The batch: the container, what its checks fill in, and every rule's refusal with its data. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "batch/batch.h"

enum { N_SEQ = 8 };

static const struct batch_limits limits = {.n_vocab = 100, .n_seq_max = N_SEQ, .n_rows_max = 64, .n_pos_max = 50};

/* A memory: where each sequence ends, and which hold the same cells. */
struct memory {
	cohort_pos last[N_SEQ];
	int history[N_SEQ];
};

static cohort_pos pos_max(void *user, cohort_seq seq)
{
	assert_true(seq >= 0 && seq < N_SEQ); /* never asked for an unchecked id */
	return ((struct memory *)user)->last[seq];
}

static bool same(void *user, cohort_seq a, cohort_seq b)
{
	const struct memory *m = user;
	return m->history[a] == m->history[b] && m->last[a] == m->last[b];
}

/* Sequences 0 and 1 hold 0..4 together, 2 holds 0..4 of its own, the others are empty. */
static struct memory memory = {{4, 4, 4, -1, -1, -1, -1, -1}, {1, 1, 2, 0, 0, 0, 0, 0}};
static const struct batch_memory mem = {&memory, pos_max, same};

static struct cohort_batch new_batch(int32_t n_max, int32_t n_seq_row_max)
{
	struct cohort_batch b;

	assert_int_equal(cohort_batch_init(&b, n_max, n_seq_row_max, NULL), COHORT_OK);
	return b;
}

static void add(struct cohort_batch *b, cohort_token token, cohort_pos pos, cohort_seq seq)
{
	assert_int_equal(cohort_batch_add(b, token, pos, &seq, 1, false, NULL), COHORT_OK);
}

static void add2(struct cohort_batch *b, cohort_pos pos, cohort_seq s, cohort_seq t)
{
	assert_int_equal(cohort_batch_add(b, 1, pos, (cohort_seq[]){s, t}, 2, false, NULL), COHORT_OK);
}

/* ---- The container ---- */

static void arguments(void **state)
{
	struct cohort_err err = {0};
	struct cohort_batch b;
	cohort_seq seqs[] = {0, 1, 2};
	(void)state;

	assert_int_equal(cohort_batch_init(NULL, 1, 1, &err), COHORT_E_ARG);
	assert_int_equal(cohort_batch_init(&b, 0, 1, &err), COHORT_E_ARG);
	assert_int_equal(cohort_batch_init(&b, 1, 0, &err), COHORT_E_ARG);
	assert_int_equal(cohort_batch_init(&b, -1, -1, NULL), COHORT_E_ARG);
	assert_int_equal(cohort_batch_from_tokens(NULL, NULL, 0, &err), COHORT_E_ARG);
	assert_int_equal(cohort_batch_from_tokens(&b, NULL, 1, &err), COHORT_E_ARG);
	assert_int_equal(cohort_batch_from_tokens(&b, (cohort_token[]){1}, -1, &err), COHORT_E_ARG);
	assert_int_equal(cohort_batch_add(NULL, 1, 0, seqs, 1, false, &err), COHORT_E_ARG);
	/* Bare tokens take no rows, and a released batch neither. */
	assert_int_equal(cohort_batch_from_tokens(&b, (cohort_token[]){1}, 1, &err), COHORT_OK);
	assert_int_equal(cohort_batch_add(&b, 1, 0, seqs, 1, false, &err), COHORT_E_ARG);
	assert_int_equal(b.n_tokens, 1);
	cohort_batch_release(&b);
	assert_int_equal(cohort_batch_add(&b, 1, 0, seqs, 1, false, &err), COHORT_E_ARG);
	cohort_batch_release(&b);
	cohort_batch_release(NULL);

	b = new_batch(2, 2);
	assert_int_equal(cohort_batch_add(&b, 1, 0, seqs, 0, false, &err), COHORT_E_ARG);
	assert_string_equal(err.rule, "seq-count");
	assert_int_equal(cohort_batch_add(&b, 1, 0, NULL, 1, false, &err), COHORT_E_ARG);
	assert_int_equal(cohort_batch_add(&b, 1, 0, seqs, 3, false, &err), COHORT_E_ARG);
	assert_int_equal(err.row, 0);
	assert_int_equal(err.expected, 2);
	assert_int_equal(err.got, 3);
	assert_int_equal(b.n_tokens, 0);
	cohort_batch_release(&b);
}

static void full(void **state)
{
	struct cohort_err err = {0};
	struct cohort_batch b = new_batch(3, 1);
	(void)state;

	for (int round = 0; round < 2; round++) {
		for (int i = 0; i < 3; i++)
			add(&b, 10 + i, i, 0);
		assert_int_equal(cohort_batch_add(&b, 1, 3, (cohort_seq[]){0}, 1, false, &err), COHORT_E_LIMIT);
		assert_string_equal(err.rule, "batch-full");
		assert_int_equal(err.row, 3);
		assert_int_equal(err.expected, 3);
		assert_int_equal(err.got, 4);
		assert_int_equal(b.n_tokens, 3);
		assert_int_equal(b.tokens[2], 12);
		cohort_batch_reset(&b); /* keeps its memory */
		assert_int_equal(b.n_tokens, 0);
	}
	cohort_batch_release(&b);
}

/* The struct holds no pointer into itself: its bytes may go elsewhere, and the old place be overwritten. */
static void moves(void **state)
{
	const cohort_token tokens[] = {5, 6, 7};
	struct batch_checked c = {0};
	(void)state;

	for (int kind = 0; kind < 2; kind++) {
		struct cohort_batch *old = malloc(sizeof *old), *moved = malloc(sizeof *moved);
		assert_true(old && moved);
		if (kind == 0) {
			assert_int_equal(cohort_batch_from_tokens(old, tokens, 3, NULL), COHORT_OK);
		} else {
			*old = new_batch(3, 2);
			for (int i = 0; i < 3; i++)
				add(old, tokens[i], i, 0);
		}
		memcpy(moved, old, sizeof *old);
		memset(old, 0x5a, sizeof *old);
		free(old);
		assert_int_equal(batch_check(&c, moved, &limits, NULL, NULL), COHORT_OK);
		assert_int_equal(c.n_rows, 3);
		for (int i = 0; i < 3; i++)
			assert_int_equal(c.rows[i].token, tokens[i]);
		cohort_batch_release(moved);
		free(moved);
	}
	batch_checked_release(&c);
	batch_checked_release(NULL);
}

static void no_heap_up_to_32(void **state)
{
	cohort_token tokens[COHORT_BATCH_INLINE + 1];
	struct cohort_batch b;
	(void)state;

	for (int i = 0; i <= COHORT_BATCH_INLINE; i++)
		tokens[i] = 3 * i;
	for (int n = 0; n <= COHORT_BATCH_INLINE; n++) {
		uint64_t before = mem_count();
		assert_int_equal(cohort_batch_from_tokens(&b, tokens, n, NULL), COHORT_OK);
		assert_int_equal(mem_count(), before);
		assert_int_equal(b.n_tokens, n);
		assert_null(b.tokens);
		assert_memory_equal(b.inline_tokens, tokens, (size_t)n * sizeof *tokens);
	}
	uint64_t before = mem_count();
	assert_int_equal(cohort_batch_from_tokens(&b, tokens, COHORT_BATCH_INLINE + 1, NULL), COHORT_OK);
	assert_int_equal(mem_count(), before + 1);
	assert_memory_equal(b.tokens, tokens, sizeof tokens);
	assert_ptr_not_equal(b.tokens, tokens); /* copied */
	cohort_batch_release(&b);
}

/* ---- What is filled in ---- */

static void fills(void **state)
{
	cohort_token tokens[40];
	struct batch_checked c = {0};
	struct cohort_batch b;
	(void)state;

	for (int i = 0; i < 40; i++)
		tokens[i] = i;
	for (int n = 1; n <= 40; n += 3)
		for (int with = 0; with < 2; with++) {
			assert_int_equal(cohort_batch_from_tokens(&b, tokens, n, NULL), COHORT_OK);
			assert_int_equal(batch_check(&c, &b, &limits, with ? &mem : NULL, NULL), COHORT_OK);
			assert_int_equal(c.n_rows, n);
			assert_int_equal(c.n_outputs, 1);
			for (int i = 0; i < n; i++) {
				assert_int_equal(c.rows[i].token, i);
				assert_int_equal(c.rows[i].pos, i + (with ? 5 : 0));
				assert_int_equal(c.rows[i].n_seq, 1);
				assert_int_equal(c.rows[i].seq[0], 0);
				assert_int_equal(c.rows[i].output, i == n - 1);
				assert_int_equal(c.rows[i].single, n == 1);
			}
			cohort_batch_release(&b);
		}
	batch_checked_release(&c);
}

static void given_rows(void **state)
{
	struct batch_checked c = {0};
	struct cohort_batch b = new_batch(8, 2);
	(void)state;

	/* Two together, which part; one alone; two empty ones. */
	add2(&b, 5, 0, 1);
	assert_int_equal(cohort_batch_add(&b, 7, 6, (cohort_seq[]){1}, 1, true, NULL), COHORT_OK);
	add(&b, 9, 5, 2);
	assert_int_equal(cohort_batch_add(&b, 8, 6, (cohort_seq[]){0}, 1, true, NULL), COHORT_OK);
	add2(&b, 0, 6, 3);
	assert_int_equal(batch_check(&c, &b, &limits, &mem, NULL), COHORT_OK);
	assert_int_equal(c.n_rows, 5);
	assert_int_equal(c.n_outputs, 2);
	assert_int_equal(c.rows[0].n_seq, 2);
	assert_int_equal(c.rows[0].seq[1], 1);
	assert_int_equal(c.rows[1].pos, 6);
	assert_true(c.rows[1].output);
	assert_false(c.rows[0].single);
	assert_false(c.rows[1].single);
	assert_true(c.rows[2].single);
	assert_true(c.rows[4].single);
	assert_int_equal(c.rows[4].seq[0], 6);
	cohort_batch_release(&b);
	batch_checked_release(&c);
}

/* ---- Refusals ---- */

/* Checks b, which must break the rule, and releases it. */
static void refuse(struct cohort_batch *b, enum cohort_status status, const char *rule, int64_t row, int64_t seq,
		int64_t expected, int64_t got)
{
	struct batch_checked c = {0};
	struct cohort_err err = {0};
	enum cohort_status st = batch_check(&c, b, &limits, &mem, &err);

	if (st != status || !err.rule || strcmp(err.rule, rule) || err.row != row || err.seq != seq ||
			err.expected != expected || err.got != got)
		fail_msg("wanted %s: status %d, rule %s, row %d, sequence %d, expected %d, got %d: %s", rule, (int)st,
				err.rule ? err.rule : "none", (int)err.row, (int)err.seq, (int)err.expected,
				(int)err.got, err.text);
	assert_int_equal(err.status, status);
	assert_true(strlen(err.text) > 0);
	assert_int_equal(c.n_rows, 0);
	assert_int_equal(batch_check(&c, b, &limits, &mem, NULL), status);
	batch_checked_release(&c);
	cohort_batch_release(b);
}

static void refuse_sizes(void **state)
{
	struct cohort_batch b = new_batch(65, 1);
	(void)state;

	refuse(&b, COHORT_E_BATCH, "n-tokens", -1, -1, 1, 0);
	assert_int_equal(cohort_batch_from_tokens(&b, NULL, 0, NULL), COHORT_OK);
	refuse(&b, COHORT_E_BATCH, "n-tokens", -1, -1, 1, 0);
	b = new_batch(65, 1);
	for (int i = 0; i < 65; i++)
		add(&b, 1, i, 3);
	refuse(&b, COHORT_E_LIMIT, "n-batch", -1, -1, 64, 65);
}

static void refuse_tokens(void **state)
{
	struct cohort_batch b = new_batch(4, 1);
	(void)state;

	add(&b, 99, 0, 3);
	add(&b, 100, 1, 3);
	refuse(&b, COHORT_E_BATCH, "token", 1, -1, 100, 100);
	b = new_batch(4, 1);
	add(&b, -1, 0, 3);
	refuse(&b, COHORT_E_BATCH, "token", 0, -1, 100, -1);
	assert_int_equal(cohort_batch_from_tokens(&b, (cohort_token[]){1, INT32_MAX}, 2, NULL), COHORT_OK);
	refuse(&b, COHORT_E_BATCH, "token", 1, -1, 100, INT32_MAX);
}

static void refuse_ids(void **state)
{
	struct cohort_batch b = new_batch(4, 3);
	(void)state;

	add(&b, 1, 0, 3);
	b.n_seq[0] = 0; /* the container does not let this through */
	refuse(&b, COHORT_E_BATCH, "seq-count", 0, -1, 1, 0);
	b = new_batch(4, 3);
	add(&b, 1, 0, 3);
	add(&b, 1, 0, N_SEQ);
	refuse(&b, COHORT_E_BATCH, "seq-id", 1, N_SEQ, N_SEQ, N_SEQ);
	b = new_batch(4, 3);
	add2(&b, 0, 3, -1);
	refuse(&b, COHORT_E_BATCH, "seq-id", 0, -1, N_SEQ, -1);
	b = new_batch(4, 3);
	add2(&b, 0, 3, 4);
	assert_int_equal(cohort_batch_add(&b, 1, 1, (cohort_seq[]){3, 4, 3}, 3, false, NULL), COHORT_OK);
	refuse(&b, COHORT_E_BATCH, "seq-repeat", 1, 3, 1, 2);
}

static void refuse_sets(void **state)
{
	struct cohort_batch b = new_batch(8, 2);
	(void)state;

	/* Coupled after one of them had a row of its own. */
	add(&b, 1, 0, 3);
	add2(&b, 1, 3, 4);
	refuse(&b, COHORT_E_BATCH, "seq-sets", 1, 4, 0, -1);
	/* Coupled again after they had parted. */
	b = new_batch(8, 2);
	add2(&b, 5, 0, 1);
	add(&b, 1, 6, 0);
	add(&b, 1, 6, 1);
	add2(&b, 7, 0, 1);
	refuse(&b, COHORT_E_BATCH, "seq-sets", 3, 1, 1, 2);
	/* Coupled though they hold different cells, of the same number or not. */
	b = new_batch(8, 2);
	add2(&b, 5, 1, 2);
	refuse(&b, COHORT_E_BATCH, "seq-history", 0, 2, 5, 5);
	b = new_batch(8, 2);
	add2(&b, 5, 0, 3);
	refuse(&b, COHORT_E_BATCH, "seq-history", 0, 3, 5, 0);
}

static void refuse_positions(void **state)
{
	struct cohort_batch b = new_batch(64, 2);
	(void)state;

	add(&b, 1, -1, 3);
	refuse(&b, COHORT_E_BATCH, "pos-negative", 0, 3, 0, -1);
	b = new_batch(64, 2);
	for (int i = 0; i < 51; i++)
		add(&b, 1, i, 3);
	refuse(&b, COHORT_E_BATCH, "pos-limit", 50, 3, 50, 50);
	b = new_batch(64, 2);
	add(&b, 1, 4, 2);
	refuse(&b, COHORT_E_BATCH, "pos-start", 0, 2, 5, 4);
	b = new_batch(64, 2);
	add(&b, 1, 1, 3);
	refuse(&b, COHORT_E_BATCH, "pos-start", 0, 3, 0, 1);
	b = new_batch(64, 2);
	add(&b, 1, 5, 2);
	add(&b, 1, 0, 3);
	add(&b, 1, 7, 2);
	refuse(&b, COHORT_E_BATCH, "pos-step", 2, 2, 6, 7);
	b = new_batch(64, 2);
	add(&b, 1, 5, 2);
	add(&b, 1, 5, 2);
	refuse(&b, COHORT_E_BATCH, "pos-step", 1, 2, 6, 5);
}

/* ---- Reuse ---- */

static void epochs(void **state)
{
	struct batch_checked c = {0};
	struct cohort_batch good = new_batch(8, 2), bad = new_batch(8, 2);
	struct cohort_err err;
	(void)state;

	add2(&good, 5, 0, 1);
	add(&good, 1, 6, 0);
	add(&good, 1, 0, 3);
	add(&bad, 1, 5, 0);
	add(&bad, 1, 0, 3);
	add(&bad, 1, 99, 3);
	assert_int_equal(batch_check(&c, &good, &limits, &mem, NULL), COHORT_OK);
	/* The notes of one check, done or refused, mean nothing to the next; and it allocates nothing. */
	mem_fail_all(true);
	for (int i = 0; i < 1000; i++) {
		if (c.epoch == 100)
			c.epoch = UINT32_MAX - 5; /* as if it had been used for long */
		if (i % 3 == 0)
			assert_int_equal(batch_check(&c, &bad, &limits, &mem, &err), COHORT_E_BATCH);
		assert_int_equal(batch_check(&c, &good, &limits, &mem, NULL), COHORT_OK);
		assert_int_equal(c.n_rows, 3);
		assert_int_equal(c.rows[1].pos, 6);
		assert_false(c.rows[1].single);
		assert_true(c.rows[2].single);
	}
	mem_fail_all(false);
	assert_true(c.epoch > 0 && c.epoch < 2000);
	cohort_batch_release(&good);
	cohort_batch_release(&bad);
	batch_checked_release(&c);
}

static void splits(void **state)
{
	struct cohort_batch b = new_batch(64, 1);
	struct batch_checked c = {0};
	(void)state;

	for (int rows = 1; rows <= 40; rows++) {
		cohort_batch_reset(&b);
		for (int i = 0; i < rows; i++)
			add(&b, 1, i, 3);
		assert_int_equal(batch_check(&c, &b, &limits, NULL, NULL), COHORT_OK);
		for (size_t n_ubatch = 1; n_ubatch <= 42; n_ubatch++) {
			size_t at = 0, from, n, end = 0;
			for (;;) {
				batch_split_simple(&c, n_ubatch, &at, &from, &n);
				if (n == 0)
					break;
				assert_int_equal(from, end);
				assert_true(n <= n_ubatch);
				end = from + n;
			}
			assert_int_equal(end, rows);
		}
	}
	cohort_batch_release(&b);
	batch_checked_release(&c);
}

static void allocation_failures(void **state)
{
	static const cohort_token tokens[40];
	struct batch_checked c = {0};
	struct cohort_batch b, before;
	struct cohort_err err;
	int64_t n;
	(void)state;

	memset(&b, 0x5a, sizeof b);
	before = b;
	for (n = 0;; n++) {
		mem_fail_after(n);
		enum cohort_status st = cohort_batch_init(&b, 10, 2, &err);
		mem_fail_after(-1);
		if (!st)
			break;
		assert_int_equal(st, COHORT_E_MEMORY);
		assert_memory_equal(&b, &before, sizeof b);
	}
	assert_int_equal(n, 5);
	cohort_batch_release(&b);
	mem_fail_after(0);
	b = before;
	assert_int_equal(cohort_batch_from_tokens(&b, tokens, 40, &err), COHORT_E_MEMORY);
	mem_fail_after(-1);
	assert_memory_equal(&b, &before, sizeof b);
	assert_int_equal(cohort_batch_from_tokens(&b, tokens, 40, &err), COHORT_OK);
	for (n = 0;; n++) {
		mem_fail_after(n);
		enum cohort_status st = batch_check(&c, &b, &limits, NULL, &err);
		mem_fail_after(-1);
		if (!st)
			break;
		assert_int_equal(st, COHORT_E_MEMORY);
		assert_int_equal(c.n_rows, 0);
		batch_checked_release(&c);
	}
	assert_int_equal(n, 2); /* rows and notes */
	cohort_batch_release(&b);
	batch_checked_release(&c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(arguments),
		cmocka_unit_test(full),
		cmocka_unit_test(moves),
		cmocka_unit_test(no_heap_up_to_32),
		cmocka_unit_test(fills),
		cmocka_unit_test(given_rows),
		cmocka_unit_test(refuse_sizes),
		cmocka_unit_test(refuse_tokens),
		cmocka_unit_test(refuse_ids),
		cmocka_unit_test(refuse_sets),
		cmocka_unit_test(refuse_positions),
		cmocka_unit_test(epochs),
		cmocka_unit_test(splits),
		cmocka_unit_test(allocation_failures),
	};

	return cmocka_run_group_tests_name("batch", tests, NULL, NULL);
}
