/* The life of requests and of the engine: limits in time, cancels, drains and stops, whose turn it is, what is kept of
 * prompts, and what the engine tells of all that.
 *
 * Shown red by planted faults: a total limit that is looked at in the queue only (time_limits), a request that ends
 * and keeps its blocks (cancelled_requests_end_at_once), a drain that does not wait
 * (drained_engine_finishes_requests), numbers of a stop that count the last tick twice (drain_in_time), an end told
 * before its callback (waits_for_callbacks), a salt that is not looked at and a session's tail that is not compared
 * (sessions_keep_all_tokens), priorities compared the wrong way round (higher_priorities_are_admitted_first), clients
 * that are not told apart (client_with_many_requests_is_fair), samplers that live as long as their request
 * (grammar_goes_first; valgrind sees it, too), a grammar that is freed under its samplers (grammar_given_up;
 * AddressSanitizer sees it). */
#include "engine_rig.h"

#include "engine/core.h"

#include <stdatomic.h>

/* ---- Limits in time ---- */

static void check_timeout(struct cohort_request *r, const char *rule)
{
	const struct cohort_output o = rig_output(r, 0);

	assert_int_equal(o.finish, COHORT_FINISH_TIMEOUT);
	assert_non_null(o.error);
	assert_int_equal(o.error->status, COHORT_E_LIMIT);
	assert_string_equal(o.error->rule, rule);
}

/* Each limit ends its request, in the state it is for, and no other. */
static void time_limits(void **state)
{
	struct cohort_engine_params ep;
	struct cohort_request_stats rs;
	struct job long_job, j[5];
	struct cohort_request *r[5];

	(void)state;
	rig_params(&ep);
	ep.n_slots = 2;
	ep.chunk_size = 8;
	struct cohort_engine *e = rig_engine(&ep);
	for (int i = 0; i < 5; i++)
		rig_job(&j[i], (uint64_t)i, 40, 40);
	rig_job(&long_job, 20, 4, 60);
	struct cohort_request *other = rig_submit(e, &long_job);

	j[0].p.prefill_limit_s = 0.005;
	r[0] = rig_submit(e, &j[0]);
	rig_tick(e); /* both are admitted, and its prompt takes five ticks */
	j[1].p.queue_limit_s = 0.005;
	j[2].p.total_limit_s = 0.005;
	j[2].p.queue_limit_s = 100;
	r[1] = rig_submit(e, &j[1]);
	r[2] = rig_submit(e, &j[2]);
	rig_sleep(0.006);
	rig_tick(e);
	check_timeout(r[0], "prefill-limit");
	check_timeout(r[1], "queue-limit");
	check_timeout(r[2], "total-limit");
	cohort_request_stats_get(r[1], &rs);
	assert_true(rs.queued_s < 0 && rs.first_token_s < 0 && rs.end_s >= 0.005);

	/* Limits that have passed harmlessly do nothing later. */
	j[3].p.queue_limit_s = 100;
	j[3].p.prefill_limit_s = 100;
	j[3].p.decode_limit_s = 0.005;
	r[3] = rig_submit(e, &j[3]);
	while (cohort_request_stats_get(r[3], &rs), rs.n_generated < 1)
		rig_tick(e);
	rig_sleep(0.006);
	rig_tick(e);
	check_timeout(r[3], "decode-limit");
	rig_check_output(r[3], &j[3], 0, true); /* what it said before stays */
	assert_true(rig_output(r[3], 0).n_tokens >= 1);

	j[4].p.total_limit_s = 0.005;
	r[4] = rig_submit(e, &j[4]);
	rig_tick(e);
	rig_sleep(0.006);
	rig_tick(e);
	check_timeout(r[4], "total-limit");
	rig_run(e);
	rig_check(other, &long_job);
	assert_int_equal(rig_stats(e).n_ended[COHORT_FINISH_TIMEOUT], 5);
	rig_check_empty(e, 2);
	for (int i = 0; i < 5; i++)
		cohort_request_free(r[i]);
	cohort_request_free(other);
	cohort_engine_free(e);
}

/* ---- Cancelling ---- */

struct canceller {
	struct cohort_request *victim;
	int32_t after; /* tokens */
};

