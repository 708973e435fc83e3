/* A second backend, in plain C: the interface's documentation by example, and the template for others. It is written
 * against src/backend/backend.h alone. The arithmetic is that of docs/numerics.md, by the reference kernels
 * (src/kern/kern_ref.c), on one thread. plain_rows.c has the operations on rows, this file all else.
 *
 * It takes every liberty that the interface gives, so that a caller who relies on more gives other bits here:
 *  1. Operations are queued and run only by the calls that wait. Descriptors are copied when an operation is queued;
 *     rows, states and bytes to write are read when it runs.
 *  2. Buffers are device memory. `outputs` gives a copy, which becomes NaN as soon as an operation that writes the
 *     buffer is queued.
 *  3. Weights are copied when they are opened, products with their rows in reverse, and the file's pages given back.
 *  4. The cache has a layout of its own: [slot][block], each cell in the bytes of `cells_read`. States lie layer by
 *     layer.
 *  5. A failed operation leaves NaN wherever it was to write.
 * The sections have the order of the interface. */
#include "plain_impl.h"

#include "base/sum.h"

/* ---- Devices and levels ---- */

static size_t plain_device_count(void)
{
	return 2;
}

static const char *plain_device_name(size_t i)
{
	static const char *const names[] = {"plain0", "plain1"};
	return names[i];
}

static void plain_device_get(size_t i, struct be_device *out)
{
	(void)i;
	*out = (struct be_device){.description = "plain C, for tests"};
}

static size_t plain_level_count(void)
{
	return 1;
}

static const char *plain_level_name(size_t level)
{
	return level == 0 ? "ref" : NULL;
}

static bool plain_level_usable(size_t level)
{
	return level == 0;
}

static const char *plain_level_failed(size_t level)
{
	(void)level;
	return NULL;
}

static size_t plain_level_best(void)
{
	return 0;
}

/* ---- Failures on request ---- */

static struct {
	size_t fail_in; /* operations until one fails; 0: none does */
	enum cohort_status status;
	bool lost;
	size_t n_run;
} faults;

void plain_fail_at(size_t n, enum cohort_status status)
{
	faults.fail_in = n;
	faults.status = status;
}

bool plain_fail_is_due(void)
{
	return faults.fail_in > 0;
}

size_t plain_ops_run(void)
{
	return faults.n_run;
}

void plain_lose(void)
{
	faults.lost = true;
}

void plain_find(void)
{
	faults.lost = false;
}

/* What the next operation fails with. */
static enum cohort_status next_failure(void)
{
	return faults.fail_in && --faults.fail_in == 0 ? faults.status : COHORT_OK;
}

/* ---- Weights ---- */

static void plain_weights_free(struct be_weights *weights)
{
	struct plain_weights *w = (struct plain_weights *)weights;

	if (!w)
		return;
	for (size_t i = 0; w->w && i < w->source.n; i++)
		mem_free_aligned(w->w[i].rows);
	mem_free(w->w);
	mem_free(w);
}

/* Copies a weight, and gives the file's pages back. Rows that are looked up are needed whatever the share, and others
 * may read them from the file as well. */
static bool upload_weight(struct plain_weights *w, size_t i, const struct be_weights_params *params)
{
	const struct model_weight *mw = &w->source.weights[i];
	struct plain_weight *pw = &w->w[i];
	const struct be_range all = {0, mw->n_rows};

	pw->share = mw->product ? be_share(mw->n_rows, params->rank, params->of) : all;
	pw->held = mw->lookup ? all : pw->share;
	pw->rows = mem_zalloc_aligned(pw->held.to - pw->held.from, mw->row_bytes);
	if (!pw->rows)
		return false;
	for (size_t r = pw->held.from; r < pw->held.to; r++)
		memcpy(row_at(pw, mw, r), (const uint8_t *)mw->data + r * mw->row_bytes, mw->row_bytes);
	w->base.packed_bytes += (pw->held.to - pw->held.from) * mw->row_bytes;
	w->source.give_back(w->source.user, mw, pw->held.from, pw->held.to, mw->lookup);
	return true;
}

