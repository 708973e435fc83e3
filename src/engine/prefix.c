/* Cached prompts as a forest of blocks: finding them, pinning them, letting the least recently used go.
 *
 * Invariants
 *  1. A node is free (n_tokens 0, on the free list once) or live. A live node's parent is live and a whole block, so
 *     that chains end at a root: n_before falls by block_size with every step up.
 *  2. n_children counts the live nodes that name this one as parent. n_pins counts its own pins and its pinned
 * children; pinned is who has n_pins > 0. So a change goes up only where a count leaves or reaches 0.
 *  3. The LRU list holds exactly the live nodes without pins, and a node stands in front of its parent. So whoever
 *     stands first has no children: it is the next to go.
 *  4. The list's order is that of last use: who loses its last pin goes to the end, and those above it that lose theirs
 *     with it behind it; so does a new node, and what is above it and not pinned. To use a node is to use all that is
 *     above it, and nothing else reorders the list.
 *  5. The table chains every live node under its hash, but for tails that are no session's any more. Blocks and tails
 *     share it; a block is never taken for a tail, as that has fewer tokens.
 *  6. Every id is either on the free stack or some live node's, once.
 * Refuses to know: cells, contexts, requests; what becomes of an id that it gives back. */
#include "engine/prefix_impl.h"

#include "base/mem.h"

#include <assert.h>
#include <string.h>

/* ---- Memory ------------------------------------------------------------------------------------------------------ */

/* Every position fits an int32_t, however deep a chain. */
static bool sane(const struct prefix_limits *lim)
{
	return lim->block_size > 0 && lim->n_ids >= 0 && lim->n_nodes_max >= lim->n_ids && lim->first_id >= 0 &&
			lim->first_id <= INT32_MAX - lim->n_ids &&
			(int64_t)lim->n_nodes_max * lim->block_size <= INT32_MAX;
}

struct prefix *prefix_open(const struct prefix_limits *lim)
{
	struct prefix *p = sane(lim) ? mem_zalloc(1, sizeof *p) : NULL;
	size_t n_table = 1;

	if (!p)
		return NULL;
	const size_t n_nodes = (size_t)lim->n_nodes_max, n_tokens = n_nodes * (size_t)lim->block_size;
	while (n_table < 4 * n_nodes) /* mostly nothing is found: then it should not take looking at other nodes */
		n_table *= 2;
	p->lim = *lim;
	p->mask = n_table - 1;
	p->nodes = mem_zalloc_large(n_nodes * sizeof *p->nodes);
	p->tokens = mem_zalloc_large(n_tokens * sizeof *p->tokens);
	p->table = mem_alloc(n_table, sizeof *p->table);
	p->ids = mem_alloc((size_t)lim->n_ids, sizeof *p->ids);
	if (!p->nodes || !p->tokens || !p->table || !p->ids) {
		prefix_free(p);
		return NULL;
	}
	memset(p->table, 0xff, n_table * sizeof *p->table);
	p->first_free = p->oldest = p->newest = -1;
	for (int32_t i = lim->n_nodes_max - 1; i >= 0; i--) {
		p->nodes[i].next = p->first_free;
		p->first_free = i;
	}
	for (int32_t i = lim->n_ids - 1; i >= 0; i--)
		p->ids[p->n_free_ids++] = lim->first_id + i;
	return p;
}

void prefix_free(struct prefix *p)
{
	if (!p)
		return;
	mem_free_aligned(p->nodes);
	mem_free_aligned(p->tokens);
	mem_free(p->table);
	mem_free(p->ids);
	mem_free(p);
}

/* ---- Hashes ------------------------------------------------------------------------------------------------------ */

/* Both halves of the product, so that every bit of the input reaches the low bits, which choose the chain. */
static uint64_t mix(uint64_t a, uint64_t b)
{
	__extension__ typedef unsigned __int128 u128;
	u128 p = (u128)a * b;
	return (uint64_t)p ^ (uint64_t)(p >> 64);
}

static uint32_t float_bits(float x)
{
	uint32_t bits;
	memcpy(&bits, &x, sizeof bits);
	return bits;
}

