/* Eight floats of the AVX2 level for kern_v8.h; the AVX-512 level uses them as well. */
#ifndef KERN_X86_AVX2_V8_H
#define KERN_X86_AVX2_V8_H

#include "kern/x86/avx2.h"

#define V8 AVX2
#define V8_INLINE AVX2_INLINE
#define V8_UNROLL AVX2_UNROLL
typedef __m256 v8;

V8_INLINE v8 v8_load(const float *p)
{
	return _mm256_loadu_ps(p);
}
V8_INLINE void v8_store(float *p, v8 v)
{
	_mm256_storeu_ps(p, v);
}
V8_INLINE v8 v8_set(float f)
{
	return _mm256_set1_ps(f);
}
V8_INLINE v8 v8_add(v8 a, v8 b)
{
	return _mm256_add_ps(a, b);
}
V8_INLINE v8 v8_sub(v8 a, v8 b)
{
	return _mm256_sub_ps(a, b);
}
V8_INLINE v8 v8_mul(v8 a, v8 b)
{
	return _mm256_mul_ps(a, b);
}
V8_INLINE v8 v8_div(v8 a, v8 b)
{
	return _mm256_div_ps(a, b);
}
V8_INLINE v8 v8_fma(v8 a, v8 b, v8 c)
{
	return _mm256_fmadd_ps(a, b, c);
}
V8_INLINE v8 v8_pick_lt(v8 a, v8 b, v8 x, v8 y)
{
	return _mm256_blendv_ps(y, x, _mm256_cmp_ps(a, b, _CMP_LT_OQ));
}
V8_INLINE v8 v8_abs(v8 x)
{
	return _mm256_andnot_ps(_mm256_set1_ps(-0.0f), x);
}
V8_INLINE v8 v8_minus_abs(v8 x)
{
	return _mm256_or_ps(_mm256_set1_ps(-0.0f), x);
}
V8_INLINE v8 v8_with_sign(v8 x, v8 s)
{
	return _mm256_or_ps(x, _mm256_and_ps(_mm256_set1_ps(-0.0f), s));
}
V8_INLINE v8 v8_exp(v8 x)
{
	return avx2_exp(x);
}

V8_INLINE v8 v8_log_split(v8 x, v8 *e)
{
	const __m256i least = _mm256_set1_epi32(KERN_LOG_LEAST);
	__m256i up = _mm256_add_epi32(_mm256_castps_si256(x), _mm256_set1_epi32(0x3f800000 - KERN_LOG_LEAST));
	__m256i part = _mm256_and_si256(up, _mm256_set1_epi32(0x007fffff));
	*e = _mm256_cvtepi32_ps(_mm256_sub_epi32(_mm256_srli_epi32(up, 23), _mm256_set1_epi32(127)));
	return _mm256_castsi256_ps(_mm256_add_epi32(part, least));
}

/* i and i + 4 of two vectors side by side, then i and i + 2 of four, then the last two of eight. */
V8_INLINE v8 v8_trees(const v8 v[8])
{
	v8 a[4], b[2];
	AVX2_UNROLL
	for (int i = 0; i < 4; i++)
		a[i] = _mm256_add_ps(_mm256_permute2f128_ps(v[i], v[i + 4], 0x20),
				_mm256_permute2f128_ps(v[i], v[i + 4], 0x31));
	AVX2_UNROLL
	for (int i = 0; i < 2; i++)
		b[i] = _mm256_add_ps(_mm256_shuffle_ps(a[2 * i], a[2 * i + 1], 0x44),
				_mm256_shuffle_ps(a[2 * i], a[2 * i + 1], 0xee));
	return _mm256_add_ps(_mm256_shuffle_ps(b[0], b[1], 0x88), _mm256_shuffle_ps(b[0], b[1], 0xdd));
}

#endif
