/* GGUF reader: walks the bytes of a file once and leaves a checked directory of what is in it. Files on the disk, and
 * models in several of them: gguf_split.c.
 *
 * Invariants
 *  1. The reader's position never exceeds the file's size; a length is compared with what is left before it is used.
 *  2. A count is believed only as far as the bytes left could hold so many entries of the smallest encoded size, and
 *     tables grow with the entries really read, never with the count announced.
 *  3. No sum or product of numbers from the file can wrap: either both sides are bounded already or the operation is
 *     a checked one.
 *  4. Recursion is bounded by DEPTH_MAX; the work is linear in the size of the metadata, but for sorting the tensors.
 *  5. After success every pointer handed out lies in the file with its whole length, tensors do not overlap, and keys
 *     and tensor names are unique. After failure *g is zeroed and nothing is held.
 *
 * It refuses to know what a key means (general.alignment excepted, which is part of the container), what a block
 * format looks like (the caller's gguf_size_fn does), and whether strings are text. */
#include "gguf/gguf.h"

#include "base/mem.h"
#include "gguf/gguf_foreign.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "numbers are read by memcpy from little-endian files");

#define HEADER_BYTES 24        /* magic, version, number of tensors, number of key/values */
#define KV_BYTES_MIN 14        /* key length, one byte of key, type, a one-byte value */
#define TENSOR_BYTES_MIN 33    /* name length, one byte of name, n_dims, one dimension, type, offset */
#define ARRAY_BYTES_MIN 12     /* element type and count, for an empty array */
#define STRING_BYTES_MIN 8     /* the length, for an empty string */
#define KEY_BYTES_MAX 65535    /* the specification's limit */
#define NAME_BYTES_MAX 64      /* the specification's limit */
#define DEPTH_MAX 4            /* arrays in arrays; no known writer goes beyond 2 */
#define ALIGNMENT_DEFAULT 32
#define ALIGNMENT_MAX (1u << 20) /* far above any page size in use; bounds the padding */

/* Behind what is missing at the end: most such files are downloads that broke off. */
#define TOO_EARLY "; the file ends too early: was the download finished?"

typedef unsigned long long ull; /* for %llu, whatever uint64_t is */

static const struct {
	const char *name;
	uint8_t n_bytes;     /* 0: varies */
	uint8_t n_bytes_min;
} types[GGUF_N_TYPES] = {
	[GGUF_U8] = {"u8", 1, 1},
	[GGUF_I8] = {"i8", 1, 1},
	[GGUF_U16] = {"u16", 2, 2},
	[GGUF_I16] = {"i16", 2, 2},
	[GGUF_U32] = {"u32", 4, 4},
	[GGUF_I32] = {"i32", 4, 4},
	[GGUF_F32] = {"f32", 4, 4},
	[GGUF_BOOL] = {"bool", 1, 1},
	[GGUF_STRING] = {"string", 0, STRING_BYTES_MIN},
	[GGUF_ARRAY] = {"array", 0, ARRAY_BYTES_MIN},
	[GGUF_U64] = {"u64", 8, 8},
	[GGUF_I64] = {"i64", 8, 8},
	[GGUF_F64] = {"f64", 8, 8},
};

const char *gguf_type_name(enum gguf_type type)
{
	return (unsigned)type < GGUF_N_TYPES ? types[type].name : "unknown";
}

size_t gguf_type_bytes(enum gguf_type type)
{
	return (unsigned)type < GGUF_N_TYPES ? types[type].n_bytes : 0;
}

/* ---- Reading ---- */

struct reader {
	const uint8_t *data;
	size_t n, at; /* at <= n */
	struct cohort_err *err;
};

static size_t left(const struct reader *r)
{
	return r->n - r->at;
}

/* Steps over n bytes; NULL, and E_FORMAT in the error, when there are fewer. */
static const uint8_t *take(struct reader *r, size_t n, const char *what)
{
	const uint8_t *p = r->data + r->at;

	if (n > left(r)) {
		err_at(r->err, COHORT_E_FORMAT, r->at, "file ends inside %s: %zu bytes needed, %zu left" TOO_EARLY,
				what, n, left(r));
		return NULL;
	}
	r->at += n;
	return p;
}

/* A number of n bytes. */
static enum cohort_status read_number(struct reader *r, const char *what, void *out, size_t n)
{
	const uint8_t *p = take(r, n, what);

