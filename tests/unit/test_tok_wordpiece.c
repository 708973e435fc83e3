/* The tokeniser: WordPiece. What is expected is what Hugging Face's tokenizers (0.23.2) gives with the same
 * vocabulary.
 *
 * Seen red with: marks kept (wordpiece_cleans_texts), unassigned or format characters kept (wordpiece_cleans_texts),
 * no limit on words (words_beyond_100_letters_are_unknown), the tokens of a word that ends unknown left in
 * (unknown_words), the space dropped behind special tokens (wordpiece_decoding). */
#include "tok_case.h"

static void wordpiece_words(void **state)
{
	struct vocab v;
	(void)state;

	wordpiece_open(&v);
	assert_int_equal(tok_get_kind(v.t), TOK_WORDPIECE);
	assert_string_equal(tok_kind_name(tok_get_kind(v.t)), "wordpiece");
	assert_string_equal(tok_pre(v.t), "");
	EXPECT(&v, "Hello, WORLD!", NO_BOS, M "hello", M ",", M "wor", "ld", M "!");
	EXPECT(&v, "  hello\t\n\r hello ", NO_BOS, M "hello", M "hello");
	EXPECT(&v, "unaffable", NO_BOS, M "un", "aff", "able");
	/* The longest first, even where a shorter one would have led further. */
	EXPECT(&v, "unab", NO_BOS, M "un", "ab");
	EXPECT(&v, "abb", NO_BOS, M "ab", "b");
	EXPECT(&v, "a$b", NO_BOS, M "a", M "$", M "b");
	EXPECT(&v,
			"\xe4\xb8\xad\xe6\x96\x87"
			"ab",
			NO_BOS, M "\xe4\xb8\xad", M "\xe6\x96\x87", M "ab");
	EXPECT_NONE(&v, "", NO_BOS);
	EXPECT_NONE(&v, " \n", NO_BOS);
	done(&v);
}

static void unknown_words(void **state)
{
	struct vocab v;
	cohort_token *ids;
	size_t n;
	(void)state;

	wordpiece_open(&v);
	EXPECT(&v, "unaffablex", NO_BOS, "[UNK]");
	EXPECT(&v, "hello unq ab", NO_BOS, M "hello", "[UNK]", M "ab");
	EXPECT(&v, "hello!?", NO_BOS, M "hello", M "!", "[UNK]");
	/* A sign beyond ASCII is part of its word. */
	EXPECT(&v,
			"\xe2\x82\xac"
			"a",
			NO_BOS, "[UNK]");
	/* What begins words does not continue them, and the other way round. */
	EXPECT(&v, "ld", NO_BOS, "[UNK]");
	EXPECT(&v, "[unused0]", NO_BOS, M "[", "[UNK]", M "]");
	done(&v);

	wordpiece_vocab(&v);
	strcpy(v.text[1], "[unk]");
	w_vocab(&v, HAS_ALL);
	open_ok(&v);
	assert_int_equal(tok_encode(v.t, "zzz", 3, NO_BOS, &ids, &n, NULL), COHORT_E_UNSUPPORTED);
	EXPECT(&v, "hello", NO_BOS, M "hello");
	done(&v);
}

static void wordpiece_cleans_texts(void **state)
{
	struct vocab v;
	(void)state;

	wordpiece_open(&v);
	EXPECT(&v, "Caf\xc3\xa9 cafe\xcc\x81 NA\xc3\x8fVE", NO_BOS, M "cafe", M "cafe", M "naive");
	/* Format and control characters, bytes that are no character, and U+FFFD are nothing. */
	EXPECT(&v,
			"a\xe2\x80\x8b"
			"b",
			NO_BOS, M "ab");
	EXPECT(&v,
			"a\x01"
			"b a\xff"
			"b a\xef\xbf\xbd"
			"b",
			NO_BOS, M "ab", M "ab", M "ab");
	EXPECT(&v, "a\0b", NO_BOS, M "ab");
	/* U+0085 is a control character first; U+00A0 and U+3000 are spaces. */
	EXPECT(&v,
			"a\xc2\x85"
			"b a\xc2\xa0"
			"b\xe3\x80\x80"
			"b",
			NO_BOS, M "ab", M "a", M "b", M "b");
	EXPECT(&v,
			"STRA\xc3\x9f"
			"E",
			NO_BOS, M "stra",
			"\xc3\x9f"
			"e");
	EXPECT(&v, "\xc4\xb0stanbul", NO_BOS, M "istanbul");
	/* A compatibility ideograph decomposes. U+0378 is not assigned and no format character. */
	EXPECT(&v,
			"a\xef\xa4\x80"
			"b",
			NO_BOS, M "a", M "\xe8\xb1\x88", M "b");
	EXPECT(&v,
			"a\xcd\xb8"
			"b",
			NO_BOS, "[UNK]");
	done(&v);
}

