/* For tests of the engine: random requests, and what each of them says when it is computed alone, in the plainest way:
 * one sequence, one token at a time, the whole text searched for stops after every token. */
#ifndef TESTS_ENGINE_CASE_H
#define TESTS_ENGINE_CASE_H

#include "cohort_engine.h"

#include "base/rng.h"
#include "model_case.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The built-in model. */
static inline struct cohort_model *engine_model(void)
{
	struct cohort_model *m = NULL;
	char path[600];

	snprintf(path, sizeof path, "%s/models/cohort-tiny.gguf", env_or("COHORT_SOURCE", "."));
	return cohort_model_open(path, NULL, &m, NULL) == COHORT_OK ? m : NULL;
}

enum { JOB_STOPS = 3, JOB_OUTPUTS = 4, JOB_TOP = 3 };

struct job {
	struct cohort_request_params p;
	cohort_token prompt[1024];
	cohort_token stop_tokens[2];
	char stop_texts[JOB_STOPS][8];
	const char *stops[JOB_STOPS];
	int32_t cancel_after; /* tokens of all outputs; -1: not at all */
};

/* What an output is when it is computed alone. */
struct alone {
	cohort_token tokens[512];
	float logprobs[512], chain[512];
	struct cohort_logprob top[512][JOB_TOP];
	int32_t n_tokens;
	char text[8192];
	size_t n_bytes;
	enum cohort_finish finish;
};

/* The first place where a stop string ends; of several that end there the longest. Returns where it begins, or -1. */
static inline long alone_find_stop(const struct cohort_request_params *p, const char *text, size_t from, size_t n)
{
	for (size_t end = from + 1; end <= n; end++) {
		size_t best = 0;
		for (int32_t k = 0; k < p->n_stops; k++) {
			const size_t m = strlen(p->stops[k]);
			if (m <= end && m > best && memcmp(text + end - m, p->stops[k], m) == 0)
				best = m;
		}
		if (best)
			return (long)(end - best);
	}
	return -1;
}

static inline bool alone_is_stop_token(const struct cohort_request_params *p, cohort_token t)
{
	for (int32_t i = 0; i < p->n_stop_tokens; i++)
		if (p->stop_tokens[i] == t)
			return true;
	return false;
}

/* Adds a token to the text; returns how that ended the output, if it did. */
static inline enum cohort_finish alone_add(const struct cohort_model *model, const struct cohort_request_params *p,
		struct cohort_detok *d, struct alone *a, cohort_token t)
{
	if (alone_is_stop_token(p, t))
		return COHORT_FINISH_STOP;
	if (cohort_token_is_eog(model, t))
		return p->ignore_eos ? COHORT_FINISH_NONE : COHORT_FINISH_EOG;
	size_t n = 0;
	const size_t before = a->n_bytes;
	assert(cohort_detok_push(d, t, a->text + a->n_bytes, sizeof a->text - a->n_bytes, &n, NULL) == COHORT_OK);
	a->n_bytes += n;
	const long at = alone_find_stop(p, a->text, before, a->n_bytes);
	if (at >= 0)
		a->n_bytes = (size_t)at;
	return at >= 0 ? COHORT_FINISH_STOP : COHORT_FINISH_NONE;
}

