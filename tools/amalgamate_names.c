/* The names that a piece of the amalgamation declares outside of functions, with macros expanded (amalgamate.c). */
#include "amalgamate.h"

#include <stdlib.h>

struct vec {
	struct tok *t;
	size_t n;
};

static void push(struct vec *v, struct tok t)
{
	v->t = grow(v->t, v->n, sizeof *v->t);
	v->t[v->n++] = t;
}

/* ---- Macros ---------------------------------------------------------------------------------------------------- */

static const struct macro *macro_own(const struct piece *p, const struct tok *t)
{
	for (size_t i = p->n_macros; i-- > 0;)
		if (tok_is(t, p->macros[i].name))
			return &p->macros[i];
	return NULL;
}

static const struct macro *macro_seen(const struct piece *p, const struct tok *t)
{
	const struct macro *m = t->kind == T_ID ? macro_own(p, t) : NULL;
	for (size_t i = p->n_deps; t->kind == T_ID && i-- > 0 && !m;)
		m = macro_own(p->deps[i], t);
	return m;
}

static struct name *name_add(struct piece *p, const struct tok *t, bool tag)
{
	for (size_t i = 0; i < p->n_names; i++)
		if (p->names[i].tag == tag && tok_is(t, p->names[i].s))
			return &p->names[i];
	p->names = grow(p->names, p->n_names, sizeof *p->names);
	p->names[p->n_names++] = (struct name){.s = text_copy(t->s, t->len), .tag = tag, .made = t->made};
	return &p->names[p->n_names - 1];
}

/* The #define at tokens [i, end), i at its name. */
static void macro_read(struct piece *p, size_t i, size_t end)
{
	struct macro m = {.name = text_copy(p->toks[i].s, p->toks[i].len)};
	struct vec body = {0};

	name_add(p, &p->toks[i], false)->macro = true;
	i++;
	if (i < end && tok_is(&p->toks[i], "(")) { /* without a space: parameters */
		m.call = true;
		for (i++; i < end && !tok_is(&p->toks[i], ")"); i++) {
			if (p->toks[i].kind != T_ID && !tok_is(&p->toks[i], "..."))
				continue;
			if (m.n_params == sizeof m.params / sizeof *m.params)
				fail(p->toks[i].path, p->toks[i].line, "a macro with too many parameters");
			m.params[m.n_params++] = &p->toks[i];
		}
		i++;
	}
	for (; i < end; i++)
		if (p->toks[i].kind != T_SPACE)
			push(&body, p->toks[i]);
	m.body = body.t;
	m.n_body = body.n;
	p->macros = grow(p->macros, p->n_macros, sizeof *p->macros);
	p->macros[p->n_macros++] = m;
}

static int param_of(const struct macro *m, const struct tok *t)
{
	for (size_t i = 0; i < m->n_params; i++)
		if (tok_is(m->params[i], "...") ? tok_is(t, "__VA_ARGS__")
						: t->len == m->params[i]->len && !memcmp(t->s, m->params[i]->s, t->len))
			return (int)i;
	return -1;
}

struct hidden { /* macros that are being expanded */
	const struct macro *m;
	const struct hidden *up;
};

static void expand(const struct piece *p, const struct tok *in, size_t n, struct vec *out, const struct hidden *up);

/* The arguments of a call whose ( is at `at`; gives the index behind its ). */
static size_t arguments(const struct macro *m, const struct tok *in, size_t n, size_t at, struct vec *args)
{
	int depth = 0;
	size_t k = 0;

	for (size_t i = at; i < n; i++) {
		if (tok_is(&in[i], "(") && depth++ == 0)
			continue;
		if (tok_is(&in[i], ")") && --depth == 0)
			return i + 1;
		if (depth == 1 && tok_is(&in[i], ",") && k + 1 < m->n_params)
			k++;
		else if (m->n_params)
			push(&args[k], in[i]);
	}
	fail(in[at].path, in[at].line, "the call of macro %s does not end", m->name);
}

/* The body with arguments in place of parameters, and tokens pasted. */
static void substitute(const struct piece *p, const struct macro *m, const struct vec *args, const struct tok *call,
		struct vec *out, const struct hidden *up)
{
	bool paste = false;

