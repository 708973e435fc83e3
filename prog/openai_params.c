/* The fields of a body that say how to generate: checked by a table of types and ranges, and put where the engine wants
 * them. OpenAI's own fields have OpenAI's ranges; those that llama.cpp's server added have the ranges of the options of
 * the same name.
 *
 * Invariants
 *  1. A field that is null counts as absent.
 *  2. A field that would change the answer and is not known how to honour is refused by its name; all other unknown
 *     fields are ignored. */
#include "openai.h"

#include "base/mem.h"

#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
	GENERATE = 1 << OPENAI_CHAT | 1 << OPENAI_COMPLETIONS,
	CHAT = 1 << OPENAI_CHAT,
	LEGACY = 1 << OPENAI_COMPLETIONS
};
enum kind { FLOAT, INT32, INT64, BOOL, BOOL_NOT };

static const struct field {
	const char *name;
	unsigned routes;
	enum kind kind;
	size_t at; /* in struct openai_request */
	double min, max;
} fields[] = {
#define SAMPLER(f) offsetof(struct openai_request, params.sampler.f)
#define REQUEST(f) offsetof(struct openai_request, f)
		{"temperature", GENERATE, FLOAT, SAMPLER(temperature), 0, 2},
		{"top_p", GENERATE, FLOAT, SAMPLER(top_p), 0, 1},
		{"presence_penalty", GENERATE, FLOAT, SAMPLER(presence_penalty), -2, 2},
		{"frequency_penalty", GENERATE, FLOAT, SAMPLER(frequency_penalty), -2, 2},
		{"seed", GENERATE, INT64, SAMPLER(seed), -0x1p63, 0x1p63},
		{"n", GENERATE, INT64, REQUEST(n), 1, OPENAI_N_MAX},
		{"best_of", LEGACY, INT64, REQUEST(best_of), 1, OPENAI_N_MAX},
		/* The later one wins. However many: an answer ends where the context does. */
		{"n_predict", GENERATE, INT32, REQUEST(params.max_tokens), -1, 0x1p63},
		{"max_tokens", GENERATE, INT32, REQUEST(params.max_tokens), -1, 0x1p63},
		{"max_completion_tokens", GENERATE, INT32, REQUEST(params.max_tokens), -1, 0x1p63},
		{"logprobs", LEGACY, INT32, REQUEST(n_logprobs), 0, OPENAI_TOP_MAX},
		{"echo", LEGACY, BOOL, REQUEST(echo), 0, 0},
		{"stream", GENERATE, BOOL, REQUEST(stream), 0, 0},
		{"add_generation_prompt", CHAT, BOOL_NOT, REQUEST(no_opening), 0, 0},
		/* llama.cpp's. */
		{"top_k", GENERATE, INT32, SAMPLER(top_k), -1, INT32_MAX},
		{"min_p", GENERATE, FLOAT, SAMPLER(min_p), 0, 1},
		{"typical_p", GENERATE, FLOAT, SAMPLER(typical_p), 0, 1},
		{"top_n_sigma", GENERATE, FLOAT, SAMPLER(top_n_sigma), -1, 1000},
		{"min_keep", GENERATE, INT32, SAMPLER(min_keep), 0, INT32_MAX},
		{"repeat_penalty", GENERATE, FLOAT, SAMPLER(repeat_penalty), 0.001, 1000},
		{"repeat_last_n", GENERATE, INT32, SAMPLER(penalty_last_n), -1, COHORT_HISTORY_MAX},
		{"xtc_probability", GENERATE, FLOAT, SAMPLER(xtc_probability), 0, 1},
		{"xtc_threshold", GENERATE, FLOAT, SAMPLER(xtc_threshold), 0, 1},
		{"dynatemp_range", GENERATE, FLOAT, SAMPLER(dynatemp_range), 0, 100},
		{"dynatemp_exponent", GENERATE, FLOAT, SAMPLER(dynatemp_exponent), 0, 100},
		{"dry_multiplier", GENERATE, FLOAT, SAMPLER(dry_multiplier), 0, 1000},
		{"dry_base", GENERATE, FLOAT, SAMPLER(dry_base), 0, 1000},
		{"dry_allowed_length", GENERATE, INT32, SAMPLER(dry_allowed_length), 0, 1 << 20},
		{"dry_penalty_last_n", GENERATE, INT32, SAMPLER(dry_penalty_last_n), -1, COHORT_HISTORY_MAX},
		{"mirostat", GENERATE, INT32, SAMPLER(mirostat), 0, 2},
		{"mirostat_tau", GENERATE, FLOAT, SAMPLER(mirostat_tau), 0, 1000},
		{"mirostat_eta", GENERATE, FLOAT, SAMPLER(mirostat_eta), 0, 1000},
		{"ignore_eos", GENERATE, BOOL, REQUEST(params.ignore_eos), 0, 0},
		{"cache_prompt", GENERATE, BOOL_NOT, REQUEST(params.no_reuse), 0, 0},
#undef SAMPLER
#undef REQUEST
};

