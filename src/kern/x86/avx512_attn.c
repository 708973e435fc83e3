/* AVX-512: attention. As in avx2_attn.c, positions are lanes of K and dimensions lanes of V; a block's 32 positions are
 * two registers. Queries go in tiles of eight through K and of four through V; when there are more than eight, the
 * block is widened to floats once for all.
 *
 * Invariants
 *  1. Scores are computed for cells a query may not see, too, whatever lies there; they are selected away in soften.
 *  2. Of V a query is given its own cells only, in order: those that all of a tile see and that come before each one's
 *     others together, the others one query at a time.
 *  3. V is read within its rows: the last register of a row that is no multiple of 16 is masked. */
#include "kern/x86/avx512.h"
#include "kern/x86/avx2_v8.h"

enum { B = KERN_KV_BLOCK, G = KERN_KV_GROUP, CHUNK = 16 };

#include "kern/kern_v8.h"
#include "kern/kern_bend.h"

/* kern_exp in sixteen lanes. */
AVX512_INLINE __m512 exp_16(__m512 x)
{
	__m512 v = _mm512_min_ps(_mm512_set1_ps(KERN_EXP_MAX), x); /* max < x ? max : x, so that NaN passes */
	__m512 t = _mm512_fmadd_ps(v, _mm512_set1_ps(KERN_LOG2E), _mm512_set1_ps(KERN_MAGIC));
	__m512 n = _mm512_sub_ps(t, _mm512_set1_ps(KERN_MAGIC));
	__m512 r = _mm512_fmadd_ps(n, _mm512_set1_ps(-KERN_LN2_HI), v);
	r = _mm512_fmadd_ps(n, _mm512_set1_ps(-KERN_LN2_LO), r);
	__m512 p = _mm512_fmadd_ps(r, _mm512_set1_ps(KERN_EXP_C7), _mm512_set1_ps(KERN_EXP_C6));
	p = _mm512_fmadd_ps(r, p, _mm512_set1_ps(KERN_EXP_C5));
	p = _mm512_fmadd_ps(r, p, _mm512_set1_ps(KERN_EXP_C4));
	p = _mm512_fmadd_ps(r, p, _mm512_set1_ps(KERN_EXP_C3));
	p = _mm512_fmadd_ps(r, p, _mm512_set1_ps(KERN_EXP_C2));
	p = _mm512_fmadd_ps(r, p, _mm512_set1_ps(1.0f));
	p = _mm512_fmadd_ps(r, p, _mm512_set1_ps(1.0f));
	__m512i e = _mm512_add_epi32(_mm512_slli_epi32(_mm512_castps_si512(t), 23), _mm512_set1_epi32(0x3f800000));
	p = _mm512_mul_ps(p, _mm512_castsi512_ps(e));
	return _mm512_maskz_mov_ps(_mm512_cmp_ps_mask(x, _mm512_set1_ps(KERN_EXP_MIN), _CMP_NLT_UQ), p);
}

AVX512_INLINE __m512 load_kv(const void *area, size_t i, const enum kern_kv type)
{
	if (type == KERN_KV_F16)
		return avx512_halves((const uint16_t *)area + i);
	return _mm512_loadu_ps((const float *)area + i);
}

AVX512_INLINE __m512 load_some(const void *area, size_t i, __mmask16 in, const enum kern_kv type)
{
	if (type == KERN_KV_F16)
		return _mm512_cvtph_ps(_mm256_maskz_loadu_epi16(in, (const uint16_t *)area + i));
	return _mm512_maskz_loadu_ps(in, (const float *)area + i);
}

/* Scores of nq queries for the first 16 nv positions: one chain over the head's dimensions per position. */
AVX512_INLINE void scores(const struct kern_attn_query *q, size_t head_k, const void *k, const int nq, const int nv,
		const enum kern_kv type, float *out)
{
	__m512 s[8][2], x[2];

	AVX2_UNROLL
	for (int i = 0; i < nq; i++)
		for (int v = 0; v < 2; v++)
			s[i][v] = _mm512_setzero_ps();
	for (size_t e = 0; e < head_k; e++) {
		AVX2_UNROLL
		for (int v = 0; v < nv; v++)
			x[v] = load_kv(k, e * B + 16 * (size_t)v, type);
		AVX2_UNROLL
		for (int i = 0; i < nq; i++) {
			__m512 y = _mm512_set1_ps(q[i].q[e]);
			AVX2_UNROLL
			for (int v = 0; v < nv; v++)
				s[i][v] = _mm512_fmadd_ps(y, x[v], s[i][v]);
		}
	}
	AVX2_UNROLL
	for (int i = 0; i < nq; i++)
		for (int v = 0; v < 2; v++)
			_mm512_storeu_ps(out + i * B + 16 * v, s[i][v]);
}

/* Rows near the start of a block see nothing of its second half. */
AVX512_INLINE void scores_for(const struct kern_attn_query *q, size_t head_k, const void *k, const int nq,
		const enum kern_kv type, float *out)
{
	uint32_t any = 0;
	for (int i = 0; i < nq; i++)
		any |= q[i].cells;
	if (any >> 16)
		scores(q, head_k, k, nq, 2, type, out);
	else
		scores(q, head_k, k, nq, 1, type, out);
}

