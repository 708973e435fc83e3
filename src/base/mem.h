/* Memory: the only callers of malloc. Every allocation can be made to fail, for the torture tests. */
#ifndef BASE_MEM_H
#define BASE_MEM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Checked sizes: false on overflow, *out untouched. */
static inline bool size_mul(size_t a, size_t b, size_t *out)
{
	size_t r;
	if (__builtin_mul_overflow(a, b, &r))
		return false;
	*out = r;
	return true;
}
static inline bool size_add(size_t a, size_t b, size_t *out)
{
	size_t r;
	if (__builtin_add_overflow(a, b, &r))
		return false;
	*out = r;
	return true;
}

/* All return NULL when n * size overflows, memory is out, or a failure was asked for.
 * A zero size gives a valid pointer. */
void *mem_alloc(size_t n, size_t size);              /* uninitialised */
void *mem_zalloc(size_t n, size_t size);             /* zeroed, lazily by the OS when large */
void *mem_realloc(void *p, size_t n, size_t size);   /* p is untouched on failure */
void *mem_dup(const void *src, size_t n_bytes);
char *mem_strndup(const char *s, size_t n);
void mem_free(void *p);

/* 64-byte aligned, zeroed; freed by mem_free_aligned. */
void *mem_zalloc_aligned(size_t n, size_t size);
/* The same for what is large and read as a whole: in the system's large pages where it has them. */
void *mem_zalloc_large(size_t n_bytes);
void mem_free_aligned(void *p);
/* n elements of `size`, zeroed, for code that may write too far: after the last element comes a page without access.
 * Elements are aligned to what divides both size and 64. Freed with the same n and size. */
void *mem_zalloc_guarded(size_t n, size_t size);
void mem_free_guarded(void *p, size_t n, size_t size);

/* Grows *p (of *n_max elements of `size`) to hold at least n_want; amortised doubling. */
bool mem_grow(void **p, size_t *n_max, size_t n_want, size_t size);

/* Gives the system all pages that nobody has anything in, where the C library can. It takes milliseconds, in which
 * others that allocate may wait. */
void mem_trim(void);

/* Tests: the n-th allocation from now fails, once (0: the next; negative: none). */
void mem_fail_after(int64_t n);
/* Tests: every allocation fails while on (a warm decode must not notice). */
void mem_fail_all(bool on);
/* Whether a failure was asked for, of something that is no allocation of ours but may need one: it counts as such. */
bool mem_refused(void);
/* Allocations asked for since the program started. */
uint64_t mem_count(void);

#endif
