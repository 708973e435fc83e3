/* Calls of the C library, handed on to the system or made to fail.
 *
 * Invariants
 *  1. Nothing here allocates on the way of an allocation: those go to guard.c, all others by what comes next in the
 * order of lookup.
 *  2. A call that fails has done nothing, and sets errno as the system would.
 *  3. The count of live blocks changes with every block, armed or not.
 *  4. Syncing is counted and can fail, but is not done. */
#undef _FORTIFY_SOURCE /* whose inline functions would stand in the place of these */
#undef _FILE_OFFSET_BITS /* which would give these other names; both are defined below */

#include "fault.h"
#include "guard.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <execinfo.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

int guard_left = 1 << 30; /* the box has the count, and who looks at it knows what may be left */
static struct fault_box own;
static struct fault_box *box = &own;
/* Of a thread's own calls; the model of TLS that needs no memory. */
static _Thread_local int n_paused __attribute__((tls_model("initial-exec")));

static const struct {
	const char *name;
	int error;
} kinds[FAULT_KINDS] = {
		[FAULT_ALLOC] = {"alloc", ENOMEM},
		[FAULT_MAP] = {"map", ENOMEM},
		[FAULT_OPEN] = {"open", EMFILE},
		[FAULT_STAT] = {"stat", EIO},
		[FAULT_READ] = {"read", EIO},
		[FAULT_WRITE] = {"write", ENOSPC},
		[FAULT_SYNC] = {"sync", EIO},
		[FAULT_TRUNCATE] = {"truncate", EIO},
		[FAULT_RENAME] = {"rename", EIO},
		[FAULT_THREAD] = {"thread", EAGAIN},
		[FAULT_ACCEPT] = {"accept", EMFILE},
		[FAULT_RECV] = {"recv", ECONNRESET},
		[FAULT_SEND] = {"send", ECONNRESET},
};

const char *fault_kind_name(enum fault_kind kind)
{
	return kinds[kind].name;
}

struct fault_box *fault_box_get(void)
{
	return box;
}

void fault_arm(enum fault_kind kind, uint64_t k, bool lasting)
{
	box->kind = kind;
	box->k = k;
	box->lasting = lasting;
	for (size_t i = 0; i < FAULT_KINDS; i++)
		atomic_store(&box->n_calls[i], 0);
	atomic_store(&box->n_failed, 0);
	atomic_store(&box->armed, 1);
}

void fault_disarm(void)
{
	atomic_store(&box->armed, 0);
}

void fault_pause(void)
{
	n_paused++;
}

void fault_resume(void)
{
	n_paused--;
}

/* For looking for a fault's way: addresses, which addr2line has names for. */
static void show(enum fault_kind kind)
{
	void *at[64];

	n_paused++;
	dprintf(2, "# %s fails here:\n", kinds[kind].name);
	backtrace_symbols_fd(at, backtrace(at, 64), 2);
	n_paused--;
}

/* Before main the signal would end the process whatever the program does: that does not count. */
static void interrupt(void)
{
	static atomic_bool caught;
	struct sigaction sa;

	if (!atomic_load(&caught)) {
		if (sigaction(SIGINT, NULL, &sa) != 0 || sa.sa_handler == SIG_DFL) {
			atomic_fetch_add(&box->n_calls[FAULT_EARLY], 1);
			return;
		}
		atomic_store(&caught, true);
	}
	if (atomic_fetch_add(&box->n_calls[FAULT_CAUGHT], 1) + 1 == box->k) {
		atomic_fetch_add(&box->n_failed, 1);
		kill(getpid(), SIGINT);
	}
}

/* Whether this call is to fail; errno is set then. */
static bool refused(enum fault_kind kind)
{
	if (!atomic_load_explicit(&box->armed, memory_order_acquire) || n_paused)
		return false;
	const uint64_t n = atomic_fetch_add(&box->n_calls[kind], 1) + 1;
	if (box->kind == FAULT_SIGNAL)
		interrupt();
	if (box->kind != kind || (box->lasting ? n < box->k : n != box->k))
		return false;
	atomic_fetch_add(&box->n_failed, 1);
	if (box->show)
		show(kind);
	errno = kinds[kind].error;
	return true;
}

/* ---- Memory ---- */

static void *counted(void *p)
{
	if (p)
		atomic_fetch_add_explicit(&box->n_live, 1, memory_order_relaxed);
	return p;
}

void *malloc(size_t n)
{
	return refused(FAULT_ALLOC) ? NULL : counted(guard_malloc(n));
}

void *calloc(size_t n, size_t size)
{
	return refused(FAULT_ALLOC) ? NULL : counted(guard_calloc(n, size));
}

void free(void *p)
{
	if (p)
		atomic_fetch_sub_explicit(&box->n_live, 1, memory_order_relaxed);
	guard_free(p);
}

void *realloc(void *p, size_t n)
{
	if (!p)
		return malloc(n);
	if (n == 0) {
		free(p);
		return NULL;
	}
	return refused(FAULT_ALLOC) ? NULL : guard_realloc(p, n);
}

