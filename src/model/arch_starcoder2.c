/* starcoder2: layer norms, biases everywhere, GELU without a gate, rotary halves. */
#include "model/arch.h"

static enum cohort_status keys(struct model *m, struct cohort_err *err)
{
	m->hp.rope_halves = true;
	m->hp.act = MODEL_GELU;
	(void)err;
	return COHORT_OK;
}

static void layer(struct arch_bind *b)
{
	arch_norm(b, "attn_norm", ARCH_NEED, b->m->hp.n_embd, &b->layer->attn_norm);
	arch_attention(b);
	arch_norm(b, "ffn_norm", ARCH_NEED, b->m->hp.n_embd, &b->layer->ffn_norm);
	arch_ffn(b, false);
}

const struct model_arch model_arch_starcoder2 = {
		.name = "starcoder2", .layer_norm = true, .keys = keys, .layer = layer};
