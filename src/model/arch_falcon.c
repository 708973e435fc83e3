/* falcon: attention and network side by side behind one norm, or, in the larger models, each behind its own. */
#include "model/arch.h"

static void layer(struct arch_bind *b)
{
	b->layer->parallel = true;
	arch_norm(b, "attn_norm_2", ARCH_MAY, b->m->hp.n_embd, &b->layer->attn_norm);
	/* With two norms, the one that is attention's elsewhere is the network's. */
	arch_norm(b, "attn_norm", ARCH_NEED, b->m->hp.n_embd,
			b->layer->attn_norm.w ? &b->layer->ffn_norm : &b->layer->attn_norm);
	arch_attention(b);
	arch_ffn(b, false);
}

const struct model_arch model_arch_falcon = {
		.name = "falcon", .rope_halves = true, .layer_norm = true, .act = MODEL_GELU, .layer = layer};
