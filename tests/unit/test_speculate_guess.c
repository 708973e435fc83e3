/* Prompt lookup against a search from end to end, over random texts that grow by random pieces; then periods, memory,
 * and the length of guesses.
 *
 * Faults planted in prog/speculate_guess.c, each seen to turn this red: indexing the last token, too (the text then
 * finds its own end); keeping the first occurrence instead of the last; not comparing the tokens of a slot; comparing
 * one token less; taking the shortest n-gram; stopping below n_min when a shorter one is missing; a guess that ends
 * with the text instead of going on with itself; tables that do not grow, or forget their slots when they do; an
 * allocation that is not checked; a match that is not followed beyond n_max, or before the text; odds that do not fade,
 * count what was not reached, take one class for a whole guess, or forget how many texts share a decode; a pace that
 * never rests, never grows, or leaves its bounds. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "base/mem.h"
#include "base/rng.h"
#include "speculate_guess.h"

enum { TEXT_MAX = 3000, GUESS_MAX = 20 };

/* The index behind the latest earlier occurrence of the text's longest n-gram; 0: there is none. */
static size_t naive(const cohort_token *text, size_t n_text, int32_t n_min, int32_t n_max, int32_t *n_gram)
{
	for (int32_t n = n_max; n >= n_min; n--)
		for (size_t after = n_text - 1; (size_t)n < n_text && after >= (size_t)n; after--)
			if (memcmp(text + after - n, text + n_text - n, (size_t)n * sizeof *text) == 0) {
				*n_gram = n;
				return after;
			}
	*n_gram = 0;
	return 0;
}

/* How many tokens before `after` and before the end agree. */
static int32_t agreeing(const cohort_token *text, size_t n_text, size_t after)
{
	int32_t n = 0;
	for (size_t a = after, b = n_text; n < MATCH_MAX && a > 0 && text[a - 1] == text[b - 1]; a--, b--)
		n++;
	return n;
}

static void compare(struct lookup *l, const cohort_token *text, size_t n_text, int32_t n_guess)
{
	cohort_token got[GUESS_MAX], want[TEXT_MAX + GUESS_MAX];
	int32_t n_got = -1, n_match = -1, n_gram_want;
	const size_t after = naive(text, n_text, l->n_min, l->n_max, &n_gram_want);

	assert_int_equal(lookup_guess(l, text, n_text, got, n_guess, &n_got, &n_match, NULL), COHORT_OK);
	assert_int_equal(n_match, n_gram_want ? agreeing(text, n_text, after) : 0);
	assert_int_equal(n_got, after ? n_guess : 0);
	memcpy(want, text, n_text * sizeof *text);
	for (int32_t i = 0; i < n_got; i++) {
		want[n_text + (size_t)i] = want[after + (size_t)i];
		assert_int_equal(got[i], want[n_text + (size_t)i]);
	}
}

/* Small alphabets have long repetitions, large ones few; pieces of the text come again. */
static void lookup_in_random_texts(void **state)
{
	(void)state;
	static cohort_token text[TEXT_MAX];
	struct rng r;
	size_t n_found = 0, n_asked = 0;

	rng_init(&r, 8, 1);
	for (int round = 0; round < 60; round++) {
		const uint32_t n_alphabet = 1 + rng_u32(&r) % (round % 3 ? 6 : 1000);
		const int32_t n_min = 1 + (int32_t)(rng_u32(&r) % 4), n_max = n_min + (int32_t)(rng_u32(&r) % 6);
		const size_t n_text = round % 10 ? 300 : TEXT_MAX - 1;
		struct lookup l;
		size_t n = 0;
		lookup_init(&l, n_min, n_max);
		while (n < n_text) {
			const size_t more = 1 + rng_u32(&r) % 12, from = n ? rng_u32(&r) % n : 0;
			const bool again = n && rng_u32(&r) % 3 == 0;
			for (size_t k = 0; k < more && n < n_text; k++)
				text[n++] = again ? text[from + k] : (cohort_token)(rng_u32(&r) % n_alphabet) - 3;
			if (n_text > 1000 && rng_u32(&r) % 8)
				continue;
			int32_t n_gram;
			compare(&l, text, n, (int32_t)(rng_u32(&r) % (GUESS_MAX + 1)));
			n_found += naive(text, n, n_min, n_max, &n_gram) > 0;
			n_asked++;
		}
		lookup_release(&l);
	}
	/* Both outcomes were seen often. */
	assert_in_range(n_found, n_asked / 5, n_asked - n_asked / 20);
}

