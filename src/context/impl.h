/* Handles of cohort.h, as this room sees them. */
#ifndef CONTEXT_IMPL_H
#define CONTEXT_IMPL_H

#include "batch/batch.h"
#include "forward/forward.h"
#include "gguf/gguf.h"
#include "kv/memory.h"
#include "model/adapter.h"
#include "model/model.h"
#include "tok/tok.h"

/* A device and the layers that it has. */
struct context_device {
	const struct be_ops *ops;
	size_t device, level;
	struct be_weights *weights;
	bool *wanted;      /* [n_weights]: which weights are on it */
	int64_t n_layers;  /* -1: the list does not say */
};

struct cohort_model {
	struct gguf gguf;
	struct tok *tok;            /* NULL: the file has no tokeniser */
	struct model model;         /* zeroed with vocab_only */
	struct context_device devices[FORWARD_DEVICES_MAX];
	size_t n_devices;
	char device_names[128];     /* of all of them, as -device takes them */
	bool vocab_only;
	char *name;
	char *arch;
	char note[512];             /* warnings worth showing, or "" */
	struct model_adapter *adapters; /* [n_adapters]: every row uses them */
	struct be_lora *base;           /* [n_adapters]: the same, with their scales */
	size_t n_adapters;
};

struct cohort_adapter {
	const struct cohort_model *model;
	struct model_adapter adapter;
};

_Static_assert(BE_GROUPS_MAX == MEMORY_KV_MAX, "a group of layers is a part of the memory");

/* Sequences that go through the model together without memory. */
#define CONTEXT_WHOLE_MAX 64

/* An output of the last call: which row asked for it, and where it was computed; its logits, if it has some, are at a
 * place of their own. */
struct output {
	int32_t row, place, logits; /* logits -1: none */
};

/* The rows of the ubatch at hand, in one group, as struct be_cells has them. */
struct context_cells {
	int32_t *blocks;
	uint32_t *held;
	size_t blocks_max, held_max; /* entries: all that sequences without gaps need; gaps make them grow */
	uint32_t *table;
	bool *gaps;
	cohort_pos *base, *first;
	struct be_store *stores; /* grows with coupled rows */
	size_t stores_max;
};

struct cohort_context {
	const struct cohort_model *model;
	struct cohort_context_params p;
	struct forward forward;
	struct memory memory;
	struct batch_checked checked;
	size_t n_groups;
	size_t n_blocks;          /* of the pool, in each group */
	uint8_t *group_of;        /* [n_layer] */
	struct kv_row *kv_rows;   /* [n_batch] */
	int32_t *rank_of;         /* [n_batch]: a row's place among the outputs, where it asked for output */
	/* Of the ubatch at hand, [n_ubatch]: */
	cohort_pos *end;
	int32_t *wanted;          /* rows that want output */
	int32_t *logit_at, *logit_rows; /* of these, those that want logits: which of them, and the rows */
	struct context_cells cells[BE_GROUPS_MAX];
	int32_t *state_from, *state_to; /* of models with states */
	struct be_lora *row_lora;       /* adapters of rows */
	struct be_lora *lora;           /* [n_seq_max]: adapters of sequences */
	size_t n_lora;                  /* sequences that have one */
	int32_t *at_of;                 /* [n_batch]: where in the last ubatch that had it a row was */
	uint32_t *row_of;               /* [n_seq_max]: a sequence's first row in the ubatch that ubatch_of names */
	uint32_t *ubatch_of;            /* [n_seq_max] */
	uint32_t n_ubatches;            /* counts them; wraps around */
	void *arrays;                   /* all arrays that do not grow, in one block */
	/* Calls without memory use blocks behind the pool. */
	size_t n_scratch_blocks;
	int32_t *scratch_ids; /* [n_scratch_blocks]: their ids; a sequence's table is a slice of it */
	size_t n_states;      /* of the pool; those behind it are for calls without memory, context_whole_max of them */
	cohort_token *enc_tokens; /* [n_ubatch] */
	cohort_pos *enc_pos;
	int32_t *enc_rows;
	/* Outputs of the last call, in batch order. */
	struct output *outputs;   /* [n_batch] */
	size_t n_outputs;
	size_t n_rows;            /* of the last call; 0 when it failed */
	size_t n_places, n_logits; /* outputs computed in the call at hand, and those with logits */
	float *pooled;            /* [n_seq_max, n_embd], with pooling: good where pooled_in is the current call */
	uint32_t *n_pooled;       /* [n_seq_max]: rows of it */
	uint32_t *pooled_in;
	uint32_t *named;          /* [n_seq_max]: the call that last named the sequence (each, scatter) */
	uint32_t call;
	struct cohort_scratch scratch;
	struct cohort_counters counters;
	uint64_t fingerprint; /* of the model, in saved states; taken when it is first needed */
	bool has_fingerprint;
};

