/* The plain backend's operations on rows: what each computes, by the reference kernels. */
#include "plain_impl.h"

#include "base/fmath.h"
#include "kern/kern_math.h"

/* ---- Embedding ---- */

/* Row r of a weight as floats. */
static void read_row(const struct plain *p, const struct model_weight *w, size_t r, float *out)
{
	quant_format_get(w->type)->to_f32(row_at(&p->w->w[w->index], w, r), out, w->k);
}

static enum cohort_status run_embed(struct plain *p, const struct op *op)
{
	const struct be_embed *e = &op->d.embed;
	const size_t k = op->out[0]->n_cols;

	for (size_t r = 0; r < p->rows.n; r++) {
		float *x = row_of(op->out[0], r), *more = op->out[1] ? row_of(op->out[1], r) : NULL;
		if (p->rows.tokens) {
			read_row(p, e->tokens, (size_t)p->rows.tokens[r], x);
			p->kern->scale(x, e->scale, k);
		} else {
			memcpy(x, p->rows.embd + r * k, k * sizeof *x);
		}
		if (e->types) {
			read_row(p, e->types, 0, more);
			p->kern->add(x, more, k);
		}
		if (e->positions) {
			read_row(p, e->positions, (size_t)p->rows.pos[r], more);
			p->kern->add(x, more, k);
		}
	}
	return COHORT_OK;
}

void plain_embed(struct be_buf *out, struct be_buf *work, const struct be_embed *e)
{
	plain_add(out->be, &(struct op){.run = run_embed, .out = {out, work}, .d.embed = *e});
}

/* ---- Norms and residuals ---- */

/* at: the row of weights and biases, of norms with one for each head. */
static void norm_row(const struct plain *p, const struct be_norm *norm, size_t at, const float *x, size_t n, float *out)
{
	const float *w = floats(p, norm->w) + at * n, *b = floats(p, norm->b);

	if (norm->layer_norm)
		p->kern->layer_norm(x, w, b, n, norm->eps, out);
	else
		p->kern->rms_norm(x, w, n, norm->eps, out);
}

static enum cohort_status run_add_norm(struct plain *p, const struct op *op)
{
	const struct be_add_norm *a = &op->d.add_norm;
	const size_t k = a->x->n_cols;

	for (size_t r = 0; r < op->n; r++) {
		float *x = row_of(a->x, r);
		for (const struct be_sum *s = a->add; s < a->add + 2 && s->b; s++) {
			float *b = row_of(s->b, r);
			if (s->bias)
				p->kern->add(b, floats(p, s->bias), k);
			if (s->post.w)
				norm_row(p, &s->post, 0, b, k, b);
			p->kern->scale(b, s->scale, k);
			p->kern->add(x, b, k);
		}
		if (a->norm.w)
			norm_row(p, &a->norm, 0, x, k, row_of(a->out, r));
	}
	return COHORT_OK;
}

void plain_add_norm(const struct be_add_norm *a, size_t n)
{
	const struct op op = {.run = run_add_norm,
			.out = {a->x, a->norm.w ? a->out : NULL, a->add[0].b, a->add[1].b},
			.d.add_norm = *a,
			.n = n};
	plain_add(a->x->be, &op);
}

/* ---- Matrix products ---- */

/* Rows [from, to) of a matrix, which lie at `rows` as in the file, times n rows of activations. */
static void product(const struct plain *p, const struct model_weight *w, const void *rows, struct be_range range,
		const void *act, size_t n, float *out, size_t out_ld, void *scratch)
{
	const struct kern_mm mm = {.w = rows,
			.n_rows = range.to - range.from,
			.k = w->k,
			.act = act,
			.act_bytes = kern_act_bytes(quant_format_get(w->type)->act, w->k),
			.n_cols = n,
			.out = out + range.from,
			.out_ld = out_ld,
			.scratch = scratch};
	p->kern->file[w->type].mm(&mm, 0, mm.n_rows);
}