void *memalign(size_t align, size_t n);
void *memalign(size_t align, size_t n)
{
	return refused(FAULT_ALLOC) ? NULL : counted(guard_memalign(align, n));
}

void *aligned_alloc(size_t align, size_t n)
{
	return memalign(align, n);
}

int posix_memalign(void **out, size_t align, size_t n)
{
	void *p = memalign(align, n);

	if (!p)
		return ENOMEM;
	*out = p;
	return 0;
}

/* ---- All others ---- */

/* The function behind this one: NAME(TYPE, NAME) declares `next`, of that type. */
#define NEXT(name) \
	static __typeof__(name) *next; \
	if (!next) { \
		void *found; \
		n_paused++; \
		found = dlsym(RTLD_NEXT, #name); \
		n_paused--; \
		memcpy((void *)&next, &found, sizeof next); \
	}

int fstat(int fd, struct stat *st)
{
	NEXT(fstat)
	return refused(FAULT_STAT) ? -1 : next(fd, st);
}

int stat(const char *path, struct stat *st)
{
	NEXT(stat)
	return refused(FAULT_STAT) ? -1 : next(path, st);
}

int lstat(const char *path, struct stat *st)
{
	NEXT(lstat)
	return refused(FAULT_STAT) ? -1 : next(path, st);
}

static bool is_regular(int fd)
{
	struct stat st;
	const int e = errno;

	n_paused++;
	const bool yes = fstat(fd, &st) == 0 && S_ISREG(st.st_mode);
	n_paused--;
	errno = e;
	return yes;
}

/* The mode comes only with flags that make a file. */
#define MODE(flags, mode) \
	do { \
		if ((flags) & (O_CREAT | (O_TMPFILE & ~O_DIRECTORY))) { \
			va_list args; \
			va_start(args, flags); \
			mode = va_arg(args, mode_t); \
			va_end(args); \
		} \
	} while (0)

int open(const char *path, int flags, ...)
{
	mode_t mode = 0;

	NEXT(open)
	MODE(flags, mode);
	return refused(FAULT_OPEN) ? -1 : next(path, flags, mode);
}

int openat(int dir, const char *path, int flags, ...)
{
	mode_t mode = 0;

	NEXT(openat)
	MODE(flags, mode);
	return refused(FAULT_OPEN) ? -1 : next(dir, path, flags, mode);
}

FILE *fopen(const char *path, const char *mode)
{
	NEXT(fopen)
	return refused(FAULT_OPEN) ? NULL : next(path, mode);
}

DIR *opendir(const char *path)
{
	NEXT(opendir)
	return refused(FAULT_OPEN) ? NULL : next(path);
}

int socket(int domain, int type, int protocol)
{
	NEXT(socket)
	return refused(FAULT_OPEN) ? -1 : next(domain, type, protocol);
}

int pipe2(int fds[2], int flags)
{
	NEXT(pipe2)
	return refused(FAULT_OPEN) ? -1 : next(fds, flags);
}

int pipe(int fds[2])
{
	return pipe2(fds, 0);
}

int eventfd(unsigned count, int flags)
{
	NEXT(eventfd)
	return refused(FAULT_OPEN) ? -1 : next(count, flags);
}

int epoll_create1(int flags)
{
	NEXT(epoll_create1)
	return refused(FAULT_OPEN) ? -1 : next(flags);
}

void *mmap(void *at, size_t n, int prot, int flags, int fd, off_t offset)
{
	NEXT(mmap)
	return refused(FAULT_MAP) ? MAP_FAILED : next(at, n, prot, flags, fd, offset);
}

ssize_t read(int fd, void *bytes, size_t n)
{
	NEXT(read)
	return is_regular(fd) && refused(FAULT_READ) ? -1 : next(fd, bytes, n);
}

ssize_t pread(int fd, void *bytes, size_t n, off_t offset)
{
	NEXT(pread)
	return is_regular(fd) && refused(FAULT_READ) ? -1 : next(fd, bytes, n, offset);
}

/* What read and pread become where their buffer's size is known. */
ssize_t __read_chk(int fd, void *bytes, size_t n, size_t n_max);
ssize_t __read_chk(int fd, void *bytes, size_t n, size_t n_max)
{
	if (n > n_max)
		abort();
	return read(fd, bytes, n);
}

ssize_t __pread_chk(int fd, void *bytes, size_t n, off_t offset, size_t n_max);
ssize_t __pread_chk(int fd, void *bytes, size_t n, off_t offset, size_t n_max)
{
	if (n > n_max)
		abort();
	return pread(fd, bytes, n, offset);
}

ssize_t write(int fd, const void *bytes, size_t n)
{
	NEXT(write)
	return is_regular(fd) && refused(FAULT_WRITE) ? -1 : next(fd, bytes, n);
}

ssize_t pwrite(int fd, const void *bytes, size_t n, off_t offset)
{
	NEXT(pwrite)
	return is_regular(fd) && refused(FAULT_WRITE) ? -1 : next(fd, bytes, n, offset);
}

/* Nobody pulls a plug here, and waiting for disks would take most of the time. */
int fsync(int fd)
{
	(void)fd;
	return refused(FAULT_SYNC) ? -1 : 0;
}

int fdatasync(int fd)
{
	return fsync(fd);
}

int ftruncate(int fd, off_t n)
{
	NEXT(ftruncate)
	return refused(FAULT_TRUNCATE) ? -1 : next(fd, n);
}

int rename(const char *from, const char *to)
{
	NEXT(rename)
	return refused(FAULT_RENAME) ? -1 : next(from, to);
}

int link(const char *from, const char *to)
{
	NEXT(link)
	return refused(FAULT_RENAME) ? -1 : next(from, to);
}

int mkdir(const char *path, mode_t mode)
{
	NEXT(mkdir)
	return refused(FAULT_RENAME) ? -1 : next(path, mode);
}

int pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*run)(void *), void *arg)
{
	NEXT(pthread_create)
	return refused(FAULT_THREAD) ? EAGAIN : next(thread, attr, run, arg);
}

