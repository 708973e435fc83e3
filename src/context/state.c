/* cohort.h's saved state: sequences as bytes, and back.
 *
 * Invariants
 *  1. The size and the bytes come from the same walk (write_state), once without and once with a buffer, so they cannot
 *     disagree. Sums cannot wrap: all they count lies in memory already.
 *  2. Only cells that a saved sequence holds are written. What other sequences left in the same block never leaves the
 *     context.
 *  3. The same sequences give the same bytes, whatever blocks of the pool they lie in: image blocks are numbered in
 *     the order of the sequences' ids and positions.
 *  4. Restoring reads, checks and allocates everything, and asks every part of the memory whether it would take its
 *     image (kv_import, dry), before the first change. From there on only a device can fail: kv_import promises that
 *     what a dry call granted is granted again, and cells are plain copies. What a failing device was to get is
 *     forgotten.
 *
 * It refuses to know how cells are laid out (the backend does), what makes the books sound
 * (kv_import does) and what may be wrong with the bytes (state_read.c does). */
#include "context/state.h"

#include "base/file.h"
#include "base/mem.h"

#include <stdio.h>
#include <string.h>

/* ---- Checksum and fingerprint ---- */

uint64_t state_sum(const void *bytes, size_t n)
{
	return sum_bytes(0, bytes, n);
}

static uint64_t sum_float(uint64_t h, float v)
{
	uint32_t bits;
	memcpy(&bits, &v, sizeof bits);
	return sum_lane(h, bits);
}

/* A tensor by its name, its shape and the sum of its data. */
static uint64_t sum_tensor(uint64_t h, const struct gguf_tensor *t, uint64_t data)
{
	h = sum_bytes(h, t->name.s, t->name.n);
	h = sum_lane(h, t->type);
	h = sum_lane(h, t->n_dims);
	for (size_t i = 0; i < GGUF_DIMS; i++)
		h = sum_lane(h, t->ne[i]);
	return sum_lane(sum_lane(h, t->n_bytes), data);
}

static uint64_t sum_hparams(uint64_t h, const struct model_hparams *p)
{
	const uint32_t numbers[] = {p->n_vocab, p->n_embd, p->n_layer, p->n_head, p->n_head_kv, p->n_ff, p->n_ctx_train,
			p->head_k, p->head_v, p->n_rot, p->rope_halves, p->layer_norm, p->post_norm, p->encoder, p->act,
			p->n_expert, p->n_expert_used, p->n_ff_exp, p->n_ff_shared, p->gating, p->expert_norm,
			p->d_conv, p->d_inner, p->d_state, p->dt_rank, p->temp_period};
	const float floats[] = {p->norm_eps, p->attn_scale, p->embd_scale, p->residual_scale, p->logit_scale,
			p->attn_cap, p->logit_cap, p->alibi, p->expert_scale, p->attn_temp, p->qkv_clamp};

	for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
		h = sum_lane(h, numbers[i]);
	for (size_t i = 0; i < sizeof floats / sizeof *floats; i++)
		h = sum_float(h, floats[i]);
	return h;
}

/* The angles that a context of n_pos positions uses: keys turned by others are of no use to it. */
static uint64_t sum_rope(uint64_t h, const struct model_rope *r, size_t n_pos, size_t n)
{
	const double *freqs = model_rope_freqs(r, n_pos);
	return freqs ? sum_float(sum_bytes(h, freqs, n * sizeof *freqs), r->scale) : h;
}

/* Slices of a tensor follow each other, and their sums add up to its sum. */
static enum cohort_status sum_weights(const struct cohort_context *c, uint64_t *h, struct cohort_err *err)
{
	const struct model *m = &c->model->model;

	for (size_t i = 0; i < m->n_weights;) {
		const struct gguf_tensor *t = m->weights[i].tensor;
		uint64_t data = 0;
		for (; i < m->n_weights && m->weights[i].tensor == t; i++) {
			if (c->p.abort && c->p.abort(c->p.abort_user))
				return err_set(err, COHORT_ABORTED, "aborted by the caller");
			data += forward_weight_sum((struct forward *)&c->forward, &m->weights[i]);
		}
		*h = sum_tensor(*h, t, data);
	}
	return COHORT_OK;
}

