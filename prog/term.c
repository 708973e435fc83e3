/* The terminal, by escape sequences that all of them have known for decades.
 *
 * 1. While it is held, every way out of the program but SIGKILL gives it back: term_release, and the handlers below,
 *    which then do what would have been done without them.
 * 2. Handlers call nothing but what POSIX allows there, and leave errno alone.
 * 3. Signals that were ignored when the program started stay ignored.
 *
 * What is drawn is not this file's business. */
#include "term.h"

#include "common.h"
#include "width.h"

#include "base/mem.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

static const char hold[] = "\033[?25l\033[?7l";
static const char give_back[] = "\033[0m\033[?7h\033[?25h";

/* A signal comes to any thread: not sig_atomic_t, which is for one. */
static _Atomic int held_fd = -1, held, resized, continued, echo_off;
static struct termios modes; /* before */

static const int signals[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGABRT, SIGTSTP, SIGCONT, SIGWINCH};
enum { N_SIGNALS = sizeof signals / sizeof *signals };
static struct sigaction before[N_SIGNALS];

/* ---- What it can do ---- */

bool term_moves(int fd)
{
	const char *name = getenv("TERM");
	return isatty(fd) && name && *name && strcmp(name, "dumb") != 0;
}

bool term_colors(int fd)
{
	const char *no = getenv("NO_COLOR");
	return term_moves(fd) && !(no && *no);
}

static size_t from_environment(const char *name, size_t otherwise)
{
	const char *s = getenv(name);
	const long n = s ? strtol(s, NULL, 10) : 0;
	return n > 0 && n < 10000 ? (size_t)n : otherwise;
}

void term_size(int fd, size_t *rows, size_t *cols)
{
	struct winsize size = {0};

	if (ioctl(fd, TIOCGWINSZ, &size) != 0)
		size = (struct winsize){0};
	*rows = size.ws_row ? size.ws_row : from_environment("LINES", 24);
	*cols = size.ws_col ? size.ws_col : from_environment("COLUMNS", 80);
}

bool term_foreground(int fd)
{
	const pid_t group = tcgetpgrp(fd);
	/* A terminal that is not the one of our session has no foreground. */
	return group < 0 || group == getpgrp();
}

/* ---- Bytes ---- */

char *term_safe(const char *s, size_t n, size_t *n_out)
{
	struct glyph g;
	void *out = NULL;
	size_t n_max = 0, len = 0;

	for (size_t at = 0; at < n;) {
		const size_t step = glyph_next(s + at, n - at, &g);
		if (!mem_grow(&out, &n_max, len + sizeof g.bytes + 1, 1)) {
			mem_free(out);
			return NULL;
		}
		const bool kept = g.cp == '\n' || g.cp == '\t';
		memcpy((char *)out + len, kept ? s + at : g.bytes, kept ? 1 : g.n_bytes);
		len += kept ? 1 : g.n_bytes;
		at += step;
	}
	if (!out && !(out = mem_alloc(1, 1)))
		return NULL;
	((char *)out)[len] = '\0';
	if (n_out)
		*n_out = len;
	return out;
}

void term_print(FILE *out, const char *bytes, size_t n)
{
	const bool raw = !isatty(fileno(out));
	size_t n_safe = 0;
	char *safe = raw ? NULL : term_safe(bytes, n, &n_safe);

	if (raw)
		fwrite(bytes, 1, n, out);
	else if (safe)
		fwrite(safe, 1, n_safe, out);
	mem_free(safe);
}

bool term_write(int fd, const char *bytes, size_t n)
{
	while (n > 0) {
		const ssize_t done = write(fd, bytes, n);
		if (done > 0) {
			bytes += done;
			n -= (size_t)done;
		} else if (done < 0 && errno == EAGAIN) {
			/* Somebody who shares the terminal asked for it not to block. */
			struct pollfd p = {.fd = fd, .events = POLLOUT};
			poll(&p, 1, 100);
		} else if (done == 0 || errno != EINTR) {
			return false;
		}
	}
	return true;
}

/* ---- Taking it over, giving it back ---- */

static void echo(bool on)
{
	struct termios now;

	/* Changing modes from the background would stop the program. */
	if (!term_foreground(held_fd))
		return;
	if (on && echo_off) {
		tcsetattr(held_fd, TCSANOW, &modes);
		echo_off = 0;
	} else if (!on && tcgetattr(held_fd, &now) == 0 && (now.c_lflag & ECHO)) {
		/* Only then: after a stop that could not be caught it may be off still, by us. */
		modes = now;
		now.c_lflag &= ~(tcflag_t)ECHO;
		echo_off = tcsetattr(held_fd, TCSANOW, &now) == 0;
	}
}

/* In a handler. The cursor stands on the view's last line: whoever writes next gets one of its own. */
static void restore(void)
{
	if (!held)
		return;
	held = 0;
	echo(true);
	term_write(held_fd, give_back, sizeof give_back - 1);
	term_write(held_fd, "\r\n", 2);
}

static void default_action(int sig)
{
	const struct sigaction dfl = {.sa_handler = SIG_DFL};
	sigset_t set, old;

	sigaction(sig, &dfl, NULL);
	raise(sig);
	sigemptyset(&set);
	sigaddset(&set, sig);
	pthread_sigmask(SIG_UNBLOCK, &set, &old); /* it ends or stops here */
	pthread_sigmask(SIG_SETMASK, &old, NULL);
}

static void on_end(int sig)
{
	const int saved = errno;
	size_t i = 0;

	while (signals[i] != sig)
		i++;
	const bool ours = before[i].sa_handler != SIG_DFL;
	/* The first of those that the program catches lets it go on to its end. */
	if (!ours || interrupted())
		restore();
	if (ours)
		before[i].sa_handler(sig);
	else
		default_action(sig);
	errno = saved;
}

static void on_stop(int sig)
{
	const int saved = errno;
	struct sigaction own;

	sigaction(sig, NULL, &own);
	restore();
	default_action(sig);
	sigaction(sig, &own, NULL);
	continued = 1;
	errno = saved;
}

static void on_note(int sig)
{
	if (sig == SIGWINCH)
		resized = 1;
	else
		continued = 1;
}

void term_hold(int fd)
{
	held_fd = fd;
	resized = continued = 0;
	for (size_t i = 0; i < N_SIGNALS; i++) {
		const int sig = signals[i];
		struct sigaction sa = {.sa_handler = on_end, .sa_flags = SA_RESTART};
		if (sig == SIGTSTP)
			sa.sa_handler = on_stop;
		else if (sig == SIGCONT || sig == SIGWINCH)
			sa.sa_handler = on_note;
		sigemptyset(&sa.sa_mask);
		sigaction(sig, NULL, &before[i]);
		if (before[i].sa_handler != SIG_IGN)
			sigaction(sig, &sa, NULL);
	}
	/* What starts in the background begins when it comes to the front. */
	if (term_foreground(fd))
		term_hold_again();
	else
		continued = 1;
}

void term_hold_again(void)
{
	echo(false);
	held = 1;
	term_write(held_fd, hold, sizeof hold - 1);
}

void term_release(void)
{
	if (held_fd < 0)
		return;
	if (held) {
		echo(true);
		term_write(held_fd, give_back, sizeof give_back - 1);
	}
	held = 0;
	for (size_t i = 0; i < N_SIGNALS; i++)
		sigaction(signals[i], &before[i], NULL);
	held_fd = -1;
}

static bool take(_Atomic int *flag)
{
	return atomic_exchange(flag, 0);
}

bool term_resized(void)
{
	return take(&resized);
}

bool term_continued(void)
{
	return take(&continued);
}
