/* What the engine said, as the JSON of an answer.
 *
 * Invariants
 *  1. Log-probabilities are listed for the tokens of the text and for no others: not for the token that ended it, nor
 *     for those that a stop string cut off.
 *  2. JSON has no infinity: a token that cannot come has -9999, as OpenAI writes it. */
#include "openai.h"

#include "base/mem.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* Log-probabilities of one output as they come. In a chat the first list has it all. */
struct lists {
	json_t *tokens, *logprobs, *tops;
};

static void lists_release(struct lists *l)
{
	json_decref(l->tokens);
	json_decref(l->logprobs);
	json_decref(l->tops);
}

static bool lists_init(struct lists *l)
{
	*l = (struct lists){json_array(), json_array(), json_array()};
	return l->tokens && l->logprobs && l->tops;
}

static json_t *number(double x)
{
	return json_real(isfinite(x) ? x : x > 0 ? 9999.0 : -9999.0);
}

static const char *token_bytes(const struct openai_host *h, cohort_token t, size_t *n)
{
	*n = 0;
	const char *bytes = cohort_token_bytes(h->model, t, true, n);
	return bytes ? bytes : "";
}

/* ---- Log-probabilities of a chat ---- */

/* {"token", "logprob", "bytes"} */
static json_t *chat_token(const struct openai_host *h, cohort_token t, double logprob)
{
	size_t n;
	const char *text = token_bytes(h, t, &n);
	json_t *bytes = json_array();
	int bad = bytes ? 0 : -1;

	for (size_t i = 0; i < n && !bad; i++)
		bad |= json_array_append_new(bytes, json_integer((unsigned char)text[i]));
	json_t *out = bad ? NULL
			  : json_pack("{s:o, s:o, s:O}", "token", openai_text(text, n), "logprob", number(logprob),
					    "bytes", bytes);
	json_decref(bytes);
	return out;
}

static bool add_chat(const struct openai_host *h, struct lists *l, cohort_token t, double logprob,
		const struct cohort_logprob *top, int32_t n_top)
{
	json_t *entry = chat_token(h, t, logprob), *list = json_array();
	int bad = entry && list ? 0 : -1;

	for (int32_t i = 0; i < n_top && top[i].token >= 0 && !bad; i++)
		bad |= json_array_append_new(list, chat_token(h, top[i].token, (double)top[i].logprob));
	bad |= json_object_set_new(entry, "top_logprobs", list);
	return json_array_append_new(l->tokens, entry) == 0 && !bad;
}

/* ---- Log-probabilities of a completion ---- */

/* A token's text, which is a key as well: bytes that are no text are written out. */
static json_t *legacy_token(const struct openai_host *h, cohort_token t)
{
	size_t n;
	const char *bytes = token_bytes(h, t, &n);
	json_t *s = memchr(bytes, 0, n) ? NULL : json_stringn(bytes, n);
	struct openai_buf b = {0};

	if (s)
		return s;
	bool ok = openai_buf_add(&b, "bytes:", 6);
	for (size_t i = 0; i < n && ok; i++) {
		char hex[8];
		snprintf(hex, sizeof hex, "\\x%02x", (unsigned char)bytes[i]);
		ok = openai_buf_add(&b, hex, 4);
	}
	s = ok ? json_stringn(b.p, b.n) : NULL;
	openai_buf_release(&b);
	return s;
}

static int set_top(const struct openai_host *h, json_t *tops, cohort_token t, double logprob)
{
	json_t *key = legacy_token(h, t);
	int bad = key ? 0 : -1;

	/* Of several tokens with one text the likeliest stays. */
	if (key && !json_object_get(tops, json_string_value(key)))
		bad = json_object_set_new(tops, json_string_value(key), number(logprob));
	json_decref(key);
	return bad;
}

static bool add_legacy(const struct openai_host *h, struct lists *l, cohort_token t, double logprob,
		const struct cohort_logprob *top, int32_t n_top)
{
	json_t *tops = n_top > 0 ? json_object() : json_null();
	int bad = tops ? 0 : -1;

	for (int32_t i = 0; i < n_top && top[i].token >= 0 && !bad; i++)
		bad |= set_top(h, tops, top[i].token, (double)top[i].logprob);
	if (n_top > 0 && !bad)
		bad |= set_top(h, tops, t, logprob); /* the token itself is always among them */
	bad |= json_array_append_new(l->tops, tops);
	bad |= json_array_append_new(l->tokens, legacy_token(h, t));
	bad |= json_array_append_new(l->logprobs, number(logprob));
	return !bad;
}

/* The prompt's own, when it is echoed. The first token has nothing before it. */
static bool add_prompt(const struct openai_host *h, const struct openai_request *r, struct lists *l,
		const struct cohort_event *ev)
{
	const cohort_token *tokens = r->params.prompt;

	for (int32_t i = 0; i < ev->n_prompt; i++)
		if (!add_legacy(h, l, tokens[i], (double)ev->prompt_logprobs[i], ev->prompt_top + i * ev->n_top,
				    ev->n_top))
			return false;
	return ev->n_prompt < 1 ||
			(json_array_set_new(l->logprobs, 0, json_null()) == 0 &&
					json_array_set_new(l->tops, 0, json_null()) == 0);
}