static enum cohort_status plain_weights_open(struct be_weights **out, const struct be_source *source,
		const struct be_weights_params *params, struct cohort_err *err)
{
	enum cohort_status st = COHORT_OK;

	if (faults.lost)
		return err_set(err, COHORT_E_DEVICE, "%s is lost", plain_device_name(params->device));
	struct plain_weights *w = mem_zalloc(1, sizeof *w);
	if (!w || !(w->w = mem_zalloc(source->n, sizeof *w->w))) {
		mem_free(w);
		return err_set(err, COHORT_E_MEMORY, "out of memory");
	}
	w->base.ops = &be_plain;
	w->source = *source;
	for (size_t i = 0; i < source->n && !st; i++) {
		if ((!source->wanted || source->wanted[i]) && !upload_weight(w, i, params))
			st = err_set(err, COHORT_E_MEMORY, "out of memory for weights");
		else if (params->progress &&
				!params->progress((float)(i + 1) / (float)source->n, params->progress_user))
			st = err_set(err, COHORT_ABORTED, "loading aborted by the caller");
	}
	if (st)
		plain_weights_free(&w->base);
	else
		*out = &w->base;
	return st;
}

/* Device memory stays where it is. */
static enum cohort_status plain_weights_lock(struct be_weights *w, bool (*progress)(float, void *), void *user,
		struct be_lock *out, struct cohort_err *err)
{
	(void)w;
	*out = (struct be_lock){0};
	return progress && !progress(1.0f, user) ? err_set(err, COHORT_ABORTED, "loading aborted by the caller")
						 : COHORT_OK;
}

static double plain_repack(struct be *be, double seconds)
{
	(void)be;
	(void)seconds;
	return 1;
}

/* ---- An instance ---- */

static void lora_release(const struct plain *p, struct plain_lora *l)
{
	for (size_t i = 0; l->a && l->b && i < p->w->source.n; i++) {
		mem_free(l->a[i]);
		mem_free(l->b[i]);
	}
	mem_free(l->a);
	mem_free(l->b);
	*l = (struct plain_lora){0};
}

static void plain_free(struct be *be)
{
	struct plain *p = (struct plain *)be;

	if (!p)
		return;
	struct room *rooms[] = {&p->act, &p->file_rows, &p->areas, &p->acc, &p->row, &p->narrow, &p->wide, &p->route};
	for (size_t i = 0; i < sizeof rooms / sizeof *rooms; i++)
		mem_free_aligned(rooms[i]->p);
	for (size_t i = 0; i < p->n_queued; i++)
		mem_free((void *)p->queue[i].array);
	for (size_t i = 0; i < p->n_loras; i++)
		lora_release(p, &p->loras[i]);
	for (size_t i = 0; i < p->n_groups; i++)
		mem_free_aligned(p->groups[i].cells);
	for (size_t i = 0; p->states && i < p->n_state_layers; i++)
		mem_free_aligned(p->states[i]);
	mem_free(p->loras);
	mem_free(p->queue);
	mem_free(p->layers);
	mem_free(p->states);
	mem_free(p->state_floats);
	mem_free(p);
}

static uint8_t *copy_matrix(const struct model_weight *w)
{
	return mem_dup(w->data, w->n_rows * w->row_bytes);
}

/* An adapter that is there already may be another one at the same address: it is copied anew. */
static bool plain_lora_reserve(struct be *be, const struct model_loras *loras)
{
	struct plain *p = (struct plain *)be;
	const size_t n = p->w->source.n;
	struct plain_lora fresh = {loras, mem_zalloc(n, sizeof *fresh.a), mem_zalloc(n, sizeof *fresh.b)};
	size_t i = 0;
	bool ok = fresh.a && fresh.b && mem_grow((void **)&p->loras, &p->n_loras_max, p->n_loras + 1, sizeof *p->loras);

	for (size_t k = 0; ok && k < n; k++)
		if (loras->of[k].a && p->w->w[k].rows)
			ok = (fresh.a[k] = copy_matrix(loras->of[k].a)) && (fresh.b[k] = copy_matrix(&loras->of[k].b));
	if (!ok) {
		lora_release(p, &fresh);
		return false;
	}
	while (i < p->n_loras && p->loras[i].of != loras)
		i++;
	if (i < p->n_loras)
		lora_release(p, &p->loras[i]);
	else
		p->n_loras++;
	p->loras[i] = fresh;
	return true;
}

/* Fresh memory, filled with POISON: a read before the first write shows in the results. */
static void *poisoned(size_t a, size_t b, size_t c)
{
	size_t n;
	void *out = size_mul(a, b, &n) && size_mul(n, c, &n) ? mem_zalloc_aligned(n, 1) : NULL;

	if (out)
		memset(out, POISON, n);
	return out;
}

