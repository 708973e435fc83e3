/* The tokeniser: SentencePiece vocabularies. */
#include "tok_case.h"

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

static void inner_spaces(void **state)
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

static void longest_token_of_spm(void **state)
{
	(void)state;
	longest_token(spm_vocab, true);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(spm_merges),
		cmocka_unit_test(spm_leftmost),
		cmocka_unit_test(inner_spaces),
		cmocka_unit_test(spm_bytes),
		cmocka_unit_test(spm_unknown),
		cmocka_unit_test(longest_token_of_spm),
	};

	return cmocka_run_group_tests_name("tok_spm", tests, NULL, NULL);
}
