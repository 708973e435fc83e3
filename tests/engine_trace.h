/* A random trace for the engine's core: its requests, and what is heard of each of them.
 *
 * Everything that a request is told is compared at once with what the language model of engine_machine.h makes of the
 * request alone; what it took (rows, time, tokens after a cancel) when it is done. */
#ifndef TESTS_ENGINE_TRACE_H
#define TESTS_ENGINE_TRACE_H

#include "engine_machine.h"
#include "engine_strategies.h"

enum { JOBS_MAX = 32, TICKS_MAX = 20000, BOOKS = 3 };

/* What an output was heard to say. */
struct heard {
	uint64_t value; /* what the language model makes of it so far */
	int32_t n_tokens;
	cohort_token last;
	bool ended;
	enum cohort_finish finish;
	double last_at; /* its last token */
	int32_t n_preempted;
};

struct job {
	struct trace *t;
	struct cohort_request_params p;
	cohort_token prompt[SIM_POS];
	cohort_token stop_tokens[2];
	double arrives;
	int32_t poison; /* the position that cannot be computed; -1: none */
	bool poison_named, free_early, reads, follows;

	struct cohort_request *r; /* NULL: not submitted, or given back */
	struct heard out[SIM_SLOTS];
	bool submitted, refused, admitted, cancelled, done, prompt_heard;
	int32_t n_max;
	int32_t n_before; /* requests that waited when it came */
	int32_t n_at_cancel; /* tokens */
	int64_t n_rows; /* computed for it */
	double queued_s, stay_s;
};

/* What is remembered of a slot from one tick to the next. */
struct watch {
	const struct stream *s;
	enum cohort_slot_state state;
	int32_t n_waited; /* ticks without a row */
};

struct trace {
	struct core core;
	struct sim m;
	struct planner planner;
	struct rng rng;
	struct core_limits lim;
	cohort_token books[BOOKS][SIM_POS];
	struct job jobs[JOBS_MAX];
	int32_t n_jobs, n_arrived;
	double cancel_p, tick_s_most;
	bool shut, any_failed;
	bool flaky; /* the machine has no room now and then, and loses what was saved */
	uint64_t n_submitted_before;
	double disturbed_at; /* the strategy changed, or was not followed */
	struct watch watch[SIM_SLOTS];
	uint64_t n_parked_before, n_fallbacks_before;
};

/* How often things happened over all traces of a test: a property of what never happens proves nothing. */
static struct {
	int traces, ticks, rows, requests, parked, resumed, swapped, evicted, hits, cached, forks, fallbacks, failed,
			waits, copies, gone, ended[COHORT_FINISH_SHUTDOWN + 1], rule[RULE_COUNT];
} seen;

static inline uint32_t draw(struct trace *t, uint32_t n)
{
	return rng_u32(&t->rng) % n;
}

static inline int32_t draw_in(struct trace *t, int32_t lo, int32_t hi)
{
	return lo + (int32_t)draw(t, (uint32_t)(hi - lo + 1));
}

static inline bool chance(struct trace *t, double p)
{
	return rng_u32(&t->rng) < p * 4294967296.0;
}

/* ---- Hearing ---- */

static inline uint64_t root_of(const struct job *j)
{
	const uint64_t root = sim_root(j->p.salt, j->p.adapter, j->p.adapter_scale);
	return j->t->m.encoder ? sim_root_encoder(root, j->p.n_prompt) : root;
}

static inline uint64_t value_of_prompt(const struct job *j)
{
	uint64_t v = root_of(j);
	for (int32_t i = 0; i < j->p.n_prompt; i++)
		v = sim_next(v, j->prompt[i]);
	return v;
}

