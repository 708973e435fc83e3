/* llama, internlm2, mistral, mixtral, tinyllama, codellama, llama 3: pre-norm blocks, grouped heads, rotary pairs (2i,
 * 2i+1), SwiGLU; with expert_count, experts in the place of the network. */
#include "model/arch.h"

static enum cohort_status keys(struct model *m, struct cohort_err *err)
{
	enum cohort_status st = arch_load_experts(m, err);
	return st ? st : arch_scale(m, "attention.scale", m->hp.attn_scale, &m->hp.attn_scale, err);
}

static void layer(struct arch_bind *b)
{
	arch_norm(b, "attn_norm", ARCH_NEED, b->m->hp.n_embd, &b->layer->attn_norm);
	arch_attention(b);
	arch_norm(b, "ffn_norm", ARCH_NEED, b->m->hp.n_embd, &b->layer->ffn_norm);
	if (b->m->hp.n_expert)
		arch_experts(b);
	else
		arch_ffn(b, true);
}

const struct model_arch model_arch_llama = {.name = "llama", .keys = keys, .layer = layer};
const struct model_arch model_arch_internlm2 = {.name = "internlm2", .keys = keys, .layer = layer};
