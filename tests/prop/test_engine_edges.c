/* The engine where two threads meet, or numbers end: errands wait for each other and for ticks, slots are looked at
 * while the last request ends and while a tick takes long, a token is none, and very long contexts leave few ids for
 * cached prompts.
 *
 * Seen red with a thread that sleeps after an errand without looking for the next (in_turn), an errand that does not
 * wait for another one, or for a tick (one_at_a_time), slots that nobody looks at when the last request ended
 * (the_last_ends) or that are not waited for (a_long_tick), a drain by the engine's own thread, and a tick within a
 * tick (from_within), more slots told than there is room for (with_nothing), a reader that goes on without its text
 * (no_such_token), a sequence with a hole taken for whole (machine_itself), an encoder with ids (other_models), a
 * thread that sleeps on when the cache is to be emptied (sleeping_engine_wakes_without_a_request), ids without their
 * least number, or more of them than blocks (few_ids). */
#include "arch_case.h"
#include "engine_rig.h"
#include "temp.h"

#include "base/pool.h"
#include "engine/cache.h"
#include "engine/machine.h"

/* ---- Things that take as long as they are told to ---- */

struct gate {
	atomic_int n_entered;
	atomic_bool open;
	struct cohort_engine *e; /* whose slots are looked at before; NULL: nobody's */
};

static void pass(struct gate *g)
{
	atomic_fetch_add(&g->n_entered, 1);
	while (!atomic_load(&g->open))
		rig_sleep(0.001);
}

static void wait_entered(struct gate *g)
{
	for (int i = 0; !atomic_load(&g->n_entered); i++) {
		assert_true(i < 20000);
		rig_sleep(0.001);
	}
}

/* Long enough for a thread to come to where it waits, if it does. */
static void a_while(void)
{
	rig_sleep(0.15);
}

/* A call on a thread of its own. */
struct call {
	struct thread thread;
	struct cohort_engine *e;
	struct gate *gate; /* an errand that passes it; NULL: one that only counts */
	atomic_int n_done;
	enum cohort_status st;
	struct cohort_slot_info infos[8];
	size_t n_infos;
	double took_s;
};

static void errand(struct core *c, void *arg)
{
	struct call *a = arg;

	(void)c;
	if (a->gate)
		pass(a->gate);
	atomic_fetch_add(&a->n_done, 1);
}

static void run_errand(void *arg)
{
	struct call *a = arg;
	a->st = engine_run(a->e, errand, a, NULL);
}

static void run_tick(void *arg)
{
	struct call *a = arg;
	a->st = cohort_engine_tick(a->e, NULL, NULL);
	atomic_fetch_add(&a->n_done, 1);
}

static void look(void *arg)
{
	struct call *a = arg;
	const double from = clock_now();

	a->n_infos = cohort_engine_slots_get(a->e, a->infos, 8);
	a->took_s = clock_now() - from;
	atomic_fetch_add(&a->n_done, 1);
}

static void begin(struct call *a, struct cohort_engine *e, struct gate *g, void (*fn)(void *arg))
{
	*a = (struct call){.e = e, .gate = g};
	assert_true(thread_start(&a->thread, "test", fn, a));
}

static void finish(struct call *a)
{
	thread_join(&a->thread);
	assert_int_equal(a->st, COHORT_OK);
	assert_int_equal(atomic_load(&a->n_done), 1);
}

static void on_event(struct cohort_request *r, const struct cohort_event *e, void *user)
{
	struct gate *g = user;

	(void)r;
	if (e->kind == COHORT_EVENT_DONE)
		pass(g);
	else if (g->e && e->kind == COHORT_EVENT_TOKEN && e->index == 0)
		cohort_engine_slots_get(g->e, NULL, 0);
}

/* ---- Errands ---- */

