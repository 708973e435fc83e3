/* Readers that look only when they are told to: on_ready is all they have. For ThreadSanitizer, too.
 *
 * Shown red by planted faults: one notice in a hundred that is skipped, and a notice for the first event only
 * (sleeping_readers_are_woken), a notice for every event (by_hand, sleeping_readers_are_woken), for what is no event
 * (by_hand), a notice that comes although all was read before (read_before), a handle that is given back without
 * waiting for a notice under way (handles_freed_while_engine_says_ready), and under ThreadSanitizer a reader that is
 * known to have read all only after it gave the lock back (sleeping_readers_are_woken). A reader that does not look
 * again when its wait has taken too long was a fault of the library (event_at_the_end_of_the_waiting_time). */
#include "engine_said.h"

#include "base/lock.h"
#include "base/mem.h"

#include <errno.h>
#include <semaphore.h>

static void count(struct cohort_request *r, void *user)
{
	(void)r;
	atomic_fetch_add((atomic_int *)user, 1);
}

/* Reads until there is nothing more; how many events that were. */
static int read_all(struct cohort_request *r, bool *done)
{
	struct cohort_event ev;
	int n = -1;

	do {
		expect(!cohort_request_next(r, 0, &ev, NULL), "next");
		*done = *done || ev.kind == COHORT_EVENT_DONE;
		n++;
	} while (ev.kind != COHORT_EVENT_NONE);
	return n;
}

/* An engine that is ticked by hand, with one request of n_prompt tokens whose notices are counted. */
static struct cohort_request *begin(
		struct cohort_engine **e, struct job *j, int32_t n_prompt, int32_t max_tokens, atomic_int *n)
{
	struct cohort_engine_params ep;

	rig_params(&ep);
	*e = rig_engine(&ep);
	rig_job(j, 3, n_prompt, max_tokens);
	j->p.on_ready = count;
	j->p.user = n;
	return rig_submit(*e, j);
}

/* What is left is read, and the answer is that of the request alone. */
static void finish(struct cohort_request *r, const struct job *j)
{
	bool done = false;

	read_all(r, &done);
	assert_true(done);
	rig_check(r, j);
	cohort_request_free(r);
}

/* Tick by tick: one at the first event, and none until that and what came behind it was read; none for being admitted
 * or for rows of the prompt. */
static void by_hand(void **state)
{
	struct cohort_engine *e;
	struct job j;
	atomic_int n = 0;
	bool done = false;

	(void)state;
	struct cohort_request *r = begin(&e, &j, 70, 20, &n);
	for (int i = 0; i < 2; i++) { /* 32 rows each */
		rig_tick(e);
		assert_int_equal(read_all(r, &done), 0);
		assert_int_equal(n, 0);
	}
	for (int i = 0; i < 4; i++) {
		rig_tick(e);
		assert_int_equal(n, 1);
	}
	assert_int_equal(read_all(r, &done), 4);
	for (int i = 0; i < 4; i++) {
		rig_tick(e);
		assert_int_equal(n, 2 + i);
		assert_int_equal(read_all(r, &done), 1);
	}
	rig_tick(e);
	assert_int_equal(n, 6);
	rig_run(e);
	assert_int_equal(n, 6); /* not even the end: what came before was not read */
	assert_false(done);
	finish(r, &j);

	/* The end alone is something to read; so are a prompt's log-probabilities, before there is a token. */
	r = rig_submit(e, &j);
	cohort_request_cancel(r);
	rig_tick(e);
	assert_int_equal(n, 7);
	cohort_request_free(r);
	assert_int_equal(n, 7);
	j.p.prompt_logprobs = true;
	j.p.n_logprobs = 0;
	j.p.max_tokens = 0;
	r = rig_submit(e, &j);
	rig_run(e);
	assert_int_equal(n, 8);
	assert_int_equal(read_all(r, &done), 3);
	cohort_request_free(r);
	cohort_engine_free(e);
}

static void no_event(struct cohort_request *r, const struct cohort_event *ev, void *user)
{
	(void)r;
	(void)ev;
	(void)user;
}

static void on_ready_with_on_event_is_refused(void **state)
{
	struct cohort_engine_params ep;
	struct cohort_request *r = NULL;
	struct cohort_err err;
	struct job j;

	(void)state;
	rig_params(&ep);
	struct cohort_engine *e = rig_engine(&ep);
	rig_job(&j, 3, 7, 2);
	j.p.on_ready = count;
	j.p.on_event = no_event;
	assert_int_equal(cohort_engine_submit(e, &j.p, &r, &err), COHORT_E_ARG);
	assert_string_equal(err.rule, "on_ready");
	assert_null(r);
	cohort_engine_free(e);
}

