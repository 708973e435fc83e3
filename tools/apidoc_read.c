/* Reads a public header: no C parser, but one for the way these are written.
 *
 *  1. A comment of its own lines belongs to the declarations under it, up to the next comment or an empty line. One
 * that has none under it is a note to its section.
 *  2. A comment behind a declaration, on its last line, belongs to that alone.
 *  3. A section begins with a line of the form "---- Title ----" in a comment and goes to the next one.
 *  4. What ends, empties or clears a thing does not share the comment of the function above it. Without a word of its
 * own it does what the headers' conventions say.
 *  5. Every function stands in a section and has a comment of one of the two kinds, or the header is refused.
 */
#include "apidoc.h"

#include <ctype.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

struct reader {
	struct doc_header *h;
	const char *path;
	const char *at;
	int line;
	char *about; /* the comment that holds for what comes next */
	bool about_used; /* it has an item */
	int about_line;
	size_t section;
	char *error;
	size_t n_error;
	jmp_buf out;
};

/* All memory, a list of pieces. */
static union piece {
	union piece *next;
	max_align_t align;
} * pieces;

static void free_all(void)
{
	while (pieces) {
		union piece *next = pieces->next;
		free(pieces);
		pieces = next;
	}
}

void *doc_alloc(size_t n_bytes)
{
	union piece *p = calloc(1, sizeof *p + n_bytes);
	if (!p || (!pieces && atexit(free_all))) {
		fputs("apidoc: out of memory\n", stderr);
		exit(1);
	}
	p->next = pieces;
	pieces = p;
	return p + 1;
}

char *doc_copy(const char *text, size_t n)
{
	char *copy = doc_alloc(n + 1);
	memcpy(copy, text, n);
	return copy;
}

__attribute__((noreturn, format(printf, 3, 4))) static void fail(struct reader *r, int line, const char *format, ...)
{
	va_list args;
	const int n = snprintf(r->error, r->n_error, "%s:%d: ", r->path, line);
	va_start(args, format);
	if (n > 0 && (size_t)n < r->n_error)
		vsnprintf(r->error + n, r->n_error - (size_t)n, format, args);
	va_end(args);
	longjmp(r->out, 1);
}

static bool begins(const char *text, const char *with)
{
	return !strncmp(text, with, strlen(with));
}

static bool is_word(char c)
{
	return isalnum((unsigned char)c) || c == '_';
}

/* The end of the comment or the quoted text that begins at p; p itself where there is none; NULL: it has no end. */
static const char *skip_quoted(const char *p)
{
	if (begins(p, "/*")) {
		const char *end = strstr(p + 2, "*/");
		return end ? end + 2 : NULL;
	}
	if (*p != '"' && *p != '\'')
		return p;
	for (const char quote = *p++; *p && *p != '\n'; p++) {
		if (*p == '\\' && p[1])
			p++;
		else if (*p == quote)
			return p + 1;
	}
	return NULL;
}

/* The words of a comment: without its marks, the stars at the beginning of lines, and one space behind each. */
static char *comment_text(const char *from, const char *to)
{
	char *text = doc_alloc((size_t)(to - from) + 1), *w = text;
	const char *p = from + 2;

	to -= 2;
	if (p < to && *p == ' ')
		p++;
	while (p < to) {
		const char *end = memchr(p, '\n', (size_t)(to - p));
		end = end ? end : to;
		while (end > p && isspace((unsigned char)end[-1]))
			end--;
		memcpy(w, p, (size_t)(end - p));
		w += end - p;
		p = memchr(end, '\n', (size_t)(to - end));
		if (!p)
			break;
		*w++ = '\n';
		for (p++; p < to && (*p == ' ' || *p == '\t'); p++)
			;
		if (p < to && *p == '*')
			p += p + 1 < to && p[1] == ' ' ? 2 : 1;
	}
	while (w > text && isspace((unsigned char)w[-1]))
		*--w = 0;
	return text;
}

static struct doc_item *add(struct reader *r, enum doc_kind kind, const char *name, const char *decl, int line)
{
	struct doc_header *h = r->h;
	struct doc_item *item;

