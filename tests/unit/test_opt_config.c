/* The configuration file as lines: what is understood, what is refused and where.
 *
 * Shown red by not trimming the end of a line (configuration_lines_are_read), by taking \r for a control character
 * (configuration_lines_are_read), by leaving out the check for text behind a quote
 * (configuration_refused_with_its_line), by counting lines from 0 (configuration_lines_are_read,
 * configuration_refused_with_its_line), by forgetting the section at an empty line (configuration_sections_are_read),
 * and by not looking at what mem_grow returns (opt_config_parse_out_of_memory_at_every_point crashes). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "opt_config.h"

/* n bytes with one more behind them that is no NUL, so that nobody relies on it. */
static enum cohort_status parse(struct opt_config *c, const char *text, size_t n, struct cohort_err *err)
{
	char *bytes = mem_alloc(n + 1, 1);
	assert_non_null(bytes);
	memcpy(bytes, text, n);
	bytes[n] = 'x';
	return opt_config_parse(c, bytes, n, err);
}

static void check(const struct opt_config *c, size_t i, const char *section, const char *name, const char *value,
		size_t line)
{
	assert_true(i < c->n_lines);
	const struct opt_config_line *l = &c->lines[i];
	if (section)
		assert_string_equal(l->section, section);
	else
		assert_null(l->section);
	assert_string_equal(l->name, name);
	assert_string_equal(l->value, value);
	assert_int_equal(l->line, line);
}

static void configuration_lines_are_read(void **state)
{
	(void)state;
	static const char text[] =
			"\xef\xbb\xbf# comment\n\n  temperature = 0.5  \nmodel=/a b/c#d.gguf\r\n\t#x = y\n"
			"empty =\nprompt = \"two\\nlines\\t\\\"q\\\" \\\\ end \"\nname-2_x.y\t=\tgr\xc3\xbc\xc3\x9f e\n"
			"url = a=b=c\nquotes = a \"b\" c\nlast = 1";
	static const struct {
		const char *name, *value;
		size_t line;
	} want[] = {
			{"temperature", "0.5", 3},
			{"model", "/a b/c#d.gguf", 4},
			{"empty", "", 6},
			{"prompt", "two\nlines\t\"q\" \\ end ", 7},
			{"name-2_x.y", "gr\xc3\xbc\xc3\x9f e", 8},
			{"url", "a=b=c", 9},
			{"quotes", "a \"b\" c", 10},
			{"last", "1", 11},
	};
	struct opt_config c;
	struct cohort_err err;

	if (parse(&c, text, sizeof text - 1, &err))
		fail_msg("%s", err.text);
	assert_int_equal(c.n_lines, sizeof want / sizeof *want);
	for (size_t i = 0; i < c.n_lines; i++)
		check(&c, i, NULL, want[i].name, want[i].value, want[i].line);
	opt_config_release(&c);
}

static void configuration_sections_are_read(void **state)
{
	(void)state;
	static const char text[] =
			"a = 1\n[run]\nb = 2\n\n# c\nc = 3\n  [ cohort bench ]  \n[batched]\nd = 4\n[run]\na = 5\n";
	struct opt_config c;
	struct cohort_err err;

	if (parse(&c, text, sizeof text - 1, &err))
		fail_msg("%s", err.text);
	assert_int_equal(c.n_lines, 5);
	check(&c, 0, NULL, "a", "1", 1);
	check(&c, 1, "run", "b", "2", 3);
	check(&c, 2, "run", "c", "3", 6);
	check(&c, 3, "batched", "d", "4", 9);
	check(&c, 4, "run", "a", "5", 11);
	opt_config_release(&c);
}

static void configuration_without_lines(void **state)
{
	(void)state;
	static const char *const texts[] = {"", "\n", "\n\n\n", "   ", "# x", "\xef\xbb\xbf", "\r\n", "[run]\n"};
	for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
		struct opt_config c;
		struct cohort_err err;
		if (parse(&c, texts[i], strlen(texts[i]), &err))
			fail_msg("%zu: %s", i, err.text);
		assert_int_equal(c.n_lines, 0);
		opt_config_release(&c);
	}
}

