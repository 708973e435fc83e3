/* The KV cache's books: ranges copied and shifted, rows_behind_a_window_are_freed, images.
 *
 * Faults planted to see them turn red: a join without the cells dst had (copying_ranges), its old block not given back
 * (joins_need_room); a shift in the wrong order, with cells that stay rotated as well, onto cells unseen
 * (kv_positions_are_shifted), that gives back no sources (shifting_with_little_room); a window judged one position
 * off, a head that swallows what was released (rows_behind_a_window_are_freed), a hole forgotten by a copy or a
 * removal (windows_and_gaps), not moved along (windows_and_shifts); an image block at two places, shared blocks
 * counted as free, references not given back (unsound_images); a dry call that makes no room for the moves
 * (allocations_of_changes). */
#include "kv_world.h"

static const cohort_seq ids[] = {0, 1, 2, 3, 4, 5, 6, 7};

/* A row of the first n of the sequences from `from` on. */
static struct kv_row row(cohort_pos pos, cohort_seq from, int32_t n)
{
	return (struct kv_row){pos, n, ids + from};
}

static void copying_ranges(void **state)
{
	struct cohort_err err = {0};
	struct kv_usage u;
	struct world w;
	(void)state;

	world_init(&w, 12, 4, 6);
	world_append(&w, 0, 18, NULL);
	/* Shared as they are, however little of a block it is. */
	assert_int_equal(world_cp_range(&w, 0, 1, 3, 14, &err), COHORT_OK);
	assert_int_equal(w.moves.n_moves, 0);
	assert_int_equal(world_used(&w), 5);
	assert_int_equal(kv_pos_min(w.kv, 1), 3);
	assert_int_equal(kv_pos_max(w.kv, 1), 13);
	u = places_usage(kv_places(w.kv));
	assert_int_equal(u.n_shared, 4);
	world_check(&w);
	/* Besides what it has: of the same blocks, before and after. */
	assert_int_equal(world_cp_range(&w, 0, 1, 15, 17, &err), COHORT_OK);
	assert_int_equal(world_cp_range(&w, 0, 1, 1, 2, &err), COHORT_OK);
	assert_int_equal(w.moves.n_moves, 0);
	assert_true(kv_has_gaps(w.kv, 1));
	world_check(&w);
	/* Nothing: empty ranges, gaps, beyond the end, empty sequences. */
	uint64_t before = kv_hash(w.kv);
	assert_int_equal(world_cp_range(&w, 0, 1, 3, 3, &err), COHORT_OK);
	assert_int_equal(world_cp_range(&w, 0, 2, 18, -1, &err), COHORT_OK);
	assert_int_equal(world_cp_range(&w, 1, 2, 14, 15, &err), COHORT_OK);
	assert_int_equal(world_cp_range(&w, 4, 2, 0, -1, &err), COHORT_OK);
	assert_true(kv_hash(w.kv) == before);
	/* Onto what is there. */
	assert_int_equal(world_cp_range(&w, 0, 1, 14, 16, &err), COHORT_E_ARG);
	assert_string_equal(err.rule, "cp-occupied");
	assert_int_equal(err.got, 15);
	assert_int_equal(err.expected, 15);
	/* Cells of both in one block: a new one, with the old ones of each. */
	world_append(&w, 2, 6, NULL);
	assert_int_equal(world_used(&w), 7);
	assert_int_equal(world_cp_range(&w, 0, 2, 6, 13, &err), COHORT_OK);
	assert_int_equal(w.moves.n_moves, 2);
	assert_int_equal(world_used(&w), 7);
	assert_false(kv_has_gaps(w.kv, 2));
	world_check(&w);
	assert_int_equal(world_append(&w, 2, 5, &err), COHORT_OK);
	world_check(&w);
	/* Far apart, with blocks of which nothing is held between; from below as well. */
	world_append(&w, 3, 2, NULL);
	assert_int_equal(world_cp_range(&w, 0, 3, 13, 15, &err), COHORT_OK);
	world_check(&w);
	assert_int_equal(world_cp_range(&w, 0, 4, 16, 17, &err), COHORT_OK);
	assert_int_equal(world_cp_range(&w, 0, 4, 0, 1, &err), COHORT_OK);
	world_check(&w);
	world_release(&w);
}

