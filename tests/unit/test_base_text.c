/* The base room: UTF-8 against brute-force definitions, and the map from strings to numbers. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/strmap.h"
#include "base/utf8.h"
#include "effort.h"

/* ---- UTF-8 ---- */

/* A character by the bit patterns alone, then the three rules: shortest form, no surrogate, at most U+10FFFF. */
static size_t slow_decode(const uint8_t *s, size_t n, uint32_t *cp)
{
	static const struct { uint8_t mask, bits; uint32_t least; } forms[] = {
		{0x80, 0x00, 0}, {0xe0, 0xc0, 0x80}, {0xf0, 0xe0, 0x800}, {0xf8, 0xf0, 0x10000},
	};

	for (size_t len = 1; len <= 4 && len <= n; len++) {
		uint32_t v = s[0] & (uint8_t)~forms[len - 1].mask;
		bool ok = (s[0] & forms[len - 1].mask) == forms[len - 1].bits;
		for (size_t i = 1; i < len; i++) {
			ok = ok && (s[i] & 0xc0) == 0x80;
			v = v << 6 | (s[i] & 0x3f);
		}
		if (ok && v >= forms[len - 1].least && v <= 0x10ffff && !(v >= 0xd800 && v <= 0xdfff)) {
			*cp = v;
			return len;
		}
	}
	return 0;
}

static void utf8_round_trip(void **state)
{
	(void)state;
	for (uint32_t cp = 0; cp < 0x120000; cp++) {
		char s[4] = {0};
		uint32_t back = 0, slow = 0;
		size_t n = utf8_encode(cp, s);
		if (cp > 0x10ffff || (cp >= 0xd800 && cp <= 0xdfff)) {
			assert_int_equal(n, 0);
			continue;
		}
		if (n != (cp < 0x80 ? 1u : cp < 0x800 ? 2u : cp < 0x10000 ? 3u : 4u) || utf8_decode(s, n, &back) != n ||
				back != cp || slow_decode((uint8_t *)s, n, &slow) != n || slow != cp)
			fail_msg("U+%04X", cp);
		/* Cut, it is nothing. */
		for (size_t cut = 0; cut < n; cut++)
			if (utf8_decode(s, cut, &back) != 0)
				fail_msg("U+%04X cut to %zu bytes", cp, cut);
	}
	assert_int_equal(utf8_encode(UINT32_MAX, (char[4]){0}), 0);
}

static void same_as_slow(const uint8_t *s, size_t n)
{
	uint32_t a = 0x5a5a5a5a, b = a;
	size_t got = utf8_decode((const char *)s, n, &a), want = slow_decode(s, n, &b);

	if (got != want || a != b)
		fail_msg("%02x %02x %02x %02x (%zu): length %zu, wanted %zu", s[0], s[1], s[2], s[3], n, got, want);
}

/* Every string of up to two bytes, and longer ones of bytes at the borders of the rules. */
static void utf8_any_bytes(void **state)
{
	static const uint8_t edge[] = {0x00, 0x7f, 0x80, 0x8f, 0x90, 0x9f, 0xa0, 0xbf, 0xc0, 0xff};
	enum { N = sizeof edge };
	(void)state;

	for (unsigned a = 0; a < 256; a++) {
		uint8_t s[4] = {(uint8_t)a, 0x80, 0x80, 0x80};
		for (unsigned b = 0; b < 256; b++) {
			s[1] = (uint8_t)b;
			for (size_t n = 0; n <= 4; n++)
				same_as_slow(s, n);
		}
		for (unsigned k = 0; k < N * N * N; k++) {
			s[1] = edge[k % N];
			s[2] = edge[k / N % N];
			s[3] = edge[k / N / N];
			for (size_t n = 3; n <= 4; n++)
				same_as_slow(s, n);
		}
	}
}

