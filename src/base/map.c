/* Files as memory. The only place that opens them for reading. */
#include "base/map.h"

#include "base/mem.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* The path goes in front by err_prefix, which shortens it rather than lose the reason. */
static enum cohort_status refuse(struct cohort_err *err, enum cohort_status status, const char *path, const char *what,
		const char *reason)
{
	err_set(err, status, "%s%s", what, reason);
	err_prefix(err, "%s", path);
	return status;
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
	m->data = p;
	m->n_bytes = (size_t)st.st_size;
	return COHORT_OK;
}

void map_release(struct map *m)
{
	if (m && m->data)
		munmap((void *)m->data, m->n_bytes);
	if (m)
		*m = (struct map){0};
}

void map_drop(const struct map *m, size_t offset, size_t n)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	size_t from = (offset + page - 1) / page * page;
	size_t to = (offset + n) / page * page;

	if (m->data && from < to && to <= m->n_bytes)
		madvise((char *)m->data + from, to - from, MADV_DONTNEED);
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
