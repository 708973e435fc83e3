/* A strategy's answer is looked at before anything is computed: the engine believes its own books only. */
#include "engine/room.h"

#include <string.h>

static enum cohort_status refuse(struct cohort_err *err, const char *rule, int64_t row, int64_t seq, int64_t expected,
		int64_t got, const char *what)
{
	return err_rule(err, COHORT_E_BATCH, rule, row, seq, expected, got,
			"the strategy's plan breaks rule %s: %s (expected %lld, got %lld)", rule, what,
			(long long)expected, (long long)got);
}

/* Addresses say nothing to a reader. */
static enum cohort_status refuse_pointer(struct cohort_err *err, int64_t seq, const char *what)
{
	return err_rule(err, COHORT_E_BATCH, "progress", -1, seq, 0, 0,
			"the strategy's plan breaks rule progress: %s; a strategy writes into the arrays it is given",
			what);
}

enum entry_rule { ENTRY_GOOD = 0, ENTRY_SLOT, ENTRY_ORDER, ENTRY_TOKEN, ENTRY_CHUNK, ENTRY_LOGITS };

/* What an entry should be, and which rule it breaks. A good one is counted in c->plan.taken. */
struct verdict {
	enum entry_rule rule;
	int32_t pos, taken;
	cohort_token token;
	bool logits;
};

static inline struct verdict check_entry(struct core *c, const struct cohort_entry *e)
{
	struct verdict v = {.rule = ENTRY_SLOT};

	if ((uint32_t)e->seq >= (uint32_t)c->lim.n_slots || c->plan.view_of[e->seq] < 0)
		return v;
	int32_t *taken = &c->plan.taken[c->plan.view_of[e->seq]];
	const struct stream *s = c->slots[e->seq];
	const bool generates = s->phase == STREAM_GENERATES;
	v.taken = *taken;
	v.pos = s->n_cached + v.taken;
	v.rule = ENTRY_ORDER;
	if (e->pos != v.pos || v.pos >= s->n_known)
		return v;
	v.token = generates ? s->last : s->known[v.pos];
	v.logits = v.pos == s->n_known - 1;
	v.rule = e->token != v.token                                 ? ENTRY_TOKEN
			: !generates && v.taken >= c->lim.chunk_size ? ENTRY_CHUNK
			: e->logits != v.logits                      ? ENTRY_LOGITS
								     : ENTRY_GOOD;
	*taken += v.rule == ENTRY_GOOD;
	return v;
}

static enum cohort_status refuse_entry(const struct core *c, const struct cohort_entry *e, int32_t i,
		const struct verdict *v, struct cohort_err *err)
{
	switch (v->rule) {
	case ENTRY_ORDER:
		return refuse(err, "order", i, e->seq, v->pos < c->slots[e->seq]->n_known ? v->pos : -1, e->pos,
				"a slot's rows go on from where it is, one by one");
	case ENTRY_TOKEN:
		return refuse(err, "token", i, e->seq, v->token, e->token, "the token is not the slot's");
	case ENTRY_CHUNK:
		return refuse(err, "chunk", i, e->seq, c->lim.chunk_size, v->taken + 1, "too many rows of one prompt");
	case ENTRY_LOGITS:
		return refuse(err, "logits", i, e->seq, v->logits, e->logits,
				"logits belong to the last row, and to no other");
	default:
		return refuse(err, "slot", i, e->seq, c->lim.n_slots, e->seq, "no slot of the plan has this sequence");
	}
}

