/* Candidates: the vocabulary through a view, and lists cut out of it.
 *
 * Invariants
 *  1. Candidates are ordered by logit, high to low, ties by token id: a total order, so that any selection gives the
 *     same list. Both zeros are the same number.
 *  2. Logits are floats until a stage changes them; what is changed is a double. No two that differ become equal by a
 *     division.
 *  3. The order in which a list stands beyond its sorted part, and so the order of sums, depends on the numbers alone.
 *  4. A candidate's logit is above -Inf in a list. Nothing is allocated after cands_init. */
#include "sample/cands.h"

#include "base/fmath.h"
#include "base/mem.h"
#include "kern/kern.h"

#include <float.h>
#include <math.h>
#include <string.h>

/* ---- Sets of ids ---- */

bool idset_init(struct idset *s, size_t n_max)
{
	size_t n_slots = 8;
	while (n_slots < 2 * n_max)
		n_slots *= 2;
	*s = (struct idset){.n_max = n_max, .mask = n_slots - 1};
	s->ids = mem_alloc(n_max, sizeof *s->ids);
	s->slots = mem_zalloc(n_slots, sizeof *s->slots);
	return s->ids && s->slots;
}

void idset_release(struct idset *s)
{
	mem_free(s->ids);
	mem_free(s->slots);
	*s = (struct idset){0};
}

static size_t slot_of(const struct idset *s, cohort_token id)
{
	size_t at = (uint32_t)id * 2654435769u >> 7 & s->mask;
	while (s->slots[at] && s->ids[s->slots[at] - 1] != id)
		at = (at + 1) & s->mask;
	return at;
}

/* From the last to the first, so that no slot is looked for past one that was emptied. */
void idset_clear(struct idset *s)
{
	while (s->n > 0) {
		s->slots[slot_of(s, s->ids[s->n - 1])] = 0;
		s->n--;
	}
}

size_t idset_add(struct idset *s, cohort_token id)
{
	const size_t at = slot_of(s, id);
	if (!s->slots[at]) {
		s->ids[s->n++] = id;
		s->slots[at] = (uint32_t)s->n;
	}
	return s->slots[at] - 1;
}

size_t idset_find(const struct idset *s, cohort_token id)
{
	const size_t at = slot_of(s, id);
	return s->slots[at] ? s->slots[at] - 1 : SIZE_MAX;
}

/* ---- The view ---- */

bool cands_init(struct cands *c, size_t n_vocab, size_t n_edits)
{
	*c = (struct cands){.n_vocab = n_vocab, .n_chunks = (n_vocab + CANDS_CHUNK - 1) / CANDS_CHUNK};
	n_edits = n_edits < n_vocab ? n_edits : n_vocab;
	const bool ok = idset_init(&c->edits, n_edits);
	c->edited = mem_alloc(n_edits, sizeof *c->edited);
	c->nexts = mem_alloc(n_edits, sizeof *c->nexts);
	c->tops = mem_alloc(c->n_chunks, sizeof *c->tops);
	c->heads = mem_alloc(c->n_chunks, sizeof *c->heads);
	c->list = mem_alloc(n_vocab, sizeof *c->list);
	if (!ok || !c->edited || !c->nexts || !c->tops || !c->heads || !c->list)
		return false;
	memset(c->heads, 0xff, c->n_chunks * sizeof *c->heads);
	return true;
}

void cands_release(struct cands *c)
{
	idset_release(&c->edits);
	mem_free(c->edited);
	mem_free(c->nexts);
	mem_free(c->tops);
	mem_free(c->heads);
	mem_free(c->list);
	*c = (struct cands){0};
}

