/* Values: making them, comparing them, walking over them, as Python does with what they stand for.
 *
 * Invariants
 *  1. Values never change, but for namespaces, iterators, loops, cyclers and joiners. So nothing but a namespace can
 *     contain itself, and walks into values are bounded by the run's depth.
 *  2. Numbers that are equal have the same hash, whatever their type. */
#include "template/tmpl.h"

#include "base/mem.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

const struct val val_none = {.type = V_NONE}, val_missing = {.type = V_MISSING};

/* ---- Making ---- */

struct val val_bool(bool b)
{
	return (struct val){.type = V_BOOL, .u.b = b};
}

struct val val_int(int64_t i)
{
	return (struct val){.type = V_INT, .u.i = i};
}

struct val val_float(double f)
{
	return (struct val){.type = V_FLOAT, .u.f = f};
}

struct val val_bytes(const char *s, size_t n)
{
	return (struct val){.type = V_STR, .n = (uint32_t)n, .u.s = s};
}

struct val val_z(const char *s)
{
	return val_bytes(s, strlen(s));
}

struct val val_copy(struct run *r, const char *s, size_t n)
{
	char *p = tmpl_bytes(r, n);
	if (!p)
		return val_z("");
	if (n)
		memcpy(p, s, n);
	return val_bytes(p, n);
}

struct val val_list(struct run *r, enum val_type type, size_t n, const struct val *items)
{
	struct val *p = tmpl_alloc(r, n ? n : 1, sizeof *p);
	if (!p || n > UINT32_MAX)
		return val_none;
	if (items && n)
		memcpy(p, items, n * sizeof *p);
	return (struct val){.type = (uint8_t)type, .n = (uint32_t)n, .u.items = p};
}

struct val val_pair(struct run *r, struct val a, struct val b)
{
	const struct val both[2] = {a, b};
	return val_list(r, V_TUPLE, 2, both);
}

struct val val_own(struct run *r, enum val_type type, const void *what, size_t size)
{
	void *p = tmpl_alloc(r, 1, size);
	if (!p)
		return val_none;
	memcpy(p, what, size);
	return (struct val){.type = (uint8_t)type, .u.p = p};
}

struct val val_iter(struct run *r, struct val of, const char *name)
{
	return val_own(r, V_ITER, &(struct iter){.of = of, .name = name}, sizeof(struct iter));
}

struct val val_generator(struct run *r, const struct list *l)
{
	const char *error = NULL;
	if (r->failed && r->status == COHORT_E_ARG) {
		r->failed = false;
		error = val_copy(r, r->message, strlen(r->message) + 1).u.s;
	}
	const struct val v = val_iter(r, list_val(r, l, V_LIST), "generator");
	if (!r->failed)
		v.u.iter->error = error;
	return v;
}

struct val val_dict(struct run *r)
{
	return val_own(r, V_DICT, &(struct dict){0}, sizeof(struct dict));
}

struct val val_undef(struct run *r, struct val obj, struct val name)
{
	return val_own(r, V_UNDEF, &(struct undef){NULL, obj, name}, sizeof(struct undef));
}

struct val val_undefz(struct run *r, const char *fmt, ...)
{
	char hint[300];
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(hint, sizeof hint, fmt, ap);
	va_end(ap);
	const struct val v = val_undef(r, val_missing, val_none);
	if (!r->failed)
		v.u.undef->hint = val_copy(r, hint, strlen(hint) + 1).u.s;
	return v;
}

bool undef_fail(struct run *r, struct val v)
{
	const struct undef *u = v.u.undef;
	struct bytes t = {0};

	if (u->hint)
		return tmpl_error(r, "%s", u->hint);
	show_repr(r, &t, u->name, false);
	const int n = (int)(t.n < 100 ? t.n : 100);
	if (u->obj.type == V_MISSING)
		tmpl_error(r, "%.*s is not defined", n, t.p ? t.p : "");
	else
		tmpl_error(r, "a value of type '%s' has no %.*s", val_type_name(u->obj), n, t.p ? t.p : "");
	bytes_release(&t);
	return false;
}

