/* Shared by the files of the AVX2 level. Every function carries the target attribute, so that no file needs -m flags and
 * nothing of this level leaks into code that an older CPU runs. */
#ifndef KERN_X86_AVX2_H
#define KERN_X86_AVX2_H

#include "kern/kern.h"
#include "kern/kern_math.h"

#include <immintrin.h>

#define AVX2 __attribute__((target("avx2,fma,f16c")))
#define AVX2_INLINE AVX2 __attribute__((always_inline)) static inline

/* Each fills in its part of the table. */
void kern_avx2_init_rows(struct kern *k);
void kern_avx2_init_attn(struct kern *k);
void kern_avx2_init_mm_float(struct kern *k);
void kern_avx2_init_mm_32(struct kern *k);
void kern_avx2_init_mm_256(struct kern *k);

/* The fold of docs/numerics.md: i and i + 4, i and i + 2, the last two. */
AVX2_INLINE float avx2_tree8(__m256 v)
{
	__m128 a = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
	__m128 b = _mm_add_ps(a, _mm_movehl_ps(a, a));
	return _mm_cvtss_f32(_mm_add_ss(b, _mm_movehdup_ps(b)));
}

/* All ones in lanes below n. */
AVX2_INLINE __m256i avx2_mask(long n)
{
	return _mm256_cmpgt_epi32(_mm256_set1_epi32((int)(n > 8 ? 8 : n < 0 ? 0 : n)),
			_mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
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
