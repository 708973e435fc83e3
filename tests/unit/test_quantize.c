/* Quantising files: every mix gives a model that loads, with the keys of the input and, tensor by tensor, the bytes
 * that converting it in one go gives; the errors reported are those of the bytes; and whatever is refused or fails
 * leaves nothing behind and the input alone. test_quantize_types.c has which tensor gets which format.
 *
 * Shown red by a chunk that forgets its place in the piece (every_mix, quantize_same_bytes_with_any_threads
 * and most others), by floats that depend
 * on the thread (quantize_same_bytes_with_any_threads, report), by a piece that begins at its predecessor's source
 * (quantize_same_bytes_with_any_threads, report, quantize_names_the_element_that_is_no_number), by general.file_type
 * copied (every_mix, odd_file), by sums of errors from the last piece alone and by one element left out of them
 * (report), by copied tensors that are not looked at and an element counted from its chunk
 * (quantize_names_the_element_that_is_no_number), by leaving out the look at equal files (same_file), by requantising
 * without leave (requantize), by one of several files taken for a whole (bad_contents), by an abort that is not heeded
 * (aborts), by a writer that is not freed when something went wrong (aborts, quantize_fails_at_every_call,
 * quantize_names_the_element_that_is_no_number), and by a search for scale and minimum without tries
 * (quantized_files_are_those_of_peer). */
#include "effort.h"
#include "quantize_case.h"
#include "quant_case.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "cohort_tools.h"
#include "model/mix.h"
#include "quant/quant.h"

#define PIECE (128u * 8192u) /* elements that quantize.c converts together */

static size_t n_elems(const struct cohort_gguf_tensor *t)
{
	return (size_t)(t->ne[0] * t->ne[1] * t->ne[2] * t->ne[3]);
}

/* The floats of a tensor in a file's bytes; freed by the caller. */
static float *floats_of(const uint8_t *file, const struct cohort_gguf_tensor *t)
{
	float *x = malloc(n_elems(t) * sizeof *x);
	assert_non_null(x);
	quant_format_get(t->type)->to_f32(file + t->offset, x, n_elems(t));
	return x;
}

/* ---- What is written ---- */

static bool is_key(const struct cohort_gguf_kv *kv, const char *key)
{
	return kv->n_key == strlen(key) && memcmp(kv->key, key, kv->n_key) == 0;
}

static void check_keys(const struct cohort_gguf *in, const struct cohort_gguf *out, const struct mix *mix)
{
	struct cohort_gguf_kv a, b;
	size_t k = 0;
	for (size_t i = 0; cohort_gguf_kv_get(in, i, &a); i++) {
		if (is_key(&a, "general.file_type") || is_key(&a, "general.quantization_version"))
			continue;
		assert_true(cohort_gguf_kv_get(out, k++, &b));
		assert_int_equal(a.n_key, b.n_key);
		assert_memory_equal(a.key, b.key, a.n_key);
		assert_int_equal(a.value.type, b.value.type);
		assert_int_equal(a.value.u, b.value.u);
		assert_int_equal(a.value.i, b.value.i);
		assert_memory_equal(&a.value.f, &b.value.f, sizeof a.value.f);
		assert_int_equal(a.value.n_str, b.value.n_str);
		if (a.value.n_str)
			assert_memory_equal(a.value.str, b.value.str, a.value.n_str);
		assert_int_equal(a.value.elem_type, b.value.elem_type);
		assert_int_equal(a.value.n_elems, b.value.n_elems);
		assert_int_equal(a.value.data_bytes, b.value.data_bytes);
		if (a.value.data_bytes)
			assert_memory_equal(a.value.data, b.value.data, a.value.data_bytes);
	}
	assert_true(cohort_gguf_kv_get(out, k, &b) && is_key(&b, "general.quantization_version"));
	assert_int_equal(b.value.type, COHORT_GGUF_U32);
	assert_int_equal(b.value.u, 2);
	assert_true(cohort_gguf_kv_get(out, k + 1, &b) && is_key(&b, "general.file_type"));
	assert_int_equal(b.value.type, COHORT_GGUF_U32);
	assert_int_equal(b.value.u, mix->file_type);
	assert_int_equal(cohort_gguf_n_kv(out), k + 2);
}

