/* mistral3 (ministral 3): llama whose queries grow with the position, in steps of the original context. */
#include "model/arch.h"

static enum cohort_status keys(struct model *m, struct cohort_err *err)
{
	enum cohort_status st = arch_load_experts(m, err);

	m->hp.temp_period = m->hp.n_ctx_train;
	if (!st)
		st = arch_f32(m, "attention.temperature_scale", ARCH_MAY, &m->hp.attn_temp, err);
	if (!st)
		st = arch_u32(m, "rope.scaling.original_context_length", ARCH_MAY, &m->hp.temp_period, err);
	return st ? st : arch_range(m, "rope.scaling.original_context_length", m->hp.temp_period, 1, 1 << 30, err);
}

const struct model_arch model_arch_mistral3 = {.name = "mistral3", .keys = keys};
