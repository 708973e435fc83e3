/* command-r: attention and network side by side behind one norm, layer norms without bias, scaled logits. */
#include "model/arch.h"

static enum cohort_status keys(struct model *m, struct cohort_err *err)
{
	return arch_scale(m, "logit_scale", 1.0f, &m->hp.logit_scale, err);
}

static void layer(struct arch_bind *b)
{
	b->layer->parallel = true;
	arch_attention_block(b);
	arch_qk_norm(b, ARCH_MAY);
	arch_ffn(b, true);
}

const struct model_arch model_arch_command_r = {.name = "command-r", .layer_norm = true, .keys = keys, .layer = layer};
