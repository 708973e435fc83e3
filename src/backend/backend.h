/* The backend interface: what a model is written in terms of. A backend knows tensors, rows, cells and states; what a
 * model means is in src/forward. docs/architecture.md has the picture.
 *
 * Objects
 *   struct be_weights  weights of a model on one device, in the layouts that the backend likes; shared by contexts
 *   struct be          one device of one context: buffers, cache, states, threads
 *   struct be_buf      rows of floats on the device
 * A backend's own structs begin with these.
 *
 * Time: an operation may return before it has run. Only the calls marked "waits" wait. Descriptors are read before the
 * call returns: structs, the arrays of matmul, moves and spans. Arrays of rows and names, and the bytes of a write,
 * stay as they are until the next call that waits; weights, slopes, and ropes and adapters of struct be_limits until
 * the instance is freed. Nothing but `outputs` hands out the address of rows.
 *
 * Failure: an operation that fails (a lost device, a peer that is gone, memory of the device) keeps its status, and
 * operations after it do nothing, until `wait` reports it. What the failed operations were to write is then undefined,
 * and so is what a call that waits gives without a status of its own. A lost device may be opened: its operations fail.
 *
 * Arithmetic: docs/numerics.md. Every backend gives the same bits. Blocks of the cache hold BE_BLOCK positions. */
#ifndef BACKEND_BACKEND_H
#define BACKEND_BACKEND_H

#include "base/err.h"
#include "model/weight.h"

/* Positions of a cache block, and of one step of the softmax: part of the arithmetic. */
#define BE_BLOCK 32
/* Layers whose rows see equally far back share a group: its own blocks, tables and window. */
#define BE_GROUPS_MAX 4
/* The group of recurrent states: a state is a block with one cell. */
#define BE_STATES BE_GROUPS_MAX
#define BE_EXPERTS_MAX 4096

/* ---- Weights ---- */

/* When matrices are repacked. Only those of a mapped file wait until they are used, as its bytes can be read again. */
enum be_repack { BE_REPACK_NEVER, BE_REPACK_USED, BE_REPACK_NOW };

struct be_source {
	const struct model_weight *weights; /* [n], by index */
	size_t n;
	const bool *wanted;                 /* [n]: which of them this device holds; NULL: all */
	/* The pages of rows [from, to) of a weight are not needed now; `again`: they will be read again. Weights with
	 * `lookup` always are, as another device may have the same weight. */
	void (*give_back)(void *user, const struct model_weight *w, size_t from, size_t to, bool again);
	void *user;
};

struct be_weights_params {
	size_t device, level;
	enum be_repack repack;
	size_t n_threads;
	size_t rank, of; /* the share of every product's output rows that is computed; of 0: all. be_share says which */
	bool (*progress)(float done, void *user);
	void *progress_user;
};

/* Rows of the share `rank` of `of`; whole units of 32, but for the last. Together the shares are all rows. */
struct be_range {
	size_t from, to;
};
struct be_range be_share(size_t n_rows, size_t rank, size_t of);

struct be_weights {
	const struct be_ops *ops;
	uint64_t packed_bytes; /* on the device or in memory, beside the file's */
};

struct be_lock {
	int error;        /* 0, or the errno with which the system refused */
	uint64_t n_bytes; /* how much there is to lock */
};

/* ---- An instance ---- */

/* A layer with cells: what the cache holds of one position, and how it is read. */
struct be_cell_layer {
	uint8_t group;
	int8_t rope;             /* table by which keys were rotated; -1: none */
	uint32_t n_q, n_kv;      /* query heads, KV heads */
	uint32_t head_k, head_v; /* elements per head */
};

/* Rotary angles: freqs[i] per position, for n_rot / 2 pairs. */
struct be_rope {
	const double *freqs; /* NULL: not in use */
	size_t n_rot;
	float scale;         /* of both cos and sin */
	bool halves;         /* pairs (i, i + n_rot / 2) instead of (2i, 2i + 1) */
};

/* An adapter and how strongly it is applied; loras NULL: none. */
struct be_lora {
	const struct model_loras *loras;
	float scale;
};

struct be_limits {
	size_t n_rows_max; /* rows of a ubatch */
	size_t n_threads;
	/* Cells */
	enum cohort_kv_type kv_type;
	size_t n_groups;
	size_t n_blocks[BE_GROUPS_MAX];
	size_t window[BE_GROUPS_MAX]; /* a row sees itself and window - 1 positions before; 0: all */
	const struct be_cell_layer *layers; /* [n_layers]: those of this device, in the model's order */
	size_t n_layers;
	const struct be_rope *ropes; /* [n_ropes] */
	size_t n_ropes;
	/* States */
	const size_t *state_floats; /* [n_state_layers]: floats of one state in each layer of this device; read at
				     * once, as `layers` */
	size_t n_state_layers, n_states;
	/* Widths that operations need room for */
	size_t n_ff_max;            /* of a feed-forward without a gate; 0: there is none */
	size_t n_expert, n_expert_used;
	const struct be_lora *base; /* [n_base]: adapters of every row */
	size_t n_base;
};

