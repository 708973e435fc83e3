/* Elementary functions for rotary tables and sampling. Taylor series on reduced ranges: more terms than a minimax fit,
 * but the constants are self-evident and the speed does not matter here. fma() is exact by definition wherever it runs.
 */
#include "base/fmath.h"

#include <math.h>
#include <stdint.h>
#include <string.h>

static const double ln2_hi = FM_LN2_HI, ln2_lo = FM_LN2_LO;

/* 2^n for any n an exp can need, by way of the exponent bits. */
static double scale2(double x, int n)
{
	while (n > 1000) {
		x *= 0x1p1000;
		n -= 1000;
	}
	while (n < -1000) {
		x *= 0x1p-1000;
		n += 1000;
	}
	uint64_t bits = (uint64_t)(n + 1023) << 52;
	double p;
	memcpy(&p, &bits, sizeof p);
	return x * p;
}

double fm_exp(double x)
{
	static const double terms[] = FM_EXP_TERMS;

	if (!(x < 710.0))
		return x >= 710.0 ? (double)INFINITY : x;
	if (x < -746.0)
		return 0.0;
	double t = x * FM_LOG2E;
	int n = (int)(t < 0 ? t - 0.5 : t + 0.5);
	double r = fma(-(double)n, ln2_hi, x);
	r = fma(-(double)n, ln2_lo, r);
	double p = terms[FM_EXP_DEGREE];
	for (int i = FM_EXP_DEGREE - 1; i >= 0; i--)
		p = fma(p, r, terms[i]);
	return scale2(p, n);
}

double fm_log(double x)
{
	if (!(x > 0.0))
		return x == 0.0 ? -(double)INFINITY : (double)NAN;
	if (x > 0x1.fffffffffffffp+1023)
		return x;
	int e = 0;
	if (x < 0x1p-1022) {
		x *= 0x1p54;
		e = -54;
	}
	uint64_t bits;
	memcpy(&bits, &x, sizeof bits);
	e += (int)(bits >> 52) - 1023;
	bits = (bits & 0x000fffffffffffffu) | 0x3ff0000000000000u;
	double m;
	memcpy(&m, &bits, sizeof m);
	if (m > 0x1.6a09e667f3bcdp+0) { /* keep m within a factor sqrt(2) of 1 */
		m *= 0.5;
		e++;
	}
	/* log m = 2 artanh(s), s = (m - 1) / (m + 1), |s| < 0.172 */
	double s = (m - 1.0) / (m + 1.0), z = s * s, p = 1.0 / 23;
	for (int k = 21; k >= 3; k -= 2)
		p = fma(p, z, 1.0 / k);
	double l = fma(2.0 * s * z, p, 2.0 * s);
	return fma((double)e, ln2_hi, fma((double)e, ln2_lo, l));
}

double fm_pow(double x, double y)
{
	return fm_exp(y * fm_log(x));
}

void fm_sincos(double x, double *sp, double *cp)
{
	/* pi/2 in three parts; with fma the reduction is good to 1e-25 in the range below. */
	static const double hi = 0x1.921fb54442d18p+0, mid = 0x1.1a62633145c07p-54, lo = -0x1.f1976b7ed8fbcp-110;

	if (!(x > -0x1p27 && x < 0x1p27)) {
		*sp = *cp = (double)NAN;
		return;
	}
	double t = x * 0x1.45f306dc9c883p-1;
	int64_t n = (int64_t)(t < 0 ? t - 0.5 : t + 0.5);
	double r = fma(-(double)n, hi, x);
	r = fma(-(double)n, mid, r);
	r = fma(-(double)n, lo, r);
	double z = r * r, s = 1.0, c = 1.0;
	/* sin r = r (1 - z/2.3 (1 - z/4.5 (...))), cos likewise; nine terms leave less than 1e-17 for |r| <= pi/4. */
	for (int k = 17; k >= 3; k -= 2)
		s = fma(-z / (double)(k * (k - 1)), s, 1.0);
	for (int k = 16; k >= 2; k -= 2)
		c = fma(-z / (double)(k * (k - 1)), c, 1.0);
	s *= r;
	switch (n & 3) {
	case 0: *sp = s; *cp = c; break;
	case 1: *sp = c; *cp = -s; break;
	case 2: *sp = -s; *cp = -c; break;
	default: *sp = -c; *cp = s; break;
	}
}
