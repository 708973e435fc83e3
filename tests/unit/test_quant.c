/* src/quant on its own: 16-bit floats against the hardware and against the definition, blocks against a second reading
 * of the formats that works element by element from raw bytes, known values, and sizes. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "effort.h"
#include "quant/quant.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#endif

#define N_RANDOM 5000000

static uint32_t bits_of(float f)
{
	uint32_t u;
	memcpy(&u, &f, sizeof u);
	return u;
}

static float float_of(uint32_t u)
{
	float f;
	memcpy(&f, &u, sizeof f);
	return f;
}

static double double_of(uint64_t u)
{
	double f;
	memcpy(&f, &u, sizeof f);
	return f;
}

/* splitmix64: the same numbers in every run. */
static uint64_t next(uint64_t *state)
{
	uint64_t z = *state += 0x9e3779b97f4a7c15u;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
	z = (z ^ z >> 27) * 0x94d049bb133111ebu;
	return z ^ z >> 31;
}

static bool f16_is_nan(uint16_t h)
{
	return (h & 0x7fff) > 0x7c00;
}

/* ---- f16 ---- */

#if defined(__x86_64__)
/* Not every compiler's __builtin_cpu_supports knows "f16c"; its "avx" says that the OS saves the registers. */
static bool hw_has_f16(void)
{
	unsigned a, b, c, d;

	return __builtin_cpu_supports("avx") && __get_cpuid(1, &a, &b, &c, &d) && (c & bit_F16C);
}

__attribute__((target("f16c"))) static uint16_t hw_f32_to_f16(float f)
{
	__m128i h = _mm_cvtps_ph(_mm_set_ss(f), _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
	return (uint16_t)_mm_extract_epi16(h, 0);
}

__attribute__((target("f16c"))) static float hw_f16_to_f32(uint16_t h)
{
	return _mm_cvtss_f32(_mm_cvtph_ps(_mm_cvtsi32_si128(h)));
}
#elif defined(__aarch64__)
static bool hw_has_f16(void)
{
	return true;
}

static uint16_t hw_f32_to_f16(float f)
{
	__fp16 v = (__fp16)f;
	uint16_t h;

	memcpy(&h, &v, sizeof h);
	return h;
}

static float hw_f16_to_f32(uint16_t h)
{
	__fp16 v;

	memcpy(&v, &h, sizeof v);
	return (float)v;
}
#else
static bool hw_has_f16(void)
{
	return false;
}

static uint16_t hw_f32_to_f16(float f)
{
	return quant_f32_to_f16(f);
}

static float hw_f16_to_f32(uint16_t h)
{
	return quant_f16_to_f32(h);
}
#endif

/* 2^e as a double, for exponents of normal numbers. */
static double power(int e)
{
	return double_of((uint64_t)(e + 1023) << 52);
}

/* A finite f16 by the book. */
static double f16_value(uint16_t h)
{
	int exp = h >> 10 & 31, man = h & 1023;
	double v = exp ? (1024 + man) * power(exp - 25) : man * power(-24);

	return h & 0x8000 ? -v : v;
}

/* |f| rounded to a multiple of the step that f16 has there; adding and taking off 1.5 * 2^52 steps does it, by the
 * default rounding of double addition. */
static double f16_nearest(float f)
{
	volatile double sum;
	double x = f < 0 ? -(double)f : (double)f;
	int e = (int)(bits_of(f) >> 23 & 255) - 127;
	double big = 0x1.8p52 * power((e < -14 ? -14 : e) - 10);

	sum = x + big;
	return sum - big;
}

static void check_f32_to_f16(uint32_t u, bool hw)
{
	float f = float_of(u);
	uint16_t h = quant_f32_to_f16(f);

	if (hw && h != hw_f32_to_f16(f))
		fail_msg("float 0x%08x: 0x%04x, the hardware has 0x%04x", u, h, hw_f32_to_f16(f));
	if ((h ^ u >> 16) & 0x8000)
		fail_msg("float 0x%08x: 0x%04x has another sign", u, h);
	if ((u & 0x7fffffff) > 0x7f800000) {
		if (!f16_is_nan(h) || !(h & 0x200) || (h & 0x1ff) != (u >> 13 & 0x1ff))
			fail_msg("NaN 0x%08x: 0x%04x", u, h);
		return;
	}
	double want = f16_nearest(f);
	bool ok = want > 65504 ? (h & 0x7fff) == 0x7c00 : (h & 0x7fff) < 0x7c00 && f16_value(h & 0x7fff) == want;
	if (!ok)
		fail_msg("float 0x%08x: 0x%04x, nearest is %a", u, h, want);
}

static void test_f16_all(void **state)
{
	bool hw = hw_has_f16();

	(void)state;
	for (uint32_t i = 0; i < 65536; i++) {
		uint16_t h = (uint16_t)i, back;
		float f = quant_f16_to_f32(h);

		if (hw)
			assert_int_equal(bits_of(f), bits_of(hw_f16_to_f32(h)));
		back = quant_f32_to_f16(f);
		if (f16_is_nan(h)) {
			/* The same sign and payload, quiet on both sides. */
			assert_int_equal(bits_of(f), (i & 0x8000) << 16 | 0x7fc00000 | (i & 0x3ff) << 13);
			assert_int_equal(back, i | 0x200);
			continue;
		}
		assert_int_equal(back, i);
		if ((h & 0x7fff) == 0x7c00)
			assert_int_equal(bits_of(f), (i & 0x8000) << 16 | 0x7f800000);
		else
			assert_true((double)f == f16_value(h) && bits_of(f) >> 31 == i >> 15);
	}
}

static void test_f16_hard(void **state)
{
	static const struct { uint32_t f; uint16_t h; } cases[] = {
		{0x00000000, 0x0000}, {0x80000000, 0x8000}, {0x3f800000, 0x3c00}, {0xc0000000, 0xc000},
		{0x477fe000, 0x7bff},                       /* 65504, the largest */
		{0x477fefff, 0x7bff},                       /* just below 65520 */
		{0x477ff000, 0x7c00},                       /* 65520, a tie: infinity is the even one */
		{0x477fffff, 0x7c00}, {0x47800000, 0x7c00}, {0x7f7fffff, 0x7c00}, {0xff7fffff, 0xfc00},
		{0x7f800000, 0x7c00}, {0xff800000, 0xfc00},
		{0x3f801000, 0x3c00}, {0x3f801001, 0x3c01}, /* tie down to even; just above it */
		{0x3f803000, 0x3c02}, {0x3f802fff, 0x3c01}, /* tie up to even; just below it */
		{0x3fffefff, 0x3fff}, {0x3ffff000, 0x4000}, /* the carry reaches the exponent */
		{0x38800000, 0x0400}, {0x387fe000, 0x0400}, /* the smallest normal; a tie that becomes it */
		{0x387fdfff, 0x03ff}, {0x387fc000, 0x03ff}, /* the largest subnormal */
		{0x33800000, 0x0001},                       /* 2^-24, the smallest */
		{0x33000000, 0x0000},                       /* 2^-25, a tie with zero */
		{0x33000001, 0x0001}, {0xb3000001, 0x8001}, {0x32ffffff, 0x0000},
		{0x33c00000, 0x0002}, {0x34200000, 0x0002}, /* 1.5 and 2.5 of the smallest */
		{0x00000001, 0x0000}, {0x007fffff, 0x0000}, {0x80000001, 0x8000}, /* float's own subnormals */
		{0x7fc00000, 0x7e00}, {0xffc00000, 0xfe00}, {0x7f800001, 0x7e00}, {0xff802000, 0xfe01},
		{0x7fffffff, 0x7fff}, {0x7fbfffff, 0x7fff},
	};
	bool hw = hw_has_f16();

	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		if (quant_f32_to_f16(float_of(cases[i].f)) != cases[i].h)
			fail_msg("float 0x%08x: 0x%04x, want 0x%04x", cases[i].f,
					quant_f32_to_f16(float_of(cases[i].f)), cases[i].h);
		check_f32_to_f16(cases[i].f, hw);
	}
	/* Around every f16 and every midpoint of two neighbours. */
	for (uint32_t h = 0; h < 0x7c00; h++) {
		uint32_t u = bits_of(quant_f16_to_f32((uint16_t)h));
		uint32_t mid = 0x477ff000;

		if (h < 0x7bff)
			mid = bits_of((float)((f16_value((uint16_t)h) + f16_value((uint16_t)(h + 1))) / 2));
		check_f32_to_f16(u + 1, hw);
		check_f32_to_f16(u | 0x80000000, hw);
		for (uint32_t k = mid - 1; k != mid + 2; k++) {
			check_f32_to_f16(k, hw);
			check_f32_to_f16(k | 0x80000000, hw);
		}
	}
}

