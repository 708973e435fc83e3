/* The decode grid: one, many, each, scatter. They make batches in a scratch and decode them; what exceeds n_batch goes
 * chunk by chunk within one transaction.
 *
 * Invariants
 *  1. All or nothing over all chunks: the memory's transaction spans them. Before the first of several chunks is
 *     computed, all of them are checked and reserved once and rolled back, so a refusal costs no arithmetic.
 *  2. Indexes, of outputs and in errors, count the tokens of the call in the order they were given, whatever chunk they
 *     went with. */
#include "context/impl.h"

#include "base/mem.h"
#include "base/pool.h"

#include <limits.h>
#include <string.h>

void cohort_scratch_init(struct cohort_scratch *s)
{
	if (s) {
		*s = (struct cohort_scratch){0};
		cohort_packing_init(&s->packing);
	}
}

void cohort_scratch_release(struct cohort_scratch *s)
{
	if (s) {
		cohort_packing_release(&s->packing);
		mem_free(s->lengths);
		mem_free(s->ranks);
		mem_free(s->tokens);
		mem_free(s->pos);
		mem_free(s->seq);
		mem_free(s->output);
		cohort_scratch_init(s);
	}
}

bool context_scratch_rows(struct cohort_scratch *s, size_t n)
{
	return mem_grow((void **)&s->tokens, &s->tokens_max, n, sizeof *s->tokens) &&
			mem_grow((void **)&s->pos, &s->pos_max, n, sizeof *s->pos) &&
			mem_grow((void **)&s->seq, &s->seq_max, n, sizeof *s->seq) &&
			mem_grow((void **)&s->output, &s->output_max, n, sizeof *s->output);
}

static enum cohort_status make_rows(struct cohort_scratch *s, size_t n, struct cohort_err *err)
{
	if (context_scratch_rows(s, n))
		return COHORT_OK;
	return err_set(err, COHORT_E_MEMORY, "out of memory for a batch of %zu rows", n);
}

static enum cohort_status make_items(struct cohort_scratch *s, size_t n, struct cohort_err *err)
{
	if (mem_grow((void **)&s->lengths, &s->lengths_max, n, sizeof *s->lengths) &&
			mem_grow((void **)&s->ranks, &s->ranks_max, n, sizeof *s->ranks))
		return COHORT_OK;
	return err_set(err, COHORT_E_MEMORY, "out of memory for %zu items", n);
}

/* The first n rows of the scratch, or of other tokens, as a batch. */
static struct cohort_batch as_batch(struct cohort_scratch *s, const cohort_token *tokens, size_t n)
{
	struct cohort_batch b;
	/* Cannot fail: there are rows, and all arrays are there. */
	(void)cohort_batch_view_raw(&b,
			&(struct cohort_batch_raw){.n_tokens = (int32_t)n, .n_seq_row_max = 1, .n_pos_row = 1,
				.tokens = (cohort_token *)tokens, .pos = s->pos, .seq = s->seq, .output = s->output},
			NULL);
	return b;
}

static void put_row(struct cohort_scratch *s, size_t at, cohort_pos pos, cohort_seq seq, bool output)
{
	s->pos[at] = pos;
	s->seq[at] = seq;
	s->output[at] = output;
}

/* A sequence id in range that this call has not named before. row: the item's first. */
static enum cohort_status name_seq(
		struct cohort_context *c, int32_t item, int64_t row, cohort_seq seq, struct cohort_err *err)
{
	if (seq < 0 || seq >= c->p.n_seq_max)
		return err_rule(err, COHORT_E_BATCH, "seq-id", row, seq, c->p.n_seq_max, seq,
				"item %d names sequence %d; ids are 0 to %d", item, seq, c->p.n_seq_max - 1);
	if (c->named[seq] == c->call)
		return err_rule(err, COHORT_E_BATCH, "seq-duplicate", row, seq, 1, 2,
				"item %d names sequence %d, which an earlier item named", item, seq);
	c->named[seq] = c->call;
	return COHORT_OK;
}

