/* Cached prompts as bytes and back, forgetting them, and the tokens of slots. docs/state-format.md has the format.
 *
 * Cells are held block by block, by an id for each (prefix.c). The scratch, a sequence id of no slot or block, has them
 * as one sequence while they are saved; what is loaded becomes the scratch first, and its blocks are then shared with
 * ids of their own. No cell is copied within the cache.
 *
 * Invariants
 *  1. The scratch is empty before and behind every call.
 *  2. Loading changes nothing that is cached until the bytes were found to be good and to have room; from there on it
 *     evicts what is not in use, and takes back what it added when it cannot go on.
 *  3. A cached block that is there already is kept: what was loaded of it is dropped. So no cells in use change.
 * Refuses to know: how cells look, and what is wrong with a state (cohort_state_restore does). */
#include "engine/cache.h"
#include "engine/policy.h"
#include "engine/room.h"

#include "base/mem.h"
#include "base/sum.h"

#include <string.h>

static const char magic[] = "COHCACHE";

enum {
	VERSION = 1,
	AT_VERSION = 8,
	AT_TOKENS = 12, /* how many */
	AT_BYTES = 16, /* of all */
	AT_STATE_SUM = 24, /* the last bytes of the state: the two belong together */
	HEAD_BYTES = 32,
	TOKEN_BYTES = 4,
	SUM_BYTES = 8,
};

static struct prefix_root root_of(const struct cohort_cache_key *key)
{
	return (struct prefix_root){key->salt, key->adapter, key->adapter ? key->adapter_scale : 0};
}

static struct prefix_found find(struct core *c, const struct cohort_cache_key *key)
{
	const struct prefix_root root = root_of(key);

	return prefix_follow(c->prefix,
			&(struct prefix_key){&root, key->session, key->tokens, smaller(key->n_tokens, c->lim.n_pos_max),
					NULL, 0},
			c->path);
}

/* ---- Saving ---- */

static void put(uint8_t *p, size_t n, uint64_t v)
{
	for (size_t i = 0; i < n; i++, v >>= 8)
		p[i] = (uint8_t)v;
}

/* Bytes before the state. */
static size_t front_bytes(int32_t n_tokens)
{
	return HEAD_BYTES + (size_t)n_tokens * TOKEN_BYTES + SUM_BYTES;
}

static void write_front(uint8_t *p, const cohort_token *tokens, int32_t n_tokens, size_t n_bytes)
{
	const size_t n_front = front_bytes(n_tokens);

	memcpy(p, magic, AT_VERSION);
	put(p + AT_VERSION, 4, VERSION);
	put(p + AT_TOKENS, 4, (uint64_t)n_tokens);
	put(p + AT_BYTES, 8, n_bytes);
	memcpy(p + AT_STATE_SUM, p + n_bytes - SUM_BYTES, SUM_BYTES);
	for (int32_t i = 0; i < n_tokens; i++)
		put(p + HEAD_BYTES + (size_t)i * TOKEN_BYTES, TOKEN_BYTES, (uint64_t)tokens[i]);
	put(p + n_front - SUM_BYTES, SUM_BYTES, sum_bytes(0, p, n_front - SUM_BYTES));
}

/* What the scratch has. */
static enum cohort_status write_all(struct core *c, const cohort_token *tokens, int32_t n_tokens, void **bytes,
		size_t *n_bytes, struct cohort_err *err)
{
	const size_t n_state = c->m.state_size(c->m.self, c->lim.scratch), n_front = front_bytes(n_tokens);
	size_t n;

	uint8_t *p = n_state && size_add(n_state, n_front, &n) ? mem_alloc(n, 1) : NULL;
	if (!p)
		return err_set(err, COHORT_E_MEMORY, "out of memory for %d tokens to be saved", n_tokens);
	const enum cohort_status st = c->m.state_save(c->m.self, c->lim.scratch, p + n_front, n_state, err);
	if (st) {
		mem_free(p);
		return st;
	}
	write_front(p, tokens, n_tokens, n);
	*bytes = p;
	*n_bytes = n;
	return COHORT_OK;
}