/* Lane by lane, so that compilers use vectors. */
float row_top(const float *x, size_t n, bool *fine)
{
	enum { LANES = 16 };
	float top[LANES];
	int32_t below[LANES];

	for (int l = 0; l < LANES; l++) {
		top[l] = -INFINITY;
		below[l] = -1;
	}
	size_t i = 0;
	for (; i + LANES <= n; i += LANES)
		for (int l = 0; l < LANES; l++) {
			top[l] = x[i + l] > top[l] ? x[i + l] : top[l];
			below[l] &= -(int32_t)(x[i + l] < INFINITY);
		}
	for (; i < n; i++) {
		top[0] = x[i] > top[0] ? x[i] : top[0];
		below[0] &= -(int32_t)(x[i] < INFINITY);
	}
	for (int l = 1; l < LANES; l++) {
		top[0] = top[l] > top[0] ? top[l] : top[0];
		below[0] &= below[l];
	}
	*fine = *fine && below[0];
	return top[0];
}

static size_t chunk_size(const struct cands *c, size_t chunk)
{
	return chunk + 1 < c->n_chunks ? CANDS_CHUNK : c->n_vocab - chunk * CANDS_CHUNK;
}

size_t cands_begin(struct cands *c, const float *logits)
{
	bool fine = true;

	for (size_t i = 0; i < c->edits.n; i++)
		c->heads[c->edits.ids[i] / CANDS_CHUNK] = -1;
	idset_clear(&c->edits);
	c->logits = logits;
	c->mask = NULL;
	c->listed = c->weighed = false;
	c->n = c->n_sorted = 0;
	for (size_t i = 0; i < c->n_chunks; i++)
		c->tops[i] = (double)row_top(logits + i * CANDS_CHUNK, chunk_size(c, i), &fine);
	if (fine)
		return c->n_vocab;
	c->listed = true;
	size_t i = 0;
	while (logits[i] < INFINITY)
		i++;
	return i;
}

/* A chunk as the stages see it; returns its size. */
static size_t load_chunk(const struct cands *c, size_t chunk, double out[CANDS_CHUNK])
{
	const size_t n = chunk_size(c, chunk);
	for (size_t i = 0; i < n; i++)
		out[i] = (double)c->logits[chunk * CANDS_CHUNK + i];
	for (int32_t e = c->heads[chunk]; e >= 0; e = c->nexts[e])
		out[(size_t)c->edits.ids[e] % CANDS_CHUNK] = c->edited[e];
	if (c->mask && c->mask[chunk] != UINT64_MAX)
		for (size_t i = 0; i < n; i++)
			if (!(c->mask[chunk] >> i & 1))
				out[i] = -INFINITY;
	return n;
}

/* The best of a chunk. */
static double chunk_top(const struct cands *c, size_t chunk)
{
	if (c->mask && c->mask[chunk] == 0)
		return -INFINITY;
	if (c->heads[chunk] < 0 && (!c->mask || c->mask[chunk] == UINT64_MAX))
		return c->tops[chunk];
	double v[CANDS_CHUNK], top = -INFINITY;
	const size_t n = load_chunk(c, chunk, v);
	for (size_t i = 0; i < n; i++)
		top = v[i] > top ? v[i] : top;
	return top;
}

/* No candidate of the chunk is better than this. A mask takes away only, so nothing has to be looked at for it. */
static double chunk_bound(const struct cands *c, size_t chunk)
{
	if (c->mask && c->mask[chunk] == 0)
		return -INFINITY;
	return c->heads[chunk] < 0 ? c->tops[chunk] : chunk_top(c, chunk);
}

static double *edit(struct cands *c, cohort_token id)
{
	const size_t before = c->edits.n, i = idset_add(&c->edits, id), chunk = (size_t)id / CANDS_CHUNK;
	if (i == before) {
		c->edited[i] = (double)c->logits[id];
		c->nexts[i] = c->heads[chunk];
		c->heads[chunk] = (int32_t)i;
	}
	return &c->edited[i];
}

void cands_map(struct cands *c, const struct idset *set, double (*f)(const void *arg, size_t i, double logit),
		const void *arg)
{
	if (!c->listed) {
		for (size_t i = 0; i < set->n; i++) {
			double *logit = edit(c, set->ids[i]);
			*logit = f(arg, i, *logit);
		}
		return;
	}
	size_t kept = 0;
	for (size_t i = 0; i < c->n; i++) {
		const size_t at = idset_find(set, c->list[i].id);
		if (at != SIZE_MAX)
			c->list[i].logit = f(arg, at, c->list[i].logit);
		if (c->list[i].logit > -INFINITY)
			c->list[kept++] = c->list[i];
	}
	c->n = kept;
	cands_changed(c, false);
}

