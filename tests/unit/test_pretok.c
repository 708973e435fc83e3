/* The pre-tokenisers: every rule of the table on one text, what sets neighbours apart, names, and long runs.
 *
 * The expected words are what Hugging Face's tokenizers (0.23.2) makes of the text with the patterns of the models' own
 * files, split by split; for afmoe, gemma4 and sarvam-moe, of which there is no such pattern, they follow from the
 * rule's definition and agree with llama.cpp's.
 *
 * Seen red with: \p{Han} in place of \p{sc:Han} (every_rule), a rule left out of the cases (every_rule), exaone-moe's
 * group not possessive (long_runs), jais-2 without its look-behind (spaces_in_time), groups of three counted from the
 * left (every_rule), an alias of a name that is no rule (pretok_names_find_rules). */
#include "tok_case.h"

#include <time.h>

static const char text[] = "I'LL don't HTMLParser's 1234567 12ab x_y=3;"
			   "\n\n  \xe4\xb8\xad\xe6\x96\x87\xe3\x80\x82\xe5\xad\x97 \xe3\x81\x8b\xe3\x82\xab\xed\x95\x9c"
			   " \xc2\xbd e\xcc\x81! (ok)//\n\t\tz    w ";

static const struct {
	const char *names[6];
	const char *words;
} cases[] = {
		{{"gpt-2", "olmo"},
				"I|'|LL| don|'t| HTMLParser|'s| 1234567| 12|ab| x|_|y|=|3|;|\n\n |"
				" \xe4\xb8\xad\xe6\x96\x87|\xe3\x80\x82|\xe5\xad\x97|"
				" \xe3\x81\x8b\xe3\x82\xab\xed\x95\x9c| \xc2\xbd| e|\xcc\x81!| (|ok|)//|\n\t|"
				"\t|z|   | w| "},
		{{"dbrx", "llama-bpe", "minicpm5"},
				"I|'LL| don|'t| HTMLParser|'s| |123|456|7| |12|ab| x|_y|=|3|;\n\n| |"
				" \xe4\xb8\xad\xe6\x96\x87|\xe3\x80\x82\xe5\xad\x97|"
				" \xe3\x81\x8b\xe3\x82\xab\xed\x95\x9c| |\xc2\xbd| e|\xcc\x81!| (|ok|)//\n|"
				"\t|\tz|   | w| "},
		{{"qwen2", "stablelm2", "bailingmoe"},
				"I|'LL| don|'t| HTMLParser|'s| |1|2|3|4|5|6|7| |1|2|ab| x|_y|=|3|;\n\n| |"
				" \xe4\xb8\xad\xe6\x96\x87|\xe3\x80\x82\xe5\xad\x97|"
				" \xe3\x81\x8b\xe3\x82\xab\xed\x95\x9c| |\xc2\xbd| e|\xcc\x81!| (|ok|)//\n|"
				"\t|\tz|   | w| "},
		{{"qwen35", "tekken"},
				"I|'LL| don|'t| HTMLParser|'s| |1|2|3|4|5|6|7| |1|2|ab| x|_y|=|3|;\n\n| |"
				" \xe4\xb8\xad\xe6\x96\x87|\xe3\x80\x82\xe5\xad\x97|"
				" \xe3\x81\x8b\xe3\x82\xab\xed\x95\x9c| |\xc2\xbd| e\xcc\x81|!| (|ok|)//\n|"
				"\t|\tz|   | w| "},
		{{"laguna", "seed-coder"},
				"I|'LL| don|'t| HTMLParser|'s| |1|2|3|4|5|6|7| |1|2|ab| x|_y|=|3|;|\n\n| |"
				" \xe4\xb8\xad\xe6\x96\x87|\xe3\x80\x82\xe5\xad\x97|"
				" \xe3\x81\x8b\xe3\x82\xab\xed\x95\x9c| |\xc2\xbd| e|\xcc\x81!| (|ok|)//|\n|"
				"\t|\tz|   | w| "},
		{{"jais-2"},
				"I|'LL| don|'t| HTMLParser|'s| |123|456|7| |12|ab| x|_y|=|3|;\n\n| |"
				" \xe4\xb8\xad\xe6\x96\x87|\xe3\x80\x82\xe5\xad\x97|"
				" \xe3\x81\x8b\xe3\x82\xab\xed\x95\x9c| |\xc2\xbd| e|\xcc\x81!| (|ok|)//\n|"
				"\t|\tz|  | | w| "},
		{{"exaone-moe"},
				"I|'LL| don|'t| HTMLParser|'s| |1|2|3|4|5|6|7| |1|2|ab x|_y|=|3|;\n|\n| |"
				" \xe4\xb8\xad\xe6\x96\x87|"
				"\xe3\x80\x82\xe5\xad\x97 \xe3\x81\x8b\xe3\x82\xab\xed\x95\x9c| |\xc2\xbd|"
				" e\xcc\x81|!| (|ok|)//\n|\t|\tz|   | w| "},
		{{"starcoder", "command-r"},
				"I|'|LL| don|'t| HTMLParser|'s| |1|2|3|4|5|6|7| |1|2|ab| x|_|y|=|3|;|\n\n |"
				" \xe4\xb8\xad\xe6\x96\x87|\xe3\x80\x82|\xe5\xad\x97|"
				" \xe3\x81\x8b\xe3\x82\xab\xed\x95\x9c| |\xc2\xbd| e|\xcc\x81!| (|ok|)//|"
				"\n\t|\t|z|   | w| "},
		{{"falcon"},
				"I|'|LL| don|'|t| HTMLParser|'|s| |123|456|7| 12|ab| x|_|y|=|3|;|\n\n |"
				" \xe4\xb8\xad\xe6\x96\x87|\xe3\x80\x82|\xe5\xad\x97|"
				" \xe3\x81\x8b\xe3\x82\xab\xed\x95\x9c| \xc2\xbd| e|\xcc\x81|!| |(|ok|)//|"
				"\n\t|\t|z|   | w| "},
		{{"default"},
				"I|'|LL| don|'|t| HTMLParser|'|s| |123|456|7| |12|ab| x|_|y|=|3|;|\n\n |"
				" \xe4\xb8\xad\xe6\x96\x87|\xe3\x80\x82|\xe5\xad\x97|"
				" \xe3\x81\x8b\xe3\x82\xab\xed\x95\x9c| |\xc2\xbd| e|\xcc\x81|!| |(|ok|)//|"
				"\n\t|\t|z|   | w| "},
		{{"deepseek-coder"},
				"I|'|LL| don|'|t| HTMLParser|'|s| |1|2|3|4|5|6|7| |1|2|ab| x|_|y|=|3|;|\n|\n|"
				" | |\xe4\xb8\xad\xe6\x96\x87|\xe3\x80\x82|\xe5\xad\x97| |"
				"\xe3\x81\x8b\xe3\x82\xab\xed\x95\x9c| |\xc2\xbd| e|\xcc\x81|!| (|ok|)//|\n|"
				"\t|\tz|   | w| "},
		{{"deepseek-v3"},
				"I|'LL| don|'t| HTMLParser|'s| |123|456|7| |12|ab| x|_y|=|3|;\n\n|  |"
				"\xe4\xb8\xad\xe6\x96\x87|\xe3\x80\x82|\xe5\xad\x97| |"
				"\xe3\x81\x8b\xe3\x82\xab|\xed\x95\x9c| |\xc2\xbd| e\xcc\x81|!| (|ok|)//\n|"
				"\t|\tz|   | w| "},
		{{"gpt-4o", "granite-embed-multi-97m"},
				"I'LL| don't| HTMLParser's| |123|456|7| |12|ab| x|_y|=|3|;\n\n| |"
				" \xe4\xb8\xad\xe6\x96\x87|\xe3\x80\x82\xe5\xad\x97|"
				" \xe3\x81\x8b\xe3\x82\xab\xed\x95\x9c| |\xc2\xbd| e\xcc\x81|!| (|ok|)//\n|"
				"\t|\tz|   | w| "},
		{{"tiny_aya"},
				"I'LL| don't| HTMLParser's| |1|234|567| |12|ab| x|_y|=|3|;\n\n| |"
				" \xe4\xb8\xad\xe6\x96\x87|\xe3\x80\x82\xe5\xad\x97|"
				" \xe3\x81\x8b\xe3\x82\xab\xed\x95\x9c| |\xc2\xbd| e\xcc\x81|!| (|ok|)//\n|"
				"\t|\tz|   | w| "},
		{{"kimi-k2"},
				"I'LL| don't| HTMLParser's| |123|456|7| |12|ab| x|_y|=|3|;\n\n| | |"
				"\xe4\xb8\xad\xe6\x96\x87|\xe3\x80\x82|\xe5\xad\x97|"
				" \xe3\x81\x8b\xe3\x82\xab\xed\x95\x9c| |\xc2\xbd| e\xcc\x81|!| (|ok|)//\n|"
				"\t|\tz|   | w| "},
		{{"superbpe"},
				"I'LL don't HTMLParser's |1|234|567| |12|ab x_y=|3|"
				";\n\n  \xe4\xb8\xad\xe6\x96\x87\xe3\x80\x82\xe5\xad\x97"
				" \xe3\x81\x8b\xe3\x82\xab\xed\x95\x9c |"
				"\xc2\xbd| e\xcc\x81! (ok)//\n\t\tz    w "},
		{{"youtu"},
				"I'LL| don't| HTMLParser's| |1|2|3|4|5|6|7| |1|2|ab| x|_y|=|3|;\n\n|  |"
				"\xe4\xb8\xad\xe6\x96\x87|\xe3\x80\x82|\xe5\xad\x97| |"
				"\xe3\x81\x8b\xe3\x82\xab|\xed\x95\x9c| |\xc2\xbd| e\xcc\x81|!| (|ok|)//\n|"
				"\t|\tz|   | w| "},
		{{"bloom"},
				"I'LL| don't| HTMLParser's| 1234567| 12ab| x_y=3;|\n\n |"
				" \xe4\xb8\xad\xe6\x96\x87|\xe3\x80\x82|\xe5\xad\x97|"
				" \xe3\x81\x8b\xe3\x82\xab\xed\x95\x9c| \xc2\xbd| e\xcc\x81|! (|ok|)|//|"
				"\n\t\t|z|   | w| "},
		{{"viking"},
				"I'LL| don't| HTMLParser's| |1|2|3|4|5|6|7| |1|2|ab| x_y=|3|;|\n\n |"
				" \xe4\xb8\xad\xe6\x96\x87|\xe3\x80\x82|\xe5\xad\x97|"
				" \xe3\x81\x8b\xe3\x82\xab\xed\x95\x9c| |\xc2\xbd| e\xcc\x81|! (|ok|)|//|"
				"\n\t\t|z|   | w| "},
		{{"chameleon"},
				"I|'|LL| don|'|t| HTMLParser|'|s| |1|2|3|4|5|6|7| |1|2|ab| x|_|y|=|3|;|\n|\n|"
				"  |\xe4\xb8\xad\xe6\x96\x87|\xe3\x80\x82|\xe5\xad\x97|"
				" \xe3\x81\x8b\xe3\x82\xab\xed\x95\x9c| |\xc2\xbd| e|\xcc\x81|!| |(|ok|)|/|/|"
				"\n|\t|\t|z|    |w| "},
		{{"deepseek-llm"},
				"I|'|LL| don|'|t| HTMLParser|'|s| |1234567| |12|ab| x|_|y|=|3|;|\n|\n|  |"
				"\xe4\xb8\xad\xe6\x96\x87|\xe3\x80\x82|\xe5\xad\x97| |"
				"\xe3\x81\x8b\xe3\x82\xab\xed\x95\x9c| |\xc2\xbd| e|\xcc\x81|!| (|ok|)//|\n|"
				"\t|\tz|   | w| "},
		{{"afmoe"},
				"I|'LL| don|'t| HTMLParser|'s| |1|234|567| |12|ab| x|_y|=|3|;\n\n|  |"
				"\xe4\xb8\xad\xe6\x96\x87|\xe3\x80\x82|\xe5\xad\x97| |"
				"\xe3\x81\x8b\xe3\x82\xab\xed\x95\x9c| |\xc2\xbd| e\xcc\x81|!| (|ok|)//\n|\t|"
				"\tz|   | w| "},
		{{"gemma4", "sarvam-moe"},
				"I'LL don't HTMLParser's 1234567 12ab x_y=3;|\n\n|"
				"  \xe4\xb8\xad\xe6\x96\x87\xe3\x80\x82\xe5\xad\x97 "
				"\xe3\x81\x8b\xe3\x82\xab\xed\x95\x9c"
				" \xc2\xbd e\xcc\x81! (ok)//|\n|\t\tz    w "},
};

