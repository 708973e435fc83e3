/* Models as files: whole or in parts, mapped or copied, in the file's layout or repacked, locked or not, a model gives
 * the same bits; files without weights serve to tokenise and nothing else.
 *
 * Shown red by forgetting the embedding's pages of a copy once it is packed (same_bits, tied), by no_mmap that maps
 * all the same (outlives_its_file, model_in_parts_out_of_memory_at_every_point), by weights that stay locked
 * (model_files_are_locked, lock_refused), by a refused lock whose note does not name the limit (lock_refused), by
 * split keys that quantising copies and by a part that it may write over (quantises_parts), by leaving out the look at
 * files without tensors (vocabulary_only), by stages of loading that begin at 0 again and by an abort that leaves
 * locks behind (progress_of_loading_rises).
 *
 * With --split IN PREFIX N it splits a file instead, for the tests of the programs (N = 0: the vocabulary alone).  */
#include "load_case.h"
#include "quantize_case.h"
#include "split_case.h"

#include "base/map.h"

#include <errno.h>
#include <inttypes.h>

enum { N_TOKENS = 8, N_PARTS = 3, N_VOCAB = 300 };

static const char *part_of(const struct place *p, size_t i)
{
	static char path[128];
	snprintf(path, sizeof path, "%s/m-%05zu-of-%05d.gguf", p->dir, i + 1, N_PARTS);
	return path;
}

static void split_input(const struct place *p)
{
	char prefix[96];
	struct cohort_err err;
	snprintf(prefix, sizeof prefix, "%s/m", p->dir);
	if (split_file(input_of(p), prefix, N_PARTS, &err))
		fail_msg("%s", err.text);
}

static int teardown_all(void **state)
{
	map_lock_fail(0);
	for (size_t i = 0; i < N_PARTS; i++)
		unlink(part_of(*state, i));
	return teardown_both(state);
}

static void run(const struct cohort_model *m, float out[N_VOCAB])
{
	static const cohort_token tokens[N_TOKENS] = {5, 299, 7, 150, 151, 7, 42, 260};
	struct cohort_context_params cp;
	struct cohort_context *c = NULL;
	struct cohort_batch b;
	struct cohort_err err;

	cohort_context_params_init(&cp);
	cp.n_threads = 1;
	cp.n_ctx = 64;
	if (cohort_context_open(m, &cp, &c, &err) || cohort_batch_from_tokens(&b, tokens, N_TOKENS, &err) ||
			cohort_decode(c, &b, &err))
		fail_msg("%s", err.text);
	memcpy(out, cohort_logits_get(c, N_TOKENS - 1, NULL), N_VOCAB * sizeof *out);
	cohort_batch_release(&b);
	cohort_context_free(c);
}

static const char *note_of(const struct cohort_model *m)
{
	struct cohort_model_info info;
	cohort_model_info_get(m, &info);
	return info.note;
}

/* Bytes that this process has locked. */
static uint64_t n_locked(void)
{
	char line[256];
	uint64_t kb = UINT64_MAX;
	FILE *f = fopen("/proc/self/status", "r");

	assert_non_null(f);
	while (kb == UINT64_MAX && fgets(line, sizeof line, f))
		if (sscanf(line, "VmLck: %" SCNu64, &kb) != 1)
			kb = UINT64_MAX;
	fclose(f);
	return kb << 10;
}

/* ---- Cases ---- */

static void same_bits(void **state)
{
	static const char *const types[] = {"Q4_0", "Q4_K_M", "F16"};
	const struct place *p = *state;
	float want[N_VOCAB], got[N_VOCAB];
	size_t n = 0;

	for (size_t t = 0; t < 6; t++) {
		struct cohort_synth_params sp = tiny(types[t / 2]);
		struct cohort_model_params mp = model_params();
		sp.tied = t % 2;
		make_input(p, &sp);
		split_input(p);
		struct cohort_model *m = open_model(input_of(p), &mp);
		run(m, want);
		cohort_model_free(m);
		for (size_t k = 0; k < cohort_isa_count() * 16; k++) {
			mp.isa = cohort_isa_name(k / 16);
			mp.file_layout = k & 1;
			mp.no_mmap = k & 2;
			mp.mlock = k & 4;
			if (!cohort_isa_usable(k / 16))
				continue;
			m = open_model(k & 8 ? part_of(p, k % N_PARTS) : input_of(p), &mp);
			run(m, got);
			if (memcmp(got, want, sizeof want) != 0)
				fail_msg("%s%s, %s%s%s%s%s: other bits", types[t / 2], sp.tied ? ", tied" : "", mp.isa,
						mp.file_layout ? ", file's layout" : "", mp.no_mmap ? ", copied" : "",
						mp.mlock ? ", locked" : "", k & 8 ? ", in parts" : "");
			cohort_model_free(m);
			n++;
		}
	}
	assert_true(n >= 6 * 16);
}

