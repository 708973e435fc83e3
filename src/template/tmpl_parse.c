/* Statements: tokens to nodes, and what is checked once the whole template is known.
 *
 * Invariants
 *  1. Nesting is bounded by STATEMENT_DEPTH_MAX.
 *  2. break and continue stand in a loop of their own function (macros and call blocks are functions).
 *  3. A filter or test that does not exist is an error here, but within an if (not in what an if contains in turn in
 *     loops and such), where a template may have asked whether it exists. */
#include "template/tmpl.h"

#include <string.h>

enum { STATEMENT_DEPTH_MAX = 60 };

static bool parse_until(struct parse *p, struct nodes *out, const char *const *ends);

/* The body of a statement: up to, and not including, one of the tags `ends`. */
static bool parse_body(struct parse *p, struct node *n, const char *const *ends)
{
	struct nodes l = {0};
	const char *outer = p->looking_for;

	tok_skip(p, T_COLON);
	if (!tok_expect(p, T_BLOCK_END))
		return false;
	p->looking_for = ends[0];
	if (!parse_until(p, &l, ends))
		return false;
	if (tok_is(p, T_EOF))
		return parse_fail(p, "the template ends where '%s' is missing", ends[0]);
	p->looking_for = outer;
	n->list = l.at;
	n->n_list = l.n;
	return true;
}

/* The same, with the end tag's name skipped. */
static bool parse_whole(struct parse *p, struct node *n, const char *end)
{
	const char *const ends[] = {end, NULL};
	if (!parse_body(p, n, ends))
		return false;
	tok_next(p);
	return true;
}

/* N_FOR: a target, b iterable, c filter or NULL, list body, more else, flag recursive. */
static struct node *parse_for(struct parse *p, struct node *n)
{
	static const char *const ends[] = {"endfor", "else", NULL};

	n->a = parse_target(p, false, "in");
	if (!n->a)
		return NULL;
	if (!tok_skip_name(p, "in")) {
		parse_fail(p, "'in' is missing");
		return NULL;
	}
	n->b = parse_tuple(p, false, "recursive");
	if (n->b && tok_skip_name(p, "if"))
		n->c = parse_expression(p, true);
	n->flag = tok_skip_name(p, "recursive");
	p->n_loops++;
	if (p->r->failed || !parse_body(p, n, ends))
		return NULL;
	p->n_loops--;
	if (!tok_is_name(p, "else")) {
		tok_next(p);
		return node_done(p, n);
	}
	tok_next(p);
	struct node body = {0};
	if (!parse_whole(p, &body, "endfor"))
		return NULL;
	n->more = body.list;
	n->n_more = body.n_list;
	return node_done(p, n);
}

/* N_IF: list of N_BRANCH (a condition or NULL, list body). */
static struct node *parse_if(struct parse *p, struct node *n)
{
	static const char *const ends[] = {"endif", "elif", "else", NULL}, *const last[] = {"endif", NULL};
	struct nodes branches = {0};
	bool has_else = false;

	for (;;) {
		struct node *b = node_new(p, N_BRANCH, tok_now(p)->line);
		if (!b)
			return NULL;
		if (!has_else && !(b->a = parse_tuple(p, false, NULL)))
			return NULL;
		if (!parse_body(p, b, has_else ? last : ends) || !nodes_add(p, &branches, node_done(p, b)))
			return NULL;
		has_else = tok_is_name(p, "else");
		if (tok_is_name(p, "endif")) {
			tok_next(p);
			break;
		}
		tok_next(p);
	}
	n->list = branches.at;
	n->n_list = branches.n;
	return node_done(p, n);
}

/* N_SET: a target, b value. N_SETBLOCK: a target, b filters or NULL, list body. */
static struct node *parse_set(struct parse *p, struct node *n)
{
	n->a = parse_target(p, true, NULL);
	if (!n->a)
		return NULL;
	if (tok_skip(p, T_ASSIGN)) {
		n->b = parse_tuple(p, true, NULL);
		return node_done(p, n);
	}
	n->type = N_SETBLOCK;
	n->b = parse_filters(p, NULL, false);
	return !p->r->failed && parse_whole(p, n, "endset") ? node_done(p, n) : NULL;
}

