/* Batches and ubatches as text, for looking.
 *
 * Invariants
 *  1. Nothing is written past n_max bytes, and what is written ends with a NUL.
 *  2. Texts are made of the arrays alone: a batch that would be refused can be looked at, too. */
#include "batch/work.h"

#include <stdarg.h>
#include <stdio.h>

/* A text that counts on when it no longer fits. */
struct text {
	char *out;
	size_t n, n_max;
};

static void put(struct text *t, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

static void put(struct text *t, const char *fmt, ...)
{
	size_t room = t->n < t->n_max ? t->n_max - t->n : 0;
	va_list ap;

	va_start(ap, fmt);
	t->n += (size_t)vsnprintf(room ? t->out + t->n : NULL, room, fmt, ap);
	va_end(ap);
}

/* What the rows of batches, checked batches and ubatches have in common. Arrays may be NULL: left out. */
struct rows {
	int32_t n_rows, n_pos_row, n_seq_row_max;
	const cohort_token *tokens;
	const cohort_pos *pos;
	const int32_t *n_seq;
	const cohort_seq *flat;       /* [n_rows, n_seq_row_max] */
	const cohort_seq *const *seq; /* [n_rows]; instead of flat */
	const uint8_t *output;
	const int32_t *numbers;
};

static void put_ids(struct text *t, const struct rows *r, int32_t i)
{
	int32_t n = r->n_seq ? r->n_seq[i] : 1;
	const cohort_seq *ids = r->seq ? r->seq[i] : r->flat;

	put(t, "  seq ");
	if (!ids) {
		put(t, "auto");
		return;
	}
	if (!r->seq) {
		ids += (size_t)i * (size_t)r->n_seq_row_max;
		n = n < r->n_seq_row_max ? n : r->n_seq_row_max; /* not checked yet */
	}
	if (n < 1)
		put(t, "none");
	for (int32_t j = 0; j < n; j++)
		put(t, "%s%d", j ? "," : "", ids[j]);
}

static void put_rows(struct text *t, const struct rows *r)
{
	for (int32_t i = 0; i < r->n_rows; i++) {
		put(t, "%6d  ", r->numbers ? r->numbers[i] : i);
		if (r->tokens)
			put(t, "token %7d  pos ", r->tokens[i]);
		else
			put(t, "vector         pos ");
		if (!r->pos)
			put(t, "%7s", "auto");
		for (int32_t k = 0; r->pos && k < r->n_pos_row; k++)
			put(t, k ? ",%d" : "%7d", r->pos[(size_t)i * (size_t)r->n_pos_row + (size_t)k]);
		static const char *const kinds[] = {"no", "yes", "embd"};
		const uint8_t kind = r->output ? r->output[i] : 0;
		put(t, "  output %4s", !r->output ? "auto" : kinds[kind == COHORT_ROW_EMBEDDING ? 2 : kind != 0]);
		put_ids(t, r, i);
		put(t, "\n");
	}
}

static void put_kind(struct text *t, const float *embd, int32_t n_embd)
{
	if (embd)
		put(t, "vectors of %d", n_embd);
	else
		put(t, "tokens");
}

size_t cohort_batch_dump(const struct cohort_batch *b, char *out, size_t n_max)
{
	struct text t = {out, 0, n_max};
	struct cohort_batch_raw raw;

	if (!b) {
		put(&t, "batch: none\n");
		return t.n;
	}
	batch_arrays(b, &raw);
	put(&t, "batch: %d of %d rows, ", raw.n_tokens, b->n_max);
	put_kind(&t, raw.embd, raw.n_embd);
	put(&t, ", %d position%s and up to %d id%s each\n", raw.n_pos_row, raw.n_pos_row == 1 ? "" : "s",
			raw.n_seq_row_max, raw.n_seq_row_max == 1 ? "" : "s");
	put_rows(&t, &(struct rows){.n_rows = raw.n_tokens, .n_pos_row = raw.n_pos_row,
			.n_seq_row_max = raw.n_seq_row_max, .tokens = raw.tokens, .pos = raw.pos, .n_seq = raw.n_seq,
			.flat = raw.seq, .output = raw.output});
	return t.n;
}

size_t batch_dump(const struct batch_checked *c, char *out, size_t n_max)
{
	struct text t = {out, 0, n_max};

	put(&t, "checked batch: %d rows, ", c->n_tokens);
	put_kind(&t, c->embd, c->n_embd);
	put(&t, ", %d outputs, %d rows used\n", c->n_outputs, c->n_used);
	put_rows(&t, &(struct rows){.n_rows = c->n_tokens, .n_pos_row = c->n_pos_row, .tokens = c->tokens,
			.pos = c->pos, .n_seq = c->n_seq, .seq = c->seq, .output = c->output});
	return t.n;
}

size_t batch_dump_ubatch(const struct ubatch *u, char *out, size_t n_max)
{
	struct text t = {out, 0, n_max};

	put(&t, "ubatch: %d rows, ", u->n_tokens);
	put_kind(&t, u->embd, u->n_embd);
	put(&t, ", %d %s of %d\n", u->n_seqs, u->equal_seqs ? "equal sets" : "sets", u->n_seq_tokens);
	put(&t, "  sequences:");
	for (int32_t i = 0; i < u->n_seqs_unq; i++)
		put(&t, " %d", u->seq_unq[i]);
	put(&t, "\n");
	put_rows(&t, &(struct rows){.n_rows = u->n_tokens, .n_pos_row = u->n_pos_row, .tokens = u->tokens,
			.pos = u->pos, .n_seq = u->n_seq, .seq = u->seq, .output = u->output, .numbers = u->rows});
	return t.n;
}
