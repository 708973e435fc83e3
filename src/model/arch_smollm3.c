/* smollm3: llama without rotation in every fourth layer. */
#include "model/arch.h"

static void layer(struct arch_bind *b)
{
	b->layer->rope = (b->i_layer + 1) % 4 ? 0 : -1;
	arch_block(b, true);
}

const struct model_arch model_arch_smollm3 = {.name = "smollm3", .layer = layer};
