/* All parts of a context's memory as one.
 *
 * Invariants
 *  1. Every part knows the same sequences with the same last positions.
 *  2. A change is tried dry on every part before it is made on any; what was tried cannot fail. A reservation that
 *     one part refuses is undone in the others.
 * Refuses to know: what the parts keep their books of. */
#include "kv/memory.h"

#include "kv/kv_impl.h"
#include "kv/recur_impl.h"

bool memory_init(struct memory *m, const struct memory_limits *lim)
{
	*m = (struct memory){.n_kv = 0};
	for (size_t i = 0; i < lim->n_kv && i < MEMORY_KV_MAX; i++) {
		m->kv[i] = kv_open(&(struct kv_limits){
				.n_blocks = lim->n_blocks,
				.block_size = lim->block_size,
				.n_seq_max = lim->n_seq_max,
				.n_pos_max = lim->n_pos_max,
				.n_rows_max = lim->n_rows_max,
				.window = lim->window[i],
		});
		if (!m->kv[i])
			return false;
		m->n_kv++;
	}
	if (lim->n_states)
		m->recur = recur_open(&(struct recur_limits){
				.n_states = lim->n_states,
				.n_seq_max = lim->n_seq_max,
				.n_rows_max = lim->n_rows_max,
				.n_checkpoints = lim->n_checkpoints,
				.n_pos_max = lim->n_pos_max,
		});
	return m->n_kv == lim->n_kv && !m->recur == !lim->n_states;
}

void memory_release(struct memory *m)
{
	if (m) {
		for (size_t i = 0; i < m->n_kv; i++)
			kv_free(m->kv[i]);
		recur_free(m->recur);
		*m = (struct memory){.n_kv = 0};
	}
}

/* ---- The transaction ---- */

void memory_begin(struct memory *m)
{
	for (size_t i = 0; i < m->n_kv; i++)
		kv_begin(m->kv[i]);
	if (m->recur)
		recur_begin(m->recur);
}

void memory_commit(struct memory *m)
{
	for (size_t i = 0; i < m->n_kv; i++)
		kv_commit(m->kv[i]);
	if (m->recur)
		recur_commit(m->recur);
}

void memory_rollback(struct memory *m)
{
	for (size_t i = 0; i < m->n_kv; i++)
		kv_rollback(m->kv[i]);
	if (m->recur)
		recur_rollback(m->recur);
}

/* Part i; the recurrent one comes last. */
static enum cohort_status reserve_part(struct memory *m, size_t i, const struct kv_row *rows, size_t n_rows,
		struct memory_plan *plan, struct cohort_err *err)
{
	if (i < m->n_kv)
		return kv_reserve(m->kv[i], rows, n_rows, &plan->kv[i], err);
	return recur_reserve(m->recur, rows, n_rows, &plan->steps, err);
}

static void unreserve_parts(struct memory *m, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (i < m->n_kv)
			kv_unreserve(m->kv[i]);
		else
			recur_unreserve(m->recur);
}

enum cohort_status memory_reserve(struct memory *m, const struct kv_row *rows, size_t n_rows, struct memory_plan *plan,
		struct cohort_err *err)
{
	const size_t n_parts = m->n_kv + (m->recur != NULL);
	struct memory_plan p = {.steps = NULL};
	enum cohort_status st = COHORT_OK;
	size_t n_tried = 0, n = n_rows;
	struct cohort_err e;

	/* Parts do not know of each other, so what fits one does so whatever the others say: after one that lacks room
	 * the rest is asked for as many rows as that had room for, and the last refusal names the fewest. */
	while (n_tried < n_parts && st >= 0) {
		enum cohort_status part = reserve_part(m, n_tried++, rows, n, &p, &e);
		if (part)
			st = part;
		if (part == COHORT_NO_ROOM)
			n = (size_t)e.expected;
	}
	if (st) {
		unreserve_parts(m, n_tried);
		if (err)
			*err = e;
		return st;
	}
	*plan = p;
	return COHORT_OK;
}

/* ---- Looking ---- */

/* The references of part i; the recurrent part comes last. NULL: there is none. */
static const struct places *part_places(const struct memory *m, size_t i)
{
	if (i < m->n_kv)
		return kv_places(m->kv[i]);
	return i == m->n_kv && m->recur ? recur_places(m->recur) : NULL;
}

/* A window does not know of removed cells among those it released, so the part that remembers most is right. */
cohort_pos memory_pos_min(const struct memory *m, cohort_seq seq)
{
	const struct places *p;
	cohort_pos min = -1;

	for (size_t i = 0; (p = part_places(m, i)); i++)
		if (places_look(p, seq)->min > min)
			min = places_look(p, seq)->min;
	return min;
}

cohort_pos memory_pos_max(const struct memory *m, cohort_seq seq)
{
	const struct places *p = part_places(m, 0);
	return p ? places_look(p, seq)->max : -1;
}

