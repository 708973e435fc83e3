/* A second backend, in plain C: the interface's documentation by example, and the template for others. It is written
 * against src/backend/backend.h alone; the arithmetic is that of the reference kernels, on one thread.
 *  1. Operations are queued and run only by the calls that wait. What is queued is a struct op: the function that runs
 *     it, the buffers that it writes and reads, and a copy of its descriptor. Rows, names and bytes are the caller's
 *     and looked at when the operation runs.
 *  2. Buffers are device memory. `outputs` gives a copy, which becomes NaN as soon as an operation that writes the
 *     buffer is queued.
 *  3. Weights are copied when they are opened, products with their rows in reverse, and the file's pages given back.
 *  4. The cache lies layer by layer, head by head, then block by block; states lie layer by layer.
 *  5. All memory is there before an operation is queued, but for a queue longer than a ubatch's. Operations fail when
 *     it cannot grow, when the device is lost and on request.
 *  6. Fresh memory is NaN, and a failed operation leaves NaN wherever it was to write.
 * So a caller who relies on more than the interface gives gets other bits. The table is at the end. */
#include "plain_backend.h"

#include "base/mem.h"
#include "base/sum.h"
#include "kern/kern.h"
#include "kern/kern_math.h"

#include <string.h>

enum { POISON = 0xff, N_OUT = 5 }; /* POISON: every byte of what must not be used, NaN in floats and in cells */

/* Rows [held.from, held.to) of a matrix or vector, on the device. */
struct matrix {
	uint8_t *rows;
	size_t row_bytes;
	bool reversed; /* the last row first */
	struct be_range held, share; /* share: the rows that products compute */
};

struct plain_weights {
	struct be_weights base;
	struct be_source source;
	struct matrix of[]; /* [source.n], by model_weight.index */
};

struct plain_buf {
	struct be_buf base;
	float *device, *host; /* [n_rows, n_cols] */
	size_t n_host_rows; /* of `host`: those that are as on the device */
};

/* A layer with cells, or one with states. */
struct layer {
	struct be_cell_layer shape;
	size_t area_bytes, k_bytes; /* of a block's K and V of one head, and of K alone */
	size_t k_cell, v_cell; /* bytes of one position of a head */
	uint8_t *areas; /* [n_kv, blocks of the group] */
	float *states; /* [n_states, n] */
	size_t n;
};

/* Room to work in, for one operation. */
enum room { ROUNDED, SCRATCH, ANGLES, NARROW, WIDE, CELL, N_ROOMS };

struct plain;
struct op {
	void (*run)(struct plain *p, const struct op *op);
	enum cohort_status fails; /* on request: with this */
	struct be_buf *out[N_OUT]; /* the buffers that it writes */
	const struct be_buf *x[4]; /* those that it reads */
	const struct model_weight *w[3];
	union { /* the descriptor */
		struct be_rows rows; struct be_embed embed; struct be_add_norm add_norm; struct be_qkv qkv;
		struct be_attend attend; struct be_ffn ffn; struct be_experts experts; struct be_conv conv;
		struct be_scan scan; struct be_logits logits; struct be_move move; struct be_span span;
	};
	size_t n, row, group, step;
	bool store;
	const int32_t *ids; /* the caller's rows or names */
	void *bytes; /* the caller's */
};

struct plain {
	struct be base;
	struct be_limits lim; /* without layers, state_floats */
	const struct plain_weights *w;
	const struct kern *kern;
	struct op *queue;
	size_t n_queued, n_queue_max;
	enum cohort_status failed; /* since the last wait */
	int64_t bad; /* what `logits` noted since then */
	bool spoil; /* the operation at hand fails */
	struct be_rows rows; /* at hand */
	const int32_t *narrowed; /* or NULL */
	enum kern_kv kv;
	void *room[N_ROOMS]; /* each as large as the operation wants that wants most */
	size_t room_bytes, n_layers;
	struct layer layers[];
};

/* ---- Devices, and levels: there is one ---- */

static const char *device_name(size_t i) { return i == 0 ? "plain0" : i == 1 ? "plain1" : NULL; }
static size_t level_count(void) { return 1; }
static size_t level_best(void) { return 0; }
static bool level_usable(size_t level) { return level == 0; }
static const char *level_name(size_t level) { return level == 0 ? "ref" : NULL; }
static const char *level_failed(size_t level) { return level == 0 ? NULL : "unknown"; }

static void device_get(size_t i, struct be_device *out)
{
	(void)i;
	*out = (struct be_device){.description = "plain C, for tests"};
}

/* ---- Failures on request: when `in` operations more are queued; 0: none fails ---- */

static struct failure { size_t in; enum cohort_status status; bool lost; } failure;

void plain_fail_at(size_t n, enum cohort_status status) { failure = (struct failure){n, status, failure.lost}; }
bool plain_fail_is_due(void) { return failure.in > 0; }
void plain_lose(bool lost) { failure.lost = lost; }

/* NULL: there are no a * b * c bytes. */
static void *poisoned(size_t a, size_t b, size_t c)
{
	size_t n;
	void *out = size_mul(a, b, &n) && size_mul(n, c, &n) ? mem_zalloc_aligned(n, 1) : NULL;

	return out ? memset(out, POISON, n) : NULL;
}