	if (!p)
		return COHORT_E_FORMAT;
	memcpy(out, p, n);
	return COHORT_OK;
}

static enum cohort_status read_str(struct reader *r, const char *what, struct gguf_str *out)
{
	enum cohort_status st;
	size_t at = r->at;
	uint64_t n;

	if ((st = read_number(r, what, &n, sizeof n)))
		return st;
	if (n > left(r))
		return err_at(r->err, COHORT_E_FORMAT, at, "%s is %llu bytes long, but only %zu are left" TOO_EARLY,
				what, (ull)n, left(r));
	*out = (struct gguf_str){(const char *)r->data + r->at, (size_t)n};
	r->at += (size_t)n;
	return COHORT_OK;
}

/* A key or a tensor name: with a limit, and not empty. */
static enum cohort_status read_name(struct reader *r, const char *what, size_t n_max, struct gguf_str *out)
{
	enum cohort_status st;
	size_t at = r->at;

	if ((st = read_str(r, what, out)))
		return st;
	if (out->n == 0)
		return err_at(r->err, COHORT_E_FORMAT, at, "%s is empty", what);
	if (out->n > n_max)
		return err_at(r->err, COHORT_E_FORMAT, at, "%s is %zu bytes long, the limit is %zu", what, out->n,
				n_max);
	return COHORT_OK;
}

static enum cohort_status read_type(struct reader *r, const char *what, enum gguf_type *out)
{
	enum cohort_status st;
	size_t at = r->at;
	uint32_t type;

	if ((st = read_number(r, what, &type, sizeof type)))
		return st;
	if (type >= GGUF_N_TYPES)
		return err_at(r->err, COHORT_E_FORMAT, at, "%s is %u, which is no known type", what, type);
	*out = (enum gguf_type)type;
	return COHORT_OK;
}

/* A number or a bool: p has types[type].n_bytes readable bytes, aligned or not. */
static void decode_scalar(const uint8_t *p, enum gguf_type type, struct gguf_kv *v)
{
	union {
		uint16_t u16;
		int16_t i16;
		uint32_t u32;
		int32_t i32;
		float f32;
		double f64;
		uint64_t u64;
		int64_t i64;
	} w = {.u64 = 0};

	memcpy(&w, p, types[type].n_bytes);
	switch (type) {
	case GGUF_I8: v->i = (int8_t)*p; break;
	case GGUF_U16: v->u = w.u16; break;
	case GGUF_I16: v->i = w.i16; break;
	case GGUF_U32: v->u = w.u32; break;
	case GGUF_I32: v->i = w.i32; break;
	case GGUF_F32: v->f = (double)w.f32; break;
	case GGUF_U64: v->u = w.u64; break;
	case GGUF_I64: v->i = w.i64; break;
	case GGUF_F64: v->f = w.f64; break;
	default: v->u = *p; break; /* U8 and BOOL */
	}
}

static enum cohort_status check_bools(struct reader *r, const uint8_t *p, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (p[i] > 1)
			return err_at(r->err, COHORT_E_FORMAT, (uint64_t)(p + i - r->data), "bool is %u, not 0 or 1",
					p[i]);
	return COHORT_OK;
}

static enum cohort_status read_value(struct reader *r, enum gguf_type type, unsigned depth, struct gguf_kv *v);

static enum cohort_status read_array(struct reader *r, unsigned depth, struct gguf_array *a)
{
	enum cohort_status st;
	struct gguf_kv skipped;
	size_t at = r->at, start;

	if (depth > DEPTH_MAX)
		return err_at(r->err, COHORT_E_FORMAT, at, "arrays are nested deeper than %d", DEPTH_MAX);
	if ((st = read_type(r, "array element type", &a->type)))
		return st;
	at = r->at;
	if ((st = read_number(r, "array length", &a->n, sizeof a->n)))
		return st;
	if (a->n > left(r) / types[a->type].n_bytes_min)
		return err_at(r->err, COHORT_E_FORMAT, at,
				"array of %llu x %s cannot fit in the %zu bytes left" TOO_EARLY, (ull)a->n,
				types[a->type].name, left(r));
	start = r->at;
	a->data = r->data + start;
	if (types[a->type].n_bytes) {
		r->at += (size_t)a->n * types[a->type].n_bytes; /* at most what is left, by the test above */
		if (a->type == GGUF_BOOL && (st = check_bools(r, a->data, (size_t)a->n)))
			return st;
	} else {
		for (uint64_t i = 0; i < a->n; i++)
			if ((st = read_value(r, a->type, depth + 1, &skipped)))
				return st;
	}
	a->n_bytes = r->at - start;
	return COHORT_OK;
}

