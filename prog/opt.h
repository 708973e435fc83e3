/* Options of a program from one table: the command line, the environment, a configuration file, help, manual pages,
 * completions, suggestions. One dash or two; --name value or --name=value. */
#ifndef PROG_OPT_H
#define PROG_OPT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum opt_type { OPT_FLAG, OPT_STR, OPT_INT, OPT_UINT64, OPT_FLOAT, OPT_LIST };

/* An option that may be given again. */
enum { OPT_LIST_MAX = 256 };
struct opt_list {
	const char *items[OPT_LIST_MAX];
	size_t n;
};

enum { OPT_DRAWN = 1 };
struct opt {
	const char *name;    /* long name without dashes */
	const char *alias;   /* other names, separated by bars, llama.cpp's among them; or NULL */
	enum opt_type type;
	void *value; /* bool, const char *, int64_t, uint64_t, double, struct opt_list */
	double min, max; /* for numbers; min OPT_DRAWN of an OPT_UINT64: its default is drawn */
	/* "N"; "FILE..." and "DIR..." are names in the file system, "FILE.gguf" those of models; "a|b|c", "a|b|FILE" or
	 * "a|b|N..." are the words that it may be, which completions offer; NULL for flags. */
	const char *arg;
	const char *help;    /* with the default in words */
	bool *given;         /* may be NULL */
};

struct opt_prog {
	const char *name;    /* "batched", "cohort logits" */
	const char *usage;   /* after the name */
	const char *about;   /* one or two lines */
	const char *examples;
	const struct opt *opts;
	size_t n_opts;
};

/* Parses argv[from..]. What it does not say comes from COHORT_* variables, what these do not say from the configuration
 * file. Operands go to operands[0..*n_operands), at most n_max. Strings are borrowed from argv, from the environment,
 * or from memory that stays until the program ends. Returns 0 to go on, or an exit code plus 1: 1 after help or values
 * were printed (exit 0; 5 if they could not be written), 3 after an error with a hint on stderr (exit 2), 5 when the
 * configuration file cannot be read (exit 4), 2 when memory is out (exit 1). */
int opt_parse(const struct opt_prog *p, int argc, char **argv, int from, const char **operands, size_t n_max,
		size_t *n_operands);
/* Sets one option by its name, for who asks while a program runs (a flag: on, off and the like): 0, or 3 after the same
 * words as opt_parse's but for where help is, and nothing has changed. */
int opt_set(const struct opt_prog *p, const char *name, const char *text);
void opt_help(const struct opt_prog *p, FILE *out);
/* Name i of an option into out: 0 is its own, the others are aliases. False past the last. */
enum { OPT_NAME_BYTES = 64 };
bool opt_name(const struct opt *o, size_t i, char out[OPT_NAME_BYTES]);
/* Whether one of its names is name[0 .. n). */
bool opt_called(const struct opt *o, const char *name, size_t n);
/* A group of options for help: a heading, and whether an option belongs there. NULL past the last. */
const char *opt_group(size_t i);
bool opt_in_group(const struct opt *o, size_t i);
/* Tables that are smaller are not divided. */
enum { OPT_GROUPED = 16 };

/* The lines of opt_help about options. */
void opt_help_options(const struct opt *opts, size_t n, FILE *out);
/* Prints the name of the best match for a misspelt word, or nothing. */
const char *opt_nearest(const char *word, const char *const *names, size_t n);

/* The options that every program has: -config, -no-config, -show-config, -help. */
enum { OPT_COMMON = 4 };
extern const struct opt opt_common[OPT_COMMON];

/* With a visitor opt_parse hands it the table and returns 1, without looking at anything else: so who calls a command's
 * function gets to its table. NULL ends that. */
void opt_visit(void (*visitor)(const struct opt_prog *p, void *user), void *user);

/* COHORT_N_PREDICT for n-predict; false if it does not fit, or if the name is not one that the environment may give:
 * COHORT_CONFIG names the file, COHORT_VERSION, COHORT_BUILD, COHORT_SOURCE and COHORT_SHARED are builders' and tests'.
 */
enum { OPT_VARIABLE_BYTES = 64 };
bool opt_variable(const char *name, char out[OPT_VARIABLE_BYTES]);

#endif
