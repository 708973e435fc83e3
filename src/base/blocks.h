/* Tokens in blocks of `size` positions, as a KV cache holds them: the one place that counts. */
#ifndef BASE_BLOCKS_H
#define BASE_BLOCKS_H

#include "cohort.h"

/* Blocks of n_seqs sequences of n_tokens each that begin with the same n_prompt: the whole blocks of these exist once,
 * the rest for each. n_prompt <= n_tokens. */
int64_t blocks_needed(int64_t size, int64_t n_prompt, int64_t n_tokens, int64_t n_seqs);
/* cohort_room_needed of a model whose sequences have blocks and that has no limit of its own; numbers are in range. */
struct cohort_room_info blocks_room(int32_t size, const struct cohort_room_params *p);

#endif
