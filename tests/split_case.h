/* Splits a GGUF file into parts, as other programs write them: the keys in the first, tensors in their order. */
#ifndef TESTS_SPLIT_CASE_H
#define TESTS_SPLIT_CASE_H

#include "cohort_tools.h"

#include "base/file.h"
#include "base/mem.h"

#include <stdio.h>
#include <string.h>

static inline enum cohort_status split_number(struct cohort_gguf_writer *w, const char *key, enum cohort_gguf_type type,
		uint64_t v, struct cohort_err *err)
{
	struct cohort_gguf_kv kv = {.key = key, .n_key = strlen(key), .value = {.type = type, .u = v}};
	if (type == COHORT_GGUF_I32) {
		kv.value.u = 0;
		kv.value.i = (int64_t)v;
	}
	return cohort_gguf_writer_kv(w, &kv, err);
}

/* Part no of count with tensors [from, to) of the file, whose bytes are `file`; count 0: no keys of splitting. */
static inline enum cohort_status split_part(const struct cohort_gguf *g, const uint8_t *file, const char *path,
		size_t no, size_t count, size_t from, size_t to, struct cohort_err *err)
{
	struct cohort_gguf_writer *w = NULL;
	struct cohort_gguf_kv kv;
	struct cohort_gguf_tensor t;
	enum cohort_status st = cohort_gguf_writer_open(path, &w, err);

	for (size_t i = 0; !st && no == 0 && cohort_gguf_kv_get(g, i, &kv); i++)
		st = cohort_gguf_writer_kv(w, &kv, err);
	if (!st && count)
		st = split_number(w, "split.no", COHORT_GGUF_U16, no, err);
	if (!st && count)
		st = split_number(w, "split.count", COHORT_GGUF_U16, count, err);
	if (!st && count)
		st = split_number(w, "split.tensors.count", COHORT_GGUF_I32, cohort_gguf_n_tensors(g), err);
	for (size_t i = from; !st && i < to && cohort_gguf_tensor_get(g, i, &t); i++) {
		char name[65];
		snprintf(name, sizeof name, "%.*s", (int)t.n_name, t.name);
		st = cohort_gguf_writer_tensor(w, name, t.type, t.n_dims, t.ne, err);
	}
	if (!st)
		st = cohort_gguf_writer_begin(w, err);
	for (size_t i = from; !st && i < to && cohort_gguf_tensor_get(g, i, &t); i++)
		st = cohort_gguf_writer_data(w, i - from, file + t.offset, (size_t)t.n_bytes, err);
	if (!st)
		st = cohort_gguf_writer_finish(w, err);
	cohort_gguf_writer_free(w);
	return st;
}

/* Writes PREFIX-00001-of-0000N.gguf and so on; with n_parts 0 the vocabulary alone, to PREFIX itself. */
static inline enum cohort_status split_file(const char *in, const char *prefix, size_t n_parts, struct cohort_err *err)
{
	struct cohort_gguf *g = NULL;
	uint8_t *file = NULL;
	size_t n_bytes;
	char path[512];
	enum cohort_status st = cohort_gguf_open(in, &g, err);

	if (!st)
		st = file_load(in, SIZE_MAX, &file, &n_bytes, err);
	if (!st && !n_parts)
		st = split_part(g, file, prefix, 0, 0, 0, 0, err);
	for (size_t i = 0; !st && i < n_parts; i++) {
		const size_t n = cohort_gguf_n_tensors(g);
		snprintf(path, sizeof path, "%s-%05zu-of-%05zu.gguf", prefix, i + 1, n_parts);
		st = split_part(g, file, path, i, n_parts, n * i / n_parts, n * (i + 1) / n_parts, err);
	}
	mem_free(file);
	cohort_gguf_free(g);
	return st;
}

#endif
