/* The CPU backend: each operation is a parallel-for over kernels.
 *
 * Invariants
 *  1. Every output number is computed by exactly one thread, whole: the number of threads cannot change a bit.
 *  2. Nothing is allocated after open and buf_open.
 *  3. K and V reach attention only through the cache, rounded to its type, for rows of the same ubatch too.
 *  4. `rounded` names the buffer whose rows, as they are now, lie rounded in `act`; whoever writes a buffer otherwise
 *     clears it.
 * The cache and attention are in cpu_kv.c. */
#include "backend/cpu.h"

#include "base/mem.h"

#include <math.h>
#include <string.h>

static size_t max_size(size_t a, size_t b)
{
	return a > b ? a : b;
}

static void cpu_free(struct be *be)
{
	if (be) {
		pool_free(be->pool);
		cpu_kv_release(be);
		cpu_lora_release(be);
		mem_free_aligned(be->act);
		mem_free_aligned(be->rope);
		mem_free_aligned(be->ones);
		mem_free_aligned(be->states);
		mem_free_aligned(be->scratch);
		mem_free(be->routes);
		mem_free(be->mms);
		mem_free(be);
	}
}

/* Room for the rows that are packed only when they are used, in front of what the product itself needs. */
static size_t loose_bytes(const struct kern_mat *mat, size_t k)
{
	return (mat->packed_bytes(CPU_MM_UNIT, k) + 63) & ~(size_t)63;
}

static size_t scratch_bytes(const struct be_weights *w, const struct model *m, size_t k_max)
{
	const struct model_hparams *h = &m->hp;
	size_t n = 0;

	for (size_t i = 0; i < m->n_weights; i++)
		if (w->w[i].loose)
			n = max_size(n, loose_bytes(w->w[i].mat, m->weights[i].k));
	n += KERN_MM_SCRATCH_BYTES(k_max);
	n = max_size(n, kern_attn_scratch_bytes(KERN_ATTN_ROWS, h->n_head / h->n_head_kv, h->head_k, h->head_v));
	n = max_size(n, cpu_kv_scratch_bytes(m));
	return (n + 4095) & ~(size_t)4095;
}

/* Long contexts may have angles of their own. */
static void choose_angles(struct be *be, size_t n_pos_max)
{
	for (int i = 0; i < MODEL_ROPES; i++)
		be->freqs[i] = model_rope_freqs(&be->m->rope[i], n_pos_max);
}

static struct be *cpu_open(struct be_weights *w, const struct model *m, const struct be_limits *lim)
{
	const struct model_hparams *h = &m->hp;
	const size_t rope_rows = MODEL_ROPES * (lim->n_rows_max + 1); /* one more: a shift's */
	size_t k_max = 0, n_act = lim->n_rows_max, act_bytes, all_scratch;
	struct be *be = mem_zalloc(1, sizeof *be);

	if (!be)
		return NULL;
	be->w = w;
	be->m = m;
	be->kern = w->kern;
	be->n_rows_max = lim->n_rows_max;
	for (size_t i = 0; i < m->n_weights; i++)
		if (m->weights[i].product || &m->weights[i] == m->output)
			k_max = max_size(k_max, m->weights[i].k);
	be->act_bytes = k_max * sizeof(float); /* the widest kind */
	be->scratch_bytes = scratch_bytes(w, m, k_max);
	if ((h->n_expert && !size_mul(n_act, h->n_expert_used, &n_act)) ||
			!size_mul(be->act_bytes, n_act, &act_bytes) ||
			!size_mul(be->scratch_bytes, lim->n_threads, &all_scratch))
		goto fail;
	if (h->n_expert) {
		be->routes = mem_zalloc(n_act, sizeof *be->routes);
		be->mms = mem_zalloc(2 * (size_t)h->n_expert, sizeof *be->mms);
		if (!be->routes || !be->mms)
			goto fail;
	}
	be->act = mem_zalloc_aligned(act_bytes, 1);
	be->rope = mem_zalloc_aligned(rope_rows * (size_t)h->n_rot, sizeof(float));
	be->ones = mem_zalloc_aligned(h->n_ff ? h->n_ff : 1, sizeof(float));
	be->scratch = mem_zalloc_aligned(all_scratch, 1);
	be->pool = pool_open(lim->n_threads);
	if (!be->act || !be->rope || !be->ones || !be->scratch || !be->pool || !cpu_kv_init(be, lim) ||
			!cpu_state_init(be, lim->n_states) || !cpu_lora_init(be, lim))
		goto fail;
	be->shift_rope = be->rope + (rope_rows - MODEL_ROPES) * (size_t)h->n_rot;
	choose_angles(be, lim->n_pos_max);
	for (size_t i = 0; i < h->n_ff; i++)
		be->ones[i] = 1.0f;
	return be;
fail:
	cpu_free(be);
	return NULL;
}

