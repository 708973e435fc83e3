/* Scalar definitions that every level must reproduce: bits, exp, the fold of eight lanes, rounding to 8 bits, which
 * cells of a block a row sees. */
#ifndef KERN_KERN_MATH_H
#define KERN_KERN_MATH_H

#include "base/fmath.h"
#include "kern/kern.h"

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Lanes i and i + 4, then i and i + 2, then the last two. */
static inline float kern_tree8(const float v[8])
{
	float a0 = v[0] + v[4], a1 = v[1] + v[5], a2 = v[2] + v[6], a3 = v[3] + v[7];
	float b0 = a0 + a2, b1 = a1 + a3;
	return b0 + b1;
}

/* Adding 1.5 * 2^23 leaves the nearest integer (ties to even) in the low bits. */
#define KERN_MAGIC 12582912.0f
#define KERN_LOG2E 0x1.715476p+0f
#define KERN_LN2_HI 0x1.62e400p-1f /* 14 bits: n * LN2_HI is exact for |n| <= 128 */
#define KERN_LN2_LO 0x1.7f7d1cp-20f
#define KERN_EXP_MAX 88.0f  /* above: treated as 88, so that the result stays finite */
#define KERN_EXP_MIN -87.0f /* below: 0 */
/* Where a row's running maximum starts: below any score a finite model gives, and finite. */
#define KERN_ATTN_FLOOR -1e30f

/* Taylor coefficients of exp; degree 7 leaves 5e-9 on |r| <= ln 2 / 2. */
#define KERN_EXP_C2 (1.0f / 2)
#define KERN_EXP_C3 (1.0f / 6)
#define KERN_EXP_C4 (1.0f / 24)
#define KERN_EXP_C5 (1.0f / 120)
#define KERN_EXP_C6 (1.0f / 720)
#define KERN_EXP_C7 (1.0f / 5040)

static inline float kern_exp(float x)
{
	float v = x > KERN_EXP_MAX ? KERN_EXP_MAX : x;
	float t = fmaf(v, KERN_LOG2E, KERN_MAGIC);
	float n = t - KERN_MAGIC;
	float r = fmaf(n, -KERN_LN2_HI, v);
	r = fmaf(n, -KERN_LN2_LO, r);
	float p = fmaf(r, KERN_EXP_C7, KERN_EXP_C6);
	p = fmaf(r, p, KERN_EXP_C5);
	p = fmaf(r, p, KERN_EXP_C4);
	p = fmaf(r, p, KERN_EXP_C3);
	p = fmaf(r, p, KERN_EXP_C2);
	p = fmaf(r, p, 1.0f);
	p = fmaf(r, p, 1.0f);
	p = p * fm_from_bits((fm_bits(t) << 23) + 0x3f800000u);
	return x < KERN_EXP_MIN ? 0.0f : p;
}

/* gelu in its tanh form, g / 2 * (1 + tanh(u)) with u = sqrt(2 / pi) * (g + 0.044715 g^3), is g / (1 + exp(-2 u)). */
#define KERN_GELU_CUBE 0x1.6e4e26p-5f   /* 0.044715 */
#define KERN_GELU_SLOPE -0x1.988454p+0f /* -2 sqrt(2 / pi) */

/* -2 u. A g^2 that overflows leaves an infinity of the right sign, which exp takes; there is no 0 times Inf. */
static inline float kern_gelu_exponent(float g)
{
	float p = fmaf(g * g, KERN_GELU_CUBE, 1.0f);
	return g * KERN_GELU_SLOPE * p;
}

/* SwiGLU as gpt-oss has it: gates and ups are cut off at the limit, and exp takes the gate times the slope. */
#define KERN_OAI_LIMIT 7.0f
#define KERN_OAI_SLOPE -1.702f

/* Below this tanh is its continued fraction. */
#define KERN_TANH_NEAR 0.625f

/* tanh: a continued fraction near 0, where 1 - 2 / (1 + exp(2 |x|)) would lose digits (it is 1e-9 off at its end). */
static inline float kern_tanh(float x)
{
	float a = fm_from_bits(fm_bits(x) & 0x7fffffffu), z = a * a;
	float near = a * fmaf(z, z + 105.0f, 945.0f) / fmaf(z, fmaf(z, 15.0f, 420.0f), 945.0f);
	float far = 1.0f - 2.0f / (1.0f + kern_exp(2.0f * a));
	float t = a < KERN_TANH_NEAR ? near : far;
	return fm_from_bits(fm_bits(t) | (fm_bits(x) & 0x80000000u));
}

/* Bits of sqrt(1/2), from which kern_log's m begins. */
#define KERN_LOG_LEAST 0x3f3504f3

/* Natural logarithm of a normal number, by 2 artanh(s) with s = (m - 1) / (m + 1) and m within a factor sqrt(2) of 1:
 * five terms leave 2e-9. */
static inline float kern_log(float x)
{
	uint32_t up = fm_bits(x) + (0x3f800000u - KERN_LOG_LEAST);
	float e = (float)((int32_t)(up >> 23) - 127);
	float m = fm_from_bits((up & 0x007fffffu) + KERN_LOG_LEAST);
	float s = (m - 1.0f) / (m + 1.0f), z = s * s;
	float p = fmaf(z, 1.0f / 9, 1.0f / 7);
	p = fmaf(z, p, 1.0f / 5);
	p = fmaf(z, p, 1.0f / 3);
	p = fmaf(2.0f * s * z, p, 2.0f * s);
	return fmaf(e, KERN_LN2_HI, fmaf(e, KERN_LN2_LO, p));
}

