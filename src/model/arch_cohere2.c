/* cohere2 (command-r7b, command-a): command-r with a window on three of four layers; only those are rotated. */
#include "model/arch.h"

static enum cohort_status keys(struct model *m, struct cohort_err *err)
{
	enum cohort_status st = arch_f32(m, "logit_scale", ARCH_NEED, &m->hp.logit_scale, err);
	return st ? st : arch_load_windows(m, ARCH_WINDOW_NEED, 4, err);
}

static void layer(struct arch_bind *b)
{
	b->layer->parallel = true;
	b->layer->rope = b->layer->window ? 0 : -1;
	arch_attention_block(b);
	arch_ffn(b, true);
}

const struct model_arch model_arch_cohere2 = {.name = "cohere2", .layer_norm = true, .keys = keys, .layer = layer};
