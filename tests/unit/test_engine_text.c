/* Texts that grow token by token, and stop strings: against a naive search of the whole text after every token.
 *
 * Seen red with: a fallback of zero; the first of several stops that complete at once instead of the longest; one
 * byte less held back; one more; a stop that is shown; characters cut where a stop begins within one; no flush at the
 * end; an unfinished character lost there; a full buffer that is not copied into the longer one; an allocation that
 * nobody looks at, or whose failure leaves another behind. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/rng.h"
#include "base/utf8.h"
#include "cohort_engine.h"
#include "engine/text.h"

enum { TEXT_MAX = 4096, STOPS_TRIED = 5, STOP_LEN = 8, TOKENS_MAX = 64 };

static struct cohort_model *model;
static int32_t n_vocab;

static uint32_t below(struct rng *r, uint32_t n)
{
	return rng_u32(r) % n;
}

/* The token that is exactly these bytes, or -1. */
static cohort_token token_of(const char *bytes, size_t n_bytes)
{
	for (cohort_token t = 0; t < n_vocab; t++) {
		size_t n;
		const char *s = cohort_token_bytes(model, t, false, &n);
		if (n == n_bytes && memcmp(s, bytes, n) == 0)
			return t;
	}
	return -1;
}

static cohort_token byte_token(char c)
{
	const cohort_token t = token_of(&c, 1);

	assert_true(t >= 0);
	return t;
}

/* ---- The naive way ---- */

struct world {
	char stop[STOPS_TRIED][STOP_LEN + 1];
	const char *stops[STOPS_TRIED];
	int32_t n_stops;
	struct text text;
	struct stops *compiled;
	struct cohort_detok detok; /* beside the one that is tested */
	char all[TEXT_MAX], shown[TEXT_MAX];
	size_t n_all, n_shown;
};

/* Where a stop that is complete begins; -1: there is none. The earliest end counts, then the longest. */
static long find_stop(const struct world *w)
{
	for (size_t end = 1; end <= w->n_all; end++) {
		size_t longest = 0;
		for (int32_t i = 0; i < w->n_stops; i++) {
			const size_t n = strlen(w->stops[i]);
			if (n <= end && n > longest && memcmp(w->all + end - n, w->stops[i], n) == 0)
				longest = n;
		}
		if (longest)
			return (long)(end - longest);
	}
	return -1;
}

/* Bytes of the text that may be shown: less the longest end that a stop begins with, and in whole characters. The text
 * has no bytes that are no characters. */
static size_t showable(const struct world *w)
{
	size_t n_held = 0, at = 0;

	for (int32_t i = 0; i < w->n_stops; i++)
		for (size_t n = 1; n < strlen(w->stops[i]) && n <= w->n_all; n++)
			if (n > n_held && memcmp(w->all + w->n_all - n, w->stops[i], n) == 0)
				n_held = n;
	while (at < w->n_all) {
		uint32_t cp;
		const size_t n = utf8_decode(w->all + at, w->n_all - at, &cp);
		assert_true(n > 0);
		if (at + n > w->n_all - n_held)
			break;
		at += n;
	}
	return at;
}

static void open_world(struct world *w, bool at_start)
{
	for (int32_t i = 0; i < w->n_stops; i++)
		w->stops[i] = w->stop[i];
	assert_int_equal(stops_open(w->stops, w->n_stops, &w->compiled, NULL), COHORT_OK);
	assert_true((w->compiled == NULL) == (w->n_stops == 0));
	assert_true(text_init(&w->text, model, false, at_start, w->compiled, TEXT_MAX));
	cohort_detok_init(&w->detok, model, false, at_start);
	w->n_all = w->n_shown = 0;
}

static void close_world(struct world *w)
{
	text_release(&w->text);
	stops_free(w->compiled);
}

