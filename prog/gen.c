/* Drives an engine until all prompts are continued.
 *
 * The engine has no thread of its own: ticks, callbacks and what the watch prints take turns on the caller's, so that
 * nothing here needs a lock. */
#include "gen.h"

#include "common.h"

#include "base/mem.h"
#include "base/pool.h"

#include <math.h>
#include <string.h>

static void note_tick(const struct cohort_tick *tick, void *user)
{
	struct gen *g = user;
	g->n_blocks = tick->n_blocks;
	if (tick->n_blocks_used > g->n_blocks_most)
		g->n_blocks_most = tick->n_blocks_used;
}

int gen_open(struct gen *g, int64_t n_slots, int64_t n_ctx, int32_t n_threads)
{
	struct cohort_engine_params p;
	struct cohort_err err;

	cohort_engine_params_init(&p);
	p.n_slots = (int32_t)n_slots;
	p.context.n_ctx = (int32_t)n_ctx;
	p.context.n_threads = n_threads;
	p.context.n_batch = n_slots > 512 ? (int32_t)n_slots : 512;
	p.queue_requests_max = INT32_MAX;
	p.queue_tokens_max = INT64_MAX;
	p.manual = true;
	p.on_tick = note_tick;
	p.on_tick_user = g;
	return cohort_engine_open(g->model, &p, &g->engine, &err) ? fail(g->prog, &err) : 0;
}

void gen_close(struct gen *g)
{
	cohort_engine_free(g->engine);
	g->engine = NULL;
}

/* ---- Prompts and texts ---- */

static void text_release(struct gen_text *t)
{
	mem_free(t->bytes);
	mem_free(t->tokens);
	mem_free(t->logprobs);
	mem_free(t->error);
	*t = (struct gen_text){.bytes = NULL};
}

int gen_prompt_init(const struct gen *g, struct gen_prompt *p, const char *text, size_t n_bytes, int32_t n_texts)
{
	const size_t room = cohort_tokenize_bound(n_bytes);
	struct cohort_err err;

	*p = (struct gen_prompt){.text = text, .n_bytes = n_bytes, .n_texts = n_texts};
	p->tokens = mem_alloc(room, sizeof *p->tokens);
	p->texts = mem_zalloc((size_t)n_texts, sizeof *p->texts);
	if (!p->tokens || !p->texts)
		return out_of_memory(g->prog);
	if (cohort_tokenize(g->model, text, n_bytes, COHORT_TOKENIZE_SPECIAL, p->tokens, room, &p->n_tokens, &err))
		return fail(g->prog, &err);
	return 0;
}

void gen_prompt_clear(struct gen_prompt *p)
{
	for (int32_t i = 0; p->texts && i < p->n_texts; i++)
		text_release(&p->texts[i]);
}

void gen_prompt_release(struct gen_prompt *p)
{
	gen_prompt_clear(p);
	mem_free(p->texts);
	mem_free(p->tokens);
	*p = (struct gen_prompt){.text = NULL};
}

double gen_mean_logprob(const struct gen_text *t)
{
	double sum = 0;
	for (size_t i = 0; t->logprobs && i < t->n_tokens; i++)
		sum += (double)t->logprobs[i];
	return t->n_tokens ? sum / (double)t->n_tokens : 0;
}

double gen_perplexity(const struct gen_text *t)
{
	return exp(-gen_mean_logprob(t));
}

/* ---- What the engine tells ---- */

static void give_up(struct gen *g, int rc)
{
	if (!g->rc)
		g->rc = rc;
}

static void add_bytes(struct gen_prompt *p, int32_t i, const char *bytes, size_t n)
{
	struct gen *g = p->gen;
	struct gen_text *t = &p->texts[i];
	void *at = t->bytes;

	if (n == 0 || g->rc)
		return;
	if (!mem_grow(&at, &t->bytes_max, t->n_bytes + n + 1, 1)) {
		give_up(g, out_of_memory(g->prog));
		return;
	}
	t->bytes = at;
	memcpy(t->bytes + t->n_bytes, bytes, n);
	t->n_bytes += n;
	t->bytes[t->n_bytes] = '\0';
	if (g->watch && g->watch->text)
		g->watch->text(g->watch->user, p, i, bytes, n);
}

static void add_token(struct gen_prompt *p, const struct cohort_event *e)
{
	struct gen *g = p->gen;
	struct gen_text *t = &p->texts[e->output];
	void *tokens = t->tokens, *logprobs = t->logprobs;

	g->n_generated++;
	if (!g->ignore_eos && cohort_token_is_eog(g->model, e->token))
		return;
	bool ok = mem_grow(&tokens, &t->tokens_max, t->n_tokens + 1, sizeof *t->tokens);
	t->tokens = tokens;
	if (ok && g->logprobs) {
		ok = mem_grow(&logprobs, &t->logprobs_max, t->n_tokens + 1, sizeof *t->logprobs);
		t->logprobs = logprobs;
	}
	if (!ok) {
		give_up(g, out_of_memory(g->prog));
		return;
	}
	if (g->logprobs)
		t->logprobs[t->n_tokens] = e->logprob;
	t->tokens[t->n_tokens++] = e->token;
}

