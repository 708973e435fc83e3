/* The thread pool: every item is worked on once and is visible afterwards, with workers awake or parked, and with more
 * threads than CPUs, too. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/pool.h"

enum { THREADS_MAX = 64, N_ITEMS = 37 };

/* Plain numbers, so that the thread sanitizer sees a missing order. */
struct job {
	uint64_t n_calls[N_ITEMS], sum[N_ITEMS];
	uint64_t step;
	size_t n_threads;
	struct {
		_Alignas(64) int busy;
	} slot[THREADS_MAX];
};

static void add(void *arg, size_t from, size_t to, size_t thread)
{
	struct job *j = arg;

	/* A thread number is in use once at a time; a crash here would be the sign of it. */
	if (thread >= j->n_threads || j->slot[thread].busy++)
		abort();
	for (size_t i = from; i < to; i++) {
		j->n_calls[i]++;
		j->sum[i] += j->step * (i + 1);
	}
	j->slot[thread].busy--;
}

static void check(const struct job *j, uint64_t n_runs, uint64_t sum)
{
	for (size_t i = 0; i < N_ITEMS; i++) {
		assert_int_equal(j->n_calls[i], n_runs);
		assert_int_equal(j->sum[i], sum * (i + 1));
	}
}

static void runs(void **state)
{
	enum { N_RUNS = 10000 };
	(void)state;

	for (size_t n = 1; n <= 5; n++) {
		static struct job j;
		uint64_t sum = 0;
		struct pool *p = pool_open(n);
		memset(&j, 0, sizeof j);
		j.n_threads = n;
		assert_non_null(p);
		assert_int_equal(pool_size(p), n);
		mem_fail_all(true); /* a run allocates nothing */
		for (j.step = 1; j.step <= N_RUNS; j.step++) {
			pool_run(p, N_ITEMS, 1, add, &j);
			sum += j.step;
			/* What the threads wrote is visible here after each run, not only in the end. */
			if (j.sum[N_ITEMS - 1] != sum * N_ITEMS)
				fail_msg("%zu threads: run %llu is incomplete", n, (unsigned long long)j.step);
		}
		mem_fail_all(false);
		check(&j, N_RUNS, sum);
		pool_free(p);
	}
}

static void more_threads_than_cpus(void **state)
{
	static struct job j;
	size_t n = 4 * pool_cpu_count() + 3;
	(void)state;

	n = n < THREADS_MAX ? n : THREADS_MAX;
	struct pool *p = pool_open(n);
	assert_non_null(p);
	j.step = 1;
	j.n_threads = n;
	for (int i = 0; i < 300; i++)
		pool_run(p, N_ITEMS, 1, add, &j);
	check(&j, 300, 300);
	pool_free(p);
}

/* Pauses around the time a worker takes to park, which is where a wake-up could be lost. */
static void runs_after_pauses(void **state)
{
	static const unsigned pauses[] = {0, 20, 50, 100, 300, 3000};
	static struct job j;
	struct pool *p = pool_open(3);
	uint64_t n_runs = 0;
	(void)state;

	assert_non_null(p);
	j.step = 1;
	j.n_threads = 3;
	usleep(10000);
	for (int i = 0; i < 200; i++) {
		pool_run(p, N_ITEMS, 1, add, &j);
		n_runs++;
		usleep(pauses[i % 6]);
	}
	check(&j, n_runs, n_runs);
	pool_free(p);
}

/* Freed at once, after a run, and after parking. */
static void open_free(void **state)
{
	static struct job j;
	uint64_t n_runs = 0;
	(void)state;

	j.step = 1;
	j.n_threads = 3;
	for (int i = 0; i < 200; i++) {
		struct pool *p = pool_open(3);
		assert_non_null(p);
		if (i % 4 == 3)
			usleep(1000);
		if (i % 2) {
			pool_run(p, N_ITEMS, 1, add, &j);
			n_runs++;
		}
		if (i % 8 == 7)
			usleep(1000);
		pool_free(p);
	}
	check(&j, n_runs, n_runs);
	pool_free(NULL);
}

/* Ranges keep to units and cover everything, however few or many items there are. */
static void cover(void *arg, size_t from, size_t to, size_t thread)
{
	uint64_t *seen = arg;
	(void)thread;
	if (from % 8 || from >= to)
		abort();
	for (size_t i = from; i < to; i++)
		seen[i]++;
}

static void units(void **state)
{
	struct pool *p = pool_open(3);
	(void)state;

	assert_non_null(p);
	for (size_t n = 0; n < 300; n++) {
		uint64_t seen[300] = {0};
		pool_run(p, n, 8, cover, seen);
		for (size_t i = 0; i < 300; i++)
			assert_int_equal(seen[i], i < n);
	}
	pool_free(p);
}

static void zero_is_one(void **state)
{
	static struct job j;
	struct pool *p = pool_open(0);
	(void)state;

	assert_non_null(p);
	assert_int_equal(pool_size(p), 1);
	j.step = 5;
	j.n_threads = 1;
	pool_run(p, N_ITEMS, 1, add, &j);
	check(&j, 1, 5);
	pool_free(p);
	assert_true(pool_cpu_count() >= 1);
}

static void allocation_failures(void **state)
{
	int64_t n = 0;
	(void)state;

	for (;; n++) {
		mem_fail_after(n);
		struct pool *p = pool_open(4);
		mem_fail_after(-1);
		if (p) {
			pool_free(p);
			break;
		}
	}
	assert_true(n >= 2);
	/* More threads than sizes can count. */
	assert_null(pool_open(SIZE_MAX));
}

static void clock_goes_on(void **state)
{
	double a = clock_now(), b;
	(void)state;

	usleep(2000);
	b = clock_now();
	assert_true(b - a >= 0.002 && b - a < 60);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(runs),
		cmocka_unit_test(more_threads_than_cpus),
		cmocka_unit_test(runs_after_pauses),
		cmocka_unit_test(open_free),
		cmocka_unit_test(units),
		cmocka_unit_test(zero_is_one),
		cmocka_unit_test(allocation_failures),
		cmocka_unit_test(clock_goes_on),
	};

	return cmocka_run_group_tests_name("pool", tests, NULL, NULL);
}
