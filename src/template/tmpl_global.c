/* Functions that every template sees: range, dict, namespace, cycler, joiner, raise_exception, strftime_now. */
#include "template/tmpl.h"

#include "base/clock.h"

METHOD(do_range, self)
{
	enum { RANGE_MAX = 100000 }; /* of the sandbox that templates are written for */
	const int64_t far = (int64_t)1 << 40; /* so that no sum below overflows */
	struct val x[3];

	if (a->n_kw || !a->n_pos)
		return tmpl_error(r, "range() needs one to three numbers"), val_none;
	if (!args_bind(r, "range", a, "start ?stop ?step", x))
		return val_none;
	const int64_t start = a->n_pos > 1 ? arg_int(r, x[0], 0) : 0, stop = arg_int(r, x[a->n_pos > 1], 0);
	const int64_t step = arg_int(r, x[2], 1);
	if (!step)
		return tmpl_error(r, "range() by steps of 0"), val_none;
	if (start < -far || start > far || stop < -far || stop > far || step < -far || step > far)
		return tmpl_fail(r, COHORT_E_LIMIT, "range() beyond 2^40"), val_none;
	int64_t n = 0;
	if (step > 0 ? start < stop : start > stop)
		n = (step > 0 ? stop - start - 1 : start - stop - 1) / (step > 0 ? step : -step) + 1;
	if (n > RANGE_MAX)
		return tmpl_error(r, "range() of more than %d items", RANGE_MAX), val_none;
	return val_own(r, V_RANGE, &(struct range){start, stop, step, n}, sizeof(struct range));
}

static bool add_pairs(struct run *r, struct dict *d, struct val from)
{
	struct iter it;
	struct val item;

	if (from.type == V_DICT) {
		for (uint32_t i = 0; i < from.u.dict->n && tmpl_charge(r, 1); i++)
			dict_set(r, d, from.u.dict->pairs[i].key, from.u.dict->pairs[i].value);
		return !r->failed;
	}
	if (!iter_init(r, &it, from))
		return false;
	while (iter_next(r, &it, &item)) {
		item = val_items(r, item);
		if (!r->failed && item.n != 2)
			tmpl_error(r, "dict() needs pairs");
		if (r->failed || !dict_set(r, d, item.u.items[0], item.u.items[1]))
			return false;
	}
	return !r->failed;
}

METHOD(do_dict, self)
{
	struct val d = val_dict(r);
	if (a->n_pos > 1)
		tmpl_error(r, "dict() of more than one value");
	if (r->failed || (a->n_pos && !add_pairs(r, d.u.dict, a->pos[0])))
		return val_none;
	for (size_t i = 0; i < a->n_kw && !r->failed; i++)
		dict_set(r, d.u.dict, a->kw[i].name, a->kw[i].value);
	return d;
}

METHOD(do_namespace, self)
{
	struct val ns = do_dict(r, self, a, w);
	if (!r->failed)
		ns.type = V_NS;
	return ns;
}

METHOD(do_cycler, self)
{
	if (!a->n_pos)
		return tmpl_error(r, "cycler() needs an item"), val_none;
	const struct cycler c = {val_list(r, V_LIST, a->n_pos, a->pos), 0};
	return val_own(r, V_CYCLER, &c, sizeof c);
}

METHOD(do_joiner, self)
{
	const struct cycler c = {w[0].type == V_MISSING ? val_z(", ") : w[0], 0};
	return val_own(r, V_JOINER, &c, sizeof c);
}

METHOD(do_raise, self)
{
	const struct val message = val_str(r, w[0]);
	tmpl_error(r, "%.*s", (int)message.n, message.u.s);
	return val_none;
}

METHOD(do_strftime, self)
{
	if (!arg_str(r, w[0], "format"))
		return val_none;
	if (!r->has_now) {
		if (!clock_local(&r->now))
			return tmpl_error(r, "the clock cannot be read"), val_none;
		r->has_now = true;
	}
	return format_time(r, &r->now, w[0]);
}

METHOD(do_refuse, self)
{
	tmpl_fail(r, COHORT_E_UNSUPPORTED, "lipsum() is not supported");
	return val_none;
}

struct val global_find(struct run *r, struct val name)
{
	static const struct method globals[] = {{"range", do_range, NULL}, {"dict", do_dict, NULL},
			{"namespace", do_namespace, NULL}, {"cycler", do_cycler, NULL}, {"joiner", do_joiner, "?sep"},
			{"raise_exception", do_raise, "message"}, {"strftime_now", do_strftime, "format"},
			{"lipsum", do_refuse, NULL}, {NULL, NULL, NULL}};
	return method_of(r, globals, val_none, name);
}
