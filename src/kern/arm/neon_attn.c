/* NEON: the cache and attention. In a block, K has positions in its lanes and V has dimensions, so neither product
 * needs a horizontal sum. Queries go in fours, so that each cell is widened once for all of them.
 *
 * Invariants
 *  1. Scores are computed for cells a query may not see, too, whatever lies there; they are selected away in soften.
 *  2. Of V a query is given its own cells only, in order: those that all four see and that come before each one's
 *     others together, the others one query at a time. */
#include "kern/arm/neon.h"

#include <string.h>

enum { B = KERN_KV_BLOCK, G = KERN_KV_GROUP };

/* ---- The cache ---- */

NEON_INLINE uint16x8_t to_f16(const float *x)
{
	float16x4_t lo = vcvt_f16_f32(vld1q_f32(x));
	return vreinterpretq_u16_f16(vcvt_high_f16_f32(lo, vld1q_f32(x + 4)));
}

NEON static void put_k_f16(const float *k, size_t n, size_t slot, void *area)
{
	uint16_t *to = area;
	size_t i = 0;
	for (; i + 8 <= n; i += 8) {
		uint16_t h[8];
		vst1q_u16(h, to_f16(k + i));
		for (size_t j = 0; j < 8; j++)
			to[(i + j) * B + slot] = h[j];
	}
	for (; i < n; i++)
		to[i * B + slot] = quant_f32_to_f16(k[i]);
}

NEON static void put_v_f16(const float *v, size_t n, size_t slot, void *area)
{
	uint16_t *to = (uint16_t *)area + slot * kern_pad8(n);
	size_t i = 0;
	for (; i + 8 <= n; i += 8)
		vst1q_u16(to + i, to_f16(v + i));
	for (; i < n; i++)
		to[i] = quant_f32_to_f16(v[i]);
}

NEON static void get_k_f16(const void *area, size_t n, size_t slot, float *out)
{
	const uint16_t *from = area;
	size_t i = 0;
	for (; i + 8 <= n; i += 8) {
		uint16_t h[8];
		for (size_t j = 0; j < 8; j++)
			h[j] = from[(i + j) * B + slot];
		neon_store8(out + i, neon_widen8(h));
	}
	for (; i < n; i++)
		out[i] = quant_f16_to_f32(from[i * B + slot]);
}

/* One group of n floats to bytes (all of qs is written); returns its scale. A short group is filled up with zeros,
 * which no maximum notices. */
NEON_INLINE uint16_t round_group(const float *x, size_t n, int8_t qs[G])
{
	float full[G];
	if (n < G) {
		memset(full, 0, sizeof full);
		memcpy(full, x, n * sizeof *x);
		x = full;
	}
	struct kern_kv_scale s = kern_kv_scale(vmaxvq_u32(neon_abs_bits_32(x)));
	int8x16_t q[2];
	neon_round_32(x, s.inv, q);
	vst1q_s8(qs, vmaxq_s8(q[0], vdupq_n_s8(-127)));
	vst1q_s8(qs + 16, vmaxq_s8(q[1], vdupq_n_s8(-127)));
	return s.d;
}

NEON static void put_k_q8_0(const float *k, size_t n, size_t slot, void *area)
{
	int8_t *to = area, qs[G];
	uint16_t *d = (void *)((uint8_t *)area + n * B);
	for (size_t g = 0; g < kern_kv_groups(n); g++) {
		d[g * B + slot] = round_group(k + g * G, kern_kv_group_len(n, g), qs);
		for (size_t i = 0; i < kern_kv_group_len(n, g); i++)
			to[(g * G + i) * B + slot] = qs[i];
	}
}

NEON static void put_v_q8_0(const float *v, size_t n, size_t slot, void *area)
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
NEON_INLINE struct neon_f8 load_kv(const void *area, size_t i, const enum kern_kv type)
{
	if (type == KERN_KV_F16)
		return neon_widen8((const uint16_t *)area + i);
	if (type == KERN_KV_F32)
		return neon_load8((const float *)area + i);
	int16x8_t q = vmovl_s8(vld1_s8((const int8_t *)area + i));
	return (struct neon_f8){vcvtq_f32_s32(vmovl_s16(vget_low_s16(q))), vcvtq_f32_s32(vmovl_s16(vget_high_s16(q)))};
}

/* Groups of eight side by side in a tile: 16 registers of sums for two heads or for four. */
NEON_INLINE int tile_width(const int nh)
{
	return nh <= 2 ? 4 : 2;
}

