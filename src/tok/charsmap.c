/* SentencePiece's precompiled character map: which characters become which before anything else.
 *
 * The bytes are: the size of a double-array trie, the trie as 32-bit units, and the replacements as NUL-terminated
 * texts, which the trie's leaves name by their place. A unit has its label in bits 0-7, "a value hangs here" in bit 8,
 * and in bits 10-30 where its children are (bit 9: times 256), relative to itself by exclusive or. A unit that is a
 * value has bit 31 set.
 *
 * Invariants
 *  1. The bytes come from a file: every unit and every text that is named is looked for within the arrays first, and
 *     what lies outside ends the walk without a match.
 *  2. The texts end with a NUL, which is added when the file has none. None is longer than CHARSMAP_TEXT, so that a
 *     short text cannot become one that fills the memory.
 *  3. Units may lead in a circle, so a walk ends after CHARSMAP_KEY bytes: a text costs no more than its length times
 *     that, whatever the file says.
 *
 * Refuses to know what is done with the replacement. */
#include "tok/tok_impl.h"

#include "base/sum.h"

#include <string.h>

#define CHARSMAP_TEXT 128 /* bytes; the longest that compatibility forms of Unicode come to is 33 */
#define CHARSMAP_KEY 64 /* bytes; keys are single characters of Unicode with what they combine with */

/* The longest run without a NUL. */
static size_t longest(const char *s, size_t n)
{
	size_t max = 0, run = 0;

	for (size_t i = 0; i < n; i++) {
		run = s[i] ? run + 1 : 0;
		max = run > max ? run : max;
	}
	return max;
}

enum cohort_status charsmap_init(struct charsmap *m, const struct gguf_array *a, struct cohort_err *err)
{
	static const char key[] = "tokenizer.ggml.precompiled_charsmap";
	size_t n_trie;

	*m = (struct charsmap){0};
	if (a->n == 0)
		return COHORT_OK;
	if (a->n < 4)
		return err_set(err, COHORT_E_FORMAT, "%s: %llu bytes", key, (unsigned long long)a->n);
	n_trie = load_u32(a->data);
	if (n_trie > a->n - 4 || n_trie % 4)
		return err_set(err, COHORT_E_FORMAT, "%s: a trie of %zu bytes in %llu", key, n_trie,
				(unsigned long long)a->n);
	m->n_units = n_trie / 4;
	m->n_texts = (size_t)a->n - 4 - n_trie;
	m->units = mem_alloc(m->n_units, sizeof *m->units);
	m->texts = mem_alloc(m->n_texts + 1, 1);
	if (!m->units || !m->texts) {
		charsmap_release(m);
		return err_set(err, COHORT_E_MEMORY, "vocabulary: out of memory");
	}
	for (size_t i = 0; i < m->n_units; i++)
		m->units[i] = load_u32(a->data + 4 + 4 * i);
	if (m->n_texts)
		memcpy(m->texts, a->data + 4 + n_trie, m->n_texts);
	m->texts[m->n_texts] = '\0';
	if (longest(m->texts, m->n_texts) > CHARSMAP_TEXT)
		return err_set(err, COHORT_E_FORMAT, "%s: a replacement of %zu bytes; at most %d", key,
				longest(m->texts, m->n_texts), CHARSMAP_TEXT);
	return COHORT_OK;
}

void charsmap_release(struct charsmap *m)
{
	mem_free(m->units);
	mem_free(m->texts);
	*m = (struct charsmap){0};
}

static size_t children(uint32_t unit)
{
	return (size_t)(unit >> 10) << (unit & 0x200 ? 8 : 0);
}

size_t charsmap_find(const struct charsmap *m, const char *s, size_t n, const char **out, size_t *n_out)
{
	size_t at, best = 0;

	if (!m->n_units)
		return 0;
	at = children(m->units[0]);
	for (size_t i = 0; i < n && i < CHARSMAP_KEY && s[i]; i++) {
		at ^= (uint8_t)s[i];
		if (at >= m->n_units || (m->units[at] & 0x800000ff) != (uint8_t)s[i])
			break;
		uint32_t unit = m->units[at];
		at ^= children(unit);
		if (!(unit & 0x100))
			continue;
		if (at >= m->n_units)
			break;
		size_t text = m->units[at] & 0x7fffffff;
		if (text > m->n_texts)
			break;
		best = i + 1;
		*out = m->texts + text;
		*n_out = strlen(m->texts + text);
	}
	return best;
}