static void show(struct world *w)
{
	const char *bytes = text_so_far(&w->text);

	assert_true(w->text.n_shown >= w->n_shown);
	assert_memory_equal(w->shown, bytes, w->n_shown);
	memcpy(w->shown, bytes, w->text.n_shown);
	w->n_shown = w->text.n_shown;
}

static void shown_is(const struct world *w, size_t n)
{
	assert_int_equal(w->n_shown, n);
	assert_memory_equal(w->shown, w->all, n);
}

/* One token on both ways; true when a stop is complete. */
static bool push(struct world *w, cohort_token t)
{
	size_t n;

	assert_int_equal(cohort_detok_push(&w->detok, t, w->all + w->n_all, TEXT_MAX - w->n_all, &n, NULL), COHORT_OK);
	w->n_all += n;
	mem_fail_all(true);
	assert_int_equal(text_push(&w->text, t, NULL), COHORT_OK);
	const bool stopped = w->text.stopped;
	mem_fail_all(false);
	show(w);
	const long stop = find_stop(w);
	assert_int_equal(stopped, stop >= 0);
	shown_is(w, stopped ? (size_t)stop : showable(w));
	return stopped;
}

static void end(struct world *w)
{
	w->n_all += cohort_detok_flush(&w->detok, w->all + w->n_all);
	text_end(&w->text);
	text_end(&w->text);
	show(w);
	assert_int_equal(text_so_far(&w->text)[w->n_shown], '\0');
	const long stop = find_stop(w);
	shown_is(w, stop >= 0 ? (size_t)stop : w->n_all);
}

/* ---- Tests ---- */

/* All tokens of a few letters, so that stops come within tokens, across them, and several at once. */
static void stops_in_random_texts(void **state)
{
	static const char letters[] = " the";
	cohort_token tokens[TOKENS_MAX];
	uint32_t n_tokens = 0;
	size_t n_stopped = 0, n_ended = 0, n_longest = 0;
	struct rng r;
	(void)state;

	rng_init(&r, 1, 1);
	for (cohort_token t = 0; t < n_vocab && n_tokens < TOKENS_MAX; t++) {
		size_t n, k = 0;
		const char *s = cohort_token_bytes(model, t, false, &n);
		while (k < n && s[k] && strchr(letters, s[k]))
			k++;
		if (n > 0 && k == n) {
			tokens[n_tokens++] = t;
			n_longest = n > n_longest ? n : n_longest;
		}
	}
	assert_true(n_tokens >= 8);
	assert_true(n_longest >= 3);
	for (int round = 0; round < 20000; round++) {
		static struct world w;
		bool stopped = false;
		const uint32_t n_letters = 2 + below(&r, 3);
		w.n_stops = (int32_t)below(&r, STOPS_TRIED + 1);
		for (int32_t i = 0; i < w.n_stops; i++) {
			const uint32_t n = 1 + below(&r, STOP_LEN);
			for (uint32_t k = 0; k < n; k++)
				w.stop[i][k] = letters[4 - n_letters + below(&r, n_letters)];
			w.stop[i][n] = '\0';
		}
		open_world(&w, below(&r, 2));
		for (int k = 0; k < 40 && !stopped; k++)
			stopped = push(&w, tokens[below(&r, n_tokens)]);
		if (!stopped)
			end(&w);
		n_stopped += stopped;
		n_ended += !stopped;
		close_world(&w);
	}
	assert_true(n_stopped > 1000);
	assert_true(n_ended > 1000);
}

