/* Special tokens inside a text: where the next one is.
 *
 * Invariants
 *  1. t->specials is sorted by bytes and then by id, and holds user-defined, control and unknown tokens only, none
 *     empty and none longer than TOK_SPECIAL_MAX. The unknown token counts as a control token.
 *  2. At each place the longest special token counts, of equal texts the one with the lowest id that is asked for.
 *     Each text is in the list at most twice: its first token, and its first user-defined one.
 *  3. The work at a place is bounded by the longest special token, not by their number: the candidates that share the
 *     text so far are one range of the sorted list, which only narrows.
 *
 * Refuses to know what becomes of the text between them. */
#include "tok/tok_impl.h"

#include <stdlib.h>
#include <string.h>

/* Of equal texts the first is enough, and the first user-defined one, which counts when control tokens do not. */
static void drop_doubles(struct tok *t)
{
	struct tok_text *sp = t->specials;
	uint32_t n = 0;

	for (uint32_t i = 0; i < t->n_specials;) {
		uint32_t start = i;
		bool user = false;
		for (; i < t->n_specials && sp[i].n == sp[start].n && !memcmp(sp[i].s, sp[start].s, sp[i].n); i++) {
			bool is_user = tok_type(t, sp[i].id) == TOK_USER;
			if (i == start || (is_user && !user)) {
				struct tok_text keep = sp[i];
				if (i == start)
					start = n;
				sp[n++] = keep;
			}
			user |= is_user;
		}
	}
	t->n_specials = n;
}

static bool is_special(const struct tok *t, cohort_token id, bool with_unknown)
{
	unsigned type = tok_type(t, id);
	return (type == TOK_CONTROL || type == TOK_USER || (type == TOK_UNKNOWN && with_unknown)) &&
			t->at[id + 1] > t->at[id];
}

/* Without a control token the vocabulary declares no special tokens: its unknown token is none either. */
static bool has_control(const struct tok *t)
{
	for (int32_t i = 0; i < t->n_vocab; i++)
		if (tok_type(t, i) == TOK_CONTROL)
			return true;
	return false;
}

/* Special tokens are looked for by their bytes. User-defined ones of SPM have spaces there where the vocabulary writes
 * U+2581, so "  " in a text is the token of two spaces, as SentencePiece has it. */
enum cohort_status special_init(struct tok *t, struct cohort_err *err)
{
	const bool with_unknown = has_control(t);
	size_t n = 0;

	for (int32_t i = 0; i < t->n_vocab; i++)
		n += is_special(t, i, with_unknown);
	t->specials = mem_alloc(n, sizeof *t->specials);
	if (!t->specials)
		return err_set(err, COHORT_E_MEMORY, "vocabulary: out of memory");
	for (int32_t i = 0; i < t->n_vocab; i++) {
		if (!is_special(t, i, with_unknown))
			continue;
		size_t len = t->at[i + 1] - t->at[i];
		if (len > TOK_SPECIAL_MAX)
			return err_set(err, COHORT_E_LIMIT, "token %d: a special token of %zu bytes; the limit is %d",
					(int)i, len, TOK_SPECIAL_MAX);
		t->specials[t->n_specials++] = (struct tok_text){t->bytes + t->at[i], (uint32_t)len, i};
	}
	if (n > 1)
		qsort(t->specials, n, sizeof *t->specials, tok_text_order);
	drop_doubles(t);
	for (uint32_t i = 0, c = 0; c < 257; c++) {
		while (i < t->n_specials && (uint8_t)t->specials[i].s[0] < c)
			i++;
		t->first[c] = i;
	}
	return COHORT_OK;
}

