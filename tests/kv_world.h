/* The KV books beside a model too simple to be wrong: each sequence is a list, by position, of the cells it holds.
 *
 * A cell is the number of the row that wrote it and the sum of its shifts. A block's data is such cells; a batch does
 * with it what the tensor side does with keys and values: first the plan's copies, then the stores; moves likewise.
 * Every number is used once, so a cell that was missed, or written by somebody else, shows.
 *
 * The lists keep what a window released; `there` tells it from the rest. Which cells the books let go of is theirs to
 * say, within what the window allows. Of gaps among released cells they need not know: a sequence that has some is
 * `odd`, and the books may think that it begins earlier and refuse more than they must. */
#ifndef TESTS_KV_WORLD_H
#define TESTS_KV_WORLD_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "kv/kv.h"

struct world_cell {
	uint32_t id; /* 0: none */
	int32_t shift;
};

struct world {
	struct kv *kv;
	size_t n_blocks, size, n_seq, n_pos, window;
	struct world_cell *data; /* [n_blocks, size] */
	struct world_cell *list; /* [n_seq, n_pos], by position */
	bool *there;             /* [n_seq, n_pos] */
	cohort_pos *max;         /* [n_seq] */
	cohort_pos *begun;       /* [n_seq]: max at the transaction's beginning */
	bool *odd;               /* [n_seq] */
	uint32_t next;
	struct kv_plan plan;     /* of the last batch; its counts outlive the commit */
	struct kv_moves moves;   /* of the last cp or add, likewise */
	bool skip_copies, skip_extra, skip_moves, wrong_shift; /* planted faults */
};

static inline void world_init_window(struct world *w, size_t n_blocks, size_t size, size_t n_seq, size_t window)
{
	*w = (struct world){.n_blocks = n_blocks, .size = size, .n_seq = n_seq, .next = 1, .window = window};
	w->window += window == 1;       /* the last cell stays, whether the next row sees it or not */
	w->n_pos = 3 * n_blocks * size; /* sequences may lose their heads and go on */
	w->kv = kv_open(&(struct kv_limits){n_blocks, size, n_seq, w->n_pos, 1, window});
	w->data = calloc(n_blocks * size, sizeof *w->data);
	w->list = calloc(n_seq * w->n_pos, sizeof *w->list);
	w->there = calloc(n_seq * w->n_pos, sizeof *w->there);
	w->max = malloc(n_seq * sizeof *w->max);
	w->begun = malloc(n_seq * sizeof *w->begun);
	w->odd = calloc(n_seq, sizeof *w->odd);
	assert_true(w->kv && w->data && w->list && w->there && w->max && w->begun && w->odd);
	for (size_t i = 0; i < n_seq; i++)
		w->max[i] = w->begun[i] = -1;
}

static inline void world_init(struct world *w, size_t n_blocks, size_t size, size_t n_seq)
{
	world_init_window(w, n_blocks, size, n_seq, 0);
}

static inline void world_release(struct world *w)
{
	kv_free(w->kv);
	free(w->data);
	free(w->list);
	free(w->there);
	free(w->max);
	free(w->begun);
	free(w->odd);
}

static inline size_t world_used(const struct world *w)
{
	struct kv_usage u;

	u = places_usage(kv_places(w->kv));
	assert_int_equal(u.n_blocks, w->n_blocks);
	return u.n_used;
}

static inline struct world_cell *world_list(const struct world *w, size_t seq)
{
	return w->list + seq * w->n_pos;
}

static inline bool *world_there(const struct world *w, size_t seq)
{
	return w->there + seq * w->n_pos;
}

static inline cohort_pos world_min(const struct world *w, size_t seq)
{
	for (cohort_pos p = 0; p <= w->max[seq]; p++)
		if (world_list(w, seq)[p].id)
			return p;
	return -1;
}

/* The first position the next row after max sees. */
static inline int64_t world_sees(const struct world *w, cohort_pos max)
{
	return w->window ? (int64_t)max + 2 - (int64_t)w->window : 0;
}

