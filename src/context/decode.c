/* Decoding: the transaction around check, reservation, ubatches and outputs. No arithmetic.
 *
 * Invariants
 *  1. A call reserves the cache for all its rows before it computes the first; whatever fails afterwards is rolled
 *     back, so every sequence is as before. Cells written meanwhile lie beyond every sequence's end or in blocks
 *     nobody holds.
 *  2. A warm call allocates nothing. A first one may, for rows that name several sequences, for vectors, and for
 *     several chunks; tracing always does.
 *  3. Outputs are computed in the order of the ubatches; `outputs` names them in batch order. */
#include "context/impl.h"

#include "base/fp.h"
#include "base/mem.h"
#include "base/pool.h"

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

/* ---- Check ---- */

static cohort_pos ask_pos_max(void *memory, cohort_seq seq)
{
	return memory_pos_max(memory, seq);
}
static bool ask_same(void *memory, cohort_seq a, cohort_seq b)
{
	return memory_same(memory, a, b);
}

/* Text for the trace callback; a trace that finds no memory is left out. */
static void trace(const struct cohort_context *c, const struct ubatch *u)
{
	if (!c->p.trace)
		return;
	const size_t n = u ? batch_dump_ubatch(u, NULL, 0) : batch_dump(&c->checked, NULL, 0);
	char *text = mem_alloc(n + 1, 1);
	if (!text)
		return;
	if (u)
		batch_dump_ubatch(u, text, n + 1);
	else
		batch_dump(&c->checked, text, n + 1);
	c->p.trace(text, c->p.trace_user);
	mem_free(text);
}

enum cohort_status context_check(
		struct cohort_context *c, const struct cohort_batch *b, bool with_memory, struct cohort_err *err)
{
	const struct batch_memory mem = {&c->memory, ask_pos_max, ask_same};
	if (with_memory && c->model->model.hp.encoder)
		return err_set(err, COHORT_E_UNSUPPORTED, "%s models are encoders: use cohort_encode",
				model_arch_name(&c->model->model));
	enum cohort_status st = batch_check(&c->checked, b,
			&(struct batch_limits){
				.n_vocab = (int32_t)c->model->model.hp.n_vocab,
				.n_seq_max = c->p.n_seq_max,
				.n_rows_max = c->p.n_batch,
				.n_embd = (int32_t)c->model->model.hp.n_embd,
				.n_pos_row = 1,
				.n_pos_max = context_pos_limit(c->model),
				.output_all = context_output_all(c),
			},
			with_memory ? &mem : NULL, err);
	return st ? st : context_check_adapters(c, err);
}

enum cohort_status cohort_check(struct cohort_context *c, const struct cohort_batch *b, struct cohort_err *err)
{
	if (!c || !b)
		return err_set(err, COHORT_E_ARG, "%s is NULL", c ? "batch" : "context");
	enum cohort_status st = context_check(c, b, true, err);
	batch_clear(&c->checked);
	return st;
}

/* ---- One ubatch ---- */

static enum cohort_status run_rows(struct cohort_context *c, struct be_rows *rows, const int32_t *batch_rows,
		const struct forward_outputs *out, struct cohort_err *err)
{
	struct fp_mode fp;
	int64_t bad = -1;

	for (size_t g = 0; g < c->n_groups; g++) {
		rows->cells[g].tables = c->cells[g].tables;
		rows->cells[g].held = c->cells[g].held;
		rows->cells[g].first = c->cells[g].first;
		rows->cells[g].stores = c->cells[g].stores;
	}
	rows->end = c->end;
	rows->state_from = c->state_from;
	rows->state_to = c->state_to;
	rows->lora = c->n_lora ? c->row_lora : NULL;
	fp_enter(&fp);
	enum cohort_status st = forward_run(&c->forward, rows, out, c->p.abort, c->p.abort_user, &bad);
	fp_leave(&fp);
	c->n_places += out->n;
	c->n_logits += out->n_logits;
	if (st == COHORT_ABORTED)
		return err_set(err, st, "the abort callback ended the decode");
	if (st == COHORT_E_NUMERIC) {
		const int32_t row = batch_rows[c->wanted[bad]];
		/* A warm-up's rows are of no batch. */
		return err_rule(err, st, "finite", row, row < c->checked.n_tokens ? c->checked.seq[row][0] : -1, 0, 0,
				"row %d has an output that is not a finite number; the weights may be damaged", row);
	}
	return st;
}

