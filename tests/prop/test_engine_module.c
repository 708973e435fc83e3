/* A strategy from a shared object drives an engine that runs: it is swapped in and out under a load that never ends
 * meanwhile, and its file is freed while the engine goes on without it. Every text is what it is alone.
 *
 * Shown red by planted faults: a strategy that is named only after its first tick
 * (named_strategy_outlives_its_plans), a strategy that is told when it is set and not when it takes over
 * (named_strategy_outlives_its_plans; now and then swapped dies in code that is gone), an example that takes the
 * longest prompt first (module_shortest_first_computes_shortest_prompt), and one whose rows have positions one too
 * high (fallbacks in both). */
#include "engine_said.h"
#include "guard.h"

int guard_left = 8; /* the loader keeps some */

static struct cohort_strategy_file *open_example(const struct cohort_strategy **s)
{
	struct cohort_strategy_file *file = NULL;
	struct cohort_err err;
	char path[1024];

	snprintf(path, sizeof path, "%s/strategy_shortest_first.so", env_or("COHORT_BUILD", "build"));
	if (cohort_strategy_open(path, "shortest-first", &file, s, &err))
		fail_msg("%s", err.text);
	return file;
}

/* Waits until the engine names the strategy, or has made so many ticks. */
static void wait_name(struct cohort_engine *e, const char *name)
{
	const double until = clock_now() + 60;

	while (strcmp(rig_stats(e).strategy, name) != 0) {
		assert_true(clock_now() < until);
		rig_sleep(0.0002);
	}
}

static void wait_ticks(struct cohort_engine *e, uint64_t n)
{
	const uint64_t n_ticks = rig_stats(e).n_ticks + n;
	const double until = clock_now() + 60;

	while (rig_stats(e).n_ticks < n_ticks) {
		assert_true(clock_now() < until);
		rig_sleep(0.0002);
	}
}

/* ---- Its own way ---- */

struct race {
	struct cohort_engine *e;
	atomic_bool open; /* the gate */
	int32_t n_behind[3]; /* when a prompt was done: rows that the longer ones have had */
	int n_first;
};

/* The engine's thread waits after its first tick until everybody is there. */
static void gate(const struct cohort_tick *t, void *user)
{
	struct race *race = user;

	while (t->tick == 1 && !atomic_load(&race->open))
		rig_sleep(0.0005);
}

static void first_token(struct cohort_request *r, const struct cohort_event *ev, void *user)
{
	struct race *race = user;
	struct cohort_slot_info infos[SAID_SLOTS];
	struct cohort_request_stats rs;

	if (ev->kind != COHORT_EVENT_TOKEN || ev->index > 0)
		return;
	cohort_request_stats_get(r, &rs);
	cohort_engine_slots_get(race->e, infos, SAID_SLOTS);
	for (int i = 0; i < SAID_SLOTS; i++)
		if (infos[i].request > 0 && infos[i].n_prompt > rs.n_prompt)
			race->n_behind[race->n_first] += infos[i].n_cached;
	expect(++race->n_first <= 3, "more first tokens than requests");
}

/* Three prompts come at once, the longest first, beside one that generates: the shortest is computed first, then the
 * next. A strategy that lets them take turns has more rows of the others by then. */
static void module_shortest_first_computes_shortest_prompt(void **state)
{
	static const int32_t lengths[3] = {180, 90, 45}; /* 15 rows of a tick are theirs */
	struct cohort_engine_params ep;
	static struct race race;
	struct job talk, j[3];
	struct cohort_request *r[3];
	const struct cohort_strategy *s;
	bool clean = false;

	(void)state;
	struct cohort_strategy_file *file = open_example(&s);
	said_params(&ep);
	ep.budget = 16;
	ep.strategy = s;
	ep.on_tick = gate;
	ep.on_tick_user = &race;
	race = (struct race){.e = rig_engine(&ep)};
	rig_job(&talk, 50, 1, 60);
	struct cohort_request *other = rig_submit(race.e, &talk);
	while (rig_stats(race.e).n_ticks == 0) /* or the first tick might have seen some of those that follow */
		rig_sleep(0.0002);
	for (int i = 0; i < 3; i++) {
		rig_job(&j[i], 51 + (uint64_t)i, lengths[i], 4);
		j[i].p.on_event = first_token;
		j[i].p.user = &race;
		r[i] = rig_submit(race.e, &j[i]);
	}
	atomic_store(&race.open, true);
	assert_int_equal(cohort_engine_drain(race.e, -1, &clean, NULL), COHORT_OK);
	assert_true(clean);
	assert_int_equal(race.n_first, 3);
	assert_int_equal(race.n_behind[0], 0);
	assert_true(race.n_behind[1] < 16);
	assert_int_equal(race.n_behind[2], 0); /* nobody is longer */
	rig_check(other, &talk);
	cohort_request_free(other);
	for (int i = 0; i < 3; i++) {
		rig_check(r[i], &j[i]);
		cohort_request_free(r[i]);
	}
	assert_string_equal(rig_stats(race.e).strategy, "shortest-first");
	assert_int_equal(rig_stats(race.e).n_fallbacks, 0);
	cohort_engine_free(race.e);
	cohort_strategy_file_free(file);
}

/* ---- In and out ---- */

struct load {
	struct thread thread;
	struct cohort_engine *e;
	uint64_t seed;
	atomic_bool *stop;
	int n_done;
};

