/* The KV cache's books: sharing, copies on write, all or nothing, removal, gaps.
 *
 * Faults planted to see them turn red: a block written in place that others hold (copy_on_write, coupled_rows), or
 * whose slot somebody held who left it in the same transaction, such a block never given back (a_left_block_stays); a
 * new block's word not begun afresh (diverging_in_a_batch), not cut when undone (rollback_restores); a failed
 * reservation that undoes the whole transaction, rows of earlier reservations not copied (several_reservations); the
 * live list not mended (keeping_one); shared blocks miscounted (kv_with_65536_sequences); words of a copy's empty
 * blocks left as they were (gaps_are_known); a copy still taken for one after it, or what it is of, was written again,
 * or a block written in place that a set holds as often as it has sequences, but not each of them
 * (rolled_back_forks). */
#include "kv/kv_impl.h"
#include "kv_world.h"

static const cohort_seq ids[] = {0, 1, 2, 3, 4, 5, 6, 7};

/* A row of the first n of the sequences from `from` on. */
static struct kv_row row(cohort_pos pos, cohort_seq from, int32_t n)
{
	return (struct kv_row){pos, n, ids + from};
}

static void forks_share(void **state)
{
	enum { FORKS = 32, PROMPT = 900, SIZE = 32 };
	struct world w;
	struct kv_usage u;
	(void)state;

	world_init(&w, 100, SIZE, FORKS);
	assert_int_equal(world_append(&w, 0, PROMPT, NULL), COHORT_OK);
	assert_int_equal(world_used(&w), 29);
	for (cohort_seq s = 1; s < FORKS; s++)
		assert_int_equal(world_cp(&w, 0, s, NULL), COHORT_OK);
	assert_int_equal(world_used(&w), 29);
	u = places_usage(kv_places(w.kv));
	assert_int_equal(u.n_shared, 29);
	/* One tail each; the last to come keeps the old one. */
	for (cohort_seq s = 0; s < FORKS; s++) {
		assert_true(kv_same(w.kv, s, FORKS - 1));
		assert_int_equal(world_append(&w, s, 1, NULL), COHORT_OK);
		assert_int_equal(w.plan.n_copies, s < FORKS - 1);
		assert_int_equal(w.plan.n_extra, 0);
		if (s < FORKS - 1)
			assert_false(kv_same(w.kv, s, FORKS - 1));
	}
	assert_int_equal(world_used(&w), 28 + FORKS);
	u = places_usage(kv_places(w.kv));
	assert_int_equal(u.n_shared, 28);
	world_check(&w);
	kv_clear(w.kv);
	assert_int_equal(world_used(&w), 0);
	assert_true(kv_consistent(w.kv));
	world_release(&w);
}

/* The same in one batch of all the forks. */
static void forks_share_in_a_batch(void **state)
{
	enum { FORKS = 32 };
	cohort_seq seqs[FORKS];
	struct kv_row rows[FORKS];
	struct world w;
	(void)state;

	world_init(&w, 100, 32, FORKS);
	assert_int_equal(world_append(&w, 0, 900, NULL), COHORT_OK);
	for (cohort_seq s = 0; s < FORKS; s++) {
		seqs[s] = s;
		rows[s] = (struct kv_row){900, 1, &seqs[s]};
		assert_int_equal(world_cp(&w, 0, s, NULL), COHORT_OK);
	}
	world_roll_back(&w, rows, FORKS);
	assert_int_equal(world_decode(&w, rows, FORKS, NULL), COHORT_OK);
	assert_int_equal(w.plan.n_copies, FORKS - 1);
	assert_int_equal(world_used(&w), 28 + FORKS);
	world_check(&w);
	world_release(&w);
}

static void alone_in_place(void **state)
{
	struct world w;
	(void)state;

	world_init(&w, 4, 4, 3);
	for (int i = 0; i < 16; i++) {
		assert_int_equal(world_append(&w, 1, 1, NULL), COHORT_OK);
		assert_int_equal(w.plan.n_copies + w.plan.n_extra, 0);
		assert_int_equal(world_used(&w), i / 4 + 1);
	}
	world_check(&w);
	/* Cut back, it writes over what it has given up. */
	int32_t block = kv_table(w.kv, 1)[2];
	assert_int_equal(world_rm(&w, 1, 9, -1, NULL), COHORT_OK);
	assert_int_equal(world_used(&w), 3);
	assert_int_equal(world_append(&w, 1, 1, NULL), COHORT_OK);
	assert_int_equal(kv_table(w.kv, 1)[2], block);
	assert_int_equal(w.plan.n_copies, 0);
	world_check(&w);
	world_release(&w);
}

static void copy_on_write(void **state)
{
	struct world w;
	(void)state;

	world_init(&w, 8, 4, 3);
	world_append(&w, 0, 6, NULL);
	world_cp(&w, 0, 1, NULL);
	world_append(&w, 1, 1, NULL);
	assert_int_equal(w.plan.n_copies, 1);
	assert_int_equal(kv_table(w.kv, 0)[0], kv_table(w.kv, 1)[0]);
	assert_int_not_equal(kv_table(w.kv, 0)[1], kv_table(w.kv, 1)[1]);
	world_append(&w, 0, 1, NULL); /* alone with the old tail now */
	assert_int_equal(w.plan.n_copies, 0);
	world_check(&w);
	/* A copy that was cut back shares its last block, and must not write into it. */
	world_cp(&w, 0, 2, NULL);
	world_rm(&w, 2, 5, -1, NULL);
	world_append(&w, 2, 1, NULL);
	assert_int_equal(w.plan.n_copies, 1);
	world_check(&w);
	/* At a block's end there is nothing to copy. */
	world_rm(&w, 1, 0, -1, NULL);
	world_rm(&w, 2, 0, -1, NULL);
	world_append(&w, 0, 1, NULL);
	world_cp(&w, 0, 1, NULL);
	world_append(&w, 1, 1, NULL);
	assert_int_equal(w.plan.n_copies, 0);
	world_check(&w);
	world_release(&w);
}