enum cohort_status cache_save(struct core *c, const struct cohort_cache_key *key, void **bytes, size_t *n_bytes,
		int32_t *n_saved, struct cohort_err *err)
{
	struct prefix_found f = find(c, key);
	enum cohort_status st = COHORT_OK;

	*bytes = NULL;
	*n_bytes = 0;
	*n_saved = 0;
	c->policy->trim(c, &f);
	const int32_t n = c->policy->copy(c, &f, c->lim.scratch);
	if (n > 0)
		st = write_all(c, key->tokens, n, bytes, n_bytes, err);
	core_empty(c, c->lim.scratch);
	if (!st)
		*n_saved = n;
	return st;
}

/* ---- Loading ---- */

static enum cohort_status check_tokens(const struct core *c, const struct cache_part *part, struct cohort_err *err)
{
	for (int32_t i = 0; i < part->n_tokens; i++) {
		const uint32_t token = load_u32(part->tokens + (size_t)i * TOKEN_BYTES);
		if (token >= (uint32_t)c->lim.n_vocab)
			return err_at(err, COHORT_E_FORMAT, HEAD_BYTES + (uint64_t)i * TOKEN_BYTES,
					"token %d of the saved prompt is %u, outside the vocabulary of %d", i, token,
					c->lim.n_vocab);
	}
	if (part->n_tokens > c->lim.n_pos_max)
		return err_rule(err, COHORT_E_LIMIT, "context", -1, -1, c->lim.n_pos_max, part->n_tokens,
				"the saved prompt has %d tokens; there is room for %d", part->n_tokens,
				c->lim.n_pos_max);
	return COHORT_OK;
}

enum cohort_status cache_read(const struct core *c, const void *bytes, size_t n_bytes, struct cache_part *part,
		struct cohort_err *err)
{
	const uint8_t *p = bytes;

	if (n_bytes < AT_VERSION || memcmp(p, magic, AT_VERSION) != 0)
		return err_at(err, COHORT_E_FORMAT, 0, "not a saved prompt");
	if (n_bytes < HEAD_BYTES + SUM_BYTES)
		return err_at(err, COHORT_E_FORMAT, n_bytes, "the saved prompt ends within its header");
	if (load_u32(p + AT_VERSION) != VERSION)
		return err_set(err, COHORT_E_UNSUPPORTED,
				"the saved prompt has format version %u, this library reads version %d",
				load_u32(p + AT_VERSION), VERSION);
	if (load_u64(p + AT_BYTES) != n_bytes)
		return err_at(err, COHORT_E_FORMAT, AT_BYTES, "the saved prompt should have %llu bytes and has %zu",
				(unsigned long long)load_u64(p + AT_BYTES), n_bytes);
	const uint32_t n_tokens = load_u32(p + AT_TOKENS);
	if (n_tokens < 1 || n_tokens > INT32_MAX || n_tokens > (n_bytes - HEAD_BYTES - SUM_BYTES) / TOKEN_BYTES)
		return err_at(err, COHORT_E_FORMAT, AT_TOKENS, "a saved prompt of %zu bytes cannot have %u tokens",
				n_bytes, n_tokens);
	const size_t n_front = front_bytes((int32_t)n_tokens);
	if (sum_bytes(0, p, n_front - SUM_BYTES) != load_u64(p + n_front - SUM_BYTES))
		return err_at(err, COHORT_E_FORMAT, n_front - SUM_BYTES,
				"the checksum of the saved prompt's tokens is wrong: they were damaged");
	if (n_bytes - n_front < SUM_BYTES || memcmp(p + AT_STATE_SUM, p + n_bytes - SUM_BYTES, SUM_BYTES) != 0)
		return err_at(err, COHORT_E_FORMAT, AT_STATE_SUM, "the saved prompt's state is not its own");
	*part = (struct cache_part){p + HEAD_BYTES, (int32_t)n_tokens, p + n_front, n_bytes - n_front};
	return check_tokens(c, part, err);
}

static enum cohort_status no_room(const struct core *c, int32_t n_need, struct cohort_err *err)
{
	const int32_t n_spare = c->lim.n_blocks ? room_spare(c) : 0;
	return err_rule(err, COHORT_NO_ROOM, "room", -1, -1, n_spare, n_need,
			"a saved prompt needs %d blocks; %d are not in use", n_need, n_spare);
}

