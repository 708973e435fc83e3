/* Answers: what the engine says of a request, as JSON; and what it refuses, in the API's words.
 *
 * Shown red by: tokens_shown without the case of a stop string; take_best that takes the worst; a '=' too many in
 * base64; read_events that leaves out the prompt, or makes its values for each choice. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "openai_case.h"
#include "room_case.h"

#include "base/mem.h"

static struct cohort_engine *engine;

static int open_all(void **state)
{
	struct cohort_engine_params ep;

	if (oa_open(state))
		return -1;
	cohort_engine_params_init(&ep);
	ep.n_slots = 4;
	ep.context.n_ctx = 1024;
	ep.context.n_blocks = pool_blocks(ep.context.n_ctx, 0);
	ep.context.n_threads = 1;
	ep.context.outputs = COHORT_OUTPUT_LOGITS | COHORT_OUTPUT_EMBEDDINGS;
	return cohort_engine_open(oa_model, &ep, &engine, NULL);
}

static int close_all(void **state)
{
	cohort_engine_free(engine);
	return oa_close(state);
}

static uint64_t n_takes; /* allocations of the last answer that was taken */

/* The body of the answer; with one, the error instead. */
static json_t *ask_n(enum openai_route route, const char *text, struct openai_error *e, int64_t fail_take)
{
	struct openai_request r;
	json_t *answer = NULL;
	bool ok = oa_parse(route, text, &r, e);

	if (!ok)
		return NULL;
	for (size_t i = 0; i < r.n_prompts && ok; i++) {
		struct cohort_request *h = NULL;
		bool done = false;
		ok = openai_request_submit(&oa_host, &r, i, engine, &h, e);
		if (!ok)
			break;
		assert_int_equal(cohort_request_wait(h, -1, &done, NULL), COHORT_OK);
		const uint64_t before = mem_count();
		mem_fail_after(fail_take);
		ok = openai_request_take(&oa_host, &r, i, h, e);
		mem_fail_after(-1);
		n_takes = mem_count() - before;
		cohort_request_free(h);
	}
	if (ok)
		answer = openai_response(&oa_host, &r, "x-1", 7);
	openai_request_release(&oa_host, &r);
	return answer;
}

static json_t *ask(enum openai_route route, const char *text)
{
	struct openai_error e;
	json_t *answer = ask_n(route, text, &e, -1);
	if (!answer)
		fail_msg("%s: %s", text, e.message);
	return answer;
}

static const char *text_at(const json_t *j, const char *a, size_t i, const char *b, const char *c)
{
	const json_t *v = json_object_get(json_array_get(json_object_get(j, a), i), b);
	return json_string_value(c ? json_object_get(v, c) : v);
}

static json_t *choice(const json_t *answer, size_t i)
{
	return json_array_get(json_object_get(answer, "choices"), i);
}

static int64_t usage(const json_t *answer, const char *name)
{
	return json_integer_value(json_object_get(json_object_get(answer, "usage"), name));
}

/* The greedy continuation of this prompt is known to every test of the model. */
#define PROMPT "'prompt':'Once upon a time','temperature':0"
#define TEXT ", there was a little girl named Lily"

static void completion_answer_has_its_fields(void **state)
{
	(void)state;
	json_t *a = ask(OPENAI_COMPLETIONS, "{" PROMPT ",'max_tokens':8}");
	assert_string_equal(json_string_value(json_object_get(a, "id")), "x-1");
	assert_string_equal(json_string_value(json_object_get(a, "object")), "text_completion");
	assert_string_equal(json_string_value(json_object_get(a, "model")), "cohort-tiny");
	assert_int_equal(json_integer_value(json_object_get(a, "created")), 7);
	assert_string_equal(text_at(a, "choices", 0, "text", NULL), TEXT);
	assert_string_equal(text_at(a, "choices", 0, "finish_reason", NULL), "length");
	assert_true(json_is_null(json_object_get(choice(a, 0), "logprobs")));
	assert_int_equal(usage(a, "prompt_tokens"), 5);
	assert_int_equal(usage(a, "completion_tokens"), 8);
	assert_int_equal(usage(a, "total_tokens"), 13);
	json_decref(a);
	a = ask(OPENAI_COMPLETIONS, "{" PROMPT ",'max_tokens':8,'stop':['girl','zzz']}");
	assert_string_equal(text_at(a, "choices", 0, "text", NULL), ", there was a little ");
	assert_string_equal(text_at(a, "choices", 0, "finish_reason", NULL), "stop");
	json_decref(a);
	a = ask(OPENAI_COMPLETIONS, "{'prompt':['Tom','Once upon a time'],'temperature':0,'max_tokens':8,'n':2}");
	assert_int_equal(json_array_size(json_object_get(a, "choices")), 4);
	assert_string_equal(text_at(a, "choices", 3, "text", NULL), TEXT);
	for (size_t i = 0; i < 4; i++)
		assert_int_equal(json_integer_value(json_object_get(choice(a, i), "index")), i);
	json_decref(a);
}

