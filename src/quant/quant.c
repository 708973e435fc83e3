/* The table of formats, and how many bytes a tensor takes.
 *
 * Invariants
 *  1. A format is in the table whole (name, block, bytes, both conversions) or its name is NULL and it is unknown
 *     everywhere.
 *  2. quant_size never wraps. Its interface has no word for "too large", so it saturates: UINT64_MAX bytes lie in no
 *     file, and the reader's own check against the end of the file refuses the tensor.
 *
 * Refuses to know bit patterns (half.c, and blocks_32.c, blocks_256.c with their counterparts to_blocks_*.c), files,
 * and shapes beyond a row length and a count. */
#include "quant/quant.h"
#include "quant/quant_blocks.h"

#include <float.h>
#include <string.h>

/* Blocks are read through their structs, byte order and all. */
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "GGUF data is little-endian and is read in place");

static void to_f32_f32(const void *src, float *dst, size_t n)
{
	if (n)
		memcpy(dst, src, n * sizeof *dst);
}

static void from_f32_f32(const float *src, void *dst, size_t n)
{
	if (n)
		memcpy(dst, src, n * sizeof *src);
}

/* Whether rounding has made an infinity of a finite number. */
static bool overflowed(float f, bool is_infinite)
{
	return is_infinite && f >= -FLT_MAX && f <= FLT_MAX;
}

/* The two of 16 bits; `inf`: their infinity without its sign. */
#define HALF_FLOATS(fmt, inf)                                                        \
	static void to_f32_##fmt(const void *src, float *dst, size_t n)              \
	{                                                                            \
		const uint16_t *h = src;                                             \
		for (size_t i = 0; i < n; i++)                                       \
			dst[i] = quant_##fmt##_to_f32(h[i]);                         \
	}                                                                            \
	static void from_f32_##fmt(const float *src, void *dst, size_t n)            \
	{                                                                            \
		uint16_t *h = dst;                                                   \
		for (size_t i = 0; i < n; i++) {                                     \
			h[i] = quant_f32_to_##fmt(src[i]);                           \
			if (overflowed(src[i], (h[i] & 0x7fff) == (inf)))            \
				h[i]--;                                              \
		}                                                                    \
	}
HALF_FLOATS(f16, 0x7c00)
HALF_FLOATS(bf16, 0x7f80)

bool quant_finite(const float *x, size_t n)
{
	bool ok = true;

	for (size_t i = 0; i < n; i++)
		ok &= x[i] >= -FLT_MAX && x[i] <= FLT_MAX;
	return ok;
}

static const struct quant_format formats[QUANT_N_TYPES] = {
	[QUANT_F32] = {"F32", 1, sizeof(float), QUANT_ACT_F32, to_f32_f32, from_f32_f32},
	[QUANT_F16] = {"F16", 1, sizeof(uint16_t), QUANT_ACT_F32, to_f32_f16, from_f32_f16},
	[QUANT_BF16] = {"BF16", 1, sizeof(uint16_t), QUANT_ACT_F32, to_f32_bf16, from_f32_bf16},
	[QUANT_Q4_0] = {"Q4_0", 32, sizeof(struct q4_0), QUANT_ACT_Q8_32, quant_to_f32_q4_0, quant_from_f32_q4_0},
	[QUANT_Q4_1] = {"Q4_1", 32, sizeof(struct q4_1), QUANT_ACT_Q8_32, quant_to_f32_q4_1, quant_from_f32_q4_1},
	[QUANT_Q5_0] = {"Q5_0", 32, sizeof(struct q5_0), QUANT_ACT_Q8_32, quant_to_f32_q5_0, quant_from_f32_q5_0},
	[QUANT_Q5_1] = {"Q5_1", 32, sizeof(struct q5_1), QUANT_ACT_Q8_32, quant_to_f32_q5_1, quant_from_f32_q5_1},
	[QUANT_Q8_0] = {"Q8_0", 32, sizeof(struct q8_0), QUANT_ACT_Q8_32, quant_to_f32_q8_0, quant_from_f32_q8_0},
	[QUANT_IQ4_NL] = {"IQ4_NL", 32, sizeof(struct iq4_nl), QUANT_ACT_Q8_32, quant_to_f32_iq4_nl,
		quant_from_f32_iq4_nl},
	[QUANT_MXFP4] = {"MXFP4", 32, sizeof(struct mxfp4), QUANT_ACT_Q8_32, quant_to_f32_mxfp4,
		quant_from_f32_mxfp4},
	[QUANT_Q2_K] = {"Q2_K", 256, sizeof(struct q2_k), QUANT_ACT_Q8_256, quant_to_f32_q2_k, quant_from_f32_q2_k},
	[QUANT_Q3_K] = {"Q3_K", 256, sizeof(struct q3_k), QUANT_ACT_Q8_256, quant_to_f32_q3_k, quant_from_f32_q3_k},
	[QUANT_Q4_K] = {"Q4_K", 256, sizeof(struct q4_k), QUANT_ACT_Q8_256, quant_to_f32_q4_k, quant_from_f32_q4_k},
	[QUANT_Q5_K] = {"Q5_K", 256, sizeof(struct q5_k), QUANT_ACT_Q8_256, quant_to_f32_q5_k, quant_from_f32_q5_k},
	[QUANT_Q6_K] = {"Q6_K", 256, sizeof(struct q6_k), QUANT_ACT_Q8_256, quant_to_f32_q6_k, quant_from_f32_q6_k},
	[QUANT_IQ4_XS] = {"IQ4_XS", 256, sizeof(struct iq4_xs), QUANT_ACT_Q8_256, quant_to_f32_iq4_xs,
		quant_from_f32_iq4_xs},
	[QUANT_TQ2_0] = {"TQ2_0", 256, sizeof(struct tq2_0), QUANT_ACT_Q8_256, quant_to_f32_tq2_0,
		quant_from_f32_tq2_0},
};

const struct quant_format *quant_format_get(uint32_t type)
{
	return type < QUANT_N_TYPES && formats[type].name ? &formats[type] : NULL;
}

bool quant_size(uint32_t type, uint64_t ne0, uint64_t n_rows, uint64_t *n_bytes, bool *bad_row)
{
	const struct quant_format *f = quant_format_get(type);
	uint64_t bytes;

	*n_bytes = 0;
	*bad_row = false;
	if (!f)
		return false;
	if (ne0 % f->block) {
		*bad_row = true;
		return true;
	}
	/* Before the products: a row too large to count, taken no times, is still nothing. */
	if (n_rows == 0)
		return true;
	if (__builtin_mul_overflow(ne0 / f->block, (uint64_t)f->block_bytes, &bytes) ||
			__builtin_mul_overflow(bytes, n_rows, &bytes))
		bytes = UINT64_MAX;
	*n_bytes = bytes;
	return true;
}
