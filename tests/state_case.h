/* Saved states as docs/state-format.md has them, written down a second time: what the library writes is compared with
 * the page, not with itself. */
#ifndef TESTS_STATE_CASE_H
#define TESTS_STATE_CASE_H

#include <stddef.h>
#include <stdint.h>

enum state_at {
	STATE_AT_VERSION = 8,
	STATE_AT_FLAGS = 12,
	STATE_AT_SIZE = 16,
	STATE_AT_MODEL = 24,
	STATE_AT_TYPE = 32,
	STATE_AT_BLOCK = 36,
	STATE_AT_N_GROUPS = 40,
	STATE_AT_N_SEQS = 44,
	STATE_AT_GROUPS = 48,
	STATE_GROUP = 16,
	STATE_SEQ = 8,        /* id, max */
	STATE_SEQ_GROUP = 12, /* min, first, gone, for each group */
	STATE_SUM = 8
};

static inline uint64_t state_get(const uint8_t *p, size_t n)
{
	uint64_t v = 0;
	for (size_t i = n; i-- > 0;)
		v = v << 8 | p[i];
	return v;
}

static inline void state_put(uint8_t *p, size_t n, uint64_t v)
{
	for (size_t i = 0; i < n; i++, v >>= 8)
		p[i] = (uint8_t)v;
}

static inline uint64_t state_lane(uint64_t h, uint64_t x)
{
	x *= 0x9e3779b185ebca87u;
	x = (x << 31 | x >> 33) * 0xc2b2ae3d27d4eb4fu;
	h ^= x;
	return (h << 27 | h >> 37) * 0x9e3779b185ebca87u + 0x85ebca77c2b2ae63u;
}

static inline uint64_t state_checksum(const uint8_t *p, size_t n)
{
	uint64_t h = state_lane(0, n);
	for (size_t i = 0; i < n; i += 8)
		h = state_lane(h, state_get(p + i, n - i < 8 ? n - i : 8));
	h = (h ^ h >> 33) * 0xc2b2ae3d27d4eb4fu;
	h = (h ^ h >> 29) * 0x165667b19e3779f9u;
	return h ^ h >> 32;
}

/* Makes the checksum of changed bytes right again. */
static inline void state_seal(uint8_t *p, size_t n)
{
	if (n >= STATE_SUM)
		state_put(p + n - STATE_SUM, STATE_SUM, state_checksum(p, n - STATE_SUM));
}

#endif
