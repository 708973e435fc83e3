/* cohort_tools.h's view of GGUF files: values, cursors, text, tensors, and what it refuses. */
#include "common.h" /* before cmocka.h, which has a fail of its own */
#include "temp.h"

#include "gguf_case.h"

#include "base/mem.h"
#include "base/rng.h"
#include "cohort_tools.h"

#include <math.h>
#include <unistd.h>

static void write_temp(char path[TEMP_MAX], const struct file *f)
{
	int fd;

	fd = mkstemp(temp_name(path, "gguf-tools"));
	assert_true(fd >= 0);
	assert_int_equal(write(fd, f->d, f->n), (ssize_t)f->n);
	close(fd);
}

static struct cohort_gguf *open_file(const struct file *f)
{
	struct cohort_gguf *g = NULL;
	struct cohort_err err = {0};
	char path[TEMP_MAX];

	write_temp(path, f);
	if (cohort_gguf_open(path, &g, &err))
		fail_msg("%s", err.text);
	unlink(path);
	return g;
}

static struct cohort_gguf *open_representative(void)
{
	struct file f = {0};

	representative(&f, 3);
	struct cohort_gguf *g = open_file(&f);
	assert_int_equal(cohort_gguf_file_bytes(g), f.n);
	file_release(&f);
	return g;
}

static struct cohort_gguf_value value(const struct cohort_gguf *g, const char *key)
{
	struct cohort_gguf_kv kv;

	if (!cohort_gguf_kv_find(g, key, &kv))
		fail_msg("no key %s", key);
	return kv.value;
}

static void formats_to(const struct cohort_gguf_value *v, size_t n_elems_max, const char *want)
{
	char buf[200];
	size_t n = cohort_gguf_format(v, n_elems_max, buf, sizeof buf);

	assert_string_equal(buf, want);
	assert_int_equal(n, strlen(want));
}

static void test_public_gguf_directory(void **state)
{
	struct cohort_gguf *g = open_representative();
	struct cohort_gguf_kv kv, same;
	struct cohort_gguf_tensor t;
	(void)state;

	assert_int_equal(cohort_gguf_version(g), 3);
	assert_int_equal(cohort_gguf_alignment(g), 64);
	assert_int_equal(cohort_gguf_n_kv(g), 18);
	assert_int_equal(cohort_gguf_n_tensors(g), 4);
	assert_int_equal(cohort_gguf_data_offset(g) + 256 + 24, cohort_gguf_file_bytes(g));
	assert_true(cohort_gguf_kv_get(g, 0, &kv));
	assert_int_equal(kv.offset, 24);
	assert_int_equal(kv.n_key, 2);
	assert_memory_equal(kv.key, "u8", 2);
	for (size_t i = 0; i < 18; i++) {
		char key[32] = "";
		assert_true(cohort_gguf_kv_get(g, i, &kv));
		memcpy(key, kv.key, kv.n_key);
		assert_true(cohort_gguf_kv_find(g, key, &same));
		assert_ptr_equal(kv.key, same.key);
		assert_int_equal(kv.offset, same.offset);
	}
	/* Past the end, or unknown: nothing is written. */
	memset(&kv, 0x5a, sizeof kv);
	memset(&t, 0x5a, sizeof t);
	same = kv;
	assert_false(cohort_gguf_kv_get(g, 18, &kv));
	assert_false(cohort_gguf_kv_get(g, SIZE_MAX, &kv));
	assert_false(cohort_gguf_kv_find(g, "absent", &kv));
	assert_false(cohort_gguf_kv_find(g, "", &kv));
	assert_memory_equal(&kv, &same, sizeof kv);
	assert_false(cohort_gguf_tensor_get(g, 4, &t));
	assert_int_equal(t.type, 0x5a5a5a5a);
	cohort_gguf_free(g);
	cohort_gguf_free(NULL);
}

