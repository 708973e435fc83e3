/* The base room: errors, memory, files, and the sharing out of work. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <pthread.h>
#include <signal.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/file.h"
#include "base/hwcap.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/pool.h"
#include "base/sum.h"
#include "sanitized.h"
#include "state_case.h"
#include "temp.h"

/* ---- Errors ---- */

static void err_fields(void **state)
{
	struct cohort_err e;
	static const char rule[] = "a-rule";
	(void)state;

	memset(&e, 0x5a, sizeof e);
	assert_int_equal(err_set(&e, COHORT_E_ARG, "n is %d", 7), COHORT_E_ARG);
	assert_int_equal(e.status, COHORT_E_ARG);
	assert_string_equal(e.text, "n is 7");
	assert_null(e.rule);
	assert_int_equal(e.row, -1);
	assert_int_equal(e.seq, -1);
	assert_int_equal(e.offset, -1);
	assert_int_equal(e.expected, 0);
	assert_int_equal(e.got, 0);

	memset(&e, 0x5a, sizeof e);
	assert_int_equal(err_at(&e, COHORT_E_FORMAT, 1234, "bad %s", "thing"), COHORT_E_FORMAT);
	assert_string_equal(e.text, "bad thing (at byte 1234)");
	assert_int_equal(e.offset, 1234);
	assert_null(e.rule);
	assert_int_equal(e.row, -1);
	err_at(&e, COHORT_E_FORMAT, UINT64_MAX, "far");
	assert_string_equal(e.text, "far (at byte 18446744073709551615)");
	assert_true(e.offset == INT64_MAX);

	assert_int_equal(err_rule(&e, COHORT_E_BATCH, rule, 3, 4, 5, -6, "row %d", 3), COHORT_E_BATCH);
	assert_ptr_equal(e.rule, rule);
	assert_int_equal(e.row, 3);
	assert_int_equal(e.seq, 4);
	assert_int_equal(e.expected, 5);
	assert_int_equal(e.got, -6);
	assert_int_equal(e.offset, -1);

	assert_int_equal(err_set(NULL, COHORT_E_IO, "x"), COHORT_E_IO);
	assert_int_equal(err_at(NULL, COHORT_E_FORMAT, 1, "x"), COHORT_E_FORMAT);
	assert_int_equal(err_rule(NULL, COHORT_NO_ROOM, rule, 1, 2, 3, 4, "x"), COHORT_NO_ROOM);
	err_prefix(NULL, "x");
}

static void err_long(void **state)
{
	struct cohort_err e;
	char text[1000];
	(void)state;

	memset(text, 'x', sizeof text - 1);
	text[sizeof text - 1] = '\0';
	err_set(&e, COHORT_E_ARG, "%s", text);
	assert_int_equal(strlen(e.text), sizeof e.text - 1);
	err_at(&e, COHORT_E_ARG, 5, "%s", text);
	assert_int_equal(strlen(e.text), sizeof e.text - 1);
	assert_int_equal(e.offset, 5);
	err_rule(&e, COHORT_E_ARG, "r", 1, 2, 3, 4, "%s", text);
	assert_int_equal(strlen(e.text), sizeof e.text - 1);
	assert_int_equal(e.got, 4);
}

/* A prefix before a text gives "prefix: text"; when both do not fit, the end of a long prefix, so that the text (the
 * reason, behind a path) is kept as far as it goes. */
static void err_prefixes(void **state)
{
	static const size_t lengths[] = {0, 1, 2, 100, 190, 191, 192, 379, 380, 381, 382, 383, 384, 500};
	(void)state;

	for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++)
		for (size_t k = 0; k < sizeof lengths / sizeof *lengths; k++) {
			struct cohort_err e;
			char a[501] = "", b[501] = "", old[sizeof e.text], want[1100];
			memset(a, 'a', lengths[i]);
			memset(b, 'b', lengths[k]);
			err_rule(&e, COHORT_E_BATCH, "r", 1, 2, 3, 4, "%s", b);
			memcpy(old, e.text, sizeof old);
			err_prefix(&e, "%s", a);
			bool cut = strlen(a) + 2 + strlen(old) >= sizeof e.text && strlen(a) > 160;
			snprintf(want, sizeof want, "%s%.*s: %s", cut ? "..." : "", cut ? 160 : 500, a, old);
			want[sizeof e.text - 1] = '\0';
			assert_string_equal(e.text, want);
			assert_int_equal(e.status, COHORT_E_BATCH);
			assert_string_equal(e.rule, "r");
			assert_int_equal(e.row + e.seq + e.expected + e.got, 10);
		}
}

