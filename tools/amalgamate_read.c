/* Files of the project as tokens, and as pieces of the amalgamation (amalgamate.c). */
#include "amalgamate.h"

#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>

void fail(const char *path, int line, const char *fmt, ...)
{
	va_list ap;

	fprintf(stderr, "%s:%d: ", path, line);
	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fputc('\n', stderr);
	exit(1);
}

void *grow(void *old, size_t n, size_t size)
{
	if (n & (n - 1)) /* room up to the next power of two is there */
		return old;
	void *new = realloc(old, (n ? 2 * n : 1) * size);
	if (!new)
		fail("amalgamate", 0, "out of memory");
	return new;
}

const char *text_copy(const char *s, size_t len)
{
	char *t = malloc(len + 1);
	if (!t)
		fail("amalgamate", 0, "out of memory");
	memcpy(t, s, len);
	t[len] = 0;
	return t;
}

const char *file_text(const char *path)
{
	FILE *f = fopen(path, "rb");
	size_t n = 0, room = 1 << 16;
	char *s = malloc(room);

	if (!f)
		fail(path, 0, "cannot be read: %s", strerror(errno));
	while (s) {
		n += fread(s + n, 1, room - n - 1, f);
		if (n < room - 1)
			break;
		s = realloc(s, room *= 2);
	}
	if (!s || ferror(f))
		fail(path, 0, "cannot be read");
	fclose(f);
	s[n] = 0;
	return s;
}

bool tok_is(const struct tok *t, const char *s)
{
	return strlen(s) == t->len && !memcmp(t->s, s, t->len);
}

bool same_room(const char *a, const char *b)
{
	const char *end_a = strrchr(a, '/'), *end_b = strrchr(b, '/');
	return end_a && end_b && end_a - a == end_b - b && !memcmp(a, b, (size_t)(end_a - a));
}

/* ---- Tokens ---------------------------------------------------------------------------------------------------- */

static bool word(char c)
{
	return isalnum((unsigned char)c) || c == '_';
}

static size_t space_len(const char *s, const char *path, int line)
{
	if (s[0] == '\\' && s[1] == '\n')
		return 2;
	if (s[0] == '/' && s[1] == '*') {
		const char *end = strstr(s + 2, "*/");
		if (!end)
			fail(path, line, "a comment without an end");
		return (size_t)(end + 2 - s);
	}
	if (s[0] == '/' && s[1] == '/')
		return strcspn(s, "\n");
	return isspace((unsigned char)s[0]) ? 1 : 0;
}

static size_t quoted_len(const char *s, const char *path, int line)
{
	size_t n = 1;
	while (s[n] != s[0]) {
		if (!s[n] || s[n] == '\n')
			fail(path, line, "a text without an end");
		n += s[n] == '\\' ? 2 : 1;
	}
	return n + 1;
}

static size_t punct_len(const char *s)
{
	static const char *const longs[] = {
			"...", "->", "##", "++", "--", "<<", ">>", "<=", ">=", "==", "!=", "&&", "||"};
	for (size_t i = 0; i < sizeof longs / sizeof *longs; i++)
		if (!strncmp(s, longs[i], strlen(longs[i])))
			return strlen(longs[i]);
	return 1;
}

static struct tok *tokenise(const char *path, size_t *n)
{
	struct tok *toks = NULL;
	bool pp = false, fresh = true; /* in a directive; nothing but space so far in this line */
	int line = 1;

