/* The books of cached prompts against lists that are searched from end to end, over random operations; then the order
 * in which blocks go, tails, hashes and memory one by one.
 *
 * Faults planted in src/engine/prefix.c, each seen to turn this red: not comparing the tokens, the parent, the root,
 * an adapter or its scale; comparing the scale without an adapter; comparing neither session nor root of a tail
 * (leaving out one of them alone stays green: no two sessions of a root are known whose hashes meet); taking a tail
 * for a block or a block for a tail; passing a pin or its end on to nobody; evicting the most recently used, or
 * stopping at a node without an id; a new node that uses nothing above it, or its parent only; a list whose links go
 * one way; a node that gets its id or loses it while pinned and is not counted; an id that is taken and given to
 * nobody; a tail that goes while pinned, or stays in the table when it is replaced or evicted; an id that is not given
 * back; keeping the caller's tokens instead of a copy; half of a product as hash, or one that forgets the number of
 * tokens; an allocation that is not checked. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/rng.h"
#include "engine_books.h"
#include "effort.h"

enum { NODES_MAX = 24, BLOCK_MAX = 4, N_SESSIONS = 3 };

/* Which of them are the same, said independently: a scale counts only with an adapter. */
static const char adapter_a, adapter_b;
static const struct {
	struct prefix_root root;
	int kind;
} roots[] = {
		{{1, NULL, 1.0f}, 0},
		{{1, NULL, 0.5f}, 0},
		{{2, NULL, 1.0f}, 1},
		{{1, &adapter_a, 1.0f}, 2},
		{{1, &adapter_a, 0.5f}, 3},
		{{1, &adapter_b, 1.0f}, 4},
};
enum { N_ROOTS = sizeof roots / sizeof *roots };

struct entry {
	bool live, tail, current; /* current: the tail is its session's */
	int kind;
	uint64_t session, hash, used;
	int32_t parent, n_tokens, n_pins;
	cohort_token tokens[BLOCK_MAX];
	cohort_seq seq;
};

/* HASH_TAIL: blocks have hashes that tails have, too. */
enum hashing { HASH_GOOD, HASH_POOR, HASH_TAIL, HASH_NONE };

struct counts {
	size_t n_found, n_missed, n_added, n_full, n_given, n_not_given, n_taken, n_dropped, n_evicted, n_none_evicted,
			n_went_along;
	size_t n_tails, n_replaced, n_left_pinned, n_tails_evicted, n_no_tail, n_got;
};

struct world {
	struct prefix *p;
	struct prefix_limits lim;
	enum hashing hashing;
	struct rng r;
	uint64_t now;
	struct entry e[NODES_MAX]; /* under the number that the books gave them */
	struct counts c;
};

static uint32_t below(struct world *w, uint32_t n)
{
	return rng_u32(&w->r) % n;
}

/* ---- The lists --------------------------------------------------------------------------------------------------- */

static int32_t n_live(const struct world *w)
{
	int32_t n = 0;
	for (int32_t i = 0; i < w->lim.n_nodes_max; i++)
		n += w->e[i].live;
	return n;
}

static int32_t n_held(const struct world *w)
{
	int32_t n = 0;
	for (int32_t i = 0; i < w->lim.n_nodes_max; i++)
		n += w->e[i].live && w->e[i].seq >= 0;
	return n;
}

static bool is_above(const struct world *w, int32_t i, int32_t of)
{
	while (of >= 0 && of != i)
		of = w->e[of].parent;
	return of == i;
}

static bool is_pinned(const struct world *w, int32_t i)
{
	for (int32_t k = 0; k < w->lim.n_nodes_max; k++)
		if (w->e[k].live && w->e[k].n_pins > 0 && is_above(w, i, k))
			return true;
	return false;
}

static bool is_parent(const struct world *w, int32_t i)
{
	for (int32_t k = 0; k < w->lim.n_nodes_max; k++)
		if (w->e[k].live && w->e[k].parent == i)
			return true;
	return false;
}

