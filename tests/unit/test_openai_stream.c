/* Streams: put together they are the answer as a whole, whatever was asked; and they are server-sent events that end
 * once, however they end.
 *
 * Shown red by: a token that goes out before its text is shown; take_waiting that takes all when a stop string ended
 * the text; no openai_escape_add with `last`; complete() that forgets the bytes that are skipped; n_chars without the
 * echo's; the model's last token among those that wait; finish() sent twice; an event left half in the buffer when
 * memory is out; "usage" left out of the events before the last; escape() without '"' or without control characters. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "effort.h"
#include "openai_stream_case.h"

#include "base/mem.h"

/* ---- Random requests ---- */

static uint32_t below(struct rng *rng, uint32_t n)
{
	return (uint32_t)(rng_u32(rng) % n);
}

static json_t *random_body(struct rng *rng, enum openai_route route)
{
	static const char *const texts[] = {"Once upon a time", "Tom", "The cat said \"h\xc3\xa9llo\"\n",
			"\xe2\x82\xac 5", "One day, a little girl named Lily"};
	static const char *const stops[] = {
			"e", " the", "Lily", ". ", "a little", "\n", "ly", "\xc3\xa9", "there was a"};
	json_t *b = json_pack("{s:i,s:I}", "max_tokens", (int)below(rng, 24), "seed", (json_int_t)below(rng, 1000));
	const uint32_t kind = below(rng, 4);

	json_object_set_new(b, "temperature", json_real(kind == 0 ? 0 : kind == 1 ? 0.8 : 2.0));
	json_object_set_new(b, "n", json_integer(1 + below(rng, 3)));
	if (kind == 3) { /* bytes that make characters now and then */
		json_t *bias = json_array();
		for (int i = 0; i < 256; i++)
			if (i == 0xe2 || i == 0x82 || i == 0xac || i == 0xc3 || i == 0xa9 || i == '"' || i == 1 ||
					i == 0xff)
				json_array_append_new(bias, json_pack("[i,i]", 3 + i, 12));
		json_object_set_new(b, "logit_bias", bias);
		json_object_set_new(b, "top_k", json_integer(0));
		json_object_set_new(b, "top_p", json_integer(1));
		json_object_set_new(b, "min_p", json_integer(0));
	}
	if (below(rng, 3) == 0) { /* the model ends it now and then */
		json_t *bias = json_object_get(b, "logit_bias");
		if (!bias)
			json_object_set_new(b, "logit_bias", bias = json_array());
		json_array_append_new(bias, json_pack("[i,i]", 2, 8));
		if (below(rng, 3) == 0)
			json_object_set_new(b, "ignore_eos", json_true());
	}
	if (below(rng, 2)) {
		json_t *list = json_array();
		for (uint32_t k = 1 + below(rng, 3); k > 0; k--)
			json_array_append_new(list, json_string(stops[below(rng, 9)]));
		json_object_set_new(b, "stop", list);
	}
	if (below(rng, 2))
		json_object_set_new(b, "stream_options", json_pack("{s:b}", "include_usage", (int)below(rng, 2)));
	if (route == OPENAI_CHAT) {
		json_object_set_new(b, "messages",
				json_pack("[{s:s,s:s}]", "role", "user", "content", texts[below(rng, 5)]));
		if (below(rng, 2)) {
			json_object_set_new(b, "logprobs", json_true());
			json_object_set_new(b, "top_logprobs", json_integer(below(rng, 4)));
		}
		return b;
	}
	if (below(rng, 3) == 0)
		json_object_set_new(b, "prompt", json_pack("[s,s]", texts[below(rng, 5)], texts[below(rng, 5)]));
	else if (below(rng, 3) == 0) /* an echo that ends within a character */
		json_object_set_new(b, "prompt", json_pack("[i,i,i]", 1, 400, 3 + 0xe2));
	else
		json_object_set_new(b, "prompt", json_string(texts[below(rng, 5)]));
	if (below(rng, 2))
		json_object_set_new(b, "logprobs", json_integer(below(rng, 4)));
	json_object_set_new(b, "echo", json_boolean(below(rng, 2)));
	return b;
}

