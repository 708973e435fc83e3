/* A trace through the engine's core on a machine that only takes time.
 *
 * Invariants
 *  1. The clock moves in two places: in decode, by what the cost function says, and to the next arrival when the core
 *     has nothing to do. While a request is submitted it shows the request's arrival, which may lie within the tick
 *     that has just ended: there it would have waited for the next one, too.
 *  2. A request's objects are there from its arrival to its end. Before and after there is an outcome, and its place in
 *     `live`.
 *  3. Tokens of prompts follow from the request's number, or its group, and their place: the same on every machine.
 *  4. Nothing of admission, planning or preemption is decided here.
 *
 * It knows neither models nor what a good answer is. */
#include "engine/core.h"

#include "base/mem.h"
#include "base/params.h"
#include "base/pool.h"

#include <math.h>
#include <string.h>

enum { N_VOCAB = 1 << 24, BINS_PER_DOUBLING = 64, DOUBLING_MIN = -20 };

struct sim;

/* A request's, for its callback. */
struct live {
	struct sim *sim;
	double last_s; /* when its last token came */
};

struct sim {
	struct core core;
	const struct cohort_sim_params *p;
	const struct cohort_sim_request *requests; /* [n] */
	struct cohort_sim_outcome *outcomes; /* [n] */
	struct cohort_sim_totals *t;
	struct live *live; /* [n] */
	size_t n, n_came;
	cohort_token *prompt; /* of the longest that is not refused */
	double now;
	int32_t bad_prefill, bad_decode; /* rows for which the cost is none; 0, 0: there are none such */
	double bad_cost;
};

void cohort_sim_params_init(struct cohort_sim_params *params)
{
	struct cohort_engine_params e;

	if (!params)
		return;
	cohort_engine_params_init(&e);
	*params = (struct cohort_sim_params){
			.struct_size = sizeof *params,
			.n_slots = e.n_slots,
			.n_ctx = e.context.n_ctx,
			.n_batch = e.context.n_batch,
			.n_ubatch = e.context.n_ubatch,
			.budget = e.budget,
			.chunk_size = e.chunk_size,
			.queue_requests_max = e.queue_requests_max,
			.queue_tokens_max = e.queue_tokens_max,
			.wait_max_s = e.wait_max_s,
			.room = e.room,
	};
}

/* ---- Times between tokens ---- */

static size_t bin_of(double s)
{
	int e;
	const double f = frexp(s, &e); /* s = f * 2^e, f in [0.5, 1) */

	if (!(s > 0) || e <= DOUBLING_MIN)
		return 0;
	const size_t b = 1 + (size_t)(e - 1 - DOUBLING_MIN) * BINS_PER_DOUBLING +
			(size_t)((2 * f - 1) * BINS_PER_DOUBLING);
	return b < COHORT_SIM_BINS ? b : COHORT_SIM_BINS - 1;
}

double cohort_sim_bin_s(int32_t bin)
{
	if (bin <= 0 || bin >= COHORT_SIM_BINS)
		return 0;
	const int32_t b = bin - 1;
	return ldexp(1 + (b % BINS_PER_DOUBLING + 0.5) / BINS_PER_DOUBLING, b / BINS_PER_DOUBLING + DOUBLING_MIN);
}

/* ---- The machine ---- */

static double machine_now(void *self)
{
	return ((const struct sim *)self)->now;
}

static enum cohort_status machine_decode(void *self, const struct cohort_batch_raw *rows, struct cohort_err *err)
{
	struct sim *s = self;
	int32_t n_decode = 0;

	(void)err;
	for (int32_t i = 0; i < rows->n_tokens; i++)
		n_decode += s->core.slots[rows->seq[i]]->phase == STREAM_GENERATES;
	const int32_t n_prefill = rows->n_tokens - n_decode;
	const double cost = s->p->cost_s(s->p->cost_user, n_prefill, n_decode);
	if (!(cost >= 0) || !isfinite(s->now + cost)) {
		/* Said when the tick is over: a decode that fails would be tried again in parts. */
		s->bad_prefill = n_prefill;
		s->bad_decode = n_decode;
		s->bad_cost = cost;
		return COHORT_OK;
	}
	s->now += cost;
	s->t->busy_s += cost;
	s->t->n_ubatches++;
	return COHORT_OK;
}

static const float *machine_row(void *self, int32_t row)
{
	(void)self;
	(void)row;
	return NULL;
}

