/* Option tables. Everything that can be wrong with an option is said with the option's name and what was expected. */
#include "opt.h"

#include "common.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Edit distance with a small bound; words here are short. */
static size_t distance(const char *a, const char *b)
{
	size_t row[64], n = strlen(b);
	if (n >= 64 || strlen(a) >= 64)
		return 99;
	for (size_t j = 0; j <= n; j++)
		row[j] = j;
	for (size_t i = 1; a[i - 1]; i++) {
		size_t diag = row[0];
		row[0] = i;
		for (size_t j = 1; j <= n; j++) {
			size_t up = row[j], best = diag + (a[i - 1] != b[j - 1]);
			if (up + 1 < best)
				best = up + 1;
			if (row[j - 1] + 1 < best)
				best = row[j - 1] + 1;
			diag = up;
			row[j] = best;
		}
	}
	return row[n];
}

const char *opt_nearest(const char *word, const char *const *names, size_t n)
{
	const char *best = NULL;
	size_t best_d = strlen(word) / 3 + 2;
	for (size_t i = 0; i < n; i++) {
		size_t d = names[i] ? distance(word, names[i]) : 99;
		if (d < best_d) {
			best_d = d;
			best = names[i];
		}
	}
	return best;
}

static int wrong(const struct opt_prog *p)
{
	fprintf(stderr, "Try '%s --help'.\n", p->name);
	return 3;
}

static int unknown(const struct opt_prog *p, const char *name)
{
	const char *names[128];
	size_t n = 0;
	for (size_t i = 0; i < p->n_opts && n < 127; i++)
		names[n++] = p->opts[i].name;
	names[n++] = "help";
	const char *near = opt_nearest(name, names, n);
	fprintf(stderr, "%s: unknown option '%s'", p->name, name);
	if (near)
		fprintf(stderr, "; did you mean '-%s'?", near);
	fputc('\n', stderr);
	return wrong(p);
}

static int set(const struct opt_prog *p, const struct opt *o, const char *text)
{
	char *end = NULL;
	double d = 0;

	errno = 0;
	switch (o->type) {
	case OPT_FLAG:
		*(bool *)o->value = true;
		return 0;
	case OPT_STR:
		*(const char **)o->value = text;
		return 0;
	case OPT_LIST: {
		struct opt_list *list = o->value;
		if (list->n == OPT_LIST_MAX) {
			fprintf(stderr, "%s: -%s is given more than %d times\n", p->name, o->name, OPT_LIST_MAX);
			return wrong(p);
		}
		list->items[list->n++] = text;
		return 0;
	}
	case OPT_UINT64:
		*(uint64_t *)o->value = strtoull(text, &end, 10);
		if (*text < '0' || *text > '9' || *end || errno) {
			fprintf(stderr, "%s: -%s expects a number from 0 to 2^64 - 1, got '%s'\n", p->name, o->name,
					text);
			return wrong(p);
		}
		return 0;
	case OPT_INT: {
		long long v = strtoll(text, &end, 10);
		if (*text == '\0' || *end || errno || (double)v < o->min || (double)v > o->max) {
			fprintf(stderr, "%s: -%s expects a whole number from %.0f to %.0f, got '%s'\n", p->name,
					o->name, o->min, o->max, text);
			return wrong(p);
		}
		*(int64_t *)o->value = v;
		return 0;
	}
	case OPT_FLOAT:
		d = strtod(text, &end);
		if (*text == '\0' || *end || !(d >= o->min && d <= o->max)) {
			fprintf(stderr, "%s: -%s expects a number from %g to %g, got '%s'\n", p->name, o->name, o->min,
					o->max, text);
			return wrong(p);
		}
		*(double *)o->value = d;
		return 0;
	}
	return wrong(p);
}

static const struct opt *find(const struct opt_prog *p, const char *name, size_t n)
{
	for (size_t i = 0; i < p->n_opts; i++) {
		const struct opt *o = &p->opts[i];
		if (strlen(o->name) == n && memcmp(o->name, name, n) == 0)
			return o;
		if (o->alias && strlen(o->alias) == n && memcmp(o->alias, name, n) == 0)
			return o;
	}
	return NULL;
}

int opt_parse(const struct opt_prog *p, int argc, char **argv, int from, const char **operands, size_t n_max,
		size_t *n_operands)
{
	bool only_operands = false;
	size_t n = 0;

	for (int i = from; i < argc; i++) {
		const char *a = argv[i];
		if (only_operands || a[0] != '-' || a[1] == '\0') {
			if (n >= n_max) {
				fprintf(stderr, "%s: unexpected argument '%s'\n", p->name, a);
				return wrong(p);
			}
			operands[n++] = a;
			continue;
		}
		if (strcmp(a, "--") == 0) {
			only_operands = true;
			continue;
		}
		const char *name = a + 1 + (a[1] == '-'), *eq = strchr(name, '=');
		size_t len = eq ? (size_t)(eq - name) : strlen(name);
		if (len == 0)
			return unknown(p, a);
		if ((len == 4 && memcmp(name, "help", 4) == 0) || (len == 1 && *name == 'h')) {
			opt_help(p, stdout);
			return close_stdout(p->name) + 1;
		}
		const struct opt *o = find(p, name, len);
		if (!o)
			return unknown(p, name);
		const char *text = eq ? eq + 1 : NULL;
		if (o->type == OPT_FLAG && text) {
			fprintf(stderr, "%s: -%s takes no value\n", p->name, o->name);
			return wrong(p);
		}
		if (o->type != OPT_FLAG && !text) {
			if (++i >= argc) {
				fprintf(stderr, "%s: -%s expects a value (%s)\n", p->name, o->name, o->arg);
				return wrong(p);
			}
			text = argv[i];
		}
		int rc = set(p, o, text);
		if (rc)
			return rc;
		if (o->given)
			*o->given = true;
	}
	if (n_operands)
		*n_operands = n;
	return 0;
}

int opt_set(const struct opt_prog *p, const char *name, const char *text)
{
	const struct opt *o = find(p, name, strlen(name));
	const int rc = o ? set(p, o, text) : unknown(p, name);

	if (!rc && o->given)
		*o->given = true;
	return rc;
}

void opt_help(const struct opt_prog *p, FILE *out)
{
	fprintf(out, "Usage: %s %s\n\n%s\n\nOptions (one dash or two):\n", p->name, p->usage, p->about);
	for (size_t i = 0; i < p->n_opts; i++) {
		const struct opt *o = &p->opts[i];
		char left[64];
		snprintf(left, sizeof left, "-%s%s%s%s%s", o->name, o->alias ? ", -" : "", o->alias ? o->alias : "",
				o->arg ? " " : "", o->arg ? o->arg : "");
		fprintf(out, "  %-26s %s\n", left, o->help);
	}
	fprintf(out, "  %-26s %s\n", "-help, -h", "this text");
	if (p->examples)
		fprintf(out, "\nExamples:\n%s", p->examples);
}
