/* Fork-join over a few threads.
 *
 * The work of a run is cut into a few chunks per thread, which the caller and the workers claim one by one. So a worker
 * that the system keeps from running holds nobody up: the others take its share, and the caller waits only for chunks
 * that somebody has begun. Nobody yields: that would hand a time slice to whoever else is running, while a thread
 * that slept is woken at once.
 * Invariants
 *  1. `state` holds the run's number, its chunks and the next one to claim in one word. A claim is a compare-exchange
 * on it, so a late worker can never claim from a run that is over.
 *  2. fn, arg and the sizes are written before state announces the run and not changed until n_done says that every
 *     chunk is done; a worker reads them only between claiming a chunk and reporting it done.
 *  3. Who parks says so (n_parked, caller_parked) before looking once more at what it waits for, and who changes that
 *     looks afterwards for parked ones; all four sequentially consistent, so no wake-up is lost.
 *  4. A warm run takes no lock and allocates nothing.
 *  5. With more threads than CPUs only as many workers are kept awake as there are CPUs beside the caller's: the rest
 *     stay parked, as they could only take turns with the others. Where the system does not say how many CPUs there
 *     are, all are kept awake: threads were asked for, and sleeping ones would be of no use on any machine. */
#include "base/pool.h"

#include "base/mem.h"
#include "base/thread.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <time.h>
#include <unistd.h>

/* Some 50 us of pauses: longer than the gap between two steps of a decode, far shorter than a time slice. */
enum { N_SPINS = 2000 };

/* Enough that a late thread costs little, few enough that claiming costs nothing. */
enum { CHUNKS_PER_THREAD = 2, CHUNK_BITS = 20 };
#define CHUNK_MASK (((uint64_t)1 << CHUNK_BITS) - 1)

struct worker {
	struct pool *pool;
	struct thread thread;
	size_t i;
};

