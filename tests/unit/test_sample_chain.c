/* Chains of stages against a plain reference: everything sorted, every formula written out in double with libm, no
 * shortcuts. Random values, random orders, random histories; the whole distribution is compared, not single draws.
 *
 * Shown red by: penalties that count a token once however often it came; top-p that stops at 0.99 of p; typical that
 * takes the larger ids of equal ones; XTC that removes the last one too; a dynamic temperature whose entropy is divided
 * by log(n + 1); DRY whose runs cross a breaker; min-p without min_keep; ties by the larger id. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/rng.h"
#include "cohort.h"
#include "effort.h"

enum { N_MAX = 300, HISTORY = 80 };

/* ---- The reference ---- */

struct ref {
	double l[N_MAX];
	int id[N_MAX];
	size_t n;
};

static const struct ref *sorting;

static int by_order(const void *a, const void *b)
{
	const int i = *(const int *)a, k = *(const int *)b;
	if (sorting->l[i] != sorting->l[k])
		return sorting->l[i] > sorting->l[k] ? -1 : 1;
	return sorting->id[i] < sorting->id[k] ? -1 : 1;
}

static void sort(struct ref *r)
{
	int at[N_MAX];
	struct ref s = {.n = r->n};
	for (size_t i = 0; i < r->n; i++)
		at[i] = (int)i;
	sorting = r;
	qsort(at, r->n, sizeof *at, by_order);
	for (size_t i = 0; i < r->n; i++) {
		s.l[i] = r->l[at[i]];
		s.id[i] = r->id[at[i]];
	}
	*r = s;
}

/* Sorts, and gives the probabilities. */
static void probabilities(struct ref *r, double *p)
{
	double sum = 0;
	sort(r);
	for (size_t i = 0; i < r->n; i++)
		sum += p[i] = exp(r->l[i] - r->l[0]);
	for (size_t i = 0; i < r->n; i++)
		p[i] /= sum;
}

static double entropy_of(const double *p, size_t n)
{
	double h = 0;
	for (size_t i = 0; i < n; i++)
		h -= p[i] > 0 ? p[i] * log(p[i]) : 0;
	return h;
}

static void drop_excluded(struct ref *r)
{
	size_t n = 0;
	for (size_t i = 0; i < r->n; i++)
		if (r->l[i] > -INFINITY) {
			r->l[n] = r->l[i];
			r->id[n++] = r->id[i];
		}
	r->n = n;
}

static void ref_bias(struct ref *r, const struct cohort_sampler_params *p)
{
	for (size_t i = 0; i < r->n; i++) {
		float sum = 0;
		for (int32_t k = 0; k < p->n_bias; k++)
			if (p->bias[k].token == r->id[i])
				sum += p->bias[k].bias;
		r->l[i] += (double)sum;
	}
	drop_excluded(r);
}

static size_t window(const struct cohort_sampler_params *p, int32_t last_n, size_t n)
{
	const size_t w = last_n < 0 ? (size_t)p->history_max : (size_t)last_n;
	return w < n ? w : n;
}

static void ref_penalties(struct ref *r, const struct cohort_sampler_params *p, const cohort_token *h, size_t n_h)
{
	const size_t w = window(p, p->penalty_last_n, n_h);
	for (size_t i = 0; i < r->n; i++) {
		int count = 0;
		for (size_t k = n_h - w; k < n_h; k++)
			count += h[k] == r->id[i];
		if (!count)
			continue;
		const double rep = (double)p->repeat_penalty;
		r->l[i] = r->l[i] > 0 ? r->l[i] / rep : r->l[i] * rep;
		r->l[i] -= count * (double)p->frequency_penalty + (double)p->presence_penalty;
	}
}

/* Token t's text is the letter 'a' + t % 26; breakers are single letters or pairs. */
static bool breaks_at(const struct cohort_sampler_params *p, const cohort_token *h, size_t at)
{
	for (int32_t b = 0; b < p->n_dry_breakers; b++) {
		const size_t n = strlen(p->dry_breakers[b]);
		bool same = at + 1 >= n;
		for (size_t i = 0; i < n && same; i++)
			same = (char)('a' + h[at + 1 - n + i] % 26) == p->dry_breakers[b][i];
		if (same)
			return true;
	}
	return false;
}