static void test_f16_random(void **state)
{
	bool hw = hw_has_f16();
	const int n = effort(N_RANDOM);
	uint64_t s = 1;

	(void)state;
	for (int i = 0; i < n; i++) {
		uint64_t r = next(&s);
		uint32_t u = (uint32_t)r;

		/* Half of them in the range of f16 or close to it, where the work is. */
		if (r >> 63)
			u = (u & 0x807fffff) | (uint32_t)(100 + (r >> 32 & 0xffff) % 45) << 23;
		check_f32_to_f16(u, hw);
	}
}

/* ---- bf16 ---- */

/* The nearer of the two neighbours, compared in double; what would be infinity counts as 2^128. */
static void check_f32_to_bf16(uint32_t u)
{
	uint16_t h = quant_f32_to_bf16(float_of(u)), low = (uint16_t)(u >> 16);
	uint32_t abs = u & 0x7fffffff;

	if (abs > 0x7f800000) {
		assert_int_equal(h, low | 0x40);
		return;
	}
	if (!(u & 0xffff)) {
		assert_int_equal(h, low);
		return;
	}
	double x = (double)float_of(abs), a = (double)float_of(abs & 0xffff0000u);
	uint32_t above = (abs & 0xffff0000u) + 0x10000;
	double b = above == 0x7f800000 ? power(128) : (double)float_of(above);
	bool up = b - x < x - a || (b - x == x - a && (low & 1));
	if (h != (uint16_t)(low + up))
		fail_msg("float 0x%08x: 0x%04x, want 0x%04x", u, h, low + up);
}

