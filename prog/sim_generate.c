/* Traces made up from a few numbers and a seed.
 *
 * What holds:
 *  1. The same numbers and seed give the same trace on every machine: own generator, own logarithm, times rounded to
 *     the microsecond.
 *  2. Arrivals, lengths and clients come from generators of their own, so that another rate changes neither the lengths
 *     nor whose they are.
 *  3. Whatever the kind, the rate is that of the whole trace, and the means are those that were asked for. */
#include "common.h"
#include "sim.h"

#include "base/fmath.h"
#include "base/mem.h"
#include "base/rng.h"

#include <math.h>

enum { BURST_MEAN = 20, BURST_SPEED = 20 };
static const double tail_shape = 1.5, tail_ratio = 64; /* the longest to the shortest */

static const char *const kinds[] = {
		[SIM_POISSON] = "poisson", [SIM_BURSTS] = "bursts", [SIM_HEAVY_TAIL] = "heavy-tail"};

const char *sim_kind_name(enum sim_kind kind)
{
	return (size_t)kind < sizeof kinds / sizeof *kinds ? kinds[kind] : NULL;
}

static double draw_exp(struct rng *r)
{
	return -fm_log(1 - rng_f64(r));
}

/* Pareto's distribution between the shortest and tail_ratio times that, by its inverse. Its mean over the shortest is
 * a / (a - 1) * (1 - h^(1 - a)) / (1 - h^-a). */
static double draw_tail(struct rng *r)
{
	const double a = tail_shape, h = tail_ratio, cut = 1 - fm_pow(h, -a);
	const double mean = a / (a - 1) * (1 - fm_pow(h, 1 - a)) / cut;
	return fm_pow(1 - rng_f64(r) * cut, -1 / a) / mean;
}

/* At least 1, of the given mean: 1 and a rest that is drawn. */
static int32_t draw_length(struct rng *r, const struct sim_recipe *c, int64_t mean)
{
	const double f = c->kind == SIM_HEAVY_TAIL ? draw_tail(r) : draw_exp(r);
	const double n = 1 + floor((double)(mean - 1) * f + rng_f64(r));
	return (int32_t)(n < (1 << 30) ? n : 1 << 30);
}

/* Client k sends in proportion to 1 / k: a few send much, many little. */
static uint64_t draw_client(struct rng *r, const double *sums, int64_t n)
{
	const double at = rng_f64(r) * sums[n - 1];
	int64_t lo = 0, hi = n - 1;

	while (lo < hi) {
		const int64_t mid = lo + (hi - lo) / 2;
		if (sums[mid] > at)
			hi = mid;
		else
			lo = mid + 1;
	}
	return (uint64_t)lo + 1;
}

struct arrivals {
	struct rng r;
	double at;
	int64_t n_left; /* of the burst */
};

/* Poisson: gaps are exponential. Bursts: a geometric number of requests, BURST_MEAN on average, comes BURST_SPEED times
 * as fast as the rate; the pauses between make up for it. */
static double next_arrival(struct arrivals *a, const struct sim_recipe *c)
{
	const double mean = 1 / c->rate;
	double gap = mean;

	if (c->kind == SIM_BURSTS) {
		gap = mean / BURST_SPEED;
		if (a->n_left-- <= 0) {
			gap = mean * (BURST_MEAN - (double)(BURST_MEAN - 1) / BURST_SPEED);
			a->n_left = (int64_t)floor(draw_exp(&a->r) / -fm_log(1 - 1.0 / BURST_MEAN));
		}
	}
	a->at += gap * draw_exp(&a->r);
	return floor(a->at * 1e6 + 0.5) / 1e6;
}

int sim_trace_make(const struct sim_recipe *c, struct sim_trace *t)
{
	struct arrivals a = {.at = 0};
	struct rng lengths, whose;
	double *sums = mem_alloc((size_t)c->clients, sizeof *sums);

	t->requests = mem_zalloc((size_t)c->n, sizeof *t->requests);
	if (!sums || !t->requests) {
		mem_free(sums);
		return out_of_memory(sim_prog);
	}
	t->n = t->n_max = (size_t)c->n;
	rng_init(&a.r, c->seed, 0);
	rng_init(&lengths, c->seed, 1);
	rng_init(&whose, c->seed, 2);
	for (int64_t k = 0; k < c->clients; k++)
		sums[k] = (k > 0 ? sums[k - 1] : 0) + 1.0 / (double)(k + 1);
	for (size_t i = 0; i < t->n; i++) {
		struct cohort_sim_request *q = &t->requests[i];
		q->arrival_s = next_arrival(&a, c);
		q->n_prompt = (int32_t)c->share + draw_length(&lengths, c, c->prompt - c->share);
		q->n_output = draw_length(&lengths, c, c->output);
		q->client = draw_client(&whose, sums, c->clients);
		q->n_shared = (int32_t)c->share;
		q->group = c->share > 0 ? q->client : 0;
	}
	mem_free(sums);
	return 0;
}
