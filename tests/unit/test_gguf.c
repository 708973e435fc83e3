/* The GGUF reader against files written here byte by byte: what it must accept, every refusal with its offset, every
 * truncation, single-byte changes, and allocations that fail.
 *
 * Files are parsed from heap blocks of their exact size, so that the address sanitizer sees a read past the end. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/mem.h"
#include "gguf/gguf.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- A small writer ---- */

struct file {
	uint8_t *d;
	size_t n, n_max;
};

static void put(struct file *f, const void *p, size_t n)
{
	if (f->n + n > f->n_max) {
		f->n_max = 2 * (f->n + n);
		f->d = realloc(f->d, f->n_max);
		assert_non_null(f->d);
	}
	if (n)
		memcpy(f->d + f->n, p, n);
	f->n += n;
}

static void put_u8(struct file *f, uint8_t v) { put(f, &v, sizeof v); }
static void put_u16(struct file *f, uint16_t v) { put(f, &v, sizeof v); }
static void put_u32(struct file *f, uint32_t v) { put(f, &v, sizeof v); }
static void put_u64(struct file *f, uint64_t v) { put(f, &v, sizeof v); }
static void put_f32(struct file *f, float v) { put(f, &v, sizeof v); }
static void put_f64(struct file *f, double v) { put(f, &v, sizeof v); }

static void put_strn(struct file *f, const char *s, size_t n)
{
	put_u64(f, n);
	put(f, s, n);
}

static void put_str(struct file *f, const char *s)
{
	put_strn(f, s, strlen(s));
}

static void header(struct file *f, uint32_t version, uint64_t n_tensors, uint64_t n_kv)
{
	f->n = 0;
	put(f, "GGUF", 4);
	put_u32(f, version);
	put_u64(f, n_tensors);
	put_u64(f, n_kv);
}

static void put_key(struct file *f, const char *key, uint32_t type)
{
	put_str(f, key);
	put_u32(f, type);
}

static void put_kv_u32(struct file *f, const char *key, uint32_t v)
{
	put_key(f, key, GGUF_U32);
	put_u32(f, v);
}

static void put_array(struct file *f, const char *key, uint32_t type, uint64_t n)
{
	put_key(f, key, GGUF_ARRAY);
	put_u32(f, type);
	put_u64(f, n);
}

static void put_tensor(struct file *f, const char *name, uint32_t n_dims, const uint64_t *ne, uint32_t type,
		uint64_t offset)
{
	put_str(f, name);
	put_u32(f, n_dims);
	for (uint32_t i = 0; i < n_dims; i++)
		put_u64(f, ne[i]);
	put_u32(f, type);
	put_u64(f, offset);
}

static void pad(struct file *f, size_t alignment)
{
	while (f->n % alignment)
		put_u8(f, 0);
}

static void put_fill(struct file *f, size_t n)
{
	while (n--)
		put_u8(f, 0xa5);
}

/* ---- Parsing what was written ---- */

/* Type 0: 4 bytes per element; 1: 2 bytes; 2: blocks of 32 elements in 18 bytes; others are unknown. */
static bool test_size(uint32_t type, uint64_t ne0, uint64_t n_rows, uint64_t *n_bytes, bool *bad_row)
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

/* The copy parsed last; kept until the next one or drop(). */
static uint8_t *kept;

static void drop(void)
{
	free(kept);
	kept = NULL;
}

static enum cohort_status parse_n(struct gguf *g, const struct file *f, size_t n, struct cohort_err *err)
{
	drop();
	kept = malloc(n ? n : 1);
	assert_non_null(kept);
	if (n)
		memcpy(kept, f->d, n);
	return gguf_parse(g, kept, n, test_size, err);
}

static void assert_zeroed(const struct gguf *g)
{
	static const struct gguf zero;

	assert_null(g->map.data);
	assert_int_equal(g->map.n_bytes, 0);
	assert_false(g->mapped);
	assert_int_equal(g->version, 0);
	assert_null(g->kv);
	assert_null(g->tensors);
	assert_int_equal(g->n_kv + g->n_tensors, 0);
	assert_memory_equal(&g->by_key, &zero.by_key, sizeof zero.by_key);
	assert_memory_equal(&g->by_name, &zero.by_name, sizeof zero.by_name);
}

static void accept(struct gguf *g, const struct file *f)
{
	struct cohort_err err = {0};
	enum cohort_status st = parse_n(g, f, f->n, &err);

	if (st)
		print_error("refused: %s\n", err.text);
	assert_int_equal(st, COHORT_OK);
}

/* Parses f, which must be refused, and frees it. */
static void refuse(struct file *f, enum cohort_status status, int64_t offset, const char *word)
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
	free(f->d);
}

/* A file with something of everything; the last byte is the last tensor's. */
static void representative(struct file *f, uint32_t version)
{
	header(f, version, 4, 18);
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
	pad(f, 64);
	put_fill(f, 256 + 24);
}

/* ---- What must be accepted ---- */

