/* Attention: attn of every level against the reference bit for bit, the reference against a softmax in double,
 * sequences with gaps, and a planted fault. Cells outside the positions attended to, and those not held, hold NaN or
 * Inf; entries of the table that must not be used name no block.
 *
 * Further faults planted by hand and seen red: gaps ignored in AVX2's or NEON's mix, in AVX2's maximum, or at every
 * level, and the row's range ignored where there are gaps (attn: held, attn: types; at every level: attn: meaning); the
 * scale of another position, of K or of V, at either level (attn, attn: types or attn: meaning); a scale off by one bit
 * (attn); distances from a float of the row's position (attn: bent), signed ones and a cap that is not multiplied back
 * (self-test); the position of a tile's first row for all (attn: rows); a sink's weight from the wrong maximum (attn:
 * meaning). */
#include "effort.h"
#include "kern_common.h"

#include "base/fmath.h"
#include "kern/kern_math.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { B = KERN_KV_BLOCK, N_BLOCKS_MAX = 10, HEAD_MAX = 256 };

enum held_kind { HELD_NULL, HELD_GAPS };

struct attn_case {
	enum kern_kv type;
	enum guard_side side;
	size_t n_blocks; /* in the pool: two more than the table names */
	float *k, *v;    /* [pos1, head_k], [pos1, head_v], heap */
	float *want;     /* [n_q, head_v], heap */
	struct kern_attn a;
};

static void fill_garbage(uint8_t *p, size_t n_bytes, enum kern_kv type, struct rng *r)
{
	/* In Q8_0 these are scales, and any numbers in between. */
	static const uint16_t halves[] = {0xffff, 0x7e00, 0x7c00, 0xfc00};
	static const uint32_t floats[] = {0xffffffff, 0x7fc00000, 0x7f800000, 0xff800000};

	for (size_t i = 0; i < n_bytes; i += type == KERN_KV_F32 ? 4 : 2)
		if (type == KERN_KV_F32)
			memcpy(p + i, &floats[rand_below(r, 4)], 4);
		else
			memcpy(p + i, &halves[rand_below(r, 4)], 2);
}

/* Written without kern_attn_cells, which it is to check. */
static bool is_seen(const struct kern_attn *a, size_t pos)
{
	return pos >= a->pos0 && pos < a->pos1 && (!a->held || a->held[pos / B] >> pos % B & 1);
}

static uint8_t *area_of(const struct kern_attn *a, size_t pos, bool is_v)
{
	return (uint8_t *)a->kv + (size_t)a->table[pos / B] * a->block_bytes + (is_v ? a->v_offset : a->k_offset);
}

/* Writes the positions that are seen with a level's own put_k and put_v. */
static void put_all(const struct attn_case *c, const struct kern *level)
{
	const struct kern_attn *a = &c->a;
	for (size_t p = a->pos0; p < a->pos1; p++) {
		if (!is_seen(a, p))
			continue;
		level->put_k[c->type](c->k + p * a->head_k, a->head_k, p % B, area_of(a, p, false));
		level->put_v[c->type](c->v + p * a->head_v, a->head_v, p % B, area_of(a, p, true));
	}
}

static uint32_t rand_held(struct rng *r)
{
	switch (rng_u32(r) % 7) {
	case 0: return 0;
	case 1: return UINT32_MAX;
	case 2: return UINT32_MAX << rand_below(r, B);          /* a hole at the start */
	case 3: return UINT32_MAX >> rand_below(r, B);          /* at the end */
	case 4: return 1u << rand_below(r, B);                  /* a single cell */
	case 5: return ~(UINT32_MAX >> 24 << rand_below(r, B)); /* in the middle */
	default: return rng_u32(r);
	}
}

/* A shuffled table: any block but two, in any order. Entries of blocks that are passed over, by position or because
 * nothing in them is held, name no block. */
