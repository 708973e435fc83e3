/* The tick: late and cancelled requests end, the next ones are admitted, the strategy plans, rows are computed, readers
 * and callbacks get their events.
 *
 * Invariants
 *  1. The strategy sees copies; what it returns is checked (answer.c) before it is used. A bad answer costs the
 * strategy its tick: the default plans it.
 *  2. The queue is touched under the lock only, streams and slots by the ticking thread only.
 *  3. A tick allocates nothing, unless it preempts streams to memory, or a text outgrows what was taken for it. */
#include "engine/policy.h"
#include "engine/room.h"
#include "engine/stream.h"

#include "base/mem.h"

#include <math.h>
#include <string.h>

/* ---- Opening ---- */

static bool piece_init(struct piece *p, size_t n)
{
	p->tokens = mem_zalloc(n, sizeof *p->tokens);
	p->pos = mem_zalloc(n, sizeof *p->pos);
	p->seq = mem_zalloc(n, sizeof *p->seq);
	p->output = mem_zalloc(n, sizeof *p->output);
	p->of = mem_zalloc(n, sizeof *p->of);
	return p->tokens && p->pos && p->seq && p->output && p->of;
}

static void piece_release(struct piece *p)
{
	mem_free(p->tokens);
	mem_free(p->pos);
	mem_free(p->seq);
	mem_free(p->output);
	mem_free(p->of);
}

static bool open_parts(struct core *c)
{
	const struct core_limits *lim = &c->lim;
	const size_t n = (size_t)lim->n_slots, n_ubatch = (size_t)lim->n_ubatch;
	const size_t n_path = (size_t)lim->n_pos_max / (size_t)lim->block_size + 1;

	c->hub = hub_open();
	c->shared.queue = queue_open(lim->wait_max_s);
	c->slots = mem_zalloc(n + AHEAD, sizeof(struct stream *));
	c->idle = mem_zalloc(n, sizeof *c->idle);
	c->plan.views = mem_zalloc_aligned(n, sizeof *c->plan.views);
	c->plan.view_of = mem_zalloc(n, sizeof *c->plan.view_of);
	c->plan.active = mem_zalloc(n + AHEAD, sizeof(struct stream *));
	c->plan.taken = mem_zalloc(n, sizeof *c->plan.taken);
	c->plan.entries = mem_zalloc_guarded((size_t)lim->budget + ENTRIES_BEYOND, sizeof *c->plan.entries);
	c->path = mem_zalloc(n_path, sizeof *c->path);
	c->shared.infos = mem_zalloc(n, sizeof *c->shared.infos);
	c->grown = mem_zalloc(n_ubatch, sizeof(struct stream *));
	c->planner.default_state = mem_zalloc(1, cohort_strategy_get(0)->state_bytes);
	c->planner.state = mem_zalloc(1, c->planner.strategy->state_bytes);
	if (lim->keep_tokens) {
		c->kept = mem_zalloc(n, sizeof *c->kept);
		c->kept_tokens = mem_zalloc(n, (size_t)lim->n_pos_max * sizeof *c->kept_tokens);
	}
	bool ok = piece_init(&c->piece, n_ubatch);
	ok = piece_init(&c->spare, n_ubatch) && ok;
	if (lim->n_ids)
		c->prefix = prefix_open(&(struct prefix_limits){
				.block_size = lim->block_size,
				.first_id = lim->n_slots,
				.n_ids = lim->n_ids,
				.n_nodes_max = policy_n_nodes(c, (int32_t)n_path),
		});
	return ok && c->hub && c->shared.queue && c->slots && c->idle && c->plan.views && c->plan.view_of &&
			c->plan.active && c->plan.taken && c->plan.entries && c->path && c->shared.infos && c->grown &&
			c->planner.default_state && c->planner.state &&
			(!lim->keep_tokens || (c->kept && c->kept_tokens)) && (c->prefix || !lim->n_ids);
}