/* A copy needs the file no more: neither when it is cut nor when it is gone. */
static void outlives_its_file(void **state)
{
	const struct place *p = *state;
	const struct cohort_synth_params sp = tiny("Q4_0");
	struct cohort_model_params mp = model_params();
	float want[N_VOCAB], got[N_VOCAB];

	make_input(p, &sp);
	split_input(p);
	for (int layout = 0; layout < 2; layout++) {
		mp.no_mmap = true;
		mp.file_layout = layout;
		struct cohort_model *m = open_model(input_of(p), &mp);
		struct cohort_model *parts = open_model(part_of(p, 0), &mp);
		run(m, want);
		assert_int_equal(truncate(input_of(p), 0), 0);
		for (size_t i = 0; i < N_PARTS; i++)
			unlink(part_of(p, i));
		run(m, got);
		assert_memory_equal(got, want, sizeof want);
		run(parts, got);
		assert_memory_equal(got, want, sizeof want);
		cohort_model_free(m);
		cohort_model_free(parts);
		make_input(p, &sp);
		split_input(p);
	}
}

static void model_files_are_locked(void **state)
{
	const struct place *p = *state;
	const struct cohort_synth_params sp = tiny("Q8_0");
	struct cohort_model_params mp = model_params();
	struct cohort_model_info info;
	const uint64_t before = n_locked();

	/* Under a limit of less than the model the next case tells all there is; sanitizers make locking do nothing. */
	const size_t n_probe = 4 << 20;
	char *probe = mem_zalloc(n_probe, 1);
	assert_non_null(probe);
	const bool can = map_lock(probe, n_probe) == 0 && n_locked() > before;
	map_unlock(probe, n_probe);
	mem_free(probe);
	if (!can)
		skip();
	assert_int_equal(n_locked(), before);
	assert_int_equal(map_lock((const void *)4096, 4096), ENOMEM); /* nothing is there */
	make_input(p, &sp);
	mp.mlock = true;
	for (int k = 0; k < 4; k++) {
		mp.file_layout = k & 1;
		mp.no_mmap = k & 2;
		struct cohort_model *m = open_model(input_of(p), &mp);
		cohort_model_info_get(m, &info);
		assert_string_equal(info.note, "");
		const uint64_t at_least = mp.file_layout ? info.weight_bytes : info.packed_bytes;
		assert_true(at_least > 1 << 20);
		if (n_locked() < before + at_least)
			fail_msg("%d: %" PRIu64 " bytes locked of %" PRIu64, k, n_locked() - before, at_least);
		cohort_model_free(m);
		assert_int_equal(n_locked(), before);
	}
	mp.vocab_only = true;
	struct cohort_model *m = open_model(input_of(p), &mp);
	assert_int_equal(n_locked(), before);
	cohort_model_free(m);
}

static void lock_refused(void **state)
{
	const struct place *p = *state;
	const struct cohort_synth_params sp = tiny("Q8_0");
	struct cohort_model_params mp = model_params();
	float want[N_VOCAB], got[N_VOCAB];

	make_input(p, &sp);
	struct cohort_model *m = open_model(input_of(p), &mp);
	run(m, want);
	cohort_model_free(m);
	mp.mlock = true;
	map_lock_fail(ENOMEM);
	const uint64_t before = n_locked();
	m = open_model(input_of(p), &mp);
	const char *note = note_of(m);
	if (!strstr(note, "MiB) are not locked in memory: Cannot allocate memory"))
		fail_msg("'%s'", note);
	if (map_lock_limit() != UINT64_MAX && !strstr(note, "; the limit is "))
		fail_msg("'%s'", note);
	assert_int_equal(n_locked(), before);
	run(m, got);
	assert_memory_equal(got, want, sizeof want);
	cohort_model_free(m);
}

