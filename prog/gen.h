/* Prompts continued by an engine that the calling thread drives: what the programs that generate text share. Whoever
 * wants to show texts as they come gives a watch. */
#ifndef PROG_GEN_H
#define PROG_GEN_H

#include "cohort_engine.h"
#include "sampling.h"

/* One continuation, as far as it has come. */
struct gen_text {
	char *bytes;                /* [n_bytes], with a NUL behind; NULL while there are none */
	size_t n_bytes, bytes_max;
	cohort_token *tokens;       /* [n_tokens], without the one that ended it */
	/* When asked for. [n_tokens]: of the model, and behind the chain; [n_tokens, n_top]: the likeliest. */
	float *logprobs, *chain_logprobs;
	struct cohort_logprob *top;
	size_t n_tokens, tokens_max, logprobs_max, chain_max, top_max;
	enum cohort_finish finish;  /* NONE: it was not begun, or is under way */
	char *error;                /* why, with FINISH_ERROR; else NULL */
	bool cut;                   /* by its length, before the end that the grammar wants */
};

struct gen_prompt {
	const char *text;           /* [n_bytes], borrowed */
	size_t n_bytes;
	cohort_token *tokens;       /* [n_tokens] */
	size_t n_tokens;
	uint64_t stream;            /* of the sampler, for the first text; the others follow */
	struct gen_text *texts;     /* [n_texts] */
	int32_t n_texts;
	double first_token_s;       /* after gen_run began; 0: there was none */
	int32_t n_cached;           /* tokens of it that had not to be computed, by the last request for it */
	size_t index;               /* among the prompts of the run */
};

/* Told while gen_run runs, on its thread; each may be NULL. */
struct gen_watch {
	void (*text)(void *user, const struct gen_prompt *p, int32_t i, const char *bytes, size_t n_bytes);
	void (*end)(void *user, const struct gen_prompt *p, int32_t i); /* of text i */
	void (*tick)(void *user);
	void *user;
};

/* How to generate; fields may be changed between runs, but for those that gen_open reads. */
struct gen {
	const char *prog;
	const struct cohort_model *model;
	const struct sampling *s;       /* opened */
	struct cohort_engine *engine;
	int32_t n_predict;              /* tokens of a text at most; it ends where the model's training did, too */
	bool ignore_eos;
	bool logprobs;                  /* of every token */
	int32_t n_top;                  /* ... and of the likeliest in its place */
	bool chain_logprobs;            /* ... and behind the chain */
	const char *const *stops;       /* [n_stops] */
	int32_t n_stops;
	const cohort_token *stop_tokens; /* [n_stop_tokens] */
	int32_t n_stop_tokens;
	uint64_t session;               /* the engine's; 0: none */
	const struct gen_watch *watch;  /* NULL: nobody */
	int64_t n_slots, n_ctx;         /* gen_open's: what runs at once at most */
	int32_t n_ctx_train;            /* gen_open's */
	/* Of the last run. */
	double prefill_s;               /* until all prompts had their first token */
	double generate_s;              /* from there to the end */
	uint64_t n_generated;           /* tokens, with those that ended texts */
	int32_t n_blocks, n_blocks_most; /* of the cache; used by sequences at once, at most */
	double started_s;
	int rc;                         /* the first failure */
};

/* Opens the engine for n_most sequences at once, or as many as a cache of n_ctx tokens has blocks; at least n_least.
 * The fields that a run needs are the caller's to fill in before. Returns 0 or an exit code, having said why. */
int gen_open(struct gen *g, int64_t n_least, int64_t n_most, int64_t n_ctx, int32_t n_threads);
void gen_close(struct gen *g);

/* Tokens of a continuation of p by n_predict that the cache holds: all but the last one. */
int64_t gen_cells(const struct gen_prompt *p, int64_t n_predict);

/* Tokenises a text, which must outlive p, and makes room for n_texts continuations. Returns 0 or an exit code. */
int gen_prompt_init(const struct gen *g, struct gen_prompt *p, const char *text, size_t n_bytes, int32_t n_texts);
void gen_prompt_release(struct gen_prompt *p);
/* Forgets the texts, for another run. */
void gen_prompt_clear(struct gen_prompt *p);

/* Continues all prompts. Those of one prompt that do not fit together take turns; the prompt is computed once for all
 * that do. 0, or an exit code after saying why; EXIT_INTERRUPTED with what was generated until then. */
int gen_run(struct gen *g, struct gen_prompt *prompts, size_t n_prompts);

/* Seconds that the tokens of the last run took, for their rate: generate_s, unless no text has more than the one token
 * that came with its prompt. */
double gen_tokens_s(const struct gen *g, const struct gen_prompt *prompts, size_t n_prompts);
/* Mean log-probability and perplexity of a text with logprobs; 0 and 1 for an empty one. */
double gen_mean_logprob(const struct gen_text *t);
double gen_perplexity(const struct gen_text *t);

#endif
