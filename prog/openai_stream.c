/* A request's answer as server-sent events, while the engine works on it.
 *
 * Invariants
 *  1. The pieces of a choice, put together, are the text and the log-probabilities of the answer as a whole
 *     (openai_answer.c), byte for byte.
 *  2. A token's log-probabilities go out with the event that shows the first of its bytes: what may yet become a stop
 *     string has not been shown, so what is told is never taken back.
 *  3. Whole events only: when memory runs out the buffer ends where it did before the call.
 *  4. An event of plain text is written by hand and allocates nothing but the buffer's room.
 *  5. One error at most, no event of a choice behind it, and one end.
 * It does not know how events are sent. */
#include "openai.h"

#include "base/mem.h"

#include <stdio.h>
#include <string.h>

/* A token whose place in the text has not been shown yet. */
struct waiting {
	cohort_token token;
	float logprob;
	size_t at; /* bytes before it in the output */
};

struct openai_stream_choice {
	struct openai_escape text;
	size_t at; /* bytes of all tokens so far */
	size_t n_shown; /* of these, told by the engine */
	size_t n_chars; /* characters before n_shown, with the echo's */
	struct waiting *waiting; /* [n_waiting], the first i_waiting of them are gone */
	size_t n_waiting, i_waiting, n_waiting_max;
	struct cohort_logprob *tops; /* [n_waiting, n_logprobs] */
	size_t n_tops_max;
	struct openai_calls calls; /* of a request with tools */
	int n_calls; /* told so far */
	bool ended;
};

static bool put(struct openai_buf *b, const char *text)
{
	return openai_buf_add(b, text, strlen(text));
}

/* ---- Log-probabilities ---- */

/* The tokens that are gone make room: each is moved once for every doubling at most. */
static void compact(struct openai_stream_choice *c, size_t n_top)
{
	if (c->i_waiting < c->n_waiting - c->i_waiting)
		return;
	const size_t n = c->n_waiting - c->i_waiting;
	if (n > 0) {
		memmove(c->waiting, c->waiting + c->i_waiting, n * sizeof *c->waiting);
		if (n_top > 0)
			memmove(c->tops, c->tops + c->i_waiting * n_top, n * n_top * sizeof *c->tops);
	}
	c->n_waiting = n;
	c->i_waiting = 0;
}

static bool wait_token(const struct openai_stream *s, struct openai_stream_choice *c, const struct cohort_event *ev)
{
	const struct openai_request *r = s->r;
	const size_t at = c->at, n_top = (size_t)(r->n_logprobs > 0 ? r->n_logprobs : 0);

	c->at += openai_token_size(s->host, r, ev->token);
	/* The model's last word is no part of the text. */
	if (r->n_logprobs < 0 || (cohort_token_is_eog(s->host->model, ev->token) && !r->params.ignore_eos))
		return true;
	compact(c, n_top);
	if (!mem_grow((void **)&c->waiting, &c->n_waiting_max, c->n_waiting + 1, sizeof *c->waiting) ||
			!mem_grow((void **)&c->tops, &c->n_tops_max, (c->n_waiting + 1) * n_top, sizeof *c->tops))
		return false;
	struct cohort_logprob *top = n_top > 0 ? c->tops + c->n_waiting * n_top : NULL;
	for (size_t i = 0; i < n_top; i++)
		top[i] = i < (size_t)ev->n_top ? ev->top[i] : (struct cohort_logprob){.token = -1};
	c->waiting[c->n_waiting++] = (struct waiting){ev->token, ev->logprob, at};
	return true;
}

/* Tokens that begin in text[0 .. n), which comes behind what was shown; all: those behind it, too. */
static bool take_waiting(const struct openai_stream *s, struct openai_stream_choice *c, const char *text, size_t n,
		bool all, struct openai_lists *l)
{
	const int32_t n_top = s->r->n_logprobs > 0 ? s->r->n_logprobs : 0;
	size_t seen = 0, chars = c->n_chars;
	bool ok = true;

	for (; c->i_waiting < c->n_waiting && ok; c->i_waiting++) {
		const struct waiting *w = &c->waiting[c->i_waiting];
		const struct cohort_logprob *top = n_top > 0 ? c->tops + c->i_waiting * (size_t)n_top : NULL;
		size_t to = w->at > c->n_shown ? w->at - c->n_shown : 0;
		if (w->at >= c->n_shown + n && !all)
			break;
		to = to < n ? to : n;
		chars += openai_count_chars(text + seen, to - seen);
		seen = to;
		ok = openai_lists_add(s->host, s->r, l, w->token, w->logprob, top, n_top);
		if (ok && s->r->route == OPENAI_COMPLETIONS)
			ok = json_array_append_new(l->offsets, json_integer((json_int_t)chars)) == 0;
	}
	return ok;
}

