/* Where tests of random cases take their numbers from: a generator, or the bytes of a fuzz target's input, so that
 * both walk through the same cases. Bytes that are used up are zeros. */
#ifndef TESTS_DICE_H
#define TESTS_DICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/rng.h"

struct dice {
	struct rng rng;
	const uint8_t *bytes; /* [n]; NULL: the generator */
	size_t n, at;
};

static inline void dice_init(struct dice *d, uint64_t seed, uint64_t stream)
{
	*d = (struct dice){.bytes = NULL};
	rng_init(&d->rng, seed, stream);
}

static inline void dice_bytes(struct dice *d, const uint8_t *bytes, size_t n)
{
	*d = (struct dice){.bytes = bytes, .n = n};
}

/* Whether there are no more bytes; a generator never ends. */
static inline bool dice_over(const struct dice *d)
{
	return d->bytes && d->at == d->n;
}

static inline uint32_t dice_u32(struct dice *d, size_t n_bytes)
{
	uint32_t v = 0;

	if (!d->bytes)
		return rng_u32(&d->rng);
	for (size_t i = 0; i < n_bytes && d->at < d->n; i++)
		v |= (uint32_t)d->bytes[d->at++] << 8 * i;
	return v;
}

/* A number below n. Of the input it takes as many bytes as n needs. */
static inline uint32_t below(struct dice *d, size_t n)
{
	return dice_u32(d, n <= 1 << 8 ? 1 : n <= 1 << 16 ? 2 : 4) % (uint32_t)n;
}

/* True in one of n cases, and never when the bytes are used up. */
static inline bool seldom(struct dice *d, size_t n)
{
	return below(d, n) == n - 1;
}

#endif
