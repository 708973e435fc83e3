/* Bytes that grow: once it has failed, a buffer stays as it is. */
#include "base/bytes.h"

#include "base/mem.h"

#include <string.h>

bool bytes_room(struct bytes *b, size_t n)
{
	size_t want;

	b->failed = b->failed || !size_add(b->n, n, &want) || !mem_grow((void **)&b->p, &b->n_max, want, 1);
	return !b->failed;
}

bool bytes_add(struct bytes *b, const void *p, size_t n)
{
	if (!bytes_room(b, n))
		return false;
	if (n)
		memcpy(b->p + b->n, p, n);
	b->n += n;
	return true;
}

void bytes_release(struct bytes *b)
{
	mem_free(b->p);
	*b = (struct bytes){0};
}
