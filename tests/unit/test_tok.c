/* The tokeniser on small vocabularies made here: a GGUF in memory, read back by gguf_parse. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/utf8.h"
#include "gguf/gguf.h"
#include "tok/tok_impl.h"

#define MB ((size_t)1 << 20)
#define M "\xe2\x96\x81"
#define N_OF(a) (sizeof(a) / sizeof *(a))
#define NO_BOS COHORT_TOKENIZE_NO_BOS
#define SPECIAL COHORT_TOKENIZE_SPECIAL

/* ---- Writing a GGUF ----------------------------------------------------------- */

struct w {
	uint8_t *p;
	size_t n, n_max;
	uint64_t n_kv;
};

static void put(struct w *w, const void *p, size_t n)
{
	assert_true(mem_grow((void **)&w->p, &w->n_max, w->n + n, 1));
	if (n)
		memcpy(w->p + w->n, p, n);
	w->n += n;
}

static void put_u32(struct w *w, uint32_t v)
{
	put(w, &v, 4);
}

static void put_u64(struct w *w, uint64_t v)
{
	put(w, &v, 8);
}

static void put_str(struct w *w, const char *s, size_t n)
{
	put_u64(w, n);
	put(w, s, n);
}

static void put_key(struct w *w, const char *key, enum gguf_type type)
{
	char full[64];
	snprintf(full, sizeof full, "tokenizer.ggml.%s", key);
	put_str(w, full, strlen(full));
	put_u32(w, (uint32_t)type);
	w->n_kv++;
}

static void kv_str(struct w *w, const char *key, const char *s)
{
	put_key(w, key, GGUF_STRING);
	put_str(w, s, strlen(s));
}

static void kv_u32(struct w *w, const char *key, uint32_t v)
{
	put_key(w, key, GGUF_U32);
	put_u32(w, v);
}

static void kv_bool(struct w *w, const char *key, bool v)
{
	put_key(w, key, GGUF_BOOL);
	put(w, &v, 1);
}

static void kv_array(struct w *w, const char *key, enum gguf_type type, uint64_t n)
{
	put_key(w, key, GGUF_ARRAY);
	put_u32(w, (uint32_t)type);
	put_u64(w, n);
}

static void w_begin(struct w *w)
{
	*w = (struct w){0};
	put(w, "GGUF", 4);
	put_u32(w, 3);
	put_u64(w, 0);
	put_u64(w, 0);
}

/* ---- Vocabularies ---------------------------------------------------------------- */

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
	const char *const *merges;
	size_t n_merges;
	struct w w;
	struct gguf g;
	struct tok *t;
};

static void piece(struct vocab *v, const char *text, int type, float score)
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

static void spm_vocab(struct vocab *v, bool bytes)
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
static void stand_ins(char table[256][3])
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

#define G "\xc4\xa0" /* U+0120, the stand-in for a space */

static const char *const bpe_merges[] = {
	"a b", "b c", "a a", "aa aa", G " " G, G "a b", "h e", "he l", "l o", G " h", "nope a", "a nope", "x z",
	"\xc3\x83 \xc2\xa9", "a b", "c ab",
};

static void bpe_vocab(struct vocab *v)
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

static void w_vocab(struct vocab *v, unsigned has)
{
	struct w *w = &v->w;

	w_begin(w);
	if (has & HAS_MODEL)
		kv_str(w, "model", v->kind == TOK_SPM ? "llama" : "gpt2");
	if (has & HAS_TOKENS) {
		kv_array(w, "tokens", GGUF_STRING, v->n);
		for (size_t i = 0; i < v->n; i++)
			put_str(w, v->text[i], strlen(v->text[i]));
	}
	if ((has & HAS_SCORES) && v->kind == TOK_SPM) {
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
			put_str(w, v->merges[i], strlen(v->merges[i]));
	}
	if (has & HAS_IDS) {
		uint32_t bos = v->kind == TOK_SPM ? 1 : 256 + 13;
		kv_u32(w, "bos_token_id", bos);
		kv_u32(w, "eos_token_id", v->kind == TOK_SPM ? 2 : bos);
		if (v->kind == TOK_SPM)
			kv_u32(w, "unknown_token_id", 0);
	}
}

static bool no_tensor(uint32_t type, uint64_t ne0, uint64_t n_rows, uint64_t *n_bytes, bool *bad_row)
{
	(void)type, (void)ne0, (void)n_rows, (void)n_bytes, (void)bad_row;
	return false;
}

static void parse(struct vocab *v)
{
	struct cohort_err err = {0};

	memcpy(v->w.p + 16, &v->w.n_kv, 8);
	if (gguf_parse(&v->g, v->w.p, v->w.n, no_tensor, &err))
		fail_msg("%s", err.text);
}

static void done(struct vocab *v)
{
	tok_free(v->t);
	gguf_release(&v->g);
	mem_free(v->w.p);
	v->t = NULL;
	v->w = (struct w){0};
}

static void open_ok(struct vocab *v)
{
	struct cohort_err err = {0};

	parse(v);
	if (tok_open(&v->t, &v->g, &err))
		fail_msg("%s", err.text);
}

static void spm_open(struct vocab *v)
{
	spm_vocab(v, true);
	w_vocab(v, HAS_ALL);
	open_ok(v);
}

static void bpe_open(struct vocab *v, const char *pre)
{
	bpe_vocab(v);
	w_vocab(v, HAS_ALL);
	if (pre)
		kv_str(&v->w, "pre", pre);
	open_ok(v);
}

/* ---- Expectations ------------------------------------------------------------------- */

/* The tokens of text are those with the given vocabulary texts (the first of equal texts), ended by NULL. */
static void expect_n(struct vocab *v, const char *text, size_t n, unsigned flags, const char *const *want)
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