static void joins_need_room(void **state)
{
	struct cohort_err err = {0};
	struct world w;
	(void)state;

	world_init(&w, 6, 4, 4);
	world_append(&w, 0, 12, NULL);
	world_append(&w, 1, 11, NULL);
	world_rm(&w, 1, 1, 8, NULL);
	world_rm(&w, 1, 9, 10, NULL);
	assert_int_equal(world_used(&w), 5);
	/* Two joins, one free block: the first gives back what the second takes. */
	world_cp(&w, 1, 2, NULL);
	assert_int_equal(world_cp_range(&w, 0, 1, 11, 12, &err), COHORT_OK);
	assert_int_equal(world_used(&w), 6);
	world_check(&w);
	assert_int_equal(world_cp_range(&w, 0, 1, 1, 2, &err), COHORT_NO_ROOM);
	assert_string_equal(err.rule, "kv-room");
	assert_int_equal(err.row, -1);
	assert_int_equal(err.seq, 1);
	world_rm(&w, 2, 0, -1, NULL);
	assert_int_equal(world_used(&w), 5);
	world_append(&w, 3, 1, NULL);
	world_rm(&w, 3, 0, -1, NULL);
	assert_int_equal(world_cp_range(&w, 0, 1, 1, 8, &err), COHORT_OK);
	assert_int_equal(world_cp_range(&w, 0, 1, 9, 10, &err), COHORT_OK);
	assert_false(kv_has_gaps(w.kv, 1));
	world_check(&w);
	world_release(&w);
}

static void kv_positions_are_shifted(void **state)
{
	struct cohort_err err = {0};
	struct world w;
	(void)state;

	world_init(&w, 8, 4, 4);
	world_append(&w, 0, 18, NULL);
	/* Nothing: no distance, no cells. */
	uint64_t before = kv_hash(w.kv);
	assert_int_equal(world_add(&w, 0, 3, -1, 0, &err), COHORT_OK);
	assert_int_equal(world_add(&w, 0, 5, 5, 2, &err), COHORT_OK);
	assert_int_equal(world_add(&w, 0, 18, -1, 2, &err), COHORT_OK);
	assert_int_equal(world_add(&w, 1, 0, -1, 2, &err), COHORT_OK);
	/* Refused: below zero, beyond the limit (whatever the sum), onto cells that stay. */
	assert_int_equal(world_add(&w, 0, 2, -1, -3, &err), COHORT_E_ARG);
	assert_string_equal(err.rule, "pos-negative");
	assert_int_equal(err.seq, 0);
	assert_int_equal(err.got, -1);
	assert_int_equal(world_add(&w, 0, 0, -1, INT32_MIN, &err), COHORT_E_ARG);
	assert_string_equal(err.rule, "pos-negative");
	assert_int_equal(world_add(&w, 0, 0, -1, 96 - 17, &err), COHORT_E_ARG);
	assert_string_equal(err.rule, "pos-limit");
	assert_int_equal(err.expected, 96);
	assert_int_equal(err.got, 96);
	assert_int_equal(world_add(&w, 0, 0, -1, INT32_MAX, &err), COHORT_E_ARG);
	assert_int_equal(world_add(&w, 0, 5, 7, 4, &err), COHORT_E_ARG);
	assert_string_equal(err.rule, "add-occupied");
	assert_int_equal(err.got, 9);
	assert_int_equal(world_add(&w, 0, 5, -1, -1, &err), COHORT_E_ARG);
	assert_int_equal(err.got, 4);
	assert_true(kv_hash(w.kv) == before);
	/* All of it, up and down again, within a block, by blocks, and far. */
	const cohort_pos by[] = {1, 3, -2, -2, 4, -4, 8, -7, 77, -77, 5, -1, -3, -2};
	for (size_t i = 0; i < sizeof by / sizeof *by; i++) {
		assert_int_equal(world_add(&w, 0, 0, -1, by[i], &err), COHORT_OK);
		world_check(&w);
	}
	/* A context shift: some cells go, the rest closes the gap; the first block is not touched. */
	const int32_t first = kv_table(w.kv, 0)[0];
	world_rm(&w, 0, 4, 9, NULL);
	assert_int_equal(world_add(&w, 0, 9, -1, -5, &err), COHORT_OK);
	assert_int_equal(kv_pos_max(w.kv, 0), 12);
	assert_int_equal(kv_table(w.kv, 0)[0], first);
	assert_false(kv_has_gaps(w.kv, 0));
	world_check(&w);
	/* The tail away from the head, a part from the middle past the end, and the end to the beginning. */
	assert_int_equal(world_add(&w, 0, 6, -1, 9, &err), COHORT_OK);
	world_check(&w);
	assert_int_equal(world_add(&w, 0, 2, 5, 30, &err), COHORT_OK);
	assert_int_equal(kv_pos_max(w.kv, 0), 34);
	world_check(&w);
	assert_int_equal(world_add(&w, 0, 33, -1, -30, &err), COHORT_OK);
	world_check(&w);
	world_rm(&w, 0, 0, 3, NULL);
	assert_int_equal(world_add(&w, 0, 4, 6, -4, &err), COHORT_OK);
	assert_int_equal(kv_pos_min(w.kv, 0), 0);
	world_check(&w);
	assert_int_equal(world_append(&w, 0, 4, &err), COHORT_OK);
	world_check(&w);
	world_release(&w);
}