static void check_representative(uint32_t version)
{
	struct file f = {0};
	struct gguf g;
	const struct gguf_tensor *t;

	representative(&f, version);
	accept(&g, &f);
	assert_int_equal(g.version, version);
	assert_int_equal(g.alignment, 64);
	assert_int_equal(g.n_kv, 18);
	assert_int_equal(g.n_tensors, 4);
	assert_int_equal(g.data_offset % 64, 0);
	assert_int_equal(g.data_offset + 256 + 24, f.n);
	for (size_t i = 0; i < g.n_kv; i++) {
		uint64_t n;
		memcpy(&n, kept + g.kv[i].offset, 8);
		assert_int_equal(n, g.kv[i].key.n);
	}

	assert_int_equal(gguf_find(&g, "u8")->u, 200);
	assert_int_equal(gguf_find(&g, "i8")->i, -100);
	assert_int_equal(gguf_find(&g, "u16")->u, 60000);
	assert_int_equal(gguf_find(&g, "i16")->i, -30000);
	assert_int_equal(gguf_find(&g, "u32")->u, 4000000000u);
	assert_int_equal(gguf_find(&g, "i32")->i, -2000000000);
	assert_true(gguf_find(&g, "f32")->f == 1.5);
	assert_int_equal(gguf_find(&g, "yes")->u, 1);
	assert_int_equal(gguf_find(&g, "no")->u, 0);
	assert_int_equal(gguf_find(&g, "str")->str.n, 3);
	assert_memory_equal(gguf_find(&g, "str")->str.s, "a\0\xff", 3);
	assert_true(gguf_find(&g, "u64")->u == UINT64_MAX);
	assert_true(gguf_find(&g, "i64")->i == INT64_MIN);
	assert_true(gguf_find(&g, "f64")->f == -0.1);
	assert_null(gguf_find(&g, "absent"));
	assert_null(gguf_find(&g, ""));

	t = gguf_find_tensor(&g, "a");
	assert_non_null(t);
	assert_int_equal(t->n_dims, 1);
	assert_int_equal(t->ne[0], 5);
	assert_int_equal(t->ne[1] * t->ne[2] * t->ne[3], 1);
	assert_int_equal(t->n_bytes, 20);
	assert_int_equal(t->offset, g.data_offset);
	assert_ptr_equal(t->data, kept + t->offset);
	assert_ptr_equal(t->name.s, kept + t->entry_offset + 8);
	t = gguf_find_tensor(&g, "b");
	assert_int_equal(t->n_bytes, 108);
	assert_int_equal(t->offset, g.data_offset + 64);
	t = gguf_find_tensor(&g, "odd");
	assert_int_equal(t->type, 99);
	assert_int_equal(t->n_bytes, 0);
	assert_null(t->data);
	assert_int_equal(t->offset, g.data_offset + 192);
	t = gguf_find_tensor(&g, "c");
	assert_int_equal(t->n_dims, 4);
	assert_int_equal(t->n_bytes, 24);
	assert_int_equal(t->offset + t->n_bytes, f.n);
	assert_null(gguf_find_tensor(&g, "absent"));
	gguf_release(&g);
	assert_zeroed(&g);
	gguf_release(&g);
	gguf_release(NULL);
	drop();
	free(f.d);
}

static void test_v2(void **state)
{
	(void)state;
	check_representative(2);
}

static void test_v3(void **state)
{
	(void)state;
	check_representative(3);
}

static void test_arrays(void **state)
{
	struct file f = {0};
	struct gguf g;
	struct gguf_array a;
	struct gguf_kv v, w, x;
	struct gguf_str s;
	size_t at = 0, at_in = 0, at_deep = 0;

	(void)state;
	representative(&f, 3);
	accept(&g, &f);
	assert_int_equal(gguf_get_array(&g, "ints", true, GGUF_I32, &a, NULL), COHORT_OK);
	assert_int_equal(a.n, 3);
	assert_int_equal(a.n_bytes, 12);
	assert_int_equal(gguf_array_i32(&a, 0), 1);
	assert_int_equal(gguf_array_i32(&a, 1), -2);
	assert_int_equal(gguf_array_i32(&a, 2), 3);
	at = 1 * gguf_type_bytes(GGUF_I32);
	gguf_array_next(&a, &at, &v);
	assert_int_equal(v.type, GGUF_I32);
	assert_int_equal(v.i, -2);
	assert_int_equal(v.key.n, 0);

	assert_int_equal(gguf_get_array(&g, "strs", true, GGUF_STRING, &a, NULL), COHORT_OK);
	at = 0;
	s = gguf_array_next_str(&a, &at);
	assert_int_equal(s.n, 3);
	assert_memory_equal(s.s, "one", 3);
	s = gguf_array_next_str(&a, &at);
	assert_int_equal(s.n, 0);
	s = gguf_array_next_str(&a, &at);
	assert_int_equal(s.n, 5);
	assert_memory_equal(s.s, "three", 5);
	assert_int_equal(at, a.n_bytes);
	/* Past the end there is an empty value, and the place does not move. */
	gguf_array_next(&a, &at, &v);
	assert_int_equal(v.str.n, 0);
	assert_int_equal(at, a.n_bytes);

	assert_int_equal(gguf_get_array(&g, "nested", true, GGUF_ARRAY, &a, NULL), COHORT_OK);
	at = 0;
	gguf_array_next(&a, &at, &v);
	assert_int_equal(v.type, GGUF_ARRAY);
	assert_int_equal(v.arr.type, GGUF_STRING);
	assert_int_equal(v.arr.n, 1);
	gguf_array_next(&v.arr, &at_in, &w);
	assert_int_equal(w.str.n, 1);
	assert_int_equal(w.str.s[0], 'x');
	gguf_array_next(&a, &at, &v);
	assert_int_equal(v.arr.type, GGUF_F64);
	assert_int_equal(v.arr.n, 0);
	assert_int_equal(v.arr.n_bytes, 0);
	gguf_array_next(&a, &at, &v);
	assert_int_equal(v.arr.type, GGUF_ARRAY);
	at_in = 0;
	gguf_array_next(&v.arr, &at_in, &w);
	assert_int_equal(w.arr.type, GGUF_U16);
	assert_int_equal(w.arr.n, 2);
	gguf_array_next(&w.arr, &at_deep, &x);
	assert_int_equal(x.u, 7);
	gguf_array_next(&w.arr, &at_deep, &x);
	assert_int_equal(x.u, 8);
	assert_int_equal(at, a.n_bytes);
	gguf_release(&g);
	drop();
	free(f.d);
}

static void test_array_of_each_type(void **state)
{
	(void)state;
	for (uint32_t type = 0; type < GGUF_N_TYPES; type++) {
		struct file f = {0};
		struct gguf g;
		struct gguf_kv v;
		struct gguf_array a;
		size_t at = 0, size = gguf_type_bytes((enum gguf_type)type);

		header(&f, 3, 0, 2);
		put_array(&f, "empty", type, 0);
		put_array(&f, "two", type, 2);
		for (int i = 0; i < 2; i++) {
			if (type == GGUF_STRING) {
				put_str(&f, "hm");
			} else if (type == GGUF_ARRAY) {
				put_u32(&f, GGUF_U8);
				put_u64(&f, 0);
			} else {
				put_u8(&f, 1);
				for (size_t j = 1; j < size; j++)
					put_u8(&f, 0);
			}
		}
		accept(&g, &f);
		assert_int_equal(gguf_get_array(&g, "empty", true, (enum gguf_type)type, &a, NULL), COHORT_OK);
		assert_int_equal(a.n, 0);
		assert_int_equal(gguf_get_array(&g, "two", true, (enum gguf_type)type, &a, NULL), COHORT_OK);
		assert_int_equal(a.n, 2);
		for (int i = 0; i < 2; i++) {
			gguf_array_next(&a, &at, &v);
			assert_int_equal(v.type, type);
			if (type == GGUF_STRING)
				assert_int_equal(v.str.n, 2);
			else if (type == GGUF_ARRAY)
				assert_int_equal(v.arr.n, 0);
			else if (type != GGUF_F32 && type != GGUF_F64)
				assert_int_equal(v.u, 1);
		}
		assert_int_equal(at, a.n_bytes);
		gguf_release(&g);
		drop();
		free(f.d);
	}
}

