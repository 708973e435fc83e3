/* The CPU backend's adapters: y += scale * b (a x), on floats, for the rows that have one.
 *
 * Invariants
 *  1. A row's part follows from its own input and adapter; rows go together only where they have the same adapter.
 *  2. Adapters of the model come first, in their order, then the row's own. */
#include "backend/cpu.h"

#include "base/mem.h"

#include <string.h>

bool cpu_lora_init(struct cpu *c, const struct be_limits *lim)
{
	struct cpu_lora *l = &c->lora;

	l->base = lim->base;
	l->n_base = lim->n_base;
	l->rows = mem_zalloc(lim->n_rows_max, sizeof *l->rows);
	l->uses = mem_zalloc(lim->n_rows_max, sizeof *l->uses);
	bool ok = l->rows && l->uses;
	for (size_t i = 0; ok && i < l->n_base; i++)
		ok = cpu_lora_reserve(&c->base, l->base[i].loras);
	return ok;
}

void cpu_lora_release(struct cpu *c)
{
	struct cpu_lora *l = &c->lora;
	mem_free(l->rows);
	mem_free(l->uses);
	mem_free_aligned(l->x);
	mem_free_aligned(l->t);
	mem_free_aligned(l->y);
}

/* Room for n floats per row. */
static bool widen(const struct cpu *c, float **p, size_t *have, size_t n)
{
	size_t all;
	if (n <= *have)
		return true;
	float *more = size_mul(n, c->n_rows_max, &all) ? mem_zalloc_aligned(all, sizeof *more) : NULL;
	if (!more)
		return false;
	mem_free_aligned(*p);
	*p = more;
	*have = n;
	return true;
}

bool cpu_lora_reserve(struct be *be, const struct model_loras *a)
{
	struct cpu *c = (struct cpu *)be;
	struct cpu_lora *l = &c->lora;
	return widen(c, &l->x, &l->x_n, a->k_max) && widen(c, &l->t, &l->t_n, a->rank_max) &&
			widen(c, &l->y, &l->y_n, a->rows_max);
}

void cpu_lora_begin(struct cpu *c, const int32_t *map, size_t n)
{
	struct cpu_lora *l = &c->lora;
	const struct be_lora *lora = c->rows->lora;

	l->n_rows = 0;
	for (size_t i = 0; lora && i < n; i++) {
		const struct be_lora *use = &lora[map ? (size_t)map[i] : i];
		if (!use->loras)
			continue;
		/* Behind the last with the same adapter: there are few, and neighbours are mostly alike. */
		size_t at = l->n_rows;
		while (at > 0 && l->uses[at - 1]->loras != use->loras)
			at--;
		at = at ? at : l->n_rows;
		memmove(l->rows + at + 1, l->rows + at, (l->n_rows - at) * sizeof *l->rows);
		memmove(l->uses + at + 1, l->uses + at, (l->n_rows - at) * sizeof *l->uses);
		l->rows[at] = (int32_t)i;
		l->uses[at] = use;
		l->n_rows++;
	}
}

/* The product of a matrix of an adapter with n rows from x on. */
static struct cpu_mm product(
		const struct cpu *c, const struct model_weight *w, const float *x, size_t ld, size_t n, float *out)
{
	return (struct cpu_mm){
			.mm = {.w = w->data,
					.n_rows = w->n_rows,
					.k = w->k,
					.n_cols = n,
					.act = x,
					.act_bytes = ld * sizeof *x,
					.out = out,
					.out_ld = w->n_rows},
			.mat = &c->kern->file[w->type],
			.row_bytes = w->row_bytes,
	};
}

/* n rows from x on with one adapter; the result of row i goes to out + to[i] * out_ld (i when to is NULL). */
struct part {
	struct cpu *c;
	const struct model_lora *w;
	const float *x;
	size_t ld, n;
	const struct be_lora *const *uses; /* or NULL: all rows have */
	float scale;
	float *out;
	size_t out_ld;
	const int32_t *to;
};

