/* What the engine counts: every refused request, whatever the reason, and no eviction that made no room.
 *
 * Shown red by planted faults: refusals that are counted where the queue is looked at (refused_submits_are_counted),
 * and where the request is there already (refused_submits_are_counted, counts_behind_submits_out_of_memory), without
 * those that have no params at all (refused_submits_are_counted); a cleared cache that counts as evictions
 * (cleared_blocks_are_not_evictions). A queue without shares (client_leaves_room_for_others). Ends that are counted
 * before their readers are called, or after a reader that waits can see them (end_is_counted_when_it_can_be_seen). */
#include "engine_rig.h"

#include "base/mem.h"

/* Refused, and counted: once, as that and as nothing else. */
static void refuse(struct cohort_engine *e, const struct cohort_request_params *p, enum cohort_status status,
		const char *rule)
{
	const struct cohort_engine_stats before = rig_stats(e);
	struct cohort_request *r = NULL;
	struct cohort_err err;

	assert_int_equal(cohort_engine_submit(e, p, &r, &err), status);
	assert_int_equal(err.status, status);
	if (rule)
		assert_string_equal(err.rule, rule);
	assert_null(r);
	const struct cohort_engine_stats after = rig_stats(e);
	if (after.n_refused != before.n_refused + 1)
		fail_msg("refused and not counted: %s", err.text);
	assert_int_equal(after.n_submitted, before.n_submitted);
	assert_int_equal(after.last.n_queued, before.last.n_queued);
	assert_int_equal(after.last.n_queued_tokens, before.last.n_queued_tokens);
}

static void refused_submits_are_counted(void **state)
{
	struct cohort_model_info info = {.struct_size = sizeof info};
	static const char *const no_text[] = {""};
	struct cohort_engine_params ep;
	struct cohort_request *r[3];
	struct cohort_err err;
	struct job good, j;

	(void)state;
	cohort_model_info_get(rig_model, &info);
	rig_params(&ep);
	ep.queue_requests_max = 3;
	ep.queue_tokens_max = 600;
	struct cohort_engine *e = rig_engine(&ep);
	/* Before its first tick, too, an engine knows what it has. */
	const struct cohort_tick first = rig_stats(e).last;
	assert_true(first.n_blocks > 0 && first.n_blocks_free == first.n_blocks && first.n_idle == (int32_t)ep.n_slots);
	assert_int_equal(rig_stats(e).n_refused, 0);
	rig_job(&good, 1, 5, 3);
	int n = 0;
#define REFUSED(field, value, status, rule) \
	do { \
		j = good; \
		j.p.prompt = j.prompt; \
		j.p.field = value; \
		refuse(e, &j.p, status, rule); \
		n++; \
	} while (0)
	REFUSED(max_tokens, 600, COHORT_E_LIMIT, "context");
	REFUSED(n_prompt, 513, COHORT_E_LIMIT, "context");
	REFUSED(n_outputs, 5, COHORT_E_LIMIT, "slots");
	REFUSED(struct_size, 8, COHORT_E_ARG, NULL);
	REFUSED(n_prompt, 0, COHORT_E_ARG, "n_prompt");
	REFUSED(prompt, NULL, COHORT_E_ARG, NULL);
	REFUSED(total_limit_s, -1, COHORT_E_ARG, "total_limit_s");
	REFUSED(task, COHORT_TASK_EMBED, COHORT_E_ARG, NULL);
	REFUSED(sampler.top_p, -1, COHORT_E_ARG, NULL);
#undef REFUSED
	j = good;
	j.p.prompt = j.prompt;
	j.prompt[4] = info.n_vocab;
	refuse(e, &j.p, COHORT_E_ARG, "token");
	j.prompt[4] = 3;
	j.p.stop_tokens = &(cohort_token){-1};
	j.p.n_stop_tokens = 1;
	refuse(e, &j.p, COHORT_E_ARG, "token");
	j.p.n_stop_tokens = 0;
	j.p.stops = no_text;
	j.p.n_stops = 1;
	refuse(e, &j.p, COHORT_E_ARG, NULL);
	refuse(e, NULL, COHORT_E_ARG, NULL);
	n += 4;
	good.p.prompt = good.prompt;
	assert_int_equal(cohort_engine_submit(e, &good.p, NULL, &err), COHORT_E_ARG);
	assert_int_equal(rig_stats(e).n_refused, ++n);

	/* The queue: by tokens, then by requests. */
	rig_job(&j, 2, 300, 1);
	r[0] = rig_submit(e, &j);
	rig_job(&j, 2, 301, 1);
	refuse(e, &j.p, COHORT_E_LIMIT, "queue-tokens");
	r[1] = rig_submit(e, &good);
	r[2] = rig_submit(e, &good);
	refuse(e, &good.p, COHORT_E_LIMIT, "queue-requests");
	n += 2;
	rig_run(e);
	for (int i = 0; i < 3; i++)
		cohort_request_free(r[i]);
	/* A tick, and the ends of others, change nothing. */
	assert_int_equal(rig_stats(e).n_refused, n);
	assert_int_equal(rig_stats(e).n_submitted, 3);
	assert_int_equal(rig_stats(e).n_ended[COHORT_FINISH_LENGTH], 3);
	cohort_engine_free(e);
}

