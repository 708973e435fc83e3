/* Slots and blocks: who is admitted, what is reused, who is parked when blocks run out.
 *
 * Invariants
 *  1. Blocks are counted, never guessed: held by cached prompts (prefix), private to slots (n_private), promised
 *     (n_reserved, at least what is private). Pinned and promised blocks together fit the cache; cached ones that are
 *     not pinned are evicted as room is needed. What is counted is never less than what is held.
 *  2. With reservation nothing that was admitted is ever parked, unless cells that it was to have cannot be copied.
 *     Without, the youngest is, until the rest fits; the oldest never, so that there is always progress. Nobody is
 *     admitted while somebody is parked.
 *  3. At least the last token of what a stream knows is computed, so that there are logits to go on from.
 *  4. A block that two streams computed is held once: the later one takes over the cached one.
 *  5. A prompt whose next block is about to be computed by another stream (the leader) waits for it, with a slot and
 *     the blocks it is promised. The leader is under way itself, and of no lower priority: so no stream that waits is
 *     waited for, and once the leader ends, parks or cannot share its blocks, the others begin without it. */
#include "engine/core.h"

#include "base/mem.h"

#include <string.h>

/* ---- Counting ---- */

static int32_t ceil_blocks(const struct core *c, int64_t n)
{
	return (int32_t)((n + c->lim.block_size - 1) >> c->block_shift);
}

/* Whole blocks. */
static int32_t whole_blocks(const struct core *c, int32_t n)
{
	return n >> c->block_shift;
}

static int32_t larger(int32_t a, int32_t b)
{
	return a > b ? a : b;
}

static int32_t smaller(int32_t a, int32_t b)
{
	return a < b ? a : b;
}

/* Cells that a stream needs at most: the last token sampled needs none. */
static int64_t cells_most(const struct stream *s)
{
	return (int64_t)s->n_prompt + (s->n_max > 1 ? s->n_max - 1 : 0);
}

static bool has_slot(const struct stream *s)
{
	return s->slot >= 0;
}

/* Counts a stream, and its request's prompt if it is shared, as they are now. */
static void recount(struct core *c, struct stream *s)
{
	struct cohort_request *r = s->request;
	const int32_t whole = whole_blocks(c, s->n_prompt);
	const int32_t shared = s->shares ? smaller(whole, whole_blocks(c, s->n_cached)) : 0;

	s->n_counted = s->n_cached;
	if (c->lim.n_blocks == 0)
		return;
	c->n_private -= s->rest->n_private;
	c->n_reserved -= s->rest->n_reserved;
	s->rest->n_private = s->rest->n_reserved = 0;
	if (has_slot(s) && s->phase != STREAM_PARKED) { /* n_cached of a parked one is what was saved of it */
		s->rest->n_private = ceil_blocks(c, s->n_cached) - larger(shared, s->n_chain);
		s->rest->n_reserved = s->rest->n_private;
		if (!c->lim.overcommit)
			s->rest->n_reserved = ceil_blocks(c, cells_most(s)) - larger(s->shares ? whole : 0, s->n_chain);
	}
	c->n_private += s->rest->n_private;
	c->n_reserved += s->rest->n_reserved;
	if (s->alone || (r->n_sharing > 0 && !s->shares))
		return;
	c->n_private -= r->n_private;
	c->n_reserved -= r->n_reserved;
	r->n_private = r->n_reserved = 0;
	if (r->n_sharing > 0) {
		r->n_private = shared - smaller(shared, s->n_chain);
		r->n_reserved = c->lim.overcommit ? r->n_private : whole - smaller(whole, s->n_chain);
	}
	c->n_private += r->n_private;
	c->n_reserved += r->n_reserved;
}

static int32_t n_held(const struct core *c)
{
	return c->prefix ? prefix_n_held(c->prefix) : 0;
}

static int32_t n_pinned(const struct core *c)
{
	return c->prefix ? prefix_n_pinned(c->prefix) : 0;
}

/* Takes back what attach gave. */
static void detach(struct core *c, struct stream *s)
{
	c->m.seq_rm(c->m.self, s->slot, 0, -1, NULL);
	if (s->node >= 0)
		prefix_unpin(c->prefix, s->node);
	s->node = -1;
	s->n_cached = s->n_chain = 0;
}

/* Blocks that are neither promised nor pinned. */
static int32_t n_spare(const struct core *c)
{
	return c->lim.n_blocks - c->n_reserved - n_pinned(c);
}

/* Whether s waits for another stream's blocks. */
static bool follows(const struct stream *s)
{
	return s && s->phase == STREAM_WAITS && s->index == 0;
}

