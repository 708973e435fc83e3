/* Whether the engine's books are sound: every count, list and order of the index of cached prompts is what its nodes
 * say, and that of the queue what its items and clients say. Both are asked after every step of the random tests;
 * test_engine_books.c damages books to see that they notice. */
#ifndef TESTS_ENGINE_BOOKS_H
#define TESTS_ENGINE_BOOKS_H

#include "engine/prefix_impl.h"
#include "engine/queue_impl.h"

/* ---- Cached prompts ---- */

static inline bool books_stands_before(const struct prefix *p, int32_t i, int32_t later)
{
	while (i >= 0 && i != later)
		i = p->nodes[i].newer;
	return i >= 0;
}

/* Whether the LRU list is whole, of live nodes without pins; how many in *n. A circle would have a node with two before
 * it. */
static inline bool books_lru_consistent(const struct prefix *p, int32_t *n)
{
	int32_t before = -1;

	*n = 0;
	for (int32_t i = p->oldest; i >= 0; before = i, i = p->nodes[i].newer, ++*n)
		if (!node_is_live(p, i) || p->nodes[i].n_pins > 0 || p->nodes[i].older != before)
			return false;
	return p->newest == before;
}

/* What invariants 1 to 6 say of one live node. */
static inline bool books_node_consistent(const struct prefix *p, int32_t i)
{
	const struct node *n = &p->nodes[i];
	const int32_t parent = n->shown.parent;
	int32_t n_children = 0, n_pins = n->n_pins_own, n_before = 0, n_same_id = 0;

	if (parent != -1) {
		if (!node_is_live(p, parent) || node_is_tail(p, &p->nodes[parent]))
			return false;
		n_before = p->nodes[parent].shown.n_before + p->lim.block_size;
	}
	for (int32_t k = 0; k < p->lim.n_nodes_max; k++) {
		const struct node *other = &p->nodes[k];
		if (!node_is_live(p, k))
			continue;
		n_children += other->shown.parent == i;
		n_pins += other->shown.parent == i && other->n_pins > 0;
		n_same_id += other->shown.seq == n->shown.seq;
	}
	for (int32_t k = 0; k < p->n_free_ids; k++)
		n_same_id += p->ids[k] == n->shown.seq;
	if (n->n_children != n_children || n->n_pins != n_pins || n->n_pins_own < 0 || n->shown.n_before != n_before)
		return false;
	if (n->shown.tokens != &p->tokens[(size_t)i * (size_t)p->lim.block_size] ||
			n->shown.n_tokens > p->lim.block_size)
		return false;
	if (n->shown.seq != -1 &&
			(n_same_id != 1 || n->shown.seq < p->lim.first_id ||
					n->shown.seq >= p->lim.first_id + p->lim.n_ids))
		return false;
	if (parent != -1 && n->n_pins == 0 && p->nodes[parent].n_pins == 0 && !books_stands_before(p, i, parent))
		return false;
	if (!n->chained)
		return node_is_tail(p, n);
	return (node_is_tail(p, n) ? prefix_tail_get(p, &n->root, n->session)
				   : prefix_find(p, &n->root, parent, n->hash, n->shown.tokens)) == i;
}

/* Takes time as the square of the nodes, so that it needs no memory. */
static inline bool prefix_consistent(const struct prefix *p)
{
	int32_t n_live = 0, n_held = 0, n_pinned = 0, n_unpinned = 0, n_free = 0, n_in_table = 0, n_in_lru;

	if (!books_lru_consistent(p, &n_in_lru))
		return false;
	for (int32_t i = p->first_free; i >= 0; i = p->nodes[i].next)
		if (node_is_live(p, i) || ++n_free > p->lim.n_nodes_max)
			return false;
	for (uint64_t k = 0; k <= p->mask; k++)
		for (int32_t i = p->table[k]; i >= 0; i = p->nodes[i].next)
			if (!node_is_live(p, i) || !p->nodes[i].chained || (p->nodes[i].hash & p->mask) != k ||
					++n_in_table > p->lim.n_nodes_max)
				return false;
	for (int32_t i = 0; i < p->lim.n_nodes_max; i++) {
		const struct node *n = &p->nodes[i];
		if (!node_is_live(p, i))
			continue;
		if (!books_node_consistent(p, i))
			return false;
		n_live++;
		n_held += n->shown.seq >= 0;
		n_pinned += n->shown.seq >= 0 && n->n_pins > 0;
		n_unpinned += n->n_pins == 0;
	}
	for (int32_t k = 0; k < p->n_free_ids; k++)
		for (int32_t j = 0; j < k; j++)
			if (p->ids[k] == p->ids[j])
				return false;
	return n_live + n_free == p->lim.n_nodes_max && n_held + p->n_free_ids == p->lim.n_ids &&
			n_pinned == p->n_pinned && n_unpinned == n_in_lru;
}

