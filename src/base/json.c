/* JSON texts.
 *
 * jansson blames the text when memory runs out while it reads: it calls a token invalid, or says nothing at all.
 *
 * Invariants
 *  1. What is malformed is so every time: a text is refused only when it was twice.
 *  2. It is refused as malformed only when there is memory of the order that reading takes. */
#include "base/json.h"

#include "base/mem.h"

enum { BYTES_PER_BYTE = 16 }; /* of memory for one of text, at most times */

json_t *json_parse(const char *bytes, size_t n, size_t flags, json_error_t *why, bool *no_memory)
{
	json_t *v = json_loadb(bytes, n, flags, why);

	*no_memory = false;
	if (!v)
		v = json_loadb(bytes, n, flags, why);
	if (!v) {
		void *room = mem_alloc(n, BYTES_PER_BYTE);
		*no_memory = !room;
		mem_free(room);
	}
	return v;
}
