/* The sampler: which tokens each stage leaves, against a full sort and plain doubles; how often they are drawn; what it
 * refuses. All seeds are fixed, so a passing statistic passes for ever. */
#include "effort.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/rng.h"
#include "cohort.h"

enum { N_MAX = 512 };

/* Everything off, at the given temperature. */
static struct cohort_sampler_params plain(float temperature)
{
	struct cohort_sampler_params p;

	cohort_sampler_params_init(&p);
	p.temperature = temperature;
	p.top_k = 0;
	p.top_p = 1.0f;
	p.min_p = 0.0f;
	return p;
}

static struct cohort_sampler *open_ok(const struct cohort_sampler_params *p, int32_t n_vocab)
{
	struct cohort_sampler *s = NULL;

	assert_int_equal(cohort_sampler_open(p, n_vocab, &s, NULL), COHORT_OK);
	return s;
}

static cohort_token sample(struct cohort_sampler *s, const float *logits)
{
	struct cohort_err err;
	cohort_token t = -1;

	if (cohort_sampler_sample(s, logits, &t, &err))
		fail_msg("%s", err.text);
	return t;
}

/* About normal, so that probabilities differ by orders of magnitude. */
static void random_logits(struct rng *r, float *logits, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		double x = -6;
		for (int k = 0; k < 12; k++)
			x += rng_f64(r);
		logits[i] = (float)(2 * x);
	}
}

/* ---- The reference: sort everything, then cut ---- */

static const float *sorting; /* qsort has no argument for it */

static int by_logit(const void *a, const void *b)
{
	int i = *(const int *)a, j = *(const int *)b;

	if (sorting[i] != sorting[j])
		return sorting[i] > sorting[j] ? -1 : 1;
	return i < j ? -1 : 1;
}

/* Ids that are left, best first, and their probabilities. */
static size_t reference(const struct cohort_sampler_params *p, const float *logits, size_t n, int *ids, double *probs)
{
	double total = 0, sum = 0;
	size_t keep = (size_t)p->min_keep;

	for (size_t i = 0; i < n; i++)
		ids[i] = (int)i;
	sorting = logits;
	qsort(ids, n, sizeof *ids, by_logit);
	if (p->top_k > 0 && (size_t)p->top_k < n)
		n = (size_t)p->top_k;
	for (size_t i = 0; i < n; i++)
		total += probs[i] = exp((double)logits[ids[i]] - (double)logits[ids[0]]);
	if (p->top_p < 1)
		for (size_t i = 0; i < n; i++) {
			sum += probs[i] / total;
			if (sum >= (double)p->top_p && i + 1 >= keep)
				n = i + 1;
		}
	if (p->min_p > 0)
		while (n > keep && probs[n - 1] < (double)p->min_p * probs[0])
			n--;
	total = 0;
	for (size_t i = 0; i < n; i++)
		total += probs[i] = exp(((double)logits[ids[i]] - (double)logits[ids[0]]) / (double)p->temperature);
	for (size_t i = 0; i < n; i++)
		probs[i] /= total;
	return n;
}

/* Draws n_draws and compares: nothing but what is left, all of it, and as often as it should be. */
static void compare(const struct cohort_sampler_params *p, const float *logits, size_t n, int n_draws)
{
	int ids[N_MAX], seen[N_MAX] = {0};
	double probs[N_MAX], chi = 0;
	size_t left = reference(p, logits, n, ids, probs), free = 0;
	struct cohort_sampler *s = open_ok(p, (int32_t)n);

	n_draws = effort(n_draws);
	for (int i = 0; i < n_draws; i++)
		seen[sample(s, logits)]++;
	int n_seen = 0;
	for (size_t i = 0; i < left; i++) {
		double want = probs[i] * n_draws;
		n_seen += seen[ids[i]];
		if (want > 20 && seen[ids[i]] == 0)
			fail_msg("token %d, number %zu of %zu, never came", ids[i], i, left);
		if (want > 5) {
			chi += pow(seen[ids[i]] - want, 2) / want;
			free++;
		}
	}
	if (n_seen != n_draws)
		fail_msg("%d draws outside the %zu tokens left", n_draws - n_seen, left);
	/* Mean = degrees of freedom; their number and six deviations above it. */
	if (chi > (double)free + 6 * sqrt(2.0 * (double)free) + 6)
		fail_msg("chi-square is %g of %zu", chi, free);
	cohort_sampler_free(s);
}

/* ---- Greedy ---- */

