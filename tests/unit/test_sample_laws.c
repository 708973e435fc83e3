/* Laws of samplers: what holds for every chain, whatever its values.
 *
 * Shown red by: a sample that accepts twice; a clone that leaves the history behind; a reseed that a reset undoes; a
 * failure after XTC's draw that leaves the generator moved; an allocation while candidates are ordered; a draw that
 * uses 0.99 of the mass. */
#include "effort.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/rng.h"
#include "cohort.h"

enum { N = 500 };

static float logits[16][N];

static int make_logits(void **state)
{
	struct rng r;
	(void)state;
	rng_init(&r, 5, 5);
	for (int i = 0; i < 16; i++)
		for (int k = 0; k < N; k++) {
			double x = -6;
			for (int j = 0; j < 12; j++)
				x += rng_f64(&r);
			logits[i][k] = (float)(2.5 * x);
		}
	return 0;
}

static struct cohort_sampler *open_ok(const struct cohort_sampler_params *p)
{
	struct cohort_sampler *s = NULL;
	struct cohort_err err;
	if (cohort_sampler_open(p, N, &s, &err))
		fail_msg("%s", err.text);
	return s;
}

static cohort_token sample(struct cohort_sampler *s, const float *row)
{
	struct cohort_err err;
	cohort_token t = -1;
	if (cohort_sampler_sample(s, row, &t, &err))
		fail_msg("%s", err.text);
	return t;
}

/* Chains of every kind, one after the other; false after the last. */
static bool chain(int i, struct cohort_sampler_params *p)
{
	cohort_sampler_params_init(p);
	p->seed = (uint64_t)i;
	switch (i) {
	case 0: return true;
	case 1: p->temperature = 0; return true;
	case 2:
		p->repeat_penalty = 1.3f;
		p->frequency_penalty = 0.2f;
		return true;
	case 3:
		p->dry_multiplier = 1;
		p->dry_allowed_length = 1;
		return true;
	case 4: p->mirostat = 1; return true;
	case 5:
		p->mirostat = 2;
		p->mirostat_tau = 3;
		return true;
	case 6:
		p->xtc_probability = 0.5f;
		p->xtc_threshold = 0.05f;
		p->top_k = 0;
		return true;
	case 7:
		p->dynatemp_range = 0.5f;
		p->typical_p = 0.8f;
		return true;
	case 8:
		p->top_n_sigma = 1.5f;
		p->presence_penalty = 1;
		return true;
	case 9:
		p->top_k = 0;
		p->top_p = 1;
		p->min_p = 0;
		return true;
	case 10:
		p->temperature = 0;
		p->repeat_penalty = 1.5f;
		return true;
	default: return false;
	}
}

static size_t candidates(struct cohort_sampler *s, struct cohort_logprob top[N])
{
	size_t n = 0;
	assert_int_equal(cohort_sampler_logprobs_get(s, 0, NULL, top, N, NULL, NULL), COHORT_OK);
	while (n < N && top[n].token >= 0)
		n++;
	return n;
}

static void clone_equals_original(void **state)
{
	struct cohort_sampler_params p;
	(void)state;

	for (int c = 0; chain(c, &p); c++) {
		struct cohort_sampler *a = open_ok(&p), *b = NULL;
		for (int i = 0; i < 100; i++)
			sample(a, logits[i % 16]);
		assert_int_equal(cohort_sampler_clone(a, &b, NULL), COHORT_OK);
		cohort_token want[200];
		for (int i = 0; i < 200; i++)
			want[i] = sample(a, logits[i % 16]);
		for (int i = 0; i < 200; i++) /* after the original went on: nothing is shared */
			assert_int_equal(sample(b, logits[i % 16]), want[i]);
		cohort_sampler_free(a);
		cohort_sampler_free(b);
	}
}

static void reset_and_reseed(void **state)
{
	struct cohort_sampler_params p;
	(void)state;

	for (int c = 0; chain(c, &p); c++) {
		struct cohort_sampler *s = open_ok(&p);
		cohort_token first[100], other[100];
		for (int i = 0; i < 100; i++)
			first[i] = sample(s, logits[i % 16]);
		cohort_sampler_reset(s);
		for (int i = 0; i < 100; i++)
			assert_int_equal(sample(s, logits[i % 16]), first[i]);
		cohort_sampler_reset(s);
		cohort_sampler_reseed(s, 12345, 1);
		for (int i = 0; i < 100; i++)
			other[i] = sample(s, logits[i % 16]);
		/* A greedy chain stays greedy; another takes another way. */
		assert_int_equal(memcmp(first, other, sizeof first) == 0, p.temperature <= 0);
		/* The new seed is the one a reset goes back to. */
		cohort_sampler_reset(s);
		for (int i = 0; i < 100; i++)
			assert_int_equal(sample(s, logits[i % 16]), other[i]);
		cohort_sampler_free(s);
	}
}

