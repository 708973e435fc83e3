/* The output of a job that is opened again: what it finds out about it, and that it cannot find out is not the same as
 * a result of another job, for which a server gives a batch up.
 *
 * Seen red with: a journal that cannot be read taken for none, and a line for which there is no memory taken for one
 * that is no result. */
#include "../../prog/jobs.h"
#include "temp.h"

#include "common.h"

#include "base/json.h"
#include "base/mem.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static char dir[TEMP_MAX], in_path[128], out_path[128], journal_path[128];

static enum jobs_stop go(void *user)
{
	(void)user;
	return JOBS_GO;
}

static struct jobs_where where = {.stop = go};
static struct jobs_reader in;
static json_t *settings;

static void put(const char *path, const char *text)
{
	FILE *f = fopen(path, "w");

	assert_non_null(f);
	fputs(text, f);
	assert_int_equal(fclose(f), 0);
}

/* An input of two lines, of which the first is done. */
static int begin(void **state)
{
	static const char line[] =
			"{\"id\":\"batch_req_000000000001\",\"custom_id\":\"a\",\"response\":{\"status_code\":200}}\n";
	struct jobs_output o;

	(void)state;
	if (!mkdtemp(temp_name(dir, "jobs")))
		return -1;
	snprintf(in_path, sizeof in_path, "%s/in", dir);
	snprintf(out_path, sizeof out_path, "%s/out", dir);
	snprintf(journal_path, sizeof journal_path, "%s/out.journal", dir);
	put(in_path, "{\"custom_id\":\"a\"}\n{\"custom_id\":\"b\"}\n");
	json_take_over();
	settings = json_pack("{s:s, s:s}", "model", "m", "top_k", "40");
	assert_int_equal(jobs_reader_open(&in, &where, in_path, open(in_path, O_RDONLY), JOBS_LINE_MAX), 0);
	assert_int_equal(jobs_reader_scan(&in), 0);
	assert_int_equal(jobs_output_open(&o, &where, out_path, &in, settings, false), 0);
	assert_int_equal(jobs_output_write(&o, line, sizeof line - 1), 0);
	jobs_output_release(&o);
	return 0;
}

static int end(void **state)
{
	(void)state;
	jobs_reader_release(&in);
	json_decref(settings);
	unlink(in_path);
	unlink(out_path);
	unlink(journal_path);
	return rmdir(dir);
}

static void reopening_out_of_memory_at_every_point(void **state)
{
	struct jobs_output o;
	int rc = 1;
	int64_t n = 0;

	(void)state;
	for (; rc; n++) {
		mem_fail_after(n);
		rc = jobs_output_open(&o, &where, out_path, &in, settings, false);
		mem_fail_after(-1);
		assert_false(o.refused);
		assert_true(rc == 0 || strstr(where.why, "memory"));
		if (!rc) {
			assert_int_equal(o.n_done, 1);
			assert_int_equal(o.n_done_ok, 1);
		}
		jobs_output_release(&o);
	}
	assert_true(n > 10);
}

static void unreadable_journals(void **state)
{
	struct jobs_output o;

	(void)state;
	/* It is there and cannot be read. */
	assert_int_equal(unlink(journal_path), 0);
	assert_int_equal(mkdir(journal_path, 0700), 0);
	assert_int_equal(jobs_output_open(&o, &where, out_path, &in, settings, false), EXIT_FILE);
	assert_false(o.refused);
	jobs_output_release(&o);
	/* There is none, or it is another's. */
	assert_int_equal(rmdir(journal_path), 0);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(jobs_output_open(&o, &where, out_path, &in, settings, false), EXIT_FILE);
		assert_true(o.refused);
		jobs_output_release(&o);
		put(journal_path, "no JSON");
	}
}

/* Every bit of every byte counts, and so does the length. Seen red with the last byte of eight left out. */
static void hashes_of_inputs(void **state)
{
	unsigned char bytes[24] = {0};
	const struct jobs_hash none = {0};
	(void)state;

	for (size_t n = 1; n <= sizeof bytes; n++) {
		const struct jobs_hash h = jobs_hash(none, bytes, n);
		for (size_t k = 0; k < 8 * n; k++) {
			bytes[k / 8] ^= (unsigned char)(1 << k % 8);
			const struct jobs_hash other = jobs_hash(none, bytes, n);
			assert_true(other.a != h.a && other.b != h.b);
			bytes[k / 8] = 0;
		}
		const struct jobs_hash more = jobs_hash(none, bytes, n + 1 < sizeof bytes ? n + 1 : 0);
		assert_true(more.a != h.a && more.b != h.b);
		const struct jobs_hash behind = jobs_hash(h, bytes, n);
		assert_true(behind.a != h.a && behind.b != h.b);
	}
}

/* Second lines of the output: which are a result of input line 2, and whether it is a good one. Red with a prefix that
 * is compared without its last letter, a line that is done twice, digits that are added up, and any status for 200. */
static void results_by_their_id(void **state)
{
	static const struct {
		const char *id, *status;
		bool is, ok;
	} cases[] = {{"batch_req_000000000002", "200", true, true}, {"batch_req_2", "200", true, true},
			{"batch_req_2", "400", true, false}, {"batch_req_2", "201", true, false},
			{"batch_req_000000000001", "200", false, false}, {"batch_req_0", "200", false, false},
			{"batch_req_3", "200", false, false}, {"batch_req_", "200", false, false},
			{"batch_req_2x", "200", false, false}, {"batch_req_x2", "200", false, false},
			{"batch_req_/2", "200", false, false}, {"batch_req_11", "200", false, false},
			{"batch_req-2", "200", false, false}, {"batch_res_2", "200", false, false},
			{"2", "200", false, false}, {"batch_req_18446744073709551618", "200", false, false}};
	char text[512];

	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct jobs_output o;
		snprintf(text, sizeof text,
				"{\"id\":\"batch_req_000000000001\",\"custom_id\":\"a\",\"response\":{\"status_code\":"
				"200}}\n{\"id\":\"%s\",\"custom_id\":\"b\",\"response\":{\"status_code\":%s}}\n",
				cases[i].id, cases[i].status);
		put(out_path, text);
		const int rc = jobs_output_open(&o, &where, out_path, &in, settings, false);
		if ((rc == 0) != cases[i].is || (!rc && (o.n_done != 2 || o.n_done_ok != 1U + cases[i].ok)))
			fail_msg("%s, %s: %d, %d done", cases[i].id, cases[i].status, rc, (int)o.n_done);
		if (rc) {
			assert_true(o.refused);
			assert_non_null(strstr(where.why, "no result of this job (line 2)"));
		}
		jobs_output_release(&o);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
			cmocka_unit_test_setup_teardown(reopening_out_of_memory_at_every_point, begin, end),
			cmocka_unit_test_setup_teardown(unreadable_journals, begin, end),
			cmocka_unit_test(hashes_of_inputs),
			cmocka_unit_test_setup_teardown(results_by_their_id, begin, end),
	};
	return cmocka_run_group_tests_name("jobs_output", tests, NULL, NULL);
}