static bool read_number(const struct field *f, const json_t *v, void *to, struct openai_error *e)
{
	const bool whole = f->kind != FLOAT;
	const double x = json_number_value(v);
	/* 3.0 is a whole number, whoever wrote it. */
	const bool fits = json_is_integer(v) || (json_is_real(v) && (!whole || (x == floor(x) && fabs(x) < 0x1p53)));

	if (!fits || x < f->min || x > f->max) {
		char is[64];
		if (json_is_number(v))
			snprintf(is, sizeof is, "%.15g", x);
		else
			snprintf(is, sizeof is, "%s", openai_kind(v));
		if (f->max > 1e18)
			return openai_refuse(e, f->name, NULL, "%s is %s, expected a whole number%s", f->name, is,
					f->min == -1 ? ", -1 or more" : "");
		return openai_refuse(e, f->name, NULL, "%s is %s, expected a %snumber from %.10g to %.10g", f->name, is,
				whole ? "whole " : "", f->min, f->max);
	}
	const int64_t i = json_is_integer(v) ? json_integer_value(v) : whole ? (int64_t)x : 0;
	if (f->kind == FLOAT)
		*(float *)to = (float)x;
	else if (f->kind == INT32)
		*(int32_t *)to = (int32_t)(i < INT32_MAX ? i : INT32_MAX);
	else
		*(int64_t *)to = i;
	return true;
}

static bool read_fields(struct openai_request *r, struct openai_error *e)
{
	for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
		const struct field *f = &fields[i];
		void *to = (char *)r + f->at;
		const json_t *v = f->routes & 1U << r->route ? openai_field(r, f->name) : NULL;
		if (!v)
			continue;
		if (f->kind == BOOL || f->kind == BOOL_NOT) {
			if (!json_is_boolean(v))
				return openai_refuse(e, f->name, NULL, "%s is %s, expected true or false", f->name,
						openai_kind(v));
			*(bool *)to = json_is_true(v) == (f->kind == BOOL);
		} else if (!read_number(f, v, to, e)) {
			return false;
		}
	}
	return true;
}

/* ---- What is refused ---- */

static bool is_empty(const json_t *v)
{
	return json_is_false(v) || (json_is_array(v) && json_array_size(v) == 0) ||
			(json_is_object(v) && json_object_size(v) == 0) ||
			(json_is_string(v) && json_string_length(v) == 0);
}

/* What a field may hold that asks for nothing. */
enum nothing { EMPTY, CHOICE, ZERO, ONE, TWO, NO_LIMIT, NEGATIVE, YES, NONE };

static bool asks_nothing(enum nothing n, const json_t *v)
{
	const double x = json_is_number(v) ? json_number_value(v) : NAN;
	const char *s = json_is_string(v) ? json_string_value(v) : "";

	switch (n) {
	case CHOICE: return is_empty(v) || strcmp(s, "none") == 0 || strcmp(s, "auto") == 0;
	case ZERO: return x == 0;
	case ONE: return x == 1;
	case TWO: return x == 2;
	case NO_LIMIT: return x <= 0;
	case NEGATIVE: return x < 0;
	case YES: return json_is_true(v);
	case NONE: return strcmp(s, "none") == 0;
	default: return is_empty(v);
	}
}

