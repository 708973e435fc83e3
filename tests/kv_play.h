/* Random operations on the KV cache's books, with what the lists of kv_world.h say of each: for the random test and the
 * fuzz target. */
#ifndef TESTS_KV_PLAY_H
#define TESTS_KV_PLAY_H

#include "dice.h"
#include "kv_world.h"

enum { ROWS_MAX = 12, SEQS_MAX = 8 };

struct batch {
	struct kv_row rows[ROWS_MAX];
	cohort_seq seq[ROWS_MAX][SEQS_MAX];
	size_t n;
};

struct counts {
	size_t n_decode, n_no_room, n_copies, n_extra, n_coupled, n_later, n_rollback;
	size_t n_cp, n_cp_moves, n_cp_refused, n_rm, n_gone, n_add, n_add_refused, n_add_no_room, n_import, n_gaps;
};

/* Rows as the batch checks let them through: the sequences of a row either hold the same cells and had no row yet in
 * this batch, or had the same last row. */
static inline void random_batch(struct batch *b, const struct world *w, struct dice *r)
{
	int last[SEQS_MAX];
	cohort_pos next[SEQS_MAX];

	for (size_t s = 0; s < w->n_seq; s++) {
		last[s] = -1;
		next[s] = w->max[s] + 1;
	}
	b->n = 1 + below(r, ROWS_MAX);
	/* Batches that go on with few sequences, too, so that sets shrink within a block. */
	size_t n_lead = 1 + below(r, w->n_seq);
	for (size_t i = 0; i < b->n; i++) {
		size_t lead = below(r, n_lead);
		uint32_t keep = below(r, 4); /* none, some or all of those that could join */
		int32_t n = 0;
		b->seq[i][n++] = (cohort_seq)lead;
		for (size_t s = 0; s < w->n_seq; s++) {
			if (s == lead || last[s] != last[lead] || keep == 0 || (keep < 3 && below(r, 2)))
				continue;
			if (last[s] < 0 && !kv_same(w->kv, (cohort_seq)lead, (cohort_seq)s))
				continue;
			b->seq[i][n++] = (cohort_seq)s;
		}
		b->rows[i] = (struct kv_row){next[lead], n, b->seq[i]};
		for (int32_t k = 0; k < n; k++) {
			last[b->seq[i][k]] = (int)i;
			next[b->seq[i][k]]++;
		}
	}
}

/* A refusal names the first row that does not fit: all before it do. */
static inline void check_no_room(struct world *w, const struct batch *b, const struct cohort_err *err)
{
	struct kv_plan plan;

	assert_true(err->row >= 0 && (size_t)err->row < b->n);
	assert_int_equal(err->expected, err->row);
	assert_int_equal(err->seq, b->rows[err->row].seq[0]);
	kv_begin(w->kv);
	assert_int_equal(kv_reserve(w->kv, b->rows, (size_t)err->row, &plan, NULL), COHORT_OK);
	kv_rollback(w->kv);
	kv_begin(w->kv);
	assert_int_equal(kv_reserve(w->kv, b->rows, (size_t)err->row + 1, &plan, NULL), COHORT_NO_ROOM);
	kv_rollback(w->kv);
}

/* A transaction of one to three reservations, kept or given up. A reservation that fails leaves the others as they
 * are. */
static inline void random_decode(struct world *w, struct dice *r, struct counts *c)
{
	const bool keep = below(r, 8) > 0;
	const size_t n = below(r, 4) ? 1 : 1 + below(r, 3);
	uint64_t before = kv_hash(w->kv);
	struct cohort_err err = {0};
	struct batch b;

	kv_begin(w->kv);
	for (size_t i = 0; i < n; i++) {
		random_batch(&b, w, r);
		if (world_reserve(w, b.rows, b.n, &err))
			break;
		c->n_later += i > 0;
		c->n_copies += w->plan.n_copies;
		c->n_extra += w->plan.n_extra;
		for (size_t k = 0; k < b.n; k++)
			c->n_coupled += b.rows[k].n_seq > 1;
	}
	if (keep) {
		world_commit(w);
		c->n_decode++;
	} else {
		world_rollback(w);
		c->n_rollback++;
		assert_true(kv_hash(w->kv) == before);
	}
	if (!err.status)
		return;
	if (err.status == COHORT_NO_ROOM) {
		if (keep && n == 1)
			check_no_room(w, &b, &err);
		c->n_no_room++;
	} else {
		assert_int_equal(err.status, COHORT_E_LIMIT);
		assert_string_equal(err.rule, "pos-limit");
		world_rm(w, (cohort_seq)err.seq, 0, -1, NULL);
	}
	if (below(r, 2)) /* otherwise it would stay full */
		world_rm(w, (cohort_seq)below(r, w->n_seq), 0, -1, NULL);
}