/* Sequence 0 of the context is used and left empty. */
static inline void alone_run(const struct cohort_model *model, struct cohort_context *ctx,
		const struct cohort_request_params *p, int32_t output, struct alone *a)
{
	struct cohort_model_info info = {.struct_size = sizeof info};
	struct cohort_sampler_params sp = p->sampler;
	struct cohort_sampler *sampler;
	struct cohort_detok d;
	bool by_text = false;
	struct cohort_err err;

	cohort_model_info_get(model, &info);
	memset(a, 0, sizeof *a);
	cohort_detok_init(&d, model, p->special, p->text_start);
	sp.stream += (uint64_t)output;
	assert(cohort_sampler_open(&sp, info.n_vocab, &sampler, NULL) == COHORT_OK);
	assert(cohort_sampler_prompt(sampler, p->prompt, (size_t)p->n_prompt, NULL) == COHORT_OK);
	assert(cohort_seq_adapter_set(ctx, 0, p->adapter, p->adapter_scale, NULL) == COHORT_OK);
	if (cohort_decode_many(ctx, p->prompt, p->n_prompt, 0, 0, &err)) {
		fprintf(stderr, "alone: %s\n", err.text);
		abort();
	}
	if (p->max_tokens == 0)
		a->finish = COHORT_FINISH_LENGTH;
	while (a->finish == COHORT_FINISH_NONE) {
		const float *logits = cohort_logits_get(ctx, -1, NULL);
		const int32_t i = a->n_tokens;
		cohort_token t;
		assert(i < 512 && cohort_sampler_sample(sampler, logits, &t, NULL) == COHORT_OK);
		a->tokens[a->n_tokens++] = t;
		assert(cohort_logprobs_get(logits, info.n_vocab, t, &a->logprobs[i], a->top[i], JOB_TOP, NULL, NULL) ==
				COHORT_OK);
		assert(cohort_sampler_logprobs_get(sampler, t, &a->chain[i], NULL, 0, NULL, NULL) == COHORT_OK);
		a->finish = alone_add(model, p, &d, a, t);
		by_text = a->finish == COHORT_FINISH_STOP && !alone_is_stop_token(p, t);
		if (a->finish == COHORT_FINISH_NONE && a->n_tokens == p->max_tokens)
			a->finish = COHORT_FINISH_LENGTH;
		if (a->finish == COHORT_FINISH_NONE)
			assert(cohort_decode_one(ctx, t, p->n_prompt + i, 0, true, NULL) == COHORT_OK);
	}
	if (!by_text) {
		char rest[4];
		const size_t n = cohort_detok_flush(&d, rest);
		memcpy(a->text + a->n_bytes, rest, n);
		a->n_bytes += n;
	}
	cohort_sampler_free(sampler);
	assert(cohort_seq_rm(ctx, 0, 0, -1, NULL) == COHORT_OK);
}

/* A number in [lo, hi]. */
static inline int32_t pick(struct rng *r, int32_t lo, int32_t hi)
{
	return lo + (int32_t)(rng_u32(r) % (uint32_t)(hi - lo + 1));
}

/* A random request of at most n_most tokens in all; prompts begin alike now and then. */
static inline void job_make(struct job *j, struct rng *r, const struct cohort_model *model, int32_t n_most)
{
	struct cohort_model_info info = {.struct_size = sizeof info};
	static const char *const texts[] = {"e", "th", "a ", "\n", "ing", "  ", "xyz", "er", "."};

	cohort_model_info_get(model, &info);
	memset(j, 0, sizeof *j);
	cohort_request_params_init(&j->p);
	struct cohort_request_params *p = &j->p;
	p->max_tokens = pick(r, 0, 9) ? pick(r, 1, n_most / 10) : 0;
	p->n_prompt = pick(r, 1, n_most - p->max_tokens);
	if (pick(r, 0, 2))
		p->n_prompt = p->n_prompt % (n_most / 3) + 1;
	struct rng base;
	rng_init(&base, (uint64_t)pick(r, 0, 3), 77);
	const int32_t n_alike = pick(r, 0, 2) ? pick(r, p->n_prompt / 2, p->n_prompt) : 0;
	for (int32_t i = 0; i < p->n_prompt; i++)
		j->prompt[i] = pick(i < n_alike ? &base : r, 3, info.n_vocab - 1);
	p->prompt = j->prompt;
	p->n_outputs = pick(r, 0, 3) ? 1 : pick(r, 2, JOB_OUTPUTS);
	p->sampler.seed = rng_u32(r);
	p->sampler.temperature = pick(r, 0, 3) ? 0.7f + (float)pick(r, 0, 8) / 10 : 0;
	p->sampler.repeat_penalty = pick(r, 0, 3) ? 1 : 1.1f;
	p->ignore_eos = pick(r, 0, 1);
	p->text_start = pick(r, 0, 1);
	for (int32_t i = 0, n = pick(r, 0, 5); i < JOB_STOPS && n < JOB_STOPS; i++) {
		snprintf(j->stop_texts[i], sizeof j->stop_texts[i], "%s", texts[pick(r, 0, 8)]);
		j->stops[i] = j->stop_texts[i];
		p->n_stops = n;
	}
	p->stops = j->stops;
	j->stop_tokens[0] = pick(r, 3, info.n_vocab - 1);
	p->stop_tokens = j->stop_tokens;
	p->n_stop_tokens = pick(r, 0, 1);
	p->n_logprobs = pick(r, -1, JOB_TOP);
	p->prompt_logprobs = pick(r, 0, 7) == 0;
	p->priority = pick(r, 0, 2);
	p->client = (uint64_t)pick(r, 0, 4);
	p->session = pick(r, 0, 2) ? 0 : (uint64_t)pick(r, 1, 5);
	p->salt = (uint64_t)pick(r, 0, 1);
	p->no_reuse = pick(r, 0, 7) == 0;
	j->cancel_after = pick(r, 0, 5) ? -1 : pick(r, 0, 12);
	p->chain_logprobs = pick(r, 0, 1);
}

#endif
