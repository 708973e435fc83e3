/* What the public headers say, read for their manual pages and their reference: apidoc_read.c reads, apidoc_write.c
 * and apidoc_abi.c write, apidoc.c is the program. A header is taken apart into items in their order; an item belongs
 * to the section above it and has the comment above it, which it may share with the items before it. */
#ifndef APIDOC_H
#define APIDOC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

enum doc_kind { DOC_SECTION, DOC_NOTE, DOC_DEFINE, DOC_TYPE, DOC_ENUM, DOC_STRUCT, DOC_OPAQUE, DOC_FUNC };

struct doc_item {
	enum doc_kind kind;
	int line;
	const char *name; /* of the section, function, struct, enum ("": it has none) or constant */
	const char *decl; /* FUNC, TYPE: one line, with its semicolon; others: as in the header */
	char *about; /* the comment above, without its stars; or NULL. Items that share one have the same pointer */
	char *trail; /* the comment behind it, or NULL */
	const char *usual; /* FUNC: what is said of it when neither comment is; or NULL */
	size_t section; /* index of its section's item; SIZE_MAX: none */
};

struct doc_header {
	char *name; /* "cohort.h" */
	char *title; /* "cohort": the name without .h */
	char *head; /* the comment at the top */
	struct doc_item *items;
	size_t n_items, n_max;
};

/* A member of a struct or an enum. */
struct doc_member {
	char *decl, *about;
};

/* Reads a header's text; path is for its name and for errors. False, with "path:line: what" in error, when it has
 * something that this reader does not know, or a function without a comment or a section. */
bool doc_read(struct doc_header *h, const char *path, const char *text, char *error, size_t n_error);
/* The members of an enum or a struct; returns how many. */
size_t doc_members(const struct doc_item *item, struct doc_member **out);

/* A manual page for every header and every section, and a link to it for each function; a page in Markdown for every
 * header. False: a file in dir cannot be written; errno says why, and error what. */
bool doc_write_man(const struct doc_header *headers, size_t n, const char *dir, const char *version, char *error,
		size_t n_error);
bool doc_write_markdown(const struct doc_header *headers, size_t n, const char *dir, const char *version, char *error,
		size_t n_error);

/* To standard output: a C program (apidoc_abi.c). */
void doc_write_abi(const struct doc_header *headers, size_t n);

/* Zeroed; given back when the program ends. */
void *doc_alloc(size_t n_bytes);
/* A copy of text[0 .. n). */
char *doc_copy(const char *text, size_t n);
#endif
