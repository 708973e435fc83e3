/* Memory: every allocation of every call fails in turn, and the call says so, loses nothing and works the next time; a
 * tick of a warm engine allocates nothing at all.
 *
 * Shown red by planted faults: a request's prompt hashes that are not freed when its sampler cannot be opened
 * (submit_out_of_memory_at_every_point; under AddressSanitizer), a reader that counts a token as read before it has
 * its text (read_out_of_memory_goes_on), a strategy that is changed before its state is there
 * (strategy_set_out_of_memory_changes_nothing), an allocation in stream_end (warm_engine_allocates_nothing), one where
 * an embedding is pooled, where a stop string is looked for, where log-probabilities are noted and in a grammar's mask
 * (warm_kinds, each). */
#include "engine_rig.h"

#include "base/mem.h"

enum { TRIES_MAX = 2000 };

static void engine_open_out_of_memory_at_every_point(void **state)
{
	struct cohort_engine_params ep;
	struct cohort_err err;

	(void)state;
	for (int manual = 0; manual < 2; manual++) {
		struct cohort_engine *e = NULL;
		int n = 0;
		for (; n < TRIES_MAX; n++) {
			rig_params(&ep);
			ep.manual = manual;
			ep.keep_tokens = true;
			ep.context.n_threads = 2;
			mem_fail_after(n);
			const enum cohort_status st = cohort_engine_open(rig_model, &ep, &e, &err);
			mem_fail_after(-1);
			if (st == COHORT_OK)
				break;
			assert_int_equal(st, COHORT_E_MEMORY);
			assert_int_equal(err.status, COHORT_E_MEMORY);
			assert_null(e);
		}
		assert_true(n > 20 && n < TRIES_MAX);
		cohort_engine_free(e);
	}
}

/* A request with some of everything that takes memory. */
static void rich_job(struct job *j, uint64_t seed)
{
	static const struct cohort_logit_bias bias = {7, 0.5f};
	static const char *const stops[] = {"zzzz", "\xc3"};

	rig_job(j, seed, 40, 6);
	j->p.n_outputs = 2;
	j->p.n_logprobs = 2;
	j->p.prompt_logprobs = true;
	j->p.stops = stops;
	j->p.n_stops = 2;
	j->stop_tokens[0] = 299;
	j->p.stop_tokens = j->stop_tokens;
	j->p.n_stop_tokens = 1;
	j->p.sampler.repeat_penalty = 1.1f;
	j->p.sampler.bias = &bias;
	j->p.sampler.n_bias = 1;
	j->p.client = seed; /* one more for the queue to know */
}

static void submit_out_of_memory_at_every_point(void **state)
{
	struct cohort_engine_params ep;
	struct cohort_err err;
	struct job j;

	(void)state;
	rig_params(&ep);
	struct cohort_engine *e = rig_engine(&ep);
	int n_failed = 0;
	for (uint64_t round = 0; round < 40; round++) { /* the queue's tables grow on the way */
		struct cohort_request *r = NULL;
		rich_job(&j, round);
		for (int n = 0; !r; n++) {
			assert_true(n < TRIES_MAX);
			mem_fail_after(n);
			const enum cohort_status st = cohort_engine_submit(e, &j.p, &r, &err);
			mem_fail_after(-1);
			assert_true((st == COHORT_OK) == (r != NULL));
			if (st) {
				assert_int_equal(st, COHORT_E_MEMORY);
				assert_int_equal(err.status, COHORT_E_MEMORY);
				n_failed++;
			}
		}
		if (round % 8 == 7) {
			rig_run(e);
			rig_check(r, &j);
		}
		cohort_request_free(r);
	}
	rig_run(e);
	rig_check_empty(e, 4);
	assert_int_equal(rig_stats(e).n_submitted, 40);
	assert_true(n_failed > 40 * 10);
	cohort_engine_free(e);
}

