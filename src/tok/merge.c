/* Merging neighbours in order of priority: what both kinds of byte-pair encoding have in common.
 *
 * Invariants
 *  1. The heap holds each pair of neighbours that can merge, and perhaps pairs that are gone. A gone pair is known by
 *     its length: symbols only grow, so two neighbours have the noted number of bytes only if neither has changed.
 *  2. Of equal priorities the leftmost goes first: the key has the left symbol behind the priority.
 *  3. A text of n symbols costs O(n log n), whatever the text: each merge adds at most two pairs.
 *  4. Of a piece of a longer text, a merge is made only if the whole text has it as well. The symbols in front of
 *     `sure` are those of the whole text at the same moment. What is behind is not known, but it begins with n_behind
 *     bytes of the text at least: so it is known which merges across that place there can be, and how urgent they are.
 *     Before a merge that is less urgent than one of these, the symbol in front stops being sure. In the end nothing
 *     can merge across `sure` any more: the text falls apart there.
 *
 * Refuses to know what a token is: the caller's function says which neighbours merge. */
#include "tok/tok_impl.h"

size_t merge_window = 1 << 16;

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

#define NEVER ((uint64_t)UINT32_MAX + 1)

/* The most urgent merge that the last sure symbol could take part in with what may come to stand behind it; NEVER:
 * none. What stands there begins with at least n_behind bytes of the text. */
static uint64_t soonest(const struct merge *m, const struct tok *t, const char *text, size_t n, merge_pair_fn *pair)
{
	const struct tok_sym *l = &m->syms[m->last];
	uint64_t best = NEVER;
	uint32_t priority;
	cohort_token id;

	for (uint32_t len = m->n_behind; len <= n - m->sure && l->n + len <= t->n_longest; len++) {
		const struct tok_sym r = {.at = (uint32_t)m->sure,
				.n = len,
				.id = strmap_find(&t->ids, text + m->sure, len, -1)};
		if (pair(t, text, l, &r, &priority, &id) && priority < best)
			best = priority;
	}
	return best;
}

/* Takes symbols out of what is sure that could merge with what is behind it before a merge of this priority. */
static void retreat(struct merge *m, const struct tok *t, const char *text, size_t n, merge_pair_fn *pair,
		uint64_t priority)
{
	while (m->last >= 0) {
		const struct tok_sym *l = &m->syms[m->last];
		if (m->seen != m->last || m->seen_end != l->at + l->n || m->seen_n != l->n) {
			m->soonest = soonest(m, t, text, n, pair);
			m->seen = m->last;
			m->seen_end = l->at + l->n;
			m->seen_n = l->n;
		}
		if (m->soonest >= priority)
			return;
		m->sure = l->at;
		m->n_behind = l->n;
		m->last = l->prev;
	}
}

bool merge_run(struct merge *m, const struct tok *t, const char *text, size_t n, merge_pair_fn *pair, size_t *end)
{
	const struct tok_sym *last = &m->syms[m->n_syms - 1];

	m->n_heap = 0;
	m->sure = last->at + last->n;
	m->last = (int32_t)m->n_syms - 1;
	m->n_behind = 1;
	m->seen = -1;
	const bool part = m->sure < n;
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
		if (part && l->at + c.n <= m->sure)
			retreat(m, t, text, n, pair, c.key >> 32);
		if (l->at + c.n > m->sure)
			continue;
		if (m->last == l->next)
			m->last = left;
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
	if (part)
		retreat(m, t, text, n, pair, NEVER);
	*end = m->sure;
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
