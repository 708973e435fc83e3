/* What MemorySanitizer has to be told: part of every test of its build (b_sanitize=memory), and of no other.
 *
 * It sees what the code that it compiled writes, not what libraries write. So the linker (--wrap, see meson.build) lets
 * calls to some functions come here first.
 *
 * Invariants
 *  1. Memory that our code allocates counts as unwritten. Memory that a library allocates counts as written, whether it
 *     does so by itself or through functions that we hand to it.
 *  2. Behind a call to a library, what it wrote through our pointers counts as written: no more bytes than it wrote,
 * where that is known. */
#include <jansson.h>
#include <malloc.h>
#include <sanitizer/msan_interface.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <utf8proc.h>
#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

/* REAL(TYPE, NAME, PARAMETERS) { ... }: what is called in NAME's place; __real_NAME is itself. */
#define REAL(type, name, ...) \
	type __real_##name(__VA_ARGS__); \
	type __wrap_##name(__VA_ARGS__); \
	type __wrap_##name(__VA_ARGS__)

/* ---- Memory ---- */

void __sanitizer_malloc_hook(const volatile void *p, size_t n);
void __sanitizer_malloc_hook(const volatile void *p, size_t n)
{
	__msan_unpoison(p, n);
}

REAL(void *, malloc, size_t n)
{
	void *p = __real_malloc(n);

	if (p)
		__msan_allocated_memory(p, n);
	return p;
}

REAL(void *, realloc, void *p, size_t n)
{
	const size_t n_old = p ? malloc_usable_size(p) : 0;
	char *q = __real_realloc(p, n);

	if (q && n > n_old)
		__msan_allocated_memory(q + n_old, n - n_old);
	return q;
}

/* ---- Files: calls of newer C libraries that MemorySanitizer does not know; the build has files of 64 bits ---- */

REAL(int, fstat64, int fd, struct stat *st)
{
	const int got = __real_fstat64(fd, st);

	__msan_unpoison(st, got ? 0 : sizeof *st);
	return got;
}

REAL(int, lstat64, const char *path, struct stat *st)
{
	const int got = __real_lstat64(path, st);

	__msan_unpoison(st, got ? 0 : sizeof *st);
	return got;
}

REAL(int, stat64, const char *path, struct stat *st)
{
	const int got = __real_stat64(path, st);

	__msan_unpoison(st, got ? 0 : sizeof *st);
	return got;
}

/* ---- jansson ---- */

static json_malloc_t json_give;

static void *give_json(size_t n)
{
	void *p = json_give(n);

	if (p)
		__msan_unpoison(p, n);
	return p;
}

REAL(void, json_set_alloc_funcs, json_malloc_t give, json_free_t take)
{
	json_give = give;
	__real_json_set_alloc_funcs(give_json, take);
}

REAL(json_t *, json_loadb, const char *s, size_t n, size_t flags, json_error_t *why)
{
	json_t *v = __real_json_loadb(s, n, flags, why);

	if (why)
		__msan_unpoison(why, sizeof *why);
	return v;
}

REAL(json_t *, json_loads, const char *s, size_t flags, json_error_t *why)
{
	json_t *v = __real_json_loads(s, flags, why);

	if (why)
		__msan_unpoison(why, sizeof *why);
	return v;
}

REAL(size_t, json_dumpb, const json_t *v, char *out, size_t n_max, size_t flags)
{
	const size_t n = __real_json_dumpb(v, out, n_max, flags);

	if (out)
		__msan_unpoison(out, n < n_max ? n : n_max);
	return n;
}

/* ---- PCRE2 ---- */

static void *(*pcre_give)(PCRE2_SIZE n, void *data); /* the one function that there is */

static void *give_pcre(PCRE2_SIZE n, void *data)
{
	void *p = pcre_give(n, data);

	if (p)
		__msan_unpoison(p, n);
	return p;
}

REAL(pcre2_general_context *, pcre2_general_context_create_8, void *(*give)(PCRE2_SIZE n, void *data),
		void (*take)(void *p, void *data), void *data)
{
	pcre_give = give;
	return __real_pcre2_general_context_create_8(give ? give_pcre : NULL, take, data);
}

REAL(pcre2_code *, pcre2_compile_8, PCRE2_SPTR8 pattern, PCRE2_SIZE n, uint32_t options, int *status, PCRE2_SIZE *at,
		pcre2_compile_context *context)
{
	pcre2_code *code = __real_pcre2_compile_8(pattern, n, options, status, at, context);

	__msan_unpoison(status, sizeof *status);
	__msan_unpoison(at, sizeof *at);
	return code;
}

REAL(int, pcre2_get_error_message_8, int status, PCRE2_UCHAR8 *text, PCRE2_SIZE n_max)
{
	const int n = __real_pcre2_get_error_message_8(status, text, n_max);

	__msan_unpoison(text, n >= 0 ? (size_t)n + 1 : n_max);
	return n;
}

/* ---- utf8proc ---- */

REAL(utf8proc_ssize_t, utf8proc_decompose_char, utf8proc_int32_t cp, utf8proc_int32_t *out, utf8proc_ssize_t n_max,
		utf8proc_option_t options, int *boundary)
{
	const utf8proc_ssize_t n = __real_utf8proc_decompose_char(cp, out, n_max, options, boundary);

	if (n > 0)
		__msan_unpoison(out, (size_t)(n < n_max ? n : n_max) * sizeof *out);
	if (boundary)
		__msan_unpoison(boundary, sizeof *boundary);
	return n;
}
