/* The engine's interface: what is refused and why, what events say, and every kind of request.
 *
 * Shown red by planted faults: a limit's numbers swapped (submit_refuses_beyond_queue_and_context), a token event
 * without its held-back text (callbacks_have_the_events_of_readers), the prompt's log-probabilities one place off
 * (prompt_logprobs), a mean divided by one token less (embeddings_beside_generation), the prompt's blocks counted for
 * every output (outputs_share), end tokens that show up in the text (end_tokens_and_stop_tokens). */
#include "engine_rig.h"

/* Where coverage is counted little is optimised, and others take the same branches in less time. */
static void slow_case(void)
{
	if (getenv("COHORT_COVERAGE"))
		skip();
}

/* ---- What is refused ---- */

/* An error with its rule and both numbers; NULL: without a rule. */
static void check_err(const struct cohort_err *err, enum cohort_status status, const char *rule, int64_t expected,
		int64_t got)
{
	assert_int_equal(err->status, status);
	assert_true(strlen(err->text) > 8);
	if (!rule)
		return;
	assert_non_null(err->rule);
	assert_string_equal(err->rule, rule);
	assert_int_equal(err->expected, expected);
	assert_int_equal(err->got, got);
}

static void open_refused(const struct cohort_engine_params *p, const char *rule, int64_t expected, int64_t got)
{
	struct cohort_engine *e = NULL;
	struct cohort_err err;

	assert_int_equal(cohort_engine_open(rig_model, p, &e, &err), COHORT_E_ARG);
	assert_null(e);
	check_err(&err, COHORT_E_ARG, rule, expected, got);
	assert_true(!rule || strstr(err.text, rule));
}

static enum cohort_status plan_nothing(const struct cohort_strategy *self, void *state, struct cohort_plan *plan)
{
	(void)self;
	(void)state;
	(void)plan;
	return COHORT_OK;
}