/* Few free blocks are enough to move a long sequence, in either direction: one by whole blocks, two otherwise. What a
 * fork shares is not given back. */
static void shifting_with_little_room(void **state)
{
	struct cohort_err err = {0};
	struct world w;
	(void)state;

	world_init(&w, 11, 4, 4);
	world_append(&w, 0, 32, NULL);
	world_append(&w, 1, 7, NULL);
	assert_int_equal(world_used(&w), 10);
	assert_int_equal(world_add(&w, 0, 0, -1, 8, &err), COHORT_OK);
	assert_int_equal(world_add(&w, 0, 0, -1, -4, &err), COHORT_OK);
	assert_int_equal(world_add(&w, 0, 0, -1, -4, &err), COHORT_OK);
	world_check(&w);
	world_rm(&w, 1, 0, -1, NULL);
	const cohort_pos by[] = {2, 3, -5, 40, -40, 7};
	for (size_t i = 0; i < sizeof by / sizeof *by; i++) {
		assert_int_equal(world_add(&w, 0, 0, -1, by[i], &err), COHORT_OK);
		world_check(&w);
	}
	world_rm(&w, 0, 7, 8, NULL);
	assert_int_equal(world_used(&w), 8);
	world_append(&w, 1, 5, NULL);
	assert_int_equal(world_add(&w, 0, 0, -1, -1, &err), COHORT_NO_ROOM);
	assert_string_equal(err.rule, "kv-room");
	assert_int_equal(err.seq, 0);
	world_rm(&w, 1, 0, -1, NULL);
	world_cp(&w, 0, 1, NULL);
	assert_int_equal(world_add(&w, 0, 0, -1, -1, &err), COHORT_NO_ROOM);
	world_rm(&w, 0, 20, -1, NULL);
	world_rm(&w, 1, 20, -1, NULL);
	assert_int_equal(world_add(&w, 0, 0, -1, -1, &err), COHORT_OK);
	world_check(&w);
	world_release(&w);
}