static void utf8_named_cases(void **state)
{
	static const char *const bad[] = {
		"\xc0\x80", "\xc1\xbf", "\xe0\x80\x80", "\xe0\x9f\xbf", /* overlong */
		"\xf0\x80\x80\x80", "\xf0\x8f\xbf\xbf",             /* overlong */
		"\xed\xa0\x80", "\xed\xbf\xbf",                         /* surrogates */
		"\xf4\x90\x80\x80", "\xf5\x80\x80\x80", "\xff", "\xfe", /* above U+10FFFF */
		"\x80", "\xbf", "\xc2\x41", "\xe2\x82\x41",             /* out of place */
	};
	uint32_t cp;
	(void)state;

	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		assert_int_equal(utf8_decode(bad[i], strlen(bad[i]), &cp), 0);
		assert_int_equal(utf8_valid_prefix(bad[i], strlen(bad[i])), 0);
	}
	assert_int_equal(utf8_valid_prefix("", 0), 0);
	assert_int_equal(utf8_valid_prefix("a\xc3\xa9\0\xe2\x82\xac\xf0\x9f\xa6\x99", 11), 11);
	assert_int_equal(utf8_valid_prefix("a\xc3\xa9\0\xe2\x82\xac\xf0\x9f\xa6\x99", 10), 7);
	assert_int_equal(utf8_valid_prefix("ab\xff" "cd", 5), 2);
}

/* The proper beginnings of valid characters, as bits: of one byte in the lowest 2^8, of two in the next 2^16, of three
 * in the last 2^24. */
enum { TWO = 1 << 8, THREE = TWO + (1 << 16), ALL = THREE + (1 << 24) };

static void mark(uint8_t *set, size_t i)
{
	set[i / 8] |= (uint8_t)(1u << i % 8);
}

static bool marked(const uint8_t *set, size_t i)
{
	return set[i / 8] >> i % 8 & 1;
}

static void utf8_tails(void **state)
{
	uint8_t *begins = calloc(ALL / 8, 1);
	const size_t step = effort_is("short") ? 7 : 1; /* beyond two bytes */
	(void)state;

	assert_non_null(begins);
	for (uint32_t cp = 0x80; cp <= 0x10ffff; cp++) {
		uint8_t s[4] = {0};
		size_t n = utf8_encode(cp, (char *)s);
		if (n > 1)
			mark(begins, s[0]);
		if (n > 2)
			mark(begins, TWO + ((size_t)s[0] << 8 | s[1]));
		if (n > 3)
			mark(begins, THREE + ((size_t)s[0] << 16 | (size_t)s[1] << 8 | s[2]));
	}
	for (size_t v = 0; v < 1 << 24; v += v < 1 << 16 ? 1 : step) {
		const char s[4] = {'a', (char)(v >> 16), (char)(v >> 8), (char)v};
		size_t want = marked(begins, v & 0xff);
		if (marked(begins, TWO + (v & 0xffff)))
			want = 2;
		if (marked(begins, THREE + v))
			want = 3;
		if (utf8_unfinished_tail(s, 4) != want || utf8_unfinished_tail(s + 1, 3) != want)
			fail_msg("%06zx", v);
		if (v < 1 << 16 && utf8_unfinished_tail(s + 2, 2) != want)
			fail_msg("%04zx", v);
	}
	for (size_t v = 0; v < 256; v++)
		assert_int_equal(utf8_unfinished_tail((char[]){(char)v}, 1), marked(begins, v));
	assert_int_equal(utf8_unfinished_tail("", 0), 0);
	free(begins);
}

/* ---- Maps ---- */

static void map_many(void **state)
{
	enum { N = 100000, LEN = 24 };
	char (*keys)[LEN] = calloc(N, LEN);
	struct strmap m;
	bool was;
	(void)state;

	assert_non_null(keys);
	assert_true(strmap_init(&m, 0));
	for (int32_t i = 0; i < N; i++) {
		/* Of all lengths, many with a common beginning or end. */
		snprintf(keys[i], LEN, i % 3 == 0 ? "%d" : i % 3 == 1 ? "blk.%d.weight" : "%d.a-common-end", i);
		assert_true(strmap_add(&m, keys[i], strlen(keys[i]), i, &was));
		assert_false(was);
	}
	assert_int_equal(m.n_used, N);
	for (int32_t i = 0; i < N; i++) {
		char copy[LEN];
		memcpy(copy, keys[i], LEN);
		if (strmap_find(&m, copy, strlen(copy), -7) != i)
			fail_msg("%s", copy);
		/* Neither a part of a key nor more than one is found. */
		copy[strlen(copy)] = '!';
		assert_int_equal(strmap_find(&m, copy, strlen(keys[i]) + 1, -7), -7);
		assert_true(strmap_add(&m, keys[i], strlen(keys[i]), -1, &was));
		assert_true(was);
	}
	assert_int_equal(m.n_used, N);
	assert_int_equal(strmap_find(&m, keys[N - 1], strlen(keys[N - 1]), -7), N - 1);
	strmap_release(&m);
	free(keys);
}