static void err_names(void **state)
{
	(void)state;
	for (int a = COHORT_E_BUG; a <= COHORT_ABORTED; a++) {
		const char *name = cohort_status_name((enum cohort_status)a);
		assert_true(strlen(name) > 0);
		assert_string_not_equal(name, "unknown status");
		for (int b = COHORT_E_BUG; b < a; b++)
			assert_string_not_equal(name, cohort_status_name((enum cohort_status)b));
	}
	assert_string_equal(cohort_status_name(COHORT_NO_ROOM), "no room");
	assert_string_equal(cohort_status_name((enum cohort_status)77), "unknown status");
	assert_string_equal(cohort_version(), "0.1.0");
}

/* ---- Memory ---- */

static void mem_sizes(void **state)
{
	size_t out = 77;
	void *p, *q;
	char *s;
	(void)state;

	assert_false(size_mul(SIZE_MAX, 2, &out));
	assert_false(size_mul((size_t)1 << 32, (size_t)1 << 32, &out));
	assert_false(size_add(SIZE_MAX, 1, &out));
	assert_int_equal(out, 77);
	assert_true(size_mul(SIZE_MAX, 1, &out));
	assert_true(out == SIZE_MAX);
	assert_true(size_add(SIZE_MAX - 1, 1, &out));
	assert_true(out == SIZE_MAX);
	assert_true(size_mul(0, SIZE_MAX, &out));
	assert_int_equal(out, 0);

	assert_null(mem_alloc(SIZE_MAX, 2));
	assert_null(mem_zalloc(SIZE_MAX / 2 + 1, 2));
	assert_null(mem_strndup("x", SIZE_MAX));
	assert_null(mem_zalloc_aligned(SIZE_MAX / 8, 16));
	assert_null(mem_zalloc_aligned(SIZE_MAX - 10, 1)); /* the room for aligning wraps */
	/* A size of zero is a pointer all the same. */
	p = mem_alloc(0, 8);
	q = mem_zalloc(8, 0);
	assert_non_null(p);
	assert_non_null(q);
	assert_null(mem_realloc(p, SIZE_MAX, 4));
	mem_free(p); /* still there after the refusal */
	mem_free(q);
	mem_free(NULL);
	p = mem_dup("abc", 3);
	assert_memory_equal(p, "abc", 3);
	mem_free(p);
	p = mem_dup(NULL, 0);
	assert_non_null(p);
	mem_free(p);
	s = mem_strndup("abcdef", 3);
	assert_string_equal(s, "abc");
	mem_free(s);
	s = mem_strndup(NULL, 0);
	assert_string_equal(s, "");
	mem_free(s);
}

static void mem_aligned(void **state)
{
	(void)state;
	for (size_t n = 0; n < 300; n++) {
		char *p = mem_zalloc_aligned(n, 3);
		assert_non_null(p);
		assert_int_equal((uintptr_t)p % 64, 0);
		for (size_t i = 0; i < 3 * n; i++)
			assert_int_equal(p[i], 0);
		memset(p, 0x5a, 3 * n);
		mem_free_aligned(p);
	}
	mem_free_aligned(NULL);
	/* What is as large as a large page begins where one may lie. Seen red with the two turned round. */
	for (size_t n = ((size_t)2 << 20) - 1; n <= ((size_t)2 << 20) + 1; n++) {
		char *p = mem_zalloc_large(n);
		assert_non_null(p);
		assert_int_equal((uintptr_t)p % (n < (size_t)2 << 20 ? 64 : (size_t)2 << 20), 0);
		assert_true(p[0] == 0 && p[n - 1] == 0);
		mem_free_aligned(p);
	}
}

