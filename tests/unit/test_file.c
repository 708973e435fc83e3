/* Whole files: a path holds what it held or the whole new file, whatever fails, and nothing is left beside it.
 *
 * Shown red by leaving out the unlink after a failed write (atomic_write_fails_at_every_call, limit) or rename
 * (atomic_write_fails_at_every_call), by writing to the path itself (atomic_write_fails_at_every_call, limit), by
 * leaving out the loop around write (one_byte, limit), by opening without O_NONBLOCK (load_refuses hangs on the FIFO),
 * and by replacing whatever is there (bad_places, its FIFO). */
#include "place_case.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"

/* The system calls of a write that succeeds: open, write, fsync, dup, close, open of the directory, rename, fsync of
 * the directory; and of a read: open, fstat, read. */
enum { OPEN, WRITE, SYNC, DUP, CLOSE, OPEN_DIR, RENAME, SYNC_DIR, N_WRITE_CALLS, N_READ_CALLS = 3 };

static enum cohort_status write_text(const char *path, const char *text, struct cohort_err *err)
{
	return file_write_atomic(path, text, strlen(text), err);
}

static void write_and_replace(void **state)
{
	const struct place *p = *state;
	const mode_t old = umask(027);
	struct stat st;

	assert_int_equal(write_text(p->path, "first", NULL), COHORT_OK);
	umask(old);
	assert_int_equal(stat(p->path, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0640);
	check_text(p->path, "first");
	assert_int_equal(write_text(p->path, "2", NULL), COHORT_OK);
	check_text(p->path, "2");
	assert_int_equal(write_text(p->path, "", NULL), COHORT_OK);
	check_text(p->path, "");
	assert_int_equal(n_in(p->dir), 1);
}

/* A name without a directory is in the current one. */
static void bare_name(void **state)
{
	const struct place *p = *state;
	char old[4096];

	assert_non_null(getcwd(old, sizeof old));
	assert_int_equal(chdir(p->dir), 0);
	assert_int_equal(write_text("a.file", "here", NULL), COHORT_OK);
	check_text("a.file", "here");
	assert_int_equal(chdir(old), 0);
	check_text(p->path, "here");
}

static void large(void **state)
{
	const struct place *p = *state;
	const size_t n = 3 << 20;
	uint8_t *want = malloc(n), *got;
	size_t n_got;

	assert_non_null(want);
	for (size_t i = 0; i < n; i++)
		want[i] = (uint8_t)(i * 31 >> 3);
	assert_int_equal(file_write_atomic(p->path, want, n, NULL), COHORT_OK);
	assert_int_equal(file_load(p->path, n - 5, &got, &n_got, NULL), COHORT_OK);
	assert_int_equal(n_got, n - 5);
	assert_memory_equal(got, want, n_got);
	mem_free(got);
	free(want);
}

/* Each system call fails in turn, with an old file and without one. */
static void atomic_write_fails_at_every_call(void **state)
{
	static const int errors[] = {ENOSPC, EIO, EDQUOT, EACCES};
	const struct place *p = *state;
	const size_t n_fd = n_in("/proc/self/fd");

	for (size_t k = 0; k < 2 * sizeof errors / sizeof *errors; k++) {
		const int error = errors[k / 2];
		const bool fresh = k % 2;
		for (int at = 0; at < N_WRITE_CALLS; at++) {
			struct cohort_err err;
			unlink(p->path);
			if (!fresh)
				assert_int_equal(write_text(p->path, "old", NULL), COHORT_OK);
			file_fail_after(at, error);
			assert_int_equal(write_text(p->path, "new and longer", &err), COHORT_E_IO);
			file_fail_after(-1, 0);
			assert_int_equal(err.status, COHORT_E_IO);
			assert_non_null(strstr(err.text, p->path));
			assert_non_null(strstr(err.text, strerror(error)));
			if (at == SYNC_DIR)
				check_text(p->path, "new and longer");
			else if (!fresh)
				check_text(p->path, "old");
			assert_int_equal(n_in(p->dir), at == SYNC_DIR || !fresh);
			assert_int_equal(n_in("/proc/self/fd"), n_fd);
		}
		file_fail_after(N_WRITE_CALLS, error);
		assert_int_equal(write_text(p->path, "new", NULL), COHORT_OK);
		file_fail_after(-1, 0);
	}
}

/* Not every file system can sync a directory. */
static void directory_without_sync(void **state)
{
	const struct place *p = *state;
	file_fail_after(SYNC_DIR, EINVAL);
	assert_int_equal(write_text(p->path, "new", NULL), COHORT_OK);
	check_text(p->path, "new");
}

/* Signals and short writes change nothing. rename is never interrupted. */
static void interrupted(void **state)
{
	const struct place *p = *state;
	uint8_t *got;
	size_t n;

	for (int at = 0; at < N_WRITE_CALLS; at++)
		if (at != RENAME) {
			char text[32];
			snprintf(text, sizeof text, "interrupted at %d", at);
			file_fail_after(at, EINTR);
			assert_int_equal(write_text(p->path, text, NULL), COHORT_OK);
			check_text(p->path, text);
		}
	for (int at = 0; at < N_READ_CALLS; at++)
		if (at != 1) {
			file_fail_after(at, EINTR);
			assert_int_equal(file_load(p->path, SIZE_MAX, &got, &n, NULL), COHORT_OK);
			assert_int_equal(n, strlen("interrupted at 7"));
			mem_free(got);
		}
}

static void one_byte(void **state)
{
	const struct place *p = *state;
	for (int at = 0; at < N_WRITE_CALLS; at++) {
		file_fail_after(at, 0);
		assert_int_equal(write_text(p->path, "bit by bit", NULL), COHORT_OK);
		file_fail_after(at, 0);
		check_text(p->path, "bit by bit");
	}
}

/* A write that fails in earnest, half way. */
static void limit(void **state)
{
	const struct place *p = *state;
	const size_t n = 100000;
	char *big = calloc(1, n);
	struct rlimit old, low;
	struct cohort_err err;

	assert_non_null(big);
	assert_int_equal(write_text(p->path, "old", NULL), COHORT_OK);
	void (*handler)(int) = signal(SIGXFSZ, SIG_IGN);
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
	low = old;
	low.rlim_cur = 5000;
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &low), 0);
	const enum cohort_status st = file_write_atomic(p->path, big, n, &err);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
	signal(SIGXFSZ, handler);
	assert_int_equal(st, COHORT_E_IO);
	assert_non_null(strstr(err.text, strerror(EFBIG)));
	check_text(p->path, "old");
	assert_int_equal(n_in(p->dir), 1);
	free(big);
}

