/* Searches built on branches (cohort.h): beams, best of n, votes, trees of continuations.
 *
 * What all of them share
 *  - They begin at a branch that was prefilled and has no pending token, and never change it: they work on forks,
 *    which are gone when the call returns, whatever it returns. A failed call leaves the forest as it was and `out`
 *    unwritten.
 *  - Log-probabilities are the model's, by the logits (cohort_logprobs_get), summed as doubles in the order of
 *    tokens. The branch's grammar is respected: a token that it does not permit is none. Biases, penalties and the
 *    other stages of its sampler work where a text is drawn (cohort_texts_draw), and nowhere else.
 *  - Results are the same on every machine, and whatever n_batch, n_ubatch and the number of threads are.
 *  - A text ends with an end token: `ends`, or the model's own (cohort_token_is_eog) when that is NULL. The end token
 *    is the last of the text's tokens and counts in sums and lengths; it is never decoded. A text that nothing can
 *    follow (the grammar permits no token that has any probability) ends as it is, unfinished.
 *  - Parameters are filled by their `_init`; results are released by their `_release`, which accepts what was zeroed.
 *  - Statuses as cohort_branch_fork and cohort_branch_decode_each; E_ARG names the rule (branch-logits, branch-pending,
 *    branch-stale, branch-foreign; search-params, where the text names the parameter). NO_ROOM: too few sequence ids
 *    are vacant, or the cache is full. */
#ifndef COHORT_SEARCH_H
#define COHORT_SEARCH_H

#include "cohort.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Beams --------------------------------------------------------------------------------- */

enum cohort_beam_stop {
	COHORT_BEAM_STOP_SURE = 0, /* when no unfinished beam can come to beat the worst kept: changes no result */
	COHORT_BEAM_STOP_FIRST     /* when as many are kept as there are beams; what is unfinished then is dropped */
};

/* Beam search. At each step every beam is followed by every token. These candidates are gone through from the best
 * on, by their sums of log-probabilities, until `width` of them are found that go on; candidates on the way that end
 * with an end token are finished, and kept if they are among the `width` best of those by score. At max_tokens the
 * beams are cut, and are kept in the same way.
 *
 * score = sum / length^length_penalty, where length is the number of tokens, the end token included: 0 is the sum, 1
 * the mean; more favours long texts. length^x is exp(x log length) in the library's own functions.
 *
 * Ties: of candidates the one of the earlier beam, then that with the higher logit, then the lower token id; the next
 * step's beams are in the order they were found. Of kept texts the one found earlier.
 *
 * Diverse beams (Vijayakumar et al., 2016): n_groups groups of width / n_groups beams, each a search of its own with
 * its own kept texts. Within a step they go one after the other, and a candidate's place is by its sum minus
 * `diversity` times the number of beams of earlier groups that chose the same token at this step, finished ones
 * included. Sums and scores themselves have no such penalty. A group that has stopped (STOP_FIRST) chooses nothing.
 * Two groups may find the same text.
 *
 * Takes as many sequence ids as there are beams at once, `width` at most. */
struct cohort_beam_params {
	size_t struct_size;
	int32_t width;           /* beams, of all groups together; >= 1 */
	int32_t n_best;          /* results at most; >= 1 */
	int32_t max_tokens;      /* >= 1 */
	double length_penalty;   /* finite, -16 to 16 */
	enum cohort_beam_stop stop;
	int32_t n_groups;        /* >= 1; divides width */
	double diversity;        /* finite, >= 0 */
	const cohort_token *ends; /* [n_ends], NULL: the model's; not NULL with n_ends 0: none */
	int32_t n_ends;
};
/* width 4, n_best 1, max_tokens 128, length_penalty 1, stop SURE, one group, diversity 0.5, the model's ends. */
COHORT_API void cohort_beam_params_init(struct cohort_beam_params *params);

struct cohort_beam {
	const cohort_token *tokens; /* [n_tokens] */
	int32_t n_tokens;
	bool finished;              /* by an end token; else cut, or nothing could follow */
	int32_t group;
	double logprob, score;      /* the sum; with the length penalty */
};
struct cohort_beams {
	struct cohort_beam *items;  /* [n_items], the best score first; ties: the earlier group, then found earlier */
	int32_t n_items, n_steps;   /* steps: that were made */
	cohort_token *storage;
};
/* The best texts of a beam search. params NULL: the defaults. */
COHORT_API enum cohort_status cohort_beams_search(struct cohort_forest *forest, struct cohort_branch branch,
		const struct cohort_beam_params *params, struct cohort_beams *out, struct cohort_err *err);
COHORT_API void cohort_beams_release(struct cohort_beams *beams);

