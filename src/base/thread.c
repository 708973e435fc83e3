/* Threads.
 *
 * Invariants
 *  1. What the new thread reads of its start is memory of its own, so that *t may move or go at once.
 *  2. A start asks for memory first, so that tests can make it fail like an allocation.
 *  3. The caller's signal mask is the same after a start as before; the thread never runs without its own. */
#include "base/thread.h"

#include "base/fp.h"
#include "base/mem.h"

#include <signal.h>

#ifdef __linux__
#include <errno.h>
#include <sys/resource.h>
#endif

struct start {
	const char *name;
	void (*fn)(void *arg);
	void *arg;
};

static void *run(void *arg)
{
	const struct start s = *(struct start *)arg;

	mem_free(arg);
#ifdef __linux__
	pthread_setname_np(pthread_self(), s.name);
#endif
	fp_plain();
	s.fn(s.arg);
	return NULL;
}

/* All signals but those that a thread's own instructions raise, and a profiler's. */
static void fill_blocked(sigset_t *set)
{
	static const int kept[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT, SIGSYS, SIGPROF};

	sigfillset(set);
	for (size_t i = 0; i < sizeof kept / sizeof *kept; i++)
		sigdelset(set, kept[i]);
}

bool thread_start(struct thread *t, const char *name, void (*fn)(void *arg), void *arg)
{
	struct start *s = mem_alloc(1, sizeof *s);
	sigset_t blocked, before;

	if (!s)
		return false;
	*s = (struct start){name, fn, arg};
	fill_blocked(&blocked);
	pthread_sigmask(SIG_BLOCK, &blocked, &before); /* a new thread has its creator's */
	const bool started = pthread_create(&t->id, NULL, run, s) == 0;
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (!started)
		mem_free(s);
	return started;
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
