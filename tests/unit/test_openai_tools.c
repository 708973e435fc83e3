/* Tools: how templates write calls is learnt, calls are found in texts however these come, a call that must come fits
 * its function, and what is wrong is refused by name.
 *
 * Shown red by: learn_style without the part that was there before; a call taken whose name is no tool's; reject() that
 * drops the opening; put_sought that shows whitespace; seek_tag that takes half a tag for none; behind_value that ends
 * at a bracket in a string; finish() that never says tool_calls;
 * move_references left out; must_call without the opening in the prompt; arguments left as a string in messages. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "effort.h"
#include "openai_stream_case.h"
#include "shared_file.h"

/* Templates in the manner of three families. */
#define TALK \
	"{% for m in messages %}[{{ m.role }}]{% if m.tool_calls %}%CALLS%" \
	"{% else %}{{ m.content }}{% endif %}{% endfor %}{% if add_generation_prompt %}[assistant]{% endif %}"
#define KNOWS "{% if tools %}Tools: {{ tools | tojson }} Call with <tool_call>\n{}\n</tool_call>.{% endif %}"
#define TAGGED \
	"{% for c in m.tool_calls %}<tool_call>\n{\"name\": \"{{ c.function.name }}\", \"arguments\": " \
	"{{ c.function.arguments | tojson }}}\n</tool_call>{% endfor %}"
#define LISTED \
	"[TOOL_CALLS] [{% for c in m.tool_calls %}{\"name\": \"{{ c.function.name }}\", \"arguments\": " \
	"{{ c.function.arguments | tojson }}, \"id\": \"{{ c.id }}\"}{% endfor %}]"
#define BARE \
	"{\"name\": \"{{ m.tool_calls[0].function.name }}\", \"parameters\": " \
	"{{ m.tool_calls[0].function.arguments | tojson }}}"
#define STRANGE "CALL {{ m.tool_calls[0].function.name }} {{ m.tool_calls[0].function.arguments | tojson }}"

#define ASK "'messages':[{'role':'user','content':'2+3?'}]"
#define TOOLS \
	"'tools':[{'type':'function','function':{'name':'add','description':'adds','parameters':{'type':'object'," \
	"'properties':{'a':{'type':'integer','minimum':0,'maximum':99},'b':{'$ref':'#/$defs/n'}}," \
	"'required':['a','b'],'additionalProperties':false,'$defs':{'n':{'enum':[7,8]}}}}}," \
	"{'type':'function','function':{'name':'now'}}]"

static void use(const char *knows, const char *calls)
{
	const char *mark = strstr(TALK, "%CALLS%");
	char source[2000];

	snprintf(source, sizeof source, "%s%.*s%s%s", knows, (int)(mark - TALK), TALK, calls, mark + 7);
	assert_int_equal(openai_host_template(&oa_host, source, strlen(source), NULL), COHORT_OK);
}

static const struct {
	const char *calls;
	enum openai_call_style style;
	const char *open;
} known[] = {{TAGGED, OPENAI_CALLS_TAGGED, "<tool_call>\n"}, {LISTED, OPENAI_CALLS_LISTED, "[TOOL_CALLS] "},
		{BARE, OPENAI_CALLS_BARE, ""}, {STRANGE, OPENAI_CALLS_UNKNOWN, ""}};

static void templates_tell_how_calls_are_written(void **state)
{
	struct openai_request r;
	struct openai_error e;
	(void)state;

	for (size_t i = 0; i < 4; i++) {
		use(KNOWS, known[i].calls);
		assert_int_equal(oa_host.calls, known[i].style);
		assert_string_equal(oa_host.call_open, known[i].open);
		const bool ok = oa_parse(OPENAI_CHAT, "{" ASK "," TOOLS "}", &r, &e);
		assert_int_equal(ok, i < 3);
		if (ok)
			openai_request_release(&oa_host, &r);
		else
			assert_string_equal(e.param, "tools");
		/* One that writes calls but is told of no tools. */
		use("", known[i].calls);
		assert_int_equal(oa_host.calls, OPENAI_CALLS_NONE);
		assert_false(oa_parse(OPENAI_CHAT, "{" ASK "," TOOLS "}", &r, &e));
		assert_string_equal(e.param, "tools");
		assert_non_null(strstr(e.message, "template"));
	}
	/* A template that cannot be used leaves the one before. */
	assert_int_not_equal(openai_host_template(&oa_host, "{% if", 5, NULL), COHORT_OK);
	assert_int_equal(oa_host.calls, OPENAI_CALLS_NONE);
}