static void test_bf16_rounding(void **state)
{
	static const struct { uint32_t f; uint16_t h; } cases[] = {
		{0x00000000, 0x0000}, {0x80000000, 0x8000}, {0x3f800000, 0x3f80},
		{0x3f808000, 0x3f80}, {0x3f808001, 0x3f81}, {0x3f818000, 0x3f82}, {0x3f817fff, 0x3f81},
		{0x7f7fffff, 0x7f80}, {0xff7f8000, 0xff80}, {0x7f7f7fff, 0x7f7f},
		{0x7f800000, 0x7f80}, {0xff800000, 0xff80},
		{0x00000001, 0x0000}, {0x00008000, 0x0000}, {0x00008001, 0x0001}, {0x007fffff, 0x0080},
		{0x7f800001, 0x7fc0}, {0xff80ffff, 0xffc0}, {0x7fffffff, 0x7fff}, {0x7fa10000, 0x7fe1},
	};
	const int n = effort(N_RANDOM);
	uint64_t s = 2;

	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
		assert_int_equal(quant_f32_to_bf16(float_of(cases[i].f)), cases[i].h);
	for (uint32_t i = 0; i < 65536; i++) {
		float f = quant_bf16_to_f32((uint16_t)i);

		assert_int_equal(bits_of(f), i << 16);
		assert_int_equal(quant_f32_to_bf16(f), (i & 0x7fff) > 0x7f80 ? i | 0x40 : i);
		check_f32_to_bf16(i << 16 | 0x7fff);
		check_f32_to_bf16(i << 16 | 0x8000);
		check_f32_to_bf16(i << 16 | 0x8001);
	}
	for (int i = 0; i < n; i++)
		check_f32_to_bf16((uint32_t)next(&s));
}

/* ---- Blocks ---- */

#define NONE SIZE_MAX

/* Where things are in a block, in bytes; payload: the bytes that hold q. */
struct layout {
	enum quant_type type;
	const char *name;
	uint32_t block, bytes;
	enum quant_act act;
	size_t d, m;
	size_t payload, n_payload;
	/* Values in a block of bytes all 0x00, all 0xff, with d = 2 and the minimum's scale -0.5. */
	float zeros, ones;
};

static const struct layout layouts[] = {
	{QUANT_Q4_0, "Q4_0", 32, 18, QUANT_ACT_Q8_32, 0, NONE, 2, 16, -16, 14},
	{QUANT_Q4_1, "Q4_1", 32, 20, QUANT_ACT_Q8_32, 0, 2, 4, 16, -0.5f, 29.5f},
	{QUANT_Q5_0, "Q5_0", 32, 22, QUANT_ACT_Q8_32, 0, NONE, 2, 20, -32, 30},
	{QUANT_Q5_1, "Q5_1", 32, 24, QUANT_ACT_Q8_32, 0, 2, 4, 20, -0.5f, 61.5f},
	{QUANT_Q8_0, "Q8_0", 32, 34, QUANT_ACT_Q8_32, 0, NONE, 2, 32, 0, -2},
	{QUANT_IQ4_NL, "IQ4_NL", 32, 18, QUANT_ACT_Q8_32, 0, NONE, 2, 16, -254, 226},
	{QUANT_Q2_K, "Q2_K", 256, 84, QUANT_ACT_Q8_256, 80, 82, 16, 64, 0, 2 * 15 * 3 + 7.5f},
	{QUANT_Q3_K, "Q3_K", 256, 110, QUANT_ACT_Q8_256, 108, NONE, 0, 96, 2 * -32 * -4, 2 * 31 * 3},
	{QUANT_Q4_K, "Q4_K", 256, 144, QUANT_ACT_Q8_256, 0, 2, 16, 128, 0, 2 * 63 * 15 + 31.5f},
	{QUANT_Q5_K, "Q5_K", 256, 176, QUANT_ACT_Q8_256, 0, 2, 16, 160, 0, 2 * 63 * 31 + 31.5f},
	{QUANT_Q6_K, "Q6_K", 256, 210, QUANT_ACT_Q8_256, 208, NONE, 0, 192, 0, 2 * -1 * 31},
	{QUANT_IQ4_XS, "IQ4_XS", 256, 136, QUANT_ACT_Q8_256, 0, NONE, 8, 128, 2 * -32 * -127, 2 * 31 * 113},
	{QUANT_TQ2_0, "TQ2_0", 256, 66, QUANT_ACT_Q8_256, 64, NONE, 0, 64, -2, 4},
	{QUANT_MXFP4, "MXFP4", 32, 17, QUANT_ACT_Q8_32, 0, NONE, 1, 16, 0, -24},
};
#define N_LAYOUTS (sizeof layouts / sizeof *layouts)
#define BYTES_MAX 210

static const struct layout *layout_of(enum quant_type type)
{
	for (size_t i = 0; i < N_LAYOUTS; i++)
		if (layouts[i].type == type)
			return &layouts[i];
	fail_msg("no layout for type %d", (int)type);
	return NULL;
}

static uint16_t u16_at(const uint8_t *b, size_t at)
{
	return (uint16_t)(b[at] | b[at + 1] << 8);
}

static void put_u16(uint8_t *b, size_t at, uint16_t v)
{
	b[at] = (uint8_t)v;
	b[at + 1] = (uint8_t)(v >> 8);
}

static int bit(const uint8_t *b, int i)
{
	return b[i / 8] >> i % 8 & 1;
}

