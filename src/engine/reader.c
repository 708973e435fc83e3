/* The user's side of a request: events asked for, waiting, whole outputs.
 *
 * Without stop strings a reader makes the text from the tokens that it knows of, so that the engine's thread need
 * not.
 *
 * Invariants
 *  1. The lock is held only to learn how much was told; what was told does not change any more. */
#include "engine/stream.h"

#include "base/pool.h"

#include <math.h>

/* ---- Text ---- */

/* The text of the first n tokens, if the engine's thread does not make it; ended: there are no more. */
static enum cohort_status make_text(struct stream *s, int32_t n, bool ended, struct cohort_err *err)
{
	struct stream_rest *rest = s->rest;
	enum cohort_status st = COHORT_OK;

	if (!s->has_text || s->makes_text)
		return COHORT_OK;
	for (; rest->n_made < n; rest->shown[rest->n_made++] = (uint32_t)rest->text.n_shown) {
		const cohort_token token = s->known[s->n_prompt + rest->n_made];
		/* What ends an output says nothing. */
		if (!request_has_stop(s->request, token) && !cohort_token_is_eog(s->request->model, token))
			st = text_push(&rest->text, token, err);
		if (st)
			return st;
	}
	if (ended)
		text_end(&rest->text);
	return COHORT_OK;
}

/* ---- Events ---- */

/* What there is to read next, and of which stream. Under the lock. */
static enum cohort_event_kind find_event(struct cohort_request *r, struct stream **of)
{
	if (r->prompt_told && !r->prompt_read)
		return r->embedding ? COHORT_EVENT_EMBEDDING : COHORT_EVENT_PROMPT;
	for (int32_t k = 0; k < r->p.n_outputs; k++) {
		const int32_t i = (r->i_reader + k) % r->p.n_outputs;
		struct stream *s = &r->streams[i];
		const bool token = s->rest->n_read < s->n_told;
		if (token || (s->rest->finish != COHORT_FINISH_NONE && !s->rest->end_read)) {
			*of = s;
			r->i_reader = i + 1;
			return token ? COHORT_EVENT_TOKEN : COHORT_EVENT_END;
		}
	}
	return r->done && !r->done_read ? COHORT_EVENT_DONE : COHORT_EVENT_NONE;
}

/* Under the lock: the engine wakes only those that it knows to wait. */
static void watch(struct cohort_request *r, int32_t n)
{
	r->n_waiting += n;
	for (int32_t i = 0; i < r->p.n_outputs; i++)
		r->streams[i].watched = r->n_waiting > 0 || r->p.on_ready;
}

/* Waits for news, with the lock; false: that took too long. */
static bool wait_more(struct cohort_request *r, double timeout_s, double until)
{
	bool in_time = true;

	if (timeout_s == 0)
		return false;
	watch(r, 1);
	if (timeout_s > 0)
		in_time = cond_wait_until(&r->told, &r->hub->lock, until);
	else
		cond_wait(&r->told, &r->hub->lock);
	watch(r, -1);
	return in_time;
}

enum cohort_status cohort_request_next(
		struct cohort_request *r, double timeout_s, struct cohort_event *event, struct cohort_err *err)
{
	if (!r || !event)
		return err_set(err, COHORT_E_ARG, "%s is NULL", r ? "event" : "request");
	if (r->p.on_event)
		return err_set(err, COHORT_E_ARG, "the request has a callback for its events");
	if (isnan(timeout_s))
		return err_rule(err, COHORT_E_ARG, "timeout_s", -1, -1, 0, 0, "timeout_s is not a number");
	const double until = clock_now() + timeout_s;
	struct stream *s = r->streams;
	lock_take(&r->hub->lock);
	enum cohort_event_kind kind = find_event(r, &s);
	/* After a wait there is one more look, in time or not: the engine may have told an event while the wait was
	 * ending, and what is called NONE here is an event that on_ready does not come for. */
	for (bool in_time = true; kind == COHORT_EVENT_NONE && !r->done_read && in_time; kind = find_event(r, &s))
		in_time = wait_more(r, timeout_s, until);
	if (kind == COHORT_EVENT_NONE && r->p.on_ready)
		notice_read(r);
	lock_give(&r->hub->lock);
	enum cohort_status st = COHORT_OK;
	if (kind == COHORT_EVENT_TOKEN || kind == COHORT_EVENT_END)
		st = make_text(s, s->rest->n_read + (kind == COHORT_EVENT_TOKEN), kind == COHORT_EVENT_END, err);
	event_take(s, st ? COHORT_EVENT_NONE : kind, event);
	return st;
}

enum cohort_status cohort_request_wait(struct cohort_request *r, double timeout_s, bool *done, struct cohort_err *err)
{
	if (!r)
		return err_set(err, COHORT_E_ARG, "request is NULL");
	if (isnan(timeout_s))
		return err_rule(err, COHORT_E_ARG, "timeout_s", -1, -1, 0, 0, "timeout_s is not a number");
	const double until = clock_now() + timeout_s;
	lock_take(&r->hub->lock);
	while (!r->done && wait_more(r, timeout_s, until))
		;
	if (done)
		*done = r->done;
	lock_give(&r->hub->lock);
	return COHORT_OK;
}

/* ---- Whole outputs ---- */

enum cohort_status cohort_request_output_get(
		struct cohort_request *r, int32_t i, struct cohort_output *output, struct cohort_err *err)
{
	if (!r || !output)
		return err_set(err, COHORT_E_ARG, "%s is NULL", r ? "output" : "request");
	if (i < 0 || i >= r->p.n_outputs)
		return err_rule(err, COHORT_E_ARG, "output", -1, -1, r->p.n_outputs, i,
				"output %d of a request with %d", i, r->p.n_outputs);
	struct stream *s = &r->streams[i];
	lock_take(&r->hub->lock);
	const enum cohort_finish finish = s->rest->finish;
	const int32_t n = s->n_told;
	lock_give(&r->hub->lock);
	if (finish == COHORT_FINISH_NONE)
		return err_set(err, COHORT_E_ARG, "output %d has not ended", i);
	enum cohort_status st = make_text(s, n, true, err);
	if (st)
		return st;
	*output = (struct cohort_output){
			.tokens = s->known + r->p.n_prompt,
			.n_tokens = n,
			.text = text_so_far(&s->rest->text),
			.n_bytes = s->rest->text.n_shown,
			.logprobs = s->rest->logprobs,
			.finish = finish,
			.error = s->rest->ending_err.status ? &s->rest->ending_err : NULL,
	};
	return COHORT_OK;
}

void cohort_request_stats_get(struct cohort_request *r, struct cohort_request_stats *stats)
{
	if (!r || !stats)
		return;
	lock_take(&r->hub->lock);
	*stats = r->stats;
	stats->n_generated = 0;
	for (int32_t i = 0; i < r->p.n_outputs; i++)
		stats->n_generated += r->streams[i].n_told;
	lock_give(&r->hub->lock);
}

void cohort_request_cancel(struct cohort_request *r)
{
	/* The engine looks through its queue for requests that were cancelled; of those that have ended the handles are
	 * freed. */
	if (!r || atomic_load(&r->over) || atomic_exchange(&r->cancelled, true))
		return;
	atomic_fetch_add(&r->hub->n_cancels, 1);
}

void cohort_request_free(struct cohort_request *r)
{
	if (!r)
		return;
	cohort_request_cancel(r);
	if (r->p.on_ready)
		notice_stop(r);
	request_unref(r);
}
