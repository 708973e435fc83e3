/* Expressions: tokens to nodes, with Jinja's precedences (which differ from Python's: ~ binds between + and *, and
 * unary minus binds closer than a filter).
 *
 * Invariants
 *  1. Recursion is bounded by PARSE_DEPTH_MAX, the height of the tree by HEIGHT_MAX. */
#include "template/tmpl.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { PARSE_DEPTH_MAX = 120, HEIGHT_MAX = 250 };

/* ---- Tokens ---- */

struct token *tok_now(struct parse *p)
{
	return &p->tokens.at[p->at];
}

struct token *tok_next(struct parse *p)
{
	struct token *t = tok_now(p);
	if (t->type != T_EOF)
		p->at++;
	p->r->line = tok_now(p)->line;
	return t;
}

bool tok_is(struct parse *p, enum token_type type)
{
	return tok_now(p)->type == type;
}

static bool name_is(const struct token *t, const char *name)
{
	return t->type == T_NAME && val_is_str(t->v, name);
}

bool tok_is_name(struct parse *p, const char *name)
{
	return name_is(tok_now(p), name);
}

static const struct token *tok_look(struct parse *p)
{
	return tok_is(p, T_EOF) ? tok_now(p) : tok_now(p) + 1;
}

bool tok_skip(struct parse *p, enum token_type type)
{
	if (!tok_is(p, type))
		return false;
	tok_next(p);
	return true;
}

bool tok_skip_name(struct parse *p, const char *name)
{
	if (!tok_is_name(p, name))
		return false;
	tok_next(p);
	return true;
}

bool parse_fail(struct parse *p, const char *fmt, ...)
{
	char text[300];
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(text, sizeof text, fmt, ap);
	va_end(ap);
	return tmpl_fail(p->r, COHORT_E_FORMAT, "%s", text);
}

static const char *type_text(enum token_type type)
{
	switch (type) {
	case T_EOF: return "the end of the template";
	case T_TEXT: return "text";
	case T_BLOCK: return "{%";
	case T_BLOCK_END: return "%}";
	case T_VAR: return "{{";
	case T_VAR_END: return "}}";
	case T_NAME: return "a name";
	case T_LPAREN: return "(";
	case T_RPAREN: return ")";
	case T_RBRACKET: return "]";
	case T_RBRACE: return "}";
	case T_COLON: return ":";
	case T_COMMA: return ",";
	default: return "a value";
	}
}

static const char *describe(const struct token *t, char buf[64])
{
	if (t->type == T_NAME || t->type >= T_ADD)
		snprintf(buf, 64, "'%.*s'", (int)(t->v.n < 60 ? t->v.n : 60), t->v.u.s);
	else
		snprintf(buf, 64, "%s", type_text(t->type));
	return buf;
}

struct token *tok_expect(struct parse *p, enum token_type type)
{
	char buf[64];
	if (p->r->failed)
		return NULL;
	if (tok_is(p, type))
		return tok_next(p);
	parse_fail(p, "%s where %s is missing", describe(tok_now(p), buf), type_text(type));
	return NULL;
}

/* ---- Nodes ---- */

struct node *node_new(struct parse *p, enum node_type type, uint32_t line)
{
	struct node *n = tmpl_alloc(p->r, 1, sizeof *n);
	if (n)
		*n = (struct node){.type = (uint8_t)type, .line = line, .known = -1};
	return n;
}

size_t node_n_children(const struct node *n)
{
	return (size_t)3 + n->n_list + n->n_more;
}

struct node *node_child(const struct node *n, size_t i)
{
	if (i < 3)
		return i == 0 ? n->a : i == 1 ? n->b : n->c;
	return i - 3 < n->n_list ? n->list[i - 3] : n->more[i - 3 - n->n_list];
}