/* Rows of the device's layout back in the file's, a few at a time, and their product with n rows from x on. Only the
 * share's columns of out are written. */
static bool device_product(struct plain *p, const struct model_weight *w, const float *x, size_t x_ld, size_t n,
		float *out, size_t out_ld)
{
	enum { FEW = 8 };
	const struct plain_weight *pw = &p->w->w[w->index];
	const enum quant_act kind = quant_format_get(w->type)->act;
	const size_t act_bytes = kern_act_bytes(kind, w->k), few_bytes = (FEW * w->row_bytes + 63) & ~(size_t)63;
	uint8_t *act = room_get(&p->act, n * act_bytes);
	uint8_t *few = room_get(&p->file_rows, few_bytes + KERN_MM_SCRATCH_BYTES(w->k));

	if (!act || !few)
		return false;
	for (size_t i = 0; i < n; i++)
		p->kern->act[kind](x + i * x_ld, w->k, act + i * act_bytes);
	for (size_t r = pw->share.from, to; r < pw->share.to; r = to) {
		to = pw->share.to - r < FEW ? pw->share.to : r + FEW;
		for (size_t i = r; i < to; i++)
			memcpy(few + (i - r) * w->row_bytes, row_at(pw, w, i), w->row_bytes);
		product(p, w, few, (struct be_range){r, to}, act, n, out, out_ld, few + few_bytes);
	}
	return true;
}

/* ---- Adapters: y += scale b (a x) ---- */

/* What an adapter adds to one row of a product. Of a share only its columns. */
static bool add_lora(struct plain *p, const struct be_lora *use, const struct model_weight *w, const float *x,
		float *out)
{
	const struct model_lora *pair = &use->loras->of[w->index];
	const struct be_range share = p->w->w[w->index].share;
	const struct plain_lora *l = p->loras;

	if (!pair->a)
		return true;
	while (l->of != use->loras)
		l++;
	const size_t rank = pair->a->n_rows;
	float *low = room_get(&p->narrow, rank * sizeof *low), *y = room_get(&p->wide, w->n_rows * sizeof *y);
	void *scratch = room_get(&p->file_rows, KERN_MM_SCRATCH_BYTES(w->k > rank ? w->k : rank));
	if (!low || !y || !scratch)
		return false;
	product(p, pair->a, l->a[w->index], (struct be_range){0, rank}, x, 1, low, rank, scratch);
	p->kern->scale(low, pair->scale * use->scale, rank);
	product(p, &pair->b, l->b[w->index] + share.from * pair->b.row_bytes, share, low, 1, y, w->n_rows, scratch);
	p->kern->add(out + share.from, y + share.from, share.to - share.from);
	return true;
}

/* Those of the model, in their order, and then the row's own. */
static bool add_loras(struct plain *p, const struct model_weight *w, const float *x, size_t r, float *out)
{
	const struct be_lora *own = p->rows.lora ? &p->rows.lora[p->narrowed ? (size_t)p->narrowed[r] : r] : NULL;
	bool ok = true;

	for (size_t i = 0; ok && i < p->n_base_loras; i++)
		ok = add_lora(p, &p->base_loras[i], w, x, out);
	return ok && (!own || !own->loras || add_lora(p, own, w, x, out));
}

static enum cohort_status run_matmul(struct plain *p, const struct op *op)
{
	const struct be_buf *x = op->x[0];

	for (size_t i = 0; i < 3 && op->w[i]; i++) {
		const struct be_buf *out = op->out[i];
		bool ok = device_product(p, op->w[i], row_of(x, 0), x->n_cols, op->n, row_of(out, op->row),
				out->n_cols);
		for (size_t r = 0; ok && r < op->n; r++)
			ok = add_loras(p, op->w[i], row_of(x, r), r, row_of(out, op->row + r));
		if (!ok)
			return COHORT_E_MEMORY;
	}
	return COHORT_OK;
}

