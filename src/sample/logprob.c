/* Log-probabilities of a row of logits.
 *
 * Invariant: sums are doubles in the order of ids, so that a row gives the same numbers on every machine. */
#include "base/err.h"
#include "base/fmath.h"
#include "base/fp.h"

#include <math.h>

/* Puts a token among the best so far, which stand in order; ties stay in the order of ids. */
static int32_t insert(struct cohort_logprob *top, int32_t n, int32_t n_max, cohort_token token, float logit)
{
	if (n == n_max && !(n > 0 && logit > top[n - 1].logprob))
		return n;
	int32_t i = n < n_max ? n++ : n - 1;
	for (; i > 0 && logit > top[i - 1].logprob; i--)
		top[i] = top[i - 1];
	top[i] = (struct cohort_logprob){token, logit};
	return n;
}

static enum cohort_status logprobs_get(const float *logits, int32_t n_vocab, cohort_token token, float *logprob,
		struct cohort_logprob *top, int32_t n_top, double *entropy, struct cohort_err *err)
{
	if (!logits || (n_top > 0 && !top))
		return err_set(err, COHORT_E_ARG, "%s is NULL", !logits ? "logits" : "top");
	if (n_vocab < 1 || n_top < 0)
		return err_set(err, COHORT_E_ARG, "%s is %d", n_vocab < 1 ? "n_vocab" : "n_top",
				n_vocab < 1 ? n_vocab : n_top);
	if (logprob && (token < 0 || token >= n_vocab))
		return err_set(err, COHORT_E_ARG, "token %d: the vocabulary has 0 to %d", token, n_vocab - 1);
	double best = -INFINITY, total = 0, turns = 0;
	for (int32_t i = 0; i < n_vocab; i++) {
		if (!(logits[i] < INFINITY))
			return err_rule(err, COHORT_E_NUMERIC, "finite", -1, -1, 0, i, "logit of token %d is %s", i,
					isnan(logits[i]) ? "not a number" : "infinite");
		best = (double)logits[i] > best ? (double)logits[i] : best;
	}
	if (!(best > -INFINITY))
		return err_set(err, COHORT_E_NUMERIC, "every token is excluded");
	for (int32_t i = 0; i < n_vocab; i++) {
		const double d = (double)logits[i] - best, w = fm_exp(d);
		total += w;
		turns += w > 0 ? w * d : 0;
	}
	const double all = best + fm_log(total);
	int32_t n = 0;
	for (int32_t i = 0; n_top > 0 && i < n_vocab; i++)
		if (logits[i] > -INFINITY)
			n = insert(top, n, n_top, i, logits[i]);
	for (int32_t i = 0; i < n_top; i++)
		top[i] = i < n ? (struct cohort_logprob){top[i].token, (float)((double)top[i].logprob - all)}
			       : (struct cohort_logprob){-1, -INFINITY};
	if (logprob)
		*logprob = (float)((double)logits[token] - all);
	if (entropy)
		*entropy = fm_log(total) - turns / total;
	return COHORT_OK;
}

enum cohort_status cohort_logprobs_get(const float *logits, int32_t n_vocab, cohort_token token, float *logprob,
		struct cohort_logprob *top, int32_t n_top, double *entropy, struct cohort_err *err)
{
	struct fp_mode fp;

	fp_enter(&fp);
	const enum cohort_status st = logprobs_get(logits, n_vocab, token, logprob, top, n_top, entropy, err);
	fp_leave(&fp);
	return st;
}
