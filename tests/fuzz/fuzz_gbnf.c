/* Any bytes as a grammar: it opens or is refused with a reason; what opens can be asked and followed. A text that the
 * mask permits must be accepted, one that it forbids must not, and matching byte by byte must say the same. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "cohort.h"
#include "sample/grammar.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static void check(bool ok, const char *what)
{
	if (!ok) {
		fprintf(stderr, "fuzz_gbnf: %s\n", what);
		abort();
	}
}

enum { N_TOKENS = 256 + 8, STEPS = 24 };

static struct cohort_lexicon *lexicon;
static char texts[256];
static struct cohort_lexicon_token tokens[N_TOKENS];

static void open_lexicon(void)
{
	static const char *const more[] = {"ab", "abc", "\"a", "{\"", "\xc3\xa9",
			"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "<x>", "<end>"};
	for (int i = 0; i < 256; i++) {
		texts[i] = (char)i;
		tokens[i] = (struct cohort_lexicon_token){texts + i, 1, true, false};
	}
	for (int i = 0; i < 8; i++)
		tokens[256 + i] = (struct cohort_lexicon_token){more[i], strlen(more[i]), i < 6, i == 7};
	check(cohort_lexicon_open_list(tokens, N_TOKENS, &lexicon, NULL) == COHORT_OK, "no lexicon");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	struct cohort_grammar *g = NULL;
	struct cohort_err err = {0};
	struct grammar_at at;
	uint64_t mask[(N_TOKENS + 63) / 64];
	char text[STEPS * 64];
	size_t n_text = 0;
	bool named = false;

	if (!lexicon)
		open_lexicon();
	if (cohort_grammar_open(lexicon, (const char *)data, n, NULL, &g, &err)) {
		check(err.text[0] != 0, "a refusal without a reason");
		return 0;
	}
	grammar_start(&at, g);
	for (int i = 0; i < STEPS; i++) {
		cohort_token pick = -1;
		if (grammar_mask(&at, mask, &err))
			break;
		for (int k = 0; k < N_TOKENS; k++) {
			const cohort_token t = (cohort_token)((k * 37 + i * 11 + (int)n) % N_TOKENS);
			if (mask[t / 64] >> t % 64 & 1)
				pick = t;
			else
				check(grammar_accept(&at, t, &err) != COHORT_OK, "a forbidden token is accepted");
		}
		if (pick < 0 || tokens[pick].is_end)
			break;
		named |= !tokens[pick].is_text;
		const enum cohort_status st = grammar_accept(&at, pick, &err);
		check(st == COHORT_OK || st == COHORT_E_LIMIT, "a permitted token is not accepted");
		if (st)
			break;
		if (tokens[pick].is_text) {
			memcpy(text + n_text, tokens[pick].bytes, tokens[pick].n_bytes);
			n_text += tokens[pick].n_bytes;
		}
	}
	/* Tokens that a grammar names are no text of it. */
	size_t matched = 0;
	bool complete = false;
	if (!named && !memchr(data, '<', n) &&
			cohort_grammar_match(g, text, n_text, &matched, &complete, &err) == COHORT_OK) {
		check(matched == n_text, "the text that was permitted does not match");
		check(complete == grammar_is_complete(&at), "it is whole, or is it not");
	}
	grammar_end(&at);
	cohort_grammar_free(g);
	return 0;
}
