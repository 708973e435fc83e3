/* Blocks whose surroundings are looked after: see guard.c. The functions of the C library whose names these have. */
#ifndef TESTS_GUARD_H
#define TESTS_GUARD_H

#include <stddef.h>

extern int guard_left; /* blocks that a test program may leave */

void *guard_malloc(size_t n);
void *guard_calloc(size_t n, size_t size);
void *guard_realloc(void *p, size_t n); /* of a block, and a size above 0 */
void *guard_memalign(size_t align, size_t n);
void guard_free(void *p);

#endif
