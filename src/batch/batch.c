/* The batch container and the token buffer.
 *
 * Invariants
 *  1. No pointer into the struct itself is stored, so a byte copy is a move. batch_arrays() computes where the arrays
 *     are each time it is asked.
 *  2. Nothing is written past n_max rows, n_seq_row_max ids or n_pos_row positions.
 *  3. A new batch is built aside and stored when it is whole: a failed call leaves its target untouched.
 *  4. n_seq is NULL when a row may have one id only. */
#include "batch/work.h"

#include "base/mem.h"

#include <string.h>

/* Bits of cohort_batch.storage. A batch with none of them borrows its arrays, or has none. */
enum {
	STORE_INLINE = 1, /* the arrays are within the struct */
	STORE_OWNED = 2,  /* they are on the heap */
	STORE_ADDS = 4,   /* rows may be added */
	STORE_BARE = 8    /* with INLINE: there are tokens only */
};

/* Where the arrays are, whether they are left out or not. */
static void places(struct cohort_batch *b, struct cohort_batch_raw *raw)
{
	*raw = (struct cohort_batch_raw){.n_tokens = b->n_tokens, .n_embd = b->n_embd,
		.n_seq_row_max = b->n_seq_row_max, .n_pos_row = b->n_pos_row, .tokens = b->tokens, .embd = b->embd,
		.pos = b->pos, .n_seq = b->n_seq, .seq = b->seq, .output = b->output};
	if (b->storage & STORE_INLINE) {
		raw->tokens = b->inline_rows.tokens;
		if (!(b->storage & STORE_BARE)) {
			raw->pos = b->inline_rows.pos;
			raw->seq = b->inline_rows.seq;
			raw->output = b->inline_rows.output;
		}
	}
}

void batch_arrays(const struct cohort_batch *b, struct cohort_batch_raw *raw)
{
	/* Who asks through a const pointer does not write; who may write has asked through cohort_batch_raw_get. */
	places((struct cohort_batch *)(uintptr_t)b, raw);
	if (b->left_out & COHORT_BATCH_POS)
		raw->pos = NULL;
	if (b->left_out & COHORT_BATCH_SEQ)
		raw->seq = raw->n_seq = NULL;
	if (b->left_out & COHORT_BATCH_OUTPUT)
		raw->output = NULL;
}

/* ---- Making ---- */

static enum cohort_status out_of_memory(int32_t n_rows, struct cohort_err *err)
{
	return err_set(err, COHORT_E_MEMORY, "out of memory for a batch of %d rows", n_rows);
}

/* A product that does not fit stays SIZE_MAX, which no allocation survives. */
static void *alloc_rows(int32_t n_rows, int32_t per_row, size_t size)
{
	size_t n = SIZE_MAX;

	(void)size_mul((size_t)n_rows, (size_t)per_row, &n);
	return mem_zalloc(n, size);
}

static bool alloc_arrays(struct cohort_batch *b)
{
	void *rows;

	if (b->n_embd)
		rows = b->embd = alloc_rows(b->n_max, b->n_embd, sizeof *b->embd);
	else
		rows = b->tokens = alloc_rows(b->n_max, 1, sizeof *b->tokens);
	b->pos = alloc_rows(b->n_max, b->n_pos_row, sizeof *b->pos);
	b->seq = alloc_rows(b->n_max, b->n_seq_row_max, sizeof *b->seq);
	b->output = alloc_rows(b->n_max, 1, sizeof *b->output);
	if (b->n_seq_row_max > 1)
		b->n_seq = alloc_rows(b->n_max, 1, sizeof *b->n_seq);
	return rows && b->pos && b->seq && b->output && (b->n_seq || b->n_seq_row_max == 1);
}

