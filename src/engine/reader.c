/* The user's side of a request: events asked for, waiting, whole outputs.
 *
 * Text is not handed over: a reader makes it again from the tokens, as far as the engine says that it may be shown. So
 * the engine's thread writes no text and needs no memory for it.
 *
 * Invariants
 *  1. The lock is held only to learn how much was told; what was told does not change any more. */
#include "engine/core.h"

#include "base/mem.h"
#include "base/pool.h"

#include <math.h>

/* ---- Text ---- */

/* Appends what the detokeniser gives for one token. */
static enum cohort_status append_token(struct stream *s, cohort_token token, struct cohort_err *err)
{
	struct cohort_err e; /* too little room is nobody's failure */

	for (;;) {
		size_t n = 0;
		const size_t room = s->rest->read_text_max - s->rest->n_read_text;
		enum cohort_status st = cohort_detok_push(&s->rest->detok, token,
				s->rest->read_text ? s->rest->read_text + s->rest->n_read_text : NULL, room, &n, &e);
		if (st != COHORT_E_LIMIT) {
			s->rest->n_read_text += st ? 0 : n;
			if (st && err)
				*err = e;
			return st;
		}
		if (!mem_grow((void **)&s->rest->read_text, &s->rest->read_text_max, s->rest->n_read_text + n + 8, 1))
			return err_set(err, COHORT_E_MEMORY, "out of memory for the text of an output");
	}
}

/* Makes the text of the first n tokens. */
static enum cohort_status make_text(struct stream *s, int32_t n, struct cohort_err *err)
{
	const struct cohort_request *r = s->request;
	enum cohort_status st = COHORT_OK;

	while (!st && s->rest->n_made < n) {
		const cohort_token token = s->known[r->p.n_prompt + s->rest->n_made];
		if (s->has_text && !request_is_silent(r, token))
			st = append_token(s, token, err);
		s->rest->n_made += !st;
	}
	return st;
}

/* The text has ended: what was held back follows, as far as it may. */
static enum cohort_status make_end(struct stream *s, struct cohort_err *err)
{
	char rest[4];

	if (s->rest->end_made)
		return COHORT_OK;
	if (!mem_grow((void **)&s->rest->read_text, &s->rest->read_text_max, s->rest->n_read_text + sizeof rest + 1, 1))
		return err_set(err, COHORT_E_MEMORY, "out of memory for the text of an output");
	const size_t n = cohort_detok_flush(&s->rest->detok, rest);
	for (size_t i = 0; i < n; i++)
		s->rest->read_text[s->rest->n_read_text++] = rest[i];
	if (s->rest->n_shown < s->rest->n_read_text)
		s->rest->n_read_text = s->rest->n_shown;
	s->rest->read_text[s->rest->n_read_text] = 0;
	s->rest->end_made = true;
	return COHORT_OK;
}

/* ---- Events ---- */

static void give_text(struct stream *s, size_t upto, struct cohort_event *e)
{
	upto = upto < s->rest->n_read_text ? upto : s->rest->n_read_text;
	e->text = s->rest->read_text ? s->rest->read_text + s->rest->n_given : "";
	e->n_bytes = upto > s->rest->n_given ? upto - s->rest->n_given : 0;
	s->rest->n_given += e->n_bytes;
}

static enum cohort_status token_event(struct stream *s, struct cohort_event *e, struct cohort_err *err)
{
	const struct cohort_request *r = s->request;
	const int32_t i = s->rest->n_read;
	enum cohort_status st = make_text(s, i + 1, err);

	if (st)
		return st;
	s->rest->n_read++;
	*e = (struct cohort_event){
			.kind = COHORT_EVENT_TOKEN,
			.output = s->index,
			.index = i,
			.token = s->known[r->p.n_prompt + i],
			.logprob = s->rest->logprobs ? s->rest->logprobs[i] : 0,
			.chain_logprob = s->rest->chain_logprobs ? s->rest->chain_logprobs[i] : 0,
			.top = r->n_top ? s->rest->top + (size_t)i * (size_t)r->n_top : NULL,
			.n_top = s->rest->logprobs ? r->n_top : 0,
	};
	give_text(s, s->rest->shown[i], e);
	return COHORT_OK;
}