static void chat_answer_has_its_fields(void **state)
{
	(void)state;
	json_t *a = ask(OPENAI_CHAT,
			"{'messages':[{'role':'user','content':'Tell me a story'}],'max_tokens':5,'n':2,'seed':3}");
	assert_string_equal(json_string_value(json_object_get(a, "object")), "chat.completion");
	for (size_t i = 0; i < 2; i++) {
		assert_string_equal(text_at(a, "choices", i, "message", "role"), "assistant");
		assert_true(strlen(text_at(a, "choices", i, "message", "content")) > 0);
	}
	assert_int_equal(usage(a, "completion_tokens"), 10);
	json_decref(a);
}

static size_t size_of(const json_t *c, const char *list)
{
	return json_array_size(json_object_get(json_object_get(c, "logprobs"), list));
}

static void completion_answer_has_logprobs(void **state)
{
	(void)state;
	json_t *a = ask(OPENAI_COMPLETIONS, "{" PROMPT ",'max_tokens':8,'logprobs':2}"), *c = choice(a, 0);
	const json_t *l = json_object_get(c, "logprobs");
	static const char *const lists[] = {"tokens", "token_logprobs", "top_logprobs", "text_offset"};
	for (size_t i = 0; i < 4; i++)
		assert_int_equal(size_of(c, lists[i]), 8);
	assert_string_equal(json_string_value(json_array_get(json_object_get(l, "tokens"), 1)), " there");
	assert_int_equal(json_integer_value(json_array_get(json_object_get(l, "text_offset"), 1)), 1);
	/* Greedy: the token is the likeliest. */
	const json_t *top = json_array_get(json_object_get(l, "top_logprobs"), 1);
	assert_int_equal(json_object_size(top), 2);
	assert_true(json_equal(
			json_object_get(top, " there"), json_array_get(json_object_get(l, "token_logprobs"), 1)));
	json_decref(a);

	/* What a stop string cut off has no log-probabilities. */
	a = ask(OPENAI_COMPLETIONS, "{" PROMPT ",'max_tokens':8,'logprobs':0,'stop':' there was a'}");
	assert_string_equal(text_at(a, "choices", 0, "text", NULL), ",");
	assert_int_equal(size_of(choice(a, 0), "tokens"), 1);
	assert_true(json_is_null(
			json_array_get(json_object_get(json_object_get(choice(a, 0), "logprobs"), "top_logprobs"), 0)));
	json_decref(a);

	a = ask(OPENAI_COMPLETIONS, "{" PROMPT ",'max_tokens':0,'logprobs':1,'echo':true}");
	c = choice(a, 0);
	l = json_object_get(c, "logprobs");
	assert_string_equal(json_string_value(json_object_get(c, "text")), "Once upon a time");
	assert_int_equal(size_of(c, "tokens"), 5);
	assert_true(json_is_null(json_array_get(json_object_get(l, "token_logprobs"), 0)));
	const double x = json_real_value(json_array_get(json_object_get(l, "token_logprobs"), 4));
	assert_true(x < 0 && x > -0.1); /* " time" after "Once upon a" */
	json_decref(a);

	/* Several choices echo one prompt: the same values, and then each its own. */
	a = ask(OPENAI_COMPLETIONS, "{" PROMPT ",'max_tokens':2,'logprobs':2,'echo':true,'n':3}");
	for (size_t i = 0; i < 3; i++) {
		static const char *const names[] = {"tokens", "token_logprobs", "top_logprobs"};
		assert_int_equal(size_of(choice(a, i), "tokens"), 7);
		for (size_t k = 0; k < 2; k++) {
			const json_t *first = json_object_get(json_object_get(choice(a, 0), "logprobs"), names[k]),
				     *list = json_object_get(json_object_get(choice(a, i), "logprobs"), names[k]);
			assert_int_equal(json_array_size(list), 7);
			assert_ptr_equal(json_array_get(list, 4), json_array_get(first, 4));
			assert_true(i == 0 || json_array_get(list, 5) != json_array_get(first, 5));
		}
	}
	json_decref(a);

	a = ask(OPENAI_COMPLETIONS,
			"{'prompt':[1,263,264],'max_tokens':1,'echo':true}"); /* tokens: their text comes back */
	assert_true(strlen(text_at(a, "choices", 0, "text", NULL)) > 1);
	json_decref(a);

	a = ask(OPENAI_CHAT,
			"{'messages':[{'role':'user','content':'Hi'}],'temperature':0,"
			"'max_tokens':4,'logprobs':true,'top_logprobs':3}");
	const json_t *content = json_object_get(json_object_get(choice(a, 0), "logprobs"), "content");
	assert_int_equal(json_array_size(content), 4);
	for (size_t i = 0; i < 4; i++) {
		const json_t *t = json_array_get(content, i), *tops = json_object_get(t, "top_logprobs");
		assert_int_equal(json_array_size(tops), 3);
		assert_true(json_equal(json_object_get(t, "token"), json_object_get(json_array_get(tops, 0), "token")));
		assert_int_equal(json_array_size(json_object_get(t, "bytes")),
				json_string_length(json_object_get(t, "token")));
	}
	json_decref(a);
}

