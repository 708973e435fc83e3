/* MemorySanitizer itself, in its own build: that it reports what was never written, and that tests/msan.c has told it
 * neither too little nor too much. Without this a leg that sees nothing would be green.
 *
 * Seen red with: a kernel that is not instrumented (kernel_sums_of_unwritten_rows), __wrap_malloc that leaves memory
 * as it is (own_allocations_count_as_unwritten), a hook that does the same and json_set_alloc_funcs not wrapped
 * (jansson_allocations_count_as_unwritten), all of json_dumpb's buffer taken for written, and what stat() left alone
 * (outputs_of_libraries_count_as_written). */
#include "base/json.h"
#include "base/mem.h"
#include "kern/kern.h"

#include <sanitizer/msan_interface.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

/* Where the first unwritten byte is; -1: there is none. */
static intptr_t unwritten(const void *p, size_t n)
{
	return __msan_test_shadow(p, n);
}

/* What a process says on stderr that does this. */
static void said_by(void (*act)(void), char *text, size_t n_max)
{
	int ends[2], status;
	size_t n = 0;

	assert_int_equal(pipe(ends), 0);
	fflush(NULL);
	const pid_t pid = fork();
	if (pid == 0) {
		dup2(ends[1], 2);
		act();
		_exit(0);
	}
	assert_true(pid > 0);
	close(ends[1]);
	for (ssize_t got; n + 1 < n_max && (got = read(ends[0], text + n, n_max - 1 - n)) > 0;)
		n += (size_t)got;
	text[n] = '\0';
	close(ends[0]);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	assert_true((WEXITSTATUS(status) != 0) == (n > 0));
}

static void branch_on(bool yes)
{
	static volatile int n;
	if (yes)
		n++;
}

static void read_heap(void)
{
	int *p = mem_alloc(4, sizeof *p);
	p[0] = 1;
	branch_on(p[0] == 1);
	branch_on(p[3] == 1);
}

static void read_stack(void)
{
	volatile int x[4];
	x[1] = 1;
	branch_on(x[1] == 1);
	branch_on(x[2] == 1);
}

static void read_written(void)
{
	int *p = mem_zalloc(4, sizeof *p);
	branch_on(p[3] == 1);
	mem_free(p);
}

static void msan_reports_unwritten_reads(void **state)
{
	char text[16384];

	(void)state;
	said_by(read_written, text, sizeof text);
	assert_string_equal(text, "");
	said_by(read_heap, text, sizeof text);
	assert_non_null(strstr(text, "use-of-uninitialized-value"));
	assert_non_null(strstr(text, "read_heap"));
	assert_non_null(strstr(text, "__wrap_malloc")); /* the origin */
	said_by(read_stack, text, sizeof text);
	assert_non_null(strstr(text, "use-of-uninitialized-value"));
	assert_non_null(strstr(text, "read_stack"));
}

/* Sums of a row with an unwritten number are unwritten, and only these. */
static void kernel_sums_of_unwritten_rows(void **state)
{
	float *x = mem_alloc(64, sizeof *x), *y = mem_zalloc(64, sizeof *y);

	(void)state;
	assert_int_equal(kern_count(), 1); /* there are no levels that it does not see */
	for (size_t i = 0; i < 64; i++)
		if (i != 40)
			x[i] = 1.0f;
	kern_get(0)->add(y, x, 64);
	assert_int_equal(unwritten(y, 64 * sizeof *y), 40 * sizeof *y);
	assert_int_equal(unwritten(y + 41, 23 * sizeof *y), -1);
	mem_free(x);
	mem_free(y);
}

static void own_allocations_count_as_unwritten(void **state)
{
	char *p = mem_alloc(10, 1);

	(void)state;
	assert_int_equal(unwritten(p, 10), 0);
	memset(p, 1, 10);
	assert_int_equal(unwritten(p, 10), -1);
	p = mem_realloc(p, 100000, 1);
	assert_int_equal(unwritten(p, 100000), 10);
	p = mem_realloc(p, 5, 1);
	assert_int_equal(unwritten(p, 5), -1);
	mem_free(p);
}

/* Before and after jansson's memory is ours. */
static void jansson_allocations_count_as_unwritten(void **state)
{
	static const char text[] = "{\"a\": [1, \"a text\"]}", wrong[] = "{\"a\": ";

	(void)state;
	for (int k = 0; k < 2; k++) {
		json_error_t why;
		bool no_memory;

		json_t *v = json_parse(text, sizeof text - 1, 0, &why, &no_memory);
		assert_non_null(v);
		const char *s = json_string_value(json_array_get(json_object_get(v, "a"), 1));
		assert_int_equal(unwritten(s, 7), -1);
		assert_string_equal(s, "a text");
		json_decref(v);
		assert_null(json_parse(wrong, sizeof wrong - 1, 0, &why, &no_memory));
		assert_int_equal(unwritten(&why, sizeof why), -1);
		assert_int_equal(why.line, 1);
		json_take_over();
	}
}

static void outputs_of_libraries_count_as_written(void **state)
{
	char out[64];
	struct stat st;
	json_t *v = json_pack("[i, i]", 1, 2);

	(void)state;
	assert_int_equal(json_dumpb(v, out, sizeof out, JSON_COMPACT), 5);
	assert_int_equal(unwritten(out, sizeof out), 5);
	json_decref(v);
	assert_int_not_equal(stat("/nothing/of/this/name", &st), 0);
	assert_int_equal(unwritten(&st, sizeof st), 0);
	assert_int_equal(stat("/", &st), 0);
	assert_int_equal(unwritten(&st, sizeof st), -1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
			cmocka_unit_test(msan_reports_unwritten_reads),
			cmocka_unit_test(kernel_sums_of_unwritten_rows),
			cmocka_unit_test(own_allocations_count_as_unwritten),
			cmocka_unit_test(jansson_allocations_count_as_unwritten),
			cmocka_unit_test(outputs_of_libraries_count_as_written),
	};
	return cmocka_run_group_tests_name("msan", tests, NULL, NULL);
}