static void rows_behind_a_window_are_freed(void **state)
{
	struct cohort_err err = {0};
	struct world w;
	(void)state;

	world_init_window(&w, 8, 4, 4, 6);
	world_append(&w, 0, 9, NULL); /* the next row, 9, sees 4 and on */
	assert_int_equal(kv_pos_min(w.kv, 0), 0);
	assert_int_equal(kv_pos_first(w.kv, 0), 4);
	assert_int_equal(world_used(&w), 2);
	world_check(&w);
	/* Not before the end of the transaction. */
	const struct kv_row more[] = {row(9, 0, 1), row(10, 0, 1), row(11, 0, 1), row(12, 0, 1)};
	kv_begin(w.kv);
	assert_int_equal(world_reserve(&w, more, 4, NULL), COHORT_OK);
	assert_int_equal(kv_pos_first(w.kv, 0), 4);
	world_commit(&w);
	assert_int_equal(kv_pos_first(w.kv, 0), 8);
	assert_false(kv_has_gaps(w.kv, 0));
	world_check(&w);
	/* With 11 at its end it would see 7, which is gone; with 12 it is as it was. */
	assert_int_equal(world_rm(&w, 0, 12, -1, &err), COHORT_E_ARG);
	assert_string_equal(err.rule, "window-gone");
	assert_int_equal(err.seq, 0);
	assert_int_equal(err.expected, 7);
	assert_int_equal(err.got, 8);
	assert_int_equal(world_rm(&w, 0, 3, -1, &err), COHORT_E_ARG);
	assert_int_equal(err.expected, 0);
	world_append(&w, 0, 1, NULL);
	assert_int_equal(world_rm(&w, 0, 13, -1, &err), COHORT_OK);
	/* Copies: whole, or ending where nothing is missing. */
	assert_int_equal(world_cp(&w, 0, 1, &err), COHORT_OK);
	assert_true(kv_same(w.kv, 0, 1));
	assert_int_equal(world_cp_range(&w, 0, 2, 0, 12, &err), COHORT_E_ARG);
	assert_string_equal(err.rule, "window-gone");
	assert_int_equal(err.expected, 7);
	assert_int_equal(err.got, 8);
	assert_int_equal(world_cp_range(&w, 0, 2, 0, 3, &err), COHORT_E_ARG);
	assert_int_equal(err.expected, 0);
	assert_int_equal(world_cp_range(&w, 0, 2, 8, 12, &err), COHORT_OK);
	world_check(&w);
	/* A window that is as large as can be is none. */
	struct kv *kv = kv_open(&(struct kv_limits){8, 4, 4, 96, 1, SIZE_MAX});
	assert_non_null(kv);
	kv_free(kv);
	/* The head goes: inside what was released, to its end, past it. */
	assert_int_equal(world_rm(&w, 0, 0, 3, &err), COHORT_OK);
	assert_int_equal(kv_pos_min(w.kv, 0), 3);
	assert_int_equal(kv_pos_first(w.kv, 0), 8);
	assert_int_equal(world_rm(&w, 0, 0, 8, &err), COHORT_OK);
	assert_int_equal(kv_pos_min(w.kv, 0), 8);
	assert_int_equal(world_rm(&w, 0, 9, -1, &err), COHORT_OK); /* it began at 8, so nothing is missing */
	assert_int_equal(world_rm(&w, 1, 0, 10, &err), COHORT_OK);
	assert_int_equal(kv_pos_min(w.kv, 1), 10);
	world_check(&w);
	assert_int_equal(world_rm(&w, 0, 0, -1, &err), COHORT_OK);
	world_check(&w);
	world_release(&w);
}