/* One sequence. What the window let go of is noted, if it was allowed to. */
static inline bool world_same_seq(const struct world *w, size_t s)
{
	const struct world_cell *list = world_list(w, s);
	const int32_t *table = kv_table(w->kv, (cohort_seq)s);
	const uint32_t *held = kv_held(w->kv, (cohort_seq)s);
	const cohort_pos max = w->max[s], first = kv_pos_first(w->kv, (cohort_seq)s);
	const cohort_pos min = kv_pos_min(w->kv, (cohort_seq)s), want = world_min(w, s);
	bool gaps = false;

	if (kv_pos_max(w->kv, (cohort_seq)s) != max || (w->odd[s] ? min > want || min < 0 : min != want))
		return false;
	for (cohort_pos p = 0; p <= max; p++) {
		const size_t i = (size_t)p / w->size, slot = (size_t)p % w->size;
		const bool has = p >= first && held[i] >> slot & 1;
		bool *there = &world_there(w, s)[p];
		gaps |= p > first && !has;
		if (has) {
			if (!*there || table[i] < 0 || (size_t)table[i] >= w->n_blocks)
				return false;
			if (memcmp(&w->data[(size_t)table[i] * w->size + slot], &list[p], sizeof *list) != 0)
				return false;
		} else if (*there) {
			if (!w->window || p >= world_sees(w, max))
				return false;
			*there = false;
		}
	}
	for (cohort_pos p = want; p < first && !w->odd[s]; p++)
		w->odd[s] = !list[p].id;
	return gaps == kv_has_gaps(w->kv, (cohort_seq)s);
}

/* Whether every sequence holds, read through its table, the cells it must hold. */
static inline bool world_same(const struct world *w)
{
	size_t n = 0;

	for (size_t s = 0; s < w->n_seq; s++) {
		if (!world_same_seq(w, s))
			return false;
		n += w->max[s] >= 0;
	}
	return kv_places(w->kv)->n_live == n;
}

static inline void world_check(const struct world *w)
{
	assert_true(kv_consistent(w->kv));
	assert_true(world_same(w));
}

static inline void world_forget(struct world *w, size_t seq)
{
	memset(world_list(w, seq), 0, w->n_pos * sizeof *w->list);
	memset(world_there(w, seq), 0, w->n_pos * sizeof *w->there);
	w->max[seq] = w->begun[seq] = -1;
	w->odd[seq] = false;
}

/* ---- Decoding ---- */

/* Does to the data what the plan asks for. */
static inline void world_store(struct world *w, const struct kv_row *rows, size_t n_rows)
{
	const struct kv_plan *p = &w->plan;

	for (size_t i = 0; i < p->n_copies && !w->skip_copies; i++)
		memcpy(w->data + (size_t)p->copies[i].to * w->size, w->data + (size_t)p->copies[i].from * w->size,
				w->size * sizeof *w->data);
	for (size_t i = 0; i < n_rows; i++) {
		assert_int_equal(p->stores[i].row, i);
		assert_int_equal(p->stores[i].slot, (size_t)rows[i].pos % w->size);
		w->data[(size_t)p->stores[i].block * w->size + (size_t)p->stores[i].slot] =
				(struct world_cell){w->next + (uint32_t)i, 0};
	}
	for (size_t i = 0; i < p->n_extra && !w->skip_extra; i++) {
		assert_true(p->extra[i].row >= 0 && (size_t)p->extra[i].row < n_rows);
		w->data[(size_t)p->extra[i].block * w->size + (size_t)p->extra[i].slot] =
				(struct world_cell){w->next + (uint32_t)p->extra[i].row, 0};
	}
}

/* One reservation of an open transaction, with its rows computed. A refusal must have changed nothing. */
static inline enum cohort_status world_reserve(struct world *w, const struct kv_row *rows, size_t n_rows,
		struct cohort_err *err)
{
	uint64_t before = kv_hash(w->kv);
	enum cohort_status st = kv_reserve(w->kv, rows, n_rows, &w->plan, err);

