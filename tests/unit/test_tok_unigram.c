/* The tokeniser: Unigram. What is expected follows from the scores, and is what llama.cpp gives with the same
 * vocabulary and character map, but for three things in which we follow SentencePiece: byte fallback, unused tokens,
 * and no space in front where the file wants none.
 *
 * Seen red with: the later of equal sums taken (best_way), unknown characters not joined (unknown_letters_of_unigram),
 * unused tokens given out (unknown_letters_of_unigram), a unit or a text of the map read without looking at its place
 * (hostile_maps, under AddressSanitizer), spaces kept that are to go (spaces_of_unigram), a walk over the map without
 * an end (circular_map), a token of any length (longest_token_of_unigram). */
#include "charsmap_case.h"
#include "tok_case.h"

static const struct charsmap_pair pairs[] = {
		{"\t", " "},
		{"\n", " "},
		{"a\xcc\x88", "A"},
		{"e\xcc\x81", "\xc3\xa9"},
		{"q", "abc"},
		{"\xe2\x80\x8b", ""},
		{"\xef\xac\x81", "fi"},
		{"\xef\xbc\xa1", "A"},
};

static void put_map(struct vocab *v, const uint8_t *bytes, size_t n)
{
	kv_array(&v->w, "precompiled_charsmap", GGUF_U8, n);
	put(&v->w, bytes, n);
}

enum { PREFIX = 1, MERGE = 2, BYTES = 4, MAP = 8 };

static void open_with(struct vocab *v, unsigned how)
{
	static struct charsmap_build b;

	unigram_vocab(v, how & BYTES);
	w_vocab(v, HAS_ALL);
	kv_bool(&v->w, "add_space_prefix", how & PREFIX);
	kv_bool(&v->w, "remove_extra_whitespaces", how & MERGE);
	if (how & MAP) {
		charsmap_build(&b, pairs, N_OF(pairs));
		put_map(v, b.bytes, b.n_bytes);
	}
	open_ok(v);
}

static void best_way(void **state)
{
	struct vocab v;
	(void)state;

	open_with(&v, PREFIX | MERGE);
	assert_int_equal(tok_get_kind(v.t), TOK_UNIGRAM);
	assert_string_equal(tok_kind_name(tok_get_kind(v.t)), "unigram");
	EXPECT(&v, "abc", NO_BOS, M "a", "bc");
	EXPECT(&v, "abab", NO_BOS, M "ab", "ab");
	/* Equal sums: U+2581 and "ab" are as good as both in one, which ends in a token that begins further left. */
	EXPECT(&v, "ab", NO_BOS, M "ab");
	EXPECT(&v, "aaaa", NO_BOS, M "a", "a", "aa");
	EXPECT(&v, "hi fi", NO_BOS, M "hi", M, "fi");
	EXPECT_NONE(&v, "", NO_BOS);
	done(&v);
}

static void unknown_letters_of_unigram(void **state)
{
	struct vocab v;
	cohort_token *ids;
	size_t n;
	(void)state;

	open_with(&v, PREFIX | MERGE);
	EXPECT(&v, "a?b", NO_BOS, M "a", "<unk>", "b");
	EXPECT(&v,
			"a??\xc3\xbc"
			"b",
			NO_BOS, M "a", "<unk>", "b");
	EXPECT(&v, "? ?", NO_BOS, M, "<unk>", M, "<unk>");
	EXPECT(&v, "a\xff\xe4\xb8\xad", NO_BOS, M "a", "<unk>", "\xe4\xb8\xad");
	EXPECT(&v, "[x]", NO_BOS, M, "<unk>");
	EXPECT(&v, "</s>", NO_BOS, M, "<unk>");
	done(&v);

	open_with(&v, PREFIX | MERGE | BYTES);
	EXPECT(&v,
			"a?\xc3\xbc"
			"b",
			NO_BOS, M "a", "<0x3F>", "<0xC3>", "<0xBC>", "b");
	EXPECT(&v, "\xff", NO_BOS, M, "<0xEF>", "<0xBF>", "<0xBD>");
	done(&v);

	/* The first token of all is a token like others. */
	unigram_vocab(&v, true);
	strcpy(v.text[0], "q");
	v.type[0] = TOK_NORMAL;
	v.score[0] = -4;
	w_vocab(&v, HAS_ALL);
	open_ok(&v);
	EXPECT(&v, "?q?qa", NO_BOS, "<0x3F>", "q", "<0x3F>", "q", "a");
	done(&v);

	unigram_vocab(&v, false);
	v.type[2] = TOK_CONTROL;
	w_vocab(&v, HAS_ALL);
	open_ok(&v);
	assert_int_equal(tok_encode(v.t, "?", 1, NO_BOS, &ids, &n, NULL), COHORT_E_UNSUPPORTED);
	done(&v);
}