static void cancel_other(struct cohort_request *r, const struct cohort_event *e, void *user)
{
	struct canceller *c = user;

	(void)r;
	if (e->kind == COHORT_EVENT_TOKEN && e->index == c->after)
		cohort_request_cancel(c->victim);
}

/* In the queue, within the prompt, while it generates, and by another's callback: it ends at once, its blocks are free,
 * and the others say what they say alone. */
static void cancelled_requests_end_at_once(void **state)
{
	struct cohort_engine_params ep;
	struct job stays, goes;

	(void)state;
	for (int k = 0; k < 5; k++) {
		struct canceller c = {NULL, 3};
		rig_params(&ep);
		ep.n_slots = k == 0 ? 1 : 4;
		ep.no_reuse = true;
		ep.chunk_size = 8;
		struct cohort_engine *e = rig_engine(&ep);
		rig_job(&stays, 1, 20, 12);
		rig_job(&goes, 2, 60, 40);
		goes.p.n_outputs = k == 3 ? 3 : 1;
		if (k == 4) {
			stays.p.on_event = cancel_other;
			stays.p.user = &c;
		}
		struct cohort_request *r = rig_submit(e, &stays), *q = rig_submit(e, &goes);
		struct cohort_request_stats rs;
		c.victim = q;
		do {
			rig_tick(e);
			cohort_request_stats_get(q, &rs);
		} while ((k == 2 || k == 3) && rs.n_generated < 5);
		const int32_t n_said = rs.n_generated;
		if (k < 4) {
			cohort_request_cancel(q);
			assert_false(rig_is_done(q));
			rig_tick(e);
		} else {
			while (!rig_is_done(q))
				rig_tick(e);
			cohort_request_stats_get(r, &rs);
			assert_true(rs.n_generated <= c.after + 2); /* the next tick ended it */
		}
		assert_true(rig_is_done(q));
		for (int32_t i = 0; i < goes.p.n_outputs; i++) {
			assert_int_equal(rig_output(q, i).finish, COHORT_FINISH_CANCELLED);
			assert_null(rig_output(q, i).error);
			rig_check_output(q, &goes, i, true);
		}
		cohort_request_stats_get(q, &rs);
		assert_true(k == 4 || rs.n_generated == n_said); /* not a token more */
		const struct cohort_engine_stats s = rig_stats(e);
		assert_int_equal(s.last.n_idle, ep.n_slots - 1);
		const int32_t size = pool_block_size();
		assert_true(s.last.n_blocks_used <= (20 + 12 + size - 1) / size);
		cohort_request_cancel(q); /* of no effect now */
		cohort_request_free(q);
		rig_run(e);
		rig_check(r, &stays);
		cohort_request_cancel(r);
		assert_int_equal(rig_output(r, 0).finish, COHORT_FINISH_LENGTH);
		cohort_request_free(r);
		rig_check_empty(e, ep.n_slots);
		assert_int_equal(rig_stats(e).n_ended[COHORT_FINISH_CANCELLED], 1);
		cohort_engine_free(e);
	}
}

/* A handle may be given back at any time: what is left is cancelled. */
static void handles_freed_early_cancel(void **state)
{
	struct cohort_engine_params ep;
	struct job j;

	(void)state;
	rig_params(&ep);
	ep.n_slots = 1;
	struct cohort_engine *e = rig_engine(&ep);
	rig_job(&j, 1, 20, 30);
	struct cohort_request *running = rig_submit(e, &j), *queued = rig_submit(e, &j), *last = rig_submit(e, &j);
	rig_tick(e);
	cohort_request_free(queued);
	rig_tick(e);
	assert_int_equal(rig_stats(e).last.n_queued, 1);
	cohort_request_free(running);
	rig_run(e);
	rig_check(last, &j);
	cohort_request_free(last);
	assert_int_equal(rig_stats(e).n_ended[COHORT_FINISH_CANCELLED], 2);
	rig_check_empty(e, 1);
	cohort_engine_free(e);
}

/* ---- The engine's end ---- */

