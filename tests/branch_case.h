/* One architecture of arch_case.h with a forest: what the tests of branches and of searches begin with. */
#ifndef TESTS_BRANCH_CASE_H
#define TESTS_BRANCH_CASE_H

#include "arch_case.h"

#include "base/rng.h"
#include "cohort.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

enum { BRANCH_PROMPT = 24 };

/* States that are carried on, windows that the prompt is longer than, several heads to a key. */
static const char *const branch_archs[] = {"mamba", "gemma2", "gemma3", "qwen2"};
enum { N_BRANCH_ARCHS = sizeof branch_archs / sizeof *branch_archs };

struct branch_case {
	struct cohort_model *m;
	struct cohort_context *ctx, *alone; /* alone: for computing a text by itself */
	struct cohort_context_info info;
	struct cohort_forest *f;
	struct cohort_branch root; /* with the prompt */
	cohort_token prompt[BRANCH_PROMPT];
	struct rng r;
};

static inline void branch_case_open(struct branch_case *c, size_t k, int32_t n_seq_max, int32_t n_batch)
{
	struct cohort_context_params cp;
	struct cohort_err err;
	char path[128];

	rng_init(&c->r, k, 3);
	cohort_context_params_init(&cp);
	cp.n_seq_max = n_seq_max;
	cp.n_batch = n_batch;
	cp.n_threads = 1;
	if (cohort_model_open(arch_path(path, sizeof path, branch_archs[k], "gguf"), NULL, &c->m, &err) ||
			cohort_context_open(c->m, &cp, &c->ctx, &err) ||
			cohort_context_open(c->m, &cp, &c->alone, &err) ||
			cohort_forest_open(c->ctx, NULL, &c->f, &err) ||
			cohort_branch_create(c->f, NULL, &c->root, &err))
		fail_msg("%s", err.text);
	cohort_context_info_get(c->ctx, &c->info);
	assert_int_equal(c->info.n_batch, n_batch);
	assert_int_equal(c->info.n_seq_max, n_seq_max);
	for (int i = 0; i < BRANCH_PROMPT; i++)
		c->prompt[i] = (cohort_token)(rng_u32(&c->r) % (uint32_t)c->info.n_vocab);
	if (cohort_branch_prefill(c->f, c->root, c->prompt, BRANCH_PROMPT, &err))
		fail_msg("%s", err.text);
}

/* One branch is left, and no other has an id. */
static inline void branch_case_close(struct branch_case *c)
{
	struct cohort_pressure pressure;

	cohort_forest_pressure_get(c->f, &pressure);
	assert_int_equal(pressure.n_leased, 1);
	cohort_forest_free(c->f);
	cohort_context_free(c->ctx);
	cohort_context_free(c->alone);
	cohort_model_free(c->m);
}

#endif
