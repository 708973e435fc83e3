/* The scalar definitions of kern_math.h in eight lanes, in terms of a level's own eight floats: the same operations in
 * the same order, so the same bits. Included by files of a level behind its x86/avx2_v8.h or arm/neon_v8.h, which
 * define V8 and V8_INLINE (function attributes), v8, and
 *   v8_load, v8_store, v8_set (one number in all lanes), v8_add, v8_sub, v8_mul, v8_div, v8_fma(a, b, c) = a * b + c
 *   v8_pick_lt(a, b, x, y) = a < b ? x : y
 *   v8_abs, v8_minus_abs, v8_with_sign(x, s): |x| or -|x|; x, which is not negative, with the sign of s
 *   v8_exp = kern_exp, v8_log_split(x, &e): kern_log's m and e
 *   v8_trees(v) = the tree8 of each of eight vectors
 * Compilers do not make this of the scalar functions: a comparison that may trap is control flow to gcc. */
#include "kern/kern_math.h"

V8_INLINE v8 v8_tanh(v8 x)
{
	const v8 one = v8_set(1.0f), two = v8_set(2.0f), c945 = v8_set(945.0f);
	v8 a = v8_abs(x), z = v8_mul(a, a);
	v8 above = v8_mul(a, v8_fma(z, v8_add(z, v8_set(105.0f)), c945));
	v8 near = v8_div(above, v8_fma(z, v8_fma(z, v8_set(15.0f), v8_set(420.0f)), c945));
	v8 far = v8_sub(one, v8_div(two, v8_add(one, v8_exp(v8_mul(two, a)))));
	return v8_with_sign(v8_pick_lt(a, v8_set(KERN_TANH_NEAR), near, far), x);
}

V8_INLINE v8 v8_log(v8 x)
{
	const v8 one = v8_set(1.0f), two = v8_set(2.0f);
	v8 e, m = v8_log_split(x, &e);
	v8 s = v8_div(v8_sub(m, one), v8_add(m, one)), z = v8_mul(s, s);
	v8 p = v8_fma(z, v8_set(1.0f / 9), v8_set(1.0f / 7));
	p = v8_fma(z, p, v8_set(1.0f / 5));
	p = v8_fma(z, p, v8_set(1.0f / 3));
	p = v8_fma(v8_mul(v8_mul(two, s), z), p, v8_mul(two, s));
	return v8_fma(e, v8_set(KERN_LN2_HI), v8_fma(e, v8_set(KERN_LN2_LO), p));
}

V8_INLINE v8 v8_softplus(v8 x)
{
	const v8 one = v8_set(1.0f), none = v8_set(0.0f);
	v8 e = v8_exp(v8_minus_abs(x)), u = v8_add(one, e);
	v8 l = v8_add(v8_log(u), v8_div(v8_sub(e, v8_sub(u, one)), u));
	return v8_add(v8_pick_lt(none, x, x, none), l);
}

/* x / (1 + exp(-x)). Turning the sign over is exact; v8_sub(0, x) would make 0 of 0, whose exp is 1, too. */
V8_INLINE v8 v8_silu(v8 x)
{
	return v8_div(x, v8_add(v8_set(1.0f), v8_exp(v8_sub(v8_set(0.0f), x))));
}
