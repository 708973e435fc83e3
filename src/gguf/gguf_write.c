/* GGUF writer: collects the metadata in memory, then streams it and the tensors' data to a file that appears whole.
 *
 * Invariants
 *  1. What is written, the reader accepts: each key/value is read back by the reader itself before it is taken, the
 *     directory's rules are the reader's, and every tensor gets exactly the bytes its entry says.
 *  2. A refused addition (E_ARG, E_UNSUPPORTED, E_LIMIT, E_MEMORY) leaves the writer as it was. A failed write leaves
 *     it in state FAILED, in which every call but free says E_IO.
 *  3. States go COLLECT -> DATA -> DONE, or to FAILED from DATA; a stream is held in DATA only. So whoever frees a
 *     writer before DONE leaves nothing on the disk.
 *  4. The data of tensor i begins at the sum of the padded sizes before it, as its entry says: padding is written as
 *     soon as a tensor is complete.
 *
 * Refuses to know block formats (the caller's gguf_size_fn does), what keys mean (general.alignment excepted), and the
 * file system (base/file.h does). */
#include "gguf/gguf_write.h"

#include "base/bytes.h"
#include "base/file.h"
#include "base/mem.h"

#include <string.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "numbers are written by memcpy to little-endian files");

#define VERSION 3
#define HEADER_BYTES 24       /* magic, version, number of tensors, number of key/values */
#define NAME_BYTES_MAX 64     /* of tensors, the specification's limit */
#define ALIGNMENT_DEFAULT 32

typedef unsigned long long ull; /* for %llu, whatever uint64_t is */

enum state { COLLECT, DATA, DONE, FAILED };

struct entry {
	char *name;
	size_t n_name;
	uint32_t type, n_dims;
	uint64_t ne[GGUF_DIMS];
	uint64_t n_bytes;
};

struct gguf_writer {
	char *path;
	gguf_size_fn *size;
	enum state state;
	uint32_t alignment;
	struct bytes kv;              /* the bytes of all key/values */
	char **keys;
	size_t n_kv, keys_max;
	struct entry *tensors;
	size_t n_tensors, tensors_max;
	struct strmap by_key, by_name;
	struct file_stream *stream; /* in DATA */
	size_t i_tensor;            /* the first that is not complete */
	uint64_t at;                /* bytes of it written */
};

/* The status of an error that was set without the file's name. */
static enum cohort_status named(const struct gguf_writer *w, struct cohort_err *err, enum cohort_status st)
{
	return err_in(err, w->path, st);
}

static enum cohort_status no_memory(const struct gguf_writer *w, struct cohort_err *err)
{
	return named(w, err, err_set(err, COHORT_E_MEMORY, "out of memory"));
}

/* ---- Parts of a file ---- */

static void put_u32(struct bytes *b, uint32_t v)
{
	bytes_add(b, &v, sizeof v);
}

static void put_u64(struct bytes *b, uint64_t v)
{
	bytes_add(b, &v, sizeof v);
}

static void put_str(struct bytes *b, struct gguf_str s)
{
	put_u64(b, s.n);
	bytes_add(b, s.s, s.n);
}

static void put_header(struct bytes *b, uint64_t n_tensors, uint64_t n_kv)
{
	bytes_add(b, "GGUF", 4);
	put_u32(b, VERSION);
	put_u64(b, n_tensors);
	put_u64(b, n_kv);
}

/* ---- Opening and freeing ---- */

enum cohort_status gguf_writer_open(const char *path, gguf_size_fn *size, struct gguf_writer **out,
		struct cohort_err *err)
{
	struct gguf_writer *w = mem_zalloc(1, sizeof *w);

	if (!w)
		return err_set(err, COHORT_E_MEMORY, "out of memory");
	w->size = size;
	w->alignment = ALIGNMENT_DEFAULT;
	w->path = mem_strndup(path, strlen(path));
	if (!w->path || !strmap_init(&w->by_key, 64) || !strmap_init(&w->by_name, 64)) {
		gguf_writer_free(w);
		return err_set(err, COHORT_E_MEMORY, "out of memory");
	}
	*out = w;
	return COHORT_OK;
}

