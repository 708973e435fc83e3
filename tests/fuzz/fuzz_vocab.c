/* Any bytes as the choices that make a vocabulary: its kind, texts, types, scores, merges, roles, with wrong ones among
 * them; the rest is a text. The vocabulary is refused with a reason, or the text becomes tokens of it, the same ones
 * twice, that decode to as many bytes as they have, piece by piece or at once; and where every byte has a token and no
 * text is special they decode to the text.
 *
 * Seen red with an id of a role that is not compared with the vocabulary, and with a merge whose result is its left
 * side. */
#include "fuzz_asserts.h"

#include "dice.h"
#include "tok_case.h"

#include <math.h>

enum { TOKENS_MAX = 24, MERGES_MAX = 12, WORD_MAX = 40, WORDS_MAX = 32, INPUT_MAX = 1 << 12 };

static void check(bool ok, const char *what)
{
	if (!ok) {
		fprintf(stderr, "fuzz_vocab: %s\n", what);
		abort();
	}
}

/* ---- Making one ---- */

/* Some characters, a few of them more often than not, with marks, spaces, bytes that are no UTF-8 and special texts. */
static size_t any_text(struct dice *d, char *out, size_t n_most)
{
	static const char *const parts[] = {"a", "b", "c", "ab", M, G, " ", "\n", "\xc3\xa9", "\xe4\xb8\xad", "\xff",
			"\xc3", "<", ">", "<s>", "<0x41>", "<0x-1>", "<0xZZ>", "<0x100>", "##a", "[UNK]", "<|im_end|>",
			"", "0", "\xcc\x81", "\xf0\x9f\x98\x80"};
	size_t n = 0;

	for (uint32_t k = 1 + below(d, n_most); k > 0; k--) {
		const char *p = parts[below(d, below(d, 4) ? 4 : N_OF(parts))];
		memcpy(out + n, p, strlen(p));
		n += strlen(p);
	}
	return n;
}

static float any_score(struct dice *d)
{
	static const float odd[] = {0.0f, -0.0f, NAN, INFINITY, -INFINITY, 3.4e38f, -3.4e38f, 1e-45f};
	const uint32_t kind = below(d, 64);

	return kind < N_OF(odd) ? odd[kind] : -(float)kind / 4.0f;
}

static void put_text(struct dice *d, struct file *w, size_t n_most)
{
	char text[WORD_MAX + 100];
	const size_t n = any_text(d, text, n_most);

	put_strn(w, text, n);
}

static void put_merges(struct dice *d, struct file *w)
{
	const uint32_t n = below(d, MERGES_MAX + 1);

	kv_array(w, "merges", GGUF_STRING, n);
	for (uint32_t i = 0; i < n; i++) {
		char text[2 * WORD_MAX + 100];
		size_t k = any_text(d, text, 2);
		if (!seldom(d, 64))
			text[k++] = ' ';
		k += any_text(d, text + k, 2);
		put_strn(w, text, k);
	}
}

static void put_roles(struct dice *d, struct file *w, uint32_t n_vocab)
{
	static const char *const ids[] = {"bos_token_id", "eos_token_id", "unknown_token_id", "eot_token_id",
			"eom_token_id", "cls_token_id", "seperator_token_id"};
	static const char *const flags[] = {"add_bos_token", "add_eos_token", "add_space_prefix", "add_sep_token",
			"normalizer.lowercase", "normalizer.strip_accents", "remove_extra_whitespaces"};
	const uint32_t which = below(d, 128), set = below(d, 128), values = below(d, 128);

	for (size_t i = 0; i < N_OF(ids); i++)
		if (which >> i & 1)
			kv_u32(w, ids[i], seldom(d, 64) ? dice_u32(d, 4) : below(d, n_vocab));
	for (size_t i = 0; i < N_OF(flags); i++)
		if (set >> i & 1)
			kv_bool(w, flags[i], values >> i & 1);
}

struct made {
	bool plain; /* every byte has a token, and none is special: what comes back is the text */
};

