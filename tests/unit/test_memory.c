/* A context's memory as a whole: a mock model computes rows through it, ubatch by ubatch and layer by layer.
 *
 * The first layer sees all cells of a sequence, the second those of a window, the third is recurrent. A row's value is
 * a number made of all it may see, so that a cell too many, too few or a wrong one changes every later value. Beside it
 * stand lists of what each sequence has seen, and a twin that is spared the decodes that fail.
 *
 * Faults planted to see them turn red: a window that releases one block too early, a slot written that a sequence which
 * left the block still holds (failures_leave_no_trace); a committed state written in place, states not rolled back
 * (failures_leave_no_trace_with_states); a reservation not undone in the other parts, the first refusal taken for the
 * last (no_room_in_one_part); a part not asked before the others change (all_parts_or_none); a dry copy that makes no
 * room for the moves (memory_init_out_of_memory_at_every_point). */
#include "memory_mock.h"

static void play(size_t n_states, size_t n_ops, bool fault)
{
	struct mock *a = mock_open(n_states), *twin = mock_open(n_states);
	struct counts n = {0};
	size_t n_gaps = 0, n_released = 0, i;
	struct dice r;

	dice_init(&r, 3 + n_states, 0);
	a->skip_extra = fault;
	for (i = 0; i < n_ops && play_one(a, twin, &r, i % 4 == 0, fault, &n); i++)
		for (cohort_seq s = 0; s < SEQS && !fault; s++) {
			n_gaps += kv_has_gaps(a->m.kv[0], s);
			n_released += kv_pos_first(a->m.kv[1], s) > kv_pos_min(a->m.kv[1], s);
		}
	assert_true(fault == (i < n_ops));
	if (!fault) {
		assert_true(memory_consistent(&a->m));
		assert_true(n.n_done > n_ops / 4 && n.n_no_room > n_ops / 500 && n_released > n_ops / 4);
		assert_true(n_states || n_gaps > n_ops / 10);
	}
	mock_free(a);
	mock_free(twin);
}

static void failures_leave_no_trace(void **state)
{
	(void)state;
	play(0, 20000, false);
}

static void failures_leave_no_trace_with_states(void **state)
{
	(void)state;
	play(STATES, 20000, false);
}

/* The comparison sees what it is there for. */
static void planted_fault(void **state)
{
	(void)state;
	play(0, 2000, true);
}

/* ---- Fixed cases ---- */

static const cohort_seq ids[] = {0, 1, 2, 3, 4};

static struct kv_row row(cohort_pos pos, cohort_seq seq)
{
	return (struct kv_row){pos, 1, ids + seq};
}

/* Parts that differ in what they have room for. */
static void init_parts(struct memory *m, size_t n_full, size_t n_window, size_t n_states)
{
	*m = (struct memory){.n_kv = 2};
	m->kv[0] = kv_open(&(struct kv_limits){n_full, SIZE, SEQS, POS, ROWS, 0});
	m->kv[1] = kv_open(&(struct kv_limits){n_window, SIZE, SEQS, POS, ROWS, WINDOW});
	m->recur = recur_open(&(struct recur_limits){n_states, SEQS, ROWS, 0, POS});
	assert_true(m->kv[0] && m->kv[1] && m->recur);
}

static void no_room_in_one_part(void **state)
{
	const struct kv_row rows[] = {row(0, 0), row(0, 1), row(0, 2), row(0, 3), row(0, 4)};
	/* The part that has least room says how many rows fit, wherever it stands. */
	const struct { size_t n[3], fit; } cases[] = {
		{{9, 9, 3}, 3}, {{9, 2, 9}, 2}, {{1, 9, 9}, 1}, {{4, 3, 2}, 2}, {{2, 3, 4}, 2}, {{3, 0, 1}, 0},
	};
	struct memory_plan plan;
	struct memory m;
	(void)state;

	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct cohort_err err = {0};
		init_parts(&m, cases[i].n[0], cases[i].n[1], cases[i].n[2]);
		const uint64_t before = memory_hash(&m);
		memory_begin(&m);
		assert_int_equal(memory_reserve(&m, rows, 5, &plan, &err), COHORT_NO_ROOM);
		assert_string_equal(err.rule, "kv-room");
		assert_int_equal(err.expected, cases[i].fit);
		assert_int_equal(err.row, cases[i].fit);
		assert_int_equal(err.seq, cases[i].fit);
		assert_int_equal(memory_reserve(&m, rows, 5, &plan, NULL), COHORT_NO_ROOM);
		assert_true(memory_hash(&m) == before);
		assert_int_equal(memory_reserve(&m, rows, cases[i].fit, &plan, &err), COHORT_OK);
		/* A later one that fails leaves the first. */
		const uint64_t middle = memory_hash(&m);
		assert_int_equal(memory_reserve(&m, rows + cases[i].fit, 1, &plan, &err), COHORT_NO_ROOM);
		assert_int_equal(err.expected, 0);
		assert_true(memory_hash(&m) == middle);
		memory_rollback(&m);
		assert_true(memory_hash(&m) == before);
		memory_release(&m);
	}
}