/* Those that models come with. */
static void real_styles(void **state)
{
	static const struct {
		const char *name;
		enum openai_call_style style;
	} t[] = {{"Qwen-Qwen3-0.6B", OPENAI_CALLS_TAGGED},
			{"NousResearch-Hermes-2-Pro-Llama-3-8B-tool_use", OPENAI_CALLS_TAGGED},
			{"NousResearch-Hermes-3-Llama-3.1-8B-tool_use", OPENAI_CALLS_TAGGED},
			{"meta-llama-Llama-3.1-8B-Instruct", OPENAI_CALLS_BARE},
			{"meta-llama-Llama-3.2-3B-Instruct", OPENAI_CALLS_BARE},
			{"meta-llama-Llama-3.3-70B-Instruct", OPENAI_CALLS_BARE},
			{"mistralai-Mistral-Nemo-Instruct-2407", OPENAI_CALLS_LISTED},
			{"google-gemma-2-2b-it", OPENAI_CALLS_NONE}, {"tokcfg_internlm2", OPENAI_CALLS_NONE},
			{"Qwen3-Coder", OPENAI_CALLS_UNKNOWN}};
	(void)state;

	for (size_t i = 0; i < sizeof t / sizeof *t; i++) {
		char path[700];
		snprintf(path, sizeof path, "%s/templates/%s.jinja", env_or("COHORT_SHARED", "../shared"), t[i].name);
		shared_file_needed(path);
		FILE *f = fopen(path, "rb");
		char *text = malloc(1 << 20);
		assert_true(f && text);
		const size_t n = fread(text, 1, 1 << 20, f);
		fclose(f);
		assert_int_equal(openai_host_template(&oa_host, text, n, NULL), COHORT_OK);
		if (oa_host.calls != t[i].style)
			fail_msg("%s: style %d", t[i].name, oa_host.calls);
		free(text);
	}
}

/* ---- Finding calls ---- */

static struct openai_request with_style(size_t i, const char *more)
{
	struct openai_request r;
	struct openai_error e;
	char body[2000];

	use(KNOWS, known[i].calls);
	snprintf(body, sizeof body, "{" ASK "," TOOLS "%s}", more);
	if (!oa_parse(OPENAI_CHAT, body, &r, &e))
		fail_msg("%s: %s", body, e.message);
	return r;
}

/* Text and calls of a text that comes in pieces (rng NULL: in one), as {"text": ..., "calls": [...]}. */
static json_t *find(const struct openai_request *r, const char *text, size_t n, struct rng *rng)
{
	struct openai_calls c = {0};
	struct openai_buf out = {0};
	json_t *calls = json_array();

	for (size_t at = 0; at < n && rng;) {
		const size_t k = 1 + rng_u32(rng) % (rng_u32(rng) % 2 ? 3 : 40);
		const size_t n_piece = k < n - at ? k : n - at;
		assert_true(openai_calls_feed(&c, r, 1, text + at, n_piece, false, &out, calls));
		at += n_piece;
	}
	assert_true(openai_calls_feed(&c, r, 1, rng ? "" : text, rng ? 0 : n, true, &out, calls));
	json_t *j = json_pack("{s:o, s:o}", "text", openai_text(out.p, out.n), "calls", calls);
	openai_buf_release(&out);
	openai_calls_release(&c);
	return j;
}

#define CALL "{\"name\": \"add\", \"arguments\": {\"a\": 1.10, \"b\":[2,\"}\\\"]\"]}}"
#define ARGS "{\"a\": 1.10, \"b\":[2,\"}\\\"]\"]}"

