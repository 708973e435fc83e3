/* A thread that runs one function. */
#ifndef BASE_THREAD_H
#define BASE_THREAD_H

#include <pthread.h>
#include <stdbool.h>

struct thread {
	pthread_t id;
};

/* Starts a thread that debuggers and top show as `name` (15 bytes at most). It blocks all signals but those of its own
 * faults and SIGPROF, so that an application's handlers run on the application's threads. False when out of memory or
 * the system refuses; then there is nothing to join. */
bool thread_start(struct thread *t, const char *name, void (*fn)(void *arg), void *arg);
/* Waits until fn has returned. Once for each thread that was started. */
void thread_join(struct thread *t);
/* *t becomes the caller: for thread_is_self only. */
static inline void thread_self(struct thread *t)
{
	t->id = pthread_self();
}
/* Lowers the caller's priority by so many steps of nice(1), for good; its process and its later threads keep theirs.
 * Without effect where the system has no priorities of threads. */
void thread_lower(int by);
/* Whether the caller is that thread. */
static inline bool thread_is_self(const struct thread *t)
{
	return pthread_equal(t->id, pthread_self()) != 0;
}

#endif
