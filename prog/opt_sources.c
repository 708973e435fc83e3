/* Options from elsewhere than the command line: the configuration file and the environment; and -show-config, which
 * tells where each value came from.
 *
 * Invariants:
 *   1. Sources are taken from the weakest to the strongest, so that the last one to set a value is the one that counts:
 *      lines before any section, the program's sections, variables, and then (opt.c) the command line.
 *   2. A value that is wrong is an error even if a stronger source has another.
 *   3. What the file says stays in memory until the program ends, as options borrow their strings.
 *
 * It does not know how a file is written (opt_config.c). */
#include "common.h"
#include "opt.h"
#include "opt_names.h"
#include "opt_part.h"

#include "base/err.h"
#include "base/map.h"
#include "base/mem.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* "batched|cohort|run|...", from the build: so that a misspelt section is told from one for another program. */
#ifndef COHORT_SECTIONS
#define COHORT_SECTIONS ""
#endif

static struct opt_config config; /* invariant 3 */

/* ---- The configuration file ---- */

/* What a section is to this program. */
enum section { SECTION_OTHER, SECTION_ALL, SECTION_FAMILY, SECTION_OWN };

static enum section section_of(const struct opt_prog *p, const char *section)
{
	const char *space = strchr(p->name, ' ');

	if (!section)
		return SECTION_ALL;
	if (strcmp(section, p->name) == 0 || (space && strcmp(section, space + 1) == 0))
		return SECTION_OWN;
	if (space && strlen(section) == (size_t)(space - p->name) && memcmp(section, p->name, strlen(section)) == 0)
		return SECTION_FAMILY; /* [cohort] holds for all of its commands */
	return SECTION_OTHER;
}

/* Whether any program has such a section. near gets what may have been meant. */
static bool section_known(const char *section, char *list, size_t n_list, const char **near)
{
	const char *names[128];
	size_t n = 0;

	*near = NULL;
	if (*COHORT_SECTIONS == '\0')
		return true;
	if (strncmp(section, "cohort ", 7) == 0)
		section += 7;
	snprintf(list, n_list, "%s", COHORT_SECTIONS);
	for (char *s = list, *bar; s && n < 128; s = bar) {
		bar = strchr(s, '|');
		if (bar)
			*bar++ = '\0';
		if (strcmp(s, section) == 0)
			return true;
		names[n++] = s;
	}
	*near = opt_nearest(section, names, n);
	return false;
}

static int mend(void)
{
	fputs("Mend the file, or leave it out with -no-config; 'cohort help config' has its format.\n", stderr);
	return EXIT_USAGE + 1;
}

static int bad_line(const struct opt_run *s, const struct opt_config_line *l, const char *why, const char *near)
{
	char shown[ERR_SHOW_BYTES];

	fprintf(stderr, "%s: %s:%zu: '%s' %s", s->p->name, s->path, l->line, err_show(shown, l->name, strlen(l->name)),
			why);
	if (near)
		fprintf(stderr, "; did you mean '%s'?", near);
	fputc('\n', stderr);
	return mend();
}

static int check_section(const struct opt_run *s, const struct opt_config_line *l)
{
	char list[sizeof COHORT_SECTIONS], why[2 * ERR_SHOW_BYTES], shown[ERR_SHOW_BYTES];
	const char *near;

	if (section_of(s->p, l->section) != SECTION_OTHER || section_known(l->section, list, sizeof list, &near))
		return 0;
	snprintf(why, sizeof why, "is in section [%s], which is no program or command",
			err_show(shown, l->section, strlen(l->section)));
	return bad_line(s, l, why, near);
}

static size_t find(const struct opt_prog *p, const char *name)
{
	size_t i = 0;
	while (i < p->n_opts && strcmp(p->opts[i].name, name) != 0)
		i++;
	return i;
}

/* A line that this program has no option for. In its own section that is a mistake; elsewhere it is for others, if
 * there is any that has such an option. */
static int unknown_name(const struct opt_run *s, const struct opt_config_line *l, bool own)
{
	const struct opt_prog *p = s->p;
	const char *names[256];
	const size_t n_all = sizeof opt_names / sizeof *opt_names;
	size_t n = 0;

	for (size_t i = 0; i < p->n_opts; i++)
		if (opt_called(&p->opts[i], l->name, strlen(l->name)))
			return bad_line(s, l, "is another name of an option, which this file does not take",
					p->opts[i].name);
	for (; n < p->n_opts && n < 256; n++)
		names[n] = p->opts[n].name;
	const char *near = opt_nearest(l->name, names, n);
	if (own)
		return bad_line(s, l, "is not an option of this program", near);
	for (size_t i = 0; i < n_all; i++)
		if (strcmp(opt_names[i], l->name) == 0)
			return 0;
	/* What is near in the running program is likelier meant than what is near elsewhere. */
	return bad_line(s, l, "is not an option of any program", near ? near : opt_nearest(l->name, opt_names, n_all));
}

