/* The books of recurrent memory: fixed cases, and random ones against chains of tokens.
 *
 * Faults planted to see them turn red: a set that parted writes the common state
 * (sets_that_part_write_their_own_state, recur_random_operations); a committed state is written
 * (a_set_writes_its_own); the common state is never given back (recur_random_operations); later checkpoints stay, the
 * newest goes instead of the oldest (recur_checkpoints_are_kept); states are given back in the order in which they
 * were taken (sets_that_part_write_their_own_state, recur_reserve_names_the_row_without_room); a position taken for
 * the sequence in what a refusal says, a beginning that is told as the end (recur_refusals_name_the_checkpoint). A
 * limit of positions that was that of their type, and not the context's, was a fault of the library
 * (recur_positions_are_shifted). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/rng.h"
#include "kv/recur_impl.h"

enum { POS = 1000 };

static const cohort_seq ids[] = {0, 1, 2, 3, 4, 5, 6, 7};

static struct kv_row row(cohort_pos pos, cohort_seq from, int32_t n)
{
	return (struct kv_row){pos, n, ids + from};
}

static struct recur *open_recur(size_t n_states, size_t n_seq, size_t n_checks)
{
	struct recur *r = recur_open(&(struct recur_limits){n_states, n_seq, 1, n_checks, POS});

	assert_non_null(r);
	return r;
}

static size_t used(const struct recur *r)
{
	struct kv_usage u;

	u = places_usage(recur_places(r));
	return u.n_used;
}

static size_t shared(const struct recur *r)
{
	struct kv_usage u;

	u = places_usage(recur_places(r));
	return u.n_shared;
}

static void append(struct recur *r, cohort_seq seq, size_t n)
{
	const struct recur_step *steps;

	recur_begin(r);
	for (size_t i = 0; i < n; i++) {
		const struct kv_row next = {recur_pos_max(r, seq) + 1, 1, &seq};
		assert_int_equal(recur_reserve(r, &next, 1, &steps, NULL), COHORT_OK);
	}
	recur_commit(r);
	assert_true(recur_consistent(r));
}

/* The first row of a set writes a new state, the others that one, also in later reservations; what was there before is
 * given back at the end. */
static void a_set_writes_its_own(void **state)
{
	const struct kv_row rows[] = {row(0, 0, 1), row(1, 0, 1)}, more[] = {row(2, 0, 1)}, next[] = {row(3, 0, 1)};
	const struct recur_step *steps;
	(void)state;

	struct recur *r = open_recur(2, 8, 0);
	uint64_t before = recur_hash(r);
	for (int keep = 0; keep < 2; keep++) {
		recur_begin(r);
		assert_int_equal(recur_reserve(r, rows, 2, &steps, NULL), COHORT_OK);
		assert_int_equal(steps[0].from, -1);
		const int32_t s = steps[0].to;
		assert_int_equal(steps[1].from, s);
		assert_int_equal(steps[1].to, s);
		assert_int_equal(recur_reserve(r, more, 1, &steps, NULL), COHORT_OK);
		assert_int_equal(steps[0].from, s);
		assert_int_equal(steps[0].to, s);
		assert_int_equal(recur_state(r, 0), s);
		assert_int_equal(recur_pos_max(r, 0), 2);
		if (keep)
			recur_commit(r);
		else
			recur_rollback(r);
		assert_true((recur_hash(r) == before) == !keep);
		assert_true(recur_consistent(r));
	}
	const int32_t s = recur_state(r, 0);
	before = recur_hash(r);
	recur_begin(r);
	assert_int_equal(recur_reserve(r, next, 1, &steps, NULL), COHORT_OK);
	assert_int_equal(steps[0].from, s);
	assert_int_not_equal(steps[0].to, s);
	assert_int_equal(used(r), 2);
	recur_rollback(r);
	assert_true(recur_hash(r) == before);
	append(r, 0, 1);
	assert_int_equal(used(r), 1);
	assert_int_not_equal(recur_state(r, 0), s);
	assert_int_equal(recur_pos_min(r, 0), 0);
	recur_free(r);
}

/* Sets that part read the common state and write their own, the last one as well: who is computed first must not
 * matter. */
