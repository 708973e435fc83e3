/* Random traces through the engine's core under a simulated clock (tests/engine_machine.h, engine_trace.h).
 *
 * A trace is a few requests, some with several outputs, sessions, salts, adapters, limits in time, that arrive at an
 * engine of few slots, blocks and rows; some are cancelled, some cannot be computed; strategies change, the cache is
 * cleared. Of every trace holds:
 *  1. Every request ends exactly once, as it must: outputs and then DONE are told once, in order, nothing after that.
 *  2. What it says is what the language model says of it alone, whatever was shared, parked, swapped or forked. Without
 *     parking not a row more is computed than that takes.
 *  3. Blocks: those that are held are no more than those that are counted, and these fit the cache; the machine never
 *     lacks one. At the end nothing is left.
 *  4. With reservation nobody is parked; without, the youngest, and never the oldest.
 *  5. Neither budget, chunk nor ubatch is exceeded. Built-in strategies leave no row of the budget unused while there
 *     is work, and give each side what they promise.
 *  6. Waiting: a slot has a row within ceil(slots / rows) ticks, rows being what its side is promised (for prompts: the
 *     slots that these serve in chunks); twice the slots with a budget of 1. So under decode-maximal nobody that
 *     generates misses a tick as long as there are no more slots than budget - floor, and two tokens are never further
 *     apart than that many ticks of the full budget. A request is admitted within wait_max_s + (d + 1) * T, with d that
 *     waited when it came and T the longest stay of any (docs/engine.md); nobody overtakes one that is overdue,
 *     or more urgent.
 *  7. A request that was cancelled has no row in a call that begins afterwards, and no token.
 *  8. Two clients that both wait are no further apart than slots x size tokens.
 *  9. A plan that breaks a rule is refused for that rule, and the tick is planned by decode-maximal.
 *
 * `test_engine_traces N` (or COHORT_TRACES=N) runs N traces; COHORT_TRACE=SEED the one that a failure names.
 *
 * Seen red with: a pin not taken back when a chain grows, or when a slot is left; a last block that is not full counted
 * for nobody; a restored stream that goes on a position early; blocks shared after the fork instead of before; pinned
 * blocks evicted; forked outputs that do not pin, or are not counted; a block of somebody else kept beside one's own;
 * cached prompts of other salts taken; the last token of a prompt reused; memory of swapped cells never given back; a
 * parked stream that forgets a token; the oldest parked instead of the youngest; rotation off, no floor, no turns with
 * a budget of 1; overdue or urgent requests not first; what clients were served not told to the queue; cancels and
 * limits looked at between ticks, or in the queue, only; a plan's tokens, or its chunks, not checked; views not built
 * again after a bad plan; windows ignored when rows are gathered. Not seen, as it costs only reuse: a wrong hash after
 * a restore.
 */
#include "effort.h"
#include "engine_books.h"
#include "engine_trace.h"

#include <signal.h>
#include <unistd.h>

enum { TRACES = 50000 }; /* some 8 s */

static struct trace trace;
static uint64_t only_seed;
static bool only; /* that trace alone */
static int n_traces;

/* ---- What the machine calls ---- */

static struct job *job_of(const struct stream *s)
{
	return s->request->p.user;
}

/* One that has no room says whose row it is, as the cache does. */
static enum cohort_status no_room(struct sim *m, const struct cohort_batch_raw *rows, struct cohort_err *err)
{
	struct trace *t = &trace;
	const int32_t i = draw_in(t, 0, rows->n_tokens - 1);

	(void)m;
	if (!t->flaky || !chance(t, 0.03))
		return COHORT_OK;
	return err_rule(err, COHORT_NO_ROOM, "kv-room", i, rows->seq[i], i, 0, "no room, as it happens");
}

static bool lost(struct sim *m)
{
	(void)m;
	return trace.flaky && chance(&trace, 0.2);
}

static bool poisoned(struct sim *m, const struct stream *s, cohort_pos pos, bool *named)
{
	const struct job *j = job_of(s);

	(void)m;
	*named = j->poison_named;
	return j->poison == pos;
}

static void on_call(struct sim *m, const struct cohort_batch_raw *rows)
{
	struct trace *t = &trace;

	for (int32_t i = 0; i < rows->n_tokens; i++)
		sim_check(m, !atomic_load(&m->core->slots[rows->seq[i]]->request->cancelled),
				"a row of slot %d, which is cancelled", rows->seq[i]);
	if (t->cancel_p > 0 && chance(t, t->cancel_p))
		cancel(&t->jobs[draw(t, (uint32_t)t->n_jobs)]);
}

