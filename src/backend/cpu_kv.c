/* The CPU backend's cache: storing, attending, copying and moving cells.
 *
 * Invariants
 *  1. K and V reach attention only through the cache, rounded to its type, for rows of the same ubatch too.
 *  2. A moved cell's V is the same bytes; its K is read back, rotated and rounded again.
 *  3. Every output number is computed by exactly one thread, whole. */
#include "backend/cpu.h"

#include "base/fmath.h"
#include "base/mem.h"

#include <string.h>

/* A cell's K of one head as floats, or one head's K and V as bytes. */
size_t cpu_kv_scratch_bytes(const struct model *m)
{
	return m->hp.head_k * sizeof(float) + kern_cell_bytes(KERN_KV_F32, m->hp.head_v);
}

void cpu_kv_release(struct be *be)
{
	for (size_t g = 0; g < BE_GROUPS_MAX; g++) {
		mem_free_aligned(be->groups[g].kv);
		mem_free(be->groups[g].rope_of);
	}
	mem_free(be->layers);
}

bool cpu_kv_init(struct be *be, const struct be_limits *lim)
{
	static const enum kern_kv types[] = {
		[COHORT_KV_F16] = KERN_KV_F16, [COHORT_KV_F32] = KERN_KV_F32, [COHORT_KV_Q8_0] = KERN_KV_Q8_0,
	};
	const struct model_hparams *h = &be->m->hp;

	be->kv_type = types[lim->kv_type];
	be->k_bytes = kern_k_area_bytes(be->kv_type, h->head_k);
	be->head_bytes = be->k_bytes + kern_v_area_bytes(be->kv_type, h->head_v);
	be->layers = mem_zalloc(h->n_layer, sizeof *be->layers);
	if (!be->layers)
		return false;
	for (uint32_t l = 0; l < h->n_layer; l++) {
		struct cpu_kv_group *g = &be->groups[lim->group_of[l]];
		be->layers[l] = (struct cpu_layer){lim->group_of[l], (uint32_t)g->n_layers++};
	}
	for (uint32_t l = 0; l < h->n_layer; l++) {
		struct cpu_kv_group *g = &be->groups[lim->group_of[l]];
		if (!g->rope_of && !(g->rope_of = mem_zalloc(g->n_layers, sizeof *g->rope_of)))
			return false;
		g->rope_of[be->layers[l].index] = h->n_rot ? be->m->layers[l].rope : -1;
	}
	for (size_t i = 0; i < lim->n_groups; i++) {
		struct cpu_kv_group *g = &be->groups[i];
		size_t bytes;
		g->window = lim->window[i];
		if (!size_mul(be->head_bytes, g->n_layers * h->n_head_kv, &g->block_bytes) ||
				!size_mul(g->block_bytes, lim->n_blocks[i], &bytes))
			return false;
		g->kv = mem_zalloc_large(bytes);
		g->bytes = bytes;
		be->n_groups++;
		if (!g->kv)
			return false;
	}
	return true;
}

size_t cpu_kv_block_bytes(const struct be *be, size_t group)
{
	return be->groups[group].block_bytes;
}

/* ---- Rows ---- */

void cpu_rope_angles(const struct be *be, int rope, cohort_pos pos, float scale, float *out)
{
	const size_t n = be->m->hp.n_rot / 2;
	for (size_t i = 0; i < n; i++) {
		double s, c;
		fm_sincos((double)pos * be->freqs[rope][i], &s, &c);
		out[i] = (float)(c * (double)scale);
		out[n + i] = (float)(s * (double)scale);
	}
}

struct attn_job {
	struct be *be;
	struct be_buf *q, *k, *out;
	const struct be_buf *v;
	const int32_t *rows; /* or NULL */
	size_t n, run;       /* output rows, and how many go together */
	size_t layer;
	const struct be_cells *cells;
	const struct cpu_kv_group *group;
};

static size_t head_offset(const struct be *be, size_t layer, size_t head)
{
	return (be->layers[layer].index * be->m->hp.n_head_kv + head) * be->head_bytes;
}

static void store(const struct attn_job *j, const struct be_store *st)
{
	struct be *be = j->be;
	const struct model_hparams *h = &be->m->hp;
	const float *k = j->k->f + (size_t)st->row * j->k->n_cols, *v = j->v->f + (size_t)st->row * j->v->n_cols;

	for (size_t hd = 0; hd < h->n_head_kv; hd++) {
		uint8_t *area = j->group->kv + (size_t)st->block * j->group->block_bytes +
				head_offset(be, j->layer, hd);
		be->kern->put_k[be->kv_type](k + hd * h->head_k, h->head_k, (size_t)st->slot, area);
		be->kern->put_v[be->kv_type](v + hd * h->head_v, h->head_v, (size_t)st->slot, area + be->k_bytes);
	}
}

