/* Text as a terminal shows it: which cells a character takes, and what stands for those that no terminal should get. */
#ifndef PROG_WIDTH_H
#define PROG_WIDTH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Whether a character has no shape but changes how others are laid out: marks and embeddings of direction. Joiners are
 * none of them, as scripts and emoji need them. */
bool char_steers(uint32_t cp);

/* What is shown for one character, or for one byte that belongs to none. */
struct glyph {
	char bytes[12]; /* [n_bytes]: printable UTF-8, never a control character */
	size_t n_bytes;
	size_t cells; /* 0 for what joins the glyph before it */
	uint32_t cp; /* the character; U+FFFD for a byte that is none */
};

/* The glyph at the start of s (n > 0) and the bytes it takes there, 1 to 4. Control characters are shown as ^X, other
 * characters that steer a terminal as <U+202E>, bytes that are no UTF-8 as U+FFFD. Line ends and tabs are control
 * characters as well: who gives them a meaning looks at cp. */
size_t glyph_next(const char *s, size_t n, struct glyph *out);

/* Cells of a text that is shown on one line. */
size_t text_cells(const char *s, size_t n);
/* Bytes from the start that fit into so many cells, with the marks that join the last of them. *cells: those taken; may
 * be NULL. */
size_t text_fit(const char *s, size_t n, size_t cells_max, size_t *cells);
/* Offset from which the rest of the text fits into so many cells. */
size_t text_fit_end(const char *s, size_t n, size_t cells_max);

#endif
