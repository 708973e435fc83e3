/* The server's lines on standard error, which nothing that serves a request waits for: a thread of its own writes them.
 */
#ifndef PROG_SERVE_LOG_H
#define PROG_SERVE_LOG_H

#include "cohort.h"

#include "base/lock.h"
#include "base/thread.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { LOG_BYTES = 1 << 18, LOG_LINE_MAX = 1024 };

/* Zeros: not started; lines are then written at once. Must not be moved, nor freed before the process ends. */
struct serve_log {
	struct lock lock; /* of what follows */
	struct cond wake; /* there is something to write; the thread has ended */
	bool has_lock, has_wake, started;
	struct thread thread;
	const char *prog;
	int fd;
	bool stop, ended;
	double stop_at; /* what is not written by then stays unwritten */
	char bytes[LOG_BYTES]; /* n of them wait, from `at` on, around the end */
	size_t at, n;
	uint64_t n_dropped; /* lines that found no room, and were not told of yet */
};
/* fd stays the caller's. */
bool log_start(struct serve_log *l, const char *prog, int fd, struct cohort_err *err);
/* A line of at most LOG_LINE_MAX bytes, without its end; the program's name goes before it. Any thread; never waits for
 * the reader. */
void log_add(struct serve_log *l, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Writes what waits, for timeout_s at most. */
void log_stop(struct serve_log *l, double timeout_s);

#endif
