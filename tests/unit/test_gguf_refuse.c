/* The GGUF reader: every refusal of a header or a key/value, with its offset. */
#include "gguf_case.h"

#include <sys/mman.h>

/* ---- The header ---- */

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
	put_header(&f, 3, 0, 0);
	f.n = 23;
	refuse(&f, COHORT_E_FORMAT, 0, "file is 23 bytes, too short for a GGUF header");
}

static void refuse_magic(void **state)
{
	struct file f = {0};

	(void)state;
	put_header(&f, 3, 0, 0);
	memcpy(f.d, "gg\nt", 4);
	refuse(&f, COHORT_E_FORMAT, 0, "not a GGUF file (magic 'gg\\x0at')");
}

/* What is no GGUF file is called by its name; what only resembles such a beginning is not. Shown red by leaving out a
 * line of the table, by a comparison that heeds case, by a length of safetensors that is not looked at. */
static void refuse_foreign(void **state)
{
	static const struct {
		const char *bytes;
		size_t n;
		enum cohort_status status;
		const char *word;
	} files[] = {
#define BYTES(s) s, sizeof s - 1
		{BYTES("lmgg\0\0\x7d\0"), COHORT_E_UNSUPPORTED, "a GGML file, older than GGUF"},
		{BYTES("ggml\0\0\x7d\0"), COHORT_E_UNSUPPORTED, "a GGML file, older than GGUF"},
		{BYTES("fmgg\1\0\0\0"), COHORT_E_UNSUPPORTED, "a GGMF file, older than GGUF"},
		{BYTES("ggmf\1\0\0\0"), COHORT_E_UNSUPPORTED, "a GGMF file, older than GGUF"},
		{BYTES("tjgg\3\0\0\0"), COHORT_E_UNSUPPORTED, "a GGJT file, older than GGUF"},
		{BYTES("ggjt\3\0\0\0"), COHORT_E_UNSUPPORTED, "a GGJT file, older than GGUF"},
		{BYTES("algg\1\0\0\0"), COHORT_E_UNSUPPORTED, "a GGLA file (an adapter), older than GGUF"},
		{BYTES("ggla\1\0\0\0"), COHORT_E_UNSUPPORTED, "a GGLA file (an adapter), older than GGUF"},
		{BYTES("GGLA\1\0\0\0"), COHORT_E_UNSUPPORTED, "a GGLA file (an adapter), older than GGUF"},
		{BYTES("PK\3\4\0\0"), COHORT_E_FORMAT, "a zip file, as PyTorch writes models"},
		{BYTES("\x80\2\x8a\x0al\xfc\x9c"), COHORT_E_FORMAT, "an old PyTorch file"},
		{BYTES("\x89HDF\r\n"), COHORT_E_FORMAT, "an HDF5 file"},
		{BYTES("\x1f\x8b\x08"), COHORT_E_FORMAT, "packed with gzip: unpack it"},
		{BYTES("\xfd" "7zXZ\0"), COHORT_E_FORMAT, "packed with xz"},
		{BYTES("\x28\xb5\x2f\xfd"), COHORT_E_FORMAT, "packed with zstd"},
		{BYTES("BZh9"), COHORT_E_FORMAT, "packed with bzip2"},
		{BYTES("7z\xbc\xaf\x27\x1c"), COHORT_E_FORMAT, "a 7z archive"},
		{BYTES("version https://git-lfs.github.com/spec/v1\noid"), COHORT_E_FORMAT, "a Git LFS pointer"},
		{BYTES("\0\0\0\0\0\0\0\0\0"), COHORT_E_FORMAT, "begins with zeros"},
		{BYTES("\x0a\0\0\0\0\0\0\0{\"a\": []} "), COHORT_E_FORMAT, "a safetensors file: convert it to GGUF"},
		{BYTES("\x0a\0\0\0\0\0\0\0{ \"a\": 1} "), COHORT_E_FORMAT, "a safetensors file: convert it to GGUF"},
		{BYTES("\2\0\0\0\0\0\0\0{}"), COHORT_E_FORMAT, "a safetensors file: convert it to GGUF"},
		{BYTES("<!DOCTYPE html>\n"), COHORT_E_FORMAT, "a web page (HTML)"},
		{BYTES("\r\n \t<!doctype HTML>"), COHORT_E_FORMAT, "a web page (HTML)"},
		{BYTES("<HTML lang=en>"), COHORT_E_FORMAT, "a web page (HTML)"},
		{BYTES("<?xml version=\"1.0\"?><Error>"), COHORT_E_FORMAT, "an XML page"},
		{BYTES("{\"metadata\": {}}"), COHORT_E_FORMAT, "a JSON text"},
		{BYTES("{\n  \"error\""), COHORT_E_FORMAT, "a JSON text"},
		/* Not quite, or too short for it. */
		{BYTES("lmg"), COHORT_E_FORMAT, "file is 3 bytes, too short"},
		{BYTES("<htm"), COHORT_E_FORMAT, "too short"},
		{BYTES("   "), COHORT_E_FORMAT, "too short"},
		{BYTES("\0\0\0\0\0\0\0"), COHORT_E_FORMAT, "too short"},
		{BYTES("version https://git-lf"), COHORT_E_FORMAT, "too short"},
		{BYTES("\x0a\0\0\0\0\0\0\0{"), COHORT_E_FORMAT, "too short"},
		{BYTES("\xff\0\0\0\0\0\0\0{\"a\": [] too long}"), COHORT_E_FORMAT, "not a GGUF file (magic '\\xff"},
		{BYTES("\1\0\0\0\0\0\0\0{\"a\": [] too short}"), COHORT_E_FORMAT, "not a GGUF file (magic '\\x01"},
		{BYTES("\x0a\0\0\0\0\0\0\0[\"a\", 1] and more"), COHORT_E_FORMAT, "not a GGUF file (magic '\\x0a"},
		{BYTES("\x0a\0\0\0\0\0\0\0{a: 1} and some more"), COHORT_E_FORMAT, "not a GGUF file (magic '\\x0a"},
		{BYTES("                                                                     <html>"), COHORT_E_FORMAT,
				"not a GGUF file (magic '    ')"}, /* 69 blanks, of which 64 are looked at */
		{BYTES("<p>this is not a whole page</p>"), COHORT_E_FORMAT, "not a GGUF file (magic '<p>t')"},
		{BYTES("1 911 630 264 493 some token ids"), COHORT_E_FORMAT, "not a GGUF file (magic '1 91')"},
#undef BYTES
	};

	(void)state;
	for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
		struct file f = {0};
		put(&f, files[i].bytes, files[i].n);
		refuse(&f, files[i].status, 0, files[i].word);
	}
}

