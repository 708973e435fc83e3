/* The GGUF writer: what it writes the reader gives back, what could not be read back is refused, and whatever fails
 * leaves the path as it was and nothing beside it.
 *
 * Shown red by leaving out the padding behind a tensor (gguf_writer_round_trip, gguf_writer_counts_tensors,
 * gguf_writer_tensor_sizes), the check of a duplicate key, of a duplicate tensor and of bytes behind an array
 * (gguf_writer_refuses_bad_arguments), the check of the bytes left of a tensor and that of the tensors left at the end
 * (gguf_writer_tensor_sizes), the abort of the stream in gguf_writer_free (writer_freed_early_leaves_old_file), taking
 * back the bytes of a key that had no room in the map, or its mark of failure (gguf_writer_goes_on_after_a_refusal),
 * the look at the sum of all tensors (too_many_bytes), the unlink after a failed write (system_calls_fail,
 * stays_failed) or close (system_calls_fail), and by padding with pieces that are too short (large_alignment). */
#include "place_case.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <dirent.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "cohort_tools.h"

static struct cohort_gguf_writer *writer(const char *path)
{
	struct cohort_gguf_writer *w = NULL;
	struct cohort_err err;
	if (cohort_gguf_writer_open(path, &w, &err))
		fail_msg("%s", err.text);
	return w;
}

#define OK(call)                                       \
	do {                                           \
		struct cohort_err err_;                \
		struct cohort_err *err = &err_;        \
		if (call)                              \
			fail_msg("%s", err_.text);     \
	} while (0)

/* The call is refused with a status and a text that has the word. */
#define REFUSED(status_, word, call)                                              \
	do {                                                                      \
		struct cohort_err err_ = {0};                                     \
		struct cohort_err *err = &err_;                                   \
		assert_int_equal(call, status_);                                  \
		if (!strstr(err_.text, word))                                     \
			fail_msg("'%s' is not in '%s'", word, err_.text);         \
	} while (0)

enum { N_DATA = 40 * 3 };

static const uint8_t *data_bytes(void)
{
	static uint8_t d[N_DATA * 4];
	for (size_t i = 0; i < sizeof d; i++)
		d[i] = (uint8_t)(i * 37 + 1);
	return d;
}

/* Every kind of key, two tensors of which the first needs padding. 0, or the first status that was not OK. */
static enum cohort_status write_all_kinds(const char *path, struct cohort_err *err)
{
	static const char *const strs[] = {"one", "", "three"};
	static const float floats[] = {1.5f, -2.25f};
	static const int32_t ints[] = {-1, 0, INT32_MAX};
	const uint64_t ne[2] = {5, 3}, ne_q[1] = {64};
	struct cohort_gguf_writer *w;
	enum cohort_status st = cohort_gguf_writer_open(path, &w, err);
	if (st)
		return st;
	if ((st = cohort_gguf_writer_str(w, "general.architecture", "llama", err)) ||
			(st = cohort_gguf_writer_u32(w, "a.u32", 4000000000u, err)) ||
			(st = cohort_gguf_writer_u64(w, "a.u64", UINT64_MAX, err)) ||
			(st = cohort_gguf_writer_f32(w, "a.f32", 0.1f, err)) ||
			(st = cohort_gguf_writer_bool(w, "a.bool", true, err)) ||
			(st = cohort_gguf_writer_strs(w, "a.strs", strs, NULL, 3, err)) ||
			(st = cohort_gguf_writer_f32s(w, "a.f32s", floats, 2, err)) ||
			(st = cohort_gguf_writer_i32s(w, "a.i32s", ints, 3, err)) ||
			(st = cohort_gguf_writer_i32s(w, "a.none", NULL, 0, err)) ||
			(st = cohort_gguf_writer_tensor(w, "t.float", 0, 2, ne, err)) ||
			(st = cohort_gguf_writer_tensor(w, "t.q8_0", 8, 1, ne_q, err)) ||
			(st = cohort_gguf_writer_begin(w, err)) ||
			(st = cohort_gguf_writer_data(w, 0, data_bytes(), 7, err)) ||
			(st = cohort_gguf_writer_data(w, 0, NULL, 0, err)) ||
			(st = cohort_gguf_writer_data(w, 0, data_bytes() + 7, 53, err)) ||
			(st = cohort_gguf_writer_data(w, 1, data_bytes() + 60, 68, err)))
		goto out;
	st = cohort_gguf_writer_finish(w, err);
out:
	cohort_gguf_writer_free(w);
	return st;
}

