/* Searches: branches that come and go by generations.
 *
 * Invariants
 *  1. Every branch that a search has made stands in live or next, once: closing it prunes them all. There is room for
 *     a handle before its branch is forked.
 *  2. Branches of a search are detached: none has to stay for its children's sake, so that a generation takes as many
 *     sequence ids as it has branches. The branch that the search began at is never changed.
 *  3. Those that end are pruned before the first fork of a generation; the first that goes on from a branch is that
 *     branch itself. */
#include "search/search.h"

#include "base/err.h"
#include "base/mem.h"

#include <math.h>
#include <string.h>

/* ---- Opening and closing ---- */

/* A branch to start at: it has logits, and nothing is pending. */
static enum cohort_status check_start(
		const struct cohort_forest *forest, struct cohort_branch branch, struct cohort_err *err)
{
	struct cohort_branch_info info;
	const enum cohort_status st = cohort_branch_info_get(forest, branch, &info, err);

	if (st)
		return st;
	if (info.pending >= 0)
		return err_rule(err, COHORT_E_ARG, "branch-pending", -1, info.seq, -1, info.pending,
				"token %d is pending: it was accepted and not decoded yet", info.pending);
	if (!info.has_logits)
		return err_rule(err, COHORT_E_ARG, "branch-logits", -1, info.seq, 1, 0,
				"the branch has no logits: nothing was decoded yet");
	return COHORT_OK;
}

/* The tokens that end a text, as marks. */
static enum cohort_status mark_ends(struct search *s, const struct cohort_model *model, const cohort_token *ends,
		int32_t n_ends, struct cohort_err *err)
{
	for (int32_t i = 0; ends && i < n_ends; i++) {
		if (ends[i] < 0 || ends[i] >= s->n_vocab)
			return err_rule(err, COHORT_E_ARG, "search-params", i, -1, s->n_vocab, ends[i],
					"end token %d is %d: the vocabulary has 0 to %d", i, ends[i], s->n_vocab - 1);
		s->is_end[ends[i]] = 1;
	}
	for (int32_t i = 0; !ends && i < s->n_vocab; i++)
		s->is_end[i] = cohort_token_is_eog(model, i);
	for (int32_t i = 0; i < s->n_vocab; i++)
		s->n_ends += s->is_end[i];
	return COHORT_OK;
}

enum cohort_status search_at_least_1(struct cohort_err *err, const char *name, int32_t v)
{
	if (v >= 1)
		return COHORT_OK;
	return err_rule(err, COHORT_E_ARG, "search-params", -1, -1, 1, v, "%s is %d, expected at least 1", name, v);
}

enum cohort_status search_open(struct search *s, struct cohort_forest *forest, struct cohort_branch branch,
		const cohort_token *ends, int32_t n_ends, bool fork, struct cohort_err *err)
{
	struct cohort_context_info info;

	*s = (struct search){.forest = forest};
	enum cohort_status st = check_start(forest, branch, err);
	if (st)
		return st;
	if (n_ends < 0)
		return err_rule(err, COHORT_E_ARG, "search-params", -1, -1, 0, n_ends, "n_ends is %d", n_ends);
	cohort_context_info_get(cohort_forest_context_get(forest), &info);
	s->n_vocab = info.n_vocab;
	s->is_end = mem_zalloc((size_t)s->n_vocab, sizeof *s->is_end);
	s->legal = mem_alloc((size_t)s->n_vocab, sizeof *s->legal);
	s->masked = mem_alloc((size_t)s->n_vocab, sizeof *s->masked);
	if (!s->is_end || !s->legal || !s->masked)
		st = err_set(err, COHORT_E_MEMORY, "out of memory for a search");
	if (!st)
		st = mark_ends(s, info.model, ends, n_ends, err);
	if (!st && fork)
		st = search_reserve(s, 1, err);
	if (!st && fork)
		st = search_fork(s, branch, NULL, err);
	if (st)
		search_close(s);
	return st;
}

static void prune_all(struct cohort_forest *forest, struct cohort_branch *b, int32_t n)
{
	for (int32_t i = 0; i < n; i++)
		if (b[i].forest)
			cohort_branch_prune(forest, b[i], NULL); /* a leaf of our own: cannot fail */
}

void search_close(struct search *s)
{
	prune_all(s->forest, s->live, s->n_live);
	prune_all(s->forest, s->next, s->n_next);
	mem_free(s->live);
	mem_free(s->next);
	mem_free(s->items);
	mem_free(s->is_end);
	mem_free(s->legal);
	mem_free(s->masked);
	*s = (struct search){0};
}

/* ---- Generations ---- */

static enum cohort_status no_memory(struct cohort_err *err, int32_t n)
{
	return err_set(err, COHORT_E_MEMORY, "out of memory for a search with %d branches", n);
}

enum cohort_status search_reserve(struct search *s, int32_t n, struct cohort_err *err)
{
	return mem_grow((void **)&s->live, &s->live_max, (size_t)n, sizeof *s->live) ? COHORT_OK : no_memory(err, n);
}

