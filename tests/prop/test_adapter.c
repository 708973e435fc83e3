/* LoRA adapters: numbers against an independent implementation's (data/archs), applied to a whole model or to a
 * sequence; rows with different adapters in one batch have the bits they have alone; what is refused.
 *
 * Shown red by planted faults: rows gathered by their place in the ubatch and not in the narrowed last layer
 * (sequences_with_several_adapters_in_a_batch), the row's scale taken from its neighbour
 * (sequences_with_several_adapters_in_a_batch), a copy without its adapter (adapter_follows_its_sequence), alpha not
 * divided by the rank (adapter_logits_are_the_stored_ones), a copy of nothing that brings its source's adapter, or is
 * refused for it (copies_of_nothing), a branch forked before its prompt that has none
 * (fork_before_the_prompt_has_the_adapter). */
#include "arch_case.h"
#include "temp.h"

#include "base/mem.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

enum { N_TOKENS = 24, N_VOCAB = 288, N_KINDS = 4 };

static char base_path[128], lora_path[128];

static int make(void **state)
{
	if (arch_make_models(state))
		return -1;
	arch_path(base_path, sizeof base_path, "llama-base", "gguf");
	arch_path(lora_path, sizeof lora_path, "llama-lora", "gguf");
	return 0;
}

struct rig {
	struct cohort_model *m;
	struct cohort_adapter *a, *other; /* the same file twice: two adapters */
	struct cohort_context *c;
	struct cohort_batch b;
	cohort_token ids[N_TOKENS];
};

static void rig_open(struct rig *r, const struct cohort_model_params *mp, int32_t n_ubatch, enum cohort_kv_type kv)
{
	struct cohort_context_params cp;
	struct cohort_err err;
	char path[200], text[1000];
	FILE *f = fopen(arch_path(path, sizeof path, "llama-base", "tokens"), "r");

	assert_non_null(f);
	text[fread(text, 1, sizeof text - 1, f)] = '\0';
	fclose(f);
	char *p = text;
	for (size_t i = 0; i < N_TOKENS; i++)
		r->ids[i] = (cohort_token)strtol(p, &p, 10);
	if (cohort_model_open(base_path, mp, &r->m, &err) || cohort_adapter_open(r->m, lora_path, &r->a, &err) ||
			cohort_adapter_open(r->m, lora_path, &r->other, &err))
		fail_msg("%s", err.text);
	cohort_context_params_init(&cp);
	cp.kv_type = kv;
	cp.n_ubatch = n_ubatch;
	if (cohort_context_open(r->m, &cp, &r->c, &err) || cohort_batch_init(&r->b, 512, 0, 4, &err))
		fail_msg("%s", err.text);
}

static void rig_close(struct rig *r)
{
	cohort_batch_release(&r->b);
	cohort_context_free(r->c);
	cohort_adapter_free(r->a);
	cohort_adapter_free(r->other);
	cohort_model_free(r->m);
}

static void add(struct rig *r, int32_t pos, cohort_seq seq, bool output)
{
	assert_int_equal(cohort_batch_add(&r->b, r->ids[pos], pos, &seq, 1, output, NULL), COHORT_OK);
}

static void decode_text(struct rig *r, cohort_seq seq)
{
	struct cohort_err err;
	cohort_batch_reset(&r->b);
	for (int32_t i = 0; i < N_TOKENS; i++)
		add(r, i, seq, true);
	if (cohort_decode(r->c, &r->b, &err))
		fail_msg("%s", err.text);
}

static void add_one(struct rig *r, cohort_seq seq)
{
	cohort_batch_reset(&r->b);
	add(r, 0, seq, true);
	assert_int_equal(cohort_decode(r->c, &r->b, NULL), COHORT_OK);
}

static double error_of(const struct rig *r, const char *name)
{
	char path[600];
	static float want[40 * N_VOCAB];
	double diff = 0, norm = 0;

	snprintf(path, sizeof path, "%s/tests/golden/data/archs/%s.logits.f32", env_or("COHORT_SOURCE", "."), name);
	FILE *f = fopen(path, "rb");
	assert_non_null(f);
	assert_true(fread(want, sizeof *want, (size_t)N_TOKENS * N_VOCAB, f) == (size_t)N_TOKENS * N_VOCAB);
	fclose(f);
	for (int32_t i = 0; i < N_TOKENS; i++) {
		const float *got = cohort_logits_get(r->c, i, NULL);
		for (size_t j = 0; j < N_VOCAB; j++) {
			const double w = (double)want[(size_t)i * N_VOCAB + j], d = (double)got[j] - w;
			diff += d * d;
			norm += w * w;
		}
	}
	return diff / norm;
}

