/* What sharing a prompt gives: branches that fork from one prompt, beside as many that each computed it for themselves.
 *
 * What holds:
 *  1. Three forests a cell, of the same branches and the same tokens: shared (one prompt, forked), apart (each its own
 *     prompt), bare (prompts of one token). All decode the same steps, in interleaved rounds, every other one the other
 *     way round; the first is thrown away.
 *  2. A step's figure is the median of its rounds. Attention over the prompt is a step less a bare step: what is left
 *     when everything that does not depend on the prompt is taken off.
 *  3. The whole job is the prompt (or prompts), the forks, and all rounds' steps; apart, prompts are decoded together,
 * as many rows at a time as a batch takes.
 *  4. Behind the last round the logits of shared and apart are compared: the same bits, or the run fails.
 *  5. Nothing but library calls happens while the clock runs. */
#include "base/mem.h"
#include "base/pool.h"
#include "base/rng.h"
#include "cohort.h"
#include "common.h"
#include "limits.h"
#include "made_model.h"
#include "opt.h"
#include "rounds.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char prog[] = "bench_branch";

enum { LIST_MAX = 8, BRANCHES_MAX = 1024, TOKENS_MAX = 65536 };
enum kind { SHARED, APART, BARE, N_KINDS };

/* What 32 branches over 2,048 tokens must gain at least, by -check. */
static const struct {
	double step, attention, job;
} required = {1.3, 1.7, 3.0};

struct config {
	const char *model, *shape, *type, *branches, *prompts, *json;
	int64_t gen, rounds, threads;
	bool check;
};

struct list {
	int32_t v[LIST_MAX];
	size_t n;
};

/* One forest, with its own context. */
struct side {
	struct cohort_context *ctx;
	struct cohort_forest *forest;
	struct cohort_branch *branches; /* [n] */
	double prefill_s;
	double step_s[ROUNDS_MAX]; /* a step, on average over a round */
};

struct result {
	int32_t n, prompt;
	double step_s[N_KINDS], prefill_s[N_KINDS], job_s[N_KINDS];
	json_t *rounds[N_KINDS];
};

struct bench {
	struct config c;
	struct list branches, prompts;
	struct cohort_model *model;
	struct cohort_model_info info;
	char *label;
	cohort_token *tokens; /* [prompt] */
	struct cohort_branch_token *items; /* [n] */
	struct cohort_branch_span *spans; /* [n] */
	struct side side[N_KINDS];
	struct result results[LIST_MAX * LIST_MAX];
	size_t n_results;
	double started;
};

/* ---- Options ---- */

static int parse_list(const char *name, const char *text, int32_t max, struct list *out)
{
	for (const char *p = text;;) {
		char *end;
		const long v = strtol(p, &end, 10);
		if (*p < '0' || *p > '9' || v < 1 || v > max || out->n == LIST_MAX || (*end && *end != ','))
			return bad_usage(prog, "-%s expects up to %d numbers from 1 to %d, such as 1,4,16, got '%s'",
					name, LIST_MAX, max, text);
		out->v[out->n++] = (int32_t)v;
		if (!*end)
			return 0;
		p = end + 1;
	}
}

static bool go_on(float done, void *user)
{
	const struct bench *b = user;
	progress_line(b->started, "making and loading a model: %3.0f %%", (double)done * 100.0);
	return !interrupted();
}

/* ---- Forests ---- */

static void close_sides(struct bench *b)
{
	for (int k = 0; k < N_KINDS; k++) {
		cohort_forest_free(b->side[k].forest);
		cohort_context_free(b->side[k].ctx);
		mem_free(b->side[k].branches);
		b->side[k].forest = NULL;
		b->side[k].ctx = NULL;
		b->side[k].branches = NULL;
	}
	mem_free(b->items);
	mem_free(b->spans);
	b->items = NULL;
	b->spans = NULL;
}

