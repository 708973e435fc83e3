/* Weights that are repacked while they are used: the bits at any point of it, and what a saved state says of them.
 *
 * Invariants
 *  1. With any set of matrices packed, one of them half, and with contexts that pack the same model at a time, a decode
 *     gives the bits of the file's layout.
 *  2. Packing takes no memory, and an abort in the middle of it leaves a model that works and can be freed.
 *  3. A state is refused by a model of which any byte of any tensor, or of an adapter, differs; and taken by the same
 *     model however it is opened and however much of it is packed.
 *
 * Shown red by a claimed matrix that is taken for a packed one (any_set), by a place that is published before it is
 * filled (contexts_together), by a matrix that is packed from its first row again where a part of it is packed already
 * (half_packed_matrix_is_exact: its sum counts rows twice), by products that allocate (packing_aborted_at_every_step),
 * by a warm-up that leaves matrices as they are (warm_up), by rows that are packed and not summed (same_model), by
 * sums of the first 4 KiB of each matrix and by sums that do not know a row's place (any_byte), by the first bytes of
 * an adapter's data only (adapter_bytes_count_as_the_models), by an engine that waits for requests without packing
 * (idle_engine), and by a line more than a matrix takes (packed_matrices_fill_their_piece). */
#include "arch_case.h"
#include "cpu_case.h"
#include "load_case.h"
#include "place_case.h"
#include "split_case.h"

#include "cohort_engine.h"

#include "base/thread.h"
#include "context/state.h"

enum { N_TOKENS = 6, N_VOCAB = 300 };

static void make_model(const char *path, const char *type, bool tied)
{
	struct cohort_synth_params p;
	struct cohort_err err;

	cohort_synth_params_init(&p);
	p.n_vocab = N_VOCAB;
	p.n_embd = 256;
	p.n_layer = 2;
	p.n_head = 4;
	p.n_head_kv = 2;
	p.n_ff = 512;
	p.head_size = 64;
	p.tied = tied;
	p.type = type;
	if (cohort_synth_write(path, &p, &err))
		fail_msg("%s", err.text);
}

static struct cohort_context *open_context(const struct cohort_model *m, bool (*abort)(void *), void *user)
{
	struct cohort_context_params cp;
	struct cohort_context *c = NULL;
	struct cohort_err err;

	cohort_context_params_init(&cp);
	cp.n_threads = 2;
	cp.n_ctx = 64;
	cp.n_seq_max = 2;
	cp.abort = abort;
	cp.abort_user = user;
	if (cohort_context_open(m, &cp, &c, &err))
		fail_msg("%s", err.text);
	return c;
}

static enum cohort_status try_decode(struct cohort_context *c)
{
	static const cohort_token tokens[N_TOKENS] = {5, 299, 7, 150, 151, 7};

	cohort_seq_clear(c);
	return cohort_decode_many(c, tokens, N_TOKENS, 0, 0, NULL);
}

static void decode(struct cohort_context *c, float out[N_VOCAB])
{
	assert_int_equal(try_decode(c), COHORT_OK);
	memcpy(out, cohort_logits_get(c, -1, NULL), N_VOCAB * sizeof *out);
}

static void run(const struct cohort_model *m, float out[N_VOCAB])
{
	struct cohort_context *c = open_context(m, NULL, NULL);
	decode(c, out);
	cohort_context_free(c);
}

static void run_file_layout(const char *path, float out[N_VOCAB])
{
	struct cohort_model_params mp = model_params();
	mp.file_layout = true;
	struct cohort_model *m = open_model(path, &mp);
	run(m, out);
	assert_int_equal(cpu_weights_get(m)->n_left, 0);
	cohort_model_free(m);
}

/* Levels that have layouts of their own for this model; false: the level cannot be used here. */
static bool use_level(struct cohort_model_params *mp, size_t level)
{
	mp->isa = cohort_isa_name(level);
	return cohort_isa_usable(level);
}

/* ---- Bits ---- */

/* Matrix i of those that can be packed stays in the file's layout: as if another context were packing it. */
static void hold(struct cpu_weights *w, bool (*held)(size_t i, size_t k), size_t k)
{
	size_t i = 0;
	for (size_t n = 0; n < w->source.n; n++)
		if (w->w[n].place && held(i++, k) && w->w[n].state == WEIGHT_IN_FILE)
			w->w[n].state = WEIGHT_CLAIMED;
}

