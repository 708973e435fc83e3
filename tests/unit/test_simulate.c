/* The simulation: times that can be worked out by hand, sums that must come out, the same result twice, and refusals.
 *
 * Costs are sums of powers of two, so that hand and machine agree to the last bit. Each of these planted faults was
 * seen red: requests that come when they are submitted instead of when they arrive (one_slot,
 * simulated_strategies_give_prompts_their_rows); decode rows counted as prefill rows (request_alone_has_its_ticks,
 * simulated_strategies_give_prompts_their_rows, ...); a cost for the first ubatch of a tick only
 * (request_alone_has_its_ticks, simulated_rows_and_ticks_add_up); gaps measured from the first token
 * (request_alone_has_its_ticks); prompts of a group that begin with tokens of their own
 * (shared_prompts_are_computed_once, simulated_rows_and_ticks_add_up); a clock that does not jump to the next arrival
 * (requests_far_apart_are_as_if_alone, by the test's abort); costs that are no numbers taken for 0 (bad_costs);
 * handles of refused requests kept (full_queue_and_long_requests_are_refused, under valgrind). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/mem.h"
#include "base/rng.h"
#include "cohort_engine.h"
#include "effort.h"
#include "room_case.h"

#define BASE_S (1.0 / 64)
#define PREFILL_S (1.0 / 4096)
#define DECODE_S (1.0 / 512)

static double cost(int32_t n_prefill, int32_t n_decode)
{
	return BASE_S + PREFILL_S * n_prefill + DECODE_S * n_decode;
}

static double cost_fn(void *user, int32_t n_prefill, int32_t n_decode)
{
	assert_null(user);
	return cost(n_prefill, n_decode);
}

/* Enough for every case here; what does not end by itself ends so. */
static bool too_long(void *user)
{
	int64_t *n_left = user;
	return (*n_left)-- <= 0;
}

struct world {
	struct cohort_sim_params p;
	struct cohort_sim_request r[512];
	struct cohort_sim_outcome o[512];
	size_t n;
	struct cohort_sim_totals t;
	int64_t n_left;
};

static void world_init(struct world *w)
{
	memset(w, 0, sizeof *w);
	cohort_sim_params_init(&w->p);
	w->p.cost_s = cost_fn;
	w->p.abort = too_long;
	w->p.abort_user = &w->n_left;
	w->n_left = 100000;
}

static struct cohort_sim_request *add(struct world *w, double arrival_s, int32_t n_prompt, int32_t n_output)
{
	struct cohort_sim_request *r = &w->r[w->n++];
	*r = (struct cohort_sim_request){.arrival_s = arrival_s, .n_prompt = n_prompt, .n_output = n_output};
	return r;
}

static void run(struct world *w)
{
	struct cohort_err err = {.status = COHORT_OK};
	if (cohort_simulate(&w->p, w->r, w->n, w->o, &w->t, &err))
		fail_msg("%s", err.text);
}

static uint64_t n_gaps(const struct cohort_sim_totals *t)
{
	uint64_t n = 0;
	for (size_t b = 0; b < COHORT_SIM_BINS; b++)
		n += t->gaps[b];
	return n;
}

/* ---- By hand ---- */

