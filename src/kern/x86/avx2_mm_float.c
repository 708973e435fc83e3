/* AVX2: products with F32, F16 and BF16 weights, in the file's own layout.
 *
 * A register is the eight interleaved chains of one output (docs/numerics.md), so rows need no repacking: four rows by
 * up to three columns keep twelve chains busy. 16-bit weights are widened in registers, once per three columns;
 * widening four rows to memory first, for more columns, was slower (31 against 51 GMAC/s at 8 columns: the panel fills
 * L1). */
#include "kern/x86/avx2.h"

#include <string.h>

/* Eight weights from element i, or the n (< 8) that are left with zeros behind. */
AVX2_INLINE __m256 load_w(const void *w, size_t i, size_t n, const uint32_t type)
{
	if (type == QUANT_F32) {
		const float *p = (const float *)w + i;
		return n >= 8 ? _mm256_loadu_ps(p) : _mm256_maskload_ps(p, avx2_mask((long)n));
	}
	uint16_t tail[8] = {0};
	const uint16_t *p = (const uint16_t *)w + i;
	if (n < 8) {
		memcpy(tail, p, n * sizeof *p);
		p = tail;
	}
	__m128i h = _mm_loadu_si128((const void *)p);
	if (type == QUANT_F16)
		return _mm256_cvtph_ps(h);
	return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(h), 16));
}

AVX2_INLINE void tile(const struct kern_mm *m, const uint8_t *w, size_t w_bytes, size_t row, size_t col, const int nr,
		const int nc, const uint32_t type)
{
	const size_t k = m->k, step = m->act_bytes;
	const uint8_t *act = (const uint8_t *)m->act + col * step;
	__m256 acc[4][3];
	size_t i = 0;

	for (int r = 0; r < nr; r++)
		for (int c = 0; c < nc; c++)
			acc[r][c] = _mm256_setzero_ps();
	for (; i + 8 <= k; i += 8) {
		__m256 x[3];
		AVX2_UNROLL
		for (int c = 0; c < nc; c++)
			x[c] = _mm256_loadu_ps((const float *)(const void *)(act + (size_t)c * step) + i);
		AVX2_UNROLL
		for (int r = 0; r < nr; r++) {
			__m256 v = load_w(w + (size_t)r * w_bytes, i, 8, type);
			AVX2_UNROLL
			for (int c = 0; c < nc; c++)
				acc[r][c] = _mm256_fmadd_ps(v, x[c], acc[r][c]);
		}
	}
	if (i < k) {
		__m256i mask = avx2_mask((long)(k - i));
		for (int r = 0; r < nr; r++) {
			__m256 v = load_w(w + (size_t)r * w_bytes, i, k - i, type);
			for (int c = 0; c < nc; c++) {
				__m256 x = _mm256_maskload_ps(
						(const float *)(const void *)(act + (size_t)c * step) + i, mask);
				/* Lanes past the end keep their sum untouched, sign of zero included. */
				acc[r][c] = _mm256_blendv_ps(
						acc[r][c], _mm256_fmadd_ps(v, x, acc[r][c]), _mm256_castsi256_ps(mask));
			}
		}
	}
	for (int r = 0; r < nr; r++)
		for (int c = 0; c < nc; c++)
			m->out[(col + (size_t)c) * m->out_ld + row + (size_t)r] = avx2_tree8(acc[r][c]);
}

AVX2_INLINE void columns(const struct kern_mm *m, const uint8_t *w, size_t w_bytes, size_t row, const int nr,
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

AVX2_INLINE void mm_float(const struct kern_mm *m, size_t row0, size_t row1, const uint32_t type)
{
	const size_t w_bytes = m->k * (type == QUANT_F32 ? 4 : 2);
	size_t r = row0;

	for (; r + 4 <= row1; r += 4)
		columns(m, (const uint8_t *)m->w + r * w_bytes, w_bytes, r, 4, type);
	for (; r < row1; r++)
		columns(m, (const uint8_t *)m->w + r * w_bytes, w_bytes, r, 1, type);
}

AVX2 static void mm_f32(const struct kern_mm *m, size_t row0, size_t row1)
{
	mm_float(m, row0, row1, QUANT_F32);
}
AVX2 static void mm_f16(const struct kern_mm *m, size_t row0, size_t row1)
{
	mm_float(m, row0, row1, QUANT_F16);
}
AVX2 static void mm_bf16(const struct kern_mm *m, size_t row0, size_t row1)
{
	mm_float(m, row0, row1, QUANT_BF16);
}

void kern_avx2_init_mm_float(struct kern *k)
{
	k->file[QUANT_F32] = (struct kern_mat){.unit = 4, .mm = mm_f32};
	k->file[QUANT_F16] = (struct kern_mat){.unit = 4, .mm = mm_f16};
	k->file[QUANT_BF16] = (struct kern_mat){.unit = 4, .mm = mm_bf16};
}
