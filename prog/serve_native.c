/* llama-server's own way to complete a prompt and to embed a text: /completion and /embedding.
 *
 * Invariants
 *  1. The pieces of a stream, put together, are the content of the answer as a whole. */
#include "serve_work.h"

#include <stdio.h>
#include <string.h>

/* ---- /completion ---- */

/* Null is as good as absent. */
static bool has(const json_t *body, const char *name)
{
	const json_t *v = json_object_get(body, name);

	return v && !json_is_null(v);
}

/* Its fields in the words of OpenAI's, where these differ. */
static bool prepare(struct call *c, json_t *body, struct openai_error *e)
{
	const json_t *probs = json_object_get(body, "n_probs");
	int bad = 0;

	if (has(body, "n") || has(body, "best_of"))
		return openai_refuse(e, "n", NULL, "/completion gives one text; /v1/completions takes n");
	/* As long as a chat, not as short as OpenAI's completions. */
	if (!has(body, "n_predict") && !has(body, "max_tokens") && !has(body, "max_completion_tokens"))
		bad |= json_object_set_new(body, "n_predict", json_integer(c->srv->host.n_chat));
	if (has(body, "n_probs") &&
			!(json_is_integer(probs) && json_integer_value(probs) >= 0 &&
					json_integer_value(probs) <= OPENAI_TOP_MAX))
		return openai_refuse(e, "n_probs", NULL, "n_probs is %s, expected a whole number from 0 to %d",
				json_is_integer(probs) ? "out of range" : openai_kind(probs), OPENAI_TOP_MAX);
	if (json_integer_value(probs) > 0)
		bad |= json_object_set_new(body, "logprobs", json_integer(json_integer_value(probs)));
	return bad ? openai_no_memory(e) : true;
}

static const char *stop_type(enum cohort_finish f)
{
	return f == COHORT_FINISH_EOG               ? "eos"
			: f == COHORT_FINISH_STOP   ? "word"
			: f == COHORT_FINISH_LENGTH ? "limit"
						    : "none";
}

static json_t *settings_json(const struct work *w)
{
	const struct cohort_sampler_params *s = &w->r.params.sampler;

	return json_pack("{s:I, s:f, s:i, s:f, s:f, s:f, s:f, s:f, s:f, s:i, s:b}", "seed", (json_int_t)s->seed,
			"temperature", (double)s->temperature, "top_k", (int)s->top_k, "top_p", (double)s->top_p,
			"min_p", (double)s->min_p, "typical_p", (double)s->typical_p, "repeat_penalty",
			(double)s->repeat_penalty, "presence_penalty", (double)s->presence_penalty, "frequency_penalty",
			(double)s->frequency_penalty, "n_predict", (int)w->r.params.max_tokens, "ignore_eos",
			w->r.params.ignore_eos);
}

/* What the answer and the last event of a stream have in common; takes `content`. */
static json_t *final_json(const struct call *c, const struct work *w, json_t *content, enum cohort_finish finish)
{
	const struct cohort_request_stats *s = &w->stats[0];
	const struct openai_prompt *p = &w->r.prompts[0];
	const int32_t n_max = w->r.params.max_tokens;
	const bool truncated = finish == COHORT_FINISH_LENGTH && (n_max < 0 || s->n_generated < n_max);

	return json_pack("{s:i, s:o, s:i, s:b, s:o, s:I, s:I, s:I, s:b, s:s, s:s, s:o, s:o, s:o}", "index", 0,
			"content", content, "id_slot", -1, "stop", 1, "model",
			openai_text(c->srv->host.name, strlen(c->srv->host.name)), "tokens_predicted",
			(json_int_t)s->n_generated, "tokens_evaluated", (json_int_t)s->n_prompt, "tokens_cached",
			(json_int_t)s->n_cached, "truncated", truncated, "stop_type", stop_type(finish),
			"stopping_word", "", "prompt", p->text ? openai_text(p->text, p->n_text) : json_string(""),
			"generation_settings", settings_json(w), "timings", work_timings(w->stats, 1));
}

static enum step whole(struct call *c, struct work *w)
{
	struct cohort_output o;
	struct cohort_err err;
	struct openai_error e = {0};

	if (cohort_request_output_get(w->handles[0], 0, &o, &err))
		openai_broken(&err, &e);
	else
		openai_check_end(o.finish, o.error, &e);
	if (e.status)
		return answer_error(c, &e);
	/* Log-probabilities are those of the API, under its own name. */
	json_t *probs = NULL;
	if (w->r.n_logprobs >= 0) {
		if (!openai_request_take(&c->srv->host, &w->r, 0, w->handles[0], &e))
			return answer_error(c, &e);
		probs = json_incref(json_object_get(json_array_get(w->r.prompts[0].choices, 0), "logprobs"));
	}
	json_t *v = final_json(c, w, openai_text(o.text, o.n_bytes), o.finish);
	if (probs && v && json_object_set(v, "completion_probabilities", probs)) {
		json_decref(v);
		v = NULL;
	}
	json_decref(probs);
	return answer_json(c, 200, v);
}

static bool stream_open(struct call *c, struct work *w)
{
	(void)c;
	(void)w;
	return true;
}

static void stream_close(struct work *w)
{
	(void)w;
}

static bool stream_begin(struct call *c, struct work *w, struct openai_buf *out)
{
	(void)c;
	(void)w;
	(void)out;
	return true;
}