/* The best of four is the likeliest of what the same four say. */
static void best_of_chooses_the_likeliest(void **state)
{
	double most = -1e9;
	const char *text = NULL;
	(void)state;

	json_t *all = ask(OPENAI_COMPLETIONS,
			"{'prompt':'The','max_tokens':6,'temperature':1.5,'seed':4,'n':4,'logprobs':0}");
	for (size_t i = 0; i < 4; i++) {
		const json_t *l = json_object_get(json_object_get(choice(all, i), "logprobs"), "token_logprobs");
		double sum = 0;
		for (size_t k = 0; k < json_array_size(l); k++)
			sum += json_real_value(json_array_get(l, k));
		if (sum > most) {
			most = sum;
			text = text_at(all, "choices", i, "text", NULL);
		}
	}
	json_t *a = ask(OPENAI_COMPLETIONS,
			"{'prompt':'The','max_tokens':6,'temperature':1.5,'seed':4,'n':1,'best_of':4}");
	assert_int_equal(json_array_size(json_object_get(a, "choices")), 1);
	assert_string_equal(text_at(a, "choices", 0, "text", NULL), text);
	assert_true(json_is_null(json_object_get(choice(a, 0), "logprobs")));
	assert_int_equal(usage(a, "completion_tokens"), 24);
	json_decref(a);
	json_decref(all);
}

static void embedding_answer_as_floats_and_base64(void **state)
{
	(void)state;
	json_t *a = ask(OPENAI_EMBEDDINGS, "{'input':['Tom','Lily']}");
	json_t *b = ask(OPENAI_EMBEDDINGS, "{'input':['Tom','Lily'],'encoding_format':'base64'}");
	const char *s = text_at(b, "data", 1, "embedding", NULL);
	const json_t *x = json_object_get(json_array_get(json_object_get(a, "data"), 1), "embedding");
	static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
	uint8_t bytes[512 * 4 + 3];
	float got[512];

	assert_string_equal(json_string_value(json_object_get(a, "object")), "list");
	assert_int_equal(json_array_size(x), 512);
	/* 2048 bytes: 682 groups of three, and two that take a '='. */
	assert_int_equal(strlen(s), 2732);
	assert_true(s[2731] == '=' && s[2730] != '=');
	for (size_t i = 0, n = 0; i < 2732; i += 4) {
		uint32_t bits = 0;
		for (size_t k = 0; k < 4; k++)
			bits = bits << 6 | (s[i + k] == '=' ? 0U : (uint32_t)(strchr(digits, s[i + k]) - digits));
		for (size_t k = 0; k < 3; k++)
			bytes[n++] = (uint8_t)(bits >> (16 - 8 * k));
	}
	memcpy(got, bytes, sizeof got);
	double sum = 0;
	for (size_t i = 0; i < 512; i++) {
		assert_true((float)json_number_value(json_array_get(x, i)) == got[i]);
		sum += (double)got[i] * (double)got[i];
	}
	assert_true(fabs(sum - 1) < 1e-5);
	assert_int_equal(usage(a, "prompt_tokens"), usage(a, "total_tokens"));
	json_decref(a);
	json_decref(b);
}