/* ---- Events ---- */

static bool begin_event(const struct openai_stream *s, size_t index, struct openai_buf *out)
{
	char number[40];

	snprintf(number, sizeof number, "{\"index\":%zu,", index);
	return openai_buf_add(out, s->head.p, s->head.n) && put(out, number);
}

static bool end_event(
		const struct openai_stream *s, const struct openai_lists *l, const char *finish, struct openai_buf *out)
{
	bool ok = put(out, ",\"logprobs\":");

	if (ok && l) {
		json_t *logprobs = openai_lists_json(s->r, l);
		ok = openai_dump(out, logprobs);
		json_decref(logprobs);
	} else {
		ok = ok && put(out, "null");
	}
	ok = ok && put(out, ",\"finish_reason\":");
	ok = ok && (finish ? put(out, "\"") && put(out, finish) && put(out, "\"") : put(out, "null"));
	return ok && put(out, s->r->include_usage ? "}],\"usage\":null}\n\n" : "}]}\n\n");
}

/* An event with text, or none when there is nothing to show. */
static bool text_event(const struct openai_stream *s, size_t index, const char *text, size_t n, bool last,
		const struct openai_lists *l, struct openai_buf *out)
{
	struct openai_stream_choice *c = &s->choices[index];
	const bool chat = s->r->route == OPENAI_CHAT, has_list = l && json_array_size(l->tokens) > 0;
	const size_t before = out->n;

	bool ok = begin_event(s, index, out) && put(out, chat ? "\"delta\":{\"content\":\"" : "\"text\":\"");
	const size_t from = out->n;
	ok = ok && openai_escape_add(&c->text, out, text, n, last);
	if (ok && out->n == from && !has_list) {
		out->n = before;
		return true;
	}
	return ok && put(out, chat ? "\"}" : "\"") && end_event(s, has_list ? l : NULL, NULL, out);
}

/* Two events: whose call it is, then with what. */
static bool call_events(const struct openai_stream *s, size_t index, const json_t *call, struct openai_buf *out)
{
	struct openai_stream_choice *c = &s->choices[index];
	const json_t *f = json_object_get(call, "function"), *arguments = json_object_get(f, "arguments");
	json_t *first = json_pack("{s:[{s:i, s:O, s:s, s:{s:O, s:s}}]}", "tool_calls", "index", c->n_calls, "id",
			json_object_get(call, "id"), "type", "function", "function", "name", json_object_get(f, "name"),
			"arguments", "");
	json_t *then = json_pack(
			"{s:[{s:i, s:{s:O}}]}", "tool_calls", "index", c->n_calls, "function", "arguments", arguments);
	const bool ok = begin_event(s, index, out) && put(out, "\"delta\":") && openai_dump(out, first) &&
			end_event(s, NULL, NULL, out) && begin_event(s, index, out) && put(out, "\"delta\":") &&
			openai_dump(out, then) && end_event(s, NULL, NULL, out);

	c->n_calls++;
	json_decref(first);
	json_decref(then);
	return ok;
}

/* Text that the engine shows, with the tokens that begin in it. */
static bool show_text(const struct openai_stream *s, size_t index, const struct cohort_event *ev, const char *text,
		size_t n, struct openai_buf *out)
{
	struct openai_stream_choice *c = &s->choices[index];
	const bool last = ev->kind == COHORT_EVENT_END;
	struct openai_lists l = {0};

	if (s->r->n_logprobs < 0)
		return text_event(s, index, text, n, last, NULL, out);
	const bool ok = openai_lists_init(&l) &&
			take_waiting(s, c, ev->text, ev->n_bytes, last && ev->finish != COHORT_FINISH_STOP, &l) &&
			text_event(s, index, text, n, last, &l, out);
	openai_lists_release(&l);
	return ok;
}

