/* Widths of characters, by utf8proc's tables.
 *
 * 1. A glyph's bytes hold no control character and no character that turns the direction of writing: whatever a text
 *    holds, showing its glyphs cannot move the cursor anywhere but to the right.
 * 2. Every step takes at least one byte.
 *
 * Characters are measured one by one, as most terminals do it: an emoji made of several counts as all of them. A
 * terminal that joins them shows a shorter line, never a longer one. */
#include "width.h"

#include "base/utf8.h"

#include <stdio.h>
#include <string.h>
#include <utf8proc.h>

static const char replacement[] = "\xef\xbf\xbd"; /* U+FFFD */

bool char_steers(uint32_t cp)
{
	return cp == 0x61c || cp == 0x200e || cp == 0x200f || (cp >= 0x202a && cp <= 0x202e) ||
			(cp >= 0x2066 && cp <= 0x206f) || (cp >= 0xfff9 && cp <= 0xfffb) ||
			(cp >= 0xe0000 && cp < 0xe0080);
}

static void show(struct glyph *g, const char *bytes, size_t n, size_t cells)
{
	memcpy(g->bytes, bytes, n);
	g->n_bytes = n;
	g->cells = cells;
}

size_t glyph_next(const char *s, size_t n, struct glyph *out)
{
	const size_t len = utf8_decode(s, n, &out->cp);

	if (len == 0) {
		out->cp = 0xfffd;
		show(out, replacement, sizeof replacement - 1, 1);
		return 1;
	}
	if (out->cp < 32 || out->cp == 127) {
		const char caret[2] = {'^', (char)(out->cp ^ 64)};
		show(out, caret, 2, 2);
		return len;
	}
	const utf8proc_category_t category = utf8proc_category((utf8proc_int32_t)out->cp);
	if (category == UTF8PROC_CATEGORY_CC || category == UTF8PROC_CATEGORY_ZL || category == UTF8PROC_CATEGORY_ZP ||
			char_steers(out->cp)) {
		const int k = snprintf(out->bytes, sizeof out->bytes, "<U+%04X>", (unsigned)out->cp);
		out->n_bytes = out->cells = (size_t)k;
		return len;
	}
	/* Nobody can tell how wide a terminal makes what the tables do not know. */
	if (category == UTF8PROC_CATEGORY_CN) {
		show(out, replacement, sizeof replacement - 1, 1);
		return len;
	}
	const int width = utf8proc_charwidth((utf8proc_int32_t)out->cp);
	show(out, s, len, width > 0 ? (size_t)width : 0);
	/* A soft hyphen takes a cell wherever it stands; the tables are of two minds about it. */
	if (out->cp == 0xad)
		out->cells = 1;
	return len;
}

size_t text_cells(const char *s, size_t n)
{
	struct glyph g;
	size_t cells = 0;

	for (size_t at = 0; at < n;) {
		at += glyph_next(s + at, n - at, &g);
		cells += g.cells;
	}
	return cells;
}

size_t text_fit(const char *s, size_t n, size_t cells_max, size_t *cells)
{
	struct glyph g;
	size_t at = 0, sum = 0;

	while (at < n) {
		const size_t len = glyph_next(s + at, n - at, &g);
		if (sum + g.cells > cells_max)
			break;
		sum += g.cells;
		at += len;
	}
	if (cells)
		*cells = sum;
	return at;
}

size_t text_fit_end(const char *s, size_t n, size_t cells_max)
{
	struct glyph g;
	size_t at = 0, rest = text_cells(s, n);

	/* Marks that join what was cut off go with it. */
	bool cut = false;
	while (at < n) {
		const size_t len = glyph_next(s + at, n - at, &g);
		if (rest <= cells_max && !(cut && g.cells == 0))
			break;
		rest -= g.cells;
		at += len;
		cut = true;
	}
	return at;
}
