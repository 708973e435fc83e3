/* What makes a test run on the plain backend: tests/meson.build compiles it a second time with cohort_model_open and
 * cohort_isa_count as names of these. A model whose params name no device is on plain0, which has one level. */
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
	if (!p.device)
		p.device = "plain0";
	return cohort_model_open(path, &p, out, err);
}

size_t plain_isa_count(void)
{
	return be_plain.level_count();
}
