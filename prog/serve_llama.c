/* Routes that llama-server has, for its clients: properties, tokens, templates; and the strategy's switch. */
#include "serve_work.h"

#include "base/mem.h"

#include <stdio.h>
#include <string.h>

static enum step refused(struct call *c, json_t *body, const struct openai_error *e)
{
	json_decref(body);
	return answer_error(c, e);
}

/* Too little memory is nobody's fault; all else is the field's. */
static void engine_refused(struct openai_error *e, const char *param, const struct cohort_err *err)
{
	if (err->status == COHORT_E_MEMORY)
		openai_no_memory(e);
	else
		openai_refuse(e, param, NULL, "%s", err->text);
}

/* A boolean field, or what it is without one. */
static bool flag(const json_t *body, const char *name, bool otherwise, bool *out, struct openai_error *e)
{
	const json_t *v = json_object_get(body, name);

	*out = otherwise;
	if (!v || json_is_null(v))
		return true;
	if (!json_is_boolean(v))
		return openai_refuse(e, name, NULL, "%s is %s, expected true or false", name, openai_kind(v));
	*out = json_is_true(v);
	return true;
}

enum step run_props(struct call *c)
{
	const struct server *srv = c->srv;
	const struct cohort_sampler_params *s = &srv->host.sampler;
	json_t *defaults = json_pack("{s:i, s:i, s:{s:f, s:i, s:f, s:f, s:f, s:f, s:f, s:f, s:I}}", "n_ctx",
			(int)srv->engine_params.context.n_ctx, "n_predict", (int)srv->host.n_chat, "params",
			"temperature", (double)s->temperature, "top_k", (int)s->top_k, "top_p", (double)s->top_p,
			"min_p", (double)s->min_p, "typical_p", (double)s->typical_p, "repeat_penalty",
			(double)s->repeat_penalty, "presence_penalty", (double)s->presence_penalty, "frequency_penalty",
			(double)s->frequency_penalty, "seed", srv->seed_given ? (json_int_t)s->seed : -1);
	const char *file = strrchr(srv->model_path, '/');
	const char *text = srv->host.template_text;

	file = file ? file + 1 : srv->model_path;
	return answer_json(c, 200,
			json_pack("{s:o, s:i, s:o, s:o, s:o, s:i, s:s, s:b}", "default_generation_settings", defaults,
					"total_slots", (int)srv->engine_params.n_slots, "model_path",
					openai_text(file, strlen(file)), "model_alias",
					openai_text(srv->host.name, strlen(srv->host.name)), "chat_template",
					text ? openai_text(text, strlen(text)) : json_string(""), "n_ctx",
					(int)srv->host.info.n_ctx_train, "build_info", cohort_version(), "has_chat",
					srv->host.template != NULL));
}

/* ---- Tokens ---- */

enum { PIECE = 32 << 10 }; /* bytes of an answer that are made at once */

/* Tokens that are answered. As values they would take thirty times the memory of the text, and pieces hundreds of
 * times; as a text still several times. So the text is written as it is sent. */
struct tokens {
	cohort_token *ids;
	size_t n, at;
	bool with_pieces;
};

static void drop_tokens(struct call *c)
{
	struct tokens *t = c->work;

	mem_free(t->ids);
	mem_free(t);
	c->work = NULL;
}

static bool more_tokens(struct call *c, struct openai_buf *out, double *wake_at)
{
	struct tokens *t = c->work;
	bool ok = t->at > 0 || openai_buf_add(out, "{\"tokens\":[", 11);

	(void)wake_at;
	for (; t->at < t->n && out->n < PIECE && ok; t->at++) {
		struct openai_escape x = {0};
		char id[48];
		const int n_id = snprintf(id, sizeof id, "%s%s%d", t->at ? "," : "", t->with_pieces ? "{\"id\":" : "",
				t->ids[t->at]);
		ok = openai_buf_add(out, id, (size_t)n_id);
		if (!t->with_pieces)
			continue;
		size_t n_bytes = 0;
		const char *bytes = cohort_token_bytes(c->srv->model, t->ids[t->at], true, &n_bytes);
		ok = ok && openai_buf_add(out, ",\"piece\":\"", 10) &&
				openai_escape_add(&x, out, bytes ? bytes : "", bytes ? n_bytes : 0, true) &&
				openai_buf_add(out, "\"}", 2);
	}
	if (ok && t->at < t->n)
		return true;
	c->cut = !ok || !openai_buf_add(out, "]}\n", 3);
	return false;
}

/* As a whole where it is short: then its length is told in front. */
static enum step answer_tokens(struct call *c, struct tokens *t)
{
	struct openai_buf out = {0};
	struct openai_error e = {0};
	double wake_at;

	c->work = t;
	c->drop = drop_tokens;
	if (t->n > PIECE / 8)
		return answer_stream(c, "application/json", more_tokens);
	while (more_tokens(c, &out, &wake_at))
		;
	if (!c->cut)
		return answer_bytes(c, 200, "application/json", &out);
	openai_buf_release(&out);
	openai_no_memory(&e);
	return answer_error(c, &e);
}

