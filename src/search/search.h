/* What the searches share: the branches that a search has made, which tokens end a text, and what can follow a
 * branch. */
#ifndef SEARCH_SEARCH_H
#define SEARCH_SEARCH_H

#include "cohort_search.h"

/* One search under way. Branches it made stand in `live` and `next`; all of them have no parent and no children. */
struct search {
	struct cohort_forest *forest;
	int32_t n_vocab;
	uint8_t *is_end;             /* [n_vocab] */
	int32_t n_ends;
	struct cohort_branch *live, *next; /* [n_live], [n_next]; all zero: none */
	int32_t n_live, n_next;
	struct cohort_branch_token *items;
	cohort_token *legal;         /* [n_vocab] */
	float *masked;               /* [n_vocab] */
	size_t live_max, next_max, items_max;
};

/* Which branch goes on with which token. */
struct search_step {
	int32_t from; /* index into live */
	cohort_token token;
};

/* A parameter that is at least 1. */
enum cohort_status search_at_least_1(struct cohort_err *err, const char *name, int32_t v);

/* Opens a search that starts at `branch`, of which live[0] is a fork when `fork` is set. After a failure nothing is
 * left. */
enum cohort_status search_open(struct search *s, struct cohort_forest *forest, struct cohort_branch branch,
		const cohort_token *ends, int32_t n_ends, bool fork, struct cohort_err *err);
/* Prunes what it made, and forgets all. */
void search_close(struct search *s);

/* Room for so many in live. */
enum cohort_status search_reserve(struct search *s, int32_t n, struct cohort_err *err);
/* A fork of a branch, without a parent, as live[n_live++]; there must be room. */
enum cohort_status search_fork(struct search *s, struct cohort_branch branch, const struct cohort_reseed *reseed,
		struct cohort_err *err);
/* The next generation: live[i] becomes what live[steps[i].from] is, followed by its token. Those that no step names are
 * pruned. After a failure the search can only be closed. */
enum cohort_status search_advance(struct search *s, const struct search_step *steps, int32_t n_steps,
		struct cohort_err *err);

/* The n_max likeliest tokens that may follow a branch, in order: the higher logit first, then the lower id; *n_out says
 * how many there are with any probability, up to n_max. */
enum cohort_status search_follow(struct search *s, struct cohort_branch branch, struct cohort_logprob *out,
		int32_t n_max, int32_t *n_out, struct cohort_err *err);

#endif
