/* The queue: its order against linear scans over random operations, and the laws that the order is there for.
 *
 * Faults planted in queue.c, and what turned red:
 *   who comes starts at its own counter              queue_random_operations, one_beside_fifty, idling_saves_nothing
 *   ... at 0 when nobody is there                    queue_random_operations, idling_saves_nothing
 *   admissions do not raise the virtual time         queue_random_operations, idling_saves_nothing
 *   serving does not move the client down            queue_random_operations, one_beside_fifty, leaving_does_not_pay
 *   turns are counted instead of tokens              queue_random_operations, tokens_not_turns, leaving_does_not_pay
 *   clients by the age of their requests alone       equal_shares, many_clients and eight more
 *   requests under way do not count among equals     queue_random_operations, one_beside_fifty
 *   the hole of a removed entry is only filled down  queue_random_operations, cancel_anywhere
 *   overdue when exactly wait_max_s have passed      queue_random_operations, old_low_priority
 *   nobody is overdue; the newest is                 queue_random_operations, old_low_priority, waiting_is_bounded
 *   priorities the other way round                   queue_random_operations, old_low_priority, order_of_equals
 *   idle clients forgotten at once, or never         queue_random_operations, leaving_does_not_pay
 *   the youngest idle client forgotten               queue_random_operations, leaving_does_not_pay
 *   a client with running requests counts as idle    queue_random_operations
 *   forgetting leaves a gap in the table             queue_random_operations
 *   a failed push leaves the new client behind       queue_random_operations, push_without_memory
 *   counters wrap                                    counters_end
 *   a client's tokens are not taken off again        queue_random_operations
 */
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
#include "engine_books.h"

static uint32_t below(struct rng *r, size_t n)
{
	return rng_u32(r) % (uint32_t)n;
}

/* ---- The order, by linear scans ---- */

enum { CLIENTS_MAX = 1300, ITEMS_MAX = 48 };

enum fate { FREE, WAITING, RUNNING };

struct model_client {
	bool known;
	int64_t counter;
	int n_waiting, n_running;
	uint64_t idle_since;
};

struct model_item {
	enum fate fate;
	size_t client;
	uint64_t number;
};

struct model {
	struct queue *q;
	double wait_max_s;
	size_t n_clients;
	uint64_t id_step; /* ids are its multiples: neighbours, or alike in their low bits */
	struct model_client clients[CLIENTS_MAX];
	struct queue_item items[ITEMS_MAX];
	struct model_item notes[ITEMS_MAX];
	int64_t virtual_time;
	uint64_t n_pushed, n_idled;
};

struct counts {
	size_t n_push, n_admit, n_overdue, n_remove, n_serve, n_done, n_failed, n_forgotten, n_raised;
};

static bool is_active(const struct model_client *c)
{
	return c->n_waiting || c->n_running;
}

static int64_t least(const struct model *m)
{
	int64_t v = INT64_MAX;
	bool any = false;

	for (size_t i = 0; i < m->n_clients; i++)
		if (is_active(&m->clients[i])) {
			any = true;
			v = m->clients[i].counter < v ? m->clients[i].counter : v;
		}
	return any ? v : m->virtual_time;
}

/* Whether item a goes before item b. The queue compares clients by their first items; over all items it comes to the
 * same, as an item that is best of all is the first of its client. */
static bool goes_before(const struct model *m, size_t a, size_t b)
{
	const struct model_client *ca = &m->clients[m->notes[a].client], *cb = &m->clients[m->notes[b].client];

	if (m->items[a].priority != m->items[b].priority)
		return m->items[a].priority > m->items[b].priority;
	if (ca->counter != cb->counter)
		return ca->counter < cb->counter;
	if (ca->n_running != cb->n_running)
		return ca->n_running < cb->n_running;
	return m->notes[a].number < m->notes[b].number;
}

static struct queue_item *model_oldest(struct model *m)
{
	size_t best = ITEMS_MAX;

