/* A request: its values checked and copied, memory for all it may come to say, and its end.
 *
 * Invariants
 *  1. Everything a request needs until it ends is allocated here, so that a tick allocates nothing. (A text that the
 *     ticks make may turn out longer than usual; what its reader makes is its own affair.)
 *  2. A handle is freed when both its holders, the user and the engine, have given it back. */
#include "engine/policy.h"

#include "base/blocks.h"
#include "base/mem.h"

#include <math.h>
#include <string.h>

void cohort_request_params_init(struct cohort_request_params *params)
{
	if (!params)
		return;
	*params = (struct cohort_request_params){
			.struct_size = sizeof *params,
			.n_outputs = 1,
			.max_tokens = -1,
			.n_logprobs = -1,
			.pooling = COHORT_POOL_LAST,
			.adapter_scale = 1.0f,
	};
	cohort_sampler_params_init(&params->sampler);
}

const char *cohort_finish_name(enum cohort_finish finish)
{
	static const char *const names[] = {
			"none", "eog", "stop", "length", "embedded", "cancelled", "timeout", "error", "shutdown"};
	return (size_t)finish < sizeof names / sizeof *names ? names[finish] : "unknown";
}

/* ---- Checking ---- */

static enum cohort_status check_numbers(const struct cohort_request_params *p, struct cohort_err *err)
{
	const struct {
		const char *name;
		double value;
	} limits[] = {{"queue_limit_s", p->queue_limit_s}, {"prefill_limit_s", p->prefill_limit_s},
			{"decode_limit_s", p->decode_limit_s}, {"total_limit_s", p->total_limit_s}};
	const struct {
		const char *name;
		int32_t value, min, max;
	} ranges[] = {
			{"task", (int32_t)p->task, COHORT_TASK_GENERATE, COHORT_TASK_EMBED},
			{"n_prompt", p->n_prompt, 1, INT32_MAX},
			{"n_outputs", p->n_outputs, 1, COHORT_OUTPUTS_MAX},
			{"max_tokens", p->max_tokens, -1, INT32_MAX},
			{"n_logprobs", p->n_logprobs, -1, COHORT_TOP_MAX},
			{"n_stop_tokens", p->n_stop_tokens, 0, COHORT_STOPS_MAX},
	};

	for (size_t i = 0; i < sizeof ranges / sizeof *ranges; i++)
		if (err_range(err, ranges[i].name, ranges[i].value, ranges[i].min, ranges[i].max))
			return COHORT_E_ARG;
	if (!p->prompt || (p->n_stop_tokens && !p->stop_tokens))
		return err_set(err, COHORT_E_ARG, "%s is NULL", p->prompt ? "stop_tokens" : "prompt");
	if (p->on_ready && p->on_event)
		return err_rule(err, COHORT_E_ARG, "on_ready", -1, -1, 0, 0,
				"on_ready is for requests whose events are asked for; this one has on_event");
	if (p->adapter && err_real(err, "adapter_scale", (double)p->adapter_scale, -1e6, 1e6))
		return COHORT_E_ARG;
	for (size_t i = 0; i < sizeof limits / sizeof *limits; i++)
		if (err_real(err, limits[i].name, limits[i].value, 0, INFINITY))
			return COHORT_E_ARG;
	return COHORT_OK;
}

static enum cohort_status check_task(
		const struct core *c, const struct cohort_request_params *p, struct cohort_err *err)
{
	if (p->task == COHORT_TASK_EMBED) {
		if (!c->lim.embeddings)
			return err_set(err, COHORT_E_ARG, "the engine was opened without embeddings among its outputs");
		if (p->pooling != COHORT_POOL_MEAN && p->pooling != COHORT_POOL_CLS && p->pooling != COHORT_POOL_LAST)
			return err_rule(err, COHORT_E_ARG, "pooling", -1, -1, COHORT_POOL_MEAN, (int)p->pooling,
					"pooling is %d, expected mean, cls or last", (int)p->pooling);
		if (p->n_outputs != 1 || p->prompt_logprobs)
			return err_set(err, COHORT_E_ARG, "an embedding has one output and no log-probabilities");
		return COHORT_OK;
	}
	if (!c->lim.logits)
		return err_set(err, COHORT_E_ARG, "the model is an encoder: it has embeddings, and generates nothing");
	return COHORT_OK;
}

static enum cohort_status check_tokens(
		const struct core *c, const cohort_token *tokens, int32_t n, const char *what, struct cohort_err *err)
{
	for (int32_t i = 0; i < n; i++)
		if (tokens[i] < 0 || tokens[i] >= c->lim.n_vocab)
			return err_rule(err, COHORT_E_ARG, "token", i, -1, c->lim.n_vocab, tokens[i],
					"token %d of the %s is %d, outside the vocabulary of %d", i, what, tokens[i],
					c->lim.n_vocab);
	return COHORT_OK;
}

