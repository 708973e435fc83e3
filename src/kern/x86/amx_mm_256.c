/* AMX: products of many columns with weights in blocks of 256 (Q2_K, Q3_K, Q4_K, Q5_K, Q6_K, IQ4_XS).
 *
 * Sub-blocks have scales, which would have to be applied to the sums of each. Instead the weights are multiplied by
 * them when they are unpacked, once for all columns: a product has 14 bits at the most and is kept as two bytes, each
 * in a tile of its own, and the sums go through the whole block without a stop. Invariants
 *  1. A product of scale and weight is low + 256 high, with low unsigned and high signed. So is the block's I of
 *     docs/numerics.md; of low it is 256 * 255 * 127 < 2^23 at the most, of high 256 * 17 * 127 < 2^20.
 *  2. What the file's bits are above the weight (Q3_K 4, Q6_K 32, IQ4_XS 128) is taken off before that.
 *  3. Rows past n_rows are packed as zeros and never stored. */
#include "kern/x86/amx.h"

#include "kern/x86/avx512_load.h"

/* Minimums are pairs of int16, [pair of sub-blocks][row][2]: four of Q4_K and Q5_K, eight of Q2_K. */
struct unpacked {
	float d[16], dmin[16];
	int16_t mins[8][32];
	uint8_t low[64][64]; /* 4 k of 16 rows each */
	int8_t high[64][64];
};
_Static_assert(sizeof(struct unpacked) == KERN_MM_SCRATCH_BYTES(256), "there is room for it");

/* Registers [from, to) of run r, less off, times a scale. */
AMX_INLINE void unpack(struct unpacked *o, int r, const __m512i v[8], const int from, const int to, const int off,
		__m512i scale)
{
	const __m512i even = _mm512_set1_epi16(0xff), above = _mm512_set1_epi16(off);
	const __m512i twice = _mm512_or_si512(
			_mm512_slli_epi32(scale, 16), _mm512_and_si512(scale, _mm512_set1_epi32(0xffff)));

	AVX2_UNROLL
	for (int i = from; i < to; i++) {
		__m512i p = _mm512_and_si512(v[i], even), q = _mm512_srli_epi16(v[i], 8);
		if (off) {
			p = _mm512_sub_epi16(p, above);
			q = _mm512_sub_epi16(q, above);
		}
		p = _mm512_mullo_epi16(p, twice);
		q = _mm512_mullo_epi16(q, twice);
		/* 0xca: the first where the mask has a bit, else the second */
		_mm512_store_si512(o->low[8 * r + i],
				_mm512_ternarylogic_epi32(even, p, _mm512_slli_epi16(q, 8), 0xca));
		_mm512_store_si512(o->high[8 * r + i],
				_mm512_ternarylogic_epi32(even, _mm512_srli_epi16(p, 8), q, 0xca));
	}
}

/* Run r with one scale, or one for each half. */
AMX_INLINE void unpack_32(struct unpacked *o, int r, const __m512i v[8], const int off, __m512i scale)
{
	unpack(o, r, v, 0, 8, off, scale);
}
AMX_INLINE void unpack_16(struct unpacked *o, int r, const __m512i v[8], const int off, __m512i scales)
{
	unpack(o, r, v, 0, 4, off, one_of(scales, 0));
	unpack(o, r, v, 4, 8, off, one_of(scales, 1));
}

/* ---- One block of each format ---- */

#define UNPACK(fmt) AMX_INLINE void unpack_##fmt(struct unpacked *o, const struct fmt##x16 *w)

#define UNPACK_K(fmt)                                                                    \
	UNPACK(fmt)                                                                      \
	{                                                                                \
		__m512i v[8];                                                            \
		_mm512_store_ps(o->d, avx512_halves(w->d));                              \
		_mm512_store_ps(o->dmin, avx512_halves(w->dmin));                        \
		X86_LOOP                                                                 \
		for (int p = 0; p < 4; p++) {                                            \
			const __m512i scales = pairs_u8(w->scales[p]);                   \
			_mm512_store_si512(o->mins[p], pairs_u8(w->mins[p]));            \
			AVX2_UNROLL                                                      \
			for (int r = 0; r < 2; r++) {                                    \
				load_##fmt(w, p, r, v);                                  \
				unpack_32(o, 2 * p + r, v, 0, one_of(scales, r));        \
			}                                                                \
		}                                                                        \
	}
UNPACK_K(q4_k)
UNPACK_K(q5_k)

UNPACK(q2_k)
{
	__m512i v[8];

	_mm512_store_ps(o->d, avx512_halves(w->d));
	_mm512_store_ps(o->dmin, avx512_halves(w->dmin));
	X86_LOOP
	for (int h = 0; h < 2; h++) {
		AVX2_UNROLL
		for (int r = 0; r < 4; r++) {
			const __m512i both = pairs_u8(w->scales[4 * h + r]);
			_mm512_store_si512(o->mins[4 * h + r], _mm512_srli_epi16(both, 4));
			load_q2_k(w, h, r, v);
			unpack_16(o, 4 * h + r, v, 0, _mm512_and_si512(both, _mm512_set1_epi16(15)));
		}
	}
}

