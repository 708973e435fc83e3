/* Branches that go on: drawing, accepting, and decoding many of them together.
 *
 * Invariants
 *  1. A call on many branches checks all of them before it decodes, decodes them within one transaction of the context,
 *     and changes nodes only behind its success: position, cells, logits, sampler and statistics stay in step.
 *  2. What is done behind that success cannot fail: samplers were asked before whether they would accept, and keep what
 *     that takes (or are told to let it go); logits wait in buffers of their own that take the place of the old ones.
 *  3. A token is accepted once, by the logits that it was chosen from; only then it is decoded. */
#include "branch/branch.h"

#include "base/err.h"
#include "base/fp.h"
#include "base/mem.h"

#include <assert.h>
#include <string.h>

/* ---- One token of one branch ---- */

enum cohort_status branch_weigh(
		struct node *n, int32_t n_vocab, cohort_token token, float *logprob, struct cohort_err *err)
{
	if (n->text.pending >= 0)
		return err_rule(err, COHORT_E_ARG, "branch-pending", -1, -1, -1, n->text.pending,
				"token %d is pending: it was accepted and not decoded yet", n->text.pending);
	if (!n->text.has_logits)
		return err_rule(err, COHORT_E_ARG, "branch-logits", -1, -1, 1, 0,
				"the branch has no logits: nothing was decoded yet");
	enum cohort_status st = cohort_sampler_permits(n->sampler, token, err);
	if (!st)
		st = cohort_logprobs_get(n->logits, n_vocab, token, logprob, NULL, 0, NULL, err);
	if (st)
		branch_let_go(n);
	return st;
}

void branch_let_go(struct node *n)
{
	cohort_sampler_permits(n->sampler, -1, NULL);
}

void branch_count(struct node *n, cohort_token token, float logprob)
{
	const enum cohort_status st = cohort_sampler_accept(n->sampler, token, NULL);
	assert(!st);
	(void)st;
	n->text.n_accepted++;
	n->text.sum_logprob += (double)logprob;
	if (n->text.drawn == token) {
		n->text.n_drawn++;
		n->text.sum_drawn += (double)n->text.drawn_logprob;
	}
}

/* The logits as the sampler is to see them. */
static const float *with_bias(struct cohort_forest *f, const struct node *n)
{
	struct fp_mode fp;

	if (n->n_bias == 0)
		return n->logits;
	fp_enter(&fp);
	memcpy(f->biased, n->logits, (size_t)f->n_vocab * sizeof *f->biased);
	for (int32_t i = 0; i < n->n_bias; i++)
		f->biased[n->bias[i].token] += n->bias[i].bias;
	fp_leave(&fp);
	return f->biased;
}

enum cohort_status cohort_branch_sample(
		struct cohort_forest *f, struct cohort_branch branch, cohort_token *out, struct cohort_err *err)
{
	struct node *n = branch_find(f, branch, "the branch", err);
	cohort_token token;
	float logprob;

	if (!n)
		return COHORT_E_ARG;
	if (!out)
		return err_set(err, COHORT_E_ARG, "out is NULL");
	if (n->text.pending >= 0)
		return err_rule(err, COHORT_E_ARG, "branch-pending", -1, branch_seq(f, n), -1, n->text.pending,
				"token %d is pending: it was accepted and not decoded yet", n->text.pending);
	if (!n->text.has_logits)
		return err_rule(err, COHORT_E_ARG, "branch-logits", -1, branch_seq(f, n), 1, 0,
				"the branch has no logits: nothing was decoded yet");
	enum cohort_status st = cohort_sampler_draw(n->sampler, with_bias(f, n), &token, err);
	if (!st)
		st = cohort_sampler_logprobs_get(n->sampler, token, &logprob, NULL, 0, NULL, err);
	if (st)
		return st;
	n->text.drawn = token;
	n->text.drawn_logprob = logprob;
	*out = token;
	return COHORT_OK;
}

enum cohort_status cohort_branch_accept(
		struct cohort_forest *f, struct cohort_branch branch, cohort_token token, struct cohort_err *err)
{
	struct node *n = branch_find(f, branch, "the branch", err);
	float logprob;

