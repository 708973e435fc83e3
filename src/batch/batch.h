/* The batch, its checks and its splits. Pure functions: no I/O, no threads, no kernels. */
#ifndef BATCH_BATCH_H
#define BATCH_BATCH_H

#include "base/err.h"

/* What the checks ask of a memory; may be absent. */
struct batch_memory {
	void *user;
	cohort_pos (*pos_max)(void *user, cohort_seq seq);         /* -1: empty */
	bool (*same)(void *user, cohort_seq a, cohort_seq b);      /* the same history */
};

struct batch_limits {
	int32_t n_vocab, n_seq_max, n_rows_max;
	cohort_pos n_pos_max;   /* positions are below it */
};

struct batch_row {
	cohort_token token;
	cohort_pos pos;
	int32_t n_seq;
	const cohort_seq *seq;  /* in the batch, or static for a filled-in one */
	bool output;
	bool single;            /* the only row of its sequence in the batch */
};

/* Checked rows, with what the batch left out filled in. Reused from call to call; allocates only to grow. */
struct batch_checked {
	struct batch_row *rows;
	size_t n_rows, rows_max;
	size_t n_outputs;
	struct batch_seq *seqs; /* [n_seq_max], marked by epoch */
	size_t seqs_max;
	uint32_t epoch;
};

/* Room for n_rows and n_seq, so that checks within these allocate nothing. False when out of memory. */
bool batch_checked_init(struct batch_checked *c, size_t n_rows, size_t n_seq);
void batch_checked_release(struct batch_checked *c);

/* On failure the result holds no rows. */
enum cohort_status batch_check(struct batch_checked *c, const struct cohort_batch *b, const struct batch_limits *lim,
		const struct batch_memory *mem, struct cohort_err *err);

/* Consecutive rows, at most n_ubatch; *n is 0 at the end. *at starts at 0. */
void batch_split_simple(const struct batch_checked *c, size_t n_ubatch, size_t *at, size_t *from, size_t *n);

#endif