static bool open_cache(struct plain *p, const struct be_limits *lim)
{
	static const enum kern_kv types[] = {
			[COHORT_KV_F16] = KERN_KV_F16,
			[COHORT_KV_F32] = KERN_KV_F32,
			[COHORT_KV_Q8_0] = KERN_KV_Q8_0,
	};

	p->kv_type = types[lim->kv_type];
	p->n_layers = lim->n_layers;
	p->layers = mem_zalloc(lim->n_layers, sizeof *p->layers);
	if (!p->layers)
		return false;
	for (size_t i = 0; i < lim->n_layers; i++) {
		struct plain_layer *l = &p->layers[i];
		struct plain_group *g = &p->groups[lim->layers[i].group];
		l->shape = lim->layers[i];
		l->at = g->cell_bytes;
		l->k_bytes = kern_cell_bytes(p->kv_type, l->shape.head_k);
		l->v_bytes = kern_cell_bytes(p->kv_type, l->shape.head_v);
		g->cell_bytes += l->shape.n_kv * (l->k_bytes + l->v_bytes);
	}
	for (; p->n_groups < lim->n_groups; p->n_groups++) {
		struct plain_group *g = &p->groups[p->n_groups];
		g->n_blocks = lim->n_blocks[p->n_groups];
		g->window = lim->window[p->n_groups];
		g->cells = poisoned(BE_BLOCK, g->n_blocks, g->cell_bytes);
		if (!g->cells)
			return false;
	}
	return true;
}

static bool open_states(struct plain *p, const struct be_limits *lim)
{
	p->states = mem_zalloc(lim->n_state_layers, sizeof *p->states);
	p->state_floats = mem_zalloc(lim->n_state_layers, sizeof *p->state_floats);
	if (!p->states || !p->state_floats)
		return false;
	for (; p->n_state_layers < lim->n_state_layers; p->n_state_layers++) {
		const size_t i = p->n_state_layers;
		p->state_floats[i] = lim->state_floats[i];
		p->states[i] = poisoned(lim->n_states, lim->state_floats[i], sizeof(float));
		if (!p->states[i])
			return false;
	}
	return true;
}

static struct be *plain_open(struct be_weights *weights, const struct be_limits *lim)
{
	struct plain *p = mem_zalloc(1, sizeof *p);

	if (!p)
		return NULL;
	p->base.ops = &be_plain;
	p->w = (struct plain_weights *)weights;
	p->kern = kern_get(0);
	p->bad = -1;
	p->ropes = lim->ropes;
	p->base_loras = lim->base;
	p->n_base_loras = lim->n_base;
	bool ok = open_cache(p, lim) && open_states(p, lim);
	for (size_t i = 0; ok && i < lim->n_base; i++)
		ok = plain_lora_reserve(&p->base, lim->base[i].loras);
	if (ok)
		return &p->base;
	plain_free(&p->base);
	return NULL;
}

static void plain_buf_free(struct be_buf *buf)
{
	struct plain_buf *b = (struct plain_buf *)buf;

	if (b) {
		mem_free_aligned(b->device);
		mem_free_aligned(b->host);
		mem_free(b);
	}
}

static struct be_buf *plain_buf_open(struct be *be, size_t n_rows, size_t n_cols)
{
	struct plain_buf *b = mem_zalloc(1, sizeof *b);

	if (!b || !(b->device = poisoned(n_rows, n_cols, sizeof(float)))) {
		plain_buf_free(&b->base);
		return NULL;
	}
	b->base = (struct be_buf){be, n_rows, n_cols};
	return &b->base;
}

/* ---- The queue ---- */

/* All of a buffer is NaN. */
static void spoil(const struct be_buf *b, float *rows)
{
	if (rows)
		memset(rows, POISON, b->n_rows * b->n_cols * sizeof *rows);
}

static void spoil_out(const struct op *op)
{
	for (size_t i = 0; i < OP_OUT; i++)
		if (op->out[i])
			spoil(op->out[i], row_of(op->out[i], 0));
}

/* A failing operation runs as well, on NaN, so that what it stores elsewhere is spoiled, too. */
static enum cohort_status run_one(struct plain *p, const struct op *op)
{
	faults.n_run++;
	if (!op->fails)
		return op->run(p, op);
	p->spoil = true;
	spoil_out(op);
	op->run(p, op);
	spoil_out(op);
	p->spoil = false;
	return op->fails;
}