static void make_table(struct attn_case *c, struct rng *r, enum held_kind kind)
{
	static const int32_t none[] = {-1, INT32_MAX, INT32_MIN, 1 << 20};
	struct kern_attn *a = &c->a;
	size_t n = c->n_blocks - 2;
	int32_t ids[N_BLOCKS_MAX];
	int32_t *table = guard_get(GUARD_TABLE, n * sizeof *table, 4, c->side);

	assert_true(c->n_blocks <= N_BLOCKS_MAX);
	for (size_t i = 0; i < c->n_blocks; i++) {
		size_t j = rand_below(r, i + 1);
		ids[i] = ids[j];
		ids[j] = (int32_t)i;
	}
	if (kind == HELD_GAPS) {
		bool any = false;
		uint32_t *held = guard_get(GUARD_HELD, n * sizeof *held, 4, c->side);
		for (size_t i = 0; i < n; i++)
			held[i] = rand_held(r);
		a->held = held;
		for (size_t p = a->pos0; p < a->pos1; p++)
			any |= is_seen(a, p);
		if (!any)
			held[n - 1] |= 1u << (a->pos1 - 1) % B;
	}
	for (size_t i = 0; i < n; i++)
		table[i] = i < a->pos0 / B || (a->held && !a->held[i]) ? none[rand_below(r, 4)] : ids[i];
	a->table = table;
}

static void case_init(struct attn_case *c, struct rng *r, enum kern_kv type, size_t head_k, size_t head_v, size_t n_q,
		enum guard_side side, enum held_kind kind, const struct kern *level)
{
	const float q_scales[] = {0.1f, 1.0f, 30.0f}; /* the last: most weights underflow to 0 */
	size_t pos1 = 1 + rand_below(r, 200);
	size_t k_bytes = kern_k_area_bytes(type, head_k), v_bytes = kern_v_area_bytes(type, head_v);
	struct kern_attn *a = &c->a;

	*c = (struct attn_case){.type = type, .side = side, .n_blocks = (pos1 + B - 1) / B + 2};
	*a = (struct kern_attn){.n_q = n_q, .head_k = head_k, .head_v = head_v, .pos1 = pos1};
	a->pos0 = rng_u32(r) % 2 ? rand_below(r, pos1) : 0;
	a->block_bytes = k_bytes + v_bytes;
	/* K first or V first, so that both get to touch the guard page. */
	a->k_offset = rng_u32(r) % 2 ? v_bytes : 0;
	a->v_offset = a->k_offset ? 0 : k_bytes;

	float *q = guard_get(GUARD_X, n_q * head_k * sizeof *q, 4, side);
	float scale = q_scales[rand_below(r, 3)];
	for (size_t i = 0; i < n_q * head_k; i++)
		q[i] = rand_between(r, -scale, scale);
	a->q = q;
	make_table(c, r, kind);

	uint8_t *kv = guard_get(GUARD_KV, c->n_blocks * a->block_bytes, 64, side);
	fill_garbage(kv, c->n_blocks * a->block_bytes, type, r);
	a->kv = kv;
	c->k = malloc(pos1 * head_k * sizeof *c->k);
	c->v = malloc(pos1 * head_v * sizeof *c->v);
	c->want = malloc(n_q * head_v * sizeof *c->want);
	assert_true(c->k && c->v && c->want);
	for (size_t i = 0; i < pos1 * head_k; i++)
		c->k[i] = rand_between(r, -1.0f, 1.0f);
	for (size_t i = 0; i < pos1 * head_v; i++)
		c->v[i] = rand_between(r, -1.0f, 1.0f);
	put_all(c, level);
}

/* A case of random shape. */
static void case_random(struct attn_case *c, struct rng *r, int i, enum held_kind kind, const struct kern *level)
{
	size_t hk = kv_head_sizes[rand_below(r, N_KV_HEAD_SIZES)], hv = kv_head_sizes[rand_below(r, N_KV_HEAD_SIZES)];
	case_init(c, r, (enum kern_kv)(i % KERN_KV_N), hk, hv, 1 + rand_below(r, 9),
			i / 2 % 2 ? GUARD_START : GUARD_END, kind, level);
}

static void case_release(struct attn_case *c)
{
	free(c->k);
	free(c->v);
	free(c->want);
	guard_check_all();
}

enum { QUERIES_MAX = 9, N_BENDS = 8 };
static float slopes[QUERIES_MAX], sinks[QUERIES_MAX];

/* Every combination of a cap, distances and sinks. The row's own position may be any: before the cells, among them,
 * behind them, and so far away that a float cannot tell neighbours apart. */
