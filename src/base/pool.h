/* A fork-join thread pool: fixed threads, static partition, spins briefly, then parks. */
#ifndef BASE_POOL_H
#define BASE_POOL_H

#include <stdbool.h>
#include <stddef.h>

struct pool;

/* Runs on every thread i of n at once. */
typedef void pool_fn(void *arg, size_t i, size_t n);

/* n_threads >= 1, the calling thread included. NULL when out of memory or threads. */
struct pool *pool_open(size_t n_threads);
void pool_free(struct pool *p);
size_t pool_size(const struct pool *p);
/* Returns when all threads have returned from fn. One caller at a time. */
void pool_run(struct pool *p, pool_fn *fn, void *arg);

/* CPUs this process may use, at least 1. */
size_t pool_cpu_count(void);

/* Share i of n of the items [0, n_items), in whole units: *from <= *to, shares in order, without gaps. */
void pool_share(size_t n_items, size_t unit, size_t i, size_t n, size_t *from, size_t *to);

/* Monotonic seconds. */
double clock_now(void);

#endif