static inline void hear_token(struct job *j, const struct cohort_event *e)
{
	struct trace *t = j->t;
	struct heard *h = &j->out[e->output];
	const struct stream *s = &j->r->streams[e->output];
	float logits[SIM_VOCAB], logprob = 0;

	sim_check(&t->m, !h->ended && e->index == h->n_tokens, "token %d of output %d came when it had %d", e->index,
			e->output, h->n_tokens);
	sim_logits(h->value, logits);
	sim_check(&t->m, e->token == sim_pick(NULL, logits, e->output),
			"request %d said %d as token %d of output %d; alone it says %d", (int)(j - t->jobs), e->token,
			e->index, e->output, sim_pick(NULL, logits, e->output));
	if (j->p.n_logprobs >= 0) {
		assert_int_equal(cohort_logprobs_get(logits, SIM_VOCAB, e->token, &logprob, NULL, 0, NULL, NULL),
				COHORT_OK);
		sim_check(&t->m, logprob == e->logprob, "a token's log-probability is %g, expected %g", e->logprob,
				logprob);
	}
	/* Readers hear late; only who is called back knows when. */
	const double k = planner_decode_wait(&t->planner, t->core.planner.strategy, t->lim.n_slots, t->lim.budget);
	if (!j->reads && h->n_tokens > 0 && h->n_preempted == j->r->n_preempted && h->last_at > t->disturbed_at &&
			k > 0 && !t->any_failed && !t->m.n_failed)
		sim_check(&t->m, t->m.now - h->last_at <= k * t->tick_s_most + 1e-9,
				"%g s between two tokens of slot %d; at most %g ticks of %g s", t->m.now - h->last_at,
				s->slot, k, t->tick_s_most);
	h->last_at = s->phase == STREAM_PREEMPTED ? -1 : t->m.now; /* right after it was sampled */
	h->n_preempted = j->r->n_preempted;
	h->value = sim_next(h->value, e->token);
	h->last = e->token;
	h->n_tokens++;
}

static inline bool is_stop(const struct job *j, cohort_token token)
{
	for (int32_t i = 0; i < j->p.n_stop_tokens; i++)
		if (j->stop_tokens[i] == token)
			return true;
	return false;
}

static inline bool has_limit(const struct job *j)
{
	return j->p.queue_limit_s > 0 || j->p.prefill_limit_s > 0 || j->p.decode_limit_s > 0 || j->p.total_limit_s > 0;
}

static inline void hear_end(struct job *j, const struct cohort_event *e)
{
	struct trace *t = j->t;
	struct heard *h = &j->out[e->output];
	const bool stop = h->n_tokens > 0 && is_stop(j, h->last), full = h->n_tokens == j->n_max;
	bool right = false;

	sim_check(&t->m, !h->ended, "output %d ended twice", e->output);
	h->ended = true;
	h->finish = e->finish;
	switch (e->finish) {
	case COHORT_FINISH_STOP: right = stop; break;
	case COHORT_FINISH_LENGTH: right = full && !stop && j->p.task == COHORT_TASK_GENERATE; break;
	case COHORT_FINISH_EMBEDDED: right = j->p.task == COHORT_TASK_EMBED && j->prompt_heard; break;
	case COHORT_FINISH_CANCELLED: right = j->cancelled && !stop && (!full || j->n_max == 0); break;
	case COHORT_FINISH_TIMEOUT:
		right = has_limit(j) && e->error && e->error->status == COHORT_E_LIMIT && !stop &&
				(!full || j->n_max == 0);
		break;
	case COHORT_FINISH_ERROR:
		right = (j->poison >= 0 || t->flaky) && e->error && !stop && (!full || j->n_max == 0);
		break;
	case COHORT_FINISH_SHUTDOWN: right = t->shut; break;
	default: break;
	}
	sim_check(&t->m, right, "request %d, output %d: %s after %d of %d tokens, the last one %d%s%s",
			(int)(j - t->jobs), e->output, cohort_finish_name(e->finish), h->n_tokens, j->n_max, h->last,
			e->error ? ": " : "", e->error ? e->error->text : "");
}

static inline void hear_prompt(struct job *j, const struct cohort_event *e)
{
	struct trace *t = j->t;
	uint64_t v = root_of(j);
	float logits[SIM_VOCAB];

	sim_check(&t->m, !j->prompt_heard, "the prompt was told twice");
	j->prompt_heard = true;
	sim_check(&t->m, e->n_prompt == j->p.n_prompt, "a prompt of %d tokens has %d", j->p.n_prompt, e->n_prompt);
	for (int32_t i = 0; i < j->p.n_prompt; i++) {
		float p = 0;
		if (i)
			assert_int_equal(cohort_logprobs_get(logits, SIM_VOCAB, j->prompt[i], &p, NULL, 0, NULL, NULL),
					COHORT_OK);
		sim_check(&t->m, p == e->prompt_logprobs[i], "token %d of a prompt has log-probability %g, expected %g",
				i, e->prompt_logprobs[i], p);
		v = sim_next(v, j->prompt[i]);
		sim_logits(v, logits);
	}
}

