/* Batches of a server: the folder they are kept in, and the thread that runs them. */
#ifndef PROG_SERVE_BATCHES_H
#define PROG_SERVE_BATCHES_H

#include "jobs.h"
#include "serve.h"
#include "serve_store.h"

struct batches {
	struct server *srv;
	struct store store;
	json_t *settings; /* that results of one batch share; owned */
	size_t n_parallel; /* outputs in the engine at once */
	struct thread thread;
	bool started;
	atomic_int stop; /* enum jobs_stop */
};

/* Begins where it was left. The store and all else is set before. */
bool batches_start(struct batches *b);
/* From now on nothing is begun; what is under way is finished or dropped. Does not wait. */
void batches_stop(struct batches *b, enum jobs_stop how);
/* Stops, waits, and lets go of everything. */
void batches_release(struct batches *b);

/* For both parts of the API. NULL: this server keeps nothing, e says how it would. */
struct store *call_store(const struct call *c, struct openai_error *e);
/* limit, after and order of the query. False: refused. */
bool call_page(const struct call *c, size_t limit, size_t limit_max, struct store_page *page, struct openai_error *e);

#endif
