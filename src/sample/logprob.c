/* Log-probabilities of a row of logits.
 *
 * Invariant: sums are doubles in the order of ids, so that a row gives the same numbers on every machine. */
#include "base/err.h"
#include "base/fmath.h"
#include "base/fp.h"
#include "kern/kern.h"
#include "sample/cands.h"

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

/* A row with a logit that is NaN or +Inf. */
static enum cohort_status refuse_row(const float *logits, struct cohort_err *err)
{
	int32_t i = 0;

	while (logits[i] < INFINITY)
		i++;
	return err_rule(err, COHORT_E_NUMERIC, "finite", -1, -1, 0, i, "logit of token %d is %s", i,
			isnan(logits[i]) ? "not a number" : "infinite");
}

static enum cohort_status logprobs_get(const float *logits, int32_t n_vocab, cohort_token token, float *logprob,
		struct cohort_logprob *top, int32_t n_top, double *entropy, struct cohort_err *err)
{
	if (!logits || (n_top > 0 && !top))
		return err_set(err, COHORT_E_ARG, "%s is NULL", !logits ? "logits" : "top");
	if (err_range(err, "n_vocab", n_vocab, 1, INT32_MAX) || err_range(err, "n_top", n_top, 0, INT32_MAX))
		return COHORT_E_ARG;
	if (logprob && (token < 0 || token >= n_vocab))
		return err_rule(err, COHORT_E_ARG, "token", -1, -1, n_vocab, token,
				"token %d: the vocabulary has 0 to %d", token, n_vocab - 1);
	bool fine = true;
	const double best = (double)row_top(logits, (size_t)n_vocab, &fine);
	if (!fine)
		return refuse_row(logits, err);
	if (!(best > -INFINITY))
		return err_set(err, COHORT_E_NUMERIC, "every token is excluded");
	const struct kern *kern = kern_get(kern_best());
	double total = 0, turns = 0, d[CANDS_CHUNK], w[CANDS_CHUNK];
	for (int32_t i = 0; i < n_vocab; i += CANDS_CHUNK) {
		const int32_t m = n_vocab - i < CANDS_CHUNK ? n_vocab - i : CANDS_CHUNK;
		for (int32_t k = 0; k < m; k++)
			d[k] = (double)logits[i + k] - best;
		kern->exp64(d, (size_t)m, w);
		for (int32_t k = 0; k < m; k++) {
			total += w[k];
			turns += w[k] > 0 ? w[k] * d[k] : 0;
		}
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
