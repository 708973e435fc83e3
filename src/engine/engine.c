/* The engine: a core, a context for it, and the thread that ticks.
 *
 * Invariants
 *  1. The context and everything of the core that is not under the lock belong to one thread: the engine's own, or with
 *     `manual` the caller's.
 *  2. The thread ends only when it is told to: whatever goes wrong in a tick is a request's end, or a status.
 *  3. Handles outlive the engine: they share only the hub with it. */
#include "engine/cache.h"

#include "base/mem.h"
#include "base/params.h"
#include "base/pool.h"
#include "base/thread.h"

#include <math.h>

struct cohort_engine {
	struct core core;
	struct cohort_context *ctx;
	struct thread thread;
	bool manual, has_conds, has_thread;
	bool repacked; /* the thread's: nothing is left to repack while there is nothing to do */
	struct cond work; /* the thread waits for it */
	struct cond idle; /* threads that drain wait for it, and those that have an errand done */
	/* Under the lock: */
	struct errand *errands; /* to be done: the first came first */
	bool shut; /* everything is to end */
	bool exit;
	bool ticking; /* a tick of a manual engine is under way, */
	bool running; /* or an errand, */
	struct thread ticker; /* by this thread */
};

struct errand {
	void (*fn)(struct core *c, void *arg);
	void *arg;
	bool done; /* under the lock */
	struct errand *next;
};

void cohort_engine_params_init(struct cohort_engine_params *params)
{
	if (!params)
		return;
	*params = (struct cohort_engine_params){
			.struct_size = sizeof *params,
			.n_slots = 8,
			.chunk_size = 512,
			.queue_requests_max = 1024,
			.queue_tokens_max = 1 << 20,
			.wait_max_s = 30,
	};
	cohort_context_params_init(&params->context);
}

/* ---- The thread ---- */

static bool has_errands(const struct core *c)
{
	return c->shared.next_strategy || c->shared.clear_cache;
}

/* With the lock, which is given while it is under way: the first errand there is. One between two ticks, so that many
 * of them do not keep requests waiting. */
static void run_errand(struct cohort_engine *e)
{
	struct errand *errand = e->errands;

	e->errands = errand->next;
	lock_give(&e->core.hub->lock);
	errand->fn(&e->core, errand->arg);
	lock_take(&e->core.hub->lock);
	core_count_blocks(&e->core);
	errand->done = true;
	cond_all(&e->idle);
}

static void loop(void *arg)
{
	struct cohort_engine *e = arg;
	struct core *c = &e->core;
	struct lock *lock = &c->hub->lock;

	lock_take(lock);
	while (!e->exit) {
		if (e->shut) {
			e->shut = false;
			lock_give(lock);
			core_shut(c);
			lock_take(lock);
			continue;
		}
		const bool ran = e->errands;
		if (ran)
			run_errand(e);
		if (core_is_idle(c) && !has_errands(c)) {
			if (ran) /* what came meanwhile was not looked at */
				continue;
			cond_all(&e->idle);
			if (e->repacked) {
				cond_wait(&e->work, lock);
				continue;
			}
			lock_give(lock);
			e->repacked = cohort_repack(e->ctx, 0) >= 1;
			lock_take(lock);
			continue;
		}
		lock_give(lock);
		core_tick(c);
		lock_take(lock);
	}
	lock_give(lock);
	core_shut(c);
	lock_take(lock);
	cond_all(&e->idle);
	lock_give(lock);
}

static bool asked_to_stop(void *user)
{
	return atomic_load(&((struct core *)user)->stop);
}

/* ---- Opening ---- */

/* Sequences that a context can have. */
enum { SEQS_MAX = 65536 };

