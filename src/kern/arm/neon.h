/* Shared by the files of the NEON level: 64-bit ARM with the dot product instructions. Every function carries the
 * target attribute, so that no file needs -m flags and nothing of this level leaks into code that an older CPU runs.
 * Conversions between f16 and float and fused multiply-adds belong to every 64-bit ARM. */
#ifndef KERN_ARM_NEON_H
#define KERN_ARM_NEON_H

#include "kern/kern.h"
#include "kern/kern_math.h"

#include <arm_neon.h>
#include <string.h>

#define NEON __attribute__((target("arch=armv8.2-a+dotprod")))
#define NEON_INLINE NEON __attribute__((always_inline)) static inline

/* Small loops over registers must vanish, or the arrays stay in memory. */
#if defined(__clang__)
#define NEON_UNROLL _Pragma("clang loop unroll(full)")
#else
#define NEON_UNROLL _Pragma("GCC unroll 8")
#endif

/* Each fills in its part of the table. */
void kern_neon_init_rows(struct kern *k);
void kern_neon_init_attn(struct kern *k);
void kern_neon_init_mm_float(struct kern *k);
void kern_neon_init_mm_32(struct kern *k);
void kern_neon_init_mm_256(struct kern *k);

/* ---- Eight floats: the lanes of docs/numerics.md ---- */

struct neon_f8 {
	float32x4_t lo, hi;
};

NEON_INLINE struct neon_f8 neon_load8(const float *x)
{
	return (struct neon_f8){vld1q_f32(x), vld1q_f32(x + 4)};
}

NEON_INLINE void neon_store8(float *x, struct neon_f8 v)
{
	vst1q_f32(x, v.lo);
	vst1q_f32(x + 4, v.hi);
}

NEON_INLINE struct neon_f8 neon_zero8(void)
{
	return (struct neon_f8){vdupq_n_f32(0.0f), vdupq_n_f32(0.0f)};
}

/* Eight f16 numbers, widened exactly. */
NEON_INLINE struct neon_f8 neon_widen8(const uint16_t *p)
{
	float16x8_t h = vreinterpretq_f16_u16(vld1q_u16(p));
	return (struct neon_f8){vcvt_f32_f16(vget_low_f16(h)), vcvt_high_f32_f16(h)};
}

/* fma(a, b, c), and fma(a, b, c) with one b for all. */
NEON_INLINE struct neon_f8 neon_fma8(struct neon_f8 a, struct neon_f8 b, struct neon_f8 c)
{
	return (struct neon_f8){vfmaq_f32(c.lo, a.lo, b.lo), vfmaq_f32(c.hi, a.hi, b.hi)};
}

NEON_INLINE struct neon_f8 neon_fma8_n(struct neon_f8 a, float b, struct neon_f8 c)
{
	return (struct neon_f8){vfmaq_n_f32(c.lo, a.lo, b), vfmaq_n_f32(c.hi, a.hi, b)};
}

NEON_INLINE struct neon_f8 neon_mul8(struct neon_f8 a, struct neon_f8 b)
{
	return (struct neon_f8){vmulq_f32(a.lo, b.lo), vmulq_f32(a.hi, b.hi)};
}

NEON_INLINE struct neon_f8 neon_mul8_n(struct neon_f8 a, float b)
{
	return (struct neon_f8){vmulq_n_f32(a.lo, b), vmulq_n_f32(a.hi, b)};
}

NEON_INLINE struct neon_f8 neon_add8(struct neon_f8 a, struct neon_f8 b)
{
	return (struct neon_f8){vaddq_f32(a.lo, b.lo), vaddq_f32(a.hi, b.hi)};
}

/* The fold of docs/numerics.md: i and i + 4, i and i + 2, the last two. */
NEON_INLINE float neon_tree8(struct neon_f8 v)
{
	float32x4_t a = vaddq_f32(v.lo, v.hi);
	float32x2_t b = vadd_f32(vget_low_f32(a), vget_high_f32(a));
	return vget_lane_f32(b, 0) + vget_lane_f32(b, 1);
}

