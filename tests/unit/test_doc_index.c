/* Saved indexes of documents: what is written is read back, and any other bytes are refused with a reason.
 *
 * Shown red by planted faults: no checksum (flipped_bits), a path's length and a chunk's file not compared
 * (index_with_false_numbers_is_refused), the size not compared (truncated_indexes_are_refused). */
#include "../../prog/doc_index.h"

#include "base/mem.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

enum { N_EMBD = 3 };

static void put(uint8_t *p, uint64_t v, int n)
{
	for (int i = 0; i < n; i++)
		p[i] = (uint8_t)(v >> (8 * i));
}

static void seal(uint8_t *bytes, size_t n)
{
	put(bytes + 24, doc_index_hash(bytes + 32, n - 32), 8);
}

/* Two files, three chunks. */
static void build(struct doc_index *ix)
{
	static const float vectors[3 * N_EMBD] = {1, 0, 0, 0, 1, 0, 0.6f, -0.8f, 0};

	*ix = (struct doc_index){.chunk_size = 64, .overlap = 8, .n_separator = 2};
	ix->model = (struct doc_model){mem_strndup("llama", 5), mem_strndup("a model", 7), N_EMBD, 100, 2, 12345, 6789,
			0x0123456789abcdef, COHORT_POOL_MEAN};
	ix->separator = mem_strndup("\n\n", 2);
	assert_true(doc_index_add_file(ix, "a/one", 5));
	assert_true(doc_index_add_chunk(ix, "Hello there", 11, 0, 1, 1));
	assert_true(doc_index_add_chunk(ix, "there you", 9, 6, 1, 3));
	assert_true(doc_index_add_file(ix, "two", 3));
	assert_true(doc_index_add_chunk(ix, "\xc3\xa9", 2, 70000000000u, 7, 7));
	ix->vectors = mem_dup(vectors, sizeof vectors);
	assert_non_null(ix->vectors);
}

static void encoded(uint8_t **bytes, size_t *n)
{
	struct doc_index ix;

	build(&ix);
	assert_int_equal(doc_index_encode(&ix, bytes, n, NULL), COHORT_OK);
	doc_index_release(&ix);
}

static void doc_index_round_trip(void **state)
{
	struct doc_index ix;
	struct cohort_err err;
	uint8_t *bytes, *again;
	size_t n, n_again;
	(void)state;

	encoded(&bytes, &n);
	assert_int_equal(doc_index_decode(&ix, bytes, n, &err), COHORT_OK);
	assert_string_equal(ix.model.arch, "llama");
	assert_string_equal(ix.model.name, "a model");
	assert_int_equal(ix.model.n_vocab, 100);
	assert_int_equal(ix.model.probe, 0x0123456789abcdef);
	assert_int_equal(ix.model.pooling, COHORT_POOL_MEAN);
	assert_int_equal(ix.n_files, 2);
	assert_int_equal(ix.n_chunks, 3);
	assert_memory_equal(ix.paths + ix.files[1].path, "two", 3);
	assert_int_equal(ix.chunks[1].last_line, 3);
	assert_memory_equal(ix.texts + ix.chunks[1].text, "there you", 9);
	assert_int_equal(ix.chunks[2].file, 1);
	assert_true(ix.chunks[2].begin == 70000000000u);
	assert_true(ix.vectors[2 * N_EMBD + 1] == -0.8f);
	assert_int_equal(doc_index_encode(&ix, &again, &n_again, &err), COHORT_OK);
	assert_int_equal(n_again, n);
	assert_memory_equal(again, bytes, n);
	doc_index_release(&ix);
	mem_free(bytes);
	mem_free(again);
}

static void an_empty_one(void **state)
{
	struct doc_index ix = {.chunk_size = 32, .model = {.n_embd = 1, .pooling = COHORT_POOL_LAST}}, got;
	uint8_t *bytes;
	size_t n;
	(void)state;

	assert_int_equal(doc_index_encode(&ix, &bytes, &n, NULL), COHORT_OK);
	assert_int_equal(n, DOC_INDEX_HEAD);
	assert_int_equal(doc_index_decode(&got, bytes, n, NULL), COHORT_OK);
	assert_int_equal(got.n_chunks, 0);
	doc_index_release(&got);
	mem_free(bytes);
}

/* Every beginning of a file is refused, also in memory that ends where it does. */
static void truncated_indexes_are_refused(void **state)
{
	struct doc_index ix;
	struct cohort_err err;
	uint8_t *bytes;
	size_t n;
	(void)state;

	encoded(&bytes, &n);
	for (size_t k = 0; k < n; k++) {
		uint8_t *cut = mem_dup(bytes, k);
		assert_non_null(cut);
		assert_int_equal(doc_index_decode(&ix, cut, k, &err), COHORT_E_FORMAT);
		assert_non_null(strstr(err.text, k < 8 ? "no index" : k < DOC_INDEX_HEAD ? "cut within" : "truncated"));
		assert_null(ix.files);
		if (k >= DOC_INDEX_HEAD) { /* the size and the checksum made right */
			put(cut + 16, k, 8);
			seal(cut, k);
			assert_int_equal(doc_index_decode(&ix, cut, k, &err), COHORT_E_FORMAT);
			assert_non_null(strstr(err.text, "do not add up"));
		}
		mem_free(cut);
	}
	mem_free(bytes);
}