enum step run_tokenize(struct call *c)
{
	struct openai_error e = {0};
	struct cohort_err err;
	json_t *body = call_json(c, false, &e);
	const json_t *text = json_object_get(body, "content");
	bool special = false, parse = true, with_pieces = false;

	if (!body || !flag(body, "add_special", false, &special, &e) ||
			!flag(body, "parse_special", true, &parse, &e) ||
			!flag(body, "with_pieces", false, &with_pieces, &e))
		return refused(c, body, &e);
	if (!json_is_string(text)) {
		openai_refuse(&e, "content", NULL, "content is %s, expected a string",
				text ? openai_kind(text) : "missing");
		return refused(c, body, &e);
	}
	const size_t n_text = json_string_length(text), room = cohort_tokenize_bound(n_text);
	struct tokens *t = mem_zalloc(1, sizeof *t);
	const unsigned flags = (parse ? COHORT_TOKENIZE_SPECIAL : 0U) | (special ? 0U : COHORT_TOKENIZE_NO_BOS);
	if (!t || !(t->ids = mem_alloc(room, sizeof *t->ids)))
		openai_no_memory(&e);
	else if (cohort_tokenize(c->srv->model, json_string_value(text), n_text, flags, t->ids, room, &t->n, &err))
		engine_refused(&e, "content", &err);
	json_decref(body);
	if (!e.status) {
		t->with_pieces = with_pieces;
		return answer_tokens(c, t);
	}
	if (t)
		mem_free(t->ids);
	mem_free(t);
	return answer_error(c, &e);
}

enum step run_detokenize(struct call *c)
{
	struct openai_error e = {0};
	json_t *body = call_json_ids(c, &e);
	const json_t *list = json_object_get(body, "tokens");

	if (body && !json_is_array(list) && !openai_ids_packed(body, "tokens"))
		openai_refuse(&e, "tokens", NULL, "tokens is %s, expected an array",
				list ? openai_kind(list) : "missing");
	const size_t n = e.status ? 0 : openai_ids_count(list);
	cohort_token *tokens = e.status ? NULL : mem_alloc(n, sizeof *tokens);
	if (!e.status && !tokens)
		openai_no_memory(&e);
	if (!e.status)
		openai_ids_read(list, "tokens", c->srv->host.info.n_vocab, tokens, &e);
	json_decref(body);
	json_t *out = NULL;
	if (!e.status) {
		size_t n_text = 0;
		cohort_detokenize(c->srv->model, tokens, n, true, NULL, 0, &n_text, NULL);
		char *text = mem_alloc(n_text + 1, 1);
		if (text && !cohort_detokenize(c->srv->model, tokens, n, true, text, n_text, &n_text, NULL))
			out = json_pack("{s:o}", "content", openai_text(text, n_text));
		mem_free(text);
	}
	mem_free(tokens);
	return e.status ? answer_error(c, &e) : answer_json(c, 200, out);
}

enum step run_apply_template(struct call *c)
{
	struct openai_error e = {0};
	json_t *body = call_json(c, false, &e);
	struct openai_request r;

	if (!body || !work_check_grammars(c->srv, body, &e) ||
			!openai_request_render(&c->srv->host, body, &r, &e))
		return refused(c, body, &e);
	json_t *out = json_pack("{s:o}", "prompt", openai_text(r.rendered, r.n_rendered));
	openai_request_release(&c->srv->host, &r);
	json_decref(body);
	return answer_json(c, 200, out);
}

/* ---- The strategy ---- */

enum step run_strategy_get(struct call *c)
{
	struct cohort_engine_stats st;
	json_t *list = json_array();

	cohort_engine_stats_get(c->srv->engine, &st);
	for (size_t i = 0; i < cohort_strategy_count() && list; i++) {
		const struct cohort_strategy *s = cohort_strategy_get(i);
		if (json_array_append_new(list, json_pack("{s:s, s:s}", "name", s->name, "about", s->about))) {
			json_decref(list);
			list = NULL;
		}
	}
	return answer_json(c, 200,
			json_pack("{s:s, s:o, s:I}", "strategy", st.strategy, "built_in", list, "fallbacks",
					(json_int_t)st.n_fallbacks));
}

enum step run_strategy_set(struct call *c)
{
	struct openai_error e = {0};
	struct cohort_err err;
	json_t *body = call_json(c, false, &e);
	const json_t *name = json_object_get(body, "strategy");
	const struct cohort_strategy *s = json_is_string(name) ? cohort_strategy_find(json_string_value(name)) : NULL;

	if (s == NULL && json_is_string(name) && c->srv->strategy &&
			strcmp(json_string_value(name), c->srv->strategy->name) == 0)
		s = c->srv->strategy;
	if (body && !s)
		openai_refuse(&e, "strategy", NULL,
				"strategy must be the name of a built-in one (GET /cohort/strategy lists "
				"them), or of the one that the server was started with");
	if (!e.status && cohort_engine_strategy_set(c->srv->engine, s, &err))
		engine_refused(&e, "strategy", &err);
	json_decref(body);
	return e.status ? answer_error(c, &e) : answer_json(c, 200, json_pack("{s:s}", "strategy", s->name));
}
