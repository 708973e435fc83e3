/* What more threads give: prefill and decode of a random model with 1, 2, 4 and 8 of them, beside an FMA probe.
 *
 * What holds:
 *  1. Every cell (a format, a job, a number of threads) has a context of its own on one model; rounds of all cells are
 *     interleaved, each next to the probe's of as many threads, and every other round goes the other way round. So a
 *     slow moment of the machine falls on all of them.
 *  2. A cell's figure is the median of its rounds; ratios are those of medians, their spread the smallest and largest
 *     ratio within one round.
 *  3. The probe is nothing but arithmetic in registers: what it gains from a second thread is what the machine has to
 *     give, whatever others run on it. Prefill's gain over the probe's is the share that gets through.
 *  4. Nothing but library calls happens while the clock runs. The first round of each cell is thrown away.
 *  5. A model's file is gone as soon as it is open, so that nothing stays behind, whatever ends the program. */
#include "base/mem.h"
#include "base/pool.h"
#include "base/rng.h"
#include "cohort.h"
#include "cohort_tools.h"
#include "common.h"
#include "limits.h"
#include "made_model.h"
#include "opt.h"
#include "rounds.h"

#include <jansson.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char prog[] = "bench_threads";

/* What two threads' prefill must gain at least, as a share of what they gain the probe. */
#define REQUIRED 0.93

enum { FORMATS_MAX = 8, COUNTS_MAX = 8, THREADS_MAX = 256, TOKENS_MAX = 4096 };
enum { ROWS = 8, PAST = 16 }; /* rows decoded together; positions before them */

static const struct {
	const char *name;
	size_t rows; /* of a decode; 0: prefill */
} jobs[] = {{"prefill", 0}, {"decode", 1}, {"decode", ROWS}};
enum { N_JOBS = sizeof jobs / sizeof *jobs };

struct config {
	const char *shape, *formats, *model, *threads, *json;
	int64_t prompt, gen, rounds;
};

struct bench {
	struct config c;
	const char *formats[FORMATS_MAX]; /* names of cohort_mix_name; "file" for a model that is there already */
	size_t n_formats;
	char *label;                      /* shape or file, as shown */
	size_t threads[COUNTS_MAX];
	size_t n_counts;
	struct cohort_model *models[FORMATS_MAX];
	struct cohort_context *contexts[FORMATS_MAX][COUNTS_MAX];
	cohort_token *tokens;                           /* [max(prompt, ROWS * (PAST + gen))] */
	double *probe[COUNTS_MAX];                      /* [rounds] GMAC/s */
	double *speed[FORMATS_MAX][N_JOBS][COUNTS_MAX]; /* [rounds] tokens/s */
	double started;
};

/* ---- Options ---- */

/* The name as the library has it; NULL if it is not known. */
static const char *mix_of(const char *s, size_t n)
{
	for (size_t i = 0; cohort_mix_name(i); i++)
		if (strlen(cohort_mix_name(i)) == n && memcmp(cohort_mix_name(i), s, n) == 0)
			return cohort_mix_name(i);
	return NULL;
}

static int parse_formats(struct bench *b)
{
	for (const char *p = b->c.formats; *p;) {
		const size_t n = strcspn(p, ",");
		const char *name = mix_of(p, n);
		if (!name)
			return bad_usage(prog, "-formats: '%.*s' is not known; 'cohort synth --help' lists the types",
					(int)n, p);
		if (b->n_formats == FORMATS_MAX)
			return bad_usage(prog, "-formats expects %d at most, got '%s'", FORMATS_MAX, b->c.formats);
		b->formats[b->n_formats++] = name;
		p += n + (p[n] == ',');
	}
	return b->n_formats ? 0 : bad_usage(prog, "-formats expects a list such as Q4_0,F16, got nothing");
}

