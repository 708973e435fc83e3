/* Lines of a text: broken behind spaces, within words that are longer than a line, and around wide characters.
 *
 * 1. No line takes more cells than the width. A space that would is left out, a glyph wider than a whole line becomes a
 *    question mark.
 * 2. Once a line has a successor it is never laid out again: the work for a text is linear in its length. A line has a
 *    bounded number of bytes, so this holds for the last one as well.
 * 3. What is appended comes from glyph_next, or is ours: no text can steer the terminal. */
#include "wrap.h"

#include "width.h"

#include "base/mem.h"

#include <string.h>

enum { TAB = 8, MARKS_MAX = 8 };
static const char newline_mark[] = "\xe2\x86\xb5"; /* U+21B5 */

/* ---- Bytes ---- */

void wrap_put(struct wrap_out *o, const char *bytes, size_t n)
{
	void *at = o->bytes;

	if (o->failed || !mem_grow(&at, &o->bytes_max, o->n_bytes + n, 1)) {
		o->failed = true;
		return;
	}
	o->bytes = at;
	if (n > 0)
		memcpy(o->bytes + o->n_bytes, bytes, n);
	o->n_bytes += n;
}

void wrap_puts(struct wrap_out *o, const char *s)
{
	wrap_put(o, s, strlen(s));
}

/* ---- Glyphs of the two pieces ---- */

static size_t text_bytes(const struct wrap_text *t)
{
	return t->n_head + t->n_tail;
}

/* Bytes of a line, at most: more come from marks without end only. */
static size_t line_bytes_max(size_t width)
{
	return 16 * width + 64;
}

static size_t next(const struct wrap_text *t, size_t at, size_t width, struct glyph *g)
{
	const bool in_head = at < t->n_head;
	const char *s = in_head ? t->head + at : t->tail + (at - t->n_head);
	const size_t len = glyph_next(s, in_head ? t->n_head - at : t->n_tail - (at - t->n_head), g);

	if (g->cells > width) {
		g->bytes[0] = '?';
		g->n_bytes = g->cells = 1;
	}
	return len;
}

/* ---- Layout ---- */

static bool add_line(struct wrap *w, size_t start)
{
	void *at = w->starts;

	if (!mem_grow(&at, &w->lines_max, w->n_lines + 1, sizeof *w->starts))
		return false;
	w->starts = at;
	w->starts[w->n_lines++] = start;
	return true;
}

bool wrap_reset(struct wrap *w, size_t width)
{
	w->width = width;
	w->n_lines = 0;
	return add_line(w, 0);
}

void wrap_release(struct wrap *w)
{
	mem_free(w->starts);
	*w = (struct wrap){.starts = NULL};
}

bool wrap_more(struct wrap *w, const struct wrap_text *t)
{
	const size_t n = text_bytes(t);
	size_t start = w->starts[w->n_lines - 1], at = start, cells = 0, split = start;
	struct glyph g;

	while (at < n) {
		const size_t len = next(t, at, w->width, &g);
		const bool blank = g.cp == ' ' || g.cp == '\t', wide = g.cells == 2 && g.cp >= 0x1100;
		size_t more = g.cp == '\t' ? TAB - cells % TAB : g.cells;

		if (blank && cells + more > w->width)
			more = w->width - cells; /* it hangs over the edge */
		if (wide)
			split = at;
		if (g.cp != '\n' && cells + more <= w->width && at - start < line_bytes_max(w->width)) {
			cells += more;
			if (blank || wide || (g.cells == 0 && split == at))
				split = at + len;
			at += len;
			continue;
		}
		if (g.cp == '\n')
			at += len;
		else if (split > start)
			at = split;
		if (!add_line(w, at))
			return false;
		start = split = at;
		cells = 0;
	}
	return true;
}

/* ---- Lines ---- */

/* Appends the glyphs from `at` to `end`, at most `width` cells. */
static size_t put_range(const struct wrap_text *t, size_t at, size_t end, size_t width, bool flat, bool dim_head,
		struct wrap_out *o)
{
	bool dim = dim_head && at < t->n_head;
	size_t cells = 0, n_marks = 0;
	struct glyph g;

	if (dim)
		wrap_puts(o, "\033[2m");
	while (at < end) {
		if (dim && at >= t->n_head) {
			wrap_puts(o, "\033[22m");
			dim = false;
		}
		at += next(t, at, width, &g);
		if (g.cp == '\n' && !flat)
			break;
		if (g.cp == '\t' || g.cp == '\n') {
			size_t more = g.cp == '\n' || flat ? 1 : TAB - cells % TAB;
			const char *sign = g.cp == '\n' ? newline_mark : " ";
			for (; more > 0 && cells < width; more--, cells++)
				wrap_puts(o, sign);
			continue;
		}
		if (cells + g.cells > width)
			continue;
		n_marks = g.cells == 0 ? n_marks + 1 : 0;
		if (n_marks > MARKS_MAX)
			continue;
		wrap_put(o, g.bytes, g.n_bytes);
		cells += g.cells;
	}
	if (dim)
		wrap_puts(o, "\033[22m");
	return cells;
}

size_t wrap_line(const struct wrap *w, const struct wrap_text *t, size_t i, bool dim_head, struct wrap_out *o)
{
	const size_t end = i + 1 < w->n_lines ? w->starts[i + 1] : text_bytes(t);
	return put_range(t, w->starts[i], end, w->width, false, dim_head, o);
}

static size_t flat_cells(const struct glyph *g)
{
	return g->cp == '\n' || g->cp == '\t' ? 1 : g->cells;
}

size_t wrap_tail(size_t width, const struct wrap_text *t, bool dim_head, struct wrap_out *o, bool *cut)
{
	const size_t n = text_bytes(t), far = line_bytes_max(width);
	size_t from = n > far ? n - far : 0, cells = 0;
	struct glyph g;

	/* Into a character's middle one comes by three bytes at most. */
	for (size_t k = 0; from > 0 && from < n && k < 3; k++) {
		const char c = from < t->n_head ? t->head[from] : t->tail[from - t->n_head];
		if (((unsigned char)c & 0xc0) != 0x80)
			break;
		from++;
	}
	for (size_t at = from; at < n;) {
		at += next(t, at, width, &g);
		cells += flat_cells(&g);
	}
	/* Marks go with the glyph they join. */
	for (bool first = true; from < n; first = false) {
		const size_t len = next(t, from, width, &g);
		if (cells <= width && (first || flat_cells(&g) > 0))
			break;
		cells -= flat_cells(&g);
		from += len;
	}
	*cut = from > 0;
	return put_range(t, from, n, width, true, dim_head, o);
}
