/* Read-only mapped files. */
#ifndef BASE_MAP_H
#define BASE_MAP_H

#include "base/err.h"

struct map {
	const uint8_t *data; /* NULL when the file is empty */
	size_t n_bytes;
};

/* Refuses directories and other non-regular files. A zero-length file maps to n_bytes 0. */
enum cohort_status map_open(struct map *m, const char *path, struct cohort_err *err);
void map_release(struct map *m);
/* The pages in [offset, offset + n) may be dropped from memory; they are read again when touched. */
void map_drop(const struct map *m, size_t offset, size_t n);

/* Reads a whole file, pipes included ("-" is standard input); *out is freed with mem_free and has a NUL behind it.
 * More than n_max bytes: E_LIMIT. */
enum cohort_status file_read(const char *path, size_t n_max, char **out, size_t *n_bytes, struct cohort_err *err);

#endif