enum cohort_status state_fingerprint(struct cohort_context *c, struct cohort_err *err)
{
	const struct cohort_model *m = c->model;
	uint64_t h = sum_bytes(0, m->arch, strlen(m->arch));

	if (c->has_fingerprint)
		return COHORT_OK;
	for (size_t i = 0; i < m->n_adapters; i++) {
		h = sum_float(sum_float(h, m->base[i].scale), m->adapters[i].alpha);
		for (size_t k = 0; k < m->adapters[i].gguf.n_tensors; k++) {
			const struct gguf_tensor *t = &m->adapters[i].gguf.tensors[k];
			h = sum_tensor(h, t, sum_large(0, t->data, (size_t)t->n_bytes));
		}
	}
	h = sum_hparams(h, &m->model.hp);
	for (size_t i = 0; i < m->model.hp.n_layer; i++) {
		const struct model_layer *l = &m->model.layers[i];
		h = sum_lane(sum_lane(sum_lane(h, l->window), (uint64_t)(l->rope + 1)), l->parallel);
	}
	for (size_t i = 0; i < MODEL_ROPES; i++)
		h = sum_rope(h, &m->model.rope[i], context_pos_span(c), m->model.hp.n_rot / 2);
	enum cohort_status st = sum_weights(c, &h, err);
	int64_t bad;
	if (!st)
		st = forward_wait(&c->forward, &bad, err);
	c->fingerprint = h;
	c->has_fingerprint = !st;
	return st;
}

/* ---- Saving ---- */

enum cohort_status state_no_memory(struct cohort_err *err)
{
	return err_set(err, COHORT_E_MEMORY, "out of memory for a saved state");
}

static enum cohort_status check_context(const struct cohort_context *c, cohort_seq seq, struct cohort_err *err)
{
	if (!c)
		return err_set(err, COHORT_E_ARG, "context is NULL");
	if (seq != COHORT_SEQ_ALL && (seq < 0 || seq >= c->p.n_seq_max))
		return err_rule(err, COHORT_E_ARG, "seq-id", -1, seq, c->p.n_seq_max, seq,
				"sequence %d is not one of 0 to %d, nor COHORT_SEQ_ALL", seq, c->p.n_seq_max - 1);
	for (cohort_seq s = 0; c->n_lora && s < c->p.n_seq_max; s++)
		if (c->lora[s].loras && (seq == s || seq == COHORT_SEQ_ALL))
			return err_rule(err, COHORT_E_UNSUPPORTED, "adapter", -1, s, 0, 1,
					"sequence %d has an adapter: it cannot be saved or restored", s);
	return COHORT_OK;
}

/* The blocks of one group, or the recurrent states, that are to be saved. */
struct remap {
	int32_t *number; /* [places of the pool]: of the image's place it is, or -1 */
	int32_t *place;  /* [n]: the pool's */
	uint32_t *held;  /* [n]: slots of a block that a saved sequence holds; 1 for a state */
	size_t n;
};

struct image {
	bool all;
	cohort_seq *seqs; /* rising */
	size_t n_seqs;
	struct remap parts[BE_GROUPS_MAX];
	struct remap states;
};

static bool remap_init(struct remap *m, size_t n)
{
	m->number = mem_alloc(n, sizeof *m->number);
	m->place = mem_alloc(n, sizeof *m->place);
	m->held = mem_zalloc(n, sizeof *m->held);
	if (!m->number || !m->place || !m->held)
		return false;
	memset(m->number, -1, n * sizeof *m->number);
	return true;
}

static void remap_release(struct remap *m)
{
	mem_free(m->number);
	mem_free(m->place);
	mem_free(m->held);
}

static void remap_add(struct remap *m, int32_t place, uint32_t held)
{
	if (m->number[place] < 0) {
		m->number[place] = (int32_t)m->n;
		m->place[m->n++] = place;
	}
	m->held[m->number[place]] |= held;
}