/* Whether the byte can be read: the system looks, and this process need not. */
static bool can_read(const void *p)
{
	int fd[2];

	assert_int_equal(pipe(fd), 0);
	const bool can = write(fd[1], p, 1) == 1;
	close(fd[0]);
	close(fd[1]);
	return can;
}

/* The byte behind the last element faults. Seen red with the guard a page too late. */
static void mem_guarded(void **state)
{
	static const size_t sizes[] = {1, 16, 24, 4096, 4097};
	(void)state;

	for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
		for (size_t n = 0; n < 600; n += n < 4 ? 1 : 119) {
			char *p = mem_zalloc_guarded(n, sizes[i]);
			const size_t bytes = n * sizes[i];
			assert_non_null(p);
			for (size_t k = 0; k < bytes; k++)
				assert_int_equal(p[k], 0);
			memset(p, 0x5a, bytes);
			assert_true(bytes == 0 || can_read(p + bytes - 1));
			assert_false(can_read(p + bytes));
			mem_free_guarded(p, n, sizes[i]);
			assert_false(bytes > 0 && can_read(p));
		}
	mem_free_guarded(NULL, 7, 7);
	assert_null(mem_zalloc_guarded(SIZE_MAX / 2, 3));
	assert_null(mem_zalloc_guarded(SIZE_MAX, 1));
	mem_fail_after(0);
	assert_null(mem_zalloc_guarded(1, 1));
	mem_fail_after(-1);
}

static void mem_growing(void **state)
{
	int *p = NULL;
	size_t n_max = 0;
	uint64_t before = mem_count();
	(void)state;

	assert_true(mem_grow((void **)&p, &n_max, 0, sizeof *p));
	assert_null(p);
	for (int i = 0; i < 100000; i++) {
		assert_true(mem_grow((void **)&p, &n_max, (size_t)i + 1, sizeof *p));
		assert_true(n_max > (size_t)i);
		p[i] = i;
	}
	assert_true(mem_count() - before < 20); /* doubling */
	for (int i = 0; i < 100000; i++)
		assert_int_equal(p[i], i);
	/* A refusal leaves everything as it was. */
	int *old = p;
	size_t old_max = n_max;
	assert_false(mem_grow((void **)&p, &n_max, SIZE_MAX, sizeof *p));
	assert_false(mem_grow((void **)&p, &n_max, SIZE_MAX / 2, sizeof *p));
	mem_fail_after(0);
	assert_false(mem_grow((void **)&p, &n_max, n_max + 1, sizeof *p));
	mem_fail_after(-1);
	assert_ptr_equal(p, old);
	assert_int_equal(n_max, old_max);
	assert_int_equal(p[99999], 99999);
	mem_free(p);
}

static void mem_failing(void **state)
{
	uint64_t before = mem_count();
	void *p[6];
	(void)state;

	for (int64_t at = 0; at < 6; at++) {
		mem_fail_after(at);
		for (int i = 0; i < 6; i++) {
			p[i] = i % 2 ? mem_alloc(1, 1) : mem_zalloc(1, 1);
			assert_int_equal(p[i] == NULL, i == at); /* that one, once */
		}
		for (int i = 0; i < 6; i++)
			mem_free(p[i]);
	}
	mem_fail_after(-1);
	assert_int_equal(mem_count() - before, 36);
	p[0] = mem_alloc(8, 1);
	mem_fail_all(true);
	for (int i = 0; i < 5; i++) {
		assert_null(mem_alloc(1, 1));
		assert_null(mem_zalloc(1, 1));
		assert_null(mem_realloc(p[0], 100, 1));
		assert_null(mem_dup("a", 1));
		assert_null(mem_strndup("a", 1));
		assert_null(mem_zalloc_aligned(1, 1));
	}
	mem_fail_all(false);
	mem_free(p[0]);
	p[0] = mem_alloc(1, 1);
	assert_non_null(p[0]);
	mem_free(p[0]);
}