static bool from_k(size_t i, size_t k)
{
	return i >= k;
}
static bool before_k(size_t i, size_t k)
{
	return i < k;
}
static bool each_second(size_t i, size_t k)
{
	return (i + k) % 2;
}

static void any_set(void **state)
{
	static const char *const types[] = {"Q4_0", "Q4_K_M", "F16"};
	static bool (*const sets[])(size_t, size_t) = {from_k, before_k, each_second};
	const struct place *p = *state;
	struct cohort_model_params mp = model_params();
	float want[N_VOCAB], got[N_VOCAB];

	for (size_t t = 0; t < 6; t++) {
		make_model(p->path, types[t / 2], t % 2);
		run_file_layout(p->path, want);
		for (size_t level = 0; level < cohort_isa_count(); level++) {
			size_t n = 1;
			for (size_t k = 0; k <= n && use_level(&mp, level); k++)
				for (size_t s = 0; s < (k < 2 ? 3 : 2); s++) {
					struct cohort_model *m = open_model(p->path, &mp);
					struct cpu_weights *w = cpu_weights_get(m);
					n = w->n_left;
					hold(w, sets[s], k);
					for (int again = 0; again < 2; again++) { /* packing, and packed */
						run(m, got);
						if (memcmp(got, want, sizeof want) != 0)
							fail_msg("%s, %s, set %zu of %zu: other bits", types[t / 2],
									mp.isa, s, k);
					}
					assert_int_equal(w->n_left, s == 0 ? n - k : s == 1 ? k : (n + k) / 2);
					cohort_model_free(m);
				}
		}
	}
}

/* Places lie one behind the other, in whole cache lines, and fill the piece. */
static void packed_matrices_fill_their_piece(void **state)
{
	static const char *const types[] = {"Q4_0", "Q4_K_M", "F16"};
	const struct place *p = *state;
	struct cohort_model_params mp = model_params();

	for (size_t t = 0; t < 3; t++) {
		make_model(p->path, types[t], false);
		for (size_t level = 0; level < cohort_isa_count(); level++) {
			if (!use_level(&mp, level))
				continue;
			struct cohort_model *m = open_model(p->path, &mp);
			const struct cpu_weights *w = cpu_weights_get(m);
			const uint8_t *at = w->packed;
			assert_int_equal((uintptr_t)at % 64, 0);
			for (size_t i = 0; i < w->source.n; i++)
				if (w->w[i].place) {
					const struct model_weight *mw = &w->w[i].mw;
					assert_ptr_equal(w->w[i].place, at);
					at += (w->w[i].packed->packed_bytes(mw->n_rows, mw->k) + 63) / 64 * 64;
				}
			assert_int_equal(at - w->packed, w->base.packed_bytes);
			cohort_model_free(m);
		}
	}
}

/* A matrix of which a part is packed already, as an idle engine leaves it. */
static void half_packed_matrix_is_exact(void **state)
{
	const struct place *p = *state;
	const struct cohort_model_params mp = model_params();
	float want[N_VOCAB], got[N_VOCAB];
	uint64_t sum[2];

	make_model(p->path, "Q4_K_M", false);
	run_file_layout(p->path, want);
	for (int half = 0; half < 2; half++) {
		struct cohort_model *m = open_model(p->path, &mp);
		struct cohort_context *c = open_context(m, NULL, NULL);
		struct cpu_weights *w = cpu_weights_get(m);
		for (size_t i = 0; i < w->source.n && half; i++)
			if (w->w[i].place && w->w[i].mw.n_rows > CPU_MM_UNIT) {
				cpu_weight_pack(&w->w[i], 0, CPU_MM_UNIT);
				w->w[i].n_done = CPU_MM_UNIT;
			}
		decode(c, got);
		assert_memory_equal(got, want, sizeof want);
		assert_int_equal(w->n_left, 0);
		assert_int_equal(state_fingerprint(c, NULL), COHORT_OK);
		sum[half] = c->fingerprint;
		cohort_context_free(c);
		cohort_model_free(m);
	}
	assert_true(sum[0] == sum[1]);
}

struct runner {
	struct thread thread;
	const struct cohort_model *m;
	bool settle;
	float got[3][N_VOCAB];
};

static void run_thrice(void *arg)
{
	struct runner *r = arg;
	struct cohort_context *c = open_context(r->m, NULL, NULL);

	while (r->settle && cohort_repack(c, 0) < 1)
		;
	for (size_t i = 0; i < 3; i++)
		if (try_decode(c) == COHORT_OK)
			memcpy(r->got[i], cohort_logits_get(c, -1, NULL), sizeof r->got[i]);
	cohort_context_free(c);
}

