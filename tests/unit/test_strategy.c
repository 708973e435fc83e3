/* Strategies: the three that are built in, against tables and against laws in random worlds, and those from files.
 *
 * The laws are shown to see what they look for: strategies with one planted fault each run in the same worlds, and the
 * law that they break must be named. Seen red in strategy.c itself with: no floor; a floor of budget / 8; a turn that
 * starts at the lowest id each time, or at the last one served again; one cursor for both sides; sides of a budget of 1
 * that do not take turns; halves whose rest is lost; the odd row given to prompts, or always to one side. In
 * strategy_file.c with: a list that is read to an end it does not have; an unfinished strategy taken; an object without
 * the export taken; a list that is asked for its first strategy again, which it may not have any more (strategy_once).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/rng.h"
#include "cohort_engine.h"
#include "effort.h"

enum { SLOTS_MAX = 1024, BUDGET_MAX = 600, PROMPT_MAX = 2000, STATE_BYTES = 256, IDS_RANDOM = 24 };

static cohort_token prompt[PROMPT_MAX];

/* Slots by id, and what a strategy sees of them. */
struct world {
	struct cohort_slot all[SLOTS_MAX]; /* [id]; those that are idle have no work */
	struct cohort_slot slots[SLOTS_MAX];
	struct cohort_entry entries[2 * BUDGET_MAX];
	struct cohort_plan plan;
	uint64_t tick;
	_Alignas(16) char state[STATE_BYTES];
	/* Of the last plan. */
	int32_t n_decode, n_prefill; /* rows */
	int64_t work_decode, work_prefill; /* rows there could have been */
};

static void set_generating(struct world *w, cohort_seq id)
{
	w->all[id] = (struct cohort_slot){.id = id,
			.state = COHORT_SLOT_GENERATING,
			.prompt = prompt,
			.n_prompt = 3,
			.n_prefilled = 3,
			.pending = 7 + id,
			.pos = 3 + w->all[id].n_generated,
			.batch_index = -1};
}

static void set_prefilling(struct world *w, cohort_seq id, int32_t n_prompt, int32_t n_prefilled)
{
	w->all[id] = (struct cohort_slot){.id = id,
			.state = COHORT_SLOT_PREFILLING,
			.prompt = prompt,
			.n_prompt = n_prompt,
			.n_prefilled = n_prefilled,
			.pending = -1,
			.pos = n_prefilled,
			.batch_index = -1};
}

static int32_t slot_work(const struct cohort_slot *s, int32_t chunk_size)
{
	if (s->state == COHORT_SLOT_GENERATING)
		return 1;
	const int32_t left = s->state == COHORT_SLOT_PREFILLING ? s->n_prompt - s->n_prefilled : 0;
	return left < chunk_size ? left : chunk_size;
}

/* The rule of cohort_engine.h that the plan breaks, or NULL. Counts the rows of both sides. */
static const char *broken_rule(struct world *w)
{
	static int32_t n_rows[SLOTS_MAX], sampled_at[SLOTS_MAX];
	const struct cohort_plan *p = &w->plan;

	w->n_decode = w->n_prefill = 0;
	memset(n_rows, 0, sizeof n_rows);
	for (int32_t i = 0; i < SLOTS_MAX; i++)
		sampled_at[i] = -1;
	if (p->n_entries == 0)
		return "empty";
	if (p->n_entries > p->budget)
		return "budget";
	for (int32_t i = 0; i < p->n_entries; i++) {
		const struct cohort_entry *e = &p->entries[i];
		if (e->seq < 0 || e->seq >= SLOTS_MAX || w->all[e->seq].state == COHORT_SLOT_IDLE)
			return "slot";
		const struct cohort_slot *s = &w->all[e->seq];
		const int32_t n = n_rows[e->seq]++;
		const bool generating = s->state == COHORT_SLOT_GENERATING;
		if (e->pos != s->pos + n || (generating ? n > 0 : s->n_prefilled + n >= s->n_prompt))
			return "order";
		if (e->token != (generating ? s->pending : s->prompt[s->n_prefilled + n]))
			return "token";
		if (!generating && n >= p->chunk_size)
			return "chunk";
		if (e->logits != (generating || s->n_prefilled + n + 1 == s->n_prompt))
			return "logits";
		if (e->logits)
			sampled_at[e->seq] = i;
		*(generating ? &w->n_decode : &w->n_prefill) += 1;
	}
	for (int32_t i = 0; i < p->n_slots; i++) {
		const struct cohort_slot *s = &p->slots[i], *was = &w->all[s->id];
		const int32_t n = n_rows[s->id];
		const bool generating = was->state == COHORT_SLOT_GENERATING;
		if (s->pos != was->pos + n || s->batch_index != sampled_at[s->id] ||
				s->n_prefilled != was->n_prefilled + (generating ? 0 : n) ||
				s->pending != (generating && n ? -1 : was->pending))
			return "progress";
	}
	return NULL;
}

