/* gpt2: learned positions, layer norms, biases everywhere, GELU without a gate. starcoder: the same with one head of
 * keys and values for all. */
#include "model/arch.h"

static void top(struct arch_bind *b)
{
	const struct model_hparams *h = &b->m->hp;
	b->m->pos_embd = arch_rows(b, "position_embd.weight", ARCH_NEED, h->n_embd, h->n_ctx_train);
}

const struct model_arch model_arch_gpt2 = {.name = "gpt2", .layer_norm = true, .unrotated = true, .act = MODEL_GELU,
		.top = top, .layer = arch_plain_block};
const struct model_arch model_arch_starcoder = {.name = "starcoder", .layer_norm = true, .unrotated = true,
		.act = MODEL_GELU, .top = top, .layer = arch_plain_block};
