/* Rows of the table of refusals: strategies, engines, requests and their parameters, cached prompts, simulations. What
 * a full queue and a full cache refuse is in tests/prop/test_engine_api.c. */
#include "refuse_case.h"

#include <float.h>

static struct cohort_engine *engine; /* manual: two slots, logits alone */

static void engine_params(struct cohort_engine_params *p)
{
	cohort_engine_params_init(p);
	p->n_slots = 2;
	p->context.n_ctx = REFUSE_CTX;
	p->context.n_threads = 1;
	p->manual = true;
}

static void request_params(struct cohort_request_params *p)
{
	cohort_request_params_init(p);
	p->prompt = w.tokens;
	p->n_prompt = 4;
	p->max_tokens = 1;
}

static void start(void)
{
	struct cohort_engine_params p;

	engine_params(&p);
	p.keep_tokens = true;
	assert_int_equal(cohort_engine_open(w.model, &p, &engine, NULL), COHORT_OK);
}

static void run(void)
{
	for (bool idle = false; !idle;)
		assert_int_equal(cohort_engine_tick(engine, &idle, NULL), COHORT_OK);
}

/* ---- Strategies ---- */

void refuse_strategies(void **state)
{
	const struct cohort_strategy *s = NULL;
	struct cohort_strategy_file *file = NULL;
	const char *build = getenv("COHORT_BUILD");
	char path[1024];

	(void)state;
	snprintf(path, sizeof path, "%s/strategy_shortest_first.so", build ? build : "build");
	GIVES(cohort_strategy_count, _, () > 0, true);
	GIVES(cohort_strategy_get, _, (0) != NULL, true);
	GIVES(cohort_strategy_get, _, (cohort_strategy_count() - 1) != NULL, true);
	GIVES(cohort_strategy_get, _, (cohort_strategy_count()), NULL);
	GIVES(cohort_strategy_find, _, (NULL), NULL);
	GIVES(cohort_strategy_find, _, ("none"), NULL);
	IS_NULL(cohort_strategy_open, (NULL, "shortest-first", &file, &s, err), "path is NULL");
	IS_NULL(cohort_strategy_open, (path, "shortest-first", NULL, &s, err), "file is NULL");
	IS_NULL(cohort_strategy_open, (path, "shortest-first", &file, NULL, err), "out is NULL");
	PASSES_AND(cohort_strategy_open, _, (path, NULL, &file, &s, err), cohort_strategy_file_free(file));
	NOTHING(cohort_strategy_file_free, (NULL));
	refuse_end();
}

/* ---- Engines ---- */

static void open_params(void)
{
	struct cohort_engine_params p;
	struct cohort_engine *e = NULL;

	/* Where a field is at an end of its range, it is outputs that are refused, which are looked at last. */
#define BAD(field, value, bound) \
	do { \
		engine_params(&p); \
		p.field = (value); \
		REFUSED(cohort_engine_open, params, (w.model, &p, &e, err), COHORT_E_ARG, #field, -1, -1, bound, \
				(int64_t)(bound == -1 ? 0 : (value))); \
	} while (0)
#define GOOD(field, value) \
	do { \
		engine_params(&p); \
		p.field = (value); \
		p.context.outputs = 4; \
		REFUSED(cohort_engine_open, params, (w.model, &p, &e, err), COHORT_E_ARG, NULL, -1, -1, 0, 0); \
	} while (0)
	BAD(n_slots, 0, 1);
	GOOD(n_slots, 1);
	GOOD(n_slots, 65536);
	BAD(n_slots, 65537, 65536);
	GOOD(budget, 0);
	GOOD(budget, 512);
	BAD(budget, 513, 512);
	GOOD(chunk_size, 1);
	GOOD(chunk_size, INT32_MAX);
	BAD(chunk_size, 0, 1);
	GOOD(queue_requests_max, 1);
	GOOD(queue_requests_max, INT32_MAX);
	BAD(queue_requests_max, 0, 1);
	GOOD(queue_tokens_max, 1);
	GOOD(queue_tokens_max, INT64_MAX);
	BAD(queue_tokens_max, 0, 1);
	GOOD(room, COHORT_ROOM_OVERCOMMIT);
	BAD(room, (enum cohort_room)2, 1);
	GOOD(wait_max_s, 0);
	GOOD(wait_max_s, (double)INFINITY);
	engine_params(&p);
	p.budget = -1;
	REFUSED(cohort_engine_open, params, (w.model, &p, &e, err), COHORT_E_ARG, "budget", -1, -1, 0, -1);
	p.budget = 0;
	p.wait_max_s = -DBL_MIN;
	REFUSED(cohort_engine_open, params, (w.model, &p, &e, err), COHORT_E_ARG, "wait_max_s", -1, -1, 0, 0);
	p.wait_max_s = (double)NAN;
	REFUSED(cohort_engine_open, params, (w.model, &p, &e, err), COHORT_E_ARG, "wait_max_s", -1, -1, 0, 0);
	assert_null(e);
#undef BAD
#undef GOOD
}