static void ref_dry(struct ref *r, const struct cohort_sampler_params *p, const cohort_token *h, size_t n_h)
{
	const size_t w = window(p, p->dry_penalty_last_n, n_h), from = n_h - w;
	if (p->dry_multiplier <= 0 || p->dry_base < 1 || w == 0)
		return;
	for (size_t i = 0; i < r->n; i++) {
		size_t longest = 0;
		for (size_t j = from + 1; j < n_h; j++) { /* an earlier place of the token, and what stands before it */
			size_t m = 0;
			if (h[j] != r->id[i])
				continue;
			while (j >= from + m + 1 && h[j - 1 - m] == h[n_h - 1 - m] && !breaks_at(p, h, n_h - 1 - m))
				m++;
			longest = m > longest ? m : longest;
		}
		if (longest > 0 && longest >= (size_t)p->dry_allowed_length)
			r->l[i] -= fmin((double)p->dry_multiplier *
							pow((double)p->dry_base,
									(double)longest - p->dry_allowed_length),
					(double)FLT_MAX);
	}
}

static void ref_sigma(struct ref *r, const struct cohort_sampler_params *p)
{
	double mean = 0, var = 0;
	if (!(p->top_n_sigma > 0) || r->n == 0)
		return;
	sort(r);
	for (size_t i = 0; i < r->n; i++)
		mean += r->l[i] / (double)r->n;
	for (size_t i = 0; i < r->n; i++)
		var += (r->l[i] - mean) * (r->l[i] - mean) / (double)r->n;
	const double bar = r->l[0] - (double)p->top_n_sigma * sqrt(var);
	while (r->n > (size_t)p->min_keep && r->l[r->n - 1] < bar)
		r->n--;
}

static void ref_typical(struct ref *r, const struct cohort_sampler_params *p)
{
	double q[N_MAX], sum = 0;
	bool taken[N_MAX] = {false};
	size_t kept = 0;
	if (p->typical_p >= 1 || r->n == 0)
		return;
	probabilities(r, q);
	const double h = entropy_of(q, r->n);
	while (kept < r->n && (kept == 0 || kept < (size_t)p->min_keep || sum < (double)p->typical_p)) {
		size_t best = r->n;
		for (size_t i = 0; i < r->n; i++)
			if (!taken[i] && (best == r->n || fabs(-log(q[i]) - h) < fabs(-log(q[best]) - h) - 1e-12))
				best = i;
		taken[best] = true;
		sum += q[best];
		kept++;
	}
	size_t n = 0;
	for (size_t i = 0; i < r->n; i++)
		if (taken[i]) {
			r->l[n] = r->l[i];
			r->id[n++] = r->id[i];
		}
	r->n = n;
}

static void ref_top_p(struct ref *r, const struct cohort_sampler_params *p)
{
	double q[N_MAX], sum = 0;
	size_t n = 0;
	if (p->top_p >= 1 || r->n == 0)
		return;
	probabilities(r, q);
	while (n < r->n && (n == 0 || n < (size_t)p->min_keep || sum < (double)p->top_p))
		sum += q[n++];
	r->n = n;
}

static void ref_min_p(struct ref *r, const struct cohort_sampler_params *p)
{
	double q[N_MAX];
	if (p->min_p <= 0 || r->n == 0)
		return;
	probabilities(r, q);
	while (r->n > (size_t)p->min_keep && q[r->n - 1] < (double)p->min_p * q[0])
		r->n--;
}

static void ref_xtc(struct ref *r, const struct cohort_sampler_params *p, struct rng *g)
{
	double q[N_MAX];
	size_t n = 0;
	if (p->xtc_probability <= 0 || p->xtc_threshold > 0.5f)
		return;
	const double u = rng_f64(g);
	if (u >= (double)p->xtc_probability || r->n == 0)
		return;
	probabilities(r, q);
	while (n < r->n && q[n] >= (double)p->xtc_threshold)
		n++;
	if (n < 2 || r->n - (n - 1) < (size_t)p->min_keep)
		return;
	memmove(r->l, r->l + n - 1, (r->n - (n - 1)) * sizeof *r->l);
	memmove(r->id, r->id + n - 1, (r->n - (n - 1)) * sizeof *r->id);
	r->n -= n - 1;
}

static void ref_temperature(struct ref *r, const struct cohort_sampler_params *p)
{
	double q[N_MAX], t = (double)p->temperature;
	if (r->n < 2)
		return;
	if (p->dynatemp_range > 0) {
		probabilities(r, q);
		const double low = fmax(0, t - (double)p->dynatemp_range), high = t + (double)p->dynatemp_range;
		t = low + (high - low) * pow(entropy_of(q, r->n) / log((double)r->n), (double)p->dynatemp_exponent);
	}
	for (size_t i = 0; i < r->n; i++)
		r->l[i] /= t;
}