/* Another refusal than for want of room stops at the part that speaks it. */
static void other_refusals(void **state)
{
	const struct kv_row rows[] = {row(0, 0), row(POS, 1)};
	struct cohort_err err = {0};
	struct memory_plan plan;
	struct memory m;
	(void)state;

	init_parts(&m, 9, 9, 9);
	const uint64_t before = memory_hash(&m);
	assert_int_equal(memory_reserve(&m, rows, 1, &plan, &err), COHORT_E_BUG);
	memory_begin(&m);
	assert_int_equal(memory_reserve(&m, rows, 2, &plan, &err), COHORT_E_LIMIT);
	assert_string_equal(err.rule, "pos-limit");
	assert_true(memory_hash(&m) == before);
	memory_rollback(&m);
	memory_release(&m);
}

static void append(struct memory *m, cohort_seq seq, size_t n)
{
	struct memory_plan plan;

	for (size_t i = 0; i < n; i++) {
		const struct kv_row next = row(memory_pos_max(m, seq) + 1, seq);
		memory_begin(m);
		assert_int_equal(memory_reserve(m, &next, 1, &plan, NULL), COHORT_OK);
		memory_commit(m);
	}
}

/* Any part has something: what a window released counts, and a state is that of all its positions. */
static void held_by_any_part(void **state)
{
	struct memory m;
	(void)state;

	init_parts(&m, 9, 9, 9);
	assert_false(memory_holds(&m, 0, 0, -1));
	append(&m, 0, 2 * WINDOW);
	assert_true(memory_holds(&m, 0, 0, -1) && memory_holds(&m, 0, 0, 1) && memory_holds(&m, 0, 2 * WINDOW - 1, -1));
	assert_false(memory_holds(&m, 0, 2 * WINDOW, -1) || memory_holds(&m, 0, 1, 1) || memory_holds(&m, 1, 0, -1));
	/* Without states there may be gaps. */
	recur_free(m.recur);
	m.recur = NULL;
	assert_int_equal(memory_seq_rm(&m, 0, 2 * WINDOW - 3, 2 * WINDOW - 1, NULL), COHORT_OK);
	assert_false(memory_holds(&m, 0, 2 * WINDOW - 3, 2 * WINDOW - 1));
	assert_true(memory_holds(&m, 0, 2 * WINDOW - 3, -1));
	memory_release(&m);
}