static void fail(struct plain *p, enum cohort_status st)
{
	p->failed = p->failed ? p->failed : st;
}

/* Runs all that is queued. Returns whether nothing has failed since the last wait. */
static bool run_queue(struct plain *p)
{
	for (size_t i = 0; i < p->n_queued; i++) {
		fail(p, faults.lost ? COHORT_E_DEVICE : COHORT_OK);
		if (!p->failed)
			p->failed = run_one(p, &p->queue[i]);
		mem_free((void *)p->queue[i].array);
	}
	p->n_queued = 0;
	fail(p, faults.lost ? COHORT_E_DEVICE : COHORT_OK);
	return !p->failed;
}

/* What the host has of the buffers that an operation writes is of no more use once it is queued. */
void plain_add(struct be *be, const struct op *op)
{
	struct plain *p = (struct plain *)be;
	void *array = op->array_bytes ? mem_dup(op->array, op->array_bytes) : NULL;

	for (size_t i = 0; i < OP_OUT; i++) {
		struct plain_buf *b = (struct plain_buf *)op->out[i];
		if (b) {
			spoil(&b->base, b->host);
			b->n_host_rows = 0;
		}
	}
	if ((!op->array_bytes || array) &&
			mem_grow((void **)&p->queue, &p->n_queue_max, p->n_queued + 1, sizeof *p->queue)) {
		struct op *last = &p->queue[p->n_queued++];
		*last = *op;
		last->array = array;
		last->fails = next_failure();
		return;
	}
	mem_free(array);
	run_queue(p);
	fail(p, COHORT_E_MEMORY);
}

/* A transfer to the host, which waits: whether it may go on. */
static bool transfer(struct plain *p)
{
	const enum cohort_status st = next_failure();

	if (run_queue(p)) {
		faults.n_run++;
		fail(p, st);
	}
	return !p->failed;
}

/* ---- Waiting ---- */

static enum cohort_status plain_wait(struct be *be, int64_t *bad, struct cohort_err *err)
{
	struct plain *p = (struct plain *)be;

	run_queue(p);
	const enum cohort_status st = p->failed;
	*bad = p->bad;
	p->bad = -1;
	p->failed = COHORT_OK;
	return st ? err_set(err, st, "the device failed") : COHORT_OK;
}

static const float *plain_outputs(struct be_buf *buf, size_t n)
{
	struct plain_buf *b = (struct plain_buf *)buf;
	struct plain *p = (struct plain *)buf->be;

	if (n <= b->n_host_rows && !p->n_queued && !p->failed)
		return b->host;
	if (!transfer(p))
		return NULL;
	if (!b->host && !(b->host = poisoned(buf->n_rows, buf->n_cols, sizeof *b->host))) {
		fail(p, COHORT_E_MEMORY);
		return NULL;
	}
	memcpy(b->host, b->device, n * buf->n_cols * sizeof *b->host);
	b->n_host_rows = n;
	return b->host;
}

/* The sum is of all rows, as the file has them: those outside the share are still there. */
static uint64_t plain_weight_sum(struct be *be, const struct model_weight *w)
{
	struct plain *p = (struct plain *)be;
	const struct plain_weight *pw = &p->w->w[w->index];
	uint64_t sum = 0;

	if (!transfer(p))
		return 0;
	for (size_t r = 0; r < w->n_rows; r++) {
		const bool held = r >= pw->held.from && r < pw->held.to;
		const uint8_t *row = held ? row_at(pw, w, r) : (const uint8_t *)w->data + r * w->row_bytes;
		sum += sum_large(w->offset + (uint64_t)r * w->row_bytes, row, w->row_bytes);
	}
	return sum;
}

static enum cohort_status run_upload(struct plain *p, const struct op *op)
{
	(void)p;
	memcpy(row_of(op->out[0], 0), op->bytes, op->n * op->out[0]->n_cols * sizeof(float));
	return COHORT_OK;
}

static void plain_upload(struct be_buf *b, const float *rows, size_t n)
{
	plain_add(b->be, &(struct op){.run = run_upload, .out = {b}, .bytes = rows, .n = n});
}

/* ---- Rows: announcing them ---- */

static enum cohort_status run_begin(struct plain *p, const struct op *op)
{
	p->rows = op->d.rows;
	p->narrowed = NULL;
	return COHORT_OK;
}

