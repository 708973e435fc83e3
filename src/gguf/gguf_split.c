/* GGUF files on the disk, and models that lie in several of them.
 *
 * Every part is a GGUF file of its own and is read and checked as such (gguf.c). The first has the key/values of the
 * model; the others have those that say which part they are, and may repeat others.
 *
 * Invariants
 *  1. A successful open has every part that the files speak of, each in its place, and as many tensors as they promise.
 *  2. A part that contradicts the first one belongs to another model and is refused: it may repeat a key, but with the
 *     same value. Two keys are each part's own: split.no and general.alignment.
 *  3. Parts are opened one by one, so that a wrong number of them costs nothing before a file is missing.
 *  4. On failure *g is zeroed and nothing is held.
 *
 * Keys that only a later part has are left alone: other readers ignore them, too. It refuses to know what a key of the
 * model means. */
#include "gguf/gguf.h"

#include "base/mem.h"

#include <stdio.h>
#include <string.h>

#define SUFFIX "-%05u-of-%05u.gguf"
enum {
	SUFFIX_BYTES = 20,
	PARTS_MAX = 99999, /* what five digits can say */
};

/* ---- One file ---- */

static enum cohort_status no_memory(const char *path, struct cohort_err *err)
{
	return err_in(err, path, err_set(err, COHORT_E_MEMORY, "out of memory"));
}

/* How files are brought into memory. */
struct source {
	const struct gguf_copy *copy; /* NULL: mapped */
	gguf_size_fn *size;
	uint32_t no, count;           /* the part at hand, for progress */
};

static bool part_progress(float done, void *user)
{
	const struct source *src = user;

	return src->copy->progress(((float)src->no + done) / (float)src->count, src->copy->user);
}

static enum cohort_status open_one(struct gguf *g, const char *path, struct source *src, struct cohort_err *err)
{
	enum cohort_status st;
	struct map map;
	char *name;

	*g = (struct gguf){0};
	st = src->copy ? map_read(&map, path, src->copy->progress ? part_progress : NULL, src, err)
		       : map_open(&map, path, err);
	src->no++;
	if (st)
		return st;
	if ((st = gguf_parse(g, map.data, map.n_bytes, src->size, err))) {
		map_release(&map);
		return err_in(err, path, st);
	}
	name = mem_strndup(path, strlen(path));
	if (!name) {
		gguf_release(g);
		map_release(&map);
		return no_memory(path, err);
	}
	g->parts[0].map = map;
	g->parts[0].path = name;
	return COHORT_OK;
}

/* ---- Parts ---- */

static uint64_t offset_of(const struct gguf *g, const char *key)
{
	const struct gguf_kv *kv = gguf_find(g, key);

	return kv ? kv->offset : 0;
}

enum cohort_status gguf_get_split(const struct gguf *g, struct gguf_split *out, struct cohort_err *err)
{
	struct gguf_split s = {.count = 0};
	enum cohort_status st;

	if ((st = gguf_get_u32(g, "split.count", false, &s.count, err)))
		return st;
	/* What was split and put together again says 0. */
	if (s.count == 0) {
		*out = (struct gguf_split){.count = 1};
		return COHORT_OK;
	}
	s.counts_tensors = gguf_find(g, "split.tensors.count") != NULL;
	if ((st = gguf_get_u32(g, "split.no", s.count > 1, &s.no, err)) ||
			(st = gguf_get_u32(g, "split.tensors.count", false, &s.n_tensors, err)))
		return st;
	if (s.count > PARTS_MAX)
		return err_at(err, COHORT_E_FORMAT, offset_of(g, "split.count"), "split.count is %u, more than %d",
				s.count, PARTS_MAX);
	if (s.no >= s.count)
		return err_at(err, COHORT_E_FORMAT, offset_of(g, "split.no"),
				"split.no is %u, but there are %u parts, counted from 0", s.no, s.count);
	*out = s;
	return COHORT_OK;
}

static bool same_bytes(const void *a, size_t n_a, const void *b, size_t n_b)
{
	return n_a == n_b && (n_a == 0 || memcmp(a, b, n_a) == 0);
}

static bool same_value(const struct gguf_kv *a, const struct gguf_kv *b)
{
	if (a->type != b->type)
		return false;
	if (a->type == GGUF_STRING)
		return same_bytes(a->str.s, a->str.n, b->str.s, b->str.n);
	if (a->type == GGUF_ARRAY)
		return a->arr.type == b->arr.type && a->arr.n == b->arr.n &&
				same_bytes(a->arr.data, a->arr.n_bytes, b->arr.data, b->arr.n_bytes);
	return memcmp(&a->u, &b->u, sizeof a->u) == 0; /* all numbers are widened to 64 bits */
}

/* Of the three keys of splitting any integer type will do, here as in the first part, so that they are compared as
 * numbers by the caller. */
