/* For tests of the engine: engines that are ticked by hand, small requests, and what each of them says alone. */
#ifndef TESTS_ENGINE_RIG_H
#define TESTS_ENGINE_RIG_H

#include "cohort_tools.h"
#include "engine_case.h"
#include "room_case.h"
#include "temp.h"

#include <setjmp.h>
#include <stdarg.h>
#include <time.h>

#include <cmocka.h>

/* The group's model, and a context in which requests are computed alone. */
static struct cohort_model *rig_model;
static struct cohort_context *rig_alone;
static char rig_path[TEMP_MAX];

static inline int rig_open_alone(void)
{
	struct cohort_context_params cp;

	cohort_context_params_init(&cp);
	cp.n_seq_max = 1;
	cp.n_ctx = 1024;
	cp.n_blocks = pool_blocks(cp.n_ctx, 0);
	cp.n_threads = 1;
	return rig_model && !cohort_context_open(rig_model, &cp, &rig_alone, NULL) ? 0 : -1;
}

/* Group set-ups: with the built-in model, and with a random one, whose rows take next to no time. */
static inline int rig_set_up(void **state)
{
	(void)state;
	rig_model = engine_model();
	return rig_open_alone();
}

static inline int rig_set_up_random(void **state)
{
	struct cohort_synth_params sp;
	int fd;

	(void)state;
	cohort_synth_params_init(&sp);
	sp.n_vocab = 300;
	sp.n_embd = 64;
	sp.n_layer = 2;
	sp.n_head = 4;
	sp.n_head_kv = 2;
	sp.n_ff = 96;
	sp.n_ctx = 1024;
	sp.type = "f16";
	sp.seed = 11;
	sp.n_threads = 1;
	fd = mkstemp(temp_name(rig_path, "engine"));
	if (fd < 0)
		return -1;
	close(fd);
	if (cohort_synth_write(rig_path, &sp, NULL) || cohort_model_open(rig_path, NULL, &rig_model, NULL))
		return -1;
	return rig_open_alone();
}

static inline int rig_tear_down(void **state)
{
	(void)state;
	cohort_context_free(rig_alone);
	cohort_model_free(rig_model);
	if (rig_path[0])
		unlink(rig_path);
	return 0;
}

/* ---- Engines ---- */

/* A small engine without a thread of its own. */
static inline void rig_params(struct cohort_engine_params *p)
{
	cohort_engine_params_init(p);
	p->n_slots = 4;
	p->context.n_ctx = 512;
	p->context.n_blocks = pool_blocks(p->context.n_ctx, 0);
	p->context.n_batch = 32;
	p->context.n_ubatch = 16;
	p->context.n_threads = 1;
	p->manual = true;
}

static inline struct cohort_engine *rig_engine(const struct cohort_engine_params *p)
{
	struct cohort_engine *e = NULL;
	struct cohort_err err;

	if (cohort_engine_open(rig_model, p, &e, &err))
		fail_msg("%s", err.text);
	return e;
}

static inline bool rig_tick(struct cohort_engine *e)
{
	bool idle = false;

	assert_int_equal(cohort_engine_tick(e, &idle, NULL), COHORT_OK);
	return idle;
}

/* Ticks until there is nothing left to do. Whatever a test does is done in far fewer ticks. */
static inline int rig_run(struct cohort_engine *e)
{
	int n = 1;

	while (!rig_tick(e))
		assert_true(n++ < 5000);
	return n;
}

static inline struct cohort_engine_stats rig_stats(struct cohort_engine *e)
{
	struct cohort_engine_stats s;
	cohort_engine_stats_get(e, &s);
	return s;
}

/* ---- Requests ---- */

