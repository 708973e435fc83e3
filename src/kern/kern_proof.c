/* A level proves itself: a small random case of every entry of its table, bit for bit against the reference.
 *
 * Invariants
 *  1. Inputs are finite and of moderate size, so that results are: bits of NaNs need not agree.
 *  2. Nothing is allocated and nothing but the stack is written, so that it can run when the table is filled. It takes
 *     one to three milliseconds. */
#include "kern/kern.h"

#include "base/rng.h"

#include <math.h>
#include <string.h>

/* Rows and columns that leave a rest in every tile, of few columns and of many; one block of the largest kind. */
enum { ROWS = 17, COLS = 5, MANY = 53, K = 256 };
enum { HEAD = 40, POSITIONS = 70, BLOCKS = 3, QUERIES = 3, ATTN_ROWS = 3, SMALL = 67 };
enum { N_OUT = ATTN_ROWS * QUERIES * HEAD, SCRATCH = 24 << 10 };
/* Channels for registers and a rest, of a recurrent layer. */
enum { CHANNELS = 19, D_CONV = 4, D_STATE = 16, STATE_ROWS = 4, STATES = 3 };
enum { STATE_N = CHANNELS * (D_STATE + D_CONV - 1) };

struct proof {
	const struct kern *k, *ref;
	struct rng rng;
};

static float number(struct proof *p)
{
	return (float)(rng_f64(&p->rng) * 4.0 - 2.0);
}

static void numbers(struct proof *p, float *x, size_t n)
{
	for (size_t i = 0; i < n; i++)
		x[i] = number(p);
}

static bool moderate(const float *x, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (!(fabsf(x[i]) < 1e6f))
			return false;
	return true;
}

/* Random bytes, block by block, until they mean moderate numbers. */
static void random_weights(struct proof *p, const struct quant_format *f, uint8_t *w)
{
	float x[K];

	for (size_t b = 0; b < (size_t)ROWS * K / f->block; b++, w += f->block_bytes)
		do
			for (size_t i = 0; i < f->block_bytes; i++)
				w[i] = (uint8_t)rng_u32(&p->rng);
		while (f->to_f32(w, x, f->block), !moderate(x, f->block));
}

static void product(const struct kern_mat *mat, const void *w, const void *act, size_t act_bytes, size_t n_cols,
		float *out)
{
	_Alignas(64) uint8_t scratch[KERN_MM_SCRATCH_BYTES(K)];
	mat->mm(&(struct kern_mm){.w = w, .n_rows = ROWS, .k = K, .act = act, .act_bytes = act_bytes, .n_cols = n_cols,
				.out = out, .out_ld = ROWS, .scratch = scratch},
			0, ROWS);
}

/* With few columns, and with many, which are the same ones again and again: the reference is slow. */
static bool as_wanted(const struct kern_mat *mat, const void *w, const void *act, size_t act_bytes, bool many,
		const float *want)
{
	float got[MANY * ROWS];

	product(mat, w, act, act_bytes, COLS, got);
	if (memcmp(want, got, COLS * ROWS * sizeof *want) != 0)
		return false;
	if (many)
		product(mat, w, act, act_bytes, MANY, got);
	for (size_t c = 0; many && c < MANY; c++)
		if (memcmp(want + c % COLS * ROWS, got + c * ROWS, ROWS * sizeof *want) != 0)
			return false;
	return true;
}

static bool same_product(struct proof *p, uint32_t type, const struct quant_format *f)
{
	_Alignas(64) uint8_t w[ROWS * K * 4], packed[2 * ROWS * K * 4];
	_Alignas(64) uint8_t act[MANY * K * 2];
	float x[COLS * K], want[COLS * ROWS];
	const size_t act_bytes = kern_act_bytes(f->act, K);
	const bool many = f->act != QUANT_ACT_F32; /* floats have one way for all */
	const struct kern_mat *mat = &p->k->packed[type];

	random_weights(p, f, w);
	numbers(p, x, COLS * K);
	for (size_t c = 0; c < COLS; c++)
		p->ref->act[f->act](x + c * K, K, act + c * act_bytes);
	for (size_t c = COLS; many && c < MANY; c++)
		memcpy(act + c * act_bytes, act + c % COLS * act_bytes, act_bytes);
	product(&p->ref->file[type], w, act, act_bytes, COLS, want);
	if (p->k->file[type].mm != p->ref->file[type].mm &&
			!as_wanted(&p->k->file[type], w, act, act_bytes, many, want))
		return false;
	if (!mat->mm)
		return true;
	if (mat->packed_bytes(ROWS, K) > sizeof packed)
		return false;
	mat->pack(packed, w, ROWS, K, 0, ROWS);
	return as_wanted(mat, packed, act, act_bytes, many, want);
}