/* ---- Two in one tick ---- */

struct pair {
	struct cohort_request *r[2];
	int n[2], n_read;
};

static void read_other(struct cohort_request *r, void *user)
{
	struct pair *p = user;
	const int i = r == p->r[1];
	bool done = false;

	p->n[i]++;
	p->n_read += read_all(p->r[!i], &done);
}

/* Who is called first reads what the other has to say: the other's notice need not come, and does not. The next one
 * does. */
static void read_before(void **state)
{
	struct cohort_engine_params ep;
	struct job j;
	struct pair p = {.n_read = 0};

	(void)state;
	rig_params(&ep);
	struct cohort_engine *e = rig_engine(&ep);
	rig_job(&j, 3, 5, 10);
	j.p.on_ready = read_other;
	j.p.user = &p;
	for (int i = 0; i < 2; i++)
		p.r[i] = rig_submit(e, &j);
	rig_tick(e);
	assert_int_equal(p.n[0] + p.n[1], 1);
	assert_int_equal(p.n_read, 1);
	const int quiet = p.n[0] > 0;
	assert_int_equal(p.n[quiet], 0);
	rig_tick(e);
	assert_int_equal(p.n[quiet], 1);
	rig_run(e);
	for (int i = 0; i < 2; i++) {
		rig_check(p.r[i], &j);
		cohort_request_free(p.r[i]);
	}
	cohort_engine_free(e);
}

/* ---- Late ---- */

/* Waits of this program go through here: the engine's next tick takes place while the one that is due ends. */
static struct cohort_engine *tick_late;

int pthread_cond_timedwait(pthread_cond_t *restrict cond, pthread_mutex_t *restrict mutex,
		const struct timespec *restrict until)
{
	struct cohort_engine *e = tick_late;

	if (!e)
		return pthread_cond_clockwait(cond, mutex, CLOCK_MONOTONIC, until); /* as base/lock.h makes them */
	tick_late = NULL;
	pthread_mutex_unlock(mutex);
	rig_tick(e);
	pthread_mutex_lock(mutex);
	return ETIMEDOUT;
}

/* An event is told when the time of who waits is up, before it has the lock again: the call has it. Were it to say that
 * there is none, the notice of it would be taken back, and a reader that sleeps would never hear of it. */
static void event_at_the_end_of_the_waiting_time(void **state)
{
	struct cohort_engine *e;
	struct cohort_event ev;
	struct job j;
	atomic_int n = 0;

	(void)state;
	struct cohort_request *r = begin(&e, &j, 5, 6, &n);
	for (int i = 0; i < 3; i++) {
		tick_late = e;
		assert_int_equal(cohort_request_next(r, 0.001, &ev, NULL), COHORT_OK);
		assert_null(tick_late);
		assert_int_equal(ev.kind, COHORT_EVENT_TOKEN);
		assert_int_equal(ev.index, i);
	}
	/* Nothing comes: that is none, and the next one has its notice. */
	assert_int_equal(cohort_request_next(r, 0.001, &ev, NULL), COHORT_OK);
	assert_int_equal(ev.kind, COHORT_EVENT_NONE);
	const int n_before = n;
	rig_tick(e);
	assert_int_equal(n, n_before + 1);
	rig_run(e);
	finish(r, &j);
	cohort_engine_free(e);
}

/* ---- Asleep ---- */

enum { N_READERS = 6,
	N_REQUESTS = 120,
	N_AT_ONCE = 3 };

/* A reader sleeps until one of its requests has something to say, as an event loop does. */
struct reader {
	struct thread thread;
	struct cohort_engine *e;
	uint64_t seed;
	sem_t woken;
	struct lock lock;
	struct feed {
		struct reader *of;
		struct cohort_request *r;
		int kind;
		bool ready, done; /* under the lock: ready */
		atomic_int n_calls; /* that began */
		int n_drained, n_events;
	} feeds[N_AT_ONCE];
	int n_ended;
	uint64_t n_events, n_calls;
};

static void wake(struct cohort_request *r, void *user)
{
	struct feed *f = user;

	(void)r;
	atomic_fetch_add(&f->n_calls, 1);
	lock_take(&f->of->lock);
	f->ready = true;
	lock_give(&f->of->lock);
	sem_post(&f->of->woken);
}

static void sleep_until_woken(sem_t *sem)
{
	struct timespec t;

	clock_gettime(CLOCK_REALTIME, &t);
	t.tv_sec += 60;
	while (sem_timedwait(sem, &t))
		expect(errno == EINTR, "a notice is missing");
}

