/* Floats to blocks, every format: blocks that are known to exist are found again, errors stay below measured bounds on
 * inputs of several kinds, hostile floats give sane blocks, nothing outside the buffers matters or changes, and the
 * bytes are the same whatever compiled this.
 *
 * The tests see blocks only through to_f32, which test_quant.c holds to a second reading of the formats.
 *
 * Planted faults, tried: scales taken from the try instead of the least-squares fit (errors, constant and exact red);
 * one try only for scale and minimum (errors and exact red); no neighbours of a sub-block's nearest scale (errors and
 * constant red); a minimum sought one step beside its place (checksum red, the errors hide it). */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "quant/quant.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define N_ROWS (256 * 64)
#define BYTES_MAX 1024 /* of one block of the largest format, and of 256 floats */

enum kind { NORMAL, UNIFORM, SPARSE, OUTLIER, POSITIVE, N_KINDS };

/* What a format can hold, in words of arithmetic: (d * sc) * q - (dmin * m), and what is expected of it. */
struct expected {
	enum quant_type type;
	int sub;                  /* elements that share a scale */
	int q_lo, q_hi;           /* iq4: places in the table */
	int sc_lo, sc_hi;         /* 1, 1: no scales but d */
	int m_hi;                 /* 0: no minimum */
	double bound[N_KINDS];    /* of sum((a - b)^2) / sum(b^2), by kind */
	uint64_t checksum;        /* of the bytes that rows of all kinds give */
};

/* Each bound is 1.05 times what was measured. A checksum may change only with the search itself. */
static const struct expected formats[] = {
	{QUANT_F32, 32, -9, 9, 1, 1, 0,
		{0, 0, 0, 0, 0}, 0x9118b65791ee68c7},
	{QUANT_F16, 32, -1, 1, 1, 1, 0,
		{4.52e-8, 3.58e-8, 4.63e-8, 5.23e-8, 3.55e-8}, 0x5782f139e0b70db9},
	{QUANT_BF16, 32, -9, 9, 1, 1, 0,
		{2.95e-6, 2.28e-6, 3.12e-6, 2.53e-6, 2.27e-6}, 0xc60bbe741059f7a3},
	{QUANT_Q4_0, 32, -8, 7, 1, 1, 0,
		{6.57e-3, 3.68e-3, 1.48e-3, 1.19e-2, 1.79e-3}, 0x7ffbb2f18803d9ea},
	{QUANT_Q4_1, 32, 0, 15, 1, 1, 1,
		{4.90e-3, 3.03e-3, 1.11e-3, 7.34e-3, 1.09e-4}, 0x769ac061d00c4df1},
	{QUANT_Q5_0, 32, -16, 15, 1, 1, 0,
		{1.62e-3, 8.33e-4, 3.43e-4, 5.65e-3, 4.51e-4}, 0xf98cc96cbe88447e},
	{QUANT_Q5_1, 32, 0, 31, 1, 1, 1,
		{1.16e-3, 7.16e-4, 2.34e-4, 2.08e-3, 2.52e-5}, 0xc451e06ff38c620d},
	{QUANT_Q8_0, 32, -127, 127, 1, 1, 0,
		{2.69e-5, 1.38e-5, 6.95e-6, 1.08e-4, 7.72e-6}, 0x9a77d6508c8d13b1},
	{QUANT_IQ4_NL, 32, 0, 15, 1, 1, 0,
		{5.46e-3, 4.05e-3, 2.62e-3, 9.64e-3, 3.07e-3}, 0xc20d6c2eecc17dcc},
	{QUANT_Q2_K, 16, 0, 3, 0, 15, 15,
		{6.88e-2, 4.97e-2, 1.75e-2, 4.54e-2, 9.15e-3}, 0x09321806a798ff1d},
	{QUANT_Q3_K, 16, -4, 3, -32, 31, 0,
		{2.07e-2, 1.47e-2, 3.87e-3, 1.77e-2, 6.28e-3}, 0x1fdeb4026f113d3b},
	{QUANT_Q4_K, 32, 0, 15, 0, 63, 63,
		{4.91e-3, 3.03e-3, 1.29e-3, 7.46e-3, 5.05e-4}, 0x5804b8f6951d490f},
	{QUANT_Q5_K, 32, 0, 31, 0, 63, 63,
		{1.19e-3, 7.36e-4, 3.61e-4, 2.05e-3, 1.21e-4}, 0x325f3efff405de77},
	{QUANT_Q6_K, 16, -32, 31, -128, 127, 0,
		{2.92e-4, 1.69e-4, 4.40e-5, 8.03e-4, 9.70e-5}, 0x71ec0f52f9dcbdda},
	{QUANT_IQ4_XS, 32, 0, 15, -32, 31, 0,
		{5.53e-3, 4.10e-3, 2.72e-3, 9.88e-3, 3.11e-3}, 0x356133445a67bd55},
	{QUANT_TQ2_0, 256, -1, 1, 1, 1, 0,
		{1.91e-1, 1.16e-1, 1.79e-1, 1.73e-1, 3.72e-2}, 0x374ce44f750711cc},
	{QUANT_MXFP4, 32, 0, 15, 1, 1, 0,
		{1.29e-2, 1.04e-2, 1.17e-2, 1.95e-2, 9.31e-3}, 0x3f1869607909a490},
};
#define N_FORMATS (sizeof formats / sizeof *formats)

