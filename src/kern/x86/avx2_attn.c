/* AVX2: the cache and attention. In a block, K has positions in its lanes and V has dimensions, so neither product
 * needs a horizontal sum. The query heads of a KV head go together, so that each cell is widened once per four heads.
 */
#include "kern/x86/avx2.h"

#include <string.h>

enum { B = KERN_KV_BLOCK };

AVX2 static void kv_put_f16(
		const float *k, const float *v, size_t head_k, size_t head_v, size_t slot, void *k_area, void *v_area)
{
	uint16_t *ka = k_area, *va = (uint16_t *)v_area + slot * kern_pad8(head_v);
	size_t i = 0;
	for (; i + 8 <= head_k; i += 8) {
		uint16_t h[8];
		_mm_storeu_si128((void *)h, _mm256_cvtps_ph(_mm256_loadu_ps(k + i), _MM_FROUND_TO_NEAREST_INT));
		for (size_t j = 0; j < 8; j++)
			ka[(i + j) * B + slot] = h[j];
	}
	for (; i < head_k; i++)
		ka[i * B + slot] = quant_f32_to_f16(k[i]);
	for (i = 0; i + 8 <= head_v; i += 8)
		_mm_storeu_si128((void *)(va + i), _mm256_cvtps_ph(_mm256_loadu_ps(v + i), _MM_FROUND_TO_NEAREST_INT));
	for (; i < head_v; i++)
		va[i] = quant_f32_to_f16(v[i]);
}

AVX2_INLINE __m256 load_kv(const void *area, size_t i, const enum kern_kv type)
{
	if (type == KERN_KV_F16)
		return _mm256_cvtph_ps(_mm_loadu_si128((const void *)((const uint16_t *)area + i)));
	return _mm256_loadu_ps((const float *)area + i);
}

/* Scores of nh heads for 16 positions from p: one chain over the head's dimensions per position. */
AVX2_INLINE void scores(const float *q, size_t head_k, const void *k, size_t p, const int nh, const enum kern_kv type,
		float *out)
{
	__m256 s[4][2];
	for (int h = 0; h < nh; h++)
		s[h][0] = s[h][1] = _mm256_setzero_ps();
	for (size_t i = 0; i < head_k; i++) {
		__m256 k0 = load_kv(k, i * B + p, type), k1 = load_kv(k, i * B + p + 8, type);
		AVX2_UNROLL
		for (int h = 0; h < nh; h++) {
			__m256 x = _mm256_set1_ps(q[(size_t)h * head_k + i]);
			s[h][0] = _mm256_fmadd_ps(x, k0, s[h][0]);
			s[h][1] = _mm256_fmadd_ps(x, k1, s[h][1]);
		}
	}
	for (int h = 0; h < nh; h++) {
		_mm256_storeu_ps(out + h * B + p, s[h][0]);
		_mm256_storeu_ps(out + h * B + p + 8, s[h][1]);
	}
}

AVX2_INLINE float hmax(__m256 v)
{
	__m128 a = _mm_max_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
	a = _mm_max_ps(a, _mm_movehl_ps(a, a));
	return _mm_cvtss_f32(_mm_max_ss(a, _mm_movehdup_ps(a)));
}

/* Scores of one head become weights; returns the factor for what was summed before. */
AVX2_INLINE float soften(float *s, size_t lo, size_t hi, float *top, float *sum)
{
	__m256 v[4], in[4], m = _mm256_set1_ps(*top), lane = _mm256_setzero_ps();
	for (int i = 0; i < 4; i++) {
		in[i] = _mm256_castsi256_ps(
				_mm256_andnot_si256(avx2_mask((long)lo - 8 * i), avx2_mask((long)hi - 8 * i)));
		v[i] = _mm256_loadu_ps(s + 8 * i);
		m = _mm256_max_ps(_mm256_blendv_ps(m, v[i], in[i]), m); /* a > b ? a : b: NaN is passed over */
	}
	float old = *top;
	*top = hmax(m);
	for (int i = 0; i < 4; i++) {
		v[i] = _mm256_and_ps(in[i], avx2_exp(_mm256_sub_ps(v[i], _mm256_set1_ps(*top))));
		_mm256_storeu_ps(s + 8 * i, v[i]);
	}
	lane = _mm256_add_ps(_mm256_add_ps(_mm256_add_ps(v[0], v[1]), v[2]), v[3]);
	float c = _mm256_cvtss_f32(avx2_exp(_mm256_set1_ps(old - *top)));
	*sum = fmaf(*sum, c, avx2_tree8(lane));
	return c;
}

