/* Devices that fail: every operation in turn, and all at once. A call that fails says so and changes nothing: lengths,
 * blocks and saved bytes are as before, and the same call gives the right bits then. Only sequences whose cells were to
 * be moved are empty. Shares of products, put together, are the whole.
 *
 * Shown red by planted faults: a transaction that is committed where it is to be rolled back (decode.c, grid.c), what
 * `wait` says ignored (forward_run), the last device's word taken for all (forward_wait), cells kept that never came
 * (restore, move_cells), an adapter copied without its sequence, a fingerprint kept though it was not read, a
 * share's columns (of the product, of its adapters) written from the first one on, a share that is one unit of 32
 * rows. */
#include "backend_case.h"
#include "temp.h"

#include <unistd.h>

#include "base/mem.h"
#include "gguf/gguf.h"
#include "model/adapter.h"
#include "model/model.h"

/* ---- What a context holds ---- */

struct holding {
	cohort_pos min[SEQ_MAX], max[SEQ_MAX];
	struct cohort_usage usage;
	uint8_t *bytes;
	size_t n;
};

static void hold(struct telling *t, struct holding *h)
{
	memset(h, 0, sizeof *h);
	for (cohort_seq s = 0; s < SEQ_MAX; s++) {
		h->min[s] = cohort_seq_pos_min(t->c, s);
		h->max[s] = cohort_seq_pos_max(t->c, s);
	}
	cohort_usage_get(t->c, &h->usage);
	h->n = save(t, COHORT_SEQ_ALL, &h->bytes);
}

static void check_held(struct telling *t, const struct holding *want)
{
	struct holding h;

	hold(t, &h);
	assert_memory_equal(h.min, want->min, sizeof h.min);
	assert_memory_equal(h.max, want->max, sizeof h.max);
	assert_memory_equal(&h.usage, &want->usage, sizeof h.usage);
	assert_int_equal(h.n, want->n);
	assert_memory_equal(h.bytes, want->bytes, h.n);
	free(h.bytes);
}

/* ---- Calls ---- */

static enum cohort_status parting_rows(struct telling *t, struct cohort_err *err)
{
	const cohort_seq both[] = {0, 1};

	cohort_batch_reset(&t->b);
	for (int32_t i = 0; i < 3; i++)
		add(t, 7 + i, 40 + i, both, 2, true);
	for (cohort_seq s = 0; s < 2; s++)
		add(t, 17 + s, 43, &both[s], 1, true);
	for (cohort_seq s = 2; s < 4; s++)
		for (int32_t i = 0; i < 4; i++)
			add(t, 27 + i, cohort_seq_pos_max(t->c, s) + 1 + i, &s, 1, i > 1);
	return cohort_decode(t->c, &t->b, err);
}

static enum cohort_status several_chunks(struct telling *t, struct cohort_err *err)
{
	return cohort_decode_many(t->c, t->text, 30, cohort_seq_pos_max(t->c, 3) + 1, 3, err);
}

static void take(void *user, int32_t item, const float *logits)
{
	struct telling *t = user;
	note_number(t->r, item);
	note(t->r, logits, (size_t)t->info.n_vocab * sizeof *logits);
}

static enum cohort_status scattered(struct telling *t, struct cohort_err *err)
{
	struct cohort_scatter_item items[4];

	for (int32_t i = 0; i < 4; i++)
		items[i] = (struct cohort_scatter_item){t->text + 9 * i, 6 + i, cohort_seq_pos_max(t->c, i) + 1, i,
				true};
	t->r->n = 0;
	return cohort_decode_scatter_to(t->c, items, 4, NULL, take, t, err);
}

static enum cohort_status encoded(struct telling *t, struct cohort_err *err)
{
	cohort_batch_reset(&t->b);
	for (cohort_seq s = 0; s < 3; s++)
		for (int32_t i = 0; i < 3 + 5 * s; i++)
			add(t, 3 * s + i, i, &s, 1, true);
	return cohort_encode(t->c, &t->b, err);
}

/* A sequence and its fork, another fork with a tail of its own, one that is longer than the windows. */
static void prepare(struct telling *t)
{
	struct cohort_err err;
	const cohort_token *text = t->text;
	const cohort_pos long_end = t->info.n_window ? t->info.n_window + 20 : 33;

	if (t->info.encoder)
		return;
	if (cohort_decode_many(t->c, text, 40, 0, 0, &err) || cohort_seq_cp(t->c, 0, 1, 0, -1, &err) ||
			cohort_seq_cp(t->c, 0, 2, 0, -1, &err) || cohort_decode_many(t->c, text + 3, 4, 40, 2, &err) ||
			cohort_decode_many(t->c, text + 20, long_end, 0, 3, &err))
		fail_msg("%s", err.text);
}

