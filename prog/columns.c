/* Texts in columns of a terminal.
 *
 * What holds:
 *  1. Whatever the text, what comes out is printable characters and this file's own colours: no byte of a text can be
 *     an escape sequence, in C0 or C1, or turn the order of what stands beside it.
 *  2. A line is never wider than asked for, in cells as utf8proc counts them; what belongs together as one grapheme is
 *     not torn apart. Lines end at spaces, beside wide characters, and within a word only if it fills a line alone.
 *  3. Every character of the text but spaces at the ends of lines comes out once, in order. */
#include "columns.h"

#include "term.h"
#include "width.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <utf8proc.h>

static const char mark_text[] = "\u00bb", mark_on[] = "\033[1;33m", mark_off[] = "\033[0m";

/* ---- Characters ---- */

size_t letter_next(const char *s, size_t n, struct letter *l)
{
	struct glyph g;

	*l = (struct letter){.cp = (unsigned char)*s};
	if (*s == '\n' || (*s == '\r' && n > 1 && s[1] == '\n')) {
		l->line_end = true;
		return *s == '\r' ? 2 : 1;
	}
	if (*s == ' ' || *s == '\t') {
		l->width = *s == ' ' ? 1 : 4;
		l->n_bytes = (size_t)l->width;
		memset(l->bytes, ' ', l->n_bytes);
		l->space = true;
		return 1;
	}
	const size_t len = glyph_next(s, n, &g);
	memcpy(l->bytes, g.bytes, g.n_bytes);
	l->n_bytes = g.n_bytes;
	l->width = (int)g.cells;
	l->cp = g.cp;
	l->plain = g.n_bytes == len && memcmp(g.bytes, s, len) == 0;
	return len;
}

/* ---- Lines ---- */

/* Where the line that begins at c->at ends, and where the next one begins. */
static size_t line_end(const struct column *c, int width, size_t *next)
{
	struct letter g, before = {.width = 0};
	utf8proc_int32_t state = 0;
	size_t at = c->at, space = SIZE_MAX,
	       unit = SIZE_MAX; /* the last places to break: at a space; between graphemes */
	int n_cells = 0, unit_cells = 0;

	while (at < c->n) {
		const size_t len = letter_next(c->text + at, c->n - at, &g);
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
	struct letter g;
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
		const size_t len = letter_next(c->text + c->at, c->n - c->at, &g);
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
	/* Somebody may want lines that are narrower than the window. */
	const char *env = getenv("COLUMNS");
	const long wanted = env ? strtol(env, NULL, 10) : 0;
	size_t rows, n = 80;

	if (isatty(STDOUT_FILENO) && wanted > 0)
		n = (size_t)wanted;
	else if (isatty(STDOUT_FILENO))
		term_size(STDOUT_FILENO, &rows, &n);
	return n < COLUMNS_TERMINAL_MIN ? COLUMNS_TERMINAL_MIN : n > COLUMNS_WIDTH_MAX ? COLUMNS_WIDTH_MAX : (int)n;
}
