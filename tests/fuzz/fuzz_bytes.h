/* For targets that make texts of a grammar byte by byte. */
#ifndef TESTS_FUZZ_BYTES_H
#define TESTS_FUZZ_BYTES_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "cohort.h"
#include "dice.h"
#include "sample/grammar.h"

/* Every byte is a token, and 256 is the end. NULL: out of memory. */
static inline struct cohort_lexicon *bytes_lexicon(void)
{
	static char texts[256];
	static struct cohort_lexicon_token tokens[257];
	struct cohort_lexicon *lexicon = NULL;

	for (int i = 0; i < 256; i++) {
		texts[i] = (char)i;
		tokens[i] = (struct cohort_lexicon_token){texts + i, 1, true, false};
	}
	tokens[256] = (struct cohort_lexicon_token){"<end>", 5, false, true};
	return cohort_lexicon_open_list(tokens, 257, &lexicon, NULL) ? NULL : lexicon;
}

/* A text of up to n_max bytes, each of them permitted: as the dice say, but behind the first few a quote or a bracket
 * that closes something is taken when it may come. *whole: it may end there. False: the grammar contradicts itself. */
static inline bool bytes_walk(
		struct cohort_grammar *g, struct dice *d, char *text, size_t n_max, size_t *n, bool *whole)
{
	uint64_t mask[5];
	struct grammar_at at;
	bool ok = true;

	*n = 0;
	grammar_start(&at, g);
	while (*n < n_max && !grammar_is_finished(&at) && !grammar_mask(&at, mask, NULL)) {
		cohort_token t = (cohort_token)(below(d, 3) ? ' ' + below(d, 95) : below(d, 256));
		for (const char *p = "\"}]"; *n > 8 && *p; p++)
			if (mask[*p / 64] >> *p % 64 & 1)
				t = *p;
		for (int i = 0; i < 256 && !(mask[t / 64] >> t % 64 & 1); i++)
			t = (t + 1) % 256;
		if (!(mask[t / 64] >> t % 64 & 1))
			break;
		const enum cohort_status st = grammar_accept(&at, t, NULL);
		ok = st == COHORT_OK || st == COHORT_E_LIMIT;
		if (st)
			break;
		text[(*n)++] = (char)t;
	}
	*whole = grammar_is_complete(&at);
	grammar_end(&at);
	return ok;
}

#endif