static enum cohort_status check_keys(const struct gguf *g, const struct gguf *next, struct cohort_err *err)
{
	static const char *const own[] = {"general.alignment", "split.no", "split.count", "split.tensors.count"};
	char text[ERR_SHOW_BYTES];

	for (size_t i = 0; i < next->n_kv; i++) {
		const struct gguf_kv *kv = &next->kv[i];
		const int32_t k = strmap_find(&g->by_key, kv->key.s, kv->key.n, -1);
		bool compared = k >= 0;
		for (size_t j = 0; j < sizeof own / sizeof *own; j++)
			compared = compared && !gguf_str_is(kv->key, own[j]);
		if (compared && !same_value(&g->kv[k], kv))
			return err_at(err, COHORT_E_FORMAT, kv->offset,
					"key '%s' differs from that of the first part: not a part of the same model",
					err_show(text, kv->key.s, kv->key.n));
	}
	return COHORT_OK;
}

static enum cohort_status check_next(const struct gguf *g, const struct gguf *next, struct cohort_err *err)
{
	struct gguf_split first, s;
	enum cohort_status st;

	if ((st = gguf_get_split(g, &first, err)) || (st = gguf_get_split(next, &s, err)))
		return st;
	if (!gguf_find(next, "split.count"))
		return err_set(err, COHORT_E_FORMAT, "key 'split.count' is missing: not a part of a split model");
	if (s.count != first.count)
		return err_at(err, COHORT_E_FORMAT, offset_of(next, "split.count"),
				"split.count is %u, but %u in the first part", s.count, first.count);
	if (s.no != g->n_parts)
		return err_at(err, COHORT_E_FORMAT, offset_of(next, "split.no"),
				"split.no is %u, but part %zu (counted from 0) belongs here", s.no, g->n_parts);
	if (s.counts_tensors && first.counts_tensors && s.n_tensors != first.n_tensors)
		return err_at(err, COHORT_E_FORMAT, offset_of(next, "split.tensors.count"),
				"split.tensors.count is %u, but %u in the first part", s.n_tensors, first.n_tensors);
	return check_keys(g, next, err);
}

static enum cohort_status add_tensors(struct gguf *g, const struct gguf *next, struct cohort_err *err)
{
	char text[ERR_SHOW_BYTES];
	const size_t n = g->n_tensors + next->n_tensors; /* each at most INT32_MAX */
	struct gguf_tensor *grown;

	if (n > INT32_MAX)
		return err_set(err, COHORT_E_UNSUPPORTED, "too many tensors in all parts");
	grown = mem_realloc(g->tensors, n, sizeof *grown);
	if (!grown)
		return err_set(err, COHORT_E_MEMORY, "out of memory");
	g->tensors = grown;
	for (size_t i = 0; i < next->n_tensors; i++) {
		const struct gguf_tensor *t = &next->tensors[i];
		bool was_there;
		if (!strmap_add(&g->by_name, t->name.s, t->name.n, (int32_t)g->n_tensors, &was_there))
			return err_set(err, COHORT_E_MEMORY, "out of memory");
		if (was_there)
			return err_at(err, COHORT_E_FORMAT, t->entry_offset, "tensor '%s' is in an earlier part, too",
					err_show(text, t->name.s, t->name.n));
		g->tensors[g->n_tensors] = *t;
		g->tensors[g->n_tensors++].part = (uint32_t)g->n_parts;
	}
	return COHORT_OK;
}

enum cohort_status gguf_join(struct gguf *g, struct gguf *next, struct cohort_err *err)
{
	struct gguf_part *grown;
	enum cohort_status st;

	if ((st = check_next(g, next, err)) || (st = add_tensors(g, next, err)))
		return st;
	grown = mem_realloc(g->parts, g->n_parts + 1, sizeof *grown);
	if (!grown)
		return err_set(err, COHORT_E_MEMORY, "out of memory");
	g->parts = grown;
	g->parts[g->n_parts++] = next->parts[0];
	next->parts[0].path = NULL; /* the file is g's now */
	gguf_release(next);
	return COHORT_OK;
}

enum cohort_status gguf_check_whole(const struct gguf *g, struct cohort_err *err)
{
	struct gguf_split s;
	enum cohort_status st = gguf_get_split(g, &s, err);

	if (st)
		return st;
	if (s.no != 0)
		return err_at(err, COHORT_E_FORMAT, offset_of(g, "split.no"), "split.no is %u in the first part", s.no);
	if (s.count != g->n_parts)
		return err_at(err, COHORT_E_FORMAT, offset_of(g, "split.count"), "%zu parts instead of %u", g->n_parts,
				s.count);
	if (s.counts_tensors && s.n_tensors != g->n_tensors)
		return err_at(err, COHORT_E_FORMAT, offset_of(g, "split.tensors.count"),
				"%zu tensors in all parts, but split.tensors.count is %u", g->n_tensors, s.n_tensors);
	return COHORT_OK;
}