static void plain_begin(struct be *be, const struct be_rows *rows)
{
	plain_add(be, &(struct op){.run = run_begin, .d.rows = *rows});
}

static enum cohort_status run_narrow(struct plain *p, const struct op *op)
{
	p->narrowed = op->rows;
	return COHORT_OK;
}

static void plain_narrow(struct be *be, const int32_t *rows, size_t n)
{
	(void)n;
	plain_add(be, &(struct op){.run = run_narrow, .rows = rows});
}

/* ---- Cells ---- */

static size_t plain_cell_bytes(const struct be *be, size_t group)
{
	return ((const struct plain *)be)->groups[group].cell_bytes;
}

static size_t plain_block_bytes(const struct be *be, size_t group)
{
	return BE_BLOCK * plain_cell_bytes(be, group);
}

static void plain_touch(struct be *be)
{
	(void)be;
}

static enum cohort_status run_blocks_copy(struct plain *p, const struct op *op)
{
	const struct be_copy *copies = op->array;

	for (size_t i = 0; i < op->n; i++)
		for (int32_t slot = 0; slot < BE_BLOCK; slot++)
			put_bytes(p, cell_at(p, op->group, copies[i].to, slot),
					cell_at(p, op->group, copies[i].from, slot), p->groups[op->group].cell_bytes);
	return COHORT_OK;
}

static void plain_blocks_copy(struct be *be, size_t group, const struct be_copy *copies, size_t n)
{
	const struct op op = {.run = run_blocks_copy,
			.group = group,
			.array = copies,
			.array_bytes = n * sizeof *copies,
			.n = n};
	plain_add(be, &op);
}

/* Keys are read as attention sees them, rotated and rounded again; those that no table rotates keep their bytes. */
static bool shift_keys(struct plain *p, const struct plain_layer *l, cohort_pos shift, uint8_t *cell)
{
	const struct be_rope *rope = l->shape.rope < 0 ? NULL : &p->ropes[l->shape.rope];
	const size_t head = l->shape.head_k;
	uint8_t *area, *area_v;
	float *k = room_get(&p->wide, head * sizeof *k);

	if (!k || !plain_get_areas(p, &l->shape, &area, &area_v))
		return false;
	for (size_t h = 0; rope && h < l->shape.n_kv; h++) {
		kern_k_cell_write(p->kv_type, head, area, 0, cell + head_at(l, h));
		p->kern->get_k[p->kv_type](area, head, 0, k);
		if (!plain_rotate(p, rope, shift, 1.0f, k))
			return false;
		p->kern->put_k[p->kv_type](k, head, 0, area);
		kern_k_cell_read(p->kv_type, head, area, 0, cell + head_at(l, h));
	}
	return true;
}

static enum cohort_status run_cells_move(struct plain *p, const struct op *op)
{
	const struct be_move *moves = op->array;

	for (const struct be_move *m = moves; m < moves + op->n; m++)
		for (int32_t i = 0; i < m->n; i++) {
			uint8_t *to = cell_at(p, op->group, m->to, m->to_slot + i);
			put_bytes(p, to, cell_at(p, op->group, m->from, m->from_slot + i),
					p->groups[op->group].cell_bytes);
			for (struct plain_layer *l = p->layers; m->shift && l < p->layers + p->n_layers; l++)
				if (l->shape.group == op->group && !shift_keys(p, l, m->shift, to))
					return COHORT_E_MEMORY;
		}
	return COHORT_OK;
}

static void plain_cells_move(struct be *be, size_t group, const struct be_move *moves, size_t n)
{
	const struct op op = {.run = run_cells_move,
			.group = group,
			.array = moves,
			.array_bytes = n * sizeof *moves,
			.n = n};
	plain_add(be, &op);
}

static void plain_cells_read(struct be *be, size_t group, const struct be_span *spans, size_t n, void *out,
		size_t out_step)
{
	struct plain *p = (struct plain *)be;
	uint8_t *cell = out;

	if (!transfer(p))
		return;
	for (size_t i = 0; i < n; i++)
		for (int32_t k = 0; k < spans[i].n; k++, cell += out_step)
			memcpy(cell, cell_at(p, group, spans[i].block, spans[i].slot + k),
					p->groups[group].cell_bytes);
}