static void map_edges(void **state)
{
	struct strmap m = {0};
	bool was = true;
	(void)state;

	assert_int_equal(strmap_find(&m, "a", 1, 5), 5); /* a zeroed map is empty, and stays so */
	assert_false(strmap_add(&m, "a", 1, 1, &was));
	strmap_release(&m);
	strmap_release(NULL);
	assert_true(strmap_init(&m, 3));
	assert_int_equal(strmap_find(&m, "", 0, -1), -1);
	assert_true(strmap_add(&m, "", 0, 9, &was));
	assert_false(was);
	assert_int_equal(strmap_find(&m, "", 0, -1), 9);
	assert_int_equal(strmap_find(&m, "x", 0, -1), 9);
	assert_int_equal(strmap_find(&m, NULL, 0, -1), 9);
	assert_true(strmap_add(&m, "\0", 1, 10, NULL));
	assert_true(strmap_add(&m, "\0\0", 2, 11, NULL));
	assert_true(strmap_add(&m, "a\0b", 3, INT32_MIN, NULL));
	assert_int_equal(strmap_find(&m, "\0", 1, -1), 10);
	assert_int_equal(strmap_find(&m, "\0\0", 2, -1), 11);
	assert_int_equal(strmap_find(&m, "a\0b", 3, -1), INT32_MIN);
	assert_int_equal(strmap_find(&m, "a\0c", 3, -1), -1);
	assert_int_equal(strmap_find(&m, "a", (size_t)UINT32_MAX + 1, -1), -1);
	assert_false(strmap_add(&m, "a", (size_t)UINT32_MAX + 1, 1, &was));
	assert_int_equal(m.n_used, 4);
	strmap_release(&m);
	assert_false(strmap_init(&m, SIZE_MAX));
	strmap_release(&m);
}

static void map_failing(void **state)
{
	static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
	struct strmap m;
	size_t n_refused = 0;
	(void)state;

	mem_fail_after(0);
	assert_false(strmap_init(&m, 10));
	strmap_release(&m);
	mem_fail_after(-1);
	assert_true(strmap_init(&m, 0));
	for (int32_t i = 0; i < 52; i++) {
		mem_fail_all(true);
		bool ok = strmap_add(&m, letters + i, 1, i, NULL);
		mem_fail_all(false);
		if (!ok) {
			n_refused++;
			assert_int_equal(strmap_find(&m, letters + i, 1, -1), -1);
			assert_true(strmap_add(&m, letters + i, 1, i, NULL));
		}
		for (int32_t k = 0; k <= i; k++)
			assert_int_equal(strmap_find(&m, letters + k, 1, -1), k);
	}
	assert_true(n_refused >= 2);
	strmap_release(&m);
	/* Room that was asked for is there. */
	assert_true(strmap_init(&m, 52));
	mem_fail_all(true);
	for (int32_t i = 0; i < 52; i++)
		assert_true(strmap_add(&m, letters + i, 1, i, NULL));
	mem_fail_all(false);
	strmap_release(&m);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(utf8_round_trip),
		cmocka_unit_test(utf8_any_bytes),
		cmocka_unit_test(utf8_named_cases),
		cmocka_unit_test(utf8_tails),
		cmocka_unit_test(map_many),
		cmocka_unit_test(map_edges),
		cmocka_unit_test(map_failing),
	};

	return cmocka_run_group_tests_name("base_text", tests, NULL, NULL);
}