static void adapter_logits_are_the_stored_ones(void **state)
{
	static const struct {
		float scale;
		const char *name;
	} cases[] = {{0.0f, "llama-base"}, {1.0f, "llama-lora-1"}, {0.5f, "llama-lora-0.5"}};
	(void)state;

	for (size_t i = 0; i < 3; i++)
		for (int whole = 0; whole < 2; whole++) {
			struct cohort_model_params mp;
			struct rig r;
			const char *const path = lora_path;
			cohort_model_params_init(&mp);
			if (whole) {
				mp.adapters = &path;
				mp.adapter_scales = &cases[i].scale;
				mp.n_adapters = 1;
			}
			rig_open(&r, &mp, 128, COHORT_KV_F32);
			if (!whole && cases[i].scale != 0.0f)
				assert_int_equal(cohort_seq_adapter_set(r.c, 3, r.a, cases[i].scale, NULL), COHORT_OK);
			decode_text(&r, 3);
			const double e = error_of(&r, cases[i].name);
			print_message("# %s, %s: %.3e\n", cases[i].name, whole ? "the model" : "a sequence", e);
			assert_true(e < 1e-9);
			for (size_t k = 0; k < 3; k++) /* and they are far apart */
				assert_true(k == i || error_of(&r, cases[k].name) > 1e-4);
			rig_close(&r);
		}
}

static void set_kind(struct rig *r, cohort_seq seq, size_t kind)
{
	struct cohort_adapter *const of[N_KINDS] = {NULL, r->a, r->other, r->a};
	const float scale[N_KINDS] = {0.0f, 1.0f, 1.0f, -0.5f};
	assert_int_equal(cohort_seq_adapter_set(r->c, seq, of[kind], scale[kind], NULL), COHORT_OK);
}

/* Twelve sequences with four kinds of adapters between them, rows shuffled, outputs here and there. */
static void sequences_with_several_adapters_in_a_batch(void **state)
{
	static float want[N_KINDS][N_TOKENS][N_VOCAB];
	struct rig r;
	struct rng g;
	(void)state;

	rig_open(&r, NULL, 1, COHORT_KV_F16);
	for (size_t k = 0; k < N_KINDS; k++) {
		set_kind(&r, 0, k);
		decode_text(&r, 0);
		for (int32_t i = 0; i < N_TOKENS; i++)
			memcpy(want[k][i], cohort_logits_get(r.c, i, NULL), sizeof want[k][i]);
		cohort_seq_clear(r.c);
	}
	rig_close(&r);
	assert_memory_equal(want[1], want[2], sizeof want[1]);
	assert_memory_not_equal(want[1], want[3], sizeof want[1]);
	rng_init(&g, 5, 0);
	for (int32_t n_ubatch = 1; n_ubatch <= 128; n_ubatch = 3 * n_ubatch + 1) {
		int32_t at[12] = {0}, left = 12 * N_TOKENS;
		rig_open(&r, NULL, n_ubatch, COHORT_KV_F16);
		for (cohort_seq s = 0; s < 12; s++)
			set_kind(&r, s, (size_t)s % N_KINDS);
		while (left > 0) {
			int32_t n = 0, seqs[100], pos[100];
			bool out[100];
			cohort_batch_reset(&r.b);
			while (n < 100 && left > 0 && (n == 0 || rng_u32(&g) % 30)) {
				const cohort_seq s = (cohort_seq)(rng_u32(&g) % 12);
				if (at[s] == N_TOKENS)
					continue;
				seqs[n] = s;
				out[n] = rng_u32(&g) % 3 == 0;
				pos[n] = at[s]++;
				add(&r, pos[n], s, out[n]);
				n++;
				left--;
			}
			assert_int_equal(cohort_decode(r.c, &r.b, NULL), COHORT_OK);
			for (int32_t i = 0; i < n; i++)
				if (out[i])
					assert_memory_equal(cohort_logits_get(r.c, i, NULL),
							want[seqs[i] % N_KINDS][pos[i]], sizeof want[0][0]);
		}
		rig_close(&r);
	}
}