/* Each tensor is what its format makes of the whole of it at once. */
static void check_data(const struct place *p)
{
	struct cohort_gguf *in = open_file(input_of(p)), *out = open_file(p->path);
	struct cohort_gguf_tensor a, b;
	size_t n;
	uint8_t *x = load(input_of(p), &n), *y = load(p->path, &n);
	assert_int_equal(cohort_gguf_n_tensors(in), cohort_gguf_n_tensors(out));
	for (size_t i = 0; cohort_gguf_tensor_get(in, i, &a); i++) {
		assert_true(cohort_gguf_tensor_get(out, i, &b));
		assert_int_equal(a.n_name, b.n_name);
		assert_memory_equal(a.name, b.name, a.n_name);
		assert_int_equal(a.n_dims, b.n_dims);
		assert_memory_equal(a.ne, b.ne, sizeof a.ne);
		if (a.n_dims == 1)
			assert_int_equal(a.type, b.type);
		if (a.type == b.type) {
			assert_memory_equal(x + a.offset, y + b.offset, a.n_bytes);
			continue;
		}
		float *f = floats_of(x, &a);
		uint8_t *want = malloc((size_t)b.n_bytes);
		assert_non_null(want);
		quant_format_get(b.type)->from_f32(f, want, n_elems(&b));
		if (memcmp(want, y + b.offset, (size_t)b.n_bytes) != 0)
			fail_msg("%.*s: other bytes than in one go", (int)b.n_name, b.name);
		free(want);
		free(f);
	}
	mem_free(x);
	mem_free(y);
	cohort_gguf_free(in);
	cohort_gguf_free(out);
}

static void every_mix(void **state)
{
	const struct place *p = *state;
	static const char *const sources[] = {"F32", "F16", "BF16"};
	for (size_t i = 0; cohort_mix_name(i); i += effort_is("short") ? 7 : 1) {
		struct cohort_synth_params sp = tiny(sources[i % 4 % 3]);
		struct cohort_quantize_params qp = params_of(cohort_mix_name(i));
		struct cohort_model *m = NULL;
		struct cohort_err err;
		sp.tied = i % 2;
		if (i % 4 == 3) { /* rows that are no whole blocks of 256, and some that are none of 32 */
			sp.n_embd = 96;
			sp.n_ff = 90;
		}
		make_input(p, &sp);
		quantize(p, &qp);
		struct cohort_gguf *in = open_file(input_of(p)), *out = open_file(p->path);
		check_keys(in, out, mix_find(qp.type));
		cohort_gguf_free(in);
		cohort_gguf_free(out);
		check_data(p);
		if (cohort_model_open(p->path, NULL, &m, &err))
			fail_msg("%s: %s", qp.type, err.text);
		cohort_model_free(m);
	}
}

/* Strings of any bytes, lists of lists and an alignment of its own come over; a list of three dimensions does, too. */
static void odd_file(void **state)
{
	const struct place *p = *state;
	struct cohort_gguf_writer *w = NULL;
	static float x[256 * 3 * 5];
	const uint64_t ne[] = {256, 3, 5};
	const struct cohort_gguf_kv raw = {.key = "a\xff\x01", .n_key = 3,
			.value = {.type = COHORT_GGUF_STRING, .str = "\0\xfe", .n_str = 2}};
	/* [[7], []] of u8 */
	static const uint8_t lists[] = {0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0};
	const struct cohort_gguf_kv nested = {.key = "b", .n_key = 1, .value = {.type = COHORT_GGUF_ARRAY,
			.elem_type = COHORT_GGUF_ARRAY, .n_elems = 2, .data = lists, .data_bytes = sizeof lists}};
	for (size_t i = 0; i < sizeof x / sizeof *x; i++)
		x[i] = sinf((float)i);
	assert_int_equal(cohort_gguf_writer_open(input_of(p), &w, NULL), COHORT_OK);
	assert_int_equal(cohort_gguf_writer_u64(w, "general.file_type", 3, NULL), COHORT_OK);
	assert_int_equal(cohort_gguf_writer_kv(w, &raw, NULL), COHORT_OK);
	assert_int_equal(cohort_gguf_writer_u32(w, "general.alignment", 64, NULL), COHORT_OK);
	assert_int_equal(cohort_gguf_writer_kv(w, &nested, NULL), COHORT_OK);
	assert_int_equal(cohort_gguf_writer_tensor(w, "blk.0.ffn_up_exps.weight", 0, 3, ne, NULL), COHORT_OK);
	assert_int_equal(cohort_gguf_writer_tensor(w, "b.bias", 0, 1, ne, NULL), COHORT_OK);
	assert_int_equal(cohort_gguf_writer_begin(w, NULL), COHORT_OK);
	assert_int_equal(cohort_gguf_writer_data(w, 0, x, sizeof x, NULL), COHORT_OK);
	assert_int_equal(cohort_gguf_writer_data(w, 1, x, 1024, NULL), COHORT_OK);
	assert_int_equal(cohort_gguf_writer_finish(w, NULL), COHORT_OK);
	cohort_gguf_writer_free(w);
	const struct cohort_quantize_params qp = params_of("q6_k");
	quantize(p, &qp);
	struct cohort_gguf *in = open_file(input_of(p)), *out = open_file(p->path);
	assert_int_equal(cohort_gguf_alignment(out), 64);
	check_keys(in, out, mix_find("Q6_K"));
	cohort_gguf_free(in);
	cohort_gguf_free(out);
	check_data(p);
}