/* The same when tools may be called. While it is open whether a text is a call nothing is told, and then its tokens
 * with what it is. */
static bool show_calls(
		const struct openai_stream *s, size_t index, const struct cohort_event *ev, struct openai_buf *out)
{
	struct openai_stream_choice *c = &s->choices[index];
	const bool last = ev->kind == COHORT_EVENT_END;
	struct openai_buf text = {0};
	json_t *calls = json_array();
	bool ok = calls && openai_calls_feed(&c->calls, s->r, index, ev->text, ev->n_bytes, last, &text, calls);

	if (ok && (last || text.n > 0 || json_array_size(calls) > 0))
		ok = show_text(s, index, ev, text.p, text.n, out);
	for (size_t i = 0; ok && i < json_array_size(calls); i++)
		ok = call_events(s, index, json_array_get(calls, i), out);
	openai_buf_release(&text);
	json_decref(calls);
	return ok;
}

static bool show(const struct openai_stream *s, size_t index, const struct cohort_event *ev, struct openai_buf *out)
{
	struct openai_stream_choice *c = &s->choices[index];
	const bool ok = s->r->calls ? show_calls(s, index, ev, out)
				    : show_text(s, index, ev, ev->text, ev->n_bytes, out);

	c->n_shown += ev->n_bytes;
	if (s->r->n_logprobs >= 0)
		c->n_chars += openai_count_chars(ev->text, ev->n_bytes);
	return ok;
}

/* The prompt in front of each of its choices. ev: with its log-probabilities; or NULL. */
static bool show_echo(
		const struct openai_stream *s, size_t i_prompt, const struct cohort_event *ev, struct openai_buf *out)
{
	const struct openai_request *r = s->r;
	const struct openai_prompt *p = &r->prompts[i_prompt];
	struct openai_lists l = {0};
	const char *text;
	char *own;
	size_t n;
	bool ok = openai_echo(s->host, r, i_prompt, &own, &text, &n);

	if (ok && ev)
		ok = openai_lists_init(&l) && openai_lists_add_prompt(s->host, &l, r->tokens + p->first, ev) &&
				openai_lists_add_echo(s->host, r, &l, p, text, n);
	for (size_t k = 0; k < (size_t)r->n && ok; k++) {
		const size_t index = i_prompt * (size_t)r->n + k;
		s->choices[index].n_chars = openai_count_chars(text, n);
		ok = text_event(s, index, text, n, false, ev ? &l : NULL, out);
	}
	openai_lists_release(&l);
	mem_free(own);
	return ok;
}

static bool finish(const struct openai_stream *s, size_t index, const struct cohort_event *ev, struct openai_buf *out)
{
	const char *why = ev->finish == COHORT_FINISH_LENGTH ? "length"
			: s->choices[index].n_calls > 0      ? "tool_calls"
							     : "stop";

	s->choices[index].ended = true;
	return begin_event(s, index, out) && put(out, s->r->route == OPENAI_CHAT ? "\"delta\":{}" : "\"text\":\"\"") &&
			end_event(s, NULL, why, out);
}

/* ---- The stream ---- */

static bool write_head(struct openai_stream *s, const char *id, int64_t created)
{
	struct openai_escape x = {0};
	struct openai_buf *b = &s->head;
	const char *name = s->host->name;
	char number[32];

	snprintf(number, sizeof number, "%lld", (long long)created);
	return put(b, "data: {\"id\":\"") && openai_escape_add(&x, b, id, strlen(id), true) &&
			put(b,
					s->r->route == OPENAI_CHAT
							? "\",\"object\":\"chat.completion.chunk\",\"created\":"
							: "\",\"object\":\"text_completion\",\"created\":") &&
			put(b, number) && put(b, ",\"model\":\"") &&
			openai_escape_add(&x, b, name, strlen(name), true) && put(b, "\",\"choices\":[");
}

bool openai_stream_init(struct openai_stream *s, const struct openai_host *h, const struct openai_request *r,
		const char *id, int64_t created)
{
	*s = (struct openai_stream){.host = h, .r = r};
	if (size_mul(r->n_prompts, (size_t)r->n, &s->n_choices))
		s->choices = mem_zalloc(s->n_choices, sizeof *s->choices);
	if (s->choices && write_head(s, id, created))
		return true;
	openai_stream_release(s);
	return false;
}