/* A request of n_prompt tokens, drawn with `seed`, that says n_tokens. */
static inline void rig_job(struct job *j, uint64_t seed, int32_t n_prompt, int32_t n_tokens)
{
	struct cohort_model_info info = {.struct_size = sizeof info};
	struct rng r;

	cohort_model_info_get(rig_model, &info);
	memset(j, 0, sizeof *j);
	cohort_request_params_init(&j->p);
	rng_init(&r, seed, 5);
	for (int32_t i = 0; i < n_prompt; i++)
		j->prompt[i] = pick(&r, 3, info.n_vocab - 1);
	j->p.prompt = j->prompt;
	j->p.n_prompt = n_prompt;
	j->p.max_tokens = n_tokens;
	j->p.ignore_eos = true;
	j->p.sampler.seed = seed;
}

static inline struct cohort_request *rig_submit(struct cohort_engine *e, const struct job *j)
{
	struct cohort_request *r = NULL;
	struct cohort_err err;

	if (cohort_engine_submit(e, &j->p, &r, &err))
		fail_msg("%s", err.text);
	return r;
}

/* Whether what output k came to is what it is alone; with `cut` the beginning of it (the request was ended). */
static inline void rig_check_output(struct cohort_request *r, const struct job *j, int32_t k, bool cut)
{
	static struct alone a;
	struct cohort_output o;
	struct cohort_err err;

	if (cohort_request_output_get(r, k, &o, &err))
		fail_msg("%s", err.text);
	alone_run(rig_model, rig_alone, &j->p, k, &a);
	if (!cut) {
		if (o.finish != a.finish)
			fail_msg("ended with %s: %s", cohort_finish_name(o.finish), o.error ? o.error->text : "");
		assert_int_equal(o.n_tokens, a.n_tokens);
		assert_int_equal(o.n_bytes, a.n_bytes);
	}
	assert_true(o.n_tokens <= a.n_tokens && o.n_bytes <= a.n_bytes);
	assert_memory_equal(o.tokens, a.tokens, (size_t)o.n_tokens * sizeof *o.tokens);
	assert_memory_equal(o.text, a.text, o.n_bytes);
	if (o.logprobs)
		assert_memory_equal(o.logprobs, a.logprobs, (size_t)o.n_tokens * sizeof *o.logprobs);
}

static inline void rig_check(struct cohort_request *r, const struct job *j)
{
	for (int32_t k = 0; k < j->p.n_outputs; k++)
		rig_check_output(r, j, k, false);
}

/* How output k ended. */
static inline struct cohort_output rig_output(struct cohort_request *r, int32_t k)
{
	struct cohort_output o;
	struct cohort_err err;

	if (cohort_request_output_get(r, k, &o, &err))
		fail_msg("%s", err.text);
	return o;
}

static inline bool rig_is_done(struct cohort_request *r)
{
	bool done = false;
	assert_int_equal(cohort_request_wait(r, 0, &done, NULL), COHORT_OK);
	return done;
}

/* Nobody holds anything: slots are idle, blocks are free or cached. */
static inline void rig_check_empty(struct cohort_engine *e, int32_t n_slots)
{
	const struct cohort_engine_stats s = rig_stats(e);

	assert_int_equal(s.last.n_idle, n_slots);
	assert_int_equal(s.last.n_prefilling + s.last.n_generating + s.last.n_parked, 0);
	assert_int_equal(s.last.n_blocks_used, 0);
	if (s.last.n_blocks) /* models with states have none */
		assert_int_equal(s.last.n_blocks_free + s.last.n_blocks_cached, s.last.n_blocks);
}

static inline void rig_sleep(double s)
{
	const struct timespec t = {.tv_sec = (time_t)s, .tv_nsec = (long)((s - (double)(time_t)s) * 1e9)};
	nanosleep(&t, NULL);
}

/* Runs a request alone on the engine, whose output must be what it always is; returns the tokens it reused. */
static inline int32_t rig_reused(struct cohort_engine *e, const struct job *j)
{
	struct cohort_request_stats rs;
	struct cohort_request *r = rig_submit(e, j);

	rig_run(e);
	rig_check(r, j);
	cohort_request_stats_get(r, &rs);
	cohort_request_free(r);
	return rs.n_cached;
}

#endif
