/* Tokens -> text, one token at a time, in whole UTF-8 characters.
 *
 * Invariants
 *  1. All that is given out, and the flush, are the tokens' bytes in order, less one space at the start of a text, or
 *     behind a special token, when the encoder puts one there. WordPiece loses it at the start only: its spaces are
 *     between words, and a special token is a word.
 *  2. Held back are at most 3 bytes: the beginning of a character that the next token may complete. Bytes that cannot
 *     become one go through as they are.
 *  3. A refused push changes nothing.
 *
 * Refuses to know where tokens come from, and the model in struct cohort_detok. */
#include "tok/tok_impl.h"

#include "base/utf8.h"

#include <string.h>

/* The last bytes of a and b joined: how many of them begin a character. */
static size_t unfinished(const char *a, size_t n_a, const char *b, size_t n_b)
{
	char last[8];

	if (n_b >= 3)
		return utf8_unfinished_tail(b, n_b);
	memcpy(last, a, n_a);
	memcpy(last + n_a, b, n_b);
	return utf8_unfinished_tail(last, n_a + n_b);
}

/* A token's bytes where it stands. The encoder puts a space in front of a text, and of what follows a special token
 * within it; the first token of such a piece loses it again. NULL: not in the vocabulary. */
static const char *text_of(const struct tok *t, cohort_token token, bool special, bool *at_start, size_t *n)
{
	const char *s = tok_bytes(t, token, special, n);
	const bool apart = s && (tok_type(t, token) == TOK_CONTROL || tok_type(t, token) == TOK_USER);

	/* A special token is matched as it is: there is no space in front of it. */
	if (s && *at_start && !apart && t->add_space && *n && s[0] == ' ') {
		s++;
		--*n;
	}
	*at_start = t->kind == TOK_WORDPIECE ? *at_start && s && *n == 0 : apart;
	return s;
}

static enum cohort_status not_known(const struct tok *t, cohort_token token, struct cohort_err *err)
{
	return err_rule(err, COHORT_E_ARG, "token", -1, -1, t->n_vocab, token,
			"detokenise: token %d is not in the vocabulary of %d", (int)token, (int)t->n_vocab);
}

enum cohort_status tok_detokenize(const struct tok *t, const cohort_token *tokens, size_t n_tokens, bool special,
		char *out, size_t n_max, size_t *n_out, struct cohort_err *err)
{
	for (int write = 0; write < 2; write++) {
		bool at_start = true;
		size_t total = 0, n;
		for (size_t i = 0; i < n_tokens; i++) {
			const char *s = text_of(t, tokens[i], special, &at_start, &n);
			if (!s)
				return not_known(t, tokens[i], err);
			if (write && n)
				memcpy(out + total, s, n);
			total += n;
		}
		*n_out = total;
		if (total > n_max)
			return err_set(err, COHORT_E_LIMIT, "detokenise: %zu bytes, the buffer has %zu", total, n_max);
	}
	return COHORT_OK;
}

enum cohort_status tok_detok_push(const struct tok *t, struct cohort_detok *d, cohort_token token,
		char *out, size_t n_max, size_t *n_out, struct cohort_err *err)
{
	size_t n;
	bool at_start = d->at_start;
	const char *s = text_of(t, token, d->special, &at_start, &n);

	if (!s)
		return not_known(t, token, err);
	size_t keep = unfinished(d->held, d->n_held, s, n);
	size_t give = d->n_held + n - keep;
	if (give > n_max) {
		*n_out = give;
		return err_set(err, COHORT_E_LIMIT, "detokenise: token %d gives %zu bytes, the buffer has %zu",
				(int)token, give, n_max);
	}
	/* What is held is one beginning, and a tail that reaches into it begins with it: it goes or stays as a whole.
	 */
	if (give) {
		size_t from_s = give - d->n_held;
		memcpy(out, d->held, d->n_held);
		memcpy(out + d->n_held, s, from_s);
		d->n_held = 0;
		s += from_s;
		n -= from_s;
	}
	memcpy(d->held + d->n_held, s, n);
	d->n_held = (uint8_t)(d->n_held + n);
	d->at_start = at_start;
	*n_out = give;
	return COHORT_OK;
}

size_t tok_detok_flush(struct cohort_detok *d, char out[4])
{
	size_t n = d->n_held;

	memcpy(out, d->held, n);
	d->n_held = 0;
	return n;
}