/* ---- Best of n ------------------------------------------------------------------------------ */

/* n texts drawn by forks of the branch, each with the stream first_stream + its index, together. The likeliest is the
 * one with the highest mean of log-probabilities over its tokens, or sum; ties: the first. As many at a time as ids
 * are vacant: a text does not depend on the others. */
struct cohort_draw_params {
	size_t struct_size;
	int32_t n;               /* >= 1 */
	int32_t max_tokens;      /* >= 1 */
	uint64_t seed, first_stream;
	bool by_sum;             /* the likeliest by the sum, not by the mean */
	const cohort_token *ends; /* as for beams */
	int32_t n_ends;
};
/* n 4, max_tokens 128, all else 0. */
COHORT_API void cohort_draw_params_init(struct cohort_draw_params *params);

struct cohort_drawn {
	const cohort_token *tokens; /* [n_tokens] */
	int32_t n_tokens;
	bool finished;
	double logprob;             /* the sum */
	double likelihood;          /* what it is compared by: the mean, or the sum; 0 without tokens */
};
struct cohort_texts {
	struct cohort_drawn *items; /* [n_items], by stream */
	int32_t n_items, best;
	cohort_token *storage;
};
/* n texts, and which is the likeliest. params NULL: the defaults. */
COHORT_API enum cohort_status cohort_texts_draw(struct cohort_forest *forest, struct cohort_branch branch,
		const struct cohort_draw_params *params, struct cohort_texts *out, struct cohort_err *err);
COHORT_API void cohort_texts_release(struct cohort_texts *texts);

/* ---- Self-consistency ------------------------------------------------------------------------ */

/* What text `index` answers: bytes that stay until the next call of it. False: it has no answer. */
typedef bool (*cohort_answer_fn)(void *user, int32_t index, const struct cohort_drawn *text, const char **bytes,
		size_t *n_bytes);

struct cohort_vote {
	const char *answer;     /* [n_bytes], with a NUL behind */
	size_t n_bytes;
	int32_t n_texts;        /* that answer so */
	int32_t best;           /* the likeliest of them */
	double likelihood;      /* ... and its */
};
struct cohort_votes {
	/* [n_items]: the most frequent first; ties: the higher likelihood, then the earlier text. */
	struct cohort_vote *items;
	int32_t n_items;
	int32_t n_silent;       /* texts without an answer */
	int32_t *vote_of;       /* [n_texts]: the item, -1: no answer */
	char *storage;
};
/* Texts with the same bytes as answer are a vote; the first item is the winner. No answers at all: n_items is 0. */
COHORT_API enum cohort_status cohort_votes_count(const struct cohort_texts *texts, cohort_answer_fn answer, void *user,
		struct cohort_votes *out, struct cohort_err *err);
COHORT_API void cohort_votes_release(struct cohort_votes *votes);

/* ---- Trees ------------------------------------------------------------------------------------ */

/* What may follow: the top_k likeliest tokens, each followed by its top_k likeliest, and so on to a depth. Ties as for
 * beams. Takes as many sequence ids as there are nodes that have children on one level. */
struct cohort_tree_params {
	size_t struct_size;
	int32_t depth, top_k;    /* >= 1 */
	double min_prob;         /* tokens less likely than this behind their parent are left out; 0 to 1 */
	int32_t n_max;           /* nodes at most, >= 1: level by level, parents in order; the rest is left out */
	const cohort_token *ends; /* as for beams: nothing follows them */
	int32_t n_ends;
};
/* depth 3, top_k 3, min_prob 0, n_max 1000, the model's ends. */
COHORT_API void cohort_tree_params_init(struct cohort_tree_params *params);

struct cohort_tree_node {
	cohort_token token;
	float logprob;           /* behind its parent */
	double sum;              /* of it and those before it */
	int32_t parent;          /* -1: the branch that the search began at */
	int32_t depth;           /* 1 and up */
	int32_t first_child, n_children; /* next to each other, the likeliest first; -1 when there are none */
	bool is_end;
};
struct cohort_tree {
	struct cohort_tree_node *nodes; /* [n_nodes]: level by level */
	int32_t n_nodes, n_roots;       /* roots: the first n_roots nodes, those without a parent */
	bool cut;                       /* n_max left some out */
};
/* The tree of what may follow. params NULL: the defaults. */
COHORT_API enum cohort_status cohort_tree_grow(struct cohort_forest *forest, struct cohort_branch branch,
		const struct cohort_tree_params *params, struct cohort_tree *out, struct cohort_err *err);
COHORT_API void cohort_tree_release(struct cohort_tree *tree);

#ifdef __cplusplus
}
#endif
#endif
