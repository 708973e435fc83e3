/* Shared by the files of the AVX2 level. Every function carries the target attribute, so that no file needs -m flags
 * and nothing of this level leaks into code that an older CPU runs. */
#ifndef KERN_X86_AVX2_H
#define KERN_X86_AVX2_H

#include "kern/kern.h"
#include "kern/kern_math.h"
#include "kern/x86/formats.h"

#include <immintrin.h>
#include <string.h>

/* Sanitizers would take minutes to compile what is unrolled here; the kernel tests have guard pages instead. */
#define X86_PLAIN __attribute__((no_sanitize("address", "undefined", "thread")))
#define AVX2 __attribute__((target("avx2,fma,f16c"))) X86_PLAIN
#define AVX2_INLINE AVX2 __attribute__((always_inline)) static inline

/* Small loops over registers must vanish, or the arrays stay in memory. clang takes a count above the loop's own as a
 * partial unroll, so each compiler is asked in its own words. */
#if defined(__clang__)
#define AVX2_UNROLL _Pragma("clang loop unroll(full)")
#define X86_LOOP _Pragma("clang loop unroll(disable)") /* a loop that is to stay one */
#else
#define AVX2_UNROLL _Pragma("GCC unroll 8")
#define X86_LOOP _Pragma("GCC unroll 1")
#endif

/* Each fills in its part of the table. */
void kern_avx2_init_rows(struct kern *k);
void kern_avx2_init_attn(struct kern *k);
void kern_avx2_init_pack(struct kern *k);
void kern_avx2_init_mm_float(struct kern *k);
void kern_avx2_init_mm_32(struct kern *k);
void kern_avx2_init_mm_256(struct kern *k);
void kern_avx2_init_mm_low(struct kern *k);

void kern_avx2_attn_f16(const struct kern_attn_step *s);
void kern_avx2_attn_q8_0(const struct kern_attn_step *s);

/* The fold of docs/numerics.md: i and i + 4, i and i + 2, the last two. */
AVX2_INLINE float avx2_tree8(__m256 v)
{
	__m128 a = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
	__m128 b = _mm_add_ps(a, _mm_movehl_ps(a, a));
	return _mm_cvtss_f32(_mm_add_ss(b, _mm_movehdup_ps(b)));
}

/* Largest magnitude as bits: NaN > Inf > finite, whatever the order. */
AVX2_INLINE uint32_t avx2_hmax_bits(__m256i v)
{
	__m128i a = _mm_max_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
	a = _mm_max_epi32(a, _mm_shuffle_epi32(a, 0x4e));
	a = _mm_max_epi32(a, _mm_shuffle_epi32(a, 0xb1));
	return (uint32_t)_mm_cvtsi128_si32(a);
}

AVX2_INLINE __m256i avx2_abs_bits(const float *x)
{
	return _mm256_and_si256(_mm256_loadu_si256((const void *)x), _mm256_set1_epi32(0x7fffffff));
}

/* The largest magnitude of 32 floats, in one of the lanes. */
AVX2_INLINE __m256i avx2_abs_bits_32(const float *x)
{
	return _mm256_max_epi32(_mm256_max_epi32(avx2_abs_bits(x), avx2_abs_bits(x + 8)),
			_mm256_max_epi32(avx2_abs_bits(x + 16), avx2_abs_bits(x + 24)));
}