static enum cohort_status check_params(const struct cohort_engine_params *p, struct cohort_err *err)
{
	const struct {
		const char *name;
		int64_t value, min, max;
	} ranges[] = {
			{"n_slots", p->n_slots, 1, SEQS_MAX},
			/* A context refuses an n_batch below 1 by itself. */
			{"budget", p->budget, 0, p->context.n_batch > 0 ? p->context.n_batch : INT32_MAX},
			{"chunk_size", p->chunk_size, 1, INT32_MAX},
			{"queue_requests_max", p->queue_requests_max, 1, INT32_MAX},
			{"queue_tokens_max", p->queue_tokens_max, 1, INT64_MAX},
			{"room", p->room, COHORT_ROOM_RESERVE, COHORT_ROOM_OVERCOMMIT},
	};
	for (size_t i = 0; i < sizeof ranges / sizeof *ranges; i++)
		if (err_range(err, ranges[i].name, ranges[i].value, ranges[i].min, ranges[i].max))
			return COHORT_E_ARG;
	return err_real(err, "wait_max_s", p->wait_max_s, 0, INFINITY);
}

/* What an engine decides itself is not to be asked for: it would be ignored. */
static enum cohort_status check_context(const struct cohort_context_params *p, struct cohort_err *err)
{
	struct cohort_context_params usual;

	cohort_context_params_init(&usual);
	const struct {
		const char *name, *instead;
		bool given;
	} own[] = {
			{"abort", "cancel requests, or free the engine", p->abort != NULL},
			{"n_seq_max", "it has n_slots and ids for cached prompts", p->n_seq_max != usual.n_seq_max},
			{"split", "its rows are cut in order", p->split != usual.split},
			{"pooling", "a request names its own", p->pooling != usual.pooling},
			{"output_all", "rows have outputs as requests need them", p->output_all},
			{"n_checkpoints", "cached prompts are its own", p->n_checkpoints != usual.n_checkpoints},
	};
	for (size_t i = 0; i < sizeof own / sizeof *own; i++)
		if (own[i].given)
			return err_rule(err, COHORT_E_ARG, own[i].name, -1, -1, 0, 0,
					"context.%s cannot be set for an engine: %s; leave it as "
					"cohort_engine_params_init has it",
					own[i].name, own[i].instead);
	return COHORT_OK;
}

/* Sequence ids for cached prompts: one for every block. A table of all of them has entries for all positions, so that
 * very long contexts get fewer: 2^27 entries are a gigabyte of address space. */
static int32_t count_ids(const struct cohort_engine_params *p, const struct cohort_model_info *info,
		const struct cohort_room_info *room)
{
	const int64_t n_blocks = room->n_blocks;
	const int64_t n_index = info->n_ctx_train / room->block_size + 1, most = ((int64_t)1 << 27) / n_index;
	const int64_t left = p->n_slots < SEQS_MAX ? SEQS_MAX - p->n_slots - 1 : 0; /* one is the scratch */
	int64_t n = info->recurrent ? 4 * (int64_t)p->n_slots : n_blocks < most ? n_blocks : most > 64 ? most : 64;

	if (p->no_reuse || info->encoder)
		n = 0;
	return (int32_t)(n < left ? n : left);
}

static struct core_limits limits_of(const struct cohort_engine_params *p, const struct cohort_model *model,
		const struct cohort_model_info *info, const struct cohort_room_info *room, int32_t n_ids)
{
	return (struct core_limits){
			.model = model,
			.n_vocab = info->n_vocab,
			.n_embd = info->n_embd,
			.n_slots = p->n_slots,
			.n_ubatch = p->context.n_ubatch,
			.budget = p->budget ? p->budget : p->context.n_batch,
			.chunk_size = p->chunk_size,
			.block_size = room->block_size,
			.n_blocks = room->n_blocks,
			.n_pos_max = room->n_pos_max,
			.n_ids = n_ids,
			.scratch = n_ids ? p->n_slots + n_ids : 0,
			.keep_tokens = p->keep_tokens,
			.n_window = n_ids ? info->n_window : 0,
			.recurrent = info->recurrent,
			.encoder = info->encoder,
			.text = info->tokenizer[0] != 0,
			.logits = (p->context.outputs & COHORT_OUTPUT_LOGITS) != 0,
			.embeddings = (p->context.outputs & COHORT_OUTPUT_EMBEDDINGS) != 0,
			.overcommit = p->room == COHORT_ROOM_OVERCOMMIT,
			.swap_bytes = p->swap_bytes,
			.queue_requests_max = p->queue_requests_max,
			.queue_tokens_max = p->queue_tokens_max,
			.wait_max_s = p->wait_max_s,
	};
}