/* An embedding of more than one piece, whose last chunk is not full. */
static struct cohort_synth_params large(const char *type)
{
	struct cohort_synth_params sp = tiny(type);
	sp.n_vocab = 4501;
	sp.n_layer = 1;
	assert_true(256 * 4501 > PIECE);
	return sp;
}

static void quantize_same_bytes_with_any_threads(void **state)
{
	const struct place *p = *state;
	static const char *const types[] = {"Q8_0", "BF16", "Q4_K_M", "IQ4_NL"};
#ifdef __SANITIZE_THREAD__
	const size_t n_types = 1;
#else
	const size_t n_types = effort_is("short") ? 2 : 4; /* the searches of the last two take long */
#endif
	static const int32_t counts[] = {1, 2, 5};
	const struct cohort_synth_params sp = large("F32");
	make_input(p, &sp);
	for (size_t i = 0; i < n_types; i++) {
		struct cohort_quantize_params qp = params_of(types[i]);
		uint8_t *first = NULL;
		size_t n_first = 0, n;
		for (size_t k = 0; k < 3; k++) {
			qp.n_threads = counts[k];
			quantize(p, &qp);
			uint8_t *d = load(p->path, &n);
			if (!first) {
				check_data(p);
				first = d;
				n_first = n;
				continue;
			}
			assert_int_equal(n, n_first);
			assert_memory_equal(d, first, n);
			mem_free(d);
		}
		mem_free(first);
	}
}

/* ---- Reports ---- */

#define ROWS_MAX 64

struct notes {
	struct cohort_quantize_tensor rows[ROWS_MAX];
	size_t n;
};

static void note(const struct cohort_quantize_tensor *t, void *user)
{
	struct notes *a = user;
	assert_true(a->n < ROWS_MAX);
	a->rows[a->n++] = *t;
}

static void check_row(const struct cohort_quantize_tensor *r, const uint8_t *x, const struct cohort_gguf_tensor *a,
		const uint8_t *y, const struct cohort_gguf_tensor *b)
{
	float *f = floats_of(x, a), *g = floats_of(y, b);
	double power = 0, diff = 0, max = 0;
	for (size_t i = 0; i < n_elems(a); i++) {
		const double d = (double)f[i] - (double)g[i];
		power += (double)f[i] * (double)f[i];
		diff += d * d;
		max = fmax(max, fabs(d));
	}
	const double want = sqrt(diff / power);
	assert_int_equal(r->n_name, a->n_name);
	assert_int_equal(r->n_dims, a->n_dims);
	assert_memory_equal(r->ne, a->ne, sizeof r->ne);
	assert_string_equal(r->from, a->type_name);
	assert_string_equal(r->to, b->type_name);
	assert_int_equal(r->bytes_before, a->n_bytes);
	assert_int_equal(r->bytes_after, b->n_bytes);
	assert_true(r->max_error == max);
	assert_true(fabs(r->rms_error - want) <= 1e-9 * want); /* the order of a sum is open */
	assert_true((a->type == b->type) == (max == 0));
	free(f);
	free(g);
}