/* A range of a sequence: a head, a tail, all, or anything. */
static inline void random_range(const struct world *w, size_t s, struct dice *r, cohort_pos *a, cohort_pos *z)
{
	const size_t len = (size_t)(w->max[s] + 1);
	const uint32_t kind = below(r, 8);

	*a = (cohort_pos)below(r, len + 2);
	*z = (cohort_pos)below(r, len + 2);
	if (kind < 3)
		*z = -1;
	else if (kind < 5)
		*a = 0;
	else if (kind == 5)
		*a = 0, *z = -1;
}

static inline void random_rm(struct world *w, struct dice *r, struct counts *c)
{
	const size_t s = below(r, w->n_seq);
	struct cohort_err err = {0};
	cohort_pos a, z;

	random_range(w, s, r, &a, &z);
	if (world_rm(w, (cohort_seq)s, a, z, &err)) {
		assert_string_equal(err.rule, "window-gone");
		assert_true(w->window > 0);
		c->n_gone++;
	}
	c->n_rm++;
	c->n_gaps += kv_has_gaps(w->kv, (cohort_seq)s);
}

/* Whether the range of src meets cells of dst. */
static inline bool meets(const struct world *w, size_t src, size_t dst, cohort_pos a, cohort_pos z)
{
	for (cohort_pos p = a; p <= w->max[src] && (z < 0 || p < z); p++)
		if (world_there(w, src)[p] && world_there(w, dst)[p])
			return true;
	return false;
}

static inline void checked_cp(struct world *w, size_t src, size_t dst, cohort_pos a, cohort_pos z, struct counts *c)
{
	const bool occupied = src != dst && meets(w, src, dst, a, z);
	struct cohort_err err = {0};
	enum cohort_status st = world_cp_range(w, (cohort_seq)src, (cohort_seq)dst, a, z, &err);

	c->n_cp++;
	c->n_cp_moves += !st && w->moves.n_moves;
	c->n_cp_refused += occupied;
	assert_int_equal(occupied, st == COHORT_E_ARG && strcmp(err.rule, "cp-occupied") == 0);
	if (st == COHORT_E_ARG && !occupied) {
		assert_string_equal(err.rule, "window-gone");
		assert_true(w->window > 0);
	}
}

/* Forks, onto a place that is made empty more often than not; now and then onto all of them; and ranges. */
static inline void random_cp(struct world *w, struct dice *r, struct counts *c)
{
	size_t src = below(r, w->n_seq), one = below(r, w->n_seq);
	bool all = below(r, 4) == 0, clear = below(r, 4) > 0;
	cohort_pos a = 0, z = -1;

	if (below(r, 2))
		random_range(w, src, r, &a, &z);
	if (below(r, 4) == 0 && w->max[one] >= 0) { /* where the other ends */
		a = w->max[one] + 1 - (cohort_pos)below(r, 2);
		clear = false;
	}
	for (size_t dst = 0; dst < w->n_seq; dst++) {
		if (!all && dst != one)
			continue;
		if (clear && dst != src)
			assert_int_equal(world_rm(w, (cohort_seq)dst, 0, -1, NULL), COHORT_OK);
		checked_cp(w, src, dst, a, z, c);
		assert_true(a > 0 || z >= 0 || !clear || kv_same(w->kv, (cohort_seq)src, (cohort_seq)dst));
	}
}

