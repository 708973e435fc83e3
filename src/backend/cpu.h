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

struct be_weight {
	const struct model_weight *mw;
	const struct kern_mat *mat;    /* of the file's layout, or, when loose, of what a few rows are packed into */
	bool loose;                    /* in the file's layout: packed a few rows at a time, whenever they are needed */
	const struct kern_mat *packed; /* of the layout at `place` */
	void *place;                   /* in be_weights.packed; NULL: it stays as the file has it */
	_Atomic enum weight_state state;
	size_t n_done;                 /* rows that are packed; belongs to who claimed it */
	_Atomic uint64_t sum;          /* of the file's rows that were packed */
};

struct be_weights {
	const struct kern *kern;
	const struct model *m;
	struct be_weight *w; /* [n], by model_weight.index */
	size_t n;
	atomic_size_t n_left; /* those that are to be packed yet */
	uint8_t *packed;      /* [packed_bytes] */
	size_t packed_bytes;
	bool locked; /* in memory */
};

struct be_buf {
	float *f; /* [n_rows, n_cols] */
	size_t n_rows, n_cols;
};

/* The cache of one group of layers: blocks end to end. A block holds, per layer and KV head, a K and a V area. */
struct cpu_kv_group {
	uint8_t *kv;
	size_t bytes, n_layers, block_bytes, window;
	int8_t *rope_of; /* [n_layers]: which angles a layer's keys are turned by; -1: none */
};

struct cpu_layer {
	uint8_t group;
	uint32_t index; /* within the group */
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

struct be {
	struct be_weights *w;
	double pack_until; /* clock_busy: what the rows at hand use before it is packed; 0: nothing is left */
	bool begun;
	const struct model *m;
	const struct kern *kern;
	struct pool *pool;
	enum kern_kv kv_type;
	struct cpu_kv_group groups[BE_GROUPS_MAX];
	size_t n_groups;
	size_t k_bytes, head_bytes; /* of a head's K area, and of both areas */
	struct cpu_layer *layers; /* [n_layer] */
	uint8_t *act;                     /* [n_act_max] rounded rows of one product's input */
	size_t act_bytes;                 /* room per row */
	const double *freqs[MODEL_ROPES]; /* [n_rot / 2] each, or NULL */
	float *rope;                      /* [MODEL_ROPES, n_rows_max, 2, n_rot / 2]: cos, sin */
	float *shift_rope;                /* [MODEL_ROPES, 2, n_rot / 2]: of a shift */
	float *ones;                      /* [n_ff]: what networks without a gate multiply by */
	size_t n_rows_max;
	struct cpu_mm *mms;       /* [2 * n_expert] */
	struct cpu_route *routes; /* [n_rows_max * n_expert_used], of the experts' step at hand */
	float *states;            /* [n_states, n_layer, state_n]: recurrent states */
	size_t n_states, state_n; /* floats of one layer: convolution, then scan */
	uint8_t *scratch;         /* [n_threads, scratch_bytes] */
	size_t scratch_bytes;
	struct cpu_lora lora;
	const struct be_rows *rows;
	const struct be_buf *rounded; /* or NULL */
	enum quant_act rounded_kind;
};

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
	struct be_weight *fill; /* NULL, or what was claimed: to be packed on the way; mm is of the packed layout */
};
/* The product of a matrix with n rows from act on. It must be run: it may have claimed the matrix. */
struct cpu_mm cpu_mm_of(const struct be *be, const struct model_weight *w, const void *act, size_t act_bytes, size_t n,
		float *out, size_t out_ld);
/* All of them, their rows laid end to end and shared out. */
void cpu_mm_run(struct be *be, const struct cpu_mm *mm, size_t n);
/* gate = act(gate) * up */
void cpu_act_row(const struct be *be, float *gate, const float *up, size_t n);
void cpu_norm_row(const struct be *be, const struct model_norm *norm, const float *x, size_t n, float *out);

/* cpu_weights.c */
/* Whether the caller is to pack the matrix now: rows from n_done on, then publish. */
bool cpu_weight_claim(struct be_weight *bw);
/* Packs rows [from, to) of a claimed matrix; from is a multiple of CPU_MM_UNIT. Any thread may, each row once. */
void cpu_weight_pack(struct be_weight *bw, size_t from, size_t to);
/* Rows [from, to) were packed: the file's pages of them are given back. */
void cpu_weight_give_back(const struct be_weights *w, const struct be_weight *bw, size_t from, size_t to);
void cpu_weight_publish(struct be_weights *w, struct be_weight *bw);
double cpu_settle(struct be *be, double seconds);
uint64_t cpu_weight_sum(struct be *be, const struct model_weight *mw);

/* cpu_lora.c */
bool cpu_lora_init(struct be *be, const struct be_limits *lim);
void cpu_lora_release(struct be *be);
bool cpu_lora_reserve(struct be *be, const struct model_adapter *a);
/* Sorts the rows; map: as narrow's rows, or NULL. */
void cpu_lora_begin(struct be *be, const int32_t *map, size_t n);
/* Adds the adapters' part to the product of n rows of x with w. */
void cpu_lora_add(struct be *be, const struct model_weight *w, const struct be_buf *x, size_t n, float *out,
		size_t out_ld);

/* cpu_moe.c */
void cpu_experts(struct be *be, struct be_buf *out, const struct be_buf *x, struct be_buf *route, struct be_buf *gate,
		struct be_buf *up, struct be_buf *down, size_t layer, size_t n);
void cpu_add_shared(struct be *be, struct be_buf *out, const struct be_buf *b, const struct be_buf *x,
		const struct model_weight *w, size_t n);

/* cpu_state.c */
bool cpu_state_init(struct be *be, size_t n_states);
void cpu_conv(struct be *be, struct be_buf *x, size_t layer);
void cpu_scan(struct be *be, struct be_buf *x, const struct be_buf *dt, const struct be_buf *b, const struct be_buf *c,
		const struct be_buf *z, size_t layer);
size_t cpu_state_bytes(const struct be *be);
void cpu_state_read(struct be *be, int32_t state, void *out);
void cpu_state_write(struct be *be, int32_t state, const void *in);

/* cpu_kv.c */
bool cpu_kv_init(struct be *be, const struct be_limits *lim);
void cpu_kv_release(struct be *be);
size_t cpu_kv_scratch_bytes(const struct model *m);
void cpu_rope_angles(const struct be *be, int rope, cohort_pos pos, float scale, float *out); /* [2, n_rot / 2] */
size_t cpu_kv_block_bytes(const struct be *be, size_t group);
void cpu_kv_rope_store(struct be *be, struct be_buf *q, struct be_buf *k, const struct be_buf *v, size_t layer);
void cpu_kv_attention(struct be *be, struct be_buf *out, const struct be_buf *q, size_t layer, const int32_t *rows,
		size_t n);
void cpu_kv_touch(struct be *be);
void cpu_kv_copy(struct be *be, size_t group, int32_t from, int32_t to);
void cpu_kv_move(struct be *be, size_t group, const struct be_move *move);
size_t cpu_kv_cell_bytes(const struct be *be, size_t group);
void cpu_kv_cell_read(struct be *be, size_t group, int32_t block, int32_t slot, void *out);
void cpu_kv_cell_write(struct be *be, size_t group, int32_t block, int32_t slot, const void *cell);

#endif