void gguf_writer_free(struct gguf_writer *w)
{
	if (!w)
		return;
	file_stream_abort(w->stream);
	for (size_t i = 0; i < w->n_kv; i++)
		mem_free(w->keys[i]);
	for (size_t i = 0; i < w->n_tensors; i++)
		mem_free(w->tensors[i].name);
	mem_free(w->keys);
	mem_free(w->tensors);
	bytes_release(&w->kv);
	strmap_release(&w->by_key);
	strmap_release(&w->by_name);
	mem_free(w->path);
	mem_free(w);
}

static enum cohort_status expect(const struct gguf_writer *w, enum state state, const char *what,
		struct cohort_err *err)
{
	static const char *const why[] = {
		[COLLECT] = "before the metadata was written",
		[DATA] = "after the metadata was written",
		[DONE] = "after the file was finished",
	};

	if (w->state == state)
		return COHORT_OK;
	if (w->state == FAILED)
		return named(w, err, err_set(err, COHORT_E_IO, "an earlier write failed"));
	return named(w, err, err_set(err, COHORT_E_ARG, "%s %s", what, why[w->state]));
}

/* ---- Key/values ---- */

static void put_value(struct bytes *b, const struct gguf_kv *kv)
{
	const float f = (float)kv->f;

	switch (kv->type) {
	case GGUF_STRING: put_str(b, kv->str); break;
	case GGUF_ARRAY:
		put_u32(b, (uint32_t)kv->arr.type);
		put_u64(b, kv->arr.n);
		bytes_add(b, kv->arr.data, kv->arr.n_bytes);
		break;
	case GGUF_F32: bytes_add(b, &f, sizeof f); break;
	case GGUF_F64: bytes_add(b, &kv->f, sizeof kv->f); break;
	case GGUF_I8: case GGUF_I16: case GGUF_I32: case GGUF_I64:
		bytes_add(b, &kv->i, gguf_type_bytes(kv->type)); /* little-endian: the low bytes come first */
		break;
	default: bytes_add(b, &kv->u, gguf_type_bytes(kv->type)); break;
	}
}

/* Whether an integer survives being cut to its type. */
static bool integer_fits(const struct gguf_kv *kv)
{
	const unsigned bits = 8 * (unsigned)gguf_type_bytes(kv->type);

	switch (kv->type) {
	case GGUF_U8: case GGUF_U16: case GGUF_U32:
		return kv->u >> bits == 0;
	case GGUF_BOOL:
		return kv->u <= 1;
	case GGUF_I8: case GGUF_I16: case GGUF_I32:
		return kv->i >= -((int64_t)1 << (bits - 1)) && kv->i < (int64_t)1 << (bits - 1);
	default:
		return true;
	}
}

/* A file with nothing but this entry, for the reader to judge. */
static void encode(struct bytes *b, const struct gguf_kv *kv)
{
	put_header(b, 0, 1);
	put_str(b, kv->key);
	put_u32(b, (uint32_t)kv->type);
	put_value(b, kv);
}

/* Reads the entry back; its alignment comes with it. */
static enum cohort_status judge(const struct gguf_writer *w, const struct bytes *b, const struct gguf_kv *kv,
		uint32_t *alignment, struct cohort_err *err)
{
	struct cohort_err why;
	struct gguf g;
	enum cohort_status st = gguf_parse(&g, (const uint8_t *)b->p, b->n, w->size, &why);

	if (st)
		return named(w, err, err_set(err, st == COHORT_E_MEMORY ? st : COHORT_E_ARG, "%s", why.text));
	*alignment = g.alignment;
	const bool whole = kv->type != GGUF_ARRAY || g.kv[0].arr.n_bytes == kv->arr.n_bytes;
	gguf_release(&g);
	return whole ? COHORT_OK : named(w, err, err_set(err, COHORT_E_ARG, "an array has bytes behind its elements"));
}

