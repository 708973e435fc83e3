/* The library as one source file. usage: amalgamate TITLE HEAD HEADER... -- SOURCE... (paths as seen from the project)
 * prints cohort.c: TITLE (a comment), HEAD, then each SOURCE behind the internal headers that it includes; the public
 * HEADERs are one file of their own, by whoever calls this (amalgamate.sh).
 *
 * A piece is a header with an include guard, or a source with the headers without a guard that it includes. What C
 * calls a translation unit is gone, so that names of different pieces can meet. They are read as a compiler would read
 * them, as far as this needs it: declarations outside of functions, with macros expanded.
 *
 * Invariants
 *  1. A header with a guard is there once, before its first user, and outside of everything that a source defines.
 *  2. A name, tag or macro of one piece that another one has as well is renamed to PIECE_NAME in the piece, and in
 *     those that see it. Names made by pasting tokens, which no text has, are renamed by a #define around the source.
 *  3. Macros of a source end with it.
 *  4. What internal headers declare is static; only what the public ones declare is external.
 *  5. Pieces of src/kern/x86 and src/kern/arm stand within the condition for their machines.
 *
 * What it cannot do ends it, with file and line. */
#include "amalgamate.h"

#include <stdlib.h>

static struct piece *order[PIECES_MAX]; /* as they are written */
static size_t n_order;

/* ---- Which names meet ------------------------------------------------------------------------------------------ */

struct owner {
	const struct piece *piece;
	struct name *name;
};

/* A word, who declares it, and who has it in its text. */
struct word {
	const char *s;
	size_t len;
	bool in[PIECES_MAX]; /* by order */
	struct owner *owners;
	size_t n_owners;
	struct word *next;
};
static struct word *words[1 << 14];

static struct word *word_of(const char *s, size_t len, bool add)
{
	size_t h = 5381;
	for (size_t i = 0; i < len; i++)
		h = h * 33 ^ (unsigned char)s[i];
	struct word **at = &words[h % (sizeof words / sizeof *words)], *w = *at;
	while (w && (w->len != len || memcmp(w->s, s, len)))
		w = w->next;
	if (!w && add) {
		w = calloc(1, sizeof *w);
		if (!w)
			fail("amalgamate", 0, "out of memory");
		w->s = s;
		w->len = len;
		w->next = *at;
		*at = w;
	}
	return w;
}

static void words_read(void)
{
	for (size_t i = 0; i < n_order; i++) {
		const struct piece *p = order[i];
		for (size_t k = 0; k < p->n_toks; k++)
			if (p->toks[k].kind == T_ID)
				word_of(p->toks[k].s, p->toks[k].len, true)->in[i] = true;
		for (size_t k = 0; k < p->n_names; k++) {
			struct word *w = word_of(p->names[k].s, strlen(p->names[k].s), true);
			w->owners = grow(w->owners, w->n_owners, sizeof *w->owners);
			w->owners[w->n_owners++] = (struct owner){p, &p->names[k]};
		}
	}
}

static struct name *owned(const struct piece *p, bool tag, const char *s, size_t len)
{
	const struct word *w = word_of(s, len, false);
	for (size_t i = 0; w && i < w->n_owners; i++)
		if (w->owners[i].piece == p && w->owners[i].name->tag == tag)
			return w->owners[i].name;
	return NULL;
}

/* A name as a piece sees it: its own, or of a header that it includes. */
static struct name *seen(const struct piece *p, bool tag, const char *s, size_t len)
{
	const struct word *w = word_of(s, len, false);
	struct name *n = w && w->n_owners ? owned(p, tag, s, len) : NULL;
	for (size_t i = 0; w && w->n_owners && i < p->n_deps && !n; i++)
		n = owned(p->deps[i], tag, s, len);
	return n;
}

/* Whether the piece says .NAME or ->NAME: a macro of that name would change it. */
static const struct tok *as_member(const struct piece *p, const char *s)
{
	const struct tok *before = NULL;
	for (size_t i = 0; i < p->n_toks; i++) {
		const struct tok *t = &p->toks[i];
		if (t->kind == T_SPACE)
			continue;
		if (t->kind == T_ID && tok_is(t, s) && before && (tok_is(before, ".") || tok_is(before, "->")))
			return t;
		before = t;
	}
	return NULL;
}