/* Plans a tick; the rule it breaks, or NULL. */
static const char *tick(struct world *w, const struct cohort_strategy *s, int32_t budget, int32_t chunk_size)
{
	w->plan = (struct cohort_plan){.slots = w->slots,
			.budget = budget,
			.chunk_size = chunk_size,
			.tick = ++w->tick,
			.entries = w->entries};
	w->work_decode = w->work_prefill = 0;
	for (int32_t i = 0; i < SLOTS_MAX; i++) {
		const int32_t n = slot_work(&w->all[i], chunk_size);
		if (n > 0)
			w->slots[w->plan.n_slots++] = w->all[i];
		*(w->all[i].state == COHORT_SLOT_GENERATING ? &w->work_decode : &w->work_prefill) += n;
	}
	assert_true(s->state_bytes <= STATE_BYTES);
	if (s->build_batch(s, w->state, &w->plan) != COHORT_OK)
		return "status";
	return broken_rule(w);
}

/* ---- Tables ---- */

enum { PLENTY = -1 };

struct share_case {
	int32_t budget, chunk_size;
	int32_t n_generating; /* slots; PLENTY: more than any budget here */
	int32_t n_prompt_rows; /* in one slot; PLENTY: more than any budget here, in two */
	int32_t want[3][2]; /* by strategy: rows that are generated, rows of prompts */
};

static const struct share_case share_cases[] = {
		/* Both sides have more than there is room for. A budget of 1 is another test. */
		{2, 512, PLENTY, PLENTY, {{1, 1}, {1, 1}, {1, 1}}},
		{15, 512, PLENTY, PLENTY, {{14, 1}, {1, 14}, {8, 7}}},
		{16, 512, PLENTY, PLENTY, {{15, 1}, {1, 15}, {8, 8}}},
		{17, 512, PLENTY, PLENTY, {{16, 1}, {1, 16}, {9, 8}}},
		{31, 512, PLENTY, PLENTY, {{30, 1}, {1, 30}, {16, 15}}},
		{32, 512, PLENTY, PLENTY, {{30, 2}, {2, 30}, {16, 16}}},
		{512, 512, PLENTY, PLENTY, {{480, 32}, {32, 480}, {256, 256}}},
		/* One side has little: the other one has all the rest. */
		{2, 512, 1, PLENTY, {{1, 1}, {1, 1}, {1, 1}}},
		{15, 512, 3, PLENTY, {{3, 12}, {1, 14}, {3, 12}}},
		{17, 512, 3, PLENTY, {{3, 14}, {1, 16}, {3, 14}}},
		{512, 512, 10, PLENTY, {{10, 502}, {10, 502}, {10, 502}}},
		{512, 512, 40, PLENTY, {{40, 472}, {32, 480}, {40, 472}}},
		{15, 512, PLENTY, 3, {{14, 1}, {12, 3}, {12, 3}}},
		{512, 512, PLENTY, 5, {{507, 5}, {507, 5}, {507, 5}}},
		{512, 512, PLENTY, 100, {{480, 32}, {412, 100}, {412, 100}}},
		{512, 512, 7, 9, {{7, 9}, {7, 9}, {7, 9}}},
		/* One side has nothing. */
		{1, 512, PLENTY, 0, {{1, 0}, {1, 0}, {1, 0}}},
		{16, 512, PLENTY, 0, {{16, 0}, {16, 0}, {16, 0}}},
		{512, 512, 3, 0, {{3, 0}, {3, 0}, {3, 0}}},
		{1, 512, 0, PLENTY, {{0, 1}, {0, 1}, {0, 1}}},
		{17, 512, 0, PLENTY, {{0, 17}, {0, 17}, {0, 17}}},
		{512, 512, 0, PLENTY, {{0, 512}, {0, 512}, {0, 512}}},
		/* Chunks are what a prompt has to give. */
		{512, 100, 0, PLENTY, {{0, 200}, {0, 200}, {0, 200}}},
		{512, 100, PLENTY, PLENTY, {{480, 32}, {312, 200}, {312, 200}}},
		{512, 16, PLENTY, 700, {{496, 16}, {496, 16}, {496, 16}}},
		{16, 1, PLENTY, PLENTY, {{15, 1}, {14, 2}, {14, 2}}},
};

