/* A first chain: top-k, top-p, min-p, temperature, then a draw; or greedy.
 *
 * Invariants
 *  1. Candidates are ordered by logit, high to low, ties by token id: a total order, so any selection algorithm gives
 *     the same list.
 *  2. Probabilities are doubles from our own exp, summed in that order; the mass of the whole vocabulary in id order.
 * The same on every machine.
 *  3. One draw of the generator per sampled token, none when greedy; nothing is allocated after open.
 * Each stage sees the distribution the stages before it left, renormalised. */
#include "base/err.h"
#include "base/fmath.h"
#include "base/mem.h"
#include "base/rng.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

struct cand {
	float logit;
	cohort_token id;
};

struct cohort_sampler {
	struct cohort_sampler_params p;
	int32_t n_vocab;
	struct rng rng;
	struct cand *cands; /* [n_vocab] */
	double *probs;      /* [n_vocab] */
	int32_t *tops;      /* [n_vocab / CHUNK, rounded up]: largest key of each chunk */
};

/* The vocabulary is looked at in chunks of this many: most of them hold nothing of interest. */
enum { CHUNK = 64 };

static size_t n_chunks(const struct cohort_sampler *s)
{
	return ((size_t)s->n_vocab + CHUNK - 1) / CHUNK;
}

void cohort_sampler_params_init(struct cohort_sampler_params *params)
{
	if (!params)
		return;
	*params = (struct cohort_sampler_params){
		.struct_size = sizeof *params,
		.temperature = 0.8f,
		.top_k = 40,
		.top_p = 0.95f,
		.min_p = 0.05f,
		.min_keep = 1,
	};
}

enum cohort_status cohort_sampler_open(const struct cohort_sampler_params *params, int32_t n_vocab,
		struct cohort_sampler **out, struct cohort_err *err)
{
	struct cohort_sampler_params p;

	cohort_sampler_params_init(&p);
	if (!out)
		return err_set(err, COHORT_E_ARG, "out is NULL");
	if (params) {
		if (params->struct_size != sizeof p)
			return err_set(err, COHORT_E_ARG,
					"sampler parameters were not initialised by cohort_sampler_params_init");
		p = *params;
	}
	if (n_vocab < 1)
		return err_set(err, COHORT_E_ARG, "n_vocab is %d, expected at least 1", n_vocab);
	if (!isfinite(p.temperature))
		return err_set(err, COHORT_E_ARG, "temperature is %g, expected a finite number", (double)p.temperature);
	if (!(p.top_p >= 0.0f))
		return err_set(err, COHORT_E_ARG, "top_p is %g, expected 0 to 1", (double)p.top_p);
	if (!(p.min_p <= 1.0f))
		return err_set(err, COHORT_E_ARG, "min_p is %g, expected 0 to 1", (double)p.min_p);
	if (p.min_keep < 1)
		return err_set(err, COHORT_E_ARG, "min_keep is %d, expected at least 1", p.min_keep);

	struct cohort_sampler *s = mem_zalloc(1, sizeof *s);
	if (s) {
		s->n_vocab = n_vocab;
		s->cands = mem_alloc((size_t)n_vocab, sizeof *s->cands);
		s->probs = mem_alloc((size_t)n_vocab, sizeof *s->probs);
		s->tops = mem_alloc(n_chunks(s), sizeof *s->tops);
	}
	if (!s || !s->cands || !s->probs || !s->tops) {
		cohort_sampler_free(s);
		return err_set(err, COHORT_E_MEMORY, "out of memory for a sampler over %d tokens", n_vocab);
	}
	s->p = p;
	rng_init(&s->rng, p.seed, p.stream);
	*out = s;
	return COHORT_OK;
}

void cohort_sampler_free(struct cohort_sampler *s)
{
	if (s) {
		mem_free(s->cands);
		mem_free(s->probs);
		mem_free(s->tops);
		mem_free(s);
	}
}

/* ---- Selection ---- */

/* a comes after b in the order */
static bool after(struct cand a, struct cand b)
{
	return a.logit < b.logit || (a.logit == b.logit && a.id > b.id);
}

