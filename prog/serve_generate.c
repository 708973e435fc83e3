/* Completions, chats and embeddings, as OpenAI's API has them. */
#include "serve_work.h"

static enum step whole_answer(struct call *c, struct work *w)
{
	struct openai_error e = {0};

	for (size_t i = 0; i < w->r.n_prompts; i++)
		if (!openai_request_take(&c->srv->host, &w->r, i, w->handles[i], &e))
			return answer_error(c, &e);
	json_t *v = openai_response(&c->srv->host, &w->r, w->id, w->created);
	if (!v || json_object_set_new(v, "timings", work_timings(w->stats, w->r.n_prompts)) ||
			(w->r.route != OPENAI_EMBEDDINGS &&
					json_object_set_new(v, "seed",
							json_integer((json_int_t)w->r.params.sampler.seed)))) {
		json_decref(v);
		openai_no_memory(&e);
		return answer_error(c, &e);
	}
	return answer_json(c, 200, v);
}

static bool stream_open(struct call *c, struct work *w)
{
	return openai_stream_init(&w->u.stream, &c->srv->host, &w->r, w->id, w->created);
}

static void stream_close(struct work *w)
{
	openai_stream_release(&w->u.stream);
}

static bool stream_begin(struct call *c, struct work *w, struct openai_buf *out)
{
	(void)c;
	return openai_stream_begin(&w->u.stream, out);
}

static bool stream_event(
		struct call *c, struct work *w, size_t i, const struct cohort_event *ev, struct openai_buf *out)
{
	(void)c;
	const bool ok = openai_stream_event(&w->u.stream, i, ev, out);
	w->failed |= w->u.stream.failed;
	return ok;
}

static bool stream_error(struct call *c, struct work *w, const struct openai_error *e, struct openai_buf *out)
{
	(void)c;
	return openai_stream_error(&w->u.stream, e, out);
}

static bool stream_end(struct call *c, struct work *w, struct openai_buf *out)
{
	(void)c;
	json_t *timings = w->r.include_usage ? work_timings(w->stats, w->r.n_prompts) : NULL;
	w->u.stream.timings = timings;
	const bool ok = openai_stream_end(&w->u.stream, w->stats, w->r.n_prompts, out);
	w->u.stream.timings = NULL;
	json_decref(timings);
	return ok;
}

#define OPENAI_KIND(route, prefix) \
	{ \
		route, prefix, NULL, NULL, whole_answer, stream_open, stream_close, stream_begin, stream_event, \
				stream_error, stream_end \
	}

enum step run_chat(struct call *c)
{
	static const struct work_kind kind = OPENAI_KIND(OPENAI_CHAT, "chatcmpl-");
	return work_run(c, &kind);
}

enum step run_completions(struct call *c)
{
	static const struct work_kind kind = OPENAI_KIND(OPENAI_COMPLETIONS, "cmpl-");
	return work_run(c, &kind);
}

enum step run_embeddings(struct call *c)
{
	static const struct work_kind kind = OPENAI_KIND(OPENAI_EMBEDDINGS, "embd-");
	return work_run(c, &kind);
}