	if (h->n_items == h->n_max) {
		struct doc_item *more = doc_alloc((h->n_max = h->n_max ? 2 * h->n_max : 64) * sizeof *more);
		if (h->n_items > 0)
			memcpy(more, h->items, h->n_items * sizeof *more);
		h->items = more;
	}
	item = &h->items[h->n_items++];
	*item = (struct doc_item){.kind = kind, .line = line, .name = name, .decl = decl, .section = r->section};
	if (kind != DOC_SECTION && kind != DOC_NOTE) {
		item->about = r->about;
		r->about_used = true;
	}
	return item;
}

/* The comment before holds no longer. */
static void drop_about(struct reader *r)
{
	if (r->about && !r->about_used)
		add(r, DOC_NOTE, "", "", r->about_line)->about = r->about;
	r->about = NULL;
	r->about_used = false;
}

/* "---- Title ----", with any number of dashes: the title, or NULL. */
static char *section_title(const char *text)
{
	size_t n = strlen(text);

	if (!begins(text, "---- "))
		return NULL;
	for (text += 5, n -= 5; n > 0 && text[n - 1] == '-'; n--)
		;
	while (n > 0 && text[n - 1] == ' ')
		n--;
	return n > 0 && !memchr(text, '\n', n) ? doc_copy(text, n) : NULL;
}

static void count_lines(struct reader *r, const char *to)
{
	for (; r->at < to; r->at++)
		r->line += *r->at == '\n';
}

static void read_comment(struct reader *r, struct doc_item *behind)
{
	const char *end = skip_quoted(r->at);
	const int line = r->line;
	char *text, *title;

	if (!end)
		fail(r, line, "a comment without an end");
	text = comment_text(r->at, end);
	count_lines(r, end);
	title = section_title(text);
	if (behind) {
		behind->trail = text;
		return;
	}
	if (!r->h->head) {
		r->h->head = text;
		return;
	}
	drop_about(r);
	if (title) {
		r->section = r->h->n_items;
		add(r, DOC_SECTION, title, "", line);
	} else {
		r->about = text;
		r->about_line = line;
	}
}

/* A line of the preprocessor; what is for C++ only is not looked at. Returns the item of a constant. */
static struct doc_item *read_directive(struct reader *r)
{
	const char *p = r->at + 1, *end = r->at;
	const int line = r->line;

	while (*end && *end != '\n') {
		if (begins(end, "/*"))
			break;
		end += *end == '\\' && end[1] == '\n' ? 2 : 1;
	}
	while (*p == ' ' || *p == '\t')
		p++;
	if (begins(p, "ifdef __cplusplus")) {
		const char *close = strstr(p, "#endif");
		if (!close)
			fail(r, line, "#ifdef without #endif");
		count_lines(r, close + 6);
		return NULL;
	}
	if (begins(p, "define ")) {
		const char *name = p += 7, *value;
		char *decl;
		while (is_word(*p))
			p++;
		for (value = p; *value == ' ' || *value == '\t'; value++)
			;
		count_lines(r, end);
		while (end > r->at - 1 && end > value && isspace((unsigned char)end[-1]))
			end--;
		if (value >= end || (p - name == 10 && begins(name, "COHORT_API")))
			return NULL; /* the guard, and the mark of what is exported */
		if (*p == '(')
			fail(r, line, "a macro with parameters");
		decl = doc_copy(name, (size_t)(end - name));
		return add(r, DOC_DEFINE, doc_copy(name, (size_t)(p - name)), decl, line);
	}
	if (!begins(p, "if") && !begins(p, "else") && !begins(p, "endif") && !begins(p, "include"))
		fail(r, line, "a directive that is not known");
	count_lines(r, end);
	return NULL;
}

/* text[0 .. n) without comments and with single spaces. */
static char *one_line(const char *text, size_t n)
{
	char *line = doc_alloc(n + 1), *w = line;

	for (const char *p = text; p < text + n;) {
		const char *end = skip_quoted(p);
		if (isspace((unsigned char)*p) || (begins(p, "/*") && end)) {
			if (w > line && w[-1] != ' ')
				*w++ = ' ';
			p = begins(p, "/*") ? end : p + 1;
		} else {
			*w++ = *p++;
		}
	}
	while (w > line && w[-1] == ' ')
		*--w = 0;
	return line;
}