static uint8_t *matrix_row(const struct matrix *m, size_t r)
{
	return m->rows + (m->reversed ? m->held.to - 1 - r : r - m->held.from) * m->row_bytes;
}

static const struct matrix *copy_of(const struct plain *p, const struct model_weight *w) { return &p->w->of[w->index]; }

/* A weight that is no product, as floats; NULL of NULL. */
static const float *floats(const struct plain *p, const struct model_weight *w)
{
	return w ? (const float *)(const void *)copy_of(p, w)->rows : NULL;
}

static float *row_of(const struct be_buf *b, size_t r) { return ((const struct plain_buf *)b)->device + r * b->n_cols; }

/* ---- The queue ---- */

/* The first failure since the last wait stays. */
static void fail(struct plain *p, enum cohort_status st) { p->failed = p->failed ? p->failed : st; }

/* What an operation writes becomes NaN, on the device or the host's copies of it. */
static void spoil(const struct op *op, bool host)
{
	for (size_t i = 0; i < N_OUT; i++) {
		struct plain_buf *b = (struct plain_buf *)op->out[i];
		if (b)
			memset(host ? b->host : b->device, POISON, b->base.n_rows * b->base.n_cols * sizeof(float));
		if (b && host)
			b->n_host_rows = 0;
	}
}

/* Returns whether nothing has failed since the last wait. A failing operation runs as well, on NaN, so that what it
 * stores elsewhere is spoiled, too. */
static bool run_queue(struct plain *p)
{
	fail(p, failure.lost ? COHORT_E_DEVICE : COHORT_OK);
	for (const struct op *op = p->queue; op < p->queue + p->n_queued && !p->failed; op++) {
		p->spoil = op->fails;
		if (p->spoil)
			spoil(op, false);
		op->run(p, op);
		if (p->spoil)
			spoil(op, false);
		fail(p, op->fails);
	}
	p->n_queued = 0;
	return !p->failed;
}

static void enqueue(struct be *be, const struct op *op)
{
	struct plain *p = (struct plain *)be;
	spoil(op, true);
	if (mem_grow((void **)&p->queue, &p->n_queue_max, p->n_queued + 1, sizeof *p->queue)) {
		p->queue[p->n_queued] = *op;
		p->queue[p->n_queued++].fails = failure.in && --failure.in == 0 ? failure.status : COHORT_OK;
	} else {
		run_queue(p);
		fail(p, COHORT_E_MEMORY);
	}
}

/* ---- Weights ---- */

static void weights_free(struct be_weights *weights)
{
	struct plain_weights *w = (struct plain_weights *)weights;
	for (size_t i = 0; w && i < w->source.n; i++)
		mem_free_aligned(w->of[i].rows);
	mem_free(w);
}

/* Rows that are looked up are needed whatever the share, and other devices may read them from the file as well. */
static bool upload_weight(struct plain_weights *w, size_t i, const struct be_weights_params *params)
{
	const struct model_weight *mw = &w->source.weights[i];
	const struct be_range all = {0, mw->n_rows};
	const struct be_range share = mw->product ? be_share(mw->n_rows, params->rank, params->of) : all;
	const struct be_range held = mw->lookup ? all : share;
	struct matrix *m = &w->of[i];

	*m = (struct matrix){poisoned(held.to - held.from, mw->row_bytes, 1), mw->row_bytes, mw->product, held, share};
	for (size_t r = held.from; m->rows && r < held.to; r++)
		memcpy(matrix_row(m, r), (const uint8_t *)mw->data + r * m->row_bytes, m->row_bytes);
	w->base.packed_bytes += (held.to - held.from) * m->row_bytes;
	w->source.give_back(w->source.user, mw, held.from, held.to, mw->lookup);
	return m->rows;
}

static enum cohort_status weights_open(struct be_weights **out, const struct be_source *source,
		const struct be_weights_params *params, struct cohort_err *err)
{
	enum cohort_status st = COHORT_OK;
	if (failure.lost)
		return err_set(err, COHORT_E_DEVICE, "%s is lost", device_name(params->device));
	struct plain_weights *w = mem_zalloc(1, sizeof *w + source->n * sizeof *w->of);
	if (!w)
		return err_set(err, COHORT_E_MEMORY, "out of memory");
	w->base.ops = &be_plain;
	w->source = *source;
	for (size_t i = 0; i < source->n && !st; i++)
		if ((!source->wanted || source->wanted[i]) && !upload_weight(w, i, params))
			st = err_set(err, COHORT_E_MEMORY, "out of memory for weights");
		else if (params->progress &&
				!params->progress((float)(i + 1) / (float)source->n, params->progress_user))
			st = err_set(err, COHORT_ABORTED, "loading aborted by the caller");
	if (st)
		weights_free(&w->base);
	else
		*out = &w->base;
	return st;
}

/* Device memory stays where it is. */
static enum cohort_status weights_lock(struct be_weights *w, bool (*progress)(float, void *), void *user,
		struct be_lock *out, struct cohort_err *err)
{
	(void)w;
	*out = (struct be_lock){0};
	return progress && !progress(1.0f, user) ? err_set(err, COHORT_ABORTED, "loading aborted by the caller")
						 : COHORT_OK;
}