static struct be_buf *cpu_buf_open(struct be *be, size_t n_rows, size_t n_cols)
{
	size_t n;
	struct be_buf *b = mem_zalloc(1, sizeof *b);
	(void)be;
	if (!b || !size_mul(n_rows, n_cols, &n) || !(b->f = mem_zalloc_aligned(n, sizeof *b->f))) {
		mem_free(b);
		return NULL;
	}
	b->n_rows = n_rows;
	b->n_cols = n_cols;
	return b;
}

static void cpu_buf_free(struct be *be, struct be_buf *b)
{
	(void)be;
	if (b) {
		mem_free_aligned(b->f);
		mem_free(b);
	}
}

static const float *cpu_buf_row(struct be *be, const struct be_buf *b, size_t i)
{
	(void)be;
	return b->f + i * b->n_cols;
}

/* ---- Row-wise operations: each thread takes a run of rows ---- */

struct row_job {
	struct be *be;
	struct be_buf *out, *x;
	const struct be_buf *y;
	const struct be_norm *norm;
	const struct model_ffn *ffn;
	size_t row0;
	enum quant_act act; /* how to round the result; F32: not at all */
	size_t n, k;
	void (*run)(const struct row_job *j, size_t row);
};

static void row_share(void *arg, size_t from, size_t to, size_t thread)
{
	const struct row_job *j = arg;
	(void)thread;
	for (size_t r = from; r < to; r++)
		j->run(j, r);
}

static void run_rows(const struct row_job *j)
{
	if (j->n * j->k <= CPU_SERIAL_MAX)
		for (size_t r = 0; r < j->n; r++)
			j->run(j, r);
	else
		pool_run(j->be->pool, j->n, 1, row_share, (void *)j);
}

/* ---- Row-wise operations of a model ---- */

static void rope_row(const struct row_job *j, size_t r)
{
	struct be *be = j->be;
	const size_t n_rot = be->m->hp.n_rot;
	for (int i = 0; i < MODEL_ROPES; i++)
		if (be->freqs[i])
			cpu_rope_angles(be, i, be->rows->pos[r], be->m->rope[i].scale,
					be->rope + ((size_t)i * be->n_rows_max + r) * n_rot);
}

/* Until when a ubatch may pack what it uses: the first token after a start waits for little of it, and the next ones,
 * all of which are slow until it is done, for more. In time of this thread: on a busy machine all takes longer, and
 * smaller pieces would only mean more slow tokens. */
static double pack_until(struct be *be)
{
	const double seconds = be->begun ? 2.0 : 0.5;

	be->begun = true;
	return atomic_load(&be->w->n_left) ? clock_busy() + seconds : 0;
}

static void cpu_begin(struct be *be, const struct be_rows *rows)
{
	be->rows = rows;
	be->rounded = NULL;
	be->pack_until = pack_until(be);
	cpu_lora_begin(be, NULL, rows->n);
	if (be->m->hp.n_rot)
		run_rows(&(struct row_job){.be = be, .n = rows->n, .k = (size_t)be->m->hp.n_rot * 16, .run = rope_row});
}

