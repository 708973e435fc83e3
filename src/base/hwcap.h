/* What the operating system says of the CPU, where the compilers' own feature tests have no answer. */
#ifndef BASE_HWCAP_H
#define BASE_HWCAP_H

#include <stdbool.h>

/* The dot product instructions of 64-bit ARM (sdot); false on any other machine. */
bool hwcap_arm_dot(void);

#endif
