/* Operators, attributes, items and slices, with Python's rules.
 *
 * Integers have 64 bits: what Python would keep exactly beyond that is an error, never a wrong number. */
#include "template/tmpl.h"

#include <math.h>
#include <string.h>

static const char *const op_names[] = {"+", "-", "*", "/", "//", "%", "**"};

static struct val overflow(struct run *r)
{
	tmpl_error(r, "an integer of more than 64 bits");
	return val_none;
}

static struct val unsupported(struct run *r, enum op op, struct val a, struct val b)
{
	if (a.type == V_UNDEF || b.type == V_UNDEF)
		undef_fail(r, a.type == V_UNDEF ? a : b);
	else
		tmpl_error(r, "%s does not work on '%s' and '%s'", op_names[op], val_type_name(a), val_type_name(b));
	return val_none;
}

/* ---- Numbers ---- */

static struct val int_power(struct run *r, int64_t a, int64_t b)
{
	int64_t v = 1;
	if (b < 0) {
		if (!a)
			return tmpl_error(r, "division by 0"), val_none;
		return val_float(pow((double)a, (double)b));
	}
	if (a == 0 || a == 1)
		return val_int(b ? a : 1);
	if (a == -1)
		return val_int(b % 2 ? -1 : 1);
	for (; b; b--)
		if (__builtin_mul_overflow(v, a, &v))
			return overflow(r);
	return val_int(v);
}

static struct val int_op(struct run *r, enum op op, int64_t a, int64_t b)
{
	int64_t v = 0;
	bool bad = false;

	switch (op) {
	case OP_ADD: bad = __builtin_add_overflow(a, b, &v); break;
	case OP_SUB: bad = __builtin_sub_overflow(a, b, &v); break;
	case OP_MUL: bad = __builtin_mul_overflow(a, b, &v); break;
	case OP_DIV:
		if (!b)
			return tmpl_error(r, "division by 0"), val_none;
		return val_float((double)a / (double)b);
	case OP_FLOORDIV:
	case OP_MOD:
		if (!b)
			return tmpl_error(r, "division by 0"), val_none;
		if (b == -1) { /* the one quotient that may not fit */
			v = 0;
			bad = op == OP_FLOORDIV && __builtin_sub_overflow(0, a, &v);
		} else {
			const int64_t q = a / b, m = a % b;
			const bool down = m != 0 && (m < 0) != (b < 0);
			v = op == OP_FLOORDIV ? q - down : m + (down ? b : 0);
		}
		break;
	default: return int_power(r, a, b);
	}
	return bad ? overflow(r) : val_int(v);
}

static double float_mod(double a, double b)
{
	double m = fmod(a, b);
	if (m != 0 ? (b < 0) != (m < 0) : false)
		m += b;
	return m == 0 ? copysign(0, b) : m;
}

static struct val float_op(struct run *r, enum op op, double a, double b)
{
	if ((op == OP_DIV || op == OP_FLOORDIV || op == OP_MOD) && b == 0)
		return tmpl_error(r, "division by 0"), val_none;
	switch (op) {
	case OP_ADD: return val_float(a + b);
	case OP_SUB: return val_float(a - b);
	case OP_MUL: return val_float(a * b);
	case OP_DIV: return val_float(a / b);
	case OP_MOD: return val_float(float_mod(a, b));
	case OP_FLOORDIV: {
		const double m = float_mod(a, b), q = (a - m) / b;
		return val_float(q == 0 ? copysign(0, a / b) : round(q));
	}
	default: break;
	}
	if (a == 0 && b < 0)
		return tmpl_error(r, "division by 0"), val_none;
	if (a < 0 && b != floor(b) && !isinf(b) && !isnan(b))
		return tmpl_error(r, "complex numbers are not supported"), val_none;
	const double p = pow(a, b);
	if (isinf(p) && !isinf(a) && !isinf(b))
		return tmpl_error(r, "a power that no float holds"), val_none;
	return val_float(p);
}

