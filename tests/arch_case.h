/* Random models of all architectures in a directory of the test's own, as tests/golden/make_models.py writes them. That
 * takes more than a second: `./dev test --all` lets it write once, and $TEST_MODELS says where. */
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
	if (getenv("TEST_MODELS"))
		snprintf(command, sizeof command, "cp -R \"$TEST_MODELS/.\" '%s'", arch_dir);
	else
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