/* Blocks that a stream under way is still going to need for the tokens it knows. With reservation they are reserved. */
static int32_t n_outstanding(const struct core *c, const struct stream *s)
{
	if (!c->lim.overcommit || !(stream_is_active(s) || follows(s)))
		return 0;
	return ceil_blocks(c, s->n_known) - ceil_blocks(c, s->n_cached);
}

static bool evict_one(struct core *c)
{
	cohort_seq seq;
	if (!c->prefix || !prefix_evict(c->prefix, &seq))
		return false;
	c->m.seq_rm(c->m.self, seq, 0, -1, NULL);
	c->live.n_evicted++;
	return true;
}

bool room_evict(struct core *c)
{
	return evict_one(c);
}

int32_t room_spare(const struct core *c)
{
	return n_spare(c);
}

void room_free(struct core *c, int32_t n)
{
	while (c->n_private + n_held(c) + n > c->lim.n_blocks && evict_one(c))
		;
}

/* With overcommitment streams that wait give back their cached blocks; with reservation these are part of what they
 * were promised. False: there were none. */
static bool release_waiting(struct core *c)
{
	bool released = false;

	for (int32_t i = 0; c->lim.overcommit && c->n_in[STREAM_WAITS] > 0 && i < c->lim.n_slots; i++)
		if (follows(c->slots[i]) && c->slots[i]->n_cached > 0) {
			detach(c, c->slots[i]);
			recount(c, c->slots[i]);
			released = true;
		}
	return released;
}

bool room_clear(struct core *c)
{
	const uint64_t n_evicted = c->live.n_evicted;
	const bool released = release_waiting(c);

	while (evict_one(c))
		;
	return released || c->live.n_evicted > n_evicted;
}

void room_empty(struct core *c)
{
	const uint64_t n_evicted = c->live.n_evicted;
	room_clear(c);
	c->live.n_evicted = n_evicted; /* nobody needed the room */
}

/* ---- Reuse ---- */

/* What of a stream's tokens is in the cache. */
struct match {
	int32_t n_chain; /* blocks, c->path[0 .. n_chain) */
	int32_t n_tail; /* and tokens of the session's tail behind them */
	int32_t tail;
	int32_t from; /* recurrent models: the node whose state it is; -1: none */
	int32_t n_path; /* ... and blocks whose tokens are known, with a state or without */
};

static uint64_t block_hash(const struct core *c, const struct stream *s, int32_t i, uint64_t before)
{
	if (i < whole_blocks(c, s->n_prompt))
		return s->request->hashes[i];
	return prefix_hash(before, s->known + (size_t)i * (size_t)c->lim.block_size, c->lim.block_size);
}

/* Follows the stream's tokens as far as there are nodes; returns how many. */
static int32_t follow(const struct core *c, const struct stream *s)
{
	const struct cohort_request *r = s->request;
	const int32_t most = whole_blocks(c, s->n_known - 1);
	uint64_t h = prefix_hash_root(&r->root);
	int32_t node = -1, i = 0;

	for (; i < most; i++) {
		h = block_hash(c, s, i, h);
		node = prefix_find(c->prefix, &r->root, node, h, s->known + (size_t)i * (size_t)c->lim.block_size);
		if (node < 0)
			break;
		c->path[i] = node;
	}
	return i;
}

/* How many tokens of the session's tail go on from the first n_path blocks. */
static int32_t follow_tail(const struct core *c, const struct stream *s, int32_t n_path, struct match *m)
{
	const struct cohort_request *r = s->request;
	const int32_t tail = r->p.session ? prefix_tail_get(c->prefix, &r->root, r->p.session) : -1;

	if (tail < 0)
		return -1;
	const struct prefix_node *t = prefix_node_get(c->prefix, tail);
	const int32_t k = whole_blocks(c, t->n_before);
	if (k > n_path || t->parent != (k ? c->path[k - 1] : -1))
		return -1;
	int32_t n = 0;
	while (n < t->n_tokens && t->n_before + n < s->n_known - 1 && t->tokens[n] == s->known[t->n_before + n])
		n++;
	m->n_tail = n;
	m->tail = tail;
	return k;
}

/* Who wants something of every row computes every row. */
static bool looks_up(const struct core *c, const struct cohort_request *r)
{
	return c->prefix && !r->p.no_reuse && !r->p.prompt_logprobs &&
			(!r->embedding || r->p.pooling == COHORT_POOL_LAST);
}

static struct match look_up(struct core *c, const struct stream *s)
{
	const struct cohort_request *r = s->request;
	struct match m = {.tail = -1, .from = -1};

