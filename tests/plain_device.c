/* What makes a test run on the plain backend: tests/meson.build compiles it a second time with cohort_model_open and
 * cohort_isa_count as names of these. A model whose params name no device is on both of the backend's, its first layer
 * on plain0 and the others on plain1; one with a single layer on plain0. There is one level.
 *
 * Seen red with faults planted in the backend: attention that reads one block too few (test_archs_plain,
 * test_exact_seq_plain, test_backend), outputs copied before the queue has run (the plain tests of golden models,
 * transactions, states and architectures, test_backend, test_backend_fail); and in the library, with rows of outputs
 * kept from an earlier call (forward_row): NaN here, while the CPU's tests stay green. */
#include "plain_backend.h"

/* Tests declare them by including cohort.h. */
enum cohort_status plain_model_open(const char *path, const struct cohort_model_params *params,
		struct cohort_model **out, struct cohort_err *err);
size_t plain_isa_count(void);

enum cohort_status plain_model_open(const char *path, const struct cohort_model_params *params,
		struct cohort_model **out, struct cohort_err *err)
{
	struct cohort_model_params p;

	plain_register();
	cohort_model_params_init(&p);
	if (params)
		p = *params;
	if (p.device)
		return cohort_model_open(path, &p, out, err);
	p.device = "plain0:1,plain1";
	const enum cohort_status st = cohort_model_open(path, &p, out, err);
	p.device = "plain0";
	return st == COHORT_E_ARG ? cohort_model_open(path, &p, out, err) : st;
}

size_t plain_isa_count(void)
{
	return be_plain.level_count();
}