/* Positions of a span: within the model's, so that sums of them cannot overflow. row: the span's first. */
static enum cohort_status check_span(const struct cohort_context *c, int64_t row, cohort_pos pos, int32_t n,
		cohort_seq seq, struct cohort_err *err)
{
	const cohort_pos limit = context_pos_limit(c->model);

	if (pos < 0)
		return err_rule(err, COHORT_E_BATCH, "pos-negative", row, seq, 0, pos,
				"%d tokens of sequence %d from position %d on", n, seq, pos);
	if (n > limit - pos)
		return err_rule(err, COHORT_E_BATCH, "pos-limit", pos < limit ? row + limit - pos : row, seq, limit,
				pos < limit ? limit : pos,
				"%d tokens of sequence %d from position %d on; a sequence ends before %d", n, seq, pos,
				limit);
	return COHORT_OK;
}

/* ---- Several chunks ---- */

/* Where a call's chunks come from. */
struct feed {
	struct cohort_context *c;
	struct cohort_scratch *s;
	/* The next chunk into *b, with rank_of for its outputs; false at the end. */
	bool (*next)(struct feed *f, struct cohort_batch *b);
	/* Index in the call of a row of the chunk. */
	int64_t (*index)(const struct feed *f, int64_t row);
	size_t n_done;      /* rows of the chunks before */
	size_t n_chunk;     /* rows of this one */
	size_t n_single;    /* rows that are the only one of their sequence */
	/* many */
	const cohort_token *tokens;
	size_t n_tokens;
	cohort_pos pos;
	cohort_seq seq;
	/* scatter */
	const struct cohort_scatter_item *items;
	int32_t chunk;      /* of the packing */
	int32_t piece;      /* tokens of an oversized item that earlier chunks had */
	cohort_take *take;  /* NULL: outputs are kept */
	void *user;
	size_t n_taken;     /* outputs of this chunk, when they are taken; ranks[0 .. n_taken) say whose */
};

/* Errors of a chunk in the numbers of the call. */
static enum cohort_status explain(const struct feed *f, const struct cohort_err *e, struct cohort_err *err)
{
	const int64_t row = e->row < 0 ? -1 : f->index(f, e->row);

	if (e->status == COHORT_NO_ROOM)
		return err_rule(err, e->status, e->rule, row, e->seq, (int64_t)f->n_done + e->expected, e->got,
				"no room in the cache for row %lld (sequence %lld); %lld rows would fit",
				(long long)row, (long long)e->seq, (long long)((int64_t)f->n_done + e->expected));
	if (err) {
		*err = *e;
		err->row = row;
		if (row >= 0)
			err_prefix(err, "row %lld of the call, in chunks of %d", (long long)row, f->c->p.n_batch);
	}
	return e->status;
}

/* Hands out what the chunk gave, so that the next one has room for its own. */
static enum cohort_status give(struct feed *f, struct cohort_err *err)
{
	for (size_t i = 0; i < f->n_taken; i++) {
		struct cohort_err e;
		const float *logits = context_logits_at(f->c, i, &e);
		if (!logits) {
			if (err)
				*err = e;
			return e.status;
		}
		f->take(f->user, f->s->ranks[i], logits);
	}
	f->c->n_places = f->c->n_logits = 0;
	return COHORT_OK;
}

static enum cohort_status pass(struct feed *f, bool dry, struct cohort_err *err)
{
	struct cohort_batch b;

	f->n_done = f->n_chunk = 0;
	f->chunk = f->piece = 0;
	while (f->next(f, &b)) {
		struct memory_plan plan;
		struct cohort_err e;
		enum cohort_status st = context_check(f->c, &b, true, &e);
		if (!st)
			st = context_reserve(f->c, &plan, &e);
		if (!st && !dry)
			st = context_run(f->c, &plan, &e);
		if (!st && f->take && !dry)
			st = give(f, &e);
		if (st)
			return explain(f, &e, err);
		f->n_done += f->n_chunk;
	}
	return COHORT_OK;
}

/* n_outputs entries of c->outputs have their rows already. */
static enum cohort_status run_feed(struct feed *f, size_t n_outputs, struct cohort_err *err)
{
	struct cohort_context *c = f->c;
	const double start = clock_now();