static struct cohort_gguf *open_file(const char *path)
{
	struct cohort_gguf *g = NULL;
	struct cohort_err err;
	if (cohort_gguf_open(path, &g, &err))
		fail_msg("%s", err.text);
	return g;
}

static void check_value(const struct cohort_gguf *g, const char *key, const char *want)
{
	struct cohort_gguf_kv kv;
	char text[128];
	assert_true(cohort_gguf_kv_find(g, key, &kv));
	cohort_gguf_format(&kv.value, 10, text, sizeof text);
	assert_string_equal(text, want);
}

static uint8_t *load(const char *path, size_t *n)
{
	uint8_t *d = NULL;
	assert_int_equal(file_load(path, SIZE_MAX, &d, n, NULL), COHORT_OK);
	return d;
}

static void check_all_kinds(const char *path)
{
	struct cohort_gguf *g = open_file(path);
	struct cohort_gguf_tensor t;
	size_t n;
	uint8_t *d = load(path, &n);

	assert_int_equal(cohort_gguf_version(g), 3);
	assert_int_equal(cohort_gguf_alignment(g), 32);
	assert_int_equal(cohort_gguf_n_kv(g), 9);
	assert_int_equal(cohort_gguf_n_tensors(g), 2);
	check_value(g, "general.architecture", "\"llama\"");
	check_value(g, "a.u32", "4000000000");
	check_value(g, "a.u64", "18446744073709551615");
	check_value(g, "a.f32", "0.1");
	check_value(g, "a.bool", "true");
	check_value(g, "a.strs", "[\"one\", \"\", \"three\"]");
	check_value(g, "a.f32s", "[1.5, -2.25]");
	check_value(g, "a.i32s", "[-1, 0, 2147483647]");
	check_value(g, "a.none", "[]");
	assert_true(cohort_gguf_tensor_get(g, 0, &t));
	assert_int_equal(t.n_dims, 2);
	assert_int_equal(t.ne[0], 5);
	assert_int_equal(t.ne[1], 3);
	assert_int_equal(t.n_bytes, 60);
	assert_int_equal(t.offset % 32, 0);
	assert_memory_equal(d + t.offset, data_bytes(), 60);
	for (size_t i = 60; i < 64; i++)
		assert_int_equal(d[t.offset + i], 0);
	assert_true(cohort_gguf_tensor_get(g, 1, &t));
	assert_string_equal(t.type_name, "Q8_0");
	assert_memory_equal(d + t.offset, data_bytes() + 60, 68);
	assert_int_equal(n, t.offset + 96); /* the last one is padded, too */
	mem_free(d);
	cohort_gguf_free(g);
}

static void gguf_writer_round_trip(void **state)
{
	const struct place *p = *state;
	OK(write_all_kinds(p->path, err));
	assert_int_equal(n_in(p->dir), 1);
	check_all_kinds(p->path);
}

