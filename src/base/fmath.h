/* Our own elementary functions in double. libm picks variants by CPU, so its last bit may differ between machines;
 * these are plain IEEE operations in a fixed order. Error below 2 ulp in the ranges named. */
#ifndef BASE_FMATH_H
#define BASE_FMATH_H

double fm_exp(double x);               /* any x; overflow to Inf, underflow to 0 */
double fm_log(double x);               /* x > 0; 0 gives -Inf, negative NaN */
double fm_pow(double x, double y);     /* x > 0, by exp(y * log(x)): relative error grows with |y log x| */
void fm_sincos(double x, double *s, double *c); /* |x| < 2^27; beyond, NaN */

#endif
