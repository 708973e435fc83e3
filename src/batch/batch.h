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
	int32_t n_embd;         /* floats of an embedding row; 0: embedding rows are not known here */
	int32_t n_pos_row;      /* positions per row that the model wants; at least 1 */
	cohort_pos n_pos_max;   /* positions are below it */
	bool output_all;
};

/* Rows computed together. Arrays are borrowed: from the batch, or from the checked batch until its next split.
 *
 * simple: n_seqs = n_tokens, n_seq_tokens = 1, equal_seqs false. equal and seq: n_seqs sets of n_seq_tokens rows, the
 * rows of set s at s * n_seq_tokens and on, equal_seqs true. */
struct ubatch {
	int32_t n_tokens, n_seq_tokens, n_seqs, n_seqs_unq;
	int32_t n_embd, n_pos_row;
	bool equal_seqs;
	const cohort_token *tokens;    /* [n_tokens] or NULL */
	const float *embd;             /* [n_tokens, n_embd] or NULL */
	const cohort_pos *pos;         /* [n_tokens, n_pos_row] */
	const int32_t *n_seq;          /* [n_tokens] */
	const cohort_seq *const *seq;  /* [n_tokens] */
	const uint8_t *output;         /* [n_tokens] */
	const int32_t *rows;           /* [n_tokens]: the row's index in the batch */
	const cohort_seq *seq_unq;     /* [n_seqs_unq], rising */
	const int32_t *seq_idx;        /* [n_seq_max]: index in seq_unq, or -1 */
};

enum batch_split { BATCH_SPLIT_SIMPLE, BATCH_SPLIT_EQUAL, BATCH_SPLIT_SEQ };

struct batch_seq; /* notes about a sequence, valid within one check */
struct batch_set; /* rows that name the same sequences */

/* A checked batch, with what it left out filled in, and the state of its splitting. Reused from call to call; allocates
 * only to grow. Read the counts; the rest is the room's. */
struct batch_checked {
	int32_t n_tokens, n_outputs;
	int32_t n_used;                /* rows handed out by splits since the last reset */
	int32_t n_embd, n_pos_row;
	const cohort_token *tokens;    /* [n_tokens] or NULL */
	const float *embd;             /* [n_tokens, n_embd] or NULL */
	const cohort_pos *pos;         /* [n_tokens, n_pos_row] */
	const int32_t *n_seq;          /* [n_tokens] */
	const cohort_seq *const *seq;  /* [n_tokens] */
	const uint8_t *output;         /* [n_tokens] */
	struct ubatch ubatch;          /* the current one */
	struct batch_work *work;       /* arrays */
};

/* Room for n_rows and n_seq, so that checks and splits of token rows with one id each within these allocate nothing.
 * False when out of memory. */
bool batch_checked_init(struct batch_checked *c, size_t n_rows, size_t n_seq);
void batch_checked_release(struct batch_checked *c);
/* No rows. */
void batch_clear(struct batch_checked *c);

/* Keeps pointers into b until the next check. On failure the result holds no rows. */
enum cohort_status batch_check(struct batch_checked *c, const struct cohort_batch *b, const struct batch_limits *lim,
		const struct batch_memory *mem, struct cohort_err *err);

/* The next ubatch of at most n_ubatch (>= 1) rows, in *u and c->ubatch; one with n_tokens 0 at the end. Kinds may not
 * be mixed without a reset. keep_tail (equal only; at most n_ubatch): the last keep_tail rows of each set are not torn
 * apart over ubatches. E_MEMORY; E_BUG for a mixed kind. The state is then as before. */
enum cohort_status batch_split(struct batch_checked *c, enum batch_split kind, int32_t n_ubatch, int32_t keep_tail,
		struct ubatch *u, struct cohort_err *err);
/* Splitting starts over. */
void batch_split_reset(struct batch_checked *c);

/* First and last position of a sequence within the batch, or -1. */
cohort_pos batch_seq_pos_min(const struct batch_checked *c, cohort_seq seq);
cohort_pos batch_seq_pos_max(const struct batch_checked *c, cohort_seq seq);
/* Rows that are the only one of their (first) sequence in the batch. */
int32_t batch_n_single(const struct batch_checked *c);

/* A made-up ubatch of token 0: n_seqs sets {0}, {1}, ... of n_seq_tokens rows each, positions from 0, output on each
 * set's last row, one position per row. The rows that the checked batch held are forgotten. E_ARG, E_LIMIT (2^31 - 1
 * rows), E_MEMORY. */
enum cohort_status batch_reserve(struct batch_checked *c, int32_t n_seq_tokens, int32_t n_seqs, struct ubatch *u,
		struct cohort_err *err);

/* Text of a checked batch or a ubatch, as cohort_batch_dump. */
size_t batch_dump(const struct batch_checked *c, char *out, size_t n_max);
size_t batch_dump_ubatch(const struct ubatch *u, char *out, size_t n_max);

#endif
