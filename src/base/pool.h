/* A fork-join thread pool: fixed threads that claim chunks of work, spin briefly, then park. */
#ifndef BASE_POOL_H
#define BASE_POOL_H

#include <stdbool.h>
#include <stddef.h>

struct pool;

/* Works on items [from, to). thread is below pool_size, and no two calls with the same number overlap. */
typedef void pool_fn(void *arg, size_t from, size_t to, size_t thread);

/* n_threads >= 1, the calling thread included. NULL when out of memory or threads. */
struct pool *pool_open(size_t n_threads);
void pool_free(struct pool *p);
size_t pool_size(const struct pool *p);
/* Calls fn for all of [0, n_items) in ranges of whole units, each item once; returns when all are done. Who does which
 * range is open, so a result must not depend on it. One caller at a time. */
void pool_run(struct pool *p, size_t n_items, size_t unit, pool_fn *fn, void *arg);

/* CPUs this process may use, at least 1. */
size_t pool_cpu_count(void);

/* Share i of n of the items [0, n_items), in whole units: *from <= *to, shares in order, without gaps. */
void pool_share(size_t n_items, size_t unit, size_t i, size_t n, size_t *from, size_t *to);

/* Monotonic seconds. */
double clock_now(void);
/* Seconds that the calling thread has been running on a CPU. */
double clock_busy(void);

#endif