/* splitmix64: the same numbers in every run. */
static uint64_t next(uint64_t *state)
{
	uint64_t z = *state += 0x9e3779b97f4a7c15u;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
	z = (z ^ z >> 27) * 0x94d049bb133111ebu;
	return z ^ z >> 31;
}

static int between(uint64_t *s, int lo, int hi)
{
	return lo + (int)(next(s) % (uint64_t)(hi - lo + 1));
}

/* [-1, 1), in steps of 2^-23. */
static float uniform(uint64_t *s)
{
	return (float)between(s, -(1 << 23), (1 << 23) - 1) * 0x1p-23f;
}

/* Nearly normal, variance 1: a sum of twelve, without a function whose last bit depends on the library. */
static float normal(uint64_t *s)
{
	int sum = 0;

	for (int i = 0; i < 12; i++)
		sum += (int)(next(s) >> 44);
	return (float)(sum - (6 << 20)) * 0x1p-20f;
}

static float sample(enum kind kind, uint64_t *s)
{
	switch (kind) {
	case NORMAL: return normal(s) * 0.02f;
	case UNIFORM: return uniform(s);
	case SPARSE: return next(s) % 10 ? 0.0f : normal(s);
	case OUTLIER: return next(s) % 500 ? normal(s) : 30 * normal(s);
	default: return 3 + uniform(s);
	}
}

static void fill(enum kind kind, float *x, size_t n)
{
	uint64_t s = 100 + (uint64_t)kind;

	for (size_t i = 0; i < n; i++)
		x[i] = sample(kind, &s);
}

static void *get(size_t n_bytes)
{
	void *p = malloc(n_bytes);

	assert_non_null(p);
	return p;
}

static size_t bytes_of(const struct quant_format *f, size_t n)
{
	return n / f->block * f->block_bytes;
}

/* From float and back. */
static void round_trip(const struct quant_format *f, const float *x, float *y, size_t n)
{
	void *blocks = get(bytes_of(f, n));

	f->from_f32(x, blocks, n);
	f->to_f32(blocks, y, n);
	free(blocks);
}

static double error_of(const float *y, const float *x, size_t n)
{
	double diff = 0, sum = 0;

	for (size_t i = 0; i < n; i++) {
		diff += ((double)y[i] - x[i]) * ((double)y[i] - x[i]);
		sum += (double)x[i] * x[i];
	}
	return diff / sum;
}

/* ---- Errors ---- */

