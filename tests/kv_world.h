/* The KV books beside a model too simple to be wrong: each sequence is a list of the rows that wrote its cells.
 *
 * A block's data is the numbers of the rows that wrote its slots. A batch does with it what the tensor side does with
 * keys and values: first the plan's copies, then the stores. Every number is used once, so a cell that was missed, or
 * written by somebody else, shows. */
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

struct world {
	struct kv *kv;
	size_t n_blocks, size, n_seq, n_pos;
	uint32_t *data; /* [n_blocks, size] */
	uint32_t *list; /* [n_seq, n_pos], by position */
	cohort_pos *min, *max;
	uint32_t next;
	struct kv_plan plan;            /* of the last batch; its counts outlive the commit */
	bool skip_copies, skip_extra;   /* planted faults */
};

static inline void world_init(struct world *w, size_t n_blocks, size_t size, size_t n_seq)
{
	*w = (struct world){.n_blocks = n_blocks, .size = size, .n_seq = n_seq, .next = 1};
	w->n_pos = 3 * n_blocks * size; /* sequences may lose their heads and go on */
	w->kv = kv_open(&(struct kv_limits){n_blocks, size, n_seq, w->n_pos, 1});
	w->data = calloc(n_blocks * size, sizeof *w->data);
	w->list = calloc(n_seq * w->n_pos, sizeof *w->list);
	w->min = malloc(n_seq * sizeof *w->min);
	w->max = malloc(n_seq * sizeof *w->max);
	assert_true(w->kv && w->data && w->list && w->min && w->max);
	for (size_t i = 0; i < n_seq; i++)
		w->min[i] = w->max[i] = -1;
}

static inline void world_release(struct world *w)
{
	kv_free(w->kv);
	free(w->data);
	free(w->list);
	free(w->min);
	free(w->max);
}

static inline size_t world_used(const struct world *w)
{
	struct kv_usage u;

	kv_usage_get(w->kv, &u);
	assert_int_equal(u.n_blocks, w->n_blocks);
	return u.n_used;
}

/* Whether every sequence holds, read through its table, the cells it must hold. */
static inline bool world_same(const struct world *w)
{
	for (size_t s = 0; s < w->n_seq; s++) {
		const int32_t *table = kv_table(w->kv, (cohort_seq)s);
		if (kv_pos_min(w->kv, (cohort_seq)s) != w->min[s] || kv_pos_max(w->kv, (cohort_seq)s) != w->max[s])
			return false;
		for (cohort_pos p = w->min[s]; p >= 0 && p <= w->max[s]; p++) {
			int32_t block = table[(size_t)p / w->size];
			if (block < 0 || (size_t)block >= w->n_blocks)
				return false;
			if (w->data[(size_t)block * w->size + (size_t)p % w->size] != w->list[s * w->n_pos + (size_t)p])
				return false;
		}
	}
	return true;
}

static inline void world_check(const struct world *w)
{
	assert_true(kv_consistent(w->kv));
	assert_true(world_same(w));
}

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
		w->data[(size_t)p->stores[i].block * w->size + (size_t)p->stores[i].slot] = w->next + (uint32_t)i;
	}
	for (size_t i = 0; i < p->n_extra && !w->skip_extra; i++) {
		assert_true(p->extra[i].row >= 0 && (size_t)p->extra[i].row < n_rows);
		w->data[(size_t)p->extra[i].block * w->size + (size_t)p->extra[i].slot] =
				w->next + (uint32_t)p->extra[i].row;
	}
}

/* One decode. A refusal must have changed nothing. */
static inline enum cohort_status world_decode(struct world *w, const struct kv_row *rows, size_t n_rows,
		struct cohort_err *err)
{
	uint64_t before = kv_hash(w->kv);
	enum cohort_status st = kv_reserve(w->kv, rows, n_rows, &w->plan, err);

	if (st) {
		assert_true(kv_hash(w->kv) == before);
		return st;
	}
	world_store(w, rows, n_rows);
	kv_commit(w->kv);
	for (size_t i = 0; i < n_rows; i++)
		for (int32_t k = 0; k < rows[i].n_seq; k++) {
			size_t s = (size_t)rows[i].seq[k];
			w->list[s * w->n_pos + (size_t)rows[i].pos] = w->next + (uint32_t)i;
			w->max[s] = rows[i].pos;
			if (w->min[s] < 0)
				w->min[s] = rows[i].pos;
		}
	w->next += (uint32_t)n_rows;
	return COHORT_OK;
}

/* A reservation that is given back. */
static inline void world_roll_back(struct world *w, const struct kv_row *rows, size_t n_rows)
{
	uint64_t before = kv_hash(w->kv);
	struct kv_plan plan;

	if (!kv_reserve(w->kv, rows, n_rows, &plan, NULL))
		kv_rollback(w->kv);
	assert_true(kv_hash(w->kv) == before);
}

static inline enum cohort_status world_rm(struct world *w, cohort_seq seq, cohort_pos p0, cohort_pos p1,
		struct cohort_err *err)
{
	uint64_t before = kv_hash(w->kv);
	enum cohort_status st = kv_seq_rm(w->kv, seq, p0, p1, err);

	if (st) {
		assert_true(kv_hash(w->kv) == before);
		return st;
	}
	cohort_pos *min = &w->min[seq], *max = &w->max[seq];
	if (*max < 0 || p0 > *max || (p1 >= 0 && (p1 <= *min || p1 <= p0)))
		return COHORT_OK;
	if (p0 > *min)
		*max = p0 - 1;
	else if (p1 >= 0 && p1 <= *max)
		*min = p1;
	else
		*min = *max = -1;
	return COHORT_OK;
}

static inline enum cohort_status world_cp(struct world *w, cohort_seq src, cohort_seq dst, struct cohort_err *err)
{
	uint64_t before = kv_hash(w->kv);
	enum cohort_status st = kv_seq_cp(w->kv, src, dst, err);

	if (st) {
		assert_true(kv_hash(w->kv) == before);
		return st;
	}
	if (src == dst)
		return COHORT_OK;
	memcpy(w->list + (size_t)dst * w->n_pos, w->list + (size_t)src * w->n_pos, w->n_pos * sizeof *w->list);
	w->min[dst] = w->min[src];
	w->max[dst] = w->max[src];
	return COHORT_OK;
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

#endif
