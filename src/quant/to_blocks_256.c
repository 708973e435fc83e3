/* Floats to the formats with 256 elements in a block: Q2_K, Q3_K, Q4_K, Q5_K, Q6_K, IQ4_XS, and TQ2_0. The other way is
 * blocks_256.c.
 *
 * First each sub-block gets the scale (and minimum) that suits it alone. Then the scale of the whole block, of which
 * all others are small multiples, is searched: each candidate is judged by the error of the block that it would give,
 * every sub-block free to take a multiple beside the nearest one. Last the whole block's scale is fitted to the
 * integers found, and the search repeated around it as long as that gains.
 *
 * Invariants
 *  1. A candidate is judged with scales as the block holds them (f16 times integer) and with elements rounded by these,
 *     so that the least error found is the error of what is written.
 *  2. A block is written whole, from its own 256 floats alone: tensors cut between blocks give the same bytes.
 *  3. No scale is infinite or NaN, whatever the floats are (quant.h says what becomes of those).
 *  4. A block of zeros, or of what is too small for any scale, has all scales 0.
 *
 * Refuses to know tensors, files and threads. */
#include "quant/quant_blocks.h"
#include "quant/quant_fit.h"

#include <float.h>
#include <string.h>

#define BLOCK 256
#define N_SUB_MAX 16
#define N_REFINE 3

/* A format: how long its sub-blocks are, what elements may become, and how far the integer scales go. */
struct shape {
	int sub;
	struct quant_grid grid;
	struct quant_tries tries;
	float sc_lo, sc_hi;
};

/* What a block becomes. The integers are kept as floats until they are packed. */
struct found {
	uint16_t d, dmin;
	float sc[N_SUB_MAX], m[N_SUB_MAX];
	float q[BLOCK];
	float error;
};

static float nearest_in(float a, float lo, float hi)
{
	a = a < lo ? lo : a;
	a = a > hi ? hi : a;
	return a + 0x1.8p23f - 0x1.8p23f;
}

static float magnitude(float a)
{
	return a < 0 ? -a : a;
}

/* The f16 number of the next larger magnitude. Where scales are subnormal in f16 their steps are coarse, and one that
 * was rounded down may cut off the largest elements. (Past the last one is infinity, of which quant_fit_f16 makes the
 * last.) */
static float next_up(uint16_t h)
{
	return quant_f16_to_f32((uint16_t)(h + 1));
}

/* ---- Scales only: Q3_K, Q6_K, IQ4_XS ---- */

/* The best multiple of d for sub-block j, among the one nearest to the scale that suits it and its neighbours. */
static void choose_scale(const struct shape *f, const float *x, float d, float want, int j, struct found *out)
{
	float q[BLOCK], best = FLT_MAX, middle = nearest_in(d == 0 ? 0 : want / d, f->sc_lo, f->sc_hi);

	for (int k = -1; k <= 1; k++) {
		float sc = middle + (float)k, error;

		if (sc < f->sc_lo || sc > f->sc_hi)
			continue;
		quant_fit_round(&f->grid, x, f->sub, d * sc, 0, q);
		error = quant_fit_error(x, q, f->sub, d * sc, 0);
		if (error < best) {
			best = error;
			out->sc[j] = sc;
			memcpy(out->q + j * f->sub, q, (size_t)f->sub * sizeof *q);
		}
	}
	out->error += best;
}

static bool try_d(const struct shape *f, const float *x, const float *want, float d, struct found *best)
{
	struct found now;
	float exact;

	now.d = quant_fit_f16(d);
	exact = quant_f16_to_f32(now.d);
	now.error = 0;
	for (int j = 0; j < BLOCK / f->sub && now.error < best->error; j++)
		choose_scale(f, x + j * f->sub, exact, want[j], j, &now);
	if (!(now.error < best->error))
		return false;
	*best = now;
	return true;
}

/* The d that suits all elements best with the integers and scales as they are. */
static float fit_d(const struct shape *f, const float *x, const struct found *b)
{
	float qx = 0, qq = 0;

	for (int j = 0; j < BLOCK / f->sub; j++) {
		const float *q = b->q + j * f->sub;

		qx += b->sc[j] * quant_fit_dot(q, x + j * f->sub, f->sub);
		qq += b->sc[j] * b->sc[j] * quant_fit_dot(q, q, f->sub);
	}
	return qq > 0 ? qx / qq : 0;
}