static void greedy_sampler_against_maximum(void **state)
{
	struct cohort_sampler_params p = plain(0);
	struct rng r;
	float logits[70];
	(void)state;

	rng_init(&r, 1, 1);
	for (int i = 0; i < 2000; i++) {
		size_t n = 1 + rng_u32(&r) % 70, best = 0;
		for (size_t k = 0; k < n; k++) /* few values, so that there are ties */
			logits[k] = rng_u32(&r) % 8 ? (float)(rng_u32(&r) % 6) - 8 : -INFINITY;
		logits[rng_u32(&r) % n] = -3;
		for (size_t k = 0; k < n; k++)
			if (logits[k] > logits[best])
				best = k;
		p.temperature = i % 2 ? 0.0f : -1.0f;
		struct cohort_sampler *s = open_ok(&p, (int32_t)n);
		assert_int_equal(sample(s, logits), best);
		assert_int_equal(sample(s, logits), best);
		cohort_sampler_free(s);
	}
	/* Both zeros are the same number. */
	struct cohort_sampler *s = open_ok(&p, 3);
	assert_int_equal(sample(s, (float[]){-1, -0.0f, 0.0f}), 1);
	cohort_sampler_free(s);
}

/* What leaves one candidate is greedy at any temperature. */
static void one_left(void **state)
{
	static const float logits[] = {-FLT_MAX, 1, FLT_MAX, 1, FLT_MAX};
	struct cohort_sampler_params p[5];
	(void)state;

	for (int i = 0; i < 5; i++)
		p[i] = plain(5);
	p[0].top_k = 1;
	p[1].top_p = 0;
	p[2].top_k = 3;
	p[2].top_p = 0;
	p[3].temperature = 1e-38f;
	p[4].min_p = 1;
	for (int i = 0; i < 5; i++) {
		struct cohort_sampler *s = open_ok(&p[i], 5);
		for (int k = 0; k < 100; k++) {
			cohort_token t = sample(s, logits);
			if (i < 3)
				assert_int_equal(t, 2);
			else /* these two cannot tell equal ones apart */
				assert_true(t == 2 || t == 4);
		}
		cohort_sampler_free(s);
	}
}

/* ---- The stages ---- */

static void top_k(void **state)
{
	static const int ks[] = {1, 2, 3, 7, 8, 40, 99, 100, 101, 0, -1};
	struct rng r;
	float logits[100];
	(void)state;

	rng_init(&r, 2, 1);
	for (size_t i = 0; i < sizeof ks / sizeof *ks; i++)
		for (int ties = 0; ties < 2; ties++) {
			struct cohort_sampler_params p = plain(50); /* nearly even, so that all of them come */
			random_logits(&r, logits, 100);
			for (int k = 0; k < 100 && ties; k++)
				logits[k] = floorf(logits[k]);
			p.top_k = ks[i];
			p.seed = i;
			compare(&p, logits, 100, 3000);
		}
}

static void top_p(void **state)
{
	static const float ps[] = {0, 0.01f, 0.3f, 0.5f, 0.9f, 0.95f, 0.999f, 1, 2};
	struct rng r;
	float logits[80];
	(void)state;

	rng_init(&r, 3, 1);
	for (size_t i = 0; i < sizeof ps / sizeof *ps; i++)
		for (int k = 0; k < 4; k++) {
			struct cohort_sampler_params p = plain(50);
			random_logits(&r, logits, 80);
			p.top_p = ps[i];
			p.top_k = k % 2 ? 30 : 0;
			p.min_keep = k / 2 ? 7 : 1;
			p.seed = i;
			compare(&p, logits, 80, 2500);
		}
}

static void min_p(void **state)
{
	static const float ms[] = {-1, 0, 1e-6f, 0.01f, 0.05f, 0.3f, 0.9f, 1};
	struct rng r;
	float logits[80];
	(void)state;

	rng_init(&r, 4, 1);
	for (size_t i = 0; i < sizeof ms / sizeof *ms; i++)
		for (int k = 0; k < 8; k++) {
			struct cohort_sampler_params p = plain(50);
			random_logits(&r, logits, 80);
			p.min_p = ms[i];
			p.top_k = k % 2 ? 30 : 0;
			p.top_p = k / 2 % 2 ? 0.95f : 1;
			p.min_keep = k / 4 ? 7 : 1;
			p.seed = i;
			compare(&p, logits, 80, 2500);
		}
}

static void draws_against_reference(void **state)
{
	static const float temperatures[] = {0.1f, 0.8f, 1, 3};
	struct rng r;
	float logits[300];
	(void)state;

	rng_init(&r, 5, 1);
	for (size_t i = 0; i < 4; i++) {
		struct cohort_sampler_params p = plain(temperatures[i]);
		random_logits(&r, logits, 300);
		p.seed = 10 + i;
		compare(&p, logits, 12, 100000);
		p.top_k = 40;
		p.top_p = 0.95f;
		p.min_p = 0.05f;
		compare(&p, logits, 300, 20000);
	}
}

