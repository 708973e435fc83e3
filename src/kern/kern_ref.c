/* The reference level: docs/numerics.md in plain C, complete and never optimised.
 *
 * Invariants
 *  1. Every float result is a fixed sequence of IEEE single operations; fmaf is written where one rounding is meant.
 *  2. Integer sums are exact (bounds in docs/numerics.md), so their order is free; float sums have one order.
 *  3. "Lanes" are eight partial sums, element i in lane i mod 8, folded by tree8. */
#include "base/fmath.h"
#include "kern/kern.h"
#include "kern/kern_math.h"

#include <math.h>
#include <string.h>

/* ---- Activations ---- */

/* The largest magnitude, taken on bit patterns: NaN counts as larger than Inf and the order is irrelevant. */
static uint32_t max_bits(const float *x, size_t n)
{
	uint32_t m = 0;
	for (size_t i = 0; i < n; i++) {
		uint32_t b = fm_bits(x[i]) & 0x7fffffffu;
		m = b > m ? b : m;
	}
	return m;
}

static void round_block(const float *x, size_t n, float *d, int8_t *qs)
{
	struct kern_act_scale s = kern_act_scale(max_bits(x, n));
	*d = s.d;
	for (size_t i = 0; i < n; i++) {
		/* Zero and non-finite blocks have inv 0; their elements are selected to 0, as 0 * Inf would be NaN. */
		float v = s.inv == 0.0f ? 0.0f : x[i] * s.inv;
		qs[i] = (int8_t)kern_round(v);
	}
}

static void act_f32(const float *x, size_t k, void *out)
{
	memcpy(out, x, k * sizeof *x);
}

static void act_q8_32(const float *x, size_t k, void *out)
{
	struct kern_act_q8_32 *o = out;
	for (size_t b = 0; b < k / 32; b++) {
		int32_t sum = 0;
		round_block(x + 32 * b, 32, &o[b].d, o[b].qs);
		for (int i = 0; i < 32; i++)
			sum += o[b].qs[i];
		o[b].off8 = -8 * sum;
		o[b].off128 = -128 * sum;
		o[b].s = o[b].d * (float)sum;
	}
}

static void act_q8_256(const float *x, size_t k, void *out)
{
	struct kern_act_q8_256 *o = out;
	for (size_t b = 0; b < k / 256; b++) {
		round_block(x + 256 * b, 256, &o[b].d, o[b].qs);
		for (int j = 0; j < 16; j++) {
			int32_t sum = 0;
			for (int i = 0; i < 16; i++)
				sum += o[b].qs[16 * j + i];
			o[b].s16[j] = (int16_t)sum;
		}
		for (int j = 0; j < 8; j++)
			o[b].s32[j] = (int16_t)(o[b].s16[2 * j] + o[b].s16[2 * j + 1]);
	}
}

/* ---- Matrix products ---- */

static void clear(const struct kern_mm *m, size_t row)
{
	for (size_t c = 0; c < m->n_cols; c++)
		m->out[c * m->out_ld + row] = 0.0f;
}

/* Blocks of 32: out = fma(d_w * d_a, sum q_w q_a, out), then, for formats with an offset, out = fma(m_w, s_a, out). */
struct block_32 {
	float d, m;
	int8_t q[32];
};

static inline void mm_32(const struct kern_mm *m, size_t row0, size_t row1, size_t block_bytes, bool offset,
		void (*unpack)(const uint8_t *, struct block_32 *))
{
	for (size_t r = row0; r < row1; r++) {
		const uint8_t *w = (const uint8_t *)m->w + r * (m->k / 32) * block_bytes;
		clear(m, r);
		for (size_t b = 0; b < m->k / 32; b++) {
			struct block_32 u;
			unpack(w + b * block_bytes, &u);
			for (size_t c = 0; c < m->n_cols; c++) {
				const struct kern_act_q8_32 *a =
						(const void *)((const uint8_t *)m->act + c * m->act_bytes);
				float *out = &m->out[c * m->out_ld + r];
				int32_t sum = 0;
				for (int i = 0; i < 32; i++)
					sum += u.q[i] * a[b].qs[i];
				*out = fmaf(u.d * a[b].d, (float)sum, *out);
				if (offset)
					*out = fmaf(u.m, a[b].s, *out);
			}
		}
	}
}