void cands_mask(struct cands *c, const uint64_t *mask)
{
	if (!c->listed && !c->mask) {
		c->mask = mask;
		return;
	}
	if (!cands_list(c))
		return;
	size_t kept = 0, sorted = 0;
	for (size_t i = 0; i < c->n; i++)
		if (mask[c->list[i].id / CANDS_CHUNK] >> c->list[i].id % CANDS_CHUNK & 1) {
			sorted += i < c->n_sorted;
			c->list[kept++] = c->list[i];
		}
	c->n = kept;
	c->n_sorted = sorted;
	c->weighed = false;
}

/* ---- Selection ---- */

/* a comes after b in the order */
static bool after(const struct cand *a, const struct cand *b)
{
	return a->logit < b->logit || (a->logit == b->logit && a->id > b->id);
}

static void swap(struct cand *a, struct cand *b)
{
	const struct cand t = *a;
	*a = *b;
	*b = t;
}

/* Heap whose root comes last. */
static void sift(struct cand *h, size_t i, size_t n)
{
	const struct cand x = h[i];
	for (;;) {
		size_t k = 2 * i + 1;
		if (k >= n)
			break;
		if (k + 1 < n && after(&h[k + 1], &h[k]))
			k++;
		if (!after(&h[k], &x))
			break;
		h[i] = h[k];
		i = k;
	}
	h[i] = x;
}

/* The first k of the order come first, in order; the others stay behind them. At most n log k steps. */
static void heap_top(struct cand *h, size_t n, size_t k)
{
	for (size_t i = k / 2; i-- > 0;)
		sift(h, i, k);
	for (size_t i = k; i < n; i++)
		if (after(&h[0], &h[i])) {
			swap(&h[0], &h[i]);
			sift(h, 0, k);
		}
	for (size_t i = k; i-- > 1;) {
		swap(&h[0], &h[i]);
		sift(h, 0, i);
	}
}

static void insertion_sort(struct cand *h, size_t n)
{
	for (size_t i = 1; i < n; i++) {
		const struct cand x = h[i];
		size_t k = i;
		for (; k > 0 && after(&h[k - 1], &x); k--)
			h[k] = h[k - 1];
		h[k] = x;
	}
}

/* How many come before the median of three, which then stands behind them. No two are equal. */
static size_t partition(struct cand *h, size_t n)
{
	struct cand *a = &h[0], *b = &h[n / 2], *c = &h[n - 1];
	if (after(a, b))
		swap(a, b);
	if (after(a, c)) /* a was the median */
		swap(a, c);
	else if (!after(b, c))
		swap(b, c);
	size_t before = 0;
	for (size_t i = 0; i + 1 < n; i++)
		if (after(c, &h[i]))
			swap(&h[i], &h[before++]);
	swap(c, &h[before]);
	return before;
}

/* The same as heap_top by quicksort, of what is wanted only; bad luck ends in the heap, and bounds the depth. */
static void quick_top(struct cand *h, size_t n, size_t k, int luck)
{
	for (; n > 24 && k > 0; luck--) {
		if (k < n / 16 || luck <= 0) {
			heap_top(h, n, k);
			return;
		}
		const size_t before = partition(h, n);
		if (k <= before) {
			n = before;
			continue;
		}
		quick_top(h, before, before, luck - 1);
		h += before + 1;
		n -= before + 1;
		k -= before + 1;
	}
	if (k > 0)
		insertion_sort(h, n);
}

static void sort_top(struct cand *h, size_t n, size_t k)
{
	quick_top(h, n, k < n ? k : n, 64);
}

