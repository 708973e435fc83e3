/* What the files of this room, and its tests, know of recurrent memory beyond recur.h. */
#ifndef KV_RECUR_IMPL_H
#define KV_RECUR_IMPL_H

#include "kv/recur.h"

struct recur_seq {
	cohort_pos min, max; /* -1: empty */
	int32_t state;       /* -1: none */
	int32_t live;        /* place in the live list */
	size_t n_checks;
};

struct recur_length {
	cohort_seq seq;
	struct recur_seq old;
};

struct recur {
	size_t n_states, n_seq_max, n_checks_max, n_pos_max;
	struct recur_seq *seqs;     /* [n_seq_max] */
	struct recur_check *checks; /* [n_seq_max, n_checks_max], the oldest first */
	cohort_seq *live;           /* [n_seq_max], n_live of them */
	size_t n_live;
	int32_t *ref;               /* [n_states] */
	int32_t *writers;           /* [n_states] */
	int32_t *free;              /* [n_states]: a stack */
	size_t n_free, n_shared;

	bool open;
	struct recur_length *lengths;
	size_t n_lengths, lengths_max;
	int32_t *taken;             /* [n_states]: by the transaction, in order */
	size_t n_taken;
	size_t mark_lengths, mark_taken; /* at the beginning of the last reservation */
	struct recur_step *steps;
	size_t steps_max;
	uint64_t *touched;          /* [n_seq_max]: the reservation that last saved the sequence */
	uint64_t epoch;
};

/* Undoes the last reservation, as if it had failed; once more is nothing. */
void recur_unreserve(struct recur *r);
/* Sequences that have a state, in no particular order. */
size_t recur_live(const struct recur *r, const cohort_seq **seqs);

#endif