/* ---- The queue ---- */

static inline bool books_before(const struct place *a, const struct place *b)
{
	if (a->priority != b->priority)
		return a->priority > b->priority;
	if (a->counter != b->counter)
		return a->counter < b->counter;
	return a->n_running != b->n_running ? a->n_running < b->n_running : a->number < b->number;
}

static inline bool books_heap_sound(const struct heap *h)
{
	for (size_t i = 0; i < h->n; i++)
		if (*h->p[i].at != i || (i && books_before(&h->p[i], &h->p[(i - 1) / 2])))
			return false;
	return h->n <= h->n_max;
}

static inline bool books_same(struct place a, struct place b)
{
	return a.priority == b.priority && a.n_running == b.n_running && a.counter == b.counter &&
			a.number == b.number && a.at == b.at;
}

/* Whether a client is where invariant 2 has it, with the keys it has. */
static inline bool books_client_sound(const struct queue *q, struct queue_client *c)
{
	const bool turn = c->at_turn < q->turn.n, active = c->at_active < q->active.n;

	if (!books_heap_sound(&c->items) || c->n_running < 0 || turn != (c->items.n > 0) ||
			active != (c->items.n > 0 || c->n_running > 0))
		return false;
	if ((!turn && c->at_turn != nowhere) || (!active && c->at_active != nowhere))
		return false;
	if (active && (!books_same(q->active.p[c->at_active], (struct place){0, 0, c->counter, 0, &c->at_active}) ||
				      c->counter < q->virtual_time))
		return false;
	const struct place *first = c->items.p;
	return !turn || books_same(q->turn.p[c->at_turn],
					(struct place){first->priority, c->n_running, c->counter, first->number,
							&c->at_turn});
}

static inline bool books_idle_sound(const struct queue *q)
{
	const struct queue_client *prev = NULL;
	size_t n = 0;

	for (const struct queue_client *c = q->idle_first; c; prev = c, c = c->next)
		if (c->prev != prev || c->at_active != nowhere || ++n > q->n_idle)
			return false;
	return prev == q->idle_last && n == q->n_idle && n <= IDLE_MAX;
}

static inline bool books_arrivals_sound(const struct queue *q)
{
	const struct queue_item *prev = NULL;
	int64_t n_tokens = 0;
	size_t n = 0;

	for (const struct queue_item *it = q->oldest; it; prev = it, it = it->newer) {
		if (it->older != prev || !it->waiting || (prev && prev->number >= it->number) || ++n > q->depth)
			return false;
		if (it->owner->id != it->client || it->at >= it->owner->items.n)
			return false;
		const struct place *p = &it->owner->items.p[it->at];
		if (p->at != &it->at || p->priority != it->priority || p->number != it->number)
			return false;
		n_tokens += it->n_tokens;
	}
	return prev == q->newest && n == q->depth && n_tokens == q->n_tokens;
}

static inline bool queue_consistent(const struct queue *q)
{
	size_t n = 0, n_items = 0;

	for (size_t i = 0; i < q->n_slots; i++) {
		struct queue_client *c = q->slots[i].client;
		if (!c)
			continue;
		if (c->id != q->slots[i].id || queue_probe(q, c->id) != i || !books_client_sound(q, c))
			return false;
		n++;
		n_items += c->items.n;
	}
	return n == q->n_clients && n == q->active.n + q->n_idle && n_items == q->depth && n <= q->n_slots / 2 &&
			books_heap_sound(&q->turn) && books_heap_sound(&q->active) && books_idle_sound(q) &&
			books_arrivals_sound(q);
}

#endif
