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

#include <string.h>

struct q4_kx8 {
	uint16_t d[8], dmin[8];
	uint8_t scales[8][8];  /* [sub-block][row] */
	uint8_t mins[4][16];   /* [pair of sub-blocks][row][2] */
	uint8_t qs[32][32];    /* register i: bytes 4i..4i+3 of each row */
};

struct q5_kx8 {
	struct q4_kx8 k;
	uint8_t qh[8][32];     /* register i: bytes 4i..4i+3 of each row; bit j is of sub-block j */
};

struct q6_kx8 {
	uint16_t d[8];
	int8_t scales[8][16];  /* [pair of sub-blocks][row][2] */
	uint8_t ql[32][32];    /* register i: bytes 4i..4i+3 of each row */
	uint8_t qh[16][32];
};

_Static_assert(sizeof(struct q4_kx8) == 8 * 148, "4 bytes a block more than in the file: unpacked scales");
_Static_assert(sizeof(struct q5_kx8) == 8 * 180, "4 bytes a block more than in the file, likewise");
_Static_assert(sizeof(struct q6_kx8) == 8 * 210, "same size as in the file");

/* Two registers of weights against eight bytes: fits int16 for values up to 6 bits. */
AVX2_INLINE __m256i two(__m256i v0, __m256i v1, const int8_t *p)
{
	return _mm256_add_epi16(
			_mm256_maddubs_epi16(v0, avx2_bcast4(p)), _mm256_maddubs_epi16(v1, avx2_bcast4(p + 4)));
}

/* Bit j of qh, above the nibbles. */
AVX2_INLINE __m256i fifth(const uint8_t *qh, const int j)
{
	__m256i h = avx2_load(qh);
	h = j < 4 ? _mm256_slli_epi16(h, 4 - j) : _mm256_srli_epi16(h, j - 4);
	return _mm256_and_si256(h, _mm256_set1_epi8(16));
}

/* Sub-block j of Q4_K or Q5_K (qh not NULL): the low or the high nibbles of eight registers against n columns.
 * `ahead` is the distance to the next eight rows, which are fetched meanwhile: short rows end before the hardware's
 * prefetcher gets going. */
AVX2_INLINE void sub_k(const struct q4_kx8 *w, const uint8_t *qh, const uint8_t *act, size_t step, const int j,
		size_t ahead, __m256i *sum, const int n)
{
	const __m256i low = _mm256_set1_epi8(15);
	const uint8_t *q = w->qs[8 * (j / 2)];
	__m256i v[4];

	x86_fetch(q, ahead + 128 * (size_t)(j % 2));
	x86_fetch(q, ahead + 128 * (size_t)(j % 2) + 64);

	__m256i sc = _mm256_cvtepu8_epi32(_mm_loadl_epi64((const void *)w->scales[j]));
	sc = _mm256_or_si256(sc, _mm256_slli_epi32(sc, 16));
	/* Half the sub-block at a time: four registers of weights and one of scales leave room for the sums of eight
	 * columns. */
	AVX2_UNROLL
	for (int e = 0; e < 2; e++) {
		AVX2_UNROLL
		for (int i = 0; i < 4; i++) {
			__m256i x = avx2_load(q + 32 * (4 * e + i));
			v[i] = _mm256_and_si256(j % 2 ? _mm256_srli_epi16(x, 4) : x, low);
			if (qh)
				v[i] = _mm256_or_si256(v[i], fifth(qh + 32 * (4 * e + i), j));
		}
		AVX2_UNROLL
		for (int c = 0; c < n; c++) {
			const int8_t *p = x86_act_256(act, c, step)->qs + 32 * j + 16 * e;
			__m256i s = _mm256_add_epi16(two(v[0], v[1], p), two(v[2], v[3], p + 8));
			sum[c] = _mm256_add_epi32(sum[c], _mm256_madd_epi16(s, sc));
		}
	}
}

