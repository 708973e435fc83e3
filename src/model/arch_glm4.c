/* glm4: llama with norms behind attention and network as well, biases on q, k and v, and a part of each head rotated.
 */
#include "model/arch.h"

static void layer(struct arch_bind *b)
{
	arch_attention_block(b);
	arch_norm(b, "post_attention_norm", ARCH_NEED, b->m->hp.n_embd, &b->layer->attn_post);
	arch_network_block(b, true);
	arch_norm(b, "post_ffw_norm", ARCH_NEED, b->m->hp.n_embd, &b->layer->ffn_post);
}

const struct model_arch model_arch_glm4 = {.name = "glm4", .layer = layer};