/* Cells that n branches need, in whole blocks. */
static int64_t cells_of(const struct bench *b, enum kind kind, int32_t n, int32_t prompt)
{
	const int64_t begin = kind == BARE ? 1 : prompt, steps = (b->c.rounds + 1) * b->c.gen;

	return ROOM(.n_seqs = n, .n_tokens = begin + steps, .n_prompt = kind == SHARED ? prompt : 0, .n_more = 1)
			.n_ctx_needed;
}

static int open_side(struct bench *b, enum kind kind, int32_t n, int32_t prompt)
{
	struct side *s = &b->side[kind];
	struct cohort_context_params p;
	struct cohort_err err;

	cohort_context_params_init(&p);
	const int64_t cells = cells_of(b, kind, n, prompt);
	if (cells > INT32_MAX)
		return bad_usage(prog, "%d branches over %d tokens are more than a cache can hold", n, prompt);
	p.n_ctx = (int32_t)cells;
	p.n_seq_max = n;
	p.n_threads = (int32_t)b->c.threads;
	p.n_batch = 2048;
	s->branches = mem_zalloc((size_t)n, sizeof *s->branches);
	if (!s->branches)
		return out_of_memory(prog);
	if (cohort_context_open(b->model, &p, &s->ctx, &err) || cohort_forest_open(s->ctx, NULL, &s->forest, &err) ||
			cohort_warm_up(s->ctx, 1, 1, &err))
		return fail(prog, &err);
	return 0;
}

static enum cohort_status grow(struct bench *b, enum kind kind, int32_t n, int32_t prompt, struct cohort_err *err)
{
	struct side *s = &b->side[kind];
	enum cohort_status st = COHORT_OK;
	const int32_t n_tokens = kind == BARE ? 1 : prompt;

	for (int32_t i = 0; i < n && !st; i++) {
		if (kind == SHARED && i > 0)
			continue;
		st = cohort_branch_create(s->forest, NULL, &s->branches[i], err);
		b->spans[i] = (struct cohort_branch_span){s->branches[i], b->tokens, n_tokens};
	}
	const double t0 = clock_now();
	if (!st)
		st = cohort_branch_decode_scatter(s->forest, b->spans, kind == SHARED ? 1 : n, err);
	for (int32_t i = 1; i < n && kind == SHARED && !st; i++)
		st = cohort_branch_fork(s->forest, s->branches[0], NULL, &s->branches[i], err);
	s->prefill_s = clock_now() - t0;
	return st;
}

/* ---- Measuring ---- */

/* A round's steps. Tokens depend on the branch and the step only, so that all sides decode the same. */
static enum cohort_status steps(
		struct bench *b, enum kind kind, int32_t n, int64_t round, double *seconds, struct cohort_err *err)
{
	struct side *s = &b->side[kind];
	enum cohort_status st = COHORT_OK;
	double sum = 0;

	for (int64_t g = 0; g < b->c.gen && !st; g++) {
		for (int32_t i = 0; i < n; i++) {
			const uint64_t x = ((uint64_t)(round * b->c.gen + g) * 0x9e3779b97f4a7c15u) ^
					((uint64_t)i * 0xc2b2ae3d27d4eb4fu);
			b->items[i] = (struct cohort_branch_token){
					s->branches[i], (cohort_token)((x >> 33) % (uint64_t)b->info.n_vocab)};
		}
		const double t0 = clock_now();
		st = cohort_branch_decode_each(s->forest, b->items, n, err);
		sum += clock_now() - t0;
	}
	*seconds = sum / (double)b->c.gen;
	return st;
}

static int same_bits(struct bench *b, int32_t n)
{
	for (int32_t i = 0; i < n; i++) {
		const float *x = cohort_branch_logits_get(b->side[SHARED].forest, b->side[SHARED].branches[i], NULL);
		const float *y = cohort_branch_logits_get(b->side[APART].forest, b->side[APART].branches[i], NULL);
		if (!x || !y || memcmp(x, y, (size_t)b->info.n_vocab * sizeof *x) != 0) {
			fprintf(stderr, "%s: branch %d has other logits when it shares its prompt\n", prog, i);
			return EXIT_RUN;
		}
	}
	return 0;
}

