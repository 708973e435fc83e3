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

/* For attention, and for a cell's K of one head as floats. */
size_t cpu_kv_scratch_bytes(const struct be_limits *lim)
{
	size_t most = 0;

	for (size_t l = 0; l < lim->n_layers; l++) {
		const struct be_cell_layer *s = &lim->layers[l];
		const size_t attn = kern_attn_scratch_bytes(KERN_ATTN_ROWS, s->n_q / s->n_kv, s->head_k, s->head_v);
		const size_t cell = s->head_k * sizeof(float) + kern_cell_bytes(KERN_KV_F32, s->head_v);
		most = attn > most ? attn : most;
		most = cell > most ? cell : most;
	}
	return most;
}

void cpu_kv_release(struct cpu *c)
{
	for (size_t g = 0; g < BE_GROUPS_MAX; g++)
		mem_free_aligned(c->groups[g].kv);
	mem_free(c->layers);
}

bool cpu_kv_init(struct cpu *c, const struct be_limits *lim)
{
	static const enum kern_kv types[] = {
		[COHORT_KV_F16] = KERN_KV_F16, [COHORT_KV_F32] = KERN_KV_F32, [COHORT_KV_Q8_0] = KERN_KV_Q8_0,
	};

	c->kv_type = types[lim->kv_type];
	c->n_groups = lim->n_groups;
	c->n_layers = lim->n_layers;
	c->layers = mem_zalloc(lim->n_layers, sizeof *c->layers);
	if (!c->layers)
		return false;
	for (size_t i = 0; i < lim->n_layers; i++) {
		struct cpu_layer *l = &c->layers[i];
		struct cpu_kv_group *g = &c->groups[lim->layers[i].group];
		size_t bytes, *block_bytes = &c->base.block_bytes[lim->layers[i].group];
		l->shape = lim->layers[i];
		l->k_bytes = kern_k_area_bytes(c->kv_type, l->shape.head_k);
		l->head_bytes = l->k_bytes + kern_v_area_bytes(c->kv_type, l->shape.head_v);
		l->k_cell = kern_cell_bytes(c->kv_type, l->shape.head_k);
		l->v_cell = kern_cell_bytes(c->kv_type, l->shape.head_v);
		l->at = *block_bytes;
		if (!size_mul(l->head_bytes, l->shape.n_kv, &bytes) || !size_add(l->at, bytes, block_bytes))
			return false;
		c->base.cell_bytes[l->shape.group] += (l->k_cell + l->v_cell) * l->shape.n_kv;
		g->n_heads += l->shape.n_kv;
	}
	for (size_t i = 0; i < lim->n_groups; i++) {
		struct cpu_kv_group *g = &c->groups[i];
		g->window = lim->window[i];
		if (!size_mul(c->base.block_bytes[i], lim->n_blocks[i], &g->bytes) ||
				!(g->kv = mem_zalloc_large(g->bytes)))
			return false;
	}
	return true;
}

/* ---- Rows ---- */

static void rotate(const struct cpu *c, int rope, float *x, const float *angles)
{
	const struct be_rope *r = &c->ropes[rope];
	c->kern->rope(x, r->n_rot, angles, angles + r->n_rot / 2, r->halves);
}

static uint8_t *block_get(const struct cpu *c, size_t group, int32_t block)
{
	return c->groups[group].kv + (size_t)block * c->base.block_bytes[group];
}

struct store_job {
	struct cpu *c;
	const struct be_qkv *d;
	const struct cpu_layer *layer;
	struct be_buf *q, *k, *v;
	const struct be_store *stores;
};

static float *row_of(const struct be_buf *b, size_t r)
{
	return ((const struct cpu_buf *)b)->f + r * b->n_cols;
}

static void store(const struct store_job *j, const struct be_store *st)
{
	const struct cpu *c = j->c;
	const struct cpu_layer *l = j->layer;
	const size_t head_k = l->shape.head_k, head_v = l->shape.head_v;
	const float *k = row_of(j->k, (size_t)st->row), *v = row_of(j->v, (size_t)st->row);
	uint8_t *area = block_get(c, l->shape.group, st->block) + l->at;

	for (size_t h = 0; h < l->shape.n_kv; h++, area += l->head_bytes) {
		c->kern->put_k[c->kv_type](k + h * head_k, head_k, (size_t)st->slot, area);
		c->kern->put_v[c->kv_type](v + h * head_v, head_v, (size_t)st->slot, area + l->k_bytes);
	}
}