static void sets_that_part_write_their_own_state(void **state)
{
	const struct kv_row rows[] = {
		row(0, 0, 3), row(1, 0, 3), row(2, 0, 1), row(2, 1, 1), row(2, 2, 1), row(3, 1, 1),
	};
	const struct recur_step *steps;
	(void)state;

	struct recur *r = open_recur(4, 8, 0);
	uint64_t before = recur_hash(r);
	for (int keep = 0; keep < 2; keep++) {
		recur_begin(r);
		assert_int_equal(recur_reserve(r, rows, 2, &steps, NULL), COHORT_OK);
		const int32_t common = steps[0].to;
		assert_true(recur_same(r, 0, 2));
		assert_int_equal(recur_reserve(r, rows + 2, 4, &steps, NULL), COHORT_OK);
		for (int i = 0; i < 3; i++) {
			assert_int_equal(steps[i].from, common);
			assert_int_not_equal(steps[i].to, common);
		}
		assert_int_equal(steps[3].from, steps[1].to);
		assert_int_equal(steps[3].to, steps[1].to);
		assert_int_equal(used(r), 4);
		assert_false(recur_same(r, 0, 2));
		if (keep)
			recur_commit(r);
		else
			recur_rollback(r);
		assert_true((recur_hash(r) == before) == !keep);
		assert_true(recur_consistent(r));
	}
	assert_int_equal(used(r), 3); /* nobody has the common one any more */
	assert_int_equal(recur_places(r)->n_live, 3);
	recur_free(r);
}

static void recur_reserve_names_the_row_without_room(void **state)
{
	const struct kv_row rows[] = {row(1, 0, 1), row(0, 1, 1), row(0, 2, 1)};
	const struct recur_step *steps;
	struct cohort_err err = {0};
	(void)state;

	struct recur *r = open_recur(3, 8, 2);
	append(r, 0, 1);
	uint64_t before = recur_hash(r);
	assert_int_equal(recur_reserve(r, rows, 1, &steps, &err), COHORT_E_BUG);
	recur_begin(r);
	assert_int_equal(recur_reserve(r, rows, 3, &steps, &err), COHORT_NO_ROOM);
	assert_string_equal(err.rule, "kv-room");
	assert_int_equal(err.row, 2);
	assert_int_equal(err.expected, 2);
	assert_int_equal(err.seq, 2);
	assert_true(recur_hash(r) == before);
	/* A failed reservation leaves the ones before it. */
	assert_int_equal(recur_reserve(r, rows, 2, &steps, &err), COHORT_OK);
	uint64_t middle = recur_hash(r);
	assert_int_equal(recur_reserve(r, rows + 2, 1, &steps, &err), COHORT_NO_ROOM);
	assert_true(recur_hash(r) == middle);
	recur_unreserve(r);
	recur_rollback(r);
	assert_true(recur_hash(r) == before);
	assert_true(recur_consistent(r));
	recur_free(r);
}

static void recur_checkpoints_are_kept(void **state)
{
	struct cohort_err err = {0};
	(void)state;

	struct recur *r = open_recur(8, 8, 2);
	assert_int_equal(recur_checkpoint(r, 0, &err), COHORT_OK); /* of nothing */
	append(r, 0, 3);
	const int32_t at2 = recur_state(r, 0);
	assert_int_equal(recur_checkpoint(r, 0, &err), COHORT_OK);
	assert_int_equal(recur_checkpoint(r, 0, &err), COHORT_OK); /* it is there already */
	assert_int_equal(used(r), 1);
	assert_int_equal(shared(r), 1);
	append(r, 0, 2);
	assert_int_equal(used(r), 2);
	assert_int_equal(recur_checkpoint(r, 0, &err), COHORT_OK); /* after 4 */
	const int32_t at4 = recur_state(r, 0);
	append(r, 0, 2);
	assert_int_equal(used(r), 3);
	/* A tail, with a checkpoint at its beginning; others not. */
	uint64_t before = recur_hash(r);
	const cohort_pos bad[][2] = {{4, -1}, {6, -1}, {0, 3}, {5, 6}, {3, 5}};
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
		for (int dry = 0; dry < 2; dry++) {
			assert_int_equal(recur_seq_rm(r, 0, bad[i][0], bad[i][1], dry, &err), COHORT_E_ARG);
			assert_string_equal(err.rule, "checkpoint");
		}
	assert_int_equal(recur_seq_rm(r, 0, 5, -1, true, &err), COHORT_OK);
	assert_int_equal(recur_seq_rm(r, 0, 7, -1, false, &err), COHORT_OK);
	assert_int_equal(recur_seq_rm(r, 0, 4, 4, false, &err), COHORT_OK);
	assert_int_equal(recur_seq_rm(r, 1, 0, -1, false, &err), COHORT_OK);
	assert_true(recur_hash(r) == before);
	assert_int_equal(recur_seq_rm(r, 0, 5, 100, false, &err), COHORT_OK);
	assert_int_equal(recur_pos_max(r, 0), 4);
	assert_int_equal(recur_state(r, 0), at4);
	assert_int_equal(used(r), 2);
	append(r, 0, 1);
	/* Going further back, the later checkpoint goes. */
	assert_int_equal(recur_seq_rm(r, 0, 3, -1, false, &err), COHORT_OK);
	assert_int_equal(recur_state(r, 0), at2);
	assert_int_equal(used(r), 1);
	assert_true(recur_consistent(r));
	/* The oldest goes when there are too many. */
	for (int i = 0; i < 3; i++) {
		append(r, 0, 1);
		assert_int_equal(recur_checkpoint(r, 0, &err), COHORT_OK);
	}
	assert_int_equal(used(r), 2);
	assert_int_equal(recur_seq_rm(r, 0, 3, -1, true, &err), COHORT_E_ARG);
	assert_int_equal(recur_seq_rm(r, 0, 5, -1, true, &err), COHORT_OK);
	assert_true(recur_consistent(r));
	assert_int_equal(recur_seq_rm(r, 0, 0, -1, false, &err), COHORT_OK);
	assert_int_equal(used(r), 0);
	assert_true(recur_consistent(r));
	recur_free(r);
	/* None are kept. */
	r = open_recur(2, 2, 0);
	append(r, 1, 1);
	assert_int_equal(recur_checkpoint(r, 1, &err), COHORT_E_ARG);
	assert_string_equal(err.rule, "checkpoint");
	recur_free(r);
}

