/* AVX2: products with weights in blocks of 32 (Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, IQ4_NL, MXFP4), eight rows
 * interleaved.
 *
 * One register holds 4 consecutive k of 8 rows; the activation's 4 bytes are broadcast; each 32-bit lane is one output
 * row. So there is no horizontal sum, and an output's additions come in the order of docs/numerics.md whatever the
 * tile. Invariants
 *  1. int16 sums: eight products of a nibble pair with bytes reach at most 8 * 2 * 15 * 127 = 30,480; four of a pair of
 *     5-bit values (which MXFP4's table plus 16 is, too) 4 * 2 * 31 * 127 = 31,496; one pair of full bytes
 *     2 * 128 * 127 = 32,512 (the sign sits on the activation, so a weight of -128 is fine).
 *  2. Rows past n_rows are packed as zeros and never stored. */
#include "kern/x86/avx2.h"

#define X86_N 8
#include "kern/x86/layout.h"

/* The eight registers of a block of nibbles: the low ones are its first half. */
AVX2_INLINE void load_nibbles(const uint8_t qs[4][32], __m256i v[8])
{
	const __m256i low = _mm256_set1_epi8(15);
	AVX2_UNROLL
	for (int i = 0; i < 4; i++) {
		__m256i q = avx2_load(qs[i]);
		v[i] = _mm256_and_si256(q, low);
		v[i + 4] = _mm256_and_si256(_mm256_srli_epi16(q, 4), low);
	}
}

/* Puts bit i of qh above the nibbles of register i. Shifts work on 16 bits; what crosses a byte is masked away. */
AVX2_INLINE void load_fives(const uint8_t qs[4][32], const uint8_t qh[32], __m256i v[8])
{
	const __m256i fifth = _mm256_set1_epi8(16), h = avx2_load(qh);
	load_nibbles(qs, v);
	AVX2_UNROLL
	for (int i = 0; i < 8; i++) {
		__m256i b = i < 4 ? _mm256_slli_epi16(h, 4 - i) : _mm256_srli_epi16(h, i - 4);
		v[i] = _mm256_or_si256(v[i], _mm256_and_si256(b, fifth));
	}
}

/* MXFP4's integers plus 16. */
AVX2_INLINE void load_mxfp4(const uint8_t qs[4][32], __m256i v[8])
{
	const __m128i values = _mm_add_epi8(_mm_loadu_si128((const void *)quant_mxfp4_values), _mm_set1_epi8(16));
	const __m256i table = _mm256_broadcastsi128_si256(values);
	load_nibbles(qs, v);
	AVX2_UNROLL
	for (int i = 0; i < 8; i++)
		v[i] = _mm256_shuffle_epi8(table, v[i]);
}

/* Eight f16 as floats. */
AVX2_INLINE __m256 halves(const uint16_t *p)
{
	return _mm256_cvtph_ps(_mm_loadu_si128((const void *)p));
}

/* quant_mxfp4_scale in eight lanes. The exponent is e's; 0, which has none, is half of the least normal number. Halving
 * is exact. */
AVX2_INLINE __m256 mxfp4_scale(const uint8_t *p)
{
	const __m256i e = _mm256_slli_epi32(_mm256_cvtepu8_epi32(_mm_loadl_epi64((const void *)p)), 23);
	const __m256 twice = _mm256_castsi256_ps(_mm256_max_epi32(e, _mm256_set1_epi32(0x00400000)));
	const __m256i bad = _mm256_cmpeq_epi32(e, _mm256_set1_epi32(0x7f800000)); /* all ones are a NaN */
	return _mm256_or_ps(_mm256_mul_ps(twice, _mm256_set1_ps(0.5f)), _mm256_castsi256_ps(bad));
}

/* Registers [from, to) against the bytes of a column, in int16. */
AVX2_INLINE __m256i pairs(const __m256i v[8], const int8_t *qs, const int from, const int to)
{
	__m256i s = _mm256_maddubs_epi16(v[from], avx2_bcast4(qs + 4 * from));
	AVX2_UNROLL
	for (int i = from + 1; i < to; i++)
		s = _mm256_add_epi16(s, _mm256_maddubs_epi16(v[i], avx2_bcast4(qs + 4 * i)));
	return s;
}

/* One block against n columns. `five`: values of 5 bits, four deep; off: multiple of 8 that values are above the
 * weight's integer; m: minimums, or NULL. */