static void use(struct world *w, int32_t i)
{
	for (w->now++; i >= 0; i = w->e[i].parent)
		w->e[i].used = w->now;
}

static int32_t find_block(const struct world *w, int kind, int32_t parent, const cohort_token *tokens)
{
	const size_t n_bytes = (size_t)w->lim.block_size * sizeof *tokens;

	for (int32_t i = 0; i < w->lim.n_nodes_max; i++)
		if (w->e[i].live && !w->e[i].tail && w->e[i].kind == kind && w->e[i].parent == parent &&
				!memcmp(w->e[i].tokens, tokens, n_bytes))
			return i;
	return -1;
}

static int32_t find_tail(const struct world *w, int kind, uint64_t session)
{
	for (int32_t i = 0; i < w->lim.n_nodes_max; i++)
		if (w->e[i].live && w->e[i].tail && w->e[i].current && w->e[i].kind == kind &&
				w->e[i].session == session)
			return i;
	return -1;
}

/* The least recently used that can go. Those that one use touched lie in one chain, so only one of them is its end. */
static int32_t next_to_go(const struct world *w)
{
	int32_t best = -1;

	for (int32_t i = 0; i < w->lim.n_nodes_max; i++)
		if (w->e[i].live && !is_parent(w, i) && !is_pinned(w, i) &&
				(best < 0 || w->e[i].used < w->e[best].used))
			best = i;
	return best;
}

/* A node that the books say they made. */
static void enter(struct world *w, int32_t i, const struct entry *e)
{
	assert_true(i >= 0 && i < w->lim.n_nodes_max);
	assert_false(w->e[i].live);
	w->e[i] = *e;
	w->e[i].live = true;
	w->e[i].seq = prefix_node_get(w->p, i)->seq;
	use(w, i);
}

/* ---- Comparing --------------------------------------------------------------------------------------------------- */

static void check_counts(const struct world *w)
{
	int32_t n_pinned = 0;

	for (int32_t i = 0; i < w->lim.n_nodes_max; i++)
		n_pinned += w->e[i].live && w->e[i].seq >= 0 && is_pinned(w, i);
	assert_int_equal(prefix_n_held(w->p), n_held(w));
	assert_int_equal(prefix_n_pinned(w->p), n_pinned);
}

static void check_nodes(const struct world *w)
{
	for (int32_t i = 0; i < w->lim.n_nodes_max; i++) {
		const struct entry *e = &w->e[i];
		int32_t n_before = 0, n_unpinned = 0;
		if (!e->live)
			continue;
		const struct prefix_node *n = prefix_node_get(w->p, i);
		for (int32_t k = e->parent; k >= 0; k = w->e[k].parent)
			n_before += w->lim.block_size;
		for (int32_t k = i; k >= 0; k = w->e[k].parent)
			n_unpinned += w->e[k].seq >= 0 && !is_pinned(w, k);
		assert_int_equal(n->parent, e->parent);
		assert_int_equal(n->n_before, n_before);
		assert_int_equal(n->n_tokens, e->n_tokens);
		assert_memory_equal(n->tokens, e->tokens, (size_t)e->n_tokens * sizeof *e->tokens);
		assert_int_equal(n->seq, e->seq);
		assert_int_equal(prefix_n_unpinned(w->p, i), n_unpinned);
		if (e->seq < 0)
			continue;
		assert_in_range(e->seq, w->lim.first_id, w->lim.first_id + w->lim.n_ids - 1);
		for (int32_t k = 0; k < i; k++)
			assert_false(w->e[k].live && w->e[k].seq == e->seq);
	}
	assert_true(prefix_consistent(w->p));
}

/* ---- Operations -------------------------------------------------------------------------------------------------- */

static int32_t any_node(struct world *w)
{
	int32_t n = n_live(w), i = 0;

	if (n == 0)
		return -1;
	for (int32_t k = (int32_t)below(w, (uint32_t)n);; i++)
		if (w->e[i].live && k-- == 0)
			return i;
}