static void open_arguments(void **state)
{
	struct cohort_engine_params good, p;
	struct cohort_engine *e;
	struct cohort_err err;

	(void)state;
	rig_params(&good);
#define REFUSED(field, value, expected) \
	do { \
		p = good; \
		p.field = value; \
		open_refused(&p, #field, expected, (int64_t)(value)); \
	} while (0)
	REFUSED(n_slots, 0, 1);
	REFUSED(n_slots, 65537, 65536);
	REFUSED(budget, -1, 0);
	REFUSED(budget, 33, 32);
	REFUSED(chunk_size, 0, 1);
	REFUSED(queue_requests_max, 0, 1);
	REFUSED(queue_tokens_max, 0, 1);
	REFUSED(room, 2, 1);
#undef REFUSED
	p = good;
	p.wait_max_s = -1;
	open_refused(&p, NULL, 0, 0);
	p.wait_max_s = (double)NAN;
	open_refused(&p, NULL, 0, 0);
	p = good;
	p.struct_size--;
	open_refused(&p, NULL, 0, 0);
	p = good;
	p.context.outputs = COHORT_OUTPUT_EMBEDDINGS; /* nothing to sample from */
	open_refused(&p, NULL, 0, 0);
	p = good;
	p.context.n_ctx = 0; /* the context's own checks are heard, too */
	open_refused(&p, "n_ctx", 1, 0);
	p.context.n_ctx = -1; /* ... and what counts the blocks */
	open_refused(&p, "n_ctx", 0, -1);

	struct cohort_strategy s = *cohort_strategy_get(0);
	p = good;
	p.strategy = &s;
	s.struct_size = 1;
	open_refused(&p, NULL, 0, 0);
	s = *cohort_strategy_get(0);
	s.name = NULL;
	open_refused(&p, NULL, 0, 0);
	s = *cohort_strategy_get(0);
	s.build_batch = NULL;
	open_refused(&p, NULL, 0, 0);
	s.build_batch = plan_nothing;

	assert_int_equal(cohort_engine_open(NULL, &good, &e, &err), COHORT_E_ARG);
	assert_int_equal(cohort_engine_open(rig_model, &good, NULL, &err), COHORT_E_ARG);
	/* NULL means the defaults. */
	assert_int_equal(cohort_engine_open(rig_model, NULL, &e, &err), COHORT_OK);
	assert_int_equal(cohort_engine_slots_get(e, NULL, 0), 8);
	assert_int_equal(cohort_engine_tick(e, NULL, &err), COHORT_E_ARG); /* it has a thread of its own */
	s.struct_size = 0;
	assert_int_equal(cohort_engine_strategy_set(e, &s, &err), COHORT_E_ARG);
	cohort_engine_free(e);
	/* What may be NULL. */
	cohort_engine_params_init(NULL);
	cohort_request_params_init(NULL);
	cohort_engine_free(NULL);
	cohort_request_free(NULL);
	cohort_request_cancel(NULL);
	cohort_engine_stats_get(NULL, NULL);
	cohort_request_stats_get(NULL, NULL);
	cohort_engine_cache_clear(NULL);
	assert_int_equal(cohort_engine_slots_get(NULL, NULL, 0), 0);
	assert_int_equal(cohort_engine_tick(NULL, NULL, NULL), COHORT_E_ARG);
	assert_int_equal(cohort_engine_drain(NULL, 0, NULL, NULL), COHORT_E_ARG);
	assert_int_equal(cohort_engine_strategy_set(NULL, NULL, NULL), COHORT_E_ARG);
}

static bool never(void *user)
{
	(void)user;
	return false;
}

/* What an engine decides itself cannot be set for its context; what is said of it names the field and a way out. */
static void context_of_its_own(void **state)
{
	struct cohort_engine_params good, p;

	(void)state;
	rig_params(&good);
#define REFUSED(field, value) \
	do { \
		p = good; \
		p.context.field = value; \
		open_refused(&p, #field, 0, 0); \
	} while (0)
	REFUSED(abort, never);
	REFUSED(n_seq_max, 63);
	REFUSED(split, COHORT_SPLIT_SEQ);
	REFUSED(pooling, COHORT_POOL_MEAN);
	REFUSED(output_all, true);
	REFUSED(n_checkpoints, 2);
#undef REFUSED
	p = good;
	p.context.n_threads = 2;
	cohort_engine_free(rig_engine(&p));
}

static void submit_refused(struct cohort_engine *e, const struct cohort_request_params *p, enum cohort_status status,
		const char *rule, int64_t expected, int64_t got)
{
	struct cohort_request *r = NULL;
	struct cohort_err err;
	const enum cohort_status st = cohort_engine_submit(e, p, &r, &err);

	if (st != status)
		fail_msg("%s: %s, for rule %s", cohort_status_name(st), st ? err.text : "", rule ? rule : "");
	assert_null(r);
	check_err(&err, status, rule, expected, got);
}

static void submit_arguments(void **state)
{
	struct cohort_engine_params ep;
	struct cohort_model_info info = {.struct_size = sizeof info};
	struct job good, j;
	const char *const stops[] = {"", "x"};
	const char *const no_stops[] = {NULL};

	(void)state;
	cohort_model_info_get(rig_model, &info);
	rig_params(&ep);
	struct cohort_engine *e = rig_engine(&ep);
	rig_job(&good, 1, 5, 3);
#define REFUSED(field, value, expected) \
	do { \
		j = good; \
		j.p.prompt = j.prompt; \
		j.p.field = value; \
		submit_refused(e, &j.p, COHORT_E_ARG, #field, expected, (int64_t)(value)); \
	} while (0)
	REFUSED(task, 2, 1);
	REFUSED(n_prompt, 0, 1);
	REFUSED(n_prompt, -3, 1);
	REFUSED(n_outputs, 0, 1);
	REFUSED(n_outputs, COHORT_OUTPUTS_MAX + 1, COHORT_OUTPUTS_MAX);
	REFUSED(max_tokens, -2, -1);
	REFUSED(n_logprobs, -2, -1);
	REFUSED(n_logprobs, COHORT_TOP_MAX + 1, COHORT_TOP_MAX);
	REFUSED(n_stop_tokens, -1, 0);
	REFUSED(n_stop_tokens, COHORT_STOPS_MAX + 1, COHORT_STOPS_MAX);
#undef REFUSED
#define REFUSED(field, value) \
	do { \
		j = good; \
		j.p.prompt = j.prompt; \
		j.p.field = value; \
		submit_refused(e, &j.p, COHORT_E_ARG, NULL, 0, 0); \
	} while (0)
	REFUSED(struct_size, sizeof j.p - 1);
	REFUSED(prompt, NULL);
	REFUSED(queue_limit_s, -1);
	REFUSED(prefill_limit_s, (double)NAN);
	REFUSED(decode_limit_s, -0.5);
	REFUSED(total_limit_s, -(double)INFINITY);
	REFUSED(task, COHORT_TASK_EMBED); /* the engine has no embeddings */
	REFUSED(sampler.top_p, -1);
	REFUSED(n_stops, 1); /* no list */
	REFUSED(n_stops, COHORT_STOPS_MAX + 1);
	REFUSED(n_stop_tokens, 1); /* no list */
#undef REFUSED
	j = good;
	j.p.prompt = j.prompt;
	j.prompt[2] = info.n_vocab;
	submit_refused(e, &j.p, COHORT_E_ARG, "token", info.n_vocab, info.n_vocab);
	j.prompt[2] = -1;
	submit_refused(e, &j.p, COHORT_E_ARG, "token", info.n_vocab, -1);
	j.prompt[2] = 3;
	j.p.stop_tokens = &(cohort_token){info.n_vocab};
	j.p.n_stop_tokens = 1;
	submit_refused(e, &j.p, COHORT_E_ARG, "token", info.n_vocab, info.n_vocab);
	j.p.n_stop_tokens = 0;
	j.p.stops = stops;
	j.p.n_stops = 2;
	submit_refused(e, &j.p, COHORT_E_ARG, NULL, 0, 0); /* an empty one would end everything */
	j.p.stops = no_stops;
	j.p.n_stops = 1;
	submit_refused(e, &j.p, COHORT_E_ARG, NULL, 0, 0);

	struct cohort_request *r;
	assert_int_equal(cohort_engine_submit(NULL, &good.p, &r, NULL), COHORT_E_ARG);
	assert_int_equal(cohort_engine_submit(e, NULL, &r, NULL), COHORT_E_ARG);
	assert_int_equal(cohort_engine_submit(e, &good.p, NULL, NULL), COHORT_E_ARG);
	assert_int_equal(cohort_engine_drain(e, 0, NULL, NULL), COHORT_E_ARG); /* a manual one */
	assert_int_equal(rig_stats(e).n_submitted, 0);
	/* After all of that it works. */
	good.p.prompt = good.prompt;
	r = rig_submit(e, &good);
	rig_run(e);
	rig_check(r, &good);
	cohort_request_free(r);
	cohort_engine_free(e);
}

static void request_arguments(void **state)
{
	struct cohort_engine_params ep;
	struct cohort_event ev;
	struct cohort_output o;
	struct cohort_err err;
	struct job j;

	(void)state;
	rig_params(&ep);
	struct cohort_engine *e = rig_engine(&ep);
	rig_job(&j, 1, 3, 2);
	struct cohort_request *r = rig_submit(e, &j);
	assert_int_equal(cohort_request_next(NULL, 0, &ev, &err), COHORT_E_ARG);
	assert_int_equal(cohort_request_next(r, 0, NULL, &err), COHORT_E_ARG);
	assert_int_equal(cohort_request_next(r, (double)NAN, &ev, &err), COHORT_E_ARG);
	assert_int_equal(cohort_request_wait(NULL, 0, NULL, &err), COHORT_E_ARG);
	assert_int_equal(cohort_request_wait(r, (double)NAN, NULL, &err), COHORT_E_ARG);
	assert_int_equal(cohort_request_output_get(NULL, 0, &o, &err), COHORT_E_ARG);
	assert_int_equal(cohort_request_output_get(r, 0, NULL, &err), COHORT_E_ARG);
	assert_int_equal(cohort_request_output_get(r, 0, &o, &err), COHORT_E_ARG); /* it has not ended */
	assert_int_equal(cohort_request_next(r, 0, &ev, &err), COHORT_OK);
	assert_int_equal(ev.kind, COHORT_EVENT_NONE);
	assert_int_equal(cohort_request_next(r, 0.01, &ev, &err), COHORT_OK);
	assert_int_equal(ev.kind, COHORT_EVENT_NONE);
	rig_run(e);
	assert_int_equal(cohort_request_output_get(r, 1, &o, &err), COHORT_E_ARG);
	assert_int_equal(cohort_request_output_get(r, -1, &o, &err), COHORT_E_ARG);
	rig_check(r, &j);
	cohort_request_free(r);
	cohort_engine_free(e);
	for (int f = COHORT_FINISH_NONE; f <= COHORT_FINISH_SHUTDOWN; f++)
		for (int g = COHORT_FINISH_NONE; g < f; g++)
			assert_string_not_equal(cohort_finish_name((enum cohort_finish)f),
					cohort_finish_name((enum cohort_finish)g));
	assert_string_equal(cohort_finish_name((enum cohort_finish)99), "unknown");
}

/* Both bounds of the queue, with the depth; too long for the context, with both numbers; more outputs than slots. */
static void submit_refuses_beyond_queue_and_context(void **state)
{
	struct cohort_engine_params ep;
	struct cohort_request *r[4];
	struct cohort_err err;
	struct job j;

	(void)state;
	rig_params(&ep);
	ep.queue_requests_max = 3;
	ep.queue_tokens_max = 30;
	struct cohort_engine *e = rig_engine(&ep);
	rig_job(&j, 2, 12, 1);
	r[0] = rig_submit(e, &j);
	r[1] = rig_submit(e, &j);
	submit_refused(e, &j.p, COHORT_E_LIMIT, "queue-tokens", 30, 36);
	j.p.n_prompt = 7;
	submit_refused(e, &j.p, COHORT_E_LIMIT, "queue-tokens", 30, 31);
	j.p.n_prompt = 6;
	r[2] = rig_submit(e, &j);
	assert_int_equal(cohort_engine_submit(e, &j.p, &r[3], &err), COHORT_E_LIMIT);
	assert_string_equal(err.rule, "queue-requests");
	assert_int_equal(err.expected, 3);
	assert_int_equal(err.got, 4);
	assert_non_null(strstr(err.text, "3 requests wait"));
	assert_int_equal(rig_stats(e).n_refused, 3);
	assert_int_equal(rig_stats(e).n_submitted, 3);
	assert_int_equal(rig_stats(e).last.n_queued, 3);
	assert_int_equal(rig_stats(e).last.n_queued_tokens, 30);
	rig_run(e); /* a full queue is full for a while */
	r[3] = rig_submit(e, &j);
	rig_run(e);
	for (int i = 0; i < 4; i++) {
		assert_true(rig_is_done(r[i]));
		cohort_request_free(r[i]);
	}
	cohort_engine_free(e);

	rig_params(&ep);
	e = rig_engine(&ep);
	rig_job(&j, 2, 513, 1);
	submit_refused(e, &j.p, COHORT_E_LIMIT, "context", 512, 514);
	j.p.max_tokens = -1; /* there must be room for one, at least */
	submit_refused(e, &j.p, COHORT_E_LIMIT, "context", 512, 514);
	j.p.n_prompt = 500;
	j.p.max_tokens = 13;
	submit_refused(e, &j.p, COHORT_E_LIMIT, "context", 512, 513);
	j.p.max_tokens = INT32_MAX;
	submit_refused(e, &j.p, COHORT_E_LIMIT, "context", 512, 500 + (int64_t)INT32_MAX);
	j.p.n_outputs = 5;
	submit_refused(e, &j.p, COHORT_E_LIMIT, "slots", 4, 5);
	/* Outputs that do not fit together are refused: what is admitted is promised its room. */
	j.p.n_outputs = 4;
	j.p.n_prompt = 64;
	j.p.max_tokens = 400;
	struct cohort_request *q = NULL;
	assert_int_equal(cohort_engine_submit(e, &j.p, &q, &err), COHORT_E_LIMIT);
	assert_string_equal(err.rule, "context");
	assert_int_equal(err.expected, 512);
	assert_true(err.got > 4 * 400);
	cohort_engine_free(e);
}

/* An open end goes as far as there is room, and no further. */
static void open_end(void **state)
{
	struct cohort_engine_params ep;
	struct job j;

	(void)state;
	rig_params(&ep);
	ep.context.n_ctx = 64;
	ep.context.n_blocks = pool_blocks(ep.context.n_ctx, 0);
	struct cohort_engine *e = rig_engine(&ep);
	rig_job(&j, 3, 40, -1);
	struct cohort_request *r = rig_submit(e, &j);
	rig_run(e);
	j.p.max_tokens = 24;
	rig_check(r, &j);
	cohort_request_free(r);
	cohort_engine_free(e);
}

static void closed_engine_refuses_submits(void **state)
{
	struct cohort_engine_params ep;
	struct cohort_err err;
	struct job j;
	bool clean = false;

	(void)state;
	rig_params(&ep);
	ep.manual = false;
	struct cohort_engine *e = rig_engine(&ep);
	assert_int_equal(cohort_engine_drain(e, (double)NAN, &clean, &err), COHORT_E_ARG);
	assert_int_equal(cohort_engine_drain(e, 0, &clean, &err), COHORT_OK);
	assert_true(clean);
	rig_job(&j, 2, 3, 1);
	submit_refused(e, &j.p, COHORT_E_LIMIT, "closed", 0, 1);
	assert_int_equal(cohort_engine_drain(e, -1, &clean, &err), COHORT_OK);
	assert_true(clean);
	cohort_engine_free(e);
}

/* ---- Events ---- */

/* All that events say, in a row of bytes for each output (the last is the request's own). */
struct script {
	char bytes[3][4096];
	size_t n[3];
	int32_t n_events;
	bool done;
};

static void note(struct script *s, const struct cohort_event *e)
{
	const bool own = e->kind == COHORT_EVENT_PROMPT || e->kind == COHORT_EVENT_DONE ||
			e->kind == COHORT_EVENT_EMBEDDING;
	const int which = own ? 2 : e->output;
	size_t *n = &s->n[which];
	char *b = s->bytes[which];

	assert_false(s->done);
	assert_non_null(e->text);
	/* The prompt comes first, the end of all last. */
	assert_true(e->kind != COHORT_EVENT_PROMPT || s->n_events == 0);
	s->done = e->kind == COHORT_EVENT_DONE;
	s->n_events++;
	*n += (size_t)snprintf(b + *n, sizeof s->bytes[0] - *n, "[%d %d %d %d %d %.9g %.9g %d|%.*s]",
			(int)e->kind, e->output, e->index, e->token, (int)e->finish, (double)e->logprob,
			(double)e->chain_logprob, e->error != NULL, (int)e->n_bytes, e->text);
	for (int32_t i = 0; e->kind == COHORT_EVENT_TOKEN && i < e->n_top; i++)
		*n += (size_t)snprintf(b + *n, sizeof s->bytes[0] - *n, "(%d %.9g)", e->top[i].token,
				(double)e->top[i].logprob);
	for (int32_t i = 0; e->kind == COHORT_EVENT_PROMPT && i < e->n_prompt; i++)
		*n += (size_t)snprintf(b + *n, sizeof s->bytes[0] - *n, "(%.9g %d)", (double)e->prompt_logprobs[i],
				e->prompt_top[i * e->n_top].token);
	assert_true(*n < sizeof s->bytes[0]);
}

static void on_event(struct cohort_request *r, const struct cohort_event *e, void *user)
{
	struct script *s = user;

	note(s, e);
	if (s->done)
		cohort_request_free(r);
}

/* Called back or asked for: the same events. */
static void callbacks_have_the_events_of_readers(void **state)
{
	static struct script called, asked;
	struct cohort_engine_params ep;
	struct cohort_event ev;
	struct job j;

	(void)state;
	rig_params(&ep);
	struct cohort_engine *e = rig_engine(&ep);
	for (uint64_t seed = 0; seed < 4; seed++) {
		memset(&called, 0, sizeof called);
		memset(&asked, 0, sizeof asked);
		rig_job(&j, seed, 9, 12);
		j.p.n_outputs = 2;
		j.p.n_logprobs = 2;
		j.p.chain_logprobs = true;
		j.p.prompt_logprobs = seed % 2;
		j.p.text_start = true;
		j.p.stops = (const char *const[]){"th", "e ", "\xc3"};
		j.p.n_stops = 3;
		struct cohort_request *r = rig_submit(e, &j);
		rig_run(e);
		do {
			assert_int_equal(cohort_request_next(r, 0, &ev, NULL), COHORT_OK);
			note(&asked, &ev);
		} while (!asked.done);
		assert_int_equal(cohort_request_next(r, -1, &ev, NULL), COHORT_OK);
		assert_int_equal(ev.kind, COHORT_EVENT_NONE);
		rig_check(r, &j);
		cohort_request_free(r);

		j.p.on_event = on_event;
		j.p.user = &called;
		r = rig_submit(e, &j);
		assert_int_equal(cohort_request_next(r, 0, &ev, NULL), COHORT_E_ARG);
		rig_run(e);
		assert_true(called.done);
		assert_int_equal(called.n_events, asked.n_events);
		for (int k = 0; k < 3; k++)
			assert_string_equal(called.bytes[k], asked.bytes[k]);
	}
	cohort_engine_free(e);
}

/* A stop that an unfinished character completes at the very end is not shown, neither to who is called back nor to who
 * asks. Seen red when only callbacks ended the text by its own rules. */
static void hear_bytes(struct cohort_request *r, const struct cohort_event *e, void *user)
{
	*(size_t *)user += e->n_bytes;
	if (e->kind == COHORT_EVENT_DONE)
		cohort_request_free(r);
}

static void unfinished_stop(void **state)
{
	size_t n_heard = 0;
	struct cohort_engine_params ep;
	struct cohort_logit_bias bias = {.token = -1, .bias = 1000};
	struct cohort_output o;
	struct job j;

	(void)state;
	rig_params(&ep);
	struct cohort_engine *e = rig_engine(&ep);
	for (cohort_token t = 0; bias.token < 0; t++) {
		size_t n;
		const char *bytes = cohort_token_bytes(rig_model, t, false, &n);
		assert_non_null(bytes);
		if (n == 1 && bytes[0] == '\xe2')
			bias.token = t;
	}
	rig_job(&j, 1, 5, 1);
	j.p.stops = (const char *const[]){"\xe2"};
	j.p.n_stops = 1;
	j.p.sampler.temperature = 0;
	j.p.sampler.bias = &bias;
	j.p.sampler.n_bias = 1;
	for (int calls = 0; calls < 2; calls++) {
		j.p.on_event = calls ? hear_bytes : NULL;
		j.p.user = &n_heard;
		struct cohort_request *r = rig_submit(e, &j);
		rig_run(e);
		if (calls) {
			assert_int_equal(n_heard, 0);
			continue; /* the callback freed it */
		}
		o = rig_output(r, 0);
		assert_int_equal(o.tokens[0], bias.token);
		assert_int_equal(o.n_bytes, 0);
		cohort_request_free(r);
	}
	cohort_engine_free(e);
}

/* A model without a tokeniser says tokens, and no text. Seen red when a text was asked for: no event ever came. */
static void no_text(void **state)
{
	static const struct shape shape = {61, 32, 1, 4, 2, 16, 16, 48, 16, 1024, QUANT_F32, QUANT_F32, QUANT_F32,
			QUANT_F32, true, NULL, NULL, NULL};
	char *path = synth_write(&shape, 5);
	struct cohort_engine_params ep;
	struct cohort_request_params p;
	struct cohort_request *r;
	struct cohort_engine *e;
	struct cohort_model *m;
	struct cohort_event ev;
	int n_tokens = 0;

	(void)state;
	assert_int_equal(cohort_model_open(path, NULL, &m, NULL), COHORT_OK);
	rig_params(&ep);
	assert_int_equal(cohort_engine_open(m, &ep, &e, NULL), COHORT_OK);
	cohort_request_params_init(&p);
	p.prompt = (const cohort_token[]){5, 6, 7};
	p.n_prompt = 3;
	p.max_tokens = 4;
	assert_int_equal(cohort_engine_submit(e, &p, &r, NULL), COHORT_OK);
	rig_run(e);
	do {
		assert_int_equal(cohort_request_next(r, 0, &ev, NULL), COHORT_OK);
		assert_int_not_equal(ev.kind, COHORT_EVENT_NONE);
		assert_int_equal(ev.n_bytes, 0);
		n_tokens += ev.kind == COHORT_EVENT_TOKEN;
	} while (ev.kind != COHORT_EVENT_DONE);
	assert_int_equal(n_tokens, 4);
	assert_int_equal(rig_output(r, 0).n_bytes, 0);
	cohort_request_free(r);
	cohort_engine_free(e);
	cohort_model_free(m);
	unlink(path);
	free(path);
}

/* As many slots as a context can have sequences leave none for cached prompts: nothing is reused, all the same. */
static void most_slots(void **state)
{
	struct cohort_engine_params ep;
	struct job j;

	(void)state;
	rig_params(&ep);
	ep.n_slots = 65536;
	ep.context.n_ctx = 64;
	ep.context.n_blocks = pool_blocks(ep.context.n_ctx, 0);
	struct cohort_engine *e = rig_engine(&ep);
	for (int i = 0; i < 2; i++) {
		rig_job(&j, 3, 40, 2);
		struct cohort_request *r = rig_submit(e, &j);
		rig_run(e);
		rig_check(r, &j);
		cohort_request_free(r);
	}
	assert_int_equal(rig_stats(e).n_cached_tokens, 0);
	cohort_engine_free(e);
}

static void prompt_logprobs(void **state)
{
	struct cohort_engine_params ep;
	struct cohort_event ev;
	struct cohort_score score;
	float want[60];
	struct job j;

	(void)state;
	rig_params(&ep);
	struct cohort_engine *e = rig_engine(&ep);
	rig_job(&j, 4, 60, 2);
	assert_int_equal(cohort_score_text(rig_alone, 0, j.prompt, 60, want, &score, NULL), COHORT_OK);
	/* The second finds the prompt in the cache, and computes it all the same; max_tokens 0: only the prompt counts.
	 */
	for (int round = 0; round < 3; round++) {
		j.p.prompt_logprobs = true;
		j.p.n_logprobs = round ? 3 : -1;
		j.p.max_tokens = round == 2 ? 0 : 2;
		struct cohort_request *r = rig_submit(e, &j);
		rig_run(e);
		assert_int_equal(cohort_request_next(r, 0, &ev, NULL), COHORT_OK);
		assert_int_equal(ev.kind, COHORT_EVENT_PROMPT);
		assert_int_equal(ev.n_prompt, 60);
		assert_memory_equal(ev.prompt_logprobs, want, sizeof want);
		assert_int_equal(ev.n_top, round ? 3 : 0);
		for (int32_t i = 0; round && i < 60; i++) {
			const struct cohort_logprob *top = ev.prompt_top + 3 * i;
			assert_true(i ? top[0].logprob >= want[i] && top[1].logprob <= top[0].logprob
				      : top[0].token == -1);
			for (int k = 0; i && k < 3; k++)
				if (top[k].token == j.prompt[i])
					assert_memory_equal(&top[k].logprob, &want[i], sizeof want[i]);
		}
		rig_check(r, &j);
		cohort_request_free(r);
	}
	cohort_engine_free(e);
}

/* ---- Kinds of requests ---- */

static struct cohort_tick both; /* a tick that computed prompts and generated */

static void look_for_both(const struct cohort_tick *t, void *user)
{
	(void)user;
	if (t->n_decode_rows > 0 && t->n_prefill_rows > 0)
		both = *t;
}

static void embedding_alone(enum cohort_pooling pooling, const struct job *j, float *out, size_t n_embd)
{
	struct cohort_context_params cp;
	struct cohort_context *ctx;

	cohort_context_params_init(&cp);
	cp.outputs = COHORT_OUTPUT_EMBEDDINGS;
	cp.pooling = pooling;
	cp.n_threads = 1;
	assert_int_equal(cohort_context_open(rig_model, &cp, &ctx, NULL), COHORT_OK);
	assert_int_equal(cohort_decode_many(ctx, j->prompt, j->p.n_prompt, 0, 0, NULL), COHORT_OK);
	const float *got = cohort_embeddings_seq_get(ctx, 0, NULL);
	assert_non_null(got);
	memcpy(out, got, n_embd * sizeof *out);
	cohort_context_free(ctx);
}

/* Embeddings beside generation, in the same ticks, are those of a context that pools. */
static void embeddings_beside_generation(void **state)
{
	static const enum cohort_pooling poolings[] = {COHORT_POOL_MEAN, COHORT_POOL_CLS, COHORT_POOL_LAST};
	struct cohort_model_info info = {.struct_size = sizeof info};
	struct cohort_engine_params ep;
	struct cohort_event ev;
	struct job talk, j;

	(void)state;
	cohort_model_info_get(rig_model, &info);
	const size_t n_embd = (size_t)info.n_embd;
	float *want = calloc(n_embd, sizeof *want);
	rig_params(&ep);
	ep.context.outputs = COHORT_OUTPUT_LOGITS | COHORT_OUTPUT_EMBEDDINGS;
	ep.on_tick = look_for_both;
	struct cohort_engine *e = rig_engine(&ep);
	for (int k = 0; k < 6; k++) {
		both = (struct cohort_tick){0};
		rig_job(&talk, 5, 3, 8);
		struct cohort_request *r = rig_submit(e, &talk);
		rig_tick(e);
		rig_job(&j, 6, 70, 0);
		j.p.task = COHORT_TASK_EMBED;
		j.p.pooling = poolings[k % 3];
		j.p.max_tokens = k; /* of no meaning here */
		struct cohort_request *q = rig_submit(e, &j);
		rig_run(e);
		assert_true(both.tick > 0);
		rig_check(r, &talk);
		assert_int_equal(cohort_request_next(q, 0, &ev, NULL), COHORT_OK);
		assert_int_equal(ev.kind, COHORT_EVENT_EMBEDDING);
		assert_int_equal(ev.n_embd, info.n_embd);
		embedding_alone(j.p.pooling, &j, want, n_embd);
		assert_memory_equal(ev.embedding, want, n_embd * sizeof *want);
		assert_int_equal(cohort_request_next(q, 0, &ev, NULL), COHORT_OK);
		assert_int_equal(ev.kind, COHORT_EVENT_END);
		assert_int_equal(ev.finish, COHORT_FINISH_EMBEDDED);
		assert_int_equal(cohort_request_next(q, 0, &ev, NULL), COHORT_OK);
		assert_int_equal(ev.kind, COHORT_EVENT_DONE);
		cohort_request_free(q);
		cohort_request_free(r);
	}
	rig_job(&j, 6, 7, 0);
	j.p.task = COHORT_TASK_EMBED;
	j.p.pooling = COHORT_POOL_NONE;
	submit_refused(e, &j.p, COHORT_E_ARG, NULL, 0, 0);
	j.p.pooling = COHORT_POOL_MEAN;
	j.p.n_outputs = 2;
	submit_refused(e, &j.p, COHORT_E_ARG, NULL, 0, 0);
	j.p.n_outputs = 1;
	j.p.prompt_logprobs = true;
	submit_refused(e, &j.p, COHORT_E_ARG, NULL, 0, 0);
	cohort_engine_free(e);
	free(want);
}

/* max_tokens 0, end tokens that end it or do not, stop tokens. */
static void end_tokens_and_stop_tokens(void **state)
{
	struct cohort_logit_bias bias = {cohort_token_eos(rig_model), 1000};
	struct cohort_engine_params ep;
	static struct alone a;
	struct job j;

	(void)state;
	rig_params(&ep);
	struct cohort_engine *e = rig_engine(&ep);
	for (int k = 0; k < 5; k++) {
		rig_job(&j, 8, 20, 6);
		enum cohort_finish finish = COHORT_FINISH_LENGTH;
		int32_t n = 6;
		if (k == 0)
			j.p.max_tokens = n = 0;
		if (k == 1 || k == 2) { /* the model wants to end at once */
			j.p.sampler.bias = &bias;
			j.p.sampler.n_bias = 1;
			j.p.ignore_eos = k == 2;
			finish = k == 1 ? COHORT_FINISH_EOG : COHORT_FINISH_LENGTH;
			n = k == 1 ? 1 : 6;
		}
		if (k == 3) {
			alone_run(rig_model, rig_alone, &j.p, 0, &a);
			j.stop_tokens[0] = 5;
			j.stop_tokens[1] = a.tokens[3];
			j.p.stop_tokens = j.stop_tokens;
			j.p.n_stop_tokens = 2;
			finish = COHORT_FINISH_STOP;
			for (n = 1; a.tokens[n - 1] != a.tokens[3];)
				n++;
		}
		if (k == 4)
			j.p.n_outputs = 3, j.p.max_tokens = n = 0;
		struct cohort_request *r = rig_submit(e, &j);
		rig_run(e);
		rig_check(r, &j);
		for (int32_t i = 0; i < j.p.n_outputs; i++) {
			const struct cohort_output o = rig_output(r, i);
			assert_int_equal(o.finish, finish);
			assert_int_equal(o.n_tokens, n);
			assert_true((k != 1 && k != 2) || o.n_bytes == 0);
			assert_int_equal(o.text[o.n_bytes], 0);
		}
		cohort_request_free(r);
	}
	rig_check_empty(e, 4);
	cohort_engine_free(e);
}

/* Bound by a grammar, two outputs at once: as alone, and the grammar's. */
static void two_outputs_bound_by_a_grammar(void **state)
{
	static const char text[] = "root ::= \"[\" [0-9]+ (\", \" [0-9]+)* \"]\"";
	struct cohort_lexicon *lexicon;
	struct cohort_grammar *g;
	struct cohort_engine_params ep;
	struct job j;

	(void)state;
	assert_int_equal(cohort_lexicon_open(rig_model, &lexicon, NULL), COHORT_OK);
	assert_int_equal(cohort_grammar_open(lexicon, text, strlen(text), NULL, &g, NULL), COHORT_OK);
	rig_params(&ep);
	struct cohort_engine *e = rig_engine(&ep);
	rig_job(&j, 9, 20, 12);
	j.p.n_outputs = 2;
	j.p.ignore_eos = false;
	j.p.sampler.grammar = g;
	struct cohort_request *r = rig_submit(e, &j);
	rig_run(e);
	rig_check(r, &j);
	for (int32_t k = 0; k < 2; k++) {
		const struct cohort_output o = rig_output(r, k);
		size_t n = 0;
		assert_true(o.n_bytes > 1 && o.text[0] == '[');
		assert_int_equal(cohort_grammar_match(g, o.text, o.n_bytes, &n, NULL, NULL), COHORT_OK);
		assert_int_equal(n, o.n_bytes);
	}
	cohort_request_free(r);
	cohort_engine_free(e);
	cohort_grammar_free(g);
	cohort_lexicon_free(lexicon);
}

static int32_t most_used;

static void look_at_blocks(const struct cohort_tick *t, void *user)
{
	(void)user;
	if (t->n_blocks_used > most_used)
		most_used = t->n_blocks_used;
}

/* Four outputs of one prompt hold its blocks once, with and without the cache for prompts. */
static void outputs_share(void **state)
{
	const int32_t size = pool_block_size(), n_prompt = 4 * size + 3;
	struct cohort_engine_params ep;
	struct cohort_slot_info infos[4];
	struct job j;

	(void)state;
	slow_case();
	for (int no_reuse = 0; no_reuse < 4; no_reuse++) {
		most_used = 0;
		rig_params(&ep);
		ep.context.n_ctx = 16 * size;
		ep.context.n_blocks = pool_blocks(ep.context.n_ctx, 0);
		ep.no_reuse = no_reuse & 1;
		ep.room = no_reuse & 2 ? COHORT_ROOM_OVERCOMMIT : COHORT_ROOM_RESERVE;
		ep.on_tick = look_at_blocks;
		struct cohort_engine *e = rig_engine(&ep);
		rig_job(&j, 10, n_prompt, 5);
		j.p.n_outputs = 4;
		struct cohort_request *r = rig_submit(e, &j);
		while (rig_stats(e).n_sampled < 8)
			rig_tick(e);
		assert_int_equal(cohort_engine_slots_get(e, infos, 4), 4);
		for (int i = 0; i < 4; i++) {
			assert_int_equal(infos[i].state, COHORT_SLOT_GENERATING);
			assert_int_equal(infos[i].n_blocks, 5); /* shared ones included */
			assert_int_equal(infos[i].n_prompt, n_prompt);
		}
		rig_run(e);
		rig_check(r, &j);
		assert_int_equal(most_used, 4 + 4); /* the prompt's, and an end of its own for each */
		cohort_request_free(r);
		rig_check_empty(e, 4);
		cohort_engine_free(e);
	}
}

/* Prompts that fill the whole cache, and several outputs that do not fit at once: admitted when nobody else is there,
 * with reservation and without. Seen hanging: without reservation there was never enough room to admit them. */
static void whole_cache(void **state)
{
	const int32_t size = pool_block_size();
	struct cohort_engine_params ep;
	struct job j;

	(void)state;
	slow_case();
	for (int room = COHORT_ROOM_RESERVE; room <= COHORT_ROOM_OVERCOMMIT; room++)
		for (int k = 0; k < 3; k++) {
			rig_params(&ep);
			ep.context.n_ctx = 4 * size;
			ep.context.n_blocks = pool_blocks(ep.context.n_ctx, 0);
			ep.room = (enum cohort_room)room;
			struct cohort_engine *e = rig_engine(&ep);
			rig_job(&j, 12, 4 * size, 0);
			if (k == 1)
				j.p.n_prompt = 4 * size - 1, j.p.max_tokens = 1;
			if (k == 2 && room == COHORT_ROOM_OVERCOMMIT)
				j.p.n_prompt = 3 * size + 1, j.p.max_tokens = 3, j.p.n_outputs = 4;
			struct cohort_request *r = rig_submit(e, &j);
			rig_run(e);
			rig_check(r, &j);
			cohort_request_free(r);
			rig_check_empty(e, 4);
			cohort_engine_free(e);
		}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
			cmocka_unit_test(open_arguments),
			cmocka_unit_test(context_of_its_own),
			cmocka_unit_test(submit_arguments),
			cmocka_unit_test(request_arguments),
			cmocka_unit_test(submit_refuses_beyond_queue_and_context),
			cmocka_unit_test(open_end),
			cmocka_unit_test(closed_engine_refuses_submits),
			cmocka_unit_test(callbacks_have_the_events_of_readers),
			cmocka_unit_test(unfinished_stop),
			cmocka_unit_test(no_text),
			cmocka_unit_test(most_slots),
			cmocka_unit_test(prompt_logprobs),
			cmocka_unit_test(embeddings_beside_generation),
			cmocka_unit_test(end_tokens_and_stop_tokens),
			cmocka_unit_test(two_outputs_bound_by_a_grammar),
			cmocka_unit_test(outputs_share),
			cmocka_unit_test(whole_cache),
	};
	return cmocka_run_group_tests_name("engine_api", tests, rig_set_up, rig_tear_down);
}
