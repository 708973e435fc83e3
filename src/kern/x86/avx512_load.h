/* Sixteen interleaved rows out of memory: the registers of a block, each with 4 consecutive k of every row, as unsigned
 * bytes; and their scales. Included once by each file of products, with AVX-512 (avx512_mm_*.c) and in tiles
 * (amx_mm_*.c), behind its level's header. */
#define X86_N 16
#include "kern/x86/layout.h"

/* ---- The eight registers of a block of 32 ---- */

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

/* ---- The eight registers of a run of 32 in a block of 256 ---- */

/* A run is named by the half h (Q2_K, Q3_K) or pair p it lies in and its number r there, which decides about shifts and
 * so must be a constant; the loops over halves and pairs stay loops, or the code becomes very large. */

/* Bits of each byte moved left by n (right for n < 0), and a mask. Shifts work on 16 bits; what crosses a byte is
 * masked away. */
AVX512_INLINE __m512i bits_at(__m512i q, const int n, const int mask)
{
	q = n > 0 ? _mm512_slli_epi16(q, (unsigned)n) : n < 0 ? _mm512_srli_epi16(q, (unsigned)-n) : q;
	return _mm512_and_si512(q, _mm512_set1_epi8((char)mask));
}

AVX512_INLINE void load_q2_k(const struct q2_kx16 *w, int h, const int r, __m512i v[8])
{
	AVX2_UNROLL
	for (int i = 0; i < 8; i++)
		v[i] = bits_at(avx512_load(w->qs[8 * h + i]), -2 * r, 3);
}

AVX512_INLINE void load_q3_k(const struct q3_kx16 *w, int h, const int r, __m512i v[8])
{
	__m512i third[4];
	AVX2_UNROLL
	for (int i = 0; i < 4; i++)
		third[i] = avx512_load(w->h[h].hm[i]);
	AVX2_UNROLL
	for (int i = 0; i < 8; i++)
		v[i] = _mm512_or_si512(bits_at(avx512_load(w->h[h].qs[i]), -2 * r, 3),
				bits_at(third[i % 4], 2 - 2 * r - i / 4, 4));
}

AVX512_INLINE void load_q4_k(const struct q4_kx16 *w, int p, const int r, __m512i v[8])
{
	AVX2_UNROLL
	for (int i = 0; i < 8; i++)
		v[i] = bits_at(avx512_load(w->qs[8 * p + i]), -4 * r, 15);
}

AVX512_INLINE void load_q5_k(const struct q5_kx16 *w, int p, const int r, __m512i v[8])
{
	const __m512i fifth = avx512_load(w->p[p].qh[r]);
	AVX2_UNROLL
	for (int i = 0; i < 8; i++)
		v[i] = _mm512_or_si512(bits_at(avx512_load(w->p[p].qs[i]), -4 * r, 15), bits_at(fifth, 4 - i, 16));
}

AVX512_INLINE void load_q6_k(const struct q6_kx16 *w, int p, const int r, __m512i v[8])
{
	__m512i high[4];
	AVX2_UNROLL
	for (int i = 0; i < 4; i++)
		high[i] = avx512_load(w->p[p].qh[i]);
	AVX2_UNROLL
	for (int i = 0; i < 8; i++)
		v[i] = _mm512_or_si512(bits_at(avx512_load(w->p[p].ql[i]), -4 * r, 15),
				bits_at(high[i % 4], 4 - 2 * (i / 4) - 4 * r, 0x30));
}

/* 16 bytes a row and run, the low nibbles first. */
AVX512_INLINE void load_iq4_xs(const struct iq4_xsx16 *w, int r, __m512i v[8])
{
	const __m128i signs = _mm_set1_epi8((char)0x80);
	const __m128i values = _mm_xor_si128(_mm_loadu_si128((const void *)quant_iq4_values), signs);
	const __m512i table = _mm512_broadcast_i32x4(values);
	AVX2_UNROLL
	for (int i = 0; i < 8; i++)
		v[i] = _mm512_shuffle_epi8(table, bits_at(avx512_load(w->qs[4 * r + i % 4]), i < 4 ? 0 : -4, 15));
}

/* ---- Scales of blocks of 256 ---- */

/* Pairs of bytes as pairs of int16. */
AVX512_INLINE __m512i pairs_u8(const uint8_t p[32])
{
	return _mm512_cvtepu8_epi16(_mm256_loadu_si256((const void *)p));
}
AVX512_INLINE __m512i pairs_i8(const int8_t p[32])
{
	return _mm512_cvtepi8_epi16(_mm256_loadu_si256((const void *)p));
}

/* One of each pair, as int32. */
AVX512_INLINE __m512i one_of(__m512i pairs, const int second)
{
	return _mm512_srai_epi32(second ? pairs : _mm512_slli_epi32(pairs, 16), 16);
}
