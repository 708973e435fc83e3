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

#define X86_N 16
#include "kern/x86/layout.h"

/* ---- The eight registers of a block ---- */

AVX512_INLINE void load_nibbles(const uint8_t qs[4][64], __m512i v[8])
{
	AVX2_UNROLL
	for (int i = 0; i < 4; i++) {
		__m512i q = avx512_load(qs[i]);
		v[i] = avx512_nibbles(q, 0);
		v[i + 4] = avx512_nibbles(q, 4);
	}
}

/* Puts bit i of qh above the nibbles of register i. */
AVX512_INLINE void load_fives(const uint8_t qs[4][64], const uint8_t qh[64], __m512i v[8])
{
	const __m512i fifth = _mm512_set1_epi8(16), h = avx512_load(qh);
	load_nibbles(qs, v);
	AVX2_UNROLL
	for (int i = 0; i < 8; i++) {
		__m512i b = i < 4 ? _mm512_slli_epi16(h, 4 - i) : _mm512_srli_epi16(h, i - 4);
		v[i] = _mm512_or_si512(v[i], _mm512_and_si512(b, fifth));
	}
}

AVX512_INLINE void load_bytes(const uint8_t qs[8][64], __m512i v[8])
{
	AVX2_UNROLL
	for (int i = 0; i < 8; i++)
		v[i] = avx512_load(qs[i]);
}

/* Values of a table plus `off`. */
AVX512_INLINE void load_table(const int8_t values[16], const int off, const uint8_t qs[4][64], __m512i v[8])
{
	const __m128i above = _mm_add_epi8(_mm_loadu_si128((const void *)values), _mm_set1_epi8((char)off));
	const __m512i table = _mm512_broadcast_i32x4(above);
	load_nibbles(qs, v);
	AVX2_UNROLL
	for (int i = 0; i < 8; i++)
		v[i] = _mm512_shuffle_epi8(table, v[i]);
}

/* quant_mxfp4_scale in sixteen lanes. The exponent is e's; 0, which has none, is half of the least normal number.
 * Halving is exact. */
AVX512_INLINE __m512 mxfp4_scale(const uint8_t *p)
{
	const __m512i e = _mm512_slli_epi32(_mm512_cvtepu8_epi32(_mm_loadu_si128((const void *)p)), 23);
	const __m512 twice = _mm512_castsi512_ps(_mm512_max_epi32(e, _mm512_set1_epi32(0x00400000)));
	const __m512 d = _mm512_mul_ps(twice, _mm512_set1_ps(0.5f));
	const __mmask16 bad = _mm512_cmpeq_epi32_mask(e, _mm512_set1_epi32(0x7f800000));
	return _mm512_mask_mov_ps(d, bad, _mm512_set1_ps(NAN));
}

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

AVX512_MM(q4_0, 8)
AVX512_MM(q4_1, 8)
AVX512_MM(q5_0, 8)
AVX512_MM(q5_1, 8)
AVX512_MM(q8_0, 8)
AVX512_MM(iq4_nl, 8)
AVX512_MM(mxfp4, 8)

void kern_avx512_init_mm_32(struct kern *k)
{
	k->packed[QUANT_Q4_0].mm = mm_q4_0;
	k->packed[QUANT_Q4_1].mm = mm_q4_1;
	k->packed[QUANT_Q5_0].mm = mm_q5_0;
	k->packed[QUANT_Q5_1].mm = mm_q5_1;
	k->packed[QUANT_Q8_0].mm = mm_q8_0;
	k->packed[QUANT_IQ4_NL].mm = mm_iq4_nl;
	k->packed[QUANT_MXFP4].mm = mm_mxfp4;
}