/* more: list of N_PARAM (sym, v name, a default or NULL). */
static bool parse_signature(struct parse *p, struct node *n)
{
	struct nodes l = {0};
	bool defaults = false;

	if (!tok_expect(p, T_LPAREN))
		return false;
	while (!p->r->failed && !tok_is(p, T_RPAREN)) {
		if (l.n && !tok_expect(p, T_COMMA))
			return false;
		const struct token *t = tok_expect(p, T_NAME);
		struct node *param = t ? node_new(p, N_PARAM, t->line) : NULL;
		if (!param)
			return false;
		param->sym = sym_of(p, t->v);
		param->v = t->v;
		if (tok_skip(p, T_ASSIGN)) {
			param->a = parse_expression(p, true);
			defaults = true;
		} else if (defaults) {
			return parse_fail(p, "a parameter without default behind one that has one");
		}
		nodes_add(p, &l, node_done(p, param));
	}
	n->more = l.at;
	n->n_more = l.n;
	return tok_expect(p, T_RPAREN) != NULL;
}

static bool parse_function_body(struct parse *p, struct node *n, const char *end)
{
	const uint32_t loops = p->n_loops;
	p->n_loops = 0;
	const bool ok = parse_whole(p, n, end);
	p->n_loops = loops;
	return ok;
}

/* N_MACRO: sym, v name, more parameters, list body. */
static struct node *parse_macro(struct parse *p, struct node *n)
{
	const struct token *t = tok_expect(p, T_NAME);
	if (!t)
		return NULL;
	n->sym = sym_of(p, t->v);
	n->v = t->v;
	return parse_signature(p, n) && parse_function_body(p, n, "endmacro") ? node_done(p, n) : NULL;
}

/* N_CALLBLOCK: a call, more parameters, list body. */
static struct node *parse_call_block(struct parse *p, struct node *n)
{
	if (tok_is(p, T_LPAREN) && !parse_signature(p, n))
		return NULL;
	n->a = parse_expression(p, true);
	if (n->a && n->a->type != N_CALL)
		parse_fail(p, "a call block needs a call");
	n->v = val_z("caller");
	return !p->r->failed && parse_function_body(p, n, "endcall") ? node_done(p, n) : NULL;
}

/* N_WITH: more targets and values in turn, list body. */
static struct node *parse_with(struct parse *p, struct node *n)
{
	struct nodes l = {0};
	while (!p->r->failed && !tok_is(p, T_BLOCK_END)) {
		if (l.n && !tok_expect(p, T_COMMA))
			return NULL;
		struct node *target = parse_target(p, false, NULL);
		if (!nodes_add(p, &l, target) || !tok_expect(p, T_ASSIGN) ||
				!nodes_add(p, &l, parse_expression(p, true)))
			return NULL;
	}
	n->more = l.at;
	n->n_more = l.n;
	return parse_whole(p, n, "endwith") ? node_done(p, n) : NULL;
}

/* N_SCOPE: list of N_PRINT. */
static struct node *parse_print(struct parse *p, struct node *n)
{
	struct nodes l = {0};
	while (!p->r->failed && !tok_is(p, T_BLOCK_END)) {
		if (l.n && !tok_expect(p, T_COMMA))
			return NULL;
		struct node *each = node_new(p, N_PRINT, n->line);
		if (!each)
			return NULL;
		each->a = parse_expression(p, true);
		nodes_add(p, &l, node_done(p, each));
	}
	n->list = l.at;
	n->n_list = l.n;
	return node_done(p, n);
}

