/* NEON: products with weights in blocks of 256 (Q4_K, Q6_K), four rows interleaved as neon.h says. The scales multiply
 * in integers, so the conversion to float happens once per 256.
 *
 * Invariants
 *  1. int32 sums: 256 * 63 * 15 * 127 < 2^25 (Q4_K); its minimums 8 * 63 * 4,064 < 2^21; 256 * 128 * 128 * 127 < 2^30
 *     (Q6_K, whose factors are 4 times the weight's integer). The conversion to float divides by 4 before it rounds.
 *  2. Rows past n_rows are packed as zeros and never stored. */
#include "kern/arm/neon.h"

struct q4_kx4 {
	uint16_t d[4], dmin[4];
	uint8_t scales[8][4];  /* [sub-block][row] */
	uint8_t mins[8][4];
	uint8_t qs[32][16];    /* unit i: bytes 4i..4i+3 of each row */
};

struct q6_kx4 {
	uint16_t d[4];
	int8_t scales[16][4];  /* [sub-block][row] */
	uint8_t ql[32][16];    /* unit i: bytes 4i..4i+3 of each row */
	uint8_t qh[16][16];    /* the upper bit of each pair turned over: with ql that is q - 32 in two's complement */
};

_Static_assert(sizeof(struct q4_kx4) == 4 * 148, "4 bytes a block more than in the file: unpacked scales");
_Static_assert(sizeof(struct q6_kx4) == 4 * 210, "same size as in the file");

NEON_INLINE const struct kern_act_q8_256 *act_at(const uint8_t *act, int c, size_t step)
{
	return (const void *)(act + (size_t)c * step);
}

/* Four bytes, in the lower half; the upper half is 0. */
NEON_INLINE uint8x8_t load4(const void *p)
{
	uint32_t v;
	memcpy(&v, p, sizeof v);
	return vcreate_u8(v);
}

NEON_INLINE int16x4_t widen_u8(const uint8_t *p)
{
	return vget_low_s16(vreinterpretq_s16_u16(vmovl_u8(load4(p))));
}

NEON_INLINE int16x4_t widen_s8(const int8_t *p)
{
	return vget_low_s16(vmovl_s8(vreinterpret_s8_u8(load4(p))));
}

/* Sub-blocks 2 g and 2 g + 1 are the low and the high nibbles of the same eight units. */
NEON_INLINE void pair_q4_k(const struct q4_kx4 *w, const uint8_t *act, size_t step, int g, int32x4_t *sum, const int n)
{
	const int32x4_t sc0 = vmovl_s16(widen_u8(w->scales[2 * g])), sc1 = vmovl_s16(widen_u8(w->scales[2 * g + 1]));
	int8x16_t lo[8], hi[8];
	NEON_UNROLL
	for (int i = 0; i < 8; i++) {
		uint8x16_t q = vld1q_u8(w->qs[8 * g + i]);
		lo[i] = vreinterpretq_s8_u8(vandq_u8(q, vdupq_n_u8(15)));
		hi[i] = vreinterpretq_s8_u8(vshrq_n_u8(q, 4));
	}
	NEON_UNROLL
	for (int c = 0; c < n; c++) {
		const int8_t *qs = act_at(act, c, step)->qs + 64 * g;
		sum[c] = vmlaq_s32(sum[c], sc0, neon_dot8(lo, qs));
		sum[c] = vmlaq_s32(sum[c], sc1, neon_dot8(hi, qs + 32));
	}
}

NEON_INLINE void block_q4_k(const struct q4_kx4 *w, const uint8_t *act, size_t step, float32x4_t *acc, const int n)
{
	const float32x4_t d = neon_widen4(w->d), dmin = neon_widen4(w->dmin);
	int32x4_t sum[8];
	int16x4_t mins[8];

	for (int c = 0; c < n; c++)
		sum[c] = vdupq_n_s32(0);
	for (int g = 0; g < 4; g++)
		pair_q4_k(w, act, step, g, sum, n);
	NEON_UNROLL
	for (int j = 0; j < 8; j++)
		mins[j] = widen_u8(w->mins[j]);
	NEON_UNROLL
	for (int c = 0; c < n; c++) {
		const struct kern_act_q8_256 *a = act_at(act, c, step);
		int32x4_t m = vdupq_n_s32(0);
		NEON_UNROLL
		for (int j = 0; j < 8; j++)
			m = vmlal_n_s16(m, mins[j], a->s32[j]);
		acc[c] = vfmaq_f32(acc[c], vmulq_n_f32(d, a->d), vcvtq_f32_s32(sum[c]));
		acc[c] = vfmsq_f32(acc[c], vmulq_n_f32(dmin, a->d), vcvtq_f32_s32(m)); /* fma(-(dmin * da), M, acc) */
	}
}

