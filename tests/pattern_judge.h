/* What PCRE2 says of a pattern in a JSON schema: escapes and empty classes as in ECMAScript, $ at the very end. Of
 * strings with characters of which the two think differently (line ends other than \n, spaces beyond ASCII) it says
 * nothing, nor of patterns that it does not take, or takes for something else ([:name:], and an empty class that may be
 * left out: PCRE2 does not read what follows it). */
#ifndef TESTS_PATTERN_JUDGE_H
#define TESTS_PATTERN_JUDGE_H

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"

struct judge {
	pcre2_code *re; /* NULL: it does not take the pattern */
	pcre2_match_data *data;
	pcre2_match_context *context;
};

static inline void judge_open(struct judge *j, const char *pattern, size_t n)
{
	int code;
	PCRE2_SIZE at;

	*j = (struct judge){.re = NULL};
	for (size_t i = 0; i + 1 < n; i++)
		if (pattern[i] == '[' && (strchr(":.=", pattern[i + 1]) ||
						 (pattern[i + 1] == ']' && i + 2 < n && strchr("*?{", pattern[i + 2]))))
			return;
	j->re = pcre2_compile((PCRE2_SPTR)pattern, n,
			PCRE2_UTF | PCRE2_DOLLAR_ENDONLY | PCRE2_ALLOW_EMPTY_CLASS | PCRE2_ALT_BSUX |
					PCRE2_NEVER_BACKSLASH_C,
			&code, &at, NULL);
	if (!j->re)
		return;
	j->data = pcre2_match_data_create_from_pattern(j->re, NULL);
	j->context = pcre2_match_context_create(NULL);
	if (!j->data || !j->context)
		abort();
	pcre2_set_match_limit(j->context, 20000);
	pcre2_set_depth_limit(j->context, 2000);
}

static inline void judge_release(struct judge *j)
{
	pcre2_match_data_free(j->data);
	pcre2_match_context_free(j->context);
	pcre2_code_free(j->re);
}

/* 1: it matches, 0: it does not, -1: who knows. */
static inline int judge_ask(struct judge *j, const char *text, size_t n)
{
	for (size_t at = 0, k; at < n; at += k) {
		uint32_t c;
		k = utf8_decode(text + at, n - at, &c);
		if (k == 0 || c == 0 || c == '\r' || c == 0x85 || c == 0xa0 || c == 0x1680 ||
				(c >= 0x2000 && c <= 0x206f) || c == 0x3000 || c == 0xfeff)
			return -1;
	}
	if (!j->re)
		return -1;
	const int rc = pcre2_match(j->re, (PCRE2_SPTR)text, n, 0, 0, j->data, j->context);
	return rc >= 0 ? 1 : rc == PCRE2_ERROR_NOMATCH ? 0 : -1;
}

#endif