/* Scores of nh heads for 8 nv positions from p: one chain over the head's dimensions per position. */
NEON_INLINE void scores(const struct kern_attn_query *q, size_t head_k, const void *k, size_t p, const int nh,
		const int nv, const enum kern_kv type, float *out)
{
	const void *scales = (const uint8_t *)k + head_k * B; /* [groups, B], Q8_0 only */
	/* The other types have one group, and no scales. */
	const size_t step = type == KERN_KV_Q8_0 ? G : head_k;
	struct neon_f8 s[4][4], d[4], x[4];
	for (int h = 0; h < nh; h++)
		for (int v = 0; v < nv; v++)
			s[h][v] = neon_zero8();
	for (size_t i = 0, end; i < head_k; i = end) {
		end = head_k - i < step ? head_k : i + step;
		for (int v = 0; v < nv; v++)
			if (type == KERN_KV_Q8_0)
				d[v] = load_kv(scales, i / G * B + p + 8 * (size_t)v, KERN_KV_F16);
		for (size_t e = i; e < end; e++) {
			NEON_UNROLL
			for (int v = 0; v < nv; v++) {
				x[v] = load_kv(k, e * B + p + 8 * (size_t)v, type);
				if (type == KERN_KV_Q8_0)
					x[v] = neon_mul8(x[v], d[v]); /* exact */
			}
			NEON_UNROLL
			for (int h = 0; h < nh; h++) {
				float y = q[h].q[e];
				NEON_UNROLL
				for (int v = 0; v < nv; v++)
					s[h][v] = neon_fma8_n(x[v], y, s[h][v]);
			}
		}
	}
	for (int h = 0; h < nh; h++)
		for (int v = 0; v < nv; v++)
			neon_store8(out + h * B + p + 8 * (size_t)v, s[h][v]);
}

/* a > b ? a : b, so that NaN in a is passed over. */
NEON_INLINE float32x4_t larger(float32x4_t a, float32x4_t b)
{
	return vbslq_f32(vcgtq_f32(a, b), a, b);
}

/* Four bits, from bit i on, to four lanes: all ones where the bit is. */
NEON_INLINE uint32x4_t lanes_of(uint32_t bits, int i)
{
	static const uint32_t bit[4] = {1, 2, 4, 8};
	return vtstq_u32(vdupq_n_u32(bits >> i), vld1q_u32(bit));
}

/* Scores of one query become weights, and 0 where it sees nothing; returns the factor for what was summed before. */
NEON_INLINE float soften(float *s, struct kern_attn_query *q)
{
	float32x4_t v[8], m = vdupq_n_f32(q->top);
	uint32x4_t in[8];
	for (int i = 0; i < 8; i++) {
		in[i] = lanes_of(q->cells, 4 * i);
		v[i] = vld1q_f32(s + 4 * i);
		m = larger(vbslq_f32(in[i], v[i], m), m);
	}
	float old = q->top;
	q->top = vmaxvq_f32(m); /* no NaN got there */
	for (int i = 0; i < 8; i++) {
		v[i] = neon_exp(vsubq_f32(v[i], vdupq_n_f32(q->top)));
		v[i] = vbslq_f32(in[i], v[i], vdupq_n_f32(0.0f));
		vst1q_f32(s + 4 * i, v[i]);
	}
	struct neon_f8 lane = {v[0], v[1]};
	for (int i = 2; i < 8; i += 2)
		lane = neon_add8(lane, (struct neon_f8){v[i], v[i + 1]});
	float c = kern_exp(old - q->top);
	q->sum = fmaf(q->sum, c, neon_tree8(lane));
	return c;
}

/* acc = acc * c + p V for nh queries and 8 nd dimensions from d, positions in order. A run of cells at a time: without
 * gaps there is one. scales [B]: of the group that d lies in, Q8_0 only. */
