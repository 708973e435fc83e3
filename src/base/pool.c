/* Fork-join over a few threads.
 *
 * A run is announced by bumping `generation`; workers spin on it, then park on a condition variable. The caller waits for
 * n_left to reach 0 in the same way. Nobody yields: that would hand a whole time slice to whoever else is running,
 * while a thread that slept is woken at once.
 * Invariants
 *  1. fn and arg are written before generation is bumped and not changed until n_left is 0 again.
 *  2. Who parks says so (n_parked, caller_parked) before looking once more at what it waits for, and who changes that
 *     looks afterwards for parked ones; all four sequentially consistent, so no wake-up is lost.
 *  3. A warm run takes no lock and allocates nothing. */
#include "base/pool.h"

#include "base/mem.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <time.h>

/* Some 50 us of pauses: longer than the gap between two steps of a decode, far shorter than a time slice. With more
 * threads than CPUs spinning only keeps the others from working, so it is skipped. */
enum { N_SPINS = 2000 };

struct worker {
	struct pool *pool;
	pthread_t thread;
	size_t i;
};

struct pool {
	size_t n;
	int n_spins;
	pool_fn *fn;
	void *arg;
	struct worker *workers; /* [n - 1] */
	size_t n_started;
	_Alignas(64) atomic_uint generation;
	_Alignas(64) atomic_size_t n_left;
	atomic_size_t n_parked;
	atomic_bool caller_parked;
	atomic_bool stop;
	pthread_mutex_t lock;
	pthread_cond_t wake, done;
};

static void relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
	__builtin_ia32_pause();
#elif defined(__aarch64__)
	__asm__ volatile("yield");
#endif
}

static void wait_change(struct pool *p, unsigned last)
{
	for (int i = 0; i < p->n_spins; i++) {
		if (atomic_load_explicit(&p->generation, memory_order_acquire) != last)
			return;
		relax();
	}
	pthread_mutex_lock(&p->lock);
	atomic_fetch_add(&p->n_parked, 1);
	while (atomic_load(&p->generation) == last)
		pthread_cond_wait(&p->wake, &p->lock);
	atomic_fetch_sub(&p->n_parked, 1);
	pthread_mutex_unlock(&p->lock);
}

/* The caller's wait for the workers. A slow one is most likely not running at all, so it is worth getting out of its
 * way. */
static void wait_done(struct pool *p)
{
	for (int i = 0; i < p->n_spins; i++) {
		if (atomic_load_explicit(&p->n_left, memory_order_acquire) == 0)
			return;
		relax();
	}
	pthread_mutex_lock(&p->lock);
	atomic_store(&p->caller_parked, true);
	while (atomic_load(&p->n_left) != 0)
		pthread_cond_wait(&p->done, &p->lock);
	atomic_store(&p->caller_parked, false);
	pthread_mutex_unlock(&p->lock);
}

static void finish(struct pool *p)
{
	if (atomic_fetch_sub(&p->n_left, 1) == 1 && atomic_load(&p->caller_parked)) {
		pthread_mutex_lock(&p->lock);
		pthread_cond_signal(&p->done);
		pthread_mutex_unlock(&p->lock);
	}
}

static void announce(struct pool *p)
{
	atomic_fetch_add(&p->generation, 1);
	if (atomic_load(&p->n_parked) > 0) {
		pthread_mutex_lock(&p->lock);
		pthread_cond_broadcast(&p->wake);
		pthread_mutex_unlock(&p->lock);
	}
}

static void *work(void *arg)
{
	struct worker *w = arg;
	struct pool *p = w->pool;
	unsigned last = 0;

	for (;;) {
		wait_change(p, last);
		last++;
		if (atomic_load(&p->stop))
			return NULL;
		p->fn(p->arg, w->i, p->n);
		finish(p);
	}
}

struct pool *pool_open(size_t n_threads)
{
	struct pool *p = mem_zalloc_aligned(1, sizeof *p);
	if (!p)
		return NULL;
	p->n = n_threads ? n_threads : 1;
	p->n_spins = p->n <= pool_cpu_count() ? N_SPINS : 0;
	pthread_mutex_init(&p->lock, NULL);
	pthread_cond_init(&p->wake, NULL);
	pthread_cond_init(&p->done, NULL);
	p->workers = mem_zalloc(p->n, sizeof *p->workers);
	if (!p->workers)
		goto fail;
	for (size_t i = 0; i + 1 < p->n; i++) {
		p->workers[i].pool = p;
		p->workers[i].i = i + 1;
		if (pthread_create(&p->workers[i].thread, NULL, work, &p->workers[i]) != 0)
			goto fail;
		p->n_started++;
	}
	return p;
fail:
	pool_free(p);
	return NULL;
}

void pool_free(struct pool *p)
{
	if (!p)
		return;
	atomic_store(&p->stop, true);
	announce(p);
	for (size_t i = 0; i < p->n_started; i++)
		pthread_join(p->workers[i].thread, NULL);
	pthread_cond_destroy(&p->wake);
	pthread_cond_destroy(&p->done);
	pthread_mutex_destroy(&p->lock);
	mem_free(p->workers);
	mem_free_aligned(p);
}

size_t pool_size(const struct pool *p)
{
	return p->n;
}

void pool_run(struct pool *p, pool_fn *fn, void *arg)
{
	if (p->n == 1) {
		fn(arg, 0, 1);
		return;
	}
	p->fn = fn;
	p->arg = arg;
	atomic_store_explicit(&p->n_left, p->n - 1, memory_order_relaxed);
	announce(p);
	fn(arg, 0, p->n);
	wait_done(p);
}

size_t pool_cpu_count(void)
{
	cpu_set_t set;
	int n = 0;

	if (sched_getaffinity(0, sizeof set, &set) == 0)
		n = CPU_COUNT(&set);
	return n > 0 ? (size_t)n : 1;
}

void pool_share(size_t n_items, size_t unit, size_t i, size_t n, size_t *from, size_t *to)
{
	size_t n_units = (n_items + unit - 1) / unit;
	size_t each = n_units / n, rest = n_units % n;
	size_t a = i * each + (i < rest ? i : rest);
	size_t b = a + each + (i < rest ? 1 : 0);

	*from = a * unit < n_items ? a * unit : n_items;
	*to = b * unit < n_items ? b * unit : n_items;
}

double clock_now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}