	for (size_t i = 0; i < ITEMS_MAX; i++)
		if (m->notes[i].fate == WAITING && (best == ITEMS_MAX || m->notes[i].number < m->notes[best].number))
			best = i;
	return best < ITEMS_MAX ? &m->items[best] : NULL;
}

static struct queue_item *model_first(struct model *m, double now)
{
	struct queue_item *oldest = model_oldest(m);
	size_t best = ITEMS_MAX;

	if (oldest && now - oldest->arrived_s > m->wait_max_s)
		return oldest;
	for (size_t i = 0; i < ITEMS_MAX; i++)
		if (m->notes[i].fate == WAITING && (best == ITEMS_MAX || goes_before(m, i, best)))
			best = i;
	return best < ITEMS_MAX ? &m->items[best] : NULL;
}

static void compare(struct model *m, double now)
{
	int64_t n_tokens = 0;
	size_t depth = 0;

	for (size_t i = 0; i < ITEMS_MAX; i++) {
		assert_int_equal(m->items[i].waiting, m->notes[i].fate == WAITING);
		if (m->notes[i].fate == WAITING) {
			n_tokens += m->items[i].n_tokens;
			depth++;
		}
	}
	assert_int_equal(queue_depth(m->q), depth);
	assert_int_equal(queue_tokens(m->q), n_tokens);
	for (size_t i = 0; i < ITEMS_MAX; i++) { /* the clients that wait, and some that do not */
		int64_t n = 0, held, held_tokens;
		n_tokens = 0;
		for (size_t k = 0; k < ITEMS_MAX; k++)
			if (m->notes[k].fate == WAITING && m->items[k].client == m->items[i].client) {
				n++;
				n_tokens += m->items[k].n_tokens;
			}
		queue_held(m->q, m->items[i].client, &held, &held_tokens);
		assert_true(held == n && held_tokens == n_tokens);
	}
	assert_ptr_equal(queue_oldest(m->q), model_oldest(m));
	assert_ptr_equal(queue_first(m->q, now), model_first(m, now));
}

/* Any item of that fate, or ITEMS_MAX. */
static size_t any(const struct model *m, struct rng *r, enum fate fate)
{
	size_t n = 0, found = ITEMS_MAX;

	for (size_t i = 0; i < ITEMS_MAX; i++)
		if (m->notes[i].fate == fate && below(r, ++n) == 0)
			found = i;
	return found;
}

static void model_push(struct model *m, size_t i, size_t client, struct counts *c)
{
	struct model_client *mc = &m->clients[client];

	if (!is_active(mc)) {
		const int64_t own = mc->known ? mc->counter : 0, start = least(m);
		c->n_raised += mc->known && own < start;
		mc->counter = own > start ? own : start;
	}
	mc->known = true;
	mc->n_waiting++;
	m->notes[i] = (struct model_item){WAITING, client, ++m->n_pushed};
}

/* After an item of it went: it may be idle now, and one too many of these. */
static void model_rest(struct model *m, struct model_client *mc, struct counts *c)
{
	size_t n_idle = 0, first = 0;

	if (is_active(mc))
		return;
	mc->idle_since = ++m->n_idled;
	for (size_t i = 0; i < m->n_clients; i++)
		if (m->clients[i].known && !is_active(&m->clients[i]))
			if (!n_idle++ || m->clients[i].idle_since < m->clients[first].idle_since)
				first = i;
	if (n_idle > IDLE_MAX) {
		m->clients[first].known = false;
		c->n_forgotten++;
	}
}

static void push(struct model *m, struct rng *r, double now, struct counts *c)
{
	const size_t i = any(m, r, FREE), client = below(r, m->n_clients);
	const bool fail = below(r, 4) == 0;

	if (i == ITEMS_MAX)
		return;
	m->items[i].client = client * m->id_step;
	m->items[i].priority = (int32_t)below(r, 3) - 1;
	m->items[i].n_tokens = (int32_t)below(r, 10);
	m->items[i].arrived_s = now;
	if (fail)
		mem_fail_after(below(r, 3));
	const bool pushed = queue_push(m->q, &m->items[i]);
	mem_fail_after(-1);
	if (pushed)
		model_push(m, i, client, c);
	else
		assert_true(fail);
	c->n_push += pushed;
	c->n_failed += !pushed;
}

