/* The GGUF reader: walking arrays and reading values by type. */
#include "gguf_case.h"

#include <float.h>
#include <math.h>

static void test_gguf_arrays(void **state)
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
	at = a.n_bytes + 1;
	gguf_array_next(&a, &at, &v);
	assert_int_equal(v.type, GGUF_STRING);
	assert_int_equal(v.str.n, 0);
	assert_int_equal(at, a.n_bytes + 1);

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
	file_release(&f);
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

		put_header(&f, 3, 0, 2);
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
		file_release(&f);
	}
}

static void test_float_array_unaligned(void **state)
{
	struct file f = {0};
	struct gguf g;
	struct gguf_array a;

	(void)state;
	put_header(&f, 3, 0, 1);
	put_array(&f, "f", GGUF_F32, 2); /* the odd length of the key puts the floats at an odd address */
	put_f32(&f, 0.25f);
	put_f32(&f, -8.0f);
	accept(&g, &f);
	assert_int_equal(gguf_get_array(&g, "f", true, GGUF_F32, &a, NULL), COHORT_OK);
	assert_true(gguf_array_f32(&a, 0) == 0.25f);
	assert_true(gguf_array_f32(&a, 1) == -8.0f);
	gguf_release(&g);
	drop();
	file_release(&f);
}

static void test_depth_4(void **state)
{
	struct file f = {0};
	struct gguf g;

	(void)state;
	put_header(&f, 3, 0, 1);
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
	file_release(&f);
}

static void check_key(enum cohort_status st, const struct cohort_err *err, const struct gguf *g, const char *key,
		const char *word)
{
	assert_int_equal(st, COHORT_E_FORMAT);
	assert_int_equal(err->offset, gguf_find(g, key)->offset);
	assert_non_null(strstr(err->text, key));
	assert_non_null(strstr(err->text, word));
}

static void test_gguf_getters(void **state)
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
	file_release(&f);
}

static void test_getters_at_limits(void **state)
{
	struct file f = {0};
	struct cohort_err err;
	struct gguf g;
	uint32_t u = 0;
	float x = 0;

	(void)state;
	put_header(&f, 3, 0, 8);
	put_key(&f, "fits", GGUF_I64);
	put_u64(&f, UINT32_MAX);
	put_key(&f, "wide", GGUF_I64);
	put_u64(&f, (uint64_t)UINT32_MAX + 1);
	put_key(&f, "just", GGUF_U64);
	put_u64(&f, UINT32_MAX);
	put_key(&f, "huge", GGUF_F64);
	put_f64(&f, 1e300);
	put_key(&f, "largest", GGUF_F64);
	put_f64(&f, -(double)FLT_MAX);
	put_key(&f, "larger", GGUF_F64);
	put_f64(&f, nextafter((double)FLT_MAX, INFINITY));
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
	check_key(gguf_get_f32(&g, "larger", true, &x, &err), &err, &g, "larger", "large");
	assert_int_equal(gguf_get_f32(&g, "largest", true, &x, &err), COHORT_OK);
	assert_true(x == -FLT_MAX);
	assert_int_equal(gguf_get_f32(&g, "inf", true, &x, &err), COHORT_OK);
	assert_true(x == -INFINITY);
	assert_int_equal(gguf_get_f32(&g, "nan", true, &x, &err), COHORT_OK);
	assert_true(isnan(x));
	gguf_release(&g);
	drop();
	file_release(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_gguf_arrays),
		cmocka_unit_test(test_array_of_each_type),
		cmocka_unit_test(test_float_array_unaligned),
		cmocka_unit_test(test_depth_4),
		cmocka_unit_test(test_gguf_getters),
		cmocka_unit_test(test_getters_at_limits),
	};

	return cmocka_run_group_tests_name("gguf_values", tests, NULL, NULL);
}