/* Rows that ask for output get the next places, with logits or without. */
static struct forward_outputs place_outputs(struct cohort_context *c, const int32_t *rows, size_t n)
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

/* Where the rows of a ubatch go, in one group. A row whose sequences part within the batch goes to several places. */
static enum cohort_status gather_stores(struct cohort_context *c, size_t g, const struct kv_plan *plan,
		const struct ubatch *u, size_t *n_stores, struct cohort_err *err)
{
	struct context_cells *k = &c->cells[g];
	const size_t n = (size_t)u->n_tokens;
	size_t at = n;

	if (!mem_grow((void **)&k->stores, &k->stores_max, n + plan->n_extra, sizeof *k->stores))
		return err_set(err, COHORT_E_MEMORY, "out of memory for %zu rows", n);
	for (size_t i = 0; i < n; i++) {
		const struct kv_store *s = &plan->stores[u->rows[i]];
		k->stores[i] = (struct be_store){(int32_t)i, s->block, s->slot};
	}
	for (size_t i = 0; i < n && plan->n_extra; i++)
		c->at_of[u->rows[i]] = (int32_t)i;
	for (size_t i = 0; i < plan->n_extra; i++) {
		const struct kv_store *e = &plan->extra[i];
		const int32_t in = c->at_of[e->row]; /* of this ubatch only if that place is the row's */
		if (in < u->n_tokens && u->rows[in] == e->row)
			k->stores[at++] = (struct be_store){in, e->block, e->slot};
	}
	*n_stores = at;
	return COHORT_OK;
}

static enum cohort_status run_ubatch(struct cohort_context *c, const struct memory_plan *plan, const struct ubatch *u,
		struct cohort_err *err)
{
	struct be_rows rows = {.n = (size_t)u->n_tokens, .tokens = u->tokens, .embd = u->embd, .pos = u->pos};
	const size_t n = rows.n;

	for (size_t g = 0; g < c->n_groups; g++) {
		const struct kv *kv = c->memory.kv[g];
		struct context_cells *k = &c->cells[g];
		enum cohort_status st = gather_stores(c, g, &plan->kv[g], u, &rows.cells[g].n_stores, err);
		if (st)
			return st;
		for (size_t i = 0; i < n; i++) {
			const cohort_seq seq = u->seq[i][0];
			k->tables[i] = kv_table(kv, seq);
			k->held[i] = kv_has_gaps(kv, seq) ? kv_held(kv, seq) : NULL;
			k->first[i] = kv_pos_first(kv, seq);
		}
	}
	for (size_t i = 0; i < n; i++)
		c->end[i] = u->pos[i] + 1;
	for (size_t i = 0; c->n_lora && i < n; i++)
		c->row_lora[i] = c->lora[u->seq[i][0]];
	for (size_t i = 0; plan->steps && i < n; i++) {
		c->state_from[i] = plan->steps[u->rows[i]].from;
		c->state_to[i] = plan->steps[u->rows[i]].to;
	}
	const struct forward_outputs out = place_outputs(c, u->rows, n);
	return run_rows(c, &rows, u->rows, &out, err);
}

/* ---- Decode ---- */

enum cohort_status context_reserve(struct cohort_context *c, struct memory_plan *plan, struct cohort_err *err)
{
	const struct batch_checked *b = &c->checked;
	for (int32_t i = 0; i < b->n_tokens; i++)
		c->kv_rows[i] = (struct kv_row){b->pos[(size_t)i * (size_t)b->n_pos_row], b->n_seq[i], b->seq[i]};
	return memory_reserve(&c->memory, c->kv_rows, (size_t)b->n_tokens, plan, err);
}

enum cohort_status context_run(struct cohort_context *c, const struct memory_plan *plan, struct cohort_err *err)
{
	static const enum batch_split kinds[] = {
		[COHORT_SPLIT_SIMPLE] = BATCH_SPLIT_SIMPLE,
		[COHORT_SPLIT_EQUAL] = BATCH_SPLIT_EQUAL,
		[COHORT_SPLIT_SEQ] = BATCH_SPLIT_SEQ,
	};
	struct ubatch u;

