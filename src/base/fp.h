/* The mode that floating-point numbers are computed in: rounding to nearest, subnormals kept, no traps.
 *
 * A program may have another one, be it on purpose or because something it was linked with was built with -ffast-math,
 * which has subnormals taken for 0. Logits would then depend on it, and, as threads take the mode of their maker when
 * they begin, on which thread computed what; with traps an infinity on the way would end the program.
 *
 *  1. What computes numbers that the library promises is between fp_enter and fp_leave, or on a thread of ours, which
 *     begins with fp_plain.
 *  2. Behind fp_leave the mode and its flags are the caller's, as they were.
 */
#ifndef BASE_FP_H
#define BASE_FP_H

#include <fenv.h>

struct fp_mode {
	fenv_t callers;
};

static inline void fp_plain(void)
{
	fesetenv(FE_DFL_ENV);
}

static inline void fp_enter(struct fp_mode *m)
{
	fegetenv(&m->callers);
	fp_plain();
}

static inline void fp_leave(const struct fp_mode *m)
{
	fesetenv(&m->callers);
}

#endif