/* Rising, and 1 in front: everything is compared with it. */
static int parse_threads(struct bench *b)
{
	for (const char *p = b->c.threads;;) {
		char *end;
		const long v = strtol(p, &end, 10);
		const long last = b->n_counts ? (long)b->threads[b->n_counts - 1] : 0;
		if (*p < '0' || *p > '9' || v <= last || v > THREADS_MAX || (!b->n_counts && v != 1) ||
				b->n_counts == COUNTS_MAX || (*end && *end != ','))
			return bad_usage(prog,
					"-threads expects up to %d rising numbers from 1 to %d, 1 the first, such as "
					"1,2,4, got '%s'",
					COUNTS_MAX, THREADS_MAX, b->c.threads);
		b->threads[b->n_counts++] = (size_t)v;
		if (!*end)
			return 0;
		p = end + 1;
	}
}

/* ---- Models and contexts ---- */

static bool go_on(float done, void *user)
{
	const struct bench *b = user;
	progress_line(b->started, "making and loading models: %3.0f %%", (double)done * 100.0);
	return !interrupted();
}

static int failed(const struct cohort_err *err)
{
	return err->status == COHORT_ABORTED ? EXIT_INTERRUPTED : fail(prog, err);
}

/* Makes a model, or opens the one that is there. */
static int make_model(struct bench *b, size_t f)
{
	struct cohort_model_params mp;

	cohort_model_params_init(&mp);
	return b->c.model ? load_model(prog, b->c.model, &mp, &b->models[f])
			  : made_model_open(prog, b->c.shape, b->formats[f], 0, go_on, b, &b->models[f]);
}

static int open_contexts(struct bench *b, size_t f)
{
	struct cohort_context_params p;
	struct cohort_err err;
	const int64_t decode = ROOM(.n_seqs = ROWS, .n_tokens = PAST + b->c.gen).n_ctx_needed;

	cohort_context_params_init(&p);
	p.n_ctx = (int32_t)(b->c.prompt > decode ? b->c.prompt : decode);
	p.n_seq_max = ROWS;
	for (size_t i = 0; i < b->n_counts; i++) {
		p.n_threads = (int32_t)b->threads[i];
		if (cohort_context_open(b->models[f], &p, &b->contexts[f][i], &err))
			return failed(&err);
	}
	return repack_all(b->contexts[f][b->n_counts - 1]);
}

static bool alloc_rounds(double **out, size_t n)
{
	return (*out = mem_zalloc(n, sizeof **out)) != NULL;
}

static int prepare(struct bench *b)
{
	const size_t n_rounds = (size_t)b->c.rounds, decode = ROWS * (size_t)(PAST + b->c.gen);
	const size_t n_tokens = (size_t)b->c.prompt > decode ? (size_t)b->c.prompt : decode;
	struct cohort_model_info info;
	struct rng r;
	bool ok = (b->tokens = mem_alloc(n_tokens, sizeof *b->tokens)) != NULL &&
			(b->label = printable(b->c.model ? b->c.model : b->c.shape)) != NULL;
	int rc = 0;

	for (size_t i = 0; i < b->n_counts; i++) {
		ok = ok && alloc_rounds(&b->probe[i], n_rounds);
		for (size_t f = 0; f < b->n_formats; f++)
			for (size_t j = 0; j < N_JOBS; j++)
				ok = ok && alloc_rounds(&b->speed[f][j][i], n_rounds);
	}
	if (!ok)
		return out_of_memory(prog);
	for (size_t f = 0; f < b->n_formats && !rc; f++)
		if (!(rc = make_model(b, f)))
			rc = open_contexts(b, f);
	if (rc)
		return rc;
	cohort_model_info_get(b->models[0], &info);
	rng_init(&r, 1, 0);
	for (size_t i = 0; i < n_tokens; i++)
		b->tokens[i] = (cohort_token)((uint64_t)rng_u32(&r) * (uint64_t)info.n_vocab >> 32);
	return 0;
}

static void release(struct bench *b)
{
	for (size_t i = 0; i < b->n_counts; i++) {
		mem_free(b->probe[i]);
		for (size_t f = 0; f < b->n_formats; f++) {
			cohort_context_free(b->contexts[f][i]);
			for (size_t j = 0; j < N_JOBS; j++)
				mem_free(b->speed[f][j][i]);
		}
	}
	for (size_t f = 0; f < b->n_formats; f++)
		cohort_model_free(b->models[f]);
	mem_free(b->tokens);
	mem_free(b->label);
}