static void strategies_share_rows_as_tables_say(void **state)
{
	static struct world w;
	(void)state;

	for (size_t c = 0; c < sizeof share_cases / sizeof *share_cases; c++) {
		const struct share_case *k = &share_cases[c];
		for (size_t i = 0; i < cohort_strategy_count(); i++) {
			memset(&w, 0, sizeof w);
			if (k->n_prompt_rows)
				set_prefilling(&w, 5, k->n_prompt_rows == PLENTY ? 1000 : k->n_prompt_rows + 2, 2);
			if (k->n_prompt_rows == PLENTY)
				set_prefilling(&w, 900, 800, 0);
			for (int32_t n = 0; n < (k->n_generating == PLENTY ? 700 : k->n_generating); n++)
				set_generating(&w, 10 + n);
			const char *broken = tick(&w, cohort_strategy_get(i), k->budget, k->chunk_size);
			if (broken || w.n_decode != k->want[i][0] || w.n_prefill != k->want[i][1])
				fail_msg("case %zu, %s: %d + %d rows (%s)", c, cohort_strategy_get(i)->name, w.n_decode,
						w.n_prefill, broken ? broken : "all rules kept");
		}
	}
}

/* balanced: the odd row goes to each side in turn; ticks in which one side has nothing do not count. */
static void odd_rows(void **state)
{
	static struct world w;
	const struct cohort_strategy *s = cohort_strategy_find("balanced");
	(void)state;

	memset(&w, 0, sizeof w);
	set_prefilling(&w, 900, 800, 0);
	for (int32_t n = 0; n < 20; n++)
		set_generating(&w, 10 + n);
	for (int i = 0; i < 8; i++) {
		assert_null(tick(&w, s, 17, 512));
		assert_int_equal(w.n_decode, i % 2 ? 8 : 9);
		assert_int_equal(w.n_prefill, i % 2 ? 9 : 8);
	}
	assert_null(tick(&w, s, 17, 512));
	assert_int_equal(w.n_decode, 9);
	const struct cohort_slot kept = w.all[900];
	memset(&w.all[900], 0, sizeof w.all[900]);
	assert_null(tick(&w, s, 17, 512));
	assert_int_equal(w.n_decode, 17);
	w.all[900] = kept;
	assert_null(tick(&w, s, 17, 512));
	assert_int_equal(w.n_decode, 8);
}

