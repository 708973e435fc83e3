/* olmo2: no norms before attention and network, but behind both; q and k are normed as whole rows. olmo 3 adds windows,
 * whose layers are rotated without scaling. */
#include "model/arch.h"

static enum cohort_status keys(struct model *m, struct cohort_err *err)
{
	enum cohort_status st = arch_load_windows(m, 0, 4, err);
	return st ? st : arch_load_rope(m, 1, 0.0f, true, err);
}

static void layer(struct arch_bind *b)
{
	b->layer->rope = b->layer->window ? 1 : 0;
	arch_attention(b);
	arch_qk_norm(b, ARCH_NEED);
	arch_norm(b, "post_attention_norm", ARCH_NEED, b->m->hp.n_embd, &b->layer->attn_post);
	arch_ffn(b, true);
	arch_norm(b, "post_ffw_norm", ARCH_NEED, b->m->hp.n_embd, &b->layer->ffn_post);
}

const struct model_arch model_arch_olmo2 = {.name = "olmo2", .rope_halves = true, .keys = keys, .layer = layer};
