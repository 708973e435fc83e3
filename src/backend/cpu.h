/* Shared by the files of the CPU backend. */
#ifndef BACKEND_CPU_H
#define BACKEND_CPU_H

#include "backend/backend.h"
#include "base/pool.h"
#include "kern/kern.h"

#include <stdatomic.h>

enum weight_state {
	WEIGHT_IN_FILE, /* used as the file has it */
	WEIGHT_CLAIMED, /* the same for all others, while one context packs it */
	WEIGHT_PACKED,  /* for good */
};

struct cpu_weight {
	struct model_weight mw;        /* the rows of this share */
	size_t row0;                   /* ... of the whole: they go to columns of a result from here on */
	bool held;                     /* on this device */
	const struct kern_mat *mat;    /* of the file's layout, or, when loose, of what a few rows are packed into */
	bool loose;                    /* in the file's layout: packed a few rows at a time, whenever they are needed */
	const struct kern_mat *packed; /* of the layout at `place` */
	void *place;                   /* in cpu_weights.packed; NULL: it stays as the file has it */
	_Atomic enum weight_state state;
	size_t n_done;                 /* rows that are packed; only the context that claimed it writes this */
	_Atomic uint64_t sum;          /* of the file's rows that were packed */
};

struct cpu_weights {
	struct be_weights base;
	const struct kern *kern;
	struct be_source source;
	struct cpu_weight *w; /* [source.n], by model_weight.index */
	atomic_size_t n_left; /* those that are to be packed yet */
	uint8_t *packed;      /* [base.packed_bytes] */
	bool locked; /* in memory */
};

struct cpu_buf {
	struct be_buf base;
	float *f; /* [n_rows, n_cols] */
};

/* A layer's cells: in each block, per KV head, a K and a V area. */
struct cpu_layer {
	struct be_cell_layer shape;
	size_t at;                  /* in a block of its group */
	size_t k_bytes, head_bytes; /* of a head's K area, and of both areas */
	size_t k_cell, v_cell;      /* bytes of one position of a head */
};

/* The cache of one group of layers: blocks end to end. */
struct cpu_kv_group {
	uint8_t *kv;
	size_t bytes, window;
	size_t n_heads; /* KV heads of all its layers */
};

/* Products with adapters. Rows with the same one go together. */
struct cpu_lora {
	const struct be_lora *base;  /* [n_base] */
	size_t n_base;
	int32_t *rows;               /* [n_rows_max]: those that have an adapter of their own, sorted by it */
	size_t n_rows;
	const struct be_lora **uses; /* [n_rows_max]: of rows[i] */
	float *x, *t, *y;            /* rows of inputs, of the narrow product, of the result */
	size_t x_n, t_n, y_n;        /* floats per row that there is room for */
};

struct cpu {
	struct be base;
	struct cpu_weights *w;
	double pack_until; /* clock_busy: what the rows at hand use before it is packed; 0: nothing is left */
	bool begun;
	const struct kern *kern;
	struct pool *pool;
	enum kern_kv kv_type;
	struct cpu_kv_group groups[BE_GROUPS_MAX];
	size_t n_groups;
	struct cpu_layer *layers; /* [n_layers] */
	size_t n_layers;
	uint8_t *act;                     /* [n_act_max] quantized rows of one product's input */
	size_t act_bytes;                 /* room per row */
	const struct be_rope *ropes;      /* [n_ropes] */
	size_t n_ropes, n_rot;            /* n_rot: the most elements of a table */
	float *rope;                      /* [n_ropes, n_rows_max, n_rot]: cos, sin */
	float *shift_rope;                /* [n_ropes, n_rot]: of a shift */
	float *ones;                      /* [n_ff_max]: what a feed-forward without a gate multiplies by */
	size_t n_rows_max, n_expert_used;
	struct cpu_mm *mms;       /* [2 * n_expert] */
	struct cpu_route *routes; /* [n_rows_max * n_expert_used], of the experts' step at hand */
	float *states;            /* [n_states, state_n]: recurrent states */
	size_t *state_at;         /* [n_state_layers]: where a layer begins in a state */
	size_t n_states, state_n;
	uint8_t *scratch;         /* [n_threads, scratch_bytes] */
	size_t scratch_bytes;
	struct cpu_lora lora;
	const struct be_rows *rows;
	int64_t bad;                   /* of checks since the last wait */
	const struct cpu_buf *rounded; /* or NULL */
	enum quant_act rounded_kind;
};

static inline struct cpu *cpu_of(const struct be_buf *b)
{
	return (struct cpu *)b->be;
}

/* A row at one of its experts. */
struct cpu_route {
	int32_t row, expert;
	float weight;
	int32_t slot; /* where it is among all rows sorted by expert */
};