NEON_INLINE void mix(const struct kern_attn_query *q, size_t ld, const float *p, const float *c, const void *v,
		const float *scales, size_t d, uint32_t cells, const int nh, const int nd, const enum kern_kv type)
{
	struct neon_f8 o[4][4], x[4];
	for (int h = 0; h < nh; h++)
		for (int e = 0; e < nd; e++)
			o[h][e] = neon_mul8_n(neon_load8(q[h].acc + d + 8 * (size_t)e), c[h]);
	while (cells) {
		/* Adding the lowest bit carries to the end of its run, and out of the word when that is 32. */
		uint32_t carry = cells + (cells & -cells);
		size_t j = (size_t)__builtin_ctz(cells), end = carry ? (size_t)__builtin_ctz(carry) : B;
		cells &= carry;
		for (; j < end; j++) {
			NEON_UNROLL
			for (int e = 0; e < nd; e++) {
				x[e] = load_kv(v, j * ld + d + 8 * (size_t)e, type);
				if (type == KERN_KV_Q8_0)
					x[e] = neon_mul8_n(x[e], scales[j]); /* exact */
			}
			NEON_UNROLL
			for (int h = 0; h < nh; h++) {
				float w = p[h * B + (int)j];
				NEON_UNROLL
				for (int e = 0; e < nd; e++)
					o[h][e] = neon_fma8_n(x[e], w, o[h][e]);
			}
		}
	}
	for (int h = 0; h < nh; h++)
		for (int e = 0; e < nd; e++)
			neon_store8(q[h].acc + d + 8 * (size_t)e, o[h][e]);
}

/* The scales of group g for every position, side by side. Places nobody wrote give any number, which nobody uses. */
NEON_INLINE void v_scales(const void *v, size_t head_v, size_t g, float out[B])
{
	const uint16_t *d = (const void *)((const uint8_t *)v + kern_pad8(head_v) * B); /* [B, groups] */
	uint16_t h[B];
	for (size_t j = 0; j < B; j++)
		h[j] = d[j * kern_kv_groups(head_v) + g];
	for (size_t j = 0; j < B; j += 8)
		neon_store8(out + j, neon_widen8(h + j));
}

/* All dimensions of nh queries. */
NEON_INLINE void mix_all(const struct kern_attn_query *q, const void *v, size_t head_v, const float *p, const float *c,
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

NEON_INLINE void queries(const struct kern_attn_step *s, struct kern_attn_query *q, const int nh,
		const enum kern_kv type)
{
	const int nv = tile_width(nh);
	uint32_t any = 0, common;
	float *p = s->scratch, c[4]; /* [nh, B] */

	for (int h = 0; h < nh; h++)
		any |= q[h].cells;
	for (size_t at = 0; at < B; at += 8 * (size_t)nv)
		if (any >> at & UINT32_MAX >> (B - 8 * nv))
			scores(q, s->head_k, s->k, at, nh, nv, type, p);
		else
			for (int h = 0; h < nh; h++) /* masked below, but must not be left unset */
				memset(p + h * B + at, 0, 8 * (size_t)nv * sizeof *p);
	for (int h = 0; h < nh; h++)
		c[h] = soften(p + h * B, &q[h]);
	common = kern_attn_common(q, (size_t)nh);
	mix_all(q, s->v, s->head_v, p, c, common, nh, type);
	for (int h = 0; h < nh; h++)
		if (q[h].cells != common)
			mix_all(q + h, s->v, s->head_v, p + h * B, &(const float){1.0f}, q[h].cells & ~common, 1, type);
}

NEON_INLINE void attn(const struct kern_attn_step *s, const enum kern_kv type)
{
	struct kern_attn_query *q = s->queries;
	size_t left = s->n;

	for (; left >= 4; left -= 4, q += 4)
		queries(s, q, 4, type);
	switch (left) {
	case 3: queries(s, q, 3, type); break;
	case 2: queries(s, q, 2, type); break;
	case 1: queries(s, q, 1, type); break;
	default: break;
	}
}

#define ATTN(name, type)                                              \
	NEON static void attn_##name(const struct kern_attn_step *s)  \
	{                                                             \
		attn(s, type);                                        \
	}
ATTN(f16, KERN_KV_F16)
ATTN(f32, KERN_KV_F32)
ATTN(q8_0, KERN_KV_Q8_0)

/* The rest moves single numbers that lie apart, or is memcpy already: the reference's will do. */
void kern_neon_init_attn(struct kern *k)
{
	k->put_k[KERN_KV_F16] = put_k_f16;
	k->put_v[KERN_KV_F16] = put_v_f16;
	k->get_k[KERN_KV_F16] = get_k_f16;
	k->put_k[KERN_KV_Q8_0] = put_k_q8_0;
	k->put_v[KERN_KV_Q8_0] = put_v_q8_0;
	k->attn[KERN_KV_F16] = attn_f16;
	k->attn[KERN_KV_F32] = attn_f32;
	k->attn[KERN_KV_Q8_0] = attn_q8_0;
}