/* Scores of up to 16 queries become weights, and 0 where a query sees nothing; c: the factors for what was summed
 * before. */
AVX512_INLINE void soften(struct kern_attn_query *q, size_t n, float *p, float c[CHUNK])
{
	for (size_t i = 0; i < CHUNK; i++)
		c[i] = 0.0f;
	for (size_t i = 0; i < n; i++) {
		__m512 top = _mm512_set1_ps(q[i].top);
		for (int v = 0; v < 2; v++) /* a > b ? a : b: NaN is passed over */
			top = _mm512_mask_max_ps(top, (__mmask16)(q[i].cells >> 16 * v),
					_mm512_loadu_ps(p + i * B + 16 * v), top);
		c[i] = q[i].top;
		q[i].top = _mm512_reduce_max_ps(top);
		c[i] -= q[i].top;
	}
	_mm512_storeu_ps(c, exp_16(_mm512_loadu_ps(c)));
	for (size_t i = 0; i < n; i++) {
		__m512 v[2], top = _mm512_set1_ps(q[i].top);
		for (int h = 0; h < 2; h++) {
			v[h] = exp_16(_mm512_sub_ps(_mm512_loadu_ps(p + i * B + 16 * h), top));
			v[h] = _mm512_maskz_mov_ps((__mmask16)(q[i].cells >> 16 * h), v[h]);
			_mm512_storeu_ps(p + i * B + 16 * h, v[h]);
		}
		__m256 lane = _mm256_add_ps(_mm512_castps512_ps256(v[0]), _mm512_extractf32x8_ps(v[0], 1));
		lane = _mm256_add_ps(lane, _mm512_castps512_ps256(v[1]));
		lane = _mm256_add_ps(lane, _mm512_extractf32x8_ps(v[1], 1));
		q[i].sum = fmaf(q[i].sum, c[i], avx2_tree8(lane));
	}
}

/* acc = acc * c + p V for nq queries and nd registers of dimensions from d, positions in order. A run of cells at a
 * time: without gaps there is one. in: lanes of the last register. */
AVX512_INLINE void mix(const struct kern_attn_query *q, const void *v, size_t ld, const float *p, const float *c,
		uint32_t cells, size_t d, const int nq, const int nd, __mmask16 in, const enum kern_kv type)
{
	__m512 o[4][4], x[4];

	AVX2_UNROLL
	for (int i = 0; i < nq; i++)
		for (int e = 0; e < nd; e++)
			o[i][e] = _mm512_mul_ps(_mm512_loadu_ps(q[i].acc + d + 16 * e), _mm512_set1_ps(c[i]));
	while (cells) {
		/* Adding the lowest bit carries to the end of its run, and out of the word when that is 32. */
		uint32_t carry = cells + (cells & -cells);
		size_t j = (size_t)__builtin_ctz(cells), end = carry ? (size_t)__builtin_ctz(carry) : B;
		cells &= carry;
		for (; j < end; j++) {
			AVX2_UNROLL
			for (int e = 0; e < nd; e++)
				x[e] = nd == 1 ? load_some(v, j * ld + d, in, type)
					       : load_kv(v, j * ld + d + 16 * (size_t)e, type);
			AVX2_UNROLL
			for (int i = 0; i < nq; i++) {
				__m512 w = _mm512_set1_ps(p[i * B + (int)j]);
				AVX2_UNROLL
				for (int e = 0; e < nd; e++)
					o[i][e] = _mm512_fmadd_ps(w, x[e], o[i][e]);
			}
		}
	}
	AVX2_UNROLL
	for (int i = 0; i < nq; i++)
		for (int e = 0; e < nd; e++)
			_mm512_storeu_ps(q[i].acc + d + 16 * e, o[i][e]);
}

/* All dimensions of nq queries. */
AVX512_INLINE void mix_all(const struct kern_attn_query *q, const void *v, size_t ld, const float *p, const float *c,
		uint32_t cells, const int nq, const enum kern_kv type)
{
	size_t d = 0;

	for (; d + 64 <= ld; d += 64)
		mix(q, v, ld, p, c, cells, d, nq, 4, 0xffff, type);
	if (d + 32 <= ld) {
		mix(q, v, ld, p, c, cells, d, nq, 2, 0xffff, type);
		d += 32;
	}
	for (; d < ld; d += 16)
		mix(q, v, ld, p, c, cells, d, nq, 1, (__mmask16)(ld - d < 16 ? 0xff : 0xffff), type);
}

AVX512_INLINE void mix_tile(const struct kern_attn_query *q, const void *v, size_t ld, const float *p, const float *c,
		const int nq, const enum kern_kv type)
{
	const float one = 1.0f;
	const uint32_t common = kern_attn_common(q, (size_t)nq);

	mix_all(q, v, ld, p, c, common, nq, type);
	for (int i = 0; nq > 1 && i < nq; i++)
		if (q[i].cells != common)
			mix_all(q + i, v, ld, p + i * B, &one, q[i].cells & ~common, 1, type);
}

