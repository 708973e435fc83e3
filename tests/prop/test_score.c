/* cohort_score_text against tokens decoded one by one and plain sums; and that it leaves nothing behind.
 *
 * Shown red by: the probability of another token; a chunk that starts one position late; a sequence that is not
 * emptied after a failure; numbers of chunks before the one that failed in the caller's array
 * (score_refuses_and_changes_nothing). */
#include "spec_case.h"

#include <math.h>

static const char text[] = "Once upon a time there was a little girl named Lily. She liked to play outside with her "
			   "dog, and every day she went to the park with her mother. One day they found a big red ball "
			   "under a tree.";

enum { N_MAX = 256 };

static int32_t tokens_of(const struct cohort_model *m, cohort_token *out)
{
	size_t n = 0;
	OK(cohort_tokenize(m, text, strlen(text), 0, out, N_MAX, &n, NULL));
	assert_true(n > 40);
	return (int32_t)n;
}

static struct cohort_context *open_with(const struct cohort_model *m, int32_t n_ctx, int32_t n_batch, int32_t n_threads)
{
	struct cohort_context_params p;
	struct cohort_context *c = NULL;

	cohort_context_params_init(&p);
	p.n_ctx = n_ctx;
	p.n_blocks = pool_blocks(p.n_ctx, 0);
	p.n_batch = n_batch;
	p.n_ubatch = n_batch;
	p.n_threads = n_threads;
	p.n_seq_max = 2;
	OK(cohort_context_open(m, &p, &c, NULL));
	return c;
}

static void against_plain_sums(void **state)
{
	struct cohort_model *m = model_at("models/cohort-tiny.gguf");
	struct cohort_model_info info;
	struct cohort_context *c = open_with(m, 512, 64, 2);
	cohort_token t[N_MAX];
	float got[N_MAX], again[N_MAX];
	struct cohort_score score, other;
	const int32_t n = tokens_of(m, t);
	double sum = 0;
	(void)state;

	cohort_model_info_get(m, &info);
	OK(cohort_score_text(c, 1, t, n, got, &score, NULL));
	assert_int_equal(score.n, n - 1);
	assert_true(got[0] == 0.0f);
	assert_int_equal(cohort_seq_pos_max(c, 1), -1);
	for (int32_t i = 0; i + 1 < n; i++) {
		double all = 0;
		OK(cohort_decode_one(c, t[i], i, 0, true, NULL));
		const float *l = cohort_logits_get(c, -1, NULL);
		for (int32_t k = 0; k < info.n_vocab; k++)
			all += exp((double)l[k]);
		const double want = (double)l[t[i + 1]] - log(all);
		sum += want;
		if (fabs((double)got[i + 1] - want) > 1e-5)
			fail_msg("token %d: %g, expected %g", i + 1, (double)got[i + 1], want);
	}
	assert_true(fabs(score.logprob - sum) < 1e-3);
	assert_true(fabs(score.perplexity - exp(-sum / (n - 1))) < 1e-4 * score.perplexity);
	/* The same bits, however the text is cut. */
	for (int32_t k = 0; k < 3; k++) {
		struct cohort_context *d = open_with(m, 512, (const int32_t[]){1, 7, 200}[k], 1 + k);
		OK(cohort_score_text(d, 0, t, n, again, &other, NULL));
		assert_memory_equal(got, again, (size_t)n * sizeof *got);
		assert_memory_equal(&score, &other, sizeof score);
		cohort_context_free(d);
	}
	cohort_context_free(c);
	cohort_model_free(m);
}

