/* Other programs as children: their output in memory, their end in words.
 *
 * What holds:
 *  1. Standard output and standard error are read as they come, both of them, so a child never waits for us. Of
 *     standard error the end is kept.
 *  2. A signal to this program alone reaches the child, too: it gets a second to end by itself (a terminal has told
 *     it already), then SIGTERM, then SIGKILL. It never outlives the call.
 *  3. Only the child's own id is ever signalled, and not after it was waited for.
 *  4. What others did meanwhile is the busy time of all CPUs, stolen time included, less that of the child and of the
 *     children it waited for. */
#include "peer.h"

#include "base/mem.h"
#include "base/pool.h"
#include "common.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ERR_BYTES = 4096, POLL_MS = 100 };

extern char **environ;

static bool take_out(struct child *c, const char *bytes, size_t n)
{
	void *p = c->out;
	const bool ok = mem_grow(&p, &c->n_out_max, c->n_out + n + 1, 1);

	c->out = p;
	if (!ok)
		return false;
	memcpy(c->out + c->n_out, bytes, n);
	c->n_out += n;
	c->out[c->n_out] = '\0';
	return true;
}

static void take_err(struct child *c, const char *bytes, size_t n)
{
	const size_t spare = ERR_BYTES - 1 - c->n_err;

	if (n > spare) { /* n is at most ERR_BYTES - 1: the oldest go */
		memmove(c->err, c->err + (n - spare), c->n_err - (n - spare));
		c->n_err -= n - spare;
	}
	memcpy(c->err + c->n_err, bytes, n);
	c->n_err += n;
	c->err[c->n_err] = '\0';
}

/* Seconds that all CPUs were busy since the machine started; negative when it is not known. */
static double busy_seconds(void)
{
	unsigned long long t[8] = {0}; /* user, nice, system, idle, iowait, irq, softirq, steal */
	FILE *f = fopen("/proc/stat", "r");
	int n = 0;

	if (f) {
		n = fscanf(f, "cpu %llu %llu %llu %llu %llu %llu %llu %llu", &t[0], &t[1], &t[2], &t[3], &t[4], &t[5],
				&t[6], &t[7]);
		fclose(f);
	}
	if (n < 8)
		return -1;
	return (double)(t[0] + t[1] + t[2] + t[5] + t[6] + t[7]) / (double)sysconf(_SC_CLK_TCK);
}

static double seconds_of(const struct timeval *t)
{
	return (double)t->tv_sec + 1e-6 * (double)t->tv_usec;
}

static int start(const char *const *argv, const int out[2], const int err[2], pid_t *pid)
{
	posix_spawn_file_actions_t fa;
	posix_spawnattr_t attr;
	sigset_t defaults;
	int error = posix_spawn_file_actions_init(&fa);

	if (error)
		return error;
	if ((error = posix_spawnattr_init(&attr))) {
		posix_spawn_file_actions_destroy(&fa);
		return error;
	}
	sigemptyset(&defaults);
	sigaddset(&defaults, SIGPIPE);
	sigaddset(&defaults, SIGXFSZ);
	error = posix_spawnattr_setsigdefault(&attr, &defaults);
	if (!error)
		error = posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSIGDEF);
	if (!error)
		error = posix_spawn_file_actions_addopen(&fa, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
	if (!error)
		error = posix_spawn_file_actions_adddup2(&fa, out[1], STDOUT_FILENO);
	if (!error)
		error = posix_spawn_file_actions_adddup2(&fa, err[1], STDERR_FILENO);
	if (!error)
		error = posix_spawnp(pid, argv[0], &fa, &attr, (char *const *)argv, environ);
	posix_spawnattr_destroy(&attr);
	posix_spawn_file_actions_destroy(&fa);
	return error;
}

/* Sends what the time since the interruption calls for; *sent counts. */
static void pass_on(pid_t pid, double *since, int *sent)
{
	if (!interrupted())
		return;
	if (*since <= 0)
		*since = clock_now();
	if (*sent == 0 && clock_now() - *since > 1.0) {
		kill(pid, SIGTERM);
		*sent = 1;
	} else if (*sent == 1 && clock_now() - *since > 5.0) {
		kill(pid, SIGKILL);
		*sent = 2;
	}
}

