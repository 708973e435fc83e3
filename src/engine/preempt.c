/* Preemption: the youngest streams give their blocks back when there are too few, and go on later. */
#include "engine/room.h"

#include "base/mem.h"
#include "engine/cache.h"
#include "engine/stream.h"

#include <string.h>

/* ---- Giving back ---- */

static void drop_swap(struct core *c, struct stream *s)
{
	c->blocks.swap_used -= s->rest->n_swap;
	mem_free(s->rest->swap);
	s->rest->swap = NULL;
	s->rest->n_swap = 0;
}

static void release_cells(struct core *c, struct stream *s)
{
	room_detach(c, s);
	s->request->n_sharing -= s->shares;
	s->shares = false;
}

void room_leave(struct core *c, struct stream *s)
{
	if (s->slot < 0)
		return;
	if (s->phase != STREAM_PREEMPTED)
		room_keep_tail(c, s);
	c->n_limited -= s->limited;
	if (c->kept)
		cache_keep_tokens(c, s);
	release_cells(c, s);
	drop_swap(c, s);
	c->slots[s->slot] = NULL;
	c->idle[c->n_idle++] = s->slot;
	s->slot = -1;
	room_count(c, s);
}

static bool save(struct core *c, struct stream *s)
{
	const size_t n = s->request->p.adapter ? 0 : c->m.state_size(c->m.self, s->slot);

	if (n == 0 || n > c->lim.swap_bytes - c->blocks.swap_used)
		return false;
	s->rest->swap = mem_alloc(n, 1);
	if (!s->rest->swap)
		return false;
	s->rest->n_swap = n;
	c->blocks.swap_used += n;
	if (c->m.state_save(c->m.self, s->slot, s->rest->swap, n, NULL)) {
		drop_swap(c, s);
		return false;
	}
	c->live.n_swapped++;
	return true;
}

void room_preempt(struct core *c, struct stream *s)
{
	struct cohort_request *r = s->request;

	/* Of a stream whose last row was computed and not looked at, that row comes again. */
	if (s->n_cached == s->n_known && !c->m.seq_rm(c->m.self, s->slot, s->n_known - 1, -1, NULL))
		s->n_cached--;
	const int32_t n_cached = s->n_cached;
	const bool saved = c->lim.swap_bytes && n_cached > 0 && n_cached < s->n_known && save(c, s);
	release_cells(c, s);
	stream_enter(c, s, STREAM_PREEMPTED);
	s->n_cached = saved ? n_cached : 0;
	room_count(c, s);
	if (r->embedding && !saved) /* its rows come again */
		memset(r->embedding, 0, (size_t)c->lim.n_embd * sizeof *r->embedding);
	c->live.n_parked++;
	r->n_preempted++;
	stream_news(c, s);
}

bool room_keep_promises(struct core *c, struct stream *s)
{
	if (c->lim.n_blocks == 0 || room_spare(c) >= 0)
		return true;
	room_preempt(c, s);
	return false;
}

/* ---- Resuming ---- */

static int64_t n_under_way(const struct core *c)
{
	return c->n_in[STREAM_PREFILLS] + c->n_in[STREAM_GENERATES];
}

/* Of the preempted streams the oldest, of those under way the youngest. */
static struct stream *find_stream(const struct core *c, bool preempted)
{
	struct stream *best = NULL;

	for (int32_t i = 0; i < c->lim.n_slots; i++) {
		struct stream *s = c->slots[i];
		if (!s || !(preempted ? s->phase == STREAM_PREEMPTED : stream_is_active(s)))
			continue;
		if (!best || (preempted ? s->rest->turn < best->rest->turn : s->rest->turn > best->rest->turn))
			best = s;
	}
	return best;
}

static bool restore(struct core *c, struct stream *s)
{
	const bool ok = !c->m.state_restore(c->m.self, s->slot, s->rest->swap, s->rest->n_swap, NULL);

	drop_swap(c, s);
	s->n_cached = ok ? s->n_cached : 0;
	s->n_chain = 0;
	s->node = -1;
	s->chain_over = false;
	s->rest->hash = prefix_hash_root(&s->request->root);
	return ok;
}

bool room_resume(struct core *c)
{
	struct stream *s = find_stream(c, true);
	const bool alone = n_under_way(c) == 0;
	if (alone) /* then it must fit */
		room_release_waiting(c);
	/* Where nothing is reserved each may need another block at any time. */
	const int32_t n_others =
			c->lim.overcommit ? c->lim.n_slots - c->n_idle - (int32_t)c->n_in[STREAM_PREEMPTED] : 0;

	struct prefix_found f = {.tail = -1};
	if (!s->rest->swap)
		f = room_look_up(c, s);
	int64_t need = ceil_blocks(c, c->lim.overcommit ? (int64_t)s->n_known + 1 : cells_most(s)) - f.n_chain;
	if (f.n_chain > 0)
		need += prefix_n_unpinned(c->prefix, c->path[f.n_chain - 1]);
	if (!alone && !room_has(c, need + n_others))
		return false;
	if (s->rest->swap)
		room_free(c, (int32_t)need);
	if (!s->rest->swap || !restore(c, s))
		room_attach(c, s, &f);
	const bool generates = stream_n_generated(s) > 0 && s->n_known - s->n_cached == 1;
	stream_enter(c, s, generates ? STREAM_GENERATES : STREAM_PREFILLS);
	if (s->request->p.n_outputs > 1 && !s->request->forked) {
		s->shares = true;
		s->request->n_sharing++;
	}
	s->n_counted = 0;
	room_grow(c, s);
	room_count(c, s);
	c->live.n_resumed++;
	if (!room_keep_promises(c, s))
		return false;
	c->blocks.n_outstanding += room_outstanding(c, s);
	return true;
}

/* ---- Room for a tick ---- */

/* Preempts the youngest stream, unless it is the only one that is under way. */
static bool preempt_one(struct core *c)
{
	struct stream *s = find_stream(c, false);

	if (n_under_way(c) < 2)
		return false;
	const int32_t v = c->plan.view_of[s->slot];
	if (v >= 0)
		c->plan.n_growth -= room_growth(c, s, c->plan.taken[v]);
	room_drop_rows(c, s);
	room_preempt(c, s);
	return true;
}

void room_settle(struct core *c)
{
	while (c->lim.n_blocks && room_spare(c) < 0 && preempt_one(c))
		;
	if (c->lim.n_blocks)
		room_free(c, 0);
}

void room_make(struct core *c)
{
	if (c->lim.n_blocks == 0)
		return;
	while (c->lim.overcommit && c->plan.n_growth > room_spare(c) && preempt_one(c))
		;
	room_free(c, c->plan.n_growth);
}
