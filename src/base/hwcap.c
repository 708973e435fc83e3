/* The kernel's list of CPU features. It names a feature only if the kernel keeps its registers for the process, too. */
#include "base/hwcap.h"

#if defined(__aarch64__)
#include <sys/auxv.h>

bool hwcap_arm_dot(void)
{
	return getauxval(AT_HWCAP) & HWCAP_ASIMDDP;
}
#else
bool hwcap_arm_dot(void)
{
	return false;
}
#endif
