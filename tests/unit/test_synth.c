/* Random models: every format and mix loads and decodes to finite logits, the bytes follow from the seed alone, the
 * weights have the deviation they should, and the mixes are the usual ones.
 *
 * Shown red by leaving the minima of Q4_K random (weights), scales of one sign (weights), a generator seeded with the
 * chunk's place in memory instead of its number (same_bytes), more_bits without its last eighth
 * (mixes_choose_types_by_layer), TQ2_0's code 3 left in (weights), no fall-back for short rows
 * (mixes_choose_types_by_layer, awkward_rows), weights of deviation 1 (decodes, weights), a head that is no longer
 * than the width, or a base of any size, which no loader takes (synth_refuses_bad_params, limits_load). */
#include "place_case.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <dirent.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "cohort_tools.h"
#include "model/mix.h"
#include "quant/quant.h"

static struct cohort_synth_params tiny(const char *type)
{
	struct cohort_synth_params p;
	cohort_synth_params_init(&p);
	p.n_vocab = 400;
	p.n_embd = 256;
	p.n_layer = 8;
	p.n_head = 8;
	p.n_head_kv = 2;
	p.n_ff = 512;
	p.n_ctx = 128;
	p.head_size = 0;
	p.tied = false;
	p.type = type;
	p.seed = 5;
	p.n_threads = 1;
	return p;
}

static void write_model(const char *path, const struct cohort_synth_params *p)
{
	struct cohort_err err;
	if (cohort_synth_write(path, p, &err))
		fail_msg("%s: %s", p->type, err.text);
}

/* Loads the model and decodes a few tokens; the root mean square of the last logits. */
static double decode(const char *path)
{
	struct cohort_model *m = NULL;
	struct cohort_err err;
	const cohort_token tokens[] = {1, 270, 300, 12, 399};
	if (cohort_model_open(path, NULL, &m, &err))
		fail_msg("%s", err.text);
	struct cohort_context_params cp;
	cohort_context_params_init(&cp);
	cp.n_threads = 1;
	struct cohort_context *c = NULL;
	if (cohort_context_open(m, &cp, &c, &err))
		fail_msg("%s", err.text);
	struct cohort_batch b;
	assert_int_equal(cohort_batch_view(&b, tokens, 5, NULL), COHORT_OK);
	if (cohort_decode(c, &b, &err))
		fail_msg("%s", err.text);
	const float *logits = cohort_logits_get(c, -1, NULL);
	assert_non_null(logits);
	double sum = 0;
	for (int i = 0; i < 400; i++) {
		assert_true(isfinite(logits[i]));
		sum += (double)logits[i] * (double)logits[i];
	}
	cohort_batch_release(&b);
	cohort_context_free(c);
	cohort_model_free(m);
	return sqrt(sum / 400);
}

static void decodes(void **state)
{
	const struct place *p = *state;
	for (size_t i = 0; cohort_mix_name(i); i++)
		for (int pure = 0; pure < 2; pure++) {
			struct cohort_synth_params sp = tiny(cohort_mix_name(i));
			sp.pure = pure;
			sp.tied = i % 2;
			write_model(p->path, &sp);
			const double rms = decode(p->path);
			if (!(rms > 0.2 && rms < 5))
				fail_msg("%s: logits of %g", sp.type, rms);
		}
}

/* Rows that are no whole blocks of 256, or not even of 32. */
static void awkward_rows(void **state)
{
	const struct place *p = *state;
	for (size_t i = 0; cohort_mix_name(i); i++) {
		struct cohort_synth_params sp = tiny(cohort_mix_name(i));
		sp.n_embd = 96;
		sp.n_head = 6;
		sp.n_head_kv = 3;
		sp.n_ff = 90;
		sp.head_size = 10;
		sp.n_layer = 2;
		write_model(p->path, &sp);
		decode(p->path);
	}
}

