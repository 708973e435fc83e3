/* bloom: scores lose what grows with distance instead of rotation, the embedding is normed, biases everywhere, GELU. */
#include "model/arch.h"

static enum cohort_status keys(struct model *m, struct cohort_err *err)
{
	m->hp.act = MODEL_GELU;
	m->hp.n_rot = 0;
	m->hp.alibi = 8.0f;
	return arch_load_slopes(m, err);
}

static void top(struct arch_bind *b)
{
	arch_norm(b, "token_embd_norm", ARCH_NEED, b->m->hp.n_embd, &b->m->embd_norm);
}

static void layer(struct arch_bind *b)
{
	b->layer->rope = -1;
	arch_block(b, false);
}

const struct model_arch model_arch_bloom = {
		.name = "bloom", .layer_norm = true, .keys = keys, .top = top, .layer = layer};
