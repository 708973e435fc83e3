/* gpt-oss: experts with biases and a clamped SwiGLU, a learned score beside those of the cells, a window on every other
 * layer. */
#include "model/arch.h"

static enum cohort_status keys(struct model *m, struct cohort_err *err)
{
	m->hp.gating = MODEL_GATE_SOFTMAX_CHOSEN;
	m->hp.expert_norm = false;
	enum cohort_status st = arch_load_experts(m, err);
	return st ? st : arch_load_windows(m, ARCH_WINDOW_NEED, 2, err);
}

static void layer(struct arch_bind *b)
{
	arch_attention_block(b);
	b->layer->sinks = arch_vector(b, "attn_sinks.weight", ARCH_NEED, b->m->hp.n_head);
	arch_norm(b, "post_attention_norm", ARCH_NEED, b->m->hp.n_embd, &b->layer->ffn_norm);
	arch_experts(b);
}

const struct model_arch model_arch_gpt_oss = {
		.name = "gpt-oss", .rope_halves = true, .act = MODEL_SWIGLU_OAI, .keys = keys, .layer = layer};