static void fit_block(const struct shape *f, const float *src, struct found *best)
{
	float x[BLOCK], want[N_SUB_MAX], peak = 0;

	memset(best, 0, sizeof *best);
	if (quant_fit_clean(src, BLOCK, x) == 0) {
		quant_fit_round(&f->grid, x, BLOCK, 0, 0, best->q);
		return;
	}
	for (int j = 0; j < BLOCK / f->sub; j++) {
		want[j] = quant_fit_scale(&f->grid, &f->tries, x + j * f->sub, f->sub);
		peak = magnitude(want[j]) > magnitude(peak) ? want[j] : peak;
	}
	best->error = FLT_MAX;
	/* The largest scale at either end of its range, or a little inside. */
	for (int k = 0; k < 4; k++) {
		try_d(f, x, want, peak / (f->sc_lo + (float)k), best);
		try_d(f, x, want, peak / (f->sc_hi - (float)k), best);
	}
	try_d(f, x, want, next_up(best->d), best);
	for (int k = 0; k < N_REFINE; k++)
		if (!try_d(f, x, want, fit_d(f, x, best), best))
			break;
}

/* ---- Scales and minima: Q2_K, Q4_K, Q5_K ---- */

struct wanted {
	float scale[N_SUB_MAX], min[N_SUB_MAX];
};

/* The best multiple of dmin for a sub-block with a given scale: around the minimum that suits the integers that this
 * scale gives with the minimum wanted. Takes m, q and best over where it finds less error than best. */
static void choose_min(const struct shape *f, const float *x, float scale, float dmin, float min, float *m, float *q,
		float *best)
{
	float now[BLOCK], over = 0, middle;

	quant_fit_round(&f->grid, x, f->sub, scale, min, now);
	for (int i = 0; i < f->sub; i++)
		over += scale * now[i] - x[i];
	middle = nearest_in(dmin == 0 ? 0 : over / ((float)f->sub * dmin), f->sc_lo, f->sc_hi);
	for (int k = -1; k <= 1; k++) {
		float try = middle + (float)k, error;

		if (try < f->sc_lo || try > f->sc_hi)
			continue;
		quant_fit_round(&f->grid, x, f->sub, scale, dmin * try, now);
		error = quant_fit_error(x, now, f->sub, scale, dmin * try);
		if (error < *best) {
			*best = error;
			*m = try;
			memcpy(q, now, (size_t)f->sub * sizeof *q);
		}
	}
}

static bool try_pair(const struct shape *f, const float *x, const struct wanted *want, float d, float dmin,
		struct found *best)
{
	struct found now;

	now.d = quant_fit_f16(d);
	now.dmin = quant_fit_f16(dmin);
	now.error = 0;
	d = quant_f16_to_f32(now.d);
	dmin = quant_f16_to_f32(now.dmin);
	for (int j = 0; j < BLOCK / f->sub && now.error < best->error; j++) {
		float middle = nearest_in(d == 0 ? 0 : want->scale[j] / d, f->sc_lo, f->sc_hi), error = FLT_MAX;

		for (int k = -1; k <= 1; k++) {
			float sc = middle + (float)k, before = error;

			if (sc < f->sc_lo || sc > f->sc_hi)
				continue;
			choose_min(f, x + j * f->sub, d * sc, dmin, want->min[j], &now.m[j], now.q + j * f->sub,
					&error);
			if (error < before)
				now.sc[j] = sc;
		}
		now.error += error;
	}
	if (!(now.error < best->error))
		return false;
	*best = now;
	return true;
}

/* The d and dmin that suit all elements best with the integers, scales and minima as they are. */
static void fit_pair(const struct shape *f, const float *x, const struct found *b, float *d, float *dmin)
{
	float aa = 0, ab = 0, bb = 0, ax = 0, bx = 0, det;

	for (int j = 0; j < BLOCK / f->sub; j++) {
		const float *q = b->q + j * f->sub, *at = x + j * f->sub;
		float sc = b->sc[j], m = b->m[j], sq = 0, sx = 0;

		for (int i = 0; i < f->sub; i++) {
			sq += q[i];
			sx += at[i];
		}
		aa += sc * sc * quant_fit_dot(q, q, f->sub);
		ab += sc * m * sq;
		bb += m * m * (float)f->sub;
		ax += sc * quant_fit_dot(q, at, f->sub);
		bx += m * sx;
	}
	*d = quant_f16_to_f32(b->d);
	*dmin = quant_f16_to_f32(b->dmin);
	det = aa * bb - ab * ab;
	if (det > 0) {
		*d = (ax * bb - ab * bx) / det;
		*dmin = (ab * ax - aa * bx) / det;
	} else if (aa > 0) {
		*d = ax / aa;
	}
}