/* depth is that of the value itself, should it be an array: 1 for the value of a key. */
static enum cohort_status read_value(struct reader *r, enum gguf_type type, unsigned depth, struct gguf_kv *v)
{
	enum cohort_status st;
	const uint8_t *p;

	v->type = type;
	if (type == GGUF_STRING)
		return read_str(r, "string", &v->str);
	if (type == GGUF_ARRAY)
		return read_array(r, depth, &v->arr);
	p = take(r, types[type].n_bytes, "a value");
	if (!p)
		return COHORT_E_FORMAT;
	if (type == GGUF_BOOL && (st = check_bools(r, p, 1)))
		return st;
	decode_scalar(p, type, v);
	return COHORT_OK;
}

/* ---- The parts of a file, in their order ---- */

static enum cohort_status read_header(struct gguf *g, struct reader *r, uint64_t *n_tensors, uint64_t *n_kv)
{
	char text[ERR_SHOW_BYTES];
	const char *foreign;
	bool old;

	if (r->n == 0)
		return err_at(r->err, COHORT_E_FORMAT, 0, "empty file");
	if ((foreign = gguf_foreign(r->data, r->n, &old)))
		return err_at(r->err, old ? COHORT_E_UNSUPPORTED : COHORT_E_FORMAT, 0, "not a GGUF file but %s",
				foreign);
	if (r->n < HEADER_BYTES)
		return err_at(r->err, COHORT_E_FORMAT, 0, "file is %zu bytes, too short for a GGUF header" TOO_EARLY,
				r->n);
	if (memcmp(r->data, "GGUF", 4) != 0)
		return err_at(r->err, COHORT_E_FORMAT, 0, "not a GGUF file (magic '%s')",
				err_show(text, (const char *)r->data, 4));
	memcpy(&g->version, r->data + 4, sizeof g->version);
	memcpy(n_tensors, r->data + 8, sizeof *n_tensors);
	memcpy(n_kv, r->data + 16, sizeof *n_kv);
	r->at = HEADER_BYTES;
	/* Versions are small, so one that is small after a swap was written the other way round. */
	if (g->version > 0xffff && __builtin_bswap32(g->version) <= 0xffff)
		return err_at(r->err, COHORT_E_UNSUPPORTED, 4,
				"big-endian GGUF file (version %u byte-swapped); only little-endian ones are supported",
				__builtin_bswap32(g->version));
	if (g->version == 1)
		return err_at(r->err, COHORT_E_UNSUPPORTED, 4,
				"GGUF version 1, of August 2023, is not supported (2 and 3 are): convert it anew");
	if (g->version != 2 && g->version != 3)
		return err_at(r->err, COHORT_E_UNSUPPORTED, 4, "GGUF version %u is not supported (2 and 3 are)",
				g->version);
	if (*n_tensors > left(r) / TENSOR_BYTES_MIN)
		return err_at(r->err, COHORT_E_FORMAT, 8, "%llu tensors cannot fit in the %zu bytes left" TOO_EARLY,
				(ull)*n_tensors, left(r));
	if (*n_kv > left(r) / KV_BYTES_MIN)
		return err_at(r->err, COHORT_E_FORMAT, 16, "%llu key/values cannot fit in the %zu bytes left" TOO_EARLY,
				(ull)*n_kv, left(r));
	/* The index by name holds 32-bit numbers. */
	if (*n_tensors > INT32_MAX)
		return err_at(r->err, COHORT_E_UNSUPPORTED, 8, "%llu tensors are too many", (ull)*n_tensors);
	if (*n_kv > INT32_MAX)
		return err_at(r->err, COHORT_E_UNSUPPORTED, 16, "%llu key/values are too many", (ull)*n_kv);
	return COHORT_OK;
}