static void on_row(struct sim *m, struct stream *s)
{
	(void)m;
	job_of(s)->n_rows++;
}

/* ---- Properties of a tick ---- */

/* Rows that each slot has in the plan. */
struct planned {
	int32_t of[SIM_SLOTS];
	struct plan_sides sides;
};

static struct planned count_plan(const struct trace *t)
{
	const struct core *c = &t->core;
	struct planned p = {.of = {0}};

	for (int32_t i = 0; i < c->plan.n_entries; i++)
		p.of[c->plan.entries[i].seq]++;
	for (int32_t v = 0; v < c->plan.n_views; v++) {
		const struct cohort_slot *s = &c->plan.views[v];
		const int32_t n = p.of[s->id];
		if (s->state == COHORT_SLOT_GENERATING) {
			sim_check(&t->m, n <= 1, "%d rows of slot %d, which generates", n, s->id);
			p.sides.decode_work++;
			p.sides.n_decode += n;
		} else {
			const int32_t left = s->n_prompt - s->n_prefilled + n;
			sim_check(&t->m, n <= c->lim.chunk_size, "%d rows of slot %d; a chunk is %d", n, s->id,
					c->lim.chunk_size);
			p.sides.prefill_work += left < c->lim.chunk_size ? left : c->lim.chunk_size;
			p.sides.n_prefill += n;
		}
	}
	return p;
}

/* What was planned was computed, unless its slot was parked or ended on the way. */
static void check_computed(const struct trace *t, const struct planned *p)
{
	const struct core *c = &t->core;
	bool ended = t->m.n_failed > 0;

	sim_check(&t->m, c->plan.n_entries <= c->lim.budget && (c->lim.encoder || t->m.n_rows <= c->lim.budget),
			"%d rows of a budget of %d", t->m.n_rows, c->lim.budget);
	sim_check(&t->m, c->tick.n_decode_rows + c->tick.n_prefill_rows == t->m.n_rows, "%d rows are told as %d and %d",
			t->m.n_rows, c->tick.n_decode_rows, c->tick.n_prefill_rows);
	for (int32_t v = 0; v < c->plan.n_views && !c->lim.encoder; v++) {
		const cohort_seq id = c->plan.views[v].id;
		const struct stream *s = c->slots[id];
		const int32_t n = t->m.rows_of[id];
		const bool goes_on = s && (s->phase == STREAM_PREFILLS || s->phase == STREAM_GENERATES);
		ended = ended || !s;
		sim_check(&t->m, c->plan.taken[v] ? n <= p->of[id] : n == 0,
				"%d rows of slot %d were computed, %d were planned", n, id, p->of[id]);
		sim_check(&t->m, !goes_on || n == p->of[id], "%d rows of slot %d were computed, %d were planned", n, id,
				p->of[id]);
	}
	if (!ended && !c->lim.n_window && !c->lim.recurrent && !c->lim.encoder)
		sim_check(&t->m, t->m.n_calls == (t->m.n_rows + c->lim.n_ubatch - 1) / c->lim.n_ubatch,
				"%d rows took %d calls of %d", t->m.n_rows, t->m.n_calls, c->lim.n_ubatch);
}

/* A slot that has work has a row within so many ticks. */
static void check_waits(struct trace *t, const struct planned *p)
{
	const struct core *c = &t->core;
	const bool disturbed = t->disturbed_at == t->m.now;

	for (int32_t id = 0; id < c->lim.n_slots; id++) {
		struct watch *w = &t->watch[id];
		const int32_t v = c->plan.view_of[id];
		if (v < 0 || disturbed || w->s != c->slots[id] || w->state != c->plan.views[v].state) {
			*w = (struct watch){.s = c->slots[id],
					.state = v < 0 ? COHORT_SLOT_IDLE : c->plan.views[v].state};
			continue;
		}
		w->n_waited = p->of[id] ? 0 : w->n_waited + 1;
		const int32_t most = w->state == COHORT_SLOT_GENERATING
				? planner_decode_wait(&t->planner, c->planner.strategy, c->lim.n_slots, c->lim.budget)
				: planner_prefill_wait(&t->planner, c->planner.strategy, c->lim.n_slots, c->lim.budget,
						  c->lim.chunk_size);
		seen.waits += w->n_waited > 0;
		sim_check(&t->m, most == 0 || w->n_waited < most, "slot %d waits for the %dth tick; it may wait for %d",
				id, w->n_waited, most - 1);
	}
}

