/* A strategy of one's own, given to an engine as a struct: no file, nothing to register.
 *
 * "in-turn" computes one request at a time, the oldest first, as if there were no batching. The same three requests run
 * under it and under the default, on an engine that the program ticks itself, so that it can say in which tick each
 * ended. The texts are the same bytes: a strategy decides when, never what. (strategy_shortest_first.c is one that is
 * loaded from a file.)
 *
 * usage: custom_strategy MODEL.gguf */
#include <cohort_engine.h>

#include <stdio.h>
#include <string.h>

enum { N_REQUESTS = 3, N_TOKENS = 12, PROMPT_MAX = 64, TEXT_MAX = 400 };

static const char *const prompts[N_REQUESTS] = {"Once upon a time", "The little dog", "Tom and Lily"};

/* All rows of a tick to the slot whose request is the oldest; slots come by rising id. */
static enum cohort_status in_turn(const struct cohort_strategy *self, void *state, struct cohort_plan *plan)
{
	struct cohort_slot *oldest = &plan->slots[0];
	(void)self;
	(void)state;

	for (int32_t i = 1; i < plan->n_slots; i++)
		if (plan->slots[i].age_s > oldest->age_s)
			oldest = &plan->slots[i];
	cohort_plan_add(plan, oldest, plan->budget);
	return COHORT_OK;
}

static const struct cohort_strategy strategy = {
		.struct_size = sizeof strategy,
		.name = "in-turn",
		.about = "one request at a time, the oldest first",
		.build_batch = in_turn,
};

struct answer {
	struct cohort_request *request;
	char text[TEXT_MAX];
	uint64_t end; /* the tick it ended in */
};

static enum cohort_status submit(const struct cohort_model *model, struct cohort_engine *engine, const char *prompt,
		struct cohort_request **out, struct cohort_err *err)
{
	cohort_token tokens[PROMPT_MAX];
	struct cohort_request_params p;
	size_t n;
	enum cohort_status st = cohort_tokenize(model, prompt, strlen(prompt), 0, tokens, PROMPT_MAX, &n, err);

	if (st)
		return st;
	cohort_request_params_init(&p);
	p.prompt = tokens;
	p.n_prompt = (int32_t)n;
	p.max_tokens = N_TOKENS;
	return cohort_engine_submit(engine, &p, out, err);
}

/* Ticks until there is nothing left to do. */
static enum cohort_status tick_all(struct cohort_engine *engine, struct answer *answers, struct cohort_err *err)
{
	enum cohort_status st = COHORT_OK;
	bool idle = false, done;

	for (uint64_t tick = 1; !idle && !st; tick++) {
		st = cohort_engine_tick(engine, &idle, err);
		for (int i = 0; i < N_REQUESTS && !st; i++) {
			st = cohort_request_wait(answers[i].request, 0, &done, err);
			if (!st && done && answers[i].end == 0)
				answers[i].end = tick;
		}
	}
	for (int i = 0; i < N_REQUESTS && !st; i++) {
		struct cohort_output o;
		st = cohort_request_output_get(answers[i].request, 0, &o, err);
		if (!st)
			snprintf(answers[i].text, TEXT_MAX, "%s", o.text);
	}
	return st;
}

/* Runs the requests under a strategy (NULL: the default). */
static enum cohort_status run(const struct cohort_model *model, const struct cohort_strategy *s, struct answer *answers,
		struct cohort_err *err)
{
	struct cohort_engine_stats stats;
	struct cohort_engine_params p;
	struct cohort_engine *engine = NULL;
	enum cohort_status st;

	cohort_engine_params_init(&p);
	p.manual = true;
	p.context.n_ctx = 1024;
	p.strategy = s;
	st = cohort_engine_open(model, &p, &engine, err);
	for (int i = 0; i < N_REQUESTS && !st; i++)
		st = submit(model, engine, prompts[i], &answers[i].request, err);
	if (!st)
		st = tick_all(engine, answers, err);
	if (!st) {
		cohort_engine_stats_get(engine, &stats);
		printf("%s: ended in ticks", stats.strategy);
		for (int i = 0; i < N_REQUESTS; i++)
			printf(" %d", (int)answers[i].end);
		printf("; %d plans refused\n", (int)stats.n_fallbacks);
	}
	for (int i = 0; i < N_REQUESTS; i++)
		cohort_request_free(answers[i].request);
	cohort_engine_free(engine);
	return st;
}

int main(int argc, char **argv)
{
	struct answer ours[N_REQUESTS] = {{.end = 0}}, usual[N_REQUESTS] = {{.end = 0}};
	struct cohort_model *model = NULL;
	struct cohort_err err;
	enum cohort_status st;
	bool same = true;

	if (argc != 2) {
		fprintf(stderr, "usage: custom_strategy MODEL.gguf\n");
		return 2;
	}
	st = cohort_model_open(argv[1], NULL, &model, &err);
	if (!st)
		st = run(model, &strategy, ours, &err);
	if (!st)
		st = run(model, NULL, usual, &err);
	if (st)
		fprintf(stderr, "custom_strategy: %s\n", err.text);
	for (int i = 0; i < N_REQUESTS && !st; i++) {
		same = same && strcmp(ours[i].text, usual[i].text) == 0;
		printf("%s%s\n", prompts[i], ours[i].text);
	}
	if (!st)
		printf("The texts are %s.\n", same ? "the same" : "not the same");
	cohort_model_free(model);
	return st || !same ? 1 : 0;
}
