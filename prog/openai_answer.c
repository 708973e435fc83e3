/* What the engine said, as the JSON of an answer.
 *
 * Invariants
 *  1. Log-probabilities are listed for the tokens of the text and for no others: not for the token that ended it, nor
 *     for those that a stop string cut off. */
#include "openai.h"

#include "base/mem.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- One output ---- */

/* Tokens that the text is made of. */
static int32_t tokens_shown(
		const struct openai_host *h, const struct openai_request *r, const struct cohort_output *o)
{
	size_t at = 0;
	int32_t n = o->n_tokens;

	if (o->finish == COHORT_FINISH_EOG)
		return n > 0 ? n - 1 : 0;
	if (o->finish != COHORT_FINISH_STOP)
		return n;
	for (int32_t i = 0; i < n; i++) {
		if (at >= o->n_bytes)
			return i;
		at += openai_token_size(h, r, o->tokens[i]);
	}
	return n;
}

static void cut(json_t *list, size_t n)
{
	while (json_array_size(list) > n)
		json_array_remove(list, json_array_size(list) - 1);
}

/* New reference; NULL: out of memory. */
static json_t *logprobs_json(const struct openai_host *h, const struct openai_request *r, const struct openai_prompt *p,
		const struct cohort_output *o, struct openai_lists *l, const char *echo, size_t n_echo)
{
	const size_t n_shown = (size_t)tokens_shown(h, r, o), n_before = r->echo ? p->n : 0;
	bool ok = true;

	cut(l->tokens, n_before + n_shown);
	cut(l->logprobs, n_before + n_shown);
	cut(l->tops, n_before + n_shown);
	if (r->echo)
		ok = openai_lists_add_echo(h, r, l, p, echo, n_echo);
	if (r->route == OPENAI_COMPLETIONS)
		ok = ok &&
				openai_lists_add_offsets(h, r, l, o->tokens, n_shown, 0, o->text, o->n_bytes,
						openai_count_chars(echo, n_echo));
	return ok ? openai_lists_json(r, l) : NULL;
}

/* New reference; NULL: out of memory. */
static json_t *message_json(const struct openai_request *r, size_t index, const struct cohort_output *o, bool *called)
{
	struct openai_calls finder = {0};
	struct openai_buf text = {0};
	json_t *out = NULL;

	if (!r->calls)
		return json_pack("{s:s, s:o, s:n}", "role", "assistant", "content", openai_text(o->text, o->n_bytes),
				"refusal");
	json_t *calls = json_array();
	if (calls && openai_calls_feed(&finder, r, index, o->text, o->n_bytes, true, &text, calls)) {
		*called = json_array_size(calls) > 0;
		out = json_pack("{s:s, s:o, s:n}", "role", "assistant", "content",
				*called && text.n == 0 ? json_null() : openai_text(text.p, text.n), "refusal");
		if (*called && json_object_set(out, "tool_calls", calls)) {
			json_decref(out);
			out = NULL;
		}
	}
	json_decref(calls);
	openai_calls_release(&finder);
	openai_buf_release(&text);
	return out;
}

static json_t *choice_json(const struct openai_host *h, const struct openai_request *r, size_t i_prompt, size_t index,
		const struct cohort_output *o, struct openai_lists *l, const char *echo, size_t n_echo)
{
	const struct openai_prompt *p = &r->prompts[i_prompt];
	const char *why = o->finish == COHORT_FINISH_LENGTH ? "length" : "stop";
	json_t *logprobs = r->n_logprobs >= 0 ? logprobs_json(h, r, p, o, l, echo, n_echo) : json_null();
	const json_int_t at = (json_int_t)(i_prompt * (size_t)r->n + index);

	if (r->route == OPENAI_CHAT) {
		bool called = false;
		json_t *message = message_json(r, (size_t)at, o, &called);
		return json_pack("{s:I, s:o, s:o, s:s}", "index", at, "message", message, "logprobs", logprobs,
				"finish_reason", called && o->finish != COHORT_FINISH_LENGTH ? "tool_calls" : why);
	}
	struct openai_buf text = {0};
	json_t *out = NULL;
	if (openai_buf_add(&text, echo, n_echo) && openai_buf_add(&text, o->text, o->n_bytes))
		out = json_pack("{s:o, s:I, s:o, s:s}", "text", openai_text(text.p, text.n), "index", at, "logprobs",
				logprobs, "finish_reason", why);
	else
		json_decref(logprobs);
	openai_buf_release(&text);
	return out;
}

