/* A second backend, in plain C: the interface's documentation by example, and the template for others. It is written
 * against src/backend/backend.h alone. The arithmetic is that of docs/numerics.md, by the reference kernels
 * (src/kern/kern_ref.c), on one thread.
 *
 * Design
 *  1. Operations are queued and run only by the calls that wait. What is queued is a struct op: the function that runs
 *     it, the buffers that it writes and reads, and a copy of its descriptor. Rows, names and bytes to write are the
 *     caller's and read when the operation runs.
 *  2. Buffers are device memory. `outputs` gives a copy, which becomes NaN as soon as an operation that writes the
 *     buffer is queued.
 *  3. Weights are copied when they are opened, products with their rows in reverse, and the file's pages given back.
 *     Adapters are copied when they are reserved.
 *  4. The cache lies layer by layer, head by head, then block by block, and states layer by layer.
 *  5. All memory but the queue's is there before an operation is queued. What makes operations fail is a queue that
 *     cannot grow, a lost device and a failure on request.
 *  6. Fresh memory is NaN, and a failed operation leaves NaN wherever it was to write.
 * So a caller who relies on more than the interface gives gets other bits. The sections have the order of the
 * interface; the table is at the end. */
#include "plain_backend.h"

#include "base/mem.h"
#include "base/sum.h"
#include "kern/kern.h"
#include "kern/kern_math.h"

#include <string.h>

enum { POISON = 0xff, /* every byte of what must not be used: NaN in floats and in every type of cache */
	N_OUT = 5 };

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
	struct matrix *of; /* [source.n], by model_weight.index */
};

struct lora {
	const struct model_loras *host; /* by which rows name it */
	struct matrix *pairs; /* [weights of the model, 2]: a and b of each */
};

