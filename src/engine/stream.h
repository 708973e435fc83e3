/* What a stream says, and how it ends (stream.c); telling readers and calling back (deliver.c, notice.c). */
#ifndef ENGINE_STREAM_H
#define ENGINE_STREAM_H

#include "engine/core.h"

/* Samples the next token from the stream's last row. */
void stream_sample(struct core *c, struct stream *s, const float *logits);
void stream_end(struct core *c, struct stream *s, enum cohort_finish finish, const struct cohort_err *err);
/* All streams of the request that have not ended. Whatever is in the queue must be taken out by the caller. */
void request_end(struct core *c, struct cohort_request *r, enum cohort_finish finish, const struct cohort_err *err);
/* It changed, and is to be told of: a token, or something else. */
void stream_mark(struct core *c, struct stream *s);
static inline void stream_news(struct core *c, struct stream *s)
{
	s->news = true;
	stream_mark(c, s);
}
/* Every change of a phase goes through here. */
static inline void stream_enter(struct core *c, struct stream *s, enum stream_phase phase)
{
	if (s->phase == phase)
		return;
	c->n_in[s->phase]--;
	c->n_in[phase]++;
	s->phase = phase;
}

/* The next event of this kind, of a stream that has told it (of its request: any stream). It then was read. */
void event_take(struct stream *s, enum cohort_event_kind kind, struct cohort_event *e);
/* What became of a request so far; finish: how, if it has ended. Under the lock. */
void request_tell_stats(struct cohort_request *r, enum cohort_finish finish);
/* Tells readers of all that changed, and calls back. Takes the lock. */
void core_deliver(struct core *c);

/* The request, which has an on_ready, has something to read. Under the lock, while the tick tells. */
void notice_due(struct core *c, struct cohort_request *r);
/* Calls all that are due. */
void notice_call(struct core *c);
/* All of it was read. Under the lock. */
void notice_read(struct cohort_request *r);
/* None follows; waits for one that is under way. */
void notice_stop(struct cohort_request *r);

#endif