bool val_refuse(struct run *r, const char *what, struct val v)
{
	return v.type == V_UNDEF ? undef_fail(r, v)
				 : tmpl_error(r, "%s does not work on a value of type '%s'", what, val_type_name(v));
}

/* ---- Looking ---- */

bool val_is_str(struct val v, const char *s)
{
	return v.type == V_STR && v.n == strlen(s) && memcmp(v.u.s, s, v.n) == 0;
}

bool val_is_number(struct val v)
{
	return val_is_int(v) || v.type == V_FLOAT;
}

double val_number(struct val v)
{
	return v.type == V_FLOAT ? v.u.f : (double)val_whole(v);
}

bool val_is_int(struct val v)
{
	return v.type == V_BOOL || v.type == V_INT;
}

int64_t val_whole(struct val v)
{
	return v.type == V_INT ? v.u.i : v.u.b;
}

bool val_truth(struct run *r, struct val v)
{
	switch ((enum val_type)v.type) {
	case V_MISSING:
	case V_UNDEF:
	case V_NONE: return false;
	case V_BOOL: return v.u.b;
	case V_INT: return v.u.i != 0;
	case V_FLOAT: return v.u.f != 0;
	case V_STR:
	case V_LIST:
	case V_TUPLE: return v.n != 0;
	case V_DICT: return v.u.dict->n != 0;
	case V_RANGE: return v.u.range->n != 0;
	case V_VIEW: return v.u.view->dict->n != 0;
	case V_LOOP: return loop_length(r, v.u.loop) != 0;
	default: return true;
	}
}

bool val_is_sized(struct val v)
{
	return v.type == V_UNDEF || v.type == V_STR || v.type == V_LIST || v.type == V_TUPLE || v.type == V_DICT ||
			v.type == V_RANGE || v.type == V_VIEW || v.type == V_LOOP;
}

int64_t val_len(struct run *r, struct val v)
{
	switch ((enum val_type)v.type) {
	case V_UNDEF: return 0;
	case V_STR: tmpl_charge(r, v.n / 64); return (int64_t)uni_count(v.u.s, v.n);
	case V_LIST:
	case V_TUPLE: return v.n;
	case V_DICT: return v.u.dict->n;
	case V_RANGE: return v.u.range->n;
	case V_VIEW: return v.u.view->dict->n;
	case V_LOOP: return loop_length(r, v.u.loop);
	default: val_refuse(r, "length", v); return 0;
	}
}

const char *val_type_name(struct val v)
{
	static const char *const views[] = {"dict_keys", "dict_values", "dict_items"};
	switch ((enum val_type)v.type) {
	case V_UNDEF: return "Undefined";
	case V_BOOL: return "bool";
	case V_INT: return "int";
	case V_FLOAT: return "float";
	case V_STR: return v.flag & F_MARKUP ? "Markup" : "str";
	case V_LIST: return "list";
	case V_TUPLE: return "tuple";
	case V_DICT: return "dict";
	case V_RANGE: return "range";
	case V_VIEW: return views[v.u.view->kind];
	case V_ITER: return v.u.iter->name;
	case V_NS: return "Namespace";
	case V_FUNC: return "function";
	case V_MACRO: return "Macro";
	case V_LOOP: return "LoopContext";
	case V_CYCLER: return "Cycler";
	case V_JOINER: return "Joiner";
	default: return "NoneType";
	}
}

/* ---- Comparing ---- */

bool val_same(struct run *r, struct val a, struct val b)
{
	if (a.type != b.type)
		return false;
	switch ((enum val_type)a.type) {
	case V_NONE: return true;
	case V_BOOL: return a.u.b == b.u.b;
	case V_INT: return a.u.i == b.u.i;
	case V_FLOAT: return a.u.f == b.u.f;
	case V_STR: return val_eq(r, a, b);
	case V_TUPLE: return a.n == b.n && (a.n == 0 || a.u.items == b.u.items);
	case V_LIST: return a.n == b.n && a.u.items == b.u.items;
	default: return a.u.p == b.u.p;
	}
}