static void bend_case(struct attn_case *c, struct rng *r, int i)
{
	static const float caps[] = {50.0f, 1.0f, 0.03f, 20.0f};
	struct kern_attn *a = &c->a;

	assert_true(a->n_q <= QUERIES_MAX);
	for (size_t h = 0; h < QUERIES_MAX; h++) {
		slopes[h] = rng_u32(r) % 5 ? 1.0f / (float)(1u << rand_below(r, 9)) : 0.0f;
		sinks[h] = rand_between(r, -6.0f, 6.0f) * (rng_u32(r) % 8 ? 1.0f : 30.0f);
	}
	a->cap = i & 1 ? caps[rand_below(r, 4)] : 0.0f;
	a->slopes = i & 2 ? slopes : NULL;
	a->sinks = i & 4 ? sinks : NULL;
	a->pos = rand_below(r, a->pos1 + 40);
	if (rng_u32(r) % 16 == 0)
		a->pos += (size_t)1 << (24 + rand_below(r, 6));
}

/* One run of attention: fresh garbage in out and scratch. Returns out. */
static const float *run(const struct attn_case *c, const struct kern *level)
{
	struct kern_attn a = c->a;
	a.out = guard_get(GUARD_OUT, a.n_q * a.head_v * sizeof *a.out, 4, c->side);
	kern_attn(level, c->type, &a, 1,
			guard_get(GUARD_SCRATCH, kern_attn_scratch_bytes(1, a.n_q, a.head_k, a.head_v), 64, c->side));
	return a.out;
}

static void compute_want(const struct attn_case *c)
{
	memcpy(c->want, run(c, kern_reference()), c->a.n_q * c->a.head_v * sizeof *c->want);
}

static bool run_differs(const struct attn_case *c, const struct kern *level)
{
	size_t n = c->a.n_q * c->a.head_v;
	return floats_differ(c->want, run(c, level), n, false) < n;
}

/* Every pair of head sizes in every type, with every number of queries in turn. */
void test_attn(void **state)
{
	const struct kern *level = *state;
	struct rng r;
	size_t i = 0;

	rng_init(&r, 10, 0);
	for (int type = 0; type < KERN_KV_N; type++)
		for (size_t hk = 0; hk < N_KV_HEAD_SIZES; hk++)
			for (size_t hv = 0; hv < N_KV_HEAD_SIZES; hv++)
				for (int kind = 0; kind < 2; kind++, i++) {
					struct attn_case c;
					size_t n_q = 1 + i % 9;
					case_init(&c, &r, (enum kern_kv)type, kv_head_sizes[hk], kv_head_sizes[hv], n_q,
							i / 2 % 2 ? GUARD_START : GUARD_END, (enum held_kind)kind,
							level);
					compute_want(&c);
					if (run_differs(&c, level))
						fail_msg("type %d, heads %zu and %zu, %zu queries, at %zu..%zu%s", type,
								c.a.head_k, c.a.head_v, n_q, c.a.pos0, c.a.pos1,
								c.a.held ? " with gaps" : "");
					case_release(&c);
				}
}

/* Scores at the edges of exp and of the running maximum's start, with values so large that a weight of 1e-38 shows (0
 * where the weight is 1); in half of the cases NaN and Inf among them. F32 cells and one dimension: K is the score. */
void test_attn_edges(void **state)
{
	static const float scores[] = {
		0.0f, -0.0f, -86.99999f, -87.0f, -87.00001f, -88.0f, -104.0f, -1e-8f, -1e30f, -2e30f, -3e38f,
		NAN, INFINITY, -INFINITY,
	};
	enum { N = sizeof scores / sizeof *scores, N_FINITE = N - 3 };
	const struct kern *level = *state;
	struct rng r;

	rng_init(&r, 14, 0);
	for (int i = 0; i < effort(1000); i++) {
		struct attn_case c;
		bool finite = i % 2;
		size_t n_q = 1 + rand_below(&r, 4), n_out = n_q * 5;
		/* In some cases every score is below the start of the running maximum: the sum of weights is 0. */
		size_t first = i % 16 == 1 ? 9 : 0;
		case_init(&c, &r, KERN_KV_F32, 1, 5, n_q, i / 2 % 2 ? GUARD_START : GUARD_END,
				i / 4 % 2 ? HELD_GAPS : HELD_NULL, level);
		float *q = guard_get(GUARD_X, n_q * sizeof *q, 4, c.side);
		for (size_t j = 0; j < n_q; j++)
			q[j] = 1.0f;
		c.a.q = q;
		for (size_t j = 0; j < c.a.pos1; j++)
			c.k[j] = scores[first + rand_below(&r, (finite ? N_FINITE : N) - first)];
		for (size_t j = 0; j < 5 * c.a.pos1; j++)
			c.v[j] *= c.k[j / 5] > -50.0f ? 0.0f : 1e35f;
		put_all(&c, level);
		compute_want(&c);
		size_t at = floats_differ(c.want, run(&c, level), n_out, !finite || first);
		if (at < n_out)
			fail_msg("case %d: positions %zu..%zu, output %zu", i, c.a.pos0, c.a.pos1, at);
		case_release(&c);
	}
}

