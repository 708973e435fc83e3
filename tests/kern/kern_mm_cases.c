/* Matrix products: every format, both layouts, against the reference bit for bit; the reference against a dot product
 * in double; extreme bytes against the overflow bounds; planted faults against the comparison itself.
 *
 * Faults planted by hand in NEON's kernels: the offset of Q4_0 or of Q6_K left out; Q4_K's minimums added before its
 * sum; the activation's scale multiplied to the sum first; the fold of eight lanes pairing neighbours; rows past the
 * end stored. Each was found by the proof at the start: the level was left out (self-test red), and programs ran on the
 * reference. In MXFP4's of AVX2 and AVX-512: the scale of exponent 0 left at 0 (mm: random shapes, mm: extreme bytes),
 * that of 255 infinite instead of NaN (mm: Inf and NaN), its offset one less (self-test). In AMX's: the offset left
 * out, sums used before they are there, Q4_1's minimum times another sum, high bytes by 128, low bytes as signed or
 * high ones as unsigned, minimums added, left-over columns not computed, a scale multiplied to the sum first (self-test
 * each). */
#include "effort.h"
#include "kern_common.h"

#include "kern/kern_math.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

enum { NO = 0xffff }; /* no such field */

/* Where a format keeps its f16 numbers and its small scales: what must be kept valid, or pushed to its limits. */
struct layout {
	uint32_t type;
	uint16_t d, d2;                   /* f16: scale; minimum or offset */
	uint16_t scales, n_scales;        /* bytes of packed small scales */
};

static const struct layout layouts[] = {
	{QUANT_F32, NO, NO, NO, 0},
	{QUANT_F16, NO, NO, NO, 0},
	{QUANT_BF16, NO, NO, NO, 0},
	{QUANT_Q4_0, offsetof(struct q4_0, d), NO, NO, 0},
	{QUANT_Q4_1, offsetof(struct q4_1, d), offsetof(struct q4_1, m), NO, 0},
	{QUANT_Q5_0, offsetof(struct q5_0, d), NO, NO, 0},
	{QUANT_Q5_1, offsetof(struct q5_1, d), offsetof(struct q5_1, m), NO, 0},
	{QUANT_Q8_0, offsetof(struct q8_0, d), NO, NO, 0},
	{QUANT_IQ4_NL, offsetof(struct iq4_nl, d), NO, NO, 0},
	{QUANT_Q2_K, offsetof(struct q2_k, d), offsetof(struct q2_k, dmin), offsetof(struct q2_k, scales), 16},
	{QUANT_Q3_K, offsetof(struct q3_k, d), NO, offsetof(struct q3_k, scales), 12},
	{QUANT_Q4_K, offsetof(struct q4_k, d), offsetof(struct q4_k, dmin), offsetof(struct q4_k, scales), 12},
	{QUANT_Q5_K, offsetof(struct q5_k, d), offsetof(struct q5_k, dmin), offsetof(struct q5_k, scales), 12},
	{QUANT_Q6_K, offsetof(struct q6_k, d), NO, offsetof(struct q6_k, scales), 16},
	{QUANT_IQ4_XS, offsetof(struct iq4_xs, d), NO, offsetof(struct iq4_xs, scales_h), 6},
	{QUANT_TQ2_0, offsetof(struct tq2_0, d), NO, NO, 0},
	{QUANT_MXFP4, NO, NO, NO, 0}, /* its scale is a byte: put_exponent */
};
enum { N_LAYOUTS = sizeof layouts / sizeof *layouts };
_Static_assert(N_LAYOUTS == 17, "one for each format");

struct mm_case {
	const struct layout *l;
	size_t n_rows, k, n_cols, out_ld, act_bytes;
	enum guard_side side;
	bool nan_alike;
	uint8_t *w;        /* file layout, guarded */
	uint8_t *act;      /* guarded */
	float *want;       /* [n_cols, n_rows], heap */
};

struct mm_diff {
	size_t row, col;
	float want, got;
};

static const struct quant_format *format_of(const struct mm_case *c)
{
	return quant_format_get(c->l->type);
}

static size_t row_bytes(const struct mm_case *c)
{
	return c->k / format_of(c)->block * format_of(c)->block_bytes;
}

