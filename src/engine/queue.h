/* Requests that wait: who is next. No threads, no clock of its own.
 *
 * Who has waited longer than wait_max_s goes first, the oldest before the others. Then the highest priority; within it
 * the client that was served least, of equals the one with fewer requests admitted; of one client the oldest. What a
 * client was served is a virtual counter of tokens: a client that comes (back) starts no lower than the least of those
 * that are there, so that nobody saves up turns. */
#ifndef ENGINE_QUEUE_H
#define ENGINE_QUEUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct queue;
struct queue_client;

/* Part of a request. The first four are set before it is pushed; the rest is the queue's. */
struct queue_item {
	uint64_t client;
	int32_t priority;
	int32_t n_tokens;      /* of its prompt */
	double arrived_s;      /* pushes come in order of time */
	uint64_t number;
	struct queue_client *owner;
	struct queue_item *older, *newer; /* all that wait, by arrival */
	size_t at;             /* place in its client's heap */
	bool waiting;
};

struct queue *queue_open(double wait_max_s); /* NULL: out of memory */
void queue_free(struct queue *q);            /* items are the caller's */

/* False when out of memory. */
bool queue_push(struct queue *q, struct queue_item *item);
/* Whose turn it is, or NULL. It stays until it is taken. */
struct queue_item *queue_first(struct queue *q, double now);
/* Takes an item out because it is admitted: from now on its client counts as being served, until queue_done. Allocates
 * nothing, as all that follows. */
void queue_admit(struct queue *q, struct queue_item *item);
/* Takes an item out that goes unserved (cancelled, too late). */
void queue_remove(struct queue *q, struct queue_item *item);
/* Tokens that were computed for an admitted request, as they are: prompts and outputs count alike. */
void queue_serve(struct queue *q, struct queue_item *item, int64_t n_tokens);
/* An admitted request has ended. */
void queue_done(struct queue *q, struct queue_item *item);

size_t queue_depth(const struct queue *q);
int64_t queue_tokens(const struct queue *q);
/* Requests of one client that wait, and the tokens of their prompts. */
void queue_held(const struct queue *q, uint64_t client, int64_t *n_requests, int64_t *n_tokens);
/* The oldest that waits, or NULL; the next ones by ->newer. */
struct queue_item *queue_oldest(const struct queue *q);

#endif
