/* Expressions: nodes to values; names, calls, macros.
 *
 * Invariants
 *  1. Recursion goes through tmpl_eval(), which counts depth and steps.
 *  2. A node is never changed: a template may be rendered by several threads at once. */
#include "template/tmpl.h"

#include <string.h>

/* ---- Names ---- */

struct scope *scope_open(struct run *r, struct scope *parent)
{
	struct scope *s = tmpl_alloc(r, 1, sizeof *s);
	if (s)
		*s = (struct scope){.parent = parent};
	return s;
}

bool scope_set(struct run *r, uint32_t sym, struct val v)
{
	struct scope *s = r->scope;
	if (!tmpl_charge(r, s->n / 16))
		return false;
	for (uint32_t i = 0; i < s->n; i++)
		if (s->vars[i].sym == sym) {
			s->vars[i].value = v;
			return true;
		}
	if (!tmpl_charge(r, 1) || !tmpl_grow(r, (void **)&s->vars, &s->n_max, (size_t)s->n + 1, sizeof *s->vars))
		return false;
	s->vars[s->n++] = (struct var){sym, v};
	return true;
}

struct val scope_get(struct run *r, uint32_t sym)
{
	for (const struct scope *s = r->scope; s; s = s->parent) {
		for (uint32_t i = 0; i < s->n; i++)
			if (s->vars[i].sym == sym) {
				tmpl_charge(r, i / 16);
				return s->vars[i].value;
			}
		tmpl_charge(r, s->n / 16);
	}
	return r->globals[sym];
}

static bool unpack(struct run *r, const struct node *target, struct val v)
{
	struct iter it;
	struct val item;
	uint32_t n = 0;

	if (!iter_init(r, &it, v))
		return false;
	/* All of them first: a value that is too long or short assigns nothing. */
	struct val *items = tmpl_alloc(r, target->n_list, sizeof *items);
	while (items && iter_next(r, &it, &item)) {
		if (n == target->n_list)
			return tmpl_error(r, "more values than the %u names", target->n_list);
		items[n++] = item;
	}
	if (n < target->n_list)
		return tmpl_error(r, "%u values for %u names", n, target->n_list);
	for (uint32_t i = 0; i < n; i++)
		if (!tmpl_assign(r, target->list[i], items[i]))
			return false;
	return !r->failed;
}

bool tmpl_assign(struct run *r, const struct node *target, struct val v)
{
	if (r->failed)
		return false;
	if (target->type == N_NAME)
		return scope_set(r, target->sym, v);
	if (target->type == N_TUPLE)
		return unpack(r, target, v);
	const struct val ns = scope_get(r, target->sym);
	if (ns.type != V_NS)
		return tmpl_error(r, "only a namespace has attributes that can be set");
	return dict_set(r, ns.u.dict, target->v, v);
}

/* ---- Calls ---- */

static bool add_kwarg(struct run *r, struct args *a, uint32_t *n_max, struct val name, struct val v)
{
	for (size_t i = 0; i < a->n_kw; i++)
		if (val_eq(r, a->kw[i].name, name))
			return tmpl_error(r, "the argument '%.*s' is given twice", (int)(name.n < 60 ? name.n : 60),
					name.u.s);
	if (!tmpl_charge(r, 1 + a->n_kw / 16) ||
			!tmpl_grow(r, (void **)&a->kw, n_max, a->n_kw + 1, sizeof *a->kw))
		return false;
	a->kw[a->n_kw++] = (struct kwarg){name, v};
	return true;
}

