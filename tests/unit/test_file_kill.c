/* Writers of whole files that are killed, before and after each of their system calls: the path holds what it held or
 * the whole new file, and what is left beside it goes with the next write, or with a sweep; that of a writer who lives
 * stays.
 *
 * Seen red with: the write made to the path itself (every_call, no_pile); names that stand for nothing, or leftovers
 * that are not removed (every_call, no_pile); a sweep that does nothing (others_stay, no_pile); the lock not taken
 * (others_stay, crowd), or given before the rename (crowd: a write fails, its file is gone); a file that was removed
 * before it was locked taken for one's own (crowd). */
#include "place_case.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>

enum { STOPS_MAX = 200 };

static void write_text(const char *path, const char *text)
{
	struct cohort_err err;
	if (file_write_atomic(path, text, strlen(text), &err))
		fail_msg("%s", err.text);
}

static bool holds(const char *path, const char *want)
{
	uint8_t *got = NULL;
	size_t n = 0;
	const bool same = !file_load(path, SIZE_MAX, &got, &n, NULL) && n == strlen(want) && memcmp(got, want, n) == 0;

	mem_free(got);
	return same;
}

/* ---- Killed at a system call ---- */

/* A child writes `text`; it is killed at the n-th time that it enters or leaves a system call. True: it was; false: it
 * had ended before. */
static bool killed_at(const char *path, const char *text, int n, bool *traced)
{
	int status;
	const pid_t pid = fork();

	assert_true(pid >= 0);
	if (pid == 0) {
		if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) != 0)
			_exit(77);
		raise(SIGSTOP);
		_exit(file_write_atomic(path, text, strlen(text), NULL) ? 1 : 0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	*traced = WIFSTOPPED(status);
	for (int i = 0; WIFSTOPPED(status) && i < n; i++) {
		assert_int_equal(ptrace(PTRACE_SYSCALL, pid, NULL, NULL), 0);
		assert_int_equal(waitpid(pid, &status, 0), pid);
	}
	if (!WIFSTOPPED(status)) {
		assert_true(!*traced || (WIFEXITED(status) && WEXITSTATUS(status) == 0));
		return false;
	}
	kill(pid, SIGKILL);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
	return true;
}

static void every_call(void **state)
{
	static const char old[] = "old", new[] = "new, and longer";
	const struct place *p = *state;
	int before = 0, during = 0, after = 0;
	bool traced = true;

	for (int n = 1; n < STOPS_MAX; n++) {
		write_text(p->path, old);
		assert_int_equal(n_in(p->dir), 1);
		const bool killed = killed_at(p->path, new, n, &traced);
		if (!traced)
			skip(); /* not every sandbox lets one process trace another */
		const bool is_old = holds(p->path, old);
		assert_true(is_old || holds(p->path, new));
		const size_t n_left = n_in(p->dir) - 1;
		assert_true(n_left <= (killed && is_old));
		if (!killed)
			break;
		during += n_left == 1;
		before += is_old && n_left == 0;
		after += !is_old;
		/* Killed over and over: what is left does not become more. */
		if (n_left == 1) {
			assert_true(killed_at(p->path, new, n + 4, &traced) || !holds(p->path, old));
			assert_true(n_in(p->dir) <= 2);
		}
	}
	assert_true(before > 0 && during >= 8 && after > 0);
	write_text(p->path, "next");
	check_text(p->path, "next");
	assert_int_equal(n_in(p->dir), 1);
}

/* ---- Leftovers ---- */

static void make(const struct place *p, const char *name, char path[256])
{
	snprintf(path, 256, "%s/%s", p->dir, name);
	const int fd = open(path, O_WRONLY | O_CREAT | O_EXCL, 0600);
	assert_true(fd >= 0);
	close(fd);
}

