/* The model. One ubatch through the layers: attention or a recurrent state, feed-forward or experts, norms and
 * residuals as the model has them; outputs only where wanted.
 *
 * Invariants
 *  1. Nothing here depends on how many rows there are or whose they are: each row's numbers follow from its own
 *     tokens alone.
 *  2. In the last layer only the rows whose output is wanted go beyond storing what later rows need.
 *  3. What a layer computed is added to x by the next norm (struct sums), in one pass over the rows.
 *  4. Between two devices only x is moved, as floats, so that any division of the layers gives the same bits. */
#include "forward/forward.h"

#include "base/mem.h"

/* ---- Descriptors: what the model says of a step ---- */

static struct be_norm norm_of(const struct model *m, const struct model_norm *n)
{
	return (struct be_norm){n->w, n->b, m->hp.norm_eps, m->hp.layer_norm};
}

static struct be_ffn ffn_of(const struct model *m, const struct model_ffn *w)
{
	static const enum be_act acts[] = {
		[MODEL_SILU] = BE_SILU, [MODEL_GELU] = BE_GELU, [MODEL_SWIGLU_OAI] = BE_SWIGLU_OAI,
	};
	return (struct be_ffn){w->gate, w->up, w->down, w->gate_b, w->up_b, w->down_b, acts[m->hp.act]};
}

static struct be_experts experts_of(const struct model *m, const struct model_experts *w)
{
	static const enum be_gating gatings[] = {
		[MODEL_GATE_SOFTMAX] = BE_GATE_SOFTMAX,
		[MODEL_GATE_SOFTMAX_CHOSEN] = BE_GATE_SOFTMAX_CHOSEN,
		[MODEL_GATE_SIGMOID] = BE_GATE_SIGMOID,
	};
	return (struct be_experts){
			.ffn = ffn_of(m, &w->e),
			.router_b = w->router_b,
			.n = m->hp.n_expert,
			.n_used = m->hp.n_expert_used,
			.gating = gatings[m->hp.gating],
			.norm = m->hp.expert_norm,
			.scale = m->hp.expert_scale,
	};
}

static int rope_of(const struct model *m, const struct model_layer *w)
{
	return m->hp.n_rot ? w->rope : -1;
}

static struct be_qkv qkv_of(const struct forward *f, size_t l)
{
	const struct model_hparams *h = &f->m->hp;
	const struct model_layer *w = &f->m->layers[l];

	return (struct be_qkv){
			.layer = f->local[l],
			.bq = w->bq,
			.bk = w->bk,
			.bv = w->bv,
			.q_norm = norm_of(f->m, &w->q_norm),
			.k_norm = norm_of(f->m, &w->k_norm),
			.clamp = h->qkv_clamp,
			.rope = rope_of(f->m, w),
			.scale = h->attn_scale,
			.temp = h->attn_temp,
			.temp_period = h->temp_period,
	};
}

/* Floats of a recurrent layer's convolution, which come first in its state, and of its scan. */
static size_t conv_floats(const struct model_hparams *h)
{
	return (size_t)h->d_inner * (h->d_conv - 1);
}

static size_t scan_floats(const struct model_hparams *h)
{
	return (size_t)h->d_inner * h->d_state;
}

/* ---- Opening ---- */

/* A buffer of n rows, or of outputs; 0 rows or columns: the model has no use for it. */
struct wanted {
	struct be_buf **buf;
	size_t n_rows, n_cols;
};

enum { N_BUFS = 22, N_OUTPUT_BUFS = 2 };

static void list_bufs(struct forward_part *p, const struct model *m, size_t n, struct wanted w[N_BUFS])
{
	const struct model_hparams *h = &m->hp;
	const size_t embd = h->n_embd, attn = model_is_recurrent(m) ? 0 : n;
	const size_t chosen = n * h->n_expert_used, shared = h->n_ff_shared ? n : 0;
	size_t more = m->pos_embd || m->type_embd || shared ? n : 0, ffn = 0;

	for (uint32_t l = p->first; l < p->end; l++) {
		more = m->layers[l].parallel || m->layers[l].attn_again.w ? n : more;
		ffn = m->layers[l].ffn.up ? n : ffn;
	}
	const struct wanted all[N_BUFS] = {
			{&p->x, n, embd},
			{&p->h, n, embd},
			{&p->tmp, n, embd},
			{&p->more, more, embd},
			{&p->q, attn, (size_t)h->n_head * h->head_k},
			{&p->k, attn, (size_t)h->n_head_kv * h->head_k},
			{&p->v, attn, (size_t)h->n_head_kv * h->head_v},
			{&p->att, attn, (size_t)h->n_head * h->head_v},
			{&p->gate, ffn, h->n_ff},
			{&p->up, ffn, h->n_ff},
			{&p->route, n, h->n_expert},
			{&p->exp_gate, chosen, h->n_ff_exp},
			{&p->exp_up, chosen, h->n_ff_exp},
			{&p->exp_down, chosen, embd},
			{&p->sh_gate, shared, h->n_ff_shared},
			{&p->sh_up, shared, h->n_ff_shared},
			{&p->in, n, h->d_inner},
			{&p->z, n, h->d_inner},
			{&p->dt, n, h->d_inner},
			{&p->dt_low, n, h->dt_rank},
			{&p->b, n, h->d_state},
			{&p->c, n, h->d_state},
	};
	for (size_t i = 0; i < N_BUFS; i++)
		w[i] = all[i];
}