/* Several wait while one is under way; each is done, once. */
static void in_turn(void **state)
{
	struct cohort_engine_params ep;
	struct gate g = {.n_entered = 0};
	struct call first, more[3];
	(void)state;

	rig_params(&ep);
	ep.manual = false;
	struct cohort_engine *e = rig_engine(&ep);
	begin(&first, e, &g, run_errand);
	wait_entered(&g);
	for (int i = 0; i < 3; i++)
		begin(&more[i], e, NULL, run_errand);
	a_while();
	for (int i = 0; i < 3; i++)
		assert_int_equal(atomic_load(&more[i].n_done), 0);
	atomic_store(&g.open, true);
	finish(&first);
	for (int i = 0; i < 3; i++)
		finish(&more[i]);
	cohort_engine_free(e);
}

/* Of an engine without a thread: neither a tick nor another errand while one is under way, and no errand in a tick. */
static void one_at_a_time(void **state)
{
	struct cohort_engine_params ep;
	struct gate g = {.n_entered = 0}, in_tick = {.n_entered = 0};
	struct call first, second, tick;
	static struct job j;
	(void)state;

	rig_params(&ep);
	struct cohort_engine *e = rig_engine(&ep);
	begin(&first, e, &g, run_errand);
	wait_entered(&g);
	begin(&second, e, NULL, run_errand);
	begin(&tick, e, NULL, run_tick);
	a_while();
	assert_int_equal(atomic_load(&second.n_done), 0);
	assert_int_equal(atomic_load(&tick.n_done), 0);
	atomic_store(&g.open, true);
	finish(&first);
	finish(&second);
	finish(&tick);

	rig_job(&j, 1, 5, 1);
	j.p.on_event = on_event;
	j.p.user = &in_tick;
	struct cohort_request *r = rig_submit(e, &j);
	begin(&tick, e, NULL, run_tick);
	wait_entered(&in_tick);
	begin(&second, e, NULL, run_errand);
	a_while();
	assert_int_equal(atomic_load(&second.n_done), 0);
	atomic_store(&in_tick.open, true);
	finish(&tick);
	finish(&second);
	cohort_request_free(r);
	cohort_engine_free(e);
}

/* ---- Looking at slots ---- */

/* An engine with a thread, whose tick waits at the gate, and somebody who asks for its slots meanwhile; before: they
 * are looked at from within the tick as well. */
static struct cohort_engine *look_in_tick(struct gate *g, bool before, struct call *a, struct cohort_request **r)
{
	struct cohort_engine_params ep;
	static struct job j;

	rig_params(&ep);
	ep.manual = false;
	struct cohort_engine *e = rig_engine(&ep);
	g->e = before ? e : NULL;
	rig_job(&j, 1, 5, 2);
	j.p.on_event = on_event;
	j.p.user = g;
	*r = rig_submit(e, &j);
	wait_entered(g);
	begin(a, e, NULL, look);
	return e;
}

/* Somebody asks while the last request ends: no tick follows that would look for him, and what was seen before was
 * another time. */
static void the_last_ends(void **state)
{
	struct gate g = {.n_entered = 0};
	struct call a;
	(void)state;

	struct cohort_request *r;
	struct cohort_engine *e = look_in_tick(&g, true, &a, &r);
	a_while();
	assert_int_equal(atomic_load(&a.n_done), 0);
	atomic_store(&g.open, true);
	finish(&a);
	assert_true(a.took_s < 0.9); /* not what it would have waited for a tick */
	assert_int_equal(a.n_infos, 4);
	for (int i = 0; i < 4; i++) {
		assert_int_equal(a.infos[i].id, i);
		assert_int_equal(a.infos[i].state, COHORT_SLOT_IDLE);
	}
	cohort_request_free(r);
	cohort_engine_free(e);
}

