/* Events for readers and callbacks, once per tick.
 *
 * Invariants
 *  1. Every stream has one END event, and every request one DONE event after the END events of all its streams.
 *  2. Tokens, log-probabilities and bytes of text that readers know of (n_told) are never written again, so that
 *     readers need the lock only to learn how many there are.
 *  3. Callbacks run without the lock, after readers can see all of the tick; notices (notice.c) before the others. */
#include "engine/stream.h"

/* ---- Events ---- */

void event_take(struct stream *s, enum cohort_event_kind kind, struct cohort_event *e)
{
	struct cohort_request *r = s->request;
	struct stream_rest *rest = s->rest;
	const size_t n_top = (size_t)r->n_top;
	size_t n_shown = rest->n_given;
	int32_t i;

	*e = (struct cohort_event){.kind = kind, .text = text_so_far(&rest->text) + rest->n_given};
	switch (kind) {
	case COHORT_EVENT_PROMPT:
		r->prompt_read = true;
		e->prompt_logprobs = r->prompt_logprobs;
		e->prompt_top = r->prompt_top;
		e->n_prompt = r->p.n_prompt;
		e->n_top = r->n_top;
		break;
	case COHORT_EVENT_EMBEDDING:
		r->prompt_read = true;
		e->embedding = r->embedding;
		e->n_embd = r->n_embd;
		break;
	case COHORT_EVENT_TOKEN:
		i = rest->n_read++;
		e->output = s->index;
		e->index = i;
		e->token = s->known[s->n_prompt + i];
		e->logprob = rest->logprobs ? rest->logprobs[i] : 0;
		e->chain_logprob = rest->chain_logprobs ? rest->chain_logprobs[i] : 0;
		e->top = n_top ? rest->top + (size_t)i * n_top : NULL;
		e->n_top = r->n_top;
		n_shown = rest->shown[i];
		break;
	case COHORT_EVENT_END:
		rest->end_read = true;
		e->output = s->index;
		e->finish = rest->ending;
		e->error = rest->ending_err.status ? &rest->ending_err : NULL;
		n_shown = rest->text.n_shown;
		break;
	case COHORT_EVENT_DONE: r->done_read = true; break;
	default: break;
	}
	e->n_bytes = n_shown - rest->n_given;
	rest->n_given = n_shown;
}

/* ---- Telling ---- */

void request_tell_stats(struct cohort_request *r, enum cohort_finish finish)
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
			.n_parked = r->n_preempted,
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
		queue_serve(c->shared.queue, &s->request->item, s->n_unserved);
	s->request->n_generated += s->n_unserved;
	s->n_unserved = 0;
}

/* Under the lock. A request with a callback is done only when that has returned: a thread that waits may free what it
 * uses. */
static void tell_done(struct core *c, struct cohort_request *r)
{
	r->done = true;
	c->shared.n_open--;
	cond_all(&r->told);
	if (c->shared.n_open == 0)
		cond_all(&c->shared.looked); /* no tick follows that would look */
}

/* Under the lock, which readers that are woken need first: what tell() goes on with is there by then. Not all that
 * happens to a stream is an event. */
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
	if (s->phase == STREAM_ENDED)
		s->rest->finish = s->rest->ending;
	r->prompt_told = r->prompt_changed;
	request_tell_stats(r, s->rest->ending);
	if (s->phase == STREAM_ENDED && ++r->n_ends_told == r->p.n_outputs) {
		if (!r->p.on_event)
			tell_done(c, r);
		if (r->p.on_ready && r->p.ready_at_end)
			notice_due(c, r);
		c->live.n_ended[s->rest->ending]++;
		if (!r->p.on_event)
			c->shared.stats.n_ended[s->rest->ending]++; /* others: once they were called */
		if (r->at_admitted >= 0)
			queue_done(c->shared.queue, &r->item);
	}
}

static void call(struct stream *s, enum cohort_event_kind kind)
{
	struct cohort_event e;

	event_take(s, kind, &e);
	s->request->p.on_event(s->request, &e, s->request->p.user);
}

/* The request may be freed by the callback that tells its end: the engine's reference goes last. */
static void call_back(struct core *c, struct stream *s)
{
	struct cohort_request *r = s->request;
	const bool ended = s->phase == STREAM_ENDED;

	if (r->p.on_event) {
		if (r->prompt_told && !r->prompt_read)
			call(s, r->embedding ? COHORT_EVENT_EMBEDDING : COHORT_EVENT_PROMPT);
		if (s->fresh)
			call(s, COHORT_EVENT_TOKEN);
		if (ended)
			call(s, COHORT_EVENT_END);
	}
	s->fresh = false;
	if (!ended || --r->n_untold > 0)
		return;
	if (r->p.on_event) {
		call(s, COHORT_EVENT_DONE);
		lock_take(&c->hub->lock);
		tell_done(c, r);
		c->shared.stats.n_ended[r->stats.finish]++;
		lock_give(&c->hub->lock);
	}
	request_unref(r);
}

/* Frees the samplers of streams that have ended. It runs before readers can see the END event, as a reader may then
 * free the grammar. It runs without the lock, as freeing a sampler takes the grammar's lock. */
static void free_samplers(struct core *c)
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

	free_samplers(c);
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
