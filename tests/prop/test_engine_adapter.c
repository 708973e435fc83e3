/* Adapters in the engine: requests with none, with one, with the same at another scale, and with another one, in the
 * same batches: each says what it says alone, and none of them takes cached prompts of the others.
 *
 * Shown red by planted faults: an adapter that is not part of what a prompt is cached under (nothing_shared), a slot
 * that keeps the adapter of the request before (beside_each_other). */
#include "arch_case.h"
#include "engine_rig.h"

static struct cohort_adapter *adapter, *other;

static int set_up(void **state)
{
	char path[128];

	if (arch_make_models(state) ||
			cohort_model_open(arch_path(path, sizeof path, "llama-base", "gguf"), NULL, &rig_model, NULL))
		return -1;
	arch_path(path, sizeof path, "llama-lora", "gguf");
	/* The same file twice: two adapters. */
	if (cohort_adapter_open(rig_model, path, &adapter, NULL) || cohort_adapter_open(rig_model, path, &other, NULL))
		return -1;
	return rig_open_alone();
}

static int tear_down(void **state)
{
	cohort_adapter_free(adapter);
	cohort_adapter_free(other);
	return rig_tear_down(state) || arch_remove_models(state);
}

/* Kinds of requests with the same prompt. */
enum { N_KINDS = 4 };

static void kind_make(struct job *j, int kind, uint64_t seed, int32_t n_prompt)
{
	rig_job(j, seed, n_prompt, 6);
	j->p.sampler.temperature = 0;
	j->p.adapter = kind == 0 ? NULL : kind == 3 ? other : adapter;
	j->p.adapter_scale = kind == 2 ? -2.0f : 1.0f;
}

static void beside_each_other(void **state)
{
	enum { N = 24 };
	struct cohort_engine_params ep;
	struct cohort_request *r[N];
	static struct job j[N];
	static struct alone a[N_KINDS];

	(void)state;
	for (int overcommit = 0; overcommit < 2; overcommit++) {
		rig_params(&ep);
		ep.context.n_ctx = overcommit ? 128 : 512;
		ep.context.n_blocks = pool_blocks(ep.context.n_ctx, 0);
		ep.room = overcommit ? COHORT_ROOM_OVERCOMMIT : COHORT_ROOM_RESERVE;
		ep.swap_bytes = overcommit ? (size_t)1 << 20 : 0;
		struct cohort_engine *e = rig_engine(&ep);
		for (int i = 0; i < N; i++) {
			kind_make(&j[i], i % N_KINDS, (uint64_t)i / 8, 40 + i % 3);
			j[i].p.n_outputs = 1 + i % 2;
			j[i].p.session = (uint64_t)i % 5;
			r[i] = rig_submit(e, &j[i]);
		}
		rig_run(e);
		for (int i = 0; i < N; i++) {
			rig_check(r[i], &j[i]);
			cohort_request_free(r[i]);
		}
		rig_check_empty(e, 4);
		cohort_engine_free(e);
	}
	/* And they do say different things. */
	for (int k = 0; k < 3; k++)
		alone_run(rig_model, rig_alone, &j[k].p, 0, &a[k]);
	for (int k = 1; k < 3; k++)
		assert_memory_not_equal(a[0].logprobs, a[k].logprobs, 4 * sizeof a[0].logprobs[0]);
}

static void nothing_shared(void **state)
{
	const int32_t size = pool_block_size();
	struct cohort_engine_params ep;
	struct job j;

	(void)state;
	rig_params(&ep);
	struct cohort_engine *e = rig_engine(&ep);
	for (int round = 0; round < 2; round++)
		for (int kind = 0; kind < N_KINDS; kind++) {
			struct cohort_request_stats s;
			kind_make(&j, kind, 9, size + 7);
			struct cohort_request *r = rig_submit(e, &j);
			rig_run(e);
			rig_check(r, &j);
			cohort_request_stats_get(r, &s);
			assert_int_equal(s.n_cached, round ? size : 0); /* of its own kind only */
			cohort_request_free(r);
		}
	/* The scale of no adapter is none. */
	kind_make(&j, 0, 9, size + 7);
	j.p.adapter_scale = 5;
	struct cohort_request *r = rig_submit(e, &j);
	struct cohort_request_stats s;
	rig_run(e);
	cohort_request_stats_get(r, &s);
	assert_int_equal(s.n_cached, size);
	cohort_request_free(r);
	cohort_engine_free(e);
}

/* One that is none of this model's, and scales that are none. */
static void submit_refuses_foreign_adapters_and_bad_scales(void **state)
{
	struct cohort_engine_params ep;
	struct cohort_model *model;
	struct cohort_adapter *foreign;
	struct cohort_request *r, *q;
	char path[128];
	struct job j, good;

	(void)state;
	arch_path(path, sizeof path, "llama-base", "gguf");
	assert_int_equal(cohort_model_open(path, NULL, &model, NULL), COHORT_OK);
	arch_path(path, sizeof path, "llama-lora", "gguf");
	assert_int_equal(cohort_adapter_open(model, path, &foreign, NULL), COHORT_OK);
	rig_params(&ep);
	struct cohort_engine *e = rig_engine(&ep);
	kind_make(&j, 1, 2, 10);
	j.p.adapter_scale = NAN;
	assert_int_equal(cohort_engine_submit(e, &j.p, &r, NULL), COHORT_E_ARG);
	j.p.adapter_scale = 1e9f;
	assert_int_equal(cohort_engine_submit(e, &j.p, &r, NULL), COHORT_E_ARG);
	kind_make(&good, 1, 2, 10);
	q = rig_submit(e, &good);
	kind_make(&j, 1, 2, 10);
	j.p.adapter = foreign;
	j.p.n_outputs = 2;
	r = rig_submit(e, &j);
	rig_tick(e);
	for (int32_t i = 0; i < 2; i++) {
		const struct cohort_output o = rig_output(r, i);
		assert_int_equal(o.finish, COHORT_FINISH_ERROR);
		assert_int_equal(o.error->status, COHORT_E_ARG);
		assert_int_equal(o.n_tokens, 0);
	}
	cohort_request_free(r);
	rig_run(e);
	rig_check(q, &good);
	cohort_request_free(q);
	rig_check_empty(e, 4);
	cohort_engine_free(e);
	cohort_adapter_free(foreign);
	cohort_model_free(model);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
			cmocka_unit_test(beside_each_other),
			cmocka_unit_test(nothing_shared),
			cmocka_unit_test(submit_refuses_foreign_adapters_and_bad_scales),
	};
	return cmocka_run_group_tests_name("engine_adapter", tests, set_up, tear_down);
}
