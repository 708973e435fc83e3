/* Statements: running the nodes of a body, loops and what `loop` offers.
 *
 * Invariants
 *  1. Scopes: a loop has one for each turn; macros, call blocks, with, block set, filter and generation have one each;
 *     if has none.
 *  2. A loop looks one item ahead only when it is asked whether there is one, as the data of a filter that is still
 *     running may depend on what the body does. */
#include "template/tmpl.h"

#include <string.h>

struct loop {
	const struct node *node;
	struct scope *outer, *filter_scope; /* filter_scope: of the condition, used again and again */
	struct iter it;
	struct val iterable; /* what length is asked of; V_MISSING when it has none */
	int64_t index0, length; /* length: -1 while unknown */
	uint32_t depth0;
	struct val before, current, after; /* V_MISSING: none */
	struct val changed;
};

enum flow { FLOW_ON, FLOW_BREAK, FLOW_CONTINUE, FLOW_FAIL };

static enum flow exec_body(struct run *r, struct node *const *body, size_t n);

/* ---- Loops ---- */

/* The next item that the filter lets through. */
static bool pull(struct run *r, struct loop *l, struct val *out)
{
	const struct node *n = l->node;
	struct scope *before = r->scope;

	while (iter_next(r, &l->it, out)) {
		if (!n->c || l->iterable.type == V_NONE)
			return true;
		if (!l->filter_scope)
			l->filter_scope = scope_open(r, l->outer);
		r->scope = l->filter_scope;
		bool take = false;
		if (r->scope)
			r->scope->n = 0;
		if (r->scope && tmpl_assign(r, n->a, *out)) {
			const struct val v = tmpl_eval(r, n->c);
			take = !r->failed && val_truth(r, v);
		}
		r->scope = before;
		if (take)
			return true;
	}
	return false;
}

static bool peek(struct run *r, struct loop *l)
{
	if (l->after.type != V_MISSING)
		return true;
	return pull(r, l, &l->after) || ((l->after = val_missing), false);
}

int64_t loop_length(struct run *r, struct loop *l)
{
	struct list rest = {0};
	struct val v;

	if (l->length >= 0)
		return l->length;
	if (!l->node->c && val_is_sized(l->iterable)) {
		l->length = val_len(r, l->iterable);
		return l->length;
	}
	/* What is left is walked over and kept; it has passed the filter then. */
	while (pull(r, l, &v))
		list_add(r, &rest, v);
	l->length = rest.n + l->index0 + 1 + (l->after.type != V_MISSING);
	iter_init(r, &l->it, list_val(r, &rest, V_LIST));
	l->iterable = val_none;
	return l->length;
}

METHOD(loop_cycle, self)
{
	if (!a->n_pos)
		return tmpl_error(r, "cycle() needs an item"), val_none;
	return a->pos[(size_t)self.u.loop->index0 % a->n_pos];
}

METHOD(loop_changed, self)
{
	const struct val v = val_list(r, V_TUPLE, a->n_pos, a->pos);
	if (self.u.loop->changed.type != V_MISSING && val_eq(r, self.u.loop->changed, v))
		return val_bool(false);
	self.u.loop->changed = v;
	return val_bool(true);
}

struct val loop_attr(struct run *r, struct loop *l, struct val name)
{
	static const struct method methods[] = {
			{"cycle", loop_cycle, NULL}, {"changed", loop_changed, NULL}, {NULL, NULL, NULL}};
	const struct val self = {.type = V_LOOP, .u.loop = l};
	if (val_is_str(name, "index"))
		return val_int(l->index0 + 1);
	if (val_is_str(name, "index0"))
		return val_int(l->index0);
	if (val_is_str(name, "first"))
		return val_bool(l->index0 == 0);
	if (val_is_str(name, "last"))
		return val_bool(!peek(r, l));
	if (val_is_str(name, "length"))
		return val_int(loop_length(r, l));
	if (val_is_str(name, "revindex"))
		return val_int(loop_length(r, l) - l->index0);
	if (val_is_str(name, "revindex0"))
		return val_int(loop_length(r, l) - l->index0 - 1);
	if (val_is_str(name, "depth"))
		return val_int((int64_t)l->depth0 + 1);
	if (val_is_str(name, "depth0"))
		return val_int(l->depth0);
	if (val_is_str(name, "previtem"))
		return l->index0 ? l->before : val_undefz(r, "no item was before this one");
	if (val_is_str(name, "nextitem"))
		return peek(r, l) ? l->after : val_undefz(r, "no item follows");
	return method_of(r, methods, self, name);
}

