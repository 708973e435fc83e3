/* The CPU backend: each operation is a parallel-for over kernels.
 *
 * Invariants
 *  1. Every output number is computed by exactly one thread, whole: the number of threads cannot change a bit.
 *  2. Nothing is allocated after open and buf_open.
 *  3. K and V reach attention only through the cache, rounded to its type, for rows of the same ubatch too.
 *  4. `rounded` names the buffer whose rows, as they are now, lie quantized in `act`; an operation that writes the
 *     buffer otherwise clears it.
 *  5. Operations have run when they return, and none fails.
 * The cache and attention are in cpu_kv.c. */
#include "backend/cpu.h"

#include "base/cpus.h"
#include "base/mem.h"

#include <math.h>
#include <string.h>

static size_t max_size(size_t a, size_t b)
{
	return a > b ? a : b;
}

/* ---- Devices and levels ---- */

static const char *cpu_device_name(size_t i)
{
	return i == 0 ? "cpu" : NULL;
}

static void cpu_device_get(size_t i, struct be_device *out)
{
	*out = (struct be_device){.total_bytes = 0};
	if (i == 0)
		cpus_describe(out->description, sizeof out->description, &out->total_bytes, &out->free_bytes);
}

/* ---- Opening ---- */

static void cpu_free(struct be *be)
{
	struct cpu *c = (struct cpu *)be;

	if (c) {
		pool_free(c->pool);
		cpu_kv_release(c);
		cpu_lora_release(c);
		mem_free_aligned(c->act);
		mem_free_aligned(c->rope);
		mem_free_aligned(c->ones);
		mem_free_aligned(c->states);
		mem_free(c->state_at);
		mem_free_aligned(c->scratch);
		mem_free(c->routes);
		mem_free(c->mms);
		mem_free(c);
	}
}

/* Room for the rows that are packed only when they are used, in front of what the product itself needs. */
static size_t loose_bytes(const struct kern_mat *mat, size_t k)
{
	return (mat->packed_bytes(CPU_MM_UNIT, k) + 63) & ~(size_t)63;
}

static size_t scratch_bytes(const struct cpu_weights *w, const struct be_limits *lim, size_t k_max)
{
	size_t n = 0;

	for (size_t i = 0; i < w->source.n; i++)
		if (w->w[i].loose)
			n = max_size(n, loose_bytes(w->w[i].mat, w->w[i].mw.k));
	n += KERN_MM_SCRATCH_BYTES(k_max);
	n = max_size(n, cpu_kv_scratch_bytes(lim));
	return (n + 4095) & ~(size_t)4095;
}

static struct be *cpu_open(struct be_weights *weights, const struct be_limits *lim)
{
	struct cpu_weights *w = (struct cpu_weights *)weights;
	size_t k_max = 0, n_act = lim->n_rows_max, act_bytes, all_scratch;
	struct cpu *c = mem_zalloc(1, sizeof *c);

	if (!c)
		return NULL;
	c->base.ops = &be_cpu;
	c->w = w;
	c->kern = w->kern;
	c->n_rows_max = lim->n_rows_max;
	c->n_expert_used = lim->n_expert_used;
	c->ropes = lim->ropes;
	c->n_ropes = lim->n_ropes;
	c->bad = -1;
	for (size_t i = 0; i < lim->n_ropes; i++)
		c->n_rot = max_size(c->n_rot, lim->ropes[i].n_rot);
	for (size_t i = 0; i < w->source.n; i++)
		if (w->w[i].held && w->w[i].mw.product)
			k_max = max_size(k_max, w->w[i].mw.k);
	c->act_bytes = k_max * sizeof(float); /* the widest kind */
	c->scratch_bytes = scratch_bytes(w, lim, k_max);
	if ((lim->n_expert && !size_mul(n_act, lim->n_expert_used, &n_act)) ||
			!size_mul(c->act_bytes, n_act, &act_bytes) ||
			!size_mul(c->scratch_bytes, lim->n_threads, &all_scratch))
		goto fail;
	if (lim->n_expert) {
		c->routes = mem_zalloc(n_act, sizeof *c->routes);
		c->mms = mem_zalloc(2 * lim->n_expert, sizeof *c->mms);
		if (!c->routes || !c->mms)
			goto fail;
	}
	const size_t rope_rows = lim->n_ropes * (lim->n_rows_max + 1); /* one more: a shift's */
	c->act = mem_zalloc_aligned(act_bytes, 1);
	c->rope = mem_zalloc_aligned(rope_rows * c->n_rot, sizeof(float));
	c->ones = mem_zalloc_aligned(lim->n_ff_max ? lim->n_ff_max : 1, sizeof(float));
	c->scratch = mem_zalloc_aligned(all_scratch, 1);
	c->pool = pool_open(lim->n_threads);
	if (!c->act || !c->rope || !c->ones || !c->scratch || !c->pool || !cpu_kv_init(c, lim) ||
			!cpu_state_init(c, lim) || !cpu_lora_init(c, lim))
		goto fail;
	c->shift_rope = c->rope + lim->n_ropes * lim->n_rows_max * c->n_rot;
	for (size_t i = 0; i < lim->n_ff_max; i++)
		c->ones[i] = 1.0f;
	return &c->base;
fail:
	cpu_free(&c->base);
	return NULL;
}

