/* The GGUF reader: what it must accept, of each version, size and alignment. */
#include "gguf_case.h"

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
	file_release(&f);
}

static void test_gguf_version_2(void **state)
{
	(void)state;
	check_representative(2);
}

static void test_gguf_version_3(void **state)
{
	(void)state;
	check_representative(3);
}

static void test_default_alignment(void **state)
{
	struct file f = {0};
	struct gguf g;

	(void)state;
	put_header(&f, 3, 2, 0);
	put_tensor(&f, "x", 1, (uint64_t[]){1}, 0, 32); /* not in the order of their data */
	put_tensor(&f, "y", 1, (uint64_t[]){8}, 0, 0);
	put_pad(&f, 32);
	put_fill(&f, 36);
	accept(&g, &f);
	assert_int_equal(g.alignment, 32);
	assert_int_equal(g.data_offset % 32, 0);
	assert_int_equal(gguf_find_tensor(&g, "x")->offset, g.data_offset + 32);
	gguf_release(&g);
	drop();
	file_release(&f);
}

static void test_gguf_alignments(void **state)
{
	(void)state;
	for (uint32_t alignment = 8; alignment <= 1u << 20; alignment *= 2) {
		struct file f = {0};
		struct gguf g;
		put_header(&f, 3, 1, 1);
		put_kv_u32(&f, "general.alignment", alignment);
		put_tensor(&f, "x", 1, (uint64_t[]){2}, 0, 0);
		put_pad(&f, alignment);
		put_fill(&f, 8);
		accept(&g, &f);
		assert_int_equal(g.alignment, alignment);
		assert_int_equal(g.data_offset + 8, f.n);
		gguf_release(&g);
		drop();
		file_release(&f);
	}
}

/* A file without tensors may end right behind its metadata, or with padding. */
static void test_no_tensors(void **state)
{
	struct file f = {0};
	struct gguf g;

	(void)state;
	put_header(&f, 3, 0, 0);
	accept(&g, &f);
	assert_int_equal(g.n_kv, 0);
	assert_int_equal(g.data_offset, 24);
	assert_null(gguf_find(&g, "k"));
	gguf_release(&g);
	put_header(&f, 3, 0, 1);
	put_kv_u32(&f, "k", 7);
	accept(&g, &f);
	assert_int_equal(g.data_offset, f.n);
	gguf_release(&g);
	put_pad(&f, 32);
	put_fill(&f, 40);
	accept(&g, &f);
	assert_int_equal(g.data_offset, 64);
	gguf_release(&g);
	drop();
	file_release(&f);
}

static void test_gguf_with_many_keys(void **state)
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
	file_release(&f);
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
	put_header(&f, 3, 1, 1);
	put_kv_u32(&f, key, 5);
	put_tensor(&f, name, 1, (uint64_t[]){1}, 0, 0);
	put_pad(&f, 32);
	put_fill(&f, 4);
	accept(&g, &f);
	assert_int_equal(gguf_find(&g, key)->u, 5);
	assert_non_null(gguf_find_tensor(&g, name));
	gguf_release(&g);
	drop();
	file_release(&f);
	free(key);
}

static void test_gguf_type_names_and_sizes(void **state)
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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_gguf_version_2),
		cmocka_unit_test(test_gguf_version_3),
		cmocka_unit_test(test_default_alignment),
		cmocka_unit_test(test_gguf_alignments),
		cmocka_unit_test(test_no_tensors),
		cmocka_unit_test(test_gguf_with_many_keys),
		cmocka_unit_test(test_longest_names),
		cmocka_unit_test(test_gguf_type_names_and_sizes),
	};

	return cmocka_run_group_tests_name("gguf", tests, NULL, NULL);
}
