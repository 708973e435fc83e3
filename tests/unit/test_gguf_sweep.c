/* The GGUF reader: every truncation, single-byte changes, allocations that fail, and files on disk. */
#include "gguf_case.h"
#include "temp.h"

#include "base/mem.h"
#include "base/sum.h"

#include <unistd.h>

/* One sum of what becomes of each file: the message and the place. It says that something has changed, not what. */
static uint64_t outcome_added(uint64_t h, const struct cohort_err *err)
{
	return sum_lane(sum_bytes(h, err->text, strlen(err->text)), (uint64_t)err->offset);
}

static void check_outcomes(uint64_t got, uint64_t want)
{
	if (got != want)
		fail_msg("the messages or their places are others: their sum is 0x%llx", (unsigned long long)got);
}

/* Seen red with numbers in the messages, and in what they depend on, one off. */
static void test_gguf_cut_at_every_byte(void **state)
{
	struct file f = {0};
	struct gguf g;
	uint64_t outcomes = 0;

	(void)state;
	representative(&f, 3);
	for (size_t n = 0; n < f.n; n++) {
		struct cohort_err err = {0};
		assert_int_equal(parse_n(&g, &f, n, &err), COHORT_E_FORMAT);
		assert_true(err.offset >= 0 && err.offset <= (int64_t)n);
		assert_zeroed(&g);
		outcomes = outcome_added(outcomes, &err);
	}
	check_outcomes(outcomes, 0xfbdf9f65c9816522u);
	accept(&g, &f);
	gguf_release(&g);
	drop();
	file_release(&f);
}

static void test_gguf_with_every_byte_changed(void **state)
{
	static const uint8_t flips[] = {0xff, 0x01, 0x80};
	struct file f = {0};
	uint64_t sum = 0, outcomes = 0;
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
				outcomes = outcome_added(outcomes, &err);
			} else {
				sum += walk(&g);
				gguf_release(&g);
				n_ok++;
			}
			f.d[i] ^= flips[k];
		}
	}
	assert_true(n_ok > 0 && n_refused > 0 && sum > 0);
	check_outcomes(outcomes, 0xa25af344642a63e3u);
	drop();
	file_release(&f);
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
	file_release(f);
	return n;
}

static void test_gguf_read_out_of_memory_at_every_point(void **state)
{
	struct file f = {0};

	(void)state;
	representative(&f, 3);
	assert_true(torture(&f) >= 5); /* two maps, two tables and the sorted copy */
	f = (struct file){0};
	many(&f);
	assert_true(torture(&f) >= 20); /* the same, each grown several times */
}

static void write_temp(char path[TEMP_MAX], const void *data, size_t n)
{
	int fd;

	fd = mkstemp(temp_name(path, "gguf"));
	assert_true(fd >= 0);
	assert_int_equal(write(fd, data, n), (ssize_t)n);
	close(fd);
}

static void test_gguf_open_of_files(void **state)
{
	struct file f = {0};
	struct cohort_err err;
	struct gguf g;
	char path[TEMP_MAX];
	enum cohort_status st;

	(void)state;
	representative(&f, 3);
	write_temp(path, f.d, f.n);
	assert_int_equal(gguf_open(&g, path, test_size, &err), COHORT_OK);
	assert_int_equal(g.n_kv, 18);
	assert_int_equal(g.parts[0].map.n_bytes, f.n);
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
	file_release(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_gguf_cut_at_every_byte),
		cmocka_unit_test(test_gguf_with_every_byte_changed),
		cmocka_unit_test(test_gguf_read_out_of_memory_at_every_point),
		cmocka_unit_test(test_gguf_open_of_files),
	};

	return cmocka_run_group_tests_name("gguf_sweep", tests, NULL, NULL);
}