static enum cohort_status open_all(struct cohort_engine *e, const struct cohort_model *model,
		struct cohort_engine_params *p, struct cohort_err *err)
{
	struct cohort_model_info info = {.struct_size = sizeof info};
	struct cohort_context_params *cp = &p->context;
	struct cohort_room_info room;

	cohort_model_info_get(model, &info);
	const struct cohort_room_params rp = {sizeof rp, model, cp->n_ctx, cp->n_blocks, .n_seq_max = p->n_slots};
	enum cohort_status st = cohort_room_needed(&rp, &room, err);
	if (st)
		return st;
	if (cp->n_blocks == 0)
		cp->n_blocks = room.n_blocks;
	const int32_t n_ids = count_ids(p, &info, &room);
	if (!info.encoder && !(cp->outputs & COHORT_OUTPUT_LOGITS))
		return err_set(err, COHORT_E_ARG, "an engine needs logits among its context's outputs");
	if (cp->n_ubatch > cp->n_batch)
		cp->n_ubatch = cp->n_batch;
	cp->n_seq_max = p->n_slots + n_ids + (n_ids > 0);
	cp->abort = asked_to_stop;
	cp->abort_user = &e->core;
	cp->split = COHORT_SPLIT_SIMPLE;
	cp->pooling = COHORT_POOL_NONE;
	cp->output_all = false;
	cp->n_checkpoints = 0;
	st = cohort_context_open(model, cp, &e->ctx, err);
	if (st)
		return st;
	const struct core_limits lim = limits_of(p, model, &info, &room, n_ids);
	const struct machine m = machine_of_context(e->ctx);
	st = core_init(&e->core, &lim, &m, p->strategy, err);
	if (st)
		return st;
	e->core.on_tick = p->on_tick;
	e->core.on_tick_user = p->on_tick_user;
	e->manual = p->manual;
	if (!cond_init(&e->work))
		return err_set(err, COHORT_E_MEMORY, "out of memory for an engine");
	if (!cond_init(&e->idle)) {
		cond_release(&e->work);
		return err_set(err, COHORT_E_MEMORY, "out of memory for an engine");
	}
	e->has_conds = true;
	if (!e->manual && !thread_start(&e->thread, "cohort-engine", loop, e))
		return err_set(err, COHORT_E_MEMORY, "no thread for the engine");
	e->has_thread = !e->manual;
	return COHORT_OK;
}

enum cohort_status cohort_engine_open(const struct cohort_model *model, const struct cohort_engine_params *params,
		struct cohort_engine **out, struct cohort_err *err)
{
	struct cohort_engine_params p;

	if (!model || !out)
		return err_set(err, COHORT_E_ARG, "%s is NULL", model ? "out" : "model");
	cohort_engine_params_init(&p);
	if (params && !params_take(&p, sizeof p, params))
		return err_set(err, COHORT_E_ARG,
				"engine parameters were not initialised by cohort_engine_params_init");
	enum cohort_status st = check_params(&p, err);
	if (!st)
		st = check_context(&p.context, err);
	if (st)
		return st;
	struct cohort_engine *e = mem_zalloc(1, sizeof *e);
	if (!e)
		return err_set(err, COHORT_E_MEMORY, "out of memory for an engine");
	st = open_all(e, model, &p, err);
	if (st) {
		cohort_engine_free(e);
		return st;
	}
	*out = e;
	return COHORT_OK;
}

void cohort_engine_free(struct cohort_engine *e)
{
	if (!e)
		return;
	atomic_store(&e->core.stop, true);
	if (e->has_thread) {
		lock_take(&e->core.hub->lock);
		e->exit = true;
		cond_all(&e->work);
		lock_give(&e->core.hub->lock);
		thread_join(&e->thread);
	} else if (e->core.hub) {
		core_shut(&e->core);
	}
	core_release(&e->core);
	if (e->has_conds) {
		cond_release(&e->work);
		cond_release(&e->idle);
	}
	cohort_context_free(e->ctx);
	mem_free(e);
}

/* ---- Errands ---- */

const struct core *engine_core(const struct cohort_engine *e)
{
	return &e->core;
}

