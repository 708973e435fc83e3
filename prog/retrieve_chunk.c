/* Texts cut into chunks of a number of tokens.
 *
 * What holds:
 *  1. A chunk is a range of the text's bytes whose tokens, counted as the model will see them, are no more than asked
 *     for. It begins and ends with a word, at the end of a line where there is one in its last quarter.
 *  2. Every byte that is no white space is in a chunk; white space around chunks is left out.
 *  3. A chunk begins behind the beginning, and ends behind the end, of the one before: it goes on, whatever the
 * overlap.
 *
 * Counting tokens takes tokenising; the longest range that fits is found by halving. */
#include "retrieve.h"

#include "common.h"

#include "base/mem.h"
#include "base/utf8.h"

#include <string.h>

/* Longer runs without white space are taken apart, so that a word always fits. */
enum { WORD_MAX = 24, PIECE_MAX = 16 };

static bool is_space(char c)
{
	return c == ' ' || (c >= '\t' && c <= '\r');
}

struct words {
	size_t *ends; /* ends[0] is the begin of the text; word i is [ends[i], ends[i + 1]), white space behind included
		       */
	size_t n, n_max;
};

static bool add_end(struct words *w, size_t at)
{
	if (!mem_grow((void **)&w->ends, &w->n_max, w->n + 2, sizeof *w->ends))
		return false;
	w->ends[++w->n] = at;
	return true;
}

static bool split_words(struct words *w, const char *text, size_t from, size_t to)
{
	w->n = 0;
	if (!mem_grow((void **)&w->ends, &w->n_max, 1, sizeof *w->ends))
		return false;
	w->ends[0] = from;
	for (size_t i = from; i < to;) {
		size_t end = i;
		while (end < to && !is_space(text[end]))
			end++;
		if (end - i > WORD_MAX)
			for (size_t at = i, len; at < end; at += len) {
				uint32_t cp;
				len = utf8_decode(text + at, end - at, &cp);
				len = len ? len : 1;
				if (at + len - i > PIECE_MAX) {
					if (!add_end(w, at))
						return false;
					i = at;
				}
			}
		while (end < to && is_space(text[end]))
			end++;
		if (!add_end(w, end))
			return false;
		i = end;
	}
	return true;
}

static size_t count(const struct chunking *c, const char *text, size_t from, size_t to, unsigned flags)
{
	size_t n = 0;

	while (to > from && is_space(text[to - 1]))
		to--;
	cohort_tokenize(c->m, text + from, to - from, flags, NULL, 0, &n, NULL);
	return n;
}

/* The last word end that fits when a chunk begins with word i; one word always goes. */
static size_t furthest(const struct chunking *c, const char *text, const struct words *w, size_t i)
{
	size_t good = i + 1, step = c->size / 2 + 1, bad = w->n + 1;

	while (good < w->n) { /* at first as many words as are sure to be few, then ever more */
		const size_t next = good + step < w->n ? good + step : w->n;
		if (count(c, text, w->ends[i], w->ends[next], 0) > c->size) {
			bad = next;
			break;
		}
		good = next;
		step *= 2;
	}
	while (bad <= w->n && bad - good > 1) {
		const size_t mid = good + (bad - good) / 2;
		if (count(c, text, w->ends[i], w->ends[mid], 0) > c->size)
			bad = mid;
		else
			good = mid;
	}
	return good;
}

/* The end of a line in the last quarter of words [i, end), or end. */
static size_t line_end(const char *text, const struct words *w, size_t i, size_t end)
{
	for (size_t k = end; k > i + (end - i) * 3 / 4; k--)
		for (size_t at = w->ends[k]; at > w->ends[k - 1] && is_space(text[at - 1]); at--)
			if (text[at - 1] == '\n')
				return k;
	return end;
}

/* The first word of the overlap with what ends at word `end`. */
static size_t go_back(const struct chunking *c, const char *text, const struct words *w, size_t i, size_t end)
{
	size_t bad = i, good = end; /* word `bad` is too far back, as the next chunk begins behind this one */

	while (c->overlap > 0 && good - bad > 1) {
		const size_t mid = bad + (good - bad) / 2;
		if (count(c, text, w->ends[mid], w->ends[end], COHORT_TOKENIZE_NO_BOS) > c->overlap)
			bad = mid;
		else
			good = mid;
	}
	return good;
}

struct place {
	size_t at; /* how far lines have been counted */
	uint32_t line;
};

static uint32_t line_of(struct place *p, const char *text, size_t at)
{
	if (at < p->at)
		*p = (struct place){0, 1};
	for (; p->at < at; p->at++)
		p->line += text[p->at] == '\n' && p->line < UINT32_MAX;
	return p->line;
}

static bool add_range(struct doc_index *ix, const char *text, size_t from, size_t to, struct place *p)
{
	while (from < to && is_space(text[from]))
		from++;
	while (to > from && is_space(text[to - 1]))
		to--;
	if (from == to)
		return true;
	struct place begin = *p;
	const uint32_t first = line_of(&begin, text, from);
	*p = begin; /* the next chunk may begin before the end of this one, but not before its begin */
	const uint32_t last = line_of(&begin, text, to - 1);
	return doc_index_add_chunk(ix, text + from, (uint32_t)(to - from), from, first, last);
}

static bool chunk_span(const struct chunking *c, const char *text, size_t from, size_t to, struct words *w,
		struct place *p, struct doc_index *ix)
{
	size_t done = 0; /* words that are in a chunk */

	if (!split_words(w, text, from, to))
		return false;
	/* A large text takes minutes; who reads it asks again whether to go on. */
	for (size_t i = 0; i < w->n && !interrupted();) {
		size_t end = furthest(c, text, w, i);
		if (end <= done) { /* the overlap left no room for more */
			i = done;
			continue;
		}
		const size_t line = end < w->n ? line_end(text, w, i, end) : end;
		end = line > done ? line : end;
		if (!add_range(ix, text, w->ends[i], w->ends[end], p))
			return false;
		done = end;
		i = end < w->n ? go_back(c, text, w, i, end) : end;
	}
	return true;
}

/* Where the separator comes next, or the end. */
static size_t find(const struct chunking *c, const char *text, size_t from, size_t n)
{
	while (from < n && n - from >= c->n_separator) {
		const char *hit = memchr(text + from, c->separator[0], n - from - c->n_separator + 1);
		if (!hit)
			return n;
		if (memcmp(hit, c->separator, c->n_separator) == 0)
			return (size_t)(hit - text);
		from = (size_t)(hit - text) + 1;
	}
	return n;
}

bool chunk_text(const struct chunking *c, const char *text, size_t n, struct doc_index *ix)
{
	struct words w = {0};
	struct place p = {0, 1};
	bool good = true;

	for (size_t from = 0; from < n && good;) {
		const size_t to = c->separator ? find(c, text, from, n) : n;
		good = chunk_span(c, text, from, to, &w, &p, ix);
		from = to + (c->separator ? c->n_separator : 0);
	}
	mem_free(w.ends);
	return good;
}