/* Cells at the edges of their types; in half of the cases Inf and NaN in one of them, K or V. */
void test_attn_extreme(void **state)
{
	const struct kern *level = *state;
	struct rng r;

	rng_init(&r, 18, 0);
	for (int i = 0; i < effort(600); i++) {
		struct attn_case c;
		bool finite = i / KERN_KV_N % 2;
		case_random(&c, &r, i, i / 8 % 2 ? HELD_GAPS : HELD_NULL, level);
		size_t n = c.a.n_q * c.a.head_v, bad_k = rand_below(&r, c.a.pos1), bad_v = rand_below(&r, c.a.pos1);
		for (size_t p = 0; p < c.a.pos1; p++) {
			/* A bad K spoils every output, a bad V its own dimensions: mostly V. */
			fill_kv(&r, c.k + p * c.a.head_k, c.a.head_k, finite || i % 4 || p != bad_k);
			fill_kv(&r, c.v + p * c.a.head_v, c.a.head_v, finite || p != bad_v);
		}
		put_all(&c, level);
		compute_want(&c);
		for (size_t e = 0; e < n && finite; e++)
			assert_true(isfinite(c.want[e]));
		if (floats_differ(c.want, run(&c, level), n, !finite) < n)
			fail_msg("case %d: type %d, heads %zu and %zu", i, (int)c.type, c.a.head_k, c.a.head_v);
		case_release(&c);
	}
}

/* Caps, distances and sinks, in every type, with gaps and windows, and with cells whose numbers are extreme or bad. */
void test_attn_bent(void **state)
{
	const struct kern *level = *state;
	struct rng r;

	rng_init(&r, 21, 0);
	for (int i = 0; i < effort(1200); i++) {
		struct attn_case c;
		const bool extreme = i % 5 == 4;
		case_random(&c, &r, i, i / 4 % 2 ? HELD_GAPS : HELD_NULL, level);
		const size_t n = c.a.n_q * c.a.head_v;
		bend_case(&c, &r, i / 3 % N_BENDS);
		for (size_t p = 0; p < c.a.pos1 && extreme; p++) {
			fill_kv(&r, c.k + p * c.a.head_k, c.a.head_k, i % 2 || rng_u32(&r) % 64);
			fill_kv(&r, c.v + p * c.a.head_v, c.a.head_v, i % 2 || rng_u32(&r) % 64);
		}
		put_all(&c, level);
		compute_want(&c);
		/* Very large scores with distances leave no weight at all: 0 / 0. */
		if (floats_differ(c.want, run(&c, level), n, extreme) < n)
			fail_msg("case %d: type %d, heads %zu and %zu, cap %g%s%s", i, (int)c.type, c.a.head_k,
					c.a.head_v, (double)c.a.cap, c.a.slopes ? ", distances" : "",
					c.a.sinks ? ", sinks" : "");
		case_release(&c);
	}
}

/* ---- Gaps ---- */

/* With every bit set, in the row's range only or outside of it as well, there are no gaps. */
static void check_full(const struct attn_case *c, const struct kern *level)
{
	struct attn_case full = *c;
	uint32_t held[N_BLOCKS_MAX];

	memset(held, 0xff, sizeof held);
	full.a.held = held;
	assert_false(run_differs(&full, level));
	memset(held, 0, sizeof held);
	for (size_t p = c->a.pos0; p < c->a.pos1; p++)
		held[p / B] |= 1u << p % B;
	assert_false(run_differs(&full, level));
}

/* Blocks that are passed over leave no trace: without them, the same bits. */
static void check_compacted(const struct attn_case *c, const struct kern *level)
{
	struct attn_case few = *c;
	int32_t table[N_BLOCKS_MAX];
	uint32_t held[N_BLOCKS_MAX];
	size_t n = 0;

	for (size_t b = 0; b < c->n_blocks - 2; b++) {
		uint32_t word = 0;
		for (size_t j = 0; j < B; j++)
			word |= (uint32_t)is_seen(&c->a, b * B + j) << j;
		if (word) {
			table[n] = c->a.table[b];
			held[n++] = word;
		}
	}
	few.a.table = table;
	few.a.held = held;
	few.a.pos0 = 0;
	few.a.pos1 = n * B;
	assert_false(run_differs(&few, level));
}

