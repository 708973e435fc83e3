/* Binding a GGUF file to a model.
 *
 * Invariants
 *  1. Every number from the file is bounded before it sizes or indexes anything.
 *  2. Every bound tensor has exactly the shape the architecture expects and a known format.
 *  3. Every tensor of the file is bound: a file that holds more than we compute would give wrong numbers, so it is
 *     refused. Refuses to know: kernels, layouts in memory, threads. */
#include "model/model.h"

#include "base/fmath.h"
#include "base/mem.h"
#include "quant/quant.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const struct model_arch *const archs[] = {&model_arch_llama};
enum { N_ARCHS = sizeof archs / sizeof *archs };

static enum cohort_status key_name(const struct model *m, const char *key, char out[96], struct cohort_err *err)
{
	if (snprintf(out, 96, "%s.%s", m->arch->name, key) >= 96)
		return err_set(err, COHORT_E_BUG, "metadata key %s.%s is too long", m->arch->name, key);
	return COHORT_OK;
}

enum cohort_status model_key_u32(
		const struct model *m, const char *key, bool need, uint32_t *out, struct cohort_err *err)
{
	char name[96];
	enum cohort_status st = key_name(m, key, name, err);
	return st ? st : gguf_get_u32(m->gguf, name, need, out, err);
}

enum cohort_status model_key_f32(const struct model *m, const char *key, bool need, float *out, struct cohort_err *err)
{
	char name[96];
	enum cohort_status st = key_name(m, key, name, err);
	return st ? st : gguf_get_f32(m->gguf, name, need, out, err);
}

enum cohort_status model_bind(struct model *m, const char *name, bool need, size_t k, size_t n_rows,
		const struct model_weight **out, struct cohort_err *err)
{
	const struct gguf_tensor *t = gguf_find_tensor(m->gguf, name);
	bool vector = n_rows == 0;

	if (!t)
		return need ? err_set(err, COHORT_E_FORMAT, "tensor %s is missing", name) : COHORT_OK;
	const struct quant_format *f = quant_format_get(t->type);
	if (!f)
		return err_set(err, COHORT_E_UNSUPPORTED,
				"tensor %s has format number %u, which this version does not know", name, t->type);
	if (t->ne[0] != k || t->ne[1] != (vector ? 1 : n_rows) || t->ne[2] != 1 || t->ne[3] != 1)
		return err_at(err, COHORT_E_FORMAT, t->offset,
				"tensor %s has shape [%llu, %llu, %llu, %llu], expected [%zu, %zu]", name,
				(unsigned long long)t->ne[0], (unsigned long long)t->ne[1],
				(unsigned long long)t->ne[2], (unsigned long long)t->ne[3], k, vector ? 1 : n_rows);
	if (vector && t->type != QUANT_F32)
		return err_set(err, COHORT_E_UNSUPPORTED, "tensor %s is %s; vectors must be F32", name, f->name);
	if (m->n_weights >= m->gguf->n_tensors)
		return err_set(err, COHORT_E_BUG, "tensor %s bound twice", name);

	struct model_weight *w = &m->weights[m->n_weights];
	*w = (struct model_weight){t, t->type, (int32_t)m->n_weights, k, vector ? 1 : n_rows, t->data};
	m->n_weights++;
	m->n_params += (uint64_t)k * w->n_rows;
	m->weight_bytes += t->n_bytes;
	*out = w;
	return COHORT_OK;
}

static bool is(struct gguf_str s, const char *name)
{
	return s.n == strlen(name) && memcmp(s.s, name, s.n) == 0;
}

static enum cohort_status within(
		const struct model *m, const char *what, uint32_t v, uint32_t lo, uint32_t hi, struct cohort_err *err)
{
	if (v >= lo && v <= hi)
		return COHORT_OK;
	return err_set(err, COHORT_E_FORMAT, "%s.%s is %u, expected %u to %u", m->arch->name, what, v, lo, hi);
}

