/* One lexicon and one grammar for samplers of several threads: each gets what it would get alone.
 *
 * Shown red by grammar_mask without the lock (ThreadSanitizer, and other texts). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <pthread.h>
#include <string.h>

#include "base/rng.h"
#include "cohort.h"

enum { N_VOCAB = 600, N_TOKENS = 250, N_THREADS = 4 };

/* A text for every byte, and pairs of letters. */
static struct cohort_lexicon *lexicon;

static int open_lexicon(void **state)
{
	static char texts[N_VOCAB][2];
	struct cohort_lexicon_token t[N_VOCAB];
	(void)state;

	for (int i = 0; i < N_VOCAB; i++) {
		texts[i][0] = (char)(i < 256 ? i : "abc{}[]\",:1 "[i % 12]);
		texts[i][1] = "xyz\"}],: 12"[i % 11];
		t[i] = (struct cohort_lexicon_token){texts[i], i < 256 ? 1 : 2, true, i == N_VOCAB - 1};
	}
	return cohort_lexicon_open_list(t, N_VOCAB, &lexicon, NULL);
}

static int close_lexicon(void **state)
{
	(void)state;
	cohort_lexicon_free(lexicon);
	return 0;
}

struct job {
	struct cohort_grammar *g;
	uint64_t seed;
	cohort_token out[N_TOKENS];
	int n_failed;
};

static void *work(void *arg)
{
	struct job *j = arg;
	struct cohort_sampler_params p;
	struct cohort_sampler *s = NULL;
	struct rng r;
	float logits[N_VOCAB];

	rng_init(&r, j->seed, 9);
	cohort_sampler_params_init(&p);
	p.grammar = j->g;
	p.seed = j->seed;
	j->n_failed = cohort_sampler_open(&p, N_VOCAB, &s, NULL) != COHORT_OK;
	for (int i = 0; i < N_TOKENS && !j->n_failed; i++) {
		for (int k = 0; k < N_VOCAB; k++)
			logits[k] = (float)(4 * rng_f64(&r));
		j->n_failed += cohort_sampler_sample(s, logits, &j->out[i], NULL) != COHORT_OK;
		if (j->out[i] == N_VOCAB - 1)
			cohort_sampler_reset(s);
	}
	cohort_sampler_free(s);
	return NULL;
}

static void shared_grammar(void **state)
{
	static const char schema[] = "{\"type\":\"array\",\"items\":{\"anyOf\":[{\"type\":\"string\",\"maxLength\":40},"
				     "{\"type\":\"object\",\"additionalProperties\":true},{\"type\":\"number\"}]}}";
	static struct job alone[N_THREADS], together[N_THREADS];
	pthread_t threads[N_THREADS];
	(void)state;

	for (int round = 0; round < 3; round++) {
		struct cohort_grammar *g = NULL;
		for (int i = 0; i < N_THREADS; i++) {
			assert_int_equal(cohort_grammar_open_schema(lexicon, schema, strlen(schema), &g, NULL),
					COHORT_OK);
			alone[i] = (struct job){.g = g, .seed = (uint64_t)(10 * round + i)};
			work(&alone[i]);
			assert_int_equal(alone[i].n_failed, 0);
			cohort_grammar_free(g);
			g = NULL;
		}
		assert_int_equal(cohort_grammar_open_schema(lexicon, schema, strlen(schema), &g, NULL), COHORT_OK);
		for (int i = 0; i < N_THREADS; i++) {
			together[i] = (struct job){.g = g, .seed = (uint64_t)(10 * round + i)};
			assert_int_equal(pthread_create(&threads[i], NULL, work, &together[i]), 0);
		}
		for (int i = 0; i < N_THREADS; i++)
			pthread_join(threads[i], NULL);
		for (int i = 0; i < N_THREADS; i++) {
			assert_int_equal(together[i].n_failed, 0);
			assert_memory_equal(alone[i].out, together[i].out, sizeof alone[i].out);
		}
		cohort_grammar_free(g);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
			cmocka_unit_test(shared_grammar),
	};
	return cmocka_run_group_tests_name("grammar threads", tests, open_lexicon, close_lexicon);
}