	memory_begin(&c->memory);
	enum cohort_status st = pass(f, true, err);
	memory_rollback(&c->memory);
	if (st)
		return st;
	memory_begin(&c->memory);
	st = pass(f, false, err);
	if (st) {
		memory_rollback(&c->memory);
		return st;
	}
	memory_commit(&c->memory);
	c->n_rows = f->n_done;
	c->n_outputs = n_outputs;
	context_count(c, clock_now() - start, f->n_single, f->n_done);
	return COHORT_OK;
}

/* More than one chunk cannot keep every row's output. */
static enum cohort_status check_output_all(const struct cohort_context *c, int64_t n_rows, struct cohort_err *err)
{
	if (!context_output_all(c))
		return COHORT_OK;
	return err_rule(err, COHORT_E_LIMIT, "n-batch", -1, -1, c->p.n_batch, n_rows,
			"%lld rows; with output_all or pooling at most %d (n_batch)", (long long)n_rows, c->p.n_batch);
}

/* ---- One sequence ---- */

enum cohort_status cohort_decode_one(struct cohort_context *c, cohort_token token, cohort_pos pos, cohort_seq seq,
		bool want, struct cohort_err *err)
{
	if (!c)
		return err_set(err, COHORT_E_ARG, "context is NULL");
	context_forget(c);
	put_row(&c->scratch, 0, pos, seq, want);
	const struct cohort_batch b = as_batch(&c->scratch, &token, 1);
	return context_decode(c, &b, err);
}

static void many_rows(struct feed *f, size_t from, size_t n)
{
	for (size_t i = 0; i < n; i++)
		put_row(f->s, i, f->pos + (cohort_pos)(from + i), f->seq, from + i + 1 == f->n_tokens);
}

static bool many_next(struct feed *f, struct cohort_batch *b)
{
	const size_t left = f->n_tokens - f->n_done, most = (size_t)f->c->p.n_batch;

	f->n_chunk = left < most ? left : most;
	if (f->n_chunk == 0)
		return false;
	many_rows(f, f->n_done, f->n_chunk);
	f->c->rank_of[f->n_chunk - 1] = 0;
	*b = as_batch(f->s, f->tokens + f->n_done, f->n_chunk);
	return true;
}

static int64_t many_index(const struct feed *f, int64_t row)
{
	return (int64_t)f->n_done + row;
}

enum cohort_status cohort_decode_many(struct cohort_context *c, const cohort_token *tokens, int32_t n_tokens,
		cohort_pos n_past, cohort_seq seq, struct cohort_err *err)
{
	if (!c)
		return err_set(err, COHORT_E_ARG, "context is NULL");
	if (n_tokens == 0)
		return COHORT_OK;
	context_forget(c);
	if (err_range(err, "n_tokens", n_tokens, 0, INT32_MAX))
		return COHORT_E_ARG;
	if (!tokens)
		return err_set(err, COHORT_E_ARG, "tokens is NULL");
	enum cohort_status st = check_span(c, 0, n_past, n_tokens, seq, err);
	if (st)
		return st;
	struct feed f = {.c = c, .s = &c->scratch, .next = many_next, .index = many_index, .tokens = tokens,
			.n_tokens = (size_t)n_tokens, .pos = n_past, .seq = seq};
	if (n_tokens <= c->p.n_batch) {
		many_rows(&f, 0, f.n_tokens);
		const struct cohort_batch b = as_batch(f.s, tokens, f.n_tokens);
		return context_decode(c, &b, err);
	}
	st = check_output_all(c, n_tokens, err);
	if (st)
		return st;
	c->outputs[0].row = n_tokens - 1;
	return run_feed(&f, 1, err);
}

/* ---- Many sequences ---- */

static enum cohort_status check_items(const void *items, int32_t n_items, struct cohort_err *err)
{
	if (err_range(err, "n_items", n_items, 0, INT32_MAX))
		return COHORT_E_ARG;
	return items ? COHORT_OK : err_set(err, COHORT_E_ARG, "items is NULL");
}

