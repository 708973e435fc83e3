/* Scenes: engines ticked by hand and by their own thread, cached prompts in and out, strategies, the simulation. */
#include "torture.h"

#include "cohort_engine.h"

#include <stdlib.h>
#include <string.h>

static void small_engine(struct cohort_engine_params *ep)
{
	cohort_engine_params_init(ep);
	ep->n_slots = 3;
	ep->context.n_ctx = 320;
	ep->context.n_batch = 32;
	ep->context.n_ubatch = 16;
	ep->context.n_threads = 1;
	ep->context.outputs = COHORT_OUTPUT_LOGITS | COHORT_OUTPUT_EMBEDDINGS;
	ep->keep_tokens = true;
	ep->manual = true;
}

static void small_request(struct cohort_request_params *rp, int32_t n_prompt, int32_t n_tokens)
{
	static const char *const stops[] = {"\x01\x02", "zzzzzz"};
	static const cohort_token ends[] = {2};

	cohort_request_params_init(rp);
	rp->prompt = stage.tokens;
	rp->n_prompt = n_prompt;
	rp->max_tokens = n_tokens;
	rp->ignore_eos = true;
	rp->stops = stops;
	rp->n_stops = 2;
	rp->stop_tokens = ends;
	rp->n_stop_tokens = 1;
	rp->sampler.seed = 5;
	rp->sampler.repeat_penalty = 1.1f;
}

static bool run_to_end(struct life *l, struct cohort_engine *e, bool manual, struct cohort_request *r)
{
	bool over = false;

	for (int i = 0; !over; i++) {
		if (manual)
			TRY(cohort_engine_tick(e, &over, &l->err));
		else
			TRY(cohort_request_wait(r, 10, &over, &l->err));
		if (i > 2000) {
			life_complain(l, "a request that does not end");
			return false;
		}
	}
	return true;
out:
	return false;
}

/* All of its events, then its outputs. An output that ended in an error has that error's status. */
static bool read_all(struct life *l, struct cohort_request *r, int32_t n_outputs)
{
	struct cohort_event ev = {0};
	struct cohort_output o;
	enum cohort_status st = COHORT_OK;
	int n = 0;

	while (ev.kind != COHORT_EVENT_DONE && n++ < 1000) {
		TRY(cohort_request_next(r, 0, &ev, &l->err));
		if (ev.kind == COHORT_EVENT_EMBEDDING)
			life_mix(l, ev.embedding, (size_t)ev.n_embd * sizeof(float));
		if (ev.kind == COHORT_EVENT_END && ev.error && !st) {
			st = ev.error->status;
			l->err = *ev.error;
		}
	}
	if (life_failed(l, st))
		return false;
	for (int32_t i = 0; i < n_outputs; i++) {
		TRY(cohort_request_output_get(r, i, &o, &l->err));
		life_mix(l, o.tokens, (size_t)o.n_tokens * sizeof *o.tokens);
		life_mix(l, o.text, o.n_bytes);
		life_mix_number(l, o.finish);
	}
	return true;
out:
	return false;
}

/* One request from its submission to what it said; a second one where the first ended in an error. False: given up. */
static bool ask(struct life *l, struct cohort_engine *e, bool manual, const struct cohort_request_params *rp)
{
	struct cohort_request *r = NULL;
	const uint64_t before = l->hash;

	for (int i = 0; i < 2; i++) {
		l->hash = before;
		TRY(cohort_engine_submit(e, rp, &r, &l->err));
		const bool ran = run_to_end(l, e, manual, r), said = ran && read_all(l, r, rp->n_outputs);
		cohort_request_free(r);
		if (said)
			return true;
		if (!l->again)
			return false;
	}
out:
	return false;
}

/* ---- By hand ---- */