struct node *node_done(struct parse *p, struct node *n)
{
	uint16_t h = 0;
	if (!n || p->r->failed)
		return NULL;
	for (size_t i = 0; i < node_n_children(n); i++) {
		const struct node *c = node_child(n, i);
		h = c && c->height > h ? c->height : h;
	}
	n->height = (uint16_t)(h + 1);
	if (n->height > HEIGHT_MAX) {
		tmpl_fail(p->r, COHORT_E_LIMIT, "nested more than %d levels deep", HEIGHT_MAX);
		return NULL;
	}
	return n;
}

bool nodes_add(struct parse *p, struct nodes *l, struct node *n)
{
	if (!n || p->r->failed || !tmpl_grow(p->r, (void **)&l->at, &l->n_max, (size_t)l->n + 1, sizeof *l->at))
		return false;
	l->at[l->n++] = n;
	return true;
}

uint32_t sym_of(struct parse *p, struct val name)
{
	const struct val known = dict_get(p->r, p->syms, name, true);
	if (known.type == V_INT)
		return (uint32_t)known.u.i;
	dict_set(p->r, p->syms, name, val_int(p->syms->n));
	return p->r->failed ? 0 : p->syms->n - 1;
}

static bool enter(struct parse *p)
{
	if (p->r->failed)
		return false;
	if (p->depth >= PARSE_DEPTH_MAX)
		return tmpl_fail(p->r, COHORT_E_LIMIT, "nested more than %d levels deep", PARSE_DEPTH_MAX);
	p->depth++;
	return true;
}

static struct node *unary(struct parse *p, enum node_type type, struct node *a, uint32_t line)
{
	struct node *n = a ? node_new(p, type, line) : NULL;
	if (n)
		n->a = a;
	return node_done(p, n);
}

static struct node *binary(
		struct parse *p, enum node_type type, enum op op, struct node *a, struct node *b, uint32_t line)
{
	struct node *n = a && b ? node_new(p, type, line) : NULL;
	if (n) {
		n->op = (uint8_t)op;
		n->a = a;
		n->b = b;
	}
	return node_done(p, n);
}

static struct node *list_node(struct parse *p, enum node_type type, uint32_t line, const struct nodes *l)
{
	struct node *n = p->r->failed ? NULL : node_new(p, type, line);
	if (n) {
		n->list = l->at;
		n->n_list = l->n;
	}
	return node_done(p, n);
}

/* ---- Calls, filters, tests ---- */

/* Into n: list positional, more N_KEYWORD (v name, a value), b *args, c **kwargs. */
static bool parse_args(struct parse *p, struct node *n)
{
	struct nodes list = {0}, more = {0};
	bool comma = false;

	if (!tok_expect(p, T_LPAREN))
		return false;
	while (!p->r->failed && !tok_is(p, T_RPAREN)) {
		if (comma) {
			if (!tok_expect(p, T_COMMA))
				return false;
			if (tok_is(p, T_RPAREN))
				break;
		}
		bool ok = true;
		if (tok_skip(p, T_MUL)) {
			ok = !n->b && !n->c;
			n->b = parse_expression(p, true);
		} else if (tok_skip(p, T_POW)) {
			ok = !n->c;
			n->c = parse_expression(p, true);
		} else if (tok_is(p, T_NAME) && tok_look(p)->type == T_ASSIGN) {
			struct node *k = node_new(p, N_KEYWORD, tok_now(p)->line);
			ok = !n->c;
			if (!k)
				return false;
			k->v = tok_next(p)->v;
			tok_next(p);
			k->a = parse_expression(p, true);
			nodes_add(p, &more, node_done(p, k));
		} else {
			ok = !n->b && !n->c && !more.n;
			nodes_add(p, &list, parse_expression(p, true));
		}
		if (!ok)
			return parse_fail(p, "malformed arguments of a call");
		comma = true;
	}
	n->list = list.at;
	n->n_list = list.n;
	n->more = more.at;
	n->n_more = more.n;
	return tok_expect(p, T_RPAREN) != NULL;
}

