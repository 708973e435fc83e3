/* Option tables: the command line and help. Everything that can be wrong with an option is said with the option's name
 * and what was expected.
 *
 * Invariants:
 *   1. The command line is walked twice: first for what is no option, for what is missing and for the options that
 * every program has; then, after the weaker sources (opt_sources.c), for the values. So help needs no working
 *      configuration, and the command line wins.
 *   2. Nothing but *value and *given of the table's options is written.
 *
 * It does not know what an option is for. */
#include "opt.h"

#include "common.h"
#include "opt_complete.h"
#include "opt_foreign.h"
#include "opt_man.h"
#include "opt_part.h"

#include "base/err.h"
#include "base/mem.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

const struct opt opt_common[OPT_COMMON] = {
		{"config", NULL, OPT_STR, NULL, 0, 0, "FILE",
				"options from this file, not the usual one (see 'cohort help config')", NULL},
		{"no-config", NULL, OPT_FLAG, NULL, 0, 0, NULL, "options from no file", NULL},
		{"show-config", NULL, OPT_FLAG, NULL, 0, 0, NULL,
				"print each option's value and where it came from, and end", NULL},
		{"help", "h", OPT_FLAG, NULL, 0, 0, NULL, "this text", NULL},
};

static struct {
	void (*fn)(const struct opt_prog *p, void *user);
	void *user;
} visitor;

void opt_visit(void (*fn)(const struct opt_prog *p, void *user), void *user)
{
	visitor.fn = fn;
	visitor.user = user;
}

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

int opt_wrong(const struct opt_prog *p)
{
	fprintf(stderr, "Try '%s --help'.\n", p->name);
	return EXIT_USAGE + 1;
}

/* word: as it was typed, with its dashes. name: without. */
static int unknown(const struct opt_prog *p, const char *word, const char *name)
{
	const char *names[256];
	char shown[ERR_SHOW_BYTES];
	size_t n = 0;
	for (size_t i = 0; i < p->n_opts && n < 256 - OPT_COMMON; i++)
		names[n++] = p->opts[i].name;
	for (size_t i = 0; i < OPT_COMMON; i++)
		names[n++] = opt_common[i].name;
	const char *near = opt_nearest(name, names, n);
	fprintf(stderr, "%s: unknown option '%s'", p->name, err_show(shown, word, strlen(word)));
	if (near)
		fprintf(stderr, "; did you mean '-%s'?", near);
	fputc('\n', stderr);
	return opt_wrong(p);
}

bool opt_flag(const char *text, bool *on)
{
	static const char *const words[] = {"0", "1", "false", "true", "no", "yes", "off", "on"};
	for (size_t i = 0; i < sizeof words / sizeof *words; i++)
		if (strcmp(text, words[i]) == 0) {
			*on = i % 2 == 1;
			return true;
		}
	return false;
}

/* Sets the value. False with the reason. */
static bool set(const struct opt *o, const char *text, char why[OPT_WHY_BYTES])
{
	char shown[ERR_SHOW_BYTES], *end = NULL;
	double d = 0;

	err_show(shown, text, strlen(text));
	errno = 0;
	switch (o->type) {
	case OPT_FLAG:
		if (opt_flag(text, o->value))
			return true;
		snprintf(why, OPT_WHY_BYTES, "expects 1, 0, true, false, yes, no, on or off, got '%s'", shown);
		return false;
	case OPT_STR: *(const char **)o->value = text; return true;
	case OPT_LIST: {
		struct opt_list *list = o->value;
		if (list->n == OPT_LIST_MAX) {
			snprintf(why, OPT_WHY_BYTES, "is given more than %d times", OPT_LIST_MAX);
			return false;
		}
		list->items[list->n++] = text;
		return true;
	}
	case OPT_UINT64: {
		const unsigned long long v = strtoull(text, &end, 10);
		if (*text < '0' || *text > '9' || *end || errno) {
			snprintf(why, OPT_WHY_BYTES, "expects a number from 0 to 2^64 - 1, got '%s'", shown);
			return false;
		}
		*(uint64_t *)o->value = v;
		return true;
	}
	case OPT_INT: {
		const long long v = strtoll(text, &end, 10);
		if (*text == '\0' || *end || errno || v < (long long)o->min || v > (long long)o->max) {
			snprintf(why, OPT_WHY_BYTES, "expects a whole number from %.0f to %.0f, got '%s'", o->min,
					o->max, shown);
			return false;
		}
		*(int64_t *)o->value = v;
		return true;
	}
	case OPT_FLOAT:
		d = strtod(text, &end);
		if (*text == '\0' || *end || !(d >= o->min && d <= o->max)) {
			snprintf(why, OPT_WHY_BYTES, "expects a number from %g to %g, got '%s'", o->min, o->max, shown);
			return false;
		}
		*(double *)o->value = d;
		return true;
	}
	return false;
}

