/* A pool for n_ctx tokens has W = n_ctx / block size blocks, and min(n, W) more for n sequences. */
#include "pool_size.h"

#include "cohort.h"

struct pool_need pool_need(int64_t n_prompt, int64_t n_tokens)
{
	const int64_t block = cohort_kv_block_size(), n_shared = n_prompt / block;
	return (struct pool_need){n_shared, (n_tokens + block - 1) / block - n_shared};
}

int64_t pool_fits(int64_t n_ctx, const struct pool_need *need)
{
	const int64_t whole = n_ctx / cohort_kv_block_size(), base = cohort_kv_block_count((int32_t)n_ctx, 0);

	if (need->n_own <= 0)
		return INT32_MAX;
	/* Up to `whole` sequences each brings a block with it; beyond that the pool has the same size for all. */
	const int64_t many = (base + whole - need->n_shared) / need->n_own;
	if (many >= whole)
		return many;
	return base < need->n_shared || need->n_own == 1 ? 0 : (base - need->n_shared) / (need->n_own - 1);
}

int64_t pool_ctx(int64_t n_blocks, int64_t n_seqs)
{
	const int64_t half = (n_blocks + 1) / 2, whole = half <= n_seqs ? half : n_blocks - n_seqs;
	return (whole > 1 ? whole : 1) * cohort_kv_block_size();
}
