/* SHA-256 (FIPS 180-4), for what must not be read back from its hash. */
#ifndef PROG_SHA256_H
#define PROG_SHA256_H

#include <stddef.h>

enum { SHA256_HEX = 65 };
/* The hash of the bytes as 64 hexadecimal digits and a NUL. */
void sha256_hex(const void *bytes, size_t n, char out[SHA256_HEX]);

#endif