/* With a budget of 1 the sides take turns while both wait; who is alone has it all. */
static void budget_of_one(void **state)
{
	static struct world w;
	(void)state;

	for (size_t i = 0; i < cohort_strategy_count(); i++) {
		const struct cohort_strategy *s = cohort_strategy_get(i);
		const bool prompts_first = strcmp(s->name, "prefill-priority") == 0;
		memset(&w, 0, sizeof w);
		set_prefilling(&w, 1, 100, 0);
		set_generating(&w, 2);
		for (int k = 0; k < 6; k++) {
			assert_null(tick(&w, s, 1, 8));
			assert_int_equal(w.n_prefill, (k % 2 == 0) == prompts_first);
		}
		/* Whoever had the last ticks for itself lets the other one go first. */
		for (int alone = 0; alone < 2; alone++) {
			w.all[1].state = alone ? COHORT_SLOT_PREFILLING : COHORT_SLOT_IDLE;
			w.all[2].state = alone ? COHORT_SLOT_IDLE : COHORT_SLOT_GENERATING;
			for (int k = 0; k < 3; k++) {
				assert_null(tick(&w, s, 1, 8));
				assert_int_equal(w.n_prefill, alone);
			}
			w.all[1].state = COHORT_SLOT_PREFILLING;
			w.all[2].state = COHORT_SLOT_GENERATING;
			assert_null(tick(&w, s, 1, 8));
			assert_int_equal(w.n_prefill, !alone);
		}
	}
}

/* n slots of a side, none of which ends: each is served within the bound, from any tick on. */
static void everybody_in_time(
		const struct cohort_strategy *s, int n, bool prompts, int32_t budget, int32_t chunk_size, int bound)
{
	static struct world w;
	int last[64] = {0};

	assert_true(n <= 64);
	memset(&w, 0, sizeof w);
	for (int i = 0; i < n; i++)
		if (prompts)
			set_prefilling(&w, 3 * i, PROMPT_MAX, 0);
		else
			set_generating(&w, 3 * i);
	for (int t = 1; t <= 200; t++) {
		assert_null(tick(&w, s, budget, chunk_size));
		for (int i = 0; i < w.plan.n_slots; i++)
			if (w.plan.slots[i].n_planned)
				last[w.plan.slots[i].id / 3] = t;
		for (int i = 0; i < n; i++)
			if (t - last[i] >= bound)
				fail_msg("%s: slot %d of %d waits for %d ticks at a budget of %d", s->name, i, n,
						t - last[i], budget);
	}
}

static void prompts_take_turns_by_rotation(void **state)
{
	static const struct {
		int n;
		bool prompts;
		int32_t budget, chunk_size;
		int bound;
	} of[] = {
			{7, false, 1, 8, 7},
			{7, false, 2, 8, 4},
			{50, false, 15, 8, 4},
			{50, false, 16, 8, 4},
			{50, false, 17, 8, 3},
			{50, false, 512, 8, 1},
			{7, true, 1, 8, 7},
			{7, true, 2, 8, 7},
			{7, true, 17, 8, 3}, /* 8, 8 and 1 rows */
			{50, true, 512, 16, 2}, /* 32 chunks */
			{50, true, 512, 512, 50},
			{50, true, 500, 10, 1},
	};
	(void)state;

	for (size_t i = 0; i < cohort_strategy_count(); i++)
		for (size_t k = 0; k < sizeof of / sizeof *of; k++)
			everybody_in_time(cohort_strategy_get(i), of[k].n, of[k].prompts, of[k].budget,
					of[k].chunk_size, of[k].bound);
}

/* ---- Laws in random worlds ---- */

struct laws {
	/* seen[x][y]: how often x, which waits all the while on its side, saw y of the same side be served. */
	uint8_t seen[IDS_RANDOM][IDS_RANDOM];
	enum cohort_slot_state was[IDS_RANDOM];
	bool one_row, both_waited; /* of the last tick */
	bool last_prefill;
};

static const char *turns_law(struct laws *l, const struct world *w)
{
	bool served[IDS_RANDOM] = {0};

	for (int32_t i = 0; i < w->plan.n_slots; i++)
		served[w->plan.slots[i].id] = w->plan.slots[i].n_planned > 0;
	for (int x = 0; x < IDS_RANDOM; x++) {
		if (served[x] || w->all[x].state != l->was[x])
			memset(l->seen[x], 0, sizeof l->seen[x]);
		l->was[x] = w->all[x].state;
		if (served[x] || w->all[x].state == COHORT_SLOT_IDLE)
			continue;
		for (int y = 0; y < IDS_RANDOM; y++)
			if (served[y] && w->all[y].state == w->all[x].state && ++l->seen[x][y] > 1)
				return "turns";
	}
	return NULL;
}