/* Characters of one to four bytes, a byte a token; stops are parts of them, too, and the text may end within one. */
static void random_characters(void **state)
{
	static const char chars[] = "a\xc3\xa9\xe2\x82\xac\xe2\x82\xad\xf0\x9f\xa6\x99";
	static const uint8_t starts[] = {0, 1, 3, 6, 9, 13};
	size_t n_stopped = 0, n_within = 0;
	struct rng r;
	(void)state;

	rng_init(&r, 2, 1);
	for (int round = 0; round < 10000; round++) {
		static struct world w;
		char text[64];
		size_t n_text = 0;
		bool stopped = false;
		w.n_stops = 1 + (int32_t)below(&r, 3);
		for (int32_t i = 0; i < w.n_stops; i++) {
			const uint32_t n = 1 + below(&r, STOP_LEN - 1), from = below(&r, (uint32_t)(sizeof chars - 1));
			for (uint32_t k = 0; k < n; k++)
				w.stop[i][k] = chars[(from + k) % (sizeof chars - 1)];
			w.stop[i][n] = '\0';
		}
		uint32_t c = below(&r, 5);
		for (int k = 0; k < 12; k++) {
			memcpy(text + n_text, chars + starts[c], (size_t)(starts[c + 1] - starts[c]));
			n_text += (size_t)(starts[c + 1] - starts[c]);
			c = below(&r, 3) ? (c + 1) % 5 : below(&r, 5);
		}
		n_text -= below(&r, 4);
		open_world(&w, false);
		for (size_t i = 0; i < n_text && !stopped; i++)
			stopped = push(&w, byte_token(text[i]));
		if (!stopped) {
			n_within += w.detok.n_held > 0;
			end(&w);
		}
		n_stopped += stopped;
		close_world(&w);
	}
	assert_true(n_stopped > 1000);
	assert_true(n_within > 100);
}

static void set_stops(struct world *w, const char *a, const char *b)
{
	memset(w, 0, sizeof *w);
	for (int i = 0; i < 2; i++)
		if (i == 0 ? a : b)
			snprintf(w->stop[w->n_stops++], STOP_LEN + 1, "%s", i == 0 ? a : b);
	open_world(w, false);
}

static void push_bytes(struct world *w, const char *s)
{
	for (; *s; s++)
		assert_false(push(w, byte_token(*s)));
}

static void stops_in_known_texts(void **state)
{
	static struct world w;
	(void)state;

	/* Two stops complete with the same byte: the longer one counts, so that nothing of it is shown. */
	set_stops(&w, "cd", "abcd");
	push_bytes(&w, "xabc");
	assert_int_equal(w.n_shown, 1);
	assert_true(push(&w, byte_token('d')));
	assert_int_equal(w.n_shown, 1);
	close_world(&w);

	/* What began like a stop and is none comes with the byte that says so, but for what may begin another. */
	set_stops(&w, "aab", NULL);
	push_bytes(&w, "aa");
	assert_int_equal(w.n_shown, 0);
	push_bytes(&w, "a");
	assert_int_equal(w.n_shown, 1);
	push_bytes(&w, "c");
	assert_int_equal(w.n_shown, 4);
	push_bytes(&w, "aa");
	end(&w);
	assert_int_equal(w.n_shown, 6);
	close_world(&w);

	/* A stop within one token: what is before it is shown, what is behind it is not. */
	const cohort_token the = token_of(" the", 4);
	assert_true(the >= 0);
	set_stops(&w, "h", NULL);
	assert_true(push(&w, the));
	assert_int_equal(w.n_shown, 2);
	close_world(&w);

	/* A stop that ends within a token that began before it. */
	set_stops(&w, "x t", NULL);
	push_bytes(&w, "ax");
	assert_true(push(&w, the));
	assert_int_equal(w.n_shown, 1);
	close_world(&w);

	/* No stops: every whole character at once. */
	set_stops(&w, NULL, NULL);
	push_bytes(&w, "a\xc3");
	assert_int_equal(w.n_shown, 1);
	push_bytes(&w, "\xa9");
	assert_int_equal(w.n_shown, 3);
	push_bytes(&w, "\xf0\x9f");
	end(&w);
	assert_int_equal(w.n_shown, 5);
	close_world(&w);
}

