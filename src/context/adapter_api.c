/* cohort.h's adapters: which rows go through which.
 *
 * Invariant: all that a sequence holds was computed with the adapter it has now, at the scale it has now. */
#include "context/impl.h"

#include "base/fp.h"
#include "base/mem.h"

#include <math.h>

enum cohort_status cohort_adapter_open(
		const struct cohort_model *model, const char *path, struct cohort_adapter **out, struct cohort_err *err)
{
	if (!model || !path || !out)
		return err_set(err, COHORT_E_ARG, "%s is NULL", !model ? "model" : path ? "out" : "path");
	if (model->vocab_only)
		return err_set(err, COHORT_E_ARG, "the model was opened with vocab_only: it has no weights");
	struct cohort_adapter *a = mem_zalloc(1, sizeof *a);
	if (!a)
		return err_set(err, COHORT_E_MEMORY, "out of memory for an adapter");
	a->model = model;
	struct fp_mode fp;
	fp_enter(&fp);
	enum cohort_status st = model_adapter_init(&a->adapter, &model->model, path, err);
	fp_leave(&fp);
	if (st)
		mem_free(a);
	else
		*out = a;
	return st;
}

void cohort_adapter_free(struct cohort_adapter *a)
{
	if (a) {
		model_adapter_release(&a->adapter);
		mem_free(a);
	}
}

enum cohort_status context_open_adapters(
		struct cohort_model *m, const struct cohort_model_params *p, struct cohort_err *err)
{
	enum cohort_status st = COHORT_OK;

	if (p->n_adapters == 0)
		return COHORT_OK;
	if (!p->adapters)
		return err_set(err, COHORT_E_ARG, "adapters is NULL, but n_adapters %zu", p->n_adapters);
	if (p->vocab_only)
		return err_set(err, COHORT_E_ARG, "adapters need weights: not with vocab_only");
	m->adapters = mem_zalloc(p->n_adapters, sizeof *m->adapters);
	m->base = mem_zalloc(p->n_adapters, sizeof *m->base);
	if (!m->adapters || !m->base)
		return err_set(err, COHORT_E_MEMORY, "out of memory for %zu adapters", p->n_adapters);
	for (size_t i = 0; i < p->n_adapters && !st; i++) {
		const float scale = p->adapter_scales ? p->adapter_scales[i] : 1.0f;
		st = p->adapters[i] ? err_real(err, "adapter_scales", (double)scale, -1e6, 1e6)
				    : err_set(err, COHORT_E_ARG, "adapters[%zu] is NULL", i);
		if (!st)
			st = model_adapter_init(&m->adapters[i], &m->model, p->adapters[i], err);
		if (!st)
			m->base[m->n_adapters++] = (struct be_lora){&m->adapters[i].loras, scale};
	}
	return st;
}

void context_free_adapters(struct cohort_model *m)
{
	for (size_t i = 0; i < m->n_adapters; i++)
		model_adapter_release(&m->adapters[i]);
	mem_free(m->adapters);
	mem_free(m->base);
}

static bool same(const struct be_lora *a, const struct be_lora *b)
{
	return a->loras == b->loras && (!a->loras || a->scale == b->scale);
}

static void give(struct cohort_context *c, cohort_seq seq, struct be_lora to)
{
	c->n_lora += to.loras != NULL;
	c->n_lora -= c->lora[seq].loras != NULL;
	c->lora[seq] = to;
}

enum cohort_status cohort_seq_adapter_set(struct cohort_context *c, cohort_seq seq,
		const struct cohort_adapter *adapter, float scale, struct cohort_err *err)
{
	if (!c)
		return err_set(err, COHORT_E_ARG, "context is NULL");
	if (seq < 0 || seq >= c->p.n_seq_max)
		return err_rule(err, COHORT_E_ARG, "seq-id", -1, seq, c->p.n_seq_max, seq,
				"sequence %d is not in 0 to %d", seq, c->p.n_seq_max - 1);
	if (adapter && adapter->model != c->model)
		return err_set(err, COHORT_E_ARG, "the adapter was opened for another model");
	enum cohort_status st = err_real(err, "scale", adapter ? (double)scale : 1, -1e6, 1e6);
	if (st)
		return st;
	const struct be_lora to = {adapter ? &adapter->adapter.loras : NULL, adapter ? scale : 0.0f};
	if (same(&c->lora[seq], &to))
		return COHORT_OK;
	if (memory_pos_max(&c->memory, seq) >= 0)
		return err_rule(err, COHORT_E_ARG, "adapter-held", -1, seq, 0, memory_pos_max(&c->memory, seq) + 1,
				"sequence %d holds positions that were computed with another adapter", seq);
	if (adapter && !forward_lora_reserve(&c->forward, to.loras))
		return err_set(err, COHORT_E_MEMORY, "out of memory for products with an adapter");
	give(c, seq, to);
	return COHORT_OK;
}

enum cohort_status context_check_adapters(const struct cohort_context *c, struct cohort_err *err)
{
	const struct batch_checked *b = &c->checked;

	for (int32_t i = 0; c->n_lora && i < b->n_tokens; i++)
		for (int32_t j = 1; j < b->n_seq[i]; j++)
			if (!same(&c->lora[b->seq[i][0]], &c->lora[b->seq[i][j]]))
				return err_rule(err, COHORT_E_BATCH, "adapter", i, b->seq[i][j], b->seq[i][0],
						b->seq[i][j],
						"row %d is of sequences %d and %d, which have different adapters", i,
						b->seq[i][0], b->seq[i][j]);
	return COHORT_OK;
}

/* Whether a copy takes the adapter of src along: when it copies anything, and as a copy of all of a sequence, which may
 * be empty: a fork of what is yet to come goes through what its parent does. */
static bool takes_along(const struct cohort_context *c, cohort_seq src, cohort_seq dst, cohort_pos p0, cohort_pos p1)
{
	return memory_holds(&c->memory, src, p0, p1) ||
			(p0 == 0 && p1 == -1 && memory_pos_max(&c->memory, src) < 0 &&
					memory_pos_max(&c->memory, dst) < 0);
}

enum cohort_status context_copy_adapter(struct cohort_context *c, cohort_seq src, cohort_seq dst, cohort_pos p0,
		cohort_pos p1, bool dry, struct cohort_err *err)
{
	const cohort_seq n = c->p.n_seq_max;

	/* Ids out of range are the memory's to refuse. */
	if (src < 0 || src >= n || dst < 0 || dst >= n || same(&c->lora[src], &c->lora[dst]) ||
			!takes_along(c, src, dst, p0, p1))
		return COHORT_OK;
	if (!dry)
		give(c, dst, c->lora[src]);
	else if (memory_pos_max(&c->memory, dst) >= 0)
		return err_rule(err, COHORT_E_ARG, "adapter-held", -1, dst, src, dst,
				"sequences %d and %d have different adapters", src, dst);
	return COHORT_OK;
}
