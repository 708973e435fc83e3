/* bert (bge, e5, gte, minilm), nomic-bert, jina-bert-v2, jina-bert-v3: encoders. Norms are taken of the sums; positions
 * are learned, rotary, or a slope on scores. */
#include "model/arch.h"

static enum cohort_status keys_jina(struct model *m, struct cohort_err *err)
{
	m->hp.alibi = 8.0f;
	return arch_load_slopes(m, err);
}

static void top(struct arch_bind *b)
{
	struct model *m = b->m;
	uint32_t n_types = 0;

	if (!b->st)
		b->st = gguf_get_u32(m->gguf, "tokenizer.ggml.token_type_count", false, &n_types, b->err);
	m->type_embd = arch_rows(b, "token_types.weight", ARCH_MAY, m->hp.n_embd, n_types);
	arch_norm(b, "token_embd_norm", ARCH_NEED, m->hp.n_embd, &m->embd_norm);
}

static void top_bert(struct arch_bind *b)
{
	const struct model_hparams *h = &b->m->hp;
	top(b);
	b->m->pos_embd = arch_rows(b, "position_embd.weight", ARCH_NEED, h->n_embd, h->n_ctx_train);
}

static void layer(struct arch_bind *b)
{
	const struct model_hparams *h = &b->m->hp;

	arch_attention(b);
	arch_qk_norm(b, ARCH_MAY);
	arch_norm(b, "attn_output_norm", ARCH_NEED, h->n_embd, &b->layer->attn_post);
	arch_norm(b, "attn_norm_2", ARCH_MAY, h->n_embd, &b->layer->attn_again);
	arch_ffn(b, h->act == MODEL_SILU || b->m->slopes); /* nomic and jina 2 have gates */
	arch_norm(b, "layer_output_norm", ARCH_NEED, h->n_embd, &b->layer->ffn_post);
}

const struct model_arch model_arch_bert = {.name = "bert", .layer_norm = true, .encoder = true, .unrotated = true,
		.act = MODEL_GELU, .top = top_bert, .layer = layer};
const struct model_arch model_arch_nomic_bert = {.name = "nomic-bert", .layer_norm = true, .encoder = true,
		.rope_halves = true, .top = top, .layer = layer};
const struct model_arch model_arch_jina_bert_v2 = {.name = "jina-bert-v2", .layer_norm = true, .encoder = true,
		.unrotated = true, .act = MODEL_GELU, .keys = keys_jina, .top = top, .layer = layer};
const struct model_arch model_arch_jina_bert_v3 = {.name = "jina-bert-v3", .layer_norm = true, .encoder = true,
		.rope_halves = true, .act = MODEL_GELU, .top = top, .layer = layer};
