/* Completions for shells from tables of options. */
#ifndef PROG_OPT_COMPLETE_H
#define PROG_OPT_COMPLETE_H

#include "opt.h"

enum shell { SHELL_BASH, SHELL_ZSH, SHELL_FISH };

struct completion {
	enum shell shell;
	const char *program;
	FILE *out;
	bool has_commands;
};

/* "bash", "zsh", "fish"; NULL past the last. */
const char *completion_shell(size_t i);

/* A script: _begin, then for a program with commands _commands and one _table each, or a single _table for one without,
 * then _end. _begin is false for an unknown shell, and then nothing is written. */
bool completion_begin(struct completion *c, const char *shell, const char *program, FILE *out);
/* names[i] and abouts[i], n of them. */
void completion_commands(struct completion *c, const char *const *names, const char *const *abouts, size_t n);
/* command is NULL for a program without any. words are what its operands may be, separated by blanks;
 * NULL: files. files: these and files. */
void completion_table(struct completion *c, const struct opt_prog *p, const char *command, const char *words,
		bool files);
void completion_end(struct completion *c);

#endif
