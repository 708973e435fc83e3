/* Drains that meet, drains beside submits, and the engine's end while others wait for its requests.
 *
 * Shown red by planted faults: an end that wakes only one of those who drain (drains_together_come_back), a drain that
 * ends what waits in the queue (drains_together_come_back, beside_submits), a drain that calls itself clean because
 * nothing is left when it looks again (cut_short), a queue that is closed only when the drain returns (cut_short), a
 * cut that counts against every later drain (cut_short, twice_cut), one that counts though all had ended
 * (ended_meanwhile), one that counts only for who drained before it (cut_before), a stop that leaves the queue as it
 * is (cut_short), a stop that does not wake the readers of requests (freed_under_readers). */
#include "engine_said.h"

/* Requests under this take a second each, far longer than any limit here: what runs out is time, whatever the machine
 * is busy with. */
static void slow_tick(const struct cohort_tick *t, void *user)
{
	(void)t;
	(void)user;
	rig_sleep(0.005);
}

enum { N_LONG = 12, LONG_TOKENS = 200 };

/* A slow engine with N_LONG requests, of which most wait. */
static struct cohort_engine *open_slow(struct cohort_request *r[N_LONG], struct job *j)
{
	struct cohort_engine_params ep;

	said_params(&ep);
	ep.n_slots = 2;
	ep.on_tick = slow_tick;
	struct cohort_engine *e = rig_engine(&ep);
	rig_job(j, 30, 5, LONG_TOKENS);
	for (int i = 0; i < N_LONG; i++)
		r[i] = rig_submit(e, j);
	return e;
}

/* Each has ended, once, with the beginning of what it would have said. */
static void check_cut(struct cohort_engine *e, struct cohort_request *r[N_LONG], const struct job *j)
{
	const struct cohort_engine_stats s = rig_stats(e);

	assert_int_equal(s.n_submitted, N_LONG);
	assert_int_equal(said_n_ended(&s), N_LONG);
	assert_true(s.n_ended[COHORT_FINISH_SHUTDOWN] > 0);
	assert_int_equal(s.n_ended[COHORT_FINISH_SHUTDOWN] + s.n_ended[COHORT_FINISH_LENGTH], N_LONG);
	for (int i = 0; i < N_LONG; i++) {
		assert_true(rig_is_done(r[i]));
		rig_check_output(r[i], j, 0, rig_output(r[i], 0).finish == COHORT_FINISH_SHUTDOWN);
	}
	rig_check_empty(e, 2);
}

/* A thread that does not come back within a minute never will. */
static void join_soon(struct thread *t, const atomic_bool *back)
{
	const double until = clock_now() + 60;

	while (!atomic_load(back)) {
		assert_true(clock_now() < until);
		rig_sleep(0.001);
	}
	thread_join(t);
}

/* ---- Drains ---- */

struct drainer {
	struct thread thread;
	struct cohort_engine *e;
	double timeout_s;
	atomic_int *n_missing; /* NULL, or who is not there yet: they begin together */
	bool clean;
	atomic_bool begun, back;
};

static void drain(void *arg)
{
	struct drainer *d = arg;

	if (d->n_missing)
		for (atomic_fetch_sub(d->n_missing, 1); atomic_load(d->n_missing) > 0;)
			;
	atomic_store(&d->begun, true);
	expect(!cohort_engine_drain(d->e, d->timeout_s, &d->clean, NULL), "drain");
	atomic_store(&d->back, true);
}

static void start(struct drainer *d, struct cohort_engine *e, double timeout_s, atomic_int *n_missing)
{
	*d = (struct drainer){.e = e, .timeout_s = timeout_s, .n_missing = n_missing};
	assert_true(thread_start(&d->thread, "test", drain, d));
}

static bool join(struct drainer *d)
{
	join_soon(&d->thread, &d->back);
	return d->clean;
}

