/* Filters of sequences and mappings. Where Jinja gives a generator, the items are worked out at once and handed over as
 * an iterator that can be walked once. */
#include "template/tmpl.h"

#include <string.h>

/* ---- Attributes by name: "a.b.0" ---- */

static struct val get_path(struct run *r, struct val v, struct val path, struct val fallback)
{
	if (path.type == V_MISSING || path.type == V_NONE)
		return v;
	if (path.type != V_STR) {
		v = op_item(r, v, path);
		return v.type == V_UNDEF && fallback.type != V_NONE && fallback.type != V_MISSING ? fallback : v;
	}
	for (uint32_t at = 0; at <= path.n && !r->failed;) {
		const char *dot = at < path.n ? memchr(path.u.s + at, '.', path.n - at) : NULL;
		const uint32_t end = dot ? (uint32_t)(dot - path.u.s) : path.n;
		const struct val part = val_bytes(path.u.s + at, end - at);
		int64_t i;
		bool overflow, digits = part.n > 0;
		for (uint32_t k = 0; k < part.n; k++)
			digits &= part.u.s[k] >= '0' && part.u.s[k] <= '9';
		v = op_item(r, v, digits && num_int(part.u.s, part.n, 10, &i, &overflow) ? val_int(i) : part);
		if (v.type == V_UNDEF && fallback.type != V_NONE && fallback.type != V_MISSING)
			v = fallback;
		at = end + 1;
		tmpl_charge(r, 1 + part.n / 64);
	}
	return v;
}

static struct val fold(struct run *r, struct val v, bool case_sensitive)
{
	return v.type == V_STR && !case_sensitive ? str_case(r, v, 'l') : v;
}

/* A list of what the attributes "a,b" give. */
static struct val sort_key(struct run *r, struct val v, struct val attribute, bool case_sensitive)
{
	struct list l = {0};
	if (attribute.type == V_STR) {
		const struct val parts = str_split(r, attribute, val_z(","), -1, false);
		for (uint32_t i = 0; i < parts.n && !r->failed; i++)
			list_add(r, &l, fold(r, get_path(r, v, parts.u.items[i], val_none), case_sensitive));
	} else {
		list_add(r, &l, fold(r, get_path(r, v, attribute, val_none), case_sensitive));
	}
	return list_val(r, &l, V_LIST);
}

/* ---- Ordering ---- */

/* A copy whose items may be moved. */
static struct val own_items(struct run *r, struct val v)
{
	const struct val items = val_items(r, v);
	return r->failed ? items : val_list(r, V_LIST, items.n, items.u.items);
}

FILTER(sort)
{
	const bool reverse = arg_bool(r, w[0], false), exact = arg_bool(r, w[1], false);
	struct val items = own_items(r, v);
	struct val *keys = r->failed ? NULL : tmpl_alloc(r, items.n, sizeof *keys);
	for (uint32_t i = 0; keys && i < items.n && !r->failed; i++)
		keys[i] = sort_key(r, items.u.items[i], w[2], exact);
	if (!r->failed)
		val_sort(r, keys, items.u.items, items.n, reverse);
	return items;
}

FILTER(dictsort)
{
	if (v.type != V_DICT)
		return val_refuse(r, "dictsort", v), val_none;
	const bool exact = arg_bool(r, w[0], false), by_value = val_is_str(w[1], "value");
	if (w[1].type != V_MISSING && !by_value && !val_is_str(w[1], "key"))
		return tmpl_error(r, "dictsort goes by \"key\" or by \"value\""), val_none;
	const uint32_t n = v.u.dict->n;
	struct val items = val_list(r, V_LIST, n, NULL), *keys = tmpl_alloc(r, n, sizeof *keys);
	for (uint32_t i = 0; i < n && !r->failed; i++) {
		const struct pair *p = &v.u.dict->pairs[i];
		items.u.items[i] = val_pair(r, p->key, p->value);
		keys[i] = fold(r, by_value ? p->value : p->key, exact);
	}
	if (!r->failed)
		val_sort(r, keys, items.u.items, n, arg_bool(r, w[2], false));
	return items;
}

static struct val extreme(struct run *r, struct val v, const struct val w[2], const char *name, int sign)
{
	struct val best = val_missing, best_key = val_missing, item;
	struct iter it;

	if (!iter_init(r, &it, v))
		return val_none;
	const bool exact = arg_bool(r, w[0], false);
	while (iter_next(r, &it, &item)) {
		const struct val key = fold(r, get_path(r, item, w[1], val_none), exact);
		if (best.type == V_MISSING || val_cmp(r, key, best_key) * sign > 0) {
			best = item;
			best_key = key;
		}
	}
	return best.type == V_MISSING ? val_undefz(r, "%s of nothing", name) : best;
}

FILTER_IS(min, extreme(r, v, w, "min", -1))
FILTER_IS(max, extreme(r, v, w, "max", 1))