	trace(c, NULL);
	for (size_t g = 0; g < c->n_groups; g++)
		for (size_t i = 0; i < plan->kv[g].n_copies; i++)
			be_cpu.kv_copy(c->forward.be, g, plan->kv[g].copies[i].from, plan->kv[g].copies[i].to);
	for (;;) {
		enum cohort_status st = batch_split(&c->checked, kinds[c->p.split], c->p.n_ubatch, 0, &u, err);
		if (st || u.n_tokens == 0)
			return st;
		trace(c, &u);
		st = run_ubatch(c, plan, &u, err);
		if (st)
			return st;
	}
}

/* Outputs in the order of the rows. */
static void rank_rows(struct cohort_context *c)
{
	int32_t n = 0;
	for (int32_t i = 0; i < c->checked.n_tokens; i++)
		if (c->checked.output[i]) {
			c->rank_of[i] = n;
			c->outputs[n++].row = i;
		}
}

/* One embedding per sequence, over its rows in batch order. */
static void pool_rows(struct cohort_context *c)
{
	const struct batch_checked *b = &c->checked;
	struct forward *f = &c->forward;

	if (c->p.pooling == COHORT_POOL_NONE)
		return;
	for (int32_t i = 0; i < b->n_tokens; i++)
		for (int32_t j = 0; j < b->n_seq[i]; j++) {
			const size_t seq = (size_t)b->seq[i][j], place = (size_t)c->outputs[c->rank_of[i]].place;
			if (c->pooled_in[seq] != c->call)
				c->pooled[seq] = 0;
			c->pooled_in[seq] = c->call;
			const bool first = c->pooled[seq]++ == 0;
			if (first || c->p.pooling != COHORT_POOL_CLS)
				be_cpu.row_add(f->be, f->pooled, seq, f->embeddings, place,
						first || c->p.pooling == COHORT_POOL_LAST);
		}
	if (c->p.pooling != COHORT_POOL_MEAN)
		return;
	/* Each sequence once: at the row that is its last. */
	for (int32_t i = 0; i < b->n_tokens; i++)
		for (int32_t j = 0; j < b->n_seq[i]; j++) {
			const cohort_seq seq = b->seq[i][j];
			if (b->pos[i] == batch_seq_pos_max(b, seq))
				be_cpu.row_div(f->be, f->pooled, (size_t)seq, c->pooled[seq]);
		}
}

void context_count(struct cohort_context *c, double seconds, size_t n_single, size_t n_rows)
{
	const double share = (double)n_single / (double)n_rows;
	c->counters.n_decode++;
	c->counters.n_decode_rows += n_single;
	c->counters.n_prefill_rows += n_rows - n_single;
	c->counters.decode_s += seconds * share;
	c->counters.prefill_s += seconds * (1.0 - share);
}

/* The call went well: its outputs may be asked for. */
static void publish(struct cohort_context *c)
{
	struct fp_mode fp;

	fp_enter(&fp);
	pool_rows(c);
	fp_leave(&fp);
	c->n_rows = (size_t)c->checked.n_tokens;
	c->n_outputs = (size_t)c->checked.n_outputs;
}

enum cohort_status context_decode(struct cohort_context *c, const struct cohort_batch *b, struct cohort_err *err)
{
	const double start = clock_now();
	struct memory_plan plan;
	enum cohort_status st = context_check(c, b, true, err);

	if (st)
		return st;
	rank_rows(c);
	memory_begin(&c->memory);
	st = context_reserve(c, &plan, err);
	if (!st)
		st = context_run(c, &plan, err);
	if (st) {
		memory_rollback(&c->memory);
		return st;
	}
	memory_commit(&c->memory);
	publish(c);
	context_count(c, clock_now() - start, (size_t)batch_n_single(&c->checked), c->n_rows);
	return COHORT_OK;
}

enum cohort_status cohort_decode(struct cohort_context *c, const struct cohort_batch *b, struct cohort_err *err)
{
	if (!c)
		return err_set(err, COHORT_E_ARG, "context is NULL");
	context_forget(c);
	return b ? context_decode(c, b, err) : err_set(err, COHORT_E_ARG, "batch is NULL");
}

/* ---- Without memory ---- */

/* Sequences that go through the model together, in blocks behind the pool. */
struct whole {
	size_t n, n_blocks, n_seqs, n_wanted;
	const float *embd;
};

