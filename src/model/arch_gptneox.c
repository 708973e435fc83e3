/* gptneox (pythia): layer norms, biases everywhere, GELU, a part of each head rotated; attention and network side by
 * side, each behind its own norm, or one after the other. */
#include "model/arch.h"

static void layer(struct arch_bind *b)
{
	bool parallel = true;
	if (!b->st)
		b->st = arch_bool(b->m, "use_parallel_residual", &parallel, b->err);
	arch_block(b, false);
	b->layer->parallel = parallel;
}

const struct model_arch model_arch_gptneox = {
		.name = "gptneox", .rope_halves = true, .layer_norm = true, .act = MODEL_GELU, .layer = layer};
