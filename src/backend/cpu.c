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
		mem_free_aligned(be->act);
		mem_free_aligned(be->rope);
		mem_free_aligned(be->scratch);
		mem_free(be);
	}
}

static struct be *cpu_open(const struct be_weights *w, const struct model *m, const struct be_limits *lim)
{
	const struct model_hparams *h = &m->hp;
	size_t k_max = 0, act_bytes, scratch_bytes;
	struct be *be = mem_zalloc(1, sizeof *be);

	if (!be)
		return NULL;
	be->w = w;
	be->m = m;
	be->kern = w->kern;
	for (size_t i = 0; i < m->n_weights; i++)
		k_max = max_size(k_max, m->weights[i].k);
	be->act_bytes = k_max * sizeof(float); /* the widest kind */
	for (size_t i = 0; i < m->n_weights; i++)
		if (w->w[i].loose)
			be->scratch_bytes = max_size(
					be->scratch_bytes, w->w[i].mat->packed_bytes(CPU_MM_UNIT, m->weights[i].k));
	be->scratch_bytes = max_size(be->scratch_bytes, kern_mm_scratch_bytes(k_max));
	be->scratch_bytes = max_size(be->scratch_bytes,
			kern_attn_scratch_bytes(KERN_ATTN_ROWS, h->n_head / h->n_head_kv, h->head_k, h->head_v));
	be->scratch_bytes = max_size(be->scratch_bytes, cpu_kv_scratch_bytes(m));
	be->scratch_bytes = (be->scratch_bytes + 4095) & ~(size_t)4095;
	if (!size_mul(be->act_bytes, lim->n_rows_max, &act_bytes) ||
			!size_mul(be->scratch_bytes, lim->n_threads, &scratch_bytes))
		goto fail;
	be->act = mem_zalloc_aligned(act_bytes, 1);
	/* One row more than a ubatch has: a shift's. */
	be->rope = mem_zalloc_aligned((lim->n_rows_max + 1) * (size_t)h->n_rot, sizeof(float));
	be->scratch = mem_zalloc_aligned(scratch_bytes, 1);
	be->pool = pool_open(lim->n_threads);
	if (!be->act || !be->rope || !be->scratch || !be->pool || !cpu_kv_init(be, lim))
		goto fail;
	be->shift_rope = be->rope + lim->n_rows_max * (size_t)h->n_rot;
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
	const struct model_weight *w;
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

static void rope_row(const struct row_job *j, size_t r)
{
	cpu_rope_angles(j->be, j->be->rows->pos[r], j->be->rope + r * j->be->m->hp.n_rot);
}

static void cpu_begin(struct be *be, const struct be_rows *rows)
{
	be->rows = rows;
	be->rounded = NULL;
	run_rows(&(struct row_job){.be = be, .n = rows->n, .k = (size_t)be->m->hp.n_rot * 16, .run = rope_row});
}

static void embed_row(const struct row_job *j, size_t r)
{
	const struct model_weight *w = j->w;
	const struct quant_format *f = quant_format_get(w->type);
	const struct be_rows *rows = j->be->rows;
	size_t row_bytes = w->k / f->block * f->block_bytes;
	float *out = j->out->f + r * j->out->n_cols;
	if (rows->tokens)
		f->to_f32((const uint8_t *)w->data + (size_t)rows->tokens[r] * row_bytes, out, w->k);
	else
		memcpy(out, rows->embd + r * w->k, w->k * sizeof *out);
}

static void cpu_embed(struct be *be, struct be_buf *out)
{
	const struct model_weight *w = be->m->token_embd;
	run_rows(&(struct row_job){.be = be, .out = out, .w = w, .n = be->rows->n, .k = w->k, .run = embed_row});
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

static void norm_row(const struct row_job *j, size_t r)
{
	const struct kern *kern = j->be->kern;
	float *x = j->x->f + r * j->k, *out = j->out->f + r * j->k;
	if (j->y)
		kern->add(x, j->y->f + r * j->k, j->k);
	kern->rms_norm(x, (const float *)j->w->data, j->k, j->be->m->hp.norm_eps, out);
	round_row(j, out, r);
}

static void cpu_norm(struct be *be, struct be_buf *out, struct be_buf *x, const struct be_buf *add,
		const struct model_weight *w, size_t n, const struct model_weight *next)
{
	run_rounding(&(struct row_job){.be = be, .out = out, .x = x, .y = add, .w = w, .n = n, .k = x->n_cols,
			.act = quant_format_get(next->type)->act, .run = norm_row}, out);
}

static void glu_row(const struct row_job *j, size_t r)
{
	float *g = j->out->f + r * j->k;
	j->be->kern->silu_mul(g, j->y->f + r * j->k, j->k, g);
	round_row(j, g, r);
}

static void cpu_glu(struct be *be, struct be_buf *gate, const struct be_buf *up, size_t n,
		const struct model_weight *next)
{
	run_rounding(&(struct row_job){.be = be, .out = gate, .y = up, .n = n, .k = gate->n_cols,
			.act = quant_format_get(next->type)->act, .run = glu_row}, gate);
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
	struct kern_mm mm[3];
	const struct kern_mat *mat[3];
	bool loose[3];
	size_t row_bytes[3]; /* in the file */
	size_t n_w;
};


/* The rows of all matrices are laid end to end and shared out in units that every level's unit divides, so that
 * small ones leave nobody idle. */
static size_t mm_units(size_t n_rows)
{
	return (n_rows + CPU_MM_UNIT - 1) / CPU_MM_UNIT;
}

/* Rows [row0, row1) of a matrix that is packed only now, a unit at a time, into the thread's scratch. */
static void mm_loose(const struct kern_mat *mat, const struct kern_mm *mm, size_t row_bytes, size_t row0, size_t row1)
{
	for (size_t r = row0; r < row1; r += CPU_MM_UNIT) {
		struct kern_mm part = *mm;
		part.n_rows = row1 - r < CPU_MM_UNIT ? row1 - r : CPU_MM_UNIT;
		part.w = mm->scratch;
		part.out = mm->out + r;
		mat->pack(mm->scratch, (const uint8_t *)mm->w + r * row_bytes, part.n_rows, mm->k, 0, part.n_rows);
		mat->mm(&part, 0, part.n_rows);
	}
}

static void mm_share(void *arg, size_t from, size_t to, size_t thread)
{
	const struct mm_job *j = arg;
	size_t at = 0;

	for (size_t w = 0; w < j->n_w; w++) {
		size_t units = mm_units(j->mm[w].n_rows);
		size_t a = from > at ? from - at : 0, b = to > at ? to - at : 0;
		b = b < units ? b : units;
		if (a < b) {
			struct kern_mm mm = j->mm[w];
			mm.scratch = j->be->scratch + thread * j->be->scratch_bytes;
			const size_t row1 = b * CPU_MM_UNIT < mm.n_rows ? b * CPU_MM_UNIT : mm.n_rows;
			if (j->loose[w])
				mm_loose(j->mat[w], &mm, j->row_bytes[w], a * CPU_MM_UNIT, row1);
			else
				j->mat[w]->mm(&mm, a * CPU_MM_UNIT, row1);
		}
		at += units;
	}
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
		struct mm_job j = {.be = be};
		size_t i = done, n_units = 0;
		for (; i < n_w && quant_format_get(w[i]->type)->act == act; i++) {
			const struct be_weight *bw = &be->w->w[w[i]->index];
			n_units += mm_units(w[i]->n_rows);
			j.mat[j.n_w] = bw->mat;
			j.loose[j.n_w] = bw->loose;
			j.row_bytes[j.n_w] = w[i]->tensor->n_bytes / w[i]->n_rows;
			j.mm[j.n_w++] = (struct kern_mm){
				.w = bw->data, .n_rows = w[i]->n_rows, .k = w[i]->k, .n_cols = n,
				.act = f32 ? (const void *)x->f : be->act,
				.act_bytes = f32 ? x->n_cols * sizeof(float) : be->act_bytes,
				.out = out[i]->f + out_row * out[i]->n_cols, .out_ld = out[i]->n_cols,
			};
		}
		if (!f32 && (be->rounded != x || be->rounded_kind != act))
			run_rounding(&(struct row_job){.be = be, .y = x, .n = n, .k = x->n_cols, .act = act,
					.run = act_row}, x);
		pool_run(be->pool, n_units, 1, mm_share, &j);
		done = i;
	}
	for (size_t i = 0; i < n_w; i++)
		if (be->rounded == out[i])
			be->rounded = NULL;
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
	.embed = cpu_embed,
	.norm = cpu_norm,
	.matmul = cpu_matmul,
	.rope_store = cpu_kv_rope_store,
	.attention = cpu_kv_attention,
	.glu = cpu_glu,
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
	.find_bad = cpu_find_bad,
};
