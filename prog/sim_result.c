/* What came out of a run, as numbers: percentiles, rates, fairness.
 *
 * What holds:
 *  1. A percentile p of n values is the one at place ceil(p n), counted from 1: a value that was seen. Times between
 *     tokens come in bins of at most 1.6 % and are their middles; their largest is exact.
 *  2. Times are those of requests that were served to their end; refused ones are counted, nothing else.
 *  3. Jain's index is over x_c, the tokens (prompts and outputs) served to client c for each second in which it had a
 *     request waiting or running: (sum x)^2 / (n sum x^2). 1: all alike; 1 / n: one has everything. */
#include "common.h"
#include "sim.h"

#include "base/file.h"
#include "base/mem.h"

#include <math.h>
#include <stdlib.h>

static const double quantiles[SIM_MAX] = {[SIM_P50] = 0.5, [SIM_P90] = 0.9, [SIM_P99] = 0.99};

static int by_value(const void *a, const void *b)
{
	const double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

static size_t rank(double q, double n)
{
	const double k = ceil(q * n);
	return k < 1 ? 0 : (size_t)k - 1;
}

static void take_quantiles(struct sim_quantiles *out, double *v, size_t n)
{
	qsort(v, n, sizeof *v, by_value);
	for (size_t i = 0; i < SIM_MAX && n > 0; i++)
		out->s[i] = v[rank(quantiles[i], (double)n)];
	out->s[SIM_MAX] = n > 0 ? v[n - 1] : 0;
}

static void take_gaps(struct sim_quantiles *out, const struct cohort_sim_totals *t)
{
	uint64_t n = 0, seen = 0;
	size_t next = 0;

	for (int32_t b = 0; b < COHORT_SIM_BINS; b++)
		n += t->gaps[b];
	for (int32_t b = 0; b < COHORT_SIM_BINS && next < SIM_MAX && n > 0; b++) {
		seen += t->gaps[b];
		const double s = cohort_sim_bin_s(b);
		while (next < SIM_MAX && seen > rank(quantiles[next], (double)n))
			out->s[next++] = s < t->gap_max_s ? s : t->gap_max_s;
	}
	out->s[SIM_MAX] = t->gap_max_s;
}

/* ---- Fairness ---- */

struct share {
	uint64_t client;
	double from, to, tokens;
};

static int by_client(const void *a, const void *b)
{
	const struct share *x = a, *y = b;

	if (x->client != y->client)
		return x->client < y->client ? -1 : 1;
	return (x->from > y->from) - (x->from < y->from);
}

/* Sorted by client and arrival, the times of a client overlap or follow each other. */
static double jain(struct share *v, size_t n)
{
	double sum = 0, squares = 0;
	size_t n_clients = 0;

	qsort(v, n, sizeof *v, by_client);
	for (size_t i = 0, j; i < n; i = j) {
		double busy = 0, until = v[i].from, tokens = 0;
		for (j = i; j < n && v[j].client == v[i].client; j++) {
			const double from = v[j].from > until ? v[j].from : until;
			busy += v[j].to > from ? v[j].to - from : 0;
			until = v[j].to > until ? v[j].to : until;
			tokens += v[j].tokens;
		}
		const double x = busy >= SIM_S_MIN ? tokens / busy : 0;
		sum += x;
		squares += x * x;
		n_clients++;
	}
	return squares > 0 ? sum * sum / ((double)n_clients * squares) : 1;
}

/* ---- The whole ---- */

static void rates(struct sim_result *r, const struct sim_trace *t)
{
	const struct cohort_sim_totals *c = &r->totals;

	r->span_s = t->n > 0 ? c->now_s - t->requests[0].arrival_s : 0;
	if (r->span_s >= SIM_S_MIN) {
		r->out_per_s = (double)c->n_tokens / r->span_s;
		r->requests_per_s = (double)c->n_done / r->span_s;
	}
	r->cached = c->n_prompt_tokens > 0 ? (double)c->n_cached_tokens / (double)c->n_prompt_tokens : 0;
}

int sim_result_fill(struct sim_result *r, const struct sim_trace *t, const struct cohort_sim_outcome *outcomes)
{
	struct share *shares = mem_alloc(t->n, sizeof *shares);

	r->ttft = mem_alloc(t->n, sizeof *r->ttft);
	r->wait = mem_alloc(t->n, sizeof *r->wait);
	r->end = mem_alloc(t->n, sizeof *r->end);
	if (!shares || !r->ttft || !r->wait || !r->end) {
		mem_free(shares);
		return out_of_memory(sim_prog);
	}
	for (size_t i = 0; i < t->n; i++) {
		const struct cohort_sim_outcome *o = &outcomes[i];
		const struct cohort_sim_request *q = &t->requests[i];
		if (o->finish != COHORT_FINISH_LENGTH)
			continue;
		r->ttft[r->n] = o->first_token_s;
		r->wait[r->n] = o->queued_s;
		r->end[r->n] = o->end_s;
		shares[r->n++] = (struct share){
				q->client, q->arrival_s, q->arrival_s + o->end_s, (double)q->n_prompt + q->n_output};
	}
	take_quantiles(&r->q_ttft, r->ttft, r->n);
	take_quantiles(&r->q_wait, r->wait, r->n);
	take_quantiles(&r->q_end, r->end, r->n);
	take_gaps(&r->q_gap, &r->totals);
	r->jain = jain(shares, r->n);
	rates(r, t);
	mem_free(shares);
	return 0;
}

void sim_result_release(struct sim_result *r)
{
	mem_free(r->ttft);
	mem_free(r->wait);
	mem_free(r->end);
}

int sim_write(const char *path, const void *bytes, size_t n_bytes)
{
	struct cohort_err err;

	if (!file_write_atomic(path, bytes, n_bytes, &err))
		return 0;
	fprintf(stderr, "%s: %s\n", sim_prog, err.text);
	return err.status == COHORT_E_MEMORY ? EXIT_RUN : EXIT_FILE;
}

const char *sim_number(double v)
{
	enum { RING = 32 };
	static char ring[RING][32];
	static size_t at;
	char *s = ring[at++ % RING];
	int decimals = 4;

	for (double top = 0.99995; decimals > 0 && v >= top; top *= 10)
		decimals--;
	snprintf(s, sizeof ring[0], "%.*f", decimals, v);
	return s;
}