static void submit_feed(struct reader *a, struct feed *f, struct rng *rng)
{
	*f = (struct feed){.of = a, .kind = pick(rng, 0, SAID_KINDS - 1)};
	struct cohort_request_params p = said_jobs[f->kind].p;
	p.on_ready = wake;
	p.user = f;
	expect(!cohort_engine_submit(a->e, &p, &f->r, NULL), "refused");
}

static void serve_feed(struct reader *a, struct feed *f)
{
	/* A call has begun since nothing was left, or none is under way. */
	f->n_events += read_all(f->r, &f->done);
	f->n_drained++;
	expect(atomic_load(&f->n_calls) <= f->n_drained + 1, "more than one notice");
	if (!f->done)
		return;
	said_check(f->r, f->kind, COHORT_FINISH_NONE);
	cohort_request_free(f->r);
	a->n_ended++;
	a->n_events += (uint64_t)f->n_events;
	a->n_calls += (uint64_t)atomic_load(&f->n_calls);
	f->r = NULL;
}

static void read_asleep(void *arg)
{
	struct reader *a = arg;
	struct rng rng;
	int n_submitted = N_AT_ONCE;

	rng_init(&rng, a->seed, 12);
	for (int i = 0; i < N_AT_ONCE; i++)
		submit_feed(a, &a->feeds[i], &rng);
	while (a->n_ended < N_REQUESTS) {
		sleep_until_woken(&a->woken);
		for (int i = 0; i < N_AT_ONCE; i++) {
			struct feed *f = &a->feeds[i];
			lock_take(&a->lock);
			const bool ready = f->ready;
			f->ready = false;
			lock_give(&a->lock);
			/* Now and then somebody looks without having been told to. */
			if (f->r && (ready || pick(&rng, 0, 9) == 0))
				serve_feed(a, f);
			if (!f->r && n_submitted < N_REQUESTS) {
				submit_feed(a, f, &rng);
				n_submitted++;
			}
		}
		if (pick(&rng, 0, 3) == 0)
			rig_sleep(0.0001 * pick(&rng, 0, 9));
	}
}

static void sleeping_readers_are_woken(void **state)
{
	struct cohort_engine_params ep;
	static struct reader a[N_READERS];
	uint64_t n_events = 0, n_calls = 0;

	(void)state;
	said_params(&ep);
	struct cohort_engine *e = rig_engine(&ep);
	for (int i = 0; i < N_READERS; i++) {
		a[i] = (struct reader){.e = e, .seed = (uint64_t)i};
		assert_true(lock_init(&a[i].lock));
		assert_int_equal(sem_init(&a[i].woken, 0, 0), 0);
		assert_true(thread_start(&a[i].thread, "test", read_asleep, &a[i]));
	}
	for (int i = 0; i < N_READERS; i++) {
		thread_join(&a[i].thread);
		lock_release(&a[i].lock);
		sem_destroy(&a[i].woken);
		n_events += a[i].n_events;
		n_calls += a[i].n_calls;
	}
	assert_true(n_calls >= N_READERS * N_REQUESTS && n_calls < n_events);
	const struct cohort_engine_stats s = rig_stats(e);
	assert_int_equal(said_n_ended(&s), N_READERS * N_REQUESTS);
	rig_check_empty(e, SAID_SLOTS);
	cohort_engine_free(e);
}

/* ---- Handles given back ---- */

struct guest {
	atomic_bool gone;
	sem_t woken;
	int n_frees_at; /* calls after which it frees its handle itself; 0: never */
	atomic_int n_calls;
};

static void visit(struct cohort_request *r, void *user)
{
	struct guest *g = user;

	expect(!atomic_load(&g->gone), "a notice for who is gone");
	if (atomic_fetch_add(&g->n_calls, 1) % 3 == 0)
		rig_sleep(0.0003);
	bool done = false;
	if (g->n_frees_at) {
		read_all(r, &done);
		if (done || atomic_load(&g->n_calls) == g->n_frees_at) {
			cohort_request_free(r);
			rig_sleep(0.0003);
		}
		if (!done && atomic_load(&g->n_calls) != g->n_frees_at)
			return;
	}
	expect(!atomic_load(&g->gone), "gone while a notice is under way");
	sem_post(&g->woken);
}