static void list_outputs(struct forward *f, const struct forward_limits *lim, struct wanted w[N_OUTPUT_BUFS])
{
	const size_t n = lim->n_outputs_max;

	w[0] = (struct wanted){&f->logits, lim->logits ? n : 0, f->m->hp.n_vocab};
	w[1] = (struct wanted){&f->embeddings, lim->embeddings ? n : 0, f->m->hp.n_embd};
}

static bool open_bufs(struct forward_part *p, const struct wanted *w, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (w[i].n_rows && w[i].n_cols && !(*w[i].buf = p->ops->buf_open(p->be, w[i].n_rows, w[i].n_cols)))
			return false;
	return true;
}

static void free_bufs(const struct forward_part *p, const struct wanted *w, size_t n)
{
	for (size_t i = 0; i < n; i++)
		p->ops->buf_free(*w[i].buf);
}

/* An instance of a device for its layers. */
static enum cohort_status open_device(struct forward *f, struct forward_part *p, const struct forward_device *d,
		const struct forward_limits *lim, struct cohort_err *err)
{
	const struct model *m = f->m;
	const struct model_hparams *h = &m->hp;
	const bool recurrent = model_is_recurrent(m);
	const size_t n = p->end - p->first;
	struct be_cell_layer *cells = mem_zalloc(n ? n : 1, sizeof *cells);
	size_t *floats = mem_zalloc(n ? n : 1, sizeof *floats);

	for (uint32_t l = p->first; cells && floats && l < p->end; l++) {
		f->local[l] = l - p->first;
		cells[l - p->first] = (struct be_cell_layer){lim->group_of[l], (int8_t)rope_of(m, &m->layers[l]),
				h->n_head, h->n_head_kv, h->head_k, h->head_v};
		floats[l - p->first] = recurrent ? conv_floats(h) + scan_floats(h) : 0;
	}
	struct be_limits bl = {
			.n_rows_max = lim->n_rows_max,
			.n_threads = lim->n_threads,
			.kv_type = lim->kv_type,
			.n_groups = lim->n_groups,
			.layers = cells,
			.n_layers = recurrent ? 0 : n,
			.ropes = f->ropes,
			.n_ropes = MODEL_ROPES,
			.state_floats = floats,
			.n_state_layers = recurrent ? n : 0,
			.n_states = lim->n_states,
			.n_ff_max = h->n_ff > h->n_ff_shared ? h->n_ff : h->n_ff_shared,
			.n_expert = h->n_expert,
			.n_expert_used = h->n_expert_used,
			.base = lim->base,
			.n_base = lim->n_base,
	};
	size_t n_blocks = 0;
	for (size_t g = 0; g < lim->n_groups; g++) {
		n_blocks += bl.n_blocks[g] = lim->n_blocks[g];
		bl.window[g] = lim->window[g];
	}
	p->be = cells && floats ? p->ops->open(d->weights, &bl) : NULL;
	mem_free(cells);
	mem_free(floats);
	if (p->be)
		return COHORT_OK;
	if (recurrent)
		return err_set(err, COHORT_E_MEMORY,
				"out of memory or threads for %zu recurrent states and %zu threads; use fewer of them",
				lim->n_states, lim->n_threads);
	return err_set(err, COHORT_E_MEMORY,
			"out of memory or threads for %zu blocks of %d tokens and %zu threads; use fewer of them",
			n_blocks, BE_BLOCK, lim->n_threads);
}

enum cohort_status forward_init(struct forward *f, const struct model *m, const struct forward_limits *lim,
		struct cohort_err *err)
{
	struct wanted w[N_BUFS];
	uint32_t first = 0;