/* Fields of OpenAI's and llama.cpp's servers that would change the answer. */
static bool refuse_unsupported(const struct openai_request *r, struct openai_error *e)
{
	static const struct {
		const char *name;
		unsigned routes;
		enum nothing nothing;
		const char *instead; /* or NULL */
	} names[] = {{"suffix", LEGACY, EMPTY, NULL}, {"functions", CHAT, EMPTY, "use the newer tools"},
			{"function_call", CHAT, CHOICE, "use the newer tool_choice"}, {"audio", CHAT, EMPTY, NULL},
			{"web_search_options", CHAT, EMPTY, NULL},
			/* llama.cpp's */
			{"lora", GENERATE, EMPTY, NULL}, {"t_max_predict_ms", GENERATE, NO_LIMIT, "use deadline_s"},
			{"t_max_prompt_ms", GENERATE, NO_LIMIT, "use deadline_s"},
			{"n_keep", GENERATE, ZERO, "an answer ends where the context does"},
			{"n_discard", GENERATE, ZERO, "an answer ends where the context does"},
			{"n_indent", GENERATE, ZERO, NULL}, {"n_cmpl", GENERATE, ONE, "use n"},
			{"post_sampling_probs", GENERATE, EMPTY, NULL}, {"response_fields", GENERATE, EMPTY, NULL},
			{"adaptive_target", GENERATE, NEGATIVE, NULL}, {"tfs_z", GENERATE, ONE, NULL},
			{"image_data", GENERATE, EMPTY, NULL}, {"grammar_lazy", GENERATE, EMPTY, NULL},
			{"grammar_triggers", GENERATE, EMPTY, NULL}, {"preserved_tokens", GENERATE, EMPTY, NULL},
			{"continue_final_message", CHAT, EMPTY, NULL}, {"reasoning_format", CHAT, NONE, NULL},
			{"reasoning_budget", CHAT, NEGATIVE, NULL}, {"thinking_budget_tokens", CHAT, NEGATIVE, NULL},
			{"thinking_forced_open", CHAT, EMPTY, NULL}, {"parse_tool_calls", CHAT, YES, NULL},
			{"embd_normalize", 1 << OPENAI_EMBEDDINGS, TWO, "vectors have length 1"}};

	for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
		const json_t *v = names[i].routes & 1U << r->route ? openai_field(r, names[i].name) : NULL;
		if (v && !asks_nothing(names[i].nothing, v))
			return openai_refuse(e, names[i].name, "unsupported_parameter", "%s is not supported%s%s",
					names[i].name, names[i].instead ? "; " : "",
					names[i].instead ? names[i].instead : "");
	}
	const json_t *modalities = r->route == OPENAI_CHAT ? openai_field(r, "modalities") : NULL;
	const char *only = json_string_value(json_array_get(modalities, 0));
	if (modalities && (json_array_size(modalities) != 1 || !only || strcmp(only, "text") != 0))
		return openai_refuse(e, "modalities", "unsupported_value", "modalities must be [\"text\"]");
	return true;
}

/* ---- Texts and lists ---- */

/* A string, or an array of them, as C strings that the body owns; *out is freed with mem_free. */
static bool read_texts(const struct openai_request *r, const char *name, size_t n_max, size_t n_bytes_max,
		const char ***out, int32_t *n_out, struct openai_error *e)
{
	const json_t *v = openai_field(r, name);
	const size_t n = json_is_array(v) ? json_array_size(v) : 1;

	if (!v)
		return true;
	if (!json_is_array(v) && !json_is_string(v))
		return openai_refuse(e, name, NULL, "%s is %s, expected a string or an array of strings", name,
				openai_kind(v));
	if (n > n_max)
		return openai_refuse(e, name, NULL, "%s has %zu texts, expected %zu at most", name, n, n_max);
	*out = mem_zalloc(n, sizeof **out);
	if (!*out)
		return openai_no_memory(e);
	for (size_t i = 0; i < n; i++) {
		const json_t *s = json_is_array(v) ? json_array_get(v, i) : v;
		char where[64];
		snprintf(where, sizeof where, json_is_array(v) ? "%s[%zu]" : "%s", name, i);
		if (!json_is_string(s))
			return openai_refuse(e, where, NULL, "%s is %s, expected a string", where, openai_kind(s));
		const size_t len = json_string_length(s);
		if (len == 0 || len > n_bytes_max)
			return openai_refuse(
					e, where, NULL, "%s has %zu bytes, expected 1 to %zu", where, len, n_bytes_max);
		if (strlen(json_string_value(s)) != len)
			return openai_refuse(e, where, NULL, "%s holds a NUL character", where);
		(*out)[i] = json_string_value(s);
	}
	*n_out = (int32_t)n;
	return true;
}

