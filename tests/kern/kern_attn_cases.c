/* The cache and attention: kv_put and attn of every level against the reference bit for bit, the reference against a
 * softmax in double, and a planted fault. Cells outside the positions attended to hold NaN or Inf. */
#include "kern_common.h"

#include "base/fmath.h"
#include "kern/kern_math.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { B = KERN_KV_BLOCK, N_BLOCKS_MAX = 10 };

static const size_t head_sizes[] = {1, 5, 8, 16, 20, 64, 80, 128};
enum { N_HEAD_SIZES = sizeof head_sizes / sizeof *head_sizes };

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
	static const uint16_t halves[] = {0xffff, 0x7e00, 0x7c00, 0xfc00};
	static const uint32_t floats[] = {0xffffffff, 0x7fc00000, 0x7f800000, 0xff800000};

	for (size_t i = 0; i < n_bytes; i += kern_kv_elem_bytes(type))
		if (type == KERN_KV_F16)
			memcpy(p + i, &halves[rand_below(r, 4)], 2);
		else
			memcpy(p + i, &floats[rand_below(r, 4)], 4);
}

/* Writes positions [pos0, pos1) with a level's own kv_put. */
static void put_all(const struct attn_case *c, const struct kern *level)
{
	const struct kern_attn *a = &c->a;
	for (size_t p = a->pos0; p < a->pos1; p++) {
		uint8_t *block = (uint8_t *)a->kv + (size_t)a->table[p / B] * a->block_bytes;
		level->kv_put[c->type](c->k + p * a->head_k, c->v + p * a->head_v, a->head_k, a->head_v, p % B,
				block + a->k_offset, block + a->v_offset);
	}
}

static void case_init(struct attn_case *c, struct rng *r, enum kern_kv type, size_t head_k, size_t head_v, size_t n_q,
		enum guard_side side, const struct kern *level)
{
	const float q_scales[] = {0.1f, 1.0f, 30.0f}; /* the last: most weights underflow to 0 */
	size_t elem = kern_kv_elem_bytes(type), pos1 = 1 + rand_below(r, 200);
	size_t k_bytes = head_k * B * elem, v_bytes = B * kern_pad8(head_v) * elem;
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

	/* A shuffled table: any block but two, in any order; blocks before pos0 are named and hold garbage. */
	assert_true(c->n_blocks <= N_BLOCKS_MAX);
	int32_t ids[N_BLOCKS_MAX];
	for (size_t i = 0; i < c->n_blocks; i++) {
		size_t j = rand_below(r, i + 1);
		ids[i] = ids[j];
		ids[j] = (int32_t)i;
	}
	int32_t *table = guard_get(GUARD_TABLE, (c->n_blocks - 2) * sizeof *table, 4, side);
	memcpy(table, ids, (c->n_blocks - 2) * sizeof *table);
	a->table = table;

