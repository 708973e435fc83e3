/* glm4: llama with norms behind attention and network as well, biases on q, k and v, and a part of each head rotated.
 */
#include "model/arch.h"

const struct model_arch model_arch_glm4 = {.name = "glm4", .layer = arch_normed_block};
