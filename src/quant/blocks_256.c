/* Formats with 256 elements in a block: Q2_K, Q3_K, Q4_K, Q5_K, Q6_K, IQ4_XS, and TQ2_0.
 *
 * A block has one or two f16 scales for all of it and small integer scales for each sub-block of 16 (Q2_K, Q3_K, Q6_K)
 * or 32 elements (Q4_K, Q5_K, IQ4_XS); TQ2_0 has the f16 scale only. Sub-block j is always the j-th run of elements,
 * however their bits are spread over the bytes.
 *
 * Invariants
 *  1. The integers of a block come from one place, quant_ints_*; to_f32 only scales them, so the two cannot disagree.
 *  2. The scale of a sub-block is made first: (d * sc) * q, minus (dmin * m) where the format has minima. d has 11
 *     significant bits, and sc and q together at most 12 (Q6_K, IQ4_XS), so all products are exact in a float. Only the
 *     subtraction rounds, and fusing it would give the same bits.
 *  3. Any bytes are a valid block: TQ2_0's unused code 3 reads as 2. A scale that is infinite or NaN comes out as such
 *     in the floats: judging it is for those who loaded the file.
 *
 * Refuses to know tensors, files and how activations are rounded. */
#include "quant/quant.h"
#include "quant/quant_blocks.h"

_Static_assert(sizeof(struct q2_k) == 84, "as in the file");
_Static_assert(sizeof(struct q3_k) == 110, "as in the file");
_Static_assert(sizeof(struct q4_k) == 144, "as in the file");
_Static_assert(sizeof(struct q5_k) == 176, "as in the file");
_Static_assert(sizeof(struct q6_k) == 210, "as in the file");
_Static_assert(sizeof(struct iq4_xs) == 136, "as in the file");
_Static_assert(sizeof(struct tq2_0) == 66, "as in the file");

#define BLOCK 256

/* n integers of a sub-block, scaled. */
static void scale(const int8_t *q, int n, float d, float *dst)
{
	for (int i = 0; i < n; i++)
		dst[i] = d * (float)q[i];
}

static void scale_sub(const int8_t *q, int n, float d, float m, float *dst)
{
	for (int i = 0; i < n; i++)
		dst[i] = d * (float)q[i] - m;
}

/* Q2_K, Q3_K, TQ2_0: each half of 32 bytes holds 128 elements, four runs of 32: the k-th in bits 2k and 2k + 1. */
static void pairs(const uint8_t qs[64], int8_t q[BLOCK])
{
	for (int half = 0; half < 2; half++)
		for (int k = 0; k < 4; k++)
			for (int i = 0; i < 32; i++)
				*q++ = (int8_t)(qs[32 * half + i] >> 2 * k & 3);
}

/* Q4_K, Q5_K: each quarter of 32 bytes holds two runs of 32: the low nibbles, then the high ones. */
static void nibbles(const uint8_t qs[128], int8_t q[BLOCK])
{
	for (int quarter = 0; quarter < 4; quarter++, qs += 32)
		for (int i = 0; i < 32; i++) {
			q[64 * quarter + i] = (int8_t)(qs[i] & 15);
			q[64 * quarter + 32 + i] = (int8_t)(qs[i] >> 4);
		}
}

/* Eight pairs of 6-bit numbers in 12 bytes: those of sub-blocks 0..3 lie whole in the low bits of bytes 0..3 (scales)
 * and 4..7 (minima); those of 4..7 have their low nibbles in bytes 8..11 and their top two bits above the former. */
void quant_k_scale_min(const uint8_t scales[12], int j, uint8_t *scale_out, uint8_t *min_out)
{
	if (j < 4) {
		*scale_out = scales[j] & 63;
		*min_out = scales[j + 4] & 63;
	} else {
		*scale_out = (uint8_t)((scales[j + 4] & 15) | scales[j - 4] >> 6 << 4);
		*min_out = (uint8_t)(scales[j + 4] >> 4 | scales[j] >> 6 << 4);
	}
}

/* Sixteen 6-bit numbers in 12 bytes: the low nibbles of 0..7 and 8..15 are the low and high halves of bytes 0..7; bytes
 * 8..11 hold the top two bits, those of numbers 4k..4k + 3 in bits 2k and 2k + 1. */
void quant_q3_k_scales(const uint8_t scales[12], int8_t out[16])
{
	for (int j = 0; j < 16; j++) {
		int low = j < 8 ? scales[j] & 15 : scales[j - 8] >> 4;
		int high = scales[8 + j % 4] >> 2 * (j / 4) & 3;
		out[j] = (int8_t)((low | high << 4) - 32);
	}
}

void quant_ints_q2_k(const struct q2_k *b, int8_t q[256])
{
	pairs(b->qs, q);
}

/* Run r of 32 elements has its third bits in bit r of the 32 bytes of hmask; the stored number has 4 added. */
void quant_ints_q3_k(const struct q3_k *b, int8_t q[256])
{
	pairs(b->qs, q);
	for (int i = 0; i < BLOCK; i++)
		q[i] = (int8_t)(q[i] - (b->hmask[i % 32] >> i / 32 & 1 ? 0 : 4));
}

