/* WordPiece: words, each cut from the left into the longest tokens there are.
 *
 * Invariants
 *  1. Text is prepared as BERT's own tokeniser does it: no control characters; ideographs, punctuation and the signs of
 *     ASCII are words of their own; small letters without accents, unless the file says that case counts.
 *  2. A token that begins a word has a space in front (U+2581 in the file), one that continues a word has none.
 *  3. A word that cannot be cut into tokens, or is longer than BERT's own limit, is one unknown token.
 *  4. Bytes that are no character are left out, as U+FFFD would be.
 *
 * Refuses to know the class and separator tokens around a text (encode.c). */
#include "tok/tok_impl.h"

#include "base/utf8.h"

#define WORD_CHARS 100 /* max_input_chars_per_word of every BERT vocabulary */

enum cohort_status wordpiece_init(struct tok *t, const struct gguf *g, struct cohort_err *err)
{
	struct tok_text *keys = mem_alloc((size_t)t->n_vocab, sizeof *keys);
	size_t n = 0;
	enum cohort_status st;

	if (!keys)
		return err_set(err, COHORT_E_MEMORY, "vocabulary: out of memory");
	for (int32_t i = 0; i < t->n_vocab; i++) {
		size_t len = t->at[i + 1] - t->at[i];
		unsigned type = tok_type(t, i);
		if (len && len <= UINT32_MAX && (type == TOK_NORMAL || type == TOK_USER))
			keys[n++] = (struct tok_text){t->bytes + t->at[i], (uint32_t)len, i};
	}
	st = trie_init(&t->trie, keys, n, err);
	mem_free(keys);
	t->lower = true;
	if (!st)
		st = gguf_get_bool(g, "tokenizer.ggml.normalizer.lowercase", false, &t->lower, err);
	t->strip_accents = t->lower;
	if (!st)
		st = gguf_get_bool(g, "tokenizer.ggml.normalizer.strip_accents", false, &t->strip_accents, err);
	return st;
}

/* The ranges BERT puts spaces around. The one that begins at U+2B920 begins there in the tokenisers in use, too. */
static bool is_ideograph(uint32_t cp)
{
	return (cp >= 0x4e00 && cp <= 0x9fff) || (cp >= 0x3400 && cp <= 0x4dbf) || (cp >= 0x20000 && cp <= 0x2a6df) ||
			(cp >= 0x2a700 && cp <= 0x2b81f) || (cp >= 0x2b920 && cp <= 0x2ceaf) ||
			(cp >= 0xf900 && cp <= 0xfaff) || (cp >= 0x2f800 && cp <= 0x2fa1f);
}

struct word {
	const struct tok *t;
	struct tok_out *o;
	size_t n; /* bytes in o->text, with the space in front; 0: no word */
	size_t n_chars;
};

static enum cohort_status unknown(const struct word *w, struct cohort_err *err)
{
	if (w->t->unk < 0)
		return err_set(err, COHORT_E_UNSUPPORTED,
				"tokenise: a word is not in the vocabulary, which has no unknown token");
	return tok_emit(w->o, w->t->unk, err);
}

static enum cohort_status end_word(struct word *w, struct cohort_err *err)
{
	size_t n_before = w->o->n, n = w->n, len;
	enum cohort_status st = COHORT_OK;

	w->n = 0;
	if (n == 0)
		return COHORT_OK;
	if (w->n_chars > WORD_CHARS)
		return unknown(w, err);
	for (size_t i = 0; i < n && !st; i += len) {
		cohort_token id = trie_longest(&w->t->trie, w->o->text + i, n - i, &len);
		if (id < 0) {
			w->o->n = n_before;
			return unknown(w, err);
		}
		st = tok_emit(w->o, id, err);
	}
	return st;
}

static enum cohort_status add_char(struct word *w, uint32_t cp, struct cohort_err *err)
{
	struct tok_out *o = w->o;

	if (!mem_grow((void **)&o->text, &o->text_max, w->n + 5, 1))
		return err_set(err, COHORT_E_MEMORY, "tokenise: out of memory");
	if (w->n == 0) {
		o->text[w->n++] = ' ';
		w->n_chars = 0;
	}
	/* A word above the limit is unknown whatever it is; it need not be kept. */
	if (++w->n_chars <= WORD_CHARS)
		w->n += utf8_encode(cp, o->text + w->n);
	return COHORT_OK;
}

/* A character that is a word. */
static enum cohort_status alone(struct word *w, uint32_t cp, struct cohort_err *err)
{
	enum cohort_status st = end_word(w, err);

	if (!st)
		st = add_char(w, cp, err);
	return st ? st : end_word(w, err);
}

static enum cohort_status add_decomposed(struct word *w, uint32_t cp, struct cohort_err *err)
{
	int32_t parts[NORM_DECOMPOSED_MAX] = {(int32_t)cp};
	const size_t n = w->t->strip_accents && cp >= 0x80 ? norm_decompose(cp, parts) : 1;
	enum cohort_status st = COHORT_OK;

	for (size_t i = 0; i < n && !st; i++) {
		uint32_t c = (uint32_t)parts[i];
		if (w->t->strip_accents && c >= 0x80 && norm_is_mark(c))
			continue;
		if (w->t->lower)
			c = norm_lower(c);
		st = norm_is_punctuation(c) ? alone(w, c, err) : add_char(w, c, err);
		/* The one capital whose small letter is two characters. */
		if (!st && w->t->lower && c == 'i' && parts[i] == 0x130)
			st = add_char(w, 0x307, err);
	}
	return st;
}

enum cohort_status wordpiece_encode(
		const struct tok *t, struct tok_out *o, const char *s, size_t n, struct cohort_err *err)
{
	struct word w = {.t = t, .o = o};
	enum cohort_status st = COHORT_OK;
	uint32_t cp;

	for (size_t i = 0; i < n && !st;) {
		size_t len = utf8_decode(s + i, n - i, &cp);
		if (!len) {
			i++;
			continue;
		}
		i += len;
		if (cp == '\t' || cp == '\n' || cp == '\r')
			st = end_word(&w, err);
		else if (cp == 0xfffd || norm_is_other(cp))
			continue;
		else if (norm_is_space(cp))
			st = end_word(&w, err);
		else if (!is_ideograph(cp))
			st = add_decomposed(&w, cp, err);
		else if (!(st = end_word(&w, err)) && !(st = add_decomposed(&w, cp, err)))
			st = end_word(&w, err);
	}
	return st ? st : end_word(&w, err);
}
