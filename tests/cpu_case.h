/* For tests that look into the CPU backend: the weights of a model that is on the CPU alone. */
#ifndef CPU_CASE_H
#define CPU_CASE_H

#include "backend/cpu.h"
#include "context/impl.h"

static inline struct cpu_weights *cpu_weights_get(const struct cohort_model *m)
{
	return (struct cpu_weights *)m->devices[0].weights;
}

#endif