static const struct {
	size_t style;
	const char *in, *text;
	int n_calls;
	const char *arguments; /* of the first; NULL: ARGS */
} finds[] = {
		{0, "<tool_call>\n" CALL "\n</tool_call>", "", 1, NULL},
		{0, "Let me see.\n\n<tool_call>" CALL "</tool_call> \n <tool_call>" CALL "</tool_call>\n",
				"Let me see.", 2, NULL},
		{0, "<tool_call>\n" CALL, "", 1, NULL}, /* the end closes it */
		{0, "<tool_call>\n" CALL "\n</tool_", "", 1, NULL},
		{0, "A <tool_call>" CALL "</tool_call>\nB ", "A\nB", 1, NULL},
		{0, "<tool_call>{\"arguments\":{},\"name\":\"now\"}</tool_call>", "", 1, "{}"},
		{0, "<tool_call>{\"name\":\"now\",\"x\":\"\\\\\",\"parameters\":{ } }</tool_call>", "", 1, "{ }"},
		{0, "  plain text \n", "  plain text \n", 0, NULL},
		{0, "a < b <tool", "a < b <tool", 0, NULL},
		{0, "<tool_call>" CALL " x</tool_call> ", "<tool_call>" CALL " x</tool_call> ", 0, NULL},
		{0, "<tool_call>{\"name\":\"other\",\"arguments\":{}}</tool_call>",
				"<tool_call>{\"name\":\"other\",\"arguments\":{}}</tool_call>", 0, NULL},
		{0, "<tool_call>{\"name\":\"now\",\"arguments\":5}</tool_call>",
				"<tool_call>{\"name\":\"now\",\"arguments\":5}</tool_call>", 0, NULL},
		{0, "<tool_call>{\"name\":\"now\"}</tool_call>", "<tool_call>{\"name\":\"now\"}</tool_call>", 0, NULL},
		{0, "<tool_call>[1]</tool_call>", "<tool_call>[1]</tool_call>", 0, NULL},
		{0, "<tool_call>{]</tool_call>", "<tool_call>{]</tool_call>", 0, NULL},
		{0, "<tool_call>\n<tool_call>" CALL "</tool_call>", "<tool_call>", 1, NULL},
		{0, "<tool_call>{\"a <tool_call>{\"name\":\"now\",\"arguments\":{}}</tool_call>", "<tool_call>{\"a", 1,
				"{}"},
		{1, "[TOOL_CALLS][" CALL "," CALL "]", "", 2, NULL},
		{1, "Well: [TOOL_CALLS] [ " CALL " , {\"name\":\"now\",\"arguments\":{}} ] ", "Well:", 2, NULL},
		{1, "[TOOL_CALLS][" CALL ",{\"name\":\"other\",\"arguments\":{}}]",
				"[TOOL_CALLS][" CALL ",{\"name\":\"other\",\"arguments\":{}}]", 0, NULL},
		{1, "[TOOL_CALLS][]", "[TOOL_CALLS][]", 0, NULL},
		{1, "[TOOL_CALLS]{}", "[TOOL_CALLS]{}", 0, NULL},
		{2, " " CALL, "", 1, NULL},
		{2, "<|python_tag|>" CALL " ; " CALL "\n", "", 2, NULL},
		{2, "{\"name\": \"now\", \"parameters\": {}} so", " so", 1, "{}"},
		{2, "So: " CALL, "So: " CALL, 0, NULL},
		{2, "{\"an\": 1} {\"name\":\"now\",\"parameters\":{}}",
				"{\"an\": 1} {\"name\":\"now\",\"parameters\":{}}", 0, NULL},
		{2, "<|python_tag|>print(1)", "<|python_tag|>print(1)", 0, NULL},
		{2, " \n", " \n", 0, NULL},
		{2, "{", "{", 0, NULL},
};

