/* The books of the engine: queue_consistent and prefix_consistent (engine_books.h) see all that is wrong with a queue
 * or with the books of cached prompts, so that the random tests that ask them after every step can fail. And what needs
 * their insides: roots whose hashes meet, opening without memory, a core whose machine gives no rows.
 *
 * Seen red with prefix_consistent not counting pins, or not looking at where the LRU list comes from (prefix_damage),
 * roots compared by their salts only (roots_collide), or without their scales (hashes_meet), more ids than nodes
 * (no_such_limits), queue_consistent not looking at the order of arrivals, or at who was idle before (queue_damage),
 * not at how full the table is, or how many are idle (queue_overfull), a table that is used without having been got
 * (queue_without_memory), log-probabilities read from no row, and blocks of 0 positions (no_rows). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/rng.h"
#include "engine/core.h"
#include "engine_books.h"

/* ---- Cached prompts ---------------------------------------------------------------------------------------------- */

enum { BLOCK = 2, FIRST_ID = 5, N_IDS = 8, N_NODES = 12, N_TABLE = 64 };

/* A copy of all that can be damaged. */
struct copy {
	struct prefix p;
	struct node nodes[N_NODES];
	int32_t table[N_TABLE];
	cohort_seq ids[N_IDS];
};

static void save(const struct prefix *p, struct copy *c)
{
	assert_int_equal(p->mask + 1, N_TABLE);
	c->p = *p;
	memcpy(c->nodes, p->nodes, sizeof c->nodes);
	memcpy(c->table, p->table, sizeof c->table);
	memcpy(c->ids, p->ids, sizeof c->ids);
}

static void restore(struct prefix *p, const struct copy *c)
{
	*p = c->p;
	memcpy(p->nodes, c->nodes, sizeof c->nodes);
	memcpy(p->table, c->table, sizeof c->table);
	memcpy(p->ids, c->ids, sizeof c->ids);
}

static const struct prefix_root plain = {.salt = 1};

static int32_t add(struct prefix *p, int32_t parent, cohort_token token, bool with_id)
{
	const cohort_token tokens[BLOCK] = {token, token};
	const int32_t i = prefix_add(p, &plain, parent, prefix_hash(0, tokens, BLOCK), tokens, with_id);

	assert_true(i >= 0);
	return i;
}

static void unlink_from_table(struct prefix *p, int32_t i)
{
	int32_t *link = &p->table[p->nodes[i].hash & p->mask];

	while (*link != i)
		link = &p->nodes[*link].next;
	*link = p->nodes[i].next;
}

/* Two neighbours of the LRU list change places. */
static void swap_in_lru(struct prefix *p, int32_t a, int32_t b)
{
	const int32_t older = p->nodes[a].older, newer = p->nodes[b].newer;

	assert_int_equal(p->nodes[a].newer, b);
	*(older < 0 ? &p->oldest : &p->nodes[older].newer) = b;
	*(newer < 0 ? &p->newest : &p->nodes[newer].older) = a;
	p->nodes[b].older = older;
	p->nodes[b].newer = a;
	p->nodes[a].older = b;
	p->nodes[a].newer = newer;
}

