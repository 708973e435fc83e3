/* Cached prompts: what a stream begins with, and what it leaves for others. How models differ in this: policy.c. */
#include "engine/policy.h"
#include "engine/room.h"
#include "engine/stream.h"

static const cohort_token *block(const struct core *c, const struct stream *s, int32_t i)
{
	return s->known + (size_t)i * (size_t)c->lim.block_size;
}

static uint64_t block_hash(const struct core *c, const struct stream *s, int32_t i, uint64_t before)
{
	return i < whole_blocks(c, s->n_prompt) ? s->request->hashes[i]
						: prefix_hash(before, block(c, s, i), c->lim.block_size);
}

static uint64_t chain_hash(const struct core *c, const struct stream *s, int32_t n)
{
	uint64_t h = prefix_hash_root(&s->request->root);

	for (int32_t i = 0; i < n; i++)
		h = block_hash(c, s, i, h);
	return h;
}

/* ---- Beginning with what is there ---- */

struct prefix_found room_look_up(struct core *c, const struct stream *s)
{
	const struct cohort_request *r = s->request;
	struct prefix_found f = {.tail = -1};

	if (!room_looks_up(c, r))
		return f;
	f = prefix_follow(c->prefix,
			&(struct prefix_key){&r->root, r->p.session, s->known, s->n_known - 1, r->hashes,
					whole_blocks(c, s->n_prompt)},
			c->path);
	c->policy->trim(c, &f);
	return f;
}

void room_attach(struct core *c, struct stream *s, const struct prefix_found *f)
{
	const int32_t n = f->n_chain * c->lim.block_size + f->n_tail, node = f->n_chain ? c->path[f->n_chain - 1] : -1;

	s->chain_over = false;
	s->rest->fork_at = f->n_path * c->lim.block_size;
	if (node >= 0)
		prefix_pin(c->prefix, node);
	if (f->tail >= 0)
		prefix_pin(c->prefix, f->tail);
	s->node = node;
	s->n_chain = f->n_chain;
	s->n_cached = n;
	/* Cells of a window, say, may be gone: then it is as if nothing had been found. */
	if (n > 0 && c->policy->copy(c, f, s->slot) < n)
		room_detach(c, s);
	if (f->tail >= 0)
		prefix_unpin(c->prefix, f->tail);
	s->rest->hash = chain_hash(c, s, s->n_chain);
}

void room_detach(struct core *c, struct stream *s)
{
	core_empty(c, s->slot);
	if (s->node >= 0)
		prefix_unpin(c->prefix, s->node);
	s->node = -1;
	s->n_cached = s->n_chain = 0;
}

void room_fork(struct core *c, struct stream *first)
{
	struct cohort_request *r = first->request;

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
		if (!c->m.seq_cp(c->m.self, first->slot, s->slot, 0, r->p.n_prompt, NULL)) {
			s->n_cached = r->p.n_prompt;
			s->node = first->node;
			s->n_chain = first->n_chain;
			s->rest->hash = first->rest->hash;
			s->shares = first->shares;
			r->n_sharing += s->shares;
			if (s->node >= 0)
				prefix_pin(c->prefix, s->node);
		}
		room_count(c, s);
	}
}

/* ---- Leaving blocks for others ---- */

/* The stream's next whole block is at `node`, whichever stream computed it. */
static void step_chain(struct core *c, struct stream *s, int32_t node, uint64_t hash)
{
	prefix_pin(c->prefix, node);
	if (s->node >= 0)
		prefix_unpin(c->prefix, s->node);
	s->node = node;
	s->n_chain++;
	s->rest->hash = hash;
}

static bool end_chain(struct stream *s)
{
	s->chain_over = true;
	return false;
}

/* Makes an id free for what is behind the stream's chain. */
static bool free_id(struct core *c, const struct stream *s)
{
	if (room_evict(c))
		return true;
	const int32_t node = c->policy->id_to_take ? c->policy->id_to_take(c, s) : -1;
	if (node < 0)
		return false;
	core_empty(c, core_node_seq(c, node));
	prefix_take_id(c->prefix, node);
	return true;
}

static int32_t add_node(struct core *c, struct stream *s, uint64_t hash, const cohort_token *tokens, bool with_id)
{
	const struct prefix_root *root = &s->request->root;
	int32_t node = prefix_add(c->prefix, root, s->node, hash, tokens, with_id);

	if (node < 0) { /* nodes without an id may go even if there is none to spare */
		if (with_id)
			free_id(c, s);
		else
			room_evict(c);
		node = prefix_add(c->prefix, root, s->node, hash, tokens, with_id);
	}
	return node;
}