static struct node *parse_one(struct parse *p, struct val name, struct node *n)
{
	if (val_is_str(name, "for"))
		return n->type = N_FOR, parse_for(p, n);
	if (val_is_str(name, "if"))
		return n->type = N_IF, parse_if(p, n);
	if (val_is_str(name, "set"))
		return n->type = N_SET, parse_set(p, n);
	if (val_is_str(name, "macro"))
		return n->type = N_MACRO, parse_macro(p, n);
	if (val_is_str(name, "call"))
		return n->type = N_CALLBLOCK, parse_call_block(p, n);
	if (val_is_str(name, "with"))
		return n->type = N_WITH, parse_with(p, n);
	if (val_is_str(name, "print"))
		return n->type = N_SCOPE, parse_print(p, n);
	if (val_is_str(name, "filter")) { /* N_FILTERBLOCK: a filters, list body */
		n->type = N_FILTERBLOCK;
		n->a = parse_filters(p, NULL, true);
		return n->a && parse_whole(p, n, "endfilter") ? node_done(p, n) : NULL;
	}
	if (val_is_str(name, "generation")) /* marks what the model said; its text is that of its body */
		return n->type = N_SCOPE, parse_function_body(p, n, "endgeneration") ? node_done(p, n) : NULL;
	if (val_is_str(name, "autoescape")) { /* N_AUTOESCAPE: a whether, list body */
		n->type = N_AUTOESCAPE;
		n->a = parse_expression(p, true);
		return n->a && parse_whole(p, n, "endautoescape") ? node_done(p, n) : NULL;
	}
	if (val_is_str(name, "do")) { /* N_DO: a expression */
		n->type = N_DO;
		n->a = parse_tuple(p, true, NULL);
		return node_done(p, n);
	}
	if (val_is_str(name, "break") || val_is_str(name, "continue")) {
		n->type = val_is_str(name, "break") ? N_BREAK : N_CONTINUE;
		if (!p->n_loops)
			parse_fail(p, "'%.*s' in no loop", (int)name.n, name.u.s);
		return node_done(p, n);
	}
	static const char *const refused[] = {"include", "import", "from", "extends", "block", "trans", "debug"};
	for (size_t i = 0; i < sizeof refused / sizeof *refused; i++)
		if (val_is_str(name, refused[i])) {
			tmpl_fail(p->r, COHORT_E_UNSUPPORTED, "the tag '%s' is not supported: a template is one text",
					refused[i]);
			return NULL;
		}
	if (p->looking_for)
		parse_fail(p, "unknown tag '%.*s'; '%s' is missing", (int)(name.n < 60 ? name.n : 60), name.u.s,
				p->looking_for);
	else
		parse_fail(p, "unknown tag '%.*s'", (int)(name.n < 60 ? name.n : 60), name.u.s);
	return NULL;
}

static bool is_end(struct parse *p, const char *const *ends)
{
	for (; ends && *ends; ends++)
		if (tok_is_name(p, *ends))
			return true;
	return false;
}

static bool parse_until(struct parse *p, struct nodes *out, const char *const *ends)
{
	struct run *r = p->r;

	if (p->depth >= STATEMENT_DEPTH_MAX)
		return tmpl_fail(r, COHORT_E_LIMIT, "statements nested more than %d levels deep", STATEMENT_DEPTH_MAX);
	p->depth++;
	while (!r->failed && !tok_is(p, T_EOF)) {
		const struct token *t = tok_next(p);
		struct node *n = node_new(p, t->type == T_TEXT ? N_TEXT : N_PRINT, t->line);
		if (!n)
			return false;
		if (t->type == T_TEXT) { /* N_TEXT: v */
			n->v = t->v;
			nodes_add(p, out, node_done(p, n));
		} else if (t->type == T_VAR) { /* N_PRINT: a */
			n->line = tok_now(p)->line;
			n->a = parse_tuple(p, true, NULL);
			nodes_add(p, out, node_done(p, n));
			tok_expect(p, T_VAR_END);
		} else if (t->type == T_BLOCK) {
			if (is_end(p, ends))
				break;
			if (!tok_is(p, T_NAME))
				return parse_fail(p, "a tag without its name");
			t = tok_next(p);
			n->line = t->line;
			nodes_add(p, out, parse_one(p, t->v, n));
			tok_expect(p, T_BLOCK_END);
		} else {
			return parse_fail(p, "this is not the place for it");
		}
	}
	p->depth--;
	return !r->failed;
}