static inline void hear_embedding(struct job *j, const struct cohort_event *e)
{
	struct trace *t = j->t;
	float want[SIM_EMBD] = {0}, row[SIM_EMBD];
	uint64_t v = root_of(j);

	sim_check(&t->m, !j->prompt_heard && e->n_embd == SIM_EMBD, "an embedding was told twice");
	j->prompt_heard = true;
	for (int32_t i = 0; i < j->p.n_prompt; i++) {
		v = sim_next(v, j->prompt[i]);
		sim_embedding(v, row);
		for (int k = 0; k < SIM_EMBD; k++) {
			if (j->p.pooling == COHORT_POOL_MEAN)
				want[k] += row[k];
			else if (j->p.pooling == COHORT_POOL_LAST || i == 0)
				want[k] = row[k];
		}
	}
	for (int k = 0; k < SIM_EMBD; k++) {
		want[k] = j->p.pooling == COHORT_POOL_MEAN ? want[k] / (float)j->p.n_prompt : want[k];
		sim_check(&t->m, want[k] == e->embedding[k], "number %d of an embedding is %g, expected %g", k,
				e->embedding[k], want[k]);
	}
}

/* What it took to compute the request, when nothing came in between. */
static inline void check_rows(const struct job *j)
{
	int64_t n = j->p.n_prompt - j->r->n_cached_prompt;

	if (j->r->n_preempted > 0)
		return;
	for (int32_t i = 0; i < j->p.n_outputs; i++) {
		if (j->out[i].finish != COHORT_FINISH_STOP && j->out[i].finish != COHORT_FINISH_LENGTH &&
				j->out[i].finish != COHORT_FINISH_EMBEDDED)
			return;
		n += j->out[i].n_tokens > 1 ? j->out[i].n_tokens - 1 : 0;
	}
	sim_check(&j->t->m, j->n_rows == n, "request %d took %lld rows; it has %lld", (int)(j - j->t->jobs),
			(long long)j->n_rows, (long long)n);
}

/* Who has a limit does not stay longer than that, and the tick in which it passes. */
static inline void check_times(const struct job *j)
{
	const struct trace *t = j->t;
	const struct cohort_request *r = j->r;
	const double stay = r->at_end - r->at_came, slack = t->tick_s_most + 1e-9;

	if (t->any_failed || t->m.n_failed)
		return;
	if (j->p.total_limit_s > 0)
		sim_check(&t->m, stay <= j->p.total_limit_s + slack, "%g s with a limit of %g", stay,
				j->p.total_limit_s);
	if (j->p.queue_limit_s > 0)
		sim_check(&t->m,
				(r->at_admitted < 0 ? stay - slack : r->at_admitted - r->at_came) <= j->p.queue_limit_s,
				"a limit of %g s in the queue was passed", j->p.queue_limit_s);
	if (r->at_admitted >= 0 && j->p.prefill_limit_s > 0)
		sim_check(&t->m,
				(r->at_first < 0 ? r->at_end : r->at_first) - r->at_admitted <=
						j->p.prefill_limit_s + slack,
				"a limit of %g s for the prompt was passed", j->p.prefill_limit_s);
	if (r->at_first >= 0 && j->p.decode_limit_s > 0)
		sim_check(&t->m, r->at_end - r->at_first <= j->p.decode_limit_s + slack, "a limit of %g s was passed",
				j->p.decode_limit_s);
}

static inline bool follow_up(struct trace *t, const struct job *before);

static inline void cancel(struct job *j);
static inline void submit(struct trace *t, struct job *j);

