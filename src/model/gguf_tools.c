/* cohort_tools.h's view of GGUF files: the checked directory of src/gguf handed out as plain structs, and as text, and
 * its writer with the sizes of block formats.
 *
 * Invariants
 *  1. Nothing is copied but numbers: every pointer given out is into the mapped file, or static.
 *  2. Text is written in units (a byte, a character, an escape, a number): a unit is written whole or not at all, and
 *     none after the first that did not fit.
 *  3. An opened file is never changed, so that threads may share it.
 *
 * It lives here because it needs the container (gguf) and the names and sizes of block formats (quant). It refuses to
 * know what keys mean, and does not read tensor data. */
#include "cohort_tools.h"

#include "base/err.h"
#include "base/mem.h"
#include "base/utf8.h"
#include "gguf/gguf.h"
#include "gguf/gguf_write.h"
#include "model/mix.h"
#include "quant/quant.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The public numbers are the file's, and so are those of src/gguf. */
_Static_assert((int)COHORT_GGUF_U8 == (int)GGUF_U8 && (int)COHORT_GGUF_I8 == (int)GGUF_I8 &&
		(int)COHORT_GGUF_U16 == (int)GGUF_U16 && (int)COHORT_GGUF_I16 == (int)GGUF_I16 &&
		(int)COHORT_GGUF_U32 == (int)GGUF_U32 && (int)COHORT_GGUF_I32 == (int)GGUF_I32 &&
		(int)COHORT_GGUF_F32 == (int)GGUF_F32 && (int)COHORT_GGUF_BOOL == (int)GGUF_BOOL &&
		(int)COHORT_GGUF_STRING == (int)GGUF_STRING && (int)COHORT_GGUF_ARRAY == (int)GGUF_ARRAY &&
		(int)COHORT_GGUF_U64 == (int)GGUF_U64 && (int)COHORT_GGUF_I64 == (int)GGUF_I64 &&
		(int)COHORT_GGUF_F64 == (int)GGUF_F64 && GGUF_N_TYPES == 13, "type numbers differ");

struct cohort_gguf {
	struct gguf g;
};

const char *cohort_gguf_type_name(enum cohort_gguf_type type)
{
	return gguf_type_name((enum gguf_type)type);
}

enum cohort_status cohort_gguf_open(const char *path, struct cohort_gguf **out, struct cohort_err *err)
{
	enum cohort_status st;
	struct cohort_gguf *g;

	if (!path || !out)
		return err_set(err, COHORT_E_ARG, "%s is NULL", path ? "out" : "path");
	g = mem_zalloc(1, sizeof *g);
	if (!g)
		return err_set(err, COHORT_E_MEMORY, "%s: out of memory", path);
	if ((st = gguf_open(&g->g, path, quant_size, err))) {
		mem_free(g);
		return st;
	}
	*out = g;
	return COHORT_OK;
}

void cohort_gguf_free(struct cohort_gguf *g)
{
	if (!g)
		return;
	gguf_release(&g->g);
	mem_free(g);
}

uint32_t cohort_gguf_version(const struct cohort_gguf *g)
{
	return g ? g->g.version : 0;
}

uint32_t cohort_gguf_alignment(const struct cohort_gguf *g)
{
	return g ? g->g.alignment : 0;
}

uint64_t cohort_gguf_data_offset(const struct cohort_gguf *g)
{
	return g ? g->g.data_offset : 0;
}

uint64_t cohort_gguf_file_bytes(const struct cohort_gguf *g)
{
	uint64_t n = 0;

	for (size_t i = 0; g && i < g->g.n_parts; i++)
		n += g->g.parts[i].map.n_bytes; /* all are in the address space, so that the sum fits */
	return n;
}

size_t cohort_gguf_n_parts(const struct cohort_gguf *g)
{
	return g ? g->g.n_parts : 0;
}

bool cohort_gguf_part_get(const struct cohort_gguf *g, size_t i, struct cohort_gguf_part *out)
{
	if (!g || !out || i >= g->g.n_parts)
		return false;
	const struct gguf_part *p = &g->g.parts[i];
	*out = (struct cohort_gguf_part){
		.path = p->path, .version = p->version, .alignment = p->alignment, .data_offset = p->data_offset,
		.file_bytes = p->map.n_bytes, .n_tensors = p->n_tensors,
	};
	return true;
}