/* By the calling thread: for others it is the one that ticks meanwhile. */
static void run_here(struct cohort_engine *e, void (*fn)(struct core *c, void *arg), void *arg)
{
	struct lock *lock = &e->core.hub->lock;

	while (e->ticking || e->running)
		cond_wait(&e->idle, lock);
	e->running = true;
	lock_give(lock);
	fn(&e->core, arg);
	lock_take(lock);
	core_count_blocks(&e->core);
	e->running = false;
	cond_all(&e->idle);
}

/* By the engine's thread, for which the caller waits: the errand lies on its stack. */
static void run_there(struct cohort_engine *e, struct errand *errand)
{
	struct errand **last = &e->errands;

	while (*last)
		last = &(*last)->next;
	*last = errand;
	cond_signal(&e->work);
	while (!errand->done)
		cond_wait(&e->idle, &e->core.hub->lock);
}

enum cohort_status engine_run(struct cohort_engine *e, void (*fn)(struct core *c, void *arg), void *arg,
		struct cohort_err *err)
{
	struct errand errand = {fn, arg, false, NULL};
	struct lock *lock = &e->core.hub->lock;

	lock_take(lock);
	const bool within = e->manual ? e->ticking && thread_is_self(&e->ticker) : thread_is_self(&e->thread);
	if (!within && e->manual) {
		run_here(e, fn, arg);
	} else if (!within) {
		run_there(e, &errand);
	}
	lock_give(lock);
	return within ? err_set(err, COHORT_E_ARG, "a callback would wait for its own tick to end") : COHORT_OK;
}

/* ---- Requests ---- */

static enum cohort_status submit(struct cohort_engine *e, const struct cohort_request_params *params,
		struct cohort_request **out, struct cohort_err *err)
{
	struct cohort_request_params p;
	struct cohort_request *r;

	if (!params || !out)
		return err_set(err, COHORT_E_ARG, "%s is NULL", params ? "out" : "params");
	cohort_request_params_init(&p);
	if (!params_take(&p, sizeof p, params))
		return err_set(err, COHORT_E_ARG,
				"request parameters were not initialised by cohort_request_params_init");
	/* A full queue refuses before anything is allocated. */
	enum cohort_status st = request_check(&e->core, &p, err);
	if (!st)
		st = core_may_submit(&e->core, p.client, p.n_prompt, err);
	if (!st)
		st = request_open(&e->core, &p, &r, err);
	if (st)
		return st;
	*out = r; /* before it can be called back with */
	st = core_submit(&e->core, r, err);
	if (st) {
		*out = NULL;
		request_unref(r);
		request_unref(r);
	}
	return st;
}

enum cohort_status cohort_engine_submit(struct cohort_engine *e, const struct cohort_request_params *params,
		struct cohort_request **out, struct cohort_err *err)
{
	if (!e)
		return err_set(err, COHORT_E_ARG, "engine is NULL");
	const enum cohort_status st = submit(e, params, out, err);
	lock_take(&e->core.hub->lock);
	if (st)
		e->core.shared.n_refused++;
	else
		cond_signal(&e->work);
	lock_give(&e->core.hub->lock);
	return st;
}

/* ---- Driving it ---- */

enum cohort_status cohort_engine_tick(struct cohort_engine *e, bool *idle, struct cohort_err *err)
{
	if (!e)
		return err_set(err, COHORT_E_ARG, "engine is NULL");
	if (!e->manual)
		return err_set(err, COHORT_E_ARG, "the engine has a thread of its own that ticks");
	lock_take(&e->core.hub->lock);
	while (e->running)
		cond_wait(&e->idle, &e->core.hub->lock);
	const bool within = e->ticking;
	e->ticking = true;
	if (!within)
		thread_self(&e->ticker);
	lock_give(&e->core.hub->lock);
	if (within)
		return err_set(err, COHORT_E_ARG, "a tick is under way already");
	core_tick(&e->core);
	lock_take(&e->core.hub->lock);
	e->ticking = false;
	cond_all(&e->idle);
	if (idle)
		*idle = core_is_idle(&e->core);
	lock_give(&e->core.hub->lock);
	return COHORT_OK;
}