/* All but pushing must not notice that there is no memory. */
static void other(struct model *m, struct rng *r, double now, uint32_t what, struct counts *c)
{
	/* Who leaves: mostly whose turn it is, now and then anybody. */
	struct queue_item *first = model_first(m, now);
	size_t i = first && below(r, 8) ? (size_t)(first - m->items) : any(m, r, WAITING);

	if (what < 2 && i < ITEMS_MAX) {
		struct model_client *mc = &m->clients[m->notes[i].client];
		c->n_overdue += now - m->items[i].arrived_s > m->wait_max_s;
		queue_admit(m->q, &m->items[i]);
		const int64_t v = least(m);
		m->virtual_time = v > m->virtual_time ? v : m->virtual_time;
		m->notes[i].fate = RUNNING;
		mc->n_waiting--;
		mc->n_running++;
		c->n_admit++;
	} else if (what == 2 && (i = any(m, r, WAITING)) < ITEMS_MAX) {
		struct model_client *mc = &m->clients[m->notes[i].client];
		queue_remove(m->q, &m->items[i]);
		m->notes[i].fate = FREE;
		mc->n_waiting--;
		model_rest(m, mc, c);
		c->n_remove++;
	} else if ((what == 3 || what == 4) && (i = any(m, r, RUNNING)) < ITEMS_MAX) {
		const int64_t n = below(r, 4); /* none as well; few, so that counters meet */
		queue_serve(m->q, &m->items[i], n);
		m->clients[m->notes[i].client].counter += n;
		c->n_serve++;
	} else if (what > 4 && (i = any(m, r, RUNNING)) < ITEMS_MAX) {
		struct model_client *mc = &m->clients[m->notes[i].client];
		queue_done(m->q, &m->items[i]);
		m->notes[i].fate = FREE;
		mc->n_running--;
		model_rest(m, mc, c);
		c->n_done++;
	}
}

static void play(uint64_t seed, size_t n_clients, uint64_t id_step, double wait_max_s, int n_ops, struct counts *c)
{
	struct model *m = mem_zalloc(1, sizeof *m);
	struct rng r;
	double now = 0;

	rng_init(&r, seed, n_clients);
	m->q = queue_open(wait_max_s);
	m->wait_max_s = wait_max_s;
	m->n_clients = n_clients;
	m->id_step = id_step;
	assert_non_null(m->q);
	for (int k = 0; k < n_ops; k++) {
		/* It fills, and it empties: to the last one with few clients, who then come back. */
		const uint32_t what = below(&r, k / 150 % 2 ? 8 : 12);
		now += below(&r, 4) ? 0 : 0.25;
		if (what < 7) {
			mem_fail_all(true);
			other(m, &r, now, what, c);
			mem_fail_all(false);
		} else {
			push(m, &r, now, c);
		}
		compare(m, now);
		if (k % 16 == 0)
			assert_true(queue_consistent(m->q));
	}
	queue_free(m->q);
	mem_free(m);
}

/* 600,000 operations. Few clients, priorities, tokens and times, so that all ties happen; many clients, so that idle
 * ones are forgotten; limits that are reached now and then, never and always. */
static void queue_random_operations(void **state)
{
	struct counts c = {0};
	(void)state;

	for (uint64_t seed = 0; seed < 60; seed++) {
		play(seed, 2 + seed % 5, seed % 2 ? 1 : UINT64_C(1) << 40, 2, 5000, &c);
		play(seed, 12, UINT64_C(0x9e3779b97f4a7c15), INFINITY, 4000, &c);
		play(seed, 6, 3, 0, 500, &c);
	}
	const size_t n_forgotten = c.n_forgotten;
	play(100, CLIENTS_MAX, UINT64_C(1) << 32, 5, 30000, &c);
	assert_int_equal(n_forgotten, 0);
	/* All of it happened, many times. */
	assert_true(c.n_push > 20000 && c.n_admit > 10000 && c.n_remove > 10000 && c.n_serve > 10000 &&
			c.n_done > 10000);
	assert_true(c.n_overdue > 1000 && c.n_failed > 500 && c.n_forgotten > 500 && c.n_raised > 1000);
}