static void coupled_rows(void **state)
{
	const struct kv_row first[] = {row(0, 0, 4), row(1, 0, 4), row(2, 0, 4)}, all[] = {row(3, 0, 4)};
	const struct kv_row pair[] = {row(3, 0, 2), row(4, 0, 2)};
	struct world w;
	(void)state;

	world_init(&w, 8, 4, 8);
	/* One row for four sequences: one block, one store. */
	assert_int_equal(world_decode(&w, first, 3, NULL), COHORT_OK);
	assert_int_equal(w.plan.n_copies + w.plan.n_extra, 0);
	assert_int_equal(world_used(&w), 1);
	assert_true(kv_same(w.kv, 0, 3));
	world_check(&w);
	/* All its holders may write a block in place; two of four need a copy of their own, once. */
	world_roll_back(&w, all, 1);
	assert_int_equal(world_decode(&w, pair, 2, NULL), COHORT_OK);
	assert_int_equal(w.plan.n_copies, 1);
	assert_int_equal(world_used(&w), 3);
	assert_true(kv_same(w.kv, 0, 1));
	assert_true(kv_same(w.kv, 2, 3));
	assert_false(kv_same(w.kv, 1, 2));
	world_check(&w);
	world_release(&w);
}

/* A fork that took a copy, and took back what it wrote there, has the same cells again, and goes on together with the
 * other; not once a cell that was there has been written anew, in the copy or in what it was copied from. */
static void rolled_back_forks(void **state)
{
	const struct kv_row both[] = {row(6, 0, 2), row(7, 0, 2)}, three[] = {row(6, 0, 3)};
	(void)state;

	for (int written = -1; written < 3; written++) {
		struct world w;
		world_init(&w, 12, 4, 4);
		world_append(&w, 0, 6, NULL);
		for (cohort_seq s = 1; s < 4; s++)
			world_cp(&w, 0, s, NULL);
		for (cohort_seq s = 0; s < 2; s++) { /* two copies; 2 and 3 share what they are of */
			world_append(&w, s, 1, NULL);
			assert_int_equal(w.plan.n_copies, 1);
			assert_false(kv_same(w.kv, s, 2));
			world_rm(&w, s, 6, -1, NULL);
			assert_true(kv_same(w.kv, s, 2) && kv_same(w.kv, 2, s));
		}
		assert_true(kv_same(w.kv, 0, 1));
		if (written >= 0) {
			if (written == 2)
				world_rm(&w, 3, 0, -1, NULL); /* so that 2 writes in place */
			world_rm(&w, written, 5, -1, NULL);
			world_append(&w, written, 1, NULL);
			assert_int_equal(w.plan.n_copies, 0);
			assert_int_equal(kv_same(w.kv, 0, 1), written == 2);
			assert_int_equal(kv_same(w.kv, 1, 2), written == 0);
			assert_int_equal(kv_same(w.kv, 2, 0), written == 1);
		}
		world_check(&w);
		if (written < 0 || written == 2) {
			world_roll_back(&w, both, 2);
			assert_int_equal(world_decode(&w, both, 2, NULL), COHORT_OK);
			world_check(&w);
		} else {
			world_append(&w, 1 - written, 1, NULL);
			world_check(&w);
		}
		if (written < 0) {
			world_rm(&w, 0, 6, -1, NULL);
			world_rm(&w, 1, 6, -1, NULL);
			assert_true(kv_same(w.kv, 0, 2));
			assert_int_equal(world_decode(&w, three, 1, NULL), COHORT_OK);
			world_check(&w);
		}
		world_release(&w);
	}
	/* A copy that others hold as well is not written in place for a set that holds another one. */
	struct world w;
	world_init(&w, 12, 4, 4);
	world_append(&w, 0, 6, NULL);
	world_cp(&w, 0, 1, NULL);
	world_append(&w, 0, 1, NULL);
	world_rm(&w, 0, 6, -1, NULL);
	world_cp(&w, 0, 2, NULL);
	assert_true(kv_same(w.kv, 0, 1) && kv_same(w.kv, 0, 2));
	assert_int_equal(world_decode(&w, both, 1, NULL), COHORT_OK);
	world_check(&w);
	assert_int_equal(kv_pos_max(w.kv, 2), 5);
	world_release(&w);
}