static void recur_copies_share_states(void **state)
{
	struct cohort_err err = {0};
	(void)state;

	struct recur *r = open_recur(8, 8, 2);
	append(r, 0, 3);
	recur_checkpoint(r, 0, NULL);
	append(r, 0, 3);
	uint64_t before = recur_hash(r);
	assert_int_equal(recur_seq_cp(r, 0, 1, 0, -1, true, &err), COHORT_OK);
	assert_int_equal(recur_seq_cp(r, 0, 0, 0, -1, false, &err), COHORT_OK);
	assert_int_equal(recur_seq_cp(r, 0, 1, 6, -1, false, &err), COHORT_OK);
	assert_int_equal(recur_seq_cp(r, 3, 1, 0, -1, false, &err), COHORT_OK);
	assert_int_equal(recur_seq_cp(r, 0, 1, 1, -1, false, &err), COHORT_E_ARG);
	assert_string_equal(err.rule, "checkpoint");
	assert_int_equal(recur_seq_cp(r, 0, 1, 0, 5, false, &err), COHORT_E_ARG);
	assert_string_equal(err.rule, "checkpoint");
	assert_true(recur_hash(r) == before);
	/* The whole, with its checkpoints; or up to one. */
	assert_int_equal(recur_seq_cp(r, 0, 1, 0, -1, false, &err), COHORT_OK);
	assert_true(recur_same(r, 0, 1));
	assert_int_equal(used(r), 2);
	assert_int_equal(shared(r), 2);
	assert_int_equal(recur_seq_cp(r, 0, 2, 0, 3, false, &err), COHORT_OK);
	assert_int_equal(recur_pos_max(r, 2), 2);
	assert_int_equal(recur_seq_rm(r, 1, 3, -1, false, &err), COHORT_OK);
	assert_true(recur_same(r, 1, 2));
	assert_true(recur_consistent(r));
	assert_int_equal(recur_seq_cp(r, 0, 2, 0, -1, false, &err), COHORT_E_ARG);
	assert_string_equal(err.rule, "cp-occupied");
	assert_int_equal(err.seq, 2);
	/* Each goes its own way. */
	append(r, 1, 1);
	append(r, 2, 1);
	assert_false(recur_same(r, 1, 2));
	assert_int_equal(used(r), 4);
	assert_int_equal(recur_seq_keep(r, 2, &err), COHORT_OK);
	assert_int_equal(used(r), 2);
	assert_true(recur_consistent(r));
	recur_clear(r);
	assert_int_equal(used(r), 0);
	assert_true(recur_consistent(r));
	recur_free(r);
}