static void windows_and_gaps(void **state)
{
	struct cohort_err err = {0};
	struct world w;
	(void)state;

	world_init_window(&w, 12, 4, 6, 6);
	world_append(&w, 0, 16, NULL); /* 12 and on; 11 and on would do */
	world_rm(&w, 0, 13, 15, NULL);
	assert_int_equal(kv_pos_first(w.kv, 0), 8);
	assert_true(kv_has_gaps(w.kv, 0));
	/* What was removed need not be there: released are 0 to 7, and then 0 to 4. */
	world_cp(&w, 0, 1, NULL);
	assert_int_equal(world_rm(&w, 1, 5, 10, &err), COHORT_OK);
	assert_int_equal(kv_pos_min(w.kv, 1), 0);
	assert_int_equal(kv_pos_first(w.kv, 1), 10);
	assert_int_equal(world_rm(&w, 1, 12, -1, &err), COHORT_OK);
	assert_int_equal(kv_pos_max(w.kv, 1), 11);
	world_check(&w);
	/* A gap that falls out of the window is a gap no more. */
	world_append(&w, 0, 9, NULL);
	assert_int_equal(kv_pos_first(w.kv, 0), 20);
	assert_false(kv_has_gaps(w.kv, 0));
	world_check(&w);
	/* Joining what a window cut: cells below the released ones are out of the window, too. */
	world_append(&w, 2, 5, NULL);
	assert_int_equal(world_cp_range(&w, 0, 2, 5, -1, &err), COHORT_OK);
	assert_int_equal(kv_pos_min(w.kv, 2), 0);
	assert_int_equal(kv_pos_first(w.kv, 2), 20);
	world_check(&w);
	world_append(&w, 3, 3, NULL);
	world_rm(&w, 2, 0, 10, NULL);
	assert_int_equal(world_cp_range(&w, 3, 2, 0, -1, &err), COHORT_OK);
	assert_int_equal(kv_pos_min(w.kv, 2), 0);
	assert_int_equal(kv_pos_first(w.kv, 2), 20);
	world_check(&w);
	/* Released cells alone. */
	world_rm(&w, 2, 0, 15, NULL);
	assert_int_equal(world_cp_range(&w, 0, 2, 3, 15, &err), COHORT_OK);
	assert_int_equal(kv_pos_min(w.kv, 2), 3);
	world_check(&w);
	world_release(&w);
}

static void windows_and_shifts(void **state)
{
	struct cohort_err err = {0};
	struct world w;
	(void)state;

	world_init_window(&w, 16, 4, 6, 6);
	world_append(&w, 0, 17, NULL);
	for (cohort_seq s = 1; s < 6; s++)
		world_cp(&w, 0, s, NULL);
	assert_int_equal(kv_pos_first(w.kv, 0), 12);
	/* The released ones move along. */
	assert_int_equal(world_add(&w, 0, 0, -1, 3, &err), COHORT_OK);
	assert_int_equal(kv_pos_min(w.kv, 0), 3);
	assert_int_equal(kv_pos_first(w.kv, 0), 15);
	assert_int_equal(kv_pos_max(w.kv, 0), 19);
	world_check(&w);
	assert_int_equal(world_add(&w, 0, 0, -1, -4, &err), COHORT_E_ARG);
	assert_string_equal(err.rule, "pos-negative");
	/* A context shift that keeps the first three. */
	assert_int_equal(world_rm(&w, 1, 3, 8, &err), COHORT_OK);
	assert_int_equal(world_add(&w, 1, 8, -1, -5, &err), COHORT_OK);
	assert_int_equal(kv_pos_min(w.kv, 1), 0);
	assert_int_equal(kv_pos_first(w.kv, 1), 7);
	assert_int_equal(kv_pos_max(w.kv, 1), 11);
	world_check(&w);
	/* And one whose gap reaches to what is there. */
	assert_int_equal(world_rm(&w, 2, 8, 13, &err), COHORT_OK);
	assert_int_equal(world_add(&w, 2, 13, -1, -3, &err), COHORT_OK);
	assert_int_equal(kv_pos_first(w.kv, 2), 10);
	assert_int_equal(world_add(&w, 2, 10, -1, -2, &err), COHORT_E_ARG); /* 11 at the end would see 7 */
	assert_string_equal(err.rule, "window-gone");
	world_check(&w);
	/* Into what was released, released ones into what is there, below what stays, past what stays. */
	assert_int_equal(world_add(&w, 3, 13, -1, -4, &err), COHORT_E_ARG);
	assert_string_equal(err.rule, "window-gone");
	assert_int_equal(world_add(&w, 3, 0, 13, 4, &err), COHORT_E_ARG);
	assert_int_equal(world_add(&w, 3, 0, 5, 20, &err), COHORT_E_ARG);
	assert_string_equal(err.rule, "window-gone");
	world_rm(&w, 3, 0, 6, NULL);
	assert_int_equal(world_add(&w, 3, 8, -1, -4, &err), COHORT_E_ARG);
	assert_string_equal(err.rule, "window-gone");
	/* Released ones among themselves. */
	assert_int_equal(world_add(&w, 3, 0, 8, -2, &err), COHORT_OK);
	assert_int_equal(kv_pos_min(w.kv, 3), 4);
	assert_int_equal(world_add(&w, 3, 0, 6, 1, &err), COHORT_OK);
	assert_int_equal(kv_pos_min(w.kv, 3), 5);
	assert_int_equal(world_add(&w, 3, 0, 6, 3, &err), COHORT_OK);
	assert_int_equal(kv_pos_min(w.kv, 3), 6);
	assert_int_equal(kv_pos_first(w.kv, 3), 12);
	world_check(&w);
	world_release(&w);
}

