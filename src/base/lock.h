/* A lock: one thread at a time. A condition: waiting, with the lock in hand, for another thread's word. Making one may
 * take memory, so that tests can make it fail (mem_fail_after). */
#ifndef BASE_LOCK_H
#define BASE_LOCK_H

#include "base/mem.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <time.h>

struct lock {
	pthread_mutex_t mutex;
};

static inline bool lock_init(struct lock *l)
{
	return !mem_refused() && pthread_mutex_init(&l->mutex, NULL) == 0;
}
static inline void lock_release(struct lock *l)
{
	pthread_mutex_destroy(&l->mutex);
}
static inline void lock_take(struct lock *l)
{
	pthread_mutex_lock(&l->mutex);
}
static inline void lock_give(struct lock *l)
{
	pthread_mutex_unlock(&l->mutex);
}
/* Lets one of those that wait have it, whom they count in n_waiting: who gives and takes at once has it again before
 * another wakes, which takes some 50 us. A millisecond at most, if nobody else wants the processor. */
static inline void lock_pass(struct lock *l, const atomic_int *n_waiting)
{
	if (atomic_load(n_waiting) == 0)
		return;
	pthread_mutex_unlock(&l->mutex);
	for (int i = 0; i < 2000 && atomic_load(n_waiting) > 0; i++)
		sched_yield();
	pthread_mutex_lock(&l->mutex);
}

struct cond {
	pthread_cond_t cond;
};

static inline bool cond_init(struct cond *c)
{
	pthread_condattr_t attr;
	if (mem_refused() || pthread_condattr_init(&attr) != 0)
		return false;
	const bool ok = pthread_condattr_setclock(&attr, CLOCK_MONOTONIC) == 0 &&
			pthread_cond_init(&c->cond, &attr) == 0;
	pthread_condattr_destroy(&attr);
	return ok;
}
static inline void cond_release(struct cond *c)
{
	pthread_cond_destroy(&c->cond);
}
/* Wakes one that waits. */
static inline void cond_signal(struct cond *c)
{
	pthread_cond_signal(&c->cond);
}
/* Wakes all that wait. */
static inline void cond_all(struct cond *c)
{
	pthread_cond_broadcast(&c->cond);
}
/* Gives the lock, waits, takes the lock again. May return without a word of anybody: look again. */
static inline void cond_wait(struct cond *c, struct lock *l)
{
	pthread_cond_wait(&c->cond, &l->mutex);
}
/* The same until clock_now() (base/pool.h) has come to at_s; false when it has. What lies before the clock's start has
 * passed; some thirty years ahead is for ever, as far as the conversion goes. */
static inline bool cond_wait_until(struct cond *c, struct lock *l, double at_s)
{
	const double s = at_s > 0 ? at_s < 1e9 ? at_s : 1e9 : 0;
	struct timespec t = {.tv_sec = (time_t)s};

	t.tv_nsec = (long)((s - (double)t.tv_sec) * 1e9);
	return pthread_cond_timedwait(&c->cond, &l->mutex, &t) == 0;
}

#endif