/* Of all rows, as the file has them: those outside the share are still there. */
static void run_weight_sum(struct plain *p, const struct op *op)
{
	const struct model_weight *w = op->w[0];
	const struct matrix *m = copy_of(p, w);

	for (size_t r = 0; r < w->n_rows; r++) {
		const bool held = r >= m->held.from && r < m->held.to;
		const uint8_t *row = held ? matrix_row(m, r) : (const uint8_t *)w->data + r * w->row_bytes;
		*(uint64_t *)op->bytes += sum_large(w->offset + (uint64_t)r * w->row_bytes, row, w->row_bytes);
	}
}

static uint64_t weight_sum(struct be *be, const struct model_weight *w)
{
	uint64_t sum = 0;
	enqueue(be, &(struct op){.run = run_weight_sum, .w = {w}, .bytes = &sum});
	run_queue((struct plain *)be);
	return sum;
}

/* ---- An instance, buffers, waiting ---- */

static size_t larger(size_t a, size_t b) { return a > b ? a : b; }

static bool open_rooms(struct plain *p)
{
	const struct be_source *s = &p->w->source;
	size_t n = larger(p->room_bytes, p->lim.n_ff_max * sizeof(float));

	for (const struct model_weight *w = s->weights; w < s->weights + s->n; w++)
		n = larger(larger(n, KERN_MM_SCRATCH_BYTES(w->k)), larger(w->n_rows, w->k) * sizeof(float));
	for (size_t i = 0; i < p->lim.n_ropes; i++)
		n = larger(n, p->lim.ropes[i].n_rot * sizeof(float));
	for (size_t i = 0; i < N_ROOMS; i++)
		if (!(p->room[i] = poisoned(n, 1, 1)))
			return false;
	return true;
}

static bool open_layer(struct plain *p, size_t i, const struct be_limits *lim)
{
	struct layer *l = &p->layers[i];
	const struct be_cell_layer *s = &l->shape;

	if (i < lim->n_layers) {
		l->shape = lim->layers[i];
		l->k_bytes = kern_k_area_bytes(p->kv, s->head_k);
		l->area_bytes = l->k_bytes + kern_v_area_bytes(p->kv, s->head_v);
		l->k_cell = kern_cell_bytes(p->kv, s->head_k);
		l->v_cell = kern_cell_bytes(p->kv, s->head_v);
		p->room_bytes = larger(p->room_bytes,
				kern_attn_scratch_bytes(1, s->n_q / s->n_kv, s->head_k, s->head_v));
		l->areas = poisoned(s->n_kv, lim->n_blocks[s->group], l->area_bytes);
		p->base.block_bytes[s->group] += s->n_kv * l->area_bytes;
		p->base.cell_bytes[s->group] += s->n_kv * (l->k_cell + l->v_cell);
	} else {
		l->shape.group = BE_STATES;
		l->n = lim->state_floats[i];
		l->states = poisoned(lim->n_states, l->n, sizeof(float));
		p->base.cell_bytes[BE_STATES] += l->n * sizeof(float);
	}
	p->room_bytes = larger(p->room_bytes, p->base.cell_bytes[s->group]);
	return l->areas || l->states;
}

static void plain_free(struct be *be)
{
	struct plain *p = (struct plain *)be;
	if (!p)
		return;
	for (size_t i = 0; i < p->n_layers; i++) {
		mem_free_aligned(p->layers[i].areas);
		mem_free_aligned(p->layers[i].states);
	}
	for (size_t i = 0; i < N_ROOMS; i++)
		mem_free_aligned(p->room[i]);
	mem_free(p->queue);
	mem_free(p);
}

static struct be *plain_open(struct be_weights *w, const struct be_limits *lim)
{
	static const enum kern_kv types[] = {
			[COHORT_KV_F16] = KERN_KV_F16, [COHORT_KV_F32] = KERN_KV_F32, [COHORT_KV_Q8_0] = KERN_KV_Q8_0};
	const size_t n = larger(lim->n_layers, lim->n_state_layers);
	struct plain *p = mem_zalloc(1, sizeof *p + n * sizeof *p->layers);
	if (!p)
		return NULL;
	*p = (struct plain){.base.ops = &be_plain, .lim = *lim, .w = (struct plain_weights *)w, .kern = kern_get(0),
			.kv = types[lim->kv_type], .bad = -1, .n_layers = n};
	bool ok = mem_grow((void **)&p->queue, &p->n_queue_max, 64 + 32 * n, sizeof *p->queue); /* a ubatch */
	for (size_t i = 0; ok && i < n; i++)
		ok = open_layer(p, i, lim);
	if (ok && open_rooms(p))
		return &p->base;
	plain_free(&p->base);
	return NULL;
}

static void buf_free(struct be_buf *buf)
{
	struct plain_buf *b = (struct plain_buf *)buf;
	if (b) {
		mem_free_aligned(b->device);
		mem_free_aligned(b->host);
		mem_free(b);
	}
}

