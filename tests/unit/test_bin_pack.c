/* Packing spans: first-fit against a plain search, and its time.
 *
 * Faults that were planted in pack.c, and what went red: looking only at the last chunk, which is next-fit
 * (known_packings, like_a_search), an oversized chunk that keeps room (oversized_items_have_their_own_chunk,
 * like_a_search). */
#include "batch_case.h"

#include "base/rng.h"

#include <time.h>

static struct cohort_packing pack(const int32_t *lengths, int32_t n, int32_t n_batch)
{
	struct cohort_packing p;

	cohort_packing_init(&p);
	assert_int_equal(cohort_bin_pack(&p, lengths, n, n_batch, NULL), COHORT_OK);
	return p;
}

static void check_chunk(const struct cohort_packing *p, int32_t k, const int32_t *items, int32_t n, int32_t n_rows,
		bool oversized)
{
	const struct cohort_chunk *c = &p->chunks[k];

	assert_true(k < p->n_chunks);
	assert_int_equal(c->n_items, n);
	assert_int_equal(c->n_rows, n_rows);
	assert_int_equal(c->oversized, oversized);
	assert_memory_equal(p->order + c->first, items, (size_t)n * sizeof *items);
}

#define CHUNK(k, n_rows, oversized, ...) check_chunk(&p, k, IDS(__VA_ARGS__), n_rows, oversized)

static void known_packings(void **state)
{
	struct cohort_packing p = pack((int32_t[]){300, 300, 200, 200}, 4, 512);
	(void)state;

	assert_int_equal(p.n_chunks, 2);
	CHUNK(0, 500, false, 0, 2);
	CHUNK(1, 500, false, 1, 3);
	/* Empty spans are skipped. Fewer items than ever before: the same memory. */
	assert_int_equal(cohort_bin_pack(&p, (int32_t[]){1, 1, 1, 1, 1, 1, 1, 1}, 8, 1, NULL), COHORT_OK);
	assert_int_equal(p.n_chunks, 8);
	uint64_t before = mem_count();
	assert_int_equal(cohort_bin_pack(&p, (int32_t[]){0, 5, 0, 3, 2, 8, 0}, 7, 8, NULL), COHORT_OK);
	assert_int_equal(mem_count(), before);
	assert_int_equal(p.n_chunks, 3);
	CHUNK(0, 8, false, 1, 3);
	CHUNK(1, 2, false, 4);
	CHUNK(2, 8, false, 5);
	assert_int_equal(cohort_bin_pack(&p, (int32_t[]){0, 0}, 2, 8, NULL), COHORT_OK);
	assert_int_equal(p.n_chunks, 0);
	assert_int_equal(cohort_bin_pack(&p, NULL, 0, 8, NULL), COHORT_OK);
	assert_int_equal(p.n_chunks, 0);
	cohort_packing_release(&p);
	p = pack((int32_t[]){1}, 1, 1);
	CHUNK(0, 1, false, 0);
	cohort_packing_release(&p);
}

static void oversized_items_have_their_own_chunk(void **state)
{
	struct cohort_packing p = pack((int32_t[]){3, 9, 4, INT32_MAX, 1, 8}, 6, 8);
	(void)state;

	assert_int_equal(p.n_chunks, 4);
	CHUNK(0, 8, false, 0, 2, 4);
	CHUNK(1, 9, true, 1);
	CHUNK(2, INT32_MAX, true, 3);
	CHUNK(3, 8, false, 5);
	cohort_packing_release(&p);
}

/* First-fit by looking at every chunk. */
static int32_t search(const int32_t *lengths, int32_t n, int32_t n_batch, int32_t *chunk_of)
{
	int32_t room[64], n_chunks = 0;

	for (int32_t i = 0; i < n; i++) {
		int32_t k = 0;
		chunk_of[i] = -1;
		if (lengths[i] == 0)
			continue;
		while (k < n_chunks && room[k] < lengths[i])
			k++;
		if (k == n_chunks)
			room[n_chunks++] = n_batch;
		room[k] -= lengths[i];
		chunk_of[i] = k;
	}
	return n_chunks;
}

