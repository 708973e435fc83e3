/* Random models of every architecture against an independent implementation's numbers (data/archs), through the public
 * interface, at every instruction-set level.
 *
 * The models are written by make_models.py (the same bytes each time), the numbers were made by llama.cpp with its GELU
 * computed exactly. Decoders: logits of every position with an f32 cache. Encoders: the vector of every token, and
 * their mean and the first one as pooled vectors.
 * Shown red by the wrong kind of rotation (phi2), a window one position longer (olmo2-window), yarn without its growth
 * of cos and sin (llama-yarn), the sink left out (gpt-oss-f32), the first angles for all layers (gemma3), distances not
 * taken as absolute (jina-bert-v2) and a wrong value in MXFP4's table (gpt-oss). */
#include "arch_case.h"
#include "arch_names.h"

#include <setjmp.h>
#include <stdarg.h>
#include <sys/stat.h>

#include <cmocka.h>

struct arch_case {
	const char *name;
	double limit; /* of the normalised squared error */
	bool encoder;
};

/* With quantised weights activations are rounded: the limit is above this one, and the middle one of the rows' own
 * errors must be below the other. */
#define ROUNDED 1e-6
#define MIDDLE 4e-4

static void *slurp(const char *path, size_t *n)
{
	FILE *f = fopen(path, "rb");
	if (!f)
		fail_msg("%s cannot be read", path);
	fseek(f, 0, SEEK_END);
	*n = (size_t)ftell(f);
	rewind(f);
	char *d = malloc(*n + 1);
	assert_non_null(d);
	assert_int_equal(fread(d, 1, *n, f), *n);
	d[*n] = '\0';
	fclose(f);
	return d;
}

static float *reference(const char *name, const char *what, size_t *n)
{
	char path[600];
	snprintf(path, sizeof path, "%s/tests/golden/data/archs/%s.%s.f32", env_or("COHORT_SOURCE", "."), name, what);
	float *f = slurp(path, n);
	*n /= sizeof *f;
	return f;
}

static int32_t read_tokens(const char *name, cohort_token ids[256])
{
	char path[600];
	size_t n_bytes;
	int32_t n = 0;
	char *text = slurp(arch_path(path, sizeof path, name, "tokens"), &n_bytes);
	for (char *p = text, *end; n < 256; p = end) {
		long v = strtol(p, &end, 10);
		if (end == p)
			break;
		ids[n++] = (cohort_token)v;
	}
	free(text);
	return n;
}

static double error_of(const float *got, const float *want, size_t n)
{
	double diff = 0, norm = 0;
	for (size_t i = 0; i < n; i++) {
		double d = (double)got[i] - (double)want[i];
		diff += d * d;
		norm += (double)want[i] * (double)want[i];
	}
	return diff / norm;
}

struct run {
	struct cohort_model *m;
	struct cohort_context *c;
	struct cohort_batch b;
	struct cohort_model_info info;
};

static void open_run(struct run *r, const char *name, const char *isa, bool encoder, enum cohort_pooling pooling,
		const cohort_token *ids, int32_t n)
{
	struct cohort_model_params mp;
	struct cohort_context_params cp;
	struct cohort_err err;
	const cohort_seq seq = 0;
	char path[600];

	arch_path(path, sizeof path, name, "gguf");
	cohort_model_params_init(&mp);
	mp.isa = isa;
	if (cohort_model_open(path, &mp, &r->m, &err))
		fail_msg("%s", err.text);
	cohort_context_params_init(&cp);
	cp.kv_type = COHORT_KV_F32;
	cp.pooling = pooling;
	cp.outputs = encoder ? COHORT_OUTPUT_EMBEDDINGS : COHORT_OUTPUT_LOGITS;
	if (cohort_context_open(r->m, &cp, &r->c, &err))
		fail_msg("%s", err.text);
	r->info.struct_size = sizeof r->info;
	cohort_model_info_get(r->m, &r->info);
	assert_int_equal(cohort_batch_init(&r->b, n, 0, 1, &err), COHORT_OK);
	for (int32_t i = 0; i < n; i++)
		assert_int_equal(cohort_batch_add(&r->b, ids[i], i, &seq, 1, true, &err), COHORT_OK);
	if (encoder ? cohort_encode(r->c, &r->b, &err) : cohort_decode(r->c, &r->b, &err))
		fail_msg("%s", err.text);
}

static void close_run(struct run *r)
{
	cohort_batch_release(&r->b);
	cohort_context_free(r->c);
	cohort_model_free(r->m);
}