/* A sound image: sequences 1 and 2 share block 0; 1 has a gap; 5 is empty. */
struct sample {
	struct kv_image image;
	struct kv_image_seq seqs[3];
	int32_t blocks[2][3];
	uint32_t held[2][3];
};

static void sample_init(struct sample *s)
{
	*s = (struct sample){.blocks = {{0, -1, 1}, {0, 2, 0}}, .held = {{14, 0, 3}, {14, 1, 0}}};
	s->seqs[0] = (struct kv_image_seq){1, 1, 1, 9, s->blocks[0], s->held[0], 0};
	s->seqs[1] = (struct kv_image_seq){2, 1, 1, 4, s->blocks[1], s->held[1], 0};
	s->seqs[2] = (struct kv_image_seq){5, -1, -1, -1, NULL, NULL, 0};
	s->image = (struct kv_image){s->seqs, 3, 3, false};
}

static void refused(struct world *w, const struct sample *s, enum cohort_status want, const char *text)
{
	struct cohort_err err = {0};
	uint64_t before = kv_hash(w->kv);
	int32_t id[64];

	for (int dry = 0; dry < 2; dry++) {
		assert_int_equal(kv_import(w->kv, &s->image, dry, id, &err), want);
		assert_int_equal(err.status, want);
		if (!strstr(err.text, text))
			fail_msg("\"%s\" does not say \"%s\"", err.text, text);
		assert_true(kv_hash(w->kv) == before);
	}
}

