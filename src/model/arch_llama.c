/* llama, mistral, tinyllama, codellama, llama 3: pre-norm blocks, grouped heads, rotary pairs (2i, 2i+1), SwiGLU. */
#include "model/model.h"

#include <stddef.h>
#include <stdio.h>

struct part {
	const char *name; /* blk.N.<name>.weight */
	size_t field;     /* in struct model_layer */
	size_t k, n_rows; /* n_rows 0: a vector */
};

static enum cohort_status load(struct model *m, struct cohort_err *err)
{
	uint32_t n_expert = 0;
	enum cohort_status st = model_load_common(m, err);
	if (!st)
		st = model_key_u32(m, "expert_count", false, &n_expert, err);
	if (st)
		return st;
	if (n_expert)
		return err_set(err, COHORT_E_UNSUPPORTED,
				"llama models with experts (%u here) are not known to this version", n_expert);

	const struct model_hparams *h = &m->hp;
	const size_t q = (size_t)h->n_head * h->head_k, k = (size_t)h->n_head_kv * h->head_k;
	const size_t v = (size_t)h->n_head_kv * h->head_v, o = (size_t)h->n_head * h->head_v;
#define FIELD(f) offsetof(struct model_layer, f)
	const struct part parts[] = {
		{"attn_norm", FIELD(attn_norm), h->n_embd, 0},
		{"attn_q", FIELD(wq), h->n_embd, q},
		{"attn_k", FIELD(wk), h->n_embd, k},
		{"attn_v", FIELD(wv), h->n_embd, v},
		{"attn_output", FIELD(wo), o, h->n_embd},
		{"ffn_norm", FIELD(ffn_norm), h->n_embd, 0},
		{"ffn_gate", FIELD(gate), h->n_embd, h->n_ff},
		{"ffn_up", FIELD(up), h->n_embd, h->n_ff},
		{"ffn_down", FIELD(down), h->n_ff, h->n_embd},
	};
	for (uint32_t l = 0; l < h->n_layer; l++)
		for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
			char name[64];
			const struct model_weight **slot = (void *)((char *)&m->layers[l] + parts[i].field);
			snprintf(name, sizeof name, "blk.%u.%s.weight", l, parts[i].name);
			st = model_bind(m, name, true, parts[i].k, parts[i].n_rows, slot, err);
			if (st)
				return st;
		}
	return COHORT_OK;
}

const struct model_arch model_arch_llama = {"llama", load};
