/* GGUF files: bytes -> checked key/values and tensor directory. A model may lie in several files, its parts; what is
 * handed out is then the first part's key/values and the tensors of all.
 *
 * Everything handed out points into the mapped file and is valid until gguf_release.
 * Strings are not NUL-terminated. Data in the file may be unaligned: read arrays through gguf_array_*. */
#ifndef GGUF_GGUF_H
#define GGUF_GGUF_H

#include "base/err.h"
#include "base/map.h"
#include "base/strmap.h"

#include <string.h>

enum gguf_type {
	GGUF_U8, GGUF_I8, GGUF_U16, GGUF_I16, GGUF_U32, GGUF_I32, GGUF_F32, GGUF_BOOL,
	GGUF_STRING, GGUF_ARRAY, GGUF_U64, GGUF_I64, GGUF_F64,
	GGUF_N_TYPES
};

struct gguf_str {
	const char *s;
	size_t n;
};

static inline bool gguf_str_is(struct gguf_str s, const char *text)
{
	return s.n == strlen(text) && memcmp(s.s, text, s.n) == 0;
}

struct gguf_array {
	enum gguf_type type;   /* of the elements; an array of arrays is GGUF_ARRAY */
	uint64_t n;
	const uint8_t *data;   /* first element, as in the file */
	size_t n_bytes;
};

struct gguf_kv {
	struct gguf_str key;
	enum gguf_type type;
	uint64_t offset;       /* of the entry in the file, which begins with the key */
	union {
		uint64_t u;    /* U8..U64, BOOL */
		int64_t i;     /* I8..I64 */
		double f;      /* F32, F64 */
		struct gguf_str str;
		struct gguf_array arr;
	};
};

#define GGUF_DIMS 4

struct gguf_tensor {
	struct gguf_str name;
	uint32_t type;             /* the file's number; known to src/quant or not */
	uint32_t n_dims;
	uint64_t ne[GGUF_DIMS];    /* ne[0] is the fastest; unused ones are 1 */
	uint32_t part;             /* which of gguf.parts it lies in */
	uint64_t offset;           /* of the data, from the start of that file */
	uint64_t n_bytes;          /* 0 when the type is unknown */
	const uint8_t *data;       /* NULL when the type is unknown */
	uint64_t entry_offset;     /* of its line in the directory, for messages */
};

struct gguf_part {
	struct map map;
	char *path;                /* NULL: the bytes are the caller's, who also unmaps them */
	uint32_t version;
	uint32_t alignment;
	uint64_t data_offset;      /* multiple of alignment; without tensors at most the file's size */
	size_t n_tensors;
};

struct gguf {
	struct gguf_part *parts;   /* in their order; one unless the model is split */
	size_t n_parts;
	uint32_t version;          /* these three: the first part's */
	uint32_t alignment;
	uint64_t data_offset;
	struct gguf_kv *kv;
	size_t n_kv;
	struct gguf_tensor *tensors; /* part after part, each in file order */
	size_t n_tensors;
	struct strmap by_key, by_name;
};

/* How many bytes n elements in rows of ne0 take; false when the type is unknown to the caller. Handed in, so that this
 * room need not know a block format. ne0 not a multiple of the block: sets *bad_row and returns true. A size that does
 * not fit 64 bits: *n_bytes is UINT64_MAX. */
typedef bool gguf_size_fn(uint32_t type, uint64_t ne0, uint64_t n_rows, uint64_t *n_bytes, bool *bad_row);

/* Everything is checked here, before it is used: what a successful open hands out needs no further check of bounds.
 * On failure *g is zeroed. Malformed bytes: E_FORMAT with the offset; a version or byte order this reader does not
 * know: E_UNSUPPORTED. A tensor whose type `size` does not know is kept, without data.
 *
 * Any part of a split model stands for all: the others are found beside it by their names (-00002-of-00003.gguf). */
enum cohort_status gguf_open(struct gguf *g, const char *path, gguf_size_fn *size, struct cohort_err *err);
/* The same with files copied into memory, by map_read. progress (or NULL) is called with 0..1 now and then, where a
 * part of n counts for 1/n; false gives ABORTED. */
