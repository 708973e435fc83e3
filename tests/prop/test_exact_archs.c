/* The contract for every architecture: a row's logits are the same bits alone or in any batch, chunking, split, thread
 * count, level and layout, in a fork, after a decode that failed, and after a tail was removed and decoded again.
 *
 * For each model four texts are decoded in the plainest way (alone, one row at a time, one thread, the reference
 * level); every other run is compared with them by memcmp, row by row. Models with states go back to checkpoints where
 * others remove a tail.
 *
 * Shown red by planted faults: a scan that begins with the state of the first row (mamba), a state written in place of
 * the one it was read from (mamba), all rows sent to the first row's experts (mixtral), a side-by-side block's input
 * that is not narrowed with its rows (phi2). */
#include "arch_case.h"
#include "effort.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

enum { N_TEXTS = 4, N_TOKENS = 40, FORK_AT = 17, SEQ_MAX = 8, CHECKPOINTS = 2 };

struct subject {
	char path[600];
	size_t n_vocab;
	cohort_token text[N_TEXTS][N_TOKENS]; /* the same up to FORK_AT */
	float *want[N_TEXTS]; /* [N_TOKENS, n_vocab] */
};

struct rig {
	struct cohort_model *m;
	struct cohort_context *c;
	struct cohort_batch b;
	int32_t n_asked, fail_at; /* layers until the abort callback says stop; 0: never */
};

struct setting {
	const char *isa;
	int32_t n_threads, n_ubatch;
	enum cohort_split split;
	bool file_layout;
};

static bool stop(void *user)
{
	struct rig *r = user;
	return r->fail_at && ++r->n_asked == r->fail_at;
}

static void rig_open(struct rig *r, const struct subject *s, struct setting x)
{
	struct cohort_model_params mp;
	struct cohort_context_params cp;
	struct cohort_err err;

	*r = (struct rig){0};
	cohort_model_params_init(&mp);
	mp.isa = x.isa;
	mp.file_layout = x.file_layout;
	if (cohort_model_open(s->path, &mp, &r->m, &err))
		fail_msg("%s", err.text);
	cohort_context_params_init(&cp);
	cp.n_ctx = SEQ_MAX * 64;
	cp.n_batch = 64;
	cp.n_ubatch = x.n_ubatch;
	cp.n_threads = x.n_threads;
	cp.n_seq_max = SEQ_MAX;
	cp.split = x.split;
	cp.n_checkpoints = CHECKPOINTS;
	cp.abort = stop;
	cp.abort_user = r;
	if (cohort_context_open(r->m, &cp, &r->c, &err) || cohort_batch_init(&r->b, cp.n_batch, 0, 4, &err))
		fail_msg("%s", err.text);
}

static void rig_close(struct rig *r)
{
	cohort_batch_release(&r->b);
	cohort_context_free(r->c);
	cohort_model_free(r->m);
}

static void add_row(struct rig *r, const struct subject *s, size_t text, int32_t pos, const cohort_seq *seqs, int32_t n,
		bool output)
{
	struct cohort_err err;
	if (cohort_batch_add(&r->b, s->text[text][pos], pos, seqs, n, output, &err))
		fail_msg("%s", err.text);
}

static void add(struct rig *r, const struct subject *s, size_t text, int32_t pos, const cohort_seq *seqs, int32_t n)
{
	add_row(r, s, text, pos, seqs, n, true);
}

static void decode(struct rig *r)
{
	struct cohort_err err;
	if (cohort_decode(r->c, &r->b, &err))
		fail_msg("%s", err.text);
}

static void check(const struct rig *r, const struct subject *s, int32_t i, size_t text, int32_t pos, const char *what)
{
	const float *got = cohort_logits_get(r->c, i, NULL);
	assert_non_null(got);
	if (memcmp(got, s->want[text] + (size_t)pos * s->n_vocab, s->n_vocab * sizeof *got) != 0)
		fail_msg("%s: text %zu, position %d differs", what, text, pos);
}