static void flipped_bits(void **state)
{
	struct doc_index ix;
	struct cohort_err err;
	uint8_t *bytes;
	size_t n;
	(void)state;

	encoded(&bytes, &n);
	for (size_t i = 0; i < 8 * n; i++) {
		if (i / 8 >= 12 && i / 8 < 16)
			continue; /* the pooling stands before the checksum; its range is checked */
		bytes[i / 8] ^= (uint8_t)(1 << (i % 8));
		const enum cohort_status st = doc_index_decode(&ix, bytes, n, &err);
		assert_true(st == COHORT_E_FORMAT || st == COHORT_E_UNSUPPORTED);
		assert_true(err.text[0] != 0);
		bytes[i / 8] ^= (uint8_t)(1 << (i % 8));
	}
	mem_free(bytes);
}

/* Numbers that lie, under a checksum that is right. */
static void index_with_false_numbers_is_refused(void **state)
{
	enum {
		FILES = DOC_INDEX_HEAD + 5 + 7 + 2,
		CHUNKS = FILES + 8 + 8,
		VECTORS = CHUNKS + 3 * DOC_INDEX_CHUNK + 22
	};
	static const struct {
		size_t at;
		int n;
		uint64_t value;
		const char *text;
	} cases[] = {
			{8, 4, 2, "version 2"},
			{12, 4, 0, "unknown pooling"},
			{12, 4, 9, "unknown pooling"},
			{32, 4, 0, "out of range"},
			{32, 4, 0xffffffff, "out of range"},
			{32, 4, 0x7fffffff, "do not add up"},
			{44, 4, 0, "impossible size"},
			{48, 4, 64, "impossible size"},
			{52, 4, 0xffffffff, "do not add up"},
			{88, 8, UINT64_MAX, "do not add up"},
			{88, 8, UINT64_MAX / 4 + 2, "do not add up"},
			{96, 8, UINT64_MAX / 12, "do not add up"},
			{104, 8, UINT64_MAX, "do not add up"},
			{112, 8, 23, "do not add up"},
			{120, 8, 1, "out of range"},
			{DOC_INDEX_HEAD + 1, 1, 0, "NUL"},
			{FILES, 4, 0, "wrong length"},
			{FILES, 4, 9, "wrong length"},
			{FILES, 4, 0xffffffff, "wrong length"},
			{FILES, 4, 4, "do not add up"},
			{FILES + 8, 1, 0, "NUL"},
			{CHUNKS, 4, 2, "cannot be"},
			{CHUNKS + 4, 4, 0, "cannot be"},
			{CHUNKS + DOC_INDEX_CHUNK + 4, 4, 4, "cannot be"},
			{CHUNKS + 12, 4, 0, "wrong length"},
			{CHUNKS + 12, 4, 0xffffffff, "wrong length"},
			{CHUNKS + 12, 4, 10, "do not add up"},
			{CHUNKS + 16, 8, UINT64_MAX - 3, "wrong length"},
			{VECTORS, 4, 0x7f800000, "not finite"},
			{VECTORS + 4 * (3 * N_EMBD - 1), 4, 0x7fc00000, "not finite"},
	};
	struct doc_index ix;
	struct cohort_err err;
	uint8_t *bytes;
	size_t n;
	(void)state;

	encoded(&bytes, &n);
	assert_int_equal(n, VECTORS + 4 * 3 * N_EMBD);
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		uint8_t *copy = mem_dup(bytes, n);
		assert_non_null(copy);
		put(copy + cases[i].at, cases[i].value, cases[i].n);
		seal(copy, n);
		if (doc_index_decode(&ix, copy, n, &err) == COHORT_OK || !strstr(err.text, cases[i].text))
			fail_msg("case %zu: expected '%s', got '%s'", i, cases[i].text, err.text);
		assert_null(ix.vectors);
		mem_free(copy);
	}
	mem_free(bytes);
}

/* Every allocation fails once; nothing is lost and nothing half read. */
static void doc_index_out_of_memory_at_every_point(void **state)
{
	struct doc_index ix;
	struct cohort_err err;
	uint8_t *bytes, *again;
	size_t n, n_again;
	int n_failed = 0;
	(void)state;

	encoded(&bytes, &n);
	for (int64_t k = 0;; k++) {
		mem_fail_after(k);
		const enum cohort_status st = doc_index_decode(&ix, bytes, n, &err);
		mem_fail_after(-1);
		if (st == COHORT_OK)
			break;
		assert_int_equal(st, COHORT_E_MEMORY);
		n_failed++;
	}
	assert_true(n_failed >= 8);
	mem_fail_after(0);
	assert_int_equal(doc_index_encode(&ix, &again, &n_again, &err), COHORT_E_MEMORY);
	mem_fail_after(0);
	assert_false(doc_index_add_file(&ix, "more", 4));
	mem_fail_after(0);
	assert_false(doc_index_add_chunk(&ix, "more", 4, 0, 1, 1));
	mem_fail_after(-1);
	assert_int_equal(ix.n_files, 2);
	assert_int_equal(ix.n_chunks, 3);
	doc_index_release(&ix);
	mem_free(bytes);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
			cmocka_unit_test(doc_index_round_trip),
			cmocka_unit_test(an_empty_one),
			cmocka_unit_test(truncated_indexes_are_refused),
			cmocka_unit_test(flipped_bits),
			cmocka_unit_test(index_with_false_numbers_is_refused),
			cmocka_unit_test(doc_index_out_of_memory_at_every_point),
	};
	return cmocka_run_group_tests_name("doc_index", tests, NULL, NULL);
}
