/* olmoe: qwen2 with experts, whose weights are not brought to a sum of 1, and q and k normed as whole rows. */
#include "model/arch.h"

static enum cohort_status keys(struct model *m, struct cohort_err *err)
{
	m->hp.expert_norm = false;
	return arch_load_experts(m, err);
}

const struct model_arch model_arch_olmoe = {.name = "olmoe", .rope_halves = true, .keys = keys, .layer = arch_qk_block};
