/* Many clients: some threads submit, others wait for what these submitted, others cancel whatever they can lay hands
 * on, all at random. What nobody cancelled says what it says alone; what was cancelled says the beginning of it; every
 * request ends once. For ThreadSanitizer, too.
 *
 * Shown red by planted faults: a cancel that ends other requests of the client, too (clients_that_cancel), a cancel
 * that is looked at only while rows are computed, and one that is forgotten when another one came in the same tick
 * (cancelled_in_time), one that ends a stream whose rows were chosen already (cancelled_between_rows), a resumed
 * stream whose sampler begins again (cancelled_while_parked), and under ThreadSanitizer a reader that looks for news
 * before it has the lock (left_alone). */
#include "engine_said.h"

#include "base/lock.h"
#include "engine/core.h"

enum { N_SUBMITTERS = 3, N_WAITERS = 4, N_CANCELLERS = 2, N_REQUESTS = 110, TABLE = 16 };

/* A request between those who know of it. */
struct entry {
	struct cohort_request *r; /* NULL: free */
	int kind;
	bool waited; /* somebody waits for it */
	bool cancelled; /* somebody cancelled it */
};

struct world {
	struct cohort_engine *e;
	struct lock lock;
	/* Under the lock: */
	struct entry entries[TABLE];
	int n_submitting; /* threads that will submit more */
	int n_ended, n_cut, n_midway; /* requests; cut ones; of these with tokens */
};

struct actor {
	struct thread thread;
	struct world *w;
	uint64_t seed;
};

static void submitter(void *arg)
{
	struct actor *a = arg;
	struct world *w = a->w;
	struct rng rng;

	rng_init(&rng, a->seed, 8);
	for (int i = 0; i < N_REQUESTS;) {
		struct entry *free = NULL;
		lock_take(&w->lock);
		for (int k = 0; k < TABLE && !free; k++)
			free = w->entries[k].r ? NULL : &w->entries[k];
		if (free) {
			free->kind = pick(&rng, 0, SAID_KINDS - 1);
			free->waited = free->cancelled = false;
			free->r = said_submit(w->e, free->kind);
			i++;
		}
		lock_give(&w->lock);
		if (!free)
			rig_sleep(0.0002);
	}
	lock_take(&w->lock);
	w->n_submitting--;
	lock_give(&w->lock);
}

/* Under the lock: an entry that nobody waits for; `over` tells that there will be none. */
static struct entry *take_entry(struct world *w, struct rng *rng, bool *over)
{
	const int first = pick(rng, 0, TABLE - 1);

	*over = w->n_submitting == 0;
	for (int k = 0; k < TABLE; k++) {
		struct entry *e = &w->entries[(first + k) % TABLE];
		if (e->r && !e->waited) {
			e->waited = true;
			*over = false;
			return e;
		}
	}
	return NULL;
}

/* Until the request is done: by waiting for its end, for a while at a time, or for every event. */
static void wait_for(struct cohort_request *r, int kind, struct rng *rng)
{
	const int how = pick(rng, 0, 2);
	struct cohort_event ev;
	bool done = false;

	while (!done) {
		if (how < 2) {
			expect(!cohort_request_wait(r, how ? 0.0005 : -1, &done, NULL), "wait");
			continue;
		}
		expect(!cohort_request_next(r, -1, &ev, NULL), "next");
		if (ev.kind == COHORT_EVENT_TOKEN)
			expect(ev.token == said_alone[kind][ev.output].tokens[ev.index], "another token");
		done = ev.kind == COHORT_EVENT_DONE;
	}
}

static void waiter(void *arg)
{
	struct actor *a = arg;
	struct world *w = a->w;
	struct rng rng;
	bool over = false;

	rng_init(&rng, a->seed, 9);
	while (!over) {
		struct cohort_request_stats rs;
		lock_take(&w->lock);
		struct entry *e = take_entry(w, &rng, &over);
		lock_give(&w->lock);
		if (!e) {
			rig_sleep(0.0002);
			continue;
		}
		wait_for(e->r, e->kind, &rng);
		cohort_request_stats_get(e->r, &rs);
		lock_take(&w->lock);
		/* Whoever cancelled it has said so before. */
		const int n_cut =
				said_check(e->r, e->kind, e->cancelled ? COHORT_FINISH_CANCELLED : COHORT_FINISH_NONE);
		w->n_ended++;
		w->n_cut += n_cut > 0;
		w->n_midway += n_cut > 0 && rs.n_generated > 0;
		cohort_request_free(e->r);
		e->r = NULL;
		lock_give(&w->lock);
	}
}

