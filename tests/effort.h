/* How much a test with many rounds does. COHORT_EFFORT says it: "short" for `./dev test --all`, which runs it on many
 * machines and under many checkers, "long" for `./dev test --long`; else what fits into every run. */
#ifndef TESTS_EFFORT_H
#define TESTS_EFFORT_H

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

static inline bool effort_is(const char *what)
{
	const char *v = getenv("COHORT_EFFORT");
	return v && !strcmp(v, what);
}

/* Of `usual` rounds: an eighth, all, or eight times as many. */
static inline int effort(int usual)
{
	return effort_is("short") ? (usual + 7) / 8 : effort_is("long") ? usual * 8 : usual;
}

#endif