enum cohort_status cohort_engine_drain(struct cohort_engine *e, double timeout_s, bool *clean, struct cohort_err *err)
{
	bool in_time = true;

	if (!e)
		return err_set(err, COHORT_E_ARG, "engine is NULL");
	if (isnan(timeout_s))
		return err_rule(err, COHORT_E_ARG, "timeout_s", -1, -1, 0, 0, "timeout_s is not a number");
	if (e->manual || thread_is_self(&e->thread))
		return err_set(err, COHORT_E_ARG,
				e->manual ? "a manual engine is drained by its ticks"
					  : "the engine's own thread would wait for itself");
	const double until = clock_now() + timeout_s;
	struct lock *lock = &e->core.hub->lock;
	lock_take(lock);
	e->core.shared.closed = true;
	/* However they are ended: other threads may drain at the same time. */
	const uint64_t *n_shut = &e->core.live.n_ended[COHORT_FINISH_SHUTDOWN], n_before = *n_shut;
	while (in_time && !core_is_idle(&e->core)) {
		if (timeout_s < 0)
			cond_wait(&e->idle, lock);
		else
			in_time = cond_wait_until(&e->idle, lock, until);
	}
	if (!core_is_idle(&e->core)) {
		e->shut = true;
		atomic_store(&e->core.stop, true);
		cond_all(&e->work);
		while (!core_is_idle(&e->core))
			cond_wait(&e->idle, lock);
	}
	if (clean) /* what ended by itself while it was to be ended did so, too */
		*clean = *n_shut == n_before;
	lock_give(lock);
	return COHORT_OK;
}

enum cohort_status cohort_engine_strategy_set(
		struct cohort_engine *e, const struct cohort_strategy *strategy, struct cohort_err *err)
{
	if (!e)
		return err_set(err, COHORT_E_ARG, "engine is NULL");
	enum cohort_status st = core_strategy_set(&e->core, strategy, err);
	if (st)
		return st;
	lock_take(&e->core.hub->lock);
	cond_signal(&e->work);
	lock_give(&e->core.hub->lock);
	return COHORT_OK;
}

void cohort_engine_cache_clear(struct cohort_engine *e)
{
	if (!e)
		return;
	lock_take(&e->core.hub->lock);
	e->core.shared.clear_cache = true;
	cond_signal(&e->work);
	lock_give(&e->core.hub->lock);
}

/* ---- Looking ---- */

void cohort_engine_stats_get(struct cohort_engine *e, struct cohort_engine_stats *stats)
{
	if (!e || !stats)
		return;
	lock_take(&e->core.hub->lock);
	*stats = e->core.shared.stats;
	stats->n_submitted = e->core.shared.n_submitted;
	stats->n_refused = e->core.shared.n_refused;
	stats->last.n_queued = (int32_t)queue_depth(e->core.shared.queue);
	stats->last.n_queued_tokens = queue_tokens(e->core.shared.queue);
	lock_give(&e->core.hub->lock);
}

size_t cohort_engine_slots_get(struct cohort_engine *e, struct cohort_slot_info *slots, size_t n_max)
{
	if (!e)
		return 0;
	struct core *c = &e->core;
	const size_t n = (size_t)c->lim.n_slots;
	const double until = clock_now() + 1; /* a tick longer than that: what was seen last */
	lock_take(&c->hub->lock);
	const uint64_t n_infos = c->shared.n_infos;
	c->shared.infos_asked = true;
	/* Slots belong to the thread that ticks: none at the moment, or the caller from within a callback. Otherwise
	 * the tick is asked to look; that of a manual engine, which may be the caller's own, is not waited for. */
	if (e->manual ? !e->ticking : core_is_idle(c) || thread_is_self(&e->thread))
		core_look(c);
	while (!e->manual && c->shared.n_infos == n_infos && !core_is_idle(c) &&
			cond_wait_until(&c->shared.looked, &c->hub->lock, until))
		;
	if (c->shared.n_infos == n_infos && core_is_idle(c)) /* the last request ended meanwhile */
		core_look(c);
	for (size_t i = 0; slots && i < n && i < n_max; i++)
		slots[i] = c->shared.infos[i];
	lock_give(&c->hub->lock);
	return n;
}