/* One request: its prompt in ubatches and chunks, then one row a tick. */
static void request_alone_has_its_ticks(void **state)
{
	static struct world w;
	(void)state;

	world_init(&w);
	add(&w, 0.5, 100, 5);
	run(&w);
	assert_true(w.o[0].finish == COHORT_FINISH_LENGTH && !w.o[0].refused);
	assert_true(w.o[0].queued_s == 0.0);
	assert_true(w.o[0].first_token_s == cost(100, 0));
	assert_true(w.o[0].end_s == cost(100, 0) + 4 * cost(0, 1));
	assert_true(w.o[0].gap_max_s == cost(0, 1) && w.t.gap_max_s == cost(0, 1));
	assert_true(w.t.now_s == 0.5 + w.o[0].end_s && w.t.busy_s == w.o[0].end_s);
	assert_int_equal(w.o[0].n_generated, 5);
	assert_int_equal(w.t.n_ticks, 5);
	assert_int_equal(w.t.n_ubatches, 5);
	assert_int_equal(w.t.n_prefill_rows, 100);
	assert_int_equal(w.t.n_decode_rows, 4);
	assert_int_equal(n_gaps(&w.t), 4);
	for (int32_t b = 0; b < COHORT_SIM_BINS; b++)
		if (w.t.gaps[b])
			assert_true(fabs(cohort_sim_bin_s(b) - cost(0, 1)) < 0.008 * cost(0, 1));

	w.p.n_ubatch = 32; /* 32 + 32 + 32 + 4 rows in one tick */
	run(&w);
	assert_true(w.o[0].first_token_s == 3 * cost(32, 0) + cost(4, 0));
	assert_int_equal(w.t.n_ticks, 5);
	assert_int_equal(w.t.n_ubatches, 8);

	w.p.n_ubatch = 128;
	w.p.chunk_size = 40; /* three ticks: 40 + 40 + 20 */
	run(&w);
	assert_true(w.o[0].first_token_s == 2 * cost(40, 0) + cost(20, 0));
	assert_int_equal(w.t.n_ticks, 7);

	w.p.chunk_size = 512;
	w.p.budget = 30; /* four: 30 + 30 + 30 + 10 */
	run(&w);
	assert_true(w.o[0].first_token_s == 3 * cost(30, 0) + cost(10, 0));
}

/* Requests far apart: the clock jumps, and each is as if alone. */
static void requests_far_apart_are_as_if_alone(void **state)
{
	static struct world w;
	(void)state;

	world_init(&w);
	for (int i = 0; i < 4; i++)
		add(&w, 1000.0 * i, 10, 3);
	run(&w);
	for (int i = 0; i < 4; i++) {
		assert_true(w.o[i].queued_s == 0.0 && w.o[i].first_token_s == cost(10, 0));
		assert_true(w.o[i].end_s == cost(10, 0) + 2 * cost(0, 1));
	}
	assert_true(w.t.now_s == 3000 + w.o[3].end_s && w.t.busy_s == 4 * w.o[3].end_s);
	assert_int_equal(w.t.n_ticks, 12);
}

/* Two that wait for one slot: the second is admitted when the first has ended. */
static void one_slot(void **state)
{
	static struct world w;
	(void)state;

	world_init(&w);
	w.p.n_slots = 1;
	add(&w, 0, 20, 4);
	add(&w, BASE_S / 2, 10, 1);
	run(&w);
	const double end = cost(20, 0) + 3 * cost(0, 1);
	assert_true(w.o[0].end_s == end);
	assert_true(w.o[1].queued_s == end - BASE_S / 2);
	assert_true(w.o[1].first_token_s == end - BASE_S / 2 + cost(10, 0));
	assert_true(w.o[1].end_s == w.o[1].first_token_s && w.o[1].gap_max_s == 0.0);
	assert_int_equal(w.t.n_queued_max, 1);
}

/* Eight slots generate, a ninth has a prompt of 56 tokens, and there are 8 rows a tick. decode-maximal leaves the
 * prompt one row, prefill-priority gives it seven, balanced four. */
static void simulated_strategies_give_prompts_their_rows(void **state)
{
	static const struct {
		const char *name;
		int32_t n_prefill;
	} cases[] = {{"decode-maximal", 1}, {"prefill-priority", 7}, {"balanced", 4}};
	static struct world w;
	(void)state;

	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		const int32_t p = cases[i].n_prefill, n_ticks = 56 / p;
		world_init(&w);
		w.p.strategy = cohort_strategy_find(cases[i].name);
		assert_non_null(w.p.strategy);
		w.p.n_slots = 9;
		w.p.budget = 8;
		for (int k = 0; k < 8; k++)
			add(&w, 0, 1, 100);
		add(&w, BASE_S / 4, 56, 2);
		run(&w);
		assert_true(w.o[8].queued_s == cost(8, 0) - BASE_S / 4);
		assert_true(w.o[8].first_token_s == cost(8, 0) - BASE_S / 4 + n_ticks * cost(p, 8 - p));
		for (int k = 0; k < 8; k++)
			assert_true(w.o[k].first_token_s == cost(8, 0));
		assert_int_equal(w.t.n_tokens, 8 * 100 + 2);
		assert_int_equal(w.t.n_fallbacks, 0);
	}
}

/* Of three at once one may wait and one has a slot at the next tick only: two are refused, and so is what is too long
 * for the cache or a sequence. */
