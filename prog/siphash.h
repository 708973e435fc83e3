/* A keyed hash, and where its key comes from: numbers that only who has the key can tell from random ones. */
#ifndef PROG_SIPHASH_H
#define PROG_SIPHASH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* SipHash-2-4 (J.-P. Aumasson, D. J. Bernstein, 2012). The key's 16 bytes are its words' in little-endian order. */
uint64_t siphash(const uint64_t key[2], const void *bytes, size_t n);
/* Random bytes of the system's. False: it gives none; errno says why. */
bool random_draw(void *bytes, size_t n);

#endif
