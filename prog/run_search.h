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

/* Lines of a table of options. */
#define OPTS_SEARCH(s) \
	{"beams", NULL, OPT_INT, &(s)->beams, 1, 4096, "N", \
			"beam search with N beams; -np says how many of the best are printed", &(s)->beams_given}, \
	{"length-penalty", NULL, OPT_FLOAT, &(s)->length_penalty, -16, 16, "X", \
			"beams are compared by log-probability / length^X (default: 1)", &(s)->penalty_given}, \
	{"early-stop", NULL, OPT_FLAG, &(s)->early_stop, 0, 0, NULL, \
			"end the beam search when as many texts are finished as there are beams", NULL}, \
	{"beam-groups", NULL, OPT_INT, &(s)->groups, 1, 4096, "N", \
			"diverse beams: N groups that avoid each other's tokens (default: 1)", &(s)->groups_given}, \
	{"diversity", NULL, OPT_FLOAT, &(s)->diversity, 0, 1e6, "X", \
			"what a token costs for each beam of an earlier group that chose it (default: 0.5)", \
			&(s)->diversity_given}, \
	{"best-of", NULL, OPT_INT, &(s)->best_of, 1, 65536, "N", \
			"draw N texts and print the likeliest, by its mean log-probability", &(s)->best_of_given}, \
	{"vote", NULL, OPT_STR, &(s)->vote, 0, 0, "PATTERN", \
			"print what most of the -best-of texts answer: what the pattern's first group matches", NULL}

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
