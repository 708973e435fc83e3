/* The lexicon: token texts copied end to end, sorted, and made into tries.
 *
 * Invariants
 *  1. Tokens without bytes and those that end a generation are in no trie.
 *  2. Tokens of equal bytes are at one node, by id. */
#include "sample/lexicon.h"

#include "base/err.h"
#include "base/mem.h"

#include <stdlib.h>
#include <string.h>

const uint8_t *lexicon_name(const struct cohort_lexicon *x, cohort_token t, size_t *n)
{
	const uint64_t from = t > 0 ? x->ends[t - 1] : 0;
	*n = (size_t)(x->ends[t] - from);
	return x->bytes + from;
}

const uint8_t *lexicon_bytes(const struct cohort_lexicon *x, cohort_token t, size_t *n)
{
	const uint8_t *bytes = lexicon_name(x, t, n);
	*n = x->is_text[t] ? *n : 0;
	return bytes;
}

/* ---- Tries ---- */

struct entry {
	const uint8_t *bytes;
	size_t n;
	cohort_token id;
};

static int by_bytes(const void *pa, const void *pb)
{
	const struct entry *a = pa, *b = pb;
	const int c = memcmp(a->bytes, b->bytes, a->n < b->n ? a->n : b->n);
	if (c || a->n != b->n)
		return c ? c : a->n < b->n ? -1 : 1;
	return a->id < b->id ? -1 : a->id > b->id;
}

static size_t common(const struct entry *a, const struct entry *b)
{
	size_t n = 0;
	while (n < a->n && n < b->n && a->bytes[n] == b->bytes[n])
		n++;
	return n;
}

/* Walks the sorted entries once; `path` has the nodes down to the last one. With nodes NULL it only counts. */
static size_t lay_out(const struct entry *e, size_t n, struct lexicon_node *nodes, uint32_t *path)
{
	size_t n_nodes = 0, depth = 0;

	for (size_t i = 0; i < n; i++) {
		const size_t same = i ? common(&e[i - 1], &e[i]) : 0;
		for (; depth > same; depth--)
			if (nodes)
				nodes[path[depth - 1]].skip = (uint32_t)n_nodes;
		for (; depth < e[i].n; depth++, n_nodes++)
			if (nodes) {
				path[depth] = (uint32_t)n_nodes;
				nodes[n_nodes] = (struct lexicon_node){.tokens = (uint32_t)i,
						.depth = (uint16_t)(depth + 1),
						.byte = e[i].bytes[depth]};
			}
		if (nodes)
			nodes[path[depth - 1]].n_tokens++;
	}
	for (; nodes && depth > 0; depth--)
		nodes[path[depth - 1]].skip = (uint32_t)n_nodes;
	return n_nodes;
}

static bool trie_build(struct lexicon_trie *t, struct entry *e, size_t n)
{
	qsort(e, n, sizeof *e, by_bytes);
	for (size_t i = 0; i < n; i++)
		t->depth = e[i].n > t->depth ? e[i].n : t->depth;
	uint32_t *path = mem_alloc(t->depth, sizeof *path);
	t->n_tokens = n;
	t->n_nodes = lay_out(e, n, NULL, NULL);
	t->nodes = mem_alloc(t->n_nodes, sizeof *t->nodes);
	t->order = mem_alloc(n, sizeof *t->order);
	const bool ok = path && t->nodes && t->order;
	if (ok) {
		lay_out(e, n, t->nodes, path);
		for (size_t i = 0; i < n; i++)
			t->order[i] = e[i].id;
	}
	mem_free(path);
	return ok;
}

/* ---- Opening ---- */

static bool build_tries(struct cohort_lexicon *x)
{
	struct entry *e = mem_alloc((size_t)x->n_vocab, sizeof *e);
	bool ok = e != NULL;

	for (int is_long = 0; is_long < 2 && ok; is_long++) {
		size_t n = 0;
		for (cohort_token t = 0; t < x->n_vocab; t++) {
			struct entry at = {.id = t};
			at.bytes = lexicon_bytes(x, t, &at.n);
			if (at.n > 0 && !x->is_end[t] && (at.n > LEXICON_SHORT) == is_long)
				e[n++] = at;
		}
		ok = trie_build(is_long ? &x->long_ones : &x->short_ones, e, n);
	}
	mem_free(e);
	return ok;
}

