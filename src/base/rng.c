/* PCG32. Both seed and stream go through a 64-bit finaliser first, so that neighbouring seeds and indexes, which are
 * what people use, start far apart. */
#include "base/rng.h"

static uint64_t scramble(uint64_t x)
{
	x += 0x9e3779b97f4a7c15u;
	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
	x = (x ^ x >> 27) * 0x94d049bb133111ebu;
	return x ^ x >> 31;
}

void rng_init(struct rng *r, uint64_t seed, uint64_t stream)
{
	r->state = 0;
	r->inc = scramble(stream) << 1 | 1;
	rng_u32(r);
	r->state += scramble(seed ^ scramble(stream + 1));
	rng_u32(r);
}

uint32_t rng_u32(struct rng *r)
{
	uint64_t old = r->state;
	r->state = old * 6364136223846793005u + r->inc;
	uint32_t x = (uint32_t)((old >> 18 ^ old) >> 27);
	uint32_t rot = (uint32_t)(old >> 59);
	return x >> rot | x << (-rot & 31);
}

double rng_f64(struct rng *r)
{
	uint64_t hi = rng_u32(r) >> 5, lo = rng_u32(r) >> 6;
	return (double)(hi << 26 | lo) * 0x1p-53;
}
