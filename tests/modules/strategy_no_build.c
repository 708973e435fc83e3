/* A strategy that somebody forgot to finish. */
#include <cohort_engine.h>

static const struct cohort_strategy unfinished = {.struct_size = sizeof unfinished, .name = "unfinished"};

COHORT_API const struct cohort_strategy *cohort_strategy_export(uint32_t abi, size_t i);
const struct cohort_strategy *cohort_strategy_export(uint32_t abi, size_t i)
{
	return abi == COHORT_STRATEGY_ABI && i == 0 ? &unfinished : NULL;
}
