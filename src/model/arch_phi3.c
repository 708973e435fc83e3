/* phi3: llama with rotary halves; q, k and v come in one tensor, gate and up in another, and long contexts have angles
 * of their own. The window that its files name is not used: converters wrote it for models that have none. */
#include "model/arch.h"

static enum cohort_status keys(struct model *m, struct cohort_err *err)
{
	m->hp.rope_halves = true;
	(void)err;
	return COHORT_OK;
}

static void layer(struct arch_bind *b)
{
	arch_norm(b, "attn_norm", ARCH_NEED, b->m->hp.n_embd, &b->layer->attn_norm);
	arch_attention(b);
	arch_norm(b, "ffn_norm", ARCH_NEED, b->m->hp.n_embd, &b->layer->ffn_norm);
	arch_ffn(b, true);
}

const struct model_arch model_arch_phi3 = {.name = "phi3", .keys = keys, .layer = layer};
