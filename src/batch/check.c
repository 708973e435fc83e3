/* Checking a batch and filling in what it leaves out.
 *
 * Invariants
 *  1. The cost depends on the rows, not on n_seq_max: per-sequence notes are valid only when their epoch is the current
 *     one.
 *  2. A row's ids either all appear for the first time (and share their history in memory) or all had the same last
 *     row: sets may shrink along a sequence, never mix. */
#include "batch/batch.h"

#include "base/mem.h"

#include <string.h>

struct batch_seq {
	uint32_t epoch;
	int32_t last_row, n_rows;
	int32_t in_row; /* the last row that named the id, to find repeats within a row */
	cohort_pos next;
};

static bool make_room(struct batch_checked *c, size_t n_rows, size_t n_seq)
{
	if (!mem_grow((void **)&c->rows, &c->rows_max, n_rows, sizeof *c->rows))
		return false;
	if (c->seqs_max < n_seq) {
		struct batch_seq *s = mem_zalloc(n_seq, sizeof *s);
		if (!s)
			return false;
		mem_free(c->seqs);
		c->seqs = s;
		c->seqs_max = n_seq;
		c->epoch = 0;
	}
	return true;
}

bool batch_checked_init(struct batch_checked *c, size_t n_rows, size_t n_seq)
{
	*c = (struct batch_checked){0};
	return make_room(c, n_rows, n_seq);
}

void batch_checked_release(struct batch_checked *c)
{
	if (c) {
		mem_free(c->rows);
		mem_free(c->seqs);
		*c = (struct batch_checked){0};
	}
}

static struct batch_seq *note(struct batch_checked *c, cohort_seq id, const struct batch_memory *mem)
{
	struct batch_seq *s = &c->seqs[id];
	if (s->epoch != c->epoch)
		*s = (struct batch_seq){c->epoch, -1, 0, -1, mem ? mem->pos_max(mem->user, id) + 1 : 0};
	return s;
}

static enum cohort_status check_ids(struct batch_checked *c, const struct batch_row *r, int32_t i,
		const struct batch_limits *lim, const struct batch_memory *mem, struct cohort_err *err)
{
	if (r->n_seq < 1)
		return err_rule(err, COHORT_E_BATCH, "seq-count", i, -1, 1, r->n_seq, "row %d has no sequence id", i);
	for (int32_t j = 0; j < r->n_seq; j++) {
		cohort_seq id = r->seq[j];
		if (id < 0 || id >= lim->n_seq_max)
			return err_rule(err, COHORT_E_BATCH, "seq-id", i, id, lim->n_seq_max, id,
					"row %d names sequence %d; ids are 0 to %d", i, id, lim->n_seq_max - 1);
		struct batch_seq *s = note(c, id, mem);
		if (s->in_row == i)
			return err_rule(err, COHORT_E_BATCH, "seq-repeat", i, id, 1, 2,
					"row %d names sequence %d twice", i, id);
		s->in_row = i;
	}
	const struct batch_seq *lead = note(c, r->seq[0], mem);
	for (int32_t j = 1; j < r->n_seq; j++) {
		const struct batch_seq *s = note(c, r->seq[j], mem);
		if (s->last_row != lead->last_row)
			return err_rule(err, COHORT_E_BATCH, "seq-sets", i, r->seq[j], lead->last_row, s->last_row,
					"row %d couples sequences %d and %d, which had different rows before",
					i, r->seq[0], r->seq[j]);
		if (s->last_row < 0 && mem && !mem->same(mem->user, r->seq[0], r->seq[j]))
			return err_rule(err, COHORT_E_BATCH, "seq-history", i, r->seq[j], lead->next, s->next,
					"row %d couples sequences %d and %d, which do not hold the same cells", i,
					r->seq[0], r->seq[j]);
	}
	return COHORT_OK;
}

