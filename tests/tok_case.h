/* What the tests of the tokeniser share: small vocabularies, written as GGUF in memory and read back, and what a text
 * must become with them. */
#ifndef TESTS_TOK_CASE_H
#define TESTS_TOK_CASE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#include "gguf_writer.h"

#include "base/mem.h"
#include "base/utf8.h"
#include "tok/tok_impl.h"

#define M "\xe2\x96\x81"
#define G "\xc4\xa0" /* U+0120, the stand-in for a space */
#define N_OF(a) (sizeof(a) / sizeof *(a))
#define NO_BOS COHORT_TOKENIZE_NO_BOS
#define SPECIAL COHORT_TOKENIZE_SPECIAL

/* A key of the tokeniser's. */
static inline void vocab_key(struct file *w, const char *key, enum gguf_type type)
{
	char full[64];

	snprintf(full, sizeof full, "tokenizer.ggml.%s", key);
	put_key(w, full, (uint32_t)type);
}

static inline void kv_str(struct file *w, const char *key, const char *s)
{
	vocab_key(w, key, GGUF_STRING);
	put_str(w, s);
}

static inline void kv_u32(struct file *w, const char *key, uint32_t v)
{
	vocab_key(w, key, GGUF_U32);
	put_u32(w, v);
}

static inline void kv_bool(struct file *w, const char *key, bool v)
{
	vocab_key(w, key, GGUF_BOOL);
	put(w, &v, 1);
}

static inline void kv_array(struct file *w, const char *key, enum gguf_type type, uint64_t n)
{
	vocab_key(w, key, GGUF_ARRAY);
	put_u32(w, (uint32_t)type);
	put_u64(w, n);
}

struct piece {
	const char *text;
	int type;
	float score;
};

#define PIECES_MAX 400
#define TEXT_MAX 32

struct vocab {
	enum tok_kind kind;
	char text[PIECES_MAX][TEXT_MAX];
	int type[PIECES_MAX];
	float score[PIECES_MAX];
	size_t n;
	const char *last; /* in place of the last text: of any length */
	const char *const *merges;
	size_t n_merges;
	struct file w;
	struct gguf g;
	struct tok *t;
};

static inline void piece(struct vocab *v, const char *text, int type, float score)
{
	assert_true(v->n < PIECES_MAX && strlen(text) < TEXT_MAX);
	strcpy(v->text[v->n], text);
	v->type[v->n] = type;
	v->score[v->n++] = score;
}

static const struct piece spm_pieces[] = {
	{M, 1, -20}, {"a", 1, -21}, {"b", 1, -22}, {"c", 1, -23}, {"h", 1, -24}, {"i", 1, -25}, {"\xc3\xa9", 1, -26},
	{"ab", 1, -1}, {"bc", 1, -2}, {"abc", 1, -3}, {M "a", 1, -4}, {"aa", 1, -5}, {"aaaa", 1, -6},
	{M M, 1, -7}, {M M M M, 1, -8}, {"hi", 1, -9}, {M "hi", 1, -10}, {"<", 1, -30}, {"s", 1, -31}, {">", 1, -32},
	{"<s", 1, -11}, {"a b", 1, 0}, {"ab", 1, 5},
	{"<|user|>", 3, 0}, {"<|us", 3, 0}, {"<x>", 4, 0}, {"<xx>", 4, 0}, {"<x>y", 4, 0}, {"<|end|>", 3, 0},
	{"<never>", 2, 0}, {"<unused>", 5, 0},
};

static inline void spm_vocab(struct vocab *v, bool bytes)
{
	memset(v, 0, sizeof *v);
	v->kind = TOK_SPM;
	piece(v, "<unk>", TOK_UNKNOWN, 0);
	piece(v, "<s>", TOK_CONTROL, 0);
	piece(v, "</s>", TOK_CONTROL, 0);
	for (unsigned b = 0; bytes && b < 256; b++) {
		char text[8];
		snprintf(text, sizeof text, "<0x%02X>", b);
		piece(v, text, TOK_BYTE, 0);
	}
	for (size_t i = 0; i < N_OF(spm_pieces); i++)
		piece(v, spm_pieces[i].text, spm_pieces[i].type, spm_pieces[i].score);
}

