/* Any bytes through every kind of tokeniser and back: the tokens' bytes must be the text again where the kind keeps it,
 * and give the same tokens where it keeps a normal form.
 *
 * The first byte of the input chooses the vocabulary and whether special tokens are parsed; the rest is the text, or
 * for the last choice half of it a character map and half the text. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gguf_writer.h"

#include "base/mem.h"
#include "base/utf8.h"
#include "tok/tok.h"

#define MARK "\xe2\x96\x81"
#define N_OF(a) (sizeof(a) / sizeof *(a))

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static void check(bool ok, const char *what)
{
	if (!ok) {
		fprintf(stderr, "fuzz_tok: %s\n", what);
		abort();
	}
}

/* ---- A vocabulary in memory ------------------------------------------------------ */

static const char *const spm_texts[] = {
	MARK, "a", "b", "ab", "ba", "aa", "aaaa", (MARK "a"), (MARK MARK), ("b" MARK), "\xc3\xa9",
};
static const char *const bpe_texts[] = {
	"ab", "ba", "aa", "aaaa", ("\xc4\xa0" "a"), "\xc4\xa0\xc4\xa0", "\xc3\x83\xc2\xa9", "aba",
};
static const char *const bpe_merges[] = {
	"a b", "b a", "a a", "aa aa", "\xc4\xa0 a", "\xc4\xa0 \xc4\xa0", "\xc3\x83 \xc2\xa9", "ab a",
};
static const char *const chars_merges[] = {"a b", "b a", "a a", "aa aa", (MARK " a"), (MARK " " MARK)};
static const char *const specials[] = {"<s>", "<|a|>", "<|a", "<u>", "<u>a"};
enum { N_CONTROL = 3 };

/* Text number b of the 256 byte tokens. */
static void byte_text(bool spm, unsigned b, char out[8])
{
	static uint32_t next;
	bool printable = (b >= '!' && b <= '~') || (b >= 0xa1 && b <= 0xac) || b >= 0xae;

	if (b == 0)
		next = 0x100;
	if (spm)
		snprintf(out, 8, "<0x%02X>", b);
	else
		out[utf8_encode(printable ? b : next++, out)] = '\0';
}

enum kind { SPM, BPE, CHARS, WORDPIECE, UNIGRAM };

static const struct {
	enum kind kind;
	const char *pre;
	bool nfc;
} variants[] = {
	{SPM, NULL, false}, {BPE, "gpt-2", false}, {BPE, "llama-bpe", false}, {BPE, "qwen2", true},
	{BPE, "starcoder", false}, {BPE, "deepseek-coder", false}, {CHARS, "gemma4", false},
	{WORDPIECE, NULL, false}, {UNIGRAM, NULL, false},
	{BPE, "gpt-4o", false}, {BPE, "deepseek-llm", false}, {BPE, "deepseek-v3", false}, {BPE, "kimi-k2", false},
	{BPE, "tiny_aya", false}, {BPE, "exaone-moe", false}, {BPE, "jais-2", false}, {BPE, "chameleon", false},
};

/* map: for Unigram, what the file has as its character map. */
static enum cohort_status make(enum kind kind, const char *pre, const uint8_t *map, size_t n_map, struct tok **out)
{
	static const char *const models[] = {"llama", "gpt2", "gpt2", "bert", "t5"};
	const bool bpe = kind == BPE;
	const char *const *texts = bpe ? bpe_texts : spm_texts;
	size_t n_texts = bpe ? N_OF(bpe_texts) : N_OF(spm_texts), n = 256 + n_texts + N_OF(specials);
	struct file w = {0};
	struct gguf g;
	char text[8];

	put_header(&w, 3, 0, 0);
	put_kv_str(&w, "tokenizer.ggml.model", models[kind]);
	put_array(&w, "tokenizer.ggml.tokens", GGUF_STRING, n);
	for (unsigned b = 0; b < 256; b++) {
		byte_text(!bpe, b, text);
		put_str(&w, text);
	}
	for (size_t i = 0; i < n_texts; i++)
		put_str(&w, texts[i]);
	for (size_t i = 0; i < N_OF(specials); i++)
		put_str(&w, specials[i]);
	put_array(&w, "tokenizer.ggml.token_type", GGUF_I32, n);
	for (size_t i = 0; i < n; i++)
		put_u32(&w, i < 256 ? (bpe ? TOK_NORMAL : TOK_BYTE) : i < 256 + n_texts ? TOK_NORMAL
				: i < 256 + n_texts + N_CONTROL ? TOK_CONTROL : TOK_USER);
	if (kind == SPM || kind == UNIGRAM) {
		put_array(&w, "tokenizer.ggml.scores", GGUF_F32, n);
		for (size_t i = 0; i < n; i++)
			put_f32(&w, -(float)(i % 7)); /* ties included */
	}
	if (kind == BPE || kind == CHARS) {
		const char *const *merges = bpe ? bpe_merges : chars_merges;
		size_t n_merges = bpe ? N_OF(bpe_merges) : N_OF(chars_merges);
		put_kv_str(&w, "tokenizer.ggml.pre", pre);
		put_array(&w, "tokenizer.ggml.merges", GGUF_STRING, n_merges);
		for (size_t i = 0; i < n_merges; i++)
			put_str(&w, merges[i]);
	}
	if (kind == WORDPIECE)
		put_kv_u32(&w, "tokenizer.ggml.unknown_token_id", 0);
	if (map) {
		put_array(&w, "tokenizer.ggml.precompiled_charsmap", GGUF_U8, n_map);
		put(&w, map, n_map);
	}
	put_n_kv(&w);
	check(gguf_parse(&g, w.d, w.n, no_tensor, NULL) == COHORT_OK, "the built-in GGUF was refused");
	enum cohort_status st = tok_open(out, &g, NULL);
	gguf_release(&g);
	file_release(&w);
	return st;
}

