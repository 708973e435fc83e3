/* Methods and attributes of what is no text: dicts, lists, macros, cyclers, numbers. What would change a list or dict
 * is an undefined value that says so, as in the sandbox that chat templates are written for. */
#include "template/tmpl.h"

#include <string.h>

/* ---- Dicts ---- */

static struct val view(struct run *r, struct val self, enum view_kind kind)
{
	struct view *v = tmpl_alloc(r, 1, sizeof *v);
	if (!v)
		return val_none;
	*v = (struct view){self.u.dict, kind};
	return (struct val){.type = V_VIEW, .u.view = v};
}

static struct val dict_items(struct run *r, struct val self, const struct args *a)
{
	return args_none(r, "dict.items", a) ? view(r, self, VIEW_ITEMS) : val_none;
}

static struct val dict_keys(struct run *r, struct val self, const struct args *a)
{
	return args_none(r, "dict.keys", a) ? view(r, self, VIEW_KEYS) : val_none;
}

static struct val dict_values(struct run *r, struct val self, const struct args *a)
{
	return args_none(r, "dict.values", a) ? view(r, self, VIEW_VALUES) : val_none;
}

static struct val dict_method_get(struct run *r, struct val self, const struct args *a)
{
	struct val v[2];
	if (a->n_kw)
		return tmpl_error(r, "dict.get() takes arguments by position"), val_none;
	if (!args_bind(r, "dict.get", a, "key default", 1, v))
		return val_none;
	const struct val found = dict_get(r, self.u.dict, v[0], true);
	return found.type != V_MISSING ? found : v[1].type == V_MISSING ? val_none : v[1];
}

static struct val dict_copy(struct run *r, struct val self, const struct args *a)
{
	struct val d = val_dict(r);
	if (!args_none(r, "dict.copy", a) || r->failed)
		return val_none;
	for (uint32_t i = 0; i < self.u.dict->n && !r->failed; i++)
		dict_set(r, d.u.dict, self.u.dict->pairs[i].key, self.u.dict->pairs[i].value);
	return d;
}

/* ---- Lists and tuples ---- */

static struct val seq_index(struct run *r, struct val self, const struct args *a)
{
	struct val v[3];
	if (!args_bind(r, "index", a, "value start stop", 1, v))
		return val_none;
	int64_t from = arg_int(r, v[1], 0), to = arg_int(r, v[2], self.n);
	from = from < 0 ? (from < -(int64_t)self.n ? 0 : from + self.n) : from;
	to = to < 0 ? to + self.n : to > self.n ? self.n : to;
	for (int64_t i = from; i < to && tmpl_charge(r, 1); i++)
		if (val_matches(r, self.u.items[i], v[0]))
			return val_int(i);
	tmpl_error(r, "the value is not in the list");
	return val_none;
}

static struct val seq_count(struct run *r, struct val self, const struct args *a)
{
	struct val v;
	int64_t n = 0;
	if (!args_bind(r, "count", a, "value", 1, &v))
		return val_none;
	for (uint32_t i = 0; i < self.n && tmpl_charge(r, 1); i++)
		n += val_matches(r, self.u.items[i], v);
	return val_int(n);
}

static struct val list_copy(struct run *r, struct val self, const struct args *a)
{
	return args_none(r, "copy", a) ? val_list(r, V_LIST, self.n, self.u.items) : val_none;
}

/* ---- Cyclers ---- */

static struct val cycler_next(struct run *r, struct val self, const struct args *a)
{
	struct cycler *c = self.u.cycler;
	if (!args_none(r, "next", a))
		return val_none;
	const struct val v = c->items.u.items[c->at];
	c->at = (c->at + 1) % c->items.n;
	return v;
}

static struct val cycler_reset(struct run *r, struct val self, const struct args *a)
{
	args_none(r, "reset", a);
	self.u.cycler->at = 0;
	return val_none;
}

/* ---- The tables ---- */

struct method {
	const char *name;
	struct val (*call)(struct run *, struct val, const struct args *);
};

static const struct method dict_methods[] = {{"items", dict_items}, {"keys", dict_keys}, {"values", dict_values},
		{"get", dict_method_get}, {"copy", dict_copy}, {NULL, NULL}};
static const struct method list_methods[] = {
		{"index", seq_index}, {"count", seq_count}, {"copy", list_copy}, {NULL, NULL}};
static const struct method tuple_methods[] = {{"index", seq_index}, {"count", seq_count}, {NULL, NULL}};
static const struct method cycler_methods[] = {{"next", cycler_next}, {"reset", cycler_reset}, {NULL, NULL}};

static struct val refused(struct run *r, struct val self, struct val name)
{
	static const char *const of_dict[] = {"clear", "pop", "popitem", "setdefault", "update", NULL};
	static const char *const of_list[] = {
			"append", "clear", "pop", "reverse", "insert", "sort", "extend", "remove", NULL};
	const char *const *names = self.type == V_DICT ? of_dict : of_list;

	for (; *names; names++)
		if (val_is_str(name, *names))
			return val_undefz(r, "%s() would change a %s, which templates may not", *names,
					val_type_name(self));
	return val_missing;
}

static struct val macro_attr(struct run *r, const struct macro *m, struct val name)
{
	struct list l = {0};
	if (val_is_str(name, "name"))
		return m->name;
	if (!val_is_str(name, "arguments"))
		return val_missing;
	for (uint32_t i = 0; i < m->node->n_more; i++)
		list_add(r, &l, m->node->more[i]->v);
	return list_val(r, &l, V_TUPLE);
}

struct val other_method(struct run *r, struct val self, struct val name)
{
	const struct method *m = NULL;

	switch ((enum val_type)self.type) {
	case V_DICT: m = dict_methods; break;
	case V_LIST: m = list_methods; break;
	case V_TUPLE: m = tuple_methods; break;
	case V_CYCLER:
		if (val_is_str(name, "current"))
			return self.u.cycler->items.u.items[self.u.cycler->at];
		m = cycler_methods;
		break;
	case V_MACRO: return macro_attr(r, self.u.macro, name);
	case V_RANGE:
		self = val_items(r, self);
		m = tuple_methods;
		break;
	case V_BOOL:
	case V_INT:
	case V_FLOAT:
		if (val_is_str(name, "real"))
			return self.type == V_BOOL ? val_int(self.u.b) : self;
		return val_is_str(name, "imag") ? (self.type == V_FLOAT ? val_float(0) : val_int(0)) : val_missing;
	default: return val_missing;
	}
	for (; m->name; m++)
		if (val_is_str(name, m->name))
			return val_func(r, m->name, m->call, self);
	return self.type == V_DICT || self.type == V_LIST ? refused(r, self, name) : val_missing;
}
