/* Opening a vocabulary from GGUF metadata, and looking things up in it.
 *
 * Invariants
 *  1. Nothing in the file is trusted: arrays that belong together have equal lengths, ids are in range, types known.
 *  2. After tok_open nothing points into the file; each token's bytes are computed once, into one area.
 *  3. A half-built struct tok is safe to free.
 *
 * Refuses to know how text becomes tokens (one file per kind), beyond asking for the bytes of a token, and which token
 * has which role (roles.c). */
#include "tok/tok_impl.h"

#include <stdio.h>
#include <string.h>

#define KEY "tokenizer.ggml."

static enum cohort_status no_memory(struct cohort_err *err)
{
	return err_set(err, COHORT_E_MEMORY, "vocabulary: out of memory");
}

static enum cohort_status read_pre(struct tok *t, const struct gguf *g, const char *known, struct cohort_err *err)
{
	struct gguf_str pre = {0};
	const struct pretok_rule *rule = NULL;
	char name[ERR_SHOW_BYTES];
	enum cohort_status st = gguf_get_str(g, KEY "pre", false, &pre, err);

	if (st)
		return st;
	if (known)
		pre = (struct gguf_str){known, strlen(known)};
	if (pre.s)
		rule = pretok_find(pre.s, pre.n);
	if (!rule) {
		if (!pre.s)
			snprintf(t->note, sizeof t->note,
					"no pre-tokeniser (" KEY "pre) in the file; using gpt-2's, tokens may differ");
		else
			snprintf(t->note, sizeof t->note, "pre-tokeniser \"%s\" (" KEY "pre) is not known; "
					"using gpt-2's, tokens may differ", err_show(name, pre.s, pre.n));
		rule = pretok_find("gpt-2", 5);
	}
	return pretok_init(&t->pretok, rule, err);
}

static enum cohort_status read_kind(struct tok *t, const struct gguf *g, struct cohort_err *err)
{
	struct gguf_str model = {0};
	char name[ERR_SHOW_BYTES];
	enum cohort_status st = gguf_get_str(g, KEY "model", true, &model, err);

	if (st)
		return st;
	if (gguf_str_is(model, "llama"))
		t->kind = TOK_SPM;
	else if (gguf_str_is(model, "gpt2") || gguf_str_is(model, "gemma4"))
		t->kind = TOK_BPE;
	else if (gguf_str_is(model, "bert"))
		t->kind = TOK_WORDPIECE;
	else if (gguf_str_is(model, "t5"))
		t->kind = TOK_UNIGRAM;
	else
		return err_set(err, COHORT_E_UNSUPPORTED,
				KEY "model: \"%s\" is not known (known: \"llama\", SentencePiece BPE; "
				"\"gpt2\", byte-level BPE; \"gemma4\", BPE of characters; \"bert\", WordPiece; "
				"\"t5\", Unigram)", err_show(name, model.s, model.n));
	/* What the name of the kind says already is not said again in "pre". */
	return t->kind == TOK_BPE ? read_pre(t, g, gguf_str_is(model, "gemma4") ? "gemma4" : NULL, err) : COHORT_OK;
}

/* An array that goes with the tokens, if it is there. */
static enum cohort_status same_length(const struct tok *t, const char *key, uint64_t n, struct cohort_err *err)
{
	if (n != (uint64_t)t->n_vocab)
		return err_set(err, COHORT_E_FORMAT, "%s: %llu elements for %d tokens", key, (unsigned long long)n,
				(int)t->n_vocab);
	return COHORT_OK;
}

static enum cohort_status read_types(struct tok *t, const struct gguf *g, struct cohort_err *err)
{
	static const char key[] = KEY "token_type";
	const struct gguf_kv *kv = gguf_find(g, key);
	struct gguf_array types;
	enum cohort_status st;

	memset(t->attr, TOK_NORMAL, (size_t)t->n_vocab);
	if (!kv)
		return COHORT_OK;
	bool is_u32 = kv->type == GGUF_ARRAY && kv->arr.type == GGUF_U32;
	st = gguf_get_array(g, key, true, is_u32 ? GGUF_U32 : GGUF_I32, &types, err);
	if (!st)
		st = same_length(t, key, types.n, err);
	for (int32_t i = 0; i < t->n_vocab && !st; i++) {
		int32_t type = gguf_array_i32(&types, (uint64_t)i);
		if (type < 0 || type > TOK_BYTE)
			st = err_set(err, COHORT_E_FORMAT, "%s: token %d has type %d", key, (int)i, (int)type);
		else if (type) /* 0 is "undefined", which older files write for normal tokens */
			t->attr[i] = (uint8_t)type;
	}
	return st;
}

static enum cohort_status read_tokens(struct tok *t, const struct gguf *g, struct cohort_err *err)
{
	struct gguf_array tokens, scores = {0};
	size_t total = 0, walk = 0;
	enum cohort_status st = gguf_get_array(g, KEY "tokens", true, GGUF_STRING, &tokens, err);

