/* The kernel test: every entry of every level's table against the reference level, bit for bit, on buffers with an
 * unreadable page at one end; and the reference against its meaning in double.
 *
 * usage: kern_test [--level NAME] [--bench [--json FILE]]
 * This file: options, the rounding of activations, row operations, exp. kern_mm_cases.c: matrix products.
 * kern_arch_cases.c: row operations of the newer architectures. kern_math_cases.c: tanh, log, softplus.
 * kern_cache_cases.c: the cache. kern_attn_cases.c: attention. kern_bench.c: --bench. Comparisons are shown able to
 * fail by the cases named "planted". */
#include "kern_common.h"

#include "base/fmath.h"
#include "kern/kern_math.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Row lengths: 1..70, then two long ones. */
enum { N_LENGTHS = 72 };

static size_t length(size_t i)
{
	return i < 70 ? i + 1 : i == 70 ? 512 : 1000;
}

static enum guard_side side_of(int i)
{
	return i % 2 ? GUARD_START : GUARD_END;
}

/* ---- Activations ---- */

enum act_fill { ACT_RANDOM, ACT_ZERO, ACT_TINY, ACT_HUGE, ACT_TIES, ACT_BORDER, ACT_BAD, ACT_N };

static void fill_act(struct rng *r, enum act_fill how, size_t block, float *x, size_t k)
{
	static const float bad[] = {INFINITY, -INFINITY, NAN, -NAN};

	for (size_t i = 0; i < k; i++)
		switch (how) {
		case ACT_ZERO: x[i] = rng_u32(r) % 2 ? 0.0f : -0.0f; break;
		case ACT_TINY: x[i] = rand_between(r, -1e-38f, 1e-38f); break;
		case ACT_HUGE: x[i] = rand_between(r, -1e38f, 1e38f) * 3.4f; break;
		/* The largest is 127, so d is 1: halves are exact ties. */
		case ACT_TIES: x[i] = i % block == 3 ? -127.0f : (float)rand_below(r, 254) - 126.5f; break;
		/* About 2^-100, below which a block counts as zero. */
		case ACT_BORDER: x[i] = rand_between(r, -0x1.00004p-100f, 0x1.00004p-100f); break;
		default: x[i] = rand_between(r, -1.0f, 1.0f); break;
		}
	if (how == ACT_RANDOM)
		fill_floats(r, x, k);
	for (size_t b = 0; b < k / block && how == ACT_BAD; b++)
		if (rng_u32(r) % 2)
			x[b * block + rand_below(r, block)] = bad[rand_below(r, 4)];
}

/* NaN equals NaN in d and s; everything else bit for bit. */
static bool act_differs(enum quant_act kind, const void *want, const void *got, size_t k)
{
	if (kind == QUANT_ACT_F32)
		return memcmp(want, got, k * sizeof(float)) != 0;
	if (kind == QUANT_ACT_Q8_32) {
		const struct kern_act_q8_32 *a = want, *b = got;
		for (size_t i = 0; i < k / 32; i++)
			if (float_differs(a[i].d, b[i].d, true) || float_differs(a[i].s, b[i].s, true) ||
					a[i].off8 != b[i].off8 || a[i].off128 != b[i].off128 ||
					memcmp(a[i].qs, b[i].qs, sizeof a[i].qs) != 0)
				return true;
		return false;
	}
	const struct kern_act_q8_256 *a = want, *b = got;
	for (size_t i = 0; i < k / 256; i++)
		if (float_differs(a[i].d, b[i].d, true) || memcmp(a[i].s16, b[i].s16, sizeof a[i].s16) != 0 ||
				memcmp(a[i].s32, b[i].s32, sizeof a[i].s32) != 0 ||
				memcmp(a[i].qs, b[i].qs, sizeof a[i].qs) != 0)
			return true;
	return false;
}

static size_t act_block(enum quant_act kind)
{
	return kind == QUANT_ACT_F32 ? 1 : kind == QUANT_ACT_Q8_32 ? 32 : 256;
}