static void test_public_gguf_values(void **state)
{
	struct cohort_gguf *g = open_representative();
	struct cohort_gguf_value v;
	(void)state;

	assert_int_equal(value(g, "u8").u, 200);
	assert_int_equal(value(g, "u8").i, 0);
	assert_int_equal(value(g, "i16").i, -30000);
	assert_int_equal(value(g, "i16").u, 0);
	assert_true(value(g, "f64").f == -0.1);
	assert_int_equal(value(g, "yes").type, COHORT_GGUF_BOOL);
	assert_int_equal(value(g, "yes").u, 1);
	v = value(g, "str");
	assert_int_equal(v.n_str, 3);
	assert_memory_equal(v.str, "a\0\xff", 3);
	assert_null(v.data);
	v = value(g, "ints");
	assert_int_equal(v.elem_type, COHORT_GGUF_I32);
	assert_int_equal(v.n_elems, 3);
	assert_int_equal(v.data_bytes, 12);
	assert_null(v.str);
	assert_string_equal(cohort_gguf_type_name(COHORT_GGUF_U8), "u8");
	assert_string_equal(cohort_gguf_type_name(COHORT_GGUF_ARRAY), "array");
	assert_string_equal(cohort_gguf_type_name((enum cohort_gguf_type)13), "unknown");
	cohort_gguf_free(g);
}

static void test_public_gguf_tensors(void **state)
{
	struct cohort_gguf *g = open_representative();
	struct cohort_gguf_tensor t;
	const uint64_t data = cohort_gguf_data_offset(g);
	(void)state;

	assert_true(cohort_gguf_tensor_get(g, 0, &t));
	assert_int_equal(t.n_name, 1);
	assert_int_equal(t.name[0], 'a');
	assert_string_equal(t.type_name, "F32");
	assert_int_equal(t.n_dims, 1);
	assert_int_equal(t.ne[0], 5);
	assert_int_equal(t.ne[1] * t.ne[2] * t.ne[3], 1);
	assert_int_equal(t.offset, data);
	assert_int_equal(t.n_bytes, 20);
	assert_true(cohort_gguf_tensor_get(g, 1, &t));
	assert_string_equal(t.type_name, "Q4_0");
	assert_int_equal(t.n_bytes, 108);
	/* A type nobody knows is listed, without a size. */
	assert_true(cohort_gguf_tensor_get(g, 2, &t));
	assert_int_equal(t.type, 99);
	assert_string_equal(t.type_name, "unknown");
	assert_int_equal(t.n_bytes, 0);
	assert_int_equal(t.offset, data + 192);
	assert_true(cohort_gguf_tensor_get(g, 3, &t));
	assert_string_equal(t.type_name, "F16");
	assert_int_equal(t.n_dims, 4);
	assert_int_equal(t.ne[3], 2);
	cohort_gguf_free(g);
}

/* Numbers of the enum that are no format (types 4 and 5 were taken back long ago) and numbers far outside. */
static void test_unknown_types(void **state)
{
	static const uint32_t types[] = {4, 5, 99, 1u << 16, UINT32_MAX};
	(void)state;

	for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
		struct file f = {0};
		struct cohort_gguf_tensor t;
		put_header(&f, 3, 1, 0);
		put_tensor(&f, "t", 1, (uint64_t[]){7}, types[i], 0);
		put_pad(&f, 32);
		put_fill(&f, 32);
		struct cohort_gguf *g = open_file(&f);
		assert_true(cohort_gguf_tensor_get(g, 0, &t));
		assert_string_equal(t.type_name, "unknown");
		assert_int_equal(t.type, types[i]);
		assert_int_equal(t.n_bytes, 0);
		cohort_gguf_free(g);
		file_release(&f);
	}
}

static void test_cursor_numbers(void **state)
{
	struct cohort_gguf *g = open_representative();
	struct cohort_gguf_value a = value(g, "ints"), v = {.i = 77};
	struct cohort_gguf_cursor c;
	static const int want[] = {1, -2, 3};
	(void)state;

	cohort_gguf_cursor_init(&c, &a);
	for (size_t i = 0; i < 3; i++) {
		assert_true(cohort_gguf_cursor_next(&c, &v));
		assert_int_equal(v.type, COHORT_GGUF_I32);
		assert_int_equal(v.i, want[i]);
	}
	v.i = 77;
	assert_false(cohort_gguf_cursor_next(&c, &v));
	assert_int_equal(v.i, 77);
	for (size_t i = 3; i-- > 0;) {
		assert_true(cohort_gguf_cursor_seek(&c, i));
		assert_true(cohort_gguf_cursor_next(&c, &v));
		assert_int_equal(v.i, want[i]);
	}
	/* A refused seek leaves the cursor where it was. */
	assert_false(cohort_gguf_cursor_seek(&c, 3));
	assert_false(cohort_gguf_cursor_seek(&c, UINT64_MAX));
	assert_true(cohort_gguf_cursor_next(&c, &v));
	assert_int_equal(v.i, want[1]);
	/* What is no array has no elements. */
	a = value(g, "u32");
	cohort_gguf_cursor_init(&c, &a);
	assert_false(cohort_gguf_cursor_next(&c, &v));
	assert_false(cohort_gguf_cursor_seek(&c, 0));
	cohort_gguf_free(g);
}