static void calls_found_in_texts(void **state)
{
	struct rng rng;
	(void)state;

	rng_init(&rng, 9, 0);
	for (size_t i = 0; i < sizeof finds / sizeof *finds; i++) {
		struct openai_request r = with_style(finds[i].style, "");
		for (int k = 0; k < 40; k++) {
			json_t *j = find(&r, finds[i].in, strlen(finds[i].in), k ? &rng : NULL);
			const json_t *calls = json_object_get(j, "calls"), *first = json_array_get(calls, 0);
			const char *text = json_string_value(json_object_get(j, "text"));
			if (strcmp(text, finds[i].text) != 0 || (int)json_array_size(calls) != finds[i].n_calls)
				fail_msg("%s\ntext: %s, %zu calls", finds[i].in, text, json_array_size(calls));
			if (first) {
				const json_t *f = json_object_get(first, "function");
				assert_string_equal(json_string_value(json_object_get(f, "arguments")),
						finds[i].arguments ? finds[i].arguments : ARGS);
				assert_true(json_string_length(json_object_get(first, "id")) >= 9);
			}
			if (json_array_size(calls) > 1)
				assert_string_not_equal(json_string_value(json_object_get(first, "id")),
						json_string_value(json_object_get(json_array_get(calls, 1), "id")));
			json_decref(j);
		}
		openai_request_release(&oa_host, &r);
	}
	/* One at a time: what follows is text. */
	struct openai_request r = with_style(0, ",'parallel_tool_calls':false");
	const char two[] = "<tool_call>" CALL "</tool_call>\n<tool_call>" CALL "</tool_call>\n";
	json_t *j = find(&r, two, strlen(two), &rng);
	assert_int_equal(json_array_size(json_object_get(j, "calls")), 1);
	assert_string_equal(json_string_value(json_object_get(j, "text")), "\n<tool_call>" CALL "</tool_call>");
	json_decref(j);
	openai_request_release(&oa_host, &r);
}

/* Any soup, in any pieces. */
static void calls_in_random_texts(void **state)
{
	static const char *const parts[] = {"<tool_call>", "</tool_call>", "[TOOL_CALLS]", "<|python_tag|>", CALL, "[",
			"]", "{", "}", "\"", "\\", ",", " ", "\n", "x", "<", "<tool", "\xe2\x82\xac", "\xff", ";",
			"<tool_call>" CALL, "[TOOL_CALLS][" CALL "]"};
	const int each = effort(2000);
	struct rng rng;
	size_t n_calls = 0;
	(void)state;

	rng_init(&rng, 4, 0);
	for (int i = 0; i < 3 * each; i++) {
		static struct openai_request r;
		struct openai_buf in = {0};
		if (i % each == 0)
			r = with_style((size_t)(i / each), "");
		for (uint32_t k = rng_u32(&rng) % 12; k > 0; k--) {
			const char *s = parts[rng_u32(&rng) % (sizeof parts / sizeof *parts)];
			openai_buf_add(&in, s, strlen(s));
		}
		openai_buf_add(&in, "", 0);
		json_t *a = find(&r, in.p, in.n, NULL), *b = find(&r, in.p, in.n, &rng);
		const json_t *calls = json_object_get(a, "calls");
		if (!json_equal(a, b))
			fail_msg("%.*s\n%s\n%s", (int)in.n, in.p, json_dumps(a, 0), json_dumps(b, 0));
		n_calls += json_array_size(calls);
		if (json_array_size(calls) == 0) {
			json_t *all = openai_text(in.p, in.n);
			assert_true(json_equal(json_object_get(a, "text"), all));
			json_decref(all);
		}
		json_decref(a);
		json_decref(b);
		openai_buf_release(&in);
		if (i % each == each - 1)
			openai_request_release(&oa_host, &r);
	}
	assert_true(n_calls > (size_t)each / 8);
}

/* Texts that would take hours if the work were quadratic. */
static void calls_are_found_in_linear_time(void **state)
{
	static const char *const parts[] = {
			"\n", "<tool_call>{", "<tool_call>{\"a\\\"", "<tool_call>x", "<tool_call>{\"a\":["};
	struct openai_request r = with_style(0, "");
	(void)state;

	for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
		for (int piecewise = 0; piecewise < 2; piecewise++) {
			struct openai_calls c = {0};
			struct openai_buf out = {0}, in = {0};
			json_t *calls = json_array();
			for (int k = 0; k < 200000; k++) {
				openai_buf_add(&in, parts[i], strlen(parts[i]));
				if (piecewise)
					assert_true(openai_calls_feed(
							&c, &r, 0, parts[i], strlen(parts[i]), false, &out, calls));
			}
			assert_true(openai_calls_feed(&c, &r, 0, in.p, piecewise ? 0 : in.n, true, &out, calls));
			assert_int_equal(out.n, in.n);
			assert_memory_equal(out.p, in.p, in.n);
			json_decref(calls);
			openai_buf_release(&out);
			openai_buf_release(&in);
			openai_calls_release(&c);
		}
	openai_request_release(&oa_host, &r);
}