static void recur_positions_are_shifted(void **state)
{
	struct cohort_err err = {0};
	(void)state;

	struct recur *r = open_recur(4, 8, 2);
	append(r, 0, 2);
	recur_checkpoint(r, 0, NULL);
	append(r, 0, 2);
	const int32_t s = recur_state(r, 0);
	assert_int_equal(recur_seq_add(r, 0, 0, -1, 5, false, &err), COHORT_OK);
	assert_int_equal(recur_pos_min(r, 0), 5);
	assert_int_equal(recur_pos_max(r, 0), 8);
	assert_int_equal(recur_state(r, 0), s);
	uint64_t before = recur_hash(r);
	assert_true(recur_holds(r, 0, 0, -1) && recur_holds(r, 0, 8, 100) && recur_holds(r, 0, 0, 6));
	assert_false(recur_holds(r, 0, 9, -1) || recur_holds(r, 0, 0, 5) || recur_holds(r, 0, 7, 7));
	assert_false(recur_holds(r, 0, -1, 7) || recur_holds(r, 8, 0, -1) || recur_holds(r, 1, 0, -1));
	assert_int_equal(recur_seq_add(r, 0, 0, -1, 1, true, &err), COHORT_OK);
	assert_int_equal(recur_seq_add(r, 0, 0, -1, 0, false, &err), COHORT_OK);
	assert_int_equal(recur_seq_add(r, 0, 9, -1, 1, false, &err), COHORT_OK);
	assert_int_equal(recur_seq_add(r, 0, 6, -1, 1, false, &err), COHORT_E_ARG);
	assert_string_equal(err.rule, "checkpoint");
	assert_int_equal(recur_seq_add(r, 0, 0, 8, 1, false, &err), COHORT_E_ARG);
	assert_int_equal(recur_seq_add(r, 0, 0, -1, -6, false, &err), COHORT_E_ARG);
	assert_string_equal(err.rule, "pos-negative");
	assert_int_equal(err.got, -1);
	assert_int_equal(recur_seq_add(r, 0, 0, -1, INT32_MAX, false, &err), COHORT_E_ARG);
	assert_string_equal(err.rule, "pos-limit");
	assert_int_equal(recur_seq_add(r, 0, 0, -1, POS - 8, false, &err), COHORT_E_ARG);
	assert_string_equal(err.rule, "pos-limit");
	assert_int_equal(err.expected, POS);
	assert_int_equal(err.got, POS);
	assert_int_equal(recur_seq_add(r, 0, 0, -1, POS - 9, true, &err), COHORT_OK);
	assert_true(recur_hash(r) == before);
	assert_int_equal(recur_seq_cp(r, 0, 1, 0, -1, false, &err), COHORT_OK);
	assert_true(recur_same(r, 0, 1));
	assert_int_equal(recur_seq_add(r, 0, 5, 9, -1, false, &err), COHORT_OK);
	assert_false(recur_same(r, 0, 1)); /* the same state at other positions */
	/* The checkpoint moved along. */
	assert_int_equal(recur_seq_rm(r, 0, 6, -1, false, &err), COHORT_OK);
	assert_int_equal(recur_pos_max(r, 0), 5);
	assert_true(recur_consistent(r));
	recur_free(r);
}

/* What a refusal for want of a checkpoint says: all of it, and with positions that are no sequence's number. */
static void recur_refusals_name_the_checkpoint(void **state)
{
	enum { N_SEQ = 3, SEQ = 2, FROM = 100 };
	static const struct {
		char op;
		cohort_pos p0, p1;
		int64_t expected, got;
		const char *range;
	} all[] = {
		{'r', 105, -1, 100, 105, "105 to 119"}, /* a tail: where it begins */
		{'r', 111, 999, 100, 111, "111 to 119"},
		{'r', 112, 119, 120, 119, "112 to 118"}, /* else where it ends */
		{'r', 0, 105, 120, 105, "100 to 104"},
		{'c', 101, -1, 100, 101, "101 to 119"},
		{'c', 100, 111, 120, 111, "100 to 110"},
		{'c', 101, 112, 120, 112, "101 to 111"},
		{'a', 101, -1, 100, 101, "101 to 119"},
		{'a', 0, 119, 120, 119, "100 to 118"},
	};
	const struct recur_check three[] = {{1, 0}, {2, 0}, {3, 0}};
	const struct recur_image_seq saved = {1, 0, 3, 0, three, 3};
	struct cohort_err err;
	(void)state;

	struct recur *r = open_recur(4, N_SEQ, 2);
	append(r, SEQ, 12);
	assert_int_equal(recur_checkpoint(r, SEQ, NULL), COHORT_OK);
	append(r, SEQ, 8);
	assert_int_equal(recur_seq_add(r, SEQ, 0, -1, FROM, false, NULL), COHORT_OK);
	const uint64_t before = recur_hash(r);
	for (size_t i = 0; i < 2 * sizeof all / sizeof *all; i++) {
		const cohort_pos p0 = all[i / 2].p0, p1 = all[i / 2].p1;
		const bool dry = i % 2;
		char want[200];
		snprintf(want, sizeof want,
				"sequence 2 has one state for positions 100 to 119; %s cannot be told apart without a "
				"checkpoint",
				all[i / 2].range);
		err = (struct cohort_err){0};
		switch (all[i / 2].op) {
		case 'r': recur_seq_rm(r, SEQ, p0, p1, dry, &err); break;
		case 'c': recur_seq_cp(r, SEQ, 0, p0, p1, dry, &err); break;
		default: recur_seq_add(r, SEQ, p0, p1, 1, dry, &err); break;
		}
		assert_int_equal(err.status, COHORT_E_ARG);
		assert_string_equal(err.rule, "checkpoint");
		assert_int_equal(err.row, -1);
		assert_int_equal(err.seq, SEQ);
		assert_int_equal(err.expected, all[i / 2].expected);
		assert_int_equal(err.got, all[i / 2].got);
		assert_string_equal(err.text, want);
		assert_true(recur_hash(r) == before);
	}
	/* As many checkpoints as are kept, and one more. */
	const struct recur_image image = {.seqs = &saved, .n_seqs = 1, .n_states = 1};
	assert_int_equal(recur_import(r, &image, true, NULL, &err), COHORT_E_UNSUPPORTED);
	assert_string_equal(err.rule, "checkpoint");
	assert_int_equal(err.seq, 1);
	assert_int_equal(err.expected, 2);
	assert_int_equal(err.got, 3);
	assert_string_equal(err.text, "sequence 1 has 3 checkpoints, and 2 are kept here");
	recur_free(r);
	r = open_recur(2, N_SEQ, 3);
	assert_int_equal(recur_import(r, &image, true, NULL, &err), COHORT_OK);
	recur_free(r);
	r = open_recur(2, N_SEQ, 0);
	append(r, SEQ, 1);
	assert_int_equal(recur_checkpoint(r, SEQ, &err), COHORT_E_ARG);
	assert_string_equal(err.rule, "checkpoint");
	assert_int_equal(err.seq, SEQ);
	assert_int_equal(err.expected, 0);
	assert_int_equal(err.got, 1);
	assert_string_equal(err.text, "no checkpoints are kept");
	recur_free(r);
}