/* Whole blocks that all its outputs together take when they are as long as they may be. */
static int64_t blocks_most(const struct core *c, int64_t n_prompt, int64_t n_max, int64_t n_outputs)
{
	return blocks_needed(c->lim.block_size, n_prompt, n_prompt + (n_max > 1 ? n_max - 1 : 0), n_outputs);
}

/* How many tokens an output may have: as asked, or what is left. The last token sampled needs no cell. */
static enum cohort_status check_length(
		const struct core *c, const struct cohort_request_params *p, int32_t *n_max, struct cohort_err *err)
{
	const int32_t most = c->lim.n_pos_max;
	const bool open_end = p->task == COHORT_TASK_GENERATE && p->max_tokens < 0;
	int64_t n = p->task == COHORT_TASK_EMBED ? 0 : p->max_tokens;

	if (p->n_outputs > c->lim.n_slots)
		return err_rule(err, COHORT_E_LIMIT, "slots", -1, -1, c->lim.n_slots, p->n_outputs,
				"%d outputs of one request; the engine has %d slots", p->n_outputs, c->lim.n_slots);
	const int64_t least = (int64_t)p->n_prompt + (open_end ? 1 : n); /* an open end is one token at least */
	if (least > most)
		return err_rule(err, COHORT_E_LIMIT, "context", -1, -1, most, least,
				"a prompt of %d tokens and %lld to generate come to %lld; there is room for %d",
				p->n_prompt, (long long)(least - p->n_prompt), (long long)least, most);
	if (open_end)
		n = most - p->n_prompt;
	/* What is reserved at once must fit at once; an open end is then as long as it can be. */
	const int64_t n_at_once = c->lim.overcommit ? 1 : p->n_outputs;
	while (c->lim.n_blocks && open_end && n > 1 && blocks_most(c, p->n_prompt, n, n_at_once) > c->lim.n_blocks)
		n -= n > c->lim.block_size ? c->lim.block_size : 1;
	if (c->lim.n_blocks && blocks_most(c, p->n_prompt, n, n_at_once) > c->lim.n_blocks)
		return err_rule(err, COHORT_E_LIMIT, "context", -1, -1, (int64_t)c->lim.n_blocks * c->lim.block_size,
				blocks_most(c, p->n_prompt, n, n_at_once) * c->lim.block_size,
				"%lld outputs of %lld tokens after a prompt of %d need room for %lld; there is room "
				"for %lld",
				(long long)n_at_once, (long long)n, p->n_prompt,
				(long long)blocks_most(c, p->n_prompt, n, n_at_once) * c->lim.block_size,
				(long long)c->lim.n_blocks * c->lim.block_size);
	if (p->n_prompt > policy_prompt_max(c))
		return err_rule(err, COHORT_E_LIMIT, "context", -1, -1, c->lim.n_ubatch, p->n_prompt,
				"a text of %d tokens; the encoder takes at most %d (n_ubatch)", p->n_prompt,
				c->lim.n_ubatch);
	*n_max = (int32_t)n;
	return COHORT_OK;
}

static enum cohort_status check_cheaply(
		const struct core *c, const struct cohort_request_params *p, int32_t *n_max, struct cohort_err *err)
{
	enum cohort_status st = check_numbers(p, err);
	if (!st)
		st = check_task(c, p, err);
	return st ? st : check_length(c, p, n_max, err);
}

enum cohort_status request_check(
		const struct core *c, const struct cohort_request_params *params, struct cohort_err *err)
{
	int32_t n_max;
	return check_cheaply(c, params, &n_max, err);
}

static enum cohort_status check(
		const struct core *c, const struct cohort_request_params *p, int32_t *n_max, struct cohort_err *err)
{
	enum cohort_status st = check_cheaply(c, p, n_max, err);
	if (!st)
		st = check_tokens(c, p->prompt, p->n_prompt, "prompt", err);
	if (!st)
		st = check_tokens(c, p->stop_tokens, p->n_stop_tokens, "stop tokens", err);
	return st;
}

/* ---- Building ---- */

/* Of text, for which memory is there at once: most have four. */
enum { TOKEN_BYTES = 8 };

static enum cohort_status no_memory(struct cohort_err *err)
{
	return err_set(err, COHORT_E_MEMORY, "out of memory for a request");
}

/* The next n elements of a piece of memory; without one, only how far that goes. */
static void *carve(char *piece, size_t *at, size_t n, size_t size)
{
	void *p = piece ? piece + *at : NULL;
	*at += (n * size + 15) / 16 * 16;
	return p;
}

