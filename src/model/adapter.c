/* Binding an adapter's tensors to a model's matrices.
 *
 * Invariants
 *  1. Every tensor of the adapter is bound, to one matrix of the model or to all slices of one tensor; an adapter that
 *     holds more than we apply would give wrong numbers, so it is refused.
 *  2. A pair's shapes fit the tensor it belongs to, and its numbers are floats. */
#include "model/adapter.h"

#include "base/mem.h"
#include "quant/quant.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static enum cohort_status wants(const struct gguf *g, const char *key, const char *value, struct cohort_err *err)
{
	struct gguf_str got = {0};
	char shown[ERR_SHOW_BYTES];
	enum cohort_status st = gguf_get_str(g, key, true, &got, err);

	if (!st && !gguf_str_is(got, value))
		st = err_set(err, COHORT_E_UNSUPPORTED, "%s is '%s', expected '%s'", key, err_show(shown, got.s, got.n),
				value);
	return st;
}

static enum cohort_status check_keys(struct model_adapter *a, struct cohort_err *err)
{
	enum cohort_status st = wants(&a->gguf, "general.type", "adapter", err);

	if (!st)
		st = wants(&a->gguf, "adapter.type", "lora", err);
	if (!st)
		st = wants(&a->gguf, "general.architecture", model_arch_name(a->m), err);
	if (!st)
		st = gguf_get_f32(&a->gguf, "adapter.lora.alpha", true, &a->alpha, err);
	if (!st && !(fabsf(a->alpha) < 1e6f))
		st = err_set(err, COHORT_E_FORMAT, "adapter.lora.alpha is %g", (double)a->alpha);
	if (!st && gguf_find(&a->gguf, "adapter.alora.invocation_tokens"))
		st = err_set(err, COHORT_E_UNSUPPORTED,
				"adapters that begin at an invocation are not known to this version");
	return st;
}

/* NAME.lora_a and NAME.lora_b */
static const struct gguf_tensor *half(
		const struct model_adapter *a, struct gguf_str name, const char *which, char full[160])
{
	snprintf(full, 160, "%.*s.lora_%s", (int)name.n, name.s, which);
	return gguf_find_tensor(&a->gguf, full);
}

static enum cohort_status bad_shape(
		const struct gguf_tensor *t, const char *name, size_t k, size_t n, struct cohort_err *err)
{
	return err_at(err, COHORT_E_FORMAT, t->offset, "tensor %s has shape [%llu, %llu, %llu], expected [%zu, %zu]",
			name, (unsigned long long)t->ne[0], (unsigned long long)t->ne[1], (unsigned long long)t->ne[2],
			k, n);
}

static enum cohort_status bind_half(
		struct model_adapter *a, size_t i, const char *name, size_t k, size_t n_rows, struct cohort_err *err)
{
	const struct gguf_tensor *t = &a->gguf.tensors[i];
	const struct quant_format *f = quant_format_get(t->type);

	if (!f || f->act != QUANT_ACT_F32)
		return err_set(err, COHORT_E_UNSUPPORTED, "tensor %s is %s; adapters are F32, F16 or BF16", name,
				f ? f->name : "of an unknown format");
	if (t->ne[0] != k || t->ne[1] != n_rows || t->ne[2] != 1 || t->ne[3] != 1)
		return bad_shape(t, name, k, n_rows, err);
	a->weights[i] = (struct model_weight){.tensor = t, .type = t->type, .index = (int32_t)i, .layer = -1, .k = k,
			.n_rows = n_rows, .row_bytes = k * f->block_bytes, .data = t->data, .product = true};
	return COHORT_OK;
}

/* The pair of one of the model's tensors, for all slices of it. */
static enum cohort_status bind_pair(struct model_adapter *a, const struct gguf_tensor *of, struct cohort_err *err)
{
	char name_a[160], name_b[160];
	const struct gguf_tensor *ta = half(a, of->name, "a", name_a), *tb = half(a, of->name, "b", name_b);
	size_t n = 0;