static void engine(struct life *l)
{
	struct cohort_engine_params ep;
	struct cohort_request_params rp;
	struct cohort_engine *e = NULL;
	struct cohort_request *r = NULL;
	bool idle;

	small_engine(&ep);
	ep.context.n_threads = 2;
	TRY(cohort_engine_open(stage.model, &ep, &e, &l->err));
	small_request(&rp, 70, 6);
	rp.n_outputs = 2;
	rp.n_logprobs = 3;
	rp.chain_logprobs = true;
	if (!ask(l, e, true, &rp))
		goto out;
	/* The same, of which much is cached now, and with the prompt's own probabilities. */
	rp.prompt_logprobs = true;
	rp.session = 4;
	if (!ask(l, e, true, &rp))
		goto out;
	small_request(&rp, 20, 0);
	rp.task = COHORT_TASK_EMBED;
	if (!ask(l, e, true, &rp))
		goto out;
	small_request(&rp, 30, 100);
	TRY(cohort_engine_submit(e, &rp, &r, &l->err));
	for (int i = 0; i < 5; i++)
		TRY(cohort_engine_tick(e, &idle, &l->err));
	TRY(cohort_engine_strategy_set(e, cohort_strategy_get(1), &l->err));
	cohort_request_cancel(r);
	TRY(cohort_engine_tick(e, &idle, &l->err));
	cohort_engine_cache_clear(e);
	LIVED();
out:
	cohort_request_free(r);
	cohort_engine_free(e);
}

static void cache(struct life *l)
{
	struct cohort_engine_params ep;
	struct cohort_request_params rp;
	struct cohort_engine *e = NULL, *other = NULL;
	struct cohort_cache_key key = {0};
	cohort_token tokens[256];
	void *bytes = NULL;
	size_t n_bytes = 0;
	int32_t n = 0;

	small_engine(&ep);
	TRY(cohort_engine_open(stage.model, &ep, &e, &l->err));
	TRY(cohort_engine_open(stage.model, &ep, &other, &l->err));
	small_request(&rp, 70, 4);
	rp.session = 3;
	if (!ask(l, e, true, &rp))
		goto out;
	for (cohort_seq s = 0; s < 3 && key.n_tokens == 0; s++)
		TRY(cohort_engine_slot_tokens(e, s, tokens, 256, &key, &l->err));
	life_mix(l, tokens, (size_t)key.n_tokens * sizeof *tokens);
	TRY(cohort_engine_cache_save(e, &key, &bytes, &n_bytes, &n, &l->err));
	life_mix_number(l, n);
	life_mix(l, bytes, n_bytes);
	TRY(cohort_engine_cache_load(other, &key, bytes, n_bytes, &n, &l->err));
	life_mix_number(l, n);
	if (!ask(l, other, true, &rp))
		goto out;
	TRY(cohort_engine_cache_drop(other, &key, &n, &l->err));
	if (!ask(l, other, true, &rp))
		goto out;
	LIVED();
out:
	cohort_cache_free(bytes);
	cohort_engine_free(e);
	cohort_engine_free(other);
}

/* Too little room for all: slots are parked, swapped out and brought back. */
static void parking(struct life *l)
{
	struct cohort_engine_params ep;
	struct cohort_request_params rp[3];
	struct cohort_request *r[3] = {NULL};
	struct cohort_engine *e = NULL;
	const uint64_t before = l->hash;
	bool said = false;

	small_engine(&ep);
	ep.context.n_ctx = 160;
	ep.room = COHORT_ROOM_OVERCOMMIT;
	ep.swap_bytes = 1 << 20;
	TRY(cohort_engine_open(stage.model, &ep, &e, &l->err));
	for (int round = 0; round < 2 && !said; round++) {
		l->hash = before;
		for (int i = 0; i < 3; i++) {
			small_request(&rp[i], 40, 30);
			rp[i].prompt += 3 * i;
			rp[i].no_reuse = i == 2;
			cohort_request_free(r[i]);
			r[i] = NULL;
			TRY(cohort_engine_submit(e, &rp[i], &r[i], &l->err));
		}
		said = run_to_end(l, e, true, NULL);
		for (int i = 0; i < 3; i++)
			said = said && read_all(l, r[i], 1);
		if (!said && !l->again)
			goto out;
	}
	if (said)
		LIVED();
out:
	for (int i = 0; i < 3; i++)
		cohort_request_free(r[i]);
	cohort_engine_free(e);
}