/* ---- Measuring ---- */

static enum cohort_status prefill(struct bench *b, struct cohort_context *c, double *speed, struct cohort_err *err)
{
	cohort_seq_clear(c);
	const double t0 = clock_now();
	const enum cohort_status st = cohort_decode_many(c, b->tokens, (int32_t)b->c.prompt, 0, 0, err);
	*speed = (double)b->c.prompt / (clock_now() - t0);
	return st;
}

static enum cohort_status decode(struct bench *b, struct cohort_context *c, size_t rows, double *speed,
		struct cohort_err *err)
{
	struct cohort_each_item items[ROWS];
	const cohort_token *next = b->tokens + rows * PAST;
	enum cohort_status st;

	cohort_seq_clear(c);
	for (size_t i = 0; i < rows; i++)
		if ((st = cohort_decode_many(c, b->tokens + i * PAST, PAST, 0, (cohort_seq)i, err)))
			return st;
	const double t0 = clock_now();
	for (int64_t step = 0; step < b->c.gen; step++) {
		for (size_t i = 0; i < rows; i++)
			items[i] = (struct cohort_each_item){*next++, (cohort_pos)(PAST + step), (cohort_seq)i, true};
		if ((st = cohort_decode_each(c, items, (int32_t)rows, NULL, err)))
			return st;
	}
	*speed = (double)rows * (double)b->c.gen / (clock_now() - t0);
	return COHORT_OK;
}

/* All cells of one number of threads. */
static int measure_count(struct bench *b, size_t i, size_t round)
{
	struct cohort_err err;

	b->probe[i][round] = limit_fma_gmacs(b->threads[i]);
	if (!(b->probe[i][round] > 0)) {
		fprintf(stderr, "%s: cannot start %zu threads\n", prog, b->threads[i]);
		return EXIT_RUN;
	}
	for (size_t f = 0; f < b->n_formats; f++)
		for (size_t j = 0; j < N_JOBS; j++) {
			struct cohort_context *c = b->contexts[f][i];
			double *speed = &b->speed[f][j][i][round];
			if (interrupted())
				return EXIT_INTERRUPTED;
			if (jobs[j].rows ? decode(b, c, jobs[j].rows, speed, &err) : prefill(b, c, speed, &err))
				return failed(&err);
		}
	return 0;
}

static int measure(struct bench *b)
{
	int rc = 0;

	/* Round 0 twice: the first is thrown away. */
	for (size_t n = 0; n <= (size_t)b->c.rounds; n++)
		for (size_t k = 0; k < b->n_counts; k++) {
			const size_t i = n % 2 ? b->n_counts - 1 - k : k;
			progress_line(b->started, "round %zu of %lld, %zu threads", n, (long long)b->c.rounds,
					b->threads[i]);
			if ((rc = measure_count(b, i, n ? n - 1 : 0)))
				return rc;
		}
	return 0;
}

/* ---- The report ---- */

/* What a number of threads gains prefill over what it gains the probe. */
struct share {
	double speed_up, probe_speed_up, quotient, least, most;
};

static struct share share_of(const struct bench *b, size_t f, size_t i)
{
	const size_t n = (size_t)b->c.rounds;
	double *const *v = b->speed[f][0];
	struct share s = {
		.speed_up = rounds_median(v[i], n) / rounds_median(v[0], n),
		.probe_speed_up = rounds_median(b->probe[i], n) / rounds_median(b->probe[0], n),
		.least = INFINITY,
	};

	s.quotient = s.speed_up / s.probe_speed_up;
	for (size_t r = 0; r < n; r++) {
		const double q = v[i][r] / v[0][r] * b->probe[0][r] / b->probe[i][r];
		s.least = q < s.least ? q : s.least;
		s.most = q > s.most ? q : s.most;
	}
	return s;
}