/* GPT-2's table the way its authors made it: printable bytes first, then the others from U+0100. */
static inline void stand_ins(char table[256][3])
{
	uint32_t next = 0x100;

	memset(table, 0, 256 * 3);
	for (unsigned b = 0; b < 256; b++) {
		bool printable = (b >= '!' && b <= '~') || (b >= 0xa1 && b <= 0xac) || b >= 0xae;
		char c[4];
		size_t n = utf8_encode(printable ? b : next++, c);
		memcpy(table[b], c, n);
	}
}

static const char *const bpe_merges[] = {
	"a b", "b c", "a a", "aa aa", G " " G, G "a b", "h e", "he l", "l o", G " h", "nope a", "a nope", "x z",
	"\xc3\x83 \xc2\xa9", "a b", "c ab",
};

static inline void bpe_vocab(struct vocab *v)
{
	char table[256][3];

	memset(v, 0, sizeof *v);
	v->kind = TOK_BPE;
	stand_ins(table);
	for (unsigned b = 0; b < 256; b++)
		piece(v, table[b], TOK_NORMAL, 0);
	static const struct piece more[] = {
		{"ab", 1, 0}, {"bc", 1, 0}, {"aa", 1, 0}, {"aaaa", 1, 0}, {G G, 1, 0}, {"he", 1, 0}, {"hel", 1, 0},
		{"lo", 1, 0}, {G "h", 1, 0}, {"\xc3\x83\xc2\xa9", 1, 0}, {"cab", 1, 0}, {"hello", 1, 0}, {"bca", 1, 0},
		{"<|bos|>", 3, 0}, {"<|im_end|>", 3, 0}, {"<x>", 4, 0}, {"\xe2\x9c\x93", 1, 0}, {"<|im_end|>", 4, 0},
	};
	for (size_t i = 0; i < N_OF(more); i++)
		piece(v, more[i].text, more[i].type, more[i].score);
	v->merges = bpe_merges;
	v->n_merges = N_OF(bpe_merges);
}

enum { HAS_MODEL = 1, HAS_TOKENS = 2, HAS_SCORES = 4, HAS_TYPES = 8, HAS_MERGES = 16, HAS_IDS = 32, HAS_ALL = 63 };

#define WITHOUT(x) (HAS_ALL & ~(unsigned)(x))

static inline void w_vocab(struct vocab *v, unsigned has)
{
	static const char *const models[] = {"llama", "gpt2", "bert", "t5"};
	struct file *w = &v->w;

	put_header(w, 3, 0, 0);
	if (has & HAS_MODEL)
		kv_str(w, "model", models[v->kind]);
	if (has & HAS_TOKENS) {
		kv_array(w, "tokens", GGUF_STRING, v->n);
		for (size_t i = 0; i < v->n; i++)
			put_str(w, v->last && i + 1 == v->n ? v->last : v->text[i]);
	}
	if ((has & HAS_SCORES) && (v->kind == TOK_SPM || v->kind == TOK_UNIGRAM)) {
		kv_array(w, "scores", GGUF_F32, v->n);
		put(w, v->score, v->n * sizeof *v->score);
	}
	if (has & HAS_TYPES) {
		kv_array(w, "token_type", GGUF_I32, v->n);
		put(w, v->type, v->n * sizeof *v->type);
	}
	if ((has & HAS_MERGES) && v->kind == TOK_BPE) {
		kv_array(w, "merges", GGUF_STRING, v->n_merges);
		for (size_t i = 0; i < v->n_merges; i++)
			put_str(w, v->merges[i]);
	}
	if ((has & HAS_IDS) && (v->kind == TOK_SPM || v->kind == TOK_BPE)) {
		uint32_t bos = v->kind == TOK_SPM ? 1 : 256 + 13;
		kv_u32(w, "bos_token_id", bos);
		kv_u32(w, "eos_token_id", v->kind == TOK_SPM ? 2 : bos);
		if (v->kind == TOK_SPM)
			kv_u32(w, "unknown_token_id", 0);
	}
}

static inline void parse(struct vocab *v)
{
	struct cohort_err err = {0};

	put_n_kv(&v->w);
	if (gguf_parse(&v->g, v->w.d, v->w.n, no_tensor, &err))
		fail_msg("%s", err.text);
}

static inline void done(struct vocab *v)
{
	tok_free(v->t);
	gguf_release(&v->g);
	file_release(&v->w);
	v->t = NULL;
}

static inline void open_ok(struct vocab *v)
{
	struct cohort_err err = {0};

	parse(v);
	if (tok_open(&v->t, &v->g, &err))
		fail_msg("%s", err.text);
}

