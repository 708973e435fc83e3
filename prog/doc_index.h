/* An index of documents: files, chunks of their text, a vector of each, and what model they were made with. As one
 *file:
 *
 *	 0  "COHORTIX"                        numbers are little-endian
 *	 8  u32 version (1), u32 pooling
 *	16  u64 bytes of the whole file, u64 checksum of all behind it (FNV-1a, 64 bits)
 *	32  u32 n_embd, n_vocab, n_layer, chunk_size, overlap, then bytes of architecture, name, separator
 *	64  u64 probe, n_params, weight_bytes, n_files, n_chunks, then bytes of all paths, of all texts, and 0
 *	    architecture, name, separator
 *	    u32 [n_files] bytes of each path, then the paths
 *	    [n_chunks] of u32 file, first line, last line, bytes, u64 offset in the file
 *	    the texts of the chunks
 *	    f32 [n_chunks, n_embd]
 */
#ifndef PROG_DOC_INDEX_H
#define PROG_DOC_INDEX_H

#include "base/err.h"

#define DOC_INDEX_VERSION 1
enum { DOC_INDEX_HEAD = 128, DOC_INDEX_CHUNK = 24 };

struct doc_file {
	size_t path, n_path; /* in `paths` */
};

struct doc_chunk {
	uint32_t file, first_line, last_line; /* lines from 1 */
	uint32_t n_bytes;
	uint64_t begin; /* in the file */
	size_t text; /* in `texts` */
};

/* What vectors of different models must not be mixed up by. probe is a hash of the vector of a fixed text: it covers
 * every weight, and is the same on every machine. */
struct doc_model {
	char *arch, *name; /* owned, with a NUL behind */
	uint32_t n_embd, n_vocab, n_layer;
	uint64_t n_params, weight_bytes, probe;
	enum cohort_pooling pooling;
};

struct doc_index {
	struct doc_model model;
	uint32_t chunk_size, overlap; /* tokens */
	char *separator; /* owned; "": none */
	size_t n_separator;
	char *paths, *texts;
	struct doc_file *files;
	struct doc_chunk *chunks;
	float *vectors; /* [n_chunks, n_embd]; each of length 1, or all zeros */
	size_t n_paths, n_texts, n_files, n_chunks;
	size_t paths_max, texts_max, files_max, chunks_max;
};

/* All zeros is an empty index. */
bool doc_index_add_file(struct doc_index *ix, const char *path, size_t n_path);
/* A chunk of the last file; the text is copied. */
bool doc_index_add_chunk(struct doc_index *ix, const char *text, uint32_t n_bytes, uint64_t begin, uint32_t first_line,
		uint32_t last_line);
void doc_index_release(struct doc_index *ix);

/* The bytes of the file; *out is freed with mem_free. E_MEMORY, E_LIMIT. */
enum cohort_status doc_index_encode(const struct doc_index *ix, uint8_t **out, size_t *n_out, struct cohort_err *err);
/* Reads any bytes: E_FORMAT with the offset, E_UNSUPPORTED for another version, E_MEMORY. What is read encodes to the
 * same bytes. On failure ix is empty. */
enum cohort_status doc_index_decode(struct doc_index *ix, const uint8_t *bytes, size_t n, struct cohort_err *err);

/* FNV-1a with 64 bits. */
uint64_t doc_index_hash(const void *bytes, size_t n);

#endif
