/* A body becomes requests of the engine, its events an answer or a stream.
 *
 * Invariants
 *  1. A body whose first prompt finds the queue full is refused. Behind it prompts are queued in their order as there
 *     is room, at most so many at once that others find room, too; when one is refused for good, those before it are
 *     cancelled and the refusal is the answer. Limits in time count from the first.
 *  2. When the client is gone, or an error was told, everything that is still under way for it is cancelled.
 *  3. A stream ends with one terminal event, whatever happened before. */
#include "serve_work.h"

#include "sampling.h"

#include "base/err.h"
#include "base/mem.h"
#include "base/pool.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

enum {
	PREFIX_TOKENS = 64, /* that X-Prefix-Hash looks at: two blocks of the cache */
	ANSWER_LARGE = 8192 /* numbers of an answer that an HTTP thread does not write: a millisecond or two */
};
#define RETRY_S 0.1 /* to look for room in the queue when nothing of the body is under way, whose end would tell */

static void on_ready(struct cohort_request *request, void *user)
{
	(void)request;
	seat_wake(user);
}

static void cancel_all(struct work *w)
{
	for (size_t i = 0; w->handles && i < w->r.n_prompts; i++)
		if (w->handles[i])
			cohort_request_cancel(w->handles[i]);
}

static void drop(struct call *c)
{
	struct work *w = c->work;

	for (size_t i = 0; w->handles && i < w->r.n_prompts; i++) {
		struct cohort_request_stats s;
		if (!w->handles[i])
			continue;
		cohort_request_stats_get(w->handles[i], &s);
		if (!w->done[i])
			s.finish = s.finish == COHORT_FINISH_NONE ? COHORT_FINISH_CANCELLED : s.finish;
		metrics_request(&c->srv->metrics, &s, false);
		cohort_request_free(w->handles[i]);
	}
	if (w->streaming)
		w->kind->close(w);
	if (w->parsed)
		openai_request_release(&c->srv->host, &w->r);
	mem_free(w->handles);
	mem_free(w->done);
	mem_free(w->stats);
	mem_free(w);
	c->work = NULL;
}

/* ---- Fields of our own ---- */

static bool read_number(const struct openai_request *r, const char *name, double min, double max, double *out,
		struct openai_error *e)
{
	const json_t *v = openai_field(r, name);

	if (!v)
		return true;
	const double x = json_number_value(v);
	if (!json_is_number(v) || !(x >= min && x <= max))
		return openai_refuse(e, name, NULL, "%s is %s, expected a number from %.10g to %.10g", name,
				json_is_number(v) ? "out of range" : openai_kind(v), min, max);
	*out = x;
	return true;
}

bool work_read_text(const struct server *srv, const json_t *body, const char *name, uint64_t from, uint64_t *out,
		struct openai_error *e)
{
	const json_t *v = json_object_get(body, name);

	if (!v || json_is_null(v))
		return true;
	if (!json_is_string(v) || json_string_length(v) > WORK_TEXT_MAX)
		return openai_refuse(e, name, NULL, "%s is %s, expected a string of at most %d bytes", name,
				json_is_string(v) ? "too long" : openai_kind(v), WORK_TEXT_MAX);
	*out = serve_hash(srv, from, json_string_value(v), json_string_length(v));
	return true;
}

/* priority, deadline_s, session, cache_salt; and whose it is. */
static bool read_extras(struct call *c, struct openai_request *r, struct openai_error *e)
{
	const struct serve_limits *l = &c->srv->limits;
	struct cohort_request_params *p = &r->params;
	double priority = 0, deadline = l->total_s;

	p->client = call_client(c);
	p->salt = call_salt(c);
	p->queue_limit_s = l->queue_s;
	p->prefill_limit_s = l->prefill_s;
	p->decode_limit_s = l->decode_s;
	if (!read_number(r, "priority", -1000, 1000, &priority, e) ||
			!read_number(r, "deadline_s", 0.001, 1e6, &deadline, e) ||
			!work_read_text(c->srv, r->body, "session", serve_hash(c->srv, p->client, "s", 1), &p->session,
					e) ||
			!work_read_text(c->srv, r->body, "cache_salt", p->salt, &p->salt, e))
		return false;
	if (floor(priority) != priority)
		return openai_refuse(e, "priority", NULL, "priority is %g, expected a whole number", priority);
	p->priority = priority < (double)l->priority_max ? (int32_t)priority : (int32_t)l->priority_max;
	p->total_limit_s = l->total_s > 0 && deadline > l->total_s ? l->total_s : deadline;
	return true;
}

