/* NEON: products with weights in blocks of 32 (Q4_0, Q8_0, MXFP4), four rows interleaved as neon.h says.
 *
 * Invariants
 *  1. Dot products add to int32. Q4_0's factors are 16 times the weight's integer: 32 * 128 * 127 = 520,192 at most, as
 *     for Q8_0 with its -128. The conversion to float divides by 16, exactly.
 *  2. Rows past n_rows are packed as zeros and never stored. */
#include "kern/arm/neon.h"

struct q4_0x4 {
	uint16_t d[4];
	uint8_t qs[4][16]; /* unit i: bytes 4i..4i+3 of each row's block, every nibble less 8 in two's complement */
};

struct q8_0x4 {
	uint16_t d[4];
	int8_t qs[8][16];
};

struct mxfp4x4 {
	uint8_t e[4];
	uint8_t qs[4][16];
};

_Static_assert(sizeof(struct q4_0x4) == 4 * 18, "same size as in the file");
_Static_assert(sizeof(struct q8_0x4) == 4 * 34, "same size as in the file");
_Static_assert(sizeof(struct mxfp4x4) == 4 * 17, "same size as in the file");

/* One block against n columns: acc = fma(dw * da, I, acc). v holds the weights' integers, or 16 times them. */
NEON_INLINE void add_block(const float32x4_t d, const int8x16_t v[8], const bool by_16, const uint8_t *act, size_t step,
		float32x4_t *acc, const int n)
{
	NEON_UNROLL
	for (int c = 0; c < n; c++) {
		const struct kern_act_q8_32 *a = (const void *)(act + (size_t)c * step);
		int32x4_t s = neon_dot8(v, a->qs);
		float32x4_t i = by_16 ? vcvtq_n_f32_s32(s, 4) : vcvtq_f32_s32(s);
		acc[c] = vfmaq_f32(acc[c], vmulq_n_f32(d, a->d), i);
	}
}

/* The low nibbles are the first half of the block; in the high half of a byte a nibble is 16 times its value. */
NEON_INLINE void block_q4_0(const struct q4_0x4 *w, const uint8_t *act, size_t step, float32x4_t *acc, const int n)
{
	const int8x16_t high = vdupq_n_s8(-16);
	int8x16_t v[8];
	NEON_UNROLL
	for (int i = 0; i < 4; i++) {
		int8x16_t q = vreinterpretq_s8_u8(vld1q_u8(w->qs[i]));
		v[i] = vshlq_n_s8(q, 4);
		v[i + 4] = vandq_s8(q, high);
	}
	add_block(neon_widen4(w->d), v, true, act, step, acc, n);
}

NEON_INLINE void block_q8_0(const struct q8_0x4 *w, const uint8_t *act, size_t step, float32x4_t *acc, const int n)
{
	int8x16_t v[8];
	NEON_UNROLL
	for (int i = 0; i < 8; i++)
		v[i] = vld1q_s8(w->qs[i]);
	add_block(neon_widen4(w->d), v, false, act, step, acc, n);
}

/* quant_mxfp4_scale in four lanes. The exponent is e's; 0, which has none, is half of the least normal number. Halving
 * is exact. */
NEON_INLINE float32x4_t mxfp4_scale(const uint8_t *p)
{
	uint32_t four;
	memcpy(&four, p, sizeof four);
	const uint16x8_t wide = vmovl_u8(vcreate_u8(four));
	const uint32x4_t e = vshlq_n_u32(vmovl_u16(vget_low_u16(wide)), 23);
	const float32x4_t twice = vreinterpretq_f32_u32(vmaxq_u32(e, vdupq_n_u32(0x00400000u)));
	const uint32x4_t bad = vceqq_u32(e, vdupq_n_u32(0x7f800000u));
	return vbslq_f32(bad, vdupq_n_f32(NAN), vmulq_n_f32(twice, 0.5f));
}

NEON_INLINE void block_mxfp4(const struct mxfp4x4 *w, const uint8_t *act, size_t step, float32x4_t *acc, const int n)
{
	const int8x16_t table = vld1q_s8(quant_mxfp4_values);
	int8x16_t v[8];
	NEON_UNROLL
	for (int i = 0; i < 4; i++) {
		const uint8x16_t q = vld1q_u8(w->qs[i]);
		v[i] = vqtbl1q_s8(table, vandq_u8(q, vdupq_n_u8(15)));
		v[i + 4] = vqtbl1q_s8(table, vshrq_n_u8(q, 4));
	}
	add_block(mxfp4_scale(w->e), v, false, act, step, acc, n);
}

NEON_MM(q4_0, 32, struct kern_act_q8_32)
NEON_MM(q8_0, 32, struct kern_act_q8_32)
NEON_MM(mxfp4, 32, struct kern_act_q8_32)

/* ---- Packing: row j of four ---- */

static void pack_row_q4_0(struct q4_0x4 *o, size_t j, const struct q4_0 *s)
{
	o->d[j] = s->d;
	neon_pack_units(o->qs, j, s->qs, 4, 0x88); /* q - 8 in four bits is q with its top bit turned over */
}

static void pack_row_q8_0(struct q8_0x4 *o, size_t j, const struct q8_0 *s)
{
	o->d[j] = s->d;
	neon_pack_units((uint8_t(*)[16])o->qs, j, s->qs, 8, 0);
}

static void pack_row_mxfp4(struct mxfp4x4 *o, size_t j, const struct mxfp4 *s)
{
	o->e[j] = s->e;
	neon_pack_units(o->qs, j, s->qs, 4, 0);
}

NEON_PACK(q4_0, 32)
NEON_PACK(q8_0, 32)
NEON_PACK(mxfp4, 32)

void kern_neon_init_mm_32(struct kern *k)
{
	k->packed[QUANT_Q4_0] = NEON_PACKED(q4_0);
	k->packed[QUANT_Q8_0] = NEON_PACKED(q8_0);
	k->packed[QUANT_MXFP4] = NEON_PACKED(mxfp4);
}