static void report(void **state)
{
	const struct place *p = *state;
	static struct notes a, b;
	struct cohort_synth_params sp = large("F32");
	struct cohort_quantize_params qp = params_of("Q4_K_M");
	struct cohort_gguf_tensor ta, tb;
	struct cohort_quantize_result r, planned;
	size_t n;
	sp.n_ff = 96; /* so that ffn_down falls back */
	make_input(p, &sp);
	a.n = b.n = 0;
	qp.report = note;
	qp.report_user = &a;
	assert_int_equal(cohort_quantize_write(input_of(p), p->path, &qp, &r, NULL), COHORT_OK);
	qp.report_user = &b;
	qp.n_threads = 5;
	quantize(p, &qp);
	uint8_t *x = load(input_of(p), &n), *y = load(p->path, &n);
	struct cohort_gguf *in = open_file(input_of(p)), *out = open_file(p->path);
	uint64_t before = 0, after = 0, weights = 0;
	assert_int_equal(a.n, cohort_gguf_n_tensors(in));
	assert_int_equal(b.n, a.n);
	for (size_t i = 0; cohort_gguf_tensor_get(in, i, &ta); i++) {
		assert_true(cohort_gguf_tensor_get(out, i, &tb));
		check_row(&a.rows[i], x, &ta, y, &tb);
		const bool down = ta.ne[0] == 96;
		if (down)
			assert_string_equal(a.rows[i].instead_of, "Q6_K");
		else
			assert_null(a.rows[i].instead_of);
		/* To the last bit the same with other threads. */
		assert_true(a.rows[i].rms_error == b.rows[i].rms_error);
		assert_true(a.rows[i].max_error == b.rows[i].max_error);
		before += ta.n_bytes;
		after += tb.n_bytes;
		weights += n_elems(&ta);
	}
	assert_int_equal(r.n_tensors, a.n);
	assert_int_equal(r.n_weights, weights);
	assert_int_equal(r.n_converted, a.n - 3); /* all but the norms */
	assert_int_equal(r.n_fallback, 1);
	assert_int_equal(r.bytes_before, before);
	assert_int_equal(r.bytes_after, after);
	mem_free(x);
	mem_free(y);
	cohort_gguf_free(in);
	cohort_gguf_free(out);

	/* A dry run says the same, but for the errors, and writes nothing. */
	unlink(p->path);
	qp.dry_run = true;
	b.n = 0;
	assert_int_equal(cohort_quantize_write(input_of(p), NULL, &qp, &planned, NULL), COHORT_OK);
	assert_int_equal(cohort_quantize_write(input_of(p), p->path, &qp, NULL, NULL), COHORT_OK);
	assert_int_equal(b.n, 2 * a.n);
	assert_memory_equal(&r, &planned, sizeof r);
	for (size_t i = 0; i < a.n; i++) {
		assert_ptr_equal(a.rows[i].to, b.rows[i].to);
		assert_ptr_equal(a.rows[i].instead_of, b.rows[i].instead_of);
		assert_int_equal(a.rows[i].bytes_after, b.rows[i].bytes_after);
		assert_true(b.rows[i].rms_error == 0);
	}
	assert_int_equal(n_in(p->dir), 1);
}

/* ---- Against files made by others ---- */

static const char *const golden_files[][2] = { /* the file, the format */
	{"f16", "F16"}, {"bf16", "BF16"}, {"q4_0", "Q4_0"}, {"q4_1", "Q4_1"}, {"q5_0", "Q5_0"}, {"q5_1", "Q5_1"},
	{"q8_0", "Q8_0"}, {"iq4_nl", "IQ4_NL"}, {"q2_k", "Q2_K"}, {"q3_k", "Q3_K_S"}, {"q4_k", "Q4_K_S"},
	{"q5_k", "Q5_K_S"}, {"q6_k", "Q6_K"}, {"iq4_xs", "IQ4_XS"}, {"tq2_0", "TQ2_0"},
};