static void put_f16(uint8_t *block, uint16_t offset, uint16_t h)
{
	if (offset != NO)
		memcpy(block + offset, &h, sizeof h);
}

/* The exponent of an MXFP4 block. */
static void put_exponent(const struct layout *l, uint8_t *block, uint8_t e)
{
	if (l->type == QUANT_MXFP4)
		block[offsetof(struct mxfp4, e)] = e;
}

/* Mostly scales of weights; some whose products with activations are subnormal or nothing. */
static uint8_t small_exponent(struct rng *r)
{
	return (uint8_t)(rng_u32(r) % 16 ? 112 + rng_u32(r) % 12 : rng_u32(r) % 24);
}

static uint16_t small_f16(struct rng *r)
{
	switch (rng_u32(r) % 16) {
	case 0: return 0;
	case 1: return (uint16_t)(rng_u32(r) & 0x83ff); /* subnormal */
	default: return quant_f32_to_f16(rand_between(r, -0.02f, 0.02f));
	}
}

static void fill_weights(const struct mm_case *c, struct rng *r)
{
	const struct quant_format *f = format_of(c);
	size_t n = c->n_rows * c->k;

	for (size_t i = 0; i < n && f->act == QUANT_ACT_F32; i++) {
		float x;
		fill_floats(r, &x, 1);
		if (c->l->type == QUANT_F32) {
			memcpy(c->w + 4 * i, &x, sizeof x);
		} else {
			uint16_t h = c->l->type == QUANT_F16 ? quant_f32_to_f16(x) : quant_f32_to_bf16(x);
			memcpy(c->w + 2 * i, &h, sizeof h);
		}
	}
	if (f->act == QUANT_ACT_F32)
		return;
	for (size_t i = 0; i < c->n_rows * row_bytes(c); i++)
		c->w[i] = (uint8_t)rng_u32(r);
	for (size_t b = 0; b < n / f->block; b++) {
		put_f16(c->w + b * f->block_bytes, c->l->d, small_f16(r));
		put_f16(c->w + b * f->block_bytes, c->l->d2, small_f16(r));
		put_exponent(c->l, c->w + b * f->block_bytes, small_exponent(r));
	}
}

/* Sizes, buffers, random weights and activations. */
static void case_init(struct mm_case *c, const struct layout *l, struct rng *r, size_t n_rows, size_t k, size_t n_cols,
		enum guard_side side)
{
	*c = (struct mm_case){.l = l, .n_rows = n_rows, .k = k, .n_cols = n_cols, .side = side};
	const struct quant_format *f = format_of(c);
	size_t align = f->act == QUANT_ACT_F32 && f->block_bytes == 4 ? 4 : 2;

	c->out_ld = n_rows + rand_below(r, 3) * rand_below(r, 20);
	c->act_bytes = kern_act_bytes(f->act, k);
	c->w = guard_get(GUARD_W, n_rows * row_bytes(c), align, side);
	c->act = guard_get(GUARD_ACT, n_cols * c->act_bytes, 4, side);
	c->want = malloc(n_rows * n_cols * sizeof *c->want);
	float *x = malloc(k * sizeof *x);
	assert_true(c->want && x);
	fill_weights(c, r);
	for (size_t i = 0; i < n_cols; i++) {
		fill_floats(r, x, k);
		kern_reference()->act[f->act](x, k, c->act + i * c->act_bytes);
	}
	free(x);
}

static void case_release(struct mm_case *c)
{
	free(c->want);
	guard_check_all();
}

static struct kern_mm mm_of(const struct mm_case *c, const void *w)
{
	struct kern_mm m = {
		.w = w, .n_rows = c->n_rows, .k = c->k, .act = c->act, .act_bytes = c->act_bytes, .n_cols = c->n_cols,
	};
	m.scratch = guard_get(GUARD_SCRATCH, KERN_MM_SCRATCH_BYTES(c->k), 64, c->side);
	return m;
}

static void compute_want(struct mm_case *c)
{
	struct kern_mm m = mm_of(c, c->w);
	m.out = c->want;
	m.out_ld = c->n_rows;
	kern_reference()->file[c->l->type].mm(&m, 0, c->n_rows);
}

