/* A sum of bytes that shows damage, and little-endian numbers. docs/state-format.md has the formula. */
#ifndef BASE_SUM_H
#define BASE_SUM_H

#include <stddef.h>
#include <stdint.h>

static inline uint32_t load_u32(const uint8_t *p)
{
	return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

static inline uint64_t load_u64(const uint8_t *p)
{
	return (uint64_t)load_u32(p) | (uint64_t)load_u32(p + 4) << 32;
}

/* One lane of 8 bytes more. */
uint64_t sum_lane(uint64_t h, uint64_t lane);
/* The sum of n bytes, going on from an earlier one (0: none). The same on every machine. */
uint64_t sum_bytes(uint64_t h, const void *bytes, size_t n);
/* XXH64 of n bytes: for gigabytes, at memory's speed. The same on every machine. */
uint64_t sum_large(uint64_t seed, const void *bytes, size_t n);

#endif
