/* Options of llama.cpp that no program here has: what happens when one is given. Names that mean the same as an option
 * here are aliases in the tables instead. */
#ifndef PROG_OPT_FOREIGN_H
#define PROG_OPT_FOREIGN_H

#include <stdbool.h>
#include <stddef.h>

struct opt_foreign;

/* NULL: llama.cpp has no such option, or none that is known here. */
const struct opt_foreign *opt_foreign(const char *name, size_t n);
/* Whether the next word is its value. */
bool opt_foreign_takes(const struct opt_foreign *f, const char *next);
/* Why it is refused; NULL: it is accepted, because no answer depends on it. text: its value or NULL. */
const char *opt_foreign_refusal(const struct opt_foreign *f, const char *text);
/* Why it has no effect. */
const char *opt_foreign_note(const struct opt_foreign *f);

#endif