	if (st)
		return st;
	if (tokens.n < 1 || tokens.n > INT32_MAX / 2)
		return err_set(err, COHORT_E_FORMAT, KEY "tokens: %llu tokens", (unsigned long long)tokens.n);
	t->n_vocab = (int32_t)tokens.n;
	if (gguf_find(g, KEY "scores")) {
		st = gguf_get_array(g, KEY "scores", true, GGUF_F32, &scores, err);
		if (!st)
			st = same_length(t, KEY "scores", scores.n, err);
		if (st)
			return st;
	}
	t->attr = mem_alloc((size_t)t->n_vocab, sizeof *t->attr);
	t->at = mem_alloc((size_t)t->n_vocab + 1, sizeof *t->at);
	if (!t->attr || !t->at)
		return no_memory(err);
	st = read_types(t, g, err);
	if (st)
		return st;
	/* A token's bytes are never more than its text. The sum is bounded by the file. */
	for (int32_t i = 0; i < t->n_vocab; i++)
		total += gguf_array_next_str(&tokens, &walk).n;
	t->bytes = mem_alloc(total, 1);
	if (!t->bytes)
		return no_memory(err);
	t->at[0] = 0;
	walk = 0;
	for (int32_t i = 0; i < t->n_vocab; i++) {
		struct gguf_str s = gguf_array_next_str(&tokens, &walk);
		char *out = t->bytes + t->at[i];
		bool mapped;
		bool bytes = t->kind == TOK_BPE && !t->pretok.rule->chars;
		t->at[i + 1] = t->at[i] + (bytes ? bpe_text_bytes(tok_type(t, i), s.s, s.n, out, &mapped)
				: spm_text_bytes(tok_type(t, i), s.s, s.n, out));
	}
	return COHORT_OK;
}

/* ---- Open, free ------------------------------------------------------------------ */

static enum cohort_status init_kind(struct tok *t, const struct gguf *g, struct cohort_err *err)
{
	switch (t->kind) {
	case TOK_SPM:
		t->add_bos = t->add_space = true;
		return spm_init(t, g, err);
	case TOK_BPE:
		t->add_bos = t->pretok.rule->add_bos;
		return bpe_init(t, g, err);
	case TOK_WORDPIECE:
		t->add_bos = t->add_eos = t->add_space = true;
		return wordpiece_init(t, g, err);
	case TOK_UNIGRAM:
		t->add_eos = true;
		return unigram_init(t, g, err);
	}
	return err_set(err, COHORT_E_BUG, "vocabulary: kind %d", (int)t->kind);
}

enum cohort_status tok_open(struct tok **out, const struct gguf *g, struct cohort_err *err)
{
	struct tok *t = mem_zalloc(1, sizeof *t);
	enum cohort_status st;

	if (!t)
		return no_memory(err);
	t->bos = t->eos = t->unk = -1;
	for (int i = 0; i < 256; i++)
		t->byte_id[i] = -1;
	st = read_kind(t, g, err);
	if (!st)
		st = read_tokens(t, g, err);
	if (!st && !strmap_init(&t->ids, (size_t)t->n_vocab))
		st = no_memory(err);
	if (!st)
		st = init_kind(t, g, err);
	if (!st)
		st = roles_init(t, g, err);
	if (!st)
		st = special_init(t, err);
	if (!st)
		special_mark_strip(t, g);
	if (st) {
		tok_free(t);
		return st;
	}
	*out = t;
	return COHORT_OK;
}

void tok_free(struct tok *t)
{
	if (!t)
		return;
	mem_free(t->bytes);
	mem_free(t->at);
	mem_free(t->attr);
	mem_free(t->scores);
	mem_free(t->specials);
	mem_free(t->pairs);
	strmap_release(&t->ids);
	trie_release(&t->trie);
	charsmap_release(&t->charsmap);
	pretok_release(&t->pretok);
	mem_free(t);
}

/* ---- Looking up -------------------------------------------------------------------- */

static bool in_range(const struct tok *t, cohort_token token)
{
	return token >= 0 && token < t->n_vocab;
}

int32_t tok_n_vocab(const struct tok *t)
{
	return t->n_vocab;
}

enum tok_kind tok_get_kind(const struct tok *t)
{
	return t->kind;
}

const char *tok_kind_name(enum tok_kind kind)
{
	static const char *const names[] = {"spm", "bpe", "wordpiece", "unigram"};
	return names[kind];
}

bool tok_text_is(const struct tok *t, cohort_token id, const char *text)
{
	size_t n = t->at[id + 1] - t->at[id];
	return n == strlen(text) && memcmp(t->bytes + t->at[id], text, n) == 0;
}

bool tok_add_id(struct tok *t, cohort_token id)
{
	const size_t n = t->at[id + 1] - t->at[id];

	t->n_longest = n > t->n_longest ? n : t->n_longest;
	return strmap_add(&t->ids, t->bytes + t->at[id], n, id, NULL);
}

const char *tok_pre(const struct tok *t)
{
	return t->pretok.rule ? t->pretok.rule->name : "";
}

const char *tok_note(const struct tok *t)
{
	return t->note;
}

const char *tok_bytes(const struct tok *t, cohort_token token, bool special, size_t *n_bytes)
{
	*n_bytes = 0;
	if (!in_range(t, token))
		return NULL;
	unsigned type = tok_type(t, token);
	if (special || (type != TOK_CONTROL && type != TOK_UNKNOWN))
		*n_bytes = t->at[token + 1] - t->at[token];
	return t->bytes + t->at[token];
}

bool tok_is_eog(const struct tok *t, cohort_token token)
{
	return in_range(t, token) && (t->attr[token] & TOK_EOG);
}

bool tok_is_control(const struct tok *t, cohort_token token)
{
	return in_range(t, token) && tok_type(t, token) == TOK_CONTROL;
}

cohort_token tok_bos(const struct tok *t)
{
	return t->bos;
}

cohort_token tok_eos(const struct tok *t)
{
	return t->eos;
}

bool tok_adds_space(const struct tok *t)
{
	return t->add_space;
}