/* As bytes a cell is one position of this device's layers of the group, whatever its place: layer after layer, of each
 * KV head K and then V, elements and then the scales, if any (docs/state-format.md). A state is the floats of the
 * layers, one after the other. */
struct be {
	const struct be_ops *ops;
	size_t cell_bytes[BE_GROUPS_MAX + 1];
	size_t block_bytes[BE_GROUPS_MAX]; /* in memory: what a block of the group takes */
};

struct be_buf {
	struct be *be;
	size_t n_rows, n_cols;
};

/* ---- Rows ---- */

/* Where one row's K and V go: the block and the place in it. A row shared by diverging sequences has several. */
struct be_store {
	int32_t row, block, slot;
};

/* What rows see and where they go, in one group. Entry i of a row's table stands for positions BE_BLOCK * i to
 * BE_BLOCK * i + BE_BLOCK - 1 after `base`. */
struct be_cells {
	const int32_t *blocks;   /* [n_entries]: tables of all sequences, one after the other */
	const uint32_t *held;    /* [n_entries]: which slots of each block the sequence holds */
	size_t n_entries;
	const uint32_t *table;   /* [n]: where the table of the row's sequence begins */
	const bool *gaps;        /* [n]: look at `held`; otherwise all slots from `first` on are held */
	const cohort_pos *base;  /* [n]: position of the table's first entry, a multiple of BE_BLOCK */
	const cohort_pos *first; /* [n]: first position the row's sequence holds */
	const struct be_store *stores; /* [n_stores]; the first n are the rows' own, in order */
	size_t n_stores;
};

/* The rows of one ubatch. */
struct be_rows {
	size_t n;
	const cohort_token *tokens; /* [n], or NULL: */
	const float *embd;          /* [n, n_embd] */
	const cohort_pos *pos;      /* [n] */
	const cohort_pos *end;      /* [n]: a row sees positions below it */
	struct be_cells cells[BE_GROUPS_MAX];
	/* States: the one each row reads (-1: of an empty sequence) and the one it writes. Rows of a sequence are in
	 * order. */
	const int32_t *state_from, *state_to; /* [n] */
	const struct be_lora *lora;           /* [n], or NULL: no row has an adapter of its own */
};

/* ---- Descriptors ---- */

/* A norm of a row: RMS norm, or layer norm, which subtracts the mean. w NULL: no norm in this place. */
struct be_norm {
	const struct model_weight *w, *b; /* b may be NULL */
	float eps;
	bool layer_norm;
};

/* Tokens' rows times scale (or the vectors given), plus row 0 of types and the position's row where there are some. */
struct be_embed {
	const struct model_weight *tokens, *types, *positions;
	float scale;
};

/* What x gains before a norm: rows of b, after its bias, its own norm and its scale. */
struct be_sum {
	struct be_buf *b; /* NULL: nothing; changed on the way */
	const struct model_weight *bias; /* or NULL */
	struct be_norm post;
	float scale;      /* 1: none */
};
struct be_add_norm {
	struct be_buf *out; /* may be x: the norm is taken of the sum and takes its place */
	struct be_buf *x;
	struct be_sum add[2];
	struct be_norm norm;             /* w NULL: x is left as the sum, and out is not written */
	const struct model_weight *next; /* the matrix the result goes to first, or NULL: a hint that lets a backend
					  * quantize the rows for it while it has them */
};

/* From products to the cache: q and k get bias, clamp, norm (of each head with one row of weights or with a row per
 * head; of the whole row where the weight is as long), rotation; v bias and clamp. Then q is scaled. */
struct be_qkv {
	size_t layer; /* of be_limits.layers: where K and V go */
	const struct model_weight *bq, *bk, *bv;
	struct be_norm q_norm, k_norm;
	float clamp;  /* values stay within it of 0; 0: no clamp */
	int rope;     /* table; -1: no rotation */
	float scale;  /* of q */
	float temp;   /* q grows by 1 + temp ln(1 + position / temp_period); 0: it stays */
	uint32_t temp_period;
};

struct be_attend {
	size_t layer; /* whose cells are read */
	float cap;    /* scores s become cap * tanh(s / cap); 0: they stay */
	const float *slopes;              /* [n_q] or NULL: scores lose slope * distance */
	const struct model_weight *sinks; /* [n_q] or NULL: a score without a value beside those of the cells */
};

