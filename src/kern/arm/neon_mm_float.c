/* NEON: products with F32, F16 and BF16 weights, in the file's own layout.
 *
 * Two registers are the eight interleaved chains of one output (docs/numerics.md), so rows need no repacking: four rows
 * by up to three columns keep 24 registers of chains busy, and the other eight hold what is multiplied. 16-bit weights
 * are widened in registers, once per three columns. */
#include "kern/arm/neon.h"

#include <string.h>

/* Four weights from element i on. */
NEON_INLINE float32x4_t load_w(const void *w, size_t i, const uint32_t type)
{
	if (type == QUANT_F32)
		return vld1q_f32((const float *)w + i);
	uint16x4_t h = vld1_u16((const uint16_t *)w + i);
	if (type == QUANT_F16)
		return vcvt_f32_f16(vreinterpret_f16_u16(h));
	return vreinterpretq_f32_u32(vshlq_n_u32(vmovl_u16(h), 16));
}

/* The n (< 8) weights from element i on, with zeros behind. */
NEON_INLINE struct neon_f8 rest_w(const void *w, size_t i, size_t n, const uint32_t type)
{
	float full[8] = {0};
	uint16_t half[8] = {0};
	if (type == QUANT_F32) {
		memcpy(full, (const float *)w + i, n * sizeof *full);
		return neon_load8(full);
	}
	memcpy(half, (const uint16_t *)w + i, n * sizeof *half);
	return (struct neon_f8){load_w(half, 0, type), load_w(half, 4, type)};
}

/* The last n (< 8) elements of k. Lanes past the end keep their sum untouched, sign of zero included. */
NEON_INLINE struct neon_f8 rest(struct neon_f8 w, const float *x, size_t n, struct neon_f8 acc)
{
	static const uint32_t lane[8] = {0, 1, 2, 3, 4, 5, 6, 7};
	const uint32x4_t end = vdupq_n_u32((uint32_t)n);
	float part[8] = {0};
	memcpy(part, x, n * sizeof *x);
	struct neon_f8 sum = neon_fma8(w, neon_load8(part), acc);
	return (struct neon_f8){vbslq_f32(vcltq_u32(vld1q_u32(lane), end), sum.lo, acc.lo),
			vbslq_f32(vcltq_u32(vld1q_u32(lane + 4), end), sum.hi, acc.hi)};
}

NEON_INLINE void tile(const struct kern_mm *m, const uint8_t *w, size_t w_bytes, size_t row, size_t col, const int nr,
		const int nc, const uint32_t type)
{
	const size_t k = m->k;
	const float *x[3];
	struct neon_f8 acc[4][3];
	size_t i = 0;

	for (int c = 0; c < nc; c++)
		x[c] = (const void *)((const uint8_t *)m->act + (col + (size_t)c) * m->act_bytes);
	for (int r = 0; r < nr; r++)
		for (int c = 0; c < nc; c++)
			acc[r][c] = neon_zero8();
	for (; i + 8 <= k; i += 8) {
		float32x4_t y[3];
		NEON_UNROLL
		for (int c = 0; c < nc; c++)
			y[c] = vld1q_f32(x[c] + i);
		NEON_UNROLL
		for (int r = 0; r < nr; r++) {
			float32x4_t v = load_w(w + (size_t)r * w_bytes, i, type);
			NEON_UNROLL
			for (int c = 0; c < nc; c++)
				acc[r][c].lo = vfmaq_f32(acc[r][c].lo, v, y[c]);
		}
		NEON_UNROLL
		for (int c = 0; c < nc; c++)
			y[c] = vld1q_f32(x[c] + i + 4);
		NEON_UNROLL
		for (int r = 0; r < nr; r++) {
			float32x4_t v = load_w(w + (size_t)r * w_bytes, i + 4, type);
			NEON_UNROLL
			for (int c = 0; c < nc; c++)
				acc[r][c].hi = vfmaq_f32(acc[r][c].hi, v, y[c]);
		}
	}
	if (i < k) {
		NEON_UNROLL
		for (int r = 0; r < nr; r++) {
			struct neon_f8 v = rest_w(w + (size_t)r * w_bytes, i, k - i, type);
			NEON_UNROLL
			for (int c = 0; c < nc; c++)
				acc[r][c] = rest(v, x[c] + i, k - i, acc[r][c]);
		}
	}
	for (int r = 0; r < nr; r++)
		for (int c = 0; c < nc; c++)
			m->out[(col + (size_t)c) * m->out_ld + row + (size_t)r] = neon_tree8(acc[r][c]);
}

NEON_INLINE void columns(const struct kern_mm *m, const uint8_t *w, size_t w_bytes, size_t row, const int nr,
		const uint32_t type)
{
	size_t c = 0;
	for (; c + 3 <= m->n_cols; c += 3)
		tile(m, w, w_bytes, row, c, nr, 3, type);
	if (m->n_cols - c == 2)
		tile(m, w, w_bytes, row, c, nr, 2, type);
	else if (m->n_cols - c == 1)
		tile(m, w, w_bytes, row, c, nr, 1, type);
}

NEON_INLINE void mm_float(const struct kern_mm *m, size_t row0, size_t row1, const uint32_t type)
{
	const size_t w_bytes = m->k * (type == QUANT_F32 ? 4 : 2);
	size_t r = row0;

	for (; r + 4 <= row1; r += 4)
		columns(m, (const uint8_t *)m->w + r * w_bytes, w_bytes, r, 4, type);
	for (; r < row1; r++)
		columns(m, (const uint8_t *)m->w + r * w_bytes, w_bytes, r, 1, type);
}

#define MM(fmt, type)                                                                \
	NEON static void mm_##fmt(const struct kern_mm *m, size_t row0, size_t row1) \
	{                                                                            \
		mm_float(m, row0, row1, type);                                       \
	}
MM(f32, QUANT_F32)
MM(f16, QUANT_F16)
MM(bf16, QUANT_BF16)

void kern_neon_init_mm_float(struct kern *k)
{
	k->file[QUANT_F32] = (struct kern_mat){.unit = 4, .mm = mm_f32};
	k->file[QUANT_F16] = (struct kern_mat){.unit = 4, .mm = mm_f16};
	k->file[QUANT_BF16] = (struct kern_mat){.unit = 4, .mm = mm_bf16};
}