	if (!looks_up(c, r))
		return m;
	const int32_t n_path = follow(c, s);
	const int32_t k = follow_tail(c, s, n_path, &m);
	const bool whole_tail = k >= 0 && m.n_tail == prefix_node_get(c->prefix, m.tail)->n_tokens;
	m.n_chain = n_path;
	if (!c->lim.recurrent) {
		if (k != n_path || m.n_tail == 0)
			m.n_tail = 0, m.tail = -1;
		return m;
	}
	/* A state is of use at its own end only. */
	m.n_path = n_path;
	while (m.n_chain > 0 && prefix_node_get(c->prefix, c->path[m.n_chain - 1])->seq < 0)
		m.n_chain--;
	if (whole_tail && k >= m.n_chain) {
		m.n_chain = k;
		m.from = m.tail;
		return m;
	}
	m.n_tail = 0;
	m.tail = -1;
	m.from = m.n_chain ? c->path[m.n_chain - 1] : -1;
	return m;
}

static enum cohort_status copy_node(
		struct core *c, const struct stream *s, int32_t node, int32_t p0, int32_t p1, struct cohort_err *err)
{
	return c->m.seq_cp(c->m.self, prefix_node_get(c->prefix, node)->seq, s->slot, p0, p1, err);
}

static enum cohort_status copy_match(struct core *c, struct stream *s, const struct match *m, struct cohort_err *err)
{
	const int32_t size = c->lim.block_size, end = m->n_chain * size + m->n_tail;
	enum cohort_status st = COHORT_OK;

	if (c->lim.recurrent)
		return m->from < 0 ? COHORT_OK : copy_node(c, s, m->from, 0, end, err);
	for (int32_t i = 0; !st && i < m->n_chain; i++)
		st = copy_node(c, s, c->path[i], i * size, (i + 1) * size, err);
	if (!st && m->tail >= 0)
		st = copy_node(c, s, m->tail, m->n_chain * size, end, err);
	return st;
}

static uint64_t chain_hash(const struct core *c, const struct stream *s, int32_t n)
{
	uint64_t h = prefix_hash_root(&s->request->root);
	for (int32_t i = 0; i < n; i++)
		h = block_hash(c, s, i, h);
	return h;
}

/* Gives an empty slot what the cache has of its stream's tokens. */
static void attach(struct core *c, struct stream *s, const struct match *m)
{
	struct cohort_err err;

	s->node = -1;
	s->n_cached = s->n_chain = 0;
	s->chain_over = false;
	s->rest->fork_at = m->n_path * c->lim.block_size;
	if (m->n_chain > 0)
		prefix_pin(c->prefix, c->path[m->n_chain - 1]);
	if (m->tail >= 0)
		prefix_pin(c->prefix, m->tail);
	if (copy_match(c, s, m, &err)) { /* the cells of a window, say, are gone: as if nothing had been found */
		c->m.seq_rm(c->m.self, s->slot, 0, -1, NULL);
		if (m->n_chain > 0)
			prefix_unpin(c->prefix, c->path[m->n_chain - 1]);
	} else if (m->n_chain > 0 || m->tail >= 0) {
		s->n_chain = m->n_chain;
		s->node = m->n_chain ? c->path[m->n_chain - 1] : -1;
		s->n_cached = m->n_chain * c->lim.block_size + m->n_tail;
	}
	if (m->tail >= 0)
		prefix_unpin(c->prefix, m->tail);
	s->rest->hash = chain_hash(c, s, s->n_chain);
}

/* The stream's next whole block is at `node`, whoever computed it. */
static void step_chain(struct core *c, struct stream *s, int32_t node, uint64_t hash)
{
	prefix_pin(c->prefix, node);
	if (s->node >= 0)
		prefix_unpin(c->prefix, s->node);
	s->node = node;
	s->n_chain++;
	s->rest->hash = hash;
}

/* Makes an id free for what is behind the stream's chain. Where all are pinned, the last state before is given up: who
 * begins with it has it, and what comes behind it serves more of those who come. */
static bool free_id(struct core *c, const struct stream *s)
{
	int32_t node = c->lim.recurrent ? s->node : -1;

	if (evict_one(c))
		return true;
	for (; node >= 0; node = prefix_node_get(c->prefix, node)->parent) {
		const struct prefix_node *n = prefix_node_get(c->prefix, node);
		const int32_t end = n->n_before + n->n_tokens;
		if (n->seq >= 0 && !room_is_awaited(c, s, end - 1, end))
			break;
	}
	if (node < 0)
		return false;
	c->m.seq_rm(c->m.self, prefix_node_get(c->prefix, node)->seq, 0, -1, NULL);
	prefix_take_id(c->prefix, node);
	return true;
}