/* Those not below the bar, as a list of which the best is the first. */
static void collect(struct cands *c, double bar)
{
	double v[CANDS_CHUNK];
	struct cand *list = c->list;
	size_t n = 0;

	bar = bar > -DBL_MAX ? bar : -DBL_MAX;
	for (size_t k = 0; k < c->n_chunks; k++) {
		if (!(chunk_bound(c, k) >= bar))
			continue;
		const size_t n_here = load_chunk(c, k, v);
		for (size_t i = 0; i < n_here; i++) {
			list[n].logit = v[i]; /* stays if n moves on */
			list[n].id = (cohort_token)(k * CANDS_CHUNK + i);
			if (v[i] > list[0].logit) /* of equals the first has the lowest id */
				swap(&list[0], &list[n]);
			n += v[i] >= bar;
		}
	}
	c->listed = true;
	c->weighed = false;
	c->n = n;
	c->n_sorted = n > 0;
}

bool cands_list(struct cands *c)
{
	if (!c->listed)
		collect(c, -INFINITY);
	return c->n > 0;
}

size_t cands_best(const struct cands *c)
{
	struct cand best = {.logit = -INFINITY};
	bool found = false;

	if (c->listed) {
		for (size_t i = 0; i < c->n; i++)
			if (!found || after(&best, &c->list[i])) {
				best = c->list[i];
				found = true;
			}
		return found ? (size_t)best.id : SIZE_MAX;
	}
	size_t at = 0;
	for (size_t k = 1; k < c->n_chunks; k++) /* where it probably is */
		at = chunk_bound(c, k) > chunk_bound(c, at) ? k : at;
	best.logit = chunk_top(c, at);
	for (size_t k = 0; k < c->n_chunks; k++) {
		const double bound = chunk_bound(c, k);
		if (bound < best.logit || (bound == best.logit && k >= at))
			continue;
		const double top = chunk_top(c, k);
		if (top > best.logit || (top == best.logit && k < at)) {
			best.logit = top;
			at = k;
		}
	}
	if (!(best.logit > -INFINITY))
		return SIZE_MAX;
	double v[CANDS_CHUNK];
	load_chunk(c, at, v);
	for (size_t i = 0;; i++)
		if (v[i] == best.logit)
			return at * CANDS_CHUNK + i;
}

void cands_only(struct cands *c, cohort_token id)
{
	c->list[0] = (struct cand){.weight = 1, .id = id};
	c->n = c->n_sorted = 1;
	c->listed = true;
	c->weighed = false;
}

/* From the distances to the best: their squares do not cancel. */
double cands_deviation(const struct cands *c)
{
	double v[CANDS_CHUNK], top = -INFINITY, sum = 0, squares = 0;
	size_t n = 0;

	for (size_t k = 0; k < (c->listed ? c->n : c->n_chunks); k++) {
		const double t = c->listed ? c->list[k].logit : chunk_top(c, k);
		top = t > top ? t : top;
	}
	if (!(top > -INFINITY))
		return 0;
	for (size_t k = 0; k < (c->listed ? c->n : c->n_chunks); k++) {
		size_t n_here = 1;
		if (c->listed)
			v[0] = c->list[k].logit;
		else
			n_here = load_chunk(c, k, v);
		for (size_t i = 0; i < n_here; i++)
			if (v[i] > -INFINITY) {
				sum += v[i] - top;
				squares += (v[i] - top) * (v[i] - top);
				n++;
			}
	}
	const double mean = sum / (double)n, variance = squares / (double)n - mean * mean;
	return variance > 0 ? sqrt(variance) : 0;
}

/* The k-th largest of the chunks' tops: a bar that at least k candidates reach. Chunks are looked at in the order of
 * their bounds, until no other can be among the k. */