/* First of [lo, hi) whose byte at `depth` is at least c; all are longer than depth. */
static uint32_t lower(const struct tok_text *sp, uint32_t lo, uint32_t hi, size_t depth, unsigned c)
{
	while (lo < hi) {
		uint32_t mid = lo + (hi - lo) / 2;
		if ((uint8_t)sp[mid].s[depth] < c)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

static cohort_token longest_at(const struct tok *t, const char *s, size_t n, bool control)
{
	const struct tok_text *sp = t->specials;
	uint32_t lo = t->first[(uint8_t)s[0]], hi = t->first[(uint8_t)s[0] + 1];
	cohort_token best = -1;

	for (size_t depth = 1; lo < hi; depth++) {
		/* Those that end here come first in the range; the rest goes on. */
		bool found = false;
		for (; lo < hi && sp[lo].n == depth; lo++) {
			if (!found && (control || tok_type(t, sp[lo].id) == TOK_USER)) {
				best = sp[lo].id;
				found = true;
			}
		}
		if (depth >= n)
			break;
		unsigned c = (uint8_t)s[depth];
		if (lo == hi || (uint8_t)sp[lo].s[depth] > c || (uint8_t)sp[hi - 1].s[depth] < c)
			break;
		lo = lower(sp, lo, hi, depth, c);
		hi = lower(sp, lo, hi, depth, c + 1);
	}
	return best;
}

/* ---- White space of special tokens --------------------------------------------------- */

static bool contains(struct gguf_str s, const char *part)
{
	size_t n = strlen(part);

	for (size_t i = 0; i + n <= s.n; i++) {
		size_t k = 0;
		while (k < n && (s.s[i + k] | 0x20) == (part[k] | 0x20))
			k++;
		if (k == n)
			return true;
	}
	return false;
}

static void mark(struct tok *t, const char *text, unsigned bit)
{
	for (uint32_t i = 0; i < t->n_specials; i++)
		if (tok_text_is(t, t->specials[i].id, text))
			t->attr[t->specials[i].id] |= (uint8_t)bit;
}

void special_mark_strip(struct tok *t, const struct gguf *g)
{
	static const char *const mask_pre[] = {"jina-v2-de", "jina-v2-es", "jina-v2-code", "roberta-bpe"};
	static const char *const mask_arch[] = {"nomic-bert-moe", "jina-bert-v3"};
	struct gguf_str pre = {"", 0}, arch = {"", 0}, name = {"", 0};

	/* Values of another type say nothing here. */
	gguf_get_str(g, "tokenizer.ggml.pre", false, &pre, NULL);
	gguf_get_str(g, "general.architecture", false, &arch, NULL);
	gguf_get_str(g, "general.name", false, &name, NULL);
	for (size_t i = 0; i < sizeof mask_pre / sizeof *mask_pre; i++)
		if (contains(pre, mask_pre[i]))
			mark(t, "<mask>", TOK_LSTRIP);
	for (size_t i = 0; i < sizeof mask_arch / sizeof *mask_arch; i++)
		if (contains(arch, mask_arch[i]))
			mark(t, "<mask>", TOK_LSTRIP);
	if (contains(pre, "modern-bert"))
		mark(t, "[MASK]", TOK_LSTRIP);
	/* Phi-3: all but those that other Llama vocabularies have as well, of which only the end takes spaces. */
	if (!contains(name, "phi-3") && !contains(name, "phi3"))
		return;
	for (uint32_t i = 0; i < t->n_specials; i++) {
		cohort_token id = t->specials[i].id;
		if (!tok_text_is(t, id, "<s>") && !tok_text_is(t, id, "<unk>") && !tok_text_is(t, id, "<|endoftext|>"))
			t->attr[id] |= TOK_RSTRIP;
	}
}

bool special_next(const struct tok *t, const char *s, size_t n, size_t from, bool control,
		size_t *at, cohort_token *id)
{
	if (!t->n_specials)
		return false;
	for (size_t i = from; i < n; i++) {
		uint8_t c = (uint8_t)s[i];
		if (t->first[c] == t->first[c + 1])
			continue;
		cohort_token got = longest_at(t, s + i, n - i, control);
		if (got >= 0) {
			*at = i;
			*id = got;
			return true;
		}
	}
	return false;
}
