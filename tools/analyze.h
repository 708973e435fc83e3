/* What a look at one file at a time cannot see, for tools/analyze.sh, which puts this in front of each file: who never
 * returns 0, and what allocates. */
#ifndef ANALYZE_H
#define ANALYZE_H

#include "base/err.h"
#include "base/mem.h"

#include <stdlib.h>
#include <string.h>

/* No function: those that lie deep are not looked into. */
#define ANALYZE_NEVER_0(type, call)                    \
	({                                             \
		const type analyze_got = (type)(call); \
		if (analyze_got == 0)                  \
			__builtin_unreachable();       \
		analyze_got;                           \
	})
#define err_set(...) ANALYZE_NEVER_0(enum cohort_status, err_set(__VA_ARGS__))
#define err_at(...) ANALYZE_NEVER_0(enum cohort_status, err_at(__VA_ARGS__))
#define err_rule(...) ANALYZE_NEVER_0(enum cohort_status, err_rule(__VA_ARGS__))
#define err_in(err, path, status) (err_prefix(err, "%s", path), (status))

static inline void *analyze_dup(const void *src, size_t n_bytes)
{
	void *p = malloc(n_bytes + 1);
	if (p)
		memcpy(p, src, n_bytes);
	return p;
}
/* Never of no bytes. */
#define mem_alloc(n, size) malloc((size_t)(n) * (size) + 1)
#define mem_zalloc(n, size) calloc((size_t)(n) + 1, (size))
#define mem_realloc(p, n, size) realloc((p), (size_t)(n) * (size) + 1)
#define mem_dup(src, n_bytes) analyze_dup((src), (n_bytes))
#define mem_strndup(s, n) strndup((s), (n))
#define mem_free(p) free(p)

/* The programs' own; the rooms of the library do not see them. */
#ifdef ANALYZE_PROG
#include "common.h"

#define fail(...) ANALYZE_NEVER_0(int, fail(__VA_ARGS__))
#define bad_usage(...) ANALYZE_NEVER_0(int, bad_usage(__VA_ARGS__))
#define out_of_memory(...) ANALYZE_NEVER_0(int, out_of_memory(__VA_ARGS__))
#endif

#endif