/* N_CALL: a function, the rest as parse_args. */
static struct node *parse_call(struct parse *p, struct node *on)
{
	struct node *n = on ? node_new(p, N_CALL, tok_now(p)->line) : NULL;
	if (!n || !parse_args(p, n))
		return NULL;
	n->a = on;
	return node_done(p, n);
}

/* N_FILTER: v name, a what it is applied to (NULL: the body of a block), the rest as parse_args. */
struct node *parse_filters(struct parse *p, struct node *on, bool inline_first)
{
	while (!p->r->failed && (inline_first || tok_is(p, T_PIPE))) {
		if (!inline_first)
			tok_next(p);
		inline_first = false;
		struct node *n = node_new(p, N_FILTER, tok_now(p)->line);
		if (!n)
			return NULL;
		const struct token *name = tok_expect(p, T_NAME);
		if (!name || (tok_is(p, T_LPAREN) && !parse_args(p, n)))
			return NULL;
		n->v = name->v;
		n->known = filter_find(n->v.u.s, n->v.n);
		n->a = on;
		on = node_done(p, n);
	}
	return on;
}

static struct node *parse_primary(struct parse *p, bool with_ns);
static struct node *parse_postfix(struct parse *p, struct node *n);

/* N_TEST: v name, a operand, the rest as parse_args. */
static struct node *parse_test(struct parse *p, struct node *on)
{
	const uint32_t line = tok_next(p)->line;
	const bool negated = tok_skip_name(p, "not");
	struct node *n = node_new(p, N_TEST, line);
	struct nodes list = {0};

	const struct token *name = n ? tok_expect(p, T_NAME) : NULL;
	if (!name)
		return NULL;
	n->v = name->v;
	if (tok_is(p, T_LPAREN)) {
		if (!parse_args(p, n))
			return NULL;
	} else if ((tok_is(p, T_NAME) || tok_is(p, T_STR) || tok_is(p, T_INT) || tok_is(p, T_FLOAT) ||
				   tok_is(p, T_LBRACKET) || tok_is(p, T_LBRACE)) &&
			!tok_is_name(p, "else") && !tok_is_name(p, "or") && !tok_is_name(p, "and")) {
		if (tok_is_name(p, "is")) {
			parse_fail(p, "a test of a test needs parentheses");
			return NULL;
		}
		if (!nodes_add(p, &list, parse_postfix(p, parse_primary(p, false))))
			return NULL;
		n->list = list.at;
		n->n_list = list.n;
	}
	n->known = test_find(n->v.u.s, n->v.n);
	n->a = on;
	n = node_done(p, n);
	return negated ? unary(p, N_NOT, n, line) : n;
}

/* ---- Postfixes ---- */

/* One index or slice. N_SLICE: a, b, c bounds and step, each may be NULL. */
static struct node *parse_subscribed(struct parse *p)
{
	const uint32_t line = tok_now(p)->line;
	struct node *first = NULL;

	if (!tok_is(p, T_COLON)) {
		first = parse_expression(p, true);
		if (!first || !tok_is(p, T_COLON))
			return first;
	}
	tok_next(p);
	struct node *n = node_new(p, N_SLICE, line);
	if (!n)
		return NULL;
	n->a = first;
	if (!tok_is(p, T_COLON) && !tok_is(p, T_RBRACKET) && !tok_is(p, T_COMMA))
		n->b = parse_expression(p, true);
	if (tok_skip(p, T_COLON) && !tok_is(p, T_RBRACKET) && !tok_is(p, T_COMMA))
		n->c = parse_expression(p, true);
	return node_done(p, n);
}

/* N_ATTR: a object, v name. N_ITEM: a object, b index. */
static struct node *parse_subscript(struct parse *p, struct node *on)
{
	const struct token *t = tok_next(p);
	const bool dot = t->type == T_DOT;
	struct node *n = node_new(p, dot && tok_is(p, T_NAME) ? N_ATTR : N_ITEM, t->line);
	struct nodes list = {0};