static double error_of(const struct gguf_tensor *t, const struct gguf_tensor *base)
{
	const size_t n = (size_t)(t->ne[0] * t->ne[1]);
	float *x = malloc(n * sizeof *x), *y = malloc(n * sizeof *y);
	double power = 0, diff = 0;
	assert_non_null(x);
	assert_non_null(y);
	quant_format_get(base->type)->to_f32(base->data, x, n);
	quant_format_get(t->type)->to_f32(t->data, y, n);
	for (size_t i = 0; i < n; i++) {
		power += (double)x[i] * (double)x[i];
		diff += ((double)x[i] - (double)y[i]) * ((double)x[i] - (double)y[i]);
	}
	free(x);
	free(y);
	return sqrt(diff / power);
}

static void quantized_files_are_those_of_peer(void **state)
{
	const struct place *p = *state;
	char base_path[4096];
	struct gguf base, theirs;
	static struct notes ours;
	path_of("base", base_path, sizeof base_path);
	if (access(base_path, R_OK) != 0) {
		print_message("no %s\n", base_path);
		skip();
	}
	open_golden(&base, "base");
	for (size_t i = 0; i < sizeof golden_files / sizeof *golden_files; i += effort_is("short") ? 3 : 1) {
		struct cohort_quantize_params qp = params_of(golden_files[i][1]);
		struct cohort_gguf_kv kv;
		uint32_t file_type = 0;
		double worst = 0;
		qp.pure = true;
		qp.report = note;
		qp.report_user = &ours;
		ours.n = 0;
		assert_int_equal(cohort_quantize_write(base_path, p->path, &qp, NULL, NULL), COHORT_OK);
		open_golden(&theirs, golden_files[i][0]);
		struct cohort_gguf *out = open_file(p->path);
		assert_int_equal(gguf_get_u32(&theirs, "general.file_type", true, &file_type, NULL), COHORT_OK);
		assert_true(cohort_gguf_kv_find(out, "general.file_type", &kv));
		assert_int_equal(kv.value.u, file_type);
		cohort_gguf_free(out);
		assert_int_equal(ours.n, theirs.n_tensors);
		for (size_t k = 0; k < base.n_tensors; k++) {
			const struct gguf_tensor *t = same_tensor(&theirs, &base.tensors[k]);
			assert_non_null(t);
			assert_string_equal(ours.rows[k].to, quant_format_get(t->type)->name);
			if (t->type == QUANT_F32)
				continue;
			const double ratio = ours.rows[k].rms_error / error_of(t, &base.tensors[k]);
			if (!(ratio <= 1.02)) /* a NaN fails, too */
				fail_msg("%s: %.*s: %.4f times the error", qp.type, (int)t->name.n, t->name.s, ratio);
			worst = fmax(worst, ratio);
		}
		print_message("%-6s: at most %.4f times the golden error\n", qp.type, worst);
		gguf_release(&theirs);
	}
	gguf_release(&base);
}

/* ---- Refusals ---- */

/* Refused with the word in the text; no file came of it, and the input is what it was. */
static void refuse(const struct place *p, const char *in, const char *out, const struct cohort_quantize_params *qp,
		enum cohort_status want, const char *word)
{
	struct cohort_err err = {0};
	struct cohort_quantize_result r = {.n_tensors = 77};
	const bool there = access(input_of(p), F_OK) == 0;
	size_t n = 0, n_now = 0;
	uint8_t *before = there ? load(input_of(p), &n) : NULL;
	const size_t n_files = n_in(p->dir);
	const enum cohort_status st = cohort_quantize_write(in, out, qp, &r, &err);
	if (st != want || !strstr(err.text, word))
		fail_msg("status %d, expected %d; '%s' in '%s'", st, want, word, err.text);
	assert_int_equal(r.n_tensors, 77);
	assert_int_equal(n_in(p->dir), n_files);
	uint8_t *now = there ? load(input_of(p), &n_now) : NULL;
	assert_int_equal(n, n_now);
	if (there)
		assert_memory_equal(before, now, n);
	mem_free(before);
	mem_free(now);
}

