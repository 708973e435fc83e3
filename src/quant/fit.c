/* Rounds runs of floats to small integers times a scale, with the least squared error that a search finds.
 *
 * The best scale has no closed form, because the integers depend on it. Given the integers, though, the best scale is a
 * least-squares fit. So each try fixes the integers by rounding with some scale and is judged by what the best fit to
 * these integers leaves; the winner is then rounded anew with its own fitted scale, until that gains nothing.
 *
 * Invariants
 *  1. The same bytes from every compiler, level of optimisation and CPU: sums run in LANES separate sums in the order
 *     that is written here, nothing is fused, and nothing but + - * / and comparisons is used. Rounding is to nearest,
 *     ties to even, by adding and taking off 1.5 * 2^23, after the clamp that keeps it in the range where this holds.
 *  2. No division by zero and no overflow: what comes in was cleaned, so that magnitudes are at most 2^30, and the
 *     largest at least 2^-25. Squares of the smallest ones may vanish, which changes a choice and not its validity.
 *  3. x is read for n elements and q written for n, which is a multiple of LANES.
 *
 * Refuses to know how integers and scales are laid out in a block (to_blocks_32.c, to_blocks_256.c). */
#include "quant/quant_fit.h"

#include <float.h>

#define LANES 8
#define N_REFINE 3

static float pick(float a, float lo, float hi)
{
	a = a < lo ? lo : a;
	return a > hi ? hi : a;
}

/* |a| up to 2^22. */
static float nearest(float a)
{
	return a + 0x1.8p23f - 0x1.8p23f;
}

static float sum_lanes(const float s[LANES])
{
	return ((s[0] + s[4]) + (s[2] + s[6])) + ((s[1] + s[5]) + (s[3] + s[7]));
}

float quant_fit_dot(const float *a, const float *b, int n)
{
	float s[LANES] = {0};

	for (int i = 0; i < n; i += LANES)
		for (int l = 0; l < LANES; l++)
			s[l] += a[i + l] * b[i + l];
	return sum_lanes(s);
}

float quant_fit_error(const float *x, const float *q, int n, float scale, float shift)
{
	float s[LANES] = {0};

	for (int i = 0; i < n; i += LANES)
		for (int l = 0; l < LANES; l++) {
			float e = scale * q[i + l] - shift - x[i + l];

			s[l] += e * e;
		}
	return sum_lanes(s);
}

static float sum(const float *a, int n)
{
	float s[LANES] = {0};

	for (int i = 0; i < n; i += LANES)
		for (int l = 0; l < LANES; l++)
			s[l] += a[i + l];
	return sum_lanes(s);
}

float quant_fit_clean(const float *src, int n, float *x)
{
	float top = 0;

	for (int i = 0; i < n; i++) {
		float v = src[i] >= -FLT_MAX && src[i] <= FLT_MAX ? src[i] : 0;

		x[i] = pick(v, -0x1p30f, 0x1p30f);
		v = x[i] < 0 ? -x[i] : x[i];
		top = v > top ? v : top;
	}
	if (top >= 0x1p-25f)
		return top;
	for (int i = 0; i < n; i++)
		x[i] = 0;
	return 0;
}

uint16_t quant_fit_f16(float s)
{
	uint16_t h = quant_f32_to_f16(pick(s, -65504.0f, 65504.0f));

	/* Rounded to nothing, all elements would be lost, although the smallest scale still tells some of them
	 * apart. */
	if (s != 0 && !(h & 0x7fff))
		h |= 1;
	return h;
}

/* Counts up through the midpoints between neighbouring values, which needs no table look-up per element. */
static void round_iq4(const float *x, int n, float inv, float *q)
{
	for (int i = 0; i < n; i++)
		q[i] = (float)quant_iq4_values[0];
	for (int k = 0; k < 15; k++) {
		float low = (float)quant_iq4_values[k], high = (float)quant_iq4_values[k + 1];
		float middle = 0.5f * (low + high), up = high - low;

		for (int i = 0; i < n; i++)
			q[i] += x[i] * inv > middle ? up : 0.0f;
	}
}

static void round_inverse(const struct quant_grid *g, const float *x, int n, float inv, float shift, float *q)
{
	float lo = g->lo, hi = g->hi;

	if (g->iq4) {
		round_iq4(x, n, inv, q);
		return;
	}
	for (int i = 0; i < n; i++)
		q[i] = nearest(pick((x[i] + shift) * inv, lo, hi));
}

void quant_fit_round(const struct quant_grid *g, const float *x, int n, float scale, float shift, float *q)
{
	round_inverse(g, x, n, scale == 0 ? 0 : 1 / scale, shift, q);
}