static void like_a_search(void **state)
{
	struct cohort_packing p;
	struct rng r;
	int n_over = 0, n_several = 0;
	(void)state;

	rng_init(&r, 1, 0);
	cohort_packing_init(&p);
	for (int round = 0; round < 20000; round++) {
		int32_t lengths[64], chunk_of[64], n = (int32_t)(rng_u32(&r) % 65), n_listed = 0;
		int32_t n_batch = 1 + (int32_t)(rng_u32(&r) % 40);
		for (int32_t i = 0; i < n; i++)
			lengths[i] = (int32_t)(rng_u32(&r) % (uint32_t)(n_batch + 3));
		assert_int_equal(cohort_bin_pack(&p, lengths, n, n_batch, NULL), COHORT_OK);
		assert_int_equal(p.n_chunks, search(lengths, n, n_batch, chunk_of));
		for (int32_t k = 0; k < p.n_chunks; k++) {
			const struct cohort_chunk *c = &p.chunks[k];
			int32_t n_rows = 0;
			assert_int_equal(c->first, n_listed);
			assert_true(c->n_items > 0);
			n_listed += c->n_items;
			for (int32_t i = 0; i < c->n_items; i++) {
				int32_t item = p.order[c->first + i];
				assert_int_equal(chunk_of[item], k);
				assert_true(i == 0 || item > p.order[c->first + i - 1]);
				n_rows += lengths[item];
			}
			assert_int_equal(c->n_rows, n_rows);
			assert_int_equal(c->oversized, n_rows > n_batch);
			assert_true(!c->oversized || c->n_items == 1);
			n_over += c->oversized;
			n_several += c->n_items > 1;
		}
		for (int32_t i = 0; i < n; i++)
			n_listed -= lengths[i] > 0;
		assert_int_equal(n_listed, 0);
	}
	assert_true(n_over > 1000 && n_several > 1000);
	cohort_packing_release(&p);
}

/* Spans that fit nowhere are the worst for a search: 5 thousand million looks here. */
static void many_items(void **state)
{
	enum { N = 100000 };
	int32_t *lengths = malloc(N * sizeof *lengths);
	struct timespec t0, t1;
	(void)state;

	assert_non_null(lengths);
	for (int i = 0; i < N; i++)
		lengths[i] = 257 + i % 200;
	clock_gettime(CLOCK_MONOTONIC, &t0);
	struct cohort_packing p = pack(lengths, N, 512);
	clock_gettime(CLOCK_MONOTONIC, &t1);
	assert_int_equal(p.n_chunks, N);
	/* Some ten milliseconds; the bound is for a busy machine with sanitizers. */
	assert_true((double)(t1.tv_sec - t0.tv_sec) + 1e-9 * (double)(t1.tv_nsec - t0.tv_nsec) < 2);
	cohort_packing_release(&p);
	free(lengths);
}

static void bin_pack_refuses_bad_arguments(void **state)
{
	struct cohort_packing p;
	struct cohort_err err;
	const int32_t good[] = {1, 2, 3}, bad[] = {1, 0, -2};
	(void)state;

	cohort_packing_init(NULL);
	cohort_packing_release(NULL);
	cohort_packing_init(&p);
	assert_int_equal(cohort_bin_pack(NULL, good, 3, 8, &err), COHORT_E_ARG);
	assert_string_equal(err.text, "p is NULL");
	for (int i = 0; i < 4; i++) {
		static const char *const words[] = {"n_batch is 0", "n_items is -1", "lengths is NULL", "lengths[2]"};
		assert_int_equal(cohort_bin_pack(&p, good, 3, 8, NULL), COHORT_OK);
		assert_int_equal(p.n_chunks, 1);
		assert_int_equal(cohort_bin_pack(&p, i == 2 ? NULL : i == 3 ? bad : good, i == 1 ? -1 : 3, i ? 8 : 0,
						 &err),
				COHORT_E_ARG);
		assert_non_null(strstr(err.text, words[i]));
		assert_int_equal(err.row, i == 3 ? 2 : -1);
		assert_int_equal(p.n_chunks, 0);
	}
	assert_int_equal(err.got, -2);
	cohort_packing_release(&p);
	int64_t n = 0;
	for (;; n++) {
		mem_fail_after(n);
		enum cohort_status st = cohort_bin_pack(&p, good, 3, 8, &err);
		mem_fail_after(-1);
		if (!st)
			break;
		assert_int_equal(st, COHORT_E_MEMORY);
		assert_int_equal(p.n_chunks, 0);
		cohort_packing_release(&p);
	}
	assert_int_equal(n, 3);
	cohort_packing_release(&p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(known_packings),
		cmocka_unit_test(oversized_items_have_their_own_chunk),
		cmocka_unit_test(like_a_search),
		cmocka_unit_test(many_items),
		cmocka_unit_test(bin_pack_refuses_bad_arguments),
	};

	return cmocka_run_group_tests_name("bin_pack", tests, NULL, NULL);
}