/* A fork costs about as much as these many numbers; below that one thread is faster. */
enum { CPU_SERIAL_MAX = 2048 };

/* Rows of a matrix that are handed out together: every level's unit divides it. */
enum { CPU_MM_UNIT = 16 };

/* cpu.c */
struct cpu_mm {
	struct kern_mm mm;
	const struct kern_mat *mat;
	size_t row_bytes; /* in the file */
	bool loose;
	struct cpu_weight *fill; /* NULL, or what was claimed: to be packed on the way; mm is of the packed layout */
};
/* The product of a matrix with n rows from act on. It must be run: it may have claimed the matrix. */
struct cpu_mm cpu_mm_of(const struct cpu *c, const struct model_weight *w, const void *act, size_t act_bytes, size_t n,
		float *out, size_t out_ld);
/* All of them, their rows laid end to end and shared out. */
void cpu_mm_run(struct cpu *c, const struct cpu_mm *mm, size_t n);
/* gate = act(gate) * up */
void cpu_act_row(const struct cpu *c, enum be_act act, float *gate, const float *up, size_t n);
void cpu_norm_row(const struct cpu *c, const struct be_norm *norm, const float *x, size_t n, float *out);
/* row r of [n, k] floats, on as many threads as that pays for */
void cpu_run_rows(struct cpu *c, size_t n, size_t k, void (*run)(const void *job, size_t row), const void *job);

/* cpu_weights.c */
enum cohort_status cpu_weights_open(struct be_weights **out, const struct be_source *source,
		const struct be_weights_params *params, struct cohort_err *err);
enum cohort_status cpu_weights_lock(struct be_weights *w, bool (*progress)(float, void *), void *user,
		struct be_lock *out, struct cohort_err *err);
void cpu_weights_free(struct be_weights *w);
/* Whether the caller is to pack the matrix now: rows from n_done on, then publish. */
bool cpu_weight_claim(struct cpu_weight *bw);
/* Packs rows [from, to) of a claimed matrix; from is a multiple of CPU_MM_UNIT. Any thread may, each row once. */
void cpu_weight_pack(struct cpu_weight *bw, size_t from, size_t to);
/* Rows [from, to) were packed: the file's pages of them are given back. */
void cpu_weight_give_back(const struct cpu_weights *w, const struct cpu_weight *bw, size_t from, size_t to);
void cpu_weight_publish(struct cpu_weights *w, struct cpu_weight *bw);
double cpu_repack(struct be *be, double seconds);
uint64_t cpu_weight_sum(struct be *be, const struct model_weight *mw);

/* cpu_lora.c */
bool cpu_lora_init(struct cpu *c, const struct be_limits *lim);
void cpu_lora_release(struct cpu *c);
bool cpu_lora_reserve(struct be *be, const struct model_loras *a);
/* Sorts the rows; map: as narrow's rows, or NULL. */
void cpu_lora_begin(struct cpu *c, const int32_t *map, size_t n);
/* Adds the adapters' part to the product of n rows of x with w. */
void cpu_lora_add(struct cpu *c, const struct model_weight *w, const struct cpu_buf *x, size_t n, float *out,
		size_t out_ld);

/* cpu_moe.c */
void cpu_experts(struct be_buf *out, const struct be_buf *x, const struct be_experts *d,
		const struct be_expert_bufs *bufs, size_t n);
void cpu_add_gated(struct be_buf *out, struct be_buf *b, const struct be_buf *x, const struct model_weight *w,
		size_t n);

/* cpu_state.c */
bool cpu_state_init(struct cpu *c, const struct be_limits *lim);
void cpu_conv(struct be_buf *x, const struct be_conv *d);
void cpu_scan(struct be_buf *x, const struct be_buf *dt, const struct be_buf *b, const struct be_buf *c,
		const struct be_buf *z, const struct be_scan *d);

/* cpu_kv.c */
bool cpu_kv_init(struct cpu *c, const struct be_limits *lim);
void cpu_kv_release(struct cpu *c);
/* Bytes of scratch that a thread needs for attention and moves. */
size_t cpu_kv_scratch_bytes(const struct be_limits *lim);
void cpu_kv_qkv_store(struct be_buf *q, struct be_buf *k, struct be_buf *v, const struct be_qkv *d);
void cpu_kv_attention(struct be_buf *out, const struct be_buf *q, const struct be_attend *d, const int32_t *rows,
		size_t n);
void cpu_kv_touch(struct be *be);
void cpu_kv_cells_move(struct be *be, size_t group, const struct be_move *moves, size_t n);
void cpu_kv_cells_pass(struct be *be, size_t group, const struct be_span *spans, size_t n, void *bytes, size_t step,
		bool store);

extern const struct be_ops be_cpu;

#endif