/* Bits [at, at + n) of bytes read as one little-endian number. */
static int field(const uint8_t *b, int at, int n)
{
	int v = 0;

	for (int i = 0; i < n; i++)
		v |= bit(b, at + i) << i;
	return v;
}

/* Whether the scale is a byte, the exponent of a power of two, and not an f16. */
static bool has_exponent(const struct layout *l)
{
	return l->type == QUANT_MXFP4;
}

/* The scale that goes with want_q. */
static float want_d(const struct layout *l, const uint8_t *b)
{
	return has_exponent(l) ? (float)ldexp(1.0, b[l->d] - 128) : (float)f16_value(u16_at(b, l->d));
}

/* A number of four bits, twice: sign, exponent, mantissa. */
static int fp4_twice(int v)
{
	int exponent = v >> 1 & 3, mantissa = v & 1;
	int size = exponent ? (2 + mantissa) * (1 << (exponent - 1)) : mantissa;

	return v & 8 ? -size : size;
}

/* The integer of element e, read from raw bytes with arithmetic on e instead of walking the block. */
static int want_q(enum quant_type type, const uint8_t *b, int e)
{
	static const int table[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};
	int half = e / 128, run = e % 128 / 32, i = e % 32;     /* of 256 elements */
	int nib32 = 8 * (e % 16) + 4 * (e / 16);                /* where the nibble is in 16 bytes for 32 elements */
	int nib_k = 8 * (32 * (e / 64) + i) + 4 * (e / 32 % 2); /* the same in Q4_K and Q5_K */
	int pair = 8 * (32 * half + i) + 2 * run;               /* where the two bits are in 64 bytes for 256 */

	switch (type) {
	case QUANT_Q4_0: return field(b + 2, nib32, 4) - 8;
	case QUANT_Q4_1: return field(b + 4, nib32, 4);
	case QUANT_Q5_0: return field(b + 6, nib32, 4) + 16 * bit(b + 2, e) - 16;
	case QUANT_Q5_1: return field(b + 8, nib32, 4) + 16 * bit(b + 4, e);
	case QUANT_Q8_0: return field(b + 2, 8 * e, 7) - 128 * bit(b + 2, 8 * e + 7);
	case QUANT_IQ4_NL: return table[field(b + 2, nib32, 4)];
	case QUANT_MXFP4: return fp4_twice(field(b + 1, nib32, 4));
	case QUANT_Q2_K: return field(b + 16, pair, 2);
	case QUANT_Q3_K: return field(b + 32, pair, 2) + 4 * bit(b, 8 * i + e / 32) - 4;
	case QUANT_Q4_K: return field(b + 16, nib_k, 4);
	case QUANT_Q5_K: return field(b + 48, nib_k, 4) + 16 * bit(b + 16, 8 * i + e / 32);
	case QUANT_Q6_K:
		return field(b, 8 * (64 * half + e % 64) + 4 * (run / 2), 4) + 16 * field(b + 128, pair, 2) - 32;
	case QUANT_IQ4_XS: return table[field(b + 8, 8 * (16 * (e / 32) + e % 16) + 4 * (i / 16), 4)];
	case QUANT_TQ2_0: return field(b, pair, 2) - 1;
	default: fail_msg("type %d has no integers", (int)type); return 0;
	}
}

/* The integer scale and minimum that element e has. */
static void want_scale(enum quant_type type, const uint8_t *b, int e, int *sc, int *m)
{
	int j16 = e / 16, j32 = e / 32;

	*sc = 1;
	*m = 0;
	switch (type) {
	case QUANT_Q4_1:
	case QUANT_Q5_1:
		*m = 1;
		break;
	case QUANT_Q2_K:
		*sc = b[j16] % 16;
		*m = b[j16] / 16;
		break;
	case QUANT_Q3_K:
		*sc = field(b + 96, 8 * (j16 % 8) + 4 * (j16 / 8), 4) +
				16 * field(b + 104, 8 * (j16 % 4) + 2 * (j16 / 4), 2) - 32;
		break;
	case QUANT_Q4_K:
	case QUANT_Q5_K:
		*sc = j32 < 4 ? b[4 + j32] % 64 : b[8 + j32] % 16 + 16 * (b[j32] / 64);
		*m = j32 < 4 ? b[8 + j32] % 64 : b[8 + j32] / 16 + 16 * (b[4 + j32] / 64);
		break;
	case QUANT_Q6_K:
		*sc = b[192 + j16] < 128 ? b[192 + j16] : b[192 + j16] - 256;
		break;
	case QUANT_IQ4_XS:
		*sc = field(b + 4, 4 * j32, 4) + 16 * field(b + 2, 2 * j32, 2) - 32;
		break;
	default:
		break;
	}
}

static float want_f32(const struct layout *l, const uint8_t *b, int e)
{
	int sc, m;
	float d = want_d(l, b), v;

	want_scale(l->type, b, e, &sc, &m);
	v = d * (float)sc * (float)want_q(l->type, b, e);
	if (l->m == NONE)
		return v;
	float low = (float)f16_value(u16_at(b, l->m)) * (float)m;
	return l->block == 32 ? v + low : v - low;
}