/* ---- Opening ---- */

static void put_suffix(char *name, uint32_t no, uint32_t count)
{
	snprintf(name + strlen(name) - SUFFIX_BYTES, SUFFIX_BYTES + 1, SUFFIX, no + 1, count);
}

static enum cohort_status open_first(struct gguf *g, const char *path, struct source *src, struct cohort_err *err)
{
	struct gguf_split s;
	enum cohort_status st = open_one(g, path, src, err);

	if (st)
		return st;
	if (!(st = gguf_get_split(g, &s, err)) && s.no != 0)
		st = err_at(err, COHORT_E_FORMAT, offset_of(g, "split.no"), "split.no is %u in the first part", s.no);
	if (st) {
		err_prefix(err, "%s", path);
		gguf_release(g);
	}
	return st;
}

/* Opens the parts of s other than g's own. `name` has the path of one of them, and room for that of each. */
static enum cohort_status open_rest(struct gguf *g, const struct gguf_split *s, char *name, struct source *src,
		struct cohort_err *err)
{
	struct gguf mine = {0}; /* the part opened first, until its turn comes */
	enum cohort_status st = COHORT_OK;
	uint32_t i = 1;

	if (s->no != 0) {
		mine = *g;
		put_suffix(name, 0, s->count);
		st = open_first(g, name, src, err);
		i = st ? 0 : 1;
	}
	for (; !st && i < s->count; i++) {
		struct gguf next = mine;
		put_suffix(name, i, s->count);
		if (i == s->no)
			mine = (struct gguf){0};
		else if ((st = open_one(&next, name, src, err)))
			break;
		if ((st = gguf_join(g, &next, err))) {
			gguf_release(&next);
			err_prefix(err, "%s", name);
			break;
		}
	}
	if (st) {
		err_prefix(err, "part %u of %u", i + 1, s->count);
	} else if ((st = gguf_check_whole(g, err))) {
		put_suffix(name, 0, s->count);
		err_prefix(err, "%s", name);
	}
	gguf_release(&mine);
	if (st)
		gguf_release(g);
	return st;
}

/* A new copy of the path, which must end as that of part s->no. */
static enum cohort_status copy_name(const char *path, const struct gguf_split *s, char **out, struct cohort_err *err)
{
	char suffix[SUFFIX_BYTES + 8];
	const size_t n = strlen(path);

	snprintf(suffix, sizeof suffix, SUFFIX, s->no + 1, s->count);
	if (n < SUFFIX_BYTES || memcmp(path + n - SUFFIX_BYTES, suffix, SUFFIX_BYTES) != 0)
		return err_in(err, path,
				err_set(err, COHORT_E_FORMAT,
						"part %u of %u of a split model, whose name must end in %s to find the "
						"others",
						s->no + 1, s->count, suffix));
	*out = mem_strndup(path, n);
	return *out ? COHORT_OK : no_memory(path, err);
}

/* How many parts the name speaks of, or 1. */
static uint32_t count_named(const char *path)
{
	const size_t n = strlen(path);
	unsigned no, count;
	char end;

	if (n < SUFFIX_BYTES || sscanf(path + n - SUFFIX_BYTES, "-%5u-of-%5u.ggu%c", &no, &count, &end) != 3)
		return 1;
	return count ? count : 1;
}

static enum cohort_status open_all(struct gguf *g, const char *path, struct source *src, struct cohort_err *err)
{
	struct gguf_split s;
	char *name = NULL;
	enum cohort_status st;

	if ((st = open_one(g, path, src, err)))
		return st;
	if ((st = gguf_get_split(g, &s, err)) || (s.count == 1 && (st = gguf_check_whole(g, err)))) {
		err_prefix(err, "%s", path);
	} else if (s.count > 1 && !(st = copy_name(path, &s, &name, err))) {
		st = open_rest(g, &s, name, src, err);
		mem_free(name);
	}
	if (st)
		gguf_release(g);
	return st;
}

enum cohort_status gguf_open(struct gguf *g, const char *path, gguf_size_fn *size, struct cohort_err *err)
{
	return open_all(g, path, &(struct source){.size = size, .count = 1}, err);
}

enum cohort_status gguf_open_copy(struct gguf *g, const char *path, const struct gguf_copy *copy, gguf_size_fn *size,
		struct cohort_err *err)
{
	return open_all(g, path, &(struct source){.copy = copy, .size = size, .count = count_named(path)}, err);
}

/* ---- Pages ---- */

void gguf_drop(const struct gguf *g, const struct gguf_tensor *t, uint64_t from, uint64_t n)
{
	map_drop(&g->parts[t->part].map, (size_t)(t->offset + from), (size_t)n);
}

void gguf_forget(const struct gguf *g, const struct gguf_tensor *t, uint64_t from, uint64_t n)
{
	map_forget(&g->parts[t->part].map, (size_t)(t->offset + from), (size_t)n);
}
