/* DRY: a token that would go on with a repetition is made less likely, the more so the longer the repetition is.
 *
 * Let the text end in t1 .. tm, and let the same m tokens stand somewhere before, followed by x. Then x gets
 * multiplier * base^(m - allowed_length) off, m being the longest such stretch, if it has at least allowed_length
 * tokens. The stretch does not reach back over a token in which a sequence breaker ends.
 *
 * Invariants
 *  1. One pass over the window, whatever it holds (Z function of the reversed text).
 *  2. The amount taken off is finite. */
#include "base/fmath.h"
#include "sample/sample.h"

#include <float.h>
#include <math.h>

static enum cohort_status dry_check(const struct cohort_sampler_params *p, struct cohort_err *err)
{
	enum cohort_status st = stage_expect(p->dry_multiplier >= 0.0f && p->dry_multiplier < INFINITY,
			"dry_multiplier", (double)p->dry_multiplier, "0 or more", err);
	if (!st)
		st = stage_expect(p->dry_base >= 0.0f && p->dry_base < INFINITY, "dry_base", (double)p->dry_base,
				"1 or more, or below 1 for no penalty", err);
	if (!st)
		st = err_range(err, "dry_allowed_length", p->dry_allowed_length, 0, INT32_MAX);
	if (!st)
		st = err_range(err, "dry_penalty_last_n", p->dry_penalty_last_n, -1, COHORT_HISTORY_MAX);
	if (!st)
		st = err_range(err, "n_dry_breakers", p->n_dry_breakers, 0, 256);
	return st;
}

static bool dry_is_on(const struct cohort_sampler_params *p)
{
	return p->dry_multiplier > 0.0f && p->dry_base >= 1.0f && p->dry_penalty_last_n != 0;
}

static double punish(const void *arg, size_t i, double logit)
{
	const struct cohort_sampler *s = arg;
	const double over = (double)s->counts[i] - s->p.dry_allowed_length;
	const double off = (double)s->p.dry_multiplier * fm_pow((double)s->p.dry_base, over);
	return logit - (off < FLT_MAX ? off : FLT_MAX);
}

/* run[i]: how many tokens before the i-th last equal the last ones. */
static void find_runs(const cohort_token *last, size_t n, int32_t *run)
{
	size_t from = 0, to = 0; /* the stretch that reaches furthest: [from, to) equals [0, to - from) */

	run[0] = (int32_t)n;
	for (size_t i = 1; i < n; i++) {
		size_t k = i < to ? (size_t)run[i - from] : 0;
		k = i < to && k > to - i ? to - i : k;
		while (i + k < n && last[-(long)(i + k)] == last[-(long)k])
			k++;
		run[i] = (int32_t)k;
		if (i + k > to) {
			from = i;
			to = i + k;
		}
	}
}

static void dry_apply(struct cohort_sampler *s, struct cands *c)
{
	size_t n, most = 0;
	const cohort_token *t = history_last(&s->history, stage_window(&s->p, s->p.dry_penalty_last_n), &n);
	const size_t allowed = (size_t)s->p.dry_allowed_length;
	const uint8_t *broken = s->history.broken + (t - s->history.tokens);

	while (most < n && !broken[n - 1 - most])
		most++;
	if (n < 2 || most < allowed || most == 0)
		return;
	idset_clear(&s->tally);
	find_runs(t + n - 1, n, s->runs);
	for (size_t i = 1; i < n; i++) {
		const size_t run = (size_t)s->runs[i] < most ? (size_t)s->runs[i] : most;
		if (run < allowed || run == 0)
			continue;
		/* The token after that place, in the text's direction. */
		const size_t before = s->tally.n, at = idset_add(&s->tally, t[n - i]);
		if (at == before || s->counts[at] < run)
			s->counts[at] = (uint32_t)run;
	}
	cands_map(c, &s->tally, punish, s);
}

const struct stage_ops stage_dry = {"dry", dry_check, dry_is_on, true, dry_apply};
