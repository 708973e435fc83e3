/* NEON: row operations and the rounding of activations. Same operations as kern_ref.c, four or eight lanes at a time;
 * what is left at the end of a row is done one by one, in the same operations. */
#include "kern/arm/neon_v8.h"

/* The one place of this level that knows how the sum of a block is kept. */
NEON_INLINE void set_sum(struct kern_act_q8_32 *o, int32_t sum)
{
	o->off8 = -8 * sum;
	o->off128 = -128 * sum;
	o->s = o->d * (float)sum;
}

NEON static void act_q8_32(const float *x, size_t k, void *out)
{
	struct kern_act_q8_32 *o = out;
	for (size_t b = 0; b < k / 32; b++, x += 32) {
		struct kern_act_scale s = kern_act_scale(vmaxvq_u32(neon_abs_bits_32(x)));
		int8x16_t q[2];
		neon_round_32(x, s.inv, q);
		vst1q_s8(o[b].qs, q[0]);
		vst1q_s8(o[b].qs + 16, q[1]);
		o[b].d = s.d;
		set_sum(&o[b], vaddlvq_s8(q[0]) + vaddlvq_s8(q[1]));
	}
}

NEON static void act_q8_256(const float *x, size_t k, void *out)
{
	struct kern_act_q8_256 *o = out;
	for (size_t b = 0; b < k / 256; b++, x += 256) {
		uint32x4_t m = neon_abs_bits_32(x);
		for (int i = 1; i < 8; i++)
			m = vmaxq_u32(m, neon_abs_bits_32(x + 32 * i));
		struct kern_act_scale s = kern_act_scale(vmaxvq_u32(m));
		o[b].d = s.d;
		for (int i = 0; i < 8; i++) {
			int8x16_t q[2];
			neon_round_32(x + 32 * i, s.inv, q);
			vst1q_s8(o[b].qs + 32 * i, q[0]);
			vst1q_s8(o[b].qs + 32 * i + 16, q[1]);
			o[b].s16[2 * i] = vaddlvq_s8(q[0]);
			o[b].s16[2 * i + 1] = vaddlvq_s8(q[1]);
			o[b].s32[i] = (int16_t)(o[b].s16[2 * i] + o[b].s16[2 * i + 1]);
		}
	}
}

NEON static void rms_norm(const float *x, const float *w, size_t n, float eps, float *out)
{
	struct neon_f8 acc = neon_zero8();
	float lane[8];
	size_t i = 0;
	for (; i + 8 <= n; i += 8) {
		struct neon_f8 v = neon_load8(x + i);
		acc = neon_fma8(v, v, acc);
	}
	neon_store8(lane, acc);
	for (; i < n; i++)
		lane[i % 8] = fmaf(x[i], x[i], lane[i % 8]);
	float r = kern_rms_scale(kern_tree8(lane), n, eps);
	for (i = 0; i + 4 <= n; i += 4)
		vst1q_f32(out + i, vmulq_f32(vmulq_n_f32(vld1q_f32(x + i), r), vld1q_f32(w + i)));
	for (; i < n; i++)
		out[i] = x[i] * r * w[i];
}

NEON static void add(float *x, const float *y, size_t n)
{
	size_t i = 0;
	for (; i + 4 <= n; i += 4)
		vst1q_f32(x + i, vaddq_f32(vld1q_f32(x + i), vld1q_f32(y + i)));
	for (; i < n; i++)
		x[i] = x[i] + y[i];
}

NEON static void scale(float *x, float f, size_t n)
{
	size_t i = 0;
	for (; i + 4 <= n; i += 4)
		vst1q_f32(x + i, vmulq_n_f32(vld1q_f32(x + i), f));
	for (; i < n; i++)
		x[i] = x[i] * f;
}

NEON static void silu_mul(const float *gate, const float *up, size_t n, float *out)
{
	size_t i = 0;
	for (; i + 4 <= n; i += 4) {
		float32x4_t g = vld1q_f32(gate + i);
		float32x4_t e = vaddq_f32(vdupq_n_f32(1.0f), neon_exp(vnegq_f32(g)));
		vst1q_f32(out + i, vmulq_f32(vdivq_f32(g, e), vld1q_f32(up + i)));
	}
	for (; i < n; i++)
		out[i] = gate[i] / (1.0f + kern_exp(-gate[i])) * up[i];
}

/* a' = fma(a, cos, -(b * sin)), b' = fma(a, sin, b * cos) */
NEON_INLINE float32x4x2_t rotate(float32x4_t a, float32x4_t b, const float *cosv, const float *sinv)
{
	float32x4_t c = vld1q_f32(cosv), s = vld1q_f32(sinv);
	float32x4x2_t r = {{
		vfmaq_f32(vnegq_f32(vmulq_f32(b, s)), a, c),
		vfmaq_f32(vmulq_f32(b, c), a, s),
	}};
	return r;
}

NEON static void rope(float *x, size_t n_rot, const float *cosv, const float *sinv, bool halves)
{
	size_t n = n_rot / 2, i = 0;
	for (; i + 4 <= n; i += 4) {
		if (halves) {
			float32x4x2_t r = rotate(vld1q_f32(x + i), vld1q_f32(x + n + i), cosv + i, sinv + i);
			vst1q_f32(x + i, r.val[0]);
			vst1q_f32(x + n + i, r.val[1]);
		} else {
			float32x4x2_t v = vld2q_f32(x + 2 * i);
			vst2q_f32(x + 2 * i, rotate(v.val[0], v.val[1], cosv + i, sinv + i));
		}
	}
	kern_rope_rest(x, i, n, cosv, sinv, halves);
}

NEON static bool all_finite(const float *x, size_t n)
{
	const uint32x4_t top = vdupq_n_u32(0x7f800000u);
	uint32x4_t bad = vdupq_n_u32(0);
	size_t i = 0;
	for (; i + 4 <= n; i += 4) {
		uint32x4_t b = vreinterpretq_u32_f32(vld1q_f32(x + i));
		bad = vorrq_u32(bad, vceqq_u32(vandq_u32(b, top), top));
	}
	for (; i < n; i++)
		if ((fm_bits(x[i]) & 0x7f800000u) == 0x7f800000u)
			return false;
	return vmaxvq_u32(bad) == 0;
}

#include "kern/kern_v8.h"
#include "kern/kern_rows8.h"

void kern_neon_init_rows(struct kern *k)
{
	rows8_init(k);
	k->act[QUANT_ACT_Q8_32] = act_q8_32;
	k->act[QUANT_ACT_Q8_256] = act_q8_256;
	k->rms_norm = rms_norm;
	k->add = add;
	k->scale = scale;
	k->silu_mul = silu_mul;
	k->rope = rope;
	k->all_finite = all_finite;
}

void kern_init_neon(struct kern *k)
{
	kern_neon_init_rows(k);
	kern_neon_init_attn(k);
	kern_neon_init_mm_float(k);
	kern_neon_init_mm_32(k);
	kern_neon_init_mm_256(k);
}
