/* For tests of streams: a manual engine behind the host, the answer to a body as a whole and as a stream, and a client
 * that puts the stream together and fails on what no client could read. */
#ifndef TESTS_OPENAI_STREAM_CASE_H
#define TESTS_OPENAI_STREAM_CASE_H

#include "openai_case.h"

#include "base/mem.h"

static struct cohort_engine *oas_engine;

static inline int oas_open(void **state)
{
	struct cohort_engine_params ep;

	if (oa_open(state))
		return -1;
	cohort_engine_params_init(&ep);
	ep.n_slots = 6;
	ep.context.n_ctx = 2048;
	ep.context.n_threads = 1;
	ep.context.outputs = COHORT_OUTPUT_LOGITS;
	ep.manual = true;
	return cohort_engine_open(oa_model, &ep, &oas_engine, NULL);
}

static inline int oas_close(void **state)
{
	cohort_engine_free(oas_engine);
	return oa_close(state);
}

static inline bool oas_tick(void)
{
	bool idle = false;
	assert_int_equal(cohort_engine_tick(oas_engine, &idle, NULL), COHORT_OK);
	return !idle;
}

/* The answer as a whole, as it is read from the wire. */
static inline json_t *oas_whole(enum openai_route route, json_t *body)
{
	struct openai_request r;
	struct openai_error e;
	struct cohort_request *h[4];
	struct openai_buf b = {0};

	if (!openai_request_parse(&oa_host, route, body, &r, &e))
		fail_msg("%s", e.message);
	for (size_t i = 0; i < r.n_prompts; i++)
		assert_true(openai_request_submit(&oa_host, &r, i, oas_engine, &h[i], &e));
	while (oas_tick())
		;
	for (size_t i = 0; i < r.n_prompts; i++) {
		if (!openai_request_take(&oa_host, &r, i, h[i], &e))
			fail_msg("%s", e.message);
		cohort_request_free(h[i]);
	}
	json_t *answer = openai_response(&oa_host, &r, "x", 7);
	assert_true(openai_dump(&b, answer));
	json_decref(answer);
	answer = json_loadb(b.p, b.n, JSON_ALLOW_NUL, NULL);
	openai_buf_release(&b);
	openai_request_release(&oa_host, &r);
	return answer;
}

/* The stream's bytes. n_cancel: after so many events the first request is cancelled; -1: not. */
static inline void oas_stream(
		enum openai_route route, json_t *body, struct rng *rng, struct openai_buf *out, int n_cancel)
{
	struct openai_request r;
	struct openai_error e;
	struct openai_stream s;
	struct cohort_request *h[4];
	struct cohort_request_stats stats[4];
	bool done[4] = {false};
	int n_events = 0;

	if (!openai_request_parse(&oa_host, route, body, &r, &e))
		fail_msg("%s", e.message);
	assert_true(r.n_prompts <= 4);
	assert_true(openai_stream_init(&s, &oa_host, &r, "x", 7));
	assert_true(openai_stream_begin(&s, out));
	for (size_t i = 0; i < r.n_prompts; i++)
		assert_true(openai_request_submit(&oa_host, &r, i, oas_engine, &h[i], &e));
	for (bool more = true, busy = true; more || busy;) {
		/* Now and then nobody reads for a while. */
		for (uint32_t k = rng_u32(rng) % 4; k > 0 && busy; k--)
			busy = oas_tick();
		more = false;
		for (size_t i = 0; i < r.n_prompts; i++) {
			struct cohort_event ev = {.kind = COHORT_EVENT_NONE};
			do {
				assert_int_equal(cohort_request_next(h[i], 0, &ev, NULL), COHORT_OK);
				if (ev.kind != COHORT_EVENT_NONE)
					assert_true(openai_stream_event(&s, i, &ev, out));
				if (++n_events == n_cancel)
					cohort_request_cancel(h[0]);
				done[i] |= ev.kind == COHORT_EVENT_DONE;
			} while (ev.kind != COHORT_EVENT_NONE && rng_u32(rng) % 8);
			more |= !done[i];
		}
	}
	for (size_t i = 0; i < r.n_prompts; i++) {
		cohort_request_stats_get(h[i], &stats[i]);
		cohort_request_free(h[i]);
	}
	assert_true(openai_stream_end(&s, stats, r.n_prompts, out));
	assert_true(openai_stream_end(&s, stats, r.n_prompts, out)); /* says nothing any more */
	openai_stream_release(&s);
	openai_request_release(&oa_host, &r);
}

/* ---- A client ---- */

struct oas_heard {
	json_t *choices; /* as the answer as a whole has them */
	json_t *usage; /* or NULL */
	json_t *error; /* or NULL */
	size_t n_events;
	bool roles[64], finished[64];
};

/* Lists of a, each behind that of the same name in b. */
static inline void oas_extend(json_t *to, const json_t *from)
{
	const char *key;
	json_t *value;

	json_object_foreach((json_t *)from, key, value) {
		json_t *have = json_object_get(to, key);
		if (!have)
			json_object_set_new(to, key, json_deep_copy(value));
		else if (json_is_array(have))
			json_array_extend(have, value);
	}
}

static inline void oas_append_text(json_t *object, const char *key, const json_t *more)
{
	struct openai_buf b = {0};
	const json_t *have = json_object_get(object, key);

	assert_true(json_is_string(more));
	openai_buf_add(&b, json_string_value(have), json_string_length(have));
	openai_buf_add(&b, json_string_value(more), json_string_length(more));
	json_object_set_new(object, key, json_stringn(b.p ? b.p : "", b.n));
	openai_buf_release(&b);
}