enum cohort_status cohort_decode_each(struct cohort_context *c, const struct cohort_each_item *items, int32_t n_items,
		struct cohort_scratch *scratch, struct cohort_err *err)
{
	if (!c)
		return err_set(err, COHORT_E_ARG, "context is NULL");
	if (n_items == 0)
		return COHORT_OK;
	context_forget(c);
	enum cohort_status st = check_items(items, n_items, err);
	if (st)
		return st;
	if (n_items > c->p.n_batch)
		return err_rule(err, COHORT_E_LIMIT, "n-batch", -1, -1, c->p.n_batch, n_items,
				"%d items; the context takes at most %d (n_batch)", n_items, c->p.n_batch);
	struct cohort_scratch *s = scratch ? scratch : &c->scratch;
	st = make_rows(s, (size_t)n_items, err);
	for (int32_t i = 0; i < n_items && !st; i++) {
		st = name_seq(c, i, i, items[i].seq, err);
		s->tokens[i] = items[i].token;
		put_row(s, (size_t)i, items[i].pos, items[i].seq, items[i].want);
	}
	if (st)
		return st;
	const struct cohort_batch b = as_batch(s, s->tokens, (size_t)n_items);
	return context_decode(c, &b, err);
}

/* n tokens of an item from its token `from` on, to rows at and on; the last of all may want output. */
static size_t scatter_rows(struct feed *f, int32_t item, size_t from, size_t n, size_t at)
{
	const struct cohort_scatter_item *it = &f->items[item];
	for (size_t i = 0; i < n; i++) {
		const bool last = from + i + 1 == (size_t)it->n_tokens;
		f->s->tokens[at + i] = it->tokens[from + i];
		put_row(f->s, at + i, it->pos + (cohort_pos)(from + i), it->seq, last && it->want);
		if (last && it->want && f->take) {
			f->c->rank_of[at + i] = (int32_t)f->n_taken;
			f->s->ranks[f->n_taken++] = item;
		} else if (last && it->want) {
			f->c->rank_of[at + i] = f->s->ranks[item];
		}
	}
	return at + n;
}

/* An oversized item comes piece by piece, the items of any other chunk together. */
static bool scatter_next(struct feed *f, struct cohort_batch *b)
{
	const struct cohort_packing *p = &f->s->packing;
	const int32_t most = f->c->p.n_batch;

	if (f->n_chunk) { /* on from the chunk before */
		const struct cohort_chunk *k = &p->chunks[f->chunk];
		f->piece += most;
		if (!k->oversized || f->piece >= k->n_rows) {
			f->chunk++;
			f->piece = 0;
		}
	}
	if (f->chunk == p->n_chunks)
		return false;
	const struct cohort_chunk *k = &p->chunks[f->chunk];
	f->n_chunk = f->n_taken = 0;
	if (k->oversized) {
		const int32_t left = k->n_rows - f->piece;
		f->n_chunk = scatter_rows(
				f, p->order[k->first], (size_t)f->piece, (size_t)(left < most ? left : most), 0);
	} else {
		for (int32_t i = 0; i < k->n_items; i++) {
			const int32_t item = p->order[k->first + i];
			f->n_chunk = scatter_rows(f, item, 0, (size_t)f->items[item].n_tokens, f->n_chunk);
		}
	}
	*b = as_batch(f->s, f->s->tokens, f->n_chunk);
	return true;
}

static int64_t scatter_index(const struct feed *f, int64_t row)
{
	const struct cohort_packing *p = &f->s->packing;
	const struct cohort_chunk *k = &p->chunks[f->chunk];
	int32_t i = k->first;
	int64_t at = row + f->piece;

	while (at >= f->items[p->order[i]].n_tokens)
		at -= f->items[p->order[i++]].n_tokens;
	for (int32_t j = 0; j < p->order[i]; j++)
		at += f->items[j].n_tokens;
	return at;
}

/* Looks at every item; counts rows and outputs and gives the outputs their indexes. */
static enum cohort_status look_at_items(struct feed *f, int32_t n_items, int64_t *n_rows, size_t *n_outputs,
		struct cohort_err *err)
{
	struct cohort_context *c = f->c;

