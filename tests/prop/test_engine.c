/* The engine with the built-in model: what a request says is what it says alone, to the byte, whoever else is there.
 *
 * 200 requests of mixed lengths (some with several outputs, stops, sessions, shared beginnings, some cancelled on the
 * way) go through engines of every strategy, with all room there is and with so little that streams are parked, dropped
 * or swapped. Tokens, texts, log-probabilities and ends are compared with the plain loop of engine_case.h. */
#include "effort.h"
#include "engine_case.h"
#include "room_case.h"

#include "base/thread.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

enum { N_JOBS = 200, N_CLIENT_THREADS = 4, N_MOST = 100 };

static struct cohort_model *model;
static struct job *jobs;
static struct alone (*wanted)[JOB_OUTPUTS];

static int set_up(void **state)
{
	struct cohort_context_params cp;
	struct cohort_context *ctx;
	struct rng r;

	(void)state;
	model = engine_model();
	if (!model)
		return -1;
	cohort_context_params_init(&cp);
	cp.n_seq_max = 1;
	cp.n_ctx = 1024;
	cp.n_blocks = pool_blocks(cp.n_ctx, 0);
	if (cohort_context_open(model, &cp, &ctx, NULL))
		return -1;
	jobs = calloc(N_JOBS, sizeof *jobs);
	wanted = calloc(N_JOBS, sizeof *wanted);
	rng_init(&r, 7, 7);
	for (int i = 0; i < N_JOBS; i++) {
		job_make(&jobs[i], &r, model, N_MOST);
		for (int32_t k = 0; k < jobs[i].p.n_outputs; k++)
			alone_run(model, ctx, &jobs[i].p, k, &wanted[i][k]);
	}
	cohort_context_free(ctx);
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	free(jobs);
	free(wanted);
	cohort_model_free(model);
	return 0;
}

/* ---- Comparing ---- */

/* What was read of an output, event by event. */
struct heard {
	char text[8192];
	size_t n_bytes;
	int32_t n_tokens;
	bool ended;
};

/* Clients are threads of their own: cmocka's asserts cannot leave those. */
static void fail_job(int i, int32_t k, const char *what)
{
	fprintf(stderr, "# request %d, output %d: %s\n", i, k, what);
	abort();
}

static void expect(bool ok, int i, const char *what)
{
	if (!ok)
		fail_job(i, -1, what);
}

static void check_token(int i, const struct cohort_event *e, struct heard *h)
{
	const struct alone *a = &wanted[i][e->output];
	const int32_t n_top = jobs[i].p.n_logprobs > 0 ? jobs[i].p.n_logprobs : 0;

	if (e->index != h->n_tokens || e->index >= a->n_tokens || e->token != a->tokens[e->index])
		fail_job(i, e->output, "another token");
	if (jobs[i].p.chain_logprobs && memcmp(&e->chain_logprob, &a->chain[e->index], sizeof e->chain_logprob) != 0)
		fail_job(i, e->output, "another log-probability behind the chain");
	if (jobs[i].p.n_logprobs >= 0 && memcmp(&e->logprob, &a->logprobs[e->index], sizeof e->logprob) != 0)
		fail_job(i, e->output, "another log-probability");
	if (e->n_top != n_top || (n_top && memcmp(e->top, a->top[e->index], (size_t)n_top * sizeof *e->top) != 0))
		fail_job(i, e->output, "other likeliest tokens");
	h->n_tokens++;
}

static void check_end(int i, const struct cohort_event *e, struct heard *h)
{
	const struct alone *a = &wanted[i][e->output];

	h->ended = true;
	if (e->finish == COHORT_FINISH_CANCELLED) {
		if (jobs[i].cancel_after < 0)
			fail_job(i, e->output, "cancelled by nobody");
		return;
	}
	if (e->finish != a->finish)
		fail_job(i, e->output, cohort_finish_name(e->finish));
	if (h->n_tokens != a->n_tokens || h->n_bytes != a->n_bytes || memcmp(h->text, a->text, a->n_bytes) != 0)
		fail_job(i, e->output, "another text");
}