static void quantises_parts(void **state)
{
	const struct place *p = *state;
	const struct cohort_synth_params sp = tiny("F16");
	const struct cohort_quantize_params qp = params_of("Q4_K_M");
	struct cohort_err err;
	size_t n_one, n_parts;

	make_input(p, &sp);
	split_input(p);
	quantize(p, &qp);
	uint8_t *one = load(p->path, &n_one);
	if (cohort_quantize_write(part_of(p, 1), p->path, &qp, NULL, &err))
		fail_msg("%s", err.text);
	uint8_t *parts = load(p->path, &n_parts);
	assert_int_equal(n_parts, n_one);
	assert_memory_equal(parts, one, n_one);
	mem_free(one);
	mem_free(parts);
	/* No part is written over. */
	char out[128];
	for (size_t i = 0; i < N_PARTS; i++) {
		snprintf(out, sizeof out, "%s", part_of(p, i));
		assert_int_equal(cohort_quantize_write(part_of(p, 0), out, &qp, NULL, &err), COHORT_E_ARG);
		assert_non_null(strstr(err.text, "is the input itself"));
	}
}

/* What cohort_gguf_* tells of parts. */
static void shows_parts(void **state)
{
	const struct place *p = *state;
	const struct cohort_synth_params sp = tiny("Q4_0");
	struct cohort_gguf_tensor t, u;
	struct cohort_gguf_part part;
	uint64_t n_bytes = 0;
	size_t n_tensors = 0, n_one;

	make_input(p, &sp);
	split_input(p);
	struct cohort_gguf *one = open_file(input_of(p)), *g = open_file(part_of(p, 2));
	uint8_t *file = load(input_of(p), &n_one);
	assert_int_equal(cohort_gguf_n_parts(one), 1);
	assert_int_equal(cohort_gguf_n_parts(g), N_PARTS);
	assert_int_equal(cohort_gguf_n_tensors(g), cohort_gguf_n_tensors(one));
	for (size_t i = 0; cohort_gguf_part_get(g, i, &part); i++) {
		assert_string_equal(part.path, part_of(p, i));
		n_bytes += part.file_bytes;
		size_t n;
		uint8_t *d = load(part.path, &n);
		assert_int_equal(n, part.file_bytes);
		for (size_t k = 0; k < part.n_tensors; k++) {
			assert_true(cohort_gguf_tensor_get(g, n_tensors, &t));
			assert_true(cohort_gguf_tensor_get(one, n_tensors++, &u));
			assert_int_equal(t.part, i);
			assert_int_equal(u.part, 0);
			assert_int_equal(t.n_name, u.n_name);
			assert_memory_equal(t.name, u.name, t.n_name);
			assert_true(t.offset >= part.data_offset && t.offset + t.n_bytes <= n);
			assert_memory_equal(d + t.offset, file + u.offset, t.n_bytes);
		}
		mem_free(d);
	}
	assert_int_equal(n_tensors, cohort_gguf_n_tensors(g));
	assert_int_equal(n_bytes, cohort_gguf_file_bytes(g));
	assert_int_equal(n_one, cohort_gguf_file_bytes(one));
	assert_false(cohort_gguf_part_get(g, N_PARTS, &part));
	assert_false(cohort_gguf_part_get(one, 1, &part));
	mem_free(file);
	cohort_gguf_free(g);
	cohort_gguf_free(one);
}

static void vocabulary_only(void **state)
{
	static const char text[] = "Once upon a time, there was";
	const struct place *p = *state;
	const char *source = getenv("COHORT_SOURCE");
	struct cohort_model_params mp = model_params();
	struct cohort_model *m = NULL;
	cohort_token want[64], got[64];
	size_t n_want, n_got;
	struct cohort_err err;
	char tiny_path[4096];

	snprintf(tiny_path, sizeof tiny_path, "%s/models/cohort-tiny.gguf", source ? source : ".");
	if (split_file(tiny_path, p->path, 0, &err))
		fail_msg("%s", err.text);
	assert_int_equal(cohort_model_open(p->path, &mp, &m, &err), COHORT_E_UNSUPPORTED);
	assert_non_null(strstr(err.text, p->path));
	assert_non_null(strstr(err.text, "has no weights: it is a vocabulary"));
	mp.vocab_only = true;
	for (int k = 0; k < 2; k++) {
		mp.no_mmap = k;
		m = open_model(tiny_path, &mp);
		assert_int_equal(cohort_tokenize(m, text, strlen(text), 0, want, 64, &n_want, &err), COHORT_OK);
		cohort_model_free(m);
		m = open_model(p->path, &mp);
		assert_int_equal(cohort_tokenize(m, text, strlen(text), 0, got, 64, &n_got, &err), COHORT_OK);
		assert_int_equal(n_got, n_want);
		assert_memory_equal(got, want, n_want * sizeof *want);
		struct cohort_context_params cp;
		struct cohort_context *c = NULL;
		cohort_context_params_init(&cp);
		assert_int_not_equal(cohort_context_open(m, &cp, &c, &err), COHORT_OK);
		assert_null(c);
		cohort_model_free(m);
	}
	/* Neither weights nor a vocabulary. */
	struct cohort_gguf_writer *w = NULL;
	assert_int_equal(cohort_gguf_writer_open(p->path, &w, &err), COHORT_OK);
	assert_int_equal(cohort_gguf_writer_str(w, "general.architecture", "llama", &err), COHORT_OK);
	assert_int_equal(cohort_gguf_writer_begin(w, &err), COHORT_OK);
	assert_int_equal(cohort_gguf_writer_finish(w, &err), COHORT_OK);
	cohort_gguf_writer_free(w);
	mp.vocab_only = false;
	assert_int_equal(cohort_model_open(p->path, &mp, &m, &err), COHORT_E_UNSUPPORTED);
	assert_non_null(strstr(err.text, "has no weights"));
	assert_null(strstr(err.text, "vocabulary"));
}