void quant_ints_q4_k(const struct q4_k *b, int8_t q[256])
{
	nibbles(b->qs, q);
}

/* Run r of 32 elements has its fifth bits in bit r of the 32 bytes of qh. */
void quant_ints_q5_k(const struct q5_k *b, int8_t q[256])
{
	nibbles(b->qs, q);
	for (int i = 0; i < BLOCK; i++)
		q[i] = (int8_t)(q[i] | (b->qh[i % 32] >> i / 32 & 1) << 4);
}

/* Each half of 128 elements has 64 bytes of ql (runs 0 and 1 in the low nibbles, 2 and 3 in the high ones) and 32 of
 * qh, laid out as in pairs(). The stored number has 32 added. */
void quant_ints_q6_k(const struct q6_k *b, int8_t q[256])
{
	int8_t high[BLOCK];

	pairs(b->qh, high);
	for (int half = 0; half < 2; half++)
		for (int i = 0; i < 64; i++) {
			uint8_t low = b->ql[64 * half + i];
			int at = 128 * half + i;
			q[at] = (int8_t)(((low & 15) | high[at] << 4) - 32);
			q[at + 64] = (int8_t)((low >> 4 | high[at + 64] << 4) - 32);
		}
}

/* Unlike Q4_K, each sub-block of 32 has its own 16 bytes: low nibbles first, as in IQ4_NL. */
void quant_ints_iq4_xs(const struct iq4_xs *b, int8_t q[256])
{
	for (int j = 0; j < 8; j++)
		for (int i = 0; i < 16; i++) {
			q[32 * j + i] = quant_iq4_values[b->qs[16 * j + i] & 15];
			q[32 * j + 16 + i] = quant_iq4_values[b->qs[16 * j + i] >> 4];
		}
}

void quant_ints_tq2_0(const struct tq2_0 *b, int8_t q[256])
{
	pairs(b->qs, q);
	for (int i = 0; i < BLOCK; i++)
		q[i]--;
}

/* Sub-blocks of 16 with a scale each, of the block's whole scale d. */
static void scale_16(const int8_t q[BLOCK], float d, const int8_t sc[16], float *dst)
{
	for (int j = 0; j < 16; j++)
		scale(q + 16 * j, 16, d * (float)sc[j], dst + 16 * j);
}

static void scale_q2_k(const struct q2_k *b, const int8_t q[BLOCK], float *dst)
{
	float d = quant_f16_to_f32(b->d), dmin = quant_f16_to_f32(b->dmin);

	for (int j = 0; j < 16; j++)
		scale_sub(q + 16 * j, 16, d * (float)(b->scales[j] & 15), dmin * (float)(b->scales[j] >> 4),
				dst + 16 * j);
}

static void scale_q3_k(const struct q3_k *b, const int8_t q[BLOCK], float *dst)
{
	int8_t sc[16];

	quant_q3_k_scales(b->scales, sc);
	scale_16(q, quant_f16_to_f32(b->d), sc, dst);
}

/* The half that Q4_K and Q5_K share, once the integers are there. */
static void scale_k(const int8_t q[BLOCK], uint16_t d16, uint16_t dmin16, const uint8_t scales[12], float *dst)
{
	float d = quant_f16_to_f32(d16), dmin = quant_f16_to_f32(dmin16);
	uint8_t sc, m;

	for (int j = 0; j < 8; j++) {
		quant_k_scale_min(scales, j, &sc, &m);
		scale_sub(q + 32 * j, 32, d * (float)sc, dmin * (float)m, dst + 32 * j);
	}
}

/* Eight 6-bit scales with 32 added: low nibbles in scales_l, two to a byte, top two bits of number j in bits 2j and
 * 2j + 1 of scales_h. */
static void scale_iq4_xs(const struct iq4_xs *b, const int8_t q[BLOCK], float *dst)
{
	float d = quant_f16_to_f32(b->d);

	for (int j = 0; j < 8; j++) {
		int low = b->scales_l[j / 2] >> 4 * (j % 2) & 15;
		int high = b->scales_h >> 2 * j & 3;
		scale(q + 32 * j, 32, d * (float)((low | high << 4) - 32), dst + 32 * j);
	}
}

QUANT_TO_F32(q2_k, BLOCK, scale_q2_k(b, q, dst))
QUANT_TO_F32(q3_k, BLOCK, scale_q3_k(b, q, dst))
QUANT_TO_F32(q4_k, BLOCK, scale_k(q, b->d, b->dmin, b->scales, dst))
QUANT_TO_F32(q5_k, BLOCK, scale_k(q, b->d, b->dmin, b->scales, dst))
QUANT_TO_F32(q6_k, BLOCK, scale_16(q, quant_f16_to_f32(b->d), b->scales, dst))
QUANT_TO_F32(iq4_xs, BLOCK, scale_iq4_xs(b, q, dst))
QUANT_TO_F32(tq2_0, BLOCK, scale(q, BLOCK, quant_f16_to_f32(b->d), dst))