static struct be_buf *cpu_buf_open(struct be *be, size_t n_rows, size_t n_cols)
{
	size_t n;
	struct cpu_buf *b = mem_zalloc(1, sizeof *b);

	if (!b || !size_mul(n_rows, n_cols, &n) || !(b->f = mem_zalloc_aligned(n, sizeof *b->f))) {
		mem_free(b);
		return NULL;
	}
	b->base = (struct be_buf){be, n_rows, n_cols};
	return &b->base;
}

static void cpu_buf_free(struct be_buf *buf)
{
	struct cpu_buf *b = (struct cpu_buf *)buf;

	if (b) {
		mem_free_aligned(b->f);
		mem_free(b);
	}
}

/* ---- Waiting: all has run already ---- */

static enum cohort_status cpu_wait(struct be *be, int64_t *bad, struct cohort_err *err)
{
	struct cpu *c = (struct cpu *)be;

	(void)err;
	*bad = c->bad;
	c->bad = -1;
	return COHORT_OK;
}

static const float *cpu_outputs(struct be_buf *b, size_t n)
{
	(void)n;
	return ((struct cpu_buf *)b)->f;
}

static void written(struct cpu *c, const struct be_buf *b)
{
	if (c->rounded == (const struct cpu_buf *)b)
		c->rounded = NULL;
}

static void cpu_upload(struct be_buf *b, const float *rows, size_t n)
{
	written(cpu_of(b), b);
	memcpy(((struct cpu_buf *)b)->f, rows, n * b->n_cols * sizeof *rows);
}

/* ---- Row-wise operations: each thread takes a run of rows ---- */

struct row_run {
	void (*run)(const void *job, size_t row);
	const void *job;
};

static void row_share(void *arg, size_t from, size_t to, size_t thread)
{
	const struct row_run *j = arg;
	(void)thread;
	for (size_t r = from; r < to; r++)
		j->run(j->job, r);
}

void cpu_run_rows(struct cpu *c, size_t n, size_t k, void (*run)(const void *job, size_t row), const void *job)
{
	if (n * k <= CPU_SERIAL_MAX)
		for (size_t r = 0; r < n; r++)
			run(job, r);
	else
		pool_run(c->pool, n, 1, row_share, &(struct row_run){run, job});
}

static float *row_of(const struct be_buf *b, size_t r)
{
	return ((const struct cpu_buf *)b)->f + r * b->n_cols;
}

/* How a step quantizes the rows it has; F32: not at all. */
struct rounding {
	struct cpu *c;
	enum quant_act act;
};

static struct rounding rounding_for(struct cpu *c, const struct model_weight *next)
{
	return (struct rounding){c, next ? quant_format_get(next->type)->act : QUANT_ACT_F32};
}

static void round_row(const struct rounding *q, const float *x, size_t k, size_t r)
{
	if (q->act != QUANT_ACT_F32)
		q->c->kern->act[q->act](x, k, q->c->act + r * q->c->act_bytes);
}

