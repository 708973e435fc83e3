/* The terminal: what it can do, how large it is, texts made safe for it, and taking it over for a view that is redrawn
 * in place. */
#ifndef PROG_TERM_H
#define PROG_TERM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

/* fd is a terminal whose cursor can be moved: TERM is set and is not "dumb". */
bool term_moves(int fd);
/* ... and colours are wanted: NO_COLOR is not set, or empty. */
bool term_colors(int fd);
/* Its size, at least 1 by 1; where it cannot be asked, LINES and COLUMNS, or 24 by 80. */
void term_size(int fd, size_t *rows, size_t *cols);
/* Whether we are the ones the user looks at: not put into the background by the shell. */
bool term_foreground(int fd);

/* A text for a terminal: control characters as ^X, but for line ends and tabs, other characters that steer a terminal
 * as <U+202E>, bytes that are no UTF-8 as U+FFFD. It ends with a NUL, which n_out (may be NULL) does not count. Freed
 * with mem_free; NULL when out of memory. */
char *term_safe(const char *s, size_t n, size_t *n_out);

/* A text of others: to a file or a pipe its bytes, to a terminal as term_safe has it. Pieces are whole characters. */
void term_print(FILE *out, const char *bytes, size_t n);

/* All of it, whatever interrupts; false when it cannot be written. */
bool term_write(int fd, const char *bytes, size_t n);

/* Takes the terminal over: no cursor, no wrapping at the edge, no echo of keys. Signals that end or stop the program
 * give it back first. One at a time. */
void term_hold(int fd);
/* The same again after the program was stopped and went on. */
void term_hold_again(void);
void term_release(void);
/* Since the last call, while held: the size changed; the program was stopped and went on. */
bool term_resized(void);
bool term_continued(void);

#endif