/* A copy of a file's keys is the same bytes, nested arrays and odd types included. */
static void gguf_writer_copies_a_file(void **state)
{
	const struct place *p = *state;
	struct cohort_gguf_writer *w = writer(p->path);
	static const uint8_t nested[] = {
		0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 1, 2,             /* two u8 */
		8, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 'x', /* one string */
	};
	struct cohort_gguf_value values[] = {
		{.type = COHORT_GGUF_U8, .u = 255}, {.type = COHORT_GGUF_I8, .i = -128},
		{.type = COHORT_GGUF_U16, .u = 65535}, {.type = COHORT_GGUF_I16, .i = -32768},
		{.type = COHORT_GGUF_I32, .i = INT32_MIN}, {.type = COHORT_GGUF_I64, .i = INT64_MIN},
		{.type = COHORT_GGUF_F64, .f = 0.1}, {.type = COHORT_GGUF_F32, .f = (double)INFINITY},
		{.type = COHORT_GGUF_STRING, .str = "a\0b", .n_str = 3},
		{.type = COHORT_GGUF_U32, .u = 64},
		{.type = COHORT_GGUF_ARRAY, .elem_type = COHORT_GGUF_ARRAY, .n_elems = 2, .data = nested,
				.data_bytes = sizeof nested},
	};
	enum { N = sizeof values / sizeof *values };
	for (size_t i = 0; i < N; i++) {
		char key[32];
		snprintf(key, sizeof key, i == 9 ? "general.alignment" : "k%zu", i);
		struct cohort_gguf_kv kv = {.key = key, .n_key = strlen(key), .value = values[i]};
		OK(cohort_gguf_writer_kv(w, &kv, err));
	}
	const uint64_t one = 1;
	OK(cohort_gguf_writer_tensor(w, "t", 0, 1, &one, err));
	OK(cohort_gguf_writer_begin(w, err));
	OK(cohort_gguf_writer_data(w, 0, "\1\2\3\4", 4, err));
	OK(cohort_gguf_writer_finish(w, err));
	cohort_gguf_writer_free(w);

	char second[128];
	struct cohort_gguf *g = open_file(p->path);
	struct cohort_gguf_kv kv;
	size_t n_a, n_b;
	assert_int_equal(cohort_gguf_alignment(g), 64);
	check_value(g, "k10", "[[1, 2], [\"x\"]]");
	check_value(g, "k5", "-9223372036854775808");
	snprintf(second, sizeof second, "%s/b.gguf", p->dir);
	w = writer(second);
	for (size_t i = 0; cohort_gguf_kv_get(g, i, &kv); i++)
		OK(cohort_gguf_writer_kv(w, &kv, err));
	OK(cohort_gguf_writer_tensor(w, "t", 0, 1, &one, err));
	OK(cohort_gguf_writer_begin(w, err));
	OK(cohort_gguf_writer_data(w, 0, "\1\2\3\4", 4, err));
	OK(cohort_gguf_writer_finish(w, err));
	cohort_gguf_writer_free(w);
	uint8_t *a = load(p->path, &n_a), *b = load(second, &n_b);
	assert_int_equal(n_a, n_b);
	assert_memory_equal(a, b, n_a);
	mem_free(a);
	mem_free(b);
	cohort_gguf_free(g);
	unlink(second);
}

/* Thousands of keys and tensors, each with its own place. */
static void gguf_writer_counts_tensors(void **state)
{
	const struct place *p = *state;
	struct cohort_gguf_writer *w = writer(p->path);
	enum { N = 20000 };
	char name[32];

	for (uint32_t i = 0; i < N; i++) {
		const uint64_t ne = i % 7 + 1;
		snprintf(name, sizeof name, "k%u", i);
		OK(cohort_gguf_writer_u32(w, name, i, err));
		OK(cohort_gguf_writer_tensor(w, name, 0, 1, &ne, err));
	}
	OK(cohort_gguf_writer_begin(w, err));
	for (uint32_t i = 0; i < N; i++) {
		const uint32_t v[7] = {i, i, i, i, i, i, i};
		OK(cohort_gguf_writer_data(w, i, v, 4 * (size_t)(i % 7 + 1), err));
	}
	OK(cohort_gguf_writer_finish(w, err));
	cohort_gguf_writer_free(w);
	struct cohort_gguf *g = open_file(p->path);
	size_t n;
	uint8_t *d = load(p->path, &n);
	assert_int_equal(cohort_gguf_n_kv(g), N);
	for (uint32_t i = 0; i < N; i++) {
		struct cohort_gguf_tensor t;
		struct cohort_gguf_kv kv;
		assert_true(cohort_gguf_tensor_get(g, i, &t) && cohort_gguf_kv_get(g, i, &kv));
		assert_int_equal(kv.value.u, i);
		assert_memory_equal(d + t.offset, &i, 4);
	}
	mem_free(d);
	cohort_gguf_free(g);
}