/* ---- All outputs of a prompt ---- */

bool openai_broken(const struct cohort_err *err, struct openai_error *e)
{
	if (err->status == COHORT_E_MEMORY)
		return openai_no_memory(e);
	openai_refuse(e, NULL, NULL, "%s", err->text);
	e->status = 500;
	e->type = "server_error";
	return false;
}

struct outputs {
	struct openai_lists *lists; /* [n] */
	struct cohort_output *o; /* [n] */
	double *score; /* [n] mean log-probability */
	int32_t n;
	char *echo_own;
	const char *echo;
	size_t n_echo;
};

static void outputs_release(struct outputs *a)
{
	for (int32_t i = 0; a->lists && i < a->n; i++)
		openai_lists_release(&a->lists[i]);
	mem_free(a->lists);
	mem_free(a->o);
	mem_free(a->score);
	mem_free(a->echo_own);
}

bool openai_echo(const struct openai_host *h, const struct openai_request *r, size_t i, char **own, const char **text,
		size_t *n)
{
	const struct openai_prompt *p = &r->prompts[i];
	const cohort_token *tokens = r->tokens + p->first;

	*own = NULL;
	*text = "";
	*n = 0;
	if (!r->echo)
		return true;
	if (p->text) {
		*text = p->text;
		*n = p->n_text;
		return true;
	}
	cohort_detokenize(h->model, tokens, p->n, false, NULL, 0, n, NULL);
	*own = mem_alloc(*n + 1, 1);
	*text = *own;
	return *own && !cohort_detokenize(h->model, tokens, p->n, false, *own, *n, n, NULL);
}

/* The prompt's lists for all outputs: values are made once and shared, as twenty log-probabilities of each of its
 * tokens are many. */
static bool add_prompt(const struct openai_host *h, const struct openai_request *r, const struct cohort_event *ev,
		struct outputs *a)
{
	struct openai_lists *first = &a->lists[0];
	bool ok = openai_lists_add_prompt(h, first, r->params.prompt, ev);

	for (int32_t i = 1; i < a->n && ok; i++)
		ok = !json_array_extend(a->lists[i].tokens, first->tokens) &&
				!json_array_extend(a->lists[i].logprobs, first->logprobs) &&
				!json_array_extend(a->lists[i].tops, first->tops);
	return ok;
}

static bool read_events(const struct openai_host *h, const struct openai_request *r, struct cohort_request *handle,
		struct outputs *a, struct openai_error *e)
{
	struct cohort_event ev;
	struct cohort_err err;
	bool ok = true;

	do {
		if (cohort_request_next(handle, 0, &ev, &err))
			return openai_broken(&err, e);
		if (r->n_logprobs < 0)
			continue;
		if (ev.kind == COHORT_EVENT_PROMPT)
			ok = add_prompt(h, r, &ev, a);
		else if (ev.kind == COHORT_EVENT_TOKEN)
			ok = openai_lists_add(
					h, r, &a->lists[ev.output], ev.token, ev.logprob, ev.top, ev.n_top);
	} while (ok && ev.kind != COHORT_EVENT_DONE && ev.kind != COHORT_EVENT_NONE);
	return ok || openai_no_memory(e);
}