static void clamp(float *x, float most, size_t n)
{
	for (size_t i = 0; most != 0.0f && i < n; i++) {
		x[i] = x[i] > most ? most : x[i];
		x[i] = x[i] < -most ? -most : x[i];
	}
}

/* Bias, norm of each head or of the row, rotation: what q and k go through. */
static void turn(const struct be *be, float *x, size_t n_heads, const struct model_weight *bias,
		const struct model_norm *norm, const float *angles)
{
	const struct model_hparams *h = &be->m->hp;
	const size_t head = h->head_k;

	if (bias)
		be->kern->add(x, bias->data, n_heads * head);
	clamp(x, h->qkv_clamp, n_heads * head);
	if (norm->w && norm->w->k != head)
		cpu_norm_row(be, norm, x, n_heads * head, x);
	for (size_t i = 0; i < n_heads; i++) {
		float *y = x + i * head;
		if (norm->w && norm->w->k == head && norm->w->n_rows == 1)
			cpu_norm_row(be, norm, y, head, y);
		else if (norm->w && norm->w->k == head) {
			struct model_weight own = *norm->w; /* a row for each head */
			own.data = (const float *)norm->w->data + i * head;
			cpu_norm_row(be, &(struct model_norm){&own, NULL}, y, head, y);
		}
		if (angles)
			be->kern->rope(y, h->n_rot, angles, angles + h->n_rot / 2, h->rope_halves);
	}
}

static float query_scale(const struct model_hparams *h, cohort_pos pos)
{
	if (h->attn_temp == 0.0f)
		return h->attn_scale;
	const double steps = (double)((uint32_t)pos / h->temp_period);
	return (float)((double)h->attn_scale * (1.0 + (double)h->attn_temp * fm_log(1.0 + steps)));
}

static void rope_share(void *arg, size_t from, size_t to, size_t thread)
{
	const struct attn_job *j = arg;
	struct be *be = j->be;
	const struct model_hparams *h = &be->m->hp;
	const struct model_layer *w = &be->m->layers[j->layer];

	(void)thread;
	for (size_t r = from; r < to; r++) {
		const float *angles = w->rope < 0 || !h->n_rot
				? NULL
				: be->rope + ((size_t)w->rope * be->n_rows_max + r) * h->n_rot;
		float *q = j->q->f + r * j->q->n_cols, *k = j->k->f + r * j->k->n_cols;
		turn(be, q, h->n_head, w->bq, &w->q_norm, angles);
		turn(be, k, h->n_head_kv, w->bk, &w->k_norm, angles);
		be->kern->scale(q, query_scale(h, be->rows->pos[r]), j->q->n_cols);
		if (w->bv)
			be->kern->add(j->v->f + r * j->v->n_cols, w->bv->data, j->v->n_cols);
		clamp(j->v->f + r * j->v->n_cols, h->qkv_clamp, j->v->n_cols);
		store(j, &j->cells->stores[r]);
	}
}

static struct attn_job job(struct be *be, size_t layer)
{
	const size_t g = be->layers[layer].group;
	return (struct attn_job){.be = be, .layer = layer, .cells = &be->rows->cells[g], .group = &be->groups[g]};
}

/* The first n stores are the rows' own, in order, so that a thread stores the rows it rotated; the few others follow.
 */
void cpu_kv_rope_store(struct be *be, struct be_buf *q, struct be_buf *k, const struct be_buf *v, size_t layer)
{
	struct attn_job j = job(be, layer);
	j.q = q;
	j.k = k;
	j.v = v;
	be->rounded = NULL;
	if (be->rows->n * q->n_cols <= CPU_SERIAL_MAX)
		rope_share(&j, 0, be->rows->n, 0);
	else
		pool_run(be->pool, be->rows->n, 1, rope_share, &j);
	for (size_t i = be->rows->n; i < j.cells->n_stores; i++)
		store(&j, &j.cells->stores[i]);
}

/* What row r (output row i) attends to, apart from the head. */
static struct kern_attn row_of(const struct attn_job *j, size_t i)
{
	const struct be *be = j->be;
	const struct model_hparams *h = &be->m->hp;
	const size_t r = j->rows ? (size_t)j->rows[i] : i;
	const size_t pos = (size_t)be->rows->pos[r], window = j->group->window;
	size_t first = (size_t)j->cells->first[r], end = (size_t)be->rows->end[r];