static void no_tensors(void **state)
{
	const struct place *p = *state;
	struct cohort_gguf_writer *w = writer(p->path);
	OK(cohort_gguf_writer_begin(w, err));
	OK(cohort_gguf_writer_finish(w, err));
	cohort_gguf_writer_free(w);
	struct cohort_gguf *g = open_file(p->path);
	assert_int_equal(cohort_gguf_n_kv(g), 0);
	cohort_gguf_free(g);
}

static void gguf_writer_refuses_bad_arguments(void **state)
{
	const struct place *p = *state;
	struct cohort_gguf_writer *w = writer(p->path);
	const uint64_t ne[4] = {64, 2, 1, 1}, huge[2] = {UINT64_MAX, 2}, none[2] = {4, 0}, odd[1] = {33};
	const uint64_t large[2] = {(uint64_t)1 << 40, (uint64_t)1 << 22};
	char name[66];
	memset(name, 'n', 65);
	name[65] = '\0';

	REFUSED(COHORT_E_ARG, "NULL", cohort_gguf_writer_open(NULL, &w, err));
	REFUSED(COHORT_E_ARG, "NULL", cohort_gguf_writer_open(p->path, NULL, err));
	REFUSED(COHORT_E_ARG, "NULL", cohort_gguf_writer_u32(NULL, "k", 1, err));
	REFUSED(COHORT_E_ARG, "NULL", cohort_gguf_writer_u32(w, NULL, 1, err));
	REFUSED(COHORT_E_ARG, "NULL", cohort_gguf_writer_str(w, "k", NULL, err));
	REFUSED(COHORT_E_ARG, "NULL", cohort_gguf_writer_strs(w, "k", NULL, NULL, 1, err));
	REFUSED(COHORT_E_ARG, "NULL", cohort_gguf_writer_f32s(w, "k", NULL, 1, err));
	REFUSED(COHORT_E_ARG, "NULL", cohort_gguf_writer_kv(w, NULL, err));
	REFUSED(COHORT_E_ARG, "NULL", cohort_gguf_writer_tensor(w, NULL, 0, 1, ne, err));
	REFUSED(COHORT_E_ARG, "NULL", cohort_gguf_writer_tensor(w, "t", 0, 1, NULL, err));
	REFUSED(COHORT_E_ARG, "NULL", cohort_gguf_writer_begin(NULL, err));
	REFUSED(COHORT_E_ARG, "NULL", cohort_gguf_writer_finish(NULL, err));
	REFUSED(COHORT_E_ARG, "NULL", cohort_gguf_writer_data(NULL, 0, "", 1, err));
	cohort_gguf_writer_free(NULL);

	REFUSED(COHORT_E_ARG, "empty", cohort_gguf_writer_u32(w, "", 1, err));
	OK(cohort_gguf_writer_u32(w, "k", 1, err));
	REFUSED(COHORT_E_ARG, "twice", cohort_gguf_writer_f32(w, "k", 1, err));
	REFUSED(COHORT_E_ARG, "alignment", cohort_gguf_writer_u32(w, "general.alignment", 48, err));
	REFUSED(COHORT_E_ARG, "alignment", cohort_gguf_writer_str(w, "general.alignment", "64", err));
	const struct cohort_gguf_value wrong[] = {
		{.type = COHORT_GGUF_U8, .u = 256}, {.type = COHORT_GGUF_I8, .i = -129},
		{.type = COHORT_GGUF_I16, .i = 32768},
		{.type = COHORT_GGUF_BOOL, .u = 2}, {.type = (enum cohort_gguf_type)13},
		{.type = COHORT_GGUF_ARRAY, .elem_type = COHORT_GGUF_BOOL, .n_elems = 1, .data = "\2", .data_bytes = 1},
		{.type = COHORT_GGUF_ARRAY, .elem_type = COHORT_GGUF_U16, .n_elems = 2, .data = "abc", .data_bytes = 3},
		{.type = COHORT_GGUF_ARRAY, .elem_type = COHORT_GGUF_U8, .n_elems = 2, .data = "abc", .data_bytes = 3},
		{.type = COHORT_GGUF_ARRAY, .elem_type = COHORT_GGUF_STRING, .n_elems = 1, .data = "\7\0\0\0\0\0\0\0ab",
				.data_bytes = 10},
		{.type = COHORT_GGUF_ARRAY, .elem_type = (enum cohort_gguf_type)99},
	};
	for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
		const struct cohort_gguf_kv kv = {.key = "w", .n_key = 1, .value = wrong[i]};
		REFUSED(COHORT_E_ARG, p->path, cohort_gguf_writer_kv(w, &kv, err));
	}

	OK(cohort_gguf_writer_tensor(w, "t", 8, 2, ne, err));
	REFUSED(COHORT_E_ARG, "twice", cohort_gguf_writer_tensor(w, "t", 0, 1, ne, err));
	REFUSED(COHORT_E_ARG, "bytes long", cohort_gguf_writer_tensor(w, "", 0, 1, ne, err));
	REFUSED(COHORT_E_ARG, "65", cohort_gguf_writer_tensor(w, name, 0, 1, ne, err));
	REFUSED(COHORT_E_ARG, "n_dims", cohort_gguf_writer_tensor(w, "u", 0, 0, ne, err));
	REFUSED(COHORT_E_ARG, "n_dims", cohort_gguf_writer_tensor(w, "u", 0, 5, ne, err));
	REFUSED(COHORT_E_ARG, "dimension 1 is 0", cohort_gguf_writer_tensor(w, "u", 0, 2, none, err));
	REFUSED(COHORT_E_ARG, "dimension", cohort_gguf_writer_tensor(w, "u", 0, 2, huge, err));
	REFUSED(COHORT_E_LIMIT, "too many", cohort_gguf_writer_tensor(w, "u", 0, 2, large, err));
	REFUSED(COHORT_E_ARG, "whole blocks", cohort_gguf_writer_tensor(w, "u", 8, 1, odd, err));
	REFUSED(COHORT_E_UNSUPPORTED, "'u': format number 38", cohort_gguf_writer_tensor(w, "u", 38, 1, ne, err));

	/* What was refused is not there, what was taken is. */
	REFUSED(COHORT_E_ARG, "before", cohort_gguf_writer_data(w, 0, "", 0, err));
	REFUSED(COHORT_E_ARG, "before", cohort_gguf_writer_finish(w, err));
	OK(cohort_gguf_writer_begin(w, err));
	REFUSED(COHORT_E_ARG, "after", cohort_gguf_writer_begin(w, err));
	REFUSED(COHORT_E_ARG, "after", cohort_gguf_writer_u32(w, "l", 1, err));
	REFUSED(COHORT_E_ARG, "after", cohort_gguf_writer_tensor(w, "v", 0, 1, ne, err));
	OK(cohort_gguf_writer_data(w, 0, data_bytes(), 136, err));
	OK(cohort_gguf_writer_finish(w, err));
	REFUSED(COHORT_E_ARG, "finished", cohort_gguf_writer_finish(w, err));
	REFUSED(COHORT_E_ARG, "finished", cohort_gguf_writer_data(w, 0, "", 0, err));
	cohort_gguf_writer_free(w);
	struct cohort_gguf *g = open_file(p->path);
	assert_int_equal(cohort_gguf_n_kv(g), 1);
	assert_int_equal(cohort_gguf_n_tensors(g), 1);
	cohort_gguf_free(g);
}

