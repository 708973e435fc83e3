/* Guarded buffers, random data and the comparison of the kernel test.
 *
 * Invariants
 *  1. A buffer touches an unreadable page at one end exactly, but for what its alignment asks; the open end is followed
 *     (or preceded) by a pattern, so a stray write is seen there as well. Reads past the open end are caught by the
 *     cases that use the other side.
 *  2. Mappings are kept and reused: a case costs no system call. */
#include "kern_common.h"

#include "kern/kern_math.h"

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define PATTERN 0xc5
#define PATTERN_BYTES 128 /* two cache lines: the widest store any level has, twice */

struct guard {
	uint8_t *map;   /* a page, n_room bytes, a page */
	size_t n_room;
	uint8_t *buf;
	size_t n_bytes;
};

static struct guard guards[GUARD_N];

static size_t page_bytes(void)
{
	return (size_t)sysconf(_SC_PAGESIZE);
}

static void guard_release(struct guard *g)
{
	if (g->map)
		munmap(g->map, g->n_room + 2 * page_bytes());
	*g = (struct guard){0};
}

static void guard_reserve(struct guard *g, size_t n_bytes)
{
	size_t page = page_bytes(), n_room = (n_bytes + page - 1) / page * page;

	if (g->map && n_room <= g->n_room)
		return;
	guard_release(g);
	n_room = n_room < 64 * page ? 64 * page : 2 * n_room;
	uint8_t *map = mmap(NULL, n_room + 2 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_true(map != MAP_FAILED);
	assert_int_equal(mprotect(map + page, n_room, PROT_READ | PROT_WRITE), 0);
	*g = (struct guard){.map = map, .n_room = n_room};
}

/* The bytes before (or behind) the buffer that carry the pattern. */
static size_t pattern_before(const struct guard *g)
{
	size_t n = (size_t)(g->buf - (g->map + page_bytes()));
	return n < PATTERN_BYTES ? n : PATTERN_BYTES;
}

static size_t pattern_behind(const struct guard *g)
{
	size_t n = (size_t)(g->map + page_bytes() + g->n_room - (g->buf + g->n_bytes));
	return n < PATTERN_BYTES ? n : PATTERN_BYTES;
}

void *guard_get(enum guard_slot slot, size_t n_bytes, size_t align, enum guard_side side)
{
	struct guard *g = &guards[slot];

	guard_reserve(g, n_bytes);
	uint8_t *room = g->map + page_bytes();
	g->n_bytes = n_bytes;
	g->buf = side == GUARD_START ? room : room + (g->n_room - n_bytes) / align * align;
	memset(g->buf - pattern_before(g), PATTERN, pattern_before(g));
	memset(g->buf + n_bytes, PATTERN, pattern_behind(g));
	memset(g->buf, 0xff, n_bytes); /* NaN, whatever the type */
	return g->buf;
}

static bool is_pattern(const uint8_t *p, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (p[i] != PATTERN)
			return false;
	return true;
}

void guard_check_all(void)
{
	for (int i = 0; i < GUARD_N; i++) {
		const struct guard *g = &guards[i];
		if (!g->buf)
			continue;
		if (!is_pattern(g->buf - pattern_before(g), pattern_before(g)))
			fail_msg("slot %d: written before its start", i);
		if (!is_pattern(g->buf + g->n_bytes, pattern_behind(g)))
			fail_msg("slot %d: written behind its end", i);
	}
}

void guard_release_all(void)
{
	for (int i = 0; i < GUARD_N; i++)
		guard_release(&guards[i]);
}

void poison(float *x, size_t n)
{
	for (size_t i = 0; i < n; i++)
		x[i] = fm_from_bits(POISON_BITS);
}

float rand_between(struct rng *r, float lo, float hi)
{
	return (float)(lo + (hi - lo) * rng_f64(r));
}

size_t rand_below(struct rng *r, size_t n)
{
	return rng_u32(r) % n;
}

void fill_floats(struct rng *r, float *x, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		float f = rand_between(r, -1.0f, 1.0f);
		switch (rng_u32(r) % 32) {
		case 0: f = 0.0f; break;
		case 1: f = -0.0f; break;
		case 2: f *= 1e-6f; break;
		case 3: f *= 30.0f; break;
		default: break;
		}
		x[i] = f;
	}
}

bool float_differs(float a, float b, bool nan_alike)
{
	if (nan_alike && a != a && b != b)
		return false;
	return fm_bits(a) != fm_bits(b);
}

size_t floats_differ(const float *a, const float *b, size_t n, bool nan_alike)
{
	for (size_t i = 0; i < n; i++)
		if (float_differs(a[i], b[i], nan_alike))
			return i;
	return n;
}

const struct kern *kern_reference(void)
{
	return kern_get(0);
}
