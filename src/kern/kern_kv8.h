/* The cache and attention for levels whose unit is eight floats: the source of a level's attention file, which defines
 * before it includes this
 *   KV8, KV8_INLINE, KV8_UNROLL   its function attributes, and what unrolls a loop
 *   kv8                           eight floats: kv8_zero, _load, _store, _mul, _mul_n and _fma_n (by one float)
 *   kv8_to_f16                    eight floats to f16
 *   kv8_round_32                  32 floats to bytes; returns their scale
 *   load_kv                       eight elements of an area from i on; those of Q8_0 still want their scale
 *   v8                            eight floats for kern_v8.h
 *   soften                        scores of one query to weights; returns the factor for what was summed before
 *
 * In a block, K has positions in its lanes and V has dimensions, so neither product needs a horizontal sum. Invariants
 *  1. Scores are computed for cells a query may not see, too, whatever lies there; they are selected away in soften.
 *  2. Of V a query is given its own cells only, in order: those that all four of a tile see and that come before each
 *     one's others together, the others one query at a time. */

#include "kern/kern_v8.h"
#include "kern/kern_bend.h"

/* ---- The cache ---- */

KV8 static void put_k_f16(const float *k, size_t n, size_t slot, void *area)
{
	uint16_t *to = area;
	size_t i = 0;
	for (; i + 8 <= n; i += 8) {
		uint16_t h[8];
		kv8_to_f16(k + i, h);
		for (size_t j = 0; j < 8; j++)
			to[(i + j) * B + slot] = h[j];
	}
	for (; i < n; i++)
		to[i * B + slot] = quant_f32_to_f16(k[i]);
}

KV8 static void put_v_f16(const float *v, size_t n, size_t slot, void *area)
{
	uint16_t *to = (uint16_t *)area + slot * kern_pad8(n);
	size_t i = 0;
	for (; i + 8 <= n; i += 8)
		kv8_to_f16(v + i, to + i);
	for (; i < n; i++)
		to[i] = quant_f32_to_f16(v[i]);
}

KV8 static void get_k_f16(const void *area, size_t n, size_t slot, float *out)
{
	const uint16_t *from = area;
	size_t i = 0;
	for (; i + 8 <= n; i += 8) {
		uint16_t h[8];
		for (size_t j = 0; j < 8; j++)
			h[j] = from[(i + j) * B + slot];
		kv8_store(out + i, load_kv(h, 0, KERN_KV_F16));
	}
	for (; i < n; i++)
		out[i] = quant_f16_to_f32(from[i * B + slot]);
}

/* One group of n floats to bytes (all of qs is written); returns its scale. A short group is filled up with zeros,
 * which no maximum notices. */
KV8_INLINE uint16_t round_group(const float *x, size_t n, int8_t qs[G])
{
	float full[G];
	if (n < G) {
		memset(full, 0, sizeof full);
		memcpy(full, x, n * sizeof *x);
		x = full;
	}
	return kv8_round_32(x, qs);
}

KV8 static void put_k_q8_0(const float *k, size_t n, size_t slot, void *area)
{
	int8_t *to = area, qs[G];
	uint16_t *d = (void *)((uint8_t *)area + n * B);
	for (size_t g = 0; g < kern_kv_groups(n); g++) {
		d[g * B + slot] = round_group(k + g * G, kern_kv_group_len(n, g), qs);
		for (size_t i = 0; i < kern_kv_group_len(n, g); i++)
			to[(g * G + i) * B + slot] = qs[i];
	}
}

KV8 static void put_v_q8_0(const float *v, size_t n, size_t slot, void *area)
{
	int8_t *to = (int8_t *)area + slot * kern_pad8(n), qs[G];
	uint16_t *d = (void *)((uint8_t *)area + kern_pad8(n) * B);
	for (size_t g = 0; g < kern_kv_groups(n); g++) {
		d[slot * kern_kv_groups(n) + g] = round_group(v + g * G, kern_kv_group_len(n, g), qs);
		memcpy(to + g * G, qs, kern_kv_group_len(n, g));
	}
}

/* ---- Attention ---- */

/* Vectors side by side in a tile: one or two heads alone would leave the multipliers waiting for their own sums. */
KV8_INLINE int tile_width(const int nh)
{
	return nh <= 2 ? 4 : 2;
}

