/* Requests that are submitted before a tick and begin alike: what they have in common is computed once, whatever
 * becomes of the one that computes it. Rows are counted, and every text is what it is alone.
 *
 * Shown red by planted faults in admit.c: a leader that is not looked for (all that count rows), one of lower priority
 * (urgent_requests_do_not_wait_for_others), or one that is behind (prompt_that_is_behind_is_not_waited_for), those who
 * wait begun in the order of their slots (urgent_waits), a leader that ended and is waited for on
 * (leader_or_follower_is_cancelled), a state that is not kept where somebody waits for it
 * (alike_prompts_of_recurrent_models). */
#include "engine_rig.h"

#include "arch_case.h"

enum { N_MOST = 64, BLOCK = 32 };

static struct job jobs[N_MOST];
static struct cohort_request *requests[N_MOST];
static int n_jobs;

/* Adds a job whose prompt is made of parts: of each its seed and length. */
struct part {
	uint64_t seed;
	int32_t n;
};

static struct job *add_job(const struct part *parts, int n_parts, int32_t n_tokens)
{
	struct job *j = &jobs[n_jobs++];
	int32_t n = 0;

	assert_true(n_jobs <= N_MOST);
	rig_job(j, (uint64_t)n_jobs, 1, n_tokens);
	for (int i = 0; i < n_parts; i++) {
		struct rng r;
		rng_init(&r, parts[i].seed, 9);
		for (int32_t k = 0; k < parts[i].n; k++)
			j->prompt[n++] = pick(&r, 3, 250);
	}
	j->p.n_prompt = n;
	return j;
}

/* n jobs with n_common tokens in common and n_own + i of their own. */
static void add_alike(int n, int32_t n_common, int32_t n_own)
{
	for (int i = 0; i < n; i++)
		add_job((struct part[]){{1000, n_common}, {2000 + (uint64_t)i, n_own + i}}, 2, 4);
}

static void submit_from(struct cohort_engine *e, int from)
{
	for (int i = from; i < n_jobs; i++)
		requests[i] = rig_submit(e, &jobs[i]);
}

/* All that were not ended by the test say what they say alone. */
static void check_all(void)
{
	for (int i = 0; i < n_jobs; i++) {
		assert_true(rig_is_done(requests[i]));
		const enum cohort_finish finish = rig_output(requests[i], 0).finish;
		const bool cut = finish == COHORT_FINISH_CANCELLED || finish == COHORT_FINISH_TIMEOUT;
		for (int32_t k = 0; k < jobs[i].p.n_outputs; k++)
			rig_check_output(requests[i], &jobs[i], k, cut);
		cohort_request_free(requests[i]);
	}
	n_jobs = 0;
}

static int64_t n_cached_of(int i)
{
	struct cohort_request_stats stats;

	cohort_request_stats_get(requests[i], &stats);
	return stats.n_cached;
}

static struct cohort_engine *open_wide(int32_t n_ctx, int32_t n_batch)
{
	struct cohort_engine_params p;

	rig_params(&p);
	p.n_slots = N_MOST;
	p.context.n_ctx = n_ctx;
	p.context.n_blocks = pool_blocks(p.context.n_ctx, 0);
	p.context.n_batch = n_batch;
	p.context.n_ubatch = n_batch < 128 ? n_batch : 128;
	n_jobs = 0;
	return rig_engine(&p);
}

static void run_counted(struct cohort_engine *e, int64_t n_rows)
{
	rig_run(e);
	assert_int_equal(rig_stats(e).n_prefill_rows, n_rows);
	check_all();
	cohort_engine_free(e);
}

/* ---- Rows ---- */

static void sixteen_alike_prompts_share_one_prefill(void **state)
{
	int64_t n_own = 0;
	(void)state;

	for (int n_batch = 48; n_batch <= 1024; n_batch += 976) {
		struct cohort_engine *e = open_wide(16384, n_batch);
		add_alike(16, 480, 5);
		n_own = 16 * 5 + 15 * 16 / 2;
		submit_from(e, 0);
		run_counted(e, 480 + n_own);
	}
}

