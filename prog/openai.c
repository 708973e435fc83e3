/* Requests as OpenAI's API has them: what all share, and a request's way from a body into the engine.
 *
 * Invariants
 *  1. A body is never believed: each field's type and range is checked before it is used, and what is refused is named.
 *  2. What a body leaves out is the host's default. Unknown fields are ignored, as the API does.
 *  3. Nothing of a request outlives openai_request_release. Of its body only what is still needed lasts as long: the
 *     rest may be a hundred times as large, and requests wait.
 * It does not know how bodies come or answers go. */
#include "openai.h"

#include "common.h"
#include "template_use.h"

#include "base/err.h"
#include "base/mem.h"

#include <stdio.h>
#include <string.h>

bool openai_route_find(const char *path, enum openai_route *out)
{
	static const struct {
		const char *path;
		enum openai_route route;
	} routes[] = {{"/v1/chat/completions", OPENAI_CHAT}, {"/v1/completions", OPENAI_COMPLETIONS},
			{"/v1/embeddings", OPENAI_EMBEDDINGS}};

	for (size_t i = 0; i < sizeof routes / sizeof *routes; i++)
		if (strcmp(path, routes[i].path) == 0) {
			*out = routes[i].route;
			return true;
		}
	return false;
}

/* ---- The host ---- */

/* The text of a token; *out stays NULL if there is none. */
static bool token_text(const struct cohort_model *model, cohort_token t, char **out)
{
	size_t n = 0;
	const char *bytes = t >= 0 ? cohort_token_bytes(model, t, true, &n) : NULL;

	if (bytes)
		*out = mem_strndup(bytes, n);
	return !bytes || *out;
}

static cohort_token front_of(const struct cohort_model *model)
{
	cohort_token ids[8];
	size_t n = 0;

	return !cohort_tokenize(model, "", 0, 0, ids, sizeof ids / sizeof *ids, &n, NULL) && n > 0 &&
					ids[0] == cohort_token_bos(model)
			? ids[0]
			: -1;
}

/* Finds out what the template takes. False: out of memory. */
static bool probe_template(struct openai_host *h)
{
	bool ok = openai_tools_probe(h);

	h->no_system = h->template && !template_takes_system(h->template, h->bos, h->eos, &ok);
	return ok;
}

static enum cohort_status open_template(struct openai_host *h, const char *path, struct cohort_err *err)
{
	struct cohort_gguf *g = NULL;
	struct cohort_gguf_kv kv;
	struct cohort_err why;

	enum cohort_status st = cohort_gguf_open(path, &g, err);
	if (st)
		return st;
	snprintf(h->no_template, sizeof h->no_template, "the model has no chat template; use /v1/completions");
	if (cohort_gguf_kv_find(g, "tokenizer.chat_template", &kv) && kv.value.type == COHORT_GGUF_STRING &&
			cohort_template_open(kv.value.str, kv.value.n_str, &h->template, &why)) {
		snprintf(h->no_template, sizeof h->no_template, "the model's chat template cannot be used: %.180s",
				why.text);
		if (why.status == COHORT_E_MEMORY)
			st = COHORT_E_MEMORY;
	}
	if (h->template && !(h->template_text = mem_strndup(kv.value.str, kv.value.n_str)))
		st = COHORT_E_MEMORY;
	if (st || !token_text(h->model, cohort_token_bos(h->model), &h->bos) ||
			!token_text(h->model, cohort_token_eos(h->model), &h->eos))
		st = err_set(err, COHORT_E_MEMORY, "out of memory");
	cohort_gguf_free(g);
	if (!st && !probe_template(h))
		st = err_set(err, COHORT_E_MEMORY, "out of memory");
	return st;
}

enum cohort_status openai_host_template(
		struct openai_host *h, const char *source, size_t n_bytes, struct cohort_err *err)
{
	struct cohort_template *made = NULL, *before = h->template;
	const enum openai_call_style calls = h->calls;
	const bool no_system = h->no_system;
	char call_open[sizeof h->call_open];

