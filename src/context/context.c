/* cohort.h's contexts: argument checks, lifetimes, the decode transaction. No arithmetic.
 *
 * Invariants
 *  1. A decode reserves the cache for all its rows before it computes the first; whatever fails afterwards is rolled
 *     back, so every sequence is as before. Cells written meanwhile lie beyond every sequence's end or in blocks nobody
 *     holds.
 *  2. A decode allocates nothing: every array is sized at open. Only batches whose rows name several sequences may make
 *     some grow.
 *  3. Logits row j belongs to the j-th row of the batch that asked for output. */
#include "context/impl.h"

#include "base/mem.h"
#include "base/pool.h"
#include "batch/batch.h"
#include "forward/forward.h"
#include "kv/kv.h"

#include <string.h>

struct cohort_context {
	const struct cohort_model *model;
	struct cohort_context_params p;
	struct forward forward;
	struct kv *kv;
	struct batch_checked checked;
	/* Per row of a batch, [n_batch]: */
	struct kv_row *kv_rows;
	cohort_token *tokens;
	cohort_pos *pos, *first;
	const int32_t **tables;
	int32_t *output_of; /* logits row, or -1 */
	int32_t *outputs;   /* rows of a ubatch that want logits */
	/* Of a ubatch; grows with coupled rows. */
	struct be_store *stores;
	size_t stores_max;
	size_t n_rows, n_outputs; /* of the last decode; 0 when it failed */
	struct cohort_counters counters;
};

void cohort_context_params_init(struct cohort_context_params *params)
{
	*params = (struct cohort_context_params){
		.struct_size = sizeof *params,
		.n_ctx = 2048,
		.n_batch = 512,
		.n_ubatch = 128,
		.n_seq_max = 64,
	};
}

static enum cohort_status in_range(const char *what, int64_t v, int64_t lo, int64_t hi, struct cohort_err *err)
{
	if (v >= lo && v <= hi)
		return COHORT_OK;
	return err_rule(err, COHORT_E_ARG, what, -1, -1, v < lo ? lo : hi, v, "%s is %lld, expected %lld to %lld", what,
			(long long)v, (long long)lo, (long long)hi);
}

static enum cohort_status check_params(const struct cohort_context_params *p, struct cohort_err *err)
{
	enum cohort_status st = in_range("n_ctx", p->n_ctx, 1, 1 << 30, err);
	if (!st)
		st = in_range("n_batch", p->n_batch, 1, 1 << 20, err);
	if (!st)
		st = in_range("n_ubatch", p->n_ubatch, 1, 1 << 20, err);
	if (!st)
		st = in_range("n_seq_max", p->n_seq_max, 1, 1 << 16, err);
	if (!st)
		st = in_range("n_threads", p->n_threads, 0, 1024, err);
	if (!st)
		st = in_range("kv_type", (int64_t)p->kv_type, COHORT_KV_F16, COHORT_KV_F32, err);
	return st;
}

/* Sequences end where the model's training did; 2^25 keeps the tables of a file that claims more in bounds. */
static cohort_pos pos_limit(const struct cohort_model *m)
{
	const uint32_t n = m->model.hp.n_ctx_train, most = 1 << 25;
	return (cohort_pos)(n < most ? n : most);
}

enum cohort_status cohort_context_open(const struct cohort_model *model, const struct cohort_context_params *params,
		struct cohort_context **out, struct cohort_err *err)
{
	struct cohort_context_params p;
	enum cohort_status st;

	cohort_context_params_init(&p);
	if (!model || !out)
		return err_set(err, COHORT_E_ARG, "%s is NULL", model ? "out" : "model");
	if (model->vocab_only)
		return err_set(err, COHORT_E_ARG, "the model was opened with vocab_only: it has no weights");
	if (params) {
		if (params->struct_size < offsetof(struct cohort_context_params, abort) ||
				params->struct_size > sizeof p)
			return err_set(err, COHORT_E_ARG,
					"context parameters were not initialised by cohort_context_params_init");
		memcpy(&p, params, params->struct_size);
	}
	st = check_params(&p, err);
	if (st)
		return st;
	if (p.n_threads == 0)
		p.n_threads = (int32_t)pool_cpu_count();
	if (p.n_ubatch > p.n_batch)
		p.n_ubatch = p.n_batch;