enum cohort_status model_load_common(struct model *m, struct cohort_err *err)
{
	struct model_hparams *h = &m->hp;
	uint32_t n_vocab = 0;
	float scale = 1.0f;
	struct gguf_str scaling = {0};
	enum cohort_status st;

#define TRY(e)                  \
	do {                    \
		st = (e);       \
		if (st)         \
			return st; \
	} while (0)
	TRY(model_key_u32(m, "embedding_length", true, &h->n_embd, err));
	TRY(within(m, "embedding_length", h->n_embd, 1, 1 << 20, err));
	TRY(model_key_u32(m, "block_count", true, &h->n_layer, err));
	TRY(within(m, "block_count", h->n_layer, 1, 4096, err));
	TRY(model_key_u32(m, "context_length", true, &h->n_ctx_train, err));
	TRY(within(m, "context_length", h->n_ctx_train, 1, 1 << 30, err));
	TRY(model_key_u32(m, "feed_forward_length", true, &h->n_ff, err));
	TRY(within(m, "feed_forward_length", h->n_ff, 1, 1 << 24, err));
	TRY(model_key_u32(m, "attention.head_count", true, &h->n_head, err));
	TRY(within(m, "attention.head_count", h->n_head, 1, 4096, err));
	h->n_head_kv = h->n_head;
	TRY(model_key_u32(m, "attention.head_count_kv", false, &h->n_head_kv, err));
	TRY(within(m, "attention.head_count_kv", h->n_head_kv, 1, h->n_head, err));
	if (h->n_head % h->n_head_kv)
		return err_set(err, COHORT_E_FORMAT, "%u heads cannot share %u KV heads evenly", h->n_head,
				h->n_head_kv);
	h->head_k = h->n_embd / h->n_head;
	TRY(model_key_u32(m, "attention.key_length", false, &h->head_k, err));
	TRY(within(m, "attention.key_length", h->head_k, 1, 4096, err));
	h->head_v = h->n_embd / h->n_head;
	TRY(model_key_u32(m, "attention.value_length", false, &h->head_v, err));
	TRY(within(m, "attention.value_length", h->head_v, 1, 4096, err));
	h->n_rot = h->head_k;
	TRY(model_key_u32(m, "rope.dimension_count", false, &h->n_rot, err));
	TRY(within(m, "rope.dimension_count", h->n_rot, 0, h->head_k, err));
	if (h->n_rot % 2)
		return err_set(err, COHORT_E_FORMAT, "%s.rope.dimension_count is %u, expected an even number",
				m->arch->name, h->n_rot);
	h->rope_base = 10000.0f;
	TRY(model_key_f32(m, "rope.freq_base", false, &h->rope_base, err));
	TRY(model_key_f32(m, "attention.layer_norm_rms_epsilon", true, &h->norm_eps, err));
	if (!(h->rope_base > 0.0f && h->rope_base < 1e30f))
		return err_set(err, COHORT_E_FORMAT, "%s.rope.freq_base is %g", m->arch->name, (double)h->rope_base);
	if (!(h->norm_eps >= 0.0f && h->norm_eps < 1.0f))
		return err_set(err, COHORT_E_FORMAT, "%s.attention.layer_norm_rms_epsilon is %g", m->arch->name,
				(double)h->norm_eps);

	char key[96], shown[ERR_SHOW_BYTES];
	TRY(key_name(m, "rope.scaling.type", key, err));
	TRY(gguf_get_str(m->gguf, key, false, &scaling, err));
	TRY(model_key_f32(m, "rope.scale_linear", false, &scale, err)); /* of old files */
	TRY(model_key_f32(m, "rope.scaling.factor", false, &scale, err));
	h->rope_scale = 1.0f;
	if (!scaling.n || is(scaling, "linear")) { /* a factor without a type is linear; 0 stands for none */
		if (!(scale >= 0.0f && scale < 1e6f))
			return err_set(err, COHORT_E_FORMAT, "%s.rope.scaling.factor is %g", m->arch->name,
					(double)scale);
		h->rope_scale = scale > 0.0f ? scale : 1.0f;
	} else if (!is(scaling, "none")) {
		return err_set(err, COHORT_E_UNSUPPORTED, "rope scaling '%s' is not known; known: none, linear",
				err_show(shown, scaling.s, scaling.n));
	}