	if (st) {
		assert_true(kv_hash(w->kv) == before);
		return st;
	}
	world_store(w, rows, n_rows);
	for (size_t i = 0; i < n_rows; i++)
		for (int32_t k = 0; k < rows[i].n_seq; k++) {
			size_t s = (size_t)rows[i].seq[k];
			world_list(w, s)[rows[i].pos] = (struct world_cell){w->next + (uint32_t)i, 0};
			world_there(w, s)[rows[i].pos] = true;
			w->max[s] = rows[i].pos;
		}
	w->next += (uint32_t)n_rows;
	return COHORT_OK;
}

static inline void world_commit(struct world *w)
{
	kv_commit(w->kv);
	for (size_t s = 0; s < w->n_seq; s++) {
		const int64_t sees = world_sees(w, w->max[s]);
		/* What grew keeps no block of which the next row sees nothing, except its last. */
		if (w->max[s] != w->begun[s] && sees > 0 && sees <= w->max[s])
			assert_true((size_t)kv_pos_first(w->kv, (cohort_seq)s) / w->size >= (size_t)sees / w->size);
		w->begun[s] = w->max[s];
	}
}

static inline void world_rollback(struct world *w)
{
	kv_rollback(w->kv);
	for (size_t s = 0; s < w->n_seq; s++)
		while (w->max[s] > w->begun[s]) {
			world_list(w, s)[w->max[s]] = (struct world_cell){0, 0};
			world_there(w, s)[w->max[s]--] = false;
		}
}

/* One decode. */
static inline enum cohort_status world_decode(struct world *w, const struct kv_row *rows, size_t n_rows,
		struct cohort_err *err)
{
	uint64_t before = kv_hash(w->kv);

	kv_begin(w->kv);
	enum cohort_status st = world_reserve(w, rows, n_rows, err);
	if (st)
		world_rollback(w);
	else
		world_commit(w);
	if (st)
		assert_true(kv_hash(w->kv) == before);
	return st;
}

/* A reservation that is given back. */
static inline void world_roll_back(struct world *w, const struct kv_row *rows, size_t n_rows)
{
	uint64_t before = kv_hash(w->kv);

	kv_begin(w->kv);
	world_reserve(w, rows, n_rows, NULL);
	world_rollback(w);
	assert_true(kv_hash(w->kv) == before);
}

/* n further rows of one sequence. */
static inline enum cohort_status world_append(struct world *w, cohort_seq seq, size_t n, struct cohort_err *err)
{
	struct kv_row *rows = malloc((n + 1) * sizeof *rows);

	assert_non_null(rows);
	for (size_t i = 0; i < n; i++)
		rows[i] = (struct kv_row){w->max[seq] + 1 + (cohort_pos)i, 1, &seq};
	enum cohort_status st = world_decode(w, rows, n, err);
	free(rows);
	return st;
}

/* ---- Changes ---- */

/* Whether a released cell of the list is seen by the row after max. */
static inline bool world_misses(const struct world *w, const struct world_cell *list, const bool *there, cohort_pos max)
{
	if (!w->window)
		return false;
	for (cohort_pos p = max; p >= 0 && p >= world_sees(w, max); p--)
		if (list[p].id && !there[p])
			return true;
	return false;
}

static inline cohort_pos world_last(const struct world *w, const struct world_cell *list)
{
	cohort_pos p = (cohort_pos)w->n_pos - 1;

	while (p >= 0 && !list[p].id)
		p--;
	return p;
}

/* A refusal changes nothing, and a dry call says what the other does. */
static inline void world_expect(const struct world *w, uint64_t before, enum cohort_status dry, enum cohort_status st)
{
	assert_int_equal(dry, st);
	assert_true(!st || kv_hash(w->kv) == before);
}

