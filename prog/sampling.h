/* The sampling options that programs share, and samplers made from them. */
#ifndef PROG_SAMPLING_H
#define PROG_SAMPLING_H

#include "cohort.h"
#include "opt.h"

struct sampling {
	uint64_t seed;
	bool seed_given; /* by the user; a program that draws one leaves it false */
	int64_t top_k, min_keep, repeat_last_n, dry_allowed_length, dry_last_n, mirostat;
	double temperature, top_p, min_p, typical, top_n_sigma, xtc_probability, xtc_threshold;
	double dynatemp_range, dynatemp_exp, repeat_penalty, presence_penalty, frequency_penalty;
	double dry_multiplier, dry_base, mirostat_tau, mirostat_eta;
	const char *samplers, *grammar, *grammar_file, *json_schema, *json_schema_file;
	struct opt_list biases, breakers;

	/* What sampling_open made. */
	struct cohort_sampler_params p;
	struct cohort_logit_bias *bias;
	const char **breaker_texts;
	char *breaker_bytes;
	struct cohort_lexicon *lexicon;
	struct cohort_grammar *g;
	int32_t n_vocab;
};

/* A random seed: 32 bits, so that it is short enough to type and exact in any JSON. */
uint64_t seed_draw(void);
/* Draws one unless -seed was given. Before sampling_open. */
void sampling_seed(struct sampling *s);
/* Says on stderr how to get the same texts again, if the seed was drawn and the texts depend on it. */
void sampling_tell_seed(const struct sampling *s, const char *prog);

/* The library's defaults; top_p as the program has it. */
void sampling_init(struct sampling *s, double top_p);
/* Reads files, opens grammars; says on stderr what is wrong. Returns 0 or an exit code. */
int sampling_open(struct sampling *s, const char *prog, const struct cohort_model *model);
/* The sampler of continuation `stream`, which has seen the prompt. */
enum cohort_status sampling_sampler(const struct sampling *s, uint64_t stream, const cohort_token *prompt,
		size_t n_prompt, struct cohort_sampler **out, struct cohort_err *err);
void sampling_release(struct sampling *s);
/* One line about the values in use, without a line end. */
void sampling_print(const struct sampling *s, FILE *out);

/* The options of s into out[SAMPLING_OPTIONS]. top_p_help has the program's default in words. */
enum { SAMPLING_OPTIONS = 30 };
void sampling_options(struct sampling *s, const char *top_p_help, struct opt *out);

#endif
