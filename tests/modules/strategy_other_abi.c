/* A strategy of another time: its abi is not the one that is asked for. */
#include <cohort_engine.h>

static const struct cohort_strategy later = {.struct_size = sizeof later, .name = "later"};

COHORT_API const struct cohort_strategy *cohort_strategy_export(uint32_t abi, size_t i);
const struct cohort_strategy *cohort_strategy_export(uint32_t abi, size_t i)
{
	return abi == COHORT_STRATEGY_ABI + 1 && i == 0 ? &later : NULL;
}