static enum cohort_status run_cells_write(struct plain *p, const struct op *op)
{
	const struct be_span *spans = op->array;
	const uint8_t *cell = op->bytes;

	for (size_t i = 0; i < op->n; i++)
		for (int32_t k = 0; k < spans[i].n; k++, cell += op->step)
			put_bytes(p, cell_at(p, op->group, spans[i].block, spans[i].slot + k), cell,
					p->groups[op->group].cell_bytes);
	return COHORT_OK;
}

static void plain_cells_write(struct be *be, size_t group, const struct be_span *spans, size_t n, const void *in,
		size_t in_step)
{
	const struct op op = {.run = run_cells_write,
			.group = group,
			.array = spans,
			.array_bytes = n * sizeof *spans,
			.n = n,
			.bytes = in,
			.step = in_step};
	plain_add(be, &op);
}

/* ---- States ---- */

static size_t plain_state_bytes(const struct be *be)
{
	const struct plain *p = (const struct plain *)be;
	size_t n = 0;

	for (size_t l = 0; l < p->n_state_layers; l++)
		n += p->state_floats[l] * sizeof(float);
	return n;
}

static void plain_states_read(struct be *be, const int32_t *states, size_t n, void *out, size_t out_step)
{
	struct plain *p = (struct plain *)be;

	if (!transfer(p))
		return;
	for (size_t i = 0; i < n; i++) {
		uint8_t *to = (uint8_t *)out + i * out_step;
		for (size_t l = 0; l < p->n_state_layers; to += p->state_floats[l++] * sizeof(float))
			memcpy(to, p->states[l] + (size_t)states[i] * p->state_floats[l],
					p->state_floats[l] * sizeof(float));
	}
}

static enum cohort_status run_states_write(struct plain *p, const struct op *op)
{
	for (size_t i = 0; i < op->n; i++) {
		const uint8_t *from = (const uint8_t *)op->bytes + i * op->step;
		for (size_t l = 0; l < p->n_state_layers; from += p->state_floats[l++] * sizeof(float))
			put_bytes(p, p->states[l] + (size_t)op->rows[i] * p->state_floats[l], from,
					p->state_floats[l] * sizeof(float));
	}
	return COHORT_OK;
}

static void plain_states_write(struct be *be, const int32_t *states, size_t n, const void *in, size_t in_step)
{
	plain_add(be, &(struct op){.run = run_states_write, .rows = states, .n = n, .bytes = in, .step = in_step});
}

/* ---- The table ---- */

const struct be_ops be_plain = {
		.name = "plain",
		.device_count = plain_device_count,
		.device_name = plain_device_name,
		.device_get = plain_device_get,
		.level_count = plain_level_count,
		.level_name = plain_level_name,
		.level_usable = plain_level_usable,
		.level_failed = plain_level_failed,
		.level_best = plain_level_best,
		.weights_open = plain_weights_open,
		.weights_lock = plain_weights_lock,
		.weights_free = plain_weights_free,
		.weight_sum = plain_weight_sum,
		.repack = plain_repack,
		.open = plain_open,
		.free = plain_free,
		.buf_open = plain_buf_open,
		.buf_free = plain_buf_free,
		.lora_reserve = plain_lora_reserve,
		.wait = plain_wait,
		.outputs = plain_outputs,
		.upload = plain_upload,
		.begin = plain_begin,
		.narrow = plain_narrow,
		.embed = plain_embed,
		.add_norm = plain_add_norm,
		.matmul = plain_matmul,
		.qkv_store = plain_qkv_store,
		.attention = plain_attention,
		.glu = plain_glu,
		.experts = plain_experts,
		.add_gated = plain_add_gated,
		.conv = plain_conv,
		.scan = plain_scan,
		.logits = plain_logits,
		.check = plain_check,
		.gather = plain_gather,
		.copy = plain_copy,
		.row_add = plain_row_add,
		.row_div = plain_row_div,
		.block_bytes = plain_block_bytes,
		.cell_bytes = plain_cell_bytes,
		.touch = plain_touch,
		.blocks_copy = plain_blocks_copy,
		.cells_move = plain_cells_move,
		.cells_read = plain_cells_read,
		.cells_write = plain_cells_write,
		.state_bytes = plain_state_bytes,
		.states_read = plain_states_read,
		.states_write = plain_states_write,
};

void plain_register(void)
{
	static bool done;

	if (!done)
		done = be_register(&be_plain);
}