struct calls {
	float last;
	int n, stop_at; /* stop_at: the call that aborts; negative: none */
};

static bool rises(float done, void *user)
{
	struct calls *c = user;
	if (!(done > c->last && done <= 1.0f))
		fail_msg("call %d: %g after %g", c->n, (double)done, (double)c->last);
	c->last = done;
	return c->n++ != c->stop_at;
}

/* However a model is loaded, progress rises to 1, and every call may abort. */
static void progress_of_loading_rises(void **state)
{
	const struct place *p = *state;
	const struct cohort_synth_params sp = tiny("Q4_0");
	struct cohort_model_params mp = model_params();
	struct cohort_model *m = NULL;
	struct cohort_err err;
	const uint64_t before = n_locked();

	make_input(p, &sp);
	split_input(p);
	for (int k = 0; k < 16; k++) {
		const char *path = k & 8 ? part_of(p, (size_t)k % N_PARTS) : input_of(p);
		mp.file_layout = k & 1;
		mp.no_mmap = k & 2;
		mp.mlock = k & 4;
		mp.progress = rises;
		struct calls all = {.stop_at = -1};
		mp.progress_user = &all;
		cohort_model_free(open_model(path, &mp));
		assert_true(all.last == 1.0f);
		/* Copying ends at a half or a third, and each part is a step. */
		assert_true(all.n > (mp.no_mmap ? (k & 8 ? N_PARTS : 1) : 0) + 15);
		for (int i = 0; i < all.n; i++) {
			struct calls c = {.stop_at = i};
			mp.progress_user = &c;
			assert_int_equal(cohort_model_open(path, &mp, &m, &err), COHORT_ABORTED);
			assert_null(m);
			assert_int_equal(c.n, i + 1);
			assert_non_null(strstr(err.text, "aborted"));
			assert_int_equal(n_locked(), before);
		}
	}
}

/* A model in parts, copied and locked, with every allocation failing once. */
static void model_in_parts_out_of_memory_at_every_point(void **state)
{
	const struct place *p = *state;
	const struct cohort_synth_params sp = tiny("Q4_0");
	struct cohort_model_params mp = model_params();
	struct cohort_model *m = NULL;
	struct cohort_err err;

	make_input(p, &sp);
	split_input(p);
	mp.mlock = true;
	cohort_model_free(open_model(part_of(p, 0), &mp)); /* what is done once per process is done */
	for (int copy = 0; copy < 2; copy++) {
		const uint64_t before = n_locked();
		int64_t n = 0;
		mp.no_mmap = copy;
		for (;; n++) {
			mem_fail_after(n);
			const enum cohort_status st = cohort_model_open(part_of(p, 0), &mp, &m, &err);
			mem_fail_after(-1);
			if (!st)
				break;
			assert_int_equal(st, COHORT_E_MEMORY);
			assert_int_equal(n_locked(), before);
		}
		assert_true(n > 20);
		cohort_model_free(m);
		m = NULL;
	}
	for (int64_t n = 0; n < 3 * N_PARTS; n++) {
		file_fail_after(n, EIO);
		assert_int_equal(cohort_model_open(part_of(p, 0), &mp, &m, &err), COHORT_E_IO);
		assert_non_null(strstr(err.text, part_of(p, (size_t)n / 3)));
		assert_null(m);
	}
	file_fail_after(-1, 0);
}

/* What -device takes for a model of eight layers, and what it says of a list that does not fit. Seen red with the
 * bounds of context_divide one off, and without its refusals. */
