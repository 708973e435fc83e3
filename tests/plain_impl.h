/* What the files of the plain backend share: plain_backend.c says what it is. */
#ifndef TESTS_PLAIN_IMPL_H
#define TESTS_PLAIN_IMPL_H

#include "plain_backend.h"

#include "base/mem.h"
#include "kern/kern.h"

#include <string.h>

/* What device memory holds that must not be used: NaN in every float and in every type of cache. */
#define POISON 0xff

/* ---- Weights ---- */

/* A weight on the device. A product has rows [held.from, held.to) in reverse; all else is as in the file. */
struct plain_weight {
	uint8_t *rows;
	struct be_range held, share; /* share: the rows that products compute */
};

struct plain_weights {
	struct be_weights base;
	struct be_source source;
	struct plain_weight *w; /* [source.n], by model_weight.index */
};

/* ---- An instance ---- */

struct plain_buf {
	struct be_buf base;
	float *device; /* [n_rows, n_cols] */
	float *host; /* the same, as `outputs` gives it, or NULL */
	size_t n_host_rows; /* rows of it that are valid */
};

struct plain_layer {
	struct be_cell_layer shape;
	size_t at, k_bytes, v_bytes; /* in a cell: where the layer begins; bytes of K and of V of a head */
};

struct plain_group {
	uint8_t *cells; /* [BE_BLOCK, n_blocks] of cell_bytes */
	size_t n_blocks, cell_bytes, window;
};

/* An adapter on the device. */
struct plain_lora {
	const struct model_loras *of; /* the host's, by which rows name it */
	uint8_t **a, **b; /* [weights of the model] or NULL: the pair's matrices, as in the file */
};

/* Memory that grows. */
struct room {
	void *p;
	size_t n;
};

struct plain;
struct op;
typedef enum cohort_status run_op(struct plain *p, const struct op *op);

enum { OP_OUT = 5 };

struct op {
	run_op *run;
	enum cohort_status fails; /* with this, instead of running */
	struct be_buf *out[OP_OUT]; /* the buffers that it writes */
	const struct be_buf *x[4]; /* those that it reads */
	const struct model_weight *w[3];
	union {
		struct be_rows rows;
		struct be_embed embed;
		struct be_add_norm add_norm;
		struct be_qkv qkv;
		struct be_attend attend;
		struct be_ffn ffn;
		struct be_experts experts;
		struct be_conv conv;
		struct be_scan scan;
		struct be_logits logits;
	} d;
	size_t n, row, x_row, group, step;
	bool set;
	const int32_t *rows; /* the caller's: rows, names or states */
	const void *bytes; /* the caller's */
	const void *array; /* copies, moves or spans */
	size_t array_bytes;
};

struct plain {
	struct be base;
	const struct plain_weights *w;
	const struct kern *kern;
	/* The queue */
	struct op *queue;
	size_t n_queued, n_queue_max;
	enum cohort_status failed; /* since the last wait */
	int64_t bad;
	bool spoil; /* the operation at hand fails */
	/* The rows at hand */
	struct be_rows rows;
	const int32_t *narrowed; /* or NULL */
	/* Cache and states */
	enum kern_kv kv_type;
	struct plain_group groups[BE_GROUPS_MAX];
	size_t n_groups, n_layers, n_state_layers;
	struct plain_layer *layers;
	float **states; /* [n_state_layers]: [n_states, state_floats] */
	size_t *state_floats; /* [n_state_layers] */
	const struct be_rope *ropes;
	/* Adapters */
	const struct be_lora *base_loras;
	size_t n_base_loras, n_loras, n_loras_max;
	struct plain_lora *loras;
	/* Room to work in */
	struct room act, file_rows, areas, acc, row, narrow, wide, route;
};

/* The place of row r. */
static inline uint8_t *row_at(const struct plain_weight *pw, const struct model_weight *w, size_t r)
{
	return pw->rows + (w->product ? pw->held.to - 1 - r : r) * w->row_bytes;
}