static void cpu_narrow(struct be *be, const int32_t *rows, size_t n)
{
	cpu_lora_begin(be, rows, n);
}

/* Row i of a matrix as floats. */
static void read_row(const struct model_weight *w, size_t i, float *out)
{
	quant_format_get(w->type)->to_f32((const uint8_t *)w->data + i * w->row_bytes, out, w->k);
}

static void embed_row(const struct row_job *j, size_t r)
{
	const struct be *be = j->be;
	const struct model *m = be->m;
	const struct be_rows *rows = be->rows;
	float *out = j->out->f + r * j->out->n_cols, *more = j->x ? j->x->f + r * j->k : NULL;

	if (rows->tokens) {
		read_row(m->token_embd, (size_t)rows->tokens[r], out);
		if (m->hp.embd_scale != 1.0f)
			be->kern->scale(out, m->hp.embd_scale, j->k);
	} else {
		memcpy(out, rows->embd + r * j->k, j->k * sizeof *out);
	}
	if (m->type_embd) {
		read_row(m->type_embd, 0, more);
		be->kern->add(out, more, j->k);
	}
	if (m->pos_embd) {
		read_row(m->pos_embd, (size_t)rows->pos[r], more);
		be->kern->add(out, more, j->k);
	}
}

static void cpu_embed(struct be *be, struct be_buf *out, struct be_buf *work)
{
	be->rounded = be->rounded == out ? NULL : be->rounded;
	run_rows(&(struct row_job){
			.be = be, .out = out, .x = work, .n = be->rows->n, .k = be->m->hp.n_embd, .run = embed_row});
}

static void round_row(const struct row_job *j, const float *x, size_t r)
{
	if (j->act != QUANT_ACT_F32)
		j->be->kern->act[j->act](x, j->k, j->be->act + r * j->be->act_bytes);
}

/* Runs a job whose result, in buffer b, is rounded as j->act says. */
static void run_rounding(const struct row_job *j, const struct be_buf *b)
{
	run_rows(j);
	j->be->rounded = j->act == QUANT_ACT_F32 ? NULL : b;
	j->be->rounded_kind = j->act;
}

void cpu_norm_row(const struct be *be, const struct model_norm *norm, const float *x, size_t n, float *out)
{
	const struct model_hparams *h = &be->m->hp;
	const float *w = norm->w->data;
	if (h->layer_norm)
		be->kern->layer_norm(x, w, norm->b ? norm->b->data : NULL, n, h->norm_eps, out);
	else
		be->kern->rms_norm(x, w, n, h->norm_eps, out);
}

/* x += b; b may get its bias, be normed and be scaled first. */
static void sum_row(const struct row_job *j, const struct be_sum *s, size_t r)
{
	const struct be *be = j->be;
	float *x = j->x->f + r * j->k, *b = s->b->f + r * j->k;

	if (s->bias)
		be->kern->add(b, s->bias->data, j->k);
	if (s->post.w)
		cpu_norm_row(be, &s->post, b, j->k, b);
	if (be->m->hp.residual_scale != 1.0f)
		be->kern->scale(b, be->m->hp.residual_scale, j->k);
	be->kern->add(x, b, j->k);
}

static void norm_row(const struct row_job *j, size_t r)
{
	const struct be_norm *a = j->norm;
	float *x = j->x->f + r * j->k, *out = a->norm.w ? j->out->f + r * j->k : x;

	for (size_t i = 0; i < 2; i++)
		if (a->add[i].b)
			sum_row(j, &a->add[i], r);
	if (a->norm.w)
		cpu_norm_row(j->be, &a->norm, x, j->k, out);
	round_row(j, out, r);
}

static enum quant_act act_for(const struct model_weight *next)
{
	return next ? quant_format_get(next->type)->act : QUANT_ACT_F32;
}