/* Too few or too many bytes, and the wrong order, are refused without harm. */
static void gguf_writer_tensor_sizes(void **state)
{
	const struct place *p = *state;
	struct cohort_gguf_writer *w = writer(p->path);
	const uint64_t ne = 5;

	OK(cohort_gguf_writer_tensor(w, "a", 0, 1, &ne, err));
	OK(cohort_gguf_writer_tensor(w, "b", 0, 1, &ne, err));
	OK(cohort_gguf_writer_begin(w, err));
	REFUSED(COHORT_E_ARG, "'a' still wants 20", cohort_gguf_writer_finish(w, err));
	REFUSED(COHORT_E_ARG, "'b' while 'a' is next", cohort_gguf_writer_data(w, 1, data_bytes(), 20, err));
	REFUSED(COHORT_E_ARG, "21 bytes for tensor 'a'", cohort_gguf_writer_data(w, 0, data_bytes(), 21, err));
	REFUSED(COHORT_E_ARG, "tensor 2 of 2", cohort_gguf_writer_data(w, 2, data_bytes(), 1, err));
	OK(cohort_gguf_writer_data(w, 0, data_bytes(), 19, err));
	REFUSED(COHORT_E_ARG, "with 1 bytes", cohort_gguf_writer_data(w, 1, data_bytes(), 20, err));
	REFUSED(COHORT_E_ARG, "1 are left", cohort_gguf_writer_data(w, 0, data_bytes(), 2, err));
	OK(cohort_gguf_writer_data(w, 0, data_bytes(), 1, err));
	REFUSED(COHORT_E_ARG, "'a' while 'b'", cohort_gguf_writer_data(w, 0, data_bytes(), 1, err));
	REFUSED(COHORT_E_ARG, "'b' still wants 20", cohort_gguf_writer_finish(w, err));
	OK(cohort_gguf_writer_data(w, 1, data_bytes(), 20, err));
	REFUSED(COHORT_E_ARG, "(none)", cohort_gguf_writer_data(w, 1, data_bytes(), 1, err));
	OK(cohort_gguf_writer_finish(w, err));
	cohort_gguf_writer_free(w);
	cohort_gguf_free(open_file(p->path));
}