/* Adds a ubatch of whole sequences, n_seqs of n_seq_tokens rows. */
static void whole_add(struct cohort_context *c, struct whole *w, const struct ubatch *u)
{
	const size_t size = be_kv_block(), len = (size_t)u->n_seq_tokens;

	for (size_t i = 0; i < (size_t)u->n_tokens; i++) {
		const size_t at = w->n++, pos = (size_t)u->pos[i];
		const int32_t *table = c->scratch_ids + w->n_blocks + i / len * ((len + size - 1) / size);
		c->enc_rows[at] = u->rows[i];
		c->enc_pos[at] = u->pos[i];
		c->enc_tokens[at] = u->tokens ? u->tokens[i] : 0;
		c->end[at] = u->n_seq_tokens;
		c->state_to[at] = (int32_t)(c->n_states + (w->n_seqs + i / len) % context_whole_max(c));
		c->state_from[at] = i % len ? c->state_to[at] : -1;
		c->row_lora[at] = c->lora[u->seq[i][0]];
		for (size_t g = 0; g < c->n_groups; g++) {
			struct context_cells *k = &c->cells[g];
			k->tables[at] = table;
			k->held[at] = NULL;
			k->first[at] = 0;
			k->stores[at] = (struct be_store){(int32_t)at, table[pos / size], (int32_t)(pos % size)};
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

	for (size_t g = 0; g < c->n_groups; g++)
		rows.cells[g].n_stores = w->n;
	enum cohort_status st = run_rows(c, &rows, c->enc_rows, out, err);
	*w = (struct whole){0};
	return st;
}

static enum cohort_status whole_flush(struct cohort_context *c, struct whole *w, struct cohort_err *err)
{
	if (w->n == 0)
		return COHORT_OK;
	const struct forward_outputs out = place_outputs(c, c->enc_rows, w->n);
	return whole_run(c, w, &out, err);
}

/* As many whole sequences at a time as fit a ubatch. Vectors lie in the split's own buffer, so they go one by one. */
static enum cohort_status encode_all(struct cohort_context *c, struct cohort_err *err)
{
	struct whole w = {0};
	struct ubatch u;
	enum cohort_status st;

	trace(c, NULL);
	for (;;) {
		st = batch_split(&c->checked, BATCH_SPLIT_SEQ, c->p.n_ubatch, 0, &u, err);
		if (st)
			return st;
		if (u.n_tokens == 0)
			return whole_flush(c, &w, err);
		const size_t n_blocks = ((size_t)u.n_tokens + be_kv_block() - 1) / be_kv_block();
		if (w.n + (size_t)u.n_tokens > (size_t)c->p.n_ubatch || w.n_blocks + n_blocks > c->n_scratch_blocks ||
				w.n_seqs == context_whole_max(c))
			st = whole_flush(c, &w, err);
		if (st)
			return st;
		trace(c, &u);
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
	rank_rows(c);
	st = encode_all(c, err);
	if (st)
		return st;
	publish(c);
	context_count(c, clock_now() - start, 0, c->n_rows);
	return COHORT_OK;
}

double cohort_repack(struct cohort_context *c, double seconds)
{
	struct fp_mode fp;

	if (!c)
		return 1;
	fp_enter(&fp);
	const double done = c->forward.ops->settle(c->forward.be, seconds);
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
	be_cpu.kv_touch(c->forward.be);
	whole_add(c, &w, &u);
	const size_t n_places = c->n_places, n_logits = c->n_logits;
	const size_t at = (size_t)c->p.n_batch; /* a place that is nobody's */
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

/* ---- Outputs ---- */

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

static const float *get_row(const struct cohort_context *c, const struct be_buf *b, const char *what, int32_t i,
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
	const int32_t place = b == c->forward.logits ? o->logits : o->place;
	if (place >= 0)
		return be_cpu.buf_row(c->forward.be, b, (size_t)place);
	err_rule(err, COHORT_E_ARG, "output-kind", o->row, -1, 1, COHORT_ROW_EMBEDDING,
			"row %d of the last decode asked for its embedding only", o->row);
	return NULL;
}

const float *context_logits_at(const struct cohort_context *c, size_t rank)
{
	return be_cpu.buf_row(c->forward.be, c->forward.logits, (size_t)c->outputs[rank].logits);
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
		return be_cpu.buf_row(c->forward.be, c->forward.pooled, (size_t)seq);
	return NULL;
}