struct plain_buf {
	struct be_buf base;
	float *device, *host; /* [n_rows, n_cols]; host: as `outputs` gives it, or NULL */
	size_t n_host_rows; /* rows of it that are valid */
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
enum room { ROUNDED, SCRATCH, ANGLES, ONES, CHOSEN, CHOSEN_BY, NARROW, WIDE, CELL, N_ROOMS };

struct plain;

struct op {
	void (*run)(struct plain *p, const struct op *op);
	enum cohort_status fails; /* on request: with this */
	struct be_buf *out[N_OUT]; /* the buffers that it writes */
	const struct be_buf *x[4]; /* those that it reads */
	const struct model_weight *w[3];
	union { /* the descriptor */
		struct be_rows rows;
		struct be_embed embed;
		struct be_add_norm add_norm;
		struct be_qkv qkv;
		struct be_attend attend;
		struct be_ffn ffn;
		struct be_experts experts;
		struct be_conv conv;
		struct be_scan scan;
		struct be_logits logits;
		struct be_move move;
		struct be_span span;
	};
	size_t n, row, group, step;
	bool store;
	const int32_t *ids; /* the caller's rows or names */
	const void *bytes; /* the caller's */
};

struct plain {
	struct be base;
	const struct plain_weights *w;
	const struct kern *kern;
	struct op *queue;
	size_t n_queued, n_queue_max;
	enum cohort_status failed; /* since the last wait */
	int64_t bad; /* what `check` noted since then */
	bool spoil; /* the operation at hand fails */
	struct be_rows rows; /* at hand */
	const int32_t *narrowed; /* or NULL */
	enum kern_kv kv;
	size_t n_blocks[BE_GROUPS_MAX], window[BE_GROUPS_MAX];
	struct layer *layers;
	size_t n_layers;
	const struct be_rope *ropes;
	const struct be_lora *base_loras;
	struct lora *loras;
	size_t n_base_loras, n_loras, n_loras_max;
	void *room[N_ROOMS];
	size_t room_bytes[N_ROOMS];
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

/* ---- Failures on request ---- */

static struct failure {
	size_t in; /* operations until one fails; 0: none does */
	enum cohort_status status;
	bool lost;
} failure;

void plain_fail_at(size_t n, enum cohort_status status) { failure = (struct failure){n, status, failure.lost}; }
bool plain_fail_is_due(void) { return failure.in > 0; }
void plain_lose(bool lost) { failure.lost = lost; }

/* What the next operation fails with. */
static enum cohort_status next_failure(void)
{
	return failure.in && --failure.in == 0 ? failure.status : COHORT_OK;
}

/* ---- Memory ---- */

/* NULL: there are no a * b * c bytes. */
static void *poisoned(size_t a, size_t b, size_t c)
{
	size_t n;
	void *out = size_mul(a, b, &n) && size_mul(n, c, &n) ? mem_zalloc_aligned(n, 1) : NULL;

	return out ? memset(out, POISON, n) : NULL;
}

/* At least n elements. False: out of memory, and the room is as it was. */
static bool room_grow(struct plain *p, enum room r, size_t n, size_t size)
{
	void *more = n > p->room_bytes[r] / size ? poisoned(n, size, 1) : NULL;

	if (more) {
		mem_free_aligned(p->room[r]);
		p->room[r] = more;
		p->room_bytes[r] = n * size;
	}
	return n <= p->room_bytes[r] / size;
}

static uint8_t *matrix_row(const struct matrix *m, size_t r)
{
	return m->rows + (m->reversed ? m->held.to - 1 - r : r - m->held.from) * m->row_bytes;
}

/* Copies rows of a weight to the device. */
static bool matrix_open(struct matrix *m, const struct model_weight *w, struct be_range held, struct be_range share)
{
	*m = (struct matrix){poisoned(held.to - held.from, w->row_bytes, 1), w->row_bytes, w->product, held, share};
	for (size_t r = held.from; m->rows && r < held.to; r++)
		memcpy(matrix_row(m, r), (const uint8_t *)w->data + r * w->row_bytes, w->row_bytes);
	return m->rows;
}

static void matrices_free(struct matrix *m, size_t n)
{
	for (size_t i = 0; m && i < n; i++)
		mem_free_aligned(m[i].rows);
	mem_free(m);
}

static const struct matrix *matrix_of(const struct plain *p, const struct model_weight *w) { return &p->w->of[w->index]; }

/* A weight that is no product, as floats; NULL of NULL. */
static const float *floats(const struct plain *p, const struct model_weight *w)
{
	return w ? (const float *)(const void *)matrix_of(p, w)->rows : NULL;
}

static float *row_of(const struct be_buf *b, size_t r) { return ((const struct plain_buf *)b)->device + r * b->n_cols; }

/* ---- The queue ---- */

/* The first failure since the last wait stays. */
static void fail(struct plain *p, enum cohort_status st) { p->failed = p->failed ? p->failed : st; }

static void spoil_outputs(const struct op *op)
{
	for (size_t i = 0; i < N_OUT; i++)
		if (op->out[i])
			memset(row_of(op->out[i], 0), POISON, op->out[i]->n_rows * op->out[i]->n_cols * sizeof(float));
}

/* A failing operation runs as well, on NaN, so that what it stores elsewhere is spoiled, too. */
static void run_one(struct plain *p, const struct op *op)
{
	p->spoil = op->fails;
	if (p->spoil)
		spoil_outputs(op);
	op->run(p, op);
	if (p->spoil)
		spoil_outputs(op);
	fail(p, op->fails);
}

/* Runs all that is queued. Returns whether nothing has failed since the last wait. */
static bool run_queue(struct plain *p)
{
	fail(p, failure.lost ? COHORT_E_DEVICE : COHORT_OK);
	for (size_t i = 0; i < p->n_queued && !p->failed; i++)
		run_one(p, &p->queue[i]);
	p->n_queued = 0;
	return !p->failed;
}

/* The host's copies of what the operation writes are of no more use. */
static void enqueue(struct be *be, const struct op *op)
{
	struct plain *p = (struct plain *)be;

	for (size_t i = 0; i < N_OUT && op->out[i]; i++) {
		struct plain_buf *b = (struct plain_buf *)op->out[i];
		b->n_host_rows = 0;
		if (b->host)
			memset(b->host, POISON, b->base.n_rows * b->base.n_cols * sizeof *b->host);
	}
	if (mem_grow((void **)&p->queue, &p->n_queue_max, p->n_queued + 1, sizeof *p->queue)) {
		p->queue[p->n_queued] = *op;
		p->queue[p->n_queued++].fails = next_failure();
	} else {
		run_queue(p);
		fail(p, COHORT_E_MEMORY);
	}
}

/* A transfer to the host, which waits: whether it may go on. */
static bool transfer(struct plain *p)
{
	const enum cohort_status st = next_failure();

	if (run_queue(p))
		fail(p, st);
	return !p->failed;
}

/* ---- Weights ---- */

static void weights_free(struct be_weights *weights)
{
	struct plain_weights *w = (struct plain_weights *)weights;

	if (w)
		matrices_free(w->of, w->source.n);
	mem_free(w);
}

/* Rows that are looked up are needed whatever the share, and other devices may read them from the file as well. */
static bool upload_weight(struct plain_weights *w, size_t i, const struct be_weights_params *params)
{
	const struct model_weight *mw = &w->source.weights[i];
	const struct be_range all = {0, mw->n_rows};
	const struct be_range share = mw->product ? be_share(mw->n_rows, params->rank, params->of) : all;
	const struct be_range held = mw->lookup ? all : share;

	if (!matrix_open(&w->of[i], mw, held, share))
		return false;
	w->base.packed_bytes += (held.to - held.from) * mw->row_bytes;
	w->source.give_back(w->source.user, mw, held.from, held.to, mw->lookup);
	return true;
}

static enum cohort_status weights_open(struct be_weights **out, const struct be_source *source,
		const struct be_weights_params *params, struct cohort_err *err)
{
	enum cohort_status st = COHORT_OK;

	if (failure.lost)
		return err_set(err, COHORT_E_DEVICE, "%s is lost", device_name(params->device));
	struct plain_weights *w = mem_zalloc(1, sizeof *w);
	if (!w || !(w->of = mem_zalloc(source->n, sizeof *w->of)))
		st = err_set(err, COHORT_E_MEMORY, "out of memory");
	else
		w->base.ops = &be_plain, w->source = *source;
	for (size_t i = 0; i < source->n && !st; i++) {
		const float done = (float)(i + 1) / (float)source->n;
		if ((!source->wanted || source->wanted[i]) && !upload_weight(w, i, params))
			st = err_set(err, COHORT_E_MEMORY, "out of memory for weights");
		else if (params->progress && !params->progress(done, params->progress_user))
			st = err_set(err, COHORT_ABORTED, "loading aborted by the caller");
	}
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
	return progress && !progress(1.0f, user) ? err_set(err, COHORT_ABORTED, "loading aborted by the caller") : COHORT_OK;
}

/* The sum is of all rows, as the file has them: those outside the share are still there. */
static uint64_t weight_sum(struct be *be, const struct model_weight *w)
{
	const struct matrix *m = matrix_of((struct plain *)be, w);
	uint64_t sum = 0;

	if (!transfer((struct plain *)be))
		return 0;
	for (size_t r = 0; r < w->n_rows; r++) {
		const bool held = r >= m->held.from && r < m->held.to;
		const uint8_t *row = held ? matrix_row(m, r) : (const uint8_t *)w->data + r * w->row_bytes;
		sum += sum_large(w->offset + (uint64_t)r * w->row_bytes, row, w->row_bytes);
	}
	return sum;
}

/* ---- An instance ---- */

static struct lora *find_lora(const struct plain *p, const struct model_loras *host)
{
	struct lora *l = p->loras;

