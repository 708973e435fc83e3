/* What the parts of batched share: one job, what was asked for and what came of it. */
#ifndef PROG_BATCHED_H
#define PROG_BATCHED_H

#include "common.h"
#include "export.h"
#include "gen.h"
#include "sampling.h"

#define BATCHED_TOP_P 0.9 /* unless -top-p is given */

struct config {
	const char *model;      /* path; NULL: the built-in one */
	const char *prompt, *prompts_file, *isa;
	struct load_opts load;
	int64_t n_parallel, n_predict, n_ctx, threads;
	bool threads_given, verbose, ignore_eos, version, compare, stream, no_live;
	bool interactive, no_history, prompt_given;
	int64_t width; /* of -compare; 0: the terminal's */
	struct export_opts output;
};

struct job {
	struct config c;
	struct sampling s;
	struct cohort_model *model;
	struct cohort_model_info info;
	struct gen gen;
	char *prompts_bytes;         /* of -prompts */
	struct gen_prompt *prompts;  /* [n_prompts], with n_parallel texts each */
	size_t n_prompts;
	int32_t n_predict;           /* may be less than asked for: what the model was trained for */
	int32_t n_threads;
};

/* The steps of a run, for one that goes through them again and again (interactive.c). Each returns 0 or an exit
 * code. */
int batched_check(struct job *j);        /* says what does not fit, before anything is computed; sets n_predict */
int batched_generate(struct job *j);     /* all prompts, shown as they come if that was asked for */
int batched_show(const struct job *j);   /* the texts, on standard output */

#endif