static char *decode(const struct tok *t, const cohort_token *ids, size_t n_ids, bool special, bool at_start, size_t *n)
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

static void round_trip(const struct tok *t, const char *text, size_t n)
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

/* ---- SPM ------------------------------------------------------------------------------ */

static void spm_merges(void **state)
{
	struct vocab v;
	(void)state;

	spm_open(&v);
	assert_int_equal(tok_get_kind(v.t), TOK_SPM);
	assert_string_equal(tok_pre(v.t), "");
	assert_string_equal(tok_note(v.t), "");
	assert_int_equal(tok_n_vocab(v.t), v.n);
	EXPECT_NONE(&v, "", NO_BOS);
	EXPECT(&v, "abc", NO_BOS, M, "abc");
	EXPECT(&v, "bca", NO_BOS, M, "bc", "a");
	EXPECT(&v, "hi hi", NO_BOS, M "hi", M "hi");
	EXPECT(&v, "aaaaa", NO_BOS, M "a", "aaaa");
	EXPECT(&v, "   ", NO_BOS, M M M M);
	EXPECT(&v, "b" M "hi", NO_BOS, M, "b", M "hi");
	/* A token with a space of its own cannot be reached; of equal texts the first counts, and its score. */
	EXPECT(&v, "a b", NO_BOS, M "a", M, "b");
	size_t n;
	assert_memory_equal(tok_bytes(v.t, 3 + 256, false, &n), " ", 1);
	assert_int_equal(n, 1);
	done(&v);
}

static void spm_leftmost(void **state)
{
	struct vocab v;
	(void)state;

	spm_vocab(&v, true);
	w_vocab(&v, HAS_ALL);
	kv_bool(&v.w, "add_space_prefix", false);
	open_ok(&v);
	assert_false(tok_adds_space(v.t));
	EXPECT(&v, "aaa", NO_BOS, "aa", "a");
	EXPECT(&v, "hi", NO_BOS, "hi");
	EXPECT(&v, " hi", NO_BOS, M "hi");
	round_trip(v.t, " hi", 3);
	done(&v);
}

static void spm_inner_space(void **state)
{
	struct vocab v;
	(void)state;

	spm_vocab(&v, true);
	piece(&v, "b" M, TOK_NORMAL, -0.5f);
	piece(&v, "b" M "c", TOK_NORMAL, -0.6f);
	w_vocab(&v, HAS_ALL);
	open_ok(&v);
	EXPECT(&v, "ab c", NO_BOS, M "a", "b" M "c");
	EXPECT(&v, "hi b hi", NO_BOS, M "hi", M, "b" M, "hi");
	done(&v);
}

static void spm_bytes(void **state)
{
	struct vocab v;
	(void)state;

	spm_open(&v);
	EXPECT(&v, "\n", NO_BOS, M, "<0x0A>");
	EXPECT(&v, "\xc3\xa9\xc3\xa8", NO_BOS, M, "\xc3\xa9", "<0xC3>", "<0xA8>");
	EXPECT(&v, "a\0a", NO_BOS, M "a", "<0x00>", "a");
	EXPECT(&v, "\xff\xc3" "a\xe2\x96", NO_BOS, M, "<0xFF>", "<0xC3>", "a", "<0xE2>", "<0x96>");
	round_trip(v.t, "\xff\xc3" "a\xe2\x96\0 \xc3\xa8", 9);
	/* What spells a byte token or a control token stays text. */
	EXPECT(&v, "<0x0A>", NO_BOS, M, "<", "<0x30>", "<0x78>", "<0x30>", "<0x41>", ">");
	EXPECT(&v, "<s>", NO_BOS, M, "<s", ">");
	done(&v);
}

static void spm_unknown(void **state)
{
	struct vocab v;
	struct cohort_err err = {0};
	cohort_token *ids = NULL;
	size_t n = 7;
	(void)state;

	spm_vocab(&v, false);
	w_vocab(&v, HAS_ALL);
	open_ok(&v);
	EXPECT(&v, "aza", NO_BOS, M "a", "<unk>", "a");
	EXPECT(&v, "\xe4\xb8\x80", NO_BOS, M, "<unk>");
	done(&v);

	spm_vocab(&v, false);
	v.type[0] = TOK_NORMAL;
	w_vocab(&v, HAS_ALL & ~(unsigned)HAS_IDS);
	open_ok(&v);
	for (size_t i = 0; i < v.n; i++)
		if (v.type[i] == TOK_UNKNOWN)
			assert_string_equal(v.text[i], "<never>");
	EXPECT(&v, "aza", NO_BOS, M "a", "<never>", "a");
	done(&v);

	spm_vocab(&v, false);
	for (size_t i = 0; i < v.n; i++)
		if (v.type[i] == TOK_UNKNOWN)
			v.type[i] = TOK_UNUSED;
	w_vocab(&v, HAS_ALL & ~(unsigned)HAS_IDS);
	open_ok(&v);
	assert_int_equal(tok_encode(v.t, "aza", 3, NO_BOS, &ids, &n, &err), COHORT_E_UNSUPPORTED);
	assert_non_null(strstr(err.text, "0x7a"));
	assert_null(ids);
	assert_int_equal(n, 7);
	done(&v);
}

/* ---- Special tokens, BOS, EOS ------------------------------------------------------- */

