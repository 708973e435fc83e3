/* Golden models: logits against an independent implementation's, through the public interface, at every instruction-set
 * level.
 *
 * The bounds are those of tests/golden/data/README.md. Models in the shared directory are tried too when it is there.
 * Shown red by the wrong pairing in rope (error 3e-2 on llama) and by leaving out the offset of Q4_0 in the AVX2 kernel
 * (error 6 on quant-q4_0). */
#include "model_case.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#include "shared_file.h"

struct golden {
	char dir[512];
	const char *name;
	double limit;
};

static void *slurp(const char *dir, const char *name, const char *ext, size_t *n)
{
	char path[1024];
	snprintf(path, sizeof path, "%s/%s%s", dir, name, ext);
	FILE *f = fopen(path, "rb");
	if (!f)
		return NULL;
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

/* One decode of all tokens with an f32 cache; the normalised squared error of all rows. */
static double error_of(const char *path, const char *isa, const cohort_token *ids, int32_t n, const float *want)
{
	struct cohort_model_params mp;
	struct cohort_context_params cp;
	struct cohort_model *m;
	struct cohort_context *c;
	struct cohort_batch b;
	struct cohort_err err;
	struct cohort_model_info info;
	const cohort_seq seq = 0;
	double diff = 0, norm = 0;

	cohort_model_params_init(&mp);
	mp.isa = isa;
	if (cohort_model_open(path, &mp, &m, &err))
		fail_msg("%s", err.text);
	cohort_context_params_init(&cp);
	cp.kv_type = COHORT_KV_F32;
	assert_int_equal(cohort_context_open(m, &cp, &c, &err), COHORT_OK);
	cohort_model_info_get(m, &info);
	assert_int_equal(cohort_batch_init(&b, n, 0, 1, &err), COHORT_OK);
	for (int32_t i = 0; i < n; i++)
		assert_int_equal(cohort_batch_add(&b, ids[i], i, &seq, 1, true, &err), COHORT_OK);
	if (cohort_decode(c, &b, &err))
		fail_msg("%s", err.text);
	for (int32_t i = 0; i < n; i++) {
		const float *got = cohort_logits_get(c, i, &err);
		assert_non_null(got);
		for (int32_t j = 0; j < info.n_vocab; j++) {
			double x = (double)want[(size_t)i * (size_t)info.n_vocab + (size_t)j], d = (double)got[j] - x;
			diff += d * d;
			norm += x * x;
		}
	}
	cohort_batch_release(&b);
	cohort_context_free(c);
	cohort_model_free(m);
	return diff / norm;
}

static void logits_of_peer(void **state)
{
	const struct golden *g = *state;
	char path[1024];
	size_t n_text, n_logits;
	cohort_token ids[4096];
	int32_t n = 0;

	snprintf(path, sizeof path, "%s/%s.gguf", g->dir, g->name);
	shared_file_needed(path);
	char *text = slurp(g->dir, g->name, ".tokens", &n_text);
	float *want = slurp(g->dir, g->name, ".logits.f32", &n_logits);
	assert_true(text && want);
	for (char *p = text, *end; n < 4096; p = end) {
		long v = strtol(p, &end, 10);
		if (end == p)
			break;
		ids[n++] = (cohort_token)v;
	}
	for (size_t i = 0; i < cohort_isa_count(); i++)
		if (cohort_isa_usable(i)) {
			double e = error_of(path, cohort_isa_name(i), ids, n, want);
			print_message("# %s %s: %.3e, limit %.3e\n", g->name, cohort_isa_name(i), e, g->limit);
			assert_true(e < g->limit);
		}
	free(text);
	free(want);
}

/* The bound for quantised files: 1.1 times what the peer shows. */
static double peer_limit(const char *name)
{
	size_t n;
	char path[512], got[64];
	double e = 0, found = -1;
	snprintf(path, sizeof path, "%s/tests/golden/data", env_or("COHORT_SOURCE", "."));
	char *text = slurp(path, "peer-error", ".txt", &n);
	for (char *p = text; p; p = strchr(p, '\n')) {
		p += *p == '\n';
		if (sscanf(p, "%63s %lf", got, &e) == 2 && strcmp(got, name) == 0)
			found = 1.1 * e;
	}
	free(text);
	return found;
}

int main(void)
{
	static const char *const here[] = {"llama", "llama3", "quant-q4_0", "quant-q4_k", "quant-q6_k", "quant-q8_0"};
	static const char *const there[] = {"mixtral", "qwen2", "qwen3", "qwen3moe", "gemma", "gemma2", "gemma3",
			"phi3", "gpt2", "mamba", "quant-f16", "quant-bf16", "quant-q4_1", "quant-q5_0", "quant-q5_1",
			"quant-q2_k", "quant-q3_k", "quant-q5_k", "quant-iq4_nl", "quant-iq4_xs", "quant-tq2_0"};
	enum { N_HERE = sizeof here / sizeof *here, N = N_HERE + sizeof there / sizeof *there };
	static struct golden g[N];
	static struct CMUnitTest tests[N];

	for (size_t i = 0; i < N; i++) {
		g[i].name = i < N_HERE ? here[i] : there[i - N_HERE];
		if (i < N_HERE)
			snprintf(g[i].dir, sizeof g[i].dir, "%s/tests/golden/data", env_or("COHORT_SOURCE", "."));
		else
			snprintf(g[i].dir, sizeof g[i].dir, "%s/golden", env_or("COHORT_SHARED", "../shared"));
		g[i].limit = strncmp(g[i].name, "quant", 5) == 0  ? peer_limit(g[i].name)
				: strcmp(g[i].name, "mamba") == 0 ? 1e-7
								  : 1e-9;
		tests[i] = (struct CMUnitTest){g[i].name, logits_of_peer, NULL, NULL, &g[i]};
	}
	return cmocka_run_group_tests_name("golden", tests, NULL, NULL);
}
