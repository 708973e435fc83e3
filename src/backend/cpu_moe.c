/* The CPU backend's experts.
 *
 * Rows are sorted by the experts they chose, so that a step is three products whatever was chosen: gate and up of all
 * experts in one run, down of all in another. Invariants
 *  1. Which experts a row chooses follows from its own scores: the highest first, the lower index where two are equal.
 *  2. A row's sum is taken in the order of its choice, whoever computed the parts and in whatever order. */
#include "backend/cpu.h"

#include "kern/kern_math.h"

#include <string.h>

/* Fills in one row's choices, best first. p: [n] its scores. */
static void choose(const struct cpu *c, const struct be_experts *d, float *p, int32_t row, struct cpu_route *out)
{
	int32_t chosen[BE_EXPERTS_MAX];
	float weights[BE_EXPERTS_MAX];

	if (d->router_b)
		c->kern->add(p, d->router_b->data, d->n);
	be_choose(d, p, chosen, weights);
	for (size_t u = 0; u < d->n_used; u++)
		out[u] = (struct cpu_route){.row = row, .expert = chosen[u], .weight = weights[u]};
}

struct moe {
	struct cpu *c;
	const struct be_experts *d;
	struct cpu_buf *out, *route, *gate, *up, *down;
	const struct cpu_buf *in;
	size_t n, used;
	enum quant_act act; /* of the step at hand */
};

static void choose_share(void *arg, size_t from, size_t to, size_t thread)
{
	const struct moe *s = arg;
	(void)thread;
	for (size_t r = from; r < to; r++)
		choose(s->c, s->d, s->route->f + r * s->route->base.n_cols, (int32_t)r, s->c->routes + r * s->used);
}

/* Places for the routes, expert by expert, rows in order; start: [n_expert + 1]. */
static void sort_routes(struct cpu_route *routes, size_t n, size_t n_expert, int32_t *start)
{
	memset(start, 0, (n_expert + 1) * sizeof *start);
	for (size_t i = 0; i < n; i++)
		start[routes[i].expert + 1]++;
	for (size_t e = 0; e < n_expert; e++)
		start[e + 1] += start[e];
	for (size_t i = 0; i < n; i++)
		routes[i].slot = start[routes[i].expert]++;
	memmove(start + 1, start, n_expert * sizeof *start);
	start[0] = 0;
}

/* A row's input, rounded for the experts' matrices, in its slot. */
static void input_share(void *arg, size_t from, size_t to, size_t thread)
{
	const struct moe *s = arg;
	struct cpu *c = s->c;
	const size_t k = s->in->base.n_cols;

	(void)thread;
	for (size_t r = from; r < to; r++) {
		const struct cpu_route *t = c->routes + r * s->used;
		uint8_t *first = c->act + (size_t)t[0].slot * c->act_bytes;
		c->kern->act[s->act](s->in->f + r * k, k, first);
		for (size_t u = 1; u < s->used; u++)
			memcpy(c->act + (size_t)t[u].slot * c->act_bytes, first, kern_act_bytes(s->act, k));
	}
}

static void act_share(void *arg, size_t from, size_t to, size_t thread)
{
	const struct moe *s = arg;
	struct cpu *c = s->c;
	const size_t ff = s->gate->base.n_cols;

	(void)thread;
	for (size_t i = from; i < to; i++) {
		const struct cpu_route *t = c->routes + i;
		float *g = s->gate->f + (size_t)t->slot * ff, *u = s->up->f + (size_t)t->slot * ff;
		if (s->d->ffn.gate_b)
			c->kern->add(g, (const float *)s->d->ffn.gate_b->data + (size_t)t->expert * ff, ff);
		if (s->d->ffn.up_b)
			c->kern->add(u, (const float *)s->d->ffn.up_b->data + (size_t)t->expert * ff, ff);
		cpu_act_row(c, s->d->ffn.act, g, u, ff);
		c->kern->act[s->act](g, ff, c->act + (size_t)t->slot * c->act_bytes);
	}
}