/* Who was parked is younger than all who were not. */
static void check_parked(struct trace *t)
{
	const struct core *c = &t->core;

	sim_check(&t->m, c->lim.overcommit || c->live.n_parked == 0, "parked in spite of its reservation");
	if (c->live.n_parked == t->n_parked_before || t->m.n_failed)
		return;
	t->n_parked_before = c->live.n_parked;
	for (int32_t v = 0; v < c->plan.n_views; v++) {
		const cohort_seq id = c->plan.views[v].id;
		const struct stream *s = c->slots[id];
		if (!s || s->phase != STREAM_PREEMPTED)
			continue;
		sim_check(&t->m, s->rest->turn > t->planner.oldest, "the oldest stream was parked");
		for (int32_t k = 0; k < c->plan.n_views; k++) {
			const struct stream *other = c->slots[c->plan.views[k].id];
			sim_check(&t->m,
					!other || other->phase == STREAM_PREEMPTED ||
							other->rest->turn < s->rest->turn,
					"slot %d was parked, which is older than slot %d", id, c->plan.views[k].id);
		}
	}
}

static void check_slot(const struct trace *t, int32_t id)
{
	const struct core *c = &t->core;
	const struct stream *s = c->slots[id];
	const struct sim_seq *q = &t->m.seqs[id];
	int32_t depth = 0;

	/* Who waits for another request's blocks may have some already. */
	if (!s || s->phase == STREAM_PREEMPTED || (s->phase == STREAM_WAITS && s->index > 0) || c->lim.encoder) {
		sim_check(&t->m, q->n == 0, "slot %d has nothing to do, but %d cells", id, q->n);
		sim_check(&t->m, !s || s->node < 0, "slot %d has a prompt pinned for nothing", id);
		return;
	}
	sim_check(&t->m, s->slot == id && s->n_cached == q->n, "slot %d has %d cells, its stream says %d", id, q->n,
			s->n_cached);
	for (int32_t node = s->node; node >= 0; depth++) {
		const struct prefix_node *n = prefix_node_get(c->prefix, node);
		sim_check(&t->m,
				memcmp(n->tokens, s->known + n->n_before, (size_t)n->n_tokens * sizeof *n->tokens) == 0,
				"slot %d shares a block of other tokens", id);
		const int32_t at = n->n_before / c->lim.block_size;
		if (n->seq >= 0 && !c->lim.recurrent) {
			const struct sim_seq *from = &t->m.seqs[n->seq];
			sim_check(&t->m, from->n == n->n_before + n->n_tokens, "a cached block is not what it was");
			sim_check(&t->m, n->n_before < q->gone || from->table[at] == q->table[at],
					"slot %d does not share the block that it has pinned", id);
		}
		node = n->parent;
	}
	sim_check(&t->m, depth == s->n_chain, "slot %d shares %d blocks, and counts %d", id, depth, s->n_chain);
}

static void check_blocks(const struct trace *t)
{
	const struct core *c = &t->core;
	const struct cohort_tick *k = &c->tick;
	const int32_t held = c->prefix ? prefix_n_held(c->prefix) : 0,
		      pinned = c->prefix ? prefix_n_pinned(c->prefix) : 0;
	int32_t n_ids = 0;

	for (int32_t i = c->lim.n_slots; i < c->lim.n_slots + c->lim.n_ids; i++)
		n_ids += t->m.seqs[i].n > 0;
	sim_check(&t->m, n_ids == held, "%d cached blocks are held, %d are known", n_ids, held);
	if (c->lim.n_blocks == 0)
		return;
	sim_check(&t->m, t->m.n_used <= c->blocks.n_private + held,
			"%d blocks are held; %d private and %d cached ones are counted", t->m.n_used,
			c->blocks.n_private, held);
	sim_check(&t->m, c->blocks.n_private >= 0 && c->blocks.n_private + held <= c->lim.n_blocks,
			"%d private and %d cached blocks of %d", c->blocks.n_private, held, c->lim.n_blocks);
	sim_check(&t->m,
			c->blocks.n_reserved >= c->blocks.n_private &&
					c->blocks.n_reserved + pinned <= c->lim.n_blocks,
			"%d blocks are promised (%d private) and %d pinned of %d", c->blocks.n_reserved,
			c->blocks.n_private, pinned, c->lim.n_blocks);
	sim_check(&t->m,
			k->n_blocks_used + k->n_blocks_cached + k->n_blocks_free == c->lim.n_blocks &&
					k->n_blocks_free >= 0,
			"%d + %d + %d blocks are told, of %d", k->n_blocks_used, k->n_blocks_cached, k->n_blocks_free,
			c->lim.n_blocks);
}

