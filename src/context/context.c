/* cohort.h's contexts: parameters, lifetimes, figures. Decoding is in decode.c, sequences in seq_api.c. No arithmetic.
 *
 * Invariants
 *  1. Every array that a decode of plain rows needs is sized here; what else may make some grow, decode.c says.
 *  2. Layers with the same window form a group: a part of the memory, with blocks of its own on the devices. */
#include "context/impl.h"

#include "base/blocks.h"
#include "base/fp.h"
#include "base/mem.h"
#include "base/params.h"
#include "base/pool.h"

#include <string.h>

void cohort_context_params_init(struct cohort_context_params *params)
{
	if (!params)
		return;
	*params = (struct cohort_context_params){
			.struct_size = sizeof *params,
			.n_ctx = 2048,
			.n_batch = 512,
			.n_ubatch = 128,
			.n_seq_max = 64,
			.n_checkpoints = 1,
			.outputs = COHORT_OUTPUT_LOGITS,
	};
}

static enum cohort_status check_params(const struct cohort_context_params *p, struct cohort_err *err)
{
	const struct {
		const char *name;
		int64_t v, lo, hi;
	} ranges[] = {
			{"n_ctx", p->n_ctx, 1, 1 << 30},
			{"n_batch", p->n_batch, 1, 1 << 20},
			{"n_ubatch", p->n_ubatch, 1, 1 << 20},
			{"n_seq_max", p->n_seq_max, 1, 1 << 16},
			{"n_threads", p->n_threads, 0, 1024},
			{"n_checkpoints", p->n_checkpoints, 0, 1024},
			{"n_blocks", p->n_blocks, 0, 1 << 26},
			{"kv_type", (int64_t)p->kv_type, COHORT_KV_F16, COHORT_KV_Q8_0},
			{"split", (int64_t)p->split, COHORT_SPLIT_SIMPLE, COHORT_SPLIT_SEQ},
			{"outputs", p->outputs, 1, COHORT_OUTPUT_LOGITS | COHORT_OUTPUT_EMBEDDINGS},
			{"pooling", (int64_t)p->pooling, COHORT_POOL_NONE, COHORT_POOL_LAST},
	};
	enum cohort_status st = COHORT_OK;

	for (size_t i = 0; i < sizeof ranges / sizeof *ranges && !st; i++)
		st = err_range(err, ranges[i].name, ranges[i].v, ranges[i].lo, ranges[i].hi);
	if (!st && p->pooling != COHORT_POOL_NONE && !(p->outputs & COHORT_OUTPUT_EMBEDDINGS))
		st = err_rule(err, COHORT_E_ARG, "pooling", -1, -1, COHORT_POOL_NONE, (int64_t)p->pooling,
				"pooling needs embeddings among the outputs");
	return st;
}

/* Sequences end where the model's training did; 2^25 keeps the tables of a file that claims more in bounds. */
cohort_pos context_pos_limit(const struct cohort_model *m)
{
	const uint32_t n = m->model.hp.n_ctx_train, most = 1 << 25;
	return (cohort_pos)(n < most ? n : most);
}

size_t context_pos_span(const struct cohort_context *c)
{
	const cohort_pos limit = context_pos_limit(c->model);
	return (size_t)(limit < c->p.n_ctx ? limit : c->p.n_ctx);
}

/* Sorts layers into groups by their windows; returns the number of groups, or more than there may be. */
static size_t group_layers(const struct model *m, uint8_t *group_of, size_t window[BE_GROUPS_MAX])
{
	size_t n = 0;

	for (uint32_t l = 0; !model_is_recurrent(m) && l < m->hp.n_layer; l++) {
		size_t g = 0;
		while (g < n && window[g] != m->layers[l].window)
			g++;
		if (g == BE_GROUPS_MAX)
			return BE_GROUPS_MAX + 1;
		if (g == n)
			window[n++] = m->layers[l].window;
		group_of[l] = (uint8_t)g;
	}
	return n;
}

/* Arrays that do not grow lie in one block. */
struct array {
	void **at;
	size_t n, size;
};

enum { ARRAYS_MAX = 21 + 4 * BE_GROUPS_MAX };