static void scale_rows(const struct part *p, size_t from, size_t to)
{
	const size_t rank = p->w->a->n_rows;
	for (size_t i = from; i < to; i++)
		p->c->kern->scale(p->c->lora.t + i * rank, p->w->scale * (p->uses ? p->uses[i]->scale : p->scale),
				rank);
}

static void add_rows(const struct part *p, size_t from, size_t to)
{
	const size_t width = p->w->b.n_rows;
	for (size_t i = from; i < to; i++)
		p->c->kern->add(p->out + (p->to ? (size_t)p->to[i] : i) * p->out_ld, p->c->lora.y + i * width,
				width);
}

static void part_share(void *arg, size_t from, size_t to, size_t thread)
{
	const struct part *p = arg;
	const struct cpu_lora *l = &p->c->lora;
	const size_t n = to - from, rank = p->w->a->n_rows, width = p->w->b.n_rows;
	void *scratch = p->c->scratch + thread * p->c->scratch_bytes;
	struct cpu_mm a = product(p->c, p->w->a, p->x + from * p->ld, p->ld, n, l->t + from * rank);
	struct cpu_mm b = product(p->c, &p->w->b, l->t + from * rank, rank, n, l->y + from * width);

	a.mm.scratch = b.mm.scratch = scratch;
	a.mat->mm(&a.mm, 0, rank);
	scale_rows(p, from, to);
	b.mat->mm(&b.mm, 0, width);
	add_rows(p, from, to);
}

/* A narrow matrix has too few rows to share out, so threads take rows of the input where there are some. */
static void add_part(const struct part *p)
{
	struct cpu *c = p->c;
	const size_t rank = p->w->a->n_rows;

	if (p->n >= 2 * pool_size(c->pool)) {
		pool_run(c->pool, p->n, 1, part_share, (void *)p);
		return;
	}
	const struct cpu_mm a = product(c, p->w->a, p->x, p->ld, p->n, c->lora.t);
	const struct cpu_mm b = product(c, &p->w->b, c->lora.t, rank, p->n, c->lora.y);
	cpu_mm_run(c, &a, 1);
	scale_rows(p, 0, p->n);
	cpu_mm_run(c, &b, 1);
	add_rows(p, 0, p->n);
}

/* The part that a share of the product's rows takes of a pair. */
static struct model_lora share_of(const struct cpu *c, const struct model_lora *pair, const struct model_weight *w)
{
	const struct cpu_weight *bw = &c->w->w[w->index];
	struct model_lora share = *pair;

	if (pair->a) {
		share.b.n_rows = bw->mw.n_rows;
		share.b.data = (const uint8_t *)pair->b.data + bw->row0 * pair->b.row_bytes;
	}
	return share;
}

void cpu_lora_add(struct cpu *c, const struct model_weight *w, const struct cpu_buf *x, size_t n, float *out,
		size_t out_ld)
{
	struct cpu_lora *l = &c->lora;

	out += c->w->w[w->index].row0;
	for (size_t i = 0; i < l->n_base; i++) {
		const struct model_lora pair = share_of(c, &l->base[i].loras->of[w->index], w);
		if (pair.a)
			add_part(&(struct part){c, &pair, x->f, x->base.n_cols, n, NULL, l->base[i].scale, out, out_ld,
					NULL});
	}
	for (size_t from = 0, to; from < l->n_rows; from = to) {
		const struct model_loras *a = l->uses[from]->loras;
		const struct model_lora pair = share_of(c, &a->of[w->index], w);
		for (to = from; to < l->n_rows && l->uses[to]->loras == a; to++)
			if (pair.a)
				memcpy(l->x + (to - from) * w->k, x->f + (size_t)l->rows[to] * x->base.n_cols,
						w->k * sizeof *l->x);
		if (pair.a)
			add_part(&(struct part){c, &pair, l->x, w->k, to - from, l->uses + from, 0.0f, out, out_ld,
					l->rows + from});
	}
}
