/* Lines that are texts or commands, their completion, and the file that keeps them.
 *
 * Seen red with: `::` taken for a command; an ambiguous beginning that finds its first command; an exact name that is
 * ambiguous because it begins another one; a number with letters behind it; a completion that inserts what only the
 * first match has; a history that keeps one line more; one that others can read. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "line_history.h"
#include "talk.h"
#include "temp.h"

static struct talk_line parse(const char *text)
{
	struct talk_line t;
	talk_parse(text, strlen(text), &t);
	return t;
}

static bool is(const char *bytes, size_t n, const char *want)
{
	return n == strlen(want) && memcmp(bytes, want, n) == 0;
}

static void lines_are_commands_or_texts(void **state)
{
	(void)state;
	static const char *const empty[] = {"", " ", "\t \r"};
	for (size_t i = 0; i < 3; i++)
		assert_int_equal(parse(empty[i]).kind, TALK_EMPTY);
	struct talk_line t = parse(" a prompt ");
	assert_int_equal(t.kind, TALK_TEXT);
	assert_true(is(t.text, t.n_text, " a prompt "));
	t = parse("::set is not a command");
	assert_int_equal(t.kind, TALK_TEXT);
	assert_true(is(t.text, t.n_text, ":set is not a command"));
	t = parse(" :set");
	assert_int_equal(t.kind, TALK_TEXT);
	t = parse(":set  temperature   1.5 \t");
	assert_int_equal(t.kind, TALK_COMMAND);
	assert_true(is(t.name, t.n_name, "set"));
	assert_true(is(t.text, t.n_text, "temperature   1.5"));
	t = parse(":");
	assert_int_equal(t.kind, TALK_COMMAND);
	assert_int_equal(t.n_name, 0);
	assert_int_equal(t.n_text, 0);
	talk_parse("a\0b", 3, &t);
	assert_int_equal(t.kind, TALK_TEXT);
	assert_int_equal(t.n_text, 3);
}

static void commands_found_by_beginning(void **state)
{
	(void)state;
	static const struct talk_command c[] = {{":keep", "", "", NULL}, {":kept", "", "", NULL},
			{":set", "", "", NULL}, {":settings", "", "", NULL}, {":quit", "", "", NULL}};
	static const struct {
		const char *name;
		int want;
	} cases[] = {{"keep", 0}, {"kept", 1}, {"ke", TALK_AMBIGUOUS}, {"kee", 0}, {"set", 2}, {"sett", 3},
			{"se", TALK_AMBIGUOUS}, {"q", 4}, {"", TALK_UNKNOWN}, {"quitt", TALK_UNKNOWN},
			{"x", TALK_UNKNOWN}};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
		assert_int_equal(talk_find(c, 5, cases[i].name, strlen(cases[i].name)), cases[i].want);
}

static void talk_number_reads_ranges(void **state)
{
	(void)state;
	static const char *const bad[] = {"", "x", "1x", "-1", "4", "99999999999999999999", "1.5", "0x2"};
	int64_t v = 77;
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		const char *at = bad[i];
		assert_false(talk_number(&at, 0, 3, &v));
		assert_ptr_equal(at, bad[i]);
	}
	assert_int_equal(v, 77);
	const char *at = "2  3";
	assert_true(talk_number(&at, 0, 3, &v));
	assert_int_equal(v, 2);
	assert_string_equal(at, "3");
	assert_true(talk_number(&at, 0, 3, &v));
	assert_int_equal(v, 3);
	assert_string_equal(at, "");
}

static void completion_of_commands_and_options(void **state)
{
	(void)state;
	static const char *const commands[] = {":keep", ":kept", ":set", ":save"},
				 *const options[] = {"top-k", "top-p", "seed"};
	const struct line_params p = {
			.commands = commands, .n_commands = 4, .names_of = ":set", .names = options, .n_names = 3};
	static const struct {
		const char *typed;
		size_t n;
		const char *more;
	} cases[] = {{":k", 2, "e"}, {":kee", 1, "p"}, {":s", 2, ""}, {":", 4, ""}, {":set t", 2, "op-"},
			{":set top-k", 1, ""}, {":set ", 3, ""}, {":set x", 0, ""}, {"keep", 0, ""}, {"", 0, ""},
			{":keep s", 0, ""}};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		const char *matches[2] = {NULL, NULL}, *more = "";
		size_t n_more = 99;
		const size_t n = line_complete(&p, cases[i].typed, strlen(cases[i].typed), matches, 2, &more, &n_more);
		assert_int_equal(n, cases[i].n);
		assert_true(is(more, n_more, cases[i].more));
		assert_true((n > 0) == (matches[0] != NULL));
	}
}

/* ---- History ---- */

static void history_file_is_where_it_should_be(void **state)
{
	(void)state;
	static const struct {
		const char *state_home, *home, *want;
	} cases[] = {{"/s", "/h", "/s/cohort/n"}, {NULL, "/h", "/h/.local/state/cohort/n"},
			{"", "/h", "/h/.local/state/cohort/n"}, {"relative", "/h", "/h/.local/state/cohort/n"},
			{NULL, NULL, NULL}, {NULL, "", NULL}, {"x", "y", NULL}};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		char *path = line_history_path("n", cases[i].state_home, cases[i].home);
		if (cases[i].want)
			assert_string_equal(path, cases[i].want);
		else
			assert_null(path);
		mem_free(path);
	}
}