static int32_t add_node(struct core *c, struct stream *s, uint64_t hash, const cohort_token *tokens, bool with_id)
{
	const struct prefix_root *root = &s->request->root;
	int32_t node = prefix_add(c->prefix, root, s->node, hash, tokens, with_id);
	if (node < 0) { /* nodes without an id may go even if nobody has one to spare */
		if (with_id)
			free_id(c, s);
		else
			evict_one(c);
		node = prefix_add(c->prefix, root, s->node, hash, tokens, with_id);
	}
	return node;
}

/* What is planned of the stream is not to be computed. */
static void drop_rows(struct core *c, const struct stream *s)
{
	if (c->view_of[s->slot] >= 0) {
		c->taken[c->view_of[s->slot]] = 0;
		c->lost = true;
	}
}

static bool end_chain(struct stream *s)
{
	s->chain_over = true;
	return false;
}

/* An id for a node behind the stream's chain that has none. */
static bool give_id(struct core *c, const struct stream *s, int32_t node)
{
	prefix_pin(c->prefix, node); /* it may be nobody's yet, and must not be what goes */
	bool given = prefix_give_id(c->prefix, node);
	if (!given && free_id(c, s))
		given = prefix_give_id(c->prefix, node);
	prefix_unpin(c->prefix, node);
	return given;
}

/* Of the chain with the block behind it, which is whole. */
static uint64_t next_hash(const struct core *c, struct stream *s)
{
	struct stream_rest *rest = s->rest;

	if (rest->n_next != s->n_chain + 1) {
		rest->next_hash = block_hash(c, s, s->n_chain, rest->hash);
		rest->n_next = s->n_chain + 1;
	}
	return rest->next_hash;
}

/* The next block of the chain, which is whole; false: it cannot be shared, or not yet. */
static bool share_block(struct core *c, struct stream *s)
{
	const int32_t size = c->lim.block_size, p0 = s->n_chain * size, p1 = p0 + size;
	const cohort_token *tokens = s->known + p0;
	const uint64_t hash = next_hash(c, s);
	int32_t node = prefix_find(c->prefix, &s->request->root, s->node, hash, tokens);
	/* A state can be kept only while the sequence is there. */
	const bool here = !c->lim.recurrent || s->n_cached == p1;
	const int32_t from = c->lim.recurrent ? 0 : p0;
	struct cohort_err err;

	if (node >= 0 && !c->lim.recurrent) { /* somebody else was faster: one of the two blocks is enough */
		/* A window may have let go of cells that a sequence without this end would need. */
		if (c->lim.n_window && s->n_cached == p1)
			return false;
		if (c->m.seq_rm(c->m.self, s->slot, p0, p1, &err))
			return end_chain(s);
		if (copy_node(c, s, node, p0, p1, &err)) { /* its own are gone: it goes on from there */
			s->n_cached = smaller(s->n_cached, p0);
			c->m.seq_rm(c->m.self, s->slot, p0, -1, NULL);
			stream_enter(c, s, STREAM_PREFILLS);
			drop_rows(c, s);
			return end_chain(s);
		}
		step_chain(c, s, node, hash);
		return true;
	}
	const bool is_new = node < 0;
	if (is_new)
		node = add_node(c, s, hash, tokens, here);
	if (node < 0)
		return end_chain(s);
	const bool fill = here && (is_new || (prefix_node_get(c->prefix, node)->seq < 0 && give_id(c, s, node)));
	if (fill && c->m.seq_cp(c->m.self, s->slot, prefix_node_get(c->prefix, node)->seq, from, p1, &err)) {
		if (is_new)
			prefix_drop(c->prefix, node);
		else
			prefix_take_id(c->prefix, node); /* others may be behind it */
		return end_chain(s);
	}
	step_chain(c, s, node, hash);
	return true;
}

bool room_shares(const struct core *c, const struct stream *s)
{
	return c->prefix && s->sharable && !s->chain_over;
}

void room_expect(const struct core *c, struct stream *s)
{
	if (room_shares(c, s) && (s->n_chain + 1) * c->lim.block_size <= s->n_cached)
		prefix_expect(c->prefix, s->node, next_hash(c, s));
}

void room_grow(struct core *c, struct stream *s)
{
	/* Within a block nothing changes. */
	if (whole_blocks(c, s->n_cached) == whole_blocks(c, s->n_counted) &&
			ceil_blocks(c, s->n_cached) == ceil_blocks(c, s->n_counted))
		return;
	while (room_shares(c, s) && (s->n_chain + 1) * c->lim.block_size <= s->n_cached && share_block(c, s))
		;
	recount(c, s);
}

