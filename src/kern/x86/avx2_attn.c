/* AVX2: the cache and attention, on top of kern_kv8.h. With more than eight queries the block is widened to floats once
 * for all. */
#include "kern/x86/avx2_v8.h"

enum { B = KERN_KV_BLOCK, G = KERN_KV_GROUP };

/* ---- Eight floats ---- */

#define KV8 AVX2
#define KV8_INLINE AVX2_INLINE
#define KV8_UNROLL AVX2_UNROLL
typedef __m256 kv8;

AVX2_INLINE kv8 kv8_zero(void)
{
	return _mm256_setzero_ps();
}
AVX2_INLINE kv8 kv8_load(const float *p)
{
	return _mm256_loadu_ps(p);
}
AVX2_INLINE void kv8_store(float *p, kv8 v)
{
	_mm256_storeu_ps(p, v);
}
AVX2_INLINE kv8 kv8_mul(kv8 a, kv8 b)
{
	return _mm256_mul_ps(a, b);
}
AVX2_INLINE kv8 kv8_mul_n(kv8 a, float b)
{
	return _mm256_mul_ps(a, _mm256_set1_ps(b));
}
AVX2_INLINE kv8 kv8_fma_n(kv8 a, float b, kv8 c)
{
	return _mm256_fmadd_ps(_mm256_set1_ps(b), a, c);
}
AVX2_INLINE void kv8_to_f16(const float *x, uint16_t *h)
{
	_mm_storeu_si128((void *)h, _mm256_cvtps_ph(_mm256_loadu_ps(x), _MM_FROUND_TO_NEAREST_INT));
}
AVX2_INLINE uint16_t kv8_round_32(const float *x, int8_t qs[G])
{
	struct kern_kv_scale s = kern_kv_scale(avx2_hmax_bits(avx2_abs_bits_32(x)));
	_mm256_storeu_si256((void *)qs, _mm256_max_epi8(avx2_round_32(x, s.inv), _mm256_set1_epi8(-127)));
	return s.d;
}

/* Eight elements from i on; those of Q8_0 still want their scale. */
AVX2_INLINE __m256 load_kv(const void *area, size_t i, const enum kern_kv type)
{
	if (type == KERN_KV_F16)
		return _mm256_cvtph_ps(_mm_loadu_si128((const void *)((const uint16_t *)area + i)));
	if (type == KERN_KV_F32)
		return _mm256_loadu_ps((const float *)area + i);
	return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64((const void *)((const int8_t *)area + i))));
}

AVX2_INLINE float hmax(__m256 v)
{
	__m128 a = _mm_max_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
	a = _mm_max_ps(a, _mm_movehl_ps(a, a));
	return _mm_cvtss_f32(_mm_max_ss(a, _mm_movehdup_ps(a)));
}

/* Eight bits, from bit i on, to eight lanes: all ones where the bit is. */
AVX2_INLINE __m256 lanes_of(uint32_t bits, int i)
{
	__m256i bit = _mm256_setr_epi32(1, 2, 4, 8, 16, 32, 64, 128);
	__m256i v = _mm256_and_si256(_mm256_set1_epi32((int)(bits >> i)), bit);
	return _mm256_castsi256_ps(_mm256_cmpeq_epi32(v, bit));
}

/* Scores of one query become weights, and 0 where it sees nothing; returns the factor for what was summed before. */
AVX2_INLINE float soften(float *s, struct kern_attn_query *q)
{
	__m256 v[4], in[4], m = _mm256_set1_ps(q->top);
	for (int i = 0; i < 4; i++) {
		in[i] = lanes_of(q->cells, 8 * i);
		v[i] = _mm256_loadu_ps(s + 8 * i);
		m = _mm256_max_ps(_mm256_blendv_ps(m, v[i], in[i]), m); /* a > b ? a : b: NaN is passed over */
	}
	float old = q->top;
	q->top = hmax(m);
	for (int i = 0; i < 4; i++) {
		v[i] = _mm256_and_ps(in[i], avx2_exp(_mm256_sub_ps(v[i], _mm256_set1_ps(q->top))));
		_mm256_storeu_ps(s + 8 * i, v[i]);
	}
	const __m256 lane = _mm256_add_ps(_mm256_add_ps(_mm256_add_ps(v[0], v[1]), v[2]), v[3]);
	float c = _mm256_cvtss_f32(avx2_exp(_mm256_set1_ps(old - q->top)));
	q->sum = fmaf(q->sum, c, avx2_tree8(lane));
	return c;
}

#include "kern/kern_kv8.h"

/* ---- Many queries ---- */

/* The block as floats, laid out as an F32 cache has it. Places nobody wrote become any number, which nobody uses. */
AVX2_INLINE void widen(const struct kern_attn_step *s, const enum kern_kv type, float *k, float *v)
{
	const size_t ld = kern_pad8(s->head_v);
	const void *k_scales = (const uint8_t *)s->k + s->head_k * B; /* [groups, B], Q8_0 only */
	float scales[B];

	for (size_t i = 0; i < s->head_k; i++)
		for (size_t j = 0; j < B; j += 8) {
			__m256 x = load_kv(s->k, i * B + j, type);
			if (type == KERN_KV_Q8_0)
				x = _mm256_mul_ps(x, load_kv(k_scales, i / G * B + j, KERN_KV_F16));
			_mm256_storeu_ps(k + i * B + j, x);
		}
	for (size_t d = 0; d < ld; d += 8) {
		if (type == KERN_KV_Q8_0 && d % G == 0)
			v_scales(s->v, s->head_v, d / G, scales);
		for (size_t j = 0; j < B; j++) {
			__m256 x = load_kv(s->v, j * ld + d, type);
			if (type == KERN_KV_Q8_0)
				x = _mm256_mul_ps(x, _mm256_set1_ps(scales[j]));
			_mm256_storeu_ps(v + j * ld + d, x);
		}
	}
}

AVX2 static void attn_f32(const struct kern_attn_step *s)
{
	attn(s, s->k, s->v, KERN_KV_F32);
}

#define ATTN(name, type)                                                                      \
	AVX2 void kern_avx2_attn_##name(const struct kern_attn_step *s)                       \
	{                                                                                     \
		if (s->n <= 8) {                                                              \
			attn(s, s->k, s->v, type);                                            \
			return;                                                               \
		}                                                                             \
		float *k = (float *)s->scratch + s->n * B, *v = k + s->head_k * B;            \
		widen(s, type, k, v);                                                         \
		struct kern_attn_step wide = *s;                                              \
		wide.k = k;                                                                   \
		wide.v = v;                                                                   \
		attn_f32(&wide);                                                              \
	}
ATTN(f16, KERN_KV_F16)
ATTN(q8_0, KERN_KV_Q8_0)

/* The rest moves single numbers that lie apart, or is memcpy already: the reference's will do. */
void kern_avx2_init_attn(struct kern *k)
{
	k->put_k[KERN_KV_F16] = put_k_f16;
	k->put_v[KERN_KV_F16] = put_v_f16;
	k->get_k[KERN_KV_F16] = get_k_f16;
	k->put_k[KERN_KV_Q8_0] = put_k_q8_0;
	k->put_v[KERN_KV_Q8_0] = put_v_q8_0;
	k->attn[KERN_KV_F16] = kern_avx2_attn_f16;
	k->attn[KERN_KV_F32] = attn_f32;
	k->attn[KERN_KV_Q8_0] = kern_avx2_attn_q8_0;
}