static void image_release(struct image *im)
{
	for (size_t g = 0; g < BE_GROUPS_MAX; g++)
		remap_release(&im->parts[g]);
	remap_release(&im->states);
	mem_free(im->seqs);
}

static void add_states(struct remap *m, const struct recur *r, cohort_seq seq)
{
	const struct recur_check *checks;
	const size_t n = recur_checks(r, seq, &checks);

	if (recur_pos_max(r, seq) < 0)
		return;
	remap_add(m, recur_state(r, seq), 1);
	for (size_t k = 0; k < n; k++)
		remap_add(m, checks[k].state, 1);
}

static void add_blocks(struct remap *m, const struct kv *kv, cohort_seq seq)
{
	const cohort_pos first = kv_pos_first(kv, seq), max = kv_pos_max(kv, seq);
	const size_t n = n_entries(first, max), at = n ? (size_t)first / BE_BLOCK : 0;

	for (size_t i = at; i < at + n; i++)
		if (kv_held(kv, seq)[i])
			remap_add(m, kv_table(kv, seq)[i], kv_held(kv, seq)[i]);
}

static bool image_init(struct image *im, const struct cohort_context *c, cohort_seq seq)
{
	*im = (struct image){.all = seq == COHORT_SEQ_ALL};
	im->seqs = mem_alloc(im->all ? (size_t)c->p.n_seq_max : 1, sizeof *im->seqs);
	if (!im->seqs)
		return false;
	if (!im->all)
		im->seqs[im->n_seqs++] = seq;
	for (cohort_seq s = 0; im->all && s < c->p.n_seq_max; s++)
		if (memory_pos_max(&c->memory, s) >= 0)
			im->seqs[im->n_seqs++] = s;
	for (size_t g = 0; g < c->n_groups; g++) {
		if (!remap_init(&im->parts[g], kv_places(c->memory.kv[g])->n))
			return false;
		for (size_t i = 0; i < im->n_seqs; i++)
			add_blocks(&im->parts[g], c->memory.kv[g], im->seqs[i]);
	}
	if (c->memory.recur && !remap_init(&im->states, recur_places(c->memory.recur)->n))
		return false;
	for (size_t i = 0; c->memory.recur && i < im->n_seqs; i++)
		add_states(&im->states, c->memory.recur, im->seqs[i]);
	return true;
}

struct writer {
	uint8_t *out; /* NULL: bytes are only counted */
	size_t at;
};

static void put(struct writer *w, const void *bytes, size_t n)
{
	if (w->out)
		memcpy(w->out + w->at, bytes, n);
	w->at += n;
}

static void put_number(struct writer *w, uint64_t v, size_t n)
{
	uint8_t bytes[8];
	for (size_t i = 0; i < 8; i++)
		bytes[i] = (uint8_t)(v >> 8 * i);
	put(w, bytes, n);
}

static void put_u32(struct writer *w, uint32_t v)
{
	put_number(w, v, 4);
}

static void put_u64(struct writer *w, uint64_t v)
{
	put_number(w, v, 8);
}

static void write_head(struct writer *w, const struct cohort_context *c, const struct image *im, uint64_t n_bytes)
{
	put(w, STATE_MAGIC, 8);
	put_u32(w, STATE_VERSION);
	put_u32(w, (im->all ? STATE_ALL : 0) | (c->memory.recur ? STATE_RECUR : 0));
	put_u64(w, n_bytes);
	put_u64(w, c->fingerprint);
	put_u32(w, (uint32_t)c->p.kv_type);
	put_u32(w, (uint32_t)BE_BLOCK);
	put_u32(w, (uint32_t)c->n_groups);
	put_u32(w, (uint32_t)im->n_seqs);
	for (size_t g = 0; g < c->n_groups; g++) {
		put_u32(w, (uint32_t)window_of(c, g));
		put_u32(w, (uint32_t)im->parts[g].n);
		put_u64(w, cell_bytes(c, g));
	}
	for (size_t i = 0; i < im->n_seqs; i++) {
		put_u32(w, (uint32_t)im->seqs[i]);
		put_u32(w, (uint32_t)memory_pos_max(&c->memory, im->seqs[i]));
		for (size_t g = 0; g < c->n_groups; g++) {
			put_u32(w, (uint32_t)kv_pos_min(c->memory.kv[g], im->seqs[i]));
			put_u32(w, (uint32_t)kv_pos_first(c->memory.kv[g], im->seqs[i]));
			put_u32(w, (uint32_t)kv_pos_gone(c->memory.kv[g], im->seqs[i]));
		}
	}
}