static void special_parsing(void **state)
{
	struct vocab v;
	(void)state;

	spm_open(&v);
	/* User-defined ones always, the longest at each place; a space behind each. */
	EXPECT(&v, "hi<x>hi", NO_BOS, M "hi", "<x>", M "hi");
	EXPECT(&v, "<x>y<xx><x>", NO_BOS, "<x>y", "<xx>", "<x>");
	EXPECT(&v, "<x<x>", NO_BOS, M, "<", "<0x78>", "<x>");
	/* Control tokens when asked. */
	EXPECT(&v, "<|user|>hi<s>", NO_BOS | SPECIAL, "<|user|>", M "hi", "<s>");
	EXPECT(&v, "<|us<|user", NO_BOS | SPECIAL, "<|us", "<|us", M, "<0x65>", "<0x72>");
	EXPECT(&v, "<|us", NO_BOS, M, "<", "<0x7C>", "<0x75>", "s");
	/* Unknown and unused ones never. */
	EXPECT(&v, "<never>", NO_BOS | SPECIAL, M, "<", "<0x6E>", "<0x65>", "<0x76>", "<0x65>", "<0x72>", ">");
	done(&v);

	bpe_open(&v, "gpt-2");
	EXPECT(&v, "ab<x>ab", NO_BOS, "ab", "<x>", "ab");
	EXPECT(&v, "<|bos|>ab", NO_BOS | SPECIAL, "<|bos|>", "ab");
	EXPECT(&v, "<|bos|>", NO_BOS, "<", "|", "b", "o", "s", "|", ">");
	/* One text, two tokens: the control token is first when asked for, else the user-defined one is found. */
	cohort_token *ids;
	size_t n;
	for (int special = 0; special < 2; special++) {
		unsigned flags = NO_BOS | (special ? SPECIAL : 0);
		assert_int_equal(tok_encode(v.t, "<|im_end|>", 10, flags, &ids, &n, NULL), COHORT_OK);
		assert_int_equal(n, 1);
		assert_int_equal(ids[0], special ? 256 + 14 : 256 + 17);
		mem_free(ids);
	}
	done(&v);
}

static void bos_eos(void **state)
{
	struct vocab v;
	cohort_token *ids;
	size_t n;
	(void)state;

	spm_open(&v);
	EXPECT(&v, "hi", 0, "<s>", M "hi");
	EXPECT(&v, "hi", COHORT_TOKENIZE_BOS, "<s>", M "hi");
	EXPECT(&v, "hi", NO_BOS, M "hi");
	EXPECT(&v, "", 0, "<s>");
	assert_int_equal(tok_encode(v.t, "", 0, 3, &ids, &n, NULL), COHORT_E_ARG);
	assert_int_equal(tok_encode(v.t, "", 0, 8, &ids, &n, NULL), COHORT_E_ARG);
	assert_int_equal(tok_encode(v.t, NULL, 1, 0, &ids, &n, NULL), COHORT_E_ARG);
	assert_int_equal(tok_encode(v.t, "a", TOK_TEXT_MAX + 1, 0, &ids, &n, NULL), COHORT_E_LIMIT);
	assert_int_equal(tok_encode(v.t, NULL, 0, NO_BOS, &ids, &n, NULL), COHORT_OK);
	assert_int_equal(n, 0);
	mem_free(ids);
	done(&v);

	spm_vocab(&v, true);
	w_vocab(&v, HAS_ALL);
	kv_bool(&v.w, "add_bos_token", false);
	kv_bool(&v.w, "add_eos_token", true);
	open_ok(&v);
	EXPECT(&v, "hi", 0, M "hi", "</s>");
	EXPECT(&v, "hi", COHORT_TOKENIZE_BOS, "<s>", M "hi", "</s>");
	EXPECT(&v, "hi", NO_BOS, M "hi");
	done(&v);

	bpe_open(&v, "gpt-2");
	EXPECT(&v, "ab", 0, "ab");
	EXPECT(&v, "ab", COHORT_TOKENIZE_BOS, "<|bos|>", "ab");
	assert_int_equal(tok_bos(v.t), 256 + 13);
	assert_int_equal(tok_eos(v.t), 256 + 13);
	done(&v);

	bpe_vocab(&v);
	w_vocab(&v, HAS_ALL & ~(unsigned)HAS_IDS);
	open_ok(&v);
	EXPECT(&v, "ab", COHORT_TOKENIZE_BOS, "ab");
	assert_int_equal(tok_bos(v.t), -1);
	assert_int_equal(tok_eos(v.t), -1);
	done(&v);
}

static cohort_token id_of(const struct vocab *v, const char *text)
{
	for (size_t i = 0; i < v->n; i++)
		if (strcmp(v->text[i], text) == 0)
			return (cohort_token)i;
	fail_msg("no token %s", text);
	return -1;
}

static void roles(void **state)
{
	struct vocab v;
	size_t n;
	(void)state;

	spm_vocab(&v, true);
	w_vocab(&v, HAS_ALL);
	kv_u32(&v.w, "eot_token_id", (uint32_t)id_of(&v, "hi"));
	kv_u32(&v.w, "eom_token_id", (uint32_t)id_of(&v, "aa"));
	open_ok(&v);
	assert_true(tok_is_eog(v.t, 2));
	assert_true(tok_is_eog(v.t, id_of(&v, "hi")));
	assert_true(tok_is_eog(v.t, id_of(&v, "aa")));
	assert_true(tok_is_eog(v.t, id_of(&v, "<|end|>")));
	assert_false(tok_is_eog(v.t, 1));
	assert_false(tok_is_eog(v.t, -1));
	assert_false(tok_is_eog(v.t, (cohort_token)v.n));
	assert_true(tok_is_control(v.t, 1));
	assert_false(tok_is_control(v.t, id_of(&v, "hi")));
	assert_false(tok_is_control(v.t, (cohort_token)v.n));
	assert_non_null(tok_bytes(v.t, 1, false, &n));
	assert_int_equal(n, 0);
	assert_memory_equal(tok_bytes(v.t, 1, true, &n), "<s>", 3);
	assert_int_equal(n, 3);
	tok_bytes(v.t, 0, false, &n);
	assert_int_equal(n, 0);
	assert_null(tok_bytes(v.t, -1, true, &n));
	assert_null(tok_bytes(v.t, (cohort_token)v.n, true, &n));
	done(&v);

	/* Well-known texts count only when they are special. */
	bpe_open(&v, "gpt-2");
	assert_true(tok_is_eog(v.t, 256 + 14));
	assert_true(tok_is_eog(v.t, 256 + 17));
	assert_true(tok_is_eog(v.t, 256 + 13));
	assert_false(tok_is_eog(v.t, id_of(&v, "hello")));
	done(&v);
}

