/* Part of every test program: hides the instruction-set levels that COHORT_HIDE_ISA names before the first case runs,
 * so that a run shows what a CPU without them would. The programs do the same (prog/common.c); the library reads no
 * environment. */
#include "base/hwcap.h"

#include <stdio.h>
#include <stdlib.h>

__attribute__((constructor)) static void hide(void)
{
	if (hwcap_hide(getenv("COHORT_HIDE_ISA")))
		return;
	fprintf(stderr, "COHORT_HIDE_ISA: expected names of " HWCAP_HIDE_NAMES " with commas between them\n");
	exit(2);
}