	for (size_t i = 0; i < m->n_body; i++) {
		struct vec one = {0};
		const bool before_paste = i + 1 < m->n_body && tok_is(&m->body[i + 1], "##");
		const int k = param_of(m, &m->body[i]);
		if (tok_is(&m->body[i], "##")) {
			paste = true;
			continue;
		}
		if (k < 0)
			push(&one, m->body[i]);
		else if (paste || before_paste)
			for (size_t j = 0; j < args[k].n; j++)
				push(&one, args[k].t[j]);
		else
			expand(p, args[k].t, args[k].n, &one, up);
		for (size_t j = 0; j < one.n; j++) {
			struct tok t = one.t[j];
			t.made = true;
			t.from = call->from;
			t.path = call->path;
			t.line = call->line;
			if (paste && j == 0 && out->n) {
				struct tok *last = &out->t[out->n - 1];
				char *s = malloc(last->len + t.len);
				if (!s)
					fail(t.path, t.line, "out of memory");
				memcpy(s, last->s, last->len);
				memcpy(s + last->len, t.s, t.len);
				last->s = s;
				last->len += t.len;
				continue;
			}
			push(out, t);
		}
		paste = false;
	}
}

static void expand(const struct piece *p, const struct tok *in, size_t n, struct vec *out, const struct hidden *up)
{
	for (size_t i = 0; i < n; i++) {
		const struct macro *m = macro_seen(p, &in[i]);
		for (const struct hidden *h = up; h && m; h = h->up)
			if (h->m == m)
				m = NULL;
		if (!m || (m->call && (i + 1 == n || !tok_is(&in[i + 1], "(")))) {
			push(out, in[i]);
			continue;
		}
		struct vec args[16] = {{0}}, body = {0};
		const struct tok *call = &in[i];
		if (m->call)
			i = arguments(m, in, n, i + 1, args) - 1;
		substitute(p, m, args, call, &body, up);
		expand(p, body.t, body.n, out, &(struct hidden){m, up});
	}
}

/* ---- Declarations ---------------------------------------------------------------------------------------------- */

static size_t close_of(const struct vec *v, size_t i)
{
	int depth = 0;
	const size_t from = i;

	for (; i < v->n; i++) {
		const struct tok *t = &v->t[i];
		depth += tok_is(t, "(") || tok_is(t, "[") || tok_is(t, "{");
		depth -= tok_is(t, ")") || tok_is(t, "]") || tok_is(t, "}");
		if (depth == 0)
			return i;
	}
	fail(v->t[from].path, v->t[from].line, "%.*s without its end", (int)v->t[from].len, v->t[from].s);
}

static bool is_tag_word(const struct tok *t)
{
	return tok_is(t, "struct") || tok_is(t, "union") || tok_is(t, "enum");
}

/* Tags and constants defined in [i, end), within bodies as well. */
static void tags_read(struct piece *p, const struct vec *v, size_t i, size_t end)
{
	for (; i < end; i++) {
		if (!is_tag_word(&v->t[i]))
			continue;
		const bool constants = tok_is(&v->t[i], "enum");
		size_t at = i + 1;
		if (at + 1 < end && v->t[at].kind == T_ID && tok_is(&v->t[at + 1], "{"))
			name_add(p, &v->t[at++], true);
		if (at >= end || !tok_is(&v->t[at], "{") || !constants)
			continue;
		const size_t close = close_of(v, at);
		int depth = 0;
		for (size_t k = at + 1; k < close; k++) {
			const struct tok *t = &v->t[k], *b = &v->t[k - 1];
			if (depth == 0 && t->kind == T_ID && (k == at + 1 || tok_is(b, ",")))
				name_add(p, t, false);
			depth += tok_is(t, "(");
			depth -= tok_is(t, ")");
		}
		i = close;
	}
}

static bool known(const struct piece *p, const struct tok *t, const struct piece **owner)
{
	for (size_t i = 0; i < p->n_deps; i++)
		for (size_t k = 0; k < p->deps[i]->n_names; k++)
			if (!p->deps[i]->names[k].tag && tok_is(t, p->deps[i]->names[k].s)) {
				*owner = p->deps[i];
				return true;
			}
	return false;
}

struct decl {
	size_t begin, end; /* tokens; behind its ; or } */
	bool is_static, is_extern, is_typedef, is_function, has_body;
};

static void declared(struct piece *p, const struct vec *v, const struct decl *d, const struct tok *name)
{
	const struct piece *owner = NULL;
	struct tok *first = v->t[d->begin].from;

	if (p->public_header || d->is_static || d->is_typedef) {
		name_add(p, name, false);
		return;
	}
	if (!p->source) {
		if (d->is_function && d->has_body)
			fail(name->path, name->line, "%.*s is a function of a header and not static", (int)name->len,
					name->s);
		name_add(p, name, false);
		first->insert = "static ";
		if (d->is_extern) {
			if (!tok_is(first, "extern") && !tok_is(first, "static"))
				fail(name->path, name->line, "extern is not the first word of a declaration");
			first->insert = NULL;
			first->s = "static";
			first->len = strlen("static");
		}
		return;
	}
	if (!known(p, name, &owner))
		fail(name->path, name->line, "%.*s is external and in no header", (int)name->len, name->s);
	if (!d->is_function && !owner->public_header)
		first->insert = "static ";
}