static int measure(struct bench *b, int32_t n, int32_t prompt)
{
	struct result *r = &b->results[b->n_results];
	const size_t n_rounds = (size_t)b->c.rounds;
	struct cohort_err err;
	int rc = 0;

	b->items = mem_alloc((size_t)n, sizeof *b->items);
	b->spans = mem_alloc((size_t)n, sizeof *b->spans);
	if (!b->items || !b->spans)
		return out_of_memory(prog);
	for (int k = 0; k < N_KINDS && !rc; k++) {
		progress_line(b->started, "%d branches, prompt of %d", n, prompt);
		if (!(rc = open_side(b, (enum kind)k, n, prompt)) && grow(b, (enum kind)k, n, prompt, &err))
			rc = fail(prog, &err);
		if (interrupted())
			rc = EXIT_INTERRUPTED;
	}
	/* Round 0 twice: the first is thrown away. */
	double all_s[N_KINDS] = {0};
	for (size_t i = 0; i <= n_rounds && !rc; i++)
		for (int k = 0; k < N_KINDS && !rc; k++) {
			const int kind = i % 2 ? N_KINDS - 1 - k : k;
			double seconds;
			if (steps(b, (enum kind)kind, n, (int64_t)i, &seconds, &err))
				return fail(prog, &err);
			b->side[kind].step_s[i ? i - 1 : 0] = seconds;
			all_s[kind] += seconds * (double)b->c.gen;
			if (interrupted())
				rc = EXIT_INTERRUPTED;
		}
	if (rc || (rc = same_bits(b, n)))
		return rc;
	*r = (struct result){.n = n, .prompt = prompt};
	for (int k = 0; k < N_KINDS; k++) {
		r->step_s[k] = rounds_median(b->side[k].step_s, n_rounds);
		r->prefill_s[k] = b->side[k].prefill_s;
		r->job_s[k] = b->side[k].prefill_s + all_s[k];
		r->rounds[k] = rounds_json(b->side[k].step_s, n_rounds);
	}
	b->n_results++;
	return 0;
}

/* ---- The report ---- */

/* NAN: too little of a step is attention for a difference to mean anything. */
static double attention_ratio(const struct result *r)
{
	const double shared = r->step_s[SHARED] - r->step_s[BARE], apart = r->step_s[APART] - r->step_s[BARE];

	return shared < 0.03 * r->step_s[SHARED] || apart < 0.03 * r->step_s[APART] ? NAN : apart / shared;
}

static void print(const struct bench *b)
{
	printf("\n%8s %9s %24s %18s %10s %13s %9s\n", "prompt", "branches", "ms a step: shared, apart", "us a token",
			"apart /", "of attention", "of the job");
	for (size_t i = 0; i < b->n_results; i++) {
		const struct result *r = &b->results[i];
		char attention[32] = "-";
		if (!isnan(attention_ratio(r)))
			snprintf(attention, sizeof attention, "%.2fx", attention_ratio(r));
		printf("%8d %9d %12.3f %11.3f %9.1f %8.1f %9.2fx %13s %8.1fx\n", r->prompt, r->n,
				r->step_s[SHARED] * 1e3, r->step_s[APART] * 1e3, r->step_s[SHARED] * 1e6 / r->n,
				r->step_s[APART] * 1e6 / r->n, r->step_s[APART] / r->step_s[SHARED], attention,
				r->job_s[APART] / r->job_s[SHARED]);
	}
}