static void arguments(void **state)
{
	const struct place *p = *state;
	const struct cohort_synth_params sp = tiny("F32");
	const char *in = input_of(p);
	struct cohort_quantize_params qp = params_of("F16");
	make_input(p, &sp);
	cohort_quantize_params_init(NULL);
	refuse(p, NULL, p->path, &qp, COHORT_E_ARG, "in is NULL");
	refuse(p, in, NULL, &qp, COHORT_E_ARG, "out is NULL");
	refuse(p, in, p->path, NULL, COHORT_E_ARG, "params is NULL");
#define BAD(field, value, word)                                    \
	do {                                                       \
		qp = params_of("Q4_K_M");                          \
		qp.field = value;                                  \
		refuse(p, in, p->path, &qp, COHORT_E_ARG, word);   \
	} while (0)
	BAD(struct_size, 1, "init");
	BAD(type, NULL, "type is NULL");
	BAD(type, "Q4_K_X", "known: F32, F16");
	BAD(n_threads, -1, "n_threads");
	BAD(n_threads, 1025, "n_threads");
	BAD(token_embedding_type, "Q4_K_M", "token embedding: format 'Q4_K_M' is not known; known: F32, F16, Q4_0");
	BAD(output_tensor_type, "", "output matrix: format '' is not known");
}

static void places(void **state)
{
	const struct place *p = *state;
	const struct cohort_synth_params sp = tiny("F16");
	const struct cohort_quantize_params qp = params_of("Q4_0");
	char path[256];
	refuse(p, input_of(p), p->path, &qp, COHORT_E_IO, strerror(ENOENT));
	refuse(p, p->dir, p->path, &qp, COHORT_E_IO, "is a directory");
	make_input(p, &sp);
	refuse(p, input_of(p), p->dir, &qp, COHORT_E_IO, strerror(EISDIR));
	snprintf(path, sizeof path, "%s/no/such.gguf", p->dir);
	refuse(p, input_of(p), path, &qp, COHORT_E_IO, path);
	assert_int_equal(mkfifo(p->path, 0600), 0);
	refuse(p, input_of(p), p->path, &qp, COHORT_E_IO, "not a regular file");
}

static void same_file(void **state)
{
	const struct place *p = *state;
	const struct cohort_synth_params sp = tiny("F32");
	const struct cohort_quantize_params qp = params_of("F16");
	char path[256];
	make_input(p, &sp);
	refuse(p, input_of(p), input_of(p), &qp, COHORT_E_ARG, "is the input itself");
	snprintf(path, sizeof path, "%s/./in.gguf", p->dir);
	refuse(p, input_of(p), path, &qp, COHORT_E_ARG, "is the input itself");
	assert_int_equal(link(input_of(p), p->path), 0);
	refuse(p, input_of(p), p->path, &qp, COHORT_E_ARG, "is the input itself");
}

static void requantize(void **state)
{
	const struct place *p = *state;
	const struct cohort_synth_params sp = tiny("Q8_0");
	struct cohort_quantize_params qp = params_of("Q4_K_M");
	make_input(p, &sp);
	refuse(p, input_of(p), p->path, &qp, COHORT_E_ARG, "tensor 'output.weight': is Q8_0 already");
	qp.dry_run = true;
	refuse(p, input_of(p), p->path, &qp, COHORT_E_ARG, "allow requantising");
	qp.dry_run = false;
	qp.allow_requantize = true;
	quantize(p, &qp);
	check_data(p);
	/* What is in its format already is copied, and needs no leave. */
	qp = params_of("Q8_0");
	quantize(p, &qp);
	check_data(p);
}