void refuse_engines(void **state)
{
	struct cohort_engine_params p;
	struct cohort_engine *e = NULL;
	struct cohort_slot_info slots[2];
	bool flag;

	(void)state;
	NOTHING(cohort_engine_params_init, (NULL));
	engine_params(&p);
	IS_NULL(cohort_engine_open, (NULL, &p, &e, err), "model is NULL");
	IS_NULL(cohort_engine_open, (w.model, &p, NULL, err), "out is NULL");
	open_params();
	/* An engine with a thread, which can be drained and not ticked. */
	PASSES_AND(cohort_engine_open, _, (w.model, NULL, &e, err), cohort_engine_free(e));
	p.manual = false;
	assert_int_equal(cohort_engine_open(w.model, &p, &e, NULL), COHORT_OK);
	PASSES(cohort_engine_drain, _, (e, 0, NULL, err));
	PASSES(cohort_engine_drain, timeout_s, (e, -(double)INFINITY, &flag, err));
	REFUSED(cohort_engine_drain, timeout_s, (e, (double)NAN, &flag, err), COHORT_E_ARG, "timeout_s", -1, -1, 0, 0);
	REFUSED(cohort_engine_tick, engine, (e, &flag, err), COHORT_E_ARG, NULL, -1, -1, 0, 0);
	cohort_engine_free(e);
	start();
	IS_NULL(cohort_engine_drain, (NULL, 0, &flag, err), "engine is NULL");
	NOTHING(cohort_engine_free, (NULL));
	IS_NULL(cohort_engine_tick, (NULL, &flag, err), "engine is NULL");
	PASSES(cohort_engine_tick, _, (engine, NULL, err));
	IS_NULL(cohort_engine_strategy_set, (NULL, cohort_strategy_get(0), err), "engine is NULL");
	PASSES(cohort_engine_strategy_set, _, (engine, NULL, err));
	NOTHING(cohort_engine_cache_clear, (NULL));
	NOTHING(cohort_engine_stats_get, (NULL, &(struct cohort_engine_stats){0}));
	NOTHING(cohort_engine_stats_get, (engine, NULL));
	GIVES(cohort_engine_slots_get, _, (NULL, slots, 2), 0);
	GIVES(cohort_engine_slots_get, _, (engine, NULL, 0), 2);
	GIVES(cohort_engine_slots_get, _, (engine, NULL, 2), 2);
	cohort_engine_free(engine);
	refuse_end();
}

/* ---- Requests ---- */