static void test_quantisation_error_is_bounded(void **state)
{
	float *x = get(N_ROWS * sizeof *x), *y = get(N_ROWS * sizeof *y);

	(void)state;
	for (int kind = 0; kind < N_KINDS; kind++) {
		fill((enum kind)kind, x, N_ROWS);
		for (size_t i = 0; i < N_FORMATS; i++) {
			const struct quant_format *f = quant_format_get(formats[i].type);
			double error;

			round_trip(f, x, y, N_ROWS);
			error = error_of(y, x, N_ROWS);
			/* Written so that a NaN fails. */
			if (!(error <= formats[i].bound[kind]))
				fail_msg("%s, kind %d: error %.4g, bound %.4g", f->name, kind, error,
						formats[i].bound[kind]);
		}
	}
	free(y);
	free(x);
}

/* MXFP4, whose scales are powers of two, has 1 and 1.5 and nothing between: a fifth at the most. In all others elements
 * all alike lose no more than a fiftieth, or four steps of the smallest scale where that is more (IQ4 has gaps
 * as wide): scales that are subnormal in f16 cannot do better. Others are ten times closer. */
static void test_constant_blocks_lose_little(void **state)
{
	static const float values[] = {1, -1, 0.02f, -0.02f, 37.5f, -1000, 3e4f, 1e-3f, -1e-4f, 1e-5f, 1e-6f, -1e-7f,
			3e-8f};
	float x[256], y[256];

	(void)state;
	for (size_t i = 0; i < N_FORMATS; i++)
		for (size_t k = 0; k < sizeof values / sizeof *values; k++) {
			const struct quant_format *f = quant_format_get(formats[i].type);
			float size = fabsf(values[k]), bound = fmaxf((size < 0.1f ? 0.02f : 0.002f) * size, 0x1p-22f);

			if (formats[i].type == QUANT_MXFP4)
				bound = 0.2f * size;

			for (int e = 0; e < 256; e++)
				x[e] = values[k];
			round_trip(f, x, y, 256);
			for (int e = 0; e < 256; e++)
				if (!(fabsf(y[e] - x[e]) <= bound))
					fail_msg("%s: %g became %g", f->name, (double)x[e], (double)y[e]);
		}
}

/* ---- Exact blocks ---- */

static float random_scale(const struct expected *f, uint64_t *s)
{
	if (f->type == QUANT_MXFP4)
		return ldexpf(1, between(s, -128, 124)); /* half the scale */
	return quant_f16_to_f32((uint16_t)(next(s) % 2 << 15 | (uint64_t)between(s, 8, 20) << 10 | next(s) % 1024));
}

/* A block's worth of floats that the format holds exactly. The ends of the ranges occur, as they do in blocks that a
 * quantiser made. */
static void exact_block(const struct expected *f, uint64_t *s, float *x, int n)
{
	bool iq4 = f->type == QUANT_IQ4_NL || f->type == QUANT_IQ4_XS;
	float d = random_scale(f, s), dmin = random_scale(f, s);

	/* Where the minimum cannot be negative, or the order of elements would turn round. */
	if (f->m_hi)
		d = fabsf(d);
	if (f->m_hi > 1)
		dmin = d * (float)(1 << between(s, 0, 2));
	for (int j = 0; j < n / f->sub; j++) {
		int sc = j ? between(s, f->sc_lo, f->sc_hi) : f->sc_lo < 0 && next(s) % 2 ? f->sc_lo : f->sc_hi;
		int m = j ? between(s, f->m_hi > 1 ? 0 : f->m_hi, f->m_hi) : f->m_hi;

		for (int e = 0; e < f->sub; e++) {
			int q = e == 3 ? f->q_lo : e == 5 ? f->q_hi : between(s, f->q_lo, f->q_hi);

			if (iq4)
				q = quant_iq4_values[q];
			if (f->type == QUANT_MXFP4)
				q = quant_mxfp4_values[q];
			x[j * f->sub + e] = d * (float)sc * (float)q - dmin * (float)m;
		}
	}
}

/* Squared error of 32 floats in MXFP4 with the scale 2^k, all in double. */
static double mxfp4_error(const float *x, int k)
{
	static const double sizes[] = {0, 0.5, 1, 1.5, 2, 3, 4, 6};
	double sum = 0;

	for (int e = 0; e < 32; e++) {
		double least = HUGE_VAL;

		for (int i = 0; i < 8; i++)
			least = fmin(least, fabs(fabs((double)x[e]) - ldexp(sizes[i], k)));
		sum += least * least;
	}
	return sum;
}

