/* A pool for n_ctx tokens in n sequences has ceil(n_ctx / size) + min(n, floor(n_ctx / size)) blocks. */
#include "base/blocks.h"

static int64_t smaller(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

static int64_t ceil_blocks(int64_t size, int64_t n_tokens)
{
	return (n_tokens + size - 1) / size;
}

static int64_t pool_blocks(int64_t size, const struct cohort_room_params *p, int64_t n_seqs)
{
	return p->n_blocks ? p->n_blocks : ceil_blocks(size, p->n_ctx) + smaller(n_seqs, p->n_ctx / size);
}

int64_t blocks_needed(int64_t size, int64_t n_prompt, int64_t n_tokens, int64_t n_seqs)
{
	const int64_t n_once = n_prompt / size;
	return n_once + n_seqs * (ceil_blocks(size, n_tokens) - n_once);
}

/* Most sequences that fit beside n_once blocks with n_own each. */
static int64_t most_fit(int64_t size, const struct cohort_room_params *p, int64_t n_once, int64_t n_own)
{
	const int64_t whole = p->n_ctx / size, n_ids = p->n_seq_max ? p->n_seq_max : INT32_MAX;
	const int64_t n_left = pool_blocks(size, p, smaller(n_ids, whole)) - n_once;

	if (n_left < 0 || n_own == 0)
		return n_left < 0 ? 0 : n_ids;
	if (p->n_blocks || p->n_seq_max || n_left / n_own >= whole)
		return smaller(n_left / n_own, n_ids);
	/* Fewer than `whole`: each brings one block into a pool that is made for them. */
	return n_left > whole ? (n_left - whole) / (n_own - 1) : 0;
}

struct cohort_room_info blocks_room(int32_t size, const struct cohort_room_params *p)
{
	const int64_t n_seqs = p->n_seq_max ? p->n_seq_max : p->n_seqs;
	/* A fork begins anywhere in a block, of which it has a copy then. */
	const int64_t n_fork = p->n_fork ? ceil_blocks(size, p->n_fork + size - 1) : 0;
	const int64_t n_more = ceil_blocks(size, p->n_more), n_shared = p->n_prompt / size;
	const int64_t n_each = ceil_blocks(size, p->n_tokens), n_own = n_each - n_shared + n_fork;
	const int64_t n_needed = n_shared + p->n_seqs * n_own + n_more;
	const int64_t n_blocks = pool_blocks(size, p, n_seqs);
	/* Of n_ctx, less those that come with the sequences: one each, and half of all at most. */
	const int64_t n_least = n_needed - smaller(n_seqs, n_needed / 2);

	return (struct cohort_room_info){.block_size = size, .n_blocks = (int32_t)n_blocks, .n_needed = n_needed,
			.n_shared = n_shared, .n_free = n_blocks - n_needed,
			.n_fit = (int32_t)most_fit(size, p, n_shared + n_more, n_own),
			.n_pos_max = (int32_t)(smaller(ceil_blocks(size, p->n_ctx), n_blocks) * size),
			.n_ctx_needed = (n_least > n_each ? n_least : n_each) * size};
}