	*n = 0;
	for (const char *s = file_text(path); *s;) {
		struct tok t = {.s = s, .path = path, .line = line};
		t.len = space_len(s, path, line);
		if (t.len) {
			t.kind = T_SPACE;
			if (*s == '\n')
				pp = false, fresh = true;
		} else if (isalpha((unsigned char)*s) || *s == '_') {
			t.kind = T_ID;
			while (word(s[t.len]))
				t.len++;
		} else if (isdigit((unsigned char)*s) || (*s == '.' && isdigit((unsigned char)s[1]))) {
			t.kind = T_NUMBER;
			while (word(s[t.len]) || s[t.len] == '.' ||
					((s[t.len] == '+' || s[t.len] == '-') && strchr("eEpP", s[t.len - 1])))
				t.len++;
		} else if (*s == '"' || *s == '\'') {
			t.kind = T_TEXT;
			t.len = quoted_len(s, path, line);
		} else {
			t.kind = T_PUNCT;
			t.len = punct_len(s);
			pp = pp || (*s == '#' && fresh);
		}
		fresh = fresh && t.kind == T_SPACE;
		t.pp = pp;
		for (size_t i = 0; i < t.len; i++)
			line += s[i] == '\n';
		s += t.len;
		toks = grow(toks, *n, sizeof *toks);
		toks[(*n)++] = t;
	}
	return toks;
}

/* The directive at token i (its #): its name, and the index of what comes behind its line. */
static const struct tok *directive(struct tok *toks, size_t n, size_t i, size_t *end)
{
	const struct tok *name = NULL;
	for (i++; i < n && toks[i].pp; i++)
		if (!name && toks[i].kind == T_ID)
			name = &toks[i];
	*end = i;
	return name;
}

/* ---- Pieces ---------------------------------------------------------------------------------------------------- */

static struct piece *pieces[PIECES_MAX];
static size_t n_pieces;
static const char *systems[256]; /* such as <stdio.h> */
static size_t n_systems;

static void system_add(const char *s, size_t len)
{
	for (size_t i = 0; i < n_systems; i++)
		if (strlen(systems[i]) == len && !memcmp(systems[i], s, len))
			return;
	if (n_systems < sizeof systems / sizeof *systems)
		systems[n_systems++] = text_copy(s, len);
}

void systems_write(void)
{
	for (size_t i = 0; i < n_systems; i++)
		printf("#include %s\n", systems[i]);
}

static void dep_add(struct piece *p, struct piece *on)
{
	for (size_t i = 0; i < p->n_deps; i++)
		if (p->deps[i] == on)
			return;
	p->deps = grow(p->deps, p->n_deps, sizeof *p->deps);
	p->deps[p->n_deps++] = on;
}

bool depends(const struct piece *p, const struct piece *on)
{
	for (size_t i = 0; i < p->n_deps; i++)
		if (p->deps[i] == on)
			return true;
	return false;
}

static const char *found(const struct tok *t)
{
	static const char *const dirs[] = {"include", "src"};
	char path[512];
	for (size_t i = 0; i < 2; i++) {
		snprintf(path, sizeof path, "%s/%.*s", dirs[i], (int)t->len - 2, t->s + 1);
		FILE *f = fopen(path, "r");
		if (f) {
			fclose(f);
			return text_copy(path, strlen(path));
		}
	}
	fail(t->path, t->line, "%.*s is neither in include nor in src", (int)t->len, t->s);
}

/* Whether the first two directives are #ifndef X and #define X; then drops them and the last one. */
static bool guarded(struct tok *toks, size_t n, bool drop)
{
	size_t first[2], ends[2], last = n, last_end = n, n_seen = 0;
	const struct tok *guard[2] = {NULL};

	for (size_t i = 0; i < n; i++) {
		if (!toks[i].pp || !tok_is(&toks[i], "#") || (i && toks[i - 1].pp))
			continue;
		size_t end;
		const struct tok *name = directive(toks, n, i, &end);
		if (n_seen < 2 && name) {
			if (!tok_is(name, n_seen ? "define" : "ifndef"))
				return false;
			first[n_seen] = i;
			ends[n_seen] = end;
			for (size_t k = i; k < end; k++)
				if (toks[k].kind == T_ID && &toks[k] != name && !guard[n_seen])
					guard[n_seen] = &toks[k];
			n_seen++;
		}
		last = i;
		last_end = end;
		i = end - 1;
	}
	if (n_seen < 2 || !guard[0] || !guard[1] || guard[0]->len != guard[1]->len ||
			memcmp(guard[0]->s, guard[1]->s, guard[0]->len))
		return false;
	for (size_t k = 0; drop && k < n; k++)
		if ((k >= first[0] && k < ends[0]) || (k >= first[1] && k < ends[1]) || (k >= last && k < last_end))
			toks[k].drop = toks[k].pp_name = true;
	return true;
}