static inline void spm_open(struct vocab *v)
{
	spm_vocab(v, true);
	w_vocab(v, HAS_ALL);
	open_ok(v);
}

static inline void bpe_open(struct vocab *v, const char *pre)
{
	bpe_vocab(v);
	w_vocab(v, HAS_ALL);
	if (pre)
		kv_str(&v->w, "pre", pre);
	open_ok(v);
}

static const struct piece wordpiece_pieces[] = {
	{"[PAD]", 3, 0}, {"[UNK]", 3, 0}, {"[CLS]", 3, 0}, {"[SEP]", 3, 0}, {"[MASK]", 3, 0}, {"[unused0]", 1, 0},
	{M "hello", 1, 0}, {M "wor", 1, 0}, {"ld", 1, 0}, {M "un", 1, 0}, {"aff", 1, 0}, {"able", 1, 0}, {"ab", 1, 0},
	{M ",", 1, 0}, {M "!", 1, 0}, {M "$", 1, 0}, {M "cafe", 1, 0}, {M "caf\xc3\xa9", 1, 0}, {M "naive", 1, 0},
	{M "\xe4\xb8\xad", 1, 0}, {M "\xe6\x96\x87", 1, 0}, {M "a", 1, 0}, {"a", 1, 0}, {"b", 1, 0}, {M "b", 1, 0},
	{M "ab", 1, 0}, {M "stra", 1, 0}, {"\xc3\x9f" "e", 1, 0}, {M "istanbul", 1, 0}, {M "i", 1, 0},
	{"\xcc\x87", 1, 0}, {M "[", 1, 0}, {M "]", 1, 0}, {M "mask", 1, 0}, {M "Hello", 1, 0},
	{"<u>", 4, 0}, {M "\xe8\xb1\x88", 1, 0},
};

static inline void wordpiece_vocab(struct vocab *v)
{
	memset(v, 0, sizeof *v);
	v->kind = TOK_WORDPIECE;
	for (size_t i = 0; i < N_OF(wordpiece_pieces); i++)
		piece(v, wordpiece_pieces[i].text, wordpiece_pieces[i].type, 0);
}

static const struct piece unigram_pieces[] = {
	{M, 1, -3}, {"a", 1, -4}, {"b", 1, -4.5f}, {"c", 1, -5}, {"ab", 1, -6}, {"bc", 1, -6.25f}, {"abc", 1, -12},
	{M "a", 1, -5}, {M "ab", 1, -9}, {"f", 1, -7}, {"i", 1, -7}, {"fi", 1, -8},
	{"\xc3\xa9", 1, -7.5f}, {"A", 1, -6}, {M "hi", 1, -6}, {"h", 1, -9}, {"\xe4\xb8\xad", 1, -9.5f},
	{"aa", 1, -8}, {"aaaa", 1, -15.5f}, {"[x]", 5, 0}, {"<e0>", 4, 0},
};

static inline void unigram_vocab(struct vocab *v, bool bytes)
{
	memset(v, 0, sizeof *v);
	v->kind = TOK_UNIGRAM;
	piece(v, "<pad>", TOK_CONTROL, 0);
	piece(v, "</s>", TOK_CONTROL, 0);
	piece(v, "<unk>", TOK_UNKNOWN, 0);
	for (size_t i = 0; i < N_OF(unigram_pieces); i++)
		piece(v, unigram_pieces[i].text, unigram_pieces[i].type, unigram_pieces[i].score);
	for (unsigned b = 0; bytes && b < 256; b++) {
		char text[8];
		snprintf(text, sizeof text, "<0x%02X>", b);
		piece(v, text, TOK_BYTE, 0);
	}
}

/* BPE of characters, with bytes for those it does not have. */
static const char *const chars_merges[] = {"a b", M " a", "ab c", M " " M, "\xc3\xa9 a"};

static inline void chars_vocab(struct vocab *v)
{
	static const char *const more[] = {
		M, "a", "b", "c", "ab", "abc", M "a", M M, "\n", "\n\n", "\xc3\xa9", ("\xc3\xa9" "a"),
	};

	memset(v, 0, sizeof *v);
	v->kind = TOK_BPE;
	for (unsigned b = 0; b < 256; b++) {
		char text[8];
		snprintf(text, sizeof text, "<0x%02X>", b);
		piece(v, text, TOK_BYTE, 0);
	}
	for (size_t i = 0; i < N_OF(more); i++)
		piece(v, more[i], TOK_NORMAL, 0);
	piece(v, "<bos>", TOK_CONTROL, 0);
	v->merges = chars_merges;
	v->n_merges = N_OF(chars_merges);
}