enum cohort_status cohort_batch_init_pos(struct cohort_batch *b, int32_t max_tokens, int32_t n_embd, int32_t n_seq_max,
		int32_t n_pos_row, struct cohort_err *err)
{
	struct cohort_batch n = {.n_max = max_tokens, .n_embd = n_embd, .n_seq_row_max = n_seq_max,
		.n_pos_row = n_pos_row, .storage = STORE_OWNED | STORE_ADDS};

	if (!b)
		return err_set(err, COHORT_E_ARG, "b is NULL");
	if (err_range(err, "max_tokens", max_tokens, 1, INT32_MAX) || err_range(err, "n_embd", n_embd, 0, INT32_MAX) ||
			err_range(err, "n_seq_max", n_seq_max, 1, INT32_MAX) ||
			err_range(err, "n_pos_row", n_pos_row, 1, INT32_MAX))
		return COHORT_E_ARG;
	if (max_tokens <= COHORT_BATCH_INLINE && n_embd == 0 && n_seq_max == 1 && n_pos_row == 1) {
		n.storage = STORE_INLINE | STORE_ADDS;
	} else if (!alloc_arrays(&n)) {
		cohort_batch_release(&n);
		return out_of_memory(max_tokens, err);
	}
	*b = n;
	return COHORT_OK;
}

enum cohort_status cohort_batch_init(struct cohort_batch *b, int32_t max_tokens, int32_t n_embd, int32_t n_seq_max,
		struct cohort_err *err)
{
	return cohort_batch_init_pos(b, max_tokens, n_embd, n_seq_max, 1, err);
}

enum cohort_status cohort_batch_init_default(struct cohort_batch *b, struct cohort_err *err)
{
	return cohort_batch_init(b, 512, 0, 1, err);
}

/* Bare tokens, which are where `storage` says. */
static struct cohort_batch bare(cohort_token *tokens, int32_t n_tokens, int32_t storage)
{
	return (struct cohort_batch){.n_tokens = n_tokens, .n_max = n_tokens, .n_seq_row_max = 1, .n_pos_row = 1,
		.storage = storage, .tokens = tokens};
}

static enum cohort_status check_tokens(const struct cohort_batch *b, const cohort_token *tokens, int32_t n_tokens,
		struct cohort_err *err)
{
	if (!b)
		return err_set(err, COHORT_E_ARG, "b is NULL");
	if (err_range(err, "n_tokens", n_tokens, 0, INT32_MAX))
		return COHORT_E_ARG;
	if (n_tokens > 0 && !tokens)
		return err_set(err, COHORT_E_ARG, "tokens is NULL, n_tokens is %d", n_tokens);
	return COHORT_OK;
}

enum cohort_status cohort_batch_from_tokens(
		struct cohort_batch *b, const cohort_token *tokens, int32_t n_tokens, struct cohort_err *err)
{
	enum cohort_status st = check_tokens(b, tokens, n_tokens, err);

	if (st)
		return st;
	size_t n_bytes = (size_t)n_tokens * sizeof *tokens; /* of an array that there is */
	if (n_tokens <= COHORT_BATCH_INLINE) {
		*b = bare(NULL, n_tokens, STORE_INLINE | STORE_BARE);
		if (n_tokens)
			memcpy(b->inline_rows.tokens, tokens, n_bytes);
		return COHORT_OK;
	}
	cohort_token *copy = mem_dup(tokens, n_bytes);
	if (!copy)
		return out_of_memory(n_tokens, err);
	*b = bare(copy, n_tokens, STORE_OWNED);
	return COHORT_OK;
}

enum cohort_status cohort_batch_take_tokens(
		struct cohort_batch *b, cohort_token *tokens, int32_t n_tokens, struct cohort_err *err)
{
	enum cohort_status st = check_tokens(b, tokens, n_tokens, err);

	if (!st)
		*b = bare(tokens, n_tokens, STORE_OWNED);
	return st;
}

enum cohort_status cohort_batch_from_buffer(
		struct cohort_batch *b, struct cohort_token_buf *buf, struct cohort_err *err)
{
	if (!b)
		return err_set(err, COHORT_E_ARG, "b is NULL");
	if (!buf)
		return err_set(err, COHORT_E_ARG, "buf is NULL");
	if (buf->heap) {
		*b = bare(buf->heap, buf->n_tokens, STORE_OWNED);
	} else {
		*b = bare(NULL, buf->n_tokens, STORE_INLINE | STORE_BARE);
		memcpy(b->inline_rows.tokens, buf->inline_tokens, (size_t)buf->n_tokens * sizeof *buf->inline_tokens);
	}
	cohort_token_buf_init(buf);
	return COHORT_OK;
}

