/* AVX2: products with weights in blocks of 32 (Q4_0, Q8_0), eight rows interleaved.
 *
 * One register holds 4 consecutive k of 8 rows; the activation's 4 bytes are broadcast; each 32-bit lane is one output row. So
 * there is no horizontal sum, and an output's additions come in the order of docs/numerics.md whatever the tile.
 * Invariants
 *  1. int16 sums: eight products of a nibble pair with bytes reach at most 8 * 2 * 15 * 127 = 30,480; one pair of
 *     full bytes 2 * 128 * 127 = 32,512 (the sign sits on the activation, so a weight of -128 is fine).
 *  2. Rows past n_rows are packed as zeros and never stored. */
#include "kern/x86/avx2.h"

#include <string.h>

struct q4_0x8 {
	uint16_t d[8];
	uint8_t qs[4][32]; /* register i: bytes 4i..4i+3 of each row's block */
};

struct q8_0x8 {
	uint16_t d[8];
	int8_t qs[8][32];
};

_Static_assert(sizeof(struct q4_0x8) == 8 * 18, "same size as in the file");
_Static_assert(sizeof(struct q8_0x8) == 8 * 34, "same size as in the file");

AVX2_INLINE __m256i bcast4(const void *p)
{
	int32_t v;
	memcpy(&v, p, sizeof v);
	return _mm256_set1_epi32(v);
}

AVX2_INLINE void store_8(const struct kern_mm *m, size_t row, size_t col, __m256 v)
{
	float *out = m->out + col * m->out_ld + row;
	if (row + 8 <= m->n_rows)
		_mm256_storeu_ps(out, v);
	else
		_mm256_maskstore_ps(out, avx2_mask((long)(m->n_rows - row)), v);
}

AVX2_INLINE const struct kern_act_q8_32 *act_row(const struct kern_mm *m, size_t col)
{
	return (const void *)((const uint8_t *)m->act + col * m->act_bytes);
}

AVX2_INLINE void tile_q4_0(const struct kern_mm *m, size_t row, size_t col, const int n)
{
	const size_t nb = m->k / 32;
	const struct q4_0x8 *w = (const struct q4_0x8 *)m->w + row / 8 * nb;
	const struct kern_act_q8_32 *a = act_row(m, col);
	const size_t step = m->act_bytes;
	const __m256i low = _mm256_set1_epi8(15), ones = _mm256_set1_epi16(1);
	__m256 acc[4];

	for (int c = 0; c < n; c++)
		acc[c] = _mm256_setzero_ps();
	for (size_t b = 0; b < nb; b++, w++, a++) {
		__m256i q0 = _mm256_loadu_si256((const void *)w->qs[0]), q1 = _mm256_loadu_si256((const void *)w->qs[1]);
		__m256i q2 = _mm256_loadu_si256((const void *)w->qs[2]), q3 = _mm256_loadu_si256((const void *)w->qs[3]);
		__m256i h0 = _mm256_and_si256(_mm256_srli_epi16(q0, 4), low), h1 = _mm256_and_si256(_mm256_srli_epi16(q1, 4), low);
		__m256i h2 = _mm256_and_si256(_mm256_srli_epi16(q2, 4), low), h3 = _mm256_and_si256(_mm256_srli_epi16(q3, 4), low);
		q0 = _mm256_and_si256(q0, low);
		q1 = _mm256_and_si256(q1, low);
		q2 = _mm256_and_si256(q2, low);
		q3 = _mm256_and_si256(q3, low);
		__m256 d = _mm256_cvtph_ps(_mm_loadu_si128((const void *)w->d));
#pragma GCC unroll 4
		for (int c = 0; c < n; c++) {
			const struct kern_act_q8_32 *x = (const void *)((const uint8_t *)a + (size_t)c * step);
			const int8_t *p = x->qs;
			__m256i s = _mm256_maddubs_epi16(q0, bcast4(p));
			s = _mm256_add_epi16(s, _mm256_maddubs_epi16(q1, bcast4(p + 4)));
			s = _mm256_add_epi16(s, _mm256_maddubs_epi16(q2, bcast4(p + 8)));
			s = _mm256_add_epi16(s, _mm256_maddubs_epi16(q3, bcast4(p + 12)));
			s = _mm256_add_epi16(s, _mm256_maddubs_epi16(h0, bcast4(p + 16)));
			s = _mm256_add_epi16(s, _mm256_maddubs_epi16(h1, bcast4(p + 20)));
			s = _mm256_add_epi16(s, _mm256_maddubs_epi16(h2, bcast4(p + 24)));
			s = _mm256_add_epi16(s, _mm256_maddubs_epi16(h3, bcast4(p + 28)));
			__m256i t = _mm256_sub_epi32(_mm256_madd_epi16(s, ones), _mm256_set1_epi32(x->sum8));
			acc[c] = _mm256_fmadd_ps(_mm256_mul_ps(d, _mm256_set1_ps(x->d)), _mm256_cvtepi32_ps(t), acc[c]);
		}
	}
	for (int c = 0; c < n; c++)
		store_8(m, row, col + (size_t)c, acc[c]);
}