static void canceller(void *arg)
{
	struct actor *a = arg;
	struct world *w = a->w;
	struct rng rng;
	bool over = false;

	rng_init(&rng, a->seed, 10);
	while (!over) {
		lock_take(&w->lock);
		struct entry *e = &w->entries[pick(&rng, 0, TABLE - 1)];
		over = w->n_submitting == 0;
		if (e->r && !e->cancelled) {
			e->cancelled = true;
			cohort_request_cancel(e->r);
		}
		lock_give(&w->lock);
		rig_sleep(0.0001 * pick(&rng, 0, 40));
	}
}

static void start(struct actor *actors, int n, void (*fn)(void *arg), struct world *w)
{
	for (int i = 0; i < n; i++) {
		actors[i] = (struct actor){.w = w, .seed = (uint64_t)i};
		assert_true(thread_start(&actors[i].thread, "test", fn, &actors[i]));
	}
}

static void join(struct actor *actors, int n)
{
	for (int i = 0; i < n; i++)
		thread_join(&actors[i].thread);
}

/* One request whose outputs do not fit at once: whatever else is cancelled, and when, something is parked. */
static void fill_room(struct cohort_engine *e)
{
	struct cohort_request_params p = said_jobs[0].p;
	struct cohort_request *r = NULL;

	p.n_outputs = SAID_SLOTS;
	assert_int_equal(cohort_engine_submit(e, &p, &r, NULL), COHORT_OK);
	assert_int_equal(cohort_request_wait(r, -1, NULL, NULL), COHORT_OK);
	cohort_request_free(r);
}

static void run_world(const struct cohort_engine_params *ep, bool cancels)
{
	static struct world w;
	struct actor submitters[N_SUBMITTERS], waiters[N_WAITERS], cancellers[N_CANCELLERS];
	const bool parks = ep->room == COHORT_ROOM_OVERCOMMIT;
	bool clean = false;

	w = (struct world){.e = rig_engine(ep), .n_submitting = N_SUBMITTERS};
	if (parks)
		fill_room(w.e);
	assert_true(lock_init(&w.lock));
	start(submitters, N_SUBMITTERS, submitter, &w);
	start(waiters, N_WAITERS, waiter, &w);
	start(cancellers, cancels ? N_CANCELLERS : 0, canceller, &w);
	join(submitters, N_SUBMITTERS);
	join(waiters, N_WAITERS);
	join(cancellers, cancels ? N_CANCELLERS : 0);
	lock_release(&w.lock);

	assert_int_equal(w.n_ended, N_SUBMITTERS * N_REQUESTS);
	assert_int_equal(cohort_engine_drain(w.e, -1, &clean, NULL), COHORT_OK);
	assert_true(clean);
	const struct cohort_engine_stats s = rig_stats(w.e);
	assert_int_equal(s.n_submitted, w.n_ended + parks);
	assert_int_equal(said_n_ended(&s), w.n_ended + parks);
	assert_int_equal(s.n_ended[COHORT_FINISH_CANCELLED] + s.n_ended[COHORT_FINISH_LENGTH], w.n_ended + parks);
	assert_int_equal(s.n_ended[COHORT_FINISH_CANCELLED], w.n_cut);
	if (cancels)
		assert_true(w.n_midway > 0 && w.n_midway < w.n_cut && w.n_cut < w.n_ended);
	else
		assert_int_equal(w.n_cut, 0);
	assert_true(!parks || s.n_parked > 0);
	assert_int_equal(s.n_fallbacks, 0);
	rig_check_empty(w.e, SAID_SLOTS);
	cohort_engine_free(w.e);
}

static void left_alone(void **state)
{
	struct cohort_engine_params ep;

	(void)state;
	said_params(&ep);
	run_world(&ep, false);
}

static void clients_that_cancel(void **state)
{
	struct cohort_engine_params ep;

	(void)state;
	said_params(&ep);
	ep.context.n_threads = 2;
	run_world(&ep, true);
}

/* With so little room that streams are parked all the time, and some of them cancelled there. */
static void cancelled_while_parked(void **state)
{
	struct cohort_engine_params ep;

	(void)state;
	said_params(&ep);
	ep.room = COHORT_ROOM_OVERCOMMIT;
	ep.context.n_ctx = 192;
	ep.context.n_blocks = pool_blocks(ep.context.n_ctx, 0);
	run_world(&ep, true);
	ep.swap_bytes = (size_t)1 << 20;
	run_world(&ep, true);
}

