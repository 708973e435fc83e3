/* The tokeniser: streaming decode. */
#include "tok_case.h"

static void push_is(const struct tok *t, struct cohort_detok *d, cohort_token id, const char *want, size_t n_want)
{
	char out[64];
	size_t n;

	assert_int_equal(tok_detok_push(t, d, id, out, sizeof out, &n, NULL), COHORT_OK);
	assert_int_equal(n, n_want);
	assert_memory_equal(out, want, n);
}

static void detok_held(void **state)
{
	struct vocab v;
	struct cohort_detok d = {.at_start = true};
	struct cohort_err err = {0};
	char out[8], tail[4];
	size_t n;
	(void)state;

	spm_open(&v);
	cohort_token byte0 = 3, hi = id_of(&v, M "hi");
	push_is(v.t, &d, 1, "", 0);
	assert_true(d.at_start);
	push_is(v.t, &d, hi, "hi", 2);
	push_is(v.t, &d, hi, " hi", 3);
	/* U+1F999 in four tokens. */
	push_is(v.t, &d, byte0 + 0xf0, "", 0);
	push_is(v.t, &d, byte0 + 0x9f, "", 0);
	push_is(v.t, &d, 1, "", 0); /* a hidden token changes nothing */
	push_is(v.t, &d, byte0 + 0xa6, "", 0);
	push_is(v.t, &d, byte0 + 0x99, "\xf0\x9f\xa6\x99", 4);
	/* What cannot become a character goes out, with what was held. */
	push_is(v.t, &d, byte0 + 0xff, "\xff", 1);
	push_is(v.t, &d, byte0 + 0x80, "\x80", 1);
	push_is(v.t, &d, byte0 + 0xe2, "", 0);
	push_is(v.t, &d, byte0 + 0xe2, "\xe2", 1);
	push_is(v.t, &d, byte0 + 0x96, "", 0);
	push_is(v.t, &d, hi, "\xe2\x96 hi", 5);
	push_is(v.t, &d, byte0 + 0xed, "", 0);
	push_is(v.t, &d, byte0 + 0xa0, "\xed\xa0", 2); /* a surrogate */
	/* Too little room, a bad token: nothing changes. */
	push_is(v.t, &d, byte0 + 0xc3, "", 0);
	struct cohort_detok before = d;
	assert_int_equal(tok_detok_push(v.t, &d, hi, out, 3, &n, &err), COHORT_E_LIMIT);
	assert_int_equal(n, 4);
	assert_memory_equal(&d, &before, sizeof d);
	assert_int_equal(tok_detok_push(v.t, &d, -1, out, 8, &n, &err), COHORT_E_ARG);
	assert_int_equal(tok_detok_push(v.t, &d, (cohort_token)v.n, out, 8, &n, &err), COHORT_E_ARG);
	assert_memory_equal(&d, &before, sizeof d);
	assert_int_equal(tok_detok_flush(&d, tail), 1);
	assert_memory_equal(tail, "\xc3", 1);
	assert_int_equal(tok_detok_flush(&d, tail), 0);
	done(&v);
}

static void detok_start(void **state)
{
	struct vocab v;
	(void)state;

	spm_open(&v);
	cohort_token hi = id_of(&v, M "hi"), space = id_of(&v, M), two = id_of(&v, M M), x = id_of(&v, "<x>");
	struct cohort_detok d = {.at_start = true, .special = true};
	push_is(v.t, &d, 1, "<s>", 3);
	push_is(v.t, &d, hi, "hi", 2);
	d = (struct cohort_detok){.at_start = false};
	push_is(v.t, &d, hi, " hi", 3);
	d = (struct cohort_detok){.at_start = true};
	push_is(v.t, &d, two, " ", 1);
	push_is(v.t, &d, space, " ", 1);
	d = (struct cohort_detok){.at_start = true};
	push_is(v.t, &d, space, "", 0);
	push_is(v.t, &d, hi, " hi", 3);
	d = (struct cohort_detok){.at_start = true};
	push_is(v.t, &d, x, "<x>", 3);
	push_is(v.t, &d, hi, "hi", 2); /* the encoder puts a space behind a special token, too */
	push_is(v.t, &d, hi, " hi", 3);
	done(&v);

	bpe_open(&v, "gpt-2");
	d = (struct cohort_detok){.at_start = true};
	push_is(v.t, &d, id_of(&v, G "h"), " h", 2);
	done(&v);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(detok_held),
		cmocka_unit_test(detok_start),
	};

	return cmocka_run_group_tests_name("tok_detok", tests, NULL, NULL);
}