static void test_cursor_strings(void **state)
{
	static const char *const want[] = {"one", "", "three"};
	struct cohort_gguf *g = open_representative();
	struct cohort_gguf_value a = value(g, "strs"), v;
	struct cohort_gguf_cursor c;
	(void)state;

	cohort_gguf_cursor_init(&c, &a);
	for (size_t to = 0; to < 3; to++)
		for (size_t from = 0; from < 3; from++) {
			assert_true(cohort_gguf_cursor_seek(&c, from));
			assert_true(cohort_gguf_cursor_seek(&c, to));
			assert_true(cohort_gguf_cursor_next(&c, &v));
			assert_int_equal(v.n_str, strlen(want[to]));
			assert_memory_equal(v.str, want[to], v.n_str);
		}
	assert_false(cohort_gguf_cursor_seek(&c, 3));
	assert_false(cohort_gguf_cursor_next(&c, &v));
	cohort_gguf_free(g);
}

static void test_cursor_nested(void **state)
{
	struct cohort_gguf *g = open_representative();
	struct cohort_gguf_value a = value(g, "nested"), v, w, x;
	struct cohort_gguf_cursor c, in, deep;
	(void)state;

	cohort_gguf_cursor_init(&c, &a);
	assert_true(cohort_gguf_cursor_seek(&c, 2));
	assert_true(cohort_gguf_cursor_next(&c, &v));
	assert_false(cohort_gguf_cursor_next(&c, &w));
	assert_int_equal(v.type, COHORT_GGUF_ARRAY);
	assert_int_equal(v.elem_type, COHORT_GGUF_ARRAY);
	cohort_gguf_cursor_init(&in, &v);
	assert_true(cohort_gguf_cursor_next(&in, &w));
	assert_int_equal(w.elem_type, COHORT_GGUF_U16);
	cohort_gguf_cursor_init(&deep, &w);
	assert_true(cohort_gguf_cursor_seek(&deep, 1));
	assert_true(cohort_gguf_cursor_next(&deep, &x));
	assert_int_equal(x.u, 8);
	assert_false(cohort_gguf_cursor_next(&in, &w));
	/* Back from the end, over arrays of different sizes. */
	assert_true(cohort_gguf_cursor_seek(&c, 1));
	assert_true(cohort_gguf_cursor_next(&c, &v));
	assert_int_equal(v.elem_type, COHORT_GGUF_F64);
	assert_int_equal(v.n_elems, 0);
	cohort_gguf_cursor_init(&in, &v);
	assert_false(cohort_gguf_cursor_next(&in, &w));
	assert_true(cohort_gguf_cursor_seek(&c, 0));
	assert_true(cohort_gguf_cursor_next(&c, &v));
	assert_int_equal(v.elem_type, COHORT_GGUF_STRING);
	cohort_gguf_free(g);
}

static void test_gguf_values_as_text(void **state)
{
	static const struct { const char *key, *text; } want[] = {
		{"u8", "200"}, {"i8", "-100"}, {"u32", "4000000000"}, {"f32", "1.5"}, {"f64", "-0.1"},
		{"yes", "true"}, {"no", "false"}, {"u64", "18446744073709551615"}, {"i64", "-9223372036854775808"},
		{"str", "\"a\\x00\\xff\""}, {"ints", "[1, -2, 3]"}, {"strs", "[\"one\", \"\", \"three\"]"},
		{"bools", "[false, true]"}, {"nested", "[[\"x\"], [], [[7, 8]]]"},
	};
	struct cohort_gguf *g = open_representative();
	struct cohort_gguf_value v;
	(void)state;

	for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
		v = value(g, want[i].key);
		formats_to(&v, 100, want[i].text);
	}
	v = value(g, "nested");
	formats_to(&v, 3, "[[\"x\"], [], [[7, 8]]]");
	formats_to(&v, 1, "[[\"x\"], ...]");
	formats_to(&v, 0, "[...]");
	v = value(g, "ints");
	formats_to(&v, 2, "[1, -2, ...]");
	formats_to(&v, 3, "[1, -2, 3]");
	v = (struct cohort_gguf_value){.type = COHORT_GGUF_ARRAY, .elem_type = COHORT_GGUF_U8};
	formats_to(&v, 0, "[]");
	v = (struct cohort_gguf_value){.type = COHORT_GGUF_STRING, .n_str = 10};
	v.str = "\"\\\t\r\n\x1b\x7f\xc3\xa9\xc3";
	formats_to(&v, 0, "\"\\\"\\\\\\t\\r\\n\\x1b\\x7f\xc3\xa9\\xc3\"");
	/* C1 controls and marks of direction. Seen red without is_unsafe. */
	v.n_str = 11;
	v.str = "\xc2\x9b" "a\xe2\x80\xae\xe2\x81\xa6\xc3\xa9";
	formats_to(&v, 0, "\"\\xc2\\x9ba\\xe2\\x80\\xae\\xe2\\x81\\xa6\xc3\xa9\"");
	v = (struct cohort_gguf_value){.type = COHORT_GGUF_F32, .f = 0.1f};
	formats_to(&v, 0, "0.1");
	v.f = 1e-5f;
	formats_to(&v, 0, "1e-05");
	v.f = INFINITY;
	formats_to(&v, 0, "inf");
	cohort_gguf_free(g);
}

