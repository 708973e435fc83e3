/* Random models of all architectures, written by tests/golden/make_models.py into a directory of their own. */
#ifndef TESTS_ARCH_CASE_H
#define TESTS_ARCH_CASE_H

#include "model_case.h"
#include "temp.h"

static char arch_dir[TEMP_MAX];

/* A cmocka group set-up. */
static inline int arch_make_models(void **state)
{
	char command[800];
	(void)state;
	if (!mkdtemp(temp_name(arch_dir, "archs")))
		return -1;
	snprintf(command, sizeof command, "python3 '%s/tests/golden/make_models.py' '%s' >/dev/null",
			env_or("COHORT_SOURCE", "."), arch_dir);
	return system(command);
}

static inline int arch_remove_models(void **state)
{
	char command[100];
	(void)state;
	snprintf(command, sizeof command, "rm -rf '%s'", arch_dir);
	return system(command);
}

static inline const char *arch_path(char *buf, size_t n, const char *name, const char *ext)
{
	snprintf(buf, n, "%s/%s.%s", arch_dir, name, ext);
	return buf;
}

#endif