FILTER(unique)
{
	struct val item;
	struct iter it;
	struct list l = {0};

	const bool exact = arg_bool(r, w[0], false);
	struct val seen = val_dict(r);
	iter_init(r, &it, v);
	while (iter_next(r, &it, &item)) {
		const struct val key = fold(r, get_path(r, item, w[1], val_none), exact);
		if (r->failed || dict_get(r, seen.u.dict, key, true).type != V_MISSING)
			continue;
		dict_set(r, seen.u.dict, key, val_none);
		list_add(r, &l, item);
	}
	return val_generator(r, &l);
}

FILTER(groupby)
{
	struct list groups = {0};

	const bool exact = arg_bool(r, w[2], false);
	struct val items = own_items(r, v);
	struct val *keys = r->failed ? NULL : tmpl_alloc(r, items.n, sizeof *keys);
	for (uint32_t i = 0; keys && i < items.n && !r->failed; i++)
		keys[i] = fold(r, get_path(r, items.u.items[i], w[0], w[1]), exact);
	if (r->failed || !val_sort(r, keys, items.u.items, items.n, false))
		return val_none;
	for (uint32_t i = 0, end; i < items.n && !r->failed; i = end) {
		for (end = i + 1; end < items.n && val_eq(r, keys[i], keys[end]);)
			end++;
		const struct val key = exact ? keys[i] : get_path(r, items.u.items[i], w[0], w[1]);
		struct val g = val_pair(r, key, val_list(r, V_LIST, end - i, items.u.items + i));
		g.flag = F_GROUP;
		list_add(r, &groups, g);
	}
	return list_val(r, &groups, V_LIST);
}

FILTER(reverse)
{
	if (v.type == V_STR)
		return op_slice(r, v, val_none, val_none, val_int(-1));
	struct val items = own_items(r, v);
	if (r->failed)
		return val_none;
	list_reverse(&(struct list){items.u.items, items.n, items.n});
	return v.type == V_ITER ? items : val_iter(r, items, v.type == V_LIST ? "list_reverseiterator" : "reversed");
}

/* ---- Parts ---- */

FILTER(first)
{
	struct iter it;
	struct val item;
	if (!iter_init(r, &it, v))
		return val_none;
	return iter_next(r, &it, &item) ? item : val_undefz(r, "first of nothing");
}

FILTER(last)
{
	if (!val_is_iterable(v) || v.type == V_ITER || v.type == V_LOOP)
		return val_refuse(r, "last", v), val_none;
	const struct val items = val_items(r, v);
	if (r->failed)
		return val_none;
	return items.n ? items.u.items[items.n - 1] : val_undefz(r, "last of nothing");
}

FILTER_IS(length, args_none(r, "len", a) ? val_int(val_len(r, v)) : val_none)
FILTER_IS(list, own_items(r, v))

FILTER(items)
{
	struct list l = {0};
	if (v.type != V_DICT && v.type != V_UNDEF)
		tmpl_error(r, "items needs a dict");
	for (uint32_t i = 0; v.type == V_DICT && i < v.u.dict->n && tmpl_charge(r, 1); i++)
		list_add(r, &l, val_pair(r, v.u.dict->pairs[i].key, v.u.dict->pairs[i].value));
	return val_generator(r, &l);
}

FILTER(batch)
{
	struct val item;
	struct list all = {0}, part = {0};
	struct iter it;

	const int64_t n = arg_int(r, w[0], 0);
	iter_init(r, &it, v);
	while (!r->failed && iter_next(r, &it, &item)) {
		if ((int64_t)part.n == n) {
			list_add(r, &all, list_val(r, &part, V_LIST));
			part = (struct list){0};
		}
		list_add(r, &part, item);
	}
	if (part.n && w[1].type != V_MISSING && w[1].type != V_NONE)
		while ((int64_t)part.n < n && tmpl_charge(r, 1) && list_add(r, &part, w[1]))
			continue;
	if (part.n)
		list_add(r, &all, list_val(r, &part, V_LIST));
	return val_generator(r, &all);
}

FILTER(slice)
{
	struct list all = {0};

	const int64_t n = arg_int(r, w[0], 0);
	const struct val items = val_items(r, v);
	if (!r->failed && !n)
		tmpl_error(r, "slice into 0 parts");
	if (r->failed)
		return val_generator(r, &all);
	const int64_t each = n > 0 ? items.n / n : 0, more = n > 0 ? items.n % n : 0;
	uint32_t at = 0;
	for (int64_t i = 0; i < n && tmpl_charge(r, 1); i++) {
		struct list part = {0};
		for (int64_t k = 0; k < each + (i < more) && !r->failed; k++)
			list_add(r, &part, items.u.items[at++]);
		if (w[1].type != V_MISSING && w[1].type != V_NONE && i >= more)
			list_add(r, &part, w[1]);
		list_add(r, &all, list_val(r, &part, V_LIST));
	}
	return val_generator(r, &all);
}

/* ---- Together ---- */

