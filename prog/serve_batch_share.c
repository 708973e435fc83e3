/* What running batches have of the engine: n_parallel outputs together, of which owners have equal parts.
 *
 * Invariants
 *  1. No more than n_parallel outputs are taken, unless one request alone has more; then only that.
 *  2. What is free goes to the runner with the fewest outputs under way, of equals to the one that was served fewest
 *     tokens. Who comes before another keeps what it waits for free, so that no stream of small requests passes a large
 *     one. A runner that has not asked for a while keeps nothing: it may wait for a disk.
 *  3. With more owners than runners the batch that has run for longest makes room after SLICE_S, once it has a result,
 *     so that it gets on however short its turns are.
 * It does not know what is run. */
#include "serve_batches.h"

#include "base/pool.h"

#define ASKED_S 0.25 /* who waits asks many times in this */
#define SLICE_S 30.0

/* With the store's lock in hand, as all that is static here. */
static bool goes_before(const struct batch_runner *a, const struct batch_runner *b)
{
	if (a->n_outputs != b->n_outputs)
		return a->n_outputs < b->n_outputs;
	return a->served != b->served ? a->served < b->served : a < b;
}

void share_begin(struct batch_runner *me)
{
	struct batches *all = me->all;

	lock_take(&all->store.lock);
	bool alone = true;
	me->served = 0;
	for (size_t i = 0; i < BATCH_RUNNERS; i++) {
		const struct batch_runner *o = &all->runners[i];
		if (o->since > 0 && (alone || o->served < me->served))
			me->served = o->served;
		alone &= o->since <= 0;
	}
	me->since = clock_now();
	me->look_at = me->since + SLICE_S;
	me->n_results = 0;
	me->yields = false;
	lock_give(&all->store.lock);
}

void share_end(struct batch_runner *me)
{
	lock_take(&me->all->store.lock);
	me->since = 0;
	me->wants = 0;
	lock_give(&me->all->store.lock);
}

bool share_take(struct batch_runner *me, size_t n)
{
	struct batches *all = me->all;
	const double now = clock_now();
	size_t taken = 0, kept = 0;

	lock_take(&all->store.lock);
	for (size_t i = 0; i < BATCH_RUNNERS; i++) {
		const struct batch_runner *o = &all->runners[i];
		taken += o->n_outputs;
		if (o != me && o->wants && now - o->asked < ASKED_S && goes_before(o, me))
			kept += o->wants;
	}
	const bool ok = taken + kept == 0 || taken + kept + n <= all->n_parallel;
	me->n_outputs += ok ? n : 0;
	me->wants = ok ? 0 : n;
	me->asked = now;
	lock_give(&all->store.lock);
	return ok;
}

void share_give(struct batch_runner *me, size_t n)
{
	lock_take(&me->all->store.lock);
	me->n_outputs -= n;
	cond_all(&me->all->room);
	lock_give(&me->all->store.lock);
}

void share_rest(struct batch_runner *me, double s)
{
	lock_take(&me->all->store.lock);
	cond_wait_until(&me->all->room, &me->all->store.lock, clock_now() + s);
	lock_give(&me->all->store.lock);
}

void share_count(struct batch_runner *me, int64_t n_tokens)
{
	lock_take(&me->all->store.lock);
	me->served += n_tokens;
	lock_give(&me->all->store.lock);
}

struct store_batch *share_next(struct batches *all, double *wake_at)
{
	const char *owners[BATCH_RUNNERS];

	for (size_t i = 0; i < BATCH_RUNNERS; i++)
		owners[i] = all->runners[i].busy ? all->runners[i].owner : NULL;
	return store_batch_next(&all->store, owners, BATCH_RUNNERS, wake_at);
}

bool share_yields(struct batch_runner *me)
{
	const double now = clock_now();
	double unused;

	if (me->since <= 0) /* it looks at a batch's input, or makes files of its results */
		return false;
	if (me->yields || now < me->look_at || me->n_results == 0)
		return me->yields;
	me->look_at = now + 1;
	for (size_t i = 0; i < BATCH_RUNNERS; i++) {
		const struct batch_runner *o = &me->all->runners[i];
		if (!o->busy || o->yields || (o->since > 0 && o->since < me->since))
			return false;
	}
	me->yields = share_next(me->all, &unused) != NULL;
	return me->yields;
}
