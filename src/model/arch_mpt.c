/* mpt: bloom without biases and without a norm of the embedding; q, k and v are clamped. */
#include "model/arch.h"

static enum cohort_status keys(struct model *m, struct cohort_err *err)
{
	enum cohort_status st = arch_f32(m, "attention.max_alibi_bias", ARCH_MAY, &m->hp.alibi, err);

	if (!st)
		st = arch_f32(m, "attention.clamp_kqv", ARCH_MAY, &m->hp.qkv_clamp, err);
	return st || m->hp.alibi == 0.0f ? st : arch_load_slopes(m, err);
}

static void top(struct arch_bind *b)
{
	const struct model_hparams *h = &b->m->hp;
	b->m->pos_embd = arch_rows(b, "position_embd.weight", ARCH_MAY, h->n_embd, h->n_ctx_train);
}

const struct model_arch model_arch_mpt = {.name = "mpt", .layer_norm = true, .unrotated = true, .act = MODEL_GELU,
		.keys = keys, .top = top, .layer = arch_plain_block};