/* ---- What is checked at the end ---- */

/* Names that the body of a macro reads. */
static uint8_t uses_of(const struct node *n)
{
	uint8_t uses = 0;
	if (!n)
		return 0;
	if (n->type == N_NAME)
		return val_is_str(n->v, "caller")             ? USES_CALLER
				: val_is_str(n->v, "kwargs")  ? USES_KWARGS
				: val_is_str(n->v, "varargs") ? USES_VARARGS
							      : 0;
	for (size_t i = 0; i < node_n_children(n); i++)
		uses |= uses_of(node_child(n, i));
	return uses;
}

/* Whether a body defines macros, which keep its scope. */
static bool has_macro(const struct node *n)
{
	bool has = n && (n->type == N_MACRO || n->type == N_CALLBLOCK);
	for (size_t i = 0; n && !has && i < node_n_children(n); i++)
		has = has_macro(node_child(n, i));
	return has;
}

static bool names_loop(const struct node *target)
{
	if (target->type == N_NAME)
		return target->sym == SYM_LOOP;
	for (size_t i = 0; target->type == N_TUPLE && i < target->n_list; i++)
		if (names_loop(target->list[i]))
			return true;
	return false;
}

static bool check_names(struct run *r, const struct node *n, bool in_loop)
{
	r->line = n->line;
	if (in_loop && (n->type == N_FOR || n->type == N_SET || n->type == N_SETBLOCK) && names_loop(n->a))
		return tmpl_fail(r, COHORT_E_FORMAT, "the name loop is taken within a for");
	if ((n->type == N_MACRO || n->type == N_CALLBLOCK) && n->uses & USES_CALLER)
		for (size_t i = 0; i < n->n_more; i++)
			if (n->more[i]->sym == SYM_CALLER && !n->more[i]->a)
				return tmpl_fail(r, COHORT_E_FORMAT,
						"caller cannot be a parameter without default of a macro that uses it");
	return true;
}

/* soft: within an if; in_loop: within a for. */
static bool check(struct run *r, struct node *n, bool soft, bool in_loop)
{
	if (!n)
		return true;
	in_loop |= n->type == N_FOR;
	if ((n->type == N_FILTER || n->type == N_TEST) && n->known < 0 && !soft) {
		r->line = n->line;
		return tmpl_fail(r, COHORT_E_FORMAT,
				n->type == N_FILTER ? "there is no filter '%.*s'" : "there is no test '%.*s'",
				(int)(n->v.n < 60 ? n->v.n : 60), n->v.u.s);
	}
	switch (n->type) {
	case N_IF:
	case N_COND: soft = true; break;
	case N_MACRO:
	case N_CALLBLOCK:
		for (size_t i = 0; i < n->n_list; i++)
			n->uses |= uses_of(n->list[i]);
		soft = false;
		break;
	case N_FOR: n->uses = has_macro(n); /* fall through */
	case N_SETBLOCK:
	case N_FILTERBLOCK:
	case N_WITH:
	case N_SCOPE: soft = false; break;
	default: break;
	}
	bool ok = check_names(r, n, in_loop);
	for (size_t i = 0; ok && i < node_n_children(n); i++)
		ok = check(r, node_child(n, i), soft, in_loop);
	return ok;
}

bool parse_template(struct parse *p, struct nodes *out)
{
	if (!parse_until(p, out, NULL))
		return false;
	for (size_t i = 0; i < out->n; i++)
		if (!check(p->r, out->at[i], false, false))
			return false;
	return true;
}