/* ---- BPE ----------------------------------------------------------------------------- */

static void bpe_ranks(void **state)
{
	struct vocab v;
	size_t n;
	(void)state;

	bpe_open(&v, "gpt-2");
	assert_int_equal(tok_get_kind(v.t), TOK_BPE);
	assert_string_equal(tok_pre(v.t), "gpt-2");
	assert_string_equal(tok_note(v.t), "");
	assert_false(tok_adds_space(v.t));
	EXPECT(&v, "abc", NO_BOS, "ab", "c");
	EXPECT(&v, "bca", NO_BOS, "bc", "a");
	EXPECT(&v, "cabc", NO_BOS, "cab", "c");
	EXPECT(&v, "aaaaaaa", NO_BOS, "aaaa", "aa", "a");
	EXPECT(&v, "hello", NO_BOS, "hel", "lo");
	EXPECT(&v, " h", NO_BOS, G "h");
	EXPECT(&v, "xz", NO_BOS, "x", "z"); /* the result of that merge is no token */
	EXPECT(&v, "\xc3\xa9", NO_BOS, "\xc3\x83\xc2\xa9");
	/* A normal token that is not written in stand-ins is taken as it is. */
	assert_memory_equal(tok_bytes(v.t, id_of(&v, "\xe2\x9c\x93"), false, &n), "\xe2\x9c\x93", 3);
	/* Invalid bytes are tokens of their own and keep the words on both sides apart. */
	EXPECT(&v, "a\xff" "b", NO_BOS, "a", "\xc3\xbf", "b");
	EXPECT(&v, "\xc3\xc3\xa9", NO_BOS, "\xc3\x83", "\xc3\x83\xc2\xa9");
	EXPECT(&v, "a\0a", NO_BOS, "a", "\xc4\x80", "a");
	done(&v);
}

static void bpe_ignore_merges(void **state)
{
	struct vocab v;
	(void)state;

	bpe_open(&v, "llama-bpe");
	EXPECT(&v, "hello", NO_BOS, "hello");
	EXPECT(&v, "bca", NO_BOS, "bca");
	EXPECT(&v, "bcaa", NO_BOS, "bc", "aa");
	done(&v);
	bpe_open(&v, "llama3");
	assert_string_equal(tok_pre(v.t), "llama-bpe");
	EXPECT(&v, "hello", NO_BOS, "hello");
	done(&v);
}

static void bpe_bytes_missing(void **state)
{
	struct vocab v;
	cohort_token *ids;
	size_t n;
	(void)state;

	for (int unk = 0; unk < 2; unk++) {
		bpe_vocab(&v);
		v.type[0x7a] = TOK_CONTROL;
		w_vocab(&v, HAS_ALL);
		if (unk)
			kv_u32(&v.w, "unknown_token_id", 'u');
		open_ok(&v);
		if (unk)
			EXPECT(&v, "aza", NO_BOS, "a", "u", "a");
		else
			assert_int_equal(tok_encode(v.t, "aza", 3, NO_BOS, &ids, &n, NULL), COHORT_E_UNSUPPORTED);
		done(&v);
	}
}

/* ---- Pre-tokenisers --------------------------------------------------------------------- */

static enum cohort_status add_word(void *user, const char *word, size_t n, struct cohort_err *err)
{
	char *out = user;
	(void)err;
	if (*out)
		strcat(out, "|");
	strncat(out, word, n);
	return COHORT_OK;
}

static void words(const char *pre, const char *text, const char *want)
{
	struct pretok p;
	struct pretok_run r;
	char got[256] = "";
	const struct pretok_rule *rule = pretok_find(pre, strlen(pre));

	assert_non_null(rule);
	assert_int_equal(pretok_init(&p, rule, NULL), COHORT_OK);
	assert_int_equal(pretok_run_init(&r, strlen(text), NULL), COHORT_OK);
	assert_int_equal(pretok_split(&p, &r, text, strlen(text), add_word, got, NULL), COHORT_OK);
	if (strcmp(got, want) != 0)
		fail_msg("%s: \"%s\" -> \"%s\", wanted \"%s\"", pre, text, got, want);
	pretok_run_release(&r);
	pretok_release(&p);
}