static void write_table(struct writer *w, const struct kv *kv, const struct remap *part, cohort_seq seq)
{
	const cohort_pos first = kv_pos_first(kv, seq), max = kv_pos_max(kv, seq);
	const size_t n = n_entries(first, max), at = n ? (size_t)first / BE_BLOCK : 0;

	for (size_t i = at; i < at + n; i++) {
		const uint32_t held = kv_held(kv, seq)[i];
		put_u32(w, held ? (uint32_t)part->number[kv_table(kv, seq)[i]] : UINT32_MAX);
		put_u32(w, held);
	}
}

/* The held slots of blocks from *i on as spans, as many as fit; returns how many, and counts their cells. */
enum { SPANS = 64 };
static size_t next_spans(const int32_t *blocks, const uint32_t *held, size_t n_blocks, size_t *i,
		struct be_span out[SPANS], size_t *n_cells)
{
	size_t n = 0;

	*n_cells = 0;
	for (; *i < n_blocks && n + BE_BLOCK / 2 <= SPANS; ++*i)
		for (int32_t slot = 0; slot < BE_BLOCK;) {
			int32_t end = slot;
			while (end < BE_BLOCK && held[*i] >> end & 1)
				end++;
			if (end > slot)
				out[n++] = (struct be_span){blocks[*i], slot, end - slot};
			*n_cells += (size_t)(end - slot);
			slot = end + 1;
		}
	return n;
}

static void write_cells(struct writer *w, struct cohort_context *c, size_t group, const struct remap *part)
{
	struct be_span spans[SPANS];
	size_t n_cells;

	for (size_t i = 0; i < part->n;) {
		const size_t n = next_spans(part->place, part->held, part->n, &i, spans, &n_cells);
		if (w->out)
			forward_cells_pass(&c->forward, group, spans, n, w->out + w->at, false);
		w->at += n_cells * cell_bytes(c, group);
	}
}

static void write_states(struct writer *w, struct cohort_context *c, const struct image *im)
{
	const struct recur *r = c->memory.recur;
	const struct remap *s = &im->states;

	put_u32(w, (uint32_t)s->n);
	put_u64(w, state_bytes(c));
	for (size_t i = 0; i < im->n_seqs; i++) {
		const struct recur_check *checks;
		const int32_t state = recur_state(r, im->seqs[i]);
		const size_t n = recur_checks(r, im->seqs[i], &checks);
		put_u32(w, (uint32_t)recur_pos_min(r, im->seqs[i]));
		put_u32(w, state < 0 ? UINT32_MAX : (uint32_t)s->number[state]);
		put_u32(w, (uint32_t)n);
		for (size_t k = 0; k < n; k++) {
			put_u32(w, (uint32_t)checks[k].pos);
			put_u32(w, (uint32_t)s->number[checks[k].state]);
		}
	}
	write_cells(w, c, BE_STATES, s);
}

/* Everything but the checksum. n_bytes is the size of the whole state, once it is known. */
static void write_state(struct writer *w, struct cohort_context *c, const struct image *im, uint64_t n_bytes)
{
	write_head(w, c, im, n_bytes);
	for (size_t g = 0; g < c->n_groups; g++) {
		const struct remap *part = &im->parts[g];
		for (size_t i = 0; i < im->n_seqs; i++)
			write_table(w, c->memory.kv[g], part, im->seqs[i]);
		for (size_t i = 0; i < part->n; i++)
			put_u32(w, part->held[i]);
		write_cells(w, c, g, part);
	}
	if (c->memory.recur)
		write_states(w, c, im);
}

static size_t image_bytes(struct cohort_context *c, const struct image *im)
{
	struct writer w = {0};
	write_state(&w, c, im, 0);
	return w.at + SUM_BYTES;
}