static void bad_places(void **state)
{
	const struct place *p = *state;
	struct cohort_err err;
	char path[512];

	assert_int_equal(write_text("/nonexistent-directory/a", "x", &err), COHORT_E_IO);
	assert_non_null(strstr(err.text, strerror(ENOENT)));
	assert_int_equal(write_text("/proc/a.state", "x", &err), COHORT_E_IO);
	assert_int_equal(write_text(p->dir, "x", &err), COHORT_E_IO);
	assert_non_null(strstr(err.text, strerror(EISDIR)));
	assert_int_equal(write_text("", "x", &err), COHORT_E_IO);
	assert_int_equal(mkfifo(p->path, 0600), 0);
	assert_int_equal(write_text(p->path, "x", &err), COHORT_E_IO);
	assert_non_null(strstr(err.text, "not a regular file"));
	assert_int_equal(unlink(p->path), 0);
	assert_false(file_same(p->path, p->path));

	assert_int_equal(write_text(p->path, "old", NULL), COHORT_OK);
	snprintf(path, sizeof path, "%s/../%s", p->dir, strrchr(p->dir, '/') + 1);
	assert_true(file_same(path, p->dir));
	assert_false(file_same(p->path, p->dir));
	snprintf(path, sizeof path, "%s/below", p->path);
	assert_int_equal(write_text(path, "x", &err), COHORT_E_IO);
	assert_non_null(strstr(err.text, strerror(ENOTDIR)));
	snprintf(path, sizeof path, "%s/%0255d", p->dir, 0); /* as long as a name can be */
	assert_int_equal(write_text(path, "x", &err), COHORT_OK);
	assert_int_equal(unlink(path), 0);
	snprintf(path, sizeof path, "%s/%0256d", p->dir, 0);
	assert_int_equal(write_text(path, "x", &err), COHORT_E_IO);
	assert_non_null(strstr(err.text, strerror(ENAMETOOLONG)));

	assert_int_equal(chmod(p->dir, 0555), 0);
	const enum cohort_status st = write_text(p->path, "new", &err);
	assert_int_equal(chmod(p->dir, 0755), 0);
	if (geteuid() != 0) { /* nothing is unwritable for root */
		assert_int_equal(st, COHORT_E_IO);
		check_text(p->path, "old");
	}
	assert_int_equal(n_in(p->dir), 1);
}

