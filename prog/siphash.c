/* SipHash-2-4, and random bytes. */
#include "siphash.h"

#include <errno.h>
#include <sys/random.h>
#include <sys/types.h>

static uint64_t rotate(uint64_t x, unsigned by)
{
	return x << by | x >> (64 - by);
}

static void rounds(uint64_t v[4], int n)
{
	while (n-- > 0) {
		v[0] += v[1];
		v[2] += v[3];
		v[1] = rotate(v[1], 13) ^ v[0];
		v[3] = rotate(v[3], 16) ^ v[2];
		v[0] = rotate(v[0], 32) + v[3];
		v[2] += v[1];
		v[3] = rotate(v[3], 21) ^ v[0];
		v[1] = rotate(v[1], 17) ^ v[2];
		v[2] = rotate(v[2], 32);
	}
}

uint64_t siphash(const uint64_t key[2], const void *bytes, size_t n)
{
	const unsigned char *p = bytes;
	uint64_t v[4] = {key[0] ^ 0x736f6d6570736575u, key[1] ^ 0x646f72616e646f6du, key[0] ^ 0x6c7967656e657261u,
			key[1] ^ 0x7465646279746573u};

	/* Words of eight bytes, the last one filled up by the length. */
	for (size_t at = 0; at <= n; at += 8) {
		uint64_t word = 0;
		for (size_t i = 0; i < 8 && at + i < n; i++)
			word |= (uint64_t)p[at + i] << 8 * i;
		if (n - at < 8)
			word |= (uint64_t)n << 56;
		v[3] ^= word;
		rounds(v, 2);
		v[0] ^= word;
	}
	v[2] ^= 0xff;
	rounds(v, 4);
	return v[0] ^ v[1] ^ v[2] ^ v[3];
}

bool random_draw(void *bytes, size_t n)
{
	unsigned char *p = bytes;

	while (n > 0) {
		const ssize_t got = getrandom(p, n, 0);
		if (got < 0 && errno != EINTR)
			return false;
		p += got > 0 ? got : 0;
		n -= got > 0 ? (size_t)got : 0;
	}
	return true;
}