static void test_act(void **state)
{
	const struct kern *level = *state;
	struct rng r;

	rng_init(&r, 20, 0);
	for (int kind = 0; kind < 3; kind++)
		for (int how = 0; how < ACT_N; how++)
			for (int i = 0; i < 200; i++) {
				enum quant_act act = (enum quant_act)kind;
				size_t k = act_block(act) * (1 + rand_below(&r, 9)), n_bytes = kern_act_bytes(act, k);
				float *x = guard_get(GUARD_X, k * sizeof *x, 4, side_of(i));
				uint8_t *got = guard_get(GUARD_ACT, n_bytes, 4, side_of(i)), *want = malloc(n_bytes);
				assert_non_null(want);
				fill_act(&r, (enum act_fill)how, act_block(act), x, k);
				kern_reference()->act[kind](x, k, want);
				level->act[kind](x, k, got);
				if (act_differs(act, want, got, k))
					fail_msg("kind %d, fill %d, k %zu", kind, how, k);
				guard_check_all();
				free(want);
			}
}

/* One rounded block against its floats: nearest within half a step, exact sums, and the special blocks. */
static void check_block(const float *x, size_t n, float d, const int8_t *qs)
{
	float top = 0.0f;
	bool bad = false;

	for (size_t i = 0; i < n; i++) {
		bad |= !isfinite(x[i]);
		top = fabsf(x[i]) > top ? fabsf(x[i]) : top;
	}
	if (bad)
		assert_true(isnan(d));
	else
		assert_true(top < 0x1p-100f ? d == 0.0f : d == top / 127.0f);
	for (size_t i = 0; i < n; i++) {
		assert_true(qs[i] >= -127);
		if (bad || d == 0.0f)
			assert_int_equal(qs[i], 0);
		else if (d == 1.0f) /* 127 / 127: ties to even, exactly */
			assert_int_equal(qs[i], (int)nearbyintf(x[i]));
		else
			assert_true(fabs((double)x[i] / (double)d - qs[i]) <= 0.5 + 3e-5);
	}
}

static void test_act_meaning(void **state)
{
	const struct kern *level = *state;
	struct rng r;
	float x[1024];
	struct kern_act_q8_32 a[32];
	struct kern_act_q8_256 b[4];

	rng_init(&r, 21, 0);
	for (int i = 0; i < 100 * ACT_N; i++) {
		fill_act(&r, (enum act_fill)(i % ACT_N), i % 2 ? 32 : 256, x, 1024);
		level->act[QUANT_ACT_Q8_32](x, 1024, a);
		level->act[QUANT_ACT_Q8_256](x, 1024, b);
		for (size_t j = 0; j < 32; j++) {
			int32_t sum = 0;
			check_block(x + 32 * j, 32, a[j].d, a[j].qs);
			for (int e = 0; e < 32; e++)
				sum += a[j].qs[e];
			assert_int_equal(a[j].off8, -8 * sum);
			assert_int_equal(a[j].off128, -128 * sum);
			assert_false(float_differs(a[j].s, a[j].d * (float)sum, true));
		}
		for (size_t j = 0; j < 4; j++) {
			check_block(x + 256 * j, 256, b[j].d, b[j].qs);
			for (int g = 0; g < 16; g++) {
				int32_t sum = 0;
				for (int e = 0; e < 16; e++)
					sum += b[j].qs[16 * g + e];
				assert_int_equal(b[j].s16[g], sum);
			}
			for (int g = 0; g < 8; g++)
				assert_int_equal(b[j].s32[g], b[j].s16[2 * g] + b[j].s16[2 * g + 1]);
		}
	}
}

/* ---- Rows ---- */

struct row_case {
	size_t n;
	enum guard_side side;
	float *x, *y, *out;  /* [n], guarded */
	float want[1000], saved[1000];
};

static void row_init(struct row_case *c, struct rng *r, size_t i_length, int variant)
{
	c->n = length(i_length);
	c->side = side_of(variant);
	c->x = guard_get(GUARD_X, c->n * sizeof *c->x, 4, c->side);
	c->y = guard_get(GUARD_Y, c->n * sizeof *c->y, 4, c->side);
	c->out = guard_get(GUARD_OUT, c->n * sizeof *c->out, 4, c->side);
	fill_floats(r, c->x, c->n);
	fill_floats(r, c->y, c->n);
	memcpy(c->saved, c->x, c->n * sizeof *c->x);
}