/* acc += p V for nh heads and 8 nd dimensions from d, positions in order. */
AVX2_INLINE void mix(float *acc, size_t ld, const float *p, const float *c, const void *v, size_t d, size_t lo,
		size_t hi, const int nh, const int nd, const enum kern_kv type)
{
	__m256 o[4][2];
	for (int h = 0; h < nh; h++)
		for (int e = 0; e < nd; e++)
			o[h][e] = _mm256_mul_ps(_mm256_loadu_ps(acc + (size_t)h * ld + d + 8 * (size_t)e),
					_mm256_set1_ps(c[h]));
	for (size_t j = lo; j < hi; j++) {
		__m256 x[2];
		AVX2_UNROLL
		for (int e = 0; e < nd; e++)
			x[e] = load_kv(v, j * ld + d + 8 * (size_t)e, type);
		AVX2_UNROLL
		for (int h = 0; h < nh; h++) {
			__m256 w = _mm256_set1_ps(p[h * B + (int)j]);
			AVX2_UNROLL
			for (int e = 0; e < nd; e++)
				o[h][e] = _mm256_fmadd_ps(w, x[e], o[h][e]);
		}
	}
	for (int h = 0; h < nh; h++)
		for (int e = 0; e < nd; e++)
			_mm256_storeu_ps(acc + (size_t)h * ld + d + 8 * (size_t)e, o[h][e]);
}

AVX2_INLINE void heads(const struct kern_attn *a, size_t h0, const int nh, const enum kern_kv type)
{
	const size_t ld = kern_pad8(a->head_v);
	const float *q = a->q + h0 * a->head_k;
	float *s = a->scratch, *acc = s + nh * B; /* [nh, B], [nh, ld] */
	float top[4], sum[4], c[4];

	memset(acc, 0, (size_t)nh * ld * sizeof *acc);
	for (int h = 0; h < nh; h++) {
		top[h] = KERN_ATTN_FLOOR;
		sum[h] = 0.0f;
	}
	for (size_t b = a->pos0 / B; b * B < a->pos1; b++) {
		const uint8_t *block = a->kv + (size_t)a->table[b] * a->block_bytes;
		const void *k = block + a->k_offset, *v = block + a->v_offset;
		size_t first = b * B, lo = a->pos0 > first ? a->pos0 - first : 0;
		size_t hi = a->pos1 - first < B ? a->pos1 - first : B;

		scores(q, a->head_k, k, 0, nh, type, s);
		if (hi > 16)
			scores(q, a->head_k, k, 16, nh, type, s);
		else
			for (int h = 0; h < nh; h++) /* masked below, but must not be left unset */
				memset(s + h * B + 16, 0, 16 * sizeof *s);
		for (int h = 0; h < nh; h++)
			c[h] = soften(s + h * B, lo, hi, &top[h], &sum[h]);
		size_t d = 0;
		for (; d + 16 <= ld; d += 16)
			mix(acc, ld, s, c, v, d, lo, hi, nh, 2, type);
		if (d < ld)
			mix(acc, ld, s, c, v, d, lo, hi, nh, 1, type);
	}
	for (int h = 0; h < nh; h++) {
		float inv = 1.0f / sum[h];
		float *out = a->out + (h0 + (size_t)h) * a->head_v;
		for (size_t i = 0; i < a->head_v; i++)
			out[i] = acc[(size_t)h * ld + i] * inv;
	}
}

AVX2_INLINE void attn(const struct kern_attn *a, const enum kern_kv type)
{
	size_t h = 0;
	for (; h + 4 <= a->n_q; h += 4)
		heads(a, h, 4, type);
	switch (a->n_q - h) {
	case 3: heads(a, h, 3, type); break;
	case 2: heads(a, h, 2, type); break;
	case 1: heads(a, h, 1, type); break;
	default: break;
	}
}

AVX2 static void attn_f16(const struct kern_attn *a)
{
	attn(a, KERN_KV_F16);
}
AVX2 static void attn_f32(const struct kern_attn *a)
{
	attn(a, KERN_KV_F32);
}

void kern_avx2_init_attn(struct kern *k)
{
	k->kv_put[KERN_KV_F16] = kv_put_f16;
	k->attn[KERN_KV_F16] = attn_f16;
	k->attn[KERN_KV_F32] = attn_f32;
}
