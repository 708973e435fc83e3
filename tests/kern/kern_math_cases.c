/* The scalar definitions of kern_math.h against long double: tanh, log and softplus over floats of every size, and at
 * their ends. docs/numerics.md has the bounds, which runs over all floats gave; this takes every 4,099th, or
 * 32,771st where programs run slowly. Levels have the same bits (the other cases see to that).
 *
 * Seen red: tanh's border at 0.4 (tanh); the last term of log's series (log) or the correction of softplus
 * (softplus) left out. */
#include "effort.h"
#include "kern_common.h"

#include "kern/kern_math.h"

#include <math.h>

/* How far apart the floats are that are tried. */
static uint32_t step(void)
{
	return effort_is("short") ? 32771 : 4099;
}

static double error_of(float got, long double want)
{
	return (double)(fabsl((long double)got - want) / fabsl(want));
}

/* The largest relative error over the floats whose bits are in [from, to). */
static double worst_of(float (*f)(float), long double (*want)(long double), uint32_t from, uint32_t to)
{
	const uint32_t apart = step();
	double worst = 0.0;

	for (uint32_t b = from; b < to; b += apart) {
		const float x = fm_from_bits(b);
		const double e = error_of(f(x), want((long double)x));
		if (!(e <= worst))
			worst = e;
	}
	return worst;
}

void test_tanh(void **state)
{
	(void)state;
	/* From the smallest normal number to where the result is 1, on either side of the change of form. */
	const double near = worst_of(kern_tanh, tanhl, 0x00800000u, fm_bits(KERN_TANH_NEAR));
	const double far = worst_of(kern_tanh, tanhl, fm_bits(KERN_TANH_NEAR), fm_bits(12.0f));
	print_message("kern_tanh: worst relative error %.3g below %g, %.3g above\n", near, (double)KERN_TANH_NEAR, far);
	assert_true(near < 2.01e-7 && far < 1.47e-7);
	for (uint32_t b = 0; b < 0x7f800000u; b += step()) {
		const float x = fm_from_bits(b), t = kern_tanh(x);
		assert_true(t >= 0.0f && t <= 1.0f && fm_bits(kern_tanh(-x)) == (fm_bits(t) | 0x80000000u));
		assert_true(b >= 0x00800000u || t == x);
	}
	assert_true(kern_tanh(INFINITY) == 1.0f && kern_tanh(-INFINITY) == -1.0f && isnan(kern_tanh(NAN)));
	assert_true(fm_bits(kern_tanh(0.0f)) == 0 && fm_bits(kern_tanh(-0.0f)) == 0x80000000u);
}

void test_log(void **state)
{
	(void)state;
	const double below = worst_of(kern_log, logl, 0x00800000u, 0x3f800000u);
	const double above = worst_of(kern_log, logl, 0x3f800001u, 0x7f800000u);
	print_message("kern_log: worst relative error %.3g\n", below > above ? below : above);
	assert_true(below < 1.76e-7 && above < 1.76e-7);
	assert_true(fm_bits(kern_log(1.0f)) == 0);
}

static long double softplus(long double x)
{
	return x > 100.0L ? x : log1pl(expl(x));
}

void test_softplus(void **state)
{
	(void)state;
	const double above = worst_of(kern_softplus, softplus, 0, fm_bits(1e30f));
	const double below = worst_of(kern_softplus, softplus, 0x80000000u, fm_bits(-87.0f));
	print_message("kern_softplus: worst relative error %.3g above 0, %.3g below\n", above, below);
	assert_true(above < 1.5e-7 && below < 2.83e-7);
	/* Where exp is 0 nothing is left. */
	assert_true(fm_bits(kern_softplus(-87.5f)) == 0 && fm_bits(kern_softplus(-INFINITY)) == 0);
	assert_true(kern_softplus(3e38f) == 3e38f && kern_softplus(INFINITY) == INFINITY && isnan(kern_softplus(NAN)));
}
