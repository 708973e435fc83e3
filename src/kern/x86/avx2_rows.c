/* AVX2: row operations and the rounding of activations. Same operations as kern_ref.c, eight lanes at a time. */
#include "kern/x86/avx2_v8.h"

#include "base/fmath.h"

AVX2_INLINE int32_t hsum_epi32(__m256i v)
{
	__m128i a = _mm_add_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
	a = _mm_add_epi32(a, _mm_shuffle_epi32(a, 0x4e));
	a = _mm_add_epi32(a, _mm_shuffle_epi32(a, 0xb1));
	return _mm_cvtsi128_si32(a);
}

/* 32 floats to 32 bytes; returns the bytes. |x * inv| is at most 127. */
AVX2_INLINE __m256i round_32(const float *x, float inv, int8_t *qs)
{
	__m256i v = avx2_round_32(x, inv);
	_mm256_storeu_si256((void *)qs, v);
	return v;
}

AVX2 static void act_q8_32(const float *x, size_t k, void *out)
{
	struct kern_act_q8_32 *o = out;
	for (size_t b = 0; b < k / 32; b++, x += 32) {
		struct kern_act_scale s = kern_act_scale(avx2_hmax_bits(avx2_abs_bits_32(x)));
		__m256i q = round_32(x, s.inv, o[b].qs);
		__m256i pairs = _mm256_maddubs_epi16(_mm256_set1_epi8(1), q);
		int32_t sum = hsum_epi32(_mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
		o[b].d = s.d;
		o[b].off8 = -8 * sum;
		o[b].off128 = -128 * sum;
		o[b].s = s.d * (float)sum;
	}
}

AVX2 static void act_q8_256(const float *x, size_t k, void *out)
{
	struct kern_act_q8_256 *o = out;
	for (size_t b = 0; b < k / 256; b++, x += 256) {
		__m256i m = avx2_abs_bits_32(x);
		for (int i = 1; i < 8; i++)
			m = _mm256_max_epi32(m, avx2_abs_bits_32(x + 32 * i));
		struct kern_act_scale s = kern_act_scale(avx2_hmax_bits(m));
		o[b].d = s.d;
		for (int i = 0; i < 8; i++) {
			__m256i q = round_32(x + 32 * i, s.inv, o[b].qs + 32 * i);
			__m256i pairs = _mm256_maddubs_epi16(_mm256_set1_epi8(1), q);
			__m256i fours = _mm256_madd_epi16(pairs, _mm256_set1_epi16(1));
			__m256i eights = _mm256_add_epi32(fours, _mm256_shuffle_epi32(fours, 0xb1));
			__m256i all = _mm256_add_epi32(eights, _mm256_shuffle_epi32(eights, 0x4e));
			int32_t lo = _mm256_extract_epi32(all, 0), hi = _mm256_extract_epi32(all, 4);
			o[b].s16[2 * i] = (int16_t)lo;
			o[b].s16[2 * i + 1] = (int16_t)hi;
			o[b].s32[i] = (int16_t)(lo + hi);
		}
	}
}

AVX2 static void rms_norm(const float *x, const float *w, size_t n, float eps, float *out)
{
	__m256 acc = _mm256_setzero_ps();
	size_t i = 0;
	for (; i + 8 <= n; i += 8) {
		__m256 v = _mm256_loadu_ps(x + i);
		acc = _mm256_fmadd_ps(v, v, acc);
	}
	if (i < n) {
		__m256 v = _mm256_maskload_ps(x + i, avx2_mask((long)(n - i)));
		acc = _mm256_fmadd_ps(v, v, acc); /* the squares are not negative, so adding 0 changes nothing */
	}
	float r = kern_rms_scale(avx2_tree8(acc), n, eps);
	__m256 rv = _mm256_set1_ps(r);
	for (i = 0; i + 8 <= n; i += 8)
		_mm256_storeu_ps(out + i,
				_mm256_mul_ps(_mm256_mul_ps(_mm256_loadu_ps(x + i), rv), _mm256_loadu_ps(w + i)));
	for (; i < n; i++)
		out[i] = x[i] * r * w[i];
}

AVX2 static void add(float *x, const float *y, size_t n)
{
	size_t i = 0;
	for (; i + 8 <= n; i += 8)
		_mm256_storeu_ps(x + i, _mm256_add_ps(_mm256_loadu_ps(x + i), _mm256_loadu_ps(y + i)));
	for (; i < n; i++)
		x[i] = x[i] + y[i];
}

AVX2 static void scale(float *x, float f, size_t n)
{
	size_t i = 0;
	for (; i + 8 <= n; i += 8)
		_mm256_storeu_ps(x + i, _mm256_mul_ps(_mm256_loadu_ps(x + i), _mm256_set1_ps(f)));
	for (; i < n; i++)
		x[i] = x[i] * f;
}

AVX2_INLINE __m256 silu_mul_8(__m256 g, __m256 u)
{
	__m256 e = avx2_exp(_mm256_xor_ps(g, _mm256_set1_ps(-0.0f)));
	return _mm256_mul_ps(_mm256_div_ps(g, _mm256_add_ps(_mm256_set1_ps(1.0f), e)), u);
}

AVX2_INLINE __m256 gelu_mul_8(__m256 g, __m256 u)
{
	__m256 one = _mm256_set1_ps(1.0f);
	__m256 p = _mm256_fmadd_ps(_mm256_mul_ps(g, g), _mm256_set1_ps(KERN_GELU_CUBE), one);
	__m256 e = avx2_exp(_mm256_mul_ps(_mm256_mul_ps(g, _mm256_set1_ps(KERN_GELU_SLOPE)), p));
	return _mm256_mul_ps(_mm256_div_ps(g, _mm256_add_ps(one, e)), u);
}

/* gate_NAME of NAME_mul_8. */
#define GATE(name)                                                                                              \
	AVX2 static void gate_##name(const float *gate, const float *up, size_t n, float *out)                  \
	{                                                                                                       \
		size_t i = 0;                                                                                   \
		for (; i + 8 <= n; i += 8)                                                                      \
			_mm256_storeu_ps(out + i, name##_mul_8(_mm256_loadu_ps(gate + i), _mm256_loadu_ps(up + i))); \
		if (i < n) {                                                                                    \
			__m256i m = avx2_mask((long)(n - i));                                                   \
			__m256 g = _mm256_maskload_ps(gate + i, m);                                             \
			_mm256_maskstore_ps(out + i, m, name##_mul_8(g, _mm256_maskload_ps(up + i, m)));        \
		}                                                                                               \
	}
GATE(silu)
GATE(gelu)

AVX2 static void rope(float *x, size_t n_rot, const float *cosv, const float *sinv, bool halves)
{
	size_t n = n_rot / 2, i = 0;
	if (halves) {
		for (; i + 8 <= n; i += 8) {
			__m256 a = _mm256_loadu_ps(x + i), b = _mm256_loadu_ps(x + n + i);
			__m256 c = _mm256_loadu_ps(cosv + i), s = _mm256_loadu_ps(sinv + i);
			_mm256_storeu_ps(x + i, _mm256_fmsub_ps(a, c, _mm256_mul_ps(b, s)));
			_mm256_storeu_ps(x + n + i, _mm256_fmadd_ps(a, s, _mm256_mul_ps(b, c)));
		}
	} else {
		for (; i + 8 <= n; i += 8) {
			__m256 lo = _mm256_loadu_ps(x + 2 * i), hi = _mm256_loadu_ps(x + 2 * i + 8);
			/* Even and odd elements, in the lane order 0 1 4 5 2 3 6 7; cos and sin take the same order. */
			__m256 a = _mm256_shuffle_ps(lo, hi, 0x88), b = _mm256_shuffle_ps(lo, hi, 0xdd);
			__m256 c = _mm256_castpd_ps(
					_mm256_permute4x64_pd(_mm256_castps_pd(_mm256_loadu_ps(cosv + i)), 0xd8));
			__m256 s = _mm256_castpd_ps(
					_mm256_permute4x64_pd(_mm256_castps_pd(_mm256_loadu_ps(sinv + i)), 0xd8));
			__m256 ra = _mm256_fmsub_ps(a, c, _mm256_mul_ps(b, s));
			__m256 rb = _mm256_fmadd_ps(a, s, _mm256_mul_ps(b, c));
			_mm256_storeu_ps(x + 2 * i, _mm256_unpacklo_ps(ra, rb));
			_mm256_storeu_ps(x + 2 * i + 8, _mm256_unpackhi_ps(ra, rb));
		}
	}
	kern_rope_rest(x, i, n, cosv, sinv, halves);
}

AVX2 static bool all_finite(const float *x, size_t n)
{
	__m256i top = _mm256_set1_epi32(0x7f800000), bad = _mm256_setzero_si256();
	size_t i = 0;
	for (; i + 8 <= n; i += 8)
		bad = _mm256_or_si256(bad,
				_mm256_cmpeq_epi32(
						_mm256_and_si256(_mm256_loadu_si256((const void *)(x + i)), top), top));
	for (; i < n; i++)
		if ((fm_bits(x[i]) & 0x7f800000u) == 0x7f800000u)
			return false;
	return _mm256_testz_si256(bad, bad);
}

/* Numbers outside [-690, 690], NaN included, take fm_exp itself: for them 2^n is not one factor. */
AVX2 static void exp64(const double *x, size_t n, double *y)
{
	static const double terms[] = FM_EXP_TERMS;
	const __m256d sign = _mm256_set1_pd(-0.0), limit = _mm256_set1_pd(690.0);
	size_t i = 0;

	for (; i + 4 <= n; i += 4) {
		const __m256d v = _mm256_loadu_pd(x + i);
		if (_mm256_movemask_pd(_mm256_cmp_pd(_mm256_andnot_pd(sign, v), limit, _CMP_LE_OQ)) != 15) {
			for (size_t k = i; k < i + 4; k++)
				y[k] = fm_exp(x[k]);
			continue;
		}
		const __m256d t = _mm256_mul_pd(v, _mm256_set1_pd(FM_LOG2E));
		const __m256d half = _mm256_or_pd(_mm256_and_pd(sign, t), _mm256_set1_pd(0.5));
		const __m128i e = _mm256_cvttpd_epi32(_mm256_add_pd(t, half));
		const __m256d en = _mm256_cvtepi32_pd(e);
		__m256d r = _mm256_fnmadd_pd(en, _mm256_set1_pd(FM_LN2_HI), v);
		r = _mm256_fnmadd_pd(en, _mm256_set1_pd(FM_LN2_LO), r);
		__m256d p = _mm256_set1_pd(terms[FM_EXP_DEGREE]);
		for (int k = FM_EXP_DEGREE - 1; k >= 0; k--)
			p = _mm256_fmadd_pd(p, r, _mm256_set1_pd(terms[k]));
		const __m256i bits = _mm256_slli_epi64(
				_mm256_add_epi64(_mm256_cvtepi32_epi64(e), _mm256_set1_epi64x(1023)), 52);
		_mm256_storeu_pd(y + i, _mm256_mul_pd(p, _mm256_castsi256_pd(bits)));
	}
	for (; i < n; i++)
		y[i] = fm_exp(x[i]);
}

#include "kern/kern_v8.h"
#include "kern/kern_rows8.h"

void kern_avx2_init_rows(struct kern *k)
{
	rows8_init(k);
	k->act[QUANT_ACT_Q8_32] = act_q8_32;
	k->act[QUANT_ACT_Q8_256] = act_q8_256;
	k->rms_norm = rms_norm;
	k->add = add;
	k->scale = scale;
	k->silu_mul = gate_silu;
	k->gelu_mul = gate_gelu;
	k->rope = rope;
	k->all_finite = all_finite;
	k->exp64 = exp64;
}

void kern_init_avx2(struct kern *k)
{
	k->name = "avx2";
	kern_avx2_init_rows(k);
	kern_avx2_init_attn(k);
	kern_avx2_init_pack(k);
	kern_avx2_init_mm_float(k);
	kern_avx2_init_mm_32(k);
	kern_avx2_init_mm_256(k);
	kern_avx2_init_mm_low(k);
}
