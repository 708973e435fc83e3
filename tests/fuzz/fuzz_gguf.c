/* Any bytes as a GGUF file, and as the parts of a split model, one behind the other: a status, or a directory whose
 * every string, element and tensor can be read. */
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

/* Reads all that a directory hands out. */
static void walk(const struct gguf *g)
{
	uint64_t sum = 0;
	size_t n = 0;

	for (size_t i = 0; i < g->n_kv; i++)
		sum += sum_str(g->kv[i].key) + sum_value(&g->kv[i]);
	for (size_t i = 0; i < g->n_tensors; i++) {
		const struct gguf_tensor *t = &g->tensors[i];
		sum += sum_str(t->name);
		if (t->part >= g->n_parts)
			abort();
		if (t->data && t->data != g->parts[t->part].map.data + t->offset)
			abort();
		if (t->data)
			sum += t->data[0] + t->data[t->n_bytes - 1];
	}
	for (size_t i = 0; i < g->n_parts; i++)
		n += g->parts[i].n_tensors;
	if (n != g->n_tensors)
		abort();
	__asm__ volatile("" : : "r"(sum)); /* keeps the reads */
}

/* Where the next file begins, for bytes that hold several parts one behind the other. */
static size_t next_magic(const uint8_t *data, size_t n_bytes, size_t from)
{
	for (size_t i = from; i + 8 <= n_bytes; i++)
		if (memcmp(data + i, "GGUF\3\0\0\0", 8) == 0)
			return i;
	return n_bytes;
}

static void join(const uint8_t *data, size_t n_bytes)
{
	struct cohort_err err;
	struct gguf_split s;
	struct gguf g, part;
	size_t at = next_magic(data, n_bytes, 1);

	if (gguf_parse(&g, data, at, fuzz_size, &err))
		return;
	while (at < n_bytes) {
		const size_t end = next_magic(data, n_bytes, at + 1);
		if (gguf_parse(&part, data + at, end - at, fuzz_size, &err))
			break;
		if (gguf_join(&g, &part, &err)) {
			if (!memchr(err.text, '\0', sizeof err.text))
				abort();
			gguf_release(&part);
			gguf_release(&g);
			return;
		}
		if (part.kv || part.tensors || part.parts)
			abort();
		at = end;
	}
	if (!gguf_check_whole(&g, &err) && (gguf_get_split(&g, &s, &err) || s.count != g.n_parts || s.no))
		abort();
	walk(&g);
	gguf_release(&g);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes)
{
	struct cohort_err err;
	struct gguf g;
	uint32_t u;

	join(data, n_bytes);
	if (gguf_parse(&g, data, n_bytes, fuzz_size, &err)) {
		if (g.kv || g.tensors || g.by_key.slots || g.by_name.slots || g.parts ||
				!memchr(err.text, '\0', sizeof err.text))
			abort();
		return 0;
	}
	walk(&g);
	if (gguf_get_u32(&g, "general.alignment", false, &u, &err))
		abort();
	gguf_release(&g);
	return 0;
}