static void ref_mirostat(struct ref *r, const struct cohort_sampler_params *p, double mu, size_t n_vocab)
{
	double q[N_MAX], tb = 0, tt = 0;
	size_t k = 0;
	if (!p->mirostat || r->n == 0)
		return;
	probabilities(r, q);
	if (p->mirostat == 2) {
		while (k < r->n && -log2(q[k]) <= mu + 1e-12)
			k++;
	} else {
		for (size_t i = 0; i + 1 < r->n && i + 1 < 100; i++) {
			const double t = log((double)(i + 2) / (double)(i + 1));
			tb += t * (r->l[i] - r->l[i + 1]);
			tt += t * t;
		}
		const double s = tt > 0 ? tb / tt : 0, e = s - 1;
		const double x = pow(e * pow(2, mu) / (1 - pow((double)n_vocab, -e)), 1 / s);
		k = !(s > 0) || x > (double)r->n ? r->n : (size_t)x;
	}
	r->n = k < 1 ? 1 : k < r->n ? k : r->n;
}

struct mode {
	double mu;
	struct rng rng;
	const cohort_token *history;
	size_t n_history, n_vocab;
};

static void reference(struct ref *r, const struct cohort_sampler_params *p, struct mode *m)
{
	static const enum cohort_stage usual[] = {COHORT_STAGE_BIAS, COHORT_STAGE_GRAMMAR, COHORT_STAGE_PENALTIES,
			COHORT_STAGE_DRY, COHORT_STAGE_TOP_N_SIGMA, COHORT_STAGE_TOP_K, COHORT_STAGE_TYPICAL,
			COHORT_STAGE_TOP_P, COHORT_STAGE_MIN_P, COHORT_STAGE_XTC, COHORT_STAGE_TEMPERATURE};
	static const enum cohort_stage miro[] = {COHORT_STAGE_BIAS, COHORT_STAGE_GRAMMAR, COHORT_STAGE_PENALTIES,
			COHORT_STAGE_DRY, COHORT_STAGE_TEMPERATURE, COHORT_STAGE_MIROSTAT};
	const enum cohort_stage *order = p->n_order ? p->order : p->mirostat ? miro : usual;
	const size_t n = p->n_order ? (size_t)p->n_order : p->mirostat ? 6 : 11;
	const bool greedy = p->temperature <= 0;

	drop_excluded(r);
	for (size_t i = 0; i < n; i++) {
		switch (order[i]) {
		case COHORT_STAGE_BIAS: ref_bias(r, p); break;
		case COHORT_STAGE_PENALTIES: ref_penalties(r, p, m->history, m->n_history); break;
		case COHORT_STAGE_DRY: ref_dry(r, p, m->history, m->n_history); break;
		default: break;
		}
		if (greedy)
			continue;
		switch (order[i]) {
		case COHORT_STAGE_TOP_N_SIGMA: ref_sigma(r, p); break;
		case COHORT_STAGE_TOP_K:
			sort(r);
			r->n = p->top_k > 0 && (size_t)p->top_k < r->n ? (size_t)p->top_k : r->n;
			break;
		case COHORT_STAGE_TYPICAL: ref_typical(r, p); break;
		case COHORT_STAGE_TOP_P: ref_top_p(r, p); break;
		case COHORT_STAGE_MIN_P: ref_min_p(r, p); break;
		case COHORT_STAGE_XTC: ref_xtc(r, p, &m->rng); break;
		case COHORT_STAGE_TEMPERATURE: ref_temperature(r, p); break;
		case COHORT_STAGE_MIROSTAT: ref_mirostat(r, p, m->mu, m->n_vocab); break;
		default: break;
		}
	}
	sort(r);
	if (greedy && r->n > 1)
		r->n = 1;
}

/* ---- Comparing ---- */

static float random_float(struct rng *r, double lo, double hi)
{
	return (float)(lo + (hi - lo) * rng_f64(r));
}