/* After a tick that broke no rule: the law that it broke, or NULL. */
static const char *broken_law(struct laws *l, const struct world *w)
{
	const int32_t budget = w->plan.budget;
	const int64_t n_floor = budget / 16 > 1 ? budget / 16 : 1, work = w->work_decode + w->work_prefill;
	const bool both = w->work_decode && w->work_prefill, one_row = budget == 1;

	if (w->plan.n_entries != (work < budget ? work : budget))
		return "conserving";
	if (both && !one_row &&
			(w->n_decode < (w->work_decode < n_floor ? w->work_decode : n_floor) ||
					w->n_prefill < (w->work_prefill < n_floor ? w->work_prefill : n_floor)))
		return "floor";
	if (both && one_row && l->one_row && l->both_waited && l->last_prefill == (w->n_prefill > 0))
		return "sides";
	l->one_row = one_row;
	l->both_waited = both;
	l->last_prefill = w->n_prefill > 0;
	return turns_law(l, w);
}

/* What the tick computed, and then slots that come, go and become others. */
static void go_on(struct world *w, struct rng *r)
{
	for (int32_t i = 0; i < w->plan.n_slots; i++) {
		const struct cohort_slot *s = &w->plan.slots[i];
		struct cohort_slot *a = &w->all[s->id];
		const int32_t n_generated = a->n_generated + (s->batch_index >= 0);
		if (s->batch_index >= 0) {
			a->n_generated = n_generated;
			set_generating(w, s->id);
			a->n_generated = n_generated;
		} else if (s->n_planned) {
			*a = *s;
			a->n_planned = 0;
		}
	}
	for (uint32_t n = rng_u32(r) % 4; n > 0; n--) {
		const cohort_seq id = (cohort_seq)(rng_u32(r) % IDS_RANDOM);
		if (w->all[id].state != COHORT_SLOT_IDLE)
			w->all[id] = (struct cohort_slot){.id = id};
		else if (rng_u32(r) % 2)
			set_prefilling(w, id, 1 + (int32_t)(rng_u32(r) % (rng_u32(r) % 2 ? 10 : 300)), 0);
		else
			set_generating(w, id);
	}
}

/* The rule or law that the strategy breaks in some of many random worlds, or NULL. */
static const char *wander(const struct cohort_strategy *s, int n_worlds)
{
	static const int32_t budgets[] = {1, 2, 3, 15, 16, 17, 64, 512};
	static const int32_t chunks[] = {1, 3, 16, 512};
	static struct world w;
	const char *broken = NULL;
	struct rng r;

	rng_init(&r, 7, 7);
	for (int i = 0; i < n_worlds && !broken; i++) {
		struct laws l = {0};
		int32_t budget = budgets[rng_u32(&r) % 8];
		memset(&w, 0, sizeof w);
		for (int k = 0; k < 60 && !broken; k++) {
			go_on(&w, &r);
			if (rng_u32(&r) % 40 == 0)
				budget = budgets[rng_u32(&r) % 8];
			bool work = false;
			for (int id = 0; id < IDS_RANDOM; id++)
				work = work || w.all[id].state != COHORT_SLOT_IDLE;
			if (!work) {
				w.plan.n_slots = 0;
				continue;
			}
			broken = tick(&w, s, budget, chunks[rng_u32(&r) % 4]);
			if (!broken)
				broken = broken_law(&l, &w);
		}
	}
	return broken;
}

static void laws_kept(void **state)
{
	(void)state;

	for (size_t i = 0; i < cohort_strategy_count(); i++) {
		const char *broken = wander(cohort_strategy_get(i), effort(4000));
		if (broken)
			fail_msg("%s breaks: %s", cohort_strategy_get(i)->name, broken);
	}
}

/* ---- Planted faults ---- */