struct gguf_copy {
	bool (*progress)(float done, void *user);
	void *user;
};
enum cohort_status gguf_open_copy(struct gguf *g, const char *path, const struct gguf_copy *copy, gguf_size_fn *size,
		struct cohort_err *err);
/* One file over bytes the caller keeps (fuzzing, tests). A part of a split model stays alone, see gguf_join. */
enum cohort_status gguf_parse(struct gguf *g, const uint8_t *data, size_t n_bytes, gguf_size_fn *size,
		struct cohort_err *err);
void gguf_release(struct gguf *g); /* accepts NULL and a zeroed struct */

/* How a file says that it is a part of a model: split.no, split.count, split.tensors.count. */
struct gguf_split {
	uint32_t no, count;       /* part no of count, from 0; a model in one file is part 0 of 1 */
	bool counts_tensors;
	uint32_t n_tensors;       /* of all parts, if counts_tensors */
};

/* From the key/values of the first part. */
enum cohort_status gguf_get_split(const struct gguf *g, struct gguf_split *out, struct cohort_err *err);
/* Adds the part that follows those g has. `next` has one part and is left empty on success; on failure both are good
 * for nothing but gguf_release. E_FORMAT when it is not the next part of this model: it says so, it contradicts a key
 * of the first part, or it has a tensor that is there already. */
enum cohort_status gguf_join(struct gguf *g, struct gguf *next, struct cohort_err *err);
/* Whether all parts and all tensors are there. */
enum cohort_status gguf_check_whole(const struct gguf *g, struct cohort_err *err);

/* n bytes of a tensor, from byte `from` on, need not stay in memory; they are read again when touched (a copy stays).
 * forget: they are not needed any more, reading them again gives anything. */
void gguf_drop(const struct gguf *g, const struct gguf_tensor *t, uint64_t from, uint64_t n);
void gguf_forget(const struct gguf *g, const struct gguf_tensor *t, uint64_t from, uint64_t n);

/* "u8", "string", ...; "unknown" for a number outside the enum. */
const char *gguf_type_name(enum gguf_type type);
/* Bytes of one value; 0 for strings and arrays, whose size varies. */
size_t gguf_type_bytes(enum gguf_type type);

/* NULL if absent. */
const struct gguf_kv *gguf_find(const struct gguf *g, const char *key);
const struct gguf_tensor *gguf_find_tensor(const struct gguf *g, const char *name);

/* Typed reads. A missing key leaves *out alone and is OK unless `need`; a wrong type or a value that does not
 * fit is E_FORMAT with key and offset. Any integer type may serve where it fits; f32 takes F32 or F64, and passes
 * infinities and NaN that are in the file. */
enum cohort_status gguf_get_u32(const struct gguf *g, const char *key, bool need, uint32_t *out,
		struct cohort_err *err);
enum cohort_status gguf_get_f32(const struct gguf *g, const char *key, bool need, float *out,
		struct cohort_err *err);
enum cohort_status gguf_get_bool(const struct gguf *g, const char *key, bool need, bool *out, struct cohort_err *err);
enum cohort_status gguf_get_str(const struct gguf *g, const char *key, bool need, struct gguf_str *out,
		struct cohort_err *err);
/* An array with elements of the given type. */
enum cohort_status gguf_get_array(const struct gguf *g, const char *key, bool need, enum gguf_type type,
		struct gguf_array *out, struct cohort_err *err);

/* Walks a string array (already checked at open): start with *at = 0, n times. */
struct gguf_str gguf_array_next_str(const struct gguf_array *a, size_t *at);
float gguf_array_f32(const struct gguf_array *a, uint64_t i);    /* element type F32 */
int32_t gguf_array_i32(const struct gguf_array *a, uint64_t i);  /* element type I32 or U32 */
/* Walks an array of any type, nested ones included: start with *at = 0, n times. The value goes to *out, whose key is
 * empty. Where gguf_type_bytes is not 0, *at = i * gguf_type_bytes is element i. */
void gguf_array_next(const struct gguf_array *a, size_t *at, struct gguf_kv *out);

#endif