/* Nobody was admitted past somebody overdue who was there before, nor past a higher priority. */
static void check_admitted(const struct trace *t, double now)
{
	for (const struct job *a = t->jobs; a < t->jobs + t->n_jobs; a++) {
		if (!a->r || a->r->at_admitted != now)
			continue;
		const bool overdue = now - a->r->at_came > t->lim.wait_max_s;
		for (const struct job *b = t->jobs; b < t->jobs + t->n_jobs; b++) {
			if (!b->r || !b->r->item.waiting || b->r->id > t->n_submitted_before)
				continue;
			if (now - b->r->at_came > t->lim.wait_max_s)
				sim_check(&t->m, a->r->id < b->r->id,
						"request %d was admitted before %d, which is overdue",
						(int)(a - t->jobs), (int)(b - t->jobs));
			else if (!overdue)
				sim_check(&t->m, a->p.priority >= b->p.priority,
						"request %d was admitted before %d, which is more urgent",
						(int)(a - t->jobs), (int)(b - t->jobs));
		}
	}
}

static void check_tick(struct trace *t, double start)
{
	struct core *c = &t->core;
	const struct cohort_tick *k = &c->tick;

	int32_t n_parked = 0;

	for (int32_t i = 0; i < c->lim.n_slots; i++)
		n_parked += c->slots[i] && c->slots[i]->phase == STREAM_PREEMPTED;
	check_admitted(t, start);
	if (c->plan.n_views > 0) {
		const struct planned p = count_plan(t);
		t->any_failed = t->any_failed || t->m.n_failed > 0;
		if (c->live.n_fallbacks != t->n_fallbacks_before)
			t->disturbed_at = t->m.now;
		planner_check(&t->planner, c, &p.sides, c->live.n_fallbacks != t->n_fallbacks_before);
		t->n_fallbacks_before = c->live.n_fallbacks;
		check_computed(t, &p);
		check_waits(t, &p);
		check_parked(t);
		sim_check(&t->m, t->any_failed || t->m.now - start <= t->tick_s_most + 1e-9,
				"a tick took %g s; %g are the most", t->m.now - start, t->tick_s_most);
	}
	sim_check(&t->m,
			k->n_idle + k->n_prefilling + k->n_generating + k->n_parked == c->lim.n_slots &&
					k->n_idle == c->n_idle && k->n_parked == n_parked,
			"%d + %d + %d + %d slots of %d", k->n_idle, k->n_prefilling, k->n_generating, k->n_parked,
			c->lim.n_slots);
	check_blocks(t);
	for (int32_t id = 0; id < c->lim.n_slots; id++)
		check_slot(t, id);
	if (only || draw(t, 16) == 0) {
		sim_check(&t->m, !c->prefix || prefix_consistent(c->prefix), "the books of cached prompts are wrong");
		sim_check(&t->m, queue_consistent(c->shared.queue), "the books of the queue are wrong");
	}
}

/* ---- A trace ---- */