static double best_of(const struct bench *b, size_t f, size_t j)
{
	double best = 0;

	for (size_t i = 0; i < b->n_counts; i++)
		best = fmax(best, rounds_median(b->speed[f][j][i], (size_t)b->c.rounds));
	return best;
}

static void print_prefill(const struct bench *b)
{
	printf("\nprefill of %lld tokens\n  %-8s %7s %10s %9s %13s %9s %9s   %s\n", (long long)b->c.prompt, "format",
			"threads", "tokens/s", "speed-up", "probe GMAC/s", "speed-up", "quotient", "in a round");
	for (size_t f = 0; f < b->n_formats; f++)
		for (size_t i = 0; i < b->n_counts; i++) {
			const struct share s = share_of(b, f, i);
			printf("  %-8s %7zu %10.1f %9.2f %13.1f %9.2f %9.3f   %.2f to %.2f", b->formats[f],
					b->threads[i], rounds_median(b->speed[f][0][i], (size_t)b->c.rounds),
					s.speed_up, rounds_median(b->probe[i], (size_t)b->c.rounds), s.probe_speed_up,
					s.quotient, s.least, s.most);
			if (b->threads[i] == 2)
				printf("   required %.2f: %s", REQUIRED, s.quotient >= REQUIRED ? "met" : "not met");
			printf("\n");
		}
}

static void print_decode(const struct bench *b)
{
	printf("\ndecode, %lld steps after %d positions\n  %-8s %5s %7s %10s %9s %12s\n", (long long)b->c.gen, PAST,
			"format", "rows", "threads", "tokens/s", "speed-up", "of the best");
	for (size_t f = 0; f < b->n_formats; f++)
		for (size_t j = 0; j < N_JOBS; j++)
			for (size_t i = 0; i < b->n_counts && jobs[j].rows; i++) {
				const size_t n = (size_t)b->c.rounds;
				const double v = rounds_median(b->speed[f][j][i], n);
				printf("  %-8s %5zu %7zu %10.1f %9.2f %12.2f\n", b->formats[f], jobs[j].rows,
						b->threads[i], v, v / rounds_median(b->speed[f][j][0], n),
						v / best_of(b, f, j));
			}
}

static json_t *cell_json(const struct bench *b, size_t f, size_t j, size_t i)
{
	const size_t n = (size_t)b->c.rounds;
	const double v = rounds_median(b->speed[f][j][i], n);
	json_t *cell = json_pack("{s:s, s:s, s:I, s:I, s:f, s:f, s:f, s:o}", "format", b->formats[f], "job",
			jobs[j].name, "rows", (json_int_t)jobs[j].rows, "threads", (json_int_t)b->threads[i], "median",
			v, "speed_up", v / rounds_median(b->speed[f][j][0], n), "of_best", v / best_of(b, f, j),
			"rounds", rounds_json(b->speed[f][j][i], n));

	if (cell && !jobs[j].rows) {
		const struct share s = share_of(b, f, i);
		json_object_del(cell, "rows");
		json_object_set_new(cell, "quotient", json_real(s.quotient));
		if (b->threads[i] == 2)
			json_object_set_new(cell, "required", json_real(REQUIRED));
	}
	return cell;
}

static int write_json(const struct bench *b, const char *cpu, const char *isa, double load)
{
	const size_t n = (size_t)b->c.rounds;
	json_t *probe = json_array(), *cells = json_array();

	for (size_t i = 0; i < b->n_counts; i++)
		json_array_append_new(probe,
				json_pack("{s:I, s:f, s:o}", "threads", (json_int_t)b->threads[i], "median",
						rounds_median(b->probe[i], n), "rounds", rounds_json(b->probe[i], n)));
	for (size_t f = 0; f < b->n_formats; f++)
		for (size_t j = 0; j < N_JOBS; j++)
			for (size_t i = 0; i < b->n_counts; i++)
				json_array_append_new(cells, cell_json(b, f, j, i));
	json_t *doc = json_pack("{s:s, s:s, s:s, s:s, s:I, s:f, s:s, s:I, s:I, s:I, s:o, s:o}", "kind",
			"cohort bench threads 1", "cpu", cpu, "compiler", compiler_name(), "isa", isa, "cpus",
			(json_int_t)pool_cpu_count(), "load_before", load, "model", b->label, "prompt",
			(json_int_t)b->c.prompt, "gen", (json_int_t)b->c.gen, "n_rounds", (json_int_t)n, "probe_gmacs",
			probe, "cells", cells);
	return rounds_write(prog, b->c.json, doc);
}