bool work_check_grammars(const struct server *srv, const json_t *body, struct openai_error *e)
{
	static const char *const names[] = {"grammar", "json_schema", "response_format", "tools"};
	const int64_t max = srv->limits.grammar_bytes;

	for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
		const json_t *v = json_object_get(body, names[i]);
		struct openai_buf b = {.n = json_string_length(v)};
		if ((json_is_object(v) || json_is_array(v)) && !openai_dump(&b, v)) {
			openai_buf_release(&b);
			return openai_no_memory(e);
		}
		const size_t n = b.n;
		openai_buf_release(&b);
		if (n > (size_t)max)
			return openai_refuse(e, names[i], NULL, "%s has %zu bytes, this server takes at most %lld",
					names[i], n, (long long)max);
	}
	return true;
}

bool work_check_limits(const struct server *srv, const struct openai_request *r, struct openai_error *e)
{
	const struct serve_limits *l = &srv->limits;
	const int64_t n_prompts = (int64_t)r->n_prompts;

	if (r->route != OPENAI_EMBEDDINGS && r->best_of * n_prompts > l->choices)
		return openai_refuse(e,
				n_prompts > l->choices              ? "prompt"
						: r->best_of > r->n ? "best_of"
								    : "n",
				NULL,
				"%lld choices of %lld prompts were asked for, this server gives at most %lld in a "
				"request",
				(long long)r->best_of, (long long)n_prompts, (long long)l->choices);
	if (r->params.n_stops > l->stops)
		return openai_refuse(e, "stop", NULL, "%d stop strings, this server takes at most %lld",
				r->params.n_stops, (long long)l->stops);
	return true;
}

/* ---- Into the engine ---- */

/* What is left of a limit (0: none) after gone_s seconds; false: nothing. */
static bool left_of(const char *which, double limit_s, double gone_s, double *left_s, struct openai_error *e)
{
	struct cohort_err err;

	*left_s = limit_s > 0 ? limit_s - gone_s : limit_s;
	if (limit_s <= 0 || *left_s > 0)
		return true;
	err_set(&err, COHORT_E_LIMIT, "%s: more than the %g seconds it may take", which, limit_s);
	return openai_check_end(COHORT_FINISH_TIMEOUT, &err, e);
}

/* Queues prompts that were not yet, as many as there is room for. False: refused, and all is cancelled. */
static bool submit_more(struct call *c, struct work *w, struct openai_error *e)
{
	const struct cohort_engine_params *ep = &c->srv->engine_params;
	const size_t n_ahead = (size_t)ep->n_slots + (size_t)ep->queue_requests_max / 4; /* half of a share */
	const double gone_s = w->came > 0 ? clock_now() - w->came : 0;
	struct openai_request *r = &w->r;

	c->wake_at = 0;
	while (w->n_submitted < r->n_prompts && w->n_submitted - w->n_done < n_ahead) {
		if (left_of("queue-limit", w->queue_limit_s, gone_s, &r->params.queue_limit_s, e) &&
				left_of("total-limit", w->total_limit_s, gone_s, &r->params.total_limit_s, e) &&
				openai_request_submit(&c->srv->host, r, w->n_submitted, c->srv->engine,
						&w->handles[w->n_submitted], e)) {
			w->n_submitted++;
			continue;
		}
		if (e->status != 429 || w->n_submitted == 0) {
			cancel_all(w);
			return false;
		}
		*e = (struct openai_error){0};
		if (w->n_submitted == w->n_done)
			c->wake_at = clock_now() + RETRY_S;
		break;
	}
	return true;
}

static bool submit_first(struct call *c, struct work *w, struct openai_error *e)
{
	struct openai_request *r = &w->r;
	const size_t n = r->n_prompts;

	w->handles = mem_zalloc(n, sizeof *w->handles);
	w->done = mem_zalloc(n, sizeof *w->done);
	w->stats = mem_zalloc(n, sizeof *w->stats);
	if (!w->handles || !w->done || !w->stats)
		return openai_no_memory(e);
	w->queue_limit_s = r->params.queue_limit_s;
	w->total_limit_s = r->params.total_limit_s;
	r->params.on_ready = on_ready;
	r->params.user = c->seat;
	r->params.ready_at_end = !r->stream;
	const bool ok = submit_more(c, w, e);
	w->came = clock_now();
	return ok;
}