static void draw_limits(struct trace *t, enum trace_kind kind)
{
	struct core_limits *lim = &t->lim;
	static const int32_t sizes[] = {2, 4, 4, 4, 8};

	*lim = (struct core_limits){
			.n_vocab = SIM_VOCAB,
			.n_embd = SIM_EMBD,
			.n_slots = draw_in(t, 1, SIM_SLOTS),
			.n_ubatch = draw_in(t, 1, SIM_UBATCH),
			.budget = chance(t, 0.1) ? draw_in(t, 25, 64) : draw_in(t, 1, 24),
			.chunk_size = draw_in(t, 1, 8),
			.block_size = sizes[draw(t, 5)],
			.logits = true,
			.embeddings = true,
			.overcommit = kind != TRACE_RESERVE && chance(t, 0.8),
			.queue_requests_max = chance(t, 0.1) ? draw_in(t, 1, 4) : 100,
			.queue_tokens_max = chance(t, 0.1) ? draw_in(t, 10, 100) : 10000,
			.wait_max_s = chance(t, 0.3) ? 0.05 * draw_in(t, 0, 10) : 30,
	};
	if (kind == TRACE_STATES || kind == TRACE_ENCODER) {
		lim->n_pos_max = draw_in(t, 16, SIM_POS);
		lim->recurrent = kind == TRACE_STATES;
		lim->encoder = kind == TRACE_ENCODER;
		lim->logits = !lim->encoder;
		lim->overcommit = false;
	} else {
		lim->n_blocks = draw_in(t, 3, chance(t, 0.3) ? SIM_BLOCKS : 20);
		lim->n_pos_max = lim->n_blocks * lim->block_size;
	}
	if (lim->n_pos_max > SIM_POS)
		lim->n_pos_max = SIM_POS;
	if (!lim->encoder && !chance(t, 0.1))
		lim->n_ids = chance(t, 0.3) ? draw_in(t, 1, 8) : lim->n_blocks ? lim->n_blocks : 4 * lim->n_slots;
	lim->swap_bytes = !lim->overcommit || chance(t, 0.4) ? 0
			: chance(t, 0.5)                     ? SIZE_MAX / 2
							     : (size_t)draw_in(t, 50, 1500);
	if (kind == TRACE_WINDOW) {
		t->m.window = draw_in(t, 2, 24);
		lim->n_window = lim->n_ids ? t->m.window : 0; /* as the engine has it */
	}
}

static void open_trace(struct trace *t, enum trace_kind kind, uint64_t seed)
{
	struct machine m;

	memset(&t->watch, 0, sizeof t->watch);
	t->n_jobs = t->n_arrived = 0;
	t->shut = t->any_failed = false;
	t->disturbed_at = -1;
	t->n_parked_before = t->n_fallbacks_before = 0;
	rng_init(&t->rng, seed, 1);
	t->m.window = 0;
	draw_limits(t, kind);
	sim_init(&t->m, &t->core, seed);
	t->m.block_size = t->lim.block_size;
	t->m.n_blocks = t->lim.n_blocks;
	t->m.recurrent = t->lim.recurrent;
	t->m.encoder = t->lim.encoder;
	t->m.poisoned = poisoned;
	t->m.no_room = no_room;
	t->m.lost = lost;
	t->m.on_call = on_call;
	t->m.on_row = on_row;
	m = sim_machine(&t->m);
	const int32_t n_calls = t->lim.n_window || t->lim.recurrent || t->lim.encoder
			? t->lim.budget + t->lim.n_slots
			: (t->lim.budget + t->lim.n_ubatch - 1) / t->lim.n_ubatch;
	/* An encoder computes when all rows of a text were planned, and with them those of earlier ticks. */
	t->tick_s_most = n_calls * sim_call_s +
			sim_row_s * (t->lim.encoder ? t->lim.n_slots * t->lim.n_ubatch : t->lim.budget);
	/* Plans that take turns row by row are good plans: windows and states have them, too, in every fourth trace. */
	planner_init(&t->planner, &t->core, &t->m,
			kind == TRACE_MISBEHAVING ||
					((kind == TRACE_WINDOW || kind == TRACE_STATES) && seed / 16 % 4 == 0), seed);
	t->cancel_p = chance(t, 0.4) ? 0.05 : 0;
	t->flaky = t->lim.overcommit && chance(t, 0.05);
	assert_int_equal(core_init(&t->core, &t->lim, &m, planner_draw(&t->planner), NULL), COHORT_OK);
	for (int b = 0; b < BOOKS; b++)
		for (int i = 0; i < SIM_POS; i++)
			t->books[b][i] = (cohort_token)draw(t, SIM_VOCAB);
	const int32_t n = draw_in(t, 3, 25);
	const double rate = chance(t, 0.3) ? 0.001 : 0.01 * draw_in(t, 1, 20);
	double at = 0;
	for (int32_t i = 0; i < n; i++) {
		new_job(t, at);
		at += chance(t, 0.5) ? 0 : -rate * log(1 - rng_f64(&t->rng));
	}
}