bool openai_check_end(enum cohort_finish finish, const struct cohort_err *error, struct openai_error *e)
{
	if (finish == COHORT_FINISH_EOG || finish == COHORT_FINISH_STOP || finish == COHORT_FINISH_LENGTH)
		return true;
	const char *rule = error && error->rule ? error->rule : "";

	openai_refuse(e, NULL, cohort_finish_name(finish), "%s", error ? error->text : "the request was not finished");
	/* What the request itself asked for cannot be followed: its grammar or schema, or its biases. */
	if (finish == COHORT_FINISH_ERROR && (strcmp(rule, "grammar") == 0 || strcmp(rule, "excluded") == 0)) {
		e->code = "impossible_constraint";
		return false;
	}
	e->status = finish == COHORT_FINISH_ERROR ? 500 : 503;
	e->type = "server_error";
	if (error && error->status == COHORT_E_MEMORY)
		e->code = OPENAI_NO_MEMORY;
	return false;
}

static bool read_outputs(struct cohort_request *handle, struct outputs *a, struct openai_error *e)
{
	for (int32_t i = 0; i < a->n; i++) {
		struct cohort_output *o = &a->o[i];
		struct cohort_err err;
		if (cohort_request_output_get(handle, i, o, &err))
			return openai_broken(&err, e);
		if (!openai_check_end(o->finish, o->error, e))
			return false;
		for (int32_t k = 0; o->logprobs && k < o->n_tokens; k++)
			a->score[i] += (double)o->logprobs[k] / o->n_tokens;
	}
	return true;
}

/* The best output that was not taken yet. */
static int32_t take_best(struct outputs *a)
{
	int32_t best = 0;
	for (int32_t i = 1; i < a->n; i++)
		if (a->score[i] > a->score[best])
			best = i;
	a->score[best] = -INFINITY;
	return best;
}

static bool take_texts(const struct openai_host *h, struct openai_request *r, size_t i, struct cohort_request *handle,
		struct openai_error *e)
{
	struct openai_prompt *p = &r->prompts[i];
	struct outputs a = {.n = r->params.n_outputs};
	const size_t n = (size_t)a.n;

	r->params.prompt = r->tokens + p->first;
	a.lists = mem_zalloc(n, sizeof *a.lists);
	a.o = mem_zalloc(n, sizeof *a.o);
	a.score = mem_zalloc(n, sizeof *a.score);
	bool ok = a.lists && a.o && a.score;
	for (size_t k = 0; k < n && ok && r->n_logprobs >= 0; k++)
		ok = openai_lists_init(&a.lists[k]);
	ok = (ok && openai_echo(h, r, i, &a.echo_own, &a.echo, &a.n_echo)) || openai_no_memory(e);
	ok = ok && read_events(h, r, handle, &a, e) && read_outputs(handle, &a, e);
	p->choices = ok ? json_array() : NULL;
	for (int64_t k = 0; k < r->n && ok; k++) {
		const int32_t from = r->best_of > r->n ? take_best(&a) : (int32_t)k;
		json_t *choice = choice_json(
				h, r, i, (size_t)k, &a.o[from], &a.lists[from], a.echo, a.n_echo);
		if (json_array_append_new(p->choices, choice))
			ok = openai_no_memory(e);
	}
	outputs_release(&a);
	return ok;
}

/* ---- Embeddings ---- */

static json_t *base64_json(const float *x, int32_t n)
{
	static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
	const size_t n_bytes = (size_t)n * 4;
	char *out = mem_alloc((n_bytes + 2) / 3 * 4 + 1, 1), *p = out;
	json_t *text = NULL;

	for (size_t i = 0; out && i < n_bytes; i += 3) {
		uint32_t bits = 0;
		for (size_t k = 0; k < 3; k++) {
			uint32_t word = 0;
			if (i + k < n_bytes)
				memcpy(&word, x + (i + k) / 4, 4);
			bits = bits << 8 | (word >> (i + k) % 4 * 8 & 255); /* little-endian, whatever we are */
		}
		for (size_t k = 0; k < 4; k++)
			*p++ = i + k > n_bytes ? '=' : digits[bits >> (18 - 6 * k) & 63];
	}
	if (out)
		text = json_stringn(out, (size_t)(p - out));
	mem_free(out);
	return text;
}

