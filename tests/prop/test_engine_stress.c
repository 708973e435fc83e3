/* The engine under threads: some submit, read, cancel and free early, others look, change the strategy and clear the
 * cache, all at once; then the engine is drained, stopped in the middle or drained in no time. For ThreadSanitizer
 * above all: what is asserted here is that everything ends, once, and that what was said to the end is what is said
 * alone.
 *
 * Shown red under ThreadSanitizer by planted faults: the numbers of an engine or of a request taken without the
 * lock, slots of a manual engine looked at during a tick. */
#include "engine_rig.h"

#include "base/thread.h"

#include <stdatomic.h>

enum { N_KINDS = 6, N_CLIENTS = 4, N_REQUESTS = 60 };

/* What each kind of request says alone; nothing of it changes while threads run. */
static struct job kinds[N_KINDS];
static struct alone said[N_KINDS][2];

static int set_up(void **state)
{
	if (rig_set_up_random(state))
		return -1;
	for (int i = 0; i < N_KINDS; i++) {
		rig_job(&kinds[i], (uint64_t)i / 2, 10 + 14 * i, 4 + 3 * i);
		kinds[i].p.n_outputs = 1 + i % 2;
		kinds[i].p.client = (uint64_t)i;
		kinds[i].p.session = (uint64_t)i % 3;
		kinds[i].p.priority = i % 2;
		kinds[i].p.n_logprobs = i % 3 - 1;
		for (int32_t k = 0; k < kinds[i].p.n_outputs; k++)
			alone_run(rig_model, rig_alone, &kinds[i].p, k, &said[i][k]);
	}
	return 0;
}

/* cmocka's asserts belong to the thread that tests. */
static void expect(bool ok, const char *what)
{
	if (!ok) {
		fprintf(stderr, "# %s\n", what);
		abort();
	}
}

/* ---- The threads ---- */

struct world {
	struct cohort_engine *e;
	atomic_bool stop; /* the lookers */
	atomic_int n_accepted, n_done, n_called;
};

struct actor {
	struct thread thread;
	struct world *w;
	uint64_t seed;
};

static void check_said(struct cohort_request *r, int kind)
{
	for (int32_t k = 0; k < kinds[kind].p.n_outputs; k++) {
		const struct alone *a = &said[kind][k];
		struct cohort_output o;
		expect(!cohort_request_output_get(r, k, &o, NULL), "an output of what is done");
		const bool whole = o.finish == a->finish;
		expect(whole || o.finish == COHORT_FINISH_CANCELLED || o.finish == COHORT_FINISH_SHUTDOWN ||
						o.finish == COHORT_FINISH_TIMEOUT,
				"ended in an odd way");
		expect(whole ? o.n_tokens == a->n_tokens && o.n_bytes == a->n_bytes : o.n_tokens <= a->n_tokens,
				"said more or less than alone");
		expect(memcmp(o.tokens, a->tokens, (size_t)o.n_tokens * sizeof *o.tokens) == 0, "other tokens");
		expect(o.n_bytes <= a->n_bytes && memcmp(o.text, a->text, o.n_bytes) == 0, "another text");
	}
}

/* Reads events until the end, or gives up in one of several ways. */
static void read_some(struct cohort_request *r, int kind, struct rng *rng)
{
	const int how = pick(rng, 0, 5);
	const int32_t n_most = pick(rng, 0, 8);
	struct cohort_request_stats rs;
	struct cohort_event ev;
	int32_t n = 0;

	do {
		cohort_request_stats_get(r, &rs);
		expect(rs.n_generated >= n, "fewer tokens than were read");
		if (how < 3 && n == n_most) {
			if (how == 0)
				cohort_request_cancel(r);
			else if (how == 1)
				break;
		}
		const double timeout_s = how == 2 ? 0.001 : -1;
		expect(!cohort_request_next(r, timeout_s, &ev, NULL), "next");
		n += ev.kind == COHORT_EVENT_TOKEN;
		if (ev.kind == COHORT_EVENT_TOKEN)
			expect(ev.token == said[kind][ev.output].tokens[ev.index], "another token");
	} while (ev.kind != COHORT_EVENT_DONE);
	if (how != 1)
		check_said(r, kind);
}

struct call {
	struct world *w;
	int kind;
};

static void on_event(struct cohort_request *r, const struct cohort_event *e, void *user)
{
	struct call *c = user;

	if (e->kind == COHORT_EVENT_TOKEN)
		expect(e->token == said[c->kind][e->output].tokens[e->index], "another token for a callback");
	if (e->kind == COHORT_EVENT_TOKEN && e->index == 6 && c->kind == 3)
		cohort_request_cancel(r);
	if (e->kind != COHORT_EVENT_DONE)
		return;
	check_said(r, c->kind);
	cohort_request_free(r);
	atomic_fetch_add(&c->w->n_called, 1);
	free(c);
}