static int take_lines(struct opt_run *s, enum section which)
{
	char why[OPT_WHY_BYTES];

	for (size_t k = 0; k < s->c->n_lines; k++) {
		const struct opt_config_line *l = &s->c->lines[k];
		if (section_of(s->p, l->section) != which)
			continue;
		const size_t i = find(s->p, l->name);
		const enum opt_from from = which == SECTION_ALL ? FROM_CONFIG : FROM_SECTION;
		int rc = 0;
		if (i == s->p->n_opts)
			rc = unknown_name(s, l, which == SECTION_OWN);
		else if (!opt_take(s, i, l->value, from, l->line, why))
			rc = bad_line(s, l, why, NULL);
		if (rc)
			return rc;
	}
	return 0;
}

static int no_file(const struct opt_prog *p, const char *text)
{
	fprintf(stderr, "%s: cannot read the configuration file: %s\n", p->name, text);
	return EXIT_FILE + 1;
}

/* Finds and reads the file. One that was not asked for need not be there. */
static int read_file(struct opt_run *s)
{
	struct cohort_err err;
	struct stat st;
	char *bytes = NULL;
	size_t n = 0;
	bool must = s->config != NULL;

	if (s->config)
		snprintf(s->path, sizeof s->path, "%s", s->config);
	if ((s->config && strlen(s->config) >= sizeof s->path) ||
			(!s->config && !opt_config_path(s->path, &must) && must))
		return no_file(s->p, "its name is too long");
	/* A home directory that is closed to us has no file for us. */
	if (!must && (!*s->path || (stat(s->path, &st) && (errno == ENOENT || errno == ENOTDIR || errno == EACCES))))
		return 0;
	enum cohort_status status = file_read(s->path, OPT_CONFIG_BYTES_MAX, &bytes, &n, &err);
	if (status)
		return no_file(s->p, err.text);
	opt_config_release(&config);
	s->c = &config;
	status = opt_config_parse(&config, bytes, n, &err);
	if (status == COHORT_E_MEMORY)
		return out_of_memory(s->p->name) + 1;
	if (status) {
		/* The text starts with "line N: ". */
		fprintf(stderr, "%s: %s: %s\n", s->p->name, s->path, err.text);
		return mend();
	}
	s->found = true;
	return 0;
}

/* ---- The environment ---- */

bool opt_variable(const char *name, char out[OPT_VARIABLE_BYTES])
{
	static const char *const reserved[] = {
			"config", "no-config", "show-config", "help", "hide-isa",
			"version", "build", "source", "shared",
	};
	static const char prefix[] = "COHORT_";
	size_t n = sizeof prefix - 1;

	for (size_t i = 0; i < sizeof reserved / sizeof *reserved; i++)
		if (strcmp(name, reserved[i]) == 0)
			return false;
	if (n + strlen(name) >= OPT_VARIABLE_BYTES)
		return false;
	memcpy(out, prefix, n);
	for (; *name; name++)
		out[n++] = (char)(*name == '-' ? '_' : *name >= 'a' && *name <= 'z' ? *name - 'a' + 'A' : *name);
	out[n] = '\0';
	return true;
}

static int take_environment(struct opt_run *s)
{
	char name[OPT_VARIABLE_BYTES], why[OPT_WHY_BYTES];

	for (size_t i = 0; i < s->p->n_opts; i++) {
		const char *text = opt_variable(s->p->opts[i].name, name) ? getenv(name) : NULL;
		if (text && !opt_take(s, i, text, FROM_ENVIRONMENT, 0, why)) {
			fprintf(stderr, "%s: the environment variable %s %s\nSet it right, or unset it.\n", s->p->name,
					name, why);
			return EXIT_USAGE + 1;
		}
	}
	return 0;
}

int opt_sources(struct opt_run *s)
{
	/* 'cohort help' and its like: nothing to set, and they must work when the file is broken. */
	if (s->p->n_opts == 0)
		return 0;
	int rc = s->no_config ? 0 : read_file(s);

	for (size_t k = 0; !rc && s->found && k < s->c->n_lines; k++)
		if (s->c->lines[k].section)
			rc = check_section(s, &s->c->lines[k]);
	for (int which = SECTION_ALL; !rc && s->found && which <= SECTION_OWN; which++)
		rc = take_lines(s, (enum section)which);
	return rc ? rc : take_environment(s);
}