static void diverging_in_a_batch(void **state)
{
	const struct kv_row fresh[] = {row(0, 0, 2), row(1, 0, 2), row(2, 0, 1), row(2, 1, 1)};
	const struct kv_row older[] = {row(3, 2, 2), row(4, 2, 2), row(5, 2, 1), row(5, 3, 1)};
	struct world w;
	(void)state;

	world_init(&w, 8, 4, 8);
	/* Cells of the batch itself are not there to be copied: they are stored twice. */
	world_roll_back(&w, fresh, 4);
	assert_int_equal(world_decode(&w, fresh, 4, NULL), COHORT_OK);
	assert_int_equal(w.plan.n_copies, 0);
	assert_int_equal(w.plan.n_extra, 2);
	assert_int_equal(world_used(&w), 2);
	world_check(&w);
	/* Some from before, some from the batch: copied and stored. */
	world_append(&w, 2, 3, NULL);
	world_cp(&w, 2, 3, NULL);
	world_roll_back(&w, older, 4);
	assert_int_equal(world_decode(&w, older, 4, NULL), COHORT_OK);
	assert_int_equal(w.plan.n_extra, 1);
	world_check(&w);
	world_release(&w);
}

/* A set that shrinks twice within a batch: the second block of its own needs the first rows, too. */
static void diverging_twice_in_a_batch(void **state)
{
	const struct kv_row rows[] = {
		row(0, 0, 4), row(1, 0, 2), row(2, 0, 1), row(2, 1, 1), row(1, 2, 1), row(1, 3, 1),
	};
	const struct kv_row more[] = {
		row(5, 4, 4), row(6, 4, 3), row(7, 4, 2), row(8, 4, 1), row(8, 5, 1), row(7, 6, 1),
	};
	struct world w;
	(void)state;

	world_init(&w, 16, 4, 8);
	world_roll_back(&w, rows, 6);
	assert_int_equal(world_decode(&w, rows, 6, NULL), COHORT_OK);
	world_check(&w);
	world_append(&w, 4, 5, NULL);
	for (cohort_seq s = 5; s < 8; s++)
		world_cp(&w, 4, s, NULL);
	world_roll_back(&w, more, 6);
	assert_int_equal(world_decode(&w, more, 6, NULL), COHORT_OK);
	world_check(&w);
	world_release(&w);
}

static void kv_reserve_names_the_row_without_room(void **state)
{
	const struct kv_row rows[] = {row(7, 0, 1), row(0, 2, 1), row(8, 0, 1), row(9, 0, 1)};
	struct cohort_err err = {0};
	struct world w;
	(void)state;

	world_init(&w, 4, 4, 4);
	world_append(&w, 0, 7, NULL);
	world_append(&w, 1, 3, NULL);
	/* Row 0 fits its block, row 1 takes the last, row 2 finds none. */
	assert_int_equal(world_decode(&w, rows, 4, &err), COHORT_NO_ROOM);
	assert_int_equal(err.status, COHORT_NO_ROOM);
	assert_string_equal(err.rule, "kv-room");
	assert_int_equal(err.row, 2);
	assert_int_equal(err.seq, 0);
	assert_non_null(strstr(err.text, "row 2 (sequence 0, position 8)"));
	world_check(&w);
	assert_int_equal(world_decode(&w, rows, 2, &err), COHORT_OK);
	/* Full: even one's own copy is too much, appending in place is not. */
	world_cp(&w, 1, 3, NULL);
	assert_int_equal(world_append(&w, 3, 1, &err), COHORT_NO_ROOM);
	assert_int_equal(err.row, 0);
	assert_int_equal(err.seq, 3);
	assert_int_equal(world_append(&w, 2, 1, &err), COHORT_OK);
	/* Room that becomes free can be used. */
	assert_int_equal(world_rm(&w, 0, 0, -1, &err), COHORT_OK);
	assert_int_equal(world_append(&w, 3, 1, &err), COHORT_OK);
	world_check(&w);
	world_release(&w);
}

/* A sequence that loses its head again and again goes on past the size of the pool, up to the last position. */
static void kv_past_the_size_of_the_pool(void **state)
{
	struct cohort_err err = {0};
	struct world w;
	(void)state;

	world_init(&w, 4, 2, 2);
	world_append(&w, 0, 8, NULL);
	world_rm(&w, 0, 0, 4, NULL);
	assert_int_equal(world_used(&w), 2);
	assert_int_equal(world_append(&w, 0, 4, &err), COHORT_OK);
	world_rm(&w, 0, 0, 10, NULL);
	assert_int_equal(world_append(&w, 0, 6, &err), COHORT_OK);
	world_rm(&w, 0, 0, 16, NULL);
	assert_int_equal(world_append(&w, 0, 6, &err), COHORT_OK);
	world_check(&w);
	assert_int_equal(world_append(&w, 0, 1, &err), COHORT_E_LIMIT);
	assert_string_equal(err.rule, "pos-limit");
	assert_int_equal(err.row, 0);
	world_check(&w);
	world_release(&w);
}

static void rollback_restores(void **state)
{
	const struct kv_row in_place[] = {row(6, 0, 1)}, own_copy[] = {row(3, 1, 1), row(4, 1, 1)};
	const struct kv_row fresh[] = {row(0, 5, 3), row(1, 5, 3)};
	const struct kv_row mixed[] = {
		row(6, 0, 1), row(7, 0, 1), row(8, 0, 1), row(0, 5, 2), row(3, 1, 1), row(1, 5, 1),
		row(1, 6, 1), row(4, 1, 1), row(3, 2, 1),
	};
	struct world w;
	(void)state;

	world_init(&w, 16, 4, 8);
	world_append(&w, 0, 6, NULL);
	world_append(&w, 1, 3, NULL);
	world_cp(&w, 1, 2, NULL);
	/* Holes in the order of the free list. */
	world_append(&w, 3, 9, NULL);
	world_append(&w, 4, 9, NULL);
	world_rm(&w, 3, 0, -1, NULL);
	world_rm(&w, 4, 0, 5, NULL);
	for (int i = 0; i < 3; i++) {
		world_roll_back(&w, in_place, 1);
		world_roll_back(&w, own_copy, 2);
		world_roll_back(&w, fresh, 2);
		for (size_t n = 1; n <= sizeof mixed / sizeof *mixed; n++)
			world_roll_back(&w, mixed, n);
		world_check(&w);
	}
	assert_int_equal(world_decode(&w, mixed, sizeof mixed / sizeof *mixed, NULL), COHORT_OK);
	world_check(&w);
	/* With nothing open there is nothing to undo. */
	uint64_t before = kv_hash(w.kv);
	kv_rollback(w.kv);
	assert_true(kv_hash(w.kv) == before);
	world_release(&w);
}

