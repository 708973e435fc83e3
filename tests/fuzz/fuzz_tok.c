/* Any bytes through both kinds of tokeniser and back: the tokens' bytes must be the text again.
 *
 * The first byte of the input chooses the vocabulary (SPM, or BPE with one of the pre-tokenisers) and whether special
 * tokens are parsed; the rest is the text. */
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

static const char *const pres[] = {"gpt-2", "llama-bpe", "qwen2", "starcoder", "deepseek-coder"};
static const char *const spm_texts[] = {
	MARK, "a", "b", "ab", "ba", "aa", "aaaa", (MARK "a"), (MARK MARK), ("b" MARK), "\xc3\xa9",
};
static const char *const bpe_texts[] = {
	"ab", "ba", "aa", "aaaa", ("\xc4\xa0" "a"), "\xc4\xa0\xc4\xa0", "\xc3\x83\xc2\xa9", "aba",
};
static const char *const bpe_merges[] = {
	"a b", "b a", "a a", "aa aa", "\xc4\xa0 a", "\xc4\xa0 \xc4\xa0", "\xc3\x83 \xc2\xa9", "ab a",
};
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

static struct tok *make(bool spm, const char *pre)
{
	const char *const *texts = spm ? spm_texts : bpe_texts;
	size_t n_texts = spm ? N_OF(spm_texts) : N_OF(bpe_texts), n = 256 + n_texts + N_OF(specials);
	struct file w = {0};
	struct gguf g;
	struct tok *t;
	char text[8];

	put_header(&w, 3, 0, 0);
	put_kv_str(&w, "tokenizer.ggml.model", spm ? "llama" : "gpt2");
	put_array(&w, "tokenizer.ggml.tokens", GGUF_STRING, n);
	for (unsigned b = 0; b < 256; b++) {
		byte_text(spm, b, text);
		put_str(&w, text);
	}
	for (size_t i = 0; i < n_texts; i++)
		put_str(&w, texts[i]);
	for (size_t i = 0; i < N_OF(specials); i++)
		put_str(&w, specials[i]);
	put_array(&w, "tokenizer.ggml.token_type", GGUF_I32, n);
	for (size_t i = 0; i < n; i++)
		put_u32(&w, i < 256 ? (spm ? TOK_BYTE : TOK_NORMAL) : i < 256 + n_texts ? TOK_NORMAL
				: i < 256 + n_texts + N_CONTROL ? TOK_CONTROL : TOK_USER);
	if (spm) {
		put_array(&w, "tokenizer.ggml.scores", GGUF_F32, n);
		for (size_t i = 0; i < n; i++)
			put_f32(&w, -(float)(i % 7)); /* ties included */
	} else {
		put_kv_str(&w, "tokenizer.ggml.pre", pre);
		put_array(&w, "tokenizer.ggml.merges", GGUF_STRING, N_OF(bpe_merges));
		for (size_t i = 0; i < N_OF(bpe_merges); i++)
			put_str(&w, bpe_merges[i]);
	}
	put_n_kv(&w);
	check(gguf_parse(&g, w.d, w.n, no_tensor, NULL) == COHORT_OK, "the built-in GGUF was refused");
	check(tok_open(&t, &g, NULL) == COHORT_OK, "the built-in vocabulary was refused");
	gguf_release(&g);
	file_release(&w);
	return t;
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

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	static struct tok *toks[1 + N_OF(pres)];
	struct cohort_detok d = {.special = true, .at_start = true};
	cohort_token *ids = NULL;
	size_t n_ids = 0, n_back = 0, got;

	if (n < 1)
		return 0;
	size_t k = (data[0] >> 1) % N_OF(toks);
	unsigned flags = COHORT_TOKENIZE_NO_BOS | (data[0] & 1 ? COHORT_TOKENIZE_SPECIAL : 0);
	if (!toks[k])
		toks[k] = make(k == 0, k ? pres[k - 1] : NULL);
	const struct tok *t = toks[k];
	char *text = mem_dup(data + 1, n - 1);
	size_t n_text = n - 1;

	check(text, "out of memory");
	check(tok_encode(t, text, n_text, flags, &ids, &n_ids, NULL) == COHORT_OK, "encoding failed");
	/* A space in front of each text: at worst one-byte special tokens and one-byte texts in turn. */
	check(n_ids <= n_text + (k == 0 ? n_text / 2 + 1 : 0), "more tokens than bytes allow");
	char *back = mem_alloc(2 * n_text + 16, 1);
	check(back, "out of memory");
	for (size_t i = 0; i < n_ids; i++) {
		size_t before = d.n_held, len;
		check(tok_bytes(t, ids[i], true, &len) != NULL, "a token outside the vocabulary");
		check(tok_detok_push(t, &d, ids[i], back + n_back, 2 * n_text + 16 - n_back, &got, NULL) == COHORT_OK,
				"decoding failed");
		check(d.n_held <= 3 && got + d.n_held <= before + len, "bytes from nowhere");
		n_back += got;
	}
	n_back += tok_detok_flush(&d, back + n_back);
	if (k == 0 && (has_special(text, n_text) || has_mark(text, n_text))) {
		n_text = without_spaces(text, n_text);
		n_back = without_spaces(back, n_back);
	}
	check(n_back == n_text && memcmp(back, text, n_text) == 0, "decoded text differs");
	mem_free(back);
	mem_free(ids);
	mem_free(text);
	return 0;
}