/* Whether a grammar would have wanted more: a sampler that is told the tokens knows. */
static bool is_cut(const struct gen *g, const struct gen_prompt *p, const struct gen_text *t)
{
	struct cohort_sampler *sampler = NULL;
	bool ok = t->finish == COHORT_FINISH_LENGTH && g->s->g &&
			!sampling_sampler(g->s, 0, p->tokens, p->n_tokens, &sampler, NULL);

	for (size_t i = 0; ok && i < t->n_tokens; i++)
		ok = !cohort_sampler_accept(sampler, t->tokens[i], NULL);
	const bool cut = ok && !cohort_sampler_is_complete(sampler);
	cohort_sampler_free(sampler);
	return cut;
}

static void end_text(struct gen_prompt *p, const struct cohort_event *e)
{
	struct gen *g = p->gen;
	struct gen_text *t = &p->texts[e->output];

	t->finish = e->finish;
	if (e->error) {
		t->error = mem_strndup(e->error->text, strlen(e->error->text));
		if (!t->error)
			give_up(g, out_of_memory(g->prog));
	}
	t->cut = is_cut(g, p, t);
	if (g->watch && g->watch->end)
		g->watch->end(g->watch->user, p, e->output);
}

static void on_event(struct cohort_request *r, const struct cohort_event *e, void *user)
{
	struct gen_prompt *p = user;

	switch (e->kind) {
	case COHORT_EVENT_TOKEN:
		add_token(p, e);
		add_bytes(p, e->output, e->text, e->n_bytes);
		break;
	case COHORT_EVENT_END:
		add_bytes(p, e->output, e->text, e->n_bytes);
		end_text(p, e);
		break;
	case COHORT_EVENT_DONE: cohort_request_stats_get(r, &p->stats); break;
	default: break;
	}
}

/* ---- Running ---- */

static int submit(struct gen *g, struct gen_prompt *p)
{
	struct cohort_request_params rp;
	struct cohort_err err;

	cohort_request_params_init(&rp);
	rp.prompt = p->tokens;
	rp.n_prompt = (int32_t)p->n_tokens;
	rp.n_outputs = p->n_texts;
	rp.max_tokens = g->n_predict;
	rp.sampler = g->s->p;
	rp.sampler.stream = p->stream;
	rp.ignore_eos = g->ignore_eos;
	rp.stops = g->stops;
	rp.n_stops = g->n_stops;
	rp.n_logprobs = g->logprobs ? 0 : -1;
	rp.on_event = on_event;
	rp.user = p;
	p->gen = g;
	if (cohort_engine_submit(g->engine, &rp, &p->request, &err)) {
		fail(g->prog, &err);
		return err.status == COHORT_E_LIMIT ? EXIT_USAGE : EXIT_RUN;
	}
	return 0;
}

static void cancel(struct gen_prompt *prompts, size_t n_prompts)
{
	for (size_t i = 0; i < n_prompts; i++)
		if (prompts[i].request)
			cohort_request_cancel(prompts[i].request);
}

/* Time in which all prompts that have tokens had their first one. */
static double first_tokens_s(const struct gen_prompt *prompts, size_t n_prompts)
{
	double most = 0;
	for (size_t i = 0; i < n_prompts; i++)
		most = fmax(most, prompts[i].stats.first_token_s);
	return most;
}

static void say_errors(const struct gen *g, const struct gen_prompt *prompts, size_t n_prompts)
{
	for (size_t i = 0; i < n_prompts; i++)
		for (int32_t k = 0; k < prompts[i].n_texts; k++)
			if (prompts[i].texts[k].error)
				fprintf(stderr, "%s: sequence %d of prompt %zu ended early: %s\n", g->prog, k, i,
						prompts[i].texts[k].error);
}

static int result(const struct gen *g, const struct gen_prompt *prompts, size_t n_prompts, bool stopped)
{
	if (g->rc)
		return g->rc;
	if (stopped)
		return EXIT_INTERRUPTED;
	for (size_t i = 0; i < n_prompts; i++)
		for (int32_t k = 0; k < prompts[i].n_texts; k++)
			if (prompts[i].texts[k].error)
				return EXIT_RUN;
	return 0;
}

int gen_run(struct gen *g, struct gen_prompt *prompts, size_t n_prompts)
{
	const double started = clock_now();
	bool idle = n_prompts == 0, stopped = false;
	struct cohort_err err;

	g->rc = 0;
	g->n_generated = 0;
	g->n_blocks_most = 0;
	for (size_t i = 0; i < n_prompts && !g->rc; i++) {
		prompts[i].index = i;
		prompts[i].stats = (struct cohort_request_stats){.first_token_s = 0};
		give_up(g, submit(g, &prompts[i]));
	}
	while (!idle) {
		if (g->rc || interrupted()) {
			stopped = true;
			cancel(prompts, n_prompts);
		}
		if (cohort_engine_tick(g->engine, &idle, &err)) {
			give_up(g, fail(g->prog, &err));
			break;
		}
		if (g->watch && g->watch->tick)
			g->watch->tick(g->watch->user);
	}
	progress_end();
	g->prefill_s = first_tokens_s(prompts, n_prompts);
	g->generate_s = clock_now() - started - g->prefill_s;
	for (size_t i = 0; i < n_prompts; i++) {
		cohort_request_free(prompts[i].request);
		prompts[i].request = NULL;
	}
	say_errors(g, prompts, n_prompts);
	return result(g, prompts, n_prompts, stopped);
}