static enum cohort_status add_kv(struct gguf_writer *w, const struct gguf_kv *kv, const struct bytes *b,
		struct cohort_err *err)
{
	char text[ERR_SHOW_BYTES];
	uint32_t alignment = w->alignment;
	bool was_there = false;
	enum cohort_status st = judge(w, b, kv, &alignment, err);

	if (st)
		return st;
	if (strmap_find(&w->by_key, kv->key.s, kv->key.n, -1) >= 0)
		return named(w, err, err_set(err, COHORT_E_ARG, "key '%s' is there twice",
				err_show(text, kv->key.s, kv->key.n)));
	if (w->n_kv >= INT32_MAX)
		return named(w, err, err_set(err, COHORT_E_LIMIT, "too many keys"));
	if (!mem_grow((void **)&w->keys, &w->keys_max, w->n_kv + 1, sizeof *w->keys))
		return no_memory(w, err);
	char *key = mem_strndup(kv->key.s, kv->key.n);
	if (!key)
		return no_memory(w, err);
	const size_t before = w->kv.n;
	bytes_add(&w->kv, b->p + HEADER_BYTES, b->n - HEADER_BYTES);
	if (w->kv.failed || !strmap_add(&w->by_key, key, kv->key.n, (int32_t)w->n_kv, &was_there)) {
		w->kv.n = before;
		w->kv.failed = false;
		mem_free(key);
		return no_memory(w, err);
	}
	w->keys[w->n_kv++] = key;
	if (gguf_str_is(kv->key, "general.alignment"))
		w->alignment = alignment;
	return COHORT_OK;
}

enum cohort_status gguf_writer_kv(struct gguf_writer *w, const struct gguf_kv *kv, struct cohort_err *err)
{
	char text[ERR_SHOW_BYTES];
	struct bytes b = {0};
	enum cohort_status st = expect(w, COLLECT, "a key", err);

	if (st)
		return st;
	if ((unsigned)kv->type >= GGUF_N_TYPES)
		return named(w, err, err_set(err, COHORT_E_ARG, "key '%s' has type %u, which is no known type",
				err_show(text, kv->key.s, kv->key.n), (unsigned)kv->type));
	if (!integer_fits(kv))
		return named(w, err, err_set(err, COHORT_E_ARG, "key '%s': the value does not fit a %s",
				err_show(text, kv->key.s, kv->key.n), gguf_type_name(kv->type)));
	encode(&b, kv);
	st = b.failed ? no_memory(w, err) : add_kv(w, kv, &b, err);
	bytes_release(&b);
	return st;
}

enum cohort_status gguf_writer_strs(struct gguf_writer *w, struct gguf_str key, const struct gguf_str *strs, size_t n,
		struct cohort_err *err)
{
	struct gguf_kv kv = {.key = key, .type = GGUF_ARRAY};
	struct bytes b = {0};

	for (size_t i = 0; i < n; i++)
		put_str(&b, strs[i]);
	kv.arr = (struct gguf_array){GGUF_STRING, n, (const uint8_t *)b.p, b.n};
	enum cohort_status st = b.failed ? no_memory(w, err) : gguf_writer_kv(w, &kv, err);
	bytes_release(&b);
	return st;
}

/* ---- The directory ---- */

static enum cohort_status measure(const struct gguf_writer *w, struct entry *t, struct cohort_err *err)
{
	bool bad_row = false;
	int64_t n = 1;