static void recur_calls_refuse_bad_arguments(void **state)
{
	const struct kv_row rows[] = {row(1, 0, 1)};
	const struct recur_step *steps;
	struct cohort_err err = {0};
	(void)state;

	struct recur *r = open_recur(4, 3, 2);
	append(r, 0, 1);
	for (int i = 0; i < 2; i++) {
		const cohort_seq bad = i ? 3 : -1;
		assert_int_equal(recur_seq_rm(r, bad, 0, -1, false, &err), COHORT_E_ARG);
		assert_string_equal(err.rule, "seq-id");
		assert_int_equal(recur_seq_cp(r, bad, 1, 0, -1, false, &err), COHORT_E_ARG);
		assert_int_equal(recur_seq_cp(r, 0, bad, 0, -1, false, &err), COHORT_E_ARG);
		assert_int_equal(recur_seq_add(r, bad, 0, -1, 1, false, &err), COHORT_E_ARG);
		assert_int_equal(recur_seq_keep(r, bad, &err), COHORT_E_ARG);
		assert_int_equal(recur_checkpoint(r, bad, &err), COHORT_E_ARG);
		assert_string_equal(err.rule, "seq-id");
		assert_int_equal(recur_pos_min(r, bad), -1);
		assert_int_equal(recur_pos_max(r, bad), -1);
		assert_int_equal(recur_state(r, bad), -1);
	}
	assert_int_equal(recur_seq_rm(r, 0, -1, -1, false, &err), COHORT_E_ARG);
	assert_string_equal(err.rule, "range");
	assert_int_equal(recur_seq_rm(r, 0, 0, -2, false, &err), COHORT_E_ARG);
	assert_int_equal(err.got, -2);
	/* While a transaction is open nothing else may change; clearing ends it. */
	recur_begin(r);
	assert_int_equal(recur_reserve(r, rows, 1, &steps, &err), COHORT_OK);
	assert_int_equal(recur_seq_rm(r, 0, 0, -1, false, &err), COHORT_E_BUG);
	assert_int_equal(recur_checkpoint(r, 0, &err), COHORT_E_BUG);
	recur_clear(r);
	assert_int_equal(recur_pos_max(r, 0), -1);
	assert_true(recur_consistent(r));
	recur_free(r);
}