/* Bytes of this process that are in memory; 0: not known. */
static size_t resident(void)
{
	FILE *f = fopen("/proc/self/statm", "re");
	size_t pages = 0;

	if (f) {
		if (fscanf(f, "%*u %zu", &pages) != 1)
			pages = 0;
		fclose(f);
	}
	return pages * (size_t)sysconf(_SC_PAGESIZE);
}

/* Many small things below one that stays: freed, they are holes that only mem_trim gives back. Seen red with a mem_trim
 * that does nothing. */
static void mem_trimming(void **state)
{
	enum { N = 200000, SIZE = 100, STAYS = N - 1 };
	static char *p[N];
	(void)state;

#ifndef __GLIBC__
	skip();
#endif
	if (SANITIZED || getenv("LD_PRELOAD") || !resident())
		skip(); /* another allocator, or nobody who says what is in memory */
	const size_t before = resident();
	for (size_t i = 0; i < N; i++) {
		p[i] = mem_alloc(SIZE, 1);
		assert_non_null(p[i]);
		memset(p[i], 1, SIZE);
	}
	const size_t full = resident();
	assert_true(full - before >= (size_t)N * SIZE);
	for (size_t i = 0; i < STAYS; i++)
		mem_free(p[i]);
	mem_trim();
	const size_t after = resident();
	print_message("%zu KiB, then %zu, then %zu\n", before >> 10, full >> 10, after >> 10);
	assert_true(after < before + (full - before) / 8);
	assert_int_equal(p[STAYS][SIZE - 1], 1);
	mem_free(p[STAYS]);
}

/* ---- Files ---- */

static void temp_file(char path[TEMP_MAX], const void *data, size_t n)
{
	int fd = mkstemp(temp_name(path, "base"));
	assert_true(fd >= 0);
	assert_int_equal(write(fd, data, n), (ssize_t)n);
	close(fd);
}

static char *sample(size_t n)
{
	char *s = malloc(n);
	assert_non_null(s);
	for (size_t i = 0; i < n; i++)
		s[i] = (char)(i * 31 >> 3);
	return s;
}

static void map_open_and_its_errors(void **state)
{
	enum { N = 100001 };
	struct cohort_err err;
	struct map m = {0};
	char path[TEMP_MAX], *data = sample(N);
	(void)state;

	assert_int_equal(map_open(&m, "/nonexistent/file", &err), COHORT_E_IO);
	assert_string_equal(err.text, "/nonexistent/file: No such file or directory");
	assert_int_equal(map_open(&m, "/tmp", &err), COHORT_E_IO);
	assert_string_equal(err.text, "/tmp: is a directory");
	assert_int_equal(map_open(&m, "/dev/null", &err), COHORT_E_IO);
	assert_string_equal(err.text, "/dev/null: not a regular file");
	temp_file(path, "", 0);
	unlink(path);
	assert_int_equal(mkfifo(path, 0600), 0); /* without a writer: a plain open would wait for one */
	assert_int_equal(map_open(&m, path, &err), COHORT_E_IO);
	unlink(path);

	temp_file(path, "", 0);
	assert_int_equal(map_open(&m, path, &err), COHORT_OK);
	assert_null(m.data);
	assert_int_equal(m.n_bytes, 0);
	map_release(&m);
	unlink(path);

	temp_file(path, data, N);
	assert_int_equal(map_open(&m, path, &err), COHORT_OK);
	unlink(path);
	assert_int_equal(m.n_bytes, N);
	assert_memory_equal(m.data, data, N);
	map_drop(&m, 1, N - 1);
	map_drop(&m, 0, N);
	map_drop(&m, 5000, 1);
	assert_memory_equal(m.data, data, N);
	map_release(&m);
	assert_null(m.data);
	map_release(&m);
	map_release(NULL);
	free(data);
}

/* Copies: as maps, but independent of the file. Shown red by a map_drop that heeds no copy, by a map_forget that does
 * nothing, and by a file whose end comes early taken for a whole one. */
