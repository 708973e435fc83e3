/* Inside src/quant: the scales that round a run of floats to small integers with the least squared error. */
#ifndef QUANT_QUANT_FIT_H
#define QUANT_QUANT_FIT_H

#include "quant/quant.h"

/* Floats of a block, and the integers found for them, of which the number is a multiple of 8. */
#define QUANT_FIT_MAX 256

/* What an element may become before it is scaled: the integers lo..hi, or the values of quant_iq4_values. */
struct quant_grid {
	float lo, hi;
	bool iq4;
};

/* Scales to try: those that bring the element of largest magnitude to from, from + step, ... (n_steps of them). Where
 * mirror is set, to the negatives of these also, for a grid whose two sides differ. */
struct quant_tries {
	float from, step;
	int n_steps;
	bool mirror;
};

/* Copies n floats, what is not finite as 0, and what is beyond 2^30 (no format reaches so far) as that. Returns the
 * largest magnitude, or 0 when all are too small for a scale in f16; the copy is then all zeros. */
float quant_fit_clean(const float *src, int n, float *x);

/* A scale in f16: finite whatever s is, and 0 only where s is. */
uint16_t quant_fit_f16(float s);

/* q = what the grid has nearest to (x + shift) / scale; all of scale 0 is what the grid has nearest to 0. */
void quant_fit_round(const struct quant_grid *g, const float *x, int n, float scale, float shift, float *q);

/* The sum of (scale * q - shift - x)^2, and of a * b. */
float quant_fit_error(const float *x, const float *q, int n, float scale, float shift);
float quant_fit_dot(const float *a, const float *b, int n);

/* The scale, possibly negative, for x close to scale * q. 0 for x all 0. */
float quant_fit_scale(const struct quant_grid *g, const struct quant_tries *t, const float *x, int n);

/* Scale (not negative) and shift for x close to scale * q - shift, q in 0..g->hi. Where no_less is set the shift is not
 * negative. Elements all alike have scale 0, unless the shift would have to be negative. */
void quant_fit_affine(const struct quant_grid *g, const struct quant_tries *t, const float *x, int n, bool no_less,
		float *scale, float *shift);

#endif