void test_attn_held(void **state)
{
	const struct kern *level = *state;
	struct rng r;

	rng_init(&r, 19, 0);
	for (int i = 0; i < effort(600); i++) {
		struct attn_case c;
		bool full = i / 4 % 4 == 0;
		case_random(&c, &r, i, full ? HELD_NULL : HELD_GAPS, level);
		compute_want(&c);
		if (full)
			check_full(&c, level);
		check_compacted(&c, level);
		case_release(&c);
	}
}

/* Attention in any type is attention in F32 over what get_k, or a cell of V, says: the same bits. */
void test_attn_types(void **state)
{
	const struct kern *level = *state;
	struct rng r;
	uint8_t cell[4 * HEAD_MAX];

	rng_init(&r, 20, 0);
	for (int i = 0; i < effort(600); i++) {
		struct attn_case c, plain;
		case_random(&c, &r, i, i / 4 % 2 ? HELD_GAPS : HELD_NULL, level);
		const struct kern_attn *a = &c.a;
		memcpy(c.want, run(&c, level), a->n_q * a->head_v * sizeof *c.want);
		plain = c;
		plain.type = KERN_KV_F32;
		for (size_t p = a->pos0; p < a->pos1; p++) {
			if (!is_seen(a, p))
				continue;
			level->get_k[c.type](area_of(a, p, false), a->head_k, p % B, c.k + p * a->head_k);
			kern_v_cell_read(c.type, a->head_v, area_of(a, p, true), p % B, cell);
			kv_decode(c.type, a->head_v, cell, c.v + p * a->head_v);
		}
		plain.a.v_offset = kern_k_area_bytes(KERN_KV_F32, a->head_k);
		plain.a.k_offset = 0;
		plain.a.block_bytes = plain.a.v_offset + kern_v_area_bytes(KERN_KV_F32, a->head_v);
		uint8_t *kv = guard_get(GUARD_KV, c.n_blocks * plain.a.block_bytes, 64, c.side);
		fill_garbage(kv, c.n_blocks * plain.a.block_bytes, KERN_KV_F32, &r);
		plain.a.kv = kv;
		put_all(&plain, level);
		if (run_differs(&plain, level))
			fail_msg("case %d: type %d, heads %zu and %zu", i, (int)c.type, a->head_k, a->head_v);
		case_release(&c);
	}
}

/* ---- What the reference means ---- */

/* Softmax attention of query head h in double over the cells as they are stored, the maximum of all scores known
 * beforehand and the gaps closed. */
static void attn_double(const struct attn_case *c, size_t h, double *out)
{
	const struct kern_attn *a = &c->a;
	static double score[B * N_BLOCKS_MAX], v[B * N_BLOCKS_MAX][HEAD_MAX];
	double top = -INFINITY, sum = 0.0;
	uint8_t cell[4 * HEAD_MAX];
	float x[HEAD_MAX];
	size_t n = 0;

	for (size_t p = a->pos0; p < a->pos1; p++) {
		if (!is_seen(a, p))
			continue;
		score[n] = 0.0;
		kern_k_cell_read(c->type, a->head_k, area_of(a, p, false), p % B, cell);
		kv_decode(c->type, a->head_k, cell, x);
		for (size_t i = 0; i < a->head_k; i++)
			score[n] += (double)a->q[h * a->head_k + i] * (double)x[i];
		if (a->cap > 0.0f)
			score[n] = (double)a->cap * tanh(score[n] / (double)a->cap);
		if (a->slopes)
			score[n] -= (double)a->slopes[h] * fabs((double)a->pos - (double)p);
		top = score[n] > top ? score[n] : top;
		kern_v_cell_read(c->type, a->head_v, area_of(a, p, true), p % B, cell);
		kv_decode(c->type, a->head_v, cell, x);
		for (size_t i = 0; i < a->head_v; i++)
			v[n][i] = (double)x[i];
		n++;
	}
	memset(out, 0, a->head_v * sizeof *out);
	if (a->sinks) {
		top = (double)a->sinks[h] > top ? (double)a->sinks[h] : top;
		sum = fm_exp((double)a->sinks[h] - top);
	}
	for (size_t p = 0; p < n; p++) {
		double w = fm_exp(score[p] - top);
		sum += w;
		for (size_t i = 0; i < a->head_v; i++)
			out[i] += w * v[p][i];
	}
	for (size_t i = 0; i < a->head_v; i++)
		out[i] /= sum;
}

