/* Tools of a chat: what a body says of them, how the template writes their calls, and the grammar of a call that must
 * come.
 *
 * Invariants
 *  1. How calls are written is learnt from the template alone: it is shown a conversation with a call, once per host.
 *  2. A call that must come is bound by a grammar from its first byte: its opening is part of the prompt, so that all
 *     the model says is the JSON of the call.
 *  3. References within a function's parameters still find what they mean when these are part of a larger schema. */
#include "openai.h"

#include "base/json.h"
#include "base/mem.h"

#include <stdio.h>
#include <string.h>

/* ---- The template ---- */

#define PROBE_TOOLS \
	"[{\"type\":\"function\",\"function\":{\"name\":\"cohort_probe\",\"description\":\"x\",\"parameters\":" \
	"{\"type\":\"object\",\"properties\":{\"cohort_key\":{\"type\":\"string\",\"description\":\"x\"}}," \
	"\"required\":[\"cohort_key\"]}}}]"
#define PROBE_ASK "{\"role\":\"user\",\"content\":\"x\"}"
#define PROBE_CALL \
	"\"tool_calls\":[{\"id\":\"cohort123\",\"type\":\"function\",\"function\":{\"name\":\"cohort_probe\"," \
	"\"arguments\":{\"cohort_key\":\"y\"}}}]}"

/* The text of messages, freed by cohort_template_text_free; NULL: refused, or out of memory (*ok false). */
static char *probe(const struct openai_host *h, const char *messages, bool *ok)
{
	struct cohort_template_params p;
	struct cohort_err err;
	char *text = NULL;
	size_t n = 0;

	cohort_template_params_init(&p);
	p.messages = messages;
	p.tools = PROBE_TOOLS;
	p.bos_token = h->bos;
	p.eos_token = h->eos;
	p.add_generation_prompt = false;
	p.now = "2025-01-02T03:04:05";
	if (cohort_template_render(h->template, &p, &text, &n, &err) == COHORT_E_MEMORY)
		*ok = false;
	return text;
}

static const char *behind(const char *text, const char *word)
{
	const char *p = strstr(text, word);

	if (p)
		p += strlen(word);
	while (p && (*p == ' ' || *p == '\n'))
		p++;
	return p;
}

/* What is before the JSON is the opening. */
static void learn(struct openai_host *h, enum openai_call_style style, const char *from, const char *json)
{
	const size_t n = (size_t)(json - from);

	if (n >= sizeof h->call_open)
		return;
	h->calls = style;
	memcpy(h->call_open, from, n);
	h->call_open[n] = 0;
}

/* text: what a call added to the conversation. */
static void learn_style(struct openai_host *h, const char *text)
{
	const char *tag = behind(text, "<tool_call>"), *list = behind(text, "[TOOL_CALLS]");
	const char *bare = strstr(text, "{\"name\":"), *parameters = strstr(text, "\"parameters\":");

	h->calls = OPENAI_CALLS_UNKNOWN;
	if (tag && *tag == '{' && strstr(tag, "\"cohort_probe\"") && strstr(tag, "\"arguments\":"))
		learn(h, OPENAI_CALLS_TAGGED, strstr(text, "<tool_call>"), tag);
	else if (list && *list == '[' && strstr(list, "\"cohort_probe\""))
		learn(h, OPENAI_CALLS_LISTED, strstr(text, "[TOOL_CALLS]"), list);
	else if (bare && parameters && bare < parameters && strstr(bare, "\"cohort_probe\"") && !tag && !list)
		learn(h, OPENAI_CALLS_BARE, bare, bare);
}

bool openai_tools_probe(struct openai_host *h)
{
	bool ok = true;

	h->calls = OPENAI_CALLS_NONE;
	*h->call_open = 0;
	if (!h->template)
		return true;
	char *asked = probe(h, "[" PROBE_ASK "]", &ok), *called = NULL;
	if (asked && strstr(asked, "cohort_probe")) {
		called = probe(h, "[" PROBE_ASK ",{\"role\":\"assistant\",\"content\":null," PROBE_CALL "]", &ok);
		if (!called && ok)
			called = probe(h, "[" PROBE_ASK ",{\"role\":\"assistant\",\"content\":\"\"," PROBE_CALL "]",
					&ok);
		size_t n = 0;
		while (called && called[n] && called[n] == asked[n])
			n++;
		learn_style(h, called ? called + n : "");
	}
	cohort_template_text_free(asked);
	cohort_template_text_free(called);
	return ok;
}