static void subject_open(struct subject *s, const char *name)
{
	struct cohort_model_info info = {.struct_size = sizeof info};
	struct rig r;
	struct rng g;

	arch_path(s->path, sizeof s->path, name, "gguf");
	rng_init(&g, 7, 1);
	rig_open(&r, s, (struct setting){cohort_isa_name(0), 1, 1, COHORT_SPLIT_SIMPLE, false});
	cohort_model_info_get(r.m, &info);
	s->n_vocab = (size_t)info.n_vocab;
	for (size_t t = 0; t < N_TEXTS; t++) {
		s->want[t] = malloc(N_TOKENS * s->n_vocab * sizeof(float));
		assert_non_null(s->want[t]);
		for (int32_t i = 0; i < N_TOKENS; i++)
			s->text[t][i] = i < FORK_AT && t > 0 ? s->text[0][i]
							     : (cohort_token)(rng_u32(&g) % (uint32_t)info.n_vocab);
		cohort_seq_clear(r.c);
		for (int32_t i = 0; i < N_TOKENS; i++) {
			const cohort_seq seq = 0;
			cohort_batch_reset(&r.b);
			add(&r, s, t, i, &seq, 1);
			decode(&r);
			memcpy(s->want[t] + (size_t)i * s->n_vocab, cohort_logits_get(r.c, 0, NULL),
					s->n_vocab * sizeof(float));
		}
	}
	rig_close(&r);
}

static void subject_close(struct subject *s)
{
	for (size_t t = 0; t < N_TEXTS; t++)
		free(s->want[t]);
}

/* All texts at once, in chunks of random length, rows of the texts mixed. */
static void together(struct rig *r, const struct subject *s, uint64_t seed, const char *what)
{
	struct rng g;
	int32_t at[N_TEXTS] = {0};

	rng_init(&g, seed, 2);
	cohort_seq_clear(r->c);
	for (bool left = true; left;) {
		struct {
			size_t text;
			int32_t pos;
			bool output;
		} rows[64];
		int32_t n = 0;
		const int32_t want = 1 + (int32_t)(rng_u32(&g) % 60);
		left = false;
		cohort_batch_reset(&r->b);
		for (int32_t tries = 0; tries < 200 && n < want; tries++) {
			const size_t t = rng_u32(&g) % N_TEXTS;
			const cohort_seq seq = (cohort_seq)(SEQ_MAX - 1 - t);
			if (at[t] == N_TOKENS)
				continue;
			rows[n].output = rng_u32(&g) % 4 != 0;
			add_row(r, s, t, at[t], &seq, 1, rows[n].output);
			rows[n].text = t;
			rows[n++].pos = at[t]++;
		}
		if (n)
			decode(r);
		for (int32_t i = 0; i < n; i++)
			if (rows[i].output)
				check(r, s, i, rows[i].text, rows[i].pos, what);
		for (size_t t = 0; t < N_TEXTS; t++)
			left |= at[t] < N_TOKENS;
	}
}

static void settings(const struct subject *s)
{
	static const int32_t ubatch[] = {3, 64};
	uint64_t seed = 1;

	for (size_t l = 0; l < cohort_isa_count(); l++)
		for (int32_t split = COHORT_SPLIT_SIMPLE; cohort_isa_usable(l) && split <= COHORT_SPLIT_SEQ; split++)
			for (size_t u = 0; u < 2; u++) {
				struct rig r;
				if (effort_is("short") && (l + (size_t)split + u) % 3)
					continue;
				rig_open(&r, s,
						(struct setting){cohort_isa_name(l), 1 + (int32_t)u, ubatch[u],
								(enum cohort_split)split, split == COHORT_SPLIT_EQUAL});
				together(&r, s, seed++, cohort_isa_name(l));
				rig_close(&r);
			}
}

/* The common beginning once, for all texts at once or copied, then each its own way. */
static void forks(const struct subject *s, bool coupled)
{
	const cohort_seq all[N_TEXTS] = {0, 1, 2, 3};
	struct cohort_err err;
	struct rig r;

	rig_open(&r, s, (struct setting){NULL, 2, 16, COHORT_SPLIT_SIMPLE, false});
	cohort_batch_reset(&r.b);
	for (int32_t i = 0; i < FORK_AT; i++)
		add(&r, s, 0, i, all, coupled ? N_TEXTS : 1);
	if (coupled) /* they part within the batch */
		for (size_t t = 0; t < N_TEXTS; t++)
			add(&r, s, t, FORK_AT, &all[t], 1);
	decode(&r);
	for (int32_t i = 0; i < FORK_AT; i++)
		check(&r, s, i, 0, i, "a common beginning");
	for (size_t t = 0; coupled && t < N_TEXTS; t++)
		check(&r, s, FORK_AT + (int32_t)t, t, FORK_AT, "a parting of ways");
	for (cohort_seq t = 1; !coupled && t < N_TEXTS; t++)
		assert_int_equal(cohort_seq_cp(r.c, 0, t, 0, -1, &err), COHORT_OK);
	for (int32_t i = FORK_AT + coupled; i < N_TOKENS; i++) {
		cohort_batch_reset(&r.b);
		for (size_t t = 0; t < N_TEXTS; t++)
			add(&r, s, t, i, &all[t], 1);
		decode(&r);
		for (size_t t = 0; t < N_TEXTS; t++)
			check(&r, s, (int32_t)t, t, i, "a fork");
	}
	rig_close(&r);
}