static void drained_engine_finishes_requests(void **state)
{
	struct cohort_engine_params ep;
	struct cohort_request *r[6];
	struct job j[6];
	bool clean = false;

	(void)state;
	rig_params(&ep);
	ep.manual = false;
	ep.n_slots = 2;
	struct cohort_engine *e = rig_engine(&ep);
	for (int i = 0; i < 6; i++) {
		rig_job(&j[i], (uint64_t)i, 10 + i, 5);
		r[i] = rig_submit(e, &j[i]);
	}
	assert_int_equal(cohort_engine_drain(e, 60, &clean, NULL), COHORT_OK);
	assert_true(clean);
	for (int i = 0; i < 6; i++) {
		assert_true(rig_is_done(r[i]));
		rig_check(r[i], &j[i]);
	}
	rig_check_empty(e, 2);
	cohort_engine_free(e);
	for (int i = 0; i < 6; i++) { /* handles outlive the engine */
		struct cohort_event ev;
		int n = 0;
		do
			assert_int_equal(cohort_request_next(r[i], -1, &ev, NULL), COHORT_OK);
		while (n++, ev.kind != COHORT_EVENT_DONE);
		assert_int_equal(n, 5 + 2);
		cohort_request_free(r[i]);
	}
}

/* Requests that are slow on purpose: the engine's thread sleeps in a callback after every tick. */
static void slow_tick(const struct cohort_tick *t, void *user)
{
	(void)t;
	(void)user;
	rig_sleep(0.002);
}

/* What is left when the time is over ends with SHUTDOWN, and the numbers add up. */
static void drain_in_time(void **state)
{
	struct cohort_engine_params ep;
	struct cohort_request *r[5];
	struct job j[5];
	bool clean = true;

	(void)state;
	rig_params(&ep);
	ep.manual = false;
	ep.n_slots = 3;
	ep.on_tick = slow_tick;
	struct cohort_engine *e = rig_engine(&ep);
	rig_job(&j[0], 0, 4, 2);
	for (int i = 1; i < 5; i++)
		rig_job(&j[i], (uint64_t)i, 10, 300);
	j[1].p.n_outputs = 1;
	for (int i = 0; i < 5; i++)
		r[i] = rig_submit(e, &j[i]);
	assert_int_equal(cohort_request_wait(r[0], -1, NULL, NULL), COHORT_OK);
	assert_int_equal(cohort_engine_drain(e, 0.02, &clean, NULL), COHORT_OK);
	assert_false(clean);
	const struct cohort_engine_stats s = rig_stats(e);
	assert_int_equal(s.n_ended[COHORT_FINISH_SHUTDOWN], 4);
	assert_int_equal(s.n_ended[COHORT_FINISH_LENGTH], 1);
	uint64_t n_generated = 0;
	for (int i = 0; i < 5; i++) {
		struct cohort_request_stats rs;
		assert_true(rig_is_done(r[i]));
		cohort_request_stats_get(r[i], &rs);
		n_generated += (uint64_t)rs.n_generated;
		assert_int_equal(rig_output(r[i], 0).finish, i ? COHORT_FINISH_SHUTDOWN : COHORT_FINISH_LENGTH);
		assert_int_equal(rs.finish, i ? COHORT_FINISH_SHUTDOWN : COHORT_FINISH_LENGTH);
	}
	assert_int_equal(s.n_sampled, n_generated);
	rig_check_empty(e, 3);
	assert_int_equal(cohort_engine_drain(e, 0.02, &clean, NULL), COHORT_OK);
	assert_true(clean);
	cohort_engine_free(e);
	for (int i = 0; i < 5; i++) {
		j[i].p.max_tokens = i ? 40 : 2;
		if (rig_output(r[i], 0).n_tokens < 40)
			rig_check_output(r[i], &j[i], 0, i > 0);
		cohort_request_cancel(r[i]);
		cohort_request_free(r[i]);
	}
}

struct end_seen {
	int n_ends, n_dones;
	enum cohort_finish finish;
};

static void see_end(struct cohort_request *r, const struct cohort_event *e, void *user)
{
	struct end_seen *s = user;

	(void)r;
	s->n_dones += e->kind == COHORT_EVENT_DONE;
	if (e->kind == COHORT_EVENT_END) {
		s->n_ends++;
		s->finish = e->finish;
	}
}