/* About normal; sometimes with ties, sometimes with excluded ones. */
static void random_logits(struct rng *r, float *logits, size_t n)
{
	const int kind = (int)(rng_u32(r) % 4);
	for (size_t i = 0; i < n; i++) {
		double x = -6;
		for (int k = 0; k < 12; k++)
			x += rng_f64(r);
		logits[i] = (float)(kind == 1 ? floor(2 * x) : 3 * x);
		if (kind == 2 && rng_u32(r) % 3 == 0)
			logits[i] = -INFINITY;
	}
	logits[rng_u32(r) % n] = 1.5f;
}

/* The reference may differ in what lies on an edge within rounding: then a case is passed over, and counted. */
static bool same(const struct ref *r, struct cohort_sampler *s, size_t n_vocab, const char *what)
{
	static struct cohort_logprob top[N_MAX];
	struct cohort_err err;
	double p[N_MAX], entropy = 0;
	struct ref copy = *r;
	size_t n = 0;

	if (cohort_sampler_logprobs_get(s, 0, NULL, top, (int32_t)n_vocab, &entropy, &err))
		fail_msg("%s", err.text);
	while (n < n_vocab && top[n].token >= 0)
		n++;
	if (n != r->n) {
		print_message("%s: %zu candidates, the reference has %zu\n", what, n, r->n);
		return false;
	}
	probabilities(&copy, p);
	for (size_t i = 0; i < n; i++) {
		if (top[i].token != copy.id[i]) {
			print_message("%s: number %zu is %d, the reference has %d\n", what, i, top[i].token,
					copy.id[i]);
			return false;
		}
		const double want = log(p[0]) + (copy.l[i] - copy.l[0]);
		if (!(fabs((double)top[i].logprob - want) <= 1e-5 * (1 + fabs(want)) || p[i] == 0)) {
			print_message("%s: number %zu has %g, the reference %g\n", what, i, (double)top[i].logprob,
					want);
			return false;
		}
	}
	if (fabs(entropy - entropy_of(p, n)) > 1e-8 * (1 + entropy)) {
		print_message("%s: entropy %g, the reference has %g\n", what, entropy, entropy_of(p, n));
		return false;
	}
	return true;
}

static struct cohort_lexicon *letters(size_t n)
{
	struct cohort_lexicon_token *t = calloc(n, sizeof *t);
	char *text = calloc(n, 1);
	struct cohort_lexicon *x = NULL;
	for (size_t i = 0; i < n; i++) {
		text[i] = (char)('a' + i % 26);
		t[i] = (struct cohort_lexicon_token){text + i, 1, true, false};
	}
	assert_int_equal(cohort_lexicon_open_list(t, (int32_t)n, &x, NULL), COHORT_OK);
	free(t);
	free(text);
	return x;
}

/* Everything random. */
static void random_params(
		struct rng *r, struct cohort_sampler_params *p, size_t n_vocab, struct cohort_logit_bias *bias)
{
	static const char *const breakers[] = {"c", "ab", "f"};

	cohort_sampler_params_init(p);
	p->seed = rng_u32(r);
	p->temperature = rng_u32(r) % 8 ? random_float(r, 0.2, 2) : 0;
	p->top_k = rng_u32(r) % 2 ? (int32_t)(rng_u32(r) % (n_vocab + 3)) : 0;
	p->top_p = rng_u32(r) % 2 ? random_float(r, 0, 1.2) : 1;
	p->min_p = rng_u32(r) % 2 ? random_float(r, -0.1, 0.5) : 0;
	p->min_keep = rng_u32(r) % 3 ? 1 : (int32_t)(1 + rng_u32(r) % 9);
	p->n_bias = (int32_t)(rng_u32(r) % 5);
	p->bias = bias;
	for (int32_t i = 0; i < p->n_bias; i++)
		bias[i] = (struct cohort_logit_bias){(cohort_token)(rng_u32(r) % n_vocab), random_float(r, -5, 5)};
	p->history_max = 1 + (int32_t)(rng_u32(r) % HISTORY);
	p->penalty_last_n = (int32_t)(rng_u32(r) % 50) - 1;
	p->repeat_penalty = rng_u32(r) % 2 ? random_float(r, 0.5, 2) : 1;
	p->frequency_penalty = rng_u32(r) % 2 ? random_float(r, -1, 1) : 0;
	p->presence_penalty = rng_u32(r) % 2 ? random_float(r, -1, 1) : 0;
	p->dry_multiplier = rng_u32(r) % 2 ? random_float(r, 0, 2) : 0;
	p->dry_base = random_float(r, 0.9, 2);
	p->dry_allowed_length = (int32_t)(rng_u32(r) % 4);
	p->dry_penalty_last_n = (int32_t)(rng_u32(r) % 60) - 1;
	p->dry_breakers = breakers;
	p->n_dry_breakers = (int32_t)(rng_u32(r) % 4);
	p->top_n_sigma = rng_u32(r) % 3 ? -1 : random_float(r, 0, 3);
	p->typical_p = rng_u32(r) % 3 ? 1 : random_float(r, 0, 1.1);
	p->xtc_probability = rng_u32(r) % 3 ? 0 : random_float(r, 0, 1);
	p->xtc_threshold = random_float(r, 0, 0.6);
	/* Above 0 all the time: a distribution of one would be divided by nearly nothing. */
	p->dynatemp_range = rng_u32(r) % 3 ? 0 : (float)(0.9 * rng_f64(r)) * p->temperature;
	p->dynatemp_exponent = rng_u32(r) % 4 ? random_float(r, 0.1, 2) : 0;
	p->mirostat = rng_u32(r) % 4 ? 0 : (int32_t)(1 + rng_u32(r) % 2);
	p->mirostat_tau = random_float(r, 0.5, 8);
	p->n_order = rng_u32(r) % 2 ? 0 : (int32_t)(1 + rng_u32(r) % 14);
	for (int32_t i = 0; i < p->n_order; i++)
		p->order[i] = (enum cohort_stage)(1 + rng_u32(r) % COHORT_STAGE_MIROSTAT);
}

