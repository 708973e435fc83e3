/* olmoe: qwen2 with experts, whose weights are not brought to a sum of 1, and q and k normed as whole rows. */
#include "model/arch.h"

static enum cohort_status keys(struct model *m, struct cohort_err *err)
{
	m->hp.rope_halves = true;
	m->hp.expert_norm = false;
	return arch_load_experts(m, err);
}

static void layer(struct arch_bind *b)
{
	arch_norm(b, "attn_norm", ARCH_NEED, b->m->hp.n_embd, &b->layer->attn_norm);
	arch_attention(b);
	arch_qk_norm(b, ARCH_NEED);
	arch_norm(b, "ffn_norm", ARCH_NEED, b->m->hp.n_embd, &b->layer->ffn_norm);
	arch_experts(b);
}

const struct model_arch model_arch_olmoe = {.name = "olmoe", .keys = keys, .layer = layer};
