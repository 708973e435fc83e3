/* AVX2: products with F32, F16 and BF16 weights.
 *
 * A register is the eight interleaved chains of one output (docs/numerics.md), so weights are fast in the file's own
 * layout as well: four rows by up to three columns keep twelve chains busy. Packed, the four rows lie next to each
 * other, eight k at a time: one stream from memory instead of four short ones, which is what one row of a batch needs.
 * 16-bit weights are widened in registers, once per three columns; widening four rows to memory first, for more
 * columns, was slower (31 against 51 GMAC/s at 8 columns: the panel fills L1). Invariants
 *  1. In the packed layout the last group of fewer than eight k is filled up with zeros, and rows past n_rows are
 *     zeros; neither enters a sum that is stored. */
#include "kern/x86/avx2.h"

enum { ROWS = 4 };

/* ---- Packing ---- */

size_t x86_float_bytes(size_t n_rows, size_t k, size_t width, size_t rows)
{
	return (n_rows + rows - 1) / rows * ((k + 7) / 8) * 8 * rows * width;
}

void x86_float_pack(void *dst, const void *src, size_t n_rows, size_t k, size_t row0, size_t row1, size_t width,
		size_t rows)
{
	for (size_t r = row0; r < row1; r += rows) {
		uint8_t *o = (uint8_t *)dst + x86_float_bytes(r, k, width, rows);
		for (size_t i = 0; i < k; i += 8)
			for (size_t j = r; j < r + rows; j++, o += 8 * width) {
				const size_t n = j >= n_rows ? 0 : k - i < 8 ? k - i : 8;
				memset(o, 0, 8 * width);
				if (n)
					memcpy(o, (const uint8_t *)src + (j * k + i) * width, n * width);
			}
	}
}

X86_FLOAT_PACK(2, ROWS)
X86_FLOAT_PACK(4, ROWS)

/* ---- Products ---- */

/* Eight weights, or the n (< 8) that are left with zeros behind. */
AVX2_INLINE __m256 load_w(const void *w, size_t n, const uint32_t type)
{
	if (type == QUANT_F32) {
		const float *p = w;
		return n >= 8 ? _mm256_loadu_ps(p) : _mm256_maskload_ps(p, avx2_mask((long)n));
	}
	uint16_t tail[8] = {0};
	const uint16_t *p = w;
	if (n < 8) {
		memcpy(tail, p, n * sizeof *p);
		p = tail;
	}
	__m128i h = _mm_loadu_si128((const void *)p);
	if (type == QUANT_F16)
		return _mm256_cvtph_ps(h);
	return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(h), 16));
}

/* nr rows by nc columns. Row r begins r * row_bytes on, element i of it i * step_bytes further, in eights. */
AVX2_INLINE void tile(const struct kern_mm *m, const uint8_t *w, size_t row_bytes, size_t step_bytes, size_t row,
		size_t col, const int nr, const int nc, const uint32_t type, const bool fetches)
{
	const size_t k = m->k, act_step = m->act_bytes;
	const uint8_t *act = x86_act_row(m, col);
	__m256 acc[4][3];
	size_t i = 0;

	for (int r = 0; r < nr; r++)
		for (int c = 0; c < nc; c++)
			acc[r][c] = _mm256_setzero_ps();
	for (; i + 8 <= k; i += 8) {
		const uint8_t *at = w + i * step_bytes;
		__m256 x[3];
		if (fetches)
			X86_FETCH(at, 8 * step_bytes, (k + 7) / 8 * 8 * step_bytes);
		AVX2_UNROLL
		for (int c = 0; c < nc; c++)
			x[c] = _mm256_loadu_ps((const float *)(const void *)(act + (size_t)c * act_step) + i);
		AVX2_UNROLL
		for (int r = 0; r < nr; r++) {
			__m256 v = load_w(at + (size_t)r * row_bytes, 8, type);
			AVX2_UNROLL
			for (int c = 0; c < nc; c++)
				acc[r][c] = _mm256_fmadd_ps(v, x[c], acc[r][c]);
		}
	}
	if (i < k) {
		__m256i mask = avx2_mask((long)(k - i));
		for (int r = 0; r < nr; r++) {
			__m256 v = load_w(w + i * step_bytes + (size_t)r * row_bytes, k - i, type);
			for (int c = 0; c < nc; c++) {
				__m256 x = _mm256_maskload_ps(
						(const float *)(const void *)(act + (size_t)c * act_step) + i, mask);
				/* Lanes past the end keep their sum untouched, sign of zero included. */
				acc[r][c] = _mm256_blendv_ps(
						acc[r][c], _mm256_fmadd_ps(v, x, acc[r][c]), _mm256_castsi256_ps(mask));
			}
		}
	}
	for (int r = 0; r < nr; r++)
		for (int c = 0; c < nc; c++)
			if (row + (size_t)r < m->n_rows)
				m->out[(col + (size_t)c) * m->out_ld + row + (size_t)r] = avx2_tree8(acc[r][c]);
}

