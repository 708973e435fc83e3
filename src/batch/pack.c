/* Packing spans into chunks, first-fit.
 *
 * Invariants
 *  1. The tree has a leaf per chunk that there could be, with the rows it has room for; a node holds the larger of its
 *     two children. Chunks not yet begun have room for n_batch, so the leftmost leaf with room is either the first
 *     chunk that fits or the next new one.
 *  2. An oversized span closes its chunk: no room is left in it. */
#include "base/err.h"
#include "base/mem.h"

/* Sets the room of a leaf. */
static void set_room(int32_t *tree, size_t n_leaves, int32_t chunk, int32_t room)
{
	size_t k = n_leaves + (size_t)chunk;

	for (tree[k] = room, k /= 2; k > 0; k /= 2)
		tree[k] = tree[2 * k] > tree[2 * k + 1] ? tree[2 * k] : tree[2 * k + 1];
}

/* The leftmost leaf with room for n rows. */
static int32_t find_room(const int32_t *tree, size_t n_leaves, int32_t n)
{
	size_t k = 1;

	while (k < n_leaves)
		k = 2 * k + (tree[2 * k] < n);
	return (int32_t)(k - n_leaves);
}

/* Gives every span its chunk (-1: empty), in `chunk_of`, and counts rows and items. */
static void place(struct cohort_packing *p, const int32_t *lengths, int32_t n_items, int32_t n_batch, size_t n_leaves,
		int32_t *chunk_of)
{
	for (size_t k = 1; k < 2 * n_leaves; k++)
		p->tree[k] = n_batch;
	for (int32_t i = 0; i < n_items; i++) {
		int32_t n = lengths[i];
		chunk_of[i] = -1;
		if (n == 0)
			continue;
		bool oversized = n > n_batch;
		int32_t k = oversized ? p->n_chunks : find_room(p->tree, n_leaves, n);
		struct cohort_chunk *chunk = &p->chunks[k];
		if (k == p->n_chunks) {
			*chunk = (struct cohort_chunk){.oversized = oversized};
			p->n_chunks++;
		}
		chunk->n_items++;
		chunk->n_rows += n;
		chunk_of[i] = k;
		set_room(p->tree, n_leaves, k, oversized ? 0 : n_batch - chunk->n_rows);
	}
}

/* Item indexes, chunk by chunk, in their order. */
static void list_items(struct cohort_packing *p, int32_t n_items, const int32_t *chunk_of)
{
	int32_t first = 0;

	for (int32_t k = 0; k < p->n_chunks; k++) {
		p->chunks[k].first = first;
		first += p->chunks[k].n_items;
		p->chunks[k].n_items = 0;
	}
	for (int32_t i = 0; i < n_items; i++)
		if (chunk_of[i] >= 0) {
			struct cohort_chunk *chunk = &p->chunks[chunk_of[i]];
			p->order[chunk->first + chunk->n_items++] = i;
		}
}

void cohort_packing_init(struct cohort_packing *p)
{
	if (p)
		*p = (struct cohort_packing){0};
}

enum cohort_status cohort_bin_pack(struct cohort_packing *p, const int32_t *lengths, int32_t n_items, int32_t n_batch,
		struct cohort_err *err)
{
	if (!p)
		return err_set(err, COHORT_E_ARG, "p is NULL");
	p->n_chunks = 0;
	if (err_range(err, "n_batch", n_batch, 1, INT32_MAX) || err_range(err, "n_items", n_items, 0, INT32_MAX))
		return COHORT_E_ARG;
	if (n_items == 0)
		return COHORT_OK;
	if (!lengths)
		return err_set(err, COHORT_E_ARG, "lengths is NULL, n_items is %d", n_items);
	for (int32_t i = 0; i < n_items; i++)
		if (lengths[i] < 0)
			return err_rule(err, COHORT_E_ARG, "length", i, -1, 0, lengths[i],
					"lengths[%d] is %d; a span has at least 0 rows", i, lengths[i]);
	size_t n = (size_t)n_items, n_leaves = 1;
	while (n_leaves < n)
		n_leaves *= 2;
	/* The lengths are in memory, so these sums fit; mem_grow looks after the bytes. */
	if (!mem_grow((void **)&p->chunks, &p->chunks_max, n, sizeof *p->chunks) ||
			!mem_grow((void **)&p->order, &p->order_max, n, sizeof *p->order) ||
			!mem_grow((void **)&p->tree, &p->tree_max, 2 * n_leaves + n, sizeof *p->tree))
		return err_set(err, COHORT_E_MEMORY, "out of memory for packing %d spans", n_items);
	int32_t *chunk_of = p->tree + 2 * n_leaves;
	place(p, lengths, n_items, n_batch, n_leaves, chunk_of);
	list_items(p, n_items, chunk_of);
	return COHORT_OK;
}

void cohort_packing_release(struct cohort_packing *p)
{
	if (p) {
		mem_free(p->chunks);
		mem_free(p->order);
		mem_free(p->tree);
		*p = (struct cohort_packing){0};
	}
}