static void stream_is_the_whole_answer(void **state)
{
	struct rng rng;
	const int n = effort(120);
	int n_bad = 0, n_stops = 0;
	size_t n_listed = 0;
	(void)state;

	rng_init(&rng, 11, 0);
	for (int i = 0; i < n; i++) {
		const enum openai_route route = i % 2 ? OPENAI_CHAT : OPENAI_COMPLETIONS;
		json_t *body = random_body(&rng, route);
		struct openai_buf b = {0};
		struct oas_heard h;
		json_t *want = oas_whole(route, body), *list = json_object_get(want, "choices");
		const bool usage =
				json_is_true(json_object_get(json_object_get(body, "stream_options"), "include_usage"));

		json_object_set_new(body, "stream", json_true());
		oas_stream(route, body, &rng, &b, -1);
		oas_hear(&h, route, &b, json_array_size(list), usage);
		/* Without a token nothing is listed, and no list is sent. */
		for (size_t k = 0; k < json_array_size(list); k++) {
			json_t *l = json_object_get(json_array_get(list, k), "logprobs"),
			       *mine = json_array_get(h.choices, k);
			const json_t *first = json_object_get(l, route == OPENAI_CHAT ? "content" : "tokens");
			if (json_is_object(l) && json_array_size(first) == 0)
				json_object_set(mine, "logprobs", l);
			n_listed += json_array_size(first);
			n_stops += strcmp(json_string_value(json_object_get(mine, "finish_reason")), "stop") == 0;
		}
		if (!json_equal(h.choices, list))
			fail_msg("%d: %s\nwhole:    %s\nstreamed: %s", i, json_dumps(body, 0), json_dumps(list, 0),
					json_dumps(h.choices, 0));
		char *text = json_dumps(list, 0);
		n_bad += strstr(text, "\xef\xbf\xbd") != NULL;
		free(text);
		if (usage) { /* what was reused depends on what came before */
			json_t *used = json_object_get(want, "usage");
			json_object_del(used, "prompt_tokens_details");
			json_object_del(h.usage, "prompt_tokens_details");
			assert_true(json_equal(h.usage, used));
		} else {
			assert_null(h.usage);
		}
		assert_null(h.error);
		oas_forget(&h);
		json_decref(want);
		json_decref(body);
		openai_buf_release(&b);
	}
	/* The requests were what they are meant to be. */
	assert_true(n < 60 || n_bad > n / 20); /* of a few there may be none */
	assert_true(n_stops > n / 4);
	assert_true(n_listed > (size_t)n);
}

/* Text comes as it is made, not all at the end. */
static void stream_comes_as_it_is_made(void **state)
{
	json_t *body = oa_json("{'prompt':'Once upon a time','temperature':0,'max_tokens':8,'stream':true}");
	struct rng rng;
	struct openai_buf b = {0};
	struct oas_heard h;
	(void)state;

	rng_init(&rng, 1, 0);
	oas_stream(OPENAI_COMPLETIONS, body, &rng, &b, -1);
	oas_hear(&h, OPENAI_COMPLETIONS, &b, 1, false);
	assert_int_equal(h.n_events, 8 + 1 + 1); /* tokens, the reason, the end */
	static const char first[] =
			"data: {\"id\":\"x\",\"object\":\"text_completion\",\"created\":7,\"model\":\"cohort-tiny\","
			"\"choices\":[{\"index\":0,\"text\":\",\",\"logprobs\":null,\"finish_reason\":null}]}\n\n";
	assert_memory_equal(b.p, first, strlen(first));
	oas_forget(&h);
	json_decref(body);
	openai_buf_release(&b);
}

