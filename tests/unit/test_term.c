/* Texts on a terminal: cells of characters, what stands for those that steer, lines of a width.
 *
 * Seen red: lines that may be one cell wider (lines_stay_within), a last line laid out again as if it had begun a cell
 * further right (growing_is_the_same), C1 and changes of direction passed on (cells_of_characters, nothing_steers), no
 * bound on the bytes of a line (endless_marks). */
#include "../../prog/term.h"
#include "../../prog/width.h"
#include "../../prog/wrap.h"

#include "base/mem.h"
#include "base/rng.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static void cells_of_characters(void **state)
{
	static const struct {
		const char *text;
		size_t cells;
	} cases[] = {
			{"", 0}, {"abc", 3}, {"caf\xc3\xa9", 4}, {"cafe\xcc\x81", 4}, /* a combining mark */
			{"\xe6\xbc\xa2\xe5\xad\x97", 4}, /* two CJK characters */
			{"\xef\xbd\x86", 2}, /* a full-width letter */
			{"\xf0\x9f\x91\x8d", 2}, /* an emoji */
			{"a\xe2\x80\x8b"
			 "b",
					2}, /* a zero-width space */
			{"a\xe2\x80\x8d"
			 "b",
					2}, /* a joiner */
			{"\x1b[0m", 5}, /* ^[[0m */
			{"\x7f", 2}, {"\xc2\x9b", 8}, /* <U+009B> */
			{"\xe2\x80\xae", 8}, /* a change of direction */
			{"\xff\xfe", 2}, /* no UTF-8 */
			{"\xe6\xbc", 2}, /* a character that was cut */
			{"\xf3\xb0\x80\x80", 1}, /* for private use */
	};
	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
		assert_int_equal(text_cells(cases[i].text, strlen(cases[i].text)), cases[i].cells);
}

static void texts_cut_to_a_width(void **state)
{
	const char *s = "a\xe6\xbc\xa2"
			"e\xcc\x81z"; /* 1, 2, 1 with a mark, 1 */
	const size_t n = strlen(s), ends[] = {0, 1, 1, 4, 7, 8, 8};
	const size_t starts[] = {8, 7, 4, 4, 1, 0, 0};
	size_t taken;
	(void)state;
	for (size_t w = 0; w <= 6; w++) {
		assert_int_equal(text_fit(s, n, w, &taken), ends[w]);
		assert_true(taken <= w);
		assert_int_equal(text_fit_end(s, n, w), starts[w]);
	}
}

/* Bytes that mean something, and all others. */
static size_t random_text(struct rng *r, char *out, size_t n_max)
{
	static const char *const parts[] = {"a", " ", "word ", "\n", "\t", "\xe6\xbc\xa2", "e\xcc\x81", "\xcc\x81",
			"\x1b[2J", "\xc2\x85", "\xe2\x80\xae", "\xf0\x9f\x91\x8d", "\xe2\x80\x8d", "\r",
			"longerthanalinecanbe"};
	size_t n = 0;

	while (n + 32 < n_max) {
		const uint32_t k = rng_u32(r) % 20;
		if (k < sizeof parts / sizeof *parts) {
			memcpy(out + n, parts[k], strlen(parts[k]));
			n += strlen(parts[k]);
		} else {
			out[n++] = (char)rng_u32(r);
		}
	}
	return n;
}

/* No control character, no change of direction, and valid UTF-8. */
static bool harmless(const char *s, size_t n, bool lines)
{
	struct glyph g;

	for (size_t at = 0; at < n;) {
		const size_t len = glyph_next(s + at, n - at, &g);
		const bool kept = lines && (g.cp == '\n' || g.cp == '\t');
		if (!kept && (g.n_bytes != len || memcmp(g.bytes, s + at, len) != 0))
			return false;
		at += len;
	}
	return true;
}

