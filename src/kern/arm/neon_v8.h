/* Eight floats of the NEON level for kern_v8.h. */
#ifndef KERN_ARM_NEON_V8_H
#define KERN_ARM_NEON_V8_H

#include "kern/arm/neon.h"

#define V8 NEON
#define V8_INLINE NEON_INLINE
#define V8_UNROLL NEON_UNROLL
typedef struct neon_f8 v8;
#define v8_load neon_load8
#define v8_store neon_store8
#define v8_add neon_add8
#define v8_mul neon_mul8
#define v8_fma neon_fma8

V8_INLINE v8 v8_set(float f)
{
	return (v8){vdupq_n_f32(f), vdupq_n_f32(f)};
}
V8_INLINE v8 v8_sub(v8 a, v8 b)
{
	return (v8){vsubq_f32(a.lo, b.lo), vsubq_f32(a.hi, b.hi)};
}
V8_INLINE v8 v8_div(v8 a, v8 b)
{
	return (v8){vdivq_f32(a.lo, b.lo), vdivq_f32(a.hi, b.hi)};
}
V8_INLINE v8 v8_pick_lt(v8 a, v8 b, v8 x, v8 y)
{
	return (v8){vbslq_f32(vcltq_f32(a.lo, b.lo), x.lo, y.lo), vbslq_f32(vcltq_f32(a.hi, b.hi), x.hi, y.hi)};
}
V8_INLINE v8 v8_abs(v8 x)
{
	return (v8){vabsq_f32(x.lo), vabsq_f32(x.hi)};
}
V8_INLINE v8 v8_minus_abs(v8 x)
{
	return (v8){vnegq_f32(vabsq_f32(x.lo)), vnegq_f32(vabsq_f32(x.hi))};
}
V8_INLINE v8 v8_with_sign(v8 x, v8 s)
{
	const uint32x4_t sign = vdupq_n_u32(0x80000000u);
	return (v8){vbslq_f32(sign, s.lo, x.lo), vbslq_f32(sign, s.hi, x.hi)};
}
V8_INLINE v8 v8_exp(v8 x)
{
	return (v8){neon_exp(x.lo), neon_exp(x.hi)};
}

V8_INLINE float32x4_t v8_log_half(float32x4_t x, float32x4_t *e)
{
	uint32x4_t up = vaddq_u32(vreinterpretq_u32_f32(x), vdupq_n_u32(0x3f800000u - KERN_LOG_LEAST));
	uint32x4_t part = vandq_u32(up, vdupq_n_u32(0x007fffffu));
	*e = vcvtq_f32_s32(vsubq_s32(vreinterpretq_s32_u32(vshrq_n_u32(up, 23)), vdupq_n_s32(127)));
	return vreinterpretq_f32_u32(vaddq_u32(part, vdupq_n_u32(KERN_LOG_LEAST)));
}
V8_INLINE v8 v8_log_split(v8 x, v8 *e)
{
	return (v8){v8_log_half(x.lo, &e->lo), v8_log_half(x.hi, &e->hi)};
}

V8_INLINE v8 v8_trees(const v8 v[8])
{
	float t[8];
	NEON_UNROLL
	for (int i = 0; i < 8; i++)
		t[i] = neon_tree8(v[i]);
	return neon_load8(t);
}

#endif