/* What the lists say of a shift: the rule it breaks, or NULL. */
static inline const char *broken(const struct world *w, size_t s, cohort_pos a, cohort_pos z, cohort_pos delta)
{
	const struct world_cell *list = world_list(w, s);
	const cohort_pos end = z < 0 || z > w->max[s] ? w->max[s] + 1 : z;
	const char *rule = NULL;

	for (cohort_pos p = a; p < end; p++) {
		const cohort_pos to = p + delta;
		if (!list[p].id)
			continue;
		if (to < 0)
			return "pos-negative";
		if (to >= (cohort_pos)w->n_pos)
			rule = "pos-limit";
		else if (!rule && list[to].id && (to < a || to >= end))
			rule = "add-occupied";
	}
	for (cohort_pos p = a; p < end && rule; p++) /* the limit is looked at before */
		if (list[p].id && p + delta >= (cohort_pos)w->n_pos)
			return "pos-limit";
	return rule;
}

static inline void random_add(struct world *w, struct dice *r, struct counts *c)
{
	const size_t s = below(r, w->n_seq);
	const cohort_pos most = (cohort_pos)(below(r, 4) ? 2 * w->size : w->n_pos);
	cohort_pos a, z, delta = (cohort_pos)below(r, (size_t)(2 * most + 1)) - most;
	struct cohort_err err = {0};

	random_range(w, s, r, &a, &z);
	if (below(r, 2) && a > 0 && z != 0) { /* closing a gap, as a context shift does */
		const cohort_pos n = 1 + (cohort_pos)below(r, (size_t)a);
		if (world_rm(w, (cohort_seq)s, a - n, a, NULL) == COHORT_OK)
			delta = -n;
	}
	const char *rule = delta ? broken(w, s, a, z, delta) : NULL;
	enum cohort_status st = world_add(w, (cohort_seq)s, a, z, delta, &err);
	c->n_add += !st && w->moves.n_moves;
	c->n_add_refused += st < 0;
	c->n_add_no_room += st == COHORT_NO_ROOM;
	/* A window does not know all of what it released, so it may see no clash where there would have been one. */
	if (w->window)
		return;
	if (st == COHORT_NO_ROOM)
		assert_null(rule);
	else
		assert_true(rule ? st && strcmp(rule, err.rule) == 0 : !st);
}

/* One sequence, some or all, into the same world or another. */
static inline void random_import(struct world *w, struct world *from, struct dice *r, struct counts *c)
{
	cohort_seq src[SEQS_MAX], dst[SEQS_MAX];
	const size_t n = below(r, 4) ? below(r, 3) : w->n_seq;
	const bool all = below(r, 4) == 0;
	struct cohort_err err = {0};

	for (size_t i = 0; i < w->n_seq; i++)
		src[i] = dst[i] = (cohort_seq)i;
	for (size_t i = w->n_seq - 1; i > 0; i--) {
		const size_t k = below(r, i + 1), l = below(r, i + 1);
		cohort_seq t = src[i];
		src[i] = src[k], src[k] = t;
		t = dst[i], dst[i] = dst[l], dst[l] = t;
	}
	enum cohort_status st = world_restore(w, from, src, dst, n, all, &err);
	assert_true(!st || (st == COHORT_NO_ROOM && !all));
	c->n_import += !st && n;
}

/* One operation on one of two worlds of the same shape; false: its books and its lists differ. */
static inline bool play_one(struct world *worlds, struct dice *r, struct counts *c, struct world **played)
{
	struct world *w = &worlds[below(r, 4) == 0];
	const uint32_t op = below(r, 32);

	*played = w;
	if (op < 17)
		random_decode(w, r, c);
	else if (op < 22)
		random_cp(w, r, c);
	else if (op < 27)
		random_rm(w, r, c);
	else if (op < 30)
		random_add(w, r, c);
	else if (op == 30)
		random_import(w, &worlds[below(r, 2)], r, c);
	else if (below(r, 4))
		world_keep(w, (cohort_seq)below(r, w->n_seq), NULL);
	else
		world_clear(w);
	return world_same(w);
}

static inline void init_both(struct world *worlds, size_t n_blocks, size_t size, size_t n_seq, size_t window)
{
	for (int i = 0; i < 2; i++)
		world_init_window(&worlds[i], n_blocks, size, n_seq, window);
	worlds[1].next = UINT32_C(1) << 31; /* no number twice */
}

static inline void release_both(struct world *worlds)
{
	for (int i = 0; i < 2; i++)
		world_release(&worlds[i]);
}

#endif