static bool add_bias(const struct openai_host *h, struct openai_request *r, const char *id, const json_t *bias,
		struct openai_error *e)
{
	struct cohort_sampler_params *p = &r->params.sampler;
	const size_t n_digits = strspn(id, "0123456789");
	const long long token = n_digits > 0 && n_digits < 10 && !id[n_digits] ? strtoll(id, NULL, 10) : -1;

	if (token < 0 || token >= h->info.n_vocab)
		return openai_refuse(e, "logit_bias", NULL,
				"logit_bias: '%.40s' is no token; the vocabulary has 0 to %d", id, h->info.n_vocab - 1);
	const double x = json_number_value(bias);
	if (json_is_false(bias)) { /* llama.cpp's word for never */
		r->bias[p->n_bias++] = (struct cohort_logit_bias){(cohort_token)token, -INFINITY};
		return true;
	}
	if (!json_is_number(bias) || x < -100 || x > 100)
		return openai_refuse(e, "logit_bias", NULL,
				"logit_bias: that of token %lld must be a number from -100 to 100", token);
	r->bias[p->n_bias++] = (struct cohort_logit_bias){(cohort_token)token, (float)x};
	return true;
}

/* {"15043": -1.5}, or llama.cpp's [[15043, -1.5], [2, false]], on top of the host's. */
static bool read_bias(const struct openai_host *h, struct openai_request *r, struct openai_error *e)
{
	struct cohort_sampler_params *p = &r->params.sampler;
	json_t *v = openai_field(r, "logit_bias");
	const size_t n = json_is_array(v) ? json_array_size(v) : json_object_size(v);
	const char *key;
	json_t *value;

	if (!v)
		return true;
	if (!json_is_array(v) && !json_is_object(v))
		return openai_refuse(e, "logit_bias", NULL,
				"logit_bias is %s, expected an object of tokens and numbers", openai_kind(v));
	if (n > OPENAI_BIASES_MAX)
		return openai_refuse(e, "logit_bias", NULL, "logit_bias has %zu tokens, expected %d at most", n,
				OPENAI_BIASES_MAX);
	r->bias = mem_alloc(n + (size_t)p->n_bias, sizeof *r->bias);
	if (!r->bias)
		return openai_no_memory(e);
	if (p->n_bias)
		memcpy(r->bias, p->bias, (size_t)p->n_bias * sizeof *r->bias);
	p->bias = r->bias;
	json_object_foreach(v, key, value) {
		if (!add_bias(h, r, key, value, e))
			return false;
	}
	for (size_t i = 0; json_is_array(v) && i < n; i++) {
		const json_t *pair = json_array_get(v, i), *id = json_array_get(pair, 0);
		char digits[32] = "";
		if (json_is_integer(id))
			snprintf(digits, sizeof digits, "%" JSON_INTEGER_FORMAT, json_integer_value(id));
		if (json_array_size(pair) != 2 || !json_is_integer(id))
			return openai_refuse(e, "logit_bias", NULL,
					"logit_bias[%zu] must be a pair of a token and a number", i);
		if (!add_bias(h, r, digits, json_array_get(pair, 1), e))
			return false;
	}
	return true;
}

/* llama.cpp's lists leave out biases and grammars, which always come first, and have another name for a stage. */
static bool read_order(struct openai_request *r, struct openai_error *e)
{
	const json_t *v = openai_field(r, "samplers");
	const size_t n_names = json_is_array(v) ? json_array_size(v) : 1;
	char names[1024] = "bias;grammar;";
	struct cohort_err err;

	if (!v)
		return true;
	if (!json_is_string(v) && !json_is_array(v))
		return openai_refuse(e, "samplers", NULL, "samplers is %s, expected an array of names", openai_kind(v));
	for (size_t i = 0, n = strlen(names); i < n_names && n < sizeof names; i++) {
		const char *s = json_string_value(json_is_array(v) ? json_array_get(v, i) : v);
		const bool first = s && (strcmp(s, "bias") == 0 || strcmp(s, "grammar") == 0);
		if (!first)
			n += (size_t)snprintf(names + n, sizeof names - n, "%s;",
					!s                                        ? "?"
							: strcmp(s, "typ_p") == 0 ? "typical"
										  : s);
	}
	if (cohort_sampler_order_parse(&r->params.sampler, names, &err))
		return openai_refuse(e, "samplers", NULL, "samplers: %s", err.text);
	return true;
}

