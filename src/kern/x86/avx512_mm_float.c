/* AVX-512: products with F32, F16 and BF16 weights, eight rows interleaved.
 *
 * An output is eight chains over k (docs/numerics.md), so a register has those of two rows, and the activations' eight
 * numbers stand in it twice. Four registers, eight rows by eight k, lie next to each other: one stream from memory,
 * where the file's layout would be read as several short ones. Invariants
 *  1. The last group of fewer than eight k is filled up with zeros in memory; its lanes are masked out of the sums, so
 *     that not even the sign of a zero changes.
 *  2. Rows past n_rows are packed as zeros and never stored. */
#include "kern/x86/avx512.h"

enum { ROWS = 8, MOST = 6 };

AVX512_INLINE __m512 load_w(const void *w, size_t i, const uint32_t type)
{
	if (type == QUANT_F32)
		return _mm512_loadu_ps((const float *)w + i);
	__m256i h = _mm256_loadu_si256((const void *)((const uint16_t *)w + i));
	if (type == QUANT_F16)
		return _mm512_cvtph_ps(h);
	return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(h), 16));
}

/* tree8 of eight rows, two in each register. */
AVX512_INLINE __m256 fold(const __m512 v[4])
{
	__m512 a[2];
	for (int i = 0; i < 2; i++) /* four rows of a[0..3] */
		a[i] = _mm512_add_ps(_mm512_shuffle_f32x4(v[2 * i], v[2 * i + 1], 0x88),
				_mm512_shuffle_f32x4(v[2 * i], v[2 * i + 1], 0xdd));
	/* In 128 bits j: b[0..1] of row j and of row 4 + j. */
	__m512 b = _mm512_add_ps(_mm512_shuffle_ps(a[0], a[1], 0x44), _mm512_shuffle_ps(a[0], a[1], 0xee));
	b = _mm512_add_ps(b, _mm512_shuffle_ps(b, b, 0xb1));
	const __m512i at = _mm512_setr_epi32(0, 4, 8, 12, 2, 6, 10, 14, 0, 0, 0, 0, 0, 0, 0, 0);
	return _mm512_castps512_ps256(_mm512_permutexvar_ps(at, b));
}

AVX512_INLINE void tile(const struct kern_mm *m, size_t row, size_t col, const int n, const uint32_t type)
{
	const size_t width = type == QUANT_F32 ? 4 : 2, k8 = m->k / 8 * 8, step = m->act_bytes;
	const size_t panel = x86_float_bytes(ROWS, m->k, width, ROWS);
	const uint8_t *w = (const uint8_t *)m->w + row / ROWS * panel, *x = x86_act_row(m, col);
	const bool fetches = X86_FETCHES(m, col, 3);
	__m512 acc[MOST][4];

	AVX2_UNROLL
	for (int c = 0; c < n; c++)
		for (int i = 0; i < 4; i++)
			acc[c][i] = _mm512_setzero_ps();
	for (size_t k = 0; k < k8; k += 8, w += 64 * width) {
		__m512 v[4];
		if (fetches)
			X86_FETCH(w, 64 * width, panel);
		AVX2_UNROLL
		for (int i = 0; i < 4; i++)
			v[i] = load_w(w, 16 * (size_t)i, type);
		AVX2_UNROLL
		for (int c = 0; c < n; c++) {
			const float *p = (const float *)(const void *)(x + (size_t)c * step) + k;
			__m512 y = _mm512_broadcast_f32x8(_mm256_loadu_ps(p));
			AVX2_UNROLL
			for (int i = 0; i < 4; i++)
				acc[c][i] = _mm512_fmadd_ps(v[i], y, acc[c][i]);
		}
	}
	if (k8 < m->k) {
		const unsigned low = (1u << (m->k - k8)) - 1;
		AVX2_UNROLL
		for (int c = 0; c < n; c++) {
			const float *p = (const float *)(const void *)(x + (size_t)c * step) + k8;
			__m512 y = _mm512_broadcast_f32x8(_mm256_maskz_loadu_ps((__mmask8)low, p));
			AVX2_UNROLL
			for (int i = 0; i < 4; i++)
				acc[c][i] = _mm512_mask3_fmadd_ps(load_w(w, 16 * (size_t)i, type), y, acc[c][i],
						(__mmask16)(low | low << 8));
		}
	}
	AVX2_UNROLL
	for (int c = 0; c < n; c++)
		avx2_store_rows(m, row, col + (size_t)c, fold(acc[c]));
}

/* One tile; returns its width: as wide as registers allow, but seven and eight columns are two of about the same. */
AVX512_INLINE size_t some_columns(const struct kern_mm *m, size_t row, size_t col, const uint32_t type)
{
	const size_t left = m->n_cols - col, n = left < 7 ? left : left < 9 ? 4 : 6;

	switch (n) {
	case 6: tile(m, row, col, 6, type); break;
	case 5: tile(m, row, col, 5, type); break;
	case 4: tile(m, row, col, 4, type); break;
	case 3: tile(m, row, col, 3, type); break;
	case 2: tile(m, row, col, 2, type); break;
	default: tile(m, row, col, 1, type); break;
	}
	return n;
}

#define MM(fmt, type)                                                                                       \
	AVX512 static void mm_##fmt(const struct kern_mm *m, size_t row0, size_t row1)                      \
	{                                                                                                   \
		for (size_t r = row0; r < row1; r += ROWS)                                                  \
			for (size_t c = 0; c < m->n_cols;)                                                  \
				c += some_columns(m, r, c, type);                                           \
	}
MM(f32, QUANT_F32)
MM(f16, QUANT_F16)
MM(bf16, QUANT_BF16)

X86_FLOAT_PACK(2, ROWS)
X86_FLOAT_PACK(4, ROWS)

void kern_avx512_init_mm_float(struct kern *k)
{
	k->packed[QUANT_F32] = (struct kern_mat){ROWS, mm_f32, bytes_4, pack_4};
	k->packed[QUANT_F16] = (struct kern_mat){ROWS, mm_f16, bytes_2, pack_2};
	k->packed[QUANT_BF16] = (struct kern_mat){ROWS, mm_bf16, bytes_2, pack_2};
}
