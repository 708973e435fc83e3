/* Texts to tokens and back, for commands: memory, lines, lists of ids, and what a model adds to a text. */
#ifndef PROG_TOKENS_H
#define PROG_TOKENS_H

#include "cohort.h"

/* The tokens of a text; *out is freed with mem_free. Returns 0, or an exit code after saying why. */
int text_tokens(const char *prog, const struct cohort_model *m, const char *text, size_t n_bytes, unsigned flags,
		cohort_token **out, size_t *n_out);

/* What the model's own rule puts around a text: one token in front (-1: none) and some behind. */
struct added_tokens {
	cohort_token front;
	size_t n_behind;
};
int added_tokens_get(const char *prog, const struct cohort_model *m, struct added_tokens *added);

/* Ids in decimal, separated by white space, commas or brackets, added to *ids. `where` names the text in messages, and
 * `offset` is where it begins there. Each is checked against the vocabulary. Returns 0 or an exit code. */
struct id_list {
	cohort_token *ids; /* freed with mem_free */
	size_t n, n_max;
};
int parse_ids(const char *prog, int32_t n_vocab, const char *where, const char *text, size_t n, size_t offset,
		struct id_list *list);

#endif