	if (!n)
		return COHORT_E_ARG;
	enum cohort_status st = branch_weigh(n, f->n_vocab, token, &logprob, err);
	if (st && err)
		err->seq = branch_seq(f, n);
	if (st)
		return st;
	branch_count(n, token, logprob);
	n->text.pending = token;
	return COHORT_OK;
}

/* ---- Many ---- */

/* Room for n items, and for their logits to wait in. */
static enum cohort_status make_room(struct cohort_forest *f, int32_t n, struct cohort_err *err)
{
	bool ok = mem_grow((void **)&f->items, &f->items_max, (size_t)n, sizeof *f->items) &&
			mem_grow((void **)&f->of_item, &f->of_item_max, (size_t)n, sizeof *f->of_item) &&
			mem_grow((void **)&f->fresh, &f->fresh_max, (size_t)n, sizeof *f->fresh);

	while (ok && f->n_fresh < (size_t)n) {
		f->fresh[f->n_fresh] = mem_alloc((size_t)f->n_vocab, sizeof **f->fresh);
		ok = f->fresh[f->n_fresh] != NULL;
		f->n_fresh += ok;
	}
	return ok ? COHORT_OK : err_set(err, COHORT_E_MEMORY, "out of memory for a call on %d branches", n);
}

/* Item i of a call is this branch's; each is named once. */
static enum cohort_status name_branch(
		struct cohort_forest *f, struct cohort_branch b, int32_t i, struct node **out, struct cohort_err *err)
{
	struct node *n = branch_find(f, b, "a branch", err);

	if (!n) {
		if (err) {
			err->row = i;
			err_prefix(err, "item %d", i);
		}
		return COHORT_E_ARG;
	}
	if (n->named == f->call)
		return err_rule(err, COHORT_E_ARG, "branch-duplicate", i, branch_seq(f, n), 1, 2,
				"item %d names a branch that an earlier item named", i);
	n->named = f->call;
	*out = n;
	return COHORT_OK;
}

static enum cohort_status begin(
		struct cohort_forest *f, const void *items, int32_t n, const char *n_name, struct cohort_err *err)
{
	if (!f)
		return err_set(err, COHORT_E_ARG, "forest is NULL");
	if (err_range(err, n_name, n, 0, INT32_MAX))
		return COHORT_E_ARG;
	if (n > 0 && !items)
		return err_set(err, COHORT_E_ARG, "%s is NULL", n_name + strlen("n_"));
	f->call++;
	/* Each branch is named once, or the call is refused: no more items than there can be branches are put down. */
	return make_room(f, n < f->n_nodes ? n : f->n_nodes, err);
}

static void put_item(struct cohort_forest *f, int32_t i, struct node *n, const cohort_token *tokens, int32_t n_tokens)
{
	f->of_item[i] = n;
	f->items[i] = (struct cohort_scatter_item){tokens, n_tokens, n->text.n_past, branch_seq(f, n), true};
}

static void take(void *user, int32_t item, const float *logits)
{
	struct cohort_forest *f = user;
	memcpy(f->fresh[item], logits, (size_t)f->n_vocab * sizeof **f->fresh);
}

/* An error of a row, in the numbers of the call: the item it belongs to. Rule item has the item's number already: its
 * tokens, and so their rows, cannot be counted. */
static enum cohort_status explain(
		const struct cohort_forest *f, int32_t n, enum cohort_status st, struct cohort_err *err)
{
	if (err && err->row >= 0 && !(err->rule && strcmp(err->rule, "item") == 0)) {
		int64_t row = err->row;
		int32_t i = 0;
		while (i < n && row >= f->items[i].n_tokens)
			row -= f->items[i++].n_tokens;
		err->row = i;
	}
	return st;
}

static enum cohort_status decode(struct cohort_forest *f, int32_t n, struct cohort_err *err)
{
	const enum cohort_status st = cohort_decode_scatter_to(f->ctx, f->items, n, &f->scratch, take, f, err);
	return st ? explain(f, n, st, err) : COHORT_OK;
}

