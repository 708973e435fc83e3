/* Opening a model in tests: one thread; an error of the library fails the case with its text. */
#ifndef TESTS_LOAD_CASE_H
#define TESTS_LOAD_CASE_H

#include "cohort.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static inline struct cohort_model_params model_params(void)
{
	struct cohort_model_params mp;
	cohort_model_params_init(&mp);
	mp.n_threads = 1;
	return mp;
}

static inline struct cohort_model *open_model(const char *path, const struct cohort_model_params *mp)
{
	struct cohort_model *m = NULL;
	struct cohort_err err;
	if (cohort_model_open(path, mp, &m, &err))
		fail_msg("%s", err.text);
	return m;
}

#endif
