/* baichuan: llama; the 13 B model, known by its depth, has slopes on scores instead of rotation. */
#include "model/arch.h"

static enum cohort_status keys(struct model *m, struct cohort_err *err)
{
	if (m->hp.n_layer != 40)
		return COHORT_OK;
	m->hp.n_rot = 0;
	m->hp.alibi = 8.0f;
	return arch_load_slopes(m, err);
}

const struct model_arch model_arch_baichuan = {.name = "baichuan", .keys = keys};
