/* An output's text, which grows token by token, and its stop strings.
 *
 * Every stop string is a Knuth-Morris-Pratt automaton of its own: how many of its first bytes the text ends with. The
 * longest of these ends is what may yet become a stop, so it is held back.
 *
 * Invariants
 *  1. The buffer has n_shown bytes to show and n_held behind them that wait. Between calls matched[i] <= n_held for
 *     every stop and one of them is equal, unless a character is held whole because a stop begins within it.
 *  2. A byte that may be shown is part of no stop that completes later: whatever could become one was held. It never
 *     changes, and stays where it is: readers on other threads need to know only how many there are.
 *  3. Nothing shown ends within a character, but before a stop that begins there and at the end of the text.
 *  4. The buffer has room for the end behind all that: only a push takes memory, before it changes anything.
 *
 * Refuses to know requests and events: bytes only. */
#include "engine/text.h"

#include "cohort_engine.h"

#include "base/err.h"
#include "base/mem.h"
#include "base/utf8.h"

#include <string.h>

/* What the end of a text takes behind what is held: the beginning of a character, and a NUL. */
enum { END_BYTES = 4 };

struct text_buffer {
	struct text_buffer *former; /* readers may still look at it */
	size_t n_max;
	char bytes[]; /* [n_max] */
};

struct stop {
	const char *bytes;
	const uint16_t *fallback; /* [n_bytes]: with i + 1 bytes matched, how many are when the next one is another */
	int32_t n_bytes;
};

struct stops {
	int32_t n;
	int32_t n_longest;
	struct stop of[COHORT_STOPS_MAX];
	/* Behind it: the fallbacks of all, then the bytes of all. */
};

/* ---- Stop strings ---- */

/* Bytes of s that are matched when n were, which are not all, and c comes. */
static int32_t advance(const struct stop *s, int32_t n, char c)
{
	while (n > 0 && s->bytes[n] != c)
		n = s->fallback[n - 1];
	return s->bytes[n] == c ? n + 1 : 0;
}

static void compile(struct stop *s, uint16_t *fallback)
{
	int32_t n = 0;

	s->fallback = fallback;
	fallback[0] = 0;
	for (int32_t i = 1; i < s->n_bytes; i++) {
		n = advance(s, n, s->bytes[i]);
		fallback[i] = (uint16_t)n;
	}
}

static enum cohort_status check_stops(const char *const *texts, int32_t n, size_t *n_bytes, struct cohort_err *err)
{
	_Static_assert(COHORT_STOP_BYTES_MAX <= UINT16_MAX, "lengths fit a fallback");

	if (n < 0 || n > COHORT_STOPS_MAX)
		return err_rule(err, COHORT_E_ARG, "n_stops", -1, -1, n < 0 ? 0 : COHORT_STOPS_MAX, n,
				"stop strings: %d of them, there may be 0 to %d", (int)n, COHORT_STOPS_MAX);
	if (n > 0 && !texts)
		return err_set(err, COHORT_E_ARG, "stop strings: no list for %d of them", (int)n);
	*n_bytes = 0;
	for (int32_t i = 0; i < n; i++) {
		if (!texts[i])
			return err_set(err, COHORT_E_ARG, "stop string %d is missing", (int)i);
		const size_t len = strnlen(texts[i], COHORT_STOP_BYTES_MAX + 1);
		if (len == 0)
			return err_rule(err, COHORT_E_ARG, "stops", i, -1, 1, 0, "stop string %d is empty", (int)i);
		if (len > COHORT_STOP_BYTES_MAX)
			return err_rule(err, COHORT_E_ARG, "stops", i, -1, COHORT_STOP_BYTES_MAX, (int64_t)len,
					"stop string %d is longer than %d bytes", (int)i, COHORT_STOP_BYTES_MAX);
		*n_bytes += len;
	}
	return COHORT_OK;
}

enum cohort_status stops_open(const char *const *texts, int32_t n, struct stops **out, struct cohort_err *err)
{
	size_t n_bytes;
	const enum cohort_status status = check_stops(texts, n, &n_bytes, err);

	if (status)
		return status;
	if (n == 0) {
		*out = NULL;
		return COHORT_OK;
	}
	/* The limits keep this far from any overflow. */
	struct stops *s = mem_alloc(1, sizeof *s + n_bytes * (sizeof(uint16_t) + 1));
	if (!s)
		return err_set(err, COHORT_E_MEMORY, "out of memory for %d stop strings", (int)n);
	uint16_t *fallback = (uint16_t *)(s + 1);
	char *bytes = (char *)(fallback + n_bytes);
	s->n = n;
	s->n_longest = 0;
	for (int32_t i = 0; i < n; i++) {
		const size_t len = strlen(texts[i]);
		memcpy(bytes, texts[i], len);
		s->of[i] = (struct stop){.bytes = bytes, .n_bytes = (int32_t)len};
		compile(&s->of[i], fallback);
		if (s->of[i].n_bytes > s->n_longest)
			s->n_longest = s->of[i].n_bytes;
		bytes += len;
		fallback += len;
	}
	*out = s;
	return COHORT_OK;
}

