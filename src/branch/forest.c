/* The forest: handles, leases of sequence ids, who descends from whom.
 *
 * Invariants
 *  1. A live node's sequence holds n_past positions, a vacant one's none: its id can be leased as it is.
 *  2. Generations of a node only rise, so a handle is good for one branch only, for ever; forests have serial numbers
 *     that no other forest of the process has.
 *  3. Children are listed at their parent in the order they were forked; a parent is live as long as it has children.
 *  4. What can fail in a call comes before anything changes.
 * It does not decode. */
#include "branch/branch.h"

#include "base/err.h"
#include "base/mem.h"
#include "base/params.h"

#include <stdatomic.h>
#include <string.h>

static atomic_uint n_forests;

/* ---- Opening ---- */

void cohort_forest_params_init(struct cohort_forest_params *params)
{
	if (params)
		*params = (struct cohort_forest_params){.struct_size = sizeof *params};
}

/* The ids are the context's, and empty. */
static enum cohort_status check_ids(struct cohort_context *ctx, const struct cohort_forest_params *p, int32_t n_seq_max,
		struct cohort_err *err)
{
	if (p->first_seq < 0 || p->first_seq >= n_seq_max)
		return err_rule(err, COHORT_E_ARG, "seq-id", -1, p->first_seq, n_seq_max, p->first_seq,
				"first_seq is %d; the context has ids 0 to %d", p->first_seq, n_seq_max - 1);
	const int32_t n_most = n_seq_max - p->first_seq;
	if (p->n_seqs < 0 || p->n_seqs > n_most)
		return err_rule(err, COHORT_E_ARG, "seq-id", -1, p->first_seq, p->n_seqs < 0 ? 0 : n_most, p->n_seqs,
				"%d sequences from %d on; the context has ids 0 to %d", p->n_seqs, p->first_seq,
				n_seq_max - 1);
	const int32_t n = p->n_seqs > 0 ? p->n_seqs : n_most;
	for (int32_t i = 0; i < n; i++)
		if (cohort_seq_pos_max(ctx, p->first_seq + i) >= 0)
			return err_rule(err, COHORT_E_ARG, "seq-held", -1, p->first_seq + i, 0, 1,
					"sequence %d is not empty", p->first_seq + i);
	return COHORT_OK;
}

static enum cohort_status open_parts(struct cohort_forest *f, struct cohort_err *err)
{
	f->nodes = mem_zalloc((size_t)f->n_nodes, sizeof *f->nodes);
	f->biased = mem_alloc((size_t)f->n_vocab, sizeof *f->biased);
	f->legal = mem_alloc((size_t)f->n_vocab, sizeof *f->legal);
	if (!f->nodes || !f->biased || !f->legal)
		return err_set(err, COHORT_E_MEMORY, "out of memory for a forest of %d branches", f->n_nodes);
	for (int32_t i = 0; i < f->n_nodes; i++)
		f->nodes[i].next = i + 1 < f->n_nodes ? i + 1 : -1;
	return COHORT_OK;
}

enum cohort_status cohort_forest_open(struct cohort_context *ctx, const struct cohort_forest_params *params,
		struct cohort_forest **out, struct cohort_err *err)
{
	struct cohort_forest_params p;
	struct cohort_context_info info;

	cohort_forest_params_init(&p);
	if (!ctx || !out)
		return err_set(err, COHORT_E_ARG, "%s is NULL", !ctx ? "context" : "out");
	if (params && !params_take(&p, sizeof p, params))
		return err_set(err, COHORT_E_ARG,
				"forest parameters were not initialised by cohort_forest_params_init");
	cohort_context_info_get(ctx, &info);
	if (!(info.outputs & COHORT_OUTPUT_LOGITS) || info.output_all)
		return err_set(err, COHORT_E_ARG,
				"a forest needs a context whose rows have logits when they ask for them");
	enum cohort_status st = check_ids(ctx, &p, info.n_seq_max, err);
	if (st)
		return st;
	struct cohort_forest *f = mem_zalloc(1, sizeof *f);
	if (!f)
		return err_set(err, COHORT_E_MEMORY, "out of memory for a forest");
	f->ctx = ctx;
	f->serial = atomic_fetch_add(&n_forests, 1) + 1;
	f->n_vocab = info.n_vocab;
	f->first_seq = p.first_seq;
	f->n_nodes = p.n_seqs > 0 ? p.n_seqs : info.n_seq_max - p.first_seq;
	cohort_scratch_init(&f->scratch);
	st = open_parts(f, err);
	if (st) {
		cohort_forest_free(f);
		return st;
	}
	*out = f;
	return COHORT_OK;
}

/* ---- Handles ---- */

struct cohort_branch branch_handle(const struct cohort_forest *f, int32_t node)
{
	if (node < 0)
		return (struct cohort_branch){0};
	return (struct cohort_branch){f->serial, (uint32_t)node, f->nodes[node].generation};
}

cohort_seq branch_seq(const struct cohort_forest *f, const struct node *n)
{
	return f->first_seq + (cohort_seq)(n - f->nodes);
}