/* Exact, also where an integer is no double. */
static int cmp_numbers(struct val a, struct val b)
{
	if (a.type != V_FLOAT && b.type != V_FLOAT)
		return (val_whole(a) > val_whole(b)) - (val_whole(a) < val_whole(b));
	if (a.type == V_FLOAT && b.type == V_FLOAT)
		return (a.u.f > b.u.f) - (a.u.f < b.u.f);
	const double f = a.type == V_FLOAT ? a.u.f : b.u.f;
	const int64_t i = val_whole(a.type == V_FLOAT ? b : a);
	int c; /* of i against f */
	if (isnan(f))
		return 0;
	if (f >= 9223372036854775808.0)
		c = -1;
	else if (f < -9223372036854775808.0)
		c = 1;
	else {
		const int64_t whole = (int64_t)f;
		c = i != whole ? (i > whole) - (i < whole) : ((double)whole > f) - ((double)whole < f);
	}
	return a.type == V_FLOAT ? -c : c;
}

static bool is_nan(struct val v)
{
	return v.type == V_FLOAT && isnan(v.u.f);
}

static bool eq_dicts(struct run *r, const struct dict *a, const struct dict *b, bool values)
{
	if (a->n != b->n)
		return false;
	for (uint32_t i = 0; i < a->n; i++) {
		const struct val v = tmpl_charge(r, 1) ? dict_get(r, b, a->pairs[i].key, false) : val_missing;
		if (v.type == V_MISSING || (values && !val_eq(r, a->pairs[i].value, v)))
			return false;
	}
	return true;
}

static bool eq_inside(struct run *r, struct val a, struct val b)
{
	switch ((enum val_type)a.type) {
	case V_LIST:
	case V_TUPLE:
		if (a.n != b.n)
			return false;
		for (uint32_t i = 0; i < a.n; i++)
			if (!tmpl_charge(r, 1) || !val_eq(r, a.u.items[i], b.u.items[i]))
				return false;
		return true;
	case V_DICT: return eq_dicts(r, a.u.dict, b.u.dict, true);
	case V_RANGE: {
		const struct range *x = a.u.range, *y = b.u.range;
		return x->n == y->n && (x->n == 0 || (x->start == y->start && (x->n == 1 || x->step == y->step)));
	}
	case V_VIEW:
		if (a.u.view->kind == VIEW_VALUES || a.u.view->kind != b.u.view->kind)
			return a.u.p == b.u.p;
		return eq_dicts(r, a.u.view->dict, b.u.view->dict, a.u.view->kind == VIEW_ITEMS);
	default: return a.u.p == b.u.p;
	}
}

bool val_eq(struct run *r, struct val a, struct val b)
{
	if (val_is_number(a) && val_is_number(b))
		return !is_nan(a) && !is_nan(b) && cmp_numbers(a, b) == 0;
	if (a.type != b.type)
		return false;
	if (a.type == V_UNDEF || a.type == V_NONE)
		return true;
	if (a.type == V_STR)
		return a.n == b.n && tmpl_charge(r, a.n / 64) && (a.n == 0 || memcmp(a.u.s, b.u.s, a.n) == 0);
	if (!tmpl_charge(r, 1) || !tmpl_enter(r))
		return false;
	const bool same = eq_inside(r, a, b);
	tmpl_leave(r);
	return same && !r->failed;
}

static int cmp_bytes(struct val a, struct val b)
{
	const uint32_t n = a.n < b.n ? a.n : b.n;
	const int c = n ? memcmp(a.u.s, b.u.s, n) : 0;
	return c ? (c > 0) - (c < 0) : (a.n > b.n) - (a.n < b.n);
}

