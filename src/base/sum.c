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

/* ---- XXH64, after its public specification: four lanes side by side, so that multiplications overlap ---- */

#define P1 0x9e3779b185ebca87u
#define P2 0xc2b2ae3d27d4eb4fu
#define P3 0x165667b19e3779f9u
#define P4 0x85ebca77c2b2ae63u
#define P5 0x27d4eb2f165667c5u

static inline uint64_t round64(uint64_t acc, uint64_t lane)
{
	return rotl(acc + lane * P2, 31) * P1;
}

/* What is left behind the last 32 bytes, and the final mix. */
static uint64_t finish64(uint64_t h, const uint8_t *p, size_t n)
{
	for (; n >= 8; p += 8, n -= 8)
		h = rotl(h ^ round64(0, load_u64(p)), 27) * P1 + P4;
	if (n >= 4) {
		h = rotl(h ^ load_u32(p) * P1, 23) * P2 + P3;
		p += 4;
		n -= 4;
	}
	for (; n; p++, n--)
		h = rotl(h ^ *p * P5, 11) * P1;
	h = (h ^ h >> 33) * P2;
	h = (h ^ h >> 29) * P3;
	return h ^ h >> 32;
}

uint64_t sum_large(uint64_t seed, const void *bytes, size_t n)
{
	const uint8_t *p = bytes, *const end = p + n;
	uint64_t h = seed + P5;

	if (n >= 32) {
		uint64_t v[4] = {seed + P1 + P2, seed + P2, seed, seed - P1};
		for (; end - p >= 32; p += 32)
			for (int i = 0; i < 4; i++)
				v[i] = round64(v[i], load_u64(p + 8 * i));
		h = rotl(v[0], 1) + rotl(v[1], 7) + rotl(v[2], 12) + rotl(v[3], 18);
		for (int i = 0; i < 4; i++)
			h = (h ^ round64(0, v[i])) * P1 + P4;
	}
	return finish64(h + n, p, (size_t)(end - p));
}