static int32_t any_block(struct world *w)
{
	int32_t i = below(w, 5) ? any_node(w) : -1;
	return i >= 0 && w->e[i].tail ? -1 : i;
}

/* A block behind some node or none, of that node's root. */
static const struct prefix_root *any_place(struct world *w, struct entry *e)
{
	size_t k = below(w, N_ROOTS);

	*e = (struct entry){.n_tokens = w->lim.block_size};
	e->parent = any_block(w);
	while (e->parent >= 0 && roots[k].kind != w->e[e->parent].kind)
		k = below(w, N_ROOTS);
	e->kind = roots[k].kind;
	for (int32_t i = 0; i < e->n_tokens; i++)
		e->tokens[i] = (cohort_token)below(w, w->lim.block_size > 2 ? 2 : 3);
	uint64_t before = e->parent < 0 ? prefix_hash_root(&roots[k].root) : w->e[e->parent].hash;
	e->hash = prefix_hash(before, e->tokens, e->n_tokens);
	if (w->hashing == HASH_POOR)
		e->hash %= 3;
	else if (w->hashing == HASH_TAIL)
		e->hash = prefix_hash_session(&roots[k].root, (uint64_t)e->tokens[0]);
	else if (w->hashing == HASH_NONE)
		e->hash = 7;
	return &roots[k].root;
}

static void do_find(struct world *w)
{
	struct entry e;
	const struct prefix_root *root = any_place(w, &e);
	int32_t want = find_block(w, e.kind, e.parent, e.tokens);

	assert_int_equal(prefix_find(w->p, root, e.parent, e.hash, e.tokens), want);
	w->c.n_found += want >= 0;
	w->c.n_missed += want < 0;
}

static void do_add(struct world *w)
{
	struct entry e;
	const struct prefix_root *root = any_place(w, &e);
	const bool with_id = below(w, 4) > 0;
	cohort_token tokens[BLOCK_MAX];

	if (find_block(w, e.kind, e.parent, e.tokens) >= 0)
		return;
	memcpy(tokens, e.tokens, sizeof tokens);
	bool room = n_live(w) < w->lim.n_nodes_max && (!with_id || n_held(w) < w->lim.n_ids);
	int32_t i = prefix_add(w->p, root, e.parent, e.hash, tokens, with_id);
	memset(tokens, 0x55, sizeof tokens);
	assert_int_equal(i >= 0, room);
	if (i < 0) {
		w->c.n_full++;
		return;
	}
	enter(w, i, &e);
	assert_int_equal(w->e[i].seq >= 0, with_id);
	w->c.n_added++;
	if (below(w, 16) == 0) {
		prefix_drop(w->p, i);
		w->e[i].live = false;
		w->c.n_dropped++;
	}
}

static void do_give_id(struct world *w)
{
	int32_t i = any_node(w);

	if (i < 0 || w->e[i].seq >= 0)
		return;
	bool room = n_held(w) < w->lim.n_ids;
	assert_int_equal(prefix_give_id(w->p, i), room);
	w->e[i].seq = prefix_node_get(w->p, i)->seq;
	assert_int_equal(w->e[i].seq >= 0, room);
	w->c.n_given += room;
	w->c.n_not_given += !room;
}

static void do_take_id(struct world *w)
{
	int32_t i = any_node(w);

	/* A tail without its cells is of no use to anybody. */
	if (i < 0 || w->e[i].seq < 0 || w->e[i].tail)
		return;
	prefix_take_id(w->p, i);
	w->e[i].seq = -1;
	w->c.n_taken++;
}

static void do_pin(struct world *w)
{
	int32_t i = any_node(w);

	if (i < 0)
		return;
	prefix_pin(w->p, i);
	w->e[i].n_pins++;
}

static void unpin(struct world *w, int32_t i)
{
	prefix_unpin(w->p, i);
	w->e[i].n_pins--;
	use(w, i);
}