/* What the returned slots say must be what the entries do. */
static enum cohort_status check_slot(
		const struct core *c, const struct cohort_plan *plan, int32_t v, struct cohort_err *err)
{
	const struct cohort_slot *slot = &plan->slots[v];
	const struct stream *s = c->plan.active[v];
	const int32_t pos = s->n_cached + c->plan.taken[v];
	const bool generates = s->phase == STREAM_GENERATES, done = pos == s->n_known;

	if (slot->id != s->slot)
		return refuse(err, "progress", -1, slot->id, s->slot, slot->id, "id of the slot");
	if (slot->state != (generates ? COHORT_SLOT_GENERATING : COHORT_SLOT_PREFILLING))
		return refuse(err, "progress", -1, slot->id,
				generates ? COHORT_SLOT_GENERATING : COHORT_SLOT_PREFILLING, slot->state,
				"state of the slot, which is not a strategy's to change");
	if (slot->prompt != s->known)
		return refuse_pointer(err, slot->id, "the slot's prompt was replaced");
	const int32_t n_prompt = generates ? s->n_prompt : s->n_known;
	if (slot->n_prompt != n_prompt)
		return refuse(err, "progress", -1, slot->id, n_prompt, slot->n_prompt,
				"n_prompt of the slot, which is not a strategy's to change");
	if (slot->pos != pos)
		return refuse(err, "progress", -1, slot->id, pos, slot->pos, "pos of the slot");
	const int32_t n_prefilled = generates ? s->n_prompt : pos;
	if (slot->n_prefilled != n_prefilled)
		return refuse(err, "progress", -1, slot->id, n_prefilled, slot->n_prefilled, "n_prefilled of the slot");
	if (generates && slot->pending != (done ? -1 : s->last))
		return refuse(err, "progress", -1, slot->id, done ? -1 : s->last, slot->pending, "pending of the slot");
	const int32_t i = slot->batch_index;
	if (done ? i < 0 || i >= plan->n_entries || plan->entries[i].seq != slot->id || !plan->entries[i].logits
		 : i != -1)
		return refuse(err, "progress", -1, slot->id, done ? plan->n_entries : -1, i, "batch_index of the slot");
	return COHORT_OK;
}

enum cohort_status answer_check(
		struct core *c, const struct cohort_plan *plan, enum cohort_status said, struct cohort_err *err)
{
	const int32_t n_views = c->plan.n_views;
	enum cohort_status st = COHORT_OK;
	int32_t n_growth = 0;

	memset(c->plan.taken, 0, (size_t)c->plan.n_views * sizeof *c->plan.taken);
	if (said)
		return refuse(err, "status", -1, -1, COHORT_OK, said, cohort_status_name(said));
	/* The arrays are the engine's, whatever the plan says now. */
	if (plan->entries != c->plan.entries || plan->slots != c->plan.views)
		return refuse_pointer(err, -1,
				plan->slots != c->plan.views ? "the plan's slots were replaced"
							     : "the plan's entries were replaced");
	if (plan->n_slots != c->plan.n_views)
		return refuse(err, "progress", -1, -1, c->plan.n_views, plan->n_slots, "n_slots was changed");
	if (plan->budget != c->lim.budget)
		return refuse(err, "budget", -1, -1, c->lim.budget, plan->budget, "the budget was changed");
	if (plan->chunk_size != c->lim.chunk_size)
		return refuse(err, "chunk", -1, -1, c->lim.chunk_size, plan->chunk_size, "chunk_size was changed");
	if (plan->n_entries < 0 || plan->n_entries > c->lim.budget)
		return refuse(err, "budget", -1, -1, c->lim.budget, plan->n_entries, "too many entries");
	if (plan->n_entries == 0)
		return refuse(err, "empty", -1, -1, 1, 0, "slots have work, and none is planned");
	for (int32_t i = 0; i < plan->n_entries; i++) {
		const struct verdict v = check_entry(c, &plan->entries[i]);
		if (v.rule)
			return refuse_entry(c, &plan->entries[i], i, &v, err);
	}
	for (int32_t v = 0; !st && v < n_views; v++) {
		__builtin_prefetch(c->plan.active[v + AHEAD]);
		st = check_slot(c, plan, v, err);
		n_growth += room_growth(c, c->plan.active[v], c->plan.taken[v]);
	}
	c->plan.n_growth = n_growth;
	return st;
}