static void check_event(int i, const struct cohort_event *e, struct heard *heard)
{
	struct heard *h = &heard[e->output];

	if (e->kind == COHORT_EVENT_TOKEN)
		check_token(i, e, h);
	memcpy(h->text + h->n_bytes, e->text ? e->text : "", e->n_bytes);
	h->n_bytes += e->n_bytes;
	/* What is held back as the beginning of a stop string is shown when somebody cancels. */
	if (e->finish != COHORT_FINISH_CANCELLED &&
			(h->n_bytes > wanted[i][e->output].n_bytes ||
					memcmp(h->text, wanted[i][e->output].text, h->n_bytes) != 0))
		fail_job(i, e->output, "shown what is not its text");
	if (e->kind == COHORT_EVENT_END)
		check_end(i, e, h);
}

/* ---- Clients ---- */

struct client {
	struct thread thread;
	struct cohort_engine *engine;
	int first;
};

/* Reads a request to its end. */
static void read_job(int i, struct cohort_request *request)
{
	struct heard *heard = calloc(JOB_OUTPUTS, sizeof *heard);
	int32_t n_tokens = 0;
	struct cohort_event e;
	bool prompt = false;

	if (jobs[i].cancel_after == 0)
		cohort_request_cancel(request);
	do {
		expect(!cohort_request_next(request, -1, &e, NULL), i, "next");
		if (e.kind == COHORT_EVENT_PROMPT)
			prompt = true;
		else if (e.kind != COHORT_EVENT_DONE)
			check_event(i, &e, heard);
		if (e.kind == COHORT_EVENT_TOKEN && ++n_tokens == jobs[i].cancel_after)
			cohort_request_cancel(request);
	} while (e.kind != COHORT_EVENT_DONE);
	for (int32_t k = 0; k < jobs[i].p.n_outputs; k++) {
		struct cohort_output o;
		expect(heard[k].ended, i, "an output without an end");
		expect(!cohort_request_output_get(request, k, &o, NULL), i, "no output");
		expect(o.n_tokens == heard[k].n_tokens && o.n_bytes == heard[k].n_bytes, i, "another length");
		expect(memcmp(o.text, heard[k].text, o.n_bytes) == 0, i, "another whole text");
	}
	if (jobs[i].cancel_after < 0)
		expect(prompt == jobs[i].p.prompt_logprobs, i, "log-probabilities of the prompt");
	expect(!cohort_request_next(request, -1, &e, NULL), i, "next");
	expect(e.kind == COHORT_EVENT_NONE, i, "something after the end");
	free(heard);
}

/* Some requests at a time, as a program with some users would. */
static void client_run(void *arg)
{
	struct client *c = arg;
	enum { N_AT_ONCE = 10 };
	struct cohort_request *open[N_AT_ONCE];

	for (int i = c->first; i < N_JOBS; i += N_CLIENT_THREADS * N_AT_ONCE) {
		int n = 0;
		for (int k = i; k < N_JOBS && n < N_AT_ONCE; k += N_CLIENT_THREADS, n++)
			expect(!cohort_engine_submit(c->engine, &jobs[k].p, &open[n], NULL), k, "refused");
		for (int k = 0; k < n; k++) {
			read_job(i + k * N_CLIENT_THREADS, open[k]);
			cohort_request_free(open[k]);
		}
	}
}