bool show_loop(struct run *r, struct bytes *t, struct loop *l)
{
	char buf[32];
	buf_addz(r, t, "<LoopContext ");
	buf_add(r, t, buf, num_dec(l->index0 + 1, buf));
	buf_addz(r, t, "/");
	buf_add(r, t, buf, num_dec(loop_length(r, l), buf));
	return buf_addz(r, t, ">");
}

static enum flow exec_turns(struct run *r, struct loop *l, bool *completed)
{
	const struct node *n = l->node;
	struct scope *own = NULL;
	struct val v;

	for (;;) {
		if (l->after.type != V_MISSING)
			v = l->after;
		else if (!pull(r, l, &v))
			break;
		l->after = val_missing;
		l->index0++;
		l->before = l->current;
		l->current = v;
		if (!own || n->uses) /* a macro of this turn may still look at its scope later */
			own = scope_open(r, l->outer);
		r->scope = own;
		if (own)
			own->n = 0;
		if (!r->scope || !scope_set(r, SYM_LOOP, (struct val){.type = V_LOOP, .u.loop = l}) ||
				!tmpl_assign(r, n->a, v))
			return FLOW_FAIL;
		const enum flow flow = exec_body(r, n->list, n->n_list);
		if (flow == FLOW_FAIL)
			return flow;
		*completed |= flow == FLOW_ON;
		if (flow == FLOW_BREAK)
			break;
	}
	return r->failed ? FLOW_FAIL : FLOW_ON;
}

static enum flow exec_for(struct run *r, const struct node *n, struct val over, struct scope *outer, uint32_t depth0)
{
	struct loop *l = tmpl_alloc(r, 1, sizeof *l);
	struct scope *before = r->scope;
	bool completed = false;

	if (!l)
		return FLOW_FAIL;
	*l = (struct loop){.node = n, .outer = outer, .iterable = over, .index0 = -1, .length = -1, .depth0 = depth0};
	if (!iter_init(r, &l->it, over))
		return FLOW_FAIL;
	enum flow flow = exec_turns(r, l, &completed);
	/* A turn that was cut short does not count as one, as Jinja has it. */
	if (flow == FLOW_ON && !completed && n->n_more) {
		r->scope = scope_open(r, outer);
		flow = r->scope ? exec_body(r, n->more, n->n_more) : FLOW_FAIL;
	}
	r->scope = before;
	return flow;
}

struct val loop_call(struct run *r, struct loop *l, const struct args *a)
{
	struct val over, v = val_none;
	const size_t from = r->out.n;

	if (!l->node->flag)
		return tmpl_error(r, "only a loop that is marked recursive can be called"), v;
	if (!args_bind(r, "loop", a, "iterable", &over) || !tmpl_enter(r))
		return v;
	if (exec_for(r, l->node, over, l->outer, l->depth0 + 1) != FLOW_FAIL)
		v = out_cut(r, from);
	tmpl_leave(r);
	return v;
}

/* ---- The others ---- */

static enum flow exec_if(struct run *r, const struct node *n)
{
	for (uint32_t i = 0; i < n->n_list; i++) {
		const struct node *b = n->list[i];
		if (b->a) {
			const struct val v = tmpl_eval(r, b->a);
			if (r->failed)
				return FLOW_FAIL;
			if (!val_truth(r, v))
				continue;
		}
		return exec_body(r, b->list, b->n_list);
	}
	return FLOW_ON;
}

/* A body in a scope of its own; its text stays in the output. */
static enum flow exec_scoped(struct run *r, const struct node *n)
{
	struct scope *before = r->scope, *own = scope_open(r, before);
	if (!own)
		return FLOW_FAIL;
	if (n->type == N_WITH) /* the values see what is around */
		for (uint32_t i = 0; i + 1 < n->n_more && !r->failed; i += 2) {
			const struct val v = tmpl_eval(r, n->more[i + 1]);
			r->scope = own;
			if (!r->failed)
				tmpl_assign(r, n->more[i], v);
			r->scope = before;
		}
	r->scope = own;
	const enum flow flow = r->failed ? FLOW_FAIL : exec_body(r, n->list, n->n_list);
	r->scope = before;
	return flow;
}