static void transactions_open_and_end(void **state)
{
	const struct kv_row r[] = {row(0, 0, 1)}, next[] = {row(1, 0, 1)};
	struct kv_moves moves;
	struct kv_plan plan;
	struct world w;
	int32_t id;
	(void)state;

	world_init(&w, 2, 4, 8);
	uint64_t before = kv_hash(w.kv);
	assert_int_equal(kv_reserve(w.kv, r, 1, &plan, NULL), COHORT_E_BUG);
	kv_begin(w.kv);
	assert_int_equal(kv_reserve(w.kv, r, 1, &plan, NULL), COHORT_OK);
	assert_int_equal(kv_pos_max(w.kv, 0), 0); /* as it will be */
	assert_int_equal(kv_reserve(w.kv, next, 1, &plan, NULL), COHORT_OK);
	assert_int_equal(kv_reserve(w.kv, next, 1, &plan, NULL), COHORT_E_BUG); /* once more */
	assert_true(kv_consistent(w.kv));
	/* Meanwhile nothing else may change. */
	assert_int_equal(kv_seq_rm(w.kv, 0, 0, -1, false, NULL), COHORT_E_BUG);
	assert_int_equal(kv_seq_cp(w.kv, 0, 1, 0, -1, false, &moves, NULL), COHORT_E_BUG);
	assert_int_equal(kv_seq_add(w.kv, 0, 0, -1, 1, false, &moves, NULL), COHORT_E_BUG);
	assert_int_equal(kv_seq_keep(w.kv, 1, NULL), COHORT_E_BUG);
	assert_int_equal(kv_import(w.kv, &(struct kv_image){.all = true}, false, &id, NULL), COHORT_E_BUG);
	assert_int_equal(kv_pos_max(w.kv, 0), 1);
	kv_rollback(w.kv);
	assert_true(kv_hash(w.kv) == before);
	assert_int_equal(kv_pos_max(w.kv, 0), -1);
	/* What nobody ended is given up by the next, and by clearing. */
	for (int i = 0; i < 2; i++) {
		kv_begin(w.kv);
		assert_int_equal(kv_reserve(w.kv, r, 1, &plan, NULL), COHORT_OK);
	}
	kv_clear(w.kv);
	assert_true(kv_hash(w.kv) == before);
	assert_int_equal(world_append(&w, 0, 1, NULL), COHORT_OK);
	world_release(&w);
}

/* Reservations of one transaction: a failed one undoes only itself, later ones find the rows of earlier ones
 * computed. */
static void several_reservations(void **state)
{
	const struct kv_row both[] = {row(0, 0, 2), row(1, 0, 2)}, part[] = {row(2, 0, 1), row(2, 1, 1)};
	const struct kv_row large[] = {row(3, 0, 1), row(4, 0, 1), row(3, 1, 1), row(4, 1, 1), row(0, 2, 1)};
	struct cohort_err err = {0};
	struct world w;
	(void)state;

	world_init(&w, 4, 4, 8);
	uint64_t before = kv_hash(w.kv);
	for (int keep = 0; keep < 2; keep++) {
		kv_begin(w.kv);
		assert_int_equal(world_reserve(&w, both, 2, &err), COHORT_OK);
		assert_int_equal(world_reserve(&w, part, 2, &err), COHORT_OK);
		assert_int_equal(w.plan.n_copies, 1); /* the rows of the first are there to be copied */
		assert_int_equal(w.plan.n_extra, 0);
		uint64_t middle = kv_hash(w.kv);
		assert_int_equal(world_reserve(&w, large, 5, &err), COHORT_NO_ROOM);
		assert_int_equal(err.row, 4);
		assert_int_equal(err.expected, 4);
		assert_true(kv_hash(w.kv) == middle);
		assert_int_equal(world_reserve(&w, large, 4, &err), COHORT_OK);
		assert_true(world_same(&w));
		if (keep)
			world_commit(&w);
		else
			world_rollback(&w);
		assert_true((kv_hash(w.kv) == before) == !keep);
		world_check(&w);
	}
	world_release(&w);
}

/* A block that its longer holder left in this transaction is not written by the shorter: rolling back brings it back.
 * Nobody holds it then, until the commit gives it back. */
static void a_left_block_stays(void **state)
{
	const struct kv_row rows[] = {row(3, 0, 1), row(2, 1, 1)};
	struct world w;
	(void)state;

	world_init(&w, 3, 8, 8);
	world_append(&w, 0, 3, NULL);
	world_cp(&w, 0, 1, NULL);
	world_rm(&w, 1, 2, -1, NULL);
	assert_int_equal(world_used(&w), 1);
	world_roll_back(&w, rows, 2);
	world_check(&w);
	kv_begin(w.kv);
	assert_int_equal(world_reserve(&w, rows, 2, NULL), COHORT_OK);
	assert_int_equal(w.plan.n_copies, 2);
	assert_int_equal(world_used(&w), 3);
	assert_true(kv_consistent(w.kv));
	world_commit(&w);
	assert_int_equal(world_used(&w), 2);
	world_check(&w);
	world_release(&w);
}

