/* NEON: the cache and attention, on top of kern_kv8.h. */
#include "kern/arm/neon_v8.h"

#include <string.h>

enum { B = KERN_KV_BLOCK, G = KERN_KV_GROUP };

/* ---- Eight floats ---- */

#define KV8 NEON
#define KV8_INLINE NEON_INLINE
#define KV8_UNROLL NEON_UNROLL
typedef struct neon_f8 kv8;
#define kv8_zero neon_zero8
#define kv8_load neon_load8
#define kv8_store neon_store8
#define kv8_mul neon_mul8
#define kv8_mul_n neon_mul8_n
#define kv8_fma_n neon_fma8_n

NEON_INLINE void kv8_to_f16(const float *x, uint16_t *h)
{
	float16x4_t lo = vcvt_f16_f32(vld1q_f32(x));
	vst1q_u16(h, vreinterpretq_u16_f16(vcvt_high_f16_f32(lo, vld1q_f32(x + 4))));
}
NEON_INLINE uint16_t kv8_round_32(const float *x, int8_t qs[G])
{
	struct kern_kv_scale s = kern_kv_scale(vmaxvq_u32(neon_abs_bits_32(x)));
	int8x16_t q[2];
	neon_round_32(x, s.inv, q);
	vst1q_s8(qs, vmaxq_s8(q[0], vdupq_n_s8(-127)));
	vst1q_s8(qs + 16, vmaxq_s8(q[1], vdupq_n_s8(-127)));
	return s.d;
}

/* Eight elements from i on; those of Q8_0 still want their scale. */
NEON_INLINE struct neon_f8 load_kv(const void *area, size_t i, const enum kern_kv type)
{
	if (type == KERN_KV_F16)
		return neon_widen8((const uint16_t *)area + i);
	if (type == KERN_KV_F32)
		return neon_load8((const float *)area + i);
	int16x8_t q = vmovl_s8(vld1_s8((const int8_t *)area + i));
	return (struct neon_f8){vcvtq_f32_s32(vmovl_s16(vget_low_s16(q))), vcvtq_f32_s32(vmovl_s16(vget_high_s16(q)))};
}

/* a > b ? a : b, so that NaN in a is passed over. */
NEON_INLINE float32x4_t larger(float32x4_t a, float32x4_t b)
{
	return vbslq_f32(vcgtq_f32(a, b), a, b);
}

/* Four bits, from bit i on, to four lanes: all ones where the bit is. */
NEON_INLINE uint32x4_t lanes_of(uint32_t bits, int i)
{
	static const uint32_t bit[4] = {1, 2, 4, 8};
	return vtstq_u32(vdupq_n_u32(bits >> i), vld1q_u32(bit));
}

/* Scores of one query become weights, and 0 where it sees nothing; returns the factor for what was summed before. */
NEON_INLINE float soften(float *s, struct kern_attn_query *q)
{
	float32x4_t v[8], m = vdupq_n_f32(q->top);
	uint32x4_t in[8];
	for (int i = 0; i < 8; i++) {
		in[i] = lanes_of(q->cells, 4 * i);
		v[i] = vld1q_f32(s + 4 * i);
		m = larger(vbslq_f32(in[i], v[i], m), m);
	}
	float old = q->top;
	q->top = vmaxvq_f32(m); /* no NaN got there */
	for (int i = 0; i < 8; i++) {
		v[i] = neon_exp(vsubq_f32(v[i], vdupq_n_f32(q->top)));
		v[i] = vbslq_f32(in[i], v[i], vdupq_n_f32(0.0f));
		vst1q_f32(s + 4 * i, v[i]);
	}
	struct neon_f8 lane = {v[0], v[1]};
	for (int i = 2; i < 8; i += 2)
		lane = neon_add8(lane, (struct neon_f8){v[i], v[i + 1]});
	float c = kern_exp(old - q->top);
	q->sum = fmaf(q->sum, c, neon_tree8(lane));
	return c;
}

#include "kern/kern_kv8.h"

#define ATTN(name, type)                                              \
	NEON static void attn_##name(const struct kern_attn_step *s)  \
	{                                                             \
		attn(s, s->k, s->v, type);                                        \
	}
ATTN(f16, KERN_KV_F16)
ATTN(f32, KERN_KV_F32)
ATTN(q8_0, KERN_KV_Q8_0)

/* The rest moves single numbers that lie apart, or is memcpy already: the reference's will do. */
void kern_neon_init_attn(struct kern *k)
{
	k->put_k[KERN_KV_F16] = put_k_f16;
	k->put_v[KERN_KV_F16] = put_v_f16;
	k->get_k[KERN_KV_F16] = get_k_f16;
	k->put_k[KERN_KV_Q8_0] = put_k_q8_0;
	k->put_v[KERN_KV_Q8_0] = put_v_q8_0;
	k->attn[KERN_KV_F16] = attn_f16;
	k->attn[KERN_KV_F32] = attn_f32;
	k->attn[KERN_KV_Q8_0] = attn_q8_0;
}
