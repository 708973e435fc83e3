/* The CPU backend's experts.
 *
 * Rows are sorted by the experts they chose, so that a step is three products whatever was chosen: gate and up of all
 * experts in one run, down of all in another. Invariants
 *  1. Which experts a row chooses follows from its own scores: the highest first, the lower index where two are equal.
 *  2. A row's sum is taken in the order of its choice, whoever computed the parts and in whatever order. */
#include "backend/cpu.h"

#include "kern/kern_math.h"

#include <string.h>

/* Scores of one row over n experts: weights in place. */
static void soften(float *p, size_t n)
{
	float top = p[0], sum = 0.0f;
	for (size_t i = 1; i < n; i++)
		top = p[i] > top ? p[i] : top;
	for (size_t i = 0; i < n; i++) {
		p[i] = kern_exp(p[i] - top);
		sum += p[i];
	}
	for (size_t i = 0; i < n; i++)
		p[i] = p[i] / sum;
}

/* Fills in one row's choices, best first. p: [n_expert] its scores. */
static void choose(const struct be *be, const struct model_experts *x, float *p, int32_t row, struct cpu_route *out)
{
	const struct model_hparams *h = &be->m->hp;
	float w[4096], sum = 0.0f;
	bool taken[4096];

	memset(taken, 0, h->n_expert);
	if (x->router_b)
		be->kern->add(p, x->router_b->data, h->n_expert);
	if (h->gating == MODEL_GATE_SOFTMAX)
		soften(p, h->n_expert);
	for (size_t i = 0; h->gating == MODEL_GATE_SIGMOID && i < h->n_expert; i++)
		p[i] = 1.0f / (1.0f + kern_exp(-p[i]));
	for (size_t u = 0; u < h->n_expert_used; u++) {
		size_t best = SIZE_MAX;
		for (size_t e = 0; e < h->n_expert; e++)
			if (!taken[e] && (best == SIZE_MAX || p[e] > p[best]))
				best = e;
		taken[best] = true;
		out[u] = (struct cpu_route){.row = row, .expert = (int32_t)best};
		w[u] = p[best];
	}
	if (h->gating == MODEL_GATE_SOFTMAX_CHOSEN)
		soften(w, h->n_expert_used);
	for (size_t u = 0; u < h->n_expert_used; u++)
		sum += w[u];
	/* The least sum that is divided by is f16's least normal number, as everywhere. */
	const float by = h->expert_norm ? 1.0f / (sum > 0x1p-14f ? sum : 0x1p-14f) : 1.0f;
	for (size_t u = 0; u < h->n_expert_used; u++)
		out[u].weight = w[u] * by * h->expert_scale;
}

struct moe {
	struct be *be;
	const struct model_experts *x;
	struct be_buf *out, *route, *gate, *up, *down;
	const struct be_buf *in;
	size_t n, used;
	enum quant_act act; /* of the step at hand */
};

static void choose_share(void *arg, size_t from, size_t to, size_t thread)
{
	const struct moe *s = arg;
	(void)thread;
	for (size_t r = from; r < to; r++)
		choose(s->be, s->x, s->route->f + r * s->route->n_cols, (int32_t)r, s->be->routes + r * s->used);
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
	struct be *be = s->be;
	const size_t k = s->in->n_cols;

	(void)thread;
	for (size_t r = from; r < to; r++) {
		const struct cpu_route *t = be->routes + r * s->used;
		uint8_t *first = be->act + (size_t)t[0].slot * be->act_bytes;
		be->kern->act[s->act](s->in->f + r * k, k, first);
		for (size_t u = 1; u < s->used; u++)
			memcpy(be->act + (size_t)t[u].slot * be->act_bytes, first, kern_act_bytes(s->act, k));
	}
}

static void act_share(void *arg, size_t from, size_t to, size_t thread)
{
	const struct moe *s = arg;
	struct be *be = s->be;
	const size_t ff = s->gate->n_cols;

	(void)thread;
	for (size_t i = from; i < to; i++) {
		const struct cpu_route *t = be->routes + i;
		float *g = s->gate->f + (size_t)t->slot * ff, *u = s->up->f + (size_t)t->slot * ff;
		if (s->x->e.gate_b)
			be->kern->add(g, (const float *)s->x->e.gate_b->data + (size_t)t->expert * ff, ff);
		if (s->x->e.up_b)
			be->kern->add(u, (const float *)s->x->e.up_b->data + (size_t)t->expert * ff, ff);
		cpu_act_row(be, g, u, ff);
		be->kern->act[s->act](g, ff, be->act + (size_t)t->slot * be->act_bytes);
	}
}