static void row_expect(const struct row_case *c, const float *got, const char *what, bool nan_alike)
{
	size_t i = floats_differ(c->want, got, c->n, nan_alike);
	if (i < c->n)
		fail_msg("%s, n %zu: [%zu] is %a, want %a", what, c->n, i, (double)got[i], (double)c->want[i]);
	guard_check_all();
}

static void test_rms_norm(void **state)
{
	const struct kern *level = *state;
	struct row_case c;
	struct rng r;

	rng_init(&r, 30, 0);
	for (size_t i = 0; i < N_LENGTHS; i++)
		for (int v = 0; v < 8; v++) {
			float eps = v / 2 % 2 ? 1e-5f : 0.0f;
			row_init(&c, &r, i, v);
			c.x[0] = 0.5f; /* 0 / 0 is another test's business */
			kern_reference()->rms_norm(c.x, c.y, c.n, eps, c.want);
			float *out = v < 4 ? c.out : c.x;
			level->rms_norm(c.x, c.y, c.n, eps, out);
			row_expect(&c, out, v < 4 ? "rms_norm" : "rms_norm in place", false);
		}
}

static void test_add_scale(void **state)
{
	const struct kern *level = *state;
	struct row_case c;
	struct rng r;

	rng_init(&r, 31, 0);
	for (size_t i = 0; i < N_LENGTHS; i++)
		for (int v = 0; v < 4; v++) {
			float f = rand_between(&r, -3.0f, 3.0f);
			row_init(&c, &r, i, v);
			memcpy(c.want, c.x, c.n * sizeof *c.x);
			kern_reference()->add(c.want, c.y, c.n);
			level->add(c.x, c.y, c.n);
			row_expect(&c, c.x, "add", false);
			memcpy(c.x, c.saved, c.n * sizeof *c.x);
			memcpy(c.want, c.x, c.n * sizeof *c.x);
			kern_reference()->scale(c.want, f, c.n);
			level->scale(c.x, f, c.n);
			row_expect(&c, c.x, "scale", false);
		}
}

static void test_silu_mul(void **state)
{
	static const float special[] = {
		0.0f, -0.0f, 87.0f, -87.0f, 88.0f, -88.0f, 88.00001f, -88.00001f, 87.00001f, 89.0f, -89.0f, 1e-40f,
		-1e-40f, 1e38f, -1e38f, 3.4e38f, -3.4e38f, INFINITY, -INFINITY, NAN, 0.34657359f, -0.34657359f, 1e-8f,
	};
	const struct kern *level = *state;
	struct row_case c;
	struct rng r;

	rng_init(&r, 32, 0);
	for (size_t i = 0; i < N_LENGTHS; i++)
		for (int v = 0; v < 12; v++) {
			bool specials = v % 3 == 2;
			row_init(&c, &r, i, v);
			for (size_t e = 0; e < c.n; e++)
				c.x[e] = specials ? special[rand_below(&r, sizeof special / sizeof *special)] :
						rand_between(&r, -100.0f, 100.0f) * (v % 3 ? 1.0f : 0.05f);
			kern_reference()->silu_mul(c.x, c.y, c.n, c.want);
			float *out = v < 6 ? c.out : c.x;
			level->silu_mul(c.x, c.y, c.n, out);
			row_expect(&c, out, v < 6 ? "silu_mul" : "silu_mul in place", specials);
		}
}

