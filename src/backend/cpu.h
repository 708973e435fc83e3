/* Shared by the files of the CPU backend. */
#ifndef BACKEND_CPU_H
#define BACKEND_CPU_H

#include "backend/backend.h"
#include "base/pool.h"
#include "kern/kern.h"

struct be_weight {
	const struct kern_mat *mat;
	const void *data; /* in mat's layout */
	void *packed;     /* owned, or NULL when data is in the file */
};

struct be_weights {
	const struct kern *kern;
	struct be_weight *w; /* [n], by model_weight.index */
	size_t n;
	uint64_t packed_bytes;
};

#endif
