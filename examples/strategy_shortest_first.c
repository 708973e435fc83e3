/* A strategy of one's own: generating slots first, then the prompts with the fewest tokens left.
 *
 * Short prompts get their first token soonest, which is the least waiting on average. What it gives up is the wait of
 * the long ones: while short prompts keep coming, a long one gets nothing until its request is PATIENCE_S old. Then it
 * goes before all others, the oldest first, so that it does end. A sixteenth of the rows is kept for prompts, so that
 * many generating slots do not shut them out, and who generates first changes with every tick.
 *
 * Built as a shared object, loaded by name; needs nothing of the library but its header. docs/strategies.md explains it
 * line by line. */
#include <cohort_engine.h>

#define PATIENCE_S 10.0

static void generating(struct cohort_plan *plan, int32_t n_rows)
{
	for (int32_t i = 0; i < plan->n_slots && plan->n_entries < n_rows; i++) {
		struct cohort_slot *s = &plan->slots[(plan->tick + (uint64_t)i) % (uint64_t)plan->n_slots];
		if (s->state == COHORT_SLOT_GENERATING)
			cohort_plan_add(plan, s, 1);
	}
}

/* The lowest goes first. */
static double rank(const struct cohort_slot *s)
{
	return s->age_s > PATIENCE_S ? -s->age_s : s->n_prompt - s->n_prefilled;
}

static struct cohort_slot *next_prompt(const struct cohort_plan *plan)
{
	struct cohort_slot *best = NULL;
	for (struct cohort_slot *s = plan->slots; s < plan->slots + plan->n_slots; s++)
		if (s->state == COHORT_SLOT_PREFILLING && s->n_planned == 0 && (!best || rank(s) < rank(best)))
			best = s;
	return best;
}

static enum cohort_status build_batch(const struct cohort_strategy *self, void *state, struct cohort_plan *plan)
{
	struct cohort_slot *s = next_prompt(plan);
	int32_t n_kept = s ? (plan->budget + 15) / 16 : 0;
	(void)self;
	(void)state;

	if (n_kept == plan->budget) /* a budget of 1: the sides take turns */
		n_kept = (int32_t)(plan->tick % 2);
	generating(plan, plan->budget - n_kept);
	while (s && cohort_plan_add(plan, s, plan->chunk_size) > 0)
		s = next_prompt(plan);
	generating(plan, plan->budget); /* what the prompts left over */
	return COHORT_OK;
}

static const struct cohort_strategy shortest_first = {
		.struct_size = sizeof shortest_first,
		.name = "shortest-first",
		.about = "generating slots first, then the shortest prompts",
		.build_batch = build_batch,
};

COHORT_API const struct cohort_strategy *cohort_strategy_export(uint32_t abi, size_t i);
const struct cohort_strategy *cohort_strategy_export(uint32_t abi, size_t i)
{
	return abi == COHORT_STRATEGY_ABI && i == 0 ? &shortest_first : NULL;
}