/* MXFP4 has so few scales that all can be tried: none is better than the one that was chosen. The usual choice (the
 * largest magnitude between 4 and 8) is worse in many blocks. Seen red with the usual choice alone and with either of
 * its neighbours left out. */
static void test_mxfp4_best(void **state)
{
	float x[32 * 64], y[32 * 64];
	int n_usual = 0, n_better = 0;

	(void)state;
	for (int kind = 0; kind < N_KINDS; kind++) {
		fill((enum kind)kind, x, 32 * 64);
		round_trip(quant_format_get(QUANT_MXFP4), x, y, 32 * 64);
		for (size_t at = 0; at < 32 * 64; at += 32) {
			double got = 0, least = HUGE_VAL, top = 0;

			for (size_t e = at; e < at + 32; e++) {
				got += ((double)y[e] - x[e]) * ((double)y[e] - x[e]);
				top = fmax(top, fabs((double)x[e]));
			}
			for (int k = -40; k <= 40; k++)
				least = fmin(least, mxfp4_error(x + at, k));
			double usual = mxfp4_error(x + at, top > 0 ? ilogb(top) - 2 : 0);
			if (!(got <= least * (1 + 1e-5)))
				fail_msg("kind %d, element %zu: %.6g, and %.6g can be had", kind, at, got, least);
			n_usual += usual <= least;
			n_better += usual > least * 1.01;
		}
	}
	assert_true(n_usual > 50 && n_better > 50);
	/* Cutting off one is better than losing all others. */
	for (int e = 0; e < 32; e++)
		x[e] = e == 7 ? -4.0f : 0.25f;
	round_trip(quant_format_get(QUANT_MXFP4), x, y, 32);
	for (int e = 0; e < 32; e++)
		assert_true(y[e] == (e == 7 ? -3.0f : 0.25f));
}

static float largest(const float *x, int n)
{
	float top = 0;

	for (int e = 0; e < n; e++)
		top = fmaxf(top, fabsf(x[e]));
	return top;
}

/* The floats come back as they were. Those with a minimum were rounded when it was added, so that a minimum much
 * smaller than they are is not known to its last bit. */
static void test_floats_that_come_back_exactly(void **state)
{
	uint64_t s = 5;
	float x[256], y[256];

	(void)state;
	for (size_t i = 0; i < N_FORMATS; i++)
		for (int round = 0; round < 500; round++) {
			const struct expected *want = &formats[i];
			const struct quant_format *f = quant_format_get(want->type);
			int n = f->block == 1 ? 32 : (int)f->block;

			if (want->type == QUANT_F32 || want->type == QUANT_BF16)
				for (int e = 0; e < n; e++)
					x[e] = (float)between(&s, -255, 255) * random_scale(want, &s);
			else
				exact_block(want, &s, x, n);
			if (want->type == QUANT_BF16)
				for (int e = 0; e < n; e++)
					x[e] = quant_bf16_to_f32(quant_f32_to_bf16(x[e]));
			round_trip(f, x, y, (size_t)n);
			float slack = want->m_hi ? 0x1p-20f * largest(x, n) : 0;
			for (int e = 0; e < n; e++)
				if (!(fabsf(y[e] - x[e]) <= slack))
					fail_msg("%s, round %d, element %d: %.9g became %.9g", f->name, round, e,
							(double)x[e], (double)y[e]);
		}
}