static void score_refuses_and_changes_nothing(void **state)
{
	struct cohort_model *m = model_at("models/cohort-tiny.gguf");
	struct cohort_context *c = open_with(m, 32, 16, 1);
	cohort_token t[N_MAX], bad[2] = {1, 1 << 30};
	struct cohort_score s = {.n = 77};
	float got[N_MAX];
	struct cohort_err err;
	const int32_t n = tokens_of(m, t);
	(void)state;

	for (int32_t i = 0; i < n; i++)
		got[i] = 123.0f;
	assert_int_equal(cohort_score_text(c, 0, t, n, got, &s, &err), COHORT_NO_ROOM); /* in a later chunk */
	assert_int_equal(s.n, 77);
	for (int32_t i = 0; i < n; i++)
		assert_true(got[i] == 123.0f);
	mem_fail_after(0);
	assert_int_equal(cohort_score_text(c, 0, t, 2, got, &s, &err), COHORT_E_MEMORY);
	mem_fail_after(-1);
	assert_true(s.n == 77 && got[0] == 123.0f);
	assert_int_equal(cohort_seq_pos_max(c, 0), -1);
	OK(cohort_score_text(c, 0, t, 20, NULL, &s, &err)); /* and all the room is there again */
	assert_int_equal(s.n, 19);
	OK(cohort_score_text(c, 0, t, 1, NULL, &s, &err));
	assert_true(s.n == 0 && s.perplexity == 1);
	assert_int_equal(cohort_score_text(c, 0, bad, 2, NULL, &s, &err), COHORT_E_BATCH);
	assert_int_equal(cohort_score_text(c, 0, t, 0, NULL, &s, &err), COHORT_E_ARG);
	assert_int_equal(cohort_score_text(NULL, 0, t, 1, NULL, &s, &err), COHORT_E_ARG);
	OK(cohort_decode_one(c, t[0], 0, 0, false, NULL));
	assert_int_equal(cohort_score_text(c, 0, t, 3, NULL, &s, &err), COHORT_E_BATCH);
	assert_non_null(strstr(err.text, "not empty"));
	assert_int_equal(cohort_seq_pos_max(c, 0), 0); /* left alone */
	cohort_context_free(c);
	cohort_model_free(m);
}

/* The lexicon of a model: what its tokens say, and which of them end a text. */
static void lexicon_of_a_model(void **state)
{
	static const char grammar[] = "root ::= \"Once\" [^.]* \".\"";
	struct cohort_model *m = model_at("models/cohort-tiny.gguf");
	struct cohort_lexicon *x = NULL;
	struct cohort_grammar *g = NULL;
	struct cohort_sampler_params p;
	struct cohort_sampler *s = NULL;
	struct cohort_model_info info;
	bool seen_end = false;
	(void)state;

	cohort_model_info_get(m, &info);
	float *logits = calloc((size_t)info.n_vocab, sizeof *logits);
	OK(cohort_lexicon_open(m, &x, NULL));
	OK(cohort_grammar_open(x, grammar, strlen(grammar), NULL, &g, NULL));
	cohort_sampler_params_init(&p);
	p.grammar = g;
	OK(cohort_sampler_open(&p, info.n_vocab, &s, NULL));
	char made[4096] = "";
	size_t n_made = 0;
	for (int i = 0; i < 300 && !seen_end; i++) {
		cohort_token t;
		size_t n;
		for (int32_t k = 0; k < info.n_vocab; k++) /* ends as soon as it may */
			logits[k] = cohort_token_is_eog(m, k) ? 50.0f : (float)(k * 7 % 5);
		OK(cohort_sampler_sample(s, logits, &t, NULL));
		seen_end = cohort_token_is_eog(m, t);
		const char *bytes = cohort_token_bytes(m, t, false, &n);
		assert_true(n_made + n < sizeof made);
		memcpy(made + n_made, bytes, n);
		n_made += n;
		assert_int_equal(cohort_sampler_is_complete(s), n_made > 0 && made[n_made - 1] == '.');
	}
	assert_int_equal(memcmp(made, "Once", 4), 0);
	assert_true(!seen_end || made[n_made - 1] == '.');
	cohort_sampler_free(s);
	cohort_grammar_free(g);
	cohort_lexicon_free(x);
	cohort_model_free(m);
	free(logits);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
			cmocka_unit_test(against_plain_sums),
			cmocka_unit_test(score_refuses_and_changes_nothing),
			cmocka_unit_test(lexicon_of_a_model),
	};
	return cmocka_run_group_tests_name("score", tests, NULL, NULL);
}
