/* The stages that need no memory of what was said: bias, temperature, and those that cut the list. Formulas are in
 * docs/sampling.md.
 *
 * Invariants
 *  1. A stage sees the distribution the stages before it left, renormalised.
 *  2. A stage that cuts leaves at least min_keep candidates (or all there are), top-k as many as it says; a stage whose
 *     value is its neutral one changes nothing.
 *  3. A stage takes a fixed number of draws from the generator (XTC one, the others none), whatever the logits are. */
#include "base/fmath.h"
#include "sample/sample.h"

#include <math.h>
#include <string.h>

enum cohort_status stage_expect(bool ok, const char *name, double got, const char *what, struct cohort_err *err)
{
	return ok ? COHORT_OK
		  : err_rule(err, COHORT_E_ARG, name, -1, -1, 0, 0, "%s is %g, expected %s", name, got, what);
}

/* Values repeated in an order could leave the range of numbers. */
double stage_finite(double logit)
{
	return logit > 1e300 ? 1e300 : logit < -1e300 ? -1e300 : logit;
}

static size_t min_keep(const struct cohort_sampler *s)
{
	return (size_t)s->p.min_keep;
}

/* ---- Bias ---- */

enum cohort_status stage_bias_check(const struct cohort_sampler_params *p, int32_t n_vocab, struct cohort_err *err)
{
	if (err_range(err, "n_bias", p->n_bias, 0, INT32_MAX))
		return COHORT_E_ARG;
	if (p->n_bias > 0 && !p->bias)
		return err_set(err, COHORT_E_ARG, "n_bias is %d, bias is NULL", p->n_bias);
	for (int32_t i = 0; i < p->n_bias; i++) {
		const struct cohort_logit_bias *b = &p->bias[i];
		if (b->token < 0 || b->token >= n_vocab)
			return err_rule(err, COHORT_E_ARG, "token", i, -1, n_vocab, b->token,
					"bias of token %d: the vocabulary has 0 to %d", b->token, n_vocab - 1);
		if (!(b->bias < INFINITY))
			return err_rule(err, COHORT_E_ARG, "bias", i, -1, 0, 0,
					"bias of token %d is %g, expected a number or -Inf", b->token, (double)b->bias);
	}
	return COHORT_OK;
}

static bool bias_is_on(const struct cohort_sampler_params *p)
{
	return p->n_bias > 0;
}

static double add_bias(const void *arg, size_t i, double logit)
{
	return logit + (double)((const float *)arg)[i];
}

static void bias_apply(struct cohort_sampler *s, struct cands *c)
{
	cands_map(c, &s->bias, add_bias, s->bias_values);
}

const struct stage_ops stage_bias = {"bias", NULL, bias_is_on, true, bias_apply};

/* ---- Top-n-sigma ---- */

static enum cohort_status sigma_check(const struct cohort_sampler_params *p, struct cohort_err *err)
{
	return stage_expect(!isnan(p->top_n_sigma), "top_n_sigma", (double)p->top_n_sigma, "a number", err);
}

static bool sigma_is_on(const struct cohort_sampler_params *p)
{
	return p->top_n_sigma > 0.0f && p->top_n_sigma < INFINITY;
}

static void sigma_apply(struct cohort_sampler *s, struct cands *c)
{
	cands_above(c, -(double)s->p.top_n_sigma * cands_deviation(c), min_keep(s));
}

const struct stage_ops stage_top_n_sigma = {"top_n_sigma", sigma_check, sigma_is_on, false, sigma_apply};

/* ---- Top-k ---- */

static bool top_k_is_on(const struct cohort_sampler_params *p)
{
	return p->top_k > 0;
}

static void top_k_apply(struct cohort_sampler *s, struct cands *c)
{
	if (s->p.top_k < s->n_vocab)
		cands_top(c, (size_t)s->p.top_k);
}

const struct stage_ops stage_top_k = {"top_k", NULL, top_k_is_on, false, top_k_apply};

/* ---- Top-p ---- */

static enum cohort_status top_p_check(const struct cohort_sampler_params *p, struct cohort_err *err)
{
	return stage_expect(p->top_p >= 0.0f, "top_p", (double)p->top_p, "0 to 1", err);
}

static bool top_p_is_on(const struct cohort_sampler_params *p)
{
	return p->top_p < 1.0f;
}

static void top_p_apply(struct cohort_sampler *s, struct cands *c)
{
	if (!cands_list(c))
		return;
	cands_weigh(c);
	const double enough = (double)s->p.top_p * c->total;
	double sum = 0;
	size_t n = 0;
	while (n < c->n && (n < min_keep(s) || n == 0 || sum < enough)) {
		cands_order(c, n + 1);
		sum += c->list[n++].weight;
	}
	cands_cut(c, n);
}

const struct stage_ops stage_top_p = {"top_p", top_p_check, top_p_is_on, false, top_p_apply};

/* ---- Min-p ---- */

static enum cohort_status min_p_check(const struct cohort_sampler_params *p, struct cohort_err *err)
{
	return stage_expect(p->min_p <= 1.0f, "min_p", (double)p->min_p, "0 to 1", err);
}

static bool min_p_is_on(const struct cohort_sampler_params *p)
{
	return p->min_p > 0.0f;
}

static void min_p_apply(struct cohort_sampler *s, struct cands *c)
{
	cands_above(c, fm_log((double)s->p.min_p), min_keep(s));
}

const struct stage_ops stage_min_p = {"min_p", min_p_check, min_p_is_on, false, min_p_apply};

/* ---- Typical ---- */

static enum cohort_status typical_check(const struct cohort_sampler_params *p, struct cohort_err *err)
{
	return stage_expect(p->typical_p >= 0.0f, "typical_p", (double)p->typical_p, "0 to 1", err);
}