static void no_memory(void **state)
{
	const struct place *p = *state;
	struct cohort_err err;
	uint8_t *got = NULL;
	size_t n;

	assert_int_equal(write_text(p->path, "old", NULL), COHORT_OK);
	mem_fail_after(0);
	assert_int_equal(write_text(p->path, "new", &err), COHORT_E_MEMORY);
	assert_non_null(strstr(err.text, p->path));
	check_text(p->path, "old");
	mem_fail_after(0);
	assert_int_equal(file_load(p->path, SIZE_MAX, &got, &n, &err), COHORT_E_MEMORY);
	mem_fail_after(-1);
	assert_null(got);
}

static void load_refuses(void **state)
{
	const struct place *p = *state;
	const size_t n_fd = n_in("/proc/self/fd");
	struct cohort_err err;
	uint8_t *got = NULL;
	size_t n = 77;

	assert_int_equal(file_load(p->path, SIZE_MAX, &got, &n, &err), COHORT_E_IO);
	assert_non_null(strstr(err.text, strerror(ENOENT)));
	assert_non_null(strstr(err.text, p->path));
	assert_int_equal(file_load("-", SIZE_MAX, &got, &n, &err), COHORT_E_IO);
	assert_int_equal(file_load(p->dir, SIZE_MAX, &got, &n, &err), COHORT_E_IO);
	assert_non_null(strstr(err.text, "is a directory"));
	assert_int_equal(file_load("/dev/null", SIZE_MAX, &got, &n, &err), COHORT_E_IO);
	assert_non_null(strstr(err.text, "not a regular file"));
	assert_int_equal(mkfifo(p->path, 0600), 0);
	assert_int_equal(file_load(p->path, SIZE_MAX, &got, &n, &err), COHORT_E_IO);
	unlink(p->path);
	assert_int_equal(write_text(p->path, "text", NULL), COHORT_OK);
	for (int at = 0; at < N_READ_CALLS; at++) {
		file_fail_after(at, EIO);
		assert_int_equal(file_load(p->path, SIZE_MAX, &got, &n, &err), COHORT_E_IO);
		assert_non_null(strstr(err.text, strerror(EIO)));
		assert_int_equal(n_in("/proc/self/fd"), n_fd);
	}
	assert_null(got);
	assert_int_equal(n, 77);
}

static int fd_first;

static int begin_with_files(void **state)
{
	(void)state;
	fd_first = next_fd();
	return 0;
}

/* By everything that opens one, whether it fails or not. Seen red with files of temp_make that stay open. */
static void whole_files_are_closed(void **state)
{
	(void)state;
	assert_int_equal(next_fd(), fd_first);
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(write_and_replace),
		CASE(bare_name),
		CASE(large),
		CASE(atomic_write_fails_at_every_call),
		CASE(directory_without_sync),
		CASE(interrupted),
		CASE(one_byte),
		CASE(limit),
		CASE(bad_places),
		CASE(no_memory),
		CASE(load_refuses),
		CASE(whole_files_are_closed),
	};
	return cmocka_run_group_tests_name("file", tests, begin_with_files, NULL);
}