	if (!n)
		return NULL;
	n->a = on;
	if (dot) {
		const struct token *name = tok_next(p);
		if (name->type == T_NAME) {
			n->v = name->v;
		} else if (name->type == T_INT) {
			n->b = node_new(p, N_CONST, name->line);
			if (n->b)
				n->b->v = name->v;
		} else {
			parse_fail(p, "a dot without a name or number");
		}
		return node_done(p, n);
	}
	while (!p->r->failed && !tok_is(p, T_RBRACKET)) {
		if (list.n && !tok_expect(p, T_COMMA))
			return NULL;
		nodes_add(p, &list, parse_subscribed(p));
	}
	if (!tok_expect(p, T_RBRACKET))
		return NULL;
	if (list.n == 1) {
		n->b = list.at[0];
	} else {
		n->b = list_node(p, N_TUPLE, t->line, &list);
	}
	return node_done(p, n);
}

static struct node *parse_postfix(struct parse *p, struct node *n)
{
	while (n && !p->r->failed) {
		if (tok_is(p, T_DOT) || tok_is(p, T_LBRACKET))
			n = parse_subscript(p, n);
		else if (tok_is(p, T_LPAREN))
			n = parse_call(p, n);
		else
			break;
	}
	return n;
}

static struct node *parse_filter_expr(struct parse *p, struct node *n)
{
	while (n && !p->r->failed) {
		if (tok_is(p, T_PIPE))
			n = parse_filters(p, n, false);
		else if (tok_is_name(p, "is"))
			n = parse_test(p, n);
		else if (tok_is(p, T_LPAREN))
			n = parse_call(p, n);
		else
			break;
	}
	return n;
}

/* ---- Atoms ---- */

/* N_LIST: list. N_DICT: list of keys and values in turn. */
static struct node *parse_display(struct parse *p, bool dict)
{
	const enum token_type end = dict ? T_RBRACE : T_RBRACKET;
	const uint32_t line = tok_next(p)->line;
	struct nodes l = {0};

	while (!p->r->failed && !tok_is(p, end)) {
		if (l.n && !tok_expect(p, T_COMMA))
			return NULL;
		if (tok_is(p, end))
			break;
		nodes_add(p, &l, parse_expression(p, true));
		if (dict && tok_expect(p, T_COLON))
			nodes_add(p, &l, parse_expression(p, true));
	}
	return tok_expect(p, end) ? list_node(p, dict ? N_DICT : N_LIST, line, &l) : NULL;
}

static struct node *parse_string(struct parse *p)
{
	struct token *t = tok_next(p);
	struct node *n = node_new(p, N_CONST, t->line);
	if (!n)
		return NULL;
	n->v = t->v;
	while (tok_is(p, T_STR))
		n->v = str_concat(p->r, n->v, tok_next(p)->v);
	return node_done(p, n);
}

static struct node *parse_parens(struct parse *p)
{
	const uint32_t line = tok_next(p)->line;
	struct node *n;
	if (tok_is(p, T_RPAREN)) {
		const struct nodes none = {0};
		n = list_node(p, N_TUPLE, line, &none);
	} else {
		n = parse_tuple(p, true, NULL);
	}
	return tok_expect(p, T_RPAREN) ? n : NULL;
}

/* N_CONST: v. N_NAME: sym, v its text. N_NSREF: sym, v the attribute, a unused. */
static struct node *parse_atom(struct parse *p, bool with_ns)
{
	struct token *t = tok_now(p);
	char buf[64];
	struct node *n;