/* What sequences do with their adapters. */
static void adapter_follows_its_sequence(void **state)
{
	static float want[N_VOCAB];
	struct rig r;
	struct cohort_err err;
	const cohort_seq both[] = {1, 2};
	size_t n;
	(void)state;

	rig_open(&r, NULL, 64, COHORT_KV_F16);
	assert_int_equal(cohort_seq_adapter_set(r.c, 1, r.a, 1.0f, &err), COHORT_OK);
	decode_text(&r, 1);
	memcpy(want, cohort_logits_get(r.c, -1, &err), sizeof want);
	/* It holds cells: the same again is fine, another is not. */
	assert_int_equal(cohort_seq_adapter_set(r.c, 1, r.a, 1.0f, &err), COHORT_OK);
	assert_int_equal(cohort_seq_adapter_set(r.c, 1, r.a, 0.5f, &err), COHORT_E_ARG);
	assert_string_equal(err.rule, "adapter-held");
	assert_int_equal(cohort_seq_adapter_set(r.c, 1, NULL, 1.0f, &err), COHORT_E_ARG);
	/* A copy takes it along; its last token, decoded again, has the same logits. */
	assert_int_equal(cohort_seq_cp(r.c, 1, 5, 0, N_TOKENS - 1, &err), COHORT_OK);
	cohort_batch_reset(&r.b);
	add(&r, N_TOKENS - 1, 5, true);
	assert_int_equal(cohort_decode(r.c, &r.b, &err), COHORT_OK);
	assert_memory_equal(cohort_logits_get(r.c, 0, &err), want, sizeof want);
	/* Sequences with different ones share neither cells nor rows. */
	decode_text(&r, 2);
	assert_int_equal(cohort_seq_cp(r.c, 1, 2, 0, -1, &err), COHORT_E_ARG);
	assert_string_equal(err.rule, "adapter-held");
	cohort_seq_clear(r.c);
	cohort_batch_reset(&r.b);
	assert_int_equal(cohort_batch_add(&r.b, 5, 0, both, 2, true, &err), COHORT_OK);
	assert_int_equal(cohort_decode(r.c, &r.b, &err), COHORT_E_BATCH);
	assert_string_equal(err.rule, "adapter");
	assert_int_equal(cohort_seq_pos_max(r.c, 1), -1);
	assert_int_equal(cohort_seq_adapter_set(r.c, 2, r.a, 1.0f, &err), COHORT_OK);
	assert_int_equal(cohort_decode(r.c, &r.b, &err), COHORT_OK);
	/* Saved states do not say which adapter they are of. */
	assert_int_equal(cohort_state_save(r.c, 1, NULL, 0, &n, &err), COHORT_E_UNSUPPORTED);
	assert_int_equal(cohort_state_save(r.c, 7, NULL, 0, &n, &err), COHORT_E_LIMIT);
	rig_close(&r);
}

/* The logits of the text behind its last token, of a sequence that may hold the rest already. */
static void check_text(struct rig *r, cohort_seq seq, const float *want)
{
	decode_text(r, seq);
	assert_memory_equal(cohort_logits_get(r->c, -1, NULL), want, N_VOCAB * sizeof *want);
}

static void both_kinds(struct rig *r, float *with, float *without)
{
	set_kind(r, 0, 1);
	decode_text(r, 0);
	memcpy(with, cohort_logits_get(r->c, -1, NULL), N_VOCAB * sizeof *with);
	decode_text(r, 1);
	memcpy(without, cohort_logits_get(r->c, -1, NULL), N_VOCAB * sizeof *without);
	assert_memory_not_equal(with, without, N_VOCAB * sizeof *with);
}

/* Ranges of nothing, of what the source does not hold and of its gap: who gets no cells keeps the adapter it has, and
 * nobody is refused for a difference that does not matter. */
