/* qwen3: qwen2 without biases; q and k are normed head by head. qwen3moe: the same with experts. */
#include "model/arch.h"

static enum cohort_status keys(struct model *m, struct cohort_err *err)
{
	m->hp.rope_halves = true;
	return arch_load_experts(m, err);
}

static void layer(struct arch_bind *b)
{
	arch_norm(b, "attn_norm", ARCH_NEED, b->m->hp.n_embd, &b->layer->attn_norm);
	arch_attention(b);
	arch_qk_norm(b, ARCH_NEED);
	arch_norm(b, "ffn_norm", ARCH_NEED, b->m->hp.n_embd, &b->layer->ffn_norm);
	if (b->m->hp.n_expert)
		arch_experts(b);
	else
		arch_ffn(b, true);
}

const struct model_arch model_arch_qwen3 = {.name = "qwen3", .keys = keys, .layer = layer};
const struct model_arch model_arch_qwen3moe = {.name = "qwen3moe", .keys = keys, .layer = layer};
