/* Admission: which requests get slots, and which prompts wait for what another stream is about to compute. */
#include "engine/room.h"
#include "engine/stream.h"

#include "base/blocks.h"

static enum cohort_status take_slot(struct core *c, struct stream *s, struct cohort_err *err)
{
	const struct cohort_request *r = s->request;

	s->slot = c->idle[--c->n_idle];
	c->slots[s->slot] = s;
	s->rest->turn = ++c->n_turns;
	c->n_limited += s->limited;
	return c->m.adapter_set(c->m.self, s->slot, r->p.adapter, r->p.adapter ? r->p.adapter_scale : 1.0f, err);
}

/* Blocks that a request takes from those to spare. */
static int64_t n_needed(const struct core *c, const struct cohort_request *r, const struct prefix_found *m)
{
	const int64_t n_cells = c->lim.overcommit ? (int64_t)r->p.n_prompt + 1 : cells_most(r->streams);
	int64_t n = blocks_needed(c->lim.block_size, r->p.n_prompt, n_cells, r->p.n_outputs);

	if (m->n_chain > 0)
		n += prefix_n_unpinned(c->prefix, c->path[m->n_chain - 1]) - m->n_chain;
	return n;
}

/* ---- Leaders ---- */

/* The number of blocks that both prompts begin with; the first n are known to be the same. */
static int32_t n_common(const struct core *c, const struct stream *s, const struct stream *t, int32_t n)
{
	const int32_t most = smaller(whole_blocks(c, s->n_prompt - 1), whole_blocks(c, t->n_prompt));

	/* A block's hash is one of all before it, too. */
	while (n < most && s->request->hashes[n] == t->request->hashes[n])
		n++;
	return n;
}

/* Whether t is about to compute block n_blocks - 1 of s; both prompts begin with the same n_blocks blocks. */
static bool leads(const struct core *c, const struct stream *t, const struct stream *s, int32_t n_blocks)
{
	return t->phase == STREAM_PREFILLS && room_shares(c, t) && t->priority >= s->priority && t->n_chain < n_blocks;
}

/* Looks for a stream that is about to compute what s, which has n_chain blocks, needs next; the longest common
 * beginning counts. */
static bool find_leader(const struct core *c, struct stream *s, int32_t n_chain)
{
	struct stream_rest *rest = s->rest;

	rest->n_awaited = n_chain;
	if (!room_looks_up(c, s->request) || c->n_in[STREAM_PREFILLS] == 0 ||
			whole_blocks(c, s->n_prompt - 1) <= n_chain)
		return false;
	for (int32_t i = 0; i < c->lim.n_slots; i++) {
		const struct stream *t = c->slots[i];
		/* A stream that is behind s would take longer than s itself. */
		if (!t || t == s || t->phase != STREAM_PREFILLS || t->n_cached < n_chain * c->lim.block_size ||
				!room_shares(c, t))
			continue;
		const int32_t n = n_common(c, s, t, n_chain);
		if (n > rest->n_awaited && leads(c, t, s, n)) {
			rest->n_awaited = n;
			rest->leader = i;
		}
	}
	return rest->n_awaited > n_chain;
}

bool room_is_awaited(const struct core *c, const struct stream *t, int32_t n_cached, int32_t pos)
{
	for (int32_t i = 0; c->n_in[STREAM_WAITS] > 0 && i < c->lim.n_slots; i++) {
		const struct stream *s = c->slots[i];
		if (!room_follows(s) || s->rest->leader != t->slot)
			continue;
		const int32_t stop = s->rest->n_awaited * c->lim.block_size;
		if (n_cached < stop && stop <= pos)
			return true;
	}
	return false;
}

/* ---- Beginning ---- */

/* Rows of a prompt that its client is charged for. */
static void charge(struct core *c, struct stream *first, int32_t n)
{
	if (n <= 0)
		return;
	first->rest->n_served += n;
	lock_take(&c->hub->lock);
	queue_serve(c->shared.queue, &first->request->item, n);
	lock_give(&c->hub->lock);
}

/* A prompt that was admitted begins with what is in the cache, or waits for what will be. */
static void begin_prompt(struct core *c, struct stream *first, const struct prefix_found *f)
{
	struct cohort_request *r = first->request;
	const bool waits = find_leader(c, first, f->n_chain);

	stream_enter(c, first, waits ? STREAM_WAITS : STREAM_PREFILLS);
	room_attach(c, first, f);
	room_count(c, first);
	stream_news(c, first);
	/* A prompt that waits is charged at once for the rows that it needs in any case. Without a charge its client
	 * would be admitted again and again. */
	if (room_keep_promises(c, first) && waits) {
		if (first->rest->n_served == 0)
			charge(c, first, r->p.n_prompt - first->rest->n_awaited * c->lim.block_size);
		return;
	}
	r->n_cached_prompt = first->n_cached;
	c->live.n_prompt_tokens += (uint64_t)r->p.n_prompt;
	c->live.n_cached_tokens += (uint64_t)first->n_cached;
	c->live.n_lookups += room_looks_up(c, r);
	c->live.n_hits += first->n_cached > 0;
	charge(c, first, r->p.n_prompt - first->n_cached - first->rest->n_served);
}