/* ---- What fails ---- */

static void stream_of_a_cancelled_request_has_an_error(void **state)
{
	struct rng rng;
	(void)state;

	rng_init(&rng, 5, 0);
	for (int n = 1; n < 12; n++) {
		json_t *body = oa_json("{'prompt':['Tom','Lily'],'max_tokens':9,'n':2,'stream':true,"
				       "'stream_options':{'include_usage':true},'ignore_eos':true}");
		struct openai_buf b = {0};
		struct oas_heard h;
		oas_stream(OPENAI_COMPLETIONS, body, &rng, &b, n);
		oas_hear(&h, OPENAI_COMPLETIONS, &b, 4, true);
		assert_non_null(h.error);
		assert_null(h.usage);
		assert_string_equal(json_string_value(json_object_get(h.error, "code")), "cancelled");
		oas_forget(&h);
		json_decref(body);
		openai_buf_release(&b);
	}
}

static void stream_refuses_best_of(void **state)
{
	struct openai_request r;
	struct openai_error e;
	(void)state;

	assert_false(oa_parse(OPENAI_COMPLETIONS, "{'prompt':'x','n':2,'best_of':3,'stream':true}", &r, &e));
	assert_string_equal(e.param, "best_of");
	assert_int_equal(e.status, 400);
	assert_true(oa_parse(OPENAI_COMPLETIONS, "{'prompt':'x','n':2,'best_of':2,'stream':true}", &r, &e));
	openai_request_release(&oa_host, &r);
}

static void *json_alloc(size_t n)
{
	return mem_alloc(n, 1);
}

/* Every allocation of a stream fails in turn. What is in the buffer can be read, and the error and the end follow. */
static void stream_out_of_memory_at_every_point(void **state)
{
	static const struct {
		enum openai_route route;
		const char *text;
	} t[] = {{OPENAI_COMPLETIONS, "{'prompt':'x','max_tokens':3,'logprobs':1,'echo':true,'stream':true}"},
			{OPENAI_CHAT,
					"{'messages':[{'role':'user','content':'x'}],'max_tokens':3,"
					"'logprobs':true,'top_logprobs':1,'n':2,'stream':true}"},
			{OPENAI_COMPLETIONS, "{'prompt':[1,5],'max_tokens':2,'echo':true,'stream':true}"}};
	(void)state;

	json_set_alloc_funcs(json_alloc, mem_free);
	for (size_t i = 0; i < sizeof t / sizeof *t; i++) {
		bool all = false;
		for (int64_t n = 0; !all; n++) {
			struct openai_request r;
			struct openai_error e;
			struct openai_stream s;
			struct openai_buf b = {0};
			struct cohort_request *h;
			struct cohort_event ev;
			struct oas_heard heard;
			assert_true(oa_parse(t[i].route, t[i].text, &r, &e));
			assert_true(openai_request_submit(&oa_host, &r, 0, oas_engine, &h, &e));
			while (oas_tick())
				;
			/* The engine reads without failures: these are its own test's. */
			mem_fail_after(n);
			bool ok = openai_stream_init(&s, &oa_host, &r, "x", 7);
			const bool open = ok;
			ok = ok && openai_stream_begin(&s, &b);
			mem_fail_after(-1);
			do {
				assert_int_equal(cohort_request_next(h, 0, &ev, NULL), COHORT_OK);
				if (!ok)
					break;
				mem_fail_after(n);
				ok = openai_stream_event(&s, 0, &ev, &b);
				mem_fail_after(-1);
			} while (ev.kind != COHORT_EVENT_DONE);
			if (open && !ok) {
				openai_no_memory(&e);
				assert_true(openai_stream_error(&s, &e, &b));
				assert_true(openai_stream_error(&s, &e, &b)); /* says nothing any more */
			}
			if (open) {
				assert_true(openai_stream_end(&s, NULL, 0, &b));
				oas_hear(&heard, t[i].route, &b, s.n_choices, false);
				assert_int_equal(heard.error != NULL, !ok);
				oas_forget(&heard);
				openai_stream_release(&s);
			}
			cohort_request_free(h);
			openai_request_release(&oa_host, &r);
			openai_buf_release(&b);
			all = ok;
			assert_true(n < 3000);
		}
	}
}