static inline void oas_hear_call(json_t *message, const json_t *part)
{
	const size_t at = (size_t)json_integer_value(json_object_get(part, "index"));
	json_t *calls = json_object_get(message, "tool_calls"), *f = json_object_get(part, "function");

	assert_non_null(json_object_get(part, "index"));
	if (!calls)
		json_object_set_new(message, "tool_calls", calls = json_array());
	if (json_object_get(part, "id")) {
		json_t *copy = json_deep_copy(part);
		json_object_del(copy, "index");
		assert_int_equal(at, json_array_size(calls));
		assert_non_null(json_object_get(f, "name"));
		json_array_append_new(calls, copy);
	} else {
		assert_int_equal(at + 1, json_array_size(calls));
		oas_append_text(json_object_get(json_array_get(calls, at), "function"), "arguments",
				json_object_get(f, "arguments"));
	}
}

static inline void oas_hear_choice(struct oas_heard *h, enum openai_route route, const json_t *c)
{
	const size_t at = (size_t)json_integer_value(json_object_get(c, "index"));
	json_t *mine = json_array_get(h->choices, at), *delta = json_object_get(c, "delta");
	const json_t *logprobs = json_object_get(c, "logprobs"), *finish = json_object_get(c, "finish_reason");

	assert_non_null(mine);
	assert_non_null(logprobs);
	assert_non_null(finish);
	assert_false(h->finished[at]);
	if (route == OPENAI_CHAT) {
		json_t *message = json_object_get(mine, "message");
		assert_true(json_is_object(delta));
		/* The role comes once, and first. */
		assert_int_equal(json_object_get(delta, "role") != NULL, !h->roles[at]);
		h->roles[at] = true;
		if (json_is_string(json_object_get(delta, "content")))
			oas_append_text(message, "content", json_object_get(delta, "content"));
		if (json_object_get(delta, "tool_calls"))
			oas_hear_call(message, json_array_get(json_object_get(delta, "tool_calls"), 0));
	} else {
		oas_append_text(mine, "text", json_object_get(c, "text"));
	}
	if (!json_is_null(logprobs)) {
		if (json_is_null(json_object_get(mine, "logprobs")))
			json_object_set_new(mine, "logprobs", json_object());
		oas_extend(json_object_get(mine, "logprobs"), logprobs);
	}
	if (!json_is_null(finish)) {
		h->finished[at] = true;
		json_object_set(mine, "finish_reason", (json_t *)finish);
	}
}

/* Reads a stream as a client does, and fails on what a client could not read. */
static inline void oas_hear(
		struct oas_heard *h, enum openai_route route, const struct openai_buf *b, size_t n_choices, bool usage)
{
	const char *p = b->p, *end = b->p + b->n;
	bool done = false;

	*h = (struct oas_heard){.choices = json_array()};
	for (size_t i = 0; i < n_choices; i++)
		json_array_append_new(h->choices,
				route == OPENAI_CHAT
						? json_pack("{s:I,s:{s:s,s:s,s:n},s:n,s:n}", "index", (json_int_t)i,
								  "message", "role", "assistant", "content", "",
								  "refusal", "logprobs", "finish_reason")
						: json_pack("{s:s,s:I,s:n,s:n}", "text", "", "index", (json_int_t)i,
								  "logprobs", "finish_reason"));
	while (p < end) {
		const char *stop = memmem(p, (size_t)(end - p), "\n\n", 2);
		assert_false(done);
		assert_non_null(stop);
		assert_memory_equal(p, "data: ", 6);
		assert_null(memchr(p, '\n', (size_t)(stop - p)));
		p += 6;
		if (stop - p == 6 && memcmp(p, "[DONE]", 6) == 0) {
			done = true;
		} else {
			json_t *j = json_loadb(p, (size_t)(stop - p), JSON_ALLOW_NUL, NULL);
			if (!j)
				fail_msg("no JSON: %.*s", (int)(stop - p), p);
			assert_null(h->error);
			assert_null(h->usage);
			const json_t *used = json_object_get(j, "usage"), *list = json_object_get(j, "choices");
			if (json_object_get(j, "error")) {
				h->error = json_incref(json_object_get(j, "error"));
			} else {
				assert_string_equal(json_string_value(json_object_get(j, "id")), "x");
				assert_string_equal(json_string_value(json_object_get(j, "object")),
						route == OPENAI_CHAT ? "chat.completion.chunk" : "text_completion");
				assert_string_equal(json_string_value(json_object_get(j, "model")), "cohort-tiny");
				assert_int_equal(json_integer_value(json_object_get(j, "created")), 7);
				assert_int_equal(used != NULL, usage);
				assert_int_equal(json_array_size(list), used && !json_is_null(used) ? 0 : 1);
				if (json_array_size(list) > 0)
					oas_hear_choice(h, route, json_array_get(list, 0));
				else
					h->usage = json_deep_copy(used);
			}
			json_decref(j);
		}
		h->n_events++;
		p = stop + 2;
	}
	assert_true(done);
	/* An answer that is nothing but calls has no content. */
	for (size_t i = 0; i < n_choices; i++) {
		json_t *message = json_object_get(json_array_get(h->choices, i), "message");
		if (json_object_get(message, "tool_calls") &&
				json_string_length(json_object_get(message, "content")) == 0)
			json_object_set_new(message, "content", json_null());
	}
}

static inline void oas_forget(struct oas_heard *h)
{
	json_decref(h->choices);
	json_decref(h->usage);
	json_decref(h->error);
}

#endif