AVX2_INLINE void tile_q8_0(const struct kern_mm *m, size_t row, size_t col, const int n)
{
	const size_t nb = m->k / 32;
	const struct q8_0x8 *w = (const struct q8_0x8 *)m->w + row / 8 * nb;
	const struct kern_act_q8_32 *a = act_row(m, col);
	const size_t step = m->act_bytes;
	const __m256i ones = _mm256_set1_epi16(1);
	__m256 acc[4];

	for (int c = 0; c < n; c++)
		acc[c] = _mm256_setzero_ps();
	for (size_t b = 0; b < nb; b++, w++, a++) {
		__m256 d = _mm256_cvtph_ps(_mm_loadu_si128((const void *)w->d));
		__m256i sum[4];
		for (int c = 0; c < n; c++)
			sum[c] = _mm256_setzero_si256();
#pragma GCC unroll 8
		for (int i = 0; i < 8; i++) {
			__m256i q = _mm256_loadu_si256((const void *)w->qs[i]), mag = _mm256_abs_epi8(q);
#pragma GCC unroll 4
			for (int c = 0; c < n; c++) {
				const struct kern_act_q8_32 *x = (const void *)((const uint8_t *)a + (size_t)c * step);
				__m256i s = _mm256_maddubs_epi16(mag, _mm256_sign_epi8(bcast4(x->qs + 4 * i), q));
				sum[c] = _mm256_add_epi32(sum[c], _mm256_madd_epi16(s, ones));
			}
		}
#pragma GCC unroll 4
		for (int c = 0; c < n; c++) {
			const struct kern_act_q8_32 *x = (const void *)((const uint8_t *)a + (size_t)c * step);
			acc[c] = _mm256_fmadd_ps(_mm256_mul_ps(d, _mm256_set1_ps(x->d)), _mm256_cvtepi32_ps(sum[c]), acc[c]);
		}
	}
	for (int c = 0; c < n; c++)
		store_8(m, row, col + (size_t)c, acc[c]);
}

/* Columns in fours, then one tile of what is left: every weight byte is read once per four columns, from L1. */
#define MM(fmt)                                                                          \
	AVX2 static void mm_##fmt(const struct kern_mm *m, size_t row0, size_t row1)     \
	{                                                                                \
		for (size_t r = row0; r < row1; r += 8) {                                \
			size_t c = 0;                                                    \
			for (; c + 4 <= m->n_cols; c += 4)                               \
				tile_##fmt(m, r, c, 4);                                  \
			switch (m->n_cols - c) {                                         \
			case 3: tile_##fmt(m, r, c, 3); break;                           \
			case 2: tile_##fmt(m, r, c, 2); break;                           \
			case 1: tile_##fmt(m, r, c, 1); break;                           \
			default: break;                                                  \
			}                                                                \
		}                                                                        \
	}
MM(q4_0)
MM(q8_0)

#define PACK(fmt, n_units)                                                                                 \
	static size_t packed_bytes_##fmt(size_t n_rows, size_t k)                                          \
	{                                                                                                  \
		return (n_rows + 7) / 8 * (k / 32) * sizeof(struct fmt##x8);                               \
	}                                                                                                  \
	static void pack_##fmt(void *dst, const void *src, size_t n_rows, size_t k, size_t row0, size_t row1) \
	{                                                                                                  \
		size_t nb = k / 32;                                                                        \
		for (size_t r = row0; r < row1; r += 8)                                                    \
			for (size_t b = 0; b < nb; b++) {                                                  \
				struct fmt##x8 *o = (struct fmt##x8 *)dst + r / 8 * nb + b;                \
				memset(o, 0, sizeof *o);                                                   \
				for (size_t j = 0; j < 8 && r + j < n_rows; j++) {                         \
					const struct fmt *s = (const struct fmt *)src + (r + j) * nb + b;  \
					o->d[j] = s->d;                                                    \
					for (int i = 0; i < n_units; i++)                                  \
						memcpy(o->qs[i] + 4 * j, s->qs + 4 * i, 4);                \
				}                                                                          \
			}                                                                                  \
	}
PACK(q4_0, 4)
PACK(q8_0, 8)

void kern_avx2_init_mm_32(struct kern *k)
{
	k->packed[QUANT_Q4_0] = (struct kern_mat){8, mm_q4_0, packed_bytes_q4_0, pack_q4_0};
	k->packed[QUANT_Q8_0] = (struct kern_mat){8, mm_q8_0, packed_bytes_q8_0, pack_q8_0};
}