/* How many of the rows, with gates and factors of all kinds, a gelu_mul gets otherwise than the reference. */
static size_t gelu_wrong(void (*gelu)(const float *, const float *, size_t, float *), char *text, size_t n_text)
{
	static const float special[] = {
		0.0f, -0.0f, 1e-45f, -1e-45f, 1e-40f, -1e-40f, 1.2e-38f, 1e-20f, -1e-20f, 1e-8f, -1e-8f, 0.5f, -0.5f,
		/* where -2 u passes -87 and 88 */
		9.97f, 9.98f, 9.99f, 10.0f, 10.01f, 10.02f, 10.03f, 10.04f, -9.97f, -9.98f, -9.99f, -10.0f, -10.01f,
		-10.02f, -10.03f, -10.04f, 100.0f, -100.0f,
		/* where g^3 and g^2 overflow */
		1e12f, -1e12f, 1e13f, -1e13f, 1.8e19f, -1.8e19f, 1.9e19f, -1.9e19f, 1e38f, -1e38f, 3.4e38f, -3.4e38f,
		INFINITY, -INFINITY, NAN, -NAN,
	};
	enum { N_SPECIAL = sizeof special / sizeof *special };
	struct row_case c;
	struct rng r;
	size_t n_wrong = 0;

	rng_init(&r, 36, 0);
	for (size_t i = 0; i < N_LENGTHS; i++)
		for (int v = 0; v < 16; v++) {
			bool specials = v % 4 >= 2;
			row_init(&c, &r, i, v);
			for (size_t e = 0; e < c.n; e++)
				c.x[e] = specials ? special[rand_below(&r, N_SPECIAL)] :
						rand_between(&r, -12.0f, 12.0f) * (v % 4 ? 1.0f : 0.2f);
			for (size_t e = 0; e < c.n && v % 4 == 3; e++)
				c.y[e] = special[rand_below(&r, N_SPECIAL)];
			kern_reference()->gelu_mul(c.x, c.y, c.n, c.want);
			float *out = v < 8 ? c.out : c.x;
			gelu(c.x, c.y, c.n, out);
			size_t at = floats_differ(c.want, out, c.n, specials);
			if (at < c.n && !n_wrong++)
				snprintf(text, n_text, "gelu_mul%s, n %zu: [%zu] of %a is %a, want %a",
						v < 8 ? "" : " in place", c.n, at, (double)c.saved[at],
						(double)out[at], (double)c.want[at]);
			guard_check_all();
		}
	return n_wrong;
}

static void test_gelu_mul(void **state)
{
	const struct kern *level = *state;
	char text[160];

	if (gelu_wrong(level->gelu_mul, text, sizeof text))
		fail_msg("%s", text);
}

/* Two faults of one rounding, and one of the last element. */
static void gelu_unfused(const float *gate, const float *up, size_t n, float *out)
{
	for (size_t i = 0; i < n; i++) {
		float p = gate[i] * gate[i] * KERN_GELU_CUBE + 1.0f;
		out[i] = gate[i] / (1.0f + kern_exp(gate[i] * KERN_GELU_SLOPE * p)) * up[i];
	}
}
static void gelu_other_order(const float *gate, const float *up, size_t n, float *out)
{
	for (size_t i = 0; i < n; i++)
		out[i] = gate[i] * up[i] / (1.0f + kern_exp(kern_gelu_exponent(gate[i])));
}
static void gelu_short(const float *gate, const float *up, size_t n, float *out)
{
	float last = out[n - 1];
	kern_reference()->gelu_mul(gate, up, n, out);
	out[n - 1] = last;
}

/* The comparison can fail. A fault of one rounding shows in some hundred of the 1,152 rows. */
static void test_gelu_planted(void **state)
{
	char text[160];

	(void)state;
	assert_int_equal(gelu_wrong(kern_reference()->gelu_mul, text, sizeof text), 0);
	assert_in_range(gelu_wrong(gelu_unfused, text, sizeof text), 200, 1152);
	assert_in_range(gelu_wrong(gelu_other_order, text, sizeof text), 200, 1152);
	assert_in_range(gelu_wrong(gelu_short, text, sizeof text), 1000, 1152);
}

/* Against double: relative where exp is not at its ends, of size |g| / 1.6e38 beyond. The exponent has three roundings
 * and two rounded constants, so its error, and with it the tail's relative one, grows with it. */
