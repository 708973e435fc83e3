/* What a stream says: the token after its last row, whether that ends it, and telling those who wait.
 *
 * Invariants
 *  1. A stream ends exactly once, and a request when its last stream does; both are told.
 *  2. Tokens, log-probabilities and shown bytes that were told (n_told) are never written again, so that readers need
 *     the lock only to learn how many there are.
 *  3. Callbacks run without the lock, after everything of the tick was told; notices (notice.c) before the others. */
#include "engine/core.h"

#include <math.h>

void stream_mark(struct core *c, struct stream *s)
{
	if (s->changed)
		return;
	s->changed = true;
	s->next_changed = NULL;
	*c->last_changed = s;
	c->last_changed = &s->next_changed;
}

/* ---- Sampling ---- */

static enum cohort_status note_logprobs(
		const struct core *c, struct stream *s, const float *logits, int32_t i, struct cohort_err *err)
{
	const int32_t n_top = s->request->n_top;

	if (!logits) {
		s->rest->logprobs[i] = 0;
		return COHORT_OK;
	}
	if (s->rest->chain_logprobs) /* the token is the sampler's own, so that it cannot refuse it */
		cohort_sampler_logprobs_get(s->sampler, s->last, &s->rest->chain_logprobs[i], NULL, 0, NULL, NULL);
	return cohort_logprobs_get(logits, c->lim.n_vocab, s->known[s->n_known - 1], &s->rest->logprobs[i],
			n_top ? s->rest->top + (size_t)i * (size_t)n_top : NULL, n_top, NULL, err);
}

static bool is_stop_token(const struct cohort_request *r, cohort_token token)
{
	for (int32_t i = 0; i < r->p.n_stop_tokens; i++)
		if (r->stop_tokens[i] == token)
			return true;
	return false;
}

/* Adds the token to the text; says how that ended the stream, if it did. A simulation has no text. */
static enum cohort_finish add_token(struct stream *s, cohort_token token, int32_t i)
{
	const struct cohort_request *r = s->request;
	enum cohort_finish finish = COHORT_FINISH_NONE;

	if (s->has_text && request_is_silent(r, token))
		text_skip(&s->rest->text);
	if (s->has_stops && is_stop_token(r, token))
		finish = COHORT_FINISH_STOP;
	else if (s->sampler && cohort_token_is_eog(r->model, token))
		finish = r->p.ignore_eos ? COHORT_FINISH_NONE : COHORT_FINISH_EOG;
	else if (s->has_text && text_push(&s->rest->text, token)) {
		s->by_text = true;
		finish = COHORT_FINISH_STOP;
	}
	if (s->has_text)
		s->rest->shown[i] = (uint32_t)s->rest->text.n_shown;
	if (finish == COHORT_FINISH_NONE && i + 1 == s->n_max)
		finish = COHORT_FINISH_LENGTH;
	return finish;
}

void stream_sample(struct core *c, struct stream *s, const float *logits)
{
	struct cohort_request *r = s->request;
	const int32_t i = stream_n_generated(s);
	cohort_token token = 0;
	struct cohort_err err;
	enum cohort_status st = COHORT_OK;

	if (s->sampler)
		st = cohort_sampler_sample(s->sampler, logits, &token, &err);
	else if (c->m.pick)
		token = c->m.pick(c->m.self, logits, s->index);
	if (!st) {
		s->known[s->n_known++] = s->last = token;
		if (s->has_logprobs)
			st = note_logprobs(c, s, logits, i, &err);
		s->n_known -= st != COHORT_OK;
	}
	if (st) {
		err_prefix(&err, "token %d of output %d", i, s->index);
		stream_end(c, s, COHORT_FINISH_ERROR, &err);
		return;
	}
	stream_enter(c, s, STREAM_GENERATES);
	s->fresh = true;
	c->tick.n_sampled++;
	if (i == 0 && r->at_first < 0) {
		r->at_first = c->m.now(c->m.self);
		s->news = true;
	}
	stream_mark(c, s);
	const enum cohort_finish finish = add_token(s, token, i);
	if (finish != COHORT_FINISH_NONE)
		stream_end(c, s, finish, NULL);
}

/* ---- Ending ---- */

