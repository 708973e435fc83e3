/* Any bytes as a GGUF file: a status, or a directory whose every string, element and tensor can be read. */
#include "gguf/gguf.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes);

/* Sizes like those of the real formats, with the same overflow rule, so that block formats and unknown types occur. */
static bool fuzz_size(uint32_t type, uint64_t ne0, uint64_t n_rows, uint64_t *n_bytes, bool *bad_row)
{
	static const struct { uint32_t block, bytes; } formats[] = {
		{1, 4}, {1, 2}, {32, 18}, {32, 20}, {0, 0}, {0, 0}, {32, 22}, {32, 24}, {32, 34}, {0, 0}, {256, 84},
	};
	uint64_t n;

	if (type >= sizeof formats / sizeof *formats || !formats[type].block)
		return false;
	if (ne0 % formats[type].block) {
		*bad_row = true;
		return true;
	}
	if (__builtin_mul_overflow(ne0 / formats[type].block, (uint64_t)formats[type].bytes, &n) ||
			__builtin_mul_overflow(n, n_rows, &n))
		n = UINT64_MAX;
	*n_bytes = n;
	return true;
}

static uint64_t sum_str(struct gguf_str s)
{
	uint64_t sum = s.n;

	for (size_t i = 0; i < s.n; i++)
		sum += (uint8_t)s.s[i];
	return sum;
}

static uint64_t sum_value(const struct gguf_kv *v)
{
	struct gguf_kv elem;
	uint64_t sum = 0;
	size_t at = 0, at_str = 0;

	if (v->type == GGUF_STRING)
		return sum_str(v->str);
	if (v->type != GGUF_ARRAY)
		return v->u;
	for (uint64_t i = 0; i < v->arr.n; i++) {
		gguf_array_next(&v->arr, &at, &elem);
		sum += sum_value(&elem);
		if (v->arr.type == GGUF_STRING)
			sum += sum_str(gguf_array_next_str(&v->arr, &at_str));
		else if (v->arr.type == GGUF_F32)
			sum += gguf_array_f32(&v->arr, i) > 0;
		else if (v->arr.type == GGUF_I32 || v->arr.type == GGUF_U32)
			sum += (uint32_t)gguf_array_i32(&v->arr, i);
	}
	if (at != v->arr.n_bytes || (v->arr.type == GGUF_STRING && at_str != at))
		abort();
	return sum;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes)
{
	struct cohort_err err;
	uint64_t sum = 0;
	struct gguf g;
	uint32_t u;

	if (gguf_parse(&g, data, n_bytes, fuzz_size, &err)) {
		if (g.kv || g.tensors || g.by_key.slots || g.by_name.slots || !memchr(err.text, '\0', sizeof err.text))
			abort();
		return 0;
	}
	for (size_t i = 0; i < g.n_kv; i++)
		sum += sum_str(g.kv[i].key) + sum_value(&g.kv[i]);
	for (size_t i = 0; i < g.n_tensors; i++) {
		const struct gguf_tensor *t = &g.tensors[i];
		sum += sum_str(t->name);
		if (t->data)
			sum += t->data[0] + t->data[t->n_bytes - 1];
	}
	if (gguf_get_u32(&g, "general.alignment", false, &u, &err))
		abort();
	__asm__ volatile("" : : "r"(sum)); /* keeps the reads */
	gguf_release(&g);
	return 0;
}