static json_t *embedding_json(const struct openai_request *r, const float *x, int32_t n)
{
	float *unit = mem_alloc((size_t)n, sizeof *unit);
	double sum = 0;
	json_t *out = NULL;

	for (int32_t i = 0; i < n; i++)
		sum += (double)x[i] * (double)x[i];
	for (int32_t i = 0; unit && i < n; i++)
		unit[i] = (float)(sum > 0 ? (double)x[i] / sqrt(sum) : 0);
	if (unit && r->base64)
		out = base64_json(unit, n);
	else if (unit)
		out = json_array();
	for (int32_t i = 0; out && !r->base64 && i < n; i++)
		if (json_array_append_new(out, openai_number((double)unit[i]))) {
			json_decref(out);
			out = NULL;
		}
	mem_free(unit);
	return out;
}

static bool take_embedding(struct openai_request *r, size_t i, struct cohort_request *handle, struct openai_error *e)
{
	struct cohort_event ev;
	struct cohort_err err;
	json_t *x = NULL;
	bool got = false;

	do {
		if (cohort_request_next(handle, 0, &ev, &err)) {
			json_decref(x);
			return openai_broken(&err, e);
		}
		if (ev.kind == COHORT_EVENT_EMBEDDING) {
			got = true;
			json_decref(x);
			x = embedding_json(r, ev.embedding, ev.n_embd);
		} else if (ev.kind == COHORT_EVENT_END && ev.finish != COHORT_FINISH_EMBEDDED) {
			json_decref(x);
			return openai_check_end(ev.finish, ev.error, e);
		}
	} while (ev.kind != COHORT_EVENT_DONE && ev.kind != COHORT_EVENT_NONE);
	if (!got)
		return openai_check_end(COHORT_FINISH_NONE, NULL, e);
	r->prompts[i].choices = x
			? json_pack("{s:s, s:I, s:o}", "object", "embedding", "index", (json_int_t)i, "embedding", x)
			: NULL;
	return r->prompts[i].choices || openai_no_memory(e);
}

bool openai_request_take(const struct openai_host *h, struct openai_request *r, size_t i, struct cohort_request *handle,
		struct openai_error *e)
{
	struct cohort_request_stats s;

	*e = (struct openai_error){0};
	if (!(r->route == OPENAI_EMBEDDINGS ? take_embedding(r, i, handle, e) : take_texts(h, r, i, handle, e)))
		return false;
	cohort_request_stats_get(handle, &s);
	r->n_prompt_tokens += s.n_prompt;
	r->n_cached += s.n_cached;
	r->n_generated += s.n_generated;
	r->prompts[i].taken = true;
	return true;
}

/* ---- The whole ---- */

json_t *openai_response(const struct openai_host *h, struct openai_request *r, const char *id, int64_t created)
{
	const json_int_t n_in = r->n_prompt_tokens, n_out = r->n_generated;
	json_t *list = json_array();
	int bad = list ? 0 : -1;

	for (size_t i = 0; i < r->n_prompts && !bad; i++) {
		if (r->route == OPENAI_EMBEDDINGS)
			bad |= json_array_append(list, r->prompts[i].choices);
		else
			bad |= json_array_extend(list, r->prompts[i].choices);
	}
	if (bad) {
		json_decref(list);
		return NULL;
	}
	json_t *name = openai_text(h->name, strlen(h->name));
	if (r->route == OPENAI_EMBEDDINGS)
		return json_pack("{s:s, s:o, s:o, s:{s:I, s:I}}", "object", "list", "data", list, "model", name,
				"usage", "prompt_tokens", n_in, "total_tokens", n_in);
	return json_pack("{s:s, s:s, s:I, s:o, s:o, s:{s:I, s:I, s:I, s:{s:I}}}", "id", id, "object",
			r->route == OPENAI_CHAT ? "chat.completion" : "text_completion", "created", (json_int_t)created,
			"model", name, "choices", list, "usage", "prompt_tokens", n_in, "completion_tokens", n_out,
			"total_tokens", n_in + n_out, "prompt_tokens_details", "cached_tokens",
			(json_int_t)r->n_cached);
}