/* ---- The laws ---- */

enum { N_MAX = 400 };

struct rig {
	struct queue *q;
	struct queue_item items[N_MAX];
	size_t n;
};

static void rig_init(struct rig *g, double wait_max_s)
{
	memset(g, 0, sizeof *g);
	g->q = queue_open(wait_max_s);
	assert_non_null(g->q);
}

static struct queue_item *rig_push(struct rig *g, uint64_t client, int32_t priority, double now)
{
	struct queue_item *it = &g->items[g->n++];

	assert_true(g->n <= N_MAX);
	*it = (struct queue_item){.client = client, .priority = priority, .n_tokens = 1, .arrived_s = now};
	assert_true(queue_push(g->q, it));
	return it;
}

/* The next one, admitted. */
static struct queue_item *rig_admit(struct rig *g, double now)
{
	struct queue_item *it = queue_first(g->q, now);

	assert_non_null(it);
	assert_ptr_equal(queue_first(g->q, now), it);
	queue_admit(g->q, it);
	assert_true(queue_consistent(g->q));
	return it;
}

static void rig_end(struct rig *g, struct queue_item *it, int64_t n_tokens)
{
	queue_serve(g->q, it, n_tokens);
	queue_done(g->q, it);
	assert_true(queue_consistent(g->q));
}

/* 50 requests of one client do not keep the one of another waiting: it is admitted second at the latest, whether the
 * first was served in between or both are admitted in one go, and at once when the first client is under way. */
static void one_beside_fifty(void **state)
{
	struct rig g;
	(void)state;

	for (int served = 0; served < 2; served++) {
		rig_init(&g, INFINITY);
		for (int i = 0; i < 50; i++)
			rig_push(&g, 1, 0, 0);
		struct queue_item *one = rig_push(&g, 2, 0, 0), *it = rig_admit(&g, 0);
		assert_int_equal(it->client, 1);
		if (served)
			queue_serve(g.q, it, 1);
		assert_ptr_equal(rig_admit(&g, 0), one);
		assert_int_equal(queue_depth(g.q), 49);
		queue_free(g.q);

		rig_init(&g, INFINITY);
		for (int i = 0; i < 50; i++)
			rig_push(&g, 1, 0, 0);
		for (int i = 0; i < 8; i++) {
			it = rig_admit(&g, 0);
			if (served)
				queue_serve(g.q, it, 100);
		}
		one = rig_push(&g, 2, 0, 0);
		assert_ptr_equal(rig_admit(&g, 0), one);
		queue_free(g.q);
	}
}

/* k clients that always have requests waiting, n_slots requests of `size` tokens at once, a token at a time.
 *
 * No two clients are ever further apart than n_slots * size tokens. Why: a client is only admitted when no other that
 * waits was served less. Let f be ahead of g, and look at f's last admission: until then f was not ahead. Since then f
 * was served only by what was running: n_slots requests at most, of which none had more than size tokens left. With one
 * slot that is one request. */