static void nothing_steers(void **state)
{
	struct rng r;
	char text[400];
	(void)state;
	rng_init(&r, 1, 0);
	for (int i = 0; i < 2000; i++) {
		const size_t n = random_text(&r, text, 16 + (size_t)(rng_u32(&r) % 380));
		size_t n_safe = 0;
		char *safe = term_safe(text, n, &n_safe);
		assert_non_null(safe);
		assert_true(harmless(safe, n_safe, true));
		for (size_t k = 0; k < n_safe; k++)
			assert_true((unsigned char)safe[k] >= 32 || safe[k] == '\n' || safe[k] == '\t');
		assert_null(memchr(safe, 127, n_safe));
		for (size_t k = 0; k + 2 < n_safe; k++) {
			const unsigned char *b = (const unsigned char *)safe + k;
			assert_false(b[0] == 0xc2 && b[1] < 0xa0);
			assert_false(b[0] == 0xe2 && b[1] == 0x80 && b[2] >= 0xaa && b[2] <= 0xae);
		}
		mem_free(safe);
	}
}

/* All lines as bytes, each behind its number of cells. */
static void all_lines(const struct wrap *w, const struct wrap_text *t, struct wrap_out *o)
{
	for (size_t i = 0; i < w->n_lines; i++) {
		const size_t from = o->n_bytes, n = wrap_line(w, t, i, false, o);
		assert_true(n <= w->width);
		assert_int_equal(text_cells(o->bytes + from, o->n_bytes - from), n);
		assert_true(harmless(o->bytes + from, o->n_bytes - from, false));
		wrap_puts(o, "|");
	}
}

/* Cells of what can be seen, by its glyphs. */
static size_t ink(const char *s, size_t n, size_t width)
{
	struct glyph g;
	size_t sum = 0;

	for (size_t at = 0; at < n;) {
		at += glyph_next(s + at, n - at, &g);
		if (g.cp != ' ' && g.cp != '\n' && g.cp != '\t')
			sum += g.cells > width ? 1 : g.cells;
	}
	return sum;
}

static void lines_stay_within(void **state)
{
	struct rng r;
	char text[400];
	struct wrap w = {.width = 1};
	struct wrap_out o = {.bytes = NULL};
	(void)state;
	rng_init(&r, 2, 0);
	for (int i = 0; i < 2000; i++) {
		const size_t n = random_text(&r, text, 16 + (size_t)(rng_u32(&r) % 380));
		const size_t n_head = (size_t)(rng_u32(&r) % (n + 1)), width = 1 + (size_t)(rng_u32(&r) % 30);
		const struct wrap_text t = {text, text + n_head, n_head, n - n_head};
		bool cut;
		assert_true(wrap_reset(&w, width));
		assert_true(wrap_more(&w, &t));
		o.n_bytes = 0;
		all_lines(&w, &t, &o);
		assert_int_equal(ink(o.bytes, o.n_bytes, width),
				ink(text, n_head, width) + ink(text + n_head, n - n_head, width) + w.n_lines);
		o.n_bytes = 0;
		const size_t tail = wrap_tail(width, &t, false, &o, &cut);
		assert_true(tail <= width);
		assert_int_equal(text_cells(o.bytes, o.n_bytes), tail);
	}
	wrap_release(&w);
	mem_free(o.bytes);
}

static void growing_is_the_same(void **state)
{
	struct rng r;
	char text[400];
	struct wrap whole = {.width = 1}, grown = {.width = 1};
	struct wrap_out a = {.bytes = NULL}, b = {.bytes = NULL};
	(void)state;
	rng_init(&r, 3, 0);
	for (int i = 0; i < 500; i++) {
		const size_t n = random_text(&r, text, 400), width = 1 + (size_t)(rng_u32(&r) % 30);
		struct wrap_text t = {text, text, 0, n};
		assert_true(wrap_reset(&whole, width) && wrap_more(&whole, &t));
		assert_true(wrap_reset(&grown, width));
		/* By whole characters, as texts grow. */
		struct glyph g;
		for (t.n_tail = 0; t.n_tail < n;) {
			for (uint32_t k = 1 + rng_u32(&r) % 9; k > 0 && t.n_tail < n; k--)
				t.n_tail += glyph_next(text + t.n_tail, n - t.n_tail, &g);
			assert_true(wrap_more(&grown, &t));
		}
		a.n_bytes = b.n_bytes = 0;
		all_lines(&whole, &t, &a);
		all_lines(&grown, &t, &b);
		assert_int_equal(a.n_bytes, b.n_bytes);
		assert_memory_equal(a.bytes, b.bytes, a.n_bytes);
	}
	wrap_release(&whole);
	wrap_release(&grown);
	mem_free(a.bytes);
	mem_free(b.bytes);
}