static void spaces_of_unigram(void **state)
{
	struct vocab v;
	(void)state;

	open_with(&v, PREFIX | MERGE);
	EXPECT(&v, "  hi   hi ", NO_BOS, M "hi", M "hi");
	EXPECT_NONE(&v, "   ", NO_BOS);
	EXPECT(&v, M "hi", NO_BOS, M, M "hi");
	done(&v);

	open_with(&v, PREFIX);
	EXPECT(&v, "hi  hi ", NO_BOS, M "hi", M, M "hi", M);
	EXPECT(&v, " hi", NO_BOS, M, M "hi");
	done(&v);

	open_with(&v, MERGE);
	EXPECT(&v, " hi  hi", NO_BOS, "h", "i", M "hi");
	done(&v);
}

static void character_map(void **state)
{
	struct vocab v;
	(void)state;

	open_with(&v, PREFIX | MERGE | MAP);
	EXPECT(&v, "\xef\xac\x81", NO_BOS, M, "fi");
	EXPECT(&v, "\xef\xbc\xa1\ta", NO_BOS, M, "A", M "a");
	/* The longest beginning counts; a part of one is no match. */
	EXPECT(&v,
			"e\xcc\x81"
			"a\xcc\x88"
			"a",
			NO_BOS, M, "\xc3\xa9", "A", "a");
	EXPECT(&v, "e\xcc", NO_BOS, M, "<unk>");
	EXPECT(&v, "h\xe2\x80\x8bi", NO_BOS, M "hi");
	EXPECT(&v, "q", NO_BOS, M "a", "bc");
	EXPECT(&v, "hi\n\n", NO_BOS, M "hi");
	done(&v);
}

static void unigram_special_tokens(void **state)
{
	struct vocab v;
	(void)state;

	open_with(&v, PREFIX | MERGE);
	EXPECT(&v, "hi", 0, M "hi", "</s>");
	EXPECT(&v, "hi<e0> hi", NO_BOS, M "hi", "<e0>", M "hi");
	EXPECT(&v, "</s>hi", NO_BOS | SPECIAL, "</s>", M "hi");
	assert_int_equal(tok_eos(v.t), 1);
	assert_int_equal(tok_bos(v.t), -1);
	assert_true(tok_adds_space(v.t));
	round_trip(v.t, "hi a abc", 8);
	done(&v);

	unigram_vocab(&v, false);
	w_vocab(&v, HAS_ALL);
	kv_bool(&v.w, "add_eos_token", false);
	kv_bool(&v.w, "add_bos_token", true);
	kv_u32(&v.w, "bos_token_id", 0);
	open_ok(&v);
	EXPECT(&v, "a", 0, "<pad>", "a");
	done(&v);
}

static void refused(struct vocab *v, enum cohort_status want, const char *part)
{
	struct cohort_err err = {0};

	parse(v);
	assert_int_equal(tok_open(&v->t, &v->g, &err), want);
	assert_non_null(strstr(err.text, part));
	done(v);
}

