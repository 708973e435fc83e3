/* The kernel table: arithmetic on rows of numbers, one table per instruction-set level.
 *
 * docs/numerics.md gives every operation's order and rounding. The reference level (kern_ref.c) is that page in plain
 * C; every other level gives the same bits. Pointers are aligned as their types need and no more, unless said
 * otherwise. Kernels never fail, never allocate and know nothing of threads: the caller hands out ranges of rows. */
#ifndef KERN_KERN_H
#define KERN_KERN_H

#include "quant/quant.h"

/* Positions per block of the KV cache, and per step of the softmax: part of the arithmetic. */
#define KERN_KV_BLOCK 32

/* Activations rounded to 8 bits, in blocks of 32 (with _0, _1, IQ4_NL and MXFP4 weights) ... */
struct kern_act_q8_32 {
	float d;        /* x is about d * qs */
	float s;        /* d * (float)sum, rounded once */
	int32_t off8;   /* -8 times the sum of qs: what weights stored 8 above their value owe */
	int32_t off128; /* -128 times */
	int8_t qs[32];
};
/* ... and of 256 (with K, IQ4_XS and TQ weights). */
struct kern_act_q8_256 {
	float d;
	int16_t s16[16]; /* sums of 16 */
	int16_t s32[8];  /* sums of 32 */
	int8_t qs[256];
};

/* out[c][r] = sum over k of w[r][k] * act[c][k] */
struct kern_mm {
	const void *w;     /* [n_rows, k] in the layout of the kern_mat it is given to */
	size_t n_rows, k;
	const void *act;   /* [n_cols] rows of act_bytes, as made by kern->act */
	size_t act_bytes;
	size_t n_cols;
	float *out;        /* [n_cols, out_ld] */
	size_t out_ld;
	void *scratch;     /* KERN_MM_SCRATCH_BYTES(k), 64-byte aligned, one per thread */
};

struct kern_mat {
	size_t unit;       /* row0 is a multiple of it; row1 too, or n_rows */
	void (*mm)(const struct kern_mm *m, size_t row0, size_t row1);
	/* Repacking from the file's layout; NULL: this is the file's layout. */
	size_t (*packed_bytes)(size_t n_rows, size_t k);
	void (*pack)(void *dst, const void *src, size_t n_rows, size_t k, size_t row0, size_t row1);
};

/* Attention of one row over one KV head: n_q query heads share it. */
struct kern_attn {
	const float *q;         /* [n_q, head_k], scaled already */
	size_t n_q, head_k, head_v;
	const uint8_t *kv;      /* the pool of blocks */
	size_t block_bytes;
	const int32_t *table; /* block id of each 32 positions */
	const uint32_t *held; /* bit j of each: place j may be seen; 0: the block is passed over; NULL: all */
	size_t k_offset;      /* within a block: the K area of this layer and head */
	size_t v_offset;      /* the V area */
	size_t pos0, pos1;    /* positions attended to: [pos0, pos1), with at least one that is held */
	size_t pos;           /* the row's own */
	float *out;           /* [n_q, head_v] */
	float cap;            /* scores s become cap * tanh(s / cap); 0: they stay */
	const float *slopes;  /* [n_q] or NULL: scores lose slope * distance */
	const float *sinks;   /* [n_q] or NULL: a score without a value, beside those of the cells */
};

/* One head of one row on its way through the blocks. */
struct kern_attn_query {
	const float *q;         /* [head_k] */
	float *acc;             /* [kern_pad16(head_v)] */
	float top, sum;
	float slope;    /* 0: distance does not matter */
	int32_t ahead;  /* positions from the present block's first to the row's own; negative: the row is before */
	uint32_t cells; /* what it sees of the present block: not 0 */
};

/* One block for n queries. */
struct kern_attn_step {
	size_t head_k, head_v;
	const void *k, *v;      /* the areas */
	struct kern_attn_query *queries;
	size_t n;
	float cap;     /* or 0 */
	bool bent;     /* there is a cap or a slope: scores are changed before they are compared */
	void *scratch; /* kern_attn_step_bytes, 64-byte aligned */
};

/* The convolution of a recurrent layer over the rows of a ubatch, channels [c0, c1). Row r reads state from[r]
 * (negative: zeros) and writes state to[r]; a state is the last d_conv - 1 inputs, [d_conv - 1, n]. */
struct kern_conv {
	size_t n_rows, n, d_conv;
	const int32_t *from, *to; /* [n_rows] */
	float *states;            /* of this layer: state i at states + i * state_n */
	size_t state_n;
	const float *w;    /* [n, d_conv] */
	const float *bias; /* [n] */
	float *x;          /* [n_rows, n]: inputs; becomes silu(convolution + bias) */
};
/* The selective scan after it: s = s exp(dt a) + x dt b, y = s c + d x, gated by silu(z). */
struct kern_scan {
	size_t n_rows, n, d_state;
	const int32_t *from, *to; /* [n_rows] */
	float *states;            /* [n, d_state] each */
	size_t state_n;
	const float *a;            /* [n, d_state] */
	const float *d;            /* [n] */
	const float *dt, *dt_bias; /* [n_rows, n], [n]: before softplus */
	const float *b, *c;        /* [n_rows, d_state] */
	const float *z;            /* [n_rows, n] */
	float *x;                  /* [n_rows, n]: becomes the gated y */
};

/* Areas of a block. F16, F32: K [head_k, 32], V [32, kern_pad8(head_v)].
 * Q8_0: groups of 32 elements of one position (the last may be short). K: int8 [head_k, 32], then f16 scales
 * [groups, 32]. V: int8 [32, kern_pad8(head_v)], then f16 scales [32, groups]. */