static void configuration_refused_with_its_line(void **state)
{
	(void)state;
	static const struct {
		const char *text;
		size_t n;
		const char *why;
	} cases[] = {
#define BAD(text, why) {text, sizeof text - 1, why}
			BAD("a = 1\nverbose\n", "line 2: expected name = value"),
			BAD("= 1", "line 1: expected name"),
			BAD("a b = 1", "line 1: expected name"),
			BAD("--a = 1", "without dashes"),
			BAD("\xc3\xbc = 1", "expected name"),
			BAD("a = \"b", "line 1: the closing quote"),
			BAD("a = \"b\\", "backslash"),
			BAD("a = \"b\\\"", "closing quote"),
			BAD("a = \"b\" c", "behind the closing quote"),
			BAD("a = \"\\x41\"", "a backslash goes before"),
			BAD("\n\n[run", "line 3: a section is [name]"),
			BAD("[", "a section is [name]"),
			BAD("[]", "a section is the name"),
			BAD("[ ]", "a section is the name"),
			BAD("[run] x", "a section is [name]"),
			BAD("[a/b]", "a section is the name"),
			BAD("a = 1\n\n\0", "line 3: control character 0x00"),
			BAD("a = b\0c", "0x00 (column 6)"),
			BAD("a = b\x1b[31m", "0x1b"),
			BAD("a = b\x7f", "0x7f"),
			BAD("a\rb = 1", "0x0d"),
			BAD("# \xff", "byte 0xff is not UTF-8"),
			BAD("a = \xc3", "0xc3 is not UTF-8"),
			BAD("a = \xed\xa0\x80", "0xed is not UTF-8"),
			BAD("\x7f"
			    "ELF\2\1",
					"line 1: control"),
			BAD("GGUF\3\0\0\0", "control character 0x03"),
#undef BAD
	};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct opt_config c;
		struct cohort_err err;
		if (parse(&c, cases[i].text, cases[i].n, &err) != COHORT_E_FORMAT || !strstr(err.text, cases[i].why))
			fail_msg("case %zu: %s", i, err.text);
		opt_config_release(&c);
	}
}

static void configuration_of_a_mebibyte_and_a_byte_more(void **state)
{
	(void)state;
	const size_t n = OPT_CONFIG_BYTES_MAX;
	char *text = mem_alloc(n + 1, 1);
	struct opt_config c;
	struct cohort_err err;

	assert_non_null(text);
	memset(text, '#', n + 1);
	memcpy(text, "a = ", 4);
	assert_int_equal(parse(&c, text, n, &err), COHORT_OK);
	assert_int_equal(strlen(c.lines[0].value), n - 4);
	opt_config_release(&c);
	assert_int_equal(parse(&c, text, n + 1, &err), COHORT_E_LIMIT);
	opt_config_release(&c);
	mem_free(text);
}

static void opt_config_parse_out_of_memory_at_every_point(void **state)
{
	(void)state;
	static const char text[] = "a = 1\nb = 2\nc = 3\nd = 4\ne = 5\nf = 6\ng = 7\nh = 8\ni = 9\nj = 10\n";
	bool done = false;

	for (int64_t k = 0; !done && k < 100; k++) {
		struct opt_config c;
		struct cohort_err err;
		char *bytes = mem_alloc(sizeof text, 1);
		assert_non_null(bytes);
		memcpy(bytes, text, sizeof text);
		mem_fail_after(k);
		const enum cohort_status st = opt_config_parse(&c, bytes, sizeof text - 1, &err);
		mem_fail_after(-1);
		done = st == COHORT_OK;
		assert_true(done || st == COHORT_E_MEMORY);
		assert_true(k > 0 || !done);
		opt_config_release(&c);
	}
	assert_true(done);
}

static void place(const char *config, const char *xdg, const char *home, const char *want, bool want_must)
{
	static const char *const names[] = {"COHORT_CONFIG", "XDG_CONFIG_HOME", "HOME"};
	const char *values[] = {config, xdg, home};
	char path[OPT_PATH_BYTES];
	bool must;

	for (size_t i = 0; i < 3; i++)
		if (values[i])
			setenv(names[i], values[i], 1);
		else
			unsetenv(names[i]);
	assert_int_equal(opt_config_path(path, &must), want != NULL);
	assert_string_equal(path, want ? want : "");
	assert_int_equal(must, want_must);
}

static void configuration_file_is_where_it_should_be(void **state)
{
	(void)state;
	static char name[OPT_PATH_BYTES + 1];

	place("x/y", "/xdg", "/home/u", "x/y", true);
	place(NULL, "/xdg", "/home/u", "/xdg/cohort/config", false);
	place("", "/xdg", "/home/u", "/xdg/cohort/config", false);
	place(NULL, "relative", "/home/u", "/home/u/.config/cohort/config", false);
	place(NULL, "", "/home/u", "/home/u/.config/cohort/config", false);
	place(NULL, NULL, "/home/u", "/home/u/.config/cohort/config", false);
	place(NULL, NULL, NULL, NULL, false);
	place(NULL, NULL, "", NULL, false);
	memset(name, 'a', OPT_PATH_BYTES);
	name[0] = '/';
	place(name, NULL, NULL, NULL, true);
	place(NULL, NULL, name, NULL, false);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
			cmocka_unit_test(configuration_lines_are_read),
			cmocka_unit_test(configuration_sections_are_read),
			cmocka_unit_test(configuration_without_lines),
			cmocka_unit_test(configuration_refused_with_its_line),
			cmocka_unit_test(configuration_of_a_mebibyte_and_a_byte_more),
			cmocka_unit_test(opt_config_parse_out_of_memory_at_every_point),
			cmocka_unit_test(configuration_file_is_where_it_should_be),
	};
	return cmocka_run_group_tests_name("opt_config", tests, NULL, NULL);
}
