/* One ubatch through the layers: attention or a state, a network or experts, norms and sums as the model has them;
 * outputs only where wanted.
 *
 * Invariants
 *  1. Nothing here depends on how many rows there are or whose they are: each row's numbers follow from its own
 *     tokens alone.
 *  2. In the last layer only the rows whose output is wanted go beyond storing what later rows need.
 *  3. What a layer computed is added to x by whoever norms x next (struct sums), in one step over the rows. */
#include "forward/forward.h"

enum { N_BUFS = 25 };

/* Buffers of n rows, or of outputs; 0 rows or columns: the model has no use for it. */
struct wanted {
	struct be_buf **buf;
	size_t n_rows, n_cols;
};

static size_t list_bufs(struct forward *f, const struct model *m, const struct forward_limits *lim, struct wanted *w)
{
	const struct model_hparams *h = &m->hp;
	const size_t n = lim->n_rows_max, embd = h->n_embd, attn = model_is_recurrent(m) ? 0 : n;
	const size_t chosen = n * h->n_expert_used, shared = h->n_ff_shared ? n : 0;
	size_t more = m->pos_embd || m->type_embd || shared ? n : 0, ffn = 0;

	for (uint32_t l = 0; l < h->n_layer; l++) {
		more = m->layers[l].parallel || m->layers[l].attn_again.w ? n : more;
		ffn = m->layers[l].ffn.up ? n : ffn;
	}
	const struct wanted all[] = {
			{&f->x, n, embd},
			{&f->h, n, embd},
			{&f->tmp, n, embd},
			{&f->more, more, embd},
			{&f->q, attn, (size_t)h->n_head * h->head_k},
			{&f->k, attn, (size_t)h->n_head_kv * h->head_k},
			{&f->v, attn, (size_t)h->n_head_kv * h->head_v},
			{&f->att, attn, (size_t)h->n_head * h->head_v},
			{&f->gate, ffn, h->n_ff},
			{&f->up, ffn, h->n_ff},
			{&f->route, n, h->n_expert},
			{&f->exp_gate, chosen, h->n_ff_exp},
			{&f->exp_up, chosen, h->n_ff_exp},
			{&f->exp_down, chosen, embd},
			{&f->sh_gate, shared, h->n_ff_shared},
			{&f->sh_up, shared, h->n_ff_shared},
			{&f->in, n, h->d_inner},
			{&f->z, n, h->d_inner},
			{&f->dt, n, h->d_inner},
			{&f->dt_low, n, h->dt_rank},
			{&f->b, n, h->d_state},
			{&f->c, n, h->d_state},
			{&f->logits, lim->logits ? lim->n_outputs_max : 0, h->n_vocab},
			{&f->embeddings, lim->embeddings ? lim->n_outputs_max : 0, embd},
			{&f->pooled, lim->n_pooled_max, embd},
	};
	_Static_assert(sizeof all / sizeof *all == N_BUFS, "N_BUFS");
	for (size_t i = 0; i < N_BUFS; i++)
		w[i] = all[i];
	return N_BUFS;
}

enum cohort_status forward_init(struct forward *f, const struct be_ops *ops, struct be *be, const struct model *m,
		const struct forward_limits *lim, struct cohort_err *err)
{
	struct wanted w[N_BUFS];

	*f = (struct forward){.ops = ops, .be = be, .m = m, .n_rows_max = lim->n_rows_max};
	const size_t n = list_bufs(f, m, lim, w);
	for (size_t i = 0; i < n; i++) {
		if (w[i].n_rows == 0 || w[i].n_cols == 0)
			continue;
		*w[i].buf = ops->buf_open(be, w[i].n_rows, w[i].n_cols);
		if (!*w[i].buf) {
			forward_release(f);
			return err_set(err, COHORT_E_MEMORY, "out of memory for buffers of %zu rows and %zu outputs",
					lim->n_rows_max, lim->n_outputs_max);
		}
	}
	return COHORT_OK;
}

void forward_release(struct forward *f)
{
	if (f && f->ops) {
		struct wanted w[N_BUFS];
		const size_t n = list_bufs(f, f->m, &(struct forward_limits){0}, w);
		for (size_t i = 0; i < n; i++)
			f->ops->buf_free(f->be, *w[i].buf);
		f->ops->free(f->be);
		*f = (struct forward){0};
	}
}

static void matmul(struct forward *f, struct be_buf *out, const struct model_weight *w, const struct be_buf *x,
		size_t n, size_t out_row)
{
	f->ops->matmul(f->be, &out, &w, 1, x, n, out_row);
}