/* ---- By its thread ---- */

static void engine_thread(struct life *l)
{
	struct cohort_engine_params ep;
	struct cohort_request_params rp;
	struct cohort_engine *e = NULL;
	struct cohort_request *r = NULL;
	struct cohort_slot_info slots[3];
	bool clean = false;

	small_engine(&ep);
	ep.manual = false;
	ep.context.n_threads = 2;
	TRY(cohort_engine_open(stage.model, &ep, &e, &l->err));
	small_request(&rp, 50, 6);
	rp.n_outputs = 2;
	if (!ask(l, e, false, &rp))
		goto out;
	rp.max_tokens = 100;
	rp.n_outputs = 1;
	TRY(cohort_engine_submit(e, &rp, &r, &l->err));
	life_mix_number(l, (int64_t)cohort_engine_slots_get(e, slots, 3));
	cohort_request_cancel(r);
	TRY(cohort_engine_drain(e, 20, &clean, &l->err));
	if (!clean)
		life_complain(l, "it did not drain");
	LIVED();
out:
	cohort_engine_free(e);
	cohort_request_free(r); /* handles outlive the engine */
}

/* ---- Strategies ---- */

static void strategy(struct life *l)
{
	const struct cohort_strategy *s = NULL;
	struct cohort_strategy_file *file = NULL;
	struct cohort_engine_params ep;
	struct cohort_request_params rp;
	struct cohort_engine *e = NULL;

	TRY(cohort_strategy_open(stage.module, "shortest-first", &file, &s, &l->err));
	life_mix(l, s->name, strlen(s->name));
	small_engine(&ep);
	ep.strategy = s;
	TRY(cohort_engine_open(stage.model, &ep, &e, &l->err));
	small_request(&rp, 40, 3);
	if (!ask(l, e, true, &rp))
		goto out;
	LIVED();
out:
	cohort_engine_free(e);
	cohort_strategy_file_free(file);
}

static double cost(void *user, int32_t n_prefill, int32_t n_decode)
{
	(void)user;
	return 0.001 * n_prefill + 0.002 * n_decode;
}

static void simulation(struct life *l)
{
	static struct cohort_sim_totals totals;
	struct cohort_sim_params sp;
	struct cohort_sim_request requests[12];
	struct cohort_sim_outcome outcomes[12];

	cohort_sim_params_init(&sp);
	sp.n_slots = 4;
	sp.n_ctx = 512;
	sp.cost_s = cost;
	sp.room = COHORT_ROOM_OVERCOMMIT;
	for (int32_t i = 0; i < 12; i++)
		requests[i] = (struct cohort_sim_request){.arrival_s = 0.01 * i,
				.n_prompt = 20 + 7 * i,
				.n_output = 10,
				.client = (uint64_t)i % 3,
				.group = (uint64_t)i % 2,
				.n_shared = 10};
	TRY(cohort_simulate(&sp, requests, 12, outcomes, &totals, &l->err));
	for (int i = 0; i < 12; i++)
		life_mix(l, &outcomes[i].end_s, sizeof outcomes[i].end_s);
	life_mix_number(l, (int64_t)totals.n_ticks);
	LIVED();
out:
	return;
}

const struct scene scenes_engine[] = {
		{.name = "engine", .live = engine},
		{.name = "cache", .live = cache},
		{.name = "parking", .live = parking},
		{.name = "engine-thread", .live = engine_thread},
		{.name = "strategy", .live = strategy, .loads = true},
		{.name = "simulation", .live = simulation},
		{.name = NULL},
};
