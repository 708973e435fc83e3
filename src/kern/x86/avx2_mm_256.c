/* AVX2: products with weights in blocks of 256 (Q4_K, Q5_K, Q6_K), eight rows interleaved as in avx2_mm_32.c. The
 * scales multiply in integers, so the conversion to float happens once per 256.
 *
 * Invariants
 *  1. int16 sums: four nibble pairs 15,240 (Q4_K); four pairs of 5-bit values 4 * 2 * 31 * 127 = 31,496 (Q5_K); two
 *     pairs of 6-bit values 2 * 2 * 63 * 127 = 32,004 (Q6_K).
 *  2. int32 sums: 256 * 63 * 31 * 127 (Q5_K, more than Q4_K) and 256 * 128 * 63 * 127 (Q6_K, before the offset is
 *     taken off) < 2^28.
 *  3. Rows past n_rows are packed as zeros and never stored. */
#include "kern/x86/avx2.h"

#define X86_N 8
#include "kern/x86/layout.h"

/* Two registers of weights against eight bytes: fits int16 for values up to 6 bits. */
AVX2_INLINE __m256i two(__m256i v0, __m256i v1, const int8_t *p)
{
	return _mm256_add_epi16(
			_mm256_maddubs_epi16(v0, avx2_bcast4(p)), _mm256_maddubs_epi16(v1, avx2_bcast4(p + 4)));
}

/* Four registers from i on of sub-block j of 32, against n columns; sc: the scale, twice in each lane. Half a sub-block
 * at a time: four registers of weights and one of scales leave room for the sums of eight columns. */
AVX2_INLINE void half_sub_block(const __m256i v[4], __m256i sc, const void *act, size_t step, int at,
		__m256i *sum, const int n)
{
	AVX2_UNROLL
	for (int c = 0; c < n; c++) {
		const int8_t *p = x86_act_256(act, c, step)->qs + at;
		__m256i s = _mm256_add_epi16(two(v[0], v[1], p), two(v[2], v[3], p + 8));
		sum[c] = _mm256_add_epi32(sum[c], _mm256_madd_epi16(s, sc));
	}
}

/* The minimums, and both sums to floats. */
AVX2_INLINE void finish_k(const uint16_t *dw, const uint16_t *dminw, const uint8_t (*mins)[16], const void *act,
		size_t step, const __m256i *sum, __m256 *acc, const int n)
{
	const __m256 d = _mm256_cvtph_ps(_mm_loadu_si128((const void *)dw));
	const __m256 dmin = _mm256_cvtph_ps(_mm_loadu_si128((const void *)dminw));
	__m256i msum[8];

	for (int c = 0; c < n; c++)
		msum[c] = _mm256_setzero_si256();
	for (int j = 0; j < 4; j++) {
		__m256i mn = _mm256_cvtepu8_epi16(_mm_loadu_si128((const void *)mins[j]));
		for (int c = 0; c < n; c++) {
			const int16_t *s = &x86_act_256(act, c, step)->s32[2 * j];
			msum[c] = _mm256_add_epi32(msum[c], _mm256_madd_epi16(mn, avx2_bcast4(s)));
		}
	}
	for (int c = 0; c < n; c++) {
		__m256 da = _mm256_set1_ps(x86_act_256(act, c, step)->d);
		acc[c] = _mm256_fmadd_ps(_mm256_mul_ps(d, da), _mm256_cvtepi32_ps(sum[c]), acc[c]);
		acc[c] = _mm256_fnmadd_ps(_mm256_mul_ps(dmin, da), _mm256_cvtepi32_ps(msum[c]), acc[c]);
	}
}

/* Register i of sub-block r of pair p. The pairs stay a loop, or the code becomes very large. */
AVX2_INLINE __m256i reg_q4_k(const struct q4_kx8 *w, int p, const int r, const int i)
{
	return avx2_bits_at(w->qs[8 * p + i], -4 * r, 15);
}
AVX2_INLINE __m256i reg_q5_k(const struct q5_kx8 *w, int p, const int r, const int i)
{
	return _mm256_or_si256(
			avx2_bits_at(w->p[p].qs[i], -4 * r, 15), avx2_bits_at(w->p[p].qh[r], 4 - i, 16));
}