/* A tick that takes longer than a second is not waited for. */
static void a_long_tick(void **state)
{
	struct gate g = {.n_entered = 0};
	struct call a;
	(void)state;

	struct cohort_request *r;
	struct cohort_engine *e = look_in_tick(&g, false, &a, &r);
	finish(&a);
	assert_true(a.took_s > 0.9);
	assert_int_equal(a.n_infos, 4);
	assert_int_equal(a.infos[3].id, 3);
	atomic_store(&g.open, true);
	cohort_request_free(r);
	cohort_engine_free(e);
}

/* ---- From within, and with nothing ---- */

struct within {
	struct cohort_engine *e;
	enum cohort_status ticked, drained;
};

static void call_again(struct cohort_request *r, const struct cohort_event *ev, void *user)
{
	struct within *w = user;

	(void)r, (void)ev;
	w->ticked = cohort_engine_tick(w->e, NULL, NULL);
	w->drained = cohort_engine_drain(w->e, 1, NULL, NULL);
}

/* A callback can neither tick nor drain the engine that calls it. */
static void from_within(void **state)
{
	static struct job j;
	(void)state;

	for (int manual = 0; manual < 2; manual++) {
		struct cohort_engine_params ep;
		struct within w = {.ticked = COHORT_OK};
		rig_params(&ep);
		ep.manual = manual;
		ep.context.n_ubatch = 64; /* more than n_batch: that is what counts */
		w.e = rig_engine(&ep);
		rig_job(&j, 1, 5, 2);
		j.p.on_event = call_again;
		j.p.user = &w;
		struct cohort_request *r = rig_submit(w.e, &j);
		if (manual)
			rig_run(w.e);
		else
			assert_int_equal(cohort_engine_drain(w.e, -1, NULL, NULL), COHORT_OK);
		assert_int_equal(w.ticked, COHORT_E_ARG);
		assert_int_equal(w.drained, COHORT_E_ARG);
		cohort_request_free(r);
		cohort_engine_free(w.e);
	}
}

/* Nowhere to put an answer, or not all of it; numbers that only the context has an opinion of. */
static void with_nothing(void **state)
{
	struct cohort_slot_info infos[2] = {{.id = 7}, {.id = 7}};
	struct cohort_engine_params ep;
	struct cohort_cache_key key;
	struct cohort_engine *e = NULL;
	static struct job j;
	(void)state;

	rig_params(&ep);
	ep.context.n_batch = 0;
	assert_int_equal(cohort_engine_open(rig_model, &ep, &e, NULL), COHORT_E_ARG);
	assert_null(e);
	rig_params(&ep);
	e = rig_engine(&ep);
	cohort_engine_stats_get(e, NULL);
	cohort_engine_stats_get(NULL, NULL);
	assert_int_equal(cohort_engine_slots_get(e, infos, 1), 4);
	assert_int_equal(infos[0].id, 0);
	assert_int_equal(infos[1].id, 7);
	assert_int_equal(cohort_engine_slot_tokens(e, 0, NULL, 0, &key, NULL), COHORT_OK);
	assert_int_equal(key.n_tokens, 0);
	rig_job(&j, 1, 5, 2);
	struct cohort_request *r = rig_submit(e, &j);
	cohort_request_stats_get(r, NULL);
	rig_tick(e);
	assert_int_equal(cohort_engine_slot_tokens(e, 0, NULL, 0, &key, NULL), COHORT_E_LIMIT);
	rig_run(e);
	cohort_request_free(r);
	cohort_engine_free(e);
}

/* ---- Reading ---- */

