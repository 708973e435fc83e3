/* A strategy that is told of once: who asks again hears of none. */
#include <cohort_engine.h>

static enum cohort_status build_batch(const struct cohort_strategy *self, void *state, struct cohort_plan *plan)
{
	(void)self, (void)state, (void)plan;
	return COHORT_E_BUG;
}

static const struct cohort_strategy once = {.struct_size = sizeof once, .name = "once", .build_batch = build_batch};

COHORT_API const struct cohort_strategy *cohort_strategy_export(uint32_t abi, size_t i);
const struct cohort_strategy *cohort_strategy_export(uint32_t abi, size_t i)
{
	static int n_asked;

	return abi == COHORT_STRATEGY_ABI && i == 0 && n_asked++ == 0 ? &once : NULL;
}