/* Where a request and what nearly every one has lie in a piece of memory; returns how much that takes. */
static size_t lay_out(const struct core *c, const struct cohort_request_params *p, int32_t n_max, char *piece,
		struct cohort_request *r)
{
	const size_t n_outputs = (size_t)p->n_outputs, n_prompt = (size_t)p->n_prompt;
	size_t n = 0;

	carve(piece, &n, 1, sizeof *r);
	r->rests = carve(piece, &n, n_outputs, sizeof *r->rests);
	r->known = carve(piece, &n, n_outputs * (n_prompt + (size_t)n_max), sizeof *r->known);
	r->shown = carve(piece, &n, n_outputs * (size_t)n_max, sizeof *r->shown);
	r->stop_tokens = carve(piece, &n, (size_t)p->n_stop_tokens, sizeof *r->stop_tokens);
	r->hashes = carve(piece, &n, n_prompt / (size_t)c->lim.block_size, sizeof *r->hashes);
	return n;
}

/* Zeroed, in one piece: requests come and go all the time. Their lengths were checked. */
static struct cohort_request *alloc_request(
		const struct core *c, const struct cohort_request_params *p, int32_t n_max)
{
	struct cohort_request unused;
	char *piece = mem_zalloc(1, lay_out(c, p, n_max, NULL, &unused));

	if (piece)
		lay_out(c, p, n_max, piece, (struct cohort_request *)piece);
	return (struct cohort_request *)piece;
}

static enum cohort_status open_sampler(
		const struct core *c, struct stream *s, const struct cohort_request_params *p, struct cohort_err *err)
{
	struct cohort_sampler_params sp = p->sampler;

	sp.stream += (uint64_t)s->index;
	enum cohort_status st = cohort_sampler_open(&sp, c->lim.n_vocab, &s->sampler, err);
	return st ? st : cohort_sampler_prompt(s->sampler, p->prompt, (size_t)p->n_prompt, err);
}

static enum cohort_status open_stream(const struct core *c, struct cohort_request *r, struct stream *s,
		const struct cohort_request_params *p, struct cohort_err *err)
{
	const size_t n = (size_t)r->n_max;

	memcpy(s->known, p->prompt, (size_t)p->n_prompt * sizeof *s->known);
	s->n_known = s->n_prompt = p->n_prompt;
	s->n_max = r->n_max;
	s->priority = p->priority;
	s->client = p->client;
	s->every_row = r->every_row;
	s->limited = p->queue_limit_s > 0 || p->prefill_limit_s > 0 || p->decode_limit_s > 0 || p->total_limit_s > 0;
	s->alone = p->n_outputs == 1;
	s->called = p->on_event;
	s->watched = p->on_ready;
	s->has_stops = p->n_stop_tokens > 0;
	s->sharable = !p->no_reuse && p->task == COHORT_TASK_GENERATE;
	s->has_logprobs = (p->n_logprobs >= 0 || p->chain_logprobs) && p->task == COHORT_TASK_GENERATE;
	if (s->has_logprobs) {
		s->rest->logprobs = mem_alloc(n, sizeof *s->rest->logprobs);
		s->rest->top = mem_alloc(n * (size_t)r->n_top, sizeof *s->rest->top);
		if (p->chain_logprobs)
			s->rest->chain_logprobs = mem_alloc(n, sizeof *s->rest->chain_logprobs);
		if (!s->rest->logprobs || !s->rest->top || (p->chain_logprobs && !s->rest->chain_logprobs))
			return no_memory(err);
	}
	if (!c->lim.model || p->task != COHORT_TASK_GENERATE)
		return COHORT_OK;
	s->has_text = c->lim.text;
	s->makes_text = s->has_text && (r->stops || p->on_event);
	if (s->has_text && !text_init(&s->rest->text, c->lim.model, p->special, p->text_start, r->stops,
					   s->makes_text ? n * TOKEN_BYTES : 0))
		return no_memory(err);
	return open_sampler(c, s, p, err);
}

static enum cohort_status open_prompt(const struct core *c, struct cohort_request *r,
		const struct cohort_request_params *p, struct cohort_err *err)
{
	const size_t size = (size_t)c->lim.block_size, n_whole = (size_t)p->n_prompt / size;

	r->root = (struct prefix_root){p->salt, p->adapter, p->adapter ? p->adapter_scale : 0};
	uint64_t h = prefix_hash_root(&r->root);
	for (size_t i = 0; c->prefix && !p->no_reuse && i < n_whole; i++)
		r->hashes[i] = h = prefix_hash(h, p->prompt + i * size, (int32_t)size);
	if (p->prompt_logprobs) {
		const size_t n = (size_t)p->n_prompt, n_top = (size_t)r->n_top;
		r->prompt_logprobs = mem_zalloc(n, sizeof *r->prompt_logprobs);
		r->prompt_top = mem_alloc(n * n_top, sizeof *r->prompt_top);
		if (!r->prompt_logprobs || !r->prompt_top)
			return no_memory(err);
		for (size_t i = 0; i < n_top; i++)
			r->prompt_top[i] = (struct cohort_logprob){-1, -INFINITY};
	}
	if (p->task == COHORT_TASK_EMBED) {
		r->embedding = mem_zalloc((size_t)c->lim.n_embd, sizeof *r->embedding);
		if (!r->embedding)
			return no_memory(err);
	}
	return COHORT_OK;
}

