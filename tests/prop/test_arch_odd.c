/* Files and calls that are out of the ordinary for an architecture: each is refused with the reason, or means what it
 * says. Models are those of tests/golden/make_models.py; variants are made by writing over a key's value or name.
 *
 * Shown red by planted faults, which are what the library did before: a warm-up that looks at its n_ubatch only
 * (positions_end), a fingerprint taken of pages that were given back (weights_count) or of a model's angles instead of
 * a context's (angles_count), a window that may be missing (model_without_its_window_is_refused), a negative base
 * taken for none (bad_rope_bases_are_refused), a scale of 0 that multiplies (scale_of_zero_is_none), logits multiplied
 * by what is to divide them (minicpm_logits), states of no bytes (states_have_a_size). Planted as well: scores of
 * experts made smaller by the least of them instead of the greatest (far_scores). */
#include "arch_case.h"
#include "cohort_tools.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>
#include <math.h>

enum { N = 10 };

static struct cohort_model *open_model(const char *path, bool no_mmap)
{
	struct cohort_model_params mp;
	struct cohort_model *m;
	struct cohort_err err;

	cohort_model_params_init(&mp);
	mp.n_threads = 1;
	mp.no_mmap = no_mmap;
	if (cohort_model_open(path, &mp, &m, &err))
		fail_msg("%s", err.text);
	return m;
}

static struct cohort_context *open_context(const struct cohort_model *m, int32_t n_ctx)
{
	struct cohort_model_info info = {.struct_size = sizeof info};
	struct cohort_context_params cp;
	struct cohort_context *c;
	struct cohort_err err;

	cohort_model_info_get(m, &info);
	cohort_context_params_init(&cp);
	cp.n_ctx = n_ctx;
	cp.n_threads = 1;
	cp.n_seq_max = 2;
	cp.outputs = info.encoder ? COHORT_OUTPUT_EMBEDDINGS : COHORT_OUTPUT_LOGITS;
	if (cohort_context_open(m, &cp, &c, &err))
		fail_msg("%s", err.text);
	return c;
}

/* Decodes N tokens as sequence 0; the logits of the last. */
static const float *decode(struct cohort_context *c)
{
	struct cohort_batch b;
	struct cohort_err err;
	const cohort_seq zero = 0;

	assert_int_equal(cohort_batch_init(&b, N, 0, 1, &err), COHORT_OK);
	for (int32_t i = 0; i < N; i++)
		assert_int_equal(cohort_batch_add(&b, 3 * i + 7, i, &zero, 1, i + 1 == N, &err), COHORT_OK);
	if (cohort_decode(c, &b, &err))
		fail_msg("%s", err.text);
	cohort_batch_release(&b);
	return cohort_logits_get(c, -1, &err);
}

static uint8_t *read_model(const char *name, size_t *n)
{
	char path[200];
	FILE *f = fopen(arch_path(path, sizeof path, name, "gguf"), "rb");

	assert_non_null(f);
	assert_int_equal(fseek(f, 0, SEEK_END), 0);
	*n = (size_t)ftell(f);
	rewind(f);
	uint8_t *bytes = malloc(*n);
	assert_non_null(bytes);
	assert_int_equal(fread(bytes, 1, *n, f), *n);
	fclose(f);
	return bytes;
}

static const char *write_variant(char path[200], const uint8_t *bytes, size_t n)
{
	FILE *f = fopen(arch_path(path, 200, "variant", "gguf"), "wb");

	assert_non_null(f);
	assert_int_equal(fwrite(bytes, 1, n, f), n);
	fclose(f);
	return path;
}

/* Another value of a key that is 4 bytes wide; value NULL: the key named otherwise, so that nobody finds it. */
static void change_key(uint8_t *bytes, size_t n, const char *key, const void *value)
{
	const size_t n_key = strlen(key);
	size_t at = 0;

	/* The key's length stands before its name, so that no longer key is taken for it. */
	while (at + 8 + n_key < n && !(bytes[at] == n_key && bytes[at + 1] == 0 && !memcmp(bytes + at + 8, key, n_key)))
		at++;
	assert_true(at + 8 + n_key + 8 < n);
	if (value)
		memcpy(bytes + at + 8 + n_key + 4, value, 4);
	else
		bytes[at + 8 + n_key - 1] = '_';
}

/* A model with a key changed so. */
static const char *variant(char path[200], const char *name, const char *key, const void *value)
{
	size_t n;
	uint8_t *bytes = read_model(name, &n);

	change_key(bytes, n, key, value);
	write_variant(path, bytes, n);
	free(bytes);
	return path;
}