/* ---- Seeds ---- */

/* Of equally likely tokens the draw is the generator's number, scaled: one draw for each token, and no other. */
static void draws_are_the_generators(void **state)
{
	static const float even[256];
	struct cohort_sampler_params p = plain(0.7f);
	struct rng r;
	(void)state;

	for (uint64_t seed = 0; seed < 4; seed++) {
		p.seed = seed;
		p.stream = 3 * seed;
		struct cohort_sampler *s = open_ok(&p, 256);
		rng_init(&r, seed, 3 * seed);
		for (int i = 0; i < 1000; i++)
			assert_int_equal(sample(s, even), (int)(rng_f64(&r) * 256));
		cohort_sampler_free(s);
	}
}

static void seeds_and_streams(void **state)
{
	enum { N = 400 };
	static cohort_token out[8][N];
	struct cohort_sampler_params p;
	struct rng r;
	float logits[100];
	(void)state;

	cohort_sampler_params_init(&p);
	for (int i = 0; i < 8; i++) { /* the last two are alike */
		p.seed = i < 3 ? (uint64_t)i : 77;
		p.stream = i < 3 ? 0 : i < 6 ? (uint64_t)i
					     : 6;
		struct cohort_sampler *s = open_ok(&p, 100);
		rng_init(&r, 6, 1);
		for (int k = 0; k < N; k++) {
			random_logits(&r, logits, 100);
			out[i][k] = sample(s, logits);
		}
		cohort_sampler_free(s);
	}
	for (int i = 0; i < 8; i++)
		for (int j = 0; j < i; j++)
			assert_int_equal(memcmp(out[i], out[j], sizeof out[i]) == 0, i == 7 && j == 6);
}

/* Logits that every machine makes alike. */
static void plain_logits(float *logits, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		logits[i] = (float)(i * 2654435761u >> 20) / 512 - 4;
}

/* A text a user got for a seed must not change. */
static void known_answer(void **state)
{
	static const cohort_token want_default[16] = {
			385,
			199,
			317,
			288,
			207,
			76,
			377,
			84,
			29,
			110,
			76,
			364,
			296,
			220,
			165,
			55,
	};
	static const cohort_token want_mass[16] = {
			71,
			254,
			231,
			55,
			291,
			8,
			377,
			19,
			388,
			165,
			385,
			296,
			181,
			385,
			186,
			343,
	};
	static const cohort_token want_all[16] = {
			231,
			220,
			373,
			110,
			205,
			105,
			377,
			381,
			310,
			97,
			16,
			215,
			74,
			16,
			228,
			165,
	};
	static const cohort_token *const want[] = {want_default, want_mass, want_all};
	float logits[400];
	(void)state;

	plain_logits(logits, 400);
	for (int k = 0; k < 3; k++) {
		struct cohort_sampler_params p;
		cohort_sampler_params_init(&p);
		if (k == 1)
			p.top_k = 0;
		if (k == 2)
			p = plain(1.5f);
		p.seed = 42;
		p.stream = 1;
		struct cohort_sampler *s = open_ok(&p, 400);
		for (int i = 0; i < 16; i++)
			assert_int_equal(sample(s, logits), want[k][i]);
		cohort_sampler_free(s);
	}
}

/* ---- Numbers that are none ---- */

static void sampler_refuses_logits_that_are_no_numbers(void **state)
{
	struct cohort_sampler_params p[4] = {plain(0), plain(1), plain(1), plain(1)};
	float logits[40];
	struct cohort_err err;
	cohort_token t = -5;
	(void)state;

	p[1].top_k = 5;
	p[2].top_p = 0.9f;
	for (int k = 0; k < 4; k++) {
		struct cohort_sampler *s = open_ok(&p[k], 40), *beside = open_ok(&p[k], 40);
		for (int i = 0; i < 40; i++) {
			plain_logits(logits, 40);
			/* A refusal does not move the generator: both go on alike. */
			assert_int_equal(sample(s, logits), sample(beside, logits));
			logits[i] = i % 2 ? NAN : INFINITY;
			assert_int_equal(cohort_sampler_sample(s, logits, &t, &err), COHORT_E_NUMERIC);
			assert_int_equal(err.status, COHORT_E_NUMERIC);
			assert_int_equal(err.got, i);
			assert_int_equal(cohort_sampler_sample(s, logits, &t, NULL), COHORT_E_NUMERIC);
			logits[i] = -NAN;
			assert_int_equal(cohort_sampler_sample(s, logits, &t, &err), COHORT_E_NUMERIC);
		}
		for (int i = 0; i < 40; i++)
			logits[i] = -INFINITY;
		assert_int_equal(cohort_sampler_sample(s, logits, &t, &err), COHORT_E_NUMERIC);
		assert_int_equal(t, -5);
		/* Excluded tokens never come; the only one left always does. */
		logits[33] = -FLT_MAX;
		for (int i = 0; i < 50; i++)
			assert_int_equal(sample(s, logits), 33);
		logits[7] = -FLT_MAX;
		for (int i = 0; i < 50; i++) {
			cohort_token only = sample(s, logits);
			assert_true(only == 33 || only == 7);
		}
		cohort_sampler_free(s);
		cohort_sampler_free(beside);
	}
}

