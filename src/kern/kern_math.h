/* Scalar definitions that every level must reproduce: bits, exp, the fold of eight lanes, rounding to 8 bits. */
#ifndef KERN_KERN_MATH_H
#define KERN_KERN_MATH_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

static inline uint32_t kern_bits(float f)
{
	uint32_t b;
	memcpy(&b, &f, sizeof b);
	return b;
}

static inline float kern_from_bits(uint32_t b)
{
	float f;
	memcpy(&f, &b, sizeof f);
	return f;
}

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
	p = p * kern_from_bits((kern_bits(t) << 23) + 0x3f800000u);
	return x < KERN_EXP_MIN ? 0.0f : p;
}

/* Nearest integer, ties to even, for |v| < 2^22; no library call, so no rounding mode or CPU variant gets in. */
static inline int32_t kern_round(float v)
{
	return (int32_t)(kern_bits(v + KERN_MAGIC) & 0x7fffffu) - 0x400000;
}

/* What rms norm multiplies by. A sum of squares that overflowed would make every number 0 without a word; NaN is
 * noticed. */
static inline float kern_rms_scale(float sum, size_t n, float eps)
{
	return sum < INFINITY ? 1.0f / sqrtf(sum / (float)n + eps) : kern_from_bits(0x7fc00000u);
}

struct kern_act_scale {
	float d, inv;
};

/* Scale of a block whose largest magnitude has these bits. Blocks below 2^-100 count as zero (1 / d would overflow);
 * a block with Inf or NaN gets scale NaN, so that the trouble reaches the logits, where it is reported. */
static inline struct kern_act_scale kern_act_scale(uint32_t max_bits)
{
	if (max_bits >= 0x7f800000u)
		return (struct kern_act_scale){kern_from_bits(0x7fc00000u), 0.0f};
	float m = kern_from_bits(max_bits);
	if (m < 0x1p-100f)
		return (struct kern_act_scale){0.0f, 0.0f};
	return (struct kern_act_scale){m / 127.0f, 127.0f / m};
}

#endif