struct join {
	char *out;
	size_t n, n_max, n_words;
};

static enum cohort_status add_word(void *user, const char *word, size_t n, struct cohort_err *err)
{
	struct join *j = user;
	(void)err;

	assert_true(n > 0 && j->n + n + 1 < j->n_max);
	if (j->n_words++)
		j->out[j->n++] = '|';
	memcpy(j->out + j->n, word, n);
	j->n += n;
	j->out[j->n] = '\0';
	return COHORT_OK;
}

static void check_words(const char *name, const char *s, const char *want)
{
	struct pretok p;
	struct pretok_run r;
	char out[1024] = "";
	struct join j = {.out = out, .n_max = sizeof out};
	const struct pretok_rule *rule = pretok_find(name, strlen(name));

	assert_non_null(rule);
	assert_int_equal(pretok_init(&p, rule, NULL), COHORT_OK);
	assert_int_equal(pretok_run_init(&r, strlen(s), NULL), COHORT_OK);
	assert_int_equal(pretok_split(&p, &r, s, strlen(s), add_word, &j, NULL), COHORT_OK);
	if (strcmp(out, want) != 0)
		fail_msg("%s: \"%s\", wanted \"%s\"", name, out, want);
	pretok_run_release(&r);
	pretok_release(&p);
}