/* Keeps the tokens behind the last whole block for the session's next request. */
static void keep_tail(struct core *c, struct stream *s)
{
	const struct cohort_request *r = s->request;
	const int32_t p0 = s->n_chain * c->lim.block_size, n = s->n_cached - p0;
	const cohort_token *tokens = s->known + p0;
	cohort_seq old;

	if (!r->p.session || !room_shares(c, s) || n <= 0 || n >= c->lim.block_size)
		return;
	int32_t tail = prefix_tail_set(c->prefix, &r->root, r->p.session, s->node, tokens, n, &old);
	if (old >= 0)
		c->m.seq_rm(c->m.self, old, 0, -1, NULL);
	if (tail < 0 && evict_one(c))
		tail = prefix_tail_set(c->prefix, &r->root, r->p.session, s->node, tokens, n, &old);
	if (tail < 0)
		return;
	const cohort_seq seq = prefix_node_get(c->prefix, tail)->seq;
	if (c->m.seq_cp(c->m.self, s->slot, seq, c->lim.recurrent ? 0 : p0, s->n_cached, NULL))
		prefix_drop(c->prefix, tail);
}

/* ---- Slots ---- */

static enum cohort_status take_slot(struct core *c, struct stream *s, struct cohort_err *err)
{
	const struct cohort_request *r = s->request;

	s->slot = c->idle[--c->n_idle];
	c->slots[s->slot] = s;
	s->rest->turn = ++c->n_turns;
	c->n_limited += s->limited;
	return c->m.adapter_set(c->m.self, s->slot, r->p.adapter, r->p.adapter ? r->p.adapter_scale : 1.0f, err);
}

static void drop_swap(struct core *c, struct stream *s)
{
	c->swap_used -= s->rest->n_swap;
	mem_free(s->rest->swap);
	s->rest->swap = NULL;
	s->rest->n_swap = 0;
}

/* Lets go of all cells. */
static void let_go(struct core *c, struct stream *s)
{
	struct cohort_request *r = s->request;

	detach(c, s);
	if (s->shares) {
		s->shares = false;
		r->n_sharing--;
	}
}

void room_leave(struct core *c, struct stream *s)
{
	if (!has_slot(s))
		return;
	if (s->phase != STREAM_PARKED)
		keep_tail(c, s);
	c->n_limited -= s->limited;
	if (c->kept)
		cache_keep_tokens(c, s);
	let_go(c, s);
	drop_swap(c, s);
	c->slots[s->slot] = NULL;
	c->idle[c->n_idle++] = s->slot;
	s->slot = -1;
	recount(c, s);
}

void room_fork(struct core *c, struct stream *first)
{
	struct cohort_request *r = first->request;
	struct cohort_err err;

	r->forked = true;
	/* What streams share is counted once: from here on none of them may trade a block of the prompt for a cached
	 * one. */
	if (first->n_chain < whole_blocks(c, r->p.n_prompt))
		first->chain_over = true;
	/* All others wait: what ends one of them ends the request. */
	for (int32_t i = 1; i < r->p.n_outputs; i++) {
		struct stream *s = &r->streams[i];
		stream_enter(c, s, STREAM_PREFILLS);
		s->chain_over = first->chain_over;
		s->rest->hash = chain_hash(c, s, 0);
		if (!c->m.seq_cp(c->m.self, first->slot, s->slot, 0, r->p.n_prompt, &err)) {
			s->n_cached = r->p.n_prompt;
			s->node = first->node;
			s->n_chain = first->n_chain;
			s->rest->hash = first->rest->hash;
			s->shares = first->shares;
			r->n_sharing += s->shares;
			if (s->node >= 0)
				prefix_pin(c->prefix, s->node);
		}
		recount(c, s);
	}
}

/* ---- Parking ---- */

static bool save(struct core *c, struct stream *s)
{
	const size_t n = s->request->p.adapter ? 0 : c->m.state_size(c->m.self, s->slot);

	if (n == 0 || n > c->lim.swap_bytes - c->swap_used)
		return false;
	s->rest->swap = mem_alloc(n, 1);
	if (!s->rest->swap)
		return false;
	s->rest->n_swap = n;
	c->swap_used += n;
	if (c->m.state_save(c->m.self, s->slot, s->rest->swap, n, NULL)) {
		drop_swap(c, s);
		return false;
	}
	c->live.n_swapped++;
	return true;
}

void room_park(struct core *c, struct stream *s)
{
	struct cohort_request *r = s->request;

	/* Of a stream whose last row was computed and not looked at, that row comes again. */
	if (s->n_cached == s->n_known && !c->m.seq_rm(c->m.self, s->slot, s->n_known - 1, -1, NULL))
		s->n_cached--;
	const int32_t n_cached = s->n_cached;
	const bool saved = c->lim.swap_bytes && n_cached > 0 && n_cached < s->n_known && save(c, s);
	let_go(c, s);
	stream_enter(c, s, STREAM_PARKED);
	s->n_cached = saved ? n_cached : 0;
	recount(c, s);
	if (r->embedding && !saved) /* its rows come again */
		memset(r->embedding, 0, (size_t)c->lim.n_embd * sizeof *r->embedding);
	c->live.n_parked++;
	r->n_parks++;
	stream_news(c, s);
}

