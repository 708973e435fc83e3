/* Threads, conditions and shared objects. Seen red with: a clock that is not the one of clock_now, a start that ignores
 * the failure that was asked for, a name without a slash passed on as it is. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/dso.h"
#include "base/lock.h"
#include "base/mem.h"
#include "base/pool.h"
#include "base/thread.h"

enum { N_THREADS = 4, N_ROUNDS = 2000 };

/* A number goes round: who is at turn adds one and wakes the others. */
struct ring {
	struct lock lock;
	struct cond cond;
	int turn, n_rounds;
	int n_late; /* waits that ran into their limit */
};
struct member {
	struct ring *ring;
	int i;
};

static void go_round(void *arg)
{
	const struct member *m = arg;
	struct ring *r = m->ring;

	lock_take(&r->lock);
	while (r->n_rounds < N_ROUNDS) {
		if (r->turn == m->i) {
			r->turn = (r->turn + 1) % N_THREADS;
			r->n_rounds++;
			cond_all(&r->cond);
		} else if (!cond_wait_until(&r->cond, &r->lock, clock_now() + 60)) {
			r->n_late++;
			break;
		}
	}
	lock_give(&r->lock);
}

static void threads_take_turns(void **state)
{
	struct ring r = {.turn = 0};
	struct member m[N_THREADS];
	struct thread t[N_THREADS];
	(void)state;

	assert_true(lock_init(&r.lock));
	assert_true(cond_init(&r.cond));
	for (int i = 0; i < N_THREADS; i++) {
		m[i] = (struct member){&r, i};
		assert_true(thread_start(&t[i], "test", go_round, &m[i]));
	}
	for (int i = 0; i < N_THREADS; i++)
		thread_join(&t[i]);
	assert_int_equal(r.n_rounds, N_ROUNDS);
	assert_int_equal(r.n_late, 0);
	cond_release(&r.cond);
	lock_release(&r.lock);
}

static void answer(void *arg)
{
	struct ring *r = arg;

	lock_take(&r->lock);
	r->turn = 1;
	cond_signal(&r->cond);
	lock_give(&r->lock);
}

static void one_waits(void **state)
{
	struct ring r = {.turn = 0};
	struct thread t;
	(void)state;

	assert_true(lock_init(&r.lock));
	assert_true(cond_init(&r.cond));
	lock_take(&r.lock);
	assert_true(thread_start(&t, "test", answer, &r));
	while (r.turn == 0)
		cond_wait(&r.cond, &r.lock);
	lock_give(&r.lock);
	thread_join(&t);

	/* Nobody answers: the wait is as long as was said, and what has passed is not waited for. */
	lock_take(&r.lock);
	const double start = clock_now();
	while (cond_wait_until(&r.cond, &r.lock, start + 0.05))
		;
	const double took = clock_now() - start;
	assert_true(took >= 0.0499);
	assert_true(took < 30);
	assert_false(cond_wait_until(&r.cond, &r.lock, start));
	assert_false(cond_wait_until(&r.cond, &r.lock, -1));
	lock_give(&r.lock);

	/* A limit beyond all clocks is no limit. */
	r.turn = 0;
	lock_take(&r.lock);
	assert_true(thread_start(&t, "test", answer, &r));
	while (r.turn == 0)
		assert_true(cond_wait_until(&r.cond, &r.lock, 1e300));
	lock_give(&r.lock);
	thread_join(&t);
	cond_release(&r.cond);
	lock_release(&r.lock);
}

static void never(void *arg)
{
	*(bool *)arg = true;
}

/* What a thread of the library is: it blocks the signals that an application may handle, none that its own faults
 * raise, and has a name; who started it has the mask it had. Seen red without the mask, and with SIGSEGV in it. */
struct self {
	sigset_t blocked;
	char name[16];
};

static void look_at_self(void *arg)
{
	struct self *self = arg;

	pthread_sigmask(SIG_BLOCK, NULL, &self->blocked);
	pthread_getname_np(pthread_self(), self->name, sizeof self->name);
}