static enum cohort_status end_event(struct stream *s, struct cohort_event *e, struct cohort_err *err)
{
	enum cohort_status st = make_end(s, err);

	if (st)
		return st;
	s->rest->end_read = true;
	*e = (struct cohort_event){
			.kind = COHORT_EVENT_END,
			.output = s->index,
			.finish = s->rest->finish,
			.error = s->rest->ending_err.status ? &s->rest->ending_err : NULL,
	};
	give_text(s, SIZE_MAX, e);
	return COHORT_OK;
}

static void prompt_event(struct cohort_request *r, struct cohort_event *e)
{
	r->prompt_read = true;
	*e = (struct cohort_event){.kind = COHORT_EVENT_PROMPT,
			.text = "",
			.prompt_logprobs = r->prompt_logprobs,
			.prompt_top = r->prompt_top,
			.n_prompt = r->p.n_prompt,
			.n_top = r->n_top};
	if (r->embedding)
		*e = (struct cohort_event){.kind = COHORT_EVENT_EMBEDDING,
				.text = "",
				.embedding = r->embedding,
				.n_embd = r->n_embd};
}

/* What there is to read next. */
enum news { NEWS_NONE, NEWS_PROMPT, NEWS_TOKEN, NEWS_END, NEWS_DONE };

/* Under the lock. *which: the stream it is of. */
static enum news find_news(struct cohort_request *r, int32_t *which)
{
	if (r->prompt_told && !r->prompt_read)
		return NEWS_PROMPT;
	for (int32_t k = 0; k < r->p.n_outputs; k++) {
		const int32_t i = (r->i_reader + k) % r->p.n_outputs;
		const struct stream *s = &r->streams[i];
		const bool token = s->rest->n_read < s->n_told;
		if (token || (s->rest->finish != COHORT_FINISH_NONE && !s->rest->end_read)) {
			*which = i;
			r->i_reader = i + 1;
			return token ? NEWS_TOKEN : NEWS_END;
		}
	}
	return r->done && !r->done_read ? NEWS_DONE : NEWS_NONE;
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
	int32_t which = 0;

	if (!r || !event)
		return err_set(err, COHORT_E_ARG, "%s is NULL", r ? "event" : "request");
	if (r->p.on_event)
		return err_set(err, COHORT_E_ARG, "the request has a callback for its events");
	if (isnan(timeout_s))
		return err_rule(err, COHORT_E_ARG, "timeout_s", -1, -1, 0, 0, "timeout_s is not a number");
	const double until = clock_now() + timeout_s;
	*event = (struct cohort_event){.kind = COHORT_EVENT_NONE, .text = ""};
	lock_take(&r->hub->lock);
	enum news news = find_news(r, &which);
	/* Who waited looks once more, in time or not: the engine may have told an event while the wait was ending, and
	 * what is called NONE here is an event that on_ready does not come for. */
	for (bool in_time = true; news == NEWS_NONE && !r->done_read && in_time; news = find_news(r, &which))
		in_time = wait_more(r, timeout_s, until);
	if (news == NEWS_NONE && r->p.on_ready)
		notice_read(r);
	lock_give(&r->hub->lock);
	if (news == NEWS_TOKEN)
		return token_event(&r->streams[which], event, err);
	if (news == NEWS_END)
		return end_event(&r->streams[which], event, err);
	if (news == NEWS_PROMPT)
		prompt_event(r, event);
	if (news == NEWS_DONE) {
		r->done_read = true;
		event->kind = COHORT_EVENT_DONE;
	}
	return COHORT_OK;
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
	enum cohort_status st = make_text(s, n, err);
	if (!st)
		st = make_end(s, err);
	if (st)
		return st;
	*output = (struct cohort_output){
			.tokens = s->known + r->p.n_prompt,
			.n_tokens = n,
			.text = s->rest->read_text,
			.n_bytes = s->rest->n_read_text,
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
	/* The engine looks through its queue for who was cancelled: not for those that have ended, whose handles are
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