/* An immediate stop, with and without a thread, with requests that run, that wait, and that are called back. */
static void immediate_stop_ends_all_requests(void **state)
{
	struct cohort_engine_params ep;
	struct cohort_request *r[4];
	struct end_seen seen;
	struct cohort_event ev;
	struct job j;

	(void)state;
	for (int manual = 0; manual < 2; manual++) {
		seen = (struct end_seen){0};
		rig_params(&ep);
		ep.manual = manual;
		ep.n_slots = 2;
		ep.on_tick = slow_tick;
		struct cohort_engine *e = rig_engine(&ep);
		rig_job(&j, 7, 10, 200);
		for (int i = 0; i < 4; i++) {
			j.p.n_outputs = i == 0 ? 2 : 1;
			j.p.on_event = i == 2 ? see_end : NULL;
			j.p.user = &seen;
			r[i] = rig_submit(e, &j);
		}
		if (manual)
			for (int k = 0; k < 3; k++)
				rig_tick(e);
		else
			rig_sleep(0.01);
		cohort_engine_free(e);
		assert_int_equal(seen.n_ends, 1);
		assert_int_equal(seen.n_dones, 1);
		assert_int_equal(seen.finish, COHORT_FINISH_SHUTDOWN);
		for (int i = 0; i < 4; i++) {
			struct cohort_request_stats rs;
			assert_true(rig_is_done(r[i]));
			assert_int_equal(rig_output(r[i], 0).finish, COHORT_FINISH_SHUTDOWN);
			cohort_request_stats_get(r[i], &rs);
			assert_int_equal(rs.finish, COHORT_FINISH_SHUTDOWN);
			while (i != 2 && !cohort_request_next(r[i], -1, &ev, NULL) && ev.kind != COHORT_EVENT_DONE)
				;
			cohort_request_free(r[i]);
		}
	}
}

/* Who was called back for the last time, and only who was, has nothing to fear from what it frees: neither a wait nor a
 * drain returns before. */
static void late_end(struct cohort_request *r, const struct cohort_event *e, void *user)
{
	atomic_bool *called = user;

	(void)r;
	if (e->kind != COHORT_EVENT_DONE)
		return;
	rig_sleep(0.02);
	atomic_store(called, true);
}

static void waits_for_callbacks(void **state)
{
	struct cohort_engine_params ep;
	struct job j;
	bool done;

	(void)state;
	rig_params(&ep);
	ep.manual = false;
	struct cohort_engine *e = rig_engine(&ep);
	for (int k = 0; k < 2; k++) {
		atomic_bool called = false;
		rig_job(&j, 3, 3, 1);
		j.p.on_event = late_end;
		j.p.user = &called;
		struct cohort_request *r = rig_submit(e, &j);
		if (k == 0)
			assert_int_equal(cohort_request_wait(r, -1, &done, NULL), COHORT_OK);
		else
			assert_int_equal(cohort_engine_drain(e, -1, &done, NULL), COHORT_OK);
		assert_true(done);
		assert_true(atomic_load(&called));
		cohort_request_free(r);
	}
	cohort_engine_free(e);
}

/* ---- Telling ---- */

struct sums {
	uint64_t n_ticks, n_decode_rows, n_prefill_rows, n_sampled;
	int32_t n_slots;
	double last_at;
};

static void sum_tick(const struct cohort_tick *t, void *user)
{
	struct sums *s = user;

	assert_int_equal(t->tick, ++s->n_ticks);
	s->n_decode_rows += (uint64_t)t->n_decode_rows;
	s->n_prefill_rows += (uint64_t)t->n_prefill_rows;
	s->n_sampled += (uint64_t)t->n_sampled;
	assert_int_equal(t->n_idle + t->n_prefilling + t->n_generating + t->n_parked, s->n_slots);
	assert_int_equal(t->n_blocks_used + t->n_blocks_cached + t->n_blocks_free, t->n_blocks);
	assert_true(t->n_blocks_used >= 0 && t->n_blocks_cached >= 0 && t->n_blocks_free >= 0);
	assert_true(t->at_s >= s->last_at && t->total_s >= t->decode_s + t->sample_s && t->decode_s >= 0);
	s->last_at = t->at_s;
}