/* The library's integers, from bytes at an address as aligned as the structs ask for. */
static void ints(enum quant_type type, const uint8_t *bytes, int8_t q[256])
{
	union {
		struct q4_0 q4_0; struct q4_1 q4_1; struct q5_0 q5_0; struct q5_1 q5_1; struct q8_0 q8_0;
		struct iq4_nl iq4_nl; struct q2_k q2_k; struct q3_k q3_k; struct q4_k q4_k; struct q5_k q5_k;
		struct q6_k q6_k; struct iq4_xs iq4_xs; struct tq2_0 tq2_0; struct mxfp4 mxfp4;
	} b;

	memcpy(&b, bytes, layout_of(type)->bytes);
	switch (type) {
	case QUANT_Q4_0: quant_ints_q4_0(&b.q4_0, q); break;
	case QUANT_Q4_1: quant_ints_q4_1(&b.q4_1, q); break;
	case QUANT_Q5_0: quant_ints_q5_0(&b.q5_0, q); break;
	case QUANT_Q5_1: quant_ints_q5_1(&b.q5_1, q); break;
	case QUANT_Q8_0: memcpy(q, b.q8_0.qs, 32); break;
	case QUANT_IQ4_NL: quant_ints_iq4_nl(&b.iq4_nl, q); break;
	case QUANT_Q2_K: quant_ints_q2_k(&b.q2_k, q); break;
	case QUANT_Q3_K: quant_ints_q3_k(&b.q3_k, q); break;
	case QUANT_Q4_K: quant_ints_q4_k(&b.q4_k, q); break;
	case QUANT_Q5_K: quant_ints_q5_k(&b.q5_k, q); break;
	case QUANT_Q6_K: quant_ints_q6_k(&b.q6_k, q); break;
	case QUANT_IQ4_XS: quant_ints_iq4_xs(&b.iq4_xs, q); break;
	case QUANT_TQ2_0: quant_ints_tq2_0(&b.tq2_0, q); break;
	case QUANT_MXFP4: quant_ints_mxfp4(&b.mxfp4, q); break;
	default: fail_msg("type %d has no integers", (int)type);
	}
}

static void test_table_of_formats(void **state)
{
	static const struct { uint32_t type, bytes; const char *name; } floats[] = {
		{QUANT_F32, 4, "F32"}, {QUANT_F16, 2, "F16"}, {QUANT_BF16, 2, "BF16"},
	};
	size_t n_known = 0;

	(void)state;
	for (size_t i = 0; i < N_LAYOUTS; i++) {
		const struct layout *l = &layouts[i];
		const struct quant_format *f = quant_format_get(l->type);

		assert_non_null(f);
		assert_string_equal(f->name, l->name);
		assert_int_equal(f->block, l->block);
		assert_int_equal(f->block_bytes, l->bytes);
		assert_int_equal(f->act, l->act);
		assert_non_null(f->to_f32);
	}
	for (size_t i = 0; i < 3; i++) {
		const struct quant_format *f = quant_format_get(floats[i].type);

		assert_non_null(f);
		assert_string_equal(f->name, floats[i].name);
		assert_int_equal(f->block, 1);
		assert_int_equal(f->block_bytes, floats[i].bytes);
		assert_int_equal(f->act, QUANT_ACT_F32);
		assert_non_null(f->to_f32);
	}
	for (uint32_t type = 0; type < 1000; type++)
		n_known += quant_format_get(type) != NULL;
	assert_int_equal(n_known, N_LAYOUTS + 3);
	assert_null(quant_format_get(QUANT_N_TYPES));
	assert_null(quant_format_get(4));
	assert_null(quant_format_get(UINT32_MAX));
}

static void test_float_rows(void **state)
{
	static const float f32[4] = {0.0f, -1.5f, 1e30f, -0.0f};
	static const uint16_t f16[4] = {0x0000, 0xbe00, 0x7bff, 0x0001}, bf16[4] = {0x8000, 0x3fc0, 0xff80, 0x0001};
	float out[5] = {0, 0, 0, 0, 7};

	(void)state;
	quant_format_get(QUANT_F32)->to_f32(f32, out, 4);
	assert_memory_equal(out, f32, sizeof f32);
	quant_format_get(QUANT_F16)->to_f32(f16, out, 4);
	assert_true(bits_of(out[0]) == 0 && out[1] == -1.5f && out[2] == 65504.0f && out[3] == 0x1p-24f);
	quant_format_get(QUANT_BF16)->to_f32(bf16, out, 4);
	assert_true(bits_of(out[0]) == 0x80000000 && out[1] == 1.5f && bits_of(out[2]) == 0xff800000 &&
			bits_of(out[3]) == 0x10000);
	assert_true(out[4] == 7);
}

/* Bytes all alike give one value, worked out by hand. */
static void test_blocks_of_equal_bytes(void **state)
{
	uint8_t b[BYTES_MAX] __attribute__((aligned(8)));
	float out[256];

	(void)state;
	for (size_t i = 0; i < N_LAYOUTS; i++)
		for (int ones = 0; ones < 2; ones++) {
			const struct layout *l = &layouts[i];
			float want = ones ? l->ones : l->zeros;

			memset(b, ones ? 0xff : 0, sizeof b);
			if (has_exponent(l))
				b[l->d] = 129;
			else
				put_u16(b, l->d, 0x4000);
			if (l->m != NONE)
				put_u16(b, l->m, 0xb800);
			quant_format_get(l->type)->to_f32(b, out, l->block);
			for (uint32_t e = 0; e < l->block; e++)
				if (out[e] != want)
					fail_msg("%s, bytes 0x%02x, element %u: %g, want %g", l->name, ones ? 0xff : 0,
							e, (double)out[e], (double)want);
		}
}

