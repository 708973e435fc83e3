/* How many sequences a KV pool has room for, and which -ctx they need. Counts of blocks, as cohort_kv_block_count. */
#ifndef PROG_POOL_SIZE_H
#define PROG_POOL_SIZE_H

#include <stdint.h>

/* What n sequences take that begin with the same prompt: n_shared + n * n_own blocks. */
struct pool_need {
	int64_t n_shared; /* blocks that the prompt fills: they exist once */
	int64_t n_own; /* blocks of each sequence: from the prompt's last, partly filled block on */
};
struct pool_need pool_need(int64_t n_prompt, int64_t n_tokens); /* n_tokens: with the prompt */

/* Most sequences that fit into a pool for n_ctx tokens; INT32_MAX if they take no blocks of their own. */
int64_t pool_fits(int64_t n_ctx, const struct pool_need *need);
/* Smallest n_ctx, in whole blocks, whose pool for n_seqs sequences has n_blocks. */
int64_t pool_ctx(int64_t n_blocks, int64_t n_seqs);

#endif