static void do_unpin(struct world *w)
{
	const int32_t n = w->lim.n_nodes_max, from = (int32_t)below(w, (uint32_t)n);

	for (int32_t k = 0; k < n; k++) {
		int32_t i = (from + k) % n;
		if (w->e[i].live && w->e[i].n_pins > 0) {
			unpin(w, i);
			return;
		}
	}
}

/* False: nothing was left to go. */
static bool do_evict(struct world *w)
{
	cohort_seq got = -2, want = -1;

	while (want < 0) {
		int32_t i = next_to_go(w);
		if (i < 0)
			break;
		want = w->e[i].seq;
		w->e[i].live = false;
		w->c.n_went_along += want < 0;
		w->c.n_tails_evicted += w->e[i].tail;
	}
	assert_int_equal(prefix_evict(w->p, &got), want >= 0);
	assert_int_equal(got, want);
	w->c.n_evicted += want >= 0;
	w->c.n_none_evicted += want < 0;
	return want >= 0;
}

static void do_tail_set(struct world *w)
{
	struct entry e;
	const struct prefix_root *root = any_place(w, &e);
	cohort_seq old = -2, want_old = -1;

	e.tail = e.current = true;
	e.session = below(w, N_SESSIONS);
	e.n_tokens = 1 + (int32_t)below(w, (uint32_t)w->lim.block_size - 1);
	int32_t before = find_tail(w, e.kind, e.session);
	if (before >= 0 && w->e[before].n_pins > 0) {
		w->e[before].current = false;
		w->c.n_left_pinned++;
	} else if (before >= 0) {
		w->e[before].live = false;
		want_old = w->e[before].seq;
		w->c.n_replaced++;
	}
	bool room = n_live(w) < w->lim.n_nodes_max && n_held(w) < w->lim.n_ids;
	int32_t i = prefix_tail_set(w->p, root, e.session, e.parent, e.tokens, e.n_tokens, &old);
	assert_int_equal(old, want_old);
	assert_int_equal(i >= 0, room);
	if (i >= 0)
		enter(w, i, &e);
	w->c.n_tails += i >= 0;
	w->c.n_no_tail += i < 0;
}

static void do_tail_get(struct world *w)
{
	size_t k = below(w, N_ROOTS);
	uint64_t session = below(w, N_SESSIONS);
	int32_t want = find_tail(w, roots[k].kind, session);

	assert_int_equal(prefix_tail_get(w->p, &roots[k].root, session), want);
	w->c.n_got += want >= 0;
}

static void step(struct world *w)
{
	uint32_t k = below(w, 100);

	if (k < 15)
		do_find(w);
	else if (k < 43)
		do_add(w);
	else if (k < 48)
		do_give_id(w);
	else if (k < 49)
		do_take_id(w);
	else if (k < 58)
		do_pin(w);
	else if (k < 72)
		do_unpin(w);
	else if (k < 85)
		do_evict(w);
	else if (k < 94)
		do_tail_set(w);
	else
		do_tail_get(w);
}

static void run(struct world *w, int n_steps)
{
	w->p = prefix_open(&w->lim);
	assert_non_null(w->p);
	mem_fail_all(true); /* all memory was taken */
	for (int i = 0; i < n_steps; i++) {
		step(w);
		check_counts(w);
		check_nodes(w);
	}
	/* What is pinned ends, then all goes, in order. */
	for (int32_t i = 0; i < w->lim.n_nodes_max; i++)
		while (w->e[i].live && w->e[i].n_pins > 0)
			unpin(w, i);
	check_nodes(w);
	while (do_evict(w))
		check_nodes(w);
	check_nodes(w);
	assert_int_equal(n_live(w), 0);
	mem_fail_all(false);
	prefix_free(w->p);
}

/* A test that fails half-way leaves the others their memory. */
static int arm_nothing(void **state)
{
	(void)state;
	mem_fail_all(false);
	mem_fail_after(-1);
	return 0;
}