/* Whatever the room, the text is cut between units, and nothing is written behind the room. */
static void test_format_cut(void **state)
{
	static const char *const units[] = {
		"\"", "a", "\xc3\xa9", "\\n", "\\x1b", "\\\"", "\xf0\x9f\xa6\x99", "b", "\"",
	};
	const struct cohort_gguf_value s = {
		.type = COHORT_GGUF_STRING, .str = "a\xc3\xa9\n\x1b\"\xf0\x9f\xa6\x99" "b", .n_str = 11,
	};
	char whole[64] = "", buf[72];
	(void)state;

	for (size_t i = 0; i < sizeof units / sizeof *units; i++)
		strcat(whole, units[i]);
	for (size_t n_max = 0; n_max < 64; n_max++) {
		size_t fits = 0;
		for (size_t i = 0; i < sizeof units / sizeof *units && fits + strlen(units[i]) < n_max; i++)
			fits += strlen(units[i]);
		memset(buf, '#', sizeof buf);
		assert_int_equal(cohort_gguf_format(&s, 9, buf, n_max), strlen(whole));
		assert_memory_equal(buf, whole, fits);
		if (n_max)
			assert_int_equal(buf[fits], '\0');
		for (size_t i = n_max ? fits + 1 : 0; i < sizeof buf; i++)
			assert_int_equal(buf[i], '#');
	}
	assert_int_equal(cohort_gguf_format(&s, 9, NULL, 0), strlen(whole));
}

/* A number is one unit. */
static void test_format_cut_number(void **state)
{
	const struct cohort_gguf_value n = {.type = COHORT_GGUF_I32, .i = -12345};
	char buf[8];
	(void)state;

	assert_int_equal(cohort_gguf_format(&n, 0, buf, 6), 6);
	assert_string_equal(buf, "");
	assert_int_equal(cohort_gguf_format(&n, 0, buf, 7), 6);
	assert_string_equal(buf, "-12345");
}

/* The programs' names from files: the same escapes without the quotation marks, and dots where a name is cut. Seen red
 * by a name that keeps its last mark, and by dots behind the room. */
static void test_gguf_names_are_escaped_and_cut(void **state)
{
	char name[GGUF_NAME_BYTES + 1], longest[400];
	(void)state;

	assert_string_equal(gguf_name(name, "blk.0.attn_q.weight", 19), "blk.0.attn_q.weight");
	assert_string_equal(gguf_name(name, "", 0), "");
	assert_string_equal(gguf_name(name, "a\x1b[31m\n\xff", 8), "a\\x1b[31m\\n\\xff");
	memset(longest, 'n', sizeof longest);
	for (size_t n = GGUF_NAME_BYTES - 10; n < sizeof longest; n++) {
		name[GGUF_NAME_BYTES] = '#';
		const char *shown = gguf_name(name, longest, n);
		const size_t n_kept = strspn(shown, "n");
		assert_int_equal(name[GGUF_NAME_BYTES], '#');
		assert_true((n_kept == n && !shown[n]) || strcmp(shown + n_kept, "...") == 0);
		assert_true(n_kept >= GGUF_NAME_BYTES - 10);
	}
}

