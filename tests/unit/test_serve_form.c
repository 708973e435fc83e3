/* Forms with files: any pieces give the same fields, every cut is noticed, nonsense is refused, and the hash that
 * tells owners apart is the standard's.
 *
 * Shown red by planted faults: a match that is not given out when it breaks off (form_in_any_pieces), an end that is
 * believed without the last boundary (form_that_is_cut_is_refused), parts within parts that are taken
 * (malformed_forms_are_refused). */
#include "../../prog/serve_form.h"
#include "../../prog/sha256.h"

#include "base/rng.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static const char type[] = "multipart/form-data; boundary=xyz";

/* What a form says, as a text: "name(filename)=bytes;" for each part. */
struct seen {
	char text[4096];
	size_t n, n_calls_left; /* that are allowed */
};

static bool say(struct seen *s, const char *bytes, size_t n)
{
	if (s->n_calls_left == 0)
		return false;
	s->n_calls_left--;
	assert_true(s->n + n < sizeof s->text);
	memcpy(s->text + s->n, bytes, n);
	s->n += n;
	s->text[s->n] = 0;
	return true;
}

static bool on_part(void *user, const char *name, const char *filename)
{
	char head[512];
	const int n = snprintf(head, sizeof head, ";%s(%s)=", name, filename ? filename : "-");
	return say(user, head, (size_t)n);
}

static bool on_data(void *user, const char *bytes, size_t n)
{
	return say(user, bytes, n);
}

static bool read_form(
		struct form *f, struct seen *s, const char *content_type, const char *bytes, size_t n, size_t piece)
{
	*s = (struct seen){.n_calls_left = SIZE_MAX};
	*f = (struct form){.on_part = on_part, .on_data = on_data, .user = s};
	if (!form_init(f, content_type))
		return false;
	for (size_t at = 0; at < n; at += piece)
		if (!form_push(f, bytes + at, n - at < piece ? n - at : piece))
			return false;
	return form_end(f);
}

#define PART(name, more, data) "--xyz\r\nContent-Disposition: form-data; name=" name more "\r\n\r\n" data "\r\n"

static const char whole[] = "ignored\r\n--xy\r\n" PART("\"purpose\"", "", "batch")
		PART("file", "; filename=\"a \\\"b\\\".c\"\r\nX: y", "\r\n--xy\r\r\n--\r\n\r\n--xy-\r")
				PART("\"\"", "; filename=\"\"", "") "--xyz--\r\nignored --xyz";
static const char said[] = ";purpose(-)=batch;file(a \"b\".c)=\r\n--xy\r\r\n--\r\n\r\n--xy-\r;()=";

static void form_in_any_pieces(void **state)
{
	struct form f;
	struct seen s;

	(void)state;
	for (size_t piece = 1; piece <= sizeof whole; piece++) {
		assert_true(read_form(&f, &s, type, whole, sizeof whole - 1, piece));
		assert_string_equal(s.text, said);
	}
}

static void form_that_is_cut_is_refused(void **state)
{
	struct form f;
	struct seen s;
	const char *end = strstr(whole, "--xyz--");

	(void)state;
	for (size_t n = 0; n < (size_t)(end - whole) + 7; n++) {
		assert_false(read_form(&f, &s, type, whole, n, 7));
		assert_true(f.why[0]);
		assert_false(form_end(&f));
	}
}

