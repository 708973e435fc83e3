/* The books of recurrent memory: a state per sequence instead of cells per position.
 *
 * States are numbered, reference-counted slots of a pool; forks share them. A row never writes the state it read
 * unless the transaction made it: the first row of a set of sequences reads the committed state and writes a new
 * one, so that rolling back is forgetting. Checkpoints are states kept with their position; a tail is removed by
 * going back to one. */
#ifndef KV_RECUR_H
#define KV_RECUR_H

#include "kv/kv.h"

struct recur;

struct recur_limits {
	size_t n_states;     /* of the pool */
	size_t n_seq_max, n_rows_max;
	size_t n_checkpoints; /* kept per sequence; the oldest goes first */
	size_t n_pos_max;     /* positions are below it */
};

/* What one row does: reads state `from` (-1: the state of an empty sequence), writes `to`. They may be the same. */
struct recur_step {
	int32_t from, to;
};

struct recur *recur_open(const struct recur_limits *lim);
void recur_free(struct recur *r);

void recur_begin(struct recur *r);
/* steps: [n_rows], good until the next reserve. NO_ROOM as kv_reserve. */
enum cohort_status recur_reserve(struct recur *r, const struct kv_row *rows, size_t n_rows,
		const struct recur_step **steps, struct cohort_err *err);
void recur_commit(struct recur *r);
void recur_rollback(struct recur *r);

cohort_pos recur_pos_min(const struct recur *r, cohort_seq seq);
cohort_pos recur_pos_max(const struct recur *r, cohort_seq seq);
int32_t recur_state(const struct recur *r, cohort_seq seq); /* -1: empty */
bool recur_same(const struct recur *r, cohort_seq a, cohort_seq b);
/* Whether the sequence has any position in [p0, p1), p1 -1: to the end. */
bool recur_holds(const struct recur *r, cohort_seq seq, cohort_pos p0, cohort_pos p1);

/* Keeps the state as it is now. */
enum cohort_status recur_checkpoint(struct recur *r, cohort_seq seq, struct cohort_err *err);
/* All of the sequence, or a tail at whose beginning a checkpoint lies (rule checkpoint); later checkpoints go. */
enum cohort_status recur_seq_rm(struct recur *r, cohort_seq seq, cohort_pos p0, cohort_pos p1, bool dry,
		struct cohort_err *err);
/* The whole of src (or up to a checkpoint) onto an empty dst. */
enum cohort_status recur_seq_cp(struct recur *r, cohort_seq src, cohort_seq dst, cohort_pos p0, cohort_pos p1, bool dry,
		struct cohort_err *err);
enum cohort_status recur_seq_keep(struct recur *r, cohort_seq seq, struct cohort_err *err);
/* The whole sequence only: positions change, the state does not. Rules: checkpoint, pos-negative, pos-limit. */
enum cohort_status recur_seq_add(struct recur *r, cohort_seq seq, cohort_pos p0, cohort_pos p1, cohort_pos delta,
		bool dry, struct cohort_err *err);
void recur_clear(struct recur *r);

/* A checkpoint: the last position the state has seen, and the state. */
struct recur_check {
	cohort_pos pos;
	int32_t state;
};
/* The checkpoints of a sequence, the oldest first. */
size_t recur_checks(const struct recur *r, cohort_seq seq, const struct recur_check **checks);

/* What a saved state says of the books; states are numbers of the image's own, 0 .. n_states - 1. */
struct recur_image_seq {
	cohort_seq seq;
	cohort_pos min, max; /* -1: empty */
	int32_t state;
	const struct recur_check *checks; /* [n_checks] */
	size_t n_checks;
};
struct recur_image {
	const struct recur_image_seq *seqs; /* ids rise */
	size_t n_seqs, n_states;
	bool all; /* empties every sequence first; otherwise only those named */
};
/* As kv_import: ids[i] is the state that image state i became. */
enum cohort_status recur_import(
		struct recur *r, const struct recur_image *image, bool dry, int32_t *ids, struct cohort_err *err);

const struct places *recur_places(const struct recur *r);

bool recur_consistent(const struct recur *r); /* for tests, as kv_consistent and kv_hash */
uint64_t recur_hash(const struct recur *r);

#endif
