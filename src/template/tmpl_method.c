/* Methods and attributes of what is no text: dicts, lists, macros, cyclers, numbers. What would change a list or dict
 * is an undefined value that says so, as in the sandbox that chat templates are written for. */
#include "template/tmpl.h"

#include <string.h>

/* ---- Dicts ---- */

static struct val view(struct run *r, struct val self, enum view_kind kind)
{
	return val_own(r, V_VIEW, &(struct view){self.u.dict, kind}, sizeof(struct view));
}

METHOD_IS(dict_items, args_none(r, "dict.items", a) ? view(r, self, VIEW_ITEMS) : val_none)
METHOD_IS(dict_keys, args_none(r, "dict.keys", a) ? view(r, self, VIEW_KEYS) : val_none)
METHOD_IS(dict_values, args_none(r, "dict.values", a) ? view(r, self, VIEW_VALUES) : val_none)

METHOD(dict_method_get, self)
{
	struct val v[2];
	if (a->n_kw)
		return tmpl_error(r, "dict.get() takes arguments by position"), val_none;
	if (!args_bind(r, "dict.get", a, "key ?default", v))
		return val_none;
	const struct val found = dict_get(r, self.u.dict, v[0], true);
	return found.type != V_MISSING ? found : v[1].type == V_MISSING ? val_none : v[1];
}

METHOD(dict_copy, self)
{
	struct val d = val_dict(r);
	if (!args_none(r, "dict.copy", a) || r->failed)
		return val_none;
	for (uint32_t i = 0; i < self.u.dict->n && !r->failed; i++)
		dict_set(r, d.u.dict, self.u.dict->pairs[i].key, self.u.dict->pairs[i].value);
	return d;
}

/* ---- Lists and tuples ---- */

METHOD(seq_index, self)
{
	int64_t from = arg_int(r, w[1], 0), to = arg_int(r, w[2], self.n);
	from = from < 0 ? (from < -(int64_t)self.n ? 0 : from + self.n) : from;
	to = to < 0 ? to + self.n : to > self.n ? self.n : to;
	for (int64_t i = from; i < to && tmpl_charge(r, 1); i++)
		if (val_matches(r, self.u.items[i], w[0]))
			return val_int(i);
	tmpl_error(r, "the value is not in the list");
	return val_none;
}

METHOD(seq_count, self)
{
	int64_t n = 0;
	for (uint32_t i = 0; i < self.n && tmpl_charge(r, 1); i++)
		n += val_matches(r, self.u.items[i], w[0]);
	return val_int(n);
}

METHOD_IS(list_copy, val_list(r, V_LIST, self.n, self.u.items))

/* ---- Cyclers ---- */

METHOD(cycler_next, self)
{
	struct cycler *c = self.u.cycler;
	const struct val v = c->items.u.items[c->at];
	c->at = (c->at + 1) % c->items.n;
	return v;
}

METHOD(cycler_reset, self)
{
	args_none(r, "reset", a);
	self.u.cycler->at = 0;
	return val_none;
}

/* ---- The tables ---- */

static const struct method dict_methods[] = {{"items", dict_items, NULL}, {"keys", dict_keys, NULL},
		{"values", dict_values, NULL}, {"get", dict_method_get, NULL}, {"copy", dict_copy, NULL},
		{NULL, NULL, NULL}};
static const struct method list_methods[] = {{"index", seq_index, "value ?start ?stop"}, {"count", seq_count, "value"},
		{"copy", list_copy, ""}, {NULL, NULL, NULL}};
static const struct method tuple_methods[] = {
		{"index", seq_index, "value ?start ?stop"}, {"count", seq_count, "value"}, {NULL, NULL, NULL}};
static const struct method cycler_methods[] = {
		{"next", cycler_next, ""}, {"reset", cycler_reset, NULL}, {NULL, NULL, NULL}};

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
	const struct val found = method_of(r, m, self, name);
	const bool may_refuse = found.type == V_MISSING && (self.type == V_DICT || self.type == V_LIST);
	return may_refuse ? refused(r, self, name) : found;
}
