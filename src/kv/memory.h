/* All that a context remembers: one KV part per kind of window among the layers, and a recurrent part where the model
 * has one. Every call does the same to all parts, or to none of them. */
#ifndef KV_MEMORY_H
#define KV_MEMORY_H

#include "kv/recur.h"

#define MEMORY_KV_MAX 4

struct memory_limits {
	size_t n_blocks, block_size, n_seq_max, n_pos_max, n_rows_max;
	size_t n_kv;                   /* parts; 0 for a purely recurrent model */
	size_t window[MEMORY_KV_MAX];  /* of each part; 0: all positions */
	size_t n_states;               /* 0: no recurrent part */
	size_t n_checkpoints;
};

struct memory {
	struct kv *kv[MEMORY_KV_MAX];
	size_t n_kv;
	struct recur *recur; /* or NULL */
};

struct memory_plan {
	struct kv_plan kv[MEMORY_KV_MAX];
	const struct recur_step *steps; /* [n_rows] or NULL */
};

/* Half-built on failure; release it. */
bool memory_init(struct memory *m, const struct memory_limits *lim);
void memory_release(struct memory *m);

void memory_begin(struct memory *m);
/* NO_ROOM: `expected` is the number of rows that fit in every part. */
enum cohort_status memory_reserve(struct memory *m, const struct kv_row *rows, size_t n_rows,
		struct memory_plan *plan, struct cohort_err *err);
void memory_commit(struct memory *m);
void memory_rollback(struct memory *m);

cohort_pos memory_pos_min(const struct memory *m, cohort_seq seq);
cohort_pos memory_pos_max(const struct memory *m, cohort_seq seq);
bool memory_same(const struct memory *m, cohort_seq a, cohort_seq b);
/* Whether a copy of [p0, p1) of the sequence, which is one, would copy anything. */
bool memory_holds(const struct memory *m, cohort_seq seq, cohort_pos p0, cohort_pos p1);
size_t memory_n_live(const struct memory *m);

enum cohort_status memory_seq_rm(struct memory *m, cohort_seq seq, cohort_pos p0, cohort_pos p1,
		struct cohort_err *err);
/* moves: [n_kv] */
enum cohort_status memory_seq_cp(struct memory *m, cohort_seq src, cohort_seq dst, cohort_pos p0, cohort_pos p1,
		struct kv_moves *moves, struct cohort_err *err);
enum cohort_status memory_seq_keep(struct memory *m, cohort_seq seq, struct cohort_err *err);
/* Nothing without a recurrent part. */
enum cohort_status memory_checkpoint(struct memory *m, cohort_seq seq, struct cohort_err *err);
enum cohort_status memory_seq_add(struct memory *m, cohort_seq seq, cohort_pos p0, cohort_pos p1, cohort_pos delta,
		struct kv_moves *moves, struct cohort_err *err);
void memory_clear(struct memory *m);
/* Sums over the parts. */
void memory_usage_get(const struct memory *m, struct kv_usage *u);

bool memory_consistent(const struct memory *m);
uint64_t memory_hash(const struct memory *m);

#endif