/* ---- Texts and lists ---- */

struct val str_concat(struct run *r, struct val a, struct val b)
{
	if (!b.n)
		return a;
	if (!a.n)
		return b;
	if (!tmpl_charge(r, b.n / 64))
		return a;
	if (tmpl_extend(r, a.u.s, a.n, b.n)) { /* so that building a text piece by piece copies each piece once */
		memcpy((char *)(uintptr_t)(a.u.s + a.n), b.u.s, b.n);
		a.n += b.n;
		return a;
	}
	char *p = tmpl_charge(r, a.n / 64) ? tmpl_bytes(r, (size_t)a.n + b.n) : NULL;
	if (!p)
		return a;
	memcpy(p, a.u.s, a.n);
	memcpy(p + a.n, b.u.s, b.n);
	struct val v = val_bytes(p, (size_t)a.n + b.n);
	v.flag = a.flag;
	return v;
}

static struct val str_add(struct run *r, struct val a, struct val b)
{
	if ((a.flag | b.flag) & F_MARKUP) {
		a = val_escape(r, a);
		b = val_escape(r, b);
	}
	struct val v = str_concat(r, a, b);
	v.flag = (a.flag | b.flag) & F_MARKUP;
	return v;
}

static struct val repeat(struct run *r, struct val v, int64_t times)
{
	const bool str = v.type == V_STR;
	size_t n;

	if (times < 0 || !v.n)
		times = 0;
	if (__builtin_mul_overflow((size_t)v.n, (size_t)times, &n) || n > UINT32_MAX) {
		tmpl_fail(r, COHORT_E_LIMIT, "a value repeated %lld times is too long", (long long)times);
		return val_none;
	}
	if (!tmpl_charge(r, str ? n / 64 : n))
		return val_none;
	if (!str) {
		struct val out = val_list(r, (enum val_type)v.type, n, NULL);
		for (size_t i = 0; i < n && !r->failed; i++)
			out.u.items[i] = v.u.items[i % v.n];
		return out;
	}
	char *p = tmpl_bytes(r, n);
	for (size_t i = 0; p && i < n; i += v.n)
		memcpy(p + i, v.u.s, v.n);
	return p ? val_bytes(p, n) : val_none;
}

static struct val join_lists(struct run *r, struct val a, struct val b)
{
	struct val v = tmpl_charge(r, (uint64_t)a.n + b.n) ? val_list(r, (enum val_type)a.type, (size_t)a.n + b.n, NULL)
							   : val_none;
	if (r->failed)
		return val_none;
	if (a.n)
		memcpy(v.u.items, a.u.items, a.n * sizeof *v.u.items);
	if (b.n)
		memcpy(v.u.items + a.n, b.u.items, b.n * sizeof *v.u.items);
	return v;
}

struct val op_binary(struct run *r, enum op op, struct val a, struct val b)
{
	const bool seq_a = a.type == V_STR || a.type == V_LIST || a.type == V_TUPLE;
	const bool seq_b = b.type == V_STR || b.type == V_LIST || b.type == V_TUPLE;
	const bool int_a = val_is_int(a), int_b = val_is_int(b);

	if (int_a && int_b)
		return int_op(r, op, val_whole(a), val_whole(b));
	if (val_is_number(a) && val_is_number(b))
		return float_op(r, op, val_number(a), val_number(b));
	if (op == OP_MOD && a.type == V_STR)
		return format_percent(r, a, b);
	if (op == OP_ADD && seq_a && a.type == b.type)
		return a.type == V_STR ? str_add(r, a, b) : join_lists(r, a, b);
	if (op == OP_MUL && seq_a && int_b)
		return repeat(r, a, val_whole(b));
	if (op == OP_MUL && seq_b && int_a)
		return repeat(r, b, val_whole(a));
	return unsupported(r, op, a, b);
}