/* Reading fails with every allocation, and then goes on where it was. */
static void read_out_of_memory_goes_on(void **state)
{
	struct cohort_engine_params ep;
	struct cohort_event ev;
	struct cohort_output o;
	struct cohort_err err;
	char text[512];
	struct job j;
	int n_failed = 0;

	(void)state;
	rig_params(&ep);
	struct cohort_engine *e = rig_engine(&ep);
	rig_job(&j, 3, 10, 40);
	for (int whole = 0; whole < 2; whole++) {
		struct cohort_request *r = rig_submit(e, &j);
		size_t n_bytes = 0;
		int32_t n_tokens = 0;
		rig_run(e);
		for (int n = 0; whole; n++) {
			mem_fail_after(n);
			const enum cohort_status st = cohort_request_output_get(r, 0, &o, &err);
			mem_fail_after(-1);
			if (!st)
				break;
			assert_int_equal(st, COHORT_E_MEMORY);
			n_failed++;
		}
		for (;;) {
			/* In a new text the first allocation is soon asked for again and again. */
			mem_fail_after(0);
			enum cohort_status st = cohort_request_next(r, 0, &ev, &err);
			mem_fail_after(-1);
			if (st) {
				assert_int_equal(st, COHORT_E_MEMORY);
				n_failed++;
				assert_int_equal(cohort_request_next(r, 0, &ev, &err), COHORT_OK);
			}
			if (ev.kind == COHORT_EVENT_DONE)
				break;
			assert_true(ev.kind == COHORT_EVENT_TOKEN || ev.kind == COHORT_EVENT_END);
			assert_true(ev.kind != COHORT_EVENT_TOKEN || ev.index == n_tokens++);
			assert_true(n_bytes + ev.n_bytes <= sizeof text);
			memcpy(text + n_bytes, ev.text, ev.n_bytes);
			n_bytes += ev.n_bytes;
		}
		assert_int_equal(n_tokens, 40);
		rig_check(r, &j);
		assert_int_equal(cohort_request_output_get(r, 0, &o, NULL), COHORT_OK);
		assert_int_equal(o.n_bytes, n_bytes);
		assert_memory_equal(o.text, text, n_bytes);
		cohort_request_free(r);
	}
	assert_true(n_failed > 2);
	cohort_engine_free(e);
}

static void strategy_set_out_of_memory_changes_nothing(void **state)
{
	struct cohort_engine_params ep;
	struct cohort_err err;
	struct job j;

	(void)state;
	rig_params(&ep);
	struct cohort_engine *e = rig_engine(&ep);
	rig_job(&j, 3, 10, 8);
	struct cohort_request *r = rig_submit(e, &j);
	for (size_t i = 0; i < 6; i++) {
		const struct cohort_strategy *s = cohort_strategy_get((i + 1) % 3);
		const char *before = rig_stats(e).strategy;
		mem_fail_all(true);
		assert_int_equal(cohort_engine_strategy_set(e, s, &err), COHORT_E_MEMORY);
		mem_fail_all(false);
		rig_tick(e);
		assert_string_equal(rig_stats(e).strategy, before);
		assert_int_equal(cohort_engine_strategy_set(e, s, &err), COHORT_OK);
		/* And another before the first was taken up. */
		assert_int_equal(cohort_engine_strategy_set(e, s, &err), COHORT_OK);
		rig_tick(e);
		assert_string_equal(rig_stats(e).strategy, s->name);
	}
	rig_run(e);
	rig_check(r, &j);
	cohort_request_free(r);
	/* One that is never taken up is not lost either. */
	assert_int_equal(cohort_engine_strategy_set(e, cohort_strategy_get(1), &err), COHORT_OK);
	cohort_engine_free(e);
}

/* Admission, reuse, forks, generation, callbacks, time limits, cancels, ends, eviction, parking without swap: none of
 * it allocates once the requests are there. */
static void never(struct cohort_request *r, const struct cohort_event *e, void *user)
{
	int32_t *n = user;

	(void)r;
	*n += e->kind == COHORT_EVENT_TOKEN;
}

