/* The file that keeps a user's lines between runs: one per line, UTF-8, nobody else's to read. */
#ifndef PROG_LINE_HISTORY_H
#define PROG_LINE_HISTORY_H

#include <stdbool.h>
#include <stddef.h>

enum {
	LINE_HISTORY_MAX = 1000,       /* lines that are kept */
	LINE_HISTORY_BYTES_MAX = 4096  /* of a line; longer ones are not kept */
};

/* Where a program's history is: $XDG_STATE_HOME/cohort/NAME, or ~/.local/state/cohort/NAME. NULL: nowhere (also out of
 * memory). Freed with mem_free. */
char *line_history_path(const char *name, const char *state_home, const char *home);
/* The last lines, oldest first; none when it cannot be read. A file that has grown beyond twice the bound is cut. */
void line_history_load(const char *path, void (*fn)(void *user, const char *text, size_t n_bytes), void *user);
/* Adds a line. False when it could not be written. */
bool line_history_add(const char *path, const char *text, size_t n_bytes);

#endif