	*f = (struct forward){.m = m};
	f->local = mem_zalloc(m->hp.n_layer, sizeof *f->local);
	if (!f->local)
		return err_set(err, COHORT_E_MEMORY, "out of memory");
	for (size_t i = 0; i < MODEL_ROPES; i++)
		f->ropes[i] = (struct be_rope){model_rope_freqs(&m->rope[i], lim->n_pos_max), m->hp.n_rot,
				m->rope[i].scale, m->hp.rope_halves};
	for (size_t i = 0; i < lim->n_devices; i++) {
		const struct forward_device *d = &lim->devices[i];
		struct forward_part *p = &f->parts[f->n_parts++];
		*p = (struct forward_part){.ops = d->weights->ops, .first = first, .end = first + d->n_layers,
				.wanted = d->wanted};
		first = p->end;
		const enum cohort_status st = open_device(f, p, d, lim, err);
		if (st) {
			forward_release(f);
			return st;
		}
		list_bufs(p, m, lim->n_rows_max, w);
		if (!open_bufs(p, w, N_BUFS))
			goto no_buffers;
	}
	list_outputs(f, lim, w);
	if (open_bufs(&f->parts[f->n_parts - 1], w, N_OUTPUT_BUFS))
		return COHORT_OK;
no_buffers:
	forward_release(f);
	return err_set(err, COHORT_E_MEMORY, "out of memory for buffers of %zu rows and %zu outputs", lim->n_rows_max,
			lim->n_outputs_max);
}

void forward_release(struct forward *f)
{
	struct wanted w[N_BUFS];

	if (!f)
		return;
	for (size_t i = f->n_parts; i > 0; i--) {
		struct forward_part *p = &f->parts[i - 1];
		list_outputs(f, &(struct forward_limits){0}, w);
		if (i == f->n_parts)
			free_bufs(p, w, N_OUTPUT_BUFS);
		list_bufs(p, f->m, 0, w);
		free_bufs(p, w, N_BUFS);
		p->ops->free(p->be);
	}
	mem_free(f->local);
	*f = (struct forward){0};
}

/* ---- Steps of a layer ---- */

static void matmul(const struct forward_part *p, struct be_buf *out, const struct model_weight *w,
		const struct be_buf *x, size_t n, size_t out_row)
{
	p->ops->matmul(&out, &w, 1, x, n, out_row);
}

/* What is still to be added to x. */
struct sums {
	struct be_sum s[2];
};

static struct be_sum sum_of(const struct forward *f, struct be_buf *b, const struct model_weight *bias,
		const struct model_norm *post)
{
	return (struct be_sum){b, bias, norm_of(f->m, post), f->m->hp.residual_scale};
}

/* Adds the sums to x and norms it; returns what the next step reads. */
static struct be_buf *add_norm(const struct forward *f, const struct forward_part *p, struct sums *sums,
		const struct model_norm *norm, size_t n, const struct model_weight *next)
{
	struct be_add_norm a = {.out = p->h,
			.x = p->x,
			.add = {sums->s[0], sums->s[1]},
			.norm = norm_of(f->m, norm),
			.next = next};

	/* With norms of the sums, the first sum's norm is x's own. */
	if (f->m->hp.post_norm && a.add[0].b) {
		a.norm = a.add[0].post;
		a.add[0].post.w = NULL;
		a.out = p->x;
	}
	*sums = (struct sums){0};
	p->ops->add_norm(&a, n);
	return a.norm.w ? a.out : p->x;
}

/* The feed-forward of x, to out. */
static void feed_forward(const struct forward *f, const struct forward_part *p, const struct model_ffn *w,
		struct be_buf *gate, struct be_buf *up, struct be_buf *out, const struct be_buf *x, size_t n)
{
	const struct be_ffn d = ffn_of(f->m, w);
	struct be_buf *both[] = {gate, up};
	const struct model_weight *m[] = {w->gate, w->up};

	if (w->gate)
		p->ops->matmul(both, m, 2, x, n, 0);
	else
		matmul(p, up, w->up, x, n, 0);
	p->ops->glu(gate, up, &d, n);
	matmul(p, out, w->down, w->gate ? gate : up, n, 0);
}

static void experts(const struct forward *f, const struct forward_part *p, const struct model_experts *w,
		struct be_buf *out, const struct be_buf *x, size_t n)
{
	const struct be_experts d = experts_of(f->m, w);
	const struct be_expert_bufs bufs = {p->route, p->exp_gate, p->exp_up, p->exp_down};