/* out: image_bytes */
static enum cohort_status image_write(
		struct cohort_context *c, const struct image *im, size_t n_bytes, uint8_t *out, struct cohort_err *err)
{
	struct writer w = {.out = out};
	int64_t bad;

	write_state(&w, c, im, n_bytes);
	put_u64(&w, state_sum(out, w.at));
	return forward_wait(&c->forward, &bad, err);
}

size_t cohort_state_size(struct cohort_context *c, cohort_seq seq)
{
	struct image im;
	size_t n = 0;

	if (check_context(c, seq, NULL))
		return 0;
	if (image_init(&im, c, seq))
		n = image_bytes(c, &im);
	image_release(&im);
	return n;
}

enum cohort_status cohort_state_save(struct cohort_context *c, cohort_seq seq, void *out, size_t n_max, size_t *n_out,
		struct cohort_err *err)
{
	struct image im;
	enum cohort_status st = check_context(c, seq, err);

	if (st)
		return st;
	if (!n_out || (!out && n_max > 0))
		return err_set(err, COHORT_E_ARG, "%s is NULL", n_out ? "out" : "n_out");
	st = state_fingerprint(c, err);
	if (st)
		return st;
	if (!image_init(&im, c, seq)) {
		st = state_no_memory(err);
		goto out;
	}
	*n_out = image_bytes(c, &im);
	if (*n_out > n_max)
		st = err_set(err, COHORT_E_LIMIT, "the state takes %zu bytes, and there is room for %zu", *n_out,
				n_max);
	else
		st = image_write(c, &im, *n_out, out, err);
out:
	image_release(&im);
	return st;
}

enum cohort_status cohort_state_save_file(
		struct cohort_context *c, cohort_seq seq, const char *path, struct cohort_err *err)
{
	struct image im;
	uint8_t *bytes = NULL;
	enum cohort_status st = check_context(c, seq, err);

	if (st)
		return st;
	if (!path)
		return err_set(err, COHORT_E_ARG, "path is NULL");
	st = state_fingerprint(c, err);
	if (st)
		return st;
	if (image_init(&im, c, seq)) {
		const size_t n = image_bytes(c, &im);
		bytes = mem_alloc(n, 1);
		if (bytes) {
			st = image_write(c, &im, n, bytes, err);
			if (!st)
				st = file_write_atomic(path, bytes, n, err);
		}
	}
	if (!bytes)
		st = state_no_memory(err);
	image_release(&im);
	mem_free(bytes);
	return st;
}

/* ---- Restoring ---- */

/* The memory does not know where in the bytes its image lies. */
static enum cohort_status say_where(enum cohort_status st, const char *part, size_t at, struct cohort_err *err)
{
	if (st == COHORT_E_FORMAT && err && err->offset < 0) {
		const struct cohort_err why = *err;
		err_at(err, st, at, "%s%s", part, why.text);
	}
	return st;
}

static enum cohort_status import_part(
		struct cohort_context *c, const struct saved *s, size_t group, bool dry, struct cohort_err *err)
{
	const struct saved_part *part = &s->parts[group];
	const struct kv_image image = {
		.seqs = part->seqs,
		.n_seqs = s->n_seqs,
		.n_blocks = part->n_blocks,
		.all = s->all,
	};
	char name[48];

	snprintf(name, sizeof name, "group %zu of the state: ", group);
	return say_where(kv_import(c->memory.kv[group], &image, dry, part->ids, err), name, part->at, err);
}

static void write_back(struct cohort_context *c, const struct saved *s, size_t group)
{
	const struct saved_part *part = &s->parts[group];
	const uint8_t *cell = part->cells;
	struct be_span spans[SPANS];
	size_t n_cells;

	for (size_t i = 0; i < part->n_blocks; cell += n_cells * cell_bytes(c, group)) {
		const size_t n = next_spans(part->ids, part->cells_held, part->n_blocks, &i, spans, &n_cells);
		forward_cells_pass(&c->forward, group, spans, n, (void *)cell, true);
	}
}