/* 64 prompts whose beginnings form a tree of blocks, submitted in an order that has nothing to do with it: each edge is
 * computed once. */
static void tree_of_prompts_is_computed_once(void **state)
{
	struct cohort_engine *e = open_wide(32768, 512);
	(void)state;

	for (uint64_t i = 0; i < 64; i++) {
		const uint64_t leaf = i * 37 % 64;
		add_job((struct part[]){{1, 2 * BLOCK}, {100 + leaf / 16, BLOCK}, {200 + leaf / 4, 3 * BLOCK},
					{300 + leaf, 20}},
				4, 3);
	}
	submit_from(e, 0);
	run_counted(e, 2 * BLOCK + 4 * BLOCK + 16 * 3 * BLOCK + 64 * 20);
}

/* Who shares nothing waits for nobody: all rows of all prompts are in the first tick. */
static void not_alike(void **state)
{
	struct cohort_engine *e = open_wide(16384, 1024);
	(void)state;

	add_alike(4, 200, 7);
	jobs[1].p.salt = 5;
	jobs[2].p.no_reuse = true;
	jobs[3].p.prompt_logprobs = true;
	submit_from(e, 0);
	rig_tick(e);
	assert_int_equal(rig_stats(e).n_prefill_rows, 4 * 207 + 6);
	run_counted(e, 4 * 207 + 6);
	e = open_wide(16384, 1024);
	add_alike(3, BLOCK - 1, 40); /* less than a block */
	submit_from(e, 0);
	rig_tick(e);
	run_counted(e, 3 * (BLOCK - 1 + 40) + 3);
}

/* One that is behind is not waited for: it computes all of its prompt, whatever is there. */
static void prompt_that_is_behind_is_not_waited_for(void **state)
{
	struct cohort_engine *e = open_wide(16384, BLOCK);
	(void)state;

	add_job((struct part[]){{1000, 160}}, 1, 4);
	submit_from(e, 0);
	rig_run(e);
	add_alike(2, 320, 10);
	jobs[1].p.prompt_logprobs = true;
	submit_from(e, 1);
	rig_run(e);
	assert_int_equal(n_cached_of(2), 160);
	run_counted(e, 160 + 330 + (320 - 160) + 11);
}

/* Several outputs of one prompt, the longer prompt after the shorter one, and the same prompt twice. */
static void several_outputs(void **state)
{
	struct cohort_engine *e = open_wide(16384, 1024);
	(void)state;

	add_job((struct part[]){{1, 70}}, 1, 5)->p.n_outputs = 3;
	add_job((struct part[]){{1, 70}, {2, 50}}, 2, 5)->p.n_outputs = 4;
	add_job((struct part[]){{1, 70}, {2, 50}}, 2, 5)->p.n_outputs = 2;
	submit_from(e, 0);
	/* Of 120 tokens whole blocks make 96; the first prompt has 64 in common with the others. */
	run_counted(e, 70 + (120 - 64) + (120 - 96));
}

/* ---- The leader ends ---- */

static void leader_or_follower_is_cancelled(void **state)
{
	(void)state;
	for (int which = 0; which < 2; which++) { /* the leader, or one that waits */
		struct cohort_engine *e = open_wide(16384, BLOCK);
		add_alike(5, 160, 10);
		submit_from(e, 0);
		rig_tick(e);
		rig_tick(e);
		assert_int_equal(rig_stats(e).n_prefill_rows, 2 * BLOCK);
		cohort_request_cancel(requests[which ? 2 : 0]);
		rig_tick(e);
		run_counted(e, which ? 160 + 10 + 11 + 13 + 14 : 160 + 11 + 12 + 13 + 14);
	}
}