static void map_read_copies_files(void **state)
{
	enum { N = 3000001 }; /* in large pages, too */
	static const char short_file[] = "/sys/kernel/mm/transparent_hugepage/enabled"; /* "4096 bytes" of one line */
	struct cohort_err err;
	struct map m = {0};
	char path[TEMP_MAX], *data = sample(N);
	(void)state;

	assert_int_equal(map_read(&m, "/nonexistent/file", NULL, NULL, &err), COHORT_E_IO);
	assert_string_equal(err.text, "/nonexistent/file: No such file or directory");
	assert_int_equal(map_read(&m, "/tmp", NULL, NULL, &err), COHORT_E_IO);
	assert_string_equal(err.text, "/tmp: is a directory");
	assert_int_equal(map_read(&m, "/dev/null", NULL, NULL, &err), COHORT_E_IO);
	assert_string_equal(err.text, "/dev/null: not a regular file");
	if (access(short_file, R_OK) == 0) {
		assert_int_equal(map_read(&m, short_file, NULL, NULL, &err), COHORT_E_IO);
		assert_non_null(strstr(err.text, "it was cut while being read"));
		assert_memory_equal(err.text, short_file, strlen(short_file));
	}
	assert_null(m.data);

	temp_file(path, "", 0);
	assert_int_equal(map_read(&m, path, NULL, NULL, &err), COHORT_OK);
	assert_int_equal(m.n_bytes, 0);
	map_release(&m);
	unlink(path);

	temp_file(path, data, N);
	for (int64_t i = 0; i < 3; i++) { /* open, fstat, read */
		file_fail_after(i, EIO);
		assert_int_equal(map_read(&m, path, NULL, NULL, &err), COHORT_E_IO);
		assert_non_null(strstr(err.text, strerror(EIO)));
	}
	mem_fail_after(0);
	assert_int_equal(map_read(&m, path, NULL, NULL, &err), COHORT_E_MEMORY);
	mem_fail_after(-1);
	assert_null(m.data);
	file_fail_after(2, 0); /* the first read gives one byte */
	assert_int_equal(map_read(&m, path, NULL, NULL, &err), COHORT_OK);
	file_fail_after(-1, 0);
	assert_int_equal(truncate(path, 0), 0);
	unlink(path);
	assert_true(m.copied);
	assert_int_equal(m.n_bytes, N);
	map_drop(&m, 0, N);
	assert_memory_equal(m.data, data, N);
	map_forget(&m, 100000, 100000); /* the pages in it, not its neighbours */
	assert_memory_equal(m.data, data, 100000);
	assert_memory_equal(m.data + 200000, data + 200000, N - 200000);
	assert_int_equal(m.data[150000], 0);
	map_forget(&m, N - 5, SIZE_MAX); /* out of bounds: nothing */
	map_forget(&m, 0, N + 1);
	assert_memory_equal(m.data + 200000, data + 200000, N - 200000);
	map_release(&m);
	assert_null(m.data);
	map_release(&m);
	free(data);
}

static void map_lock_and_its_limit(void **state)
{
	(void)state;
	assert_int_equal(map_lock(NULL, 0), 0);
	map_unlock(NULL, 0);
	map_lock_fail(EPERM);
	assert_int_equal(map_lock(state, 1), EPERM);
	map_lock_fail(0);
	struct rlimit old;
	assert_int_equal(getrlimit(RLIMIT_MEMLOCK, &old), 0);
	assert_int_equal(map_lock_limit(), old.rlim_cur == RLIM_INFINITY ? UINT64_MAX : (uint64_t)old.rlim_cur);
	assert_int_equal(setrlimit(RLIMIT_MEMLOCK, &(struct rlimit){0, old.rlim_max}), 0);
	assert_int_equal(map_lock_limit(), 0);
	assert_int_equal(setrlimit(RLIMIT_MEMLOCK, &old), 0);
}

