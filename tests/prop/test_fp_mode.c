/* A program that computes in a mode of its own gets the bits that all others get, and has its mode back behind every
 * call.
 *
 * The same life is led in each mode, with one thread and with several: a model is made, quantised, opened and decoded
 * with (tokens, vectors of subnormal numbers, moved cells), rows are sampled, scored and searched. All numbers that
 * come out are put down, and compared by memcmp with those of the usual mode. The first life is one of the odd ones, as
 * the levels prove themselves once in a process.
 *
 * Seen red with fp_leave that does nothing, with workers that begin in their maker's mode where contexts are opened in
 * the caller's, and with fp_enter taken out of each place that has it, one by one; but for those of opening a model, a
 * context and an adapter, which what is opened here does not depend on. */
#include "model_case.h"

#include "cohort_search.h"
#include "cohort_tools.h"

#include <fenv.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

/* ---- Modes ---- */

enum mode { MODE_UPWARD,
	MODE_ZERO,
	MODE_FLUSH,
	MODE_TRAPS,
	N_MODES,
	MODE_USUAL = N_MODES };

static const char *const names[] = {"upward", "towards zero", "subnormals are 0", "traps", "usual"};

/* The bits that have subnormals taken for 0, going in and coming out. False: they are not known here. */
static bool flush_subnormals(void)
{
#if defined(__x86_64__)
	__builtin_ia32_ldmxcsr(__builtin_ia32_stmxcsr() | 0x8040);
	return true;
#elif defined(__aarch64__)
	uint64_t v;
	__asm__ volatile("mrs %0, fpcr"
			 : "=r"(v));
	__asm__ volatile("msr fpcr, %0"
			 :
			 : "r"(v | 1u << 24));
	return true;
#else
	return false;
#endif
}

/* The mode without what operations leave in it. */
static uint64_t mode_bits(void)
{
#if defined(__x86_64__)
	return __builtin_ia32_stmxcsr() & ~0x3fu;
#elif defined(__aarch64__)
	uint64_t v;
	__asm__ volatile("mrs %0, fpcr"
			 : "=r"(v));
	return v;
#else
	return (uint64_t)fegetround();
#endif
}

static uint64_t mode_wanted;

static bool mode_set(enum mode mode)
{
	bool known = true;

	fesetenv(FE_DFL_ENV);
	switch (mode) {
	case MODE_UPWARD: known = fesetround(FE_UPWARD) == 0; break;
	case MODE_ZERO: known = fesetround(FE_TOWARDZERO) == 0; break;
	case MODE_FLUSH: known = flush_subnormals(); break;
	/* Some CPUs (ARM's) have none. */
	case MODE_TRAPS: known = feenableexcept(FE_DIVBYZERO | FE_INVALID | FE_OVERFLOW | FE_UNDERFLOW) != -1; break;
	default: break;
	}
	mode_wanted = mode_bits();
	return known;
}

/* Between two calls of the library the mode is the caller's. */
static void check_mode(const char *what)
{
	if (mode_bits() != mode_wanted) {
		fesetenv(FE_DFL_ENV);
		fail_msg("%s: left the mode at %llx", what, (unsigned long long)mode_bits());
	}
}

/* ---- What came out ---- */

struct record {
	uint8_t d[1 << 20];
	size_t n;
	struct {
		const char *what;
		size_t end;
	} parts[256];
	size_t n_parts;
};

static void note(struct record *r, const char *what, const void *d, size_t n)
{
	check_mode(what);
	assert_true(d && r->n + n <= sizeof r->d && r->n_parts < 256);
	memcpy(r->d + r->n, d, n);
	r->n += n;
	r->parts[r->n_parts].what = what;
	r->parts[r->n_parts++].end = r->n;
}

static void note_file(struct record *r, const char *what, const char *path)
{
	static uint8_t d[1 << 19];
	FILE *f = fopen(path, "rb");
	const size_t n = f ? fread(d, 1, sizeof d, f) : 0;

	assert_true(f && n > 0 && n < sizeof d && fclose(f) == 0);
	note(r, what, d, n);
}

