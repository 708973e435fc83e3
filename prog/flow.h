/* A text on standard output as it comes. On a terminal lines end between words; elsewhere the text is its bytes. */
#ifndef PROG_FLOW_H
#define PROG_FLOW_H

#include <stdbool.h>
#include <stddef.h>

enum { FLOW_WORD_BYTES = 512 };

struct flow {
	bool wraps;
	size_t less;  /* cells of the terminal's width that stay empty */
	size_t cells; /* of the line so far */
	size_t word_cells, n_word;
	char word[FLOW_WORD_BYTES]; /* [n_word]: the last word, as it is shown */
};

/* The cursor is at the beginning of a line. */
void flow_begin(struct flow *f, size_t less);
/* Pieces are whole characters. Nothing is held back: a word that turns out too long for its line is moved. */
void flow_print(struct flow *f, const char *bytes, size_t n);

#endif
