/* Strategies for tests of the engine: the built-in ones, watched, and one that does whatever it must not.
 *
 * The watched ones are asked by the core and ask the built-in ones; what they promise (src/engine/strategy.c) is
 * checked from the plan. The bad one builds a plan of random rows, which is allowed, and then spoils it in one of many
 * ways; the core must say which rule that broke. */
#ifndef TESTS_ENGINE_STRATEGIES_H
#define TESTS_ENGINE_STRATEGIES_H

#include "engine_machine.h"

enum trace_kind {
	TRACE_RESERVE,
	TRACE_OVERCOMMIT,
	TRACE_WINDOW,
	TRACE_STATES,
	TRACE_ENCODER,
	TRACE_MISBEHAVING,
	TRACE_KINDS
};

enum rule {
	RULE_NONE,
	RULE_STATUS,
	RULE_EMPTY,
	RULE_BUDGET,
	RULE_SLOT,
	RULE_ORDER,
	RULE_TOKEN,
	RULE_CHUNK,
	RULE_LOGITS,
	RULE_PROGRESS,
	RULE_ANY,
	RULE_COUNT
};
static const char *const rule_names[] = {
		"none", "status", "empty", "budget", "slot", "order", "token", "chunk", "logits", "progress", "any"};

enum { DECODE_MAXIMAL, PREFILL_PRIORITY, BALANCED, MISBEHAVING, PLANNERS };

/* Rows that each side could have used, and those it got. */
struct plan_sides {
	int32_t decode_work, prefill_work, n_decode, n_prefill;
};

struct planner {
	struct core *c;
	struct sim *m;
	struct rng rng;
	bool misbehaves;
	uint64_t oldest; /* the lowest turn of all slots in the plan */
	enum rule expect; /* what the bad one broke */
	uint64_t n_rules[RULE_COUNT];
	struct cohort_strategy strategies[PLANNERS];
	struct cohort_entry own_entries[64];
	struct cohort_slot own_slots[SIM_SLOTS];
};

/* ---- Watching ---- */

static inline void planner_note(struct planner *p, const struct cohort_plan *plan)
{
	p->expect = RULE_NONE;
	p->oldest = UINT64_MAX;
	for (int32_t i = 0; i < plan->n_slots; i++) {
		const struct cohort_slot *v = &plan->slots[i];
		const struct stream *s = p->c->slots[v->id];
		p->oldest = s->rest->turn < p->oldest ? s->rest->turn : p->oldest;
		sim_check(p->m,
				v->state == COHORT_SLOT_GENERATING
						? v->pending == s->known[v->pos] && v->pos == s->n_known - 1
						: v->n_prefilled == v->pos && v->n_prompt > v->pos,
				"slot %d is shown wrongly", v->id);
		sim_check(p->m, p->c->lim.encoder || v->pos == p->m->seqs[v->id].n,
				"slot %d is shown at %d, but is at %d", v->id, v->pos, p->m->seqs[v->id].n);
		sim_check(p->m, !v->n_planned && v->batch_index == -1 && (!i || plan->slots[i - 1].id < v->id),
				"slot %d is not fresh", v->id);
	}
}

static inline enum cohort_status planner_ask(const struct cohort_strategy *self, void *state, struct cohort_plan *plan)
{
	struct planner *p = self->user;
	const struct cohort_strategy *s = cohort_strategy_get((size_t)(self - p->strategies));

	planner_note(p, plan);
	return s->build_batch(s, state, plan);
}

static inline int32_t planner_least(int32_t a, int32_t b)
{
	return a < b ? a : b;
}

static inline int32_t planner_ceil(int32_t a, int32_t b)
{
	return (a + b - 1) / b;
}

/* Rows that a side gets at least, if it can use them. */
static inline int32_t planner_share(int kind, bool decode, int32_t budget)
{
	const int32_t n_floor = budget >= 32 ? budget / 16 : 1;

	if (kind == BALANCED) /* and an odd row in turn */
		return budget / 2;
	return (kind == DECODE_MAXIMAL) == decode ? budget - n_floor : n_floor;
}

static inline int planner_kind(const struct planner *p, const struct cohort_strategy *s)
{
	return (int)(s - p->strategies);
}

/* A slot that generates has a row within so many ticks: each of the others may be served once before. 0: no promise. */
static inline int32_t planner_decode_wait(
		const struct planner *p, const struct cohort_strategy *s, int32_t n_slots, int32_t budget)
{
	const int kind = planner_kind(p, s);

	if (kind == MISBEHAVING)
		return 0;
	return budget == 1 ? 2 * n_slots : planner_ceil(n_slots, planner_share(kind, true, budget));
}

/* The same for prompts, which take a chunk each. */
static inline int32_t planner_prefill_wait(const struct planner *p, const struct cohort_strategy *s, int32_t n_slots,
		int32_t budget, int32_t chunk_size)
{
	const int kind = planner_kind(p, s);

	if (kind == MISBEHAVING)
		return 0;
	return budget == 1 ? 2 * n_slots
			   : planner_ceil(n_slots, planner_ceil(planner_share(kind, false, budget), chunk_size));
}