static int write_json(struct bench *b, const char *cpu, double load)
{
	static const char *const names[] = {"shared", "apart", "bare"};
	json_t *cells = json_array();

	for (size_t i = 0; i < b->n_results; i++) {
		struct result *r = &b->results[i];
		json_t *cell = json_pack("{s:i, s:i, s:f, s:o, s:f}", "prompt", r->prompt, "branches", r->n,
				"step_ratio", r->step_s[APART] / r->step_s[SHARED], "attention_ratio",
				isnan(attention_ratio(r)) ? json_null() : json_real(attention_ratio(r)), "job_ratio",
				r->job_s[APART] / r->job_s[SHARED]);
		for (int k = 0; k < N_KINDS && cell; k++) {
			json_object_set_new(cell, names[k],
					json_pack("{s:f, s:f, s:f, s:o}", "step_s", r->step_s[k], "prefill_s",
							r->prefill_s[k], "job_s", r->job_s[k], "rounds", r->rounds[k]));
			r->rounds[k] = NULL;
		}
		json_array_append_new(cells, cell);
	}
	return rounds_write(prog, b->c.json,
			json_pack("{s:s, s:s, s:s, s:s, s:f, s:s, s:I, s:I, s:o}", "kind", "cohort bench branch 1",
					"cpu", cpu, "compiler", compiler_name(), "isa", b->info.isa, "load_before",
					load, "model", b->label, "gen", (json_int_t)b->c.gen, "n_rounds",
					(json_int_t)b->c.rounds, "cells", cells));
}

/* -check: every cell of 32 branches or more over 2,048 tokens or more. */
static int check(const struct bench *b)
{
	int n = 0, n_bad = 0;

	for (size_t i = 0; i < b->n_results; i++) {
		const struct result *r = &b->results[i];
		if (r->n < 32 || r->prompt < 2048)
			continue;
		const bool ok = r->step_s[APART] / r->step_s[SHARED] >= required.step &&
				attention_ratio(r) >= required.attention &&
				r->job_s[APART] / r->job_s[SHARED] >= required.job;
		printf("%d branches over %d tokens: required %.1fx a step, %.1fx of attention, %.1fx of the job: %s\n",
				r->n, r->prompt, required.step, required.attention, required.job,
				ok ? "met" : "not met");
		n++;
		n_bad += !ok;
	}
	if (n == 0)
		return bad_usage(prog, "-check needs a cell of 32 branches or more over 2048 tokens or more");
	return n_bad ? EXIT_RUN : 0;
}

static int prepare(struct bench *b)
{
	struct cohort_model_params mp;
	int32_t longest = 1;
	struct rng r;
	int rc;

	const int64_t steps_all = (b->c.rounds + 1) * b->c.gen;
	for (size_t i = 0; i < b->prompts.n; i++)
		longest = b->prompts.v[i] > longest ? b->prompts.v[i] : longest;
	cohort_model_params_init(&mp);
	if (b->c.shape) {
		rc = made_model_open(prog, b->c.shape, b->c.type, longest + steps_all, go_on, b, &b->model);
	} else {
		const char *path = b->c.model ? b->c.model : builtin_model(prog);
		rc = path ? load_model(prog, path, &mp, &b->model) : EXIT_MODEL;
	}
	if (rc)
		return rc;
	cohort_model_info_get(b->model, &b->info);
	if (b->info.n_ctx_train > 0 && longest + steps_all > b->info.n_ctx_train)
		return bad_usage(prog, "a prompt of %d and %lld steps are more than the %d tokens of the model",
				longest, (long long)steps_all, b->info.n_ctx_train);
	b->tokens = mem_alloc((size_t)longest, sizeof *b->tokens);
	b->label = printable(b->c.shape ? b->c.shape : b->c.model ? b->c.model : "the built-in model");
	if (!b->tokens || !b->label)
		return out_of_memory(prog);
	rng_init(&r, 1, 0);
	for (int32_t i = 0; i < longest; i++)
		b->tokens[i] = (cohort_token)((uint64_t)rng_u32(&r) * (uint64_t)b->info.n_vocab >> 32);
	return 0;
}

