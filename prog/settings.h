/* Options that can be changed while a program runs: `:set`. The same tables as on the command line, so the same names,
 * ranges and errors. */
#ifndef PROG_SETTINGS_H
#define PROG_SETTINGS_H

#include "opt.h"
#include "sampling.h"

enum { SETTINGS_MAX = 64 };

struct settings {
	const struct opt_prog *prog;  /* the program's */
	struct sampling *s;
	const struct cohort_model *model;
	struct opt opts[SETTINGS_MAX];
	struct opt_prog own;          /* those that can be changed */
	const char *names[SETTINGS_MAX];
	unsigned char *start;         /* the values they had, one behind the other */
	size_t at[SETTINGS_MAX];      /* where */
	bool given[SETTINGS_MAX];     /* the same for their given */
	char **texts;                 /* [n_texts]: what options of texts point to */
	size_t n_texts, texts_max;
};

/* Of the options of p: those of s, and others by name ([n_names]). s has been opened. Returns 0 or an exit code. */
int settings_init(struct settings *st, const struct opt_prog *p, struct sampling *s, const struct cohort_model *model,
		const char *const *names, size_t n_names);
void settings_release(struct settings *st);
/* "": shows all on stderr. "NAME": shows it. "NAME VALUE": sets it; the value `default` is the one of the start. A flag
 * is on or off. Returns 0, or an exit code after saying why: then nothing has changed. */
int settings_set(struct settings *st, const char *args);

#endif
