/* Hyper-parameters from a file's keys.
 *
 * Invariants
 *  1. Every number is bounded before it sizes or indexes anything.
 *  2. A key of the wrong type is refused, never taken for absent. */
#include "model/arch.h"

#include "base/mem.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static enum cohort_status key_name(const struct model *m, const char *key, char out[96], struct cohort_err *err)
{
	if (snprintf(out, 96, "%s.%s", m->arch->name, key) >= 96)
		return err_set(err, COHORT_E_BUG, "metadata key %s.%s is too long", m->arch->name, key);
	return COHORT_OK;
}

enum cohort_status arch_u32(const struct model *m, const char *key, bool need, uint32_t *out, struct cohort_err *err)
{
	char name[96];
	enum cohort_status st = key_name(m, key, name, err);
	return st ? st : gguf_get_u32(m->gguf, name, need, out, err);
}

enum cohort_status arch_f32(const struct model *m, const char *key, bool need, float *out, struct cohort_err *err)
{
	char name[96];
	enum cohort_status st = key_name(m, key, name, err);
	return st ? st : gguf_get_f32(m->gguf, name, need, out, err);
}

enum cohort_status arch_scale(const struct model *m, const char *key, float none, float *out, struct cohort_err *err)
{
	enum cohort_status st = arch_f32(m, key, ARCH_MAY, out, err);
	if (!st && *out == 0.0f)
		*out = none;
	return st;
}

enum cohort_status arch_bool(const struct model *m, const char *key, bool *out, struct cohort_err *err)
{
	char name[96];
	enum cohort_status st = key_name(m, key, name, err);
	return st ? st : gguf_get_bool(m->gguf, name, false, out, err);
}

enum cohort_status arch_str(const struct model *m, const char *key, struct gguf_str *out, struct cohort_err *err)
{
	char name[96];
	enum cohort_status st = key_name(m, key, name, err);
	return st ? st : gguf_get_str(m->gguf, name, false, out, err);
}

enum cohort_status arch_range(
		const struct model *m, const char *key, uint32_t v, uint32_t lo, uint32_t hi, struct cohort_err *err)
{
	if (v >= lo && v <= hi)
		return COHORT_OK;
	return err_set(err, COHORT_E_FORMAT, "%s.%s is %u, expected %u to %u", m->arch->name, key, v, lo, hi);
}

static enum cohort_status size(
		const struct model *m, const char *key, bool need, uint32_t *v, uint32_t hi, struct cohort_err *err)
{
	enum cohort_status st = arch_u32(m, key, need, v, err);
	return st ? st : arch_range(m, key, *v, 1, hi, err);
}

static enum cohort_status load_widths(struct model *m, struct cohort_err *err)
{
	struct model_hparams *h = &m->hp;
	enum cohort_status st = size(m, "embedding_length", ARCH_NEED, &h->n_embd, 1 << 20, err);

	if (!st)
		st = size(m, "block_count", ARCH_NEED, &h->n_layer, 4096, err);
	if (!st)
		st = size(m, "context_length", ARCH_NEED, &h->n_ctx_train, 1 << 30, err);
	h->layer_norm = m->arch->layer_norm;
	h->rope_halves = m->arch->rope_halves;
	h->encoder = h->post_norm = m->arch->encoder;
	h->act = m->arch->act;
	const char *eps = h->layer_norm ? "attention.layer_norm_epsilon" : "attention.layer_norm_rms_epsilon";
	if (!st)
		st = arch_f32(m, eps, ARCH_NEED, &h->norm_eps, err);
	if (!st && !(h->norm_eps >= 0.0f && h->norm_eps < 1.0f))
		st = err_set(err, COHORT_E_FORMAT, "%s.%s is %g, expected 0 to 1", m->arch->name, eps,
				(double)h->norm_eps);
	if (st)
		return st;
	h->embd_scale = h->residual_scale = h->logit_scale = h->expert_scale = 1.0f;
	h->expert_norm = true;
	m->layers = mem_zalloc(h->n_layer, sizeof *m->layers);
	if (!m->layers)
		return err_set(err, COHORT_E_MEMORY, "out of memory for %u layers", h->n_layer);
	return COHORT_OK;
}

/* The size of a head's keys or values. Without a key of its own it is an equal share of the width. */
static enum cohort_status head_size(const struct model *m, const char *key, uint32_t *out, struct cohort_err *err)
{
	const struct model_hparams *h = &m->hp;
	char name[96];
	enum cohort_status st = key_name(m, key, name, err);

	if (!st && h->n_embd % h->n_head && !gguf_find(m->gguf, name))
		st = err_set(err, COHORT_E_FORMAT, "%s.embedding_length is %u, which %u heads cannot share evenly",
				m->arch->name, h->n_embd, h->n_head);
	*out = h->n_embd / h->n_head;
	return st ? st : size(m, key, ARCH_MAY, out, 4096, err);
}

static enum cohort_status load_heads(struct model *m, struct cohort_err *err)
{
	struct model_hparams *h = &m->hp;
	enum cohort_status st = size(m, "attention.head_count", ARCH_NEED, &h->n_head, 4096, err);

