/* Tokens with a role: what goes around a text, what stands for the unknown, what ends a turn.
 *
 * Invariants
 *  1. bos, eos and unk are tokens or -1. The end-of-generation set is a bit in attr.
 *  2. An id in the file that is outside the vocabulary is refused, whatever role it has.
 *  3. Where the file says nothing, texts that models end their turns with count, and only if the token is special.
 *
 * Refuses to know when a role is played (encode.c). */
#include "tok/tok_impl.h"

#define KEY "tokenizer.ggml."

static enum cohort_status read_id(
		const struct tok *t, const struct gguf *g, const char *key, cohort_token *out, struct cohort_err *err)
{
	uint32_t id = 0;
	enum cohort_status st;

	if (!gguf_find(g, key))
		return COHORT_OK;
	st = gguf_get_u32(g, key, true, &id, err);
	if (!st && id >= (uint32_t)t->n_vocab)
		st = err_set(err, COHORT_E_FORMAT, "%s: token %lu of a vocabulary of %d", key, (unsigned long)id,
				(int)t->n_vocab);
	if (!st)
		*out = (cohort_token)id;
	return st;
}

/* Texts with which models end a turn, whether or not the metadata says so. */
static const char *const eog_texts[] = {
		"</s>",
		"<|endoftext|>",
		"<|end_of_text|>",
		"<|eot_id|>",
		"<|eom_id|>",
		"<|im_end|>",
		"<|end|>",
		"<end_of_turn>",
		"<eos>",
		"<|EOT|>",
		"<|return|>",
		"<|call|>",
		"<|calls|>",
		"<|flush|>",
		"<EOT>",
		"_<EOT>",
		"[EOT]",
		"[EOS]",
		"<end_of_utterance>",
		"<turn|>",
		"<|tool_response>",
		"[e~[",
		("<\xef\xbd\x9c"
		 "end\xe2\x96\x81of\xe2\x96\x81sentence\xef\xbd\x9c>"),
};

static void mark_eog(struct tok *t, cohort_token id)
{
	if (id >= 0)
		t->attr[id] |= TOK_EOG;
}

static void mark_eog_texts(struct tok *t)
{
	for (int32_t i = 0; i < t->n_vocab; i++) {
		unsigned type = tok_type(t, i);
		if (type != TOK_CONTROL && type != TOK_USER)
			continue;
		for (size_t k = 0; k < sizeof eog_texts / sizeof *eog_texts; k++)
			if (tok_text_is(t, i, eog_texts[k]))
				mark_eog(t, i);
	}
}

/* The first token of a type other than plain text that has this text, or -1. */
static cohort_token by_text(const struct tok *t, const char *text)
{
	for (int32_t i = 0; i < t->n_vocab; i++)
		if (tok_type(t, i) != TOK_BYTE && tok_text_is(t, i, text))
			return i;
	return -1;
}

static void unmark_eog(struct tok *t, const char *text)
{
	for (int32_t i = 0; i < t->n_vocab; i++)
		if (tok_text_is(t, i, text) && i != t->eos)
			t->attr[i] &= (uint8_t)~TOK_EOG;
}

/* Texts that end a turn with most models and only a part of it with these. */
static void drop_eog_texts(struct tok *t)
{
	const bool calls = by_text(t, "<|call|>") >= 0 || by_text(t, "<|calls|>") >= 0;

	if (calls && (by_text(t, "<|return|>") >= 0 || by_text(t, "<|flush|>") >= 0))
		unmark_eog(t, "<|end|>");
	if (by_text(t, "<|tool_response>") >= 0)
		unmark_eog(t, "</s>");
}

struct role {
	const char *key;
	cohort_token *id;
};

/* The class token stands where other kinds have BOS, the separator where they have EOS. Files that name none mean
 * those that every BERT has. */
static enum cohort_status wordpiece_roles(struct tok *t, const struct gguf *g, struct cohort_err *err)
{
	enum cohort_status st = read_id(t, g, KEY "cls_token_id", &t->bos, err);

	if (!st)
		st = read_id(t, g, KEY "seperator_token_id", &t->eos, err); /* the key is spelt so */
	if (!st)
		st = gguf_get_bool(g, KEY "add_sep_token", false, &t->add_eos, err);
	if (st)
		return st;
	if (t->bos < 0)
		t->bos = by_text(t, "[CLS]");
	if (t->eos < 0)
		t->eos = by_text(t, "[SEP]");
	if (t->unk < 0)
		t->unk = by_text(t, "[UNK]");
	return COHORT_OK;
}

enum cohort_status roles_init(struct tok *t, const struct gguf *g, struct cohort_err *err)
{
	cohort_token eot = -1, eom = -1;
	const struct role roles[] = {
			{KEY "bos_token_id", &t->bos},
			{KEY "eos_token_id", &t->eos},
			{KEY "unknown_token_id", &t->unk},
			{KEY "eot_token_id", &eot},
			{KEY "eom_token_id", &eom},
	};
	enum cohort_status st = COHORT_OK;

	for (size_t i = 0; i < sizeof roles / sizeof *roles && !st; i++)
		st = read_id(t, g, roles[i].key, roles[i].id, err);
	if (!st)
		st = gguf_get_bool(g, KEY "add_bos_token", false, &t->add_bos, err);
	/* A BERT file may say that it adds no EOS: its separator is another matter. */
	if (!st && t->kind != TOK_WORDPIECE)
		st = gguf_get_bool(g, KEY "add_eos_token", false, &t->add_eos, err);
	if (!st && (t->kind == TOK_SPM || t->kind == TOK_UNIGRAM))
		st = gguf_get_bool(g, KEY "add_space_prefix", false, &t->add_space, err);
	if (!st && t->kind == TOK_WORDPIECE)
		st = wordpiece_roles(t, g, err);
	if (st)
		return st;
	for (int32_t i = 0; i < t->n_vocab && t->unk < 0; i++)
		if (tok_type(t, i) == TOK_UNKNOWN)
			t->unk = i;
	if (t->kind == TOK_UNIGRAM && t->eos < 0)
		t->eos = by_text(t, "</s>");
	mark_eog(t, t->eos);
	mark_eog(t, eot);
	mark_eog(t, eom);
	mark_eog_texts(t);
	drop_eog_texts(t);
	return COHORT_OK;
}
