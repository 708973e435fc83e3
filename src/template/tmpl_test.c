/* Tests: what stands behind `is`, and may be named in select and its kin. */
#include "template/tmpl.h"

#include <string.h>

typedef bool test_fn(struct run *r, struct val v, const struct args *a);

#define PLAIN(name, expr) \
	static bool is_##name(struct run *r, struct val v, const struct args *a) \
	{ \
		return args_none(r, #name, a) && (expr); \
	}
PLAIN(defined, v.type != V_UNDEF)
PLAIN(undefined, v.type == V_UNDEF)
PLAIN(none, v.type == V_NONE)
PLAIN(boolean, v.type == V_BOOL)
PLAIN(false, v.type == V_BOOL && !v.u.b)
PLAIN(true, v.type == V_BOOL && v.u.b)
PLAIN(integer, v.type == V_INT)
PLAIN(float, v.type == V_FLOAT)
PLAIN(number, val_is_number(v))
PLAIN(string, v.type == V_STR)
PLAIN(mapping, v.type == V_DICT)
PLAIN(iterable, val_is_iterable(v))
PLAIN(sequence, val_is_sized(v) && v.type != V_VIEW && v.type != V_LOOP)
PLAIN(callable, v.type == V_FUNC || v.type == V_MACRO || v.type == V_JOINER || v.type == V_LOOP || v.type == V_UNDEF)
PLAIN(escaped, v.type == V_STR && v.flag & F_MARKUP)
PLAIN(lower, str_is_case(r, val_str(r, v), uni_is_lower, uni_is_upper))
PLAIN(upper, str_is_case(r, val_str(r, v), uni_is_upper, uni_is_lower))
PLAIN(filter, v.type == V_STR && filter_find(v.u.s, v.n) >= 0)
PLAIN(test, v.type == V_STR && test_find(v.u.s, v.n) >= 0)

static bool leaves(struct run *r, struct val v, struct val by, int64_t rest)
{
	const struct val m = op_binary(r, OP_MOD, v, by);
	return !r->failed && val_eq(r, m, val_int(rest));
}
PLAIN(odd, leaves(r, v, val_int(2), 1))
PLAIN(even, leaves(r, v, val_int(2), 0))

#define WITH(name, arg, expr) \
	static bool is_##name(struct run *r, struct val v, const struct args *a) \
	{ \
		struct val arg; \
		return args_bind(r, #name, a, #arg, &arg) && (expr); \
	}
WITH(divisibleby, num, leaves(r, v, num, 0))
WITH(sameas, other, val_same(r, v, other))
WITH(in, seq, val_in(r, v, seq))
WITH(eq, other, op_compare(r, OP_EQ, v, other))
WITH(ne, other, op_compare(r, OP_NE, v, other))
WITH(lt, other, op_compare(r, OP_LT, v, other))
WITH(le, other, op_compare(r, OP_LE, v, other))
WITH(gt, other, op_compare(r, OP_GT, v, other))
WITH(ge, other, op_compare(r, OP_GE, v, other))

static const struct {
	const char *name;
	test_fn *call;
} tests[] = {{"odd", is_odd}, {"even", is_even}, {"divisibleby", is_divisibleby}, {"defined", is_defined},
		{"undefined", is_undefined}, {"filter", is_filter}, {"test", is_test}, {"none", is_none},
		{"boolean", is_boolean}, {"false", is_false}, {"true", is_true}, {"integer", is_integer},
		{"float", is_float}, {"lower", is_lower}, {"upper", is_upper}, {"string", is_string},
		{"mapping", is_mapping}, {"number", is_number}, {"sequence", is_sequence}, {"iterable", is_iterable},
		{"callable", is_callable}, {"sameas", is_sameas}, {"escaped", is_escaped}, {"in", is_in}, {"==", is_eq},
		{"eq", is_eq}, {"equalto", is_eq}, {"!=", is_ne}, {"ne", is_ne}, {">", is_gt}, {"gt", is_gt},
		{"greaterthan", is_gt}, {"ge", is_ge}, {">=", is_ge}, {"<", is_lt}, {"lt", is_lt}, {"lessthan", is_lt},
		{"<=", is_le}, {"le", is_le}};

int32_t test_find(const char *s, size_t n)
{
	for (size_t i = 0; i < sizeof tests / sizeof *tests; i++)
		if (strlen(tests[i].name) == n && memcmp(tests[i].name, s, n) == 0)
			return (int32_t)i;
	return -1;
}

bool test_call(struct run *r, int32_t test, struct val name, struct val v, const struct args *a)
{
	if (test < 0)
		return tmpl_error(r, "there is no test '%.*s'", (int)(name.n < 60 ? name.n : 60), name.u.s);
	return tests[test].call(r, v, a) && !r->failed;
}