static void prefix_damage(void **state)
{
	struct prefix *p = prefix_open(&(struct prefix_limits){BLOCK, FIRST_ID, N_IDS, N_NODES});
	const cohort_token token = 7;
	struct copy good;
	cohort_seq old;
	(void)state;

	assert_non_null(p);
	/* A pinned child in front of its parent, one without an id; a tail, and one that was replaced while pinned;
	 * another chain, of which nothing is pinned. */
	const int32_t gone = add(p, -1, 1, true), a = add(p, -1, 2, true);
	prefix_drop(p, gone);
	const int32_t b = add(p, a, 3, true), c = add(p, a, 4, false), d = add(p, -1, 5, true), e = add(p, d, 6, true);
	assert_true(b < a && a < c && d < e);
	const int32_t left = prefix_tail_set(p, &plain, 9, a, &token, 1, &old);
	prefix_pin(p, left);
	const int32_t tail = prefix_tail_set(p, &plain, 9, -1, &token, 1, &old);
	prefix_pin(p, b);
	const int32_t none = p->first_free;
	assert_true(tail >= 0 && tail != left && !p->nodes[left].chained && none >= 0 && p->n_free_ids >= 2);
	assert_true(prefix_consistent(p));
	save(p, &good);
	struct node *n = p->nodes;

#define SEEN(...) \
	do { \
		__VA_ARGS__; \
		if (prefix_consistent(p)) \
			fail_msg("not seen: %s", #__VA_ARGS__); \
		restore(p, &good); \
		assert_true(prefix_consistent(p)); \
	} while (0)
	/* The LRU list. */
	SEEN(p->oldest = none);
	SEEN(p->oldest = N_NODES);
	SEEN(n[p->oldest].n_pins = 1);
	SEEN(n[n[p->oldest].newer].older = -1);
	SEEN(p->newest = p->oldest);
	SEEN(p->oldest = n[p->oldest].newer, n[p->oldest].older = -1);
	SEEN(swap_in_lru(p, e, d));
	/* The free list and the table. */
	SEEN(p->first_free = c);
	SEEN(n[none].next = none);
	SEEN(p->first_free = n[none].next);
	SEEN(p->table[n[a].hash & p->mask] = none);
	SEEN(n[a].chained = false);
	SEEN(n[c].hash++);
	SEEN(n[d].next = d);
	SEEN(unlink_from_table(p, c));
	SEEN(unlink_from_table(p, tail));
	SEEN(unlink_from_table(p, c), n[c].chained = false);
	/* Nodes. */
	SEEN(n[b].shown.parent = none);
	SEEN(n[b].shown.parent = -2);
	SEEN(n[b].shown.parent = tail);
	SEEN(n[a].n_children++);
	SEEN(n[b].n_pins_own = 0);
	SEEN(n[c].n_pins = n[c].n_pins_own = -1);
	SEEN(n[c].shown.n_before++);
	SEEN(n[c].shown.tokens++);
	SEEN(n[c].shown.n_tokens = BLOCK + 1);
	SEEN(n[d].shown.seq = n[e].shown.seq);
	SEEN(n[d].shown.seq = FIRST_ID - 1);
	SEEN(n[d].shown.seq = FIRST_ID + N_IDS);
	/* Ids and counts. */
	SEEN(p->ids[0] = p->ids[1]);
	SEEN(p->n_free_ids--);
	SEEN(p->n_pinned++);
#undef SEEN
	prefix_free(p);
}

/* As src/engine/prefix.c mixes; the test says so if it does not any more. */
static uint64_t mix(uint64_t a, uint64_t b)
{
	__extension__ typedef unsigned __int128 u128;
	const u128 x = (u128)a * b;
	return (uint64_t)x ^ (uint64_t)(x >> 64);
}

struct mixed {
	uint64_t value;
	uintptr_t adapter;
};

static int mixed_cmp(const void *pa, const void *pb)
{
	const struct mixed *a = pa, *b = pb;
	return (a->value > b->value) - (a->value < b->value);
}

/* Two adapters, with scales that make up for the difference between their hashes: only comparing them tells whose a
 * session's tail is. */
static void roots_collide(void **state)
{
	enum { N = 1 << 18 };
	const uint64_t h = mix(1 ^ 0x8f1bbcdcbfa53e0bu, 0x9e3779b97f4a7c15u);
	struct mixed *m = malloc(N * sizeof *m);
	struct prefix_root one = {.salt = 1}, two = {.salt = 1};
	const cohort_token token = 3;
	struct rng rng;
	cohort_seq old;
	size_t i = 1;
	(void)state;

	assert_non_null(m);
	rng_init(&rng, 3, 1);
	for (size_t k = 0; k < N; k++) {
		const uintptr_t adapter = (uintptr_t)rng_u32(&rng) << 32 | rng_u32(&rng) | 1;
		m[k] = (struct mixed){mix(h ^ adapter, 0xd1342543de82ef95u), adapter};
	}
	qsort(m, N, sizeof *m, mixed_cmp);
	while (i < N && m[i].value - m[i - 1].value > UINT32_MAX)
		i++;
	assert_true(i < N);
	const uint32_t bits = (uint32_t)(m[i].value - m[i - 1].value);
	one.adapter = (const void *)m[i - 1].adapter;
	memcpy(&one.scale, &bits, sizeof bits);
	two.adapter = (const void *)m[i].adapter;
	assert_true(prefix_hash_session(&one, 9) == prefix_hash_session(&two, 9));
	struct prefix *p = prefix_open(&(struct prefix_limits){BLOCK, 0, 2, 2});
	assert_non_null(p);
	const int32_t first = prefix_tail_set(p, &one, 9, -1, &token, 1, &old);
	assert_int_equal(prefix_tail_get(p, &two, 9), -1);
	const int32_t second = prefix_tail_set(p, &two, 9, -1, &token, 1, &old);
	assert_int_equal(old, -1);
	assert_int_equal(prefix_tail_get(p, &one, 9), first);
	assert_int_equal(prefix_tail_get(p, &two, 9), second);
	prefix_free(p);
	free(m);
}

/* Nodes of one hash: each is found by what else it is. A tail that was replaced while somebody had it goes when it is
 * let go of. */
static void hashes_meet(void **state)
{
	struct prefix *p = prefix_open(&(struct prefix_limits){BLOCK, 0, 8, 8});
	const struct prefix_root salted = {.salt = 2}, half = {1, p, 0.5f}, whole = {1, p, 1.0f};
	const cohort_token a[BLOCK] = {1, 1}, b[BLOCK] = {2, 2};
	const uint64_t hash = prefix_hash_session(&plain, 9);
	/* The same hash by another root and another session. */
	const uint64_t session = prefix_hash_root(&plain) ^ 9 ^ prefix_hash_root(&salted);
	cohort_seq old;
	(void)state;

	assert_non_null(p);
	assert_true(prefix_hash_session(&salted, session) == hash);
	const int32_t tail = prefix_tail_set(p, &plain, 9, -1, a, 1, &old);
	const int32_t first = prefix_add(p, &plain, -1, hash, a, true);
	const int32_t second = prefix_add(p, &plain, first, hash, a, true);
	const int32_t other = prefix_add(p, &salted, -1, hash, a, true);
	const int32_t light = prefix_add(p, &half, -1, hash, a, true);
	assert_int_equal(prefix_find(p, &plain, -1, hash, a), first);
	assert_int_equal(prefix_find(p, &plain, first, hash, a), second);
	assert_int_equal(prefix_find(p, &salted, -1, hash, a), other);
	assert_int_equal(prefix_find(p, &half, -1, hash, a), light);
	assert_int_equal(prefix_find(p, &whole, -1, hash, a), -1);
	assert_int_equal(prefix_find(p, &plain, -1, hash, b), -1);
	assert_int_equal(prefix_find(p, &plain, second, hash, a), -1);
	assert_int_equal(prefix_tail_get(p, &plain, 9), tail);
	assert_int_equal(prefix_tail_get(p, &salted, session), -1);
	assert_true(prefix_hash(1, a, 1) != prefix_hash(1, b, 1));
	assert_true(prefix_consistent(p));
	prefix_pin(p, tail);
	const int32_t next = prefix_tail_set(p, &plain, 9, -1, b, 1, &old);
	assert_int_equal(old, -1);
	assert_int_equal(prefix_tail_get(p, &plain, 9), next);
	prefix_unpin(p, tail);
	prefix_drop(p, tail);
	assert_int_equal(prefix_tail_get(p, &plain, 9), next);
	assert_true(prefix_consistent(p));
	prefix_free(p);
}

/* Numbers whose positions or ids would not fit. */
static void no_such_limits(void **state)
{
	static const struct prefix_limits bad[] = {{0, 0, 1, 1}, {2, 0, -1, 1}, {2, 0, 2, 1}, {2, -1, 1, 1},
			{2, INT32_MAX, 1, 1}, {1 << 16, 0, 1, 1 << 15}};
	(void)state;

	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
		assert_null(prefix_open(&bad[i]));
}

/* ---- The queue --------------------------------------------------------------------------------------------------- */

enum { N_ITEMS = 6 };

static struct queue_client *client(const struct queue *q, uint64_t id)
{
	for (size_t i = 0; i < q->n_slots; i++)
		if (q->slots[i].client && q->slots[i].id == id)
			return q->slots[i].client;
	fail_msg("no client %llu", (unsigned long long)id);
	return NULL;
}

/* Clients 1, 2 and 3 with two items that wait, a request of 4 under way, 5 and 6 idle; those that came later were
 * served more. */
static struct queue *example(struct queue_item items[N_ITEMS], struct queue_item *running)
{
	struct queue *q = queue_open(INFINITY);

	assert_non_null(q);
	for (uint64_t id = 6; id >= 4; id--) {
		struct queue_item *it = running;
		*it = (struct queue_item){.client = id, .n_tokens = 1};
		assert_true(queue_push(q, it));
		queue_admit(q, it);
		queue_serve(q, it, 100);
		if (id > 4)
			queue_done(q, it);
	}
	for (uint64_t i = 0; i < N_ITEMS; i++) {
		items[i] = (struct queue_item){.client = 1 + i / 2, .n_tokens = 3, .priority = (int32_t)(i % 2)};
		assert_true(queue_push(q, &items[i]));
	}
	client(q, 3)->counter = 200;
	q->active.p[client(q, 3)->at_active].counter = 200;
	q->turn.p[client(q, 3)->at_turn].counter = 200;
	assert_true(queue_consistent(q));
	return q;
}

static void swap_places(struct heap *h, size_t i, size_t k)
{
	const struct place p = h->p[i];

	h->p[i] = h->p[k];
	h->p[k] = p;
	*h->p[i].at = i;
	*h->p[k].at = k;
}

/* The slot of a client moves to one where it is not looked for. */
static void misplace(struct queue *q)
{
	size_t from = 0, to = 0;

	while (!q->slots[from].client)
		from++;
	while (q->slots[to].client || to == ((from + 1) & (q->n_slots - 1)))
		to++;
	q->slots[to] = q->slots[from];
	q->slots[from] = (struct slot){0};
}

/* Behind the last idle client, without being counted. */
static void append_idle(struct queue *q, struct queue_client *c)
{
	c->at_turn = c->at_active = nowhere;
	c->prev = q->idle_last;
	c->next = NULL;
	*(c->prev ? &c->prev->next : &q->idle_first) = c;
	q->idle_last = c;
}

/* Two that wait change places in the list by arrival, and nowhere else. */
static void swap_arrivals(struct queue *q)
{
	struct queue_item *a = q->oldest, *b = a->newer, *c = b->newer;

	q->oldest = b;
	b->older = NULL;
	b->newer = a;
	a->older = b;
	a->newer = c;
	c->older = a;
}

/* Each damage to a queue of its own, as some cannot be taken back: these are freed without looking. */
static void queue_damage(void **state)
{
	(void)state;
#define SEEN(...) \
	do { \
		struct queue_item items[N_ITEMS], running, item = {.owner = NULL}; \
		struct queue *q = example(items, &running), was = *q; \
		struct queue_client *a = client(q, 1), *runs = client(q, 4), *rests = q->idle_first, fake = {0}; \
		struct queue_client a_was = *a, runs_was = *runs, rests_was = *rests, last_was = *q->idle_last; \
		struct queue_client *last = q->idle_last; \
		struct slot slots[64]; \
		(void)a, (void)runs, (void)rests, (void)fake, (void)item; \
		assert_int_equal(q->n_slots, 64); \
		memcpy(slots, q->slots, sizeof slots); \
		__VA_ARGS__; \
		if (queue_consistent(q)) \
			fail_msg("not seen: %s", #__VA_ARGS__); \
		memcpy(q->slots, slots, sizeof slots); \
		*q = was; \
		*a = a_was; \
		*runs = runs_was; \
		*rests = rests_was; \
		*last = last_was; \
		queue_free(q); \
	} while (0)
	/* Heaps. */
	SEEN(items[0].at = 9);
	SEEN(swap_places(&a->items, 0, 1));
	SEEN(swap_places(&q->turn, 0, 2));
	SEEN(swap_places(&q->active, 0, client(q, 3)->at_active));
	SEEN(q->turn.p[a->at_turn].priority++);
	SEEN(q->turn.p[a->at_turn].n_running++);
	SEEN(q->turn.p[a->at_turn].counter++);
	SEEN(q->turn.p[a->at_turn].number++);
	SEEN(q->turn.p[a->at_turn].at = &rests->at_turn);
	SEEN(q->active.p[a->at_active].counter++);
	/* Clients. */
	SEEN(runs->n_running = -1);
	SEEN(a->at_turn = nowhere);
	SEEN(a->at_active = nowhere);
	SEEN(runs->at_turn = 99);
	SEEN(rests->at_active = 99);
	SEEN(q->virtual_time = a->counter + 1);
	/* The table. */
	SEEN(a->id = 77);
	SEEN(misplace(q));
	SEEN(q->n_clients++);
	SEEN(q->n_idle++);
	SEEN(q->depth++);
	/* Idle ones. */
	SEEN(rests->prev = a);
	SEEN(fake = *rests, fake.at_active = 0, q->idle_first = &fake, last->prev = &fake);
	SEEN(append_idle(q, &fake));
	SEEN(q->idle_last = rests);
	SEEN(q->idle_last = rests, rests->next = NULL);
	/* The list by arrival. */
	SEEN(items[1].older = NULL);
	SEEN(items[1].waiting = false);
	SEEN(items[1].number = 0);
	SEEN(swap_arrivals(q));
	SEEN(item = items[5], item.number++, item.older = &items[5], items[5].newer = &item, q->newest = &item);
	SEEN(items[1].client = 2);
	SEEN(item = items[5], item.at = 9, items[4].newer = &item, q->newest = &item);
	SEEN(item = items[5], items[4].newer = &item, q->newest = &item);
	SEEN(items[5].priority++);
	SEEN(items[5].number++);
	SEEN(q->newest = &items[0]);
	SEEN(items[4].newer = NULL, q->newest = &items[4]);
	SEEN(q->n_tokens++);
#undef SEEN
}

/* More clients than half of the table, and more idle ones than are kept. */
static void queue_overfull(void **state)
{
	struct queue *q = queue_open(INFINITY);
	struct queue_client fake = {.id = 1000};
	struct queue_item it;
	(void)state;

	assert_non_null(q);
	for (uint64_t id = 0; id < SLOTS_MIN / 2; id++) {
		it = (struct queue_item){.client = id};
		assert_true(queue_push(q, &it));
		queue_remove(q, &it);
	}
	assert_int_equal(q->n_slots, SLOTS_MIN);
	assert_true(queue_consistent(q));
	/* One more, in whatever slot: in the one where it is looked for nothing else is wrong. */
	const struct queue was = *q;
	struct queue_client *const last = q->idle_last;
	append_idle(q, &fake);
	q->n_idle++;
	q->n_clients++;
	for (size_t i = 0; i < q->n_slots; i++) {
		if (q->slots[i].client)
			continue;
		q->slots[i] = (struct slot){fake.id, &fake};
		assert_false(queue_consistent(q));
		q->slots[i] = (struct slot){0};
	}
	*q = was;
	last->next = NULL;
	for (uint64_t id = 0; id < IDLE_MAX; id++) {
		it = (struct queue_item){.client = id};
		assert_true(queue_push(q, &it));
		queue_remove(q, &it);
	}
	assert_int_equal(q->n_idle, IDLE_MAX);
	it = (struct queue_item){.client = 5000};
	assert_true(queue_push(q, &it));
	queue_admit(q, &it);
	assert_true(queue_consistent(q));
	struct queue_client *c = client(q, 5000);
	c->n_running = 0;
	q->active.n = 0;
	append_idle(q, c);
	q->n_idle++;
	assert_false(queue_consistent(q));
	queue_free(q);
}

static void queue_without_memory(void **state)
{
	struct queue *q = NULL;
	int n = 0;
	(void)state;

	for (; !q; n++) {
		assert_true(n < 10);
		mem_fail_after(n);
		q = queue_open(1);
	}
	mem_fail_after(-1);
	assert_true(n > 2);
	assert_true(queue_consistent(q));
	queue_free(q);
}

/* ---- A core on a machine that computes nothing ------------------------------------------------------------------- */

static double now(void *self)
{
	return *(double *)self += 0.25;
}

static enum cohort_status compute(void *self, const struct cohort_batch_raw *rows, struct cohort_err *err)
{
	(void)self, (void)rows, (void)err;
	return COHORT_OK;
}

static const float *no_row(void *self, int32_t row)
{
	(void)self, (void)row;
	return NULL;
}

static enum cohort_status remove_cells(void *self, cohort_seq seq, cohort_pos p0, cohort_pos p1, struct cohort_err *err)
{
	(void)self, (void)seq, (void)p0, (void)p1, (void)err;
	return COHORT_OK;
}

static enum cohort_status no_adapter(
		void *self, cohort_seq seq, const struct cohort_adapter *adapter, float scale, struct cohort_err *err)
{
	(void)self, (void)seq, (void)scale, (void)err;
	assert_null(adapter);
	return COHORT_OK;
}

/* Without rows a token is 0, and so are log-probabilities and embeddings: nothing is read that is not there. */
static void no_rows(void **state)
{
	double seconds = 0;
	const struct machine m = {.self = &seconds,
			.now = now,
			.decode = compute,
			.logits = no_row,
			.embedding = no_row,
			.seq_rm = remove_cells,
			.adapter_set = no_adapter};
	struct core_limits lim = {.n_vocab = 10,
			.n_embd = 2,
			.n_slots = 2,
			.n_ubatch = 4,
			.budget = 4,
			.chunk_size = 4,
			.block_size = 3,
			.n_blocks = 8,
			.n_pos_max = 32,
			.logits = true,
			.embeddings = true,
			.queue_requests_max = 4,
			.queue_tokens_max = 100,
			.wait_max_s = INFINITY};
	const cohort_token prompt[6] = {1, 2, 3, 4, 5, 6};
	static struct core c;
	struct cohort_request_params p;
	struct cohort_request *r;
	struct cohort_event e;
	struct cohort_err err;
	(void)state;

	assert_int_equal(core_init(&c, &lim, &m, NULL, &err), COHORT_E_ARG);
	assert_non_null(strstr(err.text, "power of two"));
	lim.block_size = 0;
	assert_int_equal(core_init(&c, &lim, &m, NULL, &err), COHORT_E_ARG);
	lim.block_size = 4;
	assert_int_equal(core_init(&c, &lim, &m, NULL, &err), COHORT_OK);
	for (int what = 0; what < 3; what++) {
		cohort_request_params_init(&p);
		p.prompt = prompt;
		p.n_prompt = 6;
		p.max_tokens = 3;
		p.n_logprobs = 0;
		p.prompt_logprobs = what == 0;
		p.task = what ? COHORT_TASK_EMBED : COHORT_TASK_GENERATE;
		p.pooling = what == 1 ? COHORT_POOL_MEAN : COHORT_POOL_LAST;
		assert_int_equal(request_open(&c, &p, &r, &err), COHORT_OK);
		assert_int_equal(core_submit(&c, r, &err), COHORT_OK);
		for (int i = 0; i < 20 && !core_is_idle(&c); i++)
			core_tick(&c);
		assert_true(core_is_idle(&c));
		int n_tokens = 0, n_rows = 0;
		do {
			assert_int_equal(cohort_request_next(r, 0, &e, &err), COHORT_OK);
			if (e.kind == COHORT_EVENT_TOKEN) {
				n_tokens++;
				assert_int_equal(e.token, 0);
				assert_true(e.logprob == 0);
			} else if (e.kind == COHORT_EVENT_PROMPT) {
				n_rows++;
				for (int i = 0; i < 6; i++)
					assert_true(e.prompt_logprobs[i] == 0);
			} else if (e.kind == COHORT_EVENT_EMBEDDING) {
				n_rows++;
				assert_true(e.embedding[0] == 0 && e.embedding[1] == 0);
			}
		} while (e.kind != COHORT_EVENT_DONE && e.kind != COHORT_EVENT_NONE);
		assert_int_equal(e.kind, COHORT_EVENT_DONE);
		assert_int_equal(n_tokens, what ? 0 : 3);
		assert_int_equal(n_rows, 1);
		cohort_request_free(r);
	}
	/* What was true when somebody asked may not be so any more: of clients that meet one may be too late. */
	assert_int_equal(core_may_submit(&c, p.client, p.n_prompt, &err), COHORT_OK);
	assert_int_equal(request_open(&c, &p, &r, &err), COHORT_OK);
	c.shared.closed = true;
	assert_int_equal(core_submit(&c, r, &err), COHORT_E_LIMIT);
	assert_true(core_is_idle(&c));
	request_unref(r);
	request_unref(r);
	core_release(&c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
			cmocka_unit_test(prefix_damage),
			cmocka_unit_test(roots_collide),
			cmocka_unit_test(hashes_meet),
			cmocka_unit_test(no_such_limits),
			cmocka_unit_test(queue_damage),
			cmocka_unit_test(queue_overfull),
			cmocka_unit_test(queue_without_memory),
			cmocka_unit_test(no_rows),
	};
	return cmocka_run_group_tests_name("engine_books", tests, NULL, NULL);
}