static void pretok_splits(void **state)
{
	static const char text[] = "Don't DON'T 1234 a  b \n\nc";
	(void)state;

	words("gpt-2", text, "Don|'t| DON|'|T| 1234| a| | b| \n|\n|c");
	words("llama-bpe", text, "Don|'t| DON|'T| |123|4| a| | b| \n\n|c");
	words("qwen2", text, "Don|'t| DON|'T| |1|2|3|4| a| | b| \n\n|c");
	words("starcoder", text, "Don|'t| DON|'|T| |1|2|3|4| a| | b| \n|\n|c");
	words("deepseek-coder", text, "Don|'|t| DON|'|T| |1|2|3|4| a| | b| |\n|\n|c");

	words("gpt-2", "x=(1)...\n\n  y", "x|=(|1|)...|\n\n | y");
	words("llama-bpe", "x=(1)...\n\n  y", "x|=(|1|)...\n\n| | y");
	words("llama-bpe", "\tfoo_bar", "\tfoo|_bar");
	words("gpt-2", "\tfoo_bar", "\t|foo|_|bar");
	words("deepseek-coder", "\tfoo_bar+=1", "\tfoo|_|bar|+=|1");
	words("deepseek-coder", "1\xe4\xb8\x80\xea\xb0\x80.\xe4\xb8\x80", "1|\xe4\xb8\x80\xea\xb0\x80|.|\xe4\xb8\x80");
	/* Numbers are Unicode's: 1/2 in one character, a Roman numeral. */
	words("starcoder", "a\xc2\xbd\xe2\x85\xab", "a|\xc2\xbd|\xe2\x85\xab");
	words("llama-bpe", "\xc2\xbd" "1234", "\xc2\xbd" "12|34");
	words("gpt-2", "", "");
}

static void pretok_white_space(void **state)
{
	static const char *const names[] = {"gpt-2", "llama-bpe", "qwen2", "starcoder"};
	(void)state;

	for (size_t i = 0; i < N_OF(names); i++) {
		/* U+180E is no space: it goes with the space before it as a sign would. */
		words(names[i], "a \xe1\xa0\x8e" "1", "a| \xe1\xa0\x8e|1");
		/* U+3000, U+0085 and U+00A0 are. */
		words(names[i], "1 \xe3\x80\x80.", "1| |\xe3\x80\x80|.");
		words(names[i], "1 \xc2\x85.", "1| |\xc2\x85|.");
		words(names[i], "1 \xc2\xa0.", "1| |\xc2\xa0|.");
	}
	words("deepseek-coder", "a\xc2\xa0" "a", "a|\xc2\xa0" "a");
	/* These two are within its range of ideographs as well, which a later pass cuts out. */
	words("deepseek-coder", "\xe1\xa0\x8e" "a\xe3\x80\x80" "a", "\xe1\xa0\x8e|a|\xe3\x80\x80|a");
}

static void pretok_names(void **state)
{
	struct vocab v;
	(void)state;

	bpe_open(&v, "strange\nname");
	assert_string_equal(tok_pre(v.t), "gpt-2");
	assert_non_null(strstr(tok_note(v.t), "\"strange?name\""));
	EXPECT(&v, "abc", NO_BOS, "ab", "c");
	done(&v);
	bpe_open(&v, "default");
	assert_non_null(strstr(tok_note(v.t), "\"default\""));
	done(&v);
	bpe_open(&v, NULL);
	assert_string_equal(tok_pre(v.t), "gpt-2");
	assert_non_null(strstr(tok_note(v.t), "tokenizer.ggml.pre"));
	done(&v);
	bpe_open(&v, "a-name-much-longer-than-any-sensible-name-of-a-pre-tokeniser-would-ever-be-in-a-file");
	assert_non_null(strstr(tok_note(v.t), "..."));
	done(&v);
	assert_null(pretok_find("gpt-2x", 6));
	assert_ptr_equal(pretok_find("deepseek-r1-qwen", 16), pretok_find("qwen2", 5));
	assert_ptr_equal(pretok_find("llama-v3", 8), pretok_find("llama-bpe", 9));
}

/* ---- Malformed metadata -------------------------------------------------------------------- */

static void refused(struct vocab *v, enum cohort_status want, const char *part)
{
	struct cohort_err err = {0};

	parse(v);
	assert_int_equal(tok_open(&v->t, &v->g, &err), want);
	if (!strstr(err.text, part))
		fail_msg("\"%s\" does not say \"%s\"", err.text, part);
	assert_null(v->t);
	done(v);
}

#define WITHOUT(x) (HAS_ALL & ~(unsigned)(x))

static void malformed_arrays(void **state)
{
	struct vocab v;
	(void)state;

	spm_vocab(&v, true);
	w_vocab(&v, WITHOUT(HAS_MODEL));
	refused(&v, COHORT_E_FORMAT, "tokenizer.ggml.model");
	w_vocab(&v, WITHOUT(HAS_MODEL));
	kv_str(&v.w, "model", "t5");
	refused(&v, COHORT_E_UNSUPPORTED, "\"t5\" is not known (known: \"llama\"");
	w_vocab(&v, WITHOUT(HAS_MODEL));
	kv_u32(&v.w, "model", 1);
	refused(&v, COHORT_E_FORMAT, "tokenizer.ggml.model");
	w_vocab(&v, WITHOUT(HAS_TOKENS));
	refused(&v, COHORT_E_FORMAT, "tokenizer.ggml.tokens");
	w_vocab(&v, WITHOUT(HAS_TOKENS));
	kv_array(&v.w, "tokens", GGUF_STRING, 0);
	refused(&v, COHORT_E_FORMAT, "0 tokens");
	w_vocab(&v, WITHOUT(HAS_SCORES));
	refused(&v, COHORT_E_FORMAT, "tokenizer.ggml.scores");
	w_vocab(&v, WITHOUT(HAS_SCORES));
	kv_array(&v.w, "scores", GGUF_F32, v.n - 1);
	put(&v.w, v.score, (v.n - 1) * sizeof *v.score);
	refused(&v, COHORT_E_FORMAT, "tokenizer.ggml.scores");
	w_vocab(&v, WITHOUT(HAS_TYPES));
	kv_array(&v.w, "token_type", GGUF_I32, v.n - 1);
	put(&v.w, v.type, (v.n - 1) * sizeof *v.type);
	refused(&v, COHORT_E_FORMAT, "tokenizer.ggml.token_type");
	w_vocab(&v, WITHOUT(HAS_TYPES));
	kv_array(&v.w, "token_type", GGUF_F32, v.n);
	put(&v.w, v.type, v.n * sizeof *v.type);
	refused(&v, COHORT_E_FORMAT, "tokenizer.ggml.token_type");

	v.type[7] = 9;
	w_vocab(&v, HAS_ALL);
	refused(&v, COHORT_E_FORMAT, "token 7 has type 9");
	v.type[7] = -1;
	w_vocab(&v, HAS_ALL);
	refused(&v, COHORT_E_FORMAT, "token 7 has type -1");
	v.type[7] = TOK_BYTE;
	strcpy(v.text[7], "<0xZZ>");
	w_vocab(&v, HAS_ALL);
	refused(&v, COHORT_E_FORMAT, "token 7");
}

