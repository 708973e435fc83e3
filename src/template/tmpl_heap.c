/* What a run works with: its arena, its limits, its first failure, its output.
 *
 * Invariants
 *  1. Memory of a run is freed as a whole, by tmpl_release; nothing in it has an owner of its own, but scratch texts.
 *  2. n_bytes counts what was asked of the system, and never exceeds n_bytes_max.
 *  3. The first failure stays: later ones do not change status, line or message. */
#include "template/tmpl.h"

#include "base/mem.h"
#include "base/utf8.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

bool tmpl_fail(struct run *r, enum cohort_status status, const char *fmt, ...)
{
	if (!r->failed) {
		va_list ap;
		va_start(ap, fmt);
		vsnprintf(r->message, sizeof r->message, fmt, ap);
		va_end(ap);
		r->failed = true;
		r->status = status;
		r->failed_line = r->line;
	}
	return false;
}

bool tmpl_charge(struct run *r, uint64_t n)
{
	if (r->failed)
		return false;
	if (n > r->n_steps_max - r->n_steps)
		return tmpl_fail(r, COHORT_E_LIMIT, "more than %llu steps", (unsigned long long)r->n_steps_max);
	r->n_steps += n;
	return true;
}

bool tmpl_enter(struct run *r)
{
	if (r->failed)
		return false;
	if (r->depth >= r->depth_max)
		return tmpl_fail(r, COHORT_E_LIMIT, "nested more than %u levels deep", r->depth_max);
	r->depth++;
	return true;
}

void tmpl_leave(struct run *r)
{
	r->depth--;
}

/* ---- The arena ---- */

static bool count_bytes(struct run *r, size_t n)
{
	if (n > r->n_bytes_max - r->n_bytes)
		return tmpl_fail(r, COHORT_E_LIMIT, "more than %zu bytes of memory", r->n_bytes_max);
	r->n_bytes += n;
	return true;
}

static void *take(struct run *r, size_t bytes, size_t align)
{
	enum { CHUNK = 1 << 15, CHUNK_LARGE = 1 << 20 };
	size_t want;

	if (r->failed)
		return NULL;
	struct chunk *c = r->chunks;
	size_t at = c ? (c->at + align - 1) & ~(align - 1) : 0;
	if (!c || at > c->n_bytes || bytes > c->n_bytes - at) {
		/* Room behind a large text lets it grow in place. */
		size_t room = r->n_bytes > ((size_t)1 << 22) ? CHUNK_LARGE : CHUNK;
		if (!size_add(bytes, room, &want) || !size_add(want, sizeof *c, &want)) {
			tmpl_fail(r, COHORT_E_LIMIT, "more memory than can be addressed");
			return NULL;
		}
		if (want > r->n_bytes_max - r->n_bytes)
			want = bytes + sizeof *c;
		if (!count_bytes(r, want))
			return NULL;
		c = mem_alloc(want, 1);
		if (!c) {
			r->n_bytes -= want;
			tmpl_fail(r, COHORT_E_MEMORY, "out of memory");
			return NULL;
		}
		c->next = r->chunks;
		c->n_bytes = want - sizeof *c;
		r->chunks = c;
		at = 0;
	}
	c->at = at + bytes;
	return c->bytes + at;
}

void *tmpl_alloc(struct run *r, size_t n, size_t size)
{
	size_t bytes;
	if (!size_mul(n, size, &bytes)) {
		tmpl_fail(r, COHORT_E_LIMIT, "more memory than can be addressed");
		return NULL;
	}
	return take(r, bytes ? bytes : 1, 16);
}

char *tmpl_bytes(struct run *r, size_t n)
{
	if (n > UINT32_MAX) {
		tmpl_fail(r, COHORT_E_LIMIT, "a text of more than 4 GiB");
		return NULL;
	}
	return take(r, n ? n : 1, 1);
}

bool tmpl_extend(struct run *r, const char *p, size_t n, size_t k)
{
	struct chunk *c = r->chunks;
	if (r->failed || !c || n == 0 || p + n != c->bytes + c->at || k > c->n_bytes - c->at || k > UINT32_MAX - n)
		return false;
	c->at += k;
	return true;
}

void tmpl_release(struct run *r)
{
	while (r->chunks) {
		struct chunk *next = r->chunks->next;
		mem_free(r->chunks);
		r->chunks = next;
	}
	bytes_release(&r->out);
}

bool tmpl_grow(struct run *r, void **p, uint32_t *n_max, size_t n_want, size_t size)
{
	if (n_want <= *n_max)
		return true;
	if (n_want > UINT32_MAX / 2)
		return tmpl_fail(r, COHORT_E_LIMIT, "more than 2^31 elements");
	uint32_t n = *n_max < 4 ? 4 : *n_max;
	while (n < n_want)
		n *= 2;
	void *q = tmpl_alloc(r, n, size);
	if (!q)
		return false;
	if (*n_max)
		memcpy(q, *p, (size_t)*n_max * size);
	*p = q;
	*n_max = n;
	return true;
}

/* ---- Texts that grow ---- */

static bool buf_room(struct run *r, struct bytes *t, size_t n)
{
	size_t want;
	if (r->failed)
		return false;
	if (!size_add(t->n, n, &want) || want > r->n_bytes_max || want > UINT32_MAX / 2)
		return tmpl_fail(r, COHORT_E_LIMIT, "a text of more than %zu bytes", r->n_bytes_max);
	return bytes_room(t, n) || tmpl_fail(r, COHORT_E_MEMORY, "out of memory");
}

bool buf_add(struct run *r, struct bytes *t, const char *s, size_t n)
{
	return buf_room(r, t, n) && bytes_add(t, s, n);
}

bool buf_addz(struct run *r, struct bytes *t, const char *s)
{
	return buf_add(r, t, s, strlen(s));
}

bool buf_char(struct run *r, struct bytes *t, uint32_t cp)
{
	char s[4];
	size_t n = utf8_encode(cp, s);
	if (!n)
		return tmpl_error(r, "U+%04X is no character", cp);
	return buf_add(r, t, s, n);
}

bool buf_fill(struct run *r, struct bytes *t, uint32_t cp, size_t n)
{
	char s[4];
	size_t k = utf8_encode(cp, s), bytes;
	if (!size_mul(n, k, &bytes) || !tmpl_charge(r, bytes / 64) || !buf_room(r, t, bytes))
		return r->failed ? false : tmpl_fail(r, COHORT_E_LIMIT, "more memory than can be addressed");
	for (size_t i = 0; i < n; i++, t->n += k)
		memcpy(t->p + t->n, s, k);
	return true;
}

struct val buf_val(struct run *r, struct bytes *t)
{
	struct val v = val_copy(r, t->p, t->n);
	bytes_release(t);
	return v;
}

/* ---- Output ---- */

bool out_add(struct run *r, const char *s, size_t n)
{
	if (r->failed)
		return false;
	if (n > r->n_out_max - r->out.n)
		return tmpl_fail(r, COHORT_E_LIMIT, "more than %zu bytes of output", r->n_out_max);
	return tmpl_charge(r, n / 64) && buf_add(r, &r->out, s, n);
}

struct val out_cut(struct run *r, size_t from)
{
	struct val v = r->out.n > from ? val_copy(r, r->out.p + from, r->out.n - from) : val_z("");
	r->out.n = from;
	return v;
}
