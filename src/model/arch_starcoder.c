/* starcoder, santacoder: gpt2 with one head of keys and values for all. */
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
	arch_norm(b, "attn_norm", ARCH_NEED, b->m->hp.n_embd, &b->layer->attn_norm);
	arch_attention(b);
	arch_norm(b, "ffn_norm", ARCH_NEED, b->m->hp.n_embd, &b->layer->ffn_norm);
	arch_ffn(b, false);
}

const struct model_arch model_arch_starcoder = {
		.name = "starcoder", .layer_norm = true, .keys = keys, .top = top, .layer = layer};