/* Runs rows [row0, row1) and compares: those rows with the reference, all others with the poison they had before.
 * True when something differs; *d says where. */
static bool run_differs(const struct mm_case *c, const struct kern_mat *mat, const void *w, size_t row0, size_t row1,
		struct mm_diff *d)
{
	struct kern_mm m = mm_of(c, w);
	size_t n_out = (c->n_cols - 1) * c->out_ld + c->n_rows;

	m.out = guard_get(GUARD_OUT, n_out * sizeof *m.out, 4, c->side);
	m.out_ld = c->out_ld;
	poison(m.out, n_out);
	mat->mm(&m, row0, row1);
	for (size_t i = 0; i < n_out; i++) {
		size_t row = i % c->out_ld, col = i / c->out_ld;
		bool in = row >= row0 && row < row1;
		float want = in ? c->want[col * c->n_rows + row] : fm_from_bits(POISON_BITS);
		if (float_differs(want, m.out[i], in && c->nan_alike)) {
			*d = (struct mm_diff){row, col, want, m.out[i]};
			return true;
		}
	}
	return false;
}

static void expect_same(const struct mm_case *c, const char *what, const struct kern_mat *mat, const void *w,
		size_t row0, size_t row1)
{
	struct mm_diff d;
	if (run_differs(c, mat, w, row0, row1, &d))
		fail_msg("%s %s: %zu rows, k %zu, %zu columns, rows %zu..%zu: row %zu column %zu: %a, want %a",
				format_of(c)->name, what, c->n_rows, c->k, c->n_cols, row0, row1, d.row, d.col,
				(double)d.got, (double)d.want);
}

static size_t rand_row(struct rng *r, const struct mm_case *c, size_t unit)
{
	size_t row = rand_below(r, c->n_rows / unit + 2) * unit;
	return row < c->n_rows ? row : c->n_rows;
}

/* All rows, and some range of rows: any row0 that is a multiple of unit. */
static void check_ranges(const struct mm_case *c, struct rng *r, const char *what, const struct kern_mat *mat,
		const void *w)
{
	expect_same(c, what, mat, w, 0, c->n_rows);
	size_t a = rand_below(r, (c->n_rows + mat->unit - 1) / mat->unit) * mat->unit, b = rand_row(r, c, mat->unit);
	expect_same(c, what, mat, w, a, b > a ? b : a);
}

/* Packs in one go, and again range by range over other garbage: every byte must be written, and the same. */
static const void *pack_twice(const struct mm_case *c, struct rng *r, const struct kern_mat *mat)
{
	size_t n_bytes = mat->packed_bytes(c->n_rows, c->k);
	uint8_t *one = guard_get(GUARD_PACKED, n_bytes, 2, c->side);
	uint8_t *two = guard_get(GUARD_PACKED_2, n_bytes, 2, c->side);

	memset(two, 0x55, n_bytes);
	mat->pack(one, c->w, c->n_rows, c->k, 0, c->n_rows);
	for (size_t row = 0; row < c->n_rows;) {
		size_t end = row + (1 + rand_below(r, 3)) * mat->unit;
		end = end < c->n_rows ? end : c->n_rows;
		mat->pack(two, c->w, c->n_rows, c->k, row, end);
		row = end;
	}
	if (memcmp(one, two, n_bytes) != 0)
		fail_msg("%s: packing in ranges differs (%zu rows, k %zu)", format_of(c)->name, c->n_rows, c->k);
	return one;
}

static void check_level(const struct mm_case *c, struct rng *r, const struct kern *level)
{
	const struct kern_mat *file = &level->file[c->l->type], *packed = &level->packed[c->l->type];

	assert_non_null(file->mm);
	check_ranges(c, r, "file", file, c->w);
	if (packed->mm)
		check_ranges(c, r, "packed", packed, pack_twice(c, r, packed));
}

static size_t rand_k(struct rng *r, const struct quant_format *f)
{
	static const size_t lengths[] = {1, 7, 8, 9, 16, 31, 65, 100};
	if (f->act == QUANT_ACT_F32)
		return lengths[rand_below(r, sizeof lengths / sizeof *lengths)];
	/* Reference products of 256-element blocks are most of the test's time: long ones are rarer. */
	size_t most = f->block == 256 && rng_u32(r) % 4 ? 3 : 9;
	return f->block * (1 + rand_below(r, most));
}