static void client(void *arg)
{
	struct actor *a = arg;
	struct world *w = a->w;
	struct rng rng;

	rng_init(&rng, a->seed, 3);
	for (int i = 0; i < N_REQUESTS; i++) {
		const int kind = pick(&rng, 0, N_KINDS - 1);
		struct cohort_request_params p = kinds[kind].p;
		struct cohort_request *r;
		const bool called = pick(&rng, 0, 3) == 0;
		p.salt = (uint64_t)pick(&rng, 0, 1);
		p.total_limit_s = pick(&rng, 0, 9) ? 0 : 1e-3;
		struct call *call = called ? malloc(sizeof *call) : NULL;
		if (call) {
			*call = (struct call){w, kind};
			p.on_event = on_event;
			p.user = call;
		}
		const enum cohort_status st = cohort_engine_submit(w->e, &p, &r, NULL);
		if (st) {
			expect(st == COHORT_E_LIMIT, "refused oddly");
			free(call);
			continue;
		}
		atomic_fetch_add(&w->n_accepted, 1);
		if (call)
			continue;
		if (pick(&rng, 0, 5))
			read_some(r, kind, &rng);
		cohort_request_free(r);
	}
}

/* Looks and meddles until it is told to stop. */
static void looker(void *arg)
{
	struct actor *a = arg;
	struct cohort_engine_stats s;
	struct cohort_slot_info infos[4];
	struct rng rng;

	rng_init(&rng, a->seed, 4);
	while (!atomic_load(&a->w->stop)) {
		cohort_engine_stats_get(a->w->e, &s);
		expect(s.last.n_idle + s.last.n_prefilling + s.last.n_generating + s.last.n_parked == 4 ||
						s.n_ticks == 0,
				"slots that do not sum up");
		expect(s.last.n_blocks_used + s.last.n_blocks_cached + s.last.n_blocks_free == s.last.n_blocks,
				"blocks that do not sum up");
		expect(cohort_engine_slots_get(a->w->e, infos, 4) == 4, "slots");
		if (pick(&rng, 0, 3) == 0)
			expect(!cohort_engine_strategy_set(
					       a->w->e, cohort_strategy_get((size_t)pick(&rng, 0, 2)), NULL),
					"strategy");
		if (pick(&rng, 0, 7) == 0)
			cohort_engine_cache_clear(a->w->e);
		rig_sleep(0.0005);
	}
}

enum ending { DRAINED, DRAINED_TWICE, SHUT, FREED };

static void drainer(void *arg)
{
	struct actor *a = arg;
	bool clean;
	expect(!cohort_engine_drain(a->w->e, -1, &clean, NULL), "drain");
}

static void run_world(enum ending ending, enum cohort_room room, size_t swap_bytes)
{
	struct cohort_engine_params ep;
	struct world w = {0};
	struct actor clients[N_CLIENTS], lookers[2], other;
	struct cohort_engine_stats s;
	struct cohort_request *left[20] = {0};
	bool clean = false;

	rig_params(&ep);
	ep.manual = false;
	ep.room = room;
	ep.swap_bytes = swap_bytes;
	ep.context.n_ctx = 224;
	ep.context.n_blocks = pool_blocks(ep.context.n_ctx, 0);
	ep.context.n_threads = 2;
	ep.queue_requests_max = 12;
	w.e = rig_engine(&ep);
	for (int i = 0; i < N_CLIENTS; i++) {
		clients[i] = (struct actor){.w = &w, .seed = (uint64_t)(i + 10 * (int)ending)};
		assert_true(thread_start(&clients[i].thread, "test", client, &clients[i]));
	}
	for (int i = 0; i < 2; i++) {
		lookers[i] = (struct actor){.w = &w, .seed = (uint64_t)i};
		assert_true(thread_start(&lookers[i].thread, "test", looker, &lookers[i]));
	}
	if (ending == SHUT) { /* with everybody still there */
		rig_sleep(0.05);
		assert_int_equal(cohort_engine_drain(w.e, 0.001, &clean, NULL), COHORT_OK);
	}
	if (ending == DRAINED_TWICE) {
		rig_sleep(0.05);
		other = (struct actor){.w = &w};
		assert_true(thread_start(&other.thread, "test", drainer, &other));
		assert_int_equal(cohort_engine_drain(w.e, -1, &clean, NULL), COHORT_OK);
		assert_true(clean);
		thread_join(&other.thread);
	}
	for (int i = 0; i < N_CLIENTS; i++)
		thread_join(&clients[i].thread);
	for (int i = 0; i < 20 && ending == FREED; i++)
		(void)cohort_engine_submit(w.e, &kinds[i % N_KINDS].p, &left[i], NULL);
	atomic_store(&w.stop, true);
	for (int i = 0; i < 2; i++)
		thread_join(&lookers[i].thread);
	if (ending != FREED) {
		assert_int_equal(cohort_engine_drain(w.e, -1, &clean, NULL), COHORT_OK);
		assert_true(clean);
		cohort_engine_stats_get(w.e, &s);
		uint64_t n_ended = 0;
		for (int f = 0; f <= COHORT_FINISH_SHUTDOWN; f++)
			n_ended += s.n_ended[f];
		assert_int_equal(n_ended, s.n_submitted);
		assert_int_equal(s.n_submitted, atomic_load(&w.n_accepted));
		assert_int_equal(s.n_ended[COHORT_FINISH_ERROR], 0);
		assert_int_equal(s.n_fallbacks, 0);
		assert_int_equal(s.last.n_idle, 4);
		assert_int_equal(s.last.n_blocks_used, 0);
	}
	cohort_engine_free(w.e);
	for (int i = 0; i < 20; i++)
		if (left[i]) {
			assert_true(rig_is_done(left[i]));
			check_said(left[i], i % N_KINDS);
			cohort_request_free(left[i]);
		}
	assert_true(ending == SHUT || ending == DRAINED_TWICE || atomic_load(&w.n_called) > 10);
}

