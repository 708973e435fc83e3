/* Drives an engine until all prompts are continued.
 *
 * The engine has no thread of its own: ticks, callbacks and what the watch prints take turns on the caller's, so that
 * nothing here needs a lock. */
#include "gen.h"

#include "common.h"
#include "tokens.h"

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

int gen_open(struct gen *g, int64_t n_least, int64_t n_most, int64_t n_ctx, int32_t n_threads)
{
	const int64_t n_blocks = ROOM(.n_ctx = n_ctx).n_blocks, most = n_blocks < n_most ? n_blocks : n_most;
	const int64_t n_slots = most > n_least ? most : n_least;
	struct cohort_model_info info = {.struct_size = sizeof info};
	struct cohort_engine_params p;
	struct cohort_err err;

	cohort_model_info_get(g->model, &info);
	g->n_ctx_train = info.n_ctx_train;
	cohort_engine_params_init(&p);
	p.n_slots = (int32_t)n_slots;
	p.context.n_ctx = (int32_t)n_ctx;
	p.context.n_threads = n_threads;
	p.context.n_batch = n_slots > 512 ? (int32_t)n_slots : 512;
	g->n_slots = n_slots;
	g->n_ctx = n_ctx;
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
	mem_free(t->chain_logprobs);
	mem_free(t->top);
	mem_free(t->error);
	*t = (struct gen_text){.bytes = NULL};
}