	struct cohort_context *c = mem_zalloc(1, sizeof *c);
	if (!c)
		return err_set(err, COHORT_E_MEMORY, "out of memory");
	c->model = model;
	c->p = p;
	size_t n = (size_t)p.n_batch, n_blocks = ((size_t)p.n_ctx + be_kv_block() - 1) / be_kv_block();
	c->kv = kv_open(&(struct kv_limits){.n_blocks = n_blocks, .block_size = be_kv_block(),
			.n_seq_max = (size_t)p.n_seq_max, .n_pos_max = (size_t)pos_limit(model), .n_rows_max = n});
	c->kv_rows = mem_zalloc(n, sizeof *c->kv_rows);
	c->tokens = mem_zalloc(n, sizeof *c->tokens);
	c->pos = mem_zalloc(n, sizeof *c->pos);
	c->first = mem_zalloc(n, sizeof *c->first);
	c->tables = mem_zalloc(n, sizeof *c->tables);
	c->output_of = mem_zalloc(n, sizeof *c->output_of);
	c->outputs = mem_zalloc(n, sizeof *c->outputs);
	c->stores_max = (size_t)p.n_ubatch;
	c->stores = mem_zalloc(c->stores_max, sizeof *c->stores);
	bool checked = batch_checked_init(&c->checked, n, (size_t)p.n_seq_max);
	if (!checked || !c->kv || !c->kv_rows || !c->tokens || !c->pos || !c->first || !c->tables || !c->output_of ||
			!c->outputs || !c->stores) {
		cohort_context_free(c);
		return err_set(err, COHORT_E_MEMORY, "out of memory for a context of %d tokens", p.n_ctx);
	}
	struct be *be = be_cpu.open(model->weights, &model->model,
			&(struct be_limits){.n_rows_max = (size_t)p.n_ubatch,
					.n_blocks = n_blocks,
					.kv_type = p.kv_type,
					.n_threads = (size_t)p.n_threads});
	if (!be)
		st = err_set(err, COHORT_E_MEMORY, "out of memory or threads for a context of %d tokens and %d threads",
				p.n_ctx, p.n_threads);
	else
		st = forward_init(&c->forward, &be_cpu, be, &model->model, (size_t)p.n_ubatch, n, err);
	if (st) {
		cohort_context_free(c);
		return st;
	}
	*out = c;
	return COHORT_OK;
}

void cohort_context_free(struct cohort_context *c)
{
	if (c) {
		forward_release(&c->forward);
		kv_free(c->kv);
		batch_checked_release(&c->checked);
		mem_free(c->kv_rows);
		mem_free(c->tokens);
		mem_free(c->pos);
		mem_free(c->first);
		mem_free(c->tables);
		mem_free(c->output_of);
		mem_free(c->outputs);
		mem_free(c->stores);
		mem_free(c);
	}
}

/* ---- Decode ---- */

static cohort_pos mem_pos_max(void *kv, cohort_seq seq)
{
	return kv_pos_max(kv, seq);
}
static bool mem_same(void *kv, cohort_seq a, cohort_seq b)
{
	return kv_same(kv, a, b);
}