static void test_float_array_unaligned(void **state)
{
	struct file f = {0};
	struct gguf g;
	struct gguf_array a;

	(void)state;
	header(&f, 3, 0, 1);
	put_array(&f, "f", GGUF_F32, 2); /* the odd length of the key puts the floats at an odd address */
	put_f32(&f, 0.25f);
	put_f32(&f, -8.0f);
	accept(&g, &f);
	assert_int_equal(gguf_get_array(&g, "f", true, GGUF_F32, &a, NULL), COHORT_OK);
	assert_true(gguf_array_f32(&a, 0) == 0.25f);
	assert_true(gguf_array_f32(&a, 1) == -8.0f);
	gguf_release(&g);
	drop();
	free(f.d);
}

static void test_depth_4(void **state)
{
	struct file f = {0};
	struct gguf g;

	(void)state;
	header(&f, 3, 0, 1);
	put_key(&f, "k", GGUF_ARRAY);
	for (int i = 0; i < 3; i++) {
		put_u32(&f, GGUF_ARRAY);
		put_u64(&f, 1);
	}
	put_u32(&f, GGUF_U8);
	put_u64(&f, 1);
	put_u8(&f, 9);
	accept(&g, &f);
	gguf_release(&g);
	drop();
	free(f.d);
}

static void test_default_alignment(void **state)
{
	struct file f = {0};
	struct gguf g;

	(void)state;
	header(&f, 3, 2, 0);
	put_tensor(&f, "x", 1, (uint64_t[]){1}, 0, 32); /* not in the order of their data */
	put_tensor(&f, "y", 1, (uint64_t[]){8}, 0, 0);
	pad(&f, 32);
	put_fill(&f, 36);
	accept(&g, &f);
	assert_int_equal(g.alignment, 32);
	assert_int_equal(g.data_offset % 32, 0);
	assert_int_equal(gguf_find_tensor(&g, "x")->offset, g.data_offset + 32);
	gguf_release(&g);
	drop();
	free(f.d);
}

static void test_alignments(void **state)
{
	(void)state;
	for (uint32_t alignment = 8; alignment <= 1u << 20; alignment *= 2) {
		struct file f = {0};
		struct gguf g;
		header(&f, 3, 1, 1);
		put_kv_u32(&f, "general.alignment", alignment);
		put_tensor(&f, "x", 1, (uint64_t[]){2}, 0, 0);
		pad(&f, alignment);
		put_fill(&f, 8);
		accept(&g, &f);
		assert_int_equal(g.alignment, alignment);
		assert_int_equal(g.data_offset + 8, f.n);
		gguf_release(&g);
		drop();
		free(f.d);
	}
}

/* A file without tensors may end right behind its metadata, or with padding. */
static void test_no_tensors(void **state)
{
	struct file f = {0};
	struct gguf g;

	(void)state;
	header(&f, 3, 0, 0);
	accept(&g, &f);
	assert_int_equal(g.n_kv, 0);
	assert_int_equal(g.data_offset, 24);
	assert_null(gguf_find(&g, "k"));
	gguf_release(&g);
	header(&f, 3, 0, 1);
	put_kv_u32(&f, "k", 7);
	accept(&g, &f);
	assert_int_equal(g.data_offset, f.n);
	gguf_release(&g);
	pad(&f, 32);
	put_fill(&f, 40);
	accept(&g, &f);
	assert_int_equal(g.data_offset, 64);
	gguf_release(&g);
	drop();
	free(f.d);
}

/* 500 keys and 500 tensors, so that every table grows several times. */
static void many(struct file *f)
{
	char name[32];

	header(f, 3, 500, 500);
	for (unsigned i = 0; i < 500; i++) {
		snprintf(name, sizeof name, "key.%u", i);
		put_kv_u32(f, name, i);
	}
	for (unsigned i = 0; i < 500; i++) {
		snprintf(name, sizeof name, "tensor.%u", i);
		put_tensor(f, name, 1, (uint64_t[]){8}, 0, 32 * (499 - i));
	}
	pad(f, 32);
	put_fill(f, 500 * 32);
}

static void test_many(void **state)
{
	struct file f = {0};
	struct gguf g;
	char name[32];

	(void)state;
	many(&f);
	accept(&g, &f);
	for (unsigned i = 0; i < 500; i++) {
		uint32_t u = 0;
		snprintf(name, sizeof name, "key.%u", i);
		assert_int_equal(gguf_get_u32(&g, name, true, &u, NULL), COHORT_OK);
		assert_int_equal(u, i);
		snprintf(name, sizeof name, "tensor.%u", i);
		assert_int_equal(gguf_find_tensor(&g, name)->offset, g.data_offset + 32 * (499 - i));
	}
	gguf_release(&g);
	drop();
	free(f.d);
}

static void test_longest_names(void **state)
{
	struct file f = {0};
	struct gguf g;
	char *key = malloc(65536), name[65];

	(void)state;
	assert_non_null(key);
	memset(key, 'k', 65535);
	key[65535] = '\0';
	memset(name, 'n', 64);
	name[64] = '\0';
	header(&f, 3, 1, 1);
	put_kv_u32(&f, key, 5);
	put_tensor(&f, name, 1, (uint64_t[]){1}, 0, 0);
	pad(&f, 32);
	put_fill(&f, 4);
	accept(&g, &f);
	assert_int_equal(gguf_find(&g, key)->u, 5);
	assert_non_null(gguf_find_tensor(&g, name));
	gguf_release(&g);
	drop();
	free(f.d);
	free(key);
}

static void test_names(void **state)
{
	(void)state;
	assert_string_equal(gguf_type_name(GGUF_U8), "u8");
	assert_string_equal(gguf_type_name(GGUF_STRING), "string");
	assert_string_equal(gguf_type_name(GGUF_F64), "f64");
	assert_string_equal(gguf_type_name(GGUF_N_TYPES), "unknown");
	assert_int_equal(gguf_type_bytes(GGUF_I16), 2);
	assert_int_equal(gguf_type_bytes(GGUF_STRING), 0);
	assert_int_equal(gguf_type_bytes(GGUF_ARRAY), 0);
	assert_int_equal(gguf_type_bytes(GGUF_N_TYPES), 0);
}

