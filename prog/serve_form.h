/* A form with files (multipart/form-data) in pieces as they come: fields go to their reader byte by byte, and nothing
 * but a part's headers is kept. */
#ifndef PROG_SERVE_FORM_H
#define PROG_SERVE_FORM_H

#include <stdbool.h>
#include <stddef.h>

enum {
	FORM_HEADERS_MAX = 4096,
	FORM_PARTS_MAX = 32,
	FORM_NAME_MAX = 128,
	FORM_FILENAME_MAX = 256,
	FORM_BOUNDARY_MAX = 70
};

enum form_state { FORM_PREAMBLE, FORM_AFTER, FORM_HEADERS, FORM_DATA, FORM_EPILOGUE, FORM_FAILED };

struct form {
	/* A part begins; filename is NULL for one that is none. Bytes of it. False from either ends the form: they say
	 * why themselves. */
	bool (*on_part)(void *user, const char *name, const char *filename);
	bool (*on_data)(void *user, const char *bytes, size_t n);
	void *user;
	char why[160]; /* after a failure of the form's own; "" when a reader refused */

	enum form_state state;
	char delimiter[FORM_BOUNDARY_MAX + 8]; /* "\r\n--" and the boundary */
	size_t n_delimiter, n_matched;
	char headers[FORM_HEADERS_MAX + 1];
	size_t n_headers;
	char after[4]; /* of what follows a delimiter */
	size_t n_after;
	int n_parts;
};

/* False, with the reason in why: the content type is not such a form's. Readers may be set before or after. */
bool form_init(struct form *f, const char *content_type);
bool form_push(struct form *f, const char *bytes, size_t n);
/* At the end: whether the form is whole. */
bool form_end(struct form *f);

#endif
