/* What the files of amalgamate share: tokens, pieces and the names that pieces declare. Nothing is freed: the program
 * ends when its file is written. */
#ifndef AMALGAMATE_H
#define AMALGAMATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

enum { PIECES_MAX = 1024 };

enum tok_kind { T_SPACE, T_ID, T_NUMBER, T_TEXT, T_PUNCT }; /* comments are space */

struct tok {
	const char *s; /* [len], in the text of its file, or made by pasting */
	size_t len;
	const char *path;
	int line;
	enum tok_kind kind;
	bool pp;            /* part of a directive */
	bool pp_name;       /* ... and its name, such as define */
	bool made;          /* came out of a macro */
	bool drop;          /* not written */
	const char *insert; /* written before it, or NULL */
	struct tok *from;   /* of a copy: the one in the text that it is, or whose macro made it */
};

/* Declared outside of functions. */
struct name {
	const char *s;
	bool tag;    /* of a struct, union or enum: a namespace of their own */
	bool macro;
	bool made;   /* by a macro */
	const char *to; /* what it is called instead, or NULL */
	bool define;    /* ... by a #define around the piece */
};

struct macro {
	const char *name;
	bool call;               /* has parameters */
	const struct tok *params[16];
	size_t n_params;
	struct tok *body;        /* without space */
	size_t n_body;
};

struct piece {
	const char *path, *stem;
	bool source, public_header, placed;
	bool pastes;           /* it, or what it includes, pastes tokens */
	struct tok *toks;
	size_t n_toks;
	struct piece **deps;   /* headers with guards that it sees, itself or through others; deepest first */
	size_t n_deps;
	struct name *names;
	size_t n_names;
	struct macro *macros;
	size_t n_macros;
};

/* Says file:line: what, and ends the program. */
_Noreturn void fail(const char *path, int line, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
void *grow(void *old, size_t n, size_t size); /* room for element n; doubles */
const char *text_copy(const char *s, size_t len);
const char *file_text(const char *path);
bool tok_is(const struct tok *t, const char *s);
bool same_room(const char *a, const char *b); /* in the same directory */

/* amalgamate_read.c: the file and what it includes, once. Quoted names are looked for in include and src. */
struct piece *piece_load(const char *path);
bool depends(const struct piece *p, const struct piece *on);
void systems_write(void); /* the system's headers that pieces of every machine include */

/* amalgamate_names.c: the names of a piece whose headers were read before it. Marks what becomes static. */
void piece_read(struct piece *p);

#endif
