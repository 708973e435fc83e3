/* Manual pages (roff, section 3) and Markdown from what apidoc_read.c found.
 *
 *  1. A section of a header is a page, named after its first function; each further one has a page that is a link to
 * it. A header is a page of its title, with an overview of its sections.
 *  2. Texts are the headers' own, with their paragraphs, lists and tables; names of functions become references.
 *  3. The same headers give the same bytes: no date, no path.
 */
#include "apidoc.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

/* What a text is written as. */
struct style {
	bool man;
	const struct doc_header *headers; /* for references */
	size_t n_headers;
};

static bool is_word(char c)
{
	return isalnum((unsigned char)c) || c == '_';
}

/* The header that has a function of this name, or NULL. */
static const struct doc_header *find_function(const struct style *s, const char *name, size_t n)
{
	for (size_t i = 0; i < s->n_headers; i++) {
		const struct doc_header *h = &s->headers[i];
		for (size_t k = 0; k < h->n_items; k++)
			if (h->items[k].kind == DOC_FUNC && strlen(h->items[k].name) == n &&
					!memcmp(h->items[k].name, name, n))
				return h;
	}
	return NULL;
}

static void put_char(FILE *f, const struct style *s, char c)
{
	if (s->man) {
		switch (c) {
		case '\\': fputs("\\e", f); break;
		case '-': fputs("\\-", f); break;
		case '^': fputs("\\(ha", f); break;
		case '~': fputs("\\(ti", f); break;
		case '`': fputs("\\(ga", f); break;
		case '\'': fputs("\\(aq", f); break;
		default: fputc(c, f);
		}
		return;
	}
	if (strchr("\\*_<>[]#|", c))
		fputc('\\', f);
	fputc(c, f);
}

/* Words of a text on one line: references, and what stands between backticks. */
static void put_words(FILE *f, const struct style *s, const char *text, size_t n)
{
	if (s->man && n > 0 && text[0] == '.')
		fputs("\\&", f);
	for (size_t i = 0; i < n;) {
		size_t k = i;
		while (k < n && is_word(text[k]))
			k++;
		if (k > i) {
			const struct doc_header *h = find_function(s, text + i, k - i);
			if (h && s->man)
				fprintf(f, "\\fB%.*s\\fR(3)", (int)(k - i), text + i);
			else if (h)
				fprintf(f, "[%.*s](%s.md#%.*s)", (int)(k - i), text + i, h->title, (int)(k - i),
						text + i);
			else
				for (size_t j = i; j < k; j++)
					put_char(f, s, text[j]);
			i = k;
			continue;
		}
		if (text[i] == '`' && memchr(text + i + 1, '`', n - i - 1)) {
			const char *close = memchr(text + i + 1, '`', n - i - 1);
			const size_t n_code = (size_t)(close - text) - i - 1;
			fputs(s->man ? "\\fI" : "`", f);
			for (size_t j = i + 1; j <= i + n_code; j++)
				if (s->man)
					put_char(f, s, text[j]);
				else
					fputc(text[j], f);
			fputs(s->man ? "\\fR" : "`", f);
			i += n_code + 2;
			continue;
		}
		put_char(f, s, text[i++]);
	}
	fputc('\n', f);
}

/* A line as it stands, of a table. */
static void put_verbatim(FILE *f, const struct style *s, const char *text, size_t n)
{
	if (s->man && n > 0 && (text[0] == '.' || text[0] == '\''))
		fputs("\\&", f);
	for (size_t i = 0; i < n; i++) {
		if (text[i] == '\t')
			fputs("        ", f);
		else if (s->man)
			put_char(f, s, text[i]);
		else
			fputc(text[i], f);
	}
	fputc('\n', f);
}