static void all_parts_or_none(void **state)
{
	struct kv_moves moves[MEMORY_KV_MAX];
	struct cohort_err err = {0};
	struct kv_usage u;
	struct memory m;
	(void)state;

	init_parts(&m, 9, 9, 9);
	append(&m, 0, 20);
	append(&m, 1, 3);
	const uint64_t before = memory_hash(&m);
	/* Refused by the window, by the states, by all. */
	assert_int_equal(memory_seq_rm(&m, 0, 10, -1, &err), COHORT_E_ARG);
	assert_string_equal(err.rule, "window-gone");
	assert_int_equal(memory_seq_rm(&m, 0, 19, -1, &err), COHORT_E_ARG);
	assert_string_equal(err.rule, "checkpoint");
	assert_int_equal(memory_seq_cp(&m, 0, 2, 0, 19, moves, &err), COHORT_E_ARG);
	assert_string_equal(err.rule, "checkpoint");
	assert_int_equal(memory_seq_cp(&m, 0, 1, 3, -1, moves, &err), COHORT_E_ARG);
	assert_string_equal(err.rule, "cp-occupied");
	assert_int_equal(memory_seq_add(&m, 0, 19, -1, 1, moves, &err), COHORT_E_ARG);
	assert_string_equal(err.rule, "checkpoint");
	assert_int_equal(memory_seq_add(&m, 0, 0, -1, -1, moves, &err), COHORT_E_ARG);
	assert_string_equal(err.rule, "pos-negative");
	assert_int_equal(memory_seq_rm(&m, SEQS, 0, -1, &err), COHORT_E_ARG);
	assert_string_equal(err.rule, "seq-id");
	assert_int_equal(memory_seq_keep(&m, SEQS, &err), COHORT_E_ARG);
	assert_string_equal(err.rule, "seq-id");
	assert_true(memory_hash(&m) == before);
	/* Done to all. */
	assert_int_equal(memory_seq_cp(&m, 0, 2, 0, -1, moves, &err), COHORT_OK);
	assert_int_equal(moves[0].n_moves + moves[1].n_moves, 0);
	assert_true(memory_same(&m, 0, 2));
	assert_false(memory_same(&m, 0, 1));
	assert_int_equal(memory_n_live(&m), 3);
	memory_usage_get(&m, &u);
	assert_int_equal(u.n_blocks, 27);
	assert_int_equal(u.n_used, 5 + 1 + 2 + 1 + 2);
	assert_int_equal(u.n_shared, 5 + 2 + 1);
	assert_int_equal(memory_seq_add(&m, 1, 0, -1, 5, moves, &err), COHORT_OK);
	assert_int_equal(memory_pos_min(&m, 1), 5);
	assert_int_equal(memory_seq_rm(&m, 2, 0, -1, &err), COHORT_OK);
	assert_int_equal(memory_seq_keep(&m, 1, &err), COHORT_OK);
	assert_int_equal(memory_n_live(&m), 1);
	assert_int_equal(memory_pos_max(&m, 0), -1);
	assert_true(memory_consistent(&m));
	memory_clear(&m);
	assert_int_equal(memory_n_live(&m), 0);
	/* A part that is out of order shows. */
	append(&m, 0, 1);
	append(&m, 1, 1);
	assert_int_equal(kv_seq_rm(m.kv[1], 1, 0, -1, false, NULL), COHORT_OK);
	assert_int_equal(kv_seq_cp(m.kv[1], 0, 1, 0, -1, false, moves, NULL), COHORT_OK);
	assert_false(memory_same(&m, 0, 1));
	assert_int_equal(kv_seq_rm(m.kv[0], 1, 0, -1, false, NULL), COHORT_OK);
	assert_int_equal(kv_seq_cp(m.kv[0], 0, 1, 0, -1, false, moves, NULL), COHORT_OK);
	assert_false(memory_same(&m, 0, 1));
	m.recur->p.n_free--;
	assert_false(memory_consistent(&m));
	m.recur->p.n_free++;
	m.kv[0]->p.n_free--;
	assert_false(memory_consistent(&m));
	m.kv[0]->p.n_free++;
	assert_true(memory_consistent(&m));
	memory_release(&m);
}

