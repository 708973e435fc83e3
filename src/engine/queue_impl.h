/* What the queue is made of. Nobody else includes it but the test that damages it. */
#ifndef ENGINE_QUEUE_IMPL_H
#define ENGINE_QUEUE_IMPL_H

#include "engine/queue.h"

/* Clients that left and are remembered. One that is forgotten starts as a new one, which gains it what it was served
 * beyond the least at the time; to be forgotten it must stay away while as many others come and go. */
enum { IDLE_MAX = 1024, ITEMS_KEPT = 16, SLOTS_MIN = 64 };
static const size_t nowhere = SIZE_MAX;

/* An entry of a heap. What a heap does not sort by is 0 in all of its entries. */
struct place {
	int32_t priority;
	int32_t n_running; /* of equals the one with fewer requests under way: what these will cost shows only later */
	int64_t counter;
	uint64_t number;
	size_t *at; /* where the owner of the entry notes its index */
};

struct heap {
	struct place *p;
	size_t n, n_max;
};

struct queue_client {
	uint64_t id;
	int64_t counter;
	int32_t n_running;
	struct heap items; /* that wait */
	int64_t n_tokens; /* of their prompts */
	size_t at_turn, at_active; /* in those heaps, or nowhere */
	struct queue_client *prev, *next; /* while it is idle */
};

struct slot {
	uint64_t id;
	struct queue_client *client; /* NULL: empty */
};

struct queue {
	double wait_max_s;
	struct heap turn, active;
	int64_t virtual_time; /* the highest of the least counters that admissions saw */
	struct queue_item *oldest, *newest;
	size_t depth;
	int64_t n_tokens;
	uint64_t n_pushed;
	struct queue_client *idle_first, *idle_last; /* by when they became idle */
	size_t n_idle, n_clients;
	struct slot *slots; /* open addressing, linear probing, at most half full */
	size_t n_slots; /* a power of two */
	uint64_t seed; /* ids come from strangers, who shall not be able to make them collide */
};

/* Where the table has a client, or would have it. */
size_t queue_probe(const struct queue *q, uint64_t id);

#endif
