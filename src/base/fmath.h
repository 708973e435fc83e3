/* The bits of floats; our own elementary functions in double. libm picks variants by CPU, so its last bit may differ
 * between machines; these are plain IEEE operations in a fixed order. Error below 2 ulp in the ranges named. */
#ifndef BASE_FMATH_H
#define BASE_FMATH_H

#include <stdint.h>
#include <string.h>

/* Of fm_exp, for kernels that take the same steps in vectors: x = n ln 2 + r, and the terms of e^r. */
#define FM_LOG2E 0x1.71547652b82fep+0
#define FM_LN2_HI 0x1.62e42fefa39efp-1
#define FM_LN2_LO 0x1.abc9e3b39803fp-56
#define FM_EXP_TERMS \
	{ \
		1.0, 1.0, 1.0 / 2, 1.0 / 6, 1.0 / 24, 1.0 / 120, 1.0 / 720, 1.0 / 5040, 1.0 / 40320, 1.0 / 362880, \
				1.0 / 3628800, 1.0 / 39916800, 1.0 / 479001600, 1.0 / 6227020800.0 \
	}
enum { FM_EXP_DEGREE = 13 };

/* The bits of a float, and the float of bits. */
static inline uint32_t fm_bits(float f)
{
	uint32_t b;
	memcpy(&b, &f, sizeof b);
	return b;
}

static inline float fm_from_bits(uint32_t b)
{
	float f;
	memcpy(&f, &b, sizeof f);
	return f;
}

double fm_exp(double x);               /* any x; overflow to Inf, underflow to 0 */
double fm_log(double x);               /* x > 0; 0 gives -Inf, negative NaN */
double fm_pow(double x, double y);     /* x > 0, by exp(y * log(x)): relative error grows with |y log x| */
void fm_sincos(double x, double *s, double *c); /* |x| < 2^27; beyond, NaN */

#endif