static enum cohort_status machine_cp(
		void *self, cohort_seq src, cohort_seq dst, cohort_pos p0, cohort_pos p1, struct cohort_err *err)
{
	(void)self;
	(void)src;
	(void)dst;
	(void)p0;
	(void)p1;
	(void)err;
	return COHORT_OK;
}

static enum cohort_status machine_rm(void *self, cohort_seq seq, cohort_pos p0, cohort_pos p1, struct cohort_err *err)
{
	return machine_cp(self, seq, seq, p0, p1, err);
}

static enum cohort_status machine_adapter(
		void *self, cohort_seq seq, const struct cohort_adapter *adapter, float scale, struct cohort_err *err)
{
	(void)adapter;
	(void)scale;
	return machine_cp(self, seq, seq, 0, 0, err);
}

/* ---- Requests ---- */

static void on_token(struct sim *s, struct live *l, struct cohort_sim_outcome *o, double arrival_s)
{
	if (o->n_generated++ == 0) {
		o->first_token_s = s->now - arrival_s;
	} else {
		const double gap = s->now - l->last_s;
		s->t->gaps[bin_of(gap)]++;
		o->gap_max_s = gap > o->gap_max_s ? gap : o->gap_max_s;
		s->t->gap_max_s = gap > s->t->gap_max_s ? gap : s->t->gap_max_s;
	}
	l->last_s = s->now;
}

static void on_event(struct cohort_request *request, const struct cohort_event *event, void *user)
{
	struct live *l = user;
	struct sim *s = l->sim;
	struct cohort_sim_outcome *o = &s->outcomes[l - s->live];
	const double arrival_s = s->requests[l - s->live].arrival_s;
	struct cohort_request_stats stats;

	if (event->kind == COHORT_EVENT_TOKEN)
		on_token(s, l, o, arrival_s);
	if (event->kind != COHORT_EVENT_DONE)
		return;
	cohort_request_stats_get(request, &stats);
	o->finish = stats.finish;
	o->queued_s = stats.queued_s;
	o->end_s = s->now - arrival_s;
	o->n_cached = stats.n_cached;
	o->n_parked = stats.n_parked;
	s->t->n_done += stats.finish == COHORT_FINISH_LENGTH;
	request_unref(request); /* freeing would count as a cancel, for which the core looks through its queue */
}

/* A token of a stream of tokens (splitmix64's mixing of both numbers). Streams of groups and those of requests are told
 * apart between two steps of it, as either may have any number. */
static cohort_token token_at(uint64_t stream, bool is_group, int32_t i)
{
	uint64_t z = stream * 0x9e3779b97f4a7c15 + (uint64_t)i * 0xd1342543de82ef95;

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9 + is_group;
	z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
	return (cohort_token)((z ^ (z >> 31)) % N_VOCAB);
}

static void make_prompt(struct sim *s, size_t i)
{
	const struct cohort_sim_request *r = &s->requests[i];

	for (int32_t k = 0; k < r->n_prompt; k++)
		s->prompt[k] = token_at(k < r->n_shared ? r->group : i, k < r->n_shared, k);
}

static enum cohort_status submit(struct sim *s, size_t i, struct cohort_err *err)
{
	const struct cohort_sim_request *r = &s->requests[i];
	struct cohort_request_params rp;
	struct cohort_request *handle = NULL;
	struct cohort_err why;

	s->live[i].sim = s;
	cohort_request_params_init(&rp);
	rp.prompt = s->prompt;
	rp.n_prompt = r->n_prompt;
	rp.max_tokens = r->n_output;
	rp.ignore_eos = true;
	rp.priority = r->priority;
	rp.client = r->client;
	rp.on_event = on_event;
	rp.user = &s->live[i];

	const double now = s->now;
	s->now = r->arrival_s;
	/* As an engine asks: what is refused costs no tokens. There is no room for more than a sequence can have. */
	enum cohort_status st = request_check(&s->core, &rp, &why);
	if (!st)
		st = core_may_submit(&s->core, r->client, r->n_prompt, &why);
	if (!st) {
		make_prompt(s, i);
		st = request_open(&s->core, &rp, &handle, &why);
	}
	if (!st && (st = core_submit(&s->core, handle, &why))) {
		request_unref(handle); /* ours, and the core's */
		request_unref(handle);
	}
	s->now = now;
	if (st == COHORT_E_LIMIT) {
		s->outcomes[i].refused = true;
		s->t->n_refused++;
		return COHORT_OK;
	}
	if (st && err)
		*err = why;
	return st;
}

/* ---- The whole ---- */