static double find_bar(struct cands *c, size_t k)
{
	/* 2 n_chunks <= n_vocab when there are two or more. */
	struct cand *chunks = c->list, *heap = c->list + c->n_chunks;
	size_t n_sorted = 0, n = 0;

	for (size_t i = 0; i < c->n_chunks; i++)
		chunks[i] = (struct cand){.logit = chunk_bound(c, i), .id = (cohort_token)i};
	for (size_t i = 0; i < c->n_chunks; i++) {
		if (i == n_sorted) {
			const size_t step = n_sorted ? 3 * n_sorted : k + 8;
			sort_top(chunks + i, c->n_chunks - i, step);
			n_sorted += step;
		}
		if (n == k && chunks[i].logit < heap[0].logit)
			break;
		const struct cand top = {.logit = chunk_top(c, (size_t)chunks[i].id), .id = chunks[i].id};
		if (n < k) {
			heap[n++] = top;
			for (size_t j = n / 2; n == k && j-- > 0;)
				sift(heap, j, k);
		} else if (after(&heap[0], &top)) {
			heap[0] = top;
			sift(heap, 0, k);
		}
	}
	return n == k ? heap[0].logit : -INFINITY;
}

void cands_top(struct cands *c, size_t k)
{
	if (!c->listed)
		collect(c, c->n_chunks > k ? find_bar(c, k) : -INFINITY);
	cands_order(c, k);
	cands_cut(c, k);
}

void cands_above(struct cands *c, double down, size_t keep)
{
	if (!c->listed) {
		const size_t best = cands_best(c);
		if (best == SIZE_MAX) {
			collect(c, INFINITY);
			return;
		}
		collect(c, chunk_top(c, best / CANDS_CHUNK) + down);
		if (c->n >= keep)
			return;
		c->listed = false;
		cands_list(c);
	}
	if (c->n <= keep)
		return;
	cands_order(c, keep);
	const double bar = c->list[0].logit + down;
	size_t kept = keep, sorted = keep;
	for (size_t i = keep; i < c->n; i++)
		if (c->list[i].logit >= bar) {
			sorted += i < c->n_sorted;
			c->list[kept++] = c->list[i];
		}
	if (kept < c->n)
		c->weighed = false;
	c->n = kept;
	c->n_sorted = sorted;
}

/* ---- Lists ---- */

/* In steps, each four times as long: a stage that asks for one more after the other does not sort one by one. The first
 * is long enough for most draws, as each looks at all of the list. */
void cands_order(struct cands *c, size_t k)
{
	k = k < c->n ? k : c->n;
	if (k <= c->n_sorted)
		return;
	if (k == c->n_sorted + 1 && c->n_sorted > 0)
		k = c->n_sorted < 64 ? 64 : 4 * c->n_sorted;
	k = k < c->n ? k : c->n;
	sort_top(c->list + c->n_sorted, c->n - c->n_sorted, k - c->n_sorted);
	c->n_sorted = k;
}

void cands_weigh(struct cands *c)
{
	if (c->weighed)
		return;
	cands_order(c, 1);
	c->total = 0;
	double w[CANDS_CHUNK];
	const struct kern *k = kern_get(kern_best());
	for (size_t i = 0; i < c->n; i += CANDS_CHUNK) {
		const size_t n = c->n - i < CANDS_CHUNK ? c->n - i : CANDS_CHUNK;
		for (size_t j = 0; j < n; j++)
			w[j] = c->list[i + j].logit - c->list[0].logit;
		k->exp64(w, n, w);
		for (size_t j = 0; j < n; j++) {
			c->list[i + j].weight = w[j];
			c->total += w[j];
		}
	}
	c->weighed = true;
}

/* H = log W - sum of w log w / W, and log w is the distance to the best. */
double cands_entropy(struct cands *c)
{
	double sum = 0;
	cands_weigh(c);
	for (size_t i = 0; i < c->n; i++)
		if (c->list[i].weight > 0.0)
			sum += c->list[i].weight * (c->list[i].logit - c->list[0].logit);
	return c->n ? fm_log(c->total) - sum / c->total : 0;
}

void cands_cut(struct cands *c, size_t n)
{
	if (n >= c->n)
		return;
	c->n = n;
	c->n_sorted = c->n_sorted < n ? c->n_sorted : n;
	c->weighed = false;
}

void cands_changed(struct cands *c, bool order_kept)
{
	c->weighed = false;
	if (!order_kept)
		c->n_sorted = 0;
}
