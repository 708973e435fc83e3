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
 * unchanged while open. Any part of a split model opens all of them (see cohort_model_open): then the key/values are
 * the first part's and the tensors those of all. Statuses: E_ARG, E_IO, E_FORMAT, E_UNSUPPORTED, E_MEMORY. */
COHORT_API enum cohort_status cohort_gguf_open(const char *path, struct cohort_gguf **out,
		struct cohort_err *err);
COHORT_API void cohort_gguf_free(struct cohort_gguf *g);

/* Of a split model the first three are the first part's, and the size is that of all parts. */
COHORT_API uint32_t cohort_gguf_version(const struct cohort_gguf *g);     /* 2 or 3 */
COHORT_API uint32_t cohort_gguf_alignment(const struct cohort_gguf *g);   /* of tensor data, in bytes */
COHORT_API uint64_t cohort_gguf_data_offset(const struct cohort_gguf *g); /* where tensor data begins */
COHORT_API uint64_t cohort_gguf_file_bytes(const struct cohort_gguf *g);
COHORT_API size_t cohort_gguf_n_parts(const struct cohort_gguf *g);       /* 1 unless the model is split */
COHORT_API size_t cohort_gguf_n_kv(const struct cohort_gguf *g);
COHORT_API size_t cohort_gguf_n_tensors(const struct cohort_gguf *g);

/* One of the files the model lies in. */
struct cohort_gguf_part {
	const char *path;        /* NUL-terminated, borrowed until the file is freed */
	uint32_t version, alignment;
	uint64_t data_offset;    /* where its tensor data begins */
	uint64_t file_bytes;
	size_t n_tensors;
};

/* Part i in order. False, *out untouched, past the end. */
COHORT_API bool cohort_gguf_part_get(const struct cohort_gguf *g, size_t i, struct cohort_gguf_part *out);

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
 * with escapes (\n, \x1b) for control and non-UTF-8 bytes and for characters that turn the order of text, arrays in
 * brackets with at most n_elems_max elements at each level and "..." for the rest. Writes at most n_max bytes, a
 * closing NUL included (none if n_max is 0), never part of a character or escape. Returns the length the whole text
 * has, without the NUL: it was cut if that is >= n_max. */
COHORT_API size_t cohort_gguf_format(const struct cohort_gguf_value *value, size_t n_elems_max,
		char *buf, size_t n_max);

struct cohort_gguf_tensor {
	const char *name;        /* [n_name], borrowed as above */
	size_t n_name;
	uint32_t type;           /* the file's number */
	const char *type_name;   /* "Q4_K"; "unknown" for a type this version does not know. Static. */
	uint32_t n_dims;         /* 1..4 */
	uint64_t ne[4];          /* ne[0] is the fastest; unused ones are 1 */
	uint32_t part;           /* the file it lies in */
	uint64_t offset;         /* of the data, from the start of that file */
	uint64_t n_bytes;        /* 0 when the type is unknown */
};

/* Tensor i in file order, part after part. False, *out untouched, past the end. */
COHORT_API bool cohort_gguf_tensor_get(const struct cohort_gguf *g, size_t i, struct cohort_gguf_tensor *out);

/* ---- Writing GGUF files --------------------------------------------------- */

/* Keys and tensors are announced, then the data of every tensor follows in the same order, in pieces of any size, so
 * that a file of many gigabytes needs little memory. The file is written beside its place and appears there whole at
 * the end, replacing what was there: until then, and whatever fails, the path holds what it held. Version 3, 32-byte
 * alignment unless the key general.alignment says otherwise.
 *
 * Statuses of all calls: E_ARG for what could not be read back (an empty or repeated name, a value that does not fit
 * its type, malformed array bytes) or comes in the wrong order or number; E_MEMORY; E_LIMIT. These leave the writer as
 * it was. E_IO, from _begin, _data and _finish, ends it: nothing is left beside the path, and every later call but
 * _free says E_IO again (but _begin may be tried again when the file could not be made at all). */