/* ---- Grammars ---- */

static bool use_schema(struct openai_host *h, struct openai_request *r, const char *param, const json_t *schema,
		struct openai_error *e)
{
	struct openai_buf text = {0};
	bool ok = openai_dump(&text, schema);

	ok = ok ? openai_grammar_get(h, param, text.p, text.n, true, &r->grammar, e) : openai_no_memory(e);
	openai_buf_release(&text);
	return ok;
}

static bool read_format(struct openai_host *h, struct openai_request *r, const json_t *v, struct openai_error *e)
{
	const char *type = json_string_value(json_object_get(v, "type"));
	const json_t *schema = NULL;

	if (!json_is_object(v) || !type)
		return openai_refuse(e, "response_format", NULL,
				"response_format must be an object with a type: text, json_object or json_schema");
	if (strcmp(type, "text") == 0)
		return true;
	if (strcmp(type, "json_object") == 0) {
		/* llama.cpp takes a schema here, too. */
		schema = json_object_get(v, "schema");
		if (schema)
			return use_schema(h, r, "response_format.schema", schema, e);
		static const char any[] = "{\"type\":\"object\"}";
		return openai_grammar_get(h, "response_format", any, strlen(any), true, &r->grammar, e);
	}
	if (strcmp(type, "json_schema") != 0)
		return openai_refuse(e, "response_format.type", "unsupported_value",
				"response_format.type is '%.40s', expected text, json_object or json_schema", type);
	schema = json_object_get(json_object_get(v, "json_schema"), "schema");
	if (!json_is_object(schema) && !json_is_boolean(schema))
		return openai_refuse(e, "response_format.json_schema.schema", NULL,
				"response_format.json_schema.schema is %s, expected a JSON schema",
				schema ? openai_kind(schema) : "missing");
	return use_schema(h, r, "response_format.json_schema.schema", schema, e);
}

static bool read_grammar(struct openai_host *h, struct openai_request *r, struct openai_error *e)
{
	const json_t *format = openai_field(r, "response_format"), *schema = openai_field(r, "json_schema");
	const json_t *grammar = openai_field(r, "grammar");
	bool ok = true;

	if (grammar && is_empty(grammar))
		grammar = NULL;
	if ((schema && grammar) || (format && !read_format(h, r, format, e)))
		return e->status ? false : openai_refuse(e, "grammar", NULL, "give one of grammar and json_schema");
	if ((schema || grammar) && r->grammar.g)
		return openai_refuse(e, grammar ? "grammar" : "json_schema", NULL,
				"response_format already says what the text must be; leave one of them out");
	if (grammar && !json_is_string(grammar))
		return openai_refuse(e, "grammar", NULL, "grammar is %s, expected a string", openai_kind(grammar));
	if (grammar)
		ok = openai_grammar_get(h, "grammar", json_string_value(grammar), json_string_length(grammar), false,
				&r->grammar, e);
	else if (schema)
		ok = use_schema(h, r, "json_schema", schema, e);
	if (ok && r->grammar.g)
		r->params.sampler.grammar = r->grammar.g;
	return ok;
}

/* ---- */

/* chat: logprobs is a switch, top_logprobs the number. */
static bool read_logprobs(struct openai_request *r, struct openai_error *e)
{
	static const struct field top = {"top_logprobs", CHAT, INT32, 0, 0, OPENAI_TOP_MAX};
	const json_t *on = openai_field(r, "logprobs"), *n = openai_field(r, "top_logprobs");
	int32_t n_top = 0;

	if (r->route != OPENAI_CHAT)
		return true;
	if (on && !json_is_boolean(on))
		return openai_refuse(e, "logprobs", NULL, "logprobs is %s, expected true or false", openai_kind(on));
	if (n && !read_number(&top, n, &n_top, e))
		return false;
	if (n_top > 0 && !json_is_true(on))
		return openai_refuse(e, "top_logprobs", NULL, "top_logprobs needs logprobs to be true");
	r->n_logprobs = json_is_true(on) ? n_top : -1;
	return true;
}