static size_t list_arrays(struct cohort_context *c, struct array out[ARRAYS_MAX])
{
	const size_t n = (size_t)c->p.n_batch, u = (size_t)c->p.n_ubatch, n_seq = (size_t)c->p.n_seq_max;
	size_t k = 0;

#define ARRAY(field, n) out[k++] = (struct array){(void **)&(field), n, sizeof *(field)}
	for (size_t g = 0; g < c->n_groups; g++) {
		ARRAY(c->cells[g].table, u);
		ARRAY(c->cells[g].gaps, u);
		ARRAY(c->cells[g].base, u);
		ARRAY(c->cells[g].first, u);
	}
	ARRAY(c->outputs, n);
	ARRAY(c->kv_rows, n);
	ARRAY(c->lora, n_seq);
	ARRAY(c->row_lora, u);
	ARRAY(c->rank_of, n);
	ARRAY(c->at_of, n);
	ARRAY(c->state_from, u);
	ARRAY(c->state_to, u);
	ARRAY(c->end, u);
	ARRAY(c->wanted, u);
	ARRAY(c->logit_at, u);
	ARRAY(c->logit_rows, u);
	ARRAY(c->scratch_ids, c->n_scratch_blocks);
	ARRAY(c->enc_tokens, u);
	ARRAY(c->enc_pos, u);
	ARRAY(c->enc_rows, u);
	ARRAY(c->pooled, c->p.pooling == COHORT_POOL_NONE ? 0 : n_seq * c->model->model.hp.n_embd);
	ARRAY(c->n_pooled, n_seq);
	ARRAY(c->pooled_in, n_seq);
	ARRAY(c->named, n_seq);
	ARRAY(c->row_of, n_seq);
#undef ARRAY
	return k;
}

static bool carve_arrays(struct cohort_context *c)
{
	struct array list[ARRAYS_MAX + 1];
	size_t n = list_arrays(c, list), bytes = 0;
	const size_t align = 16;

	list[n++] = (struct array){(void **)&c->ubatch_of, (size_t)c->p.n_seq_max, sizeof *c->ubatch_of};
	for (size_t i = 0; i < n; i++)
		if (!size_add(bytes, (list[i].n * list[i].size + align - 1) / align * align, &bytes))
			return false;
	uint8_t *at = c->arrays = mem_zalloc(bytes, 1);
	if (!at)
		return false;
	for (size_t i = 0; i < n; i++) {
		*list[i].at = at;
		at += (list[i].n * list[i].size + align - 1) / align * align;
	}
	return true;
}

/* What grows: stores with coupled rows, tables with sequences that have gaps. */
static bool alloc_cells(struct cohort_context *c, struct context_cells *k)
{
	const size_t u = (size_t)c->p.n_ubatch, n_index = (size_t)context_pos_limit(c->model) / BE_BLOCK + 1;
	size_t n = n_index < c->n_blocks + 1 ? n_index : c->n_blocks + 1;

	if (!size_mul(n, u, &n))
		return false;
	n = n > c->n_scratch_blocks ? n : c->n_scratch_blocks;
	k->blocks_max = k->held_max = n;
	k->blocks = mem_zalloc(n, sizeof *k->blocks);
	k->held = mem_zalloc(n, sizeof *k->held);
	k->stores_max = u;
	k->stores = mem_zalloc(u, sizeof *k->stores);
	return k->blocks && k->held && k->stores;
}

static bool alloc_arrays(struct cohort_context *c)
{
	const size_t n = (size_t)c->p.n_batch;

	/* What any CONTEXT_WHOLE_MAX sequences of a ubatch take together; more of them go in more turns. */
	c->n_scratch_blocks = (size_t)c->p.n_ubatch / BE_BLOCK + CONTEXT_WHOLE_MAX + 1;
	if (!batch_checked_init(&c->checked, n, (size_t)c->p.n_seq_max) || !context_scratch_rows(&c->scratch, n) ||
			!carve_arrays(c))
		return false;
	for (size_t g = 0; g < c->n_groups; g++)
		if (!alloc_cells(c, &c->cells[g]))
			return false;
	for (size_t i = 0; i < c->n_scratch_blocks; i++)
		c->scratch_ids[i] = (int32_t)(c->n_blocks + i);
	return true;
}

static enum cohort_status open_parts(struct cohort_context *c, struct cohort_err *err)
{
	const struct cohort_context_params *p = &c->p;
	const struct cohort_model *cm = c->model;
	const struct model *m = &cm->model;
	const size_t n = (size_t)p->n_batch;
	struct forward_device devices[FORWARD_DEVICES_MAX];
	size_t window[BE_GROUPS_MAX] = {0};