/* Two sub-blocks of 16, j and j + 1, against n columns. */
NEON_INLINE void group_q6_k(const int8x16_t v[8], const struct q6_kx4 *w, int j, const uint8_t *act, size_t step,
		int32x4_t *sum, const int n)
{
	const int32x4_t sc0 = vmovl_s16(widen_s8(w->scales[j])), sc1 = vmovl_s16(widen_s8(w->scales[j + 1]));
	const int32x4_t zero = vdupq_n_s32(0);
	NEON_UNROLL
	for (int c = 0; c < n; c++) {
		const int8_t *qs = act_at(act, c, step)->qs + 16 * j;
		sum[c] = vmlaq_s32(sum[c], sc0, neon_dot4(v, qs, zero));
		sum[c] = vmlaq_s32(sum[c], sc1, neon_dot4(v + 4, qs + 16, zero));
	}
}

/* Quarter p (0..3) of a block: half p / 2 of it, 32 elements from its first 64 (low nibbles) and the 32 that lie 64
 * further on (high nibbles). Their upper bits are pairs p % 2 and p % 2 + 2 of the same bytes. */
NEON_INLINE void quarter_q6_k(const struct q6_kx4 *w, const uint8_t *act, size_t step, int p, int32x4_t *sum,
		const int n)
{
	const int8x16_t down = vdupq_n_s8((int8_t)(-2 * (p % 2)));
	const int j = 8 * (p / 2) + 2 * (p % 2);
	int8x16_t lo[8], hi[8];
	NEON_UNROLL
	for (int i = 0; i < 8; i++) {
		uint8x16_t l = vld1q_u8(w->ql[8 * p + i]), h = vshlq_u8(vld1q_u8(w->qh[8 * (p / 2) + i]), down);
		/* Four bits and two above them; the shift by 2 drops what lies higher. */
		lo[i] = vshlq_n_s8(vreinterpretq_s8_u8(vsliq_n_u8(l, h, 4)), 2);
		hi[i] = vshlq_n_s8(vreinterpretq_s8_u8(vsriq_n_u8(h, l, 4)), 2);
	}
	group_q6_k(lo, w, j, act, step, sum, n);
	group_q6_k(hi, w, j + 4, act, step, sum, n);
}

NEON_INLINE void block_q6_k(const struct q6_kx4 *w, const uint8_t *act, size_t step, float32x4_t *acc, const int n)
{
	const float32x4_t d = neon_widen4(w->d);
	int32x4_t sum[8];

	for (int c = 0; c < n; c++)
		sum[c] = vdupq_n_s32(0);
	for (int p = 0; p < 4; p++)
		quarter_q6_k(w, act, step, p, sum, n);
	NEON_UNROLL
	for (int c = 0; c < n; c++)
		acc[c] = vfmaq_f32(acc[c], vmulq_n_f32(d, act_at(act, c, step)->d), vcvtq_n_f32_s32(sum[c], 2));
}

NEON_MM(q4_k, 256, struct kern_act_q8_256)
NEON_MM(q6_k, 256, struct kern_act_q8_256)

/* ---- Packing: row j of four ---- */

static void pack_row_q4_k(struct q4_kx4 *o, size_t j, const struct q4_k *s)
{
	o->d[j] = s->d;
	o->dmin[j] = s->dmin;
	for (int i = 0; i < 8; i++)
		quant_k_scale_min(s->scales, i, &o->scales[i][j], &o->mins[i][j]);
	neon_pack_units(o->qs, j, s->qs, 32, 0);
}

static void pack_row_q6_k(struct q6_kx4 *o, size_t j, const struct q6_k *s)
{
	o->d[j] = s->d;
	for (int i = 0; i < 16; i++)
		o->scales[i][j] = s->scales[i];
	neon_pack_units(o->ql, j, s->ql, 32, 0);
	neon_pack_units(o->qh, j, s->qh, 16, 0xaa);
}

NEON_PACK(q4_k, 256)
NEON_PACK(q6_k, 256)

void kern_neon_init_mm_256(struct kern *k)
{
	k->packed[QUANT_Q4_K] = NEON_PACKED(q4_k);
	k->packed[QUANT_Q6_K] = NEON_PACKED(q6_k);
}