static void weights(void **state)
{
	const struct place *p = *state;
	for (size_t i = 0; cohort_mix_name(i); i++) {
		struct cohort_synth_params sp = tiny(cohort_mix_name(i));
		struct cohort_gguf *g = NULL;
		struct cohort_gguf_tensor t;
		uint8_t *d;
		size_t n_file;
		sp.pure = true;
		sp.n_layer = 1;
		write_model(p->path, &sp);
		assert_int_equal(cohort_gguf_open(p->path, &g, NULL), COHORT_OK);
		assert_int_equal(file_load(p->path, SIZE_MAX, &d, &n_file, NULL), COHORT_OK);
		for (size_t k = 0; cohort_gguf_tensor_get(g, k, &t); k++) {
			const size_t n = (size_t)(t.ne[0] * t.ne[1]);
			float *x = malloc(n * sizeof *x);
			double sum = 0, power = 0;
			assert_non_null(x);
			if (t.n_dims == 1) { /* norm weights */
				free(x);
				continue;
			}
			quant_format_get(t.type)->to_f32(d + t.offset, x, n);
			for (size_t j = 0; j < n; j++) {
				sum += (double)x[j];
				power += (double)x[j] * (double)x[j];
			}
			const double want = k == 0 ? 0.5 : 1 / sqrt((double)t.ne[0]), got = sqrt(power / (double)n);
			if (!(fabs(got / want - 1) < 0.08) || !(fabs(sum / (double)n) < 0.06 * want))
				fail_msg("%s: tensor %zu: deviation %g, expected %g; mean %g", sp.type, k, got, want,
						sum / (double)n);
			for (size_t j = 0; t.type == QUANT_TQ2_0 && j < t.n_bytes; j++)
				if (j % 66 < 64)
					assert_int_equal(d[t.offset + j] & d[t.offset + j] >> 1 & 0x55, 0);
			free(x);
		}
		mem_free(d);
		cohort_gguf_free(g);
	}
}

static uint8_t *bytes_of(const char *path, const struct cohort_synth_params *p, size_t *n)
{
	uint8_t *d = NULL;
	write_model(path, p);
	assert_int_equal(file_load(path, SIZE_MAX, &d, n, NULL), COHORT_OK);
	return d;
}

static uint64_t hash(const uint8_t *d, size_t n)
{
	uint64_t h = 0xcbf29ce484222325u;
	for (size_t i = 0; i < n; i++)
		h = (h ^ d[i]) * 0x100000001b3u;
	return h;
}

static void same_bytes(void **state)
{
	const struct place *p = *state;
	static const char *const types[] = {"F32", "F16", "Q4_K_M", "Q8_0"};
	for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
		struct cohort_synth_params sp = tiny(types[i]);
		size_t n, n_2;
		uint8_t *a = bytes_of(p->path, &sp, &n), *b;
		sp.n_threads = 3;
		b = bytes_of(p->path, &sp, &n_2);
		assert_int_equal(n, n_2);
		assert_memory_equal(a, b, n);
		mem_free(b);
		sp.seed++;
		b = bytes_of(p->path, &sp, &n_2);
		assert_int_equal(n, n_2);
		assert_memory_not_equal(a, b, n);
		mem_free(b);
		mem_free(a);
	}
	struct cohort_synth_params sp = tiny("Q4_K_M");
	size_t n;
	uint8_t *d = bytes_of(p->path, &sp, &n);
	const uint64_t h = hash(d, n);
	mem_free(d);
	if (h != 0xaff81431508dc5b1u) /* the same on every machine */
		fail_msg("hash 0x%llx", (unsigned long long)h);
}

static int by_text(const void *a, const void *b)
{
	return strcmp(a, b);
}

/* The largest vocabulary of a known shape: one, two and three syllables. */
static void vocabulary(void **state)
{
	enum { N_WORDS = 151936 };
	const struct place *p = *state;
	struct cohort_synth_params sp = tiny("F16");
	struct cohort_model *m = NULL;
	struct cohort_model_params mp;
	struct cohort_err err;
	sp.n_vocab = N_WORDS;
	sp.n_embd = 16;
	sp.n_layer = 1;
	write_model(p->path, &sp);
	cohort_model_params_init(&mp);
	mp.vocab_only = true;
	if (cohort_model_open(p->path, &mp, &m, &err))
		fail_msg("%s", err.text);
	struct cohort_model_info info;
	cohort_model_info_get(m, &info);
	assert_int_equal(info.n_vocab, N_WORDS);
	cohort_model_free(m);
	/* No text is there twice. */
	struct cohort_gguf *g = NULL;
	struct cohort_gguf_kv kv;
	struct cohort_gguf_cursor c;
	struct cohort_gguf_value v;
	assert_int_equal(cohort_gguf_open(p->path, &g, NULL), COHORT_OK);
	assert_true(cohort_gguf_kv_find(g, "tokenizer.ggml.tokens", &kv));
	struct text {
		char s[24];
	} *all = calloc(N_WORDS, sizeof *all);
	size_t n = 0;
	assert_non_null(all);
	cohort_gguf_cursor_init(&c, &kv.value);
	while (cohort_gguf_cursor_next(&c, &v)) {
		assert_in_range(v.n_str, 1, 23);
		memcpy(all[n++].s, v.str, v.n_str);
	}
	assert_int_equal(n, N_WORDS);
	qsort(all, n, sizeof *all, by_text);
	for (size_t i = 1; i < n; i++)
		assert_true(strcmp(all[i - 1].s, all[i].s) != 0);
	free(all);
	cohort_gguf_free(g);
}