/* ---- Groups ---- */

/* A heading: it ends in a colon. */
static bool heading(const char *name)
{
	return name[strlen(name) - 1] == ':';
}

const char *opt_group(size_t i)
{
	size_t before = 0; /* headings */

	for (size_t k = 0; k < sizeof opt_names / sizeof *opt_names; k++)
		if (heading(opt_names[k]) && before++ == i)
			return opt_names[k];
	return NULL;
}

bool opt_in_group(const struct opt *o, size_t i)
{
	size_t group = 0;

	for (size_t k = 1; k < sizeof opt_names / sizeof *opt_names; k++) {
		group += heading(opt_names[k]);
		if (strcmp(o->name, opt_names[k]) == 0)
			break;
	}
	return group == i;
}

/* ---- -show-config ---- */

/* A text as the file would have it, in quotes. */
static size_t quoted(char *out, size_t n_max, const char *s)
{
	size_t n = 0;

	if (n_max < 8)
		return 0;
	out[n++] = '"';
	for (; *s && n + 8 < n_max; s++) {
		const char c = *s;
		if (c == '\n' || c == '\t' || c == '"' || c == '\\') {
			out[n++] = '\\';
			out[n++] = (char)(c == '\n' ? 'n' : c == '\t' ? 't' : c);
		} else {
			out[n++] = (char)((unsigned char)c < 32 || c == 127 ? '?' : c);
		}
	}
	out[n++] = '"';
	if (*s) {
		memcpy(out + n, "...", 3);
		n += 3;
	}
	out[n] = '\0';
	return n;
}

/* drawn: the value is made up when the program runs. */
static void value_text(const struct opt *o, bool drawn, char *out, size_t n_max)
{
	const struct opt_list *list = o->value;
	size_t n = 0, i = 0;

	snprintf(out, n_max, "not set");
	switch (o->type) {
	case OPT_FLAG: snprintf(out, n_max, "%s", *(const bool *)o->value ? "true" : "false"); break;
	case OPT_INT: snprintf(out, n_max, "%" PRId64, *(const int64_t *)o->value); break;
	case OPT_UINT64:
		if (!drawn)
			snprintf(out, n_max, "%" PRIu64, *(const uint64_t *)o->value);
		break;
	case OPT_FLOAT: snprintf(out, n_max, "%.10g", *(const double *)o->value); break;
	case OPT_STR:
		if (*(const char *const *)o->value)
			quoted(out, n_max, *(const char *const *)o->value);
		break;
	case OPT_LIST:
		/* As many as there is room for, with what quoted needs at least; the rest are dots. */
		for (; i < list->n && n + 16 < n_max; i++) {
			if (i > 0)
				out[n++] = ' ';
			n += quoted(out + n, n_max - 4 - n, list->items[i]);
		}
		if (i < list->n)
			memcpy(out + n, " ...", 5);
	}
}

int opt_show(const struct opt_run *s)
{
	char value[512], name[OPT_VARIABLE_BYTES];

	if (s->no_config)
		puts("# no configuration file is read (-no-config)");
	else if (s->found)
		printf("# configuration file: %s\n", s->path);
	else
		printf("# no configuration file%s%s\n", *s->path ? "; it would be " : "", s->path);
	for (size_t i = 0; i < s->p->n_opts; i++) {
		const struct opt *o = &s->p->opts[i];
		value_text(o, s->sources[i].from == FROM_DEFAULT && o->type == OPT_UINT64 && o->min == OPT_DRAWN, value,
				sizeof value);
		printf("%-22s %-24s ", o->name, value);
		switch (s->sources[i].from) {
		case FROM_DEFAULT: puts("default"); break;
		case FROM_CONFIG:
		case FROM_SECTION: printf("%s:%zu\n", s->path, s->sources[i].line); break;
		case FROM_ENVIRONMENT:
			opt_variable(o->name, name);
			printf("environment (%s)\n", name);
			break;
		case FROM_COMMAND: puts("command line"); break;
		}
	}
	for (size_t k = 0; s->found && k < s->c->n_lines; k++) {
		const struct opt_config_line *l = &s->c->lines[k];
		if (section_of(s->p, l->section) != SECTION_OTHER && find(s->p, l->name) == s->p->n_opts)
			printf("# line %zu: %s is not an option of %s\n", l->line, l->name, s->p->name);
	}
	return close_stdout(s->p->name) + 1;
}