/* ---- The fields ---- */

static bool check_tool(const json_t *tool, size_t i, struct openai_error *e)
{
	const char *type = json_string_value(json_object_get(tool, "type"));
	const json_t *f = json_object_get(tool, "function"), *name = json_object_get(f, "name");
	const json_t *parameters = json_object_get(f, "parameters");
	const size_t n = json_string_length(name);
	char where[64];

	snprintf(where, sizeof where, "tools[%zu]", i);
	if (!json_is_object(tool))
		return openai_refuse(e, where, NULL, "%s is %s, expected an object", where, openai_kind(tool));
	if (!type || strcmp(type, "function") != 0) {
		snprintf(where, sizeof where, "tools[%zu].type", i);
		return openai_refuse(e, where, "unsupported_value", "%s must be function", where);
	}
	snprintf(where, sizeof where, "tools[%zu].function", i);
	if (!json_is_object(f))
		return openai_refuse(
				e, where, NULL, "%s is %s, expected an object", where, f ? openai_kind(f) : "missing");
	if (n == 0 || n > 256 || strlen(json_string_value(name)) != n) {
		snprintf(where, sizeof where, "tools[%zu].function.name", i);
		return openai_refuse(e, where, NULL, "%s must be a string of 1 to 256 bytes", where);
	}
	if (parameters && !json_is_object(parameters) && !json_is_null(parameters)) {
		snprintf(where, sizeof where, "tools[%zu].function.parameters", i);
		return openai_refuse(
				e, where, NULL, "%s is %s, expected a JSON schema", where, openai_kind(parameters));
	}
	return true;
}

static bool check_tools(const json_t *tools, struct openai_error *e)
{
	if (!json_is_array(tools))
		return openai_refuse(e, "tools", NULL, "tools is %s, expected an array", openai_kind(tools));
	if (json_array_size(tools) > OPENAI_TOOLS_MAX)
		return openai_refuse(e, "tools", NULL, "tools has %zu items, expected %d at most",
				json_array_size(tools), OPENAI_TOOLS_MAX);
	for (size_t i = 0; i < json_array_size(tools); i++)
		if (!check_tool(json_array_get(tools, i), i, e))
			return false;
	return true;
}

static bool read_choice(struct openai_request *r, const json_t *choice, struct openai_error *e)
{
	const char *s = json_string_value(choice), *type = json_string_value(json_object_get(choice, "type"));
	const char *name = json_string_value(json_object_get(json_object_get(choice, "function"), "name"));

	if (!choice || (s && strcmp(s, "auto") == 0))
		return true;
	if (s && strcmp(s, "none") == 0) {
		r->tools = NULL;
		return true;
	}
	if (!s && !(type && strcmp(type, "function") == 0 && name))
		return openai_refuse(e, "tool_choice", NULL,
				"tool_choice is %s, expected none, auto, required or "
				"{\"type\": \"function\", \"function\": {\"name\": ...}}",
				openai_kind(choice));
	if (s && strcmp(s, "required") != 0)
		return openai_refuse(e, "tool_choice", "unsupported_value",
				"tool_choice is '%.40s', expected none, auto, required or an object", s);
	if (!r->tools)
		return openai_refuse(e, "tool_choice", NULL, "tool_choice asks for a call, but there are no tools");
	r->must_call = true;
	for (size_t i = 0; i < json_array_size(r->tools) && name && !r->tool; i++) {
		const json_t *tool = json_array_get(r->tools, i);
		const json_t *known = json_object_get(json_object_get(tool, "function"), "name");
		if (strcmp(json_string_value(known), name) == 0)
			r->tool = tool;
	}
	return !name || r->tool ||
			openai_refuse(e, "tool_choice", NULL, "tool_choice names '%.64s', which is none of the tools",
					name);
}

/* ---- The grammar of a call ---- */

enum { DEPTH_MAX = 256 };

