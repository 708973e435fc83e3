/* A sampler from the inside: its values, what it remembers, and the interface of its stages. */
#ifndef SAMPLE_SAMPLE_H
#define SAMPLE_SAMPLE_H

#include "base/err.h"
#include "base/rng.h"
#include "sample/cands.h"
#include "sample/grammar.h"

/* ---- What was said so far ---- */

/* The last n_max tokens, the newest last. The area is twice as long: only when it is full, its second half moves. */
struct history {
	cohort_token *tokens; /* [2 n_max] */
	uint8_t *broken; /* [2 n_max]: a sequence breaker ends in the token */
	size_t n, n_max;
};

bool history_init(struct history *h, size_t n_max);
void history_release(struct history *h);
void history_add(struct history *h, cohort_token token, bool broken);
/* The last n of them (fewer, if there are not so many); *got is their number. */
const cohort_token *history_last(const struct history *h, size_t n, size_t *got);

/* Strings after which DRY starts anew, found in the text of tokens as they come, also across them. */
struct breakers {
	char *text; /* all of them */
	uint32_t *ends; /* [n]: where each ends in text */
	size_t n, longest;
	char *tail; /* [longest]: what the last tokens ended with */
	size_t n_tail;
	const struct cohort_lexicon *lexicon;
};

enum cohort_status breakers_init(struct breakers *b, const struct cohort_sampler_params *p, struct cohort_err *err);
bool breakers_copy(struct breakers *to, const struct breakers *from);
void breakers_release(struct breakers *b);
void breakers_reset(struct breakers *b);
/* Whether one of them ends in this token. */
bool breakers_push(struct breakers *b, cohort_token token);

/* ---- The sampler ---- */

struct cohort_sampler {
	struct cohort_sampler_params p; /* pointers in it are the sampler's own */
	int32_t n_vocab;
	struct rng rng;
	struct cands cands;
	struct history history;
	struct breakers breakers;
	struct idset bias;
	float *bias_values; /* [bias.n] */
	struct idset tally; /* scratch: distinct tokens of the history */
	uint32_t *counts; /* [tally.n] */
	int32_t *runs; /* [history]: scratch of DRY */
	double mu; /* mirostat's */
	struct grammar_at at; /* in p.grammar, if there is one */
	/* Where next_token leads from there, if cohort_sampler_permits was asked last: accepting it cannot fail. */
	struct grammar_at next;
	cohort_token next_token;
	uint64_t *mask; /* [cands.n_chunks]: what the grammar permits now */
	cohort_token last; /* drawn from what cands still holds; -1: none */
	double last_weight;
};

/* A stage looks at the values and at what the sampler remembers, and changes the candidates. */
struct stage_ops {
	const char *name; /* in orders */
	/* Whether the values make sense; says which does not. NULL: any do. */
	enum cohort_status (*check)(const struct cohort_sampler_params *p, struct cohort_err *err);
	bool (*is_on)(const struct cohort_sampler_params *p);
	bool shapes; /* changes logits or forbids tokens: part of a greedy choice too */
	void (*apply)(struct cohort_sampler *s, struct cands *c);
};

extern const struct stage_ops stage_bias, stage_penalties, stage_dry, stage_grammar, stage_top_n_sigma, stage_top_k,
		stage_typical, stage_top_p, stage_min_p, stage_xtc, stage_temperature, stage_mirostat;

/* E_ARG "NAME is X, expected WHAT" unless ok. */
enum cohort_status stage_expect(bool ok, const char *name, double got, const char *what, struct cohort_err *err);
/* What the bias stage has in the place of `check`: it looks at ids. */
enum cohort_status stage_bias_check(const struct cohort_sampler_params *p, int32_t n_vocab, struct cohort_err *err);
/* A changed logit, within +-1e300. */
double stage_finite(double logit);
/* How many tokens a last_n looks at. */
size_t stage_window(const struct cohort_sampler_params *p, int32_t last_n);

/* -log2 of the probability that the last token was drawn with. */
double sampler_surprise(const struct cohort_sampler *s);
/* After a draw. */
void mirostat_learn(struct cohort_sampler *s);

#endif