static void is_the_librarys(const struct self *self, const char *name)
{
	static const int blocked[] = {SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2, SIGALRM, SIGCHLD, SIGWINCH, SIGPIPE};
	static const int open[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT};

	for (size_t i = 0; i < sizeof blocked / sizeof *blocked; i++)
		assert_int_equal(sigismember(&self->blocked, blocked[i]), 1);
	for (size_t i = 0; i < sizeof open / sizeof *open; i++)
		assert_int_equal(sigismember(&self->blocked, open[i]), 0);
	assert_string_equal(self->name, name);
}

static void look_in_pool(void *arg, size_t from, size_t to, size_t thread)
{
	struct self *selves = arg;

	(void)from, (void)to;
	if (thread > 0)
		look_at_self(&selves[thread]);
	usleep(100); /* so that the others get some */
}

static void signals_and_names(void **state)
{
	struct self before, after, self = {.name = ""}, selves[3] = {{.name = ""}};
	struct thread t;
	(void)state;

	look_at_self(&before);
	assert_true(thread_start(&t, "a-name-of-15-by", look_at_self, &self));
	thread_join(&t);
	is_the_librarys(&self, "a-name-of-15-by");
	struct pool *p = pool_open(3);
	assert_non_null(p);
	while (!*selves[1].name || !*selves[2].name)
		pool_run(p, 64, 1, look_in_pool, selves);
	pool_free(p);
	is_the_librarys(&selves[1], "cohort-compute");
	is_the_librarys(&selves[2], "cohort-compute");
	look_at_self(&after);
	assert_memory_equal(&before.blocked, &after.blocked, sizeof(unsigned long));
	assert_string_equal(before.name, after.name);
}

/* What it is, and is two steps lower; from -1 on, which is also what a failure looks like, where that is permitted. */
static void lower_self(void *arg)
{
	int *nice = arg;

	nice[0] = getpriority(PRIO_PROCESS, 0);
	thread_lower(2);
	nice[1] = getpriority(PRIO_PROCESS, 0);
	nice[2] = setpriority(PRIO_PROCESS, 0, -1);
	thread_lower(2);
	nice[3] = getpriority(PRIO_PROCESS, 0);
}

/* A thread lowers itself, and not its process. Seen red with -1 taken for a failure. */
static void priorities(void **state)
{
	int nice[4];
	struct thread t;
	(void)state;

	const int before = getpriority(PRIO_PROCESS, 0);
	assert_true(thread_start(&t, "test", lower_self, nice));
	thread_join(&t);
	assert_int_equal(nice[0], before);
	assert_int_equal(nice[1], before < 18 ? before + 2 : 19);
	if (nice[2] == 0)
		assert_int_equal(nice[3], 1);
	assert_int_equal(getpriority(PRIO_PROCESS, 0), before);
}

static void start_fails(void **state)
{
	bool ran = false;
	struct thread t;
	(void)state;

	mem_fail_after(0);
	assert_false(thread_start(&t, "test", never, &ran));
	mem_fail_after(-1);
	assert_false(ran);
}

static void shared_objects_are_opened(void **state)
{
	struct dso *d = NULL;
	struct cohort_err err = {0};
	(void)state;

	assert_int_equal(dso_open("no-such-object.so", &d, &err), COHORT_E_IO);
	assert_non_null(strstr(err.text, "no-such-object.so"));
	/* A name is a file of this directory, whatever the system's libraries are called. */
	assert_int_equal(dso_open("libc.so.6", &d, &err), COHORT_E_IO);
	assert_int_equal(dso_open("/", &d, &err), COHORT_E_IO);
	for (int i = 0; i < 2; i++) {
		mem_fail_after(i);
		assert_int_equal(dso_open("no-such-object.so", &d, &err), COHORT_E_MEMORY);
	}
	mem_fail_after(-1);
	assert_null(d);
	dso_free(NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
			cmocka_unit_test(threads_take_turns),
			cmocka_unit_test(one_waits),
			cmocka_unit_test(signals_and_names),
			cmocka_unit_test(priorities),
			cmocka_unit_test(start_fails),
			cmocka_unit_test(shared_objects_are_opened),
	};

	return cmocka_run_group_tests_name("thread", tests, NULL, NULL);
}
