/* Tests of quantising: small random models in a directory of their own, and files read back. */
#ifndef TESTS_QUANTIZE_CASE_H
#define TESTS_QUANTIZE_CASE_H

#include "place_case.h"

#include "cohort_tools.h"

/* The input, beside the place's own file, which is the output. */
static inline const char *input_of(const struct place *p)
{
	static char path[128];
	snprintf(path, sizeof path, "%s/in.gguf", p->dir);
	return path;
}

/* Both may be left; anything else fails the case. */
static inline int teardown_both(void **state)
{
	unlink(input_of(*state));
	return teardown(state);
}

static inline struct cohort_synth_params tiny(const char *type)
{
	struct cohort_synth_params p;
	cohort_synth_params_init(&p);
	p.n_vocab = 300;
	p.n_embd = 256;
	p.n_layer = 2;
	p.n_head = 8;
	p.n_head_kv = 2;
	p.n_ff = 512;
	p.n_ctx = 64;
	p.head_size = 0;
	p.tied = false;
	p.type = type;
	p.seed = 5;
	p.n_threads = 1;
	return p;
}

static inline void make_input(const struct place *p, const struct cohort_synth_params *sp)
{
	struct cohort_err err;
	if (cohort_synth_write(input_of(p), sp, &err))
		fail_msg("%s", err.text);
}

static inline struct cohort_quantize_params params_of(const char *type)
{
	struct cohort_quantize_params qp;
	cohort_quantize_params_init(&qp);
	qp.type = type;
	qp.n_threads = 1;
	return qp;
}

static inline void quantize(const struct place *p, const struct cohort_quantize_params *qp)
{
	struct cohort_err err;
	if (cohort_quantize_write(input_of(p), p->path, qp, NULL, &err))
		fail_msg("%s: %s", qp->type, err.text);
}

static inline struct cohort_gguf *open_file(const char *path)
{
	struct cohort_gguf *g = NULL;
	struct cohort_err err;
	if (cohort_gguf_open(path, &g, &err))
		fail_msg("%s", err.text);
	return g;
}

static inline uint8_t *load(const char *path, size_t *n)
{
	uint8_t *d = NULL;
	assert_int_equal(file_load(path, SIZE_MAX, &d, n, NULL), COHORT_OK);
	return d;
}

#endif