struct cohort_gguf_writer; /* opaque; one thread at a time */

/* Makes no file yet. */
COHORT_API enum cohort_status cohort_gguf_writer_open(const char *path, struct cohort_gguf_writer **out,
		struct cohort_err *err);
/* Before _finish succeeded this gives the file up. Accepts NULL. */
COHORT_API void cohort_gguf_writer_free(struct cohort_gguf_writer *w);

/* Keys, in file order. Bytes are copied. */
COHORT_API enum cohort_status cohort_gguf_writer_u32(struct cohort_gguf_writer *w, const char *key, uint32_t v,
		struct cohort_err *err);
COHORT_API enum cohort_status cohort_gguf_writer_u64(struct cohort_gguf_writer *w, const char *key, uint64_t v,
		struct cohort_err *err);
COHORT_API enum cohort_status cohort_gguf_writer_f32(struct cohort_gguf_writer *w, const char *key, float v,
		struct cohort_err *err);
COHORT_API enum cohort_status cohort_gguf_writer_bool(struct cohort_gguf_writer *w, const char *key, bool v,
		struct cohort_err *err);
/* s: NUL-terminated. Other bytes: cohort_gguf_writer_kv. */
COHORT_API enum cohort_status cohort_gguf_writer_str(struct cohort_gguf_writer *w, const char *key, const char *s,
		struct cohort_err *err);
/* v: [n]. n_bytes: [n] lengths, or NULL when the strings are NUL-terminated. */
COHORT_API enum cohort_status cohort_gguf_writer_strs(struct cohort_gguf_writer *w, const char *key,
		const char *const *v, const size_t *n_bytes, size_t n, struct cohort_err *err);
COHORT_API enum cohort_status cohort_gguf_writer_f32s(struct cohort_gguf_writer *w, const char *key, const float *v,
		size_t n, struct cohort_err *err);
COHORT_API enum cohort_status cohort_gguf_writer_i32s(struct cohort_gguf_writer *w, const char *key, const int32_t *v,
		size_t n, struct cohort_err *err);
/* Any key as _kv_get and _kv_find of an open file give it: copies it unchanged. `offset` is not used. */
COHORT_API enum cohort_status cohort_gguf_writer_kv(struct cohort_gguf_writer *w, const struct cohort_gguf_kv *kv,
		struct cohort_err *err);

/* Announces a tensor; ne: [n_dims], 1..4, ne[0] the fastest. E_UNSUPPORTED: a format this version does not know. */
COHORT_API enum cohort_status cohort_gguf_writer_tensor(struct cohort_gguf_writer *w, const char *name, uint32_t type,
		uint32_t n_dims, const uint64_t *ne, struct cohort_err *err);

/* Makes the file; no keys or tensors after it. */
COHORT_API enum cohort_status cohort_gguf_writer_begin(struct cohort_gguf_writer *w, struct cohort_err *err);
/* The next bytes of tensor i_tensor, counted as announced from 0. The one before must be complete. */
COHORT_API enum cohort_status cohort_gguf_writer_data(struct cohort_gguf_writer *w, size_t i_tensor, const void *bytes,
		size_t n_bytes, struct cohort_err *err);
/* Every tensor is complete: puts the file in place. */
COHORT_API enum cohort_status cohort_gguf_writer_finish(struct cohort_gguf_writer *w, struct cohort_err *err);

/* ---- Formats of whole models ------------------------------------------------ */

/* "F16", "Q4_K_M", ...: what a whole model may be written as; NULL past the end. A mix has more bits in some tensors,
 * by the rules usual for its name. */
COHORT_API const char *cohort_mix_name(size_t i);

/* ---- Random models ---------------------------------------------------------- */

/* A llama model with random weights: of no use for text, but of the shape, the formats and the size of a real one, so
 * that its speed is a real one's, and a vocabulary of made-up words. A known shape is the dimensions of the model it is
 * named after and no more: that of qwen2.5-0.5b is a llama too, without that model's biases. Weights are scaled such
 * that activations stay of the order of one. The file's bytes depend on shape, type and seed only, whatever the machine
 * and the threads. */
