/* qwen2: llama with biases on q, k and v, and rotary halves. */
#include "model/arch.h"

const struct model_arch model_arch_qwen2 = {.name = "qwen2", .rope_halves = true};