/* Sequences of this context that go through the model together without memory: there are no more ids than n_seq_max. */
static inline size_t context_whole_max(const struct cohort_context *c)
{
	return c->p.n_seq_max < CONTEXT_WHOLE_MAX ? (size_t)c->p.n_seq_max : CONTEXT_WHOLE_MAX;
}

/* Positions a sequence of the model can have. */
cohort_pos context_pos_limit(const struct cohort_model *m);
/* Positions that the context has room for in one sequence: by these angles are chosen. */
size_t context_pos_span(const struct cohort_context *c);

/* ---- seq_api.c ---- */

void context_move_cells(struct cohort_context *c, size_t group, const struct kv_move *moves, size_t n);

/* ---- adapter_api.c ---- */

/* The adapters that all rows go through. */
enum cohort_status context_open_adapters(
		struct cohort_model *m, const struct cohort_model_params *p, struct cohort_err *err);
void context_free_adapters(struct cohort_model *m);
/* Rows of several sequences: these have the same adapter. */
enum cohort_status context_check_adapters(const struct cohort_context *c, struct cohort_err *err);
/* Whether src and dst can share cells; dst takes src's adapter if it is empty. dry: only asks. */
enum cohort_status context_copy_adapter(struct cohort_context *c, cohort_seq src, cohort_seq dst, cohort_pos p0,
		cohort_pos p1, bool dry, struct cohort_err *err);

/* ---- device_api.c ---- */

/* Devices and levels by their names: NULL: the first device, the best level. */
enum cohort_status context_find_devices(struct cohort_model *m, const char *device, const char *isa,
		struct cohort_err *err);
/* Divides the layers, and says which weights each device has. */
enum cohort_status context_divide(struct cohort_model *m, struct cohort_err *err);

/* ---- outputs.c ---- */

/* A new call begins: outputs of the last one are gone. */
void context_forget(struct cohort_context *c);
/* Ranks in the order of the rows. */
void context_rank_rows(struct cohort_context *c);
/* Rows that ask for output get the next places, with logits or without. */
struct forward_outputs context_place_outputs(struct cohort_context *c, const int32_t *rows, size_t n);
/* One embedding per sequence, over its rows in batch order. */
enum cohort_status context_pool(struct cohort_context *c, struct cohort_err *err);
/* The call went well: its outputs may be asked for. */
void context_publish(struct cohort_context *c);
/* Logits of an output of what was computed last, by its rank; NULL: the device failed. */
const float *context_logits_at(const struct cohort_context *c, size_t rank, struct cohort_err *err);

/* ---- decode.c ---- */

/* Every row of a batch asks for output, whatever the batch says. */
bool context_output_all(const struct cohort_context *c);
/* Checks a batch into c->checked. */
enum cohort_status context_check(struct cohort_context *c, const struct cohort_batch *b, bool with_memory,
		struct cohort_err *err);
/* Room for the rows of c->checked, in the memory's open transaction. */
enum cohort_status context_reserve(struct cohort_context *c, struct memory_plan *plan, struct cohort_err *err);
/* Computes them; rank_of says where outputs go. */
enum cohort_status context_run(struct cohort_context *c, const struct memory_plan *plan, struct cohort_err *err);
/* A whole decode of one batch; context_forget was called. */
enum cohort_status context_decode(struct cohort_context *c, const struct cohort_batch *b, struct cohort_err *err);
/* Computes rows whose cells, ends and states are in the context's arrays; err names rows by batch_rows. */
enum cohort_status context_run_rows(struct cohort_context *c, struct be_rows *rows, const int32_t *batch_rows,
		const struct forward_outputs *out, struct cohort_err *err);
/* Text for the trace callback: the batch, or a ubatch. */
void context_trace(const struct cohort_context *c, const struct ubatch *u);
/* Room for n rows in a scratch (grid.c). False when out of memory. */
bool context_scratch_rows(struct cohort_scratch *s, size_t n);
void context_count(struct cohort_context *c, double seconds, size_t n_single, size_t n_rows);

#endif