/* The leader, and one that waits, take longer than they may; and all that have no time at all. */
static void too_late(void **state)
{
	struct cohort_engine *e = open_wide(16384, BLOCK);
	(void)state;

	add_alike(5, 160, 10);
	jobs[0].p.prefill_limit_s = jobs[3].p.prefill_limit_s = 1e-9;
	submit_from(e, 0);
	rig_tick(e);
	run_counted(e, 160 + 11 + 12 + 14);
}

/* What comes after the prompt fails: those who waited have its blocks. */
static void sampling_fails(void **state)
{
	static struct cohort_logit_bias none[300];
	struct cohort_engine *e = open_wide(16384, 1024);
	(void)state;

	for (int32_t i = 0; i < 300; i++)
		none[i] = (struct cohort_logit_bias){i, -INFINITY};
	add_alike(3, 160, 10);
	jobs[0].p.sampler.bias = none;
	jobs[0].p.sampler.n_bias = 300;
	submit_from(e, 0);
	rig_run(e);
	assert_int_equal(rig_stats(e).n_prefill_rows, 160 + 10 + 11 + 12);
	assert_int_equal(rig_output(requests[0], 0).finish, COHORT_FINISH_ERROR);
	for (int i = 1; i < 3; i++)
		rig_check(requests[i], &jobs[i]);
	for (int i = 0; i < 3; i++)
		cohort_request_free(requests[i]);
	cohort_engine_free(e);
}

/* Overcommitted, with room for less than all: leaders are parked while others wait for them. */
static void little_room(void **state)
{
	uint64_t n_parked = 0;
	(void)state;

	for (int32_t n_ctx = 256; n_ctx <= 640; n_ctx += BLOCK)
		for (int swap = 0; swap < 2; swap++) {
			struct cohort_engine_params p;
			rig_params(&p);
			p.n_slots = 8;
			p.context.n_ctx = n_ctx;
			p.context.n_blocks = pool_blocks(p.context.n_ctx, 0);
			p.room = COHORT_ROOM_OVERCOMMIT;
			p.swap_bytes = swap ? 1 << 20 : 0;
			struct cohort_engine *e = rig_engine(&p);
			n_jobs = 0;
			add_job((struct part[]){{50, 40}}, 1, 180);
			add_job((struct part[]){{51, 9}}, 1, 200);
			add_alike(6, 150, 5);
			for (int i = 2; i < 8; i++)
				jobs[i].p.max_tokens = 20;
			submit_from(e, 0);
			rig_run(e);
			n_parked += rig_stats(e).n_parked;
			check_all();
			cohort_engine_free(e);
		}
	assert_true(n_parked > 10);
}

/* With every block promised beforehand: those who wait hold what is there already, and nobody is ever parked. */
static void sixteen_in_little_room(void **state)
{
	(void)state;
	for (int32_t n_ctx = 17 * BLOCK; n_ctx <= 40 * BLOCK; n_ctx += BLOCK) {
		struct cohort_engine *e = open_wide(n_ctx, 48);
		add_job((struct part[]){{1000, 130}}, 1, 60);
		add_alike(16, 480, 5);
		submit_from(e, 0);
		rig_run(e);
		assert_int_equal(rig_stats(e).n_parked, 0);
		check_all();
		cohort_engine_free(e);
	}
}

/* ---- Priorities ---- */

