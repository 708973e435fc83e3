/* Floats to the formats with 32 elements in a block: Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, IQ4_NL, MXFP4. The other way
 * is blocks_32.c.
 *
 * Invariants
 *  1. The integers are rounded with the scale as the block holds it, in f16, not with the one that it was rounded from.
 *  2. A block is written whole, from its own 32 floats alone: tensors cut between blocks give the same bytes.
 *  3. No scale or minimum is infinite or NaN, whatever the floats are (quant.h says what becomes of those).
 *
 * Refuses to know tensors, files and threads. */
#include "base/fmath.h"
#include "quant/quant_blocks.h"
#include "quant/quant_fit.h"

#include <float.h>
#include <string.h>

#define BLOCK 32

static const struct quant_grid grid_q4_0 = {-8, 7, false}, grid_q5_0 = {-16, 15, false};
static const struct quant_grid grid_q4_1 = {0, 15, false}, grid_q5_1 = {0, 31, false};
static const struct quant_grid grid_iq4 = {-127, 113, true};

/* Around the scales that bring the largest element to the ends of the grid. The ends themselves are among the tries, so
 * that floats that came from a block with integers there give the same block again. */
static const struct quant_tries tries_q4_0 = {-6.5f, -0.25f, 11, true}, tries_q5_0 = {-14.5f, -0.25f, 11, true};
static const struct quant_tries tries_q4_1 = {14, 0.25f, 11, false}, tries_q5_1 = {30, 0.25f, 11, false};
static const struct quant_tries tries_iq4 = {-99, -3.5f, 15, true};

static void put_nibbles(const uint8_t q[BLOCK], uint8_t qs[16])
{
	for (int i = 0; i < 16; i++)
		qs[i] = (uint8_t)((q[i] & 15) | (q[i + 16] & 15) << 4);
}

static void put_fifth_bits(const uint8_t q[BLOCK], uint8_t qh[4])
{
	for (int i = 0; i < 4; i++) {
		unsigned bits = 0;

		for (int k = 0; k < 8; k++)
			bits |= (unsigned)(q[8 * i + k] >> 4 & 1) << k;
		qh[i] = (uint8_t)bits;
	}
}

/* The scale of a block without a minimum, and its integers counted from 0. The f16 numbers beside the nearest one are
 * tried also: where scales are subnormal in f16 their steps are coarse, and a scale too small cuts off. */
static uint16_t fit(const struct quant_grid *g, const struct quant_tries *t, const float *src, uint8_t out[BLOCK])
{
	float x[BLOCK], q[BLOCK], least = FLT_MAX;
	uint16_t nearest, best = 0;

	quant_fit_clean(src, BLOCK, x);
	nearest = quant_fit_f16(quant_fit_scale(g, t, x, BLOCK));
	for (int k = -1; k <= 1; k++) {
		uint16_t d = (uint16_t)(nearest + k);
		float scale = quant_f16_to_f32(d), error;

		/* Below nothing, and above the largest, there is no such number. */
		if ((k < 0 && !(nearest & 0x7fff)) || (d & 0x7fff) >= 0x7c00)
			continue;
		quant_fit_round(g, x, BLOCK, scale, 0, q);
		error = quant_fit_error(x, q, BLOCK, scale, 0);
		if (error >= least)
			continue;
		least = error;
		best = d;
		for (int i = 0; i < BLOCK; i++)
			out[i] = (uint8_t)(q[i] - g->lo);
	}
	return best;
}

/* The same with a minimum, which is what the fit calls the shift, negative. */
static uint16_t fit_min(const struct quant_grid *g, const struct quant_tries *t, const float *src, uint16_t *min,
		uint8_t out[BLOCK])
{
	float x[BLOCK], q[BLOCK], scale, shift;
	uint16_t d;

	quant_fit_clean(src, BLOCK, x);
	quant_fit_affine(g, t, x, BLOCK, false, &scale, &shift);
	d = quant_fit_f16(scale);
	*min = quant_fit_f16(-shift);
	quant_fit_round(g, x, BLOCK, quant_f16_to_f32(d), -quant_f16_to_f32(*min), q);
	for (int i = 0; i < BLOCK; i++)
		out[i] = (uint8_t)q[i];
	return d;
}

static void block_q4_0(const float *src, struct q4_0 *b)
{
	uint8_t q[BLOCK];

	b->d = fit(&grid_q4_0, &tries_q4_0, src, q);
	put_nibbles(q, b->qs);
}
QUANT_FROM_F32(q4_0, BLOCK)

static void block_q4_1(const float *src, struct q4_1 *b)
{
	uint8_t q[BLOCK];

	b->d = fit_min(&grid_q4_1, &tries_q4_1, src, &b->m, q);
	put_nibbles(q, b->qs);
}
QUANT_FROM_F32(q4_1, BLOCK)

static void block_q5_0(const float *src, struct q5_0 *b)
{
	uint8_t q[BLOCK];

	b->d = fit(&grid_q5_0, &tries_q5_0, src, q);
	put_nibbles(q, b->qs);
	put_fifth_bits(q, b->qh);
}
QUANT_FROM_F32(q5_0, BLOCK)

