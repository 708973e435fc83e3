/* starcoder2: layer norms, biases everywhere, GELU without a gate, rotary halves. */
#include "model/arch.h"

static enum cohort_status keys(struct model *m, struct cohort_err *err)
{
	m->hp.act = MODEL_GELU;
	(void)err;
	return COHORT_OK;
}

static void layer(struct arch_bind *b)
{
	arch_block(b, false);
}

const struct model_arch model_arch_starcoder2 = {
		.name = "starcoder2", .rope_halves = true, .layer_norm = true, .keys = keys, .layer = layer};
