/* Cached prompts: which tokens, after which others, lie in which sequence. Books only: who uses them moves the cells.
 *
 * A node is a block of tokens behind its parent's. Its cells are held by a sequence id of its own, so that they stay
 * when the slot that computed them goes. Slots pin the deepest node they share; a node with a pinned one below it is
 * pinned, too. The rest can be evicted, ends of chains first, the least recently used before the others. */
#ifndef ENGINE_PREFIX_H
#define ENGINE_PREFIX_H

#include "cohort.h"

struct prefix;

/* Only requests that agree in all of this share anything. */
struct prefix_root {
	uint64_t salt;
	const void *adapter;
	float scale; /* of the adapter; counts only if there is one */
};

struct prefix_limits {
	int32_t block_size;
	cohort_seq first_id;
	int32_t n_ids;       /* sequence ids first_id .. first_id + n_ids - 1 are given to nodes */
	int32_t n_nodes_max; /* nodes with and without an id; at least n_ids */
};

struct prefix_node {
	int32_t parent;             /* -1: the first block of its root */
	int32_t n_before;           /* tokens before it */
	int32_t n_tokens;           /* block_size; fewer: the tail of a session */
	const cohort_token *tokens; /* [n_tokens] */
	cohort_seq seq;             /* who holds its cells; -1: nobody, it is there for its children */
};

/* NULL when out of memory, or when n_nodes_max * block_size does not fit an int32_t. All memory is taken here. */
struct prefix *prefix_open(const struct prefix_limits *lim);
void prefix_free(struct prefix *p);

/* Hashes: of a root, of a session of it, and of n tokens behind something that has a hash. */
uint64_t prefix_hash_root(const struct prefix_root *root);
uint64_t prefix_hash_session(const struct prefix_root *root, uint64_t session);
uint64_t prefix_hash(uint64_t before, const cohort_token *tokens, int32_t n);

/* The child of parent (-1: of the root) that has exactly these block_size tokens, or -1. `hash` is what prefix_hash
 * says of them; tokens are compared as well, so that a hash that meets another does no harm. */
int32_t prefix_find(const struct prefix *p, const struct prefix_root *root, int32_t parent, uint64_t hash,
		const cohort_token *tokens);
/* Tokens to be looked for. Hashes are those of prefix_hash of the first n_hashes whole blocks, if they are known. */
struct prefix_key {
	const struct prefix_root *root;
	uint64_t session; /* 0: none */
	const cohort_token *tokens;
	int32_t n_tokens;
	const uint64_t *hashes;
	int32_t n_hashes;
};
/* The cached part of the key's tokens: n_path blocks, and after the first n_chain of these the session's tail. */
struct prefix_found {
	int32_t n_path, n_chain;
	int32_t tail;   /* -1: none */
	int32_t n_tail; /* tokens that it begins with */
};
/* Follows the tokens as far as there are nodes, which are path[0 .. n_path) then. */
struct prefix_found prefix_follow(const struct prefix *p, const struct prefix_key *key, int32_t *path);
/* Begins to fetch what that will look at, and the parent. */
void prefix_expect(const struct prefix *p, int32_t parent, uint64_t hash);
/* A new child, which must not be there yet, of a whole block; with_id: it gets a sequence id, into which the caller
 * copies the cells. It and those above it are the most recently used. -1 when there is no node or id left: prefix_evict
 * makes room. */
int32_t prefix_add(struct prefix *p, const struct prefix_root *root, int32_t parent, uint64_t hash,
		const cohort_token *tokens, bool with_id);
/* Gives a node without an id one; false when there is none left. */
bool prefix_give_id(struct prefix *p, int32_t node);
/* Takes the id of a node, whose cells nobody holds then; it stays for its children. */
void prefix_take_id(struct prefix *p, int32_t node);
/* Takes away a node that is neither pinned nor anybody's parent. Its id, which the caller empties, is free again. */
void prefix_drop(struct prefix *p, int32_t node);
/* Whether prefix_drop may be called: neither pinned nor anybody's parent. */
bool prefix_is_loose(const struct prefix *p, int32_t node);
/* Whether there are a node and an id left. */
bool prefix_has_room(const struct prefix *p);
/* Borrowed until the node is dropped or evicted. */
const struct prefix_node *prefix_node_get(const struct prefix *p, int32_t node);

/* Pins count. Unpinning makes the node and those above it the most recently used. */
void prefix_pin(struct prefix *p, int32_t node);
void prefix_unpin(struct prefix *p, int32_t node);

/* Evicts the least recently used end of a chain that is not pinned. Nodes without an id that get in the way go, too.
 * *seq is the id to be emptied. False: everything left is pinned, and *seq is -1; nodes without an id may have gone
 * even then, so that there can be a node left though no id. */
bool prefix_evict(struct prefix *p, cohort_seq *seq);

/* Nodes with an id, and those of them that are pinned. */
int32_t prefix_n_held(const struct prefix *p);
int32_t prefix_n_pinned(const struct prefix *p);
/* How many of node and those above it have an id and are not pinned. */
int32_t prefix_n_unpinned(const struct prefix *p, int32_t node);

/* Tails of sessions: the last 1 to block_size - 1 tokens that a session's request left, behind a parent. Setting one
 * takes the place of what the session had of this root: *old is then the id to be emptied (-1: none; also when the old
 * one is pinned: it stays until it is unpinned and evicted, but is not the session's any more). Returns the node, or -1
 * when there is no node or id left (the old one is gone then, all the same). The new one may get the very id that *old
 * names: empty it before cells are copied into it. Tails are evicted like other nodes. */
int32_t prefix_tail_set(struct prefix *p, const struct prefix_root *root, uint64_t session, int32_t parent,
		const cohort_token *tokens, int32_t n_tokens, cohort_seq *old);
int32_t prefix_tail_get(const struct prefix *p, const struct prefix_root *root, uint64_t session);

#endif
