/* Guessing how a text goes on from what it says already, and how far to guess. Tokens only: no model, no I/O. */
#ifndef PROG_SPECULATE_GUESS_H
#define PROG_SPECULATE_GUESS_H

#include "cohort.h"

#include <stddef.h>
#include <stdint.h>

enum { NGRAM_MAX = 64 }; /* the longest n-gram that is looked up */
enum { MATCH_MAX = 64, ODDS_CLASSES = 8 }; /* the longest match told apart from longer ones; classes of them */

/* Where each n-gram of a text ended last, for the lengths n_min to n_max. The text itself stays the caller's. */
struct lookup {
	int32_t n_min, n_max;
	size_t n_indexed; /* n-grams that end before this index are in the tables */
	struct lookup_table {
		uint32_t *ends; /* [n_slots]: index of the last token, plus one; 0: free */
		size_t n_slots, n_used;
	} tables[NGRAM_MAX]; /* of length n_min + i */
};

/* 1 <= n_min <= n_max <= NGRAM_MAX */
void lookup_init(struct lookup *l, int32_t n_min, int32_t n_max);
void lookup_release(struct lookup *l);
/* How text [n_text] may go on, by its longest n-gram (of n_max to n_min tokens at its end) that occurred before: what
 * came after the most recent of those occurrences. Where that runs into the end of the text, the guess goes on with
 * itself, as a text with a period does. *n_out: n_guess tokens, or 0; *n_match: how many tokens there and here agree
 * (more than n_max if it is so, at most MATCH_MAX), or 0. From call to call the text may only grow. E_MEMORY: nothing
 * is lost, the call may be repeated. */
enum cohort_status lookup_guess(struct lookup *l, const cohort_token *text, size_t n_text, cohort_token *out,
		int32_t n_guess, int32_t *n_out, int32_t *n_match, struct cohort_err *err);

/* How many tokens of a lookup are worth verifying: the longer the match, the likelier what follows; how likely is
 * counted as the text goes on. */
struct odds {
	int32_t n_max;
	float row; /* cost of one more row, where a step without guesses costs 1 */
	float right[ODDS_CLASSES], wrong[ODDS_CLASSES]; /* by length of match; old ones fade */
};
/* n_lines texts share each decode. */
void odds_init(struct odds *o, int32_t n_max, int32_t n_lines);
/* The length of a guess behind a match, at most n_max; 0: none is worth its rows. */
int32_t odds_length(const struct odds *o, int32_t n_match);
/* Of n_guess tokens behind a match n_right were right, whether they were verified or only compared with the text. */
void odds_tell(struct odds *o, int32_t n_match, int32_t n_guess, int32_t n_right);

/* How many tokens a draft model shall guess, by how its last guesses did. */
struct pace {
	int32_t n_min, n_max;
	int32_t want; /* the length of the next guess */
	int32_t n_wrong; /* guesses in a row of which nothing was right */
	int32_t n_rest; /* steps still to go without a guess */
};
void pace_init(struct pace *p, int32_t n_min, int32_t n_max);
/* The length to guess in this step; 0: none. Asked once per step. */
int32_t pace_next(struct pace *p);
/* What came of a guess of n_guess > 0 tokens. */
void pace_tell(struct pace *p, int32_t n_guess, int32_t n_right);

#endif
