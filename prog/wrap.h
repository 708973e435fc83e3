/* Text in lines of a given width, laid out as it grows. */
#ifndef PROG_WRAP_H
#define PROG_WRAP_H

#include <stdbool.h>
#include <stddef.h>

/* Bytes that grow at the end. */
struct wrap_out {
	char *bytes; /* [n_bytes] */
	size_t n_bytes, bytes_max;
	bool failed; /* out of memory: what came since is missing */
};
void wrap_put(struct wrap_out *o, const char *bytes, size_t n);
void wrap_puts(struct wrap_out *o, const char *s);

/* A text in two pieces, the first of which is set apart where colours are used: a prompt and its continuation. */
struct wrap_text {
	const char *head, *tail; /* [n_head], [n_tail]; the tail may grow between calls */
	size_t n_head, n_tail;
};

struct wrap {
	size_t width; /* cells, at least 1 */
	size_t *starts; /* [n_lines]: offsets of the lines; at least one */
	size_t n_lines, lines_max;
};

/* An empty layout; the memory of an earlier one is used again. False when out of memory. */
bool wrap_reset(struct wrap *w, size_t width);
void wrap_release(struct wrap *w);
/* Lays out what has come since; lines before the last one stay as they are. False when out of memory. */
bool wrap_more(struct wrap *w, const struct wrap_text *t);
/* Appends line i, without its end; the head dimmed if asked for. Returns the cells it takes, at most the width. */
size_t wrap_line(const struct wrap *w, const struct wrap_text *t, size_t i, bool dim_head, struct wrap_out *o);
/* Appends as much of the text's end as fits on one line, ends of lines shown by a mark. *cut: something is missing. */
size_t wrap_tail(size_t width, const struct wrap_text *t, bool dim_head, struct wrap_out *o, bool *cut);

#endif
