/* mistral3 (ministral 3): llama whose queries grow with the position, in steps of the original context. */
#include "model/arch.h"

static enum cohort_status keys(struct model *m, struct cohort_err *err)
{
	enum cohort_status st = arch_load_experts(m, err);

	m->hp.temp_period = m->hp.n_ctx_train;
	if (!st)
		st = arch_f32(m, "attention.temperature_scale", ARCH_MAY, &m->hp.attn_temp, err);
	if (!st)
		st = arch_u32(m, "rope.scaling.original_context_length", ARCH_MAY, &m->hp.temp_period, err);
	return st ? st : arch_range(m, "rope.scaling.original_context_length", m->hp.temp_period, 1, 1 << 30, err);
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

const struct model_arch model_arch_mistral3 = {.name = "mistral3", .keys = keys, .layer = layer};