/* The first bytes of the input are a map, with its own idea of how long its trie is. */
static void any_map(const uint8_t *data, size_t n)
{
	size_t n_map = n / 2;
	struct tok *t;
	cohort_token *ids;
	size_t n_ids;

	if (make(UNIGRAM, NULL, data, n_map, &t) == COHORT_OK) {
		const char *text = (const char *)data + n_map;
		enum cohort_status st = tok_encode(t, text, n - n_map, COHORT_TOKENIZE_NO_BOS, &ids, &n_ids, NULL);
		check(st == COHORT_OK, "encoding failed");
		for (size_t i = 0; i < n_ids; i++)
			check(ids[i] >= 0 && ids[i] < tok_n_vocab(t), "a token outside the vocabulary");
		mem_free(ids);
		tok_free(t);
	}
}

/* ---- The property ---------------------------------------------------------------------- */

/* What decoding must give. SPM takes U+2581 for a space and puts a space behind each special token that text follows,
 * so there the text is compared with its spaces and marks left out. */
static size_t without_spaces(char *s, size_t n)
{
	size_t o = 0;

	for (size_t i = 0; i < n; i++) {
		if (s[i] == ' ')
			continue;
		if (n - i >= 3 && memcmp(s + i, MARK, 3) == 0)
			i += 2;
		else
			s[o++] = s[i];
	}
	return o;
}

static bool has_special(const char *s, size_t n)
{
	for (size_t i = 0; i < n; i++)
		for (size_t k = 0; k < N_OF(specials); k++)
			if (n - i >= strlen(specials[k]) && memcmp(s + i, specials[k], strlen(specials[k])) == 0)
				return true;
	return false;
}

static bool has_mark(const char *s, size_t n)
{
	for (size_t i = 0; i + 3 <= n; i++)
		if (memcmp(s + i, MARK, 3) == 0)
			return true;
	return false;
}

static char *decode_all(const struct tok *t, const cohort_token *ids, size_t n_ids, size_t n_max, size_t *n)
{
	struct cohort_detok d = {.special = true, .at_start = true};
	char *back = mem_alloc(n_max, 1);
	size_t got;

	check(back, "out of memory");
	*n = 0;
	for (size_t i = 0; i < n_ids; i++) {
		size_t before = d.n_held, len;
		check(tok_bytes(t, ids[i], true, &len) != NULL, "a token outside the vocabulary");
		check(tok_detok_push(t, &d, ids[i], back + *n, n_max - *n, &got, NULL) == COHORT_OK, "decoding failed");
		check(d.n_held <= 3 && got + d.n_held <= before + len, "bytes from nowhere");
		*n += got;
	}
	*n += tok_detok_flush(&d, back + *n);
	return back;
}

/* A text in form C gives the same tokens again. */
static void check_again(const struct tok *t, const char *text, size_t n, unsigned flags, const cohort_token *want,
		size_t n_want)
{
	cohort_token *ids;
	size_t n_ids;

	check(tok_encode(t, text, n, flags, &ids, &n_ids, NULL) == COHORT_OK, "encoding again failed");
	check(n_ids == n_want && memcmp(ids, want, n_want * sizeof *ids) == 0, "other tokens the second time");
	mem_free(ids);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	static struct tok *toks[N_OF(variants)];
	cohort_token *ids = NULL;
	size_t n_ids = 0, n_back = 0;

	if (n < 1)
		return 0;
	size_t k = (data[0] >> 1) % (N_OF(variants) + 1);
	unsigned flags = COHORT_TOKENIZE_NO_BOS | (data[0] & 1 ? COHORT_TOKENIZE_SPECIAL : 0);
	if (k == N_OF(variants)) {
		any_map(data + 1, n - 1);
		return 0;
	}
	const enum kind kind = variants[k].kind;
	if (!toks[k])
		check(!make(kind, variants[k].pre, NULL, 0, &toks[k]), "the built-in vocabulary was refused");
	const struct tok *t = toks[k];
	char *text = mem_dup(data + 1, n - 1);
	size_t n_text = n - 1;

	check(text, "out of memory");
	check(tok_encode(t, text, n_text, flags, &ids, &n_ids, NULL) == COHORT_OK, "encoding failed");
	check(n_ids <= 3 * n_text + 8, "more tokens than bytes allow");
	/* SPM puts a space in front of each text; WordPiece has tokens of five bytes for unknown words of one. */
	char *back = decode_all(t, ids, n_ids, 16 * n_text + 16, &n_back);
	const bool whole = utf8_valid_prefix(text, n_text) == n_text;
	if (kind == WORDPIECE || (kind == UNIGRAM && !whole)) {
		n_back = n_text = 0;
	} else if (variants[k].nfc) {
		/* Characters on both sides of a byte that is none may come together in the result. */
		if (whole)
			check_again(t, back, n_back, flags, ids, n_ids);
		n_back = n_text = 0;
	} else if (kind != BPE && (has_special(text, n_text) || has_mark(text, n_text))) {
		n_text = without_spaces(text, n_text);
		n_back = without_spaces(back, n_back);
	}
	check(n_back == n_text && memcmp(back, text, n_text) == 0, "decoded text differs");
	mem_free(back);
	mem_free(ids);
	mem_free(text);
	return 0;
}