/* Padding in front of the data and behind a tensor that takes several pieces. A key as long as that of the alignment is
 * not taken for it. */
static void large_alignment(void **state)
{
	const struct place *p = *state;
	struct cohort_gguf_writer *w = writer(p->path);
	struct cohort_gguf_tensor t[2];
	enum { ALIGNMENT = 1 << 14 };
	const uint64_t ne = 5;
	size_t n;

	OK(cohort_gguf_writer_u32(w, "general.alignment", ALIGNMENT, err));
	OK(cohort_gguf_writer_u32(w, "general.alignmens", 64, err));
	OK(cohort_gguf_writer_tensor(w, "a", 0, 1, &ne, err));
	OK(cohort_gguf_writer_tensor(w, "b", 0, 1, &ne, err));
	OK(cohort_gguf_writer_begin(w, err));
	OK(cohort_gguf_writer_data(w, 0, data_bytes(), 20, err));
	OK(cohort_gguf_writer_data(w, 1, data_bytes() + 20, 20, err));
	OK(cohort_gguf_writer_finish(w, err));
	cohort_gguf_writer_free(w);
	struct cohort_gguf *g = open_file(p->path);
	uint8_t *d = load(p->path, &n);
	assert_int_equal(cohort_gguf_alignment(g), ALIGNMENT);
	assert_int_equal(n, 3 * ALIGNMENT);
	for (size_t i = 0; i < 2; i++) {
		assert_true(cohort_gguf_tensor_get(g, i, &t[i]));
		assert_int_equal(t[i].offset, (i + 1) * ALIGNMENT);
		assert_memory_equal(d + t[i].offset, data_bytes() + 20 * i, 20);
		for (size_t k = 20; k < ALIGNMENT; k++)
			assert_int_equal(d[t[i].offset + k], 0);
	}
	mem_free(d);
	cohort_gguf_free(g);
}

