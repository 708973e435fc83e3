/* GGUF files written as a stream: key/values and the tensor directory first, then the data of each tensor in pieces.
 *
 * The whole metadata is held in memory until it is written, tensor data never is. */
#ifndef GGUF_GGUF_WRITE_H
#define GGUF_GGUF_WRITE_H

#include "gguf/gguf.h"

struct gguf_writer;

/* Touches no file yet. `size` as for gguf_open, outliving the writer. */
enum cohort_status gguf_writer_open(const char *path, gguf_size_fn *size, struct gguf_writer **out,
		struct cohort_err *err);
/* Not finished: the temporary file is removed and `path` is what it was. Accepts NULL. */
void gguf_writer_free(struct gguf_writer *w);

/* Adds a key. Bytes are copied; arrays are given as they lie in a file, and checked as if read from one. `offset` is
 * not used. general.alignment sets the alignment of the file. */
enum cohort_status gguf_writer_kv(struct gguf_writer *w, const struct gguf_kv *kv, struct cohort_err *err);
/* Adds an array of strings. */
enum cohort_status gguf_writer_strs(struct gguf_writer *w, struct gguf_str key, const struct gguf_str *strs, size_t n,
		struct cohort_err *err);
/* Adds a tensor to the directory; its data follows in the same order. */
enum cohort_status gguf_writer_tensor(struct gguf_writer *w, struct gguf_str name, uint32_t type, uint32_t n_dims,
		const uint64_t *ne, struct cohort_err *err);

/* Writes metadata and directory, after which neither can grow. */
enum cohort_status gguf_writer_begin(struct gguf_writer *w, struct cohort_err *err);
/* The next bytes of tensor i_tensor, which is the first that is not complete. */
enum cohort_status gguf_writer_data(struct gguf_writer *w, size_t i_tensor, const void *bytes, size_t n_bytes,
		struct cohort_err *err);
/* Puts the complete file in place. The writer remains to be freed. */
enum cohort_status gguf_writer_finish(struct gguf_writer *w, struct cohort_err *err);

#endif