enum cohort_status core_init(struct core *c, const struct core_limits *lim, const struct machine *m,
		const struct cohort_strategy *strategy, struct cohort_err *err)
{
	*c = (struct core){.lim = *lim, .m = *m, .policy = policy_of(lim), .shared.next_expiry = INFINITY};
	if (lim->block_size < 1 || (lim->block_size & (lim->block_size - 1)))
		return err_set(err, COHORT_E_ARG, "blocks of %d: not a power of two", lim->block_size);
	if (strategy && !strategy_is_whole(strategy))
		return err_set(err, COHORT_E_ARG, "a strategy without a name, a build_batch or its struct_size");
	if (!cond_init(&c->shared.looked))
		return err_set(err, COHORT_E_MEMORY, "out of memory for an engine");
	while (1 << c->block_shift < lim->block_size)
		c->block_shift++;
	c->planner.strategy = strategy ? strategy : cohort_strategy_get(0);
	c->last_changed = &c->changed;
	if (!open_parts(c)) {
		core_release(c);
		return err_set(err, COHORT_E_MEMORY, "out of memory for an engine of %d slots", lim->n_slots);
	}
	c->n_idle = lim->n_slots;
	for (int32_t i = 0; i < lim->n_slots; i++) {
		c->idle[i] = lim->n_slots - 1 - i;
		c->shared.infos[i].id = i;
	}
	c->shared.stats.strategy = c->live.strategy = c->planner.strategy->name;
	c->shared.stats.last.n_idle = c->live.last.n_idle = lim->n_slots;
	core_count_blocks(c);
	c->opened_s = m->now(m->self);
	return COHORT_OK;
}

void core_release(struct core *c)
{
	piece_release(&c->piece);
	piece_release(&c->spare);
	prefix_free(c->prefix);
	queue_free(c->shared.queue);
	void *const arrays[] = {c->slots, c->idle, c->plan.view_of, c->plan.active, c->plan.taken, c->path, c->grown,
			c->shared.infos, c->shared.next_state, c->planner.default_state, c->planner.state, c->kept,
			c->kept_tokens};
	for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++)
		mem_free(arrays[i]);
	mem_free_aligned(c->plan.views);
	mem_free_guarded(c->plan.entries, (size_t)c->lim.budget + ENTRIES_BEYOND, sizeof *c->plan.entries);
	hub_unref(c->hub);
	if (c->planner.strategy)
		cond_release(&c->shared.looked);
	*c = (struct core){.n_idle = 0};
}

enum cohort_status core_strategy_set(struct core *c, const struct cohort_strategy *strategy, struct cohort_err *err)
{
	const struct cohort_strategy *next = strategy ? strategy : cohort_strategy_get(0);

	if (!strategy_is_whole(next))
		return err_set(err, COHORT_E_ARG, "a strategy without a name, a build_batch or its struct_size");
	void *state = mem_zalloc(1, next->state_bytes), *unused;
	if (!state)
		return err_set(err, COHORT_E_MEMORY, "out of memory for the state of strategy %s", next->name);
	lock_take(&c->hub->lock);
	unused = c->shared.next_state;
	c->shared.next_strategy = next;
	c->shared.next_state = state;
	lock_give(&c->hub->lock);
	mem_free(unused);
	return COHORT_OK;
}

/* ---- Submitting ---- */

/* Under the lock. Beside the bounds of all, a client that is told apart leaves room for others: what it has waiting
 * already is no more than what is free with the new request. So a client alone fills half of the queue, two fill a
 * third each, and so on; a client that has nothing waiting is refused only when the queue itself is full. */
static enum cohort_status check_queue(struct core *c, uint64_t client, int32_t n_tokens, struct cohort_err *err)
{
	const int64_t depth = (int64_t)queue_depth(c->shared.queue), tokens = queue_tokens(c->shared.queue);
	int64_t own = 0, own_tokens = 0;

	if (c->shared.closed)
		return err_rule(err, COHORT_E_LIMIT, "closed", -1, -1, 0, 1, "the engine takes no more requests");
	if (depth + 1 > c->lim.queue_requests_max)
		return err_rule(err, COHORT_E_LIMIT, "queue-requests", -1, -1, c->lim.queue_requests_max, depth + 1,
				"the queue is full: %lld requests wait, and %d may", (long long)depth,
				c->lim.queue_requests_max);
	if (tokens + n_tokens > c->lim.queue_tokens_max)
		return err_rule(err, COHORT_E_LIMIT, "queue-tokens", -1, -1, c->lim.queue_tokens_max, tokens + n_tokens,
				"the queue is full: %lld requests with %lld tokens wait; with %d more they exceed %lld",
				(long long)depth, (long long)tokens, n_tokens, (long long)c->lim.queue_tokens_max);
	if (client)
		queue_held(c->shared.queue, client, &own, &own_tokens);
	const int64_t left = c->lim.queue_requests_max - depth - 1;
	const int64_t left_tokens = c->lim.queue_tokens_max - tokens - n_tokens;
	if (own > left || own_tokens > left_tokens)
		return err_rule(err, COHORT_E_LIMIT, "queue-share", -1, -1, own > left ? left : left_tokens,
				own > left ? own : own_tokens,
				"this client's share of the queue is full: it has %lld requests with %lld tokens "
				"waiting; the rest is kept for others",
				(long long)own, (long long)own_tokens);
	return COHORT_OK;
}