/* As long as a stop may be, and as many as there may be. */
static void long_stops(void **state)
{
	static char longest[COHORT_STOP_BYTES_MAX + 2];
	const char *stops[COHORT_STOPS_MAX];
	const cohort_token a = byte_token('a'), b = byte_token('b');
	struct stops *s = NULL;
	struct text t;
	(void)state;

	memset(longest, 'a', COHORT_STOP_BYTES_MAX);
	for (int i = 0; i < COHORT_STOPS_MAX; i++)
		stops[i] = longest + i;
	assert_int_equal(stops_open(stops, COHORT_STOPS_MAX, &s, NULL), COHORT_OK);
	assert_true(text_init(&t, model, false, false, s, TEXT_MAX));
	const int n_before = COHORT_STOP_BYTES_MAX - COHORT_STOPS_MAX;
	for (int i = 0; i < n_before; i++) {
		assert_int_equal(text_push(&t, a, NULL), COHORT_OK);
		assert_int_equal(t.n_shown, 0);
	}
	assert_int_equal(text_push(&t, b, NULL), COHORT_OK);
	assert_int_equal(t.n_shown, n_before + 1);
	for (int i = 0; i <= n_before; i++) {
		assert_false(t.stopped);
		assert_int_equal(text_push(&t, a, NULL), COHORT_OK);
	}
	assert_true(t.stopped);
	assert_int_equal(t.n_shown, n_before + 1);
	text_release(&t);
	stops_free(s);

	assert_int_equal(stops_open(stops, 1, &s, NULL), COHORT_OK);
	assert_true(text_init(&t, model, false, false, s, TEXT_MAX));
	for (int i = 0; i < COHORT_STOP_BYTES_MAX - 1; i++)
		assert_int_equal(text_push(&t, a, NULL), COHORT_OK);
	assert_int_equal(t.n_held, COHORT_STOP_BYTES_MAX - 1);
	assert_int_equal(text_push(&t, b, NULL), COHORT_OK);
	assert_int_equal(t.n_shown, COHORT_STOP_BYTES_MAX);
	assert_false(t.stopped);
	text_release(&t);
	stops_free(s);
}

/* A text that takes its memory as it grows: what was shown stays where it was, too, and a failed push is as if it had
 * not been. */
static void growing(void **state)
{
	static struct world w;
	const char *seen[TOKENS_MAX];
	size_t n_seen[TOKENS_MAX];
	int n_failed = 0;
	(void)state;

	for (int with_stop = 0; with_stop < 2; with_stop++) {
		set_stops(&w, with_stop ? " thx" : NULL, NULL);
		const cohort_token the = token_of(" the", 4);
		text_release(&w.text);
		assert_true(text_init(&w.text, model, false, false, w.compiled, 0));
		for (int k = 0; k < TOKENS_MAX; k++) {
			const cohort_token t = k % 3 ? the : byte_token("\xc3\xa9"[k % 2]);
			const struct text before = w.text;
			size_t n;
			mem_fail_all(true);
			const bool pushed = text_push(&w.text, t, NULL) == COHORT_OK;
			mem_fail_all(false);
			if (!pushed) {
				n_failed++;
				assert_int_equal(w.text.n_shown, before.n_shown);
				assert_int_equal(w.text.n_held, before.n_held);
				assert_int_equal(w.text.detok.n_held, before.detok.n_held);
				assert_int_equal(text_push(&w.text, t, NULL), COHORT_OK);
			}
			assert_int_equal(cohort_detok_push(&w.detok, t, w.all + w.n_all, TEXT_MAX - w.n_all, &n, NULL),
					COHORT_OK);
			w.n_all += n;
			show(&w);
			seen[k] = text_so_far(&w.text);
			n_seen[k] = w.n_shown;
		}
		end(&w);
		for (int k = 0; k < TOKENS_MAX; k++)
			assert_memory_equal(seen[k], w.all, n_seen[k]);
		assert_ptr_not_equal(seen[0], seen[TOKENS_MAX - 1]);
		close_world(&w);
	}
	assert_true(n_failed > 4);
}

