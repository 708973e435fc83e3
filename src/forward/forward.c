/* The decoder: norm, attention, norm, feed-forward, residuals; logits only where wanted.
 *
 * Invariants
 *  1. Nothing here depends on how many rows there are or whose they are: each row's numbers follow from its own
 *     tokens alone.
 *  2. In the last layer only the rows whose logits are wanted go beyond storing K and V. */
#include "forward/forward.h"

enum cohort_status forward_init(struct forward *f, const struct be_ops *ops, struct be *be, const struct model *m,
		size_t n_rows_max, size_t n_outputs_max, struct cohort_err *err)
{
	const struct model_hparams *h = &m->hp;
	size_t embd = h->n_embd, heads = h->n_head, kv_heads = h->n_head_kv;

	*f = (struct forward){.ops = ops, .be = be, .m = m, .n_rows_max = n_rows_max};
	f->x = ops->buf_open(be, n_rows_max, embd);
	f->h = ops->buf_open(be, n_rows_max, embd);
	f->q = ops->buf_open(be, n_rows_max, heads * h->head_k);
	f->k = ops->buf_open(be, n_rows_max, kv_heads * h->head_k);
	f->v = ops->buf_open(be, n_rows_max, kv_heads * h->head_v);
	f->att = ops->buf_open(be, n_rows_max, heads * h->head_v);
	f->tmp = ops->buf_open(be, n_rows_max, embd);
	f->gate = ops->buf_open(be, n_rows_max, h->n_ff);
	f->up = ops->buf_open(be, n_rows_max, h->n_ff);
	f->logits = ops->buf_open(be, n_outputs_max, h->n_vocab);
	if (f->x && f->h && f->q && f->k && f->v && f->att && f->tmp && f->gate && f->up && f->logits)
		return COHORT_OK;
	forward_release(f);
	return err_set(err, COHORT_E_MEMORY, "out of memory for buffers of %zu rows and logits of %zu",
			n_rows_max, n_outputs_max);
}

void forward_release(struct forward *f)
{
	if (f && f->ops) {
		struct be_buf *bufs[] = {f->x, f->h, f->q, f->k, f->v, f->att, f->tmp, f->gate, f->up, f->logits};
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
	if (n_outputs) {
		f->ops->norm(f->be, f->h, f->x, f->tmp, f->m->output_norm, n, f->m->output);
		matmul(f, f->logits, f->m->output, f->h, n, out_row);
		*bad = f->ops->find_bad(f->be, f->logits, out_row, n);
		if (*bad >= 0)
			return COHORT_E_NUMERIC;
	}
	return COHORT_OK;
}