static void come_and_go(void *arg)
{
	struct reader *a = arg;
	struct rng rng;

	rng_init(&rng, a->seed, 13);
	for (int i = 0; i < N_REQUESTS; i++) {
		struct guest *g = mem_zalloc(1, sizeof *g);
		struct cohort_request *r = NULL;
		bool done = false;
		expect(g && !sem_init(&g->woken, 0, 0), "out of memory");
		struct cohort_request_params p = said_jobs[pick(&rng, 0, SAID_KINDS - 1)].p;
		p.on_ready = visit;
		p.user = g;
		g->n_frees_at = i % 4 == 0 ? pick(&rng, 1, 5) : 0;
		const bool by_itself = g->n_frees_at > 0;
		expect(!cohort_engine_submit(a->e, &p, &r, NULL), "refused");
		if (by_itself || pick(&rng, 0, 2))
			sleep_until_woken(&g->woken);
		if (!by_itself && pick(&rng, 0, 1)) {
			read_all(r, &done);
			rig_sleep(0.0001 * pick(&rng, 0, 9));
		}
		/* From here on nobody knows of g; who freed the handle itself has posted last. */
		if (!by_itself) {
			cohort_request_free(r);
			atomic_store(&g->gone, true);
		}
		sem_destroy(&g->woken);
		mem_free(g);
	}
}

static void handles_freed_while_engine_says_ready(void **state)
{
	struct cohort_engine_params ep;
	static struct reader a[N_READERS];
	bool clean = false;

	(void)state;
	said_params(&ep);
	struct cohort_engine *e = rig_engine(&ep);
	for (int i = 0; i < N_READERS; i++) {
		a[i] = (struct reader){.e = e, .seed = (uint64_t)i};
		assert_true(thread_start(&a[i].thread, "test", come_and_go, &a[i]));
	}
	for (int i = 0; i < N_READERS; i++)
		thread_join(&a[i].thread);
	assert_int_equal(cohort_engine_drain(e, -1, &clean, NULL), COHORT_OK);
	assert_true(clean);
	const struct cohort_engine_stats s = rig_stats(e);
	assert_int_equal(said_n_ended(&s), N_READERS * N_REQUESTS);
	rig_check_empty(e, SAID_SLOTS);
	cohort_engine_free(e);
}

/* A notice that does not return until it is told to, and a thread that gives the handle back meanwhile: it waits. Seen
 * red with notice_stop that returns at once. */
struct held {
	sem_t inside, go_on;
	struct cohort_request *r;
	atomic_bool freed;
};

static void hold_on(struct cohort_request *r, void *user)
{
	struct held *h = user;

	(void)r;
	sem_post(&h->inside);
	sleep_until_woken(&h->go_on);
}

static void free_held(void *user)
{
	struct held *h = user;

	cohort_request_free(h->r);
	atomic_store(&h->freed, true);
}

static void free_waits_for_the_notice(void **state)
{
	struct cohort_engine_params ep;
	struct held h = {.freed = false};
	struct thread t;

	(void)state;
	said_params(&ep);
	struct cohort_engine *e = rig_engine(&ep);
	assert_int_equal(sem_init(&h.inside, 0, 0) | sem_init(&h.go_on, 0, 0), 0);
	struct cohort_request_params p = said_jobs[0].p;
	p.on_ready = hold_on;
	p.user = &h;
	assert_int_equal(cohort_engine_submit(e, &p, &h.r, NULL), COHORT_OK);
	sleep_until_woken(&h.inside);
	assert_true(thread_start(&t, "test", free_held, &h));
	rig_sleep(0.05);
	assert_false(atomic_load(&h.freed));
	sem_post(&h.go_on);
	thread_join(&t);
	assert_true(atomic_load(&h.freed));
	cohort_engine_free(e);
	sem_destroy(&h.inside);
	sem_destroy(&h.go_on);
}

/* The engine's end is told like any other. */
static void end_of_the_engine_is_told(void **state)
{
	enum { N = 8 };
	struct cohort_engine_params ep;
	struct cohort_request *r[N];
	atomic_int n[N];
	struct job j;

	(void)state;
	said_params(&ep);
	struct cohort_engine *e = rig_engine(&ep);
	rig_job(&j, 3, 9, 400);
	j.p.on_ready = count;
	for (int i = 0; i < N; i++) {
		atomic_init(&n[i], 0);
		j.p.user = &n[i];
		r[i] = rig_submit(e, &j);
	}
	cohort_engine_free(e);
	for (int i = 0; i < N; i++) {
		bool done = false;
		assert_int_equal(n[i], 1);
		assert_true(read_all(r[i], &done) >= 2 && done);
		cohort_request_free(r[i]);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
			cmocka_unit_test(by_hand),
			cmocka_unit_test(on_ready_with_on_event_is_refused),
			cmocka_unit_test(read_before),
			cmocka_unit_test(event_at_the_end_of_the_waiting_time),
			cmocka_unit_test(sleeping_readers_are_woken),
			cmocka_unit_test(handles_freed_while_engine_says_ready),
			cmocka_unit_test(free_waits_for_the_notice),
			cmocka_unit_test(end_of_the_engine_is_told),
	};
	return cmocka_run_group_tests_name("engine_ready", tests, said_set_up, rig_tear_down);
}