AVX2_INLINE void unsigned_block(const __m256i v[8], const __m256 d, const uint16_t *mw, const bool five, const int off,
		const struct kern_act_q8_32 *a, size_t step, __m256 *acc, const int n)
{
	const __m256i ones = _mm256_set1_epi16(1);
	const __m256 m = mw ? halves(mw) : _mm256_setzero_ps();

	AVX2_UNROLL
	for (int c = 0; c < n; c++) {
		const struct kern_act_q8_32 *x = x86_act_32(a, c, step);
		__m256i t = _mm256_madd_epi16(pairs(v, x->qs, 0, five ? 4 : 8), ones);
		if (five)
			t = _mm256_add_epi32(t, _mm256_madd_epi16(pairs(v, x->qs, 4, 8), ones));
		if (off)
			t = _mm256_add_epi32(t, _mm256_set1_epi32(off * x->off8));
		acc[c] = _mm256_fmadd_ps(_mm256_mul_ps(d, _mm256_set1_ps(x->d)), _mm256_cvtepi32_ps(t), acc[c]);
		if (mw)
			acc[c] = _mm256_fmadd_ps(m, _mm256_set1_ps(x->s), acc[c]);
	}
}

#define TILE_UNSIGNED(fmt, load, d, min, five, off) \
	AVX2_TILE_32(fmt, __m256i v[8]; load; unsigned_block(v, d, min, five, off, act, step, acc, n))
TILE_UNSIGNED(q4_0, load_nibbles(w->qs, v), halves(w->d), NULL, false, 1)
TILE_UNSIGNED(q4_1, load_nibbles(w->qs, v), halves(w->d), w->m, false, 0)
TILE_UNSIGNED(q5_0, load_fives(w->qs, w->qh, v), halves(w->d), NULL, true, 2)
TILE_UNSIGNED(q5_1, load_fives(w->qs, w->qh, v), halves(w->d), w->m, true, 0)
TILE_UNSIGNED(mxfp4, load_mxfp4(w->qs, v), mxfp4_scale(w->e), NULL, true, 2)

/* Signed bytes against the bytes of n columns: one register at a time, since a pair fills int16. */
AVX2_INLINE void signed_reg(
		__m256i q, const struct kern_act_q8_32 *a, size_t step, int i, __m256i *sum, const int n)
{
	const __m256i mag = _mm256_abs_epi8(q), ones = _mm256_set1_epi16(1);
	AVX2_UNROLL
	for (int c = 0; c < n; c++) {
		const struct kern_act_q8_32 *x = x86_act_32(a, c, step);
		__m256i s = _mm256_maddubs_epi16(mag, _mm256_sign_epi8(avx2_bcast4(x->qs + 4 * i), q));
		sum[c] = _mm256_add_epi32(sum[c], _mm256_madd_epi16(s, ones));
	}
}

AVX2_INLINE void add_block(const uint16_t *dw, const __m256i *sum, const struct kern_act_q8_32 *a, size_t step,
		__m256 *acc, const int n)
{
	const __m256 d = halves(dw);
	AVX2_UNROLL
	for (int c = 0; c < n; c++) {
		const struct kern_act_q8_32 *x = x86_act_32(a, c, step);
		acc[c] = _mm256_fmadd_ps(_mm256_mul_ps(d, _mm256_set1_ps(x->d)), _mm256_cvtepi32_ps(sum[c]), acc[c]);
	}
}

AVX2_INLINE void block_q8_0(
		const struct q8_0x8 *w, const struct kern_act_q8_32 *a, size_t step, __m256 *acc, const int n)
{
	__m256i sum[4];

	for (int c = 0; c < n; c++)
		sum[c] = _mm256_setzero_si256();
	AVX2_UNROLL
	for (int i = 0; i < 8; i++)
		signed_reg(avx2_load(w->qs[i]), a, step, i, sum, n);
	add_block(w->d, sum, a, step, acc, n);
}

AVX2_INLINE void block_iq4_nl(
		const struct iq4_nlx8 *w, const struct kern_act_q8_32 *a, size_t step, __m256 *acc, const int n)
{
	const __m256i table = _mm256_broadcastsi128_si256(_mm_loadu_si128((const void *)quant_iq4_values));
	__m256i sum[4];

	for (int c = 0; c < n; c++)
		sum[c] = _mm256_setzero_si256();
	AVX2_UNROLL
	for (int i = 0; i < 4; i++) {
		signed_reg(_mm256_shuffle_epi8(table, avx2_bits_at(w->qs[i], 0, 15)), a, step, i, sum, n);
		signed_reg(_mm256_shuffle_epi8(table, avx2_bits_at(w->qs[i], -4, 15)), a, step, i + 4, sum, n);
	}
	add_block(w->d, sum, a, step, acc, n);
}

AVX2_TILE_32(q8_0, block_q8_0(w, act, step, acc, n))
AVX2_TILE_32(iq4_nl, block_iq4_nl(w, act, step, acc, n))

#define MM(type, fmt) AVX2_MM(fmt, 4)
X86_FORMATS_32(MM)

void kern_avx2_init_mm_32(struct kern *k)
{
	X86_FORMATS_32(X86_SET_MM)
}