static struct be_buf *buf_open(struct be *be, size_t n_rows, size_t n_cols)
{
	struct plain_buf *b = mem_zalloc(1, sizeof *b);
	if (b && (b->device = poisoned(n_rows, n_cols, sizeof(float))) &&
			(b->host = poisoned(n_rows, n_cols, sizeof(float)))) {
		b->base = (struct be_buf){be, n_rows, n_cols};
		return &b->base;
	}
	buf_free((struct be_buf *)b);
	return NULL;
}

static enum cohort_status plain_wait(struct be *be, int64_t *bad, struct cohort_err *err)
{
	struct plain *p = (struct plain *)be;
	const enum cohort_status st = run_queue(p) ? COHORT_OK : p->failed;

	*bad = p->bad;
	p->bad = -1;
	p->failed = COHORT_OK;
	return st ? err_set(err, st, "the device failed") : COHORT_OK;
}

static void run_outputs(struct plain *p, const struct op *op)
{
	struct plain_buf *b = (struct plain_buf *)op->x[0];
	memcpy(b->host, b->device, op->n * b->base.n_cols * sizeof *b->host);
	b->n_host_rows = p->spoil ? 0 : op->n;
}

static const float *outputs(struct be_buf *buf, size_t n)
{
	struct plain *p = (struct plain *)buf->be;
	const struct plain_buf *b = (struct plain_buf *)buf;

	if (n <= b->n_host_rows && !p->n_queued && !p->failed)
		return b->host;
	enqueue(buf->be, &(struct op){.run = run_outputs, .x = {buf}, .n = n});
	return run_queue(p) ? b->host : NULL;
}

/* ---- Rows: announcing them, embedding, norms and residuals ---- */

static void run_begin(struct plain *p, const struct op *op)
{
	p->rows = op->rows;
	p->narrowed = NULL;
}

static void run_narrow(struct plain *p, const struct op *op) { p->narrowed = op->ids; }

static void read_row(const struct plain *p, const struct model_weight *w, size_t r, float *out)
{
	quant_format_get(w->type)->to_f32(matrix_row(copy_of(p, w), r), out, w->k);
}

static void run_embed(struct plain *p, const struct op *op)
{
	const size_t k = op->out[0]->n_cols;
	for (size_t r = 0; r < p->rows.n; r++) {
		float *x = row_of(op->out[0], r), *more = op->out[1] ? row_of(op->out[1], r) : NULL;
		if (p->rows.tokens) {
			read_row(p, op->embed.tokens, (size_t)p->rows.tokens[r], x);
			p->kern->scale(x, op->embed.scale, k);
		} else {
			memcpy(x, p->rows.embd + r * k, k * sizeof *x);
		}
		if (op->embed.types) {
			read_row(p, op->embed.types, 0, more);
			p->kern->add(x, more, k);
		}
		if (op->embed.positions) {
			read_row(p, op->embed.positions, (size_t)p->rows.pos[r], more);
			p->kern->add(x, more, k);
		}
	}
}

/* Adds row `at` of a bias, if there is one. */
static void add_bias(const struct plain *p, const struct model_weight *bias, size_t at, float *x, size_t n)
{
	if (bias)
		p->kern->add(x, floats(p, bias) + at * n, n);
}

/* at: the row of weights, of norms with one for each head. No weights: no norm. */
static void norm_row(const struct plain *p, const struct be_norm *norm, size_t at, const float *x, size_t n, float *out)
{
	if (norm->w && norm->layer_norm)
		p->kern->layer_norm(x, floats(p, norm->w) + at * n, floats(p, norm->b), n, norm->eps, out);
	else if (norm->w)
		p->kern->rms_norm(x, floats(p, norm->w) + at * n, n, norm->eps, out);
}

static void run_add_norm(struct plain *p, const struct op *op)
{
	const struct be_add_norm *a = &op->add_norm;
	const size_t k = a->x->n_cols;

	for (size_t r = 0; r < op->n; r++) {
		float *x = row_of(a->x, r);
		for (const struct be_sum *s = a->add; s < a->add + 2 && s->b; s++) {
			float *b = row_of(s->b, r);
			add_bias(p, s->bias, 0, b, k);
			norm_row(p, &s->post, 0, b, k, b);
			p->kern->scale(b, s->scale, k);
			p->kern->add(x, b, k);
		}
		norm_row(p, &a->norm, 0, x, k, a->norm.w ? row_of(a->out, r) : NULL);
	}
}

/* ---- Rows: products, and what adapters add to them ---- */

/* One row's columns of the share. Kernels want rows in the file's order, so they get one at a time. */
static void product(const struct plain *p, const struct model_weight *w, const struct matrix *m, const float *x,
		float *out)
{
	const enum quant_act kind = quant_format_get(w->type)->act;
	struct kern_mm mm = {.n_rows = 1, .k = w->k, .act = p->room[ROUNDED], .act_bytes = kern_act_bytes(kind, w->k),
			.n_cols = 1, .scratch = p->room[SCRATCH]};

	p->kern->act[kind](x, w->k, p->room[ROUNDED]);
	for (size_t r = m->share.from; r < m->share.to; r++) {
		mm.w = matrix_row(m, r);
		mm.out = out + r;
		p->kern->file[w->type].mm(&mm, 0, 1);
	}
}