static void full_queue_and_long_requests_are_refused(void **state)
{
	static struct world w;
	(void)state;

	world_init(&w);
	w.p.n_slots = 1;
	w.p.n_ctx = 64;
	w.p.queue_requests_max = 1;
	for (int i = 0; i < 3; i++)
		add(&w, 0, 10, 3);
	add(&w, 1, 60, 5);
	add(&w, 1, 60, 4);
	run(&w);
	for (int i = 0; i < 5; i++) {
		const bool served = i == 0 || i == 4;
		assert_int_equal(w.o[i].refused, !served);
		assert_int_equal(w.o[i].finish, served ? COHORT_FINISH_LENGTH : COHORT_FINISH_NONE);
		assert_true(served ? w.o[i].end_s > 0 : w.o[i].end_s == -1.0 && w.o[i].first_token_s == -1.0);
	}
	assert_int_equal(w.t.n_refused, 3);
	assert_int_equal(w.t.n_done, 2);
	w.p.n_pos_max = 1 << 20; /* more than n_ctx: as if none were said */
	run(&w);
	assert_int_equal(w.t.n_done, 2);
	w.p.n_pos_max = 12;
	run(&w);
	assert_int_equal(w.t.n_done, 0);
	assert_int_equal(w.t.n_refused, 5);
}

/* Requests that no sequence can hold, or the queue, are refused before a token of theirs is made: a trace of a hundred
 * bytes may name a billion. Seen red with tokens made first: ten seconds, and a GiB. */
static void refused_at_once(void **state)
{
	static struct world w;
	(void)state;

	world_init(&w);
	for (int i = 0; i < 8; i++)
		add(&w, 0, 1 << 28, 1);
	add(&w, 0, 10, 1);
	const clock_t began = clock();
	run(&w);
	assert_int_equal(w.t.n_refused, 8);
	assert_int_equal(w.t.n_done, 1);
	world_init(&w);
	w.p.n_ctx = 1 << 26; /* there is room for them, but the queue has none */
	w.p.no_reuse = true;
	for (int i = 0; i < 32; i++)
		add(&w, 0, 1 << 25, 1);
	run(&w);
	assert_int_equal(w.t.n_refused, 32);
	assert_true((double)(clock() - began) / CLOCKS_PER_SEC < 5);
}

/* Groups may have any number: those that differ in the highest bit alone are two. Seen red with the number doubled to
 * tell groups from requests. */
static void far_groups(void **state)
{
	const int32_t block = pool_block_size();
	static struct world w;
	(void)state;

	world_init(&w);
	for (uint64_t i = 0; i < 4; i++) {
		struct cohort_sim_request *r = add(&w, 100.0 * (double)i, 3 * block, 2);
		r->group = 7 | i % 2 << 63;
		r->n_shared = 2 * block;
	}
	run(&w);
	assert_int_equal(w.o[0].n_cached, 0);
	assert_int_equal(w.o[1].n_cached, 0);
	assert_int_equal(w.o[2].n_cached, 2 * block);
	assert_int_equal(w.o[3].n_cached, 2 * block);
}

/* A prompt's tokens that a group shares are computed once, in whole blocks, and never the last one of a prompt. */
static void shared_prompts_are_computed_once(void **state)
{
	const int32_t block = pool_block_size();
	static struct world w;
	(void)state;

	world_init(&w);
	for (int i = 0; i < 3; i++) {
		struct cohort_sim_request *r = add(&w, 100.0 * i, 3 * block, 2);
		r->group = i == 2 ? 8 : 7;
		r->n_shared = 2 * block;
	}
	add(&w, 300, 3 * block, 2)->n_shared = 0;
	*add(&w, 400, 2 * block, 2) = (struct cohort_sim_request){
			.arrival_s = 400, .n_prompt = 2 * block, .n_output = 2, .group = 7, .n_shared = 2 * block};
	run(&w);
	assert_int_equal(w.o[0].n_cached, 0);
	assert_int_equal(w.o[1].n_cached, 2 * block);
	assert_int_equal(w.o[2].n_cached, 0);
	assert_int_equal(w.o[3].n_cached, 0);
	assert_int_equal(w.o[4].n_cached, block);
	assert_int_equal(w.t.n_cached_tokens, 3 * block);
	assert_int_equal(w.t.n_prompt_tokens, 14 * block);
	assert_int_equal(w.t.n_prefill_rows, 11 * block);
	assert_true(w.o[1].first_token_s == cost(block, 0));

	w.p.no_reuse = true;
	run(&w);
	assert_int_equal(w.t.n_cached_tokens, 0);
	assert_int_equal(w.t.n_prefill_rows, 14 * block);
}