static inline enum cohort_status world_rm(struct world *w, cohort_seq seq, cohort_pos p0, cohort_pos p1,
		struct cohort_err *err)
{
	uint64_t before = kv_hash(w->kv);
	enum cohort_status dry = kv_seq_rm(w->kv, seq, p0, p1, true, NULL);
	assert_true(kv_hash(w->kv) == before);
	enum cohort_status st = kv_seq_rm(w->kv, seq, p0, p1, false, err);

	world_expect(w, before, dry, st);
	if (st && !(seq >= 0 && (size_t)seq < w->n_seq && p0 >= 0 && p1 >= -1))
		return st;
	struct world_cell *list = world_list(w, (size_t)seq);
	bool *there = world_there(w, (size_t)seq);
	struct world_cell *old = malloc(w->n_pos * sizeof *old);
	memcpy(old, list, w->n_pos * sizeof *old);
	cohort_pos end = p1 < 0 || p1 > (cohort_pos)w->n_pos ? (cohort_pos)w->n_pos : p1, max;
	bool odd = false;
	for (cohort_pos p = p0; p < end; p++) {
		odd |= list[p].id && !there[p];
		list[p].id = 0;
	}
	max = world_last(w, list);
	if (st) {
		assert_true(w->odd[seq] || world_misses(w, list, there, max));
		memcpy(list, old, w->n_pos * sizeof *old);
	} else {
		assert_false(max < w->max[seq] && world_misses(w, list, there, max));
		for (cohort_pos p = p0; p < end; p++) {
			list[p].shift = 0;
			there[p] = false;
		}
		w->max[seq] = w->begun[seq] = max;
		w->odd[seq] = max >= 0 && (w->odd[seq] || odd);
	}
	free(old);
	return st;
}

/* Does the moves of the last call. */
static inline void world_move(struct world *w)
{
	for (size_t i = 0; i < w->moves.n_moves && !w->skip_moves; i++) {
		const struct kv_move *m = &w->moves.moves[i];
		const size_t from = (size_t)m->from * w->size + (size_t)m->from_slot;
		const size_t to = (size_t)m->to * w->size + (size_t)m->to_slot;
		assert_true(m->n > 0 && m->from_slot >= 0 && m->to_slot >= 0 && m->from != m->to);
		assert_true((size_t)(m->from_slot + m->n) <= w->size && (size_t)(m->to_slot + m->n) <= w->size);
		for (size_t k = 0; k < (size_t)m->n; k++) {
			w->data[to + k] = w->data[from + k];
			w->data[to + k].shift += m->shift + w->wrong_shift;
		}
	}
}

static inline enum cohort_status world_cp_range(struct world *w, cohort_seq src, cohort_seq dst, cohort_pos p0,
		cohort_pos p1, struct cohort_err *err)
{
	uint64_t before = kv_hash(w->kv);
	enum cohort_status dry = kv_seq_cp(w->kv, src, dst, p0, p1, true, NULL, NULL);
	assert_true(kv_hash(w->kv) == before);
	enum cohort_status st = kv_seq_cp(w->kv, src, dst, p0, p1, false, &w->moves, err);

	world_expect(w, before, dry, st);
	if (st == COHORT_NO_ROOM)
		assert_int_equal(world_used(w), w->n_blocks);
	if (st || src == dst)
		return st;
	world_move(w);
	const struct world_cell *from = world_list(w, (size_t)src);
	struct world_cell *list = world_list(w, (size_t)dst);
	cohort_pos end = p1 < 0 || p1 > w->max[src] ? w->max[src] + 1 : p1;
	for (cohort_pos p = p0; p < end; p++) {
		const bool there = world_there(w, (size_t)src)[p];
		if (!from[p].id)
			continue;
		assert_false(there && world_there(w, (size_t)dst)[p]);
		w->odd[dst] |= w->odd[src] || (list[p].id != 0);
		if (there || !list[p].id) {
			list[p] = from[p];
			world_there(w, (size_t)dst)[p] = there;
		}
	}
	w->max[dst] = w->begun[dst] = world_last(w, list);
	assert_false(world_misses(w, list, world_there(w, (size_t)dst), w->max[dst]) && !w->odd[dst]);
	return COHORT_OK;
}