static void run_all(const struct cohort_engine_params *p, struct cohort_engine_stats *stats)
{
	struct client clients[N_CLIENT_THREADS];
	struct cohort_engine *engine;
	struct cohort_err err;
	bool clean;

	if (cohort_engine_open(model, p, &engine, &err))
		fail_msg("%s", err.text);
	for (int i = 0; i < N_CLIENT_THREADS; i++) {
		clients[i] = (struct client){.engine = engine, .first = i};
		assert_true(thread_start(&clients[i].thread, "test", client_run, &clients[i]));
	}
	for (int i = 0; i < N_CLIENT_THREADS; i++)
		thread_join(&clients[i].thread);
	assert_int_equal(cohort_engine_drain(engine, 10, &clean, NULL), COHORT_OK);
	assert_true(clean);
	cohort_engine_stats_get(engine, stats);
	cohort_engine_free(engine);
	assert_int_equal(stats->n_submitted, N_JOBS);
	assert_int_equal(stats->n_ended[COHORT_FINISH_ERROR], 0);
	assert_int_equal(stats->n_fallbacks, 0);
	assert_int_equal(stats->last.n_idle, p->n_slots);
	assert_int_equal(stats->last.n_blocks_used, 0);
}

/* Every third strategy from `first` on, or all of them in a long run. */
static void run_strategies(struct cohort_engine_params *p, size_t first, struct cohort_engine_stats *sum)
{
	for (size_t i = 0; i < cohort_strategy_count(); i++) {
		struct cohort_engine_stats stats;
		if (i % 3 != first && !effort_is("long"))
			continue;
		p->strategy = cohort_strategy_get(i);
		run_all(p, &stats);
		sum->n_parked += stats.n_parked;
		sum->n_swapped += stats.n_swapped;
		sum->n_resumed += stats.n_resumed;
		sum->n_evicted += stats.n_evicted;
		sum->n_cached_tokens += stats.n_cached_tokens;
	}
}

static void params_make(struct cohort_engine_params *p)
{
	cohort_engine_params_init(p);
	p->n_slots = 12;
	p->context.n_ctx = 8192;
	p->context.n_blocks = pool_blocks(p->context.n_ctx, 0);
	p->context.n_batch = 96;
	p->context.n_ubatch = 64;
	p->chunk_size = 48;
	p->queue_requests_max = N_JOBS;
}

static void room_for_all(void **state)
{
	struct cohort_engine_params p;
	struct cohort_engine_stats sum = {0};

	(void)state;
	params_make(&p);
	for (size_t i = 0; i < (effort_is("long") ? 1 : 3); i++)
		run_strategies(&p, i, &sum);
	assert_int_equal(sum.n_parked, 0);
	assert_true(sum.n_cached_tokens > 500);
}

/* So little room that streams are parked. */
static struct cohort_engine_stats run_crowded(size_t first, size_t swap_bytes, bool no_reuse)
{
	struct cohort_engine_params p;
	struct cohort_engine_stats sum = {0};

	params_make(&p);
	p.context.n_ctx = 224;
	p.context.n_blocks = pool_blocks(p.context.n_ctx, 0);
	p.room = COHORT_ROOM_OVERCOMMIT;
	p.swap_bytes = swap_bytes;
	p.no_reuse = no_reuse;
	run_strategies(&p, first, &sum);
	assert_true(sum.n_parked > 20);
	assert_true(sum.n_resumed > 20);
	return sum;
}

static void parked_and_dropped(void **state)
{
	(void)state;
	const struct cohort_engine_stats sum = run_crowded(0, 0, false);
	assert_int_equal(sum.n_swapped, 0);
	assert_true(sum.n_evicted > 20);
}

static void parked_and_swapped(void **state)
{
	(void)state;
	assert_true(run_crowded(1, (size_t)64 << 20, false).n_swapped > 5);
}

static void nothing_reused(void **state)
{
	(void)state;
	assert_int_equal(run_crowded(2, 0, true).n_cached_tokens, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
			cmocka_unit_test(room_for_all),
			cmocka_unit_test(parked_and_dropped),
			cmocka_unit_test(parked_and_swapped),
			cmocka_unit_test(nothing_reused),
	};
	return cmocka_run_group_tests_name("engine", tests, set_up, tear_down);
}