/* ---- Sums ---- */

struct seen {
	uint64_t n_ticks, n_prefill, n_decode, n_sampled;
	double at_s;
};

static void on_tick(const struct cohort_tick *tick, void *user)
{
	struct seen *s = user;

	assert_int_equal(tick->tick, ++s->n_ticks);
	assert_true(tick->at_s >= s->at_s);
	assert_true(tick->n_prefill_rows + tick->n_decode_rows <= 48);
	s->at_s = tick->at_s;
	s->n_prefill += (uint64_t)tick->n_prefill_rows;
	s->n_decode += (uint64_t)tick->n_decode_rows;
	s->n_sampled += (uint64_t)tick->n_sampled;
}

static void make_random(struct world *w, uint64_t seed)
{
	struct rng r;
	double at = 0;

	world_init(w);
	rng_init(&r, seed, 0);
	w->p.n_slots = 1 + (int32_t)(rng_u32(&r) % 12);
	w->p.n_ctx = 512;
	w->p.budget = 48;
	w->p.n_ubatch = 16;
	w->p.chunk_size = 1 + (int32_t)(rng_u32(&r) % 64);
	w->p.no_reuse = rng_u32(&r) % 4 == 0;
	w->p.room = rng_u32(&r) % 2 ? COHORT_ROOM_OVERCOMMIT : COHORT_ROOM_RESERVE;
	w->p.strategy = cohort_strategy_get(rng_u32(&r) % cohort_strategy_count());
	w->p.queue_requests_max = 8;
	for (int i = 0; i < 200; i++) {
		at += rng_u32(&r) % 4 ? 0 : rng_f64(&r);
		struct cohort_sim_request *q =
				add(w, at, 1 + (int32_t)(rng_u32(&r) % 200), 1 + (int32_t)(rng_u32(&r) % 100));
		q->client = rng_u32(&r) % 5;
		q->priority = (int32_t)(rng_u32(&r) % 3);
		q->group = rng_u32(&r) % 3;
		q->n_shared = (int32_t)(rng_u32(&r) % (uint32_t)(q->n_prompt + 1));
	}
}

/* Tokens are what was asked for, rows are what tokens need, ticks add up, and a second run is the same. */
static void simulated_rows_and_ticks_add_up(void **state)
{
	static struct world w, again;
	uint64_t n_parked = 0, n_refused = 0, n_cached = 0;
	(void)state;

	for (uint64_t seed = 0; seed < (uint64_t)effort(60); seed++) {
		struct seen seen = {.n_ticks = 0};
		uint64_t tokens = 0, prefill = 0, decode = 0, gaps = 0, done = 0, parks = 0;

		make_random(&w, seed);
		w.p.on_tick = on_tick;
		w.p.on_tick_user = &seen;
		run(&w);
		for (size_t i = 0; i < w.n; i++) {
			const struct cohort_sim_outcome *o = &w.o[i];
			if (o->refused) {
				assert_int_equal(o->finish, COHORT_FINISH_NONE);
				assert_int_equal(o->n_generated, 0);
				continue;
			}
			done++;
			assert_int_equal(o->finish, COHORT_FINISH_LENGTH);
			assert_int_equal(o->n_generated, w.r[i].n_output);
			assert_true(0 <= o->queued_s && o->queued_s < o->first_token_s && o->first_token_s <= o->end_s);
			assert_true(o->n_cached < w.r[i].n_prompt);
			tokens += (uint64_t)w.r[i].n_output;
			prefill += (uint64_t)(w.r[i].n_prompt - o->n_cached);
			decode += (uint64_t)(w.r[i].n_output - 1);
			gaps += (uint64_t)(w.r[i].n_output - 1);
			parks += (uint64_t)o->n_parked;
		}
		assert_int_equal(w.t.n_done, done);
		assert_int_equal(w.t.n_done + w.t.n_refused, w.n);
		assert_int_equal(w.t.n_tokens, tokens);
		assert_int_equal(n_gaps(&w.t), gaps);
		assert_int_equal(w.t.n_parked, parks);
		assert_int_equal(w.t.n_fallbacks, 0);
		/* What was parked is computed again: as prefill rows, some in the place of a decode row. */
		if (parks == 0) {
			assert_int_equal(w.t.n_prefill_rows, prefill);
			assert_int_equal(w.t.n_decode_rows, decode);
		} else {
			assert_true(w.t.n_prefill_rows + w.t.n_decode_rows > prefill + decode);
		}
		assert_int_equal(seen.n_ticks, w.t.n_ticks);
		assert_int_equal(seen.n_prefill, w.t.n_prefill_rows);
		assert_int_equal(seen.n_decode, w.t.n_decode_rows);
		assert_int_equal(seen.n_sampled, w.t.n_tokens);
		n_parked += w.t.n_parked;
		n_refused += w.t.n_refused;
		n_cached += w.t.n_cached_tokens;

		make_random(&again, seed);
		run(&again);
		w.t.real_s = again.t.real_s = 0;
		assert_memory_equal(&w.t, &again.t, sizeof w.t);
		for (size_t i = 0; i < w.n; i++)
			assert_true(w.o[i].end_s == again.o[i].end_s && w.o[i].queued_s == again.o[i].queued_s &&
					w.o[i].gap_max_s == again.o[i].gap_max_s);
	}
	/* All of it was met. */
	assert_true(n_parked > 0 && n_refused > 0 && n_cached > 0);
}