/* What the plan of a tick must be. */
static inline void planner_check(
		const struct planner *p, const struct core *c, const struct plan_sides *s, bool fell_back)
{
	const int kind = fell_back ? DECODE_MAXIMAL : planner_kind(p, c->planner.strategy);
	const int32_t budget = c->lim.budget, n = s->n_decode + s->n_prefill;

	sim_check(p->m, fell_back == (p->expect != RULE_NONE), "a plan that breaks rule %s was %s",
			rule_names[p->expect], fell_back ? "refused" : "used");
	if (fell_back) {
		sim_check(p->m,
				c->tick.fallback &&
						(p->expect == RULE_ANY ||
								strcmp(c->tick.fallback, rule_names[p->expect]) == 0),
				"a plan that breaks rule %s is said to break %s", rule_names[p->expect],
				c->tick.fallback);
		sim_check(p->m, c->live.fallback.rule == c->tick.fallback, "the fallback is told in two ways");
	} else {
		sim_check(p->m, !c->tick.fallback, "rule %s is said to be broken", c->tick.fallback);
	}
	if (kind == MISBEHAVING)
		return;
	sim_check(p->m, n == planner_least(budget, s->decode_work + s->prefill_work),
			"%d rows of a budget of %d; there was work for %d and %d", n, budget, s->decode_work,
			s->prefill_work);
	if (budget == 1)
		return;
	sim_check(p->m,
			s->n_decode >= planner_least(s->decode_work, planner_share(kind, true, budget)) &&
					s->n_prefill >= planner_least(s->prefill_work,
									planner_share(kind, false, budget)),
			"%d and %d rows for work of %d and %d: a side got too few of %d", s->n_decode, s->n_prefill,
			s->decode_work, s->prefill_work, budget);
}

/* ---- Misbehaving ---- */

static inline int32_t planner_draw_in(struct planner *p, int32_t lo, int32_t hi)
{
	return lo + (int32_t)(rng_u32(&p->rng) % (uint32_t)(hi - lo + 1));
}

/* Rows in any order and number. */
static inline void planner_fill(struct planner *p, struct cohort_plan *plan)
{
	for (int tries = planner_draw_in(p, 1, 2 * plan->n_slots); tries > 0 || plan->n_entries == 0; tries--)
		cohort_plan_add(plan, &plan->slots[planner_draw_in(p, 0, plan->n_slots - 1)], planner_draw_in(p, 1, 4));
}

static inline int32_t planner_odd_number(struct planner *p, int32_t n)
{
	const int32_t odd[] = {-1, n, INT32_MAX, INT32_MIN, n + 1};
	return odd[planner_draw_in(p, 0, 4)];
}

static inline enum rule planner_spoil_chunk(struct planner *p, struct cohort_plan *plan)
{
	for (int32_t i = 0; i < plan->n_slots; i++) {
		struct cohort_slot *s = &plan->slots[i];
		if (s->state != COHORT_SLOT_PREFILLING || s->n_prompt - s->n_prefilled <= plan->chunk_size ||
				plan->budget - plan->n_entries + s->n_planned <= plan->chunk_size)
			continue;
		const int32_t n = plan->chunk_size - s->n_planned + 1;
		const int32_t chunk = plan->chunk_size;
		plan->chunk_size = INT32_MAX;
		const int32_t n_given = cohort_plan_add(plan, s, n);
		plan->chunk_size = chunk;
		return n_given == n ? RULE_CHUNK : RULE_NONE;
	}
	plan->chunk_size = planner_odd_number(p, plan->chunk_size + 1);
	return RULE_CHUNK;
}

static inline enum rule planner_spoil_slot(struct planner *p, struct cohort_plan *plan)
{
	struct cohort_slot *s = &plan->slots[planner_draw_in(p, 0, plan->n_slots - 1)];

	switch (planner_draw_in(p, 0, 6)) {
	case 0: s->pos += planner_draw_in(p, 0, 1) ? 1 : -1; break;
	case 1:
		if (s->state == COHORT_SLOT_GENERATING)
			s->pending = s->pending < 0 ? 0 : -1;
		else
			s->n_prefilled--;
		break;
	case 2: s->batch_index = s->batch_index < 0 ? 0 : planner_odd_number(p, plan->n_entries); break;
	case 3:
		s->state = s->state == COHORT_SLOT_GENERATING ? COHORT_SLOT_PREFILLING : COHORT_SLOT_GENERATING;
		break;
	case 4: s->prompt = planner_draw_in(p, 0, 1) ? NULL : s->prompt + 1; break;
	case 5: s->n_prompt += planner_draw_in(p, 0, 1) ? 1 : -1; break;
	default: s->id = planner_odd_number(p, p->c->lim.n_slots);
	}
	return RULE_PROGRESS;
}

static inline enum rule planner_spoil_arrays(struct planner *p, struct cohort_plan *plan)
{
	switch (planner_draw_in(p, 0, 2)) {
	case 0:
		memcpy(p->own_entries, plan->entries, (size_t)plan->n_entries * sizeof *plan->entries);
		plan->entries = p->own_entries;
		break;
	case 1:
		memcpy(p->own_slots, plan->slots, (size_t)plan->n_slots * sizeof *plan->slots);
		plan->slots = p->own_slots;
		break;
	default: plan->n_slots += planner_draw_in(p, 0, 1) ? 1 : -1;
	}
	return RULE_PROGRESS;
}