/* out += scale b (a x), in the columns of the share. Adapters stay where the host has them; the rank is at most the
 * width of x, for which there is room. */
static void add_lora(const struct plain *p, const struct be_lora *use, const struct model_weight *w, const float *x,
		float *out)
{
	const struct model_lora *pair = &use->loras->of[w->index];
	const struct be_range all = {0, w->n_rows}, share = copy_of(p, w)->share;
	float *narrow = p->room[NARROW], *wide = p->room[WIDE];

	if (!pair->a)
		return;
	const struct be_range rank = {0, pair->a->n_rows};
	const struct matrix a = {(uint8_t *)pair->a->data, pair->a->row_bytes, false, rank, rank};
	const struct matrix b = {(uint8_t *)pair->b.data, pair->b.row_bytes, false, all, share};
	product(p, pair->a, &a, x, narrow);
	p->kern->scale(narrow, pair->scale * use->scale, rank.to);
	product(p, &pair->b, &b, narrow, wide);
	p->kern->add(out + share.from, wide + share.from, share.to - share.from);
}

/* Adapters of the model come first, in their order, then the row's own. */
static void run_matmul(struct plain *p, const struct op *op)
{
	for (size_t i = 0; i < 3 && op->w[i]; i++)
		for (size_t r = 0; r < op->n; r++) {
			const float *x = row_of(op->x[0], r);
			float *out = row_of(op->out[i], op->row + r);
			const size_t row = p->narrowed ? (size_t)p->narrowed[r] : r;
			const struct be_lora *own = p->rows.lora ? &p->rows.lora[row] : NULL;
			product(p, op->w[i], copy_of(p, op->w[i]), x, out);
			for (size_t b = 0; b < p->lim.n_base; b++)
				add_lora(p, &p->lim.base[b], op->w[i], x, out);
			if (own && own->loras)
				add_lora(p, own, op->w[i], x, out);
		}
}

/* ---- Rows: cache and attention ---- */

/* A block's K of one head; V is k_bytes on. */
static uint8_t *area_of(const struct plain *p, const struct layer *l, size_t head, int32_t block)
{
	return l->areas + (head * p->lim.n_blocks[l->shape.group] + (size_t)block) * l->area_bytes;
}

/* By the angles at hand. */
static void rotate(const struct plain *p, const struct be_rope *rope, float *x)
{
	const float *angles = p->room[ANGLES];
	p->kern->rope(x, rope->n_rot, angles, angles + rope->n_rot / 2, rope->halves);
}

/* A row of q or k: bias, clamp, norm of each head or of the row, rotation. */
static void finish_heads(const struct plain *p, const struct be_qkv *d, const struct model_weight *bias,
		const struct be_norm *norm, float *x, size_t n_heads, size_t head)
{
	const bool each = norm->w && norm->w->k == head;
	add_bias(p, bias, 0, x, n_heads * head);
	be_clamp(x, d->clamp, n_heads * head);
	if (!each)
		norm_row(p, norm, 0, x, n_heads * head, x);
	for (size_t h = 0; h < n_heads; h++, x += head) {
		if (each)
			norm_row(p, norm, norm->w->n_rows > 1 ? h : 0, x, head, x);
		if (d->rope >= 0)
			rotate(p, &p->lim.ropes[d->rope], x);
	}
}

static void run_qkv_store(struct plain *p, const struct op *op)
{
	const struct be_qkv *d = &op->qkv;
	const struct layer *l = &p->layers[d->layer];
	const struct be_cell_layer *s = &l->shape;
	const struct be_cells *cells = &p->rows.cells[s->group];
	const struct be_rope *rope = d->rope < 0 ? NULL : &p->lim.ropes[d->rope];

	for (size_t r = 0; r < p->rows.n; r++) {
		float *q = row_of(op->out[0], r), *k = row_of(op->out[1], r), *v = row_of(op->out[2], r);
		if (rope)
			be_rope_angles(rope, p->rows.pos[r], rope->scale, p->room[ANGLES]);
		finish_heads(p, d, d->bq, &d->q_norm, q, s->n_q, s->head_k);
		finish_heads(p, d, d->bk, &d->k_norm, k, s->n_kv, s->head_k);
		p->kern->scale(q, be_query_scale(d, p->rows.pos[r]), op->out[0]->n_cols);
		add_bias(p, d->bv, 0, v, op->out[2]->n_cols);
		be_clamp(v, d->clamp, op->out[2]->n_cols);
	}
	for (const struct be_store *to = cells->stores; to < cells->stores + cells->n_stores; to++) {
		const float *k = row_of(op->out[1], (size_t)to->row), *v = row_of(op->out[2], (size_t)to->row);
		for (size_t h = 0; h < s->n_kv; h++) {
			uint8_t *area = area_of(p, l, h, to->block);
			p->kern->put_k[p->kv](k + h * s->head_k, s->head_k, (size_t)to->slot, area);
			p->kern->put_v[p->kv](v + h * s->head_v, s->head_v, (size_t)to->slot, area + l->k_bytes);
		}
	}
}