/* Files of writers who live, and what only looks like a leftover. */
static void others_stay(void **state)
{
	const struct place *p = *state;
	struct file_stream *s[12];
	struct cohort_err err;
	char other[256], link[256], fifo[256], dir[256], dead[256];
	struct stat st;

	make(p, "cohort-1.tmp", other);
	make(p, ".cohort-dead.tmp", dead);
	snprintf(link, sizeof link, "%s/.cohort-link.tmp", p->dir);
	snprintf(fifo, sizeof fifo, "%s/.cohort-fifo.tmp", p->dir);
	snprintf(dir, sizeof dir, "%s/.cohort-dir.tmp", p->dir);
	assert_int_equal(symlink(other, link), 0);
	assert_int_equal(mkfifo(fifo, 0600), 0);
	assert_int_equal(mkdir(dir, 0700), 0);
	/* More than there are names for. */
	for (size_t i = 0; i < 12; i++) {
		char text[32];
		if (file_stream_open(p->path, &s[i], &err))
			fail_msg("%s", err.text);
		snprintf(text, sizeof text, "writer %zu", i);
		assert_int_equal(file_stream_write(s[i], text, strlen(text), &err), COHORT_OK);
	}
	assert_int_equal(n_in(p->dir), 5 + 12);
	file_sweep(p->dir);
	assert_int_equal(n_in(p->dir), 4 + 12);
	assert_int_not_equal(lstat(dead, &st), 0);
	file_stream_abort(s[3]);
	for (size_t i = 0; i < 12; i++) {
		char text[32];
		if (i == 3)
			continue;
		if (file_stream_commit(s[i], &err))
			fail_msg("%s", err.text);
		snprintf(text, sizeof text, "writer %zu", i);
		check_text(p->path, text);
	}
	assert_int_equal(lstat(link, &st), 0);
	unlink(link);
	unlink(fifo);
	rmdir(dir);
	unlink(other);
	assert_int_equal(n_in(p->dir), 1);
	file_sweep("/nonexistent-directory");
}

/* Killed writers leave no more files than wrote at once. */
static void no_pile(void **state)
{
	const struct place *p = *state;

	for (int i = 0; i < 20; i++) {
		const pid_t pid = fork();
		assert_true(pid >= 0);
		if (pid == 0) {
			struct file_stream *s;
			if (!file_stream_open(p->path, &s, NULL) && !file_stream_write(s, "half", 4, NULL))
				raise(SIGKILL);
			_exit(1);
		}
		int status;
		assert_int_equal(waitpid(pid, &status, 0), pid);
		assert_true(WIFSIGNALED(status));
		assert_int_equal(n_in(p->dir), 1);
	}
	file_sweep(p->dir);
	assert_int_equal(n_in(p->dir), 0);
}

/* ---- Many at once ---- */

static bool whole(const char *path)
{
	uint8_t *got = NULL;
	size_t n = 0;
	bool same = !file_load(path, SIZE_MAX, &got, &n, NULL) && n > 0 && n % 1000 == 0;

	for (size_t i = 0; same && i < n; i++)
		same = got[i] == got[0] && (size_t)(got[0] - 'a' + 1) * 1000 == n;
	mem_free(got);
	return same;
}

static double now_s(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Writers of one file and one who sweeps, all at once: no write fails, and the file is whole whenever it is looked at.
 */
static void crowd(void **state)
{
	enum { WRITERS = 4, LOOKS_MIN = 11 };
	const struct place *p = *state;
	pid_t pids[WRITERS + 1];
	const double begun = now_s();
	atomic_bool *end = mmap(NULL, sizeof *end, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	assert_true(end != MAP_FAILED);

	for (int k = 0; k <= WRITERS; k++) {
		pids[k] = fork();
		assert_true(pids[k] >= 0);
		if (pids[k] > 0)
			continue;
		struct cohort_err err;
		char text[4000];
		memset(text, 'a' + k, sizeof text);
		while (!*end)
			if (k == WRITERS)
				file_sweep(p->dir);
			else if (file_write_atomic(p->path, text, 1000 * ((size_t)k + 1), &err)) {
				fprintf(stderr, "%s\n", err.text);
				_exit(1);
			}
		_exit(0);
	}
	struct stat st;
	while (stat(p->path, &st) != 0 && now_s() < begun + 60.0)
		usleep(100);
	bool good = true;
	for (int n_looks = 0; good && (n_looks < LOOKS_MIN || now_s() < begun + 1.0); n_looks++)
		good = whole(p->path);
	*end = true;
	for (int k = 0; k <= WRITERS; k++) {
		int status;
		assert_int_equal(waitpid(pids[k], &status, 0), pids[k]);
		assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	}
	assert_true(good);
	assert_true(whole(p->path));
	assert_int_equal(n_in(p->dir), 1);
	munmap(end, sizeof *end);
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

static int fd_first;

static int count_leftover_files(void **state)
{
	(void)state;
	fd_first = next_fd();
	return 0;
}

/* Seen red with a leftover that stays open. */
static void leftovers_are_closed(void **state)
{
	(void)state;
	assert_int_equal(next_fd(), fd_first);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
			CASE(every_call),
			CASE(others_stay),
			CASE(no_pile),
			CASE(crowd),
			CASE(leftovers_are_closed),
	};
	return cmocka_run_group_tests_name("file_kill", tests, count_leftover_files, NULL);
}
