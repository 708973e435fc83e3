/* JSON texts.
 *
 * When memory runs out while it reads, jansson calls a token invalid, says nothing at all, or, where only the room for
 * a token's text cannot grow, goes on without some of its characters: without a closing quote past the end of that
 * room, if there is memory again by then.
 *
 * Invariants
 *  1. With jansson's memory taken over, a value is given out only if no allocation failed on the way to it, and behind
 *     one that failed there is none until the text is left.
 *  2. Without, what is malformed is so every time: a text is refused only when it was twice, and as malformed only when
 *     there is memory of the order that reading takes. */
#include "base/json.h"

#include "base/mem.h"

enum { BYTES_PER_BYTE = 16 }; /* of memory for one of text, at most times */

static _Thread_local bool reading, failed;

static void *allocate(size_t n)
{
	void *p = reading && failed ? NULL : mem_alloc(n, 1);

	failed = failed || !p;
	return p;
}

void json_take_over(void)
{
	json_set_alloc_funcs(allocate, mem_free);
}

/* Whether there is none left of what reading n bytes may take. */
static bool is_short(size_t n)
{
	void *room = mem_alloc(n, BYTES_PER_BYTE);

	mem_free(room);
	return !room;
}

json_t *json_parse(const char *bytes, size_t n, size_t flags, json_error_t *why, bool *no_memory)
{
	failed = false;
	reading = true;
	json_t *v = json_loadb(bytes, n, flags, why);

	if (!v && !failed)
		v = json_loadb(bytes, n, flags, why);
	reading = false;
	*no_memory = failed || (!v && is_short(n));
	if (*no_memory) {
		json_decref(v);
		return NULL;
	}
	return v;
}

json_t *json_clone(const json_t *value)
{
	json_t *v = json_copy((json_t *)value);

	if (v && (json_object_size(v) != json_object_size(value) || json_array_size(v) != json_array_size(value))) {
		json_decref(v);
		return NULL;
	}
	return v;
}
