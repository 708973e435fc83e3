/* A sum of bytes, 64 bits, in lanes of 8.
 *
 * Invariants
 *  1. Every step is one to one in the sum as well as in the lane, so that no change within one lane goes unseen.
 *  2. Lanes are little-endian, whatever the machine is.
 * It guards against damage, not against malice. */
#include "base/sum.h"

static uint64_t rotl(uint64_t x, int n)
{
	return x << n | x >> (64 - n);
}

static inline uint64_t lane_added(uint64_t h, uint64_t lane)
{
	h ^= rotl(lane * 0x9e3779b185ebca87u, 31) * 0xc2b2ae3d27d4eb4fu;
	return rotl(h, 27) * 0x9e3779b185ebca87u + 0x85ebca77c2b2ae63u;
}

uint64_t sum_lane(uint64_t h, uint64_t lane)
{
	return lane_added(h, lane);
}

uint64_t sum_bytes(uint64_t h, const void *bytes, size_t n)
{
	const uint8_t *p = bytes;
	uint64_t last = 0;
	size_t i = 0;

	h = lane_added(h, n);
	for (; n - i >= 8; i += 8)
		h = lane_added(h, load_u64(p + i));
	for (size_t k = i; k < n; k++)
		last |= (uint64_t)p[k] << 8 * (k - i);
	if (i < n)
		h = lane_added(h, last);
	h = (h ^ h >> 33) * 0xc2b2ae3d27d4eb4fu;
	h = (h ^ h >> 29) * 0x165667b19e3779f9u;
	return h ^ h >> 32;
}