/* kern_exp in four lanes. */
NEON_INLINE float32x4_t neon_exp(float32x4_t x)
{
	const float32x4_t most = vdupq_n_f32(KERN_EXP_MAX), magic = vdupq_n_f32(KERN_MAGIC);
	float32x4_t v = vbslq_f32(vcgtq_f32(x, most), most, x); /* NaN passes */
	float32x4_t t = vfmaq_f32(magic, v, vdupq_n_f32(KERN_LOG2E));
	float32x4_t n = vsubq_f32(t, magic);
	float32x4_t r = vfmaq_f32(v, n, vdupq_n_f32(-KERN_LN2_HI));
	r = vfmaq_f32(r, n, vdupq_n_f32(-KERN_LN2_LO));
	float32x4_t p = vfmaq_f32(vdupq_n_f32(KERN_EXP_C6), r, vdupq_n_f32(KERN_EXP_C7));
	p = vfmaq_f32(vdupq_n_f32(KERN_EXP_C5), r, p);
	p = vfmaq_f32(vdupq_n_f32(KERN_EXP_C4), r, p);
	p = vfmaq_f32(vdupq_n_f32(KERN_EXP_C3), r, p);
	p = vfmaq_f32(vdupq_n_f32(KERN_EXP_C2), r, p);
	p = vfmaq_f32(vdupq_n_f32(1.0f), r, p);
	p = vfmaq_f32(vdupq_n_f32(1.0f), r, p);
	uint32x4_t e = vaddq_u32(vshlq_n_u32(vreinterpretq_u32_f32(t), 23), vdupq_n_u32(0x3f800000u));
	p = vmulq_f32(p, vreinterpretq_f32_u32(e));
	return vbslq_f32(vcltq_f32(x, vdupq_n_f32(KERN_EXP_MIN)), vdupq_n_f32(0.0f), p);
}

/* ---- Rounding to bytes ---- */

/* The largest magnitude of 32 floats, in one of the lanes, as bits: NaN > Inf > finite, whatever the order. */
NEON_INLINE uint32x4_t neon_abs_bits_32(const float *x)
{
	const uint32x4_t mask = vdupq_n_u32(0x7fffffffu);
	uint32x4_t m = vdupq_n_u32(0);
	NEON_UNROLL
	for (int i = 0; i < 8; i++)
		m = vmaxq_u32(m, vandq_u32(vreinterpretq_u32_f32(vld1q_f32(x + 4 * i)), mask));
	return m;
}

/* x * inv of 32 floats as bytes, nearest even, saturated. inv == 0 selects zeros. */
NEON_INLINE void neon_round_32(const float *x, float inv, int8x16_t q[2])
{
	const int32x4_t keep = vdupq_n_s32(inv == 0.0f ? 0 : -1);
	int16x4_t h[8];
	NEON_UNROLL
	for (int i = 0; i < 8; i++)
		h[i] = vqmovn_s32(vandq_s32(keep, vcvtnq_s32_f32(vmulq_n_f32(vld1q_f32(x + 4 * i), inv))));
	NEON_UNROLL
	for (int i = 0; i < 2; i++)
		q[i] = vcombine_s8(vqmovn_s16(vcombine_s16(h[4 * i], h[4 * i + 1])),
				vqmovn_s16(vcombine_s16(h[4 * i + 2], h[4 * i + 3])));
}

/* ---- Products with interleaved weights ----
 *
 * Four rows are interleaved by units of 4 bytes: a register holds 4 consecutive k of each, and lane r of a dot product
 * with 4 bytes of the activation is output row r. So there is no horizontal sum, and an output's additions come in the
 * order of docs/numerics.md whatever the tile. */

/* Four units of weights against the 16 bytes of a column, added to s; and eight against 32. */
NEON_INLINE int32x4_t neon_dot4(const int8x16_t v[4], const int8_t *qs, int32x4_t s)
{
	const int8x16_t a = vld1q_s8(qs);
	s = vdotq_laneq_s32(s, v[0], a, 0);
	s = vdotq_laneq_s32(s, v[1], a, 1);
	s = vdotq_laneq_s32(s, v[2], a, 2);
	return vdotq_laneq_s32(s, v[3], a, 3);
}

NEON_INLINE int32x4_t neon_dot8(const int8x16_t v[8], const int8_t *qs)
{
	return neon_dot4(v + 4, qs + 16, neon_dot4(v, qs, vdupq_n_s32(0)));
}

/* Four f16 numbers, widened exactly. */
NEON_INLINE float32x4_t neon_widen4(const uint16_t *p)
{
	return vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(p)));
}