static void generator_is_saved(void **state)
{
	struct cohort_sampler_params p;
	struct cohort_sampler_rng rng, even = {1, 2};
	struct cohort_err err;
	(void)state;

	cohort_sampler_params_init(&p);
	p.top_k = 0;
	struct cohort_sampler *a = open_ok(&p), *b = open_ok(&p);
	for (int i = 0; i < 37; i++)
		sample(a, logits[i % 16]);
	cohort_sampler_rng_get(a, &rng);
	assert_int_equal(cohort_sampler_rng_set(b, &rng, &err), COHORT_OK);
	for (int i = 0; i < 100; i++)
		assert_int_equal(sample(a, logits[i % 16]), sample(b, logits[i % 16]));
	assert_int_equal(cohort_sampler_rng_set(b, &even, &err), COHORT_E_ARG);
	assert_non_null(strstr(err.text, "odd"));
	cohort_sampler_free(a);
	cohort_sampler_free(b);
}

/* A token that was sampled counts once: with a frequency penalty of f its logit is f lower then, not 2 f. */
static void accepted_once(void **state)
{
	static const float row[N] = {[7] = 10, [8] = 9.5f};
	struct cohort_sampler_params p;
	struct cohort_logprob top[N];
	(void)state;

	cohort_sampler_params_init(&p);
	p.temperature = 1;
	p.top_k = 2;
	p.top_p = 1;
	p.min_p = 0;
	p.frequency_penalty = 0.25f;
	p.bias = &(struct cohort_logit_bias){8, -INFINITY};
	p.n_bias = 1;
	struct cohort_sampler *s = open_ok(&p);
	for (int i = 0; i < 4; i++) {
		sample(s, row);
		/* 7 against one of the zeros: log-probabilities differ by 10 - 0.25 i, once i of them are 7. */
		assert_int_equal(candidates(s, top), 2);
		assert_int_equal(top[0].token, 7);
		cohort_token other = top[1].token;
		double want = 10 - 0.25 * i;
		if (fabs((double)(top[0].logprob - top[1].logprob) - want) > 1e-5)
			fail_msg("after %d tokens: %g, expected %g (other %d)", i,
					(double)(top[0].logprob - top[1].logprob), want, other);
	}
	/* And by hand, for tokens that others chose. */
	assert_int_equal(cohort_sampler_accept(s, 7, NULL), COHORT_OK);
	sample(s, row);
	candidates(s, top);
	assert_true(fabs((double)(top[0].logprob - top[1].logprob) - (10 - 0.25 * 5)) < 1e-5);
	cohort_sampler_free(s);
}

static void idempotent_and_monotonic(void **state)
{
	struct cohort_sampler_params p;
	static struct cohort_logprob once[N], twice[N];
	size_t last = 0;
	(void)state;

	for (int k = 1; k < 60; k += 7) {
		cohort_sampler_params_init(&p);
		p.top_k = k;
		p.order[0] = p.order[1] = COHORT_STAGE_TOP_K;
		p.n_order = 1;
		struct cohort_sampler *a = open_ok(&p);
		p.n_order = 2;
		struct cohort_sampler *b = open_ok(&p);
		sample(a, logits[k % 16]);
		sample(b, logits[k % 16]);
		assert_int_equal(candidates(a, once), k);
		assert_int_equal(candidates(b, twice), k);
		assert_memory_equal(once, twice, (size_t)k * sizeof *once);
		cohort_sampler_free(a);
		cohort_sampler_free(b);
	}
	for (int i = 0; i <= 100; i++) { /* what a smaller p keeps, a larger one keeps too */
		cohort_sampler_params_init(&p);
		p.top_p = (float)i / 100;
		p.order[0] = COHORT_STAGE_TOP_P;
		p.n_order = 1;
		struct cohort_sampler *s = open_ok(&p);
		sample(s, logits[3]);
		const size_t n = candidates(s, once);
		assert_true(n >= last && n >= 1);
		for (size_t k = 0; k < last; k++)
			assert_int_equal(once[k].token, twice[k].token);
		memcpy(twice, once, sizeof once);
		last = n;
		cohort_sampler_free(s);
	}
	assert_int_equal(last, N);
}