static void short_texts(void **state)
{
	(void)state;
	const cohort_token text[] = {5, 5, 5, 7};
	struct lookup l;

	lookup_init(&l, 1, 8);
	for (size_t n = 1; n <= 4; n++)
		compare(&l, text, n, 4);
	int32_t n_got = 1, n_match = 1;
	assert_int_equal(lookup_guess(&l, text, 0, NULL, 4, &n_got, &n_match, NULL), COHORT_OK);
	assert_int_equal(n_got + n_match, 0);
	lookup_release(&l);
	lookup_release(&l);
}

/* A text with a period is guessed on for as long as wanted, not only to where it ends. */
static void periodic_texts_are_guessed_on(void **state)
{
	(void)state;
	for (int32_t period = 1; period <= 7; period++) {
		cohort_token text[40], out[GUESS_MAX];
		int32_t n_got, n_match;
		struct lookup l;
		for (int32_t i = 0; i < 40; i++)
			text[i] = i % period;
		lookup_init(&l, 2, 8);
		assert_int_equal(lookup_guess(&l, text, 40, out, GUESS_MAX, &n_got, &n_match, NULL), COHORT_OK);
		assert_int_equal(n_got, GUESS_MAX);
		assert_int_equal(n_match, 40 - period);
		for (int32_t i = 0; i < GUESS_MAX; i++)
			assert_int_equal(out[i], (40 + i) % period);
		lookup_release(&l);
	}
}

/* Each allocation fails once, while the text grows; the call is repeated, and nothing is missing from the index a
 * period later. */
static void lookup_out_of_memory_at_every_point(void **state)
{
	(void)state;
	enum { N = 700, PERIOD = 301 };
	cohort_token text[N], out[GUESS_MAX];
	int n_failed = 0;
	bool failed = true;

	for (int32_t i = 0; i < N; i++)
		text[i] = i % PERIOD;
	for (int64_t k = 0; failed; k++) {
		struct lookup l;
		lookup_init(&l, 1, 3);
		failed = false;
		mem_fail_after(k);
		for (size_t n = 1; n <= N; n++) {
			struct cohort_err err;
			int32_t n_got, n_match;
			const enum cohort_status st = lookup_guess(&l, text, n, out, 4, &n_got, &n_match, &err);
			if (st) {
				assert_int_equal(st, COHORT_E_MEMORY);
				failed = true;
			}
			compare(&l, text, n, 4);
		}
		mem_fail_after(-1);
		n_failed += failed;
		lookup_release(&l);
	}
	assert_in_range(n_failed, 6, 100);
}

/* The best length by trying all, with counts kept in doubles. */
static int32_t best_length(const double *right, const double *wrong, double row, int32_t n_max, int32_t n_match)
{
	double best = 1, tokens = 1, likely = 1;
	int32_t length = 0;

	for (int32_t n = 1; n <= n_max; n++) {
		int c = 0;
		while (c < ODDS_CLASSES - 1 && n_match + n - 1 >= 2 << c)
			c++;
		likely *= right[c] / (right[c] + wrong[c]);
		tokens += likely;
		if (tokens / (1 + row * n) > best * (1 + 1e-5)) {
			best = tokens / (1 + row * n);
			length = n;
		}
	}
	return length;
}

