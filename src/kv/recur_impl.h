/* What the files of this room, and its tests, know of recurrent memory beyond recur.h. */
#ifndef KV_RECUR_IMPL_H
#define KV_RECUR_IMPL_H

#include "kv/recur.h"

struct recur {
	struct places p; /* states; a state's note: the size of the set that writes it */
	size_t n_checks_max;
	int32_t *states; /* [n_seq_max]; -1: empty */
	struct recur_check *checks; /* [n_seq_max, n_checks_max], the oldest first */
	struct recur_step *steps;
	size_t steps_max;
};

/* Undoes the last reservation, as if it had failed; once more is nothing. */
void recur_unreserve(struct recur *r);

#endif