	while (l < p->loras + p->n_loras && l->host != host)
		l++;
	return l;
}

/* An adapter that is there already may be another one at the same address: it is copied anew. */
static bool lora_reserve(struct be *be, const struct model_loras *host)
{
	struct plain *p = (struct plain *)be;
	const size_t n = p->w->source.n;
	struct matrix *pairs = mem_zalloc(n, 2 * sizeof *pairs);
	bool ok = pairs && mem_grow((void **)&p->loras, &p->n_loras_max, p->n_loras + 1, sizeof *p->loras) &&
			room_grow(p, NARROW, host->rank_max, sizeof(float)) &&
			room_grow(p, ROUNDED, host->rank_max, sizeof(float)) &&
			room_grow(p, SCRATCH, KERN_MM_SCRATCH_BYTES(host->rank_max), 1);

	for (size_t i = 0; ok && i < n; i++)
		if (host->of[i].a && p->w->of[i].rows) {
			const struct be_range rank = {0, host->of[i].a->n_rows}, share = p->w->of[i].share;
			ok = matrix_open(&pairs[2 * i], host->of[i].a, rank, rank) &&
					matrix_open(&pairs[2 * i + 1], &host->of[i].b, share, share);
		}
	struct lora *l = find_lora(p, host);
	if (ok && l == p->loras + p->n_loras)
		p->loras[p->n_loras++] = (struct lora){host, NULL};
	matrices_free(ok ? l->pairs : pairs, 2 * n);
	if (ok)
		l->pairs = pairs;
	return ok;
}

static void plain_free(struct be *be)
{
	struct plain *p = (struct plain *)be;

	if (!p)
		return;
	for (size_t i = 0; i < p->n_loras; i++)
		matrices_free(p->loras[i].pairs, 2 * p->w->source.n);
	for (size_t i = 0; i < p->n_layers; i++) {
		mem_free_aligned(p->layers[i].areas);
		mem_free_aligned(p->layers[i].states);
	}
	for (size_t i = 0; i < N_ROOMS; i++)
		mem_free_aligned(p->room[i]);
	mem_free(p->loras);
	mem_free(p->layers);
	mem_free(p->queue);
	mem_free(p);
}

static bool open_cells(struct plain *p, struct layer *l, const struct be_cell_layer *s)
{
	l->shape = *s;
	l->k_bytes = kern_k_area_bytes(p->kv, s->head_k);
	l->area_bytes = l->k_bytes + kern_v_area_bytes(p->kv, s->head_v);
	l->k_cell = kern_cell_bytes(p->kv, s->head_k);
	l->v_cell = kern_cell_bytes(p->kv, s->head_v);
	l->areas = poisoned(s->n_kv, p->n_blocks[s->group], l->area_bytes);
	p->base.block_bytes[s->group] += s->n_kv * l->area_bytes;
	p->base.cell_bytes[s->group] += s->n_kv * (l->k_cell + l->v_cell);
	return l->areas && room_grow(p, WIDE, s->head_k, sizeof(float)) &&
			room_grow(p, SCRATCH, kern_attn_scratch_bytes(1, s->n_q / s->n_kv, s->head_k, s->head_v), 1);
}

static bool open_states(struct plain *p, struct layer *l, size_t n_states, size_t n)
{
	l->n = n;
	l->states = poisoned(n_states, n, sizeof(float));
	p->base.cell_bytes[BE_STATES] += n * sizeof(float);
	return l->states;
}

static bool open_rooms(struct plain *p, const struct be_limits *lim)
{
	bool ok = room_grow(p, CHOSEN, lim->n_expert_used, sizeof(int32_t)) &&
			room_grow(p, CHOSEN_BY, lim->n_expert_used, sizeof(float)) &&
			room_grow(p, ONES, lim->n_ff_max, sizeof(float));

	for (size_t i = 0; ok && i < lim->n_ff_max; i++)
		((float *)p->room[ONES])[i] = 1.0f;
	for (size_t g = 0; ok && g <= BE_STATES; g++)
		ok = room_grow(p, CELL, p->base.cell_bytes[g], 1);
	for (size_t i = 0; ok && i < lim->n_ropes; i++)
		ok = room_grow(p, ANGLES, lim->ropes[i].n_rot, sizeof(float));
	for (const struct model_weight *w = p->w->source.weights; ok && w < p->w->source.weights + p->w->source.n; w++)
		ok = !w->product || (room_grow(p, ROUNDED, lim->n_rows_max * w->k, sizeof(float)) &&
				room_grow(p, SCRATCH, KERN_MM_SCRATCH_BYTES(w->k), 1) &&
				room_grow(p, WIDE, w->n_rows, sizeof(float)));
	for (size_t i = 0; ok && i < lim->n_base; i++)
		ok = lora_reserve(&p->base, lim->base[i].loras);
	return ok;
}

static struct be *plain_open(struct be_weights *weights, const struct be_limits *lim)
{
	static const enum kern_kv types[] = {
			[COHORT_KV_F16] = KERN_KV_F16, [COHORT_KV_F32] = KERN_KV_F32, [COHORT_KV_Q8_0] = KERN_KV_Q8_0};
	const size_t n = lim->n_layers > lim->n_state_layers ? lim->n_layers : lim->n_state_layers;
	struct plain *p = mem_zalloc(1, sizeof *p);