static void file_reads(void **state)
{
	enum { N = 100001 };
	struct cohort_err err;
	char path[TEMP_MAX], *data = sample(N), *out = NULL;
	size_t n = 77;
	enum cohort_status st;
	(void)state;

	assert_int_equal(file_read("/nonexistent/file", 100, &out, &n, &err), COHORT_E_IO);
	assert_string_equal(err.text, "/nonexistent/file: No such file or directory");
	assert_int_equal(file_read("/tmp", 100, &out, &n, &err), COHORT_E_IO);
	assert_memory_equal(err.text, "/tmp: ", 6);
	temp_file(path, data, N);
	assert_int_equal(file_read(path, N - 1, &out, &n, &err), COHORT_E_LIMIT);
	assert_non_null(strstr(err.text, "larger than 100000 bytes"));
	assert_int_equal(file_read(path, 0, &out, &n, &err), COHORT_E_LIMIT);
	for (int64_t i = 0;; i++) {
		const uint64_t before = mem_count();
		mem_fail_after(i);
		st = file_read(path, N, &out, &n, &err);
		mem_fail_after(-1);
		assert_true(st || mem_count() - before <= (uint64_t)i);
		if (!st)
			break;
		assert_int_equal(st, COHORT_E_MEMORY);
		assert_null(out);
		assert_int_equal(n, 77);
	}
	assert_int_equal(n, N);
	assert_memory_equal(out, data, N);
	assert_int_equal(out[N], '\0');
	mem_free(out);
	unlink(path);
	free(data);

	temp_file(path, "", 0);
	assert_int_equal(file_read(path, 0, &out, &n, &err), COHORT_OK);
	assert_int_equal(n, 0);
	assert_string_equal(out, "");
	mem_free(out);
	unlink(path);
}

struct pipe_end {
	pthread_t reader;
	int fd;
};

static void on_signal(int number)
{
	(void)number;
}

static void *write_late(void *arg)
{
	const struct pipe_end *p = arg;

	for (int i = 0; i < 10; i++) {
		usleep(1000);
		pthread_kill(p->reader, SIGUSR1);
	}
	assert_int_equal(write(p->fd, "late", 4), 4);
	close(p->fd);
	return NULL;
}

/* Signals that the application handles. Seen red with an interrupted read taken for a failed one. */
static void interrupted_reads(void **state)
{
	const struct sigaction with = {.sa_handler = on_signal}; /* calls are not begun again */
	struct sigaction old;
	struct cohort_err err;
	struct pipe_end p = {.reader = pthread_self()};
	pthread_t writer;
	char path[64], *out = NULL;
	size_t n = 0;
	int ends[2];
	(void)state;

	assert_int_equal(sigaction(SIGUSR1, &with, &old), 0);
	assert_int_equal(pipe(ends), 0);
	p.fd = ends[1];
	snprintf(path, sizeof path, "/dev/fd/%d", ends[0]);
	assert_int_equal(pthread_create(&writer, NULL, write_late, &p), 0);
	const enum cohort_status st = file_read(path, 100, &out, &n, &err);
	pthread_join(writer, NULL);
	close(ends[0]);
	sigaction(SIGUSR1, &old, NULL);
	if (st)
		fail_msg("%s", err.text);
	assert_string_equal(out, "late");
	mem_free(out);
}

/* ---- Shares ---- */

static void pool_shares_cover_all_items(void **state)
{
	static const size_t items[] = {0, 1, 2, 3, 7, 8, 31, 32, 33, 100, 1000, 32000, 32001};
	static const size_t units[] = {1, 2, 3, 8, 16, 64, 5000};
	(void)state;

	for (size_t a = 0; a < sizeof items / sizeof *items; a++)
		for (size_t u = 0; u < sizeof units / sizeof *units; u++)
			for (size_t n = 1; n < 20; n++) {
				size_t end = 0, least = SIZE_MAX, most = 0;
				for (size_t i = 0; i < n; i++) {
					size_t from, to, n_units;
					pool_share(items[a], units[u], i, n, &from, &to);
					assert_int_equal(from, end);
					assert_true(to >= from);
					assert_true(from % units[u] == 0 || from == items[a]);
					end = to;
					n_units = (to - from + units[u] - 1) / units[u];
					least = n_units < least ? n_units : least;
					most = n_units > most ? n_units : most;
				}
				assert_int_equal(end, items[a]);
				assert_true(most - least <= 1); /* as even as units allow */
			}
}

