/* Threads.
 *
 * Invariants
 *  1. What the new thread reads of its start is memory of its own, so that *t may move or go at once.
 *  2. A start asks for memory first, so that tests can make it fail like an allocation. */
#include "base/thread.h"

#include "base/fp.h"
#include "base/mem.h"

#ifdef __linux__
#include <errno.h>
#include <sys/resource.h>
#endif

struct start {
	void (*fn)(void *arg);
	void *arg;
};

static void *run(void *arg)
{
	const struct start s = *(struct start *)arg;

	mem_free(arg);
	fp_plain();
	s.fn(s.arg);
	return NULL;
}

bool thread_start(struct thread *t, void (*fn)(void *arg), void *arg)
{
	struct start *s = mem_alloc(1, sizeof *s);
	if (!s)
		return false;
	*s = (struct start){fn, arg};
	if (pthread_create(&t->id, NULL, run, s) == 0)
		return true;
	mem_free(s);
	return false;
}

void thread_join(struct thread *t)
{
	pthread_join(t->id, NULL);
}

void thread_lower(int by)
{
#ifdef __linux__
	/* For Linux who is 0 is the calling thread, not its process. */
	errno = 0;
	const int now = getpriority(PRIO_PROCESS, 0);
	if (now != -1 || errno == 0)
		setpriority(PRIO_PROCESS, 0, now + by);
#else
	(void)by;
#endif
}