int gen_prompt_init(const struct gen *g, struct gen_prompt *p, const char *text, size_t n_bytes, int32_t n_texts)
{
	*p = (struct gen_prompt){.text = text, .n_bytes = n_bytes, .n_texts = n_texts};
	p->texts = mem_zalloc((size_t)n_texts, sizeof *p->texts);
	if (!p->texts)
		return out_of_memory(g->prog);
	return text_tokens(g->prog, g->model, text, n_bytes, COHORT_TOKENIZE_SPECIAL, &p->tokens, &p->n_tokens);
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

double gen_tokens_s(const struct gen *g, const struct gen_prompt *prompts, size_t n_prompts)
{
	uint64_t n_texts = 0;

	for (size_t i = 0; i < n_prompts; i++)
		n_texts += (uint64_t)prompts[i].n_texts;
	return g->n_generated > n_texts ? g->generate_s : g->prefill_s + g->generate_s;
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

/* As many texts of a prompt as fit together: one request. */
struct part {
	struct gen *g;
	struct gen_prompt *p;
	int32_t first, n;
	struct cohort_request *request;
};

static void give_up(struct gen *g, int rc)
{
	if (!g->rc)
		g->rc = rc;
}

static void add_bytes(const struct part *part, int32_t i, const char *bytes, size_t n)
{
	struct gen *g = part->g;
	struct gen_text *t = &part->p->texts[i];
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
		g->watch->text(g->watch->user, part->p, i, bytes, n);
}

/* Room for one more of an array's elements, if the array is wanted. */
static bool grow(bool wanted, void *array, size_t *n_max, size_t n, size_t size)
{
	void *p;

	if (!wanted)
		return true;
	memcpy(&p, array, sizeof p);
	const bool ok = mem_grow(&p, n_max, n, size);
	memcpy(array, &p, sizeof p);
	return ok;
}

static void add_token(const struct part *part, struct gen_text *t, const struct cohort_event *e)
{
	struct gen *g = part->g;
	const size_t n = t->n_tokens, n_top = (size_t)g->n_top;

	if (g->n_generated++ == 0 || part->p->first_token_s == 0)
		part->p->first_token_s = clock_now() - g->started_s;
	if (!g->ignore_eos && cohort_token_is_eog(g->model, e->token))
		return;
	if (!grow(true, &t->tokens, &t->tokens_max, n + 1, sizeof *t->tokens) ||
			!grow(g->logprobs, &t->logprobs, &t->logprobs_max, n + 1, sizeof *t->logprobs) ||
			!grow(g->chain_logprobs, &t->chain_logprobs, &t->chain_max, n + 1, sizeof *t->logprobs) ||
			!grow(n_top > 0, &t->top, &t->top_max, (n + 1) * n_top, sizeof *t->top)) {
		give_up(g, out_of_memory(g->prog));
		return;
	}
	if (g->logprobs)
		t->logprobs[n] = e->logprob;
	if (g->chain_logprobs)
		t->chain_logprobs[n] = e->chain_logprob;
	if (n_top > 0)
		memcpy(t->top + n * n_top, e->top, n_top * sizeof *t->top);
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

static void end_text(const struct part *part, int32_t i, const struct cohort_event *e)
{
	struct gen *g = part->g;
	struct gen_text *t = &part->p->texts[i];

	t->finish = e->finish;
	if (e->error) {
		t->error = mem_strndup(e->error->text, strlen(e->error->text));
		if (!t->error)
			give_up(g, out_of_memory(g->prog));
	}
	t->cut = is_cut(g, part->p, t);
	if (g->watch && g->watch->end)
		g->watch->end(g->watch->user, part->p, i);
}

static void on_event(struct cohort_request *r, const struct cohort_event *e, void *user)
{
	const struct part *part = user;
	const int32_t i = part->first + e->output;

	if (e->kind == COHORT_EVENT_DONE) {
		struct cohort_request_stats stats;
		cohort_request_stats_get(r, &stats);
		part->p->n_cached = stats.n_cached;
	}
	if (e->kind != COHORT_EVENT_TOKEN && e->kind != COHORT_EVENT_END)
		return;
	if (e->kind == COHORT_EVENT_TOKEN)
		add_token(part, &part->p->texts[i], e);
	add_bytes(part, i, e->text, e->n_bytes);
	if (e->kind == COHORT_EVENT_END)
		end_text(part, i, e);
}

/* ---- Running ---- */

static int32_t tokens_most(const struct gen *g, const struct gen_prompt *p)
{
	const int64_t left = g->n_ctx_train - (int64_t)p->n_tokens;

	return left < g->n_predict ? (int32_t)(left > 0 ? left : 0) : g->n_predict;
}

int64_t gen_cells(const struct gen_prompt *p, int64_t n_predict)
{
	return (int64_t)p->n_tokens + (n_predict > 1 ? n_predict - 1 : 0);
}

/* Texts of a prompt that run at once at most. */
static int32_t together(const struct gen *g, const struct gen_prompt *p)
{
	const int64_t n_cells = gen_cells(p, tokens_most(g, p));
	const int32_t n = ROOM(.model = g->model, .n_ctx = g->n_ctx, .n_seq_max = g->n_slots, .n_tokens = n_cells,
			.n_prompt = (int64_t)p->n_tokens).n_fit;

	return n > p->n_texts ? p->n_texts : n > 1 ? n : 1;
}

static int submit(struct part *part)
{
	const struct gen *g = part->g;
	const struct gen_prompt *p = part->p;
	struct cohort_request_params rp;
	struct cohort_err err;

	cohort_request_params_init(&rp);
	rp.prompt = p->tokens;
	rp.n_prompt = (int32_t)p->n_tokens;
	rp.n_outputs = part->n;
	rp.max_tokens = tokens_most(g, p);
	rp.sampler = g->s->p;
	rp.sampler.stream = p->stream + (uint64_t)part->first;
	rp.ignore_eos = g->ignore_eos;
	rp.stops = g->stops;
	rp.n_stops = g->n_stops;
	rp.stop_tokens = g->stop_tokens;
	rp.n_stop_tokens = g->n_stop_tokens;
	rp.session = g->session;
	rp.n_logprobs = g->logprobs ? g->n_top : -1;
	rp.chain_logprobs = g->chain_logprobs;
	rp.on_event = on_event;
	rp.user = part;
	if (cohort_engine_submit(g->engine, &rp, &part->request, &err)) {
		fail(g->prog, &err);
		return err.status == COHORT_E_LIMIT ? EXIT_USAGE : EXIT_RUN;
	}
	return 0;
}

static int drive(struct gen *g, struct part *parts, size_t n_parts)
{
	bool idle = n_parts == 0, stopped = false;
	struct cohort_err err;

	for (size_t i = 0; i < n_parts && !g->rc; i++)
		give_up(g, submit(&parts[i]));
	while (!idle) {
		if (!stopped && (g->rc || interrupted())) {
			stopped = true;
			for (size_t i = 0; i < n_parts; i++)
				if (parts[i].request)
					cohort_request_cancel(parts[i].request);
		}
		if (cohort_engine_tick(g->engine, &idle, &err)) {
			give_up(g, fail(g->prog, &err));
			break;
		}
		if (g->watch && g->watch->tick)
			g->watch->tick(g->watch->user);
	}
	for (size_t i = 0; i < n_parts; i++)
		cohort_request_free(parts[i].request);
	return g->rc ? g->rc : stopped ? EXIT_INTERRUPTED : 0;
}

static int say_errors(const struct gen *g, const struct gen_prompt *prompts, size_t n_prompts)
{
	int rc = 0;

	for (size_t i = 0; i < n_prompts; i++)
		for (int32_t k = 0; k < prompts[i].n_texts; k++)
			if (prompts[i].texts[k].error) {
				fprintf(stderr, "%s: text %d of prompt %zu ended early: %s\n", g->prog, k, i,
						prompts[i].texts[k].error);
				rc = EXIT_RUN;
			}
	return rc;
}

int gen_run(struct gen *g, struct gen_prompt *prompts, size_t n_prompts)
{
	size_t n_parts = 0, at = 0;

	g->rc = 0;
	g->n_generated = 0;
	g->n_blocks_most = 0;
	g->prefill_s = 0;
	g->started_s = clock_now();
	for (size_t i = 0; i < n_prompts; i++) {
		const int32_t n = together(g, &prompts[i]);
		n_parts += (size_t)((prompts[i].n_texts + n - 1) / n);
	}
	struct part *parts = mem_zalloc(n_parts, sizeof *parts);
	if (!parts)
		return out_of_memory(g->prog);
	for (size_t i = 0; i < n_prompts; i++) {
		struct gen_prompt *p = &prompts[i];
		const int32_t n = together(g, p);
		p->index = i;
		p->first_token_s = 0;
		p->n_cached = 0;
		for (int32_t first = 0; first < p->n_texts; first += n)
			parts[at++] = (struct part){g, p, first, p->n_texts - first < n ? p->n_texts - first : n, NULL};
	}
	int rc = drive(g, parts, n_parts);
	mem_free(parts);
	progress_end();
	for (size_t i = 0; i < n_prompts; i++)
		g->prefill_s = fmax(g->prefill_s, prompts[i].first_token_s);
	g->generate_s = clock_now() - g->started_s - g->prefill_s;
	const int bad = say_errors(g, prompts, n_prompts);
	return rc ? rc : bad;
}
