/* The kernel's list of CPU features, which names one only if the kernel keeps its registers for the process, too; and a
 * request for those registers that it keeps only for who asks. */
#include "base/hwcap.h"

#if defined(__x86_64__) && defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>

/* From the kernel's asm/prctl.h and asm/fpu/types.h, which older headers lack. */
enum { REQ_XCOMP_PERM = 0x1023, XTILEDATA = 18 };

bool hwcap_amx_ask(void)
{
	return syscall(SYS_arch_prctl, REQ_XCOMP_PERM, XTILEDATA) == 0;
}
#else
bool hwcap_amx_ask(void)
{
	return false;
}
#endif

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