/* The names between [i, end) of a declaration, whose bodies and initialisers are of no interest. */
static void declarators(struct piece *p, const struct vec *v, struct decl *d)
{
	for (size_t i = d->begin; i < d->end; i++) {
		const struct tok *t = &v->t[i], *next = i + 1 < d->end ? &v->t[i + 1] : NULL;
		if (is_tag_word(t)) {
			if (next && next->kind == T_ID)
				i++;
			if (i + 1 < d->end && tok_is(&v->t[i + 1], "{"))
				i = close_of(v, i + 1);
		} else if (tok_is(t, "__attribute__") || tok_is(t, "_Static_assert") || tok_is(t, "_Alignas")) {
			i = close_of(v, i + 1);
		} else if (tok_is(t, "=")) {
			for (; i + 1 < d->end && !tok_is(&v->t[i + 1], ",") && !tok_is(&v->t[i + 1], ";"); i++)
				if (tok_is(&v->t[i + 1], "(") || tok_is(&v->t[i + 1], "{") || tok_is(&v->t[i + 1], "["))
					i = close_of(v, i + 1) - 1;
		} else if (t->kind == T_ID && next &&
				(tok_is(next, "(") || tok_is(next, "[") || tok_is(next, "=") || tok_is(next, ",") ||
						tok_is(next, ";") || tok_is(next, "__attribute__"))) {
			const bool pointer = tok_is(next, "(") && i + 2 < d->end && tok_is(&v->t[i + 2], "*");
			if (pointer) { /* TYPE (*name)(...) */
				size_t k = i + 3;
				while (k + 1 < d->end && (tok_is(&v->t[k], "const") || tok_is(&v->t[k], "*")))
					k++;
				declared(p, v, d, &v->t[k]);
				i = close_of(v, i + 1);
				if (i + 1 < d->end && tok_is(&v->t[i + 1], "("))
					i = close_of(v, i + 1);
				continue;
			}
			d->is_function = tok_is(next, "(");
			declared(p, v, d, t);
			while (i + 1 < d->end && (tok_is(&v->t[i + 1], "(") || tok_is(&v->t[i + 1], "[")))
				i = close_of(v, i + 1);
			if (d->is_function && d->has_body)
				return;
		}
	}
}

static void declarations(struct piece *p, const struct vec *v)
{
	for (size_t i = 0; i < v->n;) {
		struct decl d = {.begin = i};
		bool initialiser = false;
		if (tok_is(&v->t[i], ";")) {
			i++;
			continue;
		}
		for (; i < v->n && !tok_is(&v->t[i], ";"); i++) {
			const struct tok *t = &v->t[i];
			d.is_static = d.is_static || tok_is(t, "static");
			d.is_extern = d.is_extern || tok_is(t, "extern");
			d.is_typedef = d.is_typedef || tok_is(t, "typedef");
			initialiser = initialiser || tok_is(t, "=");
			if (tok_is(t, "{") && i > d.begin && tok_is(&v->t[i - 1], ")") && !initialiser) {
				d.has_body = true;
				i = close_of(v, i);
				break;
			}
			if (tok_is(t, "(") || tok_is(t, "{") || tok_is(t, "["))
				i = close_of(v, i);
		}
		d.end = i = i < v->n ? i + 1 : v->n;
		tags_read(p, v, d.begin, d.end);
		declarators(p, v, &d);
	}
}

/* What stands outside of the bodies of functions and of initialisers, macros expanded as they are at that place. */
void piece_read(struct piece *p)
{
	struct vec plain = {0}, all = {0};
	int skip = 0;

	for (size_t i = 0; i < p->n_toks; i++) {
		struct tok t = p->toks[i];
		if (t.pp && t.pp_name && !t.drop && tok_is(&t, "define")) {
			size_t at = i + 1, end;
			while (p->toks[at].kind == T_SPACE)
				at++;
			for (end = at; end < p->n_toks && p->toks[end].pp; end++)
				;
			expand(p, plain.t, plain.n, &all, NULL);
			plain.n = 0;
			plain.t = NULL;
			macro_read(p, at, end);
			i = end - 1;
			continue;
		}
		if (t.kind == T_SPACE || t.pp)
			continue;
		t.from = &p->toks[i];
		if (skip ||
				(tok_is(&t, "{") && plain.n &&
						(tok_is(&plain.t[plain.n - 1], ")") ||
								tok_is(&plain.t[plain.n - 1], "=")))) {
			skip += tok_is(&t, "{");
			skip -= tok_is(&t, "}");
			if (skip > 1 || (skip == 1 && !tok_is(&t, "{")))
				continue;
		}
		push(&plain, t);
	}
	expand(p, plain.t, plain.n, &all, NULL);
	declarations(p, &all);
}