/* ---- The engine itself ---- */

enum { TICKS_MAX = 4096 };
struct log {
	struct cohort_tick ticks[TICKS_MAX];
	size_t n;
};

static void log_tick(const struct cohort_tick *tick, void *user)
{
	struct log *l = user;
	assert_true(l->n < TICKS_MAX);
	l->ticks[l->n++] = *tick;
}

/* Opens the engine by hand with the simulation's settings, gives it the trace's requests at once, ticks it to the end.
 */
static void run_engine(const struct cohort_model *model, const struct world *w, struct log *l)
{
	static cohort_token prompt[512];
	struct cohort_engine_params p;
	struct cohort_engine *e;
	struct cohort_request *handles[512];
	struct cohort_err err;
	struct rng r;
	bool idle = false;

	cohort_engine_params_init(&p);
	p.n_slots = w->p.n_slots;
	p.context.n_ctx = w->p.n_ctx;
	p.context.n_batch = w->p.n_batch;
	p.context.n_ubatch = w->p.n_ubatch;
	p.context.n_threads = 1;
	p.budget = w->p.budget;
	p.chunk_size = w->p.chunk_size;
	p.strategy = w->p.strategy;
	p.room = w->p.room;
	p.manual = true;
	p.on_tick = log_tick;
	p.on_tick_user = l;
	assert_int_equal(cohort_engine_open(model, &p, &e, &err), COHORT_OK);
	rng_init(&r, 1, 0);
	for (size_t i = 0; i < w->n; i++) {
		struct cohort_request_params rp;
		cohort_request_params_init(&rp);
		/* The first token is the request's own, so that no two share a block. */
		for (int32_t k = 0; k < w->r[i].n_prompt; k++)
			prompt[k] = k == 0 ? 100 + (cohort_token)i : (cohort_token)(100 + rng_u32(&r) % 8000);
		rp.prompt = prompt;
		rp.n_prompt = w->r[i].n_prompt;
		rp.max_tokens = w->r[i].n_output;
		rp.client = w->r[i].client;
		rp.priority = w->r[i].priority;
		rp.ignore_eos = true;
		assert_int_equal(cohort_engine_submit(e, &rp, &handles[i], &err), COHORT_OK);
	}
	while (!idle)
		assert_int_equal(cohort_engine_tick(e, &idle, &err), COHORT_OK);
	for (size_t i = 0; i < w->n; i++)
		cohort_request_free(handles[i]);
	cohort_engine_free(e);
}

/* Tick for tick what the engine does with a model: the same rows, slots, queue and blocks. Seen red with another number
 * of ids for cached prompts, and with a budget of one row less. */