/* What is still to be added to x. */
struct sums {
	struct be_sum s[2];
};

/* Adds the sums to x and norms it; returns what the next step reads. */
static struct be_buf *settle(struct forward *f, struct sums *sums, const struct model_norm *norm, size_t n,
		const struct model_weight *next)
{
	struct be_norm a = {.out = f->h, .x = f->x, .add = {sums->s[0], sums->s[1]}, .norm = *norm, .next = next};

	/* With norms behind the sums, the first sum's norm is x's own. */
	if (f->m->hp.post_norm && a.add[0].b) {
		a.norm = a.add[0].post;
		a.add[0].post = (struct model_norm){0};
		a.out = f->x;
	}
	*sums = (struct sums){0};
	f->ops->norm(f->be, &a, n);
	return a.norm.w ? a.out : f->x;
}

/* The network of a layer, of x, to out. */
static void network(struct forward *f, const struct model_ffn *w, struct be_buf *gate, struct be_buf *up,
		struct be_buf *out, const struct be_buf *x, size_t n)
{
	struct be_buf *both[] = {gate, up};
	const struct model_weight *m[] = {w->gate, w->up};

	if (w->gate)
		f->ops->matmul(f->be, both, m, 2, x, n, 0);
	else
		matmul(f, up, w->up, x, n, 0);
	f->ops->glu(f->be, gate, up, w, n);
	matmul(f, out, w->down, w->gate ? gate : up, n, 0);
}

static void experts(struct forward *f, size_t l, struct be_buf *out, const struct be_buf *x, size_t n)
{
	const struct model_experts *w = &f->m->layers[l].experts;

	matmul(f, f->route, w->router, x, n, 0);
	f->ops->experts(f->be, out, x, f->route, f->exp_gate, f->exp_up, f->exp_down, l, n);
	if (w->shared.up) {
		network(f, &w->shared, f->sh_gate, f->sh_up, f->more, x, n);
		f->ops->add_shared(f->be, out, f->more, x, w->shared_gate, n);
	}
}

/* Attention of a layer, of x, to tmp; returns how many rows go on. */
static size_t attend(struct forward *f, size_t l, struct be_buf *x, size_t n, const int32_t *outputs, size_t n_outputs)
{
	const struct be_ops *o = f->ops;
	const struct model_layer *w = &f->m->layers[l];
	struct be_buf *qkv[] = {f->q, f->k, f->v};
	const struct model_weight *wqkv[] = {w->wq, w->wk, w->wv};

	o->matmul(f->be, qkv, wqkv, 3, x, n, 0);
	o->rope_store(f->be, f->q, f->k, f->v, l);
	if (outputs && n_outputs == 0)
		return 0;
	if (outputs) {
		o->narrow(f->be, outputs, n_outputs);
		o->gather(f->be, f->x, f->x, outputs, n_outputs);
		if (w->parallel && x != f->x)
			o->gather(f->be, x, x, outputs, n_outputs);
		if (w->attn_again.w)
			o->gather(f->be, f->more, f->more, outputs, n_outputs);
		n = n_outputs;
	}
	o->attention(f->be, f->att, f->q, l, outputs, n);
	matmul(f, f->tmp, w->wo, f->att, n, 0);
	return n;
}

/* The same for a layer with a state. */
static size_t remember(
		struct forward *f, size_t l, struct be_buf *x, size_t n, const int32_t *outputs, size_t n_outputs)
{
	const struct be_ops *o = f->ops;
	const struct model_ssm *w = &f->m->layers[l].ssm;
	struct be_buf *xz[] = {f->in, f->z}, *dbc[] = {f->dt_low, f->b, f->c};
	const struct model_weight *wxz[] = {w->in_x, w->in_z}, *wdbc[] = {w->dt_low, w->b, w->c};

	o->matmul(f->be, xz, wxz, 2, x, n, 0);
	o->conv(f->be, f->in, l);
	o->matmul(f->be, dbc, wdbc, 3, f->in, n, 0);
	matmul(f, f->dt, w->dt, f->dt_low, n, 0);
	o->scan(f->be, f->in, f->dt, f->b, f->c, f->z, l);
	if (outputs && n_outputs == 0)
		return 0;
	if (outputs) {
		o->narrow(f->be, outputs, n_outputs);
		o->gather(f->be, f->x, f->x, outputs, n_outputs);
		o->gather(f->be, f->in, f->in, outputs, n_outputs);
		n = n_outputs;
	}
	matmul(f, f->tmp, w->out, f->in, n, 0);
	return n;
}