#define BLOCK_K(fmt)                                                                                                 \
	AVX2_INLINE void block_##fmt(                                                                              \
			const struct fmt##x8 *w, const void *act, size_t step, __m256 *acc, const int n)        \
	{                                                                                                          \
		__m256i sum[8], v[4];                                                                              \
		for (int c = 0; c < n; c++)                                                                        \
			sum[c] = _mm256_setzero_si256();                                                           \
		X86_LOOP                                                                                           \
		for (int p = 0; p < 4; p++) {                                                                      \
			const __m256i both = _mm256_cvtepu8_epi16(_mm_loadu_si128((const void *)w->scales[p]));    \
			AVX2_UNROLL                                                                                \
			for (int e = 0; e < 4; e++) {                                                              \
				AVX2_UNROLL                                                                        \
				for (int i = 0; i < 4; i++)                                                        \
					v[i] = reg_##fmt(w, p, e / 2, 4 * (e % 2) + i);                            \
				half_sub_block(v, avx2_one_of_pair(both, e / 2), act, step, 64 * p + 16 * e, sum,  \
						n);                                                                \
			}                                                                                          \
		}                                                                                                  \
		finish_k(w->d, w->dmin, w->mins, act, step, sum, acc, n);                                          \
	}
BLOCK_K(q4_k)
BLOCK_K(q5_k)

AVX2_INLINE __m256i reg_q6_k(const struct q6_kx8 *w, int p, const int r, const int i)
{
	return _mm256_or_si256(avx2_bits_at(w->p[p].ql[i], -4 * r, 15),
			avx2_bits_at(w->p[p].qh[i % 4], 4 - 2 * (i / 4) - 4 * r, 0x30));
}

/* Run r of pair p: two sub-blocks of 16. */
AVX2_INLINE void run_q6_k(
		const struct q6_kx8 *w, const void *act, size_t step, int p, const int r, __m256i *sum, const int n)
{
	const int at = 2 * p + r;
	const __m256i sc = _mm256_cvtepi8_epi16(_mm_loadu_si128((const void *)w->scales[at]));
	/* The offset of 32 first: 32 * scale fits int16, 32 * the sum would not. */
	const __m256i sc32 = _mm256_slli_epi16(sc, 5);

	AVX2_UNROLL
	for (int c = 0; c < n; c++) {
		const int16_t *s = &x86_act_256(act, c, step)->s16[2 * at];
		sum[c] = _mm256_sub_epi32(sum[c], _mm256_madd_epi16(sc32, avx2_bcast4(s)));
	}
	AVX2_UNROLL
	for (int e = 0; e < 2; e++) {
		const __m256i scale = avx2_one_of_pair(sc, e);
		__m256i v[4];
		AVX2_UNROLL
		for (int i = 0; i < 4; i++)
			v[i] = reg_q6_k(w, p, r, 4 * e + i);
		AVX2_UNROLL
		for (int c = 0; c < n; c++) {
			const int8_t *q = x86_act_256(act, c, step)->qs + 32 * at + 16 * e;
			__m256i t = _mm256_madd_epi16(two(v[0], v[1], q), scale);
			t = _mm256_add_epi32(t, _mm256_madd_epi16(two(v[2], v[3], q + 8), scale));
			sum[c] = _mm256_add_epi32(sum[c], t);
		}
	}
}

AVX2_INLINE void block_q6_k(const struct q6_kx8 *w, const void *act, size_t step, __m256 *acc, const int n)
{
	const __m256 d = _mm256_cvtph_ps(_mm_loadu_si128((const void *)w->d));
	__m256i sum[8];

	for (int c = 0; c < n; c++)
		sum[c] = _mm256_setzero_si256();
	X86_LOOP
	for (int p = 0; p < 4; p++) {
		run_q6_k(w, act, step, p, 0, sum, n);
		run_q6_k(w, act, step, p, 1, sum, n);
	}
	for (int c = 0; c < n; c++) {
		__m256 da = _mm256_set1_ps(x86_act_256(act, c, step)->d);
		acc[c] = _mm256_fmadd_ps(_mm256_mul_ps(d, da), _mm256_cvtepi32_ps(sum[c]), acc[c]);
	}
}

AVX2_MM_256(q4_k, 8)
AVX2_MM_256(q5_k, 8)
AVX2_MM_256(q6_k, 8)

void kern_avx2_init_mm_256(struct kern *k)
{
	k->packed[QUANT_Q4_K].mm = mm_q4_k;
	k->packed[QUANT_Q5_K].mm = mm_q5_k;
	k->packed[QUANT_Q6_K].mm = mm_q6_k;
}