static void copies_of_nothing(void **state)
{
	static const cohort_pos ranges[][2] = {{3, 3}, {9, 2}, {100, -1}, {N_TOKENS, 200}, {5, 8}};
	static float with[N_VOCAB], without[N_VOCAB];
	const cohort_seq empty = 2, held = 3, none = 4;
	struct cohort_err err;
	struct rig r;
	(void)state;

	rig_open(&r, NULL, 64, COHORT_KV_F16);
	both_kinds(&r, with, without);
	assert_int_equal(cohort_seq_rm(r.c, 1, 5, 8, &err), COHORT_OK);
	for (size_t i = 0; i < sizeof ranges / sizeof *ranges; i++) {
		const cohort_pos p0 = ranges[i][0], p1 = ranges[i][1];
		set_kind(&r, empty, 1);
		set_kind(&r, held, 1);
		add_one(&r, held);
		assert_int_equal(cohort_seq_cp(r.c, 1, empty, p0, p1, &err), COHORT_OK);
		assert_int_equal(cohort_seq_cp(r.c, 1, held, p0, p1, &err), COHORT_OK);
		assert_int_equal(cohort_seq_pos_max(r.c, empty), -1);
		assert_int_equal(cohort_seq_pos_max(r.c, held), 0);
		/* Of a sequence that has nothing, but for all of it: that is a copy of what is yet to come. */
		assert_int_equal(cohort_seq_cp(r.c, none, empty, p0, p1, &err), COHORT_OK);
		assert_int_equal(cohort_seq_cp(r.c, none, held, 0, -1, &err), COHORT_OK);
		check_text(&r, empty, with);
		assert_int_equal(cohort_seq_rm(r.c, held, 0, -1, &err), COHORT_OK);
		check_text(&r, held, with);
		assert_int_equal(cohort_seq_rm(r.c, empty, 0, -1, &err), COHORT_OK);
		assert_int_equal(cohort_seq_rm(r.c, held, 0, -1, &err), COHORT_OK);
	}
	/* Cells of the same source still do bring theirs, and are refused beside others. */
	add_one(&r, held);
	assert_int_equal(cohort_seq_cp(r.c, 1, held, 8, -1, &err), COHORT_E_ARG);
	assert_string_equal(err.rule, "adapter-held");
	assert_int_equal(cohort_seq_cp(r.c, none, empty, 0, -1, &err), COHORT_OK);
	check_text(&r, empty, without);
	rig_close(&r);
}

/* A branch that was forked before there was a prompt goes through its parent's adapter, as one forked behind it. */
static void fork_before_the_prompt_has_the_adapter(void **state)
{
	static float with[N_VOCAB], without[N_VOCAB];
	struct cohort_branch b[3], plain;
	struct cohort_branch_info info;
	struct cohort_forest_params fp;
	struct cohort_forest *f;
	struct cohort_err err;
	struct rig r;
	(void)state;

	rig_open(&r, NULL, 64, COHORT_KV_F16);
	both_kinds(&r, with, without);
	cohort_forest_params_init(&fp);
	fp.first_seq = 4;
	assert_int_equal(cohort_forest_open(r.c, &fp, &f, &err), COHORT_OK);
	assert_int_equal(cohort_branch_create(f, NULL, &b[0], &err), COHORT_OK);
	assert_int_equal(cohort_branch_info_get(f, b[0], &info, &err), COHORT_OK);
	set_kind(&r, info.seq, 1);
	assert_int_equal(cohort_branch_fork(f, b[0], NULL, &b[1], &err), COHORT_OK);
	for (size_t i = 0; i < 2; i++)
		assert_int_equal(cohort_branch_prefill(f, b[i], r.ids, N_TOKENS, &err), COHORT_OK);
	assert_int_equal(cohort_branch_fork(f, b[0], NULL, &b[2], &err), COHORT_OK);
	for (size_t i = 0; i < 3; i++)
		assert_memory_equal(cohort_branch_logits_get(f, b[i], &err), with, sizeof with);
	/* Ids of branches that are gone have none. */
	assert_int_equal(cohort_branch_prune(f, b[1], &err), COHORT_OK);
	assert_int_equal(cohort_branch_create(f, NULL, &plain, &err), COHORT_OK);
	assert_int_equal(cohort_branch_prefill(f, plain, r.ids, N_TOKENS, &err), COHORT_OK);
	assert_memory_equal(cohort_branch_logits_get(f, plain, &err), without, sizeof without);
	cohort_forest_free(f);
	rig_close(&r);
}