struct cohort_synth_params {
	size_t struct_size;
	uint32_t n_vocab;     /* at least 259: the unknown, begin and end tokens and one for each byte */
	uint32_t n_embd, n_layer, n_head, n_head_kv, n_ff, n_ctx;
	uint32_t head_size;   /* elements per head, even, at most 4096; 0: n_embd / n_head */
	float rope_base;      /* 1 to 1e30 */
	bool tied;            /* the embedding serves as output matrix */
	bool pure;            /* every matrix in the type's base format, where its rows are whole blocks of it */
	const char *type;     /* of cohort_mix_name; upper or lower case */
	const char *name;     /* general.name */
	uint64_t seed;
	int32_t n_threads;    /* 0: one per CPU; at most 1024 */
	/* Called now and then, with 0..1; returning false aborts (COHORT_ABORTED). */
	bool (*progress)(float done, void *user);
	void *progress_user;
};

/* The shape of smol-135m, Q4_K_M, seed 0. */
COHORT_API void cohort_synth_params_init(struct cohort_synth_params *params);
/* Names of known shapes; NULL past the end. */
COHORT_API const char *cohort_synth_shape_name(size_t i);
/* Sets name, n_vocab .. rope_base and tied to those of a known shape; false, with nothing changed, if not known. */
COHORT_API bool cohort_synth_shape(struct cohort_synth_params *params, const char *name);
/* Statuses: E_ARG, E_IO, E_MEMORY, E_LIMIT, ABORTED. The file appears whole or not at all. */
COHORT_API enum cohort_status cohort_synth_write(const char *path, const struct cohort_synth_params *params,
		struct cohort_err *err);

/* ---- Quantising --------------------------------------------------------------- */

/* A GGUF file written in another format. Every key is copied but those that make a file a part of a split model
 * (all parts are read, one file is written) and general.file_type and general.quantization_version,
 * which are set. Matrices become what the mix has for their role, told by the usual names (token_embd, output,
 * blk.N.attn_v, ...; any architecture); vectors, norms, biases, the choice of experts, position tables and such stay as
 * they are. The file's bytes do not depend on the threads. */

/* What becomes of a tensor. */
struct cohort_quantize_tensor {
	const char *name;          /* [n_name], any bytes, not NUL-terminated; until the callback returns */
	size_t n_name;
	uint32_t n_dims;           /* 1..4 */
	uint64_t ne[4];            /* ne[0] is the fastest; unused ones are 1 */
	const char *from, *to;     /* "F16", "Q4_K"; static */
	const char *instead_of;    /* what its rows are no whole blocks of, so that `to` stands in for it; else NULL */
	uint64_t bytes_before, bytes_after;
	double rms_error;          /* of the differences, over that of the weights; 0 when copied, and in a dry run */
	double max_error;          /* the largest difference */
};

struct cohort_quantize_params {
	size_t struct_size;
	const char *type;                 /* of cohort_mix_name; upper or lower case */
	const char *token_embedding_type; /* a single format ("Q8_0") for the token embedding; NULL: by the mix */
	const char *output_tensor_type;   /* the same for the output matrix, also where the embedding serves as it */
	bool pure;                        /* no mix: the base format wherever rows are whole blocks of it */
	bool allow_requantize;            /* converts what is quantised already, too */
	bool dry_run;                     /* reports what would be done: reads no weights, writes nothing */
	int32_t n_threads;                /* 0: one per CPU; at most 1024 */
	/* Called now and then, with 0..1; returning false aborts (COHORT_ABORTED). */
	bool (*progress)(float done, void *user);
	void *progress_user;
	/* Called for each tensor in file order, when it is done. Measuring the errors takes some more time. */
	void (*report)(const struct cohort_quantize_tensor *t, void *user);
	void *report_user;
};

