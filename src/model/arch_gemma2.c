/* gemma2: gemma with norms behind attention and network, soft caps, and a window on every other layer. */
#include "model/arch.h"

#include <math.h>

static enum cohort_status keys(struct model *m, struct cohort_err *err)
{
	m->hp.act = MODEL_GELU;
	m->hp.embd_scale = sqrtf((float)m->hp.n_embd);
	m->hp.attn_cap = 50.0f;
	m->hp.logit_cap = 30.0f;
	if (m->hp.n_layer ==
			46) /* the 27 B model scales queries by the width of a head as if there were no key_length */
		m->hp.attn_scale = 1.0f / sqrtf((float)(m->hp.n_embd / m->hp.n_head));
	enum cohort_status st = arch_f32(m, "attn_logit_softcapping", ARCH_MAY, &m->hp.attn_cap, err);
	if (!st)
		st = arch_f32(m, "final_logit_softcapping", ARCH_MAY, &m->hp.logit_cap, err);
	return st ? st : arch_load_windows(m, 4096, 2, err);
}

static void layer(struct arch_bind *b)
{
	arch_attention_block(b);
	arch_norm(b, "post_attention_norm", ARCH_NEED, b->m->hp.n_embd, &b->layer->attn_post);
	arch_network_block(b, true);
	arch_norm(b, "post_ffw_norm", ARCH_NEED, b->m->hp.n_embd, &b->layer->ffn_post);
}

const struct model_arch model_arch_gemma2 = {.name = "gemma2", .rope_halves = true, .keys = keys, .layer = layer};