static void recur_out_of_memory_at_every_point(void **state)
{
	const struct kv_row rows[20] = {row(0, 0, 8), row(1, 0, 8), row(2, 0, 8)};
	const struct recur_step *steps;
	struct cohort_err err = {0};
	struct recur *r;
	int64_t n = 0;
	(void)state;

	for (;; n++) {
		mem_fail_after(n);
		r = recur_open(&(struct recur_limits){4, 8, 1, 2, POS});
		mem_fail_after(-1);
		if (r)
			break;
	}
	recur_free(r);
	recur_free(NULL);
	assert_int_equal(n, 12);
	assert_null(recur_open(&(struct recur_limits){SIZE_MAX / 2, 8, 1, 2, POS}));
	assert_null(recur_open(&(struct recur_limits){4, SIZE_MAX / 2, 1, 2, POS}));
	assert_null(recur_open(&(struct recur_limits){4, 8, 1, SIZE_MAX / 2, POS}));
	for (n = 0;; n++) {
		enum cohort_status st = COHORT_OK;
		r = recur_open(&(struct recur_limits){4, 8, 1, 2, POS});
		uint64_t before = recur_hash(r);
		recur_begin(r);
		mem_fail_after(n);
		for (size_t i = 0; i < 3 && !st; i++) /* the journal of the third needs more room */
			st = recur_reserve(r, rows + i, 1, &steps, &err);
		mem_fail_after(-1);
		recur_rollback(r);
		assert_true(recur_hash(r) == before);
		assert_true(recur_consistent(r));
		if (!st)
			break;
		assert_int_equal(st, COHORT_E_MEMORY);
		recur_free(r);
	}
	assert_int_equal(n, 1);
	recur_begin(r);
	mem_fail_all(true);
	assert_int_equal(recur_reserve(r, rows, 20, &steps, &err), COHORT_E_MEMORY); /* the steps */
	assert_false(recur_consistent(r));                                          /* says nothing then */
	mem_fail_all(false);
	recur_free(r);
}

/* The books' own check sees what it is there for. */
static void recur_consistent_sees_each_break(void **state)
{
	(void)state;

	struct recur *r = open_recur(6, 4, 2);
	append(r, 0, 2);
	recur_checkpoint(r, 0, NULL);
	append(r, 0, 1);
	recur_checkpoint(r, 0, NULL);
	append(r, 0, 1);
	append(r, 1, 1);
	const uint64_t hash = recur_hash(r);
#define BREAK(place, value) \
	do { \
		const int32_t was = (int32_t)(place); \
		(place) = (value); \
		assert_false(recur_consistent(r)); \
		assert_true(recur_hash(r) != hash); \
		(place) = was; \
		assert_true(recur_consistent(r)); \
	} while (0)
	BREAK(r->p.ref[r->p.free[0]], 0);
	BREAK(r->p.ref[recur_state(r, 0)], 2);
	BREAK(r->p.note[0], 1);
	BREAK(r->p.seqs[0].min, -1);
	BREAK(r->p.seqs[0].min, 4);
	BREAK(r->p.seqs[0].live, 1);
	BREAK(r->p.live[0], 1);
	r->states[3] = 0; /* of an empty sequence */
	assert_false(recur_consistent(r));
	r->states[3] = -1;
	BREAK(r->checks[0].pos, 2);
	BREAK(r->checks[1].pos, 4);
	BREAK(r->checks[1].pos, 0);
	BREAK(r->p.free[0], r->p.free[1]);
#undef BREAK
	r->p.n_free--;
	assert_false(recur_consistent(r));
	r->p.n_free++;
	r->p.n_live--;
	assert_false(recur_consistent(r));
	r->p.n_live++;
	r->p.n_shared++;
	assert_false(recur_consistent(r));
	r->p.n_shared--;
	assert_true(recur_consistent(r));
	recur_free(r);
}

/* ---- Random operations against chains of tokens ---- */

enum { SEQS = 6, STATES = 14, CHECKS = 2, ROWS = 10, LEN = 400 };

struct model {
	struct recur *r;
	uint64_t data[STATES];
	uint64_t chain[SEQS][LEN + 1]; /* the state after so many tokens */
	cohort_pos len[SEQS], begun[SEQS];
	cohort_pos checks[SEQS][CHECKS];
	size_t n_checks[SEQS];
	uint64_t next;
	bool in_place; /* a planted fault: sets that part write into the common state */
};

struct batch {
	struct kv_row rows[ROWS];
	cohort_seq seq[ROWS][SEQS];
	int before[ROWS]; /* the row whose state it goes on from */
	size_t n;
};

static uint32_t below(struct rng *r, size_t n)
{
	return rng_u32(r) % (uint32_t)n;
}

static uint64_t mix(uint64_t h, uint64_t token)
{
	h = (h ^ token) * 0x9e3779b97f4a7c15u;
	return h ^ h >> 29;
}

