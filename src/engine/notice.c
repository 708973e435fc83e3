/* Telling a reader that its request has something to say: on_ready.
 *
 * A request has at most one notice on its way or told, until its reader has seen that there is nothing more to read
 * (`noticed`, under the lock). Whether there is anything is decided under the same lock as events are told and read
 * with, so that no event falls between a reader's last look and its going to sleep.
 *
 * A notice is called without the lock, behind it: meanwhile the reader may have read all, or be giving the handle back.
 * `notice` says how far that is:
 *
 *     NONE -> DUE        (engine)  it is on the core's list
 *     DUE -> CALLING     (engine)  it began: the caller is in r->caller
 *     CALLING -> NONE    (engine)  it returned
 *     DUE -> NONE        (reader)  all was read before it began: it need not come
 *     NONE, DUE -> GONE  (reader)  the handle is given back
 *     CALLING -> AWAITED (reader)  the handle is given back, once the call has returned
 *     AWAITED -> GONE    (engine)  it did; or the reader is the call itself, and does not wait
 *
 * Invariants
 *  1. None begins once notice_stop has returned, and none is under way then (but for the one that called it).
 *  2. A request on the list has the engine's reference: its end is called back with only after the list was.
 * Refuses to know: what events there are. */
#include "engine/stream.h"

enum { NONE = 0, DUE, CALLING, AWAITED, GONE };

static bool turn(struct cohort_request *r, int from, int to)
{
	return atomic_compare_exchange_strong(&r->notice, &from, to);
}

void notice_due(struct core *c, struct cohort_request *r)
{
	if (r->noticed)
		return;
	r->noticed = true;
	/* One that was taken back while it was due is on no list: lists last for one tick's telling. */
	if (!turn(r, NONE, DUE))
		return;
	r->next_noticed = c->noticed;
	c->noticed = r;
}

void notice_call(struct core *c)
{
	for (struct cohort_request *r = c->noticed, *next; r; r = next) {
		next = r->next_noticed;
		thread_self(&r->caller);
		if (!turn(r, DUE, CALLING))
			continue;
		r->p.on_ready(r, r->p.user);
		if (turn(r, CALLING, NONE) || !turn(r, AWAITED, GONE))
			continue;
		lock_take(&c->hub->lock);
		cond_all(&r->told);
		lock_give(&c->hub->lock);
	}
	c->noticed = NULL;
}

void notice_read(struct cohort_request *r)
{
	r->noticed = false;
	turn(r, DUE, NONE);
}

void notice_stop(struct cohort_request *r)
{
	while (!turn(r, CALLING, AWAITED))
		if (turn(r, NONE, GONE) || turn(r, DUE, GONE))
			return;
	if (thread_is_self(&r->caller)) {
		atomic_store(&r->notice, GONE);
		return;
	}
	lock_take(&r->hub->lock);
	while (atomic_load(&r->notice) == AWAITED)
		cond_wait(&r->told, &r->hub->lock);
	lock_give(&r->hub->lock);
}