/* Cells that were found for a stream could not be copied, so that it needs more than was looked for: it waits if that
 * is not there. */
static bool keep_promises(struct core *c, struct stream *s)
{
	if (c->lim.n_blocks == 0 || n_spare(c) >= 0)
		return true;
	room_park(c, s);
	return false;
}

/* ---- Admission ---- */

/* Blocks that a request takes from those to spare. */
static int64_t n_needed(const struct core *c, const struct cohort_request *r, const struct match *m)
{
	const int64_t n_outputs = r->p.n_outputs, whole = r->p.n_prompt / c->lim.block_size;
	int64_t n = whole + n_outputs * (ceil_blocks(c, cells_most(r->streams)) - whole);

	if (c->lim.overcommit)
		n = ceil_blocks(c, (int64_t)r->p.n_prompt + 1) + (n_outputs - 1);
	if (m->n_chain > 0)
		n += prefix_n_unpinned(c->prefix, c->path[m->n_chain - 1]) - m->n_chain;
	return n;
}

static bool has_room(const struct core *c, int64_t n)
{
	return c->lim.n_blocks == 0 || n <= n_spare(c) - c->n_outstanding;
}

/* The number of blocks that both prompts begin with; the first n are known to be the same. */
static int32_t n_common(const struct core *c, const struct stream *s, const struct stream *t, int32_t n)
{
	const int32_t most = smaller(whole_blocks(c, s->n_prompt - 1), whole_blocks(c, t->n_prompt));

	/* A block's hash is one of all before it, too. */
	while (n < most && s->request->hashes[n] == t->request->hashes[n])
		n++;
	return n;
}

/* Whether t is about to compute block n_blocks - 1 of s; both prompts begin with the same n_blocks blocks. */
static bool leads(const struct core *c, const struct stream *t, const struct stream *s, int32_t n_blocks)
{
	return t->phase == STREAM_PREFILLS && room_shares(c, t) && t->priority >= s->priority && t->n_chain < n_blocks;
}

/* Looks for a stream that is about to compute what s, which has n_chain blocks, needs next; the longest common
 * beginning counts. */
static bool find_leader(const struct core *c, struct stream *s, int32_t n_chain)
{
	struct stream_rest *rest = s->rest;

	rest->n_awaited = n_chain;
	if (!looks_up(c, s->request) || c->n_in[STREAM_PREFILLS] == 0 || whole_blocks(c, s->n_prompt - 1) <= n_chain)
		return false;
	for (int32_t i = 0; i < c->lim.n_slots; i++) {
		const struct stream *t = c->slots[i];
		/* A stream that is behind s would take longer than s itself. */
		if (!t || t == s || t->phase != STREAM_PREFILLS || t->n_cached < n_chain * c->lim.block_size ||
				!room_shares(c, t))
			continue;
		const int32_t n = n_common(c, s, t, n_chain);
		if (n > rest->n_awaited && leads(c, t, s, n)) {
			rest->n_awaited = n;
			rest->leader = i;
		}
	}
	return rest->n_awaited > n_chain;
}

bool room_is_awaited(const struct core *c, const struct stream *t, int32_t n_cached, int32_t pos)
{
	for (int32_t i = 0; c->n_in[STREAM_WAITS] > 0 && i < c->lim.n_slots; i++) {
		const struct stream *s = c->slots[i];
		if (!follows(s) || s->rest->leader != t->slot)
			continue;
		const int32_t stop = s->rest->n_awaited * c->lim.block_size;
		if (n_cached < stop && stop <= pos)
			return true;
	}
	return false;
}

/* Rows of a prompt that its client is charged for. */
static void serve(struct core *c, struct stream *first, int32_t n)
{
	if (n <= 0)
		return;
	first->rest->n_served += n;
	lock_take(&c->hub->lock);
	queue_serve(c->queue, &first->request->item, n);
	lock_give(&c->hub->lock);
}

