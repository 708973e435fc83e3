/* Texts in columns of a terminal.
 *
 * What holds:
 *  1. Whatever the text, what comes out is printable characters and this file's own colours: no byte of a text can be
 *     an escape sequence, in C0 or C1, or turn the order of what stands beside it.
 *  2. A line is never wider than asked for, in cells as utf8proc counts them; what belongs together as one grapheme is
 *     not torn apart. Lines end at spaces, beside wide characters, and within a word only if it fills a line alone.
 *  3. Every character of the text but spaces at the ends of lines comes out once, in order. */
#include "columns.h"

#include "base/utf8.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>
#include <utf8proc.h>

static const char mark_text[] = "\u00bb", mark_on[] = "\033[1;33m", mark_off[] = "\033[0m";

/* ---- Characters ---- */

static void show(struct glyph *g, uint32_t cp, int width)
{
	g->n_bytes = utf8_encode(cp, g->bytes);
	g->width = width;
}

/* Characters that are not seen themselves, or whose width nobody knows. Joiners are part of what they join. */
static bool is_hidden(uint32_t cp)
{
	switch (utf8proc_category((utf8proc_int32_t)cp)) {
	case UTF8PROC_CATEGORY_CC:
	case UTF8PROC_CATEGORY_CN:
	case UTF8PROC_CATEGORY_CS:
	case UTF8PROC_CATEGORY_ZL:
	case UTF8PROC_CATEGORY_ZP: return true;
	case UTF8PROC_CATEGORY_CF: return cp != 0x200c && cp != 0x200d;
	default: return false;
	}
}

size_t glyph_next(const char *s, size_t n, struct glyph *g)
{
	uint32_t cp = 0;
	const size_t len = utf8_decode(s, n, &cp);

	*g = (struct glyph){.cp = len ? cp : 0xfffd};
	if (!len) {
		show(g, 0xfffd, 1);
	} else if (cp == '\n' || (cp == '\r' && n > 1 && s[1] == '\n')) {
		g->line_end = true;
		return cp == '\r' ? 2 : 1;
	} else if (cp == ' ' || cp == '\t') {
		g->width = cp == ' ' ? 1 : 4;
		g->n_bytes = (size_t)g->width;
		memset(g->bytes, ' ', g->n_bytes);
		g->space = true;
	} else if (cp < 32 || cp == 127) {
		show(g, cp == 127 ? 0x2421 : 0x2400 + cp, 1);
	} else if (is_hidden(cp)) {
		g->width = snprintf(g->bytes, sizeof g->bytes, "<U+%04X>", (unsigned)cp);
		g->n_bytes = (size_t)g->width;
	} else {
		memcpy(g->bytes, s, len);
		g->n_bytes = len;
		g->width = utf8proc_charwidth((utf8proc_int32_t)cp);
		g->plain = true;
	}
	return len ? len : 1;
}

/* ---- Lines ---- */

/* Where the line that begins at c->at ends, and where the next one begins. */
static size_t line_end(const struct column *c, int width, size_t *next)
{
	struct glyph g, before = {.width = 0};
	utf8proc_int32_t state = 0;
	size_t at = c->at, space = SIZE_MAX,
	       unit = SIZE_MAX; /* the last places to break: at a space; between graphemes */
	int n_cells = 0, unit_cells = 0;

	while (at < c->n) {
		const size_t len = glyph_next(c->text + at, c->n - at, &g);
		if (g.line_end) {
			*next = at + len;
			return at;
		}
		const bool starts = at == c->at || !g.plain || !before.plain ||
				utf8proc_grapheme_break_stateful(
						(utf8proc_int32_t)before.cp, (utf8proc_int32_t)g.cp, &state);
		if (starts && at > c->at) {
			unit = at;
			unit_cells = n_cells;
			if (!before.space && (g.space || g.width == 2 || before.width == 2))
				space = at;
		}
		n_cells += g.width + (c->mark_end > 0 && at == c->mark);
		if (n_cells > width && at > c->at) {
			if (g.space)
				break;
			const size_t end = space != SIZE_MAX ? space : unit_cells > 0 ? unit : at;
			*next = end;
			return end;
		}
		before = g;
		at += len;
	}
	*next = at;
	return at;
}

static size_t skip_spaces(const char *s, size_t n)
{
	size_t i = 0;

	while (i < n && (s[i] == ' ' || s[i] == '\t'))
		i++;
	return i;
}

bool column_line(struct column *c, int width, bool colours, struct sink *out, int *n_cells)
{
	struct glyph g;
	size_t next, pending = 0; /* cells of spaces, written once something follows */

	*n_cells = 0;
	if (c->begun)
		c->at += skip_spaces(c->text + c->at, c->n - c->at);
	if (c->at >= c->n)
		return false;
	const size_t end = line_end(c, width, &next);
	bool on = colours && c->mark_end > 0 && c->at > c->mark && c->at < c->mark_end;
	if (on)
		sink_text(out, mark_on);
	while (c->at < end) {
		const size_t len = glyph_next(c->text + c->at, c->n - c->at, &g);
		if (g.space) {
			pending += (size_t)g.width;
		} else {
			sink_repeat(out, " ", pending);
			*n_cells += (int)pending;
			pending = 0;
			if (c->mark_end > 0 && c->at == c->mark) {
				sink_text(out, colours ? mark_on : "");
				sink_text(out, mark_text);
				*n_cells += 1;
				on = colours;
			}
			sink_put(out, g.bytes, g.n_bytes);
			*n_cells += g.width;
		}
		c->at += len;
		if (on && c->at >= c->mark_end) {
			sink_text(out, mark_off);
			on = false;
		}
	}
	if (on)
		sink_text(out, mark_off);
	/* A line that ended by itself is followed by one that may begin with spaces. */
	c->begun = next == end;
	c->at = next;
	return true;
}

/* ---- The terminal ---- */

int columns_terminal(void)
{
	const char *env = getenv("COLUMNS");
	struct winsize size;
	char *end;
	long n = 0;

	if (!isatty(STDOUT_FILENO))
		return 80;
	if (env && *env >= '1' && *env <= '9') {
		n = strtol(env, &end, 10);
		n = *end ? 0 : n;
	}
	if (n <= 0 && ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0)
		n = size.ws_col;
	if (n <= 0)
		return 80;
	return n < COLUMNS_WIDTH_MIN ? COLUMNS_WIDTH_MIN : n > COLUMNS_WIDTH_MAX ? COLUMNS_WIDTH_MAX : (int)n;
}

bool columns_colours(void)
{
	const char *no = getenv("NO_COLOR"), *term = getenv("TERM");

	return isatty(STDOUT_FILENO) && !(no && *no) && !(term && strcmp(term, "dumb") == 0);
}