static void sum_share(void *arg, size_t from, size_t to, size_t thread)
{
	const struct moe *s = arg;
	struct be *be = s->be;
	const size_t n = s->out->n_cols;

	(void)thread;
	for (size_t r = from; r < to; r++) {
		float *out = s->out->f + r * n;
		for (size_t u = 0; u < s->used; u++) {
			const struct cpu_route *t = be->routes + r * s->used + u;
			float *d = s->down->f + (size_t)t->slot * n;
			if (s->x->e.down_b)
				be->kern->add(d, (const float *)s->x->e.down_b->data + (size_t)t->expert * n, n);
			be->kern->scale(d, t->weight, n);
			if (u)
				be->kern->add(out, d, n);
			else
				memcpy(out, d, n * sizeof *out);
		}
	}
}

/* Adds the product of every expert that has rows; w: the first of their matrices. */
static size_t add_products(
		const struct moe *s, const int32_t *start, const struct model_weight *w, struct be_buf *out, size_t n)
{
	struct be *be = s->be;
	for (size_t e = 0; e < be->m->hp.n_expert; e++)
		if (start[e + 1] > start[e])
			be->mms[n++] = cpu_mm_of(be, &w[e], be->act + (size_t)start[e] * be->act_bytes, be->act_bytes,
					(size_t)(start[e + 1] - start[e]), out->f + (size_t)start[e] * out->n_cols,
					out->n_cols);
	return n;
}

void cpu_experts(struct be *be, struct be_buf *out, const struct be_buf *x, struct be_buf *route, struct be_buf *gate,
		struct be_buf *up, struct be_buf *down, size_t layer, size_t n)
{
	const struct model_hparams *h = &be->m->hp;
	const struct model_ffn *e = &be->m->layers[layer].experts.e;
	struct moe s = {.be = be,
			.x = &be->m->layers[layer].experts,
			.out = out,
			.in = x,
			.route = route,
			.gate = gate,
			.up = up,
			.down = down,
			.n = n,
			.used = h->n_expert_used};
	int32_t start[4097];

	be->rounded = NULL;
	pool_run(be->pool, n, 1, choose_share, &s);
	sort_routes(be->routes, n * s.used, h->n_expert, start);
	/* Gate and up are alike in almost every file; where not, each gets its own rounding. */
	const enum quant_act gate_act = quant_format_get(e->gate->type)->act,
			     up_act = quant_format_get(e->up->type)->act;
	s.act = gate_act;
	pool_run(be->pool, n, 1, input_share, &s);
	size_t n_mm = add_products(&s, start, e->gate, gate, 0);
	if (up_act != gate_act) {
		cpu_mm_run(be, be->mms, n_mm);
		s.act = up_act;
		pool_run(be->pool, n, 1, input_share, &s);
		n_mm = 0;
	}
	cpu_mm_run(be, be->mms, add_products(&s, start, e->up, up, n_mm));
	s.act = quant_format_get(e->down->type)->act;
	pool_run(be->pool, n * s.used, 1, act_share, &s);
	cpu_mm_run(be, be->mms, add_products(&s, start, e->down, down, 0));
	pool_run(be->pool, n, 1, sum_share, &s);
}

struct shared {
	struct be *be;
	struct be_buf *out;
	const struct be_buf *b, *x;
	const struct model_weight *w;
};

static void shared_share(void *arg, size_t from, size_t to, size_t thread)
{
	const struct shared *s = arg;

	(void)thread;
	for (size_t r = from; r < to; r++) {
		float *o = s->out->f + r * s->out->n_cols, *row = s->b->f + r * s->b->n_cols;
		if (s->w) {
			float lane[8] = {0};
			const float *v = s->x->f + r * s->x->n_cols, *by = s->w->data;
			for (size_t i = 0; i < s->x->n_cols; i++)
				lane[i % 8] = fmaf(by[i], v[i], lane[i % 8]);
			s->be->kern->scale(row, 1.0f / (1.0f + kern_exp(-kern_tree8(lane))), s->b->n_cols);
		}
		s->be->kern->add(o, row, s->out->n_cols);
	}
}

void cpu_add_shared(struct be *be, struct be_buf *out, const struct be_buf *b, const struct be_buf *x,
		const struct model_weight *w, size_t n)
{
	struct shared s = {be, out, b, x, w};

	be->rounded = be->rounded == out ? NULL : be->rounded;
	if (n * out->n_cols <= CPU_SERIAL_MAX)
		shared_share(&s, 0, n, 0);
	else
		pool_run(be->pool, n, 1, shared_share, &s);
}