	if (!ta && !tb)
		return COHORT_OK;
	if (!ta || !tb)
		return err_set(err, COHORT_E_FORMAT, "tensor %s is missing", ta ? name_b : name_a);
	if (of->ne[2] != 1)
		return err_set(err, COHORT_E_UNSUPPORTED, "%s adapts experts, which this version does not do", name_a);
	if (ta->ne[1] < 1 ||
			ta->ne[1] > a->m->hp.n_embd) /* more would be no adapter, and more than kernels have room for */
		return err_at(err, COHORT_E_FORMAT, ta->offset, "tensor %s has rank %llu", name_a,
				(unsigned long long)ta->ne[1]);
	const size_t rank = (size_t)ta->ne[1], ia = (size_t)(ta - a->gguf.tensors), ib = (size_t)(tb - a->gguf.tensors);
	enum cohort_status st = bind_half(a, ia, name_a, (size_t)of->ne[0], rank, err);
	if (!st)
		st = bind_half(a, ib, name_b, rank, (size_t)of->ne[1], err);
	for (size_t i = 0; !st && i < a->m->n_weights; i++) {
		const struct model_weight *w = &a->m->weights[i];
		if (w->tensor != of || !w->product || w->lookup)
			continue;
		struct model_loras *all = &a->loras;
		struct model_lora *l = &all->of[i];
		l->a = &a->weights[ia];
		l->b = a->weights[ib];
		l->scale = a->alpha != 0.0f ? a->alpha / (float)rank : 1.0f;
		l->b.n_rows = w->n_rows;
		l->b.offset = w->offset / w->row_bytes * l->b.row_bytes;
		l->b.data = (const char *)l->b.data + l->b.offset;
		all->rank_max = rank > all->rank_max ? rank : all->rank_max;
		all->rows_max = w->n_rows > all->rows_max ? w->n_rows : all->rows_max;
		all->k_max = w->k > all->k_max ? w->k : all->k_max;
		n++;
	}
	if (!st && n == 0)
		st = err_set(err, COHORT_E_UNSUPPORTED, "%s adapts a tensor that no product uses", name_a);
	a->n_adapted += n > 0;
	return st;
}

static enum cohort_status bind_all(struct model_adapter *a, struct cohort_err *err)
{
	const struct gguf *model = a->m->gguf;
	char shown[ERR_SHOW_BYTES];
	enum cohort_status st = COHORT_OK;

	for (size_t i = 0; !st && i < model->n_tensors; i++)
		st = bind_pair(a, &model->tensors[i], err);
	for (size_t i = 0; !st && i < a->gguf.n_tensors; i++)
		if (!a->weights[i].tensor)
			st = err_set(err, COHORT_E_UNSUPPORTED, "tensor '%s' belongs to nothing in the model",
					err_show(shown, a->gguf.tensors[i].name.s, a->gguf.tensors[i].name.n));
	if (!st && a->n_adapted == 0)
		st = err_set(err, COHORT_E_FORMAT, "the adapter has no tensors");
	return st;
}

enum cohort_status model_adapter_init(
		struct model_adapter *a, const struct model *m, const char *path, struct cohort_err *err)
{
	*a = (struct model_adapter){.m = m};
	enum cohort_status st = gguf_open(&a->gguf, path, quant_size, err);
	if (st)
		return st;
	st = check_keys(a, err);
	a->weights = mem_zalloc(a->gguf.n_tensors, sizeof *a->weights);
	a->loras.of = mem_zalloc(m->n_weights, sizeof *a->loras.of);
	if (!st && (!a->weights || !a->loras.of))
		st = err_set(err, COHORT_E_MEMORY, "out of memory for an adapter");
	if (!st)
		st = bind_all(a, err);
	if (st) {
		err_prefix(err, "%s", path);
		model_adapter_release(a);
	}
	return st;
}

void model_adapter_release(struct model_adapter *a)
{
	if (a) {
		mem_free(a->weights);
		mem_free(a->loras.of);
		gguf_release(&a->gguf);
		*a = (struct model_adapter){0};
	}
}
