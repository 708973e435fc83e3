/* A strategy that somebody forgot to finish: $COHORT_UNFINISHED says where (0: no build_batch, 1: a size that is none,
 * 2: no name). */
#include <cohort_engine.h>

#include <stdlib.h>

static enum cohort_status build(const struct cohort_strategy *self, void *state, struct cohort_plan *plan)
{
	(void)self, (void)state, (void)plan;
	return COHORT_OK;
}

static const struct cohort_strategy unfinished[] = {
		{.struct_size = sizeof *unfinished, .name = "unfinished"},
		{.struct_size = 8, .name = "small", .build_batch = build},
		{.struct_size = sizeof *unfinished, .build_batch = build},
};

COHORT_API const struct cohort_strategy *cohort_strategy_export(uint32_t abi, size_t i);
const struct cohort_strategy *cohort_strategy_export(uint32_t abi, size_t i)
{
	const char *which = getenv("COHORT_UNFINISHED");

	return abi == COHORT_STRATEGY_ABI && i == 0 ? &unfinished[which ? atoi(which) : 0] : NULL;
}