/* ---- Typed reads ---- */

static void check_key(enum cohort_status st, const struct cohort_err *err, const struct gguf *g, const char *key,
		const char *word)
{
	assert_int_equal(st, COHORT_E_FORMAT);
	assert_int_equal(err->offset, gguf_find(g, key)->offset);
	assert_non_null(strstr(err->text, key));
	assert_non_null(strstr(err->text, word));
}

static void test_getters(void **state)
{
	struct file f = {0};
	struct cohort_err err;
	struct gguf g;
	struct gguf_array a = {.n = 77};
	struct gguf_str s = {"old", 3};
	uint32_t u = 77;
	float x = 77;
	bool b = true;

	(void)state;
	representative(&f, 3);
	accept(&g, &f);
	/* Integers of any type, where they fit. */
	assert_int_equal(gguf_get_u32(&g, "u8", true, &u, &err), COHORT_OK);
	assert_int_equal(u, 200);
	assert_int_equal(gguf_get_u32(&g, "u16", false, &u, NULL), COHORT_OK);
	assert_int_equal(u, 60000);
	assert_int_equal(gguf_get_u32(&g, "u32", true, &u, &err), COHORT_OK);
	assert_int_equal(u, 4000000000u);
	u = 77;
	check_key(gguf_get_u32(&g, "u64", true, &u, &err), &err, &g, "u64", "large");
	check_key(gguf_get_u32(&g, "i8", true, &u, &err), &err, &g, "i8", "negative");
	check_key(gguf_get_u32(&g, "i16", false, &u, &err), &err, &g, "i16", "negative");
	check_key(gguf_get_u32(&g, "i32", false, &u, &err), &err, &g, "i32", "negative");
	check_key(gguf_get_u32(&g, "i64", false, &u, &err), &err, &g, "i64", "negative");
	check_key(gguf_get_u32(&g, "f32", false, &u, &err), &err, &g, "f32", "integer");
	check_key(gguf_get_u32(&g, "yes", false, &u, &err), &err, &g, "yes", "bool");
	check_key(gguf_get_u32(&g, "str", false, &u, &err), &err, &g, "str", "string");
	check_key(gguf_get_u32(&g, "ints", false, &u, &err), &err, &g, "ints", "array");
	assert_int_equal(gguf_get_u32(&g, "absent", false, &u, &err), COHORT_OK);
	assert_int_equal(gguf_get_u32(&g, "absent", true, &u, &err), COHORT_E_FORMAT);
	assert_non_null(strstr(err.text, "missing"));
	assert_int_equal(err.offset, -1);
	assert_int_equal(u, 77);

	assert_int_equal(gguf_get_f32(&g, "f32", true, &x, &err), COHORT_OK);
	assert_true(x == 1.5f);
	assert_int_equal(gguf_get_f32(&g, "f64", true, &x, &err), COHORT_OK);
	assert_true(x == -0.1f);
	x = 77;
	check_key(gguf_get_f32(&g, "u32", true, &x, &err), &err, &g, "u32", "float");
	assert_int_equal(gguf_get_f32(&g, "absent", false, &x, &err), COHORT_OK);
	assert_int_equal(gguf_get_f32(&g, "absent", true, &x, &err), COHORT_E_FORMAT);
	assert_true(x == 77);

	assert_int_equal(gguf_get_bool(&g, "no", true, &b, &err), COHORT_OK);
	assert_false(b);
	assert_int_equal(gguf_get_bool(&g, "yes", true, &b, &err), COHORT_OK);
	assert_true(b);
	check_key(gguf_get_bool(&g, "u8", true, &b, &err), &err, &g, "u8", "bool");
	assert_int_equal(gguf_get_bool(&g, "absent", false, &b, &err), COHORT_OK);
	assert_int_equal(gguf_get_bool(&g, "absent", true, &b, &err), COHORT_E_FORMAT);
	assert_true(b);

	check_key(gguf_get_str(&g, "u8", true, &s, &err), &err, &g, "u8", "string");
	assert_int_equal(gguf_get_str(&g, "absent", false, &s, &err), COHORT_OK);
	assert_int_equal(gguf_get_str(&g, "absent", true, &s, &err), COHORT_E_FORMAT);
	assert_string_equal(s.s, "old");
	assert_int_equal(gguf_get_str(&g, "str", true, &s, &err), COHORT_OK);
	assert_int_equal(s.n, 3);

	check_key(gguf_get_array(&g, "u8", true, GGUF_I32, &a, &err), &err, &g, "u8", "array");
	check_key(gguf_get_array(&g, "ints", true, GGUF_F32, &a, &err), &err, &g, "ints", "f32");
	assert_int_equal(gguf_get_array(&g, "absent", false, GGUF_F32, &a, &err), COHORT_OK);
	assert_int_equal(gguf_get_array(&g, "absent", true, GGUF_F32, &a, &err), COHORT_E_FORMAT);
	assert_int_equal(a.n, 77);
	gguf_release(&g);
	drop();
	free(f.d);
}

static void test_getters_at_limits(void **state)
{
	struct file f = {0};
	struct cohort_err err;
	struct gguf g;
	uint32_t u = 0;
	float x = 0;

	(void)state;
	header(&f, 3, 0, 6);
	put_key(&f, "fits", GGUF_I64);
	put_u64(&f, UINT32_MAX);
	put_key(&f, "wide", GGUF_I64);
	put_u64(&f, (uint64_t)UINT32_MAX + 1);
	put_key(&f, "just", GGUF_U64);
	put_u64(&f, UINT32_MAX);
	put_key(&f, "huge", GGUF_F64);
	put_f64(&f, 1e300);
	put_key(&f, "inf", GGUF_F64);
	put_f64(&f, -INFINITY);
	put_key(&f, "nan", GGUF_F32);
	put_f32(&f, NAN);
	accept(&g, &f);
	assert_int_equal(gguf_get_u32(&g, "fits", true, &u, &err), COHORT_OK);
	assert_int_equal(u, UINT32_MAX);
	u = 0;
	assert_int_equal(gguf_get_u32(&g, "just", true, &u, &err), COHORT_OK);
	assert_int_equal(u, UINT32_MAX);
	check_key(gguf_get_u32(&g, "wide", true, &u, &err), &err, &g, "wide", "large");
	check_key(gguf_get_f32(&g, "huge", true, &x, &err), &err, &g, "huge", "large");
	assert_int_equal(gguf_get_f32(&g, "inf", true, &x, &err), COHORT_OK);
	assert_true(x == -INFINITY);
	assert_int_equal(gguf_get_f32(&g, "nan", true, &x, &err), COHORT_OK);
	assert_true(isnan(x));
	gguf_release(&g);
	drop();
	free(f.d);
}