void test_attn_meaning(void **state)
{
	const struct kern *level = *state;
	struct rng r;
	double out[HEAD_MAX];

	rng_init(&r, 12, 0);
	for (int i = 0; i < effort(300); i++) {
		struct attn_case c;
		case_random(&c, &r, i, i / 4 % 2 ? HELD_GAPS : HELD_NULL, level);
		if (i % 2) {
			bend_case(&c, &r, i / 2 % N_BENDS);
			c.a.pos %= 4096; /* further away a score is lost in the distance's roundings */
		}
		const float *got = run(&c, level);
		for (size_t h = 0; h < c.a.n_q; h++) {
			attn_double(&c, h, out);
			/* |V| is at most 1, so the errors are those of the weights: a score is a sum of up to 256
			 * products of up to 30, good to some 1e-4 in float, and exp makes that a relative error. */
			for (size_t e = 0; e < c.a.head_v; e++)
				if (!(fabs(out[e] - (double)got[h * c.a.head_v + e]) <= 4e-4))
					fail_msg("case %d: head %zu: %.9g, want %.9g", i, h,
							(double)got[h * c.a.head_v + e], out[e]);
		}
		case_release(&c);
	}
}

enum { TABLE_MAX = 16 };

/* A row like the case's own, but that ends earlier or sees less, and with two whole blocks in each other's place. */
static void vary(const struct attn_case *c, struct rng *r, struct kern_attn *a, int32_t *table, uint32_t *held)
{
	const size_t n = (c->a.pos1 + B - 1) / B, whole0 = (c->a.pos0 + B - 1) / B, whole1 = c->a.pos1 / B;

	assert_true(n <= TABLE_MAX);
	*a = c->a;
	a->pos = rand_below(r, a->pos1 + 40);
	memcpy(table, c->a.table, n * sizeof *table);
	a->table = table;
	if (c->a.held) {
		bool any = false;
		for (size_t i = 0; i < n; i++)
			held[i] = c->a.held[i] & (rng_u32(r) | rng_u32(r));
		a->held = held;
		for (size_t p = a->pos0; p < a->pos1; p++)
			any |= is_seen(a, p);
		a->held = any ? held : c->a.held;
		return;
	}
	if (rng_u32(r) % 2)
		a->pos1 = a->pos0 + 1 + rand_below(r, (uint32_t)(a->pos1 - a->pos0));
	if (rng_u32(r) % 2 && whole0 + 1 < whole1) {
		size_t x = whole0 + rand_below(r, (uint32_t)(whole1 - whole0)), y = whole1 - 1;
		int32_t t = table[x];
		table[x] = table[y];
		table[y] = t;
	}
}

/* V of one position the case sees becomes Inf: rows that do not see it must not notice. */
static void spoil(const struct attn_case *c, struct rng *r)
{
	const size_t pos = c->a.pos0 + rand_below(r, (uint32_t)(c->a.pos1 - c->a.pos0));
	float v[256];

	assert_true(c->a.head_v <= 256);
	for (size_t i = 0; i < c->a.head_v; i++)
		v[i] = INFINITY;
	if (is_seen(&c->a, pos))
		kern_reference()->put_v[c->type](v, c->a.head_v, pos % B, area_of(&c->a, pos, true));
}

/* Several rows at once: of one sequence at different positions, with gaps of their own, with some other blocks. Each
 * gets what the reference gives it alone. Seen red with rows taken along although their table names another block, with
 * cells that only some queries see given to all of a tile, and with a tile's cells out of order. */