bool memory_same(const struct memory *m, cohort_seq a, cohort_seq b)
{
	for (size_t i = 0; i < m->n_kv; i++)
		if (!kv_same(m->kv[i], a, b))
			return false;
	return !m->recur || recur_same(m->recur, a, b);
}

size_t memory_n_live(const struct memory *m)
{
	const struct places *p = part_places(m, 0);
	return p ? p->n_live : 0;
}

void memory_usage_get(const struct memory *m, struct kv_usage *u)
{
	const struct places *p;

	*u = (struct kv_usage){0, 0, 0};
	for (size_t i = 0; (p = part_places(m, i)); i++) {
		const struct kv_usage part = places_usage(p);
		u->n_blocks += part.n_blocks;
		u->n_used += part.n_used;
		u->n_shared += part.n_shared;
	}
}

bool memory_holds(const struct memory *m, cohort_seq seq, cohort_pos p0, cohort_pos p1)
{
	bool any = m->recur && recur_holds(m->recur, seq, p0, p1);

	for (size_t i = 0; i < m->n_kv; i++)
		any |= kv_holds(m->kv[i], seq, p0, p1);
	return any;
}

/* ---- Sequences: dry on every part, then for good ---- */

enum cohort_status memory_seq_rm(
		struct memory *m, cohort_seq seq, cohort_pos p0, cohort_pos p1, struct cohort_err *err)
{
	enum cohort_status st = COHORT_OK;

	for (size_t i = 0; i < m->n_kv && !st; i++)
		st = kv_seq_rm(m->kv[i], seq, p0, p1, true, err);
	if (m->recur && !st)
		st = recur_seq_rm(m->recur, seq, p0, p1, false, err); /* the last may say no itself */
	for (size_t i = 0; i < m->n_kv && !st; i++)
		kv_seq_rm(m->kv[i], seq, p0, p1, false, NULL);
	return st;
}

enum cohort_status memory_seq_cp(struct memory *m, cohort_seq src, cohort_seq dst, cohort_pos p0, cohort_pos p1,
		struct kv_moves *moves, struct cohort_err *err)
{
	enum cohort_status st = COHORT_OK;

	for (size_t i = 0; i < m->n_kv && !st; i++)
		st = kv_seq_cp(m->kv[i], src, dst, p0, p1, true, NULL, err);
	if (m->recur && !st)
		st = recur_seq_cp(m->recur, src, dst, p0, p1, false, err);
	for (size_t i = 0; i < m->n_kv && !st; i++)
		kv_seq_cp(m->kv[i], src, dst, p0, p1, false, &moves[i], NULL);
	return st;
}

enum cohort_status memory_seq_keep(struct memory *m, cohort_seq seq, struct cohort_err *err)
{
	enum cohort_status st = COHORT_OK;

	/* All parts know the same sequences: the first to be asked refuses, or none does. */
	for (size_t i = 0; i < m->n_kv && !st; i++)
		st = kv_seq_keep(m->kv[i], seq, err);
	if (m->recur && !st)
		st = recur_seq_keep(m->recur, seq, err);
	return st;
}

enum cohort_status memory_checkpoint(struct memory *m, cohort_seq seq, struct cohort_err *err)
{
	return m->recur ? recur_checkpoint(m->recur, seq, err) : COHORT_OK;
}

enum cohort_status memory_seq_add(struct memory *m, cohort_seq seq, cohort_pos p0, cohort_pos p1, cohort_pos delta,
		struct kv_moves *moves, struct cohort_err *err)
{
	enum cohort_status st = COHORT_OK;

	for (size_t i = 0; i < m->n_kv && !st; i++)
		st = kv_seq_add(m->kv[i], seq, p0, p1, delta, true, NULL, err);
	if (m->recur && !st)
		st = recur_seq_add(m->recur, seq, p0, p1, delta, false, err);
	for (size_t i = 0; i < m->n_kv && !st; i++)
		kv_seq_add(m->kv[i], seq, p0, p1, delta, false, &moves[i], NULL);
	return st;
}

void memory_clear(struct memory *m)
{
	for (size_t i = 0; i < m->n_kv; i++)
		kv_clear(m->kv[i]);
	if (m->recur)
		recur_clear(m->recur);
}

/* ---- For tests ---- */

bool memory_consistent(const struct memory *m)
{
	bool ok = !m->recur || recur_consistent(m->recur);

	for (size_t i = 0; i < m->n_kv; i++)
		ok = ok && kv_consistent(m->kv[i]);
	return ok;
}

uint64_t memory_hash(const struct memory *m)
{
	uint64_t h = m->recur ? recur_hash(m->recur) : 0;

	for (size_t i = 0; i < m->n_kv; i++)
		h = (h ^ kv_hash(m->kv[i])) * 0x9e3779b97f4a7c15u;
	return h;
}