static void warm_engine_allocates_nothing(void **state)
{
	enum { N = 48 };
	struct cohort_engine_params ep;
	struct cohort_request *r[N];
	static struct job j[N];
	int32_t n_called = 0;

	(void)state;
	for (int room = COHORT_ROOM_RESERVE; room <= COHORT_ROOM_OVERCOMMIT; room++) {
		rig_params(&ep);
		ep.room = (enum cohort_room)room;
		ep.context.n_ctx = 256;
		ep.context.n_blocks = pool_blocks(ep.context.n_ctx, 0);
		ep.context.n_threads = 2;
		struct cohort_engine *e = rig_engine(&ep);
		n_called = 0;
		for (int pass = 0; pass < 2; pass++) {
			for (int i = 0; i < N; i++) {
				rig_job(&j[i], (uint64_t)i % 7, 20 + i, 5 + i % 9);
				j[i].p.n_outputs = 1 + i % 3;
				j[i].p.session = (uint64_t)i % 4;
				j[i].p.salt = (uint64_t)i % 2;
				j[i].p.client = (uint64_t)i % 5;
				j[i].p.priority = i % 2;
				j[i].p.n_logprobs = i % 4 - 1;
				j[i].p.prompt_logprobs = i % 8 == 0;
				j[i].p.total_limit_s = i % 11 == 10 ? 1e-6 : 0;
				j[i].p.sampler.repeat_penalty = 1.1f;
				if (i % 5 == 0) {
					j[i].p.on_event = never;
					j[i].p.user = &n_called;
				}
				r[i] = rig_submit(e, &j[i]);
			}
			cohort_request_cancel(r[3]);
			if (pass)
				mem_fail_all(true);
			const uint64_t n_before = mem_count();
			int n_ticks = 0;
			while (!rig_tick(e))
				if (++n_ticks == 40)
					cohort_request_cancel(r[N - 1]);
			const uint64_t n_after = mem_count();
			mem_fail_all(false);
			if (pass)
				assert_int_equal(n_after, n_before);
			for (int i = 0; i < N; i++) {
				const enum cohort_finish finish = rig_output(r[i], 0).finish;
				if (finish == COHORT_FINISH_LENGTH)
					rig_check(r[i], &j[i]);
				else
					assert_true(finish == COHORT_FINISH_TIMEOUT ||
							finish == COHORT_FINISH_CANCELLED);
				cohort_request_free(r[i]);
			}
		}
		const struct cohort_engine_stats s = rig_stats(e);
		assert_true(s.n_evicted > 0 && s.n_cached_tokens > 0 && n_called > 0);
		assert_true(s.n_ended[COHORT_FINISH_LENGTH] > 60 && s.n_ended[COHORT_FINISH_CANCELLED] > 0);
		assert_true(room == COHORT_ROOM_RESERVE || s.n_parked > 0);
		rig_check_empty(e, 4);
		cohort_engine_free(e);
	}
}

/* ---- Warm ticks of every kind of request ---- */

enum kind { BY_GBNF, BY_SCHEMA, BY_STOPS, BY_LOGPROBS, BY_CHAIN, EMBEDS, N_KINDS };

/* What a kind needs from outside. */
struct tools {
	struct cohort_lexicon *lexicon;
	struct cohort_grammar *gbnf, *schema;
};

static void open_tools(struct tools *t)
{
	static const char gbnf[] = "root ::= (\"(\" [a-z0-9]* \")\" | [^()]+ | \"[\" root? \"]\")+";
	static const char schema[] =
			"{\"type\":\"object\",\"properties\":{\"name\":{\"type\":\"string\"},\"n\":{\"type\":"
			"\"integer\"},\"list\":{\"type\":\"array\",\"items\":{\"type\":\"string\"}}},"
			"\"required\":[\"name\"],\"additionalProperties\":false}";

	assert_int_equal(cohort_lexicon_open(rig_model, &t->lexicon, NULL), COHORT_OK);
	assert_int_equal(cohort_grammar_open(t->lexicon, gbnf, strlen(gbnf), NULL, &t->gbnf, NULL), COHORT_OK);
	assert_int_equal(cohort_grammar_open_schema(t->lexicon, schema, strlen(schema), &t->schema, NULL), COHORT_OK);
}

static void free_tools(struct tools *t)
{
	cohort_grammar_free(t->gbnf);
	cohort_grammar_free(t->schema);
	cohort_lexicon_free(t->lexicon);
}

