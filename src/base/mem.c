/* Memory with checked sizes and failures on demand.
 *
 * Invariants
 *  1. No size reaches malloc unchecked.
 *  2. The failure hooks are off unless a test turns them on; they are plain relaxed atomics, so threads may allocate.
 */
#include "base/mem.h"

#include <stdatomic.h>
#include <stdlib.h>
#ifdef __GLIBC__
#include <malloc.h>
#endif
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static _Atomic int64_t fail_after = -1;
static _Atomic bool fail_all;
static _Atomic uint64_t n_calls;

bool mem_refused(void)
{
	atomic_fetch_add_explicit(&n_calls, 1, memory_order_relaxed);
	if (atomic_load_explicit(&fail_all, memory_order_relaxed))
		return true;
	if (atomic_load_explicit(&fail_after, memory_order_relaxed) < 0)
		return false;
	return atomic_fetch_sub_explicit(&fail_after, 1, memory_order_relaxed) == 0;
}

void mem_fail_after(int64_t n)
{
	atomic_store(&fail_after, n);
}

void mem_fail_all(bool on)
{
	atomic_store(&fail_all, on);
}

uint64_t mem_count(void)
{
	return atomic_load(&n_calls);
}

void *mem_alloc(size_t n, size_t size)
{
	size_t bytes;
	if (mem_refused() || !size_mul(n, size, &bytes))
		return NULL;
	return malloc(bytes ? bytes : 1);
}

void *mem_zalloc(size_t n, size_t size)
{
	size_t bytes;
	if (mem_refused() || !size_mul(n, size, &bytes))
		return NULL;
	return calloc(bytes ? bytes : 1, 1);
}

void *mem_realloc(void *p, size_t n, size_t size)
{
	size_t bytes;
	if (mem_refused() || !size_mul(n, size, &bytes))
		return NULL;
	return realloc(p, bytes ? bytes : 1);
}

void *mem_dup(const void *src, size_t n_bytes)
{
	void *p = mem_alloc(n_bytes, 1);
	if (p && n_bytes)
		memcpy(p, src, n_bytes);
	return p;
}

char *mem_strndup(const char *s, size_t n)
{
	size_t bytes;
	if (!size_add(n, 1, &bytes))
		return NULL;
	char *p = mem_alloc(bytes, 1);
	if (p) {
		if (n)
			memcpy(p, s, n);
		p[n] = '\0';
	}
	return p;
}

void mem_free(void *p)
{
	free(p);
}

void mem_trim(void)
{
#ifdef __GLIBC__
	malloc_trim(0);
#endif
}

/* The pointer malloc gave sits just before the aligned one. calloc, so that large areas are mapped
 * lazily and a 4,096-sequence table costs only what is touched. */
static void *zalloc_at(size_t bytes, size_t align)
{
	if (!size_add(bytes, align + sizeof(void *), &bytes))
		return NULL;
	char *raw = mem_zalloc(bytes, 1);
	if (!raw)
		return NULL;
	uintptr_t at = ((uintptr_t)raw + sizeof(void *) + align - 1) & ~(uintptr_t)(align - 1);
	memcpy((char *)at - sizeof(void *), &raw, sizeof raw);
	return (void *)at;
}

void *mem_zalloc_aligned(size_t n, size_t size)
{
	size_t bytes;
	return size_mul(n, size, &bytes) ? zalloc_at(bytes, 64) : NULL;
}

/* Advice may be refused; then the pages are small. */
void *mem_zalloc_large(size_t n_bytes)
{
	const size_t page = (size_t)2 << 20;
	void *p = zalloc_at(n_bytes, n_bytes < page ? 64 : page);
#ifdef MADV_HUGEPAGE
	if (p && n_bytes >= page)
		madvise(p, n_bytes & ~(page - 1), MADV_HUGEPAGE);
#endif
	return p;
}

void mem_free_aligned(void *p)
{
	if (p) {
		void *raw;
		memcpy(&raw, (char *)p - sizeof(void *), sizeof raw);
		free(raw);
	}
}

/* Pages for n bytes and the one behind them; 0: too many. */
static size_t guarded_size(size_t bytes)
{
	const size_t page = (size_t)sysconf(_SC_PAGESIZE);
	size_t all;

	return size_add(bytes, 2 * page - 1, &all) ? all / page * page : 0;
}

void *mem_zalloc_guarded(size_t n, size_t size)
{
	const size_t page = (size_t)sysconf(_SC_PAGESIZE);
	size_t bytes;

	if (mem_refused() || !size_mul(n, size, &bytes))
		return NULL;
	const size_t all = guarded_size(bytes);
	char *base = all ? mmap(NULL, all, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) : MAP_FAILED;
	if (base == MAP_FAILED)
		return NULL;
	if (mprotect(base + all - page, page, PROT_NONE) != 0) {
		munmap(base, all);
		return NULL;
	}
	return base + all - page - bytes;
}

void mem_free_guarded(void *p, size_t n, size_t size)
{
	if (p) {
		const size_t page = (size_t)sysconf(_SC_PAGESIZE), all = guarded_size(n * size);
		munmap((char *)p + n * size + page - all, all);
	}
}

bool mem_grow(void **p, size_t *n_max, size_t n_want, size_t size)
{
	if (n_want <= *n_max)
		return true;
	size_t n = *n_max < 16 ? 16 : *n_max;
	while (n < n_want)
		if (!size_mul(n, 2, &n))
			return false;
	void *q = mem_realloc(*p, n, size);
	if (!q)
		return false;
	*p = q;
	*n_max = n;
	return true;
}
