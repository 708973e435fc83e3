/* AVX-512 with VNNI: products with weights in blocks of 32 (Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, IQ4_NL, MXFP4), sixteen
 * rows interleaved.
 *
 * One register holds 4 consecutive k of 16 rows; the activation's 4 bytes are broadcast; each 32-bit lane is one output
 * row, as in avx2_mm_32.c. Invariants
 *  1. Weights are unsigned: nibbles and 5-bit values as the file has them, int8 and IQ4_NL's values plus 128,
 *     MXFP4's plus 16. What
 *     that is too much is a multiple of the activations' sum, from which the integer sum starts.
 *  2. int32 sums: 32 * 255 * 127 + 128 * 32 * 127 < 2^21.
 *  3. Rows past n_rows are packed as zeros and never stored. */
#include "kern/x86/avx512.h"

#include "kern/x86/avx512_load.h"

/* ---- One block against n columns ---- */

/* Where the integer sum starts when weights are stored `off` above their value. */
AVX512_INLINE __m512i start(const struct kern_act_q8_32 *x, const int off)
{
	switch (off) {
	case 8: return avx512_bcast4(&x->off8);
	case 16: return _mm512_slli_epi32(avx512_bcast4(&x->off8), 1);
	case 128: return avx512_bcast4(&x->off128);
	default: return _mm512_setzero_si512();
	}
}

/* Four columns at a time: as many sums as it takes to keep the multiplier busy. */
AVX512_INLINE void block(const __m512i v[8], const __m512 d, const uint16_t *mw, const int off,
		const struct kern_act_q8_32 *a, size_t step, __m512 *acc, const int n)
{
	const __m512 m = mw ? avx512_halves(mw) : _mm512_setzero_ps();

	AVX2_UNROLL
	for (int c0 = 0; c0 < n; c0 += 4) {
		const int end = n - c0 < 4 ? n : c0 + 4;
		__m512i t[4];
		AVX2_UNROLL
		for (int c = c0; c < end; c++)
			t[c - c0] = start(x86_act_32(a, c, step), off);
		AVX2_UNROLL
		for (int i = 0; i < 8; i++) {
			AVX2_UNROLL
			for (int c = c0; c < end; c++) {
				const int8_t *qs = x86_act_32(a, c, step)->qs;
				t[c - c0] = _mm512_dpbusd_epi32(t[c - c0], v[i], avx512_bcast4(qs + 4 * i));
			}
		}
		AVX2_UNROLL
		for (int c = c0; c < end; c++) {
			const struct kern_act_q8_32 *x = x86_act_32(a, c, step);
			__m512 dd = _mm512_mul_ps(d, _mm512_set1_ps(x->d));
			acc[c] = _mm512_fmadd_ps(dd, _mm512_cvtepi32_ps(t[c - c0]), acc[c]);
			if (mw)
				acc[c] = _mm512_fmadd_ps(m, _mm512_set1_ps(x->s), acc[c]);
		}
	}
}

#define TILE(fmt, load, d, min, off)                                  \
	AVX512_TILE_32(fmt, __m512i v[8]; load; block(v, d, min, off, act, step, acc, n))
TILE(q4_0, load_nibbles(w->qs, v), avx512_halves(w->d), NULL, 8)
TILE(q4_1, load_nibbles(w->qs, v), avx512_halves(w->d), w->m, 0)
TILE(q5_0, load_fives(w->qs, w->qh, v), avx512_halves(w->d), NULL, 16)
TILE(q5_1, load_fives(w->qs, w->qh, v), avx512_halves(w->d), w->m, 0)
TILE(q8_0, load_bytes(w->qs, v), avx512_halves(w->d), NULL, 128)
TILE(iq4_nl, load_table(quant_iq4_values, 128, w->qs, v), avx512_halves(w->d), NULL, 128)
TILE(mxfp4, load_table(quant_mxfp4_values, 16, w->qs, v), mxfp4_scale(w->e), NULL, 16)

X86_FORMATS_32(AVX512_MM)

void kern_avx512_init_mm_32(struct kern *k)
{
	X86_FORMATS_32(AVX512_SET_MM)
}
