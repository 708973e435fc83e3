/* The decoder: norm, attention, norm, feed-forward, residuals; outputs only where wanted.
 *
 * Invariants
 *  1. Nothing here depends on how many rows there are or whose they are: each row's numbers follow from its own
 *     tokens alone.
 *  2. In the last layer only the rows whose output is wanted go beyond storing K and V. */
#include "forward/forward.h"

enum cohort_status forward_init(struct forward *f, const struct be_ops *ops, struct be *be, const struct model *m,
		const struct forward_limits *lim, struct cohort_err *err)
{
	const struct model_hparams *h = &m->hp;
	const size_t n = lim->n_rows_max, embd = h->n_embd, heads = h->n_head, kv_heads = h->n_head_kv;

	*f = (struct forward){.ops = ops, .be = be, .m = m, .n_rows_max = n};
	const struct {
		struct be_buf **buf;
		size_t n_rows, n_cols; /* 0 rows: not wanted */
	} bufs[] = {
		{&f->x, n, embd}, {&f->h, n, embd}, {&f->q, n, heads * h->head_k}, {&f->k, n, kv_heads * h->head_k},
		{&f->v, n, kv_heads * h->head_v}, {&f->att, n, heads * h->head_v}, {&f->tmp, n, embd},
		{&f->gate, n, h->n_ff}, {&f->up, n, h->n_ff},
		{&f->logits, lim->logits ? lim->n_outputs_max : 0, h->n_vocab},
		{&f->embeddings, lim->embeddings ? lim->n_outputs_max : 0, embd},
		{&f->pooled, lim->n_pooled_max, embd},
	};
	for (size_t i = 0; i < sizeof bufs / sizeof *bufs; i++) {
		if (bufs[i].n_rows == 0)
			continue;
		*bufs[i].buf = ops->buf_open(be, bufs[i].n_rows, bufs[i].n_cols);
		if (!*bufs[i].buf) {
			forward_release(f);
			return err_set(err, COHORT_E_MEMORY, "out of memory for buffers of %zu rows and %zu outputs", n,
					lim->n_outputs_max);
		}
	}
	return COHORT_OK;
}

void forward_release(struct forward *f)
{
	if (f && f->ops) {
		struct be_buf *bufs[] = {f->x, f->h, f->q, f->k, f->v, f->att, f->tmp, f->gate, f->up, f->logits,
				f->embeddings, f->pooled};
		for (size_t i = 0; i < sizeof bufs / sizeof *bufs; i++)
			f->ops->buf_free(f->be, bufs[i]);
		f->ops->free(f->be);
		*f = (struct forward){0};
	}
}

static void matmul(struct forward *f, struct be_buf *out, const struct model_weight *w, const struct be_buf *x,
		size_t n, size_t out_row)
{
	f->ops->matmul(f->be, &out, &w, 1, x, n, out_row);
}

/* One layer over n rows; `add` is what the layer before leaves to be added to x. When `outputs` is given (the last
 * layer), only those rows go on after the cache is written. Leaves its own last sum in tmp. */
static size_t layer(struct forward *f, size_t l, size_t n, const struct be_buf *add, const int32_t *outputs,
		size_t n_outputs)
{
	const struct be_ops *o = f->ops;
	const struct model_layer *w = &f->m->layers[l];
	struct be_buf *qkv[] = {f->q, f->k, f->v}, *ff[] = {f->gate, f->up};
	const struct model_weight *wqkv[] = {w->wq, w->wk, w->wv}, *wff[] = {w->gate, w->up};

	o->norm(f->be, f->h, f->x, add, w->attn_norm, n, w->wq);
	o->matmul(f->be, qkv, wqkv, 3, f->h, n, 0);
	o->rope_store(f->be, f->q, f->k, f->v, l);
	if (outputs && n_outputs == 0)
		return 0;
	if (outputs) {
		o->gather(f->be, f->x, f->x, outputs, n_outputs);
		n = n_outputs;
	}
	o->attention(f->be, f->att, f->q, l, outputs, n);
	matmul(f, f->tmp, w->wo, f->att, n, 0);
	o->norm(f->be, f->h, f->x, f->tmp, w->ffn_norm, n, w->gate);
	o->matmul(f->be, ff, wff, 2, f->h, n, 0);
	o->glu(f->be, f->gate, f->up, n, w->down);
	matmul(f, f->tmp, w->down, f->gate, n, 0);
	return n;
}

/* n rows of x and tmp become outputs. Bad embeddings give bad logits, so the last kind computed is looked at. */
static enum cohort_status finish(struct forward *f, size_t n, size_t out_row, int64_t *bad)
{
	f->ops->norm(f->be, f->h, f->x, f->tmp, f->m->output_norm, n, f->m->output);
	if (f->logits)
		matmul(f, f->logits, f->m->output, f->h, n, out_row);
	if (f->embeddings)
		f->ops->copy(f->be, f->embeddings, out_row, f->h, n);
	*bad = f->ops->find_bad(f->be, f->logits ? f->logits : f->embeddings, out_row, n);
	return *bad >= 0 ? COHORT_E_NUMERIC : COHORT_OK;
}

enum cohort_status forward_run(struct forward *f, const struct be_rows *rows, const int32_t *outputs, size_t n_outputs,
		size_t out_row, bool (*abort)(void *), void *abort_user, int64_t *bad)
{
	const size_t n_layer = f->m->hp.n_layer;
	size_t n = rows->n;

	f->ops->begin(f->be, rows);
	f->ops->embed(f->be, f->x);
	for (size_t l = 0; l < n_layer; l++) {
		if (abort && abort(abort_user))
			return COHORT_ABORTED;
		n = layer(f, l, n, l ? f->tmp : NULL, l + 1 == n_layer ? outputs : NULL, n_outputs);
	}
	return n_outputs ? finish(f, n, out_row, bad) : COHORT_OK;
}