int val_cmp(struct run *r, struct val a, struct val b)
{
	int c = 0;
	if (a.type == V_UNDEF || b.type == V_UNDEF) {
		undef_fail(r, a.type == V_UNDEF ? a : b);
	} else if (val_is_number(a) && val_is_number(b)) {
		c = cmp_numbers(a, b);
	} else if (a.type == V_STR && b.type == V_STR) {
		tmpl_charge(r, (a.n < b.n ? a.n : b.n) / 64);
		c = cmp_bytes(a, b);
	} else if (a.type == b.type && (a.type == V_LIST || a.type == V_TUPLE)) {
		if (!tmpl_charge(r, 1) || !tmpl_enter(r))
			return 0;
		uint32_t i = 0;
		while (i < a.n && i < b.n && tmpl_charge(r, 1) && val_eq(r, a.u.items[i], b.u.items[i]))
			i++;
		c = i < a.n && i < b.n ? val_cmp(r, a.u.items[i], b.u.items[i]) : (a.n > b.n) - (a.n < b.n);
		tmpl_leave(r);
	} else {
		tmpl_error(r, "'%s' and '%s' have no order", val_type_name(a), val_type_name(b));
	}
	return r->failed ? 0 : c;
}

bool val_matches(struct run *r, struct val a, struct val b)
{
	return val_same(r, a, b) || val_eq(r, a, b);
}

bool val_in(struct run *r, struct val item, struct val in)
{
	struct iter it;
	struct val v;

	if (in.type == V_STR) {
		if (item.type != V_STR)
			return tmpl_error(r, "no text holds a value of type '%s'", val_type_name(item));
		return tmpl_charge(r, in.n / 64) && (item.n == 0 || memmem(in.u.s, in.n, item.u.s, item.n));
	}
	if (in.type == V_DICT || (in.type == V_VIEW && in.u.view->kind == VIEW_KEYS))
		return dict_get(r, in.type == V_DICT ? in.u.dict : in.u.view->dict, item, true).type != V_MISSING;
	iter_init(r, &it, in);
	while (iter_next(r, &it, &v))
		if (val_matches(r, item, v))
			return true;
	return false;
}

/* ---- Dicts ---- */

static uint64_t stir(uint64_t h, uint64_t x)
{
	h = (h ^ x) * 0x9e3779b97f4a7c15u;
	return h ^ h >> 29;
}

/* False if it cannot be a key. The seed is an address, so that no file can be made to collide. */
static bool hash_of(struct run *r, uint64_t seed, struct val v, uint64_t *out)
{
	uint64_t h = seed, w = 0;
	bool ok = true;

	switch ((enum val_type)v.type) {
	case V_STR: {
		uint32_t i = 0;
		tmpl_charge(r, v.n / 64);
		for (; i + 8 <= v.n; i += 8) {
			memcpy(&w, v.u.s + i, 8);
			h = stir(h, w);
		}
		w = v.n;
		for (; i < v.n; i++)
			w = w << 8 | (uint8_t)v.u.s[i];
		h = stir(h, w);
		break;
	}
	case V_FLOAT:
		if (v.u.f >= -0x1p63 && v.u.f < 0x1p63 && v.u.f == floor(v.u.f)) {
			h = stir(h, (uint64_t)(int64_t)v.u.f);
		} else {
			memcpy(&w, &v.u.f, sizeof w);
			h = stir(h, w);
		}
		break;
	case V_INT: h = stir(h, (uint64_t)v.u.i); break;
	case V_BOOL: h = stir(h, v.u.b); break;
	case V_TUPLE:
		if (!tmpl_charge(r, v.n) || !tmpl_enter(r))
			return false;
		for (uint32_t i = 0; i < v.n && ok; i++)
			ok = hash_of(r, h, v.u.items[i], &h);
		tmpl_leave(r);
		break;
	case V_LIST:
	case V_DICT: ok = false; break;
	case V_UNDEF:
	case V_NONE: h = stir(h, v.type); break;
	default: h = stir(h, (uintptr_t)v.u.p); break;
	}
	*out = h;
	return ok;
}

enum { DICT_SMALL = 8 };

static uint32_t slot_of(struct run *r, const struct dict *d, uint32_t hash, struct val key)
{
	uint32_t i = hash & (d->n_index - 1);
	while (d->index[i]) {
		const struct pair *p = &d->pairs[d->index[i] - 1];
		if (p->hash == hash && val_eq(r, p->key, key))
			break;
		if (!tmpl_charge(r, 1))
			break;
		i = (i + 1) & (d->n_index - 1);
	}
	return i;
}

