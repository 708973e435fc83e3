/* Keeps lines in a file between runs.
 *
 * 1. Failing is quiet and harmless: a history that cannot be written is a history that ends with the program.
 * 2. Lines are appended whole, one write each, so that programs that run at the same time do not mix them up.
 * 3. The file and the directories made for it are for the user alone: what people say to a model is theirs.
 *
 * It does not know what the lines mean. */
#include "line_history.h"

#include "base/file.h"
#include "base/mem.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* That are read of it. Twice the bound of lines, and some. */
enum { FILE_BYTES_MAX = 3 * LINE_HISTORY_MAX * (LINE_HISTORY_BYTES_MAX + 1) };

char *line_history_path(const char *name, const char *state_home, const char *home)
{
	const bool state = state_home && *state_home == '/';
	const char *base = state ? state_home : home, *mid = state ? "/cohort/" : "/.local/state/cohort/";

	if (!base || *base != '/')
		return NULL;
	const size_t n = strlen(base) + strlen(mid) + strlen(name) + 1;
	char *path = mem_alloc(n, 1);
	if (path)
		snprintf(path, n, "%s%s%s", base, mid, name);
	return path;
}

/* All directories above the file. What exists is left as it is. */
static void make_directories(const char *path)
{
	char *copy = mem_strndup(path, strlen(path));

	for (char *p = copy ? strchr(copy + 1, '/') : NULL; p; p = strchr(p + 1, '/')) {
		*p = '\0';
		const bool ok = mkdir(copy, 0700) == 0 || errno == EEXIST;
		*p = '/';
		if (!ok)
			break;
	}
	mem_free(copy);
}

static void cut(const char *path, const char *bytes, size_t n_bytes)
{
	const mode_t before = umask(077);
	struct cohort_err err;

	file_write_atomic(path, bytes, n_bytes, &err);
	umask(before);
}

/* The end of the file, from the beginning of a line on. NULL: there is none. */
static uint8_t *load_end(const char *path, size_t *n_bytes)
{
	/* A pipe in its place must not make the program wait. */
	const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	struct stat st;
	uint8_t *bytes = NULL;
	size_t n = 0, at = 0;

	if (fd < 0)
		return NULL;
	if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_size > 0) {
		n = st.st_size < FILE_BYTES_MAX ? (size_t)st.st_size : FILE_BYTES_MAX;
		bytes = mem_alloc(n, 1);
	}
	while (bytes && at < n) {
		const ssize_t got = pread(fd, bytes + at, n - at, st.st_size - (off_t)(n - at));
		if (got == 0 || (got < 0 && errno != EINTR))
			break;
		at += got > 0 ? (size_t)got : 0;
	}
	close(fd);
	if (bytes && at < n) {
		mem_free(bytes);
		return NULL;
	}
	if (bytes && st.st_size > FILE_BYTES_MAX) {
		const uint8_t *end = memchr(bytes, '\n', n);
		const size_t n_part = end ? (size_t)(end - bytes) + 1 : n;
		n -= n_part;
		memmove(bytes, bytes + n_part, n);
	}
	*n_bytes = n;
	return bytes;
}

void line_history_load(const char *path, void (*fn)(void *user, const char *text, size_t n_bytes), void *user)
{
	size_t n_bytes = 0, n_lines = 0, n_skip = 0, at = 0;
	uint8_t *bytes = load_end(path, &n_bytes);

	if (!bytes)
		return;
	for (size_t i = 0; i < n_bytes; i++)
		n_lines += bytes[i] == '\n';
	if (n_lines > LINE_HISTORY_MAX)
		n_skip = n_lines - LINE_HISTORY_MAX;
	for (size_t i = 0; i < n_skip; i++)
		at += (size_t)((uint8_t *)memchr(bytes + at, '\n', n_bytes - at) - (bytes + at)) + 1;
	const size_t first = at;
	while (at < n_bytes) {
		const uint8_t *end = memchr(bytes + at, '\n', n_bytes - at);
		const size_t n = end ? (size_t)(end - (bytes + at)) : n_bytes - at;
		if (n > 0 && n <= LINE_HISTORY_BYTES_MAX)
			fn(user, (const char *)bytes + at, n);
		at += n + 1;
	}
	if (n_lines > 2 * LINE_HISTORY_MAX)
		cut(path, (const char *)bytes + first, n_bytes - first);
	mem_free(bytes);
}

bool line_history_add(const char *path, const char *text, size_t n_bytes)
{
	char line[LINE_HISTORY_BYTES_MAX + 1];
	struct stat st;
	bool ok = false;

	if (n_bytes == 0 || n_bytes > LINE_HISTORY_BYTES_MAX || memchr(text, '\n', n_bytes) ||
			memchr(text, '\0', n_bytes))
		return true;
	memcpy(line, text, n_bytes);
	line[n_bytes] = '\n';
	make_directories(path);
	/* A pipe in its place must not make the program wait. */
	const int fd = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, 0600);
	if (fd < 0)
		return false;
	if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && ((st.st_mode & 077) == 0 || fchmod(fd, 0600) == 0))
		ok = write(fd, line, n_bytes + 1) == (ssize_t)n_bytes + 1;
	return close(fd) == 0 && ok;
}
