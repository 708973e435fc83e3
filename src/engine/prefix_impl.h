/* What the books of cached prompts are made of. Nobody else includes it but the test that damages them. */
#ifndef ENGINE_PREFIX_IMPL_H
#define ENGINE_PREFIX_IMPL_H

#include "engine/prefix.h"

struct node {
	struct prefix_node shown;
	struct prefix_root root; /* compared where there is no parent, and of tails */
	uint64_t session;        /* of a tail */
	uint64_t hash;
	int32_t next;            /* in the table's chain or on the free list; -1: the last */
	int32_t older, newer;    /* in the LRU list; both -1: the only one, or not there */
	int32_t n_children;
	int32_t n_pins;
	int32_t n_pins_own;
	bool chained;
};

struct prefix {
	struct prefix_limits lim;
	struct node *nodes;   /* [n_nodes_max] */
	cohort_token *tokens; /* [n_nodes_max, block_size] */
	int32_t *table;       /* [mask + 1]: the first node of each chain, or -1 */
	uint64_t mask;
	int32_t oldest, newest; /* of the LRU list; -1: it is empty */
	cohort_seq *ids;      /* [n_ids]: the free ones, n_free_ids of them */
	int32_t n_free_ids;
	int32_t first_free;   /* node */
	int32_t n_pinned;
};

static inline bool node_is_live(const struct prefix *p, int32_t i)
{
	return i >= 0 && i < p->lim.n_nodes_max && p->nodes[i].shown.n_tokens > 0;
}
static inline bool node_is_tail(const struct prefix *p, const struct node *n)
{
	return n->shown.n_tokens < p->lim.block_size;
}

#endif