#define MM_32(fmt, offset, set_d, set_m)                                                      \
	static void unpack_##fmt(const uint8_t *p, struct block_32 *u)                        \
	{                                                                                     \
		const struct fmt *b = (const void *)p;                                        \
		u->d = set_d;                                                                 \
		u->m = set_m;                                                                 \
		ints_##fmt(b, u->q);                                                          \
	}                                                                                     \
	static void mm_##fmt(const struct kern_mm *m, size_t row0, size_t row1)               \
	{                                                                                     \
		mm_32(m, row0, row1, sizeof(struct fmt), offset, unpack_##fmt);               \
	}

#define ints_q4_0 quant_ints_q4_0
#define ints_q4_1 quant_ints_q4_1
#define ints_q5_0 quant_ints_q5_0
#define ints_q5_1 quant_ints_q5_1
#define ints_iq4_nl quant_ints_iq4_nl
#define ints_mxfp4 quant_ints_mxfp4
#define ints_q8_0(b, q) memcpy(q, (b)->qs, 32)
#define HALF(h) quant_f16_to_f32(b->h)
MM_32(q4_0, false, HALF(d), 0.0f)
MM_32(q4_1, true, HALF(d), HALF(m))
MM_32(q5_0, false, HALF(d), 0.0f)
MM_32(q5_1, true, HALF(d), HALF(m))
MM_32(q8_0, false, HALF(d), 0.0f)
MM_32(iq4_nl, false, HALF(d), 0.0f)
MM_32(mxfp4, false, quant_mxfp4_scale(b->e), 0.0f)

/* Blocks of 256 with 16 sub-blocks of 16 (formats with 8 of 32 name each scale twice):
 * out = fma(d_w * d_a, sum_j scale_j sum q_w q_a, out), then, for formats with minimums,
 * out = fma(-(dmin_w * d_a), sum_j min_j s16_j, out). Integers may be added in any order: scales are multiplied in once
 * for all columns, which fits int16 (at most 128 * 32, Q6_K's). */
struct block_256 {
	float d, dmin;
	int16_t scale[16], min[16];
	int8_t q[256];
};

static inline void mm_256(const struct kern_mm *m, size_t row0, size_t row1, size_t block_bytes, bool mins,
		void (*unpack)(const uint8_t *, struct block_256 *))
{
	for (size_t r = row0; r < row1; r++) {
		const uint8_t *w = (const uint8_t *)m->w + r * (m->k / 256) * block_bytes;
		clear(m, r);
		for (size_t b = 0; b < m->k / 256; b++) {
			struct block_256 u;
			int16_t q[256];
			unpack(w + b * block_bytes, &u);
			for (int j = 0; j < 16; j++)
				for (int i = 0; i < 16; i++)
					q[16 * j + i] = (int16_t)(u.scale[j] * u.q[16 * j + i]);
			for (size_t c = 0; c < m->n_cols; c++) {
				const struct kern_act_q8_256 *a =
						(const void *)((const uint8_t *)m->act + c * m->act_bytes);
				float *out = &m->out[c * m->out_ld + r];
				int32_t sum = 0, msum = 0;
				for (int i = 0; i < 256; i++)
					sum += q[i] * a[b].qs[i];
				*out = fmaf(u.d * a[b].d, (float)sum, *out);
				if (mins) {
					for (int j = 0; j < 16; j++)
						msum += u.min[j] * a[b].s16[j];
					*out = fmaf(-(u.dmin * a[b].d), (float)msum, *out);
				}
			}
		}
	}
}

static void unpack_q2_k(const uint8_t *p, struct block_256 *u)
{
	const struct q2_k *b = (const void *)p;
	u->d = quant_f16_to_f32(b->d);
	u->dmin = quant_f16_to_f32(b->dmin);
	for (int j = 0; j < 16; j++) {
		u->scale[j] = b->scales[j] & 15;
		u->min[j] = b->scales[j] >> 4;
	}
	quant_ints_q2_k(b, u->q);
}

static void unpack_q3_k(const uint8_t *p, struct block_256 *u)
{
	const struct q3_k *b = (const void *)p;
	int8_t s[16];
	u->d = quant_f16_to_f32(b->d);
	quant_q3_k_scales(b->scales, s);
	for (int j = 0; j < 16; j++)
		u->scale[j] = s[j];
	quant_ints_q3_k(b, u->q);
}

static void scales_k(const uint8_t scales[12], struct block_256 *u)
{
	for (int j = 0; j < 8; j++) {
		uint8_t s, m;
		quant_k_scale_min(scales, j, &s, &m);
		u->scale[2 * j] = u->scale[2 * j + 1] = s;
		u->min[2 * j] = u->min[2 * j + 1] = m;
	}
}

static void unpack_q4_k(const uint8_t *p, struct block_256 *u)
{
	const struct q4_k *b = (const void *)p;
	u->d = quant_f16_to_f32(b->d);
	u->dmin = quant_f16_to_f32(b->dmin);
	scales_k(b->scales, u);
	quant_ints_q4_k(b, u->q);
}

static void unpack_q5_k(const uint8_t *p, struct block_256 *u)
{
	const struct q5_k *b = (const void *)p;
	u->d = quant_f16_to_f32(b->d);
	u->dmin = quant_f16_to_f32(b->dmin);
	scales_k(b->scales, u);
	quant_ints_q5_k(b, u->q);
}

static void unpack_q6_k(const uint8_t *p, struct block_256 *u)
{
	const struct q6_k *b = (const void *)p;
	u->d = quant_f16_to_f32(b->d);
	for (int j = 0; j < 16; j++)
		u->scale[j] = b->scales[j];
	quant_ints_q6_k(b, u->q);
}

static void unpack_iq4_xs(const uint8_t *p, struct block_256 *u)
{
	const struct iq4_xs *b = (const void *)p;
	u->d = quant_f16_to_f32(b->d);
	for (int j = 0; j < 8; j++) {
		int lo = b->scales_l[j / 2] >> 4 * (j % 2) & 15, hi = b->scales_h >> 2 * j & 3;
		u->scale[2 * j] = u->scale[2 * j + 1] = (int16_t)((lo | hi << 4) - 32);
	}
	quant_ints_iq4_xs(b, u->q);
}

static void unpack_tq2_0(const uint8_t *p, struct block_256 *u)
{
	const struct tq2_0 *b = (const void *)p;
	u->d = quant_f16_to_f32(b->d);
	for (int j = 0; j < 16; j++)
		u->scale[j] = 1;
	quant_ints_tq2_0(b, u->q);
}

#define MM_256(fmt, mins)                                                                     \
	static void mm_##fmt(const struct kern_mm *m, size_t row0, size_t row1)               \
	{                                                                                     \
		mm_256(m, row0, row1, sizeof(struct fmt), mins, unpack_##fmt);                \
	}
MM_256(q2_k, true)
MM_256(q3_k, false)
MM_256(q4_k, true)
MM_256(q5_k, true)
MM_256(q6_k, false)
MM_256(iq4_xs, false)
MM_256(tq2_0, false)

/* Floats: eight interleaved chains of fused multiply-adds over k, folded by tree8. */
static float dot_f32(const float *w, const float *x, size_t n)
{
	float lane[8] = {0};
	for (size_t i = 0; i < n; i++)
		lane[i % 8] = fmaf(w[i], x[i], lane[i % 8]);
	return kern_tree8(lane);
}

static inline void mm_float(const struct kern_mm *m, size_t row0, size_t row1, uint32_t type)
{
	const struct quant_format *f = quant_format_get(type);
	float *row = m->scratch;

	for (size_t r = row0; r < row1; r++) {
		f->to_f32((const uint8_t *)m->w + r * m->k * f->block_bytes, row, m->k);
		for (size_t c = 0; c < m->n_cols; c++)
			m->out[c * m->out_ld + r] =
					dot_f32(row, (const float *)((const uint8_t *)m->act + c * m->act_bytes), m->k);
	}
}

#define MM_FLOAT(fmt, type)                                                                   \
	static void mm_##fmt(const struct kern_mm *m, size_t row0, size_t row1)               \
	{                                                                                     \
		mm_float(m, row0, row1, type);                                                \
	}
MM_FLOAT(f32, QUANT_F32)
MM_FLOAT(f16, QUANT_F16)
MM_FLOAT(bf16, QUANT_BF16)

/* ---- Rows ---- */

static void rms_norm(const float *x, const float *w, size_t n, float eps, float *out)
{
	float lane[8] = {0};
	for (size_t i = 0; i < n; i++)
		lane[i % 8] = fmaf(x[i], x[i], lane[i % 8]);
	float r = kern_rms_scale(kern_tree8(lane), n, eps);
	for (size_t i = 0; i < n; i++)
		out[i] = x[i] * r * w[i];
}

/* Mean and deviation in two passes over eight lanes each. */
static void layer_norm(const float *x, const float *w, const float *b, size_t n, float eps, float *out)
{
	float sum[8] = {0}, square[8] = {0};

	for (size_t i = 0; i < n; i++)
		sum[i % 8] += x[i];
	const float mean = kern_tree8(sum) / (float)n;
	for (size_t i = 0; i < n; i++)
		square[i % 8] = fmaf(x[i] - mean, x[i] - mean, square[i % 8]);
	const float r = kern_rms_scale(kern_tree8(square), n, eps);
	for (size_t i = 0; i < n; i++)
		out[i] = b ? fmaf((x[i] - mean) * r, w[i], b[i]) : (x[i] - mean) * r * w[i];
}

static void add(float *x, const float *y, size_t n)
{
	for (size_t i = 0; i < n; i++)
		x[i] = x[i] + y[i];
}

static void scale(float *x, float f, size_t n)
{
	for (size_t i = 0; i < n; i++)
		x[i] = x[i] * f;
}

static void silu_mul(const float *gate, const float *up, size_t n, float *out)
{
	for (size_t i = 0; i < n; i++)
		out[i] = gate[i] / (1.0f + kern_exp(-gate[i])) * up[i];
}

static void gelu_mul(const float *gate, const float *up, size_t n, float *out)
{
	for (size_t i = 0; i < n; i++)
		out[i] = gate[i] / (1.0f + kern_exp(kern_gelu_exponent(gate[i]))) * up[i];
}

static void rope(float *x, size_t n_rot, const float *cosv, const float *sinv, bool halves)
{
	kern_rope_rest(x, 0, n_rot / 2, cosv, sinv, halves);
}

static bool all_finite(const float *x, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if ((fm_bits(x[i]) & 0x7f800000u) == 0x7f800000u)
			return false;
	return true;
}

#define PLAIN
#include "kern/kern_plain.h"

/* ---- The cache ---- */

enum { B = KERN_KV_BLOCK, G = KERN_KV_GROUP };

static void put_k_f16(const float *k, size_t n, size_t slot, void *area)
{
	uint16_t *to = area; /* [n, B] */
	for (size_t i = 0; i < n; i++)
		to[i * B + slot] = quant_f32_to_f16(k[i]);
}

static void put_v_f16(const float *v, size_t n, size_t slot, void *area)
{
	uint16_t *to = (uint16_t *)area + slot * kern_pad8(n);
	for (size_t i = 0; i < n; i++)
		to[i] = quant_f32_to_f16(v[i]);
}

static void put_k_f32(const float *k, size_t n, size_t slot, void *area)
{
	float *to = area; /* [n, B] */
	for (size_t i = 0; i < n; i++)
		to[i * B + slot] = k[i];
}

static void put_v_f32(const float *v, size_t n, size_t slot, void *area)
{
	memcpy((float *)area + slot * kern_pad8(n), v, n * sizeof *v);
}

/* One group to bytes; returns its scale. */
static uint16_t round_group(const float *x, size_t n, int8_t *qs)
{
	struct kern_kv_scale s = kern_kv_scale(max_bits(x, n));
	for (size_t i = 0; i < n; i++)
		qs[i] = kern_kv_round(x[i], s.inv);
	return s.d;
}

static void put_k_q8_0(const float *k, size_t n, size_t slot, void *area)
{
	int8_t *to = area, qs[G];                       /* [n, B] */
	uint16_t *d = (void *)((uint8_t *)area + n * B); /* [groups, B] */
	for (size_t g = 0; g < kern_kv_groups(n); g++) {
		d[g * B + slot] = round_group(k + g * G, kern_kv_group_len(n, g), qs);
		for (size_t i = 0; i < kern_kv_group_len(n, g); i++)
			to[(g * G + i) * B + slot] = qs[i];
	}
}

static void put_v_q8_0(const float *v, size_t n, size_t slot, void *area)
{
	int8_t *to = (int8_t *)area + slot * kern_pad8(n);
	uint16_t *d = (void *)((uint8_t *)area + kern_pad8(n) * B); /* [B, groups] */
	for (size_t g = 0; g < kern_kv_groups(n); g++)
		d[slot * kern_kv_groups(n) + g] = round_group(v + g * G, kern_kv_group_len(n, g), to + g * G);
}

/* Element i of the K and of the V [n] in place `slot` of an area. Q8_0: 11 bits times 7, so the product is exact. */
static float k_at(const void *area, size_t n, size_t i, size_t slot, enum kern_kv type)
{
	size_t at = i * B + slot;
	if (type == KERN_KV_F16)
		return quant_f16_to_f32(((const uint16_t *)area)[at]);
	if (type == KERN_KV_F32)
		return ((const float *)area)[at];
	const uint16_t *d = (const void *)((const uint8_t *)area + n * B);
	return quant_f16_to_f32(d[i / G * B + slot]) * (float)((const int8_t *)area)[at];
}

static float v_at(const void *area, size_t n, size_t i, size_t slot, enum kern_kv type)
{
	size_t at = slot * kern_pad8(n) + i;
	if (type == KERN_KV_F16)
		return quant_f16_to_f32(((const uint16_t *)area)[at]);
	if (type == KERN_KV_F32)
		return ((const float *)area)[at];
	const uint16_t *d = (const void *)((const uint8_t *)area + kern_pad8(n) * B);
	return quant_f16_to_f32(d[slot * kern_kv_groups(n) + i / G]) * (float)((const int8_t *)area)[at];
}

/* ---- Attention ---- */

/* What caps and distances do to a query's scores. */
static void bend(const struct kern_attn_step *s, const struct kern_attn_query *q, float p[B])
{
	const float inv = s->cap == 0.0f ? 0.0f : 1.0f / s->cap;

	for (int j = 0; j < B; j++) {
		const int32_t d = q->ahead - j;
		if (s->cap != 0.0f)
			p[j] = s->cap * kern_tanh(p[j] * inv);
		if (q->slope != 0.0f)
			p[j] = fmaf(-q->slope, (float)(d < 0 ? -d : d), p[j]);
	}
}

/* One block of the online softmax, one query at a time. */
static inline void attn(const struct kern_attn_step *s, enum kern_kv type)
{
	for (struct kern_attn_query *q = s->queries; q < s->queries + s->n; q++) {
		float p[B] = {0}, lane[8], old = q->top;

		for (size_t j = 0; j < B; j++) {
			if (!(q->cells >> j & 1))
				continue;
			for (size_t i = 0; i < s->head_k; i++)
				p[j] = fmaf(q->q[i], k_at(s->k, s->head_k, i, j, type), p[j]);
		}
		if (s->bent)
			bend(s, q, p);
		for (size_t j = 0; j < B; j++)
			if (q->cells >> j & 1)
				q->top = p[j] > q->top ? p[j] : q->top;
		for (size_t j = 0; j < B; j++)
			p[j] = q->cells >> j & 1 ? kern_exp(p[j] - q->top) : 0.0f;
		for (size_t i = 0; i < 8; i++)
			lane[i] = p[i] + p[8 + i] + p[16 + i] + p[24 + i];
		float c = kern_exp(old - q->top);
		q->sum = fmaf(q->sum, c, kern_tree8(lane));
		for (size_t i = 0; i < s->head_v; i++) {
			q->acc[i] = q->acc[i] * c;
			for (size_t j = 0; j < B; j++)
				if (q->cells >> j & 1)
					q->acc[i] = fmaf(p[j], v_at(s->v, s->head_v, i, j, type), q->acc[i]);
		}
	}
}

#define KV_TYPE(name, type)                                                                   \
	static void get_k_##name(const void *area, size_t n, size_t slot, float *out)         \
	{                                                                                     \
		for (size_t i = 0; i < n; i++)                                                \
			out[i] = k_at(area, n, i, slot, type);                                \
	}                                                                                     \
	static void attn_##name(const struct kern_attn_step *s)                               \
	{                                                                                     \
		attn(s, type);                                                                \
	}
KV_TYPE(f16, KERN_KV_F16)
KV_TYPE(f32, KERN_KV_F32)
KV_TYPE(q8_0, KERN_KV_Q8_0)

static void exp64(const double *x, size_t n, double *y)
{
	for (size_t i = 0; i < n; i++)
		y[i] = fm_exp(x[i]);
}

void kern_init_ref(struct kern *k)
{
	static void (*const mm[QUANT_N_TYPES])(const struct kern_mm *, size_t, size_t) = {
		[QUANT_F32] = mm_f32, [QUANT_F16] = mm_f16, [QUANT_BF16] = mm_bf16,
		[QUANT_Q4_0] = mm_q4_0, [QUANT_Q4_1] = mm_q4_1, [QUANT_Q5_0] = mm_q5_0, [QUANT_Q5_1] = mm_q5_1,
		[QUANT_Q8_0] = mm_q8_0, [QUANT_IQ4_NL] = mm_iq4_nl, [QUANT_Q2_K] = mm_q2_k, [QUANT_Q3_K] = mm_q3_k,
		[QUANT_Q4_K] = mm_q4_k, [QUANT_Q5_K] = mm_q5_k, [QUANT_Q6_K] = mm_q6_k, [QUANT_IQ4_XS] = mm_iq4_xs,
		[QUANT_TQ2_0] = mm_tq2_0, [QUANT_MXFP4] = mm_mxfp4,
	};

	*k = (struct kern){.name = "ref"};
	for (int t = 0; t < QUANT_N_TYPES; t++)
		k->file[t] = (struct kern_mat){.unit = 1, .mm = mm[t]};
	k->act[QUANT_ACT_F32] = act_f32;
	k->act[QUANT_ACT_Q8_32] = act_q8_32;
	k->act[QUANT_ACT_Q8_256] = act_q8_256;
	k->rms_norm = rms_norm;
	k->add = add;
	k->scale = scale;
	k->silu_mul = silu_mul;
	k->gelu_mul = gelu_mul;
	k->rope = rope;
	k->layer_norm = layer_norm;
	k->swiglu_oai = swiglu_oai;
	k->softcap = softcap;
	k->exp64 = exp64;
	k->conv = conv;
	k->scan = scan;
	k->put_k[KERN_KV_F16] = put_k_f16;
	k->put_k[KERN_KV_F32] = put_k_f32;
	k->put_k[KERN_KV_Q8_0] = put_k_q8_0;
	k->put_v[KERN_KV_F16] = put_v_f16;
	k->put_v[KERN_KV_F32] = put_v_f32;
	k->put_v[KERN_KV_Q8_0] = put_v_q8_0;
	k->get_k[KERN_KV_F16] = get_k_f16;
	k->get_k[KERN_KV_F32] = get_k_f32;
	k->get_k[KERN_KV_Q8_0] = get_k_q8_0;
	k->attn[KERN_KV_F16] = attn_f16;
	k->attn[KERN_KV_F32] = attn_f32;
	k->attn[KERN_KV_Q8_0] = attn_q8_0;
	k->all_finite = all_finite;
}
