/* Manual pages from tables of options. */
#ifndef PROG_OPT_MAN_H
#define PROG_OPT_MAN_H

#include "opt.h"

/* The page of a program or command. brief is the line after its name; NULL: the first sentence of p->about. */
void opt_man(const struct opt_prog *p, const char *brief, FILE *out);

/* For pages that are put together otherwise. name is as on the command line ("cohort run"). */
void man_head(const char *name, const char *brief, const char *usage, FILE *out);
void man_section(const char *title, FILE *out);
/* Paragraphs; blocks whose first line is indented stay as they are. */
void man_text(const char *text, FILE *out);
/* An entry of a list: a word, perhaps a place for a value, and what it means. */
void man_entry(const char *word, const char *arg, const char *text, FILE *out);
/* Exit status, environment, files, and other pages ("cohort(1), ..."). */
void man_tail(const char *see, FILE *out);

#endif