int accept(int fd, __SOCKADDR_ARG address, socklen_t *n)
{
	NEXT(accept)
	return refused(FAULT_ACCEPT) ? -1 : next(fd, address, n);
}

int accept4(int fd, __SOCKADDR_ARG address, socklen_t *n, int flags)
{
	NEXT(accept4)
	return refused(FAULT_ACCEPT) ? -1 : next(fd, address, n, flags);
}

ssize_t recv(int fd, void *bytes, size_t n, int flags)
{
	NEXT(recv)
	return refused(FAULT_RECV) ? -1 : next(fd, bytes, n, flags);
}

ssize_t send(int fd, const void *bytes, size_t n, int flags)
{
	NEXT(send)
	return refused(FAULT_SEND) ? -1 : next(fd, bytes, n, flags);
}

ssize_t sendmsg(int fd, const struct msghdr *message, int flags)
{
	NEXT(sendmsg)
	return refused(FAULT_SEND) ? -1 : next(fd, message, flags);
}

ssize_t sendfile(int out, int in, off_t *offset, size_t n)
{
	NEXT(sendfile)
	return refused(FAULT_SEND) ? -1 : next(out, in, offset, n);
}

ssize_t writev(int fd, const struct iovec *parts, int n)
{
	NEXT(writev)
	return refused(FAULT_SEND) ? -1 : next(fd, parts, n);
}

/* ---- The same for files of any size, which on 64 bits is the same ---- */

_Static_assert(sizeof(off_t) == sizeof(off64_t) && sizeof(struct stat) == sizeof(struct stat64), "64 bits");

int fstat64(int fd, struct stat64 *st)
{
	return fstat(fd, (struct stat *)st);
}

int stat64(const char *path, struct stat64 *st)
{
	return stat(path, (struct stat *)st);
}

int lstat64(const char *path, struct stat64 *st)
{
	return lstat(path, (struct stat *)st);
}

int open64(const char *path, int flags, ...)
{
	mode_t mode = 0;

	MODE(flags, mode);
	return open(path, flags, mode);
}

int openat64(int dir, const char *path, int flags, ...)
{
	mode_t mode = 0;

	MODE(flags, mode);
	return openat(dir, path, flags, mode);
}

FILE *fopen64(const char *path, const char *mode)
{
	return fopen(path, mode);
}

void *mmap64(void *at, size_t n, int prot, int flags, int fd, off64_t offset)
{
	return mmap(at, n, prot, flags, fd, offset);
}

ssize_t pread64(int fd, void *bytes, size_t n, off64_t offset)
{
	return pread(fd, bytes, n, offset);
}

ssize_t pwrite64(int fd, const void *bytes, size_t n, off64_t offset)
{
	return pwrite(fd, bytes, n, offset);
}

int ftruncate64(int fd, off64_t n)
{
	return ftruncate(fd, n);
}

ssize_t sendfile64(int out, int in, off64_t *offset, size_t n)
{
	return sendfile(out, in, offset, n);
}

/* ---- Preloaded ---- */

/* A file that cannot be mapped leaves a process in which nothing fails: its test would notice that nothing did. */
__attribute__((constructor)) static void find_box(void)
{
	const char *path = getenv("FAULT_BOX");
	void *warm[4];

	(void)backtrace(warm, 4); /* it loads a library when it is first called */
	if (!path)
		return;
	n_paused++;
	const int fd = open(path, O_RDWR | O_CLOEXEC);
	struct fault_box *b = fd < 0 ? MAP_FAILED : mmap(NULL, sizeof *b, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (fd >= 0)
		close(fd);
	if (b != MAP_FAILED) {
		atomic_store(&b->n_live, atomic_load(&own.n_live));
		box = b;
	}
	n_paused--;
}
