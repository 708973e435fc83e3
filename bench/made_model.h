/* Random models for benches. */
#ifndef BENCH_MADE_MODEL_H
#define BENCH_MADE_MODEL_H

#include "cohort.h"

/* Writes a model of a shape and a type of `cohort synth` to $TMPDIR, opens it and removes its file: the mapping stays,
 * and nothing is left behind, whatever ends the program. An exit code, told on standard error unless it is 0. go_on: as
 * in struct cohort_model_params, asked while it is made and loaded. */
int made_model_open(const char *prog, const char *shape, const char *type, bool (*go_on)(float done, void *user),
		void *user, struct cohort_model **out);

#endif