static enum cohort_status check_params(const struct cohort_sim_params *p, struct cohort_err *err)
{
	const int64_t rows_max = 1 << 20, n_max = 1 << 30;
	const struct {
		const char *name;
		int64_t v, lo, hi;
	} ranges[] = {
			{"n_slots", p->n_slots, 1, 1 << 16},
			{"n_ctx", p->n_ctx, 1, n_max},
			{"n_pos_max", p->n_pos_max, 0, n_max},
			{"n_batch", p->n_batch, 1, rows_max},
			{"n_ubatch", p->n_ubatch, 1, rows_max},
			{"budget", p->budget, 0, p->n_batch},
			{"chunk_size", p->chunk_size, 1, n_max},
			{"queue_requests_max", p->queue_requests_max, 0, INT32_MAX},
			{"queue_tokens_max", p->queue_tokens_max, 0, INT64_MAX},
			{"room", (int64_t)p->room, COHORT_ROOM_RESERVE, COHORT_ROOM_OVERCOMMIT},
	};
	enum cohort_status st = COHORT_OK;

	for (size_t i = 0; i < sizeof ranges / sizeof *ranges && !st; i++)
		st = err_range(err, ranges[i].name, ranges[i].v, ranges[i].lo, ranges[i].hi);
	if (!st)
		st = err_real(err, "wait_max_s", p->wait_max_s, 0, INFINITY);
	if (!st && !p->cost_s)
		st = err_set(err, COHORT_E_ARG, "cost_s is NULL");
	return st;
}

static enum cohort_status check_requests(
		const struct cohort_sim_request *r, size_t n, int32_t *n_prompt_max, struct cohort_err *err)
{
	for (size_t i = 0; i < n; i++) {
		const int64_t row = (int64_t)i;
		if (!isfinite(r[i].arrival_s) || r[i].arrival_s < (i > 0 ? r[i - 1].arrival_s : 0))
			return err_rule(err, COHORT_E_ARG, "arrival", row, -1, 0, 0,
					"request %zu comes at %g s, before %g s: arrivals may not fall", i,
					r[i].arrival_s, i > 0 ? r[i - 1].arrival_s : 0);
		if (r[i].n_prompt < 1 || r[i].n_output < 1)
			return err_rule(err, COHORT_E_ARG, "tokens", row, -1, 1,
					r[i].n_prompt < 1 ? r[i].n_prompt : r[i].n_output,
					"request %zu has a prompt of %d tokens and an output of %d: both are at least "
					"1",
					i, r[i].n_prompt, r[i].n_output);
		if (r[i].n_shared < 0 || r[i].n_shared > r[i].n_prompt)
			return err_rule(err, COHORT_E_ARG, "shared", row, -1,
					r[i].n_shared < 0 ? 0 : r[i].n_prompt, r[i].n_shared,
					"request %zu shares %d tokens of a prompt of %d", i, r[i].n_shared,
					r[i].n_prompt);
		if (r[i].n_prompt > *n_prompt_max)
			*n_prompt_max = r[i].n_prompt;
	}
	return COHORT_OK;
}

static enum cohort_status start(struct sim *s, const struct cohort_room_info *room, struct cohort_err *err)
{
	const struct cohort_sim_params *p = s->p;
	const struct machine m = {
			.self = s,
			.now = machine_now,
			.decode = machine_decode,
			.logits = machine_row,
			.seq_cp = machine_cp,
			.seq_rm = machine_rm,
			.adapter_set = machine_adapter,
	};
	const struct core_limits lim = {
			.n_vocab = N_VOCAB,
			.n_slots = p->n_slots,
			.n_ubatch = p->n_ubatch < p->n_batch ? p->n_ubatch : p->n_batch,
			.budget = p->budget ? p->budget : p->n_batch,
			.chunk_size = p->chunk_size,
			.block_size = room->block_size,
			.n_blocks = room->n_blocks,
			.n_pos_max = p->n_pos_max,
			.n_ids = p->no_reuse ? 0 : room->n_blocks,
			.logits = true,
			.overcommit = p->room == COHORT_ROOM_OVERCOMMIT,
			.queue_requests_max = p->queue_requests_max,
			.queue_tokens_max = p->queue_tokens_max,
			.wait_max_s = p->wait_max_s,
	};
	enum cohort_status st = core_init(&s->core, &lim, &m, p->strategy, err);

	if (st)
		return st;
	s->core.on_tick = p->on_tick;
	s->core.on_tick_user = p->on_tick_user;
	return COHORT_OK;
}

