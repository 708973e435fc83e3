/* The KV cache's books: fixed-size, position-aligned, reference-counted blocks and a table per sequence.
 *
 * No tensor data lives here. A decode is a transaction: kv_begin, one or more kv_reserve, each of which plans every
 * row's place (and the block copies this takes), then kv_commit or kv_rollback. Other changes are planned and made in
 * one call; with `dry` they only say whether they would succeed. They are refused (E_BUG) while a transaction is
 * open. */
#ifndef KV_KV_H
#define KV_KV_H

#include "kv/places.h"

struct kv;

struct kv_row {
	cohort_pos pos;
	int32_t n_seq;
	const cohort_seq *seq; /* checked: in range, same history, pos is the next of each */
};

struct kv_store {
	int32_t row, block, slot;
};

/* n cells to be copied, in the order of the list: a block that a move reads may be written by a later one. */
struct kv_move {
	int32_t from, from_slot, to, to_slot, n;
	cohort_pos shift; /* keys are to be rotated by so many positions */
};

/* What a reservation asks of the tensor side: first the copies, then, as rows are computed, the stores. */
struct kv_plan {
	const struct kv_store *stores; /* [n_rows], one for each row in order */
	const struct kv_store *extra;  /* further places of rows whose block was split within the reservation */
	size_t n_extra;
	const struct kv_move *copies; /* of whole blocks */
	size_t n_copies;
};

struct kv_moves {
	const struct kv_move *moves; /* good until the next call on the kv */
	size_t n_moves;
};

#define KV_BLOCK_MAX 32 /* positions per block at most: a word says which are held */

struct kv_limits {
	size_t n_blocks, block_size;
	size_t n_seq_max;
	size_t n_pos_max;  /* positions are below it */
	size_t n_rows_max; /* rows of a reservation for which nothing need be allocated later */
	size_t window;     /* a row sees itself and window - 1 positions before; 0: all */
};

struct kv *kv_open(const struct kv_limits *lim);
void kv_free(struct kv *kv);

/* ---- The transaction ---- */

void kv_begin(struct kv *kv);
/* NO_ROOM (rule kv-room) names the row that did not fit (`expected`: the number of rows that did) and its sequence. On
 * any failure the books are as before this kv_reserve; the transaction stays open. */
enum cohort_status kv_reserve(struct kv *kv, const struct kv_row *rows, size_t n_rows, struct kv_plan *plan,
		struct cohort_err *err);
/* Also lets go of blocks that fell out of the window of the sequences that grew. */
void kv_commit(struct kv *kv);
/* As it was at kv_begin, the order of the free list included. */
void kv_rollback(struct kv *kv);

/* ---- Looking ---- */

/* Block ids of a sequence by position / block size, and a word per block: bit j tells that the sequence holds slot j.
 * Entries outside [kv_pos_first, pos_max], and ids where the word is 0, mean nothing. During a transaction: as it will
 * be. */
const int32_t *kv_table(const struct kv *kv, cohort_seq seq);
const uint32_t *kv_held(const struct kv *kv, cohort_seq seq);
cohort_pos kv_pos_min(const struct kv *kv, cohort_seq seq);   /* -1: empty; a window's released cells count as held */
cohort_pos kv_pos_max(const struct kv *kv, cohort_seq seq);
cohort_pos kv_pos_first(const struct kv *kv, cohort_seq seq); /* first position whose cell is there; -1: empty */
cohort_pos kv_pos_gone(const struct kv *kv, cohort_seq seq);  /* a window released cells before it; 0: none */
bool kv_has_gaps(const struct kv *kv, cohort_seq seq);        /* between kv_pos_first and pos_max */
/* Whether the sequence, which is one, has anything in [p0, p1), p1 -1: to the end; a window's released cells count. */
bool kv_holds(const struct kv *kv, cohort_seq seq, cohort_pos p0, cohort_pos p1);
/* Both hold the same cells. */
bool kv_same(const struct kv *kv, cohort_seq a, cohort_seq b);
/* Blocks, their references, the sequences that hold some. */
const struct places *kv_places(const struct kv *kv);

/* ---- Sequences ---- */

/* p1 -1: to the end. Rules: seq-id, range, window-gone. */
enum cohort_status kv_seq_rm(struct kv *kv, cohort_seq seq, cohort_pos p0, cohort_pos p1, bool dry,
		struct cohort_err *err);
/* Rules: seq-id, range, cp-occupied, window-gone; NO_ROOM (rule kv-room) where cells of both meet in a block. */
enum cohort_status kv_seq_cp(struct kv *kv, cohort_seq src, cohort_seq dst, cohort_pos p0, cohort_pos p1, bool dry,
		struct kv_moves *moves, struct cohort_err *err);
enum cohort_status kv_seq_keep(struct kv *kv, cohort_seq seq, struct cohort_err *err);
/* Rules: seq-id, range, pos-negative, pos-limit, add-occupied, window-gone; NO_ROOM. */
enum cohort_status kv_seq_add(struct kv *kv, cohort_seq seq, cohort_pos p0, cohort_pos p1, cohort_pos delta, bool dry,
		struct kv_moves *moves, struct cohort_err *err);
void kv_clear(struct kv *kv);

/* ---- Images: what a saved state says of the books ---- */

struct kv_image_seq {
	cohort_seq seq;            /* where it goes */
	cohort_pos min, first, max; /* as kv_pos_*; -1: empty */
	const int32_t *blocks;     /* [max / size - first / size + 1]: numbers of image blocks, -1 where held is 0 */
	const uint32_t *held;      /* the same shape */
	cohort_pos gone;           /* as kv_pos_gone */
};
struct kv_image {
	const struct kv_image_seq *seqs;
	size_t n_seqs;
	size_t n_blocks;           /* image blocks are 0 .. n_blocks - 1 */
	bool all;                  /* empties every sequence first; otherwise only those named */
};
/* Takes blocks for the image and makes its sequences. ids[i] is the block that image block i became. After a dry call
 * that succeeded the same call, made next, allocates nothing and succeeds. Trusts nothing:
 * E_FORMAT for an image that is not sound. NO_ROOM, E_MEMORY, seq-id; nothing has changed then. */
enum cohort_status kv_import(struct kv *kv, const struct kv_image *image, bool dry, int32_t *ids,
		struct cohort_err *err);

/* ---- For tests ---- */

/* Whether every reference count equals the number of tables that name the block and the free list holds the rest. */
bool kv_consistent(const struct kv *kv);
/* A number that differs, as good as always, when any table, held word, length, reference count or the free list
 * differs. */
uint64_t kv_hash(const struct kv *kv);

#endif