bool op_compare(struct run *r, enum op op, struct val a, struct val b)
{
	switch (op) {
	case OP_EQ: return val_eq(r, a, b);
	case OP_NE: return !val_eq(r, a, b);
	case OP_IN: return val_in(r, a, b);
	case OP_NOTIN: return !val_in(r, a, b);
	default: break;
	}
	const int c = val_cmp(r, a, b);
	if ((a.type == V_FLOAT && isnan(a.u.f)) || (b.type == V_FLOAT && isnan(b.u.f)))
		return false;
	return op == OP_LT ? c < 0 : op == OP_LE ? c <= 0 : op == OP_GT ? c > 0 : c >= 0;
}

struct val op_negate(struct run *r, struct val v, bool minus)
{
	if (v.type == V_FLOAT)
		return val_float(minus ? -v.u.f : v.u.f);
	if (val_is_int(v))
		return minus ? int_op(r, OP_SUB, 0, val_whole(v)) : val_int(val_whole(v));
	return val_refuse(r, "a sign", v), val_none;
}

/* ---- Attributes and items ---- */

struct val op_own_attr(struct run *r, struct val obj, struct val name)
{
	struct val v;
	switch ((enum val_type)obj.type) {
	case V_STR: return str_method(r, obj, name);
	case V_NS: v = dict_get(r, obj.u.dict, name, false); return v;
	case V_LOOP: return loop_attr(r, obj.u.loop, name);
	case V_TUPLE:
		if (obj.flag & F_GROUP && val_is_str(name, "grouper"))
			return obj.u.items[0];
		if (obj.flag & F_GROUP && val_is_str(name, "list"))
			return obj.u.items[1];
		return other_method(r, obj, name);
	default: return other_method(r, obj, name);
	}
}

/* A key or index alone; V_MISSING if there is nothing. */
static struct val own_item(struct run *r, struct val obj, struct val key)
{
	const bool is_int = val_is_int(key);
	int64_t i = is_int ? val_whole(key) : 0;

	if (obj.type == V_DICT)
		return dict_get(r, obj.u.dict, key, false);
	if (!is_int)
		return val_missing;
	if (obj.type == V_LIST || obj.type == V_TUPLE) {
		i += i < 0 ? obj.n : 0;
		return i >= 0 && i < obj.n ? obj.u.items[i] : val_missing;
	}
	if (obj.type == V_RANGE) {
		i += i < 0 ? obj.u.range->n : 0;
		return i >= 0 && i < obj.u.range->n ? val_int(obj.u.range->start + obj.u.range->step * i) : val_missing;
	}
	if (obj.type == V_STR) {
		const int64_t n = val_len(r, obj);
		i += i < 0 ? n : 0;
		if (i < 0 || i >= n)
			return val_missing;
		const size_t from = uni_offset(obj.u.s, obj.n, (size_t)i);
		return val_bytes(obj.u.s + from, uni_offset(obj.u.s + from, obj.n - from, 1));
	}
	return val_missing;
}

struct val op_attr(struct run *r, struct val obj, struct val name)
{
	/* The one inner attribute that people try; Python has it, and the sandbox hides it. */
	if (val_is_str(name, "__class__"))
		return val_undefz(r, "__class__ is not for templates");
	if (obj.type == V_UNDEF) {
		undef_fail(r, obj);
		return val_none;
	}
	struct val v = op_own_attr(r, obj, name);
	if (v.type == V_MISSING)
		v = own_item(r, obj, name);
	return v.type == V_MISSING ? val_undef(r, obj, name) : v;
}

struct val op_item(struct run *r, struct val obj, struct val key)
{
	if (obj.type == V_UNDEF) {
		undef_fail(r, obj);
		return val_none;
	}
	struct val v = own_item(r, obj, key);
	if (v.type == V_MISSING && key.type == V_STR)
		v = op_own_attr(r, obj, key);
	return v.type == V_MISSING ? val_undef(r, obj, key) : v;
}