static void every_rule(void **state)
{
	size_t n_rules = 0, n_cases = 0;
	(void)state;

	for (size_t i = 0; i < N_OF(cases); i++)
		for (size_t k = 0; k < N_OF(cases[i].names) && cases[i].names[k]; k++, n_cases++)
			check_words(cases[i].names[k], text, cases[i].words);
	for (const struct pretok_rule *r; (r = pretok_rule_at(n_rules)); n_rules++)
		assert_ptr_equal(pretok_find(r->name, strlen(r->name)), r);
	assert_int_equal(n_cases, n_rules);
}

/* Rules that the text above does not tell apart. */
static void similar_pretok_rules_differ(void **state)
{
	(void)state;
	check_words("bailingmoe", "a \n\nb 'LL 'S", "a| \n\n|b| '|LL| '|S");
	check_words("qwen35", "camelCase", "camelCase");
	check_words("tekken", "camelCase", "camel|Case");
	check_words("tekken", "it's", "it|'s");
	check_words("gpt-4o", "it's HTTPServer", "it's| HTTPServer");
	check_words("laguna", "a! \n\nb", "a|!| |\n\n|b");
	check_words("seed-coder", "a! \n\nb", "a|!| \n\n|b");
	check_words("chameleon", "<sentinel:12>IMGIMGABZx", "<|sentinel|:|1|2|>|IMGIMGABZ|x");
	check_words("tiny_aya", "12345 12345x 1_000", "12|345| |123|45|x| |1|_|000");
	check_words("superbpe", "a 1234 b", "a |1|234| b");
	check_words("jais-2", "a            b", "a|        |  | | b");
	check_words("deepseek-llm", "a  \xe4\xb8\xad  ", "a|  |\xe4\xb8\xad|  ");
}

