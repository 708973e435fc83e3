/* A tree of continuations, level by level.
 *
 * Invariants
 *  1. Nodes are in the order they were found: children of a node stand together, behind all nodes of their parent's
 *     level.
 *  2. Live branch i is that of node of[i], or the beginning; only nodes that may have children have one. */
#include "search/search.h"

#include "base/err.h"
#include "base/fmath.h"
#include "base/mem.h"
#include "base/params.h"

struct grown {
	struct cohort_tree_params p;
	struct search s;
	struct cohort_tree t;
	size_t nodes_max;
	struct cohort_logprob *top; /* [top_k] */
	struct search_step *steps;
	int32_t *of, *then;         /* of the live branches, now and on the next level; -1: the beginning */
	int32_t n_steps;
	size_t steps_max, of_max, then_max;
};

void cohort_tree_params_init(struct cohort_tree_params *p)
{
	if (p)
		*p = (struct cohort_tree_params){
				.struct_size = sizeof *p,
				.depth = 3,
				.top_k = 3,
				.n_max = 1000,
		};
}

static enum cohort_status no_memory(struct cohort_err *err)
{
	return err_set(err, COHORT_E_MEMORY, "out of memory for a tree");
}

static enum cohort_status check(const struct cohort_tree_params *p, struct cohort_err *err)
{
	if (search_at_least_1(err, "depth", p->depth) || search_at_least_1(err, "top_k", p->top_k) ||
			search_at_least_1(err, "n_max", p->n_max))
		return COHORT_E_ARG;
	if (!(p->min_prob >= 0 && p->min_prob <= 1))
		return err_rule(err, COHORT_E_ARG, "search-params", -1, -1, 0, 0, "min_prob is %g, expected 0 to 1",
				p->min_prob);
	return COHORT_OK;
}

/* A child of the node whose branch is live[from]. */
static enum cohort_status add_node(struct grown *g, int32_t from, const struct cohort_logprob *l, int32_t depth,
		struct cohort_err *err)
{
	const int32_t parent = g->of[from], n = g->t.n_nodes;
	const bool end = g->s.is_end[l->token];

	if (!mem_grow((void **)&g->t.nodes, &g->nodes_max, (size_t)n + 1, sizeof *g->t.nodes) ||
			!mem_grow((void **)&g->steps, &g->steps_max, (size_t)g->n_steps + 1, sizeof *g->steps) ||
			!mem_grow((void **)&g->then, &g->then_max, (size_t)g->n_steps + 1, sizeof *g->then))
		return no_memory(err);
	struct cohort_tree_node *up = parent >= 0 ? &g->t.nodes[parent] : NULL;
	const double sum = (up ? up->sum : 0) + (double)l->logprob;
	g->t.nodes[n] = (struct cohort_tree_node){l->token, l->logprob, sum, parent, depth, -1, 0, end};
	if (up && up->n_children++ == 0)
		up->first_child = n;
	g->t.n_roots += !up;
	g->t.n_nodes++;
	if (!end && depth < g->p.depth) {
		g->then[g->n_steps] = n;
		g->steps[g->n_steps++] = (struct search_step){from, l->token};
	}
	return COHORT_OK;
}

static enum cohort_status grow_level(struct grown *g, int32_t depth, struct cohort_err *err)
{
	const int32_t most = g->p.top_k < g->s.n_vocab ? g->p.top_k : g->s.n_vocab;
	enum cohort_status st = COHORT_OK;

	g->n_steps = 0;
	for (int32_t i = 0; i < g->s.n_live && !st; i++) {
		int32_t n = 0;
		st = search_follow(&g->s, g->s.live[i], g->top, most, &n, err);
		for (int32_t k = 0; k < n && !st; k++) {
			if (fm_exp((double)g->top[k].logprob) < g->p.min_prob)
				break;
			if (g->t.n_nodes == g->p.n_max) {
				g->t.cut = true;
				g->n_steps = 0;
				return COHORT_OK;
			}
			st = add_node(g, i, &g->top[k], depth, err);
		}
	}
	return st;
}

static enum cohort_status grow(struct grown *g, struct cohort_err *err)
{
	enum cohort_status st = COHORT_OK;

	g->top = mem_alloc((size_t)(g->p.top_k < g->s.n_vocab ? g->p.top_k : g->s.n_vocab), sizeof *g->top);
	if (!g->top || !mem_grow((void **)&g->of, &g->of_max, 1, sizeof *g->of) ||
			!mem_grow((void **)&g->t.nodes, &g->nodes_max, 1, sizeof *g->t.nodes))
		return no_memory(err);
	g->of[0] = -1;
	for (int32_t depth = 1; !st && g->s.n_live > 0; depth++) {
		st = grow_level(g, depth, err);
		if (!st)
			st = search_advance(&g->s, g->steps, g->n_steps, err);
		int32_t *of = g->of;
		const size_t of_max = g->of_max;
		g->of = g->then;
		g->of_max = g->then_max;
		g->then = of;
		g->then_max = of_max;
	}
	return st;
}

enum cohort_status cohort_tree_grow(struct cohort_forest *forest, struct cohort_branch branch,
		const struct cohort_tree_params *params, struct cohort_tree *out, struct cohort_err *err)
{
	struct grown g = {.n_steps = 0};

	cohort_tree_params_init(&g.p);
	if (!out)
		return err_set(err, COHORT_E_ARG, "out is NULL");
	if (params && !params_take(&g.p, sizeof g.p, params))
		return err_rule(err, COHORT_E_ARG, "search-params", -1, -1, 0, 0,
				"tree parameters were not initialised by cohort_tree_params_init");
	enum cohort_status st = check(&g.p, err);
	if (!st)
		st = search_open(&g.s, forest, branch, g.p.ends, g.p.n_ends, true, err);
	if (st)
		return st;
	st = grow(&g, err);
	search_close(&g.s);
	if (!st)
		*out = g.t;
	else
		cohort_tree_release(&g.t);
	mem_free(g.top);
	mem_free(g.steps);
	mem_free(g.of);
	mem_free(g.then);
	return st;
}

void cohort_tree_release(struct cohort_tree *tree)
{
	if (!tree)
		return;
	mem_free(tree->nodes);
	*tree = (struct cohort_tree){0};
}
