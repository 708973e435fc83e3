/* Calls without memory: encoding whole sequences, and warming up. Their rows use blocks and states behind the pool. */
#include "context/impl.h"

#include "base/fp.h"
#include "base/pool.h"

#include <string.h>

/* Sequences that go through the model together, in blocks behind the pool. */
struct whole {
	size_t n, n_blocks, n_seqs, n_wanted;
	const float *embd;
};

/* Adds a ubatch of whole sequences, n_seqs of n_seq_tokens rows. */
static void whole_add(struct cohort_context *c, struct whole *w, const struct ubatch *u)
{
	const size_t size = BE_BLOCK, len = (size_t)u->n_seq_tokens;

	for (size_t i = 0; i < (size_t)u->n_tokens; i++) {
		const size_t at = w->n++, pos = (size_t)u->pos[i];
		const size_t table = w->n_blocks + i / len * ((len + size - 1) / size);
		c->enc_rows[at] = u->rows[i];
		c->enc_pos[at] = u->pos[i];
		c->enc_tokens[at] = u->tokens ? u->tokens[i] : 0;
		c->end[at] = u->n_seq_tokens;
		c->state_to[at] = (int32_t)(c->n_states + (w->n_seqs + i / len) % context_whole_max(c));
		c->state_from[at] = i % len ? c->state_to[at] : -1;
		c->row_lora[at] = c->lora[u->seq[i][0]];
		for (size_t g = 0; g < c->n_groups; g++) {
			struct context_cells *k = &c->cells[g];
			k->table[at] = (uint32_t)table;
			k->gaps[at] = false;
			k->base[at] = k->first[at] = 0;
			k->stores[at] = (struct be_store){(int32_t)at, c->scratch_ids[table + pos / size],
					(int32_t)(pos % size)};
		}
	}
	w->n_blocks += (size_t)u->n_seqs * ((len + size - 1) / size);
	w->n_seqs += (size_t)u->n_seqs;
	w->embd = u->embd;
}

static enum cohort_status whole_run(
		struct cohort_context *c, struct whole *w, const struct forward_outputs *out, struct cohort_err *err)
{
	struct be_rows rows = {.n = w->n, .tokens = w->embd ? NULL : c->enc_tokens, .embd = w->embd, .pos = c->enc_pos};

	for (size_t g = 0; g < c->n_groups; g++) {
		memcpy(c->cells[g].blocks, c->scratch_ids, w->n_blocks * sizeof *c->scratch_ids);
		rows.cells[g].n_entries = w->n_blocks;
		rows.cells[g].n_stores = w->n;
	}
	enum cohort_status st = context_run_rows(c, &rows, c->enc_rows, out, err);
	*w = (struct whole){0};
	return st;
}

static enum cohort_status whole_flush(struct cohort_context *c, struct whole *w, struct cohort_err *err)
{
	if (w->n == 0)
		return COHORT_OK;
	const struct forward_outputs out = context_place_outputs(c, c->enc_rows, w->n);
	return whole_run(c, w, &out, err);
}

/* As many whole sequences at a time as fit a ubatch. Vectors lie in the split's own buffer, so they go one by one. */
static enum cohort_status encode_all(struct cohort_context *c, struct cohort_err *err)
{
	struct whole w = {0};
	struct ubatch u;
	enum cohort_status st;

	context_trace(c, NULL);
	for (;;) {
		st = batch_split(&c->checked, BATCH_SPLIT_SEQ, c->p.n_ubatch, 0, &u, err);
		if (st)
			return st;
		if (u.n_tokens == 0)
			return whole_flush(c, &w, err);
		const size_t n_blocks = ((size_t)u.n_tokens + BE_BLOCK - 1) / BE_BLOCK;
		if (w.n + (size_t)u.n_tokens > (size_t)c->p.n_ubatch || w.n_blocks + n_blocks > c->n_scratch_blocks ||
				w.n_seqs == context_whole_max(c))
			st = whole_flush(c, &w, err);
		if (st)
			return st;
		context_trace(c, &u);
		whole_add(c, &w, &u);
		if (u.embd)
			st = whole_flush(c, &w, err);
		if (st)
			return st;
	}
}