/* Four outputs of column col from row on; rows past the end are not stored. */
NEON_INLINE void neon_store_rows(const struct kern_mm *m, size_t row, size_t col, float32x4_t v)
{
	float *out = m->out + col * m->out_ld + row;
	if (row + 4 <= m->n_rows) {
		vst1q_f32(out, v);
	} else {
		float all[4];
		vst1q_f32(all, v);
		memcpy(out, all, (m->n_rows - row) * sizeof *out);
	}
}

/* mm_FMT from block_FMT(w, act, step, acc, n), which adds one block of four rows to n columns, `act` being the block of
 * the first and `step` the bytes from one to the next. Tiles of eight columns, then one of what is left: weights are
 * unpacked once per tile and read again, if at all, from L1. */
#define NEON_MM(fmt, block, act_type)                                                                         \
	NEON_INLINE void tile_##fmt(const struct kern_mm *m, size_t row, size_t col, const int n)           \
	{                                                                                                   \
		const size_t nb = m->k / (block), step = m->act_bytes;                                      \
		const struct fmt##x4 *w = (const struct fmt##x4 *)m->w + row / 4 * nb;                      \
		const uint8_t *act = (const uint8_t *)m->act + col * step;                                  \
		float32x4_t acc[8];                                                                         \
		for (int c = 0; c < n; c++)                                                                 \
			acc[c] = vdupq_n_f32(0.0f);                                                         \
		for (size_t b = 0; b < nb; b++, w++, act += sizeof(act_type))                               \
			block_##fmt(w, act, step, acc, n);                                                  \
		for (int c = 0; c < n; c++)                                                                 \
			neon_store_rows(m, row, col + (size_t)c, acc[c]);                                   \
	}                                                                                                   \
	NEON static void mm_##fmt(const struct kern_mm *m, size_t row0, size_t row1)                        \
	{                                                                                                   \
		for (size_t r = row0; r < row1; r += 4) {                                                   \
			size_t c = 0;                                                                       \
			for (; c + 8 <= m->n_cols; c += 8)                                                  \
				tile_##fmt(m, r, c, 8);                                                     \
			switch (m->n_cols - c) {                                                            \
			case 7: tile_##fmt(m, r, c, 7); break;                                              \
			case 6: tile_##fmt(m, r, c, 6); break;                                              \
			case 5: tile_##fmt(m, r, c, 5); break;                                              \
			case 4: tile_##fmt(m, r, c, 4); break;                                              \
			case 3: tile_##fmt(m, r, c, 3); break;                                              \
			case 2: tile_##fmt(m, r, c, 2); break;                                              \
			case 1: tile_##fmt(m, r, c, 1); break;                                              \
			default: break;                                                                     \
			}                                                                                   \
		}                                                                                           \
	}

/* packed_bytes_FMT and pack_FMT from pack_row_FMT(out, j, block), which puts a block of row j among its four. Rows past
 * the end stay zero. */
#define NEON_PACK(fmt, block)                                                                                    \
	static size_t packed_bytes_##fmt(size_t n_rows, size_t k)                                              \
	{                                                                                                      \
		return (n_rows + 3) / 4 * (k / (block)) * sizeof(struct fmt##x4);                              \
	}                                                                                                      \
	static void pack_##fmt(void *dst, const void *src, size_t n_rows, size_t k, size_t row0, size_t row1)  \
	{                                                                                                      \
		size_t nb = k / (block);                                                                       \
		for (size_t r = row0; r < row1; r += 4)                                                        \
			for (size_t b = 0; b < nb; b++) {                                                      \
				struct fmt##x4 *o = (struct fmt##x4 *)dst + r / 4 * nb + b;                    \
				memset(o, 0, sizeof *o);                                                       \
				for (size_t j = 0; j < 4 && r + j < n_rows; j++)                               \
					pack_row_##fmt(o, j, (const struct fmt *)src + (r + j) * nb + b);      \
			}                                                                                      \
	}
#define NEON_PACKED(fmt) (struct kern_mat) {4, mm_##fmt, packed_bytes_##fmt, pack_##fmt}

/* n units of a row among those of four, each byte with the bits of `turn` turned over. */
static inline void neon_pack_units(uint8_t (*out)[16], size_t j, const void *qs, int n, uint8_t turn)
{
	for (int i = 0; i < 4 * n; i++)
		out[i / 4][4 * j + (size_t)(i % 4)] = ((const uint8_t *)qs)[i] ^ turn;
}

#endif