static void equal_shares(void **state)
{
	enum { SIZE = 40, K_MAX = 7, SLOTS_MAX = 4 };
	(void)state;

	for (int64_t n_slots = 1; n_slots <= SLOTS_MAX; n_slots += SLOTS_MAX - 1)
		for (size_t k = 2; k <= K_MAX; k++) {
			struct queue_item waiting[2 * K_MAX], *running[SLOTS_MAX] = {0};
			int64_t served[K_MAX] = {0}, left[SLOTS_MAX] = {0}, widest = 0;
			struct queue *q = queue_open(INFINITY);
			memset(waiting, 0, sizeof waiting);
			for (size_t i = 0; i < 2 * k; i++) {
				waiting[i].client = i % k;
				assert_true(queue_push(q, &waiting[i]));
			}
			struct queue_item spare[SLOTS_MAX] = {0};
			for (int t = 0; t < 20000; t++) {
				const int64_t s = t % n_slots;
				if (!running[s]) {
					/* What runs is moved out, so that its place can wait again at once. */
					struct queue_item *it = queue_first(q, 0);
					queue_admit(q, it);
					spare[s] = *it;
					running[s] = &spare[s];
					left[s] = SIZE;
					assert_true(queue_push(q, it));
				}
				queue_serve(q, running[s], 1);
				served[running[s]->client]++;
				if (!--left[s]) {
					queue_done(q, running[s]);
					running[s] = NULL;
				}
				for (size_t a = 0; a < k; a++)
					for (size_t b = 0; b < k; b++)
						widest = served[a] - served[b] > widest ? served[a] - served[b]
											: widest;
				assert_true(widest <= n_slots * SIZE);
			}
			assert_true(queue_consistent(q) && widest > 0);
			for (size_t i = 0; i < k; i++)
				assert_true(served[i] > 20000 / (int64_t)k - n_slots * SIZE);
			queue_free(q);
		}
}

/* Requests of twice the size get half as many turns: tokens are what counts. */
static void tokens_not_turns(void **state)
{
	struct rig g;
	int n[2] = {0};
	(void)state;

	rig_init(&g, INFINITY);
	for (int i = 0; i < 100; i++)
		for (uint64_t c = 0; c < 2; c++)
			rig_push(&g, c, 0, 0);
	for (int i = 0; i < 90; i++) {
		struct queue_item *it = rig_admit(&g, 0);
		n[it->client]++;
		rig_end(&g, it, it->client ? 20 : 10);
	}
	assert_true(n[0] >= 59 && n[0] <= 61);
	queue_free(g.q);
}

/* A client that had nothing to do while another was served 100 requests has not saved them up: they take turns. Nor
 * does it when nobody is there at the moment it comes back. */
static void idling_saves_nothing(void **state)
{
	struct rig g;
	(void)state;

	for (int alone = 0; alone < 2; alone++) {
		rig_init(&g, INFINITY);
		rig_push(&g, 2, 0, 0);
		rig_end(&g, rig_admit(&g, 0), 1);
		for (int i = 0; i < 100; i++) {
			rig_push(&g, 1, 0, 0);
			struct queue_item *it = rig_admit(&g, 0);
			if (!alone)
				rig_push(&g, 1, 0, 0);
			rig_end(&g, it, 10);
		}
		int n[3] = {0};
		for (int i = 0; i < 30; i++)
			rig_push(&g, 2, 0, 0);
		for (int i = 0; i < 30; i++)
			rig_push(&g, 1, 0, 0);
		for (int i = 0; i < 20; i++) {
			struct queue_item *it = rig_admit(&g, 0);
			n[it->client]++;
			rig_end(&g, it, 10);
			assert_true(abs(n[1] - n[2]) <= 2);
		}
		queue_free(g.q);
	}
}

/* Leaving does not make up for what a client was served: when it comes back at once, the other is still first. After it
 * was forgotten for 1,024 others it starts as a new client does, and before that it does not. */
