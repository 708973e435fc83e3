/* granite: llama with scales on the embedding, on what layers add, on scores and on logits. granitemoe: the same with
 * experts. */
#include "model/arch.h"

static enum cohort_status keys(struct model *m, struct cohort_err *err)
{
	float logit_scale = 1.0f;
	enum cohort_status st = arch_load_experts(m, err);

	if (!st)
		st = arch_f32(m, "logit_scale", ARCH_NEED, &logit_scale, err);
	if (!st)
		st = arch_f32(m, "residual_scale", ARCH_MAY, &m->hp.residual_scale, err);
	if (!st)
		st = arch_f32(m, "embedding_scale", ARCH_MAY, &m->hp.embd_scale, err);
	if (!st)
		st = arch_f32(m, "attention.scale", ARCH_MAY, &m->hp.attn_scale, err);
	if (!st && !(logit_scale > 0.0f && logit_scale < 1e6f))
		st = err_set(err, COHORT_E_FORMAT, "%s.logit_scale is %g", m->arch->name, (double)logit_scale);
	m->hp.logit_scale = 1.0f / logit_scale; /* the file's divides */
	return st;
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

const struct model_arch model_arch_granite = {.name = "granite", .keys = keys, .layer = layer};
const struct model_arch model_arch_granitemoe = {.name = "granitemoe", .keys = keys, .layer = layer};