/* The scratch becomes what was saved. */
static enum cohort_status restore(struct core *c, const struct cache_part *part, struct cohort_err *err)
{
	const int32_t n_need = (part->n_tokens + c->lim.block_size - 1) / c->lim.block_size;

	if (c->lim.n_blocks && n_need > room_spare(c))
		return no_room(c, n_need, err);
	enum cohort_status st = c->m.state_restore(c->m.self, c->lim.scratch, part->state, part->n_state, err);
	if (st == COHORT_NO_ROOM && c->lim.n_blocks) {
		/* Nothing else is wrong with it. */
		room_free(c, n_need);
		st = c->m.state_restore(c->m.self, c->lim.scratch, part->state, part->n_state, err);
	}
	if (st == COHORT_E_ARG) /* the id is right */
		return err_set(err, COHORT_E_FORMAT, "the saved prompt's state is of several sequences");
	if (st || c->m.seq_is_whole(c->m.self, c->lim.scratch, part->n_tokens))
		return st;
	return err_set(err, COHORT_E_FORMAT, "the saved prompt has %d tokens, and its state other cells than theirs",
			part->n_tokens);
}

/* Makes a node with an id possible. */
static bool make_room(struct core *c)
{
	while (!prefix_has_room(c->prefix) && room_evict(c))
		;
	return prefix_has_room(c->prefix);
}

/* What was put into the cache so far: c->path[0 .. n), of which those from n_old on were not there. The last is pinned.
 */
struct put {
	struct prefix_root root;
	uint64_t hash;
	int32_t n, n_old;
	bool filled; /* the last was there without a state, and has one now */
};

static int32_t last_of(const struct core *c, const struct put *u)
{
	return u->n ? c->path[u->n - 1] : -1;
}

static bool from_scratch(struct core *c, int32_t node, int32_t p0, int32_t p1)
{
	return !c->m.seq_cp(c->m.self, c->lim.scratch, core_node_seq(c, node), policy_from(c, p0), p1, NULL);
}

/* The next whole block; with_cells: it is to have an id. */
static bool put_block(struct core *c, struct put *u, const cohort_token *tokens, bool with_cells)
{
	const int32_t size = c->lim.block_size, parent = last_of(c, u);
	const uint64_t hash = prefix_hash(u->hash, tokens, size);
	int32_t node = prefix_find(c->prefix, &u->root, parent, hash, tokens);
	const bool is_new = node < 0;

	if (is_new) {
		if (!make_room(c))
			return false;
		node = prefix_add(c->prefix, &u->root, parent, hash, tokens, with_cells);
	}
	prefix_pin(c->prefix, node);
	if (parent >= 0)
		prefix_unpin(c->prefix, parent);
	c->path[u->n++] = node;
	u->n_old += !is_new;
	u->hash = hash;
	if (!is_new && with_cells && core_node_seq(c, node) < 0 && make_room(c))
		u->filled = prefix_give_id(c->prefix, node);
	if (!with_cells || (!is_new && !u->filled))
		return !with_cells || core_node_seq(c, node) >= 0;
	return from_scratch(c, node, (u->n - 1) * size, u->n * size);
}

static bool put_tail(struct core *c, const struct put *u, uint64_t session, const cohort_token *tokens, int32_t n)
{
	const int32_t p0 = u->n * c->lim.block_size;
	cohort_seq old;

	if (!make_room(c))
		return false;
	const int32_t tail = prefix_tail_set(c->prefix, &u->root, session, last_of(c, u), tokens, n, &old);
	core_empty(c, old);
	if (from_scratch(c, tail, p0, p0 + n))
		return true;
	core_empty(c, core_node_seq(c, tail));
	prefix_drop(c->prefix, tail);
	return false;
}

static void take_back(struct core *c, struct put *u)
{
	if (u->filled) {
		core_empty(c, core_node_seq(c, last_of(c, u)));
		prefix_take_id(c->prefix, last_of(c, u));
	}
	if (u->n > 0)
		prefix_unpin(c->prefix, last_of(c, u));
	for (; u->n > u->n_old; u->n--) {
		core_empty(c, core_node_seq(c, last_of(c, u)));
		prefix_drop(c->prefix, last_of(c, u));
	}
}

