/* Decoding: the transaction around check, reservation, ubatches and outputs. No arithmetic.
 *
 * Invariants
 *  1. A call reserves the cache for all its rows before it computes the first; whatever fails afterwards is rolled
 *     back, so every sequence is as before. Cells written meanwhile lie beyond every sequence's end or in blocks
 *     nobody holds.
 *  2. A warm call allocates nothing. A first one may, for rows that name several sequences, for vectors, and for
 *     several chunks, and for sequences with gaps; tracing always does.
 *  3. No operation of a device is under way when a call returns. */
#include "context/impl.h"

#include "base/fp.h"
#include "base/mem.h"
#include "base/pool.h"

#include <string.h>

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
void context_trace(const struct cohort_context *c, const struct ubatch *u)
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

enum cohort_status context_run_rows(struct cohort_context *c, struct be_rows *rows, const int32_t *batch_rows,
		const struct forward_outputs *out, struct cohort_err *err)
{
	struct fp_mode fp;
	int64_t bad = -1;

	for (size_t g = 0; g < c->n_groups; g++) {
		const struct context_cells *k = &c->cells[g];
		struct be_cells *to = &rows->cells[g];
		*to = (struct be_cells){k->blocks, k->held, to->n_entries, k->table, k->gaps, k->base, k->first,
				k->stores, to->n_stores};
	}
	rows->end = c->end;
	rows->state_from = c->state_from;
	rows->state_to = c->state_to;
	rows->lora = c->n_lora ? c->row_lora : NULL;
	fp_enter(&fp);
	enum cohort_status st = forward_run(&c->forward, rows, out, c->p.abort, c->p.abort_user, &bad, err);
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

/* Tables of the rows' sequences, each once, from the first block that it holds on. */
static enum cohort_status gather_tables(struct cohort_context *c, size_t g, const struct ubatch *u, size_t *n_entries,
		struct cohort_err *err)
{
	const struct kv *kv = c->memory.kv[g];
	struct context_cells *k = &c->cells[g];
	size_t at = 0;

	if (++c->n_ubatches == 0) { /* wrapped around: the old marks mean nothing */
		memset(c->ubatch_of, 0, (size_t)c->p.n_seq_max * sizeof *c->ubatch_of);
		c->n_ubatches = 1;
	}
	for (size_t i = 0; i < (size_t)u->n_tokens; i++) {
		const cohort_seq seq = u->seq[i][0];
		const uint32_t same = c->row_of[seq];
		if (c->ubatch_of[seq] == c->n_ubatches) {
			k->table[i] = k->table[same];
			k->gaps[i] = k->gaps[same];
			k->base[i] = k->base[same];
			k->first[i] = k->first[same];
			continue;
		}
		c->ubatch_of[seq] = c->n_ubatches;
		c->row_of[seq] = (uint32_t)i;
		k->first[i] = kv_pos_first(kv, seq);
		k->gaps[i] = kv_has_gaps(kv, seq);
		k->table[i] = (uint32_t)at;
		const size_t from = (size_t)k->first[i] / BE_BLOCK;
		const size_t n = (size_t)kv_pos_max(kv, seq) / BE_BLOCK - from + 1;
		k->base[i] = (cohort_pos)(from * BE_BLOCK);
		if (!mem_grow((void **)&k->blocks, &k->blocks_max, at + n, sizeof *k->blocks) ||
				!mem_grow((void **)&k->held, &k->held_max, at + n, sizeof *k->held))
			return err_set(err, COHORT_E_MEMORY, "out of memory for tables of %zu blocks", at + n);
		memcpy(k->blocks + at, kv_table(kv, seq) + from, n * sizeof *k->blocks);
		memcpy(k->held + at, kv_held(kv, seq) + from, n * sizeof *k->held);
		at += n;
	}
	*n_entries = at;
	return COHORT_OK;
}

static enum cohort_status run_ubatch(struct cohort_context *c, const struct memory_plan *plan, const struct ubatch *u,
		struct cohort_err *err)
{
	struct be_rows rows = {.n = (size_t)u->n_tokens, .tokens = u->tokens, .embd = u->embd, .pos = u->pos};
	const size_t n = rows.n;

	for (size_t g = 0; g < c->n_groups; g++) {
		enum cohort_status st = gather_stores(c, g, &plan->kv[g], u, &rows.cells[g].n_stores, err);
		if (!st)
			st = gather_tables(c, g, u, &rows.cells[g].n_entries, err);
		if (st)
			return st;
	}
	for (size_t i = 0; i < n; i++)
		c->end[i] = u->pos[i] + 1;
	for (size_t i = 0; c->n_lora && i < n; i++)
		c->row_lora[i] = c->lora[u->seq[i][0]];
	for (size_t i = 0; plan->steps && i < n; i++) {
		c->state_from[i] = plan->steps[u->rows[i]].from;
		c->state_to[i] = plan->steps[u->rows[i]].to;
	}
	const struct forward_outputs out = context_place_outputs(c, u->rows, n);
	return context_run_rows(c, &rows, u->rows, &out, err);
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

	context_trace(c, NULL);
	for (size_t g = 0; g < c->n_groups; g++)
		context_move_cells(c, g, plan->kv[g].copies, plan->kv[g].n_copies);
	for (;;) {
		enum cohort_status st = batch_split(&c->checked, kinds[c->p.split], c->p.n_ubatch, 0, &u, err);
		if (st || u.n_tokens == 0)
			return st;
		context_trace(c, &u);
		st = run_ubatch(c, plan, &u, err);
		if (st)
			return st;
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

enum cohort_status context_decode(struct cohort_context *c, const struct cohort_batch *b, struct cohort_err *err)
{
	const double start = clock_now();
	struct memory_plan plan;
	enum cohort_status st = context_check(c, b, true, err);

	if (st)
		return st;
	context_rank_rows(c);
	memory_begin(&c->memory);
	st = context_reserve(c, &plan, err);
	if (!st)
		st = context_run(c, &plan, err);
	if (!st)
		st = context_pool(c, err);
	if (st) {
		memory_rollback(&c->memory);
		return st;
	}
	memory_commit(&c->memory);
	context_publish(c);
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

