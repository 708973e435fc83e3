/* The model: one ubatch through the layers, written once in terms of backend operations. */
#ifndef FORWARD_FORWARD_H
#define FORWARD_FORWARD_H

#include "backend/backend.h"
#include "model/model.h"

#define FORWARD_DEVICES_MAX 8

/* One device's part: neighboring layers, the first device with the embedding, the last one with the outputs. */
struct forward_part {
	struct be *be;
	const struct be_ops *ops;
	uint32_t first, end;            /* layers */
	const bool *wanted;             /* [n_weights] or NULL: weights on the device */
	struct be_buf *x, *h;           /* [n, n_embd]: the residual stream, and a norm of it */
	struct be_buf *q, *k, *v, *att; /* attention's */
	struct be_buf *tmp, *more;      /* [n, n_embd]: added to x next; more: by a feed-forward beside attention */
	struct be_buf *gate, *up;       /* [n, n_ff] */
	struct be_buf *route, *exp_gate, *exp_up, *exp_down, *sh_gate, *sh_up; /* experts' */
	struct be_buf *in, *z, *dt_low, *dt, *b, *c;                           /* of recurrent layers */
};

struct forward {
	const struct model *m;
	struct forward_part parts[FORWARD_DEVICES_MAX];
	size_t n_parts;
	uint32_t *local;           /* [n_layer]: the layer's number among those of its device */
	struct be_rope ropes[MODEL_ROPES];
	struct be_buf *logits;     /* [n_outputs_max, n_vocab] or NULL */
	struct be_buf *embeddings; /* [n_outputs_max, n_embd] or NULL */
};

struct forward_device {
	struct be_weights *weights;
	const bool *wanted; /* [n_weights] or NULL: all */
	uint32_t n_layers;  /* the sum over the devices is the model's */
};

struct forward_limits {
	const struct forward_device *devices;
	size_t n_devices;
	size_t n_rows_max, n_outputs_max, n_threads;
	bool logits, embeddings; /* what outputs are */
	enum cohort_kv_type kv_type;
	const uint8_t *group_of; /* [n_layer] */
	size_t n_groups, n_blocks[BE_GROUPS_MAX], window[BE_GROUPS_MAX];
	size_t n_states;
	size_t n_pos_max; /* positions that a sequence has room for: long ones may be rotated by tables of their own */
	const struct be_lora *base; /* [n_base] */
	size_t n_base;
};

enum cohort_status forward_init(struct forward *f, const struct model *m, const struct forward_limits *lim,
		struct cohort_err *err);
void forward_release(struct forward *f);

/* Which rows have outputs, and where those go. */
struct forward_outputs {
	const int32_t *rows; /* [n], rising */
	size_t n, row;       /* embeddings go to rows `row` and on */
	/* Of these, those that have logits: their places in `rows`, and the rows themselves, both rising. */
	const int32_t *logit_at, *logit_rows; /* [n_logits] */
	size_t n_logits, logit_row;           /* ... which go to rows logit_row and on */
};

/* Computes the rows. ABORTED when `abort` said so; E_NUMERIC when an output is not finite (*bad is its place in
 * out->rows); what a device reports. The cache's cells of these rows are written either way; the caller decides whether
 * they count. No operation is under way when it returns. */
enum cohort_status forward_run(struct forward *f, const struct be_rows *rows, const struct forward_outputs *out,
		bool (*abort)(void *), void *abort_user, int64_t *bad, struct cohort_err *err);

/* Row `row` of logits or embeddings, of which n were computed; NULL: the device failed. Calls after the first
 * cost nothing until rows are computed again. */
const float *forward_row(struct be_buf *b, size_t row, size_t n, struct cohort_err *err);

/* ---- On every device (devices.c) ---- */

/* Waits for all operations of all devices: the first failure. */
enum cohort_status forward_wait(struct forward *f, int64_t *bad, struct cohort_err *err);
bool forward_lora_reserve(struct forward *f, const struct model_loras *loras);
void forward_touch(struct forward *f);
/* The part of the weights, by bytes, that has its best layout. */
double forward_repack(struct forward *f, double seconds);
uint64_t forward_weight_sum(struct forward *f, const struct model_weight *w);
size_t forward_block_bytes(const struct forward *f, size_t group);
void forward_cells_move(struct forward *f, size_t group, const struct be_move *moves, size_t n);
size_t forward_cell_bytes(const struct forward *f, size_t group);
/* From bytes with `store`, or to bytes: cell after cell or state after state, whatever device a layer is on. */
void forward_cells_pass(
		struct forward *f, size_t group, const struct be_span *spans, size_t n, void *bytes, bool store);

#endif