uint64_t prefix_hash_root(const struct prefix_root *root)
{
	uint64_t h = mix(root->salt ^ 0x8f1bbcdcbfa53e0bu, 0x9e3779b97f4a7c15u);
	if (root->adapter)
		h = mix(h ^ (uintptr_t)root->adapter, 0xd1342543de82ef95u) + float_bits(root->scale);
	return mix(h ^ 0x2545f4914f6cdd1du, 0x9e3779b97f4a7c15u);
}

uint64_t prefix_hash(uint64_t before, const cohort_token *tokens, int32_t n)
{
	uint64_t h = mix(before ^ 0xa0761d6478bd642fu, 0xd1342543de82ef95u) + (uint64_t)n;
	int32_t i = 0;

	for (; i + 2 <= n; i += 2)
		h = mix(h ^ ((uint64_t)(uint32_t)tokens[i] << 32 | (uint32_t)tokens[i + 1]), 0x9e3779b97f4a7c15u);
	if (i < n)
		h = mix(h ^ (uint32_t)tokens[i], 0x9e3779b97f4a7c15u);
	return mix(h ^ 0x8f1bbcdcbfa53e0bu, 0xd1342543de82ef95u);
}

uint64_t prefix_hash_session(const struct prefix_root *root, uint64_t session)
{
	return mix(prefix_hash_root(root) ^ session, 0xe7037ed1a0b428dbu);
}

static bool same_root(const struct prefix_root *a, const struct prefix_root *b)
{
	return a->salt == b->salt && a->adapter == b->adapter &&
			(!a->adapter || float_bits(a->scale) == float_bits(b->scale));
}

/* ---- Table ------------------------------------------------------------------------------------------------------- */

static void chain(struct prefix *p, int32_t i)
{
	int32_t *first = &p->table[p->nodes[i].hash & p->mask];
	p->nodes[i].next = *first;
	p->nodes[i].chained = true;
	*first = i;
}

static void unchain(struct prefix *p, int32_t i)
{
	int32_t *link = &p->table[p->nodes[i].hash & p->mask];
	while (*link != i)
		link = &p->nodes[*link].next;
	*link = p->nodes[i].next;
	p->nodes[i].chained = false;
}

int32_t prefix_find(const struct prefix *p, const struct prefix_root *root, int32_t parent, uint64_t hash,
		const cohort_token *tokens)
{
	const size_t n_bytes = (size_t)p->lim.block_size * sizeof *tokens;

	for (int32_t i = p->table[hash & p->mask]; i >= 0; i = p->nodes[i].next) {
		const struct node *n = &p->nodes[i];
		if (n->hash == hash && n->shown.parent == parent && !node_is_tail(p, n) &&
				(parent >= 0 || same_root(&n->root, root)) &&
				memcmp(n->shown.tokens, tokens, n_bytes) == 0)
			return i;
	}
	return -1;
}

void prefix_expect(const struct prefix *p, int32_t node, uint64_t hash)
{
	__builtin_prefetch(&p->table[hash & p->mask]);
	if (node >= 0)
		__builtin_prefetch(&p->nodes[node], 1);
}

int32_t prefix_tail_get(const struct prefix *p, const struct prefix_root *root, uint64_t session)
{
	const uint64_t hash = prefix_hash_session(root, session);

	for (int32_t i = p->table[hash & p->mask]; i >= 0; i = p->nodes[i].next) {
		const struct node *n = &p->nodes[i];
		if (n->hash == hash && node_is_tail(p, n) && n->session == session && same_root(&n->root, root))
			return i;
	}
	return -1;
}

static void follow_tail(const struct prefix *p, const struct prefix_key *key, const int32_t *path,
		struct prefix_found *f)
{
	const int32_t tail = key->session ? prefix_tail_get(p, key->root, key->session) : -1;

	if (tail < 0)
		return;
	const struct prefix_node *t = &p->nodes[tail].shown;
	const int32_t k = t->n_before / p->lim.block_size, n_left = key->n_tokens - t->n_before;
	if (k > f->n_path || t->parent != (k ? path[k - 1] : -1))
		return;
	while (f->n_tail < t->n_tokens && f->n_tail < n_left &&
			t->tokens[f->n_tail] == key->tokens[t->n_before + f->n_tail])
		f->n_tail++;
	if (f->n_tail > 0) {
		f->tail = tail;
		f->n_chain = k;
	}
}