static void odds_learn_how_likely_guesses_are(void **state)
{
	(void)state;
	struct odds o;
	struct rng r;
	double right[ODDS_CLASSES], wrong[ODDS_CLASSES];
	int n_off = 0, n_none = 0;

	rng_init(&r, 11, 1);
	for (int round = 0; round < 40; round++) {
		const int32_t n_lines = 1 + round % 8, n_max = 1 + (int32_t)(rng_u32(&r) % 40);
		const double row = 0.25 / (0.75 / n_lines + 0.25);
		odds_init(&o, n_max, n_lines);
		for (int c = 0; c < ODDS_CLASSES; c++) {
			right[c] = 4;
			wrong[c] = 1;
		}
		for (int i = 0; i < 200; i++) {
			const int32_t n_match = 1 + (int32_t)(rng_u32(&r) % MATCH_MAX);
			const int32_t n_guess = 1 + (int32_t)(rng_u32(&r) % (uint32_t)n_max);
			int32_t n_right = 0;
			/* Right more often behind longer matches, and in some rounds hardly ever. */
			while (n_right < n_guess && rng_u32(&r) % 100 < (round % 4 ? 40 + (uint32_t)n_match : 3))
				n_right++;
			odds_tell(&o, n_match, n_guess, n_right);
			for (int32_t k = 0; k < n_guess && k <= n_right; k++) {
				int c = 0;
				while (c < ODDS_CLASSES - 1 && n_match + k >= 2 << c)
					c++;
				right[c] = 0.97 * right[c] + (k < n_right);
				wrong[c] = 0.97 * wrong[c] + (k >= n_right);
			}
			const int32_t got = odds_length(&o, n_match);
			assert_in_range(got, 0, n_max);
			n_none += got == 0;
			n_off += got != best_length(right, wrong, row, n_max, n_match);
		}
	}
	assert_in_range(n_off, 0, 40); /* rates that are the same but for rounding */
	assert_in_range(n_none, 500, 6000);

	/* Wrong again and again: no guess; compared and right again: guesses come back. The more texts, the less is
	 * worth it. */
	odds_init(&o, 16, 1);
	assert_in_range(odds_length(&o, 8), 3, 16);
	for (int i = 0; i < 40; i++)
		odds_tell(&o, 8, 1, 0);
	assert_int_equal(odds_length(&o, 8), 0);
	assert_in_range(odds_length(&o, 2), 2, 16);
	for (int i = 0; i < 40; i++)
		odds_tell(&o, 8, 1, 1);
	assert_in_range(odds_length(&o, 8), 2, 16);
	const int32_t alone = odds_length(&o, 2);
	odds_init(&o, 16, 64);
	assert_in_range(odds_length(&o, 2), 0, (uintmax_t)alone - 1);
}

static void pace_follows_what_was_right(void **state)
{
	(void)state;
	struct pace p;

	/* Right to the end: twice as long, up to the bound. Shorter guesses than were wanted say nothing about longer.
	 */
	pace_init(&p, 1, 20);
	assert_int_equal(pace_next(&p), 4);
	pace_tell(&p, 4, 4);
	assert_int_equal(pace_next(&p), 8);
	pace_tell(&p, 3, 3);
	assert_int_equal(pace_next(&p), 8);
	pace_tell(&p, 8, 8);
	pace_tell(&p, 16, 16);
	assert_int_equal(pace_next(&p), 20);
	/* Wrong somewhere: half way back. */
	pace_tell(&p, 20, 5);
	assert_int_equal(pace_next(&p), 13);
	/* Never right: down to the bound, and ever longer rests. */
	int n_guesses = 0;
	for (int i = 0; i < 200; i++) {
		const int32_t want = pace_next(&p);
		if (want > 0) {
			assert_in_range(want, 1, 20);
			pace_tell(&p, want, 0);
			n_guesses++;
		}
	}
	assert_in_range(n_guesses, 10, 20);
	assert_int_equal(p.want, 1);
	/* One that is right ends the rests. */
	while (pace_next(&p) == 0)
		;
	pace_tell(&p, 1, 1);
	assert_int_equal(pace_next(&p), 2);
	pace_init(&p, 9, 12);
	assert_int_equal(pace_next(&p), 9);
	pace_tell(&p, 9, 0);
	assert_int_equal(pace_next(&p), 9);
	pace_init(&p, 1, 2);
	assert_int_equal(pace_next(&p), 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
			cmocka_unit_test(lookup_in_random_texts),
			cmocka_unit_test(short_texts),
			cmocka_unit_test(periodic_texts_are_guessed_on),
			cmocka_unit_test(lookup_out_of_memory_at_every_point),
			cmocka_unit_test(odds_learn_how_likely_guesses_are),
			cmocka_unit_test(pace_follows_what_was_right),
	};
	return cmocka_run_group_tests_name("speculate_guess", tests, NULL, NULL);
}