static void malformed_values(void **state)
{
	static const char *const keys[] = {
		"bos_token_id", "eos_token_id", "unknown_token_id", "eot_token_id", "eom_token_id",
	};
	static const char *const bad_merges[] = {"ab", "a", "", " ", " b", "a "};
	struct vocab v;
	(void)state;

	spm_vocab(&v, true);
	for (size_t i = 0; i < N_OF(keys); i++) {
		w_vocab(&v, WITHOUT(HAS_IDS));
		kv_u32(&v.w, keys[i], (uint32_t)v.n);
		refused(&v, COHORT_E_FORMAT, keys[i]);
		w_vocab(&v, WITHOUT(HAS_IDS));
		kv_u32(&v.w, keys[i], UINT32_MAX);
		refused(&v, COHORT_E_FORMAT, keys[i]);
		w_vocab(&v, WITHOUT(HAS_IDS));
		kv_str(&v.w, keys[i], "1");
		refused(&v, COHORT_E_FORMAT, keys[i]);
	}
	w_vocab(&v, HAS_ALL);
	kv_str(&v.w, "add_bos_token", "yes");
	refused(&v, COHORT_E_FORMAT, "add_bos_token");

	bpe_vocab(&v);
	w_vocab(&v, WITHOUT(HAS_MERGES));
	refused(&v, COHORT_E_FORMAT, "tokenizer.ggml.merges");
	for (size_t i = 0; i < N_OF(bad_merges); i++) {
		v.merges = &bad_merges[i];
		v.n_merges = 1;
		w_vocab(&v, HAS_ALL);
		refused(&v, COHORT_E_FORMAT, "merge 0");
	}
	v.n_merges = 0;
	w_vocab(&v, HAS_ALL);
	kv_u32(&v.w, "pre", 1);
	refused(&v, COHORT_E_FORMAT, "tokenizer.ggml.pre");
	/* Scores say nothing here, but must be as many. */
	w_vocab(&v, HAS_ALL);
	kv_array(&v.w, "scores", GGUF_F32, 1);
	put_u32(&v.w, 0);
	refused(&v, COHORT_E_FORMAT, "tokenizer.ggml.scores");

	w_begin(&v.w);
	kv_str(&v.w, "model", "gpt2");
	kv_array(&v.w, "tokens", GGUF_STRING, 1);
	char *longest = mem_zalloc(TOK_SPECIAL_MAX + 1, 1);
	memset(longest, 'x', TOK_SPECIAL_MAX + 1);
	put_str(&v.w, longest, TOK_SPECIAL_MAX + 1);
	mem_free(longest);
	kv_array(&v.w, "token_type", GGUF_U32, 1);
	put_u32(&v.w, TOK_CONTROL);
	kv_array(&v.w, "merges", GGUF_STRING, 0);
	refused(&v, COHORT_E_LIMIT, "token 0");
}

static void types_absent(void **state)
{
	struct vocab v;
	(void)state;

	spm_vocab(&v, true);
	w_vocab(&v, WITHOUT(HAS_TYPES));
	open_ok(&v);
	EXPECT(&v, "hi<|user|>", NO_BOS | SPECIAL, M "hi", "<", "<unk>", "<unk>", "s", "<unk>", "<unk>", "<unk>", ">");
	assert_false(tok_is_control(v.t, 1));
	done(&v);
}

/* ---- Streaming decode ------------------------------------------------------------------------ */

static void push_is(const struct tok *t, struct cohort_detok *d, cohort_token id, const char *want, size_t n_want)
{
	char out[64];
	size_t n;

	assert_int_equal(tok_detok_push(t, d, id, out, sizeof out, &n, NULL), COHORT_OK);
	assert_int_equal(n, n_want);
	assert_memory_equal(out, want, n);
}