	*n_rows = 0;
	*n_outputs = 0;
	for (int32_t i = 0; i < n_items; i++) {
		const struct cohort_scatter_item *it = &f->items[i];
		if (it->n_tokens < 0 || (it->n_tokens > 0 && !it->tokens))
			return err_rule(err, COHORT_E_ARG, "item", i, it->seq, 0, it->n_tokens,
					it->n_tokens < 0 ? "item %d has %d tokens"
							 : "item %d has no array of its %d tokens",
					i, it->n_tokens);
		f->s->lengths[i] = it->n_tokens;
		f->n_single += it->n_tokens == 1;
		if (it->n_tokens == 0)
			continue;
		enum cohort_status st = name_seq(c, i, *n_rows, it->seq, err);
		if (!st)
			st = check_span(c, *n_rows, it->pos, it->n_tokens, it->seq, err);
		if (st)
			return st;
		*n_rows += it->n_tokens;
		if (it->want && !f->take && *n_outputs == (size_t)c->p.n_batch)
			return err_rule(err, COHORT_E_LIMIT, "n-outputs", *n_rows - 1, it->seq, c->p.n_batch,
					c->p.n_batch + 1,
					"more than %d items want output (n_batch): row %lld is one too many",
					c->p.n_batch, (long long)*n_rows - 1);
		if (*n_rows > INT32_MAX)
			return err_set(err, COHORT_E_LIMIT, "more than %d tokens", INT32_MAX);
		if (it->want && !f->take) {
			f->s->ranks[i] = (int32_t)*n_outputs;
			c->outputs[(*n_outputs)++].row = (int32_t)*n_rows - 1;
		}
	}
	return COHORT_OK;
}

static enum cohort_status scatter(struct cohort_context *c, const struct cohort_scatter_item *items, int32_t n_items,
		struct cohort_scratch *scratch, cohort_take *take, void *user, struct cohort_err *err)
{
	int64_t n_rows;
	size_t n_outputs;
	int32_t i = 0;

	if (n_items == 0)
		return COHORT_OK;
	context_forget(c);
	enum cohort_status st = check_items(items, n_items, err);
	if (st)
		return st;
	while (i < n_items && items[i].n_tokens == 0)
		i++;
	if (i == n_items)
		return COHORT_OK;
	struct feed f = {.c = c, .s = scratch ? scratch : &c->scratch, .next = scatter_next, .index = scatter_index,
			.items = items, .take = take, .user = user};
	st = make_items(f.s, (size_t)n_items, err);
	if (!st)
		st = look_at_items(&f, n_items, &n_rows, &n_outputs, err);
	if (!st)
		st = make_rows(f.s, (size_t)(n_rows < c->p.n_batch ? n_rows : c->p.n_batch), err);
	if (st)
		return st;
	if (n_rows <= c->p.n_batch) {
		size_t at = 0;
		for (i = 0; i < n_items; i++)
			at = scatter_rows(&f, i, 0, (size_t)items[i].n_tokens, at);
		const struct cohort_batch b = as_batch(f.s, f.s->tokens, at);
		st = context_decode(c, &b, err);
		if (take && !st)
			st = give(&f, err);
	} else {
		st = check_output_all(c, n_rows, err);
		if (!st)
			st = cohort_bin_pack(&f.s->packing, f.s->lengths, n_items, c->p.n_batch, err);
		if (!st)
			st = run_feed(&f, n_outputs, err);
	}
	if (take)
		context_forget(c);
	return st;
}

enum cohort_status cohort_decode_scatter(struct cohort_context *c, const struct cohort_scatter_item *items,
		int32_t n_items, struct cohort_scratch *scratch, struct cohort_err *err)
{
	if (!c)
		return err_set(err, COHORT_E_ARG, "context is NULL");
	return scatter(c, items, n_items, scratch, NULL, NULL, err);
}

enum cohort_status cohort_decode_scatter_to(struct cohort_context *c, const struct cohort_scatter_item *items,
		int32_t n_items, struct cohort_scratch *scratch, cohort_take *take, void *user, struct cohort_err *err)
{
	if (!c || !take)
		return err_set(err, COHORT_E_ARG, "%s is NULL", !c ? "context" : "take");
	if (!(c->p.outputs & COHORT_OUTPUT_LOGITS) || context_output_all(c))
		return err_set(err, COHORT_E_ARG, "the context was opened for other outputs than rows' own logits");
	return scatter(c, items, n_items, scratch, take, user, err);
}
