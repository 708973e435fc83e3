/* gemma3: gemma2 without a cap on scores, with q and k normed; five of six layers have a window, and angles of their
 * own. */
#include "model/arch.h"

#include <math.h>

static enum cohort_status keys(struct model *m, struct cohort_err *err)
{
	float base = 10000.0f;

	m->hp.embd_scale = sqrtf((float)m->hp.n_embd);
	if (m->hp.n_layer == 62) /* the 27 B model, as in gemma2 */
		m->hp.attn_scale = 1.0f / sqrtf((float)(m->hp.n_embd / m->hp.n_head));
	enum cohort_status st = arch_f32(m, "final_logit_softcapping", ARCH_MAY, &m->hp.logit_cap, err);
	if (!st)
		st = arch_load_windows(m, 0, 6, err);
	if (!st)
		st = arch_f32(m, "rope.freq_base_swa", ARCH_MAY, &base, err);
	return st ? st : arch_load_rope(m, 1, base, true, err);
}

static void layer(struct arch_bind *b)
{
	b->layer->rope = b->layer->window ? 1 : 0;
	arch_attention_block(b);
	arch_qk_norm(b, ARCH_NEED);
	arch_norm(b, "post_attention_norm", ARCH_NEED, b->m->hp.n_embd, &b->layer->attn_post);
	arch_network_block(b, true);
	arch_norm(b, "post_ffw_norm", ARCH_NEED, b->m->hp.n_embd, &b->layer->ffn_post);
}

const struct model_arch model_arch_gemma3 = {
		.name = "gemma3", .rope_halves = true, .act = MODEL_GELU, .keys = keys, .layer = layer};