void plain_matmul(struct be_buf *const *out, const struct model_weight *const *w, size_t n_w,
		const struct be_buf *x, size_t n, size_t out_row)
{
	struct op op = {.run = run_matmul, .x = {x}, .n = n, .row = out_row};

	memcpy(op.out, out, n_w * sizeof *out);
	memcpy(op.w, w, n_w * sizeof *w);
	plain_add(x->be, &op);
}

/* ---- Cache and attention ---- */

/* cos and sin of each pair, side by side. */
bool plain_rotate(struct plain *p, const struct be_rope *rope, cohort_pos pos, float scale, float *x)
{
	const size_t n = rope->n_rot / 2;
	float *angles = room_get(&p->row, 2 * n * sizeof *angles);

	for (size_t i = 0; angles && i < n; i++) {
		double sin, cos;
		fm_sincos((double)pos * rope->freqs[i], &sin, &cos);
		angles[i] = (float)(cos * (double)scale);
		angles[n + i] = (float)(sin * (double)scale);
	}
	if (angles)
		p->kern->rope(x, rope->n_rot, angles, angles + n, rope->halves);
	return angles;
}

static void clamp(float *x, float most, size_t n)
{
	for (size_t i = 0; most != 0.0f && i < n; i++) {
		x[i] = x[i] > most ? most : x[i];
		x[i] = x[i] < -most ? -most : x[i];
	}
}

/* Bias, clamp, norm and rotation of a row of q or k. */
static bool finish_heads(struct plain *p, const struct be_qkv *d, const struct model_weight *bias,
		const struct be_norm *norm, float *x, size_t n_heads, size_t head, cohort_pos pos)
{
	bool ok = true;

	if (bias)
		p->kern->add(x, floats(p, bias), n_heads * head);
	clamp(x, d->clamp, n_heads * head);
	if (norm->w && norm->w->k != head)
		norm_row(p, norm, 0, x, n_heads * head, x);
	for (size_t h = 0; ok && h < n_heads; h++, x += head) {
		if (norm->w && norm->w->k == head)
			norm_row(p, norm, norm->w->n_rows > 1 ? h : 0, x, head, x);
		if (d->rope >= 0)
			ok = plain_rotate(p, &p->ropes[d->rope], pos, p->ropes[d->rope].scale, x);
	}
	return ok;
}

static float query_scale(const struct be_qkv *d, cohort_pos pos)
{
	if (d->temp == 0.0f)
		return d->scale;
	const double steps = (double)((uint32_t)pos / d->temp_period);
	return (float)((double)d->scale * (1.0 + (double)d->temp * fm_log(1.0 + steps)));
}

/* A row's K and V, rounded to the cache's type, in a cell. */
static void store(const struct plain *p, const struct plain_layer *l, const float *k, const float *v, uint8_t *cell,
		void *area)
{
	for (size_t h = 0; h < l->shape.n_kv; h++) {
		uint8_t *to = cell + head_at(l, h);
		p->kern->put_k[p->kv_type](k + h * l->shape.head_k, l->shape.head_k, 0, area);
		kern_k_cell_read(p->kv_type, l->shape.head_k, area, 0, to);
		p->kern->put_v[p->kv_type](v + h * l->shape.head_v, l->shape.head_v, 0, area);
		kern_v_cell_read(p->kv_type, l->shape.head_v, area, 0, to + l->k_bytes);
	}
}

/* Areas of a block's K and V of one head, as kernels have them. */
bool plain_get_areas(struct plain *p, const struct be_cell_layer *s, uint8_t **k, uint8_t **v)
{
	const size_t k_bytes = (kern_k_area_bytes(p->kv_type, s->head_k) + 63) & ~(size_t)63;

	*k = room_get(&p->areas, k_bytes + kern_v_area_bytes(p->kv_type, s->head_v));
	*v = *k ? *k + k_bytes : NULL;
	return *k;
}

static enum cohort_status run_qkv_store(struct plain *p, const struct op *op)
{
	const struct be_qkv *d = &op->d.qkv;
	const struct plain_layer *l = &p->layers[d->layer];
	const struct be_cell_layer *s = &l->shape;
	const struct be_cells *cells = &p->rows.cells[s->group];
	uint8_t *area, *area_v;

