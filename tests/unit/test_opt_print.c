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
#include "topics.h"

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

/* A table with an option of each kind, and a page of 16 options, which is divided. */
static const struct opt plain[] = {
		{"model", "m", OPT_STR, &text, 0, 0, "FILE.gguf", "a model", NULL},
		{"temperature", "temp|t", OPT_FLOAT, &text, 0, 1, "X", "how warm", NULL},
		{"top-k", NULL, OPT_INT, &text, 0, 1, "N", "the likeliest", NULL},
		{"kv-type", "ctk", OPT_STR, &text, 0, 0, "f16|q8_0", "the cache's", NULL},
		{"seeds", NULL, OPT_STR, &text, 0, 0, "all|N...", "numbers", NULL},
		{"from", NULL, OPT_LIST, &list, 0, 0, "FILE", "files", NULL},
		{"dir", NULL, OPT_LIST, &list, 0, 0, "DIR", "folders", NULL},
		{"threads", NULL, OPT_INT, &text, 0, 1, "N",
				"threads, of which there are as many as it takes to fill a line of this help and begin "
				"a next one (default: all)",
				NULL},
		{"a", NULL, OPT_FLAG, &flag, 0, 0, NULL, "first", NULL},
		{"b", NULL, OPT_FLAG, &flag, 0, 0, NULL, "second", NULL},
		{"c", NULL, OPT_FLAG, &flag, 0, 0, NULL, "third", NULL},
		{"d", NULL, OPT_FLAG, &flag, 0, 0, NULL, "fourth", NULL},
		{"e", NULL, OPT_FLAG, &flag, 0, 0, NULL, "fifth", NULL},
		{"f", NULL, OPT_FLAG, &flag, 0, 0, NULL, "sixth", NULL},
		{"g", NULL, OPT_FLAG, &flag, 0, 0, NULL, "seventh", NULL},
		{"h2", NULL, OPT_FLAG, &flag, 0, 0, NULL, "eighth", NULL},
};

/* All that is printed of plain, but for the lines with the version and the place of the model. */
static char *printed_plain(const char *shell)
{
	static const char *const names[] = {"one", "two"}, *const abouts[] = {"the first", "it's the second"};
	struct opt_prog p = {"prog one", "[options]",
			"Does it. All.\n\n\nMore\nof it.\n  as it is\n    and this\nEnd.",
			"  prog one\n\n  not printed\n", plain, 9};
	char *out = NULL;
	size_t n = 0;
	FILE *f = open_memstream(&out, &n);
	struct completion c;

	assert_non_null(f);
	if (strcmp(shell, "help") == 0) {
		opt_help(&p, f);
		p.n_opts = OPT_GROUPED;
		p.examples = NULL;
		opt_help(&p, f);
		for (size_t i = 0; topic_get(i); i++)
			if (strcmp(topic_get(i)->name, "config") != 0 && strcmp(topic_get(i)->name, "sampling") != 0)
				topic_get(i)->print(f);
	} else if (strcmp(shell, "man") == 0) {
		opt_man(&p, NULL, f);
		p.n_opts = OPT_GROUPED;
		p.name = "prog";
		p.examples = NULL;
		opt_man(&p, "a brief", f);
	} else {
		/* A program with commands, and one without. */
		assert_true(completion_begin(&c, shell, "prog", f));
		completion_commands(&c, names, abouts, 2);
		completion_table(&c, &p, "one", NULL, false);
		p.n_opts = 1;
		completion_table(&c, &p, "two", "x y", false);
		completion_table(&c, &p, "three", "x y", true);
		completion_end(&c);
		assert_true(completion_begin(&c, shell, "alone", f));
		completion_table(&c, &p, NULL, "x y", true);
		completion_end(&c);
	}
	assert_int_equal(fclose(f), 0);
	return out;
}

/* The same bytes as tests/golden/data/printed.man.txt and so on; PRINTED_TO names a folder for the new ones. Red with
 * numbers that fish completes as folders, and a topic whose lines break where they do not have to. */
static void printed_forms_are_those_of_the_files(void **state)
{
	static const char *const forms[] = {"help", "man", "bash", "zsh", "fish"};
	const char *source = getenv("COHORT_SOURCE");
	bool same = true;

	(void)state;
	for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
		char path[512], *got = printed_plain(forms[i]), *line = NULL;
		const char *at = got;
		size_t n_max = 0;
		ssize_t n;
		snprintf(path, sizeof path, "%s/tests/golden/data/printed.%s.txt", source ? source : ".", forms[i]);
		FILE *f = fopen(path, "r");
		for (int k = 1; f && (n = getline(&line, &n_max, f)) > 0; k++) {
			const bool differs = strncmp(line, ".TH ", 4) == 0 || strstr(line, "cohort\\-tiny.gguf");
			const size_t n_at = strcspn(at, "\n") + (*strchrnul(at, '\n') == '\n');
			if (!differs && ((size_t)n != n_at || memcmp(line, at, n_at) != 0)) {
				print_error("%s:%d: %.*s", path, k, (int)n_at, at);
				same = false;
				break;
			}
			at += n_at;
		}
		same = same && f && *at == '\0';
		if (f)
			fclose(f);
		if (!same && getenv("PRINTED_TO")) {
			snprintf(path, sizeof path, "%s/printed.%s.txt", getenv("PRINTED_TO"), forms[i]);
			f = fopen(path, "w");
			assert_non_null(f);
			fputs(got, f);
			assert_int_equal(fclose(f), 0);
		}
		free(line);
		free(got);
	}
	assert_true(same);
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
			cmocka_unit_test(printed_forms_are_those_of_the_files),
			cmocka_unit_test(man_page_of_hostile_texts),
			cmocka_unit_test(bash_completion_of_hostile_texts),
			cmocka_unit_test(zsh_completion_of_hostile_texts),
			cmocka_unit_test(fish_completion_of_hostile_texts),
			cmocka_unit_test(unknown_shell),
			cmocka_unit_test(variables_of_options),
	};
	return cmocka_run_group_tests_name("opt_print", tests, NULL, NULL);
}