static void bad_contents(void **state)
{
	const struct place *p = *state;
	struct cohort_synth_params sp = tiny("F32");
	struct cohort_quantize_params qp = params_of("Q4_K_M");
	struct cohort_gguf_writer *w = NULL;
	const uint64_t ne[] = {32, 2};
	size_t n;
	sp.n_embd = 96;
	make_input(p, &sp);
	qp.token_embedding_type = "Q6_K";
	refuse(p, input_of(p), p->path, &qp, COHORT_E_ARG, "tensor 'token_embd.weight': rows of 96 are no whole");
	qp.token_embedding_type = NULL;
	/* The last byte is missing. */
	uint8_t *d = load(input_of(p), &n);
	assert_int_equal(file_write_atomic(input_of(p), d, n - 1, NULL), COHORT_OK);
	refuse(p, input_of(p), p->path, &qp, COHORT_E_FORMAT, "in.gguf");
	mem_free(d);
	/* A format number that nobody knows here: that of I32, patched in behind the writer's back. */
	assert_int_equal(cohort_gguf_writer_open(input_of(p), &w, NULL), COHORT_OK);
	assert_int_equal(cohort_gguf_writer_tensor(w, "a.weight", 0, 2, ne, NULL), COHORT_OK);
	assert_int_equal(cohort_gguf_writer_begin(w, NULL), COHORT_OK);
	static const uint8_t zeros[256];
	assert_int_equal(cohort_gguf_writer_data(w, 0, zeros, 256, NULL), COHORT_OK);
	assert_int_equal(cohort_gguf_writer_finish(w, NULL), COHORT_OK);
	cohort_gguf_writer_free(w);
	d = load(input_of(p), &n);
	d[24 + 8 + 8 + 4 + 16] = 26;
	assert_int_equal(file_write_atomic(input_of(p), d, n, NULL), COHORT_OK);
	mem_free(d);
	refuse(p, input_of(p), p->path, &qp, COHORT_E_UNSUPPORTED, "tensor 'a.weight': format number 26");
	/* One of three files, under a name that does not tell where the others are. */
	w = NULL;
	assert_int_equal(cohort_gguf_writer_open(input_of(p), &w, NULL), COHORT_OK);
	assert_int_equal(cohort_gguf_writer_u32(w, "split.no", 0, NULL), COHORT_OK);
	assert_int_equal(cohort_gguf_writer_u32(w, "split.count", 3, NULL), COHORT_OK);
	assert_int_equal(cohort_gguf_writer_begin(w, NULL), COHORT_OK);
	assert_int_equal(cohort_gguf_writer_finish(w, NULL), COHORT_OK);
	cohort_gguf_writer_free(w);
	refuse(p, input_of(p), p->path, &qp, COHORT_E_FORMAT, "part 1 of 3 of a split model");
}

/* Puts bytes into the data of tensor i of the input, has it refused, and puts the old ones back. */
static void spoil(const struct place *p, const char *type, size_t i, size_t at, const void *bytes, size_t n_bytes,
		const char *word)
{
	struct cohort_quantize_params qp = params_of(type);
	struct cohort_gguf *g = open_file(input_of(p));
	struct cohort_gguf_tensor t;
	size_t n;
	uint8_t *d = load(input_of(p), &n);
	assert_true(cohort_gguf_tensor_get(g, i, &t));
	assert_true(at + n_bytes <= t.n_bytes);
	memcpy(d + t.offset + at, bytes, n_bytes);
	cohort_gguf_free(g);
	qp.allow_requantize = true;
	for (int32_t k = 1; k <= 3; k += 2) {
		qp.n_threads = k;
		char *spoilt = mem_strndup(input_of(p), strlen(input_of(p)));
		assert_int_equal(file_write_atomic(spoilt, d, n, NULL), COHORT_OK);
		refuse(p, spoilt, p->path, &qp, COHORT_E_FORMAT, word);
		mem_free(spoilt);
	}
	mem_free(d);
}

static void quantize_names_the_element_that_is_no_number(void **state)
{
	const struct place *p = *state;
	const float nan = NAN, inf = -INFINITY;
	const uint16_t inf16 = 0x7c00, nan_b16 = 0x7fc0;
	struct cohort_synth_params sp = large("F32");
	/* Tensor 0 is the embedding, 1 a norm, 2 the output matrix. The second piece, its third chunk. */
	const size_t far = PIECE + 2 * 8192 + 5;
	char word[96];
	snprintf(word, sizeof word, "tensor 'token_embd.weight': element %zu (row %zu, column %zu) is no number", far,
			far / 256, far % 256);
	make_input(p, &sp);
	spoil(p, "Q4_K_M", 0, 4 * far, &nan, 4, word);
	make_input(p, &sp);
	spoil(p, "F32", 0, 4 * far, &nan, 4, word); /* a copy is looked at, too */
	make_input(p, &sp);
	spoil(p, "Q8_0", 1, 4 * 255, &inf, 4, "'output_norm.weight': element 255 (row 0, column 255) is infinite");
	sp = tiny("F16");
	make_input(p, &sp);
	spoil(p, "Q6_K", 2, 0, &inf16, 2, "tensor 'output.weight': element 0 (row 0, column 0) is infinite");
	sp.type = "BF16";
	make_input(p, &sp);
	spoil(p, "F16", 2, 2 * (300 * 256 - 1), &nan_b16, 2, "element 76799 (row 299, column 255) is no number");
	sp.type = "Q8_0";
	make_input(p, &sp);
	spoil(p, "Q4_0", 0, 34 * 9, &inf16, 2, "tensor 'token_embd.weight': element 288 (row 1, column 32) is");
}

