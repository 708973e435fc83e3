/* The simulation at the size it is made for: 100,000 requests over 4,096 slots under the default strategy, in bursts
 * that a short queue refuses a part of and a long one takes. Every request ends once, all sums come out, times are in
 * order, and a second run is the first one again, tick for tick and bit for bit.
 *
 * Shown red by planted faults: a token too many for one request in 10,000, an end in 50,000 that is counted twice,
 * gaps that are counted for first tokens, too (short_queue_refuses_bursts and large_simulation_serves_all, each), a
 * queue one longer than it may be (short_queue_refuses_bursts), first tokens timed from the start of the trace
 * (simulated_times_are_in_order), a clock that begins 10^-12 s later in every run (large_simulation_is_repeatable). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "cohort_engine.h"

enum { N = 100000, N_SLOTS = 4096, N_CLIENTS = 50, BURST = 10000 };

/* Every tick, as one number. */
struct seen {
	uint64_t hash;
	int32_t n_busy_max; /* slots at once */
	bool over_budget;
};

static struct cohort_sim_request *requests; /* [N] */
static struct cohort_sim_outcome *outcomes, *again; /* [N] */
static struct cohort_sim_totals totals, totals_again;
static struct cohort_sim_params params;
static struct seen seen, seen_again;

static double cost_s(void *user, int32_t n_prefill, int32_t n_decode)
{
	(void)user;
	return 0.004 + 2e-5 * n_prefill + 5e-6 * n_decode;
}

static void mix(uint64_t *hash, const void *bytes, size_t n)
{
	const unsigned char *b = bytes;

	for (size_t i = 0; i < n; i++) /* FNV-1a */
		*hash = (*hash ^ b[i]) * 0x100000001b3;
}

static void on_tick(const struct cohort_tick *t, void *user)
{
	struct seen *s = user;
	const int32_t n[] = {t->n_decode_rows, t->n_prefill_rows, t->n_sampled, t->n_idle, t->n_prefilling,
			t->n_generating, t->n_parked, t->n_queued, t->n_blocks_used, t->n_blocks_cached,
			t->n_blocks_free};
	const double times[] = {t->at_s, t->total_s, t->decode_s};

	mix(&s->hash, n, sizeof n);
	mix(&s->hash, times, sizeof times);
	s->over_budget |= t->n_decode_rows + t->n_prefill_rows > params.budget;
	if (N_SLOTS - t->n_idle > s->n_busy_max)
		s->n_busy_max = N_SLOTS - t->n_idle;
}

/* Bursts in a quarter of a second, then some seconds of rest; one request in a hundred is ten times as long;
 * half of them begin like others of their group. */
static void make_trace(void)
{
	struct rng r;
	double at = 0;

	rng_init(&r, 2024, 1);
	for (size_t i = 0; i < N; i++) {
		const bool tail = rng_f64(&r) < 0.01;
		struct cohort_sim_request *q = &requests[i];
		at += i % BURST == BURST - 1 ? 15.0 : -log(1 - rng_f64(&r)) * 0.25 / BURST;
		const int32_t n_prompt = 8 + (int32_t)(rng_f64(&r) * 90) * (tail ? 10 : 1);
		*q = (struct cohort_sim_request){
				.arrival_s = at,
				.n_prompt = n_prompt,
				.n_output = 1 + (int32_t)(rng_f64(&r) * 100) * (tail ? 10 : 1),
				.client = rng_u32(&r) % N_CLIENTS,
				.priority = (int32_t)(rng_u32(&r) % 2),
				.group = rng_u32(&r) % 40,
				.n_shared = i % 2 ? n_prompt / 2 : 0,
		};
	}
}

static void simulate(struct cohort_sim_outcome *o, struct cohort_sim_totals *t, struct seen *s)
{
	struct cohort_err err;

	*s = (struct seen){.hash = 0xcbf29ce484222325};
	params.on_tick_user = s;
	if (cohort_simulate(&params, requests, N, o, t, &err))
		fail_msg("%s", err.text);
}