static enum cohort_status read_kv(struct gguf *g, struct reader *r, size_t *n_max)
{
	enum cohort_status st;
	char text[ERR_SHOW_BYTES];
	struct gguf_kv kv = {.offset = r->at};
	bool was_there;

	if ((st = read_name(r, "key", KEY_BYTES_MAX, &kv.key)))
		return st;
	if (!strmap_add(&g->by_key, kv.key.s, kv.key.n, (int32_t)g->n_kv, &was_there))
		return err_set(r->err, COHORT_E_MEMORY, "out of memory");
	if (was_there)
		return err_at(r->err, COHORT_E_FORMAT, kv.offset, "key '%s' is there twice",
				err_show(text, kv.key.s, kv.key.n));
	if ((st = read_type(r, "value type", &kv.type)) || (st = read_value(r, kv.type, 1, &kv))) {
		err_prefix(r->err, "key '%s'", err_show(text, kv.key.s, kv.key.n));
		return st;
	}
	if (!mem_grow((void **)&g->kv, n_max, g->n_kv + 1, sizeof *g->kv))
		return err_set(r->err, COHORT_E_MEMORY, "out of memory");
	g->kv[g->n_kv++] = kv;
	return COHORT_OK;
}

static enum cohort_status find_alignment(struct gguf *g, struct cohort_err *err)
{
	const struct gguf_kv *kv = gguf_find(g, "general.alignment");

	g->alignment = ALIGNMENT_DEFAULT;
	if (!kv)
		return COHORT_OK;
	if (kv->type != GGUF_U32)
		return err_at(err, COHORT_E_FORMAT, kv->offset, "general.alignment is a %s, not a u32",
				gguf_type_name(kv->type));
	if (kv->u < 8 || kv->u > ALIGNMENT_MAX || (kv->u & (kv->u - 1)))
		return err_at(err, COHORT_E_FORMAT, kv->offset,
				"general.alignment is %llu, not a power of two from 8 to %u", (ull)kv->u,
				ALIGNMENT_MAX);
	g->alignment = (uint32_t)kv->u;
	return COHORT_OK;
}

/* What follows the name in a tensor's entry. t->offset stays relative to the data section, whose place is known only
 * when the whole directory has been read. */
static enum cohort_status read_tensor_rest(struct gguf *g, struct reader *r, gguf_size_fn *size, struct gguf_tensor *t)
{
	enum cohort_status st;
	bool bad_row = false;
	int64_t n = 1;
	size_t at = r->at;

	if ((st = read_number(r, "number of dimensions", &t->n_dims, sizeof t->n_dims)))
		return st;
	if (t->n_dims < 1 || t->n_dims > GGUF_DIMS)
		return err_at(r->err, COHORT_E_FORMAT, at, "%u dimensions, not 1 to %d", t->n_dims, GGUF_DIMS);
	for (unsigned i = 0; i < GGUF_DIMS; i++)
		t->ne[i] = 1;
	for (unsigned i = 0; i < t->n_dims; i++) {
		at = r->at;
		if ((st = read_number(r, "dimension", &t->ne[i], sizeof t->ne[i])))
			return st;
		if (t->ne[i] == 0)
			return err_at(r->err, COHORT_E_FORMAT, at, "dimension %u is 0", i);
		if (__builtin_mul_overflow(n, t->ne[i], &n))
			return err_at(r->err, COHORT_E_FORMAT, at, "dimension %u is %llu: too many elements", i,
					(ull)t->ne[i]);
	}
	at = r->at;
	if ((st = read_number(r, "tensor type", &t->type, sizeof t->type)))
		return st;
	if (!size(t->type, t->ne[0], (uint64_t)n / t->ne[0], &t->n_bytes, &bad_row))
		t->n_bytes = 0;
	else if (bad_row)
		return err_at(r->err, COHORT_E_FORMAT, at, "rows of %llu are no whole blocks of type %u", (ull)t->ne[0],
				t->type);
	else if (t->n_bytes == 0)
		return err_at(r->err, COHORT_E_BUG, at, "type %u has no size", t->type);
	at = r->at;
	if ((st = read_number(r, "data offset", &t->offset, sizeof t->offset)))
		return st;
	if (t->offset % g->alignment)
		return err_at(r->err, COHORT_E_FORMAT, at, "data offset %llu is not a multiple of the alignment %u",
				(ull)t->offset, g->alignment);
	return COHORT_OK;
}