bool opt_take(struct opt_run *s, size_t i, const char *text, enum opt_from from, size_t line, char why[OPT_WHY_BYTES])
{
	const struct opt *o = &s->p->opts[i];

	if (o->type == OPT_LIST && s->sources[i].from != from)
		((struct opt_list *)o->value)->n = 0;
	if (!set(o, text, why))
		return false;
	s->sources[i] = (struct opt_source){from, line};
	if (o->given)
		*o->given = true;
	return true;
}

bool opt_name(const struct opt *o, size_t i, char out[OPT_NAME_BYTES])
{
	const char *s = i == 0 ? o->name : o->alias;

	for (size_t k = 1; s && k < i; k++) {
		s = strchr(s, '|');
		if (s)
			s++;
	}
	if (s)
		snprintf(out, OPT_NAME_BYTES, "%.*s", (int)strcspn(s, "|"), s);
	return s != NULL;
}

bool opt_called(const struct opt *o, const char *name, size_t n)
{
	char own[OPT_NAME_BYTES];

	for (size_t i = 0; opt_name(o, i, own); i++)
		if (strlen(own) == n && memcmp(own, name, n) == 0)
			return true;
	return false;
}

/* An argument taken apart. */
struct word {
	const struct opt *o;
	bool common; /* o is of opt_common, else of the table */
	const struct opt_foreign *foreign; /* then o is NULL */
	const char *text; /* NULL for flags */
};

/* An option of llama.cpp that this program does not have: accepted because it changes no answer here, or refused with
 * the reason. */
static int read_foreign(const struct opt_prog *p, int argc, char **argv, int *i, struct word *w)
{
	const char *option = argv[*i];

	if (!w->text && *i + 1 < argc && opt_foreign_takes(w->foreign, argv[*i + 1]))
		w->text = argv[++*i];
	const char *reason = opt_foreign_refusal(w->foreign, w->text);
	if (!reason)
		return 0;
	fprintf(stderr, "%s: %.*s: %s\n", p->name, (int)strcspn(option, "="), option, reason);
	return EXIT_USAGE + 1;
}

/* The option at argv[*i], which starts with a dash, and its value; *i moves to the last word of it. Returns 0, or as
 * opt_parse does. */
static int read_word(const struct opt_prog *p, int argc, char **argv, int *i, struct word *w)
{
	const char *name = argv[*i] + 1 + (argv[*i][1] == '-'), *eq = strchr(name, '=');
	const size_t len = eq ? (size_t)(eq - name) : strlen(name);

	*w = (struct word){.text = eq ? eq + 1 : NULL};
	for (size_t k = 0; k < p->n_opts && !w->o; k++)
		w->o = opt_called(&p->opts[k], name, len) ? &p->opts[k] : NULL;
	w->common = !w->o;
	for (size_t k = 0; k < OPT_COMMON && !w->o; k++)
		w->o = opt_called(&opt_common[k], name, len) ? &opt_common[k] : NULL;
	w->foreign = w->o ? NULL : opt_foreign(name, len);
	if (w->foreign)
		return read_foreign(p, argc, argv, i, w);
	if (!w->o)
		return unknown(p, argv[*i], name);
	if (w->o->type == OPT_FLAG && w->text) {
		fprintf(stderr, "%s: -%s takes no value\n", p->name, w->o->name);
		return opt_wrong(p);
	}
	if (w->o->type != OPT_FLAG && !w->text) {
		if (++*i >= argc) {
			fprintf(stderr, "%s: -%s expects a value (%s)\n", p->name, w->o->name, w->o->arg);
			return opt_wrong(p);
		}
		w->text = argv[*i];
	}
	return 0;
}

/* -config and its like. Returns 0, or as opt_parse does. */
static int take_common(struct opt_run *s, const struct word *w)
{
	if (strcmp(w->o->name, "help") == 0) {
		opt_help(s->p, stdout);
		return close_stdout(s->p->name) + 1;
	}
	if (strcmp(w->o->name, "config") == 0)
		s->config = w->text;
	else if (strcmp(w->o->name, "no-config") == 0)
		s->no_config = true;
	else
		s->show = true;
	if (s->config && s->no_config)
		return bad_usage(s->p->name, "-config and -no-config contradict each other") + 1;
	return 0;
}

/* Manual pages and completions of a program that is no command of another: for the build, and in no list. */
static int print_generated(const struct opt_prog *p, int argc, char **argv, int from)
{
	if (from + 1 == argc && strcmp(argv[from], "-print-man") == 0) {
		opt_man(p, NULL, stdout);
		return close_stdout(p->name) + 1;
	}
	if (from + 2 == argc && strcmp(argv[from], "-print-completion") == 0) {
		struct completion c;
		if (!completion_begin(&c, argv[from + 1], p->name, stdout))
			return bad_usage(p->name, "completions are for bash, zsh and fish") + 1;
		completion_table(&c, p, NULL, NULL, false);
		completion_end(&c);
		return close_stdout(p->name) + 1;
	}
	return 0;
}