/* Lines that begin with a space are a list when there is a dash, else a table; an empty line ends a paragraph. */
static void put_text(FILE *f, const struct style *s, const char *text, const char *paragraph)
{
	enum { NONE, WORDS, LIST, TABLE } in = NONE;

	while (text && *text) {
		const size_t n = strcspn(text, "\n"), n_space = strspn(text, " ");
		const bool item = n_space > 0 && text[n_space] == '-' && text[n_space + 1] == ' ';
		if (in == TABLE && (n == 0 || n_space == 0 || item))
			fputs(s->man ? ".fi\n.RE\n" : "```\n", f);
		if (n == 0) {
			if (!s->man)
				fputc('\n', f);
			in = NONE;
		} else if (item) {
			fputs(s->man ? ".IP \\(bu 2\n" : in == LIST ? "- " : in == NONE ? "- " : "\n- ", f);
			put_words(f, s, text + n_space + 2, n - n_space - 2);
			in = LIST;
		} else if (n_space > 0 && in == LIST) {
			fputs(s->man ? "" : "  ", f);
			put_words(f, s, text + n_space, n - n_space);
		} else if (n_space > 0) {
			if (in != TABLE)
				fputs(s->man ? ".PP\n.RS 2\n.nf\n" : "\n```\n", f);
			put_verbatim(f, s, text + (n_space < 2 ? n_space : 2), n - (n_space < 2 ? n_space : 2));
			in = TABLE;
		} else {
			if (in == NONE || in == LIST || in == TABLE)
				fputs(s->man ? paragraph : in == NONE ? "" : "\n", f);
			paragraph = ".PP\n";
			put_words(f, s, text, n);
			in = WORDS;
		}
		text += n + (text[n] == '\n');
	}
	if (in == TABLE)
		fputs(s->man ? ".fi\n.RE\n" : "```\n", f);
}

/* A declaration in lines of at most `width`, broken behind commas. */
static void put_prototype(FILE *f, const struct style *s, const char *decl, size_t width)
{
	size_t column = 0;

	fputs(s->man ? "\\fB" : "", f);
	while (*decl) {
		size_t n = strcspn(decl, ","); /* up to the next place to break at */
		n += decl[n] == ',';
		if (column > 0 && column + n > width) {
			fputs(s->man ? "\\fR\n\\fB" : "\n", f);
			fputs("        ", f);
			column = 8;
			n -= *decl == ' ';
			decl += *decl == ' ';
		}
		for (size_t i = 0; i < n; i++)
			if (s->man)
				put_char(f, s, decl[i]);
			else
				fputc(decl[i], f);
		column += n;
		decl += n;
	}
	fputs(s->man ? "\\fR\n" : "\n", f);
}

static FILE *open_page(const char *dir, const char *name, const char *ext, char *error, size_t n_error)
{
	FILE *f;

	snprintf(error, n_error, "%s/%s%s", dir, name, ext);
	f = fopen(error, "w");
	return f;
}

static bool close_page(FILE *f)
{
	const bool bad = ferror(f);
	return !fclose(f) && !bad;
}

/* The end of the section that begins at item i. */
static size_t section_end(const struct doc_header *h, size_t i)
{
	size_t end = i + 1;

	while (end < h->n_items && h->items[end].kind != DOC_SECTION)
		end++;
	return end;
}

static const struct doc_item *first_function(const struct doc_header *h, size_t section)
{
	for (size_t i = section + 1; i < section_end(h, section); i++)
		if (h->items[i].kind == DOC_FUNC)
			return &h->items[i];
	return NULL;
}

/* What the head says in its first line, behind its colon and without the dot. */
static void put_subject(FILE *f, const struct style *s, const struct doc_header *h)
{
	size_t n = strcspn(h->head, "\n");
	const char *colon = memchr(h->head, ':', n), *from = colon ? colon + 1 : h->head;

	from += strspn(from, " ");
	n -= (size_t)(from - h->head);
	n -= n > 0 && from[n - 1] == '.';
	put_words(f, s, from, n);
}

/* ---- Manual pages ---- */

static void man_title(FILE *f, const char *name, const char *version)
{
	fputs(".TH \"", f);
	for (; *name; name++)
		fputc(toupper((unsigned char)*name), f);
	fprintf(f, "\" 3 \"\" \"cohort %s\" \"Library Functions Manual\"\n.nh\n.ad l\n", version);
}

static void man_include(FILE *f, const struct doc_header *h)
{
	fprintf(f, ".SH \"SYNOPSIS\"\n.nf\n\\fB#include <%s>\\fR\n", h->name);
}

static void man_member(FILE *f, const struct style *s, const struct doc_member *m)
{
	fputs(".TP\n\\fB", f);
	for (const char *p = m->decl; *p; p++)
		put_char(f, s, *p);
	fputs("\\fR\n", f);
	if (m->about)
		put_text(f, s, m->about, "");
}

