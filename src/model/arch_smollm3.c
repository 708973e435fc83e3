/* smollm3: llama without rotation in every fourth layer. */
#include "model/arch.h"

static void layer(struct arch_bind *b)
{
	b->layer->rope = (b->i_layer + 1) % 4 ? 0 : -1;
	arch_norm(b, "attn_norm", ARCH_NEED, b->m->hp.n_embd, &b->layer->attn_norm);
	arch_attention(b);
	arch_norm(b, "ffn_norm", ARCH_NEED, b->m->hp.n_embd, &b->layer->ffn_norm);
	arch_ffn(b, true);
}

const struct model_arch model_arch_smollm3 = {.name = "smollm3", .layer = layer};