static inline enum cohort_status world_cp(struct world *w, cohort_seq src, cohort_seq dst, struct cohort_err *err)
{
	return world_cp_range(w, src, dst, 0, -1, err);
}

static inline enum cohort_status world_add(struct world *w, cohort_seq seq, cohort_pos p0, cohort_pos p1,
		cohort_pos delta, struct cohort_err *err)
{
	uint64_t before = kv_hash(w->kv);
	enum cohort_status dry = kv_seq_add(w->kv, seq, p0, p1, delta, true, NULL, NULL);
	assert_true(kv_hash(w->kv) == before);
	enum cohort_status st = kv_seq_add(w->kv, seq, p0, p1, delta, false, &w->moves, err);

	world_expect(w, before, dry, st);
	if (st || delta == 0)
		return st;
	world_move(w);
	struct world_cell *list = world_list(w, (size_t)seq), *old = malloc(w->n_pos * sizeof *old);
	bool *there = world_there(w, (size_t)seq), *was = malloc(w->n_pos * sizeof *was);
	cohort_pos end = p1 < 0 || p1 > w->max[seq] ? w->max[seq] + 1 : p1;
	memcpy(old, list, w->n_pos * sizeof *old);
	memcpy(was, there, w->n_pos * sizeof *was);
	for (cohort_pos p = p0; p < end; p++) {
		list[p] = (struct world_cell){0, 0};
		there[p] = false;
	}
	for (cohort_pos p = p0; p < end; p++) {
		if (!old[p].id)
			continue;
		assert_true(p + delta >= 0 && p + delta < (cohort_pos)w->n_pos);
		assert_false(there[p + delta]);
		/* Released cells that part or meet leave gaps the books do not see. */
		w->odd[seq] |= !was[p] || list[p + delta].id;
		if (was[p] || !list[p + delta].id) {
			list[p + delta] = (struct world_cell){old[p].id, old[p].shift + delta};
			there[p + delta] = was[p];
		}
	}
	/* What the window released is forgotten where cells that are there come to lie below it. */
	bool seen = false;
	for (size_t p = 0; p < w->n_pos; p++) {
		seen |= there[p];
		w->odd[seq] |= seen && !there[p] && list[p].id;
		if (seen && !there[p])
			list[p] = (struct world_cell){0, 0};
	}
	w->max[seq] = w->begun[seq] = world_last(w, list);
	assert_false(world_misses(w, list, there, w->max[seq]));
	free(old);
	free(was);
	return COHORT_OK;
}

static inline enum cohort_status world_keep(struct world *w, cohort_seq seq, struct cohort_err *err)
{
	enum cohort_status st = kv_seq_keep(w->kv, seq, err);

	for (size_t s = 0; s < w->n_seq && !st; s++)
		if ((cohort_seq)s != seq)
			world_forget(w, s);
	return st;
}

static inline void world_clear(struct world *w)
{
	kv_clear(w->kv);
	for (size_t s = 0; s < w->n_seq; s++)
		world_forget(w, s);
}

/* ---- Images ---- */

/* n_seqs sequences of a world as a saved state would have them, and their data. */
struct world_image {
	struct kv_image image;
	struct kv_image_seq *seqs;
	int32_t *blocks;
	uint32_t *held;
	struct world_cell *data;
	int32_t *ids;
};

