/* A preload that makes the disk slow: opening, reading and writing a regular file takes milliseconds longer, syncing
 * and renaming tens of milliseconds. Pipes, sockets and terminals keep their speed, and so do the shell and its tools:
 * only batched and cohort wait. */
#undef _FORTIFY_SOURCE /* its inline functions would replace these */
#undef _FILE_OFFSET_BITS /* it would rename these */

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { ACCESS_MS = 3,
	SYNC_MS = 40 };

static void wait_ms(long ms)
{
	const char *name = program_invocation_short_name;

	if (strcmp(name, "cohort") != 0 && strcmp(name, "batched") != 0)
		return;
	nanosleep(&(struct timespec){.tv_nsec = ms * 1000000}, NULL);
}

static void wait_for(int fd)
{
	struct stat st;

	if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode))
		wait_ms(ACCESS_MS);
}

/* next: the function that the one of this name here stands before. */
#define NEXT(type, name, ...) \
	type (*next)(__VA_ARGS__); \
	*(void **)&next = dlsym(RTLD_NEXT, #name)

#define OPEN(name) \
	int name(const char *path, int flags, ...) \
	{ \
		va_list ap; \
		va_start(ap, flags); \
		const mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(ap, mode_t) : 0; \
		va_end(ap); \
		wait_ms(ACCESS_MS); \
		NEXT(int, name, const char *, int, ...); \
		return next(path, flags, mode); \
	}
OPEN(open)
OPEN(open64)

ssize_t read(int fd, void *to, size_t n)
{
	wait_for(fd);
	NEXT(ssize_t, read, int, void *, size_t);
	return next(fd, to, n);
}

ssize_t pread64(int fd, void *to, size_t n, off64_t at)
{
	wait_for(fd);
	NEXT(ssize_t, pread64, int, void *, size_t, off64_t);
	return next(fd, to, n, at);
}

ssize_t write(int fd, const void *from, size_t n)
{
	wait_for(fd);
	NEXT(ssize_t, write, int, const void *, size_t);
	return next(fd, from, n);
}

ssize_t pwrite64(int fd, const void *from, size_t n, off64_t at)
{
	wait_for(fd);
	NEXT(ssize_t, pwrite64, int, const void *, size_t, off64_t);
	return next(fd, from, n, at);
}

int fsync(int fd)
{
	wait_ms(SYNC_MS);
	NEXT(int, fsync, int);
	return next(fd);
}

int fdatasync(int fd)
{
	wait_ms(SYNC_MS);
	NEXT(int, fdatasync, int);
	return next(fd);
}

int rename(const char *from, const char *to)
{
	wait_ms(SYNC_MS);
	NEXT(int, rename, const char *, const char *);
	return next(from, to);
}