	if (err_range(err, "n_dims", t->n_dims, 1, GGUF_DIMS))
		return COHORT_E_ARG;
	for (unsigned i = 0; i < t->n_dims; i++)
		if (t->ne[i] == 0 || __builtin_mul_overflow(n, t->ne[i], &n))
			return err_set(err, COHORT_E_ARG, "dimension %u is %llu", i, (ull)t->ne[i]);
	if (!w->size(t->type, t->ne[0], (uint64_t)n / t->ne[0], &t->n_bytes, &bad_row))
		return err_set(err, COHORT_E_UNSUPPORTED, "format number %u is not known to this version", t->type);
	if (bad_row)
		return err_set(err, COHORT_E_ARG, "rows of %llu are no whole blocks of type %u", (ull)t->ne[0],
				t->type);
	/* Half of the range is left for padding and the sum; no disk comes near. */
	if (t->n_bytes > INT64_MAX / 2)
		return err_set(err, COHORT_E_LIMIT, "too many bytes");
	return COHORT_OK;
}

enum cohort_status gguf_writer_tensor(struct gguf_writer *w, struct gguf_str name, uint32_t type, uint32_t n_dims,
		const uint64_t *ne, struct cohort_err *err)
{
	char text[ERR_SHOW_BYTES];
	struct entry t = {.n_name = name.n, .type = type, .n_dims = n_dims, .ne = {1, 1, 1, 1}};
	bool was_there = false;
	enum cohort_status st = expect(w, COLLECT, "a tensor", err);

	if (st)
		return st;
	if (name.n < 1 || name.n > NAME_BYTES_MAX)
		return named(w, err, err_set(err, COHORT_E_ARG, "a tensor's name is %zu bytes long, not 1 to %d",
				name.n, NAME_BYTES_MAX));
	for (unsigned i = 0; i < n_dims && i < GGUF_DIMS; i++)
		t.ne[i] = ne[i];
	if ((st = measure(w, &t, err))) {
		err_prefix(err, "tensor '%s'", err_show(text, name.s, name.n));
		return named(w, err, st);
	}
	if (strmap_find(&w->by_name, name.s, name.n, -1) >= 0)
		return named(w, err, err_set(err, COHORT_E_ARG, "tensor '%s' is there twice",
				err_show(text, name.s, name.n)));
	if (w->n_tensors >= INT32_MAX)
		return named(w, err, err_set(err, COHORT_E_LIMIT, "too many tensors"));
	if (!mem_grow((void **)&w->tensors, &w->tensors_max, w->n_tensors + 1, sizeof *w->tensors))
		return no_memory(w, err);
	t.name = mem_strndup(name.s, name.n);
	if (!t.name || !strmap_add(&w->by_name, t.name, t.n_name, (int32_t)w->n_tensors, &was_there)) {
		mem_free(t.name);
		return no_memory(w, err);
	}
	w->tensors[w->n_tensors++] = t;
	return COHORT_OK;
}

/* ---- The file ---- */

static uint64_t padding(const struct gguf_writer *w, uint64_t n)
{
	return (w->alignment - n % w->alignment) % w->alignment;
}

static void put_zeros(struct bytes *b, uint64_t n)
{
	static const uint8_t zeros[256];

	for (; n > sizeof zeros; n -= sizeof zeros)
		bytes_add(b, zeros, sizeof zeros);
	bytes_add(b, zeros, (size_t)n);
}

/* Everything behind the key/values and before the data. at: bytes of the file before it. */
static enum cohort_status put_directory(const struct gguf_writer *w, struct bytes *b, size_t at, struct cohort_err *err)
{
	uint64_t offset = 0;

	for (size_t i = 0; i < w->n_tensors; i++) {
		const struct entry *t = &w->tensors[i];
		put_str(b, (struct gguf_str){t->name, t->n_name});
		put_u32(b, t->n_dims);
		bytes_add(b, t->ne, t->n_dims * sizeof *t->ne);
		put_u32(b, t->type);
		put_u64(b, offset);
		/* Cannot wrap: the sum is at most INT64_MAX, and measure() let through half of that. */
		offset += t->n_bytes + padding(w, t->n_bytes);
		if (offset > INT64_MAX)
			return named(w, err, err_set(err, COHORT_E_LIMIT, "too many bytes of tensors"));
	}
	put_zeros(b, padding(w, at + b->n));
	return b->failed ? no_memory(w, err) : COHORT_OK;
}

