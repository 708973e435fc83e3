/* The operation table: what a model is written in terms of. Buffers are opaque; rows are float vectors.
 *
 * A backend's weights belong to a model and are shared; a backend instance belongs to a context. Operations cannot
 * fail: everything is allocated by open and buf_open. */
#ifndef BACKEND_BACKEND_H
#define BACKEND_BACKEND_H

#include "base/err.h"
#include "model/adapter.h"
#include "model/model.h"

struct be_weights; /* prepared weights of a model: layouts may change while they are used, bits do not */
struct be;         /* an instance: threads, scratch, cache */
struct be_buf;     /* float rows on the backend's side */

/* Layers that look equally far back share a group: its own blocks, tables and window. */
#define BE_GROUPS_MAX 4

/* Where one row's K and V go: the block and the place in it. A row shared by diverging sequences has several. */
struct be_store {
	int32_t row, block, slot;
};

/* What rows see and where they go, in one group. */
struct be_cells {
	const int32_t *const *tables;      /* [n]: block ids of the row's sequence, by position / block size */
	const uint32_t *const *held;       /* [n]: which slots of each block it holds; NULL: all from first on */
	const cohort_pos *first;           /* [n]: first position the row's sequence holds */
	const struct be_store *stores;     /* [n_stores]; the first n are the rows' own, in order */
	size_t n_stores;
};

/* An adapter and how strongly it is applied; adapter NULL: none. */
struct be_lora {
	const struct model_adapter *adapter;
	float scale;
};

/* The rows of one ubatch; arrays belong to the caller and stay until the last operation on them. */
struct be_rows {
	size_t n;
	const cohort_token *tokens;        /* [n], or NULL: */
	const float *embd;                 /* [n, n_embd] */
	const cohort_pos *pos;             /* [n] */
	const cohort_pos *end;             /* [n]: a row sees positions below it */
	struct be_cells cells[BE_GROUPS_MAX];
	/* Models with states: the one each row reads (-1: of an empty sequence) and the one it writes. Rows of a
	 * sequence are in order. */
	const int32_t *state_from, *state_to; /* [n] */
	const struct be_lora *lora;           /* [n], or NULL: no row has an adapter of its own */
};

/* What x gains before a norm: rows of b, with a bias and normed themselves where the model says so. */
struct be_sum {
	struct be_buf *b;                /* NULL: nothing; changed on the way */
	const struct model_weight *bias; /* or NULL */
	struct model_norm post;
};
struct be_norm {
	struct be_buf *out; /* may be x: the norm is taken of the sum and takes its place */
	struct be_buf *x;
	struct be_sum add[2];
	struct model_norm norm;          /* w NULL: x is left as the sum, and out is not written */
	const struct model_weight *next; /* the matrix the result goes to first, or NULL: a hint that lets a backend
					  * round the rows for it while it has them */
};

/* n cells of a block to another, keys rotated by `shift` positions. */
struct be_move {
	int32_t from, from_slot, to, to_slot, n;
	cohort_pos shift;
};

struct be_limits {
	size_t n_rows_max;   /* rows of a ubatch */
	size_t n_groups;
	size_t n_blocks[BE_GROUPS_MAX];
	size_t window[BE_GROUPS_MAX]; /* a row sees itself and window - 1 positions before; 0: all */
	const uint8_t *group_of; /* [n_layer] */
	size_t n_states;         /* of the pool of recurrent states */
	size_t n_pos_max;        /* positions a sequence can have */
	const struct be_lora *base; /* [n_base]: adapters of every row; they stay the caller's */
	size_t n_base;
	enum cohort_kv_type kv_type;
	size_t n_threads;
};

struct be_ops {
	const char *name;
	struct be *(*open)(struct be_weights *w, const struct model *m, const struct be_limits *lim);
	void (*free)(struct be *be);
	size_t (*block_bytes)(const struct be *be, size_t group);

	struct be_buf *(*buf_open)(struct be *be, size_t n_rows, size_t n_cols);
	void (*buf_free)(struct be *be, struct be_buf *b);
	/* Row i as the host sees it, valid until the buffer is written again. */
	const float *(*buf_row)(struct be *be, const struct be_buf *b, size_t i);