/* Every sum of the snapshot is that of the ticks; slots and requests say the same. */
static void telemetry_sums_are_those_of_ticks(void **state)
{
	struct cohort_engine_params ep;
	struct cohort_request *r[12];
	struct cohort_request_stats rs;
	struct cohort_slot_info infos[4];
	struct sums sums = {.n_slots = 4};
	struct job j[12];
	bool idle = false;

	(void)state;
	rig_params(&ep);
	ep.context.n_ctx = 192;
	ep.context.n_blocks = pool_blocks(ep.context.n_ctx, 0);
	ep.room = COHORT_ROOM_OVERCOMMIT;
	ep.on_tick = sum_tick;
	ep.on_tick_user = &sums;
	struct cohort_engine *e = rig_engine(&ep);
	uint64_t n_prompt = 0, n_generated = 0, n_cached = 0, n_parked = 0;
	for (int i = 0; i < 12; i++) {
		rig_job(&j[i], (uint64_t)i % 2, 30 + 3 * i, 20 + i % 7);
		j[i].p.client = (uint64_t)i % 3;
		j[i].p.session = (uint64_t)i % 2;
		j[i].p.priority = i % 2;
		j[i].p.n_outputs = 1 + i % 2;
		r[i] = rig_submit(e, &j[i]);
	}
	while (!idle) {
		idle = rig_tick(e);
		const struct cohort_engine_stats s = rig_stats(e);
		assert_int_equal(cohort_engine_slots_get(e, infos, 4), 4);
		int32_t n[4] = {0};
		for (int i = 0; i < 4; i++) {
			const struct cohort_slot_info *info = &infos[i];
			n[info->state]++;
			assert_int_equal(info->id, i);
			assert_true((info->request == 0) == (info->state == COHORT_SLOT_IDLE));
			if (info->request == 0)
				continue;
			const struct job *of = &j[info->request - 1];
			assert_int_equal(info->client, of->p.client);
			assert_int_equal(info->session, of->p.session);
			assert_int_equal(info->priority, of->p.priority);
			assert_int_equal(info->n_prompt, of->p.n_prompt);
			assert_true(info->output < of->p.n_outputs && info->n_generated <= of->p.max_tokens);
			assert_true(info->n_cached <= info->n_prompt + info->n_generated && info->age_s >= 0);
			assert_true((info->state == COHORT_SLOT_PARKED) <= (info->n_blocks == 0));
		}
		assert_int_equal(n[COHORT_SLOT_IDLE], s.last.n_idle);
		assert_int_equal(n[COHORT_SLOT_PREFILLING], s.last.n_prefilling);
		assert_int_equal(n[COHORT_SLOT_GENERATING], s.last.n_generating);
		assert_int_equal(n[COHORT_SLOT_PARKED], s.last.n_parked);
	}
	for (int i = 0; i < 12; i++) {
		rig_check(r[i], &j[i]);
		cohort_request_stats_get(r[i], &rs);
		assert_int_equal(rs.id, i + 1);
		assert_int_equal(rs.n_prompt, j[i].p.n_prompt);
		assert_true(rs.queued_s >= 0 && rs.first_token_s >= rs.queued_s && rs.end_s >= rs.first_token_s);
		assert_true(rs.tokens_per_s > 0);
		assert_int_equal(rs.finish, COHORT_FINISH_LENGTH);
		n_prompt += (uint64_t)rs.n_prompt;
		n_generated += (uint64_t)rs.n_generated;
		n_cached += (uint64_t)rs.n_cached;
		n_parked += (uint64_t)rs.n_parked;
		cohort_request_free(r[i]);
	}
	const struct cohort_engine_stats s = rig_stats(e);
	assert_int_equal(s.n_submitted, 12);
	assert_int_equal(s.n_admitted, 12);
	assert_int_equal(s.n_ended[COHORT_FINISH_LENGTH], 12);
	assert_int_equal(s.n_prompt_tokens, n_prompt);
	assert_int_equal(s.n_cached_tokens, n_cached);
	assert_int_equal(s.n_sampled, n_generated);
	assert_int_equal(s.n_parked, n_parked);
	assert_int_equal(s.n_resumed, n_parked);
	assert_true(n_parked > 0);
	assert_true(n_cached > 0);
	assert_int_equal(s.n_lookups, 12);
	assert_true(s.n_hits > 0 && s.n_hits < 12);
	assert_int_equal(s.n_ticks, sums.n_ticks);
	assert_int_equal(s.n_sampled, sums.n_sampled);
	assert_int_equal(s.n_decode_rows, sums.n_decode_rows);
	assert_int_equal(s.n_prefill_rows, sums.n_prefill_rows);
	assert_true(s.n_prefill_rows + s.n_cached_tokens >= n_prompt);
	rig_check_empty(e, 4);
	cohort_engine_free(e);
}

