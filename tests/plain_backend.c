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
 *  5. All memory is there before an operation is queued, but for the queue's own: only a queue that cannot grow, a lost
 *     device and a failure on request make operations fail.
 *  6. Fresh memory is NaN, and a failed operation leaves NaN wherever it was to write.
 * So a caller who relies on more than the interface gives gets other bits here. The sections have the order of the
 * interface; the table is at the end. */
#include "plain_backend.h"

#include "base/mem.h"
#include "base/sum.h"
#include "kern/kern.h"
#include "kern/kern_math.h"

#include <string.h>

/* What memory holds that must not be used: NaN in every float and in every type of cache. */
#define POISON 0xff

/* A matrix or vector on the device: rows [held.from, held.to) as the file has them, perhaps the last one first. */
struct matrix {
	uint8_t *rows;
	size_t row_bytes;
	bool reversed;
	struct be_range held, share; /* share: the rows that products compute */
};

struct plain_weights {
	struct be_weights base;
	struct be_source source;
	struct matrix *of; /* [source.n], by model_weight.index */
};

/* An adapter. */
struct lora {
	const struct model_loras *host; /* by which rows name it */
	struct matrix (*pairs)[2]; /* [weights of the model]: a and b of each */
};

struct plain_buf {
	struct be_buf base;
	float *device; /* [n_rows, n_cols] */
	float *host; /* the same, as `outputs` gives it, or NULL */
	size_t n_host_rows; /* rows of it that are valid */
};

struct layer {
	struct be_cell_layer shape;
	uint8_t *areas; /* [n_kv, blocks of the group]: K and V of a block, as the kernels have them */
	size_t area_bytes, k_bytes; /* of both, and of K, where V begins */
	size_t k_cell, v_cell; /* bytes of one position */
};

struct state_layer {
	float *states; /* [n_states, n] */
	size_t n;
};

/* Room to work in, for one operation. */
enum room { ROUNDED, SCRATCH, ANGLES, ONES, CHOSEN, CHOSEN_BY, NARROW, WIDE, CELL, N_ROOMS };

struct plain;

struct op {
	void (*run)(struct plain *p, const struct op *op);
	enum cohort_status fails; /* on request: with this */
	struct be_buf *out[5]; /* the buffers that it writes */
	const struct be_buf *x[4]; /* those that it reads */
	const struct model_weight *w[3];
	union {
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
	} d;
	size_t n, row, x_row, group, step;
	bool set;
	const int32_t *rows; /* the caller's */
	const void *bytes; /* the caller's */
};

struct plain {
	struct be base;
	const struct plain_weights *w;
	const struct kern *kern;
	/* The queue */
	struct op *queue;
	size_t n_queued, n_queue_max;
	enum cohort_status failed; /* since the last wait */
	int64_t bad; /* the same of checks */
	bool spoil; /* the operation at hand fails */
	/* The rows at hand */
	struct be_rows rows;
	const int32_t *narrowed; /* or NULL */
	/* Cache and states */
	enum kern_kv kv_type;
	size_t n_blocks[BE_GROUPS_MAX], window[BE_GROUPS_MAX];
	struct layer *layers;
	struct state_layer *state_layers;
	size_t n_layers, n_state_layers;
	const struct be_rope *ropes;
	/* Adapters */
	const struct be_lora *base_loras;
	struct lora *loras;
	size_t n_base_loras, n_loras, n_loras_max;
	void *room[N_ROOMS];
	size_t room_bytes[N_ROOMS];
};

/* ---- Devices, and levels: there is one ---- */

static const char *device_name(size_t i)
{
	static const char *const names[] = {"plain0", "plain1"};
	return i < 2 ? names[i] : NULL;
}

static void device_get(size_t i, struct be_device *out)
{
	(void)i;
	*out = (struct be_device){.description = "plain C, for tests"};
}

static size_t level_count(void) { return 1; }
static size_t level_best(void) { return 0; }
static bool level_usable(size_t level) { return level == 0; }
static const char *level_name(size_t level) { return level == 0 ? "ref" : NULL; }
static const char *level_failed(size_t level) { return level == 0 ? NULL : "unknown"; }

/* ---- Failures on request ---- */

static struct {
	size_t in; /* operations until one fails; 0: none does */
	enum cohort_status status;
	bool lost;
} failure;

void plain_fail_at(size_t n, enum cohort_status status)
{
	failure.in = n;
	failure.status = status;
}

bool plain_fail_is_due(void)
{
	return failure.in > 0;
}

void plain_lose(bool lost)
{
	failure.lost = lost;
}

/* What the next operation fails with. */
static enum cohort_status next_failure(void)
{
	return failure.in && --failure.in == 0 ? failure.status : COHORT_OK;
}