/* References to the document's root become references to where it is now. */
static bool move_references(json_t *v, const char *root, int depth, struct openai_error *e)
{
	const char *key;
	json_t *item;
	void *next;
	size_t i;

	if (depth > DEPTH_MAX)
		return openai_refuse(
				e, "tools", NULL, "tools: parameters are nested more than %d levels deep", DEPTH_MAX);
	json_object_foreach_safe(v, next, key, item)
	{
		const char *to = json_string_value(item);
		if (strcmp(key, "$ref") == 0 && to && *to == '#') {
			if (json_object_set_new(v, key, json_sprintf("#%s%s", root, to + 1)))
				return openai_no_memory(e);
		} else if (!move_references(item, root, depth + 1, e)) {
			return false;
		}
	}
	json_array_foreach(v, i, item) {
		if (!move_references(item, root, depth + 1, e))
			return false;
	}
	return true;
}

/* The schema of a function's arguments; NULL: refused. */
static json_t *arguments_schema(const json_t *function, const char *root, struct openai_error *e)
{
	const json_t *parameters = json_object_get(function, "parameters");
	json_t *out = json_is_object(parameters) ? json_deep_copy(parameters)
						 : json_pack("{s:{}, s:b}", "properties", "additionalProperties", 0);

	if (!out || (!json_object_get(out, "type") && json_object_set_new(out, "type", json_string("object")))) {
		json_decref(out);
		openai_no_memory(e);
		return NULL;
	}
	if (!move_references(out, root, 0, e)) {
		json_decref(out);
		return NULL;
	}
	return out;
}

/* Adds a call of the tool to the alternatives, and its arguments to the definitions. */
static bool add_tool(
		const struct openai_host *h, const json_t *tool, json_t *calls, json_t *defs, struct openai_error *e)
{
	const json_t *f = json_object_get(tool, "function");
	const char *word = h->calls == OPENAI_CALLS_BARE ? "parameters" : "arguments";
	char name[32], root[48], ref[64];

	snprintf(name, sizeof name, "p%zu", json_array_size(calls));
	snprintf(root, sizeof root, "/$defs/%s", name);
	snprintf(ref, sizeof ref, "#%s", root);
	json_t *schema = arguments_schema(f, root, e);
	if (!schema)
		return false;
	json_t *call = json_pack("{s:s, s:{s:{s:O}, s:{s:s}}, s:[s,s], s:b}", "type", "object", "properties", "name",
			"const", json_object_get(f, "name"), word, "$ref", ref, "required", "name", word,
			"additionalProperties", 0);
	int bad = json_object_set_new(defs, name, schema);
	bad |= json_array_append_new(calls, call);
	return !bad || openai_no_memory(e);
}

static bool bind_call(struct openai_host *h, struct openai_request *r, struct openai_error *e)
{
	json_t *calls = json_array(), *defs = json_object(), *schema = NULL;
	struct openai_buf text = {0};
	bool ok = (calls && defs) || openai_no_memory(e);

	if (r->params.sampler.grammar)
		ok = openai_refuse(e, "tool_choice", NULL,
				"tool_choice asks for a call, but another field already says what the text must be; "
				"leave out response_format, grammar and json_schema");
	for (size_t i = 0; i < json_array_size(r->tools) && ok; i++) {
		const json_t *tool = json_array_get(r->tools, i);
		if (!r->tool || r->tool == tool)
			ok = add_tool(h, tool, calls, defs, e);
	}
	if (ok && h->calls == OPENAI_CALLS_LISTED) {
		schema = json_pack("{s:s, s:{s:O}, s:i, s:O}", "type", "array", "items", "anyOf", calls, "minItems", 1,
				"$defs", defs);
		if (!r->parallel_calls && schema && json_object_set_new(schema, "maxItems", json_integer(1)))
			ok = openai_no_memory(e);
	} else if (ok) {
		schema = json_pack("{s:O, s:O}", "anyOf", calls, "$defs", defs);
	}
	if (ok && !openai_dump(&text, schema))
		ok = openai_no_memory(e);
	ok = ok && openai_grammar_get(h, "tools", text.p, text.n, true, &r->grammar, e);
	if (ok)
		r->params.sampler.grammar = r->grammar.g;
	openai_buf_release(&text);
	json_decref(schema);
	json_decref(calls);
	json_decref(defs);
	return ok;
}