/* Strategies change from one tick to the next; what is said does not. */
static void strategies_change(void **state)
{
	struct cohort_engine_params ep;
	struct cohort_request *r[8];
	struct job j[8];
	size_t n = 0;

	(void)state;
	rig_params(&ep);
	struct cohort_engine *e = rig_engine(&ep);
	assert_string_equal(rig_stats(e).strategy, "decode-maximal");
	for (int i = 0; i < 8; i++) {
		rig_job(&j[i], (uint64_t)i, 30, 8);
		r[i] = rig_submit(e, &j[i]);
	}
	for (bool idle = false; !idle; n++) {
		const struct cohort_strategy *s = cohort_strategy_get(n % cohort_strategy_count());
		assert_int_equal(cohort_engine_strategy_set(e, s, NULL), COHORT_OK);
		idle = rig_tick(e);
		assert_string_equal(rig_stats(e).strategy, s->name);
	}
	for (int i = 0; i < 8; i++) {
		rig_check(r[i], &j[i]);
		cohort_request_free(r[i]);
	}
	/* It is told even while there is nothing to do. */
	assert_int_equal(cohort_engine_strategy_set(e, cohort_strategy_find("balanced"), NULL), COHORT_OK);
	rig_tick(e);
	assert_string_equal(rig_stats(e).strategy, "balanced");
	assert_int_equal(cohort_engine_strategy_set(e, NULL, NULL), COHORT_OK);
	rig_tick(e);
	assert_string_equal(rig_stats(e).strategy, "decode-maximal");
	cohort_engine_free(e);
}

/* ---- What is kept ---- */

static int32_t run_cached(struct cohort_engine *e, const struct job *j)
{
	struct cohort_request *r = rig_submit(e, j);
	struct cohort_request_stats s;

	rig_run(e);
	rig_check(r, j);
	cohort_request_stats_get(r, &s);
	cohort_request_free(r);
	return s.n_cached;
}

/* Another turn of a conversation: what was said, and n more tokens. */
static void continue_job(struct job *next, const struct job *j, int32_t n)
{
	static struct alone a;
	struct rng r;

	alone_run(rig_model, rig_alone, &j->p, 0, &a);
	rng_init(&r, (uint64_t)n, 4);
	*next = *j;
	next->p.prompt = next->prompt;
	memcpy(next->prompt + j->p.n_prompt, a.tokens, (size_t)a.n_tokens * sizeof *a.tokens);
	next->p.n_prompt += a.n_tokens;
	for (int32_t i = 0; i < n; i++)
		next->prompt[next->p.n_prompt++] = pick(&r, 3, 250);
}

static void sessions_keep_all_tokens(void **state)
{
	const int32_t size = pool_block_size(), n_prompt = 2 * size + 5, n_said = 6;
	struct cohort_engine_params ep;
	struct job j, next, other;

	(void)state;
	rig_params(&ep);
	ep.context.n_ctx = 32 * size;
	ep.context.n_blocks = pool_blocks(ep.context.n_ctx, 0);
	struct cohort_engine *e = rig_engine(&ep);
	rig_job(&j, 3, n_prompt, n_said);
	/* Without a session: whole blocks. */
	assert_int_equal(run_cached(e, &j), 0);
	assert_int_equal(run_cached(e, &j), 2 * size);
	continue_job(&next, &j, 4);
	assert_int_equal(run_cached(e, &next), 2 * size);
	/* Another tenant has nothing of it. */
	j.p.salt = 9;
	assert_int_equal(run_cached(e, &j), 0);
	/* With one: all that is in the cache, and that is all but the last token that was said. */
	j.p.session = 77;
	assert_int_equal(run_cached(e, &j), 2 * size);
	continue_job(&next, &j, 4);
	assert_int_equal(run_cached(e, &next), n_prompt + n_said - 1);
	/* The last token of a prompt is always computed; where the prompt leaves the session, reuse ends. */
	continue_job(&other, &next, 1);
	other.p.n_prompt = next.p.n_prompt + 2;
	assert_int_equal(run_cached(e, &other), next.p.n_prompt + 1);
	assert_int_equal(other.p.n_prompt > 2 * size + 3, true);
	other.prompt[2 * size + 3] = other.prompt[2 * size + 3] == 5 ? 6 : 5;
	const int32_t n_left = run_cached(e, &other);
	assert_true(n_left >= 2 * size && n_left <= 2 * size + 3);
	/* Another session, and the same one of another tenant, have whole blocks or nothing. */
	next.p.session = 78;
	assert_int_equal(run_cached(e, &next) % size, 0);
	next.p.session = 77;
	next.p.salt = 10;
	assert_int_equal(run_cached(e, &next), 0);
	/* Who wants to be alone is. */
	next.p.no_reuse = true;
	assert_int_equal(run_cached(e, &next), 0);
	next.p.no_reuse = false;
	/* And when all is forgotten, all is. */
	assert_true(rig_stats(e).last.n_blocks_cached > 0);
	cohort_engine_cache_clear(e);
	rig_tick(e);
	assert_int_equal(rig_stats(e).last.n_blocks_cached, 0);
	assert_int_equal(rig_stats(e).last.n_blocks_free, rig_stats(e).last.n_blocks);
	assert_int_equal(run_cached(e, &next), 0);
	cohort_engine_free(e);
}