static void pretok_names_find_rules(void **state)
{
	size_t n = 0;
	(void)state;

	for (const char *name; (name = pretok_alias_at(n)); n++) {
		const struct pretok_rule *rule = pretok_find(name, strlen(name));
		assert_non_null(rule);
		assert_string_not_equal(rule->name, name);
		for (size_t i = 0; pretok_rule_at(i); i++)
			assert_string_not_equal(pretok_rule_at(i)->name, name);
	}
	assert_true(n > 40);
	assert_null(pretok_find("", 0));
	assert_null(pretok_find("gpt-4", 5));
	assert_true(pretok_find("llama4", 6) == pretok_find("gpt-4o", 6));
	assert_true(pretok_find("tekken", 6)->ignore_merges && pretok_find("tekken", 6)->add_bos);
	assert_true(pretok_find("glm4", 4) && !pretok_find("glm4", 4)->ignore_merges);
}

static enum cohort_status count_bytes(void *user, const char *word, size_t n, struct cohort_err *err)
{
	(void)word, (void)err;
	*(size_t *)user += n;
	return COHORT_OK;
}

/* A quarter of a megabyte of one thing, and something else behind it: no rule may take more than a few steps per byte,
 * nor stack that grows with the text. */
static void long_runs(void **state)
{
	static const char *const fills[] = {
			"a",
			"A",
			" ",
			"1",
			"\n",
			".",
			"\xe4\xb8\xad",
			"e\xcc\x81",
			"a ",
			"\t \n",
			"'",
			"\xc2\xbd",
	};
	static const char *const ends[] = {"a", "\xe4\xb8\xad", "\xcc\x81"};
	const size_t n_max = (size_t)1 << 18;
	char *s = mem_alloc(n_max + 8, 1);
	(void)state;

	assert_non_null(s);
	for (size_t i = 0; pretok_rule_at(i); i++) {
		struct pretok p;
		assert_int_equal(pretok_init(&p, pretok_rule_at(i), NULL), COHORT_OK);
		for (size_t k = 0; k < N_OF(fills); k++) {
			size_t len = strlen(fills[k]), n = 0, got = 0;
			struct pretok_run r;
			struct cohort_err err = {0};
			for (; n + len <= n_max; n += len)
				memcpy(s + n, fills[k], len);
			const char *end = ends[k % N_OF(ends)];
			memcpy(s + n, end, strlen(end));
			n += strlen(end);
			assert_int_equal(pretok_run_init(&r, n, NULL), COHORT_OK);
			if (pretok_split(&p, &r, s, n, count_bytes, &got, &err))
				fail_msg("%s, a run of \"%s\": %s", pretok_rule_at(i)->name, fills[k], err.text);
			assert_int_equal(got, n);
			pretok_run_release(&r);
		}
		pretok_release(&p);
	}
	mem_free(s);
}