static void refused(const char *path, const char *word)
{
	struct cohort_model *m = NULL;
	struct cohort_err err;
	assert_int_equal(cohort_model_open(path, NULL, &m, &err), COHORT_E_FORMAT);
	if (!strstr(err.text, word))
		fail_msg("'%s' does not say '%s'", err.text, word);
}

/* Positions are rows of a tensor in some models: a warm-up must not go beyond them either. */
static void positions_end(void **state)
{
	char path[200];
	(void)state;

	struct cohort_model *m = open_model(arch_path(path, sizeof path, "bert", "gguf"), true);
	struct cohort_model_info info = {.struct_size = sizeof info};
	struct cohort_context *c = open_context(m, 512);
	struct cohort_err err;
	cohort_model_info_get(m, &info);
	assert_true(info.n_ctx_train < 128); /* n_ubatch */
	assert_int_equal(cohort_warm_up(c, info.n_ctx_train, 1, &err), COHORT_OK);
	assert_int_equal(cohort_warm_up(c, info.n_ctx_train + 1, 1, &err), COHORT_E_LIMIT);
	assert_string_equal(err.rule, "pos-limit");
	assert_int_equal(err.expected, info.n_ctx_train);
	assert_int_equal(err.got, info.n_ctx_train + 1);
	cohort_context_free(c);
	cohort_model_free(m);
}

/* Saves sequence 0 of a, and restores it into b. */
static enum cohort_status hand_over(struct cohort_context *a, struct cohort_context *b, struct cohort_err *err)
{
	size_t n = cohort_state_size(a, 0);
	void *bytes = malloc(n);

	assert_true(n > 0 && bytes);
	assert_int_equal(cohort_state_save(a, 0, bytes, n, &n, err), COHORT_OK);
	enum cohort_status st = cohort_state_restore(b, 0, bytes, n, err);
	free(bytes);
	return st;
}

/* A copied file gives pages back once they are repacked; its model is still the same one, and another still another. */
static void weights_count(void **state)
{
	char path[200], other[200];
	struct cohort_err err;
	size_t n;
	(void)state;

	/* A file that differs in a number in the middle of its last matrix, the output's. */
	uint8_t *bytes = read_model("llama-base", &n);
	bytes[n - 288 * 64 * sizeof(float) / 2] ^= 0x40;
	FILE *f = fopen(arch_path(other, sizeof other, "variant", "gguf"), "wb");
	assert_true(f && fwrite(bytes, 1, n, f) == n);
	fclose(f);
	free(bytes);
	arch_path(path, sizeof path, "llama-base", "gguf");
	struct cohort_model *m[] = {open_model(path, false), open_model(path, true), open_model(other, true)};
	struct cohort_context *c[3];
	for (size_t i = 0; i < 3; i++)
		c[i] = open_context(m[i], 64);
	decode(c[0]);
	if (hand_over(c[0], c[1], &err))
		fail_msg("%s", err.text);
	if (hand_over(c[1], c[0], &err))
		fail_msg("%s", err.text);
	assert_int_equal(hand_over(c[1], c[2], &err), COHORT_E_UNSUPPORTED);
	assert_int_equal(cohort_seq_pos_max(c[2], 0), -1);
	for (size_t i = 0; i < 3; i++) {
		cohort_context_free(c[i]);
		cohort_model_free(m[i]);
	}
}

/* Contexts of different lengths may turn keys by different angles: then their states are not each other's. */
static void angles_count(void **state)
{
	char path[200];
	struct cohort_err err;
	(void)state;

	struct cohort_model *m = open_model(arch_path(path, sizeof path, "phi3-long", "gguf"), false);
	struct cohort_context *brief = open_context(m, 32), *brief_too = open_context(m, 64),
			      *lengthy = open_context(m, 65), *lengthy_too = open_context(m, 200);
	decode(brief);
	decode(lengthy);
	assert_int_equal(hand_over(brief, brief_too, &err), COHORT_OK);
	assert_int_equal(hand_over(lengthy, lengthy_too, &err), COHORT_OK);
	assert_int_equal(hand_over(brief, lengthy, &err), COHORT_E_UNSUPPORTED);
	assert_non_null(strstr(err.text, "another length"));
	assert_int_equal(hand_over(lengthy_too, brief_too, &err), COHORT_E_UNSUPPORTED);
	cohort_context_free(brief);
	cohort_context_free(brief_too);
	cohort_context_free(lengthy);
	cohort_context_free(lengthy_too);
	cohort_model_free(m);
}