static void kind_job(struct job *j, const struct tools *t, enum kind kind, uint64_t seed)
{
	static const char *const stops[] = {"zzzz", "b", "a", "\xc3\xa9", "be", "ce ba"};
	static const enum cohort_pooling poolings[] = {COHORT_POOL_MEAN, COHORT_POOL_CLS, COHORT_POOL_LAST};
	static const char *const breakers[] = {"\n", ":"};

	const int32_t i = (int32_t)(seed / N_KINDS); /* of its kind */

	rig_job(j, seed, 10 + i * 7 % 50, 20);
	j->p.n_outputs = 1 + i % 2;
	j->p.sampler.temperature = 1.5f;
	switch (kind) {
	case BY_GBNF: j->p.sampler.grammar = t->gbnf; break;
	case BY_SCHEMA:
		j->p.sampler.grammar = t->schema;
		j->p.ignore_eos = false; /* documents have an end */
		break;
	case BY_STOPS:
		j->p.stops = stops;
		j->p.n_stops = 1 + i % 6;
		break;
	case BY_LOGPROBS:
		j->p.n_logprobs = i % (JOB_TOP + 1);
		j->p.prompt_logprobs = i % 2;
		break;
	case BY_CHAIN: /* whatever a sampler may remember */
		j->p.sampler.repeat_penalty = 1.2f;
		j->p.sampler.dry_multiplier = 0.8f;
		j->p.sampler.dry_breakers = breakers;
		j->p.sampler.n_dry_breakers = 2;
		j->p.sampler.lexicon = t->lexicon;
		break;
	default:
		j->p.task = COHORT_TASK_EMBED;
		j->p.pooling = poolings[i % 3];
		j->p.n_outputs = 1;
	}
}

static void check_kind(struct cohort_request *r, const struct job *j)
{
	if (j->p.task == COHORT_TASK_GENERATE) {
		rig_check(r, j);
		return;
	}
	struct cohort_event ev;
	assert_int_equal(rig_output(r, 0).finish, COHORT_FINISH_EMBEDDED);
	assert_int_equal(cohort_request_next(r, 0, &ev, NULL), COHORT_OK);
	assert_int_equal(ev.kind, COHORT_EVENT_EMBEDDING);
}

/* Ticks in which prompts, embeddings, and tokens under every kind of rule meet. Requests of the second pass are others
 * than those of the first: what is warm is the engine, not the answer. */
static void warm_kinds(void **state)
{
	enum { N = 6 * N_KINDS };
	struct cohort_engine_params ep;
	struct cohort_request *r[N];
	static struct job j[N];
	struct tools t;
	int n_stopped = 0;

	(void)state;
	open_tools(&t);
	rig_params(&ep);
	ep.context.outputs = COHORT_OUTPUT_LOGITS | COHORT_OUTPUT_EMBEDDINGS;
	ep.context.n_threads = 2;
	ep.context.n_ctx = 320;
	ep.context.n_blocks = pool_blocks(ep.context.n_ctx, 0);
	struct cohort_engine *e = rig_engine(&ep);
	for (int pass = 0; pass < 3; pass++) {
		for (int i = 0; i < N; i++) {
			kind_job(&j[i], &t, (enum kind)(i % N_KINDS), (uint64_t)(pass * N + i));
			r[i] = rig_submit(e, &j[i]);
		}
		mem_fail_all(pass > 0);
		const uint64_t n_before = mem_count();
		rig_run(e);
		const uint64_t n_after = mem_count();
		mem_fail_all(false);
		if (pass)
			assert_int_equal(n_after, n_before);
		for (int i = 0; i < N; i++) {
			check_kind(r[i], &j[i]);
			n_stopped += rig_output(r[i], 0).finish == COHORT_FINISH_STOP;
			cohort_request_free(r[i]);
		}
	}
	const struct cohort_engine_stats s = rig_stats(e);
	assert_int_equal(s.n_ended[COHORT_FINISH_ERROR], 0);
	assert_true(n_stopped > 0 && s.n_ended[COHORT_FINISH_EMBEDDED] == 3 * N / N_KINDS);
	rig_check_empty(e, 4);
	cohort_engine_free(e);
	free_tools(&t);
}