void stream_end(struct core *c, struct stream *s, enum cohort_finish finish, const struct cohort_err *err)
{
	struct cohort_request *r = s->request;

	if (s->phase == STREAM_ENDED)
		return;
	room_leave(c, s);
	stream_enter(c, s, STREAM_ENDED);
	/* What was held back is shown now, behind what the last token brought. */
	s->rest->n_before_end = s->rest->text.n_out;
	if (s->has_text && !s->by_text)
		text_end_behind(&s->rest->text);
	s->rest->ending = finish;
	if (err)
		s->rest->ending_err = *err;
	if (--r->n_live == 0) {
		r->at_end = c->m.now(c->m.self);
		atomic_store(&r->over, true);
	}
	stream_news(c, s);
}

void request_end(struct core *c, struct cohort_request *r, enum cohort_finish finish, const struct cohort_err *err)
{
	for (int32_t i = 0; i < r->p.n_outputs; i++)
		stream_end(c, &r->streams[i], finish, err);
}

/* ---- Telling ---- */

static void tell_stats(struct cohort_request *r, enum cohort_finish finish)
{
	const double came = r->at_came, took = (r->at_end < 0 ? 0 : r->at_end - r->at_first);

	r->stats = (struct cohort_request_stats){
			.id = r->id,
			.queued_s = r->at_admitted < 0 ? -1 : r->at_admitted - came,
			.first_token_s = r->at_first < 0 ? -1 : r->at_first - came,
			.end_s = r->at_end < 0 ? -1 : r->at_end - came,
			.n_prompt = r->p.n_prompt,
			.n_cached = r->n_cached_prompt,
			.n_generated = r->n_generated,
			.n_parked = r->n_parks,
			.tokens_per_s = r->at_first >= 0 && took > 0 && r->n_generated > 1 ? (r->n_generated - 1) / took
											   : 0,
			.finish = r->n_live ? COHORT_FINISH_NONE : finish,
	};
}

/* The queue hears of tokens a few at a time: it has to find the client's new place. */
enum { SERVE_TOKENS = 32 };

static void serve(struct core *c, struct stream *s)
{
	if (s->request->at_admitted >= 0)
		queue_serve(c->queue, &s->request->item, s->n_unserved);
	s->request->n_generated += s->n_unserved;
	s->n_unserved = 0;
}

/* Under the lock. Who is called back is done only when that is over: whoever waits may free what callbacks use. */
static void tell_done(struct core *c, struct cohort_request *r)
{
	r->done = true;
	c->n_open--;
	cond_all(&r->told);
	if (c->n_open == 0)
		cond_all(&c->looked); /* no tick follows in which somebody would look */
}

/* Under the lock, which those who are woken need first: `token` or what tell() goes on with is there by then. Not all
 * that happens to a stream is an event. */
static void wake(struct core *c, const struct stream *s, bool token)
{
	struct cohort_request *r = s->request;

	if (r->n_waiting > 0)
		cond_all(&r->told);
	/* What is known of a prompt comes with the first token, or the end. */
	if (r->p.on_ready && !r->p.ready_at_end && (token || s->phase == STREAM_ENDED))
		notice_due(c, r);
}

/* Under the lock. */
static void tell(struct core *c, struct stream *s)
{
	struct cohort_request *r = s->request;
	const int32_t n = stream_n_generated(s);
	const bool token = n > s->n_told;

	s->n_unserved += n - s->n_told;
	s->n_told = n;
	if (s->news || s->n_unserved >= SERVE_TOKENS)
		serve(c, s);
	if (s->watched)
		wake(c, s, token);
	if (!s->news)
		return;
	s->news = false;
	if (s->phase == STREAM_ENDED) {
		s->rest->n_shown = s->rest->text.n_shown;
		s->rest->finish = s->rest->ending;
	}
	r->prompt_told = r->prompt_changed;
	tell_stats(r, s->rest->ending);
	if (s->phase == STREAM_ENDED && ++r->n_ends_told == r->p.n_outputs) {
		if (!r->p.on_event)
			tell_done(c, r);
		if (r->p.on_ready && r->p.ready_at_end)
			notice_due(c, r);
		c->live.n_ended[s->rest->ending]++;
		if (!r->p.on_event)
			c->stats.n_ended[s->rest->ending]++; /* others: once they were called */
		if (r->at_admitted >= 0)
			queue_done(c->queue, &r->item);
	}
}