/* Behind a decode that went well: every node has its position and its logits. */
static void go_on(struct cohort_forest *f, int32_t n)
{
	for (int32_t i = 0; i < n; i++) {
		struct node *b = f->of_item[i];
		if (f->items[i].n_tokens == 0)
			continue;
		float *old = b->logits;
		b->logits = f->fresh[i];
		f->fresh[i] = old;
		b->text.n_past += f->items[i].n_tokens;
		b->text.has_logits = true;
		b->text.pending = b->text.drawn = -1;
	}
}

enum cohort_status cohort_branch_decode_scatter(struct cohort_forest *f, const struct cohort_branch_span *spans,
		int32_t n_spans, struct cohort_err *err)
{
	enum cohort_status st = begin(f, spans, n_spans, "n_spans", err);

	for (int32_t i = 0; i < n_spans && !st; i++) {
		const struct cohort_branch_span *s = &spans[i];
		struct node *n;
		st = name_branch(f, s->branch, i, &n, err);
		if (!st && s->n_tokens > 0 && n->text.pending >= 0)
			st = err_rule(err, COHORT_E_ARG, "branch-pending", i, branch_seq(f, n), -1, n->text.pending,
					"item %d: token %d is pending: it was accepted and not decoded yet", i,
					n->text.pending);
		if (!st)
			put_item(f, i, n, s->tokens, s->n_tokens);
	}
	if (!st)
		st = decode(f, n_spans, err);
	if (st)
		return st;
	for (int32_t i = 0; i < n_spans; i++)
		/* The decode has taken them, so they are tokens of the vocabulary: it cannot fail. */
		cohort_sampler_prompt(f->of_item[i]->sampler, spans[i].tokens, (size_t)spans[i].n_tokens, NULL);
	go_on(f, n_spans);
	return COHORT_OK;
}

enum cohort_status cohort_branch_prefill(struct cohort_forest *f, struct cohort_branch branch,
		const cohort_token *tokens, int32_t n_tokens, struct cohort_err *err)
{
	return cohort_branch_decode_scatter(f, &(struct cohort_branch_span){branch, tokens, n_tokens}, 1, err);
}

enum cohort_status cohort_branch_step(struct cohort_forest *f, const struct cohort_branch *branches, int32_t n_branches,
		struct cohort_err *err)
{
	enum cohort_status st = begin(f, branches, n_branches, "n_branches", err);

	for (int32_t i = 0; i < n_branches && !st; i++) {
		struct node *n;
		st = name_branch(f, branches[i], i, &n, err);
		if (!st && n->text.pending < 0)
			st = err_rule(err, COHORT_E_ARG, "branch-idle", i, branch_seq(f, n), 1, 0,
					"item %d: no token of the branch is pending", i);
		if (!st)
			put_item(f, i, n, &n->text.pending, 1);
	}
	if (!st)
		st = decode(f, n_branches, err);
	if (!st)
		go_on(f, n_branches);
	return st;
}

enum cohort_status cohort_branch_decode_each(struct cohort_forest *f, const struct cohort_branch_token *items,
		int32_t n_items, struct cohort_err *err)
{
	enum cohort_status st = begin(f, items, n_items, "n_items", err);
	int32_t n_weighed = 0;

	for (int32_t i = 0; i < n_items && !st; i++) {
		struct node *n;
		st = name_branch(f, items[i].branch, i, &n, err);
		if (!st) {
			st = branch_weigh(n, f->n_vocab, items[i].token, &n->weighed, err);
			if (st && err) {
				err->row = i;
				err->seq = branch_seq(f, n);
			}
		}
		if (!st) {
			put_item(f, i, n, &items[i].token, 1);
			n_weighed++;
		}
	}
	if (!st)
		st = decode(f, n_items, err);
	if (st) {
		for (int32_t i = 0; i < n_weighed; i++)
			branch_let_go(f->of_item[i]);
		return st;
	}
	for (int32_t i = 0; i < n_items; i++)
		branch_count(f->of_item[i], items[i].token, f->of_item[i]->weighed);
	go_on(f, n_items);
	return COHORT_OK;
}