/* 100,000 draws of a whole chain against the probabilities that the chain left. */
static void draws_follow_the_chain(void **state)
{
	const int n_draws = effort(100000);
	struct cohort_sampler_params p;
	static struct cohort_logprob top[N];
	static int seen[N];
	(void)state;

	for (int c = 0; chain(c, &p); c++) {
		double chi = 0;
		int free = 0, rest = n_draws;
		if (p.temperature <= 0 || p.mirostat || p.xtc_probability > 0 || p.repeat_penalty != 1.0f ||
				p.dry_multiplier > 0 || p.presence_penalty != 0.0f)
			continue; /* these change from token to token */
		struct cohort_sampler *s = open_ok(&p);
		memset(seen, 0, sizeof seen);
		for (int i = 0; i < n_draws; i++)
			seen[sample(s, logits[c])]++;
		const size_t n = candidates(s, top);
		double tail = 1;
		for (size_t i = 0; i < n; i++) {
			const double want = n_draws * exp((double)top[i].logprob);
			if (want < 10)
				break;
			chi += pow(seen[top[i].token] - want, 2) / want;
			free++;
			rest -= seen[top[i].token];
			tail -= exp((double)top[i].logprob);
		}
		if (n_draws * tail > 10) {
			chi += pow(rest - n_draws * tail, 2) / (n_draws * tail);
			free++;
		}
		if (chi > free + 5 * sqrt(2.0 * free) + 5)
			fail_msg("chain %d: chi-square is %g of %d", c, chi, free);
		cohort_sampler_free(s);
	}
}

/* A failed call changes nothing: the next ones give what they would have given. */
static void failures_change_nothing(void **state)
{
	static float bad[N], none[N];
	struct cohort_sampler_params p;
	struct cohort_err err;
	cohort_token t = -7;
	(void)state;

	memcpy(bad, logits[0], sizeof bad);
	bad[N - 1] = NAN;
	for (int i = 0; i < N; i++)
		none[i] = -INFINITY;
	for (int c = 0; chain(c, &p); c++) {
		struct cohort_sampler *a = open_ok(&p), *b = open_ok(&p);
		for (int i = 0; i < 60; i++) {
			assert_int_equal(cohort_sampler_sample(b, i % 2 ? bad : none, &t, &err), COHORT_E_NUMERIC);
			assert_int_equal(t, -7);
			assert_int_equal(cohort_sampler_accept(b, N, &err), COHORT_E_ARG);
			assert_int_equal(cohort_sampler_prompt(b, (cohort_token[]){1, -1}, 2, &err), COHORT_E_ARG);
			assert_int_equal(sample(a, logits[i % 16]), sample(b, logits[i % 16]));
		}
		cohort_sampler_free(a);
		cohort_sampler_free(b);
	}
}

