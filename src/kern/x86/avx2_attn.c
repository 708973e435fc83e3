/* AVX2: the cache and attention. In a block, K has positions in its lanes and V has dimensions, so neither product
 * needs a horizontal sum. Queries go in fours; with more than eight the block is widened to floats once for all.
 *
 * Invariants
 *  1. Scores are computed for cells a query may not see, too, whatever lies there; they are selected away in soften.
 *  2. Of V a query is given its own cells only, in order: those that all four see and that come before each one's
 *     others together, the others one query at a time. */
#include "kern/x86/avx2.h"

#include <string.h>

enum { B = KERN_KV_BLOCK, G = KERN_KV_GROUP };

/* ---- The cache ---- */

AVX2_INLINE __m128i to_f16(const float *x)
{
	return _mm256_cvtps_ph(_mm256_loadu_ps(x), _MM_FROUND_TO_NEAREST_INT);
}

AVX2 static void put_k_f16(const float *k, size_t n, size_t slot, void *area)
{
	uint16_t *to = area;
	size_t i = 0;
	for (; i + 8 <= n; i += 8) {
		uint16_t h[8];
		_mm_storeu_si128((void *)h, to_f16(k + i));
		for (size_t j = 0; j < 8; j++)
			to[(i + j) * B + slot] = h[j];
	}
	for (; i < n; i++)
		to[i * B + slot] = quant_f32_to_f16(k[i]);
}

AVX2 static void put_v_f16(const float *v, size_t n, size_t slot, void *area)
{
	uint16_t *to = (uint16_t *)area + slot * kern_pad8(n);
	size_t i = 0;
	for (; i + 8 <= n; i += 8)
		_mm_storeu_si128((void *)(to + i), to_f16(v + i));
	for (; i < n; i++)
		to[i] = quant_f32_to_f16(v[i]);
}

AVX2 static void get_k_f16(const void *area, size_t n, size_t slot, float *out)
{
	const uint16_t *from = area;
	size_t i = 0;
	for (; i + 8 <= n; i += 8) {
		uint16_t h[8];
		for (size_t j = 0; j < 8; j++)
			h[j] = from[(i + j) * B + slot];
		_mm256_storeu_ps(out + i, _mm256_cvtph_ps(_mm_loadu_si128((const void *)h)));
	}
	for (; i < n; i++)
		out[i] = quant_f16_to_f32(from[i * B + slot]);
}

/* One group of n floats to bytes (all of qs is written); returns its scale. A short group is filled up with zeros,
 * which no maximum notices. */
AVX2_INLINE uint16_t round_group(const float *x, size_t n, int8_t qs[G])
{
	float full[G];
	if (n < G) {
		memset(full, 0, sizeof full);
		memcpy(full, x, n * sizeof *x);
		x = full;
	}
	struct kern_kv_scale s = kern_kv_scale(avx2_hmax_bits(avx2_abs_bits_32(x)));
	_mm256_storeu_si256((void *)qs, _mm256_max_epi8(avx2_round_32(x, s.inv), _mm256_set1_epi8(-127)));
	return s.d;
}

AVX2 static void put_k_q8_0(const float *k, size_t n, size_t slot, void *area)
{
	int8_t *to = area, qs[G];
	uint16_t *d = (void *)((uint8_t *)area + n * B);
	for (size_t g = 0; g < kern_kv_groups(n); g++) {
		d[g * B + slot] = round_group(k + g * G, kern_kv_group_len(n, g), qs);
		for (size_t i = 0; i < kern_kv_group_len(n, g); i++)
			to[(g * G + i) * B + slot] = qs[i];
	}
}

AVX2 static void put_v_q8_0(const float *v, size_t n, size_t slot, void *area)
{
	int8_t *to = (int8_t *)area + slot * kern_pad8(n), qs[G];
	uint16_t *d = (void *)((uint8_t *)area + kern_pad8(n) * B);
	for (size_t g = 0; g < kern_kv_groups(n); g++) {
		d[slot * kern_kv_groups(n) + g] = round_group(v + g * G, kern_kv_group_len(n, g), qs);
		memcpy(to + g * G, qs, kern_kv_group_len(n, g));
	}
}