static void set_done(struct work *w, size_t i)
{
	if (w->done[i])
		return;
	w->done[i] = true;
	w->n_done++;
	cohort_request_stats_get(w->handles[i], &w->stats[i]);
}

/* ---- A whole answer ---- */

static double ms(double from, double to)
{
	return from >= 0 && to > from ? 1000 * (to - from) : 0;
}

/* What the request went through, in llama-server's words and some of ours. Of several prompts the times are the longest
 * and the numbers summed up. */
json_t *work_timings(const struct cohort_request_stats *stats, size_t n)
{
	double queue = 0, prefill = 0, decode = 0;
	int64_t n_prompt = 0, n_cached = 0, n_generated = 0, n_parked = 0;

	for (size_t i = 0; i < n; i++) {
		const struct cohort_request_stats *s = &stats[i];
		const double first = s->first_token_s >= 0 ? s->first_token_s : s->end_s;
		queue = fmax(queue, ms(0, s->queued_s));
		prefill = fmax(prefill, ms(s->queued_s, first));
		decode = fmax(decode, ms(s->first_token_s, s->end_s));
		n_prompt += s->n_prompt;
		n_cached += s->n_cached;
		n_generated += s->n_generated;
		n_parked += s->n_parked;
	}
	const double n_new = (double)(n_prompt - n_cached);
	return json_pack("{s:I, s:I, s:f, s:f, s:I, s:f, s:f, s:f, s:I}", "cache_n", (json_int_t)n_cached, "prompt_n",
			(json_int_t)n_new, "prompt_ms", prefill, "prompt_per_second",
			prefill > 0 ? 1000 * n_new / prefill : 0.0, "predicted_n", (json_int_t)n_generated,
			"predicted_ms", decode, "predicted_per_second",
			decode > 0 ? 1000 * (double)n_generated / decode : 0.0, "queue_ms", queue, "parked_n",
			(json_int_t)n_parked);
}

/* About how many numbers the answer has. */
static double answer_size(const struct call *c, const struct work *w)
{
	const struct openai_request *r = &w->r;
	double n = 0;

	if (r->route == OPENAI_EMBEDDINGS)
		return (double)r->n_prompts * c->srv->host.info.n_embd;
	for (size_t i = 0; i < r->n_prompts; i++) {
		const struct cohort_request_stats *s = &w->stats[i];
		n += (double)s->n_generated + (r->echo ? (double)s->n_prompt * r->params.n_outputs : 0);
	}
	return n * (2 + r->n_logprobs);
}

static enum step answer_whole(struct call *c)
{
	struct work *w = c->work;
	const enum step s = w->kind->whole(c, w);

	/* They are in the answer. Here and not in drop, as they may be many. */
	for (size_t i = 0; i < w->r.n_prompts; i++) {
		json_decref(w->r.prompts[i].choices);
		w->r.prompts[i].choices = NULL;
	}
	return s;
}

static enum step wait_for_all(struct call *c)
{
	struct work *w = c->work;
	struct openai_error e = {0};

	for (size_t i = 0; i < w->n_submitted; i++) {
		bool done = false;
		struct cohort_err err;
		if (!w->done[i] && !cohort_request_wait(w->handles[i], 0, &done, &err) && done)
			set_done(w, i);
	}
	if (!submit_more(c, w, &e))
		return answer_error(c, &e);
	if (w->n_done < w->r.n_prompts)
		return STEP_WAIT;
	/* It may be a worker that is here already. */
	return c->job.run || answer_size(c, w) < ANSWER_LARGE ? answer_whole(c) : call_prepare(c, true, answer_whole);
}

/* ---- A stream ---- */

/* What there is of prompt i, up to a buffer's worth; true when there may be more. */
static bool read_events(struct call *c, struct work *w, size_t i, struct openai_buf *out, bool *ok)
{
	struct cohort_event ev;
	struct cohort_err err;

	while (*ok && out->n < 1 << 15) {
		if (cohort_request_next(w->handles[i], 0, &ev, &err)) {
			*ok = false;
			return false;
		}
		if (ev.kind == COHORT_EVENT_NONE)
			return false;
		if (ev.kind == COHORT_EVENT_DONE) {
			set_done(w, i);
			return false;
		}
		*ok = w->kind->event(c, w, i, &ev, out);
	}
	return true;
}