/* How many requests of n_tokens a client can queue before its share is full. */
static int fill(struct cohort_engine *e, uint64_t client, int32_t n_tokens, struct cohort_request **r)
{
	struct cohort_err err;
	struct job j;
	int n = 0;

	rig_job(&j, 1, n_tokens, 1);
	j.p.prompt = j.prompt;
	j.p.client = client;
	while (!cohort_engine_submit(e, &j.p, &r[n], &err))
		n++;
	assert_int_equal(err.status, COHORT_E_LIMIT);
	assert_string_equal(err.rule, client ? "queue-share" : "queue-requests");
	if (client)
		assert_true(err.got > err.expected);
	return n;
}

/* A client leaves room for others, in requests and in tokens; one without a name may have all. */
static void client_leaves_room_for_others(void **state)
{
	struct cohort_engine_params ep;
	struct cohort_request *r[8];
	struct job j;
	int n = 0;

	(void)state;
	rig_params(&ep);
	ep.queue_requests_max = 8;
	ep.queue_tokens_max = 1000;
	struct cohort_engine *e = rig_engine(&ep);
	n += fill(e, 1, 5, r);
	assert_int_equal(n, 4);
	n += fill(e, 2, 5, r + n);
	assert_int_equal(n, 6);
	n += fill(e, 3, 5, r + n);
	assert_int_equal(n, 7);
	n += fill(e, 0, 5, r + n);
	assert_int_equal(n, 8);
	rig_run(e); /* what is not in the queue any more does not count */
	for (int i = 0; i < n; i++)
		cohort_request_free(r[i]);
	n = fill(e, 1, 200, r); /* 400 wait: a third leaves 400 */
	assert_int_equal(n, 3);
	rig_job(&j, 1, 350, 1);
	j.p.client = 2;
	r[n++] = rig_submit(e, &j);
	j.p.n_prompt = 50;
	refuse(e, &j.p, COHORT_E_LIMIT, "queue-share"); /* 350 wait, and it would leave none */
	for (int i = 0; i < n; i++)
		cohort_request_free(r[i]);
	cohort_engine_free(e);
}

/* Every allocation of a submit fails in turn. */
static void counts_behind_submits_out_of_memory(void **state)
{
	struct cohort_engine_params ep;
	struct cohort_request *r = NULL;
	struct job j;
	int n = 0;

	(void)state;
	rig_params(&ep);
	struct cohort_engine *e = rig_engine(&ep);
	rig_job(&j, 1, 40, 3);
	for (;; n++) {
		mem_fail_after(n);
		const enum cohort_status st = cohort_engine_submit(e, &j.p, &r, NULL);
		mem_fail_after(-1);
		if (!st)
			break;
		assert_int_equal(st, COHORT_E_MEMORY);
		assert_int_equal(rig_stats(e).n_refused, n + 1);
		assert_int_equal(rig_stats(e).n_submitted, 0);
	}
	assert_true(n > 3);
	assert_int_equal(rig_stats(e).n_refused, n);
	assert_int_equal(rig_stats(e).n_submitted, 1);
	rig_run(e);
	rig_check(r, &j);
	cohort_request_free(r);
	cohort_engine_free(e);
}

/* An engine that is closed refuses, and counts. */
static void closed_engine_counts_refusals(void **state)
{
	struct cohort_engine_params ep;
	struct job j;
	bool clean = false;

	(void)state;
	rig_params(&ep);
	ep.manual = false;
	struct cohort_engine *e = rig_engine(&ep);
	assert_int_equal(cohort_engine_drain(e, -1, &clean, NULL), COHORT_OK);
	rig_job(&j, 1, 4, 3);
	refuse(e, &j.p, COHORT_E_LIMIT, "closed");
	refuse(e, &j.p, COHORT_E_LIMIT, "closed");
	assert_int_equal(rig_stats(e).n_refused, 2);
	cohort_engine_free(e);
}

/* ---- Evictions ---- */

static void run_one(struct cohort_engine *e, uint64_t seed, int32_t n_prompt)
{
	struct job j;

	rig_job(&j, seed, n_prompt, 2);
	j.p.session = seed % 2; /* now and then the tail of the last block is kept, too */
	struct cohort_request *r = rig_submit(e, &j);
	rig_run(e);
	rig_check(r, &j);
	cohort_request_free(r);
}