/* ---- Arguments and memory ---- */

static void sampler_open_refuses_bad_params(void **state)
{
	struct cohort_sampler *const old = (struct cohort_sampler *)&old, *s = old;
	struct cohort_sampler_params good, p[10];
	struct cohort_err err;
	(void)state;

	cohort_sampler_params_init(&good);
	assert_int_equal(good.struct_size, sizeof good);
	assert_true(good.temperature == 0.8f && good.top_p == 0.95f && good.min_p == 0.05f);
	assert_int_equal(good.top_k, 40);
	assert_int_equal(good.min_keep, 1);
	assert_int_equal(good.seed + good.stream, 0);
	for (int i = 0; i < 10; i++)
		p[i] = good;
	p[0].struct_size = 0;
	p[1].struct_size = sizeof good + 8;
	p[2].temperature = NAN;
	p[3].temperature = INFINITY;
	p[4].top_p = NAN;
	p[5].top_p = -0.1f;
	p[6].min_p = NAN;
	p[7].min_p = 1.1f;
	p[8].min_keep = 0;
	p[9].min_keep = -1;
	for (int i = 0; i < 10; i++) {
		err = (struct cohort_err){0};
		if (cohort_sampler_open(&p[i], 10, &s, &err) != COHORT_E_ARG)
			fail_msg("bad parameters %d were taken", i);
		assert_int_equal(err.status, COHORT_E_ARG);
		assert_ptr_equal(s, old);
	}
	assert_int_equal(cohort_sampler_open(&good, 0, &s, &err), COHORT_E_ARG);
	assert_int_equal(cohort_sampler_open(&good, -1, &s, &err), COHORT_E_ARG);
	assert_int_equal(cohort_sampler_open(&good, 10, NULL, &err), COHORT_E_ARG);
	assert_ptr_equal(s, old);

	const float logits[10] = {0};
	cohort_token t = -5;
	s = open_ok(&good, 10);
	assert_int_equal(cohort_sampler_sample(NULL, logits, &t, &err), COHORT_E_ARG);
	assert_int_equal(cohort_sampler_sample(s, NULL, &t, &err), COHORT_E_ARG);
	assert_int_equal(cohort_sampler_sample(s, logits, NULL, &err), COHORT_E_ARG);
	assert_int_equal(t, -5);
	cohort_sampler_free(s);
	cohort_sampler_free(NULL);
}

static void sampler_open_out_of_memory_at_every_point(void **state)
{
	struct cohort_sampler_params p[4] = {plain(0), plain(1), plain(1), plain(1)};
	struct cohort_sampler *s = NULL;
	struct cohort_err err;
	float logits[N_MAX];
	int64_t n = 0;
	(void)state;

	plain_logits(logits, N_MAX);
	p[1].top_k = 50;
	p[2].top_p = 0.9f;
	p[3].min_p = 0.01f;
	for (;; n++) {
		const uint64_t before = mem_count();
		mem_fail_after(n);
		enum cohort_status st = cohort_sampler_open(&p[0], N_MAX, &s, &err);
		mem_fail_after(-1);
		assert_true(st || mem_count() - before <= (uint64_t)n);
		if (!st)
			break;
		assert_int_equal(st, COHORT_E_MEMORY);
		assert_null(s);
	}
	assert_true(n >= 1);
	cohort_sampler_free(s);
	for (int k = 0; k < 4; k++) {
		s = open_ok(&p[k], N_MAX);
		uint64_t before = mem_count();
		mem_fail_all(true);
		for (int i = 0; i < 100; i++)
			sample(s, logits);
		mem_fail_all(false);
		assert_int_equal(mem_count(), before);
		cohort_sampler_free(s);
	}
}

