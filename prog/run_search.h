/* What cohort run has besides drawing token by token: beams, the best of several texts, votes. */
#ifndef PROG_RUN_SEARCH_H
#define PROG_RUN_SEARCH_H

#include "branching.h"
#include "gen.h"
#include "opt.h"

struct run_search {
	int64_t beams, groups, best_of;
	double length_penalty, diversity;
	bool early_stop;
	const char *vote;
	bool beams_given, groups_given, best_of_given, penalty_given, diversity_given;

	/* Of the run. */
	bool ignore_eos, verbose;
	int64_t n_predict, n_ctx;
	bool ctx_given;
	int32_t n_threads;
	struct branching b;
	void *pattern, *match; /* of the vote */
};

/* The options of s into out[RUN_SEARCH_OPTIONS]. */
enum { RUN_SEARCH_OPTIONS = 7 };
void run_search_options(struct run_search *s, struct opt *out);

void run_search_init(struct run_search *s);
/* Whether there is anything to search. */
bool run_search_on(const struct run_search *s);
/* Refuses what makes no sense together, having said why. */
int run_search_check(struct run_search *s, const char *prog, int64_t n_parallel, bool stops, bool logprobs);
/* The prompts' texts in the place of gen_run's. With a vote a text is the answer. Returns 0 or an exit code. */
int run_search(struct run_search *s, const struct sampling *sampling, const struct cohort_model *model,
		struct gen_prompt *prompts, size_t n_prompts);
void run_search_release(struct run_search *s);

#endif