/* Out of memory at every point: a status, no leak, and nothing is asked for once it is open. */
static void grammar_and_sampler_out_of_memory_at_every_point(void **state)
{
	static const char *const breakers[] = {"\n", "ab"};
	static const struct cohort_logit_bias bias[] = {{3, 1}, {4, -1}};
	static const char grammar[] = "root ::= (\"a\" | \"b\"){1,40} x*\nx ::= \"c\" x | \"d\"";
	struct cohort_lexicon_token t[N];
	struct cohort_lexicon *lexicon = NULL;
	struct cohort_grammar *g = NULL;
	struct cohort_sampler *s = NULL, *s2 = NULL;
	struct cohort_sampler_params p;
	struct cohort_err err;
	char text[N];
	int64_t k;
	(void)state;

	for (int i = 0; i < N; i++) {
		text[i] = (char)('a' + i % 4);
		t[i] = (struct cohort_lexicon_token){text + i, 1, true, i == N - 1};
	}
	for (k = 0;; k++) {
		mem_fail_after(k);
		const enum cohort_status st = cohort_lexicon_open_list(t, N, &lexicon, &err);
		if (!st)
			break;
		assert_int_equal(st, COHORT_E_MEMORY);
	}
	assert_true(k > 5);
	for (k = 0;; k++) {
		mem_fail_after(k);
		const enum cohort_status st = cohort_grammar_open(lexicon, grammar, strlen(grammar), NULL, &g, &err);
		if (!st)
			break;
		assert_int_equal(st, COHORT_E_MEMORY);
	}
	assert_true(k > 20);
	/* A schema: our own allocations one by one. */
	static const char schema[] =
			"{\"type\":\"object\",\"properties\":{\"a\":{\"enum\":[1,\"x\"]},\"b\":{\"type\":\"string\","
			"\"pattern\":\"^a+$\"},\"c\":{\"type\":\"array\",\"items\":{\"type\":\"integer\"}}},"
			"\"required\":[\"a\"],\"additionalProperties\":{\"type\":\"null\"}}";
	struct cohort_grammar *of_schema = NULL;
	for (k = 0;; k++) {
		mem_fail_after(k);
		if (cohort_grammar_open_schema(lexicon, schema, strlen(schema), &of_schema, &err) == COHORT_OK)
			break;
		assert_true(err.text[0] && !of_schema);
	}
	assert_true(k > 30);
	cohort_grammar_free(of_schema);
	mem_fail_after(-1);
	for (int c = 0; chain(c, &p); c++) {
		p.grammar = g;
		p.lexicon = lexicon;
		p.dry_breakers = breakers;
		p.n_dry_breakers = 2;
		p.bias = bias;
		p.n_bias = 2;
		for (k = 0;; k++) {
			mem_fail_after(k);
			const enum cohort_status st = cohort_sampler_open(&p, N, &s, &err);
			if (!st)
				break;
			assert_int_equal(st, COHORT_E_MEMORY);
		}
		for (k = 0;; k++) {
			mem_fail_after(k);
			const enum cohort_status st = cohort_sampler_clone(s, &s2, &err);
			if (!st)
				break;
			assert_int_equal(st, COHORT_E_MEMORY);
		}
		assert_true(k > 5);
		mem_fail_after(-1);
		mem_fail_all(true);
		const uint64_t asked = mem_count();
		for (int i = 0; i < 20; i++) {
			struct cohort_logprob top[5];
			assert_int_equal(sample(s, logits[i % 16]), sample(s2, logits[i % 16]));
			assert_int_equal(cohort_sampler_logprobs_get(s, 0, NULL, top, 5, NULL, NULL), COHORT_OK);
		}
		cohort_sampler_reset(s);
		sample(s, logits[0]);
		assert_true(mem_count() == asked);
		mem_fail_all(false);
		cohort_sampler_free(s);
		cohort_sampler_free(s2);
	}
	cohort_grammar_free(g);
	cohort_lexicon_free(lexicon);
}