static enum cohort_status gather_stores(struct cohort_context *c, const struct kv_plan *plan, size_t from, size_t n,
		size_t *n_stores, struct cohort_err *err)
{
	size_t at = n;

	if (!mem_grow((void **)&c->stores, &c->stores_max, n + plan->n_extra, sizeof *c->stores))
		return err_set(err, COHORT_E_MEMORY, "out of memory for %zu rows", n);
	for (size_t i = 0; i < n; i++)
		c->stores[i] = (struct be_store){(int32_t)i, plan->stores[from + i].block, plan->stores[from + i].slot};
	for (size_t i = 0; i < plan->n_extra; i++) {
		const struct kv_store *e = &plan->extra[i];
		size_t row = (size_t)e->row;
		if (row >= from && row < from + n)
			c->stores[at++] = (struct be_store){(int32_t)(row - from), e->block, e->slot};
	}
	*n_stores = at;
	return COHORT_OK;
}

static enum cohort_status run_ubatch(struct cohort_context *c, const struct kv_plan *plan, size_t from, size_t n,
		size_t out_row, size_t *n_out, struct cohort_err *err)
{
	size_t n_stores, n_outputs = 0;
	int64_t bad = -1;
	enum cohort_status st = gather_stores(c, plan, from, n, &n_stores, err);
	if (st)
		return st;
	for (size_t i = 0; i < n; i++)
		if (c->output_of[from + i] >= 0)
			c->outputs[n_outputs++] = (int32_t)i;
	st = forward_run(&c->forward,
			&(struct be_rows){
					.n = n,
					.tokens = c->tokens + from,
					.pos = c->pos + from,
					.first = c->first + from,
					.tables = c->tables + from,
					.stores = c->stores,
					.n_stores = n_stores,
			},
			c->outputs, n_outputs, out_row, c->p.abort, c->p.abort_user, &bad);
	*n_out = n_outputs;
	if (st == COHORT_ABORTED)
		return err_set(err, st, "the abort callback ended the decode");
	if (st == COHORT_E_NUMERIC) {
		size_t row = from + (size_t)c->outputs[bad];
		return err_rule(err, st, "finite", (int64_t)row, c->checked.rows[row].seq[0], 0, 0,
				"row %zu has a logit that is not a finite number", row);
	}
	return st;
}

static enum cohort_status run_all(struct cohort_context *c, const struct kv_plan *plan, struct cohort_err *err)
{
	const struct batch_checked *b = &c->checked;
	size_t at = 0, from, n, out_row = 0, n_out;

	for (size_t i = 0; i < plan->n_copies; i++)
		be_cpu.kv_copy(c->forward.be, plan->copies[i].from, plan->copies[i].to);
	for (size_t i = 0; i < b->n_rows; i++) {
		c->tokens[i] = b->rows[i].token;
		c->pos[i] = b->rows[i].pos;
		c->first[i] = kv_pos_min(c->kv, b->rows[i].seq[0]);
		c->tables[i] = kv_table(c->kv, b->rows[i].seq[0]);
		c->output_of[i] = b->rows[i].output ? (int32_t)out_row++ : -1;
	}
	out_row = 0;
	for (;;) {
		batch_split_simple(b, (size_t)c->p.n_ubatch, &at, &from, &n);
		if (n == 0)
			return COHORT_OK;
		enum cohort_status st = run_ubatch(c, plan, from, n, out_row, &n_out, err);
		if (st)
			return st;
		out_row += n_out;
	}
}

static void count(struct cohort_context *c, double seconds)
{
	size_t n_single = 0;
	for (size_t i = 0; i < c->checked.n_rows; i++)
		n_single += c->checked.rows[i].single;
	double share = (double)n_single / (double)c->checked.n_rows;
	c->counters.n_decode++;
	c->counters.n_decode_rows += n_single;
	c->counters.n_prefill_rows += c->checked.n_rows - n_single;
	c->counters.decode_s += seconds * share;
	c->counters.prefill_s += seconds * (1.0 - share);
}