static bool more(struct call *c, struct openai_buf *out, double *wake_at)
{
	struct work *w = c->work;
	const double ping = c->srv->limits.ping_s, now = clock_now();
	struct openai_error e = {0};
	bool ok = true, again = false;

	if (w->ended)
		return false;
	if (!w->begun) {
		ok = w->kind->begin(c, w, out);
		w->begun = true;
	}
	for (size_t i = 0; i < w->n_submitted && ok; i++)
		if (!w->done[i])
			again |= read_events(c, w, i, out, &ok);
	if (!ok)
		openai_no_memory(&e);
	else if (!w->failed)
		ok = submit_more(c, w, &e);
	if (!ok && !w->failed) {
		w->failed = true;
		if (!w->kind->error(c, w, &e, out))
			return false;
	}
	if (w->failed)
		cancel_all(w);
	if (w->failed || w->n_done == w->r.n_prompts) {
		w->ended = true;
		w->kind->end(c, w, out);
		return false;
	}
	if (out->n == 0 && !again && ping > 0 && now - w->spoke >= ping)
		openai_buf_add(out, ": ping\n\n", 8);
	if (out->n > 0)
		w->spoke = now;
	*wake_at = ping > 0 ? w->spoke + ping : 0;
	if (c->wake_at > 0 && (ping <= 0 || c->wake_at < *wake_at))
		*wake_at = c->wake_at;
	return true;
}

/* ---- A route ---- */

/* What the first prompt begins with, as a number that is the same on every server with this model: a client sends it
 * along next time, so that a proxy finds the server that has the beginning in its cache. */
static void set_prefix(struct call *c, const struct openai_request *r)
{
	const size_t n = r->prompts[0].n < PREFIX_TOKENS ? r->prompts[0].n : PREFIX_TOKENS;
	const unsigned char *p = (const unsigned char *)(r->tokens + r->prompts[0].first);
	uint64_t hash = 0xcbf29ce484222325u;

	for (size_t i = 0; i < n * sizeof *r->tokens; i++)
		hash = (hash ^ p[i]) * 0x100000001b3u;
	hash = (hash ^ hash >> 32) * 0x9e3779b97f4a7c15u;
	hash ^= hash >> 29;

	snprintf(c->prefix, sizeof c->prefix, "%016" PRIx64, hash);
}

enum step work_run(struct call *c, const struct work_kind *kind)
{
	struct openai_error e = {0};
	struct work *w = mem_zalloc(1, sizeof *w);
	json_t *body = w ? call_json_ids(c, &e) : NULL;

	c->work = w;
	c->drop = w ? drop : NULL;
	if (!w) {
		openai_no_memory(&e);
		return answer_error(c, &e);
	}
	w->kind = kind;
	w->parsed = body && (!kind->prepare || kind->prepare(c, body, &e)) && work_check_grammars(c->srv, body, &e) &&
			openai_request_parse_field(&c->srv->host, kind->route, kind->field ? kind->field(body) : NULL,
					body, &w->r, &e);
	json_decref(body);
	if (!w->parsed || !work_check_limits(c->srv, &w->r, &e) || !read_extras(c, &w->r, &e))
		return answer_error(c, &e);
	if (!w->r.has_seed && !c->srv->seed_given)
		w->r.params.sampler.seed = seed_draw();
	if (kind->route != OPENAI_EMBEDDINGS)
		snprintf(c->seed, sizeof c->seed, "%" PRIu64, w->r.params.sampler.seed);
	set_prefix(c, &w->r);
	serve_id(c->srv, kind->prefix, w->id, sizeof w->id);
	w->created = (int64_t)time(NULL);
	w->spoke = clock_now();
	if (w->r.stream && !(w->streaming = kind->open(c, w)))
		openai_no_memory(&e);
	/* Not left to the engine, which is told some moments after the socket for new connections is closed. */
	if (e.status || refuse_draining(c->srv, &e) || !submit_first(c, w, &e))
		return answer_error(c, &e);
	if (w->r.stream)
		return answer_stream(c, "text/event-stream", more);
	c->step = wait_for_all;
	return wait_for_all(c);
}