enum kern_kv { KERN_KV_F16, KERN_KV_F32, KERN_KV_Q8_0, KERN_KV_N };

struct kern {
	const char *name;
	struct kern_mat file[QUANT_N_TYPES];   /* mm NULL: unknown format */
	struct kern_mat packed[QUANT_N_TYPES]; /* mm NULL: no better layout at this level */

	/* One row of k floats to kern_act_bytes(kind, k) bytes. k is a multiple of the block. */
	void (*act[3])(const float *x, size_t k, void *out);

	/* out = x / rms(x) * w; out may be x. */
	void (*rms_norm)(const float *x, const float *w, size_t n, float eps, float *out);
	/* out = (x - mean(x)) / deviation(x) * w + b; b may be NULL, out may be x. */
	void (*layer_norm)(const float *x, const float *w, const float *b, size_t n, float eps, float *out);
	/* x += y */
	void (*add)(float *x, const float *y, size_t n);
	/* out = silu(gate) * up; out may be gate. */
	void (*silu_mul)(const float *gate, const float *up, size_t n, float *out);
	/* out = gelu(gate) * up, gelu in its tanh form; out may be gate. */
	void (*gelu_mul)(const float *gate, const float *up, size_t n, float *out);
	/* out = g / (1 + exp(-1.702 g)) * (u + 1), g at most 7, u within 7 of 0; out may be gate. */
	void (*swiglu_oai)(const float *gate, const float *up, size_t n, float *out);
	/* x = cap * tanh(x / cap) */
	void (*softcap)(float *x, float cap, size_t n);
	/* Rotates pairs (2i, 2i+1), or (i, i + n_rot/2) when halves, of one head in place. */
	void (*rope)(float *x, size_t n_rot, const float *cosv, const float *sinv, bool halves);
	/* x *= f */
	void (*scale)(float *x, float f, size_t n);
	/* Puts one head's K or V [n] into place `slot` of its area, rounded to the cache's type. */
	void (*put_k[KERN_KV_N])(const float *k, size_t n, size_t slot, void *area);
	void (*put_v[KERN_KV_N])(const float *v, size_t n, size_t slot, void *area);
	/* Reads K back, exactly as attention sees it. */
	void (*get_k[KERN_KV_N])(const void *area, size_t n, size_t slot, float *out);
	void (*attn[KERN_KV_N])(const struct kern_attn_step *s);
	void (*conv)(const struct kern_conv *v, size_t c0, size_t c1);
	void (*scan)(const struct kern_scan *s, size_t c0, size_t c1);
	bool (*all_finite)(const float *x, size_t n);
	/* y = fm_exp(x), in double; y may be x. */
	void (*exp64)(const double *x, size_t n, double *y);
};

static inline size_t kern_pad8(size_t n)
{
	return (n + 7) & ~(size_t)7;
}

static inline size_t kern_pad16(size_t n)
{
	return (n + 15) & ~(size_t)15;
}

/* Bytes of an area for heads of n elements (multiples of 64), and of one position's share of it. */
size_t kern_k_area_bytes(enum kern_kv t, size_t n);
size_t kern_v_area_bytes(enum kern_kv t, size_t n);
size_t kern_cell_bytes(enum kern_kv t, size_t n);
/* One position's bytes out of an area and back in: no arithmetic. In a cell elements come first, then the scales. */
void kern_k_cell_read(enum kern_kv t, size_t n, const void *area, size_t slot, void *cell);
void kern_v_cell_read(enum kern_kv t, size_t n, const void *area, size_t slot, void *cell);
void kern_k_cell_write(enum kern_kv t, size_t n, void *area, size_t slot, const void *cell);
void kern_v_cell_write(enum kern_kv t, size_t n, void *area, size_t slot, const void *cell);

size_t kern_act_bytes(enum quant_act kind, size_t k);
/* Sixteen rows unpacked to two bytes a weight, with scales and minimums (AMX): the most any level asks for. */
#define KERN_MM_SCRATCH_BYTES(k) (((k) + 255) / 256 * 8832)

/* Attention of n rows (KERN_ATTN_ROWS at most) with the same head sizes and n_q, over the same KV head of the same
 * pool: where neighbours have the same block they go over it together. Each gets what it would get alone. scratch:
 * kern_attn_scratch_bytes, 64-byte aligned. */
enum { KERN_ATTN_ROWS = 16 };
void kern_attn(const struct kern *k, enum kern_kv type, const struct kern_attn *rows, size_t n, void *scratch);
size_t kern_attn_scratch_bytes(size_t n_rows, size_t n_q, size_t head_k, size_t head_v);
size_t kern_attn_step_bytes(size_t n, size_t head_k, size_t head_v);

/* Levels, worst to best; 0 is the reference. */
size_t kern_count(void);
const char *kern_name(size_t level);
bool kern_usable(size_t level);
/* What a level that this CPU can run computed otherwise than the reference when it was first asked for, e.g. a format's
 * name: it is left out then. NULL: nothing. */
const char *kern_failed(size_t level);
/* NULL when the level is unknown, this CPU cannot run it or it failed. The table is filled once, on first use. */
const struct kern *kern_get(size_t level);
size_t kern_best(void);

/* Compares a table with another on a small random case of every entry, bit for bit (kern_proof.c). NULL: the same;
 * otherwise the first thing that differs. */
const char *kern_prove(const struct kern *k, const struct kern *ref);

/* Each level: starts from a copy of the level below and overwrites what it improves. */
void kern_init_ref(struct kern *k);
void kern_init_avx2(struct kern *k);
void kern_init_avx512(struct kern *k); /* with VNNI */
void kern_init_amx(struct kern *k);
void kern_init_neon(struct kern *k);

#endif