void stops_free(struct stops *s)
{
	mem_free(s);
}

/* ---- The text ---- */

/* Makes room for n bytes behind those that are there. False when out of memory. */
static bool reserve(struct text *t, size_t n)
{
	struct text_buffer *former = atomic_load_explicit(&t->buffer, memory_order_relaxed), *b;
	const size_t n_used = t->n_shown + t->n_held;
	size_t n_all;

	if (former && n <= former->n_max - n_used - END_BYTES)
		return true;
	if (!size_add(n, 2 * n_used + sizeof *b + 4 * END_BYTES, &n_all) || !(b = mem_alloc(n_all, 1)))
		return false;
	b->former = former;
	b->n_max = n_all - sizeof *b;
	if (former)
		memcpy(b->bytes, former->bytes, n_used);
	atomic_store(&t->buffer, b);
	return true;
}

bool text_init(struct text *t, const struct cohort_model *model, bool special, bool at_start, const struct stops *stops,
		size_t n_bytes)
{
	*t = (struct text){.stops = stops};
	cohort_detok_init(&t->detok, model, special, at_start);
	t->matched = stops ? mem_zalloc((size_t)stops->n, sizeof *t->matched) : NULL;
	if ((!stops || t->matched) && (n_bytes == 0 || reserve(t, n_bytes)))
		return true;
	text_release(t);
	return false;
}

void text_release(struct text *t)
{
	for (struct text_buffer *b = atomic_load(&t->buffer), *former; b; b = former) {
		former = b->former;
		mem_free(b);
	}
	mem_free(t->matched);
	*t = (struct text){.stops = NULL};
}

const char *text_so_far(struct text *t)
{
	const struct text_buffer *b = atomic_load_explicit(&t->buffer, memory_order_acquire);
	return b ? b->bytes : "";
}

/* Feeds one byte to every stop. The length of the longest that is complete with it, or 0. */
static int32_t feed(struct text *t, char c)
{
	int32_t n_complete = 0;

	for (int32_t i = 0; i < t->stops->n; i++) {
		const struct stop *s = &t->stops->of[i];
		t->matched[i] = advance(s, t->matched[i], c);
		if (t->matched[i] == s->n_bytes && s->n_bytes > n_complete)
			n_complete = s->n_bytes;
	}
	return n_complete;
}

static size_t longest_match(const struct text *t)
{
	int32_t n = 0;

	for (int32_t i = 0; t->stops && i < t->stops->n; i++)
		if (t->matched[i] > n)
			n = t->matched[i];
	return (size_t)n;
}

/* n bytes came behind those held: says how many of all of them may be shown, and whether a stop is complete. */
static void take(struct text *t, char *bytes, size_t n)
{
	const size_t n_before = t->n_shown, n_all = t->n_shown + t->n_held + n;

	for (size_t i = n_all - n; t->stops && i < n_all; i++) {
		const int32_t n_stop = feed(t, bytes[i]);
		if (n_stop) {
			t->stopped = true;
			t->n_shown = i + 1 - (size_t)n_stop;
			t->n_held = 0;
			bytes[t->n_shown] = 0;
			return;
		}
	}
	t->n_held = longest_match(t);
	t->n_shown = n_all - t->n_held;
	/* A stop that is no UTF-8 may begin within a character: all of it waits, then. */
	if (t->n_held && ((unsigned char)bytes[t->n_shown] & 0xc0) == 0x80) {
		const size_t n_begun = utf8_unfinished_tail(bytes + n_before, t->n_shown - n_before);
		t->n_shown -= n_begun;
		t->n_held += n_begun;
	}
}

enum cohort_status text_push(struct text *t, cohort_token token, struct cohort_err *err)
{
	struct cohort_err e; /* too little room is no failure */
	enum cohort_status st;
	struct text_buffer *b;
	size_t n = 0;

	do {
		if (!reserve(t, n))
			return err_set(err, COHORT_E_MEMORY, "out of memory for the text of an output");
		b = atomic_load_explicit(&t->buffer, memory_order_relaxed);
		const size_t n_used = t->n_shown + t->n_held;
		st = cohort_detok_push(&t->detok, token, b->bytes + n_used, b->n_max - n_used - END_BYTES, &n, &e);
	} while (st == COHORT_E_LIMIT);
	if (!st)
		take(t, b->bytes, n);
	else if (err)
		*err = e;
	return st;
}

void text_end(struct text *t)
{
	struct text_buffer *b = atomic_load_explicit(&t->buffer, memory_order_relaxed);

	if (!b || t->stopped)
		return;
	/* An unfinished character can complete a stop that is no UTF-8; then that is not shown. */
	const size_t n = cohort_detok_flush(&t->detok, b->bytes + t->n_shown + t->n_held);
	if (n > 0)
		take(t, b->bytes, n);
	t->n_shown += t->n_held;
	t->n_held = 0;
	b->bytes[t->n_shown] = 0;
}
