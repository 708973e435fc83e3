/* Batches of a server: the folder they are kept in, and the threads that run them. */
#ifndef PROG_SERVE_BATCHES_H
#define PROG_SERVE_BATCHES_H

#include "jobs.h"
#include "serve.h"
#include "serve_store.h"

enum { BATCH_RUNNERS = 4 };

/* Works for one owner at a time. The first three are the thread's; the rest is under the store's lock. */
struct batch_runner {
	struct batches *all;
	struct thread thread;
	bool started;
	bool busy; /* with a batch of this owner */
	char owner[SHA256_HEX];
	/* While it sends lines through the engine (serve_batch_share.c): */
	double since; /* when that began; 0: it does not */
	double look_at; /* when to see again whether others wait for a runner */
	bool yields; /* it makes room for one */
	uint64_t n_results;
	size_t n_outputs; /* under way */
	int64_t served; /* tokens */
	size_t wants; /* outputs that it was refused; 0: none */
	double asked; /* when */
};

struct batches {
	struct server *srv;
	struct store store;
	json_t *settings; /* that results of one batch share; owned */
	size_t n_parallel; /* outputs in the engine at once */
	struct batch_runner runners[BATCH_RUNNERS];
	struct cond room; /* outputs were given back */
	bool has_room;
	atomic_int stop; /* enum jobs_stop */
};

/* Begins where it was left. The store and all else is set before. */
bool batches_start(struct batches *b);
/* From now on nothing is begun; what is under way is finished or dropped. Does not wait. */
void batches_stop(struct batches *b, enum jobs_stop how);
/* Stops, waits, and lets go of everything. */
void batches_release(struct batches *b);

/* The engine's share of a batch whose lines are run: between begin and end outputs are taken and given back, and the
 * tokens they came to counted. rest: waits until others give back, s seconds at most. */
void share_begin(struct batch_runner *me);
void share_end(struct batch_runner *me);
bool share_take(struct batch_runner *me, size_t n_outputs);
void share_give(struct batch_runner *me, size_t n_outputs);
void share_count(struct batch_runner *me, int64_t n_tokens);
void share_rest(struct batch_runner *me, double s);
/* With the store's lock in hand: whether it is to make room for another owner; and what is to be worked on, as
 * store_batch_next has it. */
bool share_yields(struct batch_runner *me);
struct store_batch *share_next(struct batches *all, double *wake_at);

/* For both parts of the API. NULL: this server keeps nothing, e says how it would. */
struct store *call_store(const struct call *c, struct openai_error *e);
/* limit, after and order of the query. False: refused. */
bool call_page(const struct call *c, size_t limit, size_t limit_max, struct store_page *page, struct openai_error *e);

#endif
