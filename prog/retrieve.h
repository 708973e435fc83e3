/* What `cohort retrieve` is made of: finding files, cutting them into chunks. */
#ifndef PROG_RETRIEVE_H
#define PROG_RETRIEVE_H

#include "doc_index.h"

/* Paths of files below a folder, sorted; or the file itself. */
struct path_list {
	char **paths; /* owned, each from mem_strndup */
	size_t n, n_max;
	size_t n_unreadable; /* folders that could not be looked into: said on stderr */
};
/* Hidden ones (their name begins with a dot), links to folders and what is no regular file are left out. Returns 0, or
 * an exit code after saying why. */
int walk_files(const char *prog, const char *root, struct path_list *list);
void path_list_release(struct path_list *list);

/* Whether bytes look like text: no NUL in the first 64 KiB, and at most a tenth of it no UTF-8. */
bool looks_like_text(const char *bytes, size_t n);

struct chunking {
	const struct cohort_model *m;
	size_t size, overlap; /* tokens; size with those that the model adds */
	const char *separator; /* or NULL */
	size_t n_separator;
};
/* Adds the chunks of a text to the last file of the index, those until then when interrupted. False when memory is out.
 */
bool chunk_text(const struct chunking *c, const char *text, size_t n, struct doc_index *ix);

#endif