/* ---- Answers ---- */

/* The answer as a whole, after it was found to be the same as a stream. */
static json_t *ask(const char *text)
{
	json_t *body = oa_json(text), *want = oas_whole(OPENAI_CHAT, body), *list = json_object_get(want, "choices");
	struct openai_buf b = {0};
	struct oas_heard h;
	struct rng rng;

	rng_init(&rng, 2, 0);
	json_object_set_new(body, "stream", json_true());
	oas_stream(OPENAI_CHAT, body, &rng, &b, -1);
	oas_hear(&h, OPENAI_CHAT, &b, json_array_size(list), false);
	if (!json_equal(h.choices, list))
		fail_msg("%s\nwhole:    %s\nstreamed: %s", text, json_dumps(list, 0), json_dumps(h.choices, 0));
	oas_forget(&h);
	json_decref(body);
	openai_buf_release(&b);
	return want;
}

static const json_t *at(const json_t *answer, size_t i, const char *key)
{
	return json_object_get(json_array_get(json_object_get(answer, "choices"), i), key);
}

/* A model that says what a grammar makes it say. */
static void calls_of_tool_choice_auto(void **state)
{
	(void)state;
	use(KNOWS, TAGGED);
	json_t *a = ask("{" ASK "," TOOLS ",'n':2,'logprobs':true,'top_logprobs':1,'max_tokens':100,'grammar':"
			"'root ::= \\'Sure. \\' \\'<tool_call>{\\\\\\'name\\\\\\': \\\\\\'add\\\\\\', "
			"\\\\\\'arguments\\\\\\': {\\\\\\'a\\\\\\': \\' [1-3] \\'}}</tool_call>\\''}");
	for (size_t i = 0; i < 2; i++) {
		const json_t *m = at(a, i, "message"), *call = json_array_get(json_object_get(m, "tool_calls"), 0);
		assert_string_equal(json_string_value(json_object_get(m, "content")), "Sure.");
		assert_string_equal(json_string_value(at(a, i, "finish_reason")), "tool_calls");
		assert_string_equal(json_string_value(json_object_get(call, "type")), "function");
		assert_int_equal(
				json_string_length(json_object_get(json_object_get(call, "function"), "arguments")), 8);
		assert_true(json_array_size(json_object_get(at(a, i, "logprobs"), "content")) > 10);
	}
	json_decref(a);
	/* What is cut off is no call. */
	a = ask("{" ASK "," TOOLS ",'max_tokens':6,'grammar':"
		"'root ::= \\'<tool_call>{\\\\\\'name\\\\\\': \\\\\\'add\\\\\\', \\\\\\'arguments\\\\\\': {}}\\''}");
	assert_null(json_object_get(at(a, 0, "message"), "tool_calls"));
	assert_string_equal(json_string_value(at(a, 0, "finish_reason")), "length");
	assert_true(json_string_length(json_object_get(at(a, 0, "message"), "content")) > 0);
	json_decref(a);
	/* A stop string within it. */
	a = ask("{" ASK "," TOOLS ",'max_tokens':60,'logprobs':true,'stop':'arg','grammar':"
		"'root ::= \\'<tool_call>{\\\\\\'name\\\\\\': \\\\\\'add\\\\\\', \\\\\\'arguments\\\\\\': {}}\\''}");
	assert_string_equal(json_string_value(json_object_get(at(a, 0, "message"), "content")),
			"<tool_call>{\"name\": \"add\", \"");
	json_decref(a);
	for (int i = 0; i < 6; i++) { /* and no call at all */
		char body[1500];
		snprintf(body, sizeof body,
				"{" ASK "," TOOLS ",'max_tokens':20,'temperature':1.5,'seed':%d,'logprobs':true,'n':2,"
				"'tool_choice':'%s'}",
				i, i % 2 ? "auto" : "none");
		a = ask(body);
		assert_null(json_object_get(at(a, 0, "message"), "tool_calls"));
		json_decref(a);
	}
}

