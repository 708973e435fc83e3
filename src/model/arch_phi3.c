/* phi3: llama with rotary halves; q, k and v come in one tensor, gate and up in another, and long contexts have angles
 * of their own. The window that its files name is not used: converters wrote it for models that have none. */
#include "model/arch.h"

const struct model_arch model_arch_phi3 = {.name = "phi3", .rope_halves = true};
