/* The parts of cohort simulate: traces, costs, what came out of a run, and how it is shown. */
#ifndef PROG_SIM_H
#define PROG_SIM_H

#include "cohort_engine.h"

#include "opt.h"

#include <jansson.h>
#include <stdio.h>

/* Functions that return int give 0, or an exit code after saying why on stderr. */
extern const char sim_prog[]; /* "cohort simulate" */

/* ---- Traces ---- */

enum { SIM_REQUESTS_MAX = 10000000 };

struct sim_trace {
	struct cohort_sim_request *requests; /* [n], by rising arrival */
	size_t n, n_max;
};
void sim_trace_release(struct sim_trace *t);
/* From a CSV file; docs/simulate.md has the format. */
int sim_trace_load(const char *path, struct sim_trace *t);
int sim_trace_save(const char *path, const struct sim_trace *t);

enum sim_kind { SIM_POISSON = 0, SIM_BURSTS, SIM_HEAVY_TAIL };
struct sim_recipe {
	enum sim_kind kind;
	double rate;                           /* requests per second */
	int64_t n, prompt, output;             /* requests; mean tokens of each */
	int64_t clients, share;                /* tokens that all prompts of a client begin with */
	uint64_t seed;
};
const char *sim_kind_name(enum sim_kind kind); /* NULL past the end */
int sim_trace_make(const struct sim_recipe *r, struct sim_trace *t);

/* ---- Costs ---- */

enum { SIM_GRID_MAX = 16 };

/* Seconds of a ubatch, by its rows. Both lists begin with 0, 1 and rise. */
struct sim_cost {
	int32_t prefill[SIM_GRID_MAX], decode[SIM_GRID_MAX];
	int32_t n_prefill, n_decode;
	double s[SIM_GRID_MAX][SIM_GRID_MAX]; /* [n_prefill, n_decode] */
	char about[512];                      /* where it was measured, one line */
};
/* What cohort_simulate asks for; cost is a struct sim_cost. */
double sim_cost_s(void *cost, int32_t n_prefill, int32_t n_decode);
int sim_cost_load(const char *path, struct sim_cost *c);
int sim_cost_save(const char *path, const struct sim_cost *c);
json_t *sim_cost_json(const struct sim_cost *c); /* NULL: out of memory */

struct sim_measure {
	const char *model;  /* NULL: the built-in one */
	const char *device; /* NULL: the first */
	int32_t n_slots, n_ubatch, n_threads, rounds, depth;
};
int sim_cost_measure(const struct sim_measure *m, struct sim_cost *c);

/* ---- Results ---- */

/* Seconds of which rates are taken, or a picture's axis made. Whoever writes costs or arrivals may write less: a
 * quotient or a logarithm of that may be no number. */
#define SIM_S_MIN 1e-12

enum { SIM_P50 = 0, SIM_P90, SIM_P99, SIM_MAX, SIM_N_QUANTILES };

struct sim_quantiles {
	double s[SIM_N_QUANTILES]; /* 0 when there is nothing */
};

struct sim_result {
	const char *name;     /* of the strategy */
	struct cohort_sim_totals totals;
	double *ttft, *wait, *end; /* [n] each, of the requests that were served, sorted */
	size_t n;
	double span_s;        /* from the first arrival to the end */
	double out_per_s, requests_per_s;
	double jain, cached;  /* the latter as a part of all prompts' tokens */
	double wall_s;        /* that the run took here */
	struct sim_quantiles q_ttft, q_gap, q_wait, q_end;
};
/* Takes stock of a run; totals and name are there already. */
int sim_result_fill(struct sim_result *r, const struct sim_trace *t, const struct cohort_sim_outcome *outcomes);
void sim_result_release(struct sim_result *r);

/* What was simulated. */
struct sim_setting {
	const struct cohort_sim_params *params;
	const struct sim_trace *trace;
	const struct sim_cost *cost;
	const char *about_trace; /* one line */
};

void sim_report_table(const struct sim_setting *s, const struct sim_result *results, size_t n);
int sim_report_json(const char *path, const struct sim_setting *s, const struct sim_result *results, size_t n);
int sim_report_svg(const char *path, const struct sim_setting *s, const struct sim_result *results, size_t n);

/* ---- The command line ---- */

struct sim_options {
	const char *trace, *kind, *save_trace, *cost, *model, *device, *save_cost, *room, *svg, *json;
	struct opt_list strategies;
	struct sim_recipe recipe;
	int64_t slots, ctx, seq_max, batch, ubatch, budget, chunk, queue, queue_tokens;
	int64_t threads, rounds, depth;
	double wait_max;
	bool measure, recipe_given, measure_given, ctx_given, threads_given, no_reuse;
};
/* Returns 0 to go on, or an exit code plus 1, as opt_parse does. */
int sim_options_get(int argc, char **argv, struct sim_options *c);

/* ---- For all of these ---- */

/* Four digits, whatever the size, in a static ring of buffers. */
const char *sim_number(double v);
/* Writes the bytes or says why not. What jansson and open_memstream give is malloc's, as base's memory is: mem_free
 * frees it. */
int sim_write(const char *path, const void *bytes, size_t n_bytes);

#endif