/* ---- Attention ---- */

/* Eight elements from i on; those of Q8_0 still want their scale. */
AVX2_INLINE __m256 load_kv(const void *area, size_t i, const enum kern_kv type)
{
	if (type == KERN_KV_F16)
		return _mm256_cvtph_ps(_mm_loadu_si128((const void *)((const uint16_t *)area + i)));
	if (type == KERN_KV_F32)
		return _mm256_loadu_ps((const float *)area + i);
	return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64((const void *)((const int8_t *)area + i))));
}

/* Vectors side by side in a tile: one or two heads alone would leave the multipliers waiting for their own sums. */
AVX2_INLINE int tile_width(const int nh)
{
	return nh <= 2 ? 4 : 2;
}

/* Scores of nh heads for 8 nv positions from p: one chain over the head's dimensions per position. */
AVX2_INLINE void scores(const struct kern_attn_query *q, size_t head_k, const void *k, size_t p, const int nh,
		const int nv, const enum kern_kv type, float *out)
{
	const void *scales = (const uint8_t *)k + head_k * B; /* [groups, B], Q8_0 only */
	/* The other types have one group, and no scales. */
	const size_t step = type == KERN_KV_Q8_0 ? G : head_k;
	__m256 s[4][4], d[4], x[4];
	for (int h = 0; h < nh; h++)
		for (int v = 0; v < nv; v++)
			s[h][v] = _mm256_setzero_ps();
	for (size_t i = 0, end; i < head_k; i = end) {
		end = head_k - i < step ? head_k : i + step;
		for (int v = 0; v < nv; v++)
			if (type == KERN_KV_Q8_0)
				d[v] = load_kv(scales, i / G * B + p + 8 * (size_t)v, KERN_KV_F16);
		for (size_t e = i; e < end; e++) {
			AVX2_UNROLL
			for (int v = 0; v < nv; v++) {
				x[v] = load_kv(k, e * B + p + 8 * (size_t)v, type);
				if (type == KERN_KV_Q8_0)
					x[v] = _mm256_mul_ps(x[v], d[v]); /* exact */
			}
			AVX2_UNROLL
			for (int h = 0; h < nh; h++) {
				__m256 y = _mm256_set1_ps(q[h].q[e]);
				AVX2_UNROLL
				for (int v = 0; v < nv; v++)
					s[h][v] = _mm256_fmadd_ps(y, x[v], s[h][v]);
			}
		}
	}
	for (int h = 0; h < nh; h++)
		for (int v = 0; v < nv; v++)
			_mm256_storeu_ps(out + h * B + p + 8 * (size_t)v, s[h][v]);
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
	__m256 v[4], in[4], m = _mm256_set1_ps(q->top), lane = _mm256_setzero_ps();
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
	lane = _mm256_add_ps(_mm256_add_ps(_mm256_add_ps(v[0], v[1]), v[2]), v[3]);
	float c = _mm256_cvtss_f32(avx2_exp(_mm256_set1_ps(old - q->top)));
	q->sum = fmaf(q->sum, c, avx2_tree8(lane));
	return c;
}

/* acc = acc * c + p V for nh queries and 8 nd dimensions from d, positions in order. A run of cells at a time: without
 * gaps there is one. scales [B]: of the group that d lies in, Q8_0 only. */
AVX2_INLINE void mix(const struct kern_attn_query *q, size_t ld, const float *p, const float *c, const void *v,
		const float *scales, size_t d, uint32_t cells, const int nh, const int nd, const enum kern_kv type)
{
	__m256 o[4][4], x[4];
	for (int h = 0; h < nh; h++)
		for (int e = 0; e < nd; e++)
			o[h][e] = _mm256_mul_ps(_mm256_loadu_ps(q[h].acc + d + 8 * (size_t)e), _mm256_set1_ps(c[h]));
	while (cells) {
		/* Adding the lowest bit carries to the end of its run, and out of the word when that is 32. */
		uint32_t carry = cells + (cells & -cells);
		size_t j = (size_t)__builtin_ctz(cells), end = carry ? (size_t)__builtin_ctz(carry) : B;
		cells &= carry;
		for (; j < end; j++) {
			AVX2_UNROLL
			for (int e = 0; e < nd; e++) {
				x[e] = load_kv(v, j * ld + d + 8 * (size_t)e, type);
				if (type == KERN_KV_Q8_0)
					x[e] = _mm256_mul_ps(x[e], _mm256_set1_ps(scales[j])); /* exact */
			}
			AVX2_UNROLL
			for (int h = 0; h < nh; h++) {
				__m256 w = _mm256_set1_ps(p[h * B + (int)j]);
				AVX2_UNROLL
				for (int e = 0; e < nd; e++)
					o[h][e] = _mm256_fmadd_ps(w, x[e], o[h][e]);
			}
		}
	}
	for (int h = 0; h < nh; h++)
		for (int e = 0; e < nd; e++)
			_mm256_storeu_ps(q[h].acc + d + 8 * (size_t)e, o[h][e]);
}