/* Requests of all lengths, three at a time, until it is told to stop. */
static void load(void *arg)
{
	struct load *l = arg;
	struct cohort_request *r[3];
	int kinds[3];
	struct rng rng;

	rng_init(&rng, l->seed, 6);
	while (!atomic_load(l->stop)) {
		for (int i = 0; i < 3; i++) {
			kinds[i] = pick(&rng, 0, SAID_KINDS - 1);
			r[i] = said_submit(l->e, kinds[i]);
		}
		for (int i = 0; i < 3; i++) {
			bool done = false;
			expect(!cohort_request_wait(r[i], -1, &done, NULL) && done, "not done");
			said_check(r[i], kinds[i], COHORT_FINISH_NONE);
			cohort_request_free(r[i]);
			l->n_done++;
		}
	}
}

static void strategies_swapped_under_load(void **state)
{
	enum { N_LOADS = 3,
		ROUNDS = 6 };
	struct cohort_engine_params ep;
	struct load loads[N_LOADS];
	atomic_bool stop = false;
	bool clean = false;

	(void)state;
	said_params(&ep);
	struct cohort_engine *e = rig_engine(&ep);
	for (int i = 0; i < N_LOADS; i++) {
		loads[i] = (struct load){.e = e, .seed = (uint64_t)i, .stop = &stop};
		assert_true(thread_start(&loads[i].thread, "test", load, &loads[i]));
	}
	wait_ticks(e, 20);
	for (size_t round = 0; round < ROUNDS; round++) {
		const struct cohort_strategy *s, *back = cohort_strategy_get(round / 3);
		struct cohort_strategy_file *file = open_example(&s);
		assert_int_equal(cohort_engine_strategy_set(e, s, NULL), COHORT_OK);
		/* The third time it goes when it has hardly come, back to what the numbers named all the while. */
		if (round % 3 < 2) {
			wait_name(e, "shortest-first");
			wait_ticks(e, 20);
		}
		assert_int_equal(cohort_engine_strategy_set(e, round ? back : NULL, NULL), COHORT_OK);
		wait_name(e, back->name);
		cohort_strategy_file_free(file);
		wait_ticks(e, 20); /* without it */
	}
	atomic_store(&stop, true);
	uint64_t n_done = 0;
	for (int i = 0; i < N_LOADS; i++) {
		thread_join(&loads[i].thread);
		n_done += (uint64_t)loads[i].n_done;
	}
	assert_int_equal(cohort_engine_drain(e, -1, &clean, NULL), COHORT_OK);
	assert_true(clean);
	const struct cohort_engine_stats s = rig_stats(e);
	assert_int_equal(s.n_fallbacks, 0);
	assert_int_equal(s.n_ended[COHORT_FINISH_LENGTH], n_done);
	assert_int_equal(said_n_ended(&s), n_done);
	assert_true(n_done >= 3 * N_LOADS);
	rig_check_empty(e, SAID_SLOTS);
	cohort_engine_free(e);
}

/* ---- Its name ---- */

struct named {
	struct cohort_engine *e;
	int n_plans;
	const struct cohort_strategy *sound;
};

static enum cohort_status plan_named(const struct cohort_strategy *self, void *state, struct cohort_plan *plan)
{
	struct named *n = self->user;
	const struct cohort_engine_stats s = rig_stats(n->e);

	expect(strcmp(s.strategy, self->name) == 0, "it plans, and the numbers name another");
	n->n_plans++;
	return n->sound->build_batch(n->sound, state, plan);
}

/* The numbers name a strategy from before it plans for the first time until after the last: whoever swaps one out and
 * sees another's name may free it. */
static void named_strategy_outlives_its_plans(void **state)
{
	struct named n = {.sound = cohort_strategy_get(0)};
	const struct cohort_strategy s = {.struct_size = sizeof s,
			.name = "named",
			.about = "looks at the engine that asks",
			.state_bytes = n.sound->state_bytes,
			.user = &n,
			.build_batch = plan_named};
	struct cohort_engine_params ep;
	struct job j;

	(void)state;
	rig_params(&ep);
	n.e = rig_engine(&ep);
	rig_job(&j, 4, 20, 10);
	struct cohort_request *r = rig_submit(n.e, &j);
	rig_tick(n.e);
	for (int i = 0; i < 3; i++) {
		assert_int_equal(cohort_engine_strategy_set(n.e, &s, NULL), COHORT_OK);
		assert_string_equal(rig_stats(n.e).strategy, n.sound->name); /* until the next tick */
		rig_tick(n.e);
		rig_tick(n.e);
		assert_int_equal(n.n_plans, 2 * (i + 1));
		assert_int_equal(cohort_engine_strategy_set(n.e, NULL, NULL), COHORT_OK);
		assert_string_equal(rig_stats(n.e).strategy, "named");
		rig_tick(n.e);
		assert_string_equal(rig_stats(n.e).strategy, n.sound->name);
		assert_int_equal(n.n_plans, 2 * (i + 1));
	}
	rig_run(n.e);
	rig_check(r, &j);
	cohort_request_free(r);
	assert_int_equal(rig_stats(n.e).n_fallbacks, 0);
	cohort_engine_free(n.e);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
			cmocka_unit_test(module_shortest_first_computes_shortest_prompt),
			cmocka_unit_test(strategies_swapped_under_load),
			cmocka_unit_test(named_strategy_outlives_its_plans),
	};
	return cmocka_run_group_tests_name("engine_module", tests, said_set_up, rig_tear_down);
}