static enum cohort_status read_tensor(struct gguf *g, struct reader *r, gguf_size_fn *size, size_t *n_max)
{
	enum cohort_status st;
	char text[ERR_SHOW_BYTES];
	struct gguf_tensor t = {.entry_offset = r->at};
	bool was_there;

	if ((st = read_name(r, "tensor name", NAME_BYTES_MAX, &t.name)))
		return st;
	if (!strmap_add(&g->by_name, t.name.s, t.name.n, (int32_t)g->n_tensors, &was_there))
		return err_set(r->err, COHORT_E_MEMORY, "out of memory");
	if (was_there)
		return err_at(r->err, COHORT_E_FORMAT, t.entry_offset, "tensor '%s' is there twice",
				err_show(text, t.name.s, t.name.n));
	if ((st = read_tensor_rest(g, r, size, &t))) {
		err_prefix(r->err, "tensor '%s'", err_show(text, t.name.s, t.name.n));
		return st;
	}
	if (!mem_grow((void **)&g->tensors, n_max, g->n_tensors + 1, sizeof *g->tensors))
		return err_set(r->err, COHORT_E_MEMORY, "out of memory");
	g->tensors[g->n_tensors++] = t;
	return COHORT_OK;
}

/* A tensor of unknown size still has at least one byte. */
static uint64_t bytes_min(const struct gguf_tensor *t)
{
	return t->n_bytes ? t->n_bytes : 1;
}

/* Finds the data section and turns relative offsets into pointers. */
static enum cohort_status place_tensors(struct gguf *g, const struct reader *r)
{
	char text[ERR_SHOW_BYTES];
	uint64_t mask = g->alignment - 1;

	/* at is the size of something in memory, so that a megabyte more cannot wrap 64 bits. */
	g->data_offset = ((uint64_t)r->at + mask) & ~mask;
	if (g->n_tensors == 0 && g->data_offset > r->n)
		g->data_offset = r->n; /* files with a vocabulary only end without padding */
	for (size_t i = 0; i < g->n_tensors; i++) {
		struct gguf_tensor *t = &g->tensors[i];
		uint64_t from, to;
		if (__builtin_add_overflow(g->data_offset, t->offset, &from) ||
				__builtin_add_overflow(from, bytes_min(t), &to) || to > r->n)
			return err_at(r->err, COHORT_E_FORMAT, t->entry_offset,
					"tensor '%s': %llu bytes of data at %llu + %llu are not all in the file "
					"(%zu)" TOO_EARLY,
					err_show(text, t->name.s, t->name.n), (ull)bytes_min(t), (ull)g->data_offset,
					(ull)t->offset, r->n);
		t->offset = from;
		t->data = t->n_bytes ? r->data + from : NULL;
	}
	return COHORT_OK;
}

struct extent {
	uint64_t from, to;
	size_t i_tensor;
};

static int extent_cmp(const void *pa, const void *pb)
{
	const struct extent *a = pa, *b = pb;

	if (a->from != b->from)
		return a->from < b->from ? -1 : 1;
	return (a->i_tensor > b->i_tensor) - (a->i_tensor < b->i_tensor);
}

static enum cohort_status check_overlap(const struct gguf *g, struct cohort_err *err)
{
	char text_a[ERR_SHOW_BYTES], text_b[ERR_SHOW_BYTES];
	enum cohort_status st = COHORT_OK;
	struct extent *x;

	if (g->n_tensors < 2)
		return COHORT_OK;
	x = mem_alloc(g->n_tensors, sizeof *x);
	if (!x)
		return err_set(err, COHORT_E_MEMORY, "out of memory");
	for (size_t i = 0; i < g->n_tensors; i++) {
		const struct gguf_tensor *t = &g->tensors[i];
		x[i] = (struct extent){t->offset, t->offset + bytes_min(t), i};
	}
	qsort(x, g->n_tensors, sizeof *x, extent_cmp);
	for (size_t i = 1; i < g->n_tensors; i++) {
		const struct gguf_tensor *a = &g->tensors[x[i - 1].i_tensor], *b = &g->tensors[x[i].i_tensor];
		if (x[i].from < x[i - 1].to) {
			st = err_at(err, COHORT_E_FORMAT, b->entry_offset,
					"the data of tensors '%s' and '%s' overlap at %llu",
					err_show(text_a, a->name.s, a->name.n), err_show(text_b, b->name.s, b->name.n),
					(ull)b->offset);
			break;
		}
	}
	mem_free(x);
	return st;
}