	if (window && pos + 1 > window && pos + 1 - window > first)
		first = pos + 1 - window;
	if (window && end > pos + window) /* of rows that see what comes after them, too */
		end = pos + window;
	return (struct kern_attn){
			.q = j->q->f + r * j->q->n_cols,
			.n_q = h->n_head / h->n_head_kv,
			.head_k = h->head_k,
			.head_v = h->head_v,
			.kv = j->group->kv,
			.block_bytes = j->group->block_bytes,
			.table = j->cells->tables[r],
			.held = j->cells->held[r],
			.pos0 = first,
			.pos1 = end,
			.pos = pos,
			.cap = h->attn_cap,
			.out = j->out->f + i * j->out->n_cols,
	};
}

/* Items are (run of rows, KV head) pairs, the last run first: in a prompt it has the longest way. */
static void attn_share(void *arg, size_t from, size_t to, size_t thread)
{
	const struct attn_job *j = arg;
	struct be *be = j->be;
	const struct model_hparams *h = &be->m->hp;
	const size_t n_runs = (j->n + j->run - 1) / j->run, n_q = h->n_head / h->n_head_kv;
	const struct model_weight *sinks = be->m->layers[j->layer].sinks;

	for (size_t t = from; t < to; t++) {
		const size_t hd = t % h->n_head_kv, at = head_offset(be, j->layer, hd);
		const size_t i0 = (n_runs - 1 - t / h->n_head_kv) * j->run;
		const size_t n = j->n - i0 < j->run ? j->n - i0 : j->run;
		struct kern_attn rows[KERN_ATTN_ROWS];
		for (size_t i = 0; i < n; i++) {
			rows[i] = row_of(j, i0 + i);
			rows[i].q += hd * n_q * h->head_k;
			rows[i].out += hd * n_q * h->head_v;
			rows[i].slopes = be->m->slopes ? be->m->slopes + hd * n_q : NULL;
			rows[i].sinks = sinks ? (const float *)sinks->data + hd * n_q : NULL;
			rows[i].k_offset = at;
			rows[i].v_offset = at + be->k_bytes;
		}
		kern_attn(be->kern, be->kv_type, rows, n, be->scratch + thread * be->scratch_bytes);
	}
}

/* Rows that go together: as many as leave every thread several items to choose from. */
static size_t run_length(const struct be *be, size_t n)
{
	const size_t most = n * be->m->hp.n_head_kv / (4 * pool_size(be->pool));
	return most < 1 ? 1 : most < KERN_ATTN_ROWS ? most : KERN_ATTN_ROWS;
}

void cpu_kv_attention(struct be *be, struct be_buf *out, const struct be_buf *q, size_t layer, const int32_t *rows,
		size_t n)
{
	struct attn_job j = job(be, layer);
	j.q = (struct be_buf *)q;
	j.out = out;
	j.rows = rows;
	j.n = n;
	j.run = run_length(be, n);
	be->rounded = NULL;
	pool_run(be->pool, (n + j.run - 1) / j.run * be->m->hp.n_head_kv, 1, attn_share, &j);
}

/* ---- Blocks and cells ---- */

static uint8_t *block_get(const struct be *be, size_t group, int32_t block)
{
	return be->groups[group].kv + (size_t)block * be->groups[group].block_bytes;
}

enum { TOUCH_STEP = 4096, TOUCH_SHARE = 2 << 20 }; /* a small page, a large one */

static void touch_share(void *arg, size_t from, size_t to, size_t thread)
{
	const struct cpu_kv_group *g = arg;
	const size_t end = to * TOUCH_SHARE < g->bytes ? to * TOUCH_SHARE : g->bytes;
	(void)thread;
	for (size_t i = from * TOUCH_SHARE; i < end; i += TOUCH_STEP) {
		volatile uint8_t *p = g->kv + i;
		const uint8_t same = *p;
		*p = same;
	}
}

/* The system clears a page when it is first written; a large one takes as long as a row of a small model. */
void cpu_kv_touch(struct be *be)
{
	for (size_t i = 0; i < be->n_groups; i++)
		pool_run(be->pool, (be->groups[i].bytes + TOUCH_SHARE - 1) / TOUCH_SHARE, 1, touch_share,
				&be->groups[i]);
}