static void test_gelu_meaning(void **state)
{
	const struct kern *level = *state;
	double worst = 0.0, worst_tail = 0.0;

	for (double x = -20.0; x <= 20.0; x += 1.3e-4) {
		float g = (float)x, up = 1.0f, got;
		double z = -2.0 * sqrt(2.0 / acos(-1.0)) * ((double)g + 0.044715 * (double)g * (double)g * (double)g);
		double want = (double)g / (1.0 + exp(z));
		level->gelu_mul(&g, &up, 1, &got);
		if (z > 88.0) {
			assert_true(got <= 0.0f && (double)got >= -1e-36);
			continue;
		}
		double error = want == 0.0 ? fabs((double)got) : fabs((double)got - want) / fabs(want);
		worst = z <= 1.0 && error > worst ? error : worst;
		worst_tail = z > 1.0 && error / z > worst_tail ? error / z : worst_tail;
		if (!(error <= 4e-7 + 2e-7 * (z > 0.0 ? z : 0.0)))
			fail_msg("gelu(%a) is %a, want %a", (double)g, (double)got, want);
		/* What it is the short form of. */
		double tanh_form = 0.5 * (double)g * (1.0 + tanh(-0.5 * z));
		assert_true(fabs((double)got - tanh_form) <= 4e-7 * (fabs(tanh_form) + 0.5));
	}
	print_message("gelu: worst relative error %.3g, in the tail %.3g times the exponent\n", worst, worst_tail);
	float g[] = {0.0f, -0.0f, 1e-45f, 1e-40f, 1e12f, 3e38f, -1e12f, INFINITY, -INFINITY, NAN}, one[10], got[10];
	for (int i = 0; i < 10; i++)
		one[i] = 1.0f;
	level->gelu_mul(g, one, 10, got);
	assert_true(fm_bits(got[0]) == 0 && fm_bits(got[1]) == 0x80000000u);
	assert_true(got[2] == 0.0f && got[3] == 0.5f * g[3]); /* half of the smallest is a tie */
	assert_true(got[4] == 1e12f && got[5] == 3e38f && fabsf(got[6]) < 1e-25f);
	assert_true(!isfinite(got[7]) && !isfinite(got[8]) && isnan(got[9])); /* trouble stays visible */
}

/* cos and sin here are any numbers: a rotation is what the caller makes of it. */
static void test_rope(void **state)
{
	const struct kern *level = *state;
	struct rng r;

	rng_init(&r, 33, 0);
	for (size_t n_rot = 2; n_rot <= 130; n_rot += 2)
		for (int v = 0; v < 8; v++) {
			float *x = guard_get(GUARD_X, n_rot * sizeof *x, 4, side_of(v)), want[130];
			float *cosv = guard_get(GUARD_Y, n_rot / 2 * sizeof *cosv, 4, side_of(v));
			float *sinv = guard_get(GUARD_Z, n_rot / 2 * sizeof *sinv, 4, side_of(v));
			bool halves = v / 2 % 2;
			fill_floats(&r, x, n_rot);
			fill_floats(&r, cosv, n_rot / 2);
			fill_floats(&r, sinv, n_rot / 2);
			memcpy(want, x, n_rot * sizeof *x);
			kern_reference()->rope(want, n_rot, cosv, sinv, halves);
			level->rope(x, n_rot, cosv, sinv, halves);
			if (floats_differ(want, x, n_rot, false) < n_rot)
				fail_msg("rope, n_rot %zu, %s", n_rot, halves ? "halves" : "neighbours");
			guard_check_all();
		}
}

static void test_all_finite(void **state)
{
	static const uint32_t bad[] = {0x7f800000, 0xff800000, 0x7fc00000, 0xffc00000, 0x7f800001, 0xffffffff};
	static const uint32_t good[] = {0, 0x80000000, 0x7f7fffff, 0xff7fffff, 1, 0x3f800000, 0x007fffff, 0x80800000};
	const struct kern *level = *state;
	struct rng r;

	rng_init(&r, 34, 0);
	for (size_t i = 0; i < N_LENGTHS; i++)
		for (int v = 0; v < 2; v++) {
			size_t n = length(i);
			float *x = guard_get(GUARD_X, n * sizeof *x, 4, side_of(v));
			for (size_t e = 0; e < n; e++)
				x[e] = fm_from_bits(good[rand_below(&r, 8)]);
			assert_true(level->all_finite(x, n));
			for (size_t e = 0; e < n; e++) {
				float old = x[e];
				x[e] = fm_from_bits(bad[rand_below(&r, 6)]);
				if (level->all_finite(x, n))
					fail_msg("n %zu: [%zu] is not finite", n, e);
				x[e] = old;
			}
		}
}