static void submit_params(void)
{
	static cohort_token stop_tokens[COHORT_STOPS_MAX + 1], many[REFUSE_CTX];
	static char longest[COHORT_STOP_BYTES_MAX + 2];
	const char *stops[COHORT_STOPS_MAX + 1];
	struct cohort_request_params p;
	struct cohort_request *r = NULL;

	memset(longest, 'x', COHORT_STOP_BYTES_MAX + 1);
	for (size_t i = 0; i <= COHORT_STOPS_MAX; i++)
		stops[i] = longest + 1;
#define REQUEST(...) \
	do { \
		request_params(&p); \
		p.stop_tokens = stop_tokens; \
		p.stops = stops; \
		__VA_ARGS__; \
	} while (0)
#define BAD(field, value, bound) \
	do { \
		REQUEST(p.field = (value)); \
		REFUSED(cohort_engine_submit, params, (engine, &p, &r, err), COHORT_E_ARG, #field, -1, -1, bound, \
				value); \
	} while (0)
#define GOOD(...) \
	do { \
		REQUEST(__VA_ARGS__); \
		PASSES_AND(cohort_engine_submit, params, (engine, &p, &r, err), { \
			run(); \
			cohort_request_free(r); \
		}); \
	} while (0)
	BAD(task, (enum cohort_task)2, 1);
	BAD(n_prompt, 0, 1);
	GOOD(p.n_prompt = 1);
	BAD(n_outputs, 0, 1);
	BAD(n_outputs, COHORT_OUTPUTS_MAX + 1, COHORT_OUTPUTS_MAX);
	GOOD(p.n_outputs = 2); /* the slots */
	REQUEST(p.n_outputs = 3);
	REFUSED(cohort_engine_submit, params, (engine, &p, &r, err), COHORT_E_LIMIT, "slots", -1, -1, 2, 3);
	REQUEST(p.n_outputs = COHORT_OUTPUTS_MAX);
	REFUSED(cohort_engine_submit, params, (engine, &p, &r, err), COHORT_E_LIMIT, "slots", -1, -1, 2,
			COHORT_OUTPUTS_MAX);
	BAD(max_tokens, -2, -1);
	GOOD(p.max_tokens = -1);
	GOOD(p.max_tokens = 0);
	BAD(n_logprobs, -2, -1);
	BAD(n_logprobs, COHORT_TOP_MAX + 1, COHORT_TOP_MAX);
	GOOD(p.n_logprobs = 0);
	GOOD(p.n_logprobs = COHORT_TOP_MAX);
	BAD(n_stop_tokens, -1, 0);
	BAD(n_stop_tokens, COHORT_STOPS_MAX + 1, COHORT_STOPS_MAX);
	GOOD(p.n_stop_tokens = COHORT_STOPS_MAX);
	BAD(n_stops, -1, 0);
	BAD(n_stops, COHORT_STOPS_MAX + 1, COHORT_STOPS_MAX);
	GOOD(p.n_stops = COHORT_STOPS_MAX); /* of COHORT_STOP_BYTES_MAX bytes each */
	stops[1] = longest;
	REQUEST(p.n_stops = 2);
	REFUSED(cohort_engine_submit, params, (engine, &p, &r, err), COHORT_E_ARG, "stops", 1, -1,
			COHORT_STOP_BYTES_MAX, COHORT_STOP_BYTES_MAX + 1);
	stops[1] = "";
	REFUSED(cohort_engine_submit, params, (engine, &p, &r, err), COHORT_E_ARG, "stops", 1, -1, 1, 0);
	GOOD(p.priority = INT32_MIN);
	GOOD(p.priority = INT32_MAX);
	GOOD(p.client = UINT64_MAX, p.session = UINT64_MAX, p.salt = UINT64_MAX);
	/* Prompt and continuation together: what the cache holds. */
	GOOD(p.prompt = many, p.n_prompt = REFUSE_CTX - 1);
	REQUEST(p.prompt = many, p.n_prompt = REFUSE_CTX - 1, p.max_tokens = 2);
	REFUSED(cohort_engine_submit, params, (engine, &p, &r, err), COHORT_E_LIMIT, "context", -1, -1, REFUSE_CTX,
			REFUSE_CTX + 1);
#define LIMIT_S(field) \
	do { \
		GOOD(p.field = 0); \
		GOOD(p.field = (double)INFINITY); \
		REQUEST(p.field = -DBL_MIN); \
		REFUSED(cohort_engine_submit, params, (engine, &p, &r, err), COHORT_E_ARG, #field, -1, -1, 0, 0); \
		REQUEST(p.field = (double)NAN); \
		REFUSED(cohort_engine_submit, params, (engine, &p, &r, err), COHORT_E_ARG, #field, -1, -1, 0, 0); \
	} while (0)
	LIMIT_S(queue_limit_s);
	LIMIT_S(prefill_limit_s);
	LIMIT_S(decode_limit_s);
	LIMIT_S(total_limit_s);
	/* Pointers of the struct. */
	REQUEST(p.prompt = NULL);
	IS_NULL(cohort_engine_submit, (engine, &p, &r, err), "prompt is NULL");
	REQUEST(p.stop_tokens = NULL, p.n_stop_tokens = 1);
	IS_NULL(cohort_engine_submit, (engine, &p, &r, err), "stop_tokens is NULL");
	REQUEST(p.stops = NULL, p.n_stops = 1);
	IS_NULL(cohort_engine_submit, (engine, &p, &r, err), "stop strings: no list for 1 of them");
	/* Of the sampler, too. */
	REQUEST(p.sampler.top_p = -1);
	REFUSED(cohort_engine_submit, params, (engine, &p, &r, err), COHORT_E_ARG, "top_p", -1, -1, 0, 0);
#undef BAD
#undef GOOD
}

static void read_requests(void)
{
	struct cohort_request_params p;
	struct cohort_request *r = NULL;
	struct cohort_output output;
	struct cohort_event event;
	bool done;

	request_params(&p);
	assert_int_equal(cohort_engine_submit(engine, &p, &r, NULL), COHORT_OK);
	NOTHING(cohort_request_cancel, (NULL));
	NOTHING(cohort_request_free, (NULL));
	IS_NULL(cohort_request_next, (NULL, 0, &event, err), "request is NULL");
	IS_NULL(cohort_request_next, (r, 0, NULL, err), "event is NULL");
	REFUSED(cohort_request_next, timeout_s, (r, (double)NAN, &event, err), COHORT_E_ARG, "timeout_s", -1, -1, 0, 0);
	PASSES(cohort_request_next, timeout_s, (r, 0, &event, err));
	IS_NULL(cohort_request_wait, (NULL, 0, &done, err), "request is NULL");
	PASSES(cohort_request_wait, _, (r, 0, NULL, err));
	REFUSED(cohort_request_wait, timeout_s, (r, (double)NAN, &done, err), COHORT_E_ARG, "timeout_s", -1, -1, 0, 0);
	run();
	IS_NULL(cohort_request_output_get, (NULL, 0, &output, err), "request is NULL");
	IS_NULL(cohort_request_output_get, (r, 0, NULL, err), "output is NULL");
	REFUSED(cohort_request_output_get, i, (r, -1, &output, err), COHORT_E_ARG, "output", -1, -1, 1, -1);
	REFUSED(cohort_request_output_get, i, (r, 1, &output, err), COHORT_E_ARG, "output", -1, -1, 1, 1);
	PASSES(cohort_request_output_get, i, (r, 0, &output, err));
	NOTHING(cohort_request_stats_get, (NULL, &(struct cohort_request_stats){0}));
	NOTHING(cohort_request_stats_get, (r, NULL));
	cohort_request_free(r);
}

void refuse_requests(void **state)
{
	struct cohort_request_params p;
	struct cohort_request *r = NULL;

	(void)state;
	start();
	NOTHING(cohort_request_params_init, (NULL));
	request_params(&p);
	IS_NULL(cohort_engine_submit, (NULL, &p, &r, err), "engine is NULL");
	IS_NULL(cohort_engine_submit, (engine, NULL, &r, err), "params is NULL");
	IS_NULL(cohort_engine_submit, (engine, &p, NULL, err), "out is NULL");
	submit_params();
	read_requests();
	GIVES(cohort_finish_name, finish, (COHORT_FINISH_SHUTDOWN) != NULL, true);
	GIVES(cohort_finish_name, finish, ((enum cohort_finish)(COHORT_FINISH_SHUTDOWN + 1)) != NULL, true);
	cohort_engine_free(engine);
	refuse_end();
}

/* ---- Cached prompts ---- */

void refuse_caches(void **state)
{
	cohort_token tokens[REFUSE_CTX];
	struct cohort_cache_key key = {.tokens = tokens, .n_tokens = 40}, kept, bad;
	struct cohort_request_params p;
	struct cohort_request *r;
	void *bytes = NULL;
	size_t n_bytes;
	int32_t n;

	(void)state;
	for (int i = 0; i < REFUSE_CTX; i++)
		tokens[i] = i % 7 + 1;
	start();
	request_params(&p);
	p.prompt = tokens;
	p.n_prompt = 40;
	assert_int_equal(cohort_engine_submit(engine, &p, &r, NULL), COHORT_OK);
	run();
	cohort_request_free(r);
	run();
	IS_NULL(cohort_engine_cache_save, (NULL, &key, &bytes, &n_bytes, &n, err), "engine is NULL");
	IS_NULL(cohort_engine_cache_save, (engine, NULL, &bytes, &n_bytes, &n, err), "key is NULL");
	IS_NULL(cohort_engine_cache_save, (engine, &key, NULL, &n_bytes, &n, err), "bytes is NULL");
	IS_NULL(cohort_engine_cache_save, (engine, &key, &bytes, NULL, &n, err), "n_bytes is NULL");
	IS_NULL(cohort_engine_cache_save, (engine, &key, &bytes, &n_bytes, NULL, err), "n_saved is NULL");
	bad = (struct cohort_cache_key){.tokens = tokens, .n_tokens = -1};
	REFUSED(cohort_engine_cache_save, key, (engine, &bad, &bytes, &n_bytes, &n, err), COHORT_E_ARG, "n_tokens", -1,
			-1, 0, -1);
	REFUSED(cohort_engine_cache_drop, key, (engine, &bad, &n, err), COHORT_E_ARG, "n_tokens", -1, -1, 0, -1);
	bad = (struct cohort_cache_key){.n_tokens = 1};
	IS_NULL(cohort_engine_cache_save, (engine, &bad, &bytes, &n_bytes, &n, err), "tokens of the key is NULL");
	IS_NULL(cohort_engine_cache_drop, (engine, &bad, &n, err), "tokens of the key is NULL");
	PASSES_AND(cohort_engine_cache_save, _, (engine, &key, &bytes, &n_bytes, &n, err), cohort_cache_free(bytes));
	NOTHING(cohort_cache_free, (NULL));
	assert_int_equal(cohort_engine_cache_save(engine, &key, &bytes, &n_bytes, &n, NULL), COHORT_OK);
	assert_int_equal(n, 32); /* a block */
	IS_NULL(cohort_engine_cache_load, (NULL, &key, bytes, n_bytes, &n, err), "engine is NULL");
	IS_NULL(cohort_engine_cache_load, (engine, NULL, bytes, n_bytes, &n, err), "key is NULL");
	IS_NULL(cohort_engine_cache_load, (engine, &key, NULL, n_bytes, &n, err), "bytes is NULL");
	IS_NULL(cohort_engine_cache_load, (engine, &key, bytes, n_bytes, NULL, err), "n_tokens is NULL");
	PASSES(cohort_engine_cache_load, _, (engine, &key, bytes, n_bytes, &n, err));
	cohort_cache_free(bytes);

	IS_NULL(cohort_engine_slot_tokens, (NULL, 1, tokens, REFUSE_CTX, &kept, err), "engine is NULL");
	IS_NULL(cohort_engine_slot_tokens, (engine, 1, NULL, REFUSE_CTX, &kept, err), "tokens is NULL");
	IS_NULL(cohort_engine_slot_tokens, (engine, 1, tokens, REFUSE_CTX, NULL, err), "key is NULL");
	REFUSED(cohort_engine_slot_tokens, slot, (engine, -1, tokens, REFUSE_CTX, &kept, err), COHORT_E_ARG, "slot", -1,
			-1, 2, -1);
	REFUSED(cohort_engine_slot_tokens, slot, (engine, 2, tokens, REFUSE_CTX, &kept, err), COHORT_E_ARG, "slot", -1,
			2, 2, 2);
	PASSES(cohort_engine_slot_tokens, slot, (engine, 1, tokens, REFUSE_CTX, &kept, err));
	PASSES(cohort_engine_slot_tokens, slot, (engine, 0, tokens, REFUSE_CTX, &kept, err));
	const size_t n_kept = (size_t)kept.n_tokens;
	assert_true(n_kept >= 40);
	PASSES(cohort_engine_slot_tokens, n_max, (engine, 0, tokens, n_kept, &kept, err));
	REFUSED(cohort_engine_slot_tokens, n_max, (engine, 0, tokens, n_kept - 1, &kept, err), COHORT_E_LIMIT, "n_max",
			-1, 0, (int64_t)n_kept - 1, (int64_t)n_kept);
	IS_NULL(cohort_engine_cache_drop, (NULL, &key, &n, err), "engine is NULL");
	IS_NULL(cohort_engine_cache_drop, (engine, NULL, &n, err), "key is NULL");
	PASSES(cohort_engine_cache_drop, _, (engine, &key, NULL, err));
	cohort_engine_free(engine);
	refuse_end();
}

/* ---- Simulations ---- */

static double cost(void *user, int32_t n_prefill_rows, int32_t n_decode_rows)
{
	(void)user;
	return n_prefill_rows + n_decode_rows;
}

void refuse_simulations(void **state)
{
	static struct cohort_sim_totals totals;
	struct cohort_sim_request r = {.n_prompt = 4, .n_output = 2};
	struct cohort_sim_outcome o;
	struct cohort_sim_params p;

	(void)state;
	NOTHING(cohort_sim_params_init, (NULL));
#define PARAMS(...) \
	do { \
		cohort_sim_params_init(&p); \
		p.cost_s = cost; \
		__VA_ARGS__; \
	} while (0)
#define GOOD(...) \
	do { \
		PARAMS(__VA_ARGS__); \
		PASSES(cohort_simulate, params, (&p, &r, 1, &o, &totals, err)); \
	} while (0)
	/* With room for no request above the bound: a simulation of this size is not run. */
#define ENDS(field, lo, hi) \
	do { \
		GOOD(p.field = (lo)); \
		PARAMS(p.field = (int32_t)((int64_t)(lo)-1)); \
		REFUSED(cohort_simulate, params, (&p, &r, 1, &o, &totals, err), COHORT_E_ARG, #field, -1, -1, lo, \
				(int64_t)(lo)-1); \
		PARAMS(p.field = (hi), p.cost_s = NULL); \
		IS_NULL(cohort_simulate, (&p, &r, 1, &o, &totals, err), "cost_s is NULL"); \
		if ((hi) == INT32_MAX) \
			break; \
		PARAMS(p.field = (int32_t)((int64_t)(hi) + 1)); \
		REFUSED(cohort_simulate, params, (&p, &r, 1, &o, &totals, err), COHORT_E_ARG, #field, -1, -1, hi, \
				(int64_t)(hi) + 1); \
	} while (0)
	PARAMS();
	IS_NULL(cohort_simulate, (NULL, &r, 1, &o, &totals, err), "params is NULL");
	IS_NULL(cohort_simulate, (&p, NULL, 1, &o, &totals, err), "requests is NULL");
	IS_NULL(cohort_simulate, (&p, &r, 1, NULL, &totals, err), "outcomes is NULL");
	IS_NULL(cohort_simulate, (&p, &r, 1, &o, NULL, err), "totals is NULL");
	PASSES(cohort_simulate, n_requests, (&p, NULL, 0, NULL, &totals, err));
	ENDS(n_slots, 1, 1 << 16);
	ENDS(n_ctx, 1, 1 << 30);
	ENDS(n_batch, 1, 1 << 20);
	ENDS(n_ubatch, 1, 1 << 20);
	ENDS(budget, 0, 512);
	ENDS(chunk_size, 1, 1 << 30);
	ENDS(n_pos_max, 0, 1 << 30);
	ENDS(queue_requests_max, 0, INT32_MAX);
	ENDS(queue_tokens_max, 0, INT32_MAX);
	GOOD(p.queue_tokens_max = INT64_MAX);
	GOOD(p.room = COHORT_ROOM_OVERCOMMIT);
	PARAMS(p.room = (enum cohort_room)2);
	REFUSED(cohort_simulate, params, (&p, &r, 1, &o, &totals, err), COHORT_E_ARG, "room", -1, -1, 1, 2);
	GOOD(p.wait_max_s = 0);
	GOOD(p.wait_max_s = (double)INFINITY);
	PARAMS(p.wait_max_s = -DBL_MIN);
	REFUSED(cohort_simulate, params, (&p, &r, 1, &o, &totals, err), COHORT_E_ARG, "wait_max_s", -1, -1, 0, 0);
	PARAMS(p.wait_max_s = (double)NAN);
	REFUSED(cohort_simulate, params, (&p, &r, 1, &o, &totals, err), COHORT_E_ARG, "wait_max_s", -1, -1, 0, 0);
	/* A request of the trace. */
	PARAMS();
#define TRACE(rule, expected, got, ...) \
	do { \
		r = (struct cohort_sim_request){__VA_ARGS__}; \
		REFUSED(cohort_simulate, requests, (&p, &r, 1, &o, &totals, err), COHORT_E_ARG, rule, 0, -1, expected, \
				got); \
	} while (0)
	TRACE("tokens", 1, 0, .n_prompt = 0, .n_output = 1);
	TRACE("tokens", 1, 0, .n_prompt = 1, .n_output = 0);
	TRACE("shared", 0, -1, .n_prompt = 4, .n_output = 1, .n_shared = -1);
	TRACE("shared", 4, 5, .n_prompt = 4, .n_output = 1, .n_shared = 5);
	TRACE("arrival", 0, 0, .n_prompt = 1, .n_output = 1, .arrival_s = -1);
	TRACE("arrival", 0, 0, .n_prompt = 1, .n_output = 1, .arrival_s = (double)INFINITY);
	r = (struct cohort_sim_request){.n_prompt = 4, .n_output = 1, .n_shared = 4};
	PASSES(cohort_simulate, requests, (&p, &r, 1, &o, &totals, err));
	GIVES(cohort_sim_bin_s, bin, (-1), 0);
	GIVES(cohort_sim_bin_s, bin, (0), 0);
	GIVES(cohort_sim_bin_s, bin, (COHORT_SIM_BINS - 1) > 0, true);
	GIVES(cohort_sim_bin_s, bin, (COHORT_SIM_BINS) >= 0, true);
	refuse_end();
}