static bool eval_args(struct run *r, const struct node *n, struct args *a)
{
	struct list pos = {0};
	struct iter it;
	struct val v;
	uint32_t n_kw_max = 0;

	*a = (struct args){0};
	for (uint32_t i = 0; i < n->n_list; i++)
		if (!list_add(r, &pos, tmpl_eval(r, n->list[i])))
			return false;
	if (n->b) {
		const struct val more = tmpl_eval(r, n->b);
		if (r->failed || !iter_init(r, &it, more))
			return false;
		while (iter_next(r, &it, &v))
			list_add(r, &pos, v);
	}
	for (uint32_t i = 0; i < n->n_more && !r->failed; i++)
		add_kwarg(r, a, &n_kw_max, n->more[i]->v, tmpl_eval(r, n->more[i]->a));
	if (n->c) {
		const struct val more = tmpl_eval(r, n->c);
		if (r->failed || more.type != V_DICT)
			return val_refuse(r, "**", more);
		for (uint32_t i = 0; i < more.u.dict->n && !r->failed; i++) {
			if (more.u.dict->pairs[i].key.type != V_STR)
				return tmpl_error(r, "the name of an argument must be a text");
			add_kwarg(r, a, &n_kw_max, more.u.dict->pairs[i].key, more.u.dict->pairs[i].value);
		}
	}
	a->pos = pos.items;
	a->n_pos = pos.n;
	return !r->failed;
}

struct val call_value(struct run *r, struct val f, const struct args *a)
{
	if (r->failed)
		return val_none;
	switch ((enum val_type)f.type) {
	case V_FUNC: return method_call(r, f.u.func->method, f.u.func->self, a);
	case V_MACRO: return macro_call(r, f.u.macro, a);
	case V_LOOP: return loop_call(r, f.u.loop, a);
	case V_JOINER:
		if (!args_none(r, "joiner", a) || !f.u.cycler->at++)
			return val_z("");
		return f.u.cycler->items;
	default: val_refuse(r, "a call", f); return val_none;
	}
}

struct val eval_call(struct run *r, const struct node *n, const struct macro *caller)
{
	struct args a;
	const struct val f = tmpl_eval(r, n->a);

	if (r->failed || !eval_args(r, n, &a))
		return val_none;
	if (caller) {
		struct kwarg *kw = tmpl_alloc(r, a.n_kw + 1, sizeof *kw);
		if (!kw)
			return val_none;
		if (a.n_kw)
			memcpy(kw, a.kw, a.n_kw * sizeof *kw);
		kw[a.n_kw++] = (struct kwarg){
				val_z("caller"), {.type = V_MACRO, .u.macro = (struct macro *)(uintptr_t)caller}};
		a.kw = kw;
	}
	r->line = n->line;
	return call_value(r, f, &a);
}

/* ---- Macros ---- */

static bool bind_macro(struct run *r, const struct macro *m, const struct args *a, struct val *values, bool *used)
{
	const struct node *n = m->node;
	bool has_caller = false;

	for (uint32_t i = 0; i < n->n_more; i++) {
		const struct val name = n->more[i]->v;
		has_caller |= val_is_str(name, "caller");
		if (!tmpl_charge(r, a->n_kw / 16))
			return false;
		values[i] = i < a->n_pos ? a->pos[i] : val_missing;
		for (size_t k = 0; i >= a->n_pos && k < a->n_kw; k++)
			if (val_eq(r, a->kw[k].name, name)) {
				values[i] = a->kw[k].value;
				used[k] = true;
			}
	}
	for (uint32_t i = 0; i < n->n_more; i++) {
		const struct node *param = n->more[i];
		if (values[i].type == V_MISSING && param->a) {
			values[i] = tmpl_eval(r, param->a);
		} else if (values[i].type == V_MISSING) {
			values[i] = val_undefz(
					r, "the macro's parameter '%.*s' is not given", (int)param->v.n, param->v.u.s);
		}
		if (!scope_set(r, param->sym, values[i]))
			return false;
	}
	if (n->uses & USES_CALLER && !has_caller) {
		struct val caller = val_undefz(r, "nobody called this macro by a call block");
		for (size_t k = 0; k < a->n_kw; k++)
			if (val_is_str(a->kw[k].name, "caller") && !used[k]) {
				caller = a->kw[k].value;
				used[k] = true;
			}
		scope_set(r, SYM_CALLER, caller);
	}
	return !r->failed;
}

