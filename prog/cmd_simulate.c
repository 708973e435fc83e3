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

const char sim_prog[] = "cohort simulate";

struct config {
	const char *trace, *kind, *save_trace, *cost, *model, *save_cost, *room, *svg, *json;
	struct opt_list strategies;
	struct sim_recipe recipe;
	int64_t slots, ctx, seq_max, batch, ubatch, budget, chunk, queue, queue_tokens;
	int64_t threads, rounds, depth;
	double wait_max;
	bool measure, recipe_given, measure_given, ctx_given, threads_given, no_reuse;
};

/* One that is simulated. */
struct entry {
	const struct cohort_strategy *strategy;
	struct cohort_strategy_file *file; /* NULL: built in */
	char *name;                        /* as shown */
};

struct job {
	struct config c;
	struct cohort_sim_params p;
	struct sim_trace trace;
	struct sim_cost cost;
	struct entry *entries;       /* [n] */
	struct sim_result *results;  /* [n] */
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

static int choose_kind(struct config *c)
{
	const char *name;

	for (int i = 0; (name = sim_kind_name((enum sim_kind)i)); i++)
		if (strcmp(name, c->kind) == 0) {
			c->recipe.kind = (enum sim_kind)i;
			return 0;
		}
	return bad_usage(sim_prog, "-generate expects poisson, bursts or heavy-tail, got '%s'", c->kind);
}

static int check(struct config *c)
{
	if (c->trace && (c->recipe_given || c->kind))
		return bad_usage(sim_prog, "-trace has its requests: options of generated ones go without it");
	if (c->cost && (c->measure || c->model || c->measure_given || c->save_cost))
		return bad_usage(sim_prog, "-cost has its costs: options of measuring go without it");
	if (!c->trace && c->recipe.share >= c->recipe.prompt)
		return bad_usage(sim_prog, "-share %lld must be less than the mean prompt of %lld tokens",
				(long long)c->recipe.share, (long long)c->recipe.prompt);
	if (c->budget > c->batch)
		return bad_usage(sim_prog, "-budget %lld is more than the %lld rows of -batch", (long long)c->budget,
				(long long)c->batch);
	if (strcmp(c->room, "reserve") != 0 && strcmp(c->room, "overcommit") != 0)
		return bad_usage(sim_prog, "-room expects reserve or overcommit, got '%s'", c->room);
	return c->kind ? choose_kind(c) : 0;
}

static bool on_abort(void *user)
{
	struct job *j = user;
	const struct cohort_sim_totals *t = &j->results[j->i_run].totals;
	const double now = clock_now();

	if (now - j->shown > 0.1) {
		j->shown = now;
		progress_line(j->started, "%s (%zu of %zu): %llu of %zu requests, %.1f s simulated", j->entries[j->i_run].name,
				j->i_run + 1, j->n, (unsigned long long)(t->n_done + t->n_refused), j->trace.n, t->now_s);
	}
	return interrupted();
}

static void set_params(struct job *j)
{
	const struct config *c = &j->c;
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
	const struct config *c = &j->c;
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
	const struct config *c = &j->c;
	const struct sim_measure m = {
			.model = c->model,
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
	if (st == COHORT_ABORTED)
		fprintf(stderr, "%s: interrupted\n", sim_prog);
	else if (st)
		return fail(sim_prog, &err);
	return st ? EXIT_INTERRUPTED : sim_result_fill(r, &j->trace, j->outcomes);
}

static int report(const struct job *j)
{
	const struct sim_setting s = {&j->p, &j->trace, &j->cost, j->about_trace};
	int rc;

	for (size_t i = 0; i < j->n; i++)
		if (j->results[i].totals.n_fallbacks)
			fprintf(stderr, "%s: note: %llu plans of strategy '%s' broke a rule; the default planned those ticks\n",
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
	int rc = check(&j->c);

	if (!rc)
		rc = choose_strategies(j);
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

static int parse(struct config *c, int argc, char **argv)
{
	bool *made = &c->recipe_given, *measured = &c->measure_given;
	const struct opt opts[] = {
		{"trace", NULL, OPT_STR, &c->trace, 0, 0, "FILE", "requests from a CSV file (see below)", NULL},
		{"generate", NULL, OPT_STR, &c->kind, 0, 0, "KIND",
				"requests made up: poisson (default), bursts or heavy-tail", NULL},
		{"rate", NULL, OPT_FLOAT, &c->recipe.rate, 1e-6, 1e6, "R", "requests per second (default: 8)", made},
		{"requests", "n", OPT_INT, &c->recipe.n, 1, SIM_REQUESTS_MAX, "N", "how many (default: 1000)", made},
		{"prompt", NULL, OPT_INT, &c->recipe.prompt, 1, 1 << 24, "N", "mean tokens of prompts (default: 128)", made},
		{"output", NULL, OPT_INT, &c->recipe.output, 1, 1 << 24, "N", "mean tokens of outputs (default: 64)", made},
		{"clients", NULL, OPT_INT, &c->recipe.clients, 1, 1 << 20, "N",
				"who sends them: client k in proportion to 1/k (default: 4)", made},
		{"share", NULL, OPT_INT, &c->recipe.share, 0, 1 << 24, "N",
				"tokens that all prompts of a client begin with (default: 0)", made},
		{"seed", "s", OPT_UINT64, &c->recipe.seed, 0, 0, "N", "of the made-up requests (default: 0)", made},
		{"save-trace", NULL, OPT_STR, &c->save_trace, 0, 0, "FILE", "write the requests as CSV", NULL},
		{"strategy", NULL, OPT_LIST, &c->strategies, 0, 0, "NAME",
				"a strategy, or FILE.so[:NAME]; may be given again (default: all built in)", NULL},
		{"slots", NULL, OPT_INT, &c->slots, 1, 1 << 16, "N", "sequences at once (default: 16)", NULL},
		{"ctx", "c", OPT_INT, &c->ctx, 1, 1 << 30, "N", "tokens the KV cache holds (default: 1024 per slot)",
				&c->ctx_given},
		{"seq-max", NULL, OPT_INT, &c->seq_max, 1, 1 << 30, "N",
				"tokens of one sequence at most (default: as -ctx)", NULL},
		{"batch", "b", OPT_INT, &c->batch, 1, 1 << 20, "N", "rows of a tick at most (default: 512)", NULL},
		{"ubatch", "ub", OPT_INT, &c->ubatch, 1, 1 << 20, "N", "rows computed together (default: 128)", NULL},
		{"budget", NULL, OPT_INT, &c->budget, 1, 1 << 20, "N", "rows a strategy may plan (default: as -batch)", NULL},
		{"chunk", NULL, OPT_INT, &c->chunk, 1, 1 << 20, "N", "rows of one prompt in a tick (default: 512)", NULL},
		{"room", NULL, OPT_STR, &c->room, 0, 0, "HOW",
				"cache room: reserve (default) all at once, or overcommit and park", NULL},
		{"no-reuse", NULL, OPT_FLAG, &c->no_reuse, 0, 0, NULL, "no prompt's tokens are kept for others", NULL},
		{"queue", NULL, OPT_INT, &c->queue, 0, 1 << 30, "N", "requests that may wait (default: 1024)", NULL},
		{"queue-tokens", NULL, OPT_INT, &c->queue_tokens, 0, 1e15, "N",
				"tokens of their prompts together (default: 1048576)", NULL},
		{"wait-max", NULL, OPT_FLOAT, &c->wait_max, 0, 1e9, "S",
				"who has waited so long goes first (default: 30)", NULL},
		{"cost", NULL, OPT_STR, &c->cost, 0, 0, "FILE", "costs from a file that -save-cost wrote", NULL},
		{"measure", NULL, OPT_FLAG, &c->measure, 0, 0, NULL, "measure the costs of a model here (default)", NULL},
		{"model", "m", OPT_STR, &c->model, 0, 0, "FILE", "the model to measure (default: the built-in one)", NULL},
		{"threads", "t", OPT_INT, &c->threads, 1, 1024, "N",
				"compute threads (default: 4, or the CPUs there are)", &c->threads_given},
		{"rounds", "r", OPT_INT, &c->rounds, 1, 1000, "N", "measure each point N times (default: 5)", measured},
		{"depth", NULL, OPT_INT, &c->depth, 0, 1 << 20, "N",
				"tokens that generating sequences hold meanwhile (default: 64)", measured},
		{"save-cost", NULL, OPT_STR, &c->save_cost, 0, 0, "FILE", "write the measured costs as JSON", NULL},
		{"json", NULL, OPT_STR, &c->json, 0, 0, "FILE", "write the results as JSON", NULL},
		{"svg", NULL, OPT_STR, &c->svg, 0, 0, "FILE", "write the results as a picture", NULL},
	};
	const struct opt_prog p = {
			sim_prog,
			"[--trace FILE.csv | --generate KIND ...] [--strategy NAME ...] [--cost FILE | -m MODEL] [options]",
			"Sends requests through the engine's queue, strategies and cache books under a simulated clock, and\n"
			"compares strategies. A tick takes as long as was measured for its rows, so the answer is for the\n"
			"machine and model of the measurement; nothing else is run.\n"
			"\n"
			"A trace is CSV with a header: arrival_s, prompt_tokens, output_tokens and, if wanted, client,\n"
			"priority, group, shared_tokens (that all of a group begin with); lines with # are comments.\n"
			"\n"
			"Columns: output tokens and requests per second; seconds to the first token (TTFT: p50, p90, p99);\n"
			"ms between tokens (gap: p50, p90, p99, max); seconds in the queue (wait p99) and until the end\n"
			"(end: p50, p99); fairness between clients (Jain: 1 is best); requests refused, parkings, prompt\n"
			"tokens that were reused.",
			"  cohort simulate --rate 20 --slots 32 --svg compare.svg\n"
			"  cohort simulate --trace day.csv --strategy balanced --strategy ./mine.so:mine\n"
			"  cohort simulate -m model.gguf --save-cost cost.json --requests 100\n"
			"  cohort simulate --cost cost.json --generate bursts --prompt 600 --share 400 --json out.json\n",
			opts,
			sizeof opts / sizeof *opts,
	};
	return opt_parse(&p, argc, argv, 2, NULL, 0, NULL);
}

int cmd_simulate(int argc, char **argv)
{
	struct job j = {.c = {
				.recipe = {.rate = 8, .n = 1000, .prompt = 128, .output = 64, .clients = 4},
				.slots = 16,
				.batch = 512,
				.ubatch = 128,
				.chunk = 512,
				.queue = 1024,
				.queue_tokens = 1 << 20,
				.wait_max = 30,
				.threads = 4,
				.rounds = 5,
				.depth = 64,
				.room = "reserve",
			}};
	int rc = parse(&j.c, argc, argv);
	if (rc)
		return rc - 1;
	rc = run(&j);
	cleanup(&j);
	return rc;
}