static void as_one_reads_it(void **state)
{
	static const struct {
		size_t width;
		const char *text, *lines;
	} cases[] = {
			{10, "the cat is on the mat", "the cat is|on the mat|"},
			{7, "the cat is on the mat", "the cat|is on|the mat|"},
			{3, "banana", "ban|ana|"},
			{6, "a\n\nb", "a||b|"},
			{5, "\xe6\xbc\xa2\xe5\xad\x97\xe6\xbc\xa2", "\xe6\xbc\xa2\xe5\xad\x97|\xe6\xbc\xa2|"},
			{1, "a\xe6\xbc\xa2", "a|?|"},
			{12, "a\tb", "a       b|"},
			{2,
					"e\xcc\x81"
					"e\xcc\x81"
					"e\xcc\x81",
					"e\xcc\x81"
					"e\xcc\x81|e\xcc\x81|"},
	};
	struct wrap w = {.width = 1};
	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		const struct wrap_text t = {cases[i].text, "", strlen(cases[i].text), 0};
		struct wrap_out o = {.bytes = NULL}, trimmed = {.bytes = NULL};
		assert_true(wrap_reset(&w, cases[i].width) && wrap_more(&w, &t));
		all_lines(&w, &t, &o);
		/* Spaces before the end of a line cannot be seen. */
		for (size_t k = 0; k < o.n_bytes; k++) {
			size_t next = k;
			while (next < o.n_bytes && o.bytes[next] == ' ')
				next++;
			if (next == k || o.bytes[next] != '|')
				wrap_put(&trimmed, o.bytes + k, 1);
		}
		assert_int_equal(trimmed.n_bytes, strlen(cases[i].lines));
		assert_memory_equal(trimmed.bytes, cases[i].lines, trimmed.n_bytes);
		mem_free(o.bytes);
		mem_free(trimmed.bytes);
	}
	wrap_release(&w);
}

/* Marks without end take neither cells nor time without end. */
static void endless_marks(void **state)
{
	static char text[60000];
	struct wrap w = {.width = 1};
	struct wrap_out o = {.bytes = NULL};
	bool cut;
	(void)state;
	for (size_t i = 0; i < sizeof text; i += 2)
		memcpy(text + i, "\xcc\x81", 2);
	const struct wrap_text t = {text, text, 0, sizeof text};
	assert_true(wrap_reset(&w, 20) && wrap_more(&w, &t));
	assert_true(w.n_lines > 10);
	assert_int_equal(wrap_line(&w, &t, 0, false, &o), 0);
	assert_true(o.n_bytes < 64);
	assert_int_equal(wrap_tail(20, &t, false, &o, &cut), 0);
	wrap_release(&w);
	mem_free(o.bytes);
}

static void out_of_room(void **state)
{
	struct wrap w = {.width = 1};
	struct wrap_out o = {.bytes = NULL};
	(void)state;
	mem_fail_all(true);
	char *safe = term_safe("abc", 3, NULL);
	const bool reset = wrap_reset(&w, 3);
	wrap_puts(&o, "abc");
	mem_fail_all(false);
	assert_null(safe);
	assert_false(reset);
	assert_true(o.failed);
	wrap_release(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
			cmocka_unit_test(cells_of_characters),
			cmocka_unit_test(texts_cut_to_a_width),
			cmocka_unit_test(nothing_steers),
			cmocka_unit_test(lines_stay_within),
			cmocka_unit_test(growing_is_the_same),
			cmocka_unit_test(as_one_reads_it),
			cmocka_unit_test(endless_marks),
			cmocka_unit_test(out_of_room),
	};
	return cmocka_run_group_tests_name("term", tests, NULL, NULL);
}
