/* The KV cache's books: fixed-size, position-aligned, reference-counted blocks and a table per sequence.
 *
 * No tensor data lives here. A decode is a transaction: kv_reserve plans every row's place (and the block copies this
 * takes), kv_commit makes it so, kv_rollback forgets it. Between calls at most one transaction is open. */
#ifndef KV_KV_H
#define KV_KV_H

#include "base/err.h"

struct kv;

struct kv_row {
	cohort_pos pos;
	int32_t n_seq;
	const cohort_seq *seq; /* checked: in range, same history, pos is the next of each */
};

struct kv_store {
	int32_t row, block, slot;
};
struct kv_copy {
	int32_t from, to;
};

/* What a reservation asks of the tensor side: first the copies, then, as rows are computed, the stores. */
struct kv_plan {
	const struct kv_store *stores; /* [n_rows], one for each row in order */
	const struct kv_store *extra;  /* further places of rows whose block was split within the batch */
	size_t n_extra;
	const struct kv_copy *copies;
	size_t n_copies;
};

struct kv_limits {
	size_t n_blocks, block_size;
	size_t n_seq_max;
	size_t n_pos_max;  /* positions are below it */
	size_t n_rows_max; /* rows of a reservation for which nothing need be allocated later */
};

struct kv *kv_open(const struct kv_limits *lim);
void kv_free(struct kv *kv);

/* NO_ROOM names the row that did not fit (the number of rows that did) and its sequence; nothing has changed then. */
enum cohort_status kv_reserve(struct kv *kv, const struct kv_row *rows, size_t n_rows, struct kv_plan *plan,
		struct cohort_err *err);
void kv_commit(struct kv *kv);
void kv_rollback(struct kv *kv);

/* Block ids of a sequence by position / block size; entries outside [pos_min, pos_max] mean nothing. During a
 * transaction: as it will be. */
const int32_t *kv_table(const struct kv *kv, cohort_seq seq);
cohort_pos kv_pos_min(const struct kv *kv, cohort_seq seq); /* -1: empty */
cohort_pos kv_pos_max(const struct kv *kv, cohort_seq seq);
/* Both hold the same cells. */
bool kv_same(const struct kv *kv, cohort_seq a, cohort_seq b);

/* p1 -1: to the end. A range that would leave cells on both sides is refused. */
enum cohort_status kv_seq_rm(struct kv *kv, cohort_seq seq, cohort_pos p0, cohort_pos p1, struct cohort_err *err);
enum cohort_status kv_seq_cp(struct kv *kv, cohort_seq src, cohort_seq dst, struct cohort_err *err);
void kv_clear(struct kv *kv);

struct kv_usage {
	size_t n_blocks, n_used, n_shared;
};
void kv_usage_get(const struct kv *kv, struct kv_usage *u);

/* Tests: whether every reference count equals the number of tables that name the block and the free list holds the
 * rest. */
bool kv_consistent(const struct kv *kv);
/* Tests: a number that differs, as good as always, when any table, length or reference count differs. */
uint64_t kv_hash(const struct kv *kv);

#endif
