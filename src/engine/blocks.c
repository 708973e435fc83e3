/* Counting blocks, and evicting cached ones. */
#include "engine/room.h"

void room_count(struct core *c, struct stream *s)
{
	struct cohort_request *r = s->request;
	struct block_counts *b = &c->blocks;
	const int32_t whole = whole_blocks(c, s->n_prompt);
	const int32_t shared = s->shares ? smaller(whole, whole_blocks(c, s->n_cached)) : 0;

	s->n_counted = s->n_cached;
	if (c->lim.n_blocks == 0)
		return;
	b->n_private -= s->rest->n_private;
	b->n_reserved -= s->rest->n_reserved;
	s->rest->n_private = s->rest->n_reserved = 0;
	if (s->slot >= 0 && s->phase != STREAM_PREEMPTED) { /* n_cached of a preempted one is what was saved of it */
		s->rest->n_private = ceil_blocks(c, s->n_cached) - larger(shared, s->n_chain);
		s->rest->n_reserved = s->rest->n_private;
		if (!c->lim.overcommit)
			s->rest->n_reserved = ceil_blocks(c, cells_most(s)) - larger(s->shares ? whole : 0, s->n_chain);
	}
	b->n_private += s->rest->n_private;
	b->n_reserved += s->rest->n_reserved;
	if (s->alone || (r->n_sharing > 0 && !s->shares))
		return;
	b->n_private -= r->n_private;
	b->n_reserved -= r->n_reserved;
	r->n_private = r->n_reserved = 0;
	if (r->n_sharing > 0) {
		r->n_private = shared - smaller(shared, s->n_chain);
		r->n_reserved = c->lim.overcommit ? r->n_private : whole - smaller(whole, s->n_chain);
	}
	b->n_private += r->n_private;
	b->n_reserved += r->n_reserved;
}

int32_t room_spare(const struct core *c)
{
	return c->lim.n_blocks - c->blocks.n_reserved - (c->prefix ? prefix_n_pinned(c->prefix) : 0);
}

bool room_has(const struct core *c, int64_t n)
{
	return c->lim.n_blocks == 0 || n <= room_spare(c) - c->blocks.n_outstanding;
}

int32_t room_outstanding(const struct core *c, const struct stream *s)
{
	if (!c->lim.overcommit || !(stream_is_active(s) || room_follows(s)))
		return 0;
	return ceil_blocks(c, s->n_known) - ceil_blocks(c, s->n_cached);
}

static int32_t n_waiting(const struct cohort_request *r)
{
	int32_t n = 0;
	for (int32_t i = 1; i < r->p.n_outputs; i++)
		n += r->streams[i].phase == STREAM_WAITS;
	return n;
}

int32_t room_growth_of(const struct core *c, const struct stream *s, int32_t n_rows)
{
	const int32_t end = s->n_cached + n_rows, n = ceil_blocks(c, end) - ceil_blocks(c, s->n_cached);

	if (n_rows == 0 || end != s->n_prompt || (end & (c->lim.block_size - 1)) == 0 || s->alone)
		return n;
	return n + n_waiting(s->request); /* each gets a last block of its own */
}

/* ---- Eviction ---- */

bool room_evict(struct core *c)
{
	cohort_seq seq;

	if (!c->prefix || !prefix_evict(c->prefix, &seq))
		return false;
	core_empty(c, seq);
	c->live.n_evicted++;
	return true;
}

void room_free(struct core *c, int32_t n)
{
	while (c->blocks.n_private + (c->prefix ? prefix_n_held(c->prefix) : 0) + n > c->lim.n_blocks && room_evict(c))
		;
}

bool room_release_waiting(struct core *c)
{
	bool released = false;

	for (int32_t i = 0; c->lim.overcommit && c->n_in[STREAM_WAITS] > 0 && i < c->lim.n_slots; i++)
		if (room_follows(c->slots[i]) && c->slots[i]->n_cached > 0) {
			room_detach(c, c->slots[i]);
			room_count(c, c->slots[i]);
			released = true;
		}
	return released;
}

bool room_clear(struct core *c)
{
	bool any = room_release_waiting(c);

	while (room_evict(c))
		any = true;
	return any;
}

void room_empty(struct core *c)
{
	const uint64_t n_evicted = c->live.n_evicted;

	room_clear(c);
	c->live.n_evicted = n_evicted; /* the room was not needed */
}