static void reset(struct telling *t, const struct holding *h)
{
	struct cohort_err err;

	if (cohort_state_restore(t->c, COHORT_SEQ_ALL, h->bytes, h->n, &err))
		fail_msg("%s", err.text);
}

/* ---- Every operation in turn ---- */

struct failing {
	const char *name, *model, *device;
	enum cohort_status (*call)(struct telling *, struct cohort_err *);
	int32_t n_ubatch;
};

/* A transfer that failed is asked for once more. What it said is the result. */
static enum cohort_status ask(const struct telling *t, const float *(*get)(const struct telling *, struct cohort_err *))
{
	struct cohort_err err;

	if (get(t, &err))
		return COHORT_OK;
	assert_non_null(get(t, NULL));
	return err.status;
}

static const float *get_logits(const struct telling *t, struct cohort_err *err)
{
	return cohort_logits_get(t->c, -1, err);
}

static const float *get_embedding(const struct telling *t, struct cohort_err *err)
{
	return cohort_embeddings_get(t->c, -1, err);
}

static const float *get_pooled(const struct telling *t, struct cohort_err *err)
{
	return cohort_embeddings_seq_get(t->c, 1, err);
}

/* The outputs of the call, and what a transfer that failed said. */
static enum cohort_status outputs(struct telling *t, const struct failing *f)
{
	if (f->call == scattered)
		return COHORT_OK;
	t->r->n = 0;
	const enum cohort_status logits = t->info.encoder ? COHORT_OK : ask(t, get_logits);
	const enum cohort_status embedding = ask(t, get_embedding);
	const enum cohort_status pooled = t->info.encoder ? ask(t, get_pooled) : COHORT_OK;
	if (f->call == several_chunks) /* has the last row's */
		note(t->r, get_logits(t, NULL), (size_t)t->info.n_vocab * sizeof(float));
	else
		note_outputs(t);
	if (t->info.encoder)
		note(t->r, get_pooled(t, NULL), (size_t)t->info.n_embd * sizeof(float));
	return logits ? logits : embedding ? embedding
					   : pooled;
}

static void check_outputs(const struct telling *t, const struct record *want)
{
	assert_int_equal(t->r->n, want->n);
	assert_memory_equal(t->r->bytes, want->bytes, want->n);
}

static void every_operation_fails_in_turn(void **state)
{
	const struct failing *f = *state;
	struct setting s = {.device = f->device, .n_ubatch = f->n_ubatch, .n_batch = 24};
	struct record r = {0}, want = {0};
	struct holding before, after;
	struct telling t;
	size_t n_failed = 0;
	char path[600];

	s.path = model_path(path, sizeof path, f->model);
	telling_open(&t, &s, &r);
	prepare(&t);
	hold(&t, &before);
	reset(&t, &before);
	assert_int_equal(f->call(&t, NULL), COHORT_OK);
	assert_int_equal(outputs(&t, f), COHORT_OK);
	note(&want, r.bytes, r.n);
	hold(&t, &after);
	for (size_t n = 1;; n++) {
		const enum cohort_status status = n % 3 ? COHORT_E_DEVICE : COHORT_E_MEMORY;
		struct cohort_err err;
		reset(&t, &before);
		plain_fail_at(n, status);
		enum cohort_status st = f->call(&t, &err);
		if (st) {
			assert_int_equal(st, status);
			assert_int_equal(err.status, status);
			assert_false(plain_fail_is_due());
			assert_null(t.info.encoder ? cohort_embeddings_get(t.c, -1, NULL)
						   : cohort_logits_get(t.c, -1, NULL));
			check_held(&t, &before);
			st = f->call(&t, &err);
			if (st)
				fail_msg("%s", err.text);
			assert_int_equal(outputs(&t, f), COHORT_OK);
		} else {
			st = outputs(&t, f);
			assert_int_equal(st, plain_fail_is_due() ? COHORT_OK : status);
		}
		const bool done = plain_fail_is_due();
		plain_fail_at(0, COHORT_OK);
		check_outputs(&t, &want);
		check_held(&t, &after);
		if (done)
			break;
		n_failed++;
	}
	print_message("# %s: %zu operations\n", f->name, n_failed);
	assert_true(n_failed > 10);
	telling_close(&t);
	free(before.bytes);
	free(after.bytes);
	free(r.bytes);
	free(want.bytes);
}