/* XXH64's published values; then every bit and the length count, at all lengths around its blocks. Shown red by a wrong
 * rotation (values) and by a tail that is left out (bits). */
static void large_sums(void **state)
{
	const char *text = "Nobody inspects the spammish repetition";
	uint8_t bytes[100];
	(void)state;

	assert_true(sum_large(0, "", 0) == 0xef46db3751d8e999u);
	assert_true(sum_large(0, "a", 1) == 0xd24ec4f1a98c6e5bu);
	assert_true(sum_large(0, "abc", 3) == 0x44bc2cf5ad770999u);
	assert_true(sum_large(0, text, strlen(text)) == 0xfbcea83c8a378bf1u);
	assert_true(sum_large(20141025, "xxhash", 6) == 0xb559b98d844e0635u);
	for (size_t n = 0; n < sizeof bytes; n++) {
		memset(bytes, 7, sizeof bytes);
		const uint64_t sum = sum_large(3, bytes, n);
		assert_true(sum != sum_large(3, bytes, n + 1) && sum != sum_large(4, bytes, n));
		int n_changed = 0;
		for (size_t bit = 0; bit < 8 * n; bit++) {
			bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
			const uint64_t other = sum_large(3, bytes, n);
			assert_true(other != sum);
			n_changed += __builtin_popcountll(other ^ sum);
			bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
		}
		/* Each bit of the input turns about half of the sum's. */
		assert_true(n < 8 || (n_changed > 30 * 8 * (int)n && n_changed < 34 * 8 * (int)n));
	}
}

/* As docs/state-format.md has it; what lies behind the bytes does not count. Seen red with each of its numbers off. */
static void sums_of_bytes(void **state)
{
	uint8_t bytes[64];
	(void)state;

	for (size_t i = 0; i < sizeof bytes; i++)
		bytes[i] = (uint8_t)(3 + i * 5);
	for (size_t n = 0; n < sizeof bytes; n++)
		assert_true(sum_bytes(0, bytes, n) == state_checksum(bytes, n));
}

static void hidden_levels(void **state)
{
	(void)state;
	if (getenv("COHORT_HIDE_ISA"))
		skip();
	assert_true(hwcap_hide(NULL) && hwcap_hide("") && !hwcap_hidden("neon") && !hwcap_hidden("none"));
	assert_false(hwcap_hide("avx") || hwcap_hide("avx22") || hwcap_hide("none,neon") || hwcap_hide(",neon"));
	assert_false(hwcap_hidden("neon"));
	assert_true(hwcap_hide("amx,neon"));
	assert_true(hwcap_hidden("amx") && hwcap_hidden("neon") && !hwcap_hidden("avx2") && !hwcap_hidden("none"));
	assert_false(hwcap_hide("neon,none"));
}

static int fd_first;

static int count_files(void **state)
{
	(void)state;
	fd_first = next_fd();
	return 0;
}

/* By everything that opens one, whether it fails or not. Seen red with files of map.c that stay open. */
static void files_are_closed(void **state)
{
	(void)state;
	assert_int_equal(next_fd(), fd_first);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(err_fields),
		cmocka_unit_test(err_long),
		cmocka_unit_test(err_prefixes),
		cmocka_unit_test(err_names),
		cmocka_unit_test(mem_sizes),
		cmocka_unit_test(mem_aligned),
		cmocka_unit_test(mem_guarded),
		cmocka_unit_test(mem_growing),
		cmocka_unit_test(mem_failing),
		cmocka_unit_test(mem_trimming),
		cmocka_unit_test(map_open_and_its_errors),
		cmocka_unit_test(map_read_copies_files),
		cmocka_unit_test(map_lock_and_its_limit),
		cmocka_unit_test(file_reads),
		cmocka_unit_test(interrupted_reads),
		cmocka_unit_test(pool_shares_cover_all_items),
		cmocka_unit_test(large_sums),
		cmocka_unit_test(sums_of_bytes),
		cmocka_unit_test(hidden_levels),
		cmocka_unit_test(files_are_closed),
	};

	return cmocka_run_group_tests_name("base", tests, count_files, NULL);
}