static inline void hear_done(struct job *j)
{
	struct trace *t = j->t;
	const struct cohort_request *r = j->r;
	int32_t n = 0;

	sim_check(&t->m, !j->done, "request %d is done twice", (int)(j - t->jobs));
	j->done = true;
	for (int32_t i = 0; i < j->p.n_outputs; i++) {
		sim_check(&t->m, j->out[i].ended, "request %d is done, its output %d is not", (int)(j - t->jobs), i);
		n += j->out[i].n_tokens;
		seen.ended[j->out[i].finish]++;
	}
	sim_check(&t->m, r->n_live == 0 && r->stats.finish != COHORT_FINISH_NONE && r->stats.n_generated == n,
			"request %d is done with %d live outputs and %d of %d tokens", (int)(j - t->jobs), r->n_live,
			r->stats.n_generated, n);
	sim_check(&t->m, !j->cancelled || n == j->n_at_cancel, "%d tokens after request %d was cancelled",
			n - j->n_at_cancel, (int)(j - t->jobs));
	sim_check(&t->m,
			r->n_cached_prompt < j->p.n_prompt &&
					(!(j->p.no_reuse || j->p.prompt_logprobs) || r->n_cached_prompt == 0),
			"%d of %d tokens were reused", r->n_cached_prompt, j->p.n_prompt);
	check_rows(j);
	check_times(j);
	j->admitted = r->at_admitted >= 0;
	j->queued_s = r->stats.queued_s;
	j->stay_s = j->admitted ? r->at_end - r->at_admitted : 0;
	seen.forks += j->p.n_outputs > 1 && r->forked;
	if (j->follows && !t->shut && follow_up(t, j) && chance(t, 0.3))
		submit(t, &t->jobs[t->n_jobs - 1]); /* callbacks may */
}

static inline void hear(struct cohort_request *r, const struct cohort_event *e, void *user)
{
	struct job *j = user;

	sim_check(&j->t->m, j->r == r && !j->done, "request %d is told something after its end", (int)(j - j->t->jobs));
	switch (e->kind) {
	case COHORT_EVENT_TOKEN:
		hear_token(j, e);
		if (j->t->cancel_p > 0 && chance(j->t, 0.01)) /* callbacks may */
			cancel(&j->t->jobs[draw(j->t, (uint32_t)j->t->n_jobs)]);
		break;
	case COHORT_EVENT_END: hear_end(j, e); break;
	case COHORT_EVENT_PROMPT: hear_prompt(j, e); break;
	case COHORT_EVENT_EMBEDDING: hear_embedding(j, e); break;
	case COHORT_EVENT_DONE:
		hear_done(j);
		if (j->free_early) {
			j->r = NULL;
			cohort_request_free(r);
		}
		break;
	default: sim_fail(&j->t->m, "an event of kind %d", (int)e->kind);
	}
}

/* Asks for the events of a request that is not called back. */
static inline void read_events(struct job *j)
{
	struct cohort_event e;

	while (j->r && !j->done) {
		assert_int_equal(cohort_request_next(j->r, 0, &e, NULL), COHORT_OK);
		if (e.kind == COHORT_EVENT_NONE)
			return;
		hear(j->r, &e, j);
	}
}

/* ---- Requests ---- */

static inline void cancel(struct job *j)
{
	if (!j->r || j->done || j->cancelled || j->r->done)
		return;
	j->cancelled = true;
	j->n_at_cancel = 0;
	for (int32_t i = 0; i < j->p.n_outputs; i++)
		j->n_at_cancel += stream_n_generated(&j->r->streams[i]);
	cohort_request_cancel(j->r);
}

static inline void fill_prompt(struct trace *t, struct job *j)
{
	const cohort_token *book = t->books[chance(t, 0.6) ? 0 : draw(t, BOOKS)];
	int32_t n = chance(t, 0.2) ? draw_in(t, 1, 5) : draw_in(t, 4, 28);

	if (n > t->lim.n_pos_max)
		n = t->lim.n_pos_max;
	memcpy(j->prompt, book, (size_t)n * sizeof *book);
	for (int32_t i = chance(t, 0.4) ? draw_in(t, 0, n) : n; i < n; i++)
		j->prompt[i] = (cohort_token)draw(t, SIM_VOCAB);
	j->p.n_prompt = n;
}

static inline double draw_limit(struct trace *t)
{
	return chance(t, 0.06) ? 0.01 * draw_in(t, 1, 150) : 0;
}

