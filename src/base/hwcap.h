/* What the operating system says of the CPU, where the compilers' own feature tests have no answer. */
#ifndef BASE_HWCAP_H
#define BASE_HWCAP_H

#include <stdbool.h>

/* The dot product instructions of 64-bit ARM (sdot); false on any other machine. */
bool hwcap_arm_dot(void);

/* Asks for the tile registers of x86-64 (AMX) on behalf of the process: Linux saves them only for those who did. False:
 * it does not, or a thread's signal stack is too small for them. */
bool hwcap_amx_ask(void);

/* Hides instruction-set levels, as if the CPU lacked them: names separated by commas, or NULL for none. For programs
 * and tests, before the levels are first asked for. A level needs those below it: without avx512 there is no amx
 * either. False: a name is none that can be hidden. */
bool hwcap_hide(const char *names);
bool hwcap_hidden(const char *level);

/* The names that hwcap_hide takes. */
#define HWCAP_HIDE_NAMES "avx2, avx512, amx, neon"

#endif
