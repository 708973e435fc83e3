/* stablelm: layer norms, a part of each head rotated; layers without a norm before the network have both side by side.
 */
#include "model/arch.h"

static enum cohort_status keys(struct model *m, struct cohort_err *err)
{
	m->hp.rope_halves = true;
	(void)err;
	return COHORT_OK;
}

static void layer(struct arch_bind *b)
{
	arch_norm(b, "attn_norm", ARCH_NEED, b->m->hp.n_embd, &b->layer->attn_norm);
	arch_attention(b);
	arch_qk_norm(b, ARCH_MAY);
	arch_norm(b, "ffn_norm", ARCH_MAY, b->m->hp.n_embd, &b->layer->ffn_norm);
	arch_ffn(b, true);
	b->layer->parallel = !b->layer->ffn_norm.w;
}

const struct model_arch model_arch_stablelm = {.name = "stablelm", .layer_norm = true, .keys = keys, .layer = layer};