static void refuse_version(uint32_t version, const char *word)
{
	struct file f = {0};

	put_header(&f, version, 0, 0);
	refuse(&f, COHORT_E_UNSUPPORTED, 4, word);
}

static void refuse_versions(void **state)
{
	(void)state;
	refuse_version(0, "version 0");
	refuse_version(1, "GGUF version 1, of August 2023, is not supported");
	refuse_version(4, "version 4");
	refuse_version(0x12345678, "version 305419896");
}

static void refuse_big_endian(void **state)
{
	(void)state;
	refuse_version(__builtin_bswap32(3), "big-endian GGUF file (version 3 byte-swapped); only little-endian");
	refuse_version(__builtin_bswap32(2), "big-endian GGUF file (version 2 byte-swapped)");
	refuse_version(__builtin_bswap32(1), "big-endian GGUF file (version 1 byte-swapped)");
}

static void refuse_tensor_count(void **state)
{
	struct file f = {0};

	(void)state;
	put_header(&f, 3, UINT64_MAX, 0);
	put_fill(&f, 100);
	refuse(&f, COHORT_E_FORMAT, 8, "tensors cannot fit");
	f = (struct file){0};
	put_header(&f, 3, 4, 0); /* a tensor takes 33 bytes at least */
	put_fill(&f, 4 * 33 - 1);
	refuse(&f, COHORT_E_FORMAT, 8, "tensors cannot fit");
}

static void refuse_kv_count(void **state)
{
	struct file f = {0};

	(void)state;
	put_header(&f, 3, 0, UINT64_MAX / 2);
	put_fill(&f, 100);
	refuse(&f, COHORT_E_FORMAT, 16, "key/values cannot fit");
	f = (struct file){0};
	put_header(&f, 3, 0, 1);
	put_fill(&f, 13);
	refuse(&f, COHORT_E_FORMAT, 16, "key/values cannot fit");
}

/* Counts that would fit, in a file of 72 GB of which nothing but the header is ever touched: the indexes by name hold
 * 32-bit numbers. Seen red without a look at the number of tensors. */