static void contexts_together(void **state)
{
	const struct place *p = *state;
	const struct cohort_model_params mp = model_params();
	float want[N_VOCAB];

	make_model(p->path, "Q4_K_M", true);
	run_file_layout(p->path, want);
	for (int round = 0; round < 10; round++) {
		struct cohort_model *m = open_model(p->path, &mp);
		struct runner r[3] = {0};
		for (size_t i = 0; i < 3; i++) {
			r[i].m = m;
			r[i].settle = i == 2 && round % 2;
			assert_true(thread_start(&r[i].thread, "test", run_thrice, &r[i]));
		}
		for (size_t i = 0; i < 3; i++)
			thread_join(&r[i].thread);
		for (size_t i = 0; i < 9; i++)
			assert_memory_equal(r[i / 3].got[i % 3], want, sizeof want);
		cohort_model_free(m);
	}
}

/* ---- What goes wrong ---- */

static bool now(void *user)
{
	int *left = user;
	return (*left)-- == 0;
}

/* Aborted after each step, with no memory to be had: what is packed by then stays, and nothing else has changed. */
static void packing_aborted_at_every_step(void **state)
{
	const struct place *p = *state;
	const struct cohort_model_params mp = model_params();
	float want[N_VOCAB], got[N_VOCAB];
	bool ended = false;

	make_model(p->path, "Q4_K_M", false);
	run_file_layout(p->path, want);
	for (int at = 0; !ended; at++) {
		struct cohort_model *m = open_model(p->path, &mp);
		int left = at;
		struct cohort_context *c = open_context(m, now, &left);
		mem_fail_all(true);
		ended = try_decode(c) == COHORT_OK;
		mem_fail_all(false);
		left = -1;
		if (at % 2) { /* or freed as it is */
			decode(c, got);
			assert_memory_equal(got, want, sizeof want);
		}
		cohort_context_free(c);
		cohort_model_free(m);
		assert_true(at < 100);
	}
}

static void model_open_out_of_memory_while_repacking(void **state)
{
	const struct place *p = *state;
	struct cohort_model_params mp = model_params();
	float want[N_VOCAB], got[N_VOCAB];

	make_model(p->path, "Q4_0", false);
	run_file_layout(p->path, want);
	for (int how = 0; how < 2; how++) {
		enum cohort_status st = COHORT_E_MEMORY;
		mp.no_mmap = how;
		for (int64_t at = 0; st; at++) {
			struct cohort_model *m = NULL;
			mem_fail_after(at);
			st = cohort_model_open(p->path, &mp, &m, NULL);
			mem_fail_after(-1);
			assert_true(st == COHORT_E_MEMORY || (!st && m));
			if (!st)
				run(m, got);
			cohort_model_free(m);
		}
		assert_memory_equal(got, want, sizeof want);
	}
}

static void warm_up(void **state)
{
	const struct place *p = *state;
	const struct cohort_model_params mp = model_params();
	struct cohort_err err;
	int left = 0;

	make_model(p->path, "Q4_0", false);
	struct cohort_model *m = open_model(p->path, &mp);
	struct cohort_context *c = open_context(m, now, &left);
	const size_t n = cpu_weights_get(m)->n_left;
	assert_true(n == 0 || cohort_repack(c, 0) < 1);
	assert_true(n == 0 || cpu_weights_get(m)->n_left == n - 1); /* small ones: a slice each */
	if (n) {
		assert_int_equal(cohort_warm_up(c, 1, 1, &err), COHORT_ABORTED);
		assert_int_equal(cpu_weights_get(m)->n_left, n - 2);
	}
	left = -1;
	assert_int_equal(cohort_warm_up(c, 1, 1, &err), COHORT_OK);
	assert_int_equal(cpu_weights_get(m)->n_left, 0);
	assert_true(cohort_repack(c, 0) == 1 && cohort_repack(NULL, 0) == 1);
	cohort_context_free(c);
	cohort_model_free(m);
}

/* Without any request all is packed. */
static void idle_engine(void **state)
{
	const struct place *p = *state;
	const struct cohort_model_params mp = model_params();
	struct cohort_engine_params ep;
	struct cohort_engine *e = NULL;
	struct cohort_err err;

	make_model(p->path, "Q4_0", false);
	struct cohort_model *m = open_model(p->path, &mp);
	cohort_engine_params_init(&ep);
	ep.context.n_ctx = 64;
	ep.context.n_threads = 1;
	ep.n_slots = 1;
	if (cohort_engine_open(m, &ep, &e, &err))
		fail_msg("%s", err.text);
	for (int i = 0; i < 60000 && atomic_load(&cpu_weights_get(m)->n_left) > 0; i++)
		usleep(1000);
	assert_int_equal(cpu_weights_get(m)->n_left, 0);
	cohort_engine_free(e);
	cohort_model_free(m);
}