	c->n_blocks = (size_t)p->n_blocks;
	c->group_of = mem_zalloc(m->hp.n_layer, sizeof *c->group_of);
	if (!c->group_of)
		return err_set(err, COHORT_E_MEMORY, "out of memory");
	c->n_groups = group_layers(m, c->group_of, window);
	if (c->n_groups > BE_GROUPS_MAX)
		return err_set(err, COHORT_E_UNSUPPORTED, "the model has layers of more than %d different windows",
				BE_GROUPS_MAX);
	/* A decode gives every sequence it touches a new state beside the one it had. */
	if (model_is_recurrent(m))
		c->n_states = (2 + (size_t)p->n_checkpoints) * (size_t)p->n_seq_max;
	struct memory_limits ml = {.n_blocks = c->n_blocks,
			.block_size = BE_BLOCK,
			.n_seq_max = (size_t)p->n_seq_max,
			.n_pos_max = (size_t)context_pos_limit(cm),
			.n_rows_max = n,
			.n_kv = c->n_groups,
			.n_states = c->n_states,
			.n_checkpoints = (size_t)p->n_checkpoints};
	memcpy(ml.window, window, sizeof ml.window);
	if (!memory_init(&c->memory, &ml) || !alloc_arrays(c))
		return err_set(err, COHORT_E_MEMORY, "out of memory for a context of %d tokens", p->n_ctx);
	for (size_t i = 0; i < cm->n_devices; i++)
		devices[i] = (struct forward_device){cm->devices[i].weights, cm->devices[i].wanted,
				(uint32_t)cm->devices[i].n_layers};
	struct forward_limits lim = {
			.devices = devices,
			.n_devices = cm->n_devices,
			.n_rows_max = (size_t)p->n_ubatch,
			.n_outputs_max = n + 1, /* the last one is the warm-up's */
			.n_threads = (size_t)p->n_threads,
			.logits = (p->outputs & COHORT_OUTPUT_LOGITS) != 0,
			.embeddings = (p->outputs & COHORT_OUTPUT_EMBEDDINGS) != 0,
			.kv_type = p->kv_type,
			.group_of = c->group_of,
			.n_groups = c->n_groups,
			.n_states = c->n_states + context_whole_max(c),
			.n_pos_max = context_pos_span(c),
			.base = cm->base,
			.n_base = cm->n_adapters,
	};
	for (size_t g = 0; g < c->n_groups; g++) {
		lim.n_blocks[g] = c->n_blocks + c->n_scratch_blocks;
		lim.window[g] = window[g];
	}
	return forward_init(&c->forward, m, &lim, err);
}

enum cohort_status cohort_context_open(const struct cohort_model *model, const struct cohort_context_params *params,
		struct cohort_context **out, struct cohort_err *err)
{
	struct cohort_context_params p;
	enum cohort_status st;
	struct fp_mode fp;

	cohort_context_params_init(&p);
	if (!model || !out)
		return err_set(err, COHORT_E_ARG, "%s is NULL", model ? "out" : "model");
	if (model->vocab_only)
		return err_set(err, COHORT_E_ARG, "the model was opened with vocab_only: it has no weights");
	if (params && !params_take(&p, sizeof p, params))
		return err_set(err, COHORT_E_ARG,
				"context parameters were not initialised by cohort_context_params_init");
	st = check_params(&p, err);
	if (!st && model->model.hp.encoder && p.outputs != COHORT_OUTPUT_EMBEDDINGS)
		st = err_set(err, COHORT_E_ARG, "%s models are encoders: they have embeddings, no logits",
				model_arch_name(&model->model));
	if (st)
		return st;
	if (p.n_threads == 0)
		p.n_threads = (int32_t)pool_cpu_count();
	if (p.n_ubatch > p.n_batch)
		p.n_ubatch = p.n_batch;
	const struct cohort_room_params room = {.n_ctx = p.n_ctx, .n_blocks = p.n_blocks, .n_seq_max = p.n_seq_max};
	p.n_blocks = blocks_room(BE_BLOCK, &room).n_blocks;

	struct cohort_context *c = mem_zalloc(1, sizeof *c);
	if (!c)
		return err_set(err, COHORT_E_MEMORY, "out of memory");
	c->model = model;
	c->p = p;
	fp_enter(&fp);
	st = open_parts(c, err);
	fp_leave(&fp);
	if (st) {
		cohort_context_free(c);
		return st;
	}
	*out = c;
	return COHORT_OK;
}