	matmul(p, p->route, w->router, x, n, 0);
	p->ops->experts(out, x, &d, &bufs, n);
	if (w->shared.up) {
		feed_forward(f, p, &w->shared, p->sh_gate, p->sh_up, p->more, x, n);
		p->ops->add_gated(out, p->more, x, w->shared_gate, n);
	}
}

/* From here on only the rows with outputs go on. */
static void narrow(const struct forward_part *p, const struct forward_outputs *out)
{
	p->ops->narrow(p->be, out->rows, out->n);
	p->ops->copy(p->x, 0, p->x, out->rows, out->n);
}

/* Attention of x, to tmp; returns how many rows go on. */
static size_t attend(const struct forward *f, const struct forward_part *p, size_t l, struct be_buf *x, size_t n,
		const struct forward_outputs *last)
{
	const struct model_layer *w = &f->m->layers[l];
	const struct be_qkv qkv = qkv_of(f, l);
	const struct be_attend d = {f->local[l], f->m->hp.attn_cap, f->m->slopes, w->sinks};
	struct be_buf *bufs[] = {p->q, p->k, p->v};
	const struct model_weight *wqkv[] = {w->wq, w->wk, w->wv};

	p->ops->matmul(bufs, wqkv, 3, x, n, 0);
	p->ops->qkv_store(p->q, p->k, p->v, &qkv);
	if (last && last->n == 0)
		return 0;
	if (last) {
		narrow(p, last);
		n = last->n;
		if (w->parallel && x != p->x)
			p->ops->copy(x, 0, x, last->rows, n);
		if (w->attn_again.w)
			p->ops->copy(p->more, 0, p->more, last->rows, n);
	}
	p->ops->attention(p->att, p->q, &d, last ? last->rows : NULL, n);
	matmul(p, p->tmp, w->wo, p->att, n, 0);
	return n;
}

/* The same for a recurrent layer. */
static size_t recur(const struct forward *f, const struct forward_part *p, size_t l, struct be_buf *x, size_t n,
		const struct forward_outputs *last)
{
	const struct model_hparams *h = &f->m->hp;
	const struct model_ssm *w = &f->m->layers[l].ssm;
	const struct be_conv conv = {f->local[l], 0, h->d_inner, h->d_conv, w->conv, w->conv_b};
	const struct be_scan scan = {f->local[l], conv_floats(h), h->d_inner, h->d_state, w->a, w->d, w->dt_b};
	struct be_buf *xz[] = {p->in, p->z}, *dbc[] = {p->dt_low, p->b, p->c};
	const struct model_weight *wxz[] = {w->in_x, w->in_z}, *wdbc[] = {w->dt_low, w->b, w->c};

	p->ops->matmul(xz, wxz, 2, x, n, 0);
	p->ops->conv(p->in, &conv);
	p->ops->matmul(dbc, wdbc, 3, p->in, n, 0);
	matmul(p, p->dt, w->dt, p->dt_low, n, 0);
	p->ops->scan(p->in, p->dt, p->b, p->c, p->z, &scan);
	if (last && last->n == 0)
		return 0;
	if (last) {
		narrow(p, last);
		n = last->n;
		p->ops->copy(p->in, 0, p->in, last->rows, n);
	}
	matmul(p, p->tmp, w->out, p->in, n, 0);
	return n;
}

/* One layer over n rows; `sums` is what the layer before leaves to be added to x, and then what this one does. With
 * `last` (the last layer) only those rows go on once later rows have what they need. */
static size_t layer(const struct forward *f, const struct forward_part *p, size_t l, size_t n, struct sums *sums,
		const struct forward_outputs *last)
{
	static const struct model_norm none = {NULL, NULL};
	const struct model_layer *w = &f->m->layers[l];
	const struct model_weight *first = w->experts.router ? w->experts.router
			: w->ffn.gate                        ? w->ffn.gate
							     : w->ffn.up;
	struct be_buf *x;

	if (w->ssm.out) {
		x = add_norm(f, p, sums, &w->attn_norm, n, w->ssm.in_x);
		n = recur(f, p, l, x, n, last);
		sums->s[0] = sum_of(f, p->tmp, NULL, &none);
		return n;
	}
	x = add_norm(f, p, sums, &w->attn_norm, n, w->wq);
	if (w->attn_again.w)
		p->ops->copy(p->more, 0, p->x, NULL, n);
	n = attend(f, p, l, x, n, last);
	if (n == 0)
		return 0;
	sums->s[0] = sum_of(f, p->tmp, w->bo, &w->attn_post);
	struct be_buf *out = p->tmp;
	if (w->parallel) {
		out = p->more;
		if (w->ffn_norm.w)
			x = add_norm(f, p, &(struct sums){0}, &w->ffn_norm, n, first);
	} else {
		x = add_norm(f, p, sums, &w->ffn_norm, n, first);
	}
	if (w->attn_again.w)
		p->ops->add_norm(&(struct be_add_norm){.out = p->x,
						 .x = p->x,
						 .add = {sum_of(f, p->more, NULL, &none)},
						 .norm = norm_of(f->m, &w->attn_again),
						 .next = first},
				n);
	if (w->experts.router)
		experts(f, p, &w->experts, out, x, n);
	else
		feed_forward(f, p, &w->ffn, p->gate, p->up, out, x, n);
	sums->s[w->parallel] = sum_of(f, out, w->ffn.down_b, &w->ffn_post);
	return n;
}