/* ---- One output ---- */

/* Tokens that the text is made of. */
static int32_t tokens_shown(const struct openai_host *h, const struct cohort_output *o)
{
	size_t at = 0;
	int32_t n = o->n_tokens;

	if (o->finish == COHORT_FINISH_EOG)
		return n > 0 ? n - 1 : 0;
	if (o->finish != COHORT_FINISH_STOP)
		return n;
	for (int32_t i = 0; i < n; i++) {
		size_t len = 0;
		cohort_token_bytes(h->model, o->tokens[i], false, &len);
		if (at >= o->n_bytes)
			return i;
		at += len;
	}
	return n;
}

static size_t count_chars(const char *text, size_t n)
{
	size_t chars = 0;
	for (size_t i = 0; i < n; i++)
		chars += ((unsigned char)text[i] & 0xc0) != 0x80;
	return chars;
}

/* Where each token begins in the text, in characters. n_skip bytes of the first tokens are not in the text: the space
 * that some tokenisers put in front. */
static bool add_offsets(const struct openai_host *h, json_t *offsets, const cohort_token *tokens, int32_t n,
		size_t n_skip, const char *text, size_t n_text, size_t base)
{
	size_t at = 0, seen = 0, chars = 0;

	for (int32_t i = 0; i < n; i++) {
		size_t len = 0, to = at > n_skip ? at - n_skip : 0;
		to = to < n_text ? to : n_text;
		chars += count_chars(text + seen, to - seen);
		seen = to;
		if (json_array_append_new(offsets, json_integer((json_int_t)(base + chars))))
			return false;
		cohort_token_bytes(h->model, tokens[i], false, &len);
		at += len;
	}
	return true;
}

static size_t bytes_of(const struct openai_host *h, const cohort_token *tokens, size_t n)
{
	size_t sum = 0;
	for (size_t i = 0; i < n; i++) {
		size_t len = 0;
		cohort_token_bytes(h->model, tokens[i], false, &len);
		sum += len;
	}
	return sum;
}

static void cut(json_t *list, size_t n)
{
	while (json_array_size(list) > n)
		json_array_remove(list, json_array_size(list) - 1);
}

/* New reference; NULL: out of memory. */
static json_t *logprobs_json(const struct openai_host *h, const struct openai_request *r, const struct openai_prompt *p,
		const struct cohort_output *o, struct lists *l, const char *echo, size_t n_echo)
{
	const int32_t n_shown = tokens_shown(h, o);
	const size_t n_before = r->echo ? p->n : 0;

	cut(l->tokens, n_before + (size_t)n_shown);
	if (r->route == OPENAI_CHAT)
		return json_pack("{s:O, s:n}", "content", l->tokens, "refusal");
	cut(l->logprobs, n_before + (size_t)n_shown);
	cut(l->tops, n_before + (size_t)n_shown);
	json_t *offsets = json_array();
	bool ok = offsets != NULL;
	if (ok && n_before > 0) {
		const cohort_token *prompt = r->tokens + p->first;
		const size_t n = bytes_of(h, prompt, p->n);
		ok = add_offsets(h, offsets, prompt, (int32_t)p->n, n > n_echo ? n - n_echo : 0, echo, n_echo, 0);
	}
	ok = ok && add_offsets(h, offsets, o->tokens, n_shown, 0, o->text, o->n_bytes, count_chars(echo, n_echo));
	json_t *out = ok ? json_pack("{s:O, s:O, s:O, s:O}", "tokens", l->tokens, "token_logprobs", l->logprobs,
					   "top_logprobs", l->tops, "text_offset", offsets)
			 : NULL;
	json_decref(offsets);
	return out;
}