/* One layer over n rows; `sums` is what the layer before leaves to be added to x, and then what this one does. When
 * `outputs` is given (the last layer), only those rows go on once later rows have what they need. */
static size_t layer(struct forward *f, size_t l, size_t n, struct sums *sums, const int32_t *outputs, size_t n_outputs)
{
	const struct model_layer *w = &f->m->layers[l];
	const struct model_weight *first = w->experts.router ? w->experts.router
			: w->ffn.gate                        ? w->ffn.gate
							     : w->ffn.up;
	struct be_buf *x;

	if (w->ssm.out) {
		x = settle(f, sums, &w->attn_norm, n, w->ssm.in_x);
		n = remember(f, l, x, n, outputs, n_outputs);
		sums->s[0] = (struct be_sum){.b = f->tmp};
		return n;
	}
	x = settle(f, sums, &w->attn_norm, n, w->wq);
	if (w->attn_again.w)
		f->ops->copy(f->be, f->more, 0, f->x, n);
	n = attend(f, l, x, n, outputs, n_outputs);
	if (n == 0)
		return 0;
	sums->s[0] = (struct be_sum){f->tmp, w->bo, w->attn_post};
	struct be_buf *out = f->tmp;
	if (w->parallel) {
		out = f->more;
		if (w->ffn_norm.w)
			x = settle(f, &(struct sums){0}, &w->ffn_norm, n, first);
	} else {
		x = settle(f, sums, &w->ffn_norm, n, first);
	}
	if (w->attn_again.w)
		f->ops->norm(f->be,
				&(struct be_norm){.out = f->x, .x = f->x, .add = {{.b = f->more}},
					.norm = w->attn_again, .next = first},
				n);
	if (w->experts.router)
		experts(f, l, out, x, n);
	else
		network(f, &w->ffn, f->gate, f->up, out, x, n);
	sums->s[w->parallel] = (struct be_sum){out, w->ffn.down_b, w->ffn_post};
	return n;
}

/* The logits of those rows of x that have some; *bad as forward_run's. */
static void finish_logits(struct forward *f, struct be_buf *x, const struct forward_outputs *out, int64_t *bad)
{
	if (out->n_logits < out->n) {
		f->ops->narrow(f->be, out->logit_rows, out->n_logits);
		f->ops->gather(f->be, x, x, out->logit_at, out->n_logits);
	}
	matmul(f, f->logits, f->m->output, x, out->n_logits, out->logit_row);
	f->ops->finish(f->be, f->logits, out->logit_row, out->n_logits);
	*bad = f->ops->find_bad(f->be, f->logits, out->logit_row, out->n_logits);
	*bad = *bad < 0 ? -1 : out->logit_at[*bad];
}

/* The wanted rows of x and what is to be added become outputs. Bad embeddings give bad logits, so embeddings are looked
 * at only where there are rows without logits. */
static enum cohort_status finish(struct forward *f, struct sums *sums, const struct forward_outputs *out, int64_t *bad)
{
	const bool all = out->n_logits == out->n;
	struct be_buf *x = settle(f, sums, &f->m->output_norm, out->n, all ? f->m->output : NULL);

	if (f->embeddings)
		f->ops->copy(f->be, f->embeddings, out->row, x, out->n);
	*bad = all ? -1 : f->ops->find_bad(f->be, f->embeddings, out->row, out->n);
	if (*bad < 0 && out->n_logits)
		finish_logits(f, x, out, bad);
	return *bad >= 0 ? COHORT_E_NUMERIC : COHORT_OK;
}

enum cohort_status forward_run(struct forward *f, const struct be_rows *rows, const struct forward_outputs *out,
		bool (*abort)(void *), void *abort_user, int64_t *bad)
{
	const size_t n_layer = f->m->hp.n_layer;
	size_t n = rows->n;
	struct sums sums = {0};

	f->ops->begin(f->be, rows);
	f->ops->embed(f->be, f->x, f->more);
	if (f->m->embd_norm.w)
		f->ops->norm(f->be, &(struct be_norm){.out = f->x, .x = f->x, .norm = f->m->embd_norm}, n);
	for (size_t l = 0; l < n_layer; l++) {
		if (abort && abort(abort_user))
			return COHORT_ABORTED;
		n = layer(f, l, n, &sums, l + 1 == n_layer ? out->rows : NULL, out->n);
	}
	return out->n ? finish(f, &sums, out, bad) : COHORT_OK;
}