/* ---- Saved states ---- */

static size_t save(struct cohort_context *c, uint8_t out[1 << 16])
{
	size_t n = 0;
	struct cohort_err err;
	if (cohort_state_save(c, 0, out, 1 << 16, &n, &err))
		fail_msg("%s", err.text);
	return n;
}

/* The same bytes from the same model, in whatever way it is there. */
static void same_model(void **state)
{
	static uint8_t want[1 << 16], got[1 << 16];
	const struct place *p = *state;
	float logits[N_VOCAB];
	size_t n = 0;

	make_model(p->path, "Q4_K_M", true);
	for (unsigned k = 0; k < 8 * cohort_isa_count(); k++) {
		struct cohort_model_params mp = model_params();
		if (!use_level(&mp, k / 8))
			continue;
		mp.file_layout = k & 1;
		mp.no_mmap = k & 2;
		struct cohort_model *m = open_model(p->path, &mp);
		struct cohort_context *c = open_context(m, NULL, NULL);
		if (k & 4) /* a part only */
			hold(cpu_weights_get(m), each_second, 0);
		if (n) /* before a decode packs anything */
			assert_int_equal(cohort_state_restore(c, 0, want, n, NULL), COHORT_OK);
		cohort_context_free(c);
		c = open_context(m, NULL, NULL);
		decode(c, logits);
		const size_t now = save(c, n ? got : want);
		if (n) {
			assert_int_equal(now, n);
			assert_memory_equal(got, want, n);
		}
		n = now;
		cohort_context_free(c);
		cohort_model_free(m);
	}
	assert_true(n > 0);
}

/* Whether the model at the path takes the state. */
static bool takes(const char *path, const struct cohort_model_params *mp, bool packed, const uint8_t *bytes, size_t n)
{
	struct cohort_model *m = open_model(path, mp);
	struct cohort_context *c = open_context(m, NULL, NULL);
	struct cohort_err err;

	while (packed && cohort_repack(c, 1) < 1)
		;
	const enum cohort_status st = cohort_state_restore(c, 1, bytes, n, &err);
	if (st && (st != COHORT_E_UNSUPPORTED || !strstr(err.text, "another model")))
		fail_msg("%s", err.text);
	assert_int_equal(cohort_seq_pos_max(c, 1), st ? -1 : N_TOKENS - 1);
	cohort_context_free(c);
	cohort_model_free(m);
	return !st;
}

static void flip(const char *path, uint64_t at)
{
	FILE *f = fopen(path, "r+b");
	assert_non_null(f);
	assert_int_equal(fseek(f, (long)at, SEEK_SET), 0);
	const int byte = fgetc(f);
	assert_int_equal(fseek(f, (long)at, SEEK_SET), 0);
	assert_int_equal(fputc(byte ^ 1, f), byte ^ 1);
	assert_int_equal(fclose(f), 0);
}