static void cpu_norm(struct be *be, const struct be_norm *a, size_t n)
{
	run_rounding(&(struct row_job){.be = be,
				     .out = a->out,
				     .x = a->x,
				     .norm = a,
				     .n = n,
				     .k = a->x->n_cols,
				     .act = act_for(a->next),
				     .run = norm_row},
			a->norm.w ? a->out : a->x);
}

static void glu_row(const struct row_job *j, size_t r)
{
	const struct kern *kern = j->be->kern;
	const struct model_ffn *f = j->ffn;
	float *up = j->x->f + r * j->k, *out = j->out->f + r * j->k;

	if (f->up_b)
		kern->add(up, f->up_b->data, j->k);
	if (f->gate_b)
		kern->add(out, f->gate_b->data, j->k);
	cpu_act_row(j->be, out, f->gate ? up : j->be->ones, j->k);
	round_row(j, out, r);
}

void cpu_act_row(const struct be *be, float *gate, const float *up, size_t n)
{
	const struct kern *kern = be->kern;
	switch (be->m->hp.act) {
	case MODEL_SILU: kern->silu_mul(gate, up, n, gate); break;
	case MODEL_GELU: kern->gelu_mul(gate, up, n, gate); break;
	case MODEL_SWIGLU_OAI: kern->swiglu_oai(gate, up, n, gate); break;
	}
}

static void cpu_glu(struct be *be, struct be_buf *gate, struct be_buf *up, const struct model_ffn *f, size_t n)
{
	struct be_buf *out = f->gate ? gate : up;
	run_rounding(&(struct row_job){.be = be,
				     .out = out,
				     .x = up,
				     .ffn = f,
				     .n = n,
				     .k = out->n_cols,
				     .act = act_for(f->down),
				     .run = glu_row},
			out);
}

static void finish_row(const struct row_job *j, size_t r)
{
	const struct model *m = j->be->m;
	float *x = j->out->f + (j->row0 + r) * j->k;

	if (m->output_b)
		j->be->kern->add(x, m->output_b->data, j->k);
	if (m->hp.logit_scale != 1.0f)
		j->be->kern->scale(x, m->hp.logit_scale, j->k);
	if (m->hp.logit_cap != 0.0f) {
		const bool good = j->be->kern->all_finite(x, j->k);
		j->be->kern->softcap(x, m->hp.logit_cap, j->k);
		if (!good) /* what was infinite is a number now: it is still to be noticed */
			x[0] = NAN;
	}
}

static void cpu_finish(struct be *be, struct be_buf *logits, size_t row, size_t n)
{
	const struct model *m = be->m;
	if (m->output_b || m->hp.logit_scale != 1.0f || m->hp.logit_cap != 0.0f)
		run_rows(&(struct row_job){
				.be = be, .out = logits, .row0 = row, .n = n, .k = logits->n_cols, .run = finish_row});
}

static void cpu_gather(struct be *be, struct be_buf *out, const struct be_buf *x, const int32_t *rows, size_t n)
{
	be->rounded = NULL;
	for (size_t i = 0; i < n; i++)
		memmove(out->f + i * out->n_cols, x->f + (size_t)rows[i] * x->n_cols, x->n_cols * sizeof *x->f);
}

static void cpu_copy(struct be *be, struct be_buf *out, size_t out_row, const struct be_buf *x, size_t n)
{
	be->rounded = be->rounded == out ? NULL : be->rounded;
	memcpy(out->f + out_row * out->n_cols, x->f, n * x->n_cols * sizeof *x->f);
}

static void cpu_row_add(
		struct be *be, struct be_buf *out, size_t out_row, const struct be_buf *x, size_t x_row, bool set)
{
	float *o = out->f + out_row * out->n_cols;
	const float *f = x->f + x_row * x->n_cols;
	if (set)
		memcpy(o, f, x->n_cols * sizeof *f);
	else
		be->kern->add(o, f, x->n_cols);
}