enum be_act { BE_SILU, BE_GELU, BE_SWIGLU_OAI };

/* down(act(gate) * up), or down(act(up)) where gate is NULL; biases may be NULL. */
struct be_ffn {
	const struct model_weight *gate, *up, *down;
	const struct model_weight *gate_b, *up_b, *down_b;
	enum be_act act;
};

/* Softmax over all experts; over the chosen ones; sigmoid of each. */
enum be_gating { BE_GATE_SOFTMAX, BE_GATE_SOFTMAX_CHOSEN, BE_GATE_SIGMOID };

/* Matrices are the first of n that follow each other by index; a bias is one matrix with a row per expert. */
struct be_experts {
	struct be_ffn ffn;
	const struct model_weight *router_b; /* or NULL */
	uint32_t n, n_used;
	enum be_gating gating;
	bool norm;   /* the chosen experts' weights are divided by their sum */
	float scale; /* and multiplied by this */
};
struct be_expert_bufs {
	struct be_buf *route;     /* [rows, n]: the router's product with x; changed */
	struct be_buf *gate, *up; /* [rows * n_used, width of an expert]: room to work in */
	struct be_buf *down;      /* [rows * n_used, n_embd] */
};

/* Parts of a recurrent layer; `at` is where its floats begin in the layer's state. */
struct be_conv {
	size_t layer, at; /* layer: of be_limits.state_floats */
	uint32_t n, width;
	const struct model_weight *w, *b; /* [n, width], [n] */
};
struct be_scan {
	size_t layer, at;
	uint32_t n, d_state;
	const struct model_weight *a, *d, *dt_b; /* [n, d_state], [n], [n] */
};

struct be_logits {
	const struct model_weight *b; /* or NULL */
	float scale;                  /* 1: none */
	float cap;                    /* logits l become cap * tanh(l / cap); 0: none */
};

/* n cells of a block copied to another block, keys rotated by `shift` positions. */
struct be_move {
	int32_t from, from_slot, to, to_slot, n;
	cohort_pos shift;
};
/* n cells from a slot of a block on. */
struct be_span {
	int32_t block, slot, n;
};

/* ---- The table ---- */

struct be_device {
	char description[128]; /* "AMD EPYC, 2 threads" */
	uint64_t total_bytes, free_bytes; /* 0: unknown */
};

/* lora_reserve, repack and touch may be NULL: there is nothing to do. */
struct be_ops {
	const char *name;

	/* ---- Devices, and levels: variants of the code that give the same bits, worst to best */
	const char *(*device_name)(size_t i); /* "cpu", "cuda0"; NULL: there are no more */
	void (*device_get)(size_t i, struct be_device *out);
	size_t (*level_count)(void);
	const char *(*level_name)(size_t level);
	bool (*level_usable)(size_t level);
	const char *(*level_failed)(size_t level); /* what it computed otherwise than it should, or NULL */
	size_t (*level_best)(void);

	/* ---- Weights */
	enum cohort_status (*weights_open)(struct be_weights **out, const struct be_source *source,
			const struct be_weights_params *params, struct cohort_err *err);
	/* Keeps all that weights are read from resident until they are freed. Not with BE_REPACK_USED. A refusal of
	 * the system is no failure: nothing is locked then. ABORTED: progress said so. */
	enum cohort_status (*weights_lock)(struct be_weights *w, bool (*progress)(float, void *), void *user,
			struct be_lock *out, struct cohort_err *err);
	void (*weights_free)(struct be_weights *w);
	/* Waits. The sum over a weight's rows of sum_large (base/sum.h) of the row's bytes in the file, seeded with
	 * its place in the tensor: the same whatever layout it has now, of all rows whatever the share. */
	uint64_t (*weight_sum)(struct be *be, const struct model_weight *w);
	/* Repacks more of the weights for about so many seconds. Returns what part of all is done, by bytes; 1: there
	 * is nothing left to do. */
	double (*repack)(struct be *be, double seconds);

	/* ---- Instances and buffers. NULL: out of memory or threads */
	struct be *(*open)(struct be_weights *w, const struct be_limits *lim);
	void (*free)(struct be *be);
	struct be_buf *(*buf_open)(struct be *be, size_t n_rows, size_t n_cols);
	void (*buf_free)(struct be_buf *b);
	/* Room for products with the adapter, before rows name it. False: out of memory, and nothing has changed. An
	 * adapter at the address of an earlier one may be another. It stays until no row will name it. */
	bool (*lora_reserve)(struct be *be, const struct model_loras *loras);

