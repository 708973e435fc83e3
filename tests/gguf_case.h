/* What the tests of the GGUF reader share: parsing what the writer wrote, and two files to begin with.
 *
 * Files are parsed where their last byte is the last that can be read, so that a read past the end is seen. */
#ifndef TESTS_GGUF_CASE_H
#define TESTS_GGUF_CASE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "gguf_writer.h"

/* Type 0: 4 bytes per element; 1: 2 bytes; 2: blocks of 32 elements in 18 bytes; others are unknown. */
static inline bool test_size(uint32_t type, uint64_t ne0, uint64_t n_rows, uint64_t *n_bytes, bool *bad_row)
{
	uint64_t block = type == 2 ? 32 : 1, block_bytes = type == 2 ? 18 : type == 1 ? 2 : 4, n;

	if (type > 2)
		return false;
	if (ne0 % block) {
		*bad_row = true;
		return true;
	}
	if (__builtin_mul_overflow(ne0 / block, block_bytes, &n) || __builtin_mul_overflow(n, n_rows, &n))
		n = UINT64_MAX;
	*n_bytes = n;
	return true;
}

/* The copy parsed last, behind which no byte can be read; kept until the next one or drop(). */
static uint8_t *kept;
static uint8_t *kept_pages;
static size_t n_kept_pages; /* in bytes */

static inline void drop(void)
{
	if (kept_pages)
		munmap(kept_pages, n_kept_pages);
	kept_pages = NULL;
}