static void kv_removes_ranges(void **state)
{
	struct cohort_err err = {0};
	struct world w;
	(void)state;

	world_init(&w, 8, 4, 4);
	world_append(&w, 0, 14, NULL);
	world_cp(&w, 0, 1, NULL);
	world_append(&w, 2, 5, NULL);
	/* Tail */
	assert_int_equal(world_rm(&w, 0, 10, -1, &err), COHORT_OK);
	assert_int_equal(kv_pos_max(w.kv, 0), 9);
	assert_int_equal(world_rm(&w, 0, 8, 10, &err), COHORT_OK);
	assert_int_equal(kv_pos_max(w.kv, 0), 7);
	assert_int_equal(world_rm(&w, 0, 6, 1000, &err), COHORT_OK);
	assert_int_equal(kv_pos_max(w.kv, 0), 5);
	world_check(&w);
	assert_int_equal(world_used(&w), 6); /* the copy still holds them all */
	/* Head */
	assert_int_equal(world_rm(&w, 1, 0, 5, &err), COHORT_OK);
	assert_int_equal(kv_pos_min(w.kv, 1), 5);
	assert_int_equal(kv_pos_max(w.kv, 1), 13);
	world_check(&w);
	assert_int_equal(world_append(&w, 1, 3, &err), COHORT_OK);
	world_check(&w);
	/* Nothing: empty ranges, ranges outside, empty sequences */
	uint64_t before = kv_hash(w.kv);
	assert_int_equal(world_rm(&w, 1, 7, 7, &err), COHORT_OK);
	assert_int_equal(world_rm(&w, 1, 9, 7, &err), COHORT_OK);
	assert_int_equal(world_rm(&w, 1, 0, 5, &err), COHORT_OK);
	assert_int_equal(world_rm(&w, 1, 17, -1, &err), COHORT_OK);
	assert_int_equal(world_rm(&w, 3, 0, -1, &err), COHORT_OK);
	assert_true(kv_hash(w.kv) == before);
	/* All */
	assert_int_equal(world_rm(&w, 1, 0, -1, &err), COHORT_OK);
	assert_int_equal(kv_pos_min(w.kv, 1), -1);
	assert_int_equal(kv_pos_max(w.kv, 1), -1);
	assert_int_equal(world_rm(&w, 2, 0, 5, &err), COHORT_OK);
	assert_int_equal(kv_pos_max(w.kv, 2), -1);
	world_check(&w);
	assert_int_equal(world_used(&w), 2);
	assert_int_equal(world_append(&w, 1, 1, &err), COHORT_OK); /* begins anew */
	world_check(&w);
	world_release(&w);
}

static void kv_calls_refuse_bad_arguments(void **state)
{
	struct cohort_err err = {0};
	struct world w;
	(void)state;

	world_init(&w, 4, 4, 3);
	world_append(&w, 0, 3, NULL);
	world_append(&w, 1, 2, NULL);
	assert_int_equal(world_cp(&w, 0, 1, &err), COHORT_E_ARG);
	assert_string_equal(err.rule, "cp-occupied");
	assert_int_equal(err.row, -1);
	assert_int_equal(err.seq, 1);
	assert_int_equal(err.expected, 0);
	assert_int_equal(err.got, 0);
	assert_int_equal(world_cp(&w, 0, 0, &err), COHORT_OK); /* what it is already */
	assert_int_equal(world_cp(&w, 2, 2, &err), COHORT_OK);
	for (int i = 0; i < 2; i++) {
		cohort_seq bad = i ? 3 : -1;
		assert_int_equal(world_cp(&w, bad, 2, &err), COHORT_E_ARG);
		assert_string_equal(err.rule, "seq-id");
		assert_int_equal(err.got, bad);
		assert_int_equal(world_cp(&w, 0, bad, &err), COHORT_E_ARG);
		assert_int_equal(world_rm(&w, bad, 0, -1, &err), COHORT_E_ARG);
		assert_int_equal(err.seq, bad);
		assert_int_equal(kv_pos_min(w.kv, bad), -1);
		assert_int_equal(kv_pos_max(w.kv, bad), -1);
		assert_int_equal(kv_pos_first(w.kv, bad), -1);
		assert_false(kv_has_gaps(w.kv, bad));
		assert_int_equal(world_add(&w, bad, 0, -1, 1, &err), COHORT_E_ARG);
		assert_string_equal(err.rule, "seq-id");
		assert_int_equal(world_keep(&w, bad, &err), COHORT_E_ARG);
		assert_string_equal(err.rule, "seq-id");
	}
	assert_int_equal(world_rm(&w, 0, -1, 2, &err), COHORT_E_ARG);
	assert_string_equal(err.rule, "range");
	assert_int_equal(err.got, -1);
	assert_int_equal(world_rm(&w, 0, 0, -2, &err), COHORT_E_ARG);
	assert_int_equal(err.got, -2);
	assert_int_equal(world_cp_range(&w, 0, 2, 0, -2, &err), COHORT_E_ARG);
	assert_string_equal(err.rule, "range");
	assert_int_equal(world_add(&w, 0, -1, -1, 1, &err), COHORT_E_ARG);
	assert_string_equal(err.rule, "range");
	/* An empty sequence copies to an empty one. */
	assert_int_equal(world_rm(&w, 1, 0, -1, &err), COHORT_OK);
	assert_int_equal(world_cp(&w, 1, 2, &err), COHORT_OK);
	assert_int_equal(kv_pos_max(w.kv, 2), -1);
	world_check(&w);
	world_release(&w);
}