static void rename_one(struct piece *p, struct name *n)
{
	char s[256];
	int len = snprintf(s, sizeof s, "%s_%s", p->stem, n->s);

	while (len > 0 && (size_t)len + 2 < sizeof s && word_of(s, strlen(s), false))
		s[len++] = '_', s[len] = 0;
	n->to = text_copy(s, strlen(s));
	word_of(n->to, strlen(n->to), true);
	const struct tok *member = as_member(p, n->s);
	if (n->made && member)
		fail(member->path, member->line,
				"%s is a member here, and a name made by a macro elsewhere in the file", n->s);
	if (n->made && !p->source)
		fail(p->path, 1, "a macro of this header makes the name %s, which another file has as well", n->s);
	/* Where tokens are pasted, any name may be made so when it is used. */
	n->define = n->made || (p->source && p->pastes && !member && !n->macro);
}

/* Whether name n of piece i meets another's so that it has to change. One that is a header keeps it, if there is one:
 * it has the most users. */
static bool must_change(size_t i, const struct name *n)
{
	const struct piece *p = order[i];

	for (size_t j = 0; j < n_order; j++) {
		if (j == i)
			continue;
		const struct piece *q = order[j];
		const struct name *o = owned(q, n->tag, n->s, strlen(n->s));
		/* A macro of a header changes whatever is spelt like it; one of a source ends with it. */
		if (n->macro && !p->source && !o && !depends(q, p) && !depends(p, q) &&
				word_of(n->s, strlen(n->s), true)->in[j])
			return true;
		if (n->macro && p->source && !(o && o->macro && !q->source))
			continue;
		if (o && (p->source || (j < i && !q->source)))
			return true;
	}
	return false;
}

static void rename_all(void)
{
	for (size_t i = 0; i < n_order; i++)
		for (size_t k = 0; k < order[i]->n_names; k++)
			if (must_change(i, &order[i]->names[k]))
				rename_one(order[i], &order[i]->names[k]);
}

/* ---- Writing --------------------------------------------------------------------------------------------------- */

/* The name that stands for one in the text of a piece, or NULL for the one that is there. */
static const char *name_in(const struct piece *p, const struct tok *t, bool tag)
{
	const struct name *n = seen(p, tag, t->s, t->len);

	if (!n && tag) { /* mentioned only: if several define it, it is the one of the same room */
		const struct name *room = NULL;
		size_t n_others = 0;
		for (size_t i = 0; i < n_order; i++) {
			const struct name *o = owned(order[i], true, t->s, t->len);
			if (o && same_room(p->path, order[i]->path))
				room = o;
			n_others += o != NULL;
		}
		if (!room && n_others > 1)
			fail(t->path, t->line, "%.*s is defined by several files, none of which is seen here",
					(int)t->len, t->s);
		n = room;
	}
	return n && !n->define ? n->to : NULL;
}

/* Where a token stands: what decides whether it is a name that may change. */
struct place {
	const struct tok *before; /* the token before it that is no space */
	int depth; /* of braces */
	int body[64]; /* depths at which the body of a struct or union begins */
	int n_bodies;
	int inner; /* parentheses and brackets within the innermost body */
	bool tagged; /* struct or union was seen: a brace is its body */
};

static void place_step(struct place *at, const struct tok *t)
{
	if (tok_is(t, "struct") || tok_is(t, "union")) {
		at->tagged = true;
	} else if (tok_is(t, "{")) {
		at->depth++;
		if (at->tagged && at->n_bodies < 64) {
			at->body[at->n_bodies++] = at->depth;
			at->inner = 0;
		}
		at->tagged = false;
	} else if (tok_is(t, "}")) {
		if (at->n_bodies && at->body[at->n_bodies - 1] == at->depth)
			at->n_bodies--;
		at->depth--;
	} else if (t->kind != T_ID || !at->before || !(tok_is(at->before, "struct") || tok_is(at->before, "union"))) {
		at->tagged = at->tagged && t->kind == T_ID;
	}
	if (tok_is(t, "(") || tok_is(t, "["))
		at->inner++;
	if (tok_is(t, ")") || tok_is(t, "]"))
		at->inner--;
	at->before = t;
}