	switch (t->type) {
	case T_NAME:
		tok_next(p);
		n = node_new(p, N_CONST, t->line);
		if (!n)
			return NULL;
		if (name_is(t, "true") || name_is(t, "True") || name_is(t, "false") || name_is(t, "False")) {
			n->v = val_bool(t->v.u.s[0] == 't' || t->v.u.s[0] == 'T');
		} else if (name_is(t, "none") || name_is(t, "None")) {
			n->v = val_none;
		} else if (with_ns && tok_skip(p, T_DOT)) {
			const struct token *attr = tok_expect(p, T_NAME);
			if (!attr)
				return NULL;
			n->type = N_NSREF;
			n->sym = sym_of(p, t->v);
			n->v = attr->v;
		} else {
			n->type = N_NAME;
			n->sym = sym_of(p, t->v);
			n->v = t->v;
		}
		return node_done(p, n);
	case T_STR: return parse_string(p);
	case T_INT:
	case T_FLOAT:
		tok_next(p);
		n = node_new(p, N_CONST, t->line);
		if (n)
			n->v = t->v;
		return node_done(p, n);
	case T_LPAREN: return parse_parens(p);
	case T_LBRACKET: return parse_display(p, false);
	case T_LBRACE: return parse_display(p, true);
	default: parse_fail(p, "%s where a value is missing", describe(t, buf)); return NULL;
	}
}

static struct node *parse_primary(struct parse *p, bool with_ns)
{
	if (!enter(p))
		return NULL;
	struct node *n = parse_atom(p, with_ns);
	p->depth--;
	return n;
}

/* ---- Operators, loosest last ---- */

static struct node *parse_unary(struct parse *p, bool with_filter)
{
	const struct token *t = tok_now(p);
	struct node *n;

	if (!enter(p))
		return NULL;
	if (t->type == T_SUB || t->type == T_ADD) {
		tok_next(p);
		n = unary(p, t->type == T_SUB ? N_NEG : N_POS, parse_unary(p, false), t->line);
	} else {
		n = parse_primary(p, false);
	}
	n = parse_postfix(p, n);
	if (with_filter)
		n = parse_filter_expr(p, n);
	p->depth--;
	return n;
}

static enum op op_now(struct parse *p)
{
	return (enum op)(tok_now(p)->type - T_ADD);
}

/* Operators from first to last between what `next` parses. */
static struct node *parse_chain(
		struct parse *p, struct node *(*next)(struct parse *), enum token_type first, enum token_type last)
{
	struct node *n = next(p);
	while (n && tok_now(p)->type >= first && tok_now(p)->type <= last) {
		const enum op op = op_now(p);
		const uint32_t line = tok_next(p)->line;
		n = binary(p, N_BINARY, op, n, next(p), line);
	}
	return n;
}

static struct node *parse_filtered(struct parse *p)
{
	return parse_unary(p, true);
}

static struct node *parse_pow(struct parse *p)
{
	return parse_chain(p, parse_filtered, T_POW, T_POW);
}

static struct node *parse_product(struct parse *p)
{
	return parse_chain(p, parse_pow, T_MUL, T_MOD);
}

/* N_CONCAT: list. */
static struct node *parse_concat(struct parse *p)
{
	const uint32_t line = tok_now(p)->line;
	struct node *n = parse_product(p);
	struct nodes l = {0};

	if (!n || !tok_is(p, T_TILDE))
		return n;
	nodes_add(p, &l, n);
	while (!p->r->failed && tok_skip(p, T_TILDE))
		nodes_add(p, &l, parse_product(p));
	return list_node(p, N_CONCAT, line, &l);
}

static struct node *parse_sum(struct parse *p)
{
	return parse_chain(p, parse_concat, T_ADD, T_SUB);
}

/* N_COMPARE: a first, list N_OPERAND (op, a). */
static struct node *parse_compare(struct parse *p)
{
	const uint32_t line = tok_now(p)->line;
	struct node *first = parse_sum(p);
	struct nodes l = {0};

	while (first && !p->r->failed) {
		enum op op;
		const uint32_t at = tok_now(p)->line;
		if (tok_now(p)->type >= T_EQ && tok_now(p)->type <= T_GE) {
			op = op_now(p);
			tok_next(p);
		} else if (tok_skip_name(p, "in")) {
			op = OP_IN;
		} else if (tok_is_name(p, "not") && name_is(tok_look(p), "in")) {
			tok_next(p);
			tok_next(p);
			op = OP_NOTIN;
		} else {
			break;
		}
		struct node *operand = node_new(p, N_OPERAND, at);
		if (!operand)
			return NULL;
		operand->op = (uint8_t)op;
		operand->a = parse_sum(p);
		nodes_add(p, &l, operand->a ? node_done(p, operand) : NULL);
	}
	if (!first || !l.n)
		return first;
	struct node *n = list_node(p, N_COMPARE, line, &l);
	if (n)
		n->a = first;
	return node_done(p, n);
}