FILTER(join)
{
	struct val item;
	struct list l = {0};
	struct iter it;

	const struct val sep = w[0].type == V_MISSING ? val_z("") : val_str(r, w[0]);
	if (w[1].type == V_MISSING || w[1].type == V_NONE)
		return str_join(r, sep, v, true);
	if (!iter_init(r, &it, v))
		return val_none;
	while (iter_next(r, &it, &item))
		list_add(r, &l, get_path(r, item, w[1], val_none));
	return r->failed ? val_none : str_join(r, sep, list_val(r, &l, V_LIST), true);
}

FILTER(sum)
{
	struct val item;
	struct iter it;

	if (!iter_init(r, &it, v))
		return val_none;
	struct val total = w[1].type == V_MISSING ? val_int(0) : w[1];
	if (total.type == V_STR)
		return tmpl_error(r, "sum does not add texts; join does"), val_none;
	while (!r->failed && iter_next(r, &it, &item))
		total = op_binary(r, OP_ADD, total, get_path(r, item, w[0], val_none));
	return total;
}

/* ---- By a filter or test that is named ---- */

static struct args rest_of(const struct args *a, size_t skip)
{
	struct args out = *a;
	out.pos = a->n_pos > skip ? a->pos + skip : NULL;
	out.n_pos = a->n_pos > skip ? a->n_pos - skip : 0;
	return out;
}

FILTER(map)
{
	struct val path = val_missing, fallback = val_none, item;
	struct list l = {0};
	struct iter it;
	const struct args rest = rest_of(a, 1);
	int32_t filter = -1;

	if (!val_truth(r, v))
		return val_generator(r, &l);
	if (!a->n_pos) {
		for (size_t i = 0; i < a->n_kw; i++)
			if (val_is_str(a->kw[i].name, "attribute"))
				path = a->kw[i].value;
			else if (val_is_str(a->kw[i].name, "default"))
				fallback = a->kw[i].value;
			else
				tmpl_error(r, "map knows attribute and default by name, nothing else");
		if (path.type == V_MISSING)
			tmpl_error(r, "map needs a filter or an attribute");
	} else if (a->pos[0].type == V_STR) {
		filter = filter_find(a->pos[0].u.s, a->pos[0].n);
	}
	if (!iter_init(r, &it, v) || !tmpl_enter(r))
		return val_generator(r, &l);
	while (!r->failed && iter_next(r, &it, &item))
		list_add(r, &l,
				a->n_pos ? filter_call(r, filter, val_str(r, a->pos[0]), item, &rest)
					 : get_path(r, item, path, fallback));
	tmpl_leave(r);
	return val_generator(r, &l);
}

static struct val choose(struct run *r, struct val v, const struct args *a, bool by_attr, bool want)
{
	const struct args rest = rest_of(a, by_attr ? 2 : 1);
	struct list l = {0};
	struct iter it;
	struct val item;
	int32_t test = -1;

	if (!val_truth(r, v))
		return val_generator(r, &l);
	if (by_attr && !a->n_pos)
		return tmpl_error(r, "the name of an attribute is missing"), val_generator(r, &l);
	const bool named = a->n_pos > (by_attr ? 1u : 0u);
	const struct val name = named ? a->pos[by_attr ? 1 : 0] : val_none;
	if (named && name.type == V_STR)
		test = test_find(name.u.s, name.n);
	iter_init(r, &it, v);
	while (!r->failed && iter_next(r, &it, &item)) {
		const struct val x = by_attr ? get_path(r, item, a->pos[0], val_none) : item;
		if (r->failed)
			break;
		const bool yes = named ? test_call(r, test, val_str(r, name), x, &rest) : val_truth(r, x);
		if (yes == want)
			list_add(r, &l, item);
	}
	return val_generator(r, &l);
}

FILTER_IS(select, choose(r, v, a, false, true))
FILTER_IS(reject, choose(r, v, a, false, false))
FILTER_IS(selectattr, choose(r, v, a, true, true))
FILTER_IS(rejectattr, choose(r, v, a, true, false))

const struct method seq_filters[] = {{"batch", filter_batch, "linecount ?fill_with"}, {"count", filter_length, NULL},
		{"dictsort", filter_dictsort, "?case_sensitive ?by ?reverse"}, {"first", filter_first, ""},
		{"groupby", filter_groupby, "attribute ?default ?case_sensitive"}, {"items", filter_items, ""},
		{"join", filter_join, "?d ?attribute"}, {"last", filter_last, ""}, {"length", filter_length, NULL},
		{"list", filter_list, ""}, {"map", filter_map, NULL}, {"max", filter_max, "?case_sensitive ?attribute"},
		{"min", filter_min, "?case_sensitive ?attribute"}, {"reject", filter_reject, NULL},
		{"rejectattr", filter_rejectattr, NULL}, {"reverse", filter_reverse, ""},
		{"select", filter_select, NULL}, {"selectattr", filter_selectattr, NULL},
		{"slice", filter_slice, "slices ?fill_with"},
		{"sort", filter_sort, "?reverse ?case_sensitive ?attribute"}, {"sum", filter_sum, "?attribute ?start"},
		{"unique", filter_unique, "?case_sensitive ?attribute"}, {NULL, NULL, NULL}};