/* ---- Cells that move ---- */

static enum cohort_status copied(struct telling *t)
{
	return cohort_seq_cp(t->c, 3, 4, 0, 29, NULL) ? COHORT_E_BUG : cohort_seq_cp(t->c, 0, 4, 29, 37, NULL);
}

static enum cohort_status shifted(struct telling *t)
{
	return cohort_seq_rm(t->c, 2, 5, 12, NULL) ? COHORT_E_BUG : cohort_seq_add(t->c, 2, 12, -1, -6, NULL);
}

static enum cohort_status restored(struct telling *t)
{
	uint8_t *bytes;
	const size_t n = save(t, 1, &bytes);
	const enum cohort_status st = cohort_state_restore(t->c, 5, bytes, n, NULL);
	free(bytes);
	return st;
}

/* The sequence whose cells a failing device was to move is empty afterwards, and all others are as they were. */
static void cells_that_do_not_come_are_forgotten(void **state)
{
	static const struct {
		enum cohort_status (*call)(struct telling *);
		cohort_seq seq;
	} calls[] = {{copied, 4}, {shifted, 2}, {restored, 5}};
	struct setting s = {.device = "cpu:1,plain0", .kv = COHORT_KV_Q8_0, .n_ubatch = 30};
	char path[600];
	(void)state;

	s.path = model_path(path, sizeof path, "llama");
	for (size_t i = 0; i < 3; i++) {
		struct holding before, without, after;
		struct record r = {0};
		struct telling t;
		size_t n_failed = 0;
		telling_open(&t, &s, &r);
		prepare(&t);
		hold(&t, &before);
		cohort_seq_rm(t.c, calls[i].seq, 0, -1, NULL);
		hold(&t, &without);
		reset(&t, &before);
		assert_int_equal(calls[i].call(&t), COHORT_OK);
		hold(&t, &after);
		for (size_t n = 1;; n++) {
			reset(&t, &before);
			plain_fail_at(n, COHORT_E_DEVICE);
			enum cohort_status st = calls[i].call == restored ? COHORT_OK : calls[i].call(&t);
			if (calls[i].call == restored) { /* what it saves first is to succeed */
				uint8_t *bytes;
				plain_fail_at(0, COHORT_OK);
				const size_t n_bytes = save(&t, 1, &bytes);
				plain_fail_at(n, COHORT_E_DEVICE);
				st = cohort_state_restore(t.c, 5, bytes, n_bytes, NULL);
				free(bytes);
			}
			const bool done = plain_fail_is_due();
			plain_fail_at(0, COHORT_OK);
			assert_int_equal(st, done ? COHORT_OK : COHORT_E_DEVICE);
			check_held(&t, done ? &after : &without);
			if (done)
				break;
			n_failed++;
		}
		assert_true(n_failed > 0);
		telling_close(&t);
		free(before.bytes);
		free(without.bytes);
		free(after.bytes);
		free(r.bytes);
	}
}

/* An empty sequence does not take along the adapter of what never came. */
static void a_copy_that_fails_brings_no_adapter(void **state)
{
	struct setting s = {.device = "plain0", .n_ubatch = 30};
	struct cohort_adapter *adapter;
	struct record r = {0};
	struct telling t;
	char path[600];
	float *want;
	(void)state;

	s.path = model_path(path, sizeof path, "llama-base");
	telling_open(&t, &s, &r);
	assert_int_equal(cohort_adapter_open(t.m, model_path(path, sizeof path, "llama-lora"), &adapter, NULL),
			COHORT_OK);
	assert_int_equal(cohort_seq_adapter_set(t.c, 0, adapter, 1, NULL), COHORT_OK);
	assert_int_equal(cohort_decode_many(t.c, t.text, 9, 0, 0, NULL), COHORT_OK);
	assert_int_equal(cohort_decode_many(t.c, t.text, 9, 0, 1, NULL), COHORT_OK);
	want = mem_dup(cohort_logits_get(t.c, -1, NULL), (size_t)t.info.n_vocab * sizeof *want);
	plain_lose(true);
	assert_int_equal(cohort_seq_cp(t.c, 0, 2, 0, -1, NULL), COHORT_E_DEVICE);
	plain_lose(false);
	assert_int_equal(cohort_seq_pos_max(t.c, 2), -1);
	assert_int_equal(cohort_decode_many(t.c, t.text, 9, 0, 2, NULL), COHORT_OK);
	assert_memory_equal(cohort_logits_get(t.c, -1, NULL), want, (size_t)t.info.n_vocab * sizeof *want);
	mem_free(want);
	cohort_batch_release(&t.b);
	cohort_context_free(t.c);
	cohort_adapter_free(adapter);
	cohort_model_free(t.m);
	free(r.bytes);
}