static void block_q5_1(const float *src, struct q5_1 *b)
{
	uint8_t q[BLOCK];

	b->d = fit_min(&grid_q5_1, &tries_q5_1, src, &b->m, q);
	put_nibbles(q, b->qs);
	put_fifth_bits(q, b->qh);
}
QUANT_FROM_F32(q5_1, BLOCK)

/* With 255 steps a wider search gains next to nothing. -128 is left out: the range is then its own mirror image, and so
 * the sign of the scale is free. */
static void block_q8_0(const float *src, struct q8_0 *b)
{
	static const struct quant_grid grid = {-127, 127, false};
	static const struct quant_tries tries = {127, 0, 1, false};
	uint8_t q[BLOCK];

	uint16_t d = fit(&grid, &tries, src, q);
	int sign = d & 0x8000 ? -1 : 1;

	b->d = d & 0x7fff;
	for (int i = 0; i < BLOCK; i++)
		b->qs[i] = (int8_t)(sign * (q[i] - 127));
}
QUANT_FROM_F32(q8_0, BLOCK)

/* The place of a value in the table. */
uint8_t quant_iq4_index(float value)
{
	unsigned at = 0;

	for (int k = 1; k < 16; k++)
		at += value >= (float)quant_iq4_values[k];
	return (uint8_t)at;
}

static void block_iq4_nl(const float *src, struct iq4_nl *b)
{
	uint8_t q[BLOCK];

	b->d = fit(&grid_iq4, &tries_iq4, src, q);
	for (int i = 0; i < BLOCK; i++)
		q[i] = quant_iq4_index((float)q[i] + grid_iq4.lo);
	put_nibbles(q, b->qs);
}
QUANT_FROM_F32(iq4_nl, BLOCK)

/* ---- MXFP4 ---- */

/* 2^k, for k in -126..127. */
static float power_of_two(int k)
{
	return fm_from_bits((uint32_t)(k + 127) << 23);
}

/* floor(log2(v)) of a finite v > 0, subnormal or not. */
static int exponent_of(float v)
{
	int k = 0;

	if (v < 0x1p-126f) {
		v *= 0x1p24f;
		k = -24;
	}
	return k + (int)(fm_bits(v) >> 23) - 127;
}

/* The place of a magnitude, in units of the block's scale, among 0 .5 1 1.5 2 3 4 6: the nearest, of two equally near
 * the one that ends in a 0 bit; what is beyond 6 is cut off. */
static uint8_t mxfp4_index(float v)
{
	return (uint8_t)((v > 0.25f) + (v >= 0.75f) + (v > 1.25f) + (v >= 1.75f) + (v > 2.5f) + (v >= 3.5f) +
			(v > 5.0f));
}

/* Squared error of x, which are within 2 of 0, with the scale 2^k, and the nibbles. There is one zero. */
static float mxfp4_try(const float x[BLOCK], int k, uint8_t q[BLOCK])
{
	float by = power_of_two(-k), value[BLOCK];

	for (int i = 0; i < BLOCK; i++) {
		uint8_t at = mxfp4_index(x[i] < 0 ? -x[i] * by : x[i] * by);

		q[i] = (uint8_t)(at && x[i] < 0 ? at | 8 : at);
		value[i] = (float)quant_mxfp4_values[q[i]];
	}
	return quant_fit_error(x, value, BLOCK, power_of_two(k - 1), 0);
}

enum {
	MXFP4_BIAS = 127,
	MXFP4_E_MAX = 252 /* 6 * 2^125 is the largest number of the format that is one in single precision, too */
};

/* The usual scale brings the largest magnitude between 4 and 8. Half of it cuts that one off and is finer for the
 * others, twice of it need not cut off what is beyond 6; any further is worse. x is in units of the power of two below
 * the largest magnitude, so that no square overflows or vanishes. */
static void block_mxfp4(const float *src, struct mxfp4 *b)
{
	static const int order[] = {0, -1, 1}; /* of equals the usual one */
	float x[BLOCK], top = 0, least = FLT_MAX;
	uint8_t q[BLOCK];
	int k, half;

	for (int i = 0; i < BLOCK; i++) {
		x[i] = src[i] >= -FLT_MAX && src[i] <= FLT_MAX ? src[i] : 0;
		top = x[i] > top ? x[i] : -x[i] > top ? -x[i] : top;
	}
	memset(b, 0, sizeof *b);
	if (top == 0)
		return;
	k = exponent_of(top);
	/* In two steps: 2^149 is no float. */
	half = -k / 2;
	for (int i = 0; i < BLOCK; i++)
		x[i] = x[i] * power_of_two(half) * power_of_two(-k - half);
	for (int i = 0; i < 3; i++) {
		int by = order[i] - 2, e = k + by + MXFP4_BIAS;
		float error;

		/* Beyond the ends the nearest scale there is stands in. */
		if (e < 0 || e > MXFP4_E_MAX) {
			e = e < 0 ? 0 : MXFP4_E_MAX;
			by = e - MXFP4_BIAS - k;
		}
		error = mxfp4_try(x, by, q);
		if (error >= least)
			continue;
		least = error;
		b->e = (uint8_t)e;
		put_nibbles(q, b->qs);
	}
}

QUANT_FROM_F32(mxfp4, BLOCK)