	const enum cohort_status st = cohort_template_open(source, n_bytes, &made, err);
	if (st)
		return st;
	char *text = mem_strndup(source, n_bytes);
	memcpy(call_open, h->call_open, sizeof call_open);
	h->template = made;
	if (!text || !probe_template(h)) {
		mem_free(text);
		h->template = before;
		h->calls = calls;
		h->no_system = no_system;
		memcpy(h->call_open, call_open, sizeof call_open);
		cohort_template_free(made);
		return err_set(err, COHORT_E_MEMORY, "out of memory");
	}
	cohort_template_free(before);
	mem_free(h->template_text);
	h->template_text = text;
	return COHORT_OK;
}

enum cohort_status openai_host_open(struct openai_host *h, const struct cohort_model *model, const char *path,
		const struct cohort_sampler_params *sampler, struct cohort_err *err)
{
	*h = (struct openai_host){.model = model, .sampler = *sampler, .n_chat = -1, .n_completion = 16};
	cohort_model_info_get(model, &h->info);
	h->name = *h->info.name ? h->info.name : h->info.arch;
	/* What the model was trained for, else the mean: as cohort embed has it. */
	h->pooling = h->info.pooling == COHORT_POOL_NONE ? COHORT_POOL_MEAN : h->info.pooling;
	h->front = front_of(model);
	h->has_lock = lock_init(&h->lock);
	enum cohort_status st = h->has_lock ? cohort_lexicon_open(model, &h->lexicon, err)
					    : err_set(err, COHORT_E_MEMORY, "out of memory");
	h->sampler.lexicon = h->lexicon;
	if (!st)
		st = open_template(h, path, err);
	if (st)
		openai_host_release(h);
	return st;
}

int64_t openai_host_room(struct openai_host *h, int64_t n_ctx, int64_t n_slots, int64_t most)
{
	const int64_t each = h->info.n_ctx_train, all = n_slots * each;

	if (n_ctx == 0 && each <= 131072)
		most = most > each ? most : each;
	if (n_ctx == 0)
		n_ctx = all < most ? all : most;
	h->n_fit = ROOM(.model = h->model, .n_ctx = n_ctx).n_pos_max;
	return n_ctx;
}

void openai_host_release(struct openai_host *h)
{
	for (size_t i = 0; i < OPENAI_GRAMMARS; i++) {
		cohort_grammar_free(h->grammars[i].g);
		mem_free(h->grammars[i].text);
	}
	cohort_template_free(h->template);
	mem_free(h->template_text);
	cohort_lexicon_free(h->lexicon);
	mem_free(h->bos);
	mem_free(h->eos);
	if (h->has_lock)
		lock_release(&h->lock);
	*h = (struct openai_host){0};
}

/* ---- A request ---- */

/* Lets go of all of the body but for texts that are borrowed, and fields that are the caller's to read. */
static bool shrink_body(struct openai_request *r, struct openai_error *e)
{
	const char *const names[] = {"model", "stop", "dry_sequence_breakers", "tools", "priority", "deadline_s",
			"session", "cache_salt", r->n_prompts > 0 && r->prompts[0].text ? r->field : NULL};
	json_t *kept = json_object();

	for (size_t i = 0; i < sizeof names / sizeof *names && kept; i++) {
		json_t *v = json_object_get(r->body, names[i]);
		if (v && json_object_set(kept, names[i], v)) {
			json_decref(kept);
			kept = NULL;
		}
	}
	if (!kept)
		return openai_no_memory(e);
	json_decref(r->body);
	r->body = kept;
	return true;
}