static bool takes_prompt(const struct opt_prog *p)
{
	for (size_t i = 0; i < p->n_opts; i++)
		if (strcmp(p->opts[i].name, "prompt") == 0 && p->opts[i].type == OPT_STR)
			return true;
	return false;
}

/* What may have been meant by a word too many. */
static const char *hint(const struct opt_prog *p, size_t n_max)
{
	if (n_max > 0)
		return "; a text with blanks goes in quotes";
	return takes_prompt(p) ? "; a prompt goes behind -prompt, in quotes" : "";
}

/* Whether a word names a model's file: by its ending, or by what it holds. A text may end in such a name, too. */
static bool names_model(const char *word)
{
	const size_t n = strlen(word);
	char magic[4] = {0};
	struct stat st;

	if (n > 5 && strcmp(word + n - 5, ".gguf") == 0 && !strpbrk(word, " \t\n"))
		return true;
	FILE *f = stat(word, &st) == 0 && S_ISREG(st.st_mode) ? fopen(word, "rb") : NULL;
	const bool is = f && fread(magic, 1, 4, f) == 4 && memcmp(magic, "GGUF", 4) == 0;
	if (f)
		fclose(f);
	return is;
}

/* A model's file as an operand, as in 'ollama run MODEL', would be taken for a prompt. Says so and what to type
 * instead. words: [n] the command line; i: which of them it is. Returns 0 if it is none, or as opt_parse does. */
static int model_operand(const struct opt_prog *p, size_t n_max, int n, char **words, int from, int i)
{
	char shown[ERR_SHOW_BYTES];
	bool takes = false, given = false;
	int k = 0;

	for (size_t j = 0; j < p->n_opts && !takes; j++)
		takes = strcmp(p->opts[j].name, "model") == 0;
	if (!takes || !names_model(words[i]))
		return 0;
	const char **line = mem_alloc((size_t)n + 3, sizeof *line);
	if (!line)
		return out_of_memory(p->name) + 1;
	line[k++] = "-m";
	line[k++] = words[i];
	/* 'batched MODEL TEXT': who takes no operands has an option for the text, or no use for it. */
	int after = i + 1;
	while (n_max == 0 && after < n && words[after][0] != '-')
		after++;
	if (after > i + 1 && takes_prompt(p)) {
		line[k++] = "-prompt";
		line[k++] = words[i + 1];
	}
	for (int j = from; j < n; j++) {
		const char *w = words[j] + (strncmp(words[j], "--", 2) == 0);
		given = given || strcmp(w, "-m") == 0 || strncmp(w, "-model", 6) == 0;
		if (j < i || j >= after)
			line[k++] = words[j];
	}
	char *text = command_line(k, line);
	mem_free(line);
	fprintf(stderr, "%s: '%s' is a model file; a model goes behind -model%s\n", p->name,
			err_show(shown, words[i], strlen(words[i])),
			n_max > 0 ? ", a text of this name behind --" : "");
	if (text && !given)
		fprintf(stderr, "Try: %s %s\n", p->name, text);
	mem_free(text);
	return EXIT_USAGE + 1;
}

/* One of the two walks of invariant 1: the first when values is false. Returns 0, or as opt_parse does. */
static int walk(struct opt_run *s, bool values, int argc, char **argv, int from, const char **operands, size_t n_max,
		size_t *n_operands)
{
	const struct opt_prog *p = s->p;
	char why[OPT_WHY_BYTES];
	bool only_operands = false;
	size_t n = 0;
	int rc = 0;

	for (int i = from; !rc && i < argc; i++) {
		const char *a = argv[i];
		struct word w;
		if (only_operands || a[0] != '-' || a[1] == '\0') {
			char shown[ERR_SHOW_BYTES];
			rc = only_operands ? 0 : model_operand(p, n_max, argc, argv, from, i);
			if (rc)
				return rc;
			if (n >= n_max) {
				fprintf(stderr, "%s: unexpected argument '%s'%s\n", p->name,
						err_show(shown, a, strlen(a)), hint(p, n_max));
				return opt_wrong(p);
			}
			operands[n++] = a;
			continue;
		}
		if (strcmp(a, "--") == 0) {
			only_operands = true;
			continue;
		}
		rc = read_word(p, argc, argv, &i, &w);
		if (!rc && w.foreign) {
			if (values)
				fprintf(stderr, "%s: %s has no effect: %s\n", p->name, a, opt_foreign_note(w.foreign));
			continue;
		}
		if (!rc && !values && w.common)
			rc = take_common(s, &w);
		if (!rc && values && !w.common &&
				!opt_take(s, (size_t)(w.o - p->opts), w.text ? w.text : "1", FROM_COMMAND, 0, why)) {
			fprintf(stderr, "%s: -%s %s\n", p->name, w.o->name, why);
			rc = opt_wrong(p);
		}
	}
	if (n_operands)
		*n_operands = n;
	return rc;
}

