/* Builds a character map in SentencePiece's form, for tests: a double-array trie and the texts its leaves name. */
#ifndef TESTS_CHARSMAP_CASE_H
#define TESTS_CHARSMAP_CASE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define CHARSMAP_UNITS 4096
#define CHARSMAP_TEXTS 512

struct charsmap_pair {
	const char *from, *to; /* sorted by from, none twice */
};

struct charsmap_build {
	uint32_t units[CHARSMAP_UNITS];
	bool used[CHARSMAP_UNITS], is_base[CHARSMAP_UNITS];
	size_t n_units, n_texts;
	char texts[CHARSMAP_TEXTS];
	uint8_t bytes[4 + 4 * CHARSMAP_UNITS + CHARSMAP_TEXTS]; /* the result */
	size_t n_bytes;
};

/* The node at unit `at`, which all of pairs[0..n) reach with their first `depth` bytes, and all below it. */
static inline void charsmap_place(struct charsmap_build *b, const struct charsmap_pair *pairs, size_t n, size_t depth,
		size_t at, uint8_t label)
{
	bool ends = n && pairs[0].from[depth] == '\0', fits;
	size_t base = 0;

	do {
		base++;
		if (base + 256 >= CHARSMAP_UNITS)
			abort();
		fits = !b->is_base[base];
		for (size_t i = 0; i < n; i++)
			fits &= !b->used[base ^ (uint8_t)pairs[i].from[depth]];
	} while (!fits);
	b->is_base[base] = true;
	for (size_t i = 0; i < n; i++) {
		size_t child = base ^ (uint8_t)pairs[i].from[depth];
		b->used[child] = true;
		if (child >= b->n_units)
			b->n_units = child + 1;
	}
	b->units[at] = (uint32_t)(at ^ base) << 10 | (ends ? 0x100u : 0u) | label;
	if (ends) {
		size_t len = strlen(pairs[0].to) + 1;
		if (b->n_texts + len > CHARSMAP_TEXTS)
			abort();
		b->units[base] = 0x80000000u | (uint32_t)b->n_texts;
		memcpy(b->texts + b->n_texts, pairs[0].to, len);
		b->n_texts += len;
	}
	for (size_t i = ends, k; i < n; i = k) {
		for (k = i; k < n && pairs[k].from[depth] == pairs[i].from[depth];)
			k++;
		charsmap_place(b, pairs + i, k - i, depth + 1, base ^ (uint8_t)pairs[i].from[depth],
				(uint8_t)pairs[i].from[depth]);
	}
}

static inline void charsmap_build(struct charsmap_build *b, const struct charsmap_pair *pairs, size_t n)
{
	memset(b, 0, sizeof *b);
	b->used[0] = true;
	b->n_units = 1;
	charsmap_place(b, pairs, n, 0, 0, 0);
	for (size_t i = 0; i < 4 + 4 * b->n_units; i++) {
		uint32_t v = i < 4 ? (uint32_t)(4 * b->n_units) : b->units[(i - 4) / 4];
		b->bytes[i] = (uint8_t)(v >> 8 * (i % 4));
	}
	memcpy(b->bytes + 4 + 4 * b->n_units, b->texts, b->n_texts);
	b->n_bytes = 4 + 4 * b->n_units + b->n_texts;
}

#endif
