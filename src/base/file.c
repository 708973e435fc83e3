/* Whole files, read and written through plain system calls.
 *
 * Invariants
 *  1. `path` names either what it named before or the whole new file: its data is on the disk before the rename.
 *  2. The temporary file is in the same directory, so that the rename stays within one file system, and is made by this
 *     stream alone (O_EXCL). It is gone when a call fails, and a stream whose write failed stays failed.
 *  3. A temporary file is locked from its making to its rename or removal. One that nobody has locked is what a writer
 *     was killed over. Its name is made of that of `path`, so that the next writer of `path` finds it, and removes it.
 *  4. A call that a signal interrupted is made again; a short read or write goes on where it ended.
 *  5. Every system call whose failure is one of the write goes through a function that asks the failure hook first; the
 *     hook is off unless a test turns it on. */
#include "base/file.h"

#include "base/mem.h"
#include "base/sum.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define SLICE_BYTES ((size_t)16 << 20) /* read between two calls of progress; at a gigabyte a second, 60 of them */
#define TMP_BEGIN ".cohort-"
#define TMP_END ".tmp"
#define SUFFIX_BYTES 64 /* TMP_BEGIN, three numbers, TMP_END and the NUL */
#define NAMES_OWN 8     /* names that stand for the file's; as many can write it at once, or leave something behind */
#define NAMES_MAX 100   /* names tried; those that come behind stand for the moment */

static _Atomic int64_t fail_after = -1;
static _Atomic int fail_error;

void file_fail_after(int64_t n, int error)
{
	atomic_store(&fail_error, error);
	atomic_store(&fail_after, n);
}

/* Whether this call is the one a test chose. */
static bool chosen(void)
{
	if (atomic_load_explicit(&fail_after, memory_order_relaxed) < 0)
		return false;
	return atomic_fetch_sub(&fail_after, 1) == 0;
}

/* Whether this call is to fail; errno is set then. */
static bool refused(void)
{
	const int error = chosen() ? atomic_load(&fail_error) : 0;
	if (error)
		errno = error;
	return error != 0;
}

/* ---- System calls ---- */

static int os_open(const char *path, int flags)
{
	int fd;
	do
		fd = refused() ? -1 : open(path, flags | O_CLOEXEC, 0666);
	while (fd < 0 && errno == EINTR);
	return fd;
}

/* Of n bytes, how many the hook lets pass in one call; 0 with errno set: the call fails. */
static size_t allowed(size_t n)
{
	if (!chosen())
		return n;
	errno = atomic_load(&fail_error);
	return errno == 0;
}

static ssize_t os_read(int fd, void *p, size_t n)
{
	ssize_t got;
	do {
		const size_t n_now = allowed(n);
		got = n_now ? read(fd, p, n_now) : -1;
	} while (got < 0 && errno == EINTR);
	return got;
}

static ssize_t os_write(int fd, const void *p, size_t n)
{
	ssize_t put;
	do {
		const size_t n_now = allowed(n);
		put = n_now ? write(fd, p, n_now) : -1;
	} while (put < 0 && errno == EINTR);
	return put;
}

static bool os_sync(int fd)
{
	int r;
	do
		r = refused() ? -1 : fsync(fd);
	while (r < 0 && errno == EINTR);
	return r == 0;
}

static int os_dup(int fd)
{
	int copy;
	do
		copy = refused() ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, 0);
	while (copy < 0 && errno == EINTR);
	return copy;
}

/* The descriptor is gone whatever close says, so it is never called twice; an interrupted one has not failed. */
static bool os_close(int fd)
{
	const bool bad = refused();
	const int e = errno;
	const int r = close(fd);
	if (bad)
		errno = e;
	return (!bad && r == 0) || errno == EINTR;
}

/* ---- Writing ---- */

static enum cohort_status refuse(struct cohort_err *err, const char *path, const char *what, int error)
{
	err_in(err, path, err_set(err, COHORT_E_IO, "%s%s", what, strerror(error)));
	if (err && (error == ENOSPC || error == EDQUOT || error == EFBIG))
		err->rule = "space";
	return COHORT_E_IO;
}

static enum cohort_status no_memory(struct cohort_err *err, const char *path)
{
	return err_in(err, path, err_set(err, COHORT_E_MEMORY, "out of memory"));
}