static void same(const struct record *a, const struct record *b, const char *mode, int32_t n_threads)
{
	size_t from = 0;

	assert_true(a->n == b->n && a->n_parts == b->n_parts);
	for (size_t i = 0; i < a->n_parts; i++) {
		if (memcmp(a->d + from, b->d + from, a->parts[i].end - from) != 0)
			fail_msg("%s, %d threads: other bits of %s", mode, n_threads, a->parts[i].what);
		from = a->parts[i].end;
	}
}

/* ---- A life ---- */

enum { N_VOCAB = 61,
	N_EMBD = 32,
	N_TOKENS = 24 };
static const struct shape shape = {N_VOCAB, N_EMBD, 2, 4, 2, 16, 16, 64, 16, 256, QUANT_F32, QUANT_F32, QUANT_F32,
		QUANT_F32, false, NULL, NULL, NULL};
static char *path;

#define OK(call) \
	do { \
		struct cohort_err err_ = {0}; \
		if (call) { \
			fesetenv(FE_DFL_ENV); \
			fail_msg("%s: %s", #call, err_.text); \
		} \
		check_mode(#call); \
	} while (0)
#define ERR &err_

static void note_logits(struct record *r, const char *what, const struct cohort_context *c)
{
	note(r, what, cohort_logits_get(c, -1, NULL), N_VOCAB * sizeof(float));
}

static void tokens_and_vectors(struct record *r, struct cohort_context *c)
{
	cohort_token tokens[N_TOKENS];
	float tiny[N_EMBD];
	struct cohort_batch b;

	for (int32_t i = 0; i < N_TOKENS; i++)
		tokens[i] = (cohort_token)(1 + i * 7 % (N_VOCAB - 1));
	OK(cohort_decode_many(c, tokens, N_TOKENS, 0, 0, ERR));
	note_logits(r, "tokens", c);
	note(r, "the pooled vector", cohort_embeddings_seq_get(c, 0, NULL), N_EMBD * sizeof(float));
	OK(cohort_seq_rm(c, 0, 4, 8, ERR));
	OK(cohort_seq_add(c, 0, 8, -1, -4, ERR));
	OK(cohort_decode_one(c, 5, N_TOKENS - 4, 0, true, ERR));
	note_logits(r, "behind moved cells", c);
	/* Made of bits: arithmetic would be that of the mode. */
	for (uint32_t i = 0; i < N_EMBD; i++)
		memcpy(&tiny[i], &(uint32_t){(i & 1 ? 0x80000000u : 0) | (1000 + 99991 * i)}, sizeof *tiny);
	OK(cohort_batch_init(&b, 1, N_EMBD, 1, ERR));
	OK(cohort_batch_add_embd(&b, tiny, &(cohort_pos){0}, &(cohort_seq){1}, 1, true, ERR));
	OK(cohort_decode(c, &b, ERR));
	note_logits(r, "subnormal vectors", c);
	cohort_batch_release(&b);
}

static void sampled(struct record *r, struct cohort_context *c)
{
	struct cohort_sampler_params sp;
	struct cohort_sampler *s;
	struct cohort_logprob top[8];
	const float *logits = cohort_logits_get(c, -1, NULL);
	float logprob;
	double entropy;

	cohort_sampler_params_init(&sp);
	sp.temperature = 1.25f;
	sp.top_p = 0.95f;
	sp.bias = (struct cohort_logit_bias[]){{3, 0.1f}, {3, 0.2f}, {3, 0.7f}};
	sp.n_bias = 3;
	OK(cohort_sampler_open(&sp, N_VOCAB, &s, ERR));
	for (int i = 0; i < 8; i++) {
		cohort_token t;
		OK(cohort_sampler_sample(s, logits, &t, ERR));
		OK(cohort_sampler_logprobs_get(s, t, &logprob, top, 8, &entropy, ERR));
		note(r, "a sampled token", &t, sizeof t);
		note(r, "its probability", &logprob, sizeof logprob);
		note(r, "the entropy behind it", &entropy, sizeof entropy);
		OK(cohort_sampler_draw(s, logits, &t, ERR));
		OK(cohort_sampler_logprobs_get(s, t, NULL, NULL, 0, &entropy, ERR));
		note(r, "the entropy behind a draw", &entropy, sizeof entropy);
	}
	note(r, "the sampler's probabilities", top, sizeof top);
	cohort_sampler_free(s);
	OK(cohort_logprobs_get(logits, N_VOCAB, 7, &logprob, top, 8, &entropy, ERR));
	note(r, "log-probabilities", top, sizeof top);
	note(r, "the entropy", &entropy, sizeof entropy);
}

static void searched(struct record *r, struct cohort_context *c)
{
	struct cohort_forest_params fp;
	struct cohort_forest *f;
	struct cohort_branch b, b2;
	struct cohort_sampler_params sp;
	struct cohort_beam_params bp;
	struct cohort_beams beams;
	struct cohort_branch_info info;
	struct cohort_logit_bias bias[N_VOCAB];
	struct cohort_tree tree;
	struct cohort_draw_params dp;
	struct cohort_texts texts;

	cohort_seq_clear(c);
	cohort_forest_params_init(&fp);
	OK(cohort_forest_open(c, &fp, &f, ERR));
	cohort_sampler_params_init(&sp);
	OK(cohort_branch_create(f, &sp, &b, ERR));
	OK(cohort_branch_prefill(f, b, (cohort_token[]){3, 1, 4, 1, 5}, 5, ERR));
	OK(cohort_branch_fork(f, b, NULL, &b2, ERR));
	OK(cohort_branch_logits_merge(f, b2, b, 0.3f, ERR));
	note(r, "merged logits", cohort_branch_logits_get(f, b2, NULL), N_VOCAB * sizeof(float));
	for (int i = 0; i < 4; i++) {
		cohort_token t;
		OK(cohort_branch_sample(f, b2, &t, ERR));
		OK(cohort_branch_accept(f, b2, t, ERR));
		OK(cohort_branch_step(f, &b2, 1, ERR));
	}
	OK(cohort_branch_info_get(f, b2, &info, ERR));
	note(r, "a branch's perplexity", &info.perplexity, sizeof info.perplexity);
	note(r, "a branch's sum", &info.logprob, sizeof info.logprob);
	OK(cohort_branch_prune(f, b2, ERR));
	/* Logits whose last bit is worth 2: which of them are equal is a matter of rounding. */
	for (int32_t i = 0; i < N_VOCAB; i++)
		bias[i] = (struct cohort_logit_bias){i, 20000000};
	OK(cohort_branch_fork(f, b, NULL, &b2, ERR));
	OK(cohort_branch_bias_set(f, b2, bias, N_VOCAB, ERR));
	for (int i = 0; i < 8; i++) {
		cohort_token t;
		OK(cohort_branch_sample(f, b2, &t, ERR));
		note(r, "a token drawn with biases", &t, sizeof t);
	}
	OK(cohort_branch_prune(f, b2, ERR));
	OK(cohort_tree_grow(f, b, NULL, &tree, ERR));
	for (int32_t i = tree.n_nodes - 9; i < tree.n_nodes; i++)
		note(r, "a node's sum", &tree.nodes[i].sum, sizeof tree.nodes[i].sum);
	cohort_tree_release(&tree);
	cohort_draw_params_init(&dp);
	dp.n = 4;
	dp.max_tokens = 7;
	OK(cohort_texts_draw(f, b, &dp, &texts, ERR));
	for (int32_t i = 0; i < texts.n_items; i++)
		note(r, "a text's mean", &texts.items[i].likelihood, sizeof texts.items[i].likelihood);
	cohort_texts_release(&texts);
	cohort_beam_params_init(&bp);
	bp.width = 3;
	bp.max_tokens = 6;
	OK(cohort_beams_search(f, b, &bp, &beams, ERR));
	for (int32_t i = 0; i < beams.n_items; i++)
		note(r, "a beam's score", &beams.items[i].score, sizeof beams.items[i].score);
	cohort_beams_release(&beams);
	cohort_forest_free(f);
}

static void scored(struct record *r, struct cohort_context *c)
{
	const cohort_token text[] = {2, 7, 1, 8, 2, 8, 1, 8, 2, 8, 4, 5, 9};
	struct cohort_score score;

	cohort_seq_clear(c);
	OK(cohort_score_text(c, 0, text, sizeof text / sizeof *text, NULL, &score, ERR));
	note(r, "the score", &score.logprob, sizeof score.logprob);
	note(r, "the perplexity", &score.perplexity, sizeof score.perplexity);
}

static void life(struct record *r, int32_t n_threads)
{
	struct cohort_model_params mp;
	struct cohort_context_params cp;
	struct cohort_quantize_params qp;
	struct cohort_synth_params yp;
	struct cohort_model *m;
	struct cohort_context *c;
	char other[TEMP_MAX];
	const int fd = mkstemp(temp_name(other, "fp-mode"));

	assert_true(fd >= 0 && close(fd) == 0);
	r->n = r->n_parts = 0;
	cohort_synth_params_init(&yp);
	yp.n_vocab = 259;
	yp.n_embd = yp.n_ff = 64;
	yp.n_layer = yp.n_head = yp.n_head_kv = 1;
	yp.type = "F32";
	yp.n_threads = n_threads;
	OK(cohort_synth_write(other, &yp, ERR));
	note_file(r, "a made file", other);
	cohort_quantize_params_init(&qp);
	qp.type = "Q4_1";
	qp.n_threads = n_threads;
	OK(cohort_quantize_write(path, other, &qp, NULL, ERR));
	note_file(r, "the quantised file", other);
	for (int i = 0; i < 2; i++) {
		cohort_model_params_init(&mp);
		mp.n_threads = n_threads;
		OK(cohort_model_open(i ? other : path, &mp, &m, ERR));
		cohort_context_params_init(&cp);
		cp.n_ctx = 2048;
		cp.n_seq_max = 32;
		cp.n_threads = n_threads;
		cp.outputs = COHORT_OUTPUT_LOGITS | COHORT_OUTPUT_EMBEDDINGS;
		cp.pooling = COHORT_POOL_MEAN;
		OK(cohort_context_open(m, &cp, &c, ERR));
		tokens_and_vectors(r, c);
		sampled(r, c);
		cohort_context_free(c);
		cp.pooling = COHORT_POOL_NONE;
		OK(cohort_context_open(m, &cp, &c, ERR));
		scored(r, c);
		searched(r, c);
		cohort_context_free(c);
		cohort_model_free(m);
		check_mode("the end");
	}
	unlink(other);
}

static void floating_point_modes_change_no_bits(void **state)
{
	static struct record odd[N_MODES][2], usual;
	static const int32_t threads[] = {1, 3};
	bool known[N_MODES];

	(void)state;
	assert_non_null(path = synth_write(&shape, 11));
	for (int i = N_MODES - 1; i >= 0; i--) {
		known[i] = mode_set((enum mode)i);
		for (size_t t = 0; t < 2 && known[i]; t++)
			life(&odd[i][t], threads[t]);
	}
	mode_set(MODE_USUAL);
	life(&usual, 1);
	for (int i = 0; i < N_MODES; i++)
		for (size_t t = 0; t < 2; t++) {
			if (known[i])
				same(&usual, &odd[i][t], names[i], threads[t]);
			else
				print_message("# %s: not on this machine\n", names[i]);
		}
	unlink(path);
	free(path);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(floating_point_modes_change_no_bits)};
	return cmocka_run_group_tests_name("fp_mode", tests, NULL, NULL);
}