/* A request waits for one of its own priority, or a higher one, but not for a lower one. */
static void urgent_requests_do_not_wait_for_others(void **state)
{
	(void)state;
	for (int32_t priority = -1; priority <= 1; priority++) {
		struct cohort_engine *e = open_wide(16384, 64);
		add_alike(2, 320, 10);
		jobs[1].p.priority = priority;
		requests[0] = rig_submit(e, &jobs[0]);
		rig_tick(e);
		requests[1] = rig_submit(e, &jobs[1]);
		rig_run(e);
		if (priority <= 0) {
			assert_int_equal(n_cached_of(1), 320);
			assert_int_equal(rig_stats(e).n_prefill_rows, 320 + 10 + 11);
		} else { /* what was there when it came */
			assert_int_equal(n_cached_of(1), 64);
			assert_true(rig_stats(e).n_prefill_rows > 320 + 10 + 11);
		}
		check_all();
		cohort_engine_free(e);
	}
	/* At once: the urgent one is admitted first, and the other waits for it. */
	struct cohort_engine *e = open_wide(16384, 64);
	add_alike(2, 320, 10);
	jobs[1].p.priority = 3;
	submit_from(e, 0);
	rig_run(e);
	assert_int_equal(n_cached_of(0), 320);
	assert_int_equal(n_cached_of(1), 0);
	run_counted(e, 320 + 10 + 11);
}

/* Of those who waited for one that was cancelled the urgent one goes on, and the other waits for it. */
static void urgent_waits(void **state)
{
	struct cohort_engine *e = open_wide(16384, BLOCK);
	(void)state;

	add_alike(3, 320, 10);
	jobs[0].p.priority = jobs[2].p.priority = 1;
	requests[0] = rig_submit(e, &jobs[0]);
	requests[1] = rig_submit(e, &jobs[1]);
	rig_tick(e);
	requests[2] = rig_submit(e, &jobs[2]);
	rig_tick(e);
	cohort_request_cancel(requests[0]);
	run_counted(e, 320 + 11 + 12);
}

/* ---- Other models ---- */

static void on_model(const char *name, void (*fn)(void **state), void **state)
{
	struct cohort_model *m = rig_model;
	struct cohort_context *alone = rig_alone;
	struct cohort_err err;
	char path[200];

	if (cohort_model_open(arch_path(path, sizeof path, name, "gguf"), NULL, &rig_model, &err))
		fail_msg("%s", err.text);
	assert_int_equal(rig_open_alone(), 0);
	fn(state);
	cohort_context_free(rig_alone);
	cohort_model_free(rig_model);
	rig_model = m;
	rig_alone = alone;
}

static void small_tree(void **state)
{
	(void)state;
	for (int n_batch = 24; n_batch <= 512; n_batch += 488) {
		struct cohort_engine *e = open_wide(4096, n_batch);
		for (uint64_t i = 0; i < 8; i++)
			add_job((struct part[]){{1, 2 * BLOCK}, {100 + i % 2, BLOCK}, {300 + i, 9}}, 3, 3);
		submit_from(e, 0);
		run_counted(e, 2 * BLOCK + 2 * BLOCK + 8 * 9);
	}
}

static void alike_prompts_of_recurrent_models(void **state)
{
	on_model("mamba", small_tree, state);
}

static void alike_prompts_of_models_with_windows(void **state)
{
	on_model("gemma3", small_tree, state);
	on_model("gpt-oss", small_tree, state);
}

static int set_up(void **state)
{
	return arch_make_models(state) ? -1 : rig_set_up_random(state);
}

static int tear_down(void **state)
{
	rig_tear_down(state);
	return arch_remove_models(state);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
			cmocka_unit_test(sixteen_alike_prompts_share_one_prefill),
			cmocka_unit_test(tree_of_prompts_is_computed_once),
			cmocka_unit_test(not_alike),
			cmocka_unit_test(prompt_that_is_behind_is_not_waited_for),
			cmocka_unit_test(several_outputs),
			cmocka_unit_test(leader_or_follower_is_cancelled),
			cmocka_unit_test(too_late),
			cmocka_unit_test(sampling_fails),
			cmocka_unit_test(little_room),
			cmocka_unit_test(urgent_requests_do_not_wait_for_others),
			cmocka_unit_test(urgent_waits),
			cmocka_unit_test(sixteen_in_little_room),
			cmocka_unit_test(alike_prompts_of_recurrent_models),
			cmocka_unit_test(alike_prompts_of_models_with_windows),
	};
	return cmocka_run_group_tests_name("engine_together", tests, set_up, tear_down);
}
