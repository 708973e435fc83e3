/* Token texts as a trie: all tokens that a text begins with, in one walk.
 *
 * Invariants
 *  1. The children of a node lie side by side, sorted by their byte. Nodes are laid out level by level, so the root is
 *     node 0 and nobody's child.
 *  2. Of equal texts the token with the lowest id counts.
 *  3. A walk is as long as the longest token at most.
 *
 * Refuses to know what the tokens are for. */
#include "tok/tok_impl.h"

#include <stdlib.h>
#include <string.h>

int tok_text_order(const void *pa, const void *pb)
{
	const struct tok_text *a = pa, *b = pb;
	int c = memcmp(a->s, b->s, a->n < b->n ? a->n : b->n);

	if (c)
		return c;
	if (a->n != b->n)
		return a->n < b->n ? -1 : 1;
	return a->id < b->id ? -1 : a->id > b->id;
}

struct range { /* the keys below a node, which all begin with the same `depth` bytes */
	uint32_t lo, hi, depth;
};

struct build {
	struct trie_node *nodes;
	struct range *ranges;
	size_t n, nodes_max, ranges_max;
};

static bool add_node(struct build *b, uint8_t label, struct range r)
{
	if (!mem_grow((void **)&b->nodes, &b->nodes_max, b->n + 1, sizeof *b->nodes) ||
			!mem_grow((void **)&b->ranges, &b->ranges_max, b->n + 1, sizeof *b->ranges))
		return false;
	b->nodes[b->n] = (struct trie_node){.id = -1, .label = label};
	b->ranges[b->n++] = r;
	return true;
}

/* The keys that end at node i come first in its range; the others are its children's. */
static bool expand(struct build *b, const struct tok_text *keys, size_t i)
{
	struct range r = b->ranges[i];

	b->nodes[i].first = (uint32_t)b->n;
	for (; r.lo < r.hi && keys[r.lo].n == r.depth; r.lo++)
		if (b->nodes[i].id < 0)
			b->nodes[i].id = keys[r.lo].id;
	while (r.lo < r.hi) {
		uint8_t label = (uint8_t)keys[r.lo].s[r.depth];
		uint32_t hi = r.lo;
		while (hi < r.hi && (uint8_t)keys[hi].s[r.depth] == label)
			hi++;
		if (!add_node(b, label, (struct range){r.lo, hi, r.depth + 1}))
			return false;
		b->nodes[i].n++;
		r.lo = hi;
	}
	return true;
}

enum cohort_status trie_init(struct trie *t, struct tok_text *keys, size_t n_keys, struct cohort_err *err)
{
	struct build b = {0};
	bool ok;

	*t = (struct trie){0};
	if (n_keys > 1)
		qsort(keys, n_keys, sizeof *keys, tok_text_order);
	ok = add_node(&b, 0, (struct range){0, (uint32_t)n_keys, 0});
	for (size_t i = 0; ok && i < b.n; i++)
		ok = b.n < UINT32_MAX - 256 && expand(&b, keys, i);
	mem_free(b.ranges);
	if (!ok) {
		mem_free(b.nodes);
		return err_set(err, COHORT_E_MEMORY, "vocabulary: out of memory");
	}
	t->nodes = b.nodes;
	t->n_nodes = b.n;
	return COHORT_OK;
}

void trie_release(struct trie *t)
{
	mem_free(t->nodes);
	*t = (struct trie){0};
}

uint32_t trie_next(const struct trie *t, uint32_t node, uint8_t byte)
{
	const struct trie_node *p = &t->nodes[node];
	uint32_t lo = p->first, hi = lo + p->n, end = hi;

	while (lo < hi) {
		uint32_t mid = lo + (hi - lo) / 2;
		if (t->nodes[mid].label < byte)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo < end && t->nodes[lo].label == byte ? lo : 0;
}

cohort_token trie_longest(const struct trie *t, const char *s, size_t n, size_t *n_match)
{
	cohort_token id = -1;
	uint32_t node = 0;

	*n_match = 0;
	for (size_t i = 0; i < n && (node = trie_next(t, node, (uint8_t)s[i])); i++) {
		if (t->nodes[node].id >= 0) {
			id = t->nodes[node].id;
			*n_match = i + 1;
		}
	}
	return id;
}
