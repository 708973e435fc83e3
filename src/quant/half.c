/* The two 16-bit float formats, to and from float, in integer code only.
 *
 * Invariants
 *  1. f16 gives the bits of x86 F16C and of ARM's FCVT in round-to-nearest-even mode: subnormals are kept, overflow is
 *     infinity, a NaN keeps its sign and the top bits of its payload and comes out quiet, in both directions. So a
 *     kernel may use the instruction and the reference this code.
 *  2. No floating-point operation runs here: the caller's rounding mode, its flush-to-zero flags and the compiler's
 *     liberties with floats cannot change a result, and no exception flag is raised.
 *  3. bf16 to float is a shift, nothing else; a signalling NaN stays one until someone computes with it.
 *
 * Refuses to know blocks, tensors and which CPU it runs on. */
#include "base/fmath.h"
#include "quant/quant.h"

#define F32_ABS 0x7fffffffu
#define F32_INF 0x7f800000u

/* v / 2^shift, to nearest, ties to even. The carry may run from a mantissa into the exponent above it, which is right:
 * the next float up has the next bit pattern, and the one above the largest is infinity. */
static uint32_t round_even(uint32_t v, unsigned shift)
{
	return (v + (1u << (shift - 1)) - 1 + (v >> shift & 1)) >> shift;
}

float quant_f16_to_f32(uint16_t h)
{
	uint32_t sign = (uint32_t)(h & 0x8000) << 16;
	uint32_t exp = h >> 10 & 0x1f;
	uint32_t man = h & 0x3ff;

	if (exp == 0x1f)
		return fm_from_bits(sign | F32_INF | man << 13 | (man ? 1u << 22 : 0));
	/* The exponents are biased by 15 and 127: 112 apart. */
	if (exp)
		return fm_from_bits(sign | (exp + 112) << 23 | man << 13);
	if (!man)
		return fm_from_bits(sign);
	/* man * 2^-24, and float has room for it as a normal number: the leading bit moves to bit 10 and is dropped
	 * there; each step of the way lowers the exponent, which would be 113 (2^-14) for no step at all. */
	uint32_t up = (uint32_t)__builtin_clz(man) - 21;
	return fm_from_bits(sign | (113 - up) << 23 | (man << up & 0x3ff) << 13);
}

uint16_t quant_f32_to_f16(float f)
{
	uint32_t u = fm_bits(f), abs = u & F32_ABS, h;

	if (abs > F32_INF)
		h = 0x7e00 | (abs >> 13 & 0x3ff);
	else if (abs >= 0x47800000) /* 2^16; what lies between 65520 and that rounds up to infinity by carry */
		h = 0x7c00;
	else if (abs >= 0x38800000) /* 2^-14, the smallest normal number */
		h = round_even(abs - (112u << 23), 13);
	else if (abs >= 0x33000000) /* 2^-25, half of the smallest subnormal: a tie, and zero is even */
		h = round_even((abs & 0x7fffff) | 0x800000, 126 - (abs >> 23)); /* in units of 2^-24 */
	else
		h = 0;
	return (uint16_t)(u >> 16 & 0x8000) | (uint16_t)h;
}

float quant_bf16_to_f32(uint16_t h)
{
	return fm_from_bits((uint32_t)h << 16);
}

uint16_t quant_f32_to_bf16(float f)
{
	uint32_t u = fm_bits(f);

	/* A payload in the lower half only would be cut away and leave infinity: the quiet bit keeps it a NaN. */
	if ((u & F32_ABS) > F32_INF)
		return (uint16_t)(u >> 16 | 0x40);
	return (uint16_t)round_even(u, 16);
}