static void cpu_row_div(struct be *be, struct be_buf *out, size_t out_row, size_t n)
{
	float *o = out->f + out_row * out->n_cols;
	(void)be;
	for (size_t i = 0; i < out->n_cols; i++)
		o[i] = o[i] / (float)n;
}

static int64_t cpu_find_bad(struct be *be, const struct be_buf *x, size_t row, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (!be->kern->all_finite(x->f + (row + i) * x->n_cols, x->n_cols))
			return (int64_t)i;
	return -1;
}

/* ---- Matrix products ---- */

struct mm_job {
	struct be *be;
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
static void mm_loose(const struct cpu_mm *c, const struct kern_mm *mm, size_t row0, size_t row1)
{
	for (size_t r = row0; r < row1; r += CPU_MM_UNIT) {
		struct kern_mm part = *mm;
		part.n_rows = row1 - r < CPU_MM_UNIT ? row1 - r : CPU_MM_UNIT;
		part.w = mm->scratch;
		part.scratch = (uint8_t *)mm->scratch + loose_bytes(c->mat, mm->k);
		part.out = mm->out + r;
		c->mat->pack(mm->scratch, (const uint8_t *)mm->w + r * c->row_bytes, part.n_rows, mm->k, 0,
				part.n_rows);
		c->mat->mm(&part, 0, part.n_rows);
	}
}

/* Rows [row0, row1) of a matrix that is packed for good on the way. */
static void mm_fill(const struct be *be, const struct cpu_mm *c, const struct kern_mm *mm, size_t row0, size_t row1)
{
	enum { GIVE_BACK_BYTES = 2 << 20 }; /* at least: giving pages back stops all threads for a moment */
	size_t kept = row0;

	for (size_t r = row0; r < row1; r += CPU_MM_UNIT) {
		const size_t to = row1 - r < CPU_MM_UNIT ? row1 : r + CPU_MM_UNIT;
		if (r >= c->fill->n_done)
			cpu_weight_pack(c->fill, r, to);
		c->mat->mm(mm, r, to);
		if (to == row1 || (to - kept) * c->row_bytes >= GIVE_BACK_BYTES) {
			cpu_weight_give_back(be->w, c->fill, kept, to);
			kept = to;
		}
	}
}

static void mm_share(void *arg, size_t from, size_t to, size_t thread)
{
	const struct mm_job *j = arg;
	size_t at = 0;

	for (size_t w = 0; w < j->n && at < to; w++) {
		const struct cpu_mm *c = &j->mm[w];
		size_t units = mm_units(c->mm.n_rows);
		size_t a = from > at ? from - at : 0, b = to - at;
		b = b < units ? b : units;
		if (a < b) {
			struct kern_mm mm = c->mm;
			mm.scratch = j->be->scratch + thread * j->be->scratch_bytes;
			const size_t row1 = b * CPU_MM_UNIT < mm.n_rows ? b * CPU_MM_UNIT : mm.n_rows;
			if (c->fill)
				mm_fill(j->be, c, &mm, a * CPU_MM_UNIT, row1);
			else if (c->loose)
				mm_loose(c, &mm, a * CPU_MM_UNIT, row1);
			else
				c->mat->mm(&mm, a * CPU_MM_UNIT, row1);
		}
		at += units;
	}
}

struct cpu_mm cpu_mm_of(const struct be *be, const struct model_weight *w, const void *act, size_t act_bytes, size_t n,
		float *out, size_t out_ld)
{
	struct be_weight *bw = &be->w->w[w->index];
	const enum weight_state state = atomic_load(&bw->state);
	const bool fill = state == WEIGHT_IN_FILE && be->pack_until > 0 && clock_busy() < be->pack_until &&
			cpu_weight_claim(bw);
	const bool packed = fill || state == WEIGHT_PACKED;

	return (struct cpu_mm){
			.mm = {.w = packed ? bw->place : w->data,
					.n_rows = w->n_rows,
					.k = w->k,
					.n_cols = n,
					.act = act,
					.act_bytes = act_bytes,
					.out = out,
					.out_ld = out_ld},
			.mat = packed ? bw->packed : bw->mat,
			.row_bytes = w->row_bytes,
			.loose = !packed && bw->loose,
			.fill = fill ? bw : NULL,
	};
}

void cpu_mm_run(struct be *be, const struct cpu_mm *mm, size_t n)
{
	size_t n_units = 0;
	for (size_t i = 0; i < n; i++)
		n_units += mm_units(mm[i].mm.n_rows);
	pool_run(be->pool, n_units, 1, mm_share, &(struct mm_job){be, mm, n});
	for (size_t i = 0; i < n; i++)
		if (mm[i].fill)
			cpu_weight_publish(be->w, mm[i].fill);
}

static void act_row(const struct row_job *j, size_t r)
{
	round_row(j, j->y->f + r * j->k, r);
}

static void cpu_matmul(struct be *be, struct be_buf *const *out, const struct model_weight *const *w, size_t n_w,
		const struct be_buf *x, size_t n, size_t out_row)
{
	for (size_t done = 0; done < n_w;) {
		/* Matrices next to each other whose formats round the input alike share the rounding and the fork. */
		enum quant_act act = quant_format_get(w[done]->type)->act;
		const bool f32 = act == QUANT_ACT_F32;
		struct cpu_mm mm[3];
		size_t i = done;
		for (; i < n_w && quant_format_get(w[i]->type)->act == act; i++)
			mm[i - done] = cpu_mm_of(be, w[i], f32 ? (const void *)x->f : be->act,
					f32 ? x->n_cols * sizeof(float) : be->act_bytes, n,
					out[i]->f + out_row * out[i]->n_cols, out[i]->n_cols);
		if (!f32 && (be->rounded != x || be->rounded_kind != act))
			run_rounding(&(struct row_job){.be = be,
						     .y = x,
						     .n = n,
						     .k = x->n_cols,
						     .act = act,
						     .run = act_row},
					x);
		cpu_mm_run(be, mm, i - done);
		done = i;
	}
	for (size_t i = 0; i < n_w; i++) {
		if (be->lora.n_base || be->lora.n_rows)
			cpu_lora_add(be, w[i], x, n, out[i]->f + out_row * out[i]->n_cols, out[i]->n_cols);
		if (be->rounded == out[i])
			be->rounded = NULL;
	}
}

const struct be_ops be_cpu = {
		.name = "cpu",
		.open = cpu_open,
		.free = cpu_free,
		.block_bytes = cpu_kv_block_bytes,
		.buf_open = cpu_buf_open,
		.buf_free = cpu_buf_free,
		.buf_row = cpu_buf_row,
		.begin = cpu_begin,
	.narrow = cpu_narrow,
	.lora_reserve = cpu_lora_reserve,
		.embed = cpu_embed,
		.norm = cpu_norm,
		.matmul = cpu_matmul,
		.rope_store = cpu_kv_rope_store,
		.attention = cpu_kv_attention,
		.glu = cpu_glu,
		.experts = cpu_experts,
		.add_shared = cpu_add_shared,
		.conv = cpu_conv,
		.scan = cpu_scan,
		.finish = cpu_finish,
		.gather = cpu_gather,
		.copy = cpu_copy,
		.row_add = cpu_row_add,
		.row_div = cpu_row_div,
		.kv_touch = cpu_kv_touch,
		.kv_copy = cpu_kv_copy,
		.kv_move = cpu_kv_move,
		.cell_bytes = cpu_kv_cell_bytes,
		.cell_read = cpu_kv_cell_read,
		.cell_write = cpu_kv_cell_write,
		.state_bytes = cpu_state_bytes,
		.state_read = cpu_state_read,
		.state_write = cpu_state_write,
		.settle = cpu_settle,
		.weight_sum = cpu_weight_sum,
		.find_bad = cpu_find_bad,
};
