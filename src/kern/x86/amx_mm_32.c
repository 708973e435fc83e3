/* AMX: products of many columns with weights in blocks of 32 (Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, IQ4_NL, MXFP4).
 *
 * A tile product and sixteen multiply-adds per block: the sums of every block have to leave the tile for their scales,
 * which takes longer than the product. Invariants
 *  1. Weights are unpacked to signed bytes, so that a tile's sum is the block's I of docs/numerics.md.
 *  2. Rows past n_rows are packed as zeros and never stored. */
#include "kern/x86/amx.h"

#include "kern/x86/avx512_load.h"

struct unpacked {
	float d[16], m[16];
	int8_t qs[8][64];
};
_Static_assert(8 * sizeof(struct unpacked) <= KERN_MM_SCRATCH_BYTES(256), "there is room for it");

/* v is `off` above the weights. */
AMX_INLINE void put(struct unpacked *o, const __m512i v[8], const __m512 d, const uint16_t *m, const int off)
{
	_mm512_store_ps(o->d, d);
	if (m)
		_mm512_store_ps(o->m, avx512_halves(m));
	AVX2_UNROLL
	for (int i = 0; i < 8; i++)
		_mm512_store_si512(o->qs[i], off ? _mm512_sub_epi8(v[i], _mm512_set1_epi8((char)off)) : v[i]);
}

#define UNPACK(fmt, load, d, m, off)                                                    \
	AMX_INLINE void unpack_##fmt(struct unpacked *o, const struct fmt##x16 *w)      \
	{                                                                               \
		__m512i v[8];                                                           \
		load;                                                                   \
		put(o, v, d, m, off);                                                   \
	}
UNPACK(q4_0, load_nibbles(w->qs, v), avx512_halves(w->d), NULL, 8)
UNPACK(q4_1, load_nibbles(w->qs, v), avx512_halves(w->d), w->m, 0)
UNPACK(q5_0, load_fives(w->qs, w->qh, v), avx512_halves(w->d), NULL, 16)
UNPACK(q5_1, load_fives(w->qs, w->qh, v), avx512_halves(w->d), w->m, 0)
UNPACK(q8_0, load_bytes(w->qs, v), avx512_halves(w->d), NULL, 128)
UNPACK(iq4_nl, load_table(quant_iq4_values, 0, w->qs, v), avx512_halves(w->d), NULL, 0)
UNPACK(mxfp4, load_table(quant_mxfp4_values, 0, w->qs, v), mxfp4_scale(w->e), NULL, 0)

/* sums = the tile product of one block, by registers c and b. */
#define DOT(c, b, w, act, step, sums)                \
	do {                                         \
		_tile_zero(c);                       \
		_tile_loadd(AMX_A, (act)->qs, step); \
		_tile_loadd(b, (w)->qs, 64);         \
		_tile_dpbssd(c, AMX_A, b);           \
		_tile_stored(c, sums, 64);           \
	} while (0)

AMX_INLINE void add_block(const struct unpacked *w, const struct kern_act_q8_32 *act, size_t step, const bool mins,
		int32_t (*sums)[16], __m512 *acc)
{
	const __m512 d = _mm512_load_ps(w->d), m = mins ? _mm512_load_ps(w->m) : d;

	AMX_UNROLL
	for (int c = 0; c < AMX_COLS; c++) {
		const struct kern_act_q8_32 *x = x86_act_32(act, c, step);
		const __m512 dd = _mm512_mul_ps(d, _mm512_set1_ps(x->d));
		acc[c] = _mm512_fmadd_ps(dd, _mm512_cvtepi32_ps(_mm512_load_si512(sums[c])), acc[c]);
		if (mins)
			acc[c] = _mm512_fmadd_ps(m, _mm512_set1_ps(x->s), acc[c]);
	}
}

/* Sixteen columns from col on. What a tile store wrote is slow to read at once, so that sums are used when the products
 * of the next two blocks are under way. */
AMX_INLINE void columns(const struct kern_mm *m, const struct unpacked *w, size_t row, size_t col, const bool mins)
{
	_Alignas(64) int32_t sums[4][AMX_COLS][16];
	const size_t nb = m->k / 32, step = m->act_bytes;
	const struct kern_act_q8_32 *act = x86_act_row(m, col);
	__m512 acc[AMX_COLS];

	amx_clear(acc);
	for (size_t b = 0; b < nb + 2; b += 2) {
		int32_t(*now)[AMX_COLS][16] = sums + (b & 2), (*before)[AMX_COLS][16] = sums + (~b & 2);
		if (b < nb)
			DOT(AMX_C0, AMX_B0, w + b, act + b, step, now[0]);
		if (b + 1 < nb)
			DOT(AMX_C1, AMX_B1, w + b + 1, act + b + 1, step, now[1]);
		if (b >= 2)
			add_block(w + b - 2, act + b - 2, step, mins, before[0], acc);
		if (b >= 2 && b - 1 < nb)
			add_block(w + b - 1, act + b - 1, step, mins, before[1], acc);
	}
	amx_store(m, row, col, acc);
}

AMX_MM(q4_0, 32, false)
AMX_MM(q4_1, 32, true)
AMX_MM(q5_0, 32, false)
AMX_MM(q5_1, 32, true)
AMX_MM(q8_0, 32, false)
AMX_MM(iq4_nl, 32, false)
AMX_MM(mxfp4, 32, false)

void kern_amx_init_mm_32(struct kern *k)
{
	X86_FORMATS_32(X86_SET_MM)
}