size_t cohort_gguf_n_kv(const struct cohort_gguf *g)
{
	return g ? g->g.n_kv : 0;
}

size_t cohort_gguf_n_tensors(const struct cohort_gguf *g)
{
	return g ? g->g.n_tensors : 0;
}

static struct cohort_gguf_value value_of(const struct gguf_kv *kv)
{
	struct cohort_gguf_value v = {.type = (enum cohort_gguf_type)kv->type};

	switch (kv->type) {
	case GGUF_U8: case GGUF_U16: case GGUF_U32: case GGUF_U64: case GGUF_BOOL:
		v.u = kv->u;
		break;
	case GGUF_I8: case GGUF_I16: case GGUF_I32: case GGUF_I64:
		v.i = kv->i;
		break;
	case GGUF_F32: case GGUF_F64:
		v.f = kv->f;
		break;
	case GGUF_STRING:
		v.str = kv->str.s;
		v.n_str = kv->str.n;
		break;
	case GGUF_ARRAY:
		v.elem_type = (enum cohort_gguf_type)kv->arr.type;
		v.n_elems = kv->arr.n;
		v.data = kv->arr.data;
		v.data_bytes = kv->arr.n_bytes;
		break;
	case GGUF_N_TYPES:
		break;
	}
	return v;
}

static void fill_kv(const struct gguf_kv *kv, struct cohort_gguf_kv *out)
{
	*out = (struct cohort_gguf_kv){
		.key = kv->key.s, .n_key = kv->key.n, .offset = kv->offset, .value = value_of(kv),
	};
}

bool cohort_gguf_kv_get(const struct cohort_gguf *g, size_t i, struct cohort_gguf_kv *out)
{
	if (!g || !out || i >= g->g.n_kv)
		return false;
	fill_kv(&g->g.kv[i], out);
	return true;
}

bool cohort_gguf_kv_find(const struct cohort_gguf *g, const char *key, struct cohort_gguf_kv *out)
{
	const struct gguf_kv *kv = g && key && out ? gguf_find(&g->g, key) : NULL;

	if (!kv)
		return false;
	fill_kv(kv, out);
	return true;
}

bool cohort_gguf_tensor_get(const struct cohort_gguf *g, size_t i, struct cohort_gguf_tensor *out)
{
	const struct quant_format *format;
	const struct gguf_tensor *t;

	if (!g || !out || i >= g->g.n_tensors)
		return false;
	t = &g->g.tensors[i];
	format = quant_format_get(t->type);
	*out = (struct cohort_gguf_tensor){
		.name = t->name.s, .n_name = t->name.n, .type = t->type,
		.type_name = format && format->name ? format->name : "unknown",
		.n_dims = t->n_dims, .part = t->part, .offset = t->offset, .n_bytes = t->n_bytes,
	};
	memcpy(out->ne, t->ne, sizeof out->ne);
	return true;
}

/* ---- Array elements ---- */

void cohort_gguf_cursor_init(struct cohort_gguf_cursor *c, const struct cohort_gguf_value *array)
{
	if (!c)
		return;
	*c = (struct cohort_gguf_cursor){0};
	if (array && array->type == COHORT_GGUF_ARRAY)
		c->array = *array;
}

bool cohort_gguf_cursor_next(struct cohort_gguf_cursor *c, struct cohort_gguf_value *out)
{
	struct gguf_kv kv;

	if (!c || !out || c->i_elem >= c->array.n_elems)
		return false;
	const struct gguf_array a = {
		.type = (enum gguf_type)c->array.elem_type, .n = c->array.n_elems,
		.data = c->array.data, .n_bytes = c->array.data_bytes,
	};
	gguf_array_next(&a, &c->at, &kv);
	c->i_elem++;
	*out = value_of(&kv);
	return true;
}