static void as_the_engine(void **state)
{
	static struct world w;
	static struct log ours, theirs;
	const char *source = getenv("COHORT_SOURCE");
	struct cohort_model *model;
	struct cohort_err err;
	char path[4096];
	uint64_t n_parked = 0;
	(void)state;

	snprintf(path, sizeof path, "%s/models/cohort-tiny.gguf", source ? source : ".");
	if (cohort_model_open(path, NULL, &model, &err))
		fail_msg("%s", err.text);
	for (size_t k = 0; k < 2 * cohort_strategy_count(); k++) {
		struct rng r;
		world_init(&w);
		rng_init(&r, k, 0);
		w.p.n_slots = 5;
		w.p.n_ctx = 192;
		w.p.n_batch = 24;
		w.p.n_ubatch = 16;
		w.p.chunk_size = 10;
		w.p.strategy = cohort_strategy_get(k / 2);
		w.p.room = k % 2 ? COHORT_ROOM_OVERCOMMIT : COHORT_ROOM_RESERVE;
		w.p.on_tick = log_tick;
		w.p.on_tick_user = &ours;
		for (int i = 0; i < 10; i++) {
			struct cohort_sim_request *q =
					add(&w, 0, 1 + (int32_t)(rng_u32(&r) % 70), 1 + (int32_t)(rng_u32(&r) % 40));
			q->client = rng_u32(&r) % 3;
			q->priority = (int32_t)(rng_u32(&r) % 2);
		}
		ours.n = theirs.n = 0;
		run(&w);
		n_parked += w.t.n_parked;
		run_engine(model, &w, &theirs);
		assert_int_equal(ours.n, theirs.n);
		for (size_t i = 0; i < ours.n; i++) {
			struct cohort_tick a = ours.ticks[i], b = theirs.ticks[i];
			assert_int_equal(a.n_prefill_rows, b.n_prefill_rows);
			assert_int_equal(a.n_decode_rows, b.n_decode_rows);
			assert_int_equal(a.n_sampled, b.n_sampled);
			assert_int_equal(a.n_idle, b.n_idle);
			assert_int_equal(a.n_parked, b.n_parked);
			assert_int_equal(a.n_queued, b.n_queued);
			assert_int_equal(a.n_blocks, b.n_blocks);
			assert_int_equal(a.n_blocks_used, b.n_blocks_used);
			assert_int_equal(a.n_blocks_cached, b.n_blocks_cached);
		}
	}
	assert_true(n_parked > 0);
	cohort_model_free(model);
}

/* ---- Bad ---- */

static void expect(struct world *w, enum cohort_status status, const char *text)
{
	struct cohort_err err;

	assert_int_equal(cohort_simulate(&w->p, w->r, w->n, w->o, &w->t, &err), status);
	assert_int_equal(err.status, status);
	if (!strstr(err.text, text))
		fail_msg("'%s' is not in '%s'", text, err.text);
}

static void simulate_refuses_bad_params(void **state)
{
	static struct world w;
	struct cohort_err err;
	(void)state;

#define BAD(field, value, text) \
	do { \
		world_init(&w); \
		add(&w, 0, 1, 1); \
		w.p.field = (value); \
		expect(&w, COHORT_E_ARG, (text)); \
	} while (0)
	BAD(n_slots, 0, "n_slots");
	BAD(n_slots, 1 << 17, "n_slots");
	BAD(n_ctx, 0, "n_ctx");
	BAD(n_pos_max, -1, "n_pos_max");
	BAD(n_batch, 0, "n_batch");
	BAD(n_ubatch, 0, "n_ubatch");
	BAD(budget, 513, "budget");
	BAD(budget, -1, "budget");
	BAD(chunk_size, 0, "chunk_size");
	BAD(queue_requests_max, -1, "queue_requests_max");
	BAD(queue_tokens_max, -1, "queue_tokens_max");
	BAD(wait_max_s, NAN, "wait_max_s");
	BAD(room, (enum cohort_room)2, "room");
	static const struct cohort_strategy unfinished = {.struct_size = sizeof unfinished, .name = "x"};
	BAD(strategy, &unfinished, "build_batch");
	BAD(cost_s, NULL, "cost");
	BAD(struct_size, 8, "params");
#undef BAD
	world_init(&w);
	assert_int_equal(cohort_simulate(NULL, w.r, 0, w.o, &w.t, &err), COHORT_E_ARG);
	assert_int_equal(cohort_simulate(&w.p, w.r, 0, w.o, NULL, &err), COHORT_E_ARG);
	assert_int_equal(cohort_simulate(&w.p, NULL, 1, w.o, &w.t, NULL), COHORT_E_ARG);
	assert_int_equal(cohort_simulate(&w.p, w.r, 1, NULL, &w.t, NULL), COHORT_E_ARG);
	assert_int_equal(cohort_simulate(&w.p, NULL, 0, NULL, &w.t, &err), COHORT_OK);
	assert_true(w.t.now_s == 0.0 && w.t.n_ticks == 0);
	cohort_sim_params_init(NULL);
}