static void sum_share(void *arg, size_t from, size_t to, size_t thread)
{
	const struct moe *s = arg;
	struct cpu *c = s->c;
	const size_t n = s->out->base.n_cols;

	(void)thread;
	for (size_t r = from; r < to; r++) {
		float *out = s->out->f + r * n;
		for (size_t u = 0; u < s->used; u++) {
			const struct cpu_route *t = c->routes + r * s->used + u;
			float *d = s->down->f + (size_t)t->slot * n;
			if (s->d->ffn.down_b)
				c->kern->add(d, (const float *)s->d->ffn.down_b->data + (size_t)t->expert * n, n);
			c->kern->scale(d, t->weight, n);
			if (u)
				c->kern->add(out, d, n);
			else
				memcpy(out, d, n * sizeof *out);
		}
	}
}

/* Adds the product of every expert that has rows; w: the first of their matrices. */
static size_t add_products(
		const struct moe *s, const int32_t *start, const struct model_weight *w, struct cpu_buf *out, size_t n)
{
	struct cpu *c = s->c;
	for (size_t e = 0; e < s->d->n; e++)
		if (start[e + 1] > start[e])
			c->mms[n++] = cpu_mm_of(c, &w[e], c->act + (size_t)start[e] * c->act_bytes, c->act_bytes,
					(size_t)(start[e + 1] - start[e]), out->f + (size_t)start[e] * out->base.n_cols,
					out->base.n_cols);
	return n;
}

void cpu_experts(struct be_buf *out, const struct be_buf *x, const struct be_experts *d,
		const struct be_expert_bufs *bufs, size_t n)
{
	struct cpu *c = cpu_of(out);
	const struct be_ffn *f = &d->ffn;
	struct moe s = {.c = c,
			.d = d,
			.out = (struct cpu_buf *)out,
			.in = (const struct cpu_buf *)x,
			.route = (struct cpu_buf *)bufs->route,
			.gate = (struct cpu_buf *)bufs->gate,
			.up = (struct cpu_buf *)bufs->up,
			.down = (struct cpu_buf *)bufs->down,
			.n = n,
			.used = d->n_used};
	int32_t start[BE_EXPERTS_MAX + 1];

	c->rounded = NULL;
	pool_run(c->pool, n, 1, choose_share, &s);
	sort_routes(c->routes, n * s.used, d->n, start);
	/* Gate and up are alike in almost every file; where not, the input is quantized for each. */
	const enum quant_act gate_act = quant_format_get(f->gate->type)->act,
			     up_act = quant_format_get(f->up->type)->act;
	s.act = gate_act;
	pool_run(c->pool, n, 1, input_share, &s);
	size_t n_mm = add_products(&s, start, f->gate, s.gate, 0);
	if (up_act != gate_act) {
		cpu_mm_run(c, c->mms, n_mm);
		s.act = up_act;
		pool_run(c->pool, n, 1, input_share, &s);
		n_mm = 0;
	}
	cpu_mm_run(c, c->mms, add_products(&s, start, f->up, s.up, n_mm));
	s.act = quant_format_get(f->down->type)->act;
	pool_run(c->pool, n * s.used, 1, act_share, &s);
	cpu_mm_run(c, c->mms, add_products(&s, start, f->down, s.down, 0));
	pool_run(c->pool, n, 1, sum_share, &s);
}

struct gated {
	struct cpu *c;
	struct cpu_buf *out, *b;
	const struct cpu_buf *x;
	const struct model_weight *w;
};

static void gated_row(const void *job, size_t r)
{
	const struct gated *s = job;
	const size_t n = s->out->base.n_cols;
	float *out = s->out->f + r * n, *row = s->b->f + r * n;

	if (s->w) {
		float lane[8] = {0};
		const size_t k = s->x->base.n_cols;
		const float *v = s->x->f + r * k, *by = s->w->data;
		for (size_t i = 0; i < k; i++)
			lane[i % 8] = fmaf(by[i], v[i], lane[i % 8]);
		s->c->kern->scale(row, 1.0f / (1.0f + kern_exp(-kern_tree8(lane))), n);
	}
	s->c->kern->add(out, row, n);
}

void cpu_add_gated(struct be_buf *out, struct be_buf *b, const struct be_buf *x, const struct model_weight *w, size_t n)
{
	struct cpu *c = cpu_of(out);
	struct gated s = {c, (struct cpu_buf *)out, (struct cpu_buf *)b, (const struct cpu_buf *)x, w};

	c->rounded = c->rounded == s.out || c->rounded == s.b ? NULL : c->rounded;
	cpu_run_rows(c, n, out->n_cols, gated_row, &s);
}