bool cohort_gguf_cursor_seek(struct cohort_gguf_cursor *c, uint64_t i)
{
	struct cohort_gguf_value skipped;

	if (!c || i >= c->array.n_elems)
		return false;
	const size_t n_bytes = gguf_type_bytes((enum gguf_type)c->array.elem_type);
	if (n_bytes) {
		c->i_elem = i;
		c->at = (size_t)i * n_bytes;
		return true;
	}
	if (i < c->i_elem) {
		c->i_elem = 0;
		c->at = 0;
	}
	while (c->i_elem < i)
		cohort_gguf_cursor_next(c, &skipped);
	return true;
}

/* ---- Values as text ---- */

struct text {
	char *buf;
	size_t n_max, n_written;
	size_t n;  /* length of the whole text, written or not */
	bool full;
};

static void put(struct text *t, const char *s, size_t n)
{
	if (t->buf && !t->full && t->n_written + n < t->n_max) {
		memcpy(t->buf + t->n_written, s, n);
		t->n_written += n;
	} else {
		t->full = true;
	}
	t->n += n;
}

/* C1 controls, on which terminals act, and marks that turn the order of what stands beside them. */
static bool is_unsafe(uint32_t cp)
{
	return (cp >= 0x80 && cp < 0xa0) || (cp >= 0x202a && cp <= 0x202e) || (cp >= 0x2066 && cp <= 0x2069);
}

static void put_str(struct text *t, const char *s, size_t n)
{
	char esc[8];
	uint32_t cp;

	put(t, "\"", 1);
	for (size_t i = 0, len; i < n; i += len) {
		unsigned char c = (unsigned char)s[i];
		len = 1;
		if (c == '"' || c == '\\')
			put(t, (char[]){'\\', (char)c}, 2);
		else if (c == '\n')
			put(t, "\\n", 2);
		else if (c == '\t')
			put(t, "\\t", 2);
		else if (c == '\r')
			put(t, "\\r", 2);
		else if (c < 0x20 || c == 0x7f || !(len = utf8_decode(s + i, n - i, &cp)) || is_unsafe(cp)) {
			len = 1; /* characters are escaped byte by byte, too */
			put(t, esc, (size_t)snprintf(esc, sizeof esc, "\\x%02x", c));
		} else {
			put(t, s + i, len);
		}
	}
	put(t, "\"", 1);
}

/* The fewest digits that read back to the same number: 0.1 and 1e-05, not 0.100000001 and 9.99999975e-06. */
static void put_float(struct text *t, double f, bool is_f32)
{
	char num[40];
	int n = 0;

	for (int digits = is_f32 ? 6 : 15; digits <= (is_f32 ? 9 : 17); digits++) {
		n = snprintf(num, sizeof num, "%.*g", digits, f);
		if (is_f32 ? strtof(num, NULL) == (float)f : strtod(num, NULL) == f)
			break;
	}
	put(t, num, (size_t)n);
}

static void put_value(struct text *t, const struct cohort_gguf_value *v, size_t n_elems_max)
{
	struct cohort_gguf_cursor c;
	struct cohort_gguf_value elem;
	char num[24];

	switch (v->type) {
	case COHORT_GGUF_U8: case COHORT_GGUF_U16: case COHORT_GGUF_U32: case COHORT_GGUF_U64:
		put(t, num, (size_t)snprintf(num, sizeof num, "%llu", (unsigned long long)v->u));
		break;
	case COHORT_GGUF_I8: case COHORT_GGUF_I16: case COHORT_GGUF_I32: case COHORT_GGUF_I64:
		put(t, num, (size_t)snprintf(num, sizeof num, "%lld", (long long)v->i));
		break;
	case COHORT_GGUF_F32: case COHORT_GGUF_F64:
		put_float(t, v->f, v->type == COHORT_GGUF_F32);
		break;
	case COHORT_GGUF_BOOL:
		put(t, v->u ? "true" : "false", v->u ? 4 : 5);
		break;
	case COHORT_GGUF_STRING:
		put_str(t, v->str, v->n_str);
		break;
	case COHORT_GGUF_ARRAY:
		/* Recursion is as deep as the file's arrays, which src/gguf bounds. */
		put(t, "[", 1);
		cohort_gguf_cursor_init(&c, v);
		for (size_t i = 0; i < n_elems_max && cohort_gguf_cursor_next(&c, &elem); i++) {
			if (i)
				put(t, ", ", 2);
			put_value(t, &elem, n_elems_max);
		}
		if (n_elems_max < v->n_elems)
			put(t, n_elems_max ? ", ..." : "...", n_elems_max ? 5 : 3);
		put(t, "]", 1);
		break;
	}
}