void test_attn_rows(void **state)
{
	const struct kern *level = *state;
	struct rng r;

	rng_init(&r, 14, 0);
	for (int i = 0; i < effort(200); i++) {
		struct attn_case c;
		struct kern_attn rows[KERN_ATTN_ROWS];
		int32_t tables[KERN_ATTN_ROWS][TABLE_MAX];
		uint32_t held[KERN_ATTN_ROWS][TABLE_MAX];
		case_random(&c, &r, i, (enum held_kind)(i % 2), level);
		const size_t n = 1 + rand_below(&r, KERN_ATTN_ROWS);
		const size_t n_out = c.a.n_q * c.a.head_v, n_in = c.a.n_q * c.a.head_k;
		float *q = malloc(n * n_in * sizeof *q), *want = malloc(n * n_out * sizeof *want);
		assert_true(q && want);

		if (i / 2 % 2)
			spoil(&c, &r);
		if (i / 4 % 2)
			bend_case(&c, &r, (int)rand_below(&r, N_BENDS));
		for (size_t j = 0; j < n * n_in; j++)
			q[j] = rand_between(&r, -0.5f, 0.5f);
		for (size_t row = 0; row < n; row++) {
			vary(&c, &r, &rows[row], tables[row], held[row]);
			rows[row].q = q + row * n_in;
			rows[row].out = want + row * n_out;
			kern_attn(kern_reference(), c.type, &rows[row], 1, guard_get(GUARD_SCRATCH,
					kern_attn_scratch_bytes(1, c.a.n_q, c.a.head_k, c.a.head_v), 64, c.side));
		}
		float *got = guard_get(GUARD_OUT, n * n_out * sizeof *got, 4, c.side);
		for (size_t row = 0; row < n; row++)
			rows[row].out = got + row * n_out;
		kern_attn(level, c.type, rows, n, guard_get(GUARD_SCRATCH,
				kern_attn_scratch_bytes(n, c.a.n_q, c.a.head_k, c.a.head_v), 64, c.side));
		size_t at = floats_differ(want, got, n * n_out, i / 2 % 2);
		if (at < n * n_out)
			fail_msg("case %d, %zu rows of %zu queries: row %zu differs", i, n, c.a.n_q, at / n_out);
		free(q);
		free(want);
		case_release(&c);
	}
}

/* ---- Planted fault ---- */

/* The reference's block on F32 cells, but with the positions mixed in from the last to the first. */
static void attn_backwards(const struct kern_attn_step *s)
{
	const float *k = s->k, *v = s->v;

	for (struct kern_attn_query *q = s->queries; q < s->queries + s->n; q++) {
		float p[B] = {0}, lane[8], old = q->top;
		for (size_t j = 0; j < B; j++) {
			if (!(q->cells >> j & 1))
				continue;
			for (size_t i = 0; i < s->head_k; i++)
				p[j] = fmaf(q->q[i], k[i * B + j], p[j]);
			q->top = p[j] > q->top ? p[j] : q->top;
		}
		for (size_t j = 0; j < B; j++)
			p[j] = q->cells >> j & 1 ? kern_exp(p[j] - q->top) : 0.0f;
		for (size_t i = 0; i < 8; i++)
			lane[i] = p[i] + p[8 + i] + p[16 + i] + p[24 + i];
		float c = kern_exp(old - q->top);
		q->sum = fmaf(q->sum, c, kern_tree8(lane));
		for (size_t i = 0; i < s->head_v; i++) {
			q->acc[i] *= c;
			for (size_t j = B; j-- > 0;)
				if (q->cells >> j & 1)
					q->acc[i] = fmaf(p[j], v[j * kern_pad8(s->head_v) + i], q->acc[i]);
		}
	}
}

/* Shows that the comparison can turn red: with eight positions or more, and weights that are not all 0 and 1, the order
 * of the sum must show in some bit of the 256 outputs; the reference against itself must not differ. */
void test_attn_planted(void **state)
{
	struct rng r;
	int n_tried = 0;
	struct kern backwards = *kern_reference();

	(void)state;
	backwards.attn[KERN_KV_F32] = attn_backwards;
	rng_init(&r, 13, 0);
	for (int i = 0; i < 100; i++) {
		struct attn_case c;
		case_init(&c, &r, KERN_KV_F32, 16, 64, 4, GUARD_END, HELD_NULL, kern_reference());
		float *q = guard_get(GUARD_X, 4 * 16 * sizeof *q, 4, GUARD_END);
		for (int j = 0; j < 4 * 16; j++)
			q[j] = rand_between(&r, -1.0f, 1.0f);
		c.a.q = q;
		compute_want(&c);
		assert_false(run_differs(&c, kern_reference()));
		if (c.a.pos1 - c.a.pos0 >= 8) {
			assert_true(run_differs(&c, &backwards));
			n_tried++;
		}
		case_release(&c);
	}
	assert_true(n_tried > 50);
}