/* A prompt that was admitted begins with what is in the cache, or waits for what will be. */
static void begin_prompt(struct core *c, struct stream *first, const struct match *m)
{
	struct cohort_request *r = first->request;
	const bool waits = find_leader(c, first, m->n_chain);

	stream_enter(c, first, waits ? STREAM_WAITS : STREAM_PREFILLS);
	attach(c, first, m);
	recount(c, first);
	stream_news(c, first);
	/* A prompt that waits is charged at once for the rows that it needs in any case. Without a charge its client
	 * would be admitted again and again. */
	if (keep_promises(c, first) && waits) {
		if (first->rest->n_served == 0)
			serve(c, first, r->p.n_prompt - first->rest->n_awaited * c->lim.block_size);
		return;
	}
	r->n_cached_prompt = first->n_cached;
	c->live.n_prompt_tokens += (uint64_t)r->p.n_prompt;
	c->live.n_cached_tokens += (uint64_t)first->n_cached;
	c->live.n_lookups += looks_up(c, r);
	c->live.n_hits += first->n_cached > 0;
	serve(c, first, r->p.n_prompt - first->n_cached - first->rest->n_served);
}

/* a goes before b: a higher priority first, so that the others can wait for it. */
static bool before(const struct stream *a, const struct stream *b)
{
	return a->priority != b->priority ? a->priority > b->priority : a->rest->turn < b->rest->turn;
}

/* Begins the prompts that wait no more: the leader has computed their blocks, or will not. It runs before new
 * requests are admitted, so that the leader's slot has no other stream yet. */
static void begin_awaited(struct core *c)
{
	int32_t n = 0;

	for (int32_t i = 0; c->n_in[STREAM_WAITS] > 0 && i < c->lim.n_slots; i++) {
		struct stream *s = c->slots[i];
		const struct stream *leader = follows(s) ? c->slots[s->rest->leader] : NULL;
		if (!follows(s) || (leader && leads(c, leader, s, s->rest->n_awaited)))
			continue;
		int32_t k = n++; /* mostly they lie in the order of their turns */
		for (; k > 0 && before(s, c->active[k - 1]); k--)
			c->active[k] = c->active[k - 1];
		c->active[k] = s;
	}
	for (int32_t i = 0; i < n; i++) {
		detach(c, c->active[i]);
		const struct match m = look_up(c, c->active[i]);
		begin_prompt(c, c->active[i], &m);
	}
}

static bool admit(struct core *c, struct cohort_request *r, double now)
{
	struct stream *first = &r->streams[0];
	enum cohort_status st = COHORT_OK;
	struct cohort_err err;

	if (r->p.n_outputs > c->n_idle)
		return false;
	const struct match m = look_up(c, first);
	/* Alone it may begin, whatever it comes to need: its first stream fits, as was checked, and the others are
	 * parked if they do not fit with it. */
	const bool alone = c->lim.overcommit && c->n_idle == c->lim.n_slots;
	if (!alone && !has_room(c, n_needed(c, r, &m)))
		return false;
	lock_take(&c->hub->lock);
	queue_admit(c->queue, &r->item);
	lock_give(&c->hub->lock);
	c->live.n_admitted++;
	r->at_admitted = now;
	for (int32_t i = 0; !st && i < r->p.n_outputs; i++) {
		st = take_slot(c, &r->streams[i], &err);
		stream_enter(c, &r->streams[i], STREAM_WAITS);
	}
	if (st) { /* without its adapter it would say something else */
		request_end(c, r, COHORT_FINISH_ERROR, &err);
		return true;
	}
	if (r->p.n_outputs > 1) {
		first->shares = true;
		r->n_sharing = 1;
		/* Those that wait are promised what lies behind the prompt only. */
		for (int32_t i = 1; i < r->p.n_outputs && !c->lim.overcommit; i++) {
			r->streams[i].shares = true;
			recount(c, &r->streams[i]);
			r->streams[i].shares = false;
		}
	}
	recount(c, first);
	begin_prompt(c, first, &m);
	c->n_outstanding += n_outstanding(c, first);
	return true;
}

/* ---- Resuming ---- */

/* Of the parked streams the oldest, of the others the youngest that has cells or is to get some. */
static struct stream *find_stream(const struct core *c, bool parked)
{
	struct stream *best = NULL;
	for (int32_t i = 0; i < c->lim.n_slots; i++) {
		struct stream *s = c->slots[i];
		if (!s ||
				(parked ? s->phase != STREAM_PARKED
					: s->phase != STREAM_PREFILLS && s->phase != STREAM_GENERATES))
			continue;
		if (!best || (parked ? s->rest->turn < best->rest->turn : s->rest->turn > best->rest->turn))
			best = s;
	}
	return best;
}

static int64_t n_under_way(const struct core *c)
{
	return c->n_in[STREAM_PREFILLS] + c->n_in[STREAM_GENERATES];
}

static bool restore(struct core *c, struct stream *s)
{
	const bool ok = !c->m.state_restore(c->m.self, s->slot, s->rest->swap, s->rest->n_swap, NULL);
	const int32_t n_cached = s->n_cached;

	drop_swap(c, s);
	s->n_cached = s->n_chain = 0;
	s->node = -1;
	s->chain_over = false;
	s->rest->hash = chain_hash(c, s, 0);
	if (ok)
		s->n_cached = n_cached;
	return ok;
}