/* A block for up to 16 queries. */
AVX512_INLINE void chunk(const struct kern_attn_step *s, struct kern_attn_query *q, size_t n, const void *k,
		const void *v, const enum kern_kv type)
{
	const size_t ld = kern_pad8(s->head_v);
	float *p = s->scratch, c[CHUNK];
	size_t i = 0;

	for (; i + 8 <= n; i += 8)
		scores_for(q + i, s->head_k, k, 8, type, p + i * B);
	for (; i + 4 <= n; i += 4)
		scores_for(q + i, s->head_k, k, 4, type, p + i * B);
	switch (n - i) {
	case 3: scores_for(q + i, s->head_k, k, 3, type, p + i * B); break;
	case 2: scores_for(q + i, s->head_k, k, 2, type, p + i * B); break;
	case 1: scores_for(q + i, s->head_k, k, 1, type, p + i * B); break;
	default: break;
	}
	for (i = 0; s->bent && i < n; i++)
		bend(s, &q[i], p + i * B);
	soften(q, n, p, c);
	for (i = 0; i + 4 <= n; i += 4)
		mix_tile(q + i, v, ld, p + i * B, c + i, 4, type);
	switch (n - i) {
	case 3: mix_tile(q + i, v, ld, p + i * B, c + i, 3, type); break;
	case 2: mix_tile(q + i, v, ld, p + i * B, c + i, 2, type); break;
	case 1: mix_tile(q + i, v, ld, p + i * B, c + i, 1, type); break;
	default: break;
	}
}

AVX512_INLINE void chunks(const struct kern_attn_step *s, const void *k, const void *v, const enum kern_kv type)
{
	for (size_t i = 0; i < s->n; i += CHUNK)
		chunk(s, s->queries + i, s->n - i < CHUNK ? s->n - i : CHUNK, k, v, type);
}

AVX512 static void attn_f32(const struct kern_attn_step *s)
{
	chunks(s, s->k, s->v, KERN_KV_F32);
}

/* Runs with the areas as floats, laid out as an F32 cache has them; they lie behind the queries' weights. */
AVX512_INLINE void attn_wide(
		const struct kern_attn_step *s, void (*widen)(const struct kern_attn_step *, float *, float *))
{
	struct kern_attn_step wide = *s;
	float *k = (float *)s->scratch + s->n * B, *v = k + s->head_k * B;

	widen(s, k, v);
	wide.k = k;
	wide.v = v;
	attn_f32(&wide);
}

/* Places nobody wrote become any number, which nobody uses. The rows of V are multiples of eight. */
AVX512 static void widen_f16(const struct kern_attn_step *s, float *k, float *v)
{
	for (size_t i = 0; i < s->head_k * B; i += 16)
		_mm512_storeu_ps(k + i, load_kv(s->k, i, KERN_KV_F16));
	for (size_t i = 0; i < kern_pad8(s->head_v) * B; i += 16)
		_mm512_storeu_ps(v + i, load_kv(s->v, i, KERN_KV_F16));
}

AVX512_INLINE __m512 load_bytes(const int8_t *p)
{
	return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128((const void *)p)));
}

/* d * q is exact. */
AVX512 static void widen_q8_0(const struct kern_attn_step *s, float *k, float *v)
{
	const size_t ld = kern_pad8(s->head_v), groups = kern_kv_groups(s->head_v);
	const int8_t *kq = s->k, *vq = s->v;
	const uint16_t *kd = (const void *)(kq + s->head_k * B), *vd = (const void *)(vq + ld * B);

	for (size_t i = 0; i < s->head_k; i++)
		for (size_t j = 0; j < B; j += 16)
			_mm512_storeu_ps(k + i * B + j,
					_mm512_mul_ps(load_bytes(kq + i * B + j), avx512_halves(kd + i / G * B + j)));
	for (size_t j = 0; j < B; j++)
		for (size_t d = 0; d < ld; d += 8) {
			__m256i q = _mm256_cvtepi8_epi32(_mm_loadl_epi64((const void *)(vq + j * ld + d)));
			__m256 scale = _mm256_cvtph_ps(_mm_set1_epi16((short)vd[j * groups + d / G]));
			_mm256_storeu_ps(v + j * ld + d, _mm256_mul_ps(_mm256_cvtepi32_ps(q), scale));
		}
}

AVX512 static void attn_f16(const struct kern_attn_step *s)
{
	if (s->n > 8)
		attn_wide(s, widen_f16);
	else
		chunks(s, s->k, s->v, KERN_KV_F16);
}

/* For few queries widening as it goes is cheaper, and that has no use for wider registers. */
AVX512 static void attn_q8_0(const struct kern_attn_step *s)
{
	if (s->n > 8)
		attn_wide(s, widen_q8_0);
	else
		kern_avx2_attn_q8_0(s);
}

void kern_avx512_init_attn(struct kern *k)
{
	k->attn[KERN_KV_F16] = attn_f16;
	k->attn[KERN_KV_F32] = attn_f32;
	k->attn[KERN_KV_Q8_0] = attn_q8_0;
}