/* ---- Refusals: the header ---- */

static void refuse_empty(void **state)
{
	struct file f = {0};

	(void)state;
	refuse(&f, COHORT_E_FORMAT, 0, "empty file");
}

static void refuse_short(void **state)
{
	struct file f = {0};

	(void)state;
	header(&f, 3, 0, 0);
	f.n = 23;
	refuse(&f, COHORT_E_FORMAT, 0, "file is 23 bytes, too short for a GGUF header");
}

static void refuse_magic(void **state)
{
	struct file f = {0};

	(void)state;
	header(&f, 3, 0, 0);
	memcpy(f.d, "gg\nt", 4);
	refuse(&f, COHORT_E_FORMAT, 0, "not a GGUF file (magic 'gg\\x0at')");
}

static void refuse_version(uint32_t version, const char *word)
{
	struct file f = {0};

	header(&f, version, 0, 0);
	refuse(&f, COHORT_E_UNSUPPORTED, 4, word);
}

static void refuse_versions(void **state)
{
	(void)state;
	refuse_version(0, "version 0");
	refuse_version(1, "version 1");
	refuse_version(4, "version 4");
	refuse_version(0x12345678, "version 305419896");
}

static void refuse_big_endian(void **state)
{
	(void)state;
	refuse_version(__builtin_bswap32(3), "big-endian");
	refuse_version(__builtin_bswap32(2), "big-endian");
}

static void refuse_tensor_count(void **state)
{
	struct file f = {0};

	(void)state;
	header(&f, 3, UINT64_MAX, 0);
	put_fill(&f, 100);
	refuse(&f, COHORT_E_FORMAT, 8, "tensors cannot fit");
	f = (struct file){0};
	header(&f, 3, 4, 0); /* a tensor takes 33 bytes at least */
	put_fill(&f, 4 * 33 - 1);
	refuse(&f, COHORT_E_FORMAT, 8, "tensors cannot fit");
}

static void refuse_kv_count(void **state)
{
	struct file f = {0};

	(void)state;
	header(&f, 3, 0, UINT64_MAX / 2);
	put_fill(&f, 100);
	refuse(&f, COHORT_E_FORMAT, 16, "key/values cannot fit");
	f = (struct file){0};
	header(&f, 3, 0, 1);
	put_fill(&f, 13);
	refuse(&f, COHORT_E_FORMAT, 16, "key/values cannot fit");
}

/* The count fits the file, but no longer what the metadata leaves of it. */
static void refuse_tensor_count_late(void **state)
{
	struct file f = {0};
	size_t at;

	(void)state;
	header(&f, 3, 1, 1);
	put_kv_u32(&f, "key", 1);
	at = f.n;
	put_fill(&f, 32);
	refuse(&f, COHORT_E_FORMAT, (int64_t)at, "1 tensors cannot fit");
}

/* ---- Refusals: key/values. Each file has one key, "k", whose entry is at 24 and whose value is at 37. ---- */

#define VALUE_AT 37

static void start_kv(struct file *f, uint32_t type)
{
	*f = (struct file){0};
	header(f, 3, 0, 1);
	put_key(f, "k", type);
}

static void refuse_key_empty(void **state)
{
	struct file f = {0};

	(void)state;
	header(&f, 3, 0, 1);
	put_kv_u32(&f, "", 1);
	refuse(&f, COHORT_E_FORMAT, 24, "key is empty");
}

static void refuse_key_long(void **state)
{
	struct file f = {0};

	(void)state;
	header(&f, 3, 0, 1);
	put_u64(&f, 65536);
	put_fill(&f, 65536 + 8);
	refuse(&f, COHORT_E_FORMAT, 24, "the limit is 65535");
}

static void refuse_key_cut(void **state)
{
	struct file f = {0};

	(void)state;
	header(&f, 3, 0, 1);
	put_u64(&f, UINT64_MAX);
	put_fill(&f, 20);
	refuse(&f, COHORT_E_FORMAT, 24, "only 20 are left");
}

static void refuse_key_twice(void **state)
{
	struct file f = {0};
	size_t at;

	(void)state;
	header(&f, 3, 0, 3);
	put_kv_u32(&f, "once", 1);
	put_kv_u32(&f, "a\nb", 1);
	at = f.n;
	put_kv_u32(&f, "a\nb", 2);
	refuse(&f, COHORT_E_FORMAT, (int64_t)at, "key 'a\\x0ab' is there twice");
}

/* A long name is cut in the message. */
static void refuse_key_twice_long(void **state)
{
	struct file f = {0};
	char key[301];
	size_t at;

	(void)state;
	memset(key, 0x01, 300);
	key[300] = '\0';
	header(&f, 3, 0, 2);
	put_kv_u32(&f, key, 1);
	at = f.n;
	put_kv_u32(&f, key, 1);
	refuse(&f, COHORT_E_FORMAT, (int64_t)at, "\\x01...' is there twice");
}

static void refuse_value_type(void **state)
{
	struct file f;

	(void)state;
	start_kv(&f, GGUF_N_TYPES);
	put_u64(&f, 0);
	refuse(&f, COHORT_E_FORMAT, VALUE_AT - 4, "value type is 13");
	start_kv(&f, UINT32_MAX);
	put_u64(&f, 0);
	refuse(&f, COHORT_E_FORMAT, VALUE_AT - 4, "no known type");
}

static void refuse_value_cut(void **state)
{
	struct file f;

	(void)state;
	start_kv(&f, GGUF_U64);
	put_fill(&f, 7);
	refuse(&f, COHORT_E_FORMAT, VALUE_AT, "8 bytes needed, 7 left");
}

static void refuse_bool(void **state)
{
	struct file f;

	(void)state;
	start_kv(&f, GGUF_BOOL);
	put_u8(&f, 2);
	refuse(&f, COHORT_E_FORMAT, VALUE_AT, "bool is 2");
}

