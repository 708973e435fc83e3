/* Hostile texts in a table of options: none of their characters becomes code in a manual page or a completion.
 *
 * Shown red by leaving out the zero-width character before a dot (man_page_of_hostile_texts), the doubling of a
 * backslash (man_page_of_hostile_texts, fish_completion_of_hostile_texts), the backslash before a colon
 * (zsh_completion_of_hostile_texts) and the treatment of a single quote (each shell). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "opt.h"
#include "opt_complete.h"
#include "opt_man.h"

static bool flag;
static const char *text;
static struct opt_list list;
static const struct opt opts[] = {
		{"dot", "d", OPT_FLAG, &flag, 0, 0, NULL, ".so /etc/passwd", NULL},
		{"quote", NULL, OPT_STR, &text, 0, 0, "TEXT", "'s: [a] $(b) `c` \\d \"e\"", NULL},
		{"level", "lv", OPT_STR, &text, 0, 0, "one|two|FILE.x", "some", NULL},
		{"file", NULL, OPT_LIST, &list, 0, 0, "FILE:X", "again", NULL},
		{"into", NULL, OPT_STR, &text, 0, 0, "DIR", "a directory", NULL},
};
static const struct opt_prog prog = {"prog sub", "[options]",
		".ds x\n'br\n\n  .nf in a block\n\n\\(co \\fBx\nEnd of it. And more.", "  .so x\n  prog 'a'\n", opts,
		sizeof opts / sizeof *opts};

static char *printed(const char *shell)
{
	char *out = NULL;
	size_t n = 0;
	FILE *f = open_memstream(&out, &n);

	assert_non_null(f);
	if (shell) {
		struct completion c;
		assert_true(completion_begin(&c, shell, "prog", f));
		completion_table(&c, &prog, NULL, NULL, false);
		completion_end(&c);
	} else {
		opt_man(&prog, NULL, f);
	}
	assert_int_equal(fclose(f), 0);
	return out;
}

static void holds(const char *all, const char *part)
{
	if (!all || !strstr(all, part))
		fail_msg("not there: %s\nin: %s", part, all ? all : "nothing");
}

static void man_page_of_hostile_texts(void **state)
{
	(void)state;
	static const char *const known[] = {".\\\"", ".TH ", ".SH ", ".B ", ".TP\n", ".PP\n", ".EX\n", ".EE\n"};
	char *page = printed(NULL);

	for (const char *line = page; line; line = strchr(line, '\n') ? strchr(line, '\n') + 1 : NULL) {
		bool ok = *line != '.' && *line != '\'';
		for (size_t i = 0; i < sizeof known / sizeof *known; i++)
			ok |= strncmp(line, known[i], strlen(known[i])) == 0;
		if (!ok)
			fail_msg("a request: %.40s", line);
		/* Escapes are ours: a text's own backslash is \e. */
		for (const char *b = strchr(line, '\\'), *end = strchrnul(line, '\n'); b && b < end;
				b = strchr(b + 2, '\\'))
			assert_non_null(strchr("e-(fB&\"", b[1]));
	}
	holds(page, "prog\\-sub \\- .ds x \\(aqbr");
	holds(page, "\n\\&.so /etc/passwd\n");
	holds(page, "\n\\(aqs: [a] $(b) \\(gac\\(ga \\ed \"e\"\n");
	holds(page, "\n\\&.nf in a block\n");
	holds(page, "\n\\e(co \\efBx\n");
	holds(page, "\\fB\\-level, \\-lv\\fR \\fIone|two|FILE.x\\fR\n");
	free(page);
}

static void bash_completion_of_hostile_texts(void **state)
{
	(void)state;
	char *script = printed("bash");
	holds(script, "opts=' -dot -d -quote -level -lv -file -into -config -no-config -show-config -help -h'\n");
	holds(script, "-level | -lv) kind=both words='one two' ;;\n");
	holds(script, "-file) kind=file ;;\n");
	holds(script, "-into) kind=dir ;;\n");
	holds(script, "-quote) kind=none ;;\n");
	assert_null(strstr(script, "passwd"));
	free(script);
}

static void zsh_completion_of_hostile_texts(void **state)
{
	(void)state;
	char *script = printed("zsh");
	holds(script, "'(-dot --dot -d --d)'{-dot,--dot,-d,--d}'[.so /etc/passwd]'");
	holds(script, "{-quote=,--quote=}'['\\''s\\: \\[a\\] $(b) `c` \\\\d \"e\"]:TEXT: '");
	holds(script, "'*'{-file=,--file=}'[again]:FILE\\:X:_files'");
	holds(script, ":value:{compadd -- one two; _files}'");
	holds(script, ":DIR:_files -/'");
	free(script);
}

static void fish_completion_of_hostile_texts(void **state)
{
	(void)state;
	char *script = printed("fish");
	holds(script, "complete -c prog -o dot -l dot -o d -l d -d '.so /etc/passwd'\n");
	holds(script, "-o quote -l quote -x -d '\\'s: [a] $(b) `c` \\\\d \"e\"'\n");
	holds(script, "-o level -l level -o lv -l lv -r -F -a 'one two' -d 'some'\n");
	free(script);
}

static void unknown_shell(void **state)
{
	(void)state;
	struct completion c;
	assert_false(completion_begin(&c, "tcsh", "prog", stderr));
	assert_false(completion_begin(&c, "", "prog", stderr));
}

static void variables_of_options(void **state)
{
	(void)state;
	static const char *const kept[] = {
			"config", "help", "version", "build", "source", "shared", "show-config", "no-config"};
	char out[OPT_VARIABLE_BYTES], name[OPT_VARIABLE_BYTES];

	assert_true(opt_variable("n-predict", out));
	assert_string_equal(out, "COHORT_N_PREDICT");
	assert_true(opt_variable("top-p2", out));
	assert_string_equal(out, "COHORT_TOP_P2");
	for (size_t i = 0; i < sizeof kept / sizeof *kept; i++)
		assert_false(opt_variable(kept[i], out));
	memset(name, 'a', sizeof name);
	name[OPT_VARIABLE_BYTES - 8] = '\0';
	assert_true(opt_variable(name, out));
	assert_int_equal(strlen(out), OPT_VARIABLE_BYTES - 1);
	name[OPT_VARIABLE_BYTES - 8] = 'a';
	name[OPT_VARIABLE_BYTES - 7] = '\0';
	assert_false(opt_variable(name, out));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
			cmocka_unit_test(man_page_of_hostile_texts),
			cmocka_unit_test(bash_completion_of_hostile_texts),
			cmocka_unit_test(zsh_completion_of_hostile_texts),
			cmocka_unit_test(fish_completion_of_hostile_texts),
			cmocka_unit_test(unknown_shell),
			cmocka_unit_test(variables_of_options),
	};
	return cmocka_run_group_tests_name("opt_print", tests, NULL, NULL);
}