/* Positions count from the first entry of the row's table. */
static void run_attention(struct plain *p, const struct op *op)
{
	const struct be_attend *d = &op->attend;
	const struct layer *l = &p->layers[d->layer];
	const struct be_cell_layer *s = &l->shape;
	const struct be_cells *c = &p->rows.cells[s->group];
	const size_t n = s->n_q / s->n_kv, window = p->lim.window[s->group];

	for (size_t i = 0; i < op->n; i++) {
		const size_t r = op->ids ? (size_t)op->ids[i] : i, base = (size_t)c->base[r];
		struct kern_attn a = {.n_q = n, .head_k = s->head_k, .head_v = s->head_v, .cap = d->cap,
				.block_bytes = l->area_bytes, .v_offset = l->k_bytes, .table = c->blocks + c->table[r],
				.held = c->gaps[r] ? c->held + c->table[r] : NULL, .pos = (size_t)p->rows.pos[r] - base,
				.pos0 = (size_t)c->first[r] - base, .pos1 = (size_t)p->rows.end[r] - base};
		if (window && a.pos + 1 > a.pos0 + window)
			a.pos0 = a.pos + 1 - window;
		if (window && a.pos1 > a.pos + window)
			a.pos1 = a.pos + window;
		for (size_t h = 0; h < s->n_kv; h++) {
			a.kv = area_of(p, l, h, 0);
			a.q = row_of(op->x[0], r) + h * n * s->head_k;
			a.out = row_of(op->out[0], i) + h * n * s->head_v;
			a.slopes = d->slopes ? d->slopes + h * n : NULL;
			a.sinks = d->sinks ? floats(p, d->sinks) + h * n : NULL;
			kern_attn(p->kern, p->kv, &a, 1, p->room[SCRATCH]);
		}
	}
}

/* ---- Rows: feed-forward, experts, recurrent layers, outputs ---- */

static void activate(const struct plain *p, enum be_act act, float *gate, const float *up, size_t n)
{
	switch (act) {
	case BE_SILU: p->kern->silu_mul(gate, up, n, gate); break;
	case BE_GELU: p->kern->gelu_mul(gate, up, n, gate); break;
	case BE_SWIGLU_OAI: p->kern->swiglu_oai(gate, up, n, gate); break;
	}
}

static void run_glu(struct plain *p, const struct op *op)
{
	const struct be_ffn *f = &op->ffn;
	const size_t n = op->out[0]->n_cols;
	float *ones = p->room[WIDE];

	for (size_t i = 0; !f->gate && i < n; i++)
		ones[i] = 1.0f;
	for (size_t r = 0; r < op->n; r++) {
		float *up = row_of(op->out[0], r), *gate = f->gate ? row_of(op->out[1], r) : up;
		add_bias(p, f->up_b, 0, up, n);
		add_bias(p, f->gate_b, 0, gate, n);
		activate(p, f->act, gate, f->gate ? up : ones, n);
	}
}

/* out = x times matrix e of those from w on, and row e of the bias. */
static void expert_product(const struct plain *p, const struct model_weight *w, const struct model_weight *bias,
		size_t e, const float *x, float *out)
{
	product(p, w + e, copy_of(p, w + e), x, out);
	add_bias(p, bias, e, out, w->n_rows);
}

static void run_experts(struct plain *p, const struct op *op)
{
	const struct be_experts *d = &op->experts;
	const struct be_ffn *f = &d->ffn;
	const size_t n = op->out[0]->n_cols;
	int32_t chosen[BE_EXPERTS_MAX];
	float by[BE_EXPERTS_MAX];

	for (size_t r = 0; r < op->n; r++) {
		float *out = row_of(op->out[0], r), *route = row_of(op->out[1], r), *x = row_of(op->x[0], r);
		add_bias(p, d->router_b, 0, route, d->n);
		be_choose(d, route, chosen, by);
		for (size_t u = 0, at = r * d->n_used; u < d->n_used; u++, at++) {
			const size_t e = (size_t)chosen[u];
			float *gate = row_of(op->out[2], at), *up = row_of(op->out[3], at);
			float *down = row_of(op->out[4], at);
			expert_product(p, f->gate, f->gate_b, e, x, gate);
			expert_product(p, f->up, f->up_b, e, x, up);
			activate(p, f->act, gate, up, f->up->n_rows);
			expert_product(p, f->down, f->down_b, e, gate, down);
			p->kern->scale(down, by[u], n);
			if (u)
				p->kern->add(out, down, n);
			else
				memcpy(out, down, n * sizeof *out);
		}
	}
}

static void run_add_gated(struct plain *p, const struct op *op)
{
	const struct model_weight *w = op->w[0];
	const size_t n = op->out[0]->n_cols;

	for (size_t r = 0; r < op->n; r++) {
		float *b = row_of(op->out[1], r), by;
		if (w) {
			product(p, w, copy_of(p, w), row_of(op->x[0], r), &by);
			p->kern->scale(b, 1.0f / (1.0f + kern_exp(-by)), n);
		}
		p->kern->add(row_of(op->out[0], r), b, n);
	}
}