enum cohort_status cohort_batch_view(
		struct cohort_batch *b, const cohort_token *tokens, int32_t n_tokens, struct cohort_err *err)
{
	enum cohort_status st = check_tokens(b, tokens, n_tokens, err);

	if (!st)
		*b = bare((cohort_token *)(uintptr_t)tokens, n_tokens, 0); /* never written through */
	return st;
}

enum cohort_status cohort_batch_view_raw(
		struct cohort_batch *b, const struct cohort_batch_raw *raw, struct cohort_err *err)
{
	if (!b)
		return err_set(err, COHORT_E_ARG, "b is NULL");
	if (!raw)
		return err_set(err, COHORT_E_ARG, "raw is NULL");
	if (!raw->tokens == !raw->embd)
		return err_set(err, COHORT_E_ARG, "raw has %s; a batch has one of tokens and embd",
				raw->tokens ? "both" : "neither");
	if (err_range(err, "n_tokens", raw->n_tokens, 0, INT32_MAX) ||
			err_range(err, "n_embd", raw->n_embd, raw->embd ? 1 : 0, raw->embd ? INT32_MAX : 0) ||
			(raw->pos && err_range(err, "n_pos_row", raw->n_pos_row, 1, INT32_MAX)) ||
			(raw->seq && err_range(err, "n_seq_row_max", raw->n_seq_row_max, 1, INT32_MAX)))
		return COHORT_E_ARG;
	if (raw->n_seq && !raw->seq)
		return err_set(err, COHORT_E_ARG, "raw has n_seq and no seq");
	*b = (struct cohort_batch){.n_tokens = raw->n_tokens, .n_max = raw->n_tokens, .n_embd = raw->n_embd,
		.n_seq_row_max = raw->seq ? raw->n_seq_row_max : 1, .n_pos_row = raw->pos ? raw->n_pos_row : 1,
		.tokens = raw->tokens, .embd = raw->embd, .pos = raw->pos, .n_seq = raw->n_seq, .seq = raw->seq,
		.output = raw->output};
	return COHORT_OK;
}

/* A copy of the first n_rows rows of an array with room for n_max; NULL stays NULL. */
static bool copy_array(void *to, const void *from, int32_t n_max, int32_t n_rows, int32_t per_row, size_t size)
{
	void *p = NULL;

	if (from) {
		p = alloc_rows(n_max, per_row, size);
		if (!p)
			return false;
		memcpy(p, from, (size_t)n_rows * (size_t)per_row * size);
	}
	memcpy(to, &p, sizeof p);
	return true;
}

enum cohort_status cohort_batch_copy(
		struct cohort_batch *to, const struct cohort_batch *from, struct cohort_err *err)
{
	if (!to)
		return err_set(err, COHORT_E_ARG, "to is NULL");
	if (!from)
		return err_set(err, COHORT_E_ARG, "from is NULL");
	if (to == from)
		return err_set(err, COHORT_E_ARG, "to and from are the same batch");
	struct cohort_batch n = *from;
	if (!(from->storage & STORE_INLINE)) {
		int32_t n_max = from->n_max, n_rows = from->n_tokens;
		n.storage |= STORE_OWNED;
		n.tokens = NULL, n.embd = NULL, n.pos = NULL, n.n_seq = NULL, n.seq = NULL, n.output = NULL;
		if (!copy_array(&n.tokens, from->tokens, n_max, n_rows, 1, sizeof *n.tokens) ||
				!copy_array(&n.embd, from->embd, n_max, n_rows, n.n_embd, sizeof *n.embd) ||
				!copy_array(&n.pos, from->pos, n_max, n_rows, n.n_pos_row, sizeof *n.pos) ||
				!copy_array(&n.n_seq, from->n_seq, n_max, n_rows, 1, sizeof *n.n_seq) ||
				!copy_array(&n.seq, from->seq, n_max, n_rows, n.n_seq_row_max, sizeof *n.seq) ||
				!copy_array(&n.output, from->output, n_max, n_rows, 1, sizeof *n.output)) {
			cohort_batch_release(&n);
			return out_of_memory(n_max, err);
		}
	}
	*to = n;
	return COHORT_OK;
}