static void test_random_operations(void **state)
{
	static const struct prefix_limits lims[] = {{2, 0, 3, 4}, {2, 5, 6, 10}, {4, 1, 8, 8}, {4, 100, 14, NODES_MAX}};
	const int n_operations = effort(30000);
	struct counts sum = {0};
	(void)state;

	for (int hashing = HASH_GOOD; hashing <= HASH_NONE; hashing++) {
		for (size_t i = 0; i < sizeof lims / sizeof *lims; i++) {
			struct world w = {.lim = lims[i], .hashing = (enum hashing)hashing};
			rng_init(&w.r, 7, (uint64_t)hashing * 8 + i);
			run(&w, n_operations);
			for (size_t k = 0; k < sizeof sum / sizeof(size_t); k++)
				((size_t *)&sum)[k] += ((size_t *)&w.c)[k];
		}
	}
	/* Each thing that can happen did so often. */
	for (size_t k = 0; k < sizeof sum / sizeof(size_t); k++)
		assert_true(((size_t *)&sum)[k] > (size_t)n_operations / 60);
}

/* ---- One by one -------------------------------------------------------------------------------------------------- */

static const struct prefix_root plain = {.salt = 1};

/* A block of one token. */
static int32_t add(struct prefix *p, int32_t parent, cohort_token token)
{
	int32_t i = prefix_add(p, &plain, parent, prefix_hash(0, &token, 1), &token, true);
	assert_true(i >= 0);
	return i;
}

static void evict_expect(struct prefix *p, cohort_seq want)
{
	cohort_seq seq;

	assert_true(prefix_evict(p, &seq));
	assert_int_equal(seq, want);
}

/* Ends of chains go first, the least recently used before the others, and what is pinned below stays with all above. */
static void test_prefix_eviction_order(void **state)
{
	struct prefix *p = prefix_open(&(struct prefix_limits){1, 0, 8, 8});
	cohort_seq seq[6];
	(void)state;

	assert_non_null(p);
	int32_t a = add(p, -1, 1), b = add(p, a, 2), c = add(p, b, 3), d = add(p, a, 4), e = add(p, -1, 5),
		f = add(p, e, 6);
	const int32_t nodes[] = {a, b, c, d, e, f};
	for (int i = 0; i < 6; i++)
		seq[i] = prefix_node_get(p, nodes[i])->seq;
	prefix_pin(p, c);
	prefix_pin(p, b);
	prefix_pin(p, f);
	assert_int_equal(prefix_n_pinned(p), 5);
	assert_int_equal(prefix_n_unpinned(p, d), 1);
	prefix_unpin(p, f);
	prefix_unpin(p, c);
	assert_int_equal(prefix_n_pinned(p), 2);
	assert_int_equal(prefix_n_unpinned(p, c), 1);
	evict_expect(p, seq[3]); /* d was never used again */
	evict_expect(p, seq[5]); /* f was, before c */
	evict_expect(p, seq[4]); /* e was used whenever f was */
	evict_expect(p, seq[2]);
	assert_false(prefix_evict(p, &seq[0]));
	assert_int_equal(seq[0], -1);
	prefix_unpin(p, b);
	evict_expect(p, seq[1]);
	assert_int_equal(prefix_n_held(p), 1);
	prefix_free(p);
}