/* One bit of one byte, and the one element it adds to. Worked out by hand from the layouts. */
static void test_each_bit_of_a_block(void **state)
{
	static const struct { enum quant_type type; int byte, bit, element, adds; } cases[] = {
		{QUANT_Q4_0, 2, 0, 0, 1}, {QUANT_Q4_0, 2, 4, 16, 1}, {QUANT_Q4_0, 17, 7, 31, 8},
		{QUANT_Q4_0, 17, 3, 15, 8},
		{QUANT_Q4_1, 4, 0, 0, 1}, {QUANT_Q4_1, 19, 6, 31, 4},
		{QUANT_Q5_0, 2, 0, 0, 16}, {QUANT_Q5_0, 4, 0, 16, 16}, {QUANT_Q5_0, 5, 7, 31, 16},
		{QUANT_Q5_0, 6, 4, 16, 1},
		{QUANT_Q5_1, 5, 1, 9, 16}, {QUANT_Q5_1, 8, 1, 0, 2}, {QUANT_Q5_1, 23, 7, 31, 8},
		{QUANT_Q8_0, 2, 0, 0, 1}, {QUANT_Q8_0, 33, 7, 31, -128},
		{QUANT_IQ4_NL, 2, 0, 0, 23}, {QUANT_IQ4_NL, 3, 4, 17, 23}, {QUANT_IQ4_NL, 17, 7, 31, 128},
		{QUANT_Q2_K, 16, 0, 0, 1}, {QUANT_Q2_K, 16, 2, 32, 1}, {QUANT_Q2_K, 47, 7, 127, 2},
		{QUANT_Q2_K, 48, 0, 128, 1}, {QUANT_Q2_K, 79, 5, 223, 2},
		{QUANT_Q3_K, 0, 0, 0, 4}, {QUANT_Q3_K, 5, 7, 229, 4}, {QUANT_Q3_K, 31, 4, 159, 4},
		{QUANT_Q3_K, 32, 0, 0, 1}, {QUANT_Q3_K, 65, 6, 225, 1}, {QUANT_Q3_K, 95, 3, 191, 2},
		{QUANT_Q4_K, 16, 0, 0, 1}, {QUANT_Q4_K, 16, 4, 32, 1}, {QUANT_Q4_K, 48, 0, 64, 1},
		{QUANT_Q4_K, 143, 7, 255, 8},
		{QUANT_Q5_K, 16, 0, 0, 16}, {QUANT_Q5_K, 16, 1, 32, 16}, {QUANT_Q5_K, 47, 7, 255, 16},
		{QUANT_Q5_K, 48, 4, 32, 1}, {QUANT_Q5_K, 175, 3, 223, 8},
		{QUANT_Q6_K, 0, 0, 0, 1}, {QUANT_Q6_K, 32, 0, 32, 1}, {QUANT_Q6_K, 0, 4, 64, 1},
		{QUANT_Q6_K, 63, 7, 127, 8}, {QUANT_Q6_K, 64, 0, 128, 1}, {QUANT_Q6_K, 128, 2, 32, 16},
		{QUANT_Q6_K, 160, 0, 128, 16}, {QUANT_Q6_K, 191, 7, 255, 32},
		{QUANT_IQ4_XS, 8, 0, 0, 23}, {QUANT_IQ4_XS, 8, 4, 16, 23}, {QUANT_IQ4_XS, 24, 0, 32, 23},
		{QUANT_IQ4_XS, 135, 7, 255, 128},
		{QUANT_TQ2_0, 0, 0, 0, 1}, {QUANT_TQ2_0, 0, 2, 32, 1}, {QUANT_TQ2_0, 32, 2, 160, 1},
		{QUANT_TQ2_0, 63, 7, 255, 2},
		{QUANT_MXFP4, 1, 0, 0, 1}, {QUANT_MXFP4, 1, 4, 16, 1}, {QUANT_MXFP4, 16, 1, 15, 2},
		{QUANT_MXFP4, 16, 6, 31, 4},
	};
	uint8_t b[BYTES_MAX] = {0};
	int8_t base[256], q[256];

	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		const struct layout *l = layout_of(cases[i].type);

		ints(l->type, b, base);
		b[cases[i].byte] = (uint8_t)(1 << cases[i].bit);
		ints(l->type, b, q);
		b[cases[i].byte] = 0;
		for (int e = 0; e < (int)l->block; e++)
			if (q[e] - base[e] != (e == cases[i].element ? cases[i].adds : 0))
				fail_msg("%s, byte %d bit %d, element %d: %d -> %d", l->name, cases[i].byte,
						cases[i].bit, e, base[e], q[e]);
	}
	/* Each bit that holds quants belongs to exactly one element; each other bit to none. Not counted from 0: a sign
	 * (MXFP4) says nothing there. */
	memset(b, 0x11, sizeof b);
	for (size_t i = 0; i < N_LAYOUTS; i++) {
		const struct layout *l = &layouts[i];

		ints(l->type, b, base);
		for (size_t at = 0; at < 8 * l->bytes; at++) {
			size_t n_changed = 0, byte = at / 8;

			b[byte] ^= (uint8_t)(1 << at % 8);
			ints(l->type, b, q);
			b[byte] = 0x11;
			for (uint32_t e = 0; e < l->block; e++)
				n_changed += q[e] != base[e];
			bool holds = byte >= l->payload && byte < l->payload + l->n_payload;
			if (n_changed != holds)
				fail_msg("%s: bit %zu changes %zu elements", l->name, at, n_changed);
		}
	}
}