/* log(1 + exp(x)) = max(x, 0) + log(1 + exp(-|x|)); what 1 + e rounds away is given back. */
static inline float kern_softplus(float x)
{
	float e = kern_exp(fm_from_bits(fm_bits(x) | 0x80000000u)), u = 1.0f + e;
	float l = kern_log(u) + (e - (u - 1.0f)) / u;
	return (x > 0.0f ? x : 0.0f) + l;
}

/* Nearest integer, ties to even, for |v| < 2^22; no library call, so no rounding mode or CPU variant gets in. */
static inline int32_t kern_round(float v)
{
	return (int32_t)(fm_bits(v + KERN_MAGIC) & 0x7fffffu) - 0x400000;
}

/* What rms norm multiplies by. A sum of squares that overflowed would make every number 0 without a word; NaN is
 * noticed. */
static inline float kern_rms_scale(float sum, size_t n, float eps)
{
	return sum < INFINITY ? 1.0f / sqrtf(sum / (float)n + eps) : fm_from_bits(0x7fc00000u);
}

/* Rotates pairs i to n - 1 of a head with n of them: (2i, 2i+1), or (i, i + n) when halves. */
static inline void kern_rope_rest(float *x, size_t i, size_t n, const float *cosv, const float *sinv, bool halves)
{
	for (; i < n; i++) {
		size_t ia = halves ? i : 2 * i, ib = halves ? i + n : 2 * i + 1;
		float a = x[ia], b = x[ib];
		x[ia] = fmaf(a, cosv[i], -(b * sinv[i]));
		x[ib] = fmaf(a, sinv[i], b * cosv[i]);
	}
}

struct kern_act_scale {
	float d, inv;
};

/* Scale of a block whose largest magnitude has these bits. Blocks below 2^-100 count as zero (1 / d would overflow);
 * a block with Inf or NaN gets scale NaN, so that the trouble reaches the logits, where it is reported. */
static inline struct kern_act_scale kern_act_scale(uint32_t max_bits)
{
	if (max_bits >= 0x7f800000u)
		return (struct kern_act_scale){fm_from_bits(0x7fc00000u), 0.0f};
	float m = fm_from_bits(max_bits);
	if (m < 0x1p-100f)
		return (struct kern_act_scale){0.0f, 0.0f};
	return (struct kern_act_scale){m / 127.0f, 127.0f / m};
}

/* Groups of the Q8_0 cache in a head of n elements; the last may be short. */
enum { KERN_KV_GROUP = 32 };

static inline size_t kern_kv_groups(size_t n)
{
	return (n + KERN_KV_GROUP - 1) / KERN_KV_GROUP;
}

static inline size_t kern_kv_group_len(size_t n, size_t g)
{
	return n - g * KERN_KV_GROUP < KERN_KV_GROUP ? n - g * KERN_KV_GROUP : KERN_KV_GROUP;
}

struct kern_kv_scale {
	uint16_t d; /* f16 */
	float inv;
};

/* Scale of a group whose largest magnitude has these bits. It is an f16, so that d * q is exact in float. What is not
 * finite, or too large for such a scale (from 8.3 million on), gets scale NaN and q = 0: NaN is read back, and noticed
 * in the logits. What is too small for any scale (below 3.8e-6) is 0. */
static inline struct kern_kv_scale kern_kv_scale(uint32_t max_bits)
{
	const uint16_t nan = 0x7e00;
	uint16_t d = max_bits < 0x7f800000u ? quant_f32_to_f16(fm_from_bits(max_bits) / 127.0f) : nan;
	if (d >= 0x7c00)
		return (struct kern_kv_scale){nan, 0.0f};
	return (struct kern_kv_scale){d, d ? 1.0f / quant_f16_to_f32(d) : 0.0f};
}

/* The clamp is for scales that are subnormal in f16: d may be up to a third below m / 127. Where inv is 0, x may be Inf
 * and is selected away. */
static inline int8_t kern_kv_round(float x, float inv)
{
	int32_t q = kern_round(inv == 0.0f ? 0.0f : x * inv);
	q = q > 127 ? 127 : q;
	return (int8_t)(q < -127 ? -127 : q);
}

/* The cells of block b that the row sees, bit j for place j. 0: none, and the block's table entry says nothing. */
static inline uint32_t kern_attn_cells(const struct kern_attn *a, size_t b)
{
	size_t first = b * KERN_KV_BLOCK;
	uint32_t in = UINT32_MAX << (a->pos0 > first ? a->pos0 - first : 0);
	if (a->pos1 - first < KERN_KV_BLOCK)
		in &= (1u << (a->pos1 - first)) - 1;
	return a->held ? in & a->held[b] : in;
}

/* The cells that all queries see and that come, in each one's order, before the others it sees: these can be taken
 * together without changing an order. */
static inline uint32_t kern_attn_common(const struct kern_attn_query *q, size_t n)
{
	uint32_t common = UINT32_MAX, upto;

	for (size_t i = 0; i < n; i++)
		common &= q[i].cells;
	if (!common)
		return 0;
	upto = (uint32_t)(((uint64_t)2 << (31 - __builtin_clz(common))) - 1);
	for (size_t i = 0; i < n; i++)
		if ((q[i].cells & upto) != common)
			return 0;
	return common;
}

#endif
