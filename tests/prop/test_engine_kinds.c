/* The engine over other kinds of models: states (mamba), sliding windows (gemma3, phi3), encoders (bert). Prompts that
 * begin alike, sessions, several outputs, embeddings among them, little room and cancels: each request says what it
 * says alone.
 *
 * Shown red by planted faults: the state of another block copied, pieces that outrun what a window still has to share,
 * embeddings of all rows that reuse some, a restored stream that skips a token (generation_of_all_kinds_of_models);
 * the second row taken for the first (encoding_in_small_ticks). */
#include "arch_case.h"
#include "engine_rig.h"

static struct rng rng;

enum { N_ROUNDS = 12 };

static void open_model(const char *name)
{
	struct cohort_err err;
	char path[128];

	if (cohort_model_open(arch_path(path, sizeof path, name, "gguf"), NULL, &rig_model, &err))
		fail_msg("%s", err.text);
}

static void close_model(void)
{
	cohort_context_free(rig_alone);
	cohort_model_free(rig_model);
	rig_alone = NULL;
	rig_model = NULL;
}

static void check_embedding(struct cohort_request *r, const struct job *j)
{
	struct cohort_model_info info = {.struct_size = sizeof info};
	struct cohort_context_params cp;
	struct cohort_context *ctx;
	struct cohort_event ev;

	cohort_model_info_get(rig_model, &info);
	cohort_context_params_init(&cp);
	cp.outputs = COHORT_OUTPUT_EMBEDDINGS;
	cp.pooling = j->p.pooling;
	cp.n_threads = 1;
	assert_int_equal(cohort_context_open(rig_model, &cp, &ctx, NULL), COHORT_OK);
	struct cohort_batch b;
	assert_int_equal(cohort_batch_view(&b, j->prompt, j->p.n_prompt, NULL), COHORT_OK);
	assert_int_equal(info.encoder ? cohort_encode(ctx, &b, NULL) : cohort_decode(ctx, &b, NULL), COHORT_OK);
	assert_int_equal(cohort_request_next(r, 0, &ev, NULL), COHORT_OK);
	assert_int_equal(ev.kind, COHORT_EVENT_EMBEDDING);
	assert_memory_equal(ev.embedding, cohort_embeddings_seq_get(ctx, 0, NULL),
			(size_t)info.n_embd * sizeof *ev.embedding);
	assert_int_equal(rig_output(r, 0).finish, COHORT_FINISH_EMBEDDED);
	cohort_batch_release(&b);
	cohort_context_free(ctx);
}

static const enum cohort_pooling poolings[] = {COHORT_POOL_MEAN, COHORT_POOL_CLS, COHORT_POOL_LAST};

static void run_some(const struct cohort_engine_params *ep, int32_t n_most)
{
	enum { N = 24 };
	struct cohort_request *r[N];
	static struct job j[N];
	struct cohort_engine *e = rig_engine(ep);

	for (int i = 0; i < N; i++) {
		const int32_t n_prompt = pick(&rng, 1, n_most - 13);
		rig_job(&j[i], (uint64_t)pick(&rng, 0, 2), n_prompt, pick(&rng, 0, 12));
		if (i % 3 == 2) /* parts from the others somewhere */
			j[i].prompt[pick(&rng, 0, n_prompt - 1)] = 7;
		j[i].p.sampler.seed = (uint64_t)i;
		j[i].p.n_outputs = pick(&rng, 0, 3) ? 1 : 3;
		j[i].p.session = (uint64_t)pick(&rng, 0, 3);
		j[i].p.n_logprobs = 0;
		j[i].p.prompt_logprobs = pick(&rng, 0, 6) == 0;
		if (i % 5 == 4) {
			j[i].p.task = COHORT_TASK_EMBED;
			j[i].p.pooling = poolings[pick(&rng, 0, 2)];
			j[i].p.n_outputs = 1;
			j[i].p.prompt_logprobs = false;
		}
		r[i] = rig_submit(e, &j[i]);
		for (int k = pick(&rng, 0, 3); k > 0; k--)
			rig_tick(e);
		if (i % 7 == 6)
			cohort_request_cancel(r[i - 1]);
	}
	rig_run(e);
	for (int i = 0; i < N; i++) {
		const bool cancelled = rig_output(r[i], 0).finish == COHORT_FINISH_CANCELLED;
		if (j[i].p.task == COHORT_TASK_EMBED && !cancelled)
			check_embedding(r[i], &j[i]);
		for (int32_t k = 0; j[i].p.task == COHORT_TASK_GENERATE && k < j[i].p.n_outputs; k++)
			rig_check_output(r[i], &j[i], k, rig_output(r[i], k).finish == COHORT_FINISH_CANCELLED);
		cohort_request_free(r[i]);
	}
	const struct cohort_engine_stats s = rig_stats(e);
	assert_int_equal(s.n_ended[COHORT_FINISH_ERROR], 0);
	assert_int_equal(s.n_fallbacks, 0);
	assert_true(s.n_cached_tokens > 0);
	rig_check_empty(e, ep->n_slots);
	cohort_engine_free(e);
}

