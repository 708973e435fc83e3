/* What a stream says: the token after its last row, and whether that ends it.
 *
 * Invariants
 *  1. A stream ends exactly once, and a request when its last stream does.
 *  2. A token's text is made once: here, if stop strings are to be found in it or a callback is to have it, or by the
 *     reader on its own thread. */
#include "engine/room.h"
#include "engine/stream.h"

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

/* Adds the last token to the text; says how that ends the stream, if it does. A simulation has no text. */
static enum cohort_status add_token(struct stream *s, int32_t i, enum cohort_finish *finish, struct cohort_err *err)
{
	const struct cohort_request *r = s->request;
	enum cohort_status st = COHORT_OK;

	*finish = i + 1 == s->n_max ? COHORT_FINISH_LENGTH : COHORT_FINISH_NONE;
	if (s->has_stops && request_has_stop(r, s->last))
		*finish = COHORT_FINISH_STOP;
	else if (s->sampler && cohort_token_is_eog(r->model, s->last))
		*finish = r->p.ignore_eos ? *finish : COHORT_FINISH_EOG;
	else if (s->makes_text)
		st = text_push(&s->rest->text, s->last, err);
	if (!s->makes_text)
		return COHORT_OK;
	s->rest->shown[i] = (uint32_t)s->rest->text.n_shown;
	if (s->rest->text.stopped)
		*finish = COHORT_FINISH_STOP;
	return st;
}

void stream_sample(struct core *c, struct stream *s, const float *logits)
{
	struct cohort_request *r = s->request;
	const int32_t i = stream_n_generated(s);
	cohort_token token = 0;
	enum cohort_finish finish = COHORT_FINISH_NONE;
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
		if (!st)
			st = add_token(s, i, &finish, &err);
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
	if (s->makes_text)
		text_end(&s->rest->text);
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