/* Calls that must come: whatever the model would rather say. */
static void calls_of_tool_choice_required(void **state)
{
	static const char *const choices[] = {"'required'", "{'type':'function','function':{'name':'add'}}",
			"{'type':'function','function':{'name':'now'}}"};
	bool seen[2] = {false};
	(void)state;

	for (size_t style = 0; style < 3; style++)
		for (int i = 0; i < effort(12); i++) {
			char body[1500];
			use(KNOWS, known[style].calls);
			snprintf(body, sizeof body,
					"{" ASK "," TOOLS ",'tool_choice':%s,'seed':%d,'temperature':2,'top_k':0,"
					"'top_p':1,'min_p':0,'max_tokens':300,'parallel_tool_calls':%s}",
					choices[i % 3], i, i % 2 ? "true" : "false");
			json_t *a = ask(body);
			const json_t *m = at(a, 0, "message"), *calls = json_object_get(m, "tool_calls");
			if (strcmp(json_string_value(at(a, 0, "finish_reason")), "length") == 0) {
				json_decref(a); /* blanks are allowed, and may go on for long */
				continue;
			}
			assert_true(json_array_size(calls) >= 1);
			assert_true(style == 1 && i % 2 ? true : json_array_size(calls) == 1);
			assert_true(json_is_null(json_object_get(m, "content")));
			assert_string_equal(json_string_value(at(a, 0, "finish_reason")), "tool_calls");
			const json_t *f = json_object_get(json_array_get(calls, 0), "function");
			const bool add = strcmp(json_string_value(json_object_get(f, "name")), "add") == 0;
			json_t *args = json_loads(json_string_value(json_object_get(f, "arguments")), 0, NULL);
			const json_int_t b = json_integer_value(json_object_get(args, "b"));
			assert_true(i % 3 == 0 || add == (i % 3 == 1));
			assert_int_equal(json_object_size(args), add ? 2 : 0);
			assert_true(!add || b == 7 || b == 8);
			seen[add] = true;
			json_decref(args);
			json_decref(a);
		}
	assert_true(seen[0] && seen[1]);
	/* The opening is in the prompt. */
	struct openai_request auto_ = with_style(0, ""), must = with_style(0, ",'tool_choice':'required'");
	assert_true(must.n_tokens > auto_.n_tokens && must.params.sampler.grammar && !auto_.params.sampler.grammar);
	openai_request_release(&oa_host, &auto_);
	openai_request_release(&oa_host, &must);
}

/* ---- Bodies ---- */