/* ---- Whose turn it is ---- */

static void higher_priorities_are_admitted_first(void **state)
{
	struct cohort_engine_params ep;
	struct cohort_request *r[6];
	struct job j;
	int at[6] = {0}; /* the tick that it ended in: clocks would tell when it came, too */

	(void)state;
	rig_params(&ep);
	ep.n_slots = 1;
	struct cohort_engine *e = rig_engine(&ep);
	for (int i = 0; i < 6; i++) {
		rig_job(&j, (uint64_t)i, 4, 2);
		j.p.priority = i % 3;
		r[i] = rig_submit(e, &j);
	}
	for (int tick = 1, n_done = 0; n_done < 6; tick++) {
		assert_true(tick < 100);
		rig_tick(e);
		for (int i = 0; i < 6; i++)
			if (at[i] == 0 && rig_is_done(r[i])) {
				at[i] = tick;
				n_done++;
			}
	}
	const int order[] = {2, 5, 1, 4, 0, 3};
	for (int i = 1; i < 6; i++)
		assert_true(at[order[i - 1]] < at[order[i]]);
	for (int i = 0; i < 6; i++)
		cohort_request_free(r[i]);
	cohort_engine_free(e);
}

/* A client with 50 requests does not keep one with 1 waiting. */
static void client_with_many_requests_is_fair(void **state)
{
	struct cohort_engine_params ep;
	struct cohort_request *r[50];
	struct job j;
	int n_before = 0;

	(void)state;
	rig_params(&ep);
	ep.n_slots = 2;
	struct cohort_engine *e = rig_engine(&ep);
	for (int i = 0; i < 50; i++) {
		rig_job(&j, (uint64_t)i, 6, 3);
		j.p.client = 1;
		r[i] = rig_submit(e, &j);
	}
	for (int k = 0; k < 8; k++) /* some of them were served */
		rig_tick(e);
	rig_job(&j, 99, 6, 3);
	j.p.client = 2;
	struct cohort_request *one = rig_submit(e, &j);
	int n_ticks = 0;
	while (!rig_is_done(one)) {
		rig_tick(e);
		n_ticks++;
	}
	for (int i = 0; i < 50; i++)
		n_before += rig_is_done(r[i]);
	/* Two were running, it came next: those two, and what the other slot did meanwhile. */
	assert_true(n_ticks <= 10);
	assert_true(n_before <= 10);
	rig_check(one, &j);
	cohort_request_free(one);
	rig_run(e);
	for (int i = 0; i < 50; i++) {
		assert_true(rig_is_done(r[i]));
		cohort_request_free(r[i]);
	}
	cohort_engine_free(e);
}

/* ---- Grammars ---- */

/* A request that has ended needs its grammar no more, which may go before the handle: one that ended by itself, one
 * that was cancelled as it generated, one in the queue. */