static bool has_suffix(const char *name, const char *suffix)
{
	const size_t n = strlen(name), n_suffix = strlen(suffix);
	return n >= n_suffix && !strcmp(name + n - n_suffix, suffix);
}

/* Rule 4: what functions of such a name do, or NULL. */
static const char *usual(const char *name)
{
	static const char *const names[][2] = {
			{"_free", "Ends it. Accepts NULL."},
			{"_release", "Gives back what it holds. Accepts NULL and what is half built."},
			{"_reset", "Empties it and keeps its memory."},
			{"_clear", "Empties it."},
	};
	for (size_t i = 0; i < sizeof names / sizeof *names; i++)
		if (has_suffix(name, names[i][0]))
			return names[i][1];
	return NULL;
}

/* The word before the first '('. */
static char *function_name(const char *decl)
{
	const char *open = strchr(decl, '('), *p = open;

	while (p && p > decl && is_word(p[-1]))
		p--;
	return p ? doc_copy(p, (size_t)(open - p)) : doc_copy("", 0);
}

static char *tag_of(const char *decl)
{
	const char *p = strchr(decl, ' '), *end;

	while (p && *p == ' ')
		p++;
	for (end = p; end && is_word(*end); end++)
		;
	return p ? doc_copy(p, (size_t)(end - p)) : doc_copy("", 0);
}

static struct doc_item *read_declaration(struct reader *r)
{
	const char *from = r->at, *p = from, *body = NULL;
	const int line = r->line;
	const bool is_inline = begins(from, "static inline ");
	char *flat, *raw;
	int depth = 0;

	for (;; p++) {
		const char *end = skip_quoted(p);
		if (!*p || !end)
			fail(r, line, "a declaration without an end");
		if (end != p) {
			p = end - 1;
			continue;
		}
		if (*p == '{' && depth == 0 && !body)
			body = p;
		depth += *p == '(' || *p == '{' || *p == '[';
		depth -= *p == ')' || *p == '}' || *p == ']';
		if (depth < 0)
			fail(r, line, "brackets that do not match");
		if (depth == 0 && *p == (is_inline ? '}' : ';'))
			break;
	}
	p++;
	raw = doc_copy(from, (size_t)(p - from));
	flat = one_line(from, (size_t)((is_inline ? body : p) - from));
	count_lines(r, p);
	if (is_inline || begins(flat, "COHORT_API ")) {
		char *decl = flat + strlen(is_inline ? "static inline " : "COHORT_API "), *name = function_name(decl);
		if (!begins(name, "cohort_"))
			fail(r, line, "a function whose name does not begin with cohort_");
		for (size_t i = 0; i < r->h->n_items; i++)
			if (r->h->items[i].kind == DOC_FUNC && !strcmp(r->h->items[i].name, name))
				fail(r, line, "%s is declared twice", name);
		if (is_inline) {
			const size_t n = strlen(decl) + 2;
			char *closed = doc_alloc(n);
			snprintf(closed, n, "%s;", decl);
			decl = closed;
		}
		const bool shared = r->about_used;
		struct doc_item *item = add(r, DOC_FUNC, name, decl, line);
		if (shared || !item->about)
			item->usual = usual(name);
		if (item->usual)
			item->about = NULL;
		return item;
	}
	if (begins(flat, "typedef "))
		return add(r, DOC_TYPE, "", flat, line);
	if (begins(flat, "enum ") && body)
		return add(r, DOC_ENUM, tag_of(flat), raw, line);
	if (begins(flat, "struct ") && body)
		return add(r, DOC_STRUCT, tag_of(flat), raw, line);
	if (begins(flat, "struct ") && strlen(tag_of(flat)) + strlen("struct ;") == strlen(flat))
		return add(r, DOC_OPAQUE, tag_of(flat), raw, line);
	fail(r, line, "not understood: %.60s", flat);
}