void test_mm_random(void **state)
{
	static const size_t rows[] = {1, 3, 7, 8, 9, 15, 16, 17, 33, 64, 100};
	static const size_t cols[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 17, 32, 48, 61};
	struct rng r;

	for (size_t t = 0; t < N_LAYOUTS; t++) {
		rng_init(&r, 1, t);
		for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
			for (size_t j = 0; j < sizeof cols / sizeof *cols; j++)
				/* The reference is slow with many columns. */
				for (int n = 0; n < effort(cols[j] < 40 ? 6 : i % 3 == 1); n++) {
					struct mm_case c;
					size_t k = rand_k(&r, quant_format_get(layouts[t].type));
					case_init(&c, &layouts[t], &r, rows[i], k, cols[j],
							n % 2 ? GUARD_START : GUARD_END);
					compute_want(&c);
					check_level(&c, &r, *state);
					case_release(&c);
				}
	}
}

/* ---- Extremes ---- */

static void fill_extreme(const struct mm_case *c, uint8_t quants, uint8_t scales, uint16_t d, uint8_t exponent)
{
	const struct quant_format *f = format_of(c);

	memset(c->w, quants, c->n_rows * row_bytes(c));
	for (size_t b = 0; b < c->n_rows * c->k / f->block; b++) {
		uint8_t *block = c->w + b * f->block_bytes;
		if (c->l->scales != NO)
			memset(block + c->l->scales, scales, c->l->n_scales);
		put_f16(block, c->l->d, d);
		put_f16(block, c->l->d2, d);
		put_exponent(c->l, block, exponent);
	}
}

static void fill_act(const struct mm_case *c, int how)
{
	float *x = malloc(c->k * sizeof *x);
	assert_non_null(x);
	for (size_t col = 0; col < c->n_cols; col++) {
		for (size_t i = 0; i < c->k; i++)
			x[i] = how == 0 || (how == 2 && (i + col) % 2) || (how == 3 && i / 16 % 2) ? 127.0f : -127.0f;
		kern_reference()->act[format_of(c)->act](x, c->k, c->act + col * c->act_bytes);
	}
	free(x);
}

/* Bytes and activations at their limits: a kernel that lets an int16 sum overflow or saturate gives another number. The
 * sign of d is left alone: it only reaches the floats. */
void test_mm_extreme(void **state)
{
	static const uint8_t bytes[] = {0x00, 0xff, 0x80, 0x7f, 0x88, 0x11, 0x77};
	static const uint16_t ds[] = {0x3c00, 0x7bff, 0x0001};     /* 1, the largest f16, the smallest */
	static const uint8_t exponents[] = {127, 238, 0, 1, 2, 3}; /* 1, sums near the largest float, the smallest */
	enum { N = sizeof bytes };
	struct rng r;

	rng_init(&r, 2, 0);
	for (size_t t = 0; t < N_LAYOUTS; t++) {
		const struct quant_format *f = quant_format_get(layouts[t].type);
		if (f->act == QUANT_ACT_F32)
			continue;
		for (size_t i = 0; i < (layouts[t].scales == NO ? N : N * N); i++)
			for (int how = 0; how < 4; how++) {
				struct mm_case c;
				const size_t n_cols = i % 4 == (size_t)how ? 49 : 5;
				case_init(&c, &layouts[t], &r, 9, 2 * f->block, n_cols, GUARD_END);
				fill_extreme(&c, bytes[i % N], bytes[i / N], ds[rand_below(&r, 3)],
						exponents[(i * 4 + (size_t)how) % 6]);
				fill_act(&c, how);
				compute_want(&c);
				for (size_t o = 0; o < c.n_rows * c.n_cols; o++)
					assert_true(isfinite(c.want[o]));
				check_level(&c, &r, *state);
				case_release(&c);
			}
	}
}