/* Without stop strings readers make the text from the tokens, and would say so if one of them were none. */
static void no_such_token(void **state)
{
	struct cohort_engine_params ep;
	struct cohort_output o;
	struct cohort_event ev;
	struct cohort_err err = {0};
	static struct job j;
	(void)state;

	rig_params(&ep);
	struct cohort_engine *e = rig_engine(&ep);
	rig_job(&j, 1, 5, 3);
	struct cohort_request *r = rig_submit(e, &j);
	rig_run(e);
	cohort_token *second = &r->streams[0].known[j.p.n_prompt + 1];
	const cohort_token was = *second;
	*second = 1 << 20;
	assert_int_equal(cohort_request_next(r, 0, &ev, &err), COHORT_OK);
	assert_int_equal(ev.kind, COHORT_EVENT_TOKEN);
	assert_int_equal(cohort_request_next(r, 0, &ev, &err), COHORT_E_ARG);
	assert_int_equal(err.status, COHORT_E_ARG);
	assert_int_equal(cohort_request_output_get(r, 0, &o, NULL), COHORT_E_ARG);
	*second = was; /* nothing was lost by it */
	rig_check(r, &j);
	cohort_request_free(r);
	cohort_engine_free(e);
}

/* ---- The machine ---- */

/* It passes on what the context says: refusals of rows, and whether a sequence is whole. */
static void machine_itself(void **state)
{
	const struct machine m = machine_of_context(rig_alone);
	const struct cohort_batch_raw none = {.n_tokens = -1, .n_seq_row_max = 1, .n_pos_row = 1};
	cohort_token tokens[] = {1, 2, 3};
	struct cohort_err err = {0};
	(void)state;

	assert_int_not_equal(m.decode(m.self, &none, &err), COHORT_OK);
	assert_true(err.status != COHORT_OK);
	err.status = COHORT_OK;
	assert_int_not_equal(m.encode(m.self, &none, &err), COHORT_OK);
	assert_true(err.status != COHORT_OK);
	cohort_pos pos[] = {0};
	cohort_seq seq[] = {0};
	uint8_t output[] = {1};
	const struct cohort_batch_raw one = {.n_tokens = 1,
			.n_seq_row_max = 1,
			.n_pos_row = 1,
			.tokens = tokens,
			.pos = pos,
			.seq = seq,
			.output = output};
	assert_int_equal(m.encode(m.self, &one, &err), COHORT_OK);
	assert_true(m.seq_is_whole(m.self, 0, 0));
	assert_false(m.seq_is_whole(m.self, 0, 1));
	assert_int_equal(cohort_decode_many(rig_alone, tokens, 3, 0, 0, &err), COHORT_OK);
	assert_true(m.seq_is_whole(m.self, 0, 3));
	assert_false(m.seq_is_whole(m.self, 0, 2));
	assert_int_equal(m.seq_rm(m.self, 0, 1, 2, &err), COHORT_OK); /* a hole */
	assert_false(m.seq_is_whole(m.self, 0, 3));
	assert_int_equal(m.seq_rm(m.self, 0, 0, 1, &err), COHORT_OK); /* the beginning */
	assert_false(m.seq_is_whole(m.self, 0, 3));
	assert_int_equal(m.seq_rm(m.self, 0, 0, -1, &err), COHORT_OK);
	assert_true(m.seq_is_whole(m.self, 0, 0));
}

/* ---- Models ---- */

/* A model with states has no blocks and an id for some of them; an encoder keeps nothing. */
static void other_models(void **state)
{
	static const struct {
		const char *name;
		int32_t n_ids;
	} cases[] = {{"mamba", 16}, {"bert", 0}};
	(void)state;

	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct cohort_engine_params ep;
		struct cohort_model *model = NULL;
		struct cohort_engine *e = NULL;
		struct cohort_err err;
		char path[200];
		rig_params(&ep);
		ep.context.outputs = COHORT_OUTPUT_EMBEDDINGS | (i ? 0 : COHORT_OUTPUT_LOGITS);
		if (cohort_model_open(arch_path(path, sizeof path, cases[i].name, "gguf"), NULL, &model, &err) ||
				cohort_engine_open(model, &ep, &e, &err))
			fail_msg("%s", err.text);
		assert_int_equal(engine_core(e)->lim.n_blocks, 0);
		assert_int_equal(engine_core(e)->lim.n_ids, cases[i].n_ids);
		cohort_engine_free(e);
		cohort_model_free(model);
	}
}