static void kv_out_of_memory_at_every_point(void **state)
{
	const struct kv_row rows[] = {row(0, 0, 2), row(1, 0, 2), row(2, 0, 1), row(2, 1, 1)};
	struct cohort_err err = {0};
	struct world w;
	struct kv *kv;
	int64_t n = 0;
	(void)state;

	for (;; n++) {
		mem_fail_after(n);
		kv = kv_open(&(struct kv_limits){10, 4, 3, 40, 1, 0});
		mem_fail_after(-1);
		if (kv)
			break;
	}
	kv_free(kv);
	kv_free(NULL);
	assert_int_equal(n, 16);
	assert_null(kv_open(&(struct kv_limits){SIZE_MAX / 2, 16, 3, 40, 1, 0}));
	assert_null(kv_open(&(struct kv_limits){10, 16, SIZE_MAX / 2, 40, 1, 0}));
	assert_null(kv_open(&(struct kv_limits){10, 16, 3, SIZE_MAX / 2, 1, 0}));
	assert_null(kv_open(&(struct kv_limits){10, 0, 3, 40, 1, 0}));
	assert_null(kv_open(&(struct kv_limits){10, 33, 3, 40, 1, 0}));
	for (n = 0;; n++) { /* each time with fresh books: memory got before a failure is kept */
		world_init(&w, 8, 4, 8);
		mem_fail_after(n);
		enum cohort_status st = world_decode(&w, rows, 4, &err);
		mem_fail_after(-1);
		if (!st)
			break;
		assert_int_equal(st, COHORT_E_MEMORY);
		assert_int_equal(err.status, COHORT_E_MEMORY);
		world_check(&w);
		world_release(&w);
	}
	assert_int_equal(n, 1); /* the extra stores; the rest has room from the start */
	world_check(&w);
	world_release(&w);
	/* Extra stores of extra stores, more than there is room for at first. */
	const struct kv_row many[] = {
		row(0, 0, 8), row(1, 0, 8), row(2, 0, 7), row(3, 0, 6), row(4, 0, 5), row(5, 0, 4), row(6, 0, 3),
	};
	for (n = 0;; n++) {
		world_init(&w, 8, 32, 8);
		mem_fail_after(n);
		enum cohort_status st = world_decode(&w, many, 7, &err);
		mem_fail_after(-1);
		world_check(&w);
		if (!st)
			break;
		assert_int_equal(st, COHORT_E_MEMORY);
		world_release(&w);
	}
	assert_int_equal(n, 5); /* twice the extra stores, their nodes, and the journal's blocks and lengths */
	world_release(&w);
	/* The journal of many reservations: of blocks, of lengths. */
	for (size_t size = 1; size < 8; size += 3) {
		bool refused = false;
		world_init(&w, 20, size, 8);
		kv_begin(w.kv);
		for (cohort_pos p = 0; p < 18; p++) {
			const struct kv_row r = row(p, 0, 1);
			mem_fail_all(true);
			enum cohort_status st = world_reserve(&w, &r, 1, &err);
			mem_fail_all(false);
			refused |= st == COHORT_E_MEMORY;
			if (st)
				assert_int_equal(world_reserve(&w, &r, 1, &err), COHORT_OK);
		}
		world_commit(&w);
		world_check(&w);
		assert_true(refused);
		world_release(&w);
	}
	world_init(&w, 8, 4, 8);
	world_decode(&w, rows, 4, NULL);
	/* Warm, it needs nothing more. */
	mem_fail_all(true);
	enum cohort_status st = world_append(&w, 0, 3, &err);
	mem_fail_all(false);
	assert_int_equal(st, COHORT_OK);
	world_check(&w);
	world_release(&w);
}

static void fork_of_a_thousand(void **state)
{
	struct world w;
	(void)state;

	world_init(&w, 40, 32, 3);
	world_append(&w, 0, 1000, NULL);
	assert_int_equal(world_used(&w), 32);
	assert_int_equal(world_cp(&w, 0, 2, NULL), COHORT_OK);
	assert_int_equal(w.moves.n_moves, 0);
	assert_int_equal(world_used(&w), 32);
	assert_true(kv_same(w.kv, 0, 2));
	world_check(&w);
	world_release(&w);
}