static struct node *parse_not(struct parse *p)
{
	if (!tok_is_name(p, "not"))
		return parse_compare(p);
	if (!enter(p))
		return NULL;
	const uint32_t line = tok_next(p)->line;
	struct node *n = unary(p, N_NOT, parse_not(p), line);
	p->depth--;
	return n;
}

static struct node *parse_and(struct parse *p)
{
	struct node *n = parse_not(p);
	while (n && tok_is_name(p, "and")) {
		const uint32_t line = tok_next(p)->line;
		n = binary(p, N_AND, OP_ADD, n, parse_not(p), line);
	}
	return n;
}

static struct node *parse_or(struct parse *p)
{
	struct node *n = parse_and(p);
	while (n && tok_is_name(p, "or")) {
		const uint32_t line = tok_next(p)->line;
		n = binary(p, N_OR, OP_ADD, n, parse_and(p), line);
	}
	return n;
}

/* N_COND: a condition, b then, c else or NULL. */
static struct node *parse_cond(struct parse *p)
{
	struct node *then = parse_or(p);
	while (then && tok_is_name(p, "if")) {
		struct node *n = node_new(p, N_COND, tok_next(p)->line);
		if (!n)
			return NULL;
		n->a = parse_or(p);
		n->b = then;
		if (n->a && tok_skip_name(p, "else"))
			n->c = parse_expression(p, true);
		then = node_done(p, n);
	}
	return then;
}

struct node *parse_expression(struct parse *p, bool with_cond)
{
	if (!enter(p))
		return NULL;
	struct node *n = with_cond ? parse_cond(p) : parse_or(p);
	p->depth--;
	return n;
}

static bool at_tuple_end(struct parse *p, const char *end_name)
{
	return tok_is(p, T_VAR_END) || tok_is(p, T_BLOCK_END) || tok_is(p, T_RPAREN) ||
			(end_name && tok_is_name(p, end_name));
}

/* One element, or those that commas part. `targets`: names only. */
static struct node *parse_elements(struct parse *p, bool with_cond, bool targets, bool with_ns, const char *end_name)
{
	const uint32_t line = tok_now(p)->line;
	struct nodes l = {0};
	bool tuple = false;
	char buf[64];

	while (!p->r->failed) {
		if (l.n && !tok_expect(p, T_COMMA))
			return NULL;
		if (at_tuple_end(p, end_name))
			break;
		nodes_add(p, &l, targets ? parse_primary(p, with_ns) : parse_expression(p, with_cond));
		if (!tok_is(p, T_COMMA))
			break;
		tuple = true;
	}
	if (p->r->failed)
		return NULL;
	if (!tuple && l.n)
		return l.at[0];
	if (!tuple) {
		parse_fail(p, "%s where a value is missing", describe(tok_now(p), buf));
		return NULL;
	}
	return list_node(p, N_TUPLE, line, &l);
}

struct node *parse_tuple(struct parse *p, bool with_cond, const char *end_name)
{
	return parse_elements(p, with_cond, false, false, end_name);
}

static bool can_assign(struct parse *p, const struct node *n)
{
	if (n->type == N_TUPLE) {
		for (size_t i = 0; i < n->n_list; i++)
			if (!can_assign(p, n->list[i]))
				return false;
		return true;
	}
	return n->type == N_NAME || n->type == N_NSREF ? true : parse_fail(p, "this cannot be set");
}

struct node *parse_target(struct parse *p, bool with_ns, const char *end_name)
{
	struct node *n = parse_elements(p, false, true, with_ns, end_name);
	return n && can_assign(p, n) ? n : NULL;
}
