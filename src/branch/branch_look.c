/* Looking at branches, and at what may come next: logits, biases, legal tokens, statistics, walks.
 *
 * Invariants
 *  1. What is set is checked as a whole before it takes the place of what was there.
 *  2. Walks are depth first and in the order of forking, without a stack. */
#include "branch/branch.h"

#include "base/err.h"
#include "base/fmath.h"
#include "base/fp.h"
#include "base/mem.h"

#include <math.h>
#include <string.h>

/* ---- Logits ---- */

static const struct node *find_logits(
		const struct cohort_forest *f, struct cohort_branch branch, const char *what, struct cohort_err *err)
{
	const struct node *n = branch_find(f, branch, what, err);

	if (n && !n->text.has_logits) {
		err_rule(err, COHORT_E_ARG, "branch-logits", -1, branch_seq(f, n), 1, 0,
				"%s has no logits: nothing was decoded yet", what);
		return NULL;
	}
	return n;
}

const float *cohort_branch_logits_get(
		const struct cohort_forest *f, struct cohort_branch branch, struct cohort_err *err)
{
	const struct node *n = find_logits(f, branch, "the branch", err);
	return n ? n->logits : NULL;
}

static enum cohort_status check_finite(const float *logits, int32_t n_vocab, struct cohort_err *err)
{
	for (int32_t i = 0; i < n_vocab; i++)
		if (!(logits[i] < INFINITY))
			return err_rule(err, COHORT_E_NUMERIC, "finite", -1, -1, 0, i, "logit of token %d is %s", i,
					isnan(logits[i]) ? "not a number" : "infinite");
	return COHORT_OK;
}

enum cohort_status cohort_branch_logits_set(
		struct cohort_forest *f, struct cohort_branch branch, const float *logits, struct cohort_err *err)
{
	struct node *n = branch_find(f, branch, "the branch", err);

	if (!n)
		return COHORT_E_ARG;
	if (!logits)
		return err_set(err, COHORT_E_ARG, "logits is NULL");
	enum cohort_status st = check_finite(logits, f->n_vocab, err);
	if (st)
		return st;
	memmove(n->logits, logits, (size_t)f->n_vocab * sizeof *logits);
	n->text.has_logits = true;
	n->text.drawn = -1;
	return COHORT_OK;
}

enum cohort_status cohort_branch_logits_merge(struct cohort_forest *f, struct cohort_branch dst,
		struct cohort_branch src, float alpha, struct cohort_err *err)
{
	const struct node *to = find_logits(f, dst, "the destination", err);
	const struct node *from = to ? find_logits(f, src, "the source", err) : NULL;

	struct fp_mode fp;

	if (!from)
		return COHORT_E_ARG;
	fp_enter(&fp);
	for (int32_t i = 0; i < f->n_vocab; i++)
		f->biased[i] = to->logits[i] + alpha * from->logits[i];
	fp_leave(&fp);
	return cohort_branch_logits_set(f, dst, f->biased, err);
}

enum cohort_status cohort_branch_bias_set(struct cohort_forest *f, struct cohort_branch branch,
		const struct cohort_logit_bias *bias, int32_t n_bias, struct cohort_err *err)
{
	struct node *n = branch_find(f, branch, "the branch", err);
	struct cohort_logit_bias *copy = NULL;

	if (!n)
		return COHORT_E_ARG;
	if (err_range(err, "n_bias", n_bias, 0, INT32_MAX))
		return COHORT_E_ARG;
	if (n_bias > 0 && !bias)
		return err_set(err, COHORT_E_ARG, "bias is NULL");
	for (int32_t i = 0; i < n_bias; i++) {
		if (bias[i].token < 0 || bias[i].token >= f->n_vocab)
			return err_rule(err, COHORT_E_ARG, "token", i, branch_seq(f, n), f->n_vocab, bias[i].token,
					"bias %d is for token %d, which is not in 0 to %d", i, bias[i].token,
					f->n_vocab - 1);
		if (!(bias[i].bias < INFINITY))
			return err_rule(err, COHORT_E_ARG, "bias", i, branch_seq(f, n), 0, 0, "bias %d is %s", i,
					isnan(bias[i].bias) ? "not a number" : "infinite");
	}
	if (n_bias > 0) {
		copy = mem_dup(bias, (size_t)n_bias * sizeof *bias);
		if (!copy)
			return err_set(err, COHORT_E_MEMORY, "out of memory for %d biases", n_bias);
	}
	mem_free(n->bias);
	n->bias = copy;
	n->n_bias = n_bias;
	n->text.drawn = -1;
	return COHORT_OK;
}

/* ---- What may come ---- */

enum cohort_status cohort_branch_legal_get(struct cohort_forest *f, struct cohort_branch branch, cohort_token *out,
		int32_t n_max, int32_t *n_out, struct cohort_err *err)
{
	const struct node *n = branch_find(f, branch, "the branch", err);
	int32_t count = 0;

	if (!n)
		return COHORT_E_ARG;
	if (!n_out || (n_max > 0 && !out))
		return err_set(err, COHORT_E_ARG, "%s is NULL", n_out ? "out" : "n_out");
	if (err_range(err, "n_max", n_max, 0, INT32_MAX))
		return COHORT_E_ARG;
	enum cohort_status st = cohort_sampler_legal_get(n->sampler, f->legal, err);
	if (st)
		return st;
	for (int32_t i = 0; i < f->n_vocab; i++) {
		if (!f->legal[i])
			continue;
		if (count < n_max)
			out[count] = i;
		count++;
	}
	*n_out = count;
	return COHORT_OK;
}