static void refuse_bool_in_array(void **state)
{
	struct file f;

	(void)state;
	start_kv(&f, GGUF_ARRAY);
	put_u32(&f, GGUF_BOOL);
	put_u64(&f, 3);
	put_u8(&f, 1);
	put_u8(&f, 0);
	put_u8(&f, 255);
	refuse(&f, COHORT_E_FORMAT, VALUE_AT + 14, "bool is 255");
}

static void refuse_string_cut(void **state)
{
	struct file f;

	(void)state;
	start_kv(&f, GGUF_STRING);
	put_u64(&f, 5);
	put(&f, "four", 4);
	refuse(&f, COHORT_E_FORMAT, VALUE_AT, "string is 5 bytes long, but only 4 are left");
	start_kv(&f, GGUF_STRING);
	put_u64(&f, UINT64_MAX - 3); /* a sum with the position would wrap */
	put(&f, "four", 4);
	refuse(&f, COHORT_E_FORMAT, VALUE_AT, "string is");
}

static void refuse_array_type(void **state)
{
	struct file f;

	(void)state;
	start_kv(&f, GGUF_ARRAY);
	put_u32(&f, 14);
	put_u64(&f, 0);
	refuse(&f, COHORT_E_FORMAT, VALUE_AT, "array element type is 14");
}

static void refuse_array_count(void **state)
{
	/* Counts whose product with the size wraps to something small, and counts just one too large for 24 bytes. */
	static const struct { uint32_t type; uint64_t n; } bad[] = {
		{GGUF_U8, 25}, {GGUF_U16, 13}, {GGUF_U32, 7}, {GGUF_F64, 4}, {GGUF_STRING, 4}, {GGUF_ARRAY, 3},
		{GGUF_U32, UINT64_C(1) << 62}, {GGUF_F64, UINT64_C(1) << 61}, {GGUF_STRING, UINT64_C(1) << 61},
		{GGUF_U8, UINT64_MAX}, {GGUF_ARRAY, UINT64_MAX / 12 + 1},
	};

	(void)state;
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		struct file f;
		start_kv(&f, GGUF_ARRAY);
		put_u32(&f, bad[i].type);
		put_u64(&f, bad[i].n);
		put_fill(&f, 24);
		refuse(&f, COHORT_E_FORMAT, VALUE_AT + 4, "cannot fit");
	}
}

static void refuse_string_in_array(void **state)
{
	struct file f;

	(void)state;
	start_kv(&f, GGUF_ARRAY);
	put_u32(&f, GGUF_STRING);
	put_u64(&f, 2);
	put_str(&f, "ab");
	put_u64(&f, 3);
	put(&f, "cd", 2);
	refuse(&f, COHORT_E_FORMAT, VALUE_AT + 12 + 10, "only 2 are left");
}

static void refuse_nested_count(void **state)
{
	struct file f;

	(void)state;
	start_kv(&f, GGUF_ARRAY);
	put_u32(&f, GGUF_ARRAY);
	put_u64(&f, 1);
	put_u32(&f, GGUF_I16);
	put_u64(&f, 2);
	put_fill(&f, 3);
	refuse(&f, COHORT_E_FORMAT, VALUE_AT + 16, "key 'k': array of 2 x i16 cannot fit");
}

static void refuse_depth(void **state)
{
	struct file f;

	(void)state;
	start_kv(&f, GGUF_ARRAY);
	for (int i = 0; i < 1000; i++) {
		put_u32(&f, GGUF_ARRAY);
		put_u64(&f, 1);
	}
	refuse(&f, COHORT_E_FORMAT, VALUE_AT + 4 * 12, "nested deeper than 4");
}

static void refuse_alignment(void **state)
{
	static const uint32_t bad[] = {0, 1, 2, 4, 12, 24, 33, 48, (1u << 20) + 8, 1u << 21, 1u << 31, UINT32_MAX};

	(void)state;
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		struct file f = {0};
		header(&f, 3, 0, 1);
		put_kv_u32(&f, "general.alignment", bad[i]);
		refuse(&f, COHORT_E_FORMAT, 24, "power of two");
	}
}

static void refuse_alignment_type(void **state)
{
	struct file f = {0};

	(void)state;
	header(&f, 3, 0, 1);
	put_key(&f, "general.alignment", GGUF_U64);
	put_u64(&f, 32);
	refuse(&f, COHORT_E_FORMAT, 24, "general.alignment is a u64");
}

/* ---- Refusals: tensors. One tensor, "t", whose entry is at 24 and n_dims at 33. ---- */

#define DIMS_AT 33

static void one_tensor(struct file *f, uint32_t n_dims, const uint64_t *ne, uint32_t type, uint64_t offset,
		size_t n_data)
{
	*f = (struct file){0};
	header(f, 3, 1, 0);
	put_tensor(f, "t", n_dims, ne, type, offset);
	pad(f, 32);
	put_fill(f, n_data);
}

static void refuse_name_empty(void **state)
{
	struct file f = {0};

	(void)state;
	header(&f, 3, 1, 0);
	put_tensor(&f, "", 1, (uint64_t[]){1}, 0, 0);
	put_fill(&f, 64);
	refuse(&f, COHORT_E_FORMAT, 24, "tensor name is empty");
}

static void refuse_name_long(void **state)
{
	struct file f = {0};
	char name[66];

	(void)state;
	memset(name, 'n', 65);
	name[65] = '\0';
	header(&f, 3, 1, 0);
	put_tensor(&f, name, 1, (uint64_t[]){1}, 0, 0);
	put_fill(&f, 64);
	refuse(&f, COHORT_E_FORMAT, 24, "65 bytes long, the limit is 64");
}

static void refuse_name_twice(void **state)
{
	struct file f = {0};
	size_t at;

	(void)state;
	header(&f, 3, 2, 0);
	put_tensor(&f, "t", 1, (uint64_t[]){1}, 0, 0);
	at = f.n;
	put_tensor(&f, "t", 1, (uint64_t[]){1}, 0, 32);
	pad(&f, 32);
	put_fill(&f, 64);
	refuse(&f, COHORT_E_FORMAT, (int64_t)at, "tensor 't' is there twice");
}

static void refuse_dims(void **state)
{
	struct file f;

	(void)state;
	one_tensor(&f, 0, NULL, 0, 0, 64);
	refuse(&f, COHORT_E_FORMAT, DIMS_AT, "0 dimensions");
	one_tensor(&f, 5, (uint64_t[]){1, 1, 1, 1, 1}, 0, 0, 64);
	refuse(&f, COHORT_E_FORMAT, DIMS_AT, "5 dimensions");
	one_tensor(&f, 1, (uint64_t[]){1}, 0, 0, 64);
	memset(f.d + DIMS_AT, 0xff, 4);
	refuse(&f, COHORT_E_FORMAT, DIMS_AT, "4294967295 dimensions");
}