enum fault {
	FAULT_STATUS,
	FAULT_EMPTY,
	FAULT_BUDGET,
	FAULT_SLOT,
	FAULT_ORDER,
	FAULT_TWICE,
	FAULT_TOKEN,
	FAULT_CHUNK,
	FAULT_LOGITS,
	FAULT_PROGRESS,
	FAULT_CONSERVING,
	FAULT_FLOOR,
	FAULT_SIDES,
	FAULT_TURNS,
	N_FAULTS
};
static const char *const fault_names[N_FAULTS] = {"status", "empty", "budget", "slot", "order", "order", "token",
		"chunk", "logits", "progress", "conserving", "floor", "sides", "turns"};

static int32_t count_generating(const struct cohort_plan *p)
{
	int32_t n = 0;

	for (int32_t i = 0; i < p->n_slots; i++)
		n += p->slots[i].state == COHORT_SLOT_GENERATING;
	return n;
}

/* The default strategy, which is shown another plan, or its answer changed. */
static enum cohort_status faulty(const struct cohort_strategy *self, void *state, struct cohort_plan *p)
{
	const enum fault fault = *(const enum fault *)self->user;
	const struct cohort_strategy *sound = cohort_strategy_get(0);
	const int32_t budget = p->budget, chunk_size = p->chunk_size, n_generating = count_generating(p);
	const bool hide = fault == FAULT_SIDES && budget == 1 && n_generating < p->n_slots;

	if (fault == FAULT_CONSERVING && budget > 1)
		p->budget--;
	if (fault == FAULT_BUDGET)
		p->budget++;
	if (fault == FAULT_CHUNK)
		p->chunk_size++;
	if (fault == FAULT_FLOOR && n_generating >= budget)
		p->chunk_size = 0; /* prompts have nothing to give */
	if (fault == FAULT_TURNS)
		memset(state, 0, self->state_bytes); /* from the lowest id on */
	for (int32_t i = 0; hide && i < p->n_slots; i++)
		p->slots[i].pending = -1; /* nobody generates */
	sound->build_batch(sound, state, p);
	for (int32_t i = 0; hide && i < p->n_slots; i++)
		if (p->slots[i].state == COHORT_SLOT_GENERATING)
			p->slots[i].pending = 7 + p->slots[i].id;
	p->budget = budget;
	p->chunk_size = chunk_size;
	struct cohort_entry *e = &p->entries[p->n_entries - 1];
	switch (fault) {
	case FAULT_STATUS: return COHORT_E_BUG;
	case FAULT_EMPTY: p->n_entries = 0; break;
	case FAULT_SLOT: e->seq = IDS_RANDOM; break;
	case FAULT_ORDER: e->pos++; break;
	case FAULT_TWICE:
		if (p->n_entries < budget)
			p->entries[p->n_entries++] = *e;
		break;
	case FAULT_TOKEN: e->token ^= 1; break;
	case FAULT_LOGITS: e->logits = !e->logits; break;
	case FAULT_PROGRESS: p->slots[0].pos++; break;
	default: break;
	}
	return COHORT_OK;
}

static void strategy_checks_see_planted_faults(void **state)
{
	(void)state;

	for (int i = 0; i < N_FAULTS; i++) {
		enum fault fault = (enum fault)i;
		const struct cohort_strategy s = {.struct_size = sizeof s,
				.name = "faulty",
				.user = &fault,
				.state_bytes = cohort_strategy_get(0)->state_bytes,
				.build_batch = faulty};
		const char *broken = wander(&s, 2000);
		if (!broken)
			fail_msg("nobody saw the fault \"%s\"", fault_names[i]);
		else
			assert_string_equal(broken, fault_names[i]);
	}
}

/* ---- The list, and files ---- */

static void built_in_strategies_by_name(void **state)
{
	static const char *const want[] = {"decode-maximal", "prefill-priority", "balanced"};
	(void)state;

	assert_int_equal(cohort_strategy_count(), 3);
	for (size_t i = 0; i < 3; i++) {
		const struct cohort_strategy *s = cohort_strategy_get(i);
		assert_string_equal(s->name, want[i]);
		assert_ptr_equal(cohort_strategy_find(want[i]), s);
		assert_int_equal(s->struct_size, sizeof *s);
		assert_true(strlen(s->about) > 0);
	}
	assert_null(cohort_strategy_get(3));
	assert_null(cohort_strategy_get(SIZE_MAX));
	assert_null(cohort_strategy_find("balance"));
	assert_null(cohort_strategy_find(""));
	assert_null(cohort_strategy_find(NULL));
}

