/* What benches do with their rounds. */
#ifndef BENCH_ROUNDS_H
#define BENCH_ROUNDS_H

#include <jansson.h>
#include <stddef.h>

enum { ROUNDS_MAX = 1000 };

/* Of n values, 1 to ROUNDS_MAX of them. */
double rounds_median(const double *v, size_t n);
/* They as an array; NULL when memory is out. */
json_t *rounds_json(const double *v, size_t n);
/* Writes the value to a file, and lets it go; an exit code, told on standard error unless it is 0. */
int rounds_write(const char *prog, const char *path, json_t *doc);

#endif