/* x * inv of 32 floats as bytes, nearest even, saturated. inv == 0 selects zeros. */
AVX2_INLINE __m256i avx2_round_32(const float *x, float inv)
{
	__m256 f = _mm256_set1_ps(inv);
	__m256i keep = _mm256_set1_epi32(inv == 0.0f ? 0 : -1), q[4];
	for (int i = 0; i < 4; i++)
		q[i] = _mm256_and_si256(keep, _mm256_cvtps_epi32(_mm256_mul_ps(_mm256_loadu_ps(x + 8 * i), f)));
	__m256i v = _mm256_packs_epi16(_mm256_packs_epi32(q[0], q[1]), _mm256_packs_epi32(q[2], q[3]));
	return _mm256_permutevar8x32_epi32(v, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
}

/* All ones in lanes below n. */
AVX2_INLINE __m256i avx2_mask(long n)
{
	return _mm256_cmpgt_epi32(_mm256_set1_epi32((int)(n > 8 ? 8 : n < 0 ? 0 : n)),
			_mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}

AVX2_INLINE __m256i avx2_load(const void *p)
{
	return _mm256_loadu_si256(p);
}

/* Four bytes in every lane. */
AVX2_INLINE __m256i avx2_bcast4(const void *p)
{
	int32_t v;
	memcpy(&v, p, sizeof v);
	return _mm256_set1_epi32(v);
}

/* Of pairs of int16, the first (or second) twice. */
AVX2_INLINE __m256i avx2_one_of_pair(__m256i pairs, const bool second)
{
	const __m256i lanes = _mm256_setr_epi32(
			0, 0x04040404, 0x08080808, 0x0c0c0c0c, 0, 0x04040404, 0x08080808, 0x0c0c0c0c);
	const __m256i at = _mm256_set1_epi32(second ? 0x03020302 : 0x01000100);
	return _mm256_shuffle_epi8(pairs, _mm256_add_epi8(at, lanes));
}

/* Bits of each byte moved left by n (right for n < 0), and a mask. Shifts work on 16 bits; what crosses a byte is
 * masked away. */
AVX2_INLINE __m256i avx2_bits_at(const void *p, const int n, const int mask)
{
	__m256i q = avx2_load(p);
	q = n > 0 ? _mm256_slli_epi16(q, n) : n < 0 ? _mm256_srli_epi16(q, -n) : q;
	return _mm256_and_si256(q, _mm256_set1_epi8((char)mask));
}

/* Eight outputs of column col from row on; rows past the end are not stored. */
AVX2_INLINE void avx2_store_rows(const struct kern_mm *m, size_t row, size_t col, __m256 v)
{
	float *out = m->out + col * m->out_ld + row;
	if (row + 8 <= m->n_rows)
		_mm256_storeu_ps(out, v);
	else
		_mm256_maskstore_ps(out, avx2_mask((long)(m->n_rows - row)), v);
}

/* A product from tile_FMT, which computes `rows` outputs of n columns: tiles of `most` columns (4 or 8), then one of
 * what is left, so that weights are unpacked once per tile and read again, if at all, from L1. The cases that cannot
 * arise with 4 name a tile that exists anyway. */
#define X86_MM(target, name, rows, fmt, most)                                                    \
	target void name(const struct kern_mm *m, size_t row0, size_t row1)                      \
	{                                                                                        \
		for (size_t r = row0; r < row1; r += (rows)) {                                   \
			size_t c = 0;                                                            \
			for (; c + (most) <= m->n_cols; c += (most))                             \
				tile_##fmt(m, r, c, most);                                       \
			switch (m->n_cols - c) {                                                 \
			case 7: tile_##fmt(m, r, c, (most) > 7 ? 7 : 1); break;                  \
			case 6: tile_##fmt(m, r, c, (most) > 6 ? 6 : 1); break;                  \
			case 5: tile_##fmt(m, r, c, (most) > 5 ? 5 : 1); break;                  \
			case 4: tile_##fmt(m, r, c, (most) > 4 ? 4 : 1); break;                  \
			case 3: tile_##fmt(m, r, c, 3); break;                                   \
			case 2: tile_##fmt(m, r, c, 2); break;                                   \
			case 1: tile_##fmt(m, r, c, 1); break;                                   \
			default: break;                                                          \
			}                                                                        \
		}                                                                                \
	}
#define AVX2_MM(fmt, most) X86_MM(AVX2 static, mm_##fmt, 8, fmt, most)

/* tile_FMT: `rows` outputs of n columns (`most` of them at the most), block after block. `each` adds the block at w to
 * acc; `act` is the block of column 0, `step` the way to the next column's. Needs X86_INLINE_LEVEL, X86_VEC_LEVEL,
 * X86_ZERO_LEVEL and LEVEL_store_rows. */
#define X86_TILE(level, rows, fmt, block, act_t, most, each)                                                     \
	X86_INLINE_##level void tile_##fmt(const struct kern_mm *m, size_t row, size_t col, const int n)       \
	{                                                                                                      \
		const size_t nb = m->k / (block), step = m->act_bytes;                                         \
		const struct fmt##x##rows *w = (const struct fmt##x##rows *)m->w + row / (rows)*nb;            \
		const act_t *act = x86_act_row(m, col);                                                        \
		X86_VEC_##level acc[most];                                                                     \
		for (int c = 0; c < n; c++)                                                                    \
			acc[c] = X86_ZERO_##level;                                                             \
		for (size_t b = 0; b < nb; b++, w++, act++) {                                                  \
			if (X86_FETCHES(m, col, 2))                                                            \
				X86_FETCH(w, sizeof *w, nb * sizeof *w);                                       \
			each;                                                                                  \
		}                                                                                              \
		for (int c = 0; c < n; c++)                                                                    \
			level##_store_rows(m, row, col + (size_t)c, acc[c]);                                   \
	}
#define X86_INLINE_avx2 AVX2_INLINE
#define X86_VEC_avx2 __m256
#define X86_ZERO_avx2 _mm256_setzero_ps()
#define AVX2_TILE_32(fmt, each) X86_TILE(avx2, 8, fmt, 32, struct kern_act_q8_32, 4, each)
#define AVX2_MM_256(fmt, most) \
	X86_TILE(avx2, 8, fmt, 256, struct kern_act_q8_256, most, block_##fmt(w, act, step, acc, n)) \
	AVX2_MM(fmt, most)

/* Float weights of `rows` rows interleaved, eight k at a time: avx2_mm_float.c. X86_FLOAT_PACK makes the table's
 * functions of them. */
size_t x86_float_bytes(size_t n_rows, size_t k, size_t width, size_t rows);
void x86_float_pack(void *dst, const void *src, size_t n_rows, size_t k, size_t row0, size_t row1, size_t width,
		size_t rows);
#define X86_FLOAT_PACK(width, rows)                                                                               \
	static size_t bytes_##width(size_t n_rows, size_t k)                                                    \
	{                                                                                                       \
		return x86_float_bytes(n_rows, k, width, rows);                                                 \
	}                                                                                                       \
	static void pack_##width(void *dst, const void *src, size_t n_rows, size_t k, size_t row0, size_t row1) \
	{                                                                                                       \
		x86_float_pack(dst, src, n_rows, k, row0, row1, width, rows);                                   \
	}

/* Asks for the line `ahead` bytes on, which may lie past the end: as a number, since no such pointer may be made.
 * Always inline: as a function it has no effect that gcc knows of, and calls to it are dropped. */
__attribute__((always_inline)) static inline void x86_fetch(const void *p, size_t ahead)
{
	_mm_prefetch((const char *)((uintptr_t)p + ahead), _MM_HINT_T1);
}

/* Whether the tile from column col on asks for the rows after its own, and how: weights are read again for every tile
 * of columns, so that the hardware's prefetcher sees too little of them to run ahead. With one column it does better
 * alone (Zen 4, from memory: 40 GB/s a core, 32 with these), and with two of float weights; two columns of Q4_K take
 * 27 % less time with them from memory, 10 % less from the cache. */
#define X86_FETCHES(m, col, least) ((col) == 0 && (m)->n_cols >= (least))
#define X86_FETCH(p, bytes, ahead)                                                      \
	for (size_t fetch_at = 0; fetch_at < (bytes); fetch_at += 64)                   \
	x86_fetch(p, (ahead) + fetch_at)

/* First block of a column. */
static inline const void *x86_act_row(const struct kern_mm *m, size_t col)
{
	return (const uint8_t *)m->act + col * m->act_bytes;
}

/* Block of column c, where `a` is the block of column 0. */
static inline const struct kern_act_q8_32 *x86_act_32(const struct kern_act_q8_32 *a, int c, size_t step)
{
	return (const void *)((const uint8_t *)a + (size_t)c * step);
}
static inline const struct kern_act_q8_256 *x86_act_256(const void *act, int c, size_t step)
{
	return (const void *)((const uint8_t *)act + (size_t)c * step);
}

/* kern_exp in eight lanes. */
AVX2_INLINE __m256 avx2_exp(__m256 x)
{
	__m256 v = _mm256_min_ps(_mm256_set1_ps(KERN_EXP_MAX), x); /* max < x ? max : x, so that NaN passes */
	__m256 t = _mm256_fmadd_ps(v, _mm256_set1_ps(KERN_LOG2E), _mm256_set1_ps(KERN_MAGIC));
	__m256 n = _mm256_sub_ps(t, _mm256_set1_ps(KERN_MAGIC));
	__m256 r = _mm256_fmadd_ps(n, _mm256_set1_ps(-KERN_LN2_HI), v);
	r = _mm256_fmadd_ps(n, _mm256_set1_ps(-KERN_LN2_LO), r);
	__m256 p = _mm256_fmadd_ps(r, _mm256_set1_ps(KERN_EXP_C7), _mm256_set1_ps(KERN_EXP_C6));
	p = _mm256_fmadd_ps(r, p, _mm256_set1_ps(KERN_EXP_C5));
	p = _mm256_fmadd_ps(r, p, _mm256_set1_ps(KERN_EXP_C4));
	p = _mm256_fmadd_ps(r, p, _mm256_set1_ps(KERN_EXP_C3));
	p = _mm256_fmadd_ps(r, p, _mm256_set1_ps(KERN_EXP_C2));
	p = _mm256_fmadd_ps(r, p, _mm256_set1_ps(1.0f));
	p = _mm256_fmadd_ps(r, p, _mm256_set1_ps(1.0f));
	__m256i e = _mm256_add_epi32(_mm256_slli_epi32(_mm256_castps_si256(t), 23), _mm256_set1_epi32(0x3f800000));
	p = _mm256_mul_ps(p, _mm256_castsi256_ps(e));
	return _mm256_andnot_ps(_mm256_cmp_ps(x, _mm256_set1_ps(KERN_EXP_MIN), _CMP_LT_OQ), p);
}

#endif
