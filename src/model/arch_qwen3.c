/* qwen3: qwen2 without biases; q and k are normed head by head. qwen3moe: the same with experts. */
#include "model/arch.h"

static void layer(struct arch_bind *b)
{
	arch_attention_block(b);
	arch_qk_norm(b, ARCH_NEED);
	arch_network_block(b, true);
}

const struct model_arch model_arch_qwen3 = {
		.name = "qwen3", .rope_halves = true, .keys = arch_load_experts, .layer = layer};
const struct model_arch model_arch_qwen3moe = {
		.name = "qwen3moe", .rope_halves = true, .keys = arch_load_experts, .layer = layer};