	if (!p || !(p->layers = mem_zalloc(n, sizeof *p->layers))) {
		mem_free(p);
		return NULL;
	}
	p->base.ops = &be_plain;
	p->w = (struct plain_weights *)weights;
	p->kern = kern_get(0);
	p->bad = -1;
	p->n_layers = n;
	p->ropes = lim->ropes;
	p->base_loras = lim->base;
	p->n_base_loras = lim->n_base;
	p->kv = types[lim->kv_type];
	memcpy(p->n_blocks, lim->n_blocks, sizeof p->n_blocks);
	memcpy(p->window, lim->window, sizeof p->window);
	bool ok = true;
	for (size_t i = 0; ok && i < lim->n_layers; i++)
		ok = open_cells(p, &p->layers[i], &lim->layers[i]);
	for (size_t i = 0; ok && i < lim->n_state_layers; i++)
		ok = open_states(p, &p->layers[i], lim->n_states, lim->state_floats[i]);
	if (ok && open_rooms(p, lim))
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

	if (!b || !(b->device = poisoned(n_rows, n_cols, sizeof(float)))) {
		mem_free(b);
		return NULL;
	}
	b->base = (struct be_buf){be, n_rows, n_cols};
	return &b->base;
}

/* ---- Waiting ---- */

static enum cohort_status plain_wait(struct be *be, int64_t *bad, struct cohort_err *err)
{
	struct plain *p = (struct plain *)be;