size_t cohort_gguf_format(const struct cohort_gguf_value *value, size_t n_elems_max, char *buf, size_t n_max)
{
	struct text t = {.buf = buf, .n_max = buf ? n_max : 0};

	if (value)
		put_value(&t, value, n_elems_max);
	if (t.n_max)
		buf[t.n_written] = '\0';
	return t.n;
}

/* ---- Writing ---- */

/* The public handle is the room's own; only the sizes of block formats are added here. */
static struct gguf_writer *inner(struct cohort_gguf_writer *w)
{
	return (struct gguf_writer *)w;
}

static struct gguf_str str_of(const char *s)
{
	return (struct gguf_str){s, strlen(s)};
}

enum cohort_status cohort_gguf_writer_open(const char *path, struct cohort_gguf_writer **out, struct cohort_err *err)
{
	struct gguf_writer *w;
	enum cohort_status st;

	if (!path || !out)
		return err_set(err, COHORT_E_ARG, "%s is NULL", path ? "out" : "path");
	if ((st = gguf_writer_open(path, quant_size, &w, err)))
		return st;
	*out = (struct cohort_gguf_writer *)w;
	return COHORT_OK;
}

void cohort_gguf_writer_free(struct cohort_gguf_writer *w)
{
	gguf_writer_free(inner(w));
}

static enum cohort_status add(struct cohort_gguf_writer *w, struct gguf_kv kv, const char *key, struct cohort_err *err)
{
	if (!w || !key)
		return err_set(err, COHORT_E_ARG, "%s is NULL", w ? "key" : "writer");
	kv.key = str_of(key);
	return gguf_writer_kv(inner(w), &kv, err);
}

enum cohort_status cohort_gguf_writer_u32(struct cohort_gguf_writer *w, const char *key, uint32_t v,
		struct cohort_err *err)
{
	return add(w, (struct gguf_kv){.type = GGUF_U32, .u = v}, key, err);
}

enum cohort_status cohort_gguf_writer_u64(struct cohort_gguf_writer *w, const char *key, uint64_t v,
		struct cohort_err *err)
{
	return add(w, (struct gguf_kv){.type = GGUF_U64, .u = v}, key, err);
}

enum cohort_status cohort_gguf_writer_f32(struct cohort_gguf_writer *w, const char *key, float v,
		struct cohort_err *err)
{
	return add(w, (struct gguf_kv){.type = GGUF_F32, .f = (double)v}, key, err);
}

enum cohort_status cohort_gguf_writer_bool(struct cohort_gguf_writer *w, const char *key, bool v,
		struct cohort_err *err)
{
	return add(w, (struct gguf_kv){.type = GGUF_BOOL, .u = v}, key, err);
}

enum cohort_status cohort_gguf_writer_str(struct cohort_gguf_writer *w, const char *key, const char *s,
		struct cohort_err *err)
{
	if (!s)
		return err_set(err, COHORT_E_ARG, "string is NULL");
	return add(w, (struct gguf_kv){.type = GGUF_STRING, .str = str_of(s)}, key, err);
}

enum cohort_status cohort_gguf_writer_strs(struct cohort_gguf_writer *w, const char *key, const char *const *v,
		const size_t *n_bytes, size_t n, struct cohort_err *err)
{
	struct gguf_str *strs;
	enum cohort_status st;

	if (!w || !key || (n && !v))
		return err_set(err, COHORT_E_ARG, "%s is NULL", !w ? "writer" : key ? "array" : "key");
	strs = mem_alloc(n, sizeof *strs);
	if (!strs)
		return err_set(err, COHORT_E_MEMORY, "out of memory");
	for (size_t i = 0; i < n; i++)
		strs[i] = n_bytes ? (struct gguf_str){v[i], n_bytes[i]} : str_of(v[i]);
	st = gguf_writer_strs(inner(w), str_of(key), strs, n, err);
	mem_free(strs);
	return st;
}

