/* Command-line options from one table: parsing, help, suggestions. One dash or two; --name value or --name=value. */
#ifndef PROG_OPT_H
#define PROG_OPT_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

enum opt_type { OPT_FLAG, OPT_STR, OPT_INT, OPT_UINT64, OPT_FLOAT, OPT_LIST };

/* An option that may be given again. */
enum { OPT_LIST_MAX = 256 };
struct opt_list {
	const char *items[OPT_LIST_MAX];
	size_t n;
};

struct opt {
	const char *name;    /* long name without dashes */
	const char *alias;   /* another name or NULL */
	enum opt_type type;
	void *value;         /* bool, const char *, int64_t, uint64_t, double, struct opt_list */
	double min, max;     /* for numbers */
	const char *arg;     /* "FILE", "N"; NULL for flags */
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

/* Parses argv[from..]. Operands go to operands[0..*n_operands), at most n_max. Returns 0 to go on, or an exit code plus
 * 1: 1 after help was printed (exit 0; 5 if it could not be written), 3 after an error with a hint on stderr (exit 2).
 */
int opt_parse(const struct opt_prog *p, int argc, char **argv, int from, const char **operands, size_t n_max,
		size_t *n_operands);
/* Sets one option by its name, for who asks while a program runs: 0, or 3 after the same words as opt_parse's. */
int opt_set(const struct opt_prog *p, const char *name, const char *text);
void opt_help(const struct opt_prog *p, FILE *out);
/* Prints the name of the best match for a misspelt word, or nothing. */
const char *opt_nearest(const char *word, const char *const *names, size_t n);

#endif
