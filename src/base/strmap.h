/* Map from byte strings to int32. Keys are borrowed: they must outlive the map. */
#ifndef BASE_STRMAP_H
#define BASE_STRMAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct strmap_slot {
	const char *key; /* NULL: empty */
	uint32_t n;
	uint32_t hash;
	int32_t value;
};

struct strmap {
	struct strmap_slot *slots;
	size_t n_slots; /* a power of two, or 0 */
	size_t n_used;
	uint64_t seed;  /* differs between runs, so that no file can be made to collide */
};

/* Room for n_keys without growing. False when out of memory. */
bool strmap_init(struct strmap *m, size_t n_keys);
void strmap_release(struct strmap *m);
/* Value of a key, or fallback. Keys above 4 GiB are never found. */
int32_t strmap_find(const struct strmap *m, const char *key, size_t n, int32_t fallback);
/* Adds a key; *was_there tells that it existed (and was left alone). False when out of memory or the key is too long.
 */
bool strmap_add(struct strmap *m, const char *key, size_t n, int32_t value, bool *was_there);

#endif