static void stress_with_reserved_room(void **state)
{
	(void)state;
	for (int ending = DRAINED; ending <= FREED; ending++)
		run_world((enum ending)ending, COHORT_ROOM_RESERVE, 0);
}

static void stress_with_overcommitted_room(void **state)
{
	(void)state;
	for (int ending = DRAINED; ending <= FREED; ending++)
		run_world((enum ending)ending, COHORT_ROOM_OVERCOMMIT, ending % 2 ? (size_t)1 << 20 : 0);
}

/* Slots are looked at while another thread ticks a manual engine. */
static void ticked_by_hand(void **state)
{
	struct cohort_engine_params ep;
	struct world w = {0};
	struct actor lookers[2];
	struct cohort_request *r[12];

	(void)state;
	rig_params(&ep);
	w.e = rig_engine(&ep);
	for (int i = 0; i < 2; i++) {
		lookers[i] = (struct actor){.w = &w, .seed = (uint64_t)i};
		assert_true(thread_start(&lookers[i].thread, "test", looker, &lookers[i]));
	}
	for (int round = 0; round < 10; round++) {
		for (int i = 0; i < 12; i++)
			r[i] = rig_submit(w.e, &kinds[i % N_KINDS]);
		rig_run(w.e);
		for (int i = 0; i < 12; i++) {
			check_said(r[i], i % N_KINDS);
			cohort_request_free(r[i]);
		}
	}
	atomic_store(&w.stop, true);
	for (int i = 0; i < 2; i++)
		thread_join(&lookers[i].thread);
	cohort_engine_free(w.e);
}

static void look_from_within(struct cohort_request *r, const struct cohort_event *e, void *user)
{
	struct world *w = user;
	struct cohort_slot_info infos[4];
	struct cohort_engine_stats s;

	(void)r;
	expect(cohort_engine_slots_get(w->e, infos, 4) == 4, "slots from within");
	cohort_engine_stats_get(w->e, &s);
	if (e->kind == COHORT_EVENT_TOKEN && e->index == 0)
		expect(infos[0].state == COHORT_SLOT_GENERATING && infos[0].n_generated == 1, "not the slot as it is");
	atomic_fetch_add(&w->n_called, e->kind == COHORT_EVENT_TOKEN);
}

/* A callback looks at slots: it sees them as they are, and does not wait for the tick that it is part of. Seen waiting
 * a second for each event. */
static void looked_at_from_within(void **state)
{
	struct cohort_engine_params ep;
	struct world w = {0};
	struct job j;

	(void)state;
	rig_params(&ep);
	ep.manual = false;
	w.e = rig_engine(&ep);
	rig_job(&j, 3, 5, 20);
	j.p.on_event = look_from_within;
	j.p.user = &w;
	struct cohort_request *r = rig_submit(w.e, &j);
	bool done = false;
	assert_int_equal(cohort_request_wait(r, 10, &done, NULL), COHORT_OK);
	assert_true(done);
	assert_int_equal(atomic_load(&w.n_called), 20);
	cohort_request_free(r);
	cohort_engine_free(w.e);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
			cmocka_unit_test(stress_with_reserved_room),
			cmocka_unit_test(stress_with_overcommitted_room),
			cmocka_unit_test(ticked_by_hand),
			cmocka_unit_test(looked_at_from_within),
	};
	return cmocka_run_group_tests_name("engine_stress", tests, set_up, rig_tear_down);
}