/* Bias, clamp, norm of each head or of the row, rotation: what q and k go through. */
static void finish_heads(const struct store_job *j, float *x, size_t n_heads, const struct model_weight *bias,
		const struct be_norm *norm, const float *angles)
{
	const struct cpu *c = j->c;
	const size_t head = j->layer->shape.head_k;

	if (bias)
		c->kern->add(x, bias->data, n_heads * head);
	be_clamp(x, j->d->clamp, n_heads * head);
	if (norm->w && norm->w->k != head)
		cpu_norm_row(c, norm, x, n_heads * head, x);
	for (size_t i = 0; i < n_heads; i++) {
		float *y = x + i * head;
		if (norm->w && norm->w->k == head && norm->w->n_rows == 1)
			cpu_norm_row(c, norm, y, head, y);
		else if (norm->w && norm->w->k == head) {
			struct model_weight own = *norm->w; /* a row for each head */
			struct be_norm of_head = *norm;
			own.data = (const float *)norm->w->data + i * head;
			of_head.w = &own;
			cpu_norm_row(c, &of_head, y, head, y);
		}
		if (angles)
			rotate(c, j->d->rope, y, angles);
	}
}

static void store_share(void *arg, size_t from, size_t to, size_t thread)
{
	const struct store_job *j = arg;
	const struct cpu *c = j->c;
	const struct be_qkv *d = j->d;

	(void)thread;
	for (size_t r = from; r < to; r++) {
		const float *angles = d->rope < 0 ? NULL : c->rope + ((size_t)d->rope * c->n_rows_max + r) * c->n_rot;
		float *q = row_of(j->q, r), *v = row_of(j->v, r);
		finish_heads(j, q, j->layer->shape.n_q, d->bq, &d->q_norm, angles);
		finish_heads(j, row_of(j->k, r), j->layer->shape.n_kv, d->bk, &d->k_norm, angles);
		c->kern->scale(q, be_query_scale(d, c->rows->pos[r]), j->q->n_cols);
		if (d->bv)
			c->kern->add(v, d->bv->data, j->v->n_cols);
		be_clamp(v, d->clamp, j->v->n_cols);
		store(j, &j->stores[r]);
	}
}

/* The first n stores are the rows' own, in order, so that a thread stores the rows it rotated; the few others follow.
 */
void cpu_kv_qkv_store(struct be_buf *q, struct be_buf *k, struct be_buf *v, const struct be_qkv *d)
{
	struct cpu *c = cpu_of(q);
	const struct cpu_layer *layer = &c->layers[d->layer];
	const struct be_cells *cells = &c->rows->cells[layer->shape.group];
	struct store_job j = {c, d, layer, q, k, v, cells->stores};

	c->rounded = NULL;
	if (c->rows->n * q->n_cols <= CPU_SERIAL_MAX)
		store_share(&j, 0, c->rows->n, 0);
	else
		pool_run(c->pool, c->rows->n, 1, store_share, &j);
	for (size_t i = c->rows->n; i < cells->n_stores; i++)
		store(&j, &cells->stores[i]);
}

/* ---- Attention ---- */

struct attn_job {
	struct cpu *c;
	const struct be_attend *d;
	const struct cpu_layer *layer;
	const struct be_cells *cells;
	const struct be_buf *q;
	struct be_buf *out;
	const int32_t *rows; /* or NULL */
	size_t n, run;       /* output rows, and how many go together */
};

/* What output row i attends to, apart from the head. Positions count from the table's first entry: only distances
 * matter. */
static struct kern_attn attn_row(const struct attn_job *j, size_t i)
{
	const struct cpu *c = j->c;
	const struct be_cell_layer *s = &j->layer->shape;
	const struct cpu_kv_group *g = &c->groups[s->group];
	const size_t r = j->rows ? (size_t)j->rows[i] : i, base = (size_t)j->cells->base[r];
	const size_t pos = (size_t)c->rows->pos[r] - base;
	size_t first = (size_t)j->cells->first[r] - base, end = (size_t)c->rows->end[r] - base;

