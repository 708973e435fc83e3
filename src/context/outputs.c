/* Outputs: where those of a call go, embeddings of sequences, and what callers ask for.
 *
 * Invariants
 *  1. Outputs are computed in the order of the ubatches; `outputs` names them in batch order.
 *  2. Rows come to the host in one transfer, when the first of them is asked for. */
#include "context/impl.h"

#include "base/fp.h"

#include <string.h>

void context_forget(struct cohort_context *c)
{
	c->n_rows = c->n_outputs = c->n_places = c->n_logits = 0;
	if (++c->call == 0) { /* wrapped around: the old marks are worthless */
		memset(c->pooled_in, 0, (size_t)c->p.n_seq_max * sizeof *c->pooled_in);
		memset(c->named, 0, (size_t)c->p.n_seq_max * sizeof *c->named);
		c->call = 1;
	}
}

bool context_output_all(const struct cohort_context *c)
{
	return c->p.output_all || c->p.pooling != COHORT_POOL_NONE;
}

/* Outputs in the order of the rows. */
void context_rank_rows(struct cohort_context *c)
{
	int32_t n = 0;
	for (int32_t i = 0; i < c->checked.n_tokens; i++)
		if (c->checked.output[i]) {
			c->rank_of[i] = n;
			c->outputs[n++].row = i;
		}
}

/* Rows that ask for output get the next places, with logits or without. */
struct forward_outputs context_place_outputs(struct cohort_context *c, const int32_t *rows, size_t n)
{
	struct forward_outputs out = {c->wanted, 0, c->n_places, c->logit_at, c->logit_rows, 0, c->n_logits};

	for (size_t i = 0; i < n; i++) {
		const uint8_t want = c->checked.output[rows[i]];
		if (!want)
			continue;
		struct output *o = &c->outputs[c->rank_of[rows[i]]];
		o->place = (int32_t)(out.row + out.n);
		o->logits = -1;
		if (c->forward.logits && (want != COHORT_ROW_EMBEDDING || !c->forward.embeddings)) {
			o->logits = (int32_t)(out.logit_row + out.n_logits);
			c->logit_at[out.n_logits] = (int32_t)out.n;
			c->logit_rows[out.n_logits++] = (int32_t)i;
		}
		c->wanted[out.n++] = (int32_t)i;
	}
	return out;
}

/* One embedding per sequence, over its rows in batch order. */
enum cohort_status context_pool(struct cohort_context *c, struct cohort_err *err)
{
	const struct batch_checked *b = &c->checked;
	struct be_buf *embeddings = c->forward.embeddings;
	struct fp_mode fp;
	int64_t bad;

	if (c->p.pooling == COHORT_POOL_NONE)
		return COHORT_OK;
	const float *rows = embeddings->be->ops->outputs(embeddings, c->n_places);
	if (!rows)
		return forward_wait(&c->forward, &bad, err);
	const size_t n = embeddings->n_cols;
	fp_enter(&fp);
	for (int32_t i = 0; i < b->n_tokens; i++)
		for (int32_t j = 0; j < b->n_seq[i]; j++) {
			const cohort_seq seq = b->seq[i][j];
			const float *row = rows + (size_t)c->outputs[c->rank_of[i]].place * n;
			float *sum = c->pooled + (size_t)seq * n;
			if (c->pooled_in[seq] != c->call)
				c->n_pooled[seq] = 0;
			c->pooled_in[seq] = c->call;
			const bool first = c->n_pooled[seq]++ == 0;
			if (first || c->p.pooling == COHORT_POOL_LAST)
				memcpy(sum, row, n * sizeof *sum);
			for (size_t k = 0; !first && c->p.pooling == COHORT_POOL_MEAN && k < n; k++)
				sum[k] += row[k];
		}
	/* Each sequence once: at the row that is its last. */
	for (int32_t i = 0; c->p.pooling == COHORT_POOL_MEAN && i < b->n_tokens; i++)
		for (int32_t j = 0; j < b->n_seq[i]; j++) {
			const cohort_seq seq = b->seq[i][j];
			const bool last = b->pos[i] == batch_seq_pos_max(b, seq);
			for (size_t k = 0; last && k < n; k++)
				c->pooled[(size_t)seq * n + k] /= (float)c->n_pooled[seq];
		}
	fp_leave(&fp);
	return COHORT_OK;
}

