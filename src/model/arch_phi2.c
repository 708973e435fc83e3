/* phi2: attention and network side by side behind one norm, biases everywhere, GELU, a part of each head rotated. */
#include "model/arch.h"

static void top(struct arch_bind *b)
{
	b->m->output_b = arch_vector(b, "output.bias", ARCH_NEED, b->m->hp.n_vocab);
}

static void layer(struct arch_bind *b)
{
	b->layer->parallel = true;
	arch_attention_block(b);
	arch_ffn(b, false);
}

const struct model_arch model_arch_phi2 = {
		.name = "phi2", .rope_halves = true, .layer_norm = true, .act = MODEL_GELU, .top = top, .layer = layer};