/* Until the engine takes no more: a drain is under way. What is asked for has no token that exists, which is found out
 * after the queue was looked at: it is never taken. */
static void wait_closed(struct cohort_engine *e)
{
	const double until = clock_now() + 60;
	struct cohort_request_params p;
	struct cohort_request *r;
	struct cohort_err err;

	cohort_request_params_init(&p);
	p.prompt = (const cohort_token[]){-1};
	p.n_prompt = 1;
	p.max_tokens = 1;
	do {
		assert_true(clock_now() < until);
		rig_sleep(0.001);
		assert_true(cohort_engine_submit(e, &p, &r, &err) < 0);
	} while (strcmp(err.rule, "closed") != 0);
}

/* Several without a limit: all come back when all is done, and all of it is whole. The engine may go at once. */
static void drains_together_come_back(void **state)
{
	enum { N_DRAINERS = 3, N = 16 };
	struct cohort_engine_params ep;
	static struct drainer d[N_DRAINERS];
	struct cohort_request *r[N];

	(void)state;
	for (int round = 0; round < 8; round++) {
		said_params(&ep);
		struct cohort_engine *e = rig_engine(&ep);
		for (int i = 0; i < N; i++)
			r[i] = said_submit(e, i % SAID_KINDS);
		for (int i = 0; i < N_DRAINERS; i++)
			start(&d[i], e, i == 1 ? 1000 : -1, NULL);
		for (int i = 0; i < N_DRAINERS; i++)
			assert_true(join(&d[i]));
		const struct cohort_engine_stats s = rig_stats(e);
		assert_int_equal(s.n_ended[COHORT_FINISH_LENGTH], N);
		assert_int_equal(said_n_ended(&s), N);
		cohort_engine_free(e);
		for (int i = 0; i < N; i++) {
			assert_true(rig_is_done(r[i]));
			said_check(r[i], i % SAID_KINDS, COHORT_FINISH_NONE);
			cohort_request_free(r[i]);
		}
	}
}

/* One without a limit waits, one with a limit comes to its end: both come back, and both say that it was not clean. A
 * third one, later, finds nothing left. */
static void cut_short(void **state)
{
	struct cohort_request *r[N_LONG];
	static struct drainer patient, hasty;
	struct job j;
	bool clean = false;

	(void)state;
	for (int round = 0; round < 3; round++) {
		struct cohort_engine *e = open_slow(r, &j);
		start(&patient, e, -1, NULL);
		wait_closed(e);
		start(&hasty, e, 0.01 * round, NULL);
		assert_false(join(&hasty));
		assert_false(join(&patient));
		check_cut(e, r, &j);
		assert_int_equal(cohort_engine_drain(e, -1, &clean, NULL), COHORT_OK);
		assert_true(clean);
		cohort_engine_free(e);
		for (int i = 0; i < N_LONG; i++)
			cohort_request_free(r[i]);
	}
}

/* Two limits that run out at the same time, and long enough for both to be there by then. */
static void twice_cut(void **state)
{
	struct cohort_request *r[N_LONG];
	static struct drainer d[2];
	struct job j;
	bool clean = false;

	(void)state;
	for (int round = 0; round < 2; round++) {
		struct cohort_engine *e = open_slow(r, &j);
		atomic_int n_missing = 2;
		for (int i = 0; i < 2; i++)
			start(&d[i], e, 0.25, &n_missing);
		for (int i = 0; i < 2; i++)
			assert_false(join(&d[i]));
		check_cut(e, r, &j);
		assert_int_equal(cohort_engine_drain(e, 0, &clean, NULL), COHORT_OK);
		assert_true(clean);
		cohort_engine_free(e);
		for (int i = 0; i < N_LONG; i++)
			cohort_request_free(r[i]);
	}
}

/* The last callback takes longer than the drain has: time runs out, and yet everything has ended by itself. */
static void end_slowly(struct cohort_request *r, const struct cohort_event *ev, void *user)
{
	(void)r;
	if (ev->kind != COHORT_EVENT_DONE)
		return;
	atomic_store((atomic_bool *)user, true);
	rig_sleep(0.1);
}