static const char *module(const char *name)
{
	static char path[1024];
	const char *build = getenv("COHORT_BUILD");

	snprintf(path, sizeof path, "%s/%s.so", build ? build : "build", name);
	return path;
}

static void refused(const char *path, const char *name, enum cohort_status want, const char *text)
{
	struct cohort_strategy_file *file = NULL;
	const struct cohort_strategy *s = NULL;
	struct cohort_err err = {0};

	assert_int_equal(cohort_strategy_open(path, name, &file, &s, &err), want);
	assert_null(file);
	assert_null(s);
	if (!strstr(err.text, text))
		fail_msg("\"%s\" does not say \"%s\"", err.text, text);
}

static void strategy_files_open_by_name(void **state)
{
	struct cohort_strategy_file *file;
	const struct cohort_strategy *s;
	(void)state;

	assert_int_equal(cohort_strategy_open(module("strategy_shortest_first"), NULL, &file, &s, NULL), COHORT_OK);
	assert_string_equal(s->name, "shortest-first");
	cohort_strategy_file_free(file);
	assert_int_equal(cohort_strategy_open(module("strategy_list"), "two", &file, &s, NULL), COHORT_OK);
	assert_string_equal(s->name, "two");
	cohort_strategy_file_free(file);

	/* The object is closed in between, so that it starts anew. */
	assert_int_equal(cohort_strategy_open(module("strategy_once"), NULL, &file, &s, NULL), COHORT_OK);
	assert_string_equal(s->name, "once");
	cohort_strategy_file_free(file);

	refused(module("strategy_once"), "twice", COHORT_E_ARG, "its first is \"once\"");
	refused(module("strategy_shortest_first"), "longest-first", COHORT_E_ARG, "\"shortest-first\"");
	refused(module("strategy_list"), "three", COHORT_E_ARG, "\"three\"");
	refused(module("strategy_no_such_file"), NULL, COHORT_E_IO, "strategy_no_such_file.so");
	refused(module("strategy_no_export"), NULL, COHORT_E_FORMAT, COHORT_STRATEGY_EXPORT);
	refused(module("strategy_other_abi"), "later", COHORT_E_UNSUPPORTED, "abi 1");
	for (int i = 0; i < 3; i++) {
		assert_int_equal(setenv("COHORT_UNFINISHED", (const char *const[]){"0", "1", "2"}[i], 1), 0);
		refused(module("strategy_no_build"), NULL, COHORT_E_FORMAT, "has no size, name or build_batch");
	}
	refused(NULL, NULL, COHORT_E_ARG, "path");
	assert_int_equal(cohort_strategy_open("x", NULL, NULL, &s, NULL), COHORT_E_ARG);
	assert_int_equal(cohort_strategy_open("x", NULL, &file, NULL, NULL), COHORT_E_ARG);
	for (int i = 0; i < 2; i++) {
		mem_fail_after(i);
		refused(module("strategy_shortest_first"), NULL, COHORT_E_MEMORY, "out of memory");
	}
	mem_fail_after(-1);
	cohort_strategy_file_free(NULL);
}

