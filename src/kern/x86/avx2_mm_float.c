/* AVX2: products with F32, F16 and BF16 weights, in the file's own layout.
 *
 * A register is the eight interleaved chains of one output (docs/numerics.md), so rows need no repacking: four rows by up to three
 * columns keep twelve chains busy. For more columns, 16-bit rows are widened once into the scratch area. */
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
#pragma GCC unroll 3
		for (int c = 0; c < nc; c++)
			x[c] = _mm256_loadu_ps((const float *)(const void *)(act + (size_t)c * step) + i);
#pragma GCC unroll 4
		for (int r = 0; r < nr; r++) {
			__m256 v = load_w(w + (size_t)r * w_bytes, i, 8, type);
#pragma GCC unroll 3
			for (int c = 0; c < nc; c++)
				acc[r][c] = _mm256_fmadd_ps(v, x[c], acc[r][c]);
		}
	}
	if (i < k) {
		__m256i mask = avx2_mask((long)(k - i));
		for (int r = 0; r < nr; r++) {
			__m256 v = load_w(w + (size_t)r * w_bytes, i, k - i, type);
			for (int c = 0; c < nc; c++) {
				__m256 x = _mm256_maskload_ps((const float *)(const void *)(act + (size_t)c * step) + i, mask);
				/* Lanes past the end keep their sum untouched, sign of zero included. */
				acc[r][c] = _mm256_blendv_ps(acc[r][c], _mm256_fmadd_ps(v, x, acc[r][c]), _mm256_castsi256_ps(mask));
			}
		}
	}
	for (int r = 0; r < nr; r++)
		for (int c = 0; c < nc; c++)
			m->out[(col + (size_t)c) * m->out_ld + row + (size_t)r] = avx2_tree8(acc[r][c]);
}

AVX2_INLINE void columns(const struct kern_mm *m, const uint8_t *w, size_t w_bytes, size_t row, const int nr, const uint32_t type)
{
	size_t c = 0;
	for (; c + 3 <= m->n_cols; c += 3)
		tile(m, w, w_bytes, row, c, nr, 3, type);
	if (m->n_cols - c == 2)
		tile(m, w, w_bytes, row, c, nr, 2, type);
	else if (m->n_cols - c == 1)
		tile(m, w, w_bytes, row, c, nr, 1, type);
}

AVX2_INLINE void widen(const uint8_t *w, float *out, size_t k, const uint32_t type)
{
	for (size_t i = 0; i < k; i += 8)
		_mm256_storeu_ps(out + i, load_w(w, i, k - i, type));
}

AVX2_INLINE void mm_float(const struct kern_mm *m, size_t row0, size_t row1, const uint32_t type)
{
	const size_t w_bytes = m->k * (type == QUANT_F32 ? 4 : 2), wide = kern_pad8(m->k);
	float *panel = m->scratch;
	size_t r = row0;

	for (; r < row1; r += r + 4 <= row1 ? 4 : 1) {
		const uint8_t *w = (const uint8_t *)m->w + r * w_bytes;
		const bool four = r + 4 <= row1;
		if (type != QUANT_F32 && m->n_cols > 3) {
			for (size_t j = 0; j < (four ? 4u : 1u); j++)
				widen(w + j * w_bytes, panel + j * wide, m->k, type);
			if (four)
				columns(m, (const uint8_t *)panel, wide * sizeof(float), r, 4, QUANT_F32);
			else
				columns(m, (const uint8_t *)panel, wide * sizeof(float), r, 1, QUANT_F32);
		} else if (four) {
			columns(m, w, w_bytes, r, 4, type);
		} else {
			columns(m, w, w_bytes, r, 1, type);
		}
	}
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