/* Rule 5. */
static void check(struct reader *r)
{
	const struct doc_header *h = r->h;

	if (!h->head)
		fail(r, 1, "no comment at the top");
	for (size_t i = 0; i < h->n_items; i++) {
		struct doc_item *item = &h->items[i];
		bool any = false;
		if (item->usual && !item->trail)
			item->about = doc_copy(item->usual, strlen(item->usual));
		if (item->kind == DOC_FUNC && !item->about && !item->trail)
			fail(r, item->line, "%s has no comment", item->name);
		if (item->kind == DOC_FUNC && item->section == SIZE_MAX)
			fail(r, item->line, "%s stands in no section", item->name);
		if (item->kind != DOC_SECTION)
			continue;
		for (size_t j = i + 1; j < h->n_items && h->items[j].kind != DOC_SECTION; j++)
			any |= h->items[j].kind == DOC_FUNC;
		if (!any)
			fail(r, item->line, "section %s has no function", item->name);
	}
}

bool doc_read(struct doc_header *h, const char *path, const char *text, char *error, size_t n_error)
{
	const char *slash = strrchr(path, '/'), *base = slash ? slash + 1 : path, *dot = strrchr(base, '.');
	struct reader r = {.h = h,
			.path = path,
			.at = text,
			.line = 1,
			.section = SIZE_MAX,
			.error = error,
			.n_error = n_error};
	struct doc_item *volatile behind = NULL; /* what a comment on this line belongs to */

	*h = (struct doc_header){.name = doc_copy(base, strlen(base))};
	h->title = doc_copy(base, dot ? (size_t)(dot - base) : strlen(base));
	if (setjmp(r.out))
		return false;
	for (;;) {
		int n_newlines = 0;
		for (; isspace((unsigned char)*r.at); r.at++) {
			n_newlines += *r.at == '\n';
			r.line += *r.at == '\n';
		}
		if (n_newlines > 0)
			behind = NULL;
		if (n_newlines > 1)
			drop_about(&r);
		if (!*r.at)
			break;
		if (begins(r.at, "/*")) {
			read_comment(&r, behind);
			behind = NULL;
		} else if (*r.at == '#') {
			behind = read_directive(&r);
		} else {
			behind = read_declaration(&r);
		}
	}
	drop_about(&r);
	check(&r);
	return true;
}

/* Both texts, one under the other; a may be NULL. */
static char *joined(const char *a, const char *b)
{
	const size_t n = (a ? strlen(a) + 1 : 0) + strlen(b) + 1;
	char *both = doc_alloc(n);
	snprintf(both, n, "%s%s%s", a ? a : "", a ? "\n" : "", b);
	return both;
}

size_t doc_members(const struct doc_item *item, struct doc_member **out)
{
	const char end_mark = item->kind == DOC_ENUM ? ',' : ';';
	const char *p = strchr(item->decl, '{') + 1, *close = strrchr(item->decl, '}'), *from = p;
	struct doc_member *members = doc_alloc(strlen(item->decl) * sizeof *members);
	char *before = NULL; /* a comment above the member that comes next */
	bool same_line = false;
	size_t n = 0;
	int depth = 0;

	while (p < close) {
		const char *end = skip_quoted(p);
		if (depth == 0 && begins(p, "/*")) {
			char *text = comment_text(p, end), *flat = one_line(from, (size_t)(p - from));
			if (*flat) { /* the last of an enum has no comma */
				members[n++] = (struct doc_member){.decl = flat, .about = joined(before, text)};
				before = NULL;
				from = end;
			} else if (same_line && n > 0) {
				members[n - 1].about = joined(members[n - 1].about, text);
				from = end;
			} else {
				before = joined(before, text);
				from = end;
			}
			p = end;
			continue;
		}
		if (end != p) {
			p = end;
			continue;
		}
		depth += *p == '(' || *p == '{' || *p == '[';
		depth -= *p == ')' || *p == '}' || *p == ']';
		if (*p == '\n')
			same_line = false;
		if (depth == 0 && *p == end_mark) {
			char *flat = one_line(from, (size_t)(p - from));
			if (*flat)
				members[n++] = (struct doc_member){.decl = flat, .about = before};
			before = NULL;
			from = p + 1;
			same_line = true;
		}
		p++;
	}
	if (close > from) {
		char *flat = one_line(from, (size_t)(close - from));
		if (*flat)
			members[n++] = (struct doc_member){.decl = flat, .about = before};
	}
	*out = members;
	return n;
}