/* Inf and NaN in weights and activations come out as NaN or Inf at the same places. */
void test_mm_nonfinite(void **state)
{
	static const float bad[] = {INFINITY, -INFINITY, NAN};
	struct rng r;

	for (size_t t = 0; t < N_LAYOUTS; t++) {
		const struct quant_format *f = quant_format_get(layouts[t].type);
		rng_init(&r, 3, t);
		for (int i = 0; i < 30; i++) {
			struct mm_case c;
			float x = bad[i % 3], one[256];
			case_init(&c, &layouts[t], &r, 1 + rand_below(&r, 20), rand_k(&r, f),
					i % 5 ? 1 + rand_below(&r, 9) : 50,
					i % 2 ? GUARD_START : GUARD_END);
			c.nan_alike = true;
			uint8_t *block = c.w + rand_below(&r, c.n_rows * c.k / f->block) * f->block_bytes;
			/* NaN; and numbers beyond the floats, of which a product is infinite, or NaN when all are 0. */
			const uint8_t exponent = i % 3 == 2 ? 255 : (uint8_t)(250 + i % 5);
			uint16_t h = c.l->type == QUANT_BF16 ? quant_f32_to_bf16(x) : quant_f32_to_f16(x);
			if (i % 6 < 3 && c.l->type == QUANT_F32)
				memcpy(block, &x, sizeof x);
			else if (i % 6 < 3 && c.l->type == QUANT_MXFP4)
				put_exponent(c.l, block, exponent);
			else if (i % 6 < 3)
				memcpy(block + (c.l->d == NO ? 0 : c.l->d), &h, sizeof h);
			/* A block of the first column's activations, with one bad number in it. */
			fill_floats(&r, one, 256);
			one[rand_below(&r, f->block)] = x;
			if (i % 6 >= 3)
				kern_reference()->act[f->act](one, f->block, c.act);
			compute_want(&c);
			check_level(&c, &r, *state);
			case_release(&c);
		}
	}
}

/* ---- What the reference means ---- */

/* The activation as the product sees it. */
static double act_at(const struct mm_case *c, size_t col, size_t i)
{
	const uint8_t *row = c->act + col * c->act_bytes;
	switch (format_of(c)->act) {
	case QUANT_ACT_Q8_32: {
		const struct kern_act_q8_32 *a = (const void *)row;
		return (double)a[i / 32].d * a[i / 32].qs[i % 32];
	}
	case QUANT_ACT_Q8_256: {
		const struct kern_act_q8_256 *a = (const void *)row;
		return (double)a[i / 256].d * a[i / 256].qs[i % 256];
	}
	case QUANT_ACT_F32: break;
	}
	return (double)((const float *)(const void *)row)[i];
}

/* Some 70 float additions at most: 70 * 2^-24 of the sum of magnitudes, with room for minimums that cancel. */
void test_mm_meaning(void **state)
{
	const struct kern *level = *state;
	struct rng r;

	for (size_t t = 0; t < N_LAYOUTS; t++) {
		const struct quant_format *f = quant_format_get(layouts[t].type);
		rng_init(&r, 4, t);
		for (int i = 0; i < 20; i++) {
			struct mm_case c;
			case_init(&c, &layouts[t], &r, 1 + rand_below(&r, 10), rand_k(&r, f), 1 + rand_below(&r, 5),
					i % 2 ? GUARD_START : GUARD_END);
			struct kern_mm m = mm_of(&c, c.w);
			m.out = c.want;
			m.out_ld = c.n_rows;
			level->file[c.l->type].mm(&m, 0, c.n_rows);
			float *w = malloc(c.k * sizeof *w);
			assert_non_null(w);
			for (size_t row = 0; row < c.n_rows; row++) {
				f->to_f32(c.w + row * row_bytes(&c), w, c.k);
				for (size_t col = 0; col < c.n_cols; col++) {
					double sum = 0.0, size = 0.0, got = (double)c.want[col * c.n_rows + row];
					for (size_t e = 0; e < c.k; e++) {
						double p = (double)w[e] * act_at(&c, col, e);
						sum += p;
						size += fabs(p);
					}
					if (!(fabs(got - sum) <= 1e-5 * size))
						fail_msg("%s: k %zu: %.9g, want %.9g", f->name, c.k, got, sum);
				}
			}
			free(w);
			case_release(&c);
		}
	}
}

/* ---- Planted faults ---- */

