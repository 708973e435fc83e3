/* The base room: the generator, which may never change, and the elementary functions beside libm's. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/fmath.h"
#include "base/rng.h"

/* ---- The generator ---- */

/* Seeds are written down by users: the same (seed, stream) must give the same text in every version. */
static void rng_known(void **state)
{
	static const struct {
		uint64_t seed, stream;
		uint32_t u[4];
		double f;
	} known[] = {
		{0, 0, {0x7b996d7a, 0x6fd02248, 0xa1cb42c8, 0xb7196963}, 0x1.ee65b5b7e8112p-2},
		{0, 1, {0xf5c12614, 0xc17bbe64, 0x4354f6bb, 0xf314b6f5}, 0x1.eb824c305eef9p-1},
		{1, 0, {0xd5828dcb, 0xbda3460f, 0x8a64b771, 0xae2d8a46}, 0x1.ab051baf68d18p-1},
		{42, 7, {0x951665d6, 0x22608c30, 0x1c15dc2a, 0x50a48934}, 0x1.2a2ccb889823p-1},
		{UINT64_MAX, UINT64_MAX, {0xefccecb3, 0xbd635aba, 0x67aeebbd, 0xa8239994}, 0x1.df99d96f58d6ap-1},
	};
	(void)state;

	for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
		struct rng r;
		rng_init(&r, known[i].seed, known[i].stream);
		for (int k = 0; k < 4; k++)
			assert_int_equal(rng_u32(&r), known[i].u[k]);
		rng_init(&r, known[i].seed, known[i].stream);
		assert_true(rng_f64(&r) == known[i].f);
		assert_int_equal(rng_u32(&r), known[i].u[2]); /* two draws were taken */
	}
}

/* Neighbouring seeds and streams share no outputs to speak of: as bits, half of them differ. */
static void rng_streams(void **state)
{
	enum { N = 24, DRAWS = 1000 };
	static uint32_t out[N][DRAWS];
	(void)state;

	for (uint64_t i = 0; i < N; i++) {
		struct rng r;
		rng_init(&r, i / 6, i % 6);
		for (int k = 0; k < DRAWS; k++)
			out[i][k] = rng_u32(&r);
	}
	for (int i = 0; i < N; i++)
		for (int j = 0; j < i; j++) {
			int same = 0, bits = 0;
			for (int k = 0; k < DRAWS; k++) {
				same += out[i][k] == out[j][k];
				bits += __builtin_popcount(out[i][k] ^ out[j][k]);
			}
			assert_true(same <= 1);
			/* 32,000 coins: 16,000 +- 89; six deviations. */
			assert_true(abs(bits - 16 * DRAWS) < 537);
		}
}

static void rng_uniform(void **state)
{
	enum { BINS = 1000, DRAWS = 1000000 };
	static int n[BINS], pairs[32][32];
	double chi = 0, chi2 = 0, last = 0;
	struct rng r;
	(void)state;

	rng_init(&r, 2024, 1);
	for (int i = 0; i < DRAWS; i++) {
		double x = rng_f64(&r);
		assert_true(x >= 0 && x < 1);
		n[(int)(x * BINS)]++;
		pairs[(int)(last * 32)][(int)(x * 32)]++;
		last = x;
	}
	for (int i = 0; i < BINS; i++)
		chi += (n[i] - DRAWS / BINS) * (double)(n[i] - DRAWS / BINS) / (DRAWS / BINS);
	for (int i = 0; i < 1024; i++)
		chi2 += pow(pairs[i / 32][i % 32] - DRAWS / 1024.0, 2) / (DRAWS / 1024.0);
	/* Mean = degrees of freedom, deviation = sqrt(2 * that) = 45; six deviations either way. */
	assert_true(fabs(chi - 999) < 270);
	assert_true(fabs(chi2 - 1023) < 272);
}

/* ---- Elementary functions ---- */

static void near(const char *what, double x, double got, double want, double relative, double absolute)
{
	if (!(fabs(got - want) <= relative * fabs(want) + absolute))
		fail_msg("%s(%a) is %a, libm says %a", what, x, got, want);
}

static double between(struct rng *r, double a, double b)
{
	return a + (b - a) * rng_f64(r);
}

static void fm_exp_near(void **state)
{
	struct rng r;
	(void)state;

	rng_init(&r, 1, 0);
	for (int i = 0; i < 100000; i++) {
		double wide = between(&r, -708, 709.7), small = between(&r, -2, 2), tiny = ldexp(small, -(i % 60));
		near("fm_exp", wide, fm_exp(wide), exp(wide), 1e-15, 0);
		near("fm_exp", small, fm_exp(small), exp(small), 1e-15, 0);
		near("fm_exp", tiny, fm_exp(tiny), exp(tiny), 1e-15, 0);
		double deep = between(&r, -745, -708); /* results without full precision: a unit of the last place */
		near("fm_exp", deep, fm_exp(deep), exp(deep), 1e-15, 0x1p-1074);
	}
}

