/* A strategy's answer is looked at before anything is computed: the engine believes its own books only. */
#include "engine/core.h"

#include <string.h>

static enum cohort_status refuse(struct cohort_err *err, const char *rule, int64_t row, int64_t seq, int64_t expected,
		int64_t got, const char *what)
{
	return err_rule(err, COHORT_E_BATCH, rule, row, seq, expected, got,
			"the strategy's plan breaks rule %s: %s (expected %lld, got %lld)", rule, what,
			(long long)expected, (long long)got);
}

static enum cohort_status check_entry(
		struct core *c, const struct cohort_entry *e, int32_t i, int32_t chunk_size, struct cohort_err *err)
{
	const int32_t v = e->seq >= 0 && e->seq < c->lim.n_slots ? c->view_of[e->seq] : -1;

	if (v < 0)
		return refuse(err, "slot", i, e->seq, c->lim.n_slots, e->seq, "no slot of the plan has this sequence");
	const struct stream *s = c->slots[e->seq];
	const int32_t pos = s->n_cached + c->taken[v];
	if (e->pos != pos || pos >= s->n_known)
		return refuse(err, "order", i, e->seq, pos < s->n_known ? pos : -1, e->pos,
				"a slot's rows go on from where it is, one by one");
	const cohort_token token = s->phase == STREAM_GENERATES ? s->last : s->known[pos];
	if (e->token != token)
		return refuse(err, "token", i, e->seq, token, e->token, "the token is not the slot's");
	if (s->phase == STREAM_PREFILLS && c->taken[v] >= chunk_size)
		return refuse(err, "chunk", i, e->seq, chunk_size, c->taken[v] + 1, "too many rows of one prompt");
	if (e->logits != (pos == s->n_known - 1))
		return refuse(err, "logits", i, e->seq, pos == s->n_known - 1, e->logits,
				"logits belong to the last row, and to no other");
	c->taken[v]++;
	return COHORT_OK;
}

/* What the returned slots say must be what the entries do. */
static enum cohort_status check_slot(
		const struct core *c, const struct cohort_plan *plan, int32_t v, struct cohort_err *err)
{
	const struct cohort_slot *slot = &plan->slots[v];
	const struct stream *s = c->slots[slot->id];
	const int32_t pos = s->n_cached + c->taken[v];
	const bool generates = s->phase == STREAM_GENERATES, done = pos == s->n_known;

	if (slot->pos != pos)
		return refuse(err, "progress", -1, slot->id, pos, slot->pos, "pos of the slot");
	if (!generates && slot->n_prefilled != pos)
		return refuse(err, "progress", -1, slot->id, pos, slot->n_prefilled, "n_prefilled of the slot");
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
	enum cohort_status st = COHORT_OK;

	memset(c->taken, 0, (size_t)c->n_views * sizeof *c->taken);
	c->n_growth = 0;
	if (said)
		return refuse(err, "status", -1, -1, COHORT_OK, said, cohort_status_name(said));
	/* The arrays are the engine's, whatever the plan says now. */
	if (plan->entries != c->entries || plan->slots != c->views || plan->n_slots != c->n_views)
		return refuse(err, "progress", -1, -1, c->n_views, plan->n_slots, "the plan's arrays were replaced");
	if (plan->n_entries < 0 || plan->n_entries > c->lim.budget)
		return refuse(err, "budget", -1, -1, c->lim.budget, plan->n_entries, "too many entries");
	if (plan->n_entries == 0)
		return refuse(err, "empty", -1, -1, 1, 0, "slots have work, and none is planned");
	for (int32_t i = 0; !st && i < plan->n_entries; i++)
		st = check_entry(c, &plan->entries[i], i, c->lim.chunk_size, err);
	for (int32_t v = 0; !st && v < c->n_views; v++) {
		const cohort_seq id = plan->slots[v].id;
		if (id < 0 || id >= c->lim.n_slots || c->view_of[id] != v)
			return refuse(err, "progress", -1, id, v, -1, "id of the slot");
		st = check_slot(c, plan, v, err);
		if (!st)
			c->n_growth += room_growth(c, c->slots[id], c->taken[v]);
	}
	return st;
}