static int run(struct bench *b)
{
	char cpu[256];
	double load = 0;
	struct cohort_model_info info;
	int rc = prepare(b);

	if (rc)
		return rc;
	if (getloadavg(&load, 1) == 1 && load > 0.5)
		fprintf(stderr, "%s: warning: the load average is %.2f: other programs are running\n", prog, load);
	if ((rc = measure(b)))
		return rc;
	progress_end();
	cpu_name(cpu, sizeof cpu);
	cohort_model_info_get(b->models[0], &info);
	printf("%s, %zu CPUs; %s; level %s; %s; medians of %lld interleaved rounds\n", cpu, pool_cpu_count(),
			compiler_name(), info.isa, b->label, (long long)b->c.rounds);
	if (!limit_has_probe())
		printf("no FMA probe for this CPU: its speed-up is taken to be the number of threads\n");
	print_prefill(b);
	print_decode(b);
	if (b->c.json && (rc = write_json(b, cpu, info.isa, load)))
		return rc;
	return close_stdout(prog);
}

int main(int argc, char **argv)
{
	static struct bench b;
	struct config *c = &b.c;
	*c = (struct config){
		.shape = "smol-135m", .formats = "Q4_0,F16", .threads = "1,2,4,8",
		.prompt = 256, .gen = 16, .rounds = 7,
	};
	const struct opt opts[] = {
		{"shape", "s", OPT_STR, &c->shape, 0, 0, "NAME", "of cohort synth (default: smol-135m)", NULL},
		{"formats", NULL, OPT_STR, &c->formats, 0, 0, "LIST", "(default: Q4_0,F16)", NULL},
		{"model", "m", OPT_STR, &c->model, 0, 0, "FILE", "measure this GGUF file, no random ones", NULL},
		{"threads", "t", OPT_STR, &c->threads, 0, 0, "LIST", "rising from 1 (default: 1,2,4,8)", NULL},
		{"prompt", NULL, OPT_INT, &c->prompt, 1, TOKENS_MAX, "N", "tokens of a prefill (default: 256)", NULL},
		{"gen", NULL, OPT_INT, &c->gen, 1, TOKENS_MAX, "N", "steps of a decode (default: 16)", NULL},
		{"rounds", "r", OPT_INT, &c->rounds, 1, ROUNDS_MAX, "N", "of each cell (default: 7)", NULL},
		{"json", NULL, OPT_STR, &c->json, 0, 0, "FILE", "for the raw rounds", NULL},
	};
	const struct opt_prog p = {
		prog, "[options]",
		"Measures prefill, and decode of 1 and 8 rows, with several numbers of threads, and what the\n"
		"same numbers give an FMA probe. The models are random, made in $TMPDIR and removed at once.",
		"  ./dev bench threads\n  ./dev bench threads --threads 1,2 --formats Q4_K_M --json threads.json\n",
		opts, sizeof opts / sizeof *opts,
	};
	int rc = opt_parse(&p, argc, argv, 1, NULL, 0, NULL);

	if (rc)
		return rc - 1;
	if ((rc = parse_formats(&b)) || (rc = parse_threads(&b)))
		return rc;
	if (c->model) {
		b.n_formats = 1;
		b.formats[0] = "file";
	}
	b.started = clock_now();
	start_signals();
	catch_signals();
	rc = run(&b);
	progress_end();
	if (rc == EXIT_INTERRUPTED)
		fprintf(stderr, "%s: interrupted\n", prog);
	release(&b);
	return rc;
}