/* The model's fingerprint is kept only after every weight was read; every second time a file is to be written. Seen red
 * with a file that is written without one. */
static void a_fingerprint_that_fails_is_taken_anew(void **state)
{
	struct setting s = {.device = "cpu:1,plain0", .n_ubatch = 30};
	uint8_t *want = NULL;
	size_t n = 0, n_failed = 0;
	char path[600], file[TEMP_MAX];
	(void)state;

	const int fd = mkstemp(temp_name(file, "fingerprint"));
	assert_true(fd >= 0 && close(fd) == 0 && unlink(file) == 0);
	s.path = model_path(path, sizeof path, "llama");
	for (size_t at = 0;; at++) { /* 0: the right bytes */
		struct record r = {0};
		struct telling t;
		telling_open(&t, &s, &r);
		prepare(&t);
		n = cohort_state_size(t.c, COHORT_SEQ_ALL);
		uint8_t *bytes = malloc(n);
		assert_non_null(bytes);
		plain_fail_at(at, COHORT_E_DEVICE);
		const enum cohort_status st = at % 2 ? cohort_state_save_file(t.c, COHORT_SEQ_ALL, file, NULL)
						     : cohort_state_save(t.c, COHORT_SEQ_ALL, bytes, n, &n, NULL);
		const bool done = plain_fail_is_due();
		plain_fail_at(0, COHORT_OK);
		assert_int_equal(st, at && !done ? COHORT_E_DEVICE : COHORT_OK);
		if (at % 2)
			assert_int_equal(unlink(file), done ? 0 : -1);
		n_failed += st != COHORT_OK;
		free(bytes);
		n = save(&t, COHORT_SEQ_ALL, &bytes);
		if (!at)
			want = bytes;
		else
			assert_memory_equal(bytes, want, n);
		if (at)
			free(bytes);
		telling_close(&t);
		free(r.bytes);
		if (done)
			break;
	}
	assert_true(n_failed > 5);
	free(want);
}

/* ---- A device that is lost ---- */

static void a_lost_device_is_named_by_every_call(void **state)
{
	static const char *const devices[] = {"plain0", "cpu:1,plain0", "plain0:1,cpu"};
	struct setting s = {.n_ubatch = 30};
	char path[600];
	(void)state;

	s.path = model_path(path, sizeof path, "llama");
	for (size_t i = 0; i < 3; i++) {
		struct record r = {0};
		struct holding before;
		struct telling t;
		struct cohort_err err;
		struct cohort_model_params mp;
		struct cohort_model *m;
		struct cohort_score score;
		size_t n;
		s.device = devices[i];
		telling_open(&t, &s, &r);
		prepare(&t);
		hold(&t, &before);
		assert_int_equal(parting_rows(&t, NULL), COHORT_OK);
		reset(&t, &before);
		plain_lose(true);
		for (int again = 0; again < 2; again++) {
			assert_int_equal(parting_rows(&t, &err), COHORT_E_DEVICE);
			assert_int_equal(err.status, COHORT_E_DEVICE);
			assert_int_equal(several_chunks(&t, NULL), COHORT_E_DEVICE);
			assert_int_equal(scattered(&t, NULL), COHORT_E_DEVICE);
			assert_int_equal(cohort_warm_up(t.c, 3, 2, NULL), COHORT_E_DEVICE);
			assert_int_equal(cohort_score_text(t.c, 5, t.text, 5, NULL, &score, &err), COHORT_E_DEVICE);
			assert_int_equal(err.status, COHORT_E_DEVICE);
			n = before.n;
			assert_int_equal(cohort_state_save(t.c, COHORT_SEQ_ALL, before.bytes, n, &n, NULL),
					COHORT_E_DEVICE);
			assert_null(cohort_logits_get(t.c, -1, NULL));
		}
		cohort_model_params_init(&mp);
		mp.device = s.device;
		assert_int_equal(cohort_model_open(path, &mp, &m, &err), COHORT_E_DEVICE);
		assert_int_equal(cohort_seq_cp(t.c, 0, 4, 0, 9, NULL), COHORT_E_DEVICE);
		assert_int_equal(cohort_seq_add(t.c, 3, 0, -1, 2, NULL), COHORT_E_DEVICE);
		assert_int_equal(cohort_seq_rm(t.c, 0, 3, -1, NULL), COHORT_OK); /* the books need no device */
		plain_lose(false);
		cohort_seq_clear(t.c);
		prepare(&t);
		assert_int_equal(parting_rows(&t, NULL), COHORT_OK);
		plain_lose(true);
		const float *logits = cohort_logits_get(t.c, -1, &err);
		assert_true(strcmp(devices[i], "plain0:1,cpu") == 0 ? logits != NULL
								    : !logits && err.status == COHORT_E_DEVICE);
		telling_close(&t);
		plain_lose(false);
		free(before.bytes);
		free(r.bytes);
	}
}

