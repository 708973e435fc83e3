/* qwen2moe: qwen2 with experts, whose weights are not brought to a sum of 1, and one more that every row uses, weighed
 * by a sigmoid. */
#include "model/arch.h"

static enum cohort_status keys(struct model *m, struct cohort_err *err)
{
	m->hp.expert_norm = false;
	return arch_load_experts(m, err);
}

const struct model_arch model_arch_qwen2moe = {.name = "qwen2moe", .rope_halves = true, .keys = keys};
