/* What fragments of C on the pages may name without saying where it comes from: tests/e2e/docs.sh compiles each behind
 * these. Nothing here is ever linked. */
#include <cohort_engine.h>
#include <cohort_search.h>
#include <cohort_tools.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

extern struct cohort_model *model;
extern struct cohort_context *ctx;
extern struct cohort_batch batch;
extern struct cohort_sampler *sampler;
extern struct cohort_sampler_params sampler_params;
extern struct cohort_engine *engine, *other;
extern struct cohort_engine_params engine_params;
extern struct cohort_request *request;
extern struct cohort_request_params request_params;
extern struct cohort_event event;
extern struct cohort_err err;
extern enum cohort_status status;
extern cohort_token *prompt, *tokens, token;
extern cohort_seq seq;
extern int32_t n_prompt, n_tokens, n_saved, n_dropped, n;
extern void *bytes;
extern size_t n_bytes;

/* Of examples/strategy_shortest_first.c. */
void generating(struct cohort_plan *plan, int32_t n_rows);
struct cohort_slot *next_prompt(const struct cohort_plan *plan);
