/* Mirostat 1 and 2 (Basu and others, 2020): cuts the list so that the surprise of what is drawn comes near tau, and
 * learns from each draw how far to cut.
 *
 * Invariants
 *  1. mu changes after a successful draw only, by the surprise of the token under the distribution it was drawn from.
 *  2. At least one candidate stays, whatever mu has become. */
#include "base/fmath.h"
#include "sample/sample.h"

#include <math.h>

static enum cohort_status mirostat_check(const struct cohort_sampler_params *p, struct cohort_err *err)
{
	enum cohort_status st = err_range(err, "mirostat", p->mirostat, 0, 2);
	if (!st)
		st = stage_expect(p->mirostat_tau >= 0.0f && p->mirostat_tau < INFINITY, "mirostat_tau",
				(double)p->mirostat_tau, "0 or more", err);
	if (!st)
		st = stage_expect(p->mirostat_eta >= 0.0f && p->mirostat_eta < INFINITY, "mirostat_eta",
				(double)p->mirostat_eta, "0 or more", err);
	return st;
}

static bool mirostat_is_on(const struct cohort_sampler_params *p)
{
	return p->mirostat != 0;
}

enum { M = 100 }; /* candidates that the slope of version 1 is estimated from */

/* How many to keep so that the surprise is mu, for a distribution like i^-s, s from the best ones by least squares. */
static size_t keep_1(struct cohort_sampler *s, struct cands *c)
{
	const double ln2 = fm_log(2.0);
	double tb = 0, tt = 0;

	cands_order(c, M);
	for (size_t i = 0; i + 1 < c->n && i + 1 < M; i++) {
		const double t = fm_log((double)(i + 2) / (double)(i + 1));
		tb += t * (c->list[i].logit - c->list[i + 1].logit);
		tt += t * t;
	}
	const double slope = tt > 0 ? tb / tt : 0, eps = slope - 1, n = (double)s->n_vocab;
	if (!(slope > 0))
		return c->n;
	const double room = fm_log(n) * eps;
	/* eps 2^mu / (1 - n^-eps), whose limit for eps = 0 is 2^mu / log n */
	const double x = fm_exp(s->mu * ln2) * (fabs(room) > 1e-9 ? eps / (1 - fm_exp(-room)) : 1 / fm_log(n));
	if (!(x > 0))
		return 1;
	const double k = fm_exp(fm_log(x) / slope);
	return k < 1 ? 1 : k < (double)c->n ? (size_t)k : c->n;
}

/* Those whose surprise is at most mu. */
static size_t keep_2(struct cohort_sampler *s, struct cands *c)
{
	const double ln2 = fm_log(2.0), most = s->mu * ln2 - fm_log(c->total);
	size_t n = 0;

	for (; n < c->n; n++) {
		cands_order(c, n + 1);
		if (c->list[0].logit - c->list[n].logit > most)
			break;
	}
	return n ? n : 1;
}

static void mirostat_apply(struct cohort_sampler *s, struct cands *c)
{
	if (!cands_list(c))
		return;
	cands_weigh(c);
	const size_t n = s->n_vocab == 1 ? 1 : s->p.mirostat == 1 ? keep_1(s, c) : keep_2(s, c);
	cands_order(c, n);
	cands_cut(c, n);
}

void mirostat_learn(struct cohort_sampler *s)
{
	if (s->p.mirostat != 0)
		s->mu -= (double)s->p.mirostat_eta * (sampler_surprise(s) - (double)s->p.mirostat_tau);
}

const struct stage_ops stage_mirostat = {"mirostat", mirostat_check, mirostat_is_on, false, mirostat_apply};
