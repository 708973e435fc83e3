/* Saved prompts as docs/state-format.md has them, written down a second time. */
#ifndef TESTS_CACHE_CASE_H
#define TESTS_CACHE_CASE_H

#include "state_case.h"

#include <string.h>

enum cache_at {
	CACHE_AT_VERSION = 8,
	CACHE_AT_TOKENS = 12,
	CACHE_AT_SIZE = 16,
	CACHE_AT_STATE_SUM = 24,
	CACHE_HEAD = 32,
	CACHE_SUM = 8
};

/* Bytes in front of the state. */
static inline size_t cache_front(uint32_t n_tokens)
{
	return CACHE_HEAD + 4 * (size_t)n_tokens + CACHE_SUM;
}

/* Makes the sum of changed tokens right again. */
static inline void cache_seal(uint8_t *p)
{
	const size_t n = cache_front((uint32_t)state_get(p + CACHE_AT_TOKENS, 4)) - CACHE_SUM;
	state_put(p + n, CACHE_SUM, state_checksum(p, n));
}

/* Writes all but the tokens around a state that lies behind the front; n is the size of all. */
static inline void cache_wrap(uint8_t *p, size_t n, uint32_t n_tokens)
{
	memcpy(p, "COHCACHE", CACHE_AT_VERSION);
	state_put(p + CACHE_AT_VERSION, 4, 1);
	state_put(p + CACHE_AT_TOKENS, 4, n_tokens);
	state_put(p + CACHE_AT_SIZE, 8, n);
	memcpy(p + CACHE_AT_STATE_SUM, p + n - STATE_SUM, STATE_SUM);
	cache_seal(p);
}

#endif