static void random_batch(struct batch *b, const struct model *m, struct rng *r)
{
	int last[SEQS];
	const size_t n_lead = 1 + below(r, SEQS);

	memset(last, -1, sizeof last);
	b->n = 1 + below(r, ROWS);
	for (size_t i = 0; i < b->n; i++) {
		const size_t lead = below(r, n_lead);
		const uint32_t keep = below(r, 4);
		int32_t n = 0;
		b->seq[i][n++] = (cohort_seq)lead;
		for (size_t s = 0; s < SEQS; s++) {
			if (s == lead || last[s] != last[lead] || keep == 0 || (keep < 3 && below(r, 2)))
				continue;
			if (last[s] < 0 && !recur_same(m->r, (cohort_seq)lead, (cohort_seq)s))
				continue;
			b->seq[i][n++] = (cohort_seq)s;
		}
		b->before[i] = last[lead];
		const cohort_pos pos = last[lead] < 0 ? m->len[lead] : b->rows[last[lead]].pos + 1;
		b->rows[i] = (struct kv_row){pos, n, b->seq[i]};
		for (int32_t k = 0; k < n; k++)
			last[b->seq[i][k]] = (int)i;
	}
}

/* The rows of a reservation, set by set: a set whose rows go on from those of others waits until these are done, and is
 * then done to its end. Which of those that may be next is chance. */
static void compute(struct model *m, const struct batch *b, const struct recur_step *steps, struct rng *r)
{
	int group[ROWS];
	bool done[ROWS] = {false};

	for (size_t i = 0; i < b->n; i++) {
		const int p = b->before[i];
		group[i] = p >= 0 && b->rows[p].n_seq == b->rows[i].n_seq ? group[p] : (int)i;
	}
	for (size_t left = b->n; left > 0;) {
		const size_t first = below(r, b->n);
		if (done[first] || group[first] != (int)first || (b->before[first] >= 0 && !done[b->before[first]]))
			continue;
		/* The parents' other rows have to be done as well. */
		bool ready = true;
		for (size_t i = 0; i < b->n && b->before[first] >= 0; i++)
			ready = ready && (group[i] != group[b->before[first]] || done[i]);
		if (!ready)
			continue;
		for (size_t i = first; i < b->n; i++)
			if (group[i] == (int)first) {
				const struct recur_step s = steps[i];
				const uint64_t from = s.from < 0 ? 0 : m->data[s.from];
				m->data[m->in_place && s.from >= 0 && b->before[i] >= 0 ? s.from : s.to] =
						mix(from, m->next + i);
				if (m->in_place)
					m->data[s.to] = mix(from, m->next + i);
				done[i] = true;
				left--;
			}
	}
}

static bool same(const struct model *m)
{
	for (size_t s = 0; s < SEQS; s++) {
		const int32_t state = recur_state(m->r, (cohort_seq)s);
		if (recur_pos_max(m->r, (cohort_seq)s) != m->len[s] - 1 || (state < 0) != (m->len[s] == 0))
			return false;
		if (state >= 0 && m->data[state] != m->chain[s][m->len[s]])
			return false;
	}
	return true;
}

static void forget(struct model *m, size_t s)
{
	m->len[s] = m->begun[s] = 0;
	m->n_checks[s] = 0;
}

static void random_decode(struct model *m, struct rng *r, size_t *n_no_room)
{
	const bool keep = below(r, 8) > 0;
	uint64_t before = recur_hash(m->r);
	enum cohort_status st = COHORT_OK;

	recur_begin(m->r);
	for (size_t k = 1 + below(r, 3); k > 0 && !st; k--) {
		const struct recur_step *steps;
		struct batch b;
		random_batch(&b, m, r);
		uint64_t middle = recur_hash(m->r);
		st = recur_reserve(m->r, b.rows, b.n, &steps, NULL);
		if (st) {
			assert_int_equal(st, COHORT_NO_ROOM);
			assert_true(recur_hash(m->r) == middle);
			(*n_no_room)++;
			break;
		}
		compute(m, &b, steps, r);
		for (size_t i = 0; i < b.n; i++)
			for (int32_t q = 0; q < b.rows[i].n_seq; q++) {
				const size_t s = (size_t)b.rows[i].seq[q];
				m->chain[s][b.rows[i].pos + 1] = mix(m->chain[s][b.rows[i].pos], m->next + i);
				m->len[s] = b.rows[i].pos + 1;
			}
		m->next += b.n;
	}
	if (keep)
		recur_commit(m->r);
	else
		recur_rollback(m->r);
	assert_true(keep || recur_hash(m->r) == before);
	for (size_t s = 0; s < SEQS; s++) {
		if (keep)
			m->begun[s] = m->len[s];
		m->len[s] = m->begun[s];
		if (m->len[s] > LEN - 4 * ROWS) {
			assert_int_equal(recur_seq_rm(m->r, (cohort_seq)s, 0, -1, false, NULL), COHORT_OK);
			forget(m, s);
		}
	}
	if (st && below(r, 2)) {
		const size_t s = below(r, SEQS);
		assert_int_equal(recur_seq_rm(m->r, (cohort_seq)s, 0, -1, false, NULL), COHORT_OK);
		forget(m, s);
	}
}