static int run(struct bench *b)
{
	char cpu[256];
	double load = 0;
	int rc = prepare(b);

	if (rc)
		return rc;
	if (getloadavg(&load, 1) == 1 && load > 0.5)
		fprintf(stderr, "%s: warning: the load average is %.2f: other programs are running\n", prog, load);
	for (size_t i = 0; i < b->prompts.n && !rc; i++)
		for (size_t j = 0; j < b->branches.n && !rc; j++) {
			rc = measure(b, b->branches.v[j], b->prompts.v[i]);
			close_sides(b);
		}
	progress_end();
	if (rc)
		return rc;
	cpu_name(cpu, sizeof cpu);
	printf("%s, %zu CPUs; %s; level %s; %s; medians of %lld interleaved rounds of %lld steps\n", cpu,
			pool_cpu_count(), compiler_name(), b->info.isa, b->label, (long long)b->c.rounds,
			(long long)b->c.gen);
	print(b);
	if (b->c.json)
		rc = write_json(b, cpu, load);
	if (!rc && b->c.check)
		rc = check(b);
	const int closed = close_stdout(prog);
	return rc ? rc : closed;
}

int main(int argc, char **argv)
{
	static struct bench b;
	struct config *c = &b.c;
	*c = (struct config){
			.type = "Q4_K_M", .branches = "1,4,16,32,64", .prompts = "64,512,900", .gen = 8, .rounds = 5};
	const struct opt opts[] = {
			{"model", "m", OPT_STR, &c->model, 0, 0, "FILE", "(default: the built-in model)", NULL},
			{"shape", "s", OPT_STR, &c->shape, 0, 0, "NAME", "of cohort synth: a random model instead",
					NULL},
			{"type", NULL, OPT_STR, &c->type, 0, 0, "TYPE", "of its weights (default: Q4_K_M)", NULL},
			{"branches", NULL, OPT_STR, &c->branches, 0, 0, "LIST", "(default: 1,4,16,32,64)", NULL},
			{"prompts", NULL, OPT_STR, &c->prompts, 0, 0, "LIST", "their lengths (default: 64,512,900)",
					NULL},
			{"gen", NULL, OPT_INT, &c->gen, 1, 1024, "N", "steps of a round (default: 8)", NULL},
			{"rounds", "r", OPT_INT, &c->rounds, 1, ROUNDS_MAX, "N", "of each cell (default: 5)", NULL},
			{"threads", "t", OPT_INT, &c->threads, 0, 256, "N", "0: one per CPU (default)", NULL},
			{"json", NULL, OPT_STR, &c->json, 0, 0, "FILE", "for the raw rounds", NULL},
			{"check", NULL, OPT_FLAG, &c->check, 0, 0, NULL, "fail unless what is required is met", NULL},
	};
	const struct opt_prog p = {
			prog,
			"[options]",
			"Measures a step of branches that share a prompt beside as many that do not, the attention\n"
			"over the prompt alone, and the whole job. Their logits are compared: the same bits.",
			"  ./dev bench branch\n"
			"  ./dev bench branch --shape smol-135m --prompts 2048 --branches 32 --check\n",
			opts,
			sizeof opts / sizeof *opts,
	};
	int rc = opt_parse(&p, argc, argv, 1, NULL, 0, NULL);

	if (rc)
		return rc - 1;
	if ((rc = parse_list("branches", c->branches, BRANCHES_MAX, &b.branches)) ||
			(rc = parse_list("prompts", c->prompts, TOKENS_MAX, &b.prompts)))
		return rc;
	b.started = clock_now();
	start_signals();
	catch_signals();
	rc = run(&b);
	progress_end();
	if (rc == EXIT_INTERRUPTED)
		fprintf(stderr, "%s: interrupted\n", prog);
	close_sides(&b);
	for (size_t i = 0; i < b.n_results; i++)
		for (int k = 0; k < N_KINDS; k++)
			json_decref(b.results[i].rounds[k]);
	cohort_model_free(b.model);
	mem_free(b.tokens);
	mem_free(b.label);
	return rc;
}