static int set_up(void **state)
{
	(void)state;
	requests = calloc(N, sizeof *requests);
	outcomes = calloc(N, sizeof *outcomes);
	again = calloc(N, sizeof *again);
	if (!requests || !outcomes || !again)
		return -1;
	make_trace();
	cohort_sim_params_init(&params);
	params.n_slots = N_SLOTS;
	params.n_ctx = 1 << 20;
	params.n_pos_max = 2048;
	params.n_batch = params.budget = 8192;
	params.n_ubatch = 2048;
	params.queue_tokens_max = 1 << 30;
	params.cost_s = cost_s;
	params.on_tick = on_tick;
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	free(requests);
	free(outcomes);
	free(again);
	return 0;
}

/* Every request was refused or has said all it had to, once. */
static void check_sums(void)
{
	uint64_t n_done = 0, n_refused = 0, n_tokens = 0, n_prompt = 0, n_cached = 0, n_gaps = 0;

	for (size_t i = 0; i < N; i++) {
		const struct cohort_sim_outcome *o = &outcomes[i];
		if (o->refused) {
			n_refused++;
			assert_int_equal(o->finish, COHORT_FINISH_NONE);
			assert_int_equal(o->n_generated, 0);
			assert_true(o->queued_s < 0 && o->first_token_s < 0 && o->end_s < 0);
			continue;
		}
		n_done++;
		assert_int_equal(o->finish, COHORT_FINISH_LENGTH);
		assert_int_equal(o->n_generated, requests[i].n_output);
		/* The last token of a prompt is always computed. */
		assert_true(o->n_cached >= 0 && o->n_cached < requests[i].n_prompt);
		assert_int_equal(o->n_parked, 0);
		n_tokens += (uint64_t)o->n_generated;
		n_prompt += (uint64_t)requests[i].n_prompt;
		n_cached += (uint64_t)o->n_cached;
	}
	/* Ends are counted as they are told: as many as there are requests, and one for each. */
	assert_int_equal(totals.n_done, n_done);
	assert_int_equal(totals.n_refused, n_refused);
	assert_int_equal(n_done + n_refused, N);
	assert_int_equal(totals.n_tokens, n_tokens);
	assert_int_equal(totals.n_prompt_tokens, n_prompt);
	assert_int_equal(totals.n_cached_tokens, n_cached);
	/* A row for every token of a prompt that was not reused, and for every token but the last of an output. */
	assert_int_equal(totals.n_prefill_rows, n_prompt - n_cached);
	assert_int_equal(totals.n_decode_rows, n_tokens - n_done);
	for (size_t b = 0; b < COHORT_SIM_BINS; b++)
		n_gaps += totals.gaps[b];
	assert_int_equal(n_gaps, n_tokens - n_done);
	assert_int_equal(totals.n_fallbacks, 0);
	/* All slots at once (they are counted when the last tokens of a tick have freed some), and a cache that helps.
	 */
	assert_true(seen.n_busy_max > N_SLOTS - N_SLOTS / 64);
	assert_true(n_cached > 0);
	assert_false(seen.over_budget);
}

/* A queue that is too short for the bursts: many are refused, the others fare as they should. */
static void short_queue_refuses_bursts(void **state)
{
	(void)state;
	params.queue_requests_max = N_SLOTS;
	simulate(outcomes, &totals, &seen);
	check_sums();
	assert_int_equal(totals.n_queued_max, N_SLOTS);
	assert_true(totals.n_refused > N / 20 && totals.n_refused < N / 2);
}

/* With room for all of them every one is served. The tests below look at this run. */
static void large_simulation_serves_all(void **state)
{
	(void)state;
	params.queue_requests_max = N;
	simulate(outcomes, &totals, &seen);
	check_sums();
	assert_int_equal(totals.n_done, N);
	assert_true(totals.n_queued_max > N_SLOTS);
}

/* ---- Times ---- */

