/* PCG32 (XSH-RR 64/32, M. O'Neill 2014): 64 bits of state, 2^63 streams, the same on every machine. */
#ifndef BASE_RNG_H
#define BASE_RNG_H

#include <stdint.h>

struct rng {
	uint64_t state, inc;
};

/* Different (seed, stream) pairs give unrelated sequences. */
void rng_init(struct rng *r, uint64_t seed, uint64_t stream);
uint32_t rng_u32(struct rng *r);
/* Uniform in [0, 1), 53 bits from two draws. */
double rng_f64(struct rng *r);

#endif