/* ---- No cancel is lost ---- */

struct victim {
	struct thread thread;
	struct cohort_request *r;
	int after; /* tokens */
	atomic_int n_tokens;
	atomic_bool off; /* it was submitted */
};

static void slow_tick(const struct cohort_tick *t, void *user)
{
	(void)t;
	(void)user;
	rig_sleep(0.002);
}

static void count_tokens(struct cohort_request *r, const struct cohort_event *e, void *user)
{
	struct victim *v = user;

	(void)r;
	atomic_fetch_add(&v->n_tokens, e->kind == COHORT_EVENT_TOKEN);
}

static void cancel_one(void *arg)
{
	struct victim *v = arg;

	while (!atomic_load(&v->off) || atomic_load(&v->n_tokens) < v->after)
		rig_sleep(0.0003);
	cohort_request_cancel(v->r);
}

/* Requests that would take a second more, cancelled by another thread at any point of a tick: each of them ends there.
 */
static void cancelled_in_time(void **state)
{
	enum { ROUNDS = 8, N = 4, N_TOKENS = 500 };
	static struct alone a;
	static struct victim v[N];
	struct cohort_engine_params ep;
	struct job j;

	(void)state;
	said_params(&ep);
	ep.context.n_ctx = 4096;
	ep.context.n_blocks = pool_blocks(ep.context.n_ctx, 0);
	ep.on_tick = slow_tick;
	struct cohort_engine *e = rig_engine(&ep);
	rig_job(&j, 17, 9, N_TOKENS);
	alone_run(rig_model, rig_alone, &j.p, 0, &a);
	for (int round = 0; round < ROUNDS; round++) {
		for (int i = 0; i < N; i++) {
			v[i] = (struct victim){.after = round % 2 ? round : i * round};
			j.p.on_event = count_tokens;
			j.p.user = &v[i];
			assert_true(thread_start(&v[i].thread, "test", cancel_one, &v[i]));
			v[i].r = rig_submit(e, &j);
			atomic_store(&v[i].off, true);
		}
		for (int i = 0; i < N; i++) {
			bool done = false;
			assert_int_equal(cohort_request_wait(v[i].r, 60, &done, NULL), COHORT_OK);
			assert_true(done);
			thread_join(&v[i].thread);
			const struct cohort_output o = rig_output(v[i].r, 0);
			assert_int_equal(o.finish, COHORT_FINISH_CANCELLED);
			assert_int_equal(o.n_tokens, atomic_load(&v[i].n_tokens));
			assert_true(o.n_tokens >= v[i].after && o.n_tokens < N_TOKENS && o.n_bytes <= a.n_bytes);
			assert_memory_equal(o.tokens, a.tokens, (size_t)o.n_tokens * sizeof *o.tokens);
			assert_memory_equal(o.text, a.text, o.n_bytes);
			cohort_request_free(v[i].r);
		}
	}
	assert_int_equal(rig_stats(e).n_ended[COHORT_FINISH_CANCELLED], ROUNDS * N);
	cohort_engine_free(e);
}

/* ---- No row of who is gone ---- */

enum { B_SLOTS = 4, B_ROWS = 512, B_REQUESTS = 6 };

/* A machine that computes nothing, so that most of a tick is choosing rows: it knows how long sequences are. */
struct books {
	struct core core;
	int32_t n[B_SLOTS];
};

static double books_now(void *self)
{
	(void)self;
	return 0;
}

static enum cohort_status books_decode(void *self, const struct cohort_batch_raw *rows, struct cohort_err *err)
{
	struct books *b = self;

	(void)err;
	for (int32_t i = 0; i < rows->n_tokens; i++) {
		expect(b->core.slots[rows->seq[i]] != NULL, "a row of nobody");
		expect(rows->pos[i] == b->n[rows->seq[i]]++, "a sequence goes on elsewhere");
	}
	return COHORT_OK;
}

static const float *books_logits(void *self, int32_t row)
{
	(void)self;
	(void)row;
	return NULL;
}

static enum cohort_status books_cp(
		void *self, cohort_seq src, cohort_seq dst, cohort_pos p0, cohort_pos p1, struct cohort_err *err)
{
	struct books *b = self;

	(void)src;
	(void)err;
	expect(p0 == b->n[dst], "a copy to somebody who has cells");
	b->n[dst] = p1;
	return COHORT_OK;
}

static enum cohort_status books_rm(void *self, cohort_seq seq, cohort_pos p0, cohort_pos p1, struct cohort_err *err)
{
	(void)p1;
	(void)err;
	((struct books *)self)->n[seq] = p0;
	return COHORT_OK;
}