/* Whether token i, an identifier, is or declares a member of a struct. */
static bool is_member(const struct piece *p, size_t i, const struct place *at)
{
	if (at->before && (tok_is(at->before, ".") || tok_is(at->before, "->")))
		return true;
	if (!at->n_bodies || at->body[at->n_bodies - 1] != at->depth)
		return false;
	size_t next = i + 1;
	while (next < p->n_toks && p->toks[next].kind == T_SPACE)
		next++;
	const struct tok *t = next < p->n_toks ? &p->toks[next] : NULL;
	if (!t || tok_is(at->before, ":"))
		return false;
	if (at->inner == 1 && tok_is(at->before, "*"))
		return tok_is(t, ")");
	return at->inner == 0 && (tok_is(t, ";") || tok_is(t, ",") || tok_is(t, "[") || tok_is(t, ":"));
}

static void write_tokens(const struct piece *p)
{
	struct place at = {0};

	for (size_t i = 0; i < p->n_toks; i++) {
		const struct tok *t = &p->toks[i];
		const char *to = NULL;
		if (t->insert)
			fputs(t->insert, stdout);
		if (t->kind == T_ID && !t->pp_name) {
			const bool tag = at.before &&
					(tok_is(at.before, "struct") || tok_is(at.before, "union") ||
							tok_is(at.before, "enum"));
			if (tag || !is_member(p, i, &at))
				to = name_in(p, t, tag);
		}
		if (to)
			fputs(to, stdout);
		else if (!t->drop)
			fwrite(t->s, 1, t->len, stdout);
		if (t->kind != T_SPACE && !t->pp)
			place_step(&at, t);
		else if (t->kind != T_SPACE)
			at.before = t;
	}
}

static const char *machine_of(const struct piece *p)
{
	if (strstr(p->path, "src/kern/x86/"))
		return "#if defined(__x86_64__) && !defined(KERN_REF_ONLY)\n";
	if (strstr(p->path, "src/kern/arm/"))
		return "#if defined(KERN_NEON)\n";
	return NULL;
}

static void write_piece(const struct piece *p)
{
	const char *machine = machine_of(p);

	printf("\n/* ---- %s ---- */\n\n", p->path);
	if (machine)
		fputs(machine, stdout);
	for (size_t i = 0; i < p->n_names; i++)
		if (p->names[i].define)
			printf("#define %s %s\n", p->names[i].s, p->names[i].to);
	write_tokens(p);
	for (size_t i = 0; i < p->n_names; i++) {
		const struct name *n = &p->names[i];
		if (n->define || (n->macro && p->source))
			printf("#undef %s\n", n->to && !n->define ? n->to : n->s);
	}
	if (machine)
		puts("#endif");
}

static void put_in_order(struct piece *p)
{
	if (p->placed || p->public_header)
		return;
	p->placed = true;
	for (size_t i = 0; i < p->n_deps; i++)
		put_in_order(p->deps[i]);
	if (n_order == PIECES_MAX)
		fail(p->path, 1, "more than %d files", PIECES_MAX);
	order[n_order++] = p;
}

static void copy_file(const char *path)
{
	const char *text = file_text(path);
	fputs(text, stdout);
}

int main(int argc, char **argv)
{
	struct piece *public;
	int i = 3;

	if (argc < 5) {
		fputs("usage: amalgamate TITLE HEAD HEADER... -- SOURCE... >cohort.c\n", stderr);
		return 2;
	}
	for (; i < argc && strcmp(argv[i], "--"); i++)
		(public = piece_load(argv[i]))->public_header = true, piece_read(public);
	for (i++; i < argc; i++)
		put_in_order(piece_load(argv[i]));
	for (size_t k = 0; k < n_order; k++)
		piece_read(order[k]);
	words_read();
	rename_all();
	copy_file(argv[1]);
	copy_file(argv[2]);
	systems_write();
	for (size_t k = 0; k < n_order; k++)
		write_piece(order[k]);
	if (fflush(stdout) || ferror(stdout)) {
		perror("amalgamate: standard output");
		return 1;
	}
	return 0;
}