/* An id for a node behind the stream's chain that has none. */
static bool give_id(struct core *c, const struct stream *s, int32_t node)
{
	prefix_pin(c->prefix, node); /* it may be in no other use, and must not be what goes */
	bool given = prefix_give_id(c->prefix, node);
	if (!given && free_id(c, s))
		given = prefix_give_id(c->prefix, node);
	prefix_unpin(c->prefix, node);
	return given;
}

/* The hash of the chain and the next block, which is whole. */
static uint64_t next_hash(const struct core *c, struct stream *s)
{
	struct stream_rest *rest = s->rest;

	if (rest->n_next != s->n_chain + 1) {
		rest->next_hash = block_hash(c, s, s->n_chain, rest->hash);
		rest->n_next = s->n_chain + 1;
	}
	return rest->next_hash;
}

/* Another stream was faster: one of the two blocks is enough. */
static bool trade_block(struct core *c, struct stream *s, int32_t node, uint64_t hash)
{
	const int32_t p0 = s->n_chain * c->lim.block_size, p1 = p0 + c->lim.block_size;
	struct cohort_err err;

	if (c->policy->keeps_last && s->n_cached == p1)
		return false;
	if (c->m.seq_rm(c->m.self, s->slot, p0, p1, &err))
		return end_chain(s);
	if (c->m.seq_cp(c->m.self, core_node_seq(c, node), s->slot, p0, p1, NULL)) {
		/* Its own are gone: it goes on from there. */
		s->n_cached = smaller(s->n_cached, p0);
		c->m.seq_rm(c->m.self, s->slot, p0, -1, NULL);
		stream_enter(c, s, STREAM_PREFILLS);
		room_drop_rows(c, s);
		return end_chain(s);
	}
	step_chain(c, s, node, hash);
	return true;
}

/* The next block of the chain, which is whole; false: it cannot be shared, or not yet. */
static bool share_block(struct core *c, struct stream *s)
{
	const int32_t p0 = s->n_chain * c->lim.block_size, p1 = p0 + c->lim.block_size;
	const uint64_t hash = next_hash(c, s);
	int32_t node = prefix_find(c->prefix, &s->request->root, s->node, hash, s->known + p0);
	const bool is_new = node < 0, fills = policy_fills(c, p1, s->n_cached);

	if (!is_new && c->policy->trades)
		return trade_block(c, s, node, hash);
	if (is_new)
		node = add_node(c, s, hash, s->known + p0, fills);
	if (node < 0)
		return end_chain(s);
	if (fills && (is_new || (core_node_seq(c, node) < 0 && give_id(c, s, node))) &&
			c->m.seq_cp(c->m.self, s->slot, core_node_seq(c, node), policy_from(c, p0), p1, NULL)) {
		if (is_new)
			prefix_drop(c->prefix, node);
		else
			prefix_take_id(c->prefix, node); /* it may have children */
		return end_chain(s);
	}
	step_chain(c, s, node, hash);
	return true;
}

static bool has_block(const struct core *c, const struct stream *s)
{
	return room_shares(c, s) && (s->n_chain + 1) * c->lim.block_size <= s->n_cached;
}

void room_expect(const struct core *c, struct stream *s)
{
	if (has_block(c, s))
		prefix_expect(c->prefix, s->node, next_hash(c, s));
}

void room_grow(struct core *c, struct stream *s)
{
	/* Within a block nothing changes. */
	if (whole_blocks(c, s->n_cached) == whole_blocks(c, s->n_counted) &&
			ceil_blocks(c, s->n_cached) == ceil_blocks(c, s->n_counted))
		return;
	while (has_block(c, s) && share_block(c, s))
		;
	room_count(c, s);
}

/* n tokens after the stream's chain as the tail of its session; -1: there is no room. */
static int32_t set_tail(struct core *c, const struct stream *s, int32_t n)
{
	const struct cohort_request *r = s->request;
	const cohort_token *tokens = s->known + s->n_chain * c->lim.block_size;
	cohort_seq old;
	const int32_t tail = prefix_tail_set(c->prefix, &r->root, r->p.session, s->node, tokens, n, &old);

	core_empty(c, old);
	return tail;
}

void room_keep_tail(struct core *c, struct stream *s)
{
	const int32_t p0 = s->n_chain * c->lim.block_size, n = s->n_cached - p0;

	if (!s->request->p.session || !room_shares(c, s) || n <= 0 || n >= c->lim.block_size)
		return;
	int32_t tail = set_tail(c, s, n);
	if (tail < 0 && room_evict(c))
		tail = set_tail(c, s, n);
	if (tail >= 0 && c->m.seq_cp(c->m.self, s->slot, core_node_seq(c, tail), policy_from(c, p0), s->n_cached, NULL))
		prefix_drop(c->prefix, tail);
}