static inline void chars_open(struct vocab *v)
{
	chars_vocab(v);
	w_vocab(v, HAS_ALL & ~(unsigned)HAS_IDS);
	kv_str(&v->w, "pre", "gemma4");
	kv_u32(&v->w, "bos_token_id", (uint32_t)v->n - 1);
	open_ok(v);
}

static inline void wordpiece_open(struct vocab *v)
{
	wordpiece_vocab(v);
	w_vocab(v, HAS_ALL);
	open_ok(v);
}

/* The longest token that a vocabulary like make's may have, and one byte more: those made a text take as much longer as
 * they are. Seen red without the limit. */
static inline void longest_token(void (*make)(struct vocab *v, bool bytes), bool bytes)
{
	static char text[1026];
	struct vocab v;

	for (size_t n = 1024; n <= 1025; n++) {
		struct cohort_err err = {0};
		char part[64];
		memset(text, 'a', n);
		make(&v, bytes);
		piece(&v, "", TOK_NORMAL, -1);
		v.last = text;
		w_vocab(&v, HAS_ALL);
		parse(&v);
		snprintf(part, sizeof part, "token %zu has 1025 bytes", v.n - 1);
		assert_int_equal(tok_open(&v.t, &v.g, &err), n == 1024 ? COHORT_OK : COHORT_E_LIMIT);
		assert_true(n == 1024 || strstr(err.text, part));
		done(&v);
	}
}

static inline cohort_token id_of(const struct vocab *v, const char *text)
{
	for (size_t i = 0; i < v->n; i++)
		if (strcmp(v->text[i], text) == 0)
			return (cohort_token)i;
	fail_msg("no token %s", text);
	return -1;
}

/* The tokens of text are those with the given vocabulary texts (the first of equal texts), ended by NULL. */
static inline void expect_n(struct vocab *v, const char *text, size_t n, unsigned flags, const char *const *want)
{
	cohort_token *ids;
	size_t n_ids, i;
	struct cohort_err err = {0};

	if (tok_encode(v->t, text, n, flags, &ids, &n_ids, &err))
		fail_msg("%s", err.text);
	for (i = 0; i < n_ids && want[i]; i++)
		if (strcmp(v->text[ids[i]], want[i]) != 0)
			fail_msg("\"%s\": token %zu is \"%s\", wanted \"%s\"", text, i, v->text[ids[i]], want[i]);
	if (i < n_ids || want[i])
		fail_msg("\"%s\": %zu tokens; wanted next: %s", text, n_ids, want[i] ? want[i] : "the end");
	mem_free(ids);
}

#define EXPECT(v, text, flags, ...) \
	expect_n(v, text, sizeof(text) - 1, flags, (const char *const[]){__VA_ARGS__, NULL})
#define EXPECT_NONE(v, text, flags) \
	expect_n(v, text, sizeof(text) - 1, flags, (const char *const[]){NULL})

static inline char *decode(const struct tok *t, const cohort_token *ids, size_t n_ids, bool special, bool at_start,
		size_t *n)
{
	struct cohort_detok d = {.special = special, .at_start = at_start};
	char *out = NULL, tail[4];
	size_t n_max = 0, got;

	*n = 0;
	for (size_t i = 0; i < n_ids; i++) {
		assert_true(mem_grow((void **)&out, &n_max, *n + TEXT_MAX + 8, 1));
		assert_int_equal(tok_detok_push(t, &d, ids[i], out + *n, n_max - *n, &got, NULL), COHORT_OK);
		*n += got;
		assert_true(d.n_held <= 3);
	}
	got = tok_detok_flush(&d, tail);
	assert_true(mem_grow((void **)&out, &n_max, *n + got + 1, 1));
	memcpy(out + *n, tail, got);
	*n += got;
	return out;
}

static inline void round_trip(const struct tok *t, const char *text, size_t n)
{
	cohort_token *ids;
	size_t n_ids, n_back;

	assert_int_equal(tok_encode(t, text, n, NO_BOS, &ids, &n_ids, NULL), COHORT_OK);
	char *back = decode(t, ids, n_ids, true, true, &n_back);
	assert_int_equal(n_back, n);
	assert_memory_equal(back, text, n);
	mem_free(back);
	mem_free(ids);
}

#endif