static void bad_requests(void **state)
{
	static struct world w;
	(void)state;

#define BAD(field, value, text) \
	do { \
		world_init(&w); \
		add(&w, 1, 1, 1); \
		add(&w, 2, 1, 1)->field = (value); \
		expect(&w, COHORT_E_ARG, (text)); \
	} while (0)
	BAD(arrival_s, 0.5, "request 1 comes at 0.5 s");
	BAD(arrival_s, NAN, "request 1 comes");
	BAD(arrival_s, INFINITY, "request 1 comes");
	BAD(n_prompt, 0, "request 1 has a prompt of 0");
	BAD(n_output, 0, "an output of 0");
	BAD(n_shared, 2, "request 1 shares 2 tokens");
	BAD(n_shared, -1, "request 1 shares -1 tokens");
#undef BAD
	world_init(&w);
	add(&w, -1, 1, 1);
	expect(&w, COHORT_E_ARG, "request 0 comes at -1 s");
}

static double odd_cost(void *user, int32_t n_prefill, int32_t n_decode)
{
	return n_decode == 2 ? *(const double *)user : cost(n_prefill, n_decode);
}

static double odd_prefill(void *user, int32_t n_prefill, int32_t n_decode)
{
	return n_prefill ? *(const double *)user : cost(n_prefill, n_decode);
}

static void bad_costs(void **state)
{
	const double odd[] = {-1, NAN, INFINITY};
	static struct world w;
	(void)state;

	for (size_t i = 0; i < sizeof odd / sizeof *odd; i++) {
		world_init(&w);
		add(&w, 0, 5, 9);
		add(&w, 0, 5, 9);
		w.p.cost_s = odd_cost;
		w.p.cost_user = (void *)&odd[i];
		expect(&w, COHORT_E_ARG, "the cost of 0 prefill and 2 decode rows is");
		assert_int_equal(w.o[0].finish, COHORT_FINISH_SHUTDOWN);
		w.p.cost_s = odd_prefill;
		expect(&w, COHORT_E_ARG, "the cost of 10 prefill and 0 decode rows is");
	}
}

/* Costs are numbers, their sum is none: said, not told as times that are NaN. Seen red with each cost looked at alone
 * (OK, and a clock at infinity). */
static void clock_at_its_end(void **state)
{
	const double half = 1e308;
	static struct world w;
	(void)state;

	world_init(&w);
	add(&w, 0, 5, 9);
	add(&w, 0, 5, 9);
	w.p.cost_s = odd_cost;
	w.p.cost_user = (void *)&half;
	expect(&w, COHORT_E_ARG, "the cost of 0 prefill and 2 decode rows is 1e+308 s at 1e+308 s");
	assert_true(isfinite(w.t.now_s) && isfinite(w.t.busy_s) && isfinite(w.t.gap_max_s));
	for (size_t i = 0; i < w.n; i++)
		assert_true(isfinite(w.o[i].end_s) && isfinite(w.o[i].gap_max_s));
}

/* What had ended has its outcome, what was under way says so, the rest was never there. */
static void aborted_simulation_keeps_what_had_ended(void **state)
{
	static struct world w;
	(void)state;

	world_init(&w);
	w.p.n_slots = 1;
	add(&w, 0, 5, 2);
	add(&w, 0, 5, 100);
	add(&w, 0, 5, 100);
	add(&w, 1000, 5, 2);
	w.n_left = 5;
	expect(&w, COHORT_ABORTED, "ended");
	assert_int_equal(w.o[0].finish, COHORT_FINISH_LENGTH);
	assert_int_equal(w.o[1].finish, COHORT_FINISH_SHUTDOWN);
	assert_int_equal(w.o[2].finish, COHORT_FINISH_SHUTDOWN);
	assert_int_equal(w.o[3].finish, COHORT_FINISH_NONE);
	assert_int_equal(w.t.n_done, 1);
	assert_int_equal(w.t.n_ticks, 6);
	w.p.abort = NULL;
	run(&w);
	assert_int_equal(w.t.n_done, 4);
}