static void leaving_does_not_pay(void **state)
{
	(void)state;
	for (int n_others = IDLE_MAX - 1; n_others <= IDLE_MAX; n_others++) {
		struct queue_item stay = {.client = 1}, *leave = mem_zalloc(1, sizeof *leave), x;
		struct queue *q = queue_open(INFINITY);
		assert_true(queue_push(q, &stay));
		leave->client = 2;
		assert_true(queue_push(q, leave));
		queue_admit(q, leave);
		queue_serve(q, leave, 1000);
		queue_done(q, leave);
		for (uint64_t i = 0; i < (uint64_t)n_others; i++) {
			x = (struct queue_item){.client = 10 + i};
			assert_true(queue_push(q, &x));
			queue_remove(q, &x);
			assert_null(x.owner);
		}
		*leave = (struct queue_item){.client = 2, .priority = 0};
		assert_true(queue_push(q, leave));
		x = (struct queue_item){.client = 1};
		assert_true(queue_push(q, &x));
		assert_ptr_equal(queue_first(q, 0), &stay);
		queue_admit(q, &stay);
		queue_serve(q, &stay, 999);
		/* Client 1 now has 999; client 2 has 1000, or the least there was: 0. */
		assert_ptr_equal(queue_first(q, 0), n_others < IDLE_MAX ? &x : leave);
		assert_true(queue_consistent(q));
		queue_free(q);
		mem_free(leave);
	}
}

/* Higher priorities come without end; the old low one is admitted once wait_max_s has passed, and not before. */
static void old_low_priority(void **state)
{
	struct rig g;
	(void)state;

	rig_init(&g, 30);
	struct queue_item *low = rig_push(&g, 7, -1, 0), *later = rig_push(&g, 7, -2, 5);
	for (int t = 6; t <= 30; t++) {
		rig_push(&g, (uint64_t)t % 3, 5, t);
		struct queue_item *it = rig_admit(&g, t);
		assert_int_equal(it->priority, 5);
		rig_end(&g, it, 10);
	}
	for (int t = 31; t <= 36; t++) {
		rig_push(&g, 1, INT32_MAX, t);
		rig_push(&g, 8, INT32_MIN, t);
		struct queue_item *it = rig_admit(&g, t);
		if (t == 31)
			assert_ptr_equal(it, low);
		else if (t == 36)
			assert_ptr_equal(it, later);
		else
			assert_int_equal(it->priority, INT32_MAX);
		rig_end(&g, it, 10);
	}
	queue_free(g.q);
}

/* The bound on waiting, of a request that found d others waiting: with n_slots, each of which is free again after
 * t_max at the latest, it is admitted within
 *     wait_max + ceil((d + 1) / n_slots) * t_max
 * (and one tick, as it has to have waited longer). Why: pushed in order of time, those that are overdue before it are
 * among the d. From the moment it is overdue only these and it are admitted, and in t_max every slot takes one. */
static void waiting_is_bounded(void **state)
{
	enum { SLOTS = 3, T_MAX = 5, WAIT_MAX = 40, QUEUE_MAX = 50, TICKS = 20000 };
	struct queue_item *pool = mem_zalloc(QUEUE_MAX + SLOTS, sizeof *pool), *slots[SLOTS] = {0};
	int ends[SLOTS], n_low = 0;
	struct queue *q = queue_open(WAIT_MAX);
	size_t found[QUEUE_MAX + SLOTS];
	struct rng r;
	(void)state;

	rng_init(&r, 4, 2);
	for (int t = 0; t < TICKS; t++) {
		for (int s = 0; s < SLOTS; s++)
			if (slots[s] && ends[s] <= t) {
				queue_serve(q, slots[s], below(&r, 100));
				queue_done(q, slots[s]);
				slots[s] = NULL;
			}
		for (size_t i = 0, n_new = 0; i < QUEUE_MAX + SLOTS && n_new < 2; i++)
			if (!pool[i].owner && queue_depth(q) < QUEUE_MAX) {
				pool[i] = (struct queue_item){.client = below(&r, 4),
						.priority = below(&r, 10) ? 1 : 0,
						.arrived_s = t};
				found[i] = queue_depth(q);
				assert_true(queue_push(q, &pool[i]));
				n_new++;
			}
		for (int s = 0; s < SLOTS; s++) {
			struct queue_item *it = slots[s] ? NULL : queue_first(q, t);
			if (!it)
				continue;
			const double bound = WAIT_MAX + (double)((found[it - pool] + SLOTS) / SLOTS * T_MAX) + 1;
			assert_true(t - it->arrived_s <= bound);
			n_low += !it->priority;
			queue_admit(q, it);
			slots[s] = it;
			ends[s] = t + 1 + (int)below(&r, T_MAX);
		}
		/* Nor does one wait longer that has not been admitted yet. */
		for (size_t i = 0; i < QUEUE_MAX + SLOTS; i++)
			if (pool[i].waiting)
				assert_true(t - pool[i].arrived_s <=
						WAIT_MAX + (double)((found[i] + SLOTS) / SLOTS * T_MAX) + 1);
	}
	assert_true(n_low > 100);
	queue_free(q);
	mem_free(pool);
}

