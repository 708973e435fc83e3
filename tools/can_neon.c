/* Compiled by meson.build, never linked: does the compiler take src/kern/arm/neon.h's attribute? */
#include <arm_neon.h>

__attribute__((target("arch=armv8.2-a+dotprod"))) int can_neon(int8x16_t a, int8x16_t b);
__attribute__((target("arch=armv8.2-a+dotprod"))) int can_neon(int8x16_t a, int8x16_t b)
{
	return vaddvq_s32(vdotq_laneq_s32(vdupq_n_s32(0), a, b, 3));
}
