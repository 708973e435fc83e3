/* cohort.h's sequences: the memory's tables first, then the cells that move. */
#include "context/impl.h"

#include "base/fp.h"

static enum cohort_status no_context(struct cohort_err *err)
{
	return err_set(err, COHORT_E_ARG, "context is NULL");
}

void context_move_cells(struct cohort_context *c, size_t group, const struct kv_move *moves, size_t n)
{
	struct be_move some[64];
	const size_t most = sizeof some / sizeof *some;

	for (size_t i = 0; i < n;) {
		size_t k = 0;
		for (; k < most && i < n; i++) {
			const struct kv_move *m = &moves[i];
			some[k++] = (struct be_move){m->from, m->from_slot, m->to, m->to_slot, m->n, m->shift};
		}
		forward_cells_move(&c->forward, group, some, k);
	}
}

/* The books have changed already: what a failing device leaves half moved is forgotten. */
static enum cohort_status move_cells(
		struct cohort_context *c, const struct kv_moves *moves, cohort_seq seq, struct cohort_err *err)
{
	struct fp_mode fp;
	int64_t bad;

	fp_enter(&fp);
	for (size_t g = 0; g < c->n_groups; g++)
		context_move_cells(c, g, moves[g].moves, moves[g].n_moves);
	const enum cohort_status st = forward_wait(&c->forward, &bad, err);
	fp_leave(&fp);
	if (st)
		memory_seq_rm(&c->memory, seq, 0, -1, NULL);
	return st;
}

enum cohort_status cohort_seq_rm(
		struct cohort_context *c, cohort_seq seq, cohort_pos p0, cohort_pos p1, struct cohort_err *err)
{
	return c ? memory_seq_rm(&c->memory, seq, p0, p1, err) : no_context(err);
}

enum cohort_status cohort_seq_cp(struct cohort_context *c, cohort_seq src, cohort_seq dst, cohort_pos p0, cohort_pos p1,
		struct cohort_err *err)
{
	struct kv_moves moves[MEMORY_KV_MAX];
	if (!c)
		return no_context(err);
	enum cohort_status st = context_copy_adapter(c, src, dst, p0, p1, true, err);
	if (!st)
		st = memory_seq_cp(&c->memory, src, dst, p0, p1, moves, err);
	if (!st)
		st = move_cells(c, moves, dst, err);
	if (!st)
		context_copy_adapter(c, src, dst, p0, p1, false, err);
	return st;
}

enum cohort_status cohort_seq_keep(struct cohort_context *c, cohort_seq seq, struct cohort_err *err)
{
	return c ? memory_seq_keep(&c->memory, seq, err) : no_context(err);
}

enum cohort_status cohort_seq_add(struct cohort_context *c, cohort_seq seq, cohort_pos p0, cohort_pos p1,
		cohort_pos delta, struct cohort_err *err)
{
	struct kv_moves moves[MEMORY_KV_MAX];
	if (!c)
		return no_context(err);
	enum cohort_status st = memory_seq_add(&c->memory, seq, p0, p1, delta, moves, err);
	return st ? st : move_cells(c, moves, seq, err);
}

enum cohort_status cohort_seq_checkpoint(struct cohort_context *c, cohort_seq seq, struct cohort_err *err)
{
	if (!c)
		return no_context(err);
	if (seq < 0 || seq >= c->p.n_seq_max)
		return err_rule(err, COHORT_E_ARG, "seq-id", -1, seq, c->p.n_seq_max, seq,
				"sequence %d is not in 0 to %d", seq, c->p.n_seq_max - 1);
	return memory_checkpoint(&c->memory, seq, err);
}

cohort_pos cohort_seq_pos_min(const struct cohort_context *c, cohort_seq seq)
{
	return c ? memory_pos_min(&c->memory, seq) : -1;
}

cohort_pos cohort_seq_pos_max(const struct cohort_context *c, cohort_seq seq)
{
	return c ? memory_pos_max(&c->memory, seq) : -1;
}

bool cohort_seq_is_whole(const struct cohort_context *c, cohort_seq seq)
{
	if (!c || seq < 0 || seq >= c->p.n_seq_max)
		return false;
	for (size_t i = 0; i < c->memory.n_kv; i++) {
		const struct kv *kv = c->memory.kv[i];
		if (kv_pos_first(kv, seq) != kv_pos_min(kv, seq) || kv_has_gaps(kv, seq))
			return false;
	}
	return true;
}

void cohort_seq_clear(struct cohort_context *c)
{
	if (c)
		memory_clear(&c->memory);
}