/* Each tensor is small enough, all together are not: no file is begun, and the writer goes on as it was. */
static void too_many_bytes(void **state)
{
	const struct place *p = *state;
	struct cohort_gguf_writer *w = writer(p->path);
	const uint64_t ne = (uint64_t)1 << 59; /* 2^61 bytes */
	const struct cohort_gguf_kv endless = {.key = "e", .n_key = 1,
			.value = {.type = COHORT_GGUF_STRING, .str = "x", .n_str = SIZE_MAX}};

	REFUSED(COHORT_E_MEMORY, "memory", cohort_gguf_writer_kv(w, &endless, err));
	for (int i = 0; i < 4; i++)
		OK(cohort_gguf_writer_tensor(w, (const char *const[]){"a", "b", "c", "d"}[i], 0, 1, &ne, err));
	REFUSED(COHORT_E_LIMIT, "too many bytes of tensors", cohort_gguf_writer_begin(w, err));
	assert_int_equal(n_in(p->dir), 0);
	OK(cohort_gguf_writer_u32(w, "e", 1, err));
	REFUSED(COHORT_E_LIMIT, "too many bytes of tensors", cohort_gguf_writer_begin(w, err));
	cohort_gguf_writer_free(w);
}

static void writer_freed_early_leaves_old_file(void **state)
{
	const struct place *p = *state;
	const uint64_t ne = 5;
	assert_int_equal(file_write_atomic(p->path, "old", 3, NULL), COHORT_OK);
	for (int begun = 0; begun < 2; begun++) {
		struct cohort_gguf_writer *w = writer(p->path);
		OK(cohort_gguf_writer_tensor(w, "a", 0, 1, &ne, err));
		if (begun)
			OK(cohort_gguf_writer_begin(w, err));
		cohort_gguf_writer_free(w);
		assert_int_equal(n_in(p->dir), 1);
	}
	size_t n;
	uint8_t *d = load(p->path, &n);
	assert_int_equal(n, 3);
	mem_free(d);
}

static void system_calls_fail(void **state)
{
	const struct place *p = *state;
	const size_t n_fd = n_in("/proc/self/fd");
	int n_failed = 0;
	for (int i = 0;; i++) {
		struct cohort_err err = {0};
		file_fail_after(i, ENOSPC);
		const enum cohort_status st = write_all_kinds(p->path, &err);
		file_fail_after(-1, 0);
		assert_int_equal(n_in("/proc/self/fd"), n_fd);
		if (!st)
			break;
		n_failed++;
		assert_int_equal(st, COHORT_E_IO);
		assert_non_null(strstr(err.text, p->path));
		assert_non_null(strstr(err.text, "space"));
		/* Only when the directory's sync failed is the file there, and then it is whole. */
		if (n_in(p->dir)) {
			assert_int_equal(n_in(p->dir), 1);
			check_all_kinds(p->path);
			unlink(p->path);
		}
	}
	/* open, header, keys, directory, data and padding in 5, sync, dup, close, open, rename, sync */
	assert_in_range(n_failed, 12, 30);
	check_all_kinds(p->path);
	for (int i = 0; i < 14; i++) { /* a call that takes one byte only */
		file_fail_after(i, 0);
		OK(write_all_kinds(p->path, err));
		file_fail_after(-1, 0);
		check_all_kinds(p->path);
	}
}