	if (!plain_get_areas(p, s, &area, &area_v))
		return COHORT_E_MEMORY;
	for (size_t r = 0; r < p->rows.n; r++) {
		const cohort_pos pos = p->rows.pos[r];
		float *q = row_of(op->out[0], r), *k = row_of(op->out[1], r), *v = row_of(op->out[2], r);
		if (!finish_heads(p, d, d->bq, &d->q_norm, q, s->n_q, s->head_k, pos) ||
				!finish_heads(p, d, d->bk, &d->k_norm, k, s->n_kv, s->head_k, pos))
			return COHORT_E_MEMORY;
		p->kern->scale(q, query_scale(d, pos), op->out[0]->n_cols);
		if (d->bv)
			p->kern->add(v, floats(p, d->bv), op->out[2]->n_cols);
		clamp(v, d->clamp, op->out[2]->n_cols);
	}
	for (size_t i = 0; i < cells->n_stores; i++) {
		const struct be_store *to = &cells->stores[i];
		const size_t r = (size_t)to->row;
		store(p, l, row_of(op->out[1], r), row_of(op->out[2], r), cell_at(p, s->group, to->block, to->slot),
				area);
	}
	return COHORT_OK;
}

void plain_qkv_store(struct be_buf *q, struct be_buf *k, struct be_buf *v, const struct be_qkv *d)
{
	plain_add(q->be, &(struct op){.run = run_qkv_store, .out = {q, k, v}, .d.qkv = *d});
}

/* What a row sees: positions [first, end), counted from its table's first entry. */
struct view {
	size_t first, end, pos;
	const int32_t *blocks;
	const uint32_t *held; /* or NULL: all that is in the range */
};

static struct view view_of(const struct plain *p, size_t group, size_t r)
{
	const struct be_cells *c = &p->rows.cells[group];
	const size_t base = (size_t)c->base[r], window = p->groups[group].window;
	struct view v = {(size_t)c->first[r] - base, (size_t)p->rows.end[r] - base, (size_t)p->rows.pos[r] - base,
			c->blocks + c->table[r], c->gaps[r] ? c->held + c->table[r] : NULL};

	if (window && v.pos + 1 > v.first + window)
		v.first = v.pos + 1 - window;
	if (window && v.end > v.pos + window)
		v.end = v.pos + window;
	return v;
}

/* The cells that it sees of entry b of its table. Bits outside of them say nothing, nor does an entry without any. */
static uint32_t cells_seen(const struct view *v, size_t b)
{
	uint32_t seen = 0;

	for (size_t i = 0; i < BE_BLOCK; i++)
		if (b * BE_BLOCK + i >= v->first && b * BE_BLOCK + i < v->end)
			seen |= (uint32_t)1 << i;
	return v->held ? seen & v->held[b] : seen;
}

