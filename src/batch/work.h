/* The arrays behind a checked batch. For the files of this room only. */
#ifndef BATCH_WORK_H
#define BATCH_WORK_H

#include "batch/batch.h"

/* What one check knows of a sequence. Means nothing unless its epoch is the check's. */
struct batch_seq {
	uint32_t epoch;
	int32_t last_row; /* -1: none yet */
	int32_t in_row;   /* the last row that named the id, to find repeats within a row */
	int32_t set;      /* of last_row */
	cohort_pos first, next;
};

/* Rows that name the same sequences. Set 0 is a stand-in without rows: the parent of sets that begin in this batch.
 * Rows of a set, and children of a set, are lists in batch order. */
struct batch_set {
	int32_t n_ids, n_rows;
	int32_t first_row, last_row;
	int32_t first_child, last_child, n_children, sibling; /* 0: none */
	/* The state of splitting: eligible sets are a list that begins at set 0. */
	int32_t link; /* 0: the end */
	int32_t at, n_left;
};

struct batch_work {
	/* By row, in one slab. Those that begin with g_ hold the rows of an equal or seq ubatch. */
	void *row_slab;
	size_t rows_max;
	const cohort_seq **seq, **g_seq;
	struct batch_set *sets; /* [rows_max + 1] */
	int32_t *ones;          /* 1, 1, ... */
	int32_t *numbers;       /* 0, 1, ... */
	int32_t *next_row;      /* of the same set */
	int32_t *g_rows, *g_n_seq;
	cohort_token *g_tokens;
	uint8_t *output, *g_output;

	/* By sequence, in one slab. */
	void *seq_slab;
	size_t seqs_max;
	struct batch_seq *seqs;
	cohort_seq *seq_unq;
	int32_t *seq_idx; /* -1 but for the n_unq ids of seq_unq */

	cohort_pos *pos, *g_pos; /* [rows, n_pos_row] */
	size_t pos_max, g_pos_max;
	float *g_embd; /* [rows, n_embd]; NULL until a split needs it */
	size_t g_embd_max;

	uint32_t epoch;
	int32_t n_sets; /* set 0 included */
	int32_t n_unq;
	int32_t n_eligible;
	bool started;           /* a split since the check or the last reset */
	enum batch_split kind;  /* its kind */
};

/* Where the arrays of a batch are; those that it leaves out are NULL. */
void batch_arrays(const struct cohort_batch *b, struct cohort_batch_raw *raw);

/* Room for so many rows, sequences, and positions that a check fills in. False when out of memory: what there was is
 * still there. */
bool work_room(struct batch_checked *c, size_t n_rows, size_t n_seq, size_t n_pos);

#endif
