/* Writes GGUF files in memory, byte by byte, right ones and wrong ones: nothing is checked here.
 *
 * It allocates with libc, so that a test may make the library's own allocations fail at any time. */
#ifndef TESTS_GGUF_WRITER_H
#define TESTS_GGUF_WRITER_H

#include "gguf/gguf.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

struct file {
	uint8_t *d;
	size_t n, n_max;
	uint64_t n_kv; /* keys put so far; the header's count is what put_header or put_n_kv said */
};

static inline void file_release(struct file *f)
{
	free(f->d);
	*f = (struct file){0};
}

static inline void put(struct file *f, const void *p, size_t n)
{
	if (f->n + n > f->n_max) {
		f->n_max = 2 * (f->n + n);
		f->d = realloc(f->d, f->n_max);
		if (!f->d)
			abort();
	}
	if (n)
		memcpy(f->d + f->n, p, n);
	f->n += n;
}

static inline void put_u8(struct file *f, uint8_t v) { put(f, &v, sizeof v); }
static inline void put_u16(struct file *f, uint16_t v) { put(f, &v, sizeof v); }
static inline void put_u32(struct file *f, uint32_t v) { put(f, &v, sizeof v); }
static inline void put_u64(struct file *f, uint64_t v) { put(f, &v, sizeof v); }
static inline void put_f32(struct file *f, float v) { put(f, &v, sizeof v); }
static inline void put_f64(struct file *f, double v) { put(f, &v, sizeof v); }

static inline void put_strn(struct file *f, const char *s, size_t n)
{
	put_u64(f, n);
	put(f, s, n);
}

static inline void put_str(struct file *f, const char *s)
{
	put_strn(f, s, strlen(s));
}

/* Starts anew. */
static inline void put_header(struct file *f, uint32_t version, uint64_t n_tensors, uint64_t n_kv)
{
	f->n = 0;
	f->n_kv = 0;
	put(f, "GGUF", 4);
	put_u32(f, version);
	put_u64(f, n_tensors);
	put_u64(f, n_kv);
}

/* Makes the header's count of keys the number put. */
static inline void put_n_kv(struct file *f)
{
	memcpy(f->d + 16, &f->n_kv, 8);
}

static inline void put_key(struct file *f, const char *key, uint32_t type)
{
	put_str(f, key);
	put_u32(f, type);
	f->n_kv++;
}

static inline void put_kv_u32(struct file *f, const char *key, uint32_t v)
{
	put_key(f, key, GGUF_U32);
	put_u32(f, v);
}

static inline void put_kv_str(struct file *f, const char *key, const char *s)
{
	put_key(f, key, GGUF_STRING);
	put_str(f, s);
}

/* The elements are put behind it. */
static inline void put_array(struct file *f, const char *key, uint32_t type, uint64_t n)
{
	put_key(f, key, GGUF_ARRAY);
	put_u32(f, type);
	put_u64(f, n);
}

static inline void put_tensor(struct file *f, const char *name, uint32_t n_dims, const uint64_t *ne, uint32_t type,
		uint64_t offset)
{
	put_str(f, name);
	put_u32(f, n_dims);
	for (uint32_t i = 0; i < n_dims; i++)
		put_u64(f, ne[i]);
	put_u32(f, type);
	put_u64(f, offset);
}

static inline void put_pad(struct file *f, size_t alignment)
{
	while (f->n % alignment)
		put_u8(f, 0);
}

static inline void put_fill(struct file *f, size_t n)
{
	while (n--)
		put_u8(f, 0xa5);
}

/* A directory without tensors needs no sizes. */
static inline bool no_tensor(uint32_t type, uint64_t ne0, uint64_t n_rows, uint64_t *n_bytes, bool *bad_row)
{
	(void)type, (void)ne0, (void)n_rows, (void)n_bytes, (void)bad_row;
	return false;
}

#endif