/* Where layers are told apart by their windows, a file without one would be computed as something else. */
static void model_without_its_window_is_refused(void **state)
{
	static const char *const models[][2] = {{"cohere2", "cohere2.attention.sliding_window"},
			{"gpt-oss-f32", "gpt-oss.attention.sliding_window"}};
	const uint32_t none = 0, one = 1;
	char path[200];
	(void)state;

	for (size_t i = 0; i < 2; i++) {
		refused(variant(path, models[i][0], models[i][1], NULL), models[i][1]);
		refused(variant(path, models[i][0], models[i][1], &none), models[i][1]);
		cohort_model_free(open_model(variant(path, models[i][0], models[i][1], &one), false));
	}
	cohort_model_free(open_model(variant(path, "gemma3", "gemma3.attention.sliding_window", NULL), false));
}

static void bad_rope_bases_are_refused(void **state)
{
	const float bad[] = {-300.0f, 0.5f, NAN, INFINITY};
	char path[200];
	(void)state;

	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
		refused(variant(path, "gemma3", "gemma3.rope.freq_base_swa", &bad[i]), "freq_base");
}

static void logits_of(const char *path, float out[288])
{
	struct cohort_model *m = open_model(path, false);
	struct cohort_context *c = open_context(m, 64);
	memcpy(out, decode(c), 288 * sizeof *out);
	cohort_context_free(c);
	cohort_model_free(m);
}

/* 0 stands for no scale, as elsewhere. */
static void scale_of_zero_is_none(void **state)
{
	static const struct {
		const char *name, *key;
		float same;
	} all[] = {
			{"granite", "granite.embedding_scale", 1.0f},
			{"granite", "granite.residual_scale", 1.0f},
			{"granite", "granite.attention.scale", 0.25f}, /* 1 / sqrt(16) */
			{"minicpm", "minicpm.residual_scale", 1.0f},
			{"command-r", "command-r.logit_scale", 1.0f},
	};
	const float zero = 0.0f;
	char path[200];
	(void)state;

	for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
		float with[288], without[288];
		logits_of(variant(path, all[i].name, all[i].key, &all[i].same), with);
		logits_of(variant(path, all[i].name, all[i].key, &zero), without);
		if (memcmp(with, without, sizeof with) != 0)
			fail_msg("%s: 0 does not stand for none", all[i].key);
		logits_of(arch_path(path, sizeof path, all[i].name, "gguf"), without);
		assert_memory_not_equal(with, without, sizeof with); /* the key is read */
	}
}

/* Old files do not say what logits are divided by: the width over that of the base model, 256. */
static void minicpm_logits(void **state)
{
	const float scale = 64 / 256.0f;
	float with[288], without[288];
	char path[200];
	(void)state;

	logits_of(variant(path, "minicpm", "minicpm.logit_scale", &scale), with);
	logits_of(variant(path, "minicpm", "minicpm.logit_scale", NULL), without);
	assert_memory_equal(with, without, sizeof with);
}

/* A model whose experts' scores are `by` times as large, and that uses so many of them. */
static const char *far_variant(char path[200], const char *name, const char *arch, float by, uint32_t n_used)
{
	char from[200], key[64];
	struct cohort_gguf_tensor t;
	struct cohort_gguf *g;
	struct cohort_err err;
	size_t n, n_routers = 0;
	uint8_t *bytes = read_model(name, &n);

	snprintf(key, sizeof key, "%s.expert_used_count", arch);
	change_key(bytes, n, key, &n_used);
	if (cohort_gguf_open(arch_path(from, sizeof from, name, "gguf"), &g, &err))
		fail_msg("%s", err.text);
	for (size_t i = 0; cohort_gguf_tensor_get(g, i, &t); i++) {
		char text[64];
		float v;
		snprintf(text, sizeof text, "%.*s", (int)t.n_name, t.name);
		if (!strstr(text, "ffn_gate_inp.weight"))
			continue;
		assert_string_equal(t.type_name, "F32");
		n_routers++;
		for (uint64_t at = t.offset; at < t.offset + t.n_bytes; at += sizeof v) {
			memcpy(&v, bytes + at, sizeof v);
			v *= by;
			memcpy(bytes + at, &v, sizeof v);
		}
	}
	cohort_gguf_free(g);
	assert_true(n_routers > 0);
	write_variant(path, bytes, n);
	free(bytes);
	return path;
}

/* Scores of experts that are further apart than exponentials of floats can be: the best has all the weight. So the
 * logits are those of the model that uses one expert only, bit for bit, which with scores close together they are not.
 * Where weights are divided by their sum the only expert has all the weight as well, whatever its score: then that of
 * far scores is the same but for rounding. */