/* -1 is llama.cpp's way to say that any will do. */
static void read_seed(const struct openai_host *h, struct openai_request *r)
{
	r->has_seed = openai_field(r, "seed") && r->params.sampler.seed != UINT64_MAX;
	if (!r->has_seed)
		r->params.sampler.seed = h->sampler.seed;
}

static bool read_stream(struct openai_request *r, struct openai_error *e)
{
	const json_t *v = openai_field(r, "stream_options");
	const json_t *usage = json_object_get(v, "include_usage");

	if (v && !json_is_object(v))
		return openai_refuse(
				e, "stream_options", NULL, "stream_options is %s, expected an object", openai_kind(v));
	if (usage && !json_is_boolean(usage) && !json_is_null(usage))
		return openai_refuse(e, "stream_options.include_usage", NULL,
				"stream_options.include_usage is %s, expected true or false", openai_kind(usage));
	r->include_usage = json_is_true(usage);
	return true;
}

static bool read_choices(struct openai_request *r, struct openai_error *e)
{
	if (!openai_field(r, "best_of") || r->route != OPENAI_COMPLETIONS)
		r->best_of = r->n;
	if (r->best_of < r->n)
		return openai_refuse(e, "best_of", NULL, "best_of is %lld, expected n (%lld) or more",
				(long long)r->best_of, (long long)r->n);
	if (r->stream && r->best_of > r->n)
		return openai_refuse(e, "best_of", NULL,
				"best_of above n needs all texts to choose from, so they cannot be streamed; leave out "
				"best_of or stream");
	r->params.n_outputs = (int32_t)r->best_of;
	r->params.n_logprobs = r->n_logprobs < 0 && r->best_of > r->n ? 0 : r->n_logprobs;
	r->params.prompt_logprobs = r->echo && r->n_logprobs >= 0;
	return true;
}

static bool read_embedding(const struct openai_host *h, struct openai_request *r, struct openai_error *e)
{
	const json_t *format = openai_field(r, "encoding_format"), *n = openai_field(r, "dimensions");
	const char *s = json_string_value(format);

	if (!refuse_unsupported(r, e))
		return false;
	if (format && (!s || (strcmp(s, "float") != 0 && strcmp(s, "base64") != 0)))
		return openai_refuse(e, "encoding_format", NULL, "encoding_format must be float or base64");
	r->base64 = s && strcmp(s, "base64") == 0;
	if (n && (!json_is_integer(n) || json_integer_value(n) != h->info.n_embd))
		return openai_refuse(e, "dimensions", NULL, "dimensions must be %d, which the model's embeddings have",
				h->info.n_embd);
	return true;
}

bool openai_params_read(struct openai_host *h, struct openai_request *r, struct openai_error *e)
{
	struct cohort_request_params *p = &r->params;
	int32_t n_breakers = 0;

	if (r->route == OPENAI_EMBEDDINGS)
		return read_embedding(h, r, e);
	p->max_tokens = r->route == OPENAI_CHAT ? h->n_chat : h->n_completion;
	if (!refuse_unsupported(r, e) || !read_fields(r, e) || !read_logprobs(r, e) || !read_stream(r, e) ||
			!read_choices(r, e) || !read_bias(h, r, e) || !read_order(r, e) || !read_grammar(h, r, e) ||
			!read_texts(r, "stop", COHORT_STOPS_MAX, COHORT_STOP_BYTES_MAX, &r->stops, &p->n_stops, e) ||
			!read_texts(r, "dry_sequence_breakers", 256, 256, &r->breakers, &n_breakers, e))
		return false;
	read_seed(h, r);
	p->stops = r->stops;
	if (r->breakers) {
		p->sampler.dry_breakers = r->breakers;
		p->sampler.n_dry_breakers = n_breakers;
	}
	if (p->sampler.min_keep < 1)
		p->sampler.min_keep = 1;
	return openai_tools_read(h, r, e);
}