	const struct gguf_tensor *embd = gguf_find_tensor(m->gguf, "token_embd.weight");
	if (!embd)
		return err_set(err, COHORT_E_FORMAT, "tensor token_embd.weight is missing");
	if (embd->ne[1] > INT32_MAX)
		return err_at(err, COHORT_E_FORMAT, embd->offset, "token_embd.weight has too many rows");
	n_vocab = (uint32_t)embd->ne[1];
	if (h->n_vocab && h->n_vocab != n_vocab)
		return err_at(err, COHORT_E_FORMAT, embd->offset,
				"token_embd.weight has %u rows, the vocabulary %u tokens", n_vocab, h->n_vocab);
	h->n_vocab = n_vocab;
	TRY(model_bind(m, "token_embd.weight", true, h->n_embd, n_vocab, &m->token_embd, err));
	TRY(model_bind(m, "output_norm.weight", true, h->n_embd, 0, &m->output_norm, err));
	TRY(model_bind(m, "output.weight", false, h->n_embd, n_vocab, &m->output, err));
	if (!m->output)
		m->output = m->token_embd;
	if (h->n_rot)
		TRY(model_bind(m, "rope_freqs.weight", false, h->n_rot / 2, 0, &m->rope_factors, err));
	m->layers = mem_zalloc(h->n_layer, sizeof *m->layers);
	if (!m->layers)
		return err_set(err, COHORT_E_MEMORY, "out of memory for %u layers", h->n_layer);
#undef TRY
	h->attn_scale = 1.0f / sqrtf((float)h->head_k);
	return COHORT_OK;
}

/* Angles per position, in double by our own functions: the same on every machine. */
static enum cohort_status make_rope(struct model *m, struct cohort_err *err)
{
	const struct model_hparams *h = &m->hp;
	size_t n = h->n_rot / 2;

	m->rope_freqs = mem_zalloc(n, sizeof *m->rope_freqs);
	if (!m->rope_freqs)
		return err_set(err, COHORT_E_MEMORY, "out of memory");
	for (size_t i = 0; i < n; i++) {
		double f = fm_pow((double)h->rope_base, -2.0 * (double)i / (double)h->n_rot) / (double)h->rope_scale;
		if (m->rope_factors) {
			float by;
			memcpy(&by, (const char *)m->rope_factors->data + i * sizeof by, sizeof by);
			if (!(by > 0.0f && by < 1e30f))
				return err_at(err, COHORT_E_FORMAT, m->rope_factors->tensor->offset,
						"rope_freqs.weight[%zu] is %g", i, (double)by);
			f /= (double)by;
		}
		m->rope_freqs[i] = f;
	}
	return COHORT_OK;
}

static bool is_bound(const struct model *m, const struct gguf_tensor *t)
{
	static const char unused[] =
			"attn_rot_embd"; /* old files carry the rotary angles; they follow from the parameters */
	for (size_t i = 0; i < m->n_weights; i++)
		if (m->weights[i].tensor == t)
			return true;
	return t->name.n >= sizeof unused - 1 && memmem(t->name.s, t->name.n, unused, sizeof unused - 1);
}

static enum cohort_status unknown_arch(struct gguf_str name, struct cohort_err *err)
{
	char known[160] = "", shown[ERR_SHOW_BYTES];
	for (size_t i = 0; i < N_ARCHS; i++)
		snprintf(known + strlen(known), sizeof known - strlen(known), "%s%s", i ? ", " : "", archs[i]->name);
	return err_set(err, COHORT_E_UNSUPPORTED, "architecture '%s' is not known; known: %s",
			err_show(shown, name.s, name.n), known);
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
	for (size_t i = 0; i < N_ARCHS; i++)
		if (is(arch, archs[i]->name))
			m->arch = archs[i];
	if (!m->arch)
		return unknown_arch(arch, err);
	m->hp.n_vocab = n_vocab;
	m->weights = mem_zalloc(g->n_tensors, sizeof *m->weights);
	if (!m->weights)
		st = err_set(err, COHORT_E_MEMORY, "out of memory for %zu tensors", g->n_tensors);
	if (!st)
		st = m->arch->load(m, err);
	if (!st)
		st = make_rope(m, err);
	for (size_t i = 0; !st && m->n_weights < g->n_tensors && i < g->n_tensors; i++)
		if (!is_bound(m, &g->tensors[i]))
			st = err_set(err, COHORT_E_UNSUPPORTED,
					"tensor '%s' is not part of a %s model this version can run",
					err_show(shown, g->tensors[i].name.s, g->tensors[i].name.n), m->arch->name);
	if (st)
		model_release(m);
	return st;
}

void model_release(struct model *m)
{
	if (m) {
		mem_free(m->weights);
		mem_free(m->layers);
		mem_free(m->rope_freqs);
		*m = (struct model){0};
	}
}