/* An engine that sleeps wakes up for what is to be done without a request. */
static void sleeping_engine_wakes_without_a_request(void **state)
{
	struct cohort_engine_params ep;
	struct cohort_strategy other = *cohort_strategy_get(0);
	struct cohort_event ev;
	struct call a;
	static struct job j;
	(void)state;

	other.name = "other";
	rig_params(&ep);
	ep.manual = false;
	struct cohort_engine *e = rig_engine(&ep);
	rig_job(&j, 1, 70, 1);
	struct cohort_request *r = rig_submit(e, &j);
	do
		assert_int_equal(cohort_request_next(r, -1, &ev, NULL), COHORT_OK);
	while (ev.kind != COHORT_EVENT_DONE);
	cohort_request_free(r);
	for (int i = 0; i < 2; i++) {
		a_while(); /* until it sleeps */
		if (i)
			cohort_engine_cache_clear(e);
		else
			assert_int_equal(cohort_engine_strategy_set(e, &other, NULL), COHORT_OK);
		a_while();
		begin(&a, e, NULL, run_errand);
		finish(&a);
		assert_string_equal(rig_stats(e).strategy, "other");
		assert_int_equal(rig_stats(e).last.n_blocks_cached, i ? 0 : 2);
	}
	cohort_engine_free(e);
}

/* ---- Ids ---- */

/* A table of blocks for each id: where contexts may be very long there are fewer ids than blocks, but 64 at least. */
static void few_ids(void **state)
{
	static const struct {
		int32_t n_train, n_ctx, n_ids;
	} cases[] = {{1 << 20, 1 << 18, (1 << 27) / ((1 << 15) + 1)}, {1 << 27, 1 << 14, 64}, {1 << 20, 1 << 10, 32}};
	(void)state;

	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct cohort_engine_params ep;
		struct cohort_synth_params sp;
		struct cohort_model *model = NULL;
		struct cohort_engine *e = NULL;
		struct cohort_err err;
		char path[TEMP_MAX];
		const int fd = mkstemp(temp_name(path, "edges"));
		assert_true(fd >= 0);
		close(fd);
		cohort_synth_params_init(&sp);
		sp.n_vocab = 300;
		sp.n_embd = 32;
		sp.n_layer = 1;
		sp.n_head = 2;
		sp.n_head_kv = 1;
		sp.n_ff = 32;
		sp.n_ctx = (uint32_t)cases[i].n_train;
		sp.type = "f16";
		sp.n_threads = 1;
		if (cohort_synth_write(path, &sp, &err) || cohort_model_open(path, NULL, &model, &err))
			fail_msg("%s", err.text);
		unlink(path);
		rig_params(&ep);
		ep.context.n_ctx = cases[i].n_ctx;
		ep.context.n_blocks = pool_blocks(ep.context.n_ctx, 0);
		if (cohort_engine_open(model, &ep, &e, &err))
			fail_msg("%s", err.text);
		assert_int_equal(engine_core(e)->lim.n_ids, cases[i].n_ids);
		cohort_engine_free(e);
		cohort_model_free(model);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
			cmocka_unit_test(in_turn),
			cmocka_unit_test(one_at_a_time),
			cmocka_unit_test(the_last_ends),
			cmocka_unit_test(a_long_tick),
			cmocka_unit_test(from_within),
			cmocka_unit_test(with_nothing),
			cmocka_unit_test(no_such_token),
			cmocka_unit_test(machine_itself),
			cmocka_unit_test_setup_teardown(other_models, arch_make_models, arch_remove_models),
			cmocka_unit_test(sleeping_engine_wakes_without_a_request),
			cmocka_unit_test(few_ids),
	};
	return cmocka_run_group_tests_name("engine_edges", tests, rig_set_up_random, rig_tear_down);
}