static void grammar_goes_first(void **state)
{
	static const char text[] = "root ::= [a-z ]+";
	struct cohort_lexicon *lexicon;
	struct cohort_grammar *g;
	struct cohort_engine_params ep;
	struct cohort_request *r[3];
	struct job j[3];

	(void)state;
	assert_int_equal(cohort_lexicon_open(rig_model, &lexicon, NULL), COHORT_OK);
	assert_int_equal(cohort_grammar_open(lexicon, text, strlen(text), NULL, &g, NULL), COHORT_OK);
	rig_params(&ep);
	ep.n_slots = 2;
	struct cohort_engine *e = rig_engine(&ep);
	for (int i = 0; i < 3; i++) {
		rig_job(&j[i], (uint64_t)i, 4, i == 0 ? 3 : 60);
		j[i].p.sampler.grammar = g;
		r[i] = rig_submit(e, &j[i]);
	}
	rig_tick(e);
	rig_tick(e);
	cohort_request_cancel(r[1]);
	cohort_request_cancel(r[2]);
	rig_run(e);
	for (int i = 0; i < 3; i++) {
		bool done = false;
		assert_int_equal(cohort_request_wait(r[i], 0, &done, NULL), COHORT_OK);
		assert_true(done);
		assert_null(r[i]->streams[0].sampler);
	}
	assert_int_equal(rig_output(r[0], 0).finish, COHORT_FINISH_LENGTH);
	assert_int_equal(rig_output(r[1], 0).finish, COHORT_FINISH_CANCELLED);
	cohort_grammar_free(g);
	cohort_lexicon_free(lexicon);
	for (int i = 0; i < 3; i++)
		cohort_request_free(r[i]);
	cohort_engine_free(e);
}

/* A grammar whose requests still run may be given up: it goes with the last of them. Some of their handles go, too. */
static void grammar_given_up(void **state)
{
	static const char text[] = "root ::= [a-z ]+";
	struct cohort_lexicon *lexicon;
	struct cohort_grammar *g;
	struct cohort_engine_params ep;
	struct cohort_request *r[4];
	struct job j;
	char kept[256];
	size_t n_kept = 0;

	(void)state;
	assert_int_equal(cohort_lexicon_open(rig_model, &lexicon, NULL), COHORT_OK);
	rig_params(&ep);
	ep.n_slots = 2;
	struct cohort_engine *e = rig_engine(&ep);
	for (int round = 0; round < 2; round++) { /* as it is meant to be, then with everything freed at once */
		assert_int_equal(cohort_grammar_open(lexicon, text, strlen(text), NULL, &g, NULL), COHORT_OK);
		for (int i = 0; i < 4; i++) {
			rig_job(&j, (uint64_t)i, 4, 30);
			j.p.sampler.grammar = g;
			r[i] = rig_submit(e, &j);
		}
		rig_tick(e);
		rig_tick(e);
		if (round == 1) { /* one is generating, one waits */
			cohort_request_free(r[1]);
			cohort_request_free(r[2]);
			cohort_grammar_free(g);
		}
		rig_run(e);
		const struct cohort_output o = rig_output(r[3], 0);
		assert_int_equal(o.finish, COHORT_FINISH_LENGTH);
		assert_true(o.n_bytes > 0 && o.n_bytes < sizeof kept);
		if (round == 0) {
			memcpy(kept, o.text, n_kept = o.n_bytes);
		} else {
			assert_int_equal(o.n_bytes, n_kept);
			assert_memory_equal(o.text, kept, n_kept);
		}
		for (int i = 0; i < 4; i++)
			if (round == 0 || i == 0 || i == 3)
				cohort_request_free(r[i]);
		if (round == 0)
			cohort_grammar_free(g);
	}
	cohort_engine_free(e);
	cohort_lexicon_free(lexicon);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
			cmocka_unit_test(time_limits),
			cmocka_unit_test(cancelled_requests_end_at_once),
			cmocka_unit_test(handles_freed_early_cancel),
			cmocka_unit_test(grammar_goes_first),
			cmocka_unit_test(grammar_given_up),
			cmocka_unit_test(drained_engine_finishes_requests),
			cmocka_unit_test(drain_in_time),
			cmocka_unit_test(immediate_stop_ends_all_requests),
			cmocka_unit_test(waits_for_callbacks),
			cmocka_unit_test(telemetry_sums_are_those_of_ticks),
			cmocka_unit_test(strategies_change),
			cmocka_unit_test(sessions_keep_all_tokens),
			cmocka_unit_test(higher_priorities_are_admitted_first),
			cmocka_unit_test(client_with_many_requests_is_fair),
	};
	return cmocka_run_group_tests_name("engine_life", tests, rig_set_up, rig_tear_down);
}