static void detok_held(void **state)
{
	struct vocab v;
	struct cohort_detok d = {.at_start = true};
	struct cohort_err err = {0};
	char out[8], tail[4];
	size_t n;
	(void)state;

	spm_open(&v);
	cohort_token byte0 = 3, hi = id_of(&v, M "hi");
	push_is(v.t, &d, 1, "", 0);
	assert_true(d.at_start);
	push_is(v.t, &d, hi, "hi", 2);
	push_is(v.t, &d, hi, " hi", 3);
	/* U+1F999 in four tokens. */
	push_is(v.t, &d, byte0 + 0xf0, "", 0);
	push_is(v.t, &d, byte0 + 0x9f, "", 0);
	push_is(v.t, &d, 1, "", 0); /* a hidden token changes nothing */
	push_is(v.t, &d, byte0 + 0xa6, "", 0);
	push_is(v.t, &d, byte0 + 0x99, "\xf0\x9f\xa6\x99", 4);
	/* What cannot become a character goes out, with what was held. */
	push_is(v.t, &d, byte0 + 0xff, "\xff", 1);
	push_is(v.t, &d, byte0 + 0x80, "\x80", 1);
	push_is(v.t, &d, byte0 + 0xe2, "", 0);
	push_is(v.t, &d, byte0 + 0xe2, "\xe2", 1);
	push_is(v.t, &d, byte0 + 0x96, "", 0);
	push_is(v.t, &d, hi, "\xe2\x96 hi", 5);
	push_is(v.t, &d, byte0 + 0xed, "", 0);
	push_is(v.t, &d, byte0 + 0xa0, "\xed\xa0", 2); /* a surrogate */
	/* Too little room, a bad token: nothing changes. */
	push_is(v.t, &d, byte0 + 0xc3, "", 0);
	struct cohort_detok before = d;
	assert_int_equal(tok_detok_push(v.t, &d, hi, out, 3, &n, &err), COHORT_E_LIMIT);
	assert_int_equal(n, 4);
	assert_memory_equal(&d, &before, sizeof d);
	assert_int_equal(tok_detok_push(v.t, &d, -1, out, 8, &n, &err), COHORT_E_ARG);
	assert_int_equal(tok_detok_push(v.t, &d, (cohort_token)v.n, out, 8, &n, &err), COHORT_E_ARG);
	assert_memory_equal(&d, &before, sizeof d);
	assert_int_equal(tok_detok_flush(&d, tail), 1);
	assert_memory_equal(tail, "\xc3", 1);
	assert_int_equal(tok_detok_flush(&d, tail), 0);
	done(&v);
}

static void detok_start(void **state)
{
	struct vocab v;
	(void)state;

	spm_open(&v);
	cohort_token hi = id_of(&v, M "hi"), space = id_of(&v, M), two = id_of(&v, M M), x = id_of(&v, "<x>");
	struct cohort_detok d = {.at_start = true, .special = true};
	push_is(v.t, &d, 1, "<s>", 3);
	push_is(v.t, &d, hi, "hi", 2);
	d = (struct cohort_detok){.at_start = false};
	push_is(v.t, &d, hi, " hi", 3);
	d = (struct cohort_detok){.at_start = true};
	push_is(v.t, &d, two, " ", 1);
	push_is(v.t, &d, space, " ", 1);
	d = (struct cohort_detok){.at_start = true};
	push_is(v.t, &d, space, "", 0);
	push_is(v.t, &d, hi, " hi", 3);
	d = (struct cohort_detok){.at_start = true};
	push_is(v.t, &d, x, "<x>", 3);
	push_is(v.t, &d, hi, " hi", 3);
	done(&v);

	bpe_open(&v, "gpt-2");
	d = (struct cohort_detok){.at_start = true};
	push_is(v.t, &d, id_of(&v, G "h"), " h", 2);
	done(&v);
}

/* ---- Properties --------------------------------------------------------------------------------- */

static uint32_t rnd(uint64_t *s)
{
	*s = *s * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t)(*s >> 33);
}

static void any_bytes_round_trip(void **state)
{
	static const char alphabet[] = "aabbcch i<x>\n1\xc3\xa9\xe2\x80\xff";
	struct vocab v[2];
	uint64_t seed = 1;
	char text[64];
	(void)state;

	spm_open(&v[0]);
	bpe_open(&v[1], "qwen2");
	for (int i = 0; i < 20000; i++) {
		size_t n = rnd(&seed) % sizeof text;
		for (size_t k = 0; k < n; k++)
			text[k] = i & 1 ? (char)rnd(&seed) : alphabet[rnd(&seed) % (sizeof alphabet - 1)];
		/* The one text SPM cannot keep is U+2581; a space behind a special token is not one of the text's. */
		bool marked = false;
		for (size_t k = 0; k + 3 <= n; k++)
			marked |= !memcmp(text + k, M, 3) || !memcmp(text + k, "<x", 2);
		if (!marked)
			round_trip(v[0].t, text, n);
		round_trip(v[1].t, text, n);
	}
	done(&v[0]);
	done(&v[1]);
}

/* The definition, done slowly: the most urgent pair, the leftmost of equals, until there is none. */
static size_t slowly(const struct vocab *v, const char *text, size_t n, cohort_token *ids)
{
	char part[64][64];
	size_t k = 0;

	for (size_t i = 0; i < n; i++)
		snprintf(part[k++], 64, "%s", text[i] != ' ' ? (char[]){text[i], 0} : v->kind == TOK_SPM ? M : G);
	for (;;) {
		size_t best = k;
		double urgent = 1e30;
		for (size_t i = 0; i + 1 < k; i++) {
			char both[160];
			if (v->kind == TOK_SPM) {
				snprintf(both, sizeof both, "%s%s", part[i], part[i + 1]);
				for (size_t j = 0; j < v->n; j++) {
					if (strcmp(v->text[j], both) != 0)
						continue;
					if (-v->score[j] < urgent) {
						urgent = -v->score[j];
						best = i;
					}
					break;
				}
			} else {
				snprintf(both, sizeof both, "%s %s", part[i], part[i + 1]);
				for (size_t j = 0; j < v->n_merges; j++)
					if (strcmp(v->merges[j], both) == 0 && (double)j < urgent) {
						urgent = (double)j;
						best = i;
					}
			}
		}
		if (best == k)
			break;
		memcpy(part[best] + strlen(part[best]), part[best + 1], strlen(part[best + 1]) + 1);
		memmove(part[best + 1], part[best + 2], (k - best - 2) * sizeof *part);
		k--;
	}
	for (size_t i = 0; i < k; i++)
		ids[i] = id_of(v, part[i]);
	return k;
}