/* Every row sees its whole sequence, so that must be clear and within one ubatch. */
static enum cohort_status check_whole(const struct cohort_context *c, struct cohort_err *err)
{
	const struct batch_checked *b = &c->checked;
	for (int32_t i = 0; i < b->n_tokens; i++) {
		if (b->n_seq[i] != 1)
			return err_rule(err, COHORT_E_BATCH, "seq-count", i, b->seq[i][0], 1, b->n_seq[i],
					"row %d has %d sequence ids; encode takes one", i, b->n_seq[i]);
		if (b->pos[i] >= c->p.n_ubatch)
			return err_rule(err, COHORT_E_LIMIT, "n-ubatch", i, b->seq[i][0], c->p.n_ubatch,
					batch_seq_pos_max(b, b->seq[i][0]) + 1,
					"sequence %d has %d rows; encode takes at most %d (n_ubatch)", b->seq[i][0],
					batch_seq_pos_max(b, b->seq[i][0]) + 1, c->p.n_ubatch);
	}
	return COHORT_OK;
}

enum cohort_status cohort_encode(struct cohort_context *c, const struct cohort_batch *b, struct cohort_err *err)
{
	if (!c)
		return err_set(err, COHORT_E_ARG, "context is NULL");
	context_forget(c);
	if (!b)
		return err_set(err, COHORT_E_ARG, "batch is NULL");
	const double start = clock_now();
	enum cohort_status st = context_check(c, b, false, err);
	if (!st)
		st = check_whole(c, err);
	if (st)
		return st;
	context_rank_rows(c);
	st = encode_all(c, err);
	if (!st)
		st = context_pool(c, err);
	if (st)
		return st;
	context_publish(c);
	context_count(c, clock_now() - start, 0, c->n_rows);
	return COHORT_OK;
}

double cohort_repack(struct cohort_context *c, double seconds)
{
	struct fp_mode fp;

	if (!c)
		return 1;
	fp_enter(&fp);
	const double done = forward_repack(&c->forward, seconds);
	fp_leave(&fp);
	return done;
}

enum cohort_status cohort_warm_up(
		struct cohort_context *c, int32_t n_seq_tokens, int32_t n_seqs, struct cohort_err *err)
{
	struct whole w = {0};
	struct ubatch u;

	if (!c)
		return err_set(err, COHORT_E_ARG, "context is NULL");
	if (err_range(err, "n_seq_tokens", n_seq_tokens, 1, INT32_MAX) ||
			err_range(err, "n_seqs", n_seqs, 1, INT32_MAX))
		return COHORT_E_ARG;
	const int64_t n = (int64_t)n_seq_tokens * n_seqs;
	const int32_t n_most = (int32_t)context_whole_max(c);
	if (n_seqs > n_most)
		return err_rule(err, COHORT_E_LIMIT, "n-seqs", -1, -1, n_most, n_seqs,
				"a warm-up of %d sequences; at most %d", n_seqs, n_most);
	/* Positions may be rows of a tensor, which has no more of them. */
	if (n_seq_tokens > context_pos_limit(c->model))
		return err_rule(err, COHORT_E_LIMIT, "pos-limit", -1, -1, context_pos_limit(c->model), n_seq_tokens,
				"a warm-up of sequences of %d rows; the model has %d positions", n_seq_tokens,
				context_pos_limit(c->model));
	if (n > c->p.n_ubatch)
		return err_rule(err, COHORT_E_LIMIT, "n-ubatch", -1, -1, c->p.n_ubatch, n,
				"a warm-up of %d sequences of %d rows; at most %d rows (n_ubatch)", n_seqs,
				n_seq_tokens, c->p.n_ubatch);
	enum cohort_status st = batch_reserve(&c->checked, n_seq_tokens, n_seqs, &u, err);
	if (st)
		return st;
	while (cohort_repack(c, 0) < 1)
		if (c->p.abort && c->p.abort(c->p.abort_user)) {
			batch_clear(&c->checked);
			return err_set(err, COHORT_ABORTED, "aborted by the caller");
		}
	forward_touch(&c->forward);
	whole_add(c, &w, &u);
	const size_t n_places = c->n_places, n_logits = c->n_logits;
	const size_t at = (size_t)c->p.n_batch; /* a place that no row of a batch has */
	c->wanted[0] = c->logit_rows[0] = u.n_tokens - 1;
	c->logit_at[0] = 0;
	const struct forward_outputs out = {
			c->wanted, 1, at, c->logit_at, c->logit_rows, c->forward.logits ? 1 : 0, at};
	st = whole_run(c, &w, &out, err);
	c->n_places = n_places;
	c->n_logits = n_logits;
	batch_clear(&c->checked);
	return st;
}

