/* Inside src/quant: the whole-row conversions that the format table points to. Each takes n elements, a multiple of its
 * block, from src as in the file (aligned to 2, F32 to 4) to dst. */
#ifndef QUANT_QUANT_BLOCKS_H
#define QUANT_QUANT_BLOCKS_H

#include "quant/quant.h"

void quant_to_f32_q4_0(const void *src, float *dst, size_t n);
void quant_to_f32_q4_1(const void *src, float *dst, size_t n);
void quant_to_f32_q5_0(const void *src, float *dst, size_t n);
void quant_to_f32_q5_1(const void *src, float *dst, size_t n);
void quant_to_f32_q8_0(const void *src, float *dst, size_t n);
void quant_to_f32_iq4_nl(const void *src, float *dst, size_t n);
void quant_to_f32_mxfp4(const void *src, float *dst, size_t n);
void quant_to_f32_q2_k(const void *src, float *dst, size_t n);
void quant_to_f32_q3_k(const void *src, float *dst, size_t n);
void quant_to_f32_q4_k(const void *src, float *dst, size_t n);
void quant_to_f32_q5_k(const void *src, float *dst, size_t n);
void quant_to_f32_q6_k(const void *src, float *dst, size_t n);
void quant_to_f32_iq4_xs(const void *src, float *dst, size_t n);
void quant_to_f32_tq2_0(const void *src, float *dst, size_t n);

/* The other way. dst is aligned to 2. */
void quant_from_f32_q4_0(const float *src, void *dst, size_t n);
void quant_from_f32_q4_1(const float *src, void *dst, size_t n);
void quant_from_f32_q5_0(const float *src, void *dst, size_t n);
void quant_from_f32_q5_1(const float *src, void *dst, size_t n);
void quant_from_f32_q8_0(const float *src, void *dst, size_t n);
void quant_from_f32_iq4_nl(const float *src, void *dst, size_t n);
void quant_from_f32_mxfp4(const float *src, void *dst, size_t n);
void quant_from_f32_q2_k(const float *src, void *dst, size_t n);
void quant_from_f32_q3_k(const float *src, void *dst, size_t n);
void quant_from_f32_q4_k(const float *src, void *dst, size_t n);
void quant_from_f32_q5_k(const float *src, void *dst, size_t n);
void quant_from_f32_q6_k(const float *src, void *dst, size_t n);
void quant_from_f32_iq4_xs(const float *src, void *dst, size_t n);
void quant_from_f32_tq2_0(const float *src, void *dst, size_t n);

/* The place of a value in quant_iq4_values. */
uint8_t quant_iq4_index(float value);

/* Whole rows to float by blocks of `block` elements: `scaled` writes the floats of block *b from its integers q. */
#define QUANT_TO_F32(fmt, block, scaled)                                                       \
	void quant_to_f32_##fmt(const void *src, float *dst, size_t n)                         \
	{                                                                                      \
		const struct fmt *b = src;                                                     \
		int8_t q[block];                                                               \
		for (const struct fmt *end = b + n / block; b < end; b++, dst += block) {      \
			quant_ints_##fmt(b, q);                                                \
			scaled;                                                                \
		}                                                                              \
	}

/* And back: block_FMT(src, b) writes block *b from its own floats alone. */
#define QUANT_FROM_F32(fmt, block)                                                             \
	void quant_from_f32_##fmt(const float *src, void *dst, size_t n)                       \
	{                                                                                      \
		struct fmt *b = dst;                                                           \
		for (struct fmt *end = b + n / block; b < end; b++, src += block)              \
			block_##fmt(src, b);                                                   \
	}

#endif