static void verdict(const struct arch_case *a, const char *what, const char *isa, double e)
{
	print_message("# %s %s %s: %.3e, limit %.1e\n", a->name, what, isa, e, a->limit);
	assert_true(e < a->limit);
}

static int by_size(const void *a, const void *b)
{
	const double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

/* The middle one of the rows' own errors. */
static double middle_error(const float *got, const float *want, int32_t n, size_t width)
{
	double e[256];
	for (int32_t i = 0; i < n; i++)
		e[i] = error_of(got + (size_t)i * width, want + (size_t)i * width, width);
	qsort(e, (size_t)n, sizeof *e, by_size);
	return e[n / 2];
}

static void rows(const struct arch_case *a, const char *isa, const cohort_token *ids, int32_t n)
{
	struct run r;
	struct cohort_err err;
	size_t n_want;
	float *want = reference(a->name, a->encoder ? "embd" : "logits", &n_want);

	open_run(&r, a->name, isa, a->encoder, COHORT_POOL_NONE, ids, n);
	const size_t width = (size_t)(a->encoder ? r.info.n_embd : r.info.n_vocab);
	assert_int_equal(n_want, width * (size_t)n);
	float *got = malloc(n_want * sizeof *got);
	assert_non_null(got);
	for (int32_t i = 0; i < n; i++)
		memcpy(got + (size_t)i * width,
				a->encoder ? cohort_embeddings_get(r.c, i, &err) : cohort_logits_get(r.c, i, &err),
				width * sizeof *got);
	verdict(a, a->encoder ? "embd" : "logits", isa, error_of(got, want, n_want));
	if (a->limit > ROUNDED) {
		const double e = middle_error(got, want, n, width);
		print_message("# %s middle row %s: %.3e, limit %.1e\n", a->name, isa, e, MIDDLE);
		assert_true(e < MIDDLE);
	}
	close_run(&r);
	free(got);
	free(want);
}

static void pooled(const struct arch_case *a, const char *isa, const cohort_token *ids, int32_t n, const char *what,
		enum cohort_pooling pooling)
{
	struct run r;
	struct cohort_err err;
	size_t n_want;
	float *want = reference(a->name, what, &n_want);

	open_run(&r, a->name, isa, true, pooling, ids, n);
	assert_int_equal(n_want, r.info.n_embd);
	const float *got = cohort_embeddings_seq_get(r.c, 0, &err);
	assert_non_null(got);
	verdict(a, what, isa, error_of(got, want, n_want));
	close_run(&r);
	free(want);
}

static void logits_of_an_architecture(void **state)
{
	const struct arch_case *a = *state;
	cohort_token ids[256];
	const int32_t n = read_tokens(a->name, ids);

	for (size_t i = 0; i < cohort_isa_count(); i++)
		if (cohort_isa_usable(i)) {
			rows(a, cohort_isa_name(i), ids, n);
			if (a->encoder) {
				pooled(a, cohort_isa_name(i), ids, n, "mean", COHORT_POOL_MEAN);
				pooled(a, cohort_isa_name(i), ids, n, "cls", COHORT_POOL_CLS);
			}
		}
}

int main(int argc, char **argv)
{
	static const char *const decoders[] = {ARCH_DECODERS};
	static const char *const encoders[] = {ARCH_ENCODERS};
	enum { N_DECODERS = sizeof decoders / sizeof *decoders, N_ENCODERS = sizeof encoders / sizeof *encoders };
	static struct arch_case cases[N_DECODERS + N_ENCODERS];
	static struct CMUnitTest tests[N_DECODERS + N_ENCODERS];
	size_t n = 0;

	for (size_t i = 0; i < N_DECODERS + N_ENCODERS; i++) {
		cases[i] = (struct arch_case){
				i < N_DECODERS ? decoders[i] : encoders[i - N_DECODERS], 1e-9, i >= N_DECODERS};
		/* Activations are rounded for its experts' MXFP4, and the peer shows 5.29e-3 for the same reason.
		 * Nearly all of it is one row whose scores for two experts are 0.006 apart, so that it chooses the
		 * other one, and the rows that see it; the middle row's error is 2.1e-4. */
		if (strcmp(cases[i].name, "gpt-oss") == 0)
			cases[i].limit = 1.1 * 5.29e-3;
		if (argc < 2 || strcmp(argv[1], cases[i].name) == 0) /* one by its name, or all */
			tests[n++] = (struct CMUnitTest){
					cases[i].name, logits_of_an_architecture, NULL, NULL, &cases[i]};
	}
	return _cmocka_run_group_tests("archs", tests, n, arch_make_models, arch_remove_models);
}
