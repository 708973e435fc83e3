/* Texts in columns of a terminal: what characters look like, how wide they are, where lines end. */
#ifndef PROG_COLUMNS_H
#define PROG_COLUMNS_H

#include "sink.h"

#include <stdint.h>

enum { COLUMNS_MIN = 24, COLUMNS_WIDTH_MIN = 24, COLUMNS_WIDTH_MAX = 1000, COLUMNS_TERMINAL_MIN = 8 };

/* One character, as it is shown: a glyph (width.h), but that spaces, tabs and line ends have their meaning. */
struct letter {
	char bytes[16];
	size_t n_bytes;
	int width;
	uint32_t cp;   /* as in the text; U+FFFD for a byte that is no UTF-8 */
	bool plain;    /* shown as itself */
	bool space, line_end;
};
/* The first character of s[0..n), n > 0; returns the bytes it takes. */
size_t letter_next(const char *s, size_t n, struct letter *l);

/* A text on its way into a column. [mark, mark_end) is a word to be pointed out; both 0: none. */
struct column {
	const char *text;
	size_t n, at;
	size_t mark, mark_end;
	bool begun;    /* a line came out: spaces at the beginning of the next are left out */
};
/* The next line, at most width wide and without spaces behind, into out; its width in *n_cells. False: none is left. */
bool column_line(struct column *c, int width, bool colours, struct sink *out, int *n_cells);

/* Of standard output: COLUMNS, or what the terminal says; 80 when it is none. */
int columns_terminal(void);

#endif