bool openai_tools_read(struct openai_host *h, struct openai_request *r, struct openai_error *e)
{
	const json_t *tools = openai_field(r, "tools"), *parallel = openai_field(r, "parallel_tool_calls");

	if (r->route != OPENAI_CHAT)
		return true;
	if (parallel && !json_is_boolean(parallel))
		return openai_refuse(e, "parallel_tool_calls", NULL,
				"parallel_tool_calls is %s, expected true or false", openai_kind(parallel));
	r->parallel_calls = !json_is_false(parallel);
	if (tools && !check_tools(tools, e))
		return false;
	r->tools = json_array_size(tools) > 0 ? tools : NULL;
	if (!read_choice(r, openai_field(r, "tool_choice"), e))
		return false;
	if (!r->tools)
		return true;
	if (h->template && h->calls == OPENAI_CALLS_NONE)
		return openai_refuse(e, "tools", "unsupported_parameter",
				"the chat template knows no tools; leave out tools, or use a model whose template has "
				"them");
	if (h->template && h->calls == OPENAI_CALLS_UNKNOWN)
		return openai_refuse(e, "tools", "unsupported_parameter",
				"the chat template writes calls of tools in a way that is not supported (known are "
				"those of Hermes and Qwen, Llama 3, Mistral); leave out tools");
	r->calls = h->calls;
	/* Openings may be control tokens, which are otherwise no text. */
	r->params.special = !r->must_call;
	return !r->must_call || bind_call(h, r, e);
}

/* ---- Messages ---- */

/* A call as templates expect it; NULL: refused. Arguments are JSON within a string of the body, whose values nobody has
 * counted. */
static json_t *read_call(const json_t *call, const char *where, size_t *n_values, struct openai_error *e)
{
	const json_t *f = json_object_get(call, "function"), *arguments = json_object_get(f, "arguments");

	if (!json_is_string(json_object_get(f, "name")) || (!json_is_string(arguments) && !json_is_object(arguments))) {
		openai_refuse(e, where, NULL,
				"%s must be {\"id\": ..., \"type\": \"function\", \"function\": {\"name\": a string, "
				"\"arguments\": a string}}",
				where);
		return NULL;
	}
	if (json_is_string(arguments)) {
		const size_t n = json_string_length(arguments);
		const size_t size = openai_json_size(json_string_value(arguments), n);
		*n_values += size > 3 * n ? size - 3 * n : 0;
	}
	if (*n_values > OPENAI_VALUES_ROOM) {
		openai_refuse(e, where, NULL,
				"%s: the arguments have too many values: with those before they would take %d MiB "
				"more than three times their text",
				where, OPENAI_VALUES_ROOM >> 20);
		return NULL;
	}
	json_t *copy = json_clone(call), *function = json_clone(f), *object = NULL;
	bool no_memory = false;
	if (json_is_string(arguments))
		object = json_parse(json_string_value(arguments), json_string_length(arguments), 0, NULL, &no_memory);
	/* Arguments that are no object stay as they were. */
	if (!copy || !function || no_memory ||
			(json_is_object(object) && json_object_set(function, "arguments", object)) ||
			json_object_set(copy, "function", function)) {
		json_decref(copy);
		copy = NULL;
		openai_no_memory(e);
	}
	json_decref(function);
	json_decref(object);
	return copy;
}

bool openai_tools_message(json_t *copy, const char *where, size_t *n_values, struct openai_error *e)
{
	const json_t *calls = json_object_get(copy, "tool_calls");
	char param[128];
	bool ok = true;

	if (!calls || json_is_null(calls))
		return true;
	snprintf(param, sizeof param, "%s.tool_calls", where);
	if (!json_is_array(calls))
		return openai_refuse(e, param, NULL, "%s is %s, expected an array", param, openai_kind(calls));
	json_t *made = json_array();
	ok = made != NULL || openai_no_memory(e);
	for (size_t i = 0; i < json_array_size(calls) && ok; i++) {
		snprintf(param, sizeof param, "%s.tool_calls[%zu]", where, i);
		json_t *call = read_call(json_array_get(calls, i), param, n_values, e);
		ok = call != NULL;
		if (ok && json_array_append_new(made, call))
			ok = openai_no_memory(e);
	}
	if (ok && json_object_set(copy, "tool_calls", made))
		ok = openai_no_memory(e);
	json_decref(made);
	return ok;
}
