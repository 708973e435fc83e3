/* Merging neighbours in order of priority: what both kinds of byte-pair encoding have in common.
 *
 * Invariants
 *  1. The heap holds each pair of neighbours that can merge, and perhaps pairs that are gone. A gone pair is known by
 *     its length: symbols only grow, so two neighbours have the noted number of bytes only if neither has changed.
 *  2. Of equal priorities the leftmost goes first: the key has the left symbol behind the priority.
 *  3. A text of n symbols costs O(n log n), whatever the text: each merge adds at most two pairs.
 *
 * Refuses to know what a token is: the caller's function says which neighbours merge. */
#include "tok/tok_impl.h"

bool merge_add(struct merge *m, size_t at, size_t n, cohort_token id)
{
	if (!mem_grow((void **)&m->syms, &m->syms_max, m->n_syms + 1, sizeof *m->syms))
		return false;
	size_t i = m->n_syms++;
	m->syms[i] = (struct tok_sym){(uint32_t)at, (uint32_t)n, (int32_t)i - 1, -1, id};
	if (i)
		m->syms[i - 1].next = (int32_t)i;
	return true;
}

static bool heap_push(struct merge *m, struct tok_cand c)
{
	if (!mem_grow((void **)&m->heap, &m->heap_max, m->n_heap + 1, sizeof *m->heap))
		return false;
	size_t i = m->n_heap++;
	while (i && c.key < m->heap[(i - 1) / 2].key) {
		m->heap[i] = m->heap[(i - 1) / 2];
		i = (i - 1) / 2;
	}
	m->heap[i] = c;
	return true;
}

static struct tok_cand heap_pop(struct merge *m)
{
	struct tok_cand top = m->heap[0], last = m->heap[--m->n_heap];
	size_t i = 0, k;

	while ((k = 2 * i + 1) < m->n_heap) {
		if (k + 1 < m->n_heap && m->heap[k + 1].key < m->heap[k].key)
			k++;
		if (last.key <= m->heap[k].key)
			break;
		m->heap[i] = m->heap[k];
		i = k;
	}
	m->heap[i] = last;
	return top;
}

static bool try_pair(struct merge *m, const struct tok *t, const char *text, merge_pair_fn *pair, int32_t left)
{
	const struct tok_sym *l = &m->syms[left], *r;
	uint32_t priority;
	cohort_token id;

	if (l->next < 0)
		return true;
	r = &m->syms[l->next];
	if (!pair(t, text, l, r, &priority, &id))
		return true;
	return heap_push(m, (struct tok_cand){(uint64_t)priority << 32 | (uint32_t)left, l->n + r->n, id});
}

bool merge_run(struct merge *m, const struct tok *t, const char *text, merge_pair_fn *pair)
{
	m->n_heap = 0;
	for (size_t i = 0; i + 1 < m->n_syms; i++)
		if (!try_pair(m, t, text, pair, (int32_t)i))
			return false;
	while (m->n_heap) {
		struct tok_cand c = heap_pop(m);
		int32_t left = (int32_t)(uint32_t)c.key;
		struct tok_sym *l = &m->syms[left];
		if (l->n == 0 || l->next < 0)
			continue;
		struct tok_sym *r = &m->syms[l->next];
		if (l->n + r->n != c.n)
			continue;
		l->n = c.n;
		l->id = c.id;
		l->next = r->next;
		r->n = 0;
		if (l->next >= 0)
			m->syms[l->next].prev = left;
		if (l->prev >= 0 && !try_pair(m, t, text, pair, l->prev))
			return false;
		if (!try_pair(m, t, text, pair, left))
			return false;
	}
	return true;
}

void merge_release(struct merge *m)
{
	if (m) {
		mem_free(m->syms);
		mem_free(m->heap);
		*m = (struct merge){0};
	}
}
