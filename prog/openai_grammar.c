/* Grammars of requests, kept for the next one with the same: a batch has one schema on a million lines, and a grammar
 * that was used knows its masks already.
 *
 * Invariants
 *  1. A place of the cache that somebody uses is not emptied. When all are in use, a request has a grammar of its own.
 *  2. What a request holds is a copy of the place: its g is good until it is put back. */
#include "openai.h"

#include "base/mem.h"

#include <string.h>

static struct openai_grammar *find(struct openai_host *h, const char *text, size_t n_text, bool is_schema)
{
	for (size_t i = 0; i < OPENAI_GRAMMARS; i++) {
		struct openai_grammar *p = &h->grammars[i];
		if (p->g && p->is_schema == is_schema && p->n_text == n_text && memcmp(p->text, text, n_text) == 0)
			return p;
	}
	return NULL;
}

static void empty(struct openai_grammar *p)
{
	cohort_grammar_free(p->g);
	mem_free(p->text);
	*p = (struct openai_grammar){0};
}

/* A place that nobody uses, the one that was used longest ago; NULL: there is none. */
static struct openai_grammar *oldest(struct openai_host *h)
{
	struct openai_grammar *best = NULL;
	for (size_t i = 0; i < OPENAI_GRAMMARS; i++) {
		struct openai_grammar *p = &h->grammars[i];
		if (p->n_users == 0 && (!best || p->used < best->used))
			best = p;
	}
	return best;
}

bool openai_grammar_get(struct openai_host *h, const char *param, const char *text, size_t n_text, bool is_schema,
		struct openai_grammar *out, struct openai_error *e)
{
	struct openai_grammar made = {.n_text = n_text, .is_schema = is_schema};
	struct cohort_err err;

	lock_take(&h->lock);
	struct openai_grammar *p = find(h, text, n_text, is_schema);
	if (p) {
		p->n_users++;
		p->used = ++h->n_used;
		*out = *p;
	}
	lock_give(&h->lock);
	if (p)
		return true;
	const enum cohort_status st = is_schema ? cohort_grammar_open_schema(h->lexicon, text, n_text, &made.g, &err)
						: cohort_grammar_open(h->lexicon, text, n_text, NULL, &made.g, &err);
	if (st)
		return st == COHORT_E_MEMORY ? openai_no_memory(e)
					     : openai_refuse(e, param, NULL, "%s: %s", param, err.text);
	made.text = mem_dup(text, n_text);
	if (!made.text) {
		empty(&made);
		return openai_no_memory(e);
	}
	lock_take(&h->lock);
	p = find(h, text, n_text, is_schema) ? NULL : oldest(h);
	if (p) {
		empty(p);
		*p = made;
		p->n_users = 1;
		p->used = ++h->n_used;
	}
	lock_give(&h->lock);
	*out = made;
	return true;
}

void openai_grammar_put(struct openai_host *h, struct openai_grammar *g)
{
	bool kept = false;

	if (!g->g)
		return;
	lock_take(&h->lock);
	for (size_t i = 0; i < OPENAI_GRAMMARS && !kept; i++)
		if (h->grammars[i].g == g->g) {
			h->grammars[i].n_users--;
			kept = true;
		}
	lock_give(&h->lock);
	if (!kept)
		empty(g);
	*g = (struct openai_grammar){0};
}