static inline void world_save(const struct world *w, const cohort_seq *src, const cohort_seq *dst, size_t n_seqs,
		bool all, struct world_image *im)
{
	const size_t n_index = (w->n_pos + w->size - 1) / w->size;
	int32_t *number = malloc(w->n_blocks * sizeof *number);
	size_t n = 0;

	im->seqs = malloc((n_seqs + 1) * sizeof *im->seqs);
	im->blocks = malloc((n_seqs + 1) * n_index * sizeof *im->blocks);
	im->held = malloc((n_seqs + 1) * n_index * sizeof *im->held);
	im->data = malloc(w->n_blocks * w->size * sizeof *im->data);
	im->ids = malloc(w->n_blocks * sizeof *im->ids);
	memset(number, -1, w->n_blocks * sizeof *number);
	for (size_t k = 0; k < n_seqs; k++) {
		struct kv_image_seq *q = &im->seqs[k];
		int32_t *blocks = im->blocks + k * n_index;
		uint32_t *held = im->held + k * n_index;
		*q = (struct kv_image_seq){dst[k], kv_pos_min(w->kv, src[k]), kv_pos_first(w->kv, src[k]),
				kv_pos_max(w->kv, src[k]), blocks, held, kv_pos_gone(w->kv, src[k])};
		if (q->max < 0)
			continue;
		const size_t from = (size_t)q->first / w->size;
		for (size_t i = from; i <= (size_t)q->max / w->size; i++) {
			const int32_t block = kv_table(w->kv, src[k])[i];
			held[i - from] = kv_held(w->kv, src[k])[i];
			blocks[i - from] = -1;
			if (!held[i - from])
				continue;
			if (number[block] < 0) {
				memcpy(im->data + n * w->size, w->data + (size_t)block * w->size,
						w->size * sizeof *im->data);
				number[block] = (int32_t)n++;
			}
			blocks[i - from] = number[block];
		}
	}
	im->image = (struct kv_image){im->seqs, n_seqs, n, all};
	free(number);
}

static inline void world_image_release(struct world_image *im)
{
	free(im->seqs);
	free(im->blocks);
	free(im->held);
	free(im->data);
	free(im->ids);
}

/* Brings sequences of one world into another of the same shape, which may be itself. */
static inline enum cohort_status world_restore(struct world *w, const struct world *from, const cohort_seq *src,
		const cohort_seq *dst, size_t n_seqs, bool all, struct cohort_err *err)
{
	struct world_image im;
	uint64_t before = kv_hash(w->kv);
	struct world_cell *list = malloc((n_seqs + 1) * w->n_pos * sizeof *list);
	bool *there = malloc((n_seqs + 1) * w->n_pos * sizeof *there), *odd = malloc((n_seqs + 1) * sizeof *odd);

	world_save(from, src, dst, n_seqs, all, &im);
	for (size_t k = 0; k < n_seqs; k++) {
		memcpy(list + k * w->n_pos, world_list(from, (size_t)src[k]), w->n_pos * sizeof *list);
		memcpy(there + k * w->n_pos, world_there(from, (size_t)src[k]), w->n_pos * sizeof *there);
		odd[k] = from->odd[src[k]] || (from->window && kv_pos_min(from->kv, src[k]) >= 0);
	}
	enum cohort_status dry = kv_import(w->kv, &im.image, true, NULL, NULL);
	assert_true(kv_hash(w->kv) == before);
	enum cohort_status st = kv_import(w->kv, &im.image, false, im.ids, err);
	world_expect(w, before, dry, st);
	if (!st) {
		for (size_t i = 0; i < im.image.n_blocks; i++)
			memcpy(w->data + (size_t)im.ids[i] * w->size, im.data + i * w->size, w->size * sizeof *w->data);
		for (size_t s = 0; s < w->n_seq && all; s++)
			world_forget(w, s);
		for (size_t k = 0; k < n_seqs; k++) {
			memcpy(world_list(w, (size_t)dst[k]), list + k * w->n_pos, w->n_pos * sizeof *list);
			memcpy(world_there(w, (size_t)dst[k]), there + k * w->n_pos, w->n_pos * sizeof *there);
			w->odd[dst[k]] = odd[k];
			w->max[dst[k]] = w->begun[dst[k]] = world_last(w, world_list(w, (size_t)dst[k]));
		}
	}
	world_image_release(&im);
	free(list);
	free(there);
	free(odd);
	return st;
}

#endif