/* ---- Shares of products ---- */

static void keep_pages(void *user, const struct model_weight *w, size_t from, size_t to, bool again)
{
	(void)user;
	(void)w;
	(void)from;
	(void)to;
	(void)again;
}

enum { SHARE_ROWS = 3 };

struct share {
	const struct be_ops *ops;
	struct be_weights *w;
	struct be *be;
};

static void share_open(struct share *s, const struct be_ops *ops, const struct model *m, size_t rank, size_t of,
		enum be_repack repack, const struct be_lora *base)
{
	struct cohort_err err;

	s->ops = ops;
	if (ops->weights_open(&s->w, &(struct be_source){m->weights, m->n_weights, NULL, keep_pages, NULL},
			    &(struct be_weights_params){.level = ops->level_best(),
					    .repack = repack,
					    .n_threads = 1,
					    .rank = rank,
					    .of = of},
			    &err))
		fail_msg("%s", err.text);
	const struct be_limits lim = {
			.n_rows_max = SHARE_ROWS, .n_threads = 1, .base = base, .n_base = base != NULL};
	s->be = ops->open(s->w, &lim);
	assert_non_null(s->be);
}

static void share_close(struct share *s)
{
	s->ops->free(s->be);
	s->ops->weights_free(s->w);
}

/* x w^T in the columns of the share; in all others what was there: `marker`. */
static void share_product(const struct share *s, const struct model_weight *w, const float *x, float marker, float *out)
{
	const size_t n = SHARE_ROWS * w->n_rows;
	struct be_buf *xb = s->ops->buf_open(s->be, SHARE_ROWS, w->k);
	struct be_buf *ob = s->ops->buf_open(s->be, SHARE_ROWS, w->n_rows);
	const struct be_rows rows = {.n = SHARE_ROWS};
	int64_t bad;

	assert_true(xb && ob);
	for (size_t i = 0; i < n; i++)
		out[i] = marker;
	s->ops->begin(s->be, &rows);
	s->ops->upload(xb, x, SHARE_ROWS);
	s->ops->upload(ob, out, SHARE_ROWS);
	s->ops->matmul(&ob, &w, 1, xb, SHARE_ROWS, 0);
	assert_int_equal(s->ops->wait(s->be, &bad, NULL), COHORT_OK);
	memcpy(out, s->ops->outputs(ob, SHARE_ROWS), n * sizeof *out);
	s->ops->buf_free(xb);
	s->ops->buf_free(ob);
}