/* The rows of b lie quantized in `act` now. */
static void rounded(const struct rounding *q, const struct be_buf *b)
{
	q->c->rounded = q->act == QUANT_ACT_F32 ? NULL : (const struct cpu_buf *)b;
	q->c->rounded_kind = q->act;
}

/* ---- The rows at hand ---- */

static void rope_row(const void *job, size_t r)
{
	const struct cpu *c = job;

	for (size_t i = 0; i < c->n_ropes; i++)
		if (c->ropes[i].freqs)
			be_rope_angles(&c->ropes[i], c->rows->pos[r], c->ropes[i].scale,
					c->rope + (i * c->n_rows_max + r) * c->n_rot);
}

/* Until when a ubatch may pack what it uses: the first token after a start waits for little of it, and the next ones,
 * all of which are slow until it is done, for more. In time of this thread: on a busy machine all takes longer, and
 * smaller pieces would only mean more slow tokens. */
static double pack_until(struct cpu *c)
{
	const double seconds = c->begun ? 2.0 : 0.5;

	c->begun = true;
	return atomic_load(&c->w->n_left) ? clock_busy() + seconds : 0;
}

static void cpu_begin(struct be *be, const struct be_rows *rows)
{
	struct cpu *c = (struct cpu *)be;

	c->rows = rows;
	c->rounded = NULL;
	c->pack_until = pack_until(c);
	cpu_lora_begin(c, NULL, rows->n);
	if (c->n_rot)
		cpu_run_rows(c, rows->n, c->n_rot * 16, rope_row, c);
}

static void cpu_narrow(struct be *be, const int32_t *rows, size_t n)
{
	cpu_lora_begin((struct cpu *)be, rows, n);
}

/* ---- Embedding ---- */

/* Row i of a matrix as floats. */
static void read_row(const struct model_weight *w, size_t i, float *out)
{
	quant_format_get(w->type)->to_f32((const uint8_t *)w->data + i * w->row_bytes, out, w->k);
}

struct embed_job {
	const struct cpu *c;
	struct be_buf *out, *work;
	const struct be_embed *e;
};

static void embed_row(const void *job, size_t r)
{
	const struct embed_job *j = job;
	const struct kern *kern = j->c->kern;
	const struct be_rows *rows = j->c->rows;
	const size_t k = j->out->n_cols;
	float *out = row_of(j->out, r);

	if (rows->tokens) {
		read_row(j->e->tokens, (size_t)rows->tokens[r], out);
		if (j->e->scale != 1.0f)
			kern->scale(out, j->e->scale, k);
	} else {
		memcpy(out, rows->embd + r * k, k * sizeof *out);
	}
	if (j->e->types) {
		read_row(j->e->types, 0, row_of(j->work, r));
		kern->add(out, row_of(j->work, r), k);
	}
	if (j->e->positions) {
		read_row(j->e->positions, (size_t)rows->pos[r], row_of(j->work, r));
		kern->add(out, row_of(j->work, r), k);
	}
}

static void cpu_embed(struct be_buf *out, struct be_buf *work, const struct be_embed *e)
{
	struct cpu *c = cpu_of(out);

	written(c, out);
	cpu_run_rows(c, c->rows->n, out->n_cols, embed_row, &(struct embed_job){c, out, work, e});
}

/* ---- Norms ---- */

void cpu_norm_row(const struct cpu *c, const struct be_norm *norm, const float *x, size_t n, float *out)
{
	const float *w = norm->w->data;

	if (norm->layer_norm)
		c->kern->layer_norm(x, w, norm->b ? norm->b->data : NULL, n, norm->eps, out);
	else
		c->kern->rms_norm(x, w, n, norm->eps, out);
}

/* x += b; b may get its bias, be normed and be scaled first. */
static void sum_row(const struct cpu *c, const struct be_sum *s, float *x, size_t k, size_t r)
{
	float *b = row_of(s->b, r);

	if (s->bias)
		c->kern->add(b, s->bias->data, k);
	if (s->post.w)
		cpu_norm_row(c, &s->post, b, k, b);
	if (s->scale != 1.0f)
		c->kern->scale(b, s->scale, k);
	c->kern->add(x, b, k);
}

