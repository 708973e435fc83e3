/* Where a text is in a grammar, and which tokens may follow. */
#ifndef SAMPLE_GRAMMAR_H
#define SAMPLE_GRAMMAR_H

#include "cohort.h"

/* A place, known to its grammar: it must not move in memory between start and end. */
struct grammar_at {
	struct cohort_grammar *g; /* NULL: none */
	struct grammar_at *prev, *next;
	int32_t state;
};

int32_t grammar_n_vocab(const struct cohort_grammar *g);
/* What the last call worked out, as a share of what a call may. For tests: nobody else has the grammar. */
double grammar_work(const struct cohort_grammar *g);

/* At the beginning of a text. */
void grammar_start(struct grammar_at *at, struct cohort_grammar *g);
/* At the same place as another. */
void grammar_copy(struct grammar_at *at, const struct grammar_at *from);
void grammar_end(struct grammar_at *at);
void grammar_restart(struct grammar_at *at);
/* To the place of another in the same grammar, which ends: needs no room, and so cannot fail. */
void grammar_take(struct grammar_at *at, struct grammar_at *from);

/* A bit for each token that may come next: [(n_vocab + 63) / 64]. E_LIMIT: the grammar is too ambiguous here,
 * or its tables are full of what texts stand at. */
enum cohort_status grammar_mask(struct grammar_at *at, uint64_t *mask, struct cohort_err *err);
/* Goes on with a token. The place is the same after E_ARG, it is not permitted here, and after E_LIMIT, as above. */
enum cohort_status grammar_accept(struct grammar_at *at, cohort_token token, struct cohort_err *err);
/* The text may end here; it must, as nothing else may follow. */
bool grammar_is_complete(const struct grammar_at *at);
bool grammar_is_finished(struct grammar_at *at);

#endif