int opt_parse(const struct opt_prog *p, int argc, char **argv, int from, const char **operands, size_t n_max,
		size_t *n_operands)
{
	struct opt_run s = {.p = p};

	if (visitor.fn) {
		visitor.fn(p, visitor.user);
		return EXIT_OK + 1;
	}
	int rc = print_generated(p, argc, argv, from);
	if (!rc)
		rc = walk(&s, false, argc, argv, from, operands, n_max, n_operands);
	if (rc)
		return rc;
	s.sources = mem_zalloc(p->n_opts, sizeof *s.sources);
	if (!s.sources)
		return out_of_memory(p->name) + 1;
	rc = opt_sources(&s);
	if (!rc)
		rc = walk(&s, true, argc, argv, from, operands, n_max, n_operands);
	if (!rc && s.show)
		rc = opt_show(&s);
	mem_free(s.sources);
	return rc;
}

/* The words of a text from column `at` on, in lines of up to HELP_WIDTH characters; one that is longer has its own. */
enum { HELP_COLUMN = 28, HELP_WIDTH = 110 };
static void put_wrapped(const char *text, size_t at, FILE *out)
{
	bool begun = false; /* something stands on this line */

	while (*text) {
		const size_t n = strcspn(text, " ");
		if (begun && at + 1 + n > HELP_WIDTH) {
			fprintf(out, "\n%*s", HELP_COLUMN + 1, "");
			at = HELP_COLUMN + 1;
			begun = false;
		}
		fprintf(out, "%s%.*s", begun ? " " : "", (int)n, text);
		at += n + begun;
		begun = true;
		text += n + (text[n] == ' ');
	}
	fputc('\n', out);
}

void opt_help_options(const struct opt *opts, size_t n, FILE *out)
{
	for (size_t i = 0; i < n; i++) {
		const struct opt *o = &opts[i];
		char name[OPT_NAME_BYTES];
		int len = 0;
		for (size_t k = 0; opt_name(o, k, name); k++)
			len += fprintf(out, "%s-%s", k == 0 ? "  " : ", ", name);
		len += fprintf(out, "%s%s", o->arg ? " " : "", o->arg ? o->arg : "");
		/* One that is too long for its column has a line of its own. */
		if (len > HELP_COLUMN)
			fprintf(out, "\n%*s", HELP_COLUMN + 1, "");
		else
			fprintf(out, "%*s", HELP_COLUMN + 1 - len, "");
		put_wrapped(o->help, HELP_COLUMN + 1, out);
	}
}

int opt_set(const struct opt_prog *p, const char *name, const char *text)
{
	const struct opt *o = NULL;
	char why[OPT_WHY_BYTES];

	for (size_t i = 0; i < p->n_opts && !o; i++)
		o = opt_called(&p->opts[i], name, strlen(name)) ? &p->opts[i] : NULL;
	if (!o) {
		const char *names[256];
		char shown[ERR_SHOW_BYTES];
		size_t n = 0;
		for (; n < p->n_opts && n < 256; n++)
			names[n] = p->opts[n].name;
		const char *near = opt_nearest(name, names, n);
		fprintf(stderr, "%s: unknown option '%s'%s%s%s\n", p->name, err_show(shown, name, strlen(name)),
				near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "");
		return EXIT_USAGE + 1;
	}
	if (!set(o, text, why)) {
		fprintf(stderr, "%s: -%s %s\n", p->name, o->name, why);
		return EXIT_USAGE + 1;
	}
	if (o->given)
		*o->given = true;
	return 0;
}

void opt_help(const struct opt_prog *p, FILE *out)
{
	const bool divided = p->n_opts >= OPT_GROUPED;

	fprintf(out, "Usage: %s %s\n\n%s\n\nOptions (one dash or two):\n", p->name, p->usage, p->about);
	for (size_t g = 0; divided && opt_group(g); g++) {
		bool begun = false;
		for (size_t i = 0; i < p->n_opts; i++) {
			if (!opt_in_group(&p->opts[i], g))
				continue;
			if (!begun)
				fprintf(out, "\n%s\n", opt_group(g));
			begun = true;
			opt_help_options(&p->opts[i], 1, out);
		}
	}
	if (divided)
		fputs("\nConfiguration:\n", out);
	else
		opt_help_options(p->opts, p->n_opts, out);
	opt_help_options(opt_common, OPT_COMMON, out);
	if (p->examples)
		fprintf(out, "\nExamples:\n%s", p->examples);
}