enum cohort_status core_may_submit(struct core *c, uint64_t client, int32_t n_tokens, struct cohort_err *err)
{
	lock_take(&c->hub->lock);
	enum cohort_status st = check_queue(c, client, n_tokens, err);
	lock_give(&c->hub->lock);
	return st;
}

/* When a request that waits is too late; the limit that says so in *which. */
static double queue_expiry(const struct cohort_request *r, const char **which)
{
	const double a = r->p.queue_limit_s > 0 ? r->p.queue_limit_s : INFINITY;
	const double b = r->p.total_limit_s > 0 ? r->p.total_limit_s : INFINITY;

	*which = a <= b ? "queue-limit" : "total-limit";
	return r->at_came + (a < b ? a : b);
}

enum cohort_status core_submit(struct core *c, struct cohort_request *r, struct cohort_err *err)
{
	const char *which;

	lock_take(&c->hub->lock);
	enum cohort_status st = check_queue(c, r->p.client, r->p.n_prompt, err);
	if (!st) {
		r->at_came = r->item.arrived_s = c->m.now(c->m.self);
		r->item.number = r->id = c->shared.n_requests + 1;
		if (!queue_push(c->shared.queue, &r->item))
			st = err_set(err, COHORT_E_MEMORY, "out of memory for a request in the queue");
	}
	if (!st) {
		for (int32_t i = 0; i < r->p.n_outputs; i++)
			r->streams[i].at_came = r->at_came;
		c->shared.n_requests++;
		c->shared.n_open++;
		c->shared.n_submitted++;
		request_tell_stats(r, COHORT_FINISH_NONE);
		c->shared.next_expiry = fmin(c->shared.next_expiry, queue_expiry(r, &which));
	}
	lock_give(&c->hub->lock);
	return st;
}

/* ---- Limits in time ---- */

static void time_out(struct core *c, struct cohort_request *r, const char *which, double limit_s)
{
	struct cohort_err err;
	err_rule(&err, COHORT_E_LIMIT, which, -1, -1, 0, 0, "%s: more than the %g seconds it may take", which, limit_s);
	request_end(c, r, COHORT_FINISH_TIMEOUT, &err);
}

/* Under the lock: requests in the queue that are too late, or cancelled. */
static void expire_queue(struct core *c, double now)
{
	const unsigned n_cancels = atomic_load(&c->hub->n_cancels);
	double next = INFINITY;

	if (n_cancels == c->n_cancels_seen && now < c->shared.next_expiry)
		return;
	c->n_cancels_seen = n_cancels;
	for (struct queue_item *i = queue_oldest(c->shared.queue), *newer; i; i = newer) {
		struct cohort_request *r = (struct cohort_request *)i;
		const char *which;
		const double expiry = queue_expiry(r, &which);
		const bool cancelled = atomic_load(&r->cancelled);
		newer = i->newer;
		if (!cancelled && now < expiry) {
			next = fmin(next, expiry);
			continue;
		}
		queue_remove(c->shared.queue, i);
		if (cancelled)
			request_end(c, r, COHORT_FINISH_CANCELLED, NULL);
		else
			time_out(c, r, which, expiry - r->at_came);
	}
	c->shared.next_expiry = next;
}

static void expire_slots(struct core *c, double now)
{
	const unsigned n_cancels = atomic_load(&c->hub->n_cancels);

	if (c->n_limited == 0 && n_cancels == c->n_cancels_ended)
		return;
	c->n_cancels_ended = n_cancels;
	for (int32_t i = 0; i < c->lim.n_slots; i++) {
		if (!c->slots[i])
			continue;
		struct cohort_request *r = c->slots[i]->request;
		const struct cohort_request_params *p = &r->p;
		if (atomic_load_explicit(&r->cancelled, memory_order_relaxed))
			request_end(c, r, COHORT_FINISH_CANCELLED, NULL);
		else if (p->total_limit_s > 0 && now - r->at_came >= p->total_limit_s)
			time_out(c, r, "total-limit", p->total_limit_s);
		else if (p->prefill_limit_s > 0 && r->at_first < 0 && now - r->at_admitted >= p->prefill_limit_s)
			time_out(c, r, "prefill-limit", p->prefill_limit_s);
		else if (p->decode_limit_s > 0 && r->at_first >= 0 && now - r->at_first >= p->decode_limit_s)
			time_out(c, r, "decode-limit", p->decode_limit_s);
	}
}