/* One block of Q4_K or Q5_K against n columns. */
AVX2_INLINE void block_k(const struct q4_kx8 *w, const uint8_t *qh, const uint8_t *act, size_t step, size_t ahead,
		__m256 *acc, const int n)
{
	__m256i sum[8], msum[8];

	for (int c = 0; c < n; c++)
		sum[c] = msum[c] = _mm256_setzero_si256();
	AVX2_UNROLL
	for (int j = 0; j < 8; j++)
		sub_k(w, qh, act, step, j, ahead, sum, n);
	for (int j = 0; j < 4; j++) {
		__m256i mn = _mm256_cvtepu8_epi16(_mm_loadu_si128((const void *)w->mins[j]));
		for (int c = 0; c < n; c++) {
			const int16_t *s = &x86_act_256(act, c, step)->s32[2 * j];
			msum[c] = _mm256_add_epi32(msum[c], _mm256_madd_epi16(mn, avx2_bcast4(s)));
		}
	}
	__m256 d = _mm256_cvtph_ps(_mm_loadu_si128((const void *)w->d));
	__m256 dmin = _mm256_cvtph_ps(_mm_loadu_si128((const void *)w->dmin));
	for (int c = 0; c < n; c++) {
		__m256 da = _mm256_set1_ps(x86_act_256(act, c, step)->d);
		acc[c] = _mm256_fmadd_ps(_mm256_mul_ps(d, da), _mm256_cvtepi32_ps(sum[c]), acc[c]);
		acc[c] = _mm256_fnmadd_ps(_mm256_mul_ps(dmin, da), _mm256_cvtepi32_ps(msum[c]), acc[c]);
	}
}

#define TILE_K(fmt, block, qh)                                                                             \
	AVX2_INLINE void tile_##fmt(const struct kern_mm *m, size_t row, size_t col, const int n)        \
	{                                                                                                \
		const size_t nb = m->k / 256, step = m->act_bytes;                                       \
		const struct fmt##x8 *w = (const struct fmt##x8 *)m->w + row / 8 * nb;                   \
		const uint8_t *act = (const uint8_t *)m->act + col * step;                               \
		__m256 acc[8];                                                                           \
		for (int c = 0; c < n; c++)                                                              \
			acc[c] = _mm256_setzero_ps();                                                    \
		for (size_t b = 0; b < nb; b++, w++, act += sizeof(struct kern_act_q8_256))              \
			block_k(block, qh, act, step, nb * sizeof *w, acc, n);                           \
		for (int c = 0; c < n; c++)                                                              \
			avx2_store_rows(m, row, col + (size_t)c, acc[c]);                                \
	}
TILE_K(q4_k, w, NULL)
TILE_K(q5_k, &w->k, w->qh[0])

/* Registers r = 0..7 of group g (0..3) of half h: elements 128 h + 32 g + 4 r. */
AVX2_INLINE __m256i q6_k_reg(const struct q6_kx8 *w, int h, const int g, int r)
{
	__m256i l = avx2_load(w->ql[16 * h + (g & 1) * 8 + r]), hi = avx2_load(w->qh[8 * h + r]);
	const __m256i low = _mm256_set1_epi8(15), two = _mm256_set1_epi8(0x30);
	l = _mm256_and_si256(g & 2 ? _mm256_srli_epi16(l, 4) : l, low);
	switch (g) {
	case 0: hi = _mm256_slli_epi16(hi, 4); break;
	case 1: hi = _mm256_slli_epi16(hi, 2); break;
	case 3: hi = _mm256_srli_epi16(hi, 2); break;
	default: break;
	}
	return _mm256_or_si256(l, _mm256_and_si256(hi, two));
}

/* Group g of half h of Q6_K, two sub-blocks of 16, against n columns, one sub-block at a time as above. */
AVX2_INLINE void group_q6_k(const struct q6_kx8 *w, const uint8_t *act, size_t step, int h, const int g,
		size_t ahead, __m256i *sum, const int n)
{
	/* One scale of each pair, twice. */
	const __m256i lanes = _mm256_setr_epi32(
			0, 0x04040404, 0x08080808, 0x0c0c0c0c, 0, 0x04040404, 0x08080808, 0x0c0c0c0c);
	const __m256i first = _mm256_add_epi8(_mm256_set1_epi32(0x01000100), lanes);
	const __m256i second = _mm256_add_epi8(_mm256_set1_epi32(0x03020302), lanes);
	__m256i sc = _mm256_cvtepi8_epi16(_mm_loadu_si128((const void *)w->scales[4 * h + g]));
	const size_t next = ahead + 192 * (size_t)(4 * h + g) + offsetof(struct q6_kx8, ql);
	x86_fetch(w, next);
	x86_fetch(w, next + 64);
	x86_fetch(w, next + 128);

	/* The offset of 32 first: 32 * scale fits int16, 32 * the sum would not. */
	__m256i sc32 = _mm256_slli_epi16(sc, 5);
	AVX2_UNROLL
	for (int c = 0; c < n; c++) {
		const int16_t *s = &x86_act_256(act, c, step)->s16[8 * h + 2 * g];
		sum[c] = _mm256_sub_epi32(sum[c], _mm256_madd_epi16(sc32, avx2_bcast4(s)));
	}
	AVX2_UNROLL
	for (int e = 0; e < 2; e++) {
		__m256i scale = _mm256_shuffle_epi8(sc, e ? second : first), v[4];
		AVX2_UNROLL
		for (int r = 0; r < 4; r++)
			v[r] = q6_k_reg(w, h, g, 4 * e + r);
		AVX2_UNROLL
		for (int c = 0; c < n; c++) {
			const int8_t *p = x86_act_256(act, c, step)->qs + 128 * h + 32 * g + 16 * e;
			__m256i t = _mm256_madd_epi16(two(v[0], v[1], p), scale);
			t = _mm256_add_epi32(t, _mm256_madd_epi16(two(v[2], v[3], p + 8), scale));
			sum[c] = _mm256_add_epi32(sum[c], t);
		}
	}
}