static bool parse(struct openai_host *h, enum openai_route route, const char *field, bool takes, bool only_text,
		json_t *body, struct openai_request *r, struct openai_error *e)
{
	static const char *const fields[] = {
			[OPENAI_CHAT] = "messages", [OPENAI_COMPLETIONS] = "prompt", [OPENAI_EMBEDDINGS] = "input"};

	*e = (struct openai_error){0};
	*r = (struct openai_request){.route = route,
			.field = field ? field : fields[route],
			.takes = takes,
			.only_text = only_text,
			.n = 1,
			.best_of = 1,
			.n_logprobs = -1};
	if (!json_is_object(body))
		return openai_refuse(e, NULL, NULL, "the body is %s, expected an object", openai_kind(body));
	r->body = json_incref(body);
	cohort_request_params_init(&r->params);
	r->params.sampler = h->sampler;
	r->params.pooling = h->pooling;
	if (route == OPENAI_EMBEDDINGS)
		r->params.task = COHORT_TASK_EMBED;
	const json_t *model = openai_field(r, "model");
	bool ok = true;
	if (model && !json_is_string(model))
		ok = openai_refuse(e, "model", NULL, "model is %s, expected a string", openai_kind(model));
	else if (model)
		r->model = json_string_value(model);
	if (ok && route != OPENAI_EMBEDDINGS && h->info.encoder)
		ok = openai_refuse(
				e, "model", NULL, "the model is an encoder: it has embeddings, and generates nothing");
	ok = ok && openai_params_read(h, r, e) && openai_prompts_read(h, r, e) && shrink_body(r, e);
	if (!ok)
		openai_request_release(h, r);
	return ok;
}

bool openai_request_parse_field(struct openai_host *h, enum openai_route route, const char *field, json_t *body,
		struct openai_request *r, struct openai_error *e)
{
	return parse(h, route, field, true, false, body, r, e);
}

bool openai_request_parse(struct openai_host *h, enum openai_route route, json_t *body, struct openai_request *r,
		struct openai_error *e)
{
	return parse(h, route, NULL, false, false, body, r, e);
}

bool openai_request_render(struct openai_host *h, json_t *body, struct openai_request *r, struct openai_error *e)
{
	return parse(h, OPENAI_CHAT, NULL, true, true, body, r, e);
}

/* What the engine refused, in the words of the API. */
static bool engine_refused(const struct openai_request *r, const struct cohort_err *err, struct openai_error *e)
{
	const char *rule = err->rule ? err->rule : "";

	if (err->status == COHORT_E_MEMORY)
		return openai_no_memory(e);
	if (strcmp(rule, "context") == 0)
		return openai_refuse(e, r->field, "context_length_exceeded", "%s", err->text);
	if (strcmp(rule, "slots") == 0)
		return openai_refuse(e, "n", NULL, "%s", err->text);
	if (strcmp(rule, "queue-tokens") == 0 && r->params.n_prompt > err->expected) /* however empty it is */
		return openai_refuse(e, r->field, "context_length_exceeded",
				"a prompt of %d tokens; this server's queue takes at most %lld", r->params.n_prompt,
				(long long)err->expected);
	openai_refuse(e, NULL, NULL, "%s", err->text);
	if (strncmp(rule, "queue-", 6) == 0) {
		e->status = 429;
		e->type = "rate_limit_error";
	} else if (strcmp(rule, "closed") == 0 || err->status == COHORT_E_BUG) {
		e->status = err->status == COHORT_E_BUG ? 500 : 503;
		e->type = "server_error";
	}
	return false;
}

bool openai_request_submit(const struct openai_host *h, struct openai_request *r, size_t i,
		struct cohort_engine *engine, struct cohort_request **out, struct openai_error *e)
{
	struct cohort_err err;

	(void)h;
	r->params.prompt = r->tokens + r->prompts[i].first;
	r->params.n_prompt = (int32_t)r->prompts[i].n;
	enum cohort_status st = cohort_engine_submit(engine, &r->params, out, &err);
	if (st == COHORT_E_LIMIT && r->params.max_tokens > 0 && err.rule && strcmp(err.rule, "context") == 0) {
		/* More tokens than the context has room for are as many as it has room for. That depends on the
		 * request alone, not on what else runs. */
		struct cohort_request_params most = r->params;
		most.max_tokens = -1;
		st = cohort_engine_submit(engine, &most, out, &err);
	}
	return !st || engine_refused(r, &err, e);
}

void openai_request_release(struct openai_host *h, struct openai_request *r)
{
	for (size_t i = 0; i < r->n_prompts; i++)
		json_decref(r->prompts[i].choices);
	openai_grammar_put(h, &r->grammar);
	cohort_template_text_free(r->rendered);
	mem_free(r->prompts);
	mem_free(r->tokens);
	mem_free(r->bias);
	mem_free(r->stops);
	mem_free(r->breakers);
	json_decref(r->body);
	*r = (struct openai_request){0};
}
