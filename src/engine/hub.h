/* The lock, and what outlives the engine as long as there are handles. */
#ifndef ENGINE_HUB_H
#define ENGINE_HUB_H

#include "base/lock.h"

#include <stdatomic.h>
#include <stdint.h>

struct stream;
struct stream_slab;

struct hub {
	struct lock lock;
	atomic_int n_refs;
	struct stream_slab *slabs; /* under the lock */
	struct stream *spare;      /* under the lock: those that no request has, by next_changed */
	atomic_uint n_cancels;     /* requests cancelled so far: the queue is searched for them when it changes */
};
struct hub *hub_open(void); /* NULL when out of memory; one reference */
void hub_unref(struct hub *h);
/* Zeroed streams of a request, and back. NULL when out of memory. Both take the lock. */
struct stream *hub_take_streams(struct hub *h, int32_t n);
void hub_give_streams(struct hub *h, struct stream *streams, int32_t n);

#endif