/* One bit in every tensor, at its ends and anywhere in it; then two rows that change places. */
static void any_byte(void **state)
{
	static uint8_t bytes[1 << 16];
	const struct place *p = *state;
	struct cohort_model_params mp = model_params();
	struct cohort_gguf *g = NULL;
	struct cohort_gguf_tensor t;
	struct cohort_err err;
	float logits[N_VOCAB];
	struct rng r;

	rng_init(&r, 29, 0);
	make_model(p->path, "Q4_K_M", false);
	struct cohort_model *m = open_model(p->path, &mp);
	struct cohort_context *c = open_context(m, NULL, NULL);
	decode(c, logits);
	const size_t n = save(c, bytes);
	cohort_context_free(c);
	cohort_model_free(m);
	if (cohort_gguf_open(p->path, &g, &err))
		fail_msg("%s", err.text);
	for (size_t i = 0; cohort_gguf_tensor_get(g, i, &t); i++) {
		const uint64_t places[] = {0, t.n_bytes - 1, rng_u32(&r) % t.n_bytes, rng_u32(&r) % t.n_bytes,
				rng_u32(&r) % t.n_bytes, rng_u32(&r) % t.n_bytes};
		for (size_t k = 0; k < sizeof places / sizeof *places; k++) {
			flip(p->path, t.offset + places[k]);
			mp.file_layout = k == 3;
			mp.no_mmap = k == 4;
			if (takes(p->path, &mp, k % 2, bytes, n))
				fail_msg("byte %llu of %.*s does not count", (unsigned long long)places[k],
						(int)t.n_name, t.name);
			flip(p->path, t.offset + places[k]);
		}
	}
	assert_true(takes(p->path, &mp, false, bytes, n));
	/* The first two rows of a matrix of floats' worth of bytes: what they hold is the same, but not where. */
	uint8_t *file = NULL, row[2048];
	size_t n_file;
	assert_int_equal(file_load(p->path, SIZE_MAX, &file, &n_file, &err), COHORT_OK);
	for (size_t i = 0; cohort_gguf_tensor_get(g, i, &t); i++) {
		const size_t n_row = (size_t)(t.n_bytes / t.ne[1]);
		uint8_t *at = file + t.offset;
		if (t.n_dims != 2 || memcmp(at, at + n_row, n_row) == 0)
			continue;
		assert_true(n_row <= sizeof row);
		memcpy(row, at, n_row);
		memmove(at, at + n_row, n_row);
		memcpy(at + n_row, row, n_row);
		assert_int_equal(file_write_atomic(p->path, file, n_file, &err), COHORT_OK);
		assert_false(takes(p->path, &mp, true, bytes, n));
		memcpy(at + n_row, at, n_row);
		memcpy(at, row, n_row);
	}
	mem_free(file);
	cohort_gguf_free(g);
}

/* The adapter's bytes count like the model's. */
static void adapter_bytes_count_as_the_models(void **state)
{
	static uint8_t bytes[1 << 16];
	const struct place *p = *state;
	char base[200], lora[200];
	const char *const paths[] = {p->path};
	struct cohort_model_params mp = model_params();
	struct cohort_gguf *g = NULL;
	struct cohort_gguf_tensor t;
	struct cohort_err err;
	uint8_t *file = NULL;
	size_t n_file;

	arch_path(base, sizeof base, "llama-base", "gguf");
	arch_path(lora, sizeof lora, "llama-lora", "gguf");
	if (file_load(lora, SIZE_MAX, &file, &n_file, &err) || file_write_atomic(p->path, file, n_file, &err) ||
			cohort_gguf_open(p->path, &g, &err))
		fail_msg("%s", err.text);
	mem_free(file);
	mp.adapters = paths;
	mp.n_adapters = 1;
	struct cohort_model *m = open_model(base, &mp);
	struct cohort_context *c = open_context(m, NULL, NULL);
	static const cohort_token tokens[N_TOKENS] = {5, 6, 7, 150, 151, 7};
	assert_int_equal(cohort_decode_many(c, tokens, N_TOKENS, 0, 0, NULL), COHORT_OK);
	const size_t n = save(c, bytes);
	cohort_context_free(c);
	cohort_model_free(m);
	assert_true(takes(base, &mp, false, bytes, n));
	for (size_t i = 0; cohort_gguf_tensor_get(g, i, &t); i++)
		for (size_t k = 0; k < 3; k++) {
			const uint64_t at = t.offset + k * (t.n_bytes - 1) / 2;
			flip(p->path, at);
			assert_false(takes(base, &mp, false, bytes, n));
			flip(p->path, at);
		}
	mp.n_adapters = 0;
	assert_false(takes(base, &mp, false, bytes, n));
	cohort_gguf_free(g);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(any_set, setup, teardown),
		cmocka_unit_test_setup_teardown(packed_matrices_fill_their_piece, setup, teardown),
		cmocka_unit_test_setup_teardown(half_packed_matrix_is_exact, setup, teardown),
		cmocka_unit_test_setup_teardown(contexts_together, setup, teardown),
		cmocka_unit_test_setup_teardown(packing_aborted_at_every_step, setup, teardown),
		cmocka_unit_test_setup_teardown(model_open_out_of_memory_while_repacking, setup, teardown),
		cmocka_unit_test_setup_teardown(warm_up, setup, teardown),
		cmocka_unit_test_setup_teardown(idle_engine, setup, teardown),
		cmocka_unit_test_setup_teardown(same_model, setup, teardown),
		cmocka_unit_test_setup_teardown(any_byte, setup, teardown),
		cmocka_unit_test_setup_teardown(adapter_bytes_count_as_the_models, setup, teardown),
	};
	return cmocka_run_group_tests_name("repack", tests, arch_make_models, arch_remove_models);
}