static void values_are_checked(void **state)
{
	struct cohort_sampler *s = NULL;
	struct cohort_sampler_params p;
	struct cohort_err err;
	(void)state;
#define REFUSED(field, v, name) \
	do { \
		cohort_sampler_params_init(&p); \
		p.field = (v); \
		assert_int_equal(cohort_sampler_open(&p, N, &s, &err), COHORT_E_ARG); \
		if (!strstr(err.text, name)) \
			fail_msg(#field ": '%s'", err.text); \
	} while (0)
	REFUSED(temperature, NAN, "temperature is nan");
	REFUSED(temperature, INFINITY, "temperature");
	REFUSED(top_p, -0.1f, "top_p");
	REFUSED(top_p, NAN, "top_p");
	REFUSED(min_p, 1.1f, "min_p");
	REFUSED(min_p, NAN, "min_p");
	REFUSED(min_keep, 0, "min_keep");
	REFUSED(typical_p, -1, "typical_p");
	REFUSED(typical_p, NAN, "typical_p");
	REFUSED(top_n_sigma, NAN, "top_n_sigma");
	REFUSED(xtc_probability, 2, "xtc_probability");
	REFUSED(xtc_threshold, -1, "xtc_threshold");
	REFUSED(dynatemp_range, -1, "dynatemp_range");
	REFUSED(dynatemp_exponent, NAN, "dynatemp_exponent");
	REFUSED(mirostat, 3, "mirostat");
	REFUSED(mirostat_tau, -1, "mirostat_tau");
	REFUSED(mirostat_eta, INFINITY, "mirostat_eta");
	REFUSED(penalty_last_n, -2, "penalty_last_n");
	REFUSED(repeat_penalty, 0, "repeat_penalty");
	REFUSED(repeat_penalty, -1, "repeat_penalty");
	REFUSED(frequency_penalty, NAN, "frequency_penalty");
	REFUSED(presence_penalty, INFINITY, "presence_penalty");
	REFUSED(dry_multiplier, -1, "dry_multiplier");
	REFUSED(dry_base, NAN, "dry_base");
	REFUSED(dry_allowed_length, -1, "dry_allowed_length");
	REFUSED(dry_penalty_last_n, COHORT_HISTORY_MAX + 1, "dry_penalty_last_n");
	REFUSED(history_max, 0, "history_max");
	REFUSED(n_order, 33, "n_order");
	REFUSED(n_bias, -1, "n_bias");
	REFUSED(n_bias, 1, "bias is NULL");
	REFUSED(struct_size, 8, "cohort_sampler_params_init");
	cohort_sampler_params_init(&p);
	p.order[0] = (enum cohort_stage)77;
	p.n_order = 1;
	assert_int_equal(cohort_sampler_open(&p, N, &s, &err), COHORT_E_ARG);
	cohort_sampler_params_init(&p);
	p.n_bias = 1;
	p.bias = &(struct cohort_logit_bias){N, 1};
	assert_int_equal(cohort_sampler_open(&p, N, &s, &err), COHORT_E_ARG);
	p.bias = &(struct cohort_logit_bias){0, INFINITY};
	assert_int_equal(cohort_sampler_open(&p, N, &s, &err), COHORT_E_ARG);
	p.n_bias = 2;
	p.bias = (const struct cohort_logit_bias[]){{7, 3e38f}, {7, 3e38f}};
	assert_int_equal(cohort_sampler_open(&p, N, &s, &err), COHORT_E_ARG);
	assert_non_null(strstr(err.text, "token 7"));
	/* Texts of another vocabulary; a grammar that the order leaves out. */
	const struct cohort_lexicon_token one = {"a", 1, true, false};
	struct cohort_lexicon *small = NULL;
	struct cohort_grammar *g = NULL;
	assert_int_equal(cohort_lexicon_open_list(&one, 1, &small, NULL), COHORT_OK);
	assert_int_equal(cohort_grammar_open(small, "root ::= \"a\"", 12, NULL, &g, NULL), COHORT_OK);
	cohort_sampler_params_init(&p);
	p.lexicon = small;
	assert_int_equal(cohort_sampler_open(&p, N, &s, &err), COHORT_E_ARG);
	assert_non_null(strstr(err.text, "lexicon"));
	cohort_sampler_params_init(&p);
	p.grammar = g;
	assert_int_equal(cohort_sampler_open(&p, N, &s, &err), COHORT_E_ARG);
	assert_int_equal(cohort_sampler_order_parse(&p, "top_k;temperature", &err), COHORT_OK);
	assert_int_equal(cohort_sampler_open(&p, 1, &s, &err), COHORT_E_ARG);
	assert_non_null(strstr(err.text, "add 'grammar'"));
	cohort_grammar_free(g);
	cohort_lexicon_free(small);
	/* Values that leave the range of numbers when they are repeated. */
	cohort_sampler_params_init(&p);
	p.temperature = 1e-38f;
	p.n_order = 10;
	for (int i = 0; i < 10; i++)
		p.order[i] = COHORT_STAGE_TEMPERATURE;
	assert_int_equal(cohort_sampler_open(&p, N, &s, &err), COHORT_OK);
	const cohort_token t = sample(s, logits[0]);
	cohort_sampler_free(s);
	s = NULL;
	for (int i = 0; i < N; i++)
		assert_true(logits[0][i] <= logits[0][t]);
	/* Breakers need the texts of tokens. */
	cohort_sampler_params_init(&p);
	p.dry_multiplier = 1;
	p.dry_breakers = (const char *const[]){"x"};
	p.n_dry_breakers = 1;
	assert_int_equal(cohort_sampler_open(&p, N, &s, &err), COHORT_E_ARG);
	assert_non_null(strstr(err.text, "lexicon"));
	assert_null(s);
}

static void sampler_orders_are_read(void **state)
{
	struct cohort_sampler_params p;
	struct cohort_err err;
	(void)state;

	cohort_sampler_params_init(&p);
	assert_int_equal(cohort_sampler_order_parse(&p, "top_k;temperature, bias top_k", &err), COHORT_OK);
	assert_int_equal(p.n_order, 4);
	assert_int_equal(p.order[0], COHORT_STAGE_TOP_K);
	assert_int_equal(p.order[1], COHORT_STAGE_TEMPERATURE);
	assert_int_equal(p.order[2], COHORT_STAGE_BIAS);
	assert_int_equal(p.order[3], COHORT_STAGE_TOP_K);
	assert_int_equal(cohort_sampler_order_parse(&p, "top_k;heat", &err), COHORT_E_ARG);
	assert_non_null(strstr(err.text, "'heat'"));
	assert_int_equal(cohort_sampler_order_parse(&p, " ; ", &err), COHORT_E_ARG);
	assert_int_equal(p.n_order, 4); /* as it was */
	for (int i = 1; i <= COHORT_STAGE_MIROSTAT; i++) {
		assert_int_equal(cohort_sampler_order_parse(&p, cohort_stage_name((enum cohort_stage)i), &err),
				COHORT_OK);
		assert_int_equal(p.order[0], i);
	}
	assert_null(cohort_stage_name((enum cohort_stage)0));
	assert_null(cohort_stage_name((enum cohort_stage)(COHORT_STAGE_MIROSTAT + 1)));
}

/* Before the chain: against plain sums. */
static void logprobs_are_plain_sums(void **state)
{
	struct cohort_logprob top[20];
	struct cohort_err err;
	(void)state;

	for (int row = 0; row < 16; row++) {
		double sum = 0, entropy = 0, got_entropy, total = 0;
		float lp;
		for (int i = 0; i < N; i++)
			sum += exp((double)logits[row][i]);
		for (int i = 0; i < N; i++) {
			const double p = exp((double)logits[row][i]) / sum;
			entropy -= p * log(p);
		}
		for (int i = 0; i < N; i += 13) {
			assert_int_equal(cohort_logprobs_get(logits[row], N, i, &lp, NULL, 0, NULL, &err), COHORT_OK);
			assert_true(fabs((double)lp - ((double)logits[row][i] - log(sum))) < 1e-5);
		}
		assert_int_equal(cohort_logprobs_get(logits[row], N, 0, NULL, top, 20, &got_entropy, &err), COHORT_OK);
		assert_true(fabs(entropy - got_entropy) < 1e-9);
		for (int i = 0; i < 20; i++) {
			int better = 0;
			for (int k = 0; k < N; k++)
				better += logits[row][k] > logits[row][top[i].token] ||
						(logits[row][k] == logits[row][top[i].token] && k < top[i].token);
			assert_int_equal(better, i);
			total += exp((double)top[i].logprob);
		}
		assert_true(total < 1.000001);
	}
	const float few[4] = {-INFINITY, 1, 1, -INFINITY};
	assert_int_equal(cohort_logprobs_get(few, 4, 0, NULL, top, 4, NULL, &err), COHORT_OK);
	assert_true(top[0].token == 1 && top[1].token == 2 && top[2].token == -1 && top[3].token == -1);
	assert_true(fabs((double)top[0].logprob + log(2)) < 1e-6);
	assert_int_equal(cohort_logprobs_get((float[]){1, NAN}, 2, 0, NULL, NULL, 0, NULL, &err), COHORT_E_NUMERIC);
	assert_int_equal(cohort_logprobs_get(few, 4, 4, &top[0].logprob, NULL, 0, NULL, &err), COHORT_E_ARG);
	struct cohort_sampler_params p;
	cohort_sampler_params_init(&p);
	struct cohort_sampler *s = open_ok(&p);
	assert_int_equal(cohort_sampler_logprobs_get(s, 0, NULL, top, 4, NULL, &err), COHORT_E_ARG); /* none yet */
	cohort_sampler_free(s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
			cmocka_unit_test(clone_equals_original),
			cmocka_unit_test(reset_and_reseed),
			cmocka_unit_test(generator_is_saved),
			cmocka_unit_test(accepted_once),
			cmocka_unit_test(idempotent_and_monotonic),
			cmocka_unit_test(draws_follow_the_chain),
			cmocka_unit_test(failures_change_nothing),
			cmocka_unit_test(grammar_and_sampler_out_of_memory_at_every_point),
			cmocka_unit_test(values_are_checked),
			cmocka_unit_test(sampler_orders_are_read),
			cmocka_unit_test(logprobs_are_plain_sums),
	};
	return cmocka_run_group_tests_name("sample_laws", tests, make_logits, NULL);
}