/* A type or a constant. */
static void man_type(FILE *f, const struct style *s, const struct doc_item *item)
{
	struct doc_member *members;
	size_t n;

	switch (item->kind) {
	case DOC_STRUCT:
	case DOC_ENUM:
		fprintf(f, ".SS \"%s%s%s\"\n", item->kind == DOC_STRUCT ? "struct" : "enum", *item->name ? " " : "",
				item->name);
		if (item->about)
			put_text(f, s, item->about, "");
		n = doc_members(item, &members);
		for (size_t i = 0; i < n; i++)
			man_member(f, s, &members[i]);
		break;
	case DOC_OPAQUE: fprintf(f, ".SS \"struct %s\"\n", item->name); break;
	default:
		fputs(item->kind == DOC_DEFINE ? ".SS \"#define " : ".SS \"", f);
		for (const char *p = item->decl; *p; p++)
			put_char(f, s, *p);
		fputs("\"\n", f);
	}
	if (item->about && item->kind != DOC_STRUCT && item->kind != DOC_ENUM)
		put_text(f, s, item->about, "");
	if (item->trail)
		put_text(f, s, item->trail, item->about ? ".PP\n" : "");
}

static void man_types(FILE *f, const struct style *s, const struct doc_header *h, size_t from, size_t to)
{
	bool any = false;

	for (size_t i = from; i < to; i++) {
		const enum doc_kind k = h->items[i].kind;
		if (k == DOC_NOTE || k == DOC_FUNC || k == DOC_SECTION)
			continue;
		if (!any)
			fputs(".SH \"TYPES AND CONSTANTS\"\n", f);
		any = true;
		man_type(f, s, &h->items[i]);
	}
}

/* The statuses that a comment names: E_IO, NO_ROOM, ... One that names none does not say that there are none. */
static void man_statuses(FILE *f, const char *text)
{
	static const char *const names[] = {"NO_ROOM", "ABORTED", "E_ARG", "E_BATCH", "E_MEMORY", "E_IO", "E_FORMAT",
			"E_UNSUPPORTED", "E_LIMIT", "E_NUMERIC"};
	bool any = false;

	fputs("COHORT_OK", f);
	for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
		const size_t n = strlen(names[i]);
		for (const char *p = text; p && (p = strstr(p, names[i])); p += n)
			if (!is_word(p[n]) &&
					(p == text || !is_word(p[-1]) ||
							(p - text >= 7 && !strncmp(p - 7, "COHORT_", 7)))) {
				fprintf(f, ", COHORT_%s", names[i]);
				any = true;
				break;
			}
	}
	fputs(any ? ".\n" : ", or another one: none is named.\n", f);
}

static const char status_text[] =
		"COHORT_OK (0), or a status that is not 0; see \\fBcohort_status_name\\fR(3) for all of "
		"them.\nThe text of a failure is in \\fIerr\\fR, unless that is NULL.\n"
		"Those that its description names, besides COHORT_E_ARG for an argument that cannot "
		"be:\n";

static void man_returns(FILE *f, const struct style *s, const struct doc_header *h, size_t from, size_t to)
{
	bool any = false;

	fputs(".SH \"RETURN VALUE\"\n", f);
	for (size_t i = from; i < to; i++) {
		const struct doc_item *item = &h->items[i];
		if (item->kind != DOC_FUNC || strncmp(item->decl, "enum cohort_status ", 19))
			continue;
		if (!any)
			fputs(status_text, f);
		any = true;
		fprintf(f, ".TP\n\\fB%s\\fR\n", item->name);
		man_statuses(f, item->about ? item->about : item->trail);
	}
	for (size_t i = from; i < to; i++) {
		const struct doc_item *item = &h->items[i];
		const char *open;
		if (item->kind != DOC_FUNC || !strncmp(item->decl, "enum cohort_status ", 19))
			continue;
		open = strstr(item->decl, item->name);
		fprintf(f, ".TP\n\\fB%s\\fR\n", item->name);
		if (!strncmp(item->decl, "void cohort", 11)) {
			fputs("nothing.\n", f);
			continue;
		}
		for (const char *p = item->decl; p < open && !(p + 1 == open && *p == ' '); p++)
			put_char(f, s, *p);
		fputs("; see above.\n", f);
	}
}

/* Functions under the comment that they share. */
static void man_functions(FILE *f, const struct style *s, const struct doc_header *h, size_t from, size_t to)
{
	const char *paragraph = from == 0 ? ".PP\n" : ""; /* there is a text before it on the page of a header */

	for (size_t i = from; i < to; i++) {
		const struct doc_item *item = &h->items[i];
		size_t last = i;
		if (item->kind == DOC_NOTE)
			put_text(f, s, item->about, paragraph);
		if (item->kind == DOC_NOTE || item->kind == DOC_FUNC)
			paragraph = ".PP\n";
		if (item->kind != DOC_FUNC)
			continue;
		for (size_t k = i + 1; k < to && item->about && h->items[k].about == item->about; k++)
			if (h->items[k].kind == DOC_FUNC)
				last = k;
		fputs(".SS \"", f);
		for (size_t k = i; k <= last; k++)
			if (h->items[k].kind == DOC_FUNC)
				fprintf(f, "%s%s", k > i ? ", " : "", h->items[k].name);
		fputs("\"\n", f);
		if (item->about)
			put_text(f, s, item->about, "");
		for (size_t k = i; k <= last; k++)
			if (h->items[k].kind == DOC_FUNC && h->items[k].trail) {
				if (last > i)
					fprintf(f, ".TP\n\\fB%s\\fR\n", h->items[k].name);
				put_text(f, s, h->items[k].trail, last == i && item->about ? ".PP\n" : "");
			}
		i = last;
	}
}