static bool bind_rest(struct run *r, const struct macro *m, const struct args *a, const bool *used)
{
	const struct node *n = m->node;
	struct val rest = val_dict(r);

	for (size_t k = 0; k < a->n_kw && !r->failed; k++) {
		if (used[k])
			continue;
		if (!(n->uses & USES_KWARGS))
			return tmpl_error(r, "macro '%.*s' takes no keyword argument '%.*s'", (int)m->name.n,
					m->name.u.s, (int)a->kw[k].name.n, a->kw[k].name.u.s);
		dict_set(r, rest.u.dict, a->kw[k].name, a->kw[k].value);
	}
	if (n->uses & USES_KWARGS)
		scope_set(r, SYM_KWARGS, rest);
	const size_t more = a->n_pos > n->n_more ? a->n_pos - n->n_more : 0;
	if (more && !(n->uses & USES_VARARGS))
		return tmpl_error(r, "macro '%.*s' takes not more than %u argument(s)", (int)m->name.n, m->name.u.s,
				n->n_more);
	if (n->uses & USES_VARARGS)
		scope_set(r, SYM_VARARGS, val_list(r, V_TUPLE, more, more ? a->pos + n->n_more : NULL));
	return !r->failed;
}

struct val macro_call(struct run *r, const struct macro *m, const struct args *a)
{
	struct scope *before = r->scope, *own = scope_open(r, m->scope);
	const size_t from = r->out.n;
	struct val *values = tmpl_alloc(r, m->node->n_more, sizeof *values);
	bool *used = tmpl_alloc(r, a->n_kw, sizeof *used);
	struct val v = val_none;

	if (!own || !values || !used || !tmpl_enter(r))
		return v;
	memset(used, 0, a->n_kw * sizeof *used);
	r->scope = own;
	if (bind_macro(r, m, a, values, used) && bind_rest(r, m, a, used) &&
			exec_root(r, m->node->list, m->node->n_list))
		v = out_cut(r, from);
	r->scope = before;
	tmpl_leave(r);
	return v;
}

/* ---- Operators ---- */

static struct val eval_compare(struct run *r, const struct node *n)
{
	struct val left = tmpl_eval(r, n->a);
	for (uint32_t i = 0; i < n->n_list && !r->failed; i++) {
		const struct val right = tmpl_eval(r, n->list[i]->a);
		if (r->failed || !op_compare(r, (enum op)n->list[i]->op, left, right))
			return val_bool(false);
		left = right;
	}
	return val_bool(true);
}

static struct val eval_concat(struct run *r, const struct node *n)
{
	/* All values before the text: no more than one text is under construction, and values may change each other. */
	struct val *v = tmpl_alloc(r, n->n_list, sizeof *v);
	struct bytes t = {0};

	for (uint32_t i = 0; i < n->n_list && !r->failed; i++)
		v[i] = tmpl_eval(r, n->list[i]);
	for (uint32_t i = 0; i < n->n_list && !r->failed; i++)
		show_str(r, &t, v[i]);
	return buf_val(r, &t);
}

static struct val eval_display(struct run *r, const struct node *n)
{
	if (n->type == N_DICT) {
		struct val d = val_dict(r);
		for (uint32_t i = 0; i + 1 < n->n_list && !r->failed; i += 2) {
			const struct val key = tmpl_eval(r, n->list[i]), value = tmpl_eval(r, n->list[i + 1]);
			if (!r->failed)
				dict_set(r, d.u.dict, key, value);
		}
		return d;
	}
	struct val v = val_list(r, n->type == N_LIST ? V_LIST : V_TUPLE, n->n_list, NULL);
	for (uint32_t i = 0; i < n->n_list && !r->failed; i++)
		v.u.items[i] = tmpl_eval(r, n->list[i]);
	return v;
}

static struct val eval_item(struct run *r, const struct node *n)
{
	const struct val obj = tmpl_eval(r, n->a);
	if (n->b->type != N_SLICE) {
		const struct val key = tmpl_eval(r, n->b);
		r->line = n->line;
		return r->failed ? val_none : op_item(r, obj, key);
	}
	const struct val lo = n->b->a ? tmpl_eval(r, n->b->a) : val_none,
			 hi = n->b->b ? tmpl_eval(r, n->b->b) : val_none;
	const struct val step = n->b->c ? tmpl_eval(r, n->b->c) : val_none;
	return r->failed ? val_none : op_slice(r, obj, lo, hi, step);
}