static void mixes_choose_types_by_layer(void **state)
{
	(void)state;
	const struct mix_model tinyllama = {.n_layer = 22, .n_head = 32, .n_head_kv = 4, .n_v = 22};
	const struct mix_model smol = {.n_layer = 30, .n_head = 9, .n_head_kv = 3, .n_v = 30, .tied = true};
	const struct mix_model qwen = {.n_layer = 24, .n_head = 14, .n_head_kv = 2, .n_v = 24, .tied = true};
	struct mix_model pure = tinyllama;
	const struct mix *m = mix_find("q4_k_m");
	unsigned n = 0;
	pure.pure = true;
	assert_non_null(m);
	assert_string_equal(m->name, "Q4_K_M");
	assert_ptr_equal(mix_find("Q4_K"), m);
	assert_null(mix_find("Q4_K_X"));
	for (uint32_t i = 0; i < 22; i++) {
		assert_int_equal(mix_type(m, &tinyllama, MIX_V, i, 2048), mix_type(m, &tinyllama, MIX_DOWN, i, 5632));
		n += mix_type(m, &tinyllama, MIX_V, i, 2048) == QUANT_Q6_K;
	}
	/* 22 layers: 0 and 1, 19 to 21, and of those between 4, 7, 10, 13 and 16. */
	assert_int_equal(n, 10);
	assert_int_equal(mix_type(m, &tinyllama, MIX_DOWN, 19, 5632), QUANT_Q6_K);
	assert_int_equal(mix_type(m, &tinyllama, MIX_DOWN, 18, 5632), QUANT_Q4_K);
	assert_int_equal(mix_type(m, &tinyllama, MIX_EMBD, 0, 2048), QUANT_Q4_K);
	assert_int_equal(mix_type(m, &tinyllama, MIX_OUTPUT, 0, 2048), QUANT_Q6_K);
	assert_int_equal(mix_type(m, &pure, MIX_OUTPUT, 0, 2048), QUANT_Q4_K);
	assert_int_equal(mix_type(m, &smol, MIX_EMBD, 0, 576), QUANT_Q8_0);
	assert_int_equal(mix_type(m, &smol, MIX_Q, 0, 576), QUANT_Q5_0);
	assert_int_equal(mix_type(m, &smol, MIX_V, 0, 576), QUANT_Q8_0);
	assert_int_equal(mix_type(m, &smol, MIX_DOWN, 0, 1536), QUANT_Q6_K);
	assert_int_equal(mix_type(mix_find("Q4_0"), &tinyllama, MIX_OUTPUT, 0, 2048), QUANT_Q6_K);
	assert_int_equal(mix_type(mix_find("Q4_0"), &smol, MIX_EMBD, 0, 576), QUANT_Q8_0);
	assert_int_equal(mix_type(mix_find("Q8_0"), &tinyllama, MIX_OUTPUT, 0, 2048), QUANT_Q8_0);
	assert_int_equal(mix_type(mix_find("F16"), &tinyllama, MIX_OUTPUT, 0, 2048), QUANT_F16);
	assert_int_equal(mix_type(mix_find("Q5_K_S"), &smol, MIX_Q, 0, 576), QUANT_Q5_1);
	assert_int_equal(mix_type(mix_find("IQ4_XS"), &smol, MIX_Q, 0, 576), QUANT_IQ4_NL);
	assert_int_equal(mix_type(mix_find("Q2_K"), &smol, MIX_Q, 0, 576), QUANT_Q4_0);
	assert_int_equal(mix_type(mix_find("Q2_K"), &tinyllama, MIX_V, 0, 2048), QUANT_Q4_K);
	assert_int_equal(mix_type(mix_find("Q3_K_M"), &tinyllama, MIX_O, 0, 2048), QUANT_Q4_K);
	assert_int_equal(mix_type(mix_find("Q4_K_S"), &tinyllama, MIX_V, 3, 2048), QUANT_Q5_K);
	assert_int_equal(mix_type(mix_find("Q4_K_S"), &tinyllama, MIX_V, 4, 2048), QUANT_Q4_K);
	assert_int_equal(mix_type(mix_find("Q4_K_S"), &tinyllama, MIX_DOWN, 1, 5632), QUANT_Q5_K);
	assert_int_equal(mix_type(mix_find("Q4_0"), &smol, MIX_Q, 0, 33), QUANT_F16);
	/* Rows of 896 are no whole blocks of 256, those of 4,864 are: 13 Q8_0 (the embedding and V of half of the
	 * layers), 132 Q5_0, 12 Q6_K and 12 Q4_K. */
	assert_int_equal(mix_type(m, &qwen, MIX_EMBD, 0, 896), QUANT_Q8_0);
	assert_int_equal(mix_type(m, &qwen, MIX_GATE, 0, 896), QUANT_Q5_0);
	for (uint32_t i = n = 0; i < 24; i++) {
		const bool more = mix_type(m, &qwen, MIX_DOWN, i, 4864) == QUANT_Q6_K;
		n += more;
		assert_int_equal(mix_type(m, &qwen, MIX_DOWN, i, 4864), more ? QUANT_Q6_K : QUANT_Q4_K);
		assert_int_equal(mix_type(m, &qwen, MIX_V, i, 896), more ? QUANT_Q8_0 : QUANT_Q5_0);
	}
	assert_int_equal(n, 12);
}