/* An #include of piece p: taken out of the text unless it is a system header within a condition, behind a macro that
 * may be meant for it, or of one kind of machine. Gives the path of a header whose text comes in its place, or NULL. */
static const char *include(struct piece *p, struct tok *toks, size_t i, size_t end, bool within)
{
	const struct tok *what = NULL, *close = NULL;
	const char *path = NULL;

	for (size_t k = i; k < end; k++) {
		toks[k].pp_name = true;
		if (!what && (toks[k].kind == T_TEXT || tok_is(&toks[k], "<")))
			what = &toks[k];
		if (tok_is(&toks[k], ">"))
			close = &toks[k];
	}
	if (!what || (what->kind != T_TEXT && !close))
		fail(toks[i].path, toks[i].line, "an include of neither a file nor a system header");
	if (what->kind != T_TEXT) {
		if (within || strstr(p->path, "src/kern/x86/") || strstr(p->path, "src/kern/arm/"))
			return NULL;
		system_add(what->s, (size_t)(close->s + 1 - what->s));
	} else {
		size_t n;
		path = found(what);
		struct tok *its = tokenise(path, &n);
		if (guarded(its, n, false)) {
			struct piece *on = piece_load(path);
			for (size_t k = 0; k < on->n_deps; k++)
				dep_add(p, on->deps[k]);
			dep_add(p, on);
			p->pastes = p->pastes || on->pastes;
			path = NULL;
		}
	}
	for (size_t k = i; k < end; k++)
		toks[k].drop = true;
	return path;
}

static void append(struct piece *p, const char *path, int depth)
{
	size_t n, end;
	struct tok *toks = tokenise(path, &n);
	int level = 0; /* of conditions */
	bool defines = false;

	if (depth > 16)
		fail(path, 1, "includes itself");
	if (depth == 0 && !p->source)
		guarded(toks, n, true);
	for (size_t i = 0; i < n; i = end) {
		const char *in_place = NULL;
		end = i + 1;
		if (toks[i].pp && tok_is(&toks[i], "#") && !toks[i].drop) {
			const struct tok *name = directive(toks, n, i, &end);
			const bool whole = name && (tok_is(name, "pragma") || tok_is(name, "error"));
			for (size_t k = i; k < end; k++)
				if (whole || &toks[k] == name || tok_is(&toks[k], "defined"))
					toks[k].pp_name = true;
			level += name && !strncmp(name->s, "if", 2);
			level -= name && tok_is(name, "endif");
			defines = defines || (name && tok_is(name, "define"));
			if (name && tok_is(name, "include"))
				in_place = include(p, toks, i, end, level > 0 || (p->source && defines));
		}
		for (size_t k = i; k < end; k++) {
			p->pastes = p->pastes || tok_is(&toks[k], "##");
			p->toks = grow(p->toks, p->n_toks, sizeof *p->toks);
			p->toks[p->n_toks++] = toks[k];
		}
		if (in_place)
			append(p, in_place, depth + 1);
	}
}

struct piece *piece_load(const char *path)
{
	for (size_t i = 0; i < n_pieces; i++)
		if (!strcmp(pieces[i]->path, path))
			return pieces[i];
	struct piece *p = calloc(1, sizeof *p);
	if (!p || n_pieces == PIECES_MAX)
		fail(path, 0, "too many files, or out of memory");
	pieces[n_pieces++] = p;
	const char *base = strrchr(path, '/'), *dot = strrchr(path, '.');
	base = base ? base + 1 : path;
	p->path = text_copy(path, strlen(path));
	p->stem = text_copy(base, dot && dot > base ? (size_t)(dot - base) : strlen(base));
	p->source = dot && !strcmp(dot, ".c");
	append(p, p->path, 0);
	return p;
}