/* ---- A ubatch ---- */

static void embed(const struct forward *f, size_t n)
{
	const struct forward_part *p = &f->parts[0];
	const struct model *m = f->m;

	p->ops->embed(p->x, p->more, &(struct be_embed){m->token_embd, m->type_embd, m->pos_embd, m->hp.embd_scale});
	if (m->embd_norm.w)
		p->ops->add_norm(&(struct be_add_norm){.out = p->x, .x = p->x, .norm = norm_of(m, &m->embd_norm)}, n);
}

/* The wanted rows of x and what is to be added become outputs. Bad embeddings give bad logits, so embeddings are looked
 * at only where there are rows without logits. */
static void finish(const struct forward *f, struct sums *sums, const struct forward_outputs *out)
{
	const struct forward_part *p = &f->parts[f->n_parts - 1];
	const struct model *m = f->m;
	const bool all = out->n_logits == out->n;
	struct be_buf *x = add_norm(f, p, sums, &m->output_norm, out->n, all ? m->output : NULL);

	if (f->embeddings)
		p->ops->copy(f->embeddings, out->row, x, NULL, out->n);
	if (!all) {
		p->ops->logits(f->embeddings, out->row, out->n, &(struct be_logits){.scale = 1}, NULL);
		p->ops->narrow(p->be, out->logit_rows, out->n_logits);
		p->ops->copy(x, 0, x, out->logit_at, out->n_logits);
	}
	if (out->n_logits == 0)
		return;
	matmul(p, f->logits, m->output, x, out->n_logits, out->logit_row);
	p->ops->logits(f->logits, out->logit_row, out->n_logits,
			&(struct be_logits){m->output_b, m->hp.logit_scale, m->hp.logit_cap}, out->logit_at);
}

/* x of n rows to the next device. */
static void hand_over(const struct forward *f, const struct forward_part *from, struct sums *sums, size_t n)
{
	static const struct model_norm none = {NULL, NULL};
	const struct forward_part *to = from + 1;

	add_norm(f, from, sums, &none, n, NULL);
	const float *rows = from->ops->outputs(from->x, n);
	if (rows)
		to->ops->upload(to->x, rows, n);
}

static enum cohort_status run_layers(struct forward *f, size_t n, const struct forward_outputs *out,
		bool (*abort)(void *), void *abort_user)
{
	const struct forward_part *p = f->parts;
	const size_t n_layer = f->m->hp.n_layer;
	struct sums sums = {0};

	embed(f, n);
	for (size_t l = 0; l < n_layer; l++) {
		if (abort && abort(abort_user))
			return COHORT_ABORTED;
		for (; l == p->end; p++)
			hand_over(f, p, &sums, n);
		n = layer(f, p, l, n, &sums, l + 1 == n_layer ? out : NULL);
	}
	if (out->n)
		finish(f, &sums, out);
	return COHORT_OK;
}

enum cohort_status forward_run(struct forward *f, const struct be_rows *rows, const struct forward_outputs *out,
		bool (*abort)(void *), void *abort_user, int64_t *bad, struct cohort_err *err)
{
	for (size_t i = 0; i < f->n_parts; i++)
		f->parts[i].ops->begin(f->parts[i].be, rows);
	enum cohort_status st = run_layers(f, rows->n, out, abort, abort_user);
	const enum cohort_status failed = forward_wait(f, bad, err);
	st = failed ? failed : st;
	return st ? st : *bad >= 0 ? COHORT_E_NUMERIC : COHORT_OK;
}

const float *forward_row(struct be_buf *b, size_t row, size_t n, struct cohort_err *err)
{
	const float *rows = b->be->ops->outputs(b, n);
	int64_t bad;

	if (rows)
		return rows + row * b->n_cols;
	b->be->ops->wait(b->be, &bad, err);
	return NULL;
}