enum cohort_status cache_load(struct core *c, const struct cohort_cache_key *key, const struct cache_part *part,
		int32_t *n_tokens, struct cohort_err *err)
{
	const int32_t size = c->lim.block_size, n_whole = part->n_tokens / size, n_tail = part->n_tokens % size;
	struct put u = {.root = root_of(key)};
	enum cohort_status st = restore(c, part, err);

	*n_tokens = 0;
	u.hash = prefix_hash_root(&u.root);
	/* A state in the middle of a block is of use to a session only. */
	const bool any = policy_fills(c, n_whole * size, part->n_tokens) || key->session;
	bool ok = !st && any;
	for (int32_t i = 0; ok && i < n_whole; i++)
		ok = put_block(c, &u, key->tokens + (size_t)i * (size_t)size,
				policy_fills(c, (i + 1) * size, part->n_tokens));
	if (ok && n_tail > 0 && key->session)
		ok = put_tail(c, &u, key->session, key->tokens + (size_t)n_whole * (size_t)size, n_tail);
	if (ok) {
		*n_tokens = key->session ? part->n_tokens : n_whole * size;
		if (u.n > 0)
			prefix_unpin(c->prefix, last_of(c, &u));
	} else {
		take_back(c, &u);
	}
	core_empty(c, c->lim.scratch);
	return st || ok || !any ? st : no_room(c, n_whole + (n_tail > 0), err);
}

/* ---- Forgetting ---- */

int32_t cache_drop(struct core *c, const struct cohort_cache_key *key)
{
	struct prefix_found f = find(c, key);
	int32_t n = 0;

	if (f.tail >= 0) { /* pinned only while it is copied from */
		n += prefix_node_get(c->prefix, f.tail)->n_tokens;
		core_empty(c, core_node_seq(c, f.tail));
		prefix_drop(c->prefix, f.tail);
	}
	for (; f.n_path > 0 && prefix_is_loose(c->prefix, c->path[f.n_path - 1]); f.n_path--) {
		n += c->lim.block_size;
		core_empty(c, core_node_seq(c, c->path[f.n_path - 1]));
		prefix_drop(c->prefix, c->path[f.n_path - 1]);
	}
	return n;
}

/* ---- Slots ---- */

static cohort_token *kept_tokens(const struct core *c, cohort_seq slot)
{
	return c->kept_tokens + (size_t)slot * (size_t)c->lim.n_pos_max;
}

void cache_keep_tokens(struct core *c, const struct stream *s)
{
	struct slot_kept *k = &c->kept[s->slot];

	*k = (struct slot_kept){s->n_known, s->request->root, s->request->p.session};
	memcpy(kept_tokens(c, s->slot), s->known, (size_t)s->n_known * sizeof *s->known);
}

enum cohort_status cache_slot(struct core *c, cohort_seq slot, cohort_token *tokens, size_t n_max,
		struct cohort_cache_key *key, struct cohort_err *err)
{
	const struct stream *s = c->slots[slot];
	struct slot_kept k = {.n = 0};
	const cohort_token *from = NULL;

	if (s) {
		k = (struct slot_kept){s->n_known, s->request->root, s->request->p.session};
		from = s->known;
	} else if (c->kept) {
		k = c->kept[slot];
		from = kept_tokens(c, slot);
	}
	if ((size_t)k.n > n_max)
		return err_rule(err, COHORT_E_LIMIT, "n_max", -1, slot, (int64_t)n_max, k.n,
				"slot %d has %d tokens; there is room for %zu", slot, k.n, n_max);
	if (k.n > 0)
		memcpy(tokens, from, (size_t)k.n * sizeof *tokens);
	*key = (struct cohort_cache_key){
			.tokens = tokens,
			.n_tokens = k.n,
			.salt = k.root.salt,
			.session = k.session,
			.adapter = k.root.adapter,
			.adapter_scale = k.root.adapter ? k.root.scale : 1.0f,
	};
	return COHORT_OK;
}