	/* ---- Waiting */
	/* Waits for all operations. Returns the first failure since the last wait; a device that is lost reports it
	 * for ever. *bad: what the first `logits` that found a row noted; -1: none did. */
	enum cohort_status (*wait)(struct be *be, int64_t *bad, struct cohort_err *err);
	/* Waits. The first n rows as the host sees them, until the buffer is written again; NULL: see wait. */
	const float *(*outputs)(struct be_buf *b, size_t n);
	/* Rows to a buffer, from its first row on. */
	void (*upload)(struct be_buf *b, const float *rows, size_t n);

	/* ---- Rows */
	/* Announces the rows that the following operations work on. */
	void (*begin)(struct be *be, const struct be_rows *rows);
	/* From now on row i of a buffer is row rows[i] of those, until the next begin. */
	void (*narrow)(struct be *be, const int32_t *rows, size_t n);
	/* work: another buffer of that size, where positions or types are given */
	void (*embed)(struct be_buf *out, struct be_buf *work, const struct be_embed *e);
	void (*add_norm)(const struct be_add_norm *a, size_t n);
	/* out[i] = x w[i]^T for up to 3 matrices that share x, with the rows' adapters; rows from out_row on. With a
	 * share only its columns of out are written. */
	void (*matmul)(struct be_buf *const *out, const struct model_weight *const *w, size_t n_w,
			const struct be_buf *x, size_t n, size_t out_row);
	/* All rows. v is changed, too. */
	void (*qkv_store)(struct be_buf *q, struct be_buf *k, struct be_buf *v, const struct be_qkv *d);
	/* out[i] = attention of row rows[i] (i when rows is NULL), n of them */
	void (*attention)(struct be_buf *out, const struct be_buf *q, const struct be_attend *d, const int32_t *rows,
			size_t n);
	/* gate = act(gate) * up, or up = act(up) where f has no gate; biases first */
	void (*glu)(struct be_buf *gate, struct be_buf *up, const struct be_ffn *f, size_t n);
	/* out = the sum of the chosen experts' feed-forward results of x, weighted */
	void (*experts)(struct be_buf *out, const struct be_buf *x, const struct be_experts *d,
			const struct be_expert_bufs *bufs, size_t n);
	/* out += b, weighted by the sigmoid of x w when w is given */
	void (*add_gated)(struct be_buf *out, struct be_buf *b, const struct be_buf *x, const struct model_weight *w,
			size_t n);
	/* x = silu(convolution of x and what went before), all rows */
	void (*conv)(struct be_buf *x, const struct be_conv *d);
	/* x = scan of x, gated by z, all rows */
	void (*scan)(struct be_buf *x, const struct be_buf *dt, const struct be_buf *b, const struct be_buf *c,
			const struct be_buf *z, const struct be_scan *d);
	/* Bias, scale and cap of n rows from `row` on. Notes the first with a number that was not finite before the
	 * cap, for `wait`: as names[i], or i. */
	void (*logits)(struct be_buf *x, size_t row, size_t n, const struct be_logits *d, const int32_t *names);
	/* out[out_row + i] = x[rows[i]], or x[i] where rows is NULL; out may be x when rows rise */
	void (*copy)(struct be_buf *out, size_t out_row, const struct be_buf *x, const int32_t *rows, size_t n);

	/* ---- Cells and states */
	void (*touch)(struct be *be); /* all of the cache is in memory then; its cells stay */
	void (*cells_move)(struct be *be, size_t group, const struct be_move *moves, size_t n);
	/* Cells or states as bytes, one after the other, `step` bytes apart: from `bytes` to their places with `store`,
	 * otherwise to `bytes`, and that waits. */
	void (*cells_pass)(struct be *be, size_t group, const struct be_span *spans, size_t n, void *bytes,
			size_t step, bool store);
};

/* ---- The registry ---- */

/* Backends, the CPU's first. */
size_t be_count(void);
const struct be_ops *be_get(size_t i);
/* One more, until the process ends. Not safe beside other calls of the library. False: there is no room. */
bool be_register(const struct be_ops *ops);

/* ---- What backends compute alike ---- */

/* Of a position: cosines, then sines. out: [n_rot] */
void be_rope_angles(const struct be_rope *rope, cohort_pos pos, float scale, float *out);
/* Values stay within `most` of 0; 0: they stay as they are. */
void be_clamp(float *x, float most, size_t n);
/* What q of a row at this position is multiplied by. */
float be_query_scale(const struct be_qkv *d, cohort_pos pos);
/* One row's experts, best first, and their weights, each [n_used]. scores: [n], after their bias; changed. */
void be_choose(const struct be_experts *d, float *scores, int32_t *chosen, float *weights);

#endif