static float peak_of(const float *x, int n)
{
	float peak = 0, top = 0;

	for (int i = 0; i < n; i++) {
		float v = x[i] < 0 ? -x[i] : x[i];

		peak = v > top ? x[i] : peak;
		top = v > top ? v : top;
	}
	return peak;
}

/* Keeps the scale that fits x best among those of the integers that inv gives. The squared error left by the best
 * scale is x.x - (q.x)^2 / q.q, and x.x is the same for all. */
static bool try_scale(const struct quant_grid *g, const float *x, int n, float inv, float *scale, float *gain)
{
	float q[QUANT_FIT_MAX], qx, qq;

	round_inverse(g, x, n, inv, 0, q);
	qx = quant_fit_dot(q, x, n);
	qq = quant_fit_dot(q, q, n);
	if (!(qq > 0) || !(qx * (qx / qq) > *gain))
		return false;
	*gain = qx * (qx / qq);
	*scale = qx / qq;
	return true;
}

float quant_fit_scale(const struct quant_grid *g, const struct quant_tries *t, const float *x, int n)
{
	float peak = peak_of(x, n), gain = 0, scale = 0;

	/* Smaller than any f16 the inverse might not be finite. */
	if (peak > -0x1p-40f && peak < 0x1p-40f)
		return 0;
	for (int i = 0; i < t->n_steps; i++) {
		float inv = (t->from + t->step * (float)i) / peak;

		try_scale(g, x, n, inv, &scale, &gain);
		if (t->mirror)
			try_scale(g, x, n, -inv, &scale, &gain);
	}
	for (int i = 0; i < N_REFINE && scale != 0; i++)
		if (!try_scale(g, x, n, 1 / scale, &scale, &gain))
			break;
	return scale;
}

/* A fit of both numbers, and what it is judged by: the sum of squares less the squared error. */
struct affine {
	float scale, shift, gain;
};

/* The fit scale * q - shift to y for given integers, where shift must not be below least (at most 0). */
static struct affine affine_of(const float *y, const float *q, int n, float least)
{
	float qy = quant_fit_dot(q, y, n), qq = quant_fit_dot(q, q, n), sq = sum(q, n), sy = sum(y, n);
	float count = (float)n, det = count * qq - sq * sq;
	struct affine a = {0, 0, 0};

	if (det > 0) {
		a.scale = (count * qy - sq * sy) / det;
		a.shift = (sq * qy - qq * sy) / det;
	}
	if (!(a.scale > 0)) {
		a.scale = 0;
		a.shift = -sy / count;
	}
	if (a.shift < least) {
		/* The bound holds the shift: only the scale is left to fit. */
		float qx = qy + least * sq;

		a.shift = least;
		a.scale = qx > 0 && qq > 0 ? qx / qq : 0;
	}
	a.gain = 2 * (a.scale * qy - a.shift * sy) -
			(a.scale * (a.scale * qq - 2 * a.shift * sq) + count * a.shift * a.shift);
	return a;
}

static bool try_affine(const struct quant_grid *g, const float *y, int n, float inv, float shift, float least,
		struct affine *best)
{
	float q[QUANT_FIT_MAX];
	struct affine a;

	round_inverse(g, y, n, inv, shift, q);
	a = affine_of(y, q, n, least);
	if (!(a.gain > best->gain))
		return false;
	*best = a;
	return true;
}

void quant_fit_affine(const struct quant_grid *g, const struct quant_tries *t, const float *x, int n, bool no_less,
		float *scale, float *shift)
{
	float low = x[0], high = x[0], least, y[QUANT_FIT_MAX];
	struct affine best = {0, 0, 0};

	for (int i = 1; i < n; i++) {
		low = x[i] < low ? x[i] : low;
		high = x[i] > high ? x[i] : high;
	}
	if (no_less && low > 0)
		low = 0;
	/* Counted from the lowest, lest sums cancel where all elements are much alike. */
	for (int i = 0; i < n; i++)
		y[i] = x[i] - low;
	least = no_less ? low : -FLT_MAX;
	if (high - low > 0x1p-40f) {
		for (int i = 0; i < t->n_steps; i++)
			try_affine(g, y, n, (t->from + t->step * (float)i) / (high - low), 0, least, &best);
		for (int i = 0; i < N_REFINE && best.scale > 0x1p-40f; i++)
			if (!try_affine(g, y, n, 1 / best.scale, best.shift, least, &best))
				break;
	}
	*scale = best.scale;
	*shift = best.shift - low;
}