static void refused_file(const char *path, enum cohort_status want, const char *word)
{
	struct cohort_model *m;
	struct cohort_adapter *a = NULL;
	struct cohort_err err;

	assert_int_equal(cohort_model_open(base_path, NULL, &m, &err), COHORT_OK);
	assert_int_equal(cohort_adapter_open(m, path, &a, &err), want);
	assert_null(a);
	if (!strstr(err.text, word))
		fail_msg("'%s' does not say '%s'", err.text, word);
	cohort_model_free(m);
}

/* An adapter of one pair for blk.0.attn_q.weight [64, 64], with something wrong. */
struct bad {
	const char *type, *kind, *arch, *a, *b;
	uint64_t ne_a[2], ne_b[2];
	uint32_t format;
	float alpha;
	enum cohort_status want;
	const char *word;
};

static void refused_content(const struct bad *x)
{
	struct file f = {0};
	char path[TEMP_MAX];
	const size_t n_a = (size_t)(x->ne_a[0] * x->ne_a[1]), n_b = (size_t)(x->ne_b[0] * x->ne_b[1]);
	const size_t size = x->format == QUANT_F32 ? 4 : 2;

	put_header(&f, 3, 2, 0);
	put_kv_str(&f, "general.type", x->type);
	put_kv_str(&f, "adapter.type", x->kind);
	put_kv_str(&f, "general.architecture", x->arch);
	put_key(&f, "adapter.lora.alpha", GGUF_F32);
	put_f32(&f, x->alpha);
	put_n_kv(&f);
	put_tensor(&f, x->a, 2, x->ne_a, x->format, 0);
	put_tensor(&f, x->b, 2, x->ne_b, x->format, (n_a * size + 31) / 32 * 32);
	put_pad(&f, 32);
	for (size_t i = 0; i < ((n_a * size + 31) / 32 * 32 + n_b * size + 64); i++)
		put_u8(&f, 0);
	int fd = mkstemp(temp_name(path, "lora"));
	assert_true(fd >= 0 && write(fd, f.d, f.n) == (ssize_t)f.n);
	close(fd);
	file_release(&f);
	refused_file(path, x->want, x->word);
	unlink(path);
}

static void adapter_files_refused_with_a_reason(void **state)
{
#define A "blk.0.attn_q.weight.lora_a"
#define B "blk.0.attn_q.weight.lora_b"
	static const struct bad cases[] = {
			{"model", "lora", "llama", A, B, {64, 4}, {4, 64}, QUANT_F32, 1, COHORT_E_UNSUPPORTED,
					"general.type is 'model', expected 'adapter'"},
			{"adapter", "dora", "llama", A, B, {64, 4}, {4, 64}, QUANT_F32, 1, COHORT_E_UNSUPPORTED,
					"adapter.type is 'dora'"},
			{"adapter", "lora", "qwen2", A, B, {64, 4}, {4, 64}, QUANT_F32, 1, COHORT_E_UNSUPPORTED,
					"general.architecture is 'qwen2', expected 'llama'"},
			{"adapter", "lora", "llama", A, B, {32, 4}, {4, 64}, QUANT_F32, 1, COHORT_E_FORMAT,
					"expected [64, 4]"},
			{"adapter", "lora", "llama", A, B, {64, 4}, {8, 64}, QUANT_F32, 1, COHORT_E_FORMAT,
					"expected [4, 64]"},
			{"adapter", "lora", "llama", A, B, {64, 65}, {65, 64}, QUANT_F32, 1, COHORT_E_FORMAT,
					"has rank 65"},
			{"adapter", "lora", "llama", A, "blk.0.attn_k.weight.lora_b", {64, 4}, {4, 64}, QUANT_F32, 1,
					COHORT_E_FORMAT, "lora_b is missing"},
			{"adapter", "lora", "llama", "evil.lora_a", "evil.lora_b", {64, 4}, {4, 64}, QUANT_F32, 1,
					COHORT_E_UNSUPPORTED, "tensor 'evil.lora_a' belongs to nothing"},
			{"adapter", "lora", "llama", "token_embd.weight.lora_a", "token_embd.weight.lora_b", {64, 4},
					{4, 288}, QUANT_F32, 1, COHORT_E_UNSUPPORTED, "no product uses"},
			{"adapter", "lora", "llama", A, B, {64, 4}, {4, 64}, QUANT_F32, INFINITY, COHORT_E_FORMAT,
					"adapter.lora.alpha is inf"},
	};
	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
		refused_content(&cases[i]);
	refused_file("/nonexistent/adapter.gguf", COHORT_E_IO, "/nonexistent/adapter.gguf");
	refused_file(base_path, COHORT_E_FORMAT, "'general.type' is missing");
}