/* ---- By hand ---- */

/* Any bytes, in any pieces, are the string that openai_text makes of the whole. */
static void json_text_is_escaped(void **state)
{
	static const char *const parts[] = {"\xe2\x82\xac", "\xe2", "\x82", "\xf0\x9f\x98\x80", "\xf0\x9f", "\xff",
			"\xc3", "\xa9", "\xe0", "\xed\xa0", "a", "\"", "\\", "\n", "\x01", "\x7f", "</script>",
			"\t\r\b\f"};
	struct rng rng;
	(void)state;

	rng_init(&rng, 3, 0);
	for (int i = 0; i < effort(5000); i++) {
		struct openai_escape x = {0};
		struct openai_buf in = {0}, out = {0};
		for (uint32_t k = below(&rng, 8); k > 0; k--) {
			const char *s = parts[below(&rng, sizeof parts / sizeof *parts)];
			openai_buf_add(&in, s, strlen(s) + (below(&rng, 30) == 0)); /* a NUL now and then */
		}
		openai_buf_add(&out, "\"", 1);
		for (size_t at = 0; at < in.n;) {
			const size_t n = 1 + below(&rng, (uint32_t)(in.n - at));
			assert_true(openai_escape_add(&x, &out, in.p + at, n, false));
			at += n;
		}
		assert_true(openai_escape_add(&x, &out, NULL, 0, true));
		openai_buf_add(&out, "\"", 1);
		json_t *want = openai_text(in.p, in.n),
		       *got = json_loadb(out.p, out.n, JSON_ALLOW_NUL | JSON_DECODE_ANY, NULL);
		assert_non_null(got);
		assert_true(json_equal(want, got));
		json_decref(want);
		json_decref(got);
		openai_buf_release(&in);
		openai_buf_release(&out);
	}
}

/* Plain text costs no allocation while the buffer has room. */
static void plain_text_stream_allocates_nothing(void **state)
{
	struct openai_request r;
	struct openai_error e;
	struct openai_stream s;
	struct openai_buf b = {0};
	struct cohort_event ev = {.kind = COHORT_EVENT_TOKEN, .token = 300, .text = "a \"word\"\n", .n_bytes = 9};
	(void)state;

	assert_true(oa_parse(OPENAI_CHAT, "{'messages':[{'role':'user','content':'x'}],'stream':true}", &r, &e));
	assert_true(openai_stream_init(&s, &oa_host, &r, "x", 7));
	assert_true(openai_stream_begin(&s, &b));
	assert_true(mem_grow((void **)&b.p, &b.n_max, 1 << 16, 1));
	const uint64_t before = mem_count();
	for (int i = 0; i < 100; i++)
		assert_true(openai_stream_event(&s, 0, &ev, &b));
	assert_true(mem_count() == before);
	openai_stream_release(&s);
	openai_request_release(&oa_host, &r);
	openai_buf_release(&b);
}

int main(void)
{
	const struct CMUnitTest cases[] = {
			cmocka_unit_test(json_text_is_escaped),
			cmocka_unit_test(plain_text_stream_allocates_nothing),
			cmocka_unit_test(stream_comes_as_it_is_made),
			cmocka_unit_test(stream_is_the_whole_answer),
			cmocka_unit_test(stream_of_a_cancelled_request_has_an_error),
			cmocka_unit_test(stream_refuses_best_of),
			cmocka_unit_test(stream_out_of_memory_at_every_point),
	};
	return cmocka_run_group_tests_name("openai_stream", cases, oas_open, oas_close);
}
