/* What the tests of the batch room share: a memory to check against, and rows in one line. */
#ifndef BATCH_CASE_H
#define BATCH_CASE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "batch/work.h"

enum { N_SEQ = 8 };

/* Where each sequence ends, and which hold the same cells. */
struct memory {
	cohort_pos last[N_SEQ];
	int history[N_SEQ];
	int n_asked[N_SEQ];
};

static inline cohort_pos memory_pos_max(void *user, cohort_seq seq)
{
	struct memory *m = user;
	assert_true(seq >= 0 && seq < N_SEQ); /* never asked for an unchecked id */
	m->n_asked[seq]++;
	return m->last[seq];
}

static inline bool memory_same(void *user, cohort_seq a, cohort_seq b)
{
	const struct memory *m = user;
	return m->history[a] == m->history[b] && m->last[a] == m->last[b];
}

#define IDS(...) (cohort_seq[]){__VA_ARGS__}, (int32_t)(sizeof(cohort_seq[]){__VA_ARGS__} / sizeof(cohort_seq))

static inline struct cohort_batch new_batch(int32_t n_max, int32_t n_seq_row_max)
{
	struct cohort_batch b;

	assert_int_equal(cohort_batch_init(&b, n_max, 0, n_seq_row_max, NULL), COHORT_OK);
	return b;
}

static inline void add_ids(
		struct cohort_batch *b, cohort_token token, cohort_pos pos, const cohort_seq *seqs, int32_t n_seqs)
{
	assert_int_equal(cohort_batch_add(b, token, pos, seqs, n_seqs, false, NULL), COHORT_OK);
}

static inline void add(struct cohort_batch *b, cohort_token token, cohort_pos pos, cohort_seq seq)
{
	add_ids(b, token, pos, &seq, 1);
}

#endif
