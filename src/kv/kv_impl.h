/* What the files of the KV books share. Nobody else includes it but memory.c and the tests of this room. */
#ifndef KV_KV_IMPL_H
#define KV_KV_IMPL_H

#include "kv/kv.h"

struct kv_node {         /* a row of the reservation that goes to a block */
	int32_t row, slot;
	int32_t prev;    /* the one before in the same block; -1: none */
};

struct kv_cells {        /* where those of a block came from, to tell which blocks hold the same */
	uint64_t stamp;  /* another one when slots that were copied are written again */
	uint64_t from;   /* the stamp of the block that it was copied from; 0: none */
	uint32_t copied; /* slots that are still what was copied */
	uint32_t given;  /* slots that were copied to others since the stamp is what it is */
};

struct kv_chain {        /* of a block; means nothing unless its epoch is the reservation's */
	uint64_t epoch;
	int32_t last;
};

struct kv {
	struct places p;      /* blocks; a block's note: slots that sequences held which left it in this transaction */
	size_t size, n_index;
	int64_t window;       /* at least 2; as good as endless when there is none */
	int32_t *tables;      /* [n_seq_max, n_index] */
	uint32_t *held;       /* [n_seq_max, n_index] */
	struct kv_cells *cells; /* [n_blocks] */
	uint64_t n_stamps;

	struct kv_store *stores, *extra;
	size_t stores_max, n_extra, extra_max;
	struct kv_node *nodes;    /* one for each store and extra store */
	size_t n_nodes, nodes_max;
	struct kv_chain *chains;  /* [n_blocks] */
	struct kv_move *copies;
	size_t n_copies, copies_max;

	struct kv_move *moves;
	size_t n_moves, moves_max;
	uint32_t *scratch;    /* words of one call */
	size_t scratch_max;
};

static inline int32_t *kv_entry(const struct kv *kv, cohort_seq seq, size_t index)
{
	return &kv->tables[(size_t)seq * kv->n_index + index];
}

static inline uint32_t *kv_word(const struct kv *kv, cohort_seq seq, size_t index)
{
	return &kv->held[(size_t)seq * kv->n_index + index];
}

/* Of the blocks of a sequence that is not empty. */
static inline size_t kv_first_index(const struct kv *kv, const struct place_seq *s)
{
	return (size_t)s->first / kv->size;
}

static inline size_t kv_last_index(const struct kv *kv, const struct place_seq *s)
{
	return (size_t)s->max / kv->size;
}

/* The word of any index: 0 where the sequence holds nothing. */
uint32_t kv_word_at(const struct kv *kv, cohort_seq seq, size_t index);
/* The slots of block `index` that lie in positions [p0, p1). */
uint32_t kv_slots(const struct kv *kv, size_t index, int64_t p0, int64_t p1);
/* The first cell at p or after it, the last at p or before it; -1: none. */
cohort_pos kv_next_held(const struct kv *kv, cohort_seq seq, cohort_pos p);
cohort_pos kv_prev_held(const struct kv *kv, cohort_seq seq, cohort_pos p);

int32_t kv_take(struct kv *kv); /* there is a free block; it has no reference yet */
/* Releases all cells of the sequence, which is not empty. */
void kv_empty(struct kv *kv, cohort_seq seq);
/* Releases the cells in [p0, p1); the lengths are the caller's. */
void kv_forget(struct kv *kv, cohort_seq seq, cohort_pos p0, cohort_pos p1);

/* Undoes the last reservation, as if it had failed; once more is nothing. */
void kv_unreserve(struct kv *kv);

#endif