static bool typical_is_on(const struct cohort_sampler_params *p)
{
	return p->typical_p < 1.0f;
}

/* In nats: -log p = log total - log weight, and a weight's logarithm is its logit's distance to the best. */
static double surprise_at(const struct cands *c, size_t i)
{
	return fm_log(c->total) + (c->list[0].logit - c->list[i].logit);
}

/* In order of probability the surprise rises, so its distance to the entropy falls and then rises: those nearest to it
 * are a stretch of the list, which grows from where the entropy lies, to the better side when both are equally near. */
static void typical_apply(struct cohort_sampler *s, struct cands *c)
{
	if (!cands_list(c))
		return;
	const double entropy = cands_entropy(c), enough = (double)s->p.typical_p * c->total;
	size_t from = 0, to;

	while (from < c->n) {
		cands_order(c, from + 1);
		if (surprise_at(c, from) >= entropy)
			break;
		from++;
	}
	to = from;
	for (double sum = 0; to - from < c->n && (to == from || to - from < min_keep(s) || sum < enough);) {
		cands_order(c, to + 1);
		const bool down = to<c->n, up = from> 0;
		if (up && (!down || entropy - surprise_at(c, from - 1) <= surprise_at(c, to) - entropy))
			sum += c->list[--from].weight;
		else
			sum += c->list[to++].weight;
	}
	/* Of equal ones at the upper end those with the smaller ids. */
	size_t first = from, end = from;
	while (first > 0 && c->list[first - 1].logit == c->list[from].logit)
		first--;
	while (end < to && c->list[end].logit == c->list[from].logit)
		end++;
	memmove(c->list + from, c->list + first, (end - from) * sizeof *c->list);
	memmove(c->list, c->list + from, (to - from) * sizeof *c->list);
	c->n = c->n_sorted = to - from;
	cands_changed(c, true);
}

const struct stage_ops stage_typical = {"typical", typical_check, typical_is_on, false, typical_apply};

/* ---- XTC ---- */

static enum cohort_status xtc_check(const struct cohort_sampler_params *p, struct cohort_err *err)
{
	enum cohort_status st = stage_expect(
			p->xtc_probability <= 1.0f, "xtc_probability", (double)p->xtc_probability, "0 to 1", err);
	return st ? st
		  : stage_expect(p->xtc_threshold >= 0.0f, "xtc_threshold", (double)p->xtc_threshold, "0 to 1", err);
}

/* No two have more than half each. */
static bool xtc_is_on(const struct cohort_sampler_params *p)
{
	return p->xtc_probability > 0.0f && p->xtc_threshold <= 0.5f;
}

static void xtc_apply(struct cohort_sampler *s, struct cands *c)
{
	const double u = rng_f64(&s->rng);
	if (!cands_list(c) || u >= (double)s->p.xtc_probability)
		return;
	cands_weigh(c);
	const double bar = (double)s->p.xtc_threshold * c->total;
	size_t n = 0;
	for (; n < c->n; n++) {
		cands_order(c, n + 1);
		if (c->list[n].weight < bar)
			break;
	}
	if (n < 2 || c->n - (n - 1) < min_keep(s))
		return;
	c->n -= n - 1;
	c->n_sorted -= n - 1;
	memmove(c->list, c->list + (n - 1), c->n * sizeof *c->list);
	cands_changed(c, true);
}

const struct stage_ops stage_xtc = {"xtc", xtc_check, xtc_is_on, false, xtc_apply};

/* ---- Temperature ---- */

static enum cohort_status temperature_check(const struct cohort_sampler_params *p, struct cohort_err *err)
{
	enum cohort_status st = stage_expect(
			isfinite(p->temperature), "temperature", (double)p->temperature, "a finite number", err);
	if (!st)
		st = stage_expect(p->dynatemp_range >= 0.0f && p->dynatemp_range < INFINITY, "dynatemp_range",
				(double)p->dynatemp_range, "0 or more", err);
	if (!st)
		st = stage_expect(p->dynatemp_exponent >= 0.0f && p->dynatemp_exponent < INFINITY, "dynatemp_exponent",
				(double)p->dynatemp_exponent, "0 or more", err);
	return st;
}

static bool temperature_is_on(const struct cohort_sampler_params *p)
{
	return p->temperature > 0.0f && (p->temperature != 1.0f || p->dynatemp_range > 0.0f);
}

/* Between temperature - range and temperature + range, by how even the distribution is. */
static double dynamic(const struct cohort_sampler_params *p, struct cands *c)
{
	const double t = (double)p->temperature, range = (double)p->dynatemp_range;
	const double low = t > range ? t - range : 0.0, high = t + range;
	const double even = cands_entropy(c) / fm_log((double)c->n), e = (double)p->dynatemp_exponent;
	return low + (high - low) * (e == 0.0 ? 1.0 : even > 0.0 ? fm_pow(even, e) : 0.0);
}

static void temperature_apply(struct cohort_sampler *s, struct cands *c)
{
	if (!cands_list(c) || c->n < 2)
		return;
	const double t = s->p.dynatemp_range > 0.0f ? dynamic(&s->p, c) : (double)s->p.temperature;
	if (!(t > 0.0)) {
		cands_top(c, 1);
		return;
	}
	double largest = 0;
	for (size_t i = 0; i < c->n; i++)
		largest = fabs(c->list[i].logit) > largest ? fabs(c->list[i].logit) : largest;
	if (largest / t > 1e300) { /* beyond numbers: the best alone, and its equals */
		cands_above(c, 0, 1);
		return;
	}
	for (size_t i = 0; i < c->n; i++)
		c->list[i].logit /= t;
	cands_changed(c, true);
}

const struct stage_ops stage_temperature = {
		"temperature", temperature_check, temperature_is_on, false, temperature_apply};