/* ---- Rows ---- */

/* Says whether a row may be added. */
static enum cohort_status check_row(const struct cohort_batch *b, bool vector, const cohort_seq *seqs, int32_t n_seqs,
		struct cohort_err *err)
{
	if (!b)
		return err_set(err, COHORT_E_ARG, "b is NULL");
	if (!(b->storage & STORE_ADDS))
		return err_set(err, COHORT_E_ARG, "rows can be added only to a batch made by cohort_batch_init");
	if (vector != (b->n_embd > 0))
		return err_rule(err, COHORT_E_ARG, "row-kind", b->n_tokens, -1, b->n_embd > 0, vector,
				"a %s is no row of this batch: its rows are %s", vector ? "vector" : "token",
				vector ? "tokens" : "vectors");
	if (!seqs)
		return err_set(err, COHORT_E_ARG, "seqs is NULL");
	if (b->n_tokens >= b->n_max)
		return err_rule(err, COHORT_E_LIMIT, "batch-full", b->n_tokens, -1, b->n_max, (int64_t)b->n_tokens + 1,
				"the batch is full: it has room for %d rows", b->n_max);
	if (n_seqs < 1 || n_seqs > b->n_seq_row_max)
		return err_rule(err, COHORT_E_ARG, "seq-count", b->n_tokens, -1, b->n_seq_row_max, n_seqs,
				"row %d has %d sequence ids; the batch has room for 1 to %d", b->n_tokens, n_seqs,
				b->n_seq_row_max);
	return COHORT_OK;
}

/* Appends what token rows and vector rows have in common; the row is raw->n_tokens. */
static void add_ids(struct cohort_batch *b, const struct cohort_batch_raw *raw, const cohort_seq *seqs, int32_t n_seqs,
		bool output)
{
	size_t i = (size_t)raw->n_tokens;

	if (raw->n_seq)
		raw->n_seq[i] = n_seqs;
	memcpy(raw->seq + i * (size_t)raw->n_seq_row_max, seqs, (size_t)n_seqs * sizeof *seqs);
	raw->output[i] = output;
	b->n_tokens++;
}

enum cohort_status cohort_batch_add(struct cohort_batch *b, cohort_token token, cohort_pos pos, const cohort_seq *seqs,
		int32_t n_seqs, bool output, struct cohort_err *err)
{
	struct cohort_batch_raw raw;
	enum cohort_status st = check_row(b, false, seqs, n_seqs, err);

	if (st)
		return st;
	places(b, &raw);
	raw.tokens[raw.n_tokens] = token;
	for (int32_t k = 0; k < raw.n_pos_row; k++)
		raw.pos[(size_t)raw.n_tokens * (size_t)raw.n_pos_row + (size_t)k] = pos;
	add_ids(b, &raw, seqs, n_seqs, output);
	return COHORT_OK;
}

enum cohort_status cohort_batch_add_embd(struct cohort_batch *b, const float *embd, const cohort_pos *pos,
		const cohort_seq *seqs, int32_t n_seqs, bool output, struct cohort_err *err)
{
	struct cohort_batch_raw raw;
	enum cohort_status st = check_row(b, true, seqs, n_seqs, err);

	if (st)
		return st;
	if (!embd)
		return err_set(err, COHORT_E_ARG, "embd is NULL");
	if (!pos)
		return err_set(err, COHORT_E_ARG, "pos is NULL");
	places(b, &raw);
	size_t i = (size_t)raw.n_tokens, n_embd = (size_t)raw.n_embd, n_pos = (size_t)raw.n_pos_row;
	memcpy(raw.embd + i * n_embd, embd, n_embd * sizeof *embd);
	memcpy(raw.pos + i * n_pos, pos, n_pos * sizeof *pos);
	add_ids(b, &raw, seqs, n_seqs, output);
	return COHORT_OK;
}