static void device_lists(void **state)
{
#define NUMBER "a number of layers was expected after ':', as in cpu:8"
#define MODEL "the model has 8 layers, and "
#define DIVIDES MODEL "the list does not divide them; leave out the last number"
#define NEEDED MODEL "all but the last device need a number of layers, as in cpu:8,cpu"
	static const struct {
		const char *list, *text; /* NULL: it is taken */
	} rows[] = {
		{NULL, NULL}, {"cpu", NULL}, {"cpu:8", NULL}, {"cpu:1,cpu", NULL}, {"cpu:7,cpu", NULL},
		{"cpu:7,cpu:1", NULL}, {"cpu:1,cpu:1,cpu:1,cpu:1,cpu:1,cpu:1,cpu:1,cpu:1", NULL},
		{"", "device '' is not known; known: cpu"},
		{"cp", "device 'cp' is not known; known: cpu"},
		{"cpu0", "device 'cpu0' is not known; known: cpu"},
		{"cpu:1,gpu", "device 'gpu' is not known; known: cpu"},
		{"cpu:", "device list 'cpu:': " NUMBER},
		{"cpu:x", "device list 'cpu:x': " NUMBER},
		{"cpu:-1", "device list 'cpu:-1': " NUMBER},
		{"cpu:2,cpu:1x", "device list 'cpu:1x': " NUMBER},
		{"cpu:99999999999", "device list 'cpu:99999999999': " NUMBER},
		{"cpu:7", "device list 'cpu:7': " DIVIDES},
		{"cpu:9", "device list 'cpu:9': " DIVIDES},
		{"cpu:9,cpu", "device list 'cpu:9,cpu': " DIVIDES},
		{"cpu:7,cpu:2", "device list 'cpu:7,cpu:2': " DIVIDES},
		{"cpu,cpu", "device list 'cpu,cpu': " NEEDED},
		{"cpu:0,cpu", "device list 'cpu:0,cpu': " MODEL "one device has none"},
		{"cpu:8,cpu", "device list 'cpu:8,cpu': " MODEL "one device has none"},
	};
	const char *source = getenv("COHORT_SOURCE");
	char path[1024], long_list[8 * 64] = "cpu:1";
	struct cohort_model_params p;
	struct cohort_model *m = NULL;
	struct cohort_err err;
	(void)state;

	snprintf(path, sizeof path, "%s/models/cohort-tiny.gguf", source ? source : ".");
	cohort_model_params_init(&p);
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		p.device = rows[i].list;
		const enum cohort_status st = cohort_model_open(path, &p, &m, &err);
		if ((st == COHORT_OK) != !rows[i].text)
			fail_msg("list %s: %s", p.device ? p.device : "none", st ? err.text : "taken");
		if (rows[i].text) {
			assert_int_equal(st, COHORT_E_ARG);
			assert_non_null(strstr(err.text, rows[i].text));
			assert_string_equal(strstr(err.text, rows[i].text), rows[i].text);
			continue;
		}
		assert_int_equal(st, COHORT_OK);
		cohort_model_free(m);
	}
	for (size_t i = 1; i < 9; i++)
		strcat(long_list, ",cpu:1");
	p.device = long_list;
	assert_int_equal(cohort_model_open(path, &p, &m, &err), COHORT_E_LIMIT);
	assert_non_null(strstr(err.text, "device list: more than 8 devices"));
#undef NUMBER
#undef MODEL
#undef DIVIDES
#undef NEEDED
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(same_bits, setup, teardown_all),
		cmocka_unit_test_setup_teardown(outlives_its_file, setup, teardown_all),
		cmocka_unit_test_setup_teardown(model_files_are_locked, setup, teardown_all),
		cmocka_unit_test_setup_teardown(lock_refused, setup, teardown_all),
		cmocka_unit_test_setup_teardown(quantises_parts, setup, teardown_all),
		cmocka_unit_test_setup_teardown(shows_parts, setup, teardown_all),
		cmocka_unit_test_setup_teardown(vocabulary_only, setup, teardown_all),
		cmocka_unit_test_setup_teardown(progress_of_loading_rises, setup, teardown_all),
		cmocka_unit_test(device_lists),
		cmocka_unit_test_setup_teardown(model_in_parts_out_of_memory_at_every_point, setup, teardown_all),
	};
	struct cohort_err err;

	if (argc == 5 && strcmp(argv[1], "--split") == 0) {
		if (!split_file(argv[2], argv[3], (size_t)atoi(argv[4]), &err))
			return 0;
		fprintf(stderr, "%s\n", err.text);
		return 1;
	}
	return cmocka_run_group_tests_name("model_files", tests, NULL, NULL);
}
