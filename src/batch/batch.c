/* The batch container.
 *
 * Invariants
 *  1. No pointer into the struct itself is stored, so a byte copy is a move.
 *  2. Nothing is written past n_max rows or n_seq_row_max ids. */
#include "batch/batch.h"

#include "base/mem.h"

#include <string.h>

enum { STORAGE_NONE, STORAGE_FULL, STORAGE_TOKENS };

enum cohort_status cohort_batch_init(
		struct cohort_batch *b, int32_t n_max, int32_t n_seq_row_max, struct cohort_err *err)
{
	struct cohort_batch n = {0};
	size_t n_ids;

	if (!b || n_max < 1 || n_seq_row_max < 1)
		return err_set(err, COHORT_E_ARG,
				"a batch needs room for at least one row and one sequence id (got %d and %d)", n_max,
				n_seq_row_max);
	if (!size_mul((size_t)n_max, (size_t)n_seq_row_max, &n_ids))
		return err_set(err, COHORT_E_MEMORY, "out of memory for a batch of %d rows", n_max);
	n.n_max = n_max;
	n.n_seq_row_max = n_seq_row_max;
	n.storage = STORAGE_FULL;
	n.tokens = mem_zalloc((size_t)n_max, sizeof *n.tokens);
	n.pos = mem_zalloc((size_t)n_max, sizeof *n.pos);
	n.n_seq = mem_zalloc((size_t)n_max, sizeof *n.n_seq);
	n.seq = mem_zalloc(n_ids, sizeof *n.seq);
	n.output = mem_zalloc((size_t)n_max, sizeof *n.output);
	if (!n.tokens || !n.pos || !n.n_seq || !n.seq || !n.output) {
		cohort_batch_release(&n);
		return err_set(err, COHORT_E_MEMORY, "out of memory for a batch of %d rows", n_max);
	}
	*b = n;
	return COHORT_OK;
}

enum cohort_status cohort_batch_from_tokens(
		struct cohort_batch *b, const cohort_token *tokens, int32_t n_tokens, struct cohort_err *err)
{
	struct cohort_batch n = {.storage = STORAGE_TOKENS, .n_tokens = n_tokens, .n_max = n_tokens};

	if (!b || n_tokens < 0 || (n_tokens > 0 && !tokens))
		return err_set(err, COHORT_E_ARG, "no tokens given");
	if (n_tokens > COHORT_BATCH_INLINE) {
		n.tokens = mem_dup(tokens, (size_t)n_tokens * sizeof *tokens);
		if (!n.tokens)
			return err_set(err, COHORT_E_MEMORY, "out of memory for a batch of %d tokens", n_tokens);
	} else if (n_tokens) {
		memcpy(n.inline_tokens, tokens, (size_t)n_tokens * sizeof *tokens);
	}
	*b = n;
	return COHORT_OK;
}

enum cohort_status cohort_batch_add(struct cohort_batch *b, cohort_token token, cohort_pos pos, const cohort_seq *seqs,
		int32_t n_seqs, bool output, struct cohort_err *err)
{
	if (!b || b->storage != STORAGE_FULL)
		return err_set(err, COHORT_E_ARG, "rows can be added only to a batch made by cohort_batch_init");
	if (b->n_tokens >= b->n_max)
		return err_rule(err, COHORT_E_LIMIT, "batch-full", b->n_tokens, -1, b->n_max, b->n_tokens + 1,
				"the batch is full: it has room for %d rows", b->n_max);
	if (n_seqs < 1 || n_seqs > b->n_seq_row_max || !seqs)
		return err_rule(err, COHORT_E_ARG, "seq-count", b->n_tokens, -1, b->n_seq_row_max, n_seqs,
				"row %d has %d sequence ids; the batch has room for 1 to %d", b->n_tokens, n_seqs,
				b->n_seq_row_max);
	size_t i = (size_t)b->n_tokens++;
	b->tokens[i] = token;
	b->pos[i] = pos;
	b->n_seq[i] = n_seqs;
	memcpy(b->seq + i * (size_t)b->n_seq_row_max, seqs, (size_t)n_seqs * sizeof *seqs);
	b->output[i] = output;
	return COHORT_OK;
}

void cohort_batch_reset(struct cohort_batch *b)
{
	b->n_tokens = 0;
}

void cohort_batch_release(struct cohort_batch *b)
{
	if (b) {
		mem_free(b->tokens);
		mem_free(b->pos);
		mem_free(b->n_seq);
		mem_free(b->seq);
		mem_free(b->output);
		*b = (struct cohort_batch){0};
	}
}