static void man_see_also(FILE *f, const struct style *s, const struct doc_header *h, size_t but)
{
	fputs(".SH \"SEE ALSO\"\n", f);
	for (size_t i = 0; i < h->n_items; i++)
		if (h->items[i].kind == DOC_SECTION && i != but)
			fprintf(f, "\\fB%s\\fR(3),\n", first_function(h, i)->name);
	for (size_t i = 0; i < s->n_headers; i++)
		if (but != SIZE_MAX || &s->headers[i] != h)
			fprintf(f, "\\fB%s\\fR(3),\n", s->headers[i].title);
	fputs("\\fBcohort\\fR(1)\n", f);
}

static bool man_section(const struct style *s, const struct doc_header *h, size_t section, const char *dir,
		const char *version, char *error, size_t n_error)
{
	const size_t end = section_end(h, section);
	const struct doc_item *first = first_function(h, section);
	FILE *f = open_page(dir, first->name, ".3", error, n_error);
	const char *between = "";

	if (!f)
		return false;
	man_title(f, first->name, version);
	fputs(".SH \"NAME\"\n", f);
	for (size_t i = section; i < end; i++)
		if (h->items[i].kind == DOC_FUNC) {
			fprintf(f, "%s%s", between, h->items[i].name);
			between = ",\n";
		}
	fputs(" \\- cohort: ", f);
	for (const char *p = h->items[section].name; *p; p++)
		put_char(f, s, (char)(p == h->items[section].name ? tolower((unsigned char)*p) : *p));
	fputc('\n', f);
	man_include(f, h);
	for (size_t i = section; i < end; i++)
		if (h->items[i].kind == DOC_FUNC) {
			fputs(".sp\n", f);
			put_prototype(f, s, h->items[i].decl, 76);
		}
	fputs(".fi\n.SH \"DESCRIPTION\"\n", f);
	man_functions(f, s, h, section, end);
	man_types(f, s, h, section, end);
	man_returns(f, s, h, section, end);
	man_see_also(f, s, h, section);
	if (!close_page(f))
		return false;
	for (size_t i = section; i < end; i++) {
		if (h->items[i].kind != DOC_FUNC || &h->items[i] == first)
			continue;
		f = open_page(dir, h->items[i].name, ".3", error, n_error);
		if (!f)
			return false;
		fprintf(f, ".so man3/%s.3\n", first->name);
		if (!close_page(f))
			return false;
	}
	return true;
}

static bool man_overview(const struct style *s, const struct doc_header *h, const char *dir, const char *version,
		char *error, size_t n_error)
{
	FILE *f = open_page(dir, h->title, ".3", error, n_error);
	const char *rest = strchr(h->head, '\n');
	size_t n_before = 0;

	if (!f)
		return false;
	while (n_before < h->n_items && h->items[n_before].kind != DOC_SECTION)
		n_before++;
	man_title(f, h->title, version);
	fprintf(f, ".SH \"NAME\"\n%s \\- ", h->title);
	put_subject(f, s, h);
	man_include(f, h);
	fputs(".sp\ncc prog.c $(pkg\\-config \\-\\-cflags \\-\\-libs cohort)\n.fi\n.SH \"DESCRIPTION\"\n", f);
	while (rest && *rest == '\n')
		rest++;
	put_text(f, s, rest, "");
	man_functions(f, s, h, 0, n_before);
	man_types(f, s, h, 0, n_before);
	fputs(".SH \"FUNCTIONS\"\n", f);
	for (size_t i = 0; i < h->n_items; i++) {
		const char *between = "";
		if (h->items[i].kind != DOC_SECTION)
			continue;
		fprintf(f, ".SS \"%s\"\n", h->items[i].name);
		for (size_t k = i + 1; k < section_end(h, i); k++)
			if (h->items[k].kind == DOC_FUNC) {
				fprintf(f, "%s\\fB%s\\fR(3)", between, h->items[k].name);
				between = ",\n";
			}
		fputc('\n', f);
	}
	man_see_also(f, s, h, SIZE_MAX);
	return close_page(f);
}