/* One KV head of one row: its query heads go over the blocks in order, one step of the softmax each. */
static bool attend(struct plain *p, const struct be_attend *d, const struct plain_layer *l, size_t h,
		const struct view *v, const float *q, float *out)
{
	const struct be_cell_layer *s = &l->shape;
	const size_t n = s->n_q / s->n_kv, acc_n = kern_pad16(s->head_v), head_k = s->head_k, head_v = s->head_v;
	const size_t at = (n * sizeof(struct kern_attn_query) + 63) & ~(size_t)63;
	const size_t acc_bytes = n * acc_n * sizeof(float);
	struct kern_attn_query *qs = room_get(&p->acc, at + acc_bytes + kern_attn_step_bytes(n, head_k, head_v));
	uint8_t *area_k, *area_v;

	if (!qs || !plain_get_areas(p, s, &area_k, &area_v))
		return false;
	float *acc = (float *)(void *)((uint8_t *)qs + at);
	const struct kern_attn_step step = {head_k, head_v, area_k, area_v, qs, n, d->cap,
			d->cap != 0.0f || d->slopes, acc + n * acc_n};
	memset(acc, 0, acc_bytes);
	for (size_t i = 0; i < n; i++)
		qs[i] = (struct kern_attn_query){.q = q + i * head_k,
				.acc = acc + i * acc_n,
				.top = KERN_ATTN_FLOOR,
				.slope = d->slopes ? d->slopes[h * n + i] : 0.0f};
	for (size_t b = v->first / BE_BLOCK; b * BE_BLOCK < v->end; b++) {
		const uint32_t seen = cells_seen(v, b);
		for (int32_t slot = 0; slot < BE_BLOCK; slot++) {
			if (!(seen >> slot & 1))
				continue;
			const uint8_t *cell = cell_at(p, s->group, v->blocks[b], slot) + head_at(l, h);
			kern_k_cell_write(p->kv_type, head_k, area_k, (size_t)slot, cell);
			kern_v_cell_write(p->kv_type, head_v, area_v, (size_t)slot, cell + l->k_bytes);
		}
		for (size_t i = 0; i < n; i++) {
			qs[i].cells = seen;
			qs[i].ahead = (int32_t)((int64_t)v->pos - (int64_t)(b * BE_BLOCK));
		}
		if (seen)
			p->kern->attn[p->kv_type](&step);
	}
	const float *sinks = floats(p, d->sinks);
	for (size_t i = 0; i < n; i++) {
		float by = 1.0f / qs[i].sum;
		if (sinks) { /* one more score, without a value */
			const float sink = sinks[h * n + i], top = sink > qs[i].top ? sink : qs[i].top;
			const float c = kern_exp(qs[i].top - top);
			by = c / fmaf(qs[i].sum, c, kern_exp(sink - top));
		}
		memcpy(out + i * head_v, qs[i].acc, head_v * sizeof *out);
		p->kern->scale(out + i * head_v, by, head_v);
	}
	return true;
}

static enum cohort_status run_attention(struct plain *p, const struct op *op)
{
	const struct be_attend *d = &op->d.attend;
	const struct plain_layer *l = &p->layers[d->layer];
	const struct be_cell_layer *s = &l->shape;
	const size_t n = s->n_q / s->n_kv;

	for (size_t i = 0; i < op->n; i++) {
		const size_t r = op->rows ? (size_t)op->rows[i] : i;
		const struct view v = view_of(p, s->group, r);
		for (size_t h = 0; h < s->n_kv; h++)
			if (!attend(p, d, l, h, &v, row_of(op->x[0], r) + h * n * s->head_k,
					    row_of(op->out[0], i) + h * n * s->head_v))
				return COHORT_E_MEMORY;
	}
	return COHORT_OK;
}

void plain_attention(struct be_buf *out, const struct be_buf *q, const struct be_attend *d, const int32_t *rows,
		size_t n)
{
	const struct op op = {.run = run_attention,
			.out = {out},
			.x = {q},
			.d.attend = *d,
			.rows = rows,
			.n = n};
	plain_add(out->be, &op);
}

/* ---- Feed-forward ---- */

/* gate = act(gate) * up; up NULL: gate = act(gate). */
static bool act_row(struct plain *p, enum be_act act, float *gate, const float *up, size_t n)
{
	float *ones = up ? NULL : room_get(&p->row, n * sizeof *ones);

	for (size_t i = 0; ones && i < n; i++)
		ones[i] = 1.0f;
	up = up ? up : ones;
	if (up)
		(act == BE_SILU                                  ? p->kern->silu_mul
						: act == BE_GELU ? p->kern->gelu_mul
								 : p->kern->swiglu_oai)(gate, up, n, gate);
	return up;
}

static enum cohort_status run_glu(struct plain *p, const struct op *op)
{
	const struct be_ffn *f = &op->d.ffn;
	const size_t n = op->out[1]->n_cols;