/* A session has one tail for each root; one that is pinned stays without being the session's. */
static void test_session_has_one_tail(void **state)
{
	struct prefix *p = prefix_open(&(struct prefix_limits){4, 0, 2, 3});
	const cohort_token tokens[4] = {1, 2, 3, 4};
	struct prefix_root other = {.salt = 2};
	cohort_seq old, seq;
	(void)state;

	assert_non_null(p);
	int32_t a = prefix_tail_set(p, &plain, 9, -1, tokens, 3, &old);
	int32_t b = prefix_tail_set(p, &other, 9, -1, tokens, 2, &old);
	assert_int_equal(old, -1);
	assert_int_equal(prefix_tail_get(p, &plain, 9), a);
	assert_int_equal(prefix_tail_get(p, &other, 9), b);
	assert_int_equal(prefix_tail_get(p, &plain, 8), -1);
	/* No id is left, but the old tail's. */
	seq = prefix_node_get(p, a)->seq;
	a = prefix_tail_set(p, &plain, 9, -1, tokens + 1, 1, &old);
	assert_int_equal(old, seq);
	assert_int_equal(prefix_node_get(p, a)->seq, seq);
	assert_int_equal(prefix_node_get(p, a)->tokens[0], 2);
	prefix_pin(p, a);
	assert_int_equal(prefix_tail_set(p, &plain, 9, -1, tokens, 3, &old), -1);
	assert_int_equal(old, -1);
	assert_int_equal(prefix_tail_get(p, &plain, 9), -1);
	assert_int_equal(prefix_node_get(p, a)->seq, seq);
	prefix_unpin(p, a);
	assert_true(prefix_consistent(p));
	assert_true(prefix_evict(p, &old)); /* b's, the older one */
	assert_int_equal(prefix_tail_get(p, &other, 9), -1);
	evict_expect(p, seq);
	assert_true(prefix_consistent(p));
	prefix_free(p);
}

/* Sessions of different roots whose hashes are the same, so that only the comparison tells them apart. */
static void test_tails_collide(void **state)
{
	struct prefix *p = prefix_open(&(struct prefix_limits){4, 0, 2, 2});
	const struct prefix_root other = {.salt = 2};
	const uint64_t mine = 5, yours = mine ^ prefix_hash_root(&plain) ^ prefix_hash_root(&other);
	const cohort_token token = 1;
	cohort_seq old;
	(void)state;

	assert_non_null(p);
	assert_true(prefix_hash_session(&plain, mine) == prefix_hash_session(&other, yours));
	int32_t a = prefix_tail_set(p, &plain, mine, -1, &token, 1, &old);
	assert_int_equal(prefix_tail_get(p, &other, yours), -1);
	int32_t b = prefix_tail_set(p, &other, yours, -1, &token, 1, &old);
	assert_int_equal(old, -1);
	assert_int_equal(prefix_tail_get(p, &plain, mine), a);
	assert_int_equal(prefix_tail_get(p, &other, yours), b);
	prefix_free(p);
}

/* A chain as deep as a long context: nothing recurses. */
static void test_deep_chain(void **state)
{
	enum { DEPTH = 100000 };
	struct prefix *p = prefix_open(&(struct prefix_limits){1, 0, DEPTH, DEPTH});
	int32_t end = -1;
	(void)state;

	assert_non_null(p);
	for (int32_t i = 0; i < DEPTH; i++) { /* the end is pinned, as a slot's is: else each step goes to the root */
		const int32_t parent = end;
		end = add(p, parent, i);
		prefix_pin(p, end);
		if (parent >= 0)
			prefix_unpin(p, parent);
	}
	assert_int_equal(prefix_n_pinned(p), DEPTH);
	prefix_unpin(p, end);
	assert_int_equal(prefix_n_unpinned(p, end), DEPTH);
	prefix_pin(p, end);
	assert_int_equal(prefix_n_pinned(p), DEPTH);
	prefix_unpin(p, end);
	assert_int_equal(prefix_n_pinned(p), 0);
	for (int32_t i = DEPTH - 1; i >= 0; i--) {
		int32_t parent = prefix_node_get(p, end)->parent;
		evict_expect(p, prefix_node_get(p, end)->seq);
		end = parent;
	}
	assert_int_equal(prefix_n_held(p), 0);
	prefix_free(p);
}

/* Hashes tell apart what differs, and spread over the low bits, which choose a chain: of balls thrown at random into as
 * many bins the fullest has 7 or 8. */