static inline enum cohort_status parse_n(struct gguf *g, const struct file *f, size_t n, struct cohort_err *err)
{
	const size_t page = (size_t)sysconf(_SC_PAGESIZE), room = (n + page - 1) / page * page;

	drop();
	n_kept_pages = room + page;
	kept_pages = mmap(NULL, n_kept_pages, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_true(kept_pages != MAP_FAILED && !mprotect(kept_pages + room, page, PROT_NONE));
	kept = kept_pages + room - n;
	if (n)
		memcpy(kept, f->d, n);
	return gguf_parse(g, kept, n, test_size, err);
}

static inline void assert_zeroed(const struct gguf *g)
{
	static const struct gguf zero;

	assert_null(g->parts);
	assert_int_equal(g->n_parts, 0);
	assert_int_equal(g->version, 0);
	assert_null(g->kv);
	assert_null(g->tensors);
	assert_int_equal(g->n_kv + g->n_tensors, 0);
	assert_memory_equal(&g->by_key, &zero.by_key, sizeof zero.by_key);
	assert_memory_equal(&g->by_name, &zero.by_name, sizeof zero.by_name);
}

static inline void accept(struct gguf *g, const struct file *f)
{
	struct cohort_err err = {0};
	enum cohort_status st = parse_n(g, f, f->n, &err);

	if (st)
		print_error("refused: %s\n", err.text);
	assert_int_equal(st, COHORT_OK);
}

/* Parses f, which must be refused, and frees it. */
static inline void refuse(struct file *f, enum cohort_status status, int64_t offset, const char *word)
{
	struct cohort_err err = {0};
	struct gguf g;
	enum cohort_status st;

	memset(&g, 0x5a, sizeof g);
	st = parse_n(&g, f, f->n, &err);
	if (st != status || err.offset != offset || !strstr(err.text, word))
		print_error("status %d, offset %lld: %s (wanted %d, %lld, '%s')\n", (int)st, (long long)err.offset,
				err.text, (int)status, (long long)offset, word);
	assert_int_equal(st, status);
	assert_int_equal(err.status, status);
	assert_int_equal(err.offset, offset);
	assert_non_null(strstr(err.text, word));
	assert_null(strchr(err.text, '\n'));
	assert_zeroed(&g);
	/* Without a place for the error the status is the same. */
	assert_int_equal(parse_n(&g, f, f->n, NULL), status);
	drop();
	file_release(f);
}

/* A file with something of everything; the last byte is the last tensor's. */
static inline void representative(struct file *f, uint32_t version)
{
	put_header(f, version, 4, 18);
	put_key(f, "u8", GGUF_U8);
	put_u8(f, 200);
	put_key(f, "i8", GGUF_I8);
	put_u8(f, (uint8_t)-100);
	put_key(f, "u16", GGUF_U16);
	put_u16(f, 60000);
	put_key(f, "i16", GGUF_I16);
	put_u16(f, (uint16_t)-30000);
	put_kv_u32(f, "u32", 4000000000u);
	put_key(f, "i32", GGUF_I32);
	put_u32(f, (uint32_t)-2000000000);
	put_key(f, "f32", GGUF_F32);
	put_f32(f, 1.5f);
	put_key(f, "yes", GGUF_BOOL);
	put_u8(f, 1);
	put_key(f, "no", GGUF_BOOL);
	put_u8(f, 0);
	put_key(f, "str", GGUF_STRING);
	put_strn(f, "a\0\xff", 3);
	put_key(f, "u64", GGUF_U64);
	put_u64(f, UINT64_MAX);
	put_key(f, "i64", GGUF_I64);
	put_u64(f, (uint64_t)INT64_MIN);
	put_key(f, "f64", GGUF_F64);
	put_f64(f, -0.1);
	put_array(f, "ints", GGUF_I32, 3);
	put_u32(f, 1);
	put_u32(f, (uint32_t)-2);
	put_u32(f, 3);
	put_array(f, "strs", GGUF_STRING, 3);
	put_str(f, "one");
	put_str(f, "");
	put_str(f, "three");
	put_array(f, "bools", GGUF_BOOL, 2);
	put_u8(f, 0);
	put_u8(f, 1);
	put_array(f, "nested", GGUF_ARRAY, 3); /* [["x"], [], [[7, 8]]] */
	put_u32(f, GGUF_STRING);
	put_u64(f, 1);
	put_str(f, "x");
	put_u32(f, GGUF_F64);
	put_u64(f, 0);
	put_u32(f, GGUF_ARRAY);
	put_u64(f, 1);
	put_u32(f, GGUF_U16);
	put_u64(f, 2);
	put_u16(f, 7);
	put_u16(f, 8);
	put_kv_u32(f, "general.alignment", 64);
	put_tensor(f, "a", 1, (uint64_t[]){5}, 0, 0);                 /* 20 bytes */
	put_tensor(f, "b", 2, (uint64_t[]){64, 3}, 2, 64);            /* 108 bytes */
	put_tensor(f, "odd", 3, (uint64_t[]){7, 2, 2}, 99, 192);      /* of a type nobody knows */
	put_tensor(f, "c", 4, (uint64_t[]){3, 1, 2, 2}, 1, 256);      /* 24 bytes */
	put_pad(f, 64);
	put_fill(f, 256 + 24);
}

/* 500 keys and 500 tensors, so that every table grows several times. */
static inline void many(struct file *f)
{
	char name[32];

	put_header(f, 3, 500, 500);
	for (unsigned i = 0; i < 500; i++) {
		snprintf(name, sizeof name, "key.%u", i);
		put_kv_u32(f, name, i);
	}
	for (unsigned i = 0; i < 500; i++) {
		snprintf(name, sizeof name, "tensor.%u", i);
		put_tensor(f, name, 1, (uint64_t[]){8}, 0, 32 * (499 - i));
	}
	put_pad(f, 32);
	put_fill(f, 500 * 32);
}

/* Reads every element, so that a wrong length would be seen. */
static inline uint64_t walk_array(const struct gguf_array *a)
{
	struct gguf_kv v;
	uint64_t sum = 0;
	size_t at = 0;

	for (uint64_t i = 0; i < a->n; i++) {
		gguf_array_next(a, &at, &v);
		if (v.type == GGUF_ARRAY)
			sum += walk_array(&v.arr);
		else if (v.type == GGUF_STRING)
			for (size_t j = 0; j < v.str.n; j++)
				sum += (uint8_t)v.str.s[j];
		else
			sum += v.u;
	}
	assert_int_equal(at, a->n_bytes);
	return sum;
}

static inline uint64_t walk(const struct gguf *g)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < g->n_kv; i++)
		if (g->kv[i].type == GGUF_ARRAY)
			sum += walk_array(&g->kv[i].arr);
	for (size_t i = 0; i < g->n_tensors; i++)
		if (g->tensors[i].data)
			sum += g->tensors[i].data[0] + g->tensors[i].data[g->tensors[i].n_bytes - 1];
	return sum;
}

#endif