static struct val eval_cond(struct run *r, const struct node *n)
{
	const struct val test = tmpl_eval(r, n->a);

	if (r->failed)
		return val_none;
	if (val_truth(r, test))
		return tmpl_eval(r, n->b);
	if (n->c)
		return tmpl_eval(r, n->c);
	return val_undefz(r, "the if of line %u is false and has no else", n->line);
}

struct val eval_filter(struct run *r, const struct node *n, struct val v)
{
	struct args a;

	if (n->a) {
		if (!tmpl_charge(r, 1) || !tmpl_enter(r))
			return val_none;
		v = n->a->type == N_FILTER ? eval_filter(r, n->a, v) : tmpl_eval(r, n->a);
		tmpl_leave(r);
	}
	if (r->failed || !eval_args(r, n, &a))
		return val_none;
	r->line = n->line;
	return filter_call(r, n->known, n->v, v, &a);
}

static struct val eval_test(struct run *r, const struct node *n)
{
	struct args a;
	const struct val v = tmpl_eval(r, n->a);
	if (r->failed || !eval_args(r, n, &a))
		return val_none;
	r->line = n->line;
	return val_bool(test_call(r, n->known, n->v, v, &a));
}

static struct val eval_name(struct run *r, const struct node *n)
{
	const struct val v = scope_get(r, n->sym);
	return v.type == V_MISSING ? val_undef(r, val_missing, n->v) : v;
}

static struct val eval_logic(struct run *r, const struct node *n)
{
	const struct val v = tmpl_eval(r, n->a);
	if (r->failed)
		return val_none;
	const bool truth = val_truth(r, v);
	if (n->type == N_NOT)
		return val_bool(!truth);
	return truth == (n->type == N_OR) ? v : tmpl_eval(r, n->b);
}

static struct val eval_binary(struct run *r, const struct node *n)
{
	const struct val a = tmpl_eval(r, n->a), b = tmpl_eval(r, n->b);
	r->line = n->line;
	return r->failed ? val_none : op_binary(r, (enum op)n->op, a, b);
}

static struct val eval_unary(struct run *r, const struct node *n)
{
	const struct val v = tmpl_eval(r, n->a);
	if (r->failed)
		return val_none;
	return n->type == N_ATTR ? op_attr(r, v, n->v) : op_negate(r, v, n->type == N_NEG);
}

struct val tmpl_eval(struct run *r, const struct node *n)
{
	struct val v = val_none;

	/* A constant counts, too: a template may have a million of them in one place, and go there again and again. */
	if (!tmpl_charge(r, 1))
		return v;
	if (n->type == N_CONST)
		return n->v;
	if (!tmpl_enter(r))
		return v;
	r->line = n->line;
	switch ((enum node_type)n->type) {
	case N_NAME: v = eval_name(r, n); break;
	case N_TUPLE:
	case N_LIST:
	case N_DICT: v = eval_display(r, n); break;
	case N_COND: v = eval_cond(r, n); break;
	case N_AND:
	case N_OR:
	case N_NOT: v = eval_logic(r, n); break;
	case N_COMPARE: v = eval_compare(r, n); break;
	case N_BINARY: v = eval_binary(r, n); break;
	case N_CONCAT: v = eval_concat(r, n); break;
	case N_NEG:
	case N_POS:
	case N_ATTR: v = eval_unary(r, n); break;
	case N_ITEM: v = eval_item(r, n); break;
	case N_CALL: v = eval_call(r, n, NULL); break;
	case N_FILTER: v = eval_filter(r, n, val_none); break;
	case N_TEST: v = eval_test(r, n); break;
	default: tmpl_error(r, "a slice stands alone in its brackets"); break;
	}
	tmpl_leave(r);
	return v;
}
