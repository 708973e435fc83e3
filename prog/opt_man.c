/* Manual pages: the tables that --help is printed from, in the man macros of roff.
 *
 * Invariants:
 *   1. Text never reaches roff as a request or an escape: backslashes and quotes are escaped, and a line that starts
 *      with a dot gets a zero-width character in front.
 *   2. The same tables give the same bytes: there is no date.
 *
 * It does not know any option by name. */
#include "opt_man.h"

#include "cohort.h"
#include "topics.h"

#include <ctype.h>
#include <string.h>

#ifndef COHORT_DATADIR
#define COHORT_DATADIR "/usr/local/share/cohort"
#endif

/* n bytes of text; at_start tells whether a line begins here. */
static void put(const char *s, size_t n, bool at_start, FILE *out)
{
	if (at_start && n > 0 && *s == '.')
		fputs("\\&", out);
	for (size_t i = 0; i < n; i++) {
		switch (s[i]) {
		case '\\': fputs("\\e", out); break;
		case '-': fputs("\\-", out); break;
		case '\'': fputs("\\(aq", out); break;
		case '`': fputs("\\(ga", out); break;
		case '^': fputs("\\(ha", out); break;
		case '~': fputs("\\(ti", out); break;
		default: fputc(s[i], out);
		}
	}
}

static void puts_at(const char *s, bool at_start, FILE *out)
{
	put(s, strlen(s), at_start, out);
}

void man_section(const char *title, FILE *out)
{
	fprintf(out, ".SH \"%s\"\n", title);
}

/* Lines as they are, each without its first `cut` blanks. */
static const char *as_is(const char *s, size_t cut, FILE *out)
{
	fputs(".EX\n", out);
	while (*s && *s != '\n') {
		const size_t n = strcspn(s, "\n");
		size_t skip = 0;
		while (skip < cut && s[skip] == ' ')
			skip++;
		put(s + skip, n - skip, true, out);
		fputc('\n', out);
		s += n + (s[n] == '\n');
	}
	fputs(".EE\n", out);
	return s;
}

void man_text(const char *text, FILE *out)
{
	bool begun = false, apart = false;

	while (*text) {
		const size_t n = strcspn(text, "\n");
		if (n == 0) {
			text++;
			apart = begun;
			continue;
		}
		if (apart)
			fputs(".PP\n", out);
		begun = true;
		apart = false;
		if (*text == ' ') {
			text = as_is(text, 2, out);
			continue;
		}
		put(text, n, true, out);
		fputc('\n', out);
		text += n + (text[n] == '\n');
	}
}

void man_entry(const char *word, const char *arg, const char *text, FILE *out)
{
	fputs(".TP\n\\fB", out);
	puts_at(word, true, out);
	fputs("\\fR", out);
	if (arg) {
		fputs(" \\fI", out);
		puts_at(arg, false, out);
		fputs("\\fR", out);
	}
	fputc('\n', out);
	puts_at(text, true, out);
	fputc('\n', out);
}

/* "cohort run" as the name of its page. */
static void page_name(const char *name, bool upper, FILE *out)
{
	for (; *name; name++) {
		const char c = (char)(*name == ' ' ? '-' : upper ? toupper((unsigned char)*name) : *name);
		put(&c, 1, false, out);
	}
}

void man_head(const char *name, const char *brief, const char *usage, FILE *out)
{
	fputs(".\\\" Made from the program's tables of options.\n.TH \"", out);
	page_name(name, true, out);
	fprintf(out, "\" 1 \"\" \"cohort %s\" \"User Commands\"\n", cohort_version());
	man_section("NAME", out);
	page_name(name, false, out);
	fputs(" \\- ", out);
	puts_at(brief, false, out);
	fputc('\n', out);
	man_section("SYNOPSIS", out);
	fputs(".B ", out);
	puts_at(name, false, out);
	fputc('\n', out);
	puts_at(usage, true, out);
	fputc('\n', out);
}

void man_tail(const char *see, FILE *out)
{
	const struct topic_pair *pairs;
	size_t n = topic_exit_codes(&pairs);

	man_section("EXIT STATUS", out);
	for (size_t i = 0; i < n; i++)
		man_entry(pairs[i].name, NULL, pairs[i].text, out);
	man_section("ENVIRONMENT", out);
	n = topic_variables(&pairs);
	for (size_t i = 0; i < n; i++)
		man_entry(pairs[i].name, NULL, pairs[i].text, out);
	man_section("FILES", out);
	man_entry("~/.config/cohort/config", NULL,
			"Options, for all programs and for each; \"cohort help config\" tells its format.", out);
	man_entry(COHORT_DATADIR "/cohort-tiny.gguf", NULL, "The built-in model.", out);
	man_section("SEE ALSO", out);
	puts_at(see, true, out);
	fputc('\n', out);
}

/* The first sentence, as the line after a name: a small letter first, no full stop. */
static void first_sentence(const char *about, char *out, size_t n_max)
{
	size_t n = 0;

	for (; about[n] && n + 1 < n_max &&
			!(about[n] == '.' && (!about[n + 1] || isspace((unsigned char)about[n + 1])));
			n++)
		out[n] = (char)(about[n] == '\n' ? ' ' : n == 0 ? tolower((unsigned char)about[n]) : about[n]);
	out[n] = '\0';
}

static void options(const struct opt *opts, size_t n, FILE *out)
{
	for (size_t i = 0; i < n; i++) {
		const struct opt *o = &opts[i];
		char word[4 * OPT_NAME_BYTES] = "", name[OPT_NAME_BYTES];
		size_t at = 0;
		for (size_t k = 0; opt_name(o, k, name) && at < sizeof word; k++)
			at += (size_t)snprintf(word + at, sizeof word - at, "%s-%s", k > 0 ? ", " : "", name);
		man_entry(word, o->arg, strcmp(o->name, "help") == 0 ? "print a summary of this page" : o->help, out);
	}
}

void opt_man(const struct opt_prog *p, const char *brief, FILE *out)
{
	char sentence[256];

	first_sentence(p->about, sentence, sizeof sentence);
	man_head(p->name, brief ? brief : sentence, p->usage, out);
	man_section("DESCRIPTION", out);
	man_text(p->about, out);
	man_section("OPTIONS", out);
	fputs("One dash or two; a value is the next word, or follows an equals sign.\n", out);
	const bool divided = p->n_opts >= OPT_GROUPED;
	for (size_t g = 0; divided && opt_group(g); g++) {
		bool begun = false;
		for (size_t i = 0; i < p->n_opts; i++) {
			if (!opt_in_group(&p->opts[i], g))
				continue;
			if (!begun)
				fprintf(out, ".SS \"%.*s\"\n", (int)strlen(opt_group(g)) - 1, opt_group(g));
			begun = true;
			options(&p->opts[i], 1, out);
		}
	}
	if (divided)
		fputs(".SS \"Configuration\"\n", out);
	else
		options(p->opts, p->n_opts, out);
	options(opt_common, OPT_COMMON, out);
	if (p->examples) {
		man_section("EXAMPLES", out);
		as_is(p->examples, 2, out);
	}
	man_tail(strchr(p->name, ' ') ? "cohort(1), batched(1)" : "cohort(1)", out);
}