/* Slots that have nothing to do get nothing, and cost those behind them nothing. */
static void nothing_to_do(void **state)
{
	static const cohort_token tokens[9];
	(void)state;

	for (size_t i = 0; i < cohort_strategy_count(); i++) {
		const struct cohort_strategy *s = cohort_strategy_get(i);
		struct cohort_slot slots[] = {
				{.id = 0, .state = COHORT_SLOT_IDLE, .pending = -1, .batch_index = -1},
				{.id = 1, .state = COHORT_SLOT_PARKED, .prompt = tokens, .n_prompt = 9, .pending = -1},
				{.id = 2, .state = COHORT_SLOT_GENERATING, .pending = -1, .batch_index = -1},
				{.id = 3, .state = COHORT_SLOT_GENERATING, .pending = -1, .batch_index = -1},
		};
		struct cohort_entry entries[4];
		uint64_t turns[STATE_BYTES / 8 + 1] = {0};
		struct cohort_plan plan = {
				.slots = slots, .n_slots = 4, .budget = 4, .chunk_size = 4, .entries = entries};
		assert_true(s->state_bytes <= sizeof turns);
		assert_int_equal(s->build_batch(s, turns, &plan), COHORT_OK);
		assert_int_equal(plan.n_entries, 0);
		slots[3].pending = 7;
		plan.budget = 1;
		assert_int_equal(s->build_batch(s, turns, &plan), COHORT_OK);
		assert_int_equal(plan.n_entries, 1);
		assert_int_equal(plan.entries[0].seq, 3);
		assert_int_equal(plan.entries[0].token, 7);
	}
}

/* The example: what it says of itself. */
static void example_shortest_first_plans(void **state)
{
	static struct world w;
	struct cohort_strategy_file *file;
	const struct cohort_strategy *s;
	(void)state;

	assert_int_equal(cohort_strategy_open(module("strategy_shortest_first"), "shortest-first", &file, &s, NULL),
			COHORT_OK);
	/* Prompts of 90, 20 and 50 rows, one of them old. */
	for (int old = 0; old < 2; old++) {
		memset(&w, 0, sizeof w);
		set_prefilling(&w, 0, 100, 10);
		set_prefilling(&w, 1, 20, 0);
		set_prefilling(&w, 2, 60, 10);
		set_generating(&w, 3);
		w.all[0].age_s = old ? 11 : 9;
		w.all[1].age_s = 1;
		assert_null(tick(&w, s, 100, 64));
		assert_int_equal(w.n_decode, 1);
		assert_int_equal(w.plan.entries[0].seq, 3);
		assert_int_equal(w.plan.slots[0].n_planned, old ? 64 : 29);
		assert_int_equal(w.plan.slots[1].n_planned, 20);
		assert_int_equal(w.plan.slots[2].n_planned, old ? 15 : 50);
	}
	/* Many that generate leave a sixteenth to prompts, and take back what these do not need. */
	memset(&w, 0, sizeof w);
	set_prefilling(&w, 900, 100, 0);
	for (int i = 0; i < 700; i++)
		set_generating(&w, i);
	assert_null(tick(&w, s, 512, 512));
	assert_int_equal(w.n_prefill, 32);
	assert_int_equal(w.n_decode, 480);
	set_prefilling(&w, 900, 5, 0);
	assert_null(tick(&w, s, 512, 512));
	assert_int_equal(w.n_prefill, 5);
	assert_int_equal(w.n_decode, 507);
	/* With a budget of 1 the sides take turns. */
	for (int i = 0; i < 4; i++) {
		assert_null(tick(&w, s, 1, 512));
		assert_int_equal(w.n_prefill, w.tick % 2);
	}
	everybody_in_time(s, 7, false, 1, 8, 7);
	everybody_in_time(s, 50, false, 16, 8, 50);
	cohort_strategy_file_free(file);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
			cmocka_unit_test(built_in_strategies_by_name),
			cmocka_unit_test(strategies_share_rows_as_tables_say),
			cmocka_unit_test(odd_rows),
			cmocka_unit_test(budget_of_one),
			cmocka_unit_test(prompts_take_turns_by_rotation),
			cmocka_unit_test(laws_kept),
			cmocka_unit_test(strategy_checks_see_planted_faults),
			cmocka_unit_test(nothing_to_do),
			cmocka_unit_test(strategy_files_open_by_name),
			cmocka_unit_test(example_shortest_first_plans),
	};

	for (int32_t i = 0; i < PROMPT_MAX; i++)
		prompt[i] = 1000 + i;
	return cmocka_run_group_tests_name("strategy", tests, NULL, NULL);
}