/* Threes; four columns are two twos. */
AVX2_INLINE void columns(const struct kern_mm *m, const uint8_t *w, size_t row_bytes, size_t step_bytes, size_t row,
		const int nr, const uint32_t type, const bool packed)
{
	size_t c = 0;

	if (packed && X86_FETCHES(m, 0, 3)) {
		tile(m, w, row_bytes, step_bytes, row, 0, nr, 2, type, true);
		c = 2;
	}
	for (size_t left; (left = m->n_cols - c) > 0;)
		if (left == 3 || left > 4) {
			tile(m, w, row_bytes, step_bytes, row, c, nr, 3, type, false);
			c += 3;
		} else if (left == 1) {
			tile(m, w, row_bytes, step_bytes, row, c, nr, 1, type, false);
			c += 1;
		} else {
			tile(m, w, row_bytes, step_bytes, row, c, nr, 2, type, false);
			c += 2;
		}
}

AVX2_INLINE void mm_file(const struct kern_mm *m, size_t row0, size_t row1, const uint32_t type)
{
	const size_t width = type == QUANT_F32 ? 4 : 2, row_bytes = m->k * width;
	size_t r = row0;

	for (; r + ROWS <= row1; r += ROWS)
		columns(m, (const uint8_t *)m->w + r * row_bytes, row_bytes, width, r, ROWS, type, false);
	for (; r < row1; r++)
		columns(m, (const uint8_t *)m->w + r * row_bytes, row_bytes, width, r, 1, type, false);
}

AVX2_INLINE void mm_packed(const struct kern_mm *m, size_t row0, size_t row1, const uint32_t type)
{
	const size_t width = type == QUANT_F32 ? 4 : 2;

	for (size_t r = row0; r < row1; r += ROWS) {
		const uint8_t *w = (const uint8_t *)m->w + x86_float_bytes(r, m->k, width, ROWS);
		columns(m, w, 8 * width, ROWS * width, r, ROWS, type, true);
	}
}

#define MM(fmt, type)                                                                        \
	AVX2 static void file_##fmt(const struct kern_mm *m, size_t row0, size_t row1)       \
	{                                                                                    \
		mm_file(m, row0, row1, type);                                                \
	}                                                                                    \
	AVX2 static void packed_##fmt(const struct kern_mm *m, size_t row0, size_t row1)     \
	{                                                                                    \
		mm_packed(m, row0, row1, type);                                              \
	}
MM(f32, QUANT_F32)
MM(f16, QUANT_F16)
MM(bf16, QUANT_BF16)

void kern_avx2_init_mm_float(struct kern *k)
{
	k->file[QUANT_F32] = (struct kern_mat){.unit = ROWS, .mm = file_f32};
	k->file[QUANT_F16] = (struct kern_mat){.unit = ROWS, .mm = file_f16};
	k->file[QUANT_BF16] = (struct kern_mat){.unit = ROWS, .mm = file_bf16};
	k->packed[QUANT_F32] = (struct kern_mat){ROWS, packed_f32, bytes_4, pack_4};
	k->packed[QUANT_F16] = (struct kern_mat){ROWS, packed_f16, bytes_2, pack_2};
	k->packed[QUANT_BF16] = (struct kern_mat){ROWS, packed_bf16, bytes_2, pack_2};
}
