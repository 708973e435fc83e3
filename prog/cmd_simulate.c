/* cohort simulate: a trace of requests through the engine's own queue, strategies and cache books, under a clock that a
 * measured cost moves. For choosing a strategy, slots and sizes before there is a machine to try them on.
 *
 * What holds:
 *  1. Every strategy gets the same trace, costs and settings, one after the other.
 *  2. What was asked for and cannot be used is said before anything is simulated; files are written at the end, each
 *     whole or not at all.
 *  3. The table is all that goes to standard output. */
#include "cmd.h"
#include "common.h"
#include "opt.h"
#include "sim.h"

#include "base/mem.h"
#include "base/pool.h"

#include <string.h>

/* One that is simulated. */
struct entry {
	const struct cohort_strategy *strategy;
	struct cohort_strategy_file *file; /* NULL: built in */
	char *name; /* as shown */
};

struct job {
	struct sim_options c;
	struct cohort_sim_params p;
	struct sim_trace trace;
	struct sim_cost cost;
	struct entry *entries; /* [n] */
	struct sim_result *results; /* [n] */
	struct cohort_sim_outcome *outcomes; /* [trace.n] */
	size_t n;
	char *about_trace;
	/* Of the run that goes on. */
	size_t i_run;
	double started, shown;
};

/* ---- Strategies ---- */

static int unknown_strategy(const char *name)
{
	const char *names[64];
	size_t n = 0;

	for (; n < 64 && cohort_strategy_get(n); n++)
		names[n] = cohort_strategy_get(n)->name;
	const char *near = opt_nearest(name, names, n);
	fprintf(stderr, "%s: strategy '%s' is not known%s%s%s; known:", sim_prog, name, near ? " (did you mean '" : "",
			near ? near : "", near ? "'?)" : "");
	for (size_t i = 0; i < n; i++)
		fprintf(stderr, "%s %s", i > 0 ? "," : "", names[i]);
	fprintf(stderr, "; or FILE.so[:NAME]\nTry '%s --help'.\n", sim_prog);
	return EXIT_USAGE;
}

/* FILE.so or FILE.so:NAME. */
static int load_strategy(const char *spec, struct entry *e)
{
	struct cohort_err err;
	const char *so = strstr(spec, ".so:"), *name = so ? so + 4 : NULL;
	char *path = mem_strndup(spec, so ? (size_t)(so + 3 - spec) : strlen(spec));

	if (!path)
		return out_of_memory(sim_prog);
	const enum cohort_status st = cohort_strategy_open(path, name, &e->file, &e->strategy, &err);
	mem_free(path);
	if (st)
		fprintf(stderr, "%s: %s\n", sim_prog, err.text);
	return !st ? 0 : st == COHORT_E_ARG ? EXIT_USAGE : st == COHORT_E_MEMORY ? EXIT_RUN : EXIT_FILE;
}

static int choose_strategies(struct job *j)
{
	const struct opt_list *asked = &j->c.strategies;
	const size_t n = asked->n ? asked->n : cohort_strategy_count();

	j->entries = mem_zalloc(n, sizeof *j->entries);
	j->results = mem_zalloc(n, sizeof *j->results);
	if (!j->entries || !j->results)
		return out_of_memory(sim_prog);
	for (size_t i = 0; i < n; i++) {
		struct entry *e = &j->entries[j->n++];
		const char *spec = asked->n ? asked->items[i] : NULL;
		int rc = 0;
		if (!spec)
			e->strategy = cohort_strategy_get(i);
		else if (strchr(spec, '/') || strstr(spec, ".so"))
			rc = load_strategy(spec, e);
		else if (!(e->strategy = cohort_strategy_find(spec)))
			rc = unknown_strategy(spec);
		if (rc)
			return rc;
		e->name = printable(e->strategy->name);
		if (!e->name)
			return out_of_memory(sim_prog);
		j->results[i].name = e->name;
	}
	return 0;
}

/* ---- Settings ---- */

static bool on_abort(void *user)
{
	struct job *j = user;
	const struct cohort_sim_totals *t = &j->results[j->i_run].totals;
	const double now = clock_now();

	if (now - j->shown > 0.1) {
		j->shown = now;
		progress_line(j->started, "%s (%zu of %zu): %llu of %zu requests, %.1f s simulated",
				j->entries[j->i_run].name, j->i_run + 1, j->n,
				(unsigned long long)(t->n_done + t->n_refused), j->trace.n, t->now_s);
	}
	return interrupted();
}

static void set_params(struct job *j)
{
	const struct sim_options *c = &j->c;
	struct cohort_sim_params *p = &j->p;
	const int64_t ctx = c->ctx_given ? c->ctx : 1024 * c->slots;

	cohort_sim_params_init(p);
	p->n_slots = (int32_t)c->slots;
	p->n_ctx = (int32_t)ctx;
	p->n_pos_max = (int32_t)c->seq_max;
	p->n_batch = (int32_t)c->batch;
	p->n_ubatch = (int32_t)(c->ubatch < c->batch ? c->ubatch : c->batch);
	p->budget = (int32_t)c->budget;
	p->chunk_size = (int32_t)c->chunk;
	p->queue_requests_max = (int32_t)c->queue;
	p->queue_tokens_max = c->queue_tokens;
	p->wait_max_s = c->wait_max;
	p->room = strcmp(c->room, "overcommit") == 0 ? COHORT_ROOM_OVERCOMMIT : COHORT_ROOM_RESERVE;
	p->no_reuse = c->no_reuse;
	p->cost_s = sim_cost_s;
	p->cost_user = &j->cost;
	p->abort = on_abort;
	p->abort_user = j;
}

