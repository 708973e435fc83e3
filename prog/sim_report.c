/* The results as a table for people and as JSON for programs.
 *
 * What holds:
 *  1. A row per strategy, in the order they were given; every time has its unit in the column's head.
 *  2. The JSON has everything the table has, and what the run was: settings, costs, the trace in words. */
#include "common.h"
#include "sim.h"

#include "base/mem.h"

#include <inttypes.h>
#include <string.h>

static const char *const room_names[] = {[COHORT_ROOM_RESERVE] = "reserve", [COHORT_ROOM_OVERCOMMIT] = "overcommit"};

/* ---- The table ---- */

static void print_settings(const struct sim_setting *s)
{
	const struct cohort_sim_params *p = s->params;

	printf("- trace: %s\n- cost: %s\n", s->about_trace, *s->cost->about ? s->cost->about : "as given");
	printf("- slots = %d, ctx = %d, batch = %d, ubatch = %d, budget = %d, chunk = %d, room = %s, reuse = %s, "
	       "queue = %d requests, %" PRId64 " tokens\n- TTFT, wait and end in s, gap in ms\n\n",
			p->n_slots, p->n_ctx, p->n_batch, p->n_ubatch, p->budget ? p->budget : p->n_batch,
			p->chunk_size, room_names[p->room], p->no_reuse ? "no" : "yes", p->queue_requests_max,
			p->queue_tokens_max);
}

static void print_row(const struct sim_result *r, int width)
{
	const struct sim_quantiles *t = &r->q_ttft, *g = &r->q_gap, *e = &r->q_end;

	printf("| %-*s | %7s | %6s |", width, r->name, sim_number(r->out_per_s), sim_number(r->requests_per_s));
	printf(" %8s | %6s | %6s |", sim_number(t->s[SIM_P50]), sim_number(t->s[SIM_P90]), sim_number(t->s[SIM_P99]));
	printf(" %7s | %6s | %6s | %6s |", sim_number(g->s[SIM_P50] * 1e3), sim_number(g->s[SIM_P90] * 1e3),
			sim_number(g->s[SIM_P99] * 1e3), sim_number(g->s[SIM_MAX] * 1e3));
	printf(" %8s | %7s | %6s |", sim_number(r->q_wait.s[SIM_P99]), sim_number(e->s[SIM_P50]),
			sim_number(e->s[SIM_P99]));
	printf(" %5.3f | %7" PRIu64 " | %6" PRIu64 " | %5.1f%% |\n", r->jain, r->totals.n_refused, r->totals.n_parked,
			100 * r->cached);
}

static void print_rule(int width)
{
	static const int widths[] = {7, 6, 8, 6, 6, 7, 6, 6, 6, 8, 7, 6, 5, 7, 6, 6};

	printf("|-");
	for (int i = 0; i < width; i++)
		putchar('-');
	for (size_t k = 0; k < sizeof widths / sizeof *widths; k++) {
		printf("-|-");
		for (int i = 0; i < widths[k]; i++)
			putchar('-');
	}
	puts("-|");
}

void sim_report_table(const struct sim_setting *s, const struct sim_result *results, size_t n)
{
	int width = 8;

	for (size_t i = 0; i < n; i++)
		width = (int)strlen(results[i].name) > width ? (int)strlen(results[i].name) : width;
	print_settings(s);
	printf("| %-*s | %7s | %6s | %8s | %6s | %6s | %7s | %6s | %6s | %6s | %8s | %7s | %6s | %5s | %7s | %6s | %6s "
	       "|\n",
			width, "strategy", "out t/s", "req/s", "TTFT p50", "p90", "p99", "gap p50", "p90", "p99", "max",
			"wait p99", "end p50", "p99", "Jain", "refused", "parked", "cached");
	print_rule(width);
	for (size_t i = 0; i < n; i++)
		print_row(&results[i], width);
}

/* ---- JSON ---- */

static json_t *quantiles_json(const struct sim_quantiles *q)
{
	return json_pack("{s:f, s:f, s:f, s:f}", "p50", q->s[SIM_P50], "p90", q->s[SIM_P90], "p99", q->s[SIM_P99],
			"max", q->s[SIM_MAX]);
}

static json_t *result_json(const struct sim_result *r)
{
	const struct cohort_sim_totals *t = &r->totals;
	json_t *o = json_pack("{s:s, s:f, s:f, s:f, s:f, s:f, s:o, s:o, s:o, s:o}", "strategy", r->name,
			"output_tokens_per_s", r->out_per_s, "requests_per_s", r->requests_per_s, "span_s", r->span_s,
			"jain", r->jain, "cached", r->cached, "ttft_s", quantiles_json(&r->q_ttft), "gap_s",
			quantiles_json(&r->q_gap), "wait_s", quantiles_json(&r->q_wait), "end_s",
			quantiles_json(&r->q_end));
	json_t *counts = json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:i, s:f, s:f, s:f}",
			"served", (json_int_t)t->n_done, "refused", (json_int_t)t->n_refused, "parked",
			(json_int_t)t->n_parked, "ticks", (json_int_t)t->n_ticks, "ubatches", (json_int_t)t->n_ubatches,
			"prefill_rows", (json_int_t)t->n_prefill_rows, "decode_rows", (json_int_t)t->n_decode_rows,
			"output_tokens", (json_int_t)t->n_tokens, "prompt_tokens", (json_int_t)t->n_prompt_tokens,
			"cached_tokens", (json_int_t)t->n_cached_tokens, "fallbacks", (json_int_t)t->n_fallbacks,
			"queue_max", t->n_queued_max, "busy_s", t->busy_s, "tick_wall_s", t->real_s, "wall_s",
			r->wall_s);

	if (!o || !counts || json_object_update(o, counts)) {
		json_decref(o);
		o = NULL;
	}
	json_decref(counts);
	return o;
}

static json_t *setting_json(const struct sim_setting *s)
{
	const struct cohort_sim_params *p = s->params;

	return json_pack("{s:s, s:I, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:s, s:b, s:i, s:I, s:f, s:o}", "trace",
			s->about_trace, "requests", (json_int_t)s->trace->n, "slots", p->n_slots, "ctx", p->n_ctx,
			"seq_max", p->n_pos_max ? p->n_pos_max : p->n_ctx, "batch", p->n_batch, "ubatch", p->n_ubatch,
			"budget", p->budget ? p->budget : p->n_batch, "chunk", p->chunk_size, "room",
			room_names[p->room], "reuse", !p->no_reuse, "queue", p->queue_requests_max, "queue_tokens",
			(json_int_t)p->queue_tokens_max, "wait_max_s", p->wait_max_s, "cost", sim_cost_json(s->cost));
}

int sim_report_json(const char *path, const struct sim_setting *s, const struct sim_result *results, size_t n)
{
	json_t *list = json_array(), *o = NULL;
	char *text = NULL;
	bool ok = list != NULL;

	for (size_t i = 0; i < n && ok; i++)
		ok = json_array_append_new(list, result_json(&results[i])) == 0;
	if (ok)
		o = json_pack("{s:s, s:o, s:O}", "version", cohort_version(), "setting", setting_json(s), "strategies",
				list);
	if (o)
		text = json_dumps(o, JSON_INDENT(2) | JSON_ENSURE_ASCII | JSON_REAL_PRECISION(9));
	int rc = text ? sim_write(path, text, strlen(text)) : out_of_memory(sim_prog);
	mem_free(text);
	json_decref(o);
	json_decref(list);
	return rc;
}
