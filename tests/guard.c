/* The memory of test programs: what lies behind a block is no zero by chance, and stays as it is.
 *
 * New blocks, and 128 bytes behind each, are filled with 0xfe: an element read behind an array's end, or before it was
 * written, is garbage in every run. A block behind which something was written ends the program when it is released. A
 * test program that leaves more blocks than libraries keep (guard_left, which a test may set) fails. AddressSanitizer
 * does better, and takes its place where it is there.
 *
 * Invariants
 *  1. The last 8 bytes of a block that the C library gave have the size that was asked for, xor the block's place; a
 *     block without that is none of these, and is left alone. */
#include "guard.h"

#include <errno.h>
#include <malloc.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void *__libc_malloc(size_t n);
void *__libc_calloc(size_t n, size_t size);
void *__libc_realloc(void *p, size_t n);
void *__libc_memalign(size_t align, size_t n);
void __libc_free(void *p);

enum { FILL = 0xfe,
	BEHIND = 128,
	FILLED_MAX = 1 << 16 };
static const size_t size_max = PTRDIFF_MAX - BEHIND - sizeof(uint64_t);

int guard_left __attribute__((weak)) = 64; /* what libraries keep depends on the machine */
static _Atomic int64_t n_live, n_before;
static pid_t pid;

static uint64_t mark_of(const void *p, size_t n)
{
	return ((uint64_t)(uintptr_t)p * 0x9e3779b97f4a7c15u) ^ n;
}

static void *guarded(void *p, size_t n)
{
	if (!p)
		return NULL;
	atomic_fetch_add_explicit(&n_live, 1, memory_order_relaxed);
	char *end = (char *)p + malloc_usable_size(p) - sizeof(uint64_t);
	const uint64_t mark = mark_of(p, n);
	memset((char *)p + n, FILL, (size_t)(end - ((char *)p + n)));
	memcpy(end, &mark, sizeof mark);
	return p;
}

static void check(void *p)
{
	static const char said[] = "guard: something was written behind a block\n";
	char *end = (char *)p + malloc_usable_size(p) - sizeof(uint64_t);
	uint64_t mark;

	memcpy(&mark, end, sizeof mark);
	const uint64_t n = mark_of(p, mark);
	if (n > (uint64_t)(end - (char *)p) || (uint64_t)(end - (char *)p) - n > 2 * 4096)
		return;
	for (const char *at = (char *)p + n; at < end; at++)
		if (*at != (char)FILL && write(STDERR_FILENO, said, sizeof said - 1) >= 0)
			abort();
	atomic_fetch_sub_explicit(&n_live, 1, memory_order_relaxed);
	memset(end, 0, sizeof mark);
}

/* Libraries have begun by then, and have not ended. */
__attribute__((constructor)) static void begin(void)
{
	atomic_store(&n_before, atomic_load(&n_live));
	pid = getpid();
}

__attribute__((destructor)) static void end(void)
{
	const int64_t n = atomic_load(&n_live) - atomic_load(&n_before);
	const char *max = getenv("COHORT_GUARD_LEFT");

	guard_left = max ? atoi(max) : guard_left;
	if (n <= guard_left || pid != getpid())
		return;
	fflush(NULL);
	fprintf(stderr, "guard: %lld blocks are left, %d expected\n", (long long)n, guard_left);
	_exit(1);
}

static bool fits(size_t n)
{
	if (n > size_max)
		errno = ENOMEM;
	return n <= size_max;
}

void *guard_malloc(size_t n)
{
	void *p = fits(n) ? guarded(__libc_malloc(n + BEHIND), n) : NULL;

	return p ? memset(p, FILL, n < FILLED_MAX ? n : FILLED_MAX) : NULL;
}

void *guard_calloc(size_t n, size_t size)
{
	size_t bytes;

	if (__builtin_mul_overflow(n, size, &bytes) || !fits(bytes)) {
		errno = ENOMEM;
		return NULL;
	}
	return guarded(__libc_calloc(1, bytes + BEHIND), bytes);
}

void *guard_realloc(void *p, size_t n)
{
	if (!fits(n))
		return NULL;
	check(p);
	return guarded(__libc_realloc(p, n + BEHIND), n);
}

void *guard_memalign(size_t align, size_t n)
{
	return fits(n) ? guarded(__libc_memalign(align, n + BEHIND), n) : NULL;
}

void guard_free(void *p)
{
	if (p)
		check(p);
	__libc_free(p);
}

/* fault.c has its own. */
#pragma weak malloc
#pragma weak calloc
#pragma weak realloc
#pragma weak memalign
#pragma weak aligned_alloc
#pragma weak posix_memalign
#pragma weak free

void *malloc(size_t n)
{
	return guard_malloc(n);
}

void *calloc(size_t n, size_t size)
{
	return guard_calloc(n, size);
}

void *realloc(void *p, size_t n)
{
	if (p && n == 0)
		guard_free(p);
	return !p ? guard_malloc(n) : n ? guard_realloc(p, n)
					: NULL;
}

void *memalign(size_t align, size_t n)
{
	return guard_memalign(align, n);
}

void *aligned_alloc(size_t align, size_t n)
{
	return guard_memalign(align, n);
}

int posix_memalign(void **out, size_t align, size_t n)
{
	void *p = guard_memalign(align, n);

	if (!p)
		return ENOMEM;
	*out = p;
	return 0;
}

void free(void *p)
{
	guard_free(p);
}
