/* AVX-512 with VNNI: products with weights in blocks of 256 (Q2_K, Q3_K, Q4_K, Q5_K, Q6_K, IQ4_XS), sixteen rows
 * interleaved as in avx512_mm_32.c. A block is eight runs of 32 elements; the scales multiply in integers, so the
 * conversion to float happens once per 256.
 *
 * Invariants
 *  1. Weights are unsigned: the file's bits, and the table's values plus 128. What that is too much (Q3_K 4, Q6_K 32,
 *     IQ4_XS 128) is taken off as scale times activations' sum; these multiples of a scale fit int16 (at most 4,096).
 *  2. Of Q2_K and Q3_K the sum over 16 elements fits int16 (16 * 7 * 127 = 14,224), so that it can be multiplied by its
 *     scale and added by one instruction.
 *  3. int32 sums: 256 * 32 * 255 * 127 + 256 * 4,096 * 127 (IQ4_XS) and 256 * 128 * 63 * 127 + 256 * 4,096 * 127 (Q6_K)
 *     < 2^29.
 *  4. Rows past n_rows are packed as zeros and never stored. */
#include "kern/x86/avx512.h"

#include "kern/x86/avx512_load.h"

/* ---- Sums ---- */

/* Registers [from, to) of run r against columns [c0, end), from 0. */
AVX512_INLINE void dots(const __m512i v[8], const int from, const int to, const void *act, size_t step, int r,
		const int c0, const int end, __m512i t[4])
{
	AVX2_UNROLL
	for (int c = c0; c < end; c++)
		t[c - c0] = _mm512_setzero_si512();
	AVX2_UNROLL
	for (int i = from; i < to; i++) {
		AVX2_UNROLL
		for (int c = c0; c < end; c++) {
			const int8_t *p = x86_act_256(act, c, step)->qs + 32 * r + 4 * i;
			t[c - c0] = _mm512_dpbusd_epi32(t[c - c0], v[i], avx512_bcast4(p));
		}
	}
}

/* sum += scale * the products of run r, which is one sub-block of 32. */
AVX512_INLINE void run_32(const __m512i v[8], __m512i scale, const void *act, size_t step, int r, __m512i *sum,
		const int n)
{
	AVX2_UNROLL
	for (int c0 = 0; c0 < n; c0 += 4) {
		const int end = n - c0 < 4 ? n : c0 + 4;
		__m512i t[4];
		dots(v, 0, 8, act, step, r, c0, end, t);
		AVX2_UNROLL
		for (int c = c0; c < end; c++)
			sum[c] = _mm512_add_epi32(sum[c], _mm512_mullo_epi32(t[c - c0], scale));
	}
}

/* The same with two sub-blocks of 16. `small`: their sums fit int16. */
AVX512_INLINE void run_16(const __m512i v[8], __m512i scales, const bool small, const void *act, size_t step,
		int r, __m512i *sum, const int n)
{
	AVX2_UNROLL
	for (int e = 0; e < 2; e++) {
		const __m512i scale = one_of(scales, e), low = _mm512_and_si512(scale, _mm512_set1_epi32(0xffff));
		AVX2_UNROLL
		for (int c0 = 0; c0 < n; c0 += 4) {
			const int end = n - c0 < 4 ? n : c0 + 4;
			__m512i t[4];
			dots(v, 4 * e, 4 * e + 4, act, step, r, c0, end, t);
			AVX2_UNROLL
			for (int c = c0; c < end; c++)
				sum[c] = small ? _mm512_dpwssd_epi32(sum[c], t[c - c0], low)
					       : _mm512_add_epi32(sum[c], _mm512_mullo_epi32(t[c - c0], scale));
		}
	}
}

/* sum += pairs times sums of the activations: the pairs of run r (sub-blocks of 16), or of runs 2r and 2r + 1. */
AVX512_INLINE void add_pairs_16(__m512i pairs, const void *act, size_t step, int r, __m512i *sum, const int n)
{
	AVX2_UNROLL
	for (int c = 0; c < n; c++)
		sum[c] = _mm512_dpwssd_epi32(sum[c], pairs, avx512_bcast4(&x86_act_256(act, c, step)->s16[2 * r]));
}
AVX512_INLINE void add_pairs_32(__m512i pairs, const void *act, size_t step, int r, __m512i *sum, const int n)
{
	AVX2_UNROLL
	for (int c = 0; c < n; c++)
		sum[c] = _mm512_dpwssd_epi32(sum[c], pairs, avx512_bcast4(&x86_act_256(act, c, step)->s32[2 * r]));
}

AVX512_INLINE void clear(__m512i *sum, const int n)
{
	for (int c = 0; c < n; c++)
		sum[c] = _mm512_setzero_si512();
}

/* acc += (dw * da) * sum, or -= */
AVX512_INLINE void add_sums(const uint16_t *dw, const bool minus, const void *act, size_t step, const __m512i *sum,
		__m512 *acc, const int n)
{
	const __m512 d = avx512_halves(dw);
	AVX2_UNROLL
	for (int c = 0; c < n; c++) {
		__m512 dd = _mm512_mul_ps(d, _mm512_set1_ps(x86_act_256(act, c, step)->d));
		__m512 s = _mm512_cvtepi32_ps(sum[c]);
		acc[c] = minus ? _mm512_fnmadd_ps(dd, s, acc[c]) : _mm512_fmadd_ps(dd, s, acc[c]);
	}
}