void openai_stream_release(struct openai_stream *s)
{
	for (size_t i = 0; s->choices && i < s->n_choices; i++) {
		mem_free(s->choices[i].waiting);
		mem_free(s->choices[i].tops);
		openai_calls_release(&s->choices[i].calls);
	}
	mem_free(s->choices);
	openai_buf_release(&s->head);
	*s = (struct openai_stream){0};
}

bool openai_stream_begin(struct openai_stream *s, struct openai_buf *out)
{
	const struct openai_request *r = s->r;
	const size_t before = out->n;
	bool ok = true;

	for (size_t i = 0; i < s->n_choices && ok && r->route == OPENAI_CHAT; i++)
		ok = begin_event(s, i, out) &&
				put(out,
						r->must_call ? "\"delta\":{\"role\":\"assistant\",\"content\":null}"
							     : "\"delta\":{\"role\":\"assistant\",\"content\":\"\","
							       "\"refusal\":null}") &&
				end_event(s, NULL, NULL, out);
	for (size_t i = 0; i < r->n_prompts && ok && r->echo && r->n_logprobs < 0; i++)
		ok = show_echo(s, i, NULL, out);
	if (!ok)
		out->n = before;
	return ok;
}

bool openai_stream_event(
		struct openai_stream *s, size_t i_prompt, const struct cohort_event *ev, struct openai_buf *out)
{
	const size_t before = out->n, index = i_prompt * (size_t)s->r->n + (size_t)ev->output;
	struct openai_error e;
	bool ok = true;

	if (s->failed || s->ended)
		return true;
	if (ev->kind == COHORT_EVENT_PROMPT && s->r->echo && s->r->n_logprobs >= 0) {
		ok = show_echo(s, i_prompt, ev, out);
	} else if (ev->kind == COHORT_EVENT_TOKEN) {
		ok = wait_token(s, &s->choices[index], ev);
		if (ok && ev->n_bytes > 0)
			ok = show(s, index, ev, out);
	} else if (ev->kind == COHORT_EVENT_END && !openai_check_end(ev->finish, ev->error, &e)) {
		return openai_stream_error(s, &e, out);
	} else if (ev->kind == COHORT_EVENT_END && !s->choices[index].ended) {
		ok = show(s, index, ev, out) && finish(s, index, ev, out);
	}
	if (!ok)
		out->n = before;
	return ok;
}

bool openai_stream_error(struct openai_stream *s, const struct openai_error *e, struct openai_buf *out)
{
	const size_t before = out->n;

	if (s->failed || s->ended)
		return true;
	s->failed = true;
	json_t *j = openai_error_json(e);
	const bool ok = put(out, "data: ") && openai_dump(out, j) && put(out, "\n\n");
	json_decref(j);
	if (!ok)
		out->n = before;
	return ok;
}

bool openai_stream_end(struct openai_stream *s, const struct cohort_request_stats *stats, size_t n_stats,
		struct openai_buf *out)
{
	const size_t before = out->n;
	long long n_in = 0, n_out = 0, n_cached = 0;
	char usage[256];
	bool ok = true;

	if (s->ended)
		return true;
	for (size_t i = 0; i < n_stats; i++) {
		n_in += stats[i].n_prompt;
		n_out += stats[i].n_generated;
		n_cached += stats[i].n_cached;
	}
	snprintf(usage, sizeof usage,
			"],\"usage\":{\"prompt_tokens\":%lld,\"completion_tokens\":%lld,\"total_tokens\":%lld,"
			"\"prompt_tokens_details\":{\"cached_tokens\":%lld}}",
			n_in, n_out, n_in + n_out, n_cached);
	if (s->r->include_usage && !s->failed)
		ok = openai_buf_add(out, s->head.p, s->head.n) && put(out, usage) &&
				(!s->timings || (put(out, ",\"timings\":") && openai_dump(out, s->timings))) &&
				put(out, "}\n\n");
	ok = ok && put(out, "data: [DONE]\n\n");
	s->ended = ok;
	if (!ok)
		out->n = before;
	return ok;
}