static void malformed_forms_are_refused(void **state)
{
	static const char *const forms[] = {
			PART("file", "\r\nContent-Type: multipart/mixed; boundary=q", "x") "--xyz--",
			PART("file", "\r\nContent-Transfer-Encoding: base64", "x") "--xyz--",
			PART("\"file", "", "x") "--xyz--",
			PART("a b", "", "x") "--xyz--",
			PART("a", "\r\nContent-Disposition: form-data; name=b", "x") "--xyz--",
			"--xyz\r\n\r\nx\r\n--xyz--",
			"--xyz\r\nContent-Type: text/plain\r\n\r\nx\r\n--xyz--",
			"--xyz\r\nContent-Disposition: form-data\r\n\r\nx\r\n--xyz--",
			"--xyz\r\nContent-Disposition: form-dataname=a\r\n\r\nx\r\n--xyz--",
			"--xyzz\r\nContent-Disposition: form-data; name=a\r\n\r\nx\r\n--xyz--",
			"--xyz-\r\n",
			"--xyz\rx",
			"--xyz\n",
	};
	static const char *const types[] = {"", "multipart/form-data", "multipart/form-data;boundary",
			"multipart/form-data boundary=xyz",
			"multipart/form-data; boundary=", "multipart/form-data; boundary=\"xyz",
			"multipart/form-data; boundary=\"a\x01\"", "multipart/mixed; boundary=xyz",
			"multipart/form-data; boundary=\"xyz \"",
			("multipart/form-data; boundary="
			 "12345678901234567890123456789012345678901234567890123456789012345678901")};
	struct form f;
	struct seen s;

	(void)state;
	for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
		assert_false(read_form(&f, &s, type, forms[i], strlen(forms[i]), 3));
		assert_true(f.why[0]);
		assert_false(form_push(&f, "x", 1));
	}
	for (size_t i = 0; i < sizeof types / sizeof *types; i++)
		assert_false(read_form(&f, &s, types[i], whole, sizeof whole - 1, 100));
	assert_false(read_form(&f, &s, NULL, whole, sizeof whole - 1, 100));
	assert_true(read_form(
			&f, &s, "MULTIPART/form-data; a=\"b;c\"; Boundary = \"xyz\"", whole, sizeof whole - 1, 100));
}

/* A reader that refuses, at any of its calls, ends it. */
static void reader_that_refuses_ends_the_form(void **state)
{
	struct form f;
	struct seen s;

	(void)state;
	for (size_t n = 0;; n++) {
		s = (struct seen){.n_calls_left = n};
		f = (struct form){.on_part = on_part, .on_data = on_data, .user = &s};
		assert_true(form_init(&f, type));
		const bool ok = form_push(&f, whole, sizeof whole - 1);
		if (ok && form_end(&f))
			break;
		assert_false(ok);
		assert_string_equal(f.why, "");
		assert_false(form_end(&f));
		assert_true(n < 100);
	}
}

/* Bytes of the form's own alphabet in any order: nothing but fields or a reason comes of them, the same in any pieces.
 */
static void random_forms_give_fields_or_a_reason(void **state)
{
	static const char *const words[] = {"\r", "\n", "\r\n", "--", "xyz", "--xyz", "\r\n--xyz", "\r\n--xyz--",
			"\r\nContent-Disposition: form-data; name=a", "\"", ";", "=", ": ", "\r\n\r\n",
			"filename=\"x\"", "q"};
	struct rng rng;
	struct form f;
	struct seen a, b;
	size_t n_good = 0;

	(void)state;
	rng_init(&rng, 5, 0);
	for (int round = 0; round < 20000; round++) {
		char bytes[1024] = "--xyz\r\nContent-Disposition: form-data; name=a\r\n\r\n";
		size_t n = rng_u32(&rng) % 2 ? strlen(bytes) : 0;
		for (int i = 0; i < 16; i++) {
			const char *w = words[rng_u32(&rng) % (sizeof words / sizeof *words)];
			memcpy(bytes + n, w, strlen(w));
			n += strlen(w);
		}
		const bool one = read_form(&f, &a, type, bytes, n, n), two = read_form(&f, &b, type, bytes, n, 1);
		assert_int_equal(one, two);
		assert_string_equal(a.text, b.text);
		n_good += one;
	}
	assert_true(n_good > 50);
}

static void sha256_of_known_texts(void **state)
{
	/* From FIPS 180-4's examples; the last two cross the length of a block. */
	static const struct {
		const char *text, *hash;
	} cases[] = {
			{"", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
			{"abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"},
			{"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
					"248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"},
			{"abcdefghbcdefghicdefghijdefghijkefghijklfghijklmghijklmnhijklmno"
			 "ijklmnopjklmnopqklmnopqrlmnopqrsmnopqrst"
			 "nopqrstu",
					"cf5b16a778af8380036ce59e7b0492370b249b11e8f07a51afac45037afee9d1"},
	};
	char hash[SHA256_HEX];

	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		sha256_hex(cases[i].text, strlen(cases[i].text), hash);
		assert_string_equal(hash, cases[i].hash);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
			cmocka_unit_test(form_in_any_pieces),
			cmocka_unit_test(form_that_is_cut_is_refused),
			cmocka_unit_test(malformed_forms_are_refused),
			cmocka_unit_test(reader_that_refuses_ends_the_form),
			cmocka_unit_test(random_forms_give_fields_or_a_reason),
			cmocka_unit_test(sha256_of_known_texts),
	};
	return cmocka_run_group_tests_name("serve_form", tests, NULL, NULL);
}
