/* exaone: llama with rotary halves. */
#include "model/arch.h"

const struct model_arch model_arch_exaone = {.name = "exaone", .rope_halves = true};