/* No threshold hides in the search: twice the floats give twice the floats, as long as the scales are normal in f16. */
static void test_powers_of_two(void **state)
{
	float *x = get(N_ROWS * sizeof *x), *y = get(N_ROWS * sizeof *y), *z = get(N_ROWS * sizeof *z);

	(void)state;
	fill(UNIFORM, x, N_ROWS);
	for (size_t i = 0; i < N_FORMATS; i++) {
		const struct quant_format *f = quant_format_get(formats[i].type);

		for (size_t e = 0; e < N_ROWS; e++)
			z[e] = x[e] * 16;
		round_trip(f, z, y, N_ROWS);
		for (size_t e = 0; e < N_ROWS; e++)
			z[e] *= 128;
		round_trip(f, z, z, N_ROWS);
		for (size_t e = 0; e < N_ROWS; e++)
			if (z[e] != y[e] * 128 && formats[i].type != QUANT_F16)
				fail_msg("%s: %.9g is not 128 times %.9g", f->name, (double)z[e], (double)y[e]);
	}
	free(z);
	free(y);
	free(x);
}

/* ---- Hostile floats ---- */

static void test_zero_blocks_stay_zero(void **state)
{
	static const float small[] = {0.0f, -0.0f, 1e-9f, -1e-30f, 1e-45f};
	float x[256], y[256];

	(void)state;
	for (size_t i = 0; i < N_FORMATS; i++)
		for (size_t k = 0; k < sizeof small / sizeof *small; k++) {
			const struct quant_format *f = quant_format_get(formats[i].type);

			/* Those that have small numbers. */
			if (k > 1 && (formats[i].type == QUANT_F32 || formats[i].type == QUANT_BF16))
				continue;
			if (k > 1 && k < 4 && formats[i].type == QUANT_MXFP4)
				continue;
			for (int e = 0; e < 256; e++)
				x[e] = small[k];
			round_trip(f, x, y, 256);
			for (int e = 0; e < 256; e++)
				assert_true(y[e] == 0);
		}
}

static float hostile(uint64_t *s)
{
	static const float values[] = {
		FLT_MAX, -FLT_MAX, 1e30f, -65504, 65520, 1e6f, -3e8f, FLT_MIN, -1e-45f, 6e-8f, 0, -0.0f, 1, -1e-3f,
	};

	return values[next(s) % (sizeof values / sizeof *values)];
}

static void test_hostile_floats_give_sound_blocks(void **state)
{
	uint64_t s = 9;
	float x[256], y[256];

	(void)state;
	for (size_t i = 0; i < N_FORMATS; i++)
		for (int round = 0; round < 500; round++) {
			const struct quant_format *f = quant_format_get(formats[i].type);
			uint64_t mix = next(&s) % 4;

			for (int e = 0; e < 256; e++) {
				uint32_t bits = (uint32_t)next(&s) & 0xff7fffff;

				if (mix == 0)
					memcpy(&x[e], &bits, sizeof bits);
				else
					x[e] = mix == 1 ? hostile(&s) : mix == 2 ? FLT_MAX : normal(&s) * 1e-7f;
			}
			round_trip(f, x, y, 256);
			if (!quant_finite(y, 256))
				fail_msg("%s, round %d: not finite", f->name, round);
		}
}

/* What is not finite counts as 0 in blocks, and stays what it is in the float formats. */
static void test_non_finite_values_count_as_zero(void **state)
{
	uint64_t s = 11;
	float x[256], z[256], y[256];
	uint8_t a[BYTES_MAX], b[BYTES_MAX];

	(void)state;
	for (int e = 0; e < 256; e++) {
		bool bad = next(&s) % 8 == 0;

		z[e] = bad ? 0 : normal(&s);
		x[e] = !bad ? z[e] : e % 3 == 0 ? (float)NAN : e % 3 == 1 ? INFINITY : -INFINITY;
	}
	assert_true(quant_finite(z, 256));
	assert_true(quant_finite(x, 0));
	assert_false(quant_finite(x, 256));
	for (size_t i = 0; i < N_FORMATS; i++) {
		const struct quant_format *f = quant_format_get(formats[i].type);

		f->from_f32(x, a, 256);
		if (f->block == 1) {
			f->to_f32(a, y, 256);
			for (int e = 0; e < 256; e++)
				assert_true(isnan(x[e]) ? isnan(y[e]) : isinf(x[e]) ? y[e] == x[e] : isfinite(y[e]));
			continue;
		}
		f->from_f32(z, b, 256);
		assert_memory_equal(a, b, bytes_of(f, 256));
	}
	for (int k = 0; k < 3; k++) {
		const float one[3] = {(float)NAN, INFINITY, -INFINITY};

		assert_false(quant_finite(&one[k], 1));
	}
	z[0] = FLT_MAX;
	z[1] = -FLT_MAX;
	assert_true(quant_finite(z, 256));
	quant_format_get(QUANT_F16)->from_f32(z, a, 2);
	quant_format_get(QUANT_BF16)->from_f32(z, a + 4, 2);
	assert_memory_equal(a, "\xff\x7b\xff\xfb\x7f\x7f\x7f\xff", 8);
}

