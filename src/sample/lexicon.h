/* The text of every token, and tries over it: what a grammar is matched with. */
#ifndef SAMPLE_LEXICON_H
#define SAMPLE_LEXICON_H

#include "cohort.h"

/* Nodes in the order of a walk that goes down first; the root is not among them. A token's bytes lead to the node whose
 * tokens it is one of. */
struct lexicon_node {
	uint32_t skip; /* the node after all below this one */
	uint32_t tokens; /* first of them in order[] */
	uint32_t n_tokens;
	uint16_t depth; /* of the first node: 1 */
	uint8_t byte;
};

struct lexicon_trie {
	struct lexicon_node *nodes;
	cohort_token *order; /* tokens by their bytes */
	size_t n_nodes, n_tokens, depth;
};

/* Tokens of more bytes than this are few, and in a trie of their own. */
enum { LEXICON_SHORT = 32, LEXICON_BYTES_MAX = 60000 };

struct cohort_lexicon {
	int32_t n_vocab;
	uint8_t *bytes;
	uint64_t *ends; /* [n_vocab]: where each token's bytes end */
	uint8_t *is_end; /* [n_vocab]: ends a generation */
	cohort_token *ending; /* [n_ending]: those */
	int32_t n_ending;
	uint8_t *is_text; /* [n_vocab]: the bytes are what it adds to a text; otherwise its name */
	struct lexicon_trie short_ones, long_ones;
};

/* get is called for 0 .. n_vocab - 1, several times. Statuses: E_ARG, E_LIMIT (a token above 60,000 bytes), E_MEMORY.
 */
enum cohort_status lexicon_open(int32_t n_vocab, struct cohort_lexicon_token (*get)(const void *arg, cohort_token t),
		const void *arg, struct cohort_lexicon **out, struct cohort_err *err);
/* What a token adds to a text: n is 0 for one that is not text. And what it is called. */
const uint8_t *lexicon_bytes(const struct cohort_lexicon *x, cohort_token t, size_t *n);
const uint8_t *lexicon_name(const struct cohort_lexicon *x, cohort_token t, size_t *n);

#endif