static void random_chains(void **state)
{
	const int n_cases = effort(20000);
	static struct ref r;
	struct cohort_logit_bias bias[5];
	struct cohort_lexicon *lexicon[2] = {letters(N_MAX), letters(70)};
	struct rng rng;
	int n_edges = 0, n_greedy = 0, n_cut = 0;
	(void)state;

	rng_init(&rng, 11, 5);
	for (int c = 0; c < n_cases; c++) {
		const size_t n = rng_u32(&rng) % 2 ? N_MAX : 70;
		struct cohort_sampler_params p;
		struct cohort_sampler *s = NULL;
		struct cohort_err err;
		float logits[N_MAX];
		cohort_token history[HISTORY], t;
		const size_t n_history = rng_u32(&rng) % HISTORY;
		char what[64];

		random_params(&rng, &p, n, bias);
		p.lexicon = lexicon[n != N_MAX];
		/* Few different ones, so that they repeat. */
		for (size_t i = 0; i < n_history; i++)
			history[i] = (cohort_token)(rng_u32(&rng) % 5);
		random_logits(&rng, logits, n);
		if (cohort_sampler_open(&p, (int32_t)n, &s, &err) || cohort_sampler_prompt(s, history, n_history, &err))
			fail_msg("case %d: %s", c, err.text);
		struct mode m = {.mu = 2 * (double)p.mirostat_tau,
				.history = history,
				.n_history = n_history,
				.n_vocab = n};
		struct cohort_sampler_rng g;
		cohort_sampler_rng_get(s, &g);
		m.rng = (struct rng){g.state, g.inc};
		if (cohort_sampler_sample(s, logits, &t, &err))
			fail_msg("case %d: %s", c, err.text);
		r.n = n;
		for (size_t i = 0; i < n; i++) {
			r.l[i] = (double)logits[i];
			r.id[i] = (int)i;
		}
		reference(&r, &p, &m);
		n_greedy += p.temperature <= 0;
		n_cut += r.n < n;
		snprintf(what, sizeof what, "case %d", c);
		if (!same(&r, s, n, what))
			n_edges++;
		/* And the draw took what it says: one number, none when greedy. */
		if (p.temperature > 0)
			rng_f64(&m.rng);
		cohort_sampler_rng_get(s, &g);
		if (g.state != m.rng.state)
			fail_msg("case %d: the generator is elsewhere", c);
		cohort_sampler_free(s);
	}
	print_message("%d cases, %d greedy, %d cut, %d on an edge\n", n_cases, n_greedy, n_cut, n_edges);
	assert_true(n_greedy > n_cases / 20 && n_cut > n_cases / 2);
	/* Sums that end on a bound to the last bit. */
	assert_true(n_edges <= 3);
	cohort_lexicon_free(lexicon[0]);
	cohort_lexicon_free(lexicon[1]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
			cmocka_unit_test(random_chains),
	};
	return cmocka_run_group_tests_name("sample_chain", tests, NULL, NULL);
}