/* ---- One block against n columns ---- */

#define BLOCK_K(fmt)                                                                                               \
	AVX512_INLINE void block_##fmt(                                                                          \
			const struct fmt##x16 *w, const void *act, size_t step, __m512 *acc, const int n)     \
	{                                                                                                        \
		__m512i sum[8], v[8];                                                                            \
		clear(sum, n);                                                                                   \
		X86_LOOP                                                                                        \
		for (int p = 0; p < 4; p++) {                                                                    \
			const __m512i scales = pairs_u8(w->scales[p]);                                           \
			AVX2_UNROLL                                                                              \
			for (int r = 0; r < 2; r++) {                                                            \
				load_##fmt(w, p, r, v);                                                          \
				run_32(v, one_of(scales, r), act, step, 2 * p + r, sum, n);                      \
			}                                                                                        \
		}                                                                                                \
		add_sums(w->d, false, act, step, sum, acc, n);                                                   \
		clear(sum, n);                                                                                   \
		for (int p = 0; p < 4; p++)                                                                      \
			add_pairs_32(pairs_u8(w->mins[p]), act, step, p, sum, n);                                \
		add_sums(w->dmin, true, act, step, sum, acc, n);                                                 \
	}
BLOCK_K(q4_k)
BLOCK_K(q5_k)

AVX512_INLINE void block_q2_k(const struct q2_kx16 *w, const void *act, size_t step, __m512 *acc, const int n)
{
	const __m512i low = _mm512_set1_epi16(15);
	__m512i sum[8], v[8];

	clear(sum, n);
	X86_LOOP
	for (int h = 0; h < 2; h++) {
		AVX2_UNROLL
		for (int r = 0; r < 4; r++) {
			const __m512i scales = _mm512_and_si512(pairs_u8(w->scales[4 * h + r]), low);
			load_q2_k(w, h, r, v);
			run_16(v, scales, true, act, step, 4 * h + r, sum, n);
		}
	}
	add_sums(w->d, false, act, step, sum, acc, n);
	clear(sum, n);
	for (int r = 0; r < 8; r++)
		add_pairs_16(_mm512_srli_epi16(pairs_u8(w->scales[r]), 4), act, step, r, sum, n);
	add_sums(w->dmin, true, act, step, sum, acc, n);
}

/* Q3_K: values are 4 above the weight's integer, in halves of four runs; Q6_K: 32, in pairs. */
#define BLOCK_16(fmt, n_parts, n_runs, small, off)                                                                   \
	AVX512_INLINE void block_##fmt(                                                                            \
			const struct fmt##x16 *w, const void *act, size_t step, __m512 *acc, const int n)       \
	{                                                                                                          \
		__m512i sum[8], v[8];                                                                              \
		clear(sum, n);                                                                                     \
		X86_LOOP                                                                                          \
		for (int p = 0; p < (n_parts); p++) {                                                              \
			AVX2_UNROLL                                                                                \
			for (int r = 0; r < (n_runs); r++) {                                                       \
				const int at = (n_runs)*p + r;                                                     \
				const __m512i scales = pairs_i8(w->scales[at]);                                    \
				load_##fmt(w, p, r, v);                                                            \
				run_16(v, scales, small, act, step, at, sum, n);                                   \
				add_pairs_16(_mm512_mullo_epi16(scales, _mm512_set1_epi16(-(off))), act, step, at, \
						sum, n);                                                           \
			}                                                                                          \
		}                                                                                                  \
		add_sums(w->d, false, act, step, sum, acc, n);                                                     \
	}
BLOCK_16(q3_k, 2, 4, true, 4)
BLOCK_16(q6_k, 4, 2, false, 32)

AVX512_INLINE void block_iq4_xs(const struct iq4_xsx16 *w, const void *act, size_t step, __m512 *acc, const int n)
{
	__m512i sum[8], v[8];

	clear(sum, n);
	X86_LOOP
	for (int p = 0; p < 4; p++) {
		const __m512i scales = pairs_i8(w->scales[p]);
		AVX2_UNROLL
		for (int r = 0; r < 2; r++) {
			load_iq4_xs(w, 2 * p + r, v);
			run_32(v, one_of(scales, r), act, step, 2 * p + r, sum, n);
		}
		add_pairs_32(_mm512_mullo_epi16(scales, _mm512_set1_epi16(-128)), act, step, p, sum, n);
	}
	add_sums(w->d, false, act, step, sum, acc, n);
}

X86_FORMATS_256(AVX512_TILE_256)
X86_FORMATS_256(AVX512_MM)

void kern_avx512_init_mm_256(struct kern *k)
{
	X86_FORMATS_256(AVX512_SET_MM)
}

void kern_init_avx512(struct kern *k)
{
	kern_avx512_init_attn(k);
	kern_avx512_init_pack(k);
	kern_avx512_init_mm_float(k);
	kern_avx512_init_mm_32(k);
	kern_avx512_init_mm_256(k);
}
