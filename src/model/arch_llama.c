/* llama, internlm2, mistral, mixtral, tinyllama, codellama, llama 3: pre-norm blocks, grouped heads, rotary pairs (2i,
 * 2i+1), SwiGLU; with expert_count, experts in the place of the network. */
#include "model/arch.h"

static enum cohort_status keys(struct model *m, struct cohort_err *err)
{
	enum cohort_status st = arch_load_experts(m, err);
	return st ? st : arch_scale(m, "attention.scale", m->hp.attn_scale, &m->hp.attn_scale, err);
}

const struct model_arch model_arch_llama = {.name = "llama", .keys = keys};
const struct model_arch model_arch_internlm2 = {.name = "internlm2", .keys = keys};