static void unsound_images(void **state)
{
	struct sample s;
	struct world w;
	int32_t id[3];
	(void)state;

	world_init(&w, 4, 4, 6);
	world_append(&w, 0, 5, NULL);
#define CASE(change, status, text) (sample_init(&s), (change), refused(&w, &s, (status), (text)))
	CASE(s.seqs[0].seq = 6, COHORT_E_ARG, "sequence 6");
	CASE(s.seqs[0].seq = -1, COHORT_E_ARG, "sequence -1");
	CASE(s.seqs[2].seq = 1, COHORT_E_FORMAT, "twice");
	CASE(s.seqs[2].min = 0, COHORT_E_FORMAT, "empty");
	CASE(s.seqs[2].first = 0, COHORT_E_FORMAT, "empty");
	CASE(s.seqs[2].max = -2, COHORT_E_FORMAT, "order");
	CASE(s.seqs[0].min = -1, COHORT_E_FORMAT, "order");
	CASE(s.seqs[0].min = 2, COHORT_E_FORMAT, "order");
	CASE(s.seqs[1].max = 0, COHORT_E_FORMAT, "order");
	CASE(s.seqs[0].max = 48, COHORT_E_FORMAT, "limit");
	CASE(s.seqs[0].min = 0, COHORT_E_FORMAT, "beginning");
	CASE(s.held[0][0] = 15, COHORT_E_FORMAT, "outside");
	CASE(s.held[0][0] = 30, COHORT_E_FORMAT, "outside");
	CASE(s.held[0][2] = 7, COHORT_E_FORMAT, "outside");
	CASE(s.held[0][1] = 1, COHORT_E_FORMAT, "not in the image");
	CASE(s.blocks[0][1] = 1, COHORT_E_FORMAT, "nothing is held");
	CASE(s.blocks[0][2] = 3, COHORT_E_FORMAT, "not in the image");
	CASE(s.blocks[0][2] = -2, COHORT_E_FORMAT, "not in the image");
	CASE(s.blocks[0][2] = 0, COHORT_E_FORMAT, "two places");
	CASE(s.held[0][0] = 12, COHORT_E_FORMAT, "first or last");
	CASE(s.held[0][2] = 1, COHORT_E_FORMAT, "first or last");
	CASE(s.image.n_blocks = 4, COHORT_E_FORMAT, "4 blocks");
	CASE(s.image.n_blocks = 5, COHORT_NO_ROOM, "5 blocks");
	CASE(s.image.n_blocks = SIZE_MAX, COHORT_NO_ROOM, "the cache 4");
	CASE(s.image.all = false, COHORT_NO_ROOM, "room for 2");
#undef CASE
	/* What its own sequences hold makes room, unless others share it. */
	world_cp(&w, 0, 1, NULL);
	refused(&w, &s, COHORT_NO_ROOM, "room for 2");
	world_cp(&w, 0, 2, NULL);
	refused(&w, &s, COHORT_NO_ROOM, "room for 2");
	world_rm(&w, 0, 0, -1, NULL);
	assert_int_equal(kv_import(w.kv, &s.image, true, NULL, NULL), COHORT_OK);
	assert_int_equal(kv_import(w.kv, &s.image, false, id, NULL), COHORT_OK);
	assert_true(kv_consistent(w.kv));
	assert_int_equal(world_used(&w), 3);
	assert_int_equal(kv_table(w.kv, 1)[0], id[0]);
	assert_int_equal(kv_table(w.kv, 1)[2], id[1]);
	assert_int_equal(kv_table(w.kv, 2)[1], id[2]);
	assert_true(kv_has_gaps(w.kv, 1));
	assert_int_equal(kv_pos_max(w.kv, 5), -1);
	/* Everything first makes room whatever it was. */
	s.image.all = true;
	s.seqs[0].seq = 3;
	assert_int_equal(kv_import(w.kv, &s.image, false, id, NULL), COHORT_OK);
	assert_true(kv_consistent(w.kv));
	assert_int_equal(kv_pos_max(w.kv, 1), -1);
	assert_int_equal(kv_pos_max(w.kv, 3), 9);
	world_release(&w);
}

static void images_of_windows(void **state)
{
	const cohort_seq one[] = {0}, other[] = {3};
	struct cohort_err err = {0};
	struct sample s;
	struct world w;
	(void)state;

	world_init_window(&w, 8, 4, 6, 6);
	world_append(&w, 0, 17, NULL);
	assert_int_equal(world_restore(&w, &w, one, other, 1, false, &err), COHORT_OK);
	assert_int_equal(kv_pos_min(w.kv, 3), 0);
	assert_int_equal(kv_pos_first(w.kv, 3), 12);
	world_check(&w);
	assert_int_equal(world_rm(&w, 3, 16, -1, &err), COHORT_E_ARG);
	assert_string_equal(err.rule, "window-gone");
	/* What was removed behind the released cells is told apart from them. */
	world_rm(&w, 0, 12, 15, NULL);
	assert_int_equal(world_restore(&w, &w, one, other, 1, false, &err), COHORT_OK);
	assert_int_equal(kv_pos_first(w.kv, 3), 15);
	assert_int_equal(kv_pos_gone(w.kv, 3), kv_pos_gone(w.kv, 0));
	assert_int_equal(kv_pos_gone(w.kv, 3), 12);
	assert_int_equal(kv_pos_gone(w.kv, 99), 0);
	world_check(&w);
	/* Released cells lie at the beginning, are missing, and the next row sees none of them. */
	sample_init(&s);
	s.seqs[1].min = 0;
	refused(&w, &s, COHORT_E_FORMAT, "beginning");
	s.seqs[1].gone = 2;
	refused(&w, &s, COHORT_E_FORMAT, "beginning");
	s.seqs[1].gone = 1;
	refused(&w, &s, COHORT_E_FORMAT, "beginning");
	sample_init(&s);
	s.seqs[1].gone = 1;
	refused(&w, &s, COHORT_E_FORMAT, "none is missing");
	sample_init(&s);
	s.seqs[2].gone = 1;
	refused(&w, &s, COHORT_E_FORMAT, "empty");
	world_release(&w);
}