static int by_value(const void *a, const void *b)
{
	const double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

/* In the life of each request, and therefore at every percentile: waiting, first token, end. */
static void simulated_times_are_in_order(void **state)
{
	static const double quantiles[] = {0.01, 0.1, 0.5, 0.9, 0.99, 1};
	double *queued = calloc(N, sizeof *queued), *first = calloc(N, sizeof *first), *end = calloc(N, sizeof *end);
	double gap_max_s = 0, last_s = 0, before = 0;
	size_t n = 0;

	(void)state;
	assert_true(queued && first && end);
	for (size_t i = 0; i < N; i++) {
		const struct cohort_sim_outcome *o = &outcomes[i];
		if (o->refused)
			continue;
		assert_true(o->queued_s >= 0 && o->queued_s < o->first_token_s && o->first_token_s <= o->end_s);
		assert_true((o->n_generated > 1) == (o->end_s > o->first_token_s));
		assert_true(o->gap_max_s <= o->end_s - o->first_token_s + 1e-9);
		assert_true((double)(o->n_generated - 1) * o->gap_max_s >= o->end_s - o->first_token_s - 1e-9);
		gap_max_s = fmax(gap_max_s, o->gap_max_s);
		last_s = fmax(last_s, requests[i].arrival_s + o->end_s);
		queued[n] = o->queued_s;
		first[n] = o->first_token_s;
		end[n++] = o->end_s;
	}
	assert_true(gap_max_s == totals.gap_max_s);
	assert_true(fabs(last_s - totals.now_s) < 1e-6 && totals.busy_s <= totals.now_s);
	qsort(queued, n, sizeof *queued, by_value);
	qsort(first, n, sizeof *first, by_value);
	qsort(end, n, sizeof *end, by_value);
	for (size_t k = 0; k < sizeof quantiles / sizeof *quantiles; k++) {
		const size_t at = (size_t)(quantiles[k] * (double)(n - 1));
		assert_true(queued[at] < first[at] && first[at] <= end[at]);
	}
	/* Times between tokens: the percentiles rise, to the longest of all, which its bin holds. */
	uint64_t n_gaps = 0;
	for (int32_t b = 0, k = 0; b < COHORT_SIM_BINS; b++) {
		n_gaps += totals.gaps[b];
		while (k < 6 && (double)n_gaps >= quantiles[k] * (double)(totals.n_tokens - totals.n_done)) {
			const double s = cohort_sim_bin_s(b);
			assert_true(s >= before && s <= gap_max_s * (1 + 1.0 / 64));
			before = s;
			k++;
		}
	}
	assert_true(before >= gap_max_s * (1 - 1.0 / 64));
	free(queued);
	free(first);
	free(end);
}

/* ---- Again ---- */

static bool same_bits(double a, double b)
{
	return memcmp(&a, &b, sizeof a) == 0;
}

static void large_simulation_is_repeatable(void **state)
{
	(void)state;
	simulate(again, &totals_again, &seen_again);
	assert_int_equal(seen_again.hash, seen.hash);
	for (size_t i = 0; i < N; i++) {
		const struct cohort_sim_outcome *a = &outcomes[i], *b = &again[i];
		assert_true(a->finish == b->finish && a->refused == b->refused);
		assert_true(a->n_generated == b->n_generated && a->n_cached == b->n_cached &&
				a->n_parked == b->n_parked);
		assert_true(same_bits(a->queued_s, b->queued_s) && same_bits(a->first_token_s, b->first_token_s));
		assert_true(same_bits(a->end_s, b->end_s) && same_bits(a->gap_max_s, b->gap_max_s));
	}
	const struct cohort_sim_totals *a = &totals, *b = &totals_again;
	assert_true(same_bits(a->now_s, b->now_s) && same_bits(a->busy_s, b->busy_s));
	assert_true(same_bits(a->gap_max_s, b->gap_max_s));
	assert_true(a->n_ticks == b->n_ticks && a->n_ubatches == b->n_ubatches && a->n_tokens == b->n_tokens);
	assert_true(a->n_prefill_rows == b->n_prefill_rows && a->n_decode_rows == b->n_decode_rows);
	assert_true(a->n_cached_tokens == b->n_cached_tokens && a->n_prompt_tokens == b->n_prompt_tokens);
	assert_true(a->n_done == b->n_done && a->n_refused == b->n_refused && a->n_queued_max == b->n_queued_max);
	assert_memory_equal(a->gaps, b->gaps, sizeof a->gaps);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
			cmocka_unit_test(short_queue_refuses_bursts),
			cmocka_unit_test(large_simulation_serves_all),
			cmocka_unit_test(simulated_times_are_in_order),
			cmocka_unit_test(large_simulation_is_repeatable),
	};
	return cmocka_run_group_tests_name("simulate_large", tests, set_up, tear_down);
}