static void call(struct cohort_request *r, const struct cohort_event *e)
{
	r->p.on_event(r, e, r->p.user);
}

static void call_prompt(const struct core *c, struct cohort_request *r)
{
	if (!r->prompt_told || r->prompt_read)
		return;
	r->prompt_read = true;
	if (r->embedding)
		call(r,
				&(struct cohort_event){.kind = COHORT_EVENT_EMBEDDING,
						.text = "",
						.embedding = r->embedding,
						.n_embd = c->lim.n_embd});
	else
		call(r,
				&(struct cohort_event){.kind = COHORT_EVENT_PROMPT,
						.text = "",
						.prompt_logprobs = r->prompt_logprobs,
						.prompt_top = r->prompt_top,
						.n_prompt = r->p.n_prompt,
						.n_top = r->n_top});
}

static void call_token(struct stream *s)
{
	const struct cohort_request *r = s->request;
	const int32_t i = stream_n_generated(s) - 1;

	call(s->request,
			&(struct cohort_event){
					.kind = COHORT_EVENT_TOKEN,
					.output = s->index,
					.index = i,
					.token = s->known[s->n_known - 1],
					.text = s->rest->text.out ? s->rest->text.out : "",
					.n_bytes = s->phase == STREAM_ENDED ? s->rest->n_before_end
									    : s->rest->text.n_out,
					.logprob = s->rest->logprobs ? s->rest->logprobs[i] : 0,
					.chain_logprob = s->rest->chain_logprobs ? s->rest->chain_logprobs[i] : 0,
					.top = r->n_top ? s->rest->top + (size_t)i * (size_t)r->n_top : NULL,
					.n_top = s->rest->logprobs ? r->n_top : 0,
			});
}

static void call_end(struct stream *s)
{
	const struct text *t = &s->rest->text;

	call(s->request,
			&(struct cohort_event){
					.kind = COHORT_EVENT_END,
					.output = s->index,
					.text = t->out ? t->out + s->rest->n_before_end : "",
					.n_bytes = t->n_out - s->rest->n_before_end,
					.finish = s->rest->ending,
					.error = s->rest->ending_err.status ? &s->rest->ending_err : NULL,
			});
}

/* The request may be freed by the callback that tells its end: the engine's reference goes last. */
static void call_back(struct core *c, struct stream *s)
{
	struct cohort_request *r = s->request;
	const bool ended = s->phase == STREAM_ENDED;

	if (r->p.on_event) {
		call_prompt(c, r);
		if (s->fresh)
			call_token(s);
		if (ended)
			call_end(s);
	}
	s->fresh = false;
	if (!ended || --r->n_untold > 0)
		return;
	if (r->p.on_event) {
		call(r, &(struct cohort_event){.kind = COHORT_EVENT_DONE, .text = ""});
		lock_take(&c->hub->lock);
		tell_done(c, r);
		c->stats.n_ended[r->stats.finish]++;
		lock_give(&c->hub->lock);
	}
	request_unref(r);
}

/* Samplers of streams that have ended go before anybody is told: who is may free their grammars. Not under the lock, as
 * they wait for the grammar's. */
static void let_samplers_go(struct core *c)
{
	for (struct stream *s = c->changed; s; s = s->next_changed)
		if (s->phase == STREAM_ENDED) {
			cohort_sampler_free(s->sampler);
			s->sampler = NULL;
		}
}

void core_deliver(struct core *c)
{
	struct stream *calls = NULL, **last = &calls;

	let_samplers_go(c);
	lock_take(&c->hub->lock);
	for (struct stream *s = c->changed, *next; s; s = next) {
		next = s->next_changed;
		tell(c, s);
		s->changed = false;
		if (s->called || s->phase == STREAM_ENDED) {
			*last = s;
			last = &s->next_changed;
		} else {
			s->fresh = false;
		}
	}
	*last = NULL;
	c->changed = NULL;
	c->last_changed = &c->changed;
	core_sum_up(c);
	lock_give(&c->hub->lock);
	notice_call(c);
	for (struct stream *s = calls, *next; s; s = next) {
		next = s->next_changed;
		call_back(c, s);
	}
}