static void far_scores(void **state)
{
	static const struct {
		const char *name, *arch;
		bool divided;
	} models[] = {{"mixtral", "llama", true}, {"granitemoe", "granitemoe", true}, {"qwen2moe", "qwen2moe", false},
			{"olmoe", "olmoe", false}, {"gpt-oss-f32", "gpt-oss", false}};
	const float by = 0x1p20f; /* exact, and no two scores are close by chance */
	char path[200];
	(void)state;

	for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
		const char *name = models[i].name, *arch = models[i].arch;
		float one[288], two[288], far_one[288], far_two[288], most = 0.0f;
		logits_of(far_variant(path, name, arch, 1.0f, 1), one);
		logits_of(far_variant(path, name, arch, 1.0f, 2), two);
		logits_of(far_variant(path, name, arch, by, 1), far_one);
		logits_of(far_variant(path, name, arch, by, 2), far_two);
		assert_memory_not_equal(one, two, sizeof one);
		if (memcmp(far_one, far_two, sizeof far_one) != 0)
			fail_msg("%s: the second expert has a weight", name);
		for (size_t k = 0; k < 288; k++) {
			assert_true(isfinite(far_one[k]));
			most = fmaxf(most, fabsf(far_one[k] - one[k]));
		}
		if (models[i].divided && most > 1e-4f)
			fail_msg("%s: the only expert has not all the weight: logits are %g apart", name, (double)most);
	}
}

/* What a recurrent model's sequences take is counted, a state in the place of a block. */
static void states_have_a_size(void **state)
{
	char path[200];
	struct cohort_usage u;
	struct cohort_err err;
	(void)state;

	struct cohort_model *m = open_model(arch_path(path, sizeof path, "mamba", "gguf"), false);
	struct cohort_context *c = open_context(m, 64);
	const uint64_t one = 2 * 96 * (3 + 12) * sizeof(float); /* layers, channels, of which conv and scan */
	cohort_usage_get(c, &u);
	assert_true(u.n_used == 0 && u.used_bytes == 0 && u.block_bytes == one);
	decode(c);
	cohort_usage_get(c, &u);
	assert_true(u.n_used == 1 && u.used_bytes == one);
	assert_int_equal(cohort_seq_cp(c, 0, 1, 0, -1, &err), COHORT_OK);
	cohort_usage_get(c, &u);
	assert_true(u.n_used == 1 && u.n_shared == 1 && u.used_bytes == one);
	cohort_context_free(c);
	cohort_model_free(m);
}

/* ---- Every key ---- */

enum { LOGITS = 288 };

/* What becomes of a file, in words: a refusal, or whether it computes what the sound one does. sound NULL: into out. */
static void outcome(const char *path, const float *sound, float out[LOGITS], char *text, size_t n)
{
	cohort_token tokens[N];
	struct cohort_model_info info = {.struct_size = sizeof info};
	struct cohort_context_params cp;
	struct cohort_model *m = NULL;
	struct cohort_context *c = NULL;
	struct cohort_err err;
	enum cohort_status st = cohort_model_open(path, NULL, &m, &err);

	cohort_context_params_init(&cp);
	cp.n_ctx = 64;
	cp.n_threads = 1;
	for (int32_t i = 0; i < N; i++)
		tokens[i] = 3 * i + 7;
	if (!st) {
		cohort_model_info_get(m, &info);
		if (info.encoder)
			cp.outputs = COHORT_OUTPUT_EMBEDDINGS;
		st = cohort_context_open(m, &cp, &c, &err);
	}
	if (!st && !info.encoder)
		st = cohort_decode_many(c, tokens, N, 0, 0, &err);
	if (st) {
		const char *why = strstr(err.text, ".gguf: ");
		snprintf(text, n, "%d %s", (int)err.status, why ? why + 7 : err.text);
	} else {
		if (!info.encoder)
			memcpy(out, cohort_logits_get(c, -1, &err), LOGITS * sizeof *out);
		snprintf(text, n, "%s", sound && memcmp(out, sound, LOGITS * sizeof *out) ? "other" : "same");
	}
	cohort_context_free(c);
	cohort_model_free(m);
}

/* Writes n bytes to the file, and what was there to old. */
static void swap_bytes(FILE *f, uint64_t at, const void *bytes, void *old, size_t n)
{
	assert_true(!fseek(f, (long)at, SEEK_SET) && fread(old, 1, n, f) == n);
	assert_true(!fseek(f, (long)at, SEEK_SET) && fwrite(bytes, 1, n, f) == n && !fflush(f));
}