static void words_beyond_100_letters_are_unknown(void **state)
{
	struct vocab v;
	char text[102];
	cohort_token *ids;
	size_t n;
	(void)state;

	wordpiece_open(&v);
	memset(text, 'a', sizeof text);
	assert_int_equal(tok_encode(v.t, text, 100, NO_BOS, &ids, &n, NULL), COHORT_OK);
	assert_int_equal(n, 100);
	mem_free(ids);
	assert_int_equal(tok_encode(v.t, text, 101, NO_BOS, &ids, &n, NULL), COHORT_OK);
	assert_int_equal(n, 1);
	assert_int_equal(ids[0], id_of(&v, "[UNK]"));
	mem_free(ids);
	done(&v);
}

static void wordpiece_special_tokens(void **state)
{
	struct vocab v;
	(void)state;

	wordpiece_open(&v);
	EXPECT(&v, "hello", 0, "[CLS]", M "hello", "[SEP]");
	EXPECT(&v, "", 0, "[CLS]", "[SEP]");
	EXPECT(&v, "hello [MASK] a", NO_BOS | SPECIAL, M "hello", "[MASK]", M "a");
	EXPECT(&v, "[MASK]", NO_BOS, M "[", M "mask", M "]");
	EXPECT(&v, "a<u>b", NO_BOS, M "a", "<u>", M "b");
	assert_int_equal(tok_bos(v.t), id_of(&v, "[CLS]"));
	assert_int_equal(tok_eos(v.t), id_of(&v, "[SEP]"));
	done(&v);

	wordpiece_vocab(&v);
	w_vocab(&v, HAS_ALL);
	kv_u32(&v.w, "cls_token_id", 0);
	kv_u32(&v.w, "seperator_token_id", 4);
	kv_u32(&v.w, "unknown_token_id", 5);
	kv_bool(&v.w, "add_eos_token", false);
	open_ok(&v);
	EXPECT(&v, "zzz", 0, "[PAD]", "[unused0]", "[MASK]");
	done(&v);

	wordpiece_vocab(&v);
	w_vocab(&v, HAS_ALL);
	kv_bool(&v.w, "add_sep_token", false);
	kv_bool(&v.w, "add_bos_token", false);
	open_ok(&v);
	EXPECT(&v, "hello", 0, M "hello");
	done(&v);
}

static void wordpiece_with_case(void **state)
{
	struct vocab v;
	(void)state;

	wordpiece_vocab(&v);
	w_vocab(&v, HAS_ALL);
	kv_bool(&v.w, "normalizer.lowercase", false);
	open_ok(&v);
	EXPECT(&v, "Hello HELLO caf\xc3\xa9", NO_BOS, M "Hello", "[UNK]", M "caf\xc3\xa9");
	done(&v);

	wordpiece_vocab(&v);
	w_vocab(&v, HAS_ALL);
	kv_bool(&v.w, "normalizer.strip_accents", false);
	open_ok(&v);
	EXPECT(&v, "CAF\xc3\x89 \xc4\xb0", NO_BOS, M "caf\xc3\xa9", M "i", "\xcc\x87");
	done(&v);
}

static void wordpiece_decoding(void **state)
{
	static const char text[] = "Hello, world!";
	struct vocab v;
	cohort_token *ids;
	size_t n, n_out;
	(void)state;

	wordpiece_open(&v);
	assert_int_equal(tok_encode(v.t, text, sizeof text - 1, 0, &ids, &n, NULL), COHORT_OK);
	char *out = decode(v.t, ids, n, false, true, &n_out);
	assert_int_equal(n_out, 15);
	assert_memory_equal(out, "hello , world !", 15);
	mem_free(out);
	out = decode(v.t, ids, n, true, true, &n_out);
	assert_int_equal(n_out, 26);
	assert_memory_equal(out, "[CLS] hello , world ![SEP]", 26);
	mem_free(out);
	/* In the middle of a text the first space stays. */
	out = decode(v.t, ids + 1, 1, false, false, &n_out);
	assert_int_equal(n_out, 6);
	assert_memory_equal(out, " hello", 6);
	mem_free(out);
	mem_free(ids);
	done(&v);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
			cmocka_unit_test(wordpiece_words),
			cmocka_unit_test(unknown_words),
			cmocka_unit_test(wordpiece_cleans_texts),
			cmocka_unit_test(words_beyond_100_letters_are_unknown),
			cmocka_unit_test(wordpiece_special_tokens),
			cmocka_unit_test(wordpiece_with_case),
			cmocka_unit_test(wordpiece_decoding),
	};

	return cmocka_run_group_tests_name("tok_wordpiece", tests, NULL, NULL);
}