	uint8_t *kv = guard_get(GUARD_KV, c->n_blocks * a->block_bytes, 4, side);
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

static void case_release(struct attn_case *c)
{
	free(c->k);
	free(c->v);
	free(c->want);
	guard_check_all();
}

/* One run of attn: fresh garbage in out and scratch. Returns out. */
static const float *run(const struct attn_case *c, void (*attn)(const struct kern_attn *))
{
	struct kern_attn a = c->a;
	a.out = guard_get(GUARD_OUT, a.n_q * a.head_v * sizeof *a.out, 4, c->side);
	a.scratch = guard_get(GUARD_SCRATCH, kern_attn_scratch_bytes(a.n_q, a.head_v), 64, c->side);
	attn(&a);
	return a.out;
}

static void compute_want(const struct attn_case *c)
{
	memcpy(c->want, run(c, kern_reference()->attn[c->type]), c->a.n_q * c->a.head_v * sizeof *c->want);
}

static bool run_differs(const struct attn_case *c, void (*attn)(const struct kern_attn *))
{
	size_t n = c->a.n_q * c->a.head_v;
	return floats_differ(c->want, run(c, attn), n, false) < n;
}

void test_attn(void **state)
{
	const struct kern *level = *state;
	struct rng r;
	int i = 0;

	rng_init(&r, 10, 0);
	for (int type = 0; type < KERN_KV_N; type++)
		for (size_t hk = 0; hk < N_HEAD_SIZES; hk++)
			for (size_t hv = 0; hv < N_HEAD_SIZES; hv++)
				for (size_t n_q = 1; n_q <= 9; n_q++, i++) {
					struct attn_case c;
					case_init(&c, &r, (enum kern_kv)type, head_sizes[hk], head_sizes[hv], n_q,
							i % 2 ? GUARD_START : GUARD_END, level);
					compute_want(&c);
					if (run_differs(&c, level->attn[type]))
						fail_msg("type %d, heads %zu and %zu, %zu queries, at %zu..%zu", type,
								c.a.head_k, c.a.head_v, n_q, c.a.pos0, c.a.pos1);
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
	for (int i = 0; i < 1000; i++) {
		struct attn_case c;
		bool finite = i % 2;
		size_t n_q = 1 + rand_below(&r, 4), n_out = n_q * 5;
		/* In some cases every score is below the start of the running maximum: the sum of weights is 0. */
		size_t first = i % 16 == 1 ? 9 : 0;
		case_init(&c, &r, KERN_KV_F32, 1, 5, n_q, i / 2 % 2 ? GUARD_START : GUARD_END, level);
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
		size_t at = floats_differ(c.want, run(&c, level->attn[KERN_KV_F32]), n_out, !finite || first);
		if (at < n_out)
			fail_msg("case %d: positions %zu..%zu, output %zu", i, c.a.pos0, c.a.pos1, at);
		case_release(&c);
	}
}

/* Any float, the ones f16 rounds, overflows or underflows on first. */
static float rand_any(struct rng *r)
{
	switch (rng_u32(r) % 6) {
	case 0: return rand_between(r, 65472.0f, 65568.0f);
	case 1: return rand_between(r, -1e-4f, 1e-4f);
	case 2: return rand_between(r, -1e-7f, 1e-7f);
	case 3: return kern_from_bits(rng_u32(r));
	case 4: return (float)(1024 + rand_below(r, 1024)) + 0.5f; /* ties */
	default: return rand_between(r, -1.0f, 1.0f);
	}
}

/* The whole of both areas is compared: the cell written, and all others untouched. NaN keeps its bits here: they are
 * copied (F32), or rounded as the hardware does (F16, see test_quant). */
void test_kv_put(void **state)
{
	const struct kern *level = *state;
	struct rng r;

	rng_init(&r, 11, 0);
	for (int i = 0; i < 3000; i++) {
		enum kern_kv type = (enum kern_kv)(i % 2);
		enum guard_side side = i / 2 % 2 ? GUARD_START : GUARD_END;
		size_t hk = head_sizes[rand_below(&r, N_HEAD_SIZES)], hv = head_sizes[rand_below(&r, N_HEAD_SIZES)];
		size_t elem = kern_kv_elem_bytes(type), slot = rand_below(&r, B);
		size_t k_bytes = hk * B * elem, v_bytes = B * kern_pad8(hv) * elem;
		float *k = guard_get(GUARD_X, hk * sizeof *k, 4, side);
		float *v = guard_get(GUARD_Y, hv * sizeof *v, 4, side);
		uint8_t *got_k = guard_get(GUARD_KV, k_bytes, 4, side);
		uint8_t *got_v = guard_get(GUARD_OUT, v_bytes, 4, side);
		uint8_t *want = malloc(k_bytes + v_bytes);

		assert_non_null(want);
		for (size_t j = 0; j < hk; j++)
			k[j] = rand_any(&r);
		for (size_t j = 0; j < hv; j++)
			v[j] = rand_any(&r);
		memset(want, 0x5a, k_bytes + v_bytes);
		memset(got_k, 0x5a, k_bytes);
		memset(got_v, 0x5a, v_bytes);
		kern_reference()->kv_put[type](k, v, hk, hv, slot, want, want + k_bytes);
		level->kv_put[type](k, v, hk, hv, slot, got_k, got_v);
		assert_memory_equal(got_k, want, k_bytes);
		assert_memory_equal(got_v, want + k_bytes, v_bytes);
		guard_check_all();
		free(want);
	}
}

/* ---- What the reference means ---- */

/* As the cache rounds it. */
static double rounded(float x, enum kern_kv type)
{
	return (double)(type == KERN_KV_F16 ? quant_f16_to_f32(quant_f32_to_f16(x)) : x);
}

/* Softmax attention of query head h in double, with the maximum of all scores known beforehand. */
static void attn_double(const struct attn_case *c, size_t h, double *out)
{
	const struct kern_attn *a = &c->a;
	double score[B * N_BLOCKS_MAX], top = -INFINITY, sum = 0.0;

	for (size_t p = a->pos0; p < a->pos1; p++) {
		score[p] = 0.0;
		for (size_t i = 0; i < a->head_k; i++)
			score[p] += (double)a->q[h * a->head_k + i] * rounded(c->k[p * a->head_k + i], c->type);
		top = score[p] > top ? score[p] : top;
	}
	memset(out, 0, a->head_v * sizeof *out);
	for (size_t p = a->pos0; p < a->pos1; p++) {
		double w = fm_exp(score[p] - top);
		sum += w;
		for (size_t i = 0; i < a->head_v; i++)
			out[i] += w * rounded(c->v[p * a->head_v + i], c->type);
	}
	for (size_t i = 0; i < a->head_v; i++)
		out[i] /= sum;
}

void test_attn_meaning(void **state)
{
	const struct kern *level = *state;
	struct rng r;
	double out[128];

	rng_init(&r, 12, 0);
	for (int i = 0; i < 400; i++) {
		enum kern_kv type = (enum kern_kv)(i % 2);
		size_t hk = head_sizes[rand_below(&r, N_HEAD_SIZES)], hv = head_sizes[rand_below(&r, N_HEAD_SIZES)];
		size_t n_q = 1 + rand_below(&r, 4);
		struct attn_case c;
		case_init(&c, &r, type, hk, hv, n_q, i / 2 % 2 ? GUARD_START : GUARD_END, level);
		const float *got = run(&c, level->attn[type]);
		for (size_t h = 0; h < c.a.n_q; h++) {
			attn_double(&c, h, out);
			/* |V| is at most 1, so the errors are those of the weights: a score is a sum of up to 128
			 * products of up to 30, good to some 1e-4 in float, and exp makes that a relative error. */
			for (size_t e = 0; e < c.a.head_v; e++)
				if (!(fabs(out[e] - (double)got[h * c.a.head_v + e]) <= 2e-4))
					fail_msg("case %d: head %zu: %.9g, want %.9g", i, h,
							(double)got[h * c.a.head_v + e], out[e]);
		}
		case_release(&c);
	}
}

/* ---- Planted fault ---- */

/* The reference's attention on F32 cells, but with a block's positions mixed in from the last to the first. */
static void attn_backwards(const struct kern_attn *a)
{
	float *acc = a->scratch;

	for (size_t h = 0; h < a->n_q; h++) {
		float top = KERN_ATTN_FLOOR, sum = 0.0f;
		memset(acc, 0, a->head_v * sizeof *acc);
		for (size_t b = a->pos0 / B; b * B < a->pos1; b++) {
			const uint8_t *block = a->kv + (size_t)a->table[b] * a->block_bytes;
			const float *k = (const void *)(block + a->k_offset), *v = (const void *)(block + a->v_offset);
			float p[B] = {0}, lane[8], old = top;
			for (size_t j = 0; j < B; j++) {
				if (b * B + j < a->pos0 || b * B + j >= a->pos1)
					continue;
				for (size_t i = 0; i < a->head_k; i++)
					p[j] = fmaf(a->q[h * a->head_k + i], k[i * B + j], p[j]);
				top = p[j] > top ? p[j] : top;
			}
			for (size_t j = 0; j < B; j++)
				p[j] = b * B + j < a->pos0 || b * B + j >= a->pos1 ? 0.0f : kern_exp(p[j] - top);
			for (size_t i = 0; i < 8; i++)
				lane[i] = p[i] + p[8 + i] + p[16 + i] + p[24 + i];
			float c = kern_exp(old - top);
			sum = fmaf(sum, c, kern_tree8(lane));
			for (size_t i = 0; i < a->head_v; i++) {
				acc[i] *= c;
				for (size_t j = B; j-- > 0;)
					if (b * B + j >= a->pos0 && b * B + j < a->pos1)
						acc[i] = fmaf(p[j], v[j * kern_pad8(a->head_v) + i], acc[i]);
			}
		}
		for (size_t i = 0; i < a->head_v; i++)
			a->out[h * a->head_v + i] = acc[i] * (1.0f / sum);
	}
}

/* Shows that the comparison can turn red: with eight positions or more, and weights that are not all 0 and 1, the order
 * of the sum must show in some bit of the 256 outputs; the reference against itself must not differ. */
void test_attn_planted(void **state)
{
	struct rng r;
	int n_tried = 0;

	(void)state;
	rng_init(&r, 13, 0);
	for (int i = 0; i < 100; i++) {
		struct attn_case c;
		case_init(&c, &r, KERN_KV_F32, 16, 64, 4, GUARD_END, kern_reference());
		float *q = guard_get(GUARD_X, 4 * 16 * sizeof *q, 4, GUARD_END);
		for (int j = 0; j < 4 * 16; j++)
			q[j] = rand_between(&r, -1.0f, 1.0f);
		c.a.q = q;
		compute_want(&c);
		assert_false(run_differs(&c, kern_reference()->attn[KERN_KV_F32]));
		if (c.a.pos1 - c.a.pos0 >= 8) {
			assert_true(run_differs(&c, attn_backwards));
			n_tried++;
		}
		case_release(&c);
	}
	assert_true(n_tried > 50);
}
