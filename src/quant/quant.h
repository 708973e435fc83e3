/* Block formats: layout, sizes, scalar conversion to and from float. The only place that knows a bit pattern. */
#ifndef QUANT_QUANT_H
#define QUANT_QUANT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Numbers as in GGUF files. */
enum quant_type {
	QUANT_F32 = 0, QUANT_F16 = 1, QUANT_Q4_0 = 2, QUANT_Q4_1 = 3, QUANT_Q5_0 = 6, QUANT_Q5_1 = 7, QUANT_Q8_0 = 8,
	QUANT_Q2_K = 10, QUANT_Q3_K = 11, QUANT_Q4_K = 12, QUANT_Q5_K = 13, QUANT_Q6_K = 14,
	QUANT_IQ4_NL = 20, QUANT_IQ4_XS = 23, QUANT_BF16 = 30, QUANT_TQ2_0 = 35, QUANT_MXFP4 = 39,
	QUANT_N_TYPES = 40
};

/* How activations are rounded before they meet weights of a format (docs/numerics.md). */
enum quant_act { QUANT_ACT_F32, QUANT_ACT_Q8_32, QUANT_ACT_Q8_256 };

struct quant_format {
	const char *name;      /* "Q4_K"; NULL: unknown type */
	uint32_t block;        /* elements per block */
	uint32_t block_bytes;
	enum quant_act act;
	/* n elements (a multiple of block) to float */
	void (*to_f32)(const void *src, float *dst, size_t n);
	/* n floats (a multiple of block) to blocks, with a small squared error: the same bytes everywhere, and each
	 * block from its own floats alone. F32 copies; F16 and BF16 round to nearest, finite numbers to finite ones,
	 * and keep Inf and NaN. In all other formats what is not finite counts as 0 (quant_finite tells), and what is
	 * out of reach of the format's scales is cut off: the blocks always read as finite numbers. */
	void (*from_f32)(const float *src, void *dst, size_t n);
};

/* NULL for a type this version does not know. */
const struct quant_format *quant_format_get(uint32_t type);

/* Whether x has neither Inf nor NaN in it. */
bool quant_finite(const float *x, size_t n);

/* A gguf_size_fn. */
bool quant_size(uint32_t type, uint64_t ne0, uint64_t n_rows, uint64_t *n_bytes, bool *bad_row);

/* ---- Block layouts, little-endian, as in the file (packed, alignment 2) ---- */

struct q4_0 { uint16_t d; uint8_t qs[16]; };                       /* d * (q - 8); low nibbles first half */
struct q4_1 { uint16_t d, m; uint8_t qs[16]; };                    /* d * q + m */
struct q5_0 { uint16_t d; uint8_t qh[4]; uint8_t qs[16]; };        /* d * (q - 16) */
struct q5_1 { uint16_t d, m; uint8_t qh[4]; uint8_t qs[16]; };     /* d * q + m */
struct q8_0 { uint16_t d; int8_t qs[32]; };                        /* d * q */
struct q2_k { uint8_t scales[16]; uint8_t qs[64]; uint16_t d, dmin; };
struct q3_k { uint8_t hmask[32]; uint8_t qs[64]; uint8_t scales[12]; uint16_t d; };
struct q4_k { uint16_t d, dmin; uint8_t scales[12]; uint8_t qs[128]; };
struct q5_k { uint16_t d, dmin; uint8_t scales[12]; uint8_t qh[32]; uint8_t qs[128]; };
struct q6_k { uint8_t ql[128]; uint8_t qh[64]; int8_t scales[16]; uint16_t d; };
struct iq4_nl { uint16_t d; uint8_t qs[16]; };
struct iq4_xs { uint16_t d; uint16_t scales_h; uint8_t scales_l[4]; uint8_t qs[128]; };
struct tq2_0 { uint8_t qs[64]; uint16_t d; };
struct mxfp4 { uint8_t e; uint8_t qs[16]; };                       /* quant_mxfp4_scale(e) * value; alignment 1 */

/* ---- Scalar helpers shared with the reference kernels ---- */

float quant_f16_to_f32(uint16_t h);
uint16_t quant_f32_to_f16(float f);   /* round to nearest even; NaN stays NaN (quiet), overflow to Inf */
float quant_bf16_to_f32(uint16_t h);
uint16_t quant_f32_to_bf16(float f);  /* round to nearest even; NaN stays NaN (quiet) */

extern const int8_t quant_iq4_values[16];
/* MXFP4: twice the numbers that four bits (sign, two of exponent, one of mantissa) stand for, so that they are
 * integers, and half the scale that goes with them, 2^(e - 128): exact for every e, subnormal for 0 and 1. 255: NaN. */
extern const int8_t quant_mxfp4_values[16];
float quant_mxfp4_scale(uint8_t e);

/* Scale and minimum of sub-block j (0..7) of Q4_K and Q5_K. */
void quant_k_scale_min(const uint8_t scales[12], int j, uint8_t *scale, uint8_t *min);
/* The 16 signed 6-bit scales of Q3_K, with 32 taken off: -32..31. */
void quant_q3_k_scales(const uint8_t scales[12], int8_t out[16]);

/* Unpacks one block to its integers before scaling, in element order: q as used in the product (Q4_0: q - 8; Q4_K: q;
 * IQ4, MXFP4: table value). */
void quant_ints_q4_0(const struct q4_0 *b, int8_t q[32]);
void quant_ints_q4_1(const struct q4_1 *b, int8_t q[32]);
void quant_ints_q5_0(const struct q5_0 *b, int8_t q[32]);
void quant_ints_q5_1(const struct q5_1 *b, int8_t q[32]);
void quant_ints_iq4_nl(const struct iq4_nl *b, int8_t q[32]);
void quant_ints_mxfp4(const struct mxfp4 *b, int8_t q[32]);
void quant_ints_q2_k(const struct q2_k *b, int8_t q[256]);
void quant_ints_q3_k(const struct q3_k *b, int8_t q[256]);
void quant_ints_q4_k(const struct q4_k *b, int8_t q[256]);
void quant_ints_q5_k(const struct q5_k *b, int8_t q[256]);
void quant_ints_q6_k(const struct q6_k *b, int8_t q[256]);
void quant_ints_iq4_xs(const struct iq4_xs *b, int8_t q[256]);
void quant_ints_tq2_0(const struct tq2_0 *b, int8_t q[256]);

#endif
