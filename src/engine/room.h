/* Slots and blocks: counting them (blocks.c), reusing cached prompts (reuse.c), preempting and resuming streams
 * (preempt.c), admitting requests (admit.c).
 *
 * Invariants
 *  1. Blocks are counted, never guessed: held by cached prompts (prefix), private to slots (n_private), promised
 *     (n_reserved, at least what is private). Pinned and promised blocks together fit the cache; cached ones that are
 *     not pinned are evicted as room is needed. What is counted is never less than what is held.
 *  2. With reservation nothing that was admitted is ever preempted, unless cells that it was to have cannot be copied.
 *     Without, the youngest is, until the rest fits; the oldest never, so that there is always progress. No request is
 *     admitted while a stream is preempted.
 *  3. At least the last token of what a stream knows is computed, so that there are logits to go on from.
 *  4. A block that two streams computed is held once: the later one takes over the cached one.
 *  5. A prompt whose next block is about to be computed by another stream (the leader) waits for it, with a slot and
 *     the blocks it is promised. The leader is under way itself, and of no lower priority: so no stream that waits is
 *     waited for, and once the leader ends, is preempted or cannot share its blocks, the others begin without it. */
#ifndef ENGINE_ROOM_H
#define ENGINE_ROOM_H

#include "engine/core.h"

static inline int32_t larger(int32_t a, int32_t b)
{
	return a > b ? a : b;
}
static inline int32_t smaller(int32_t a, int32_t b)
{
	return a < b ? a : b;
}

/* ---- blocks.c ---- */

static inline int32_t ceil_blocks(const struct core *c, int64_t n)
{
	return (int32_t)((n + c->lim.block_size - 1) >> c->block_shift);
}
/* Whole blocks. */
static inline int32_t whole_blocks(const struct core *c, int32_t n)
{
	return n >> c->block_shift;
}
/* Cells that a stream needs at most: the last token sampled needs none. */
static inline int64_t cells_most(const struct stream *s)
{
	return (int64_t)s->n_prompt + (s->n_max > 1 ? s->n_max - 1 : 0);
}
/* Whether s waits for another stream's blocks. */
static inline bool room_follows(const struct stream *s)
{
	return s && s->phase == STREAM_WAITS && s->index == 0;
}
/* Counts a stream, and its request's prompt if it is shared, as they are now. */
void room_count(struct core *c, struct stream *s);
/* Blocks that are neither promised nor pinned, those of cached prompts that are not in use included. */
int32_t room_spare(const struct core *c);
/* Whether n blocks are to spare beside those outstanding. */
bool room_has(const struct core *c, int64_t n);
/* Blocks that a stream under way is still going to need for the tokens it knows. With reservation they are reserved. */
int32_t room_outstanding(const struct core *c, const struct stream *s);
/* Blocks that the next n_rows of a stream take. */
int32_t room_growth_of(const struct core *c, const struct stream *s, int32_t n_rows);
static inline int32_t room_growth(const struct core *c, const struct stream *s, int32_t n_rows)
{
	/* Mostly it is one row within a block, behind the prompt. */
	if (n_rows <= 1 && (s->n_cached & (c->lim.block_size - 1)) && s->n_cached >= s->n_prompt)
		return 0;
	return room_growth_of(c, s, n_rows);
}
/* Evicts the cached block that was not used for longest; false: all are in use. */
bool room_evict(struct core *c);
/* Evicts until n blocks are free, or nothing is left to evict. */
void room_free(struct core *c, int32_t n);
/* With overcommitment streams that wait give back their cached blocks; with reservation these are part of what they
 * were promised. False: there were none. */
bool room_release_waiting(struct core *c);
/* Empties the cache of all that is not in use; false: there was nothing. */
bool room_clear(struct core *c);
/* The same by request: not counted as evictions. */
void room_empty(struct core *c);

/* ---- reuse.c ---- */

/* A request of which more is wanted of every row computes every row. */
static inline bool room_looks_up(const struct core *c, const struct cohort_request *r)
{
	return c->prefix && !r->p.no_reuse && !r->p.prompt_logprobs &&
			(!r->embedding || r->p.pooling == COHORT_POOL_LAST);
}
/* What of a stream's tokens is in the cache: its blocks are c->path[0 .. n_chain). */
struct prefix_found room_look_up(struct core *c, const struct stream *s);
/* Gives an empty slot what the cache has of its stream's tokens, and takes it back. */
void room_attach(struct core *c, struct stream *s, const struct prefix_found *f);
void room_detach(struct core *c, struct stream *s);
/* Whether what the stream computes is kept for others. */
static inline bool room_shares(const struct core *c, const struct stream *s)
{
	return c->prefix && s->sharable && !s->chain_over;
}
/* Rows of the stream were computed: its whole blocks are kept for others, and counted. */
void room_grow(struct core *c, struct stream *s);
/* That will follow soon: begins to fetch what it looks at. */
void room_expect(const struct core *c, struct stream *s);
/* Whether that has anything to do when n cells are reached: a block was filled, or begun. */
static inline bool room_turns(const struct core *c, int32_t n)
{
	return (n & (c->lim.block_size - 1)) <= 1;
}
/* Keeps the tokens behind the last whole block for the session's next request. */
void room_keep_tail(struct core *c, struct stream *s);
/* The other streams of a request begin where its first one is. */
void room_fork(struct core *c, struct stream *first);
/* What is planned of the stream is not to be computed. */
static inline void room_drop_rows(struct core *c, const struct stream *s)
{
	if (c->plan.view_of[s->slot] < 0)
		return;
	c->plan.taken[c->plan.view_of[s->slot]] = 0;
	c->plan.lost = true;
}

/* ---- preempt.c ---- */

/* Gives slot and blocks back. */
void room_leave(struct core *c, struct stream *s);
void room_preempt(struct core *c, struct stream *s);
/* Cells that were found for a stream could not be copied, so that it may need more than was looked for: then it is
 * preempted. False: it was. */
bool room_keep_promises(struct core *c, struct stream *s);
/* The oldest of the preempted streams goes on if there is room for it, and for the next block of every other stream. */
bool room_resume(struct core *c);
/* Makes room for the rows that c->plan has; preempts streams if it must (their rows are not to be computed). */
void room_make(struct core *c);
/* Streams that have begun may be more than there is room for: the youngest are preempted. */
void room_settle(struct core *c);

/* ---- admit.c ---- */

/* Resumes preempted streams and admits requests as there is room. Takes the lock now and then. */
void room_admit(struct core *c);
/* Whether a stream waits for the state of t at a position after n_cached, up to pos. */
bool room_is_awaited(const struct core *c, const struct stream *t, int32_t n_cached, int32_t pos);

#endif
