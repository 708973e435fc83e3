/* The thread pool: every item is worked on once and is visible afterwards, with workers awake or parked, and with more
 * threads than CPUs, too.
 *
 * Shown red by planted faults: CPUs asked for with a set of 1,024, which a larger machine refuses (many_cpus), and one
 * CPU for each system that does not say how many it has (many_cpus). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/pool.h"
#include "sanitized.h"

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

static void pool_runs_each_thread_once(void **state)
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

static void pool_covers_all_units(void **state)
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

/* ---- Machines that are not at hand ---- */

/* What the system says of CPUs: how it is, or as on a machine whose sets need so many bytes; or nothing. */
static size_t set_bytes;
static long n_online = -1; /* -1: as it is */

/* Sanitizers ask the system themselves before they can run functions of ours: there it is as it is. */
#if !SANITIZED
int sched_getaffinity(pid_t pid, size_t n, cpu_set_t *set)
{
	if (n < set_bytes) {
		errno = EINVAL;
		return -1;
	}
	memset(set, 0, n);
	return syscall(SYS_sched_getaffinity, pid, n, set) < 0 ? -1 : 0;
}

/* Only the pool asks for CPUs here; the other names are those of the C library's own kind. */
long sysconf(int name)
{
	if (name == _SC_NPROCESSORS_ONLN)
		return n_online < 0 ? 1 : n_online;
	return name == _SC_PAGESIZE ? getpagesize() : -1;
}
#endif

static void note_thread(void *arg, size_t from, size_t to, size_t thread)
{
	(void)from;
	(void)to;
	/* The caller does not end its first chunk before somebody else has begun one, or too long has passed. */
	if (thread > 0)
		atomic_store((atomic_bool *)arg, true);
	for (double until = clock_now() + 10; !atomic_load((atomic_bool *)arg) && clock_now() < until;)
		usleep(100);
}

/* Whether workers of a pool of two that have parked do any work. */
static bool workers_work(void)
{
	atomic_bool seen = false;
	struct pool *p = pool_open(2);

	assert_non_null(p);
	usleep(20000); /* it parks */
	pool_run(p, 4, 1, note_thread, &seen);
	pool_free(p);
	return seen;
}

static void many_cpus(void **state)
{
	const size_t n_here = pool_cpu_count();
	(void)state;

	if (SANITIZED)
		skip();
	set_bytes = sizeof(cpu_set_t) + 1; /* more than 1,024 CPUs */
	assert_int_equal(pool_cpu_count(), n_here);
	if (n_here > 1)
		assert_true(workers_work());
	/* No set is large enough: those online count. */
	set_bytes = SIZE_MAX;
	n_online = 7;
	assert_int_equal(pool_cpu_count(), 7);
	assert_true(workers_work());
	/* Nothing is known: one thread is what is used unasked, and those that were asked for work. */
	n_online = 0;
	assert_int_equal(pool_cpu_count(), 1);
	assert_true(workers_work());
	set_bytes = 0;
	n_online = -1;
	assert_int_equal(pool_cpu_count(), n_here);
}

static void pool_out_of_memory_at_every_point(void **state)
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
		cmocka_unit_test(pool_runs_each_thread_once),
		cmocka_unit_test(more_threads_than_cpus),
		cmocka_unit_test(runs_after_pauses),
		cmocka_unit_test(open_free),
		cmocka_unit_test(pool_covers_all_units),
		cmocka_unit_test(zero_is_one),
		cmocka_unit_test(many_cpus),
		cmocka_unit_test(pool_out_of_memory_at_every_point),
		cmocka_unit_test(clock_goes_on),
	};

	return cmocka_run_group_tests_name("pool", tests, NULL, NULL);
}
