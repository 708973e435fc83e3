/* Text that is shown while it grows, and stop strings.
 *
 * Every stop string is a Knuth-Morris-Pratt automaton of its own: how many of its first bytes the text ends with. The
 * longest of these ends is what may yet become a stop, so it is held back.
 *
 * Invariants
 *  1. out holds n_out bytes to show and n_held behind them that wait. Between calls matched[i] <= n_held for every stop
 *     and one of them is equal, unless a character is held whole because a stop begins within it.
 *  2. A byte that was shown is part of no stop that completes later: whatever could become one was held.
 *  3. Nothing shown ends within a character, but before a stop that begins there and at the end of the text.
 *  4. out has room for all that is held and all that one token can bring, so a push allocates nothing.
 *
 * Refuses to know requests and events: bytes only. */
#include "engine/text.h"

#include "cohort_engine.h"

#include "base/err.h"
#include "base/mem.h"
#include "base/utf8.h"

#include <string.h>

/* Bytes of one unfinished character, which a decoder or a stop that begins within a character may hold back. */
enum { CHAR_HELD_MAX = 3 };

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

/* Bytes of s that are matched when n were and c comes. */
static int32_t advance(const struct stop *s, int32_t n, char c)
{
	while (n > 0 && (n == s->n_bytes || s->bytes[n] != c))
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

bool text_init(struct text *t, const struct cohort_model *model, bool special, bool at_start, const struct stops *stops,
		size_t piece_max)
{
	size_t n_max;

	memset(t, 0, sizeof *t);
	t->stops = stops;
	cohort_detok_init(&t->detok, model, special, at_start);
	/* Held for a stop and for the character it begins in; held by the decoder; a token; what the decoder held at
	 * the end, behind all that. */
	if (!size_add(piece_max, 3 * CHAR_HELD_MAX + (stops ? (size_t)stops->n_longest : 0), &n_max))
		return false;
	t->out_max = n_max;
	t->out = mem_alloc(n_max, 1);
	t->matched = stops ? mem_zalloc((size_t)stops->n, sizeof *t->matched) : NULL;
	if (!t->out || (stops && !t->matched)) {
		text_release(t);
		return false;
	}
	return true;
}

void text_release(struct text *t)
{
	mem_free(t->out);
	mem_free(t->matched);
	t->out = NULL;
	t->matched = NULL;
	t->n_out = t->n_held = 0;
}

/* What was shown goes; what was held is at the front now, new bytes come behind it. */
static void forget_shown(struct text *t)
{
	memmove(t->out, t->out + t->n_out, t->n_held);
	t->n_out = 0;
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

/* n bytes came behind those held, which are behind the first `from`. Says how many of all of them may be shown; true: a
 * stop is complete. */
static bool take(struct text *t, size_t from, size_t n)
{
	const size_t n_all = from + t->n_held + n;

	for (size_t i = from + t->n_held; t->stops && i < n_all; i++) {
		const int32_t n_stop = feed(t, t->out[i]);
		if (n_stop) {
			t->n_out = i + 1 - (size_t)n_stop;
			t->n_held = 0;
			return true;
		}
	}
	t->n_held = longest_match(t);
	t->n_out = n_all - t->n_held;
	/* A stop that is no UTF-8 may begin within a character: all of it waits, then. */
	if (t->n_held && ((unsigned char)t->out[t->n_out] & 0xc0) == 0x80) {
		const size_t n_begun = utf8_unfinished_tail(t->out + from, t->n_out - from);
		t->n_out -= n_begun;
		t->n_held += n_begun;
	}
	return false;
}

bool text_push(struct text *t, cohort_token token)
{
	size_t n = 0;

	forget_shown(t);
	const enum cohort_status status =
			cohort_detok_push(&t->detok, token, t->out + t->n_held, t->out_max - t->n_held, &n, NULL);
	/* Neither a token that is none nor one longer than was said is fed by a sound engine; both bring no text. */
	const bool stopped = take(t, 0, status == COHORT_OK ? n : 0);
	t->n_shown += t->n_out;
	return stopped;
}

void text_skip(struct text *t)
{
	forget_shown(t);
}

size_t text_end_behind(struct text *t)
{
	const size_t from = t->n_out;
	char last[4];

	const size_t n = cohort_detok_flush(&t->detok, last);
	memcpy(t->out + from + t->n_held, last, n);
	/* An unfinished character can complete a stop that is no UTF-8; then that is not shown. */
	if (!take(t, from, n)) {
		t->n_out += t->n_held;
		t->n_held = 0;
	}
	t->n_shown += t->n_out - from;
	return from;
}

void text_end(struct text *t)
{
	forget_shown(t);
	text_end_behind(t);
}
