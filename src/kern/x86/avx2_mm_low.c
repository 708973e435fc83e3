/* AVX2: products with weights of few bits in blocks of 256 (Q2_K, Q3_K) and of a table (IQ4_XS), eight rows
 * interleaved as in avx2_mm_32.c. The scales multiply in integers, so the conversion to float happens once per 256.
 *
 * Invariants
 *  1. int16 sums: four pairs of 3-bit values 4 * 2 * 7 * 127 = 7,112; one pair of table values 2 * 127 * 127 =
 *     32,258 (the sign sits on the activation).
 *  2. int32 sums: 256 * 32 * 127 * 127 (IQ4_XS, the largest) < 2^28.
 *  3. Rows past n_rows are packed as zeros and never stored. */
#include "kern/x86/avx2.h"

#define X86_N 8
#include "kern/x86/layout.h"

/* Run r of half h, two sub-blocks of 16, against n columns. qs: eight registers; hm: four more, or NULL. The halves
 * stay a loop, or the code becomes very large. */
AVX2_INLINE void run_of_32(const uint8_t (*qs)[32], const uint8_t (*hm)[32], __m256i scales, int h, const int r,
		const void *act, size_t step, __m256i *sum, const int n)
{
	AVX2_UNROLL
	for (int e = 0; e < 2; e++) {
		const __m256i scale = avx2_one_of_pair(scales, e);
		__m256i v[4];
		AVX2_UNROLL
		for (int i = 0; i < 4; i++) {
			v[i] = avx2_bits_at(qs[4 * e + i], -2 * r, 3);
			if (hm)
				v[i] = _mm256_or_si256(v[i], avx2_bits_at(hm[i], 2 - 2 * r - e, 4));
		}
		AVX2_UNROLL
		for (int c = 0; c < n; c++) {
			const int8_t *p = x86_act_256(act, c, step)->qs + 128 * h + 32 * r + 16 * e;
			__m256i s = _mm256_maddubs_epi16(v[0], avx2_bcast4(p));
			AVX2_UNROLL
			for (int i = 1; i < 4; i++)
				s = _mm256_add_epi16(s, _mm256_maddubs_epi16(v[i], avx2_bcast4(p + 4 * i)));
			sum[c] = _mm256_add_epi32(sum[c], _mm256_madd_epi16(s, scale));
		}
	}
}

/* sum += pairs times the sums of 16 of run r. */
AVX2_INLINE void add_pairs(__m256i pairs, const void *act, size_t step, int r, __m256i *sum, const int n)
{
	AVX2_UNROLL
	for (int c = 0; c < n; c++) {
		const int16_t *s = &x86_act_256(act, c, step)->s16[2 * r];
		sum[c] = _mm256_add_epi32(sum[c], _mm256_madd_epi16(pairs, avx2_bcast4(s)));
	}
}

AVX2_INLINE void clear(__m256i *sum, const int n)
{
	for (int c = 0; c < n; c++)
		sum[c] = _mm256_setzero_si256();
}

/* acc += (dw * da) * sum, or -= */
AVX2_INLINE void add_sums(const uint16_t *dw, const bool minus, const void *act, size_t step, const __m256i *sum,
		__m256 *acc, const int n)
{
	const __m256 d = _mm256_cvtph_ps(_mm_loadu_si128((const void *)dw));
	for (int c = 0; c < n; c++) {
		__m256 dd = _mm256_mul_ps(d, _mm256_set1_ps(x86_act_256(act, c, step)->d));
		__m256 s = _mm256_cvtepi32_ps(sum[c]);
		acc[c] = minus ? _mm256_fnmadd_ps(dd, s, acc[c]) : _mm256_fmadd_ps(dd, s, acc[c]);
	}
}