void cpu_kv_copy(struct be *be, size_t group, int32_t from, int32_t to)
{
	memcpy(block_get(be, group, to), block_get(be, group, from), be->groups[group].block_bytes);
}

struct move_job {
	struct be *be;
	const struct cpu_kv_group *group;
	const struct be_move *move;
	const uint8_t *from;
	uint8_t *to;
};

/* One cell of one layer and head. */
static void move_cell(const struct move_job *j, size_t head, size_t cell, void *scratch)
{
	struct be *be = j->be;
	const struct model_hparams *h = &be->m->hp;
	const size_t at = head * be->head_bytes;
	const int rope = j->group->rope_of[head / h->n_head_kv];
	const size_t from_slot = (size_t)j->move->from_slot + cell, to_slot = (size_t)j->move->to_slot + cell;

	if (j->move->shift == 0 || rope < 0) {
		kern_k_cell_read(be->kv_type, h->head_k, j->from + at, from_slot, scratch);
		kern_k_cell_write(be->kv_type, h->head_k, j->to + at, to_slot, scratch);
	} else {
		float *k = scratch;
		be->kern->get_k[be->kv_type](j->from + at, h->head_k, from_slot, k);
		const float *angles = be->shift_rope + (size_t)rope * h->n_rot;
		be->kern->rope(k, h->n_rot, angles, angles + h->n_rot / 2, h->rope_halves);
		be->kern->put_k[be->kv_type](k, h->head_k, to_slot, j->to + at);
	}
	kern_v_cell_read(be->kv_type, h->head_v, j->from + at + be->k_bytes, from_slot, scratch);
	kern_v_cell_write(be->kv_type, h->head_v, j->to + at + be->k_bytes, to_slot, scratch);
}

/* Items are (layer, KV head) pairs of the group. */
static void move_share(void *arg, size_t from, size_t to, size_t thread)
{
	const struct move_job *j = arg;
	void *scratch = j->be->scratch + thread * j->be->scratch_bytes;
	for (size_t head = from; head < to; head++)
		for (size_t cell = 0; cell < (size_t)j->move->n; cell++)
			move_cell(j, head, cell, scratch);
}

void cpu_kv_move(struct be *be, size_t group, const struct be_move *move)
{
	struct move_job j = {
			be, &be->groups[group], move, block_get(be, group, move->from), block_get(be, group, move->to)};
	for (int i = 0; i < MODEL_ROPES; i++)
		if (be->freqs[i])
			cpu_rope_angles(be, i, move->shift, 1.0f, be->shift_rope + (size_t)i * be->m->hp.n_rot);
	pool_run(be->pool, be->groups[group].n_layers * be->m->hp.n_head_kv, 1, move_share, &j);
}

static size_t cell_bytes_k(const struct be *be)
{
	return kern_cell_bytes(be->kv_type, be->m->hp.head_k);
}

static size_t cell_bytes_v(const struct be *be)
{
	return kern_cell_bytes(be->kv_type, be->m->hp.head_v);
}

size_t cpu_kv_cell_bytes(const struct be *be, size_t group)
{
	return (cell_bytes_k(be) + cell_bytes_v(be)) * be->groups[group].n_layers * be->m->hp.n_head_kv;
}

void cpu_kv_cell_read(struct be *be, size_t group, int32_t block, int32_t slot, void *out)
{
	const struct model_hparams *h = &be->m->hp;
	const uint8_t *area = block_get(be, group, block);
	uint8_t *cell = out;

	for (size_t i = 0; i < be->groups[group].n_layers * h->n_head_kv; i++, area += be->head_bytes) {
		kern_k_cell_read(be->kv_type, h->head_k, area, (size_t)slot, cell);
		kern_v_cell_read(be->kv_type, h->head_v, area + be->k_bytes, (size_t)slot, cell + cell_bytes_k(be));
		cell += cell_bytes_k(be) + cell_bytes_v(be);
	}
}

void cpu_kv_cell_write(struct be *be, size_t group, int32_t block, int32_t slot, const void *cell)
{
	const struct model_hparams *h = &be->m->hp;
	uint8_t *area = block_get(be, group, block);
	const uint8_t *in = cell;

	for (size_t i = 0; i < be->groups[group].n_layers * h->n_head_kv; i++, area += be->head_bytes) {
		kern_k_cell_write(be->kv_type, h->head_k, area, (size_t)slot, in);
		kern_v_cell_write(be->kv_type, h->head_v, area + be->k_bytes, (size_t)slot, in + cell_bytes_k(be));
		in += cell_bytes_k(be) + cell_bytes_v(be);
	}
}