static void fit_block_min(const struct shape *f, const float *src, struct found *best)
{
	float x[BLOCK], scale = 0, min = 0, d, dmin;
	struct wanted want;

	memset(best, 0, sizeof *best);
	if (quant_fit_clean(src, BLOCK, x) == 0)
		return;
	for (int j = 0; j < BLOCK / f->sub; j++) {
		quant_fit_affine(&f->grid, &f->tries, x + j * f->sub, f->sub, true, &want.scale[j], &want.min[j]);
		scale = want.scale[j] > scale ? want.scale[j] : scale;
		min = want.min[j] > min ? want.min[j] : min;
	}
	best->error = FLT_MAX;
	/* The largest scale and minimum at the ends of their ranges, or a little inside. */
	for (int k = 0; k < 3; k++)
		for (int l = 0; l < 3; l++)
			try_pair(f, x, &want, scale / (f->sc_hi - (float)k), min / (f->sc_hi - (float)l), best);
	try_pair(f, x, &want, next_up(best->d), quant_f16_to_f32(best->dmin), best);
	try_pair(f, x, &want, quant_f16_to_f32(best->d), next_up(best->dmin), best);
	for (int k = 0; k < N_REFINE; k++) {
		fit_pair(f, x, best, &d, &dmin);
		if (!try_pair(f, x, &want, d, dmin, best))
			break;
	}
}

/* ---- Packing, each the reverse of its namesake in blocks_256.c ---- */

/* Values 0..3. */
static void put_pairs(const uint8_t q[BLOCK], uint8_t qs[64])
{
	for (int half = 0; half < 2; half++)
		for (int i = 0; i < 32; i++) {
			const uint8_t *at = q + 128 * half + i;

			qs[32 * half + i] = (uint8_t)((at[0] & 3) | (at[32] & 3) << 2 | (at[64] & 3) << 4 |
					(at[96] & 3) << 6);
		}
}

/* The low four bits. */
static void put_nibbles(const uint8_t q[BLOCK], uint8_t qs[128])
{
	for (int quarter = 0; quarter < 4; quarter++, qs += 32)
		for (int i = 0; i < 32; i++)
			qs[i] = (uint8_t)((q[64 * quarter + i] & 15) | (q[64 * quarter + 32 + i] & 15) << 4);
}

/* Bit `bit` of run r of 32 elements to bit r of the 32 bytes of out. */
static void put_high_bits(const uint8_t q[BLOCK], int bit, uint8_t out[32])
{
	memset(out, 0, 32);
	for (int i = 0; i < BLOCK; i++)
		out[i % 32] = (uint8_t)(out[i % 32] | (q[i] >> bit & 1) << i / 32);
}

static void put_k_scales(const struct found *b, uint8_t scales[12])
{
	memset(scales, 0, 12);
	for (int j = 0; j < 8; j++) {
		unsigned sc = (unsigned)b->sc[j], m = (unsigned)b->m[j];

		if (j < 4) {
			scales[j] = (uint8_t)sc;
			scales[j + 4] = (uint8_t)m;
		} else {
			scales[j + 4] = (uint8_t)((sc & 15) | (m & 15) << 4);
			scales[j - 4] = (uint8_t)(scales[j - 4] | sc >> 4 << 6);
			scales[j] = (uint8_t)(scales[j] | m >> 4 << 6);
		}
	}
}

static void put_q3_k_scales(const struct found *b, uint8_t scales[12])
{
	memset(scales, 0, 12);
	for (int j = 0; j < 16; j++) {
		unsigned sc = (unsigned)(b->sc[j] + 32);

		scales[j % 8] = (uint8_t)(scales[j % 8] | (sc & 15) << 4 * (j / 8));
		scales[8 + j % 4] = (uint8_t)(scales[8 + j % 4] | sc >> 4 << 2 * (j / 4));
	}
}

/* The integers counted from 0. */
static void count_up(const struct found *b, float lo, uint8_t q[BLOCK])
{
	for (int i = 0; i < BLOCK; i++)
		q[i] = (uint8_t)(int)(b->q[i] - lo);
}

/* ---- Formats ---- */

static void block_q2_k(const float *src, struct q2_k *b)
{
	static const struct shape f = {16, {0, 3, false}, {2, 0.125f, 17, false}, 0, 15};
	struct found found;
	uint8_t q[BLOCK];

	fit_block_min(&f, src, &found);
	count_up(&found, 0, q);
	b->d = found.d;
	b->dmin = found.dmin;
	for (int j = 0; j < 16; j++)
		b->scales[j] = (uint8_t)((unsigned)found.sc[j] | (unsigned)found.m[j] << 4);
	put_pairs(q, b->qs);
}
QUANT_FROM_F32(q2_k, BLOCK)