/* Removes a temporary file that nobody writes any more. Who has the lock is the only one who may rename or remove it,
 * so that the name cannot become another file's between the look and the removal. */
static bool leftover_remove(const char *tmp)
{
	const int fd = open(tmp, O_WRONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	struct stat st, named;

	if (fd < 0)
		return errno == ENOENT;
	const bool gone = fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && flock(fd, LOCK_EX | LOCK_NB) == 0 &&
			lstat(tmp, &named) == 0 && named.st_dev == st.st_dev && named.st_ino == st.st_ino &&
			unlink(tmp) == 0;
	close(fd);
	return gone;
}

/* A new, empty file of this name, locked; -1 with EEXIST when the name is another writer's. */
static int temp_make(const char *tmp)
{
	int fd = os_open(tmp, O_WRONLY | O_CREAT | O_EXCL);
	struct stat st;

	if (fd < 0 && errno != EEXIST)
		return -1;
	if (fd < 0 && leftover_remove(tmp))
		fd = os_open(tmp, O_WRONLY | O_CREAT | O_EXCL);
	if (fd < 0) {
		errno = EEXIST;
		return -1;
	}
	/* Before it was locked it could be taken for a leftover. Where there are no locks, none are removed either. */
	const bool locked = flock(fd, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK;
	if (locked && fstat(fd, &st) != 0) {
		const int e = errno;
		unlink(tmp);
		close(fd);
		errno = e;
		return -1;
	}
	if (locked && st.st_nlink > 0)
		return fd;
	close(fd);
	errno = EEXIST;
	return -1;
}

/* A new, empty file beside `path`. tmp: room for the path and SUFFIX_BYTES more. */
static int temp_open(const char *path, char *tmp)
{
	static _Atomic unsigned count;
	const char *slash = strrchr(path, '/');
	/* A name of its own: the file's may be as long as names get. */
	const size_t n = slash ? (size_t)(slash - path) + 1 : 0;
	const uint64_t hash = sum_bytes(0, path + n, strlen(path + n));
	int fd = -1;

	memcpy(tmp, path, n);
	for (int i = 0; i < NAMES_MAX && fd < 0; i++) {
		struct timespec now = {0};
		clock_gettime(CLOCK_REALTIME, &now);
		if (i < NAMES_OWN)
			snprintf(tmp + n, SUFFIX_BYTES, TMP_BEGIN "%016" PRIx64 "-%d" TMP_END, hash, i);
		else
			snprintf(tmp + n, SUFFIX_BYTES, TMP_BEGIN "%lx-%x-%lx" TMP_END, (unsigned long)getpid(),
					atomic_fetch_add(&count, 1), (unsigned long)now.tv_nsec);
		fd = temp_make(tmp);
		if (fd < 0 && errno != EEXIST)
			break;
	}
	return fd;
}

void file_sweep(const char *dir)
{
	const size_t n_begin = sizeof TMP_BEGIN - 1, n_end = sizeof TMP_END - 1;
	const struct dirent *e;
	DIR *d = opendir(dir);

	while (d && (e = readdir(d))) {
		const size_t n = strlen(e->d_name), room = strlen(dir) + n + 2;
		if (n < n_begin + n_end || memcmp(e->d_name, TMP_BEGIN, n_begin) != 0 ||
				memcmp(e->d_name + n - n_end, TMP_END, n_end) != 0)
			continue;
		char *path = mem_alloc(room, 1);
		if (path) {
			snprintf(path, room, "%s/%s", dir, e->d_name);
			leftover_remove(path);
		}
		mem_free(path);
	}
	if (d)
		closedir(d);
}

static bool write_all(int fd, const uint8_t *p, size_t n)
{
	while (n > 0) {
		const ssize_t put = os_write(fd, p, n);
		if (put == 0)
			errno = EIO; /* a file that takes nothing and says nothing */
		if (put <= 0)
			return false;
		p += put;
		n -= (size_t)put;
	}
	return true;
}

/* Opens the directory that holds `path`; dir: room for the path and two bytes more. */
static int dir_open(const char *path, char *dir)
{
	const char *slash = strrchr(path, '/');
	size_t n = slash ? (size_t)(slash - path) + 1 : 0;

	memcpy(dir, path, n);
	if (n == 0)
		dir[n++] = '.';
	dir[n] = '\0';
	return os_open(dir, O_RDONLY | O_DIRECTORY);
}

/* Puts the temporary file in place. The directory is opened before the rename, while failing is still free; where
 * directories cannot be synced (EINVAL), the rename is as durable as the file system makes it. */
static enum cohort_status put_in_place(const char *tmp, const char *path, char *dir, struct cohort_err *err)
{
	const int fd = dir_open(path, dir);

	if (fd < 0) {
		refuse(err, path, "cannot open its directory: ", errno);
		goto gone;
	}
	if (refused() || rename(tmp, path) != 0) {
		refuse(err, path, "cannot replace: ", errno);
		close(fd);
		goto gone;
	}
	const bool synced = os_sync(fd) || errno == EINVAL;
	const int e = errno;
	close(fd);
	return synced ? COHORT_OK : refuse(err, path, "written, but its directory may not be on the disk: ", e);
gone:
	unlink(tmp);
	return COHORT_E_IO;
}

struct file_stream {
	int fd;      /* -1: closed after a failure, and the temporary file is gone */
	size_t room; /* of each name */
	char *path, *tmp, *dir;
	char names[]; /* [3 * room] */
};

/* Asked before anything is written: a rename onto a directory would fail only at the end, and one onto a device (as
 * root, into /dev) would succeed. */
static enum cohort_status check_target(const char *path, struct cohort_err *err)
{
	struct stat st;

	if (lstat(path, &st) != 0 || S_ISREG(st.st_mode) || S_ISLNK(st.st_mode))
		return COHORT_OK; /* what else may be wrong shows when the temporary file is made */
	if (S_ISDIR(st.st_mode))
		return refuse(err, path, "cannot replace: ", EISDIR);
	return err_in(err, path, err_set(err, COHORT_E_IO, "cannot replace: not a regular file"));
}

enum cohort_status file_stream_open(const char *path, struct file_stream **out, struct cohort_err *err)
{
	const size_t n = strlen(path);
	struct file_stream *s = NULL;
	size_t room, bytes;
	const enum cohort_status st = check_target(path, err);

	if (st)
		return st;
	if (size_add(n, SUFFIX_BYTES, &room) && size_mul(room, 3, &bytes) && size_add(bytes, sizeof *s, &bytes))
		s = mem_alloc(1, bytes);
	if (!s)
		return no_memory(err, path);
	*s = (struct file_stream){.room = room, .path = s->names, .tmp = s->names + room, .dir = s->names + 2 * room};
	memcpy(s->path, path, n + 1);
	s->fd = temp_open(path, s->tmp);
	if (s->fd < 0) {
		refuse(err, path, "cannot make a temporary file beside it: ", errno);
		mem_free(s);
		return COHORT_E_IO;
	}
	*out = s;
	return COHORT_OK;
}

/* What is left of a stream whose file failed: the name, for messages. */
static void drop(struct file_stream *s)
{
	if (s->fd >= 0) {
		unlink(s->tmp); /* before the lock is given: then the name may be another's */
		close(s->fd);
	}
	s->fd = -1;
}

enum cohort_status file_stream_write(struct file_stream *s, const void *bytes, size_t n_bytes, struct cohort_err *err)
{
	if (s->fd < 0)
		return refuse(err, s->path, "cannot write: an earlier write failed: ", EIO);
	if (write_all(s->fd, bytes, n_bytes))
		return COHORT_OK;
	const int e = errno;
	drop(s);
	return refuse(err, s->path, "cannot write: ", e);
}

enum cohort_status file_stream_commit(struct file_stream *s, struct cohort_err *err)
{
	enum cohort_status st = COHORT_OK;
	int lock = -1; /* keeps it when the file is closed, which has to be before the rename */

	if (s->fd < 0) {
		st = refuse(err, s->path, "cannot write: an earlier write failed: ", EIO);
	} else if (!os_sync(s->fd) || (lock = os_dup(s->fd)) < 0) {
		const int e = errno;
		drop(s);
		st = refuse(err, s->path, "cannot write: ", e);
	} else if (!os_close(s->fd)) {
		st = refuse(err, s->path, "cannot write: ", errno);
		unlink(s->tmp);
	} else {
		st = put_in_place(s->tmp, s->path, s->dir, err);
	}
	if (lock >= 0)
		close(lock);
	mem_free(s);
	return st;
}

void file_stream_abort(struct file_stream *s)
{
	if (s)
		drop(s);
	mem_free(s);
}

enum cohort_status file_write_atomic(const char *path, const void *bytes, size_t n_bytes, struct cohort_err *err)
{
	struct file_stream *s;
	enum cohort_status st = file_stream_open(path, &s, err);

	if (st)
		return st;
	st = file_stream_write(s, bytes, n_bytes, err);
	if (!st)
		return file_stream_commit(s, err);
	file_stream_abort(s);
	return st;
}

bool file_same(const char *a, const char *b)
{
	struct stat x, y;

	return stat(a, &x) == 0 && stat(b, &y) == 0 && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

/* ---- Reading ---- */

/* What there is to read of an open file; false with errno set. A directory or device is refused by *what. */
static bool measure(int fd, size_t n_max, size_t *n, const char **what)
{
	struct stat st;

	if (refused() || fstat(fd, &st) != 0)
		return false;
	if (!S_ISREG(st.st_mode))
		*what = S_ISDIR(st.st_mode) ? "is a directory" : "not a regular file";
	*n = (uintmax_t)st.st_size < n_max ? (size_t)st.st_size : n_max;
	return true;
}

/* Up to n bytes, fewer when the file became shorter meanwhile. */
static bool read_all(int fd, uint8_t *p, size_t n, size_t *n_got)
{
	size_t at = 0;

	while (at < n) {
		const ssize_t got = os_read(fd, p + at, n - at);
		if (got < 0)
			return false;
		if (got == 0)
			break;
		at += (size_t)got;
	}
	*n_got = at;
	return true;
}

/* How file_load_large differs from file_load. */
struct large {
	bool (*progress)(float done, void *user);
	void *user;
};

/* Reads all of a large file, slice by slice. */
static enum cohort_status read_large(const struct large *l, const char *path, int fd, uint8_t *p, size_t n,
		struct cohort_err *err)
{
	size_t at = 0, got;

	while (at < n) {
		const size_t slice = n - at < SLICE_BYTES ? n - at : SLICE_BYTES;
		if (!read_all(fd, p + at, slice, &got))
			return refuse(err, path, "cannot read: ", errno);
		at += got;
		if (got < slice)
			return err_in(err, path,
					err_set(err, COHORT_E_IO,
							"ended after %zu of %zu bytes: it was cut while being read", at,
							n));
		if (l->progress && !l->progress((float)((double)at / (double)n), l->user))
			return err_set(err, COHORT_ABORTED, "%s: reading aborted by the caller", path);
	}
	return COHORT_OK;
}

/* large may be NULL. */
static enum cohort_status load(const char *path, size_t n_max, const struct large *large, uint8_t **out,
		size_t *n_bytes, struct cohort_err *err)
{
	const int fd = os_open(path, O_RDONLY | O_NONBLOCK); /* a FIFO is refused, not waited for */
	const char *what = NULL;
	uint8_t *buf = NULL;
	enum cohort_status st = COHORT_OK;
	size_t n = 0;

	if (fd < 0)
		return refuse(err, path, "", errno);
	if (!measure(fd, n_max, &n, &what)) {
		st = refuse(err, path, "", errno);
	} else if (what) {
		st = err_in(err, path, err_set(err, COHORT_E_IO, "%s", what));
	} else if (n || !large) {
		buf = large ? mem_zalloc_large(n) : mem_alloc(n, 1);
		if (!buf)
			st = no_memory(err, path);
		else if (large)
			st = read_large(large, path, fd, buf, n, err);
		else if (!read_all(fd, buf, n, &n))
			st = refuse(err, path, "cannot read: ", errno);
	}
	close(fd);
	if (st) {
		if (large)
			mem_free_aligned(buf);
		else
			mem_free(buf);
		return st;
	}
	*out = buf;
	*n_bytes = n;
	return COHORT_OK;
}

enum cohort_status file_load(const char *path, size_t n_max, uint8_t **out, size_t *n_bytes, struct cohort_err *err)
{
	return load(path, n_max, NULL, out, n_bytes, err);
}

enum cohort_status file_load_large(const char *path, bool (*progress)(float done, void *user), void *user,
		uint8_t **out, size_t *n_bytes, struct cohort_err *err)
{
	return load(path, SIZE_MAX, &(struct large){progress, user}, out, n_bytes, err);
}