/* ---- Planning ---- */

static void build_views(struct core *c, double now)
{
	const int32_t n_slots = c->lim.n_slots;
	int32_t n = 0;

	for (int32_t i = 0; i < n_slots; i++) {
		struct stream *s = c->slots[i];
		/* Streams lie anywhere in memory; this is the first that a tick sees of them. */
		__builtin_prefetch(c->slots[i + AHEAD]);
		c->plan.view_of[i] = -1;
		if (!stream_is_active(s))
			continue;
		const bool generates = s->phase == STREAM_GENERATES;
		c->plan.view_of[i] = n;
		c->plan.active[n] = s;
		c->plan.views[n++] = (struct cohort_slot){
				.id = i,
				.state = generates ? COHORT_SLOT_GENERATING : COHORT_SLOT_PREFILLING,
				.prompt = s->known,
				.n_prompt = generates ? s->n_prompt : s->n_known,
				.n_prefilled = generates ? s->n_prompt : s->n_cached,
				.pending = generates ? s->last : -1,
				.pos = s->n_cached,
				.batch_index = -1,
				.priority = s->priority,
				.client = s->client,
				.age_s = (float)(now - s->at_came),
				.n_generated = stream_n_generated(s),
				.n_left = s->n_max - stream_n_generated(s),
		};
	}
	c->plan.n_views = n;
	c->plan.lost = false;
}

static enum cohort_status ask(
		struct core *c, const struct cohort_strategy *strategy, void *state, struct cohort_err *err)
{
	struct cohort_plan plan = {
			.slots = c->plan.views,
			.n_slots = c->plan.n_views,
			.budget = c->lim.budget,
			.chunk_size = c->lim.chunk_size,
			.queue_depth = c->tick.n_queued,
			.tick = c->tick.tick,
			.model = c->lim.model,
			.entries = c->plan.entries,
	};
	const enum cohort_status said = strategy->build_batch(strategy, state, &plan);
	enum cohort_status st = answer_check(c, &plan, said, err);
	c->plan.n_entries = st ? 0 : plan.n_entries;
	return st;
}

static void plan_tick(struct core *c, double now)
{
	struct cohort_err err;

	if (!ask(c, c->planner.strategy, c->planner.state, &err))
		return;
	c->live.n_fallbacks++;
	c->live.fallback = err;
	c->tick.fallback = err.rule;
	build_views(c, now); /* the strategy had its hands on them */
	ask(c, cohort_strategy_get(0), c->planner.default_state, &err);
}

/* ---- The tick ---- */

/* Under the lock. */
static void begin(struct core *c, double now)
{
	if (c->shared.next_strategy) {
		mem_free(c->planner.state);
		c->planner.strategy = c->shared.next_strategy;
		c->planner.state = c->shared.next_state;
		c->shared.next_strategy = NULL;
		c->shared.next_state = NULL;
		/* Statistics have the name until the next strategy takes over. A caller that reads another name may
		 * free this strategy. */
		c->shared.stats.strategy = c->live.strategy = c->planner.strategy->name;
	}
	expire_queue(c, now);
}

static void look_at(struct core *c, int32_t i, double now)
{
	const struct stream *s = c->slots[i];
	struct cohort_slot_info *info = &c->shared.infos[i];

	*info = (struct cohort_slot_info){.id = i};
	if (!s)
		return;
	const struct cohort_request *r = s->request;
	const enum cohort_slot_state state = s->phase == STREAM_PREEMPTED ? COHORT_SLOT_PARKED
			: s->phase == STREAM_GENERATES                    ? COHORT_SLOT_GENERATING
									  : COHORT_SLOT_PREFILLING;
	const int32_t n_cached = state == COHORT_SLOT_PARKED ? 0 : s->n_cached;
	*info = (struct cohort_slot_info){
			.id = i,
			.state = state,
			.request = r->id,
			.output = s->index,
			.n_prompt = r->p.n_prompt,
			.n_cached = n_cached,
			.n_generated = stream_n_generated(s),
			.n_blocks = c->lim.n_blocks ? (n_cached + c->lim.block_size - 1) / c->lim.block_size : 0,
			.priority = r->p.priority,
			.client = r->p.client,
			.session = r->p.session,
			.age_s = now - r->at_came,
	};
}