/* ---- Memory ---- */

/* NULL: a * b * c bytes are more than there are. */
static void *poisoned(size_t a, size_t b, size_t c)
{
	size_t n;
	void *out = size_mul(a, b, &n) && size_mul(n, c, &n) ? mem_zalloc_aligned(n, 1) : NULL;

	if (out)
		memset(out, POISON, n);
	return out;
}

/* At least n elements. False: out of memory, and the room is as it was. */
static bool room_grow(struct plain *p, enum room r, size_t n, size_t size)
{
	if (n <= p->room_bytes[r] / size)
		return true;
	void *more = poisoned(n, size, 1);
	if (more) {
		mem_free_aligned(p->room[r]);
		p->room[r] = more;
		p->room_bytes[r] = n * size;
	}
	return more;
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

static float *row_of(const struct be_buf *b, size_t r)
{
	return ((const struct plain_buf *)b)->device + r * b->n_cols;
}

static const struct matrix *matrix_of(const struct plain *p, const struct model_weight *w)
{
	return &p->w->of[w->index];
}

/* A weight that is no product, as floats; NULL of NULL. */
static const float *floats(const struct plain *p, const struct model_weight *w)
{
	return w ? (const float *)(const void *)matrix_of(p, w)->rows : NULL;
}

/* ---- The queue ---- */

static void fail(struct plain *p, enum cohort_status st)
{
	p->failed = p->failed ? p->failed : st;
}

static void spoil_outputs(const struct op *op)
{
	for (size_t i = 0; i < 5; i++)
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

	for (size_t i = 0; i < 5; i++) {
		struct plain_buf *b = (struct plain_buf *)op->out[i];
		if (b && b->host)
			memset(b->host, POISON, b->base.n_rows * b->base.n_cols * sizeof *b->host);
		if (b)
			b->n_host_rows = 0;
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

	if (!w)
		return;
	for (size_t i = 0; w->of && i < w->source.n; i++)
		mem_free_aligned(w->of[i].rows);
	mem_free(w->of);
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
	struct plain_weights *w = failure.lost ? NULL : mem_zalloc(1, sizeof *w);
	enum cohort_status st = COHORT_OK;

	if (failure.lost)
		return err_set(err, COHORT_E_DEVICE, "%s is lost", device_name(params->device));
	if (!w || !(w->of = mem_zalloc(source->n, sizeof *w->of)))
		st = err_set(err, COHORT_E_MEMORY, "out of memory");
	if (w)
		*w = (struct plain_weights){{.ops = &be_plain}, *source, w->of};
	for (size_t i = 0; i < source->n && !st; i++) {
		if ((!source->wanted || source->wanted[i]) && !upload_weight(w, i, params))
			st = err_set(err, COHORT_E_MEMORY, "out of memory for weights");
		else if (params->progress && !params->progress((float)(i + 1) / (float)source->n, params->progress_user))
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
	return progress && !progress(1.0f, user) ? err_set(err, COHORT_ABORTED, "loading aborted by the caller")
						 : COHORT_OK;
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

static double repack(struct be *be, double seconds)
{
	(void)be;
	(void)seconds;
	return 1;
}

/* ---- An instance ---- */

static void lora_release(const struct plain *p, struct lora *l)
{
	for (size_t i = 0; l->pairs && i < p->w->source.n; i++) {
		mem_free_aligned(l->pairs[i][0].rows);
		mem_free_aligned(l->pairs[i][1].rows);
	}
	mem_free(l->pairs);
}

static struct lora *lora_find(const struct plain *p, const struct model_loras *host)
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
	struct lora fresh = {host, mem_zalloc(p->w->source.n, sizeof *fresh.pairs)};
	bool ok = fresh.pairs && mem_grow((void **)&p->loras, &p->n_loras_max, p->n_loras + 1, sizeof *p->loras) &&
			room_grow(p, NARROW, host->rank_max, sizeof(float)) &&
			room_grow(p, ROUNDED, host->rank_max, sizeof(float)) &&
			room_grow(p, SCRATCH, KERN_MM_SCRATCH_BYTES(host->rank_max), 1);

	for (size_t i = 0; ok && i < p->w->source.n; i++) {
		const struct model_lora *pair = &host->of[i];
		if (pair->a && p->w->of[i].rows) {
			const struct be_range rank = {0, pair->a->n_rows}, share = p->w->of[i].share;
			ok = matrix_open(&fresh.pairs[i][0], pair->a, rank, rank) &&
					matrix_open(&fresh.pairs[i][1], &pair->b, share, share);
		}
	}
	struct lora *l = ok ? lora_find(p, host) : &fresh;
	if (l == p->loras + p->n_loras)
		p->n_loras++;
	else
		lora_release(p, l);
	if (ok)
		*l = fresh;
	return ok;
}

static void plain_free(struct be *be)
{
	struct plain *p = (struct plain *)be;

	if (!p)
		return;
	for (size_t i = 0; i < p->n_loras; i++)
		lora_release(p, &p->loras[i]);
	for (size_t i = 0; p->layers && i < p->n_layers; i++)
		mem_free_aligned(p->layers[i].areas);
	for (size_t i = 0; p->state_layers && i < p->n_state_layers; i++)
		mem_free_aligned(p->state_layers[i].states);
	for (size_t i = 0; i < N_ROOMS; i++)
		mem_free_aligned(p->room[i]);
	mem_free(p->loras);
	mem_free(p->layers);
	mem_free(p->state_layers);
	mem_free(p->queue);
	mem_free(p);
}

static bool open_layer(struct plain *p, struct layer *l, const struct be_cell_layer *s)
{
	*l = (struct layer){.shape = *s,
			.k_bytes = kern_k_area_bytes(p->kv_type, s->head_k),
			.k_cell = kern_cell_bytes(p->kv_type, s->head_k),
			.v_cell = kern_cell_bytes(p->kv_type, s->head_v)};
	l->area_bytes = l->k_bytes + kern_v_area_bytes(p->kv_type, s->head_v);
	l->areas = poisoned(s->n_kv, p->n_blocks[s->group], l->area_bytes);
	p->base.block_bytes[s->group] += s->n_kv * l->area_bytes;
	p->base.cell_bytes[s->group] += s->n_kv * (l->k_cell + l->v_cell);
	return l->areas && room_grow(p, WIDE, s->head_k, sizeof(float)) &&
			room_grow(p, SCRATCH, kern_attn_scratch_bytes(1, s->n_q / s->n_kv, s->head_k, s->head_v), 1);
}

static bool open_cache(struct plain *p, const struct be_limits *lim)
{
	static const enum kern_kv types[] = {
			[COHORT_KV_F16] = KERN_KV_F16, [COHORT_KV_F32] = KERN_KV_F32, [COHORT_KV_Q8_0] = KERN_KV_Q8_0};
	bool ok = (p->layers = mem_zalloc(lim->n_layers, sizeof *p->layers)) &&
			(p->state_layers = mem_zalloc(lim->n_state_layers, sizeof *p->state_layers));

	p->kv_type = types[lim->kv_type];
	memcpy(p->n_blocks, lim->n_blocks, sizeof p->n_blocks);
	memcpy(p->window, lim->window, sizeof p->window);
	for (; ok && p->n_layers < lim->n_layers; p->n_layers++)
		ok = open_layer(p, &p->layers[p->n_layers], &lim->layers[p->n_layers]);
	for (; ok && p->n_state_layers < lim->n_state_layers; p->n_state_layers++) {
		struct state_layer *l = &p->state_layers[p->n_state_layers];
		l->n = lim->state_floats[p->n_state_layers];
		l->states = poisoned(lim->n_states, l->n, sizeof(float));
		p->base.cell_bytes[BE_STATES] += l->n * sizeof(float);
		ok = l->states;
	}
	for (size_t g = 0; g <= BE_STATES; g++)
		ok = ok && room_grow(p, CELL, p->base.cell_bytes[g], 1);
	return ok;
}

static bool open_rooms(struct plain *p, const struct be_limits *lim)
{
	bool ok = room_grow(p, CHOSEN, lim->n_expert_used, sizeof(int32_t)) &&
			room_grow(p, CHOSEN_BY, lim->n_expert_used, sizeof(float)) &&
			room_grow(p, ONES, lim->n_ff_max, sizeof(float));

	for (size_t i = 0; ok && i < p->w->source.n; i++) {
		const struct model_weight *w = &p->w->source.weights[i];
		ok = !w->product || (room_grow(p, ROUNDED, lim->n_rows_max * w->k, sizeof(float)) &&
				room_grow(p, SCRATCH, KERN_MM_SCRATCH_BYTES(w->k), 1) &&
				room_grow(p, WIDE, w->n_rows, sizeof(float)));
	}
	for (size_t i = 0; ok && i < lim->n_ropes; i++)
		ok = room_grow(p, ANGLES, lim->ropes[i].n_rot, sizeof(float));
	for (size_t i = 0; ok && i < lim->n_ff_max; i++)
		((float *)p->room[ONES])[i] = 1.0f;
	for (size_t i = 0; ok && i < lim->n_base; i++)
		ok = lora_reserve(&p->base, lim->base[i].loras);
	return ok;
}

static struct be *plain_open(struct be_weights *weights, const struct be_limits *lim)
{
	struct plain *p = mem_zalloc(1, sizeof *p);

	if (!p)
		return NULL;
	p->base.ops = &be_plain;
	p->w = (struct plain_weights *)weights;
	p->kern = kern_get(0);
	p->bad = -1;
	p->ropes = lim->ropes;
	p->base_loras = lim->base;
	p->n_base_loras = lim->n_base;
	if (open_cache(p, lim) && open_rooms(p, lim))
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
		buf_free(&b->base);
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
	p->rows = op->d.rows;
	p->narrowed = NULL;
}

static void run_narrow(struct plain *p, const struct op *op)
{
	p->narrowed = op->rows;
}

static void read_row(const struct plain *p, const struct model_weight *w, size_t r, float *out)
{
	quant_format_get(w->type)->to_f32(matrix_row(matrix_of(p, w), r), out, w->k);
}

static void run_embed(struct plain *p, const struct op *op)
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
}

/* ---- Rows: norms and residuals ---- */

/* x += a bias, which may be NULL; row `at` of it. */
static void add_bias(const struct plain *p, const struct model_weight *bias, size_t at, float *x, size_t n)
{
	if (bias)
		p->kern->add(x, floats(p, bias) + at * n, n);
}

/* at: the row of weights, of norms with one for each head. */
static void norm_row(const struct plain *p, const struct be_norm *norm, size_t at, const float *x, size_t n, float *out)
{
	const float *w = floats(p, norm->w) + at * n;

	if (norm->layer_norm)
		p->kern->layer_norm(x, w, floats(p, norm->b), n, norm->eps, out);
	else
		p->kern->rms_norm(x, w, n, norm->eps, out);
}

static void run_add_norm(struct plain *p, const struct op *op)
{
	const struct be_add_norm *a = &op->d.add_norm;
	const size_t k = a->x->n_cols;

	for (size_t r = 0; r < op->n; r++) {
		float *x = row_of(a->x, r);
		for (const struct be_sum *s = a->add; s < a->add + 2; s++) {
			if (!s->b)
				continue;
			float *b = row_of(s->b, r);
			add_bias(p, s->bias, 0, b, k);
			if (s->post.w)
				norm_row(p, &s->post, 0, b, k, b);
			p->kern->scale(b, s->scale, k);
			p->kern->add(x, b, k);
		}
		if (a->norm.w)
			norm_row(p, &a->norm, 0, x, k, row_of(a->out, r));
	}
}

/* ---- Rows: products, and what adapters add to them ---- */

/* n rows from x on, x_n floats apart, times the rows of the share: their columns of out, whose rows are out_n apart.
 * Kernels want rows in the file's order, so they get one at a time. */
static void product(const struct plain *p, const struct model_weight *w, const struct matrix *m, const float *x,
		size_t x_n, size_t n, float *out, size_t out_n)
{
	const enum quant_act kind = quant_format_get(w->type)->act;
	struct kern_mm mm = {.n_rows = 1, .k = w->k, .n_cols = n, .out_ld = out_n, .scratch = p->room[SCRATCH]};

	mm.act = p->room[ROUNDED];
	mm.act_bytes = kern_act_bytes(kind, w->k);
	for (size_t i = 0; i < n; i++)
		p->kern->act[kind](x + i * x_n, w->k, (uint8_t *)p->room[ROUNDED] + i * mm.act_bytes);
	for (size_t r = m->share.from; r < m->share.to; r++) {
		mm.w = matrix_row(m, r);
		mm.out = out + r;
		p->kern->file[w->type].mm(&mm, 0, 1);
	}
}

/* y += scale b (a x), in the columns of the share. */
static void add_lora(const struct plain *p, const struct be_lora *use, const struct model_weight *w, const float *x,
		float *y)
{
	const struct model_lora *pair = &use->loras->of[w->index];
	const struct be_range share = matrix_of(p, w)->share;
	float *narrow = p->room[NARROW], *wide = p->room[WIDE];

	if (!pair->a)
		return;
	const struct matrix *ab = lora_find(p, use->loras)->pairs[w->index];
	product(p, pair->a, &ab[0], x, w->k, 1, narrow, pair->a->n_rows);
	p->kern->scale(narrow, pair->scale * use->scale, pair->a->n_rows);
	product(p, &pair->b, &ab[1], narrow, pair->a->n_rows, 1, wide, w->n_rows);
	p->kern->add(y + share.from, wide + share.from, share.to - share.from);
}

/* Adapters of the model come first, in their order, then the row's own. */
static void run_matmul(struct plain *p, const struct op *op)
{
	for (size_t i = 0; i < 3 && op->w[i]; i++) {
		float *out = row_of(op->out[i], op->row), *x = row_of(op->x[0], 0);
		const size_t x_n = op->x[0]->n_cols, out_n = op->out[i]->n_cols;
		product(p, op->w[i], matrix_of(p, op->w[i]), x, x_n, op->n, out, out_n);
		for (size_t r = 0; r < op->n; r++) {
			const struct be_lora *own = p->rows.lora;
			for (size_t b = 0; b < p->n_base_loras; b++)
				add_lora(p, &p->base_loras[b], op->w[i], x + r * x_n, out + r * out_n);
			own = own ? own + (p->narrowed ? (size_t)p->narrowed[r] : r) : NULL;
			if (own && own->loras)
				add_lora(p, own, op->w[i], x + r * x_n, out + r * out_n);
		}
	}
}

/* ---- Rows: cache and attention ---- */

static uint8_t *area_at(const struct plain *p, const struct layer *l, size_t head, int32_t block)
{
	return l->areas + (head * p->n_blocks[l->shape.group] + (size_t)block) * l->area_bytes;
}

static void rotate(const struct plain *p, int rope, float *x)
{
	const struct be_rope *r = &p->ropes[rope];
	const float *angles = p->room[ANGLES];

	p->kern->rope(x, r->n_rot, angles, angles + r->n_rot / 2, r->halves);
}

static void clamp(float *x, float most, size_t n)
{
	for (size_t i = 0; most != 0.0f && i < n; i++) {
		x[i] = x[i] > most ? most : x[i];
		x[i] = x[i] < -most ? -most : x[i];
	}
}

/* A row of q or k. Angles are those of its position. */
static void finish_heads(const struct plain *p, const struct be_qkv *d, const struct model_weight *bias,
		const struct be_norm *norm, float *x, size_t n_heads, size_t head)
{
	const bool each = norm->w && norm->w->k == head;

	add_bias(p, bias, 0, x, n_heads * head);
	clamp(x, d->clamp, n_heads * head);
	if (norm->w && !each)
		norm_row(p, norm, 0, x, n_heads * head, x);
	for (size_t h = 0; h < n_heads; h++, x += head) {
		if (each)
			norm_row(p, norm, norm->w->n_rows > 1 ? h : 0, x, head, x);
		if (d->rope >= 0)
			rotate(p, d->rope, x);
	}
}

static void run_qkv_store(struct plain *p, const struct op *op)
{
	const struct be_qkv *d = &op->d.qkv;
	const struct layer *l = &p->layers[d->layer];
	const struct be_cell_layer *s = &l->shape;
	const struct be_cells *cells = &p->rows.cells[s->group];
	const size_t v_n = op->out[2]->n_cols;

	for (size_t r = 0; r < p->rows.n; r++) {
		const cohort_pos pos = p->rows.pos[r];
		float *q = row_of(op->out[0], r), *v = row_of(op->out[2], r);
		if (d->rope >= 0)
			be_rope_angles(&p->ropes[d->rope], pos, p->ropes[d->rope].scale, p->room[ANGLES]);
		finish_heads(p, d, d->bq, &d->q_norm, q, s->n_q, s->head_k);
		finish_heads(p, d, d->bk, &d->k_norm, row_of(op->out[1], r), s->n_kv, s->head_k);
		p->kern->scale(q, be_query_scale(d, pos), op->out[0]->n_cols);
		add_bias(p, d->bv, 0, v, v_n);
		clamp(v, d->clamp, v_n);
	}
	for (const struct be_store *to = cells->stores; to < cells->stores + cells->n_stores; to++) {
		const float *k = row_of(op->out[1], (size_t)to->row), *v = row_of(op->out[2], (size_t)to->row);
		for (size_t h = 0; h < s->n_kv; h++) {
			uint8_t *area = area_at(p, l, h, to->block);
			p->kern->put_k[p->kv_type](k + h * s->head_k, s->head_k, (size_t)to->slot, area);
			p->kern->put_v[p->kv_type](v + h * s->head_v, s->head_v, (size_t)to->slot, area + l->k_bytes);
		}
	}
}

/* Positions count from the first entry of the row's table. */
static void run_attention(struct plain *p, const struct op *op)
{
	const struct be_attend *d = &op->d.attend;
	const struct layer *l = &p->layers[d->layer];
	const struct be_cell_layer *s = &l->shape;
	const struct be_cells *c = &p->rows.cells[s->group];
	const size_t n = s->n_q / s->n_kv, window = p->window[s->group];
	struct kern_attn a = {.n_q = n, .head_k = s->head_k, .head_v = s->head_v, .block_bytes = l->area_bytes};

	a.v_offset = l->k_bytes;
	a.cap = d->cap;
	for (size_t i = 0; i < op->n; i++) {
		const size_t r = op->rows ? (size_t)op->rows[i] : i, base = (size_t)c->base[r];
		a.pos = (size_t)p->rows.pos[r] - base;
		a.pos0 = (size_t)c->first[r] - base;
		a.pos1 = (size_t)p->rows.end[r] - base;
		if (window && a.pos + 1 > a.pos0 + window)
			a.pos0 = a.pos + 1 - window;
		if (window && a.pos1 > a.pos + window)
			a.pos1 = a.pos + window;
		a.table = c->blocks + c->table[r];
		a.held = c->gaps[r] ? c->held + c->table[r] : NULL;
		for (size_t h = 0; h < s->n_kv; h++) {
			a.kv = area_at(p, l, h, 0);
			a.q = row_of(op->x[0], r) + h * n * s->head_k;
			a.out = row_of(op->out[0], i) + h * n * s->head_v;
			a.slopes = d->slopes ? d->slopes + h * n : NULL;
			a.sinks = d->sinks ? floats(p, d->sinks) + h * n : NULL;
			kern_attn(p->kern, p->kv_type, &a, 1, p->room[SCRATCH]);
		}
	}
}

/* ---- Rows: feed-forward and experts ---- */

/* gate = act(gate) * up, after biases, which have a row per expert. */
static void glu_row(const struct plain *p, const struct be_ffn *f, size_t expert, float *gate, float *up, size_t n)
{
	add_bias(p, f->up_b, expert, f->gate ? up : gate, n);
	add_bias(p, f->gate_b, expert, gate, n);
	switch (f->act) {
	case BE_SILU: p->kern->silu_mul(gate, up, n, gate); break;
	case BE_GELU: p->kern->gelu_mul(gate, up, n, gate); break;
	case BE_SWIGLU_OAI: p->kern->swiglu_oai(gate, up, n, gate); break;
	}
}

static void run_glu(struct plain *p, const struct op *op)
{
	for (size_t r = 0; r < op->n; r++) {
		float *up = row_of(op->out[1], r);
		glu_row(p, &op->d.ffn, 0, op->out[0] ? row_of(op->out[0], r) : up, op->out[0] ? up : p->room[ONES],
				op->out[1]->n_cols);
	}
}

/* x by expert e, to `down`. */
static void expert_row(const struct plain *p, const struct be_ffn *f, size_t e, const float *x, size_t n_embd,
		float *gate, float *up, size_t n_ff, float *down)
{
	product(p, f->gate + e, matrix_of(p, f->gate + e), x, n_embd, 1, gate, n_ff);
	product(p, f->up + e, matrix_of(p, f->up + e), x, n_embd, 1, up, n_ff);
	glu_row(p, f, e, gate, up, n_ff);
	product(p, f->down + e, matrix_of(p, f->down + e), gate, n_ff, 1, down, n_embd);
	add_bias(p, f->down_b, e, down, n_embd);
}

static void run_experts(struct plain *p, const struct op *op)
{
	const struct be_experts *d = &op->d.experts;
	struct be_buf *const route = op->out[1], *const gate = op->out[2], *const up = op->out[3];
	const size_t n = op->out[0]->n_cols;
	int32_t *chosen = p->room[CHOSEN];
	float *by = p->room[CHOSEN_BY];

	for (size_t r = 0; r < op->n; r++) {
		float *out = row_of(op->out[0], r);
		add_bias(p, d->router_b, 0, row_of(route, r), d->n);
		be_choose(d, row_of(route, r), chosen, by);
		for (size_t u = 0; u < d->n_used; u++) {
			const size_t at = r * d->n_used + u;
			float *down = row_of(op->out[4], at);
			expert_row(p, &d->ffn, (size_t)chosen[u], row_of(op->x[0], r), n, row_of(gate, at),
					row_of(up, at), up->n_cols, down);
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
	const struct be_buf *x = op->x[0];
	const size_t n = op->out[0]->n_cols;

	for (size_t r = 0; r < op->n; r++) {
		float *b = row_of(op->out[1], r), lane[8] = {0};
		for (size_t i = 0; op->w[0] && i < x->n_cols; i++)
			lane[i % 8] = fmaf(floats(p, op->w[0])[i], row_of(x, r)[i], lane[i % 8]);
		if (op->w[0])
			p->kern->scale(b, 1.0f / (1.0f + kern_exp(-kern_tree8(lane))), n);
		p->kern->add(row_of(op->out[0], r), b, n);
	}
}

/* ---- Rows: recurrent layers ---- */

static void run_conv(struct plain *p, const struct op *op)
{
	const struct be_conv *d = &op->d.conv;
	const struct state_layer *l = &p->state_layers[d->layer];
	const struct kern_conv conv = {.n_rows = p->rows.n, .n = d->n, .d_conv = d->width,
			.from = p->rows.state_from, .to = p->rows.state_to, .states = l->states + d->at, .state_n = l->n,
			.w = floats(p, d->w), .bias = floats(p, d->b), .x = row_of(op->out[0], 0)};
	p->kern->conv(&conv, 0, d->n);
}

static void run_scan(struct plain *p, const struct op *op)
{
	const struct be_scan *d = &op->d.scan;
	const struct state_layer *l = &p->state_layers[d->layer];
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
	const struct be_logits *d = &op->d.logits;
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
			p->bad = op->rows ? op->rows[i] : (int64_t)i;
}

/* Rows x_row + i, or rows[i], to rows `row` + i; `set` false: added to what is there. */
static void run_copy(struct plain *p, const struct op *op)
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
}

static void run_row_div(struct plain *p, const struct op *op)
{
	float *x = row_of(op->out[0], op->row);

	(void)p;
	for (size_t i = 0; i < op->out[0]->n_cols; i++)
		x[i] = x[i] / (float)op->n;
}

/* ---- Cells and states ---- */

static void touch(struct be *be)
{
	(void)be;
}

/* One state from `bytes` where `store`, otherwise to there. */
static void state_pass(const struct plain *p, int32_t state, uint8_t *bytes, bool store)
{
	for (const struct state_layer *l = p->state_layers; l < p->state_layers + p->n_state_layers; l++) {
		void *at = l->states + (size_t)state * l->n;
		memcpy(store ? at : bytes, store ? bytes : at, l->n * sizeof(float));
		bytes += l->n * sizeof(float);
	}
}

/* One cell or state; of a failing operation, NaN. */
static void cell_pass(const struct plain *p, size_t group, int32_t block, int32_t slot, uint8_t *bytes, bool store)
{
	if (store && p->spoil)
		bytes = memset(p->room[CELL], POISON, p->base.cell_bytes[group]);
	if (group == BE_STATES)
		state_pass(p, block, bytes, store);
	for (const struct layer *l = p->layers; l < p->layers + p->n_layers; l++)
		for (size_t h = 0; l->shape.group == group && h < l->shape.n_kv; h++) {
			uint8_t *k = area_at(p, l, h, block), *v = k + l->k_bytes, *v_bytes = bytes + l->k_cell;
			if (store) {
				kern_k_cell_write(p->kv_type, l->shape.head_k, k, (size_t)slot, bytes);
				kern_v_cell_write(p->kv_type, l->shape.head_v, v, (size_t)slot, v_bytes);
			} else {
				kern_k_cell_read(p->kv_type, l->shape.head_k, k, (size_t)slot, bytes);
				kern_v_cell_read(p->kv_type, l->shape.head_v, v, (size_t)slot, v_bytes);
			}
			bytes = v_bytes + l->v_cell;
		}
}

static void span_pass(const struct plain *p, size_t group, const struct be_span *s, uint8_t *bytes, size_t step,
		bool store)
{
	for (int32_t i = 0; i < s->n; i++)
		cell_pass(p, group, s->block, s->slot + i, bytes + (size_t)i * step, store);
}

/* Keys of a cell are read as attention sees them, rotated and rounded again. */
static void shift_keys(const struct plain *p, const struct layer *l, const struct be_move *m, size_t slot)
{
	float *x = p->room[WIDE];

	be_rope_angles(&p->ropes[l->shape.rope], m->shift, 1.0f, p->room[ANGLES]);
	for (size_t h = 0; h < l->shape.n_kv; h++) {
		uint8_t *area = area_at(p, l, h, m->to);
		p->kern->get_k[p->kv_type](area, l->shape.head_k, slot, x);
		rotate(p, l->shape.rope, x);
		p->kern->put_k[p->kv_type](x, l->shape.head_k, slot, area);
	}
}

static void run_cells_move(struct plain *p, const struct op *op)
{
	const struct be_move *m = &op->d.move;

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
		enqueue(be, &(struct op){.run = run_cells_move, .group = group, .d.move = moves[i]});
}

static void cells_read(struct be *be, size_t group, const struct be_span *spans, size_t n, void *out, size_t step)
{
	uint8_t *bytes = out;

	if (!transfer((struct plain *)be))
		return;
	for (size_t i = 0; i < n; bytes += (size_t)spans[i++].n * step)
		span_pass((struct plain *)be, group, &spans[i], bytes, step, false);
}

static void run_cells_write(struct plain *p, const struct op *op)
{
	span_pass(p, op->group, &op->d.span, (uint8_t *)op->bytes, op->step, true);
}

static void cells_write(struct be *be, size_t group, const struct be_span *spans, size_t n, const void *in, size_t step)
{
	struct op op = {.run = run_cells_write, .group = group, .bytes = in, .step = step};

	for (size_t i = 0; i < n; i++) {
		op.d.span = spans[i];
		enqueue(be, &op);
		op.bytes = (const uint8_t *)op.bytes + (size_t)spans[i].n * step;
	}
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

/* QUEUED(name, its parameters, the instance, fields of the struct op) */
#define QUEUED(name, parameters, be, ...) \
	static void name parameters \
	{ \
		enqueue(be, &(struct op){.run = run_##name, __VA_ARGS__}); \
	}
#define BUF struct be_buf *
#define X const struct be_buf *
#define ROWS const int32_t *

QUEUED(upload, (BUF b, const float *rows, size_t n), b->be, .out = {b}, .bytes = rows, .n = n)
QUEUED(begin, (struct be *be, const struct be_rows *rows), be, .d.rows = *rows)
QUEUED(narrow, (struct be *be, ROWS rows, size_t n), be, .rows = rows, .n = n)
QUEUED(embed, (BUF out, BUF work, const struct be_embed *e), out->be, .out = {out, work}, .d.embed = *e)
QUEUED(add_norm, (const struct be_add_norm *a, size_t n), a->x->be,
		.out = {a->x, a->norm.w ? a->out : NULL, a->add[0].b, a->add[1].b}, .d.add_norm = *a, .n = n)
QUEUED(qkv_store, (BUF q, BUF k, BUF v, const struct be_qkv *d), q->be, .out = {q, k, v}, .d.qkv = *d)
QUEUED(attention, (BUF out, X q, const struct be_attend *d, ROWS rows, size_t n), out->be,
		.out = {out}, .x = {q}, .d.attend = *d, .rows = rows, .n = n)
QUEUED(glu, (BUF gate, BUF up, const struct be_ffn *f, size_t n), up->be,
		.out = {f->gate ? gate : NULL, up}, .d.ffn = *f, .n = n)
QUEUED(experts, (BUF out, X x, const struct be_experts *d, const struct be_expert_bufs *b, size_t n), out->be,
		.out = {out, b->route, b->gate, b->up, b->down}, .x = {x}, .d.experts = *d, .n = n)
QUEUED(add_gated, (BUF out, BUF b, X x, const struct model_weight *w, size_t n), out->be,
		.out = {out, b}, .x = {x}, .w = {w}, .n = n)
QUEUED(conv, (BUF x, const struct be_conv *d), x->be, .out = {x}, .d.conv = *d)
QUEUED(scan, (BUF x, X dt, X b, X c, X z, const struct be_scan *d), x->be,
		.out = {x}, .x = {dt, b, c, z}, .d.scan = *d)
QUEUED(logits, (BUF x, size_t row, size_t n, const struct be_logits *d), x->be,
		.out = {x}, .row = row, .n = n, .d.logits = *d)
QUEUED(check, (X x, size_t row, size_t n, ROWS names), x->be, .x = {x}, .row = row, .n = n, .rows = names)
QUEUED(copy, (BUF out, size_t row, X x, ROWS rows, size_t n), out->be,
		.out = {out}, .row = row, .x = {x}, .rows = rows, .n = n, .set = true)
#define run_row_add run_copy
QUEUED(row_add, (BUF out, size_t row, X x, size_t x_row, bool set), out->be,
		.out = {out}, .row = row, .x = {x}, .x_row = x_row, .n = 1, .set = set)
QUEUED(row_div, (BUF out, size_t row, size_t n), out->be, .out = {out}, .row = row, .n = n)

/* ---- The table ---- */

const struct be_ops be_plain = {
		.name = "plain",
		.device_name = device_name, .device_get = device_get,
		.level_count = level_count, .level_name = level_name, .level_usable = level_usable,
		.level_failed = level_failed, .level_best = level_best,
		.weights_open = weights_open, .weights_lock = weights_lock, .weights_free = weights_free,
		.weight_sum = weight_sum, .repack = repack,
		.open = plain_open, .free = plain_free, .buf_open = buf_open, .buf_free = buf_free,
		.lora_reserve = lora_reserve,
		.wait = plain_wait, .outputs = outputs, .upload = upload,
		.begin = begin, .narrow = narrow, .embed = embed, .add_norm = add_norm, .matmul = matmul,
		.qkv_store = qkv_store, .attention = attention, .glu = glu, .experts = experts, .add_gated = add_gated,
		.conv = conv, .scan = scan, .logits = logits, .check = check, .copy = copy, .row_add = row_add,
		.row_div = row_div,
		.touch = touch, .cells_move = cells_move, .cells_read = cells_read, .cells_write = cells_write,
};

void plain_register(void)
{
	static bool done;

	if (!done)
		done = be_register(&be_plain);
}