static void engine_says_no(void **state)
{
	static const struct {
		enum openai_route route;
		const char *text, *param, *code;
	} t[] = {{OPENAI_COMPLETIONS, "{'prompt':[%s]}", "prompt", "context_length_exceeded"},
			{OPENAI_COMPLETIONS, "{'prompt':[%s],'max_tokens':-1}", "prompt", "context_length_exceeded"},
			{OPENAI_COMPLETIONS, "{'prompt':[%s],'max_tokens':0}", "prompt", "context_length_exceeded"},
			{OPENAI_CHAT, "{'messages':[{'role':'user','content':'%s'}],'max_tokens':9}", "messages",
					"context_length_exceeded"},
			{OPENAI_COMPLETIONS, "{'prompt':'x','n':5}", "n", NULL}};
	struct openai_error e;
	char many[8192] = "7", text[9000];
	(void)state;

	for (int i = 1; i < 1100; i++) /* tokens; the engine has room for 1024 */
		memcpy(many + strlen(many), ",7", 3);

	for (size_t i = 0; i < sizeof t / sizeof *t; i++) {
		const char *mark = strstr(t[i].text, "%s");
		if (mark)
			snprintf(text, sizeof text, "%.*s%s%s", (int)(mark - t[i].text), t[i].text, many, mark + 2);
		assert_null(ask_n(t[i].route, mark ? text : t[i].text, &e, -1));
		assert_int_equal(e.status, 400);
		assert_string_equal(e.param, t[i].param);
		assert_true(t[i].code ? e.code && strcmp(e.code, t[i].code) == 0 : e.code == NULL);
	}
}

#define LONG(more) "{" PROMPT ",'ignore_eos':true," more "}"

/* max_tokens beyond the context ends where the context does, by the request alone: the same tokens beside others that
 * take all the room there is. Seen red with the refusal of before, and with a limit made of the room that is free. */
static void max_tokens_beyond_the_context_end_there(void **state)
{
	static const struct {
		enum openai_route route;
		const char *body;
		int n_all; /* prompt and answer of each choice come to 64 */
		int n_reserved; /* where all of the request's blocks are reserved at once */
		bool beside;
	} t[] = {{OPENAI_COMPLETIONS, LONG("'max_tokens':32000"), 59, 59, true},
			{OPENAI_COMPLETIONS, LONG("'max_tokens':-1"), 59, 59, false},
			{OPENAI_COMPLETIONS, LONG("'max_completion_tokens':60"), 59, 59, false},
			{OPENAI_COMPLETIONS, LONG("'max_tokens':59"), 59, 59, false},
			{OPENAI_COMPLETIONS, LONG("'max_tokens':58"), 58, 58, false},
			{OPENAI_COMPLETIONS, LONG("'max_tokens':999,'n':2,'seed':4"), 2 * 59, 2 * 27, true},
			{OPENAI_COMPLETIONS, LONG("'max_tokens':999,'best_of':2"), 2 * 59, 2 * 27, false},
			{OPENAI_CHAT,
					"{'messages':[{'role':'user','content':'Hi'}],'ignore_eos':true,"
					"'max_completion_tokens':32000}",
					60, 60, true}};
	static const cohort_token other[] = {1, 400, 500};
	struct cohort_engine *big = engine;
	(void)state;

	for (int room = COHORT_ROOM_RESERVE; room <= COHORT_ROOM_OVERCOMMIT; room++) {
		struct cohort_engine_params ep;
		cohort_engine_params_init(&ep);
		ep.n_slots = 6;
		ep.context.n_ctx = 64;
		ep.context.n_blocks = pool_blocks(ep.context.n_ctx, 0);
		ep.context.n_threads = 1;
		ep.room = (enum cohort_room)room;
		assert_int_equal(cohort_engine_open(oa_model, &ep, &engine, NULL), COHORT_OK);
		for (size_t i = 0; i < sizeof t / sizeof *t; i++) {
			struct cohort_request *others[2];
			const int want = room == COHORT_ROOM_RESERVE ? t[i].n_reserved : t[i].n_all;
			json_t *alone = ask(t[i].route, t[i].body);
			if (usage(alone, "completion_tokens") != want)
				fail_msg("%s: %d tokens, not %d", t[i].body, (int)usage(alone, "completion_tokens"),
						want);
			assert_string_equal(text_at(alone, "choices", 0, "finish_reason", NULL), "length");
			for (size_t k = 0; k < 2 && t[i].beside; k++) {
				struct cohort_request_params p;
				cohort_request_params_init(&p);
				p.prompt = other;
				p.n_prompt = 3;
				p.ignore_eos = true;
				p.sampler.seed = k;
				assert_int_equal(cohort_engine_submit(engine, &p, &others[k], NULL), COHORT_OK);
			}
			json_t *beside = t[i].beside ? ask(t[i].route, t[i].body) : json_incref(alone);
			for (size_t k = 0; k < 2 && t[i].beside; k++)
				cohort_request_free(others[k]);
			assert_int_equal(usage(beside, "completion_tokens"), want);
			assert_true(json_equal(json_object_get(alone, "choices"), json_object_get(beside, "choices")));
			json_decref(alone);
			json_decref(beside);
		}
		cohort_engine_free(engine);
	}
	engine = big;
}