struct pool {
	size_t n;
	size_t n_useful; /* workers that have a CPU to run on */
	pool_fn *fn;
	void *arg;
	size_t n_items, unit;
	struct worker *workers; /* [n - 1] */
	size_t n_started;
	_Alignas(64) _Atomic uint64_t state; /* run number, number of chunks, next chunk */
	_Alignas(64) atomic_size_t n_done;
	atomic_size_t n_parked;
	atomic_size_t n_spinning; /* counted only when there are more workers than useful ones */
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

/* CPUs that this process may use; 0: the system does not say. A kernel refuses a set that is smaller than its own, and
 * a cpu_set_t has 1,024: these are eight times as many as Linux can be built for. */
static size_t cpu_count(void)
{
	cpu_set_t set[64];
	int n = 0;

	if (sched_getaffinity(0, sizeof set, set) == 0)
		n = CPU_COUNT_S(sizeof set, set);
	const long online = n > 0 ? n : sysconf(_SC_NPROCESSORS_ONLN);
	return online > 0 ? (size_t)online : 0;
}

static uint64_t n_chunks_of(uint64_t state)
{
	return state >> CHUNK_BITS & CHUNK_MASK;
}

static bool claimable(uint64_t state)
{
	return (state & CHUNK_MASK) < n_chunks_of(state);
}

/* Does chunks of the current run until none is left to claim. */
static void do_chunks(struct pool *p, size_t thread)
{
	uint64_t s = atomic_load(&p->state);

	while (claimable(s)) {
		if (!atomic_compare_exchange_weak(&p->state, &s, s + 1))
			continue;
		const size_t n = n_chunks_of(s);
		size_t from, to;
		pool_share(p->n_items, p->unit, s & CHUNK_MASK, n, &from, &to);
		p->fn(p->arg, from, to, thread);
		if (atomic_fetch_add(&p->n_done, 1) + 1 == n && atomic_load(&p->caller_parked)) {
			pthread_mutex_lock(&p->lock);
			pthread_cond_signal(&p->done);
			pthread_mutex_unlock(&p->lock);
		}
		s = atomic_load(&p->state);
	}
}

static bool spin_for_work(struct pool *p)
{
	for (int i = 0; i < N_SPINS; i++) {
		if (claimable(atomic_load_explicit(&p->state, memory_order_acquire)) || atomic_load(&p->stop))
			return true;
		relax();
	}
	return false;
}

static void wait_work(struct pool *p)
{
	bool found = false;

	if (p->n - 1 <= p->n_useful) {
		found = spin_for_work(p);
	} else {
		if (atomic_fetch_add(&p->n_spinning, 1) < p->n_useful)
			found = spin_for_work(p);
		atomic_fetch_sub(&p->n_spinning, 1);
	}
	if (found)
		return;
	pthread_mutex_lock(&p->lock);
	atomic_fetch_add(&p->n_parked, 1);
	while (!claimable(atomic_load(&p->state)) && !atomic_load(&p->stop))
		pthread_cond_wait(&p->wake, &p->lock);
	atomic_fetch_sub(&p->n_parked, 1);
	pthread_mutex_unlock(&p->lock);
}

static void wait_done(struct pool *p, size_t n)
{
	for (int i = 0; i < N_SPINS; i++) {
		if (atomic_load_explicit(&p->n_done, memory_order_acquire) == n)
			return;
		relax();
	}
	pthread_mutex_lock(&p->lock);
	atomic_store(&p->caller_parked, true);
	while (atomic_load(&p->n_done) != n)
		pthread_cond_wait(&p->done, &p->lock);
	atomic_store(&p->caller_parked, false);
	pthread_mutex_unlock(&p->lock);
}

/* Those who are awake look for work before they park, so only the others count. */
static void wake_parked(struct pool *p)
{
	const size_t parked = atomic_load(&p->n_parked), awake = p->n_started - parked;

	if (parked > 0 && awake < p->n_useful) {
		pthread_mutex_lock(&p->lock);
		for (size_t i = awake; i < p->n_useful; i++)
			pthread_cond_signal(&p->wake);
		pthread_mutex_unlock(&p->lock);
	}
}

static void work(void *arg)
{
	struct worker *w = arg;

	while (!atomic_load(&w->pool->stop)) {
		do_chunks(w->pool, w->i);
		wait_work(w->pool);
	}
}

struct pool *pool_open(size_t n_threads)
{
	struct pool *p = mem_zalloc_aligned(1, sizeof *p);
	if (!p)
		return NULL;
	p->n = n_threads ? n_threads : 1;
	if (p->n > CHUNK_MASK / CHUNKS_PER_THREAD) {
		mem_free_aligned(p);
		return NULL;
	}
	const size_t n_cpus = cpu_count();
	p->n_useful = (n_cpus == 0 || p->n <= n_cpus ? p->n : n_cpus) - 1;
	pthread_mutex_init(&p->lock, NULL);
	pthread_cond_init(&p->wake, NULL);
	pthread_cond_init(&p->done, NULL);
	p->workers = mem_zalloc(p->n, sizeof *p->workers);
	if (!p->workers)
		goto fail;
	for (size_t i = 0; i + 1 < p->n; i++) {
		p->workers[i].pool = p;
		p->workers[i].i = i + 1;
		if (!thread_start(&p->workers[i].thread, "cohort-compute", work, &p->workers[i]))
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
	pthread_mutex_lock(&p->lock);
	pthread_cond_broadcast(&p->wake);
	pthread_mutex_unlock(&p->lock);
	for (size_t i = 0; i < p->n_started; i++)
		thread_join(&p->workers[i].thread);
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

void pool_run(struct pool *p, size_t n_items, size_t unit, pool_fn *fn, void *arg)
{
	const size_t n_units = (n_items + unit - 1) / unit, most = p->n * CHUNKS_PER_THREAD;
	const size_t n = n_units < most ? n_units : most;

	if (p->n == 1 || n <= 1) {
		if (n_items)
			fn(arg, 0, n_items, 0);
		return;
	}
	p->fn = fn;
	p->arg = arg;
	p->n_items = n_items;
	p->unit = unit;
	atomic_store_explicit(&p->n_done, 0, memory_order_relaxed);
	uint64_t run = (atomic_load_explicit(&p->state, memory_order_relaxed) >> 2 * CHUNK_BITS) + 1;
	atomic_store(&p->state, run << 2 * CHUNK_BITS | (uint64_t)n << CHUNK_BITS);
	wake_parked(p);
	do_chunks(p, 0);
	wait_done(p, n);
}

size_t pool_cpu_count(void)
{
	const size_t n = cpu_count();

	return n ? n : 1;
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

static double seconds_of(clockid_t clock)
{
	struct timespec t = {0};
	clock_gettime(clock, &t);
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

double clock_now(void)
{
	return seconds_of(CLOCK_MONOTONIC);
}

double clock_busy(void)
{
	return seconds_of(CLOCK_THREAD_CPUTIME_ID);
}
