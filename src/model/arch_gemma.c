/* gemma: llama with a scaled embedding, GELU and rotary halves. */
#include "model/arch.h"

#include <math.h>

static enum cohort_status keys(struct model *m, struct cohort_err *err)
{
	m->hp.embd_scale = sqrtf((float)m->hp.n_embd);
	(void)err;
	return COHORT_OK;
}

const struct model_arch model_arch_gemma = {.name = "gemma", .rope_halves = true, .act = MODEL_GELU, .keys = keys};