static void run_conv(struct plain *p, const struct op *op)
{
	const struct be_conv *d = &op->conv;
	const struct layer *l = &p->layers[d->layer];
	const struct kern_conv conv = {.n_rows = p->rows.n, .n = d->n, .d_conv = d->width,
			.from = p->rows.state_from, .to = p->rows.state_to, .states = l->states + d->at,
			.state_n = l->n, .w = floats(p, d->w), .bias = floats(p, d->b), .x = row_of(op->out[0], 0)};
	p->kern->conv(&conv, 0, d->n);
}

static void run_scan(struct plain *p, const struct op *op)
{
	const struct be_scan *d = &op->scan;
	const struct layer *l = &p->layers[d->layer];
	const struct kern_scan scan = {.n_rows = p->rows.n, .n = d->n, .d_state = d->d_state,
			.from = p->rows.state_from, .to = p->rows.state_to, .states = l->states + d->at,
			.state_n = l->n, .a = floats(p, d->a), .d = floats(p, d->d), .dt_bias = floats(p, d->dt_b),
			.dt = row_of(op->x[0], 0), .b = row_of(op->x[1], 0), .c = row_of(op->x[2], 0),
			.z = row_of(op->x[3], 0), .x = row_of(op->out[0], 0)};
	p->kern->scan(&scan, 0, d->n);
}

static void run_logits(struct plain *p, const struct op *op)
{
	const size_t n = op->out[0]->n_cols;
	for (size_t i = 0; i < op->n; i++) {
		float *x = row_of(op->out[0], op->row + i);
		add_bias(p, op->logits.b, 0, x, n);
		p->kern->scale(x, op->logits.scale, n);
		if (p->bad < 0 && !p->kern->all_finite(x, n))
			p->bad = op->ids ? op->ids[i] : (int64_t)i;
		if (op->logits.cap != 0.0f)
			p->kern->softcap(x, op->logits.cap, n);
	}
}

/* Rows of x, or the caller's. */
static void run_copy(struct plain *p, const struct op *op)
{
	const size_t n = op->out[0]->n_cols;
	(void)p;
	for (size_t i = 0; i < op->n; i++) {
		const size_t r = op->ids ? (size_t)op->ids[i] : i;
		const float *from = op->bytes ? (const float *)op->bytes + r * n : row_of(op->x[0], r);
		memmove(row_of(op->out[0], op->row + i), from, n * sizeof *from);
	}
}

/* ---- Cells and states ---- */

/* A layer's part of a cell, or of a state, from `bytes` where `store`, otherwise to there. Returns how many. */
static size_t layer_pass(const struct plain *p, const struct layer *l, int32_t block, size_t slot, uint8_t *bytes,
		bool store)
{
	const size_t head_k = l->shape.head_k, head_v = l->shape.head_v, head_bytes = l->k_cell + l->v_cell;
	if (l->states) {
		void *state = l->states + (size_t)block * l->n;
		memcpy(store ? state : bytes, store ? bytes : state, l->n * sizeof(float));
	}
	for (size_t h = 0; h < l->shape.n_kv; h++, bytes += head_bytes) {
		uint8_t *k = area_of(p, l, h, block), *v = k + l->k_bytes;
		if (store) {
			kern_k_cell_write(p->kv, head_k, k, slot, bytes);
			kern_v_cell_write(p->kv, head_v, v, slot, bytes + l->k_cell);
		} else {
			kern_k_cell_read(p->kv, head_k, k, slot, bytes);
			kern_v_cell_read(p->kv, head_v, v, slot, bytes + l->k_cell);
		}
	}
	return l->n * sizeof(float) + l->shape.n_kv * head_bytes;
}

static void cell_pass(struct plain *p, size_t group, int32_t block, int32_t slot, uint8_t *bytes, bool store)
{
	if (store && p->spoil)
		bytes = memset(p->room[CELL], POISON, p->base.cell_bytes[group]);
	for (const struct layer *l = p->layers; l < p->layers + p->n_layers; l++)
		if (l->shape.group == group)
			bytes += layer_pass(p, l, block, (size_t)slot, bytes, store);
}

static void run_cells_pass(struct plain *p, const struct op *op)
{
	uint8_t *bytes = op->bytes;
	for (int32_t i = 0; i < op->span.n; i++, bytes += op->step)
		cell_pass(p, op->group, op->span.block, op->span.slot + i, bytes, op->store);
}

static void cells_pass(struct be *be, size_t group, const struct be_span *spans, size_t n, void *bytes, size_t step,
		bool store)
{
	struct op op = {.run = run_cells_pass, .group = group, .bytes = bytes, .step = step, .store = store};
	for (size_t i = 0; i < n; i++) {
		op.span = spans[i];
		enqueue(be, &op);
		op.bytes = (uint8_t *)op.bytes + (size_t)spans[i].n * step;
	}
	if (!store)
		run_queue((struct plain *)be);
}

/* Keys of a cell are read as attention sees them, rotated and rounded again. */
static void shift_keys(struct plain *p, const struct layer *l, const struct be_move *m, size_t slot)
{
	const struct be_rope *rope = &p->lim.ropes[l->shape.rope];
	float *x = p->room[WIDE];

	be_rope_angles(rope, m->shift, 1.0f, p->room[ANGLES]);
	for (size_t h = 0; h < l->shape.n_kv; h++) {
		uint8_t *area = area_of(p, l, h, m->to);
		p->kern->get_k[p->kv](area, l->shape.head_k, slot, x);
		rotate(p, rope, x);
		p->kern->put_k[p->kv](x, l->shape.head_k, slot, area);
	}
}