struct node *branch_find(
		const struct cohort_forest *f, struct cohort_branch b, const char *what, struct cohort_err *err)
{
	if (!f) {
		err_set(err, COHORT_E_ARG, "forest is NULL");
		return NULL;
	}
	const bool other = b.forest != f->serial;
	const uint32_t n_nodes = (uint32_t)f->n_nodes;
	if (other || b.index >= n_nodes) {
		err_rule(err, COHORT_E_ARG, "branch-foreign", -1, -1, other ? f->serial : n_nodes,
				other ? b.forest : b.index, "%s is %s", what,
				b.forest ? "no handle of this forest" : "no handle: all zero");
		return NULL;
	}
	struct node *n = &f->nodes[b.index];
	if (!n->live || n->generation != b.generation) {
		err_rule(err, COHORT_E_ARG, "branch-stale", -1, f->first_seq + (cohort_seq)b.index,
				(int64_t)n->generation, (int64_t)b.generation, "%s was pruned", what);
		return NULL;
	}
	return n;
}

/* ---- Leases ---- */

static void release_parts(struct node *n)
{
	cohort_sampler_free(n->sampler);
	mem_free(n->bias);
	n->sampler = NULL;
	n->bias = NULL;
	n->n_bias = 0;
}

/* The next vacant node, with a place for logits; it stays vacant until it is settled. */
static enum cohort_status next_vacant(struct cohort_forest *f, int32_t *out, struct cohort_err *err)
{
	if (f->vacant < 0)
		return err_rule(err, COHORT_NO_ROOM, "seq-lease", -1, -1, f->n_nodes, f->n_nodes + 1,
				"all %d sequences of the forest are leased", f->n_nodes);
	struct node *n = &f->nodes[f->vacant];
	if (!n->logits)
		n->logits = mem_alloc((size_t)f->n_vocab, sizeof *n->logits);
	if (!n->logits)
		return err_set(err, COHORT_E_MEMORY, "out of memory for the logits of a branch");
	*out = f->vacant;
	return COHORT_OK;
}

static struct cohort_branch settle(struct cohort_forest *f, int32_t i, int32_t parent)
{
	struct node *n = &f->nodes[i];

	f->vacant = n->next;
	f->n_live++;
	n->live = true;
	n->generation++;
	n->parent = parent;
	n->first_child = n->last_child = n->prev = n->next = -1;
	n->n_children = n->depth = 0;
	if (parent >= 0) {
		struct node *p = &f->nodes[parent];
		n->depth = p->depth + 1;
		n->prev = p->last_child;
		if (p->last_child >= 0)
			f->nodes[p->last_child].next = i;
		else
			p->first_child = i;
		p->last_child = i;
		p->n_children++;
	}
	return branch_handle(f, i);
}

static void unlink_node(struct cohort_forest *f, int32_t i)
{
	struct node *n = &f->nodes[i];
	struct node *p = n->parent >= 0 ? &f->nodes[n->parent] : NULL;

	if (!p)
		return;
	if (n->prev >= 0)
		f->nodes[n->prev].next = n->next;
	else
		p->first_child = n->next;
	if (n->next >= 0)
		f->nodes[n->next].prev = n->prev;
	else
		p->last_child = n->prev;
	p->n_children--;
	n->parent = n->prev = n->next = -1;
}

/* A node without children. Emptying a whole sequence, and an adapter's end on an empty one, cannot fail. */
static void vacate(struct cohort_forest *f, int32_t i)
{
	struct node *n = &f->nodes[i];

	unlink_node(f, i);
	cohort_seq_rm(f->ctx, branch_seq(f, n), 0, -1, NULL);
	cohort_seq_adapter_set(f->ctx, branch_seq(f, n), NULL, 0, NULL);
	release_parts(n);
	n->live = n->text.has_logits = false;
	n->text.n_past = 0;
	n->next = f->vacant;
	f->vacant = i;
	f->n_live--;
}

/* ---- Growing ---- */

enum cohort_status cohort_branch_create(struct cohort_forest *f, const struct cohort_sampler_params *sampler,
		struct cohort_branch *out, struct cohort_err *err)
{
	struct cohort_sampler *s = NULL;
	int32_t i;

	if (!f || !out)
		return err_set(err, COHORT_E_ARG, "%s is NULL", !f ? "forest" : "out");
	enum cohort_status st = next_vacant(f, &i, err);
	if (!st)
		st = cohort_sampler_open(sampler, f->n_vocab, &s, err);
	if (st)
		return st;
	struct node *n = &f->nodes[i];
	n->sampler = s;
	n->text = (struct node_text){.pending = -1, .drawn = -1};
	*out = settle(f, i, -1);
	return COHORT_OK;
}