static enum flow exec_captured(struct run *r, const struct node *n)
{
	const size_t from = r->out.n;
	const enum flow flow = exec_scoped(r, n);

	if (flow != FLOW_ON) { /* a loop that is left here forgets the text */
		if (flow != FLOW_FAIL)
			r->out.n = from;
		return flow;
	}
	struct val v = out_cut(r, from);
	const struct node *filters = n->type == N_SETBLOCK ? n->b : n->a;
	if (filters && !r->failed)
		v = eval_filter(r, filters, v);
	if (r->failed)
		return FLOW_FAIL;
	if (n->type == N_SETBLOCK)
		return tmpl_assign(r, n->a, v) ? FLOW_ON : FLOW_FAIL;
	v = val_str(r, v);
	return out_add(r, v.u.s, v.n) ? FLOW_ON : FLOW_FAIL;
}

static struct macro *macro_of(struct run *r, const struct node *n)
{
	struct macro *m = tmpl_alloc(r, 1, sizeof *m);
	if (m)
		*m = (struct macro){n, r->scope, n->v};
	return m;
}

static bool exec_macro(struct run *r, const struct node *n)
{
	struct macro *m = macro_of(r, n);
	return m && scope_set(r, n->sym, (struct val){.type = V_MACRO, .u.macro = m});
}

static bool print(struct run *r, struct val v)
{
	if (r->failed)
		return false;
	if (v.type == V_STR)
		return out_add(r, v.u.s, v.n);
	const struct val s = val_str(r, v);
	return !r->failed && out_add(r, s.u.s, s.n);
}

static bool exec_call_block(struct run *r, const struct node *n)
{
	const struct macro *m = macro_of(r, n);
	return m && print(r, eval_call(r, n->a, m));
}

static enum flow exec(struct run *r, const struct node *n)
{
	bool ok = true;

	r->line = n->line;
	switch ((enum node_type)n->type) {
	case N_TEXT: ok = out_add(r, n->v.u.s, n->v.n); break;
	case N_PRINT: ok = print(r, tmpl_eval(r, n->a)); break;
	case N_DO:
		tmpl_eval(r, n->a);
		ok = !r->failed;
		break;
	case N_IF: return exec_if(r, n);
	case N_FOR: {
		const struct val over = tmpl_eval(r, n->b);
		return r->failed ? FLOW_FAIL : exec_for(r, n, over, r->scope, 0);
	}
	case N_SET: {
		const struct val v = tmpl_eval(r, n->b);
		ok = tmpl_assign(r, n->a, v);
		break;
	}
	case N_MACRO: ok = exec_macro(r, n); break;
	case N_CALLBLOCK: ok = exec_call_block(r, n); break;
	case N_AUTOESCAPE: {
		const struct val v = tmpl_eval(r, n->a);
		if (!r->failed && val_truth(r, v))
			tmpl_fail(r, COHORT_E_UNSUPPORTED, "automatic escaping is not supported");
		return r->failed ? FLOW_FAIL : exec_scoped(r, n);
	}
	case N_WITH:
	case N_SCOPE: return exec_scoped(r, n);
	case N_SETBLOCK:
	case N_FILTERBLOCK: return exec_captured(r, n);
	case N_BREAK: return FLOW_BREAK;
	case N_CONTINUE: return FLOW_CONTINUE;
	default: ok = tmpl_fail(r, COHORT_E_BUG, "no such statement"); break;
	}
	return ok ? FLOW_ON : FLOW_FAIL;
}

static enum flow exec_body(struct run *r, struct node *const *body, size_t n)
{
	enum flow flow = FLOW_ON;
	if (!tmpl_enter(r))
		return FLOW_FAIL;
	for (size_t i = 0; i < n && flow == FLOW_ON; i++)
		flow = tmpl_charge(r, 1) ? exec(r, body[i]) : FLOW_FAIL;
	tmpl_leave(r);
	return r->failed ? FLOW_FAIL : flow;
}

bool exec_root(struct run *r, struct node *const *body, size_t n)
{
	return exec_body(r, body, n) != FLOW_FAIL;
}