/* What is there of both streams, after waiting for it up to ms; whether there was anything. */
static bool drain(struct pollfd fds[2], int ms, struct child *c, bool *ok)
{
	char chunk[ERR_BYTES - 1];
	bool any = false;

	if (poll(fds, 2, ms) <= 0)
		return false;
	for (int i = 0; i < 2; i++) {
		if (fds[i].fd < 0 || !fds[i].revents)
			continue;
		ssize_t got = read(fds[i].fd, chunk, sizeof chunk);
		any = any || got > 0;
		if (got > 0 && i == 0)
			*ok = take_out(c, chunk, (size_t)got) && *ok;
		else if (got > 0)
			take_err(c, chunk, (size_t)got);
		else if (got == 0 || errno != EINTR)
			fds[i].fd = -1;
	}
	return any;
}

/* Until the child has ended and what it wrote is here; a grandchild may keep the streams open. False when out of
 * memory: then it was killed. */
static bool follow(pid_t pid, int out, int err, struct child *c)
{
	struct pollfd fds[2] = {{.fd = out, .events = POLLIN}, {.fd = err, .events = POLLIN}};
	const double began = clock_now(), busy = busy_seconds();
	struct rusage usage = {0};
	double since = 0;
	int sent = 0;
	bool ok = true, ended = false;

	while (drain(fds, ended ? 0 : POLL_MS, c, &ok) || !ended) {
		if (ended)
			continue;
		pid_t got = wait4(pid, &c->status, WNOHANG, &usage);
		ended = got == pid || (got < 0 && errno != EINTR);
		if (!ended)
			pass_on(pid, &since, &sent);
		if (!ended && !ok)
			kill(pid, SIGKILL);
	}
	const double wall = clock_now() - began, now = busy_seconds();
	const double others = now - busy - seconds_of(&usage.ru_utime) - seconds_of(&usage.ru_stime);
	if (busy >= 0 && now >= 0 && wall > 0 &&
			others > 0) /* ticks are coarse: a short child may seem to exceed them */
		c->others = others / wall;
	return ok;
}

bool child_run(const char *const *argv, struct child *c)
{
	int out[2] = {-1, -1}, err[2] = {-1, -1};
	pid_t pid = 0;
	bool ok;

	*c = (struct child){.err = mem_zalloc(ERR_BYTES, 1)};
	ok = c->err && take_out(c, "", 0);
	if (!ok)
		return false;
	if (pipe2(out, O_CLOEXEC) || pipe2(err, O_CLOEXEC))
		c->error = errno;
	else
		c->error = start(argv, out, err, &pid);
	if (out[1] >= 0)
		close(out[1]);
	if (err[1] >= 0)
		close(err[1]);
	if (!c->error)
		ok = follow(pid, out[0], err[0], c);
	if (out[0] >= 0)
		close(out[0]);
	if (err[0] >= 0)
		close(err[0]);
	return ok;
}

void child_release(struct child *c)
{
	mem_free(c->out);
	mem_free(c->err);
	*c = (struct child){0};
}

bool child_ok(const struct child *c)
{
	return !c->error && WIFEXITED(c->status) && WEXITSTATUS(c->status) == 0;
}

static void last_line(const char *s, char *line, size_t n_max)
{
	size_t n = strlen(s), from;

	while (n > 0 && (s[n - 1] == '\n' || s[n - 1] == '\r' || s[n - 1] == ' '))
		n--;
	for (from = n; from > 0 && s[from - 1] != '\n'; from--) {}
	snprintf(line, n_max, "%.*s", (int)(n - from), s + from);
	for (char *p = line; *p; p++)
		if ((unsigned char)*p < 32 || (unsigned char)*p > 126)
			*p = '?';
}

void child_say(const struct child *c, char *text, size_t n_max)
{
	char line[256];
	size_t n;

	if (c->error) {
		snprintf(text, n_max, "%s", strerror(c->error));
		return;
	}
	if (WIFSIGNALED(c->status))
		snprintf(text, n_max, "killed by signal %d (%s)", WTERMSIG(c->status), strsignal(WTERMSIG(c->status)));
	else
		snprintf(text, n_max, "exit code %d", WEXITSTATUS(c->status));
	last_line(c->err, line, sizeof line);
	n = strlen(text);
	if (*line)
		snprintf(text + n, n_max - n, "; its last words: %s", line);
}