static bool same_act(struct proof *p, enum quant_act kind)
{
	float x[K];
	uint8_t want[K * 4] = {0}, got[K * 4] = {0};

	numbers(p, x, K);
	p->ref->act[kind](x, K, want);
	p->k->act[kind](x, K, got);
	return memcmp(want, got, sizeof want) == 0;
}

/* The operations on a row, one after the other on the same numbers, and gelu on gates from -9 to 7: nearer to 0 a wrong
 * last bit of its exponent hardly ever shows. x: [5, SMALL], the row and places for gelu's, SwiGLU's, the cap's and the
 * other norm's. */
static void row_steps(const struct kern *k, float *x, const float *y, const float *w)
{
	float angle[2][SMALL], *gate = x + SMALL, *oai = gate + SMALL, *capped = oai + SMALL, *normed = capped + SMALL;

	k->rms_norm(x, w, SMALL, 1e-5f, x);
	k->add(x, y, SMALL);
	k->silu_mul(x, w, SMALL, x);
	k->scale(x, 0.7f, SMALL);
	for (size_t i = 0; i < SMALL; i++) {
		angle[0][i] = w[i] * 0.3f;
		angle[1][i] = y[i] * 0.3f;
	}
	k->rope(x, SMALL - 1, angle[0], angle[1], false);
	k->rope(x, SMALL - 1, angle[0], angle[1], true);
	for (size_t i = 0; i < SMALL; i++)
		gate[i] = 4.0f * w[i] - 1.0f;
	k->gelu_mul(gate, y, SMALL, gate);
	/* Beyond the limits of 7 as well, and on both sides of where tanh changes its form. */
	for (size_t i = 0; i < SMALL; i++) {
		oai[i] = 5.0f * w[i];
		angle[0][i] = 5.0f * y[i];
		capped[i] = 2.0f * w[i];
	}
	k->swiglu_oai(oai, angle[0], SMALL, oai);
	k->softcap(capped, 1.5f, SMALL);
	k->layer_norm(y, w, y, SMALL, 1e-5f, normed);
	k->layer_norm(normed, w, NULL, SMALL, 1e-5f, normed);
}

static bool same_rows(struct proof *p)
{
	float x[5 * SMALL] = {0}, y[SMALL], w[SMALL], want[5 * SMALL];

	numbers(p, x, SMALL);
	numbers(p, y, SMALL);
	numbers(p, w, SMALL);
	memcpy(want, x, sizeof x);
	row_steps(p->ref, want, y, w);
	row_steps(p->k, x, y, w);
	if (memcmp(want, x, sizeof x) != 0 || !p->k->all_finite(x, SMALL))
		return false;
	double e[SMALL], e_want[SMALL];
	for (size_t i = 0; i < SMALL; i++)
		e[i] = i % 8 < 7 ? 30.0 * (double)w[i] : 900.0 * (double)y[i];
	p->ref->exp64(e, SMALL, e_want);
	p->k->exp64(e, SMALL, e);
	if (memcmp(e, e_want, sizeof e) != 0)
		return false;
	x[SMALL - 1] = INFINITY;
	return !p->k->all_finite(x, SMALL);
}

/* A recurrent layer: one sequence that starts, goes on in its place and in another one, and one that has a state. */
struct layer {
	float conv[CHANNELS * D_CONV], a[CHANNELS * D_STATE], bias[CHANNELS], d[CHANNELS];
	float dt[STATE_ROWS * CHANNELS], z[STATE_ROWS * CHANNELS], b[STATE_ROWS * D_STATE], c[STATE_ROWS * D_STATE];
};

/* What it makes of x [STATE_ROWS, CHANNELS] and states [STATES, STATE_N]. */
static void recur(const struct kern *k, const struct layer *l, float *x, float *states)
{
	static const int32_t from[STATE_ROWS] = {-1, 0, 2, 0}, to[STATE_ROWS] = {0, 0, 1, 2};

	k->conv(&(struct kern_conv){.n_rows = STATE_ROWS, .n = CHANNELS, .d_conv = D_CONV, .from = from, .to = to,
				.states = states, .state_n = STATE_N, .w = l->conv, .bias = l->bias, .x = x},
			0, CHANNELS);
	k->scan(&(struct kern_scan){.n_rows = STATE_ROWS, .n = CHANNELS, .d_state = D_STATE, .from = from, .to = to,
				.states = states + CHANNELS * (D_CONV - 1), .state_n = STATE_N, .a = l->a, .d = l->d,
				.dt = l->dt, .dt_bias = l->bias, .b = l->b, .c = l->c, .z = l->z, .x = x},
			0, CHANNELS);
}