/* The row operations in double: the reference does what its name says. */
static void test_rows_meaning(void **state)
{
	const struct kern *level = *state;
	struct row_case c;
	struct rng r;

	rng_init(&r, 35, 0);
	for (size_t i = 0; i < N_LENGTHS; i++) {
		double sum = 0.0;
		row_init(&c, &r, i, 0);
		for (size_t e = 0; e < c.n; e++)
			sum += (double)c.x[e] * (double)c.x[e];
		level->rms_norm(c.x, c.y, c.n, 1e-5f, c.out);
		for (size_t e = 0; e < c.n; e++) {
			double want = (double)c.x[e] / sqrt(sum / (double)c.n + (double)1e-5f) * (double)c.y[e];
			assert_true(fabs((double)c.out[e] - want) <= 3e-6 * fabs(want) + 1e-40);
		}
		level->silu_mul(c.x, c.y, c.n, c.out);
		for (size_t e = 0; e < c.n; e++) {
			double want = (double)c.x[e] / (1.0 + fm_exp(-(double)c.x[e])) * (double)c.y[e];
			assert_true(fabs((double)c.out[e] - want) <= 1e-6 * fabs(want) + 1e-40);
		}
	}
	float x[4] = {1.0f, 2.0f, 3.0f, 4.0f}, cosv[2] = {0.0f, 1.0f}, sinv[2] = {1.0f, 0.0f};
	level->rope(x, 4, cosv, sinv, false); /* (1, 2) by a right angle, (3, 4) not at all */
	assert_true(x[0] == -2.0f && x[1] == 1.0f && x[2] == 3.0f && x[3] == 4.0f);
	float y[4] = {1.0f, 2.0f, 3.0f, 4.0f};
	level->rope(y, 4, cosv, sinv, true); /* (1, 3) by a right angle, (2, 4) not at all */
	assert_true(y[0] == -3.0f && y[1] == 2.0f && y[2] == 1.0f && y[3] == 4.0f);
	level->add(x, y, 4);
	assert_true(x[0] == -5.0f && x[3] == 8.0f);
	level->scale(x, 0.5f, 4);
	assert_true(x[0] == -2.5f && x[3] == 4.0f);
}

static void test_exp(void **state)
{
	double worst = 0.0;

	(void)state;
	for (double x = -87.0; x <= 88.0; x += 1.1e-4) {
		float f = (float)x;
		double want = fm_exp((double)f), error = fabs((double)kern_exp(f) - want) / want;
		worst = error > worst ? error : worst;
		if (!(error < 2e-7))
			fail_msg("exp(%a): relative error %g", (double)f, error);
	}
	print_message("kern_exp: worst relative error %.3g\n", worst);
	assert_true(kern_exp(0.0f) == 1.0f && kern_exp(-0.0f) == 1.0f);
	assert_true(fm_bits(kern_exp(nextafterf(-87.0f, -100.0f))) == 0 && fm_bits(kern_exp(-1e38f)) == 0);
	assert_true(fm_bits(kern_exp(-INFINITY)) == 0);
	assert_true(kern_exp(-87.0f) > 0.0f);
	assert_true(isnan(kern_exp(NAN)) && isnan(kern_exp(-NAN)));
	assert_true(kern_exp(INFINITY) == kern_exp(88.0f) && isfinite(kern_exp(88.0f)));
	/* What the softmax's online update leans on: never above 1 for what is not above 0. */
	for (float x = -1e-3f; x < 0.0f; x += 1e-7f)
		assert_true(kern_exp(x) <= 1.0f);
}

/* ---- The self-test ---- */