/* A vector on the device, or a matrix of floats that is no product; NULL of NULL. */
static inline const float *floats(const struct plain *p, const struct model_weight *w)
{
	return w ? (const float *)(const void *)p->w->w[w->index].rows : NULL;
}

static inline float *row_of(const struct be_buf *b, size_t r)
{
	return ((const struct plain_buf *)b)->device + r * b->n_cols;
}

static inline uint8_t *cell_at(const struct plain *p, size_t group, int32_t block, int32_t slot)
{
	const struct plain_group *g = &p->groups[group];
	return g->cells + ((size_t)slot * g->n_blocks + (size_t)block) * g->cell_bytes;
}

/* Where a head's K lies in a cell; its V follows. */
static inline size_t head_at(const struct plain_layer *l, size_t head)
{
	return l->at + head * (l->k_bytes + l->v_bytes);
}

/* What is written besides rows. */
static inline void put_bytes(const struct plain *p, void *to, const void *from, size_t n)
{
	if (p->spoil)
		memset(to, POISON, n);
	else
		memcpy(to, from, n);
}

/* NULL: out of memory. What was in it is lost. */
static inline void *room_get(struct room *r, size_t n_bytes)
{
	if (n_bytes > r->n) {
		mem_free_aligned(r->p);
		r->p = mem_zalloc_aligned(n_bytes, 1);
		r->n = r->p ? n_bytes : 0;
	}
	return r->p;
}

/* ---- plain_backend.c ---- */

/* Puts an operation at the end of the queue: a copy of it, and of its array. */
void plain_add(struct be *be, const struct op *op);

/* ---- plain_rows.c ---- */

void plain_embed(struct be_buf *out, struct be_buf *work, const struct be_embed *e);
void plain_add_norm(const struct be_add_norm *a, size_t n);
void plain_matmul(struct be_buf *const *out, const struct model_weight *const *w, size_t n_w,
		const struct be_buf *x, size_t n, size_t out_row);
void plain_qkv_store(struct be_buf *q, struct be_buf *k, struct be_buf *v, const struct be_qkv *d);
void plain_attention(struct be_buf *out, const struct be_buf *q, const struct be_attend *d, const int32_t *rows,
		size_t n);
void plain_glu(struct be_buf *gate, struct be_buf *up, const struct be_ffn *f, size_t n);
void plain_experts(struct be_buf *out, const struct be_buf *x, const struct be_experts *d,
		const struct be_expert_bufs *bufs, size_t n);
void plain_add_gated(struct be_buf *out, struct be_buf *b, const struct be_buf *x, const struct model_weight *w,
		size_t n);
void plain_conv(struct be_buf *x, const struct be_conv *d);
void plain_scan(struct be_buf *x, const struct be_buf *dt, const struct be_buf *b, const struct be_buf *c,
		const struct be_buf *z, const struct be_scan *d);
void plain_logits(struct be_buf *x, size_t row, size_t n, const struct be_logits *d);
void plain_check(const struct be_buf *x, size_t row, size_t n, const int32_t *names);
void plain_gather(struct be_buf *out, const struct be_buf *x, const int32_t *rows, size_t n);
void plain_copy(struct be_buf *out, size_t out_row, const struct be_buf *x, size_t n);
void plain_row_add(struct be_buf *out, size_t out_row, const struct be_buf *x, size_t x_row, bool set);
void plain_row_div(struct be_buf *out, size_t out_row, size_t n);
/* Rotates the pairs of one head by the angles of a position. False: out of memory. */
bool plain_rotate(struct plain *p, const struct be_rope *rope, cohort_pos pos, float scale, float *x);
/* Areas of a block's K and V of one head, as kernels have them. */
bool plain_get_areas(struct plain *p, const struct be_cell_layer *s, uint8_t **k, uint8_t **v);

#endif
