/* Numbers of cohort_room_needed, for tests that count in blocks. */
#ifndef TESTS_ROOM_CASE_H
#define TESTS_ROOM_CASE_H

#include "cohort.h"

static inline struct cohort_room_info case_room(struct cohort_room_params p)
{
	struct cohort_room_info room = {0};

	p.struct_size = sizeof p;
	cohort_room_needed(&p, &room, NULL);
	return room;
}

/* Blocks of a pool for n_ctx tokens in n_seqs sequences. */
static inline int32_t pool_blocks(int32_t n_ctx, int32_t n_seqs)
{
	return case_room((struct cohort_room_params){.n_ctx = n_ctx, .n_seq_max = n_seqs}).n_blocks;
}

static inline int32_t pool_block_size(void)
{
	return case_room((struct cohort_room_params){.n_ctx = 1}).block_size;
}

#endif
