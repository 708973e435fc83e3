/* One lexicon and one grammar for samplers of several threads: each gets what it would get alone.
 *
 * Shown red by grammar_mask without the lock (ThreadSanitizer, and other texts), by a cohort_grammar_free that does not
 * wait for the last sampler (AddressSanitizer), and by a cohort_grammar_match that has the lock for its whole text. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "cohort.h"
#include "effort.h"

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
	atomic_int *n_open; /* samplers, by now */
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
	atomic_fetch_add(j->n_open, 1);
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

/* In the last round the grammar is freed as soon as all have their samplers. */
static void shared_grammar(void **state)
{
	static const char schema[] = "{\"type\":\"array\",\"items\":{\"anyOf\":[{\"type\":\"string\",\"maxLength\":40},"
				     "{\"type\":\"object\",\"additionalProperties\":true},{\"type\":\"number\"}]}}";
	static struct job alone[N_THREADS], together[N_THREADS];
	pthread_t threads[N_THREADS];
	(void)state;

	for (int round = 0; round < 4; round++) {
		struct cohort_grammar *g = NULL;
		atomic_int n_open = 0;
		for (int i = 0; i < N_THREADS; i++) {
			assert_int_equal(cohort_grammar_open_schema(lexicon, schema, strlen(schema), &g, NULL),
					COHORT_OK);
			alone[i] = (struct job){.g = g, .n_open = &n_open, .seed = (uint64_t)(10 * round + i)};
			work(&alone[i]);
			assert_int_equal(alone[i].n_failed, 0);
			cohort_grammar_free(g);
			g = NULL;
		}
		assert_int_equal(cohort_grammar_open_schema(lexicon, schema, strlen(schema), &g, NULL), COHORT_OK);
		atomic_store(&n_open, 0);
		for (int i = 0; i < N_THREADS; i++) {
			together[i] = (struct job){.g = g, .n_open = &n_open, .seed = (uint64_t)(10 * round + i)};
			assert_int_equal(pthread_create(&threads[i], NULL, work, &together[i]), 0);
		}
		if (round == 3) {
			while (atomic_load(&n_open) < N_THREADS)
				sched_yield();
			cohort_grammar_free(g);
			g = NULL;
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

/* ---- A long text beside samplers ---- */

struct matching {
	struct cohort_grammar *g;
	char *text;
	size_t n;
	atomic_int n_begun, n_ended; /* matches */
	atomic_bool stop;
	int n_failed;
};

static void *match(void *arg)
{
	enum { MATCHES_MAX = 30 };
	struct matching *m = arg;

	for (int i = 0; i < MATCHES_MAX && !atomic_load(&m->stop); i++) {
		size_t matched = 0;
		bool complete = false;
		atomic_fetch_add(&m->n_begun, 1);
		m->n_failed += cohort_grammar_match(m->g, m->text, m->n, &matched, &complete, NULL) != COHORT_OK ||
				!complete || matched != m->n;
		atomic_fetch_add(&m->n_ended, 1);
	}
	atomic_store(&m->stop, true);
	return NULL;
}

/* A sampler has its turns while a long text is matched: so many calls begin and end within one match that they cannot
 * all have come before it had the lock. */
static void sampler_has_turns_while_a_text_is_matched(void **state)
{
	enum { PAUSE = 20000 };
	const size_t n_bytes = effort_is("short") ? 8 << 20 : 64 << 20;
	const int n_wanted = effort_is("short") ? 100 : 500;
	struct matching m = {.n = n_bytes};
	struct cohort_sampler_params p;
	struct cohort_sampler *s = NULL;
	float logits[N_VOCAB] = {0};
	pthread_t thread;
	int n_calls = 0, most = 0, match_of_calls = 0;
	(void)state;

	assert_int_equal(cohort_grammar_open(lexicon, "root ::= [a-z]*", 15, NULL, &m.g, NULL), COHORT_OK);
	m.text = malloc(n_bytes);
	assert_non_null(m.text);
	memset(m.text, 'q', n_bytes);
	cohort_sampler_params_init(&p);
	p.grammar = m.g;
	assert_int_equal(cohort_sampler_open(&p, N_VOCAB, &s, NULL), COHORT_OK);
	assert_int_equal(pthread_create(&thread, NULL, match, &m), 0);
	while (most < n_wanted && !atomic_load(&m.stop)) {
		cohort_token token;
		for (int i = 0; i < PAUSE; i++) /* so that a match that waits for the lock gets it */
			(void)atomic_load(&m.n_ended);
		const int ended = atomic_load(&m.n_ended), begun = atomic_load(&m.n_begun);
		assert_int_equal(cohort_sampler_sample(s, logits, &token, NULL), COHORT_OK);
		if (token == N_VOCAB - 1)
			cohort_sampler_reset(s);
		/* Had the match ended meanwhile, ended would be as begun was. */
		const bool within = begun > ended && atomic_load(&m.n_ended) == ended;
		n_calls = !within ? 0 : begun == match_of_calls ? n_calls + 1 : 1;
		match_of_calls = begun;
		most = n_calls > most ? n_calls : most;
	}
	atomic_store(&m.stop, true);
	pthread_join(thread, NULL);
	assert_int_equal(m.n_failed, 0);
	assert_true(most >= n_wanted);
	cohort_sampler_free(s);
	cohort_grammar_free(m.g);
	free(m.text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
			cmocka_unit_test(shared_grammar),
			cmocka_unit_test(sampler_has_turns_while_a_text_is_matched),
	};
	return cmocka_run_group_tests_name("grammar_threads", tests, open_lexicon, close_lexicon);
}