static bool same_states(struct proof *p)
{
	enum { N = STATE_ROWS * CHANNELS + STATES * STATE_N };
	struct layer l;
	float got[N], want[N];

	numbers(p, l.conv, CHANNELS * D_CONV);
	numbers(p, l.a, CHANNELS * D_STATE);
	numbers(p, l.bias, CHANNELS);
	numbers(p, l.d, CHANNELS);
	numbers(p, l.dt, STATE_ROWS * CHANNELS);
	numbers(p, l.z, STATE_ROWS * CHANNELS);
	numbers(p, l.b, STATE_ROWS * D_STATE);
	numbers(p, l.c, STATE_ROWS * D_STATE);
	numbers(p, got, N);
	memcpy(want, got, sizeof want);
	recur(p->ref, &l, want, want + STATE_ROWS * CHANNELS);
	recur(p->k, &l, got, got + STATE_ROWS * CHANNELS);
	return memcmp(want, got, sizeof want) == 0;
}

/* A cache of three blocks filled by one table, and attention over it with the same table; bent: with a cap, distances
 * and sinks. */
static void attend(const struct kern *k, enum kern_kv type, const float *kv, const float *q, const uint32_t *held,
		bool bent, float *out)
{
	static const float slopes[QUERIES] = {0.25f, 0.0f, 0.01f}, sinks[QUERIES] = {-1.0f, 0.5f, 3.0f};
	enum { AREA = HEAD * KERN_KV_BLOCK * 4 + 64 };
	static const int32_t table[BLOCKS] = {2, 0, 1};
	_Alignas(64) uint8_t cache[BLOCKS * 2 * AREA];
	_Alignas(64) uint8_t scratch[SCRATCH];
	float back[HEAD];

	memset(cache, 0xff, sizeof cache); /* NaN in every type: what nobody may see must have no say */
	for (size_t i = 0; i < POSITIONS; i++) {
		uint8_t *area = cache + (size_t)table[i / KERN_KV_BLOCK] * 2 * AREA;
		k->put_k[type](kv + 2 * i * HEAD, HEAD, i % KERN_KV_BLOCK, area);
		k->put_v[type](kv + (2 * i + 1) * HEAD, HEAD, i % KERN_KV_BLOCK, area + AREA);
	}
	struct kern_attn rows[ATTN_ROWS];
	for (size_t r = 0; r < ATTN_ROWS; r++)
		rows[r] = (struct kern_attn){.q = q + r * QUERIES * HEAD, .n_q = QUERIES, .head_k = HEAD,
				.head_v = HEAD, .kv = cache, .block_bytes = 2 * AREA, .table = table, .held = held,
				.k_offset = 0, .v_offset = AREA, .pos0 = 3, .pos1 = POSITIONS - 3 * r,
				.pos = 5 + 30 * r, .out = out + r * QUERIES * HEAD, .cap = bent ? 0.4f : 0.0f,
				.slopes = bent ? slopes : NULL, .sinks = bent ? sinks : NULL};
	kern_attn(k, type, rows, ATTN_ROWS, scratch);
	k->get_k[type](cache, HEAD, 5, back);
	out[0] += back[HEAD - 1];
}

static bool same_attention(struct proof *p, enum kern_kv type)
{
	if (kern_attn_scratch_bytes(ATTN_ROWS, QUERIES, HEAD, HEAD) > SCRATCH)
		return false;
	static const uint32_t held[BLOCKS] = {0xfffffff0u, 0x00ffff0fu, 0x3fu};
	float kv[2 * POSITIONS * HEAD], q[N_OUT], want[N_OUT], got[N_OUT];

	numbers(p, kv, 2 * POSITIONS * HEAD);
	for (size_t i = 0; i < N_OUT; i++)
		q[i] = number(p) * 0.1f; /* small, so that every position has a say */
	for (int i = 0; i < 2; i++) {
		attend(p->ref, type, kv, q, i ? held : NULL, i, want);
		attend(p->k, type, kv, q, i ? held : NULL, i, got);
		if (memcmp(want, got, sizeof want) != 0)
			return false;
	}
	return true;
}

const char *kern_prove(const struct kern *k, const struct kern *ref)
{
	struct proof p = {.k = k, .ref = ref};

	rng_init(&p.rng, 1, 0);
	for (uint32_t t = 0; t < QUANT_N_TYPES; t++) {
		const struct quant_format *f = ref->file[t].mm ? quant_format_get(t) : NULL;
		if (f && !same_product(&p, t, f))
			return f->name;
	}
	for (int kind = QUANT_ACT_F32; kind <= QUANT_ACT_Q8_256; kind++)
		if (!same_act(&p, (enum quant_act)kind))
			return "rounding of activations";
	if (!same_rows(&p))
		return "norm, gate or rope";
	if (!same_states(&p))
		return "convolution or scan";
	for (int type = 0; type < KERN_KV_N; type++)
		if (!same_attention(&p, (enum kern_kv)type))
			return "attention";
	return NULL;
}