AVX2_INLINE void block_q2_k(const struct q2_kx8 *w, const void *act, size_t step, __m256 *acc, const int n)
{
	__m256i sum[8];

	clear(sum, n);
	X86_LOOP
	for (int h = 0; h < 2; h++) {
		AVX2_UNROLL
		for (int r = 0; r < 4; r++) {
			__m256i both = _mm256_cvtepu8_epi16(_mm_loadu_si128((const void *)w->scales[4 * h + r]));
			run_of_32(w->qs + 8 * h, NULL, _mm256_and_si256(both, _mm256_set1_epi16(15)), h, r, act, step,
					sum, n);
		}
	}
	add_sums(w->d, false, act, step, sum, acc, n);
	clear(sum, n);
	for (int r = 0; r < 8; r++) {
		__m256i both = _mm256_cvtepu8_epi16(_mm_loadu_si128((const void *)w->scales[r]));
		add_pairs(_mm256_srli_epi16(both, 4), act, step, r, sum, n);
	}
	add_sums(w->dmin, true, act, step, sum, acc, n);
}

/* Values are 4 above the weight's integer: 4 * scale * the sum of the activations is taken off. */
AVX2_INLINE void block_q3_k(const struct q3_kx8 *w, const void *act, size_t step, __m256 *acc, const int n)
{
	__m256i sum[8];

	clear(sum, n);
	X86_LOOP
	for (int h = 0; h < 2; h++) {
		AVX2_UNROLL
		for (int r = 0; r < 4; r++) {
			const __m256i sc = _mm256_cvtepi8_epi16(_mm_loadu_si128((const void *)w->scales[4 * h + r]));
			run_of_32(w->h[h].qs, w->h[h].hm, sc, h, r, act, step, sum, n);
			add_pairs(_mm256_mullo_epi16(sc, _mm256_set1_epi16(-4)), act, step, 4 * h + r, sum, n);
		}
	}
	add_sums(w->d, false, act, step, sum, acc, n);
}

/* Sub-block j: 16 bytes a row, the low nibbles first. */
AVX2_INLINE void block_iq4_xs(const struct iq4_xsx8 *w, const void *act, size_t step, __m256 *acc, const int n)
{
	const __m256i table = _mm256_broadcastsi128_si256(_mm_loadu_si128((const void *)quant_iq4_values));
	const __m256i low = _mm256_set1_epi8(15);
	__m256i sum[4];

	for (int c = 0; c < n; c++)
		sum[c] = _mm256_setzero_si256();
	for (int j = 0; j < 8; j++) {
		__m256i scale = _mm256_cvtepi8_epi16(_mm_loadu_si128((const void *)w->scales[j / 2]));
		scale = j % 2 ? avx2_one_of_pair(scale, true) : avx2_one_of_pair(scale, false);
		AVX2_UNROLL
		for (int i = 0; i < 8; i++) {
			__m256i q = avx2_load(w->qs[4 * j + i % 4]);
			q = _mm256_and_si256(i < 4 ? q : _mm256_srli_epi16(q, 4), low);
			q = _mm256_shuffle_epi8(table, q);
			const __m256i mag = _mm256_abs_epi8(q);
			AVX2_UNROLL
			for (int c = 0; c < n; c++) {
				const int8_t *p = x86_act_256(act, c, step)->qs + 32 * j + 4 * i;
				__m256i s = _mm256_maddubs_epi16(mag, _mm256_sign_epi8(avx2_bcast4(p), q));
				sum[c] = _mm256_add_epi32(sum[c], _mm256_madd_epi16(s, scale));
			}
		}
	}
	add_sums(w->d, false, act, step, sum, acc, n);
}

AVX2_MM_256(q2_k, 8)
AVX2_MM_256(q3_k, 8)
AVX2_MM_256(iq4_xs, 4)

void kern_avx2_init_mm_low(struct kern *k)
{
	k->packed[QUANT_Q2_K].mm = mm_q2_k;
	k->packed[QUANT_Q3_K].mm = mm_q3_k;
	k->packed[QUANT_IQ4_XS].mm = mm_iq4_xs;
}