static void put_vocab(struct dice *d, struct file *w, struct made *made)
{
	static const char *const models[] = {"llama", "gpt2", "gemma4", "bert", "t5", "none"};
	static const char *const pres[] = {"gpt-2", "llama-bpe", "qwen2", "deepseek-llm", "gemma4", "what", "tekken"};
	const uint32_t kind = seldom(d, 64) ? 5 : below(d, 5), n_bytes = seldom(d, 8) ? below(d, 256) : 256;
	const uint32_t n_more = below(d, TOKENS_MAX + 1), n = n_bytes + n_more;
	const bool stands = kind == 1; /* bytes have stand-ins */
	char table[256][3];

	stand_ins(table);
	put_header(w, 3, 0, 0);
	kv_str(w, "model", models[kind]);
	kv_array(w, "tokens", GGUF_STRING, n);
	for (uint32_t i = 0; i < n_bytes; i++) {
		char text[8];
		snprintf(text, sizeof text, "<0x%02X>", i);
		put_str(w, stands ? table[i] : text);
	}
	for (uint32_t i = 0; i < n_more; i++)
		put_text(d, w, 3);
	made->plain = stands && n_bytes == 256;
	if (!seldom(d, 16)) {
		kv_array(w, "token_type", GGUF_I32, n - (seldom(d, 64) && n > 0));
		for (uint32_t i = 0; i < n; i++) {
			uint32_t type = i < n_bytes ? (stands ? TOK_NORMAL : TOK_BYTE) : TOK_NORMAL;
			if (i >= n_bytes && seldom(d, 8)) {
				type = below(d, 64) % 9;
				made->plain &= type == TOK_NORMAL || type == TOK_UNUSED;
			}
			put_u32(w, type);
		}
	}
	if (!seldom(d, 16)) {
		kv_array(w, "scores", GGUF_F32, n);
		for (uint32_t i = 0; i < n; i++)
			put_f32(w, i < n_bytes ? 0.0f : any_score(d));
	}
	if (!seldom(d, 16))
		put_merges(d, w);
	const char *pre = pres[below(d, N_OF(pres))];
	if (!seldom(d, 8)) {
		kv_str(w, "pre", pre);
		/* This one composes characters; that one is of characters, with bytes of the other form. */
		made->plain &= strcmp(pre, "qwen2") != 0 && strcmp(pre, "gemma4") != 0;
	}
	put_roles(d, w, n ? n : 1);
	put_n_kv(w);
}

/* ---- Using it ---- */

/* Token by token, as a stream shows a text. */
static void check_decode(const struct tok *t, const cohort_token *ids, size_t n_ids, const struct made *made,
		const char *text, size_t n_text)
{
	struct cohort_detok d = {.special = true, .at_start = true};
	size_t n_max = 4, n = 0, got, n_whole = 0;

	for (size_t i = 0; i < n_ids; i++) {
		size_t len = 0;
		check(ids[i] >= 0 && ids[i] < tok_n_vocab(t) && tok_bytes(t, ids[i], true, &len),
				"a token of no vocabulary");
		n_max += len;
	}
	char *back = malloc(n_max), *whole = malloc(n_max);
	check(back && whole, "memory");
	for (size_t i = 0; i < n_ids; i++) {
		check(!tok_detok_push(t, &d, ids[i], back + n, n_max - n, &got, NULL), "decoding failed");
		n += got;
	}
	n += tok_detok_flush(&d, back + n);
	check(!tok_detokenize(t, ids, n_ids, true, whole, n_max, &n_whole, NULL), "decoding at once failed");
	check(n == n_whole && memcmp(back, whole, n) == 0, "pieces and the whole differ");
	check(!made->plain || (n == n_text && memcmp(back, text, n) == 0), "another text comes back");
	free(back);
	free(whole);
}

static void use(const struct tok *t, struct dice *d, const struct made *made)
{
	const unsigned flags = below(d, 2) ? COHORT_TOKENIZE_SPECIAL : 0;
	char made_text[WORDS_MAX * WORD_MAX];
	const bool words =
			below(d, 2); /* of the same characters as the vocabulary, or the rest of the input as it is */
	const size_t n_words = words ? any_text(d, made_text, WORDS_MAX) : 0;
	const char *text = words ? made_text : (const char *)d->bytes + d->at;
	const size_t n = words ? n_words : d->n - d->at;
	cohort_token *ids = NULL, *again = NULL;
	struct cohort_err err = {0};
	size_t n_ids = 0, n_again = 0;

	const enum cohort_status st = tok_encode(t, text, n, flags | COHORT_TOKENIZE_NO_BOS, &ids, &n_ids, &err);
	if (st) {
		check(st == COHORT_E_UNSUPPORTED && *err.text && !made->plain, "a text is refused");
		return;
	}
	check(!tok_encode(t, text, n, flags | COHORT_TOKENIZE_NO_BOS, &again, &n_again, NULL) && n_again == n_ids &&
					(n_ids == 0 || memcmp(ids, again, n_ids * sizeof *ids) == 0),
			"other tokens the second time");
	check_decode(t, ids, n_ids, made, text, n);
	mem_free(ids);
	mem_free(again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	struct cohort_err err = {0};
	struct file w = {0};
	struct made made;
	struct tok *t = NULL;
	struct gguf g;
	struct dice d;

	if (n > INPUT_MAX)
		return 0;
	dice_bytes(&d, data, n);
	put_vocab(&d, &w, &made);
	if (gguf_parse(&g, w.d, w.n, no_tensor, &err) == COHORT_OK) {
		const enum cohort_status st = tok_open(&t, &g, &err);
		gguf_release(&g);
		if (st)
			check(*err.text && st != COHORT_E_BUG && st != COHORT_E_MEMORY && !t,
					"a refusal without a reason");
		else
			use(t, &d, &made);
		tok_free(t);
	}
	file_release(&w);
	return 0;
}