/* A fork that stands on its own. */
static enum cohort_status fork_alone(struct cohort_forest *forest, struct cohort_branch branch,
		const struct cohort_reseed *reseed, struct cohort_branch *out, struct cohort_err *err)
{
	const enum cohort_status st = cohort_branch_fork(forest, branch, reseed, out, err);

	if (!st)
		cohort_branch_detach(forest, *out, NULL);
	return st;
}

enum cohort_status search_fork(struct search *s, struct cohort_branch branch, const struct cohort_reseed *reseed,
		struct cohort_err *err)
{
	const enum cohort_status st = fork_alone(s->forest, branch, reseed, &s->live[s->n_live], err);

	s->n_live += st == COHORT_OK;
	return st;
}

/* Branches that no step goes on from, gone. items serves as the place for counts. */
static void prune_idle(struct search *s, const struct search_step *steps, int32_t n_steps)
{
	for (int32_t i = 0; i < s->n_live; i++)
		s->items[i].token = 0;
	for (int32_t i = 0; i < n_steps; i++)
		s->items[steps[i].from].token = 1;
	for (int32_t i = 0; i < s->n_live; i++)
		if (!s->items[i].token) {
			prune_all(s->forest, &s->live[i], 1);
			s->live[i] = (struct cohort_branch){0};
		}
}

enum cohort_status search_advance(struct search *s, const struct search_step *steps, int32_t n_steps,
		struct cohort_err *err)
{
	const size_t most = (size_t)(n_steps > s->n_live ? n_steps : s->n_live);
	enum cohort_status st = COHORT_OK;

	if (!mem_grow((void **)&s->next, &s->next_max, most, sizeof *s->next) ||
			!mem_grow((void **)&s->items, &s->items_max, most, sizeof *s->items))
		return no_memory(err, n_steps);
	prune_idle(s, steps, n_steps);
	/* The first that goes on from a branch takes it over, behind the forks of the others. */
	for (int32_t i = 0; i < s->n_live; i++)
		s->items[i].token = -1;
	memset(s->next, 0, (size_t)n_steps * sizeof *s->next);
	s->n_next = n_steps;
	for (int32_t i = 0; i < n_steps && !st; i++) {
		const int32_t from = steps[i].from;
		if (s->items[from].token < 0)
			s->items[from].token = i;
		else
			st = fork_alone(s->forest, s->live[from], NULL, &s->next[i], err);
	}
	if (st)
		return st;
	for (int32_t i = 0; i < s->n_live; i++) {
		if (s->items[i].token >= 0)
			s->next[s->items[i].token] = s->live[i];
		s->live[i] = (struct cohort_branch){0};
	}
	struct cohort_branch *old = s->live;
	const size_t old_max = s->live_max;
	s->live = s->next;
	s->live_max = s->next_max;
	s->n_live = n_steps;
	s->next = old;
	s->next_max = old_max;
	s->n_next = 0;
	for (int32_t i = 0; i < n_steps; i++)
		s->items[i] = (struct cohort_branch_token){s->live[i], steps[i].token};
	return n_steps > 0 ? cohort_branch_decode_each(s->forest, s->items, n_steps, err) : COHORT_OK;
}

/* ---- What can follow ---- */

enum cohort_status search_follow(struct search *s, struct cohort_branch branch, struct cohort_logprob *out,
		int32_t n_max, int32_t *n_out, struct cohort_err *err)
{
	const float *logits = cohort_branch_logits_get(s->forest, branch, err);
	int32_t n_legal = 0, n = 0;

	if (!logits)
		return COHORT_E_ARG;
	enum cohort_status st = cohort_branch_legal_get(s->forest, branch, s->legal, s->n_vocab, &n_legal, err);
	if (st)
		return st;
	if (n_legal == s->n_vocab) {
		st = cohort_logprobs_get(logits, s->n_vocab, 0, NULL, out, n_max, NULL, err);
	} else {
		/* Which they are by the legal ones' logits, how likely by all. */
		bool any = false;
		for (int32_t i = 0; i < s->n_vocab; i++)
			s->masked[i] = -INFINITY;
		for (int32_t i = 0; i < n_legal; i++) {
			s->masked[s->legal[i]] = logits[s->legal[i]];
			any |= logits[s->legal[i]] > -INFINITY;
		}
		*n_out = 0;
		if (!any)
			return COHORT_OK;
		st = cohort_logprobs_get(s->masked, s->n_vocab, 0, NULL, out, n_max, NULL, err);
		for (int32_t i = 0; i < n_max && !st && out[i].token >= 0; i++)
			st = cohort_logprobs_get(logits, s->n_vocab, out[i].token, &out[i].logprob, NULL, 0, NULL, err);
	}
	while (!st && n < n_max && out[n].token >= 0)
		n++;
	if (!st)
		*n_out = n;
	return st;
}
