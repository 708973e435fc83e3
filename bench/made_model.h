/* Random models for benches. */
#ifndef BENCH_MADE_MODEL_H
#define BENCH_MADE_MODEL_H

#include "cohort.h"

/* Writes a model of a shape and a type of `cohort synth` to $TMPDIR, opens it and removes its file: the mapping stays,
 * and nothing is left behind, whatever ends the program. An exit code, told on standard error unless it is 0. go_on: as
 * in struct cohort_model_params, asked while it is made and loaded. n_ctx: the context it claims to be trained for is
 * at least that, where the shape's own is shorter; random weights know no difference. */
int made_model_open(const char *prog, const char *shape, const char *type, int64_t n_ctx,
		bool (*go_on)(float done, void *user), void *user, struct cohort_model **out);

#endif