enum cohort_status lexicon_open(int32_t n_vocab, struct cohort_lexicon_token (*get)(const void *arg, cohort_token t),
		const void *arg, struct cohort_lexicon **out, struct cohort_err *err)
{
	uint64_t total = 0;

	if (n_vocab < 1)
		return err_range(err, "n_tokens", n_vocab, 1, INT32_MAX);
	for (cohort_token t = 0; t < n_vocab; t++) {
		const struct cohort_lexicon_token k = get(arg, t);
		if (!k.bytes && k.n_bytes)
			return err_set(err, COHORT_E_ARG, "the bytes of token %d are NULL", t);
		if (k.n_bytes > LEXICON_BYTES_MAX)
			return err_rule(err, COHORT_E_LIMIT, "n_bytes", t, -1, LEXICON_BYTES_MAX, (int64_t)k.n_bytes,
					"token %d has %zu bytes; at most %d", t, k.n_bytes, LEXICON_BYTES_MAX);
		total += k.n_bytes;
	}
	struct cohort_lexicon *x = mem_zalloc(1, sizeof *x);
	if (x) {
		x->n_vocab = n_vocab;
		x->bytes = mem_alloc((size_t)total, 1);
		x->ends = mem_alloc((size_t)n_vocab, sizeof *x->ends);
		x->is_end = mem_alloc((size_t)n_vocab, 1);
		x->is_text = mem_alloc((size_t)n_vocab, 1);
	}
	bool ok = x && x->bytes && x->ends && x->is_end && x->is_text;
	if (ok) {
		uint64_t at = 0;
		for (cohort_token t = 0; t < n_vocab; t++) {
			const struct cohort_lexicon_token k = get(arg, t);
			if (k.n_bytes)
				memcpy(x->bytes + at, k.bytes, k.n_bytes);
			x->ends[t] = at += k.n_bytes;
			x->is_end[t] = k.is_end;
			x->is_text[t] = k.is_text;
		}
		for (cohort_token t = 0; t < n_vocab; t++)
			x->n_ending += x->is_end[t];
		x->ending = mem_alloc((size_t)x->n_ending, sizeof *x->ending);
		ok = x->ending && build_tries(x);
		for (cohort_token t = 0, n = 0; ok && t < n_vocab; t++)
			if (x->is_end[t])
				x->ending[n++] = t;
	}
	if (!ok) {
		cohort_lexicon_free(x);
		return err_set(err, COHORT_E_MEMORY, "out of memory for the texts of %d tokens", n_vocab);
	}
	*out = x;
	return COHORT_OK;
}

static void trie_release(struct lexicon_trie *t)
{
	mem_free(t->nodes);
	mem_free(t->order);
}

void cohort_lexicon_free(struct cohort_lexicon *x)
{
	if (x) {
		trie_release(&x->short_ones);
		trie_release(&x->long_ones);
		mem_free(x->bytes);
		mem_free(x->ends);
		mem_free(x->is_end);
		mem_free(x->is_text);
		mem_free(x->ending);
		mem_free(x);
	}
}

/* ---- From a list ---- */

static struct cohort_lexicon_token listed(const void *arg, cohort_token t)
{
	return ((const struct cohort_lexicon_token *)arg)[t];
}

enum cohort_status cohort_lexicon_open_list(const struct cohort_lexicon_token *tokens, int32_t n_tokens,
		struct cohort_lexicon **out, struct cohort_err *err)
{
	if (!tokens || !out)
		return err_set(err, COHORT_E_ARG, "%s is NULL", !tokens ? "tokens" : "out");
	return lexicon_open(n_tokens, listed, tokens, out, err);
}