/* Cancelled from anywhere: first, last, in the middle, of the client whose turn it is and of others. */
static void cancel_anywhere(void **state)
{
	struct rng r;
	(void)state;

	rng_init(&r, 5, 0);
	for (int round = 0; round < 200; round++) {
		struct rig g;
		rig_init(&g, 1e9);
		const size_t n = 1 + below(&r, 40), n_clients = 1 + below(&r, 4);
		for (size_t i = 0; i < n; i++)
			rig_push(&g, below(&r, n_clients), (int32_t)below(&r, 3), 0);
		for (size_t left = n; left--;) {
			struct queue_item *it = queue_oldest(g.q);
			for (size_t k = below(&r, left + 1); k--;)
				it = it->newer;
			queue_remove(g.q, it);
			assert_false(it->waiting);
			assert_true(queue_consistent(g.q));
			assert_int_equal(queue_depth(g.q), left);
			it = queue_first(g.q, 0);
			assert_true(left ? it->waiting : !it);
		}
		assert_null(queue_oldest(g.q));
		assert_int_equal(queue_tokens(g.q), 0);
		queue_free(g.q);
	}
}

/* Of one client the higher priority goes first, then the older; equal clients go by age. */
static void order_of_equals(void **state)
{
	static const int32_t priorities[] = {0, 5, 5, -3, 0, INT32_MIN, INT32_MAX, 5};
	static const size_t order[] = {6, 1, 2, 7, 0, 4, 3, 5};
	struct rig g;
	(void)state;

	for (uint64_t n_clients = 1; n_clients <= 8; n_clients += 7) {
		rig_init(&g, INFINITY);
		for (size_t i = 0; i < 8; i++)
			rig_push(&g, i % n_clients * UINT64_MAX, priorities[i], 0);
		for (size_t i = 0; i < 8; i++)
			assert_ptr_equal(rig_admit(&g, 0), &g.items[order[i]]);
		assert_null(queue_first(g.q, 0));
		queue_free(g.q);
	}
}

/* Counters stop at the end of their range instead of starting over. */
static void counters_end(void **state)
{
	struct rig g;
	(void)state;

	rig_init(&g, INFINITY);
	struct queue_item *a = rig_push(&g, 1, 0, 0);
	rig_push(&g, 1, 0, 0);
	rig_push(&g, 2, 0, 0);
	queue_admit(g.q, a);
	queue_serve(g.q, a, INT64_MAX);
	queue_serve(g.q, a, INT64_MAX);
	assert_int_equal(rig_admit(&g, 0)->client, 2);
	assert_true(queue_consistent(g.q));
	queue_free(g.q);
}

/* ---- Memory and size ---- */

/* Every push with its first allocation failing, then its second, and so on until it comes through. The queue is as it
 * was each time, and in the end as one to which nothing happened. */
