/* What a chat's template gets: an assistant's message without text, a system message that the template does not take,
 * enable_thinking, reasoning_effort, the date.
 *
 * Shown red by: an empty content left as null or absent; system messages left where they are; a merge of the first
 * of two only; add_generation_prompt taken for granted; enable_thinking left out; a clock read for strftime_now
 * beside that of date_string (now not handed on). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "openai_case.h"

#include "base/mem.h"

static void use(const char *source)
{
	assert_int_equal(openai_host_template(&oa_host, source, strlen(source), NULL), COHORT_OK);
}

static void renders(const char *body, const char *want)
{
	struct openai_request r;
	struct openai_error e;

	if (!oa_parse(OPENAI_CHAT, body, &r, &e))
		fail_msg("%s: %s (%s)", body, e.message, e.param);
	if (r.n_rendered != strlen(want) || memcmp(r.rendered, want, r.n_rendered) != 0)
		fail_msg("%s:\n%.*s\nexpected:\n%s", body, (int)r.n_rendered, r.rendered, want);
	openai_request_release(&oa_host, &r);
}

static void refused(const char *body, const char *param)
{
	struct openai_request r;
	struct openai_error e;

	if (oa_parse(OPENAI_CHAT, body, &r, &e)) {
		openai_request_release(&oa_host, &r);
		fail_msg("taken: %s", body);
	}
	if (e.status != 400 || strcmp(e.param, param) != 0)
		fail_msg("%s: %d, %s: %s", body, e.status, e.param, e.message);
}

#define ASK "{'role':'user','content':'2+3?'}"
#define CALLS "'tool_calls':[{'id':'c','type':'function','function':{'name':'add','arguments':'{}'}}]"
#define RESULT "{'role':'tool','tool_call_id':'c','content':'5'}"

static void empty_contents(void **state)
{
	static const char *const same[] = {"'content':null," CALLS, CALLS, "'content':''," CALLS};
	(void)state;

	/* As Qwen3's does, it asks what is in each message's content. */
	use("{% for m in messages %}[{{ m.role }}{{ '</t>' in m.content }} {{ m.content + '' }}"
	    "{{ m.tool_calls | length }}]{% endfor %}");
	for (size_t i = 0; i < 3; i++) {
		char body[500];
		snprintf(body, sizeof body, "{'messages':[" ASK ",{'role':'assistant',%s}," RESULT "]}", same[i]);
		renders(body, "[userFalse 2+3?0][assistantFalse 1][toolFalse 50]");
	}
	renders("{'messages':[" ASK ",{'role':'assistant','content':null}," ASK "]}",
			"[userFalse 2+3?0][assistantFalse 0][userFalse 2+3?0]");
	refused("{'messages':[" ASK ",{'role':'assistant'}]}", "messages[1].content");
	refused("{'messages':[{'role':'user','content':null}]}", "messages[0].content");
	refused("{'messages':[" ASK ",{'role':'assistant','content':5," CALLS "}]}", "messages[1].content");
}

/* As Gemma 2's does. */
#define GEMMA \
	"{% if messages[0].role == 'system' %}{{ raise_exception('System role not supported') }}{% endif %}" \
	"{% for m in messages %}{% if (m.role == 'user') != (loop.index0 % 2 == 0) %}" \
	"{{ raise_exception('Roles must alternate') }}{% endif %}[{{ m.role }}: {{ m.content }}]{% endfor %}"
#define SYSTEM(text) "{'role':'system','content':'" text "'}"

static void system_messages(void **state)
{
	/* The second leaves messages of the system out without a word. */
	static const char *const without[] = {GEMMA,
			"{% for m in messages %}{% if m.role != 'system' %}[{{ m.role }}: {{ m.content }}]{% endif %}"
			"{% endfor %}"};
	(void)state;

	for (size_t i = 0; i < 2; i++) {
		use(without[i]);
		assert_true(oa_host.no_system);
		renders("{'messages':[" SYSTEM("Be nice.") "," ASK "]}", "[user: Be nice.\n2+3?]");
		renders("{'messages':[{'role':'developer','content':[{'type':'text','text':'Be nice.'}]}," ASK "]}",
				"[user: Be nice.\n2+3?]");
		renders("{'messages':[" SYSTEM("A") "," SYSTEM("") "," SYSTEM("B") "," ASK "]}",
				"[user: A\n\nB\n2+3?]");
		renders("{'messages':[" SYSTEM("A") "," SYSTEM("B") "]}", "[user: A\nB]");
		renders("{'messages':[" SYSTEM("A") ",{'role':'assistant','content':'x'}," ASK "]}",
				"[user: A][assistant: x][user: 2+3?]");
		renders("{'messages':[" ASK "]}", "[user: 2+3?]");
	}
	use("{% for m in messages %}[{{ m.role }}: {{ m.content }}]{% endfor %}");
	assert_false(oa_host.no_system);
	renders("{'messages':[" SYSTEM("Be nice.") "," ASK "]}", "[system: Be nice.][user: 2+3?]");
	/* One that refuses every conversation says nothing about roles. */
	use("{{ raise_exception('no') }}");
	assert_false(oa_host.no_system);
}