AVX2_INLINE void tile_q6_k(const struct kern_mm *m, size_t row, size_t col, const int n)
{
	const size_t nb = m->k / 256, step = m->act_bytes;
	const struct q6_kx8 *w = (const struct q6_kx8 *)m->w + row / 8 * nb;
	const uint8_t *act = (const uint8_t *)m->act + col * step;
	__m256 acc[8];

	for (int c = 0; c < n; c++)
		acc[c] = _mm256_setzero_ps();
	for (size_t b = 0; b < nb; b++, w++, act += sizeof(struct kern_act_q8_256)) {
		__m256i sum[8];
		for (int c = 0; c < n; c++)
			sum[c] = _mm256_setzero_si256();
		for (int h = 0; h < 2; h++) {
			AVX2_UNROLL
			for (int g = 0; g < 4; g++)
				group_q6_k(w, act, step, h, g, nb * sizeof *w, sum, n);
		}
		__m256 d = _mm256_cvtph_ps(_mm_loadu_si128((const void *)w->d));
		for (int c = 0; c < n; c++) {
			__m256 da = _mm256_set1_ps(x86_act_256(act, c, step)->d);
			acc[c] = _mm256_fmadd_ps(_mm256_mul_ps(d, da), _mm256_cvtepi32_ps(sum[c]), acc[c]);
		}
	}
	for (int c = 0; c < n; c++)
		avx2_store_rows(m, row, col + (size_t)c, acc[c]);
}

AVX2_MM(q4_k, 8)
AVX2_MM(q5_k, 8)
AVX2_MM(q6_k, 8)

/* ---- Packing: row j of eight ---- */

/* What Q4_K and Q5_K have in common. */
static void pack_k(struct q4_kx8 *o, size_t j, uint16_t d, uint16_t dmin, const uint8_t *scales, const uint8_t *qs)
{
	o->d[j] = d;
	o->dmin[j] = dmin;
	for (int i = 0; i < 8; i++)
		quant_k_scale_min(scales, i, &o->scales[i][j], &o->mins[i / 2][2 * j + (size_t)(i % 2)]);
	x86_pack_units(o->qs, sizeof *o->qs, j, qs, 32);
}

static void pack_row_q4_k(struct q4_kx8 *o, size_t j, const struct q4_k *s)
{
	pack_k(o, j, s->d, s->dmin, s->scales, s->qs);
}

static void pack_row_q5_k(struct q5_kx8 *o, size_t j, const struct q5_k *s)
{
	pack_k(&o->k, j, s->d, s->dmin, s->scales, s->qs);
	x86_pack_units(o->qh, sizeof *o->qh, j, s->qh, 8);
}

static void pack_row_q6_k(struct q6_kx8 *o, size_t j, const struct q6_k *s)
{
	o->d[j] = s->d;
	for (int i = 0; i < 16; i++)
		o->scales[i / 2][2 * j + (size_t)(i % 2)] = s->scales[i];
	x86_pack_units(o->ql, sizeof *o->ql, j, s->ql, 32);
	x86_pack_units(o->qh, sizeof *o->qh, j, s->qh, 16);
}

AVX2_PACK(q4_k, 256)
AVX2_PACK(q5_k, 256)
AVX2_PACK(q6_k, 256)

void kern_avx2_init_mm_256(struct kern *k)
{
	k->packed[QUANT_Q4_K] = AVX2_PACKED(q4_k);
	k->packed[QUANT_Q5_K] = AVX2_PACKED(q5_k);
	k->packed[QUANT_Q6_K] = AVX2_PACKED(q6_k);
}