/* What happens between two ticks. */
static void disturb(struct trace *t)
{
	if (t->cancel_p > 0 && chance(t, t->cancel_p))
		cancel(&t->jobs[draw(t, (uint32_t)t->n_jobs)]);
	if (chance(t, 0.01)) {
		assert_int_equal(core_strategy_set(&t->core, planner_draw(&t->planner), NULL), COHORT_OK);
		t->disturbed_at = INFINITY; /* until the tick is over in which it takes over */
	}
	if (chance(t, 0.01))
		t->core.shared.clear_cache = true;
}

/* False: there is nothing left to do. */
static bool step(struct trace *t)
{
	double next = INFINITY;

	for (int32_t i = 0; i < t->n_jobs; i++) {
		struct job *j = &t->jobs[i];
		if (!j->submitted && j->arrives <= t->m.now)
			submit(t, j);
		if (!j->submitted && j->arrives < next)
			next = j->arrives;
	}
	disturb(t);
	const double start = t->m.now;
	t->m.n_rows = t->m.n_calls = t->m.n_failed = 0;
	memset(t->m.rows_of, 0, sizeof t->m.rows_of);
	t->n_submitted_before = t->core.shared.n_requests;
	const bool did = core_tick(&t->core);
	for (int32_t i = 0; i < t->n_jobs; i++)
		if (t->jobs[i].reads && t->jobs[i].r && (t->jobs[i].r->done || chance(t, 0.3)))
			read_events(&t->jobs[i]);
	if (t->disturbed_at == INFINITY)
		t->disturbed_at = t->m.now;
	if (did) {
		check_tick(t, start);
		return true;
	}
	sim_check(&t->m, core_is_idle(&t->core), "requests wait, and nothing happens");
	if (next == INFINITY)
		return false;
	t->m.now = next;
	return true;
}

/* Nobody is left, and nothing. */
static void check_end(struct trace *t)
{
	struct core *c = &t->core;
	double stay_most = 0;

	for (const struct job *j = t->jobs; j < t->jobs + t->n_jobs; j++) {
		sim_check(&t->m, !j->submitted || j->refused || j->done, "request %d never ended", (int)(j - t->jobs));
		stay_most = j->done && j->stay_s > stay_most ? j->stay_s : stay_most;
	}
	for (const struct job *j = t->jobs; j < t->jobs + t->n_jobs; j++) {
		const double most = t->lim.wait_max_s + (j->n_before + 1) * (stay_most + t->tick_s_most) + 1e-9;
		sim_check(&t->m, !j->done || !j->admitted || t->any_failed || j->queued_s <= most,
				"request %d waited %g s behind %d others", (int)(j - t->jobs), j->queued_s,
				j->n_before);
	}
	if (c->prefix) {
		c->shared.clear_cache = true;
		core_tick(c);
		sim_check(&t->m, prefix_consistent(c->prefix), "the books of cached prompts are wrong");
		sim_check(&t->m, prefix_n_held(c->prefix) == 0, "%d blocks are cached for nobody",
				prefix_n_held(c->prefix));
	}
	sim_check(&t->m,
			queue_consistent(c->shared.queue) && queue_depth(c->shared.queue) == 0 &&
					queue_tokens(c->shared.queue) == 0,
			"somebody is in the queue");
	sim_check(&t->m,
			c->blocks.n_private == 0 && c->blocks.n_reserved == 0 && c->n_idle == c->lim.n_slots &&
					c->n_in[STREAM_PREEMPTED] == 0 && c->blocks.swap_used == 0 &&
					c->shared.n_open == 0,
			"%d blocks are private to nobody, %d promised, %d slots idle, %d parked, %zu bytes swapped",
			c->blocks.n_private, c->blocks.n_reserved, c->n_idle, (int)c->n_in[STREAM_PREEMPTED],
			c->blocks.swap_used);
	sim_check(&t->m, t->m.n_used == 0, "%d blocks are held by nobody", t->m.n_used);
	for (int i = 0; i < SIM_SEQS; i++)
		sim_check(&t->m, t->m.seqs[i].n == 0, "sequence %d still has %d cells", i, t->m.seqs[i].n);
}