/* Purely recurrent, without any recurrent part, and nothing at all. */
static void other_shapes(void **state)
{
	struct memory_limits lim = limits(4);
	struct memory m;
	struct kv_usage u;
	struct cohort_err err = {0};
	struct kv_moves moves[MEMORY_KV_MAX];
	(void)state;

	for (int shape = 0; shape < 2; shape++) {
		lim.n_kv = shape ? MEMORY_KV_MAX : 0;
		lim.n_states = shape ? 0 : 4;
		assert_true(memory_init(&m, &lim));
		append(&m, 1, 2);
		assert_int_equal(memory_pos_min(&m, 1), 0);
		assert_int_equal(memory_pos_max(&m, 1), 1);
		assert_int_equal(memory_n_live(&m), 1);
		assert_int_equal(memory_seq_cp(&m, 1, 0, 0, -1, moves, &err), COHORT_OK);
		assert_true(memory_same(&m, 0, 1));
		assert_int_equal(memory_seq_add(&m, 1, 0, -1, 1, moves, &err), COHORT_OK);
		assert_int_equal(memory_seq_rm(&m, 0, 0, -1, &err), COHORT_OK);
		assert_int_equal(memory_seq_keep(&m, 0, &err), COHORT_OK);
		memory_usage_get(&m, &u);
		assert_int_equal(u.n_used, 0);
		assert_int_equal(u.n_blocks, shape ? 4 * BLOCKS : 4);
		const uint64_t before = memory_hash(&m);
		memory_begin(&m);
		memory_rollback(&m);
		assert_true(memory_hash(&m) == before && memory_consistent(&m));
		memory_clear(&m);
		memory_release(&m);
	}
	lim.n_kv = lim.n_states = 0;
	assert_true(memory_init(&m, &lim));
	assert_int_equal(memory_pos_min(&m, 0), -1);
	assert_int_equal(memory_pos_max(&m, 0), -1);
	assert_int_equal(memory_n_live(&m), 0);
	assert_true(memory_same(&m, 0, 1) && memory_consistent(&m));
	memory_release(&m);
	memory_release(&m);
	memory_release(NULL);
	lim.n_kv = MEMORY_KV_MAX + 1;
	assert_false(memory_init(&m, &lim));
	memory_release(&m);
}

/* One call, with what it needs prepared. */
static enum cohort_status call(struct memory *m, int which, struct cohort_err *err)
{
	struct kv_moves moves[MEMORY_KV_MAX];
	struct kv_row rows[30];
	struct memory_plan plan;

	for (size_t i = 0; i < 30; i++)
		rows[i] = row((cohort_pos)(i / 2), (cohort_seq)(2 + i % 2));
	switch (which) {
	case 0: return memory_reserve(m, rows, 30, &plan, err);
	case 1: return memory_seq_cp(m, 0, 1, 6, -1, moves, err);
	case 2: return memory_seq_add(m, 0, 0, -1, 1, moves, err);
	case 3: return memory_seq_rm(m, 0, 0, -1, err);
	default: return memory_seq_keep(m, 0, err);
	}
}

static void memory_init_out_of_memory_at_every_point(void **state)
{
	struct memory m;
	int64_t n;
	(void)state;

	for (n = 0;; n++) {
		const struct memory_limits lim = limits(STATES);
		mem_fail_after(n);
		const bool ok = memory_init(&m, &lim);
		mem_fail_after(-1);
		memory_release(&m);
		if (ok)
			break;
	}
	assert_true(n > 30);
	for (int which = 0; which < 5; which++)
		for (n = 0;; n++) {
			const struct memory_limits lim = limits(which == 1 ? 0 : STATES);
			struct cohort_err err = {0};
			assert_true(memory_init(&m, &lim));
			append(&m, 0, 12);
			append(&m, 1, 6);
			if (which == 0)
				memory_begin(&m);
			const uint64_t before = memory_hash(&m);
			mem_fail_after(n);
			enum cohort_status st = call(&m, which, &err);
			mem_fail_after(-1);
			if (st) {
				assert_int_equal(st, COHORT_E_MEMORY);
				assert_int_equal(err.status, COHORT_E_MEMORY);
				assert_true(memory_hash(&m) == before);
			}
			memory_rollback(&m);
			assert_true(memory_consistent(&m));
			for (size_t i = 0; i < 2 && !st; i++) { /* what was done was done to both */
				assert_true(which != 1 || kv_pos_max(m.kv[i], 1) == 11);
				assert_true(which != 2 || kv_pos_max(m.kv[i], 0) == 12);
			}
			memory_release(&m);
			if (!st)
				break;
			assert_true(which < 3); /* the others need nothing */
		}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(failures_leave_no_trace),
		cmocka_unit_test(failures_leave_no_trace_with_states),
		cmocka_unit_test(planted_fault),
		cmocka_unit_test(no_room_in_one_part),
		cmocka_unit_test(other_refusals),
		cmocka_unit_test(held_by_any_part),
		cmocka_unit_test(all_parts_or_none),
		cmocka_unit_test(other_shapes),
		cmocka_unit_test(memory_init_out_of_memory_at_every_point),
	};

	return cmocka_run_group_tests_name("memory", tests, NULL, NULL);
}
