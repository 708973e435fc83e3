/* Files as memory that is only read: mapped, or copied. */
#ifndef BASE_MAP_H
#define BASE_MAP_H

#include "base/err.h"

struct map {
	const uint8_t *data; /* NULL when the file is empty */
	size_t n_bytes;
	bool copied;         /* by map_read */
};

/* Refuses directories and other non-regular files. A zero-length file maps to n_bytes 0. */
enum cohort_status map_open(struct map *m, const char *path, struct cohort_err *err);
/* The same with the bytes copied into memory: what happens to the file later does not matter. A file that is cut while
 * it is read: E_IO. progress may be NULL; it is called now and then with 0..1, and false gives ABORTED. */
enum cohort_status map_read(struct map *m, const char *path, bool (*progress)(float done, void *user), void *user,
		struct cohort_err *err);
void map_release(struct map *m);
/* The pages in [offset, offset + n) may be dropped from memory; they are read again when touched. Of a copy nothing
 * is dropped. */
void map_drop(const struct map *m, size_t offset, size_t n);
/* The bytes in [offset, offset + n) are not needed any more: reading them later gives anything. */
void map_forget(const struct map *m, size_t offset, size_t n);

/* Keeps the pages of any memory resident until map_unlock or until they are unmapped; they need not be resident before.
 * 0, or the errno of the refusal. Locks do not nest. */
int map_lock(const void *p, size_t n_bytes);
void map_unlock(const void *p, size_t n_bytes);
/* How much this process may lock: UINT64_MAX without a limit. */
uint64_t map_lock_limit(void);
/* Tests: every map_lock from now on fails with this errno (0: none does). */
void map_lock_fail(int error);

/* Reads a whole file, pipes included ("-" is standard input); *out is freed with mem_free and has a NUL behind it.
 * More than n_max bytes: E_LIMIT. */
enum cohort_status file_read(const char *path, size_t n_max, char **out, size_t *n_bytes, struct cohort_err *err);

#endif