static void synth_shapes_by_name(void **state)
{
	(void)state;
	struct cohort_synth_params p;
	size_t n = 0;
	cohort_synth_params_init(&p);
	cohort_synth_params_init(NULL);
	while (cohort_synth_shape_name(n))
		assert_true(cohort_synth_shape(&p, cohort_synth_shape_name(n++)));
	assert_int_equal(n, 4);
	assert_true(cohort_synth_shape(&p, "qwen2.5-0.5b"));
	assert_int_equal(p.n_vocab, 151936);
	assert_int_equal(p.n_embd, 896);
	assert_int_equal(p.n_layer, 24);
	assert_int_equal(p.n_head, 14);
	assert_int_equal(p.n_head_kv, 2);
	assert_int_equal(p.n_ff, 4864);
	assert_int_equal(p.n_ctx, 32768);
	assert_int_equal(p.head_size, 64);
	assert_true(p.rope_base == 1e6f);
	assert_true(p.tied);
	assert_true(cohort_synth_shape(&p, "tinyllama-1.1b"));
	assert_int_equal(p.n_layer, 22);
	assert_int_equal(p.head_size, 64);
	assert_false(p.tied);
	assert_false(cohort_synth_shape(&p, "qwen2.5-0.6b"));
	assert_int_equal(p.n_layer, 22);
}

/* Known shapes with fewer layers and words: they load and give finite logits in the mix people use. */
static void shapes_decode(void **state)
{
	const struct place *p = *state;
	for (size_t i = 0; cohort_synth_shape_name(i); i++) {
		struct cohort_synth_params sp = tiny("Q4_K_M");
		assert_true(cohort_synth_shape(&sp, cohort_synth_shape_name(i)));
		sp.n_layer = 1;
		sp.n_vocab = 400;
		write_model(p->path, &sp);
		const double rms = decode(p->path);
		if (!(rms > 0.2 && rms < 5))
			fail_msg("%s: logits of %g", sp.name, rms);
	}
}

static void refuse(const char *path, const struct cohort_synth_params *p, const char *word)
{
	struct cohort_err err = {0};
	assert_int_equal(cohort_synth_write(path, p, &err), COHORT_E_ARG);
	if (!strstr(err.text, word))
		fail_msg("'%s' is not in '%s'", word, err.text);
}