	run_queue(p);
	const enum cohort_status st = p->failed;
	*bad = p->bad;
	p->bad = -1;
	p->failed = COHORT_OK;
	return st ? err_set(err, st, "the device failed") : COHORT_OK;
}

static const float *outputs(struct be_buf *buf, size_t n)
{
	struct plain_buf *b = (struct plain_buf *)buf;
	struct plain *p = (struct plain *)buf->be;

	if (n <= b->n_host_rows && !p->n_queued && !p->failed)
		return b->host;
	if (!transfer(p))
		return NULL;
	if (!b->host && !(b->host = poisoned(buf->n_rows, buf->n_cols, sizeof *b->host))) {
		fail(p, COHORT_E_MEMORY);
		return NULL;
	}
	memcpy(b->host, b->device, n * buf->n_cols * sizeof *b->host);
	b->n_host_rows = n;
	return b->host;
}

static void run_upload(struct plain *p, const struct op *op)
{
	(void)p;
	memcpy(row_of(op->out[0], 0), op->bytes, op->n * op->out[0]->n_cols * sizeof(float));
}

/* ---- Rows: announcing them, embedding ---- */

static void run_begin(struct plain *p, const struct op *op)
{
	p->rows = op->rows;
	p->narrowed = NULL;
}

static void run_narrow(struct plain *p, const struct op *op) { p->narrowed = op->ids; }

static void read_row(const struct plain *p, const struct model_weight *w, size_t r, float *out)
{
	quant_format_get(w->type)->to_f32(matrix_row(matrix_of(p, w), r), out, w->k);
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

/* ---- Rows: norms and residuals ---- */

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
		for (size_t i = 0; i < 2 && a->add[i].b; i++) {
			float *b = row_of(a->add[i].b, r);
			add_bias(p, a->add[i].bias, 0, b, k);
			norm_row(p, &a->add[i].post, 0, b, k, b);
			p->kern->scale(b, a->add[i].scale, k);
			p->kern->add(x, b, k);
		}
		norm_row(p, &a->norm, 0, x, k, a->norm.w ? row_of(a->out, r) : NULL);
	}
}

/* ---- Rows: products, and what adapters add to them ---- */

/* n rows from x on, x_n floats apart, times the rows of the share: their columns of out, whose rows are out_n apart.
 * Kernels want rows in the file's order, so they get one at a time. */
static void product(const struct plain *p, const struct model_weight *w, const struct matrix *m, const float *x,
		size_t x_n, size_t n, float *out, size_t out_n)
{
	const enum quant_act kind = quant_format_get(w->type)->act;
	uint8_t *act = p->room[ROUNDED];
	struct kern_mm mm = {.n_rows = 1, .k = w->k, .n_cols = n, .out_ld = out_n, .scratch = p->room[SCRATCH],
			.act = act, .act_bytes = kern_act_bytes(kind, w->k)};

	for (size_t i = 0; i < n; i++)
		p->kern->act[kind](x + i * x_n, w->k, act + i * mm.act_bytes);
	for (size_t r = m->share.from; r < m->share.to; r++) {
		mm.w = matrix_row(m, r);
		mm.out = out + r;
		p->kern->file[w->type].mm(&mm, 0, 1);
	}
}

/* out += scale b (a x), in the columns of the share. */
static void add_lora(const struct plain *p, const struct be_lora *use, const struct model_weight *w, const float *x,
		float *out)
{
	const struct model_lora *pair = &use->loras->of[w->index];
	const struct be_range share = matrix_of(p, w)->share;
	float *narrow = p->room[NARROW], *wide = p->room[WIDE];

	if (!pair->a)
		return;
	const struct matrix *ab = find_lora(p, use->loras)->pairs + 2 * w->index;
	product(p, pair->a, &ab[0], x, w->k, 1, narrow, pair->a->n_rows);
	p->kern->scale(narrow, pair->scale * use->scale, pair->a->n_rows);
	product(p, &pair->b, &ab[1], narrow, pair->a->n_rows, 1, wide, w->n_rows);
	p->kern->add(out + share.from, wide + share.from, share.to - share.from);
}

/* Adapters of the model come first, in their order, then the row's own. */
static void run_matmul(struct plain *p, const struct op *op)
{
	for (size_t i = 0; i < 3 && op->w[i]; i++) {
		const struct model_weight *w = op->w[i];
		const size_t x_n = op->x[0]->n_cols, out_n = op->out[i]->n_cols;
		product(p, w, matrix_of(p, w), row_of(op->x[0], 0), x_n, op->n, row_of(op->out[i], op->row), out_n);
		for (size_t r = 0; r < op->n; r++) {
			const float *x = row_of(op->x[0], r);
			float *out = row_of(op->out[i], op->row + r);
			for (size_t b = 0; b < p->n_base_loras; b++)
				add_lora(p, &p->base_loras[b], w, x, out);
			const size_t row = p->narrowed ? (size_t)p->narrowed[r] : r;
			if (p->rows.lora && p->rows.lora[row].loras)
				add_lora(p, &p->rows.lora[row], w, x, out);
		}
	}
}

/* ---- Rows: cache and attention ---- */

/* A block's K of one head; V is k_bytes on. */
static uint8_t *area_of(const struct plain *p, const struct layer *l, size_t head, int32_t block)
{
	return l->areas + (head * p->n_blocks[l->shape.group] + (size_t)block) * l->area_bytes;
}

/* By the angles at hand. */
static void rotate(const struct plain *p, const struct be_rope *rope, float *x)
{
	const float *angles = p->room[ANGLES];

	p->kern->rope(x, rope->n_rot, angles, angles + rope->n_rot / 2, rope->halves);
}

static void clamp(float *x, float most, size_t n)
{
	for (size_t i = 0; most != 0.0f && i < n; i++) {
		x[i] = x[i] > most ? most : x[i];
		x[i] = x[i] < -most ? -most : x[i];
	}
}

/* A row of q or k: bias, clamp, norm of each head or of the row, rotation. */
static void finish_heads(const struct plain *p, const struct be_qkv *d, const struct model_weight *bias,
		const struct be_norm *norm, float *x, size_t n_heads, size_t head)
{
	const bool each = norm->w && norm->w->k == head;

	add_bias(p, bias, 0, x, n_heads * head);
	clamp(x, d->clamp, n_heads * head);
	if (!each)
		norm_row(p, norm, 0, x, n_heads * head, x);
	for (size_t h = 0; h < n_heads; h++, x += head) {
		if (each)
			norm_row(p, norm, norm->w->n_rows > 1 ? h : 0, x, head, x);
		if (d->rope >= 0)
			rotate(p, &p->ropes[d->rope], x);
	}
}

static void run_qkv_store(struct plain *p, const struct op *op)
{
	const struct be_qkv *d = &op->qkv;
	const struct layer *l = &p->layers[d->layer];
	const struct be_cell_layer *s = &l->shape;
	const struct be_cells *cells = &p->rows.cells[s->group];

	for (size_t r = 0; r < p->rows.n; r++) {
		float *q = row_of(op->out[0], r), *k = row_of(op->out[1], r), *v = row_of(op->out[2], r);
		if (d->rope >= 0)
			be_rope_angles(&p->ropes[d->rope], p->rows.pos[r], p->ropes[d->rope].scale, p->room[ANGLES]);
		finish_heads(p, d, d->bq, &d->q_norm, q, s->n_q, s->head_k);
		finish_heads(p, d, d->bk, &d->k_norm, k, s->n_kv, s->head_k);
		p->kern->scale(q, be_query_scale(d, p->rows.pos[r]), op->out[0]->n_cols);
		add_bias(p, d->bv, 0, v, op->out[2]->n_cols);
		clamp(v, d->clamp, op->out[2]->n_cols);
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
	const size_t n = s->n_q / s->n_kv, window = p->window[s->group];

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

/* ---- Rows: feed-forward and experts ---- */

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

	for (size_t r = 0; r < op->n; r++) {
		float *up = row_of(op->out[0], r), *gate = f->gate ? row_of(op->out[1], r) : up;
		add_bias(p, f->up_b, 0, up, n);
		add_bias(p, f->gate_b, 0, gate, n);
		activate(p, f->act, gate, f->gate ? up : p->room[ONES], n);
	}
}

/* out = x times matrix e of those from w on, and row e of the bias. */
static void expert_product(const struct plain *p, const struct model_weight *w, const struct model_weight *bias,
		size_t e, const float *x, float *out)
{
	product(p, w + e, matrix_of(p, w + e), x, w->k, 1, out, w->n_rows);
	add_bias(p, bias, e, out, w->n_rows);
}

static void run_experts(struct plain *p, const struct op *op)
{
	const struct be_experts *d = &op->experts;
	const struct be_ffn *f = &d->ffn;
	const size_t n = op->out[0]->n_cols;
	int32_t *chosen = p->room[CHOSEN];
	float *by = p->room[CHOSEN_BY];

	for (size_t r = 0; r < op->n; r++) {
		float *out = row_of(op->out[0], r), *route = row_of(op->out[1], r), *x = row_of(op->x[0], r);
		add_bias(p, d->router_b, 0, route, d->n);
		be_choose(d, route, chosen, by);
		for (size_t u = 0, at = r * d->n_used; u < d->n_used; u++, at++) {
			const size_t e = (size_t)chosen[u];
			float *gate = row_of(op->out[2], at), *up = row_of(op->out[3], at), *down = row_of(op->out[4], at);
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
	const size_t n = op->out[0]->n_cols;

	for (size_t r = 0; r < op->n; r++) {
		float *b = row_of(op->out[1], r), lane[8] = {0};
		for (size_t i = 0; op->w[0] && i < op->x[0]->n_cols; i++)
			lane[i % 8] = fmaf(floats(p, op->w[0])[i], row_of(op->x[0], r)[i], lane[i % 8]);
		if (op->w[0])
			p->kern->scale(b, 1.0f / (1.0f + kern_exp(-kern_tree8(lane))), n);
		p->kern->add(row_of(op->out[0], r), b, n);
	}
}

/* ---- Rows: recurrent layers ---- */

static void run_conv(struct plain *p, const struct op *op)
{
	const struct be_conv *d = &op->conv;
	const struct layer *l = &p->layers[d->layer];
	const struct kern_conv conv = {.n_rows = p->rows.n, .n = d->n, .d_conv = d->width,
			.from = p->rows.state_from, .to = p->rows.state_to, .states = l->states + d->at, .state_n = l->n,
			.w = floats(p, d->w), .bias = floats(p, d->b), .x = row_of(op->out[0], 0)};
	p->kern->conv(&conv, 0, d->n);
}

static void run_scan(struct plain *p, const struct op *op)
{
	const struct be_scan *d = &op->scan;
	const struct layer *l = &p->layers[d->layer];
	const struct kern_scan scan = {.n_rows = p->rows.n, .n = d->n, .d_state = d->d_state,
			.from = p->rows.state_from, .to = p->rows.state_to, .states = l->states + d->at, .state_n = l->n,
			.a = floats(p, d->a), .d = floats(p, d->d), .dt_bias = floats(p, d->dt_b),
			.dt = row_of(op->x[0], 0), .b = row_of(op->x[1], 0), .c = row_of(op->x[2], 0),
			.z = row_of(op->x[3], 0), .x = row_of(op->out[0], 0)};
	p->kern->scan(&scan, 0, d->n);
}

/* ---- Rows: outputs ---- */

static void run_logits(struct plain *p, const struct op *op)
{
	const struct be_logits *d = &op->logits;
	const size_t n = op->out[0]->n_cols;

	for (size_t i = 0; i < op->n; i++) {
		float *x = row_of(op->out[0], op->row + i);
		add_bias(p, d->b, 0, x, n);
		p->kern->scale(x, d->scale, n);
		const bool finite = p->kern->all_finite(x, n);
		if (d->cap != 0.0f)
			p->kern->softcap(x, d->cap, n);
		if (!finite) /* the cap makes a number of what was infinite */
			x[0] = NAN;
	}
}

static void run_check(struct plain *p, const struct op *op)
{
	for (size_t i = 0; p->bad < 0 && i < op->n; i++)
		if (!p->kern->all_finite(row_of(op->x[0], op->row + i), op->x[0]->n_cols))
			p->bad = op->ids ? op->ids[i] : (int64_t)i;
}

static void run_copy(struct plain *p, const struct op *op)
{
	(void)p;
	for (size_t i = 0; i < op->n; i++)
		memmove(row_of(op->out[0], op->row + i), row_of(op->x[0], op->ids ? (size_t)op->ids[i] : i),
				op->x[0]->n_cols * sizeof(float));
}

/* ---- Cells and states ---- */

/* One cell of a layer of the group, from `bytes` where `store`, otherwise to there. Returns the next layer's bytes. */
static uint8_t *layer_pass(const struct plain *p, const struct layer *l, int32_t block, size_t slot, uint8_t *bytes,
		bool store)
{
	const size_t head_k = l->shape.head_k, head_v = l->shape.head_v;

	for (size_t h = 0; h < l->shape.n_kv; h++, bytes += l->k_cell + l->v_cell) {
		uint8_t *k = area_of(p, l, h, block), *v = k + l->k_bytes;
		if (store) {
			kern_k_cell_write(p->kv, head_k, k, slot, bytes);
			kern_v_cell_write(p->kv, head_v, v, slot, bytes + l->k_cell);
		} else {
			kern_k_cell_read(p->kv, head_k, k, slot, bytes);
			kern_v_cell_read(p->kv, head_v, v, slot, bytes + l->k_cell);
		}
	}
	return bytes;
}

static void cell_pass(struct plain *p, size_t group, int32_t block, int32_t slot, uint8_t *bytes, bool store)
{
	if (store && p->spoil)
		bytes = memset(p->room[CELL], POISON, p->base.cell_bytes[group]);
	for (const struct layer *l = p->layers; l < p->layers + p->n_layers; l++)
		if (group == BE_STATES) {
			void *state = l->states + (size_t)block * l->n;
			memcpy(store ? state : bytes, store ? bytes : state, l->n * sizeof(float));
			bytes += l->n * sizeof(float);
		} else if (l->shape.group == group) {
			bytes = layer_pass(p, l, block, (size_t)slot, bytes, store);
		}
}

static void run_cells_pass(struct plain *p, const struct op *op)
{
	for (int32_t i = 0; i < op->span.n; i++)
		cell_pass(p, op->group, op->span.block, op->span.slot + i, (uint8_t *)op->bytes + (size_t)i * op->step,
				op->store);
}

static void cells_pass(struct be *be, size_t group, const struct be_span *spans, size_t n, const void *bytes,
		size_t step, bool store)
{
	struct op op = {.run = run_cells_pass, .group = group, .bytes = bytes, .step = step, .store = store};

	for (size_t i = 0; i < n; i++) {
		op.span = spans[i];
		enqueue(be, &op);
		op.bytes = (const uint8_t *)op.bytes + (size_t)spans[i].n * step;
	}
}

static void cells_write(struct be *be, size_t group, const struct be_span *spans, size_t n, const void *in, size_t step)
{
	cells_pass(be, group, spans, n, in, step, true);
}

static void cells_read(struct be *be, size_t group, const struct be_span *spans, size_t n, void *out, size_t step)
{
	cells_pass(be, group, spans, n, out, step, false);
	run_queue((struct plain *)be);
}

/* Keys of a cell are read as attention sees them, rotated and rounded again. */
static void shift_keys(struct plain *p, const struct layer *l, const struct be_move *m, size_t slot)
{
	const struct be_rope *rope = &p->ropes[l->shape.rope];
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

/* ---- What is queued for an operation ---- */

static void matmul(struct be_buf *const *out, const struct model_weight *const *w, size_t n_w, const struct be_buf *x,
		size_t n, size_t out_row)
{
	struct op op = {.run = run_matmul, .x = {x}, .n = n, .row = out_row};

	memcpy(op.out, out, n_w * sizeof *out);
	memcpy(op.w, w, n_w * sizeof *w);
	enqueue(x->be, &op);
}

static void add_norm(const struct be_add_norm *a, size_t n)
{
	struct op op = {.run = run_add_norm, .out = {a->x}, .add_norm = *a, .n = n};
	size_t n_out = 1;

	for (size_t i = 0; i < 2 && a->add[i].b; i++)
		op.out[n_out++] = a->add[i].b;
	if (a->norm.w)
		op.out[n_out] = a->out;
	enqueue(a->x->be, &op);
}

/* QUEUED(name, its parameters, the instance, fields of the struct op) */
#define QUEUED(name, parameters, be, ...) \
	static void name parameters { enqueue(be, &(struct op){.run = run_##name, __VA_ARGS__}); }
#define BUF struct be_buf *
#define X const struct be_buf *
#define ROWS const int32_t *

QUEUED(upload, (BUF b, const float *rows, size_t n), b->be, .out = {b}, .bytes = rows, .n = n)
QUEUED(begin, (struct be * be, const struct be_rows *rows), be, .rows = *rows)
QUEUED(narrow, (struct be * be, ROWS rows, size_t n), be, .ids = rows, .n = n)
QUEUED(embed, (BUF out, BUF work, const struct be_embed *e), out->be, .out = {out, work}, .embed = *e)
QUEUED(qkv_store, (BUF q, BUF k, BUF v, const struct be_qkv *d), q->be, .out = {q, k, v}, .qkv = *d)
QUEUED(attention, (BUF out, X q, const struct be_attend *d, ROWS rows, size_t n), out->be,
		.out = {out}, .x = {q}, .attend = *d, .ids = rows, .n = n)
QUEUED(glu, (BUF gate, BUF up, const struct be_ffn *f, size_t n), up->be,
		.out = {up, f->gate ? gate : NULL}, .ffn = *f, .n = n)
QUEUED(experts, (BUF out, X x, const struct be_experts *d, const struct be_expert_bufs *b, size_t n), out->be,
		.out = {out, b->route, b->gate, b->up, b->down}, .x = {x}, .experts = *d, .n = n)
QUEUED(add_gated, (BUF out, BUF b, X x, const struct model_weight *w, size_t n), out->be,
		.out = {out, b}, .x = {x}, .w = {w}, .n = n)
QUEUED(conv, (BUF x, const struct be_conv *d), x->be, .out = {x}, .conv = *d)
QUEUED(scan, (BUF x, X dt, X b, X c, X z, const struct be_scan *d), x->be, .out = {x}, .x = {dt, b, c, z}, .scan = *d)
QUEUED(logits, (BUF x, size_t row, size_t n, const struct be_logits *d), x->be,
		.out = {x}, .row = row, .n = n, .logits = *d)
QUEUED(check, (X x, size_t row, size_t n, ROWS names), x->be, .x = {x}, .row = row, .n = n, .ids = names)
QUEUED(copy, (BUF out, size_t row, X x, ROWS rows, size_t n), out->be,
		.out = {out}, .row = row, .x = {x}, .ids = rows, .n = n)

/* ---- The table ---- */

const struct be_ops be_plain = {
		.name = "plain", .device_name = device_name, .device_get = device_get,
		.level_count = level_count, .level_name = level_name, .level_usable = level_usable,
		.level_failed = level_failed, .level_best = level_best,
		.weights_open = weights_open, .weights_lock = weights_lock, .weights_free = weights_free,
		.weight_sum = weight_sum,
		.open = plain_open, .free = plain_free, .buf_open = buf_open, .buf_free = buf_free,
		.lora_reserve = lora_reserve, .wait = plain_wait, .outputs = outputs, .upload = upload,
		.begin = begin, .narrow = narrow, .embed = embed, .add_norm = add_norm, .matmul = matmul,
		.qkv_store = qkv_store, .attention = attention, .glu = glu, .experts = experts, .add_gated = add_gated,
		.conv = conv, .scan = scan, .logits = logits, .check = check, .copy = copy,
		.cells_move = cells_move, .cells_read = cells_read, .cells_write = cells_write,
};

void plain_register(void)
{
	static bool done;

	if (!done)
		done = be_register(&be_plain);
}
