/* The kernel's list of CPU features, which names one only if the kernel keeps its registers for the process, too; a
 * request for those registers that it keeps only on demand; and the levels that a test run hides. */
#include "base/hwcap.h"

#include <stddef.h>
#include <string.h>

#if defined(__x86_64__) && defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>

/* From the kernel's asm/prctl.h and asm/fpu/types.h, which older headers lack. */
enum { REQ_XCOMP_PERM = 0x1023,
	XTILEDATA = 18 };

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

static const char *const hideable[] = {"avx2", "avx512", "amx", "neon"};
enum { N_HIDEABLE = sizeof hideable / sizeof *hideable };
static bool hidden[N_HIDEABLE];

static size_t find_hideable(const char *name, size_t n)
{
	size_t i = 0;

	while (i < N_HIDEABLE && (strlen(hideable[i]) != n || memcmp(hideable[i], name, n) != 0))
		i++;
	return i;
}

bool hwcap_hide(const char *names)
{
	for (const char *end; names && *names; names = end + (*end == ',')) {
		end = names + strcspn(names, ",");
		const size_t i = find_hideable(names, (size_t)(end - names));
		if (i == N_HIDEABLE)
			return false;
		hidden[i] = true;
	}
	return true;
}

bool hwcap_hidden(const char *level)
{
	const size_t i = find_hideable(level, strlen(level));

	return i < N_HIDEABLE && hidden[i];
}