#define UNPACK_16(fmt, n_parts, n_runs, off)                                                             \
	UNPACK(fmt)                                                                                      \
	{                                                                                                \
		__m512i v[8];                                                                            \
		_mm512_store_ps(o->d, avx512_halves(w->d));                                              \
		X86_LOOP                                                                                 \
		for (int p = 0; p < (n_parts); p++) {                                                    \
			AVX2_UNROLL                                                                      \
			for (int r = 0; r < (n_runs); r++) {                                             \
				const int at = (n_runs)*p + r;                                           \
				load_##fmt(w, p, r, v);                                                  \
				unpack_16(o, at, v, off, pairs_i8(w->scales[at]));                       \
			}                                                                                \
		}                                                                                        \
	}
UNPACK_16(q3_k, 2, 4, 4)
UNPACK_16(q6_k, 4, 2, 32)

UNPACK(iq4_xs)
{
	__m512i v[8];

	_mm512_store_ps(o->d, avx512_halves(w->d));
	X86_LOOP
	for (int p = 0; p < 4; p++) {
		const __m512i scales = pairs_i8(w->scales[p]);
		AVX2_UNROLL
		for (int r = 0; r < 2; r++) {
			load_iq4_xs(w, 2 * p + r, v);
			unpack_32(o, 2 * p + r, v, 128, one_of(scales, r));
		}
	}
}

/* ---- Sums ---- */

/* Sums of one block, 64 k at a time: of low in sums[0], of high in sums[1]. */
#define DOTS(w, act, step, sums)                                         \
	do {                                                             \
		_tile_zero(AMX_C0);                                      \
		_tile_zero(AMX_C1);                                      \
		X86_LOOP                                                 \
		for (int i = 0; i < 4; i++) {                            \
			_tile_loadd(AMX_A, (act)->qs + 64 * i, step);    \
			_tile_loadd(AMX_B0, (w)->low[16 * i], 64);       \
			_tile_dpbsud(AMX_C0, AMX_A, AMX_B0);             \
			_tile_loadd(AMX_B1, (w)->high[16 * i], 64);      \
			_tile_dpbssd(AMX_C1, AMX_A, AMX_B1);             \
		}                                                        \
		_tile_stored(AMX_C0, (sums)[0], 64);                     \
		_tile_stored(AMX_C1, (sums)[1], 64);                     \
	} while (0)

/* n_mins: pairs of minimums; four are of sub-blocks of 32, eight of 16. */
AMX_INLINE void add_block(const struct unpacked *w, const struct kern_act_q8_256 *act, size_t step, const int n_mins,
		int32_t (*sums)[AMX_COLS][16], __m512 *acc)
{
	const __m512 d = _mm512_load_ps(w->d), dmin = n_mins ? _mm512_load_ps(w->dmin) : d;

	AMX_UNROLL
	for (int c = 0; c < AMX_COLS; c++) {
		const struct kern_act_q8_256 *x = x86_act_256(act, c, step);
		const __m512 da = _mm512_set1_ps(x->d);
		const __m512i high = _mm512_slli_epi32(_mm512_load_si512(sums[1][c]), 8);
		__m512i sum = _mm512_add_epi32(high, _mm512_load_si512(sums[0][c]));
		acc[c] = _mm512_fmadd_ps(_mm512_mul_ps(d, da), _mm512_cvtepi32_ps(sum), acc[c]);
		if (!n_mins)
			continue;
		sum = _mm512_setzero_si512();
		AVX2_UNROLL
		for (int i = 0; i < n_mins; i++)
			sum = _mm512_dpwssd_epi32(sum, _mm512_load_si512(w->mins[i]),
					avx512_bcast4((n_mins == 4 ? x->s32 : x->s16) + 2 * i));
		acc[c] = _mm512_fnmadd_ps(_mm512_mul_ps(dmin, da), _mm512_cvtepi32_ps(sum), acc[c]);
	}
}

/* Sixteen columns from col on. As in amx_mm_32.c, sums are used when the next block is under way. */
AMX_INLINE void columns(const struct kern_mm *m, const struct unpacked *w, size_t row, size_t col, const int n_mins)
{
	_Alignas(64) int32_t sums[4][AMX_COLS][16];
	const size_t nb = m->k / 256, step = m->act_bytes;
	const struct kern_act_q8_256 *act = x86_act_row(m, col);
	__m512 acc[AMX_COLS];

	amx_clear(acc);
	for (size_t b = 0; b < nb + 1; b++) {
		if (b < nb)
			DOTS(w + b, act + b, step, sums + 2 * (b & 1));
		if (b > 0)
			add_block(w + b - 1, act + b - 1, step, n_mins, sums + 2 * (~b & 1), acc);
	}
	amx_store(m, row, col, acc);
}

AMX_MM(q2_k, 256, 8)
AMX_MM(q3_k, 256, 0)
AMX_MM(q4_k, 256, 4)
AMX_MM(q5_k, 256, 4)
AMX_MM(q6_k, 256, 0)
AMX_MM(iq4_xs, 256, 0)

void kern_amx_init_mm_256(struct kern *k)
{
	X86_FORMATS_256(X86_SET_MM)
}

void kern_init_amx(struct kern *k)
{
	kern_amx_init_mm_32(k);
	kern_amx_init_mm_256(k);
}
