/* The quantiser against an independent one: quant-base.gguf's matrices, quantised here, must not lie further from their
 * originals than BOUND times what the golden file of the same format shows, in root mean square over each matrix.
 *
 * The files are those of COHORT_SHARED, or of ../shared; without them the tests are skipped.
 *
 * Planted fault, tried: a search for scale and minimum that stops after its first try turns Q2_K (1.08) and Q4_K (1.05)
 * red. Lesser faults of the search stay below BOUND; test_quantise.c has tighter bounds for them. */
#include "quant_case.h"

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "gguf/gguf.h"
#include "quant/quant.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define BOUND 1.02

static const char *const files[] = {
	"f16", "bf16", "q4_0", "q4_1", "q5_0", "q5_1", "q8_0", "iq4_nl", "q2_k", "q3_k", "q4_k", "q5_k", "q6_k",
	"iq4_xs", "tq2_0",
};
#define N_FILES (sizeof files / sizeof *files)

static double rms(const struct quant_format *f, const void *blocks, const float *base, size_t n)
{
	float *a = malloc(n * sizeof *a);
	double diff = 0;

	assert_non_null(a);
	f->to_f32(blocks, a, n);
	for (size_t i = 0; i < n; i++)
		diff += ((double)a[i] - base[i]) * ((double)a[i] - base[i]);
	free(a);
	return sqrt(diff / (double)n);
}

/* The error of our blocks over that of the file's. */
static double ratio_of(const struct gguf_tensor *t, const struct gguf_tensor *base)
{
	const struct quant_format *f = quant_format_get(t->type);
	size_t n = (size_t)(t->ne[0] * t->ne[1] * t->ne[2] * t->ne[3]);
	float *x = malloc(n * sizeof *x);
	void *blocks = malloc((size_t)t->n_bytes);
	double ours, theirs;

	assert_non_null(x);
	assert_non_null(blocks);
	memcpy(x, base->data, n * sizeof *x);
	assert_true(quant_finite(x, n));
	f->from_f32(x, blocks, n);
	ours = rms(f, blocks, x, n);
	theirs = rms(f, t->data, x, n);
	assert_true(theirs > 0);
	free(blocks);
	free(x);
	return ours / theirs;
}

static void test_file(void **state)
{
	const char *file = *state;
	struct gguf base, g;
	size_t n_matrices = 0;
	double worst = 0, sum = 0;
	char path[4096];

	path_of("base", path, sizeof path);
	shared_file_needed(path);
	open_golden(&base, "base");
	open_golden(&g, file);
	for (size_t i = 0; i < g.n_tensors; i++) {
		const struct gguf_tensor *t = &g.tensors[i], *b = same_tensor(&base, t);
		double ratio;

		assert_non_null(b);
		assert_int_equal(b->type, QUANT_F32);
		assert_memory_equal(t->ne, b->ne, sizeof t->ne);
		if (t->type == QUANT_F32)
			continue;
		ratio = ratio_of(t, b);
		/* Written so that a NaN fails. */
		if (!(ratio <= BOUND))
			fail_msg("%.*s: %.4f times the error of %s", (int)t->name.n, t->name.s, ratio, file);
		worst = ratio > worst ? ratio : worst;
		sum += ratio;
		n_matrices++;
	}
	assert_true(n_matrices > 0);
	print_message("%-6s: %zu matrices, error %.4f times the golden one on average, %.4f at most\n", file,
			n_matrices, sum / (double)n_matrices, worst);
	gguf_release(&g);
	gguf_release(&base);
}

int main(void)
{
	struct CMUnitTest tests[N_FILES];

	for (size_t i = 0; i < N_FILES; i++)
		tests[i] = (struct CMUnitTest){
			.name = files[i], .test_func = test_file, .initial_state = (void *)(uintptr_t)files[i],
		};
	return cmocka_run_group_tests_name("quantise_golden", tests, NULL, NULL);
}
