/* The tokeniser: byte-pair vocabularies and the splitting into words before them. */
#include "tok_case.h"

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
	/* The longest one, which no merge leads to. Seen red with n >= n_longest in whole(). */
	bpe_vocab(&v);
	piece(&v, "cabcabcabcab", TOK_NORMAL, 0);
	w_vocab(&v, HAS_ALL);
	kv_str(&v.w, "pre", "llama-bpe");
	open_ok(&v);
	EXPECT(&v, "cabcabcabcab", NO_BOS, "cabcabcabcab");
	EXPECT(&v, "cabcabcabcabc", NO_BOS, "cab", "cab", "cab", "cab", "c");
	done(&v);
	/* Line ends are whole words of vocabularies of characters only, and other words are not. */
	bpe_vocab(&v);
	piece(&v, "\xc4\x8a\xc4\x8a", TOK_NORMAL, 0);
	w_vocab(&v, HAS_ALL);
	kv_str(&v.w, "pre", "starcoder");
	open_ok(&v);
	EXPECT(&v, "\n\n", NO_BOS, "\xc4\x8a", "\xc4\x8a");
	done(&v);
	chars_vocab(&v);
	piece(&v, "bbb", TOK_NORMAL, 0);
	w_vocab(&v, HAS_ALL);
	kv_str(&v.w, "pre", "gemma4");
	open_ok(&v);
	EXPECT(&v, "bbb", NO_BOS, "b", "b", "b");
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

/* Seen red with: no whole words of line ends, bytes in place of characters, the unknown character's bytes left out. */
static void bpe_of_characters(void **state)
{
	struct vocab v;
	(void)state;

	chars_open(&v);
	assert_string_equal(tok_pre(v.t), "gemma4");
	EXPECT(&v, "abc a", 0, "<bos>", "abc", M "a");
	EXPECT(&v, "a  b" M "a", NO_BOS, "a", M M, "b", M "a");
	EXPECT(&v, "a\n\nb\n", NO_BOS, "a", "\n\n", "b", "\n");
	EXPECT(&v, "\xc3\xa9" "ax", NO_BOS, "\xc3\xa9" "a", "<0x78>");
	EXPECT(&v, "a\xe4\xb8\xad\xff", NO_BOS, "a", "<0xE4>", "<0xB8>", "<0xAD>", "<0xFF>");
	done(&v);

	/* The kind's name says it as well. */
	chars_vocab(&v);
	w_vocab(&v, HAS_ALL & ~(unsigned)(HAS_IDS | HAS_MODEL));
	kv_str(&v.w, "model", "gemma4");
	open_ok(&v);
	assert_string_equal(tok_pre(v.t), "gemma4");
	EXPECT(&v, "abc a", NO_BOS, "abc", M "a");
	done(&v);
}

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
	assert_non_null(strstr(tok_note(v.t), "\"strange\\x0aname\""));
	EXPECT(&v, "abc", NO_BOS, "ab", "c");
	done(&v);
	bpe_open(&v, "default");
	assert_string_equal(tok_pre(v.t), "default");
	assert_string_equal(tok_note(v.t), "");
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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(bpe_ranks),
		cmocka_unit_test(bpe_ignore_merges),
		cmocka_unit_test(bpe_bytes_missing),
		cmocka_unit_test(bpe_of_characters),
		cmocka_unit_test(pretok_splits),
		cmocka_unit_test(pretok_white_space),
		cmocka_unit_test(pretok_names),
	};

	return cmocka_run_group_tests_name("tok_bpe", tests, NULL, NULL);
}