/* Heap whose root is the candidate that comes last (worst) or first (best). */
static void sift(struct cand *h, size_t i, size_t n, bool worst_on_top)
{
	struct cand x = h[i];
	for (;;) {
		size_t c = 2 * i + 1;
		if (c >= n)
			break;
		if (c + 1 < n && after(h[c + 1], h[c]) == worst_on_top)
			c++;
		if (after(h[c], x) != worst_on_top)
			break;
		h[i] = h[c];
		i = c;
	}
	h[i] = x;
}

static void heapify(struct cand *h, size_t n, bool worst_on_top)
{
	for (size_t i = n / 2; i-- > 0;)
		sift(h, i, n, worst_on_top);
}

/* Floats as integers that order the same way; compilers turn loops over them into vector code. */
static int32_t order_key(float f)
{
	int32_t b;
	memcpy(&b, &f, sizeof b);
	return b < 0 ? b ^ 0x7fffffff : b;
}

static float from_key(int32_t k)
{
	float f;
	k = k < 0 ? k ^ 0x7fffffff : k;
	memcpy(&f, &k, sizeof f);
	return f;
}

/* Notes the largest key of each chunk and returns the index of the largest logit, ties to the lowest; n_vocab if one is
 * NaN or +Inf, which as keys lie outside [-Inf, +Inf). */
static size_t find_best(struct cohort_sampler *s, const float *logits)
{
	const size_t n = (size_t)s->n_vocab;
	int32_t lo = INT32_MAX, top = INT32_MIN;

	for (size_t c = 0; c < n_chunks(s); c++) {
		const size_t end = (c + 1) * CHUNK < n ? (c + 1) * CHUNK : n;
		int32_t hi = INT32_MIN;
		for (size_t i = c * CHUNK; i < end; i++) {
			int32_t k = order_key(logits[i]);
			lo = k < lo ? k : lo;
			hi = k > hi ? k : hi;
		}
		s->tops[c] = hi;
		top = hi > top ? hi : top;
	}
	if (lo < order_key(-INFINITY) || top >= order_key(INFINITY))
		return n;
	/* -0 equals +0 here, as it does for the draw. */
	size_t c = 0;
	while (from_key(s->tops[c]) != from_key(top))
		c++;
	for (size_t i = c * CHUNK;; i++)
		if (logits[i] == from_key(top))
			return i;
}

/* Keeps the first k, in order, of the n candidates. */
static size_t keep_top(struct cand *h, size_t n, size_t k)
{
	k = k < n ? k : n;
	heapify(h, k, true);
	for (size_t i = k; i < n; i++)
		if (after(h[0], h[i])) {
			h[0] = h[i];
			sift(h, 0, k, true);
		}
	for (size_t i = k; i-- > 1;) {
		struct cand t = h[0];
		h[0] = h[i];
		h[i] = t;
		sift(h, 0, i, true);
	}
	return k;
}

/* The best k of the logits, in order. The k-th largest of the chunks' tops is a bar that at least k logits reach; only
 * those are candidates, and only chunks whose top reaches it are looked into. */
static size_t select_top(struct cohort_sampler *s, const float *logits, size_t k)
{
	struct cand *h = s->cands;
	const size_t n = (size_t)s->n_vocab, m = n_chunks(s);
	float bar = -INFINITY;
	size_t got = 0;

	if (m > k) {
		for (size_t c = 0; c < m; c++)
			h[c] = (struct cand){from_key(s->tops[c]), (cohort_token)c};
		bar = h[keep_top(h, m, k) - 1].logit;
	}
	for (size_t c = 0; c < m; c++) {
		const size_t end = (c + 1) * CHUNK < n ? (c + 1) * CHUNK : n;
		if (from_key(s->tops[c]) >= bar)
			for (size_t i = c * CHUNK; i < end; i++)
				if (logits[i] >= bar)
					h[got++] = (struct cand){logits[i], (cohort_token)i};
	}
	return keep_top(h, got, k);
}

/* All candidates with the first n in order, found one by one from a heap, until `enough` of the mass is there. The rest
 * is cut off. Only the heap's area beyond the popped ones shrinks, so the popped are kept at its end and moved to the
 * front. */