static bool stream_error(struct call *c, struct work *w, const struct openai_error *e, struct openai_buf *out)
{
	json_t *v = openai_error_json(e);
	const bool ok = openai_buf_add(out, "data: ", 6) && openai_dump(out, v) && openai_buf_add(out, "\n\n", 2);

	(void)c;
	w->failed = true;
	json_decref(v);
	return ok;
}

/* The log-probabilities of an event's token, behind its other fields. The model's last word has none, as it is no part
 * of the text. */
static bool add_probs(struct call *c, struct work *w, const struct cohort_event *ev, struct openai_buf *out)
{
	static const char name[] = ",\"completion_probabilities\":";
	const struct openai_host *h = &c->srv->host;
	const struct openai_request *r = &w->r;
	struct openai_lists l = {0};
	size_t n = 0;

	if (r->n_logprobs < 0 || ev->kind != COHORT_EVENT_TOKEN ||
			(cohort_token_is_eog(h->model, ev->token) && !r->params.ignore_eos))
		return true;
	bool ok = openai_lists_init(&l) &&
			openai_lists_add(h, r, &l, ev->token, ev->logprob, ev->top, ev->n_top) &&
			!json_array_append_new(l.offsets, json_integer((json_int_t)w->u.native.n_chars));
	json_t *v = ok ? openai_lists_json(r, &l) : NULL;
	ok = v && openai_buf_add(out, name, sizeof name - 1) && openai_dump(out, v);
	const char *bytes = cohort_token_bytes(h->model, ev->token, r->params.special, &n);
	w->u.native.n_chars += bytes ? openai_count_chars(bytes, n) : 0;
	json_decref(v);
	openai_lists_release(&l);
	return ok;
}

static bool stream_event(
		struct call *c, struct work *w, size_t i, const struct cohort_event *ev, struct openai_buf *out)
{
	static const char head[] = "data: {\"index\":0,\"content\":\"";
	const bool last = ev->kind == COHORT_EVENT_END;
	char tail[160];

	(void)i;
	if (ev->kind != COHORT_EVENT_TOKEN && !last)
		return true;
	w->u.native.n_tokens += !last;
	if (last) {
		struct openai_error e = {0};
		w->u.native.finish = ev->finish;
		if (!openai_check_end(ev->finish, ev->error, &e))
			return stream_error(c, w, &e, out);
	}
	const size_t before = out->n;
	bool ok = openai_buf_add(out, head, sizeof head - 1);
	const size_t from = out->n;
	ok = ok && openai_escape_add(&w->u.native.text, out, ev->text, ev->n_bytes, last);
	if (ok && last && out->n == from) { /* no text is left */
		out->n = before;
		return true;
	}
	const int n = snprintf(tail, sizeof tail,
			"\",\"tokens\":[%d],\"stop\":false,\"id_slot\":-1,\"tokens_predicted\":%d,"
			"\"tokens_evaluated\":%zu",
			ev->token, w->u.native.n_tokens, w->r.prompts[0].n);
	return ok && openai_buf_add(out, tail, (size_t)n) && add_probs(c, w, ev, out) &&
			openai_buf_add(out, "}\n\n", 3);
}

static bool stream_end(struct call *c, struct work *w, struct openai_buf *out)
{
	if (w->failed)
		return true; /* the error was the last word */
	json_t *v = final_json(c, w, json_string(""), w->u.native.finish);
	const bool ok = openai_buf_add(out, "data: ", 6) && openai_dump(out, v) && openai_buf_add(out, "\n\n", 2);
	json_decref(v);
	return ok;
}

/* One text only: several are what /v1/completions is for. */
static bool prepare_one(struct call *c, json_t *body, struct openai_error *e)
{
	const json_t *p = json_object_get(body, "prompt");

	if (json_is_array(p) && !json_is_integer(json_array_get(p, 0)))
		return openai_refuse(
				e, "prompt", NULL, "prompt must be a string or tokens; /v1/completions takes several");
	return prepare(c, body, e);
}

enum step run_completion(struct call *c)
{
	static const struct work_kind kind = {OPENAI_COMPLETIONS, "cmpl-", NULL, prepare_one, whole, stream_open,
			stream_close, stream_begin, stream_event, stream_error, stream_end};
	return work_run(c, &kind);
}

/* ---- /embedding ---- */

/* Its own name for the texts, or OpenAI's. */
static const char *embedding_field(const json_t *body)
{
	return has(body, "input") ? "input" : "content";
}

static enum step whole_embedding(struct call *c, struct work *w)
{
	struct openai_error e = {0};
	json_t *list = json_array();

	for (size_t i = 0; i < w->r.n_prompts; i++) {
		bool ok = openai_request_take(&c->srv->host, &w->r, i, w->handles[i], &e);
		if (ok && json_array_append_new(list,
					  json_pack("{s:i, s:[O]}", "index", (int)i, "embedding",
							  json_object_get(w->r.prompts[i].choices, "embedding"))))
			ok = openai_no_memory(&e);
		if (!ok) {
			json_decref(list);
			return answer_error(c, &e);
		}
	}
	return answer_json(c, 200, list);
}

enum step run_embedding(struct call *c)
{
	static const struct work_kind kind = {.route = OPENAI_EMBEDDINGS,
			.prefix = "embd-",
			.field = embedding_field,
			.whole = whole_embedding};
	return work_run(c, &kind);
}