static void bad_stops(void **state)
{
	static char longer[COHORT_STOP_BYTES_MAX + 2];
	const char *good[COHORT_STOPS_MAX + 1], *empty[] = {"a", ""}, *missing[] = {"a", NULL}, *too_long[] = {longer};
	struct stops *none = (struct stops *)good;
	struct cohort_err err = {0};
	(void)state;

	memset(longer, 'a', COHORT_STOP_BYTES_MAX + 1);
	for (int i = 0; i <= COHORT_STOPS_MAX; i++)
		good[i] = "x";
	assert_int_equal(stops_open(good, COHORT_STOPS_MAX + 1, &none, &err), COHORT_E_ARG);
	assert_int_equal(stops_open(good, -1, &none, &err), COHORT_E_ARG);
	assert_int_equal(stops_open(NULL, 1, &none, &err), COHORT_E_ARG);
	assert_int_equal(stops_open(empty, 2, &none, &err), COHORT_E_ARG);
	assert_non_null(strstr(err.text, "1 is empty"));
	assert_int_equal(stops_open(missing, 2, &none, &err), COHORT_E_ARG);
	assert_int_equal(stops_open(too_long, 1, &none, &err), COHORT_E_ARG);
	assert_ptr_equal(none, good);
	assert_int_equal(stops_open(NULL, 0, &none, &err), COHORT_OK);
	assert_null(none);
	stops_free(NULL);
}

static void engine_text_out_of_memory_at_every_point(void **state)
{
	const char *stops[] = {"stop"};
	struct stops *s = NULL;
	struct text t;
	(void)state;

	mem_fail_after(0);
	assert_int_equal(stops_open(stops, 1, &s, NULL), COHORT_E_MEMORY);
	mem_fail_after(-1);
	assert_int_equal(stops_open(stops, 1, &s, NULL), COHORT_OK);
	int n_failed = 0;
	for (bool made = false; !made; n_failed += !made) {
		mem_fail_after(n_failed);
		made = text_init(&t, model, false, false, s, TEXT_MAX);
		mem_fail_after(-1);
		assert_true(made || (!t.buffer && !t.matched));
		text_release(&t);
	}
	assert_true(n_failed >= 2);
	assert_false(text_init(&t, model, false, false, s, SIZE_MAX));
	/* What is no token is refused, and changes nothing. */
	assert_true(text_init(&t, model, false, false, NULL, TEXT_MAX));
	const cohort_token tokens[] = {byte_token('a'), n_vocab, -1};
	for (int i = 0; i < 3; i++) {
		assert_int_equal(text_push(&t, tokens[i], NULL), i ? COHORT_E_ARG : COHORT_OK);
		assert_int_equal(t.n_shown, 1);
	}
	text_release(&t);
	stops_free(s);
}

static int open_model(void **state)
{
	const char *source = getenv("COHORT_SOURCE");
	char path[512];
	struct cohort_model_params params;
	struct cohort_model_info info = {.struct_size = sizeof info};
	(void)state;

	snprintf(path, sizeof path, "%s/models/cohort-tiny.gguf", source ? source : ".");
	cohort_model_params_init(&params);
	if (cohort_model_open(path, &params, &model, NULL) != COHORT_OK)
		return -1;
	cohort_model_info_get(model, &info);
	n_vocab = info.n_vocab;
	return 0;
}

static int close_model(void **state)
{
	(void)state;
	cohort_model_free(model);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
			cmocka_unit_test(stops_in_random_texts),
			cmocka_unit_test(random_characters),
			cmocka_unit_test(stops_in_known_texts),
			cmocka_unit_test(long_stops),
			cmocka_unit_test(growing),
			cmocka_unit_test(bad_stops),
			cmocka_unit_test(engine_text_out_of_memory_at_every_point),
	};

	return cmocka_run_group_tests_name("engine_text", tests, open_model, close_model);
}
