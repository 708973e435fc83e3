/* Two strategies in a list that has no end: the first comes again and again. */
#include <cohort_engine.h>

static enum cohort_status build_batch(const struct cohort_strategy *self, void *state, struct cohort_plan *plan)
{
	(void)self;
	(void)state;
	(void)plan;
	return COHORT_E_BUG;
}

static const struct cohort_strategy list[] = {
		{.struct_size = sizeof *list, .name = "one", .build_batch = build_batch},
		{.struct_size = sizeof *list, .name = "two", .build_batch = build_batch},
};

COHORT_API const struct cohort_strategy *cohort_strategy_export(uint32_t abi, size_t i);
const struct cohort_strategy *cohort_strategy_export(uint32_t abi, size_t i)
{
	return abi == COHORT_STRATEGY_ABI ? &list[i == 1] : NULL;
}