/* Parking to memory asks for memory; without it the stream is computed again. */
static void swap_without_memory(void **state)
{
	enum { N = 6 };
	struct cohort_engine_params ep;
	struct cohort_request *r[N];
	static struct job j[N];

	(void)state;
	for (int fails = 0; fails < 2; fails++) {
		rig_params(&ep);
		ep.room = COHORT_ROOM_OVERCOMMIT;
		ep.swap_bytes = (size_t)1 << 22;
		ep.context.n_ctx = 160;
		ep.context.n_blocks = pool_blocks(ep.context.n_ctx, 0);
		struct cohort_engine *e = rig_engine(&ep);
		for (int i = 0; i < N; i++) {
			rig_job(&j[i], (uint64_t)i, 30, 50);
			r[i] = rig_submit(e, &j[i]);
		}
		mem_fail_all(fails);
		while (!rig_tick(e))
			;
		mem_fail_all(false);
		assert_true(rig_stats(e).n_parked > 0);
		assert_true((rig_stats(e).n_swapped > 0) == !fails);
		for (int i = 0; i < N; i++) {
			rig_check(r[i], &j[i]);
			cohort_request_free(r[i]);
		}
		rig_check_empty(e, 4);
		cohort_engine_free(e);
	}
}

/* A text with stop strings that is longer than usual: it takes memory as it grows, while a reader looks at what it was
 * told; without memory its output ends, and what was said before stays. Seen red with a buffer that is not copied into
 * the longer one, and with a failure that is not looked at. */
static void text_outgrows_its_memory(void **state)
{
	enum { N = 60 };
	static const char *const stops[] = {"never said"};
	struct cohort_model_info info = {.struct_size = sizeof info};
	struct cohort_logit_bias bias = {.bias = 1000};
	struct cohort_engine_params ep;
	struct cohort_event ev[N];
	struct cohort_output o;
	size_t n, n_longest = 0;
	const char *word = "";
	struct job j;

	struct cohort_model *const random = rig_model;
	(void)state;
	rig_model = engine_model(); /* it has long words */
	cohort_model_info_get(rig_model, &info);
	for (cohort_token t = 0; t < info.n_vocab; t++) {
		const char *s = cohort_token_bytes(rig_model, t, false, &n);
		if (n > n_longest) {
			n_longest = n;
			word = s;
			bias.token = t;
		}
	}
	assert_true(n_longest > 8);
	rig_params(&ep);
	struct cohort_engine *e = rig_engine(&ep);
	for (int fails = 0; fails < 2; fails++) {
		rig_job(&j, 3, 10, N);
		j.p.stops = stops;
		j.p.n_stops = 1;
		j.p.sampler.bias = &bias;
		j.p.sampler.n_bias = 1;
		struct cohort_request *r = rig_submit(e, &j);
		int32_t n_tokens = 0;
		mem_fail_all(fails);
		for (bool idle = false; !idle;) {
			idle = rig_tick(e);
			while (n_tokens < N && !cohort_request_next(r, 0, &ev[n_tokens], NULL) &&
					ev[n_tokens].kind == COHORT_EVENT_TOKEN)
				n_tokens++;
		}
		mem_fail_all(false);
		assert_true(fails ? n_tokens > 8 && n_tokens < N : n_tokens == N);
		for (int32_t i = 0; i < n_tokens; i++) { /* all of them are where they were */
			assert_int_equal(ev[i].n_bytes, n_longest);
			assert_memory_equal(ev[i].text, word, n_longest);
		}
		assert_int_equal(cohort_request_output_get(r, 0, &o, NULL), COHORT_OK);
		assert_int_equal(o.n_bytes, (size_t)n_tokens * n_longest);
		assert_int_equal(o.finish, fails ? COHORT_FINISH_ERROR : COHORT_FINISH_LENGTH);
		assert_true(!fails || o.error->status == COHORT_E_MEMORY);
		cohort_request_free(r);
	}
	rig_check_empty(e, 4);
	cohort_engine_free(e);
	cohort_model_free(rig_model);
	rig_model = random;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
			cmocka_unit_test(engine_open_out_of_memory_at_every_point),
			cmocka_unit_test(submit_out_of_memory_at_every_point),
			cmocka_unit_test(read_out_of_memory_goes_on),
			cmocka_unit_test(strategy_set_out_of_memory_changes_nothing),
			cmocka_unit_test(warm_engine_allocates_nothing),
			cmocka_unit_test(warm_kinds),
			cmocka_unit_test(swap_without_memory),
			cmocka_unit_test(text_outgrows_its_memory),
	};
	return cmocka_run_group_tests_name("engine_memory", tests, rig_set_up_random, rig_tear_down);
}