static inline struct job *new_job(struct trace *t, double arrives)
{
	struct job *j = &t->jobs[t->n_jobs++];

	*j = (struct job){.t = t, .arrives = arrives, .poison = -1};
	cohort_request_params_init(&j->p);
	fill_prompt(t, j);
	j->p.prompt = j->prompt;
	j->p.max_tokens = chance(t, 0.1) ? -1 : chance(t, 0.1) ? 0 : draw_in(t, 1, 14);
	j->p.n_outputs = chance(t, 0.25) ? draw_in(t, 1, t->lim.n_slots) : 1;
	if (t->lim.encoder || chance(t, 0.08)) {
		static const enum cohort_pooling poolings[] = {COHORT_POOL_MEAN, COHORT_POOL_CLS, COHORT_POOL_LAST};
		j->p.task = COHORT_TASK_EMBED;
		j->p.pooling = poolings[draw(t, 3)];
		j->p.n_outputs = 1;
	}
	j->p.stop_tokens = j->stop_tokens;
	j->p.n_stop_tokens = chance(t, 0.3) ? draw_in(t, 1, 2) : 0;
	for (int i = 0; i < 2; i++)
		j->stop_tokens[i] = (cohort_token)draw(t, SIM_VOCAB);
	j->p.n_logprobs = chance(t, 0.05) ? 0 : -1;
	j->p.prompt_logprobs = j->p.task == COHORT_TASK_GENERATE && chance(t, 0.05);
	j->p.priority = chance(t, 0.3) ? draw_in(t, -1, 2) : 0;
	j->p.client = draw(t, 3);
	j->p.session = chance(t, 0.4) ? 1 + draw(t, 3) : 0;
	j->p.salt = chance(t, 0.2) ? 1 + draw(t, 2) : 0;
	j->p.no_reuse = chance(t, 0.08);
	if (chance(t, 0.08)) {
		j->p.adapter = (const struct cohort_adapter *)(uintptr_t)(4096 *
				draw_in(t, 1, 2)); /* nobody looks into it */
		j->p.adapter_scale = chance(t, 0.5) ? 1.0f : 0.5f;
	}
	j->p.queue_limit_s = draw_limit(t);
	j->p.prefill_limit_s = draw_limit(t);
	j->p.decode_limit_s = draw_limit(t);
	j->p.total_limit_s = draw_limit(t);
	j->reads = chance(t, 0.2);
	j->p.on_event = j->reads ? NULL : hear;
	j->p.user = j;
	j->free_early = !j->reads && chance(t, 0.3);
	j->follows = chance(t, 0.5);
	if (chance(t, 0.02)) {
		j->poison = draw_in(t, 0, j->p.n_prompt + 6);
		j->poison_named = chance(t, 0.5);
	}
	return j;
}

/* A conversation goes on with all that was said. */
static inline bool follow_up(struct trace *t, const struct job *before)
{
	const struct stream *s = &before->r->streams[0];
	int32_t n = s->n_known;

	if (!before->p.session || t->n_jobs == JOBS_MAX || before->p.task != COHORT_TASK_GENERATE ||
			n > t->lim.n_pos_max - 3)
		return false;
	struct job *j = new_job(t, t->m.now + 0.01 * draw_in(t, 0, 30));
	memcpy(j->prompt, s->known, (size_t)n * sizeof *s->known);
	for (const int32_t more = draw_in(t, 0, 3); n < s->n_known + more; n++)
		j->prompt[n] = (cohort_token)draw(t, SIM_VOCAB);
	j->p.n_prompt = n;
	j->p.session = before->p.session;
	j->p.salt = before->p.salt;
	j->p.adapter = before->p.adapter;
	j->p.adapter_scale = before->p.adapter_scale;
	return true;
}

static inline void submit(struct trace *t, struct job *j)
{
	struct cohort_err err = {.rule = NULL};
	struct cohort_request *r = NULL;

	j->submitted = true;
	j->n_before = (int32_t)queue_depth(t->core.shared.queue);
	enum cohort_status st = core_may_submit(&t->core, j->p.client, j->p.n_prompt, &err);
	if (!st)
		st = request_open(&t->core, &j->p, &r, &err);
	if (!st) {
		j->r = r;
		j->n_max = r->n_max;
		for (int i = 0; i < SIM_SLOTS; i++)
			j->out[i].value = value_of_prompt(j);
		st = core_submit(&t->core, r, &err);
		sim_check(&t->m, !st, "refused at last: %s", err.text);
	}
	if (st) {
		sim_check(&t->m, st == COHORT_E_LIMIT && err.rule, "request %d is refused: %s", (int)(j - t->jobs),
				err.text);
		j->refused = true;
	}
}

#endif