void cohort_batch_leave_out(struct cohort_batch *b, uint32_t what)
{
	if (b)
		b->left_out = what & (COHORT_BATCH_POS | COHORT_BATCH_SEQ | COHORT_BATCH_OUTPUT);
}

int32_t cohort_batch_size(const struct cohort_batch *b)
{
	return b ? b->n_tokens : 0;
}

bool cohort_batch_is_empty(const struct cohort_batch *b)
{
	return cohort_batch_size(b) == 0;
}

void cohort_batch_raw_get(struct cohort_batch *b, struct cohort_batch_raw *raw)
{
	if (!raw)
		return;
	*raw = (struct cohort_batch_raw){0};
	if (b)
		batch_arrays(b, raw);
}

void cohort_batch_reset(struct cohort_batch *b)
{
	if (b)
		b->n_tokens = 0;
}

void cohort_batch_release(struct cohort_batch *b)
{
	if (!b)
		return;
	if (b->storage & STORE_OWNED) {
		mem_free(b->tokens);
		mem_free(b->embd);
		mem_free(b->pos);
		mem_free(b->n_seq);
		mem_free(b->seq);
		mem_free(b->output);
	}
	*b = (struct cohort_batch){0};
}

/* ---- The token buffer ---- */

void cohort_token_buf_init(struct cohort_token_buf *buf)
{
	if (buf) {
		buf->n_tokens = 0;
		buf->n_max = COHORT_BATCH_INLINE;
		buf->heap = NULL;
	}
}

cohort_token *cohort_token_buf_get(struct cohort_token_buf *buf)
{
	if (!buf)
		return NULL;
	return buf->heap ? buf->heap : buf->inline_tokens;
}

enum cohort_status cohort_token_buf_append(
		struct cohort_token_buf *buf, const cohort_token *tokens, int32_t n_tokens, struct cohort_err *err)
{
	if (!buf)
		return err_set(err, COHORT_E_ARG, "buf is NULL");
	if (err_range(err, "n_tokens", n_tokens, 0, INT32_MAX))
		return COHORT_E_ARG;
	if (n_tokens == 0)
		return COHORT_OK;
	if (!tokens)
		return err_set(err, COHORT_E_ARG, "tokens is NULL, n_tokens is %d", n_tokens);
	if (n_tokens > INT32_MAX - buf->n_tokens)
		return err_rule(err, COHORT_E_LIMIT, "n_tokens", -1, -1, INT32_MAX - buf->n_tokens, n_tokens,
				"a token buffer of %d tokens cannot take %d more", buf->n_tokens, n_tokens);
	cohort_token *old = cohort_token_buf_get(buf), *to = old;
	size_t n_old = (size_t)buf->n_tokens, n_add = (size_t)n_tokens;
	if (n_tokens > buf->n_max - buf->n_tokens) {
		int64_t n_max = 2 * ((int64_t)buf->n_tokens + n_tokens);
		n_max = n_max < INT32_MAX ? n_max : INT32_MAX;
		/* Not realloc: the tokens may be the buffer's own. */
		to = mem_alloc((size_t)n_max, sizeof *to);
		if (!to)
			return err_set(err, COHORT_E_MEMORY, "out of memory for %zu tokens", n_old + n_add);
		memcpy(to, old, n_old * sizeof *to);
		buf->n_max = (int32_t)n_max;
	}
	memcpy(to + n_old, tokens, n_add * sizeof *to);
	if (to != old) {
		mem_free(buf->heap);
		buf->heap = to;
	}
	buf->n_tokens += n_tokens;
	return COHORT_OK;
}

void cohort_token_buf_reset(struct cohort_token_buf *buf)
{
	if (buf)
		buf->n_tokens = 0;
}

void cohort_token_buf_release(struct cohort_token_buf *buf)
{
	if (buf)
		mem_free(buf->heap);
	cohort_token_buf_init(buf);
}
