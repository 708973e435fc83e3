/* bloom: scores lose what grows with distance instead of rotation, the embedding is normed, biases everywhere, GELU. */
#include "model/arch.h"

static enum cohort_status keys(struct model *m, struct cohort_err *err)
{
	m->hp.alibi = 8.0f;
	return arch_load_slopes(m, err);
}

static void top(struct arch_bind *b)
{
	arch_norm(b, "token_embd_norm", ARCH_NEED, b->m->hp.n_embd, &b->m->embd_norm);
}

const struct model_arch model_arch_bloom = {.name = "bloom", .layer_norm = true, .unrotated = true, .act = MODEL_GELU,
		.keys = keys, .top = top, .layer = arch_plain_block};