	if (g->window && pos + 1 > g->window && pos + 1 - g->window > first)
		first = pos + 1 - g->window;
	if (g->window && end > pos + g->window) /* of rows that see what comes after them, too */
		end = pos + g->window;
	return (struct kern_attn){
			.q = row_of(j->q, r),
			.n_q = s->n_q / s->n_kv,
			.head_k = s->head_k,
			.head_v = s->head_v,
			.kv = g->kv,
			.block_bytes = c->base.block_bytes[s->group],
			.table = j->cells->blocks + j->cells->table[r],
			.held = j->cells->gaps[r] ? j->cells->held + j->cells->table[r] : NULL,
			.pos0 = first,
			.pos1 = end,
			.pos = pos,
			.cap = j->d->cap,
			.out = row_of(j->out, i),
	};
}

/* Items are (run of rows, KV head) pairs, the last run first: in a prompt it has the longest way. */
static void attn_share(void *arg, size_t from, size_t to, size_t thread)
{
	const struct attn_job *j = arg;
	struct cpu *c = j->c;
	const struct be_cell_layer *s = &j->layer->shape;
	const size_t n_runs = (j->n + j->run - 1) / j->run, n_q = s->n_q / s->n_kv;

	for (size_t t = from; t < to; t++) {
		const size_t h = t % s->n_kv, at = j->layer->at + h * j->layer->head_bytes;
		const size_t i0 = (n_runs - 1 - t / s->n_kv) * j->run;
		const size_t n = j->n - i0 < j->run ? j->n - i0 : j->run;
		struct kern_attn rows[KERN_ATTN_ROWS];
		for (size_t i = 0; i < n; i++) {
			rows[i] = attn_row(j, i0 + i);
			rows[i].q += h * n_q * s->head_k;
			rows[i].out += h * n_q * s->head_v;
			rows[i].slopes = j->d->slopes ? j->d->slopes + h * n_q : NULL;
			rows[i].sinks = j->d->sinks ? (const float *)j->d->sinks->data + h * n_q : NULL;
			rows[i].k_offset = at;
			rows[i].v_offset = at + j->layer->k_bytes;
		}
		kern_attn(c->kern, c->kv_type, rows, n, c->scratch + thread * c->scratch_bytes);
	}
}

/* Rows that go together: as many as leave every thread several items to choose from. */
static size_t run_length(const struct cpu *c, size_t n_kv, size_t n)
{
	const size_t most = n * n_kv / (4 * pool_size(c->pool));
	return most < 1 ? 1 : most < KERN_ATTN_ROWS ? most : KERN_ATTN_ROWS;
}

void cpu_kv_attention(struct be_buf *out, const struct be_buf *q, const struct be_attend *d, const int32_t *rows,
		size_t n)
{
	struct cpu *c = cpu_of(out);
	const struct cpu_layer *layer = &c->layers[d->layer];
	const size_t n_kv = layer->shape.n_kv, run = run_length(c, n_kv, n);
	struct attn_job j = {c, d, layer, &c->rows->cells[layer->shape.group], q, out, rows, n, run};

	c->rounded = NULL;
	pool_run(c->pool, (n + run - 1) / run * n_kv, 1, attn_share, &j);
}

/* ---- Blocks and cells ---- */

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
	struct cpu *c = (struct cpu *)be;

	for (size_t i = 0; i < c->n_groups; i++)
		pool_run(c->pool, (c->groups[i].bytes + TOUCH_SHARE - 1) / TOUCH_SHARE, 1, touch_share, &c->groups[i]);
}

struct move_job {
	struct cpu *c;
	size_t group;
	const struct be_move *move;
	const uint8_t *from;
	uint8_t *to;
};