static enum cohort_status check_pos(struct batch_checked *c, const struct batch_row *r, int32_t i,
		const struct batch_limits *lim, const struct batch_memory *mem, struct cohort_err *err)
{
	if (r->pos < 0)
		return err_rule(err, COHORT_E_BATCH, "pos-negative", i, r->seq[0], 0, r->pos, "row %d has position %d",
				i, r->pos);
	if (r->pos >= lim->n_pos_max)
		return err_rule(err, COHORT_E_BATCH, "pos-limit", i, r->seq[0], lim->n_pos_max, r->pos,
				"row %d has position %d; a sequence ends before %d", i, r->pos, lim->n_pos_max);
	for (int32_t j = 0; j < r->n_seq; j++) {
		struct batch_seq *s = note(c, r->seq[j], mem);
		if (r->pos != s->next)
			return err_rule(err, COHORT_E_BATCH, s->last_row < 0 ? "pos-start" : "pos-step", i, r->seq[j],
					s->next, r->pos, "row %d has position %d; sequence %d goes on at %d", i, r->pos,
					r->seq[j], s->next);
		s->next = r->pos + 1;
		s->last_row = i;
		s->n_rows++;
	}
	return COHORT_OK;
}

static enum cohort_status check_rows(struct batch_checked *c, const struct cohort_batch *b,
		const struct batch_limits *lim, const struct batch_memory *mem, struct cohort_err *err)
{
	static const cohort_seq zero = 0;
	const cohort_token *tokens = b->tokens ? b->tokens : b->inline_tokens;
	enum cohort_status st;

	for (int32_t i = 0; i < b->n_tokens; i++) {
		struct batch_row *r = &c->rows[i];
		r->token = tokens[i];
		r->n_seq = b->n_seq ? b->n_seq[i] : 1;
		r->seq = b->seq ? b->seq + (size_t)i * (size_t)b->n_seq_row_max : &zero;
		r->output = b->output ? b->output[i] : i == b->n_tokens - 1;
		if (r->token < 0 || r->token >= lim->n_vocab)
			return err_rule(err, COHORT_E_BATCH, "token", i, -1, lim->n_vocab, r->token,
					"row %d has token %d; the vocabulary ends at %d", i, r->token,
					lim->n_vocab - 1);
		st = check_ids(c, r, i, lim, mem, err);
		if (st)
			return st;
		r->pos = b->pos ? b->pos[i] : note(c, r->seq[0], mem)->next;
		st = check_pos(c, r, i, lim, mem, err);
		if (st)
			return st;
		c->n_outputs += r->output;
	}
	for (int32_t i = 0; i < b->n_tokens; i++)
		c->rows[i].single = c->seqs[c->rows[i].seq[0]].n_rows == 1;
	c->n_rows = (size_t)b->n_tokens;
	return COHORT_OK;
}

enum cohort_status batch_check(struct batch_checked *c, const struct cohort_batch *b, const struct batch_limits *lim,
		const struct batch_memory *mem, struct cohort_err *err)
{
	c->n_rows = c->n_outputs = 0;
	if (b->n_tokens < 1)
		return err_rule(err, COHORT_E_BATCH, "n-tokens", -1, -1, 1, b->n_tokens, "the batch has no rows");
	if (b->n_tokens > lim->n_rows_max)
		return err_rule(err, COHORT_E_LIMIT, "n-batch", -1, -1, lim->n_rows_max, b->n_tokens,
				"the batch has %d rows; the context takes at most %d (n_batch)", b->n_tokens,
				lim->n_rows_max);
	if (!make_room(c, (size_t)b->n_tokens, (size_t)lim->n_seq_max))
		return err_set(err, COHORT_E_MEMORY, "out of memory for a batch of %d rows", b->n_tokens);
	if (++c->epoch == 0) {
		memset(c->seqs, 0, c->seqs_max * sizeof *c->seqs);
		c->epoch = 1;
	}
	return check_rows(c, b, lim, mem, err);
}

void batch_split_simple(const struct batch_checked *c, size_t n_ubatch, size_t *at, size_t *from, size_t *n)
{
	size_t left = c->n_rows - *at;
	*from = *at;
	*n = left < n_ubatch ? left : n_ubatch;
	*at += *n;
}