enum cohort_status cohort_branch_fork(struct cohort_forest *f, struct cohort_branch parent,
		const struct cohort_reseed *reseed, struct cohort_branch *out, struct cohort_err *err)
{
	const struct node *p = branch_find(f, parent, "the parent", err);
	struct cohort_sampler *s = NULL;
	struct cohort_logit_bias *bias = NULL;
	int32_t i;

	if (!p)
		return COHORT_E_ARG;
	if (!out)
		return err_set(err, COHORT_E_ARG, "out is NULL");
	enum cohort_status st = next_vacant(f, &i, err);
	if (!st)
		st = cohort_sampler_clone(p->sampler, &s, err);
	if (!st && p->n_bias > 0) {
		bias = mem_dup(p->bias, (size_t)p->n_bias * sizeof *bias);
		if (!bias)
			st = err_set(err, COHORT_E_MEMORY, "out of memory for the biases of a branch");
	}
	if (!st)
		st = cohort_seq_cp(f->ctx, branch_seq(f, p), f->first_seq + i, 0, -1, err);
	if (st) {
		cohort_sampler_free(s);
		mem_free(bias);
		return st;
	}
	struct node *n = &f->nodes[i];
	n->sampler = s;
	if (reseed)
		cohort_sampler_reseed(s, reseed->seed, reseed->stream);
	n->bias = bias;
	n->n_bias = p->n_bias;
	n->text = p->text;
	if (p->text.has_logits)
		memcpy(n->logits, p->logits, (size_t)f->n_vocab * sizeof *n->logits);
	*out = settle(f, i, (int32_t)(p - f->nodes));
	return COHORT_OK;
}

/* ---- Pruning ---- */

enum cohort_status cohort_branch_prune(struct cohort_forest *f, struct cohort_branch branch, struct cohort_err *err)
{
	const struct node *n = branch_find(f, branch, "the branch", err);

	if (!n)
		return COHORT_E_ARG;
	if (n->n_children > 0)
		return err_rule(err, COHORT_E_ARG, "branch-children", -1, branch_seq(f, n), 0, n->n_children,
				"the branch has %d children; prune them first, or the subtree", n->n_children);
	vacate(f, (int32_t)(n - f->nodes));
	return COHORT_OK;
}

/* Leaf by leaf, so that depth costs no stack. */
static void fell(struct cohort_forest *f, int32_t root)
{
	int32_t i = root;

	for (;;) {
		while (f->nodes[i].first_child >= 0)
			i = f->nodes[i].first_child;
		const int32_t parent = f->nodes[i].parent;
		vacate(f, i);
		if (i == root)
			return;
		i = parent;
	}
}

enum cohort_status cohort_branch_prune_subtree(
		struct cohort_forest *f, struct cohort_branch branch, struct cohort_err *err)
{
	const struct node *n = branch_find(f, branch, "the branch", err);

	if (!n)
		return COHORT_E_ARG;
	fell(f, (int32_t)(n - f->nodes));
	return COHORT_OK;
}

enum cohort_status cohort_branch_retain_only(
		struct cohort_forest *f, struct cohort_branch winner, struct cohort_err *err)
{
	struct node *n = branch_find(f, winner, "the winner", err);

	if (!n)
		return COHORT_E_ARG;
	unlink_node(f, (int32_t)(n - f->nodes));
	n->depth = 0;
	while (n->first_child >= 0)
		fell(f, n->first_child);
	for (int32_t i = 0; i < f->n_nodes; i++)
		if (f->nodes[i].live && &f->nodes[i] != n && f->nodes[i].parent < 0)
			fell(f, i);
	return COHORT_OK;
}

enum cohort_status cohort_branch_detach(struct cohort_forest *f, struct cohort_branch branch, struct cohort_err *err)
{
	const struct node *n = branch_find(f, branch, "the branch", err);

	if (!n)
		return COHORT_E_ARG;
	const int32_t root = (int32_t)(n - f->nodes), up = n->depth;
	unlink_node(f, root);
	for (int32_t i = root;;) {
		f->nodes[i].depth -= up;
		if (f->nodes[i].first_child >= 0) {
			i = f->nodes[i].first_child;
			continue;
		}
		while (i != root && f->nodes[i].next < 0)
			i = f->nodes[i].parent;
		if (i == root)
			return COHORT_OK;
		i = f->nodes[i].next;
	}
}

struct cohort_context *cohort_forest_context_get(const struct cohort_forest *f)
{
	return f ? f->ctx : NULL;
}

void cohort_forest_free(struct cohort_forest *f)
{
	if (!f)
		return;
	for (int32_t i = 0; f->nodes && i < f->n_nodes; i++)
		if (f->nodes[i].live && f->nodes[i].parent < 0)
			fell(f, i);
	for (int32_t i = 0; f->nodes && i < f->n_nodes; i++)
		mem_free(f->nodes[i].logits);
	for (size_t i = 0; i < f->n_fresh; i++)
		mem_free(f->fresh[i]);
	cohort_scratch_release(&f->scratch);
	mem_free(f->nodes);
	mem_free(f->biased);
	mem_free(f->legal);
	mem_free(f->items);
	mem_free(f->of_item);
	mem_free(f->fresh);
	mem_free(f);
}
