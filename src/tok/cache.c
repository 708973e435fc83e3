/* Words that were seen before in the same text: most words of a text are.
 *
 * Invariants
 *  1. A word is remembered by where it stands in the text and where its tokens are in the result (by their index).
 *     The caller's text stays until the call ends; words of another text are forgotten before that is written over.
 *  2. One place per hash, and the newer word stays: memory is bounded, and nothing is ever searched for.
 *  3. Whether a word is found changes no token, as equal words have equal tokens. Without memory for it there is no
 *     cache, and no error.
 *
 * Refuses to know how a word becomes tokens. */
#include "tok/tok_impl.h"

#include <string.h>

#define CACHE_WORDS 16384u /* a power of two; 512 KiB, which is what a second-level cache holds */
#define CACHE_TEXT 4096 /* bytes of text below which it does not pay to clear it */
#define CACHE_LENGTH 64 /* bytes of the longest word that is kept; longer ones hardly come twice */

void cache_init(struct cache *c, size_t n_bytes)
{
	c->borrowed = false;
	c->words = n_bytes < CACHE_TEXT ? NULL : mem_zalloc(CACHE_WORDS, sizeof *c->words);
}

void cache_release(struct cache *c)
{
	mem_free(c->words);
	c->words = NULL;
}

bool cache_borrow(struct cache *c, size_t n_bytes)
{
	if (c->borrowed && c->words)
		memset(c->words, 0, CACHE_WORDS * sizeof *c->words);
	c->borrowed = c->words && n_bytes >= CACHE_TEXT;
	return c->borrowed;
}

static uint32_t hash_of(const char *s, size_t n)
{
	uint64_t h = 0x9e3779b97f4a7c15u ^ n, w;

	for (; n >= 8; s += 8, n -= 8) {
		memcpy(&w, s, 8);
		h = (h ^ w) * 0xd1342543de82ef95u;
		h ^= h >> 29;
	}
	w = 0;
	memcpy(&w, s, n);
	h = (h ^ w) * 0xd1342543de82ef95u;
	return (uint32_t)(h >> 32);
}

struct cache_word *cache_find(struct cache *c, const char *s, size_t n, bool *found)
{
	*found = false;
	if (!c->words || n > CACHE_LENGTH)
		return NULL;
	uint32_t h = hash_of(s, n);
	struct cache_word *w = &c->words[h & (CACHE_WORDS - 1)];
	*found = w->s && w->hash == h && w->n == n && memcmp(w->s, s, n) == 0;
	if (!*found)
		*w = (struct cache_word){.n = (uint32_t)n, .hash = h};
	return w;
}
