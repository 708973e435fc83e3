/* Lines that wait for their reader.
 *
 * Invariants
 *  1. log_add holds the lock only to copy a line. Lines beyond LOG_BYTES are dropped and counted, and the number is
 *     told where they are missing.
 *  2. The descriptor keeps its flags: it is often shared with other processes, for which O_NONBLOCK would be an error.
 *     The thread asks whether there is room and writes PIPE_BUF bytes at most, which a pipe then takes. Where others
 *     write to it, too, they may have taken the room: then the thread waits, and no request. */
#include "serve_log.h"

#include "base/err.h"
#include "base/pool.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { LOOK_MS = 100 }; /* how often the thread looks whether it is to end, while there is no room */

/* With the lock in hand, as all that follows but the thread's writing. False: no room. */
static bool put(struct serve_log *l, const char *text, size_t n)
{
	if (n > LOG_BYTES - l->n)
		return false;
	const size_t from = (l->at + l->n) % LOG_BYTES, first = n < LOG_BYTES - from ? n : LOG_BYTES - from;
	memcpy(l->bytes + from, text, first);
	memcpy(l->bytes, text + first, n - first);
	l->n += n;
	return true;
}

/* Says how many lines are missing here. False: no room for that. */
static bool put_dropped(struct serve_log *l)
{
	char text[200];

	if (l->n_dropped == 0)
		return true;
	const int n = snprintf(text, sizeof text,
			"%.60s: %" PRIu64 " lines of the log were dropped here: standard error was not read\n", l->prog,
			l->n_dropped);
	if (!put(l, text, (size_t)n))
		return false;
	l->n_dropped = 0;
	return true;
}

void log_add(struct serve_log *l, const char *fmt, ...)
{
	char text[LOG_LINE_MAX];
	va_list args;

	va_start(args, fmt);
	const int n_head = l->prog ? snprintf(text, sizeof text, "%.60s: ", l->prog) : 0;
	const int n_line = vsnprintf(text + n_head, sizeof text - (size_t)n_head, fmt, args);
	va_end(args);
	size_t n = (size_t)n_head + (n_line > 0 ? (size_t)n_line : 0);

	n = n < sizeof text ? n : sizeof text - 1;
	if (n > 0 && text[n - 1] == '\n')
		n--;
	text[n++] = '\n'; /* behind the text, or instead of its NUL */
	if (!l->started) {
		fwrite(text, 1, n, stderr);
		return;
	}
	lock_take(&l->lock);
	/* Where lines were dropped, some room comes first: one word about many, not many about a few. */
	if ((l->n_dropped > 0 && l->n > LOG_BYTES / 2) || !put_dropped(l) || !put(l, text, n))
		l->n_dropped++;
	cond_all(&l->wake);
	lock_give(&l->lock);
}

/* Bytes that were written, or given up: where nothing can be written, nothing is to wait. */
static size_t write_some(int fd, const char *bytes, size_t n)
{
	struct pollfd p = {.fd = fd, .events = POLLOUT};

	const int room = poll(&p, 1, LOOK_MS);
	if (room == 0 || (room < 0 && errno == EINTR))
		return 0;
	const ssize_t got = write(fd, bytes, n);
	return got >= 0 ? (size_t)got : errno == EINTR || errno == EAGAIN ? 0 : n;
}

static void log_main(void *arg)
{
	struct serve_log *l = arg;
	char piece[PIPE_BUF];

	lock_take(&l->lock);
	while (!l->stop || (l->n > 0 && clock_now() < l->stop_at)) {
		if (l->n == 0) {
			cond_wait(&l->wake, &l->lock);
			continue;
		}
		const size_t most = LOG_BYTES - l->at < sizeof piece ? LOG_BYTES - l->at : sizeof piece;
		const size_t n = l->n < most ? l->n : most;
		memcpy(piece, l->bytes + l->at, n);
		lock_give(&l->lock);
		const size_t written = write_some(l->fd, piece, n);
		lock_take(&l->lock);
		l->at = (l->at + written) % LOG_BYTES;
		l->n -= written;
		if (l->n == 0)
			put_dropped(l);
	}
	l->ended = true;
	cond_all(&l->wake);
	lock_give(&l->lock);
}

bool log_start(struct serve_log *l, const char *prog, int fd, struct cohort_err *err)
{
	l->prog = prog;
	l->fd = fd;
	l->has_lock = lock_init(&l->lock);
	l->has_wake = l->has_lock && cond_init(&l->wake);
	l->started = l->has_wake && thread_start(&l->thread, "cohort-log", log_main, l);
	if (!l->started)
		err_set(err, COHORT_E_MEMORY, "cannot start the thread that writes the log");
	return l->started;
}

void log_stop(struct serve_log *l, double timeout_s)
{
	bool ended = true;

	if (l->started) {
		lock_take(&l->lock);
		l->stop = true;
		l->stop_at = clock_now() + timeout_s;
		cond_all(&l->wake);
		while (!l->ended && cond_wait_until(&l->wake, &l->lock, l->stop_at + 1))
			;
		ended = l->ended;
		lock_give(&l->lock);
		if (ended)
			thread_join(&l->thread);
	}
	/* A thread that waits for others' reader is left to the end of the process. */
	if (!ended)
		return;
	l->started = false;
	if (l->has_wake)
		cond_release(&l->wake);
	if (l->has_lock)
		lock_release(&l->lock);
	l->has_lock = l->has_wake = false;
}