/* Re-associated: the two halves of k are summed apart and added at the end. */
static void mm_halves(const struct kern_mm *m, size_t row0, size_t row1)
{
	for (size_t r = row0; r < row1; r++)
		for (size_t c = 0; c < m->n_cols; c++) {
			const float *w = (const float *)m->w + r * m->k;
			const float *x = (const float *)(const void *)((const uint8_t *)m->act + c * m->act_bytes);
			float half[2];
			for (size_t h = 0; h < 2; h++) {
				float lane[8] = {0};
				for (size_t i = h * m->k / 2; i < (h + 1) * m->k / 2; i++)
					lane[i % 8] = fmaf(w[i], x[i], lane[i % 8]);
				half[h] = kern_tree8(lane);
			}
			m->out[c * m->out_ld + r] = half[0] + half[1];
		}
}

/* Two additions swapped: blocks of Q8_0 in the order 1 0 2 3 ... */
static void mm_swapped(const struct kern_mm *m, size_t row0, size_t row1)
{
	for (size_t r = row0; r < row1; r++)
		for (size_t c = 0; c < m->n_cols; c++) {
			const struct q8_0 *w = (const struct q8_0 *)m->w + r * (m->k / 32);
			const struct kern_act_q8_32 *a =
					(const void *)((const uint8_t *)m->act + c * m->act_bytes);
			float sum = 0.0f;
			for (size_t i = 0; i < m->k / 32; i++) {
				size_t b = i < 2 ? 1 - i : i;
				int32_t s = 0;
				for (int e = 0; e < 32; e++)
					s += w[b].qs[e] * a[b].qs[e];
				sum = fmaf(quant_f16_to_f32(w[b].d) * a[b].d, (float)s, sum);
			}
			m->out[c * m->out_ld + r] = sum;
		}
}

/* One row more than it was asked for. */
static void mm_overrun(const struct kern_mm *m, size_t row0, size_t row1)
{
	kern_reference()->file[QUANT_Q8_0].mm(m, row0, row1 < m->n_rows ? row1 + 1 : row1);
}

/* How many of some cases the comparison calls different. */
static int n_detected(uint32_t type, void (*mm)(const struct kern_mm *, size_t, size_t), size_t row1, int n_cases)
{
	const struct kern_mat mat = {.unit = 1, .mm = mm};
	const struct layout *l = layouts;
	struct rng r;
	int n = 0;

	while (l->type != type)
		l++;
	rng_init(&r, 5, type);
	for (int i = 0; i < n_cases; i++) {
		struct mm_case c;
		struct mm_diff d;
		case_init(&c, l, &r, 16, 256, 4, GUARD_END);
		compute_want(&c);
		n += run_differs(&c, &mat, c.w, 0, row1, &d);
		case_release(&c);
	}
	return n;
}

/* A read or write one byte past a guarded buffer kills a child process. */
static bool guard_kills(enum guard_side side, bool write_it)
{
	uint8_t *p = guard_get(GUARD_X, 44, 4, side);
	int status;
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (pid == 0) {
		volatile uint8_t *q = side == GUARD_END ? p + 44 : p - 1;
		signal(SIGSEGV, SIG_DFL); /* the sanitizers' handler would print a report */
		if (write_it)
			*q = 1;
		else
			(void)*q;
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return WIFSIGNALED(status);
}

/* The test can turn red: kernels with a fault go through the very functions that judge the real ones, and must be
 * found; the reference itself goes the same way and must not be. */
void test_mm_planted(void **state)
{
	(void)state;
	assert_int_equal(n_detected(QUANT_F32, kern_reference()->file[QUANT_F32].mm, 16, 10), 0);
	assert_int_equal(n_detected(QUANT_F32, mm_halves, 16, 10), 10);
	assert_int_equal(n_detected(QUANT_Q8_0, kern_reference()->file[QUANT_Q8_0].mm, 8, 10), 0);
	assert_int_equal(n_detected(QUANT_Q8_0, mm_swapped, 16, 10), 10);
	assert_int_equal(n_detected(QUANT_Q8_0, mm_overrun, 8, 10), 10);
	for (int i = 0; i < 4; i++)
		assert_true(guard_kills(i % 2 ? GUARD_START : GUARD_END, i / 2));
}
