/* AVX2: products with weights in blocks of 32 (Q4_0, Q8_0), eight rows interleaved.
 *
 * One register holds 4 consecutive k of 8 rows; the activation's 4 bytes are broadcast; each 32-bit lane is one output
 * row. So there is no horizontal sum, and an output's additions come in the order of docs/numerics.md whatever the
 * tile. Invariants
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

AVX2_INLINE const struct kern_act_q8_32 *act_row(const struct kern_mm *m, size_t col)
{
	return (const void *)((const uint8_t *)m->act + col * m->act_bytes);
}

/* Block of column c, where `a` is the block of column 0. */
AVX2_INLINE const struct kern_act_q8_32 *act_block(const struct kern_act_q8_32 *a, int c, size_t step)
{
	return (const void *)((const uint8_t *)a + (size_t)c * step);
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
		__m256i v[8]; /* the low nibbles are the first half of the block */
		AVX2_UNROLL
		for (int i = 0; i < 4; i++) {
			__m256i q = avx2_load(w->qs[i]);
			v[i] = _mm256_and_si256(q, low);
			v[i + 4] = _mm256_and_si256(_mm256_srli_epi16(q, 4), low);
		}
		__m256 d = _mm256_cvtph_ps(_mm_loadu_si128((const void *)w->d));
		AVX2_UNROLL
		for (int c = 0; c < n; c++) {
			const struct kern_act_q8_32 *x = act_block(a, c, step);
			__m256i s = _mm256_maddubs_epi16(v[0], avx2_bcast4(x->qs));
			AVX2_UNROLL
			for (int i = 1; i < 8; i++)
				s = _mm256_add_epi16(s, _mm256_maddubs_epi16(v[i], avx2_bcast4(x->qs + 4 * i)));
			__m256i t = _mm256_sub_epi32(_mm256_madd_epi16(s, ones), _mm256_set1_epi32(x->sum8));
			acc[c] = _mm256_fmadd_ps(_mm256_mul_ps(d, _mm256_set1_ps(x->d)), _mm256_cvtepi32_ps(t), acc[c]);
		}
	}
	for (int c = 0; c < n; c++)
		avx2_store_rows(m, row, col + (size_t)c, acc[c]);
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
		AVX2_UNROLL
		for (int i = 0; i < 8; i++) {
			__m256i q = avx2_load(w->qs[i]), mag = _mm256_abs_epi8(q);
			AVX2_UNROLL
			for (int c = 0; c < n; c++) {
				const struct kern_act_q8_32 *x = act_block(a, c, step);
				__m256i s = _mm256_maddubs_epi16(mag, _mm256_sign_epi8(avx2_bcast4(x->qs + 4 * i), q));
				sum[c] = _mm256_add_epi32(sum[c], _mm256_madd_epi16(s, ones));
			}
		}
		AVX2_UNROLL
		for (int c = 0; c < n; c++) {
			const struct kern_act_q8_32 *x = act_block(a, c, step);
			acc[c] = _mm256_fmadd_ps(
					_mm256_mul_ps(d, _mm256_set1_ps(x->d)), _mm256_cvtepi32_ps(sum[c]), acc[c]);
		}
	}
	for (int c = 0; c < n; c++)
		avx2_store_rows(m, row, col + (size_t)c, acc[c]);
}

AVX2_MM(q4_0, 4)
AVX2_MM(q8_0, 4)

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