static void refuse_zero_dim(void **state)
{
	struct file f;

	(void)state;
	one_tensor(&f, 3, (uint64_t[]){4, 0, 4}, 0, 0, 64);
	refuse(&f, COHORT_E_FORMAT, DIMS_AT + 12, "dimension 1 is 0");
}

static void refuse_elements(void **state)
{
	struct file f;

	(void)state;
	one_tensor(&f, 2, (uint64_t[]){UINT64_C(1) << 32, UINT64_C(1) << 32}, 0, 0, 64); /* wraps to 0 */
	refuse(&f, COHORT_E_FORMAT, DIMS_AT + 12, "too many elements");
	one_tensor(&f, 1, (uint64_t[]){UINT64_C(1) << 63}, 0, 0, 64);
	refuse(&f, COHORT_E_FORMAT, DIMS_AT + 4, "too many elements");
	one_tensor(&f, 4, (uint64_t[]){1, 1, 1, UINT64_MAX}, 7, 0, 64);
	refuse(&f, COHORT_E_FORMAT, DIMS_AT + 28, "too many elements");
}

static void refuse_bad_row(void **state)
{
	struct file f;

	(void)state;
	one_tensor(&f, 2, (uint64_t[]){33, 32}, 2, 0, 1000);
	refuse(&f, COHORT_E_FORMAT, DIMS_AT + 20, "tensor 't': rows of 33");
}

static bool size_of_nothing(uint32_t type, uint64_t ne0, uint64_t n_rows, uint64_t *n_bytes, bool *bad_row)
{
	(void)type, (void)ne0, (void)n_rows, (void)bad_row;
	*n_bytes = 0;
	return true;
}

/* A known type without a size is a mistake of the caller's function, not of the file. */
static void refuse_no_size(void **state)
{
	struct cohort_err err = {0};
	struct file f;
	struct gguf g;

	(void)state;
	one_tensor(&f, 1, (uint64_t[]){4}, 0, 0, 64);
	assert_int_equal(gguf_parse(&g, f.d, f.n, size_of_nothing, &err), COHORT_E_BUG);
	assert_int_equal(err.offset, DIMS_AT + 12);
	assert_zeroed(&g);
	free(f.d);
}

static void refuse_misaligned(void **state)
{
	struct file f;

	(void)state;
	one_tensor(&f, 1, (uint64_t[]){1}, 0, 16, 64);
	refuse(&f, COHORT_E_FORMAT, DIMS_AT + 16, "16 is not a multiple of the alignment 32");
}

static void refuse_data_outside(void **state)
{
	struct file f;

	(void)state;
	one_tensor(&f, 1, (uint64_t[]){4}, 0, 0, 15); /* one byte is missing */
	refuse(&f, COHORT_E_FORMAT, 24, "not all in the file");
	one_tensor(&f, 1, (uint64_t[]){4}, 0, 64, 64);
	refuse(&f, COHORT_E_FORMAT, 24, "not all in the file");
	one_tensor(&f, 1, (uint64_t[]){4}, 0, UINT64_MAX - 31, 64); /* the sum with the section's offset wraps */
	refuse(&f, COHORT_E_FORMAT, 24, "not all in the file");
	one_tensor(&f, 1, (uint64_t[]){INT64_MAX}, 0, 0, 64); /* the size does not fit 64 bits */
	refuse(&f, COHORT_E_FORMAT, 24, "not all in the file");
	one_tensor(&f, 1, (uint64_t[]){INT64_MAX}, 1, 64, 64); /* the size does, its end does not */
	refuse(&f, COHORT_E_FORMAT, 24, "not all in the file");
	one_tensor(&f, 1, (uint64_t[]){4}, 99, 64, 64); /* of unknown size, at the end */
	refuse(&f, COHORT_E_FORMAT, 24, "not all in the file");
}

/* No padding and no data behind the directory. */
static void refuse_data_absent(void **state)
{
	struct file f = {0};

	(void)state;
	header(&f, 3, 1, 0);
	put_tensor(&f, "t", 1, (uint64_t[]){1}, 0, 0);
	refuse(&f, COHORT_E_FORMAT, 24, "not all in the file");
}

static void two_tensors(uint32_t type_a, uint64_t offset_a, uint32_t type_b, uint64_t offset_b, const char *word)
{
	struct file f = {0};
	size_t at[2];
	const uint64_t ne[1] = {16};

	header(&f, 3, 2, 0);
	at[0] = f.n;
	put_tensor(&f, "a", 1, ne, type_a, offset_a);
	at[1] = f.n;
	put_tensor(&f, "b", 1, ne, type_b, offset_b);
	pad(&f, 32);
	put_fill(&f, 256);
	refuse(&f, COHORT_E_FORMAT, (int64_t)(offset_b < offset_a ? at[0] : at[1]), word);
}

static void refuse_overlap(void **state)
{
	(void)state;
	two_tensors(0, 0, 0, 0, "'a' and 'b' overlap");
	two_tensors(0, 0, 0, 32, "'a' and 'b' overlap"); /* 64 bytes each */
	two_tensors(0, 96, 0, 64, "'b' and 'a' overlap");
	two_tensors(0, 0, 99, 32, "overlap");            /* of unknown size, inside another */
	two_tensors(99, 32, 99, 32, "overlap");
}

/* ---- Sweeps ---- */

static void test_truncation(void **state)
{
	struct file f = {0};
	struct gguf g;

	(void)state;
	representative(&f, 3);
	for (size_t n = 0; n < f.n; n++) {
		struct cohort_err err = {0};
		assert_int_equal(parse_n(&g, &f, n, &err), COHORT_E_FORMAT);
		assert_true(err.offset >= 0 && err.offset <= (int64_t)n);
		assert_zeroed(&g);
	}
	accept(&g, &f);
	gguf_release(&g);
	drop();
	free(f.d);
}

/* Reads every element, so that a wrong length would be seen. */
static uint64_t walk_array(const struct gguf_array *a)
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

static uint64_t walk(const struct gguf *g)
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