bool cohort_branch_is_legal(struct cohort_forest *f, struct cohort_branch branch, cohort_token token)
{
	struct node *n = branch_find(f, branch, "the branch", NULL);
	const bool yes = n && cohort_sampler_permits(n->sampler, token, NULL) == COHORT_OK;

	if (n)
		branch_let_go(n);
	return yes;
}

enum cohort_status cohort_branch_entropy_get(
		const struct cohort_forest *f, struct cohort_branch branch, double *entropy, struct cohort_err *err)
{
	const struct node *n = find_logits(f, branch, "the branch", err);

	if (!n)
		return COHORT_E_ARG;
	if (!entropy)
		return err_set(err, COHORT_E_ARG, "entropy is NULL");
	return cohort_logprobs_get(n->logits, f->n_vocab, 0, NULL, NULL, 0, entropy, err);
}

enum cohort_status cohort_branch_surprisal_get(const struct cohort_forest *f, struct cohort_branch branch,
		cohort_token token, double *surprisal, struct cohort_err *err)
{
	const struct node *n = find_logits(f, branch, "the branch", err);
	float logprob;

	if (!n)
		return COHORT_E_ARG;
	if (!surprisal)
		return err_set(err, COHORT_E_ARG, "surprisal is NULL");
	enum cohort_status st = cohort_logprobs_get(n->logits, f->n_vocab, token, &logprob, NULL, 0, NULL, err);
	if (!st)
		*surprisal = -(double)logprob;
	return st;
}

/* ---- What is there ---- */

static double perplexity(double sum, int64_t n)
{
	struct fp_mode fp;

	fp_enter(&fp);
	const double p = n > 0 ? fm_exp(-sum / (double)n) : 1.0;
	fp_leave(&fp);
	return p;
}

enum cohort_status cohort_branch_info_get(const struct cohort_forest *f, struct cohort_branch branch,
		struct cohort_branch_info *info, struct cohort_err *err)
{
	const struct node *n = branch_find(f, branch, "the branch", err);

	if (!n)
		return COHORT_E_ARG;
	if (!info)
		return err_set(err, COHORT_E_ARG, "info is NULL");
	*info = (struct cohort_branch_info){
			.parent = branch_handle(f, n->parent),
			.first_child = branch_handle(f, n->first_child),
			.next_sibling = branch_handle(f, n->next),
			.n_children = n->n_children,
			.depth = n->depth,
			.seq = branch_seq(f, n),
			.n_past = n->text.n_past,
			.pending = n->text.pending,
			.has_logits = n->text.has_logits,
			.complete = cohort_sampler_is_complete(n->sampler),
			.n_accepted = n->text.n_accepted,
			.n_drawn = n->text.n_drawn,
			.logprob = n->text.sum_logprob,
			.drawn_logprob = n->text.sum_drawn,
			.perplexity = perplexity(n->text.sum_logprob, n->text.n_accepted),
			.drawn_perplexity = perplexity(n->text.sum_drawn, n->text.n_drawn),
	};
	return COHORT_OK;
}

/* The leaves below one node, behind those that were found. */
static void gather(
		const struct cohort_forest *f, int32_t root, struct cohort_branch *out, int32_t n_max, int32_t *count)
{
	int32_t i = root;

	for (;;) {
		while (f->nodes[i].first_child >= 0)
			i = f->nodes[i].first_child;
		if (*count < n_max)
			out[*count] = branch_handle(f, i);
		++*count;
		while (i != root && f->nodes[i].next < 0)
			i = f->nodes[i].parent;
		if (i == root)
			return;
		i = f->nodes[i].next;
	}
}

enum cohort_status cohort_branch_leaves_get(const struct cohort_forest *f, struct cohort_branch branch,
		struct cohort_branch *out, int32_t n_max, int32_t *n_out, struct cohort_err *err)
{
	const bool all = branch.forest == 0 && branch.index == 0 && branch.generation == 0;
	int32_t count = 0;

	if (!f || !n_out || (n_max > 0 && !out))
		return err_set(err, COHORT_E_ARG, "%s is NULL", !f ? "forest" : n_out ? "out" : "n_out");
	if (err_range(err, "n_max", n_max, 0, INT32_MAX))
		return COHORT_E_ARG;
	const struct node *n = all ? NULL : branch_find(f, branch, "the branch", err);
	if (!all && !n)
		return COHORT_E_ARG;
	if (n)
		gather(f, (int32_t)(n - f->nodes), out, n_max, &count);
	for (int32_t i = 0; all && i < f->n_nodes; i++)
		if (f->nodes[i].live && f->nodes[i].parent < 0)
			gather(f, i, out, n_max, &count);
	*n_out = count;
	return COHORT_OK;
}

void cohort_forest_pressure_get(const struct cohort_forest *f, struct cohort_pressure *pressure)
{
	struct cohort_usage u;

	if (!pressure)
		return;
	*pressure = (struct cohort_pressure){0};
	if (!f)
		return;
	cohort_usage_get(f->ctx, &u);
	*pressure = (struct cohort_pressure){
			.n_seqs = f->n_nodes,
			.n_leased = f->n_live,
			.n_vacant = f->n_nodes - f->n_live,
			.block_size = u.block_size,
			.n_blocks = u.n_blocks,
			.n_blocks_used = u.n_used,
			.n_blocks_shared = u.n_shared,
			.n_blocks_free = u.n_free,
	};
	for (int32_t i = 0; i < f->n_nodes; i++)
		pressure->n_leaves += f->nodes[i].live && f->nodes[i].n_children == 0;
}