struct cohort_quantize_result {
	uint64_t n_tensors, n_weights;
	uint64_t n_converted;               /* tensors; the others are copied */
	uint64_t n_fallback;                /* tensors with `instead_of` */
	uint64_t bytes_before, bytes_after; /* of tensor data */
};

/* Q4_K_M, one thread per CPU. */
COHORT_API void cohort_quantize_params_init(struct cohort_quantize_params *params);
/* Reads `in` and writes `out`, another file, which appears whole or not at all; in a dry run `out` may be NULL. result
 * may be NULL, and is set when all went well. Statuses: E_ARG, also for a file that takes allow_requantize; E_FORMAT,
 * also for weights that are not finite; E_IO, E_UNSUPPORTED, E_MEMORY, E_LIMIT, ABORTED. */
COHORT_API enum cohort_status cohort_quantize_write(const char *in, const char *out,
		const struct cohort_quantize_params *params, struct cohort_quantize_result *result,
		struct cohort_err *err);

/* ---- Chat templates ------------------------------------------------------------- */

/* A conversation as the text a model was trained on, by the model's own Jinja template (tokenizer.chat_template). The
 * language, and what a template sees, is in docs/templates.md. A template cannot read files, run code or change what it
 * is given, and ends within its limits whatever it does. */
struct cohort_template; /* opaque, immutable, shareable between threads */

/* source: [n_bytes], UTF-8, up to 4 MiB. Statuses: E_ARG; E_FORMAT, not UTF-8 or a syntax error, with the line in
 * err->row and in the text; E_UNSUPPORTED, a tag that needs other templates; E_LIMIT, E_MEMORY. */
COHORT_API enum cohort_status cohort_template_open(const char *source, size_t n_bytes, struct cohort_template **out,
		struct cohort_err *err);
COHORT_API void cohort_template_free(struct cohort_template *t);

/* Texts are NUL-terminated UTF-8, and borrowed until the call returns. */
struct cohort_template_params {
	size_t struct_size;
	const char *messages;       /* a JSON array; NULL: the template sees no such variable */
	const char *tools;          /* JSON ("null": none); NULL: the template sees no such variable */
	const char *documents;      /* the same */
	const char *extra;          /* a JSON object of further variables, which go before the others; or NULL */
	const char *bos_token, *eos_token; /* NULL: the template sees no such variable */
	bool add_generation_prompt;
	const char *now;            /* for strftime_now: "2025-01-02T03:04:05"; NULL: the clock */
	/* Limits: more is E_LIMIT. */
	uint64_t n_steps_max;       /* expressions, items, and so on; long texts count for their length */
	size_t n_out_max;           /* bytes of text */
	size_t n_bytes_max;         /* bytes of memory; single texts under construction come on top */
	uint32_t depth_max;         /* levels of calls and values; a level takes less than 1 KB of stack */
};

/* With the generation prompt, no texts; 64 MiB of text, 400 levels. n_steps_max is UINT64_MAX, which stands for 2
 * million and 64 for each byte of the template and of its data, but 20 million at most; n_bytes_max is SIZE_MAX, for 8
 * MiB and 128 for each of those bytes, but 512 MiB at most. */
COHORT_API void cohort_template_params_init(struct cohort_template_params *params);
/* *out: [*n_out], UTF-8 with a NUL behind it, freed by cohort_template_text_free. params may be NULL. Statuses: E_ARG,
 * also for what the template refuses (raise_exception) or Python would raise for; E_FORMAT, a text that is not JSON;
 * E_UNSUPPORTED, E_LIMIT, E_MEMORY. err->row is the line in the template, -1 if none is to blame. */
COHORT_API enum cohort_status cohort_template_render(const struct cohort_template *t,
		const struct cohort_template_params *params, char **out, size_t *n_out, struct cohort_err *err);
COHORT_API void cohort_template_text_free(char *text);

#ifdef __cplusplus
}
#endif
#endif