static void no_opening(void **state)
{
	(void)state;
	use("{% for m in messages %}[{{ m.content }}]{% endfor %}{% if add_generation_prompt %}>{% endif %}");
	renders("{'messages':[" ASK "]}", "[2+3?]>");
	renders("{'messages':[" ASK "],'add_generation_prompt':true}", "[2+3?]>");
	renders("{'messages':[" ASK "],'add_generation_prompt':false}", "[2+3?]");
	refused("{'messages':[" ASK "],'add_generation_prompt':0}", "add_generation_prompt");
}

static void thinking_variables_of_templates(void **state)
{
	(void)state;
	/* As QwQ's: without the variable it would not think. */
	use("{% if enable_thinking is defined and enable_thinking %}<think>{% else %}<think></think>{% endif %}"
	    "{{ reasoning_effort }}{{ reasoning_strength }}");
#define CHAT(more) "{'messages':[" ASK "]" more "}"
	renders(CHAT(""), "<think>");
	renders(CHAT(",'chat_template_kwargs':{}"), "<think>");
	renders(CHAT(",'chat_template_kwargs':{'enable_thinking':true}"), "<think>");
	renders(CHAT(",'chat_template_kwargs':{'enable_thinking':false}"), "<think></think>");
	renders(CHAT(",'reasoning_effort':'none'"), "<think></think>");
	renders(CHAT(",'reasoning_effort':'low'"), "<think>lowlow");
	renders(CHAT(",'reasoning_effort':null"), "<think>");
	refused(CHAT(",'reasoning_effort':5"), "reasoning_effort");
	refused(CHAT(",'chat_template_kwargs':{'enable_thinking':'false'}"), "chat_template_kwargs.enable_thinking");
	refused(CHAT(",'chat_template_kwargs':[]"), "chat_template_kwargs");
}

static void dates_for_templates(void **state)
{
	char today[2][100];
	(void)state;

	oa_host.now = "2026-02-03T04:05:06";
	use("{{ date_string }}, {{ datetime }}, {{ strftime_now('%Y-%m-%d %H:%M:%S') }}");
	renders(CHAT(""), "03 Feb 2026, Feb 03 2026, 2026-02-03 04:05:06");
	renders(CHAT(",'chat_template_kwargs':{'date_string':'then'}"), "then, Feb 03 2026, 2026-02-03 04:05:06");
	oa_host.now = NULL;
	use("{{ date_string == strftime_now('%d %b %Y') }} {{ date_string }}");
	for (int i = 0; i < 2; i++) { /* the day may change in between: then the first is right, or the second */
		const time_t t = time(NULL);
		const struct tm *tm = localtime(&t);
		strftime(today[i], sizeof today[i], "True %d %b %Y", tm);
		struct openai_request r;
		struct openai_error e;
		assert_true(oa_parse(OPENAI_CHAT, CHAT(""), &r, &e));
		const bool same = r.n_rendered == strlen(today[i]) && memcmp(r.rendered, today[i], r.n_rendered) == 0;
		if (!same && i == 1)
			fail_msg("%.*s, expected %s", (int)r.n_rendered, r.rendered, today[i]);
		openai_request_release(&oa_host, &r);
		if (same)
			break;
	}
}

/* Every allocation may fail: that is said, and nothing leaks. */
static void *json_alloc(size_t n)
{
	return mem_alloc(n, 1);
}

static void template_request_out_of_memory_at_every_point(void **state)
{
	static const char text[] =
			"{'messages':[" SYSTEM("A") "," ASK ",{'role':'assistant'," CALLS "}],'reasoning_effort':'x'}";
	bool ok = false;
	(void)state;

	json_set_alloc_funcs(json_alloc, mem_free);
	use(GEMMA);
	json_t *body = oa_json(text);
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
		assert_true(n < 5000);
	}
	json_decref(body);
	ok = false;
	for (int64_t n = 0; !ok; n++) {
		mem_fail_after(n);
		ok = openai_host_template(&oa_host, GEMMA, strlen(GEMMA), NULL) == COHORT_OK;
		mem_fail_after(-1);
		assert_true(oa_host.no_system && n < 5000);
	}
}

int main(void)
{
	const struct CMUnitTest cases[] = {
			cmocka_unit_test(empty_contents),
			cmocka_unit_test(system_messages),
			cmocka_unit_test(no_opening),
			cmocka_unit_test(thinking_variables_of_templates),
			cmocka_unit_test(dates_for_templates),
			cmocka_unit_test(template_request_out_of_memory_at_every_point),
	};
	return cmocka_run_group_tests_name("openai_template", cases, oa_open, oa_close);
}