	for (size_t r = 0; r < op->n; r++) {
		float *gate = f->gate ? row_of(op->out[0], r) : NULL, *up = row_of(op->out[1], r);
		if (f->up_b)
			p->kern->add(up, floats(p, f->up_b), n);
		if (f->gate_b)
			p->kern->add(gate, floats(p, f->gate_b), n);
		if (!act_row(p, f->act, gate ? gate : up, gate ? up : NULL, n))
			return COHORT_E_MEMORY;
	}
	return COHORT_OK;
}

void plain_glu(struct be_buf *gate, struct be_buf *up, const struct be_ffn *f, size_t n)
{
	plain_add(up->be, &(struct op){.run = run_glu, .out = {f->gate ? gate : NULL, up}, .d.ffn = *f, .n = n});
}

/* ---- Experts ---- */

static float sigmoid(float x)
{
	return 1.0f / (1.0f + kern_exp(-x));
}

static void softmax(float *x, size_t n)
{
	float top = x[0], sum = 0.0f;

	for (size_t i = 1; i < n; i++)
		top = x[i] > top ? x[i] : top;
	for (size_t i = 0; i < n; i++) {
		x[i] = kern_exp(x[i] - top);
		sum += x[i];
	}
	for (size_t i = 0; i < n; i++)
		x[i] = x[i] / sum;
}

/* One row's experts, the highest score first, and their weights. scores: [n] */
static void choose(const struct plain *p, const struct be_experts *d, float *scores, int32_t *chosen, float *weights)
{
	float sum = 0.0f;

	if (d->router_b)
		p->kern->add(scores, floats(p, d->router_b), d->n);
	if (d->gating == BE_GATE_SOFTMAX)
		softmax(scores, d->n);
	for (size_t e = 0; d->gating == BE_GATE_SIGMOID && e < d->n; e++)
		scores[e] = sigmoid(scores[e]);
	for (size_t u = 0; u < d->n_used; u++) {
		int32_t best = -1;
		for (int32_t e = 0; e < (int32_t)d->n; e++) {
			bool taken = false;
			for (size_t i = 0; i < u; i++)
				taken |= chosen[i] == e;
			if (!taken && (best < 0 || scores[e] > scores[best]))
				best = e;
		}
		chosen[u] = best;
		weights[u] = scores[best];
	}
	if (d->gating == BE_GATE_SOFTMAX_CHOSEN)
		softmax(weights, d->n_used);
	for (size_t u = 0; u < d->n_used; u++)
		sum += weights[u];
	const float by = d->norm ? 1.0f / (sum > 0x1p-14f ? sum : 0x1p-14f) : 1.0f;
	for (size_t u = 0; u < d->n_used; u++)
		weights[u] = weights[u] * by * d->scale;
}

/* The feed-forward of x by expert e, to down; a bias has a row per expert. */
static bool expert_row(struct plain *p, const struct be_ffn *f, size_t e, const float *x, size_t n_embd, float *gate,
		float *up, size_t n_ff, float *down)
{
	if (!device_product(p, f->gate + e, x, n_embd, 1, gate, n_ff) ||
			!device_product(p, f->up + e, x, n_embd, 1, up, n_ff))
		return false;
	if (f->gate_b)
		p->kern->add(gate, floats(p, f->gate_b) + e * n_ff, n_ff);
	if (f->up_b)
		p->kern->add(up, floats(p, f->up_b) + e * n_ff, n_ff);
	if (!act_row(p, f->act, gate, up, n_ff) || !device_product(p, f->down + e, gate, n_ff, 1, down, n_embd))
		return false;
	if (f->down_b)
		p->kern->add(down, floats(p, f->down_b) + e * n_embd, n_embd);
	return true;
}

static enum cohort_status run_experts(struct plain *p, const struct op *op)
{
	const struct be_experts *d = &op->d.experts;
	struct be_buf *const route = op->out[1], *const down = op->out[4];
	struct be_buf *const gate = op->out[2], *const up = op->out[3];
	const size_t n_used = d->n_used, n_embd = op->out[0]->n_cols;
	int32_t *chosen = room_get(&p->route, n_used * (sizeof *chosen + sizeof(float)));
	float *weights = (float *)(void *)(chosen + n_used);