/* A decode that is stopped at any layer leaves no trace; a tail goes, and what comes after is as it was. */
static void second_thoughts(const struct subject *s)
{
	struct cohort_err err;
	struct rig r;
	const cohort_seq seq = 2;

	rig_open(&r, s, (struct setting){NULL, 1, 8, COHORT_SPLIT_SIMPLE, false});
	for (int32_t i = 0; i < FORK_AT; i++)
		add(&r, s, 0, i, &seq, 1);
	decode(&r);
	assert_int_equal(cohort_seq_checkpoint(r.c, seq, &err), COHORT_OK);
	cohort_batch_reset(&r.b);
	for (int32_t i = FORK_AT; i < N_TOKENS; i++)
		add(&r, s, 3, i, &seq, 1);
	for (r.fail_at = 1; r.fail_at < 6; r.fail_at++) {
		r.n_asked = 0;
		assert_int_equal(cohort_decode(r.c, &r.b, &err), COHORT_ABORTED);
		assert_int_equal(cohort_seq_pos_max(r.c, seq), FORK_AT - 1);
	}
	r.fail_at = 0;
	decode(&r);
	for (int32_t i = FORK_AT; i < N_TOKENS; i++)
		check(&r, s, i - FORK_AT, 3, i, "after decodes that failed");
	if (cohort_seq_rm(r.c, seq, FORK_AT, -1, &err)) { /* with windows it may be too late */
		assert_string_equal(err.rule, "window-gone");
	} else {
		cohort_batch_reset(&r.b);
		for (int32_t i = FORK_AT; i < N_TOKENS; i++)
			add(&r, s, 1, i, &seq, 1);
		decode(&r);
		for (int32_t i = FORK_AT; i < N_TOKENS; i++)
			check(&r, s, i - FORK_AT, 1, i, "another tail");
	}
	rig_close(&r);
}

/* Models with states cannot forget a part without a checkpoint. */
static void checkpoints(const struct subject *s)
{
	struct cohort_model_info info = {.struct_size = sizeof info};
	struct cohort_err err;
	struct rig r;
	const cohort_seq seq = 1;

	rig_open(&r, s, (struct setting){NULL, 1, 8, COHORT_SPLIT_SIMPLE, false});
	cohort_model_info_get(r.m, &info);
	for (int32_t i = 0; i < 8; i++)
		add(&r, s, 0, i, &seq, 1);
	decode(&r);
	if (info.recurrent) {
		assert_int_equal(cohort_seq_rm(r.c, seq, 5, -1, &err), COHORT_E_ARG);
		assert_string_equal(err.rule, "checkpoint");
		assert_int_equal(cohort_seq_checkpoint(r.c, seq, &err), COHORT_OK);
		assert_int_equal(cohort_seq_rm(r.c, seq, 8, -1, &err), COHORT_OK); /* nothing is there */
	} else {
		assert_int_equal(cohort_seq_checkpoint(r.c, seq, &err), COHORT_OK);
		assert_int_equal(cohort_seq_rm(r.c, seq, 5, -1, &err), COHORT_OK);
	}
	assert_int_equal(cohort_seq_checkpoint(r.c, SEQ_MAX, &err), COHORT_E_ARG);
	assert_int_equal(cohort_seq_checkpoint(NULL, 0, &err), COHORT_E_ARG);
	rig_close(&r);
}

static void decoder_rows_exact(void **state)
{
	struct subject s = {0};

	subject_open(&s, *state);
	settings(&s);
	forks(&s, false);
	forks(&s, true);
	second_thoughts(&s);
	checkpoints(&s);
	subject_close(&s);
}

/* An encoder's texts, of different lengths: alone, and together in one call. */
static void encode(struct rig *r, const cohort_token *ids, const int32_t *len, size_t n)
{
	struct cohort_err err;
	cohort_batch_reset(&r->b);
	for (size_t t = 0; t < n; t++)
		for (int32_t i = 0; i < len[t]; i++) {
			const cohort_seq seq = (cohort_seq)t;
			assert_int_equal(cohort_batch_add(&r->b, ids[i], i, &seq, 1, true, &err), COHORT_OK);
		}
	if (cohort_encode(r->c, &r->b, &err))
		fail_msg("%s", err.text);
}