/* The scales of group g for every position, side by side. Places nobody wrote give any number, which nobody uses. */
AVX2_INLINE void v_scales(const void *v, size_t head_v, size_t g, float out[B])
{
	const uint16_t *d = (const void *)((const uint8_t *)v + kern_pad8(head_v) * B); /* [B, groups] */
	uint16_t h[B];
	for (size_t j = 0; j < B; j++)
		h[j] = d[j * kern_kv_groups(head_v) + g];
	for (size_t j = 0; j < B; j += 8)
		_mm256_storeu_ps(out + j, load_kv(h, j, KERN_KV_F16));
}

/* All dimensions of nh queries. */
AVX2_INLINE void mix_all(const struct kern_attn_query *q, const void *v, size_t head_v, const float *p, const float *c,
		uint32_t cells, const int nh, const enum kern_kv type)
{
	const int nd = tile_width(nh);
	const size_t ld = kern_pad8(head_v);
	float scales[B];

	for (size_t d = 0, n; d < ld; d += n) {
		if (type == KERN_KV_Q8_0 && d % G == 0)
			v_scales(v, head_v, d / G, scales);
		n = ld - d >= 8 * (size_t)nd ? 8 * (size_t)nd : ld - d >= 16 ? 16 : 8;
		if (n == 8)
			mix(q, ld, p, c, v, scales, d, cells, nh, 1, type);
		else if (n == 16)
			mix(q, ld, p, c, v, scales, d, cells, nh, 2, type);
		else
			mix(q, ld, p, c, v, scales, d, cells, nh, nd, type);
	}
}

AVX2_INLINE void queries(const struct kern_attn_step *s, struct kern_attn_query *q, const void *k, const void *v,
		float *p, const int nh, const enum kern_kv type)
{
	const int nv = tile_width(nh);
	uint32_t any = 0, common;
	float c[4];

	for (int h = 0; h < nh; h++)
		any |= q[h].cells;
	for (size_t at = 0; at < B; at += 8 * (size_t)nv)
		if (any >> at & UINT32_MAX >> (B - 8 * nv))
			scores(q, s->head_k, k, at, nh, nv, type, p);
		else
			for (int h = 0; h < nh; h++) /* masked below, but must not be left unset */
				memset(p + h * B + at, 0, 8 * (size_t)nv * sizeof *p);
	for (int h = 0; h < nh; h++)
		c[h] = soften(p + h * B, &q[h]);
	common = kern_attn_common(q, (size_t)nh);
	mix_all(q, v, s->head_v, p, c, common, nh, type);
	for (int h = 0; h < nh; h++)
		if (q[h].cells != common)
			mix_all(q + h, v, s->head_v, p + h * B, &(const float){1.0f}, q[h].cells & ~common, 1, type);
}

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

AVX2_INLINE void attn(const struct kern_attn_step *s, const void *k, const void *v, const enum kern_kv type)
{
	struct kern_attn_query *q = s->queries;
	float *p = s->scratch;
	size_t left = s->n;

	for (; left >= 4; left -= 4, q += 4)
		queries(s, q, k, v, p, 4, type);
	switch (left) {
	case 3: queries(s, q, k, v, p, 3, type); break;
	case 2: queries(s, q, k, v, p, 2, type); break;
	case 1: queries(s, q, k, v, p, 1, type); break;
	default: break;
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
