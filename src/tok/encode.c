/* Text -> tokens: BOS, special tokens and the text between them, EOS.
 *
 * Invariants
 *  1. The result is handed out whole or not at all.
 *  2. All working memory is the call's own, so that one vocabulary serves many threads.
 *  3. SPM puts a space in front of the first text and of each text behind a special token, when the model wants it.
 *  4. White space that belongs to a special token is in no text.
 *
 * Refuses to know how a stretch of plain text is encoded. */
#include "tok/tok_impl.h"

enum cohort_status tok_emit(struct tok_out *o, cohort_token id, struct cohort_err *err)
{
	if (!mem_grow((void **)&o->ids, &o->n_max, o->n + 1, sizeof *o->ids))
		return err_set(err, COHORT_E_MEMORY, "tokenise: out of memory");
	o->ids[o->n++] = id;
	return COHORT_OK;
}

enum cohort_status tok_emit_byte(const struct tok *t, struct tok_out *o, uint8_t byte, struct cohort_err *err)
{
	cohort_token id = t->byte_id[byte] >= 0 ? t->byte_id[byte] : t->unk;

	if (id < 0)
		return err_set(err, COHORT_E_UNSUPPORTED,
				"tokenise: the vocabulary has no token for byte 0x%02x, and no unknown token", byte);
	return tok_emit(o, id, err);
}

static enum cohort_status encode_text(const struct tok *t, struct tok_out *o, const char *s, size_t n,
		struct cohort_err *err)
{
	if (n == 0)
		return COHORT_OK;
	switch (t->kind) {
	case TOK_SPM: return spm_encode(t, o, s, n, t->add_space, err);
	case TOK_BPE: return bpe_encode(t, o, s, n, err);
	case TOK_WORDPIECE: return wordpiece_encode(t, o, s, n, err);
	case TOK_UNIGRAM: return unigram_encode(t, o, s, n, err);
	}
	return err_set(err, COHORT_E_BUG, "tokenise: kind %d", (int)t->kind);
}

static bool is_space(char c)
{
	return c == ' ' || (c >= '\t' && c <= '\r');
}

static enum cohort_status encode_all(const struct tok *t, struct tok_out *o, const char *s, size_t n, bool control,
		struct cohort_err *err)
{
	enum cohort_status st = COHORT_OK;
	size_t from = 0, at;
	cohort_token id;

	while (!st && special_next(t, s, n, from, control, &at, &id)) {
		size_t end = at;
		while ((t->attr[id] & TOK_LSTRIP) && end > from && is_space(s[end - 1]))
			end--;
		st = encode_text(t, o, s + from, end - from, err);
		if (!st)
			st = tok_emit(o, id, err);
		from = at + (t->at[id + 1] - t->at[id]);
		while ((t->attr[id] & TOK_RSTRIP) && from < n && is_space(s[from]))
			from++;
	}
	return st ? st : encode_text(t, o, s + from, n - from, err);
}

/* Into o->ids, which may have room already. */
static enum cohort_status encode(const struct tok *t, struct tok_out *out, const char *text, size_t n_bytes,
		unsigned flags, struct cohort_err *err)
{
	const unsigned bos = COHORT_TOKENIZE_BOS, no_bos = COHORT_TOKENIZE_NO_BOS;
	struct tok_out o = *out;
	enum cohort_status st = COHORT_OK;

	if ((flags & ~(bos | no_bos | COHORT_TOKENIZE_SPECIAL)) || (flags & (bos | no_bos)) == (bos | no_bos))
		return err_set(err, COHORT_E_ARG, "tokenise: flags 0x%x are unknown or contradict each other", flags);
	if (!text) {
		if (n_bytes)
			return err_set(err, COHORT_E_ARG, "tokenise: no text");
		text = "";
	}
	if (n_bytes > TOK_TEXT_MAX)
		return err_set(err, COHORT_E_LIMIT, "tokenise: %zu bytes of text; at most %zu", n_bytes, TOK_TEXT_MAX);
	if (t->kind == TOK_BPE) {
		st = pretok_run_init(&o.run, n_bytes, err);
		cache_init(&o.cache, n_bytes);
	}
	/* Even an empty result is a pointer. */
	if (!st && !mem_grow((void **)&o.ids, &o.n_max, n_bytes / 4 + 2, sizeof *o.ids))
		st = err_set(err, COHORT_E_MEMORY, "tokenise: out of memory");
	if (!st && t->bos >= 0 && ((flags & bos) || (t->add_bos && !(flags & no_bos))))
		st = tok_emit(&o, t->bos, err);
	if (!st)
		st = encode_all(t, &o, text, n_bytes, flags & COHORT_TOKENIZE_SPECIAL, err);
	if (!st && t->eos >= 0 && t->add_eos && !(flags & no_bos))
		st = tok_emit(&o, t->eos, err);
	*out = (struct tok_out){.ids = o.ids, .n = o.n};
	mem_free(o.text);
	mem_free(o.best);
	merge_release(&o.merge);
	norm_release(&o.norm);
	cache_release(&o.cache);
	pretok_run_release(&o.run);
	return st;
}

enum cohort_status tok_encode(const struct tok *t, const char *text, size_t n_bytes, unsigned flags,
		cohort_token **out, size_t *n, struct cohort_err *err)
{
	struct tok_out o = {0};
	const enum cohort_status st = encode(t, &o, text, n_bytes, flags, err);

	if (st) {
		mem_free(o.ids);
		return st;
	}
	*out = o.ids;
	*n = o.n;
	return COHORT_OK;
}

enum cohort_status tok_encode_into(const struct tok *t, const char *text, size_t n_bytes, unsigned flags,
		cohort_token *out, size_t n_max, size_t *n, struct cohort_err *err)
{
	struct tok_out o = {.ids = out, .n_max = n_max};
	const enum cohort_status st = encode(t, &o, text, n_bytes, flags, err);

	if (!st)
		*n = o.n;
	return st;
}

/* A token stands for all of its bytes, and for what became these: U+2581 a space, or up to seven bytes (U+1FBE with two
 * marks) two, U+0390, by form C. */
size_t tok_least(const struct tok *t, size_t n_bytes)
{
	const struct pretok_rule *rule = t->kind == TOK_BPE ? t->pretok.rule : NULL;
	size_t longest = 4; /* an unknown character */

	if (t->kind != TOK_SPM && t->kind != TOK_BPE)
		return 0;
	longest = longest > t->n_longest ? longest : t->n_longest;
	longest *= !rule || rule->chars ? 3 : rule->nfc ? 4
							: 1;
	for (uint32_t i = 0; i < t->n_specials; i++) {
		if (t->attr[t->specials[i].id] & (TOK_LSTRIP | TOK_RSTRIP))
			return 0;
		longest = longest > t->specials[i].n ? longest : t->specials[i].n;
	}
	return n_bytes / longest + (n_bytes % longest > 0);
}