static void run_trace(enum trace_kind kind, uint64_t seed)
{
	struct trace *t = &trace;
	int32_t n_ticks = 0;

	open_trace(t, kind, seed);
	const int32_t stop_at = chance(t, 0.05) ? draw_in(t, 1, 60) : TICKS_MAX;
	while (step(t) && n_ticks < stop_at)
		sim_check(&t->m, ++n_ticks < TICKS_MAX, "%d ticks, and no end", n_ticks);
	t->shut = true;
	core_shut(&t->core);
	for (int32_t i = 0; i < t->n_jobs; i++)
		if (t->jobs[i].reads)
			read_events(&t->jobs[i]);
	check_end(t);
	const struct cohort_engine_stats *s = &t->core.live;
	seen.traces++;
	seen.ticks += s->n_ticks;
	seen.rows += s->n_decode_rows + s->n_prefill_rows;
	seen.requests += s->n_submitted;
	seen.parked += s->n_parked;
	seen.resumed += s->n_resumed;
	seen.swapped += s->n_swapped;
	seen.evicted += s->n_evicted;
	seen.hits += s->n_hits;
	seen.cached += s->n_cached_tokens;
	seen.fallbacks += s->n_fallbacks;
	seen.failed += t->any_failed;
	seen.copies += t->m.n_copies;
	seen.gone += t->m.n_gone;
	for (int i = 0; i < RULE_COUNT; i++)
		seen.rule[i] += t->planner.n_rules[i];
	for (int32_t i = 0; i < t->n_jobs; i++)
		cohort_request_free(t->jobs[i].r);
	core_release(&t->core);
}

/* ---- Tests ---- */

/* A crash says which trace it was. */
static void on_signal(int sig)
{
	char text[80];
	const int n = snprintf(text, sizeof text, "# signal %d in trace %llu\n", sig, (unsigned long long)trace.m.seed);

	if (write(2, text, (size_t)n) < 0)
		_exit(2);
	signal(sig, SIG_DFL);
	raise(sig);
}

/* The kind of a trace is part of its seed. */
static void run_kind(enum trace_kind kind, int percent)
{
	memset(&seen, 0, sizeof seen);
	if (only) {
		if (only_seed % TRACE_KINDS == (uint64_t)kind)
			run_trace(kind, only_seed);
		else
			skip();
		return;
	}
	const int n = (int)((int64_t)n_traces * percent / 100);
	for (int i = 0; i < n; i++)
		run_trace(kind, (uint64_t)i * TRACE_KINDS + (uint64_t)kind);
	print_message("# %d traces, %d requests, %d ticks, %d rows, %d tokens reused in %d hits, %d evictions\n",
			seen.traces, seen.requests, seen.ticks, seen.rows, seen.cached, seen.hits, seen.evicted);
	print_message("# %d parked (%d swapped), %d forked, %d bad plans, %d waits, %d with failures\n", seen.parked,
			seen.swapped, seen.forks, seen.fallbacks, seen.waits, seen.failed);
	for (int f = COHORT_FINISH_STOP; n >= 500 && f <= COHORT_FINISH_SHUTDOWN; f++)
		assert_true(seen.ended[f] > 0 ||
				(kind == TRACE_ENCODER && (f == COHORT_FINISH_STOP || f == COHORT_FINISH_LENGTH)));
}

static void test_traces_with_reserved_room(void **state)
{
	(void)state;
	run_kind(TRACE_RESERVE, 25);
	assert_true(only || n_traces < 2000 || (seen.hits && seen.evicted && seen.forks && seen.failed && seen.waits));
}

static void test_traces_with_overcommitted_room(void **state)
{
	(void)state;
	run_kind(TRACE_OVERCOMMIT, 35);
	assert_true(only || n_traces < 2000 || (seen.parked && seen.resumed && seen.swapped && seen.forks));
}

static void test_traces_with_a_window(void **state)
{
	(void)state;
	run_kind(TRACE_WINDOW, 10);
	assert_true(only || n_traces < 2000 || (seen.hits && seen.parked));
	/* What a window lets go was shared before, but for what was swapped, or waited for a block that went. */
	print_message("# %d of %d copies refused\n", seen.gone, seen.copies);
	assert_true(seen.gone <= seen.copies / 100);
}

static void test_traces_with_states(void **state)
{
	(void)state;
	run_kind(TRACE_STATES, 10);
	assert_true(only || n_traces < 2000 || (seen.hits && seen.evicted && seen.forks));
}

static void test_traces_of_an_encoder(void **state)
{
	(void)state;
	run_kind(TRACE_ENCODER, 5);
}