static void run_cells_move(struct plain *p, const struct op *op)
{
	const struct be_move *m = &op->move;
	for (int32_t i = 0; i < m->n; i++) {
		cell_pass(p, op->group, m->from, m->from_slot + i, p->room[CELL], false);
		cell_pass(p, op->group, m->to, m->to_slot + i, p->room[CELL], true);
		for (const struct layer *l = p->layers; m->shift && l < p->layers + p->n_layers; l++)
			if (l->shape.group == op->group && l->shape.rope >= 0)
				shift_keys(p, l, m, (size_t)(m->to_slot + i));
	}
}

static void cells_move(struct be *be, size_t group, const struct be_move *moves, size_t n)
{
	for (size_t i = 0; i < n; i++)
		enqueue(be, &(struct op){.run = run_cells_move, .group = group, .move = moves[i]});
}

/* ---- What is queued: QUEUED(operation, its parameters, the instance, fields of the struct op) ---- */

#define QUEUED(name, parameters, be, ...) \
	static void name parameters { enqueue(be, &(struct op){.run = run_##name, __VA_ARGS__}); }
#define BUF struct be_buf *
#define X const struct be_buf *
#define IDS const int32_t *

#define run_upload run_copy
QUEUED(upload, (BUF b, const float *rows, size_t n), b->be, .out = {b}, .bytes = (void *)rows, .n = n)
QUEUED(begin, (struct be * be, const struct be_rows *rows), be, .rows = *rows)
QUEUED(narrow, (struct be * be, IDS rows, size_t n), be, .ids = rows, .n = n)
QUEUED(embed, (BUF out, BUF work, const struct be_embed *e), out->be, .out = {out, work}, .embed = *e)
QUEUED(add_norm, (const struct be_add_norm *a, size_t n), a->x->be,
		.out = {a->x, a->norm.w ? a->out : NULL, a->add[0].b, a->add[1].b}, .add_norm = *a, .n = n)
QUEUED(matmul, (BUF const *out, const struct model_weight *const *w, size_t n_w, X x, size_t n, size_t row), x->be,
		.out = {out[0], n_w > 1 ? out[1] : NULL, n_w > 2 ? out[2] : NULL}, .x = {x}, .n = n, .row = row,
		.w = {w[0], n_w > 1 ? w[1] : NULL, n_w > 2 ? w[2] : NULL})
QUEUED(qkv_store, (BUF q, BUF k, BUF v, const struct be_qkv *d), q->be, .out = {q, k, v}, .qkv = *d)
QUEUED(attention, (BUF out, X q, const struct be_attend *d, IDS rows, size_t n), out->be,
		.out = {out}, .x = {q}, .attend = *d, .ids = rows, .n = n)
QUEUED(glu, (BUF gate, BUF up, const struct be_ffn *f, size_t n), up->be,
		.out = {up, f->gate ? gate : NULL}, .ffn = *f, .n = n)
QUEUED(experts, (BUF out, X x, const struct be_experts *d, const struct be_expert_bufs *b, size_t n), out->be,
		.out = {out, b->route, b->gate, b->up, b->down}, .x = {x}, .experts = *d, .n = n)
QUEUED(add_gated, (BUF out, BUF b, X x, const struct model_weight *w, size_t n), out->be,
		.out = {out, b}, .x = {x}, .w = {w}, .n = n)
QUEUED(conv, (BUF x, const struct be_conv *d), x->be, .out = {x}, .conv = *d)
QUEUED(scan, (BUF x, X dt, X b, X c, X z, const struct be_scan *d), x->be, .out = {x}, .x = {dt, b, c, z}, .scan = *d)
QUEUED(logits, (BUF x, size_t row, size_t n, const struct be_logits *d, IDS names), x->be,
		.out = {x}, .row = row, .n = n, .logits = *d, .ids = names)
QUEUED(copy, (BUF out, size_t row, X x, IDS rows, size_t n), out->be,
		.out = {out}, .row = row, .x = {x}, .ids = rows, .n = n)

const struct be_ops be_plain = {
		.name = "plain", .device_name = device_name, .device_get = device_get,
		.level_count = level_count, .level_name = level_name, .level_usable = level_usable,
		.level_failed = level_failed, .level_best = level_best,
		.weights_open = weights_open, .weights_lock = weights_lock, .weights_free = weights_free,
		.weight_sum = weight_sum, .open = plain_open, .free = plain_free, .buf_open = buf_open,
		.buf_free = buf_free, .wait = plain_wait, .outputs = outputs,
		.upload = upload, .begin = begin, .narrow = narrow, .embed = embed, .add_norm = add_norm,
		.matmul = matmul, .qkv_store = qkv_store, .attention = attention, .glu = glu, .experts = experts,
		.add_gated = add_gated, .conv = conv, .scan = scan, .logits = logits, .copy = copy,
		.cells_move = cells_move, .cells_pass = cells_pass,
};

void plain_register(void)
{
	static bool done;
	done = done || be_register(&be_plain);
}