struct seen {
	size_t n;
	char first[64], last[64];
};

static void see(void *user, const char *text, size_t n)
{
	struct seen *s = user;
	const int n_shown = n < sizeof s->first ? (int)n : (int)sizeof s->first - 1;
	if (s->n++ == 0)
		snprintf(s->first, sizeof s->first, "%.*s", n_shown, text);
	snprintf(s->last, sizeof s->last, "%.*s", n_shown, text);
}

static char *temporary(void)
{
	static char dir[TEMP_MAX];
	assert_non_null(mkdtemp(temp_name(dir, "talk")));
	return dir;
}

static void history_is_kept_in_a_file(void **state)
{
	(void)state;
	char *dir = temporary(), path[128], line[32], top[128], mid[128];
	struct seen s = {.n = 0};
	struct stat st;

	snprintf(top, sizeof top, "%s/a", dir);
	snprintf(mid, sizeof mid, "%s/a/b", dir);
	snprintf(path, sizeof path, "%s/a/b/history", dir);
	line_history_load(path, see, &s);
	assert_int_equal(s.n, 0);
	for (int i = 0; i < 2 * LINE_HISTORY_MAX; i++) {
		snprintf(line, sizeof line, "line %d", i);
		assert_true(line_history_add(path, line, strlen(line)));
	}
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0600);
	assert_int_equal(stat(mid, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0700);
	/* The last lines only; a file that is twice as long is not yet cut, a longer one is. */
	line_history_load(path, see, &s);
	assert_int_equal(s.n, LINE_HISTORY_MAX);
	assert_string_equal(s.first, "line 1000");
	assert_string_equal(s.last, "line 1999");
	assert_int_equal(stat(path, &st), 0);
	const off_t n_before = st.st_size;
	assert_true(line_history_add(path, "one more", 8));
	s.n = 0;
	line_history_load(path, see, &s);
	assert_int_equal(s.n, LINE_HISTORY_MAX);
	assert_string_equal(s.last, "one more");
	assert_int_equal(stat(path, &st), 0);
	assert_true(st.st_size < n_before);
	assert_int_equal(st.st_mode & 0777, 0600);
	/* Kept from others even if it was not. Lines that would be several, or that are too long, are left out. */
	assert_int_equal(chmod(path, 0644), 0);
	char *long_line = mem_zalloc(LINE_HISTORY_BYTES_MAX + 1, 1);
	assert_non_null(long_line);
	memset(long_line, 'x', LINE_HISTORY_BYTES_MAX + 1);
	assert_true(line_history_add(path, "a\nb", 3));
	assert_true(line_history_add(path, long_line, LINE_HISTORY_BYTES_MAX + 1));
	assert_true(line_history_add(path, "last", 4));
	mem_free(long_line);
	s.n = 0;
	line_history_load(path, see, &s);
	assert_string_equal(s.last, "last");
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0600);
	unlink(path);
	/* Something else in its place is left alone. */
	assert_int_equal(mkfifo(path, 0600), 0);
	assert_false(line_history_add(path, "x", 1));
	line_history_load(path, see, &s);
	unlink(path);
	assert_false(line_history_add("/proc/none/history", "x", 1));
	rmdir(mid);
	rmdir(top);
	rmdir(dir);
}

/* Of a file that is too large to be read as a whole the end is read, and kept. Red when its beginning is: then lines
 * were old ones, and the file was cut to them. */
static void long_history(void **state)
{
	(void)state;
	enum { N_LINES = 3 * LINE_HISTORY_MAX + 500 };
	char *dir = temporary(), path[128];
	char *line = mem_zalloc(LINE_HISTORY_BYTES_MAX + 1, 1);
	struct seen s = {.n = 0};
	struct stat st;

	assert_non_null(line);
	snprintf(path, sizeof path, "%s/history", dir);
	FILE *f = fopen(path, "w");
	assert_non_null(f);
	for (int i = 0; i < N_LINES; i++) {
		memset(line, 'x', LINE_HISTORY_BYTES_MAX);
		line[snprintf(line, 16, "line %d", i)] = ' ';
		assert_true(fprintf(f, "%s\n", line) == LINE_HISTORY_BYTES_MAX + 1);
	}
	assert_int_equal(fclose(f), 0);
	for (int i = 0; i < 2; i++) {
		s.n = 0;
		line_history_load(path, see, &s);
		assert_int_equal(s.n, LINE_HISTORY_MAX);
		assert_memory_equal(s.first, "line 2500 ", 10);
		assert_memory_equal(s.last, "line 3499 ", 10);
		assert_int_equal(stat(path, &st), 0);
		assert_int_equal(st.st_size, LINE_HISTORY_MAX * (LINE_HISTORY_BYTES_MAX + 1));
	}
	mem_free(line);
	unlink(path);
	rmdir(dir);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
			cmocka_unit_test(lines_are_commands_or_texts),
			cmocka_unit_test(commands_found_by_beginning),
			cmocka_unit_test(talk_number_reads_ranges),
			cmocka_unit_test(completion_of_commands_and_options),
			cmocka_unit_test(history_file_is_where_it_should_be),
			cmocka_unit_test(history_is_kept_in_a_file),
			cmocka_unit_test(long_history),
	};
	return cmocka_run_group_tests_name("talk", tests, NULL, NULL);
}
