/* What outlives the engine as long as there are handles: the lock, and the streams' memory.
 *
 * Streams of requests with one output come from slabs, so that those of all slots lie in a few pages: a tick walks over
 * them several times, and what it waits for is memory. */
#include "engine/request.h"

#include "base/mem.h"

#include <string.h>

enum { SLAB_STREAMS = 128 };

struct stream_slab {
	struct stream_slab *next;
	struct stream *streams; /* [SLAB_STREAMS], 64-byte aligned */
};

struct hub *hub_open(void)
{
	struct hub *h = mem_zalloc(1, sizeof *h);

	if (!h)
		return NULL;
	if (!lock_init(&h->lock)) {
		mem_free(h);
		return NULL;
	}
	atomic_init(&h->n_refs, 1);
	return h;
}

void hub_unref(struct hub *h)
{
	if (!h || atomic_fetch_sub(&h->n_refs, 1) != 1)
		return;
	for (struct stream_slab *s = h->slabs, *next; s; s = next) {
		next = s->next;
		mem_free_aligned(s->streams);
		mem_free(s);
	}
	lock_release(&h->lock);
	mem_free(h);
}

/* Under the lock. */
static bool add_slab(struct hub *h)
{
	struct stream_slab *s = mem_zalloc(1, sizeof *s);

	if (s)
		s->streams = mem_zalloc_aligned(SLAB_STREAMS, sizeof *s->streams);
	if (!s || !s->streams) {
		mem_free(s);
		return false;
	}
	s->next = h->slabs;
	h->slabs = s;
	for (int i = SLAB_STREAMS; i-- > 0;) {
		s->streams[i].next_changed = h->spare;
		h->spare = &s->streams[i];
	}
	return true;
}

struct stream *hub_take_streams(struct hub *h, int32_t n)
{
	struct stream *s = NULL;

	if (n > 1)
		return mem_zalloc_aligned((size_t)n, sizeof *s);
	lock_take(&h->lock);
	if (h->spare || add_slab(h)) {
		s = h->spare;
		h->spare = s->next_changed;
	}
	lock_give(&h->lock);
	if (s)
		memset(s, 0, sizeof *s);
	return s;
}

void hub_give_streams(struct hub *h, struct stream *streams, int32_t n)
{
	if (!streams)
		return;
	if (n > 1) {
		mem_free_aligned(streams);
		return;
	}
	lock_take(&h->lock);
	streams->next_changed = h->spare;
	h->spare = streams;
	lock_give(&h->lock);
}
