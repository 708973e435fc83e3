/* JSON texts when memory is short: every allocation of reading and copying fails in turn, and what comes is the whole
 * value, or none and the word that there was no memory. What is malformed is never blamed on memory.
 *
 * Seen red with: an allocator that gives memory again after it had none (the reader went past the end of a text whose
 * closing quote was lost), json_loadb for json_parse (strings without some of their characters, texts called
 * malformed), its value given out although an allocation failed, and json_copy for json_clone (objects without some of
 * their keys). */
#include "base/json.h"
#include "base/mem.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const char text[] =
		"{\"prompt\": \"a text that is longer than the room that its reader has at first, so that it has to "
		"grow on the way, and to grow once more before it is at its end\", \"numbers\": [1, 2.5, "
		"123456789012345678, 1234567890.12345678901234567890], \"an object with a long name, for the same "
		"reason\": {\"a\": null, \"b\": true, \"c\": [\"x\", \"y\", {}]}}";

static void json_parse_out_of_memory_at_every_point(void **state)
{
	bool no_memory = true;
	json_error_t why;
	uint64_t n_failed = 0;

	(void)state;
	const uint64_t before = mem_count();
	json_t *want = json_parse(text, sizeof text - 1, 0, &why, &no_memory);
	const int64_t n_all = (int64_t)(mem_count() - before);
	assert_non_null(want);
	assert_false(no_memory);
	assert_true(n_all > 20);
	for (int64_t n = 0; n < n_all; n++) {
		mem_fail_after(n);
		json_t *v = json_parse(text, sizeof text - 1, 0, &why, &no_memory);
		mem_fail_after(-1);
		assert_true((v == NULL) == no_memory);
		if (v && !json_equal(v, want))
			fail_msg("allocation %d: another value", (int)n);
		n_failed += !v;
		json_decref(v);
	}
	assert_int_equal(n_failed, n_all);
	mem_fail_all(true);
	assert_null(json_parse(text, sizeof text - 1, 0, NULL, &no_memory));
	mem_fail_all(false);
	assert_true(no_memory);
	json_decref(want);
}

/* Each text's closing quote is the character for which its room has to grow. */
static void closing_quote_where_room_grows(void **state)
{
	enum { LONGEST = 1 << 20 };
	char *quoted = malloc(LONGEST);
	bool no_memory;

	(void)state;
	assert_non_null(quoted);
	memset(quoted, 'x', LONGEST);
	*quoted = '"';
	for (size_t n = 16; n <= LONGEST; n *= 2) {
		quoted[n - 1] = '"';
		const uint64_t before = mem_count();
		json_t *v = json_parse(quoted, n, JSON_DECODE_ANY, NULL, &no_memory);
		const int64_t n_all = (int64_t)(mem_count() - before);
		assert_int_equal(json_string_length(v), n - 2);
		json_decref(v);
		for (int64_t i = 0; i < n_all; i++) {
			mem_fail_after(i);
			v = json_parse(quoted, n, JSON_DECODE_ANY, NULL, &no_memory);
			mem_fail_after(-1);
			assert_null(v);
			assert_true(no_memory);
		}
		quoted[n - 1] = 'x';
	}
	free(quoted);
}

static void malformed_json_is_refused_with_a_place(void **state)
{
	static const char *const bad[] = {"", "{", "[1,]", "{\"a\": tru}", "\"\xff\"", "[1] x"};
	bool no_memory = true;
	json_error_t why;

	(void)state;
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		assert_null(json_parse(bad[i], strlen(bad[i]), JSON_DECODE_ANY, &why, &no_memory));
		assert_false(no_memory);
		assert_true(why.line >= 1 && *why.text);
	}
}

static void json_clone_out_of_memory_at_every_point(void **state)
{
	json_t *v = NULL;
	bool no_memory;
	int64_t n = 0;

	(void)state;
	json_t *want = json_parse(text, sizeof text - 1, 0, NULL, &no_memory);
	for (; !v; n++) {
		mem_fail_after(n);
		v = json_clone(want);
		mem_fail_after(-1);
	}
	assert_true(json_equal(v, want));
	assert_true(n > 4);
	json_decref(v);
	json_decref(want);
}

static int take_over(void **state)
{
	(void)state;
	json_take_over();
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
			cmocka_unit_test(malformed_json_is_refused_with_a_place), /* once before it is taken over */
			cmocka_unit_test_setup(json_parse_out_of_memory_at_every_point, take_over),
			cmocka_unit_test(closing_quote_where_room_grows),
			cmocka_unit_test(malformed_json_is_refused_with_a_place),
			cmocka_unit_test(json_clone_out_of_memory_at_every_point),
	};
	return cmocka_run_group_tests_name("json", tests, NULL, NULL);
}