static void test_scales_of_q3_k(void **state)
{
	static const uint8_t k[12] = {0x01, 0x42, 0x83, 0xff, 0xc5, 0x86, 0x47, 0x08, 0x9a, 0xbc, 0xde, 0xf0};
	static const uint8_t k_scale[8] = {1, 2, 3, 63, 0x0a, 0x1c, 0x2e, 0x30};
	static const uint8_t k_min[8] = {5, 6, 7, 8, 0x39, 0x2b, 0x1d, 0x0f};
	static const uint8_t q3[12] = {0x10, 0x32, 0x54, 0x76, 0x98, 0xba, 0xdc, 0xfe, 0xe4, 0x00, 0xff, 0x1b};
	static const int8_t q3_want[16] = {
		0x00 - 32, 0x02 - 32, 0x34 - 32, 0x36 - 32, 0x18 - 32, 0x0a - 32, 0x3c - 32, 0x2e - 32,
		0x21 - 32, 0x03 - 32, 0x35 - 32, 0x17 - 32, 0x39 - 32, 0x0b - 32, 0x3d - 32, 0x0f - 32,
	};
	int8_t got[16];

	(void)state;
	for (int j = 0; j < 8; j++) {
		uint8_t scale = 0xaa, min = 0xaa;

		quant_k_scale_min(k, j, &scale, &min);
		assert_int_equal(scale, k_scale[j]);
		assert_int_equal(min, k_min[j]);
	}
	quant_q3_k_scales(q3, got);
	assert_memory_equal(got, q3_want, sizeof got);
}

/* Random bytes in rows of several blocks, exactly as large as they must be, against the second reading, bit for bit. */
static void test_random_blocks_of_every_format(void **state)
{
	enum { N_BLOCKS = 3, N_ROUNDS = 200 };
	uint64_t s = 3;

	(void)state;
	for (size_t i = 0; i < N_LAYOUTS; i++) {
		const struct layout *l = &layouts[i];
		size_t n_bytes = (size_t)N_BLOCKS * l->bytes, n = (size_t)N_BLOCKS * l->block;
		uint8_t *src = malloc(n_bytes);
		float *dst = malloc(n * sizeof *dst);
		int8_t q[256];

		assert_non_null(src);
		assert_non_null(dst);
		for (int round = 0; round < N_ROUNDS; round++) {
			for (size_t k = 0; k < n_bytes; k++)
				src[k] = (uint8_t)(next(&s) >> 40);
			for (size_t k = 0; k < N_BLOCKS; k++) {
				uint8_t *b = src + k * l->bytes;

				/* Finite scales only: test_non_finite_scales_are_passed_on has the others. */
				if (has_exponent(l))
					b[l->d] = b[l->d] == 255 ? 254 : b[l->d];
				else if ((u16_at(b, l->d) & 0x7c00) == 0x7c00)
					b[l->d + 1] ^= 0x40;
				if (l->m != NONE && (u16_at(b, l->m) & 0x7c00) == 0x7c00)
					b[l->m + 1] ^= 0x40;
			}
			quant_format_get(l->type)->to_f32(src, dst, n);
			for (size_t k = 0; k < n; k++) {
				const uint8_t *b = src + k / l->block * l->bytes;
				int e = (int)(k % l->block);

				if (e == 0)
					ints(l->type, b, q);
				if (q[e] != want_q(l->type, b, e))
					fail_msg("%s, element %d: %d, want %d", l->name, e, q[e],
							want_q(l->type, b, e));
				if (bits_of(dst[k]) != bits_of(want_f32(l, b, e)))
					fail_msg("%s, element %zu: %a, want %a", l->name, k, (double)dst[k],
							(double)want_f32(l, b, e));
			}
		}
		free(dst);
		free(src);
	}
}

/* A scale from a hostile file is passed on, not hidden and not trapped on. */
static void test_non_finite_scales_are_passed_on(void **state)
{
	uint8_t b[BYTES_MAX] __attribute__((aligned(8)));
	float out[256];

	(void)state;
	for (size_t i = 0; i < N_LAYOUTS; i++)
		for (int nan = 0; nan < 2; nan++) {
			const struct layout *l = &layouts[i];

			memset(b, 0x33, sizeof b);
			if (l->m != NONE)
				put_u16(b, l->m, 0);
			if (has_exponent(l))
				b[l->d] = 255;
			else
				put_u16(b, l->d, nan ? 0x7d00 : 0xfc00);
			quant_format_get(l->type)->to_f32(b, out, l->block);
			for (uint32_t e = 0; e < l->block; e++)
				assert_true((bits_of(out[e]) & 0x7f800000) == 0x7f800000);
		}
}