static enum cohort_status build(const struct core *c, struct cohort_request *r, const struct cohort_request_params *p,
		struct cohort_err *err)
{
	enum cohort_status st = stops_open(p->stops, p->n_stops, &r->stops, err);

	if (st)
		return st;
	if (p->n_stop_tokens > 0)
		memcpy(r->stop_tokens, p->stop_tokens, (size_t)p->n_stop_tokens * sizeof *r->stop_tokens);
	r->streams = hub_take_streams(r->hub, p->n_outputs);
	if (!r->streams)
		return no_memory(err);
	for (int32_t i = 0; i < p->n_outputs; i++) {
		r->streams[i].request = r;
		r->streams[i].rest = &r->rests[i];
		r->streams[i].known = r->known + (size_t)i * (size_t)(p->n_prompt + r->n_max);
		r->rests[i].shown = r->shown + (size_t)i * (size_t)r->n_max;
		r->streams[i].index = i;
		r->streams[i].slot = r->streams[i].node = -1;
	}
	st = open_prompt(c, r, p, err);
	for (int32_t i = 0; !st && i < p->n_outputs; i++)
		st = open_stream(c, r, &r->streams[i], p, err);
	return st;
}

/* Copies live elsewhere; what is left must not dangle. */
static void forget_borrowed(struct cohort_request_params *p)
{
	p->prompt = p->stop_tokens = NULL;
	p->stops = NULL;
	p->sampler = (struct cohort_sampler_params){.struct_size = 0};
}

enum cohort_status request_open(const struct core *c, const struct cohort_request_params *params,
		struct cohort_request **out, struct cohort_err *err)
{
	int32_t n_max;
	enum cohort_status st = check(c, params, &n_max, err);
	if (st)
		return st;
	struct cohort_request_params p = *params;
	struct cohort_request *r = alloc_request(c, &p, n_max);
	if (!r)
		return no_memory(err);
	if (!cond_init(&r->told)) {
		mem_free(r);
		return no_memory(err);
	}
	r->model = c->lim.model;
	r->n_embd = c->lim.n_embd;
	r->hub = c->hub;
	atomic_fetch_add(&r->hub->n_refs, 1);
	atomic_init(&r->n_refs, 1);
	r->p = p;
	r->n_max = n_max;
	r->n_top = p.n_logprobs > 0 ? p.n_logprobs : 0;
	r->at_admitted = r->at_first = r->at_end = -1;
	r->n_live = r->n_untold = p.n_outputs;
	r->every_row = p.prompt_logprobs || n_max == 0;
	r->item = (struct queue_item){.client = p.client, .priority = p.priority, .n_tokens = p.n_prompt};
	st = build(c, r, &p, err);
	forget_borrowed(&r->p);
	if (st) {
		request_unref(r);
		return st;
	}
	atomic_store(&r->n_refs, 2);
	*out = r;
	return COHORT_OK;
}

static void release_stream(struct stream *s)
{
	cohort_sampler_free(s->sampler);
	text_release(&s->rest->text);
	const struct stream_rest *rest = s->rest;
	void *const arrays[] = {rest->logprobs, rest->chain_logprobs, rest->top, rest->swap};
	for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++)
		mem_free(arrays[i]);
}

void request_unref(struct cohort_request *r)
{
	if (atomic_fetch_sub(&r->n_refs, 1) != 1)
		return;
	for (int32_t i = 0; r->streams && i < r->p.n_outputs; i++)
		release_stream(&r->streams[i]);
	hub_give_streams(r->hub, r->streams, r->p.n_outputs);
	stops_free(r->stops);
	void *const arrays[] = {r->prompt_logprobs, r->prompt_top, r->embedding};
	for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++)
		mem_free(arrays[i]);
	cond_release(&r->told);
	hub_unref(r->hub);
	mem_free(r);
}

bool request_has_stop(const struct cohort_request *r, cohort_token token)
{
	for (int32_t i = 0; i < r->p.n_stop_tokens; i++)
		if (r->stop_tokens[i] == token)
			return true;
	return false;
}