static json_t *choice_json(const struct openai_host *h, const struct openai_request *r, size_t i_prompt, size_t index,
		const struct cohort_output *o, struct lists *l, const char *echo, size_t n_echo)
{
	const struct openai_prompt *p = &r->prompts[i_prompt];
	const char *why = o->finish == COHORT_FINISH_LENGTH ? "length" : "stop";
	json_t *logprobs = r->n_logprobs >= 0 ? logprobs_json(h, r, p, o, l, echo, n_echo) : json_null();
	const json_int_t at = (json_int_t)(i_prompt * (size_t)r->n + index);

	if (r->route == OPENAI_CHAT)
		return json_pack("{s:I, s:{s:s, s:o, s:n}, s:o, s:s}", "index", at, "message", "role", "assistant",
				"content", openai_text(o->text, o->n_bytes), "refusal", "logprobs", logprobs,
				"finish_reason", why);
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

/* The engine failed, not the request. */
static bool broken(const struct cohort_err *err, struct openai_error *e)
{
	if (err->status == COHORT_E_MEMORY)
		return openai_no_memory(e);
	openai_refuse(e, NULL, NULL, "%s", err->text);
	e->status = 500;
	e->type = "server_error";
	return false;
}

struct outputs {
	struct lists *lists; /* [n] */
	struct cohort_output *o; /* [n] */
	double *score; /* [n] mean log-probability */
	int32_t n;
	char *echo;
	size_t n_echo;
};

static void outputs_release(struct outputs *a)
{
	for (int32_t i = 0; a->lists && i < a->n; i++)
		lists_release(&a->lists[i]);
	mem_free(a->lists);
	mem_free(a->o);
	mem_free(a->score);
	mem_free(a->echo);
}

/* The prompt's text: as it came, or that of its tokens. */
static bool read_echo(const struct openai_host *h, const struct openai_request *r, const struct openai_prompt *p,
		struct outputs *a)
{
	const cohort_token *tokens = r->tokens + p->first;

	if (!r->echo)
		return true;
	if (p->text) {
		a->echo = mem_strndup(p->text, p->n_text);
		a->n_echo = p->n_text;
		return a->echo != NULL;
	}
	cohort_detokenize(h->model, tokens, p->n, false, NULL, 0, &a->n_echo, NULL);
	a->echo = mem_alloc(a->n_echo + 1, 1);
	return a->echo && !cohort_detokenize(h->model, tokens, p->n, false, a->echo, a->n_echo, &a->n_echo, NULL);
}

static bool read_events(const struct openai_host *h, const struct openai_request *r, struct cohort_request *handle,
		struct outputs *a, struct openai_error *e)
{
	struct cohort_event ev;
	struct cohort_err err;
	bool ok = true;

	do {
		if (cohort_request_next(handle, 0, &ev, &err))
			return broken(&err, e);
		if (r->n_logprobs < 0)
			continue;
		if (ev.kind == COHORT_EVENT_PROMPT)
			for (int32_t i = 0; i < a->n && ok; i++)
				ok = add_prompt(h, r, &a->lists[i], &ev);
		else if (ev.kind == COHORT_EVENT_TOKEN)
			ok = (r->route == OPENAI_CHAT ? add_chat : add_legacy)(
					h, &a->lists[ev.output], ev.token, (double)ev.logprob, ev.top, ev.n_top);
	} while (ok && ev.kind != COHORT_EVENT_DONE && ev.kind != COHORT_EVENT_NONE);
	return ok || openai_no_memory(e);
}

/* An output that did not end by itself makes the whole request fail. */
static bool check_end(const struct cohort_output *o, struct openai_error *e)
{
	if (o->finish == COHORT_FINISH_EOG || o->finish == COHORT_FINISH_STOP || o->finish == COHORT_FINISH_LENGTH)
		return true;
	openai_refuse(e, NULL, cohort_finish_name(o->finish), "%s",
			o->error ? o->error->text : "the request was not finished");
	e->status = o->finish == COHORT_FINISH_ERROR ? 500 : 503;
	e->type = "server_error";
	if (o->error && o->error->status == COHORT_E_MEMORY)
		e->code = OPENAI_NO_MEMORY;
	return false;
}

static bool read_outputs(struct cohort_request *handle, struct outputs *a, struct openai_error *e)
{
	for (int32_t i = 0; i < a->n; i++) {
		struct cohort_output *o = &a->o[i];
		struct cohort_err err;
		if (cohort_request_output_get(handle, i, o, &err))
			return broken(&err, e);
		if (!check_end(o, e))
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
		ok = lists_init(&a.lists[k]);
	ok = (ok && read_echo(h, r, p, &a)) || openai_no_memory(e);
	ok = ok && read_events(h, r, handle, &a, e) && read_outputs(handle, &a, e);
	p->choices = ok ? json_array() : NULL;
	for (int64_t k = 0; k < r->n && ok; k++) {
		const int32_t from = r->best_of > r->n ? take_best(&a) : (int32_t)k;
		json_t *choice = choice_json(
				h, r, i, (size_t)k, &a.o[from], &a.lists[from], a.echo ? a.echo : "", a.n_echo);
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
		if (json_array_append_new(out, number((double)unit[i]))) {
			json_decref(out);
			out = NULL;
		}
	mem_free(unit);
	return out;
}

static bool take_embedding(struct openai_request *r, size_t i, struct cohort_request *handle, struct openai_error *e)
{
	struct cohort_output o = {.finish = COHORT_FINISH_NONE};
	struct cohort_event ev;
	struct cohort_err err;
	json_t *x = NULL;
	bool got = false;

	do {
		if (cohort_request_next(handle, 0, &ev, &err)) {
			json_decref(x);
			return broken(&err, e);
		}
		if (ev.kind == COHORT_EVENT_EMBEDDING) {
			got = true;
			json_decref(x);
			x = embedding_json(r, ev.embedding, ev.n_embd);
		} else if (ev.kind == COHORT_EVENT_END && ev.finish != COHORT_FINISH_EMBEDDED) {
			o.finish = ev.finish;
			o.error = ev.error;
			json_decref(x);
			return check_end(&o, e);
		}
	} while (ev.kind != COHORT_EVENT_DONE && ev.kind != COHORT_EVENT_NONE);
	if (!got)
		return check_end(&o, e);
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