struct norm_job {
	struct rounding q;
	const struct be_add_norm *a;
};

static void norm_row(const void *job, size_t r)
{
	const struct norm_job *j = job;
	const struct be_add_norm *a = j->a;
	const size_t k = a->x->n_cols;
	float *x = row_of(a->x, r), *out = a->norm.w ? row_of(a->out, r) : x;

	for (size_t i = 0; i < 2; i++)
		if (a->add[i].b)
			sum_row(j->q.c, &a->add[i], x, k, r);
	if (a->norm.w)
		cpu_norm_row(j->q.c, &a->norm, x, k, out);
	round_row(&j->q, out, k, r);
}

static void cpu_add_norm(const struct be_add_norm *a, size_t n)
{
	struct cpu *c = cpu_of(a->x);
	const struct norm_job j = {rounding_for(c, a->next), a};

	cpu_run_rows(c, n, a->x->n_cols, norm_row, &j);
	rounded(&j.q, a->norm.w ? a->out : a->x);
}

/* ---- Feed-forward ---- */

struct glu_job {
	struct rounding q;
	struct be_buf *out, *up;
	const struct be_ffn *f;
};

static void glu_row(const void *job, size_t r)
{
	const struct glu_job *j = job;
	const struct cpu *c = j->q.c;
	const struct be_ffn *f = j->f;
	const size_t k = j->out->n_cols;
	float *up = row_of(j->up, r), *out = row_of(j->out, r);

	if (f->up_b)
		c->kern->add(up, f->up_b->data, k);
	if (f->gate_b)
		c->kern->add(out, f->gate_b->data, k);
	cpu_act_row(c, f->act, out, f->gate ? up : c->ones, k);
	round_row(&j->q, out, k, r);
}

void cpu_act_row(const struct cpu *c, enum be_act act, float *gate, const float *up, size_t n)
{
	switch (act) {
	case BE_SILU: c->kern->silu_mul(gate, up, n, gate); break;
	case BE_GELU: c->kern->gelu_mul(gate, up, n, gate); break;
	case BE_SWIGLU_OAI: c->kern->swiglu_oai(gate, up, n, gate); break;
	}
}

static void cpu_glu(struct be_buf *gate, struct be_buf *up, const struct be_ffn *f, size_t n)
{
	struct cpu *c = cpu_of(up);
	struct be_buf *out = f->gate ? gate : up;
	const struct glu_job j = {rounding_for(c, f->down), out, up, f};

	cpu_run_rows(c, n, out->n_cols, glu_row, &j);
	rounded(&j.q, out);
}

/* ---- Outputs ---- */

struct logits_job {
	const struct cpu *c;
	struct be_buf *x;
	size_t row;
	const struct be_logits *d;
};

static void logits_row(const void *job, size_t r)
{
	const struct logits_job *j = job;
	const struct kern *kern = j->c->kern;
	const size_t k = j->x->n_cols;
	float *x = row_of(j->x, j->row + r);

	if (j->d->b)
		kern->add(x, j->d->b->data, k);
	if (j->d->scale != 1.0f)
		kern->scale(x, j->d->scale, k);
	if (j->d->cap != 0.0f) {
		const bool good = kern->all_finite(x, k);
		kern->softcap(x, j->d->cap, k);
		if (!good) /* the cap makes a number of what was infinite */
			x[0] = NAN;
	}
}

static void cpu_logits(struct be_buf *x, size_t row, size_t n, const struct be_logits *d, const int32_t *names)
{
	struct cpu *c = cpu_of(x);

	if (d->b || d->scale != 1.0f || d->cap != 0.0f)
		cpu_run_rows(c, n, x->n_cols, logits_row, &(struct logits_job){c, x, row, d});
	for (size_t i = 0; c->bad < 0 && i < n; i++)
		if (!c->kern->all_finite(row_of(x, row + i), x->n_cols))
			c->bad = names ? names[i] : (int64_t)i;
}