struct prefix_found prefix_follow(const struct prefix *p, const struct prefix_key *key, int32_t *path)
{
	const int32_t size = p->lim.block_size;
	struct prefix_found f = {.tail = -1};
	uint64_t h = prefix_hash_root(key->root);

	for (int32_t node = -1; f.n_path < key->n_tokens / size; path[f.n_path++] = node) {
		const cohort_token *tokens = key->tokens + (size_t)f.n_path * (size_t)size;
		h = f.n_path < key->n_hashes ? key->hashes[f.n_path] : prefix_hash(h, tokens, size);
		node = prefix_find(p, key->root, node, h, tokens);
		if (node < 0)
			break;
	}
	follow_tail(p, key, path, &f);
	return f;
}

/* ---- LRU list ---------------------------------------------------------------------------------------------------- */

/* Where the one before and the one behind point at a node. */
static int32_t *link_from_older(struct prefix *p, int32_t older)
{
	return older < 0 ? &p->oldest : &p->nodes[older].newer;
}

static int32_t *link_from_newer(struct prefix *p, int32_t newer)
{
	return newer < 0 ? &p->newest : &p->nodes[newer].older;
}

static void lru_append(struct prefix *p, int32_t i)
{
	struct node *n = &p->nodes[i];

	n->older = p->newest;
	n->newer = -1;
	*link_from_older(p, n->older) = i;
	p->newest = i;
}

static void lru_remove(struct prefix *p, int32_t i)
{
	struct node *n = &p->nodes[i];

	*link_from_older(p, n->older) = n->newer;
	*link_from_newer(p, n->newer) = n->older;
	n->older = n->newer = -1;
}

/* ---- Nodes ------------------------------------------------------------------------------------------------------- */

static int32_t node_new(struct prefix *p, const struct prefix_root *root, uint64_t session, int32_t parent,
		uint64_t hash, const cohort_token *tokens, int32_t n_tokens, bool with_id)
{
	const int32_t i = p->first_free;

	assert(parent == -1 || (node_is_live(p, parent) && !node_is_tail(p, &p->nodes[parent])));
	if (i < 0 || (with_id && p->n_free_ids == 0))
		return -1;
	struct node *n = &p->nodes[i];
	cohort_token *copy = &p->tokens[(size_t)i * (size_t)p->lim.block_size];
	p->first_free = n->next;
	memcpy(copy, tokens, (size_t)n_tokens * sizeof *tokens);
	*n = (struct node){
			.shown = {parent, 0, n_tokens, copy, with_id ? p->ids[--p->n_free_ids] : -1},
			.root = *root,
			.session = session,
			.hash = hash,
	};
	if (parent >= 0) {
		n->shown.n_before = p->nodes[parent].shown.n_before + p->lim.block_size;
		p->nodes[parent].n_children++;
	}
	chain(p, i);
	if (p->first_free >= 0) { /* the next one's, long not touched */
		__builtin_prefetch(&p->nodes[p->first_free], 1);
		__builtin_prefetch(&p->tokens[(size_t)p->first_free * (size_t)p->lim.block_size], 1);
	}
	lru_append(p, i);
	for (int32_t k = parent; k >= 0 && p->nodes[k].n_pins == 0; k = p->nodes[k].shown.parent) {
		lru_remove(p, k);
		lru_append(p, k);
	}
	return i;
}

static void node_remove(struct prefix *p, int32_t i)
{
	struct node *n = &p->nodes[i];

	assert(node_is_live(p, i) && n->n_children == 0 && n->n_pins == 0);
	if (n->chained)
		unchain(p, i);
	lru_remove(p, i);
	if (n->shown.seq >= 0)
		p->ids[p->n_free_ids++] = n->shown.seq;
	if (n->shown.parent >= 0)
		p->nodes[n->shown.parent].n_children--;
	n->shown.n_tokens = 0;
	n->next = p->first_free;
	p->first_free = i;
}