	if (!chosen)
		return COHORT_E_MEMORY;
	for (size_t r = 0; r < op->n; r++) {
		float *out = row_of(op->out[0], r);
		choose(p, d, row_of(route, r), chosen, weights);
		for (size_t u = 0; u < n_used; u++) {
			const size_t at = r * n_used + u;
			float *result = row_of(down, at);
			if (!expert_row(p, &d->ffn, (size_t)chosen[u], row_of(op->x[0], r), n_embd,
					    row_of(gate, at), row_of(up, at), up->n_cols, result))
				return COHORT_E_MEMORY;
			p->kern->scale(result, weights[u], n_embd);
			if (u)
				p->kern->add(out, result, n_embd);
			else
				memcpy(out, result, n_embd * sizeof *out);
		}
	}
	return COHORT_OK;
}

void plain_experts(struct be_buf *out, const struct be_buf *x, const struct be_experts *d,
		const struct be_expert_bufs *bufs, size_t n)
{
	const struct op op = {.run = run_experts,
			.out = {out, bufs->route, bufs->gate, bufs->up, bufs->down},
			.x = {x},
			.d.experts = *d,
			.n = n};
	plain_add(out->be, &op);
}

static enum cohort_status run_add_gated(struct plain *p, const struct op *op)
{
	const struct be_buf *x = op->x[0];
	const size_t n = op->out[0]->n_cols;

	for (size_t r = 0; r < op->n; r++) {
		float *b = row_of(op->out[1], r), lane[8] = {0};
		for (size_t i = 0; op->w[0] && i < x->n_cols; i++)
			lane[i % 8] = fmaf(floats(p, op->w[0])[i], row_of(x, r)[i], lane[i % 8]);
		if (op->w[0])
			p->kern->scale(b, sigmoid(kern_tree8(lane)), n);
		p->kern->add(row_of(op->out[0], r), b, n);
	}
	return COHORT_OK;
}

void plain_add_gated(struct be_buf *out, struct be_buf *b, const struct be_buf *x, const struct model_weight *w,
		size_t n)
{
	plain_add(out->be, &(struct op){.run = run_add_gated, .out = {out, b}, .x = {x}, .w = {w}, .n = n});
}

/* ---- Recurrent layers ---- */

static enum cohort_status run_conv(struct plain *p, const struct op *op)
{
	const struct be_conv *d = &op->d.conv;
	const struct kern_conv conv = {.n_rows = p->rows.n,
			.n = d->n,
			.d_conv = d->width,
			.from = p->rows.state_from,
			.to = p->rows.state_to,
			.states = p->states[d->layer] + d->at,
			.state_n = p->state_floats[d->layer],
			.w = floats(p, d->w),
			.bias = floats(p, d->b),
			.x = row_of(op->out[0], 0)};
	p->kern->conv(&conv, 0, d->n);
	return COHORT_OK;
}

void plain_conv(struct be_buf *x, const struct be_conv *d)
{
	plain_add(x->be, &(struct op){.run = run_conv, .out = {x}, .d.conv = *d});
}

static enum cohort_status run_scan(struct plain *p, const struct op *op)
{
	const struct be_scan *d = &op->d.scan;
	const struct kern_scan scan = {.n_rows = p->rows.n,
			.n = d->n,
			.d_state = d->d_state,
			.from = p->rows.state_from,
			.to = p->rows.state_to,
			.states = p->states[d->layer] + d->at,
			.state_n = p->state_floats[d->layer],
			.a = floats(p, d->a),
			.d = floats(p, d->d),
			.dt = row_of(op->x[0], 0),
			.dt_bias = floats(p, d->dt_b),
			.b = row_of(op->x[1], 0),
			.c = row_of(op->x[2], 0),
			.z = row_of(op->x[3], 0),
			.x = row_of(op->out[0], 0)};
	p->kern->scan(&scan, 0, d->n);
	return COHORT_OK;
}