static void bad_mm(const struct kern_mm *m, size_t row0, size_t row1)
{
	kern_get(0)->file[QUANT_Q5_K].mm(m, row0, row1);
	m->out[m->n_rows * m->n_cols - 1] = nextafterf(m->out[m->n_rows * m->n_cols - 1], INFINITY);
}
static void bad_act(const float *x, size_t k, void *out)
{
	kern_get(0)->act[QUANT_ACT_Q8_256](x, k, out);
	((struct kern_act_q8_256 *)out)->s16[3]++;
}
static void bad_scale(float *x, float f, size_t n)
{
	kern_get(0)->scale(x, f, n);
	x[n - 1] = nextafterf(x[n - 1], 0.0f);
}
static void bad_attn(const struct kern_attn_step *s)
{
	for (size_t i = 0; i < s->n; i++)
		s->queries[i].cells |= 1u << 31;
	kern_get(0)->attn[KERN_KV_Q8_0](s);
}
static void bad_put(const float *v, size_t n, size_t slot, void *area)
{
	kern_get(0)->put_v[KERN_KV_F32](v, n - (slot == 31), slot, area);
}
static void bad_norm(const float *x, const float *w, const float *b, size_t n, float eps, float *out)
{
	kern_get(0)->layer_norm(x, w, b, n, eps, out);
	out[0] = nextafterf(out[0], 0.0f);
}
static void bad_oai(const float *gate, const float *up, size_t n, float *out)
{
	kern_get(0)->silu_mul(gate, up, n, out);
}
static void bad_cap(float *x, float cap, size_t n)
{
	for (size_t i = 0; i < n; i++)
		x[i] = cap * kern_tanh(x[i] / cap);
}
static void bad_conv(const struct kern_conv *v, size_t c0, size_t c1)
{
	kern_get(0)->conv(v, c0, c1);
	v->states[v->n - 1] += 1.0f;
}
static void bad_scan(const struct kern_scan *s, size_t c0, size_t c1)
{
	kern_get(0)->scan(s, c0, c1 - 1);
}
static void bad_bend(const struct kern_attn_step *s)
{
	for (size_t i = 0; i < s->n; i++)
		s->queries[i].ahead = s->queries[i].ahead < 0 ? 0 : s->queries[i].ahead;
	kern_get(0)->attn[KERN_KV_F16](s);
}
static bool bad_finite(const float *x, size_t n)
{
	return kern_get(0)->all_finite(x, n - 1);
}

/* The proof calls the table wrong, by this name. */
static void expect_found(const struct kern *k, const char *name)
{
	const char *found = kern_prove(k, kern_get(0));
	if (!found || strcmp(found, name) != 0)
		fail_msg("found %s, want %s", found ? found : "nothing", name);
}

/* No level that this CPU can run was left out (then the cases of that level would not have run), and a table with one
 * wrong entry is told by its name. */
static void test_proof(void **state)
{
	(void)state;
	for (size_t l = 0; l < kern_count(); l++) {
		if (kern_failed(l))
			fail_msg("level %s was left out: %s", kern_name(l), kern_failed(l));
		if (!kern_usable(l))
			continue;
		struct kern k = *kern_get(l);
		assert_null(kern_prove(&k, kern_get(0)));
		k.file[QUANT_Q5_K].mm = bad_mm;
		expect_found(&k, "Q5_K");
		k = *kern_get(l);
		k.act[QUANT_ACT_Q8_256] = bad_act;
		expect_found(&k, "rounding of activations");
		k = *kern_get(l);
		k.scale = bad_scale;
		expect_found(&k, "norm, gate or rope");
		k = *kern_get(l);
		k.gelu_mul = gelu_unfused;
		expect_found(&k, "norm, gate or rope");
		k = *kern_get(l);
		k.layer_norm = bad_norm;
		expect_found(&k, "norm, gate or rope");
		k = *kern_get(l);
		k.swiglu_oai = bad_oai;
		expect_found(&k, "norm, gate or rope");
		k = *kern_get(l);
		k.softcap = bad_cap;
		expect_found(&k, "norm, gate or rope");
		k = *kern_get(l);
		k.conv = bad_conv;
		expect_found(&k, "convolution or scan");
		k = *kern_get(l);
		k.scan = bad_scan;
		expect_found(&k, "convolution or scan");
		k = *kern_get(l);
		k.attn[KERN_KV_F16] = bad_bend;
		expect_found(&k, "attention");
		k = *kern_get(l);
		k.all_finite = bad_finite;
		expect_found(&k, "norm, gate or rope");
		k = *kern_get(l);
		k.attn[KERN_KV_Q8_0] = bad_attn;
		expect_found(&k, "attention");
		k = *kern_get(l);
		k.put_v[KERN_KV_F32] = bad_put;
		expect_found(&k, "attention");
	}
	assert_null(kern_failed(99));
}

/* ---- Options ---- */

struct entry {
	const char *name;
	void (*fn)(void **);
};