/* A writer whose file failed says so to the end. */
static void stays_failed(void **state)
{
	const struct place *p = *state;
	struct cohort_gguf_writer *w = writer(p->path);
	const uint64_t ne = 5;
	OK(cohort_gguf_writer_tensor(w, "a", 0, 1, &ne, err));
	file_fail_after(0, EACCES);
	REFUSED(COHORT_E_IO, "denied", cohort_gguf_writer_begin(w, err));
	OK(cohort_gguf_writer_begin(w, err)); /* nothing was made, so it may be tried again */
	file_fail_after(0, EIO);
	REFUSED(COHORT_E_IO, p->path, cohort_gguf_writer_data(w, 0, data_bytes(), 20, err));
	assert_int_equal(n_in(p->dir), 0);
	REFUSED(COHORT_E_IO, "earlier", cohort_gguf_writer_data(w, 0, data_bytes(), 20, err));
	REFUSED(COHORT_E_IO, "earlier", cohort_gguf_writer_finish(w, err));
	REFUSED(COHORT_E_IO, "earlier", cohort_gguf_writer_u32(w, "k", 1, err));
	cohort_gguf_writer_free(w);
}

static void allocations_fail(void **state)
{
	const struct place *p = *state;
	int n_failed = 0;
	for (int i = 0;; i++) {
		struct cohort_err err = {0};
		mem_fail_after(i);
		const enum cohort_status st = write_all_kinds(p->path, &err);
		mem_fail_after(-1);
		if (!st)
			break;
		n_failed++;
		assert_int_equal(st, COHORT_E_MEMORY);
		assert_non_null(strstr(err.text, "memory"));
		assert_int_equal(n_in(p->dir), 0);
	}
	assert_true(n_failed > 20);
	check_all_kinds(p->path);
}

/* An addition that ran out of memory can be made again. */
static void gguf_writer_goes_on_after_a_refusal(void **state)
{
	const struct place *p = *state;
	struct cohort_gguf_writer *w = writer(p->path);
	const uint64_t ne = 1;
	for (uint32_t k = 0; k < 100; k++) {
		char name[16];
		snprintf(name, sizeof name, "k%u", k);
		for (int i = 0;; i++) {
			mem_fail_after(i);
			const enum cohort_status st = cohort_gguf_writer_u32(w, name, k, NULL);
			mem_fail_after(-1);
			if (!st)
				break;
			assert_int_equal(st, COHORT_E_MEMORY);
		}
		for (int i = 0;; i++) {
			mem_fail_after(i);
			const enum cohort_status st = cohort_gguf_writer_tensor(w, name, 0, 1, &ne, NULL);
			mem_fail_after(-1);
			if (!st)
				break;
			assert_int_equal(st, COHORT_E_MEMORY);
		}
	}
	OK(cohort_gguf_writer_begin(w, err));
	for (uint32_t k = 0; k < 100; k++)
		OK(cohort_gguf_writer_data(w, k, &k, 4, err));
	OK(cohort_gguf_writer_finish(w, err));
	cohort_gguf_writer_free(w);
	struct cohort_gguf *g = open_file(p->path);
	assert_int_equal(cohort_gguf_n_kv(g), 100);
	assert_int_equal(cohort_gguf_n_tensors(g), 100);
	cohort_gguf_free(g);
}

int main(void)
{
#define CASE(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
	const struct CMUnitTest tests[] = {
		CASE(gguf_writer_round_trip), CASE(gguf_writer_copies_a_file), CASE(gguf_writer_counts_tensors),
		CASE(no_tensors), CASE(gguf_writer_refuses_bad_arguments), CASE(gguf_writer_tensor_sizes),
		CASE(large_alignment), CASE(too_many_bytes), CASE(writer_freed_early_leaves_old_file),
		CASE(system_calls_fail),
		CASE(stays_failed), CASE(allocations_fail), CASE(gguf_writer_goes_on_after_a_refusal),
	};
	return cmocka_run_group_tests_name("gguf_write", tests, NULL, NULL);
}
