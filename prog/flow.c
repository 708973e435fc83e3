/* Lines of a text that is printed as it comes, broken where wrap.c breaks them: behind spaces, around wide characters,
 * within words that are longer than a line.
 *
 * 1. No line takes more cells than the terminal has now, so that the terminal itself never wraps: a word at the end of
 *    a line is on that line, and can be taken back.
 * 2. What is shown comes from glyph_next: no text can steer the terminal. */
#include "flow.h"

#include "term.h"
#include "width.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { TAB = 8 };

static void word_end(struct flow *f)
{
	f->word_cells = f->n_word = 0;
}

static void line_end(struct flow *f)
{
	putchar('\n');
	f->cells = 0;
	word_end(f);
}

/* The next line, with the word that is not finished yet unless it is the whole line. */
static void wrap(struct flow *f)
{
	if (f->n_word == 0 || f->word_cells >= f->cells) {
		line_end(f);
		return;
	}
	/* By the column, not by steps to the left: at the edge terminals differ in where the cursor is. */
	printf("\r\033[%zuC\033[K\n%.*s", f->cells - f->word_cells, (int)f->n_word, f->word);
	f->cells = f->word_cells;
}

static void put_blanks(struct flow *f, size_t n, size_t width)
{
	word_end(f);
	for (; n > 0 && f->cells < width; n--, f->cells++)
		putchar(' ');
}

static void put_glyph(struct flow *f, const struct glyph *g, size_t width)
{
	const bool wide = g->cells == 2 && g->cp >= 0x1100;

	if (wide)
		word_end(f);
	if (f->cells + g->cells > width && f->cells > 0)
		wrap(f);
	fwrite(g->bytes, 1, g->n_bytes, stdout);
	f->cells += g->cells;
	if (wide || (g->cells == 0 && f->n_word == 0)) /* marks go with the wide character before them */
		return;
	if (f->n_word + g->n_bytes > FLOW_WORD_BYTES)
		word_end(f);
	memcpy(f->word + f->n_word, g->bytes, g->n_bytes);
	f->n_word += g->n_bytes;
	f->word_cells += g->cells;
}

void flow_begin(struct flow *f, size_t less)
{
	*f = (struct flow){.wraps = term_moves(STDOUT_FILENO), .less = less};
}

void flow_print(struct flow *f, const char *bytes, size_t n)
{
	struct glyph g;
	size_t rows, width;

	if (!f->wraps) {
		term_print(stdout, bytes, n);
		return;
	}
	term_size(STDOUT_FILENO, &rows, &width);
	width = width > f->less ? width - f->less : 1;
	for (size_t at = 0; at < n;) {
		at += glyph_next(bytes + at, n - at, &g);
		if (g.cp == '\n')
			line_end(f);
		else if (g.cp == ' ')
			put_blanks(f, 1, width);
		else if (g.cp == '\t')
			put_blanks(f, TAB - f->cells % TAB, width);
		else
			put_glyph(f, &g, width);
	}
}