static enum cohort_status books_adapter(
		void *self, cohort_seq seq, const struct cohort_adapter *adapter, float scale, struct cohort_err *err)
{
	(void)self;
	(void)seq;
	(void)adapter;
	(void)scale;
	(void)err;
	return COHORT_OK;
}

static size_t books_size(void *self, cohort_seq seq)
{
	(void)self;
	(void)seq;
	return 0;
}

/* Whom the other thread is to cancel, in turn. */
struct prey {
	struct thread thread;
	_Atomic(struct cohort_request *) r[B_REQUESTS];
	atomic_int n_ready, n_begun, n_done; /* rounds */
	atomic_bool over;
};

static void cancel_in_turn(void *arg)
{
	struct prey *p = arg;
	struct rng rng;

	rng_init(&rng, 3, 15);
	for (int round = 1; !atomic_load(&p->over);) {
		if (atomic_load(&p->n_ready) < round)
			continue;
		atomic_store(&p->n_begun, round);
		for (int i = 0; i < B_REQUESTS; i++) {
			for (atomic_int spin = pick(&rng, 0, 300); spin > 0; spin--)
				;
			cohort_request_cancel(atomic_load(&p->r[i]));
		}
		atomic_store(&p->n_done, round++);
	}
}

/* Cancelled by another thread at any moment of a tick, also between two rows of one request, of one output or of two:
 * no row is computed for a slot that has nobody, and who comes next begins at the beginning. */
static void cancelled_between_rows(void **state)
{
	static struct books b;
	static struct prey prey;
	static cohort_token prompt[700];
	const struct machine m = {.self = &b,
			.now = books_now,
			.decode = books_decode,
			.logits = books_logits,
			.seq_cp = books_cp,
			.seq_rm = books_rm,
			.adapter_set = books_adapter,
			.state_size = books_size};
	const struct core_limits lim = {.n_vocab = 10,
			.n_slots = B_SLOTS,
			.n_ubatch = B_ROWS,
			.budget = B_ROWS,
			.chunk_size = B_ROWS,
			.block_size = 32,
			.n_pos_max = 1024,
			.logits = true,
			.queue_requests_max = 100,
			.queue_tokens_max = 100000,
			.wait_max_s = 1000};
	const double until = clock_now() + 2;
	const uint64_t *n_cancelled = &b.core.live.n_ended[COHORT_FINISH_CANCELLED];

	(void)state;
	assert_int_equal(core_init(&b.core, &lim, &m, NULL, NULL), COHORT_OK);
	assert_true(thread_start(&prey.thread, "test", cancel_in_turn, &prey));
	for (int round = 1; clock_now() < until || (*n_cancelled == 0 && round < 200); round++) {
		struct cohort_request_params p;
		struct cohort_request *r[B_REQUESTS];
		cohort_request_params_init(&p);
		p.prompt = prompt;
		p.n_prompt = 700;
		p.max_tokens = 20;
		for (int i = 0; i < B_REQUESTS; i++) {
			p.n_prompt = i % 3 == 2 ? 2 : 700;
			p.n_outputs = i % 3 == 2 ? 2 : 1;
			expect(!request_open(&b.core, &p, &r[i], NULL) && !core_submit(&b.core, r[i], NULL), "refused");
			atomic_store(&prey.r[i], r[i]);
		}
		atomic_store(&prey.n_ready, round);
		/* On a machine that is busy otherwise it may take long to come, and would find everything done. */
		while (atomic_load(&prey.n_begun) < round)
			;
		while (b.core.shared.n_open > 0)
			core_tick(&b.core);
		while (atomic_load(&prey.n_done) < round)
			;
		for (int i = 0; i < B_REQUESTS; i++)
			cohort_request_free(r[i]);
		for (int i = 0; i < B_SLOTS; i++)
			assert_int_equal(b.n[i], 0);
	}
	atomic_store(&prey.over, true);
	thread_join(&prey.thread);
	assert_true(*n_cancelled > 0);
	core_shut(&b.core);
	core_release(&b.core);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
			cmocka_unit_test(left_alone),
			cmocka_unit_test(clients_that_cancel),
			cmocka_unit_test(cancelled_while_parked),
			cmocka_unit_test(cancelled_in_time),
			cmocka_unit_test(cancelled_between_rows),
	};
	return cmocka_run_group_tests_name("engine_clients", tests, said_set_up, rig_tear_down);
}
