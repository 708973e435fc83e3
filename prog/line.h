/* Lines from the user: edited on a terminal, with a history; plain from a pipe or a file. */
#ifndef PROG_LINE_H
#define PROG_LINE_H

#include <stdbool.h>
#include <stddef.h>

enum { LINE_BYTES_MAX = 1 << 24 }; /* of a line */

enum line_result {
	LINE_OK,
	LINE_END,         /* of the input; Ctrl-D */
	LINE_INTERRUPTED, /* Ctrl-C twice on a terminal, once otherwise; SIGTERM */
	LINE_CANCELLED,   /* Ctrl-C in a line that goes on another */
	LINE_LONG,        /* more than LINE_BYTES_MAX bytes: it was left out, the next one can be read */
	LINE_FAILED       /* said on stderr */
};

struct line; /* opaque */

struct line_params {
	const char *prog;            /* for messages */
	const char *prompt;          /* on a terminal */
	const char *history;         /* name of the file it is kept in; NULL: only while the program runs */
	const char *const *commands; /* [n_commands], with their colons: what Tab completes at the beginning */
	size_t n_commands;
	const char *names_of;        /* a command, with its colon: */
	const char *const *names;    /* [n_names], what Tab completes behind it */
	size_t n_names;
};

/* params, and what it points to, must outlive the reader. NULL when out of memory. catch_signals has been called. */
struct line *line_open(const struct line_params *params);
void line_free(struct line *l);
/* Whether somebody sits there: both standard input and standard error are a terminal. */
bool line_is_terminal(const struct line *l);
/* The next line without its end, with a NUL behind; good until the next call. It may hold any bytes, also NUL; on a
 * terminal a paste may have line ends in it. more: the line goes on a text that was begun; it has another prompt. */
enum line_result line_read(struct line *l, bool more, const char **text, size_t *n_bytes);

/* What Tab does with the first n bytes of a line: how many of the words begin so (matches[0 .. min(n, n_max)) points to
 * them), and the bytes to insert that all of them have in common (*more, of *n_more bytes, within the first). */
size_t line_complete(const struct line_params *params, const char *text, size_t n, const char **matches, size_t n_max,
		const char **more, size_t *n_more);

#endif