/* ---- Trace and costs ---- */

static int get_trace(struct job *j)
{
	const struct sim_options *c = &j->c;
	const struct sim_recipe *r = &c->recipe;
	int rc = c->trace ? sim_trace_load(c->trace, &j->trace) : sim_trace_make(r, &j->trace);
	char text[512];

	if (rc)
		return rc;
	if (c->trace)
		snprintf(text, sizeof text, "%.300s, %zu requests", c->trace, j->trace.n);
	else
		snprintf(text, sizeof text,
				"%s, %zu requests at %g/s, prompts of %lld tokens and outputs of %lld on average, "
				"%lld clients, %lld tokens shared, seed %llu",
				sim_kind_name(r->kind), j->trace.n, r->rate, (long long)r->prompt, (long long)r->output,
				(long long)r->clients, (long long)r->share, (unsigned long long)r->seed);
	j->about_trace = printable(text);
	j->outcomes = mem_alloc(j->trace.n, sizeof *j->outcomes);
	if (!j->about_trace || !j->outcomes)
		return out_of_memory(sim_prog);
	return c->save_trace ? sim_trace_save(c->save_trace, &j->trace) : 0;
}

static int get_cost(struct job *j)
{
	const struct sim_options *c = &j->c;
	const struct sim_measure m = {
			.model = c->model,
			.device = c->device,
			.n_slots = (int32_t)c->slots,
			.n_ubatch = j->p.n_ubatch,
			.n_threads = thread_count(c->threads_given, c->threads),
			.rounds = (int32_t)c->rounds,
			.depth = (int32_t)c->depth,
	};
	int rc;

	if (c->cost)
		return sim_cost_load(c->cost, &j->cost);
	if (!c->measure && !c->model)
		fprintf(stderr, "%s: no -cost: measuring the built-in model on this machine\n", sim_prog);
	rc = sim_cost_measure(&m, &j->cost);
	if (!rc && c->save_cost)
		rc = sim_cost_save(c->save_cost, &j->cost);
	return rc;
}

/* ---- The command ---- */

static int simulate(struct job *j, size_t i)
{
	struct sim_result *r = &j->results[i];
	struct cohort_err err;
	const double began = clock_now();

	j->i_run = i;
	j->p.strategy = j->entries[i].strategy;
	const enum cohort_status st =
			cohort_simulate(&j->p, j->trace.requests, j->trace.n, j->outcomes, &r->totals, &err);
	progress_end();
	r->wall_s = clock_now() - began;
	if (st)
		return st == COHORT_ABORTED ? EXIT_INTERRUPTED : fail(sim_prog, &err);
	return sim_result_fill(r, &j->trace, j->outcomes);
}

static int report(const struct job *j)
{
	const struct sim_setting s = {&j->p, &j->trace, &j->cost, j->about_trace};
	int rc;

	for (size_t i = 0; i < j->n; i++)
		if (j->results[i].totals.n_fallbacks)
			fprintf(stderr, "%s: note: %llu plans of '%s' broke a rule; the default planned those ticks\n",
					sim_prog, (unsigned long long)j->results[i].totals.n_fallbacks,
					j->entries[i].name);
	sim_report_table(&s, j->results, j->n);
	rc = close_stdout(sim_prog);
	if (!rc && j->c.json)
		rc = sim_report_json(j->c.json, &s, j->results, j->n);
	if (!rc && j->c.svg)
		rc = sim_report_svg(j->c.svg, &s, j->results, j->n);
	return rc;
}

static int run(struct job *j)
{
	int rc = choose_strategies(j);

	if (rc)
		return rc;
	catch_signals();
	set_params(j);
	rc = get_trace(j);
	if (!rc)
		rc = get_cost(j);
	j->started = clock_now();
	for (size_t i = 0; i < j->n && !rc; i++)
		rc = simulate(j, i);
	if (rc == EXIT_INTERRUPTED)
		fprintf(stderr, "%s: interrupted\n", sim_prog);
	return rc ? rc : report(j);
}

static void cleanup(struct job *j)
{
	for (size_t i = 0; i < j->n; i++) {
		sim_result_release(&j->results[i]);
		cohort_strategy_file_free(j->entries[i].file);
		mem_free(j->entries[i].name);
	}
	mem_free(j->entries);
	mem_free(j->results);
	mem_free(j->outcomes);
	mem_free(j->about_trace);
	sim_trace_release(&j->trace);
}

int cmd_simulate(int argc, char **argv)
{
	struct job j = {.n = 0};
	int rc = sim_options_get(argc, argv, &j.c);

	if (rc)
		return rc - 1;
	rc = run(&j);
	cleanup(&j);
	return rc;
}
