/* Opening a model: its architecture's load, and what holds for all of them.
 *
 * Invariants
 *  1. Every tensor of the file is bound: a file that holds more than we compute would give wrong numbers, so it is
 *     refused.
 * Refuses to know: kernels, layouts in memory, threads. */
#include "model/arch.h"

#include "base/mem.h"
#include "quant/quant.h"

#include <stdio.h>
#include <string.h>

const struct model_arch *const arch_all[] = {
		&model_arch_llama, &model_arch_internlm2, &model_arch_mistral3, &model_arch_baichuan,
		&model_arch_qwen2, &model_arch_qwen2moe, &model_arch_qwen3, &model_arch_qwen3moe,
		&model_arch_gemma, &model_arch_gemma2, &model_arch_gemma3, &model_arch_phi2, &model_arch_phi3,
		&model_arch_gpt2, &model_arch_gptneox, &model_arch_bloom, &model_arch_mpt, &model_arch_falcon,
		&model_arch_starcoder, &model_arch_starcoder2, &model_arch_stablelm, &model_arch_olmo2,
		&model_arch_olmoe, &model_arch_granite, &model_arch_granitemoe, &model_arch_minicpm,
		&model_arch_command_r, &model_arch_cohere2, &model_arch_smollm3, &model_arch_exaone,
		&model_arch_glm4, &model_arch_gpt_oss, &model_arch_mamba, &model_arch_bert, &model_arch_nomic_bert,
		&model_arch_jina_bert_v2, &model_arch_jina_bert_v3,
};
const size_t arch_count = sizeof arch_all / sizeof *arch_all;

static enum cohort_status unknown_arch(struct gguf_str name, struct cohort_err *err)
{
	char known[512] = "", shown[ERR_SHOW_BYTES];
	for (size_t i = 0; i < arch_count; i++)
		snprintf(known + strlen(known), sizeof known - strlen(known), "%s%s", i ? ", " : "", arch_all[i]->name);
	return err_set(err, COHORT_E_UNSUPPORTED, "architecture '%s' is not known; known: %s",
			err_show(shown, name.s, name.n), known);
}

/* Old files carry the rotary angles; they follow from the parameters. */
static bool may_be_left(const struct gguf_tensor *t)
{
	static const char unused[] = "attn_rot_embd";
	return t->name.n >= sizeof unused - 1 && memmem(t->name.s, t->name.n, unused, sizeof unused - 1);
}

/* Room for every tensor as one weight, as three that share it, or as one per expert. What a tensor of an unknown format
 * says of itself is not bounded by the file, and it is never bound. */
static enum cohort_status alloc_weights(struct model *m, struct cohort_err *err)
{
	const struct gguf *g = m->gguf;
	size_t n = 0;

	for (size_t i = 0; i < g->n_tensors; i++) {
		const struct gguf_tensor *t = &g->tensors[i];
		if (!size_add(n, t->data && t->ne[2] > 3 ? (size_t)t->ne[2] : 3, &n) || n > 1 << 24)
			return err_set(err, COHORT_E_LIMIT,
					"the file's tensors have more parts than this version takes");
	}
	m->weights_max = n;
	m->weights = mem_zalloc(n, sizeof *m->weights);
	m->bound = mem_zalloc(g->n_tensors, sizeof *m->bound);
	if (!m->weights || !m->bound)
		return err_set(err, COHORT_E_MEMORY, "out of memory for %zu tensors", g->n_tensors);
	return COHORT_OK;
}

/* Numbers that every row is multiplied by or bent at. */
static enum cohort_status check_scales(const struct model *m, struct cohort_err *err)
{
	const struct model_hparams *h = &m->hp;
	const struct {
		const char *key; /* that sets it, in the architectures that have one */
		float v, lo;
	} all[] = {
			{"attention.scale", h->attn_scale, -1e6f},
			{"embedding_scale", h->embd_scale, -1e6f},
			{"residual_scale", h->residual_scale, -1e6f},
			{"logit_scale", h->logit_scale, -1e6f},
			{"attention.temperature_scale", h->attn_temp, 0.0f},
			{"attention.clamp_kqv", h->qkv_clamp, 0.0f},
			{"attention.max_alibi_bias", h->alibi, 0.0f},
			{"attn_logit_softcapping", h->attn_cap, 0.0f},
			{"final_logit_softcapping", h->logit_cap, 0.0f},
	};
	for (size_t i = 0; i < sizeof all / sizeof *all; i++)
		if (!(all[i].v >= all[i].lo && all[i].v <= 1e6f))
			return err_set(err, COHORT_E_FORMAT, "%s.%s is %g, expected %g to 1e+06", m->arch->name,
					all[i].key, (double)all[i].v, (double)all[i].lo);
	return COHORT_OK;
}