/* ---- Buffers ---- */

/* Three blocks at once are the three alone, in buffers of just their size; nothing beside them is written or read. */
static void test_blocks_stay_in_their_buffers(void **state)
{
	enum { N_BLOCKS = 3, GUARD = 64 };

	(void)state;
	for (size_t i = 0; i < N_FORMATS; i++) {
		const struct quant_format *f = quant_format_get(formats[i].type);
		size_t n = (size_t)N_BLOCKS * f->block, n_bytes = bytes_of(f, n);
		float *x = get(n * sizeof *x), *wide = get((n + 2 * GUARD) * sizeof *wide);
		uint8_t *whole = get(n_bytes), *guarded = get(n_bytes + 2 * GUARD);

		fill(NORMAL, x, n);
		memset(whole, 0x55, n_bytes);
		f->from_f32(x, whole, n);
		for (size_t e = 0; e < n + 2 * GUARD; e++)
			wide[e] = e < GUARD || e >= n + GUARD ? 1e20f : x[e - GUARD];
		memset(guarded, 0xa7, n_bytes + 2 * GUARD);
		for (size_t k = 0; k < N_BLOCKS; k++)
			f->from_f32(wide + GUARD + k * f->block, guarded + GUARD + k * f->block_bytes, f->block);
		f->from_f32(x, guarded, 0);
		assert_memory_equal(guarded + GUARD, whole, n_bytes);
		for (size_t k = 0; k < GUARD; k++)
			assert_true(guarded[k] == 0xa7 && guarded[GUARD + n_bytes + k] == 0xa7);
		free(guarded);
		free(whole);
		free(wide);
		free(x);
	}
}

/* ---- The same bytes everywhere ---- */

static uint64_t checksum(const uint8_t *bytes, size_t n, uint64_t sum)
{
	for (size_t i = 0; i < n; i++)
		sum = (sum ^ bytes[i]) * 0x100000001b3u;
	return sum;
}

static void test_same_bytes(void **state)
{
	enum { N = 256 * 8 };
	float x[N];
	uint8_t *blocks = get(sizeof x);

	(void)state;
	for (size_t i = 0; i < N_FORMATS; i++) {
		const struct quant_format *f = quant_format_get(formats[i].type);
		uint64_t sum = 0xcbf29ce484222325u;

		for (int kind = 0; kind < N_KINDS; kind++) {
			fill((enum kind)kind, x, N);
			f->from_f32(x, blocks, N);
			sum = checksum(blocks, bytes_of(f, N), sum);
		}
		if (sum != formats[i].checksum)
			fail_msg("%s: checksum 0x%016llx", f->name, (unsigned long long)sum);
	}
	free(blocks);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_quantisation_error_is_bounded),
		cmocka_unit_test(test_constant_blocks_lose_little),
		cmocka_unit_test(test_floats_that_come_back_exactly),
		cmocka_unit_test(test_mxfp4_best),
		cmocka_unit_test(test_powers_of_two),
		cmocka_unit_test(test_zero_blocks_stay_zero),
		cmocka_unit_test(test_hostile_floats_give_sound_blocks),
		cmocka_unit_test(test_non_finite_values_count_as_zero),
		cmocka_unit_test(test_blocks_stay_in_their_buffers),
		cmocka_unit_test(test_same_bytes),
	};

	return cmocka_run_group_tests_name("quantise", tests, NULL, NULL);
}