/* Every call again with each of its allocations failing: a status, and nothing has changed. */
static void allocations_of_changes(void **state)
{
	struct cohort_err err = {0};
	struct sample s;
	struct world w;
	int32_t id[3];
	(void)state;

	sample_init(&s);
	for (int call = 0; call < 3; call++)
		for (int64_t n = 0;; n++) {
			struct kv_moves moves;
			enum cohort_status st;
			world_init(&w, 8, 4, 6);
			world_append(&w, 0, 9, NULL);
			world_append(&w, 1, 2, NULL);
			uint64_t before = kv_hash(w.kv);
			mem_fail_after(n);
			if (call == 0)
				st = kv_seq_cp(w.kv, 0, 1, 3, -1, false, &moves, &err);
			else if (call == 1)
				st = kv_seq_add(w.kv, 0, 0, -1, 1, false, &moves, &err);
			else
				st = kv_import(w.kv, &s.image, false, id, &err);
			mem_fail_after(-1);
			assert_true(kv_consistent(w.kv));
			if (!st) {
				assert_int_equal(n, call == 1 ? 2 : 1);
				world_release(&w);
				break;
			}
			assert_int_equal(st, COHORT_E_MEMORY);
			assert_int_equal(err.status, COHORT_E_MEMORY);
			assert_true(kv_hash(w.kv) == before);
			world_release(&w);
		}
	/* A dry call makes the room, so that the next cannot fail. */
	struct kv_moves moves;
	world_init(&w, 8, 4, 6);
	world_append(&w, 0, 9, NULL);
	world_append(&w, 1, 2, NULL);
	assert_int_equal(kv_seq_cp(w.kv, 0, 1, 3, -1, true, NULL, &err), COHORT_OK);
	mem_fail_all(true);
	assert_int_equal(kv_seq_cp(w.kv, 0, 1, 3, -1, false, &moves, &err), COHORT_OK);
	mem_fail_all(false);
	assert_int_equal(kv_seq_add(w.kv, 0, 0, -1, 1, true, NULL, &err), COHORT_OK);
	mem_fail_all(true);
	assert_int_equal(kv_seq_add(w.kv, 0, 0, -1, 1, false, &moves, &err), COHORT_OK);
	assert_false(kv_consistent(w.kv)); /* which says nothing then */
	mem_fail_all(false);
	world_release(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(copying_ranges),
		cmocka_unit_test(joins_need_room),
		cmocka_unit_test(kv_positions_are_shifted),
		cmocka_unit_test(shifting_with_little_room),
		cmocka_unit_test(rows_behind_a_window_are_freed),
		cmocka_unit_test(windows_and_gaps),
		cmocka_unit_test(windows_and_shifts),
		cmocka_unit_test(unsound_images),
		cmocka_unit_test(images_of_windows),
		cmocka_unit_test(allocations_of_changes),
	};

	return cmocka_run_group_tests_name("kv_shape", tests, NULL, NULL);
}