static void test_mutation(void **state)
{
	static const uint8_t flips[] = {0xff, 0x01, 0x80};
	struct file f = {0};
	uint64_t sum = 0;
	size_t n_ok = 0, n_refused = 0;

	(void)state;
	representative(&f, 3);
	for (size_t i = 0; i < f.n; i++) {
		for (size_t k = 0; k < sizeof flips; k++) {
			struct cohort_err err = {0};
			struct gguf g;
			f.d[i] ^= flips[k];
			if (parse_n(&g, &f, f.n, &err)) {
				assert_zeroed(&g);
				assert_true(err.offset >= 0 && err.offset <= (int64_t)f.n);
				n_refused++;
			} else {
				sum += walk(&g);
				gguf_release(&g);
				n_ok++;
			}
			f.d[i] ^= flips[k];
		}
	}
	assert_true(n_ok > 0 && n_refused > 0 && sum > 0);
	drop();
	free(f.d);
}

/* Frees f; returns how many allocations a parse makes. */
static int64_t torture(struct file *f)
{
	struct gguf g;
	int64_t n = 0;

	for (;; n++) {
		struct cohort_err err = {0};
		enum cohort_status st;
		mem_fail_after(n);
		st = parse_n(&g, f, f->n, &err);
		mem_fail_after(-1);
		if (!st)
			break;
		assert_int_equal(st, COHORT_E_MEMORY);
		assert_int_equal(err.status, COHORT_E_MEMORY);
		assert_zeroed(&g);
	}
	gguf_release(&g);
	drop();
	free(f->d);
	return n;
}

static void test_allocation_failures(void **state)
{
	struct file f = {0};

	(void)state;
	representative(&f, 3);
	assert_true(torture(&f) >= 5); /* two maps, two tables and the sorted copy */
	f = (struct file){0};
	many(&f);
	assert_true(torture(&f) >= 20); /* the same, each grown several times */
}

/* ---- Files ---- */

static void write_temp(char path[32], const void *data, size_t n)
{
	int fd;

	strcpy(path, "/tmp/test_gguf.XXXXXX");
	fd = mkstemp(path);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, data, n), (ssize_t)n);
	close(fd);
}

static void test_open(void **state)
{
	struct file f = {0};
	struct cohort_err err;
	struct gguf g;
	char path[32];
	enum cohort_status st;

	(void)state;
	representative(&f, 3);
	write_temp(path, f.d, f.n);
	assert_int_equal(gguf_open(&g, path, test_size, &err), COHORT_OK);
	assert_int_equal(g.n_kv, 18);
	assert_int_equal(g.map.n_bytes, f.n);
	assert_true(walk(&g) > 0);
	gguf_release(&g);
	assert_zeroed(&g);
	for (int64_t n = 0;; n++) {
		mem_fail_after(n);
		st = gguf_open(&g, path, test_size, &err);
		mem_fail_after(-1);
		if (!st)
			break;
		assert_int_equal(st, COHORT_E_MEMORY);
		assert_memory_equal(err.text, path, strlen(path));
		assert_zeroed(&g);
	}
	gguf_release(&g);
	unlink(path);

	assert_int_equal(gguf_open(&g, path, test_size, &err), COHORT_E_IO);
	assert_memory_equal(err.text, path, strlen(path));
	assert_zeroed(&g);
	assert_int_equal(gguf_open(&g, "/tmp", test_size, &err), COHORT_E_IO);
	assert_zeroed(&g);

	write_temp(path, "", 0);
	assert_int_equal(gguf_open(&g, path, test_size, &err), COHORT_E_FORMAT);
	assert_memory_equal(err.text, path, strlen(path));
	assert_non_null(strstr(err.text, ": empty file"));
	assert_int_equal(err.offset, 0);
	assert_zeroed(&g);
	unlink(path);
	free(f.d);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_v2),
		cmocka_unit_test(test_v3),
		cmocka_unit_test(test_arrays),
		cmocka_unit_test(test_array_of_each_type),
		cmocka_unit_test(test_float_array_unaligned),
		cmocka_unit_test(test_depth_4),
		cmocka_unit_test(test_default_alignment),
		cmocka_unit_test(test_alignments),
		cmocka_unit_test(test_no_tensors),
		cmocka_unit_test(test_many),
		cmocka_unit_test(test_longest_names),
		cmocka_unit_test(test_names),
		cmocka_unit_test(test_getters),
		cmocka_unit_test(test_getters_at_limits),
		cmocka_unit_test(refuse_empty),
		cmocka_unit_test(refuse_short),
		cmocka_unit_test(refuse_magic),
		cmocka_unit_test(refuse_versions),
		cmocka_unit_test(refuse_big_endian),
		cmocka_unit_test(refuse_tensor_count),
		cmocka_unit_test(refuse_kv_count),
		cmocka_unit_test(refuse_tensor_count_late),
		cmocka_unit_test(refuse_key_empty),
		cmocka_unit_test(refuse_key_long),
		cmocka_unit_test(refuse_key_cut),
		cmocka_unit_test(refuse_key_twice),
		cmocka_unit_test(refuse_key_twice_long),
		cmocka_unit_test(refuse_value_type),
		cmocka_unit_test(refuse_value_cut),
		cmocka_unit_test(refuse_bool),
		cmocka_unit_test(refuse_bool_in_array),
		cmocka_unit_test(refuse_string_cut),
		cmocka_unit_test(refuse_array_type),
		cmocka_unit_test(refuse_array_count),
		cmocka_unit_test(refuse_string_in_array),
		cmocka_unit_test(refuse_nested_count),
		cmocka_unit_test(refuse_depth),
		cmocka_unit_test(refuse_alignment),
		cmocka_unit_test(refuse_alignment_type),
		cmocka_unit_test(refuse_name_empty),
		cmocka_unit_test(refuse_name_long),
		cmocka_unit_test(refuse_name_twice),
		cmocka_unit_test(refuse_dims),
		cmocka_unit_test(refuse_zero_dim),
		cmocka_unit_test(refuse_elements),
		cmocka_unit_test(refuse_bad_row),
		cmocka_unit_test(refuse_no_size),
		cmocka_unit_test(refuse_misaligned),
		cmocka_unit_test(refuse_data_outside),
		cmocka_unit_test(refuse_data_absent),
		cmocka_unit_test(refuse_overlap),
		cmocka_unit_test(test_truncation),
		cmocka_unit_test(test_mutation),
		cmocka_unit_test(test_allocation_failures),
		cmocka_unit_test(test_open),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