/* Somebody is parked: the oldest of them goes on if there is room for it, and for the next block of everybody else. */
static bool resume(struct core *c)
{
	struct stream *s = find_stream(c, true);
	const bool alone = n_under_way(c) == 0;
	if (alone) /* then it must fit */
		release_waiting(c);
	/* Who has nothing reserved may need another block at any time. */
	const int32_t n_others =
			c->lim.overcommit ? c->lim.n_slots - c->n_idle - (int32_t)c->n_in[STREAM_PARKED] : 0;

	struct match m = {.tail = -1, .from = -1};
	if (!s->rest->swap)
		m = look_up(c, s);
	int64_t need = ceil_blocks(c, c->lim.overcommit ? (int64_t)s->n_known + 1 : cells_most(s)) - m.n_chain;
	if (m.n_chain > 0)
		need += prefix_n_unpinned(c->prefix, c->path[m.n_chain - 1]);
	if (!alone && !has_room(c, need + n_others))
		return false;
	if (s->rest->swap)
		room_free(c, (int32_t)need);
	if (!s->rest->swap || !restore(c, s))
		attach(c, s, &m);
	stream_enter(c, s,
			stream_n_generated(s) > 0 && s->n_known - s->n_cached == 1 ? STREAM_GENERATES
										   : STREAM_PREFILLS);
	if (s->request->p.n_outputs > 1 && !s->request->forked) {
		s->shares = true;
		s->request->n_sharing++;
	}
	s->n_counted = 0;
	room_grow(c, s);
	recount(c, s);
	c->live.n_resumed++;
	if (!keep_promises(c, s))
		return false;
	c->n_outstanding += n_outstanding(c, s);
	return true;
}

/* Whose turn it is, or NULL. Others only add to the queue, so that it stays so without the lock. */
static struct cohort_request *first_in_queue(struct core *c, double now)
{
	lock_take(&c->hub->lock);
	struct queue_item *item = queue_first(c->queue, now);
	c->tick.n_queued = (int32_t)queue_depth(c->queue);
	lock_give(&c->hub->lock);
	return (struct cohort_request *)item;
}

void room_admit(struct core *c)
{
	const double now = c->m.now(c->m.self);
	struct cohort_request *r = first_in_queue(c, now);

	if (!r && !c->n_in[STREAM_PARKED] && !c->n_in[STREAM_WAITS])
		return;
	/* Once a tick: from here on only those who get in change it. */
	c->n_outstanding = 0;
	for (int32_t i = 0; c->lim.overcommit && i < c->lim.n_slots; i++)
		c->n_outstanding += n_outstanding(c, c->slots[i]);
	while (c->n_in[STREAM_PARKED] && resume(c))
		;
	if (!c->n_in[STREAM_PARKED])
		begin_awaited(c);
	while (!c->n_in[STREAM_PARKED] && r && admit(c, r, now))
		r = first_in_queue(c, now);
}

/* ---- Room for a tick ---- */

static int32_t n_waiting(const struct cohort_request *r)
{
	int32_t n = 0;
	for (int32_t i = 1; i < r->p.n_outputs; i++)
		n += r->streams[i].phase == STREAM_WAITS;
	return n;
}

int32_t room_growth_of(const struct core *c, const struct stream *s, int32_t n_rows)
{
	const int32_t end = s->n_cached + n_rows, n = ceil_blocks(c, end) - ceil_blocks(c, s->n_cached);

	if (n_rows == 0 || end != s->n_prompt || (end & (c->lim.block_size - 1)) == 0 || s->alone)
		return n;
	return n + n_waiting(s->request); /* each gets a last block of its own */
}

/* Parks the youngest stream, unless it is the only one that is under way. */
static bool park_one(struct core *c)
{
	struct stream *s = find_stream(c, false);

	if (n_under_way(c) < 2)
		return false;
	const int32_t v = c->view_of[s->slot];
	if (v >= 0)
		c->n_growth -= room_growth(c, s, c->taken[v]);
	drop_rows(c, s);
	room_park(c, s);
	return true;
}

void room_settle(struct core *c)
{
	while (c->lim.n_blocks && n_spare(c) < 0 && park_one(c))
		;
	if (c->lim.n_blocks)
		room_free(c, 0);
}

void room_make(struct core *c)
{
	if (c->lim.n_blocks == 0)
		return;
	while (c->lim.overcommit && c->n_growth > n_spare(c) && park_one(c))
		;
	room_free(c, c->n_growth);
}