int32_t prefix_add(struct prefix *p, const struct prefix_root *root, int32_t parent, uint64_t hash,
		const cohort_token *tokens, bool with_id)
{
	assert(prefix_find(p, root, parent, hash, tokens) < 0);
	return node_new(p, root, 0, parent, hash, tokens, p->lim.block_size, with_id);
}

bool prefix_give_id(struct prefix *p, int32_t node)
{
	struct node *n = &p->nodes[node];

	assert(node_is_live(p, node) && n->shown.seq < 0);
	if (p->n_free_ids == 0)
		return false;
	n->shown.seq = p->ids[--p->n_free_ids];
	p->n_pinned += n->n_pins > 0;
	return true;
}

void prefix_take_id(struct prefix *p, int32_t node)
{
	struct node *n = &p->nodes[node];

	assert(node_is_live(p, node) && n->shown.seq >= 0);
	p->ids[p->n_free_ids++] = n->shown.seq;
	n->shown.seq = -1;
	p->n_pinned -= n->n_pins > 0;
}

void prefix_drop(struct prefix *p, int32_t node)
{
	node_remove(p, node);
}

bool prefix_is_loose(const struct prefix *p, int32_t node)
{
	return p->nodes[node].n_pins == 0 && p->nodes[node].n_children == 0;
}

bool prefix_has_room(const struct prefix *p)
{
	return p->first_free >= 0 && p->n_free_ids > 0;
}

const struct prefix_node *prefix_node_get(const struct prefix *p, int32_t node)
{
	assert(node_is_live(p, node));
	return &p->nodes[node].shown;
}

void prefix_pin(struct prefix *p, int32_t node)
{
	assert(node_is_live(p, node));
	p->nodes[node].n_pins_own++;
	for (int32_t i = node; i >= 0 && p->nodes[i].n_pins++ == 0; i = p->nodes[i].shown.parent) {
		p->n_pinned += p->nodes[i].shown.seq >= 0;
		lru_remove(p, i);
	}
}

void prefix_unpin(struct prefix *p, int32_t node)
{
	assert(node_is_live(p, node) && p->nodes[node].n_pins_own > 0);
	p->nodes[node].n_pins_own--;
	for (int32_t i = node; i >= 0 && --p->nodes[i].n_pins == 0; i = p->nodes[i].shown.parent) {
		p->n_pinned -= p->nodes[i].shown.seq >= 0;
		lru_append(p, i);
	}
}

bool prefix_evict(struct prefix *p, cohort_seq *seq)
{
	while (p->oldest >= 0) {
		const int32_t i = p->oldest;
		*seq = p->nodes[i].shown.seq;
		node_remove(p, i);
		if (*seq >= 0)
			return true;
	}
	*seq = -1;
	return false;
}

int32_t prefix_n_held(const struct prefix *p)
{
	return p->lim.n_ids - p->n_free_ids;
}

int32_t prefix_n_pinned(const struct prefix *p)
{
	return p->n_pinned;
}

int32_t prefix_n_unpinned(const struct prefix *p, int32_t node)
{
	int32_t n = 0;

	/* All above a pinned one are pinned. */
	for (int32_t i = node; i >= 0 && p->nodes[i].n_pins == 0; i = p->nodes[i].shown.parent)
		n += p->nodes[i].shown.seq >= 0;
	return n;
}

int32_t prefix_tail_set(struct prefix *p, const struct prefix_root *root, uint64_t session, int32_t parent,
		const cohort_token *tokens, int32_t n_tokens, cohort_seq *old)
{
	const int32_t before = prefix_tail_get(p, root, session);

	assert(n_tokens > 0 && n_tokens < p->lim.block_size);
	*old = -1;
	if (before >= 0 && p->nodes[before].n_pins > 0) {
		unchain(p, before);
	} else if (before >= 0) {
		*old = p->nodes[before].shown.seq;
		node_remove(p, before);
	}
	return node_new(p, root, session, parent, prefix_hash_session(root, session), tokens, n_tokens, true);
}