static void test_format_reads_back(void **state)
{
	struct rng r;
	char buf[64];
	(void)state;

	rng_init(&r, 1, 1);
	for (int i = 0; i < 20000; i++) {
		uint32_t bits32 = rng_u32(&r);
		uint64_t bits64 = (uint64_t)rng_u32(&r) << 32 | rng_u32(&r);
		struct cohort_gguf_value v = {.type = COHORT_GGUF_F32};
		float f;
		double d;
		memcpy(&f, &bits32, 4);
		memcpy(&d, &bits64, 8);
		if (isfinite(f)) {
			v.f = (double)f;
			cohort_gguf_format(&v, 0, buf, sizeof buf);
			assert_true(strtof(buf, NULL) == f);
		}
		if (isfinite(d)) {
			v = (struct cohort_gguf_value){.type = COHORT_GGUF_F64, .f = d};
			cohort_gguf_format(&v, 0, buf, sizeof buf);
			assert_true(strtod(buf, NULL) == d);
		}
	}
}

static void test_gguf_open_refuses(void **state)
{
	struct cohort_gguf *const old = (struct cohort_gguf *)&old, *g = old;
	struct file f = {0};
	struct cohort_err err = {0};
	char path[TEMP_MAX];
	(void)state;

	assert_int_equal(cohort_gguf_open(NULL, &g, &err), COHORT_E_ARG);
	assert_string_equal(err.text, "path is NULL");
	assert_int_equal(cohort_gguf_open("/tmp", NULL, &err), COHORT_E_ARG);
	assert_string_equal(err.text, "out is NULL");
	assert_int_equal(cohort_gguf_open("/nonexistent/file", &g, &err), COHORT_E_IO);
	assert_non_null(strstr(err.text, "/nonexistent/file"));
	assert_int_equal(cohort_gguf_open("/tmp", &g, &err), COHORT_E_IO);
	assert_int_equal(cohort_gguf_open("/tmp", &g, NULL), COHORT_E_IO);
	put_header(&f, 4, 0, 0);
	write_temp(path, &f);
	assert_int_equal(cohort_gguf_open(path, &g, &err), COHORT_E_UNSUPPORTED);
	unlink(path);
	put_header(&f, 3, 0, 1);
	put_fill(&f, 40);
	write_temp(path, &f);
	assert_int_equal(cohort_gguf_open(path, &g, &err), COHORT_E_FORMAT);
	assert_int_equal(err.offset, 24);
	assert_memory_equal(err.text, path, strlen(path));
	unlink(path);
	assert_ptr_equal(g, old);
	file_release(&f);
}

static void test_gguf_open_out_of_memory_at_every_point(void **state)
{
	struct cohort_gguf *g = NULL;
	struct cohort_err err = {0};
	struct file f = {0};
	char path[TEMP_MAX];
	int64_t n = 0;
	(void)state;

	many(&f);
	write_temp(path, &f);
	for (;; n++) {
		mem_fail_after(n);
		enum cohort_status st = cohort_gguf_open(path, &g, &err);
		mem_fail_after(-1);
		if (!st)
			break;
		assert_int_equal(st, COHORT_E_MEMORY);
		assert_int_equal(err.status, COHORT_E_MEMORY);
		assert_null(g);
	}
	assert_true(n > 5);
	/* An opened file needs no more. */
	mem_fail_all(true);
	struct cohort_gguf_kv kv;
	struct cohort_gguf_tensor t;
	char buf[16];
	assert_true(cohort_gguf_kv_find(g, "key.499", &kv));
	assert_int_equal(cohort_gguf_format(&kv.value, 1, buf, sizeof buf), 3);
	assert_true(cohort_gguf_tensor_get(g, 499, &t));
	mem_fail_all(false);
	cohort_gguf_free(g);
	unlink(path);
	file_release(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_public_gguf_directory),
		cmocka_unit_test(test_public_gguf_values),
		cmocka_unit_test(test_public_gguf_tensors),
		cmocka_unit_test(test_unknown_types),
		cmocka_unit_test(test_cursor_numbers),
		cmocka_unit_test(test_cursor_strings),
		cmocka_unit_test(test_cursor_nested),
		cmocka_unit_test(test_gguf_values_as_text),
		cmocka_unit_test(test_format_cut),
		cmocka_unit_test(test_format_cut_number),
		cmocka_unit_test(test_gguf_names_are_escaped_and_cut),
		cmocka_unit_test(test_format_reads_back),
		cmocka_unit_test(test_gguf_open_refuses),
		cmocka_unit_test(test_gguf_open_out_of_memory_at_every_point),
	};

	return cmocka_run_group_tests_name("gguf_tools", tests, NULL, NULL);
}
