/* Ranges of the options of all programs and commands, read from their own tables: the ends of each are taken, what is
 * beyond them by one (or by the next number) is refused, and the message names the option and the range. A list takes
 * OPT_LIST_MAX items.
 *
 * Shown red by ranges that leave out their ends (v <= min for whole numbers, d < max for others) or take one more, by
 * one that is compared as a double, for which 2^60 + 1 is 2^60 (-queue-tokens), by a seed of 2^64 that is taken (errno
 * not looked at), by a list that takes an item more, and by a message with another range. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Commands and their tables are within the programs' own functions. */
int cohort_main(int argc, char **argv);
int batched_main(int argc, char **argv);
#define main cohort_main
#include "cohort.c"
#undef main
#define main batched_main
#include "batched.c"
#undef main

#include <cmocka.h> /* last: its fail takes another one's place */

static size_t n_tables, n_numbers, n_lists;

/* What opt_parse returns for an option that is given n times. said: [size] what it wrote to standard error. */
static int parse(const struct opt_prog *p, const struct opt *o, const char *text, size_t n, char *said, size_t size)
{
	static char *words[2 * OPT_LIST_MAX + 8];
	char name[OPT_NAME_BYTES + 2], value[64];
	const char *operand;
	size_t n_words = 2, n_operands;

	snprintf(name, sizeof name, "-%s", o->name);
	snprintf(value, sizeof value, "%s", text);
	words[0] = words[1] = name; /* the program and the command */
	for (size_t i = 0; i < n; i++) {
		words[n_words++] = name;
		words[n_words++] = value;
	}
	words[n_words] = NULL;
	FILE *f = tmpfile();
	assert_non_null(f);
	fflush(stderr);
	const int before = dup(STDERR_FILENO);
	assert_true(before >= 0 && dup2(fileno(f), STDERR_FILENO) >= 0);
	const int rc = opt_parse(p, (int)n_words, words, 2, &operand, 1, &n_operands);
	fflush(stderr);
	assert_true(dup2(before, STDERR_FILENO) >= 0);
	close(before);
	rewind(f);
	said[fread(said, 1, size - 1, f)] = 0;
	fclose(f);
	return rc;
}

static void refused(const struct opt_prog *p, const struct opt *o, const char *text, const char *expected)
{
	char said[1024], want[1024];

	const int rc = parse(p, o, text, 1, said, sizeof said);
	snprintf(want, sizeof want, "%s: -%s expects %s, got '%s'\nTry '%s --help'.\n", p->name, o->name, expected,
			text, p->name);
	if (rc != EXIT_USAGE + 1 || strcmp(said, want) != 0)
		fail_msg("%s -%s %s: %d, %s", p->name, o->name, text, rc, said);
}

static void taken(const struct opt_prog *p, const struct opt *o, const char *text)
{
	char said[1024], now[64];

	const int rc = parse(p, o, text, 1, said, sizeof said);
	if (o->type == OPT_FLOAT)
		snprintf(now, sizeof now, "%.17g", *(const double *)o->value);
	else if (o->type == OPT_INT)
		snprintf(now, sizeof now, "%" PRId64, *(const int64_t *)o->value);
	else
		snprintf(now, sizeof now, "%" PRIu64, *(const uint64_t *)o->value);
	if (rc || *said || strcmp(now, text) != 0)
		fail_msg("%s -%s %s: %d, it is %s; %s", p->name, o->name, text, rc, now, said);
}

static void check_whole(const struct opt_prog *p, const struct opt *o)
{
	const int64_t ends[] = {(int64_t)o->min, (int64_t)o->max};
	char expected[128], text[64];

	snprintf(expected, sizeof expected, "a whole number from %" PRId64 " to %" PRId64, ends[0], ends[1]);
	for (int i = 0; i < 2; i++) {
		snprintf(text, sizeof text, "%" PRId64, ends[i]);
		taken(p, o, text);
		snprintf(text, sizeof text, "%" PRId64, ends[i] + (i ? 1 : -1));
		refused(p, o, text, expected);
	}
}

static void check_seed(const struct opt_prog *p, const struct opt *o)
{
	static const char expected[] = "a number from 0 to 2^64 - 1";

	taken(p, o, "0");
	refused(p, o, "-1", expected);
	taken(p, o, "18446744073709551615");
	refused(p, o, "18446744073709551616", expected);
}

static void check_float(const struct opt_prog *p, const struct opt *o)
{
	const double ends[] = {o->min, o->max};
	char expected[128], text[64];

	snprintf(expected, sizeof expected, "a number from %g to %g", o->min, o->max);
	for (int i = 0; i < 2; i++) {
		snprintf(text, sizeof text, "%.17g", ends[i]);
		taken(p, o, text);
		snprintf(text, sizeof text, "%.17g", nextafter(ends[i], i ? INFINITY : -INFINITY));
		refused(p, o, text, expected);
	}
	refused(p, o, "nan", expected);
}

static void check_list(const struct opt_prog *p, const struct opt *o)
{
	const struct opt_list *list = o->value;
	char said[1024], want[1024];

	assert_int_equal(parse(p, o, "x", OPT_LIST_MAX, said, sizeof said), 0);
	assert_int_equal(list->n, OPT_LIST_MAX);
	assert_int_equal(parse(p, o, "x", OPT_LIST_MAX + 1, said, sizeof said), EXIT_USAGE + 1);
	snprintf(want, sizeof want, "%s: -%s is given more than %d times\nTry '%s --help'.\n", p->name, o->name,
			OPT_LIST_MAX, p->name);
	assert_string_equal(said, want);
}

/* Called by opt_parse, while the table and what it points to are there. */
static void check_table(const struct opt_prog *p, void *user)
{
	(void)user;
	opt_visit(NULL, NULL);
	for (size_t i = 0; i < p->n_opts; i++) {
		const struct opt *o = &p->opts[i];
		switch (o->type) {
		case OPT_INT: check_whole(p, o); break;
		case OPT_UINT64: check_seed(p, o); break;
		case OPT_FLOAT: check_float(p, o); break;
		case OPT_LIST: check_list(p, o); break;
		default: continue;
		}
		n_numbers += o->type != OPT_LIST;
		n_lists += o->type == OPT_LIST;
	}
	n_tables++;
}

static void ends_of_ranges_are_taken_and_what_is_beyond_refused(void **state)
{
	char *words[3] = {NULL};
	char name[64];

	(void)state;
	unsetenv("COHORT_SEED");
	unsetenv("COHORT_THREADS");
	setenv("COHORT_CONFIG", "/dev/null", 1);
	for (size_t i = 0; cmd_get(i); i++) {
		snprintf(name, sizeof name, "%s", cmd_get(i)->name);
		words[0] = words[1] = name;
		opt_visit(check_table, NULL);
		cmd_get(i)->run(2, words);
		opt_visit(NULL, NULL);
	}
	words[1] = NULL;
	opt_visit(check_table, NULL);
	batched_main(1, words);
	opt_visit(NULL, NULL);
	/* All commands and batched; of the others less than there were, so that some may go. */
	printf("# %zu tables, %zu numbers, %zu lists\n", n_tables, n_numbers, n_lists);
	assert_int_equal(n_tables, N_CMDS + 1);
	assert_true(n_numbers >= 240 && n_lists >= 40);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
			cmocka_unit_test(ends_of_ranges_are_taken_and_what_is_beyond_refused),
	};
	return cmocka_run_group_tests_name("opt_limits", tests, NULL, NULL);
}