static size_t checks_to(const struct model *m, size_t s, cohort_pos len)
{
	for (size_t i = 0; i < m->n_checks[s]; i++)
		if (m->checks[s][i] == len)
			return i + 1;
	return 0;
}

static void random_change(struct model *m, struct rng *r)
{
	const size_t s = below(r, SEQS), d = below(r, SEQS);
	const uint32_t op = below(r, 8);
	cohort_pos p = (cohort_pos)below(r, (size_t)m->len[s] + 1);
	if (m->n_checks[s] && below(r, 4))
		p = m->checks[s][below(r, m->n_checks[s])];
	const bool at = p == 0 || p >= m->len[s] || checks_to(m, s, p);

	if (op < 3) {
		assert_int_equal(recur_checkpoint(m->r, (cohort_seq)s, NULL), COHORT_OK);
		if (m->len[s] == 0 || checks_to(m, s, m->len[s]))
			return;
		if (m->n_checks[s] == CHECKS)
			memmove(m->checks[s], m->checks[s] + 1, --m->n_checks[s] * sizeof **m->checks);
		m->checks[s][m->n_checks[s]++] = m->len[s];
	} else if (op < 5) {
		assert_int_equal(recur_seq_rm(m->r, (cohort_seq)s, p, -1, false, NULL), at ? COHORT_OK : COHORT_E_ARG);
		if (p == 0)
			forget(m, s);
		else if (at && p < m->len[s]) {
			m->n_checks[s] = checks_to(m, s, p);
			m->len[s] = m->begun[s] = p;
		}
	} else if (op < 7) {
		const cohort_pos end = p && p < m->len[s] ? p : m->len[s];
		const bool free = m->len[d] == 0 || s == d || m->len[s] == 0;
		enum cohort_status st = recur_seq_cp(m->r, (cohort_seq)s, (cohort_seq)d, 0, p ? p : -1, false, NULL);
		assert_int_equal(st, free && (at || s == d) ? COHORT_OK : COHORT_E_ARG);
		if (st || s == d || m->len[s] == 0)
			return;
		memcpy(m->chain[d], m->chain[s], sizeof m->chain[s]);
		memcpy(m->checks[d], m->checks[s], sizeof m->checks[s]);
		m->len[d] = m->begun[d] = end;
		m->n_checks[d] = end == m->len[s] ? m->n_checks[s] : checks_to(m, s, end);
	} else if (below(r, 8) == 0) {
		assert_int_equal(recur_seq_keep(m->r, (cohort_seq)s, NULL), COHORT_OK);
		for (size_t i = 0; i < SEQS; i++)
			if (i != s)
				forget(m, i);
	}
}

static size_t play(struct model *m, size_t n_ops, size_t *n_no_room)
{
	struct rng r;

	rng_init(&r, 7, 0);
	for (size_t i = 0; i < n_ops; i++) {
		if (below(&r, 2))
			random_decode(m, &r, n_no_room);
		else
			random_change(m, &r);
		if (!same(m))
			return i;
		assert_true(i % 16 || recur_consistent(m->r));
	}
	return n_ops;
}

static void recur_random_operations(void **state)
{
	static struct model m;
	size_t n_no_room = 0;
	(void)state;

	m = (struct model){.r = open_recur(STATES, SEQS, CHECKS), .next = 1};
	assert_int_equal(play(&m, 100000, &n_no_room), 100000);
	assert_true(n_no_room > 100);
	assert_true(recur_consistent(m.r));
	recur_free(m.r);
	/* The comparison sees what it is there for. */
	m = (struct model){.r = open_recur(STATES, SEQS, CHECKS), .next = 1, .in_place = true};
	assert_true(play(&m, 2000, &n_no_room) < 2000);
	recur_free(m.r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_set_writes_its_own),
		cmocka_unit_test(sets_that_part_write_their_own_state),
		cmocka_unit_test(recur_reserve_names_the_row_without_room),
		cmocka_unit_test(recur_checkpoints_are_kept),
		cmocka_unit_test(recur_copies_share_states),
		cmocka_unit_test(recur_positions_are_shifted),
		cmocka_unit_test(recur_refusals_name_the_checkpoint),
		cmocka_unit_test(recur_calls_refuse_bad_arguments),
		cmocka_unit_test(recur_out_of_memory_at_every_point),
		cmocka_unit_test(recur_consistent_sees_each_break),
		cmocka_unit_test(recur_random_operations),
	};

	return cmocka_run_group_tests_name("recur", tests, NULL, NULL);
}