static void ended_meanwhile(void **state)
{
	struct cohort_engine_params ep;
	struct job j;
	atomic_bool ending = false;
	bool clean = false;

	(void)state;
	said_params(&ep);
	struct cohort_engine *e = rig_engine(&ep);
	rig_job(&j, 30, 5, 3);
	j.p.on_event = end_slowly;
	j.p.user = &ending;
	struct cohort_request *r = rig_submit(e, &j);
	while (!atomic_load(&ending))
		rig_sleep(0.001);
	assert_int_equal(cohort_engine_drain(e, 0.01, &clean, NULL), COHORT_OK);
	assert_true(clean);
	assert_int_equal(rig_stats(e).n_ended[COHORT_FINISH_LENGTH], 1);
	rig_check(r, &j);
	cohort_request_free(r);
	cohort_engine_free(e);
}

struct hold {
	atomic_bool reached, held;
};

static void held_tick(const struct cohort_tick *t, void *user)
{
	struct hold *h = user;

	(void)t;
	atomic_store(&h->reached, true);
	while (atomic_load(&h->held))
		rig_sleep(0.001);
}

/* One that begins when everything is to be ended, but nothing is yet: it was not clean for that one either. */
static void cut_before(void **state)
{
	struct cohort_engine_params ep;
	static struct drainer hasty, late;
	struct job j;
	struct hold hold = {false, true};

	(void)state;
	said_params(&ep);
	ep.on_tick = held_tick;
	ep.on_tick_user = &hold;
	struct cohort_engine *e = rig_engine(&ep);
	rig_job(&j, 30, 5, LONG_TOKENS);
	struct cohort_request *r = rig_submit(e, &j);
	/* Else its first tick could be the one that ends it, before the other drain looks. */
	while (!atomic_load(&hold.reached))
		rig_sleep(0.001);
	start(&hasty, e, 0, NULL);
	wait_closed(e);
	rig_sleep(0.05);
	start(&late, e, -1, NULL);
	while (!atomic_load(&late.begun))
		rig_sleep(0.001);
	rig_sleep(0.2); /* from there into the call, however busy the machine is */
	atomic_store(&hold.held, false);
	assert_false(join(&hasty));
	assert_false(join(&late));
	assert_int_equal(rig_output(r, 0).finish, COHORT_FINISH_SHUTDOWN);
	cohort_request_free(r);
	cohort_engine_free(e);
}

/* ---- Beside others ---- */

struct submitter {
	struct thread thread;
	struct cohort_engine *e;
	struct cohort_request *r[400];
	int kinds[400];
	int n;
};

/* Submits until it is refused because the engine is closed; a full queue is nothing to worry about. */
static void submit(void *arg)
{
	struct submitter *s = arg;

	while (s->n < 400) {
		struct cohort_err err;
		s->kinds[s->n] = s->n % SAID_KINDS;
		if (!cohort_engine_submit(s->e, &said_jobs[s->kinds[s->n]].p, &s->r[s->n], &err)) {
			s->n++;
			continue;
		}
		if (strcmp(err.rule, "closed") == 0)
			return;
		expect(strncmp(err.rule, "queue-", 6) == 0, "refused for another reason");
		rig_sleep(0.0005);
	}
}