/* Two megabytes of spaces: what goes over a run again and again takes 20 seconds of a processor, the others a tenth of
 * one. */
static void spaces_in_time(void **state)
{
	const size_t n = (size_t)2 << 20;
	char *s = mem_alloc(n, 1);
	(void)state;

	assert_non_null(s);
	memset(s, ' ', n);
	for (size_t i = 0; pretok_rule_at(i); i++) {
		struct pretok p;
		struct pretok_run r;
		size_t got = 0;
		assert_int_equal(pretok_init(&p, pretok_rule_at(i), NULL), COHORT_OK);
		assert_int_equal(pretok_run_init(&r, n, NULL), COHORT_OK);
		const clock_t before = clock();
		assert_int_equal(pretok_split(&p, &r, s, n, count_bytes, &got, NULL), COHORT_OK);
		if (clock() - before > 6 * CLOCKS_PER_SEC)
			fail_msg("%s took %ld s", pretok_rule_at(i)->name, (long)((clock() - before) / CLOCKS_PER_SEC));
		assert_int_equal(got, n);
		pretok_run_release(&r);
		pretok_release(&p);
	}
	mem_free(s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
			cmocka_unit_test(every_rule),
			cmocka_unit_test(similar_pretok_rules_differ),
			cmocka_unit_test(pretok_names_find_rules),
			cmocka_unit_test(long_runs),
			cmocka_unit_test(spaces_in_time),
	};

	return cmocka_run_group_tests_name("pretok", tests, NULL, NULL);
}