static void malformed_unigram_vocabularies_are_refused(void **state)
{
	static const uint8_t bytes[] = {8, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7};
	struct vocab v;
	(void)state;

	unigram_vocab(&v, false);
	w_vocab(&v, WITHOUT(HAS_SCORES));
	refused(&v, COHORT_E_FORMAT, "tokenizer.ggml.scores");
	w_vocab(&v, HAS_ALL);
	kv_u32(&v.w, "precompiled_charsmap", 1);
	refused(&v, COHORT_E_FORMAT, "precompiled_charsmap");
	for (size_t n = 1; n <= sizeof bytes; n++) {
		w_vocab(&v, HAS_ALL);
		put_map(&v, bytes, n);
		refused(&v, COHORT_E_FORMAT, "precompiled_charsmap");
	}
	/* A byte that is none. Seen red by reading on without a word. */
	piece(&v, "<0x-1>", TOK_BYTE, 0);
	w_vocab(&v, HAS_ALL);
	refused(&v, COHORT_E_FORMAT, "has type byte but not the form <0xNN>");
	v.n--;
	/* A replacement that would make a short text endless. */
	static struct charsmap_build b;
	charsmap_build(&b, pairs, N_OF(pairs));
	for (size_t n = 128; n <= 129; n++) {
		w_vocab(&v, HAS_ALL);
		memset(b.bytes + b.n_bytes, 'b', 129);
		put_map(&v, b.bytes, b.n_bytes + n);
		if (n > 128) {
			refused(&v, COHORT_E_FORMAT, "a replacement of 129 bytes");
		} else {
			open_ok(&v);
			done(&v);
		}
	}
	/* Odd scores give odd tokens, and no more than that. */
	for (size_t i = 0; i < v.n; i++)
		v.score[i] = i % 3 == 0 ? __builtin_inff() : i % 3 == 1 ? -__builtin_inff() : __builtin_nanf("");
	w_vocab(&v, HAS_ALL);
	open_ok(&v);
	for (size_t i = 0; i < 3; i++) {
		cohort_token *ids;
		size_t n;
		assert_int_equal(tok_encode(v.t, "aaaaabcab hi?", 13, NO_BOS, &ids, &n, NULL), COHORT_OK);
		assert_true(n >= 1 && n <= 14);
		mem_free(ids);
	}
	done(&v);
}

/* Maps of any content: nothing outside is read, whatever the units say. */
static void hostile_maps(void **state)
{
	static struct charsmap_build b;
	static const char text[] = "ab\tq e\xcc\x81\xef\xac\x81\xef\xbc\xa1 a\xcc\x88\xe2\x80\x8b\n";
	uint64_t seed = 5;
	(void)state;

	for (int i = 0; i < 400; i++) {
		struct vocab v;
		cohort_token *ids;
		size_t n;
		charsmap_build(&b, pairs, N_OF(pairs));
		for (int k = 0; k < 1 + i / 4; k++) {
			seed = seed * 6364136223846793005u + 1442695040888963407u;
			b.bytes[4 + (seed >> 33) % (b.n_bytes - 4)] = (uint8_t)(seed >> 25);
		}
		unigram_vocab(&v, false);
		w_vocab(&v, HAS_ALL);
		/* Cut texts, too: the last one has no end then. */
		put_map(&v, b.bytes, b.n_bytes - (size_t)(i % 3));
		open_ok(&v);
		assert_int_equal(tok_encode(v.t, text, sizeof text - 1, NO_BOS, &ids, &n, NULL), COHORT_OK);
		mem_free(ids);
		done(&v);
	}
}

/* A map whose units lead in a circle, with a replacement at every turn: what it finds stays short, or each character of
 * a long text would go over the rest of it. */
static void circular_map(void **state)
{
	enum { N = 100000, KEY_MAX = 64 };
	static uint32_t units[256];
	static char texts[] = "x", text[N];
	const struct charsmap m = {units, N_OF(units), texts, 1};
	const char *out = NULL;
	size_t n_out = 0;
	(void)state;

	units['a'] = 'a' | 0x100 | (uint32_t)'a' << 10; /* its children are where those of unit 0 are */
	memset(text, 'a', N);
	for (size_t n = 1; n <= N; n *= 10) {
		const size_t len = charsmap_find(&m, text, n, &out, &n_out);
		assert_int_equal(len, n < KEY_MAX ? n : KEY_MAX);
		assert_int_equal(n_out, 1);
	}
}

static void longest_token_of_unigram(void **state)
{
	(void)state;
	longest_token(unigram_vocab, false);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
			cmocka_unit_test(best_way),
			cmocka_unit_test(unknown_letters_of_unigram),
			cmocka_unit_test(spaces_of_unigram),
			cmocka_unit_test(character_map),
			cmocka_unit_test(unigram_special_tokens),
			cmocka_unit_test(malformed_unigram_vocabularies_are_refused),
			cmocka_unit_test(hostile_maps),
			cmocka_unit_test(circular_map),
			cmocka_unit_test(longest_token_of_unigram),
	};

	return cmocka_run_group_tests_name("tok_unigram", tests, NULL, NULL);
}
