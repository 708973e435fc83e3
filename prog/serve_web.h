/* The web page, as it is in the binary: prog/web, embedded by tools/embed_web.sh. Static and immutable: any thread. */
#ifndef PROG_SERVE_WEB_H
#define PROG_SERVE_WEB_H

#include <stddef.h>

struct web_file {
	const char *path; /* "/" or "/ui/NAME" */
	const char *type; /* for Content-Type */
	const unsigned char *bytes; /* [size] */
	size_t size;
	const char *etag; /* with its quotes: another content has another one */
};

/* What every file is to be served with: nothing but its own files and this server, no frame around it. */
#define WEB_SECURITY_POLICY "default-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'self'"

/* NULL: there is no such file. The path is compared as it is: no query, no dots, no decoding. */
const struct web_file *web_file_find(const char *path);

/* The generated table. */
extern const struct web_file web_files[];
extern const size_t n_web_files;

#endif
