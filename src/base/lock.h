/* A lock: one thread at a time. */
#ifndef BASE_LOCK_H
#define BASE_LOCK_H

#include <pthread.h>
#include <stdbool.h>

struct lock {
	pthread_mutex_t mutex;
};

static inline bool lock_init(struct lock *l)
{
	return pthread_mutex_init(&l->mutex, NULL) == 0;
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

#endif