static inline enum rule planner_spoil_all(struct planner *p, struct cohort_plan *plan)
{
	plan->n_entries = plan->budget;
	for (int32_t i = 0; i < plan->budget; i++)
		plan->entries[i] = (struct cohort_entry){(cohort_token)rng_u32(&p->rng), (cohort_pos)rng_u32(&p->rng),
				planner_draw_in(p, -1, p->c->lim.n_slots), planner_draw_in(p, 0, 1)};
	for (int32_t i = 0; i < plan->n_slots; i++) {
		plan->slots[i].pos = (cohort_pos)rng_u32(&p->rng);
		plan->slots[i].prompt = NULL;
		plan->slots[i].n_prompt = (int32_t)rng_u32(&p->rng);
	}
	return RULE_ANY;
}

/* What it may do, and what is of no account. */
static inline enum rule planner_spoil_nothing(struct cohort_plan *plan)
{
	plan->queue_depth = -7;
	plan->tick = 0;
	for (int32_t i = 0; i < plan->n_slots; i++)
		plan->slots[i].n_left = plan->slots[i].n_planned = -1;
	return RULE_NONE;
}

static inline enum rule planner_spoil_entry(struct planner *p, struct cohort_plan *plan, enum rule rule)
{
	struct cohort_entry *e = &plan->entries[planner_draw_in(p, 0, plan->n_entries - 1)];

	if (rule == RULE_SLOT) {
		e->seq = planner_odd_number(p, p->c->lim.n_slots);
	} else if (rule == RULE_TOKEN) {
		e->token = planner_draw_in(p, 0, 1) ? e->token + 1 : planner_odd_number(p, SIM_VOCAB);
	} else if (rule == RULE_LOGITS) {
		e->logits = !e->logits;
	} else if (planner_draw_in(p, 0, 1) || plan->n_entries == plan->budget) {
		e->pos = planner_draw_in(p, 0, 1) ? e->pos + 1 : planner_odd_number(p, SIM_POS);
	} else {
		plan->entries[plan->n_entries++] = *e; /* a row twice */
	}
	return rule;
}

static inline enum cohort_status planner_misbehave(
		const struct cohort_strategy *self, void *state, struct cohort_plan *plan)
{
	struct planner *p = self->user;
	enum rule rule = (enum rule)planner_draw_in(p, 0, 2 * RULE_COUNT);
	enum cohort_status st = COHORT_OK;

	memset(state, 0xa5, self->state_bytes);
	planner_note(p, plan);
	planner_fill(p, plan);
	switch (rule) {
	case RULE_STATUS: st = planner_draw_in(p, 0, 1) ? COHORT_NO_ROOM : COHORT_E_BUG; break;
	case RULE_EMPTY: plan->n_entries = 0; break;
	case RULE_BUDGET:
		if (planner_draw_in(p, 0, 1))
			plan->n_entries = planner_odd_number(p, plan->budget + 1);
		else
			plan->budget = planner_odd_number(p, plan->budget + 1);
		break;
	case RULE_SLOT:
	case RULE_ORDER:
	case RULE_TOKEN:
	case RULE_LOGITS: planner_spoil_entry(p, plan, rule); break;
	case RULE_CHUNK: rule = planner_spoil_chunk(p, plan); break;
	case RULE_PROGRESS:
		rule = planner_draw_in(p, 0, 3) ? planner_spoil_slot(p, plan) : planner_spoil_arrays(p, plan);
		break;
	case RULE_ANY: rule = planner_spoil_all(p, plan); break;
	default: rule = planner_draw_in(p, 0, 1) ? planner_spoil_nothing(plan) : RULE_NONE;
	}
	p->expect = rule;
	p->n_rules[rule]++;
	return st;
}

static inline void planner_init(struct planner *p, struct core *c, struct sim *m, bool misbehaves, uint64_t seed)
{
	p->c = c;
	p->m = m;
	p->misbehaves = misbehaves;
	rng_init(&p->rng, seed, 3);
	memset(p->n_rules, 0, sizeof p->n_rules);
	for (int i = 0; i < PLANNERS; i++) {
		if (i < MISBEHAVING)
			p->strategies[i] = *cohort_strategy_get((size_t)i);
		else
			p->strategies[i] = (struct cohort_strategy){.struct_size = sizeof *p->strategies,
					.name = "misbehaving",
					.about = "does what it must not",
					.state_bytes = 5};
		p->strategies[i].user = p;
		p->strategies[i].build_batch = i < MISBEHAVING ? planner_ask : planner_misbehave;
	}
}

static inline const struct cohort_strategy *planner_draw(struct planner *p)
{
	if (p->misbehaves && planner_draw_in(p, 0, 3))
		return &p->strategies[MISBEHAVING];
	return &p->strategies[planner_draw_in(p, 0, BALANCED)];
}

#endif
