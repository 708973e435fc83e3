/* Shared by the files that turn sequences into bytes and back. docs/state-format.md is the format. */
#ifndef CONTEXT_STATE_H
#define CONTEXT_STATE_H

#include "base/sum.h"
#include "context/impl.h"

#define STATE_MAGIC "COHSTATE"
#define STATE_VERSION 2
#define STATE_ALL 1u
#define STATE_RECUR 2u

enum {
	AT_VERSION = 8,
	AT_STATE_FLAGS = 12,
	AT_BYTES = 16,
	AT_MODEL = 24,
	AT_TYPE = 32,
	AT_BLOCK = 36,
	AT_GROUPS = 40,
	AT_SEQS = 44,
	HEAD_BYTES = 48,
	GROUP_BYTES = 16, /* window, blocks, bytes of a cell */
	SEQ_BYTES = 8,    /* id, last position */
	BEGIN_BYTES = 12, /* of a sequence in a group: min, first, gone (as kv_pos_*) */
	ENTRY_BYTES = 8,  /* of a table: block number, held slots */
	HELD_BYTES = 4,
	STATES_BYTES = 12,     /* before recurrent states: how many, bytes of each */
	STATE_SEQ_BYTES = 12,  /* of a sequence: first position, state, checkpoints */
	CHECK_BYTES = 8,       /* of a checkpoint: position, state */
	SUM_BYTES = 8,
};

/* The table entries of a sequence: blocks first / size to max / size. */
static inline size_t n_entries(cohort_pos first, cohort_pos max)
{
	const cohort_pos size = (cohort_pos)BE_BLOCK;
	return max < 0 ? 0 : (size_t)(max / size - first / size) + 1;
}

static inline size_t cell_bytes(const struct cohort_context *c, size_t group)
{
	return forward_cell_bytes(&c->forward, group);
}

/* Layers of a group have the same window. */
static inline size_t window_of(const struct cohort_context *c, size_t group)
{
	for (size_t i = 0; i < c->model->model.hp.n_layer; i++)
		if (c->group_of[i] == group)
			return c->model->model.layers[i].window;
	return 0;
}

/* What the bytes of a state say of one group. */
struct saved_part {
	struct kv_image_seq *seqs; /* [n_seqs] */
	int32_t *blocks;           /* tables of all sequences, one after the other */
	uint32_t *held;
	size_t n_blocks;
	uint32_t *cells_held;      /* [n_blocks] */
	int32_t *ids;              /* [n_blocks]: blocks of the pool, from kv_import */
	const uint8_t *cells;      /* in the bytes */
	size_t at;                 /* of its tables in the bytes, for messages */
};

/* What they say of recurrent states. */
struct saved_states {
	struct recur_image_seq *seqs; /* [n_seqs] */
	struct recur_check *checks;   /* of all sequences, one after the other */
	size_t n_states;
	int32_t *ids;                 /* [n_states]: states of the pool, from recur_import */
	const uint8_t *bytes;         /* of the states, in the bytes */
	size_t at;                    /* of this part in the bytes, for messages */
};

struct saved {
	bool all;
	size_t n_seqs;
	struct saved_part parts[BE_GROUPS_MAX];
	struct saved_states states;
};

/* The 64-bit sum of n bytes. */
uint64_t state_sum(const void *bytes, size_t n);
/* Takes c->fingerprint, unless it is there: a number that differs for models of which any byte of a weight differs, and
 * for contexts of one model whose keys are turned by different angles. ABORTED: the caller's callback said so. */
enum cohort_status state_fingerprint(struct cohort_context *c, struct cohort_err *err);
enum cohort_status state_no_memory(struct cohort_err *err);

/* Whether this is a state of the version that is known here. n may be less than the whole, but not less than
 * HEAD_BYTES + SUM_BYTES (E_FORMAT). */
enum cohort_status state_check_start(const uint8_t *bytes, size_t n, struct cohort_err *err);
/* Reads and checks all that can be checked without asking the books; changes nothing. The bytes must stay. Release *s
 * whatever the outcome. */
enum cohort_status state_read(struct cohort_context *c, cohort_seq seq, const uint8_t *bytes, size_t n_bytes,
		struct saved *s, struct cohort_err *err);
void state_saved_release(struct saved *s);

static inline size_t state_bytes(const struct cohort_context *c)
{
	return cell_bytes(c, BE_STATES);
}

#endif
