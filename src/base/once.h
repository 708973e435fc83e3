/* Runs a function once, however many threads ask. */
#ifndef BASE_ONCE_H
#define BASE_ONCE_H

#include <pthread.h>

struct once {
	pthread_once_t state;
};
#define ONCE_INIT {PTHREAD_ONCE_INIT}

static inline void once_run(struct once *o, void (*fn)(void))
{
	pthread_once(&o->state, fn);
}

#endif
