/* cohort for tools: what programs around the library need beyond running a model.
 *
 * The conventions of cohort.h hold here too.
 */
#ifndef COHORT_TOOLS_H
#define COHORT_TOOLS_H

#include "cohort.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Reading GGUF files -------------------------------------------------- */

struct cohort_gguf; /* opaque, immutable, shareable between threads */

/* Numbers as in the file. */
enum cohort_gguf_type {
	COHORT_GGUF_U8 = 0, COHORT_GGUF_I8 = 1, COHORT_GGUF_U16 = 2, COHORT_GGUF_I16 = 3,
	COHORT_GGUF_U32 = 4, COHORT_GGUF_I32 = 5, COHORT_GGUF_F32 = 6, COHORT_GGUF_BOOL = 7,
	COHORT_GGUF_STRING = 8, COHORT_GGUF_ARRAY = 9,
	COHORT_GGUF_U64 = 10, COHORT_GGUF_I64 = 11, COHORT_GGUF_F64 = 12
};

/* "u8", "string", "array", ...; "unknown" for a number outside the enum. Static. */
COHORT_API const char *cohort_gguf_type_name(enum cohort_gguf_type type);

/* Opens a file and checks its metadata and its tensor directory completely; tensor data is mapped, not read. Any model
 * architecture will do, and tensor types this version does not know are listed without a size. The file must stay
 * unchanged while open. Statuses: E_ARG, E_IO, E_FORMAT, E_UNSUPPORTED, E_MEMORY. */
COHORT_API enum cohort_status cohort_gguf_open(const char *path, struct cohort_gguf **out,
		struct cohort_err *err);
COHORT_API void cohort_gguf_free(struct cohort_gguf *g);

COHORT_API uint32_t cohort_gguf_version(const struct cohort_gguf *g);     /* 2 or 3 */
COHORT_API uint32_t cohort_gguf_alignment(const struct cohort_gguf *g);   /* of tensor data, in bytes */
COHORT_API uint64_t cohort_gguf_data_offset(const struct cohort_gguf *g); /* where tensor data begins */
COHORT_API uint64_t cohort_gguf_file_bytes(const struct cohort_gguf *g);
COHORT_API size_t cohort_gguf_n_kv(const struct cohort_gguf *g);
COHORT_API size_t cohort_gguf_n_tensors(const struct cohort_gguf *g);

/* A value: of a key, or of an array's element. Only the fields of its type are set, the others are 0.
 * Pointers are borrowed until the file is freed and point to any bytes, not NUL-terminated. */
struct cohort_gguf_value {
	enum cohort_gguf_type type;
	uint64_t u;                      /* U8, U16, U32, U64, BOOL (0 or 1) */
	int64_t i;                       /* I8, I16, I32, I64 */
	double f;                        /* F32, F64 */
	const char *str;                 /* STRING: [n_str] */
	size_t n_str;
	enum cohort_gguf_type elem_type; /* ARRAY; arrays may hold arrays */
	uint64_t n_elems;                /* ARRAY */
	const void *data;                /* ARRAY: [data_bytes], as in the file, unaligned; for the cursor */
	size_t data_bytes;
};

struct cohort_gguf_kv {
	const char *key;                 /* [n_key], borrowed as above */
	size_t n_key;
	uint64_t offset;                 /* of the entry in the file */
	struct cohort_gguf_value value;
};

/* Key/value i in file order. False, *out untouched, past the end. */
COHORT_API bool cohort_gguf_kv_get(const struct cohort_gguf *g, size_t i, struct cohort_gguf_kv *out);
/* The same by its name. False if there is none. */
COHORT_API bool cohort_gguf_kv_find(const struct cohort_gguf *g, const char *key, struct cohort_gguf_kv *out);

/* Walks the elements of an array. Fields are the library's. Nothing to release; the file must stay open. */
struct cohort_gguf_cursor {
	struct cohort_gguf_value array;
	uint64_t i_elem;
	size_t at;
};

/* Stands before the first element. A value that is no array has no elements. */
COHORT_API void cohort_gguf_cursor_init(struct cohort_gguf_cursor *c, const struct cohort_gguf_value *array);
/* Gives the element and steps on; false, *out untouched, at the end. */
COHORT_API bool cohort_gguf_cursor_next(struct cohort_gguf_cursor *c, struct cohort_gguf_value *out);
/* Stands before element i; false, with the cursor unmoved, if there are not more than i. At once for numbers;
 * strings and arrays are walked, from here or, for an earlier i, from the start. */
COHORT_API bool cohort_gguf_cursor_seek(struct cohort_gguf_cursor *c, uint64_t i);

/* The value as one line of text: numbers so that they read back to the same value, true and false, strings quoted
 * with control and non-UTF-8 bytes escaped (\n, \x1b), arrays in brackets with at most n_elems_max elements at each
 * level and "..." for the rest. Writes at most n_max bytes, a closing NUL included (none if n_max is 0), never part of
 * a character or escape. Returns the length the whole text has, without the NUL: it was cut if that is >= n_max. */
COHORT_API size_t cohort_gguf_format(const struct cohort_gguf_value *value, size_t n_elems_max,
		char *buf, size_t n_max);

struct cohort_gguf_tensor {
	const char *name;        /* [n_name], borrowed as above */
	size_t n_name;
	uint32_t type;           /* the file's number */
	const char *type_name;   /* "Q4_K"; "unknown" for a type this version does not know. Static. */
	uint32_t n_dims;         /* 1..4 */
	uint64_t ne[4];          /* ne[0] is the fastest; unused ones are 1 */
	uint64_t offset;         /* of the data, from the start of the file */
	uint64_t n_bytes;        /* 0 when the type is unknown */
};

/* Tensor i in file order. False, *out untouched, past the end. */
COHORT_API bool cohort_gguf_tensor_get(const struct cohort_gguf *g, size_t i, struct cohort_gguf_tensor *out);

#ifdef __cplusplus
}
#endif
#endif