/* What is cleared was not evicted: nobody needed the room. What has to go for others was. */
static void cleared_blocks_are_not_evictions(void **state)
{
	const int32_t size = pool_block_size();
	struct cohort_engine_params ep;

	(void)state;
	rig_params(&ep);
	ep.context.n_ctx = 16 * size;
	ep.context.n_blocks = pool_blocks(ep.context.n_ctx, 0);
	struct cohort_engine *e = rig_engine(&ep);
	for (int round = 0; round < 3; round++) {
		const uint64_t n_before = rig_stats(e).n_evicted;
		for (uint64_t seed = 0; seed < 3; seed++)
			run_one(e, seed, 3 * size + 5);
		assert_true(rig_stats(e).last.n_blocks_cached >= 9);
		assert_int_equal(rig_stats(e).n_evicted, n_before); /* there was room for all */
		cohort_engine_cache_clear(e);
		rig_tick(e);
		assert_int_equal(rig_stats(e).last.n_blocks_cached, 0);
		assert_int_equal(rig_stats(e).n_evicted, n_before);
		/* Six prompts of four blocks do not fit into sixteen. */
		for (uint64_t seed = 0; seed < 6; seed++)
			run_one(e, seed, 4 * size);
		const uint64_t n_evicted = rig_stats(e).n_evicted;
		assert_true(n_evicted >= n_before + 8);
		cohort_engine_cache_clear(e);
		rig_tick(e);
		assert_int_equal(rig_stats(e).last.n_blocks_cached, 0);
		assert_int_equal(rig_stats(e).n_evicted, n_evicted);
	}
	rig_check_empty(e, 4);
	cohort_engine_free(e);
}

/* ---- Ends ---- */

static struct cohort_engine *ended_engine;
static int n_told, n_seen;

static uint64_t n_ended(void)
{
	return rig_stats(ended_engine).n_ended[COHORT_FINISH_LENGTH];
}

static void on_event(struct cohort_request *r, const struct cohort_event *event, void *user)
{
	(void)r, (void)user;
	if (event->kind == COHORT_EVENT_END || event->kind == COHORT_EVENT_DONE)
		n_seen += n_ended() == 0;
	n_told += event->kind == COHORT_EVENT_DONE;
}

static void on_ready(struct cohort_request *r, void *user)
{
	struct cohort_event event;
	(void)user;

	const uint64_t counted = n_ended();
	do
		assert_int_equal(cohort_request_next(r, 0, &event, NULL), COHORT_OK);
	while (event.kind != COHORT_EVENT_NONE && event.kind != COHORT_EVENT_DONE);
	n_told += event.kind == COHORT_EVENT_DONE;
	assert_int_equal(counted, n_told); /* with the end that could be read */
	n_seen++;
}

/* An end is counted when its reader can see it: with on_event after the call, else as soon as it can be read. */
static void end_is_counted_when_it_can_be_seen(void **state)
{
	struct cohort_engine_params ep;
	struct job j;

	(void)state;
	rig_params(&ep);
	for (int kind = 0; kind < 3; kind++) {
		struct cohort_engine *e = ended_engine = rig_engine(&ep);
		rig_job(&j, 3, 5, 2);
		j.p.on_event = kind == 0 ? on_event : NULL;
		j.p.on_ready = kind == 1 ? on_ready : NULL;
		n_told = n_seen = 0;
		struct cohort_request *r = rig_submit(e, &j);
		rig_run(e);
		assert_int_equal(n_told, kind < 2);
		assert_true(kind == 2 || n_seen >= 1);
		assert_int_equal(n_ended(), 1);
		cohort_request_free(r);
		cohort_engine_free(e);
	}
	/* Beside one who is called later in the same tick. */
	struct cohort_engine *e = ended_engine = rig_engine(&ep);
	rig_job(&j, 3, 5, 2);
	struct cohort_request *waits = rig_submit(e, &j);
	j.p.on_event = on_event;
	n_told = n_seen = 0;
	struct cohort_request *called = rig_submit(e, &j);
	rig_run(e);
	assert_int_equal(n_seen, 0); /* the one who waits counted already */
	assert_int_equal(n_ended(), 2);
	cohort_request_free(waits);
	cohort_request_free(called);
	cohort_engine_free(e);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
			cmocka_unit_test(refused_submits_are_counted),
			cmocka_unit_test(client_leaves_room_for_others),
			cmocka_unit_test(counts_behind_submits_out_of_memory),
			cmocka_unit_test(closed_engine_counts_refusals),
			cmocka_unit_test(cleared_blocks_are_not_evictions),
			cmocka_unit_test(end_is_counted_when_it_can_be_seen),
	};
	return cmocka_run_group_tests_name("engine_counts", tests, rig_set_up_random, rig_tear_down);
}