static void fm_exp_special(void **state)
{
	(void)state;
	assert_true(fm_exp(0.0) == 1.0);
	assert_true(fm_exp(-0.0) == 1.0);
	assert_true(fm_exp((double)INFINITY) == (double)INFINITY);
	assert_true(fm_exp(710.0) == (double)INFINITY);
	assert_true(fm_exp(709.79) == (double)INFINITY);
	assert_true(isfinite(fm_exp(709.78)));
	assert_true(fm_exp(-(double)INFINITY) == 0.0);
	assert_true(fm_exp(-1e300) == 0.0);
	assert_true(fm_exp(-746.0) == 0.0);
	assert_true(fm_exp(-745.0) > 0.0);
	assert_true(isnan(fm_exp((double)NAN)));
}

static void fm_log_near(void **state)
{
	struct rng r;
	(void)state;

	rng_init(&r, 2, 0);
	for (int i = 0; i < 100000; i++) {
		double wide = ldexp(between(&r, 1, 2), (int)(rng_u32(&r) % 2040) - 1020), one = between(&r, 0.5, 2);
		double close = 1.0 + ldexp(between(&r, -1, 1), -(i % 52) - 1);
		double low = ldexp(between(&r, 1, 2), -1074 + i % 52); /* subnormal */
		near("fm_log", wide, fm_log(wide), log(wide), 1e-15, 0);
		near("fm_log", one, fm_log(one), log(one), 1e-15, 0);
		near("fm_log", close, fm_log(close), log(close), 1e-15, 0);
		near("fm_log", low, fm_log(low), log(low), 1e-15, 0);
	}
}

static void fm_log_special(void **state)
{
	(void)state;
	assert_true(fm_log(1.0) == 0.0);
	assert_true(fm_log(0.0) == -(double)INFINITY);
	assert_true(fm_log(-0.0) == -(double)INFINITY);
	assert_true(isnan(fm_log(-1.0)));
	assert_true(isnan(fm_log(-(double)INFINITY)));
	assert_true(isnan(fm_log((double)NAN)));
	assert_true(fm_log((double)INFINITY) == (double)INFINITY);
	near("fm_log", 0x1p-1074, fm_log(0x1p-1074), log(0x1p-1074), 1e-15, 0);
	near("fm_log", DBL_MAX, fm_log(DBL_MAX), log(DBL_MAX), 1e-15, 0);
}

static void fm_pow_near(void **state)
{
	struct rng r;
	(void)state;

	rng_init(&r, 3, 0);
	for (int i = 0; i < 100000; i++) {
		double x = ldexp(between(&r, 1, 2), (int)(rng_u32(&r) % 40) - 20), y = between(&r, -20, 20);
		near("fm_pow", x, fm_pow(x, y), pow(x, y), 1e-15 * (1 + fabs(y * log(x))), 0);
	}
	assert_true(fm_pow(10000.0, 0.0) == 1.0);
	assert_true(fm_pow(1.0, 1e300) == 1.0);
}

static void fm_sincos_near(void **state)
{
	static const double ranges[] = {1e-8, 0.8, 10, 1e6, 1e8};
	struct rng r;
	(void)state;

	rng_init(&r, 4, 0);
	for (size_t k = 0; k < sizeof ranges / sizeof *ranges; k++)
		for (int i = 0; i < 100000; i++) {
			double x = between(&r, -ranges[k], ranges[k]), s, c;
			/* Positions are whole numbers, and multiples of pi/2 are where digits are lost. */
			if (i % 4 == 3)
				x = i % 8 == 3 ? floor(x) : floor(x / 1.5707963267948966) * 1.5707963267948966;
			fm_sincos(x, &s, &c);
			near("sine", x, s, sin(x), 0, 1e-12);
			near("cosine", x, c, cos(x), 0, 1e-12);
			if (k < 2)
				near("sine", x, s, sin(x), 1e-15, 0);
		}
}

static void fm_sincos_special(void **state)
{
	static const double outside[] = {0x1p27, -0x1p27, 1e300, (double)INFINITY, -(double)INFINITY, (double)NAN};
	double s, c;
	(void)state;

	fm_sincos(0.0, &s, &c);
	assert_true(s == 0.0 && c == 1.0);
	fm_sincos(0x1p27 - 1, &s, &c);
	near("sine", 0x1p27 - 1, s, sin(0x1p27 - 1), 0, 1e-12);
	near("cosine", 0x1p27 - 1, c, cos(0x1p27 - 1), 0, 1e-12);
	for (size_t i = 0; i < sizeof outside / sizeof *outside; i++) {
		s = c = 0;
		fm_sincos(outside[i], &s, &c);
		assert_true(isnan(s) && isnan(c));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rng_known),
		cmocka_unit_test(rng_streams),
		cmocka_unit_test(rng_uniform),
		cmocka_unit_test(fm_exp_near),
		cmocka_unit_test(fm_exp_special),
		cmocka_unit_test(fm_log_near),
		cmocka_unit_test(fm_log_special),
		cmocka_unit_test(fm_pow_near),
		cmocka_unit_test(fm_sincos_near),
		cmocka_unit_test(fm_sincos_special),
	};

	return cmocka_run_group_tests_name("base_math", tests, NULL, NULL);
}