static void refuse_counts_of_32_bits(void **state)
{
	const size_t n = (size_t)72 << 30;
	struct cohort_err err = {0};
	struct file f = {0};
	struct gguf g;
	uint8_t *d = mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	(void)state;
	if (d == MAP_FAILED)
		skip();
	put_header(&f, 3, (uint64_t)INT32_MAX + 1, 0);
	memcpy(d, f.d, f.n);
	assert_int_equal(gguf_parse(&g, d, n, test_size, &err), COHORT_E_UNSUPPORTED);
	assert_int_equal(err.offset, 8);
	assert_non_null(strstr(err.text, "2147483648 tensors are too many"));
	assert_zeroed(&g);
	put_header(&f, 3, 0, (uint64_t)INT32_MAX + 1);
	memcpy(d, f.d, f.n);
	assert_int_equal(gguf_parse(&g, d, n, test_size, &err), COHORT_E_UNSUPPORTED);
	assert_int_equal(err.offset, 16);
	assert_non_null(strstr(err.text, "2147483648 key/values are too many"));
	assert_zeroed(&g);
	for (uint64_t n_kv = 0; n_kv <= INT32_MAX; n_kv += INT32_MAX) { /* one less is not too many */
		put_header(&f, 3, INT32_MAX - n_kv, n_kv);
		memcpy(d, f.d, f.n);
		assert_int_equal(gguf_parse(&g, d, n, test_size, &err), COHORT_E_FORMAT);
	}
	munmap(d, n);
	file_release(&f);
}

/* The count fits the file, but no longer what the metadata leaves of it. */
static void refuse_tensor_count_late(void **state)
{
	struct file f = {0};
	size_t at;

	(void)state;
	put_header(&f, 3, 1, 1);
	put_kv_u32(&f, "key", 1);
	at = f.n;
	put_fill(&f, 32);
	refuse(&f, COHORT_E_FORMAT, (int64_t)at, "1 tensors cannot fit");
}

/* ---- Key/values. Each file has one key, "k", whose entry is at 24 and whose value is at 37. ---- */

#define VALUE_AT 37

static void start_kv(struct file *f, uint32_t type)
{
	*f = (struct file){0};
	put_header(f, 3, 0, 1);
	put_key(f, "k", type);
}

static void refuse_key_empty(void **state)
{
	struct file f = {0};

	(void)state;
	put_header(&f, 3, 0, 1);
	put_kv_u32(&f, "", 1);
	refuse(&f, COHORT_E_FORMAT, 24, "key is empty");
}

static void refuse_key_long(void **state)
{
	struct file f = {0};

	(void)state;
	put_header(&f, 3, 0, 1);
	put_u64(&f, 65536);
	put_fill(&f, 65536 + 8);
	refuse(&f, COHORT_E_FORMAT, 24, "the limit is 65535");
}

static void refuse_key_cut(void **state)
{
	struct file f = {0};

	(void)state;
	put_header(&f, 3, 0, 1);
	put_u64(&f, UINT64_MAX);
	put_fill(&f, 20);
	refuse(&f, COHORT_E_FORMAT, 24, "only 20 are left");
}

static void refuse_key_twice(void **state)
{
	struct file f = {0};
	size_t at;

	(void)state;
	put_header(&f, 3, 0, 3);
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
	put_header(&f, 3, 0, 2);
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
		put_header(&f, 3, 0, 1);
		put_kv_u32(&f, "general.alignment", bad[i]);
		refuse(&f, COHORT_E_FORMAT, 24, "power of two");
	}
}

static void refuse_alignment_type(void **state)
{
	struct file f = {0};

	(void)state;
	put_header(&f, 3, 0, 1);
	put_key(&f, "general.alignment", GGUF_U64);
	put_u64(&f, 32);
	refuse(&f, COHORT_E_FORMAT, 24, "general.alignment is a u64");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(refuse_empty),
		cmocka_unit_test(refuse_short),
		cmocka_unit_test(refuse_magic),
		cmocka_unit_test(refuse_foreign),
		cmocka_unit_test(refuse_versions),
		cmocka_unit_test(refuse_big_endian),
		cmocka_unit_test(refuse_tensor_count),
		cmocka_unit_test(refuse_kv_count),
		cmocka_unit_test(refuse_counts_of_32_bits),
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
	};

	return cmocka_run_group_tests_name("gguf_refuse", tests, NULL, NULL);
}