/* Which way rows look, and what files made for embeddings say of pooling, decoders' included. */
static enum cohort_status load_reading(struct model *m, struct cohort_err *err)
{
	bool causal = !m->hp.encoder;
	uint32_t pooling = COHORT_POOL_NONE;
	enum cohort_status st = arch_bool(m, "attention.causal", &causal, err);

	if (!st && causal == m->hp.encoder)
		st = err_set(err, COHORT_E_UNSUPPORTED, "%s.attention.causal is %s; %s", m->arch->name,
				causal ? "true" : "false",
				causal ? "encoders see both ways" : "decoders see what is before them");
	if (!st)
		st = arch_u32(m, "pooling_type", ARCH_MAY, &pooling, err);
	if (!st && pooling == 4)
		st = err_set(err, COHORT_E_UNSUPPORTED, "%s is a reranker; rerankers are not known to this version",
				m->arch->name);
	if (!st)
		st = arch_range(m, "pooling_type", pooling, COHORT_POOL_NONE, COHORT_POOL_LAST, err);
	m->hp.pooling = (enum cohort_pooling)pooling;
	return st;
}

static enum cohort_status load(struct model *m, struct cohort_err *err)
{
	const struct model_arch *a = m->arch;
	enum cohort_status st = arch_load_sizes(m, err);

	if (!st && a->keys)
		st = a->keys(m, err);
	if (!st)
		st = load_reading(m, err);
	if (!st && m->hp.n_rot)
		st = arch_load_rope(m, 0, 0.0f, false, err);
	if (!st)
		st = check_scales(m, err);
	if (st)
		return st;
	struct arch_bind top = arch_bind_top(m, err);
	arch_ends(&top);
	if (a->top)
		a->top(&top);
	st = top.st;
	for (uint32_t l = 0; !st && l < m->hp.n_layer; l++) {
		struct arch_bind b = arch_bind_layer(m, l, err);
		if (a->layer)
			a->layer(&b);
		else
			arch_block(&b, true);
		st = b.st;
	}
	return st;
}

bool model_is_checked(const struct model *m)
{
	return !m->arch->unchecked;
}

const char *model_arch_name(const struct model *m)
{
	return m->arch->name;
}

enum cohort_status model_init(struct model *m, const struct gguf *g, uint32_t n_vocab, struct cohort_err *err)
{
	struct gguf_str arch;
	char shown[ERR_SHOW_BYTES];
	enum cohort_status st;

	*m = (struct model){.gguf = g};
	st = gguf_get_str(g, "general.architecture", true, &arch, err);
	if (st)
		return st;
	for (size_t i = 0; i < arch_count; i++)
		if (gguf_str_is(arch, arch_all[i]->name))
			m->arch = arch_all[i];
	if (!m->arch)
		return unknown_arch(arch, err);
	m->hp.n_vocab = n_vocab;
	st = alloc_weights(m, err);
	if (!st)
		st = load(m, err);
	for (size_t i = 0; !st && i < g->n_tensors; i++)
		if (!m->bound[i] && !may_be_left(&g->tensors[i]))
			st = err_set(err, COHORT_E_UNSUPPORTED,
					"tensor '%s' is not part of a %s model this version can run",
					err_show(shown, g->tensors[i].name.s, g->tensors[i].name.n), m->arch->name);
	mem_free(m->bound);
	m->bound = NULL;
	if (st)
		model_release(m);
	return st;
}

void model_release(struct model *m)
{
	if (!m)
		return;
	for (size_t i = 0; i < MODEL_ROPES; i++) {
		mem_free(m->rope[i].freqs);
		mem_free(m->rope[i].freqs_long);
	}
	mem_free(m->slopes);
	mem_free(m->weights);
	mem_free(m->bound);
	mem_free(m->layers);
	*m = (struct model){0};
}