static void gaps_are_known(void **state)
{
	struct cohort_err err = {0};
	struct world w;
	(void)state;

	world_init(&w, 8, 4, 4);
	world_append(&w, 0, 18, NULL);
	world_append(&w, 1, 18, NULL);
	assert_false(kv_has_gaps(w.kv, 0));
	assert_false(kv_same(w.kv, 0, 1));
	world_rm(&w, 1, 0, -1, NULL);
	/* Within a block, nothing becomes free; a whole block does. */
	assert_int_equal(world_rm(&w, 0, 5, 7, &err), COHORT_OK);
	assert_true(kv_has_gaps(w.kv, 0));
	assert_int_equal(world_used(&w), 5);
	assert_int_equal(world_rm(&w, 0, 7, 13, &err), COHORT_OK);
	assert_int_equal(world_used(&w), 4);
	assert_int_equal(kv_held(w.kv, 0)[1], 1);
	assert_int_equal(kv_held(w.kv, 0)[2], 0);
	assert_int_equal(kv_held(w.kv, 0)[3], 14);
	world_check(&w);
	uint64_t before = kv_hash(w.kv);
	assert_int_equal(world_rm(&w, 0, 5, 13, &err), COHORT_OK); /* nothing is there any more */
	assert_true(kv_hash(w.kv) == before);
	/* Forks know the gap, too; where the words differ they are not the same. */
	world_cp(&w, 0, 1, NULL);
	world_cp(&w, 0, 2, NULL);
	assert_true(kv_same(w.kv, 0, 1));
	world_rm(&w, 1, 2, 3, NULL);
	assert_false(kv_same(w.kv, 0, 1));
	world_rm(&w, 2, 3, 4, NULL);
	assert_false(kv_same(w.kv, 1, 2));
	world_rm(&w, 2, 0, -1, NULL);
	/* Without its tail it ends before the gap; its head gone it begins after it. */
	assert_int_equal(world_rm(&w, 0, 13, -1, &err), COHORT_OK);
	assert_int_equal(kv_pos_max(w.kv, 0), 4);
	assert_int_equal(world_rm(&w, 1, 0, 6, &err), COHORT_OK);
	assert_int_equal(kv_pos_min(w.kv, 1), 13);
	assert_false(kv_has_gaps(w.kv, 1));
	world_check(&w);
	assert_int_equal(world_append(&w, 0, 9, &err), COHORT_OK);
	assert_int_equal(world_append(&w, 1, 3, &err), COHORT_OK);
	world_check(&w);
	/* A copy on write takes the gaps along. */
	world_rm(&w, 0, 9, 10, NULL);
	world_cp(&w, 0, 2, NULL);
	assert_int_equal(world_append(&w, 2, 1, &err), COHORT_OK);
	world_check(&w);
	world_release(&w);
}

/* What counts as released does not depend on how many commits it took. Seen red with the end of the last released block
 * instead of its last cell. */
static void windows_in_any_chunks(void **state)
{
	struct world w[2];
	struct cohort_err err;
	(void)state;

	for (int k = 0; k < 2; k++) {
		world_init_window(&w[k], 24, 32, 2, 40);
		world_append(&w[k], 0, 16, NULL);
		assert_int_equal(world_add(&w[k], 0, 10, -1, 90, &err), COHORT_OK);
		for (int i = 0; i < (k ? 29 : 1); i++)
			assert_int_equal(world_append(&w[k], 0, k ? 1 : 29, &err), COHORT_OK);
	}
	assert_true(kv_pos_gone(w[0].kv, 0) > 0);
	assert_int_equal(kv_pos_gone(w[0].kv, 0), kv_pos_gone(w[1].kv, 0));
	for (cohort_pos p = 134; p > 0; p--)
		assert_int_equal(kv_seq_rm(w[0].kv, 0, p, -1, true, NULL), kv_seq_rm(w[1].kv, 0, p, -1, true, NULL));
	world_release(&w[0]);
	world_release(&w[1]);
}

static void keeping_one(void **state)
{
	const cohort_seq *live;
	struct world w;
	(void)state;

	world_init(&w, 20, 4, 8);
	live = kv_places(w.kv)->live;
	for (cohort_seq s = 0; s < 8; s++)
		world_append(&w, s, 5, NULL);
	assert_int_equal(kv_places(w.kv)->n_live, 8);
	world_rm(&w, 2, 0, -1, NULL);
	assert_int_equal(kv_places(w.kv)->n_live, 7);
	assert_int_equal(live[2], 7);
	assert_int_equal(world_keep(&w, 4, NULL), COHORT_OK);
	assert_int_equal(kv_places(w.kv)->n_live, 1);
	assert_int_equal(live[0], 4);
	assert_int_equal(world_used(&w), 2);
	world_check(&w);
	assert_int_equal(world_keep(&w, 2, NULL), COHORT_OK); /* an empty one: nothing is left */
	assert_int_equal(kv_places(w.kv)->n_live, 0);
	assert_int_equal(world_used(&w), 0);
	world_check(&w);
	world_release(&w);
}

static void kv_with_65536_sequences(void **state)
{
	const cohort_seq far[] = {3, 32768, 65535};
	struct kv_plan plan;
	struct kv_moves moves;
	struct kv_usage u;
	(void)state;

	struct kv *kv = kv_open(&(struct kv_limits){64, 32, 65536, 4096, 16, 0});
	assert_non_null(kv);
	for (int i = 0; i < 3; i++) {
		const struct kv_row r = {0, 1, &far[i]};
		kv_begin(kv);
		assert_int_equal(kv_reserve(kv, &r, 1, &plan, NULL), COHORT_OK);
		kv_commit(kv);
	}
	assert_int_equal(kv_places(kv)->n_live, 3);
	assert_int_equal(kv_seq_rm(kv, 3, 0, -1, false, NULL), COHORT_OK);
	assert_int_equal(kv_seq_cp(kv, 65535, 3, 0, -1, false, &moves, NULL), COHORT_OK);
	u = places_usage(kv_places(kv));
	assert_int_equal(u.n_used, 2);
	assert_int_equal(u.n_shared, 1);
	assert_int_equal(kv_seq_keep(kv, 65535, NULL), COHORT_OK);
	assert_int_equal(kv_places(kv)->n_live, 1);
	assert_true(kv_consistent(kv));
	kv_clear(kv);
	u = places_usage(kv_places(kv));
	assert_int_equal(u.n_used + u.n_shared, 0);
	kv_free(kv);
}