static void block_q3_k(const float *src, struct q3_k *b)
{
	static const struct shape f = {16, {-4, 3, false}, {-2.5f, -0.125f, 20, true}, -32, 31};
	struct found found;
	uint8_t q[BLOCK];

	fit_block(&f, src, &found);
	count_up(&found, f.grid.lo, q);
	b->d = found.d;
	put_q3_k_scales(&found, b->scales);
	put_pairs(q, b->qs);
	put_high_bits(q, 2, b->hmask);
}
QUANT_FROM_F32(q3_k, BLOCK)

static void block_q4_k(const float *src, struct q4_k *b)
{
	static const struct shape f = {32, {0, 15, false}, {14, 0.25f, 11, false}, 0, 63};
	struct found found;
	uint8_t q[BLOCK];

	fit_block_min(&f, src, &found);
	count_up(&found, 0, q);
	b->d = found.d;
	b->dmin = found.dmin;
	put_k_scales(&found, b->scales);
	put_nibbles(q, b->qs);
}
QUANT_FROM_F32(q4_k, BLOCK)

static void block_q5_k(const float *src, struct q5_k *b)
{
	static const struct shape f = {32, {0, 31, false}, {30, 0.25f, 11, false}, 0, 63};
	struct found found;
	uint8_t q[BLOCK];

	fit_block_min(&f, src, &found);
	count_up(&found, 0, q);
	b->d = found.d;
	b->dmin = found.dmin;
	put_k_scales(&found, b->scales);
	put_nibbles(q, b->qs);
	put_high_bits(q, 4, b->qh);
}
QUANT_FROM_F32(q5_k, BLOCK)

static void put_q6_k(const uint8_t q[BLOCK], struct q6_k *b)
{
	uint8_t high[BLOCK];

	for (int half = 0; half < 2; half++)
		for (int i = 0; i < 64; i++) {
			const uint8_t *at = q + 128 * half + i;

			b->ql[64 * half + i] = (uint8_t)((at[0] & 15) | (at[64] & 15) << 4);
		}
	for (int i = 0; i < BLOCK; i++)
		high[i] = q[i] >> 4;
	put_pairs(high, b->qh);
}

static void block_q6_k(const float *src, struct q6_k *b)
{
	static const struct shape f = {16, {-32, 31, false}, {-30.5f, -0.25f, 11, true}, -128, 127};
	struct found found;
	uint8_t q[BLOCK];

	fit_block(&f, src, &found);
	count_up(&found, f.grid.lo, q);
	b->d = found.d;
	for (int j = 0; j < 16; j++)
		b->scales[j] = (int8_t)found.sc[j];
	put_q6_k(q, b);
}
QUANT_FROM_F32(q6_k, BLOCK)

static void block_iq4_xs(const float *src, struct iq4_xs *b)
{
	static const struct shape f = {32, {-127, 113, true}, {-99, -3.5f, 15, true}, -32, 31};
	struct found found;
	unsigned high = 0;

	fit_block(&f, src, &found);
	b->d = found.d;
	memset(b->scales_l, 0, sizeof b->scales_l);
	for (int j = 0; j < 8; j++) {
		unsigned sc = (unsigned)(found.sc[j] + 32);

		b->scales_l[j / 2] = (uint8_t)(b->scales_l[j / 2] | (sc & 15) << 4 * (j % 2));
		high |= sc >> 4 << 2 * j;
	}
	b->scales_h = (uint16_t)high;
	for (int i = 0; i < BLOCK / 2; i++) {
		const float *q = found.q + i / 16 * 32 + i % 16;

		b->qs[i] = (uint8_t)(quant_iq4_index(q[0]) | quant_iq4_index(q[16]) << 4);
	}
}
QUANT_FROM_F32(iq4_xs, BLOCK)

/* The elements above half the scale become plus or minus the scale. How far this is below the largest element depends
 * on the distribution, so the tries go far; the first of them suit elements that are ternary already. */
static void block_tq2_0(const float *src, struct tq2_0 *b)
{
	static const struct quant_grid grid = {-1, 1, false};
	static const struct quant_tries tries = {0.75f, 0.25f, 24, false};
	float x[BLOCK];
	struct found found;
	uint8_t q[BLOCK];

	quant_fit_clean(src, BLOCK, x);
	/* The grid is its own mirror image, so the sign is free: none, as a reader may expect. */
	b->d = quant_fit_f16(magnitude(quant_fit_scale(&grid, &tries, x, BLOCK)));
	quant_fit_round(&grid, x, BLOCK, quant_f16_to_f32(b->d), 0, found.q);
	count_up(&found, grid.lo, q);
	put_pairs(q, b->qs);
}
QUANT_FROM_F32(tq2_0, BLOCK)
