/* Several users of one model at once: each thread submits a request to the engine and reads its answer as it comes.
 *
 * The engine batches what the threads want into ticks of its own; no thread waits for another. What a user is answered
 * is what the same request says alone: the program asks the first question once more at the end, with nobody else
 * there, and compares.
 *
 * usage: many_users MODEL.gguf */
#include <cohort_engine.h>

#include <pthread.h>
#include <stdio.h>
#include <string.h>

enum { N_USERS = 6, PROMPT_MAX = 64, TEXT_MAX = 2000 };

static const char *const prompts[N_USERS] = {"Once upon a time", "The little dog", "Tom and Lily", "One day, a bird",
		"In the garden", "Mia was sad because"};

struct user {
	const struct cohort_model *model;
	struct cohort_engine *engine;
	int i;
	char text[TEXT_MAX];
	size_t n_bytes;
	struct cohort_request_stats stats;
	struct cohort_err err; /* status 0: all went well */
};

/* Asks and reads until the end; the text comes in pieces that can be shown at once. */
static void read_answer(struct user *u, struct cohort_request *request)
{
	struct cohort_event e;

	do {
		if (cohort_request_next(request, -1, &e, &u->err))
			return;
		if (e.n_bytes <= TEXT_MAX - u->n_bytes) {
			memcpy(u->text + u->n_bytes, e.text, e.n_bytes);
			u->n_bytes += e.n_bytes;
		}
		if (e.kind == COHORT_EVENT_END && e.error)
			u->err = *e.error;
	} while (e.kind != COHORT_EVENT_DONE);
	cohort_request_stats_get(request, &u->stats);
}

static void *ask(void *arg)
{
	struct user *u = arg;
	const char *text = prompts[u->i % N_USERS];
	cohort_token tokens[PROMPT_MAX];
	struct cohort_request_params p;
	struct cohort_request *request;
	size_t n;

	if (cohort_tokenize(u->model, text, strlen(text), 0, tokens, PROMPT_MAX, &n, &u->err))
		return NULL;
	cohort_request_params_init(&p);
	p.prompt = tokens;
	p.n_prompt = (int32_t)n;
	p.max_tokens = 40;
	p.sampler.seed = (uint64_t)u->i;
	p.client = (uint64_t)u->i; /* users share alike */
	if (cohort_engine_submit(u->engine, &p, &request, &u->err))
		return NULL;
	read_answer(u, request);
	cohort_request_free(request);
	return NULL;
}

static int run(struct cohort_engine *engine, const struct cohort_model *model)
{
	struct user users[N_USERS] = {{.i = 0}}, again = {.model = model, .engine = engine};
	pthread_t threads[N_USERS];
	int n = 0;

	for (; n < N_USERS; n++) {
		users[n] = (struct user){.model = model, .engine = engine, .i = n};
		if (pthread_create(&threads[n], NULL, ask, &users[n]) != 0)
			break;
	}
	for (int i = 0; i < n; i++)
		pthread_join(threads[i], NULL);
	for (int i = 0; i < n; i++) {
		const struct user *u = &users[i];
		if (u->err.status) {
			fprintf(stderr, "many_users: %s\n", u->err.text);
			return 1;
		}
		printf("%s%.*s\n  (first token after %.0f ms, %d tokens in %.0f ms)\n\n", prompts[i], (int)u->n_bytes,
				u->text, 1e3 * u->stats.first_token_s, u->stats.n_generated, 1e3 * u->stats.end_s);
	}
	ask(&again);
	const bool same = n > 0 && again.n_bytes == users[0].n_bytes &&
			memcmp(again.text, users[0].text, again.n_bytes) == 0;
	printf("Asked again alone, the first user is answered %s.\n",
			same ? "the same, byte for byte" : "something else");
	return same && n == N_USERS ? 0 : 1;
}

int main(int argc, char **argv)
{
	struct cohort_engine_params p;
	struct cohort_engine *engine = NULL;
	struct cohort_model *model = NULL;
	struct cohort_err err;

	if (argc != 2) {
		fprintf(stderr, "usage: many_users MODEL.gguf\n");
		return 2;
	}
	cohort_engine_params_init(&p);
	p.n_slots = N_USERS;
	p.context.n_ctx = 2048;
	int rc = 1;
	if (cohort_model_open(argv[1], NULL, &model, &err) || cohort_engine_open(model, &p, &engine, &err))
		fprintf(stderr, "many_users: %s\n", err.text);
	else
		rc = run(engine, model);
	cohort_engine_free(engine);
	cohort_model_free(model);
	return rc;
}