static void shares_of(const struct be_ops *ops, const struct model *m, size_t of, enum be_repack repack,
		const struct be_lora *base)
{
	const float marker = -12345;
	struct share whole, part[7];

	share_open(&whole, ops, m, 0, 0, repack, base);
	for (size_t rank = 0; rank < of; rank++)
		share_open(&part[rank], ops, m, rank, of, repack, base);
	for (size_t i = 0; i < m->n_weights; i++) {
		const struct model_weight *w = &m->weights[i];
		size_t next = 0;
		if (!w->product)
			continue;
		float *x = malloc(SHARE_ROWS * w->k * sizeof *x);
		float *want = malloc(SHARE_ROWS * w->n_rows * sizeof *want);
		float *got = malloc(SHARE_ROWS * w->n_rows * sizeof *got);
		assert_true(x && want && got);
		for (size_t j = 0; j < SHARE_ROWS * w->k; j++)
			x[j] = (float)((int)(j * 37 % 101) - 50) / 32;
		share_product(&whole, w, x, marker, want);
		for (size_t rank = 0; rank < of; rank++) {
			const struct be_range range = be_share(w->n_rows, rank, of);
			assert_int_equal(range.from, next);
			next = range.to;
			share_product(&part[rank], w, x, marker, got);
			for (size_t j = 0; j < SHARE_ROWS * w->n_rows; j++) {
				const bool own = j % w->n_rows >= range.from && j % w->n_rows < range.to;
				const float right = own ? want[j] : marker;
				if (memcmp(&got[j], &right, sizeof right) != 0)
					fail_msg("%s: weight %zu, share %zu of %zu, column %zu", ops->name, i, rank, of,
							j % w->n_rows);
			}
		}
		assert_int_equal(next, w->n_rows);
		free(x);
		free(want);
		free(got);
	}
	for (size_t rank = 0; rank < of; rank++)
		share_close(&part[rank]);
	share_close(&whole);
}

static void shares_are_the_whole(void **state)
{
	static const char *const names[] = {"llama", "llama3", "quant-q4_0", "quant-q4_k", "quant-q6_k", "quant-q8_0",
			"gpt-oss", "mamba", "llama-base"};
	static const size_t of[] = {2, 3, 7};
	const struct be_ops *const ops[] = {be_get(0), &be_plain};
	(void)state;

	for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
		struct cohort_err err;
		struct gguf g;
		struct model m;
		char path[600];
		if (gguf_open(&g, model_path(path, sizeof path, names[i]), quant_size, &err) ||
				model_init(&m, &g, 0, &err))
			fail_msg("%s", err.text);
		struct model_adapter a = {0};
		struct be_lora lora = {&a.loras, 0.5f};
		const bool adapted = strcmp(names[i], "llama-base") == 0;
		if (adapted && model_adapter_init(&a, &m, model_path(path, sizeof path, "llama-lora"), &err))
			fail_msg("%s", err.text);
		for (size_t b = 0; b < 2; b++)
			for (size_t k = 0; k < 3; k++)
				shares_of(ops[b], &m, of[k], k ? BE_REPACK_NOW : BE_REPACK_NEVER,
						adapted ? &lora : NULL);
		if (adapted)
			model_adapter_release(&a);
		model_release(&m);
		gguf_release(&g);
	}
}

int main(int argc, char **argv)
{
	static const struct failing failing[] = {
			{"fail parting rows", "llama", "plain0", parting_rows, 5},
			{"fail parting rows, windows", "olmo2-window", "plain0", parting_rows, 20},
			{"fail parting rows, two devices", "llama", "cpu:1,plain0", parting_rows, 5},
			{"fail parting rows, the first device", "llama", "plain0:1,cpu", parting_rows, 20},
			{"fail parting rows, states", "mamba", "plain0", parting_rows, 20},
			{"fail several chunks", "llama", "plain0", several_chunks, 16},
			{"fail several chunks, windows", "gemma3", "plain0:1,plain1", several_chunks, 24},
			{"fail scattered", "llama", "plain0", scattered, 20},
			{"fail scattered, states", "mamba", "plain0", scattered, 20},
			{"fail encoded", "bert", "plain0", encoded, 14},
	};
	enum { N = sizeof failing / sizeof *failing };
	static struct CMUnitTest tests[N + 5];
	size_t n = 0;

	for (size_t i = 0; i < N; i++)
		if (argc < 2 || strcmp(argv[1], failing[i].name) == 0)
			tests[n++] = (struct CMUnitTest){failing[i].name, every_operation_fails_in_turn, NULL, NULL,
					(void *)&failing[i]};
	tests[n++] = (struct CMUnitTest)cmocka_unit_test(cells_that_do_not_come_are_forgotten);
	tests[n++] = (struct CMUnitTest)cmocka_unit_test(a_copy_that_fails_brings_no_adapter);
	tests[n++] = (struct CMUnitTest)cmocka_unit_test(a_fingerprint_that_fails_is_taken_anew);
	tests[n++] = (struct CMUnitTest)cmocka_unit_test(a_lost_device_is_named_by_every_call);
	tests[n++] = (struct CMUnitTest)cmocka_unit_test(shares_are_the_whole);
	return _cmocka_run_group_tests("backend_fail", tests, n, setup, arch_remove_models);
}