static enum cohort_status parse(struct gguf *g, const uint8_t *data, size_t n_bytes, gguf_size_fn *size,
		struct cohort_err *err)
{
	struct reader r = {.data = data, .n = n_bytes, .err = err};
	size_t n_kv_max = 0, n_tensors_max = 0;
	uint64_t n_tensors = 0, n_kv = 0;
	enum cohort_status st;

	if ((st = read_header(g, &r, &n_tensors, &n_kv)))
		return st;
	if (!strmap_init(&g->by_key, 0) || !strmap_init(&g->by_name, 0))
		return err_set(err, COHORT_E_MEMORY, "out of memory");
	for (uint64_t i = 0; i < n_kv; i++)
		if ((st = read_kv(g, &r, &n_kv_max)))
			return st;
	if ((st = find_alignment(g, err)))
		return st;
	if (n_tensors > left(&r) / TENSOR_BYTES_MIN)
		return err_at(err, COHORT_E_FORMAT, r.at, "%llu tensors cannot fit in the %zu bytes left" TOO_EARLY,
				(ull)n_tensors, left(&r));
	for (uint64_t i = 0; i < n_tensors; i++)
		if ((st = read_tensor(g, &r, size, &n_tensors_max)))
			return st;
	if ((st = place_tensors(g, &r)) || (st = check_overlap(g, err)))
		return st;
	g->parts = mem_alloc(1, sizeof *g->parts);
	if (!g->parts)
		return err_set(err, COHORT_E_MEMORY, "out of memory");
	g->parts[g->n_parts++] = (struct gguf_part){
		.map = {.data = data, .n_bytes = n_bytes}, .version = g->version, .alignment = g->alignment,
		.data_offset = g->data_offset, .n_tensors = g->n_tensors,
	};
	return COHORT_OK;
}

enum cohort_status gguf_parse(struct gguf *g, const uint8_t *data, size_t n_bytes, gguf_size_fn *size,
		struct cohort_err *err)
{
	enum cohort_status st;

	*g = (struct gguf){0};
	st = parse(g, data, n_bytes, size, err);
	if (st)
		gguf_release(g);
	return st;
}

void gguf_release(struct gguf *g)
{
	if (!g)
		return;
	strmap_release(&g->by_key);
	strmap_release(&g->by_name);
	mem_free(g->kv);
	mem_free(g->tensors);
	for (size_t i = 0; i < g->n_parts; i++)
		if (g->parts[i].path) {
			map_release(&g->parts[i].map);
			mem_free(g->parts[i].path);
		}
	mem_free(g->parts);
	*g = (struct gguf){0};
}

/* ---- Looking up ---- */

const struct gguf_kv *gguf_find(const struct gguf *g, const char *key)
{
	int32_t i = strmap_find(&g->by_key, key, strlen(key), -1);

	return i < 0 ? NULL : &g->kv[i];
}

const struct gguf_tensor *gguf_find_tensor(const struct gguf *g, const char *name)
{
	int32_t i = strmap_find(&g->by_name, name, strlen(name), -1);

	return i < 0 ? NULL : &g->tensors[i];
}

#define SIGNED (1u << GGUF_I8 | 1u << GGUF_I16 | 1u << GGUF_I32 | 1u << GGUF_I64)
#define UNSIGNED (1u << GGUF_U8 | 1u << GGUF_U16 | 1u << GGUF_U32 | 1u << GGUF_U64)
#define FLOATS (1u << GGUF_F32 | 1u << GGUF_F64)

/* A value of one of the types, a bit each, which `want` names. *out is NULL for an absent key and after a failure. */
static enum cohort_status get(const struct gguf *g, const char *key, bool need, unsigned types_of, const char *want,
		const struct gguf_kv **out, struct cohort_err *err)
{
	const struct gguf_kv *kv = *out = gguf_find(g, key);

	if (!kv)
		return need ? err_set(err, COHORT_E_FORMAT, "key '%s' is missing", key) : COHORT_OK;
	if (types_of >> kv->type & 1)
		return COHORT_OK;
	*out = NULL;
	return err_at(err, COHORT_E_FORMAT, kv->offset, "key '%s' is of type %s, not %s", key, gguf_type_name(kv->type),
			want);
}

