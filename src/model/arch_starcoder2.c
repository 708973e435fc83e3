/* starcoder2: layer norms, biases everywhere, GELU without a gate, rotary halves. */
#include "model/arch.h"

const struct model_arch model_arch_starcoder2 = {.name = "starcoder2", .rope_halves = true, .layer_norm = true,
		.act = MODEL_GELU, .layer = arch_plain_block};