static void cpu_copy(struct be_buf *out, size_t out_row, const struct be_buf *x, const int32_t *rows, size_t n)
{
	written(cpu_of(out), out);
	for (size_t i = 0; i < n; i++)
		memmove(row_of(out, out_row + i), row_of(x, rows ? (size_t)rows[i] : i), x->n_cols * sizeof(float));
}

/* ---- Matrix products ---- */

struct mm_job {
	struct cpu *c;
	const struct cpu_mm *mm;
	size_t n;
};

/* The rows of all matrices are laid end to end and shared out in units that every level's unit divides, so that
 * small ones leave nobody idle. */
static size_t mm_units(size_t n_rows)
{
	return (n_rows + CPU_MM_UNIT - 1) / CPU_MM_UNIT;
}

/* Rows [row0, row1) of a matrix that is packed only now, a unit at a time, into the thread's scratch. */
static void mm_loose(const struct cpu_mm *p, const struct kern_mm *mm, size_t row0, size_t row1)
{
	for (size_t r = row0; r < row1; r += CPU_MM_UNIT) {
		struct kern_mm part = *mm;
		part.n_rows = row1 - r < CPU_MM_UNIT ? row1 - r : CPU_MM_UNIT;
		part.w = mm->scratch;
		part.scratch = (uint8_t *)mm->scratch + loose_bytes(p->mat, mm->k);
		part.out = mm->out + r;
		p->mat->pack(mm->scratch, (const uint8_t *)mm->w + r * p->row_bytes, part.n_rows, mm->k, 0,
				part.n_rows);
		p->mat->mm(&part, 0, part.n_rows);
	}
}

/* Rows [row0, row1) of a matrix that is packed for good on the way. */
static void mm_fill(const struct cpu *c, const struct cpu_mm *p, const struct kern_mm *mm, size_t row0, size_t row1)
{
	enum { GIVE_BACK_BYTES = 2 << 20 }; /* at least: giving pages back stops all threads for a moment */
	size_t kept = row0;

	for (size_t r = row0; r < row1; r += CPU_MM_UNIT) {
		const size_t to = row1 - r < CPU_MM_UNIT ? row1 : r + CPU_MM_UNIT;
		if (r >= p->fill->n_done)
			cpu_weight_pack(p->fill, r, to);
		p->mat->mm(mm, r, to);
		if (to == row1 || (to - kept) * p->row_bytes >= GIVE_BACK_BYTES) {
			cpu_weight_give_back(c->w, p->fill, kept, to);
			kept = to;
		}
	}
}

static void mm_share(void *arg, size_t from, size_t to, size_t thread)
{
	const struct mm_job *j = arg;
	size_t at = 0;

	for (size_t w = 0; w < j->n && at < to; w++) {
		const struct cpu_mm *p = &j->mm[w];
		size_t units = mm_units(p->mm.n_rows);
		size_t a = from > at ? from - at : 0, b = to - at;
		b = b < units ? b : units;
		if (a < b) {
			struct kern_mm mm = p->mm;
			mm.scratch = j->c->scratch + thread * j->c->scratch_bytes;
			const size_t row1 = b * CPU_MM_UNIT < mm.n_rows ? b * CPU_MM_UNIT : mm.n_rows;
			if (p->fill)
				mm_fill(j->c, p, &mm, a * CPU_MM_UNIT, row1);
			else if (p->loose)
				mm_loose(p, &mm, a * CPU_MM_UNIT, row1);
			else
				p->mat->mm(&mm, a * CPU_MM_UNIT, row1);
		}
		at += units;
	}
}

struct cpu_mm cpu_mm_of(const struct cpu *c, const struct model_weight *w, const void *act, size_t act_bytes, size_t n,
		float *out, size_t out_ld)
{
	struct cpu_weight *bw = &c->w->w[w->index];
	const enum weight_state state = atomic_load(&bw->state);
	const bool fill = state == WEIGHT_IN_FILE && c->pack_until > 0 && clock_busy() < c->pack_until &&
			cpu_weight_claim(bw);
	const bool packed = fill || state == WEIGHT_PACKED;

	return (struct cpu_mm){
			.mm = {.w = packed ? bw->place : bw->mw.data,
					.n_rows = bw->mw.n_rows,
					.k = w->k,
					.n_cols = n,
					.act = act,
					.act_bytes = act_bytes,
					.out = out + bw->row0,
					.out_ld = out_ld},
			.mat = packed ? bw->packed : bw->mat,
			.row_bytes = w->row_bytes,
			.loose = !packed && bw->loose,
			.fill = fill ? bw : NULL,
	};
}

