/* stablelm: layer norms, a part of each head rotated; layers without a norm before the network have both side by side.
 */
#include "model/arch.h"

static void layer(struct arch_bind *b)
{
	arch_attention_block(b);
	arch_qk_norm(b, ARCH_MAY);
	arch_norm(b, "ffn_norm", ARCH_MAY, b->m->hp.n_embd, &b->layer->ffn_norm);
	arch_ffn(b, true);
	b->layer->parallel = !b->layer->ffn_norm.w;
}

const struct model_arch model_arch_stablelm = {
		.name = "stablelm", .rope_halves = true, .layer_norm = true, .layer = layer};