/* Each allocation fails once; nothing is left behind (the sanitizers and valgrind look). */
static void simulate_out_of_memory_at_every_point(void **state)
{
	static struct world w;
	bool done = false;
	(void)state;

	for (int64_t i = 0; !done; i++) {
		struct cohort_err err;
		world_init(&w);
		add(&w, 0, 40, 3);
		add(&w, 0, 5, 2);
		mem_fail_after(i);
		enum cohort_status st = cohort_simulate(&w.p, w.r, w.n, w.o, &w.t, &err);
		mem_fail_after(-1);
		done = st == COHORT_OK;
		assert_true(done || (st == COHORT_E_MEMORY && err.status == st));
		mem_fail_after(i); /* and nobody is told */
		st = cohort_simulate(&w.p, w.r, w.n, w.o, &w.t, NULL);
		mem_fail_after(-1);
		assert_int_equal(st, done ? COHORT_OK : COHORT_E_MEMORY);
		assert_true(i < 1000);
	}
	assert_int_equal(w.t.n_done, 2);
}

/* Bins rise, and a time lies within 1/128 of the middle of its bin. */
static void histogram_bins_rise(void **state)
{
	static struct world w;
	(void)state;

	assert_true(cohort_sim_bin_s(0) == 0 && cohort_sim_bin_s(-1) == 0 && cohort_sim_bin_s(COHORT_SIM_BINS) == 0);
	for (int32_t b = 1; b + 1 < COHORT_SIM_BINS; b++)
		assert_true(cohort_sim_bin_s(b) < cohort_sim_bin_s(b + 1) &&
				cohort_sim_bin_s(b + 1) < 1.0157 * cohort_sim_bin_s(b));
	static const double times[] = {0, 1e-7, 1e-6, 1.0 / (1 << 20), 3e-4, 0.7, 1, 1.99999, 60, 1e5, 131071, 1e6};
	for (size_t i = 0; i < sizeof times / sizeof *times; i++) {
		world_init(&w);
		add(&w, 0, 1, 1);
		add(&w, 0, 1, 2);
		double odd = times[i];
		w.p.cost_s = odd_cost;
		w.p.cost_user = &odd;
		w.r[0].n_output = 2; /* both make one step of 2 decode rows */
		run(&w);
		assert_int_equal(n_gaps(&w.t), 2);
		for (int32_t b = 0; b < COHORT_SIM_BINS; b++) {
			if (!w.t.gaps[b])
				continue;
			const double s = cohort_sim_bin_s(b), got = w.t.gap_max_s;
			if (b == 0)
				assert_true(got < 1.0 / (1 << 20));
			else if (b == COHORT_SIM_BINS - 1)
				assert_true(got > 130000);
			else
				assert_true(fabs(s - got) <= got / 128);
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
			cmocka_unit_test(request_alone_has_its_ticks),
			cmocka_unit_test(requests_far_apart_are_as_if_alone),
			cmocka_unit_test(one_slot),
			cmocka_unit_test(simulated_strategies_give_prompts_their_rows),
			cmocka_unit_test(full_queue_and_long_requests_are_refused),
			cmocka_unit_test(refused_at_once),
			cmocka_unit_test(far_groups),
			cmocka_unit_test(shared_prompts_are_computed_once),
			cmocka_unit_test(simulated_rows_and_ticks_add_up),
			cmocka_unit_test(as_the_engine),
			cmocka_unit_test(simulate_refuses_bad_params),
			cmocka_unit_test(bad_requests),
			cmocka_unit_test(bad_costs),
			cmocka_unit_test(clock_at_its_end),
			cmocka_unit_test(aborted_simulation_keeps_what_had_ended),
			cmocka_unit_test(simulate_out_of_memory_at_every_point),
			cmocka_unit_test(histogram_bins_rise),
	};
	return cmocka_run_group_tests_name("simulate", tests, NULL, NULL);
}