/* The books' own check sees what it is there for. */
static void kv_consistent_sees_each_break(void **state)
{
	struct world w;
	(void)state;

	world_init_window(&w, 8, 4, 6, 6);
	world_append(&w, 0, 17, NULL);
	world_append(&w, 1, 3, NULL);
	world_cp(&w, 1, 2, NULL);
	struct kv *kv = w.kv;
	const uint64_t hash = kv_hash(kv);
#define BREAK(place, value) \
	do { \
		const int32_t was = (int32_t)(place); \
		(place) = (value); \
		assert_false(kv_consistent(kv)); \
		(place) = was; \
		assert_true(kv_consistent(kv)); \
	} while (0)
#define BREAK_WORD(place, value) \
	do { \
		const uint32_t was = (place); \
		(place) = (value); \
		assert_false(kv_consistent(kv)); \
		assert_true(kv_hash(kv) != hash); \
		(place) = was; \
	} while (0)
	BREAK(kv->p.ref[kv->tables[4]], 2);
	BREAK(kv->p.seqs[0].min, 12);
	BREAK(kv->p.seqs[0].min, 13);
	BREAK(kv->p.seqs[0].min, -2);
	BREAK(kv->p.seqs[0].first, 13);
	BREAK(kv->p.seqs[0].max, 15);
	BREAK(kv->p.seqs[0].max, 11);
	BREAK(kv->p.seqs[0].gone, 13);
	BREAK(kv->p.seqs[0].gone, 0);
	BREAK(kv->p.seqs[0].n_cells, 4);
	BREAK(kv->p.seqs[1].gone, 1);
	BREAK(kv->p.seqs[0].live, 1);
	BREAK(kv->p.seqs[0].live, 99);
	BREAK(kv->p.live[0], 1);
	BREAK(kv->p.free[0], kv->p.free[1]);
	BREAK(kv->p.free[0], kv->tables[4]);
	BREAK_WORD(*kv_word(kv, 0, 3), 14);
	BREAK_WORD(*kv_word(kv, 0, 3), 31);
	BREAK_WORD(*kv_word(kv, 0, 4), 3);
	BREAK_WORD(*kv_word(kv, 0, 4), 0);
	kv->p.n_shared++;
	assert_false(kv_consistent(kv));
	kv->p.n_shared--;
	/* As many as there are, but one of them empty. */
	const cohort_seq last = kv->p.live[kv->p.n_live - 1];
	kv->p.live[kv->p.n_live - 1] = 5;
	kv->p.seqs[5].live = (int32_t)kv->p.n_live - 1;
	assert_false(kv_consistent(kv));
	kv->p.live[kv->p.n_live - 1] = last;
	kv->p.n_live--;
	assert_false(kv_consistent(kv));
	kv->p.n_live += 2;
	assert_false(kv_consistent(kv));
	kv->p.n_live--;
	kv->p.n_free--;
	assert_false(kv_consistent(kv));
	kv->p.n_free++;
	kv->p.note[kv->p.free[0]] = 1;
	assert_false(kv_consistent(kv));
	kv->p.note[kv->p.free[0]] = 0;
	/* The right number of cells, but not the first, or the last. */
	kv->p.seqs[0].n_cells--;
	BREAK_WORD(*kv_word(kv, 0, 3), 14);
	BREAK_WORD(*kv_word(kv, 0, 4), 0);
	kv->p.seqs[0].n_cells++;
	BREAK(kv->p.seqs[1].n_cells, 2);
	/* A window that does not allow what was released. */
	kv->window = 7;
	assert_false(kv_consistent(kv));
	kv->window = 6;
	assert_true(kv_consistent(kv) && kv_hash(kv) == hash);
#undef BREAK
#undef BREAK_WORD
	world_release(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(forks_share),
		cmocka_unit_test(forks_share_in_a_batch),
		cmocka_unit_test(alone_in_place),
		cmocka_unit_test(copy_on_write),
		cmocka_unit_test(coupled_rows),
		cmocka_unit_test(rolled_back_forks),
		cmocka_unit_test(diverging_in_a_batch),
		cmocka_unit_test(diverging_twice_in_a_batch),
		cmocka_unit_test(kv_reserve_names_the_row_without_room),
		cmocka_unit_test(kv_past_the_size_of_the_pool),
		cmocka_unit_test(rollback_restores),
		cmocka_unit_test(transactions_open_and_end),
		cmocka_unit_test(several_reservations),
		cmocka_unit_test(a_left_block_stays),
		cmocka_unit_test(kv_removes_ranges),
		cmocka_unit_test(kv_calls_refuse_bad_arguments),
		cmocka_unit_test(kv_out_of_memory_at_every_point),
		cmocka_unit_test(fork_of_a_thousand),
		cmocka_unit_test(gaps_are_known),
		cmocka_unit_test(windows_in_any_chunks),
		cmocka_unit_test(keeping_one),
		cmocka_unit_test(kv_with_65536_sequences),
		cmocka_unit_test(kv_consistent_sees_each_break),
	};

	return cmocka_run_group_tests_name("kv", tests, NULL, NULL);
}