static void test_traces_of_a_misbehaving_strategy(void **state)
{
	(void)state;
	run_kind(TRACE_MISBEHAVING, 15);
	for (int i = 1; i < RULE_COUNT && !only && n_traces >= 2000; i++)
		assert_true(seen.rule[i] > 0);
}

/* What a client was given so far, in tokens; whether it has somebody in the queue. */
static int64_t served(const struct trace *t, uint64_t client, bool *waits)
{
	int64_t n = 0;

	*waits = false;
	for (const struct job *j = t->jobs; j < t->jobs + t->n_jobs; j++) {
		if (j->p.client != client)
			continue;
		*waits = *waits || j->r->item.waiting;
		if (j->r->at_admitted >= 0)
			n += j->p.n_prompt - j->r->n_cached_prompt + stream_n_generated(&j->r->streams[0]);
	}
	return n;
}

/* Two clients whose requests differ in size, all there at once: as long as both wait they are no further apart than
 * slots x size (docs/engine.md). */
static void run_shares(struct trace *t, uint64_t seed)
{
	int32_t size = 0;
	bool waits[2] = {true, true};

	open_trace(t, TRACE_RESERVE, seed);
	while (t->n_jobs < JOBS_MAX)
		new_job(t, 0);
	for (struct job *j = t->jobs; j < t->jobs + t->n_jobs; j++) {
		const int32_t i = (int32_t)(j - t->jobs), n_prompt = draw_in(t, 1, 4);
		cohort_request_params_init(&j->p);
		j->p.prompt = j->prompt;
		j->p.n_prompt = n_prompt;
		j->p.client = (uint64_t)i % 2;
		j->p.max_tokens = i % 2 ? 1 : draw_in(t, 8, 14);
		j->p.on_event = hear;
		j->p.user = j;
		j->arrives = 0;
		j->poison = -1;
		j->reads = j->free_early = j->follows = false;
		size = n_prompt + j->p.max_tokens > size ? n_prompt + j->p.max_tokens : size;
	}
	t->cancel_p = 0;
	while (step(t) && waits[0] && waits[1]) {
		const int64_t apart = served(t, 0, &waits[0]) - served(t, 1, &waits[1]);
		sim_check(&t->m, !waits[0] || !waits[1] || llabs(apart) <= (int64_t)t->lim.n_slots * size,
				"the clients are %lld tokens apart; %d slots of %d are allowed", (long long)apart,
				t->lim.n_slots, size);
		seen.waits++;
	}
	t->shut = true;
	core_shut(&t->core);
	for (int32_t i = 0; i < t->n_jobs; i++)
		cohort_request_free(t->jobs[i].r);
	core_release(&t->core);
}

static void test_traces_of_shares(void **state)
{
	(void)state;
	memset(&seen, 0, sizeof seen);
	const uint64_t end = only ? only_seed + 1 : (uint64_t)n_traces / 20;
	for (uint64_t seed = only ? only_seed : 0; seed < end; seed++) {
		rng_init(&trace.rng, seed, 1);
		draw_limits(&trace, TRACE_RESERVE);
		/* All are taken, and nobody is overdue. */
		if (trace.lim.n_slots <= 2 && trace.lim.n_pos_max > 20 && trace.lim.wait_max_s == 30 &&
				trace.lim.queue_requests_max == 100 && trace.lim.queue_tokens_max == 10000)
			run_shares(&trace, seed);
	}
	assert_true(only || seen.waits > n_traces / 20);
}

int main(int argc, char **argv)
{
	const char *count = argc > 1 ? argv[1] : getenv("COHORT_TRACES"), *seed = getenv("COHORT_TRACE");
	const struct CMUnitTest tests[] = {
			cmocka_unit_test(test_traces_with_reserved_room),
			cmocka_unit_test(test_traces_with_overcommitted_room),
			cmocka_unit_test(test_traces_with_a_window),
			cmocka_unit_test(test_traces_with_states),
			cmocka_unit_test(test_traces_of_an_encoder),
			cmocka_unit_test(test_traces_of_a_misbehaving_strategy),
			cmocka_unit_test(test_traces_of_shares),
	};

	n_traces = count ? atoi(count) : effort(TRACES);
	only = seed != NULL;
	only_seed = seed ? strtoull(seed, NULL, 10) : 0;
	signal(SIGSEGV, on_signal);
	signal(SIGABRT, on_signal);
	return cmocka_run_group_tests_name("engine_traces", tests, NULL, NULL);
}