static void note(struct sim *s)
{
	const struct cohort_engine_stats *e = &s->core.live;
	struct cohort_sim_totals *t = s->t;

	t->now_s = s->now;
	t->n_ticks = e->n_ticks;
	t->n_prefill_rows = e->n_prefill_rows;
	t->n_decode_rows = e->n_decode_rows;
	t->n_tokens = e->n_sampled;
	t->n_parked = e->n_parked;
	t->n_prompt_tokens = e->n_prompt_tokens;
	t->n_cached_tokens = e->n_cached_tokens;
	t->n_fallbacks = e->n_fallbacks;
}

static enum cohort_status run(struct sim *s, struct cohort_err *err)
{
	for (;;) {
		while (s->n_came < s->n && s->requests[s->n_came].arrival_s <= s->now) {
			enum cohort_status st = submit(s, s->n_came, err);
			if (st)
				return st;
			s->n_came++;
		}
		const int32_t depth = (int32_t)queue_depth(s->core.shared.queue);
		if (depth > s->t->n_queued_max)
			s->t->n_queued_max = depth;

		const double began = clock_now();
		const bool busy = core_tick(&s->core);
		s->t->real_s += clock_now() - began;
		note(s);
		if (s->bad_prefill || s->bad_decode)
			return err_set(err, COHORT_E_ARG,
					"the cost of %d prefill and %d decode rows is %g s at %g s: expected a number "
					"not below 0, and a finite sum of both",
					s->bad_prefill, s->bad_decode, s->bad_cost, s->now);
		if (s->p->abort && s->p->abort(s->p->abort_user))
			return err_set(err, COHORT_ABORTED, "the simulation was ended");
		if (busy)
			continue;
		if (!core_is_idle(&s->core))
			return err_set(err, COHORT_E_BUG, "requests wait, and nothing is done for them");
		if (s->n_came == s->n)
			return COHORT_OK;
		s->now = s->requests[s->n_came].arrival_s;
	}
}

enum cohort_status cohort_simulate(const struct cohort_sim_params *params, const struct cohort_sim_request *requests,
		size_t n_requests, struct cohort_sim_outcome *outcomes, struct cohort_sim_totals *totals,
		struct cohort_err *err)
{
	struct cohort_sim_params p;
	struct cohort_room_info room;
	struct sim *s = NULL;
	int32_t n_prompt_max = 1;
	enum cohort_status st;

	cohort_sim_params_init(&p);
	if (!params || !totals || (n_requests > 0 && (!requests || !outcomes)))
		return err_set(err, COHORT_E_ARG, "%s is NULL",
				!params                   ? "params"
						: !totals ? "totals"
						: requests ? "outcomes"
							   : "requests");
	if (!params_take(&p, sizeof p, params))
		return err_set(err, COHORT_E_ARG, "parameters were not initialised by cohort_sim_params_init");
	memset(totals, 0, sizeof *totals);
	for (size_t i = 0; i < n_requests; i++)
		outcomes[i] = (struct cohort_sim_outcome){.queued_s = -1, .first_token_s = -1, .end_s = -1};
	st = check_params(&p, err);
	if (!st)
		st = check_requests(requests, n_requests, &n_prompt_max, err);
	const struct cohort_room_params rp = {sizeof rp, .n_ctx = p.n_ctx, .n_seq_max = p.n_slots};
	if (!st)
		st = cohort_room_needed(&rp, &room, err);
	if (st)
		return st;
	if (p.n_pos_max == 0 || p.n_pos_max > room.n_pos_max)
		p.n_pos_max = room.n_pos_max;
	s = mem_zalloc(1, sizeof *s);
	if (!s)
		return err_set(err, COHORT_E_MEMORY, "out of memory for a simulation");
	s->p = &p;
	s->requests = requests;
	s->outcomes = outcomes;
	s->t = totals;
	s->n = n_requests;
	s->live = mem_zalloc(n_requests, sizeof *s->live);
	s->prompt = mem_alloc((size_t)(n_prompt_max < p.n_pos_max ? n_prompt_max : p.n_pos_max), sizeof *s->prompt);
	if (!s->live || !s->prompt)
		st = err_set(err, COHORT_E_MEMORY, "out of memory for %zu requests", n_requests);
	else
		st = start(s, &room, err);
	if (!st) {
		st = run(s, err);
		core_shut(&s->core);
		core_release(&s->core);
	}
	mem_free(s->live);
	mem_free(s->prompt);
	mem_free(s);
	return st;
}