/* The bytes, or the end of the file: what was written so far is given up. */
static enum cohort_status put_out(struct gguf_writer *w, const void *p, size_t n, struct cohort_err *err)
{
	const enum cohort_status st = file_stream_write(w->stream, p, n, err);

	if (st) {
		file_stream_abort(w->stream);
		w->stream = NULL;
		w->state = FAILED;
	}
	return st;
}

enum cohort_status gguf_writer_begin(struct gguf_writer *w, struct cohort_err *err)
{
	struct bytes head = {0}, dir = {0};
	enum cohort_status st = expect(w, COLLECT, "a second beginning", err);

	if (st)
		return st;
	st = put_directory(w, &dir, HEADER_BYTES + w->kv.n, err);
	put_header(&head, w->n_tensors, w->n_kv);
	if (!st && head.failed)
		st = no_memory(w, err);
	if (!st)
		st = file_stream_open(w->path, &w->stream, err);
	if (!st) {
		w->state = DATA;
		if (!(st = put_out(w, head.p, head.n, err)) && !(st = put_out(w, w->kv.p, w->kv.n, err)))
			st = put_out(w, dir.p, dir.n, err);
	}
	bytes_release(&head);
	bytes_release(&dir);
	return st;
}

enum cohort_status gguf_writer_data(struct gguf_writer *w, size_t i_tensor, const void *bytes, size_t n_bytes,
		struct cohort_err *err)
{
	enum cohort_status st = expect(w, DATA, "data", err);

	if (st)
		return st;
	if (i_tensor >= w->n_tensors)
		return named(w, err, err_rule(err, COHORT_E_ARG, "i_tensor", -1, -1, (int64_t)w->n_tensors,
				(int64_t)i_tensor, "data of tensor %zu of %zu", i_tensor, w->n_tensors));
	if (i_tensor != w->i_tensor)
		return named(w, err, err_set(err, COHORT_E_ARG,
				"data of tensor '%s' while '%s' is next, with %llu bytes", w->tensors[i_tensor].name,
				w->i_tensor < w->n_tensors ? w->tensors[w->i_tensor].name : "(none)",
				w->i_tensor < w->n_tensors ? (ull)(w->tensors[w->i_tensor].n_bytes - w->at) : 0));
	const struct entry *t = &w->tensors[i_tensor];
	if (n_bytes > t->n_bytes - w->at)
		return named(w, err, err_set(err, COHORT_E_ARG, "%zu bytes for tensor '%s', of which %llu are left",
				n_bytes, t->name, (ull)(t->n_bytes - w->at)));
	if ((st = put_out(w, bytes, n_bytes, err)))
		return st;
	w->at += n_bytes;
	if (w->at < t->n_bytes)
		return COHORT_OK;
	static const uint8_t zeros[4096];
	for (uint64_t n = padding(w, t->n_bytes); n > 0;) {
		const size_t now = n < sizeof zeros ? (size_t)n : sizeof zeros;
		if ((st = put_out(w, zeros, now, err)))
			return st;
		n -= now;
	}
	w->i_tensor++;
	w->at = 0;
	return COHORT_OK;
}

enum cohort_status gguf_writer_finish(struct gguf_writer *w, struct cohort_err *err)
{
	enum cohort_status st = expect(w, DATA, "the end", err);

	if (st)
		return st;
	if (w->i_tensor < w->n_tensors) {
		const struct entry *t = &w->tensors[w->i_tensor];
		return named(w, err, err_set(err, COHORT_E_ARG, "tensor '%s' still wants %llu bytes", t->name,
				(ull)(t->n_bytes - w->at)));
	}
	st = file_stream_commit(w->stream, err);
	w->stream = NULL;
	w->state = st ? FAILED : DONE;
	return st;
}