static void tools_refused_by_field(void **state)
{
#define F(x) "'tools':[{'type':'function','function':" x "}]"
	static const struct {
		const char *body, *param;
	} t[] = {
			{"'tools':5", "tools"},
			{"'tools':[5]", "tools[0]"},
			{"'tools':[{}]", "tools[0].type"},
			{"'tools':[{'type':'web'}]", "tools[0].type"},
			{"'tools':[{'type':'function'}]", "tools[0].function"},
			{F("{}"), "tools[0].function.name"},
			{F("{'name':5}"), "tools[0].function.name"},
			{F("{'name':''}"), "tools[0].function.name"},
			{F("{'name':'a\\u0000b'}"), "tools[0].function.name"},
			{F("{'name':'f','parameters':5}"), "tools[0].function.parameters"},
			{F("{'name':'f','parameters':{'type':'what'}}") ",'tool_choice':'required'", "tools"},
			{TOOLS ",'tool_choice':5", "tool_choice"},
			{TOOLS ",'tool_choice':'maybe'", "tool_choice"},
			{TOOLS ",'tool_choice':{}", "tool_choice"},
			{TOOLS ",'tool_choice':{'type':'function','function':{'name':'g'}}", "tool_choice"},
			{TOOLS ",'tool_choice':'required','response_format':{'type':'json_object'}", "tool_choice"},
			{"'tool_choice':'required'", "tool_choice"},
			{"'tools':[],'tool_choice':'required'", "tool_choice"},
			{TOOLS ",'parallel_tool_calls':5", "parallel_tool_calls"},
			{"'functions':[{'name':'f'}]", "functions"},
			{"'function_call':{'name':'f'}", "function_call"},
	};
	char body[2000];
	struct openai_request r;
	struct openai_error e;
	(void)state;

	use(KNOWS, TAGGED);
	for (size_t i = 0; i < sizeof t / sizeof *t; i++) {
		snprintf(body, sizeof body, "{" ASK ",%s}", t[i].body);
		if (oa_parse(OPENAI_CHAT, body, &r, &e))
			fail_msg("taken: %s", body);
		if (e.status != 400 || strcmp(e.param, t[i].param) != 0)
			fail_msg("%s: %s: %s", body, e.param, e.message);
	}
	assert_non_null(strstr(e.message, "tool_choice")); /* what to use instead */
	for (int n = OPENAI_TOOLS_MAX; n <= OPENAI_TOOLS_MAX + 1; n++) {
		char *many = NULL;
		size_t size = 0;
		FILE *f = open_memstream(&many, &size);
		assert_non_null(f);
		fputs("{" ASK ",'max_tokens':1,'tools':[", f);
		for (int i = 0; i < n; i++)
			fprintf(f, "%s{'type':'function','function':{'name':'f%d'}}", i ? "," : "", i);
		fputs("]}", f);
		assert_int_equal(fclose(f), 0);
		const bool ok = oa_parse(OPENAI_CHAT, many, &r, &e);
		if (ok)
			openai_request_release(&oa_host, &r);
		if (ok != (n == 128) || (!ok && (e.status != 400 || strcmp(e.param, "tools") != 0)))
			fail_msg("%d tools: %d, %s", n, ok, ok ? "" : e.message);
		free(many);
	}
	static const char *const calls[] = {"5", "[5]", "[{}]", "[{'function':{'name':'f'}}]",
			"[{'function':{'name':5,'arguments':'{}'}}]", "[{'function':{'name':'f','arguments':5}}]"};
	for (size_t i = 0; i < 6; i++) {
		snprintf(body, sizeof body, "{'messages':[{'role':'assistant','content':null,'tool_calls':%s}]}",
				calls[i]);
		assert_false(oa_parse(OPENAI_CHAT, body, &r, &e));
		assert_string_equal(e.param, i ? "messages[0].tool_calls[0]" : "messages[0].tool_calls");
	}
	/* Too many. */
	char *p = malloc(1 << 16), *end = p + sprintf(p, "{" ASK ",'tools':[");
	for (int i = 0; i <= OPENAI_TOOLS_MAX; i++)
		end += sprintf(end, "%s{'type':'function','function':{'name':'f'}}", i ? "," : "");
	sprintf(end, "]}");
	assert_false(oa_parse(OPENAI_CHAT, p, &r, &e));
	assert_string_equal(e.param, "tools");
	free(p);
	/* Asked for nothing. */
	assert_true(oa_parse(OPENAI_CHAT, "{" ASK ",'tools':[],'tool_choice':'auto','functions':[]}", &r, &e));
	assert_true(!r.tools && !r.calls);
	openai_request_release(&oa_host, &r);
}

static struct openai_request talk(const char *arguments)
{
	struct openai_request r;
	struct openai_error e;
	char body[2000];

	snprintf(body, sizeof body,
			"{'messages':[{'role':'user','content':'x'},{'role':'assistant','content':null,'tool_calls':"
			"[{'id':'call_1','type':'function','function':{'name':'add','arguments':%s}}]},"
			"{'role':'tool','tool_call_id':'call_1','content':'5'}]," TOOLS "}",
			arguments);
	if (!oa_parse(OPENAI_CHAT, body, &r, &e))
		fail_msg("%s: %s", body, e.message);
	return r;
}

/* Arguments reach the template as an object, however they come; what is no object stays a text. */
static void arguments_reach_the_template(void **state)
{
	(void)state;
	use(KNOWS, TAGGED);
	struct openai_request a = talk("{'a':1}"), b = talk("'{\\'a\\':1}'"), c = talk("'[1]'"),
			      d = talk("'{\\'a\\':'");
	assert_int_equal(a.n_tokens, b.n_tokens);
	assert_memory_equal(a.tokens, b.tokens, a.n_tokens * sizeof *a.tokens);
	assert_true(c.n_tokens != a.n_tokens || memcmp(a.tokens, c.tokens, a.n_tokens * sizeof *a.tokens) != 0);
	/* Names of calls differ as the conversation does. */
	assert_true(a.call_seed == b.call_seed && a.call_seed != c.call_seed);
	openai_request_release(&oa_host, &a);
	openai_request_release(&oa_host, &b);
	openai_request_release(&oa_host, &c);
	openai_request_release(&oa_host, &d);
}

