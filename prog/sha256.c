/* SHA-256, of bytes that are there as a whole. Its constants are computed, not listed: the fractions of the square and
 * cube roots of the first primes, in whole numbers, so that no rounding of a library comes in. */
#include "sha256.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

__extension__ typedef unsigned __int128 wide; /* of no standard, but of all our compilers */

/* The largest x with x^k <= p * 2^(32 k): the root's whole part and 32 bits of its fraction. */
static uint32_t root_fraction(unsigned p, unsigned k)
{
	uint64_t x = 0;

	for (uint64_t bit = (uint64_t)1 << 36; bit; bit >>= 1) {
		const uint64_t y = x | bit;
		/* y < 2^37, so that its cube has less than 112 bits; p * 2^96 has less than 106. */
		const wide power = k == 2 ? (wide)y * y : (wide)y * y * y;
		if (power <= (wide)p << 32 * k)
			x = y;
	}
	return (uint32_t)x;
}

static uint32_t turn(uint32_t x, unsigned n)
{
	return x >> n | x << (32 - n);
}

static void block(uint32_t h[8], const uint32_t k[64], const unsigned char *p)
{
	uint32_t w[64], s[8];

	for (size_t i = 0; i < 16; i++)
		w[i] = (uint32_t)p[4 * i] << 24 | (uint32_t)p[4 * i + 1] << 16 | (uint32_t)p[4 * i + 2] << 8 |
				p[4 * i + 3];
	for (size_t i = 16; i < 64; i++) {
		const uint32_t a = w[i - 15], b = w[i - 2];
		w[i] = w[i - 16] + w[i - 7] + (turn(a, 7) ^ turn(a, 18) ^ a >> 3) +
				(turn(b, 17) ^ turn(b, 19) ^ b >> 10);
	}
	memcpy(s, h, sizeof s);
	for (size_t i = 0; i < 64; i++) {
		const uint32_t a = s[0], e = s[4];
		const uint32_t t1 = s[7] + (turn(e, 6) ^ turn(e, 11) ^ turn(e, 25)) + ((e & s[5]) ^ (~e & s[6])) +
				k[i] + w[i];
		const uint32_t t2 =
				(turn(a, 2) ^ turn(a, 13) ^ turn(a, 22)) + ((a & s[1]) ^ (a & s[2]) ^ (s[1] & s[2]));
		memmove(s + 1, s, 7 * sizeof *s);
		s[4] += t1;
		s[0] = t1 + t2;
	}
	for (size_t i = 0; i < 8; i++)
		h[i] += s[i];
}

void sha256_hex(const void *bytes, size_t n, char out[SHA256_HEX])
{
	const unsigned char *p = bytes;
	unsigned char last[128] = {0};
	uint32_t k[64], h[8];
	size_t n_primes = 0, left = n;

	for (unsigned i = 2; n_primes < 64; i++) {
		bool prime = true;
		for (unsigned d = 2; d * d <= i; d++)
			prime = prime && i % d != 0;
		if (!prime)
			continue;
		if (n_primes < 8)
			h[n_primes] = root_fraction(i, 2);
		k[n_primes++] = root_fraction(i, 3);
	}
	for (; left >= 64; left -= 64, p += 64)
		block(h, k, p);
	/* A bit that is set, zeros, and the length in bits. */
	if (left > 0)
		memcpy(last, p, left);
	last[left] = 0x80;
	const size_t n_last = left < 56 ? 64 : 128;
	for (size_t i = 0; i < 8; i++)
		last[n_last - 1 - i] = (unsigned char)((uint64_t)n * 8 >> 8 * i);
	for (size_t i = 0; i < n_last; i += 64)
		block(h, k, last + i);
	for (size_t i = 0; i < 64; i++)
		out[i] = "0123456789abcdef"[h[i / 8] >> (28 - 4 * (i % 8)) & 15];
	out[64] = 0;
}