enum cohort_status cohort_decode(struct cohort_context *c, const struct cohort_batch *batch, struct cohort_err *err)
{
	if (!c || !batch)
		return err_set(err, COHORT_E_ARG, "%s is NULL", c ? "batch" : "context");
	const double start = clock_now();
	const struct batch_limits lim = {
		.n_vocab = (int32_t)c->model->model.hp.n_vocab,
		.n_seq_max = c->p.n_seq_max,
		.n_rows_max = c->p.n_batch,
		.n_pos_max = pos_limit(c->model),
	};
	struct kv_plan plan;
	enum cohort_status st;

	c->n_rows = c->n_outputs = 0;
	st = batch_check(&c->checked, batch, &lim, &(struct batch_memory){c->kv, mem_pos_max, mem_same}, err);
	if (st)
		return st;
	for (size_t i = 0; i < c->checked.n_rows; i++)
		c->kv_rows[i] = (struct kv_row){
				c->checked.rows[i].pos, c->checked.rows[i].n_seq, c->checked.rows[i].seq};
	st = kv_reserve(c->kv, c->kv_rows, c->checked.n_rows, &plan, err);
	if (st)
		return st;
	st = run_all(c, &plan, err);
	if (st) {
		kv_rollback(c->kv);
		return st;
	}
	kv_commit(c->kv);
	c->n_rows = c->checked.n_rows;
	c->n_outputs = c->checked.n_outputs;
	count(c, clock_now() - start);
	return COHORT_OK;
}

const float *cohort_logits_get(const struct cohort_context *c, int32_t i, struct cohort_err *err)
{
	int64_t row = -1;

	if (!c) {
		err_set(err, COHORT_E_ARG, "context is NULL");
		return NULL;
	}
	if (i < 0)
		row = (int64_t)c->n_outputs + i;
	else if ((size_t)i < c->n_rows)
		row = c->output_of[i];
	if (row < 0) {
		err_rule(err, COHORT_E_ARG, "output-index", i, -1, (int64_t)c->n_outputs, i,
				i >= 0 && (size_t)i < c->n_rows ? "row %d of the last decode did not ask for output"
								: "index %d is outside the last decode",
				i);
		return NULL;
	}
	return be_cpu.buf_row(c->forward.be, c->forward.logits, (size_t)row);
}

/* ---- Sequences ---- */

enum cohort_status cohort_seq_rm(
		struct cohort_context *c, cohort_seq seq, cohort_pos p0, cohort_pos p1, struct cohort_err *err)
{
	return c ? kv_seq_rm(c->kv, seq, p0, p1, err) : err_set(err, COHORT_E_ARG, "context is NULL");
}

enum cohort_status cohort_seq_cp(struct cohort_context *c, cohort_seq src, cohort_seq dst, struct cohort_err *err)
{
	return c ? kv_seq_cp(c->kv, src, dst, err) : err_set(err, COHORT_E_ARG, "context is NULL");
}

cohort_pos cohort_seq_pos_min(const struct cohort_context *c, cohort_seq seq)
{
	return kv_pos_min(c->kv, seq);
}

cohort_pos cohort_seq_pos_max(const struct cohort_context *c, cohort_seq seq)
{
	return kv_pos_max(c->kv, seq);
}

void cohort_seq_clear(struct cohort_context *c)
{
	kv_clear(c->kv);
}

int32_t cohort_kv_block_size(void)
{
	return (int32_t)be_kv_block();
}

void cohort_usage_get(const struct cohort_context *c, struct cohort_usage *usage)
{
	struct kv_usage u;
	kv_usage_get(c->kv, &u);
	*usage = (struct cohort_usage){
		.block_size = (int32_t)be_kv_block(),
		.n_blocks = (int32_t)u.n_blocks,
		.n_used = (int32_t)u.n_used,
		.n_shared = (int32_t)u.n_shared,
		.n_free = (int32_t)(u.n_blocks - u.n_used),
		.block_bytes = be_cpu.block_bytes(c->forward.be),
	};
}

void cohort_counters_get(const struct cohort_context *ctx, struct cohort_counters *counters)
{
	*counters = ctx->counters;
}
