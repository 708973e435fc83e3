/* Golden quantised files, read by src/gguf and dequantised by src/quant, against the F32 weights they were made from.
 *
 * Each bound is about 1.2 times the error measured on the worst matrix of the file; the matrices of a file differ by
 * less than 4 %.
 * The files are those of COHORT_SHARED, or of ../shared; without them the tests are skipped. */
#include "quant_case.h"

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "gguf/gguf.h"
#include "quant/quant.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct golden {
	const char *file;      /* quant-FILE.gguf */
	enum quant_type type;
	double bound;          /* of sum((a - b)^2) / sum(b^2) over each matrix */
};

static struct golden goldens[] = {
	{"f16", QUANT_F16, 5.2e-8},        /* measured: 4.35e-8 */
	{"bf16", QUANT_BF16, 3.3e-6},      /* measured: 2.77e-6 */
	{"q8_0", QUANT_Q8_0, 3.5e-5},      /* measured: 2.90e-5 */
	{"q6_k", QUANT_Q6_K, 3.8e-4},      /* measured: 3.20e-4 */
	{"q5_k", QUANT_Q5_K, 1.6e-3},      /* measured: 1.33e-3 */
	{"q5_1", QUANT_Q5_1, 1.7e-3},      /* measured: 1.45e-3 */
	{"q5_0", QUANT_Q5_0, 2.2e-3},      /* measured: 1.84e-3 */
	{"q4_k", QUANT_Q4_K, 6.2e-3},      /* measured: 5.15e-3 */
	{"q4_1", QUANT_Q4_1, 7.4e-3},      /* measured: 6.19e-3 */
	{"q4_0", QUANT_Q4_0, 8.9e-3},      /* measured: 7.45e-3 */
	{"iq4_nl", QUANT_IQ4_NL, 7.0e-3},  /* measured: 5.87e-3 */
	{"iq4_xs", QUANT_IQ4_XS, 7.1e-3},  /* measured: 5.95e-3 */
	{"q3_k", QUANT_Q3_K, 2.8e-2},      /* measured: 2.31e-2 */
	{"q2_k", QUANT_Q2_K, 1.07e-1},     /* measured: 8.90e-2 */
	{"tq2_0", QUANT_TQ2_0, 7.9e-1},    /* measured: 0.658 */
};
#define N_GOLDENS (sizeof goldens / sizeof *goldens)

static double error_of(const struct gguf_tensor *t, const struct gguf_tensor *base)
{
	size_t n = (size_t)(t->ne[0] * t->ne[1] * t->ne[2] * t->ne[3]);
	float *a = malloc(n * sizeof *a);
	double diff = 0, sum = 0;

	assert_non_null(a);
	quant_format_get(t->type)->to_f32(t->data, a, n);
	for (size_t i = 0; i < n; i++) {
		float b;

		memcpy(&b, base->data + i * sizeof b, sizeof b);
		diff += ((double)a[i] - b) * ((double)a[i] - b);
		sum += (double)b * b;
	}
	free(a);
	assert_true(sum > 0);
	return diff / sum;
}

static void test_dequantized_matrices_of_peer(void **state)
{
	const struct golden *want = *state;
	struct gguf base, g;
	size_t n_matrices = 0;
	double worst = 0;
	char path[4096];

	path_of("base", path, sizeof path);
	shared_file_needed(path);
	open_golden(&base, "base");
	open_golden(&g, want->file);
	assert_int_equal(g.n_tensors, base.n_tensors);
	for (size_t i = 0; i < g.n_tensors; i++) {
		const struct gguf_tensor *t = &g.tensors[i], *b = same_tensor(&base, t);

		assert_non_null(b);
		assert_int_equal(b->type, QUANT_F32);
		assert_memory_equal(t->ne, b->ne, sizeof t->ne);
		if (t->n_dims < 2) {
			/* Norms are not quantised. */
			assert_int_equal(t->type, QUANT_F32);
			assert_int_equal(t->n_bytes, b->n_bytes);
			assert_memory_equal(t->data, b->data, (size_t)t->n_bytes);
			continue;
		}
		assert_int_equal(t->type, want->type);
		double error = error_of(t, b);
		/* Written so that a NaN fails. */
		if (!(error < want->bound))
			fail_msg("%.*s: error %.4g, bound %.4g", (int)t->name.n, t->name.s, error, want->bound);
		if (error > worst)
			worst = error;
		n_matrices++;
	}
	assert_true(n_matrices > 0);
	print_message("%-6s: %zu matrices, worst error %.3e, bound %.3e\n", want->file, n_matrices, worst, want->bound);
	gguf_release(&g);
	gguf_release(&base);
}

int main(void)
{
	struct CMUnitTest tests[N_GOLDENS];

	for (size_t i = 0; i < N_GOLDENS; i++)
		tests[i] = (struct CMUnitTest){
			.name = goldens[i].file,
			.test_func = test_dequantized_matrices_of_peer,
			.initial_state = &goldens[i],
		};
	return cmocka_run_group_tests_name("dequant", tests, NULL, NULL);
}