enum cohort_status gguf_get_u32(const struct gguf *g, const char *key, bool need, uint32_t *out,
		struct cohort_err *err)
{
	const struct gguf_kv *kv;
	enum cohort_status st = get(g, key, need, SIGNED | UNSIGNED, "an integer", &kv, err);

	if (!kv)
		return st;
	if (SIGNED >> kv->type & 1) {
		if (kv->i < 0 || kv->i > UINT32_MAX)
			return err_at(err, COHORT_E_FORMAT, kv->offset, "key '%s' is %lld, %s", key, (long long)kv->i,
					kv->i < 0 ? "but may not be negative" : "too large for 32 bits");
	} else if (kv->u > UINT32_MAX) {
		return err_at(err, COHORT_E_FORMAT, kv->offset, "key '%s' is %llu, too large for 32 bits", key,
				(ull)kv->u);
	}
	*out = (uint32_t)kv->u;
	return COHORT_OK;
}

enum cohort_status gguf_get_f32(const struct gguf *g, const char *key, bool need, float *out,
		struct cohort_err *err)
{
	const struct gguf_kv *kv;
	enum cohort_status st = get(g, key, need, FLOATS, "a float", &kv, err);

	if (!kv)
		return st;
	if (isfinite(kv->f) && fabs(kv->f) > (double)FLT_MAX)
		return err_at(err, COHORT_E_FORMAT, kv->offset, "key '%s' is %g, too large for f32", key, kv->f);
	*out = (float)kv->f;
	return COHORT_OK;
}

enum cohort_status gguf_get_bool(const struct gguf *g, const char *key, bool need, bool *out, struct cohort_err *err)
{
	const struct gguf_kv *kv;
	enum cohort_status st = get(g, key, need, 1u << GGUF_BOOL, "bool", &kv, err);

	if (kv)
		*out = kv->u != 0;
	return st;
}

enum cohort_status gguf_get_str(const struct gguf *g, const char *key, bool need, struct gguf_str *out,
		struct cohort_err *err)
{
	const struct gguf_kv *kv;
	enum cohort_status st = get(g, key, need, 1u << GGUF_STRING, "string", &kv, err);

	if (kv)
		*out = kv->str;
	return st;
}

enum cohort_status gguf_get_array(const struct gguf *g, const char *key, bool need, enum gguf_type type,
		struct gguf_array *out, struct cohort_err *err)
{
	const struct gguf_kv *kv;
	enum cohort_status st = get(g, key, need, 1u << GGUF_ARRAY, "array", &kv, err);

	if (!kv)
		return st;
	if (kv->arr.type != type)
		return err_at(err, COHORT_E_FORMAT, kv->offset, "key '%s' is an array of %s, not of %s", key,
				gguf_type_name(kv->arr.type), gguf_type_name(type));
	*out = kv->arr;
	return COHORT_OK;
}

/* ---- Array elements ---- */

void gguf_array_next(const struct gguf_array *a, size_t *at, struct gguf_kv *out)
{
	struct reader r = {.data = a->data, .n = a->n_bytes, .at = *at};

	*out = (struct gguf_kv){.type = a->type};
	/* Read with the checks of the first time, so that one walker serves both. They cannot fail now; a caller that
	 * walks past the end gets an empty value. */
	if (*at > a->n_bytes || read_value(&r, a->type, 1, out))
		*out = (struct gguf_kv){.type = a->type};
	else
		*at = r.at;
}

struct gguf_str gguf_array_next_str(const struct gguf_array *a, size_t *at)
{
	uint64_t n;
	struct gguf_str s;

	memcpy(&n, a->data + *at, sizeof n);
	s = (struct gguf_str){(const char *)a->data + *at + sizeof n, (size_t)n};
	*at += sizeof n + s.n;
	return s;
}

float gguf_array_f32(const struct gguf_array *a, uint64_t i)
{
	float f;

	memcpy(&f, a->data + (size_t)i * sizeof f, sizeof f);
	return f;
}

int32_t gguf_array_i32(const struct gguf_array *a, uint64_t i)
{
	int32_t v;

	memcpy(&v, a->data + (size_t)i * sizeof v, sizeof v);
	return v;
}