static struct pair *find_pair(struct run *r, const struct dict *d, uint32_t hash, struct val key)
{
	if (d->index) {
		const uint32_t at = d->index[slot_of(r, d, hash, key)];
		return at && !r->failed ? &d->pairs[at - 1] : NULL;
	}
	for (uint32_t i = 0; i < d->n; i++)
		if (d->pairs[i].hash == hash && val_eq(r, d->pairs[i].key, key))
			return &d->pairs[i];
	return NULL;
}

static bool rebuild(struct run *r, struct dict *d)
{
	uint32_t n = 32;
	while (n < d->n_max * 2)
		n *= 2;
	uint32_t *index = tmpl_alloc(r, n, sizeof *index);
	if (!index)
		return false;
	memset(index, 0, n * sizeof *index);
	d->index = index;
	d->n_index = n;
	for (uint32_t i = 0; i < d->n; i++) {
		uint32_t at = d->pairs[i].hash & (n - 1);
		while (index[at])
			at = (at + 1) & (n - 1);
		index[at] = i + 1;
	}
	return true;
}

static uint32_t key_hash(struct run *r, const struct dict *d, struct val key, bool strict, bool *ok)
{
	uint64_t h = 0;
	*ok = hash_of(r, (uintptr_t)d, key, &h);
	if (!*ok && strict)
		tmpl_error(r, "a value of type '%s' cannot be a key", val_type_name(key));
	return (uint32_t)(h ^ h >> 32);
}

bool dict_set(struct run *r, struct dict *d, struct val key, struct val value)
{
	bool ok;
	const uint32_t hash = key_hash(r, d, key, true, &ok);
	if (!ok || r->failed)
		return false;
	struct pair *p = find_pair(r, d, hash, key);
	if (p) {
		p->value = value;
		return !r->failed;
	}
	const uint32_t before = d->n_max;
	if (r->failed || !tmpl_grow(r, (void **)&d->pairs, &d->n_max, (size_t)d->n + 1, sizeof *d->pairs))
		return false;
	d->pairs[d->n++] = (struct pair){key, value, hash};
	if (d->n <= DICT_SMALL)
		return true;
	if (!d->index || d->n_max != before)
		return rebuild(r, d);
	uint32_t at = hash & (d->n_index - 1);
	while (d->index[at])
		at = (at + 1) & (d->n_index - 1);
	d->index[at] = d->n;
	return true;
}

struct val dict_get(struct run *r, const struct dict *d, struct val key, bool strict)
{
	bool ok;
	const uint32_t hash = key_hash(r, d, key, strict, &ok);
	const struct pair *p = ok && !r->failed ? find_pair(r, d, hash, key) : NULL;
	return p ? p->value : val_missing;
}

/* ---- Walking ---- */

bool val_is_iterable(struct val v)
{
	return val_is_sized(v) || v.type == V_ITER;
}

bool iter_init(struct run *r, struct iter *it, struct val v)
{
	*it = (struct iter){.of = v};
	if (!val_is_iterable(v) || v.type == V_LOOP)
		return tmpl_error(r, "a value of type '%s' has no items to go over", val_type_name(v));
	return true;
}