/* Scores of nh heads for 8 nv positions from p: one chain over the head's dimensions per position. */
KV8_INLINE void scores(const struct kern_attn_query *q, size_t head_k, const void *k, size_t p, const int nh,
		const int nv, const enum kern_kv type, float *out)
{
	const void *scales = (const uint8_t *)k + head_k * B; /* [groups, B], Q8_0 only */
	/* The other types have one group, and no scales. */
	const size_t step = type == KERN_KV_Q8_0 ? G : head_k;
	kv8 s[4][4], d[4], x[4];
	for (int h = 0; h < nh; h++)
		for (int v = 0; v < nv; v++)
			s[h][v] = kv8_zero();
	for (size_t i = 0, end; i < head_k; i = end) {
		end = head_k - i < step ? head_k : i + step;
		for (int v = 0; v < nv; v++)
			if (type == KERN_KV_Q8_0)
				d[v] = load_kv(scales, i / G * B + p + 8 * (size_t)v, KERN_KV_F16);
		for (size_t e = i; e < end; e++) {
			KV8_UNROLL
			for (int v = 0; v < nv; v++) {
				x[v] = load_kv(k, e * B + p + 8 * (size_t)v, type);
				if (type == KERN_KV_Q8_0)
					x[v] = kv8_mul(x[v], d[v]); /* exact */
			}
			KV8_UNROLL
			for (int h = 0; h < nh; h++) {
				const float y = q[h].q[e];
				KV8_UNROLL
				for (int v = 0; v < nv; v++)
					s[h][v] = kv8_fma_n(x[v], y, s[h][v]);
			}
		}
	}
	for (int h = 0; h < nh; h++)
		for (int v = 0; v < nv; v++)
			kv8_store(out + h * B + p + 8 * (size_t)v, s[h][v]);
}

/* acc = acc * c + p V for nh queries and 8 nd dimensions from d, positions in order. A run of cells at a time: without
 * gaps there is one. scales [B]: of the group that d lies in, Q8_0 only. */
KV8_INLINE void mix(const struct kern_attn_query *q, size_t ld, const float *p, const float *c, const void *v,
		const float *scales, size_t d, uint32_t cells, const int nh, const int nd, const enum kern_kv type)
{
	kv8 o[4][4], x[4];
	for (int h = 0; h < nh; h++)
		for (int e = 0; e < nd; e++)
			o[h][e] = kv8_mul_n(kv8_load(q[h].acc + d + 8 * (size_t)e), c[h]);
	while (cells) {
		/* Adding the lowest bit carries to the end of its run, and out of the word when that is 32. */
		uint32_t carry = cells + (cells & -cells);
		size_t j = (size_t)__builtin_ctz(cells), end = carry ? (size_t)__builtin_ctz(carry) : B;
		cells &= carry;
		for (; j < end; j++) {
			KV8_UNROLL
			for (int e = 0; e < nd; e++) {
				x[e] = load_kv(v, j * ld + d + 8 * (size_t)e, type);
				if (type == KERN_KV_Q8_0)
					x[e] = kv8_mul_n(x[e], scales[j]); /* exact */
			}
			KV8_UNROLL
			for (int h = 0; h < nh; h++) {
				const float w = p[h * B + (int)j];
				KV8_UNROLL
				for (int e = 0; e < nd; e++)
					o[h][e] = kv8_fma_n(x[e], w, o[h][e]);
			}
		}
	}
	for (int h = 0; h < nh; h++)
		for (int e = 0; e < nd; e++)
			kv8_store(q[h].acc + d + 8 * (size_t)e, o[h][e]);
}

/* The scales of group g for every position, side by side. Places nobody wrote give any number, which nobody uses. */
KV8_INLINE void v_scales(const void *v, size_t head_v, size_t g, float out[B])
{
	const uint16_t *d = (const void *)((const uint8_t *)v + kern_pad8(head_v) * B); /* [B, groups] */
	uint16_t h[B];
	for (size_t j = 0; j < B; j++)
		h[j] = d[j * kern_kv_groups(head_v) + g];
	for (size_t j = 0; j < B; j += 8)
		kv8_store(out + j, load_kv(h, j, KERN_KV_F16));
}

/* All dimensions of nh queries. */
KV8_INLINE void mix_all(const struct kern_attn_query *q, const void *v, size_t head_v, const float *p, const float *c,
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

KV8_INLINE void queries(const struct kern_attn_step *s, struct kern_attn_query *q, const void *k, const void *v,
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
	for (int h = 0; s->bent && h < nh; h++)
		bend(s, &q[h], p + h * B);
	for (int h = 0; h < nh; h++)
		c[h] = soften(p + h * B, &q[h]);
	common = kern_attn_common(q, (size_t)nh);
	mix_all(q, v, s->head_v, p, c, common, nh, type);
	for (int h = 0; h < nh; h++)
		if (q[h].cells != common)
			mix_all(q + h, v, s->head_v, p + h * B, &(const float){1.0f}, q[h].cells & ~common, 1, type);
}

KV8_INLINE void attn(const struct kern_attn_step *s, const void *k, const void *v, const enum kern_kv type)
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

