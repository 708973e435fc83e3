/* The workers: what may take long before a request can be queued or answered (JSON, templates, tokens, grammars, files,
 * long answers) is done by them, so that the HTTP threads stay free for everybody else.
 *
 * Invariants
 *  1. From call_prepare to the end of its job a call belongs to its worker: its seat is held, so that its connection
 *     stays suspended whatever comes, and no HTTP thread looks at it.
 *  2. Jobs wait in one queue per client, and clients take turns. One client has at most one worker less than there are,
 *     so that a job of another finds one that is free.
 *  3. What a job answers is kept until its connection has been resumed; an HTTP thread sends it.
 *  4. Jobs of large bodies and answers have workers of their own, with a lower priority: small requests do not wait
 *     behind them, and the engine's threads keep their pace where cores are few.
 * It does not know what jobs do. */
#include "serve.h"

#include "base/err.h"
#include "base/mem.h"
#include "base/pool.h"

#include <string.h>

enum {
	WORKERS_MIN = 2,
	WORKERS_MAX = 8,
	WORKERS_LARGE = 2,
	NICE = 5 /* about a quarter of a core that the engine wants as well */
};

struct prepare_client {
	uint64_t id;
	size_t n_running;
	struct call *first, *last; /* that wait */
	struct prepare_client *next;
};

/* With the lock in hand, as all that follows. A client at the end of the list has been served last. */
static struct prepare_client *client_of(struct prepare *p, uint64_t id)
{
	struct prepare_client **at = &p->clients;

	while (*at && (*at)->id != id)
		at = &(*at)->next;
	if (!*at && (*at = mem_zalloc(1, sizeof **at)))
		(*at)->id = id;
	return *at;
}

static void client_remove(struct prepare *p, struct prepare_client *k)
{
	struct prepare_client **at = &p->clients;

	while (*at != k)
		at = &(*at)->next;
	*at = k->next;
	mem_free(k);
}

static void client_to_end(struct prepare *p, struct prepare_client *k)
{
	struct prepare_client **at = &p->clients;

	while (*at != k)
		at = &(*at)->next;
	*at = k->next;
	while (*at)
		at = &(*at)->next;
	*at = k;
	k->next = NULL;
}

static struct call *next_job(struct prepare *p, struct prepare_client **client)
{
	for (struct prepare_client *k = p->clients; k; k = k->next) {
		struct call *c = k->first;
		if (!c || k->n_running >= p->n_workers - 1)
			continue;
		k->first = c->job.next;
		k->n_running++;
		client_to_end(p, k);
		*client = k;
		return c;
	}
	return NULL;
}

static enum step send_answer(struct call *c)
{
	return answer_send(c);
}

static enum step close_it(struct call *c)
{
	(void)c;
	return STEP_CLOSE;
}

/* The last word about a call: from then on it belongs to its HTTP thread again. */
static void hand_back(struct call *c, enum step s)
{
	if (s != STEP_WAIT)
		c->step = s == STEP_DONE ? send_answer : close_it;
	c->job.run = NULL;
	seat_give_back(c->seat);
}

static void worker_main(void *arg)
{
	struct prepare *p = arg;
	struct prepare_client *client = NULL;

	if (p->large)
		thread_lower(NICE);
	lock_take(&p->lock);
	while (!p->stop) {
		struct call *c = next_job(p, &client);
		if (!c) {
			cond_wait(&p->wake, &p->lock);
			continue;
		}
		lock_give(&p->lock);
		hand_back(c, seat_gone(c->seat) ? STEP_CLOSE : c->job.run(c));
		lock_take(&p->lock);
		client->n_running--;
		if (!client->first && client->n_running == 0)
			client_remove(p, client);
		cond_signal(&p->wake); /* what waited for this one's end may be another's now */
	}
	lock_give(&p->lock);
}

enum step call_prepare(struct call *c, bool large, enum step (*run)(struct call *c))
{
	struct prepare *p = &c->srv->prepare[large];
	const uint64_t id = call_client(c);
	struct openai_error e = {0};

	c->job.run = run;
	c->job.next = NULL;
	c->wake_at = 0;
	lock_take(&p->lock);
	struct prepare_client *k = p->stop ? NULL : client_of(p, id);
	if (k) {
		seat_hold(c->seat);
		if (k->first)
			k->last->job.next = c;
		else
			k->first = c;
		k->last = c;
		cond_signal(&p->wake);
	} else {
		c->job.run = NULL;
	}
	const bool stop = p->stop;
	lock_give(&p->lock);
	if (k)
		return STEP_HELD;
	if (!stop || !refuse_draining(c->srv, &e))
		openai_no_memory(&e);
	return answer_error(c, &e);
}

bool prepare_start(struct prepare *p, bool large, struct cohort_err *err)
{
	const size_t n = large ? WORKERS_LARGE : pool_cpu_count();

	p->large = large;
	p->n_workers = n < WORKERS_MIN ? WORKERS_MIN : n > WORKERS_MAX ? WORKERS_MAX : n;
	p->threads = mem_zalloc(p->n_workers, sizeof *p->threads);
	p->has_lock = p->threads && lock_init(&p->lock);
	p->has_wake = p->has_lock && cond_init(&p->wake);
	while (p->has_wake && p->n_started < p->n_workers &&
			thread_start(&p->threads[p->n_started], "cohort-prepare", worker_main, p))
		p->n_started++;
	if (p->has_wake && p->n_started == p->n_workers)
		return true;
	err_set(err, COHORT_E_MEMORY, "cannot start %zu threads that prepare requests", p->n_workers);
	return false;
}

void prepare_stop(struct prepare *p)
{
	if (p->has_lock) {
		lock_take(&p->lock);
		p->stop = true;
		if (p->has_wake)
			cond_all(&p->wake);
		lock_give(&p->lock);
	}
	for (size_t i = 0; i < p->n_started; i++)
		thread_join(&p->threads[i]);
	p->n_started = 0;
	while (p->clients) {
		struct prepare_client *k = p->clients;
		for (struct call *c = k->first, *next; c; c = next) {
			next = c->job.next;
			hand_back(c, STEP_CLOSE);
		}
		client_remove(p, k);
	}
}

void prepare_release(struct prepare *p)
{
	if (p->has_wake)
		cond_release(&p->wake);
	if (p->has_lock)
		lock_release(&p->lock);
	mem_free(p->threads);
}