bool iter_next(struct run *r, struct iter *it, struct val *out)
{
	const struct val v = it->of;
	uint32_t cp;

	if (!tmpl_charge(r, 1))
		return false;
	switch ((enum val_type)v.type) {
	case V_STR:
		if (it->at >= v.n)
			return false;
		const uint32_t k = uni_decode(v.u.s + it->at, v.n - it->at, &cp);
		*out = val_bytes(v.u.s + it->at, k);
		it->at += k;
		return true;
	case V_LIST:
	case V_TUPLE:
		if (it->at >= v.n)
			return false;
		*out = v.u.items[it->at++];
		return true;
	case V_DICT:
		if (it->at >= v.u.dict->n)
			return false;
		*out = v.u.dict->pairs[it->at++].key;
		return true;
	case V_VIEW: {
		if (it->at >= v.u.view->dict->n)
			return false;
		const struct pair *p = &v.u.view->dict->pairs[it->at++];
		*out = v.u.view->kind == VIEW_KEYS              ? p->key
				: v.u.view->kind == VIEW_VALUES ? p->value
								: val_pair(r, p->key, p->value);
		return !r->failed;
	}
	case V_RANGE:
		if (it->at >= (uint64_t)v.u.range->n)
			return false;
		*out = val_int(v.u.range->start + v.u.range->step * it->at++);
		return true;
	case V_ITER: { /* what is left of it; an iterator over an iterator is bounded by how it was made */
		struct iter *inner = v.u.iter;
		if (!tmpl_enter(r))
			return false;
		const bool more = iter_next(r, inner, out);
		tmpl_leave(r);
		if (!more && inner->error)
			tmpl_error(r, "%s", inner->error);
		return more;
	}
	default: return false;
	}
}

bool list_add(struct run *r, struct list *l, struct val v)
{
	if (r->failed || !tmpl_grow(r, (void **)&l->items, &l->n_max, (size_t)l->n + 1, sizeof v))
		return false;
	l->items[l->n++] = v;
	return true;
}

struct list *list_reverse(struct list *l)
{
	for (uint32_t i = 0; i < l->n / 2; i++) {
		const struct val t = l->items[i];
		l->items[i] = l->items[l->n - 1 - i];
		l->items[l->n - 1 - i] = t;
	}
	return l;
}

struct val list_val(struct run *r, const struct list *l, enum val_type type)
{
	if (!l->items)
		return val_list(r, type, 0, NULL);
	return (struct val){.type = (uint8_t)type, .n = l->n, .u.items = l->items};
}

struct val val_items(struct run *r, struct val v)
{
	struct iter it;
	struct list l = {0};
	struct val item;

	if (v.type == V_LIST || v.type == V_TUPLE)
		return (struct val){.type = V_LIST, .n = v.n, .u.items = v.u.items};
	if (iter_init(r, &it, v))
		while (iter_next(r, &it, &item))
			list_add(r, &l, item);
	return list_val(r, &l, V_LIST);
}

/* ---- Sorting: merging runs that double, so that equal keys keep their order ---- */

static void merge(struct run *r, const uint32_t *from, uint32_t *to, size_t lo, size_t mid, size_t hi, struct val *keys,
		bool reverse)
{
	size_t a = lo, b = mid;
	for (size_t i = lo; i < hi; i++) {
		bool take_b = a >= mid;
		if (a < mid && b < hi && tmpl_charge(r, 1)) {
			const int c = val_cmp(r, keys[from[b]], keys[from[a]]);
			take_b = reverse ? c > 0 : c < 0;
		}
		to[i] = take_b ? from[b++] : from[a++];
	}
}

bool val_sort(struct run *r, struct val *keys, struct val *items, size_t n, bool reverse)
{
	uint32_t *order = tmpl_alloc(r, n, sizeof *order), *other = tmpl_alloc(r, n, sizeof *other);
	struct val *sorted = tmpl_alloc(r, n, sizeof *sorted);

	if (!order || !other || !sorted)
		return false;
	for (size_t i = 0; i < n; i++)
		order[i] = (uint32_t)i;
	for (size_t width = 1; width < n && !r->failed; width *= 2) {
		for (size_t lo = 0; lo < n; lo += 2 * width)
			merge(r, order, other, lo, lo + width < n ? lo + width : n,
					lo + 2 * width < n ? lo + 2 * width : n, keys, reverse);
		uint32_t *t = order;
		order = other;
		other = t;
	}
	if (r->failed || !n)
		return !r->failed;
	for (size_t i = 0; i < n; i++)
		sorted[i] = items[order[i]];
	memcpy(items, sorted, n * sizeof *items);
	for (size_t i = 0; i < n; i++)
		sorted[i] = keys[order[i]];
	memcpy(keys, sorted, n * sizeof *keys);
	return true;
}
