/* Whole files: read into memory, and written so that a path never holds half a file. */
#ifndef BASE_FILE_H
#define BASE_FILE_H

#include "base/err.h"

/* Writes the bytes to a new file beside `path` and renames it to `path`, replacing what was there (a symbolic link
 * itself, not what it points to; a directory or device is refused). The file's mode is what the umask leaves of 0666.
 * E_IO and E_MEMORY leave `path` as it was and nothing beside it; only when the very last step fails, telling the disk
 * of the new name, is the new file in place already. err->rule is "space" when there is no more room for the file.
 * A process that is killed leaves `path` as it was, or the new file; and perhaps the temporary file, .cohort-*.tmp,
 * which the next write to the same path removes. */
enum cohort_status file_write_atomic(const char *path, const void *bytes, size_t n_bytes, struct cohort_err *err);

/* The same in pieces, for files larger than memory: open makes the temporary file, commit puts it in place. Statuses:
 * E_IO and E_MEMORY, the latter from open only. A write that fails removes the temporary file, and the stream is good
 * for nothing but abort then. commit and abort free the stream, commit whatever its result. */
struct file_stream;
enum cohort_status file_stream_open(const char *path, struct file_stream **out, struct cohort_err *err);
enum cohort_status file_stream_write(struct file_stream *s, const void *bytes, size_t n_bytes, struct cohort_err *err);
enum cohort_status file_stream_commit(struct file_stream *s, struct cohort_err *err);
void file_stream_abort(struct file_stream *s); /* accepts NULL */

/* Removes the temporary files in a directory whose writers are no more. Failing is quiet. */
void file_sweep(const char *dir);

/* Reads a regular file, or its first n_max bytes when it is longer; *out is freed with mem_free. The bytes are a copy:
 * a file that is cut or changed later does not matter. A path is always a path ("-" is no standard input here). */
enum cohort_status file_load(const char *path, size_t n_max, uint8_t **out, size_t *n_bytes, struct cohort_err *err);

/* Reads a regular file whole, for those who would map it otherwise: aligned to 64 bytes, in large pages if it is large.
 * *out is freed with mem_free_aligned, and NULL for an empty file. One that ends before the size it had when it was
 * opened was cut meanwhile: E_IO. progress may be NULL; it is called now and then with 0..1, and its false gives
 * ABORTED. */
enum cohort_status file_load_large(const char *path, bool (*progress)(float done, void *user), void *user,
		uint8_t **out, size_t *n_bytes, struct cohort_err *err);

/* Whether both paths lead to one file, links followed. False if either is not there. */
bool file_same(const char *a, const char *b);

/* Tests: the n-th system call of this file from now on fails once with the given errno (0: the next; negative: none).
 * Counted are open, fstat of a file that is read, read, write, fsync, dup, rename, and the close of a file written.
 * With errno 0 it does not fail, but a read or write takes one byte only. */
void file_fail_after(int64_t n, int error);

#endif