/* ---- Slices ---- */

static bool bound(struct run *r, struct val v, int64_t fallback, int64_t n, int64_t lo, int64_t hi, int64_t *out)
{
	if (v.type == V_NONE) {
		*out = fallback;
		return true;
	}
	int64_t i = arg_int(r, v, 0);
	if (i < 0)
		i = i < -n ? -1 : i + n;
	*out = i < lo ? lo : i > hi ? hi : i;
	return !r->failed;
}

static struct val slice_str(struct run *r, struct val s, int64_t from, int64_t step, int64_t count)
{
	if (step == 1 || !count) {
		const size_t at = uni_offset(s.u.s, s.n, (size_t)from);
		return val_bytes(s.u.s + at, count ? uni_offset(s.u.s + at, s.n - at, (size_t)count) : 0);
	}
	/* Offsets of the characters first, so that going backwards costs no more. */
	const size_t n = uni_count(s.u.s, s.n);
	uint32_t *at = tmpl_alloc(r, n + 1, sizeof *at);
	char *out = tmpl_bytes(r, s.n);
	size_t k = 0, n_out = 0;
	if (!at || !out || !tmpl_charge(r, s.n / 16))
		return val_none;
	for (uint32_t i = 0; i < s.n; i++)
		if (((uint8_t)s.u.s[i] & 0xc0) != 0x80)
			at[k++] = i;
	at[k] = s.n;
	for (int64_t i = 0; i < count; i++, from += step) {
		memcpy(out + n_out, s.u.s + at[from], at[from + 1] - at[from]);
		n_out += at[from + 1] - at[from];
	}
	return val_bytes(out, n_out);
}

struct val op_slice(struct run *r, struct val obj, struct val lo, struct val hi, struct val step_v)
{
	int64_t step = 1, from, to, count = 0;

	if (obj.type != V_STR && obj.type != V_LIST && obj.type != V_TUPLE && obj.type != V_RANGE)
		return val_refuse(r, "a slice", obj), val_none;
	const int64_t n = val_len(r, obj);
	if (step_v.type != V_NONE) {
		step = arg_int(r, step_v, 0);
		if (!step)
			return tmpl_error(r, "a slice by steps of 0"), val_none;
		if (step < -n - 1 || step > n + 1)
			step = step < 0 ? -n - 1 : n + 1; /* as far as any step that is longer than all */
	}
	const int64_t low = step < 0 ? -1 : 0, high = step < 0 ? n - 1 : n;
	if (!bound(r, lo, step < 0 ? n - 1 : 0, n, low, high, &from) ||
			!bound(r, hi, step < 0 ? -1 : n, n, low, high, &to))
		return val_none;
	if (step > 0 ? from < to : from > to)
		count = (step > 0 ? to - from - 1 : from - to - 1) / (step > 0 ? step : -step) + 1;
	if (!tmpl_charge(r, obj.type == V_STR ? (uint64_t)count / 64 : (uint64_t)count))
		return val_none;
	if (obj.type == V_STR)
		return slice_str(r, obj, from, step, count);
	if (obj.type == V_RANGE) {
		const struct range *of = obj.u.range;
		struct range g = {.n = count};
		if (__builtin_mul_overflow(of->step, step, &g.step) ||
				__builtin_mul_overflow(of->step, from, &g.start) ||
				__builtin_mul_overflow(of->step, to, &g.stop) ||
				__builtin_add_overflow(of->start, g.start, &g.start) ||
				__builtin_add_overflow(of->start, g.stop, &g.stop))
			return overflow(r);
		return val_own(r, V_RANGE, &g, sizeof g);
	}
	struct val out = val_list(r, (enum val_type)obj.type, (size_t)count, NULL);
	for (int64_t i = 0; i < count && !r->failed; i++)
		out.u.items[i] = obj.u.items[from + i * step];
	return out;
}
