/* Threads, conditions and shared objects. Seen red with: a clock that is not the one of clock_now, a start that ignores
 * the failure that was asked for, a name without a slash passed on as it is. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdbool.h>
#include <string.h>

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
		assert_true(thread_start(&t[i], go_round, &m[i]));
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
	assert_true(thread_start(&t, answer, &r));
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
	assert_true(thread_start(&t, answer, &r));
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

static void start_fails(void **state)
{
	bool ran = false;
	struct thread t;
	(void)state;

	mem_fail_after(0);
	assert_false(thread_start(&t, never, &ran));
	mem_fail_after(-1);
	assert_false(ran);
}

static void objects(void **state)
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
			cmocka_unit_test(start_fails),
			cmocka_unit_test(objects),
	};

	return cmocka_run_group_tests_name("thread", tests, NULL, NULL);
}