void cpu_mm_run(struct cpu *c, const struct cpu_mm *mm, size_t n)
{
	size_t n_units = 0;

	for (size_t i = 0; i < n; i++)
		n_units += mm_units(mm[i].mm.n_rows);
	pool_run(c->pool, n_units, 1, mm_share, &(struct mm_job){c, mm, n});
	for (size_t i = 0; i < n; i++)
		if (mm[i].fill)
			cpu_weight_publish(c->w, mm[i].fill);
}

struct act_job {
	struct rounding q;
	const struct be_buf *x;
};

static void act_row(const void *job, size_t r)
{
	const struct act_job *j = job;
	round_row(&j->q, row_of(j->x, r), j->x->n_cols, r);
}

static void cpu_matmul(struct be_buf *const *out, const struct model_weight *const *w, size_t n_w,
		const struct be_buf *x, size_t n, size_t out_row)
{
	struct cpu *c = cpu_of(x);

	for (size_t done = 0; done < n_w;) {
		/* Matrices next to each other whose formats quantize the input alike share that and the fork. */
		const struct act_job j = {rounding_for(c, w[done]), x};
		const bool f32 = j.q.act == QUANT_ACT_F32;
		struct cpu_mm mm[3];
		size_t i = done;
		for (; i < n_w && quant_format_get(w[i]->type)->act == j.q.act; i++)
			mm[i - done] = cpu_mm_of(c, w[i], f32 ? (const void *)row_of(x, 0) : c->act,
					f32 ? x->n_cols * sizeof(float) : c->act_bytes, n, row_of(out[i], out_row),
					out[i]->n_cols);
		if (!f32 && (c->rounded != (const struct cpu_buf *)x || c->rounded_kind != j.q.act)) {
			cpu_run_rows(c, n, x->n_cols, act_row, &j);
			rounded(&j.q, x);
		}
		cpu_mm_run(c, mm, i - done);
		done = i;
	}
	for (size_t i = 0; i < n_w; i++) {
		if (c->lora.n_base || c->lora.n_rows)
			cpu_lora_add(c, w[i], (const struct cpu_buf *)x, n, row_of(out[i], out_row), out[i]->n_cols);
		written(c, out[i]);
	}
}

const struct be_ops be_cpu = {
		.name = "cpu",
		.device_name = cpu_device_name,
		.device_get = cpu_device_get,
		.level_count = kern_count,
		.level_name = kern_name,
		.level_usable = kern_usable,
		.level_failed = kern_failed,
		.level_best = kern_best,
		.weights_open = cpu_weights_open,
		.weights_lock = cpu_weights_lock,
		.weights_free = cpu_weights_free,
		.weight_sum = cpu_weight_sum,
		.repack = cpu_repack,
		.open = cpu_open,
		.free = cpu_free,
		.buf_open = cpu_buf_open,
		.buf_free = cpu_buf_free,
		.lora_reserve = cpu_lora_reserve,
		.wait = cpu_wait,
		.outputs = cpu_outputs,
		.upload = cpu_upload,
		.begin = cpu_begin,
		.narrow = cpu_narrow,
		.embed = cpu_embed,
		.add_norm = cpu_add_norm,
		.matmul = cpu_matmul,
		.qkv_store = cpu_kv_qkv_store,
		.attention = cpu_kv_attention,
		.glu = cpu_glu,
		.experts = cpu_experts,
		.add_gated = cpu_add_gated,
		.conv = cpu_conv,
		.scan = cpu_scan,
		.logits = cpu_logits,
		.copy = cpu_copy,
		.touch = cpu_kv_touch,
		.cells_move = cpu_kv_cells_move,
		.cells_pass = cpu_kv_cells_pass,
};