/* One cell of one head, whose areas are at from and to. */
static void move_cell(const struct move_job *j, const struct cpu_layer *l, const uint8_t *from, uint8_t *to,
		size_t cell, void *scratch)
{
	const struct cpu *c = j->c;
	const size_t head_k = l->shape.head_k, head_v = l->shape.head_v;
	const int rope = l->shape.rope;
	const size_t from_slot = (size_t)j->move->from_slot + cell, to_slot = (size_t)j->move->to_slot + cell;

	if (j->move->shift == 0 || rope < 0) {
		kern_k_cell_read(c->kv_type, head_k, from, from_slot, scratch);
		kern_k_cell_write(c->kv_type, head_k, to, to_slot, scratch);
	} else {
		c->kern->get_k[c->kv_type](from, head_k, from_slot, scratch);
		rotate(c, rope, scratch, c->shift_rope + (size_t)rope * c->n_rot);
		c->kern->put_k[c->kv_type](scratch, head_k, to_slot, to);
	}
	kern_v_cell_read(c->kv_type, head_v, from + l->k_bytes, from_slot, scratch);
	kern_v_cell_write(c->kv_type, head_v, to + l->k_bytes, to_slot, scratch);
}

/* Items are KV heads of all the group's layers. */
static void move_share(void *arg, size_t from, size_t to, size_t thread)
{
	const struct move_job *j = arg;
	struct cpu *c = j->c;
	void *scratch = c->scratch + thread * c->scratch_bytes;
	size_t item = 0;

	for (size_t i = 0; i < c->n_layers && item < to; i++) {
		const struct cpu_layer *l = &c->layers[i];
		for (size_t h = 0; l->shape.group == j->group && h < l->shape.n_kv; h++, item++) {
			const size_t at = l->at + h * l->head_bytes;
			for (size_t cell = 0; item >= from && item < to && cell < (size_t)j->move->n; cell++)
				move_cell(j, l, j->from + at, j->to + at, cell, scratch);
		}
	}
}

void cpu_kv_cells_move(struct be *be, size_t group, const struct be_move *moves, size_t n)
{
	struct cpu *c = (struct cpu *)be;

	for (size_t m = 0; m < n; m++) {
		struct move_job j = {c, group, &moves[m], block_get(c, group, moves[m].from),
				block_get(c, group, moves[m].to)};
		if (moves[m].n == BE_BLOCK && moves[m].shift == 0) {
			memcpy(j.to, j.from, c->base.block_bytes[group]);
			continue;
		}
		for (size_t i = 0; i < c->n_ropes; i++)
			if (c->ropes[i].freqs)
				be_rope_angles(&c->ropes[i], moves[m].shift, 1.0f, c->shift_rope + i * c->n_rot);
		pool_run(c->pool, c->groups[group].n_heads, 1, move_share, &j);
	}
}

/* A cell, or a state, as bytes: from there where `store`, otherwise to there. */
static void cell_pass(
		const struct cpu *c, size_t group, const struct be_span *s, size_t cell, uint8_t *bytes, bool store)
{
	const size_t slot = (size_t)s->slot + cell;

	if (group == BE_STATES) {
		float *state = c->states + (size_t)s->block * c->state_n;
		memcpy(store ? (void *)state : bytes, store ? bytes : (void *)state, c->base.cell_bytes[group]);
		return;
	}
	for (size_t i = 0; i < c->n_layers; i++) {
		const struct cpu_layer *l = &c->layers[i];
		uint8_t *area = block_get(c, group, s->block) + l->at;
		for (size_t h = 0; l->shape.group == group && h < l->shape.n_kv; h++, area += l->head_bytes) {
			uint8_t *v = area + l->k_bytes, *v_bytes = bytes + l->k_cell;
			if (store) {
				kern_k_cell_write(c->kv_type, l->shape.head_k, area, slot, bytes);
				kern_v_cell_write(c->kv_type, l->shape.head_v, v, slot, v_bytes);
			} else {
				kern_k_cell_read(c->kv_type, l->shape.head_k, area, slot, bytes);
				kern_v_cell_read(c->kv_type, l->shape.head_v, v, slot, v_bytes);
			}
			bytes = v_bytes + l->v_cell;
		}
	}
}

void cpu_kv_cells_pass(struct be *be, size_t group, const struct be_span *spans, size_t n, void *bytes, size_t step,
		bool store)
{
	uint8_t *cell = bytes;

	for (size_t i = 0; i < n; i++)
		for (size_t k = 0; k < (size_t)spans[i].n; k++, cell += step)
			cell_pass((const struct cpu *)be, group, &spans[i], k, cell, store);
}
