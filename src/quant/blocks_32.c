/* Formats with 32 elements in a block and one scale for all of them: Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, IQ4_NL, MXFP4.
 *
 * Invariants
 *  1. A block of nibbles holds elements 0..15 in the low halves of its bytes and 16..31 in the high halves.
 *  2. The integers of a block come from one place, quant_ints_*; to_f32 only scales them, so the two cannot disagree.
 *  3. d has 11 significant bits (one in MXFP4) and q at most 8, hence d * q is exact in a float, where it is not
 *     beyond the largest: MXFP4's from 2^128 on are infinite. Only the addition of a minimum rounds, and fusing it
 *     would give the same bits.
 *  4. Any bytes are a valid block. A scale that is infinite or NaN comes out as such in the floats: judging it is for
 *     those who loaded the file.
 *
 * Refuses to know tensors, files and how activations are rounded. */
#include "base/fmath.h"
#include "quant/quant.h"
#include "quant/quant_blocks.h"

_Static_assert(sizeof(struct q4_0) == 18, "as in the file");
_Static_assert(sizeof(struct q4_1) == 20, "as in the file");
_Static_assert(sizeof(struct q5_0) == 22, "as in the file");
_Static_assert(sizeof(struct q5_1) == 24, "as in the file");
_Static_assert(sizeof(struct q8_0) == 34, "as in the file");
_Static_assert(sizeof(struct iq4_nl) == 18, "as in the file");
_Static_assert(sizeof(struct mxfp4) == 17, "as in the file");

#define BLOCK 32

const int8_t quant_iq4_values[16] = {
	-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113,
};

/* The format has a negative zero; here, as everywhere where weights are integers, there is one zero. */
const int8_t quant_mxfp4_values[16] = {
	0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12,
};

float quant_mxfp4_scale(uint8_t e)
{
	/* The exponent of half the scale is one less; below 1 the mantissa's highest bits stand for it. */
	uint32_t bits = e == 255 ? 0x7fc00000u : e >= 2 ? (e - 1u) << 23 : 0x00200000u << e;

	return fm_from_bits(bits);
}

static void nibbles(const uint8_t qs[16], int8_t q[BLOCK])
{
	for (int i = 0; i < 16; i++) {
		q[i] = (int8_t)(qs[i] & 15);
		q[i + 16] = (int8_t)(qs[i] >> 4);
	}
}

/* Element i has its fifth bit in bit i of qh, read as one little-endian number. */
static void fifth_bits(const uint8_t qh[4], int8_t q[BLOCK])
{
	for (int i = 0; i < BLOCK; i++)
		q[i] = (int8_t)(q[i] | (qh[i / 8] >> i % 8 & 1) << 4);
}

static void take_off(int8_t q[BLOCK], int bias)
{
	for (int i = 0; i < BLOCK; i++)
		q[i] = (int8_t)(q[i] - bias);
}

static void scale(const int8_t q[BLOCK], float d, float *dst)
{
	for (int i = 0; i < BLOCK; i++)
		dst[i] = d * (float)q[i];
}

static void scale_add(const int8_t q[BLOCK], float d, float m, float *dst)
{
	for (int i = 0; i < BLOCK; i++)
		dst[i] = d * (float)q[i] + m;
}

void quant_ints_q4_0(const struct q4_0 *b, int8_t q[32])
{
	nibbles(b->qs, q);
	take_off(q, 8);
}

void quant_ints_q4_1(const struct q4_1 *b, int8_t q[32])
{
	nibbles(b->qs, q);
}

void quant_ints_q5_0(const struct q5_0 *b, int8_t q[32])
{
	nibbles(b->qs, q);
	fifth_bits(b->qh, q);
	take_off(q, 16);
}

void quant_ints_q5_1(const struct q5_1 *b, int8_t q[32])
{
	nibbles(b->qs, q);
	fifth_bits(b->qh, q);
}

void quant_ints_iq4_nl(const struct iq4_nl *b, int8_t q[32])
{
	nibbles(b->qs, q);
	for (int i = 0; i < BLOCK; i++)
		q[i] = quant_iq4_values[q[i]];
}

void quant_ints_mxfp4(const struct mxfp4 *b, int8_t q[32])
{
	nibbles(b->qs, q);
	for (int i = 0; i < BLOCK; i++)
		q[i] = quant_mxfp4_values[q[i]];
}

QUANT_TO_F32(q4_0, BLOCK, scale(q, quant_f16_to_f32(b->d), dst))
QUANT_TO_F32(q4_1, BLOCK, scale_add(q, quant_f16_to_f32(b->d), quant_f16_to_f32(b->m), dst))
QUANT_TO_F32(q5_0, BLOCK, scale(q, quant_f16_to_f32(b->d), dst))
QUANT_TO_F32(q5_1, BLOCK, scale_add(q, quant_f16_to_f32(b->d), quant_f16_to_f32(b->m), dst))
QUANT_TO_F32(iq4_nl, BLOCK, scale(q, quant_f16_to_f32(b->d), dst))
QUANT_TO_F32(mxfp4, BLOCK, scale(q, quant_mxfp4_scale(b->e), dst))

/* The block holds its integers as they are. */
void quant_to_f32_q8_0(const void *src, float *dst, size_t n)
{
	const struct q8_0 *b = src;

	for (const struct q8_0 *end = b + n / BLOCK; b < end; b++, dst += BLOCK)
		scale(b->qs, quant_f16_to_f32(b->d), dst);
}
