/* Lines that are texts or commands: what the programs that talk with a user share. */
#ifndef PROG_TALK_H
#define PROG_TALK_H

#include "line.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum talk_kind {
	TALK_EMPTY,  /* blanks only */
	TALK_TEXT,
	TALK_COMMAND /* it begins with a colon; two are a text that begins with one */
};

struct talk_line {
	enum talk_kind kind;
	const char *text;  /* TEXT: [n_text]; COMMAND: what follows the name, without blanks around it */
	size_t n_text;
	const char *name;  /* COMMAND: [n_name], without the colon */
	size_t n_name;
};

void talk_parse(const char *line, size_t n_bytes, struct talk_line *out);

/* Returns 0, or an exit code after saying why. */
typedef int talk_fn(void *user, const char *args);

struct talk_command {
	const char *name;  /* ":help" */
	const char *args;  /* "FILE" or "" */
	const char *about;
	talk_fn *run;
};

enum { TALK_UNKNOWN = -1, TALK_AMBIGUOUS = -2 };
/* Which command a name, or an unambiguous beginning of it, means: its index, UNKNOWN or AMBIGUOUS. */
int talk_find(const struct talk_command *commands, size_t n_commands, const char *name, size_t n_name);
/* The commands, on stderr. */
void talk_help(const struct talk_command *commands, size_t n_commands);

/* A whole number from min to max at *args, with blanks or the end behind; *args goes past it. False, and nothing moves,
 * if there is none. */
bool talk_number(const char **args, int64_t min, int64_t max, int64_t *out);

enum { TALK_COMMANDS_MAX = 32 };
struct talk {
	const char *prog;
	const struct talk_command *commands;
	size_t n_commands;         /* at most TALK_COMMANDS_MAX */
	talk_fn *say;              /* a text: NUL-terminated; said.n_text has its size when it may hold NUL bytes */
	void *user;
	bool quit;                 /* set by a command: the talk ends */
	/* talk_run's own. */
	struct line *line;
	struct talk_line said; /* the line, or lines, being worked on */
	bool quoted; /* they stood between marks, and are a text whatever they look like */
	char *text; /* [n_text] of several lines */
	size_t n_text, text_max;
	const char *names[TALK_COMMANDS_MAX];
};

/* Reads lines until they end, working on each. The exit code: on a terminal 0, as everything was seen; else that of the
 * first failure; EXIT_INTERRUPTED after Ctrl-C. What a line's work was interrupted for (EXIT_INTERRUPTED) ends the talk
 * only without a terminal, or if it was SIGTERM. */
int talk_run(struct talk *t, const char *prompt, const char *history, const char *const *names, size_t n_names);

#endif