	h->n_head_kv = h->n_head;
	if (!st)
		st = size(m, "attention.head_count_kv", ARCH_MAY, &h->n_head_kv, h->n_head, err);
	if (st)
		return st;
	if (h->n_head % h->n_head_kv)
		return err_set(err, COHORT_E_FORMAT, "%u heads cannot share %u KV heads evenly", h->n_head,
				h->n_head_kv);
	st = head_size(m, "attention.key_length", &h->head_k, err);
	if (!st)
		st = head_size(m, "attention.value_length", &h->head_v, err);
	h->n_rot = h->head_k;
	if (!st)
		st = arch_u32(m, "rope.dimension_count", ARCH_MAY, &h->n_rot, err);
	if (!st)
		st = arch_range(m, "rope.dimension_count", h->n_rot, 0, h->head_k, err);
	if (!st && h->n_rot % 2)
		st = err_set(err, COHORT_E_FORMAT, "%s.rope.dimension_count is %u, expected an even number",
				m->arch->name, h->n_rot);
	h->attn_scale = 1.0f / sqrtf((float)h->head_k);
	return st;
}

static enum cohort_status load_states(struct model *m, struct cohort_err *err)
{
	struct model_hparams *h = &m->hp;
	enum cohort_status st = size(m, "ssm.conv_kernel", ARCH_NEED, &h->d_conv, 64, err);
	if (!st)
		st = size(m, "ssm.inner_size", ARCH_NEED, &h->d_inner, 1 << 20, err);
	if (!st)
		st = size(m, "ssm.state_size", ARCH_NEED, &h->d_state, 4096, err);
	if (!st)
		st = size(m, "ssm.time_step_rank", ARCH_NEED, &h->dt_rank, 1 << 20, err);
	/* What attention would need, in the smallest size there is, so that nothing has to be a special case. */
	h->n_head = h->n_head_kv = 1;
	h->head_k = h->head_v = 1;
	h->attn_scale = 1.0f;
	for (uint32_t l = 0; !st && l < h->n_layer; l++)
		m->layers[l].rope = -1;
	return st;
}

enum cohort_status arch_load_sizes(struct model *m, struct cohort_err *err)
{
	enum cohort_status st = load_widths(m, err);

	if (st || m->arch->recurrent)
		return st ? st : load_states(m, err);
	st = size(m, "feed_forward_length", ARCH_NEED, &m->hp.n_ff, 1 << 24, err);
	if (!st)
		st = load_heads(m, err);
	if (m->arch->unrotated)
		m->hp.n_rot = 0;
	return st;
}

enum cohort_status arch_load_experts(struct model *m, struct cohort_err *err)
{
	struct model_hparams *h = &m->hp;
	enum cohort_status st = arch_u32(m, "expert_count", ARCH_MAY, &h->n_expert, err);

	if (st || h->n_expert == 0)
		return st;
	st = arch_range(m, "expert_count", h->n_expert, 1, 4096, err);
	if (!st)
		st = size(m, "expert_used_count", ARCH_NEED, &h->n_expert_used, h->n_expert, err);
	if (!st)
		st = arch_u32(m, "expert_feed_forward_length", ARCH_MAY, &h->n_ff_exp, err);
	if (!st && h->n_ff_exp == 0)
		h->n_ff_exp = h->n_ff;
	if (!st)
		st = arch_range(m, "expert_feed_forward_length", h->n_ff_exp, 1, 1 << 24, err);
	if (!st)
		st = arch_u32(m, "expert_shared_feed_forward_length", ARCH_MAY, &h->n_ff_shared, err);
	if (!st)
		st = arch_range(m, "expert_shared_feed_forward_length", h->n_ff_shared, 0, 1 << 24, err);
	if (!st)
		st = arch_f32(m, "expert_weights_scale", ARCH_MAY, &h->expert_scale, err);
	if (!st && !(fabsf(h->expert_scale) < 1e6f))
		st = err_set(err, COHORT_E_FORMAT, "%s.expert_weights_scale is %g", m->arch->name,
				(double)h->expert_scale);
	if (!st && h->expert_scale == 0.0f)
		h->expert_scale = 1.0f;
	return st;
}

/* A pattern is a period, or a flag per layer. */
static enum cohort_status load_pattern(
		struct model *m, uint32_t *period, struct gguf_array *flags, struct cohort_err *err)
{
	char name[96];
	enum cohort_status st = key_name(m, "attention.sliding_window_pattern", name, err);
	const struct gguf_kv *kv = st ? NULL : gguf_find(m->gguf, name);

	if (!kv)
		return st;
	if (kv->type != GGUF_ARRAY)
		return size(m, "attention.sliding_window_pattern", ARCH_NEED, period, 4096, err);
	st = gguf_get_array(m->gguf, name, true, GGUF_BOOL, flags, err);
	if (!st && flags->n != m->hp.n_layer)
		st = err_set(err, COHORT_E_FORMAT, "%s has %llu entries, the model %u layers", name,
				(unsigned long long)flags->n, m->hp.n_layer);
	return st;
}

enum cohort_status arch_load_windows(struct model *m, uint32_t fallback, uint32_t period, struct cohort_err *err)
{
	const bool need = fallback == ARCH_WINDOW_NEED;
	uint32_t window = need ? 0 : fallback;
	struct gguf_array flags = {0};
	enum cohort_status st = arch_u32(m, "attention.sliding_window", need, &window, err);

	if (!st)
		st = arch_range(m, "attention.sliding_window", window, need, 1 << 30, err);
	if (!st)
		st = load_pattern(m, &period, &flags, err);
	for (uint32_t l = 0; !st && l < m->hp.n_layer; l++) {
		const bool on = flags.n ? flags.data[l] != 0 : l % period < period - 1;
		m->layers[l].window = on ? window : 0;
	}
	return st;
}
