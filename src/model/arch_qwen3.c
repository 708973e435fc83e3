/* qwen3: qwen2 without biases; q and k are normed head by head. qwen3moe: the same with experts. */
#include "model/arch.h"

const struct model_arch model_arch_qwen3 = {
		.name = "qwen3", .rope_halves = true, .keys = arch_load_experts, .layer = arch_qk_block};
const struct model_arch model_arch_qwen3moe = {
		.name = "qwen3moe", .rope_halves = true, .keys = arch_load_experts, .layer = arch_qk_block};