void plain_scan(struct be_buf *x, const struct be_buf *dt, const struct be_buf *b, const struct be_buf *c,
		const struct be_buf *z, const struct be_scan *d)
{
	plain_add(x->be, &(struct op){.run = run_scan, .out = {x}, .x = {dt, b, c, z}, .d.scan = *d});
}

/* ---- Outputs ---- */

static enum cohort_status run_logits(struct plain *p, const struct op *op)
{
	const struct be_logits *d = &op->d.logits;
	const size_t k = op->out[0]->n_cols;

	for (size_t i = 0; i < op->n; i++) {
		float *x = row_of(op->out[0], op->row + i);
		if (d->b)
			p->kern->add(x, floats(p, d->b), k);
		p->kern->scale(x, d->scale, k);
		const bool finite = p->kern->all_finite(x, k);
		if (d->cap != 0.0f)
			p->kern->softcap(x, d->cap, k);
		if (!finite)
			x[0] = NAN;
	}
	return COHORT_OK;
}

void plain_logits(struct be_buf *x, size_t row, size_t n, const struct be_logits *d)
{
	plain_add(x->be, &(struct op){.run = run_logits, .out = {x}, .row = row, .n = n, .d.logits = *d});
}

static enum cohort_status run_check(struct plain *p, const struct op *op)
{
	for (size_t i = 0; p->bad < 0 && i < op->n; i++)
		if (!p->kern->all_finite(row_of(op->x[0], op->row + i), op->x[0]->n_cols))
			p->bad = op->rows ? op->rows[i] : (int64_t)i;
	return COHORT_OK;
}

void plain_check(const struct be_buf *x, size_t row, size_t n, const int32_t *names)
{
	plain_add(x->be, &(struct op){.run = run_check, .x = {x}, .row = row, .n = n, .rows = names});
}

/* Rows x_row + i, or rows[i], to rows `row` + i; `set` false: added to what is there. */
static enum cohort_status run_move_rows(struct plain *p, const struct op *op)
{
	const size_t n = op->x[0]->n_cols;

	for (size_t i = 0; i < op->n; i++) {
		const float *from = row_of(op->x[0], op->rows ? (size_t)op->rows[i] : op->x_row + i);
		float *to = row_of(op->out[0], op->row + i);
		if (op->set)
			memmove(to, from, n * sizeof *to);
		else
			p->kern->add(to, from, n);
	}
	return COHORT_OK;
}

void plain_gather(struct be_buf *out, const struct be_buf *x, const int32_t *rows, size_t n)
{
	const struct op op = {.run = run_move_rows,
			.out = {out},
			.x = {x},
			.rows = rows,
			.n = n,
			.set = true};
	plain_add(out->be, &op);
}

void plain_copy(struct be_buf *out, size_t out_row, const struct be_buf *x, size_t n)
{
	const struct op op = {.run = run_move_rows,
			.out = {out},
			.row = out_row,
			.x = {x},
			.n = n,
			.set = true};
	plain_add(out->be, &op);
}

void plain_row_add(struct be_buf *out, size_t out_row, const struct be_buf *x, size_t x_row, bool set)
{
	const struct op op = {.run = run_move_rows,
			.out = {out},
			.row = out_row,
			.x = {x},
			.x_row = x_row,
			.n = 1,
			.set = set};
	plain_add(out->be, &op);
}

static enum cohort_status run_row_div(struct plain *p, const struct op *op)
{
	float *x = row_of(op->out[0], op->row);

	(void)p;
	for (size_t i = 0; i < op->out[0]->n_cols; i++)
		x[i] = x[i] / (float)op->n;
	return COHORT_OK;
}

void plain_row_div(struct be_buf *out, size_t out_row, size_t n)
{
	plain_add(out->be, &(struct op){.run = run_row_div, .out = {out}, .row = out_row, .n = n});
}