static void *json_alloc(size_t n)
{
	return mem_alloc(n, 1);
}

/* Every allocation fails in turn: of a template's being shown, of a body's being read, of calls' being found. No call
 * must come here: the library has one status for a grammar that is too large and for memory that is out. */
static void tools_out_of_memory_at_every_point(void **state)
{
	bool ok = false;
	(void)state;

	json_set_alloc_funcs(json_alloc, mem_free);
	for (int64_t n = 0; !ok; n++) {
		mem_fail_after(n);
		ok = openai_tools_probe(&oa_host);
		mem_fail_after(-1);
		assert_true(n < 20000);
	}
	assert_int_equal(oa_host.calls, OPENAI_CALLS_TAGGED);
	json_t *body = oa_json(
			"{'messages':[{'role':'user','content':'x'},{'role':'assistant','content':null,'tool_calls':"
			"[{'id':'1','type':'function','function':{'name':'add','arguments':'{}'}}]}]," TOOLS "}");
	ok = false;
	for (int64_t n = 0; !ok; n++) {
		struct openai_request r;
		struct openai_error e;
		mem_fail_after(n);
		ok = openai_request_parse(&oa_host, OPENAI_CHAT, body, &r, &e);
		mem_fail_after(-1);
		if (ok)
			openai_request_release(&oa_host, &r);
		else if (e.status != 500 || strcmp(e.code, OPENAI_NO_MEMORY) != 0)
			fail_msg("allocation %d: %d %s", (int)n, e.status, e.message);
		assert_true(n < 20000);
	}
	json_decref(body);
	struct openai_request r = with_style(0, ",'stream':true,'logprobs':true");
	ok = false;
	for (int64_t n = 0; !ok; n++) {
		static const char text[] = "Now <tool_call>" CALL "</tool_call><tool_call>x";
		struct cohort_event token = {
				.kind = COHORT_EVENT_TOKEN, .token = 300, .text = text, .n_bytes = strlen(text)};
		const struct cohort_event end = {.kind = COHORT_EVENT_END, .text = "", .finish = COHORT_FINISH_EOG};
		struct openai_stream s;
		struct openai_buf b = {0};
		struct oas_heard h;
		mem_fail_after(n);
		ok = openai_stream_init(&s, &oa_host, &r, "x", 7);
		const bool open = ok;
		ok = ok && openai_stream_begin(&s, &b) && openai_stream_event(&s, 0, &token, &b) &&
				openai_stream_event(&s, 0, &end, &b);
		mem_fail_after(-1);
		if (open) {
			assert_true(openai_stream_end(&s, NULL, 0, &b));
			oas_hear(&h, OPENAI_CHAT, &b, 1, false);
			/* When memory was out within JSON that jansson read, it may have been taken for a text. */
			assert_true(!ok || h.finished[0]);
			oas_forget(&h);
			openai_stream_release(&s);
		}
		openai_buf_release(&b);
		assert_true(n < 3000);
	}
	openai_request_release(&oa_host, &r);
}

int main(void)
{
	const struct CMUnitTest cases[] = {
			cmocka_unit_test(templates_tell_how_calls_are_written),
			cmocka_unit_test(real_styles),
			cmocka_unit_test(calls_found_in_texts),
			cmocka_unit_test(calls_in_random_texts),
			cmocka_unit_test(calls_are_found_in_linear_time),
			cmocka_unit_test(calls_of_tool_choice_auto),
			cmocka_unit_test(calls_of_tool_choice_required),
			cmocka_unit_test(tools_refused_by_field),
			cmocka_unit_test(arguments_reach_the_template),
			cmocka_unit_test(tools_out_of_memory_at_every_point),
	};
	return cmocka_run_group_tests_name("openai_tools", cases, oas_open, oas_close);
}