static void generation_of_all_kinds_of_models(void **state)
{
	static const char *const names[] = {"llama-base", "mamba", "gemma3", "phi3-window"};

	(void)state;
	rng_init(&rng, 1, 1);
	for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
		struct cohort_model_info info = {.struct_size = sizeof info};
		struct cohort_engine_params ep;
		open_model(names[i]);
		assert_int_equal(rig_open_alone(), 0);
		cohort_model_info_get(rig_model, &info);
		const int32_t n_most = info.n_ctx_train < 160 ? info.n_ctx_train : 160;
		for (int k = 0; k < N_ROUNDS; k++) {
			rig_params(&ep);
			ep.context.outputs = COHORT_OUTPUT_LOGITS | COHORT_OUTPUT_EMBEDDINGS;
			ep.context.n_ctx = k % 4 < 2 ? 1024 : 256;
			ep.context.n_blocks = pool_blocks(ep.context.n_ctx, 0);
			ep.room = k % 4 < 2 ? COHORT_ROOM_RESERVE : COHORT_ROOM_OVERCOMMIT;
			ep.swap_bytes = k % 4 == 3 ? (size_t)4 << 20 : 0;
			ep.strategy = cohort_strategy_get((size_t)k % 3);
			ep.context.n_batch = k % 2 ? 32 : 48;
			ep.context.n_ubatch = k % 2 ? 16 : 48;
			run_some(&ep, n_most);
		}
		close_model();
	}
}

/* Texts of all lengths at once, in ticks smaller than they are. */
static void encoding_in_small_ticks(void **state)
{
	enum { N = 20 };
	struct cohort_engine_params ep;
	struct cohort_request *r[N];
	static struct job j[N];
	struct cohort_err err;

	(void)state;
	rng_init(&rng, 2, 2);
	open_model("bert");
	rig_params(&ep);
	ep.context.outputs = COHORT_OUTPUT_EMBEDDINGS;
	ep.context.n_batch = ep.context.n_ubatch = 40;
	ep.chunk_size = 7;
	ep.n_slots = 5;
	struct cohort_engine *e = rig_engine(&ep);
	for (int i = 0; i < N; i++) {
		rig_job(&j[i], (uint64_t)i, pick(&rng, 1, 40), 0);
		j[i].p.task = COHORT_TASK_EMBED;
		j[i].p.pooling = poolings[i % 3];
		r[i] = rig_submit(e, &j[i]);
	}
	rig_tick(e);
	cohort_request_cancel(r[3]);
	rig_run(e);
	for (int i = 0; i < N; i++) {
		if (i != 3 || rig_output(r[i], 0).finish != COHORT_FINISH_CANCELLED)
			check_embedding(r[i], &j[i]);
		cohort_request_free(r[i]);
	}
	rig_job(&j[0], 1, 41, 0);
	j[0].p.task = COHORT_TASK_EMBED;
	assert_int_equal(cohort_engine_submit(e, &j[0].p, &r[0], &err), COHORT_E_LIMIT);
	assert_string_equal(err.rule, "context");
	assert_int_equal(err.expected, 40);
	assert_int_equal(err.got, 41);
	rig_job(&j[0], 1, 4, 1);
	assert_int_equal(cohort_engine_submit(e, &j[0].p, &r[0], &err), COHORT_E_ARG);
	cohort_engine_free(e);
	close_model();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
			cmocka_unit_test(generation_of_all_kinds_of_models),
			cmocka_unit_test(encoding_in_small_ticks),
	};
	return cmocka_run_group_tests_name("engine_kinds", tests, arch_make_models, arch_remove_models);
}
