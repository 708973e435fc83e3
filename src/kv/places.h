/* What KV blocks and recurrent states have in common: a pool of reference-counted places, the sequences that hold
 * some, and the journal of a transaction.
 *
 * Invariants
 *  1. ref[p] is the number of entries that name place p. Free places have -1 and are on the free list once. Outside a
 *     transaction no place has 0: the last reference that goes frees it. Within one, places whose holders all moved on
 *     are freed at the commit. n_shared places have more than one reference.
 *  2. The live list names the sequences that are not empty, each once.
 *  3. The journal holds every entry that places_set replaced, and every sequence that places_touch met, as it was.
 *     Undoing it backwards restores the books exactly, the order of the free list included. */
#ifndef KV_PLACES_H
#define KV_PLACES_H

#include "base/err.h"

struct place_seq {
	cohort_pos min, max; /* -1: empty */
	cohort_pos first; /* KV: the first cell that is there */
	cohort_pos gone; /* KV: the window released what was held in [min, gone); 0: nothing */
	int32_t n_cells; /* KV: cells that are there */
	int32_t n_checks; /* states: checkpoints */
	int32_t live; /* index in the live list */
};

struct place_change { /* an entry that was replaced */
	int32_t *entry;
	int32_t old; /* -1: there was none */
	uint32_t note; /* what note[old] was */
};

struct place_length { /* a sequence before its first row of a reservation */
	cohort_seq seq;
	struct place_seq old;
};

struct places {
	size_t n, n_seq_max, n_pos_max;
	struct place_seq *seqs; /* [n_seq_max] */
	cohort_seq *live; /* [n_seq_max], n_live of them */
	size_t n_live;
	int32_t *ref; /* [n] */
	uint32_t *note; /* [n]: what the part notes of a place in this transaction; 0 outside */
	int32_t *free; /* [n]: a stack */
	size_t n_free, n_shared;

	bool open; /* a transaction is under way */
	struct place_change *changes;
	size_t n_changes, changes_max;
	struct place_length *lengths;
	size_t n_lengths, lengths_max;
	size_t mark_changes, mark_lengths; /* of the journal at the beginning of the last reservation */
	uint64_t *touched; /* [n_seq_max]: the reservation that last met the sequence */
	uint64_t epoch;
};

/* Half-built on failure; release it. The journal has room for n_rows_max changes. */
bool places_init(struct places *p, size_t n, size_t n_seq_max, size_t n_pos_max, size_t n_rows_max);
void places_release(struct places *p);

/* ---- References ---- */

/* There is a free place. It has no reference yet. */
static inline int32_t places_take(struct places *p)
{
	const int32_t place = p->free[--p->n_free];

	p->ref[place] = 0;
	return place;
}

static inline void places_hold(struct places *p, int32_t place)
{
	p->n_shared += ++p->ref[place] == 2;
}

/* Without freeing it. */
static inline void places_unref(struct places *p, int32_t place)
{
	p->n_shared -= --p->ref[place] == 1;
}

/* Frees a place that has no reference; nothing otherwise. */
static inline void places_give_back(struct places *p, int32_t place)
{
	if (p->ref[place] == 0) {
		p->ref[place] = -1;
		p->note[place] = 0;
		p->free[p->n_free++] = place;
	}
}

static inline void places_drop(struct places *p, int32_t place)
{
	places_unref(p, place);
	places_give_back(p, place);
}

/* ---- Sequences ---- */

void places_live_add(struct places *p, cohort_seq seq);
/* The sequence, whose references are dropped, is empty from now on. */
void places_empty(struct places *p, cohort_seq seq);
/* An empty one for ids that do not exist. */
const struct place_seq *places_look(const struct places *p, cohort_seq seq);
/* Refuses unknown sequences, and every change while a transaction is open. */
enum cohort_status places_known(const struct places *p, cohort_seq seq, struct cohort_err *err);
/* Cuts [p0, p1), p1 -1: to the end, to what the sequence has, released cells included. Nothing is left when
 * p0 >= p1. */
static inline void places_clip(const struct place_seq *s, cohort_pos *p0, cohort_pos *p1)
{
	if (*p1 == -1 || *p1 > s->max + 1)
		*p1 = s->max + 1;
	if (*p0 < s->min)
		*p0 = s->min;
}
/* Both: refuses what is no sequence or no range, and cuts it. */
enum cohort_status places_range(const struct places *p, cohort_seq seq, cohort_pos *p0, cohort_pos *p1,
		struct cohort_err *err);

struct kv_usage {
	size_t n_blocks, n_used, n_shared;
};
struct kv_usage places_usage(const struct places *p);

/* ---- The transaction ---- */

void places_begin(struct places *p);
/* E_BUG: no transaction is open. */
enum cohort_status places_reserve(struct places *p, struct cohort_err *err);
/* Room in the journal for n more changes and lengths. */
bool places_room(struct places *p, size_t n);
/* The entry, which named `old`, names `place`. A place that loses its last reference is freed at the commit. */
void places_set(struct places *p, int32_t *entry, int32_t old, int32_t place);
/* Notes the sequence as it is; once in a reservation. */
static inline void places_touch(struct places *p, cohort_seq seq)
{
	if (p->touched[seq] != p->epoch) {
		p->touched[seq] = p->epoch;
		p->lengths[p->n_lengths++] = (struct place_length){seq, p->seqs[seq]};
	}
}
/* Back to the last places_reserve, or to the beginning; once more is nothing. */
void places_undo(struct places *p, bool all);
void places_commit(struct places *p);

/* ---- For tests ---- */

/* n: [n] references that were found, which it changes. n_live: sequences that are not empty. */
bool places_consistent(const struct places *p, int32_t *n, size_t n_live);
void places_hash_add(uint64_t *h, uint64_t v);
uint64_t places_hash(const struct places *p);

#endif
