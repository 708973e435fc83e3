/* What benches do with their rounds. */
#include "rounds.h"

#include "common.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int by_value(const void *a, const void *b)
{
	const double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

double rounds_median(const double *v, size_t n)
{
	double sorted[ROUNDS_MAX];

	memcpy(sorted, v, n * sizeof *v);
	qsort(sorted, n, sizeof *sorted, by_value);
	return n % 2 ? sorted[n / 2] : (sorted[n / 2 - 1] + sorted[n / 2]) / 2;
}

json_t *rounds_json(const double *v, size_t n)
{
	json_t *a = json_array();

	for (size_t i = 0; a && i < n; i++)
		json_array_append_new(a, json_real(v[i]));
	return a;
}

int rounds_write(const char *prog, const char *path, json_t *doc)
{
	if (!doc)
		return out_of_memory(prog);
	FILE *o = fopen(path, "w");
	int e = o ? 0 : errno;
	if (o && (json_dumpf(doc, o, JSON_INDENT(1)) || fputc('\n', o) == EOF))
		e = errno;
	if (o && fclose(o) && !e)
		e = errno;
	if (e)
		fprintf(stderr, "%s: %s: %s\n", prog, path, strerror(e));
	json_decref(doc);
	return e ? EXIT_FILE : 0;
}