/* An array of numbers, which in memory is as in the file. */
static enum cohort_status add_numbers(struct cohort_gguf_writer *w, const char *key, enum gguf_type type,
		const void *v, size_t n, struct cohort_err *err)
{
	size_t n_bytes;

	if (n && !v)
		return err_set(err, COHORT_E_ARG, "array is NULL");
	if (!size_mul(n, gguf_type_bytes(type), &n_bytes))
		return err_set(err, COHORT_E_LIMIT, "%zu elements are too many", n);
	return add(w, (struct gguf_kv){.type = GGUF_ARRAY, .arr = {type, n, v, n_bytes}}, key, err);
}

enum cohort_status cohort_gguf_writer_f32s(struct cohort_gguf_writer *w, const char *key, const float *v, size_t n,
		struct cohort_err *err)
{
	return add_numbers(w, key, GGUF_F32, v, n, err);
}

enum cohort_status cohort_gguf_writer_i32s(struct cohort_gguf_writer *w, const char *key, const int32_t *v, size_t n,
		struct cohort_err *err)
{
	return add_numbers(w, key, GGUF_I32, v, n, err);
}

enum cohort_status cohort_gguf_writer_kv(struct cohort_gguf_writer *w, const struct cohort_gguf_kv *from,
		struct cohort_err *err)
{
	struct gguf_kv kv = {0};

	if (!w || !from)
		return err_set(err, COHORT_E_ARG, "%s is NULL", w ? "key/value" : "writer");
	const struct cohort_gguf_value *v = &from->value;
	kv.key = (struct gguf_str){from->key, from->n_key};
	kv.type = (enum gguf_type)v->type;
	switch (v->type) {
	case COHORT_GGUF_I8: case COHORT_GGUF_I16: case COHORT_GGUF_I32: case COHORT_GGUF_I64:
		kv.i = v->i;
		break;
	case COHORT_GGUF_F32: case COHORT_GGUF_F64:
		kv.f = v->f;
		break;
	case COHORT_GGUF_STRING:
		kv.str = (struct gguf_str){v->str, v->n_str};
		break;
	case COHORT_GGUF_ARRAY:
		kv.arr = (struct gguf_array){(enum gguf_type)v->elem_type, v->n_elems, v->data, v->data_bytes};
		break;
	default:
		kv.u = v->u;
		break;
	}
	return gguf_writer_kv(inner(w), &kv, err);
}

enum cohort_status cohort_gguf_writer_tensor(struct cohort_gguf_writer *w, const char *name, uint32_t type,
		uint32_t n_dims, const uint64_t *ne, struct cohort_err *err)
{
	if (!w || !name || !ne)
		return err_set(err, COHORT_E_ARG, "%s is NULL", !w ? "writer" : name ? "ne" : "name");
	return gguf_writer_tensor(inner(w), str_of(name), type, n_dims, ne, err);
}

enum cohort_status cohort_gguf_writer_begin(struct cohort_gguf_writer *w, struct cohort_err *err)
{
	return w ? gguf_writer_begin(inner(w), err) : err_set(err, COHORT_E_ARG, "writer is NULL");
}

enum cohort_status cohort_gguf_writer_data(struct cohort_gguf_writer *w, size_t i_tensor, const void *bytes,
		size_t n_bytes, struct cohort_err *err)
{
	if (!w || (!bytes && n_bytes))
		return err_set(err, COHORT_E_ARG, "%s is NULL", w ? "bytes" : "writer");
	return gguf_writer_data(inner(w), i_tensor, bytes, n_bytes, err);
}

enum cohort_status cohort_gguf_writer_finish(struct cohort_gguf_writer *w, struct cohort_err *err)
{
	return w ? gguf_writer_finish(inner(w), err) : err_set(err, COHORT_E_ARG, "writer is NULL");
}

const char *cohort_mix_name(size_t i)
{
	return mix_get(i) ? mix_get(i)->name : NULL;
}