/* Every scale of MXFP4: a power of two, down to the subnormal ones, and NaN; what is out of reach is infinite. */
static void test_mxfp4_scales(void **state)
{
	(void)state;
	for (int e = 0; e < 255; e++) {
		struct mxfp4 b = {.e = (uint8_t)e, .qs = {0x20, 0x01, 0x09, 0x07, 0x0f}}; /* 1 is element 16 */
		float out[32], half = (float)ldexp(1.0, e - 128);

		assert_true(bits_of(quant_mxfp4_scale((uint8_t)e)) == bits_of(half));
		quant_format_get(QUANT_MXFP4)->to_f32(&b, out, 32);
		assert_true(out[0] == 0 && out[16] == (float)ldexp(1.0, e - 127));
		assert_true(out[1] == half && out[2] == -half);
		assert_true(out[3] == (e <= 252 ? (float)ldexp(6.0, e - 127) : INFINITY) && out[4] == -out[3]);
	}
	assert_true(bits_of(quant_mxfp4_scale(255)) == 0x7fc00000);
	assert_true(quant_mxfp4_scale(0) > 0 && quant_mxfp4_scale(0) == 0x1p-128f && quant_mxfp4_scale(1) == 0x1p-127f);
}

/* ---- Sizes ---- */

static void size_is(uint32_t type, uint64_t ne0, uint64_t n_rows, uint64_t want)
{
	uint64_t n_bytes = 123;
	bool bad_row = true;

	assert_true(quant_size(type, ne0, n_rows, &n_bytes, &bad_row));
	assert_false(bad_row);
	assert_true(n_bytes == want);
}

static void row_is_bad(uint32_t type, uint64_t ne0)
{
	uint64_t n_bytes = 123;
	bool bad_row = false;

	assert_true(quant_size(type, ne0, 2, &n_bytes, &bad_row));
	assert_true(bad_row);
}

static void is_unknown(uint32_t type)
{
	uint64_t n_bytes = 123;
	bool bad_row = true;

	assert_false(quant_size(type, 256, 1, &n_bytes, &bad_row));
	assert_false(bad_row);
	assert_true(n_bytes == 0);
}

static void test_sizes_of_rows(void **state)
{
	(void)state;
	for (size_t i = 0; i < N_LAYOUTS; i++) {
		const struct layout *l = &layouts[i];

		size_is(l->type, 0, 5, 0);
		size_is(l->type, l->block, 0, 0);
		size_is(l->type, l->block, 1, l->bytes);
		size_is(l->type, 4096, 11008, (uint64_t)4096 / l->block * l->bytes * 11008);
		row_is_bad(l->type, 1);
		row_is_bad(l->type, l->block - 1);
		row_is_bad(l->type, l->block + 1);
		row_is_bad(l->type, UINT64_MAX);
	}
	size_is(QUANT_F32, 3, 7, 84);
	size_is(QUANT_F16, 3, 7, 42);
	size_is(QUANT_BF16, 1, 1, 2);
	row_is_bad(QUANT_Q4_K, 128);

	/* The last sizes that fit, and what does not. */
	size_is(QUANT_F16, UINT64_MAX / 2, 1, UINT64_MAX - 1);
	size_is(QUANT_F32, 1, UINT64_MAX / 4, UINT64_MAX - 3);
	size_is(QUANT_F32, 1, UINT64_MAX / 4 + 1, UINT64_MAX);
	size_is(QUANT_F32, UINT64_MAX, 1, UINT64_MAX);
	size_is(QUANT_F32, UINT64_MAX, UINT64_MAX, UINT64_MAX);
	size_is(QUANT_F32, (uint64_t)1 << 32, (uint64_t)1 << 30, UINT64_MAX);
	size_is(QUANT_Q8_0, UINT64_MAX - 31, 1, UINT64_MAX);
	size_is(QUANT_Q4_0, UINT64_MAX - 31, 1, (UINT64_MAX / 32) * 18);
	size_is(QUANT_Q4_0, UINT64_MAX - 31, 2, UINT64_MAX);
	size_is(QUANT_Q4_K, UINT64_MAX - 255, 1, (UINT64_MAX / 256) * 144);
	size_is(QUANT_F32, UINT64_MAX, 0, 0);

	is_unknown(4);
	is_unknown(9);
	is_unknown(34);
	is_unknown(QUANT_N_TYPES);
	is_unknown(QUANT_N_TYPES - 2);
	is_unknown(UINT32_MAX);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_f16_all),
		cmocka_unit_test(test_f16_hard),
		cmocka_unit_test(test_f16_random),
		cmocka_unit_test(test_bf16_rounding),
		cmocka_unit_test(test_table_of_formats),
		cmocka_unit_test(test_float_rows),
		cmocka_unit_test(test_blocks_of_equal_bytes),
		cmocka_unit_test(test_each_bit_of_a_block),
		cmocka_unit_test(test_scales_of_q3_k),
		cmocka_unit_test(test_random_blocks_of_every_format),
		cmocka_unit_test(test_non_finite_scales_are_passed_on),
		cmocka_unit_test(test_mxfp4_scales),
		cmocka_unit_test(test_sizes_of_rows),
	};

	return cmocka_run_group_tests_name("quant", tests, NULL, NULL);
}
