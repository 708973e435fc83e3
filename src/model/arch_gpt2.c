/* gpt2: learned positions, layer norms, biases everywhere, GELU without a gate. starcoder: the same with one head of
 * keys and values for all. */
#include "model/arch.h"

static enum cohort_status keys(struct model *m, struct cohort_err *err)
{
	m->hp.act = MODEL_GELU;
	m->hp.n_rot = 0;
	(void)err;
	return COHORT_OK;
}

static void top(struct arch_bind *b)
{
	const struct model_hparams *h = &b->m->hp;
	b->m->pos_embd = arch_rows(b, "position_embd.weight", ARCH_NEED, h->n_embd, h->n_ctx_train);
}

static void layer(struct arch_bind *b)
{
	b->layer->rope = -1;
	arch_block(b, false);
}

const struct model_arch model_arch_gpt2 = {
		.name = "gpt2", .layer_norm = true, .keys = keys, .top = top, .layer = layer};
const struct model_arch model_arch_starcoder = {
		.name = "starcoder", .layer_norm = true, .keys = keys, .top = top, .layer = layer};