/* Against the reference: every level but the reference. */
static const struct entry compared[] = {
	{"act", test_act}, {"rms_norm", test_rms_norm}, {"add and scale", test_add_scale}, {"silu_mul", test_silu_mul},
	{"gelu_mul", test_gelu_mul}, {"rope", test_rope}, {"all_finite", test_all_finite},
	{"layer_norm", test_layer_norm}, {"swiglu_oai", test_swiglu_oai}, {"softcap", test_softcap},
	{"exp64", test_exp64},
	{"conv", test_conv}, {"scan", test_scan},
	{"mm: random shapes", test_mm_random},
	{"mm: extreme bytes", test_mm_extreme}, {"mm: Inf and NaN", test_mm_nonfinite}, {"kv: put", test_kv_put},
	{"kv: get", test_kv_get}, {"kv: cells", test_kv_cells}, {"attn", test_attn}, {"attn: edges", test_attn_edges},
	{"attn: rows", test_attn_rows}, {"attn: bent", test_attn_bent},
	{"attn: extreme cells", test_attn_extreme}, {"attn: held", test_attn_held}, {"attn: types", test_attn_types},
};
/* On its own: the reference. */
static const struct entry alone[] = {
	{"exp", test_exp}, {"tanh", test_tanh}, {"log", test_log}, {"softplus", test_softplus},
	{"act: meaning", test_act_meaning}, {"rows: meaning", test_rows_meaning},
	{"mm: meaning", test_mm_meaning}, {"kv: meaning", test_kv_meaning}, {"kv: cells", test_kv_cells},
	{"attn: meaning", test_attn_meaning}, {"attn: held", test_attn_held}, {"attn: types", test_attn_types},
	{"mm: planted faults", test_mm_planted}, {"attn: planted fault", test_attn_planted},
	{"all_finite", test_all_finite}, {"self-test", test_proof}, {"gelu: meaning", test_gelu_meaning},
	{"gelu: planted faults", test_gelu_planted}, {"arch rows: meaning", test_arch_rows_meaning},
	{"states: meaning", test_states_meaning}, {"arch: planted faults", test_arch_planted},
};
enum {
	N_COMPARED = sizeof compared / sizeof *compared, N_ALONE = sizeof alone / sizeof *alone,
	N_CASES_MAX = 128, N_LEVELS_MAX = N_CASES_MAX / (N_COMPARED > N_ALONE ? N_COMPARED : N_ALONE),
};

static int run_levels(long only)
{
	static struct CMUnitTest tests[N_CASES_MAX];
	static char names[N_CASES_MAX][64];
	size_t n = 0;

	if (kern_count() > N_LEVELS_MAX) {
		fprintf(stderr, "kern_test: more levels than N_CASES_MAX has room for\n");
		return 2;
	}
	for (size_t l = 0; l < kern_count(); l++) {
		const struct entry *e = l ? compared : alone;
		if ((only >= 0 && l != (size_t)only) || !kern_usable(l))
			continue;
		for (size_t i = 0; i < (l ? (size_t)N_COMPARED : (size_t)N_ALONE); i++, n++) {
			snprintf(names[n], sizeof names[n], "%s: %s", kern_name(l), e[i].name);
			tests[n] = (struct CMUnitTest){
				.name = names[n], .test_func = e[i].fn, .initial_state = (void *)(uintptr_t)kern_get(l),
			};
		}
	}
	/* The macro counts a whole array; this one is filled in part. */
	int failed = _cmocka_run_group_tests("kern", tests, n, NULL, NULL);
	guard_release_all();
	return failed;
}

int main(int argc, char **argv)
{
	const char *json = NULL;
	bool bench = false;
	long level = -1;

	for (int i = 1; i < argc; i++) {
		if (strcmp(argv[i], "--bench") == 0) {
			bench = true;
		} else if (strcmp(argv[i], "--json") == 0 && i + 1 < argc) {
			json = argv[++i];
		} else if (strcmp(argv[i], "--level") == 0 && i + 1 < argc) {
			const char *name = argv[++i];
			for (level = 0; level < (long)kern_count() && strcmp(kern_name((size_t)level), name) != 0;)
				level++;
			if (!kern_usable((size_t)level)) {
				fprintf(stderr, "kern_test: level %s is unknown or this CPU cannot run it\n", name);
				return 2;
			}
		} else {
			fprintf(stderr, "usage: kern_test [--level NAME] [--bench [--json FILE]]\n");
			return 2;
		}
	}
	if (bench)
		return kern_bench(level >= 0 ? (size_t)level : kern_best(), json);
	return run_levels(level);
}
