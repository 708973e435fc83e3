/* The machine that computes. */
#ifndef ENGINE_MACHINE_H
#define ENGINE_MACHINE_H

#include "engine/core.h"

struct machine machine_of_context(struct cohort_context *ctx);

#endif