/* a goes before b: a higher priority first, so that the others can wait for it. */
static bool before(const struct stream *a, const struct stream *b)
{
	return a->priority != b->priority ? a->priority > b->priority : a->rest->turn < b->rest->turn;
}

/* Begins the prompts that wait no more: the leader has computed their blocks, or will not. It runs before new
 * requests are admitted, so that the leader's slot has no other stream yet. */
static void begin_awaited(struct core *c)
{
	struct stream **ready = c->plan.active;
	int32_t n = 0;

	for (int32_t i = 0; c->n_in[STREAM_WAITS] > 0 && i < c->lim.n_slots; i++) {
		struct stream *s = c->slots[i];
		const struct stream *leader = room_follows(s) ? c->slots[s->rest->leader] : NULL;
		if (!room_follows(s) || (leader && leads(c, leader, s, s->rest->n_awaited)))
			continue;
		int32_t k = n++; /* mostly they lie in the order of their turns */
		for (; k > 0 && before(s, ready[k - 1]); k--)
			ready[k] = ready[k - 1];
		ready[k] = s;
	}
	for (int32_t i = 0; i < n; i++) {
		room_detach(c, ready[i]);
		const struct prefix_found f = room_look_up(c, ready[i]);
		begin_prompt(c, ready[i], &f);
	}
}

/* ---- Requests ---- */

static bool admit(struct core *c, struct cohort_request *r, double now)
{
	struct stream *first = &r->streams[0];
	enum cohort_status st = COHORT_OK;
	struct cohort_err err;

	if (r->p.n_outputs > c->n_idle)
		return false;
	const struct prefix_found f = room_look_up(c, first);
	/* Alone it may begin, whatever it comes to need: its first stream fits, as was checked, and the others are
	 * preempted if they do not fit with it. */
	const bool alone = c->lim.overcommit && c->n_idle == c->lim.n_slots;
	if (!alone && !room_has(c, n_needed(c, r, &f)))
		return false;
	lock_take(&c->hub->lock);
	queue_admit(c->shared.queue, &r->item);
	lock_give(&c->hub->lock);
	c->live.n_admitted++;
	r->at_admitted = now;
	for (int32_t i = 0; !st && i < r->p.n_outputs; i++) {
		st = take_slot(c, &r->streams[i], &err);
		stream_enter(c, &r->streams[i], STREAM_WAITS);
	}
	if (st) { /* without its adapter it would say something else */
		request_end(c, r, COHORT_FINISH_ERROR, &err);
		return true;
	}
	if (r->p.n_outputs > 1) {
		first->shares = true;
		r->n_sharing = 1;
		/* Those that wait are promised what lies behind the prompt only. */
		for (int32_t i = 1; i < r->p.n_outputs && !c->lim.overcommit; i++) {
			r->streams[i].shares = true;
			room_count(c, &r->streams[i]);
			r->streams[i].shares = false;
		}
	}
	room_count(c, first);
	begin_prompt(c, first, &f);
	c->blocks.n_outstanding += room_outstanding(c, first);
	return true;
}

/* The request that is next, or NULL. Other threads only add to the queue, so that it stays so without the lock. */
static struct cohort_request *first_in_queue(struct core *c, double now)
{
	lock_take(&c->hub->lock);
	struct queue_item *item = queue_first(c->shared.queue, now);
	c->tick.n_queued = (int32_t)queue_depth(c->shared.queue);
	lock_give(&c->hub->lock);
	return (struct cohort_request *)item;
}

void room_admit(struct core *c)
{
	const double now = c->m.now(c->m.self);
	const int64_t *n_preempted = &c->n_in[STREAM_PREEMPTED];
	struct cohort_request *r = first_in_queue(c, now);

	if (!r && !*n_preempted && !c->n_in[STREAM_WAITS])
		return;
	/* Once a tick: from here on only what is admitted changes it. */
	c->blocks.n_outstanding = 0;
	for (int32_t i = 0; c->lim.overcommit && i < c->lim.n_slots; i++)
		c->blocks.n_outstanding += room_outstanding(c, c->slots[i]);
	while (*n_preempted && room_resume(c))
		;
	if (!*n_preempted)
		begin_awaited(c);
	while (!*n_preempted && r && admit(c, r, now))
		r = first_in_queue(c, now);
}