static void synth_refuses_bad_params(void **state)
{
	const struct place *p = *state;
	struct cohort_synth_params sp = tiny("Q9_X");
	refuse(p->path, &sp, "known: F32, F16");
	refuse(NULL, &sp, "path");
	refuse(p->path, NULL, "params");
#define BAD(field, value, word)                      \
	do {                                         \
		sp = tiny("F16");                    \
		sp.field = value;                    \
		refuse(p->path, &sp, word);          \
	} while (0)
	BAD(struct_size, 1, "init");
	BAD(n_vocab, 258, "n_vocab");
	BAD(n_embd, 0, "n_embd");
	BAD(n_layer, 4097, "n_layer");
	BAD(n_head, 0, "n_head");
	BAD(n_head, 7, "share");
	BAD(n_head_kv, 3, "share");
	BAD(n_ff, 0, "n_ff");
	BAD(n_ctx, 0, "n_ctx");
	BAD(head_size, 5, "even");
	BAD(head_size, 4098, "head_size");
	BAD(n_embd, 250, "multiple");
	BAD(rope_base, 0.0f, "rope_base");
	BAD(rope_base, NAN, "rope_base");
	BAD(rope_base, 0.5f, "rope_base");
	BAD(rope_base, 2e30f, "rope_base");
	BAD(n_threads, -1, "n_threads");
	BAD(type, NULL, "type");
	BAD(name, NULL, "name");
	/* The same by the width of one head. */
	sp = tiny("F16");
	sp.n_embd = 8192;
	sp.n_head = sp.n_head_kv = 1;
	sp.head_size = 0;
	refuse(p->path, &sp, "head_size");
	assert_int_equal(n_in(p->dir), 0);
}

/* What is just taken can be loaded. */
static void limits_load(void **state)
{
	const struct place *p = *state;
	static const struct {
		uint32_t n_embd;
		float rope_base;
	} cases[] = {{4096, 10000.0f}, {64, 1.0f}, {64, 1e30f}};

	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct cohort_synth_params sp = tiny("F16");
		struct cohort_model *m = NULL;
		struct cohort_err err;
		sp.n_embd = cases[i].n_embd;
		sp.n_layer = sp.n_head = sp.n_head_kv = 1;
		sp.head_size = 0;
		sp.n_ff = 32;
		sp.rope_base = cases[i].rope_base;
		if (cohort_synth_write(p->path, &sp, &err) || cohort_model_open(p->path, NULL, &m, &err))
			fail_msg("case %zu: %s", i, err.text);
		cohort_model_free(m);
		unlink(p->path);
	}
}

static bool stop_at_half(float done, void *user)
{
	int *calls = user;
	(*calls)++;
	return done < 0.5f;
}

static void abort_and_failures(void **state)
{
	const struct place *p = *state;
	struct cohort_synth_params sp = tiny("F16");
	struct cohort_err err;
	int calls = 0;
	sp.progress = stop_at_half;
	sp.progress_user = &calls;
	assert_int_equal(cohort_synth_write(p->path, &sp, &err), COHORT_ABORTED);
	assert_int_equal(n_in(p->dir), 0);
	assert_true(calls > 1);
	sp = tiny("Q4_0");
	sp.n_layer = 1;
	sp.n_vocab = 260;
	sp.n_embd = 32;
	for (int i = 0;; i++) {
		mem_fail_after(i);
		const enum cohort_status st = cohort_synth_write(p->path, &sp, &err);
		mem_fail_after(-1);
		if (!st)
			break;
		assert_int_equal(st, COHORT_E_MEMORY);
		assert_int_equal(n_in(p->dir), 0);
	}
	unlink(p->path);
	for (int i = 0;; i++) {
		file_fail_after(i, EIO);
		const enum cohort_status st = cohort_synth_write(p->path, &sp, &err);
		file_fail_after(-1, 0);
		if (!st)
			break;
		assert_int_equal(st, COHORT_E_IO);
		assert_non_null(strstr(err.text, p->path));
		unlink(p->path); /* the directory's sync failed */
		assert_int_equal(n_in(p->dir), 0);
	}
}

int main(void)
{
#define CASE(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
	const struct CMUnitTest tests[] = {
		CASE(decodes), CASE(awkward_rows), CASE(weights), CASE(same_bytes), CASE(vocabulary),
		CASE(mixes_choose_types_by_layer),
		CASE(synth_shapes_by_name), CASE(shapes_decode), CASE(synth_refuses_bad_params), CASE(limits_load),
		CASE(abort_and_failures),
	};
#ifdef __SANITIZE_THREAD__ /* slow, and the others have one thread */
	const struct CMUnitTest few[] = {CASE(same_bytes), CASE(abort_and_failures)};
	(void)tests;
	return cmocka_run_group_tests_name("synth", few, NULL, NULL);
#else
	return cmocka_run_group_tests_name("synth", tests, NULL, NULL);
#endif
}