/* The outcomes of a key's other values, and of a file without the key, into out as lines. */
static void try_key(const char *path, FILE *f, const struct cohort_gguf_kv *kv, const float *sound, char *out, size_t n)
{
	const uint32_t u = (uint32_t)kv->value.u, whole[] = {0, 1, u + 1, 7, INT32_MAX, UINT32_MAX};
	const float real[] = {0.0f, -1.0f, NAN, 1e30f, 1e-30f, (float)kv->value.f * 0.75f};
	const uint8_t truth = !kv->value.u;
	const bool small = kv->value.type == COHORT_GGUF_BOOL;
	const uint8_t *values = small ? &truth : kv->value.type == COHORT_GGUF_F32 ? (const void *)real
										   : whole;
	const bool fixed = small || kv->value.type == COHORT_GGUF_F32 || kv->value.type == COHORT_GGUF_U32;
	const size_t n_value = small ? 1 : 4, n_values = fixed ? small ? 1 : 6 : 0;
	float logits[LOGITS] = {0};
	uint8_t old[4];

	*out = '\0';
	for (size_t i = 0; i <= n_values; i++) {
		const bool named = i < n_values;
		const uint64_t at = kv->offset + 8 + kv->n_key + (named ? 4 : (uint64_t)-1);
		swap_bytes(f, at, named ? values + i * n_value : (const uint8_t *)"_", old, named ? n_value : 1);
		outcome(path, sound, logits, out + strlen(out), n - strlen(out) - 1);
		strcat(out, "\n");
		swap_bytes(f, at, old, (uint8_t[4]){0}, named ? n_value : 1);
	}
}

static void try_model(const char *name, FILE *want, size_t *n_keys, size_t *n_bad)
{
	char path[200], sums[200], line[200], text[8000];
	float sound[LOGITS] = {0};
	struct cohort_gguf_kv kv;
	struct cohort_gguf *g;
	struct cohort_err err;

	/* A copy: the models are everybody's. */
	size_t n;
	uint8_t *bytes = read_model(name, &n);
	write_variant(path, bytes, n);
	free(bytes);
	outcome(path, NULL, sound, text, sizeof text);
	if (strcmp(text, "same") != 0)
		return; /* a reranker */
	assert_int_equal(cohort_gguf_open(path, &g, &err), COHORT_OK);
	FILE *f = fopen(path, "r+b");
	assert_non_null(f);
	for (size_t i = 0; cohort_gguf_kv_get(g, i, &kv); i++) {
		if (!memcmp(kv.key, "tokenizer.", 10) || !memcmp(kv.key, "general.", 8))
			continue;
		try_key(path, f, &kv, sound, text, sizeof text);
		uint32_t h = 2166136261u;
		for (const char *s = text; *s; s++)
			h = (h ^ (uint8_t)*s) * 16777619u;
		snprintf(sums, sizeof sums, "%s %.*s %08x\n", name, (int)kv.n_key, kv.key, h);
		++*n_keys;
		if (fgets(line, sizeof line, want) && strcmp(line, sums) == 0)
			continue;
		print_error("%s%s", sums, text);
		++*n_bad;
	}
	fclose(f);
	cohort_gguf_free(g);
}

/* Each key of each architecture with other values, and without a name: refused in the same words as ever, or taken,
 * with the same results as the sound file or others. A line that is not right is printed as it should be, and behind it
 * what it is the sum of. Seen red with granite's logit_scale of any size. */
static void keys_changed(void **state)
{
	FILE *want = fopen("tests/golden/data/arch-keys.txt", "rb");
	char command[300], name[100];
	size_t n_keys = 0, n_bad = 0;
	(void)state;

	assert_non_null(want);
	snprintf(command, sizeof command, "cd '%s' && LC_ALL=C ls *.gguf", arch_dir);
	FILE *names = popen(command, "r");
	assert_non_null(names);
	while (fscanf(names, "%99[^.].gguf ", name) == 1)
		if (strcmp(name, "variant") != 0 && !strstr(name, "lora"))
			try_model(name, want, &n_keys, &n_bad);
	pclose(names);
	fclose(want);
	assert_int_equal(n_bad, 0);
	assert_true(n_keys > 300);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
			cmocka_unit_test(positions_end),
			cmocka_unit_test(weights_count),
			cmocka_unit_test(angles_count),
			cmocka_unit_test(model_without_its_window_is_refused),
			cmocka_unit_test(bad_rope_bases_are_refused),
			cmocka_unit_test(scale_of_zero_is_none),
			cmocka_unit_test(minicpm_logits),
			cmocka_unit_test(far_scores),
			cmocka_unit_test(states_have_a_size),
			cmocka_unit_test(keys_changed),
	};
	return cmocka_run_group_tests_name("arch_odd", tests, arch_make_models, arch_remove_models);
}
