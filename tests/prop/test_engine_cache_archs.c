/* Saved prompts with small random models of every kind of memory: whatever a layer remembers, all positions, a window
 * of them or a state, another engine that loads it reuses as much as the one that computed it, and says the same.
 *
 * Shown red by planted faults: blocks loaded without their first (every model), states that are kept in the middle of a
 * block without a session (mamba), cells that a window let go and nobody misses (models with a window). */
#include "arch_case.h"
#include "cache_case.h"
#include "engine_rig.h"

static struct cohort_cache_key slot_key(struct cohort_engine *e, cohort_token *tokens, size_t n_max)
{
	struct cohort_cache_key key;
	struct cohort_err err;

	if (cohort_engine_slot_tokens(e, 0, tokens, n_max, &key, &err))
		fail_msg("%s", err.text);
	return key;
}

/* What session `session` saved there, loaded here; the next request of it reuses it. */
static void go_on(struct cohort_engine *a, struct cohort_engine *b, uint64_t session, uint64_t seed, int32_t n_prompt)
{
	static struct job j, next;
	cohort_token tokens[512];
	struct cohort_err err;
	size_t n_bytes;
	int32_t n_saved, n_loaded;
	void *bytes;

	rig_job(&j, seed, n_prompt, 9);
	j.p.n_logprobs = 0;
	j.p.session = session;
	rig_reused(a, &j);
	struct cohort_cache_key key = slot_key(a, tokens, 512);
	assert_int_equal(key.n_tokens, n_prompt + 9);
	if (cohort_engine_cache_save(a, &key, &bytes, &n_bytes, &n_saved, &err))
		fail_msg("%s", err.text);
	rig_job(&next, seed, n_prompt + 12, 6);
	memcpy(next.prompt, tokens, (size_t)key.n_tokens * sizeof *tokens);
	next.p.n_logprobs = 0;
	next.p.session = session;
	if (cohort_engine_cache_load(b, &key, bytes, n_bytes, &n_loaded, &err))
		fail_msg("%s", err.text);
	assert_int_equal(n_loaded, n_saved);
	assert_int_equal(n_saved, session ? n_prompt + 8 : n_saved / 32 * 32);
	const int32_t n_here = rig_reused(b, &next);
	assert_int_equal(n_here, n_saved);
	assert_true(n_here > 0 && n_here >= n_prompt / 32 * 32);
	assert_int_equal(rig_reused(a, &next), n_here);

	/* Without the session its tail is of no use, and to states nothing is. */
	key.session = 0;
	key.salt = 1;
	if (cohort_engine_cache_load(b, &key, bytes, n_bytes, &n_loaded, &err))
		fail_msg("%s", err.text);
	const int32_t n_whole = n_saved / 32 * 32;
	next.p.salt = 1;
	assert_int_equal(rig_reused(b, &next), n_loaded);
	assert_true(n_loaded == n_whole || (n_loaded == 0 && session));
	cohort_cache_free(bytes);
	rig_check_empty(b, 3);
}

/* A sequence whose window has let go of cells is no prompt that could be kept. */
static void let_go(struct cohort_engine *e, int32_t n_window)
{
	const struct cohort_cache_key key = {.session = 0};
	const int32_t n = n_window + 64;
	static struct job j;
	struct cohort_err err;
	int32_t n_tokens = -1;
	size_t n_state;

	rig_job(&j, 5, n, 1);
	for (int32_t i = 0; i < n; i++)
		assert_int_equal(cohort_decode_one(rig_alone, j.prompt[i], i, 0, false, NULL), COHORT_OK);
	const size_t n_front = cache_front((uint32_t)n), n_bytes = n_front + cohort_state_size(rig_alone, 0);
	uint8_t *p = calloc(1, n_bytes);
	assert_non_null(p);
	assert_int_equal(cohort_state_save(rig_alone, 0, p + n_front, n_bytes - n_front, &n_state, NULL), COHORT_OK);
	for (int32_t i = 0; i < n; i++)
		state_put(p + CACHE_HEAD + 4 * (size_t)i, 4, (uint64_t)j.prompt[i]);
	cache_wrap(p, n_bytes, (uint32_t)n);
	assert_int_equal(cohort_engine_cache_load(e, &key, p, n_bytes, &n_tokens, &err), COHORT_E_FORMAT);
	assert_int_equal(cohort_seq_rm(rig_alone, 0, 0, -1, NULL), COHORT_OK);
	free(p);
}

static void saved_prompts_of_a_decoder(void **state)
{
	struct cohort_model_info info = {.struct_size = sizeof info};
	struct cohort_engine_params ep;
	struct cohort_err err;
	char path[200];

	if (cohort_model_open(arch_path(path, sizeof path, *state, "gguf"), NULL, &rig_model, &err))
		fail_msg("%s", err.text);
	cohort_model_info_get(rig_model, &info);
	assert_int_equal(rig_open_alone(), 0);
	rig_params(&ep);
	ep.keep_tokens = true;
	ep.context.n_ctx = 1024;
	struct cohort_engine *a = rig_engine(&ep);
	/* Another cut of the same, and fewer blocks: ids, chunks and pieces differ. */
	ep.n_slots = 3;
	ep.context.n_ctx = 512;
	ep.context.n_ubatch = 32;
	struct cohort_engine *b = rig_engine(&ep);
	const bool large = info.n_ctx_train >= 256;
	for (int i = 0; i < 3; i++) {
		go_on(a, b, 0, (uint64_t)(10 + i), large ? 64 + 20 * i : 33 + i);
		go_on(a, b, (uint64_t)i + 1, (uint64_t)(20 + i), large ? 40 + 40 * i : 33 + i);
	}
	if (info.n_window > 0 && info.n_window + 64 <= info.n_ctx_train)
		let_go(b, info.n_window);
	cohort_engine_free(a);
	cohort_engine_free(b);
	cohort_context_free(rig_alone);
	cohort_model_free(rig_model);
}

int main(void)
{
	static const char *const names[] = {"llama-base", "baichuan-13b", "cohere2", "cohere2-period2", "gemma2",
			"gemma3", "gpt-oss", "mamba", "mixtral", "olmo2-window", "phi3-long", "phi3-window",
			"starcoder"};
	struct CMUnitTest tests[sizeof names / sizeof *names];

	for (size_t i = 0; i < sizeof names / sizeof *names; i++)
		tests[i] = (struct CMUnitTest){names[i], saved_prompts_of_a_decoder, NULL, NULL, (void *)names[i]};
	return _cmocka_run_group_tests("engine_cache_archs", tests, sizeof names / sizeof *names, arch_make_models,
			arch_remove_models);
}