/* Drawing and then accepting is sampling; between the two nothing is remembered, so a second draw only moves the
 * generator. What is permitted is what can be accepted. Seen red with a draw that remembers, and with a mask that is
 * read one token off. */
static void draw_then_accept(void **state)
{
	enum { N = 30 };
	static const char text[] = "root ::= (\"a\" [b-k] | [l-z])*";
	struct cohort_lexicon_token words[N];
	char letters[N];
	struct cohort_lexicon *lexicon;
	struct cohort_grammar *g;
	struct cohort_err err;
	float logits[N];
	uint8_t legal[N];
	struct rng r;

	(void)state;
	for (int i = 0; i < N; i++) {
		letters[i] = (char)(i < 26 ? 'a' + i : '0' + i - 26);
		words[i] = (struct cohort_lexicon_token){&letters[i], 1, true, i == N - 1};
	}
	assert_int_equal(cohort_lexicon_open_list(words, N, &lexicon, &err), COHORT_OK);
	assert_int_equal(cohort_grammar_open(lexicon, text, sizeof text - 1, NULL, &g, &err), COHORT_OK);
	rng_init(&r, 5, 0);
	for (int kind = 0; kind < 8; kind++) {
		struct cohort_sampler_params p = plain(0.9f);
		p.seed = (uint64_t)kind;
		p.repeat_penalty = kind & 1 ? 1.5f : 1.0f;
		p.mirostat = kind & 2 ? 2 : 0;
		p.grammar = kind & 4 ? g : NULL;
		struct cohort_sampler *a = open_ok(&p, N), *b = open_ok(&p, N);
		for (int i = 0; i < 200; i++) {
			cohort_token t = -1, again = -1;
			random_logits(&r, logits, N);
			assert_int_equal(cohort_sampler_legal_get(b, legal, &err), COHORT_OK);
			assert_int_equal(cohort_sampler_draw(b, logits, &t, &err), COHORT_OK);
			assert_int_equal(sample(a, logits), t);
			for (cohort_token k = -1; k <= N; k++) {
				struct cohort_sampler *c = NULL;
				assert_int_equal(cohort_sampler_clone(b, &c, &err), COHORT_OK);
				const bool can = cohort_sampler_accept(c, k, NULL) == COHORT_OK;
				cohort_sampler_free(c);
				assert_int_equal(cohort_sampler_permits(b, k, NULL) == COHORT_OK, can);
				if (k >= 0 && k < N)
					assert_int_equal(legal[k], can);
			}
			/* Drawn again it is another draw from the same: the generator put back, the same token. */
			if (!p.mirostat) {
				struct cohort_sampler *c = NULL;
				assert_int_equal(cohort_sampler_clone(b, &c, &err), COHORT_OK);
				assert_int_equal(cohort_sampler_draw(c, logits, &again, &err), COHORT_OK);
				struct cohort_sampler_rng rng;
				cohort_sampler_rng_get(b, &rng);
				assert_int_equal(cohort_sampler_rng_set(c, &rng, &err), COHORT_OK);
				cohort_token third = -1;
				assert_int_equal(cohort_sampler_draw(c, logits, &third, &err), COHORT_OK);
				assert_int_equal(third, again);
				cohort_sampler_free(c);
			}
			assert_int_equal(cohort_sampler_accept(b, t, &err), COHORT_OK);
		}
		cohort_sampler_free(a);
		cohort_sampler_free(b);
	}
	assert_int_equal(cohort_sampler_draw(NULL, logits, &(cohort_token){0}, &err), COHORT_E_ARG);
	assert_int_equal(cohort_sampler_permits(NULL, 0, &err), COHORT_E_ARG);
	assert_int_equal(cohort_sampler_legal_get(NULL, legal, &err), COHORT_E_ARG);
	cohort_grammar_free(g);
	cohort_lexicon_free(lexicon);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
			cmocka_unit_test(greedy_sampler_against_maximum),
			cmocka_unit_test(one_left),
			cmocka_unit_test(top_k),
			cmocka_unit_test(top_p),
			cmocka_unit_test(min_p),
			cmocka_unit_test(draws_against_reference),
			cmocka_unit_test(draws_are_the_generators),
			cmocka_unit_test(seeds_and_streams),
			cmocka_unit_test(known_answer),
			cmocka_unit_test(sampler_refuses_logits_that_are_no_numbers),
			cmocka_unit_test(sampler_open_refuses_bad_params),
			cmocka_unit_test(draw_then_accept),
			cmocka_unit_test(sampler_open_out_of_memory_at_every_point),
	};

	return cmocka_run_group_tests_name("sampler", tests, NULL, NULL);
}