static void *json_alloc(size_t n)
{
	return mem_alloc(n, 1);
}

/* Every allocation of taking an answer fails in turn: it is refused, or the same as ever. Seen red with a token's text
 * written as hexadecimal digits when the string for it cannot be made. */
static void answer_out_of_memory_at_every_point(void **state)
{
	static const struct {
		enum openai_route route;
		const char *text;
	} t[] = {{OPENAI_COMPLETIONS, "{'prompt':'x','max_tokens':2,'logprobs':1,'echo':true,'n':2}"},
			{OPENAI_CHAT,
					"{'messages':[{'role':'user','content':'x'}],'max_tokens':2,"
					"'logprobs':true,'top_logprobs':1}"},
			{OPENAI_COMPLETIONS, "{'prompt':[1,5],'max_tokens':1,'echo':true,'best_of':2}"},
			{OPENAI_EMBEDDINGS, "{'input':'x','encoding_format':'base64'}"}};
	(void)state;

	json_set_alloc_funcs(json_alloc, mem_free);
	for (size_t i = 0; i < sizeof t / sizeof *t; i++) {
		const char *field = t[i].route == OPENAI_EMBEDDINGS ? "data" : "choices";
		json_t *want = ask(t[i].route, t[i].text);
		const int64_t n_all = (int64_t)n_takes;
		assert_true(n_all > 5);
		for (int64_t n = 0; n < n_all; n++) {
			struct openai_error e;
			json_t *answer = ask_n(t[i].route, t[i].text, &e, n);
			if (!answer && (e.status != 500 || !e.code || strcmp(e.code, OPENAI_NO_MEMORY) != 0))
				fail_msg("%s: allocation %d: %d %s", t[i].text, (int)n, e.status, e.message);
			if (answer && !json_equal(json_object_get(answer, field), json_object_get(want, field)))
				fail_msg("%s: allocation %d: another answer", t[i].text, (int)n);
			json_decref(answer);
		}
		json_decref(want);
	}
}

int main(void)
{
	const struct CMUnitTest cases[] = {
			cmocka_unit_test(completion_answer_has_its_fields),
			cmocka_unit_test(chat_answer_has_its_fields),
			cmocka_unit_test(completion_answer_has_logprobs),
			cmocka_unit_test(best_of_chooses_the_likeliest),
			cmocka_unit_test(embedding_answer_as_floats_and_base64),
			cmocka_unit_test(engine_says_no),
			cmocka_unit_test(max_tokens_beyond_the_context_end_there),
			cmocka_unit_test(answer_out_of_memory_at_every_point),
	};
	return cmocka_run_group_tests_name("openai_answer", cases, open_all, close_all);
}