static void merging_is_the_definition(void **state)
{
	static const char letters[] = "aaabbcchi";
	struct vocab v[2];
	uint64_t seed = 2;
	(void)state;

	spm_open(&v[0]);
	bpe_open(&v[1], "gpt-2");
	for (int i = 0; i < 4000; i++) {
		char text[41] = " ";
		cohort_token want[64], *got;
		size_t n = 1 + rnd(&seed) % 40, n_got;
		for (size_t k = 1; k < n; k++)
			text[k] = letters[rnd(&seed) % (sizeof letters - 1)];
		if (i & 2) /* SPM has no words; a second space is as good as a letter there */
			text[n / 2] = ' ';
		for (int k = 0; k < ((i & 2) ? 1 : 2); k++) {
			/* SPM puts the first space itself. */
			size_t skip = k == 0;
			size_t n_want = slowly(&v[k], text, n, want);
			if (n == skip)
				n_want = 0;
			assert_int_equal(tok_encode(v[k].t, text + skip, n - skip, NO_BOS, &got, &n_got, NULL), 0);
			assert_int_equal(n_got, n_want);
			assert_memory_equal(got, want, n_want * sizeof *want);
			mem_free(got);
		}
	}
	done(&v[0]);
	done(&v[1]);
}

static void worst_cases(void **state)
{
	static const char *const fills[] = {"a", " ", "<", "<|us", "\xff", "\xe2\x96", "1", "\n", "ab ", "'", "<x>"};
	struct vocab v[4];
	char *text = mem_alloc(MB, 1);
	(void)state;

	assert_non_null(text);
	spm_open(&v[0]);
	bpe_open(&v[1], "llama-bpe");
	bpe_open(&v[2], "deepseek-coder");
	bpe_open(&v[3], "starcoder");
	for (size_t i = 0; i < N_OF(fills); i++) {
		size_t len = strlen(fills[i]);
		for (size_t k = 0; k < MB; k++)
			text[k] = fills[i][k % len];
		for (size_t k = 0; k < N_OF(v); k++) {
			cohort_token *ids;
			size_t n, n_back;
			assert_int_equal(tok_encode(v[k].t, text, MB, NO_BOS | SPECIAL, &ids, &n, NULL), COHORT_OK);
			char *back = decode(v[k].t, ids, n, true, true, &n_back);
			/* Behind a special token SPM puts a space that the text does not have. */
			if (fills[i][0] != '<' || k > 0) {
				assert_int_equal(n_back, MB);
				assert_memory_equal(back, text, MB);
			}
			mem_free(back);
			mem_free(ids);
		}
	}
	for (size_t k = 0; k < N_OF(v); k++)
		done(&v[k]);
	mem_free(text);
}

static void torture(void **state)
{
	static const char text[] = "abc hi <x>\n\xff hello  1234 <|user|>aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";
	static const char *const pres[] = {NULL, "llama-bpe", "deepseek-coder"};
	(void)state;

	for (size_t k = 0; k < N_OF(pres); k++) {
		struct vocab v;
		if (k == 0)
			spm_open(&v);
		else
			bpe_open(&v, pres[k]);
		/* The JIT is allowed to fail for itself, so success does not end the loop; the count does. */
		uint64_t n = mem_count();
		struct tok *t;
		assert_int_equal(tok_open(&t, &v.g, NULL), COHORT_OK);
		tok_free(t);
		n = mem_count() - n;
		assert_true(n > 5);
		for (uint64_t i = 0; i < n + 2; i++) {
			struct cohort_err err = {0};
			t = NULL;
			mem_fail_after((int64_t)i);
			enum cohort_status st = tok_open(&t, &v.g, &err);
			mem_fail_after(-1);
			if (st) {
				assert_int_equal(st, COHORT_E_MEMORY);
				assert_int_equal(err.status, COHORT_E_MEMORY);
				assert_null(t);
			}
			tok_free(t);
		}
		for (int64_t i = 0;; i++) {
			cohort_token *ids = NULL;
			size_t n_ids = 77;
			mem_fail_after(i);
			enum cohort_status st = tok_encode(v.t, text, sizeof text - 1, SPECIAL, &ids, &n_ids, NULL);
			mem_fail_after(-1);
			if (!st) {
				assert_true(i > 2);
				mem_free(ids);
				break;
			}
			assert_int_equal(st, COHORT_E_MEMORY);
			assert_null(ids);
			assert_int_equal(n_ids, 77);
		}
		done(&v);
	}
	tok_free(NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(spm_merges),
		cmocka_unit_test(spm_leftmost),
		cmocka_unit_test(spm_inner_space),
		cmocka_unit_test(spm_bytes),
		cmocka_unit_test(spm_unknown),
		cmocka_unit_test(special_parsing),
		cmocka_unit_test(bos_eos),
		cmocka_unit_test(roles),
		cmocka_unit_test(bpe_ranks),
		cmocka_unit_test(bpe_ignore_merges),
		cmocka_unit_test(bpe_bytes_missing),
		cmocka_unit_test(pretok_splits),
		cmocka_unit_test(pretok_white_space),
		cmocka_unit_test(pretok_names),
		cmocka_unit_test(malformed_arrays),
		cmocka_unit_test(malformed_values),
		cmocka_unit_test(types_absent),
		cmocka_unit_test(detok_held),
		cmocka_unit_test(detok_start),
		cmocka_unit_test(any_bytes_round_trip),
		cmocka_unit_test(merging_is_the_definition),
		cmocka_unit_test(worst_cases),
		cmocka_unit_test(torture),
	};
	return cmocka_run_group_tests_name("tok", tests, NULL, NULL);
}