static enum cohort_status import_states(
		struct cohort_context *c, const struct saved *s, bool dry, struct cohort_err *err)
{
	const struct recur_image image = {
		.seqs = s->states.seqs,
		.n_seqs = s->n_seqs,
		.n_states = s->states.n_states,
		.all = s->all,
	};
	if (!c->memory.recur)
		return COHORT_OK;
	return say_where(recur_import(c->memory.recur, &image, dry, s->states.ids, err), "", s->states.at, err);
}

/* The books have changed already: where a device failed, cells may be anything. */
static void forget(struct cohort_context *c, const struct saved *s)
{
	for (size_t i = 0; i < s->n_seqs; i++)
		memory_seq_rm(&c->memory, c->n_groups ? s->parts[0].seqs[i].seq : s->states.seqs[i].seq, 0, -1, NULL);
}

static enum cohort_status replace(struct cohort_context *c, const struct saved *s, struct cohort_err *err)
{
	enum cohort_status st = COHORT_OK;
	int64_t bad;

	for (size_t g = 0; g < c->n_groups && !st; g++)
		st = import_part(c, s, g, true, err);
	if (!st)
		st = import_states(c, s, true, err);
	if (st)
		return st;
	for (size_t g = 0; g < c->n_groups && !st; g++)
		st = import_part(c, s, g, false, err);
	if (!st)
		st = import_states(c, s, false, err);
	if (st)
		return err_set(err, COHORT_E_BUG, "the memory refused what it had granted");
	for (size_t g = 0; g < c->n_groups; g++)
		write_back(c, s, g);
	for (size_t i = 0; i < s->states.n_states; i++)
		forward_cells_pass(&c->forward, BE_STATES, &(struct be_span){s->states.ids[i], 0, 1}, 1,
				(void *)(s->states.bytes + i * state_bytes(c)), true);
	st = forward_wait(&c->forward, &bad, err);
	if (st)
		forget(c, s);
	return st;
}

static enum cohort_status restore(
		struct cohort_context *c, cohort_seq seq, const uint8_t *bytes, size_t n_bytes, struct cohort_err *err)
{
	struct saved s;
	enum cohort_status st = state_read(c, seq, bytes, n_bytes, &s, err);

	if (!st)
		st = replace(c, &s, err);
	state_saved_release(&s);
	return st;
}

enum cohort_status cohort_state_restore(struct cohort_context *c, cohort_seq seq, const void *bytes, size_t n_bytes,
		struct cohort_err *err)
{
	enum cohort_status st = check_context(c, seq, err);

	if (st)
		return st;
	if (!bytes)
		return err_set(err, COHORT_E_ARG, "bytes is NULL");
	return restore(c, seq, bytes, n_bytes, err);
}

/* The beginning first, so that a large file that is something else is not read at all, and one byte more than the
 * beginning announces, so that a file that is too long is noticed. */
static enum cohort_status load(const char *path, uint8_t **bytes, size_t *n_bytes, struct cohort_err *err)
{
	uint8_t *head;
	enum cohort_status st = file_load(path, HEAD_BYTES + SUM_BYTES, &head, n_bytes, err);

	if (st)
		return st;
	st = state_check_start(head, *n_bytes, err);
	if (st) {
		err_prefix(err, "%s", path);
	} else {
		const uint64_t n = load_u64(head + AT_BYTES);
		st = file_load(path, n < SIZE_MAX ? (size_t)n + 1 : SIZE_MAX, bytes, n_bytes, err);
	}
	mem_free(head);
	return st;
}

enum cohort_status cohort_state_restore_file(
		struct cohort_context *c, cohort_seq seq, const char *path, struct cohort_err *err)
{
	uint8_t *bytes = NULL;
	size_t n_bytes;
	enum cohort_status st = check_context(c, seq, err);

	if (st)
		return st;
	if (!path)
		return err_set(err, COHORT_E_ARG, "path is NULL");
	st = load(path, &bytes, &n_bytes, err);
	if (st)
		return st;
	st = restore(c, seq, bytes, n_bytes, err);
	if (st)
		err_prefix(err, "%s", path);
	mem_free(bytes);
	return st;
}