static void test_prefix_hashes_differ_and_spread(void **state)
{
	enum { N = 4096, BLOCK = 33 };
	cohort_token tokens[BLOCK] = {0};
	static uint8_t bins[N];
	(void)state;

	for (size_t i = 0; i < N_ROOTS; i++)
		for (size_t k = 0; k < N_ROOTS; k++)
			assert_int_equal(prefix_hash_root(&roots[i].root) == prefix_hash_root(&roots[k].root),
					roots[i].kind == roots[k].kind);
	assert_true(prefix_hash(1, tokens, 2) != prefix_hash(1, tokens, 3));
	assert_true(prefix_hash(1, tokens, 0) != prefix_hash(2, tokens, 0));
	assert_true(prefix_hash(1, (cohort_token[]){0, 5}, 2) != prefix_hash(1, (cohort_token[]){5}, 1));
	assert_true(prefix_hash_session(&plain, 1) != prefix_hash_session(&plain, 2));
	assert_true(prefix_hash_session(&plain, 1) != prefix_hash_session(&roots[2].root, 1));
	const cohort_token one[5] = {0, 0, 1, 0, 0}; /* as the last, the middle and the first of three */
	for (int i = 0; i < 3; i++)
		for (int k = 0; k < i; k++)
			assert_true(prefix_hash(1, one + i, 3) != prefix_hash(1, one + k, 3));
	for (int32_t i = 0; i < N; i++)
		assert_true(++bins[prefix_hash((uint64_t)i << 32, tokens, 2) % N] < 14);
	for (int place = 0; place < BLOCK; place++) {
		memset(bins, 0, sizeof bins);
		for (int32_t i = 0; i < N; i++) {
			tokens[place] = i << 16; /* above the bits that are looked at */
			assert_true(++bins[prefix_hash(1, tokens, BLOCK) % N] < 14);
		}
		tokens[place] = 0;
	}
}

static void test_prefix_open_out_of_memory_at_every_point(void **state)
{
	const struct prefix_limits lim = {32, 4, 16, 20};
	struct prefix *p = NULL;
	int n_failed = 0;
	(void)state;

	for (; !p; n_failed++) {
		assert_true(n_failed < 20);
		mem_fail_after(n_failed);
		p = prefix_open(&lim);
	}
	mem_fail_after(-1);
	assert_true(n_failed > 2);
	assert_true(prefix_consistent(p));
	prefix_free(p);
	prefix_free(NULL);
}

static void test_prefix_open_refuses_bad_limits(void **state)
{
	static const struct prefix_limits bad[] = {
			{0, 0, 1, 1},
			{32, 0, -1, 1},
			{32, -1, 1, 1},
			{32, 0, 2, 1},
			{32, INT32_MAX - 1, 2, 2},
			{32, 0, 1, INT32_MAX / 16},
	};
	cohort_token token = 1;
	cohort_seq seq;
	(void)state;

	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
		assert_null(prefix_open(&bad[i]));
	/* Without room for anything it says so. */
	struct prefix *p = prefix_open(&(struct prefix_limits){2, 0, 0, 0});
	assert_non_null(p);
	assert_int_equal(prefix_tail_set(p, &plain, 1, -1, &token, 1, &seq), -1);
	assert_int_equal(prefix_tail_get(p, &plain, 1), -1);
	assert_false(prefix_evict(p, &seq));
	assert_true(prefix_consistent(p));
	prefix_free(p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
			cmocka_unit_test_teardown(test_random_operations, arm_nothing),
			cmocka_unit_test(test_prefix_eviction_order),
			cmocka_unit_test(test_session_has_one_tail),
			cmocka_unit_test(test_tails_collide),
			cmocka_unit_test(test_deep_chain),
			cmocka_unit_test(test_prefix_hashes_differ_and_spread),
			cmocka_unit_test_teardown(test_prefix_open_out_of_memory_at_every_point, arm_nothing),
			cmocka_unit_test(test_prefix_open_refuses_bad_limits),
	};
	return cmocka_run_group_tests_name("prefix", tests, NULL, NULL);
}
