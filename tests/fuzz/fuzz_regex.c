/* Any bytes as a regular expression in a JSON schema: refused with a reason, or a grammar whose strings are those that
 * PCRE2 says match. Strings are made by walking through the grammar, and of the characters of the pattern; what the
 * bytes behind the pattern (and a NUL) say decides which.
 *
 * Seen red with a . that matches \n, with an end that is not anchored, and with an inverted class that has its last
 * character. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz_bytes.h"
#include "pattern_judge.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

enum { PATTERN_MAX = 200, TEXT_MAX = 60, WALKS = 3, WORDS = 8 };

static struct cohort_lexicon *lexicon;

static void check(bool ok, const char *what)
{
	if (!ok) {
		fprintf(stderr, "fuzz_regex: %s\n", what);
		abort();
	}
}

/* ---- Strings ---- */

/* A string as the grammars write it: the shortest escapes. */
static size_t as_json(const char *text, size_t n, char *out)
{
	static const char escapes[] = "\"\\\b\f\n\r\t", letters[] = "\"\\bfnrt";
	size_t k = 0;

	out[k++] = '"';
	for (size_t i = 0; i < n; i++) {
		const unsigned char c = (unsigned char)text[i];
		const char *e = c ? strchr(escapes, c) : NULL;
		if (e) {
			out[k++] = '\\';
			out[k++] = letters[e - escapes];
		} else if (c < 0x20 || c == 0x7f) {
			k += (size_t)sprintf(out + k, "\\u%04x", c);
		} else {
			out[k++] = (char)c;
		}
	}
	out[k++] = '"';
	return k;
}

/* Characters of the pattern and some others, in any order. */
static size_t any_word(struct dice *d, const char *pattern, size_t n_pattern, char *out)
{
	static const char *const others[] = {"a", "b", "z", "A", "0", "9", "_", " ", "\n", "\t", "-", "\"", "\\",
			"\x7f", "\x01", "\xc3\xa9", "\xf0\x9f\x98\x80"};
	const uint32_t n_chars = below(d, 9);
	size_t n = 0;

	for (uint32_t i = 0; i < n_chars; i++) {
		if (n_pattern > 0 && below(d, 4)) {
			size_t at = below(d, n_pattern);
			while (at > 0 && ((unsigned char)pattern[at] & 0xc0) == 0x80)
				at--;
			uint32_t c;
			const size_t k = utf8_decode(pattern + at, n_pattern - at, &c);
			memcpy(out + n, pattern + at, k);
			n += k;
		} else {
			const char *o = others[below(d, sizeof others / sizeof *others)];
			memcpy(out + n, o, strlen(o));
			n += strlen(o);
		}
	}
	return n;
}

static void try_word(struct dice *d, struct cohort_grammar *g, struct judge *j, const char *pattern, size_t n_pattern)
{
	char word[64], text[8 * 64];
	const size_t n_word = any_word(d, pattern, n_pattern, word), n = as_json(word, n_word, text);
	bool complete = false;
	size_t n_matched = 0;

	if (cohort_grammar_match(g, text, n, &n_matched, &complete, NULL))
		return;
	const int want = judge_ask(j, word, n_word);
	if (want >= 0 && want != (int)complete) {
		fprintf(stderr, "fuzz_regex: pattern %.*s, string %.*s\n", (int)n_pattern, pattern, (int)n, text);
		check(false, want ? "a string that matches is refused" : "a string that does not match is taken");
	}
}

static void walk(struct dice *d, struct cohort_grammar *g, struct judge *j, const char *pattern, size_t n_pattern)
{
	char text[TEXT_MAX];
	size_t n;
	bool whole;

	check(bytes_walk(g, d, text, TEXT_MAX, &n, &whole), "a permitted byte is not accepted");
	if (!whole)
		return;
	json_t *v = json_loadb(text, n, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
	check(json_is_string(v), "what comes out is no JSON string");
	if (judge_ask(j, json_string_value(v), json_string_length(v)) == 0) {
		fprintf(stderr, "fuzz_regex: pattern %.*s, string %.*s\n", (int)n_pattern, pattern, (int)n, text);
		check(false, "a string that does not match comes out");
	}
	json_decref(v);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	const uint8_t *nul = n ? memchr(data, 0, n) : NULL;
	const size_t n_pattern = nul ? (size_t)(nul - data) : n;
	const char *pattern = (const char *)data;
	struct cohort_grammar *g = NULL;
	struct cohort_err err = {0};
	struct judge j;
	struct dice d;

	if (!lexicon)
		check((lexicon = bytes_lexicon()) != NULL, "no lexicon");
	if (n_pattern > PATTERN_MAX || utf8_valid_prefix(pattern, n_pattern) != n_pattern)
		return 0;
	json_t *schema = json_pack("{s:s,s:s%}", "type", "string", "pattern", n_pattern ? pattern : "", n_pattern);
	char *text = schema ? json_dumps(schema, 0) : NULL;
	json_decref(schema);
	if (!text)
		return 0;
	const enum cohort_status st = cohort_grammar_open_schema(lexicon, text, strlen(text), &g, &err);
	free(text);
	if (st) {
		check(err.text[0] != 0 && !g, "a refusal without a reason");
		check(st == COHORT_E_FORMAT || st == COHORT_E_UNSUPPORTED || st == COHORT_E_LIMIT, "another refusal");
		return 0;
	}
	dice_bytes(&d, nul ? nul + 1 : data, nul ? n - n_pattern - 1 : n);
	judge_open(&j, n_pattern ? pattern : "", n_pattern);
	for (int i = 0; i < WALKS; i++)
		walk(&d, g, &j, pattern, n_pattern);
	for (int i = 0; i < WORDS; i++)
		try_word(&d, g, &j, pattern, n_pattern);
	judge_release(&j);
	cohort_grammar_free(g);
	return 0;
}
