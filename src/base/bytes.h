/* Bytes that grow. */
#ifndef BASE_BYTES_H
#define BASE_BYTES_H

#include <stdbool.h>
#include <stddef.h>

struct bytes {
	char *p; /* [n_max]; NULL while there are none */
	size_t n, n_max;
	bool failed; /* something had no room; what is added after it is dropped */
};

/* Room for n more. False when memory is out, now or before. */
bool bytes_room(struct bytes *b, size_t n);
/* The same, and puts them there. */
bool bytes_add(struct bytes *b, const void *p, size_t n);
/* Frees them, and is empty. */
void bytes_release(struct bytes *b);

#endif