static void encoder_rows_exact(void **state)
{
	enum { LEN_MAX = 30, N = 5 };
	static const int32_t len[N] = {7, 1, LEN_MAX, 12, 7};
	struct cohort_context_params cp;
	struct cohort_err err;
	cohort_token ids[LEN_MAX];
	float *want[N], *pooled[N];
	char path[200];
	size_t n_embd = 0;

	for (int32_t i = 0; i < LEN_MAX; i++)
		ids[i] = (7 * i + 3) % 90;
	arch_path(path, sizeof path, *state, "gguf");
	for (size_t l = 0; l < cohort_isa_count(); l++)
		for (int32_t n_threads = 1; cohort_isa_usable(l) && n_threads <= 2; n_threads++) {
			struct cohort_model_info info = {.struct_size = sizeof info};
			struct cohort_model_params mp;
			struct rig r = {0};
			cohort_model_params_init(&mp);
			mp.isa = cohort_isa_name(l);
			if (cohort_model_open(path, &mp, &r.m, &err))
				fail_msg("%s", err.text);
			cohort_model_info_get(r.m, &info);
			assert_true(info.encoder && info.pooling == COHORT_POOL_MEAN);
			n_embd = (size_t)info.n_embd;
			cohort_context_params_init(&cp);
			assert_int_equal(cohort_context_open(r.m, &cp, &r.c, &err), COHORT_E_ARG); /* no logits */
			cp.outputs = COHORT_OUTPUT_EMBEDDINGS;
			cp.pooling = info.pooling;
			cp.n_threads = n_threads;
			if (cohort_context_open(r.m, &cp, &r.c, &err) || cohort_batch_init(&r.b, 256, 0, 1, &err))
				fail_msg("%s", err.text);
			for (size_t t = 0; l + (size_t)n_threads == 1 && t < N; t++) {
				want[t] = malloc((size_t)len[t] * n_embd * sizeof(float));
				pooled[t] = malloc(n_embd * sizeof(float));
				assert_true(want[t] && pooled[t]);
				encode(&r, ids, &len[t], 1);
				for (int32_t i = 0; i < len[t]; i++)
					memcpy(want[t] + (size_t)i * n_embd, cohort_embeddings_get(r.c, i, &err),
							n_embd * sizeof(float));
				memcpy(pooled[t], cohort_embeddings_seq_get(r.c, 0, &err), n_embd * sizeof(float));
			}
			encode(&r, ids, len, N);
			int32_t at = 0;
			for (size_t t = 0; t < N; t++) {
				for (int32_t i = 0; i < len[t]; i++, at++)
					assert_memory_equal(cohort_embeddings_get(r.c, at, &err),
							want[t] + (size_t)i * n_embd, n_embd * sizeof(float));
				assert_memory_equal(cohort_embeddings_seq_get(r.c, (cohort_seq)t, &err), pooled[t],
						n_embd * sizeof(float));
			}
			assert_int_equal(cohort_decode(r.c, &r.b, &err), COHORT_E_UNSUPPORTED);
			rig_close(&r);
		}
	for (size_t t = 0; t < N; t++) {
		free(want[t]);
		free(pooled[t]);
	}
}

int main(int argc, char **argv)
{
	static const char *const encoders[] = {
			"bert", "nomic-bert", "jina-bert-v2", "jina-bert-v2-code", "jina-bert-v3"};
	static const char *const names[] = {"phi2", "stablelm-qknorm", "stablelm-parallel", "olmo2-window", "granite",
			"granitemoe-shared", "command-r", "starcoder2", "smollm3", "gpt-oss-f32", "qwen2moe",
			"qwen3-yarn", "llama-yarn", "phi3-long", "llama-bias", "mixtral", "qwen2", "qwen3moe", "gemma",
			"gemma2", "gemma3", "gpt2", "mamba", "cohere2", "falcon-norms", "gptneox", "bloom", "mistral3",
			"mpt", "internlm2", "exaone", "minicpm", "glm4", "olmoe", "starcoder", "baichuan-13b"};
	enum { N = sizeof names / sizeof *names, N_ENCODERS = sizeof encoders / sizeof *encoders };
	static struct CMUnitTest tests[N + N_ENCODERS];
	size_t n = 0;

	for (size_t i = 0; i < N; i++)
		if (argc < 2 || strcmp(argv[1], names[i]) == 0)
			tests[n++] = (struct CMUnitTest){names[i], decoder_rows_exact, NULL, NULL, (void *)names[i]};
	for (size_t i = 0; i < N_ENCODERS; i++)
		if (argc < 2 || strcmp(argv[1], encoders[i]) == 0)
			tests[n++] = (struct CMUnitTest){
					encoders[i], encoder_rows_exact, NULL, NULL, (void *)encoders[i]};
	return _cmocka_run_group_tests("exact_archs", tests, n, arch_make_models, arch_remove_models);
}
