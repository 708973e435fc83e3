/* How models differ in what is kept of a prompt and in how rows are computed. One of a few policies is chosen when the
 * core opens: no other file asks what kind of model there is. */
#ifndef ENGINE_POLICY_H
#define ENGINE_POLICY_H

#include "engine/core.h"

struct policy {
	bool whole_texts; /* a sequence is computed at once, and nothing is kept of it */
	/* A cached prompt is the state at the end of its last block, which other nodes of the chain need not have.
	 * Otherwise every node has the cells of its block. */
	bool states;
	bool trades;      /* a block that is cached meanwhile takes the place of the stream's own, */
	bool keeps_last;  /* but not the last one: its cells may need those of blocks that are gone */
	/* Cuts what was found to what a stream can begin with. */
	void (*trim)(const struct core *c, struct prefix_found *f);
	/* Copies that into an empty sequence; returns how many tokens, from the first on, it then holds. */
	int32_t (*copy)(struct core *c, const struct prefix_found *f, cohort_seq to);
	/* A node above the stream's that can do without its id, if nothing can be evicted; -1: there is none. */
	int32_t (*id_to_take)(const struct core *c, const struct stream *s);
	/* Whether the row at pos must wait for the next piece: what is to be kept for others would be gone by then. */
	bool (*too_far)(const struct core *c, const struct stream *s, int32_t pos);
	/* The planned rows through the machine. */
	void (*run)(struct core *c);
};

const struct policy *policy_of(const struct core_limits *lim);

/* Whether a node that ends at p1 can be filled from a sequence of n tokens. */
static inline bool policy_fills(const struct core *c, int32_t p1, int32_t n)
{
	return !c->policy->states || n == p1;
}
/* The first position that a node behind p0 tokens is filled with. */
static inline int32_t policy_from(const struct core *c, int32_t p0)
{
	return c->policy->states ? 0 : p0;
}
/* Nodes for n_ids ids: states lie far apart, and nodes between them are there for their tokens. */
static inline int32_t policy_n_nodes(const struct core *c, int32_t n_path)
{
	return c->policy->states ? 16 * c->lim.n_ids + n_path : c->lim.n_ids;
}
static inline enum cohort_status policy_compute(
		struct core *c, const struct cohort_batch_raw *rows, struct cohort_err *err)
{
	return (c->policy->whole_texts ? c->m.encode : c->m.decode)(c->m.self, rows, err);
}
static inline int32_t policy_prompt_max(const struct core *c)
{
	return c->policy->whole_texts ? c->lim.n_ubatch : INT32_MAX;
}

#endif