void core_look(struct core *c)
{
	const double now = c->m.now(c->m.self);
	for (int32_t i = 0; i < c->lim.n_slots; i++)
		look_at(c, i, now);
	c->shared.infos_asked = false;
	c->shared.n_infos++;
	cond_all(&c->shared.looked);
}

static void count_blocks(const struct core *c, struct cohort_tick *t)
{
	const int32_t held = c->prefix ? prefix_n_held(c->prefix) : 0,
		      pinned = c->prefix ? prefix_n_pinned(c->prefix) : 0;

	t->n_blocks = c->lim.n_blocks;
	/* States are no blocks: where there are none, none are used. */
	t->n_blocks_used = c->lim.n_blocks ? c->blocks.n_private + pinned : 0;
	t->n_blocks_cached = c->lim.n_blocks ? held - pinned : 0;
	t->n_blocks_free = c->lim.n_blocks ? c->lim.n_blocks - c->blocks.n_private - held : 0;
}

void core_count_blocks(struct core *c)
{
	count_blocks(c, &c->live.last);
	count_blocks(c, &c->shared.stats.last);
	c->shared.stats.n_evicted = c->live.n_evicted;
}

void core_sum_up(struct core *c)
{
	struct cohort_tick *t = &c->tick;
	struct cohort_engine_stats *live = &c->live;

	t->n_queued = (int32_t)queue_depth(c->shared.queue);
	t->n_queued_tokens = queue_tokens(c->shared.queue);
	const double now = c->m.now(c->m.self);
	if (c->shared.infos_asked)
		core_look(c);
	t->n_idle = c->n_idle;
	t->n_parked = (int32_t)c->n_in[STREAM_PREEMPTED];
	t->n_generating = (int32_t)c->n_in[STREAM_GENERATES];
	t->n_prefilling = (int32_t)(c->n_in[STREAM_PREFILLS] + c->n_in[STREAM_WAITS]);
	count_blocks(c, t);
	t->total_s = now - c->opened_s - t->at_s;
	live->last = *t;
	live->n_ticks++;
	live->n_submitted = c->shared.n_submitted;
	live->n_refused = c->shared.n_refused;
	live->n_decode_rows += (uint64_t)t->n_decode_rows;
	live->n_prefill_rows += (uint64_t)t->n_prefill_rows;
	live->n_sampled += (uint64_t)t->n_sampled;
	live->total_s += t->total_s;
	live->decode_s += t->decode_s;
	live->sample_s += t->sample_s;
	struct cohort_engine_stats stats = *live;
	memcpy(stats.n_ended, c->shared.stats.n_ended, sizeof stats.n_ended);
	c->shared.stats = stats;
}

bool core_is_idle(const struct core *c)
{
	return c->shared.n_open == 0;
}

static double tick_begin(struct core *c)
{
	const double start = c->m.now(c->m.self);

	c->tick = (struct cohort_tick){.tick = c->live.n_ticks + 1, .at_s = start - c->opened_s};
	return start;
}

static void tick_end(struct core *c)
{
	core_deliver(c);
	if (c->on_tick)
		c->on_tick(&c->tick, c->on_tick_user);
}

bool core_tick(struct core *c)
{
	const double start = tick_begin(c);

	expire_slots(c, start);
	lock_take(&c->hub->lock);
	const bool errands = c->shared.next_strategy || c->shared.clear_cache;
	begin(c, start);
	const bool clear = c->shared.clear_cache;
	c->shared.clear_cache = false;
	lock_give(&c->hub->lock);
	if (clear)
		room_empty(c);
	room_admit(c);
	build_views(c, start);
	if (c->plan.n_views == 0 && !c->changed && !errands)
		return false;
	if (c->plan.n_views > 0) {
		plan_tick(c, start);
		room_make(c);
		c->policy->run(c);
	}
	tick_end(c);
	return true;
}

/* A tick of its own, if there is anything to end. */
void core_shut(struct core *c)
{
	tick_begin(c);
	lock_take(&c->hub->lock);
	c->shared.closed = true;
	for (struct queue_item *i; (i = queue_oldest(c->shared.queue));) {
		queue_remove(c->shared.queue, i);
		request_end(c, (struct cohort_request *)i, COHORT_FINISH_SHUTDOWN, NULL);
	}
	lock_give(&c->hub->lock);
	for (int32_t i = 0; i < c->lim.n_slots; i++)
		if (c->slots[i])
			request_end(c, c->slots[i]->request, COHORT_FINISH_SHUTDOWN, NULL);
	if (c->changed)
		tick_end(c);
}