/* The call went well: its outputs may be asked for. */
void context_publish(struct cohort_context *c)
{
	c->n_rows = (size_t)c->checked.n_tokens;
	c->n_outputs = (size_t)c->checked.n_outputs;
}

/* ---- Asked for by the caller ---- */

int32_t cohort_n_outputs(const struct cohort_context *c)
{
	return c ? (int32_t)c->n_outputs : 0;
}

/* Which of the outputs row i is, or -1 with the reason. */
static int64_t find_output(const struct cohort_context *c, int32_t i, struct cohort_err *err)
{
	size_t lo = 0, hi = c->n_outputs;

	if (i < 0 && (int64_t)c->n_outputs + i >= 0)
		return (int64_t)c->n_outputs + i;
	while (lo < hi) {
		const size_t mid = lo + (hi - lo) / 2;
		if (c->outputs[mid].row < i)
			lo = mid + 1;
		else
			hi = mid;
	}
	if (i >= 0 && lo < c->n_outputs && c->outputs[lo].row == i)
		return (int64_t)lo;
	err_rule(err, COHORT_E_ARG, "output-index", i, -1, (int64_t)c->n_outputs, i,
			i >= 0 && (size_t)i < c->n_rows ? "row %d of the last decode did not ask for output"
							: "index %d is outside the last decode",
			i);
	return -1;
}

static const float *get_row(const struct cohort_context *c, struct be_buf *b, const char *what, int32_t i,
		struct cohort_err *err)
{
	if (!b) {
		err_set(err, COHORT_E_ARG, "the context was opened without %s among its outputs", what);
		return NULL;
	}
	const int64_t at = find_output(c, i, err);
	if (at < 0)
		return NULL;
	const struct output *o = &c->outputs[at];
	const bool logits = b == c->forward.logits;
	const int32_t place = logits ? o->logits : o->place;
	if (place >= 0)
		return forward_row(b, (size_t)place, logits ? c->n_logits : c->n_places, err);
	err_rule(err, COHORT_E_ARG, "output-kind", o->row, -1, 1, COHORT_ROW_EMBEDDING,
			"row %d of the last decode asked for its embedding only", o->row);
	return NULL;
}

const float *context_logits_at(const struct cohort_context *c, size_t rank, struct cohort_err *err)
{
	return forward_row(c->forward.logits, (size_t)c->outputs[rank].logits, c->n_logits, err);
}

const float *cohort_logits_get(const struct cohort_context *c, int32_t i, struct cohort_err *err)
{
	if (c)
		return get_row(c, c->forward.logits, "logits", i, err);
	err_set(err, COHORT_E_ARG, "context is NULL");
	return NULL;
}

const float *cohort_embeddings_get(const struct cohort_context *c, int32_t i, struct cohort_err *err)
{
	if (c)
		return get_row(c, c->forward.embeddings, "embeddings", i, err);
	err_set(err, COHORT_E_ARG, "context is NULL");
	return NULL;
}

const float *cohort_embeddings_seq_get(const struct cohort_context *c, cohort_seq seq, struct cohort_err *err)
{
	if (!c)
		err_set(err, COHORT_E_ARG, "context is NULL");
	else if (c->p.pooling == COHORT_POOL_NONE)
		err_set(err, COHORT_E_ARG, "the context was opened without pooling");
	else if (seq < 0 || seq >= c->p.n_seq_max)
		err_rule(err, COHORT_E_ARG, "seq-id", -1, seq, c->p.n_seq_max, seq, "sequence %d is not in 0 to %d",
				seq, c->p.n_seq_max - 1);
	else if (c->n_rows == 0 || c->pooled_in[seq] != c->call)
		err_rule(err, COHORT_E_ARG, "output-index", -1, seq, 1, 0, "sequence %d had no row in the last decode",
				seq);
	else
		return c->pooled + (size_t)seq * c->forward.embeddings->n_cols;
	return NULL;
}
