/* Files as memory: mapped, or read into a copy; and memory that is to stay resident.
 *
 * Invariants
 *  1. A copy never loses bytes that may still be wanted: map_drop leaves it alone, as there is no file to read them
 *     from again. Only map_forget gives its pages back.
 *  2. Advice and locks touch whole pages; advice only those that lie in the range completely. */
#include "base/map.h"

#include "base/file.h"
#include "base/mem.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

/* The path goes in front by err_prefix, which shortens it rather than lose the reason. */
static enum cohort_status refuse(struct cohort_err *err, enum cohort_status status, const char *path, const char *what,
		const char *reason)
{
	return err_in(err, path, err_set(err, status, "%s%s", what, reason));
}

enum cohort_status map_open(struct map *m, const char *path, struct cohort_err *err)
{
	struct stat st;
	void *p = NULL;
	int fd;

	do
		fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	while (fd < 0 && errno == EINTR);
	if (fd < 0)
		return refuse(err, COHORT_E_IO, path, "", strerror(errno));
	if (fstat(fd, &st) != 0) {
		int e = errno;
		close(fd);
		return refuse(err, COHORT_E_IO, path, "", strerror(e));
	}
	if (!S_ISREG(st.st_mode)) {
		close(fd);
		return refuse(err, COHORT_E_IO, path, "",
				S_ISDIR(st.st_mode) ? "is a directory" : "not a regular file");
	}
	if (st.st_size > 0) {
		p = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
		if (p == MAP_FAILED) {
			int e = errno;
			close(fd);
			return refuse(err, e == ENOMEM ? COHORT_E_MEMORY : COHORT_E_IO, path,
					"cannot map: ", strerror(e));
		}
	}
	close(fd);
	*m = (struct map){.data = p, .n_bytes = (size_t)st.st_size};
	return COHORT_OK;
}

enum cohort_status map_read(struct map *m, const char *path, bool (*progress)(float done, void *user), void *user,
		struct cohort_err *err)
{
	uint8_t *data = NULL;
	size_t n_bytes;
	enum cohort_status st = file_load_large(path, progress, user, &data, &n_bytes, err);

	if (!st)
		*m = (struct map){.data = data, .n_bytes = n_bytes, .copied = true};
	return st;
}

void map_release(struct map *m)
{
	if (m && m->copied)
		mem_free_aligned((void *)m->data);
	else if (m && m->data)
		munmap((void *)m->data, m->n_bytes);
	if (m)
		*m = (struct map){0};
}

/* A copy need not begin at a page. */
static void give_back(const struct map *m, size_t offset, size_t n)
{
	const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
	size_t end;

	if (!m->data || !size_add(offset, n, &end) || end > m->n_bytes)
		return;
	const uintptr_t from = ((uintptr_t)m->data + offset + page - 1) / page * page;
	const uintptr_t to = ((uintptr_t)m->data + end) / page * page;
	if (from < to)
		madvise((void *)from, to - from, MADV_DONTNEED);
}

void map_drop(const struct map *m, size_t offset, size_t n)
{
	if (!m->copied)
		give_back(m, offset, n);
}

void map_forget(const struct map *m, size_t offset, size_t n)
{
	give_back(m, offset, n);
}

static _Atomic int lock_error;

void map_lock_fail(int error)
{
	atomic_store(&lock_error, error);
}

int map_lock(const void *p, size_t n_bytes)
{
	const int error = atomic_load(&lock_error);

	return error ? error : n_bytes && mlock(p, n_bytes) != 0 ? errno : 0;
}

void map_unlock(const void *p, size_t n_bytes)
{
	if (n_bytes)
		munlock(p, n_bytes);
}

uint64_t map_lock_limit(void)
{
	struct rlimit r;

	return getrlimit(RLIMIT_MEMLOCK, &r) != 0 || r.rlim_cur == RLIM_INFINITY ? UINT64_MAX : (uint64_t)r.rlim_cur;
}

enum cohort_status file_read(const char *path, size_t n_max, char **out, size_t *n_bytes, struct cohort_err *err)
{
	bool is_stdin = strcmp(path, "-") == 0;
	const char *name = is_stdin ? "standard input" : path;
	char *buf = NULL;
	size_t n = 0, room = 0;
	enum cohort_status st;
	int fd = is_stdin ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return refuse(err, COHORT_E_IO, name, "", strerror(errno));
	for (;;) {
		if (!mem_grow((void **)&buf, &room, n + 4097, 1)) {
			st = err_set(err, COHORT_E_MEMORY, "%s: out of memory", name);
			goto out;
		}
		ssize_t got = read(fd, buf + n, room - n - 1);
		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0) {
			st = refuse(err, COHORT_E_IO, name, "", strerror(errno));
			goto out;
		}
		if (got == 0)
			break;
		n += (size_t)got;
		if (n > n_max) {
			st = err_set(err, COHORT_E_LIMIT, "%s: larger than %zu bytes", name, n_max);
			goto out;
		}
	}
	buf[n] = '\0';
	*out = buf;
	*n_bytes = n;
	buf = NULL;
	st = COHORT_OK;
out:
	mem_free(buf);
	if (!is_stdin)
		close(fd);
	return st;
}