bool doc_write_man(const struct doc_header *headers, size_t n, const char *dir, const char *version, char *error,
		size_t n_error)
{
	const struct style s = {.man = true, .headers = headers, .n_headers = n};

	for (size_t i = 0; i < n; i++) {
		const struct doc_header *h = &headers[i];
		if (!man_overview(&s, h, dir, version, error, n_error))
			return false;
		for (size_t k = 0; k < h->n_items; k++)
			if (h->items[k].kind == DOC_SECTION && !man_section(&s, h, k, dir, version, error, n_error))
				return false;
	}
	return true;
}

/* ---- Markdown ---- */

/* A type or a constant without a word about it. */
static bool is_bare(const struct doc_item *item)
{
	return (item->kind == DOC_DEFINE || item->kind == DOC_TYPE) && !item->about && !item->trail;
}

/* An item and those behind it under the same comment: how they are declared, then what is said of them. */
static size_t md_block(FILE *f, const struct style *s, const struct doc_header *h, size_t i)
{
	const struct doc_item *item = &h->items[i];
	size_t last = i;

	if (item->kind == DOC_NOTE) {
		put_text(f, s, item->about, "");
		fputc('\n', f);
		return i;
	}
	while (last + 1 < h->n_items &&
			(item->about ? h->items[last + 1].about == item->about
				     : is_bare(&h->items[last]) && is_bare(&h->items[last + 1])))
		last++;
	for (size_t k = i; k <= last; k++)
		if (*h->items[k].name)
			fprintf(f, "<a id=\"%s\"></a>", h->items[k].name);
	fputs("\n\n```c\n", f);
	for (size_t k = i; k <= last; k++) {
		if (h->items[k].kind == DOC_FUNC || h->items[k].kind == DOC_TYPE)
			put_prototype(f, s, h->items[k].decl, 100);
		else
			fprintf(f, "%s%s\n", h->items[k].kind == DOC_DEFINE ? "#define " : "", h->items[k].decl);
	}
	fputs("```\n\n", f);
	if (item->about)
		put_text(f, s, item->about, "");
	for (size_t k = i; k <= last; k++)
		if (h->items[k].trail) {
			fputs("\n", f);
			if (last > i)
				fprintf(f, "`%s`: ", h->items[k].name);
			put_text(f, s, h->items[k].trail, "");
		}
	fputc('\n', f);
	return last;
}

static bool md_page(const struct style *s, const struct doc_header *h, const char *dir, const char *version,
		char *error, size_t n_error)
{
	FILE *f = open_page(dir, h->title, ".md", error, n_error);

	if (!f)
		return false;
	fprintf(f, "# %s\n\nThe reference of `#include <%s>`, made from its comments; version %s.\n\n", h->name,
			h->name, version);
	put_text(f, s, h->head, "");
	fputc('\n', f);
	for (size_t i = 0; i < h->n_items; i++) {
		if (h->items[i].kind == DOC_SECTION)
			fprintf(f, "## %s\n\n", h->items[i].name);
		else
			i = md_block(f, s, h, i);
	}
	return close_page(f);
}

static bool md_index(const struct style *s, const char *dir, const char *version, char *error, size_t n_error)
{
	FILE *f = open_page(dir, "index", ".md", error, n_error);

	if (!f)
		return false;
	fprintf(f, "# Reference\n\nThe functions of cohort %s by header and section.\n", version);
	for (size_t i = 0; i < s->n_headers; i++) {
		const struct doc_header *h = &s->headers[i];
		fprintf(f, "\n## [%s](%s.md)\n\n", h->name, h->title);
		put_subject(f, s, h);
		for (size_t k = 0; k < h->n_items; k++) {
			if (h->items[k].kind == DOC_SECTION)
				fprintf(f, "\n**%s:**\n", h->items[k].name);
			if (h->items[k].kind == DOC_FUNC)
				fprintf(f, "[%s](%s.md#%s)\n", h->items[k].name, h->title, h->items[k].name);
		}
	}
	return close_page(f);
}

bool doc_write_markdown(const struct doc_header *headers, size_t n, const char *dir, const char *version, char *error,
		size_t n_error)
{
	const struct style s = {.man = false, .headers = headers, .n_headers = n};

	for (size_t i = 0; i < n; i++)
		if (!md_page(&s, &headers[i], dir, version, error, n_error))
			return false;
	return md_index(&s, dir, version, error, n_error);
}