static void push_without_memory(void **state)
{
	enum { N = 1200 };
	struct queue_item *a = mem_zalloc(N, sizeof *a), *b = mem_zalloc(N, sizeof *b);
	struct queue *q, *twin = queue_open(INFINITY);
	int64_t n_points = 0, most = 0;
	(void)state;

	for (int64_t k = 0;; k++) {
		mem_fail_after(k);
		q = queue_open(INFINITY);
		mem_fail_after(-1);
		if (q)
			break;
		most = k + 1;
	}
	assert_int_equal(most, 3);
	most = 0;
	for (size_t i = 0; i < N; i++) {
		/* New clients, one with many requests, and some that come back. */
		b[i].client = a[i].client = i % 3 == 0 ? 0 : i % 5 == 0 ? 1 : i;
		b[i].priority = a[i].priority = (int32_t)(i % 4);
		b[i].n_tokens = a[i].n_tokens = 1;
		assert_true(queue_push(twin, &b[i]));
		for (int64_t k = 0;; k++) {
			struct queue_item *first = queue_first(q, 0), *oldest = queue_oldest(q);
			mem_fail_after(k);
			const bool pushed = queue_push(q, &a[i]);
			mem_fail_after(-1);
			if (pushed)
				break;
			assert_ptr_equal(queue_first(q, 0), first);
			assert_ptr_equal(queue_oldest(q), oldest);
			assert_int_equal(queue_depth(q), i / 7 * 6 + i % 7);
			assert_int_equal(queue_tokens(q), queue_depth(q));
			assert_true(queue_consistent(q));
			n_points++;
			most = k + 1 > most ? k + 1 : most;
		}
		if (i % 7 == 6) {
			queue_remove(q, &a[i]);
			queue_remove(twin, &b[i]);
		}
	}
	/* The record, its heap, both heaps of clients, the table: three of them at least in one push. */
	assert_true(n_points > N && most >= 3);
	while (queue_depth(twin)) {
		struct queue_item *x = queue_first(q, 0), *y = queue_first(twin, 0);
		assert_int_equal(x - a, y - b);
		queue_admit(q, x);
		queue_admit(twin, y);
		queue_serve(q, x, x - a);
		queue_serve(twin, y, x - a);
	}
	assert_null(queue_first(q, 0));
	assert_true(queue_consistent(q) && queue_consistent(twin));
	queue_free(q);
	queue_free(twin);
	mem_free(a);
	mem_free(b);
}

/* 100,000 requests of 10,000 clients, whose ids are alike in all but their high bits: everybody gets a first turn, then
 * everybody a second. */
static void many_clients(void **state)
{
	enum { CLIENTS = 10000, EACH = 10 };
	struct queue_item *items = mem_zalloc(CLIENTS * EACH, sizeof *items);
	struct queue *q = queue_open(INFINITY);
	uint8_t *n_turns = mem_zalloc(CLIENTS, 1);
	(void)state;

	for (size_t i = 0; i < CLIENTS * EACH; i++) {
		items[i] = (struct queue_item){.client = (uint64_t)(i / EACH) << 48 | (i / EACH) >> 16, .n_tokens = 3};
		assert_true(queue_push(q, &items[i]));
	}
	assert_true(queue_consistent(q));
	assert_int_equal(queue_tokens(q), 3 * CLIENTS * EACH);
	mem_fail_all(true);
	for (size_t i = 0; i < CLIENTS * EACH; i++) {
		struct queue_item *it = queue_first(q, 0);
		queue_admit(q, it);
		queue_serve(q, it, 5);
		queue_serve(q, it, 95);
		queue_done(q, it);
		assert_int_equal(n_turns[(it - items) / EACH]++, i / CLIENTS);
	}
	mem_fail_all(false);
	assert_true(queue_consistent(q));
	assert_int_equal(queue_depth(q), 0);
	queue_free(q);
	queue_free(NULL);
	mem_free(items);
	mem_free(n_turns);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
			cmocka_unit_test(queue_random_operations),
			cmocka_unit_test(one_beside_fifty),
			cmocka_unit_test(equal_shares),
			cmocka_unit_test(tokens_not_turns),
			cmocka_unit_test(idling_saves_nothing),
			cmocka_unit_test(leaving_does_not_pay),
			cmocka_unit_test(old_low_priority),
			cmocka_unit_test(waiting_is_bounded),
			cmocka_unit_test(cancel_anywhere),
			cmocka_unit_test(order_of_equals),
			cmocka_unit_test(counters_end),
			cmocka_unit_test(push_without_memory),
			cmocka_unit_test(many_clients),
	};

	return cmocka_run_group_tests_name("engine_queue", tests, NULL, NULL);
}