/* ---- Aborting and failing ---- */

struct stopper {
	float at, last;
	int calls;
};

static bool stop_at(float done, void *user)
{
	struct stopper *s = user;
	assert_true(done >= s->last && done <= 1.0f);
	s->last = done;
	s->calls++;
	return done < s->at;
}

static void aborts(void **state)
{
	const struct place *p = *state;
	const struct cohort_synth_params sp = large("F16");
	struct cohort_quantize_params qp = params_of("Q4_0");
	static const float at[] = {0.0f, 0.5f, 1.0f};
	make_input(p, &sp);
	qp.progress = stop_at;
	for (size_t i = 0; i < 3; i += effort_is("short") ? 2 : 1) {
		struct stopper s = {.at = at[i]};
		qp.progress_user = &s;
		refuse(p, input_of(p), p->path, &qp, COHORT_ABORTED, "aborted");
		assert_true(i == 0 ? s.calls == 1 : s.calls > 1);
	}
	/* What was there stays. */
	size_t n;
	assert_int_equal(file_write_atomic(p->path, "old", 3, NULL), COHORT_OK);
	struct stopper s = {.at = 0.5f};
	qp.progress_user = &s;
	refuse(p, input_of(p), p->path, &qp, COHORT_ABORTED, "aborted");
	uint8_t *d = load(p->path, &n);
	assert_int_equal(n, 3);
	assert_memory_equal(d, "old", 3);
	mem_free(d);
	s = (struct stopper){.at = 2.0f};
	quantize(p, &qp);
	assert_true(s.last == 1.0f);
}

static void quantize_fails_at_every_call(void **state)
{
	const struct place *p = *state;
	struct cohort_synth_params sp = tiny("F32");
	struct cohort_quantize_params qp = params_of("Q8_0");
	struct cohort_err err;
	sp.n_vocab = 260;
	sp.n_embd = 32;
	sp.n_layer = 1;
	sp.n_ff = 32;
	make_input(p, &sp);
	qp.n_threads = 2;
	for (int i = 0;; i++) {
		mem_fail_after(i);
		const enum cohort_status st = cohort_quantize_write(input_of(p), p->path, &qp, NULL, &err);
		mem_fail_after(-1);
		if (!st)
			break;
		assert_int_equal(st, COHORT_E_MEMORY);
		assert_int_equal(n_in(p->dir), 1);
	}
	unlink(p->path);
	for (int i = 0;; i++) {
		file_fail_after(i, ENOSPC);
		const enum cohort_status st = cohort_quantize_write(input_of(p), p->path, &qp, NULL, &err);
		file_fail_after(-1, 0);
		if (!st)
			break;
		assert_int_equal(st, COHORT_E_IO);
		assert_non_null(strstr(err.text, p->path));
		unlink(p->path); /* the directory's sync failed */
		assert_int_equal(n_in(p->dir), 1);
	}
	check_data(p);
}

int main(void)
{
#define CASE(f) cmocka_unit_test_setup_teardown(f, setup, teardown_both)
	const struct CMUnitTest tests[] = {
		CASE(quantize_same_bytes_with_any_threads), CASE(aborts), CASE(every_mix), CASE(odd_file),
		CASE(report), CASE(quantized_files_are_those_of_peer),
		CASE(arguments), CASE(places), CASE(same_file), CASE(requantize), CASE(bad_contents),
		CASE(quantize_names_the_element_that_is_no_number),
		CASE(quantize_fails_at_every_call),
	};
#ifdef __SANITIZE_THREAD__ /* slow, and the others have nothing for it that these two have not */
	const struct CMUnitTest few[] = {tests[0], tests[1]};
	return cmocka_run_group_tests_name("quantize", few, NULL, NULL);
#else
	return cmocka_run_group_tests_name("quantize", tests, NULL, NULL);
#endif
}
