/* gemma2: gemma with norms behind attention and network, soft caps, and a window on every other layer. */
#include "model/arch.h"

#include <math.h>

static enum cohort_status keys(struct model *m, struct cohort_err *err)
{
	m->hp.embd_scale = sqrtf((float)m->hp.n_embd);
	m->hp.attn_cap = 50.0f;
	m->hp.logit_cap = 30.0f;
	/* The 27 B model scales queries by the width of a head as if there were no key_length. */
	if (m->hp.n_layer == 46)
		m->hp.attn_scale = 1.0f / sqrtf((float)(m->hp.n_embd / m->hp.n_head));
	enum cohort_status st = arch_f32(m, "attn_logit_softcapping", ARCH_MAY, &m->hp.attn_cap, err);
	if (!st)
		st = arch_f32(m, "final_logit_softcapping", ARCH_MAY, &m->hp.logit_cap, err);
	return st ? st : arch_load_windows(m, 4096, 2, err);
}

const struct model_arch model_arch_gemma2 = {
		.name = "gemma2", .rope_halves = true, .act = MODEL_GELU, .keys = keys, .layer = arch_normed_block};