void cohort_context_info_get(const struct cohort_context *c, struct cohort_context_info *info)
{
	if (!info)
		return;
	*info = (struct cohort_context_info){0};
	if (!c)
		return;
	struct cohort_model_info m;
	cohort_model_info_get(c->model, &m);
	*info = (struct cohort_context_info){
			.model = c->model,
			.n_vocab = m.n_vocab,
			.n_ctx = c->p.n_ctx,
			.n_batch = c->p.n_batch,
			.n_ubatch = c->p.n_ubatch,
			.n_seq_max = c->p.n_seq_max,
			.n_threads = c->p.n_threads,
			.n_blocks = model_is_recurrent(&c->model->model) ? 0 : c->p.n_blocks,
			.outputs = c->p.outputs,
			.output_all = context_output_all(c),
	};
}

void cohort_context_free(struct cohort_context *c)
{
	if (!c)
		return;
	forward_release(&c->forward);
	memory_release(&c->memory);
	batch_checked_release(&c->checked);
	cohort_scratch_release(&c->scratch);
	for (size_t g = 0; g < BE_GROUPS_MAX; g++) {
		mem_free(c->cells[g].blocks);
		mem_free(c->cells[g].held);
		mem_free(c->cells[g].stores);
	}
	mem_free(c->group_of);
	mem_free(c->arrays);
	mem_free(c);
}

/* ---- Room ---- */

void cohort_room_params_init(struct cohort_room_params *params)
{
	if (params)
		*params = (struct cohort_room_params){.struct_size = sizeof *params};
}

enum cohort_status cohort_room_needed(
		const struct cohort_room_params *params, struct cohort_room_info *out, struct cohort_err *err)
{
	struct cohort_model_info info;
	struct cohort_room_params p;
	const int64_t most = 1 << 30;

	cohort_room_params_init(&p);
	if (!params || !out)
		return err_set(err, COHORT_E_ARG, "%s is NULL", params ? "out" : "params");
	if (!params_take(&p, sizeof p, params))
		return err_set(err, COHORT_E_ARG, "room parameters were not initialised by cohort_room_params_init");
	if (err_range(err, "n_ctx", p.n_ctx, 0, most) || err_range(err, "n_blocks", p.n_blocks, 0, 1 << 26) ||
			err_range(err, "n_seq_max", p.n_seq_max, 0, most) ||
			err_range(err, "n_seqs", p.n_seqs, 0, most) ||
			err_range(err, "n_tokens", p.n_tokens, 0, most) ||
			err_range(err, "n_prompt", p.n_prompt, 0, p.n_tokens) ||
			err_range(err, "n_fork", p.n_fork, 0, most) || err_range(err, "n_more", p.n_more, 0, most))
		return COHORT_E_ARG;
	*out = blocks_room(BE_BLOCK, &p);
	cohort_model_info_get(p.model, &info);
	if (info.recurrent || info.encoder)
		*out = (struct cohort_room_info){.block_size = BE_BLOCK, .n_pos_max = info.n_ctx_train,
				.n_fit = p.n_seq_max ? (int32_t)p.n_seq_max : INT32_MAX, .n_ctx_needed = 1};
	else if (p.model && info.n_ctx_train < out->n_pos_max)
		out->n_pos_max = info.n_ctx_train;
	return COHORT_OK;
}

void cohort_usage_get(const struct cohort_context *c, struct cohort_usage *usage)
{
	struct kv_usage u;

	if (!usage)
		return;
	*usage = (struct cohort_usage){.block_size = BE_BLOCK};
	if (!c)
		return;
	memory_usage_get(&c->memory, &u);
	usage->n_blocks = (int32_t)u.n_blocks;
	usage->n_used = (int32_t)u.n_used;
	usage->n_shared = (int32_t)u.n_shared;
	usage->n_free = (int32_t)(u.n_blocks - u.n_used);
	usage->n_seqs = (int32_t)memory_n_live(&c->memory);
	usage->block_bytes = c->n_groups ? forward_block_bytes(&c->forward, 0) : 0;
	for (size_t g = 0; g < c->n_groups; g++)
		usage->used_bytes += places_usage(kv_places(c->memory.kv[g])).n_used *
				forward_block_bytes(&c->forward, g);
	if (c->memory.recur) {
		const size_t bytes = forward_cell_bytes(&c->forward, BE_STATES);
		usage->used_bytes += places_usage(recur_places(c->memory.recur)).n_used * bytes;
		usage->block_bytes = c->n_groups ? usage->block_bytes : bytes;
	}
}

void cohort_counters_get(const struct cohort_context *c, struct cohort_counters *counters)
{
	if (counters)
		*counters = c ? c->counters : (struct cohort_counters){0};
}