/* Whatever was taken before the drain began is done to its end, and nothing is taken after it. */
static void beside_submits(void **state)
{
	enum { N = 3 };
	struct cohort_engine_params ep;
	static struct submitter s[N];
	static struct drainer d[2];
	uint64_t n = 0;

	(void)state;
	said_params(&ep);
	ep.queue_requests_max = 20;
	struct cohort_engine *e = rig_engine(&ep);
	for (int i = 0; i < N; i++) {
		s[i] = (struct submitter){.e = e};
		assert_true(thread_start(&s[i].thread, "test", submit, &s[i]));
	}
	while (rig_stats(e).n_sampled < 50)
		rig_sleep(0.0005);
	for (int i = 0; i < 2; i++)
		start(&d[i], e, -1, NULL);
	wait_closed(e);
	const uint64_t n_taken = rig_stats(e).n_submitted;
	for (int i = 0; i < 2; i++)
		assert_true(join(&d[i]));
	for (int i = 0; i < N; i++) {
		thread_join(&s[i].thread);
		for (int k = 0; k < s[i].n; k++) {
			assert_true(rig_is_done(s[i].r[k]));
			said_check(s[i].r[k], s[i].kinds[k], COHORT_FINISH_NONE);
			cohort_request_free(s[i].r[k]);
		}
		n += (uint64_t)s[i].n;
	}
	const struct cohort_engine_stats stats = rig_stats(e);
	assert_int_equal(stats.n_submitted, n_taken);
	assert_int_equal(said_n_ended(&stats), n_taken);
	assert_int_equal(n, n_taken);
	assert_true(n > 0);
	rig_check_empty(e, SAID_SLOTS);
	cohort_engine_free(e);
}

/* ---- The end ---- */

struct reader {
	struct thread thread;
	struct cohort_request *r;
	const struct job *j;
	int how; /* waits for the end, for events, or cancels */
	atomic_bool begun, back;
};

static void read_on(void *arg)
{
	struct reader *a = arg;
	struct cohort_event ev = {0};
	bool done = a->how == 2;

	atomic_store(&a->begun, true);
	if (done) {
		rig_sleep(0.01);
		cohort_request_cancel(a->r);
	}
	while (!done && a->how == 0)
		expect(!cohort_request_wait(a->r, -1, &done, NULL), "wait");
	while (!done) {
		expect(!cohort_request_next(a->r, -1, &ev, NULL), "next");
		done = ev.kind == COHORT_EVENT_DONE;
	}
	atomic_store(&a->back, true);
}

/* The engine is freed, at once or after a drain without time, while threads wait for its requests, read and cancel
 * them: these are calls on the handles, which outlive it. */
static void freed_under_readers(void **state)
{
	struct cohort_request *r[N_LONG];
	static struct reader readers[N_LONG];
	struct job j;
	bool clean;

	(void)state;
	for (int round = 0; round < 4; round++) {
		struct cohort_engine *e = open_slow(r, &j);
		for (int i = 0; i < N_LONG; i++) {
			readers[i] = (struct reader){.r = r[i], .j = &j, .how = i % 3};
			assert_true(thread_start(&readers[i].thread, "test", read_on, &readers[i]));
		}
		for (int i = 0; i < N_LONG; i++)
			while (!atomic_load(&readers[i].begun))
				rig_sleep(0.001);
		rig_sleep(0.01);
		if (round % 2) {
			assert_int_equal(cohort_engine_drain(e, 0, &clean, NULL), COHORT_OK);
			assert_false(clean);
		}
		cohort_engine_free(e);
		for (int i = 0; i < N_LONG; i++) {
			join_soon(&readers[i].thread, &readers[i].back);
			const enum cohort_finish finish = rig_output(r[i], 0).finish;
			assert_true(finish == COHORT_FINISH_SHUTDOWN ||
					(i % 3 == 2 && finish == COHORT_FINISH_CANCELLED));
			rig_check_output(r[i], &j, 0, true);
			cohort_request_free(r[i]);
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
			cmocka_unit_test(drains_together_come_back),
			cmocka_unit_test(cut_short),
			cmocka_unit_test(twice_cut),
			cmocka_unit_test(ended_meanwhile),
			cmocka_unit_test(cut_before),
			cmocka_unit_test(beside_submits),
			cmocka_unit_test(freed_under_readers),
	};
	return cmocka_run_group_tests_name("engine_drain", tests, said_set_up, rig_tear_down);
}