static void adapter_calls_refuse_bad_arguments(void **state)
{
	struct rig r, other;
	struct cohort_err err;
	struct cohort_model *m = NULL;
	struct cohort_adapter *a = NULL;
	struct cohort_model_params mp;
	const char *const none = NULL;
	const float nan_scale = NAN;
	const char *const path = lora_path;
	(void)state;

	rig_open(&r, NULL, 8, COHORT_KV_F16);
	rig_open(&other, NULL, 8, COHORT_KV_F16);
	assert_int_equal(cohort_adapter_open(NULL, lora_path, &a, &err), COHORT_E_ARG);
	assert_int_equal(cohort_adapter_open(r.m, NULL, &a, &err), COHORT_E_ARG);
	assert_int_equal(cohort_adapter_open(r.m, lora_path, NULL, &err), COHORT_E_ARG);
	assert_int_equal(cohort_seq_adapter_set(NULL, 0, r.a, 1.0f, &err), COHORT_E_ARG);
	assert_int_equal(cohort_seq_adapter_set(r.c, -1, r.a, 1.0f, &err), COHORT_E_ARG);
	assert_int_equal(cohort_seq_adapter_set(r.c, 64, r.a, 1.0f, &err), COHORT_E_ARG);
	assert_int_equal(cohort_seq_adapter_set(r.c, 0, r.a, NAN, &err), COHORT_E_ARG);
	assert_int_equal(cohort_seq_adapter_set(r.c, 0, other.a, 1.0f, &err), COHORT_E_ARG);
	rig_close(&other);
	rig_close(&r);
	cohort_adapter_free(NULL);
	cohort_model_params_init(&mp);
	mp.n_adapters = 1;
	assert_int_equal(cohort_model_open(base_path, &mp, &m, &err), COHORT_E_ARG);
	mp.adapters = &none;
	assert_int_equal(cohort_model_open(base_path, &mp, &m, &err), COHORT_E_ARG);
	mp.adapters = &path;
	mp.adapter_scales = &nan_scale;
	assert_int_equal(cohort_model_open(base_path, &mp, &m, &err), COHORT_E_ARG);
	mp.adapter_scales = NULL;
	mp.vocab_only = true;
	assert_int_equal(cohort_model_open(base_path, &mp, &m, &err), COHORT_E_ARG);
	assert_null(m);
}

/* Memory that runs out while an adapter is opened or set is a status, and nothing has changed. */
static void adapter_out_of_memory_at_every_point(void **state)
{
	struct rig r;
	struct cohort_err err;
	enum cohort_status st = COHORT_E_MEMORY;
	struct cohort_adapter *a = NULL;
	int64_t n = 0;
	(void)state;

	rig_open(&r, NULL, 8, COHORT_KV_F16);
	for (; st; n++) {
		mem_fail_after(n);
		st = cohort_adapter_open(r.m, lora_path, &a, &err);
		mem_fail_after(-1);
		assert_true(st == COHORT_OK || (st == COHORT_E_MEMORY && !a));
	}
	assert_true(n > 5);
	cohort_adapter_free(a);
	for (n = 0, st = COHORT_E_MEMORY; st; n++) {
		mem_fail_after(n);
		st = cohort_seq_adapter_set(r.c, 0, r.a, 1.0f, &err);
		mem_fail_after(-1);
		assert_true(st == COHORT_OK || st == COHORT_E_MEMORY);
	}
	assert_int_equal(n, 3); /* each buffer that was got is kept */
	decode_text(&r, 0);
	rig_close(&r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(adapter_logits_are_the_stored_ones),
			cmocka_unit_test(sequences_with_several_adapters_in_a_batch),
			cmocka_unit_test(adapter_follows_its_sequence), cmocka_unit_test(copies_of_nothing),
			cmocka_unit_test(fork_before_the_prompt_has_the_adapter),
			cmocka_unit_test(adapter_files_refused_with_a_reason),
			cmocka_unit_test(adapter_calls_refuse_bad_arguments),
			cmocka_unit_test(adapter_out_of_memory_at_every_point)};
	return cmocka_run_group_tests_name("adapter", tests, make, arch_remove_models);
}
