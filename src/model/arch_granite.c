/* granite: llama with scales on the embedding, on what layers add, on scores and on logits. granitemoe: the same with
 * experts. */
#include "model/arch.h"

#include <math.h>

static enum cohort_status scales(struct model *m, float logit_scale, bool need, struct cohort_err *err)
{
	enum cohort_status st = arch_load_experts(m, err);

	if (!st)
		st = arch_f32(m, "logit_scale", need, &logit_scale, err);
	if (!st)
		st = arch_scale(m, "residual_scale", 1.0f, &m->hp.residual_scale, err);
	if (!st)
		st = arch_scale(m, "embedding_scale", 1.0f, &m->hp.embd_scale, err);
	if (!st)
		st = arch_scale(m, "attention.scale", m->hp.attn_scale, &m->hp.attn_scale, err);
	if (!st && !(logit_scale > 0.0f && logit_scale < 1e6f))
		st = err_set(err, COHORT_E_FORMAT, "%s.logit_scale is %g", m->arch->name, (double)logit_scale);
	m->hp.logit_scale = 1.0f / logit_scale; /* the file's divides */
	return st;
}

static enum cohort_status keys(struct model *m, struct cohort_err *err)
{
	return scales(m, 1.0f, ARCH_NEED, err);
}

/* Files older than the keys are of models with these numbers, whose logits are divided by width / 256. */
static enum cohort_status keys_minicpm(struct model *m, struct cohort_err *err)
{
	m->hp.embd_scale = 12.0f;
	m->hp.residual_scale = 1.4f / sqrtf((float)m->hp.n_layer);
	return scales(m, (float)m->hp.n_embd / 256.0f, ARCH_MAY, err);
}

const struct model_arch model_arch_granite = {.name = "granite", .keys = keys};
const struct model_arch model_arch_granitemoe = {.name = "granitemoe", .keys = keys};
const struct model_arch model_arch_minicpm = {.name = "minicpm", .keys = keys_minicpm};