static size_t select_mass(struct cohort_sampler *s, const float *logits, double enough)
{
	struct cand *h = s->cands;
	size_t n = (size_t)s->n_vocab, left = n, keep = (size_t)s->p.min_keep;
	double total = 0.0, sum = 0.0;
	float top = logits[0];

	for (size_t i = 0; i < n; i++) {
		h[i] = (struct cand){logits[i], (cohort_token)i};
		top = logits[i] > top ? logits[i] : top;
	}
	for (size_t i = 0; i < n; i++)
		total += fm_exp((double)logits[i] - (double)top);
	heapify(h, n, false);
	while (left > 0) {
		struct cand t = h[0];
		left--;
		h[0] = h[left];
		h[left] = t;
		sift(h, 0, left, false);
		sum += fm_exp((double)t.logit - (double)top);
		if (sum >= enough * total && n - left >= keep)
			break;
	}
	size_t got = n - left;
	for (size_t i = 0; i < got / 2; i++) { /* popped ones lie last to first */
		struct cand t = h[left + i];
		h[left + i] = h[n - 1 - i];
		h[n - 1 - i] = t;
	}
	memmove(h, h + left, got * sizeof *h);
	return got;
}

/* ---- Stages over the ordered list ---- */

static size_t cut_top_p(struct cohort_sampler *s, size_t n, double top_p)
{
	double total = 0.0, sum = 0.0;
	for (size_t i = 0; i < n; i++) {
		s->probs[i] = fm_exp((double)s->cands[i].logit - (double)s->cands[0].logit);
		total += s->probs[i];
	}
	for (size_t i = 0; i < n; i++) {
		sum += s->probs[i];
		if (sum >= top_p * total && i + 1 >= (size_t)s->p.min_keep)
			return i + 1;
	}
	return n;
}

static size_t cut_min_p(struct cohort_sampler *s, size_t n, double min_p)
{
	double floor = (double)s->cands[0].logit + fm_log(min_p);
	size_t i = 0;
	while (i < n && (i < (size_t)s->p.min_keep || (double)s->cands[i].logit >= floor))
		i++;
	return i;
}

static size_t draw(struct cohort_sampler *s, size_t n, float top)
{
	double total = 0.0, sum = 0.0;
	for (size_t i = 0; i < n; i++) {
		s->probs[i] = fm_exp(((double)s->cands[i].logit - (double)top) / (double)s->p.temperature);
		total += s->probs[i];
	}
	double x = rng_f64(&s->rng) * total;
	for (size_t i = 0; i < n; i++) {
		sum += s->probs[i];
		if (x < sum)
			return i;
	}
	/* Rounding may leave x at the very end: the last candidate with any mass. */
	while (n > 1 && s->probs[n - 1] == 0.0)
		n--;
	return n - 1;
}

enum cohort_status cohort_sampler_sample(
		struct cohort_sampler *s, const float *logits, cohort_token *out, struct cohort_err *err)
{
	if (!s || !logits || !out)
		return err_set(err, COHORT_E_ARG, "%s is NULL", !s ? "sampler" : !logits ? "logits" : "out");
	size_t n = (size_t)s->n_vocab, best = find_best(s, logits);
	if (best == n) {
		size_t i = 0;
		while (logits[i] < INFINITY)
			i++;
		return err_rule(err, COHORT_E_NUMERIC, "finite", -1, -1, 0, (int64_t)i, "logit of token %zu is %s", i,
				isnan(logits[i]) ? "not a number" : "infinite");
	}
	if (!(logits[best] > -INFINITY))
		return err_set(err, COHORT_E_NUMERIC, "every token is excluded");
	if (s->p.temperature <= 0.0f) {
		*out = (cohort_token)best;
		return COHORT_OK;
	}
	const bool k_on = s->p.top_k > 0 && (size_t)s->p.top_k < n;
	const bool p_on = s->p.top_p < 1.0f;
	const bool m_on = s->p.min_p > 0.0f;
	if (k_on) {
		n = select_top(s, logits, (size_t)s->p.top_k);
		if (p_on)
			n = cut_top_p(s, n, (double)s->p.top_p);
	} else if (p_on || m_on) {
		n = select_mass(s, logits, p_on ? (double)s->p.top_p : 2.0);
	} else {
		for (size_t i = 0; i < n; i++)
			s->cands[i] = (struct cand){logits[i], (cohort_token)i};
	}
	if (m_on)
		n = cut_min_p(s, n, (double)s->p.min_p);
	*out = s->cands[draw(s, n, logits[best])].id;
	return COHORT_OK;
}