	/* Announces the rows that the following operations work on. */
	void (*begin)(struct be *be, const struct be_rows *rows);
	/* From now on row i of a buffer is row rows[i] of those, until the next begin. */
	void (*narrow)(struct be *be, const int32_t *rows, size_t n);
	/* Room for products with the adapter. False: out of memory, and nothing has changed. */
	bool (*lora_reserve)(struct be *be, const struct model_adapter *a);
	/* Tokens' rows (or the vectors given), with positions and types where the model has them as rows; work: another
	 * buffer of that size. */
	void (*embed)(struct be *be, struct be_buf *out, struct be_buf *work);
	void (*norm)(struct be *be, const struct be_norm *a, size_t n);
	/* out[i] = x w[i]^T for up to 3 matrices that share x, with the rows' adapters; rows from out_row on */
	void (*matmul)(struct be *be, struct be_buf *const *out, const struct model_weight *const *w, size_t n_w,
			const struct be_buf *x, size_t n, size_t out_row);
	/* Adds biases, norms and rotates q and k, scales q, stores k and v in the cache. */
	void (*rope_store)(struct be *be, struct be_buf *q, struct be_buf *k, const struct be_buf *v, size_t layer);
	/* out[i] = attention of row rows[i] (i when rows is NULL), n of them */
	void (*attention)(struct be *be, struct be_buf *out, const struct be_buf *q, size_t layer, const int32_t *rows,
			size_t n);
	/* gate = act(gate) * up, or up = act(up) where f has no gate; biases first */
	void (*glu)(struct be *be, struct be_buf *gate, struct be_buf *up, const struct model_ffn *f, size_t n);
	/* out = the chosen experts' networks of x, weighed; route: [n, n_expert] the router's product with x.
	 * gate, up: [n * n_expert_used, n_ff_exp], down: [n * n_expert_used, n_embd] are room to work in. */
	void (*experts)(struct be *be, struct be_buf *out, const struct be_buf *x, struct be_buf *route,
			struct be_buf *gate, struct be_buf *up, struct be_buf *down, size_t layer, size_t n);
	/* out += b, weighed by the sigmoid of x w when w is given; n rows. */
	void (*add_shared)(struct be *be, struct be_buf *out, const struct be_buf *b, const struct be_buf *x,
			const struct model_weight *w, size_t n);
	/* x = silu(convolution of x and what went before), all rows */
	void (*conv)(struct be *be, struct be_buf *x, size_t layer);
	/* x = scan of x, gated by z, all rows */
	void (*scan)(struct be *be, struct be_buf *x, const struct be_buf *dt, const struct be_buf *b,
			const struct be_buf *c, const struct be_buf *z, size_t layer);
	/* Logits: bias, scale, cap; n rows from row on. What a cap hides, find_bad finds nevertheless. */
	void (*finish)(struct be *be, struct be_buf *logits, size_t row, size_t n);
	/* out[i] = x[rows[i]]; out may be x when rows rise */
	void (*gather)(struct be *be, struct be_buf *out, const struct be_buf *x, const int32_t *rows, size_t n);
	/* out rows from out_row on = x, n rows */
	void (*copy)(struct be *be, struct be_buf *out, size_t out_row, const struct be_buf *x, size_t n);
	/* Pooling: row out_row += row x_row (or = when set); row out_row /= n. */
	void (*row_add)(struct be *be, struct be_buf *out, size_t out_row, const struct be_buf *x, size_t x_row,
			bool set);
	void (*row_div)(struct be *be, struct be_buf *out, size_t out_row, size_t n);

	/* The cache. A cell is one position of all layers of the group, as bytes that do not depend on the place. */
	void (*kv_touch)(struct be *be); /* all of it is in memory then; says the same as before */
	void (*kv_copy)(struct be *be, size_t group, int32_t from, int32_t to); /* a whole block */
	void (*kv_move)(struct be *be, size_t group, const struct be_move *move);
	size_t (*cell_bytes)(const struct be *be, size_t group);
	void (*cell_read)(struct be *be, size_t group, int32_t block, int32_t slot, void *out);
	void (*cell_write)(struct be *be, size_t group, int32_t block, int32_t slot, const void *cell);

	/* Recurrent states. */
	size_t (*state_bytes)(const struct be *be);
	void (*state_read)(struct be *be, int32_t state, void *out);
	void (*state_write)(struct be *be, int32_t state, const void *in);

	/* Weights that get a better layout only as they are used. settle gives it to more of them, for about so many
	 * seconds, and returns what part of all has it, by bytes; 1: there is nothing left to do. */
	double (*settle)(struct be *be, double seconds);
	/* A sum of a weight's bytes in the file, whatever has become of them. */
	uint64_t (*weight_sum)(struct be *be, const struct model_weight *w);

	/* First of n rows from `row` on with a non-finite number, or -1. */
	int64_t (*find_bad)(struct be *be, const struct be_buf *x, size_t row, size_t n);
};

/* ---- The CPU backend ---- */

/* When matrices are repacked. Not before they are used: only of a mapped file, whose bytes may be read again. */
enum be_repack { BE_REPACK_NEVER, BE_REPACK_USED, BE_REPACK_NOW };
/* level: of the kernel table. n_threads: of repacking now. */
enum cohort_status be_cpu_weights_open(struct be_weights **out, const struct model *m, size_t level,
		enum be_repack repack, size_t n_threads, bool (*progress)(float, void *), void *user,
		struct cohort_err *err);
struct be_lock {
	int error;        /* 0, or the errno with which the system refused */
	uint64_t n_bytes; /* how much there is to lock */
};
/* Keeps all that weights are read from resident, until they are freed, which must then be before the model is. Not with
 * BE_REPACK_USED. A refusal of the system is no failure: nothing is locked then. Progress as above, ABORTED is the only
 * other status. */
enum cohort_status be_cpu_weights_lock(struct be_weights *w, bool (*progress)(float, void *), void *user,
		struct be_lock *out, struct cohort_err *err);
void be_cpu_weights_free(struct be_weights *w);
uint64_t be_cpu_packed_bytes(const struct be_weights *w);
extern const struct be_ops be_cpu;

/* Positions per cache block. */
size_t be_kv_block(void);

/* Levels of the kernel table, for rooms that may not see it. */
size_t be_cpu_level_count(void);
const char *be_cpu_level_name(size_t level);
bool be_cpu_level_usable(size_t level);
const char *be_cpu_level_failed(size_t level); /* what it computes otherwise than it should, or NULL */
size_t be_cpu_level_best(void);

#endif
